//! Programs, P4 sources, configurations, scenarios and packet tests: read and checked whatever they say; what is accepted runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use wireyard_pipeline::diag::{Diagnostics, Files, Rejected};
use wireyard_pipeline::source::Loader;
use wireyard_switch::config::SwitchConfig;
use wireyard_switch::lab::scenario as lab;
use wireyard_switch::library::LIBRARIES;
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{Place, load};
use wireyard_switch::stf::script;

use super::devices::Pair;
use super::text::text;
use crate::capture::files;
use crate::workspace_root;

/// What the state of a program may take: two devices have one each.
const STATE_BYTES_MAX: u64 = 32 << 20;
/// Packets into an accepted program: lengths of them.
const LENGTHS: [usize; 4] = [14, 60, 128, 400];

/// Texts of these files, in the order of their names; `least` of them at least.
fn read(folder: &Path, keep: impl Fn(&Path, &str) -> bool, least: usize) -> Vec<String> {
    let mut paths: Vec<PathBuf> = files(folder, &["yaml", "p4", "stf"]);
    paths.sort();
    let text = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        // One program of the collection has a byte that is no UTF-8.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        keep(&path, &text).then_some(text)
    };
    let found: Vec<String> = paths.into_iter().filter_map(text).collect();
    assert!(found.len() >= least, "{} texts in {}", found.len(), folder.display());
    found
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|found| found == name)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// A rejection can be shown, and says something.
fn shown(rejected: &Rejected) {
    assert!(rejected.diagnostics.has_errors(), "rejected without an error");
    assert!(!rejected.to_string().is_empty());
}

/// A program that is accepted runs on both engines, which agree.
fn runs(name: &str, text: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("the program is written");
    let max_state = Some(STATE_BYTES_MAX);
    let place = Place { program: path, no_entries: true, max_state, ..Place::default() };
    let loaded = match load(&place) {
        Ok(loaded) => loaded,
        Err(rejected) => return shown(&rejected),
    };
    let ports: Vec<(u16, LinkType)> = (0..3).map(|n| (n, LinkType::Ethernet)).collect();
    // More than it may take, or no machine code: refused with a reason.
    let Ok(mut pair) = Pair::new(name, &loaded, &ports) else { return };
    for len in LENGTHS {
        let packet: Vec<u8> = (0..len).map(|n| (n * 7 % 256) as u8).collect();
        pair.send(1, &packet);
    }
    pair.settle();
}

/// Target `program`.
pub fn program(data: &[u8]) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let folder = workspace_root().join("programs");
        read(&folder, |path, _| is_named(path, "program.yaml"), 10)
    });
    runs("fuzz.yaml", &text(data, texts));
}

/// Target `p4`.
pub fn p4(data: &[u8]) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let folder = workspace_root().join("tests/data");
        read(&folder, |path, _| has_extension(path, "p4"), 3)
    });
    runs("fuzz.p4", &text(data, texts));
}

/// Target `config`: switch.yaml.
pub fn config(data: &[u8]) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let folder = workspace_root().join("programs");
        let mut found = read(&folder, |_, text| text.contains("\nports:"), 5);
        // The one on the page has nearly all keys.
        let page = fs::read_to_string(folder.join("switch.md")).expect("the page");
        found.extend(
            page.split("```yaml\n")
                .skip(1)
                .filter_map(|t| t.split("```").next())
                .map(str::to_owned),
        );
        found
    });
    let text = text(data, texts);
    let path = PathBuf::from("switch.yaml");
    let loader = Loader::in_memory([(path.clone(), text.as_str())], LIBRARIES);
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    let config = SwitchConfig::read(&path, &loader, &mut files, &mut found);
    let Some(config) = config.filter(|_| !found.has_errors()) else {
        return shown(&Rejected { diagnostics: found, files });
    };
    let numbers: Vec<_> = config.ports.keys().copied().chain([1, 2].map(PortNumber)).collect();
    let _ = (config.queues(&numbers), config.check_generators(&numbers));
}

/// Target `scenario`.
pub fn scenario(data: &[u8]) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        read(&workspace_root().join("programs/lab"), |path, _| has_extension(path, "yaml"), 10)
    });
    let text = text(data, texts);
    let path = PathBuf::from("scenario.yaml");
    let loader = Loader::in_memory([(path.clone(), text.as_str())], LIBRARIES);
    if let Err(rejected) = lab::read(&path, &loader) {
        shown(&rejected);
    }
}

/// Target `stf`.
pub fn stf(data: &[u8]) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        read(&workspace_root().join("programs"), |path, _| has_extension(path, "stf"), 20)
    });
    if let Err(error) = script::parse(&text(data, texts)) {
        assert!(!error.to_string().is_empty());
    }
}
