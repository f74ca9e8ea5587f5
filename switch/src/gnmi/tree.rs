//! The tree: a list of leaves in the order of ports, and the resolution of paths.
//!
//! Paths are those of `openconfig-interfaces`, with the interface as key:
//! `interfaces/interface[name=veth1]/state/oper-status`. A path selects a leaf or all leaves below a node; a key that
//! is omitted, or `*`, selects every interface; `*` in place of a name matches any name. `ifindex` and `id` are the
//! port's number, as in P4Runtime.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use crate::core::PortReport;
use crate::p4runtime::proto::gnmi::get_request::DataType;
use crate::p4runtime::proto::gnmi::typed_value::Value;
use crate::p4runtime::proto::gnmi::{Encoding, Path, PathElem, TypedValue};
use crate::ports::{LinkState, PortNumber};

/// A value of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Text(String),
    /// At most 32 bits.
    Number(u32),
    /// 64 bits.
    Counter(u64),
    Flag(bool),
}

impl Leaf {
    /// The value for a message. A client that sets no encoding has encoding 0, JSON, and expects scalars (finsy;
    /// Stratum answers so): JSON is returned only for `JSON_IETF`.
    pub(super) fn typed(&self, encoding: Encoding) -> TypedValue {
        let value = match (encoding, self) {
            (Encoding::JsonIetf, leaf) => Value::JsonIetfVal(leaf.json().to_string().into_bytes()),
            (_, Leaf::Text(text)) => Value::StringVal(text.clone()),
            (_, Leaf::Number(number)) => Value::UintVal(u64::from(*number)),
            (_, Leaf::Counter(count)) => Value::UintVal(*count),
            (_, Leaf::Flag(flag)) => Value::BoolVal(*flag),
        };
        TypedValue { value: Some(value) }
    }

    /// JSON as in RFC 7951, where numbers of 64 bits are strings.
    fn json(&self) -> Json {
        match self {
            Leaf::Text(text) => json!(text),
            Leaf::Number(number) => json!(number),
            Leaf::Counter(count) => json!(count.to_string()),
            Leaf::Flag(flag) => json!(flag),
        }
    }
}

/// A leaf with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Name of the interface.
    pub(super) interface: String,
    /// Names below it: `state`, `counters`, `in-octets`.
    pub(super) names: &'static [&'static str],
    /// The value.
    pub(super) leaf: Leaf,
    /// The port.
    pub(super) port: PortNumber,
}

/// The place of a leaf: its interface, and the names below it.
pub(super) type Place<'a> = (&'a str, &'static [&'static str]);

impl Entry {
    pub(super) fn place(&self) -> Place<'_> {
        (&self.interface, self.names)
    }

    pub(super) fn path(&self) -> Path {
        let elem = |name: &str| PathElem { name: name.to_owned(), ..PathElem::default() };
        let key = [("name".to_owned(), self.interface.clone())].into_iter().collect();
        let front = [elem("interfaces"), PathElem { name: "interface".to_owned(), key }];
        let names = self.names.iter().map(|name| elem(name));
        Path { elem: front.into_iter().chain(names).collect(), ..Path::default() }
    }

    /// True for a leaf of the configuration.
    fn is_config(&self) -> bool {
        self.names.first() == Some(&"config")
    }
}

/// The name of a port on the command line, without its kind.
fn short_name(report: &PortReport) -> &str {
    report.name.split_once(':').map_or(report.name.as_str(), |(_, name)| name)
}

/// The leaf that can be set: false if the port is shut down, whatever its link.
const ENABLED: &[&str] = &["config", "enabled"];

/// The leaves of each interface.
const LEAVES: [&[&str]; 16] = [
    &["name"],
    &["config", "name"],
    ENABLED,
    &["state", "name"],
    &["state", "ifindex"],
    &["state", "id"],
    &["state", "oper-status"],
    &["state", "admin-status"],
    &["state", "counters", "in-octets"],
    &["state", "counters", "in-pkts"],
    &["state", "counters", "in-discards"],
    &["state", "counters", "in-errors"],
    &["state", "counters", "out-octets"],
    &["state", "counters", "out-pkts"],
    &["state", "counters", "out-discards"],
    &["state", "counters", "out-errors"],
];

