//! The run-time state of a loaded program: tables, registers, counters, meters, value sets, statistics.
//!
//! One [`State`] for each loaded program, shared by the workers that forward and by the control plane. State that a
//! packet changes is lock-free for one worker: counters have a lane for each worker, register cells are atomic words,
//! tables are read from a pinned version. A [`Worker`] is the part that belongs to one worker alone.
//!
//! It is not an engine: it has no statements and no expressions. Both engines call the same methods.

pub mod entries;
mod load;
mod register;
pub mod size;
mod value_set;
mod worker;

#[cfg(test)]
mod tests;

pub(crate) use load::action_data_words;
pub use load::{LoadError, action_args, action_words, group_size_max};
pub use register::RegisterArray;
pub(crate) use value_set::Members;
pub use value_set::ValueSetError;
pub use worker::{PassScratch, Worker};

use crate::ids::*;
use crate::ir::{Program, SetMember};
use register::Locks;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wireyard_tables::counter::CounterArray;
use wireyard_tables::meter::{Color, MeterArray, MeterUnit};
use wireyard_tables::time::Time;
use wireyard_tables::{Options, Tables};

/// Options of a state.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateOptions {
    /// Seed of `random`.
    pub seed: u64,
    /// Seed of the hashes inside tables. Fixed for replay and the laboratory, random for a live device, so that a
    /// sender cannot choose packets whose keys collide.
    pub hash_seed: u64,
    /// Seed of choices in groups; 0: the hash is used unchanged.
    pub selector_seed: u64,
    /// Workers that will forward; at least 1.
    pub workers: usize,
    /// When it is loaded: idle times of declared entries start here.
    pub now: Time,
}

/// The objects that a replacing program takes over, by the ids of the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Tables with their entries, members and groups.
    pub tables: Vec<TableId>,
    /// Registers.
    pub registers: Vec<RegisterId>,
    /// Counter arrays.
    pub counters: Vec<CounterId>,
    /// Meter arrays.
    pub meters: Vec<MeterId>,
    /// Value sets.
    pub value_sets: Vec<ValueSetId>,
}

/// Those of `new` that `old` has too.
fn shared<I: Id, T>(new: &IdVec<I, Arc<T>>, old: &IdVec<I, Arc<T>>) -> Vec<I> {
    let is_old = |item: &Arc<T>| old.iter().any(|known| Arc::ptr_eq(known, item));
    new.entries().filter(|(_, item)| is_old(item)).map(|(id, _)| id).collect()
}

/// Numbers for states.
static STATES: AtomicU64 = AtomicU64::new(1);

/// The run-time state of a program.
#[derive(Debug)]
pub struct State {
    program: Arc<Program>,
    tables: Tables,
    registers: IdVec<RegisterId, Arc<RegisterArray>>,
    counters: IdVec<CounterId, Arc<CounterArray>>,
    meters: IdVec<MeterId, Arc<MeterArray>>,
    value_sets: IdVec<ValueSetId, Arc<value_set::Set>>,
    /// Counts changes of value sets.
    value_sets_version: AtomicU64,
    statistics: Statistics,
    /// Shared with the programs before and after, whose registers may be the same.
    locks: Arc<Locks>,
    /// Read for each packet.
    several_workers: bool,
    seed: u64,
    id: u64,
}

/// Counts of events of packets, by name; packets and bytes.
#[derive(Debug)]
pub struct Statistics {
    /// Drops by [`ReasonId`], ingress and egress.
    pub drops: CounterArray,
    /// Punts by [`ReasonId`].
    pub punts: CounterArray,
    /// Parser errors by [`ErrorId`]; `no_error` is not counted.
    pub parser_errors: CounterArray,
    /// Wrong checksums by [`ChecksumId`].
    pub checksum_errors: CounterArray,
    /// Wrong CRCs by [`CrcId`].
    pub crc_errors: CounterArray,
    /// Counts at an index that does not exist, by [`CounterId`].
    pub out_of_range_counts: CounterArray,
    /// Entries that packets made or changed, by [`TableId`].
    pub learned: CounterArray,
    /// Entries that could not be learned (table full or being written, or not learnable), by [`TableId`].
    pub learn_failures: CounterArray,
    /// Entries that became idle and stay, each once until it is hit again, by [`TableId`].
    pub idle_notices: CounterArray,
    /// Idle entries that the device removed, by [`TableId`].
    pub idle_removals: CounterArray,
    /// Clones that were not made, at index 0: above [`crate::exec::CLONES_MAX`] in one pass, without memory, or of a packet that
    /// could not be deparsed.
    pub lost_clones: CounterArray,
}

