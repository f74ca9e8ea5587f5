//! From an entries file to its syntax tree.

use super::decode::Decoder;
use super::node::{Key, Node, NodeKind};
use super::program::{header, table};
use super::shape::{MapShape, Shape, key, needed};
use crate::ast::entries::{
    CountDecl, EntriesFile, GroupMember, MirrorDecl, MulticastDecl, Numbered, ReplicaDecl,
    SettingDecl,
};
use crate::ast::{AstExpr, Named, Sp};
use crate::diag::{codes, suggest};
use crate::syntax;

/// An entries file.
pub(crate) static ENTRIES: MapShape = MapShape {
    name: "entries",
    what: "an entries file",
    keys: &[
        key("entries", Shape::MapOf(&Shape::List(&Shape::Map(&table::ENTRY))), "Entries by table."),
        key("defaults", Shape::MapOf(&Shape::Expression), "Default actions by table."),
        key(
            "members",
            Shape::MapOf(&Shape::MapOf(&Shape::Expression)),
            "Members of selectors: a call by number, by table.",
        ),
        key(
            "groups",
            Shape::MapOf(&Shape::MapOf(&Shape::Either(&[
                Shape::OneOrMore(&Shape::Count),
                Shape::MapOf(&Shape::Count),
            ]))),
            "Groups of selectors: members, or members and weights, by number, by table.",
        ),
        key("value_sets", Shape::MapOf(&Shape::OneOrMore(&header::MEMBER)), "Members by set."),
        key(
            "registers",
            Shape::MapOf(&Shape::MapOf(&Shape::Either(&[
                Shape::Expression,
                Shape::MapOf(&Shape::Expression),
            ]))),
            "Values by index, by register.",
        ),
        key(
            "meters",
            Shape::MapOf(&Shape::MapOf(&Shape::Map(&table::RATES))),
            "Rates by index, by meter.",
        ),
        key(
            "counters",
            Shape::MapOf(&Shape::MapOf(&Shape::Map(&COUNT))),
            "Counts by index, by counter.",
        ),
        key(
            "multicast_groups",
            Shape::MapOf(&Shape::Either(&[REPLICAS, Shape::Map(&MULTICAST)])),
            "Copies by number of the group.",
        ),
        key("mirror_sessions", Shape::MapOf(&Shape::Map(&MIRROR)), "Sessions by number."),
        key(
            "settings",
            Shape::List(&Shape::Map(&SETTING)),
            "Settings of ports and queues, as `wireyard queue set` takes them.",
        ),
    ],
};
const REPLICAS: Shape = Shape::List(&Shape::Either(&[Shape::Expression, Shape::Map(&REPLICA)]));
/// A multicast group with its options.
pub(crate) static MULTICAST: MapShape = MapShape {
    name: "multicast_group",
    what: "a multicast group",
    keys: &[
        needed(
            "ports",
            Shape::Either(&[REPLICAS, Shape::Choice(&["all"])]),
            "The copies, or `all`: one to every port that the switch has.",
        ),
        key("prune_ingress", Shape::Flag, "No copy to the port that the packet came in by."),
    ],
};
/// A copy of a multicast packet.
pub(crate) static REPLICA: MapShape = MapShape {
    name: "replica",
    what: "a copy",
    keys: &[
        needed("port", Shape::Expression, "Egress port."),
        key("instance", Shape::Count, "`std.instance` of the copy; 0 when absent."),
    ],
};
/// The count of a cell of a counter.
pub(crate) static COUNT: MapShape = MapShape {
    name: "count",
    what: "a count",
    keys: &[
        key("packets", Shape::Count, "Packets; 0 when absent."),
        key("bytes", Shape::Count, "Bytes; 0 when absent."),
    ],
};
/// Settings of a port, or of one of its queues.
pub(crate) static SETTING: MapShape = MapShape {
    name: "setting",
    what: "settings",
    keys: &[
        needed("port", Shape::Count, "Number of the port."),
        key("queue", Shape::Count, "The queue; absent: the whole port."),
        needed("set", Shape::OneOrMore(&Shape::Text), "What is set: `kmin=100KB`."),
    ],
};
/// A mirror session.
pub(crate) static MIRROR: MapShape = MapShape {
    name: "mirror_session",
    what: "a mirror session",
    keys: &[
        key("port", Shape::Expression, "Egress port of the one copy."),
        key("ports", REPLICAS, "Several copies, instead of `port`."),
        key("instance", Shape::Count, "`std.instance` of the one copy; 0 when absent."),
        key("traffic_class", Shape::Count, "`std.traffic_class` of the copy; 0 when absent."),
        key("truncate", Shape::Count, "Bytes that are left of the copy."),
    ],
};

