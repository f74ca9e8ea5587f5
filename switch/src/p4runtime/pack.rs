//! Packed programs: a program with everything that it includes, in one blob.
//!
//! The blob is what a controller sends as device configuration (`wireyard.v1.PackedProgram`). It contains texts, not
//! code: the switch that receives it checks and compiles it like a file, so a blob can be invalid but never incomplete.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wireyard_pipeline::bmv2::is_bmv2;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::source::{
    FILES_MAX, Loader, Parsed, Searched, is_p4, parse_bmv2, parse_program,
};

use super::described;
use super::proto::p4::config::v1::P4Info;
use super::proto::wireyard::v1::PackedProgram;
use crate::library::LIBRARIES;

/// The version of the format for programs in YAML.
const FORMAT: u32 = 1;
/// The version of the format for programs in P4.
const FORMAT_P4: u32 = 2;
/// Maximum number of files of a program in P4.
const FILES_MAX_P4: usize = 256;
/// Prefix of the paths of P4's own declarations of architectures.
const EMBEDDED_P4: &str = "<embedded>";
/// Key of the program in a blob in JSON.
const AS_JSON: &str = "wireyard.v1.PackedProgram";
/// Path of the program among the files of a blob.
const PROGRAM: &str = "program.yaml";

/// A byte order mark in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Why a blob is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It is not a packed program.
    #[error(
        "the device configuration is neither the JSON of p4c (`p4c --target bmv2 --arch v1model`) nor what `wireyard pack PROGRAM -o FILE` makes"
    )]
    NotPacked,
    /// It is empty.
    #[error("the device configuration is empty")]
    Empty,
    /// It is JSON, but neither for bmv2 nor a packed program.
    #[error(
        "the device configuration is JSON, and no program for bmv2, nor what `wireyard pack -o X.json` makes: those have `header_types`, `parsers` and `pipelines`, these `{AS_JSON}`"
    )]
    Json,
    /// It begins as JSON does, and has an error of syntax.
    #[error("the device configuration is no valid JSON: {0}")]
    Syntax(serde_json::Error),
    /// It has an unsupported version.
    #[error(
        "the device configuration is a packed program of format {0}; this switch reads formats {FORMAT} and {FORMAT_P4}"
    )]
    Format(u32),
    /// It has more files than a program may have.
    #[error("the packed program has {0} libraries; a program has at most {FILES_MAX} files")]
    TooMany(usize),
    /// The program has errors.
    #[error("the program is rejected:\n{0}")]
    Rejected(Box<Rejected>),
}

/// Packs a parsed program.
pub fn pack(parsed: &Parsed) -> Vec<u8> {
    match pack_or_bmv2(parsed) {
        Ok(packed) => packed.encode_to_vec(),
        Err(bmv2) => bmv2.into_bytes(),
    }
}

/// Like [`pack`], as a JSON document, for controllers that push text, as those of bmv2 do.
pub fn pack_json(parsed: &Parsed) -> String {
    let PackedProgram { format, program, libraries, path, folders, defines } =
        match pack_or_bmv2(parsed) {
            Ok(packed) => packed,
            Err(bmv2) => return bmv2,
        };
    let libraries: BTreeMap<_, _> = libraries.into_iter().collect();
    let packed = json!({
        "format": format, "path": path, "folders": folders, "defines": defines, "program": program, "libraries": libraries,
    });
    format!("{:#}\n", json!({ AS_JSON: packed }))
}

/// Reads a blob made by [`pack_json`]; `None` for other JSON.
fn from_json(bytes: &[u8]) -> Option<PackedProgram> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let Value::Object(packed) = document.get_mut(AS_JSON)?.take() else { return None };
    let text = |name: &str| Some(packed.get(name)?.as_str()?.to_owned());
    let texts = |name: &str| -> Option<Vec<String>> {
        packed.get(name)?.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let library = |(name, text): (&String, &Value)| Some((name.clone(), text.as_str()?.to_owned()));
    Some(PackedProgram {
        format: packed.get("format")?.as_u64()?.try_into().ok()?,
        program: text("program")?,
        libraries: packed
            .get("libraries")?
            .as_object()?
            .iter()
            .map(library)
            .collect::<Option<_>>()?,
        path: text("path")?,
        folders: texts("folders")?,
        defines: texts("defines")?,
    })
}

