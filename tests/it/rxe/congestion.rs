//! Two Linux Soft-RoCE hosts through a port that has a tenth of what they can do: marks, queue, and pauses that nobody obeys.
//!
//! Soft-RoCE neither sends nor obeys PFC, and has at most 128 unacknowledged packets on each queue pair; so a class that has
//! room for those of all queue pairs loses nothing, and one that has not loses packets under a name.

use std::path::Path;

use serde_json::Value;
use wireyard_tests::live::Switch;

use super::{Machines, place_for_machines};
use crate::congested::{counters, dropped, queue};
use crate::emitted::tshark;
use crate::run::WHOLE_MACHINE;

/// RXE_MAX_UNACKED_PSNS of the driver.
const UNACKNOWLEDGED: u64 = 128;
const QUEUE_PAIRS: u64 = 2;
/// A WRITE FIRST at path MTU 1024: Ethernet, IPv4, UDP, BTH, RETH, payload, ICRC.
const FRAME_BYTES: u64 = 14 + 20 + 8 + 12 + 16 + 1024 + 4;
const XOFF_BYTES: u64 = 60_000;
/// DSCP 26 and ECT(0).
const TRAFFIC_CLASS: &str = "--tclass=106";

/// A switch whose port to B has this rate, and whose lossless class has this much room.
fn start(folder: &Path, rate_kbit: u64, room_bytes: u64) -> Switch {
    let text = format!(
        "ports: {{ 1: {{ rate: 10Gbps, mtu: 1518 B }}, 2: {{ rate: {rate_kbit}kbit/s, mtu: 1518 B }} }}
qos:
  preset: onyx_roce
  wred_profiles: {{ ROCE: {{ green: {{ kmin: 20 KB, kmax: 200 KB, pmax: 10 % }} }} }}
  buffer_profiles:
    ingress_lossless: {{ pool: ingress_lossless_pool, static_th: {XOFF_BYTES} B, headroom: {} B, xon_at: 30 KB }}
",
        room_bytes - XOFF_BYTES
    );
    let config = folder.join("switch.yaml");
    std::fs::write(&config, text).unwrap();
    Switch::start(&[
        "programs/rocev2_lossless",
        "--config",
        config.to_str().unwrap(),
        "--port",
        "1=raw:tapA",
        "--port",
        "2=raw:tapB",
        "--json",
    ])
}

impl Machines {
    /// A command in the guest B.
    fn in_b(&self, command: &str) -> String {
        let done =
            self.command(&["exec", "-t", "30", "B", command]).output().expect("the rig runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        text
    }

    /// `ib_write_bw` of 64 KiB messages from A to B; Gbit/s, or what went wrong.
    fn write(&self, more: &str) -> Result<f64, String> {
        let all = format!(
            "ib_write_bw -d rxe0 -x $GID4 -m 1024 -s 65536 -F --report_gbits {TRAFFIC_CLASS} {more}"
        );
        let client = format!("set -o pipefail; {all} $PEER4 | awk '$1 == 65536 {{ print $4 }}'");
        let done =
            self.command(&["pair", "-t", "60", &all, &client]).output().expect("the rig runs");
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        match (done.status.success(), out.trim().parse()) {
            (true, Ok(rate)) => Ok(rate),
            _ => Err(format!("{out}{err}")),
        }
    }
}

/// The lossless group of port 1, where the traffic comes in.
fn group(report: &Value) -> &Value {
    let groups = report["queueing"]["ports"][0]["groups"].as_array().expect("groups");
    groups.iter().find(|group| group["group"] == 3).expect("the lossless group")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn two_linux_hosts_are_marked_and_nothing_is_lost_while_there_is_room() {
    let _alone = WHOLE_MACHINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let test = "two_linux_hosts_are_marked_and_nothing_is_lost_while_there_is_room";
    let Some((shared, _network)) = place_for_machines(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::start(&shared, folder.path());
    let room_bytes = QUEUE_PAIRS * UNACKNOWLEDGED * FRAME_BYTES;

    let unlimited = start(folder.path(), 10_000_000, room_bytes);
    let rate = machines.write("-D 2").unwrap_or_else(|why| panic!("{why}"));
    counters(&unlimited.end("INT"));

    // The longest wait in the queue is above the usual timeout of a queue pair: 20 is 4.3 s.
    let tenth_kbit = ((rate * 1e5) as u64).max(1000);
    let switch = start(folder.path(), tenth_kbit, room_bytes);
    machines.in_b(
        "nstat -n; tcpdump -i $NIC -s 80 -U -w /host/egress.pcap 'udp port 4791' > /tmp/cap.log 2>&1 &
         until grep -q listening /tmp/cap.log; do sleep 0.05; done",
    );
    let through = machines.write(&format!("-q {QUEUE_PAIRS} -n 20 -u 20"));
    let through = through.unwrap_or_else(|why| panic!("{why}"));
    let marked = machines.in_b("nstat -z IpExtInCEPkts | awk '/CEPkts/ { print $2 }'; kill %1 2> /dev/null; killall tcpdump");
    let report = counters(&switch.end("INT"));
    let (group_3, queue_3) = (group(&report), queue(&report, 1, 3));
    eprintln!(
        "{test}: {rate} Gbit/s, then {through} through {tenth_kbit} kbit/s; {queue_3}; {group_3}"
    );
    assert!(through <= tenth_kbit as f64 / 1e6, "{through}");
    assert_eq!(dropped(&report, None), 0, "{report:#}");
    // What was marked came out and arrived.
    let capture = machines.state.join("B/share/egress.pcap");
    let seen = tshark(
        &capture,
        "ip.dsfield.ecn == 3 && ip.dst == 10.77.0.2 && infiniband",
        &["frame.number"],
    )
    .len() as u64;
    assert!(seen > 0, "no CE on the wire");
    assert!(number(&queue_3["marked"]) >= seen, "{seen} seen, {queue_3}");
    assert_eq!(marked.trim().parse(), Ok(number(&queue_3["marked"])), "{queue_3}");
    // The queue is as long as the hosts make it, which do not listen, and no longer than its room.
    let peak = number(&queue_3["peak_bytes"]);
    assert!(peak > XOFF_BYTES && peak <= room_bytes, "{queue_3}");
    assert!(number(&group_3["xoff"]) > 0 && number(&group_3["not_honoured"]) > 0, "{group_3}");
    assert!(number(&report["queueing"]["ports"][0]["pauses"][0]["sent"]) > 0, "{report:#}");

    // With half of the room packets are lost, under a name; whether the hosts get over it is their matter.
    let switch = start(folder.path(), tenth_kbit, room_bytes / 2);
    let over = machines.write(&format!("-q {QUEUE_PAIRS} -n 5"));
    let report = counters(&switch.end("INT"));
    let lost = dropped(&report, Some("headroom_exhausted"));
    eprintln!("{test}: with half of the room {lost} packets lost; {over:?}");
    assert!(lost > 0, "{report:#}");
    assert_eq!(dropped(&report, None), lost, "{report:#}");
    let group_3 = group(&report);
    assert!(number(&group_3["peak_bytes"]) <= room_bytes / 2 + FRAME_BYTES, "{group_3}");
}
