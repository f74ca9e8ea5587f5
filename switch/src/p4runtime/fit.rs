//! Checks that a P4Info given by a controller matches the program given with it.
//!
//! Every object in it must be in the program under the same id and name; tables must have the same match fields and
//! actions in the same places, actions the same parameters, arrays the same cells, units and types, profiles and direct
//! objects the same tables. Documentation, annotations, sizes of tables and profiles, and further objects of the program
//! are ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::proto::p4::config::v1 as p4;
use crate::replicate::COPIES_MAX;
use p4::action_ref::Scope;
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

/// Checks that the multicast groups that a P4Info demands have room (P4Runtime specification 1.5, section 6.2).
///
/// # Errors
/// The property that is too large, and what there is.
pub(super) fn has_room(given: &p4::P4Info) -> Result<(), String> {
    let package = given.pkg_info.as_ref();
    let Some(wanted) = package.and_then(|package| package.platform_properties.as_ref()) else {
        return Ok(());
    };
    let groups = i64::from(u16::MAX);
    let copies = i64::from(COPIES_MAX);
    for (name, wanted, most) in [
        ("multicast_group_table_size", wanted.multicast_group_table_size, groups),
        (
            "multicast_group_table_total_replicas",
            wanted.multicast_group_table_total_replicas,
            groups * copies,
        ),
        (
            "multicast_group_table_max_replicas_per_entry",
            wanted.multicast_group_table_max_replicas_per_entry,
            copies,
        ),
    ] {
        if i64::from(wanted) > most {
            return Err(format!("the P4Info asks for {name} {wanted}, and this switch has {most}"));
        }
    }
    Ok(())
}

/// Ids of the tables of which messages mean the same in both: they and their actions are the same in
/// everything that is compared with a pushed P4Info.
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
        add("table", &table.preamble, of_table(table));
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
        let unit = counted(meter.spec.as_ref().map(|spec| spec.unit()));
        let parts = vec![cells(meter.size), unit, metered(&meter.spec)];
        add("meter", &meter.preamble, parts);
    }
    for register in &info.registers {
        let parts = vec![cells(register.size.into()), typed(&register.type_spec)];
        add("register", &register.preamble, parts);
    }
    for profile in &info.action_profiles {
        let weights = if profile.weights_disallowed { "no weights" } else { "weights" };
        let selector = if profile.with_selector { "a selector" } else { "no selector" };
        add("action profile", &profile.preamble, vec![selector.to_owned(), weights.to_owned()]);
    }
    for counter in &info.direct_counters {
        add("direct counter", &counter.preamble, vec![of("table", counter.direct_table_id)]);
    }
    for meter in &info.direct_meters {
        let parts = vec![of("table", meter.direct_table_id), metered(&meter.spec)];
        add("direct meter", &meter.preamble, parts);
    }
    for digest in &info.digests {
        add("digest", &digest.preamble, vec![typed(&digest.type_spec)]);
    }
    all
}

/// Match fields, actions and what is constant.
fn of_table(table: &p4::Table) -> Vec<String> {
    let action = |one: &p4::ActionRef| {
        let place = match one.scope() {
            Scope::TableAndDefault => "",
            Scope::TableOnly => " for entries only",
            Scope::DefaultOnly => " for the default only",
        };
        format!("action {:#010x}{place}", one.id)
    };
    let mut parts: Vec<String> = table.match_fields.iter().map(key).collect();
    parts.extend(table.action_refs.iter().map(action));
    parts.push(of("action profile", table.implementation_id));
    parts.push(of("constant default action", table.const_default_action_id));
    let entries = if table.is_const_table { "constant entries" } else { "entries that may change" };
    parts.push(entries.to_owned());
    parts
}

/// An object by its id, or that there is none.
fn of(what: &str, id: u32) -> String {
    if id == 0 { format!("no {what}") } else { format!("{what} {id:#010x}") }
}

/// The type of a meter.
fn metered(spec: &Option<p4::MeterSpec>) -> String {
    let kind = spec.as_ref().map(p4::MeterSpec::r#type).unwrap_or_default();
    format!("type {}", kind.as_str_name().to_ascii_lowercase())
}

/// A type of data, in short.
fn typed(spec: &Option<p4::P4DataTypeSpec>) -> String {
    use p4::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use p4::p4_data_type_spec::TypeSpec as Data;
    let bits = |of: &p4::P4BitstringLikeTypeSpec| match &of.type_spec {
        Some(Bits::Bit(of)) => format!("bit<{}>", of.bitwidth),
        Some(Bits::Int(of)) => format!("int<{}>", of.bitwidth),
        Some(Bits::Varbit(of)) => format!("varbit<{}>", of.max_bitwidth),
        None => "bits".to_owned(),
    };
    let Some(found) = spec.as_ref().and_then(|spec| spec.type_spec.as_ref()) else {
        return "no type".to_owned();
    };
    let text = match found {
        Data::Bitstring(of) => bits(of),
        Data::Bool(_) => "bool".to_owned(),
        Data::Struct(named) | Data::Header(named) | Data::Enum(named) => named.name.clone(),
        Data::SerializableEnum(named) | Data::NewType(named) => named.name.clone(),
        Data::Tuple(of) => {
            let one = |one: &p4::P4DataTypeSpec| typed(&Some(one.clone()));
            format!("tuple<{}>", of.members.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    };
    format!("type {text}")
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

#[cfg(test)]
mod tests;
