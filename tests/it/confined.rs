//! The sandbox of `run`: what the kernel says of each thread, what still works in it, what does not.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise. That nothing is refused which a
//! switch does is in every test that ends a [`Switch`].

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;
use wireyard_tests::skip;

use crate::rig::{Wire, ip, private_network, veth};

/// CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_BPF (include/uapi/linux/capability.h).
const OF_PORTS: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;
/// CAP_SYS_NICE.
const SYS_NICE: u64 = 1 << 23;
const SOON: Duration = Duration::from_secs(10);

/// The status of each thread of a process: its name, and lines by name.
fn threads(pid: u32) -> Vec<(String, Vec<(String, String)>)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |task: &Path| fs::read_to_string(task.join("status")).unwrap_or_default();
    let lines = |text: String| -> Vec<(String, String)> {
        let line =
            |line: &str| line.split_once(':').map(|(a, b)| (a.to_owned(), b.trim().to_owned()));
        text.lines().filter_map(line).collect()
    };
    let all = tasks.map(|task| lines(status(&task.unwrap().path())));
    all.filter(|lines| !lines.is_empty()).map(|lines| (lines[0].1.clone(), lines)).collect()
}

/// The threads of a switch once each has its own name: a thread that has just begun has that of its parent (clone(2)).
fn named_threads(pid: u32) -> Vec<(String, Vec<(String, String)>)> {
    let deadline = Instant::now() + SOON;
    loop {
        let threads = threads(pid);
        let unnamed = threads.iter().filter(|(name, _)| name == "wireyard").count() - 1;
        if unnamed == 0 {
            return threads;
        }
        assert!(Instant::now() < deadline, "{unnamed} threads have no name of their own");
        thread::sleep(Duration::from_millis(5));
    }
}

fn value<'a>(lines: &'a [(String, String)], name: &str) -> &'a str {
    lines.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

fn mask(lines: &[(String, String)], name: &str) -> u64 {
    u64::from_str_radix(value(lines, name), 16).expect("a mask")
}

fn cables() {
    ip("link set lo up");
    (1..=3).for_each(|n| veth(&format!("sw{n}"), &format!("host{n}")));
}

const PORTS: [&str; 4] = ["--port", "1=raw:sw1", "--port", "2=xdp:sw2"];

#[test]
fn every_thread_has_what_ports_need_and_no_more() {
    let Some(_network) = private_network("every_thread_has_what_ports_need_and_no_more") else {
        return;
    };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let (state, capture) = (folder.path().join("state"), folder.path().join("all.pcapng"));
    let more = ["--metrics", "127.0.0.1:0", "--p4runtime", "127.0.0.1:0", "--state"];
    let files = [state.to_str().unwrap(), "--capture", capture.to_str().unwrap(), "--linux"];
    let switch = Switch::start(&[&["programs/linux_router"], &PORTS[..], &more, &files].concat());
    let threads = threads(switch.pid());
    let names: Vec<&str> = threads.iter().map(|(name, _)| name.as_str()).collect();
    for expected in ["wireyard", "linux", "controllers", "state", "capture"] {
        assert!(names.contains(&expected), "{expected} of {names:?}");
    }
    for (name, lines) in &threads {
        assert_eq!(value(lines, "NoNewPrivs"), "1", "{name}");
        assert_eq!(value(lines, "Seccomp"), "2", "{name}: a filter");
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            assert_eq!(mask(lines, set), OF_PORTS, "{name}: {set}");
        }
        assert_eq!(mask(lines, "CapInh") | mask(lines, "CapAmb"), 0, "{name}");
    }
    switch.end("INT").expect(0, &[]);
    assert!(capture.exists() && state.exists());
}

