//! Table statements of a script, in the form of an entries file.
//!
//! A script names keys, values and actions as text. They become the syntax tree of an entries file and are resolved by
//! the same code, so that a script can express exactly what an entries file can.

use std::collections::BTreeMap;
use std::ops::Range;

use wireyard_pipeline::ast::entries::{EntriesFile, GroupMember};
use wireyard_pipeline::ast::{AstExpr, EntryDecl, MemberDecl, MeterRates, Name, PatternDecl, Sp};
use wireyard_pipeline::diag::{Diagnostics, Files, render};
use wireyard_pipeline::entries::{Resolved, resolve};
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::{Action, Program, SourceFile, SourceSpan};
use wireyard_pipeline::syntax::{self, SyntaxError, Text};

use super::script::EntryText;
use wireyard_tables::{MatchKind, Update};

/// The one file that places of a statement are in.
const SCRIPT: FileId = FileId(0);

/// Members and groups by table, at the time of a statement.
pub(super) type Known = BTreeMap<String, (Vec<u32>, Vec<u32>)>;

/// Turns the texts of one statement into syntax with places in the script.
pub(super) struct Statement<'p> {
    program: &'p Program,
    known: &'p Known,
    script: &'p SourceFile,
    /// The statement's bytes in the script.
    line: Range<usize>,
    /// Where its first word ends, which names no object.
    behind_word: usize,
    /// Position after the last placed text; the next one is after it, or before.
    cursor: usize,
}

