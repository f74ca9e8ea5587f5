//! Resolves an entries file: names to ids, patterns to matches, values to their widths.
//!
//! The checked program is all there is: its constants are known by name, its libraries are not.

use super::ExternRegistry;
use super::cx::{Cx, Env, Place};
use super::scope::Scope;
use super::uses::Uses;
use crate::ast::entries::*;
use crate::ast::*;
use crate::diag::{Diagnostics, codes};
use crate::ids::*;
use crate::ir::{CPU_PORT, Program, SourceSpan, Table};
use crate::source::chunks::Chunk;
use crate::state::entries::{MirrorSession, MulticastGroup, Replica, Resolved};
use crate::state::{action_data_words, action_words};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use wireyard_tables::time::Span;
use wireyard_tables::{ActionCall, Entry, GroupMember as Member, Match, ProfileId, Target, Update};

/// After so many errors nothing more is read of a large file.
const CHUNK_ERRORS_MAX: usize = 100;

/// What an entries file is read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To fill a program that starts: every member and group that it names is in it.
    #[default]
    Fill,
    /// To change a program that runs: members and groups may be there already.
    Change,
    /// To remove from a program that runs: only what names an object is looked at, and an entry's action may be any.
    Remove,
}

/// Resolves an entries file against a checked program. `None`: the errors are in `diagnostics`.
pub fn resolve_entries(
    file: &EntriesFile,
    program: &Program,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    resolve_chunks(file, program, Purpose::Fill, diagnostics, &mut |_| None)
}

/// The same for a file whose entries come in parts.
pub(crate) fn resolve_chunks(
    file: &EntriesFile,
    program: &Program,
    purpose: Purpose,
    diagnostics: &mut Diagnostics,
    next: &mut dyn FnMut(&mut Diagnostics) -> Option<Chunk>,
) -> Option<Resolved> {
    let externs = ExternRegistry::new();
    let mut cx = Cx::new(&[], Scope::default(), Uses::default(), program.clone(), &externs);
    cx.env = Env::at(Place::Data);
    for constant in &program.constants {
        cx.env.bind_constant(&constant.name, constant.value, constant.bits);
    }
    let mut resolver = Resolver {
        cx,
        program,
        purpose,
        found: Resolved::default(),
        members: BTreeMap::new(),
        groups: BTreeMap::new(),
    };
    resolver.selectors(file);
    resolver.entries(file);
    resolver.chunks(file, next);
    resolver.defaults(file);
    resolver.value_sets(file);
    resolver.registers(file);
    resolver.meters(file);
    resolver.groups(file);
    resolver.sessions(file);
    let Resolver { cx, found, .. } = resolver;
    let good = !cx.report.has_errors();
    diagnostics.append(cx.report);
    good.then_some(found)
}

struct Resolver<'a> {
    cx: Cx<'a>,
    program: &'a Program,
    purpose: Purpose,
    found: Resolved,
    /// Numbers of members and groups that the file makes.
    members: BTreeMap<TableId, BTreeSet<u64>>,
    groups: BTreeMap<TableId, BTreeSet<u64>>,
}

/// The entries of a table, while they are resolved.
struct List<'a> {
    id: TableId,
    table: &'a Table,
    /// How many it takes.
    room: usize,
    seen: Seen,
}

/// What an entry matches, by a hash with a random key: a million entries take 28 MB, and that two of them have the same
/// by chance does not happen (one in 10^26).
struct Seen {
    hashers: [RandomState; 2],
    /// Number of the entry among those of the program, then those of the file.
    numbers: HashMap<[u64; 2], u32>,
    declared: u32,
    /// Where those of the file are.
    spans: Vec<SourceSpan>,
}

/// The entry that was there before.
enum First {
    Declared,
    /// In the file: where, and which one of its table.
    Written(SourceSpan, usize),
}

impl Seen {
    fn new(table: &Table) -> Seen {
        let (hashers, numbers) = ([RandomState::new(), RandomState::new()], HashMap::new());
        let mut seen = Seen { hashers, numbers, declared: 0, spans: Vec::new() };
        for entry in &table.entries {
            let key = seen.key(&entry.matches, entry.priority);
            seen.numbers.insert(key, seen.declared);
            seen.declared += 1;
        }
        seen
    }

    fn key(&self, matches: &[Match], priority: u32) -> [u64; 2] {
        [0, 1].map(|n| self.hashers[n].hash_one((matches, priority)))
    }