/// Who forwards comes first, who serves does not, and a user who may not have that is asked for it.
#[test]
fn realtime_is_for_workers_alone() {
    let Some(_network) = private_network("realtime_is_for_workers_alone") else { return };
    cables();
    let more = ["--realtime", "--workers", "2", "--p4runtime", "127.0.0.1:0"];
    let switch = Switch::start(&[&["programs/l2_switch"], &PORTS[..], &more].concat());
    for (name, lines) in named_threads(switch.pid()) {
        // A thread may have ended meanwhile.
        let stat = fs::read_to_string(format!("/proc/{}/stat", value(&lines, "Pid")));
        let Ok(stat) = stat else { continue };
        // After the name: fields 40 and 41, priority and policy (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let is_worker = name == "wireyard" || name.starts_with("worker");
        let expected = if is_worker { ["1", "1"] } else { ["0", "0"] };
        assert_eq!(fields[37..39], expected, "{name}");
        assert_eq!(mask(&lines, "CapEff"), OF_PORTS | SYS_NICE, "{name}");
    }
    switch.end("INT").expect(0, &[]);
    let lacking = "-sys_nice,-sys_resource";
    let refused = Command::new("setpriv")
        .args(["--bounding-set", lacking, "prlimit", "--rtprio=0:0", "--"])
        .arg(wireyard_tests::binary::wireyard())
        .args([&["run", "programs/l2_switch"], &PORTS[..], &["--realtime"]].concat())
        .current_dir(wireyard_tests::workspace_root())
        .output();
    let refused = refused.expect("setpriv and prlimit run (util-linux)");
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{err}");
    assert!(err.contains("--realtime: ") && err.contains("CAP_SYS_NICE"), "{err}");
}

#[test]
fn without_the_sandbox_all_is_as_it_was() {
    let Some(_network) = private_network("without_the_sandbox_all_is_as_it_was") else { return };
    cables();
    let own = threads(std::process::id());
    let switch = Switch::start(&[&["programs/l2_switch"], &PORTS[..], &["--no-sandbox"]].concat());
    for (name, lines) in threads(switch.pid()) {
        assert_eq!(value(&lines, "Seccomp"), value(&own[0].1, "Seccomp"), "{name}");
        assert_eq!(mask(&lines, "CapEff"), mask(&own[0].1, "CapEff"), "{name}");
    }
    switch.end("INT").expect(0, &[]);
}

/// An address that only a privileged user may take is taken before the privilege is given up.
#[test]
fn pages_and_metrics_have_ports_below_1024() {
    let Some(_network) = private_network("pages_and_metrics_have_ports_below_1024") else { return };
    cables();
    let more = ["--http", "127.0.0.1:80", "--metrics", "127.0.0.1:81"];
    let switch = Switch::start(&[&["programs/l2_switch"], &PORTS[..], &more].concat());
    for shown in ["metrics on http://127.0.0.1:81/metrics", "page on http://127.0.0.1:80/"] {
        assert!(switch.err().contains(shown), "{}", switch.err());
    }
    switch.end("INT").expect(0, &[]);
}

/// Ports of each kind come by file and by command, with what they write, while the switch is confined.
#[test]
fn ports_of_every_kind_come_and_go_in_the_sandbox() {
    let Some(_network) = private_network("ports_of_every_kind_come_and_go_in_the_sandbox") else {
        return;
    };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports.yaml");
    let one = "1: { interface: 'raw:sw1' }";
    fs::write(&file, format!("ports: {{ {one} }}\n")).unwrap();
    let mut switch = Switch::start(&["programs/l2_switch", "--ports", file.to_str().unwrap()]);
    for (n, kind) in [(2, "xdp:sw2"), (3, "pnet:sw3"), (4, "tap:tap4")] {
        // As an editor does it: another file in its place.
        let beside = folder.path().join("new");
        fs::write(&beside, format!("ports: {{ {one}, {n}: {{ interface: '{kind}' }} }}\n"))
            .unwrap();
        fs::rename(&beside, &file).unwrap();
        switch.signal("HUP");
        switch.await_text(&format!("port {n} ({kind}) was added"), SOON);
    }
    switch.end("INT").expect(0, &[]);
    let mut switch =
        Switch::on("programs/l2_switch", &["1=raw:sw1"], &["--packet-memory", "64MiB"]);
    for (n, spec) in [("2", "xdp:sw2"), ("3", "raw:sw3"), ("4", "tap:tap4")] {
        switch.command(&["port", "add", n, spec]).expect(0, &[]);
    }
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let frame = crate::queues::frame(1, 2, 0, 0, 7, 100);
    host1.send(std::slice::from_ref(&frame));
    assert_eq!(host2.receive(1), [frame]);
    switch.command(&["port", "remove", "2"]).expect(0, &[]);
    switch.command(&["swap", "programs/l2_switch"]).expect(0, &[]);
    switch.signal("USR1");
    switch.await_text("received", SOON);
    switch.end("INT").expect(0, &[]);
}