/// A port: its counters, its link, and whether it is shut down.
pub(super) type Seen = (PortReport, LinkState, bool);

/// The values of a port, in the order of [`LEAVES`].
fn values((report, link, is_shut): &Seen, name: &str) -> [Leaf; LEAVES.len()] {
    let text = |text: &str| Leaf::Text(text.to_owned());
    let (oper, admin) = match *link {
        LinkState::Up => ("UP", "UP"),
        LinkState::NoCarrier => ("LOWER_LAYER_DOWN", "UP"),
        LinkState::Down => ("DOWN", "DOWN"),
        LinkState::Gone => ("NOT_PRESENT", "DOWN"),
        LinkState::Ended => ("DORMANT", "UP"),
    };
    let medium = &report.medium;
    let number = Leaf::Number(u32::from(report.port.0));
    [
        text(name),
        text(name),
        Leaf::Flag(!is_shut),
        text(name),
        number.clone(),
        number,
        text(oper),
        text(admin),
        Leaf::Counter(medium.rx_bytes),
        Leaf::Counter(medium.rx_frames),
        Leaf::Counter(medium.rx_kernel_drops),
        Leaf::Counter(medium.rx_errors + medium.rx_too_long + medium.rx_gso),
        Leaf::Counter(medium.tx_bytes),
        Leaf::Counter(medium.tx_frames),
        Leaf::Counter(medium.tx_down),
        Leaf::Counter(medium.tx_errors + medium.tx_too_long),
    ]
}

/// The values of a device.
pub(super) struct Tree {
    entries: Vec<Entry>,
    /// The first leaf of each interface, which has as many as [`LEAVES`].
    first: HashMap<String, usize>,
}

impl Tree {
    fn new(interfaces: impl Iterator<Item = (PortNumber, [Leaf; LEAVES.len()], String)>) -> Tree {
        let mut tree = Tree { entries: Vec::new(), first: HashMap::new() };
        for (port, values, interface) in interfaces {
            tree.first.insert(interface.clone(), tree.entries.len());
            let leaves = LEAVES.into_iter().zip(values);
            let entry = |(names, leaf)| Entry { interface: interface.clone(), names, leaf, port };
            tree.entries.extend(leaves.map(entry));
        }
        tree
    }

    /// Interfaces 0, 1, .. whose values do not matter.
    #[cfg(test)]
    pub(super) fn of_interfaces(count: u16) -> Tree {
        let values = || std::array::from_fn(|_| Leaf::Number(0));
        Tree::new((0..count).map(|number| (PortNumber(number), values(), number.to_string())))
    }

    /// All leaves.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// True if another tree has the same interfaces.
    pub(super) fn has_interfaces_of(&self, other: &Tree) -> bool {
        self.first == other.first
    }

    /// True if there is an interface of this name.
    pub(super) fn has(&self, interface: &str) -> bool {
        self.first.contains_key(interface)
    }

    /// The leaves at a path, or below it.
    pub(super) fn under<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Entry> {
        self.near(path).iter().filter(|entry| is_under(path, entry))
    }

    /// The leaves that a path is compared with: those of an interface that it names, or all.
    pub(super) fn near(&self, path: &Path) -> &[Entry] {
        let name = path.elem.get(1).and_then(|elem| elem.key.get("name"));
        match name.filter(|name| *name != "*") {
            None => &self.entries,
            Some(name) => match self.first.get(name) {
                Some(first) => self.entries.get(*first..*first + LEAVES.len()).unwrap_or_default(),
                None => &[],
            },
        }
    }
}