    /// Notes an entry, unless it is there already.
    fn insert(&mut self, matches: &[Match], priority: u32, span: SourceSpan) -> Option<First> {
        let next = self.declared + self.spans.len() as u32;
        let number = *self.numbers.entry(self.key(matches, priority)).or_insert(next);
        if number == next {
            self.spans.push(span);
            return None;
        }
        let Some(at) = number.checked_sub(self.declared) else { return Some(First::Declared) };
        let at = at as usize;
        Some(First::Written(self.spans.get(at).copied().unwrap_or(span), at + 1))
    }
}

impl<'a> Resolver<'a> {
    /// Something of the program by name.
    fn named<I: Id, T>(
        &mut self,
        list: &'a IdVec<I, T>,
        name: &Name,
        what: &str,
        name_of: fn(&T) -> &str,
    ) -> Option<(I, &'a T)> {
        let found = list.entries().find(|(_, item)| name_of(item) == name.value);
        if found.is_none() {
            let text = format!("the program has no {what} `{}`", name.value);
            let names: Vec<&str> = list.iter().map(name_of).collect();
            self.cx.report.error(codes::UNKNOWN, name.span, text).did_you_mean(&name.value, names);
        }
        found
    }

    fn table(&mut self, name: &Name) -> Option<(TableId, &'a Table)> {
        let program = self.program;
        self.named(&program.tables, name, "table", |table| &table.name)
    }

    /// The profile of a table with a selector.
    fn profile(&mut self, id: TableId, table: &Table, name: &Name) -> Option<ProfileId> {
        if table.selector.is_none() {
            let text = format!("table `{}` has no selector", table.name);
            self.cx
                .report
                .error(codes::SELECTOR, name.span, text)
                .help("members and groups belong to tables with `selector:`");
            return None;
        }
        Some(self.profile_of(id))
    }

    /// Profiles are numbered like the tables that have one.
    fn profile_of(&self, id: TableId) -> ProfileId {
        let before = self.program.tables.iter().take(id.index());
        ProfileId(before.filter(|table| table.selector.is_some()).count() as u32)
    }

    /// An action of a table with its data.
    fn call(&mut self, table: &Table, call: &AstExpr) -> Option<ActionCall> {
        if self.purpose == Purpose::Remove {
            return Some(ActionCall { action: 0, data: Vec::new() });
        }
        let (name, args) = self.cx.call_parts(call)?;
        let program = self.program;
        let (action, known) =
            self.named(&program.actions, &name, "action", |action| &action.name)?;
        if !self.cx.listed_for_entries(table, action, &name) {
            return None;
        }
        let args = self.cx.constant_args(action, args, call.span)?;
        let place = table.actions.iter().position(|listed| *listed == action)?;
        // A million entries have as many of these: no room that is not used.
        let mut data = Vec::with_capacity(action_data_words(known));
        action_words(known, &args, &mut data);
        Some(ActionCall { action: place as u32, data })
    }

    fn selectors(&mut self, file: &EntriesFile) {
        for (name, members) in &file.members {
            let Some((id, table)) = self.table(name) else { continue };
            let Some(profile) = self.profile(id, table, name) else { continue };
            let most = table.selector.as_ref().map_or(0, |selector| selector.max_members as usize);
            self.fits(members.len(), most, name, "members");
            for (number, call) in members {
                let Some(number32) = self.number(number, u64::from(u32::MAX)) else { continue };
                if !self.members.entry(id).or_default().insert(number.value) {
                    self.twice(number, "member");
                    continue;
                }
                let Some(call) = self.call(table, call) else { continue };
                self.found.updates.push(Update::InsertMember(profile, number32, call));
            }
        }
        for (name, groups) in &file.groups {
            let Some((id, table)) = self.table(name) else { continue };
            let Some(profile) = self.profile(id, table, name) else { continue };
            let most = table.selector.as_ref().map_or(0, |selector| selector.max_groups as usize);
            self.fits(groups.len(), most, name, "groups");
            for (number, members) in groups {
                let Some(number32) = self.number(number, u64::from(u32::MAX)) else { continue };
                if !self.groups.entry(id).or_default().insert(number.value) {
                    self.twice(number, "group");
                    continue;
                }
                if members.is_empty() && self.purpose == Purpose::Fill {
                    let text =
                        format!("group {} of table `{}` has no members", number.value, name.value);
                    let why = "a packet that chooses it would take the table's default";
                    self.cx.report.error(codes::ENTRY, number.span, text).note(why);
                    continue;
                }
                let Some(members) = self.group_members(id, members) else { continue };
                self.found.updates.push(Update::InsertGroup(profile, number32, members));
            }
        }
    }

