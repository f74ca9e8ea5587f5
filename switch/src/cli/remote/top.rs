//! `top`: the present activity of a running switch: rates of ports, queues, pauses by sender, drops, the entries that
//! most packets hit.
//!
//! Two statistics, an interval apart, and their difference; the switch keeps no state for it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::stats::faults;
use super::{Failure, Outcome, connect_at, print, reader_is_gone};
use crate::cli::args::TopArgs;
use crate::management::client::{Calls, Remote};
use crate::p4runtime::proto::wireyard::v1 as wire;

/// Entries of each table that are read.
const ENTRIES: u32 = 20;
/// Lines of a list in the text output.
const SHOWN: usize = 10;

pub(super) fn run(args: &TopArgs) -> Outcome {
    let on = &args.on;
    let seconds = on.watch.unwrap_or(1.0);
    if !(0.05..=3600.0).contains(&seconds) {
        return Err(format!("--watch={seconds}: give 0.05 to 3600 seconds").into());
    }
    let remote = connect_at(&on.place)?;
    let mut interrupts = remote.interrupts()?;
    let mut before = take(&remote)?;
    loop {
        if interrupts.within(Duration::from_secs_f64(seconds)) {
            return Ok(());
        }
        let now = take(&remote)?;
        let shown = compare(&before, &now);
        match on.json {
            true => print::line(&shown),
            false => {
                let text = people(&shown, remote.name());
                if !args.once {
                    print::clear_screen();
                }
                super::super::print(&text);
            }
        }
        if args.once || reader_is_gone() {
            return Ok(());
        }
        before = now;
    }
}

fn take(remote: &Remote) -> Result<Value, Failure> {
    let request = wire::StatisticsRequest { entries: ENTRIES, clear_watermarks: false };
    Ok(remote.document(|mut calls: Calls| async move { calls.statistics(request).await })?)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The values of a list by one of their members.
fn by<'v>(list: &'v Value, key: &str) -> BTreeMap<String, &'v Value> {
    items(list).map(|one| (one[key].to_string(), one)).collect()
}

/// The difference of two statistics, as rates.
fn compare(before: &Value, now: &Value) -> Value {
    let span_s = count(&now["time_ns"]).saturating_sub(count(&before["time_ns"])) as f64 / 1e9;
    let span_s = span_s.max(1e-3);
    let rate = |now: &Value, before: Option<&Value>| {
        let more = count(now).saturating_sub(before.map_or(0, count));
        (more as f64 / span_s).round() as u64
    };
    let known = by(&before["ports"], "port");
    let ports = items(&now["ports"]).map(|port| {
        let old = known.get(&port["port"].to_string()).map(|old| &old["medium"]);
        let of = |name: &str| rate(&port["medium"][name], old.map(|old| &old[name]));
        json!({
            "port": port["port"], "name": port["name"],
            "rx_packets_s": of("rx_frames"), "rx_bits_s": of("rx_bytes") * 8,
            "tx_packets_s": of("tx_frames"), "tx_bits_s": of("tx_bytes") * 8,
            "faults": port["faults"],
        })
    });
    let known = by(&before["queueing"]["ports"], "port");
    let mut queues = Vec::new();
    for port in items(&now["queueing"]["ports"]) {
        let old = known.get(&port["port"].to_string()).map(|old| by(&old["queues"], "queue"));
        let mut stopped: Vec<u64> = items(&port["groups"])
            .filter(|group| group["stopped"] == true)
            .map(|group| count(&group["group"]))
            .collect();
        for queue in items(&port["queues"]) {
            let number = queue["queue"].to_string();
            let old = old.as_ref().and_then(|old| old.get(&number));
            let of = |name: &str| rate(&queue[name], old.map(|old| &old[name]));
            let stops = stopped.contains(&count(&queue["queue"]));
            stopped.retain(|group| *group != count(&queue["queue"]));
            queues.push(json!({
                "port": port["port"], "queue": queue["queue"], "waiting_bytes": queue["waiting_bytes"],
                "peak_bytes": queue["peak_bytes"], "packets_s": of("sent") + of("passed"),
                "marked_s": of("marked"), "dropped_s": of("dropped") + of("refused"),
                "paused": queue["paused"], "stops_its_peer": stops,
            }));
        }
        // A port that only receives in a class has no packets in its own queue of that class.
        queues.extend(stopped.into_iter().map(|group| {
            json!({
                "port": port["port"], "queue": group, "waiting_bytes": 0, "peak_bytes": 0,
                "packets_s": 0, "marked_s": 0, "dropped_s": 0,
                "paused": false, "stops_its_peer": true,
            })
        }));
    }
    let old: BTreeMap<String, u64> = items(&before["total"]["dropped"])
        .map(|pair| (pair[0].to_string(), count(&pair[1])))
        .collect();
    let drops = items(&now["total"]["dropped"]).map(|pair| {
        let old = Value::from(old.get(&pair[0].to_string()).copied().unwrap_or(0));
        json!({ "reason": pair[0], "dropped": pair[1], "dropped_s": rate(&pair[1], Some(&old)) })
    });
    // Reasons that are dropping now come first.
    let mut drops: Vec<Value> = drops.collect();
    let figure = |drop: &Value, name: &str| std::cmp::Reverse(count(&drop[name]));
    drops.sort_by_key(|drop| (figure(drop, "dropped_s"), figure(drop, "dropped")));
    json!({
        "seconds": span_s,
        "program": now["program"]["name"],
        "ports": ports.collect::<Value>(),
        "queues": queues,
        "waits": now["waits"],
        "drops": drops,
        "entries": hottest(before, now, &rate),
    })
}