/// The name of an interface is the short name of its port, followed by the port's number if several share the name, or if
/// another has it.
fn interface_names(ports: &[(&str, PortNumber)]) -> Vec<String> {
    let mut uses = HashMap::new();
    for (short, _) in ports {
        *uses.entry(short).or_insert(0) += 1;
    }
    let (mut names, mut taken) = (Vec::new(), HashSet::new());
    for (short, port) in ports {
        let mut name = (*short).to_owned();
        while uses.get(&name.as_str()).is_some_and(|uses| *uses > 1) || taken.contains(&name) {
            name += &format!(".{port}");
        }
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

/// The tree of these ports.
pub(super) fn of(ports: &[Seen]) -> Tree {
    let shorts: Vec<_> = ports.iter().map(|seen| (short_name(&seen.0), seen.0.port)).collect();
    let interfaces = ports.iter().zip(interface_names(&shorts));
    Tree::new(interfaces.map(|(seen, name)| (seen.0.port, values(seen, &name), name)))
}

/// A prefix and a path, joined.
pub(super) fn join(prefix: Option<&Path>, path: &Path) -> Path {
    let elem = prefix.iter().flat_map(|prefix| &prefix.elem).chain(&path.elem).cloned().collect();
    Path { elem, ..path.clone() }
}

/// True if the leaf is at the path, or below it.
fn is_under(path: &Path, entry: &Entry) -> bool {
    let front = [("interfaces", None), ("interface", Some(entry.interface.as_str()))];
    let mut place = front.into_iter().chain(entry.names.iter().map(|name| (*name, None)));
    path.elem.iter().all(|elem| {
        let Some((name, key)) = place.next() else { return false };
        let is_named = elem.name == "*" || elem.name == name;
        is_named
            && elem.key.iter().all(|(of, wanted)| {
                of == "name" && key.is_some_and(|key| wanted == "*" || wanted == key)
            })
    })
}

/// True if the path can select something in the model, whatever interfaces exist.
pub(super) fn is_known(path: &Path) -> bool {
    let mut any = path.clone();
    let keys = any.elem.iter_mut().flat_map(|elem| elem.key.iter_mut());
    keys.for_each(|(_, value)| *value = "*".to_owned());
    let entry = |names| Entry {
        interface: String::new(),
        names,
        leaf: Leaf::Number(0),
        port: PortNumber(0),
    };
    LEAVES.into_iter().any(|names| is_under(&any, &entry(names)))
}

/// The one leaf that a path selects, if it can be set. A path with `*`, or without the interface, cannot be set.
pub(super) fn settable<'a>(path: &'a Path, tree: &'a Tree) -> Option<&'a Entry> {
    let is_whole = path.elem.len() == ENABLED.len() + 2
        && path.elem[1].key.len() == 1
        && path.elem.iter().all(|elem| elem.name != "*" && elem.key.values().all(|key| key != "*"));
    tree.under(path).find(|entry| is_whole && entry.names == ENABLED)
}

/// True if a request of this type includes the leaf.
pub(super) fn is_of_type(entry: &Entry, kind: DataType) -> bool {
    match kind {
        DataType::All => true,
        DataType::Config => entry.is_config(),
        DataType::State | DataType::Operational => !entry.is_config(),
    }
}

/// Leaves as one JSON document, in the form of RFC 7951.
pub(super) fn document(entries: &[&Entry]) -> Vec<u8> {
    let mut interfaces: Vec<Json> = Vec::new();
    let mut last = None;
    for entry in entries {
        if last != Some(&entry.interface) {
            last = Some(&entry.interface);
            interfaces.push(json!({ "name": entry.interface }));
        }
        let mut at = interfaces.last_mut().expect("one was pushed above");
        let (leaf, above) = entry.names.split_last().expect("a leaf has a name");
        for name in above {
            at = object(at).entry(*name).or_insert_with(|| json!({}));
        }
        object(at).insert((*leaf).to_owned(), entry.leaf.json());
    }
    let all = json!({ "openconfig-interfaces:interfaces": { "interface": interfaces } });
    all.to_string().into_bytes()
}

fn object(value: &mut Json) -> &mut Map<String, Json> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("made above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_a_name_of_its_own() {
        let ports = |shorts: &[&'static str]| -> Vec<_> {
            (1..).map(PortNumber).zip(shorts).map(|(number, short)| (*short, number)).collect()
        };
        assert_eq!(interface_names(&ports(&["a", "b"])), ["a", "b"]);
        assert_eq!(interface_names(&ports(&["a", "a", "a.1"])), ["a.1", "a.2", "a.1.3"]);
        assert_eq!(interface_names(&ports(&["a.2", "a", "a"])), ["a.2", "a.2.2", "a.3"]);
    }
}
