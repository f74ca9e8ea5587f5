//! Our RC end point and the Linux kernel's: `wireyard host` and Soft-RoCE in a virtual machine, with `wireyard run
//! programs/event_injector` between them.
//!
//! SEND, WRITE, READ and ATOMIC in both directions, first undisturbed, then each with packets dropped and corrupted at
//! chosen PSNs; memory is compared byte for byte at both ends. Needs root, QEMU and `../shared/rxe-vm`.

mod congestion;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::binary::wireyard;
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, is_root, shared, skip, workspace_root};

use crate::rig::{ip, private_network, veth};
use crate::run::WHOLE_MACHINE;

/// Bytes of a message: 40 packets at path MTU 1,024, the last one short and padded.
const MESSAGE: usize = 40_000 - 7;
/// PSN of the first packet of either end.
const OUR_PSN: u64 = 1000;
const KERNEL_PSN: u64 = 5000;
const OUR_IP: &str = "10.77.0.9";
const KERNEL_IP: &str = "10.77.0.1";

/// One end of the conversation: takes a command, gives its answer.
trait End {
    fn ask(&mut self, command: Value) -> Value;

    #[track_caller]
    fn tell(&mut self, command: Value) -> Value {
        let answer = self.ask(command.clone());
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    fn wait(&mut self, count: usize) -> Vec<Value> {
        let answer = self.tell(json!({ "do": "wait", "completions": count, "seconds": 40 }));
        answer["completions"].as_array().expect("completions").clone()
    }
}

/// `wireyard host`.
struct Ours {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Ours {
    fn start(port: &str) -> Ours {
        let mut child = Command::new(wireyard())
            .args(["host", "--port", port, "--ip", OUR_IP, "--rate", "100Mbit/s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the host starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Ours { child, input, output }
    }
}

impl End for Ours {
    fn ask(&mut self, command: Value) -> Value {
        writeln!(self.input, "{command}").expect("the host reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the host answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{command}: `{line}`"))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The virtual machines, of which one is used; stopped when dropped.
struct Machines {
    script: PathBuf,
    state: PathBuf,
}

impl Machines {
    fn start(shared: &Path, folder: &Path) -> Machines {
        let (script, state) = (shared.join("rxe-vm/run.sh"), folder.join("state"));
        let machines = Machines { script, state };
        // A guest's kernel that is not given a processor in time panics in its timer check: it is started again.
        let start = || machines.command(&["start", "--ttl", "600", "tapA", "tapB"]).output();
        let tries = (0..3).map(|_| start().expect("the rig runs"));
        let mut ended = Vec::new();
        for output in tries {
            ended.push(String::from_utf8_lossy(&output.stderr).into_owned());
            if output.status.success() {
                return machines;
            }
        }
        panic!("{}", ended.concat());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.script);
        command.args(arguments).env("RXE_VM_STATE", &self.state);
        command
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.command(&["stop"]).status();
    }
}

/// Verbs in the guest, through files in the folder it shares with us.
struct Kernel {
    child: Child,
    folder: PathBuf,
    number: u32,
}

impl Kernel {
    fn start(machines: &Machines) -> Kernel {
        let folder = machines.state.join("A/share");
        let script = workspace_root().join("tests/data/rxe/peer.py");
        std::fs::copy(script, folder.join("peer.py")).expect("the guest's folder");
        let mut command = machines.command(&["exec", "-t", "500", "A", "python3 /host/peer.py"]);
        let child = command.spawn().expect("the rig runs");
        let kernel = Kernel { child, folder, number: 0 };
        kernel.await_file("peer.ready");
        kernel
    }

    fn await_file(&self, name: &str) -> PathBuf {
        let (path, end) = (self.folder.join(name), Instant::now() + Duration::from_secs(90));
        while !path.exists() {
            assert!(Instant::now() < end, "the guest does not write {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
        path
    }
}

impl End for Kernel {
    fn ask(&mut self, command: Value) -> Value {
        let name = format!("cmd.{}", self.number);
        let fresh = self.folder.join("cmd.new");
        std::fs::write(&fresh, command.to_string()).expect("the guest's folder");
        std::fs::rename(fresh, self.folder.join(name)).expect("the guest's folder");
        let answer = self.await_file(&format!("ans.{}", self.number));
        self.number += 1;
        serde_json::from_str(&std::fs::read_to_string(answer).expect("an answer")).expect("JSON")
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes without a pattern that a shifted or repeated packet would keep.
fn content(seed: u32) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = move || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..MESSAGE).map(|_| next()).collect()
}

/// A region of an end: where it is, and what must be in it.
struct Region {
    key: Value,
    local_key: Value,
    va: Value,
    file: PathBuf,
    seen_as: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Ours,
    Kernel,
}

struct Rig {
    ours: Ours,
    kernel: Kernel,
    folder: PathBuf,
    regions: u32,
}

impl Rig {
    fn end(&mut self, who: Who) -> &mut dyn End {
        match who {
            Who::Ours => &mut self.ours,
            Who::Kernel => &mut self.kernel,
        }
    }

    /// Registers memory; the kernel's files are in the folder that the guest sees as /host.
    fn region(&mut self, who: Who, bytes: &[u8]) -> Region {
        self.regions += 1;
        let name = format!("memory.{}", self.regions);
        let (file, seen_as) = match who {
            Who::Ours => (self.folder.join(&name), self.folder.join(&name).display().to_string()),
            Who::Kernel => (self.kernel.folder.join(&name), format!("/host/{name}")),
        };
        std::fs::write(&file, bytes).expect("a file");
        let command = json!({ "do": "memory", "bytes": bytes.len(), "file": seen_as });
        let answer = self.end(who).tell(command);
        let of = |name: &str| answer[name].clone();
        Region { key: of("key"), local_key: of("local_key"), va: of("va"), file, seen_as }
    }

    fn saved(&mut self, who: Who, region: &Region) -> Vec<u8> {
        let command = json!({ "do": "save", "key": region.local_key, "file": region.seen_as });
        self.end(who).tell(command);
        std::fs::read(&region.file).expect("the file")
    }

    fn connect(&mut self, pair: (u64, u64)) {
        let (ours, kernel) = pair;
        self.kernel.tell(json!({ "do": "connect", "qp": kernel, "ip": OUR_IP, "peer_qp": ours,
            "psn": KERNEL_PSN, "peer_psn": OUR_PSN }));
        self.ours.tell(json!({ "do": "connect", "qp": ours, "ip": KERNEL_IP, "peer_qp": kernel,
            "psn": OUR_PSN, "peer_psn": KERNEL_PSN }));
    }

    fn post(
        &mut self,
        who: Who,
        kind: &str,
        qp: u64,
        local: &Region,
        remote: &Region,
        more: Value,
    ) {
        let bytes = if kind.contains('_') { 8 } else { MESSAGE };
        let mut command = json!({ "do": kind, "qp": qp, "id": 1, "key": local.local_key,
            "va": local.va, "bytes": bytes });
        let fields = command.as_object_mut().expect("an object");
        if kind != "send" {
            fields.insert("remote_key".into(), remote.key.clone());
            fields.insert("remote_va".into(), remote.va.clone());
        }
        for (name, value) in more.as_object().into_iter().flatten() {
            fields.insert(name.clone(), value.clone());
        }
        self.end(who).tell(command);
        let done = self.end(who).wait(1);
        assert_eq!(done.len(), 1, "{who:?} {kind}: no completion");
        assert_eq!(done[0]["status"], "success", "{who:?} {kind}: {}", done[0]);
    }

    /// One operation, and the comparison of both memories afterwards.
    fn operation(&mut self, who: Who, kind: &str, pair: (u64, u64)) {
        let (other, qp, other_qp) = match who {
            Who::Ours => (Who::Kernel, pair.0, pair.1),
            Who::Kernel => (Who::Ours, pair.1, pair.0),
        };
        let (here, there) = (content(self.regions * 2 + 1), content(self.regions * 2 + 77));
        let local = self.region(who, &here);
        let remote = self.region(other, &there);
        let (mut want_here, mut want_there) = (here.clone(), there.clone());
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        match kind {
            "write" => {
                self.post(who, kind, qp, &local, &remote, Value::Null);
                want_there = here;
            }
            "read" => {
                self.post(who, kind, qp, &local, &remote, Value::Null);
                want_here = there;
            }
            "send" => {
                let recv = json!({ "do": "recv", "qp": other_qp, "id": 9, "key": remote.local_key,
                    "va": remote.va, "bytes": MESSAGE });
                self.end(other).tell(recv);
                self.post(who, kind, qp, &local, &remote, Value::Null);
                let received = self.end(other).wait(1);
                assert_eq!(received[0]["bytes"], MESSAGE, "{received:?}");
                want_there = here;
            }
            _ => {
                // Executed once and only once, whatever is lost: two additions and a swap.
                let old = word(&there);
                for add in [5, 6] {
                    let more = json!({ "add": add });
                    self.post(who, "fetch_add", qp, &local, &remote, more);
                }
                want_here[..8].copy_from_slice(&old.wrapping_add(11).to_le_bytes());
                let more = json!({ "compare": old.wrapping_add(11), "swap": 99 });
                self.post(who, "cmp_swap", qp, &local, &remote, more);
                want_there[..8].copy_from_slice(&99u64.to_le_bytes());
            }
        }
        assert!(self.saved(who, &local) == want_here, "{who:?} {kind}: local memory");
        assert!(self.saved(other, &remote) == want_there, "{who:?} {kind}: remote memory");
    }
}

/// The operations, each from either end.
fn operations() -> impl Iterator<Item = (Who, &'static str)> {
    let kinds = ["write", "send", "read", "atomic"];
    kinds.into_iter().flat_map(|kind| [(Who::Ours, kind), (Who::Kernel, kind)])
}

/// What is done to the packets of one operation: to requests, and to answers.
struct Disturbance {
    requests: Vec<(u64, u32, &'static str)>,
    answers: Vec<(u64, u32, &'static str)>,
}

/// PSN and iteration, as `event_injector` counts it, of what is lost.
fn disturbance(who: Who, kind: &str) -> Disturbance {
    let psn = if who == Who::Ours { OUR_PSN } else { KERNEL_PSN };
    match kind {
        // One in the middle is lost; when it is sent again, a later one is corrupted; then the acknowledgement is lost.
        "write" | "send" => Disturbance {
            requests: vec![(psn + 3, 1, "drop_it"), (psn + 17, 2, "corrupt")],
            answers: vec![(psn + 39, 1, "drop_it")],
        },
        // The request, then responses.
        "read" => Disturbance {
            requests: vec![(psn, 1, "drop_it")],
            answers: vec![(psn + 5, 1, "drop_it"), (psn + 20, 2, "corrupt")],
        },
        // The request of the first, and the answer of the second: it must not be executed again.
        _ => Disturbance {
            requests: vec![(psn, 1, "drop_it")],
            answers: vec![(psn + 1, 1, "drop_it")],
        },
    }
}

/// The entries of `event_injector` for the pairs after the first, which stays undisturbed.
fn entries(pairs: &[(u64, u64)]) -> (String, usize) {
    let (mut connections, mut events, mut count) = (String::new(), String::new(), 0);
    for (n, ((ours, kernel), (who, kind))) in pairs[1..].iter().zip(operations()).enumerate() {
        let (to_kernel, to_us) = (2 * n + 1, 2 * n + 2);
        for (flow, ip, qp) in [(to_kernel, KERNEL_IP, kernel), (to_us, OUR_IP, ours)] {
            connections += &format!(
                "    - {{ match: {{ ipv4.dst: {ip}, ipv6.dst: \"::\", bth.dqpn: {qp} }}, action: watch({flow}) }}\n"
            );
        }
        let (requests, answers) = match who {
            Who::Ours => (to_kernel, to_us),
            Who::Kernel => (to_us, to_kernel),
        };
        let what = disturbance(who, kind);
        for (flow, list) in [(requests, what.requests), (answers, what.answers)] {
            for (psn, iteration, action) in list {
                count += 1;
                events += &format!(
                    "    - {{ match: {{ meta.flow: {flow}, bth.psn: {psn}, meta.iteration: {iteration} }}, action: {action} }}\n"
                );
            }
        }
    }
    let text = format!(
        "entries:\n  wires:\n    - {{ match: {{ std.ingress_port: 1 }}, action: forward(2) }}\n    - {{ match: \
         {{ std.ingress_port: 2 }}, action: forward(1) }}\n  connections:\n{connections}  events:\n{events}\
         mirror_sessions: {{ 1: {{ port: 3 }} }}\n"
    );
    (text, count)
}

/// The folder of the machines, and a namespace with their two TAPs; says why not otherwise.
fn place_for_machines(test: &str) -> Option<(PathBuf, PrivateNetwork)> {
    let Some(shared) = shared().filter(|shared| shared.join("rxe-vm/run.sh").is_file()) else {
        skip(test, "no ../shared/rxe-vm");
        return None;
    };
    if !is_root() || !has_tool("qemu-system-x86_64") {
        skip(test, "needs root and qemu-system-x86");
        return None;
    }
    // Before the namespace, which has no way to the packages.
    let built = Command::new(shared.join("rxe-vm/build.sh")).status();
    assert!(built.is_ok_and(|status| status.success()), "the image is built");
    let network = private_network(test)?;
    for tap in ["tapA", "tapB"] {
        ip(&format!("tuntap add {tap} mode tap"));
        ip(&format!("link set {tap} mtu 4300 txqueuelen 10000 up"));
    }
    Some((shared, network))
}

#[test]
fn our_end_point_and_the_kernels_talk_with_and_without_loss() {
    let _alone = WHOLE_MACHINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let test = "our_end_point_and_the_kernels_talk_with_and_without_loss";
    let Some((shared, _network)) = place_for_machines(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    veth("sw1", "host1");
    let machines = Machines::start(&shared, folder.path());
    let kernel = Kernel::start(&machines);
    let ours = Ours::start("raw:host1");
    let mut rig = Rig { ours, kernel, folder: folder.path().to_owned(), regions: 0 };
    let mut pair = || {
        let [ours, kernel] = [Who::Ours, Who::Kernel].map(|who| {
            rig.end(who).tell(json!({ "do": "queue_pair" }))["qp"].as_u64().expect("a number")
        });
        (ours, kernel)
    };
    let pairs: Vec<(u64, u64)> = (0..=operations().count()).map(|_| pair()).collect();
    let (text, planned) = entries(&pairs);
    let file = folder.path().join("entries.yaml");
    std::fs::write(&file, text).unwrap();
    let capture = format!("3=pcap:,out={}", folder.path().join("events.pcap").display());
    let switch = Switch::start(&[
        "programs/event_injector",
        "--entries",
        file.to_str().unwrap(),
        "--port",
        "1=raw:sw1",
        "--port",
        "2=raw:tapA",
        "--port",
        &capture,
        "--json",
    ]);

    rig.connect(pairs[0]);
    for (who, kind) in operations() {
        rig.operation(who, kind, pairs[0]);
    }
    let quiet =
        (rig.ours.tell(json!({ "do": "counters" })), rig.kernel.tell(json!({ "do": "counters" })));
    let count = |counters: &Value, name: &str| counters[name].as_u64().expect("a counter");
    for name in ["retransmitted_packets", "timeouts", "out_of_sequence", "refused"] {
        assert_eq!(count(&quiet.0, name), 0, "undisturbed: {}", quiet.0);
    }

    for (pair, (who, kind)) in pairs[1..].iter().zip(operations()) {
        rig.connect(*pair);
        rig.operation(who, kind, *pair);
    }
    let (ours, kernel) =
        (rig.ours.tell(json!({ "do": "counters" })), rig.kernel.tell(json!({ "do": "counters" })));
    eprintln!("{test}: {planned} packets disturbed; ours {ours}; kernel {kernel}");
    // NAK, go-back-N and retry, seen by both.
    for name in [
        "retransmitted_packets",
        "timeouts",
        "out_of_sequence",
        "duplicate_requests",
        "sequence_naks_sent",
        "sequence_naks_received",
        "implied_naks",
        "refused",
    ] {
        assert!(count(&ours, name) > 0, "no {name}: {ours}");
    }
    for name in ["out_of_seq_request", "duplicate_request", "rcvd_seq_err", "completer_retry_err"] {
        assert!(count(&kernel, name) > count(&quiet.1, name), "no {name}: {kernel}");
    }
    rig.ours.tell(json!({ "do": "end" }));
    let ended = switch.end("INT");
    let report: Value = serde_json::from_str(&ended.out).expect("JSON counters");
    let total = &report["total"];
    let reasons = total["dropped"].as_array().expect("reasons");
    let injected = reasons.iter().find(|reason| reason[0] == "injected").map(|reason| &reason[1]);
    assert_eq!(injected.and_then(Value::as_u64), Some(16), "{total}");
    // The other six were corrupted; three of them were on their way to us.
    assert_eq!((planned, count(&ours, "refused")), (22, 3), "{ours}");
    assert_eq!(total["balanced"], true, "{total}");
}
