//! What the switches' programs counted: cells of their counters, hits of their tables. Of the whole run, as the
//! program sees them; what end points count is with the flows.

use std::collections::BTreeMap;

use wireyard_pipeline::generation::Generation;
use wireyard_tables::counter::Count;

use super::Window;
use crate::report::{Cell, Column, Report, Table, Unit};

/// Rows of the table: in a large fabric, the sums are among the figures.
const ROWS_MAX: usize = 64;

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let nodes = &window.lab.scenario.fabric.nodes;
    let mut sums = BTreeMap::<String, Count>::new();
    let (mut rows, mut more) = (Vec::new(), 0_u64);
    for (node, core) in nodes.iter().zip(&window.lab.cores) {
        let Some(generation) = core.generation() else { continue };
        for Counted { figure, what, cells } in counted(generation) {
            let sum = sums.entry(figure).or_default();
            for (index, count) in cells {
                *sum += count;
                if rows.len() == ROWS_MAX {
                    more += 1;
                    continue;
                }
                let index = index.map_or(Cell::Empty, |index| (index as u64).into());
                let (device, what) = (node.name.clone().into(), what.clone().into());
                rows.push(vec![device, what, index, count.packets.into(), count.bytes.into()]);
            }
        }
    }
    for (name, sum) in sums {
        report.figure(format!("{name}.packets"), sum.packets as f64, Unit::Count);
        report.figure(format!("{name}.bytes"), sum.bytes as f64, Unit::Bytes);
    }
    if rows.is_empty() {
        return;
    }
    let mut note = "In the whole run, warm-up included; what is zero is left out.".to_owned();
    if more > 0 {
        note.push_str(&format!(" {more} more: their sums are among the figures."));
    }
    let columns = vec![
        Column::words("device"),
        Column::words("counter or table"),
        Column::numbers("index", Unit::Count),
        Column::numbers("packets", Unit::Count),
        Column::numbers("bytes", Unit::Bytes),
    ];
    report.tables.push(Table { title: "Counts of the programs".to_owned(), note, columns, rows });
}

/// What one counter or table of a program counted.
struct Counted {
    /// The first words of its figures.
    figure: String,
    /// Its name for readers.
    what: String,
    /// Counts above zero, by index where it has one.
    cells: Vec<(Option<usize>, Count)>,
}

fn counted(generation: &Generation) -> Vec<Counted> {
    let (program, state) = (&generation.program, &generation.state);
    let counters = program.counters.entries().filter_map(|(id, declared)| {
        let name = &declared.name;
        let cells = state.counter(id)?.above_zero().map(|(index, count)| (Some(index), count));
        Some(Counted {
            figure: format!("counter.{name}"),
            what: format!("counter {name}"),
            cells: cells.collect(),
        })
    });
    let snapshot = state.tables().snapshot();
    let tables = program.tables.iter().zip(snapshot.tables());
    let tables = tables.filter_map(|(table, view)| {
        let sum: Count = view.counters()?.above_zero().map(|(_, count)| count).sum();
        let name = &table.name;
        Some(Counted {
            figure: format!("table.{name}.hits"),
            what: format!("hits of table {name}"),
            cells: (sum.packets > 0).then_some((None, sum)).into_iter().collect(),
        })
    });
    counters.chain(tables).collect()
}
