//! `p4info`, `pack` and `convert`: a program in the formats of other tools.

use std::path::PathBuf;

use prost::Message;
use wireyard_pipeline::ast::print::units_with_places;
use wireyard_pipeline::bmv2::is_bmv2;
use wireyard_pipeline::check::compile;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::source::{
    CONFIG_BYTES_MAX, Loader, Parsed, is_p4, p4_info, parse_program, read_bytes,
};

use super::args::{ConvertArgs, P4InfoArgs, P4InfoFormat, PackArgs, ProgramArgs};
use super::load::{load, load_from, show};
use super::output::write;
use super::{Status, complain};
use crate::device::externs;
use crate::library::{LIBRARIES, program_path};
use crate::p4runtime::{info, p4_source, pack as packed, proto};
use crate::program::Place;

pub(super) fn run(args: &P4InfoArgs) -> Status {
    let made = if is_p4(&args.program.program) {
        of_source(&args.program)
    } else {
        load(&args.program).map(|loaded| (info::p4info(&loaded.program), loaded.sources()))
    };
    let Some((info, sources)) = made else { return Status::Wrong };
    let bytes = match args.format {
        P4InfoFormat::Text => proto::p4info_text(&info).into_bytes(),
        P4InfoFormat::Json => proto::p4info_json(&info).into_bytes(),
        P4InfoFormat::Binary => info.encode_to_vec(),
    };
    let is_text = args.format != P4InfoFormat::Binary;
    write(args.output.as_deref(), &bytes, is_text, &sources)
}

/// The P4Info of a source in P4, as p4c makes it, and the files that were read. `None`: the errors were shown.
fn of_source(args: &ProgramArgs) -> Option<(proto::p4::config::v1::P4Info, Vec<PathBuf>)> {
    let loader = Loader::new(args.sources.include.clone(), LIBRARIES);
    let loader = loader.with_defines(args.sources.defines.clone());
    match p4_info(&args.program, &loader) {
        Ok((Some(info), files)) => {
            let sources = files.iter().map(|file| file.path.clone());
            Some((p4_source::p4info(&info), sources.chain(args.entries.clone()).collect()))
        }
        Ok((None, _)) => {
            let path = shown(&args.program);
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
    let sources = loaded.sources();
    match args.output.extension() {
        Some(end) if end == "json" => {
            let text = packed::pack_json(&loaded.parsed);
            write(Some(&args.output), text.as_bytes(), true, &sources)
        }
        _ => write(Some(&args.output), &packed::pack(&loaded.parsed), false, &sources),
    }
}

/// A program in P4 as YAML. Both are checked, so that the output can be run.
pub(super) fn convert(args: &ConvertArgs) -> Status {
    let is_json = || read_bytes(&args.program, CONFIG_BYTES_MAX).is_ok_and(|bytes| is_bmv2(&bytes));
    // What cannot be read is reported below.
    let is_there = || program_path(&args.program) != args.program || args.program.exists();
    if !is_p4(&args.program) && !is_json() && is_there() {
        let path = shown(&args.program);
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
    let text = units_with_places(units, files);
    let made = args.program.with_extension("yaml");
    let loader = Loader::in_memory([(made.clone(), text.clone())], LIBRARIES);
    let again = parse_program(&made, &loader).and_then(|parsed| {
        let files = parsed.files.clone();
        compile(&parsed, &externs()).map_err(|diagnostics| Rejected { diagnostics, files })
    });
    if let Err(Rejected { diagnostics, files }) = again {
        show(&diagnostics, &files);
        let path = shown(&args.program);
        complain(&format!(
            "{path} runs, but as YAML it would be no program, as shown: nothing is written; run {path} itself"
        ));
        return Status::Wrong;
    }
    write(args.output.as_deref(), text.as_bytes(), true, &loaded.sources())
}
