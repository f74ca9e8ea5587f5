//! The forwarding pipeline configuration: the running program.

use std::collections::BTreeSet;
use std::sync::Arc;

use wireyard_pipeline::ids::Id;

use super::device::{Device, Pipeline, election};
use super::fit;
use super::pack::{self, PackError};
use super::persist;
use super::persist::record::{self, Staying};
use super::proto::p4::v1 as p4;
use super::saved;
use super::saved::{Checked, Saved};
use super::schema::Schema;
use super::watch::Name;
use super::write;
use crate::control::{ControlError, Fate, Keep, ObjectFate, Swap, Unit, invalid};
use crate::program;
use p4::get_forwarding_pipeline_config_request::ResponseType;
use p4::set_forwarding_pipeline_config_request::Action;

type Result<T> = std::result::Result<T, ControlError>;

/// The configuration, with the parts that `wanted` selects.
///
/// # Errors
/// [`ControlError::InvalidArgument`]: an unknown response type.
pub fn get(device: &Device, wanted: i32) -> Result<p4::ForwardingPipelineConfig> {
    let pipeline = device.pipeline();
    let cookie = (pipeline.cookie != 0)
        .then_some(p4::forwarding_pipeline_config::Cookie { cookie: pipeline.cookie });
    pipeline.check()?;
    let Ok(wanted) = ResponseType::try_from(wanted) else {
        return invalid("unknown response type");
    };
    let (info, blob) = match wanted {
        ResponseType::All => (true, true),
        ResponseType::CookieOnly => (false, false),
        ResponseType::P4infoAndCookie => (true, false),
        ResponseType::DeviceConfigAndCookie => (false, true),
    };
    Ok(p4::ForwardingPipelineConfig {
        p4info: info.then(|| pipeline.schema.info.clone()),
        p4_device_config: if blob { pipeline.blob.clone() } else { Vec::new() },
        cookie,
    })
}

/// Executes a request. Write permission is checked before a program is compiled, so that no other controller can cause
/// that cost, and again when it is put in force: a long compilation does not prevent another controller from becoming
/// primary.
///
/// # Errors
/// Nothing has changed; or the new program runs, and an update since VERIFY_AND_SAVE was refused or the store has failed.
pub fn set(device: &Device, request: p4::SetForwardingPipelineConfigRequest) -> Result<()> {
    let election = election(request.election_id.as_ref());
    let writing = || {
        let arbitration = device.arbitration();
        arbitration.may_write(&request.role, election).map(|()| arbitration)
    };
    drop(writing()?);
    let commit = |checked: &Checked, keep: Keep, saved: Option<&Arc<Saved>>| {
        let swap = prepare(device, checked, keep)?;
        let _writing = writing()?;
        exchange_and(device, swap, Arc::clone(&checked.pipeline), keep, |unit| {
            match saved {
                Some(saved) => device.committed(saved),
                None => device.save(None),
            }
            let since = saved.into_iter().flat_map(|saved| saved.take());
            replay(device, unit, &checked.pipeline.schema, since)
        })
    };
    let checked = |config: Option<p4::ForwardingPipelineConfig>| match config {
        Some(config) => check(config),
        None => invalid("the request has no configuration"),
    };
    // Whether the device can run it is a part of the verification: with `--engine jit` it needs machine code.
    let verified = |config| {
        let checked = checked(config)?;
        device.control.prepare(&checked.loaded, Keep::Nothing)?;
        Ok(checked)
    };
    match Action::try_from(request.action) {
        Ok(Action::Verify) => verified(request.config).map(drop),
        Ok(Action::VerifyAndSave) => {
            let saved = Saved::new(device.id, verified(request.config)?)?;
            let _writing = writing()?;
            device.save(Some(Arc::new(saved)));
            Ok(())
        }
        Ok(Action::Commit) if request.config.is_some() => {
            let text = "COMMIT takes the saved configuration: the request must have none";
            invalid(text)
        }
        Ok(Action::Commit) => match device.saved() {
            // If the program is refused, COMMIT can be requested again.
            Some(saved) => commit(&saved.checked, Keep::Nothing, Some(&saved)),
            None => Err(ControlError::NotFound(
                "no configuration was saved: send VERIFY_AND_SAVE first".into(),
            )),
        },
        Ok(Action::VerifyAndCommit) => commit(&checked(request.config)?, Keep::Nothing, None),
        Ok(Action::ReconcileAndCommit) => commit(&checked(request.config)?, Keep::WhatFits, None),
        Ok(Action::Unspecified) => invalid("the request has no action"),
        Err(_) => invalid(format!("there is no action {}", request.action)),
    }
}

