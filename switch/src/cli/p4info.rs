//! `p4info`, `pack` and `convert`: a program in the formats of other tools.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use prost::Message;
use wireyard_pipeline::ast::print::units_with_places;
use wireyard_pipeline::bmv2::is_bmv2;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::source::{Loader, Parsed, is_p4, p4_info};

use super::args::{ConvertArgs, P4InfoArgs, P4InfoFormat, PackArgs, ProgramArgs};
use super::load::{load, load_from, show};
use super::{Status, complain, note_written, print, say};
use crate::library::LIBRARIES;
use crate::p4runtime::{info, p4_source, pack as packed, proto};
use crate::program::Place;

pub(super) fn run(args: &P4InfoArgs) -> Status {
    let info = if is_p4(&args.program.program) {
        of_source(&args.program)
    } else {
        load(&args.program).map(|loaded| info::p4info(&loaded.program))
    };
    let Some(info) = info else { return Status::Wrong };
    let bytes = match args.format {
        P4InfoFormat::Text => proto::p4info_text(&info).into_bytes(),
        P4InfoFormat::Json => proto::p4info_json(&info).into_bytes(),
        P4InfoFormat::Binary => info.encode_to_vec(),
    };
    let is_text = args.format != P4InfoFormat::Binary;
    write(args.output.as_deref(), &bytes, is_text)
}

/// The P4Info of a source in P4, as p4c makes it. `None`: the errors were shown.
fn of_source(args: &ProgramArgs) -> Option<proto::p4::config::v1::P4Info> {
    let loader = Loader::new(args.sources.include.clone(), LIBRARIES);
    let loader = loader.with_defines(args.sources.defines.clone());
    match p4_info(&args.program, &loader) {
        Ok(Some(info)) => Some(p4_source::p4info(&info)),
        Ok(None) => {
            let path = args.program.display();
            complain(&format!("{path} has no P4Info: `main` is no V1Switch and no PSA_Switch"));
            None
        }
        Err(Rejected { diagnostics, files }) => {
            show(&diagnostics, &files);
            complain(&diagnostics.summary());
            None
        }
    }
}

pub(super) fn pack(args: &PackArgs) -> Status {
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    match args.output.extension() {
        Some(end) if end == "json" => {
            write(Some(&args.output), packed::pack_json(&loaded.parsed).as_bytes(), true)
        }
        _ => write(Some(&args.output), &packed::pack(&loaded.parsed), false),
    }
}

/// A program in P4 as YAML. It is checked first, so that the output can be run.
pub(super) fn convert(args: &ConvertArgs) -> Status {
    let is_json = || std::fs::read_to_string(&args.program).is_ok_and(|text| is_bmv2(&text));
    if !is_p4(&args.program) && !is_json() {
        let path = args.program.display();
        complain(&format!(
            "{path} is not a program in P4: convert reads NAME.p4, or the JSON that p4c makes of it for bmv2, and writes YAML"
        ));
        return Status::Wrong;
    }
    let place = Place {
        program: args.program.clone(),
        include: args.sources.include.clone(),
        defines: args.sources.defines.clone(),
        no_entries: true,
        ..Place::default()
    };
    let Some(loaded) = load_from(&place) else { return Status::Wrong };
    let Parsed { units, files, .. } = &loaded.parsed;
    write(args.output.as_deref(), units_with_places(units, files).as_bytes(), true)
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
