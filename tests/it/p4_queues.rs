//! What v1model says of queues and time, in its own units: packets and microseconds.

use wireyard_tests::binary::run;
use wireyard_tests::capture;

use crate::run::write_pcap;

const PROGRAM: &str = "#include <v1model.p4>
header seen_t {
    bit<48> ingress; bit<48> egress; bit<32> enqueued; bit<32> waited; bit<32> found; bit<32> left;
}
struct H { seen_t seen; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.seen); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 2; } }
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        h.seen.ingress = s.ingress_global_timestamp;
        h.seen.egress = s.egress_global_timestamp;
        h.seen.enqueued = s.enq_timestamp;
        h.seen.waited = s.deq_timedelta;
        h.seen.found = (bit<32>) s.enq_qdepth;
        h.seen.left = (bit<32>) s.deq_qdepth;
    }
}
control D(packet_out p, in H h) { apply { p.emit(h.seen); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

/// 980 bytes, with FCS, preamble and gap 1,004 on the wire: 80.32 us at 100 Mbit/s.
const BYTES: usize = 980;
const WIRE_NS: u64 = 80_320;
const PACKETS: u64 = 20;

#[test]
fn a_v1model_program_reads_packets_and_microseconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("seen.p4"), PROGRAM).expect("writes");
    std::fs::write(path("slow.yaml"), "ports: { 2: { rate: 100Mbps } }\nqos: {}\n")
        .expect("writes");
    // A packet each microsecond.
    write_pcap(&folder.path().join("in.pcap"), &vec![vec![0; BYTES]; PACKETS as usize]);
    let (program, config) = (path("seen.p4"), path("slow.yaml"));
    let (input, output) = (format!("1={}", path("in.pcap")), format!("2={}", path("out.pcap")));
    let args = ["replay", &program, "--config", &config, "--in", &input, "--out", &output];
    run(&args).expect(0, &[]);
    let records = capture::read(&folder.path().join("out.pcap")).expect("pcap").records;
    assert_eq!(records.len() as u64, PACKETS);
    for (k, (bytes, _)) in (0..PACKETS).zip(&records) {
        let number = |from: usize, to: usize| {
            bytes[from..to].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let seen = [(0, 6), (6, 12), (12, 16), (16, 20), (20, 24), (24, 28)];
        let [ingress, egress, enqueued, waited, found, left] = seen.map(|(a, b)| number(a, b));
        let (came_ns, went_ns) = (k * 1000, k * WIRE_NS);
        assert_eq!((ingress, enqueued), (k, k), "packet {k}");
        assert_eq!((egress, waited), (went_ns / 1000, (went_ns - came_ns) / 1000), "packet {k}");
        // The first one is on the link at once, and the second one waits until it has left.
        assert_eq!(found, k.saturating_sub(1), "packet {k}");
        let left_then = if k == 0 { 0 } else { PACKETS - 1 - k };
        assert_eq!(left, left_then, "packet {k}");
    }
}
