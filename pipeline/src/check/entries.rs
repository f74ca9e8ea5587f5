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
use crate::entries::{MirrorSession, MulticastGroup, Replica, Resolved};
use crate::ids::*;
use crate::ir::{CPU_PORT, Program, Table};
use crate::state::action_words;
use std::collections::{BTreeMap, BTreeSet};
use wireyard_tables::time::Span;
use wireyard_tables::{ActionCall, Entry, GroupMember as Member, ProfileId, Target, Update};

/// Resolves an entries file against a checked program. `None`: the errors are in `diagnostics`.
pub fn resolve_entries(
    file: &EntriesFile,
    program: &Program,
    diagnostics: &mut Diagnostics,
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
        found: Resolved::default(),
        members: BTreeMap::new(),
        groups: BTreeMap::new(),
    };
    resolver.selectors(file);
    resolver.entries(file);
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
    found: Resolved,
    /// Numbers of members and groups that the file makes.
    members: BTreeMap<TableId, BTreeSet<u64>>,
    groups: BTreeMap<TableId, BTreeSet<u64>>,
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
        let (name, args) = self.cx.call_parts(call)?;
        let program = self.program;
        let (action, known) =
            self.named(&program.actions, &name, "action", |action| &action.name)?;
        if !self.cx.listed_for_entries(table, action, &name) {
            return None;
        }
        let args = self.cx.constant_args(action, args, call.span)?;
        let place = table.actions.iter().position(|listed| *listed == action)?;
        let mut data = Vec::new();
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
                if members.is_empty() {
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
            if !known.contains(&number.value) {
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
            let Some((id, table)) = self.table(name) else { continue };
            if table.const_entries {
                let text = format!("the entries of table `{}` are constant", table.name);
                self.cx
                    .report
                    .error(codes::ENTRY, name.span, text)
                    .help("take `const_entries` from the table, or these entries from the file");
                continue;
            }
            let room = (table.size as usize).saturating_sub(table.entries.len());
            self.fits(entries.len(), room, name, "entries");
            let key = |matches: &[wireyard_tables::Match], priority: u32| {
                format!("{matches:?} {priority}")
            };
            let declared = table.entries.iter().map(|e| (key(&e.matches, e.priority), None));
            let mut seen: BTreeMap<String, Option<crate::ir::SourceSpan>> = declared.collect();
            for entry in entries {
                let matched = self.cx.entry_matches(table, entry);
                let target = self.entry_target(id, table, &entry.action);
                let timeout = self.cx.entry_timeout(table, entry);
                let meter = self.cx.entry_meter(table, entry);
                let (Some((matches, priority)), Some(target)) = (matched, target) else { continue };
                let same = seen.insert(key(&matches, priority), Some(entry.span));
                if let Some(first) = same {
                    let text = "this entry is there already";
                    let note = self.cx.report.error(codes::TWICE, entry.span, text);
                    match first {
                        Some(first) => note.label(first, "first here"),
                        None => note.note("the program declares it"),
                    };
                    continue;
                }
                let idle_timeout = (timeout != 0).then(|| Span::from_ms(timeout));
                let entry = Entry { matches, priority, target, idle_timeout, meter };
                self.found.updates.push(Update::Insert(wireyard_tables::TableId(id.0), entry));
            }
        }
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
        if !known.is_some_and(|known| known.contains(&value.into())) {
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
                let update = Update::SetDefault(wireyard_tables::TableId(id.0), Some(call));
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
