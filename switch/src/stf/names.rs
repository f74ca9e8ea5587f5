//! Names of P4 programs in scripts: `ingress.fib`, `hdr.ipv4.dst`, `tags$0.kind` are the program's `fib`, `ipv4.dst`
//! and `tags[0].kind`.
//!
//! A P4 control plane prefixes names with their blocks; scripts of p4c use such names, whole or without the leading
//! blocks. A name that the program itself has always takes precedence.

use wireyard_pipeline::ir::{Program, Table};
use wireyard_pipeline::p4info::ends_in;

use super::script::{CounterName, EntryText, Statement};

/// The statement with the program's names.
pub(super) fn of_program(statement: &Statement, program: &Program) -> Statement {
    let mut statement = statement.clone();
    match &mut statement {
        Statement::Add(entry) | Statement::Remove(entry) => in_entry(entry, program),
        Statement::SetDefault(table, action) | Statement::Member(table, _, action) => {
            let table = in_table(table, program);
            in_action(action, table, program);
        }
        Statement::Group(table, ..) | Statement::CheckEntries(table, _) => {
            in_table(table, program);
        }
        Statement::CheckCounter(CounterName::Direct(entry), ..) => in_entry(entry, program),
        Statement::CheckCounter(CounterName::Indexed(name, _), ..) => {
            in_state(name, program, program.counters.iter().map(|one| one.name.as_str()));
        }
        Statement::Register(name, ..)
        | Statement::CheckRegister(name, ..)
        | Statement::RegisterReset(name)
        | Statement::RegisterRead(name, _) => {
            in_state(name, program, program.registers.iter().map(|one| one.name.as_str()));
        }
        Statement::MeterRates(name, ..) | Statement::MeterRead(name, _) => {
            in_state(name, program, program.meters.iter().map(|one| one.name.as_str()));
        }
        Statement::ValueSet(name, _) => {
            replace(name, program.value_sets.iter().map(|set| set.name.as_str()));
        }
        _ => {}
    }
    statement
}

/// Whether a statement has the priority 0, which no entry has.
pub(super) fn has_priority_0(statement: &Statement) -> bool {
    match statement {
        Statement::Add(entry)
        | Statement::Remove(entry)
        | Statement::CheckCounter(CounterName::Direct(entry), ..) => entry.priority == Some(0),
        _ => false,
    }
}

/// Raises a priority by 1, for scripts in which they begin at 0.
pub(super) fn raise_priority(statement: &mut Statement) {
    let (Statement::Add(entry)
    | Statement::Remove(entry)
    | Statement::CheckCounter(CounterName::Direct(entry), ..)) = statement
    else {
        return;
    };
    entry.priority = entry.priority.map(|priority| priority.saturating_add(1));
}

fn in_table<'p>(name: &mut String, program: &'p Program) -> Option<&'p Table> {
    let is_known = program.tables.iter().any(|table| table.name == *name);
    if let (Some(origin), false) = (&program.origin, is_known) {
        let behind = format!(".{name}");
        let mut found =
            origin.tables.iter().filter(|(_, full)| *full == name || full.ends_with(&behind));
        if let (Some((only, _)), None) = (found.next(), found.next()) {
            *name = only.clone();
        }
    }
    replace(name, program.tables.iter().map(|table| table.name.as_str()));
    program.tables.iter().find(|table| table.name == *name)
}

fn in_entry(entry: &mut EntryText, program: &Program) {
    let table = in_table(&mut entry.table, program);
    for (key, _) in entry.keys.iter_mut().filter(|_| table.is_some()) {
        let keys = table.iter().flat_map(|table| &table.keys);
        let names = keys.map(|key| key.name.as_str());
        if let Some(known) = validity(key, names.clone()) {
            *key = known.to_owned();
        }
        replace(key, names);
    }
    in_action(&mut entry.action, table, program);
}

/// The key that is `isValid()` of a header, which scripts of p4c write as `hdr.h.valid`, `hdr.h` or, with only one
/// header, `valid`.
fn validity<'n>(key: &str, known: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    if known.clone().any(|known| known == key) {
        return None;
    }
    let header = key.strip_suffix(".valid").unwrap_or(key);
    let headers = known.filter_map(|known| Some((known, known.strip_suffix(".$valid$")?)));
    let mut found = headers.filter(|(_, of)| key == "valid" || ends_in(of, header));
    match (found.next(), found.next()) {
        (Some((only, _)), None) => Some(only),
        _ => None,
    }
}

fn in_action(call: &mut String, table: Option<&Table>, program: &Program) {
    let end = call.find('(').unwrap_or(call.len());
    let mut name = call[..end].trim().to_owned();
    match table.and_then(|table| listed(&name, table, program)) {
        Some(listed) => name = listed,
        None => replace(&mut name, program.actions.iter().map(|action| action.name.as_str())),
    }
    call.replace_range(..end, &name);
}

