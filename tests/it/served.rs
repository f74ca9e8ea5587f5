//! Ports that several workers serve: every frame arrives, no flow overtakes itself, accounts and pauses are those of the owner.
//!
//! First polled in turns, in virtual time (`turns`); then with two workers in threads, on veth pairs with two queues and on TAPs, which needs
//! root.

mod recorded;
mod turns;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::config::room::CHUNK_BYTES;
use wireyard_switch::ports::{Port, PortSpec, RxFrame, Spread, TxFrame, open_spread};
use wireyard_tables::time::Time;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;

use crate::queues::{frame, pfc};
use crate::rig::{ip, private_network};

const PROGRAM: &str = "programs/rocev2_lossless";
const SOON: Duration = Duration::from_secs(10);
/// Flows of a test, and frames of each that are sent together.
const FLOWS: u16 = 48;
const TOGETHER: u32 = 4;

/// A veth pair whose ends have two queues each.
fn two_queues(one: &str, two: &str) {
    let queues = "numrxqueues 2 numtxqueues 2";
    ip(&format!("link add {one} mtu 1500 {queues} type veth peer name {two} mtu 1500 {queues}"));
    ip(&format!("link set {one} up"));
    ip(&format!("link set {two} up"));
}

/// The host at the end of a link, with two queues of its own, so that it can choose the queue of the switch where that is
/// the sender's choice (`xdp:`).
struct Host {
    mem: PacketMemory,
    queues: Vec<Box<dyn Port>>,
}

impl Host {
    fn open(spec: &str, queues: u32) -> Host {
        let config =
            MemoryConfig { chunks: 8192, chunk_bytes: CHUNK_BYTES, ..MemoryConfig::default() };
        let mem = PacketMemory::with_large(config, 64).expect("memory");
        let spec = PortSpec::parse(spec).expect("a port");
        let opened = open_spread(&spec, &mem, Spread { workers: queues, each: queues });
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let queues = std::iter::once(opened.port).chain(opened.queues).collect();
        Host { mem, queues }
    }

    fn send(&mut self, queue: usize, frames: &[Vec<u8>]) {
        let headroom = self.mem.config().headroom_bytes as u16;
        let mut burst = Vec::new();
        for bytes in frames {
            let buf = self.mem.alloc_frame(bytes).expect("a free chunk");
            burst.push(TxFrame::at_once(buf, headroom, bytes.len() as u32, Time::ZERO));
        }
        let (port, deadline) = (&mut self.queues[queue], Instant::now() + SOON);
        while !burst.is_empty() {
            let done = port.tx_burst(&mut self.mem, Time::ZERO, &mut burst).expect("it works");
            port.flush(&mut self.mem).expect("it works");
            assert_eq!(done.dropped, 0, "{:?}", port.stats());
            assert!(Instant::now() < deadline, "{} frames found no room", burst.len());
        }
    }

    /// What is there now, of all queues.
    fn poll(&mut self) -> Vec<Vec<u8>> {
        let mut frames: Vec<RxFrame> = Vec::new();
        for queue in &mut self.queues {
            queue.rx_burst(&mut self.mem, Time::ZERO, &mut frames, 64).expect("it works");
        }
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.push(self.mem.frame(&frame.buf, frame.data_off, frame.len).to_vec());
            self.mem.free(frame.buf);
        }
        bytes
    }

    /// Receives until `count` frames came, or none came for a while.
    fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut all, mut last) = (Vec::new(), Instant::now());
        while all.len() < count && last.elapsed() < Duration::from_secs(2) {
            let came = self.poll();
            if !came.is_empty() {
                last = Instant::now();
            }
            all.extend(came);
        }
        all
    }
}

/// Frame `psn` of a flow from one host to another: flows differ in their UDP source port.
fn of_flow(from: u8, to: u8, flow: u16, psn: u32, dscp: u8) -> Vec<u8> {
    let mut bytes = frame(from, to, dscp, 2, psn, 120);
    bytes[34..36].copy_from_slice(&(0xc000 + flow).to_be_bytes());
    bytes
}

/// The flow of a frame and its number in it.
fn flow_of(bytes: &[u8]) -> (u16, u32) {
    let flow = u16::from_be_bytes([bytes[34], bytes[35]]).wrapping_sub(0xc000);
    (flow, u32::from_be_bytes([0, bytes[51], bytes[52], bytes[53]]))
}

