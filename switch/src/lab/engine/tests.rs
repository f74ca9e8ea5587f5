//! Nodes that run ahead against one event after the other, and packets on the fast paths against lists and queues.

use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::source::Loader;
use wireyard_tables::time::{Deadline, Span, Time};

use super::{Lab, Outcome};
use crate::core::Statistics;
use crate::lab::build::Options;
use crate::lab::host::FlowStatus;
use crate::lab::link::LinkCounters;
use crate::lab::part::Part;
use crate::lab::scenario::{self, Scenario};
use crate::library::LIBRARIES;
use crate::tm::random::Stream;

/// Two switches, links of several delays with faults, pauses, marks, a flow back, a fault and a sample in the middle.
const BUSY: &str = "
lab: order
duration: 300 us
sample: 7 us
link: { rate: 25 Gbit/s, delay: 700 ns, loss: 1 %, reordering: 2 %, reorder_by: 3 us }
topology: { dumbbell: { pairs: 3, middle: { rate: 10 Gbit/s, delay: 1300 ns } } }
flows:
  - { from: a1, to: b1 }
  - { from: a2, to: b2, start: 3 us }
  - { from: b3, to: a3, size: 20 KB, start: 11 us }
faults:
  - { at: 100 us, until: 130 us, slow_receiver: b1 }
";

/// Results are the same bytes with any number of workers, so this test alone shows that there are partitions.
#[test]
fn so_many_workers_run_so_many_partitions() {
    for workers in [1, 2] {
        let options = Options { workers, ..Options::default() };
        let lab = Lab::new(scenario(BUSY), options).expect("the lab builds");
        assert_eq!((lab.parts.len(), lab.workers.is_some()), (workers, workers > 1));
    }
}

#[test]
fn captures_are_taken_where_they_are_asked_for() {
    let text = format!("{BUSY}captures: {{ a1-s1: 5 }}\n");
    for captures in [false, true] {
        let options = Options { captures, ..Options::default() };
        let mut lab = Lab::new(scenario(&text), options).expect("the lab builds");
        lab.run(&mut |_| true);
        assert_eq!(lab.captures().len(), usize::from(captures));
    }
}

/// Flows that have not begun are not read, and a run does not end before they have.
#[test]
fn a_run_waits_for_flows_that_begin_later() {
    let text = "
lab: later
duration: 300 us
sample: 10 us
link: { rate: 25 Gbit/s, delay: 700 ns }
topology: { incast: { senders: 2 } }
flows:
  - { from: h2, to: sink, size: 4 KB, start: 100 us }
  - { from: h1, to: sink, size: 100 KB, start: 5 us }
";
    let mut lab = lab(text, 1);
    let mut looked_at = Vec::new();
    let outcome = lab.run_paced(&mut |at| at, &mut |_, lab| {
        looked_at.push(lab.open_statuses().0.len());
        true
    });
    assert_eq!(outcome, Outcome::Drained);
    assert!(lab.last.iter().all(|flow| flow.finished.is_some()), "{:?}", lab.last);
    // Samples at 0, 10, 20 us: 100 KB take 32 us.
    assert_eq!((&looked_at[..3], looked_at.iter().max()), (&[0, 1, 1][..], Some(&1)));
    assert!(lab.now() >= Time::ZERO + Span::from_us(100), "{}", lab.now());
}

/// A collective that begins later, whose flows are gated, hides no flow that has begun.
#[test]
fn gated_flows_are_looked_at_from_the_start() {
    let text = "
lab: gated
duration: 100 us
sample: 10 us
link: { rate: 25 Gbit/s, delay: 700 ns }
topology: { incast: { senders: 2 } }
flows:
  - { from: h1, to: sink, size: 10 MB }
collectives:
  - { operation: all_reduce, ranks: [h1, h2, sink], size: 30 KB, start: 80 us }
";
    let mut lab = lab(text, 1);
    let mut begun = Vec::new();
    lab.run_paced(&mut |at| at, &mut |_, lab| {
        let (flows, _) = lab.open_statuses();
        begun.push(flows.iter().filter(|flow| flow.started.is_some()).count());
        true
    });
    assert_eq!(&begun[1..7], [1; 6], "the flow from h1");
}

/// A single sender runs alone: the packets that it receives, and that slow it down, are caused by its own.
const ALONE: &str = "
lab: alone
duration: 300 us
sample: 50 us
link: { rate: 25 Gbit/s, delay: 700 ns }
topology: { incast: { senders: 1, last_hop: { rate: 10 Gbit/s } } }
switch:
  qos:
    preset: onyx_roce
    wred_profiles: { ROCE: { green: { kmin: 2 KB, kmax: 20 KB, pmax: 100 % } } }
flows:
  - { from: h1, to: sink, start: 5 us }
";

