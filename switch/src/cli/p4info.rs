//! `p4info` and `pack`: a program as a P4Runtime controller wants it.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use prost::Message;

use super::args::{P4InfoArgs, P4InfoFormat, PackArgs};
use super::load::load;
use super::{Status, complain, note_written, print, say};
use crate::p4runtime::{info, pack as packed, proto};

pub(super) fn run(args: &P4InfoArgs) -> Status {
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    let info = info::p4info(&loaded.program);
    let bytes = match args.format {
        P4InfoFormat::Text => proto::p4info_text(&info).into_bytes(),
        P4InfoFormat::Json => proto::p4info_json(&info).into_bytes(),
        P4InfoFormat::Binary => info.encode_to_vec(),
    };
    let is_text = args.format != P4InfoFormat::Binary;
    write(args.output.as_deref(), &bytes, is_text)
}

pub(super) fn pack(args: &PackArgs) -> Status {
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    write(Some(&args.output), &packed::pack(&loaded.parsed), false)
}

/// Writes to a file, or to standard output.
fn write(output: Option<&Path>, bytes: &[u8], is_text: bool) -> Status {
    match output.filter(|path| *path != Path::new("-")) {
        Some(path) => match std::fs::write(path, bytes) {
            Ok(()) => say(&format!("wrote {}", path.display())),
            Err(error) => {
                complain(&format!("{}: {error}", path.display()));
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
