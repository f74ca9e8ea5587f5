//! Counters as a table, or as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{print, print_json};
use crate::core::{
    Core, EntriesShown, PortReport, ProgramReport, QueueingReport, Statistics, TableEntries,
};
use crate::recorder::RecorderReport;
use crate::stats::LedgerReport;

/// All statistics, with the requested entry counters.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    statistics: &'a Statistics,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry_counters: Option<&'a [TableEntries]>,
}

/// Prints all counters of a device, with the counters of entries if requested.
pub(super) fn show(
    core: &Core,
    statistics: &Statistics,
    entries: Option<EntriesShown>,
    as_json: bool,
) {
    let current = core.generation();
    let entries = entries
        .map(|shown| current.map_or_else(Vec::new, |current| TableEntries::of(current, shown)));
    let entry_counters = entries.as_deref();
    match as_json {
        true => print_json(&Shown { statistics, entry_counters }),
        false => print(&table(statistics, entry_counters.unwrap_or_default())),
    }
}

fn table(statistics: &Statistics, entries: &[TableEntries]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>5}  {:<24} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "port", "name", "received", "sent out", "dropped", "consumed", "kernel"
    );
    for port in &statistics.ports {
        row(&mut out, port);
    }
    let total = &statistics.total;
    let _ = writeln!(
        out,
        "total: {} received + {} generated = {} sent + {} dropped + {} consumed + {} queued{}",
        total.received,
        total.generated,
        total.sent,
        total.dropped_packets(),
        total.consumed_packets(),
        total.queued,
        if total.balanced { "" } else { "  (DOES NOT ADD UP)" }
    );
    for port in &statistics.ports {
        let Some(faults) = port.faults else { continue };
        for (way, counters) in [("received", faults.received), ("sent", faults.sent)] {
            let named = counters.named().into_iter().filter(|(_, count)| *count > 0);
            for (name, count) in named.chain([("under way", counters.under_way)]) {
                let _ = writeln!(out, "  port {} fault, {way}: {count} {name}", port.port);
            }
        }
    }
    reasons(&mut out, "dropped", &total.dropped);
    reasons(&mut out, "consumed", &total.consumed);
    if let Some(report) = &statistics.program {
        program(&mut out, report, entries);
    }
    if statistics.lost_digests > 0 {
        let _ = writeln!(out, "digests: {} lost by slow readers", statistics.lost_digests);
    }
    if let Some(report) = &statistics.queueing {
        queueing(&mut out, report);
    }
    if let Some(n) = &statistics.notification {
        let _ = writeln!(
            out,
            "congestion: {} reported, {} CNPs sent, {} suppressed, {} without a queue pair, {} never \
             answered",
            n.reported, n.cnp_sent, n.cnp_suppressed, n.cnp_no_qp_pair, n.ignored
        );
    }
    if let Some(l) = &statistics.linux {
        let _ = writeln!(
            out,
            "linux: {} packets to the kernel, {} refused, {} lost; {} from it, {} not sent",
            l.packets_to_kernel,
            l.packets_refused_by_kernel,
            l.packets_lost,
            l.packets_from_kernel,
            l.packets_not_sent
        );
        let _ = writeln!(
            out,
            "linux: {} IPv4 and {} IPv6 prefixes by {} next hops and {} groups; {} of the kernel itself, {} without room",
            l.routes4, l.routes6, l.next_hops, l.groups, l.routes_of_kernel, l.routes_missing
        );
    }
    captures(&mut out, &statistics.captures);
    out
}

fn captures(out: &mut String, captures: &[RecorderReport]) {
    for capture in captures {
        let error = capture.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
        let (file, records, lost) = (&capture.file, capture.records, capture.lost);
        let left_out = match capture.left_out {
            0 => String::new(),
            count => format!(", {count} left out by its filter"),
        };
        let _ = writeln!(out, "capture {file}: {records} records, {lost} lost{left_out}{error}");
    }
}

/// Cells of a counter that the table shows; JSON has more.
const CELLS_SHOWN: usize = 16;