    fn group_members(&mut self, id: TableId, members: &[GroupMember]) -> Option<Vec<Member>> {
        let known = self.members.remove(&id).unwrap_or_default();
        let list = self.listed_members(&known, members);
        self.members.insert(id, known);
        list
    }

    fn listed_members(
        &mut self,
        known: &BTreeSet<u64>,
        members: &[GroupMember],
    ) -> Option<Vec<Member>> {
        let mut list: Vec<Member> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut good = true;
        for member in members {
            let number = &member.member;
            if !known.contains(&number.value) && self.purpose == Purpose::Fill {
                let text = format!("there is no member {}", number.value);
                self.cx.report.error(codes::UNKNOWN, number.span, text);
                good = false;
                continue;
            }
            if !seen.insert(number.value) {
                self.twice(number, "member");
                good = false;
                continue;
            }
            if member.weight.value == 0 {
                let text = format!("member {} has the weight 0 and gets no packet", number.value);
                let help = "leave it out of the group, or give it 1 to 4096";
                self.cx.report.error(codes::ENTRY, member.weight.span, text).help(help);
                good = false;
                continue;
            }
            let weight = self.number(&member.weight, 4096);
            let id = self.number(number, u64::from(u32::MAX));
            let (Some(member), Some(weight)) = (id, weight) else { return None };
            list.push(Member { member, weight });
        }
        good.then_some(list)
    }

    fn entries(&mut self, file: &EntriesFile) {
        for (name, entries) in &file.entries {
            let Some(mut list) = self.list(name) else { continue };
            self.fits(entries.len(), list.room, name, "entries");
            for entry in entries {
                self.entry(&mut list, entry);
            }
        }
    }

