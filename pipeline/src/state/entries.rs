//! The initial contents of a program's state, checked: the form into which [`crate::entries`] resolves an entries file.

use super::{Kept, State, ValueSetError};
use crate::ids::*;
use crate::ir::{Program, SetMember, SourceSpan, Table};
use thiserror::Error;
use wireyard_tables::counter::Count;
use wireyard_tables::meter::{MeterConfig, MeterError};
use wireyard_tables::time::Time;
use wireyard_tables::{BatchError, TableView, Update};

/// Table changes that are applied at once: the memory to undo and repeat them is small beside the tables.
const BATCH: usize = 1 << 16;

/// A copy of a multicast packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Egress port.
    pub port: u16,
    /// `std.instance` of the copy.
    pub instance: u16,
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// The copies; `None` is one to every port of the device.
    pub replicas: Option<Vec<Replica>>,
    /// No copy to the packet's ingress port.
    pub prune_ingress: bool,
}

/// A mirror session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSession {
    /// The copies, one at least.
    pub replicas: Vec<Replica>,
    /// `std.traffic_class` of the copy, when written.
    pub traffic_class: Option<u8>,
    /// Its length is cut to this many bytes; 0 is uncut.
    pub truncate_bytes: u32,
}

/// Settings of a port, or of one of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The port.
    pub port: u16,
    /// The queue; `None`: the whole port.
    pub queue: Option<u8>,
    /// `NAME=VALUE`.
    pub set: Vec<String>,
    /// Where each is written.
    pub spans: Vec<SourceSpan>,
}

/// A checked entries file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// Members, groups, entries and defaults, in an order in which each refers only to earlier ones.
    pub updates: Vec<Update>,
    /// Counts of entries, by their index in `updates`.
    pub entry_counts: Vec<(usize, Count)>,
    /// Entries that name no idle timeout and have that of their table, by their index in `updates`; only of a change.
    pub of_table: Vec<usize>,
    /// Members of value sets, instead of those of the program.
    pub value_sets: Vec<(ValueSetId, Vec<SetMember>)>,
    /// Register, index, cell and value.
    pub registers: Vec<(RegisterId, u32, u32, u64)>,
    /// Meter, index and rates.
    pub meters: Vec<(MeterId, u32, MeterConfig)>,
    /// Counter, index and its count.
    pub counters: Vec<(CounterId, u32, Count)>,
    /// Multicast groups by number, which is not 0.
    pub groups: Vec<(u16, MulticastGroup)>,
    /// Mirror sessions by number.
    pub sessions: Vec<(u16, MirrorSession)>,
    /// Settings of ports and queues, which a state does not use.
    pub settings: Vec<Setting>,
}

/// The refusal of a state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Of tables: which update, and why.
    #[error(transparent)]
    Tables(#[from] BatchError),
    /// The members of a value set.
    #[error(transparent)]
    ValueSet(#[from] ValueSetError),
    /// An entry of a register.
    #[error("{register} has no entry {index}")]
    Register {
        /// The register.
        register: RegisterId,
        /// The entry.
        index: u32,
    },
    /// There is no such meter.
    #[error("there is no {0}")]
    NoSuchMeter(MeterId),
    /// There is no such counter, or cell of it.
    #[error("there is no {0} with a cell {1}")]
    NoSuchCounter(CounterId, u32),
    /// The rates of a meter.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

impl Resolved {
    /// Fills tables, value sets, registers, meters and counters of a state that forwards nothing yet. When it is
    /// refused, a part may have been applied.
    ///
    /// # Errors
    /// The refusal of the state.
    pub fn apply(&self, state: &State) -> Result<(), ApplyError> {
        self.apply_but(state, &Kept::default(), Time::ZERO)
    }

    /// The same for the state of a program that is prepared to replace another, at this time, from which idle
    /// times of entries count: objects that are kept from that one's state stay unchanged.
    ///
    /// # Errors
    /// The refusal of the state.
    pub fn apply_but(&self, state: &State, kept: &Kept, now: Time) -> Result<(), ApplyError> {
        for (n, updates) in self.updates.chunks(BATCH).enumerate() {
            state.tables().fill(updates, now).map_err(|mut error| {
                error.index += n * BATCH;
                error
            })?;
        }
        self.apply_entry_counts(state);
        for (set, members) in &self.value_sets {
            if !kept.value_sets.contains(set) {
                state.set_value_set(*set, members)?;
            }
        }
        for (register, index, cell, value) in &self.registers {
            if kept.registers.contains(register) {
                continue;
            }
            let array = state.register(*register);
            let stored = array.is_some_and(|a| a.store((*index).into(), *cell as usize, *value));
            if !stored {
                return Err(ApplyError::Register { register: *register, index: *index });
            }
        }
        for (meter, index, config) in &self.meters {
            if kept.meters.contains(meter) {
                continue;
            }
            let array = state.meter_array(*meter).ok_or(ApplyError::NoSuchMeter(*meter))?;
            array.configure(*index as usize, Some(*config), now)?;
        }
        for (counter, index, count) in &self.counters {
            if kept.counters.contains(counter) {
                continue;
            }
            let array = state.counter(*counter).filter(|array| (*index as usize) < array.size());
            let array = array.ok_or(ApplyError::NoSuchCounter(*counter, *index))?;
            array.set(*index as usize, *count);
        }
        Ok(())
    }

    /// The names of the tables, value sets, registers, meters and counters that it fills.
    pub fn filled<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = &'a str> {
        let selecting: Vec<&Table> =
            program.tables.iter().filter(|table| table.selector.is_some()).collect();
        let table = move |update: &Update| match update {
            Update::Insert(id, _) | Update::Modify(id, _) | Update::SetDefault(id, _) => {
                program.tables.get(TableId(id.0))
            }
            // Profiles are numbered like the tables that have one.
            Update::InsertMember(profile, ..) | Update::InsertGroup(profile, ..) => {
                selecting.get(profile.0 as usize).copied()
            }
            _ => None,
        };
        let tables = self.updates.iter().filter_map(table).map(|table| table.name.as_str());
        let sets = self.value_sets.iter().filter_map(|(set, _)| program.value_sets.get(*set));
        let registers = self.registers.iter().filter_map(|(one, ..)| program.registers.get(*one));
        let meters = self.meters.iter().filter_map(|(meter, ..)| program.meters.get(*meter));
        let counters = self.counters.iter().filter_map(|(one, ..)| program.counters.get(*one));
        tables
            .chain(sets.map(|set| set.name.as_str()))
            .chain(registers.map(|register| register.name.as_str()))
            .chain(meters.map(|meter| meter.name.as_str()))
            .chain(counters.map(|counter| counter.name.as_str()))
    }

    /// Kept tables, with their counts, replace those that are filled here.
    fn apply_entry_counts(&self, state: &State) {
        let snapshot = state.tables().snapshot();
        for (at, count) in &self.entry_counts {
            let Some((id, entry)) = self.updates.get(*at).and_then(Update::entry) else { continue };
            let found = state.tables().entry(id, &entry.matches, entry.priority);
            let counters = snapshot.table(id).and_then(TableView::counters);
            if let (Ok((slot, _)), Some(counters)) = (found, counters) {
                counters.set(slot.0 as usize, *count);
            }
        }
    }
}
