//! A program's `linux:`: the entry for each object of the kernel.
//!
//! The words of each mapping are here; tables, keys and actions were found by the check of the program.

use std::sync::Arc;

use wireyard_pipeline::ids::TableId;
use wireyard_pipeline::ir::{ActionCall, MappedCall, MappedValue, Mapping, Program, layout};
use wireyard_pipeline::state::group_size_max;
use wireyard_tables::{Match, MatchKind};

use super::kernel::{Prefix, bits_of};
use crate::control::EntryKey;
use crate::ports::PortNumber;

/// Priority of entries whose key has no prefix, if the table requires one.
const PRIORITY: u32 = 1000;

/// The kernel's data about one object; words select from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) port: PortNumber,
    pub(super) mac: [u8; 6],
    pub(super) neighbour: [u8; 6],
    pub(super) mtu: u32,
    pub(super) number: u32,
    pub(super) prefix: Option<Prefix>,
}

fn of_mac(mac: [u8; 6]) -> u128 {
    mac.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

impl Facts {
    fn value(&self, word: &str) -> u128 {
        match word {
            "port" => self.port.0.into(),
            "mac" => of_mac(self.mac),
            "neighbour" => of_mac(self.neighbour),
            "mtu" => self.mtu.into(),
            "number" => self.number.into(),
            _ => self.prefix.map_or(0, |prefix| bits_of(prefix.address).0),
        }
    }
}

/// A valid mapping of the program.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub(super) table: TableId,
    mapping: Mapping,
    kinds: Vec<(MatchKind, u32)>,
}

/// Everything that a program maps.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// The program.
    pub(super) program: Arc<Program>,
    pub(super) interfaces: Option<Mapped>,
    /// IPv4, IPv6.
    pub(super) addresses: [Option<Mapped>; 2],
    pub(super) neighbours: Option<Mapped>,
    /// IPv4, IPv6.
    pub(super) routes: [Option<Mapped>; 2],
    /// Next hops are members of a selector.
    pub(super) has_members: bool,
    /// Most next hops and groups, together.
    pub(super) numbers: u32,
    /// Most groups; 0: several next hops cannot be a group.
    pub(super) groups: u32,
    /// The largest sum of weights in a group.
    pub(super) group_size: u32,
    /// The action of an unreachable next hop, unless the program has one.
    pub(super) miss: ActionCall,
    /// The mappings by names, to compare those of two programs.
    pub(super) text: String,
}

/// True for a program with tables for entries of the host's network stack.
pub fn is_mapped(program: &Program) -> bool {
    !program.linux.is_empty()
}

impl Mapped {
    fn of(program: &Program, mapping: &Mapping) -> Mapped {
        let keys = &program.tables[mapping.table].keys;
        let kinds = keys.iter().map(|key| (key.kind, key.bits)).collect();
        Mapped { table: mapping.table, mapping: mapping.clone(), kinds }
    }

    /// The largest `number` that fits in every place that uses it.
    fn largest_number(&self, program: &Program) -> u32 {
        let mut bits = 32;
        let mut see = |value: &MappedValue, width: u32| {
            if matches!(value, MappedValue::Word(word, _) if word == "number") {
                bits = bits.min(width);
            }
        };
        for (value, (_, width)) in self.mapping.keys.iter().zip(&self.kinds) {
            value.iter().for_each(|value| see(value, *width));
        }
        for call in &self.mapping.calls {
            let params = &program.actions[call.action].params;
            call.args.iter().zip(params).for_each(|(value, param)| see(value, param.bits));
        }
        layout::ones(bits) as u32
    }

    /// The key of the entry for these facts.
    pub(super) fn key(&self, facts: &Facts) -> EntryKey {
        let mut priority = 0;
        let keys = self.mapping.keys.iter().zip(&self.kinds);
        let matches = keys.map(|(value, (kind, _))| {
            if matches!(kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional) {
                priority = facts.prefix.map_or(PRIORITY, |prefix| u32::from(prefix.len) + 1);
            }
            match value {
                None => Match::Any,
                Some(MappedValue::Number(number)) => Match::Exact(*number),
                Some(MappedValue::Word(word, _)) => match (word.as_str(), facts.prefix) {
                    ("prefix", Some(prefix)) => of_prefix(*kind, prefix),
                    (word, _) => Match::Exact(facts.value(word)),
                },
            }
        });
        let matches = matches.collect();
        EntryKey { table: self.table, matches, priority }
    }

