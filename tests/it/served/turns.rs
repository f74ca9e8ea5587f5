//! Two workers that serve the same ports, polled in turns in virtual time: the same frames, charges and pauses as with one.

use std::collections::BTreeMap;
use std::sync::Barrier;

use proptest::prelude::*;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_switch::config::qos::WorkerShare;
use wireyard_switch::control::Control;
use wireyard_switch::core::Core;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::{DeviceOptions, EngineKind};
use wireyard_tables::time::Span;
use wireyard_tests::wires::{Fabric, Far, open_line};

use super::{flow_of, of_flow};
use crate::queues::{frame, lossless_config, pfc};
use crate::workers::{check, loaded};

const WORKERS: usize = 2;
const PORTS: u16 = 3;

fn owner(number: u16) -> usize {
    usize::from(number - 1) % WORKERS
}

/// A switch whose ports have a queue at each of its workers: for each port the far ends of its queues, by worker.
fn served(config: &str) -> (Fabric, Vec<[Far; WORKERS]>) {
    let loaded = loaded(config);
    let memory = MemoryConfig { chunks: 16384, chunk_bytes: 2048, headroom_bytes: 256 };
    let options = DeviceOptions { engine: EngineKind::Auto, memory, ..DeviceOptions::default() };
    let mut cores = loaded.workers(options, WORKERS).expect("a device");
    let numbers: Vec<_> = (1..=PORTS).map(PortNumber).collect();
    for (me, core) in cores.iter_mut().enumerate() {
        let part = WorkerShare { workers: WORKERS, owns: &|port| owner(port.0) == me };
        loaded.set_queues_of(core, &numbers, Some(&part)).unwrap_or_else(|why| panic!("{why}"));
    }
    let mut fars = Vec::new();
    for number in numbers {
        fars.push([0, 1].map(|worker| {
            let (near, far) = open_line();
            let owner = owner(number.0);
            match worker == owner {
                true => cores[worker].add_port(number, Box::new(near)),
                false => cores[worker].add_queue(number, owner as u8, Box::new(near)),
            }
            .expect("a free number");
            far
        }));
    }
    (Fabric::new(cores), fars)
}

fn greet(fabric: &mut Fabric, fars: &[[Far; WORKERS]]) {
    for host in 1..=PORTS as u8 {
        let at = fabric.now;
        fars[usize::from(host) - 1][0].send(at, &frame(host, 0xee, 0, 0, 0, 60));
        fabric.run_until(at + Span::from_us(50));
    }
    fars.iter().flatten().for_each(|far| drop(far.take()));
}

/// Frames by port, queue and flow, in their order.
type Flows = BTreeMap<(usize, usize, u16), Vec<u32>>;

fn by_flow(fars: &[[Far; WORKERS]]) -> Flows {
    let mut flows = Flows::new();
    for (port, queues) in fars.iter().enumerate() {
        for (queue, far) in queues.iter().enumerate() {
            for passing in far.take() {
                let (flow, psn) = flow_of(&passing.bytes);
                flows.entry((port, queue, flow)).or_default().push(psn);
            }
        }
    }
    flows
}

