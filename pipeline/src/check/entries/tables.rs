//! Entries of tables, from the file itself and from the parts of a large one; defaults.

use super::{Purpose, Resolver};
use crate::ast::entries::*;
use crate::ast::*;
use crate::diag::{Diagnostics, codes};
use crate::ids::*;
use crate::ir::{SourceSpan, Table};
use crate::source::chunks::Chunk;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash as _, Hasher, RandomState};
use wireyard_tables::{Entry, FieldSpec, Match, Target, Update};

/// A large file is not read further after this many errors.
const CHUNK_ERRORS_MAX: usize = 100;

/// The entries of a table, while they are resolved.
struct List<'a> {
    id: TableId,
    table: &'a Table,
    /// Its capacity.
    room: usize,
    seen: Seen,
}

/// The matches of the entries so far, by a hash with a random key: a million entries take 28 MB, and the probability
/// that two of them collide is 10^-26.
struct Seen {
    hashers: [RandomState; 2],
    /// The fields of the key: one match can be written in several forms.
    fields: Vec<FieldSpec>,
    /// Number of the entry among those of the program, then those of the file.
    numbers: HashMap<[u64; 2], u32, BuildHasherDefault<FirstWord>>,
    /// For each entry of the program whether it is constant.
    constant: Vec<bool>,
    /// How many of the program's are written in the file.
    changed: usize,
    /// Places of the entries of the file.
    spans: Vec<SourceSpan>,
}

/// The hasher of keys that are hashes: their first word.
#[derive(Default)]
struct FirstWord(Option<u64>);

impl Hasher for FirstWord {
    fn write(&mut self, bytes: &[u8]) {
        let word = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        self.0.get_or_insert(word);
    }

    /// The length of an array, which is hashed first and is no part of the key.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0.unwrap_or_default()
    }
}

/// The earlier entry with the same key.
enum First {
    None,
    /// One of the program, which can be changed.
    Declared,
    /// One of the program, which cannot.
    Constant,
    /// In the file: its place, and its index among those of its table.
    Written(SourceSpan, usize),
}

impl Seen {
    fn new(table: &Table) -> Seen {
        let mut seen = Seen {
            hashers: [RandomState::new(), RandomState::new()],
            fields: table.keys.iter().map(|key| key.spec()).collect(),
            numbers: HashMap::default(),
            constant: Vec::new(),
            changed: 0,
            spans: Vec::new(),
        };
        for entry in &table.entries {
            let key = seen.key(&entry.matches, entry.priority);
            seen.numbers.insert(key, seen.constant.len() as u32);
            seen.constant.push(entry.is_const);
        }
        seen
    }

