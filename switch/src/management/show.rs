//! Objects of a device as JSON, in the notation of entries.yaml.

use serde_json::{Map, Value, json};
use wireyard_pipeline::ir::{ActionCall, MeterKind, Program, SetMember, Table, ValueSet};
use wireyard_pipeline::trace::names::value;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::Span;

use crate::control::{Entity, EntryKey, TableEntry, Target};
use crate::core::match_text;
use crate::replicate::{Member, Members};

/// An action with its arguments: `forward(2)`.
pub fn call(program: &Program, call: &ActionCall) -> String {
    let Some(action) = program.actions.get(call.action) else {
        return format!("action {}", call.action.0);
    };
    let args = action.params.iter().zip(&call.args);
    let args: Vec<String> =
        args.map(|(param, arg)| value(param.display, param.bits, *arg)).collect();
    match args.is_empty() {
        true => action.name.clone(),
        false => format!("{}({})", action.name, args.join(", ")),
    }
}

/// The rates of a meter, and their unit.
fn rates(config: MeterConfig, kind: Option<MeterKind>) -> Value {
    let mut rates = match config {
        MeterConfig::SingleRate { cir, cbs, ebs } => json!({ "cir": cir, "cbs": cbs, "ebs": ebs }),
        MeterConfig::TwoRate { cir, cbs, pir, pbs } => {
            json!({ "cir": cir, "cbs": cbs, "pir": pir, "pbs": pbs })
        }
    };
    let is_of_packets = kind.is_some_and(|kind| kind.packets);
    rates["unit"] = if is_of_packets { "packets" } else { "bytes" }.into();
    rates
}

/// The keys of an entry in the notation of commands.
pub fn key(program: &Program, key: &EntryKey) -> String {
    let keys = program.tables.get(key.table).into_iter().flat_map(|table| &table.keys);
    let written = keys.zip(&key.matches);
    let mut words: Vec<String> = written
        .filter_map(|(key, one)| Some(format!("{}={}", key.name, match_text(key, one)?)))
        .collect();
    if words.is_empty() {
        words.push("that matches any packet".to_owned());
    }
    if key.priority > 0 {
        words.push(format!("--priority {}", key.priority));
    }
    words.join(" ")
}

/// A member of a value set in the notation of entries files: a pattern, or those of keys that do not match everything.
pub(super) fn set_member(set: &ValueSet, member: &SetMember) -> Value {
    if let ([key], [one]) = (set.keys.as_slice(), member.as_slice()) {
        return match_text(key, one).unwrap_or_else(|| "_".to_owned()).into();
    }
    let pairs = set.keys.iter().zip(member);
    let literals = pairs.filter_map(|(key, one)| Some((key.name.clone(), match_text(key, one)?)));
    literals.map(|(name, text)| (name, Value::from(text))).collect::<Map<_, _>>().into()
}

/// Key and number of an idle timeout in an entries file: milliseconds, or nanoseconds where these are not exact.
pub(super) fn timeout_text(timeout: Span) -> (&'static str, u64) {
    match timeout.as_ns() {
        ns if ns.is_multiple_of(1_000_000) => ("idle_timeout_ms", ns / 1_000_000),
        ns => ("idle_timeout_ns", ns),
    }
}

fn entry(program: &Program, table: &Table, entry: &TableEntry) -> Value {
    let TableEntry { key, target, idle_timeout, meter, counter, since_hit, is_const } = entry;
    let keys = table.keys.iter().zip(&key.matches);
    let literals = keys.filter_map(|(key, one)| Some((key.name.clone(), match_text(key, one)?)));
    let matches: Map<String, Value> =
        literals.map(|(name, text)| (name, Value::from(text))).collect();
    let mut shown = json!({ "table": table.name, "match": matches });
    if key.priority > 0 {
        shown["priority"] = key.priority.into();
    }
    shown["action"] = match target {
        Target::Action(action) => call(program, action),
        Target::Member(member) => format!("member({member})"),
        Target::Group(group) => format!("group({group})"),
    }
    .into();
    if *is_const {
        shown["const"] = true.into();
    }
    if let Some(timeout) = idle_timeout {
        let (key, number) = timeout_text(*timeout);
        shown[key] = number.into();
    }
    if let Some(config) = meter {
        shown["meter"] = rates(*config, table.meter);
    }
    if let Some(count) = counter {
        (shown["packets"], shown["bytes"]) = (count.packets.into(), count.bytes.into());
    }
    if let Some(since) = since_hit.filter(|_| idle_timeout.is_some()) {
        shown["since_hit_ms"] = (since.as_ns() / 1_000_000).into();
    }
    shown
}

/// An object of this program; `None` for one that it does not have.
pub fn entity(program: &Program, entity: &Entity) -> Option<Value> {
    Some(match entity {
        Entity::TableEntry(one) => entry(program, program.tables.get(one.key.table)?, one),
        Entity::DefaultAction { table, action } => {
            let action = action.as_ref().map(|action| call(program, action));
            json!({ "table": program.tables.get(*table)?.name, "default": action })
        }
        Entity::Member { table, id, action } => {
            let table = &program.tables.get(*table)?.name;
            json!({ "table": table, "member": id, "action": call(program, action) })
        }
        Entity::Group { table, id, members } => {
            let members = members.iter();
            let members: Vec<Value> =
                members.map(|one| json!({ "member": one.member, "weight": one.weight })).collect();
            json!({ "table": program.tables.get(*table)?.name, "group": id, "members": members })
        }
        Entity::Counter { counter, index, count } => {
            let name = &program.counters.get(*counter)?.name;
            json!({ "counter": name, "index": index, "packets": count.packets, "bytes": count.bytes })
        }
        Entity::Meter { meter, index, config } => {
            let declared = program.meters.get(*meter)?;
            let rates = config.map(|config| rates(config, Some(declared.kind)));
            json!({ "meter": declared.name, "index": index, "rates": rates })
        }
        Entity::Register { register, index, cells } => {
            let declared = program.registers.get(*register)?;
            let cells = declared.cells.iter().zip(cells);
            let cells: Map<String, Value> =
                cells.map(|(cell, value)| (cell.name.clone(), (*value).into())).collect();
            json!({ "register": declared.name, "index": index, "cells": cells })
        }
        Entity::ValueSet { set, members } => {
            let declared = program.value_sets.get(*set)?;
            let members: Vec<Value> =
                members.iter().map(|member| set_member(declared, member)).collect();
            json!({ "value_set": declared.name, "members": members })
        }
        Entity::Multicast { id, group } => {
            let ports = match &group.members {
                Members::All => Value::from("all"),
                Members::List(list) => copies(list),
            };
            json!({ "multicast_group": id, "ports": ports, "prune_ingress": group.prune_ingress })
        }
        Entity::Mirror { id, session } => {
            let mut shown = json!({ "mirror_session": id });
            match session.replicas.as_slice() {
                [one] => {
                    shown["port"] = one.port.0.into();
                    shown["instance"] = one.instance.into();
                }
                several => shown["ports"] = copies(several),
            }
            if let Some(class) = session.traffic_class {
                shown["traffic_class"] = class.into();
            }
            if session.truncate_bytes > 0 {
                shown["truncate"] = session.truncate_bytes.into();
            }
            shown
        }
        _ => return None,
    })
}

/// The destinations of copies.
fn copies(members: &[Member]) -> Value {
    let copy = |one: &Member| json!({ "port": one.port, "instance": one.instance });
    members.iter().map(copy).collect()
}
