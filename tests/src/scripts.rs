//! Packet tests on every engine, and what they send as capture files: a program's own `*.stf` fed to `wireyard replay`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::pcap::{PcapHeader, PcapWriter, RecordToWrite, Timestamp};
use wireyard_switch::ports::LinkType;
use wireyard_switch::ports::capture::number_of;
use wireyard_switch::program::{EngineKind, Loaded, Place, load};
use wireyard_switch::stf::run::{Outcome, run_file};
use wireyard_switch::stf::script::{Statement, TestPort, parse};

use crate::workspace_root;

/// Every program's folder, by name.
pub fn programs() -> Vec<PathBuf> {
    let all = std::fs::read_dir(workspace_root().join("programs")).expect("the programs");
    let folders = all.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = folders.filter(|path| path.join("program.yaml").is_file()).collect();
    found.sort();
    found
}

/// A program's packet tests.
pub fn scripts(program: &Path) -> Vec<PathBuf> {
    crate::capture::files(program, &["stf"])
}

/// A program, read and checked.
///
/// # Panics
/// It has an error.
pub fn loaded(program: &Path) -> Loaded {
    let place = Place { program: program.to_owned(), ..Place::default() };
    load(&place).unwrap_or_else(|error| panic!("{error}"))
}

/// The ports of a program's `switch.yaml`.
pub fn ports(loaded: &Loaded) -> Vec<(u16, LinkType)> {
    let config = loaded.config.as_ref().expect("every program has a switch.yaml");
    config.ports.iter().map(|(n, p)| (n.0, p.link.unwrap_or(LinkType::Ethernet))).collect()
}

/// The packets that a script sends into ports, in its order.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Port and bytes.
    pub packets: Vec<(u16, Vec<u8>)>,
    /// Link types of ports, where the script says them.
    pub links: BTreeMap<u16, LinkType>,
    /// Another entries file than the folder's.
    pub entries: Option<PathBuf>,
}

/// Reads a packet test.
///
/// # Panics
/// It is malformed.
pub fn sent(script: &Path) -> Sent {
    let text = std::fs::read_to_string(script).expect("the script can be read");
    let lines = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let folder = script.parent().expect("a folder");
    let mut found = Sent::default();
    for line in lines {
        match line.statement {
            Statement::Packet(TestPort::Port(port), bytes) => found.packets.push((port.0, bytes)),
            Statement::Link(port, link) => {
                let known = LinkType::ALL.into_iter().find(|known| known.name() == link);
                found.links.insert(port.0, known.expect("a link type"));
            }
            Statement::Entries(file) => found.entries = file.map(|file| folder.join(file)),
            _ => {}
        }
    }
    found
}

/// Writes frames a microsecond apart, beginning with `first_us`.
pub fn write_pcap<'a>(
    path: &Path,
    link: LinkType,
    frames: impl IntoIterator<Item = (u64, &'a [u8])>,
) {
    let file = File::create(path).expect("a file");
    let header = PcapHeader::new(number_of(link));
    let mut writer = PcapWriter::pcap(file, header).expect("a capture");
    for (at_us, data) in frames {
        let time = Timestamp::from_ns(at_us * 1000);
        let wire_len = data.len() as u32;
        let record = RecordToWrite { time, data, wire_len, interface: 0, comment: None };
        writer.write(&record).expect("a record");
    }
    writer.flush().expect("it is written");
}

/// Runs a script on every engine and level.
pub fn passes_everywhere(script: &Path) {
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        for level in 0..=LEVEL_MAX {
            match run_file(script, engine, level, &Place::default()) {
                Outcome::Passed { .. } => {}
                Outcome::Failed(text) | Outcome::Malformed(text) => {
                    panic!("{}, {} at level {level}: {text}", script.display(), engine.name())
                }
            }
        }
    }
}
