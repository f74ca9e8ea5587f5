//! The writes of a batch that follow its tables: cells, direct counters and meters, value sets.
//!
//! They were checked with the batch and are not part of a version of the tables. Registers belong to the workers, and
//! are written there, in parts.

use std::sync::Arc;

use wireyard_pipeline::ids::{CounterId, MeterId, RegisterId, ValueSetId};
use wireyard_pipeline::ir::SetMember;
use wireyard_pipeline::state::State;
use wireyard_tables::TableView;
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;

use super::Batch;
use crate::control::plan::{self, Result};
use crate::control::{Control, EntryKey};
use crate::core::Core;

/// Maximum number of register entries that a worker writes between two bursts.
const REGISTERS_TOGETHER: usize = 256;

/// A write after the tables are published; it was checked, so it cannot be refused.
pub(super) enum Later {
    DirectCounter(EntryKey, Count),
    DirectMeter(EntryKey, Option<MeterConfig>),
    Counter(CounterId, usize, Count),
    Meter(MeterId, usize, Option<MeterConfig>),
    Register(RegisterId, u64, Vec<u64>),
    ValueSet(ValueSetId, Vec<SetMember>),
}

impl Batch<'_> {
    /// Executes the writes that follow the tables.
    ///
    /// # Errors
    /// No worker wrote the registers; all others are done.
    pub(super) fn follow(&self, all: Vec<Later>) -> Result<()> {
        let state = &self.generation.state;
        let mut registers = Vec::new();
        for later in all {
            match later {
                Later::DirectCounter(key, count) => {
                    self.beside(&key, |view, slot| {
                        view.counters().inspect(|counters| counters.set(slot, count));
                    });
                }
                Later::DirectMeter(key, config) => self.beside(&key, |view, slot| {
                    // The rates were checked.
                    let _ = view.meters().map(|meters| meters.configure(slot, config, self.now));
                }),
                Later::Counter(id, index, count) => {
                    state.counter(id).inspect(|array| array.set(index, count));
                }
                Later::Meter(id, index, config) => {
                    // As above.
                    let _ =
                        state.meter_array(id).map(|array| array.configure(index, config, self.now));
                }
                Later::Register(id, index, cells) => registers.push((id, index, cells)),
                Later::ValueSet(set, members) => {
                    // The members were checked.
                    let _ = state.set_value_set(set, &members);
                }
            }
        }
        if registers.is_empty() { Ok(()) } else { self.set_registers(&registers) }
    }

    /// Changes the counter or meter of an entry, unless a packet or the idle timeout removed the entry meanwhile.
    fn beside(&self, key: &EntryKey, change: impl FnOnce(&TableView, usize)) {
        let snapshot = self.generation.state.tables().snapshot();
        if let (Ok(slot), Some(view)) =
            (plan::slot(self.generation, key), snapshot.table(plan::table_id(key.table)))
        {
            change(view, slot);
        }
    }

    /// Writes registers in the worker, in parts, so that packets do not wait for a long batch.
    fn set_registers(&self, registers: &[(RegisterId, u64, Vec<u64>)]) -> Result<()> {
        for (number, part) in registers.chunks(REGISTERS_TOGETHER).enumerate() {
            let (generation, part) = (Arc::clone(self.generation), part.to_vec());
            let set = move |_: &mut Core, _| set_registers(&generation.state, &part);
            match number {
                0 => self.control.ask(0, set)?,
                _ => self.control.insist(0, set)?,
            }
        }
        Ok(())
    }
}

impl Control {
    /// Writes an entry of a register of a device whose workers are not polled yet.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(crate) fn set_register_at_rest(
        &self,
        register: RegisterId,
        index: u64,
        cells: &[u64],
    ) -> Result<()> {
        let loader = self.shared.loader();
        let generation = loader.current();
        let batch = Batch::new(self, &generation, true);
        batch.check_register(register, index, cells)?;
        set_registers(&generation.state, &[(register, index, cells.to_vec())]);
        Ok(())
    }
}

fn set_registers(state: &State, registers: &[(RegisterId, u64, Vec<u64>)]) {
    for (id, index, cells) in registers {
        let Some(array) = state.register(*id) else { continue };
        let lock = state.lock(*id, *index);
        for (cell, value) in cells.iter().enumerate() {
            array.store(*index, cell, *value);
        }
        lock.inspect(|token| state.unlock(*token));
    }
}