/// Two hosts at a switch, and how far their flows are.
struct Rig {
    hosts: [Host; 2],
    next: BTreeMap<(usize, u16), u32>,
    sent: u64,
}

impl Rig {
    /// The hosts of `raw:` and `xdp:` ports are at the ends of their links, those of a TAP on its other side.
    fn open(kind: &str) -> Rig {
        let host = |n: u8| match kind {
            "tap" => Host::open(&format!("raw:sw{n}"), 1),
            _ => Host::open(&format!("{kind}:host{n}"), 2),
        };
        Rig { hosts: [host(1), host(2)], next: BTreeMap::new(), sent: 0 }
    }

    /// A flood each way, by which the switch learns where the hosts are.
    #[track_caller]
    fn greet(&mut self) {
        for (me, other) in [(0, 1), (1, 0)] {
            self.hosts[me].send(0, &[frame(me as u8 + 1, 0xee, 0, 0, 0, 60)]);
            assert_eq!(self.hosts[other].receive(1).len(), 1, "the flood");
            self.sent += 1;
        }
    }

    /// The next frames of every flow, both ways at once; each has to come in its order.
    #[track_caller]
    fn exchange(&mut self, dscp: u8) {
        for me in 0..2 {
            let (from, to) = (me as u8 + 1, 2 - me as u8);
            let mut bursts = vec![Vec::new(); self.hosts[me].queues.len()];
            for n in 0..TOGETHER {
                for flow in 0..FLOWS {
                    let psn = self.next.get(&(me, flow)).copied().unwrap_or(0) + n;
                    let queue = usize::from(flow) % bursts.len();
                    bursts[queue].push(of_flow(from, to, flow, psn, dscp));
                }
            }
            for (queue, burst) in bursts.iter().enumerate() {
                self.hosts[me].send(queue, burst);
            }
        }
        let count = u32::from(FLOWS) * TOGETHER;
        for me in 0..2 {
            let got = self.hosts[1 - me].receive(count as usize);
            for bytes in &got {
                let (flow, psn) = flow_of(bytes);
                let next = self.next.entry((me, flow)).or_default();
                assert_eq!(psn, *next, "flow {flow} of host {}", me + 1);
                *next += 1;
            }
            assert_eq!(got.len(), count as usize, "from host {}", me + 1);
            self.sent += u64::from(count);
        }
    }
}

/// Nanoseconds that the first worker was on a processor, which is the first thread of the process, and the second.
fn work_ns(switch: &Switch) -> [u64; 2] {
    let (process, mut all) = (switch.pid().to_string(), [0; 2]);
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    for path in tasks.filter_map(|task| Some(task.ok()?.path())) {
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        let worker = match read("comm").trim() {
            "worker 2" => 1,
            _ if path.ends_with(&process) => 0,
            _ => continue,
        };
        let time = read("schedstat").split(' ').next().and_then(|time| time.parse().ok());
        all[worker] = time.unwrap_or(0);
    }
    all
}

fn last_report(switch: Switch) -> Value {
    let ended = switch.end("TERM");
    ended.expect(0, &[]);
    let reports = serde_json::Deserializer::from_str(&ended.out).into_iter::<Value>();
    let reports: Vec<Value> = reports.map(|report| report.expect("JSON")).collect();
    for report in &reports {
        assert_eq!(report["total"]["balanced"], true, "{report:#}");
    }
    reports.last().expect("a report").clone()
}

/// Everything that was sent was received and sent, by ledgers and ports.
#[track_caller]
fn check_ports(report: &Value, sent: u64) {
    assert_eq!(report["total"]["dropped"], serde_json::json!([]), "{report:#}");
    for port in report["ports"].as_array().expect("ports") {
        let (ledger, medium) = (&port["ledger"], &port["medium"]);
        assert_eq!(ledger["balanced"], true, "{port:#}");
        let counts =
            [&ledger["received"], &ledger["sent"], &medium["rx_frames"], &medium["tx_frames"]];
        assert_eq!(counts, [&Value::from(sent); 4], "{port:#}");
        assert_eq!(ledger["queued"], 0, "{port:#}");
    }
}

fn links(kind: &str) {
    if kind != "tap" {
        two_queues("sw1", "host1");
        two_queues("sw2", "host2");
    }
}