/// Entries that packets hit meanwhile, the busiest first.
fn hottest(
    before: &Value,
    now: &Value,
    rate: &dyn Fn(&Value, Option<&Value>) -> u64,
) -> Vec<Value> {
    let name = |table: &Value, entry: &Value| {
        format!("{} {} {}", table["table"], entry["match"], entry["priority"])
    };
    let (mut old, mut least) = (BTreeMap::new(), BTreeMap::new());
    for table in items(&before["entry_counters"]) {
        old.extend(items(&table["entries"]).map(|entry| (name(table, entry), &entry["packets"])));
        // Entries that were not shown had counted no more than the last one.
        let last = items(&table["entries"]).last().filter(|_| count(&table["more"]) > 0);
        least.extend(last.map(|last| (table["table"].to_string(), &last["packets"])));
    }
    let mut all = Vec::new();
    for table in items(&now["entry_counters"]) {
        for entry in items(&table["entries"]) {
            let shown = old.get(&name(table, entry));
            let packets_then = shown.or_else(|| least.get(&table["table"].to_string()));
            let packets_s = rate(&entry["packets"], packets_then.copied());
            if packets_s > 0 {
                all.push(json!({
                    "table": table["table"], "match": entry["match"], "action": entry["action"],
                    "packets": entry["packets"], "packets_s": packets_s,
                }));
            }
        }
    }
    all.sort_by_key(|entry| std::cmp::Reverse(count(&entry["packets_s"])));
    all
}

/// A rate with a prefix.
fn short(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        10_000..10_000_000 => format!("{:.1} k", value as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} M", value as f64 / 1e6),
        _ => format!("{:.1} G", value as f64 / 1e9),
    }
}

fn people(shown: &Value, switch: &str) -> String {
    let text = |value: &Value| print::cell(value);
    let mut out = String::new();
    let _ = writeln!(out, "{} at {switch}", text(&shown["program"]));
    let _ = writeln!(
        out,
        "\n{:>5}  {:<20} {:>12} {:>12} {:>12} {:>12}",
        "port", "name", "rx packet/s", "rx bit/s", "tx packet/s", "tx bit/s"
    );
    for port in items(&shown["ports"]) {
        let rate = |name: &str| short(count(&port[name]));
        let _ = writeln!(
            out,
            "{:>5}  {:<20} {:>12} {:>12} {:>12} {:>12}",
            text(&port["port"]),
            text(&port["name"]),
            rate("rx_packets_s"),
            rate("rx_bits_s"),
            rate("tx_packets_s"),
            rate("tx_bits_s")
        );
    }
    queues(&mut out, shown);
    items(&shown["ports"]).for_each(|port| faults(&mut out, port));
    for drop in items(&shown["drops"]).take(SHOWN) {
        let rate = short(count(&drop["dropped_s"]));
        let _ = writeln!(
            out,
            "dropped: {} {rate}/s, {} in all",
            text(&drop["reason"]),
            drop["dropped"]
        );
    }
    for entry in items(&shown["entries"]).take(SHOWN) {
        let rate = short(count(&entry["packets_s"]));
        let (table, keys) = (text(&entry["table"]), text(&entry["match"]));
        let _ = writeln!(out, "{rate:>10}/s  {table}: {keys} -> {}", text(&entry["action"]));
    }
    out
}

