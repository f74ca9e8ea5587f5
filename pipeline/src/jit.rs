//! The compiled engine: IR to Cranelift to machine code.
//!
//! It has the same effect on a packet as the interpreter, bit for bit; the interpreter is the definition. A program
//! becomes one module of machine code, which devices with the same program share ([`Codes`]). `plan` decides which code
//! there is, `emit` generates it. Operations without code in the generic form are steps of the interpreter in the
//! middle of the pass, on the same header vector. A traced packet runs entirely in the interpreter.
//!
//! If the system refuses executable memory, the generator does not support the processor, or a program is too large,
//! [`Codes::engine`] returns the reason ([`CompileError`]), and the caller decides whether the interpreter runs it. [`background`] returns an engine that begins
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
