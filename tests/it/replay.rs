//! `wireyard replay` on every stored capture: what a program does not change stays as it is.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use wireyard_switch::pcap::{
    Interface, LINK_ERF, PcapReader, PcapWriter, RecordToWrite, Timestamp, erf, link_type_name,
};
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::capture::{self, Capture};
use wireyard_tests::{shared, skip};

/// Link types that the switch takes: Ethernet, InfiniBand.
const KNOWN: [u16; 2] = [1, 247];

fn captures(test: &str) -> Option<Vec<PathBuf>> {
    let Some(shared) = shared() else {
        skip(test, "no ../shared/captures");
        return None;
    };
    Some(capture::files(&shared.join("captures"), &["pcap", "pcapng", "cap", "erf"]))
}

/// The records of a file, by our few lines if it is pcap.
fn read(path: &Path) -> Result<Capture, String> {
    if let Some(capture) = capture::read(path) {
        return Ok(capture);
    }
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let mut reader = PcapReader::new(file).map_err(|e| e.to_string())?;
    let mut all = Capture::default();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                if all.records.is_empty() {
                    all.link = record.link;
                }
                if record.link != all.link {
                    return Err("a second link type".to_owned());
                }
                all.records.push((record.data.to_vec(), record.wire_len));
            }
            Ok(None) => return Ok(all),
            Err(_) => {
                all.damaged = true;
                return Ok(all);
            }
        }
    }
}

/// A program sees the frames in ERF records, those of the link of the first one.
fn frames_of(mut capture: Capture) -> Capture {
    if capture.link == LINK_ERF {
        let inner = |(data, _): &(Vec<u8>, u32)| {
            let frame = erf::frame(data).ok()?;
            Some((frame.link, (frame.bytes.to_vec(), frame.wire_len)))
        };
        let all: Vec<_> = capture.records.iter().filter_map(inner).collect();
        capture.link = all.first().map_or(1, |(link, _)| *link);
        let own = all.into_iter().filter(|(link, _)| *link == capture.link);
        capture.records = own.map(|(_, frame)| frame).collect();
    }
    capture
}

fn replay(input: &Path, output: &Path) -> Ended {
    replay_on("auto", input, output)
}

fn replay_on(engine: &str, input: &Path, output: &Path) -> Ended {
    let into = format!("1={}", input.display());
    let out = format!("2={}", output.display());
    let options = ["--mac-control", "pass", "--json", "--engine", engine];
    let mut arguments = vec!["replay", "programs/parse_all", "--in", &into, "--out", &out];
    arguments.extend(options);
    run(&arguments)
}

/// What a replay of one file should have done and did not; `None`: all is well.
fn complaint(path: &Path, folder: &Path, worker: usize) -> Option<String> {
    let (one, two) =
        (folder.join(format!("{worker}-1.pcap")), folder.join(format!("{worker}-2.pcap")));
    let expected = match read(path) {
        Ok(capture) => frames_of(capture),
        Err(why) => {
            let ended = replay(path, &one);
            let refused = ended.status == Some(2) && !ended.err.is_empty();
            return (!refused).then(|| format!("not refused, although: {why}"));
        }
    };
    let ended = replay(path, &one);
    let is_empty = expected.records.is_empty() && capture::read(path).is_none();
    if !KNOWN.contains(&expected.link) && !is_empty {
        let name = link_type_name(expected.link).unwrap_or("private");
        let named = ended.err.contains(name) && ended.err.contains(&expected.link.to_string());
        let refused = ended.status == Some(2) && named;
        return (!refused).then(|| format!("link type {name}: {:?} {}", ended.status, ended.err));
    }
    let status = if expected.damaged { 2 } else { 0 };
    if ended.status != Some(status) {
        return Some(format!("status {:?}, not {status}: {}", ended.status, ended.err));
    }
    if expected.damaged && !ended.err.contains("offset") {
        return Some(format!("the damage has no offset: {}", ended.err));
    }
    let again = replay_on("interp", path, &two);
    // The counters of the ports name their files.
    let total = |ended: &Ended| {
        let report = serde_json::from_str::<serde_json::Value>(&ended.out).ok();
        report.map(|report| report["total"].clone())
    };
    let same = std::fs::read(&one).ok() == std::fs::read(&two).ok();
    if !same || total(&again) != total(&ended) {
        return Some("a second run, on the interpreter, gave something else".to_owned());
    }
    unchanged(&expected, &one).or_else(|| unbalanced(&ended, expected.records.len()))
}

