//! The account of every packet: the ledger of each device.

use super::Window;
use crate::report::{Column, Report, Table, Unit};

/// Devices of a table: in a large fabric, the checks cover the others.
const DEVICES_MAX: usize = 64;

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let names = ["received", "generated", "sent", "dropped", "consumed", "queued"];
    let numbers = names.map(|name| Column::numbers(name, Unit::Count));
    let mut columns = vec![Column::words("device")];
    columns.extend(numbers);
    columns.push(Column::words("balance"));
    let mut table = Table::new(
        "Where every packet went",
        "In the whole run: received + generated = sent + dropped + consumed + queued, in every device.",
        columns,
    );
    let nodes = &window.lab.scenario.fabric.nodes;
    for (node, core) in nodes.iter().zip(&window.lab.cores).take(DEVICES_MAX) {
        let ledger = core.report();
        let counts = [
            ledger.received,
            ledger.generated,
            ledger.sent,
            ledger.dropped_packets(),
            ledger.consumed_packets(),
            ledger.queued,
        ];
        let mut row = vec![node.name.clone().into()];
        row.extend(counts.map(Into::into));
        row.push(if ledger.balanced { "holds".into() } else { "FAILS".into() });
        table.rows.push(row);
    }
    report.tables.push(table);
}