/// Two workers on two ports with two queues each, and many flows both ways.
fn two_workers_serve(kind: &str, config: Option<&str>) {
    let test = format!("two_workers_serve_{kind} {}", config.unwrap_or("no queues"));
    let Some(_network) = private_network(&test) else { return };
    links(kind);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("switch.yaml");
    std::fs::write(&file, config.unwrap_or("ports: {}\n")).expect("a file");
    let ports = [1, 2].map(|n| format!("{n}={kind}:sw{n},queues=2"));
    let more = ["--workers", "2", "--json", "--config", file.to_str().expect("a path")];
    let switch = Switch::on(PROGRAM, &ports.each_ref().map(String::as_str), &more);
    let listed = switch.objects(&["port", "list"]);
    let serve = |n: usize| (listed[n]["worker"].clone(), listed[n]["also"].clone());
    assert_eq!([serve(0), serve(1)], [(0.into(), vec![1].into()), (1.into(), vec![0].into())]);
    let mut rig = Rig::open(kind);
    rig.greet();
    for round in 0..40 {
        if round == 20 {
            switch.signal("USR1");
        }
        rig.exchange(if round % 2 == 0 { 0 } else { 26 });
    }
    let work = work_ns(&switch);
    assert!(work[1] > work[0] / 8 && work[0] > work[1] / 8, "both work: {work:?} ns");
    // Half of what a host sends, as every sent frame is received by the other.
    check_ports(&last_report(switch), rig.sent / 2);
}

const QUEUES: &str = "ports: { 1: { rate: 10Gbps }, 2: { rate: 10Gbps } }\nqos: {}\n";

#[test]
fn two_workers_serve_raw_ports() {
    two_workers_serve("raw", None);
    two_workers_serve("raw", Some(QUEUES));
}

#[test]
fn two_workers_serve_xdp_ports() {
    two_workers_serve("xdp", None);
    two_workers_serve("xdp", Some(QUEUES));
}

#[test]
fn two_workers_serve_taps() {
    two_workers_serve("tap", None);
    two_workers_serve("tap", Some(QUEUES));
}

/// One port with all queues that its interface has, and workers for all of them, without a word.
#[test]
fn an_interface_with_queues_is_heard_on_all() {
    let Some(_network) = private_network("an_interface_with_queues_is_heard_on_all") else {
        return;
    };
    links("xdp");
    let ports = ["1=xdp:sw1", "2=xdp:sw2"];
    let switch = Switch::on(PROGRAM, &ports, &["--workers", "2", "--json"]);
    let mut rig = Rig::open("xdp");
    rig.greet();
    (0..5).for_each(|_| rig.exchange(0));
    check_ports(&last_report(switch), rig.sent / 2);
}

/// A pause that arrives on the queue of another worker stops the port, for as long as it says.
#[test]
fn a_pause_on_any_queue_stops_the_port() {
    let Some(_network) = private_network("a_pause_on_any_queue_stops_the_port") else { return };
    links("xdp");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("switch.yaml");
    let config =
        "ports: { 1: { rate: 100Mbps }, 2: { rate: 100Mbps } }\nqos: { preset: onyx_roce }\n";
    std::fs::write(&file, config).expect("a file");
    let ports = ["1=xdp:sw1,queues=2", "2=xdp:sw2,queues=2"];
    let more = ["--workers", "2", "--json", "--config", file.to_str().expect("a path")];
    let switch = Switch::on(PROGRAM, &ports, &more);
    let warned =
        "port 1 is lossless and served by 2 workers: up to 512 frames of each other worker";
    assert!(switch.err().contains(warned), "{}", switch.err());
    let mut rig = Rig::open("xdp");
    rig.greet();
    for queue in 0..2 {
        // 65,535 quanta of 512 bits at 100 Mbit/s are 336 ms; again and again, so that the machine may be slow.
        let psn = 10 * queue as u32;
        for _ in 0..20 {
            rig.hosts[1].send(queue, &[pfc(3, 65_535).to_vec()]);
            std::thread::sleep(Duration::from_millis(5));
        }
        let until = Instant::now() + Duration::from_millis(150);
        rig.hosts[0]
            .send(queue, &(psn..psn + 10).map(|n| of_flow(1, 2, 7, n, 26)).collect::<Vec<_>>());
        while Instant::now() < until {
            rig.hosts[1].send(queue, &[pfc(3, 65_535).to_vec()]);
            assert!(rig.hosts[1].poll().is_empty(), "queue {queue}: the port is paused");
            std::thread::sleep(Duration::from_millis(5));
        }
        let got = rig.hosts[1].receive(10);
        let psns: Vec<u32> = got.iter().map(|bytes| flow_of(bytes).1).collect();
        assert_eq!(psns, (psn..psn + 10).collect::<Vec<_>>(), "queue {queue}: it goes on");
    }
    let report = last_report(switch);
    assert_eq!(report["total"]["dropped"], serde_json::json!([]), "{report:#}");
}

