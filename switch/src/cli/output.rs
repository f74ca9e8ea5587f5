//! `-o FILE`: a result in a file, or on standard output. Bytes of frames in rows.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::safe::shown;

use super::{Status, complain, note_written, print, say};
use crate::output_file;

/// True for `-`, standard output.
pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a result that was made from `sources` into a file, or to standard output when there is none, or `-`.
pub(super) fn write(
    output: Option<&Path>,
    bytes: &[u8],
    is_text: bool,
    sources: &[PathBuf],
) -> Status {
    match output.filter(|path| !is_standard(path)) {
        Some(path) => match output_file::write(path, bytes, sources) {
            Ok(()) => say(&format!("wrote {}", shown(path))),
            Err(error) => {
                complain(&error.to_string());
                return Status::Wrong;
            }
        },
        None if is_text => print(&String::from_utf8_lossy(bytes)),
        None if io::stdout().is_terminal() => {
            complain("binary output does not go to a terminal: name a file with -o FILE");
            return Status::Wrong;
        }
        None => {
            let mut out = io::stdout().lock();
            note_written(out.write_all(bytes).and_then(|()| out.flush()));
        }
    }
    Status::Success
}

/// Bytes in rows of sixteen, each with its offset.
pub(super) fn hex_rows(bytes: &[u8]) -> String {
    let row = |(n, row): (usize, &[u8])| {
        let digits: Vec<String> = row.iter().map(|b| format!("{b:02x}")).collect();
        format!("  {:04x}  {}\n", n * 16, digits.join(" "))
    };
    bytes.chunks(16).enumerate().map(row).collect()
}
