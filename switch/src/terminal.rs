//! The one writer of text for people: standard output and standard error, terminal or pipe.
//!
//! Names, messages and source lines come from files. What a terminal would obey in them is shown as
//! `\u{1b}` instead. Text that has colours of its own is made by the renderer of diagnostics, which
//! has taken everything else out, and by progress lines, which hold numbers only.

use std::io::{self, Write};

use wireyard_pipeline::diag::safe::{escape, escape_json};

/// Writes a result to standard output.
///
/// # Errors
/// What the system says.
pub fn out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(escape(text).as_bytes()).and_then(|()| out.flush())
}

/// Writes JSON to standard output.
///
/// # Errors
/// What the system says.
pub fn out_json(json: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(escape_json(json).as_bytes()).and_then(|()| out.flush())
}

/// Writes a message to standard error. If it is closed, nothing is written, and the run goes on.
pub fn err(text: &str) {
    styled(&escape(text));
}

/// Writes text that may hold colours and cursor movements of our own, and nothing of a file that was not
/// escaped.
pub fn styled(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
