//! `run --capture` and `capture=`: what arrived, left and was dropped, as tshark reads it.
//!
//! On veth pairs in a private namespace; needs root and tshark and skips loudly otherwise.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::binary::{run, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip};

use crate::rig::{Wire, ip, private_network, veth};
use crate::{congested, queues};

const PROGRAM: &str = "programs/rocev2_lossless";

/// Port 2 takes 0.1 s for a frame of 1250 bytes, and its queues hold five.
const SLOW: &str = "ports: { 1: {}, 2: { rate: 100kbps } }
qos:
  buffer_pools: { in: { direction: ingress, size: 4 MB }, out: { direction: egress, size: 4 MB } }
  buffer_profiles:
    ingress_lossy: { pool: in, static_th: 1 MB }
    egress_lossy: { pool: out, static_th: 6400 B }
";

fn cables(test: &str) -> Option<PrivateNetwork> {
    let network = private_network(test)?;
    veth("sw1", "host1");
    veth("sw2", "host2");
    Some(network)
}

/// A record as tshark shows it.
#[derive(Debug)]
struct Seen {
    interface: String,
    epoch: String,
    /// Of the frame.
    bytes: usize,
    /// Of these, in the file.
    kept: usize,
    comment: String,
}

fn tshark(file: &Path) -> Vec<Seen> {
    let fields =
        ["frame.interface_name", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.comment"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().expect("tshark runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    assert!(!err.contains("appears to"), "the file is whole: {err}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = |line: &str| {
        let parts: Vec<&str> = line.split('|').collect();
        Seen {
            interface: parts[0].to_owned(),
            epoch: parts[1].to_owned(),
            bytes: parts[2].parse().expect("a length"),
            kept: parts[3].parse().expect("a length"),
            comment: parts[4].to_owned(),
        }
    };
    text.lines().map(seen).collect()
}

fn report(switch: Switch) -> Value {
    let ended = switch.end("INT");
    serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON counters")
}

/// Every record of the file is a count of the report, and every count is in the file.
#[test]
fn what_arrived_left_and_was_dropped_is_in_the_file() {
    let test = "what_arrived_left_and_was_dropped_is_in_the_file";
    if !has_tool("tshark") {
        return skip(test, "no tshark");
    }
    let Some(_network) = cables(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (folder.path().join("switch.yaml"), folder.path().join("all.pcapng"));
    std::fs::write(&config, SLOW).unwrap();
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let switch = Switch::on(
        PROGRAM,
        &["1=raw:sw1", "2=raw:sw2"],
        &["--config", config.to_str().unwrap(), "--capture", file.to_str().unwrap(), "--json"],
    );
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let frames: Vec<Vec<u8>> = (0..20).map(|n| queues::frame(1, 2, 0, 2, n, 1250)).collect();
    host1.send(&frames);
    let mut left = 0;
    let deadline = Instant::now() + Duration::from_secs(10);
    while left < 5 && Instant::now() < deadline {
        left += host2.take();
    }
    let report = report(switch);
    let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let seen = tshark(&file);
    let of = |interface: &str| seen.iter().filter(|s| s.interface == interface).count() as u64;
    let dropped: Vec<&Seen> = seen.iter().filter(|s| s.interface.ends_with("dropped")).collect();
    assert_eq!(of("port 1 raw:sw1 in"), 20, "{seen:#?}");
    assert_eq!(of("port 2 raw:sw2 out"), report["total"]["sent"].as_u64().unwrap());
    assert!(dropped.len() >= 10, "{}", dropped.len());
    assert!(dropped.iter().all(|s| s.interface == "port 1 raw:sw1 dropped"), "{dropped:#?}");
    let drops = report["total"]["dropped"].as_array().unwrap();
    for pair in drops {
        let begin = format!("dropped: {}", pair[0].as_str().unwrap());
        let with = dropped.iter().filter(|s| s.comment.starts_with(&begin)).count() as u64;
        assert_eq!(with, pair[1].as_u64().unwrap(), "{drops:?} {dropped:#?}");
    }
    // Five frames fill the queue; one of them may be on the wire, which the queue does not hold any more.
    let depths =
        [5000, 6250].map(|b| format!("dropped: queue_threshold; port 2 queue 0 holds {b} B"));
    let full: Vec<_> = dropped.iter().filter(|s| s.comment.contains("queue_threshold")).collect();
    assert!(!full.is_empty() && full.iter().all(|s| depths.contains(&s.comment)), "{dropped:#?}");
    assert_eq!(report["captures"][0]["records"], seen.len() as u64);
    assert_eq!(report["captures"][0]["lost"], 0);
    for record in &seen {
        let epoch: f64 = record.epoch.parse().expect("seconds");
        assert!((before - 1.0..after + 1.0).contains(&epoch), "{record:?} {before} {after}");
        let digits = record.epoch.split('.').nth(1).map_or(0, str::len);
        assert_eq!((digits, record.bytes), (9, 1250), "{record:?}");
    }
}

/// A file for one port has that port's frames, and the drops of what would have left by it.
#[test]
fn a_port_has_a_file_of_its_own() {
    let test = "a_port_has_a_file_of_its_own";
    if !has_tool("tshark") {
        return skip(test, "no tshark");
    }
    let Some(_network) = cables(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (folder.path().join("switch.yaml"), folder.path().join("two.pcapng"));
    std::fs::write(&config, SLOW).unwrap();
    let two = format!("2=xdp:sw2,capture={}", file.display());
    let switch = Switch::on(
        PROGRAM,
        &["1=raw:sw1", &two],
        &["--config", config.to_str().unwrap(), "--json"],
    );
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 300)]);
    assert_eq!(host1.receive(1).len(), 1);
    host1.send(&(0..20).map(|n| queues::frame(1, 2, 0, 2, n, 1250)).collect::<Vec<_>>());
    assert!(!host2.receive(3).is_empty());
    let report = report(switch);
    let seen = tshark(&file);
    let name = |what: &str| format!("port 2 xdp:sw2 {what}");
    let of = |what: &str| seen.iter().filter(|s| s.interface == name(what)).count();
    assert_eq!(of("in"), 1, "{seen:#?}");
    assert_eq!(of("out") as u64 + 1, report["total"]["sent"].as_u64().unwrap());
    let dropped: u64 =
        report["total"]["dropped"].as_array().unwrap().iter().map(|p| p[1].as_u64().unwrap()).sum();
    assert_eq!(of("dropped") as u64, dropped);
    assert_eq!(of("in") + of("out") + of("dropped"), seen.len());
}