/// Ports with two queues come, change and go on SIGHUP, while the flows of the others go on.
#[test]
fn ports_of_two_workers_come_and_go() {
    for kind in ["raw", "xdp"] {
        let test = format!("ports_of_two_workers_come_and_go {kind}");
        let Some(_network) = private_network(&test) else { return };
        links(kind);
        two_queues("sw3", "host3");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ports.yaml");
        let write = |more: &str| {
            let port = |n: u8| format!("{n}: {{ interface: '{kind}:sw{n},queues=2' }}");
            let text = format!("ports: {{ {}, {}{more} }}\n", port(1), port(2));
            std::fs::write(&file, text).expect("a file");
        };
        write("");
        let arguments =
            [PROGRAM, "--workers", "2", "--json", "--ports", file.to_str().expect("a path")];
        let switch = Switch::start(&arguments);
        let mut rig = Rig::open(kind);
        rig.greet();
        let changes = [
            (format!(", 3: {{ interface: '{kind}:sw3,queues=2' }}"), "port 3 (", "was added"),
            (
                format!(", 3: {{ interface: '{kind}:sw3,queues=2,delay=1ms' }}"),
                "port 3 (",
                "was added",
            ),
            (format!(", 4: {{ interface: '{kind}:sw3,queues=2' }}"), "port 4 (", "was added"),
            (String::new(), "port 4 (", "was removed"),
        ];
        let mut host3 = Host::open(&format!("{kind}:host3"), 2);
        for (n, (more, port, what)) in changes.iter().enumerate() {
            let before = switch.err().len();
            write(more);
            switch.signal("HUP");
            let awaited = format!("{port}{kind}:sw3) {what}");
            let deadline = Instant::now() + SOON;
            while !switch.err()[before..].contains(&awaited) {
                assert!(Instant::now() < deadline, "{kind}: no `{awaited}` in {}", switch.err());
                rig.exchange(0);
            }
            // The new port is heard on each of its queues; nobody has the address, so both others get it.
            for queue in (0..2).filter(|_| !more.is_empty()) {
                let hello = of_flow(3, 9, 100 + queue as u16, n as u32, 0);
                host3.send(queue, std::slice::from_ref(&hello));
                for host in &mut rig.hosts {
                    assert_eq!(host.receive(1), std::slice::from_ref(&hello), "{kind}: {more}");
                }
            }
        }
        rig.exchange(0);
        let listed = switch.objects(&["port", "list"]);
        assert_eq!(listed.len(), 2, "{listed:?}");
        let report = last_report(switch);
        assert_eq!(report["removed"]["balanced"], true, "{report:#}");
        assert_eq!(report["removed"]["received"], 6, "{report:#}");
    }
}

/// A file whose ports cannot be opened changes nothing, with several workers too.
#[test]
fn a_bad_file_changes_nothing_for_two_workers() {
    let Some(_network) = private_network("a_bad_file_changes_nothing_for_two_workers") else {
        return;
    };
    links("raw");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ports.yaml");
    let good = "ports: { 1: { interface: 'raw:sw1,queues=2' }, 2: { interface: 'raw:sw2' } }\n";
    std::fs::write(&file, good).expect("a file");
    let arguments =
        [PROGRAM, "--workers", "2", "--json", "--ports", file.to_str().expect("a path")];
    let mut switch = Switch::start(&arguments);
    let mut rig = Rig::open("raw");
    rig.greet();
    for (n, (bad, why)) in (1..).zip([
        // Port 1 is closed for these, and comes back with both queues.
        ("ports: { 1: { interface: 'raw:sw1,queues=3' } }\n", "--workers 3, or queues=2"),
        ("ports: { 1: { interface: 'xdp:sw1,queue=1,queues=2' } }\n", "queues 1 to 2"),
    ]) {
        std::fs::write(&file, bad).expect("a file");
        switch.signal("HUP");
        switch.await_text(why, SOON);
        let deadline = Instant::now() + SOON;
        while switch.err().matches("no port was changed").count() < n {
            assert!(Instant::now() < deadline, "{}", switch.err());
        }
        rig.exchange(0);
    }
    let report = last_report(switch);
    for port in report["ports"].as_array().expect("ports") {
        let ledger = &port["ledger"];
        assert_eq!(
            (&ledger["balanced"], &ledger["received"]),
            (&true.into(), &(rig.sent / 2).into())
        );
    }
}