#[test]
fn files_are_written_beneath_folders_that_were_named() {
    let test = "files_are_written_beneath_folders_that_were_named";
    let Some(_network) = private_network(test) else { return };
    if finding()["found"].as_str().is_some_and(|found| found.contains("Landlock")) {
        return skip(test, "this kernel has no Landlock");
    }
    cables();
    let (named, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/var/tmp").unwrap());
    let arguments = ["--writable", named.path().to_str().unwrap()];
    let switch = Switch::on("programs/l2_switch", &["1=raw:sw1", "2=raw:sw2"], &arguments);
    let capture = |folder: &Path| {
        let file = folder.join("one.pcapng");
        (switch.command(&["capture", "start", "1", file.to_str().unwrap()]), file)
    };
    let (ended, file) = capture(other.path());
    ended.expect(2, &["Permission denied", "--writable DIR", named.path().to_str().unwrap()]);
    assert!(!file.exists());
    let out = |folder: &Path| format!("pcap:,out={}", folder.join("out.pcap").display());
    switch
        .command(&["port", "add", "3", &out(other.path())])
        .expect(2, &["Permission denied", "--writable DIR", named.path().to_str().unwrap()]);
    switch.command(&["port", "add", "3", &out(named.path())]).expect(0, &[]);
    let (ended, file) = capture(named.path());
    ended.expect(0, &[]);
    assert!(file.exists());
    switch.command(&["capture", "stop", "1"]).expect(0, &[]);
    let (ended, _) = capture(switch.run_folder());
    ended.expect(0, &[]);
    switch.end("INT").expect(0, &[]);
    let missing = other.path().join("missing");
    let more = ["--port", "1=raw:sw1", "--writable", missing.to_str().unwrap()];
    run(&[&["run", "programs/l2_switch"], &more[..]].concat())
        .expect(2, &["there is no such folder"]);
}

/// What `doctor` says of the sandbox.
fn finding() -> Value {
    let ended = run(&["doctor", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&ended.out).expect("JSON");
    all.into_iter().find(|one| one["subject"] == "sandbox of run").expect("a finding")
}

/// The child of `doctor` does what a switch never does, in the sandbox of a switch.
#[test]
fn what_a_switch_never_does_is_refused() {
    let ended = run(&["doctor", "--try-sandbox"]);
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    let attempts = report["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 11, "{report}");
    if !report["warnings"].as_array().is_some_and(Vec::is_empty) {
        return skip("what_a_switch_never_does_is_refused", &report["warnings"].to_string());
    }
    for attempt in attempts {
        let error = attempt[1].as_str().unwrap_or_default();
        let is_refused = error.contains("not permitted") || error.contains("denied");
        assert!(is_refused, "{attempt} of {report}");
    }
    // A namespace, a socket, a mode twice, a terminal, a signal, limits and the kernel: calls that are reported. A process
    // is refused without a signal; files and TCP are Landlock's.
    assert_eq!(report["calls"].as_array().map(Vec::len), Some(8), "{report}");
    assert_eq!(finding()["verdict"], "good");
}

/// The unit of the package starts a command that there is, and gives it the capabilities that the sandbox keeps.
#[test]
fn the_unit_gives_what_the_sandbox_keeps() {
    let unit = wireyard_tests::workspace_root().join("switch/packaging/wireyard@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let setting = |name: &str| {
        let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    for name in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        let mut given: Vec<String> = setting(name).split(' ').map(str::to_owned).collect();
        given.sort();
        let kept = ["CAP_BPF", "CAP_IPC_LOCK", "CAP_NET_ADMIN", "CAP_NET_RAW"];
        assert_eq!(given, kept, "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let command = setting("ExecStart").replace("/etc/wireyard/%i", "programs/l2_switch");
    let command = command.replace("/var/lib/wireyard/%i", folder.path().to_str().unwrap());
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    // Nothing but its ports is missing here.
    run(&words).expect(2, &["programs/l2_switch/ports.yaml"]);
}
