//! Several workers on one switch, in virtual time: the same packets as with one, the same pauses.
//!
//! The workers are polled in turns here; with threads and interfaces they are in `run.rs`.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_switch::config::qos::Part;
use wireyard_switch::core::Core;
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded, Place, load};
use wireyard_tables::time::Span;
use wireyard_tests::wires::{Fabric, Far, open_line};
use wireyard_tests::workspace_root;

use crate::queues::{frame, lossless_config};

fn loaded(config: &str) -> Loaded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("switch.yaml");
    fs::write(&path, config).expect("a file");
    let program = workspace_root().join("programs/rocev2_lossless");
    let place = Place { program, config: Some(path), ..Place::default() };
    load(&place).unwrap_or_else(|rejected| panic!("{rejected}"))
}

/// A switch of `workers` with ports 1 to `ports`; port n belongs to worker (n - 1) % workers.
fn switch(config: &str, workers: usize, ports: u16) -> (Fabric, Vec<Far>) {
    let loaded = loaded(config);
    let memory = MemoryConfig { chunks: 8192, chunk_bytes: 2048, headroom_bytes: 256 };
    let options = DeviceOptions { engine: EngineKind::Auto, memory, ..DeviceOptions::default() };
    let mut cores = loaded.workers(options, workers).expect("a device");
    let numbers: Vec<u16> = (1..=ports).collect();
    let owner = |number: u16| usize::from(number - 1) % workers;
    for (me, core) in cores.iter_mut().enumerate() {
        let owns = |number| owner(number) == me;
        let part = (workers > 1).then_some(Part { workers, owns: &owns });
        loaded.set_queues_of(core, &numbers, part.as_ref()).unwrap_or_else(|why| panic!("{why}"));
    }
    let mut fars = Vec::new();
    for number in numbers {
        let (near, far) = open_line();
        for (_, core) in cores.iter_mut().enumerate().filter(|(me, _)| *me != owner(number)) {
            core.add_elsewhere(number, owner(number) as u8, &near).expect("a free number");
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
        let ended =
            report.dropped.iter().chain(&report.consumed).map(|(_, count)| count).sum::<u64>();
        went += report.sent + ended + report.queued;
    }
    (came, went)
}

#[track_caller]
fn check(fabric: &Fabric) {
    for core in &fabric.cores {
        core.audit_queues().expect("the traffic manager adds up");
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
                now = now + Span::from_us(1);
            }
            fabric.run_until(now + Span::from_ms(20));
            check(&fabric);
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
            now = now + Span::from_ns(200);
            fabric.run_until(now);
        }
        let owner = &fabric.cores[0];
        let group = owner.port_status(1).expect("port 1").groups[3];
        assert!(group.xoff, "{group:?}");
        assert!(group.account.total() >= 100_000 && group.account.total() < 102_000, "{group:?}");
        if workers == 2 {
            let elsewhere = fabric.cores[1].port_status(1).expect("its place").groups[3];
            assert_eq!(elsewhere.account.total(), 0, "it is charged once");
        }
        check(&fabric);
        fabric.run_until(now + Span::from_ms(10));
        let group = fabric.cores[0].port_status(1).expect("port 1").groups[3];
        assert_eq!((group.xoff, group.account.total()), (false, 0));
        assert_eq!(fars[1].count() as u64, sent);
        check(&fabric);
        outcomes.push((sent, group.counters.xoff, group.counters.xon));
    }
    assert_eq!(outcomes[0], outcomes[1]);
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
    check(&fabric);
    fabric.run_until(now + Span::from_ms(1));
    let psns: Vec<u32> = fars[1]
        .take()
        .iter()
        .map(|passing| {
            u32::from_be_bytes([0, passing.bytes[51], passing.bytes[52], passing.bytes[53]])
        })
        .collect();
    assert_eq!(psns, (0..packets).collect::<Vec<_>>());
    check(&fabric);
}

/// A threshold that is more than a worker's part of the pool would never pause anybody.
#[test]
fn a_part_that_is_too_small_is_refused() {
    let config = lossless_config("{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }");
    let loaded = loaded(&config.replace("static_th: 100 KB", "static_th: 3 MB"));
    let mut cores = loaded.workers(DeviceOptions::small(), 2).expect("a device");
    let part = Part { workers: 2, owns: &|number| number == 1 };
    let why = loaded.set_queues_of(&mut cores[0], &[1, 2], Some(&part)).expect_err("too small");
    assert!(why.contains("port 1, priority group 3") && why.contains("3000000"), "{why}");
}
