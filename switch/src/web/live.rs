//! Continuously changing data in one document: counters, queues with their settings in force, pauses, links.

use serde_json::{Value, json};

use super::Result;
use crate::control::{Control, QueueSettings};
use crate::management::statistics;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::tm::{DecideAt, Limit};

/// Entries of each table whose hits are shown.
const ENTRIES: u32 = 10;
/// Colours of a curve, in its own order.
const COLORS: [&str; 3] = ["green", "yellow", "red"];

/// The document.
///
/// # Errors
/// A worker does not answer.
pub(super) fn document(control: &Control) -> Result<Value> {
    let request = wire::StatisticsRequest { entries: ENTRIES, clear_watermarks: false };
    let mut all = statistics::read(control, None, &request)?;
    let in_use: Vec<(u64, u64)> = in_use(&all["queueing"]).collect();
    let is_shown = |one: &&QueueSettings| {
        let place = (u64::from(one.port.0), u64::from(one.queue));
        one.lossless || one.wred.is_some() || in_use.contains(&place)
    };
    all["settings"] = control.queue_settings()?.iter().filter(is_shown).map(settings).collect();
    let links = control.ports()?;
    all["links"] = links
        .iter()
        .map(|one| json!({ "port": one.port, "link": one.link, "shut": one.shut, "worker": one.worker }))
        .collect();
    Ok(all)
}

/// Ports and queues that packets were in.
fn in_use(queueing: &Value) -> impl Iterator<Item = (u64, u64)> {
    let ports = queueing["ports"].as_array().into_iter().flatten();
    ports.flat_map(|port| {
        let number = port["port"].as_u64();
        let queues = port["queues"].as_array().into_iter().flatten();
        queues.filter_map(move |queue| Some((number?, queue["queue"].as_u64()?)))
    })
}

/// The settings in force for a queue, as numbers.
fn settings(one: &QueueSettings) -> Value {
    let mut value = json!({ "port": one.port, "queue": one.queue, "lossless": one.lossless });
    value["rate_bps"] = one.rate.map(|rate| rate.get()).into();
    match one.limit() {
        Some(Limit::Static(bytes)) => value["limit_bytes"] = bytes.into(),
        Some(Limit::Dynamic(alpha)) => value["alpha"] = alpha.to_string().into(),
        None => {}
    }
    if let Some(wred) = one.wred {
        let curves = COLORS.iter().zip(wred.curves);
        let curves = curves.filter_map(|(color, curve)| {
            let (kmin, kmax, pmax) = curve?.parts();
            Some(json!({ "color": color, "kmin_bytes": kmin, "kmax_bytes": kmax, "pmax_ppm": pmax.ppm() }))
        });
        value["curves"] = curves.collect();
        let decided = if wred.decide_at == DecideAt::Dequeue { "dequeue" } else { "enqueue" };
        value["decide_at"] = decided.into();
    }
    value
}
