//! `stats`: what a running switch has counted.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Outcome, print, show};
use crate::cli::args::StatsArgs;
use crate::p4runtime::proto::wireyard::v1 as wire;

pub(super) fn run(args: &StatsArgs) -> Outcome {
    show(&args.on, |remote| {
        let request = wire::StatisticsRequest {
            entries: args.entries.unwrap_or(0),
            clear_watermarks: args.clear_watermarks,
        };
        let all = remote.document(|mut calls| async move { calls.statistics(request).await })?;
        match args.on.json {
            true => print::line(&all),
            false => people(&all),
        }
        Ok(())
    })
}

fn rows(items: impl Iterator<Item = Value>) {
    let mut rows = print::Rows::new(false);
    items.for_each(|item| {
        rows.add(item);
    });
    rows.finish();
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The sum of counts by reason.
fn sum(reasons: &Value) -> u64 {
    items(reasons).filter_map(|pair| pair[1].as_u64()).sum()
}

fn people(all: &Value) {
    rows(items(&all["ports"]).map(|port| {
        let (medium, ledger) = (&port["medium"], &port["ledger"]);
        json!({
            "port": port["port"], "name": port["name"],
            "received": medium["rx_frames"], "bytes in": medium["rx_bytes"],
            "sent": medium["tx_frames"], "bytes out": medium["tx_bytes"],
            "dropped": sum(&ledger["dropped"]), "consumed": sum(&ledger["consumed"]),
        })
    }));
    let total = &all["total"];
    let mut out = String::new();
    let _ = writeln!(
        out,
        "total: {} received + {} generated = {} sent + {} dropped + {} consumed + {} queued",
        total["received"],
        total["generated"],
        total["sent"],
        sum(&total["dropped"]),
        sum(&total["consumed"]),
        total["queued"]
    );
    for (what, counts) in [("dropped", &total["dropped"]), ("consumed", &total["consumed"])] {
        for pair in items(counts) {
            let _ = writeln!(out, "  {what}: {} ({})", print::cell(&pair[0]), pair[1]);
        }
    }
    let program = &all["program"];
    let _ = writeln!(
        out,
        "program {}: {} engine",
        print::cell(&program["name"]),
        print::cell(&program["engine"])
    );
    super::super::print(&out);
    rows(items(&program["tables"]).cloned());
    for port in items(&all["queueing"]["ports"]) {
        rows(items(&port["queues"]).map(|queue| {
            let mut shown = json!({ "port": port["port"] });
            for name in QUEUE_COLUMNS {
                shown[name] = queue[name].clone();
            }
            shown
        }));
    }
    for table in items(&all["entry_counters"]) {
        rows(items(&table["entries"]).map(|entry| {
            let mut shown = json!({ "table": table["table"] });
            let members = entry.as_object().into_iter().flatten();
            members.for_each(|(name, value)| shown[name.as_str()] = value.clone());
            shown
        }));
    }
}

/// What is shown of a queue; JSON has all.
const QUEUE_COLUMNS: [&str; 9] = [
    "queue",
    "waiting_bytes",
    "peak_bytes",
    "sent",
    "passed",
    "marked",
    "eligible",
    "refused",
    "dropped",
];
