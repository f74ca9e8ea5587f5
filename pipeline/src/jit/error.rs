//! Why a program, or a form of it, is not compiled.

use super::plan::{HEADER_SETS_MAX, PATH_OPERATIONS_MAX, PATHS_MAX, STATES_MAX};
use super::vm_context::VALUES_MAX;
use thiserror::Error;

/// Most operations and expressions of a function, with every action where it is used.
pub(super) const OPERATIONS_MAX: usize = 400_000;

/// Most locals of a body. The time and memory of the code generator grow with their number times that of operations.
pub(super) const LOCALS_MAX: usize = 4096;

/// Why a program, or one form of it, has no machine code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The form has no code for something that the program does, or the system does not permit generated code.
    #[error("not supported: {0}")]
    NotSupported(NotSupported),
    /// The code would exceed the limit for one program.
    #[error("over budget: {0}")]
    OverBudget(Budget),
    /// An internal contradiction: a defect of the compiler. In a debug build it panics instead.
    #[error("internal error of the compiler: {0}")]
    Internal(String),
}

/// A feature without code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotSupported {
    /// The system or the processor.
    #[error("{0}")]
    System(String),
    /// Level 0 has generic code only.
    #[error("level 0 has generic code only")]
    Level,
    /// Egress parses every packet again.
    #[error("egress parses again")]
    EgressParser,
    /// There is no parser.
    #[error("the program has no parser")]
    NoParser,
    /// The deparser has something behind the body.
    #[error("the deparser emits something behind the body")]
    AfterBody,
    /// The parser moves its cursor, ends the body early, or reads trailers.
    #[error("the parser moves its cursor, ends the body, or reads a trailer")]
    BodyBounds,
    /// A CRC is verified or written.
    #[error("CRC `{0}` covers the packet")]
    Crc(String),
    /// The parser assigns a header field.
    #[error("the parser assigns a field of a header")]
    ParserAssignment,
    /// An operation that the interpreter does in a step.
    #[error("{0} is a step of the interpreter")]
    Operation(&'static str),
    /// A checksum whose condition is not known on a path.
    #[error("whether checksum `{0}` is in use is not known on a path")]
    ChecksumCondition(String),
    /// A checksum that egress writes into every packet.
    #[error("checksum `{0}` is always computed when the packet leaves")]
    ChecksumAlways(String),
    /// A checksum field that statements assign.
    #[error("the field of checksum `{0}` is assigned")]
    ChecksumAssigned(String),
    /// The input of a checksum has no code.
    #[error("what checksum `{0}` covers has no code")]
    ChecksumInput(String),
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Budget {
    /// Operations of generic code.
    #[error("more than {OPERATIONS_MAX} operations once actions are inlined")]
    Operations,
    /// Locals of a body, or arguments of a call.
    #[error("more than {VALUES_MAX} locals in one body")]
    Locals,
    /// Locals of a body, wherever they are used.
    #[error("more than {LOCALS_MAX} locals are declared in one body")]
    Declared,
    /// States on all parser paths.
    #[error("more than {STATES_MAX} states on all paths through the parser")]
    States,
    /// Different sets of headers.
    #[error("more than {PATHS_MAX} sets of headers behind the parser")]
    Paths,
    /// Operations of all paths.
    #[error("more than {PATH_OPERATIONS_MAX} operations on all paths")]
    PathOperations,
    /// The code generator's own limits.
    #[error("the code generator's limits")]
    Code,
    /// Sets of headers that are emitted on one path. The packets of that path run generic code.
    #[error("more than {HEADER_SETS_MAX} sets of headers leave on a path")]
    HeaderSets,
}

impl From<NotSupported> for CompileError {
    fn from(what: NotSupported) -> CompileError {
        CompileError::NotSupported(what)
    }
}

impl From<Budget> for CompileError {
    fn from(what: Budget) -> CompileError {
        CompileError::OverBudget(what)
    }
}

/// A defect of the compiler: a panic in debug builds, in release builds the interpreter runs the program.
#[cold]
pub(super) fn internal(what: impl std::fmt::Display) -> CompileError {
    debug_assert!(false, "internal error of the compiler: {what}");
    CompileError::Internal(what.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "internal error of the compiler: a contradiction")]
    fn an_internal_error_is_a_panic_in_a_debug_build() {
        internal("a contradiction");
    }

    #[test]
    fn errors_name_their_limit() {
        let paths = CompileError::from(Budget::Paths).to_string();
        assert_eq!(paths, "over budget: more than 48 sets of headers behind the parser");
        let crc = CompileError::from(NotSupported::Crc("icrc".into())).to_string();
        assert_eq!(crc, "not supported: CRC `icrc` covers the packet");
    }
}
