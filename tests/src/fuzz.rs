//! Fuzz targets: each takes any bytes and panics where a promise is broken.
//!
//! They run in two ways: for seconds with inputs of a seed in CI (`tests/it/fuzz.rs`), and for as long as wanted under
//! libFuzzer, which finds inputs by what code they reach (`tests/fuzz`, needs cargo-fuzz). An input that
//! found something is kept in `tests/data/fuzz/TARGET` and runs in CI too, beside the edge of the target that begins its folder.
//!
//! Texts are made by structure: an input names one of the texts of this project and says how its words, lines and blocks are
//! changed ([`text`]), so that most of what comes out is nearly right. An input that begins with [`text::RAW`] is a text itself.

pub mod captures;
pub mod control;
pub mod devices;
pub mod endpoints;
pub mod engines;
pub mod fields;
pub mod packets;
pub mod tables;
pub mod text;
pub mod texts;

use crate::differ::random::Random;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its file in `tests/fuzz` and its folder in `tests/data/fuzz`.
    pub name: &'static str,
    /// Does one input.
    pub run: fn(&[u8]),
    /// Inputs that are right, or empty: what others are made from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Inputs of a run in CI.
    pub inputs: usize,
}

/// No seeds: inputs are random bytes.
fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// All of them.
pub const TARGETS: [Target; 11] = [
    Target { name: "program", run: texts::program, seeds: none, inputs: 150 },
    Target { name: "p4", run: texts::p4, seeds: none, inputs: 150 },
    Target { name: "config", run: texts::config, seeds: none, inputs: 400 },
    Target { name: "scenario", run: texts::scenario, seeds: none, inputs: 200 },
    Target { name: "stf", run: texts::stf, seeds: none, inputs: 1000 },
    Target { name: "capture", run: captures::run, seeds: captures::seeds, inputs: 4000 },
    Target { name: "packets", run: packets::run, seeds: packets::seeds, inputs: 60 },
    Target { name: "engines", run: engines::run, seeds: none, inputs: 12 },
    Target { name: "tables", run: tables::run, seeds: none, inputs: 60 },
    Target { name: "endpoints", run: endpoints::run, seeds: none, inputs: 30 },
    Target { name: "control", run: control::run, seeds: none, inputs: 60 },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs a target of this name; for `tests/fuzz`.
///
/// # Panics
/// There is none, or it breaks a promise.
pub fn run(name: &str, data: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no target {name}"));
    (target.run)(data);
}

/// The inputs of a seed: seeds of the target with bytes changed, or random bytes.
pub fn inputs(target: &Target, seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let (seeds, mut random) = ((target.seeds)(), Random::new(seed));
    (0..count).map(move |number| match seeds.get(number) {
        Some(seed) => seed.clone(),
        None if seeds.is_empty() => bytes(&mut random, 8, 200),
        None => changed(&mut random, &seeds),
    })
}

fn bytes(random: &mut Random, least: usize, more: usize) -> Vec<u8> {
    let count = least + random.below(more);
    (0..count).map(|_| random.bits() as u8).collect()
}

/// One of these with a few bytes set, flipped, added or taken out.
fn changed(random: &mut Random, from: &[Vec<u8>]) -> Vec<u8> {
    let mut out = random.pick(from);
    for _ in 0..=random.below(6) {
        let at = random.below(out.len());
        match random.below(6) {
            _ if out.is_empty() => out.push(random.bits() as u8),
            0 => out[at] ^= 1 << random.below(8),
            1 => out[at] = random.bits() as u8,
            2 => out[at] = random.pick(&[0x00, 0x01, 0x7f, 0x80, 0xff]),
            3 => out.truncate(at),
            4 => {
                let more = bytes(random, 1, 20);
                out.splice(at..at, more);
            }
            _ => {
                let end = (at + random.below(20)).min(out.len());
                out.drain(at..end);
            }
        }
    }
    out
}
