//! The description of a switch: its program by name, and its ports.

use serde_json::{Value, json};
use wireyard_pipeline::ir::{ActionCall, MatchField, Param, Program, Table};

use super::show;
use crate::control::{Control, ControlError, Entity, Query};

/// The description as a document.
///
/// # Errors
/// A worker does not respond.
pub fn describe(control: &Control, name: &str) -> Result<Value, ControlError> {
    let ports = control.ports()?;
    Ok(json!({
        "switch": name,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "workers": control.workers(),
        "ports": ports,
        "program": program(control),
    }))
}

fn params(params: &[Param]) -> Value {
    params.iter().map(|param| json!({ "name": param.name, "bits": param.bits })).collect()
}

fn program(control: &Control) -> Value {
    let program = control.program();
    let mut tables = Vec::new();
    for (id, one) in program.tables.entries() {
        // Of the program by ids; if it was replaced meanwhile, the description is of neither.
        let mut default = None;
        let query = Query::DefaultActions { table: Some(id) };
        let _ = control.visit_of(&program, &query, &mut |found| {
            if let Entity::DefaultAction { action, .. } = found {
                default = action;
            }
        });
        // No slot is read, only the number of entries.
        let entries = control.entries_from(&one.name, 0, 0).map_or(0, |part| part.all);
        tables.push(table(&program, one, default.as_ref(), entries));
    }
    let sized = |name: &str, size: u32| json!({ "name": name, "size": size });
    let registers = program.registers.iter().map(|one| {
        let cells = one.cells.iter();
        let cells: Value =
            cells.map(|cell| json!({ "name": cell.name, "bits": cell.bits })).collect();
        json!({ "name": one.name, "size": one.size, "cells": cells })
    });
    let sets = program.value_sets.iter();
    let sets = sets.map(|one| {
        let keys: Value = one.keys.iter().map(key).collect();
        json!({ "name": one.name, "bits": one.bits(), "size": one.size, "keys": keys })
    });
    let digests = program.digests.iter();
    let digests = digests.map(|one| json!({ "name": one.name, "fields": params(&one.fields) }));
    json!({
        "name": program.name,
        "tables": tables,
        "counters": program.counters.iter().map(|one| sized(&one.name, one.size)).collect::<Value>(),
        "meters": program.meters.iter().map(|one| sized(&one.name, one.size)).collect::<Value>(),
        "registers": registers.collect::<Value>(),
        "value_sets": sets.collect::<Value>(),
        "digests": digests.collect::<Value>(),
    })
}

fn key(key: &MatchField) -> Value {
    json!({ "name": key.name, "kind": key.kind.name(), "bits": key.bits })
}

fn table(program: &Program, table: &Table, default: Option<&ActionCall>, entries: u32) -> Value {
    let keys = table.keys.iter().map(|one| key(&one.field));
    let actions = table.actions.iter().filter_map(|id| program.actions.get(*id));
    let actions =
        actions.map(|action| json!({ "name": action.name, "params": params(&action.params) }));
    let default = default.map(|call| show::call(program, call));
    let meter = table.meter.map(|kind| {
        let rates = if kind.two_rates { "two rates" } else { "one rate" };
        format!("{rates}, {}", if kind.packets { "packets" } else { "bytes" })
    });
    json!({
        "name": table.name,
        "keys": keys.collect::<Value>(),
        "actions": actions.collect::<Value>(),
        "default": default,
        "entries": entries,
        "size": table.size,
        "counters": table.counters,
        "meter": meter,
        "idle_timeout_ms": table.idle_timeout_ms,
        "const_entries": table.const_entries,
        "selector": table.selector.is_some(),
    })
}