fn unchanged(expected: &Capture, output: &Path) -> Option<String> {
    let Some(got) = capture::read(output) else { return Some("no output".to_owned()) };
    if got.link != expected.link && !expected.records.is_empty() {
        return Some(format!("link type {} became {}", expected.link, got.link));
    }
    let (have, want) = (got.records.len(), expected.records.len());
    let differs = got.records.iter().zip(&expected.records).position(|(g, e)| g != e);
    match differs {
        Some(at) => {
            let ((g, g_wire), (e, e_wire)) = (&got.records[at], &expected.records[at]);
            let byte = g.iter().zip(e).position(|(x, y)| x != y);
            let lens = format!("{} of {g_wire} for {} of {e_wire} bytes", g.len(), e.len());
            Some(format!("record {}: byte {byte:?} differs, {lens}", at + 1))
        }
        None => (have != want).then(|| format!("{have} records for {want}")),
    }
}

fn unbalanced(ended: &Ended, records: usize) -> Option<String> {
    let Ok(report) = serde_json::from_str::<serde_json::Value>(&ended.out) else {
        return Some(format!("no JSON: {}", ended.out));
    };
    let total = &report["total"];
    let right = total["balanced"] == true
        && total["received"] == records
        && total["sent"] == records
        && total["queued"] == 0;
    (!right).then(|| format!("counters: {total}"))
}

/// Truncated and oversize records, damaged files and foreign link types are among the files.
#[test]
fn every_stored_record_passes_unchanged() {
    let Some(files) = captures("every_stored_record_passes_unchanged") else { return };
    assert!(files.len() > 500, "{} files", files.len());
    let folder = tempfile::tempdir().unwrap();
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (next, complaints, files, folder) = (&next, &complaints, &files, folder.path());
            scope.spawn(move || {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(why) = complaint(path, folder, worker) {
                        complaints.lock().unwrap().push(format!("{}: {why}", path.display()));
                    }
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{} files:\n{}", complaints.len(), complaints.join("\n"));
}

/// Ethernet and InfiniBand in ERF records, between records that hold no packet.
fn erf_capture() -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0, 0, 4, 0, 197, 0, 0, 0]);
    let mut add = |kind: u8, pad: &[u8], data: &[u8]| {
        let len = (16 + pad.len() + data.len()) as u16;
        file.extend([1, 0, 0, 0, kind, 0, 0, 0, len as u8, 0, 0, 0, len as u8, 0, 0, 0]);
        file.extend([0, 0, 0, 0, 0, 0, 0, 0, kind, 0]);
        file.extend(len.to_be_bytes());
        file.extend([0, 0]);
        file.extend((data.len() as u16).to_be_bytes());
        file.extend(pad);
        file.extend(data);
    };
    add(27, &[], &[0; 8]);
    add(2, &[0, 0], &[2; 60]);
    add(25, &[], &[3; 8]);
    add(21, &[], &[4; 40]);
    add(20, &[0, 0], &[5; 64]);
    add(19, &[], &[6; 8]);
    file
}