/// All results to compare: every flow, every link, every core.
#[derive(Debug, PartialEq)]
pub(in crate::lab) struct Seen {
    pub(in crate::lab) flows: Vec<FlowStatus>,
    links: Vec<[LinkCounters; 2]>,
    cores: Vec<String>,
    polls: u64,
}

pub(in crate::lab) fn scenario(text: &str) -> Arc<Scenario> {
    let path = Path::new("order.yaml");
    let loader = Loader::in_memory([(path, text)], LIBRARIES);
    Arc::new(scenario::read(path, &loader).expect("the scenario reads").0)
}

pub(in crate::lab) fn lab(text: &str, seed: u64) -> Lab {
    let options = Options { seed: Some(seed), ..Options::default() };
    Lab::new(scenario(text), options).expect("the lab builds")
}

/// Polls a node for [`run_one_by_one`]: returns when it must be polled again.
type PollNode = fn(&mut Part, usize) -> Deadline;

/// Only the ports with pending work, as in a run.
fn poll_due(part: &mut Part, node: usize) -> Deadline {
    let mut horizon = Deadline::NOW;
    part.poll(node, &mut horizon).expect("time passes")
}

/// Every port, each time, on the batch path: without the index of arrivals and the fast path, and with every timer.
fn poll_everything(part: &mut Part, node: usize) -> Deadline {
    part.events += 1;
    part.cores[node].poll(part.now, None);
    let mut horizon = Deadline::NOW;
    part.note_arrivals(node, &mut horizon).expect("there is one partition");
    let wires = part.node_states[node].wires.clone();
    part.arrival_index.find_first(node, wires);
    part.cores[node].next_event_at(part.now).into()
}

/// The same as [`Lab::run`], except that nodes do not run ahead.
fn run_one_by_one(lab: &mut Lab, poll: PollNode) {
    loop {
        let (nodes, change, sample) = (lab.parts[0].next(), lab.faults.next(), lab.next_sample);
        let first = nodes.min(change).min(Deadline::at(sample));
        let Some(at) = first.instant().filter(|at| *at <= lab.end()) else { break };
        lab.now = at;
        if change == first {
            lab.change().expect("ways");
        } else if nodes == first {
            lab.move_cores_to_partitions();
            let part = &mut lab.parts[0];
            let (_, node) = part.event_queue.first().expect("a node has something to do");
            part.now = at;
            // A frame that it sends may return before that.
            part.event_queue.set(node, Deadline::NEVER);
            let next = poll(part, node);
            part.event_queue.not_after(node, next);
            lab.take_cores_back();
        } else {
            lab.next_sample = at + lab.scenario.sample;
            lab.sample().expect("all checks pass");
        }
    }
    lab.now = lab.end();
    assert_eq!(lab.finish(Outcome::Complete), Outcome::Complete);
}

pub(in crate::lab) fn seen(lab: &mut Lab) -> Seen {
    Seen {
        flows: lab.statuses(),
        links: lab.links.iter().map(|link| [0, 1].map(|way| link[way].counters())).collect(),
        cores: lab.cores.iter_mut().map(|core| format!("{:?}", Statistics::of(core))).collect(),
        polls: lab.events,
    }
}

/// The scenarios as they are run, and with every node polled one after the other by `poll`.
fn both_ways(poll: PollNode) -> impl Iterator<Item = (String, Seen, Seen)> {
    let runs = (1..6).map(|seed| (BUSY, seed)).chain([(ALONE, 1)]);
    runs.map(move |(text, seed)| {
        let (mut fast, mut plain) = (lab(text, seed), lab(text, seed));
        assert_eq!(fast.run(&mut |_| true), Outcome::Complete);
        run_one_by_one(&mut plain, poll);
        let (fast, plain) = (seen(&mut fast), seen(&mut plain));
        let is_bad = |way: &LinkCounters| way.reordered > 0 && way.lost > 0;
        assert_eq!(plain.links.iter().flatten().any(is_bad), text == BUSY);
        assert!(plain.flows.iter().all(|flow| flow.delivered_bytes > 0));
        (format!("seed {seed} of {text}"), fast, plain)
    })
}

#[test]
fn a_node_that_goes_on_changes_nothing() {
    for (run, fast, plain) in both_ways(poll_due) {
        assert_eq!(fast, plain, "{run}");
    }
}

#[test]
fn a_packet_that_goes_straight_changes_nothing() {
    for (run, fast, plain) in both_ways(poll_everything) {
        assert!(plain.polls > fast.polls, "timers that only give memory back are skipped");
        assert_eq!(Seen { polls: 0, ..fast }, Seen { polls: 0, ..plain }, "{run}");
    }
}

/// Least time of a frame from each node to each other, by relaxing along links until nothing gets shorter.
fn distances(lab: &Lab) -> Vec<Vec<Span>> {
    let fabric = &lab.scenario.fabric;
    let count = fabric.nodes.len();
    let mut all = vec![vec![Span::from_ms(1); count]; count];
    for _ in 0..count {
        for link in &fabric.links {
            for [a, b] in [link.ends, [link.ends[1], link.ends[0]]] {
                all[a][b] = all[a][b].min(link.setup.delay);
                for from in (0..count).filter(|from| *from != b) {
                    all[from][b] = all[from][b].min(all[from][a] + link.setup.delay);
                }
            }
        }
    }
    all
}