impl<'p> Statement<'p> {
    /// The statement in the line that begins at this byte of the script.
    pub(super) fn new(
        program: &'p Program,
        known: &'p Known,
        script: &'p SourceFile,
        start: usize,
    ) -> Statement<'p> {
        let line = script.text[start..].lines().next().unwrap_or_default().trim_end();
        let blanks = line.len() - line.trim_start().len();
        let word = line[blanks..].find(char::is_whitespace).unwrap_or(0);
        let (behind_word, line) = (start + blanks + word, start..start + line.len());
        Statement { program, known, script, cursor: behind_word, behind_word, line }
    }

    /// The place of a text in the statement, as a word or several; the whole statement, marked as inexact, if it is not
    /// found literally.
    fn place(&mut self, text: &str) -> (SourceSpan, bool) {
        let whole = &self.script.text;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let find = |from: usize| {
            let mut found = whole[from..self.line.end].match_indices(text);
            let stands_alone = |at: usize| {
                let (before, behind) = (&whole[..at], &whole[at + text.len()..]);
                let cut = |a: Option<char>, b: Option<char>| {
                    a.is_some_and(is_word) && b.is_some_and(is_word)
                };
                !cut(before.chars().next_back(), text.chars().next())
                    && !cut(text.chars().next_back(), behind.chars().next())
            };
            found.find_map(|(at, _)| Some(from + at).filter(|at| stands_alone(*at)))
        };
        let found = find(self.cursor).or_else(|| find(self.behind_word));
        let span = |range: Range<usize>| SourceSpan {
            file: SCRIPT,
            start: range.start as u32,
            end: range.end as u32,
        };
        match found.filter(|_| !text.is_empty()) {
            Some(start) => {
                self.cursor = start;
                (span(start..start + text.len()), true)
            }
            None => (span(self.line.clone()), false),
        }
    }

    fn read<T>(
        &mut self,
        text: &str,
        how: impl FnOnce(Text<'_>) -> Result<T, SyntaxError>,
    ) -> Result<T, String> {
        let (span, is_exact) = self.place(text);
        let read = how(Text { text, whole: span, start: is_exact.then_some(span.start) });
        read.map_err(|error| match error.help {
            Some(help) => format!("`{text}`: {}; {help}", error.message),
            None => format!("`{text}`: {}", error.message),
        })
    }

    fn name(&mut self, text: &str) -> Name {
        Sp::new(text.to_owned(), self.place(text).0)
    }

    fn count(&mut self, value: u64) -> Sp<u64> {
        Sp::new(value, self.place(&value.to_string()).0)
    }

    /// An action call; named arguments are put in the order of the parameters.
    fn call(&mut self, text: &str) -> Result<AstExpr, String> {
        let ordered = self.in_order(text)?;
        self.read(&ordered, syntax::expression)
    }

    fn in_order(&self, text: &str) -> Result<String, String> {
        let Some((name, args)) = text.split_once('(') else { return Ok(text.to_owned()) };
        let args =
            args.trim_end().strip_suffix(')').ok_or(format!("`{text}`: no `)` at the end"))?;
        let args: Vec<&str> = args.split(',').map(str::trim).filter(|a| !a.is_empty()).collect();
        let is_known = |a: &&Action| a.name == name.trim();
        let Some(action) = self.program.actions.iter().find(is_known) else {
            // `member(1)` is no action of the program, and its argument has no name.
            if args.iter().any(|arg| arg.contains(':')) {
                let names = self.program.actions.iter().map(|a| a.name.as_str());
                let text = format!("there is no action `{}`", name.trim());
                return Err(did_you_mean(text, name.trim(), names));
            }
            return Ok(text.to_owned());
        };
        let named: Vec<_> = args.iter().filter_map(|arg| named_argument(arg, action)).collect();
        if named.is_empty() {
            return Ok(text.to_owned());
        }
        if named.len() < args.len() {
            return Err(format!("`{text}`: name all parameters, or none"));
        }
        let mut values = vec![None; action.params.len()];
        for (param, value) in named {
            let names = || action.params.iter().map(|param| param.name.as_str());
            // A parameter of a P4 program with the name of a header has `_` appended.
            let place = names().position(|name| name == param);
            let place = place.or_else(|| names().position(|n| n.strip_suffix('_') == Some(param)));
            let place = place.or_else(|| self.control_place(action, param));
            let Some(place) = place else {
                let wrong = format!("`{text}`: there is no parameter `{param}`");
                let known: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                return Err(match known.as_slice() {
                    [] => format!("{wrong}: `{}` has none", action.name),
                    known => format!("{wrong}: `{}` has {}", action.name, known.join(", ")),
                });
            };
            if values[place].replace(value.to_owned()).is_some() {
                return Err(format!("`{text}`: parameter `{param}` has two values"));
            }
        }
        let missing = action.params.iter().zip(&values).find(|(_, value)| value.is_none());
        if let Some((param, _)) = missing {
            return Err(format!("`{text}`: no value for parameter `{}`", param.name));
        }
        let values: Vec<String> = values.into_iter().flatten().collect();
        Ok(format!("{name}({})", values.join(", ")))
    }

    /// A parameter of an action of P4 by its `@name` for the control plane.
    fn control_place(&self, action: &Action, param: &str) -> Option<usize> {
        let origin = self.program.origin.as_ref()?;
        let full = origin.actions.get(&action.name)?;
        let known = origin.info.actions.iter().find(|one| one.preamble.name == *full)?;
        let place = known.params.iter().position(|known| known.name == param)?;
        (known.params.len() == action.params.len()).then_some(place)
    }

    fn pattern(&mut self, text: &str) -> Result<Sp<PatternDecl>, String> {
        let plain = usual(text);
        self.read(&plain, syntax::pattern)
    }

    /// Of a P4 program, a ternary value without a mask has one for its written digits, as for p4c: `0x25` is `0x25 &&&
    /// 0xff`.
    fn digits_given(&self, table: &str, key: &str, value: &str) -> String {
        let plain = || value.to_owned();
        if self.program.origin.is_none() {
            return plain();
        }
        let mut tables = self.program.tables.iter().filter(|known| known.name == table);
        let keys = tables.next().map(|table| table.keys.as_slice()).unwrap_or_default();
        let Some(key) = keys.iter().find(|known| known.name == key) else { return plain() };
        let (prefix, one, bits) = match value.get(..2) {
            Some("0x") => ("0x", "f", 4),
            Some("0b") => ("0b", "1", 1),
            _ => return plain(),
        };
        let digits = &value[2..];
        let is_short = digits.len() * bits < key.bits as usize;
        if key.kind != MatchKind::Ternary
            || !is_short
            || !digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        {
            return plain();
        }
        format!("{value} &&& {prefix}{}", one.repeat(digits.len()))
    }

    fn entry(&mut self, entry: &EntryText, action: &str) -> Result<EntryDecl, String> {
        let mut matches = Vec::new();
        for (key, value) in &entry.keys {
            let value = self.digits_given(&entry.table, key, value);
            matches.push((self.name(key), self.pattern(&value)?));
        }
        let action = self.call(action)?;
        let span = action.span;
        let priority = entry.priority.map(|p| self.count(p.into()));
        Ok(EntryDecl {
            matches,
            action,
            priority,
            idle_timeout_ms: None,
            idle_timeout_ns: None,
            meter: None,
            counter: None,
            is_const: false,
            span,
        })
    }

    /// An entries file of one entry. A removal or a query has no action; any is valid.
    pub(super) fn one_entry(mut self, entry: &EntryText) -> Result<Resolved, String> {
        let action = match entry.action.as_str() {
            "" => self.any_action(&entry.table)?,
            action => action.to_owned(),
        };
        let decl = self.entry(entry, &action)?;
        let mut file = self.known_members(&entry.table)?;
        let table = self.name(&entry.table);
        file.entries = vec![(table, vec![decl])];
        let mut resolved = self.resolve(file)?;
        resolved.updates.retain(|update| matches!(update, Update::Insert(..)));
        Ok(resolved)
    }

    /// The objects that an entry or group may refer to, so that they are found; they already exist.
    fn known_members(&mut self, table: &str) -> Result<EntriesFile, String> {
        let mut file = EntriesFile::default();
        let Some((members, groups)) = self.known.get(table) else { return Ok(file) };
        let action = self.any_call(table)?;
        let mut known_members = Vec::new();
        for member in members {
            known_members.push((self.count((*member).into()), self.call(&action)?));
        }
        let mut known_groups = Vec::new();
        // The members of a group do not matter here, only its existence.
        for group in groups {
            let one = members.iter().take(1).map(|member| GroupMember {
                member: self.count((*member).into()),
                weight: self.count(1),
            });
            let one = one.collect();
            known_groups.push((self.count((*group).into()), one));
        }
        file.members = vec![(self.name(table), known_members)];
        file.groups = vec![(self.name(table), known_groups)];
        Ok(file)
    }

    /// A call that an entry of the table may have.
    fn any_action(&self, table: &str) -> Result<String, String> {
        match self.known.get(table).and_then(|(members, _)| members.first()) {
            Some(member) => Ok(format!("member({member})")),
            None => self.any_call(table),
        }
    }

    fn any_call(&self, table: &str) -> Result<String, String> {
        let table = self.program.tables.iter().find(|t| t.name == table);
        let table = table.ok_or("there is no such table")?;
        let action = table.actions.first().ok_or("the table has no action")?;
        let action = &self.program.actions[*action];
        let zeros: Vec<&str> = action.params.iter().map(|_| "0").collect();
        Ok(if zeros.is_empty() {
            action.name.clone()
        } else {
            format!("{}({})", action.name, zeros.join(", "))
        })
    }

    pub(super) fn default(mut self, table: &str, action: &str) -> Result<Resolved, String> {
        let call = self.call(action)?;
        let table = self.name(table);
        self.resolve(EntriesFile { defaults: vec![(table, call)], ..EntriesFile::default() })
    }

    pub(super) fn member(mut self, table: &str, id: u32, action: &str) -> Result<Resolved, String> {
        let call = self.call(action)?;
        let (table, id) = (self.name(table), self.count(id.into()));
        let members = vec![(table, vec![(id, call)])];
        self.resolve(EntriesFile { members, ..EntriesFile::default() })
    }

    pub(super) fn group(
        mut self,
        table: &str,
        id: u32,
        members: &[u32],
    ) -> Result<Resolved, String> {
        let members: Vec<GroupMember> = members
            .iter()
            .map(|m| GroupMember { member: self.count((*m).into()), weight: self.count(1) })
            .collect();
        let mut file = self.known_members(table)?;
        let (table, id) = (self.name(table), self.count(id.into()));
        file.groups = vec![(table, vec![(id, members)])];
        let mut resolved = self.resolve(file)?;
        resolved.updates.retain(|update| matches!(update, Update::InsertGroup(..)));
        Ok(resolved)
    }

    pub(super) fn value_set(mut self, name: &str, values: &[String]) -> Result<Resolved, String> {
        let set = self.program.value_sets.iter().find(|set| set.name == name);
        let keys: Vec<&str> =
            set.iter().flat_map(|set| &set.keys).map(|key| key.name.as_str()).collect();
        let values = values.iter().map(|v| self.set_member(&keys, v));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let name = self.name(name);
        self.resolve(EntriesFile { value_sets: vec![(name, values)], ..EntriesFile::default() })
    }

    /// `VALUE`, or `KEY:VALUE,KEY:VALUE` if the set has such keys.
    fn set_member(&mut self, keys: &[&str], text: &str) -> Result<MemberDecl, String> {
        let is_key = |key: &str| keys.contains(&key) && !key.is_empty();
        if !text.split_once(':').is_some_and(|(key, _)| is_key(key)) {
            return self.pattern(text).map(MemberDecl::One);
        }
        let one = |pair: &str| {
            let (key, value) = pair.split_once(':').ok_or("expected `KEY:VALUE,KEY:VALUE`")?;
            Ok((self.name(key), self.pattern(value)?))
        };
        let all = text.split(',').map(one).collect::<Result<Vec<_>, String>>()?;
        let span = self.name(text).span;
        Ok(MemberDecl::Keys(Sp::new(all, span)))
    }

    /// Rates of one meter of an array, or of all: committed and peak, per second.
    pub(super) fn meter(
        mut self,
        name: &str,
        index: Option<u64>,
        rates: [(u64, u64); 2],
    ) -> Result<Resolved, String> {
        let meter = self.program.meters.iter().find(|meter| meter.name == name);
        let meter = meter.ok_or(format!("there is no meter `{name}`"))?;
        let (rate, size) = if meter.kind.packets { ("pps", "") } else { ("B/s", "B") };
        let [(cir, cbs), (pir, pbs)] = rates;
        let rates = MeterRates {
            cir: self.name(&format!("{cir}{rate}")),
            cbs: self.name(&format!("{cbs}{size}")),
            pir: Some(self.name(&format!("{pir}{rate}"))),
            pbs: Some(self.name(&format!("{pbs}{size}"))),
            ebs: None,
        };
        let indices = index.map_or(0..u64::from(meter.size), |index| index..index + 1);
        let all = indices.map(|index| (self.count(index), rates.clone())).collect();
        let meters = vec![(self.name(name), all)];
        self.resolve(EntriesFile { meters, ..EntriesFile::default() })
    }

    pub(super) fn register(
        mut self,
        name: &str,
        index: u64,
        cell: Option<&str>,
        value: u64,
    ) -> Result<Resolved, String> {
        let value = self.read(&value.to_string(), syntax::expression)?;
        let cell = self.name(cell.unwrap_or("value"));
        let (name, index) = (self.name(name), self.count(index));
        let registers = vec![(name, vec![(index, vec![(cell, value)])])];
        self.resolve(EntriesFile { registers, ..EntriesFile::default() })
    }

    fn resolve(self, file: EntriesFile) -> Result<Resolved, String> {
        let mut found = Diagnostics::new();
        let resolved = resolve(&file, self.program, &mut found);
        resolved.filter(|_| !found.has_errors()).ok_or_else(|| {
            let mut files = Files::new();
            files.push(self.script.clone());
            let (shown, _) = found.shown();
            let messages = shown.into_iter().map(|d| render::one(d, &files));
            messages.collect::<Vec<_>>().join("\n")
        })
    }
}