    /// The program has an action for this role.
    pub(super) fn has(&self, role: &str) -> bool {
        self.mapping.calls.iter().any(|call| call.role == role)
    }

    /// The action of a role with these facts; `None` if the program has none for the role.
    pub(super) fn call(&self, role: &str, facts: &Facts) -> Option<ActionCall> {
        let call = self.mapping.calls.iter().find(|call| call.role == role)?;
        Some(filled(call, facts))
    }
}

fn of_prefix(kind: MatchKind, prefix: Prefix) -> Match {
    let (value, width) = bits_of(prefix.address);
    match (kind, prefix.len) {
        (_, 0) => Match::Any,
        (_, len) if len == width => Match::Exact(value),
        (MatchKind::Lpm, len) => Match::Lpm { value, prefix_len: len.into() },
        (_, len) => {
            let mask = layout::ones(len.into()) << (width - len);
            Match::Ternary { value, mask }
        }
    }
}

/// The mappings of a program, and the action of an unreachable next hop: programs with the same text have the same entries for
/// the same state of the kernel.
fn text(program: &Program, miss: &ActionCall) -> String {
    let value = |value: &MappedValue| match value {
        MappedValue::Number(number) => number.to_string(),
        MappedValue::Word(word, _) => word.clone(),
    };
    let mut text = String::new();
    for mapping in &program.linux {
        let table = &program.tables[mapping.table];
        text += &format!("{} {}", mapping.name, table.name);
        for (key, of) in table.keys.iter().zip(&mapping.keys) {
            text += &format!(" {} {:?} {:?}", key.name, key.kind, of.as_ref().map(value));
        }
        for call in &mapping.calls {
            let args: Vec<String> = call.args.iter().map(value).collect();
            let action = &program.actions[call.action].name;
            text += &format!(" {} {action}({})", call.role, args.join(","));
        }
        text.push('\n');
    }
    // A program without `neighbours` has none.
    let miss_of = program.actions.get(miss.action).map(|action| &action.name);
    text + &format!("{miss_of:?} {:?}", miss.args)
}

fn filled(call: &MappedCall, facts: &Facts) -> ActionCall {
    let args = call.args.iter().map(|value| match value {
        MappedValue::Number(number) => *number,
        MappedValue::Word(word, _) => facts.value(word),
    });
    ActionCall { action: call.action, args: args.collect() }
}

impl Map {
    /// The meaning of a program's `linux:`.
    pub(super) fn of(program: &Arc<Program>) -> Map {
        let mapped = |name: &str| {
            let mapping = program.linux.iter().find(|mapping| mapping.name == name)?;
            Some(Mapped::of(program, mapping))
        };
        let routes = [mapped("routes4"), mapped("routes6")];
        let neighbours = mapped("neighbours");
        let (mut numbers, mut groups, mut group_size) = (0, 0, 0);
        let mut has_members = false;
        let mut miss = ActionCall { action: Default::default(), args: Vec::new() };
        if let Some(neighbours) = &neighbours {
            let table = &program.tables[neighbours.table];
            numbers = table.size.min(neighbours.largest_number(program));
            for route in routes.iter().flatten() {
                numbers = numbers.min(route.largest_number(program));
            }
            if let Some(selector) = &table.selector {
                has_members = true;
                numbers = numbers.min(selector.max_members);
                (groups, group_size) = (selector.max_groups, group_size_max(selector));
            }
            miss = table.default.clone();
        }
        let addresses = [mapped("addresses4"), mapped("addresses6")];
        let interfaces = mapped("interfaces");
        Map {
            program: Arc::clone(program),
            interfaces,
            addresses,
            neighbours,
            routes,
            has_members,
            numbers,
            groups,
            group_size,
            text: text(program, &miss),
            miss,
        }
    }

    /// Whether the table of routes of a family also has the router's own addresses.
    pub(super) fn locals_are_routes(&self, family: usize) -> bool {
        match (&self.addresses[family], &self.routes[family]) {
            (Some(addresses), Some(routes)) => addresses.table == routes.table,
            _ => false,
        }
    }
}