/// The message; as error the text of a program for bmv2, which includes no files and is its own blob.
fn pack_or_bmv2(parsed: &Parsed) -> Result<PackedProgram, String> {
    let mut files = parsed.files.iter();
    let first = files.next();
    let program = first.map(|file| file.text.clone()).unwrap_or_default();
    if is_bmv2(program.as_bytes()) {
        return Err(program);
    }
    if let Some(file) = first.filter(|file| is_p4(file.name.as_ref())) {
        // Files embedded in the binary are read from there again.
        let included = files.filter(|file| !file.name.starts_with(EMBEDDED_P4));
        let Searched { folders, defines } = &parsed.searched;
        return Ok(PackedProgram {
            format: FORMAT_P4,
            program,
            libraries: included.map(|file| (file.name.clone(), file.text.clone())).collect(),
            path: file.name.clone(),
            folders: folders.iter().map(|folder| shown(folder).into_owned()).collect(),
            defines: defines.iter().map(|(name, text)| format!("{name}={text}")).collect(),
        });
    }
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into());
    let libraries: BTreeMap<String, String> =
        files.filter_map(|file| Some((stem(&file.name)?, file.text.clone()))).collect();
    let libraries = libraries.into_iter().collect();
    Ok(PackedProgram { format: FORMAT, program, libraries, ..Default::default() })
}

/// Reads a packed program, or the JSON that p4c writes for bmv2; [`wireyard_pipeline::check::compile_within`] comes
/// next. `given` is the P4Info sent with it, which a program for bmv2 takes over.
///
/// # Errors
/// It is neither, or cannot be read.
pub fn unpack(blob: &[u8], given: Option<&P4Info>) -> Result<Parsed, PackError> {
    if blob.is_empty() {
        return Err(PackError::Empty);
    }
    // Controllers for bmv2 wrap the configuration in a message.
    let wrapped = P4DeviceConfig::decode(blob).map(|config| config.device_data);
    let inner = wrapped.unwrap_or_default();
    for bytes in [blob, &inner] {
        let bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
        if bytes.trim_ascii_start().starts_with(b"{") {
            return match from_json(bytes) {
                Some(packed) => unpack_message(packed),
                None => bmv2(bytes, given),
            };
        }
    }
    unpack_message(packed(blob).or_else(|| packed(&inner)).ok_or(PackError::NotPacked)?)
}

fn unpack_message(packed: PackedProgram) -> Result<Parsed, PackError> {
    if packed.format == FORMAT_P4 && is_p4(packed.path.as_ref()) {
        return unpack_p4(packed);
    }
    if packed.format != FORMAT {
        return Err(PackError::Format(packed.format));
    }
    if packed.libraries.len() >= FILES_MAX {
        return Err(PackError::TooMany(packed.libraries.len()));
    }
    let library = |(name, text): (String, String)| (PathBuf::from(format!("{name}.yaml")), text);
    let files = packed.libraries.into_iter().map(library);
    let loader = Loader::in_memory(files.chain([(PROGRAM.into(), packed.program)]), LIBRARIES);
    parse_program(Path::new(PROGRAM), &loader).map_err(|why| PackError::Rejected(Box::new(why)))
}

/// True if a blob is the JSON of a program for bmv2, bare or wrapped.
pub fn is_json(blob: &[u8]) -> bool {
    let inner = P4DeviceConfig::decode(blob).map(|config| config.device_data);
    is_bmv2(blob) || inner.is_ok_and(|inner| is_bmv2(&inner))
}

/// Most characters of a name that JSON gives its program.
const NAME_MAX: usize = 64;

/// Path of the JSON in messages, whose stem is the name of the program: that of the source where p4c wrote it.
fn json_path(bytes: &[u8]) -> PathBuf {
    #[derive(serde::Deserialize)]
    struct Named {
        program: PathBuf,
    }
    let named = serde_json::from_slice::<Named>(bytes).ok();
    let stem = named.as_ref().and_then(|named| named.program.file_stem()?.to_str());
    let is_name = |stem: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        stem.len() <= NAME_MAX
            && stem.chars().all(is_part)
            && !stem.starts_with(|c: char| c.is_ascii_digit())
    };
    format!("{}.json", stem.filter(is_name).unwrap_or("device_config")).into()
}

fn bmv2(bytes: &[u8], given: Option<&P4Info>) -> Result<Parsed, PackError> {
    if !is_bmv2(bytes) {
        let read = serde_json::from_slice::<IgnoredAny>(bytes);
        return Err(read.err().map_or(PackError::Json, PackError::Syntax));
    }
    let path = json_path(bytes);
    let loader = Loader::in_memory([(path.clone(), bytes)], LIBRARIES);
    let given = given.filter(|given| **given != P4Info::default()).map(described::info);
    parse_bmv2(&path, &loader, given.as_ref()).map_err(|why| PackError::Rejected(Box::new(why)))
}

/// The message, if the blob is one.
fn packed(blob: &[u8]) -> Option<PackedProgram> {
    let packed = PackedProgram::decode(blob).ok()?;
    (packed.format != 0 && !packed.program.is_empty()).then_some(packed)
}

