//! Kinds of YAML files, for commands that are given a file of another kind than they read.
//!
//! A file is known by a key that only its kind has, at the beginning of a line. Not a check: the readers of each kind
//! check their files; this replaces a list of unknown keys by one error that names the command for the file.

use std::collections::BTreeSet;
use std::path::Path;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostic, Diagnostics, Files, Rejected, codes};
use wireyard_pipeline::source::{CONFIG_BYTES_MAX, Loader, is_p4};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Program,
    Scenario,
    Study,
    RateControl,
    Entries,
    SwitchConfig,
    /// Known by its extension: it is no YAML.
    PacketTest,
}

impl FileKind {
    /// Keys by which each is known, those that every file of the kind has before those that most have.
    const KEYS: [(&str, FileKind); 8] = [
        ("pipeline", FileKind::Program),
        ("library", FileKind::Program),
        ("lab", FileKind::Scenario),
        ("study", FileKind::Study),
        ("rate_control", FileKind::RateControl),
        ("program", FileKind::SwitchConfig),
        ("ports", FileKind::SwitchConfig),
        ("entries", FileKind::Entries),
    ];

    pub(crate) fn of(text: &str) -> Option<FileKind> {
        let keys: BTreeSet<&str> =
            text.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
        FileKind::KEYS.iter().find(|(key, _)| keys.contains(key)).map(|(_, kind)| *kind)
    }

    fn what(self) -> &'static str {
        match self {
            FileKind::Program => "a program",
            FileKind::Scenario => "a scenario of the laboratory",
            FileKind::Study => "a study of the laboratory",
            FileKind::RateControl => "a rate control",
            FileKind::Entries => "a file of table entries",
            FileKind::SwitchConfig => "a switch configuration",
            FileKind::PacketTest => "a packet test",
        }
    }

    /// The commands for a file of this kind.
    fn use_of(self, path: &str) -> String {
        match self {
            FileKind::Program => {
                format!(
                    "`wireyard check {path}` checks it; a scenario names it by `switch: {{ program: {path} }}`"
                )
            }
            FileKind::Scenario => {
                format!("`wireyard lab {path}` runs it, `wireyard lab --check {path}` checks it")
            }
            FileKind::Study => format!("`wireyard lab sweep {path}` runs it"),
            FileKind::RateControl => {
                format!(
                    "`wireyard check {path}` checks it; a scenario names it by `host: {{ rate_control: {path} }}`"
                )
            }
            FileKind::Entries => {
                format!("name the program, and `--entries {path}` where it is not in its folder")
            }
            FileKind::SwitchConfig => {
                format!("name the program, and `--config {path}` where it is not in its folder")
            }
            FileKind::PacketTest => format!("`wireyard test {path}` runs it"),
        }
    }
}

/// The errors of a file: one error that names its kind if it is a YAML file of another kind than `wanted`, otherwise
/// `errors`. P4 has labels and comments that look like keys.
pub(crate) fn or_kind(
    path: &Path,
    loader: &Loader,
    wanted: FileKind,
    errors: Rejected,
) -> Rejected {
    if is_p4(path) {
        return errors;
    }
    let text =
        loader.read(path, CONFIG_BYTES_MAX).ok().and_then(|read| String::from_utf8(read).ok());
    let kind = match path.extension() {
        Some(extension) if extension == "stf" => Some(FileKind::PacketTest),
        _ => text.and_then(|text| FileKind::of(&text)),
    };
    let Some(kind) = kind.filter(|kind| *kind != wanted) else { return errors };
    let path = shown(path).into_owned();
    let message = format!("{path} is {}, not {}", kind.what(), wanted.what());
    let mut other = Diagnostic::new(codes::MISSING_KEY, None, message);
    other.help(kind.use_of(&path));
    let mut diagnostics = Diagnostics::new();
    diagnostics.push(other);
    Rejected { diagnostics, files: Files::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_a_key_of_its_kind() {
        for (text, kind) in [
            ("# comment\n\n---\nabout: x\nlab: incast\n", Some(FileKind::Scenario)),
            ("entries: entries.yaml\nports: { 1: {} }\n", Some(FileKind::SwitchConfig)),
            ("study: s\nscenario: a.yaml\n", Some(FileKind::Study)),
            ("pipeline: p\n", Some(FileKind::Program)),
            ("labor: x\n", None),
            ("  lab: x\n", None),
            ("", None),
        ] {
            assert_eq!(FileKind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn a_p4_program_is_of_no_other_kind() {
        let text = "/*\nprogram: a router\n*/\nconst bit<8> X = y;\n";
        for (path, is_known) in [("router.p4", false), ("router.yaml", true), ("t.stf", true)] {
            let loader = Loader::in_memory([(path, text.to_owned())], &[]);
            let errors = Rejected { diagnostics: Diagnostics::new(), files: Files::new() };
            let found = or_kind(path.as_ref(), &loader, FileKind::Program, errors);
            assert_eq!(!found.diagnostics.is_empty(), is_known, "{path}: {found}");
        }
    }
}