#[test]
fn a_program_sees_the_frames_in_erf_records() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    std::fs::write(&input, erf_capture()).unwrap();
    let ended = replay(&input, &out);
    ended.expect(0, &[]);
    assert!(ended.err.contains("4 ERF records skipped"), "{}", ended.err);
    let got = capture::read(&out).unwrap();
    assert_eq!((got.link, got.records.len()), (1, 2));
    assert_eq!(got.records[0], (vec![2; 60], 60));
    assert_eq!(got.records[1], (vec![5; 64], 64));
    let decoded = run(&["decode", input.to_str().unwrap()]);
    decoded.expect(0, &[]);
    assert_eq!(decoded.out.lines().count(), 3, "{}", decoded.out);
    for name in ["type 27 (META)", "type 25 (INFINIBAND_LINK)", "type 19 (COLOR_HASH_POS)"] {
        let told = |line: &&str| line.contains("1 skipped") && line.contains(name);
        assert_eq!(decoded.err.lines().filter(told).count(), 1, "{name}: {}", decoded.err);
    }
    // A trace counts records as `decode` does.
    let trace = |frame: &str| {
        run(&["trace", "programs/parse_all", "--pcap", input.to_str().unwrap(), "--frame", frame])
    };
    trace("4").expect(0, &[]);
    trace("3").expect(2, &["INFINIBAND_LINK"]);
    // Nothing of it is a packet.
    std::fs::write(&input, &erf_capture()[..24 + 16 + 24]).unwrap();
    run(&["decode", input.to_str().unwrap()]).expect(2, &["record 1 at offset 24", "META"]);
}

/// A file that ends inside a record: what is before goes through, the rest is reported with its place.
#[test]
fn a_capture_cut_short_ends_at_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut, out) =
        (folder.path().join("a.pcap"), folder.path().join("b.pcap"), folder.path().join("o.pcap"));
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for n in 0..3_u8 {
        bytes.extend([n, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
        bytes.extend([n; 60]);
    }
    std::fs::write(&whole, &bytes).unwrap();
    replay(&whole, &out).expect(0, &[]);
    assert_eq!(capture::read(&out).unwrap().records.len(), 3);
    for missing in [1, 59, 60, 61, 75] {
        std::fs::write(&cut, &bytes[..bytes.len() - missing]).unwrap();
        let ended = replay(&cut, &out);
        ended.expect(2, &["b.pcap", "offset 176"]);
        assert_eq!(ended.err.matches("offset 176").count(), 1, "{}", ended.err);
        assert_eq!(capture::read(&out).unwrap().records.len(), 2, "{missing} bytes are missing");
        assert_eq!(unbalanced(&ended, 2), None);
    }
}

/// A replay with these options and this standard input.
fn replay_from(input: Stdio, options: &[&str]) -> Ended {
    let mut command = Command::new(wireyard());
    command.current_dir(wireyard_tests::workspace_root()).stdin(input);
    Ended::of(&command.args(["replay", "programs/parse_all"]).args(options).output().unwrap())
}

/// Standard input may be the file that is to be written.
#[test]
fn a_file_on_standard_input_is_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    std::fs::write(&file, erf_capture()).unwrap();
    let out = format!("2={}", file.display());
    let ended = replay_from(File::open(&file).unwrap().into(), &["--in", "1=-", "--out", &out]);
    ended.expect(2, &["a.pcap", "the output is an input too"]);
    assert_eq!(std::fs::read(&file).unwrap(), erf_capture());
}

/// A file on standard input is read as by its name: which port's records are taken is decided at its beginning.
#[test]
fn a_capture_of_a_switch_may_be_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sw.pcapng");
    let mut writer = PcapWriter::pcapng(File::create(&file).unwrap()).unwrap();
    for port in [1, 2] {
        let interface = Interface { link: 1, name: format!("port {port} raw:a in") };
        let (interface, data) = (writer.add_interface(&interface).unwrap(), &[port; 60]);
        let time = Timestamp { seconds: 1_700_000_000, nanos: 0 };
        writer
            .write(&RecordToWrite { time, data, wire_len: 60, interface, comment: None })
            .unwrap();
    }
    drop(writer);
    let ended = replay_from(File::open(&file).unwrap().into(), &["--in", "2=-", "--json"]);
    ended.expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["total"]["received"], 1, "{}", ended.out);
}

#[test]
fn standard_input_is_one_input() {
    let ended = replay_from(Stdio::null(), &["--in", "1=-", "--in", "2=-"]);
    ended.expect(2, &["--in 2=-", "port 1 reads standard input"]);
}