/// The interface of a port with two queues is taken away and comes back: every queue works again.
#[test]
fn queues_come_back_with_their_interface() {
    for kind in ["raw", "xdp"] {
        let test = format!("queues_come_back_with_their_interface {kind}");
        let Some(_network) = private_network(&test) else { return };
        links(kind);
        let ports = [1, 2].map(|n| format!("{n}={kind}:sw{n},queues=2"));
        let ports = ports.each_ref().map(String::as_str);
        let mut switch = Switch::on(PROGRAM, &ports, &["--workers", "2", "--json"]);
        let mut rig = Rig::open(kind);
        rig.greet();
        rig.exchange(0);
        let Rig { hosts: [host1, host2], next, sent } = rig;
        drop(host1);
        ip("link del sw1");
        switch.await_text("is gone", SOON);
        two_queues("sw1", "host1");
        switch.await_text("is up", SOON);
        // Each queue is opened again by its worker, the second when the first is there.
        std::thread::sleep(Duration::from_millis(1500));
        let mut rig = Rig { hosts: [Host::open(&format!("{kind}:host1"), 2), host2], next, sent };
        rig.greet();
        (0..5).for_each(|_| rig.exchange(0));
        assert_eq!(
            switch.err().matches("is gone").count(),
            1,
            "one worker reports: {}",
            switch.err()
        );
        let report = last_report(switch);
        assert_eq!(report["ports"][0]["ledger"]["balanced"], true, "{report:#}");
    }
}

/// Faults are on the cable of every queue, and a port that is down is down on all of them.
#[test]
fn faults_and_shutting_are_on_every_queue() {
    let Some(_network) = private_network("faults_and_shutting_are_on_every_queue") else { return };
    links("raw");
    let ports = ["1=raw:sw1,queues=2", "2=raw:sw2,queues=2"];
    let switch = Switch::on(PROGRAM, &ports, &["--workers", "2", "--json"]);
    let mut rig = Rig::open("raw");
    rig.greet();
    rig.exchange(0);
    let burst: Vec<Vec<u8>> = (0..FLOWS).map(|flow| of_flow(1, 2, flow, 99, 0)).collect();
    for command in [&["port", "faults", "1", "loss=100%"][..], &["port", "down", "1"]] {
        assert_eq!(switch.command(command).status, Some(0), "{command:?}");
        rig.hosts[0].send(0, &burst);
        std::thread::sleep(Duration::from_millis(100));
        assert!(rig.hosts[1].poll().is_empty(), "{command:?}");
        assert_eq!(switch.command(&["port", "faults", "1", "none"]).status, Some(0));
        assert_eq!(switch.command(&["port", "up", "1"]).status, Some(0));
    }
    rig.exchange(0);
    let capture = switch.command(&["capture", "start", "1", "x.pcapng"]);
    assert!(capture.status != Some(0) && capture.err.contains("queues=1"), "{}", capture.err);
    let report = last_report(switch);
    let port = &report["ports"][0];
    let lost = &port["faults"]["received"]["lost"];
    assert_eq!((lost, &port["medium"]["rx_down"]), (&FLOWS.into(), &FLOWS.into()), "{port:#}");
}

/// What cannot be is said, with a way out.
#[test]
fn too_many_workers_or_queues_are_refused() {
    let ports = ["--port", "1=pcap:a.pcap", "--port", "2=pnet:lo"];
    let refused = [&["run", PROGRAM, "--workers", "3"], &ports[..]].concat();
    run(&refused).expect(2, &["--workers 3", "use --workers 2"]);
    let Some(_network) = private_network("too_many_workers_or_queues_are_refused") else { return };
    ip("link add one type veth peer name two");
    ip("link set one up");
    let start = |port: &str, workers: &str| {
        let arguments = ["run", PROGRAM, "--workers", workers, "--port", port];
        run(&arguments)
    };
    start("1=raw:one,queues=2", "1").expect(2, &["--workers 2, or queues=1"]);
    start("1=xdp:one,queues=2", "2").expect(2, &["one has 1", "numrxqueues 2"]);
    start("1=xdp:one", "2").expect(2, &["--workers 2", "queues for 1"]);
    start("1=raw:one,queues=2,capture=x.pcapng", "2").expect(2, &["use --workers 1"]);
}
