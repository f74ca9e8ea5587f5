//! DCQCN as programs against DCQCN in Rust, with every preset of the laws that the programs have.

use proptest::prelude::*;
use wireyard_tables::time::Span;

use super::*;
use crate::roce::rp::RateControl;
use crate::roce::rp::dcqcn::preset;
use crate::roce::rp::dcqcn::{ClampTarget, Dcqcn, DcqcnParams, FirstCut, Law};

const LINES: [u64; 3] = [10_000_000_000, 100_000_000_000, 400_000_000_000];

/// The program of a preset's law, and the parameters of the preset; `None` for a law without a program.
fn as_program(of: &DcqcnParams) -> Option<(&'static str, Vec<(String, i128)>)> {
    let number = |value: f64| (value * (1_u64 << 30) as f64) as i128;
    let ns = |span: Span| i128::from(span.as_ps() / 1000);
    let mut given = vec![
        ("min_rate", of.min_rate_bps as i128),
        ("alpha_initial", number(of.alpha_initial)),
        ("g", number(of.g)),
        ("alpha_period", ns(of.alpha_period)),
        ("increase_period", ns(of.increase_period)),
        ("byte_counter", of.byte_counter_bytes.unwrap_or(64).into()),
        ("stages", of.fast_recovery_stages.into()),
        ("additive_increase", of.additive_increase_bps as i128),
        ("hyper_increase", of.hyper_increase_bps as i128),
    ];
    let program = match of.law {
        Law::Paper => {
            given.push(("inclusive", of.fast_recovery_inclusive.into()));
            "dcqcn"
        }
        Law::Sampled => {
            given.push(("decrease_period", ns(of.decrease_period)));
            given.push(("counts_bytes", of.byte_counter_bytes.is_some().into()));
            given.push(("first_cut_at_once", (of.first_cut == FirstCut::AtOnce).into()));
            let clamp = match of.clamp_target {
                ClampTarget::Always => 0,
                ClampTarget::AfterByteStage => 1,
                ClampTarget::AfterAnyStage => 2,
            };
            given.push(("clamp_target", clamp));
            "dcqcn_sampled"
        }
        Law::Ns3Rdma => return None,
    };
    Some((program, given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// What happens at a sender: a CNP, bytes that leave, or nothing but time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Cnp,
    Sent(u64),
    Nothing,
}

/// Program and Rust side by side, with the largest difference of rate and target as a part of the line rate, and of
/// alpha.
fn beside_rust(of: &DcqcnParams, events: &[(u64, Event)]) -> (f64, f64) {
    let line = of.line_rate_bps;
    let (program, given) = as_program(of).expect("a law with a program");
    let program = Arc::new(Program::parse("test.yaml", library(program)).unwrap());
    let instance = Instance::new(&program, &sender(line as u64), &given).unwrap();
    let mut program = Arc::new(instance).start();
    let mut rust = Dcqcn::new(&of.clone().profile().unwrap());
    let (mut rates, mut alphas) = (0.0_f64, 0.0_f64);
    let mut now = us(1);
    for (gap_ns, event) in events {
        now += Span::from_ns(*gap_ns);
        match event {
            Event::Cnp => (program.on_cnp(now), rust.on_cnp(now)),
            Event::Sent(bytes) => {
                (program.on_bytes_sent(now, *bytes), rust.on_bytes_sent(now, *bytes))
            }
            Event::Nothing => (program.poll(now), rust.poll(now)),
        };
        // Each updates itself when it is read.
        program.poll(now);
        rust.poll(now);
        let (a, b) = (program.state(), rust.state());
        let part = |a: f64, b: f64| (a - b).abs() / line;
        rates = rates.max(part(a.rate_bps, b.rate_bps)).max(part(a.target_bps, b.target_bps));
        alphas = alphas.max((a.estimate - b.estimate).abs());
    }
    (rates, alphas)
}

/// The presets whose law has a program.
fn presets(line: u64) -> Vec<(&'static str, DcqcnParams)> {
    let all = preset::PRESETS.into_iter().map(|(name, preset)| (name, preset(line as f64).rp));
    all.filter(|(_, rp)| as_program(rp).is_some()).collect()
}

/// The documented rounding: rates to a part in 10^8 of the line rate, alpha to 10^-7.
#[test]
fn dcqcn_as_programs_is_dcqcn_in_rust() {
    use Event::{Cnp, Nothing, Sent};
    // The CNPs of the golden traces, with timers and the byte counter between them.
    let golden = [9_000, 50_000, 50_000, 50_000].map(|gap_ns| (gap_ns, Cnp));
    let later = (0..40).map(|n| (20_000, if n % 3 == 0 { Sent(4_000_000) } else { Nothing }));
    let events: Vec<_> = golden.into_iter().chain(later).collect();
    let all = presets(40_000_000_000);
    assert_eq!(all.len(), preset::PRESETS.len() - 2, "all but those of ns3-rdma");
    for (name, rp) in &all {
        let (rates, alphas) = beside_rust(rp, &events);
        assert!(rates < 1e-8 && alphas < 1e-7, "{name}: {rates} {alphas}");
    }
    let sent = (1_u64..4_000_000).prop_map(Sent);
    let event = prop_oneof![Just(Cnp), sent, Just(Nothing)];
    let timed = (1_u64..100_000, event);
    let line = prop::sample::select(LINES.to_vec());
    proptest!(ProptestConfig::with_cases(200), |(events in prop::collection::vec(timed, 1..200), line in line)| {
        // A CNP at least every 600 us: near the line rate one rounds up, the other waits for the last bit of a float.
        let mut with_cnps = Vec::new();
        for (n, event) in events.iter().enumerate() {
            with_cnps.push(*event);
            if n % 6 == 0 {
                with_cnps.push((1000, Cnp));
            }
        }
        for (name, rp) in presets(line) {
            let (rates, alphas) = beside_rust(&rp, &with_cnps);
            prop_assert!(rates < 1e-8 && alphas < 1e-7, "{name}: {rates} {alphas}");
        }
    });
}