/// Reports `fib: [..]` at the top of a file, without `entries:` above it. False for any other file.
fn is_list_of_a_table(decoder: &mut Decoder<'_>, node: &Node) -> bool {
    let NodeKind::Map(map) = &node.kind else { return false };
    let known = || ENTRIES.keys.iter().map(|key| key.name);
    let is_one = |(key, value): &&(Key, Node)| {
        let is_entry = |item: &Node| match &item.kind {
            NodeKind::Map(map) => map.pairs.iter().any(|(key, _)| key.scalar.text == "action"),
            _ => false,
        };
        let name = key.scalar.text.as_str();
        matches!(&value.kind, NodeKind::List(items) if items.iter().any(is_entry))
            && suggest(name, known()).is_none()
    };
    let Some((key, _)) = map.pairs.iter().find(is_one) else { return false };
    let name = syntax::shown(&key.scalar.text);
    decoder
        .diagnostics
        .error(codes::UNKNOWN_KEY, key.span, format!("an entries file has no key `{name}`"))
        .help(format!(
            "the entries of a table stand under `entries:`: `entries: {{ {name}: [..] }}`"
        ));
    true
}

/// Reads an entries file.
pub(super) fn file(decoder: &mut Decoder<'_>, node: &Node) -> Option<EntriesFile> {
    if is_list_of_a_table(decoder, node) {
        return None;
    }
    let fields = decoder.map(node, &ENTRIES)?;
    let mut found = EntriesFile::default();
    if let Some(node) = fields.get("entries") {
        found.entries = decoder
            .by_object(node, "the entries", |decoder, node| Some(table::entries(decoder, node)));
    }
    if let Some(node) = fields.get("defaults") {
        found.defaults = decoder.by_object(node, "the defaults", Decoder::action);
    }
    if let Some(node) = fields.get("members") {
        found.members = decoder.by_object(node, "the tables", |decoder, node| {
            Some(numbered(decoder, node, Decoder::action))
        });
    }
    if let Some(node) = fields.get("groups") {
        found.groups = decoder.by_object(node, "the tables", |decoder, node| {
            Some(numbered(decoder, node, |decoder, node| Some(group(decoder, node))))
        });
    }
    if let Some(node) = fields.get("value_sets") {
        found.value_sets = decoder.by_object(node, "the value sets", |decoder, node| {
            Some(decoder.each(node, "a member", header::member))
        });
    }
    if let Some(node) = fields.get("registers") {
        found.registers = decoder
            .by_object(node, "the registers", |decoder, node| Some(numbered(decoder, node, cells)));
    }
    if let Some(node) = fields.get("meters") {
        found.meters = decoder.by_object(node, "the meters", |decoder, node| {
            Some(numbered(decoder, node, table::rates))
        });
    }
    if let Some(node) = fields.get("counters") {
        found.counters = decoder
            .by_object(node, "the counters", |decoder, node| Some(numbered(decoder, node, count)));
    }
    if let Some(node) = fields.get("settings") {
        let items = decoder.items(node, "a list of settings").unwrap_or_default();
        found.settings = items.iter().filter_map(|item| setting(decoder, item)).collect();
    }
    if let Some(node) = fields.get("multicast_groups") {
        found.multicast_groups = numbered(decoder, node, multicast);
    }
    if let Some(node) = fields.get("mirror_sessions") {
        found.mirror_sessions = numbered(decoder, node, mirror);
    }
    Some(found)
}

/// A map from numbers to anything.
fn numbered<'d, T>(
    decoder: &mut Decoder<'d>,
    node: &Node,
    read: impl Fn(&mut Decoder<'d>, &Node) -> Option<T>,
) -> Numbered<T> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "a map from numbers").unwrap_or_default() {
        let number = decoder.key(key, syntax::count);
        let value = read(decoder, value);
        found.extend(number.zip(value));
    }
    found
}

