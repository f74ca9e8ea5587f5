//! The memory that a program's state takes, computed from its declarations alone.

use super::load;
use crate::ids::*;
use crate::ir::Program;
use wireyard_tables::size::{counter_bytes, meter_bytes, profile_bytes, table_bytes};

/// Default limit of the bytes of a program's state.
pub const STATE_BYTES_MAX: u64 = 1 << 30;

/// A declaration with state between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A table, with all its entries, in both copies.
    Table(TableId),
    /// A register array.
    Register(RegisterId),
    /// A counter array, in a lane for each worker.
    Counter(CounterId),
    /// A meter array.
    Meter(MeterId),
}

/// One declaration and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// The declaration.
    pub keeper: Keeper,
    /// Its kind and name: ``register `r` ``.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
}

/// The parts of a program's state for `workers` workers, the largest first.
pub fn parts(program: &Program, workers: usize) -> Vec<StatePart> {
    let mut parts = Vec::new();
    let mut add = |keeper, what: &str, name: &str, bytes| {
        parts.push(StatePart { keeper, name: format!("{what} `{name}`"), bytes });
    };
    for (id, table) in program.tables.entries() {
        let entries =
            load::table_spec(program, table, None).map_or(0, |s| table_bytes(&s, workers));
        let profile = table.selector.as_ref().map_or(0, |selector| {
            load::profile_spec(program, table, selector).map_or(0, |spec| profile_bytes(&spec))
        });
        add(Keeper::Table(id), "table", &table.name, entries + profile);
    }
    for (id, register) in program.registers.entries() {
        let bytes = register.cells.len() as u64 * u64::from(register.size) * 8;
        add(Keeper::Register(id), "register", &register.name, bytes);
    }
    for (id, counter) in program.counters.entries() {
        let bytes = counter_bytes(counter.size, workers);
        add(Keeper::Counter(id), "counter", &counter.name, bytes);
    }
    for (id, meter) in program.meters.entries() {
        add(Keeper::Meter(id), "meter", &meter.name, meter_bytes(meter.size));
    }
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    parts
}

/// All bytes of these parts.
pub fn total(parts: &[StatePart]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
}

/// The largest parts in words: ``register `r` 2.0 GiB, table `t` 13.4 MiB``.
pub fn largest(parts: &[StatePart]) -> String {
    const SHOWN: usize = 4;
    let mut words: Vec<String> = parts
        .iter()
        .take(SHOWN)
        .map(|part| format!("{} {}", part.name, amount(part.bytes)))
        .collect();
    if parts.len() > SHOWN {
        words.push(format!("{} more", parts.len() - SHOWN));
    }
    words.join(", ")
}

/// A size with its unit: `512 B`, `13.4 MiB`.
pub fn amount(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
