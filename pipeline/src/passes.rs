//! The passes: the one place that lists them.
//!
//! A pass changes a [`Program`] and keeps its meaning: every packet, entry and seed gives the same
//! bytes, verdict, counters and registers. Each can be switched off, so that an engine can be tested
//! with and without. In debug builds and tests the verifier runs before the first and after each.

pub(crate) mod dead_blocks;
mod fold;

use crate::ir::{Program, verify};

/// A pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Name, for switches and messages.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    run: fn(&mut Program) -> bool,
}

/// Every pass, in the order in which they run.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "fold",
        summary: "compute what is known; decide branches whose condition is",
        run: fold::run,
    },
    Pass {
        name: "dead-blocks",
        summary: "remove blocks that nothing reaches, go around those that only jump",
        run: dead_blocks::run,
    },
];

/// Which passes run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Names of passes that are switched off.
    pub without: Vec<String>,
}

impl Options {
    /// Every pass.
    pub fn all() -> Options {
        Options::default()
    }

    /// No pass.
    pub fn none() -> Options {
        Options { without: PASSES.iter().map(|pass| pass.name.to_string()).collect() }
    }
}

/// Runs the passes; returns the names of those that changed something.
pub fn run(program: &mut Program, options: &Options) -> Vec<&'static str> {
    check("lowering", program);
    let mut changed = Vec::new();
    for pass in PASSES {
        if options.without.iter().any(|name| name == pass.name) {
            continue;
        }
        if (pass.run)(program) {
            changed.push(pass.name);
        }
        check(pass.name, program);
    }
    changed
}

/// A violation is a defect of the pass named, never of the program that is compiled: tests stop.
fn check(after: &str, program: &Program) {
    if cfg!(debug_assertions) {
        let found = verify::verify(program);
        debug_assert!(found.is_empty(), "after {after}:\n{}", found.join("\n"));
    }
}