impl State {
    /// Builds the state of a program, with its declared entries and nothing else in it.
    ///
    /// # Errors
    /// A table or value set that cannot be built.
    pub fn new(program: &Arc<Program>, options: StateOptions) -> Result<State, LoadError> {
        State::build(program, options, None)
    }

    /// Builds the state of a program that replaces this one's: [`State::prepare`], then [`State::adopt`].
    ///
    /// # Errors
    /// As [`State::new`]; then this state is unchanged.
    pub fn replace(
        &self,
        program: &Arc<Program>,
        options: StateOptions,
    ) -> Result<State, LoadError> {
        let (state, _) = self.prepare(program, options)?;
        state.adopt(self);
        Ok(state)
    }

    /// Builds the state of a program that may replace this one's. Registers, counters, meters and value sets of the
    /// same name and shape are those of this state; tables are new until [`State::adopt`]. Also returns what will be
    /// kept.
    ///
    /// # Errors
    /// As [`State::new`]. This state is unchanged in any case.
    pub fn prepare(
        &self,
        program: &Arc<Program>,
        options: StateOptions,
    ) -> Result<(State, Kept), LoadError> {
        let state = State::build(program, options, Some(self))?;
        let tables = state.tables.would_adopt(&self.tables);
        let kept = Kept {
            tables: tables.into_iter().map(|id| TableId(id.0)).collect(),
            registers: shared(&state.registers, &self.registers),
            counters: shared(&state.counters, &self.counters),
            meters: shared(&state.meters, &self.meters),
            value_sets: shared(&state.value_sets, &self.value_sets),
        };
        Ok((state, kept))
    }

    /// Takes over the tables of the state that this one replaces, as far as they have the same name and shape
    /// ([`Tables::adopt`]).
    pub fn adopt(&self, old: &State) {
        self.tables.adopt(&old.tables);
    }

