//! Programs, P4 sources, configurations, scenarios and packet tests: read and checked whatever they say; what is accepted runs.

use std::collections::BTreeMap;
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
use super::text::{base, text};
use crate::capture::files;
use crate::{scripts, workspace_root};

/// What the state of a program may take: two devices have one each.
const STATE_BYTES_MAX: u64 = 32 << 20;
/// Packets into an accepted program: those of the tests of the program that it was made from, at most, and lengths of others.
const OWN_MOST: usize = 20;
const LENGTHS: [usize; 4] = [14, 60, 128, 400];

/// Files that are kept with their texts, in the order of their names; `least` of them at least.
fn found(
    folder: &Path,
    keep: impl Fn(&Path, &str) -> bool,
    least: usize,
) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = files(folder, &["yaml", "p4", "stf"]);
    paths.sort();
    let text = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        // One program of the collection has a byte that is no UTF-8.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        keep(&path, &text).then_some((path, text))
    };
    let found: Vec<_> = paths.into_iter().filter_map(text).collect();
    assert!(found.len() >= least, "{} texts in {}", found.len(), folder.display());
    found
}

/// The texts alone.
fn read(folder: &Path, keep: impl Fn(&Path, &str) -> bool, least: usize) -> Vec<String> {
    found(folder, keep, least).into_iter().map(|(_, text)| text).collect()
}

/// What the tests of a program send. A program with a few random changes still parses most of it.
#[derive(Debug, Default)]
struct Traffic {
    links: BTreeMap<u16, LinkType>,
    packets: Vec<(u16, Vec<u8>)>,
}

impl Traffic {
    /// Of these scripts, some packets of all.
    fn of(scripts: &[PathBuf], mut links: BTreeMap<u16, LinkType>) -> Traffic {
        let mut all = Vec::new();
        for sent in scripts.iter().map(|script| scripts::sent(script)) {
            links.extend(sent.links);
            all.extend(sent.packets);
        }
        let every = all.len().div_ceil(OWN_MOST).max(1);
        let packets: Vec<_> = all.into_iter().step_by(every).collect();
        for (port, _) in &packets {
            links.entry(*port).or_insert(LinkType::Ethernet);
        }
        Traffic { links, packets }
    }
}

/// Programs, each with what its tests send.
struct Programs {
    texts: Vec<String>,
    traffic: Vec<Traffic>,
}

impl Programs {
    fn new(found: Vec<(PathBuf, String)>, traffic: fn(&Path) -> Traffic) -> Programs {
        let traffic = found.iter().map(|(path, _)| traffic(path)).collect();
        Programs { texts: found.into_iter().map(|(_, text)| text).collect(), traffic }
    }

    /// The programs of this project.
    fn own() -> &'static Programs {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let folder = workspace_root().join("programs");
            let found = found(&folder, |path, _| is_named(path, "program.yaml"), 10);
            Programs::new(found, |path| {
                let folder = path.parent().expect("a folder");
                let loaded = load(&Place { program: folder.to_owned(), ..Place::default() });
                let config = loaded.ok().and_then(|loaded| loaded.config);
                let ports = config.into_iter().flat_map(|config| config.ports);
                let links = ports.filter_map(|(number, port)| Some((number.0, port.link?)));
                Traffic::of(&scripts::scripts(folder), links.collect())
            })
        })
    }

    /// The P4 sources of the tests, each with the script beside it.
    fn p4() -> &'static Programs {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let folder = workspace_root().join("tests/data");
            Programs::new(found(&folder, |path, _| has_extension(path, "p4"), 3), |path| {
                let script = path.with_extension("stf");
                let scripts: Vec<PathBuf> =
                    script.is_file().then_some(script).into_iter().collect();
                Traffic::of(&scripts, BTreeMap::new())
            })
        })
    }

    /// Does an input.
    fn run(&self, name: &str, data: &[u8]) {
        let traffic = base(data, self.traffic.len()).map(|number| &self.traffic[number]);
        runs(name, &text(data, &self.texts), traffic.unwrap_or(&Traffic::default()));
    }
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
fn runs(name: &str, text: &str, traffic: &Traffic) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("the program is written");
    let max_state = Some(STATE_BYTES_MAX);
    let place = Place { program: path, no_entries: true, max_state, ..Place::default() };
    let loaded = match load(&place) {
        Ok(loaded) => loaded,
        Err(rejected) => return shown(&rejected),
    };
    let mut ports: BTreeMap<u16, LinkType> = (0..3).map(|n| (n, LinkType::Ethernet)).collect();
    ports.extend(&traffic.links);
    let ports: Vec<(u16, LinkType)> = ports.into_iter().collect();
    // More than it may take, or no machine code: refused with a reason.
    let Ok(mut pair) = Pair::new(name, &loaded, &ports) else { return };
    for (port, packet) in &traffic.packets {
        pair.send(*port, packet);
    }
    for len in LENGTHS {
        let packet: Vec<u8> = (0..len).map(|n| (n * 7 % 256) as u8).collect();
        pair.send(1, &packet);
    }
    pair.settle();
}

/// Target `program`.
pub fn program(data: &[u8]) {
    Programs::own().run("fuzz.yaml", data);
}

/// Target `p4`.
pub fn p4(data: &[u8]) {
    Programs::p4().run("fuzz.p4", data);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_sent_what_their_tests_send() {
        for (programs, least) in [(Programs::own(), 15), (Programs::p4(), 30)] {
            let with =
                programs.traffic.iter().filter(|traffic| !traffic.packets.is_empty()).count();
            assert!(with >= least, "{with} of {} programs", programs.texts.len());
        }
    }
}