/// A disk that is full, and one that takes nothing: reported and counted, and forwarding does not notice.
#[test]
fn a_file_that_takes_nothing_is_told_and_slows_nobody() {
    let test = "a_file_that_takes_nothing_is_told_and_slows_nobody";
    let Some(_network) = cables(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // An open end that nobody reads from: a pipe has room for 64 KiB.
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    for (file, why) in [("/dev/full", "No space left"), (pipe.to_str().unwrap(), "takes nothing")] {
        let one = format!("1=raw:sw1,capture={file}");
        let switch = Switch::start(&[PROGRAM, "--port", &one, "--port", "2=raw:sw2", "--json"]);
        let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
        // 14 MB: more than all buffers hold.
        let burst: Vec<Vec<u8>> = (0..50).map(|n| queues::frame(1, 2, 0, 2, n, 9000)).collect();
        let mut left = 0;
        for _ in 0..32 {
            host1.send(&burst);
            let deadline = Instant::now() + Duration::from_secs(5);
            let goal = left + 50;
            while left < goal && Instant::now() < deadline {
                left += host2.take();
            }
        }
        assert_eq!(left, 1600, "{file}: every frame is forwarded");
        let ended = switch.end("INT");
        let report: serde_json::Value =
            serde_json::from_str(&ended.expect(2, &[why, file]).out).expect("JSON counters");
        let capture = &report["captures"][0];
        let number = |key: &str| capture[key].as_u64().expect("a number");
        assert!(number("lost") > 600, "{capture}");
        assert_eq!(number("lost") + number("records"), 1600, "{capture}");
        assert!(capture["error"].as_str().is_some_and(|error| error.contains(why)), "{capture}");
        assert_eq!(report["total"]["sent"], 1600);
    }
}

/// A named pipe shows packets as they come to who reads it, and is refused while nobody does.
#[test]
fn a_pipe_is_followed_by_its_reader() {
    let Some(_network) = cables("a_pipe_is_followed_by_its_reader") else { return };
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let one = format!("1=raw:sw1,capture={}", pipe.display());
    let ports = ["--port", one.as_str(), "--port", "2=raw:sw2"];
    let refused = run(&[&["run", PROGRAM], &ports[..]].concat());
    refused.expect(2, &["nobody reads this pipe", "start its reader first"]);
    let reader = Command::new("sh")
        .args(["-c", "exec \"$0\" decode - < \"$1\""])
        .arg(wireyard())
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn();
    let mut reader = reader.expect("sh runs");
    let (sender, lines) = channel();
    let out = BufReader::new(reader.stdout.take().unwrap());
    let follow = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| _ = sender.send(line));
    });
    let start = || Switch::start(&[&[PROGRAM], &ports[..]].concat());
    let switch = start();
    let mut host1 = Wire::open("raw:host1");
    for number in 0..3 {
        host1.send(&[queues::frame(1, 2, 0, 2, number, 200)]);
        let line = lines.recv_timeout(Duration::from_secs(10)).expect("a line for each packet");
        assert!(line.contains("[port 1 in]"), "{line}");
    }
    switch.end("INT").expect(0, &[]);
    assert!(reader.wait().expect("it ends").success());
    follow.join().expect("it ends too");
}

