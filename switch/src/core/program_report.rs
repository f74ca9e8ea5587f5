//! Counts of the program itself: its counters and tables, and errors that its parser and checks found.
//!
//! Read from the state of the program that new packets run, which all workers share. Zeros are left out, and of a
//! counter no more than [`CELLS_MAX`] cells are shown: an array of 65,536 is not a report. Drops and other outcomes of
//! packets are not here but in the ledger.

use serde::Serialize;
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::{Id, IdVec};
use wireyard_tables::counter::{Count, CounterArray};

/// Cells of a counter that are shown, by ascending index.
const CELLS_MAX: usize = 256;

/// Counts of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// The engine that runs its packets now ([`Engine::name`](wireyard_pipeline::engine::Engine::name)).
    pub engine: &'static str,
    /// Its counters.
    pub counters: Vec<CellReport>,
    /// Cells above zero that are not shown, by counter.
    pub more_cells: Vec<(String, u64)>,
    /// Counts at an index outside of the counter.
    pub stray_counts: Vec<(String, u64)>,
    /// Its tables.
    pub tables: Vec<TableReport>,
    /// Entries that packets made or changed, by table.
    pub learned: Vec<(String, u64)>,
    /// Entries that could not be learned, by table.
    pub learn_failures: Vec<(String, u64)>,
    /// Entries that became idle and stay, by table.
    pub idle_notices: Vec<(String, u64)>,
    /// Idle entries that were removed, by table.
    pub idle_removals: Vec<(String, u64)>,
    /// Packets by the error of their parser.
    pub parser_errors: Vec<(String, u64)>,
    /// Packets whose checksum was wrong, by field.
    pub checksum_errors: Vec<(String, u64)>,
    /// Packets whose CRC was wrong, by field.
    pub crc_errors: Vec<(String, u64)>,
    /// Clones that a program requested and that were not made.
    pub lost_clones: u64,
}

/// A counter that is not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellReport {
    /// Name of the counter.
    pub counter: String,
    /// Index in it.
    pub index: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// Its name.
    pub table: String,
    /// Entries in it.
    pub entries: u32,
    /// Maximum number of entries.
    pub size: u32,
    /// Packets that hit an entry, where the table counts them (`counters: true`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_packets: Option<u64>,
    /// Bytes of these packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_bytes: Option<u64>,
}

impl ProgramReport {
    /// The counts so far of a generation's program. Needs no worker.
    pub(crate) fn of(generation: &Generation) -> ProgramReport {
        let (program, state) = (&generation.program, &generation.state);
        let (counters, more_cells) = cells(generation);
        let statistics = state.statistics();
        let counter_names = program.counters.iter().map(|counter| counter.name.as_str());
        let table_names = program.tables.iter().map(|table| table.name.as_str());
        let checksum_names = program.checksums.iter().map(|checksum| checksum.name.as_str());
        let crc_names = program.crcs.iter().map(|crc| crc.name.as_str());
        ProgramReport {
            name: program.name.clone(),
            engine: generation.engine.name(),
            counters,
            more_cells,
            stray_counts: named(&statistics.out_of_range_counts, counter_names),
            tables: tables(generation),
            learned: named(&statistics.learned, table_names.clone()),
            learn_failures: named(&statistics.learn_failures, table_names.clone()),
            idle_notices: named(&statistics.idle_notices, table_names.clone()),
            idle_removals: named(&statistics.idle_removals, table_names),
            parser_errors: named(&statistics.parser_errors, strings(&program.errors)),
            checksum_errors: named(&statistics.checksum_errors, checksum_names),
            crc_errors: named(&statistics.crc_errors, crc_names),
            lost_clones: statistics.lost_clones.read(0).map_or(0, |count| count.packets),
        }
    }
}

fn strings<I: Id>(names: &IdVec<I, String>) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str)
}

/// Packets of each cell above zero, with the name of the cell.
fn named<'n>(array: &CounterArray, names: impl Iterator<Item = &'n str>) -> Vec<(String, u64)> {
    let names: Vec<&str> = names.collect();
    let name = |index: usize| names.get(index).copied().unwrap_or_default().to_owned();
    array.above_zero().map(|(index, count)| (name(index), count.packets)).collect()
}

fn cells(generation: &Generation) -> (Vec<CellReport>, Vec<(String, u64)>) {
    let (mut shown, mut more) = (Vec::new(), Vec::new());
    for (id, declared) in generation.program.counters.entries() {
        let Some(array) = generation.state.counter(id) else { continue };
        let mut cells = array.above_zero();
        let first = cells.by_ref().take(CELLS_MAX);
        shown.extend(first.map(|(index, Count { packets, bytes })| CellReport {
            counter: declared.name.clone(),
            index: index as u32,
            packets,
            bytes,
        }));
        let rest = cells.count() as u64;
        if rest > 0 {
            more.push((declared.name.clone(), rest));
        }
    }
    (shown, more)
}

fn tables(generation: &Generation) -> Vec<TableReport> {
    let snapshot = generation.state.tables().snapshot();
    let declared = generation.program.tables.iter();
    let report = |(table, view): (&wireyard_pipeline::ir::Table, &wireyard_tables::TableView)| {
        let hits = view.counters().map(|array| {
            let sum: Count = array.above_zero().map(|(_, count)| count).sum();
            (sum.packets, sum.bytes)
        });
        TableReport {
            table: table.name.clone(),
            entries: view.len(),
            size: table.size,
            hit_packets: hits.map(|(packets, _)| packets),
            hit_bytes: hits.map(|(_, bytes)| bytes),
        }
    };
    declared.zip(snapshot.tables()).map(report).collect()
}