    fn chunks(
        &mut self,
        file: &EntriesFile,
        next: &mut dyn FnMut(&mut Diagnostics) -> Option<Chunk>,
    ) {
        let mut current: Option<(&Name, List<'a>)> = None;
        let mut is_read = true;
        while self.cx.report.counts().0 < CHUNK_ERRORS_MAX {
            let before = self.cx.report.counts().0;
            let Some(chunk) = next(&mut self.cx.report) else { break };
            // Where something could not be read, what follows from that is not told, as in a file that is read at once.
            is_read &= self.cx.report.counts().0 == before;
            if !is_read {
                continue;
            }
            if current.as_ref().is_none_or(|(name, _)| name.value != chunk.table) {
                self.end_of_chunks(current.take());
                let mut names = file.entries.iter().map(|(name, _)| name);
                let name = names.find(|name| name.value == chunk.table);
                current = name.and_then(|name| Some((name, self.list(name)?)));
            }
            if let Some((_, list)) = &mut current {
                for entry in &chunk.entries {
                    self.entry(list, entry);
                }
            }
        }
        self.end_of_chunks(current.filter(|_| is_read));
    }

    fn end_of_chunks(&mut self, list: Option<(&Name, List<'a>)>) {
        if let Some((name, list)) = list {
            self.fits(list.seen.spans.len(), list.room, name, "entries");
        }
    }

    /// The entries of a table, of which there are none yet.
    fn list(&mut self, name: &Name) -> Option<List<'a>> {
        let (id, table) = self.table(name)?;
        if table.const_entries {
            let text = format!("the entries of table `{}` are constant", table.name);
            self.cx
                .report
                .error(codes::ENTRY, name.span, text)
                .help("take `const_entries` from the table, or these entries from the file");
            return None;
        }
        let room = (table.size as usize).saturating_sub(table.entries.len());
        let seen = Seen::new(table);
        Some(List { id, table, room, seen })
    }

    fn entry(&mut self, list: &mut List<'a>, entry: &EntryDecl) {
        let List { id, table, .. } = *list;
        let matched = self.cx.entry_matches(table, entry);
        let target = match self.purpose {
            Purpose::Remove => Some(Target::Member(0)),
            _ => self.entry_target(id, table, &entry.action),
        };
        let timeout = self.cx.entry_timeout(table, entry);
        let meter = self.cx.entry_meter(table, entry);
        let (Some((matches, priority)), Some(target)) = (matched, target) else { return };
        if let Some(first) = list.seen.insert(&matches, priority, entry.span) {
            let text = "this entry is there already";
            let note = self.cx.report.error(codes::TWICE, entry.span, text);
            match first {
                First::Declared => note.note("the program declares it"),
                First::Written(span, _) if span.file == entry.span.file => {
                    note.label(span, "first here")
                }
                // In a part of a large file that is not there any more.
                First::Written(_, nth) => {
                    note.note(format!("it is entry {nth} of the table, counted from 1"))
                }
            };
            return;
        }
        let idle_timeout = (timeout != 0).then(|| Span::from_ms(timeout));
        let entry = Entry { matches, priority, target, idle_timeout, meter };
        self.found.updates.push(Update::Insert(wireyard_tables::TableId(id.0), entry));
    }

    /// An action, or `member(n)` or `group(n)` in a table with a selector.
    fn entry_target(&mut self, id: TableId, table: &Table, action: &AstExpr) -> Option<Target> {
        let (name, args) = self.cx.call_parts(action)?;
        let is_member = name.value == "member";
        if !is_member && name.value != "group" {
            if table.selector.is_some() {
                let text = format!("entries of table `{}` name a member or a group", table.name);
                self.cx.report.error(codes::SELECTOR, action.span, text).help(
                    "`action: member(1)` or `action: group(1)`, with `members:` in this file",
                );
                return None;
            }
            return self.call(table, action).map(Target::Action);
        }
        self.profile(id, table, &name)?;
        let [number] = args else {
            self.cx.wrong_call("member(1) or group(1)", action.span);
            return None;
        };
        let value = self.cx.const_value(number, Some(32))? as u32;
        let known = if is_member { self.members.get(&id) } else { self.groups.get(&id) };
        let is_known = known.is_some_and(|known| known.contains(&value.into()));
        if !is_known && self.purpose == Purpose::Fill {
            let text = format!("table `{}` has no {} {value}", table.name, name.value);
            self.cx.report.error(codes::UNKNOWN, number.span, text);
            return None;
        }
        Some(if is_member { Target::Member(value) } else { Target::Group(value) })
    }

    fn defaults(&mut self, file: &EntriesFile) {
        for (name, call) in &file.defaults {
            let Some((id, table)) = self.table(name) else { continue };
            if table.const_default {
                let text = format!("the default of table `{}` is constant", table.name);
                self.cx.report.error(codes::ENTRY, name.span, text);
                continue;
            }
            if let Some(call) = self.call(table, call) {
                let call = (self.purpose != Purpose::Remove).then_some(call);
                let update = Update::SetDefault(wireyard_tables::TableId(id.0), call);
                self.found.updates.push(update);
            }
        }
    }

    fn value_sets(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, members) in &file.value_sets {
            let found = self.named(&program.value_sets, name, "value set", |set| &set.name);
            let Some((id, set)) = found else { continue };
            self.fits(members.len(), set.size as usize, name, "members");
            let mut values = Vec::new();
            let mut seen = BTreeSet::new();
            for member in members {
                let PatternDecl::Value(value) = &member.value else {
                    let text = "a value set has single values";
                    self.cx.report.error(codes::BAD_PATTERN, member.span, text);
                    continue;
                };
                let Some(value) = self.cx.const_value(value, Some(set.bits)) else { continue };
                if !seen.insert(value) {
                    let text = format!("{value:#x} is in the set already");
                    self.cx.report.error(codes::TWICE, member.span, text);
                    continue;
                }
                values.push(value);
            }
            self.found.value_sets.push((id, values));
        }
    }