/// True once the process has a handler for SIGTERM.
fn catches_term(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> 14 & 1 == 1)
}

/// A signal ends it while it waits for more of a pipe.
#[test]
fn a_signal_ends_the_wait_for_input() {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    bytes.extend([1; 60]);
    let mut command = Command::new(wireyard());
    command.current_dir(wireyard_tests::workspace_root()).stdin(Stdio::piped());
    command.args(["replay", "programs/parse_all", "--in", "1=-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !catches_term(child.id()) {
        assert!(Instant::now() < end, "no signal is caught");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            panic!("the signal does not end the wait");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = Ended::of(&child.wait_with_output().unwrap());
    ended.expect(2, &["ended by a signal"]);
    assert_eq!(ended.err.matches("ended by a signal").count(), 1, "{}", ended.err);
    drop(input);
}

/// The meaning of a private link type is in switch.yaml: the command has no option for it.
#[test]
fn a_private_link_type_is_what_the_configuration_gives() {
    let folder = tempfile::tempdir().unwrap();
    let (input, config) = (folder.path().join("a.pcap"), folder.path().join("switch.yaml"));
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 150, 0, 0, 0]);
    std::fs::write(&input, &bytes).unwrap();
    std::fs::write(&config, "ports: { 1: { link: infiniband } }\n").unwrap();
    let from = format!("1={}", input.display());
    let options = ["--in", &from];
    replay_from(Stdio::null(), &options).expect(2, &["150 is private", "`link` of port 1"]);
    let config = ["--config", config.to_str().unwrap()];
    replay_from(Stdio::null(), &[options, config].concat()).expect(0, &[]);
}

/// Timestamps of a capture that decrease are reported with their number; the frames come all the same, in the order of
/// the file.
#[test]
fn records_out_of_order_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("a.pcap"), folder.path().join("o.pcap"));
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for seconds in [1_u8, 5, 3, 4, 9] {
        bytes.extend([seconds, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
        bytes.extend([seconds; 60]);
    }
    std::fs::write(&input, &bytes).expect("a file");
    replay(&input, &out).expect(0, &["port 1", "2 records are older than one before them"]);
    let sent = capture::read(&out).expect("pcap").records;
    assert_eq!(sent.iter().map(|(data, _)| data[0]).collect::<Vec<_>>(), [1, 5, 3, 4, 9]);
}

/// More packets wait than packet memory holds: the input waits too, which is reported, and nothing is lost or hangs.
#[test]
fn an_input_waits_for_packet_memory_and_goes_on() {
    const PACKETS: usize = 1500;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let config = "ports: { 1: {}, 2: { rate: 100Mbps } }
qos:
  buffer_pools: { in: { direction: ingress, size: 12 MB }, out: { direction: egress, size: 12 MB } }
  buffer_profiles:
    ingress_lossy: { pool: in, static_th: 12 MB }
    egress_lossy: { pool: out, static_th: 12 MB }
";
    std::fs::write(path("switch.yaml"), config).expect("a file");
    let frames: Vec<_> =
        (0..PACKETS as u32).map(|n| crate::queues::frame(1, 2, 0, 0, n, 60)).collect();
    crate::run::write_pcap(&path("in.pcap"), &frames);
    let (config, input) = (path("switch.yaml"), format!("1={}", path("in.pcap").display()));
    let output = format!("2={}", path("out.pcap").display());
    let program = "programs/rocev2_lossless";
    let files = ["--config", config.to_str().expect("UTF-8"), "--in", &input, "--out", &output];
    let ended = run(&[&["replay", program, "--json"], files.as_slice()].concat());
    ended.expect(0, &["port 1", "packet memory was full: packets came later"]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["total"]["balanced"], true, "{report}");
    assert_eq!(report["total"]["dropped"], serde_json::json!([]), "{report}");
    let records = capture::read(&path("out.pcap")).expect("pcap").records;
    assert!(records.into_iter().map(|(bytes, _)| bytes).eq(frames), "all of them, in order");
}
