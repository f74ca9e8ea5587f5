//! `programs/telemetry` on a path of two switches and a sink, by `replay`: what the stack says is what the queues did, and
//! the packets come out as they went in.

use std::path::Path;

use wireyard_tests::binary::run;
use wireyard_tests::capture;

use crate::queues::frame;
use crate::run::write_pcap;

const PROGRAM: &str = "programs/telemetry";
const PACKETS: u64 = 20;
const BYTES: usize = 1000;
/// Bytes of shim and metadata header, and of a hop.
const HEADERS_BYTES: usize = 4 + 12;
const HOP_BYTES: usize = 32;
/// Where the stack is: behind Ethernet, IPv4, UDP, shim and metadata header.
const STACK_AT: usize = 14 + 20 + 8 + HEADERS_BYTES;

/// One element of the stack.
#[derive(Debug, PartialEq, Eq)]
struct Hop {
    node: u64,
    ports: (u64, u64),
    latency_ns: u64,
    queue_bytes: u64,
    ingress_ns: u64,
    egress_ns: u64,
}

fn hop(bytes: &[u8]) -> Hop {
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    Hop {
        node: number(0, 4),
        ports: (number(4, 6), number(6, 8)),
        latency_ns: number(8, 12),
        queue_bytes: number(13, 16),
        ingress_ns: number(16, 24),
        egress_ns: number(24, 32),
    }
}

/// One switch of the path, from `from` by port 1 to files for ports 2 and 3.
fn pass(
    folder: &Path,
    role: &str,
    config: &str,
    from: &Path,
) -> (std::path::PathBuf, Vec<Vec<u8>>) {
    let file = |port: u8| folder.join(format!("{role}.{port}.pcap"));
    let input = format!("1={}", from.display());
    let outputs = [2, 3].map(|port| format!("{port}={}", file(port).display()));
    let entries = format!("{PROGRAM}/{role}.yaml");
    let config = format!("{PROGRAM}/{config}");
    let [two, three] = &outputs;
    run(&[
        "replay",
        PROGRAM,
        "--entries",
        &entries,
        "--config",
        &config,
        "--in",
        &input,
        "--out",
        two,
        "--out",
        three,
    ])
    .expect(0, &[]);
    let reports = capture::read(&file(3)).expect("pcap").records;
    (file(2), reports.into_iter().map(|(bytes, _)| bytes).collect())
}

#[test]
fn the_stack_says_what_the_queues_of_two_switches_did() {
    let folder = tempfile::tempdir().unwrap();
    let sent: Vec<Vec<u8>> =
        (0..PACKETS).map(|psn| frame(1, 2, 26, 2, psn as u32, BYTES)).collect();
    let start = folder.path().join("start.pcap");
    // A packet each microsecond.
    write_pcap(&start, &sent);
    let (first, _) = pass(folder.path(), "entries", "slow.yaml", &start);
    let (second, _) = pass(folder.path(), "transit", "slow.yaml", &first);
    let (last, reports) = pass(folder.path(), "sink", "switch.yaml", &second);
    let received = capture::read(&last).expect("pcap").records;
    assert!(received.iter().map(|(bytes, _)| bytes).eq(&sent), "the host sees no telemetry");
    assert_eq!(reports.len() as u64, PACKETS);
    // With its first hop, FCS, preamble and gap, at 1 Gbit/s.
    let packet_ns = (BYTES + HEADERS_BYTES + HOP_BYTES + 24) as u64 * 8;
    for (n, report) in (0..).zip(&reports) {
        assert_eq!(report.len(), BYTES + HEADERS_BYTES + 2 * HOP_BYTES);
        let newest = hop(&report[STACK_AT..]);
        let oldest = hop(&report[STACK_AT + HOP_BYTES..]);
        let (ingress_ns, egress_ns) = (n * 1000, n * packet_ns);
        let arrived = (egress_ns / 1000 + 1).min(PACKETS);
        let expected = Hop {
            node: 1,
            ports: (1, 2),
            latency_ns: egress_ns - ingress_ns,
            queue_bytes: (arrived - n - 1) * (BYTES + HEADERS_BYTES) as u64,
            ingress_ns,
            egress_ns,
        };
        assert_eq!(oldest, expected, "packet {n}");
        assert_eq!((newest.node, newest.ports), (2, (1, 2)));
        assert_eq!(newest.latency_ns, newest.egress_ns - newest.ingress_ns, "packet {n}");
        // The second link is as fast, and each packet has grown by its hop: it waits a little longer than the one before.
        let more_ns = HOP_BYTES as u64 * 8;
        assert_eq!(newest.latency_ns, n * more_ns, "packet {n}");
    }
}