/// `[1, 2]`, or `{ 1: 3, 2: 1 }` with weights.
fn group(decoder: &mut Decoder<'_>, node: &Node) -> Vec<GroupMember> {
    if let NodeKind::Map(_) = node.kind {
        let weights = numbered(decoder, node, Decoder::count);
        return weights
            .into_iter()
            .map(|(member, weight)| GroupMember { member, weight })
            .collect();
    }
    let members = decoder.each(node, "the number of a member", Decoder::count);
    let one = |member: Sp<u64>| GroupMember { weight: Sp::new(1, member.span), member };
    members.into_iter().map(one).collect()
}

/// A value, or a map of cells.
fn cells(decoder: &mut Decoder<'_>, node: &Node) -> Option<Named<AstExpr>> {
    if let NodeKind::Map(_) = node.kind {
        let read = |decoder: &mut Decoder<'_>, node: &Node| decoder.expression(node);
        return Some(decoder.named(node, "the cells", |decoder, _, node| read(decoder, node)));
    }
    let value = decoder.expression(node)?;
    Some(vec![(Sp::new("value".to_owned(), value.span), value)])
}

/// `{ packets: 3, bytes: 300 }`.
pub(crate) fn count(decoder: &mut Decoder<'_>, node: &Node) -> Option<CountDecl> {
    let fields = decoder.map(node, &COUNT)?;
    let [packets, bytes] =
        ["packets", "bytes"].map(|key| fields.get(key).and_then(|node| decoder.count(node)));
    let number = |found: Option<Sp<u64>>| found.map_or(0, |found| found.value);
    Some(CountDecl { packets: number(packets), bytes: number(bytes) })
}

/// `{ port: 2, queue: 3, set: [kmin=100KB] }`.
fn setting(decoder: &mut Decoder<'_>, node: &Node) -> Option<SettingDecl> {
    let fields = decoder.map(node, &SETTING)?;
    let [port, queue] =
        ["port", "queue"].map(|key| fields.get(key).and_then(|node| decoder.count(node)));
    let set = decoder.each(fields.get("set")?, "a text", Decoder::word);
    Some(SettingDecl { port: port?, queue, set })
}

/// `[1, 2]`, `{ ports: [1, 2], prune_ingress: true }` or `{ ports: all }`.
fn multicast(decoder: &mut Decoder<'_>, node: &Node) -> Option<MulticastDecl> {
    if let NodeKind::List(_) = node.kind {
        let replicas = Some(decoder.each(node, "a port", replica));
        return Some(MulticastDecl { replicas, prune_ingress: false });
    }
    let fields = decoder.map(node, &MULTICAST)?;
    let prune = fields.get("prune_ingress").and_then(|node| decoder.flag(node));
    let ports = fields.get("ports")?;
    let replicas = match &ports.kind {
        NodeKind::Scalar(scalar) if scalar.text == "all" => None,
        NodeKind::Scalar(scalar) => {
            let found = syntax::shown(&scalar.text);
            let message = format!("expected a list of ports, or `all`, found `{found}`");
            let error = decoder.diagnostics.error(codes::UNKNOWN_CHOICE, ports.span, message);
            error.help("write each port: `[1, 2, 3]`");
            return None;
        }
        _ => {
            let items = decoder.items(ports, "ports, or `all`")?;
            Some(items.iter().filter_map(|item| replica(decoder, item)).collect())
        }
    };
    Some(MulticastDecl { replicas, prune_ingress: prune.unwrap_or(false) })
}

fn replica(decoder: &mut Decoder<'_>, node: &Node) -> Option<ReplicaDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &REPLICA)?;
        let port = fields.get("port").and_then(|node| decoder.expression(node));
        let instance = fields.get("instance").and_then(|node| decoder.count(node));
        return Some(ReplicaDecl { port: port?, instance });
    }
    Some(ReplicaDecl { port: decoder.expression(node)?, instance: None })
}

fn mirror(decoder: &mut Decoder<'_>, node: &Node) -> Option<MirrorDecl> {
    let fields = decoder.map(node, &MIRROR)?;
    decoder.exclude(&fields, "port", "ports");
    decoder.exclude(&fields, "instance", "ports");
    let [instance, traffic_class, truncate] = ["instance", "traffic_class", "truncate"]
        .map(|key| fields.get(key).and_then(|node| decoder.count(node)));
    let replicas = match fields.get("ports") {
        Some(ports) => decoder.each(ports, "a port", replica),
        None => match fields.get("port") {
            Some(port) => vec![ReplicaDecl { port: decoder.expression(port)?, instance }],
            // Refused where its requirements are checked.
            None => Vec::new(),
        },
    };
    Some(MirrorDecl { replicas, traffic_class, truncate })
}