    fn key(&self, matches: &[Match], priority: u32) -> [u64; 2] {
        [0, 1].map(|n| {
            let mut hasher = self.hashers[n].build_hasher();
            for (one, field) in matches.iter().zip(&self.fields) {
                one.check(field).ok().hash(&mut hasher);
            }
            priority.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Adds an entry, unless the file has it already.
    fn insert(&mut self, matches: &[Match], priority: u32, span: SourceSpan) -> First {
        let next = (self.constant.len() + self.spans.len()) as u32;
        let key = self.key(matches, priority);
        let before = *self.numbers.entry(key).or_insert(next) as usize;
        let first = match self.constant.get(before) {
            Some(true) => return First::Constant,
            Some(false) => First::Declared,
            None if before == next as usize => First::None,
            None => {
                let at = before - self.constant.len();
                return First::Written(self.spans.get(at).copied().unwrap_or(span), at + 1);
            }
        };
        self.numbers.insert(key, next);
        self.spans.push(span);
        self.changed += usize::from(matches!(first, First::Declared));
        first
    }
}

impl<'a> Resolver<'a> {
    pub(super) fn entries(&mut self, file: &EntriesFile) {
        for (name, entries) in &file.entries {
            let Some(mut list) = self.list(name) else { continue };
            for entry in entries {
                self.entry(&mut list, entry);
            }
            self.fits(entries.len() - list.seen.changed, list.room, name, "entries");
        }
    }

    pub(super) fn chunks(
        &mut self,
        file: &EntriesFile,
        next: &mut dyn FnMut(&mut Diagnostics) -> Option<Chunk>,
    ) {
        let mut current: Option<(&Name, List<'a>)> = None;
        let mut is_read = true;
        while self.cx.report.counts().0 < CHUNK_ERRORS_MAX {
            let before = self.cx.report.counts().0;
            let Some(chunk) = next(&mut self.cx.report) else { break };
            // Consequences of an unreadable part are not reported, as in a file that is read at once.
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
            let new = list.seen.spans.len() - list.seen.changed;
            self.fits(new, list.room, name, "entries");
        }
    }

    /// The list of a table's entries, still empty.
    fn list(&mut self, name: &Name) -> Option<List<'a>> {
        let (id, table) = self.table(name)?;
        // The device refuses to remove them, and the same text selects what is read.
        if table.const_entries && self.purpose != Purpose::Remove {
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
        let idle_timeout = self.cx.exact_timeout(table, entry);
        let meter = self.cx.entry_meter(table, entry);
        let count = self.cx.entry_count(table, entry);
        if entry.is_const {
            let text = "an entry of a file can be changed";
            self.cx.report.error(codes::ENTRY, entry.span, text).help("leave out `const`");
        }
        let (Some((matches, priority)), Some(target)) = (matched, target) else { return };
        let first = list.seen.insert(&matches, priority, entry.span);
        let is_declared = match first {
            First::None => false,
            First::Declared => true,
            First::Constant if self.purpose == Purpose::Remove => true,
            First::Constant => {
                let text = "the program declares this entry as constant: it cannot be changed";
                self.cx.report.error(codes::ENTRY, entry.span, text);
                return;
            }
            First::Written(first, nth) => return self.twice_entry(first, nth, entry.span),
        };
        let has_timeout = entry.idle_timeout_ms.is_some() || entry.idle_timeout_ns.is_some();
        if self.purpose == Purpose::Change && !has_timeout {
            self.found.of_table.push(self.found.updates.len());
        }
        let entry = Entry { matches, priority, target, idle_timeout, meter };
        self.found.entry_counts.extend(count.map(|count| (self.found.updates.len(), count)));
        let update = match is_declared && self.purpose == Purpose::Fill {
            true => Update::Modify,
            false => Update::Insert,
        };
        self.found.updates.push(update(wireyard_tables::TableId(id.0), entry));
    }

    /// `first` is its place, and it is the `nth` of the table.
    fn twice_entry(&mut self, first: SourceSpan, nth: usize, span: SourceSpan) {
        let note = self.cx.report.error(codes::TWICE, span, "this entry already exists");
        match first.file == span.file {
            true => note.label(first, "first here"),
            // In a part of a large file that is no longer in memory.
            false => note.note(format!("it is entry {nth} of the table, counted from 1")),
        };
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
            return self.call(table, action, false).map(Target::Action);
        }
        self.profile(id, table, name)?;
        let [number] = args else {
            self.cx.wrong_call("member(1) or group(1)", action.span);
            return None;
        };
        let value = self.cx.const_value(number, Some(32))? as u32;
        let known = if is_member { self.members.get(&id) } else { self.groups.get(&id) };
        let is_known = known.is_some_and(|known| known.contains(&value.into()));
        if !is_known && self.purpose == Purpose::Fill {
            let text = format!("table `{}` has no {} {value}", table.name, name.value);
            return self.cx.report.refuse(codes::UNKNOWN, number.span, text);
        }
        Some(if is_member { Target::Member(value) } else { Target::Group(value) })
    }

    pub(super) fn defaults(&mut self, file: &EntriesFile) {
        for (name, call) in &file.defaults {
            let Some((id, table)) = self.table(name) else { continue };
            if table.const_default {
                let text = format!("the default of table `{}` is constant", table.name);
                self.cx.report.error(codes::ENTRY, name.span, text);
                continue;
            }
            if let Some(call) = self.call(table, call, true) {
                let call = (self.purpose != Purpose::Remove).then_some(call);
                let update = Update::SetDefault(wireyard_tables::TableId(id.0), call);
                self.found.updates.push(update);
            }
        }
    }
}