    fn registers(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, entries) in &file.registers {
            let found = self.named(&program.registers, name, "register", |known| &known.name);
            let Some((id, register)) = found else { continue };
            for (index, cells) in entries {
                let Some(at) = self.index(index, register.size) else { continue };
                for (cell, value) in cells {
                    let found = register.cells.iter().position(|known| known.name == cell.value);
                    let Some((number, known)) =
                        found.and_then(|n| Some((n, register.cells.get(n)?)))
                    else {
                        let text =
                            format!("register `{}` has no cell `{}`", name.value, cell.value);
                        let names = register.cells.iter().map(|known| known.name.as_str());
                        self.cx
                            .report
                            .error(codes::NO_MEMBER, cell.span, text)
                            .did_you_mean(&cell.value, names);
                        continue;
                    };
                    if let Some(value) = self.cx.const_value(value, Some(known.bits)) {
                        self.found.registers.push((id, at, number as u32, value as u64));
                    }
                }
            }
        }
    }

    fn meters(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, entries) in &file.meters {
            let Some((id, meter)) = self.named(&program.meters, name, "meter", |known| &known.name)
            else {
                continue;
            };
            for (index, decl) in entries {
                let Some(at) = self.index(index, meter.size) else { continue };
                let config = self.cx.meter_config(decl, meter.kind);
                if let Some(config) = config {
                    self.found.meters.push((id, at, config));
                }
            }
        }
    }

    fn groups(&mut self, file: &EntriesFile) {
        let mut seen = BTreeSet::new();
        for (number, decl) in &file.multicast_groups {
            let Some(id) = self.number(number, u16::MAX.into()) else { continue };
            if id == 0 {
                let text = "multicast group 0 means \"no group\"";
                self.cx.report.error(codes::BAD_INDEX, number.span, text).help("use 1 to 65535");
                continue;
            }
            if !seen.insert(id) {
                self.twice(number, "group");
                continue;
            }
            let replicas = match &decl.replicas {
                None => None,
                Some(list) => {
                    let all: Vec<_> = list.iter().map(|replica| self.replica(replica)).collect();
                    match all.into_iter().collect::<Option<Vec<Replica>>>() {
                        Some(all) => Some(all),
                        None => continue,
                    }
                }
            };
            let group = MulticastGroup { replicas, prune_ingress: decl.prune_ingress };
            self.found.groups.push((id as u16, group));
        }
    }

    fn replica(&mut self, decl: &ReplicaDecl) -> Option<Replica> {
        let port = self.port(&decl.port)?;
        let instance = self.optional(decl.instance.as_ref(), u16::MAX.into())? as u16;
        Some(Replica { port, instance })
    }

    fn sessions(&mut self, file: &EntriesFile) {
        let mut seen = BTreeSet::new();
        for (number, decl) in &file.mirror_sessions {
            let Some(id) = self.number(number, u16::MAX.into()) else { continue };
            if !seen.insert(id) {
                self.twice(number, "session");
                continue;
            }
            let port = self.port(&decl.port);
            let instance = self.optional(decl.instance.as_ref(), u16::MAX.into());
            let class = self.optional(decl.traffic_class.as_ref(), 7);
            let truncate = self.truncation(decl.truncate.as_ref());
            let (Some(port), Some(instance), Some(class), Some(truncate_bytes)) =
                (port, instance, class, truncate)
            else {
                continue;
            };
            let traffic_class = decl.traffic_class.as_ref().map(|_| class as u8);
            let instance = instance as u16;
            let session = MirrorSession { port, instance, traffic_class, truncate_bytes };
            self.found.sessions.push((id as u16, session));
        }
    }

    /// A port that a copy can leave by.
    fn port(&mut self, port: &AstExpr) -> Option<u16> {
        let number = self.cx.const_value(port, Some(16))? as u16;
        if (1..=CPU_PORT).contains(&number) {
            return Some(number);
        }
        let text = format!("no port has the number {number}");
        let help = format!("use 1 to {}, or CPU_PORT", CPU_PORT - 1);
        self.cx.report.error(codes::DOES_NOT_FIT, port.span, text).help(help);
        None
    }

    fn truncation(&mut self, bytes: Option<&Sp<u64>>) -> Option<u32> {
        if let Some(zero) = bytes.filter(|bytes| bytes.value == 0) {
            let text = "a copy of 0 bytes has nothing in it";
            let help = "leave `truncate` out for the whole packet";
            self.cx.report.error(codes::DOES_NOT_FIT, zero.span, text).help(help);
            return None;
        }
        self.optional(bytes, u64::from(u32::MAX))
    }

    fn optional(&mut self, value: Option<&Sp<u64>>, most: u64) -> Option<u32> {
        value.map_or(Some(0), |value| self.number(value, most))
    }

    /// A number of at most `most`, which fits in 32 bits.
    fn number(&mut self, number: &Sp<u64>, most: u64) -> Option<u32> {
        match u32::try_from(number.value) {
            Ok(value) if number.value <= most => Some(value),
            _ => {
                let text = format!("{} is more than {most}", number.value);
                self.cx.report.error(codes::DOES_NOT_FIT, number.span, text);
                None
            }
        }
    }

    fn index(&mut self, index: &Sp<u64>, size: u32) -> Option<u32> {
        if index.value < size.into() {
            return Some(index.value as u32);
        }
        let text = format!("index {} is outside an array of {size}", index.value);
        self.cx.report.error(codes::BAD_INDEX, index.span, text);
        None
    }

    fn fits(&mut self, found: usize, room: usize, name: &Name, what: &str) {
        if found > room {
            let text = format!("{found} {what} do not fit: there is room for {room}");
            self.cx.report.error(codes::TOO_MANY_ENTRIES, name.span, text);
        }
    }

    fn twice(&mut self, number: &Sp<u64>, what: &str) {
        let text = format!("{what} {} is there already", number.value);
        self.cx.report.error(codes::TWICE, number.span, text);
    }
}
