//! Writes the state set at run time as an entries file: the same text for the same state.
//!
//! Constant entries, with rates that a controller gave them, and those that are as the program declares them are
//! omitted, because they exist without a file, and a file cannot have the former; so are default actions and value sets
//! that are the program's, blank cells, and what a mirror of the kernel writes.
//! Entries are sorted by their text; in a table with priorities by priority and age, because the older one wins.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use wireyard_pipeline::ids::TableId;
use wireyard_pipeline::ir::{MeterKind, Program, SetMember, ValueSet};
use wireyard_tables::GroupMember;
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::Span;

use super::show;
use crate::control::{Control, ControlError, Entity, EntryKey, Query, TableEntry};
use crate::core::match_text;
use crate::p4runtime::persist::settings::{OfPlace, Settings};
use crate::replicate::{Group, Member, Members, Session};

type Result<T> = std::result::Result<T, ControlError>;

/// The lines of an entries file that restores the current state, with the name of its program. `as_written` returns an
/// object as it was written, where the device has another form of it because links are down; it is called for groups
/// and sessions, while no lock of the device is held.
///
/// # Errors
/// A worker that registers need does not respond.
pub fn lines(
    control: &Control,
    settings: &Settings,
    as_written: &dyn Fn(Entity) -> Entity,
) -> Result<Vec<String>> {
    loop {
        let program = control.program();
        let declared = Declared::of(&program);
        let mut file = File { control, program: &program, declared, as_written, lines: Vec::new() };
        file.lines.push(format!("# What {} has beside what it declares.", program.name));
        file.all()?;
        file.settings(&settings.in_force(true));
        file.nothing();
        file.left_out(&settings.in_force(false));
        if Arc::ptr_eq(&program, &control.program()) {
            return Ok(file.lines);
        }
    }
}

/// Entries that the program declares and that can be changed, as it declares them, in its order.
pub(super) struct Declared {
    pub(super) entries: Vec<TableEntry>,
    places: HashMap<EntryKey, usize>,
}

impl Declared {
    pub(super) fn of(program: &Program) -> Declared {
        let mut all = Declared { entries: Vec::new(), places: HashMap::new() };
        for (table, declared) in program.tables.entries().filter(|(_, one)| !one.const_entries) {
            for one in declared.entries.iter().filter(|one| !one.is_const) {
                let mut entry = TableEntry::new(table, one.matches.clone(), one.call.clone());
                let timeout = one.idle_timeout_ms;
                entry.idle_timeout = (timeout != 0).then(|| Span::from_ms(timeout));
                entry.meter = one.meter;
                entry.key.priority = one.priority;
                all.places.insert(as_read(program, entry.key.clone()), all.entries.len());
                all.entries.push(entry);
            }
        }
        all
    }

    /// True if the program declares an entry with this key.
    pub(super) fn has(&self, key: &EntryKey) -> bool {
        self.places.contains_key(key)
    }

    /// True if this entry is as the program declares it.
    fn is(&self, entry: &TableEntry) -> bool {
        let what = |of: &TableEntry| (of.target.clone(), of.idle_timeout, of.meter);
        let declared = self.places.get(&entry.key).and_then(|at| self.entries.get(*at));
        declared.is_some_and(|declared| what(declared) == what(entry))
    }
}

/// The key in the form that the device reads back: one match can be written in several forms.
pub(super) fn as_read(program: &Program, mut key: EntryKey) -> EntryKey {
    let declared = &program.tables[key.table].keys;
    for (found, declared) in key.matches.iter_mut().zip(declared) {
        *found = found.canonical(declared.field.kind, declared.field.bits);
    }
    key
}

struct File<'a> {
    control: &'a Control,
    program: &'a Program,
    declared: Declared,
    as_written: &'a dyn Fn(Entity) -> Entity,
    lines: Vec<String>,
}

/// A member of a value set as text.
fn set_member(set: &ValueSet, member: &SetMember) -> String {
    let text = |value: &Value| scalar(value.as_str().unwrap_or_default());
    match show::set_member(set, member) {
        Value::Object(keys) => {
            let pairs: Vec<(String, String)> =
                keys.iter().map(|(key, value)| (scalar(key), text(value))).collect();
            flow(&pairs)
        }
        one => text(&one),
    }
}

/// A YAML scalar that reads back as this text.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./()".contains(c);
    match text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

