//! Checks that a P4Info given by a controller matches the program given with it.
//!
//! Every object in it must be in the program under the same id and name; tables must have the same match fields and
//! actions, actions the same parameters, arrays the same cells and units. Documentation, annotations and further objects of the program are ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::proto::p4::config::v1 as p4;
use p4::match_field::Match;

/// The compared properties of an object: its name, and its parts as text.
type Seen = (String, Vec<String>);

/// Compares a given P4Info with the program's own.
///
/// # Errors
/// The first difference, and what to do.
pub(super) fn agrees(given: &p4::P4Info, own: &p4::P4Info) -> Result<(), String> {
    let (given, own) = (objects(given), objects(own));
    for ((kind, id), (name, parts)) in &given {
        let help = "make the P4Info of this program with `wireyard p4info`";
        let Some((known, own_parts)) = own.get(&(*kind, *id)) else {
            return Err(format!(
                "the P4Info has {kind} {name} with id {id:#010x}, which the program does not: {help}"
            ));
        };
        if known != name {
            return Err(format!(
                "the P4Info has {kind} {name} with id {id:#010x}, which is {known} in the program: {help}"
            ));
        }
        if let Some(part) = parts.iter().find(|part| !own_parts.contains(part)) {
            return Err(format!(
                "the P4Info has {kind} {name} with {part}, which the program does not: {help}"
            ));
        }
        if let Some(part) = own_parts.iter().find(|part| !parts.contains(part)) {
            return Err(format!(
                "the program has {kind} {name} with {part}, which the P4Info does not: {help}"
            ));
        }
    }
    Ok(())
}

/// Ids of the tables of which messages mean the same in both: they have the same match fields, and actions with the same
/// parameters.
pub(super) fn tables_alike(one: &p4::P4Info, other: &p4::P4Info) -> BTreeSet<u32> {
    let all = [objects(one), objects(other)];
    let is_alike = |kind, id| {
        let [one, other] = all.each_ref().map(|all| all.get(&(kind, id)));
        one.is_some() && one == other
    };
    let alike = one.tables.iter().filter_map(|table| {
        let id = table.preamble.as_ref()?.id;
        let mut actions = table.action_refs.iter().map(|action| action.id);
        (is_alike("table", id) && actions.all(|action| is_alike("action", action))).then_some(id)
    });
    alike.collect()
}

/// All objects by kind and id.
fn objects(info: &p4::P4Info) -> BTreeMap<(&'static str, u32), Seen> {
    let mut all = BTreeMap::new();
    let mut add = |kind, preamble: &Option<p4::Preamble>, parts| {
        if let Some(preamble) = preamble {
            all.insert((kind, preamble.id), (preamble.name.clone(), parts));
        }
    };
    for table in &info.tables {
        let keys = table.match_fields.iter().map(key);
        let actions = table.action_refs.iter().map(|one| format!("action {:#010x}", one.id));
        add("table", &table.preamble, keys.chain(actions).collect());
    }
    for action in &info.actions {
        let param = |one: &p4::action::Param| {
            format!("parameter {} {} of {} bits", one.id, one.name, one.bitwidth)
        };
        add("action", &action.preamble, action.params.iter().map(param).collect());
    }
    for header in &info.controller_packet_metadata {
        let field = |one: &p4::controller_packet_metadata::Metadata| {
            format!("metadata {} {} of {} bits", one.id, one.name, one.bitwidth)
        };
        add("controller header", &header.preamble, header.metadata.iter().map(field).collect());
    }
    for set in &info.value_sets {
        add("value set", &set.preamble, set.r#match.iter().map(key).collect());
    }
    for counter in &info.counters {
        let parts =
            vec![cells(counter.size), counted(counter.spec.as_ref().map(|spec| spec.unit()))];
        add("counter", &counter.preamble, parts);
    }
    for meter in &info.meters {
        let parts = vec![cells(meter.size), counted(meter.spec.as_ref().map(|spec| spec.unit()))];
        add("meter", &meter.preamble, parts);
    }
    for register in &info.registers {
        add("register", &register.preamble, vec![cells(register.size.into())]);
    }
    macro_rules! add_all {
        ($($kind:literal: $field:ident),*) => {
            $(info.$field.iter().for_each(|one| add($kind, &one.preamble, Vec::new()));)*
        };
    }
    add_all!(
        "action profile": action_profiles, "direct counter": direct_counters,
        "direct meter": direct_meters, "digest": digests
    );
    all
}

fn cells(size: i64) -> String {
    format!("{size} cells")
}

/// What a counter or meter counts.
fn counted(unit: Option<impl std::fmt::Debug>) -> String {
    unit.map_or_else(|| "no unit".to_owned(), |unit| format!("unit {unit:?}").to_lowercase())
}

/// The kind of a match, as a program writes it.
pub(super) fn match_kind(field: &p4::MatchField) -> Option<String> {
    Some(match field.r#match.as_ref()? {
        Match::MatchType(kind) => p4::match_field::MatchType::try_from(*kind)
            .map_or("unknown", |kind| kind.as_str_name())
            .to_ascii_lowercase(),
        Match::OtherMatchType(name) => name.clone(),
    })
}

fn key(field: &p4::MatchField) -> String {
    let kind = match_kind(field).unwrap_or_else(|| "none".to_owned());
    format!("match field {} {} of {} bits, {kind}", field.id, field.name, field.bitwidth)
}
