//! `linux:` of `switch.yaml`: the kernel as the control plane of the switch.

use std::collections::BTreeMap;

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_pipeline::source::shape::{MapShape, Shape, key};

use super::{PORT_MAX, PortNumber, is_port};
use Shape::{Count, Flag, MapOf, Text};

/// The default class of the kernel's packets: that of network control (IEEE 802.1Q table I-2, RFC 4594).
const TRAFFIC_CLASS: u8 = 6;
/// Bytes of an interface's name (linux/if.h, IFNAMSIZ with its zero).
const NAME_MAX: usize = 15;

pub(super) static LINUX: MapShape = MapShape {
    name: "linux",
    what: "`linux`",
    keys: &[
        key("mirror", Flag, "Each port has an interface; routes go into the tables."),
        key("namespace", Text, "The network namespace: a name, or a path."),
        key("interfaces", MapOf(&Text), "Names by port; other ports get none."),
        key("traffic_class", Count, "Class of what the kernel sends; 6 when absent."),
    ],
};

/// The kernel on top of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxSection {
    /// It is enabled, even without the option on the command line.
    pub mirror: bool,
    /// The network namespace, if it is not that of the switch.
    pub namespace: Option<String>,
    /// Names of interfaces by port; empty: each port has one, `swpN`.
    pub interfaces: BTreeMap<PortNumber, String>,
    /// Class of the kernel's packets, 0 to 7.
    pub traffic_class: u8,
}

impl Default for LinuxSection {
    fn default() -> LinuxSection {
        let (namespace, interfaces) = (None, BTreeMap::new());
        LinuxSection { mirror: false, namespace, interfaces, traffic_class: TRAFFIC_CLASS }
    }
}

pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node) -> Option<LinuxSection> {
    let fields = decoder.map(node, &LINUX)?;
    let mut section = LinuxSection::default();
    if let Some(node) = fields.get("mirror") {
        section.mirror = decoder.flag(node)?;
    }
    if let Some(node) = fields.get("namespace") {
        section.namespace = Some(decoder.word(node)?.value);
    }
    if let Some(node) = fields.get("traffic_class") {
        let class = decoder.count(node)?;
        if class.value > 7 {
            let message = format!("there is no traffic class {}: use 0 to 7", class.value);
            return decoder.refuse(codes::WRONG_TYPE, class.span, message);
        }
        section.traffic_class = class.value as u8;
    }
    if let Some(node) = fields.get("interfaces") {
        section.interfaces = interfaces(decoder, node)?;
    }
    Some(section)
}

fn interfaces(decoder: &mut Decoder<'_>, node: &Node) -> Option<BTreeMap<PortNumber, String>> {
    let mut names: BTreeMap<PortNumber, String> = BTreeMap::new();
    for (key, value) in decoder.pairs(node, "names of interfaces by port")? {
        let text = key.scalar.text.as_str();
        let Some(number) = text.parse().ok().map(PortNumber).filter(|number| is_port(*number))
        else {
            let message = format!("`{text}` is not a port number: use 0 to {PORT_MAX}");
            decoder.diagnostics.error(codes::WRONG_TYPE, key.span, message);
            continue;
        };
        let Some(name) = decoder.word(value) else { continue };
        let name = name.value;
        if !is_name(&name) {
            let message = format!(
                "`{name}` is no name of an interface: use 1 to {NAME_MAX} characters without blanks, `/`, `:` and `%`"
            );
            decoder.diagnostics.error(codes::BAD_NAME, value.span, message);
        } else if let Some((other, _)) = names.iter().find(|(_, taken)| **taken == name) {
            let message = format!("`{name}` is the interface of port {other} already");
            decoder.diagnostics.error(codes::TWICE, value.span, message);
        } else {
            names.insert(number, name);
        }
    }
    Some(names)
}

/// Whether the kernel takes this as a name (net/core/dev.c: dev_valid_name) and as no pattern of one (`a%d`).
fn is_name(name: &str) -> bool {
    let is_odd = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
    (1..=NAME_MAX).contains(&name.len()) && !name.contains(is_odd) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        for name in ["swp1", "a.b", "up-link_1", "é", "123456789012345"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a%d", "a/b", "a:b", "a b", "a\tb", "1234567890123456"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
