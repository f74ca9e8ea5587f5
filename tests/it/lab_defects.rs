//! Defects that a known simulator of DCQCN has (HPCC's, on ns-3), and that the laboratory reports when something breaks.
//!
//! Each test is a situation in which that simulator went wrong without a word, or would have, through the binary.

use serde_json::Value;

use crate::lab::{figure, lab, scenario};

/// Sixteen senders, and a queue that may hold half of its pool before any pause is sent.
const SILENT_LOSS: &str = "
lab: silent_loss
duration: 1 ms
sample: 10 us
link: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 16 } }
switch:
  program: PROGRAMS/rocev2_lossless
  qos:
    preset: onyx_roce
    buffer_pools: { egress_lossless_pool: { direction: egress, size: 32 MB } }
    buffer_profiles: { egress_lossless: { pool: egress_lossless_pool, pool_alpha: 1 } }
host: { program: PROGRAMS/roce_nic, rate_control: hpcc_dcqcn_paper }
flows: { from: senders, to: sink, size: 4 MB }
";

#[test]
fn a_lossless_class_never_loses_in_silence() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = lab(&[&scenario(folder.path(), SILENT_LOSS)]);
    refused.expect(
        2,
        &[
            "s1, port 1, priority group 3 (and 16 more): its packets wait in queue 3",
            "which drops beyond 16 MB",
            "scenario.yaml:9:3",
            "nothing was run",
        ],
    );
    // `allow_lossy_headroom` lets it start; it fails at the first loss.
    let insisting =
        SILENT_LOSS.replace("    preset:", "    allow_lossy_headroom: true\n    preset:");
    let ended = lab(&[&scenario(folder.path(), &insisting)]);
    ended.expect(
        1,
        &[
            "check lossless failed",
            "packets of lossless class 3 were dropped",
            "seed 1",
            // The packet that was lost first: when it came, what the program did, where it ended.
            "the packet, 1082 bytes, came into `s1` by port",
            "extract ipv4, 20 bytes at 14",
            "table routes4: hit",
            "forward to port 17, 1082 bytes\ndropped: queue_threshold\n  0000  02 00 00 00 00 11",
        ],
    );
    let traces = ended.err.matches("ingress: port").count();
    assert_eq!(traces, 1, "one packet, one trace: {}", ended.err);
    assert!(ended.out.contains("FAIL  check lossless breaks"), "{}", ended.out);
}

#[test]
fn headroom_that_the_buffer_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    // 17 ports of 100 Gbit/s, with their own pool: there is no allowing this one.
    for allow in ["", "    allow_lossy_headroom: true\n"] {
        let small = SILENT_LOSS.replace(
            "egress_lossless_pool: { direction: egress, size: 32 MB }",
            "ingress_lossless_pool: { direction: ingress, size: 600 KB }",
        );
        let small = small.replace(", pool_alpha: 1", ", static_th: 64 MiB");
        let small = small.replace("    preset:", &format!("{allow}    preset:"));
        let ended = lab(&[&scenario(folder.path(), &small)]);
        ended.expect(
            2,
            &["pool ingress_lossless_pool", "leave nothing of 600 KB", "nothing was run"],
        );
        assert!(ended.out.is_empty(), "{}", ended.out);
    }
}

/// Frames of 1106 bytes on the wire take 88.48 ns at 100 Gbit/s.
const CLOCK: &str = "
lab: clock
duration: 2 ms
warm_up: 1 ms
link: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 2 } }
switch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }
host: { program: PROGRAMS/roce_nic, rate_control: fixed }
flows: { from: senders, to: sink }
";

#[test]
fn a_full_link_carries_its_rate_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), CLOCK), "--json"]);
    ended.expect(0, &[]);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    // Payload, and with it Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble and gap 20.
    let wanted = 100e9 * 1024.0 / (1024.0 + 82.0);
    let found = figure(&report, "flows.throughput");
    // Packets of the millisecond may fall on either side. A clock of whole nanoseconds is 0.5 % away.
    let packet = 1024.0 * 8.0 / 1e-3;
    assert!((found - wanted).abs() <= 2.0 * packet, "{found} bit/s, wanted {wanted}");
}

/// More bytes in one flow than 32 bits count.
const LONG_FLOW: &str = "
lab: long_flow
duration: 200 ms
sample: 1 ms
link: { rate: 400 Gbit/s, delay: 1 us, mtu: 4500 B }
topology: { hosts: [a, b], switches: [s1], links: [{ ends: [a, s1] }, { ends: [s1, b] }], bottleneck: [s1, b] }
switch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }
host: { program: PROGRAMS/roce_nic, rate_control: fixed, path_mtu: 4096 B }
flows: { from: a, to: b, size: 4400 MB, message: 100 MB }
";

#[test]
fn a_flow_of_more_than_four_gibibytes_is_delivered_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out").display().to_string();
    let ended = lab(&[&scenario(folder.path(), LONG_FLOW), "-o", &out]);
    ended.expect(0, &[]);
    let text = std::fs::read_to_string(format!("{out}/series.csv")).expect("the series");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().expect("a heading");
    let column = heading.iter().position(|name| name.contains("delivered")).expect("delivered");
    let delivered: Vec<u64> =
        lines.map(|cells| cells[column].parse::<f64>().expect("bytes") as u64).collect();
    assert!(delivered.is_sorted(), "bytes delivered went back");
    assert_eq!(delivered.last(), Some(&4_400_000_000), "not all of the flow");
    // Every millisecond but the first and the last carries the link's rate in payload.
    let full = 400e9 / 8.0 * 1e-3 * 4096.0 / (4096.0 + 82.0);
    for pair in delivered[1..delivered.len() - 1].windows(2) {
        let found = (pair[1] - pair[0]) as f64;
        assert!(
            (found - full).abs() <= 2.0 * 4096.0,
            "{found} bytes in a millisecond, {full} wanted"
        );
    }
}

/// Five switches in a ring of pauses.
const RING: &str = "
lab: ring
duration: 20 ms
sample: 20 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { ring: { switches: 5 } }
switch:
  program: PROGRAMS/rocev2_lossless
  qos:
    preset: onyx_roce
    buffer_pools: { ingress_lossless_pool: { direction: ingress, size: 1 MB } }
host: { program: PROGRAMS/roce_nic, rate_control: fixed, ecn: false }
flows: { pattern: pairs, from: [h1, h2, h3, h4, h5], to: [h3, h4, h5, h1, h2] }
";

#[test]
fn a_deadlock_is_shown_with_a_packet_that_waits_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out").display().to_string();
    let ended = lab(&[&scenario(folder.path(), RING), "-o", &out]);
    ended.expect(
        1,
        &[
            "check liveness failed",
            "s1->s2 queue 3 waits for s2->s3 queue 3",
            "came into `s1` by port 2",
            "table next_hops: hit",
            "forward to port 1, 1082 bytes\nit has been waiting since in s1->s2 queue 3",
        ],
    );
    let trace = std::fs::read_to_string(format!("{out}/packet.txt")).expect("the trace");
    assert!(ended.err.contains(trace.trim_end()), "{trace}");
}
