//! Packed programs: a program with everything that it includes, in one blob.
//!
//! The blob is what a controller sends as device configuration (`wireyard.v1.PackedProgram`). It holds texts, not code: the
//! switch that gets it checks and compiles it as it does a file, so a blob can be wrong and never half of a program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use wireyard_pipeline::ast::print;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::source::{FILES_MAX, Loader, Parsed, parse_program};

use super::proto::wireyard::v1::PackedProgram;
use crate::library::LIBRARIES;

/// The version of the format.
const FORMAT: u32 = 1;
/// Where the program lies among the files of a blob.
const PROGRAM: &str = "program.yaml";

/// Why a blob is no program.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It is no packed program at all.
    #[error(
        "the device configuration is no packed program; make one with `wireyard pack PROGRAM -o FILE`"
    )]
    NotPacked,
    /// It is of another version.
    #[error(
        "the device configuration is a packed program of format {0}; this switch reads format {FORMAT}"
    )]
    Format(u32),
    /// It has more files than a program may have.
    #[error("the packed program has {0} libraries; a program has at most {FILES_MAX} files")]
    TooMany(usize),
    /// The program is wrong.
    #[error("the program is rejected:\n{0}")]
    Rejected(Box<Rejected>),
}

/// Packs a program that could be read. Of one in P4, the YAML that it becomes: includes and macros are done.
pub fn pack(parsed: &Parsed) -> Vec<u8> {
    let name = parsed.files.iter().next().map(|file| Path::new(&file.name));
    if name.is_some_and(|name| name.extension().is_some_and(|end| end.eq_ignore_ascii_case("p4"))) {
        let program = print::units(&parsed.units);
        return PackedProgram { format: FORMAT, program, ..Default::default() }.encode_to_vec();
    }
    let mut files = parsed.files.iter();
    let program = files.next().map(|file| file.text.clone()).unwrap_or_default();
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into());
    let libraries: BTreeMap<String, String> =
        files.filter_map(|file| Some((stem(&file.name)?, file.text.clone()))).collect();
    PackedProgram { format: FORMAT, program, libraries: libraries.into_iter().collect() }
        .encode_to_vec()
}

/// Reads a packed program; [`wireyard_pipeline::check::compile_within`] comes next.
///
/// # Errors
/// It is none, or cannot be read.
pub fn unpack(blob: &[u8]) -> Result<Parsed, PackError> {
    let packed = PackedProgram::decode(blob).map_err(|_| PackError::NotPacked)?;
    if packed.format != FORMAT {
        let is_none = packed.format == 0 || packed.program.is_empty();
        return Err(if is_none { PackError::NotPacked } else { PackError::Format(packed.format) });
    }
    if packed.libraries.len() >= FILES_MAX {
        return Err(PackError::TooMany(packed.libraries.len()));
    }
    let library = |(name, text): (String, String)| (PathBuf::from(format!("{name}.yaml")), text);
    let files = packed.libraries.into_iter().map(library);
    let loader = Loader::in_memory(files.chain([(PROGRAM.into(), packed.program)]), LIBRARIES);
    parse_program(Path::new(PROGRAM), &loader).map_err(|why| PackError::Rejected(Box::new(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_program_brings_its_libraries() {
        let files = [
            ("p/main.yaml", "pipeline: demo\ninclude: [mine]\ningress: [ drop ]\n"),
            ("p/mine.yaml", "library: mine\nconst: { A: 1 }\n"),
        ];
        let parsed = parse_program(Path::new("p/main.yaml"), &Loader::in_memory(files, LIBRARIES));
        let parsed = parsed.unwrap();
        let blob = pack(&parsed);
        assert_eq!(blob, pack(&parsed), "the same program gives the same bytes");
        let unpacked = unpack(&blob).unwrap();
        assert_eq!(unpacked.units.len(), 2);
        assert_eq!(unpacked.files.iter().nth(1).unwrap().text, files[1].1);
    }

    #[test]
    fn a_packed_p4_program_is_the_yaml_that_it_becomes() {
        let text = "#include <v1model.p4>
header h_t { bit<8> f; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { h.h.f = VALUE; s.egress_spec = 2; } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";
        let defines = vec![("VALUE".to_owned(), "77".to_owned())];
        let loader = Loader::in_memory([("p/main.p4", text)], LIBRARIES).with_defines(defines);
        let parsed = parse_program(Path::new("p/main.p4"), &loader).unwrap();
        let unpacked = unpack(&pack(&parsed)).unwrap();
        assert_eq!(print::units(&unpacked.units), print::units(&parsed.units));
    }

    #[test]
    fn what_is_no_packed_program_is_refused_with_the_reason() {
        assert!(matches!(unpack(b""), Err(PackError::NotPacked)));
        assert!(matches!(unpack(b"\xff\xff"), Err(PackError::NotPacked)));
        let later = PackedProgram { format: 2, program: "x".into(), ..Default::default() };
        assert!(matches!(unpack(&later.encode_to_vec()), Err(PackError::Format(2))));
        let wrong =
            PackedProgram { format: 1, program: "pipeline: [".into(), ..Default::default() };
        let why = unpack(&wrong.encode_to_vec()).unwrap_err().to_string();
        assert!(why.contains("program.yaml:1"), "{why}");
    }
}