/// No frame that any node can send reaches a node before its horizon; and the horizon of a host, behind its switch, is
/// further than one link.
#[test]
fn nothing_reaches_a_node_before_its_horizon() {
    let mut lab = lab(BUSY, 1);
    let (distances, mut stream) = (distances(&lab), Stream::new(5, 5));
    let count = distances.len();
    let over = Deadline::at(lab.end() + Span::from_ps(1));
    let part = &mut lab.parts[0];
    let mut seen_further = 0;
    for _ in 0..20_000 {
        for node in 0..count {
            let at = Time::from_ns(u64::from(stream.next_u32() % 5000));
            let is_idle = stream.next_u32().is_multiple_of(4);
            part.event_queue.set(node, (!is_idle).then_some(at).into());
        }
        for node in 0..count {
            let others = distances.iter().enumerate().filter(|(other, _)| *other != node);
            let reaches = others.map(|(other, to)| part.event_queue.at(other) + to[node]);
            let horizon = part.horizon(node, over);
            assert!(horizon <= reaches.min().unwrap_or(Deadline::NEVER).min(over), "node {node}");
            let near = part.event_queue.first_but(node) + part.node_states[node].nearest;
            assert!(horizon >= near.min(over), "node {node}");
            seen_further += u32::from(horizon > near);
        }
    }
    assert!(seen_further > 10_000, "{seen_further}");
}

/// A packet delivered to the wrong flow is found, because no two flows have the same bytes.
#[test]
fn flows_of_different_hosts_have_different_bytes() {
    let mut lab = lab(BUSY, 1);
    let mut start = |flow: usize| lab.flows[flow].first_bytes(&mut lab.cores);
    let starts = [0, 1, 2].map(|flow| start(flow).expect("a flow has memory"));
    assert!(starts[0] != starts[1] && starts[0] != starts[2] && starts[1] != starts[2]);
}

/// Links that reorder packets, in a scenario that declares they do not: the check finds overtaken packets, also among
/// retransmissions.
#[test]
fn an_overtaken_packet_is_found_and_a_gap_is_none() {
    let ended = |text: &str| {
        let mut lab = lab(text, 1);
        let scenario = Arc::make_mut(&mut lab.scenario);
        for link in &mut scenario.fabric.links {
            link.setup.reordering = crate::units::Probability::ZERO;
        }
        lab.run(&mut |_| true)
    };
    let lossy = BUSY.replace(", reordering: 2 %, reorder_by: 3 us", "");
    assert_eq!(ended(&lossy), Outcome::Complete);
    match ended(BUSY) {
        Outcome::Failed(violation) => assert_eq!(violation.check, "order", "{violation:?}"),
        outcome => panic!("{outcome:?}"),
    }
}

/// A device without memory for a packet ends the run, and reports its holders.
#[test]
fn a_full_packet_memory_says_who_holds_it() {
    let mut lab = lab(&BUSY.replace("duration: 300 us", "duration: 3 ms"), 1);
    let but_100 = lab.mem.config().chunks as usize - 100;
    let taken: Vec<_> = std::iter::from_fn(|| lab.mem.alloc()).take(but_100).collect();
    let outcome = lab.run(&mut |_| true);
    taken.into_iter().for_each(|buf| lab.mem.free(buf));
    let Outcome::Failed(violation) = outcome else { panic!("{outcome:?}") };
    assert_eq!(violation.check, "memory");
    for words in ["chunks of 2048 B hold", "in switches, most in `s1`", "make the `window`"] {
        assert!(violation.what.contains(words), "{words}: {violation:?}");
    }
}

/// Edge and aggregation hash the same fields: with the same hash, a switch would use only one of its paths to the
/// cores.
#[test]
fn all_cores_of_a_fat_tree_are_used() {
    let text = "
lab: ways
duration: 100 us
link: { rate: 25 Gbit/s, delay: 700 ns }
topology: { fat_tree: { k: 4 } }
flows: { pattern: all_to_all, size: 2 KB }
";
    let mut lab = lab(text, 1);
    lab.run(&mut |_| true);
    let scenario = Arc::clone(&lab.scenario);
    let is_core = |node: usize| scenario.fabric.nodes[node].name.starts_with("core");
    let mut ways = 0;
    for (link, directions) in scenario.fabric.links.iter().zip(&lab.links) {
        for (to, direction) in [link.ends[1], link.ends[0]].into_iter().zip(directions) {
            if is_core(to) {
                ways += 1;
                assert_ne!(direction.counters().sent, 0, "{:?}", link.ends);
            }
        }
    }
    assert_eq!(ways, 16);
}