/// Repeats the writes since VERIFY_AND_SAVE; they were tried, so they should not be refused.
fn replay(
    device: &Device,
    unit: &mut Unit<'_>,
    schema: &Schema,
    since: impl Iterator<Item = saved::Done>,
) -> Result<()> {
    let mut refused = None;
    for (mode, updates) in since {
        let results =
            write::in_unit(device, unit, schema, &updates, mode).err().unwrap_or_default();
        refused = refused.or(results.into_iter().find_map(std::result::Result::err));
    }
    refused.map_or(Ok(()), Err)
}

/// Compiles a pushed program and compares its P4Info with the given one.
fn check(config: p4::ForwardingPipelineConfig) -> Result<Checked> {
    let parsed = pack::unpack(&config.p4_device_config, config.p4info.as_ref())
        .map_err(ControlError::invalid)?;
    let loaded = program::without_entries(parsed)
        .map_err(|rejected| ControlError::invalid(PackError::Rejected(Box::new(rejected))))?;
    let schema = Arc::new(Schema::of(loaded.program.clone()));
    if let Some(given) = &config.p4info {
        fit::agrees(given, &schema.info).map_err(ControlError::invalid)?;
        fit::has_room(given).map_err(ControlError::invalid)?;
    }
    let cookie = config.cookie.map_or(0, |cookie| cookie.cookie);
    let pipeline = Pipeline { schema, blob: config.p4_device_config, cookie, is_absent: false };
    Ok(Checked { loaded, pipeline: Arc::new(pipeline) })
}

/// Prepares a program to replace the running one. With RECONCILE the whole state must be kept.
fn prepare(device: &Device, checked: &Checked, keep: Keep) -> Result<Swap> {
    let swap = device.control.prepare(&checked.loaded, keep)?;
    if let (Keep::WhatFits, Some(lost)) = (keep, swap.lost()) {
        return invalid(format!(
            "{} {} is different in the new program, so its state cannot be kept: use VERIFY_AND_COMMIT, which begins anew",
            lost.kind, lost.name
        ));
    }
    if keep == Keep::WhatFits {
        let before = Arc::clone(&device.pipeline().schema);
        let kept = KeptTables::of(&swap, &before, &checked.pipeline.schema);
        let has_metadata = device.kept().has_entry_of(|table| !kept.tables.contains(&table));
        let has_watched = device.watch().has(|name| match name {
            Name::Group(profile, _) => !kept.profiles.contains(&profile),
            Name::Multicast(_) | Name::Session(_) => false,
        });
        if has_metadata || has_watched {
            let what = if has_metadata {
                "metadata of entries"
            } else {
                "watched ports of groups, or settings of action sets"
            };
            return invalid(format!(
                "a table has another id in the new program, and {what} would be lost, which belong to the id: give the \
                 table its id with @id, or use VERIFY_AND_COMMIT, which begins anew"
            ));
        }
    }
    Ok(swap)
}

/// The ids of tables that keep their contents, and of their action profiles.
struct KeptTables {
    tables: BTreeSet<u32>,
    profiles: BTreeSet<u32>,
}