/// `PARAM:VALUE`, if the text itself is not an address: `fd00::1`, `ab:00:00:00:00:01`.
fn named_argument<'a>(arg: &'a str, action: &Action) -> Option<(&'a str, &'a str)> {
    let (name, value) = arg.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_known = action.params.iter().any(|param| param.name == name);
    let is_mac = arg.split(':').count() == 6;
    let is_address = is_mac || arg.parse::<std::net::Ipv6Addr>().is_ok();
    (is_known || is_name && !is_address).then_some((name, value))
}

/// A message and the nearest known name, if one is near.
pub(super) fn did_you_mean<'n>(
    message: String,
    found: &str,
    known: impl Iterator<Item = &'n str>,
) -> String {
    match wireyard_pipeline::diag::suggest(found, known) {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message,
    }
}

/// `0x0a**` and `0b01**` as value and mask, `1->5` as `1..5`.
fn usual(text: &str) -> String {
    if let Some((low, high)) = text.split_once("->") {
        return format!("{low}..{high}");
    }
    for (prefix, one) in [("0x", 'f'), ("0b", '1')] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|digits| digits.contains('*')) {
            let mask: String = digits.chars().map(|c| if c == '*' { '0' } else { one }).collect();
            return format!("{prefix}{} &&& {prefix}{mask}", digits.replace('*', "0"));
        }
    }
    text.to_owned()
}
