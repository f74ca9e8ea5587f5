//! `nic_notification_point` on captures of two Linux hosts: marks are answered to the queue pair that
//! sent them, although no packet names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use wireyard_pipeline::decode::Parsed;
use wireyard_switch::decode::Frame;
use wireyard_tests::binary::run;
use wireyard_tests::{shared, skip};

use crate::packets::{dissector, each_record};

const PROGRAM: &str = "programs/nic_notification_point";

/// The fields of every RoCE packet of a capture.
fn fields(path: &Path, names: &[&str]) -> Vec<Vec<u128>> {
    let mut dissector = dissector();
    let mut all = Vec::new();
    let value = |parsed: &Parsed<'_>, name: &str| parsed.field(name).unwrap_or(0);
    each_record(path, |_, record| {
        let parsed = dissector.decode(Frame::of(record).unwrap()).unwrap().parsed;
        if parsed.header("bth").is_some() {
            all.push(names.iter().map(|name| value(&parsed, name)).collect());
        }
    });
    all
}

#[test]
fn marked_packets_of_a_capture_are_answered() {
    let Some(shared) = shared() else {
        return skip("marked_packets_of_a_capture_are_answered", "no ../shared/captures");
    };
    for (file, source) in [("45_rc_ce_mtu256_v4", "ipv4"), ("46_rc_ce_mtu256_v6", "ipv6")] {
        let capture = shared.join(format!("captures/linux-rxe-6.12/given/{file}.pcap"));
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.pcap");
        let (from, to) = (format!("1={}", capture.display()), format!("1={}", out.display()));
        let wires = format!("{PROGRAM}/wires.yaml");
        let ended =
            run(&["replay", PROGRAM, "--json", "--entries", &wires, "--in", &from, "--out", &to]);
        ended.expect(0, &[]);
        let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let count = |name: &str| report["notification"][name].as_u64().unwrap();
        let (src, dst, ecn) =
            (format!("{source}.src"), format!("{source}.dst"), format!("{source}.ecn"));
        let rows = fields(&capture, &[&src, &dst, "bth.opcode", "bth.dqpn", &ecn]);
        let marked = rows.iter().filter(|row| row[4] == 3 && row[2] != 0x11).count() as u64;
        assert_eq!(count("reported"), marked, "{file}: {report}");
        assert_eq!(count("unbuildable") + count("not_transport"), 0, "{report}");
        // The first acknowledgements teach; what is marked before that is counted.
        let answered = count("cnp_sent");
        assert!(answered > 1 && count("cnp_no_qp_pair") > 0, "{file}: {report}");
        // What is sent to an address says which queue pairs it has.
        let mut queue_pairs: BTreeMap<u128, BTreeSet<u128>> = BTreeMap::new();
        for row in &rows {
            queue_pairs.entry(row[1]).or_default().insert(row[3]);
        }
        let cnps = fields(&out, &[&src, &dst, "bth.opcode", "bth.dqpn", "bth.becn"]);
        assert_eq!(cnps.len() as u64, answered, "{file}");
        for cnp in cnps {
            assert_eq!((cnp[2], cnp[4]), (0x81, 1), "{file}");
            assert!(queue_pairs[&cnp[1]].contains(&cnp[3]), "{file}: {cnp:x?}");
        }
        let sums = run(&["decode", out.to_str().unwrap(), "--verify-crc"]);
        sums.expect(0, &[]);
    }
}
