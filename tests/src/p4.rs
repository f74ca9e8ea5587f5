//! Random P4-16 programs for v1model, and an evaluator of them that shares nothing with the front end.
//!
//! A program is made as a tree, which is written as P4 and run here, packet by packet; what the evaluator says leaves is what each engine must
//! send, for the program and for the YAML that it becomes. The order of effects counts: calls with `inout` arguments are in operands, keys, indices
//! and conditions.

mod eval;
mod make;
mod print;
mod statements;
pub mod tree;
pub mod value;

use std::fmt::Write as _;

use crate::differ::random::Random;
use tree::Program;

/// The port that packets come in by, and that by which they leave.
const PORTS: (u16, u16) = (1, 2);

/// A program and a packet test of it.
#[derive(Clone, Debug)]
pub struct Made {
    /// The P4 source.
    pub source: String,
    /// What is sent and expected, without a line `program`.
    pub script: String,
}

/// A random program with this many packets.
pub fn random(random: &mut Random, packets: usize) -> Made {
    let program = make::program(random);
    let mut script = String::new();
    for _ in 0..packets {
        let payload_bytes = random.below(4);
        let bytes: Vec<u8> = (0..program.bytes() + payload_bytes).map(|_| byte(random)).collect();
        let out = eval::packet(&program, &bytes);
        let _ = writeln!(script, "packet {} {}", PORTS.0, hex(&bytes));
        let _ = writeln!(script, "expect {} {} $", PORTS.1, hex(&out));
    }
    Made { source: print::program(&program, PORTS.1), script }
}

/// Few different ones, so that keys and conditions are met.
fn byte(random: &mut Random) -> u8 {
    match random.below(3) {
        0 => random.below(4) as u8,
        1 => 0_u8.wrapping_sub(random.below(3) as u8),
        _ => random.bits() as u8,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Program {
    /// What a parser may take of a packet at most.
    fn bytes(&self) -> usize {
        let bits = |fields: &[tree::Variable]| fields.iter().map(|one| one.ty.bits()).sum::<u32>();
        (bits(&self.first) + bits(&self.second)) as usize / 8 + tree::ELEMENTS
    }
}
