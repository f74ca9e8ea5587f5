//! The laboratory's speed: delivered data packets per second, and polls of nodes per second, of one core.
//!
//! N:1 at 100 Gbit/s with DCQCN and acknowledgements, compiled engine, steady state: each iteration goes on where the one before
//! stopped in virtual time. `packets` has an acknowledgement for 64 packets, as hosts do where nothing is said, `acknowledged` one for
//! each, as in ns-3. With `WIREYARD_COUNT=8` it is one step with eight senders, for `pipeline/benches/count.sh`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wireyard_pipeline::source::Loader;
use wireyard_switch::lab::build::Options;
use wireyard_switch::lab::{Lab, scenario};
use wireyard_switch::library::LIBRARIES;
use wireyard_switch::program::EngineKind;
use wireyard_tables::time::{Span, Time};

/// Packets for an acknowledgement, where nothing is said.
const ACK_EVERY: u32 = 64;
/// Virtual time of one iteration.
const STEP: Span = Span::from_us(200);

/// The incast of the library with so many senders that never stop, and an acknowledgement for so many packets.
fn lab(senders: usize, ack_every: u32) -> Lab {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs/lab");
    let text = std::fs::read_to_string(folder.join("fixed_point_100g.yaml")).expect("the scenario");
    let text = text
        .replace("senders: 10", &format!("senders: {senders}"))
        .replace("duration: 130 ms", "duration: 10 s");
    let path = folder.join("bench.yaml");
    let loader = Loader::in_memory([(path.as_path(), text)], LIBRARIES);
    let (mut scenario, _) = scenario::read(&path, &loader).expect("the scenario reads");
    scenario.sample = STEP;
    scenario.host.ack_every = Some(ack_every);
    let options = Options { engine: EngineKind::Auto, ..Options::default() };
    Lab::new(Arc::new(scenario), options).expect("the lab builds")
}

/// Runs until this instant.
fn run_until(lab: &mut Lab, until: Time) -> u64 {
    let mut events = 0;
    lab.run(&mut |pulse| {
        events = pulse.events;
        pulse.now < until
    });
    events
}

/// Full packets that have arrived.
fn delivered(lab: &mut Lab) -> u64 {
    lab.statuses().iter().map(|flow| flow.delivered_bytes).sum::<u64>() / 1024
}

/// Past the first cuts, then one step for callgrind, which counts by this name.
fn counted(senders: usize) {
    let mut lab = lab(senders, ACK_EVERY);
    let until = Time::ZERO + Span::from_ms(5);
    run_until(&mut lab, until);
    let before = delivered(&mut lab);
    counted_runs(&mut lab, until + STEP);
    println!("packets {}", delivered(&mut lab) - before);
}

#[inline(never)]
fn counted_runs(lab: &mut Lab, until: Time) {
    std::hint::black_box(run_until(lab, until));
}

fn incast(criterion: &mut Criterion) {
    if let Some(senders) = std::env::var("WIREYARD_COUNT").ok().and_then(|n| n.parse().ok()) {
        return counted(senders);
    }
    let mut group = criterion.benchmark_group("lab");
    // Some 300 iterations of a few milliseconds: a minute for all figures.
    group.sample_size(20);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
    for (senders, ack_every) in [(2, ACK_EVERY), (8, ACK_EVERY), (8, 1), (128, ACK_EVERY)] {
        let mut lab = lab(senders, ack_every);
        // Past the first cuts of all rates and their recovery.
        let mut until = Time::ZERO + Span::from_ms(40);
        let before = run_until(&mut lab, until);
        // What one step delivers, and polls, the first one shows.
        let start = delivered(&mut lab);
        until += STEP;
        let events = run_until(&mut lab, until) - before;
        let packets = delivered(&mut lab) - start;
        let name = if ack_every == 1 { "acknowledged" } else { "packets" };
        for (what, count) in [(name, packets), ("events", events)] {
            if what == "events" && (ack_every == 1 || senders > 8) {
                continue;
            }
            group.throughput(Throughput::Elements(count));
            group.bench_function(BenchmarkId::new(what, senders), |bencher| {
                bencher.iter(|| {
                    until += STEP;
                    run_until(&mut lab, until)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, incast);
criterion_main!(benches);
