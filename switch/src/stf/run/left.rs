//! The result of a script: its program, with the entries and in its final state, and its packets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ir::SourceFile;
use wireyard_pipeline::source::{ReadError, read_text};

use super::{How, SCRIPT_BYTES_MAX, Stop, script_ended};
use crate::ports::PortNumber;
use crate::program::{EngineKind, Place};
use crate::stf::script::{ScriptError, Statement, TestPort, parse};

/// The result of a script that passes: its program with the entries, and its packets with line and port, to be run
/// again and again.
pub type Left = (Arc<Generation>, Vec<(usize, PortNumber, Vec<u8>)>);

/// Why a script has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeftError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A line that is no statement.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// An expectation failed.
    #[error("{}:{line}: {report}", shown(.script))]
    Failed {
        /// The script.
        script: PathBuf,
        /// Its line.
        line: usize,
        /// The expectation, and why it failed.
        report: String,
    },
    /// The script or its program cannot be used.
    #[error("{}:{line}: {why}", shown(.script))]
    Malformed {
        /// The script.
        script: PathBuf,
        /// Its line.
        line: usize,
        /// The cause.
        why: String,
    },
}

/// Runs a script and returns its [result](Left).
///
/// # Errors
/// It does not pass.
pub fn left_by(
    path: &Path,
    engine: EngineKind,
    level: u8,
    place: &Place,
) -> Result<Left, LeftError> {
    let text = read_text(path, SCRIPT_BYTES_MAX)?;
    let lines = parse(&text)?;
    let source = &Arc::new(SourceFile::read_from(path, text));
    let how = How { engine, level, place, source, traced: false };
    let script = script_ended(path, &lines, how).map_err(|(line, stop)| {
        let script = path.to_owned();
        match stop {
            Stop::Failed(report) => LeftError::Failed { script, line, report },
            Stop::Malformed(why) => LeftError::Malformed { script, line, why },
        }
    })?;
    let packets = lines.iter().filter_map(|line| match &line.statement {
        Statement::Packet(TestPort::Port(port), bytes) => Some((line.number, *port, bytes.clone())),
        _ => None,
    });
    Ok((script.generation, packets.collect()))
}