fn program(out: &mut String, report: &ProgramReport, entries: &[TableEntries]) {
    let _ = writeln!(out, "program {}: {} engine", report.name, report.engine);
    for table in &report.tables {
        let _ = write!(out, "table {}: {} of {} entries", table.table, table.entries, table.size);
        if let (Some(packets), Some(bytes)) = (table.hit_packets, table.hit_bytes) {
            let _ = write!(out, ", hit by {packets} packets, {bytes} B");
        }
        out.push('\n');
        let own = entries.iter().filter(|entries| entries.table == table.table);
        own.for_each(|entries| entries_of(out, entries));
    }
    for cells in report.counters.chunk_by(|one, next| one.counter == next.counter) {
        for cell in cells.iter().take(CELLS_SHOWN) {
            let (name, index) = (&cell.counter, cell.index);
            let _ = writeln!(
                out,
                "counter {name}[{index}]: {} packets, {} B",
                cell.packets, cell.bytes
            );
        }
        let name = &cells[0].counter;
        let untold = report.more_cells.iter().find(|(counter, _)| counter == name);
        let more = cells.len().saturating_sub(CELLS_SHOWN) as u64 + untold.map_or(0, |(_, n)| *n);
        if more > 0 {
            let _ = writeln!(out, "counter {name}: {more} more cells above zero");
        }
    }
    let lists = [
        ("counts outside of counter", &report.stray_counts),
        ("entries not learned in", &report.learn_failures),
        ("entries became idle in", &report.idle_notices),
        ("idle entries removed from", &report.idle_removals),
        ("parser error", &report.parser_errors),
        ("wrong checksum", &report.checksum_errors),
        ("wrong CRC", &report.crc_errors),
    ];
    for (what, counts) in lists {
        reasons(out, what, counts);
    }
    if report.lost_clones > 0 {
        let _ = writeln!(out, "  clones that were not made: {}", report.lost_clones);
    }
}

fn entries_of(out: &mut String, table: &TableEntries) {
    for entry in &table.entries {
        let value = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let keys = entry.matches.iter().map(|(key, one)| format!("{key}: {}", value(one)));
        let keys: Vec<String> = keys.collect();
        let keys = if keys.is_empty() { "any".to_owned() } else { keys.join(", ") };
        let priority = entry.priority.map_or(String::new(), |p| format!(", priority {p}"));
        let _ = write!(out, "  {keys}{priority} -> {}", entry.action);
        if let (Some(packets), Some(bytes)) = (entry.packets, entry.bytes) {
            let _ = write!(out, ": {packets} packets, {bytes} B");
        }
        if let Some(meter) = &entry.meter {
            let _ = write!(out, "; meter: {meter}");
        }
        out.push('\n');
    }
    if table.more > 0 {
        let _ = writeln!(out, "  {} more entries", table.more);
    }
}

fn queueing(out: &mut String, report: &QueueingReport) {
    let _ = writeln!(
        out,
        "{:>5} {:>5} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "port", "queue", "waiting B", "peak B", "sent", "marked", "of ECT", "refused", "dropped"
    );
    for port in &report.ports {
        for q in &port.queues {
            let _ = writeln!(
                out,
                "{:>5} {:>5} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10}{}",
                port.port,
                q.queue,
                q.waiting_bytes,
                q.peak_bytes,
                q.sent + q.passed,
                q.marked,
                q.eligible,
                q.refused,
                q.dropped,
                if q.paused { "  paused" } else { "" }
            );
        }
    }
    for port in &report.ports {
        for q in port.queues.iter().filter(|q| q.trimmed > 0) {
            let _ = writeln!(
                out,
                "port {} queue {}: {} packets trimmed, {} of them dropped",
                port.port, q.queue, q.trimmed, q.trim_dropped
            );
        }
        for g in &port.groups {
            let _ = writeln!(
                out,
                "port {} priority group {}: peak {} B, headroom peak {} B, {} XOFF, {} XON, {} packets \
                 after a pause that was not honoured",
                port.port,
                g.group,
                g.peak_bytes,
                g.peak_headroom_bytes,
                g.xoff,
                g.xon,
                g.not_honoured
            );
        }
        for p in &port.pauses {
            let of = match p.priority {
                Some(priority) => format!("priority {priority}"),
                None => "whole link (802.3)".to_owned(),
            };
            let _ = writeln!(
                out,
                "port {} {of}: {} pauses and {} resumes sent, {} and {} received, {} ns paused",
                port.port, p.sent, p.resumes_sent, p.received, p.resumes_received, p.paused_ns
            );
        }
    }
    for pool in &report.pools {
        let used = pool.reserved_bytes + pool.shared_bytes + pool.headroom_bytes;
        let _ = writeln!(out, "pool {}: {used} B in use, peak {} B", pool.name, pool.peak_bytes);
    }
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
        ledger.dropped_packets(),
        ledger.consumed_packets(),
        port.medium.rx_kernel_drops,
    );
}

fn reasons(out: &mut String, what: &str, counts: &[(String, u64)]) {
    for (reason, count) in counts {
        let _ = writeln!(out, "  {what} {reason}: {count}");
    }
}
