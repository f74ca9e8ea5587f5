//! Programs against functions written by hand for exactly one of them, in memory: 8192 packets of 64 to
//! 1088 bytes, ingress and egress, as by ports without queues (`Engine::through`). What the functions by hand do
//! and what they need not do is said in `hand.rs`.
//!
//! The outputs, counters and drops of the engines and of the rival are compared packet by packet before
//! anything is measured. Runs of both alternate, and the ratio that is printed is the median over the
//! pairs, so that it stays usable on a busy machine.
//! Run with `cargo bench -p wireyard-pipeline --bench forward`.

#![allow(missing_docs)]

mod acl;
mod hand;
mod rig;
mod router;
mod vxlan;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hand::{Hand, HandRig};
use rig::{Input, Output, PACKETS, Rig, compiled};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireyard_pipeline::engine::Engine;
use wireyard_pipeline::exec::{Descriptor, NO_PORT};
use wireyard_pipeline::interp::Interp;
use wireyard_pipeline::ir::{Half, Program};
use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::state::State;
use wireyard_pipeline::trace::{Filtered, Recorder, Scope};

/// Pairs of runs behind a ratio.
const PAIRS: usize = 101;
/// Every so many pairs the interpreter runs as well.
const INTERP_EVERY: usize = 10;

/// A program, its packets and its rival.
struct Duel {
    name: &'static str,
    program: PathBuf,
    inputs: Vec<Input>,
    fill: Box<dyn Fn(&State)>,
    hand: Box<dyn Hand>,
    /// The ratio that the project promises.
    limit: f64,
}

/// The three of them, ready to run.
struct Ring {
    jit: Box<dyn Engine>,
    interp: Box<dyn Engine>,
    jit_rig: Rig,
    interp_rig: Rig,
    hand: Box<dyn Hand>,
    hand_rig: HandRig,
}

impl Ring {
    fn new(duel: Duel) -> Ring {
        let program: Arc<Program> = compiled(&duel.program);
        let rig = || Rig::new(&program, &duel.inputs, &*duel.fill);
        let (jit_rig, interp_rig) = (rig(), rig());
        let jit = Jit::new(&program, &jit_rig.state, Options::default()).expect("it compiles");
        if std::env::var_os("WIREYARD_ASM").is_some() {
            let text = Jit::text(&program, &jit_rig.state, Options::default()).expect("text");
            println!("{}\n{}", text.clif, text.asm);
        }
        let specialised = Half::BOTH.map(|half| jit.is_specialised(half));
        println!("{}: path-specialised {specialised:?}", duel.name);
        Ring {
            jit: Box::new(jit),
            interp: Box::new(Interp::new(program)),
            jit_rig,
            interp_rig,
            hand: duel.hand,
            hand_rig: HandRig::new(&duel.inputs),
        }
    }

    /// Every packet and every counter is the same with all three.
    fn check(&mut self) {
        // Twice: the second time what was learned is there.
        for _ in 0..2 {
            let hand = self.hand_rig.outputs(&mut *self.hand);
            let jit = self.jit_rig.outputs(&*self.jit);
            let interp = self.interp_rig.outputs(&*self.interp);
            compare("jit", &jit, &interp);
            compare("hand", &hand, &interp);
            self.restore();
        }
        for (name, counts) in self.hand.counters() {
            for rig in [&self.jit_rig, &self.interp_rig] {
                assert_eq!(counters(&rig.state, name), counts, "{name}");
            }
        }
        for (name, count) in self.hand.drops() {
            for rig in [&self.jit_rig, &self.interp_rig] {
                assert_eq!(dropped(&rig.state, name), count, "dropped: {name}");
            }
        }
    }

    fn restore(&mut self) {
        self.hand_rig.restore();
        self.jit_rig.restore();
        self.interp_rig.restore();
    }

    fn time_hand(&mut self) -> Duration {
        self.hand_rig.restore();
        let start = Instant::now();
        self.hand_rig.run(&mut *self.hand);
        start.elapsed()
    }

    fn time_jit(&mut self) -> Duration {
        self.jit_rig.restore();
        let start = Instant::now();
        self.jit_rig.run(&*self.jit);
        start.elapsed()
    }

    /// With a trace filter that picks no packet.
    fn run_filtered(&mut self) {
        let mut sink = Filtered {
            sink: Recorder::default(),
            scope: Scope::IngressPort(NO_PORT),
            pick: |packet: &Descriptor, _: &[u8], _: Half| packet.ingress_port == NO_PORT,
        };
        self.jit_rig.run_traced(&*self.jit, &mut sink);
    }

    fn time_filtered(&mut self) -> Duration {
        self.jit_rig.restore();
        let start = Instant::now();
        self.run_filtered();
        start.elapsed()
    }

    fn time_interp(&mut self) -> Duration {
        self.interp_rig.restore();
        let start = Instant::now();
        self.interp_rig.run(&*self.interp);
        start.elapsed()
    }

