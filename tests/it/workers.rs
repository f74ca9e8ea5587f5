//! Several workers on one switch: the same packets as with one, the same pauses.
//!
//! First polled in turns, in virtual time; then with threads, on veth pairs (which needs root).

mod handed;

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_switch::config::qos::WorkerShare;
use wireyard_switch::config::room::Holders;
use wireyard_switch::core::Core;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::ports::absent::AbsentPort;
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded, Place, load};
use wireyard_tables::time::Span;
use wireyard_tests::live::Switch;
use wireyard_tests::wires::{Fabric, Far, open_line};
use wireyard_tests::workspace_root;

use crate::queues::{frame, lossless_config};
use crate::rig::{Wire, private_network, veth};

pub(crate) fn loaded(config: &str) -> Loaded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("switch.yaml");
    fs::write(&path, config).expect("a file");
    let program = workspace_root().join("programs/rocev2_lossless");
    let place = Place { program, config: Some(path), ..Place::default() };
    load(&place).unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn switch(config: &str, workers: usize, ports: u16) -> (Fabric, Vec<Far>) {
    switch_of(&loaded(config), workers, ports)
}

/// A switch of `workers` with ports 1 to `ports`; port n belongs to worker (n - 1) % workers.
fn switch_of(loaded: &Loaded, workers: usize, ports: u16) -> (Fabric, Vec<Far>) {
    let memory = MemoryConfig { chunks: 8192, chunk_bytes: 2048, headroom_bytes: 256 };
    let options = DeviceOptions { engine: EngineKind::Auto, memory, ..DeviceOptions::default() };
    let mut cores = loaded.workers(options, workers).expect("a device");
    let numbers: Vec<_> = (1..=ports).map(PortNumber).collect();
    let owner = |number: PortNumber| usize::from(number.0 - 1) % workers;
    for (me, core) in cores.iter_mut().enumerate() {
        let owns = |number: PortNumber| owner(number) == me;
        let part = (workers > 1).then_some(WorkerShare { workers, owns: &owns });
        loaded.set_queues_of(core, &numbers, part.as_ref()).unwrap_or_else(|why| panic!("{why}"));
    }
    let mut fars = Vec::new();
    for number in numbers {
        let (near, far) = open_line();
        for (_, core) in cores.iter_mut().enumerate().filter(|(me, _)| *me != owner(number)) {
            core.add_elsewhere(number, owner(number) as u8, AbsentPort::like(&near))
                .expect("a free number");
        }
        cores[owner(number)].add_port(number, Box::new(near)).expect("a free number");
        fars.push(far);
    }
    (Fabric::new(cores), fars)
}

/// Received and generated, and where it went, of all workers together.
fn sums(cores: &[Core]) -> (u64, u64) {
    let mut came = 0;
    let mut went = 0;
    for report in cores.iter().map(Core::report) {
        came += report.received + report.generated;
        let ended = report.dropped_packets() + report.consumed_packets();
        went += report.sent + ended + report.queued;
    }
    (came, went)
}

#[track_caller]
pub(crate) fn check(fabric: &mut Fabric) {
    for core in &mut fabric.cores {
        core.view(core.time()).audit().expect("the traffic manager adds up");
    }
    let (came, went) = sums(&fabric.cores);
    assert_eq!(came, went, "received and generated is sent, dropped, consumed and queued");
}

/// Frames by the port they left by and the flow they belong to, in order.
fn by_flow(fars: &[Far]) -> BTreeMap<(usize, [u8; 12]), Vec<Vec<u8>>> {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for (port, far) in fars.iter().enumerate() {
        for passing in far.take() {
            let mut key = [0; 12];
            key.copy_from_slice(&passing.bytes[..12]);
            flows.entry((port, key)).or_default().push(passing.bytes);
        }
    }
    flows
}

