//! `linux:`: the tables that hold entries of the host's network stack.

use super::super::decode::Decoder;
use super::super::node::Node;
use super::super::shape::{MapShape, Shape, key, needed};
use crate::ast::{MappingDecl, Name, Named, Sp};

/// A mapped table.
pub(crate) static MAPPING: MapShape = MapShape {
    name: "mapping",
    what: "a mapped table",
    keys: &[
        needed("table", Shape::Name, "The table."),
        needed("key", Shape::MapOf(&Shape::Expression), "What each key of the table matches."),
        needed("action", Shape::Expression, "What an entry does, with words as arguments."),
        key("down", Shape::Expression, "What an interface does that is down."),
        key("unresolved", Shape::Expression, "What a next hop does whose address is not known."),
        key("kernel", Shape::Expression, "What a route does that the kernel has to follow itself."),
        key("blackhole", Shape::Expression, "What a blackhole route does."),
    ],
};
/// The roles of the actions of a mapped table.
const ROLES: [&str; 5] = ["action", "down", "unresolved", "kernel", "blackhole"];

const MAPPED: Shape = Shape::Map(&MAPPING);
/// The tables that can be mapped.
pub(crate) static LINUX: MapShape = MapShape {
    name: "linux",
    what: "`linux`",
    keys: &[
        key("interfaces", MAPPED, "Interfaces of the router: `port`, `mac`, `mtu`."),
        key("addresses4", MAPPED, "Its own IPv4 addresses: `address`."),
        key("addresses6", MAPPED, "Its own IPv6 addresses: `address`."),
        key("neighbours", MAPPED, "Next hops: `number`, `port`, `mac`, `neighbour`, `mtu`."),
        key("routes4", MAPPED, "IPv4 routes: `prefix`, `number` of a next hop."),
        key("routes6", MAPPED, "IPv6 routes: `prefix`, `number` of a next hop."),
    ],
};

/// `linux:`.
pub(super) fn linux(decoder: &mut Decoder<'_>, node: &Node) -> Named<MappingDecl> {
    let Some(fields) = decoder.map(node, &LINUX) else { return Vec::new() };
    let mut found = Vec::new();
    for name in LINUX.keys.iter().map(|key| key.name) {
        let (Some(node), Some(place)) = (fields.get(name), fields.place(name)) else { continue };
        if let Some(decl) = mapping(decoder, node) {
            found.push((Sp::new(name.to_owned(), place), decl));
        }
    }
    found
}

fn mapping(decoder: &mut Decoder<'_>, node: &Node) -> Option<MappingDecl> {
    let fields = decoder.map(node, &MAPPING)?;
    let table = fields.get("table").and_then(|node| decoder.name(node));
    let key = fields.get("key").map(|node| keys(decoder, node)).unwrap_or_default();
    let mut actions = Vec::new();
    for role in ROLES {
        let Some(place) = fields.place(role) else { continue };
        let call = fields.get(role).and_then(|node| decoder.expression(node));
        actions.extend(call.map(|call| (Sp::new(role.to_owned(), place), call)));
    }
    Some(MappingDecl { table: table?, key, actions })
}

/// Keys of tables are named by their expressions.
fn keys(decoder: &mut Decoder<'_>, node: &Node) -> Named<crate::ast::AstExpr> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "`key`").unwrap_or_default() {
        let name: Name = Sp::new(key.scalar.text.clone(), key.span);
        found.extend(decoder.expression(value).map(|value| (name, value)));
    }
    found
}
