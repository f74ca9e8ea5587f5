//! The optimisation passes: the only list of them.
//!
//! A pass changes a [`Program`] and keeps its meaning: every packet, entry and seed results in the same bytes, verdict,
//! counters and registers on every engine. It may change only the trace: an assignment that nothing reads, or a table
//! that became a switch, does not appear in the trace of the optimised program. Names, ids and shapes of all
//! declarations stay, so that the state of a program fits its optimised form.
//!
//! Each pass has a level and can be switched off, so that an engine can be tested with and without. In
//! debug builds and tests the verifier runs before the first and after each.

pub(crate) mod dead_blocks;
mod dead_code;
mod fold;
pub mod liveness;
mod small_tables;

use crate::ir::{Program, verify};

/// A pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Name, for switches and messages.
    pub name: &'static str,
    /// Its effect, in a line.
    pub summary: &'static str,
    /// The lowest level at which it runs.
    pub level: u8,
    run: fn(&mut Program) -> bool,
}

/// The level with all passes.
pub const LEVEL_MAX: u8 = 2;

/// Every pass, in the order in which they run.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "fold",
        summary: "compute what is known; decide branches whose condition is",
        level: 1,
        run: fold::run,
    },
    Pass {
        name: "small-tables",
        summary: "make small tables that cannot change into switches",
        level: 2,
        run: small_tables::run,
    },
    Pass {
        name: "dead-code",
        summary: "remove assignments to locals, metadata and fields that nothing reads",
        level: 2,
        run: dead_code::run,
    },
    Pass {
        name: "dead-blocks",
        summary: "remove blocks that nothing reaches and decisions between ways that are one, go around blocks that only jump",
        level: 1,
        run: dead_blocks::run,
    },
];

/// The selection of passes.
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
        Options::level(0)
    }

    /// The passes of a level: 0 none, 1 those that keep the trace, 2 all.
    pub fn level(level: u8) -> Options {
        let off = PASSES.iter().filter(|pass| pass.level > level);
        Options { without: off.map(|pass| pass.name.to_string()).collect() }
    }
}

/// The program that an engine runs at this level.
pub fn optimised(program: &Program, level: u8) -> Program {
    let mut program = program.clone();
    run(&mut program, &Options::level(level));
    program
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

/// With debug assertions only: a violation is a defect of the pass, never of the compiled program, and panics.
fn check(after: &str, program: &Program) {
    if cfg!(debug_assertions) {
        let found = verify::verify(program);
        debug_assert!(found.is_empty(), "after {after}:\n{}", found.join("\n"));
    }
}

#[cfg(test)]
mod tests;
