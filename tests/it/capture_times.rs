//! The device's time in `trace` and `replay` is that of the records, as far as it goes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wireyard_switch::pcap::{PcapHeader, PcapReader, PcapWriter, RecordToWrite, Timestamp};
use wireyard_tests::binary::run;

/// Writes the time of each packet into its source address.
const STAMP: &str = "
pipeline: stamp
include: [ethernet]
parser: { start: { extract: ethernet, next: accept } }
ingress: [ 'ethernet.src = std.ingress_ns[47:0]', std.egress_port = 2 ]
deparser: { emit: [ethernet] }
";

/// The first bytes of a frame.
const HEAD: &[u8] = &[2; 14];
const DAY_MS: u64 = 86_400_000;

/// Frames of 60 bytes that begin with these, at milliseconds since 1970.
fn capture(path: &Path, frames: &[(u64, &[u8])]) {
    let mut writer = PcapWriter::pcap(fs::File::create(path).unwrap(), PcapHeader::new(1)).unwrap();
    for (at_ms, head) in frames {
        let mut data = head.to_vec();
        data.resize(60, 0);
        let time = Timestamp::from_ns(at_ms * 1_000_000);
        let (data, wire_len) = (data.as_slice(), 60);
        writer.write(&RecordToWrite { time, data, wire_len, interface: 0, comment: None }).unwrap();
    }
    writer.flush().unwrap();
}

/// Time and bytes of the records of a file.
fn records(path: &Path) -> Vec<(Timestamp, Vec<u8>)> {
    let mut reader = PcapReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        all.push((record.time, record.data.to_vec()));
    }
    all
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(program: &str, frames: &[(u64, &[u8])]) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::write(place.file("program.yaml"), program).unwrap();
        capture(&place.file("in.pcap"), frames);
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The records that a replay sends by port 2, its standard error, and its counters.
    fn replayed(&self, program: &str) -> (Vec<(Timestamp, Vec<u8>)>, String, Value) {
        let (from, to) = (self.file("in.pcap"), self.file("out.pcap"));
        let (from, to) = (format!("1={}", from.display()), format!("2={}", to.display()));
        let ended = run(&["replay", program, "--json", "--in", &from, "--out", &to]);
        let report = serde_json::from_str(&ended.expect(0, &[]).out).unwrap();
        (records(&self.file("out.pcap")), ended.err, report)
    }

    /// The bytes that a trace of this frame sends by port 2.
    fn traced(&self, program: &str, frame: usize) -> Vec<u8> {
        let input = self.file("in.pcap");
        let (input, frame) = (input.to_str().unwrap(), frame.to_string());
        let ended = run(&["trace", program, "--pcap", input, "--frame", &frame]);
        let (_, out) = ended.expect(0, &[]).out.split_once("out of port 2: ").expect("port 2");
        let rows = out.lines().skip(1).take_while(|line| line.starts_with("  "));
        let digits: Vec<&str> = rows.flat_map(|row| row.split_whitespace().skip(1)).collect();
        digits.into_iter().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }
}

#[test]
fn a_traced_frame_has_the_time_of_its_record() {
    let frames = [0, 1_500, 1_500, 4_000_000].map(|ms| (1_700_000_000_250 + ms, HEAD));
    let place = Place::new(STAMP, &frames);
    let program = place.file("program.yaml").display().to_string();
    let (sent, err, _) = place.replayed(&program);
    assert!(!err.contains("212 days"), "{err}");
    let expected = [0_u64, 1_500_000_000, 1_500_000_000, 4_000_000_000_000];
    for (number, expected) in (1..).zip(expected) {
        let bytes = place.traced(&program, number);
        assert_eq!(bytes[6..12], expected.to_be_bytes()[2..], "frame {number}");
        assert_eq!(bytes, sent[number - 1].1, "frame {number}: as replayed");
    }
}

/// The table of a bridge forgets an address between two frames, in both.
#[test]
fn entries_age_between_traced_frames() {
    let from_a: &[u8] = &[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
    let to_a: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    let place = Place::new("", &[(1_000, from_a), (2_000, to_a), (400_000, to_a)]);
    let input = place.file("in.pcap").display().to_string();
    let trace = |n: &str| run(&["trace", "l2_switch", "--pcap", &input, "--frame", n]);
    // It came in by the port that the address is on.
    let known = trace("2");
    assert!(!known.expect(0, &[]).out.contains("out of port 2"), "{}", known.out);
    trace("3").shows(&["out of port 2"]);
    let (sent, ..) = place.replayed("l2_switch");
    assert_eq!(sent.len(), 2, "the first and the third are flooded");
}

/// A device counts picoseconds in 64 bits. Later records are reported, and leave all the same.
#[test]
fn records_beyond_the_clock_are_reported() {
    let frames = [0, 211, 400, 400].map(|days| (1_000_000 + days * DAY_MS, HEAD));
    let place = Place::new(STAMP, &frames);
    let config = "ports: { 1: { rate: 100 Mbit/s }, 2: { rate: 100 Mbit/s } }\nqos: {}\n";
    fs::write(place.file("switch.yaml"), config).unwrap();
    let program = place.folder.path().display().to_string();
    let (sent, err, report) = place.replayed(&program);
    assert!(err.contains("more than 212 days after the first one"), "{err}");
    assert_eq!(err.matches("212 days").count(), 1, "{err}");
    assert_eq!((&report["total"]["sent"], &report["total"]["queued"]), (&4.into(), &0.into()));
    let seconds: Vec<u64> = sent.iter().map(|(time, _)| time.seconds).collect();
    let expected = [0, 211, 212, 212].map(|days| 1000 + days * 86_400);
    assert_eq!(seconds, expected);
    let input = place.file("in.pcap").display().to_string();
    let traced = run(&["trace", &program, "--pcap", &input, "--frame", "3"]);
    traced.expect(0, &["more than 212 days after the first one"]);
    run(&["trace", &program, "--pcap", &input, "--frame", "2"]).expect(0, &[]);
}
