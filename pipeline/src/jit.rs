//! The compiled engine: IR to Cranelift to machine code.
//!
//! It has the same effect on a packet as the interpreter, bit for bit; the interpreter is the definition. A program
//! becomes one module of machine code, which devices with the same program share ([`Codes`]). `plan` decides which code
//! there is, `emit` generates it. Operations without code in the generic form are steps of the interpreter in the
//! middle of the pass, on the same header vector. A traced packet runs entirely in the interpreter.
//!
//! If the system refuses executable memory, the generator does not support the processor, or a program is too large,
//! [`engine`] returns the interpreter and the reason ([`CompileError`]). [`background`] returns an engine that begins
//! with the interpreter and changes to machine code between two bursts once that is compiled.

mod background;
mod codes;
mod compiled;
mod emit;
mod engine;
mod error;
mod listing;
mod plan;
mod prefetch;
mod runtime;
mod vm_context;

#[cfg(test)]
mod tests;

pub use background::{Complain, background};
pub use codes::Codes;
pub use engine::Jit;
pub use error::{Budget, CompileError, NotSupported};
pub use plan::Forms;
pub use prefetch::LEAST_BYTES as PREFETCH_LEAST_BYTES;

use crate::engine::Engine;
use crate::interp::Interp;
use crate::ir::Program;
use crate::passes;
use crate::state::State;
use std::sync::Arc;

/// Options of compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// 0 is generic code, from 1 on there is path-specialised code beside it. 2 optimises it; below that the generator
    /// compiles fast: it takes a third of the time for code that takes up to twice as many instructions.
    pub level: u8,
}

impl Default for Options {
    fn default() -> Options {
        Options { level: 2 }
    }
}

/// The code of a program as text.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The plan: the decisions before code was emitted.
    pub plan: String,
    /// The forms of code, and why others do not exist.
    pub forms: Forms,
    /// Cranelift's IR, with the lines of the program.
    pub clif: String,
    /// Machine code, with the lines of the program.
    pub asm: String,
}

/// The engine of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The interpreter.
    Interp,
    /// The compiled engine, and the interpreter where the system or the program does not allow it.
    #[default]
    Jit,
}

/// An engine for a program, and the reason if it is not of the requested kind. It runs the program after the passes of
/// the level.
pub fn engine(
    program: &Arc<Program>,
    state: &State,
    kind: EngineKind,
    options: Options,
    codes: &Codes,
) -> (Box<dyn Engine>, Option<CompileError>) {
    match kind {
        EngineKind::Interp => {
            let program = Arc::new(passes::optimised(program, options.level));
            (Box::new(Interp::new(program)), None)
        }
        EngineKind::Jit => match codes.engine(program, state, options) {
            Ok(jit) => (Box::new(jit), None),
            Err((refused, program)) => (Box::new(Interp::new(program)), Some(refused)),
        },
    }
}
