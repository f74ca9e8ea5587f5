//! Several partitions against one: random topologies, cut at random.

use std::fmt::Write;
use std::sync::Arc;

use wireyard_tables::time::{Span, Time};

use crate::lab::build::Options;
use crate::lab::engine::tests::{Seen, scenario, seen};
use crate::lab::engine::{Lab, Outcome};
use crate::lab::partition::Layout;
use crate::lab::scenario::Scenario;
use crate::tm::random::Stream;

/// Topologies that are tried; `WIREYARD_CUTS` sets another number.
const TOPOLOGIES: u64 = 6;

fn topologies() -> u64 {
    std::env::var("WIREYARD_CUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(TOPOLOGIES)
}

/// A number below `most`.
fn below(stream: &mut Stream, most: usize) -> usize {
    stream.next_u32() as usize % most
}

/// A tree of switches with links beside it, hosts anywhere, delays of every length, bad links, faults, flows that end
/// and flows that do not.
fn random(seed: u64) -> Arc<Scenario> {
    let mut stream = Stream::new(seed, 1);
    let (switches, hosts) = (1 + below(&mut stream, 5), 3 + below(&mut stream, 6));
    let mut links = Vec::new();
    let mut link = |stream: &mut Stream, a: String, b: String| {
        let delay_ns = 1 + below(stream, 40) * below(stream, 60);
        let rate = [10, 25, 40, 100][below(stream, 4)];
        let bad = match below(stream, 3) {
            0 => ", loss: 1 %, corruption: 1 %, reordering: 2 %, reorder_by: 2 us",
            _ => "",
        };
        links.push(format!(
            "{{ ends: [{a}, {b}], rate: {rate} Gbit/s, delay: {delay_ns} ns{bad} }}"
        ));
    };
    for n in 1..switches {
        let other = below(&mut stream, n);
        link(&mut stream, format!("s{n}"), format!("s{other}"));
    }
    for n in 2..switches {
        link(&mut stream, format!("s{n}"), format!("s{}", n - 2));
    }
    for n in 0..hosts {
        let switch = below(&mut stream, switches);
        link(&mut stream, format!("h{n}"), format!("s{switch}"));
    }
    let names = |letter: &str, count: usize| {
        (0..count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "lab: cut\nduration: 120 us\nsample: {} us\nwarm_up: 20 us\ntopology:\n  hosts: [{}]\n  switches: [{}]\n  links:\n",
        1 + below(&mut stream, 30),
        names("h", hosts),
        names("s", switches)
    );
    links.iter().for_each(|link| writeln!(text, "    - {link}").expect("text grows"));
    text += "flows:\n";
    for n in 0..2 * hosts {
        let (from, start) = (n % hosts, below(&mut stream, 20));
        let to = (from + 1 + below(&mut stream, hosts - 1)) % hosts;
        let size = match below(&mut stream, 2) {
            0 => String::new(),
            _ => format!(", size: {} KB", 1 + below(&mut stream, 60)),
        };
        writeln!(text, "  - {{ from: h{from}, to: h{to}, start: {start} us{size} }}")
            .expect("text grows");
    }
    text += "faults:\n  - { at: 40 us, until: 60 us, slow_receiver: h0 }\n";
    scenario(&text)
}

/// Partitions with randomly assigned nodes.
fn drawn_layout(scenario: &Scenario, stream: &mut Stream) -> Layout {
    let count = scenario.fabric.nodes.len();
    let parts = 2 + below(stream, 3.min(count - 1));
    let mut chosen: Vec<usize> = (0..count).map(|_| below(stream, parts)).collect();
    // None is empty.
    (0..parts).for_each(|part| chosen[(7 * part) % count] = part);
    let mut known = chosen.clone();
    known.sort_unstable();
    known.dedup();
    let dense = chosen.iter().map(|part| known.binary_search(part).expect("known"));
    Layout::of(&scenario.fabric, &dense.collect::<Vec<_>>())
}

fn parted(scenario: &Arc<Scenario>, layout: Layout) -> (Outcome, Seen) {
    let options = Options { seed: Some(3), ..Options::default() };
    let mut lab = Lab::parted(Arc::clone(scenario), options, None, layout).expect("it builds");
    let outcome = lab.run(&mut |_| true);
    (outcome, seen(&mut lab))
}

#[test]
fn wherever_a_lab_is_cut_it_is_the_same_run() {
    for seed in 0..topologies() {
        let scenario = random(seed);
        let one = parted(&scenario, Layout::one(&scenario.fabric));
        assert!(one.1.flows.iter().any(|flow| flow.delivered_bytes > 0), "seed {seed}");
        let mut stream = Stream::new(seed, 2);
        for _ in 0..2 {
            let layout = drawn_layout(&scenario, &mut stream);
            assert_eq!(one, parted(&scenario, layout.clone()), "seed {seed}, {layout:?}");
        }
    }
}

/// Two hosts and a switch.
const NEAR: &str = "
lab: near
duration: 40 us
sample: 5 us
topology:
  hosts: [a, b]
  switches: [s]
  links:
    - { ends: [a, s], rate: 100 Gbit/s, delay: 900 ns }
    - { ends: [s, b], rate: 100 Gbit/s, delay: 500 ns }
flows: { from: a, to: b }
";

/// A lookahead that is too long is found at the frame that arrives too soon, with any timing of threads; the longest
/// true one is no error.
#[test]
fn a_lookahead_that_is_too_long_is_found() {
    let scenario = scenario(NEAR);
    let layout = Layout::of(&scenario.fabric, &[0, 1, 1]);
    assert_eq!(layout.lookahead[0][1], Span::from_ns(900));
    let one = parted(&scenario, Layout::one(&scenario.fabric));
    let longer = |by: Span| {
        let mut layout = layout.clone();
        for (from, to) in [(0, 1), (1, 0)] {
            layout.lookahead[from][to] = layout.lookahead[from][to] + by;
        }
        parted(&scenario, layout)
    };
    let slack = slack(&scenario, &layout);
    assert_eq!(one, longer(Span::ZERO));
    assert_eq!(one, longer(slack), "all of it is true");
    match longer(slack + Span::from_ps(1)).0 {
        Outcome::Failed(violation) => assert_eq!(violation.check, "lookahead", "{violation:?}"),
        outcome => panic!("{outcome:?} with a lookahead that is 1 ps too long"),
    }
}

/// How much longer than its delay a frame takes at least over a cut, in a run: found by halving.
fn slack(scenario: &Arc<Scenario>, layout: &Layout) -> Span {
    let holds = |ps: u64| {
        let mut layout = layout.clone();
        for (from, to) in [(0, 1), (1, 0)] {
            layout.lookahead[from][to] = layout.lookahead[from][to] + Span::from_ps(ps);
        }
        !matches!(parted(scenario, layout).0, Outcome::Failed(violation) if violation.check == "lookahead")
    };
    let (mut good, mut bad) = (0, Time::from_ns(1_000).as_ps());
    assert!(holds(good) && !holds(bad));
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match holds(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    Span::from_ps(good)
}
