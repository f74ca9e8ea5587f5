//! The program of a running switch: replaced, or compared with one that could replace it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::control::{ControlError, Fate, Keep, ObjectFate};
use crate::p4runtime::device::{Device, Pipeline};
use crate::p4runtime::pack;
use crate::p4runtime::pipeline::exchange;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::p4runtime::schema::Schema;
use crate::program;

/// The name of what happens to an object.
fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Kept => "kept",
        Fate::Changed => "changed",
        Fate::New => "new",
        Fate::Lost => "lost",
    }
}

/// Compiles the program beside the running one, reports what survives, and replaces the running one unless only the
/// report is requested.
///
/// # Errors
/// Nothing has changed; or the new program runs and is not stored.
pub fn swap(device: &Device, request: &wire::SwapRequest) -> Result<Value, ControlError> {
    let parsed = pack::unpack(&request.program, None).map_err(ControlError::invalid)?;
    let mut loaded = program::without_entries(parsed)
        .map_err(|rejected| ControlError::invalid(pack::PackError::Rejected(Box::new(rejected))))?;
    if !request.entries.is_empty() {
        loaded =
            loaded.with_entries("entries.yaml", &request.entries).map_err(ControlError::invalid)?;
    }
    let keep = if request.anew { Keep::Nothing } else { Keep::WhatFits };
    let swap = device.control.prepare(&loaded, keep)?;
    let objects: Vec<Value> = swap
        .report()
        .iter()
        .map(|one| {
            let ObjectFate { kind, name, fate, entries } = one;
            json!({ "kind": kind, "name": name, "fate": word(*fate), "entries": entries })
        })
        .collect();
    if request.keep_all
        && let Some(lost) = swap.lost()
    {
        return Err(ControlError::FailedPrecondition(format!(
            "{} {} would not keep what is in it ({}); nothing was changed",
            lost.kind,
            lost.name,
            word(lost.fate)
        )));
    }
    let before = device.control.program().name.clone();
    if !request.dry_run {
        let schema = Arc::new(Schema::of(loaded.program.clone()));
        let pipeline =
            Pipeline { schema, blob: request.program.clone(), cookie: 0, is_absent: false };
        exchange(device, swap, Arc::new(pipeline), keep)?;
    }
    Ok(json!({
        "before": before,
        "program": loaded.program.name,
        "done": !request.dry_run,
        "objects": objects,
    }))
}