/// p4.tmp.P4DeviceConfig, only the field that is read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Reads only the files of the blob: folders of the machine are not searched.
fn unpack_p4(packed: PackedProgram) -> Result<Parsed, PackError> {
    if packed.libraries.len() >= FILES_MAX_P4 {
        return Err(PackError::TooMany(packed.libraries.len()));
    }
    let files = packed.libraries.into_iter().chain([(packed.path.clone(), packed.program)]);
    let define = |text: &String| {
        let (name, text) = text.split_once('=')?;
        Some((name.to_owned(), text.to_owned()))
    };
    let loader = Loader::in_memory(files, LIBRARIES)
        .with_folders(packed.folders.into_iter().map(PathBuf::from).collect())
        .with_defines(packed.defines.iter().filter_map(define).collect());
    parse_program(Path::new(&packed.path), &loader)
        .map_err(|why| PackError::Rejected(Box::new(why)))
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::ast::print;

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
        for blob in [blob, pack_json(&parsed).into_bytes()] {
            let unpacked = unpack(&blob, None).unwrap();
            assert_eq!(unpacked.units.len(), 2);
            assert_eq!(unpacked.files.iter().nth(1).unwrap().text, files[1].1);
        }
    }

    #[test]
    fn a_packed_p4_program_brings_its_files_folders_and_macros() {
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
        let text = text.replace("struct M { }", "#include \"types.p4\"\n#include <more.p4>");
        let files = [
            ("p/main.p4", text.as_str()),
            ("p/types.p4", "struct M { }"),
            ("inc/more.p4", "const bit<8> MORE = VALUE;"),
        ];
        let loader = Loader::in_memory(files, LIBRARIES)
            .with_defines(defines)
            .with_folders(vec!["inc".into()]);
        let parsed = parse_program(Path::new("p/main.p4"), &loader).unwrap();
        let origin = |parsed: &Parsed| parsed.units[0].origin.clone().expect("names of P4");
        for blob in [pack(&parsed), pack_json(&parsed).into_bytes()] {
            let unpacked = unpack(&blob, None).unwrap();
            assert_eq!(print::units(&unpacked.units), print::units(&parsed.units));
            assert_eq!(origin(&unpacked), origin(&parsed));
            assert!(!is_json(&blob), "it is no program for bmv2");
        }
    }

    #[test]
    fn json_of_p4c_has_the_name_of_its_source() {
        for (text, path) in [
            (r#"{ "program": "build/basic.p4", "parsers": [] }"#, "basic.json"),
            (r#"{ "program": "two words.p4" }"#, "device_config.json"),
            (r#"{ "program": 7 }"#, "device_config.json"),
            ("{}", "device_config.json"),
        ] {
            assert_eq!(json_path(text.as_bytes()), Path::new(path), "{text}");
        }
    }

    #[test]
    fn what_is_no_packed_program_is_refused_with_the_reason() {
        assert!(matches!(unpack(b"", None), Err(PackError::Empty)));
        let why = unpack(b"#include <v1model.p4>", None).unwrap_err().to_string();
        assert!(why.contains("p4c") && why.contains("wireyard pack"), "{why}");
        assert!(matches!(unpack(b"\xff\xff", None), Err(PackError::NotPacked)));
        assert!(matches!(unpack(b" {\"header_types\": []}", None), Err(PackError::Json)));
        let json = br#"{"header_types": [], "parsers": [], "pipelines": []}"#;
        assert!(is_json(json) && matches!(unpack(json, None), Err(PackError::Rejected(_))));
        let why = unpack(b"{\"a\": [],\n}", None).unwrap_err().to_string();
        assert!(why.contains("no valid JSON") && why.contains("line 2 column 1"), "{why}");
        let wrap = |bytes: &[u8]| P4DeviceConfig { device_data: bytes.to_vec() }.encode_to_vec();
        assert!(matches!(unpack(&wrap(b"{}"), None), Err(PackError::Json)));
        let small = PackedProgram {
            format: 1,
            program: "pipeline: small\ningress: [ drop ]\n".into(),
            ..Default::default()
        };
        // The wrapper's field `reassign` could be taken for a format.
        let wrapped = [&[8, 1][..], &wrap(&small.encode_to_vec())].concat();
        assert_eq!(unpack(&wrapped, None).unwrap().units.len(), 1);
        let later = PackedProgram { format: 3, program: "x".into(), ..Default::default() };
        assert!(matches!(unpack(&later.encode_to_vec(), None), Err(PackError::Format(3))));
        let wrong =
            PackedProgram { format: 1, program: "pipeline: [".into(), ..Default::default() };
        let why = unpack(&wrong.encode_to_vec(), None).unwrap_err().to_string();
        assert!(why.contains("program.yaml:1"), "{why}");
    }
}
