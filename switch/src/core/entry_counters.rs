//! Counts of the entries of a table, for tables that count (`counters: true`) or have meters.
//!
//! The sums are in [`super::ProgramReport`]. An entry is formatted as in an entries file. A meter has no count of its
//! colours, so its rates are shown; a program counts colours itself where it needs them. Not for use with every packet:
//! with all entries of a large table the caller is blocked for long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use serde_json::{Map, Value};
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ir::{Display, Key, MatchField, Program, Table};
use wireyard_pipeline::state::action_args;
use wireyard_pipeline::trace::names::value;
use wireyard_tables::counter::Count;
use wireyard_tables::{Entry, Match, Slot, TableId, TableView, Target};

/// Number of entries shown for each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntriesShown {
    /// Those with the highest packet count.
    Most(usize),
    /// All, oldest first.
    All,
}

/// Text that is neither a number above zero nor `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write how many entries of each table, or `all`")]
pub struct NoEntriesShown;

impl std::str::FromStr for EntriesShown {
    type Err = NoEntriesShown;

    fn from_str(text: &str) -> Result<EntriesShown, NoEntriesShown> {
        match text {
            "all" => Ok(EntriesShown::All),
            number => match number.parse() {
                Ok(0) | Err(_) => Err(NoEntriesShown),
                Ok(most) => Ok(EntriesShown::Most(most)),
            },
        }
    }
}

/// Entries of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableEntries {
    /// The table.
    pub table: String,
    /// The entries shown.
    pub entries: Vec<EntryReport>,
    /// Entries that are not shown.
    pub more: u64,
}

/// An entry and what it counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryReport {
    /// Its keys by name, in the notation of an entries file.
    #[serde(rename = "match")]
    pub matches: Map<String, Value>,
    /// Its priority, where the table has priorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Its action, in the notation of an entries file.
    pub action: String,
    /// Packets that hit it, where the table counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Bytes of these packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rates and bursts of its meter, if it has one; in bytes or packets, as the table declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meter: Option<String>,
}

impl TableEntries {
    /// The counts of the entries of a generation's tables, for tables with counters or meters. Needs no worker.
    pub(crate) fn of(generation: &Generation, shown: EntriesShown) -> Vec<TableEntries> {
        let program = &generation.program;
        let tables = generation.state.tables();
        let snapshot = tables.snapshot();
        let mut all = Vec::new();
        for (index, (table, view)) in program.tables.iter().zip(snapshot.tables()).enumerate() {
            if view.counters().is_none() && view.meters().is_none() {
                continue;
            }
            let id = TableId(index as u32);
            let found = match shown {
                EntriesShown::All => tables.entries(id).unwrap_or_default(),
                EntriesShown::Most(most) => {
                    let slots = most_met(view, most, |slot| tables.entry_at(id, slot).is_ok());
                    let entry = |slot| tables.entry_at(id, slot).ok().map(|entry| (slot, entry));
                    slots.into_iter().filter_map(entry).collect()
                }
            };
            let entries: Vec<EntryReport> = found
                .iter()
                .map(|(slot, entry)| report(program, table, view, *slot, entry))
                .collect();
            let more = u64::from(view.len()).saturating_sub(entries.len() as u64);
            all.push(TableEntries { table: table.name.clone(), entries, more });
        }
        all
    }
}

/// Slots of the entries with the highest packet counts; among equals the lowest slot first.
fn most_met(view: &TableView, most: usize, is_there: impl Fn(Slot) -> bool) -> Vec<Slot> {
    let Some(counters) = view.counters() else {
        let slots = 0..view.meters().map_or(0, |meters| meters.size() as u32);
        return slots.map(Slot).filter(|slot| is_there(*slot)).take(most).collect();
    };
    let mut best = BinaryHeap::with_capacity(most.min(1024) + 1);
    for index in 0..counters.size() {
        let packets = counters.read(index).map_or(0, |count| count.packets);
        let rank = Reverse((packets, Reverse(index)));
        // A slot without an entry may still have the count of its last one.
        let is_better = best.len() < most || best.peek().is_some_and(|worst| rank < *worst);
        if is_better && is_there(Slot(index as u32)) {
            best.push(rank);
            if best.len() > most {
                best.pop();
            }
        }
    }
    let ranks = best.into_sorted_vec().into_iter();
    ranks.map(|Reverse((_, Reverse(index)))| Slot(index as u32)).collect()
}

/// A match in the notation of an entries file; `None` for a match that is omitted there.
pub(crate) fn match_text(key: &MatchField, one: &Match) -> Option<String> {
    let shown = |number: u128| value(key.display, key.bits, number);
    Some(match *one {
        Match::Exact(value) | Match::Optional(Some(value)) => shown(value),
        Match::Lpm { value, prefix_len } => format!("{}/{prefix_len}", shown(value)),
        Match::Ternary { value, mask } => match prefix_of(mask, key) {
            Some(len) if len == key.bits => shown(value),
            Some(len) => format!("{}/{len}", shown(value)),
            None => format!("{} &&& {mask:#x}", shown(value)),
        },
        Match::Range { lo, hi } if lo == hi => shown(lo),
        // Bounds are numbers, so they are decimal where other matches are hexadecimal.
        Match::Range { lo, hi } if key.display == Display::Hex => format!("{lo}..{hi}"),
        Match::Range { lo, hi } => format!("{}..{}", shown(lo), shown(hi)),
        Match::Optional(None) | Match::Any => return None,
    })
}

fn report(
    program: &Program,
    table: &Table,
    view: &TableView,
    slot: Slot,
    entry: &Entry,
) -> EntryReport {
    let keys = table.keys.iter().zip(&entry.matches);
    let literal = |(key, one): (&Key, &Match)| {
        match_text(key, one).map(|text| (key.name.clone(), Value::from(text)))
    };
    let count = view.counters().and_then(|counters| counters.read(slot.0 as usize));
    let meter = view.meters().and_then(|meters| meters.config(slot.0 as usize));
    EntryReport {
        matches: keys.filter_map(literal).collect(),
        priority: (entry.priority > 0).then_some(entry.priority),
        action: action(program, table, &entry.target),
        packets: count.map(|Count { packets, .. }| packets),
        bytes: count.map(|Count { bytes, .. }| bytes),
        meter: meter.map(|config| config.to_string()),
    }
}

/// The length of a mask that is written as a prefix: it has all bits, or is the prefix of an address.
fn prefix_of(mask: u128, key: &MatchField) -> Option<u32> {
    let len = mask.count_ones();
    let is_address = matches!(key.display, Display::Ipv4 | Display::Ipv6);
    let is_prefix = key.bits > 0 && (mask << (128 - key.bits)).leading_ones() == len;
    (is_prefix && (is_address || len == key.bits)).then_some(len)
}

fn action(program: &Program, table: &Table, target: &Target) -> String {
    let call = match target {
        Target::Action(call) => call,
        Target::Member(member) => return format!("member {member}"),
        Target::Group(group) => return format!("group {group}"),
    };
    let Some(action) = table.actions.get(call.action as usize).map(|id| &program.actions[*id])
    else {
        return format!("action {}", call.action);
    };
    let args = action.params.iter().zip(action_args(action, &call.data));
    let args: Vec<String> =
        args.map(|(param, arg)| value(param.display, param.bits, arg)).collect();
    match args.is_empty() {
        true => action.name.clone(),
        false => format!("{}({})", action.name, args.join(", ")),
    }
}