    /// Runs in turns; prints the ratios.
    fn measure(&mut self, name: &str, limit: f64) {
        let (mut pairs, mut slow, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        let (mut best_hand, mut best_jit) = (Duration::MAX, Duration::MAX);
        for n in 0..PAIRS {
            let (hand, jit) = (self.time_hand(), self.time_jit());
            (best_hand, best_jit) = (best_hand.min(hand), best_jit.min(jit));
            pairs.push(jit.as_secs_f64() / hand.as_secs_f64());
            traced.push(self.time_filtered().as_secs_f64() / jit.as_secs_f64());
            if n % INTERP_EVERY == 0 {
                slow.push(self.time_interp().as_secs_f64() / jit.as_secs_f64());
            }
        }
        let ns = |time: Duration| time.as_nanos() as f64 / PACKETS as f64;
        println!(
            "RATIO {name}: jit / hand = {:.2} (limit {limit}; best of {PAIRS}: jit {:.1} ns, hand \
             {:.1} ns a packet), interp / jit = {:.1}, idle trace filter / none = {:.2}",
            median(&mut pairs),
            ns(best_jit),
            ns(best_hand),
            median(&mut slow),
            median(&mut traced),
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A packet that is not forwarded may have been written to before that was decided.
fn compare(who: &str, ours: &[Output], theirs: &[Output]) {
    for (n, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(a.port, b.port, "{who}: port of packet {n}");
        assert!(
            a.port.is_none() || a.bytes == b.bytes,
            "{who}: bytes of packet {n}\n{a:x?}\n{b:x?}"
        );
    }
}

/// An indirect counter, or the direct ones of a table by slot.
fn counters(state: &State, name: &str) -> Vec<[u64; 2]> {
    let program = state.program();
    let known = program.counters.entries().find(|(_, counter)| counter.name == name);
    let read = |array: &wireyard_tables::counter::CounterArray| {
        let counts = (0..array.size()).filter_map(|n| array.read(n));
        counts.map(|count| [count.packets, count.bytes]).collect()
    };
    match known {
        Some((id, _)) => read(state.counter(id).expect("a counter")),
        None => {
            let table = state.tables().find_table(name).expect("a table");
            let snapshot = state.tables().snapshot();
            read(snapshot.table(table).and_then(|view| view.counters()).expect("it counts"))
        }
    }
}

/// Packets dropped or punted for a reason; none where the program has no such reason.
fn dropped(state: &State, name: &str) -> [u64; 2] {
    let statistics = state.statistics();
    let reason = state.program().reasons.iter().position(|known| known == name);
    let read = |tally: &wireyard_tables::counter::CounterArray| {
        reason.and_then(|n| tally.read(n as _)).map_or([0; 2], |count| [count.packets, count.bytes])
    };
    let (drops, punts) = (read(&statistics.drops), read(&statistics.punts));
    [drops[0] + punts[0], drops[1] + punts[1]]
}

fn duels() -> Vec<Duel> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/forward");
    let library = rig::library();
    vec![
        Duel {
            name: "rocev2_router",
            program: here.join("rocev2_router.yaml"),
            inputs: router::inputs(),
            fill: Box::new(router::fill),
            hand: Box::new(router::Router::new()),
            limit: 1.3,
        },
        Duel {
            name: "acl_firewall",
            program: library.join("acl_firewall/program.yaml"),
            inputs: acl::inputs(),
            fill: Box::new(acl::fill),
            hand: Box::new(acl::Firewall::new()),
            limit: 1.5,
        },
        Duel {
            name: "vxlan_gateway",
            program: library.join("vxlan_gateway/program.yaml"),
            inputs: vxlan::inputs(),
            fill: Box::new(vxlan::fill),
            hand: Box::new(vxlan::Gateway::new()),
            limit: 1.5,
        },
    ]
}

/// The part that callgrind counts: see `benches/count.sh`.
#[inline(never)]
fn counted_runs(ring: &mut Ring, who: &str) {
    match who {
        "hand" => ring.hand_rig.run(&mut *ring.hand),
        "filtered" => ring.run_filtered(),
        "interp" => ring.interp_rig.run(&*ring.interp),
        _ => ring.jit_rig.run(&*ring.jit),
    }
}

fn forward(c: &mut Criterion) {
    let asked = std::env::var("WIREYARD_COUNT").ok();
    let counted = asked.as_deref().and_then(|asked| asked.split_once(':'));
    for duel in duels() {
        let (name, limit) = (duel.name, duel.limit);
        // valgrind is slow: only what is counted runs.
        if counted.is_some_and(|(program, _)| program != name) {
            continue;
        }
        let mut ring = Ring::new(duel);
        ring.check();
        if let Some((_, who)) = counted {
            counted_runs(&mut ring, who);
            continue;
        }
        ring.measure(name, limit);
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(PACKETS as u64));
        let times = |n: u64, time: &mut dyn FnMut() -> Duration| (0..n).map(|_| time()).sum();
        group.bench_function("hand", |b| b.iter_custom(|n| times(n, &mut || ring.time_hand())));
        group.bench_function("jit", |b| b.iter_custom(|n| times(n, &mut || ring.time_jit())));
        group.bench_function("interp", |b| b.iter_custom(|n| times(n, &mut || ring.time_interp())));
        group.finish();
    }
}

criterion_group!(benches, forward);
criterion_main!(benches);