fn rates(config: bool) -> String {
    let ports = "{ 1: { rate: 10Gbps }, 2: { rate: 1Gbps }, 3: { rate: 10Gbps } }";
    if config { lossless_config(ports) } else { "ports: {}".to_owned() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Flows come by any queue and leave by the owner's, or without queues by that of the worker that received them; each in its order.
    #[test]
    fn every_flow_keeps_its_order(
        packets in prop::collection::vec((1..=3u8, 1..=3u8, 0..9u16, prop::bool::ANY), 1..200),
        has_rates in prop::bool::ANY,
    ) {
        let (mut fabric, fars) = served(&rates(has_rates));
        greet(&mut fabric, &fars);
        let (mut now, mut expected) = (fabric.now, Flows::new());
        for (psn, &(from, to, flow, lossless)) in (0..).zip(&packets).filter(|(_, p)| p.0 != p.1) {
            // A flow has one class, one receiver and one queue.
            let flow = flow * 18 + u16::from(from) * 6 + u16::from(to) * 2 + u16::from(lossless);
            let queue = usize::from(flow / 18) % WORKERS;
            let (from, to) = (usize::from(from), usize::from(to));
            let bytes = of_flow(from as u8, to as u8, flow, psn, if lossless { 26 } else { 0 });
            fars[from - 1][queue].send(now, &bytes);
            let leaves = if has_rates { owner(to as u16) } else { queue };
            expected.entry((to - 1, leaves, flow)).or_default().push(psn);
            now += Span::from_ns(200);
        }
        fabric.run_until(now + Span::from_ms(20));
        check(&mut fabric);
        prop_assert_eq!(fabric.cores.iter().map(Core::queued).sum::<usize>(), 0);
        prop_assert_eq!(by_flow(&fars), expected);
    }
}

fn group(core: &mut Core) -> wireyard_switch::tm::GroupStatus {
    core.port_status(PortNumber(1)).expect("port 1").groups[3]
}

/// What the other worker receives on port 1 is charged at its owner, whose pauses come at the threshold and end when the queue has
/// drained.
#[test]
fn the_owner_charges_and_pauses() {
    let (mut fabric, fars) = served(&rates(true));
    greet(&mut fabric, &fars);
    let (mut sent, mut now) = (0u32, fabric.now);
    while fars[0][0].count() == 0 {
        assert!(sent < 400, "no pause after {sent} frames");
        let mut bytes = frame(1, 2, 26, 2, sent, 1514);
        bytes[34..36].copy_from_slice(&(0xc000 + (sent % 2) as u16).to_be_bytes());
        fars[0][sent as usize % 2].send(now, &bytes);
        sent += 1;
        now += Span::from_ns(200);
        fabric.run_until(now);
    }
    let (mine, others) = (group(&mut fabric.cores[0]), group(&mut fabric.cores[1]));
    assert!(
        mine.xoff && mine.account.total() >= 100_000 && mine.account.total() < 102_000,
        "{mine:?}"
    );
    assert_eq!((others.xoff, others.account.total()), (false, 0), "it is charged once");
    assert_eq!(fars[0][1].count(), 0, "the owner pauses");
    check(&mut fabric);
    fabric.run_until(now + Span::from_ms(10));
    assert_eq!(
        (group(&mut fabric.cores[0]).xoff, group(&mut fabric.cores[0]).account.total()),
        (false, 0)
    );
    let flows = by_flow(&fars[1..2]);
    assert_eq!(flows.values().map(Vec::len).sum::<usize>(), sent as usize);
    assert!(flows.values().all(|psns| psns.is_sorted()), "{flows:?}");
    check(&mut fabric);
}

/// While the owner stands still, at most a ring of frames is received for it and not charged; none is lost.
#[test]
fn what_is_not_charged_yet_is_bounded() {
    let (mut fabric, fars) = served(&rates(true));
    greet(&mut fabric, &fars);
    let (now, packets) = (fabric.now, 1400);
    for psn in 0..packets {
        fars[0][1].send(now, &of_flow(1, 3, 0, psn, 0));
    }
    for _ in 0..200 {
        fabric.cores[1].poll(now, None);
    }
    let waiting = fabric.cores[0].queued();
    assert!((400..=512).contains(&waiting), "{waiting} frames for the owner");
    check(&mut fabric);
    fabric.run_until(now + Span::from_ms(10));
    check(&mut fabric);
    let psns = by_flow(&fars[2..3]).into_values().next().expect("the flow");
    assert_eq!(psns, (0..packets).collect::<Vec<_>>());
}

/// Two workers give each other all that they receive, faster than it is taken: both go on.
#[test]
fn workers_that_owe_each_other_go_on() {
    let (mut fabric, fars) = served(&rates(true));
    greet(&mut fabric, &fars);
    let (now, packets) = (fabric.now, 4000);
    for psn in 0..packets {
        // Port 1 belongs to the first worker and port 2 to the second; each receives the frames of the other's.
        fars[0][1].send(now, &of_flow(1, 2, 0, psn, 0));
        fars[1][0].send(now, &of_flow(2, 1, 1, psn, 0));
    }
    fabric.run_until(now + Span::from_ms(20));
    check(&mut fabric);
    let report: u64 = fabric.cores.iter().map(|core| core.report().dropped_packets()).sum();
    let came: usize = by_flow(&fars).values().map(Vec::len).sum();
    assert_eq!(came as u64 + report, 2 * u64::from(packets), "none is stuck");
    assert_eq!(
        fabric.cores.iter().map(|core| core.report().dropped_for("worker_busy")).sum::<u64>(),
        0
    );
    assert_eq!(fabric.cores.iter().map(Core::queued).sum::<usize>(), 0);
}

/// Both workers fill their rings to each other in one turn, before either takes anything: both are emptied.
#[test]
fn rings_that_are_full_both_ways_are_emptied() {
    let (mut fabric, fars) = served(&rates(true));
    greet(&mut fabric, &fars);
    let (now, packets) = (fabric.now, 4000);
    for psn in 0..packets {
        fars[0][1].send(now, &of_flow(1, 2, 0, psn, 0));
        fars[1][0].send(now, &of_flow(2, 1, 1, psn, 0));
    }
    let turn = Barrier::new(WORKERS);
    std::thread::scope(|scope| {
        for core in &mut fabric.cores {
            scope.spawn(|| {
                for _ in 0..64 {
                    turn.wait();
                    core.poll(now, None);
                }
            });
        }
    });
    assert!(
        !fabric.cores.iter().any(|core| core.mesh().has_pending()),
        "workers wait for each other"
    );
    fabric.run_until(now + Span::from_ms(20));
    check(&mut fabric);
    assert_eq!(fabric.cores.iter().map(Core::queued).sum::<usize>(), 0);
}

/// A pause that the other worker receives stops the owner's queue, and is counted once.
#[test]
fn a_pause_reaches_the_owner() {
    let (mut fabric, fars) = served(&rates(true));
    greet(&mut fabric, &fars);
    let now = fabric.now;
    fars[2][1].send(now, &pfc(3, 0xffff));
    fabric.run_until(now + Span::from_us(1));
    for psn in 0..10 {
        fars[0][0].send(fabric.now, &of_flow(1, 3, 0, psn, 26));
    }
    fabric.run_until(fabric.now + Span::from_us(500));
    assert!(by_flow(&fars).is_empty(), "port 3 is paused");
    let status = fabric.cores[owner(3)].port_status(PortNumber(3)).expect("port 3");
    assert_eq!(status.queues[3].packets, 10, "{status:?}");
    fabric.run_until(fabric.now + Span::from_ms(10));
    assert_eq!(by_flow(&fars).values().map(Vec::len).sum::<usize>(), 10);
    let consumed: u64 =
        fabric.cores.iter().map(|core| core.report().consumed_for("mac_control")).sum();
    assert_eq!(consumed, 1);
    check(&mut fabric);
}

/// A port that is blocked sends by none of its transmit queues, and by all of them when it is not any more.
#[test]
fn a_blocked_port_sends_by_no_queue() {
    let (mut fabric, fars) = served(&rates(false));
    greet(&mut fabric, &fars);
    let control = Control::of(&fabric.cores[0]).expect("a handle").clone();
    for (is_blocked, left) in [(true, 0), (false, 2 * WORKERS)] {
        let asking = control.clone();
        let asked = std::thread::spawn(move || asking.block_port(PortNumber(3), is_blocked));
        let now = fabric.now;
        while !asked.is_finished() {
            fabric.cores.iter_mut().for_each(|core| core.serve_control(now));
        }
        asked.join().expect("an answer").expect("port 3 is there");
        for (queue, far) in fars[0].iter().enumerate() {
            far.send(now, &of_flow(1, 3, queue as u16, u32::from(is_blocked), 0));
        }
        fabric.run_until(now + Span::from_ms(1));
        let found: usize = by_flow(&fars[2..3]).values().map(Vec::len).sum();
        assert_eq!(found, left, "blocked: {is_blocked}");
    }
    check(&mut fabric);
}
