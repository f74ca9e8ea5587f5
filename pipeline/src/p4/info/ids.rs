//! Names and ids: p4c's rules, so that a controller's entries for a program of p4c fit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::tree::*;
use super::{Info, Preamble};
use crate::p4info::ends_in;

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

/// The name that a controller has for a type, field or parameter.
pub(super) fn control_name(annotations: &[Annotation], name: &str) -> String {
    full_name("", annotations, name)
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

/// Numbers of keys, parameters and fields: those that `@id` gives, then from 1 what none of them has. One that has its own number counts.
pub(super) fn numbers<'a>(all: impl Iterator<Item = &'a [Annotation]>) -> Vec<u32> {
    let given: Vec<Option<u32>> = all.map(|one| number_of(one, "id")).collect();
    let mut taken: HashSet<u32> = given.iter().flatten().copied().collect();
    let (mut next, mut found) = (1, Vec::new());
    for given in given {
        if let Some(given) = given {
            next += 1;
            found.push(given);
            continue;
        }
        while !taken.insert(next) {
            next += 1;
        }
        found.push(next);
    }
    found
}

/// Gives each entity its id, by its kind, and its alias, by the names of all kinds; `also` are names that are not listed.
/// The name of a controller header is that of its type, in `types`.
pub(super) fn settle(info: &mut Info, types: &[String], also: Vec<String>) {
    let mut kinds: BTreeMap<u8, Vec<(String, &mut Preamble)>> = BTreeMap::new();
    let of = |one: &mut Preamble| one.name.clone();
    let mut add = |kind: u8, name: String, one| kinds.entry(kind).or_default().push((name, one));
    for one in info.tables.iter_mut().map(|one| &mut one.preamble) {
        add(0, of(one), one);
    }
    for one in info.actions.iter_mut().map(|one| &mut one.preamble) {
        add(1, of(one), one);
    }
    for one in info.value_sets.iter_mut().map(|one| &mut one.preamble) {
        add(2, of(one), one);
    }
    for ((one, _), name) in info.controller_headers.iter_mut().zip(types) {
        one.alias.clone_from(&one.name);
        add(3, name.clone(), one);
    }
    for one in &mut info.objects {
        let name = of(&mut one.preamble);
        add(4 + super::objects::sort(&one.kind), name, &mut one.preamble);
    }
    let listed = kinds.values().flatten().map(|(name, _)| name.clone());
    let names: BTreeSet<String> = listed.chain(also).collect();
    kinds.into_values().for_each(|all| give(all, &names));
}

fn give(mut all: Vec<(String, &mut Preamble)>, names: &BTreeSet<String>) {
    let pinned = all.iter().filter(|(_, one)| one.pinned);
    let mut taken: HashSet<u32> = pinned.map(|(_, one)| one.id).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, one) in &mut all {
        if !one.pinned {
            let mut id = number(name);
            while id == 0 || !taken.insert(id) {
                id = (id + 1) & 0x00ff_ffff;
            }
            one.id = id;
        }
        if one.alias.is_empty() {
            one.alias = shortest(name, names);
        }
    }
}

/// The shortest end of a name, in whole parts, that no other name has.
fn shortest(name: &str, names: &BTreeSet<String>) -> String {
    let starts = name.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    for start in starts {
        let end = &name[start..];
        if names.iter().filter(|other| ends_in(other, end)).count() == 1 {
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
        let all = ["a.b.t", "a.c.t", "a.u"];
        let names: BTreeSet<String> = all.map(str::to_owned).into();
        assert_eq!(all.map(|name| shortest(name, &names)), ["b.t", "c.t", "u"]);
    }

    #[test]
    fn numbers_that_are_given_are_no_other_ones() {
        let id = |number: u32| {
            let span = crate::ir::SourceSpan { file: crate::ids::FileId(0), start: 0, end: 0 };
            let kind = ExprKind::Number(number.into(), None);
            let value = Expr { kind: std::rc::Rc::new(kind), span, id: 0 };
            let args = vec![Arg { name: None, value }];
            let name = crate::ast::Sp::new("id".into(), span);
            vec![Annotation { name, args, text: "".into(), structured: false }]
        };
        let all = [id(2), Vec::new(), Vec::new()];
        assert_eq!(numbers(all.iter().map(Vec::as_slice)), [2, 3, 4]);
        let all = [Vec::new(), id(2), Vec::new(), id(9), Vec::new()];
        assert_eq!(numbers(all.iter().map(Vec::as_slice)), [1, 2, 3, 9, 4]);
    }
}
