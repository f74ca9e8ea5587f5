//! Ports behind a bad cable: `loss=`, `corrupt=`, `duplicate=`, `reorder=`, `delay=`, `seed=` of `run`.
//!
//! On capture files, where every frame can be looked at, and on veth pairs in a private namespace (root).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;
use wireyard_tests::{capture, scripts};

use crate::queues;
use crate::rig::{Wire, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const COUNT: u32 = 4000;

/// Frames with their PSN in bytes 51 to 53; no two of them differ by one bit only.
fn frames() -> Vec<Vec<u8>> {
    let made = (0..COUNT).map(|n| {
        let mut bytes = queues::frame(1, 2, 26, 2, n, 200);
        bytes[100..104].copy_from_slice(&n.wrapping_mul(0x9e37_79b1).to_be_bytes());
        bytes
    });
    made.collect()
}

fn psn(frame: &[u8]) -> u32 {
    u32::from_be_bytes([0, frame[51], frame[52], frame[53]])
}

/// Runs the frames from a file on port 1 to a file on port 2: what came out, and the report.
fn through(folder: &Path, one: &str, two: &str) -> (Vec<Vec<u8>>, Value) {
    let (from, to) = (folder.join("in.pcap"), folder.join("out.pcap"));
    let frames = frames();
    let numbered = frames.iter().enumerate().map(|(n, frame)| (n as u64, frame.as_slice()));
    scripts::write_pcap(&from, LinkType::Ethernet, numbered);
    let one = format!("1=pcap:{}{one}", from.display());
    let two = format!("2=pcap:,out={}{two}", to.display());
    let ended = run(&["run", PROGRAM, "--port", &one, "--port", &two, "--json"]);
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    assert_eq!(report["total"]["balanced"], true, "{report}");
    let records = capture::read(&to).expect("pcap").records;
    (records.into_iter().map(|(bytes, _)| bytes).collect(), report)
}

fn count(report: &Value, port: usize, way: &str, name: &str) -> u64 {
    report["ports"][port - 1]["faults"][way][name].as_u64().expect("a count")
}

/// Lost, corrupted and doubled frames are as many as the counters say and as chance allows, and the same for the same seed.
#[test]
fn faults_on_the_way_out_are_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let faults = ",loss=10%,corrupt=5%,duplicate=2%,seed=7";
    let (got, report) = through(folder.path(), "", faults);
    let sent = |name: &str| count(&report, 2, "sent", name);
    // Binomial with 4000 trials (3600 after losses): six standard deviations.
    for (name, chance) in [("lost", 0.1), ("corrupted", 0.05), ("duplicated", 0.02)] {
        let trials = if name == "lost" { 4000.0 } else { 3600.0 };
        let (mean, deviation) = (trials * chance, f64::sqrt(trials * chance * (1.0 - chance)));
        assert!((sent(name) as f64 - mean).abs() < 6.0 * deviation, "{name}: {}", sent(name));
    }
    assert_eq!(got.len() as u64, u64::from(COUNT) - sent("lost") + sent("duplicated"));
    assert_eq!(report["total"]["sent"], COUNT, "the device sent them all");
    // A frame with one bit wrong is none of those that were sent; doubled ones may be wrong twice.
    let whole: std::collections::HashSet<Vec<u8>> = frames().into_iter().collect();
    let mut wrong: Vec<&Vec<u8>> = got.iter().filter(|frame| !whole.contains(*frame)).collect();
    wrong.dedup();
    assert_eq!(wrong.len() as u64, sent("corrupted"));
    for bytes in wrong {
        let bits = |right: &Vec<u8>| {
            right.iter().zip(bytes).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
        };
        assert!(whole.iter().any(|right| bits(right) == 1), "one bit of {bytes:02x?}");
    }
    let (again, _) = through(folder.path(), "", faults);
    assert!(got == again, "the same seed, the same faults");
    let (other, _) = through(folder.path(), "", &faults.replace("seed=7", "seed=8"));
    assert!(got != other, "another seed, other faults");
}

/// What is lost on the way in never arrived; what falls behind is overtaken and nothing is missing.
#[test]
fn faults_on_the_way_in_are_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (got, report) = through(folder.path(), ",loss=10%,reorder=5%,reorder_by=3ms", "");
    let received = |name: &str| count(&report, 1, "received", name);
    assert!(received("lost") > 250 && received("reordered") > 100, "{report}");
    assert_eq!(report["total"]["received"], u64::from(COUNT) - received("lost"));
    assert_eq!(got.len() as u64, u64::from(COUNT) - received("lost") - received("overflowed"));
    let mut psns: Vec<u32> = got.iter().map(|frame| psn(frame)).collect();
    let overtaken = psns.windows(2).filter(|two| two[0] > two[1]).count();
    assert!(overtaken > 0, "somebody was overtaken");
    psns.sort_unstable();
    psns.dedup();
    assert_eq!(psns.len(), got.len(), "each at most once");
    assert!(report["ports"][1].get("faults").is_none(), "port 2 has a good cable");
}

/// More frames than a cable holds are lost by name, and the run ends only when the last that is late has come.
#[test]
fn a_cable_holds_no_more_than_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let (got, report) = through(folder.path(), ",delay=400ms", "");
    let received = |name: &str| count(&report, 1, "received", name);
    // They come within 4 ms, and the cable holds 1024.
    let lost = received("overflowed");
    assert!((1..=u64::from(COUNT) - 1024).contains(&lost), "{report}");
    assert_eq!(got.len() as u64, u64::from(COUNT) - lost);
    assert_eq!(report["total"]["received"], u64::from(COUNT) - lost);
    assert_eq!((received("delayed"), received("under_way")), (u64::from(COUNT), 0));
}

/// A delay is kept, in both directions, and a live port loses nothing by it.
#[test]
fn a_delay_is_kept_on_a_live_port() {
    let Some(_network) = private_network("a_delay_is_kept_on_a_live_port") else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let ports = ["1=raw:sw1", "2=raw:sw2,delay=40ms"];
    let switch = Switch::start(&[PROGRAM, "--port", ports[0], "--port", ports[1], "--json"]);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let sent = Instant::now();
    let there: Vec<_> = (0..100).map(|n| queues::frame(1, 2, 0, 0, n, 100)).collect();
    host1.send(&there);
    let mut got = host2.receive(1);
    assert!(sent.elapsed() >= Duration::from_millis(40), "{:?}", sent.elapsed());
    got.extend(host2.receive(there.len() - got.len()));
    assert!(got == there, "{} frames, in order", got.len());
    let sent = Instant::now();
    let back: Vec<_> = (0..100).map(|n| queues::frame(2, 1, 0, 0, n, 100)).collect();
    host2.send(&back);
    let mut got = host1.receive(1);
    assert!(sent.elapsed() >= Duration::from_millis(40), "{:?}", sent.elapsed());
    got.extend(host1.receive(back.len() - got.len()));
    assert!(got == back, "{} frames, in order", got.len());
    let ended = switch.end("INT");
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    assert_eq!(count(&report, 2, "sent", "delayed"), 100);
    assert_eq!(count(&report, 2, "received", "delayed"), 100);
    assert_eq!(count(&report, 2, "sent", "under_way"), 0);
}
