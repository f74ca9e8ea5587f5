//! Counters as a table for people.

use std::fmt::Write;

use crate::core::{Core, PortReport};
use crate::stats::LedgerReport;

/// Everything a device counted, for `--json`.
pub(super) fn json(core: &mut Core) -> serde_json::Value {
    let ports = core.port_reports();
    serde_json::json!({ "total": core.report(), "ports": ports })
}

/// Everything a device counted.
pub(super) fn table(core: &mut Core) -> String {
    let mut out = String::new();
    let ports = core.port_reports();
    let _ = writeln!(
        out,
        "{:>5}  {:<24} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "port", "name", "received", "sent out", "dropped", "consumed", "kernel"
    );
    for port in &ports {
        row(&mut out, port);
    }
    let total = core.report();
    let _ = writeln!(
        out,
        "total: {} received + {} generated = {} sent + {} dropped + {} consumed + {} queued{}",
        total.received,
        total.generated,
        total.sent,
        sum(&total.dropped),
        sum(&total.consumed),
        total.queued,
        if total.balanced { "" } else { "  (DOES NOT ADD UP)" }
    );
    reasons(&mut out, "dropped", &total.dropped);
    reasons(&mut out, "consumed", &total.consumed);
    out
}

fn row(out: &mut String, port: &PortReport) {
    let ledger: &LedgerReport = &port.ledger;
    let _ = writeln!(
        out,
        "{:>5}  {:<24} {:>12} {:>12} {:>12} {:>12} {:>8}",
        port.port,
        port.name,
        ledger.received,
        port.medium.tx_frames,
        sum(&ledger.dropped),
        sum(&ledger.consumed),
        port.medium.rx_kernel_drops,
    );
}

fn reasons(out: &mut String, what: &str, counts: &[(String, u64)]) {
    for (reason, count) in counts {
        let _ = writeln!(out, "  {what} {reason}: {count}");
    }
}

fn sum(counts: &[(String, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}