fn flow(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn rates(config: MeterConfig, kind: MeterKind) -> String {
    let rate = |value: u64| match kind.packets {
        true => format!("{value}pps"),
        false => format!("{value}B/s"),
    };
    let size = |value: u64| match kind.packets {
        true => format!("{value}packets"),
        false => format!("{value}B"),
    };
    let pair = |name: &str, value: String| (name.to_owned(), value);
    flow(&match config {
        MeterConfig::SingleRate { cir, cbs, ebs } => {
            vec![pair("cir", rate(cir)), pair("cbs", size(cbs)), pair("ebs", size(ebs))]
        }
        MeterConfig::TwoRate { cir, cbs, pir, pbs } => vec![
            pair("cir", rate(cir)),
            pair("cbs", size(cbs)),
            pair("pir", rate(pir)),
            pair("pbs", size(pbs)),
        ],
    })
}

/// A list of members if all weigh 1; otherwise members and weights.
fn group(members: &[GroupMember]) -> String {
    if members.iter().all(|one| one.weight == 1) {
        return list(members.iter().map(|one| one.member.to_string()));
    }
    let pairs = members.iter().map(|one| (one.member.to_string(), one.weight.to_string()));
    flow(&pairs.collect::<Vec<_>>())
}

fn copies(members: &[Member]) -> String {
    list(members.iter().map(|one| match one.instance {
        0 => one.port.to_string(),
        instance => format!("{{ port: {}, instance: {instance} }}", one.port),
    }))
}

fn multicast(group: &Group) -> String {
    let ports = match &group.members {
        Members::All => "all".to_owned(),
        Members::List(members) => copies(members),
    };
    match (group.prune_ingress, &group.members) {
        (false, Members::List(_)) => ports,
        (prune, _) => format!("{{ ports: {ports}, prune_ingress: {prune} }}"),
    }
}

fn mirror(session: &Session) -> String {
    let mut pairs = match session.replicas.as_slice() {
        [one] if one.instance == 0 => vec![("port".to_owned(), one.port.to_string())],
        several => vec![("ports".to_owned(), copies(several))],
    };
    if let Some(class) = session.traffic_class {
        pairs.push(("traffic_class".to_owned(), class.to_string()));
    }
    if session.truncate_bytes > 0 {
        pairs.push(("truncate".to_owned(), session.truncate_bytes.to_string()));
    }
    flow(&pairs)
}

impl File<'_> {
    fn all(&mut self) -> Result<()> {
        let tables: Vec<TableId> = self.program.tables.ids().collect();
        let mut parts = Vec::new();
        for table in &tables {
            parts.push((self.table(*table), self.entries(*table)?));
        }
        self.part("entries", parts);
        let defaults = self.read(&Query::DefaultActions { table: None }, Self::default)?;
        self.flat("defaults", defaults);
        for (name, query) in [
            ("members", Query::Members { table: None, id: None }),
            ("groups", Query::Groups { table: None, id: None }),
            ("registers", Query::Registers { register: None, index: None }),
            ("meters", Query::Meters { meter: None, index: None }),
            ("counters", Query::Counters { counter: None, index: None }),
        ] {
            let found = self.read(&query, Self::numbered)?;
            let mut parts: Vec<(String, Vec<String>)> = Vec::new();
            for (of, line) in found {
                match parts.last_mut().filter(|(last, _)| *last == of) {
                    Some((_, lines)) => lines.push(line),
                    None => parts.push((of, vec![line])),
                }
            }
            self.part(name, parts);
        }
        let sets = self.read(&Query::ValueSets { set: None }, Self::value_set)?;
        self.flat("value_sets", sets);
        let copies = |_: &Self, entity: Entity| match entity {
            Entity::Multicast { id, group } => Some((id.to_string(), multicast(&group))),
            Entity::Mirror { id, session } => Some((id.to_string(), mirror(&session))),
            _ => None,
        };
        let groups = self.read(&Query::Multicast { id: None }, copies)?;
        self.flat("multicast_groups", groups);
        let sessions = self.read(&Query::Mirrors { id: None }, copies)?;
        self.flat("mirror_sessions", sessions);
        Ok(())
    }

    /// A file without any key could be a truncated one, so an empty state is written explicitly.
    fn nothing(&mut self) {
        if self.lines.len() == 1 {
            self.lines.push("entries: {}".to_owned());
        }
    }

    /// Lists, as comments, stored settings that are not in force: this switch would refuse a file with them.
    fn left_out(&mut self, all: &[OfPlace]) {
        self.lines.extend(all.iter().map(|(port, queue, set)| {
            let queue = queue.map_or(String::new(), |queue| format!(" queue {queue}"));
            format!(
                "# Left out, because it could not be made: port {port}{queue}: {}",
                set.join(" ")
            )
        }));
    }

    fn settings(&mut self, all: &[OfPlace]) {
        if !all.is_empty() {
            self.lines.push("settings:".to_owned());
        }
        self.lines.extend(all.iter().map(|(port, queue, set)| {
            let queue = queue.map_or(String::new(), |queue| format!("queue: {queue}, "));
            let set = list(set.iter().map(|one| Value::from(one.as_str()).to_string()));
            format!("  - {{ port: {port}, {queue}set: {set} }}")
        }));
    }

    fn read<T>(&self, query: &Query, each: impl Fn(&Self, Entity) -> Option<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        if let Query::Groups { .. } | Query::Multicast { .. } | Query::Mirrors { .. } = query {
            // `as_written` locks the state kept of them and reads the device: not while this read has its lock, which
            // a program replacement may wait for.
            let found = self.control.read(query)?.into_iter();
            all.extend(found.filter_map(|entity| each(self, (self.as_written)(entity))));
        } else {
            self.control.visit(query, &mut |entity| all.extend(each(self, entity)))?;
        }
        Ok(all)
    }

    /// Adds a map of maps or lists, without empty ones.
    fn part(&mut self, name: &str, parts: Vec<(String, Vec<String>)>) {
        let mut parts = parts.into_iter().filter(|(_, lines)| !lines.is_empty()).peekable();
        if parts.peek().is_some() {
            self.lines.push(format!("{name}:"));
        }
        for (of, lines) in parts {
            self.lines.push(format!("  {of}:"));
            self.lines.extend(lines.into_iter().map(|line| format!("    {line}")));
        }
    }

    fn flat(&mut self, name: &str, pairs: Vec<(String, String)>) {
        if !pairs.is_empty() {
            self.lines.push(format!("{name}:"));
        }
        self.lines.extend(pairs.into_iter().map(|(key, value)| format!("  {key}: {value}")));
    }

    fn table(&self, id: TableId) -> String {
        self.program.tables.get(id).map_or(String::new(), |table| table.name.clone())
    }

    fn entries(&self, id: TableId) -> Result<Vec<String>> {
        let line = |file: &Self, entity: Entity| match entity {
            Entity::TableEntry(entry) if entry.is_const || file.declared.is(&entry) => None,
            _ if file.control.is_mirrored(file.program, &entity) => None,
            Entity::TableEntry(entry) => Some((Reverse(entry.key.priority), file.entry(&entry)?)),
            _ => None,
        };
        let mut lines = self.read(&Query::Entries { table: Some(id) }, line)?;
        // They are read in the order of their age.
        lines.sort_by(|(a, one), (b, other)| {
            let by_text = || if a.0 == 0 { one.cmp(other) } else { Ordering::Equal };
            a.cmp(b).then_with(by_text)
        });
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    fn entry(&self, entry: &TableEntry) -> Option<String> {
        let table = self.program.tables.get(entry.key.table)?;
        let keys = table.keys.iter().zip(&entry.key.matches);
        let matches =
            keys.filter_map(|(key, one)| Some((scalar(&key.name), scalar(&match_text(key, one)?))));
        let shown = show::entity(self.program, &Entity::TableEntry(entry.clone()))?;
        let matches = flow(&matches.collect::<Vec<_>>());
        let mut line =
            format!("- {{ match: {matches}, action: {}", scalar(shown["action"].as_str()?));
        if entry.key.priority > 0 {
            let _ = write!(line, ", priority: {}", entry.key.priority);
        }
        // Without it the entry would get the timeout of its table.
        if table.idle_timeout_ms.is_some() {
            let (key, number) = show::timeout_text(entry.idle_timeout.unwrap_or(Span::ZERO));
            let _ = write!(line, ", {key}: {number}");
        }
        if let (Some(config), Some(kind)) = (entry.meter, table.meter) {
            let _ = write!(line, ", meter: {}", rates(config, kind));
        }
        if let Some(Count { packets, bytes }) = entry.counter.filter(|c| *c != Count::default()) {
            let _ = write!(line, ", counter: {{ packets: {packets}, bytes: {bytes} }}");
        }
        Some(line + " }")
    }

    fn default(&self, entity: Entity) -> Option<(String, String)> {
        let Entity::DefaultAction { table, action: Some(action) } = entity else { return None };
        let declared = self.program.tables.get(table)?;
        let is_written = !declared.const_default && action != declared.default;
        is_written.then(|| (declared.name.clone(), scalar(&show::call(self.program, &action))))
    }

    /// The text of an object with a number, with the name of the object that it belongs to.
    fn numbered(&self, entity: Entity) -> Option<(String, String)> {
        if entity.is_blank() || self.control.is_mirrored(self.program, &entity) {
            return None;
        }
        Some(match entity {
            Entity::Member { table, id, action } => {
                (self.table(table), format!("{id}: {}", scalar(&show::call(self.program, &action))))
            }
            Entity::Group { table, id, members } => {
                (self.table(table), format!("{id}: {}", group(&members)))
            }
            Entity::Register { register, index, cells } => {
                let declared = self.program.registers.get(register)?;
                let cells = declared.cells.iter().zip(cells);
                let cells = cells.map(|(cell, value)| (cell.name.clone(), value.to_string()));
                (declared.name.clone(), format!("{index}: {}", flow(&cells.collect::<Vec<_>>())))
            }
            Entity::Counter { counter, index, count } => {
                let declared = self.program.counters.get(counter)?;
                let (packets, bytes) = (count.packets, count.bytes);
                let line = format!("{index}: {{ packets: {packets}, bytes: {bytes} }}");
                (declared.name.clone(), line)
            }
            Entity::Meter { meter, index, config } => {
                let declared = self.program.meters.get(meter)?;
                (declared.name.clone(), format!("{index}: {}", rates(config?, declared.kind)))
            }
            _ => return None,
        })
    }

    fn value_set(&self, entity: Entity) -> Option<(String, String)> {
        let Entity::ValueSet { set, members } = entity else { return None };
        let declared = self.program.value_sets.get(set)?;
        let members_of = || list(members.iter().map(|member| set_member(declared, member)));
        (members != declared.initial).then(|| (declared.name.clone(), members_of()))
    }
}

#[cfg(test)]
mod tests;
