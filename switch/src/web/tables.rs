//! Entries of a table in parts: a page of them, or those that a search finds.
//!
//! A request reads entries for a bounded time and returns how far it came, so that a table of a million entries is
//! searched by several requests, without holding a lock, a worker or much memory. Entries are in the order of their
//! slots, which they keep for their life: a page does not move when others are added and removed.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wireyard_pipeline::ir::{Program, Table};

use super::Result;
use super::parameters::Parameters;
use crate::control::{Control, ControlError, Entity, TableEntry, Target, invalid};
use crate::core::{EntriesShown, EntryReport, match_text};
use crate::management::show;

/// Entries of a page at most.
const LIMIT_MAX: u32 = 200;
/// The default of the same.
const LIMIT: u32 = 50;
/// Slots that are read together, under one lock of the table.
const SLOTS: u32 = 512;
/// Longest time of a request's search.
const LOOK: Duration = Duration::from_millis(100);
/// The longest search.
const SEARCH_MAX: usize = 200;

/// The parameters of a request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    table: String,
    from: u32,
    limit: u32,
    words: Vec<String>,
    by_packets: bool,
}

impl Asked {
    /// Reads `table=fib&from=0&limit=50&search=10.1&order=packets`.
    ///
    /// # Errors
    /// A number is out of range, or the table is not named.
    pub(super) fn read(parameters: &Parameters) -> Result<Asked> {
        let (table, search) = (parameters.text("table"), parameters.text("search"));
        if table.is_empty() {
            return invalid("table: the name of a table is expected");
        }
        if search.len() > SEARCH_MAX {
            return invalid("search: at most 200 bytes");
        }
        let by_packets = match parameters.text("order") {
            "" | "slots" => false,
            "packets" => true,
            _ => return invalid("order: slots or packets"),
        };
        Ok(Asked {
            table: table.to_owned(),
            from: parameters.number("from", 0, u32::MAX)?,
            limit: parameters.number("limit", LIMIT, LIMIT_MAX)?.max(1),
            words: search.split_whitespace().map(str::to_lowercase).collect(),
            by_packets,
        })
    }
}

/// A part of the entries.
///
/// # Errors
/// There is no such table.
pub(super) fn entries(control: &Control, asked: &Asked) -> Result<Value> {
    if asked.by_packets && asked.words.is_empty() {
        return busiest(control, asked);
    }
    let table = control.table(&asked.table)?;
    if asked.by_packets && !control.program().tables.get(table).is_some_and(|one| one.counters) {
        return Err(no_counters(&asked.table));
    }
    let began = Instant::now();
    let (mut found, mut from, mut looked_at) = (Vec::new(), Some(asked.from), 0u64);
    let (mut all, limit) = (0, asked.limit as usize);
    let mut text = String::new();
    while let Some(slot) = from {
        let part = control.entries_from(&asked.table, slot, SLOTS)?;
        (all, from) = (part.all, part.next);
        let program = &part.program;
        for (at, entry) in part.entries {
            looked_at += 1;
            if !has_words(program, &entry, &asked.words, &mut text) {
                continue;
            }
            let packets = entry.counter.map_or(0, |count| count.packets);
            let shown = show::entity(program, &Entity::TableEntry(entry));
            found.extend(shown.map(|shown| (packets, shown)));
            if asked.by_packets {
                if found.len() >= 2 * limit {
                    keep_busiest(&mut found, limit);
                }
            } else if found.len() == limit {
                from = Some(at + 1);
                break;
            }
        }
        let is_full = !asked.by_packets && found.len() == limit;
        if is_full || began.elapsed() >= LOOK {
            break;
        }
    }
    if asked.by_packets {
        keep_busiest(&mut found, limit);
    }
    let rows: Vec<Value> = found.into_iter().map(|(_, shown)| shown).collect();
    Ok(
        json!({ "table": asked.table, "entries": rows, "next": from, "looked_at": looked_at, "all": all }),
    )
}

/// Keeps the rows with the most packets, in that order; among equals the first.
fn keep_busiest(found: &mut Vec<(u64, Value)>, limit: usize) {
    found.sort_by_key(|(packets, _)| Reverse(*packets));
    found.truncate(limit);
}

fn no_counters(table: &str) -> ControlError {
    let why = format!("table {table} does not count: it has no `counters: true`");
    ControlError::FailedPrecondition(why)
}

/// The entries that most packets hit, of tables that count.
fn busiest(control: &Control, asked: &Asked) -> Result<Value> {
    control.table(&asked.table)?;
    let shown = EntriesShown::Most(asked.limit as usize);
    let all = control.entry_counters(shown);
    let Some(found) = all.into_iter().find(|one| one.table == asked.table) else {
        return Err(no_counters(&asked.table));
    };
    let all = found.entries.len() as u64 + found.more;
    let row = |entry: &EntryReport| {
        let mut row = json!(entry);
        // A row is the object of control.md, in either order.
        row["table"] = asked.table.as_str().into();
        row
    };
    let rows: Vec<Value> = found.entries.iter().map(row).collect();
    Ok(json!({ "table": asked.table, "entries": rows, "next": null, "looked_at": all, "all": all }))
}

/// Whether an entry, as shown, has every word of a search.
fn has_words(program: &Program, entry: &TableEntry, words: &[String], text: &mut String) -> bool {
    if words.is_empty() {
        return true;
    }
    let Some(table) = program.tables.get(entry.key.table) else { return false };
    write_text(program, table, entry, text);
    words.iter().all(|word| text.contains(word.as_str()))
}

/// `key=value key=value action(arguments)`, in lower case.
fn write_text(program: &Program, table: &Table, entry: &TableEntry, text: &mut String) {
    text.clear();
    for (key, one) in table.keys.iter().zip(&entry.key.matches) {
        if let Some(value) = match_text(key, one) {
            text.push_str(&key.name);
            text.push('=');
            text.push_str(&value);
            text.push(' ');
        }
    }
    text.push_str(&match &entry.target {
        Target::Action(call) => show::call(program, call),
        Target::Member(member) => format!("member({member})"),
        Target::Group(group) => format!("group({group})"),
    });
    text.make_ascii_lowercase();
}
