//! The only writer of text output: standard output and standard error, terminal or pipe.
//!
//! Names, messages and source lines come from files. Characters in them that a terminal would interpret are shown as
//! `\u{1b}` instead. Text with colours comes only from the renderer of diagnostics, which has removed everything else,
//! and from progress lines, which have only numbers.

use std::io::{self, Write};

use wireyard_pipeline::diag::safe::{escape, escape_json};

/// Writes a result to standard output.
///
/// # Errors
/// The operating system's error.
pub fn out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(escape(text).as_bytes()).and_then(|()| out.flush())
}

/// Writes JSON to standard output.
///
/// # Errors
/// The operating system's error.
pub fn out_json(json: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(escape_json(json).as_bytes()).and_then(|()| out.flush())
}

/// Writes a message to standard error. If it is closed, nothing is written, and the run continues.
pub fn err(text: &str) {
    styled(&escape(text));
}

/// Writes text that may have our own colours and cursor movements; text of files in it must be escaped.
pub fn styled(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
