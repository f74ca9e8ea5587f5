//! `stats`: the counters of a running switch.

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
            "sent out": medium["tx_frames"], "bytes out": medium["tx_bytes"],
            "dropped": sum(&ledger["dropped"]), "consumed": sum(&ledger["consumed"]),
            "kernel drops": medium["rx_kernel_drops"],
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
    items(&all["ports"]).for_each(|port| faults(&mut out, port));
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
    queues(&all["queueing"]);
    for table in items(&all["entry_counters"]) {
        rows(items(&table["entries"]).map(|entry| {
            let mut shown = json!({ "table": table["table"] });
            let members = entry.as_object().into_iter().flatten();
            members.for_each(|(name, value)| shown[name.as_str()] = value.clone());
            shown
        }));
    }
}

/// What the faults of a port did, both ways.
pub(super) fn faults(out: &mut String, port: &Value) {
    for way in ["received", "sent"] {
        let counts = port["faults"][way].as_object().into_iter().flatten();
        for (what, count) in counts.filter(|(_, count)| count.as_u64() != Some(0)) {
            let _ = writeln!(
                out,
                "  port {} fault, {way}: {count} {}",
                port["port"],
                what.replace('_', " ")
            );
        }
    }
}

/// Queues, priority groups, pauses and pools.
fn queues(all: &Value) {
    let of_ports = |list: &'static str, names: &'static [&'static str]| {
        rows(items(&all["ports"]).flat_map(|port| {
            items(&port[list]).map(|one| {
                let mut shown = json!({ "port": port["port"] });
                names.iter().for_each(|name| shown[*name] = one[*name].clone());
                // 802.3 PAUSE is of all priorities.
                if list == "pauses" && one["priority"].is_null() {
                    shown["priority"] = "all".into();
                }
                shown
            })
        }));
    };
    of_ports("queues", &QUEUE_COLUMNS);
    of_ports("groups", &GROUP_COLUMNS);
    of_ports("pauses", &PAUSE_COLUMNS);
    rows(items(&all["pools"]).map(|pool| {
        json!({
            "pool": pool["name"], "reserved_bytes": pool["reserved_bytes"],
            "shared_bytes": pool["shared_bytes"], "headroom_bytes": pool["headroom_bytes"],
            "peak_bytes": pool["peak_bytes"],
        })
    }));
}

/// Columns of a priority group, and of the pauses of a priority: sent to the peer, and received.
const GROUP_COLUMNS: [&str; 7] =
    ["group", "bytes", "peak_bytes", "xoff_at_bytes", "stopped", "refused", "xoff"];
const PAUSE_COLUMNS: [&str; 6] =
    ["priority", "sent", "resumes_sent", "received", "resumes_received", "paused_ns"];

/// Columns of a queue; JSON has all.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_faults_lose_is_shown() {
        let sent = json!({ "lost": 3, "corrupted": 0, "under_way": 1 });
        let port = json!({ "port": 2, "faults": { "received": { "lost": 0 }, "sent": sent } });
        let mut out = String::new();
        faults(&mut out, &port);
        assert_eq!(out, "  port 2 fault, sent: 3 lost\n  port 2 fault, sent: 1 under way\n");
        faults(&mut out, &json!({ "port": 1 }));
        assert_eq!(out.lines().count(), 2, "{out}");
    }
}
