//! What fills a program at the start: an entries file, resolved against the checked program.
//!
//! [`resolve`] checks everything that can be checked without a device and reports all of it with
//! places; [`Resolved::apply`] hands the rest to a [`State`]. [`load`] does it from the file, and reads a large one in parts, so that a million
//! entries take little more memory than what they become. Multicast groups and mirror sessions belong to the
//! device; they are kept here as they are written.

use crate::check;
use crate::diag::{Diagnostics, Files};
use crate::ids::*;
use crate::ir::Program;
use crate::source::Loader;
use crate::source::chunks::{self, Sizes};
use crate::state::{Kept, State};
use std::path::Path;
use wireyard_tables::Update;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::Time;

pub use crate::check::resolve_entries as resolve;

/// Table changes that are made at once: what undoing and repeating them takes is small beside the tables.
const BATCH: usize = 1 << 16;

/// Reads an entries file and resolves it. Its text is added to `files`, those of the program, as far as errors show it. `None`: the
/// errors are in `diagnostics`.
pub fn load(
    path: &Path,
    loader: &Loader,
    program: &Program,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    load_with(path, loader, program, Sizes::default(), files, diagnostics)
}

fn load_with(
    path: &Path,
    loader: &Loader,
    program: &Program,
    sizes: Sizes,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    let (file, chunks) = chunks::open(path, loader, sizes, files, diagnostics)?;
    let Some(mut chunks) = chunks else { return resolve(&file, program, diagnostics) };
    let mut next = |found: &mut Diagnostics| chunks.next(files, found);
    check::resolve_chunks(&file, program, diagnostics, &mut next)
}

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
    /// The copies; `None` is one to every port that the device has.
    pub replicas: Option<Vec<Replica>>,
    /// No copy to the port that the packet came in by.
    pub prune_ingress: bool,
}

/// A mirror session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorSession {
    /// Egress port.
    pub port: u16,
    /// `std.instance` of the copy.
    pub instance: u16,
    /// `std.traffic_class` of the copy, when written.
    pub traffic_class: Option<u8>,
    /// Bytes that are left of it; 0 is all.
    pub truncate_bytes: u32,
}

/// A checked entries file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// Members, groups, entries and defaults, in an order in which each finds what it names.
    pub updates: Vec<Update>,
    /// Members of value sets, instead of those of the program.
    pub value_sets: Vec<(ValueSetId, Vec<u128>)>,
    /// Register, index, cell and value.
    pub registers: Vec<(RegisterId, u32, u32, u64)>,
    /// Meter, index and rates.
    pub meters: Vec<(MeterId, u32, MeterConfig)>,
    /// Multicast groups by number, which is not 0.
    pub groups: Vec<(u16, MulticastGroup)>,
    /// Mirror sessions by number.
    pub sessions: Vec<(u16, MirrorSession)>,
}

impl Resolved {
    /// Fills tables, value sets, registers and meters of a state that forwards nothing yet. When it is refused, a part may
    /// have been done.
    ///
    /// # Errors
    /// What the state refuses, in words.
    pub fn apply(&self, state: &State) -> Result<(), String> {
        self.apply_but(state, &Kept::default())
    }

    /// The same for the state of a program that is prepared to replace another: what is kept of that one's state stays as it is.
    ///
    /// # Errors
    /// What the state refuses, in words.
    pub fn apply_but(&self, state: &State, kept: &Kept) -> Result<(), String> {
        for (n, updates) in self.updates.chunks(BATCH).enumerate() {
            state.tables().fill(updates, Time::ZERO).map_err(|mut error| {
                error.index += n * BATCH;
                error.to_string()
            })?;
        }
        for (set, members) in &self.value_sets {
            if !kept.value_sets.contains(set) {
                state.set_value_set(*set, members).map_err(|error| error.to_string())?;
            }
        }
        for (register, index, cell, value) in &self.registers {
            if kept.registers.contains(register) {
                continue;
            }
            let array = state.register(*register);
            let stored = array.is_some_and(|a| a.store((*index).into(), *cell as usize, *value));
            if !stored {
                return Err(format!("{register} has no entry {index}"));
            }
        }
        for (meter, index, config) in &self.meters {
            if kept.meters.contains(meter) {
                continue;
            }
            let array = state.meter_array(*meter).ok_or_else(|| format!("there is no {meter}"))?;
            array
                .configure(*index as usize, Some(*config), Time::ZERO)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