fn queues(out: &mut String, shown: &Value) {
    let mut is_first = true;
    for queue in items(&shown["queues"]) {
        if std::mem::take(&mut is_first) {
            let _ = writeln!(
                out,
                "\n{:>5} {:>5} {:>12} {:>12} {:>12} {:>10} {:>10}",
                "port", "queue", "waiting B", "peak B", "packet/s", "marked/s", "dropped/s"
            );
        }
        let rate = |name: &str| short(count(&queue[name]));
        let paused = if queue["paused"] == true { "  paused by its peer" } else { "" };
        let stops = if queue["stops_its_peer"] == true { "  pauses its peer" } else { "" };
        let _ = writeln!(
            out,
            "{:>5} {:>5} {:>12} {:>12} {:>12} {:>10} {:>10}{paused}{stops}",
            count(&queue["port"]),
            count(&queue["queue"]),
            count(&queue["waiting_bytes"]),
            count(&queue["peak_bytes"]),
            rate("packets_s"),
            rate("marked_s"),
            rate("dropped_s"),
        );
    }
    for wait in items(&shown["waits"]) {
        let _ = writeln!(
            out,
            "port {} pauses its peer ({}) for port {}, whose queue {} is paused with {} B of it",
            wait["port"],
            stopped(&wait["priorities"]),
            wait["waits_for"],
            wait["queue"],
            wait["bytes"]
        );
    }
    out.push('\n');
}

/// The priorities that a pause stops; an 802.3 PAUSE stops all of them.
fn stopped(priorities: &Value) -> String {
    match priorities {
        Value::Null => "the whole link".to_owned(),
        priorities => format!("priorities {}", print::cell(priorities)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_whole_link_names_no_priority() {
        assert_eq!(stopped(&Value::Null), "the whole link");
        assert_eq!(stopped(&json!([3, 4])), "priorities 3, 4");
    }

    #[test]
    fn rates_are_differences_by_time() {
        let at = |time_ns: u64, frames: u64, dropped: u64, hits: u64| {
            json!({
                "time_ns": time_ns,
                "ports": [{ "port": 1, "name": "a", "medium": { "rx_frames": frames, "rx_bytes": frames * 100 } }],
                "total": { "dropped": [["acl", dropped]] },
                "entry_counters": [{ "table": "t", "entries": [
                    { "match": { "k": "1" }, "action": "x", "packets": hits }, { "match": { "k": "2" }, "action": "y", "packets": 3 },
                ] }],
            })
        };
        let shown = compare(&at(0, 100, 5, 10), &at(500_000_000, 300, 6, 20));
        assert_eq!(shown["ports"][0]["rx_packets_s"], 400);
        assert_eq!(shown["ports"][0]["rx_bits_s"], 320_000);
        assert_eq!(shown["drops"][0]["dropped_s"], 2);
        let faulty = json!({ "ports": [{ "port": 1, "faults": { "sent": { "lost": 4 } } }] });
        assert!(people(&compare(&faulty, &faulty), "s").contains("port 1 fault, sent: 4 lost"));
        assert_eq!(shown["entries"].as_array().map(Vec::len), Some(1), "{shown}");
        assert_eq!(shown["entries"][0]["packets_s"], 20);
        let text = people(&shown, "here");
        assert!(text.contains("t: k=1 -> x") && text.contains("acl 2/s, 6 in all"), "{text}");
    }

    /// Only the busiest entries are sent: what another one counted before is at most what the last of them had.
    #[test]
    fn an_entry_that_joins_the_busiest_has_no_rate_of_its_whole_life() {
        let at = |time_ns: u64, key: &str, packets: u64| {
            let busy = json!({ "match": { "k": "1" }, "action": "x", "packets": 900 });
            let last = json!({ "match": { "k": key }, "action": "x", "packets": packets });
            let table = json!({ "table": "t", "entries": [busy, last], "more": 7 });
            json!({ "time_ns": time_ns, "entry_counters": [table] })
        };
        let shown = compare(&at(0, "2", 800), &at(1_000_000_000, "3", 805));
        assert_eq!(shown["entries"].as_array().map(Vec::len), Some(1), "{shown}");
        assert_eq!(shown["entries"][0]["packets_s"], 5);
    }

    #[test]
    fn a_port_that_only_receives_in_a_class_is_shown_while_it_pauses_its_peer() {
        let groups = json!([{ "group": 3, "stopped": true }, { "group": 4, "stopped": true }, { "group": 5 }]);
        let port = json!({ "port": 1, "queues": [{ "queue": 4 }], "groups": groups });
        let now = json!({ "time_ns": 1_000_000_000, "queueing": { "ports": [port] } });
        let shown = compare(&json!({}), &now);
        let found = items(&shown["queues"])
            .map(|one| (count(&one["queue"]), one["stops_its_peer"] == true));
        assert_eq!(found.collect::<Vec<_>>(), [(4, true), (3, true)]);
        assert_eq!(people(&shown, "here").matches("pauses its peer").count(), 2);
    }
}
