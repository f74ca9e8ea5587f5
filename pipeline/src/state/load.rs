//! From a program's declarations to tables, registers, counters and meters.

use super::value_set::Set;
use super::{RegisterArray, State, ValueSetError, meter_unit};
use crate::ids::*;
use crate::ir::{self, Action, Program};
use std::sync::Arc;
use wireyard_tables::counter::CounterArray;
use wireyard_tables::meter::MeterArray;
use wireyard_tables::time::Span;
use wireyard_tables::{
    ActionCall, ActionSpec, BuildError, DirectMeter, Entry, MAX_CAPACITY, Options, ProfileId,
    ProfileSpec, TableSpec, Tables, Target,
};

/// Most members of a selector group, weights counted.
const GROUP_SIZE_MAX: u32 = 4096;

/// A program whose state cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A table is declared wrong.
    #[error("{0}")]
    Table(BuildError),
    /// A default action or entry of a table has an action that the table does not list.
    #[error("table '{table}' uses action '{action}' but does not list it")]
    Action {
        /// The table.
        table: String,
        /// The action.
        action: String,
    },
    /// A value set is declared with wrong members.
    #[error("value set '{name}': {error}")]
    ValueSet {
        /// The set.
        name: String,
        /// The error.
        error: ValueSetError,
    },
}

/// Appends the words of action data: a parameter of up to 64 bits takes one, a wider one two, low word
/// first.
pub fn action_words(action: &Action, args: &[u128], words: &mut Vec<u64>) {
    for (param, value) in action.params.iter().zip(args) {
        words.push(*value as u64);
        if param.bits > 64 {
            words.push((value >> 64) as u64);
        }
    }
}

/// Number of those words.
pub(crate) fn action_data_words(action: &Action) -> usize {
    action.params.iter().map(|param| if param.bits > 64 { 2 } else { 1 }).sum()
}

/// Arguments from words of action data: the inverse of [`action_words`].
pub fn action_args<'a>(
    action: &'a Action,
    words: &'a [u64],
) -> impl Iterator<Item = u128> + use<'a> {
    let mut words = words.iter().map(|word| u128::from(*word));
    action.params.iter().map(move |param| {
        let low = words.next().unwrap_or(0);
        let high = if param.bits > 64 { words.next().unwrap_or(0) } else { 0 };
        high << 64 | low
    })
}

/// Actions of a table are numbered by their index in its list, so that a table keeps its entries over a program swap
/// that only renumbers actions. The name includes the parameter widths, because entries may move only if these are
/// equal.
fn action_specs(program: &Program, table: &ir::Table) -> Vec<ActionSpec> {
    let spec = |(place, id): (usize, &ActionId)| {
        let action = &program.actions[*id];
        let params = action.params.iter().map(|p| format!("{}:{}", p.name, p.bits));
        ActionSpec {
            id: place as u32,
            name: format!("{}({})", action.name, params.collect::<Vec<_>>().join(",")),
            data_words: action_data_words(action),
        }
    };
    table.actions.iter().enumerate().map(spec).collect()
}

fn call(
    program: &Program,
    table: &ir::Table,
    call: &ir::ActionCall,
) -> Result<ActionCall, LoadError> {
    let place = table.actions.iter().position(|action| *action == call.action);
    let action = &program.actions[call.action];
    let unlisted = || LoadError::Action { table: table.name.clone(), action: action.name.clone() };
    let place = place.ok_or_else(unlisted)?;
    let mut data = Vec::new();
    action_words(action, &call.args, &mut data);
    Ok(ActionCall { action: place as u32, data })
}

fn entry(declared: &ir::TableEntry, target: Target) -> Entry {
    let timeout = declared.idle_timeout_ms;
    Entry {
        matches: declared.matches.clone(),
        priority: declared.priority,
        target,
        idle_timeout: (timeout != 0).then(|| Span::from_ms(timeout)),
        meter: declared.meter,
    }
}