/// A frame that its port gave up is with the dropped ones, not with those that left.
#[test]
fn what_a_port_gives_up_is_recorded_as_dropped() {
    let test = "what_a_port_gives_up_is_recorded_as_dropped";
    if !has_tool("tshark") {
        return skip(test, "no tshark");
    }
    let Some(_network) = cables(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.pcapng");
    let ports = ["1=raw:sw1", "2=raw:sw2"];
    let more = ["--capture", file.to_str().unwrap(), "--json"];
    let mut switch = Switch::on(PROGRAM, &ports, &more);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 300)]);
    assert_eq!(host1.receive(1).len(), 1);
    ip("link set sw2 down");
    switch.await_text("port 2 (raw:sw2) is down", Duration::from_secs(10));
    host1.send(&(0..7).map(|n| queues::frame(1, 2, 0, 2, n, 200)).collect::<Vec<_>>());
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let now = congested::ask(&switch);
        if now["total"]["received"] == 8 {
            break;
        }
        assert!(Instant::now() < deadline, "{now:#}");
    }
    let report = congested::counters(&switch.end("INT"));
    let seen = tshark(&file);
    let of = |what: &str| {
        let name = format!("port 2 raw:sw2 {what}");
        seen.iter().filter(|s| s.interface == name).collect::<Vec<_>>()
    };
    assert_eq!((of("out").len(), of("dropped").len()), (0, 7), "{seen:#?}");
    let comment = "dropped: tx_full: the port gave it up";
    assert!(of("dropped").iter().all(|s| s.comment == comment), "{seen:#?}");
    assert_eq!(report["captures"][0]["records"], seen.len() as u64);
}

/// A frame of a capture that was cut is recorded with the length that it had.
#[test]
fn a_cut_record_keeps_its_length() {
    let test = "a_cut_record_keeps_its_length";
    if !has_tool("tshark") {
        return skip(test, "no tshark");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let frame = queues::frame(1, 2, 0, 0, 7, 1000);
    let mut bytes = Vec::new();
    // pcap, microseconds, Ethernet; then a record of 128 bytes of 1000.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 128, 1, 0, 0, 128, 1000] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(&frame[..128]);
    std::fs::write(path("in.pcap"), bytes).unwrap();
    let one =
        format!("1=pcap:{},capture={}", path("in.pcap").display(), path("x.pcapng").display());
    let two = format!("2=pcap:,out={}", path("out.pcap").display());
    run(&["run", PROGRAM, "--port", &one, "--port", &two]).expect(0, &[]);
    let seen = tshark(&path("x.pcapng"));
    let received = seen.iter().find(|s| s.interface.ends_with(" in")).expect("it came");
    assert_eq!((received.bytes, received.kept), (1000, 128), "{seen:#?}");
}

/// Of two switches with one file the second is refused, and the first loses nothing. What an earlier run recorded stays.
#[test]
fn a_file_has_one_writer_and_an_older_capture_is_kept() {
    let Some(_network) = cables("a_file_has_one_writer_and_an_older_capture_is_kept") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (capture, out) = (path("a.pcapng"), path("out.pcap"));
    std::fs::write(&capture, "of an earlier run").unwrap();
    let output = format!("2=pcap:,out={out}");
    let mut first = Switch::on(PROGRAM, &["1=raw:sw1", &output], &["--capture", &capture]);
    let said = format!("capture {capture}: the one before is {capture}.1 now");
    first.await_text(&said, Duration::from_secs(10));
    assert_eq!(std::fs::read_to_string(path("a.pcapng.1")).unwrap(), "of an earlier run");
    let refused = |arguments: &[&str]| {
        let ended = run(&[&["run", PROGRAM, "--control", "none"], arguments].concat());
        ended.expect(2, &["it is being written already: name another file"]);
        assert!(!ended.err.contains("runs on"), "{}", ended.err);
    };
    refused(&["--port", "1=raw:sw2", "--capture", &capture]);
    refused(&["--port", &format!("1=pcap:,out={out}")]);
    first.end("TERM").expect(0, &[]);
    assert!(std::fs::metadata(&capture).unwrap().len() > 0, "the first has its file");
    assert_eq!(std::fs::read_to_string(path("a.pcapng.1")).unwrap(), "of an earlier run");
}

/// A file that cannot be made, or is the port's own, starts nothing.
#[test]
fn a_bad_file_is_refused() {
    let Some(_network) = cables("a_bad_file_is_refused") else { return };
    for (arguments, why) in [
        (["--port", "1=raw:sw1,capture=/no/such/folder/x.pcapng"], "No such file or directory"),
        (["--port", "1=raw:sw1,capture="], "capture= names no file"),
        (["--port", "1=pcap:,out=x.pcap,capture=x.pcap"], "the port uses this file"),
    ] {
        let ended = run(&[&["run", PROGRAM], arguments.as_slice()].concat());
        ended.expect(2, &[why]);
        assert!(!ended.err.contains("runs on"), "{}", ended.err);
    }
}
