//! The matches of an entry for each key of a table, for entries of programs and of entries files.

use super::cx::Cx;
use crate::ast::*;
use crate::diag::{codes, suggest};
use crate::ir::layout::ones;
use crate::ir::{Display, MatchField, SetMember, SourceSpan, Table, ValueSet};
use crate::state::ValueSetError;
use std::collections::HashSet;
use wireyard_tables::key::prefix_mask;
use wireyard_tables::{Match, MatchKind};

/// True when entries of the table have priorities.
pub(crate) fn has_priorities(table: &Table) -> bool {
    table
        .keys
        .iter()
        .any(|key| matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional))
}

/// A value as people read it.
pub(crate) fn shown(value: u128, display: Display) -> String {
    match display {
        Display::Decimal => value.to_string(),
        Display::Hex => format!("{value:#x}"),
        Display::Ipv4 => std::net::Ipv4Addr::from_bits(value as u32).to_string(),
        Display::Ipv6 => std::net::Ipv6Addr::from_bits(value).to_string(),
        Display::Mac => {
            let bytes: Vec<String> =
                (0..6).rev().map(|at| format!("{:02x}", (value >> (8 * at)) as u8)).collect();
            bytes.join(":")
        }
    }
}

impl Cx<'_> {
    /// One match for each key, and the priority; `None` when an error was reported.
    pub(crate) fn entry_matches(
        &mut self,
        table: &Table,
        entry: &EntryDecl,
    ) -> Option<(Vec<Match>, u32)> {
        let what = format!("table `{}`", table.name);
        let keys: Vec<&MatchField> = table.keys.iter().map(|key| &key.field).collect();
        let matches = self.key_matches(&what, &keys, &entry.matches, entry.span);
        let priority = self.entry_priority(table, entry);
        Some((matches?, priority?))
    }

    /// The members of a value set, in order and in canonical form; wrong ones are left out.
    pub(crate) fn set_members(&mut self, set: &ValueSet, members: &[MemberDecl]) -> Vec<SetMember> {
        let mut found: Vec<SetMember> = Vec::new();
        let mut seen = HashSet::new();
        for member in members {
            let Some(one) = self.set_member(set, member) else { continue };
            // In the form that the state returns: unchanged members then compare equal.
            let keys = set.keys.iter().map(MatchField::spec);
            let one: Option<SetMember> = keys
                .zip(one)
                .map(|(key, one)| Some(one.check(&key).ok()?.as_match(&key)))
                .collect();
            let Some(one) = one else { continue };
            if !seen.insert(one.clone()) {
                let text = match one.as_slice() {
                    [Match::Exact(value)] => format!("{value:#x} is in the set already"),
                    _ => "this member is in the set already".to_owned(),
                };
                self.report.error(codes::TWICE, span_of(member), text);
                continue;
            }
            found.push(one);
        }
        found.sort_unstable();
        let filled = ValueSet { initial: found, ..set.clone() };
        if let (Err(error @ ValueSetError::TooManyMasks), Some(last)) =
            (crate::state::check_value_set(&filled), members.last())
        {
            self.report.error(codes::LIMITS, span_of(last), error.to_string());
        }
        filled.initial
    }

    fn set_member(&mut self, set: &ValueSet, member: &MemberDecl) -> Option<SetMember> {
        let what = format!("value set `{}`", set.name);
        match (member, set.keys.as_slice()) {
            (MemberDecl::Keys(all), keys) => {
                let keys: Vec<&MatchField> = keys.iter().collect();
                self.key_matches(&what, &keys, &all.value, all.span)
            }
            (MemberDecl::One(pattern), [key]) => {
                let key = match key.name.is_empty() {
                    true => &MatchField { name: set.name.clone(), ..key.clone() },
                    false => key,
                };
                Some(vec![self.one_match(key, pattern)?])
            }
            // One number for all keys, the first on the left.
            (MemberDecl::One(Sp { value: PatternDecl::Value(value), .. }), keys) => {
                let mut rest = self.const_value(value, Some(set.bits()))?;
                let mut one = Vec::with_capacity(keys.len());
                for key in keys.iter().rev() {
                    one.push(Match::Exact(rest & ones(key.bits)));
                    rest = rest.checked_shr(key.bits).unwrap_or(0);
                }
                one.reverse();
                Some(one)
            }
            (MemberDecl::One(pattern), keys) => {
                let text = format!("a member of {what} has {} keys", keys.len());
                let names: Vec<String> =
                    keys.iter().map(|key| format!("{}: ..", key.name)).collect();
                let help = format!("write `{{ {} }}`", names.join(", "));
                self.report.error(codes::ENTRY, pattern.span, text).help(help);
                None
            }
        }
    }

    fn key_matches(
        &mut self,
        what: &str,
        keys: &[&MatchField],
        given: &Named<Sp<PatternDecl>>,
        span: SourceSpan,
    ) -> Option<Vec<Match>> {
        let mut good = true;
        for (position, (name, _)) in given.iter().enumerate() {
            if !keys.iter().any(|key| key.name == name.value) {
                let text = format!("{what} has no key `{}`", name.value);
                let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
                let found = self.report.error(codes::UNKNOWN, name.span, text);
                match suggest(&name.value, names.iter().copied()) {
                    Some(_) => found.did_you_mean(&name.value, names),
                    None => found.help(format!("its keys are {}", names.join(", "))),
                };
                good = false;
            }
            if given.iter().take(position).any(|(known, _)| known.value == name.value) {
                let text = format!("key `{}` is matched twice", name.value);
                self.report.error(codes::TWICE, name.span, text);
                good = false;
            }
        }
        let mut matches = Vec::with_capacity(keys.len());
        for key in keys {
            let found = given.iter().find(|(name, _)| name.value == key.name);
            let one = match found {
                Some((_, pattern)) => self.one_match(key, pattern),
                // A misspelt key was reported; it is not missing as well.
                None if !good => None,
                None if key.kind == MatchKind::Exact => {
                    let text = format!("key `{}` is exact and needs a value", key.name);
                    self.report.refuse(codes::ENTRY, span, text)
                }
                None => Some(Match::Any),
            };
            match one {
                Some(one) => matches.push(one),
                None => good = false,
            }
        }
        good.then_some(matches)
    }

    fn entry_priority(&mut self, table: &Table, entry: &EntryDecl) -> Option<u32> {
        match (has_priorities(table), &entry.priority) {
            (false, None) => Some(0),
            (false, Some(priority)) if priority.value == 0 => Some(0),
            (false, Some(priority)) => {
                let text = format!("entries of table `{}` have no priority", table.name);
                let why = "only tables with ternary, range or optional keys have priorities";
                self.report.error(codes::PRIORITY, priority.span, text).note(why);
                None
            }
            (true, None) => {
                let text = format!("an entry of table `{}` needs a priority", table.name);
                self.report
                    .error(codes::PRIORITY, entry.span, text)
                    .help("add `priority: 10`; where several entries match, the highest wins");
                None
            }
            (true, Some(priority)) => {
                if (1..=u64::from(i32::MAX as u32)).contains(&priority.value) {
                    return Some(priority.value as u32);
                }
                let text = format!("a priority is 1 to {}, not {}", i32::MAX, priority.value);
                self.report.refuse(codes::PRIORITY, priority.span, text)
            }
        }
    }

    fn one_match(&mut self, key: &MatchField, pattern: &Sp<PatternDecl>) -> Option<Match> {
        let (bits, span) = (key.bits, pattern.span);
        match (&pattern.value, key.kind) {
            (PatternDecl::Any, MatchKind::Exact) => {
                let text = format!("key `{}` is exact and needs a value", key.name);
                self.report.refuse(codes::ENTRY, span, text)
            }
            (PatternDecl::Any, _) => Some(Match::Any),
            (PatternDecl::Value(value), _) => Some(Match::Exact(self.key_value(key, value)?)),
            (PatternDecl::Prefix(value, len), MatchKind::Lpm) => {
                let (value, prefix_len) = self.prefix(key, value, len, span)?;
                Some(if prefix_len == 0 { Match::Any } else { Match::Lpm { value, prefix_len } })
            }
            (PatternDecl::Prefix(value, len), MatchKind::Ternary) => {
                let (value, prefix_len) = self.prefix(key, value, len, span)?;
                let mask = prefix_mask(bits, prefix_len);
                Some(if mask == 0 { Match::Any } else { Match::Ternary { value, mask } })
            }
            (PatternDecl::Mask(value, mask), MatchKind::Ternary) => {
                let value = self.key_value(key, value);
                let mask = self.key_value(key, mask);
                let (value, mask) = (value?, mask?);
                if value & !mask != 0 {
                    let right = shown(value & mask, key.display);
                    let text = "this value has bits outside its mask";
                    let help = format!("write `{right} &&& {}`", shown(mask, key.display));
                    self.report.error(codes::ENTRY, span, text).help(help);
                    return None;
                }
                Some(if mask == 0 { Match::Any } else { Match::Ternary { value, mask } })
            }
            (PatternDecl::Range(low, high), MatchKind::Range) => {
                let low = self.key_value(key, low);
                let high = self.key_value(key, high);
                let (lo, hi) = (low?, high?);
                if lo > hi {
                    let text = "this range is the wrong way round";
                    return self.report.refuse(codes::ENTRY, span, text);
                }
                Some(if lo == 0 && hi == ones(bits) { Match::Any } else { Match::Range { lo, hi } })
            }
            (PatternDecl::Set(_), _) => {
                let text = "value sets belong to the parser";
                self.report.refuse(codes::ENTRY, span, text)
            }
            (found, kind) => {
                self.wrong_pattern(key, found, kind, span);
                None
            }
        }
    }

    fn wrong_pattern(
        &mut self,
        key: &MatchField,
        found: &PatternDecl,
        kind: MatchKind,
        span: SourceSpan,
    ) {
        let form = match kind {
            MatchKind::Exact => "a value",
            MatchKind::Lpm => "a prefix: `10.0.0.0/8`",
            MatchKind::Ternary => "a value, `value &&& mask`, or `_`",
            MatchKind::Range => "a value, `low..high`, or `_`",
            MatchKind::Optional => "a value or `_`",
        };
        let what = match found {
            PatternDecl::Prefix(..) => "a prefix",
            PatternDecl::Mask(..) => "a mask",
            PatternDecl::Range(..) => "a range",
            _ => "this",
        };
        let text = format!("{what} does not fit key `{}`", key.name);
        let kind = format!("{kind:?}").to_lowercase();
        let help = format!("the key is {kind} and takes {form}");
        self.report.error(codes::ENTRY, span, text).help(help);
    }

    /// A prefix whose bits behind the length are zero.
    fn prefix(
        &mut self,
        key: &MatchField,
        value: &AstExpr,
        len: &Sp<u64>,
        span: SourceSpan,
    ) -> Option<(u128, u32)> {
        let number = self.key_value(key, value)?;
        if len.value > key.bits.into() {
            let text = format!("a prefix of {} bits in a key of {}", len.value, key.bits);
            return self.report.refuse(codes::ENTRY, len.span, text);
        }
        let len = len.value as u32;
        let mask = prefix_mask(key.bits, len);
        if number & !mask != 0 {
            let right = shown(number & mask, key.display);
            let text = "this prefix has bits behind its length";
            let help = format!("write `{right}/{len}`");
            self.report.error(codes::ENTRY, span, text).help(help);
            return None;
        }
        Some((number, len))
    }
}

fn span_of(member: &MemberDecl) -> SourceSpan {
    match member {
        MemberDecl::One(one) => one.span,
        MemberDecl::Keys(all) => all.span,
    }
}