const PORTS: u16 = 4;

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Learned, flooded and forwarded frames of any order: every flow leaves as it does with one worker.
    #[test]
    fn every_flow_is_the_same_with_any_number_of_workers(
        packets in prop::collection::vec((1..=4u8, 1..=5u8, 60..400usize, prop::bool::ANY), 1..160),
        workers in 2..=4usize,
        has_rates in prop::bool::ANY,
    ) {
        let rates = "{ 1: { rate: 10Gbps }, 2: { rate: 1Gbps }, 3: { rate: 10Gbps }, 4: { rate: 10Gbps } }";
        let config = if has_rates { lossless_config(rates) } else { "ports: {}".to_owned() };
        let mut outcomes = Vec::new();
        for workers in [1, workers] {
            let (mut fabric, fars) = switch(&config, workers, PORTS);
            // Everybody is learned first: what is learned while others forward may come later with several.
            for host in 1..=4u8 {
                let at = fabric.now;
                fars[usize::from(host - 1)].send(at, &frame(host, 0xee, 0, 0, 0, 60));
                fabric.run_until(at + Span::from_us(50));
            }
            fars.iter().for_each(|far| drop(far.take()));
            let mut now = fabric.now;
            for (psn, &(from, to, len, lossless)) in packets.iter().enumerate() {
                let dscp = if lossless { 26 } else { 0 };
                fars[usize::from(from - 1)].send(now, &frame(from, to, dscp, 2, psn as u32, len));
                now += Span::from_us(1);
            }
            fabric.run_until(now + Span::from_ms(20));
            check(&mut fabric);
            prop_assert_eq!(fabric.cores.iter().map(Core::queued).sum::<usize>(), 0);
            outcomes.push(by_flow(&fars));
        }
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}