/// The action of a table with this control-plane name, if the program has another name for it: P4 has several actions
/// of one name.
fn listed(name: &str, table: &Table, program: &Program) -> Option<String> {
    let actions = table.actions.iter().chain([&table.default.action]);
    let of_table: Vec<&str> =
        actions.filter_map(|id| Some(program.actions.get(*id)?.name.as_str())).collect();
    if of_table.contains(&name) {
        return None;
    }
    let full = |known: &str| program.origin.as_ref()?.actions.get(known).cloned();
    let mut names: Vec<String> = of_table.iter().filter_map(|known| full(known)).collect();
    // The action of the default is in the list too.
    names.sort();
    names.dedup();
    let mut wanted = name.to_owned();
    replace(&mut wanted, names.iter().map(String::as_str));
    let mut found = of_table.into_iter().filter(|known| full(known).as_deref() == Some(&*wanted));
    found.next().map(str::to_owned)
}

/// A register, counter or meter: by its control-plane name, if it was renamed here because of a keyword of the
/// language.
fn in_state<'n>(
    name: &mut String,
    program: &Program,
    known: impl Iterator<Item = &'n str> + Clone,
) {
    if let Some(origin) = &program.origin
        && !known.clone().any(|one| one == name.as_str())
    {
        let behind_block = format!(".{name}");
        let mut found = known.clone().filter(|one| {
            let full = origin.objects.get(*one);
            full.is_some_and(|full| full == name || full.ends_with(&behind_block))
        });
        if let (Some(only), None) = (found.next(), found.next()) {
            *name = only.to_owned();
            return;
        }
    }
    replace(name, known);
}

/// Replaces a name by the known name that it matches, if there is exactly one.
fn replace<'n>(name: &mut String, known: impl Iterator<Item = &'n str> + Clone) {
    if known.clone().any(|known| known == name.as_str()) {
        return;
    }
    let wanted = parts(name);
    // A name that is a keyword of the language is prefixed by its block: `ingress.drop` is `ingress_drop`.
    let joined = (0..wanted.len().saturating_sub(1)).map(|from| wanted[from..].join("_"));
    let mut joined = joined.filter_map(|joined| known.clone().find(|known| *known == joined));
    if let Some(only) = joined.next() {
        *name = only.to_owned();
        return;
    }
    // The more parts are equal, from the end, the better; the parts of only one of them are surrounding blocks.
    let common = |known: &str| {
        let known = parts(known);
        let pairs = wanted.iter().rev().zip(known.iter().rev());
        let same = pairs.take_while(|(a, b)| a == b).count();
        (same == wanted.len() || same == known.len()).then_some(same)
    };
    let best = known.clone().filter_map(common).max();
    let mut found = known.filter(|known| best.is_some() && common(known) == best);
    if let (Some(only), None) = (found.next(), found.next()) {
        *name = only.to_owned();
    }
}

/// `tags$0.kind` and `tags[0].kind` have the same parts.
fn parts(name: &str) -> Vec<String> {
    let part = |part: &str| match part.split_once('$') {
        Some((stack, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{stack}[{number}]")
        }
        _ => part.to_owned(),
    };
    name.split('.').map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(name: &str, known: &[&str]) -> String {
        let mut name = name.to_owned();
        replace(&mut name, known.iter().copied());
        name
    }

    #[test]
    fn the_blocks_around_a_name_may_be_there_or_not() {
        assert_eq!(meant("ingress.fib", &["acl", "fib"]), "fib");
        assert_eq!(meant("ipv4.dst", &["hdr.ipv4.src", "hdr.ipv4.dst"]), "hdr.ipv4.dst");
        assert_eq!(
            meant("tags$0.kind", &["hdr.tags[0].kind", "hdr.tags[1].kind"]),
            "hdr.tags[0].kind"
        );
        assert_eq!(meant("a.b.t", &["t", "b.t", "c.t"]), "b.t");
    }

    #[test]
    fn a_header_may_stand_for_its_validity() {
        let known = ["hdr.a.$valid$", "hdr.b.$valid$", "hdr.a.x"];
        let found = |key: &str| validity(key, known.into_iter());
        assert_eq!(found("hdr.a.valid"), Some("hdr.a.$valid$"));
        assert_eq!(found("hdr.b"), Some("hdr.b.$valid$"));
        assert_eq!(found("b"), Some("hdr.b.$valid$"));
        assert_eq!(found("valid"), None);
        assert_eq!(found("hdr.a.x"), None);
        assert_eq!(validity("valid", ["h.$valid$", "h.x"].into_iter()), Some("h.$valid$"));
    }

    #[test]
    fn a_name_of_the_program_means_that_and_one_that_means_two_things_none() {
        assert_eq!(meant("fib", &["fib", "ingress.fib"]), "fib");
        assert_eq!(meant("t", &["a.t", "b.t"]), "t");
        assert_eq!(meant("x.y", &["x", "y.x"]), "x.y");
        assert_eq!(meant("ingress.drop", &["drop", "ingress_drop"]), "ingress_drop");
    }
}
