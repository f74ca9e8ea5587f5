//! Names and ids: p4c's rules, so that a controller's entries for a program of p4c fit.

use std::collections::{BTreeMap, HashSet};

use super::super::tree::*;
use super::{Info, Literal, Preamble, Structured};

/// The number of a name: Bob Jenkins' one-at-a-time hash in 24 bits.
pub fn number(name: &str) -> u32 {
    let mut hash = 0_u32;
    for byte in name.bytes() {
        hash = hash.wrapping_add(byte.into());
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15) & 0x00ff_ffff
}

/// Annotations that mean something, so that they are not repeated for the controller.
const KNOWN: [&str; 14] = [
    "name",
    "id",
    "alias",
    "brief",
    "description",
    "defaultonly",
    "tableonly",
    "match",
    "pkginfo",
    "p4runtime_translation",
    "max_group_size",
    "optional",
    "format",
    "platform_property",
];

/// The text of an annotation's one argument.
pub(super) fn text_of(all: &[Annotation], name: &str) -> Option<String> {
    match &*annotation(all, name)?.args.first()?.value.kind {
        ExprKind::Text(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The number in an annotation.
pub(super) fn number_of(all: &[Annotation], name: &str) -> Option<u32> {
    match &*annotation(all, name)?.args.first()?.value.kind {
        ExprKind::Number(value, _) => u32::try_from(value).ok(),
        _ => None,
    }
}

/// Annotations that mean nothing here, as text.
pub(super) fn others(all: &[Annotation], and: &[&str]) -> Vec<String> {
    let is_other = |one: &&Annotation| {
        let name = &*one.name.value;
        !one.structured && (!KNOWN.contains(&name) || and.contains(&name))
    };
    let text = |one: &Annotation| match one.text.is_empty() {
        true => format!("@{}", one.name.value),
        false => format!("@{}({})", one.name.value, one.text),
    };
    all.iter().filter(is_other).map(text).collect()
}

/// `@name[..]`.
pub(super) fn structured(all: &[Annotation]) -> Vec<(String, Structured)> {
    let literal = |expr: &Expr| match &*expr.kind {
        ExprKind::Number(value, _) => Literal::Number(i64::try_from(value).unwrap_or_default()),
        ExprKind::Bool(flag) => Literal::Flag(*flag),
        ExprKind::Text(text) => Literal::Text(text.to_string()),
        _ => Literal::Number(0),
    };
    let value = |one: &Annotation| {
        let named = one.args.iter().all(|arg| arg.name.is_some()) && !one.args.is_empty();
        let pair = |arg: &Arg| Some((arg.name.as_ref()?.value.to_string(), literal(&arg.value)));
        match named {
            true => Structured::Pairs(one.args.iter().filter_map(pair).collect()),
            false => Structured::List(one.args.iter().map(|arg| literal(&arg.value)).collect()),
        }
    };
    let all = all.iter().filter(|one| one.structured);
    all.map(|one| (one.name.value.to_string(), value(one))).collect()
}

/// The name of a thing inside of `prefix`; `@name(".x")` leaves it.
pub(in crate::p4) fn full_name(prefix: &str, annotations: &[Annotation], name: &str) -> String {
    let own = text_of(annotations, "name").unwrap_or_else(|| name.to_owned());
    match own.strip_prefix('.') {
        Some(absolute) => absolute.to_owned(),
        None if prefix.is_empty() => own,
        None => format!("{prefix}.{own}"),
    }
}

/// Names of an entity; alias and id come when all are known.
pub(super) fn preamble(name: String, annotations: &[Annotation], and: &[&str]) -> Preamble {
    let id = number_of(annotations, "id");
    Preamble {
        name,
        alias: text_of(annotations, "alias").unwrap_or_default(),
        id: id.unwrap_or_default() & 0x00ff_ffff,
        pinned: id.is_some(),
        annotations: others(annotations, and),
        structured: structured(annotations),
    }
}

/// Gives each entity of a kind its id and its alias.
pub(super) fn settle(info: &mut Info) {
    give(info.tables.iter_mut().map(|one| &mut one.preamble).collect());
    give(info.actions.iter_mut().map(|one| &mut one.preamble).collect());
    give(info.value_sets.iter_mut().map(|one| &mut one.preamble).collect());
    give(info.controller_headers.iter_mut().map(|(one, _)| one).collect());
    let mut kinds: BTreeMap<u8, Vec<&mut Preamble>> = BTreeMap::new();
    for one in &mut info.objects {
        kinds.entry(super::objects::sort(&one.kind)).or_default().push(&mut one.preamble);
    }
    kinds.into_values().for_each(give);
}

fn give(mut all: Vec<&mut Preamble>) {
    let mut taken: HashSet<u32> = all.iter().filter(|one| one.pinned).map(|one| one.id).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    for one in &mut all {
        if !one.pinned {
            let mut id = number(&one.name);
            while id == 0 || !taken.insert(id) {
                id = (id + 1) & 0x00ff_ffff;
            }
            one.id = id;
        }
        if one.alias.is_empty() {
            one.alias = shortest(&one.name, &names);
        }
    }
}

/// The shortest end of a name, in whole parts, that no other name has.
fn shortest(name: &str, names: &[String]) -> String {
    let starts = name.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    for start in starts {
        let end = &name[start..];
        let has = |other: &&String| {
            other.as_str() == end || other.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))
        };
        if names.iter().filter(has).count() == 1 {
            return end.to_owned();
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_aliases_are_those_of_p4c() {
        assert_eq!(number("IngressI.indirect"), 46_872_340 & 0x00ff_ffff);
        assert_eq!(number("NoAction"), 21_257_015 & 0x00ff_ffff);
        let names = ["a.b.t", "a.c.t", "a.u"].map(str::to_owned);
        assert_eq!(names.each_ref().map(|name| shortest(name, &names)), ["b.t", "c.t", "u"]);
    }
}