/// The group of port 1 is charged by its worker for what waits in the queue of port 2, which belongs to
/// the other: the pause comes at its threshold, and it ends when the queue has drained.
#[test]
fn a_pause_is_decided_by_the_worker_of_the_ingress_port() {
    let ports = "{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }";
    let mut outcomes = Vec::new();
    for workers in [1, 2] {
        let (mut fabric, fars) = switch(&lossless_config(ports), workers, 2);
        for host in [1, 2] {
            fars[usize::from(host - 1)].send(fabric.now, &frame(host, 0xee, 0, 0, 0, 60));
            fabric.run_until(fabric.now + Span::from_us(50));
        }
        fars.iter().for_each(|far| drop(far.take()));
        let mut sent = 0u64;
        let mut now = fabric.now;
        while fars[0].count() == 0 {
            assert!(sent < 200, "no pause after {sent} frames");
            fars[0].send(now, &frame(1, 2, 26, 2, sent as u32, 1514));
            sent += 1;
            now += Span::from_ns(200);
            fabric.run_until(now);
        }
        let owner = &mut fabric.cores[0];
        let group = owner.port_status(PortNumber(1)).expect("port 1").groups[3];
        assert!(group.xoff, "{group:?}");
        assert!(group.account.total() >= 100_000 && group.account.total() < 102_000, "{group:?}");
        if workers == 2 {
            let elsewhere =
                fabric.cores[1].port_status(PortNumber(1)).expect("its place").groups[3];
            assert_eq!(elsewhere.account.total(), 0, "it is charged once");
        }
        check(&mut fabric);
        fabric.run_until(now + Span::from_ms(10));
        let group = fabric.cores[0].port_status(PortNumber(1)).expect("port 1").groups[3];
        assert_eq!((group.xoff, group.account.total()), (false, 0));
        assert_eq!(fars[1].count() as u64, sent);
        check(&mut fabric);
        outcomes.push((sent, group.counters.xoff, group.counters.xon));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

/// Packets of port 1 take slots at the worker of port 2. When these are few, the worker of port 1 stops its peer, long
/// before its threshold.
#[test]
fn a_peer_is_stopped_when_slots_are_few_at_another_worker() {
    let ports = "{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }";
    let config = lossless_config(ports).replace("qos:\n", "qos:\n  packet_slots: 256\n");
    let mut loaded = loaded(&config);
    // A live switch keeps a quarter of them for what comes after XOFF: 32 of the 128 of each worker.
    loaded.config.as_mut().expect("a configuration").live = Some(Span::from_ms(5));
    let (mut fabric, fars) = switch_of(&loaded, 2, 2);
    for host in [1, 2] {
        fars[usize::from(host - 1)].send(fabric.now, &frame(host, 0xee, 0, 0, 0, 60));
        fabric.run_until(fabric.now + Span::from_us(50));
    }
    fars.iter().for_each(|far| drop(far.take()));
    let (mut sent, mut now) = (0u64, fabric.now);
    while fars[0].count() == 0 {
        assert!(sent < 120, "no pause after {sent} frames");
        fars[0].send(now, &frame(1, 2, 26, 2, sent as u32, 100));
        sent += 1;
        now += Span::from_ns(50);
        fabric.run_until(now);
    }
    assert!(sent > 90, "{sent}");
    fabric.run_until(now + Span::from_ms(10));
    assert_eq!(fars[1].count() as u64, sent, "none is lost");
    check(&mut fabric);
}

/// Charges go back through a ring too: what finds no room there is paid later, and none is lost.
#[test]
fn every_charge_comes_back() {
    let ports = "{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }";
    let config = lossless_config(ports).replace("static_th: 200 KB", "static_th: 2 MB");
    let (mut fabric, fars) = switch(&config, 2, 2);
    for host in [1, 2] {
        fars[usize::from(host - 1)].send(fabric.now, &frame(host, 0xee, 0, 0, 0, 60));
        fabric.run_until(fabric.now + Span::from_us(50));
    }
    fars.iter().for_each(|far| drop(far.take()));
    let mut now = fabric.now;
    let packets = 5000;
    for psn in 0..packets {
        fars[0].send(now, &frame(1, 2, 0, 2, psn, 60));
    }
    // The frames are handed over in turns; then the lender stands still until all have left.
    for _ in 0..200 {
        for core in &mut fabric.cores {
            core.poll(now, None);
        }
    }
    let lent = |core: &mut Core| {
        core.port_status(PortNumber(1)).expect("port 1").groups[0].account.total()
    };
    assert!(lent(&mut fabric.cores[0]) > 60 * 4900, "{} B", lent(&mut fabric.cores[0]));
    while fars[1].count() > 0 || fabric.cores[1].manager().tm.slots().0 > 0 {
        now += Span::from_us(100);
        fabric.cores[1].poll(now, None);
    }
    fabric.now = now;
    fabric.run_until(now + Span::from_ms(1));
    assert_eq!(lent(&mut fabric.cores[0]), 0, "every charge came back");
    check(&mut fabric);
}

/// A worker that does not come is not flooded: what it cannot take waits in front of the switch.
#[test]
fn a_worker_that_stands_still_loses_nothing() {
    let (mut fabric, fars) = switch("ports: {}", 2, 2);
    for host in [1, 2] {
        fars[usize::from(host - 1)].send(fabric.now, &frame(host, 0xee, 0, 0, 0, 60));
        fabric.run_until(fabric.now + Span::from_us(50));
    }
    fars.iter().for_each(|far| drop(far.take()));
    let now = fabric.now;
    let packets = 5000;
    for psn in 0..packets {
        fars[0].send(now, &frame(1, 2, 0, 2, psn, 100));
    }
    for _ in 0..200 {
        fabric.cores[0].poll(now, None);
    }
    let waiting = fabric.cores[1].queued();
    assert!((900..1025).contains(&waiting), "{waiting} packets in the ring");
    assert_eq!(fabric.cores[0].report().dropped, []);
    check(&mut fabric);
    fabric.run_until(now + Span::from_ms(1));
    let psns: Vec<u32> = fars[1]
        .take()
        .iter()
        .map(|passing| {
            u32::from_be_bytes([0, passing.bytes[51], passing.bytes[52], passing.bytes[53]])
        })
        .collect();
    assert_eq!(psns, (0..packets).collect::<Vec<_>>());
    check(&mut fabric);
}

/// The packets that `run` has memory for bound those that are held too.
#[test]
fn held_packets_are_at_most_the_packets_at_once() {
    let mut loaded = loaded("ports: { 1: {}, 2: {} }\nqos: { hold_slots: 20000 }\n");
    let numbers = [PortNumber(1), PortNumber(2)];
    let packets = loaded.size_memory(&numbers, &Holders::of_any(numbers)).packets;
    assert!(packets < 20_000, "{packets}");
    let queues = loaded.config.as_ref().and_then(|config| config.queues(&numbers));
    let qos = queues.expect("queues").unwrap_or_else(|report| panic!("{report}"));
    assert_eq!((qos.tm.hold_slots, qos.tm.packet_slots), (packets, packets));
}

/// A threshold that is more than a worker's part of the pool would never pause anybody.
#[test]
fn a_part_that_is_too_small_is_refused() {
    let config = lossless_config("{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }");
    let loaded = loaded(&config.replace("static_th: 100 KB", "static_th: 3 MB"));
    let mut cores = loaded.workers(DeviceOptions::small(), 2).expect("a device");
    let numbers = [PortNumber(1), PortNumber(2)];
    let part = WorkerShare { workers: 2, owns: &|number| number == numbers[0] };
    let why = loaded.set_queues_of(&mut cores[0], &numbers, Some(&part)).expect_err("too small");
    let why = why.to_string();
    assert!(why.contains("port 1, priority group 3") && why.contains("3000000"), "{why}");
}

/// On interfaces, with a thread for each worker: both directions at once, asked for counters meanwhile.
fn threads_forward_both_ways(kind: &str, workers: &str) {
    let test = format!("threads_forward_both_ways {kind}");
    let Some(_network) = private_network(&test) else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
    let program = "programs/rocev2_lossless";
    let arguments = [program, "--workers", workers, "--json", "--port", &one, "--port", &two];
    let switch = Switch::start(&arguments);
    let mut hosts = [Wire::open("raw:host1"), Wire::open("raw:host2")];
    // A flood each way, by which the switch learns where they are.
    for (me, other) in [(0, 1), (1, 0)] {
        hosts[me].send(&[frame(me as u8 + 1, 0xee, 0, 0, 0, 60)]);
        assert_eq!(hosts[other].receive(1).len(), 1, "{kind}: the flood");
    }
    const ROUNDS: u32 = 20;
    const BURST: u32 = 40;
    for round in 0..ROUNDS {
        let burst = |from, to| -> Vec<Vec<u8>> {
            let psns = round * BURST..(round + 1) * BURST;
            psns.map(|psn| frame(from, to, 0, 2, psn, 100 + psn as usize % 900)).collect()
        };
        let (there, back) = (burst(1, 2), burst(2, 1));
        hosts[0].send(&there);
        hosts[1].send(&back);
        if round % 5 == 0 {
            switch.signal("USR1");
        }
        let (got_there, got_back) = (hosts[1].receive(there.len()), hosts[0].receive(back.len()));
        assert!(got_there == there && got_back == back, "{kind}: round {round}");
    }
    let ended = switch.end("TERM");
    ended.expect(0, &[]);
    let reports = serde_json::Deserializer::from_str(&ended.out).into_iter::<serde_json::Value>();
    let reports: Vec<_> = reports.map(|report| report.expect("JSON")).collect();
    assert!(reports.len() > 2, "{kind}: {} reports", reports.len());
    for report in &reports {
        assert_eq!(report["total"]["balanced"], true, "{kind}: {report}");
        for port in report["ports"].as_array().expect("ports") {
            assert_eq!(port["ledger"]["balanced"], true, "{kind}: {port}");
        }
    }
    let (last, packets) = (&reports[reports.len() - 1], u64::from(ROUNDS * BURST + 1));
    for port in last["ports"].as_array().expect("ports") {
        let ledger = &port["ledger"];
        let counts = (&ledger["received"], &ledger["sent"], &ledger["queued"]);
        assert_eq!(counts, (&packets.into(), &packets.into(), &0.into()), "{kind}: {port}");
        assert_eq!(port["medium"]["tx_frames"], packets, "{kind}: {port}");
    }
}

#[test]
fn threads_forward_both_ways_on_raw_ports() {
    threads_forward_both_ways("raw", "2");
}

#[test]
fn threads_forward_both_ways_on_xdp_ports() {
    threads_forward_both_ways("xdp", "2");
}

/// Of each thread of a process, by name: its nice value, and the length of its slices where the kernel shows that (proc(5)).
fn threads(process: u32) -> BTreeMap<String, (i32, Option<u64>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let thread = |task: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        let stat = read("stat")?;
        let (name, fields) = stat.rsplit_once(") ")?;
        let nice = fields.split(' ').nth(16)?.parse().ok()?;
        let sched = read("sched").unwrap_or_default();
        let slice = sched.lines().find_map(|line| line.strip_prefix("se.slice")?.split(':').nth(1));
        let slice = slice.and_then(|slice| slice.trim().parse().ok());
        Some((name.split_once('(')?.1.to_owned(), (nice, slice)))
    };
    tasks.filter_map(|task| thread(task.ok()?)).collect()
}

/// What serves people gives way to what forwards packets, which is run often and for short.
#[test]
fn controllers_give_way_to_workers() {
    let Some(_network) = private_network("threads of a switch") else { return };
    veth("a0", "a1");
    veth("b0", "b1");
    let more = ["--workers", "2", "--p4runtime", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let switch = Switch::on("l2_switch", &["1=raw:a1", "2=raw:b1"], &more);
    let own = threads(std::process::id());
    let usual = own.values().find_map(|(_, slice)| *slice);
    // Before Linux 6.12 a thread has no slice of its own.
    let short = usual.map(|_| 100_000);
    let is_right = |threads: &BTreeMap<String, (i32, Option<u64>)>| {
        let of = |name: &str| threads.get(name).copied();
        let Some((worker, slice)) = of("worker 2") else { return false };
        let others = ["controllers", "metrics"];
        others.into_iter().all(|name| of(name) == Some((10.max(worker), usual)))
            && slice == short.or(slice)
            && of("wireyard").is_some_and(|(_, slice)| slice == short.or(slice))
    };
    // A thread that has just begun has the name and the settings of its parent.
    let end = Instant::now() + Duration::from_secs(10);
    while !is_right(&threads(switch.pid())) {
        assert!(Instant::now() < end, "{usual:?}: {:?}", threads(switch.pid()));
        thread::sleep(Duration::from_millis(5));
    }
    switch.end("TERM");
}

/// The group is at the worker that received the packet, the queue at that of the port that it would leave by.
#[test]
fn what_a_group_refuses_is_refused_by_the_queue_with_any_number_of_workers() {
    let Some(_network) = private_network("refusals of a group at several workers") else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let program = "pipeline: example\ningress: [ std.egress_port = 2 ]\n";
    let config = "ports: { 1: { rate: 1 Gbit/s }, 2: { rate: 1 Mbit/s } }\nqos:\n\
                  \x20 buffer_pools: { in: { direction: ingress, size: 20 KB }, out: { direction: egress, size: 1 MB } }\n\
                  \x20 buffer_profiles: { ingress_lossy: { pool: in, static_th: 10 KB }, egress_lossy: { pool: out, static_th: 1 MB } }\n";
    fs::write(path("program.yaml"), program).expect("a file");
    fs::write(path("switch.yaml"), config).expect("a file");
    for workers in ["1", "2"] {
        let more = ["--config", &path("switch.yaml"), "--json", "--workers", workers];
        let switch = Switch::on(&path("program.yaml"), &["1=raw:sw1", "2=raw:sw2"], &more);
        Wire::open("raw:host1").send(&vec![vec![0x55; 1000]; 200]);
        let refused = || {
            let stats = switch.objects(&["stats"]).remove(0);
            let ports = stats["queueing"]["ports"].as_array().cloned().unwrap_or_default();
            let queues =
                ports.iter().flat_map(|port| port["queues"].as_array().into_iter().flatten());
            let at_queues: u64 = queues.filter_map(|queue| queue["refused"].as_u64()).sum();
            // Of two workers each has half of the pool, which is full first.
            let dropped = stats["total"]["dropped"].as_array().cloned().unwrap_or_default();
            (at_queues, dropped.iter().filter_map(|pair| pair[1].as_u64()).sum::<u64>())
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while refused().1 == 0 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        let (at_queues, dropped) = refused();
        assert!(dropped > 0, "{workers} workers");
        assert_eq!(at_queues, dropped, "{workers} workers");
        switch.end("TERM").expect(0, &[]);
    }
}