impl KeptTables {
    fn of(swap: &Swap, old: &Schema, new: &Schema) -> KeptTables {
        let ids = |schema: &Schema| {
            let kept = schema.program.tables.entries().filter(|(_, table)| {
                let is_it = |one: &ObjectFate| one.kind == "table" && one.name == table.name;
                swap.report().iter().any(|one| is_it(one) && one.fate == Fate::Kept)
            });
            let place = kept.map(|(id, _)| id.index());
            let pair = |at| (schema.ids.tables[at], schema.ids.profiles[at]);
            place.map(pair).unzip::<u32, u32, BTreeSet<u32>, BTreeSet<u32>>()
        };
        // A table may have another id in the new program: what is known by the old one is of no use then.
        let ((tables, profiles), (new_tables, new_profiles)) = (ids(old), ids(new));
        KeptTables { tables: &tables & &new_tables, profiles: &profiles & &new_profiles }
    }
}

/// Puts the prepared program in force, and stores it for the next start.
///
/// # Errors
/// Nothing has changed; or the program runs and is not stored.
pub fn exchange(device: &Device, swap: Swap, pipeline: Arc<Pipeline>, keep: Keep) -> Result<()> {
    exchange_and(device, swap, pipeline, keep, |_| Ok(()))
}

/// Like [`exchange`]; `write` is called once the program runs, and what it writes is stored together with the program.
fn exchange_and(
    device: &Device,
    swap: Swap,
    pipeline: Arc<Pipeline>,
    keep: Keep,
    write: impl FnOnce(&mut Unit<'_>) -> Result<()>,
) -> Result<()> {
    let mut unit = device.control.unit()?;
    let old = device.control.program();
    let before = Arc::clone(&device.pipeline().schema);
    let kept = KeptTables::of(&swap, &before, &pipeline.schema);
    let stays = match keep {
        Keep::Nothing => Staying::of_no_program(),
        Keep::WhatFits => Staying::kept_by(&swap, &before, &pipeline.schema),
    };
    let is_kept = device.control.is_kept();
    let cells = is_kept.then(|| persist::new_cells(&swap, &device.control, &pipeline.schema));
    swap.commit()?;
    {
        // Locked until controllers see the new program, in which the digests have their new ids.
        let mut digests = device.digests();
        match keep {
            Keep::Nothing => digests.clear(),
            Keep::WhatFits => digests.adopt(&old, &pipeline.schema.program),
        }
        device.set_pipeline(Arc::clone(&pipeline));
    }
    // What is known of objects that began anew would be taken as of their successors.
    let owners = match keep {
        Keep::Nothing => {
            *device.kept() = Default::default();
            Vec::new()
        }
        Keep::WhatFits => device.kept().retain_tables(|id| kept.tables.contains(&id)),
    };
    let names = device.watch().retain(|name| match name {
        _ if keep == Keep::Nothing => false,
        Name::Group(profile, _) => kept.profiles.contains(&profile),
        Name::Multicast(_) | Name::Session(_) => true,
    });
    // From here on the program runs; errors are returned at the end.
    let mut recorded = Ok(());
    if let Some(cells) = cells {
        match persist::all_but(&stays, &device.control, &pipeline, cells) {
            Ok(mut changes) => {
                changes.extend(owners.into_iter().map(|owner| record::metadata(owner, None)));
                changes.extend(names.into_iter().map(|name| record::watched(name, None)));
                unit.replace(changes, stays.keys);
            }
            Err(error) => {
                // Neither this nor what is written later belongs beside what is stored of the old program.
                tracing::error!(
                    event = "state",
                    "the program is not kept for the next start: {error}: writes are refused from now on"
                );
                unit.fail(&error);
                device.storage.iter().for_each(|counts| counts.failed());
                recorded = Err(error);
            }
        }
    }
    let written = write(&mut unit);
    let stored = unit.end().wait();
    recorded.and(stored).and(written)
}

#[cfg(test)]
mod tests;