    fn build(
        program: &Arc<Program>,
        options: StateOptions,
        old: Option<&State>,
    ) -> Result<State, LoadError> {
        let lanes = options.workers.max(1);
        let value_sets = load::value_sets(program, old)?;
        let StateOptions { hash_seed: seed, selector_seed, now, .. } = options;
        let options_of_tables = Options { seed, selector_seed, lanes, now };
        let tables = load::tables(program, options_of_tables)?;
        let tally = |size: usize| CounterArray::new(size, lanes);
        Ok(State {
            program: program.clone(),
            tables,
            registers: load::registers(program, old),
            counters: load::counters(program, lanes, old),
            meters: load::meters(program, old),
            value_sets,
            value_sets_version: AtomicU64::new(0),
            statistics: Statistics {
                drops: tally(program.reasons.len()),
                punts: tally(program.reasons.len()),
                parser_errors: tally(program.errors.len()),
                checksum_errors: tally(program.checksums.len()),
                crc_errors: tally(program.crcs.len()),
                out_of_range_counts: tally(program.counters.len()),
                learned: tally(program.tables.len()),
                learn_failures: tally(program.tables.len()),
                idle_notices: tally(program.tables.len()),
                idle_removals: tally(program.tables.len()),
                lost_clones: tally(1),
            },
            several_workers: lanes > 1,
            locks: match old {
                Some(old) if old.several_workers() == (lanes > 1) => Arc::clone(&old.locks),
                _ => Arc::new(Locks::new(lanes > 1)),
            },
            seed: options.seed,
            id: STATES.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// The part of worker number `lane` (below the number of workers).
    pub fn worker(&self, lane: usize) -> Worker {
        Worker::new(self, lane)
    }

    /// An id that is unique among the states of this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether more than one worker forwards, so that register updates lock.
    pub(crate) fn several_workers(&self) -> bool {
        self.several_workers
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Counts of events of packets.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// A register array; `None` if it does not exist.
    pub fn register(&self, register: RegisterId) -> Option<&RegisterArray> {
        self.registers.get(register).map(|array| &**array)
    }

    /// An indirect counter array.
    pub fn counter(&self, counter: CounterId) -> Option<&CounterArray> {
        self.counters.get(counter).map(|array| &**array)
    }

    /// An indirect meter array.
    pub fn meter_array(&self, meter: MeterId) -> Option<&MeterArray> {
        self.meters.get(meter).map(|array| &**array)
    }

    /// Counts a packet in an indirect counter; an index out of range is counted separately.
    pub fn count(&self, lane: usize, counter: CounterId, index: u128, bytes: u32) {
        let array = self.counters.get(counter);
        match usize::try_from(index).ok().filter(|i| array.is_some_and(|a| *i < a.size())) {
            Some(index) => {
                if let Some(array) = array {
                    array.add(lane, index, bytes.into());
                }
            }
            None => self.statistics.out_of_range_counts.add(lane, counter.index(), bytes.into()),
        }
    }

    /// Runs an indirect meter: 0 green, 1 yellow, 2 red. An index out of range results in red; a meter that is not
    /// configured leaves the colour as it was.
    pub fn meter(&self, meter: MeterId, index: u128, bytes: u32, before: u8, now: Time) -> u8 {
        match (self.meters.get(meter), usize::try_from(index)) {
            (Some(array), Ok(index)) if index < array.size() => {
                array.execute(index, bytes.into(), color(before), now) as u8
            }
            _ => Color::Red as u8,
        }
    }

    /// Takes the lock for a read-modify-write of a register entry; with one worker there is none to take. Pass the
    /// token to [`State::unlock`]. A worker holds at most one.
    pub fn lock(&self, register: RegisterId, index: u64) -> Option<u32> {
        self.registers.get(register).and_then(|array| self.locks.lock(array, index))
    }

    /// Releases a lock.
    pub fn unlock(&self, token: u32) {
        self.locks.unlock(token);
    }

    /// Whether the value set has a member that matches: the keys concatenated, the first on the left.
    pub fn value_set_contains(&self, set: ValueSetId, value: u128) -> bool {
        self.value_sets.get(set).is_some_and(|set| set.members.load().contain(value))
    }

    /// Members of a value set as they were written, in order.
    pub fn value_set(&self, set: ValueSetId) -> Option<Vec<SetMember>> {
        self.value_sets.get(set).map(|set| set.written())
    }

    /// Checks that these can be the members of a value set.
    ///
    /// # Errors
    ///
    /// See [`ValueSetError`].
    pub fn check_value_set(
        &self,
        set: ValueSetId,
        members: &[SetMember],
    ) -> Result<(), ValueSetError> {
        let set = self.value_sets.get(set).ok_or(ValueSetError::NoSuchSet)?;
        set.members(members).map(|_| ())
    }

    /// Replaces the members of a value set, all at once.
    ///
    /// # Errors
    /// See [`ValueSetError`]; the set is then unchanged.
    pub fn set_value_set(
        &self,
        set: ValueSetId,
        members: &[SetMember],
    ) -> Result<(), ValueSetError> {
        let set = self.value_sets.get(set).ok_or(ValueSetError::NoSuchSet)?;
        set.members.store(Arc::new(set.members(members)?));
        self.value_sets_version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Changes when the members of a value set do.
    pub(crate) fn value_sets_version(&self) -> u64 {
        self.value_sets_version.load(Ordering::Acquire)
    }

    /// The members of all value sets, by [`ValueSetId`].
    pub(crate) fn all_members(&self) -> impl Iterator<Item = Arc<Members>> {
        self.value_sets.iter().map(|set| set.members.load_full())
    }
}

/// Checks that a state can have this set with its members.
///
/// # Errors
///
/// See [`ValueSetError`].
pub fn check_value_set(declared: &crate::ir::ValueSet) -> Result<(), ValueSetError> {
    value_set::Set::new(declared).map(|_| ())
}

/// The colour of a number; a greater number is red.
pub(crate) fn color(number: u8) -> Color {
    match number {
        0 => Color::Green,
        1 => Color::Yellow,
        _ => Color::Red,
    }
}

fn meter_unit(kind: crate::ir::MeterKind) -> MeterUnit {
    if kind.packets { MeterUnit::Packets } else { MeterUnit::Bytes }
}