pub(super) fn table_spec(
    program: &Program,
    table: &ir::Table,
    profile: Option<ProfileId>,
) -> Result<TableSpec, LoadError> {
    let fields = table.keys.iter().map(|key| key.spec()).collect();
    let mut spec = TableSpec::new(&table.name, fields, table.size);
    spec.actions = action_specs(program, table);
    spec.default = call(program, table, &table.default)?;
    spec.const_default = table.const_default;
    spec.profile = profile;
    spec.idle_timeout = table.idle_timeout_ms.is_some();
    spec.direct_counter = table.counters;
    spec.direct_meter =
        table.meter.map(|kind| DirectMeter { unit: meter_unit(kind), two_rates: kind.two_rates });
    let fixed = (0..).zip(&table.entries).filter(|(_, declared)| declared.is_const);
    spec.fixed = fixed.map(|(slot, _)| slot).collect();
    // A table with a selector has none (E0135).
    spec.const_entries = table.const_entries && profile.is_none();
    for declared in &table.entries {
        let target = Target::Action(call(program, table, &declared.call)?);
        spec.entries.push(entry(declared, target));
    }
    Ok(spec)
}

/// Most members of a group, counted by their weights: fewer if a profile has many groups, so that all of them fit.
pub fn group_size_max(selector: &ir::Selector) -> u32 {
    GROUP_SIZE_MAX.min(MAX_CAPACITY / selector.max_groups.max(1))
}

pub(super) fn profile_spec(
    program: &Program,
    table: &ir::Table,
    selector: &ir::Selector,
) -> Result<ProfileSpec, LoadError> {
    Ok(ProfileSpec {
        name: table.name.clone(),
        capacity: selector.max_members,
        max_groups: selector.max_groups,
        max_group_size: group_size_max(selector),
        actions: action_specs(program, table),
        empty_group: call(program, table, selector.empty.as_ref().unwrap_or(&table.default))?,
    })
}

pub(super) fn tables(program: &Program, options: Options) -> Result<Tables, LoadError> {
    let (mut specs, mut profiles) = (Vec::new(), Vec::new());
    for table in program.tables.iter() {
        let profile = ProfileId(profiles.len() as u32);
        let Some(selector) = &table.selector else {
            specs.push(table_spec(program, table, None)?);
            continue;
        };
        specs.push(table_spec(program, table, Some(profile))?);
        profiles.push(profile_spec(program, table, selector)?);
    }
    Tables::new(&specs, &profiles, options).map_err(LoadError::Table)
}

/// The old object with the same name and shape, shared from now on, or a new one.
fn kept<I: Id, T>(
    old: Option<&IdVec<I, Arc<T>>>,
    same: impl Fn(I, &T) -> bool,
    new: impl FnOnce() -> T,
) -> Arc<T> {
    let found = old.and_then(|old| old.entries().find(|(id, item)| same(*id, item)));
    found.map_or_else(|| Arc::new(new()), |(_, item)| item.clone())
}

pub(super) fn registers(
    program: &Program,
    old: Option<&State>,
) -> IdVec<RegisterId, Arc<RegisterArray>> {
    let one = |declared: &ir::Register| {
        let same = |_, array: &RegisterArray| array.declared == *declared;
        kept(old.map(|old| &old.registers), same, || RegisterArray::new(declared))
    };
    program.registers.iter().map(one).collect()
}

pub(super) fn counters(
    program: &Program,
    lanes: usize,
    old: Option<&State>,
) -> IdVec<CounterId, Arc<CounterArray>> {
    let one = |declared: &ir::Counter| {
        let same = |id: CounterId, array: &CounterArray| {
            let known = old.and_then(|old| old.program.counters.get(id));
            known == Some(declared) && array.lanes() == lanes
        };
        let new = || CounterArray::new(declared.size as usize, lanes);
        kept(old.map(|old| &old.counters), same, new)
    };
    program.counters.iter().map(one).collect()
}

pub(super) fn meters(program: &Program, old: Option<&State>) -> IdVec<MeterId, Arc<MeterArray>> {
    let one = |declared: &ir::Meter| {
        let same = |id: MeterId, _: &MeterArray| {
            old.and_then(|old| old.program.meters.get(id)) == Some(declared)
        };
        let new = || MeterArray::new(declared.size as usize, meter_unit(declared.kind));
        kept(old.map(|old| &old.meters), same, new)
    };
    program.meters.iter().map(one).collect()
}

pub(super) fn value_sets(
    program: &Program,
    old: Option<&State>,
) -> Result<IdVec<ValueSetId, Arc<Set>>, LoadError> {
    let one = |declared: &ir::ValueSet| {
        let error = |error| LoadError::ValueSet { name: declared.name.clone(), error };
        let new = Set::new(declared).map_err(error)?;
        let same = |id: ValueSetId, _: &Set| {
            old.and_then(|old| old.program.value_sets.get(id)) == Some(declared)
        };
        Ok(kept(old.map(|old| &old.value_sets), same, || new))
    };
    program.value_sets.iter().map(one).collect()
}
