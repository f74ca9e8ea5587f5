//! Query statements: counters, drops, punts, registers, entries.

use wireyard_pipeline::ids::RegisterId;
use wireyard_pipeline::p4info::ends_in;
use wireyard_tables::Update;

use super::change::refused;
use super::{Script, Stop};
use crate::stf::entry::did_you_mean;
use crate::stf::script::{Comparison, CounterName, EntryText, Statement};

impl Script {
    pub(super) fn check(&mut self, statement: &Statement) -> Result<(), Stop> {
        let (what, found, wanted) = match statement {
            Statement::CheckCounter(name, bytes, wanted) => {
                (format!("counter {name}"), self.counter(name, *bytes)?, *wanted)
            }
            Statement::CheckDrops(reason, wanted) => {
                self.known_reason(reason)?;
                (
                    format!("drops for `{reason}`"),
                    self.sandbox.core.report().dropped_for(reason),
                    *wanted,
                )
            }
            Statement::CheckPunts(reason, wanted) => {
                self.known_reason(reason)?;
                (
                    format!("punts for `{reason}`"),
                    self.sandbox.core.report().consumed_for(reason),
                    *wanted,
                )
            }
            Statement::CheckParserErrors(name, wanted) => {
                (format!("parser errors `{name}`"), self.parser_errors(name)?, *wanted)
            }
            Statement::CheckRegister(name, index, cell, wanted) => {
                (format!("{name}({index})"), self.register(name, *index, cell.as_deref())?, *wanted)
            }
            Statement::CheckEntries(name, wanted) => {
                (format!("entries of {name}"), self.entries(name)?, *wanted)
            }
            other => return Err(format!("{other:?} is not a check").into()),
        };
        self.holds(&what, found, wanted)
    }

    /// A reason that does not exist is a spelling mistake: it would count 0 for ever.
    pub(super) fn known_reason(&self, name: &str) -> Result<(), String> {
        let reasons = self.program.reasons.iter().map(String::as_str);
        let mut all = reasons.chain(self.sandbox.core.outcomes().reasons());
        if all.any(|known| known == name) {
            return Ok(());
        }
        let reasons = self.program.reasons.iter().map(String::as_str);
        let all = reasons.chain(self.sandbox.core.outcomes().reasons());
        Err(did_you_mean(format!("there is no reason `{name}`"), name, all))
    }

    fn holds(&self, what: &str, found: u64, wanted: Comparison) -> Result<(), Stop> {
        if wanted.holds(found) {
            return Ok(());
        }
        Err(self.failed(format!("{what} is {found}, expected {wanted}"), None))
    }

    fn counter(&self, name: &CounterName, bytes: bool) -> Result<u64, Stop> {
        let count = match name {
            CounterName::Indexed(name, index) => {
                let id = self.program.counters.entries().find(|(_, c)| c.name == *name);
                let id = id.map(|(id, _)| id).ok_or(format!("there is no counter `{name}`"))?;
                let array = self.generation.state.counter(id);
                let last = self.program.counters[id].size.saturating_sub(1);
                array
                    .and_then(|a| a.read(*index as usize))
                    .ok_or(format!("counter `{name}` counts at 0 to {last}, not at {index}"))?
            }
            CounterName::Direct(entry) => {
                self.is_no_array(entry)?;
                let resolved = self.one_entry(entry)?;
                let Some(Update::Insert(table, wanted)) = resolved.updates.first() else {
                    return Err(format!("{} has no such entry", entry.table).into());
                };
                let tables = self.generation.state.tables();
                let found = tables.entry(*table, &wanted.matches, wanted.priority);
                let (slot, _) = found.map_err(|error| refused(&entry.table, &error))?;
                let snapshot = tables.snapshot();
                let view = snapshot.table(*table).and_then(|view| view.counters());
                let counters = view.ok_or(format!("{} counts nothing", entry.table))?;
                counters.read(slot.0 as usize).ok_or("no such counter".to_owned())?
            }
        };
        Ok(if bytes { count.bytes } else { count.packets })
    }

    /// An array of counters without an index reads like the counter of an entry.
    fn is_no_array(&self, entry: &EntryText) -> Result<(), String> {
        let name = &entry.table;
        let mut tables = self.program.tables.iter();
        let mut arrays = self.program.counters.iter();
        if tables.any(|table| table.name == *name) || !arrays.any(|c| ends_in(&c.name, name)) {
            return Ok(());
        }
        Err(format!(
            "counter `{name}` is an array: write an index, as in `check_counter {name}(0)`"
        ))
    }

    fn parser_errors(&self, name: &str) -> Result<u64, Stop> {
        let id = self.program.errors.iter().position(|error| error == name);
        let id = id.ok_or(format!("there is no parser error `{name}`"))?;
        let count = self.generation.state.statistics().parser_errors.read(id);
        Ok(count.map_or(0, |count| count.packets))
    }

    fn register(&self, name: &str, index: u64, cell: Option<&str>) -> Result<u64, Stop> {
        let found = self.program.registers.entries().find(|(_, r)| r.name == name);
        let (id, declared): (RegisterId, _) = found.ok_or(format!("no register `{name}`"))?;
        let cell = cell.unwrap_or("value");
        let place = declared.cells.iter().position(|c| c.name == cell);
        let place = place.ok_or(format!("{name} has no cell `{cell}`"))?;
        let array = self.generation.state.register(id);
        let value = array.and_then(|array| array.load(index, place));
        Ok(value.ok_or(format!("{name} has {} entries", declared.size))?)
    }

    fn entries(&self, name: &str) -> Result<u64, Stop> {
        let tables = self.generation.state.tables();
        let id = tables.find_table(name).ok_or(format!("there is no table `{name}`"))?;
        Ok(tables.entries(id).map_err(|e| e.to_string())?.len() as u64)
    }
}
