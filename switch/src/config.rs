//! `switch.yaml`: which program a switch runs, with which entries, on which ports.

pub mod qos;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::{Diagnostics, Files, codes};
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::shape::{MapShape, Shape, key};
use wireyard_pipeline::source::{Loader, read_yaml};

use crate::ports::LinkType;

static SWITCH: MapShape = MapShape {
    name: "switch",
    what: "a switch configuration",
    keys: &[
        key("program", Shape::Text, "The program, relative to this file."),
        key("entries", Shape::Text, "The entries file, relative to this file."),
        key("ports", Shape::MapOf(&Shape::Map(&PORT)), "Ports by number."),
    ],
};

static PORT: MapShape = MapShape {
    name: "port",
    what: "a port",
    keys: &[
        key(
            "interface",
            Shape::Text,
            "What it is when the command line names no ports: `veth0`, `tap:tap0`.",
        ),
        key("link", Shape::Choice(LINKS), "What its frames are; `ethernet` when absent."),
    ],
};

const LINKS: &[&str] = &["ethernet", "infiniband", "opa", "erf"];

/// A port of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredPort {
    /// Its specification without the number, if it has one.
    pub interface: Option<String>,
    /// What its frames are.
    pub link: Option<LinkType>,
}

/// A switch configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The program, if it is named.
    pub program: Option<PathBuf>,
    /// The entries file, if it is named.
    pub entries: Option<PathBuf>,
    /// Ports by number.
    pub ports: BTreeMap<u16, ConfiguredPort>,
}

impl SwitchConfig {
    /// Reads a configuration; its text is added to `files`. `None`: the errors are in `found`.
    pub fn read(
        path: &Path,
        loader: &Loader,
        files: &mut Files,
        found: &mut Diagnostics,
    ) -> Option<SwitchConfig> {
        let before = found.counts().0;
        let node = read_yaml(path, loader, files, found)?;
        let mut decoder = Decoder::new(files, found);
        let mut config = SwitchConfig::default();
        if node.kind != NodeKind::Null {
            let fields = decoder.map(&node, &SWITCH)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut file = |name| {
                let word = fields.get(name).and_then(|node| decoder.word(node))?;
                Some(folder.join(word.value))
            };
            config.program = file("program");
            config.entries = file("entries");
            if let Some(ports) = fields.get("ports") {
                config.ports = read_ports(&mut decoder, ports)?;
            }
        }
        (found.counts().0 == before).then_some(config)
    }
}

fn read_ports(decoder: &mut Decoder<'_>, node: &Node) -> Option<BTreeMap<u16, ConfiguredPort>> {
    let mut ports = BTreeMap::new();
    for (key, value) in decoder.pairs(node, "ports by number")? {
        let Ok(number) = key.scalar.text.parse::<u16>() else {
            let message = format!("`{}` is not a port number", key.scalar.text);
            decoder.diagnostics.error(codes::WRONG_TYPE, key.span, message);
            continue;
        };
        let Some(fields) = decoder.map(value, &PORT) else { continue };
        let interface = fields.get("interface").and_then(|node| decoder.word(node));
        let link = fields.get("link").and_then(|node| decoder.choice(node, LINKS));
        let link = link.and_then(|link| LinkType::ALL.into_iter().find(|l| l.name() == link.value));
        ports.insert(number, ConfiguredPort { interface: interface.map(|name| name.value), link });
    }
    Some(ports)
}
