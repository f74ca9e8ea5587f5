//! Rates, marking curves and thresholds at run time.

use serde_json::{Value, json};

use super::ports::number;
use crate::control::{Control, ControlError, QueueSettings};
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::tm::{Curve, Limit};
use crate::units::{BitsPerSec, Bytes, PoolAlpha, Probability};
use wireyard_pipeline::diag::suggest;

type Result<T> = std::result::Result<T, ControlError>;

/// What can be set, as in `qos:`.
const NAMES: [&str; 6] = ["rate", "kmin", "kmax", "pmax", "alpha", "limit"];

fn invalid(text: String) -> ControlError {
    ControlError::InvalidArgument(text)
}

/// What is asked for.
#[derive(Debug, Default)]
struct Wanted {
    rate: Option<BitsPerSec>,
    kmin: Option<Bytes>,
    kmax: Option<Bytes>,
    pmax: Option<Probability>,
    limit: Option<Limit>,
}

fn parse(settings: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    for setting in settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| invalid(format!("`{setting}`: write NAME=VALUE")))?;
        fn read<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T> {
            text.trim().parse().map_err(|error| invalid(format!("{name}: {error}")))
        }
        match name.trim() {
            "rate" => wanted.rate = Some(read(name, value)?),
            "kmin" => wanted.kmin = Some(read(name, value)?),
            "kmax" => wanted.kmax = Some(read(name, value)?),
            "pmax" => wanted.pmax = Some(read(name, value)?),
            "alpha" => wanted.limit = Some(Limit::Dynamic(read::<PoolAlpha>(name, value)?)),
            "limit" => wanted.limit = Some(Limit::Static(read::<Bytes>(name, value)?.get())),
            other => {
                let near = suggest(other, NAMES);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                let all = NAMES.join(", ");
                return Err(invalid(format!("`{other}` cannot be set; what can: {all}{near}")));
            }
        }
    }
    Ok(wanted)
}

/// One queue as a document.
pub fn shown(one: &QueueSettings) -> Value {
    let mut value = json!({ "port": one.port, "queue": one.queue });
    value["rate"] = one.rate.map(|rate| rate.to_string()).into();
    value["lossless"] = one.lossless.into();
    match one.limit {
        Some(Limit::Static(bytes)) => value["limit"] = Bytes::new(bytes).to_string().into(),
        Some(Limit::Dynamic(alpha)) => value["alpha"] = alpha.to_string().into(),
        None => {}
    }
    let curve = one.wred.and_then(|wred| wred.curves.into_iter().flatten().next());
    if let Some((kmin, kmax, pmax)) = curve.map(|curve| curve.parts()) {
        value["kmin"] = Bytes::new(kmin).to_string().into();
        value["kmax"] = Bytes::new(kmax).to_string().into();
        value["pmax"] = pmax.to_string().into();
    }
    value
}

/// Changes what is asked for: all of it, or nothing. Without settings nothing changes; the queue, or those of the port, come back.
///
/// # Errors
/// Nothing has changed.
pub fn change(control: &Control, request: &wire::QueueRequest) -> Result<Value> {
    let wanted = parse(&request.settings)?;
    let port = request.port.map(number).transpose()?;
    let queue = match request.queue {
        Some(queue) => Some(u8::try_from(queue).map_err(|_| invalid(format!("no queue {queue}")))?),
        None => None,
    };
    let is_it = |one: &QueueSettings| {
        port.is_none_or(|port| one.port == port) && queue.is_none_or(|queue| one.queue == queue)
    };
    let found = || -> Result<Vec<QueueSettings>> {
        Ok(control.queue_settings()?.into_iter().filter(&is_it).collect())
    };
    let before = found()?;
    if !request.settings.is_empty() {
        let port = port.ok_or_else(|| invalid("say which port".into()))?;
        set(control, port, queue, &wanted, &before)?;
    }
    Ok(found()?.iter().map(shown).collect())
}

/// Checks all, then sets all.
fn set(
    control: &Control,
    port: u16,
    queue: Option<u8>,
    wanted: &Wanted,
    before: &[QueueSettings],
) -> Result<()> {
    if before.is_empty() {
        let text = format!(
            "there is no such queue of port {port}: the switch has no `qos:`, or no such port"
        );
        return Err(ControlError::NotFound(text));
    }
    let is_of_queue = wanted.kmin.is_some()
        || wanted.kmax.is_some()
        || wanted.pmax.is_some()
        || wanted.limit.is_some();
    if is_of_queue && queue.is_none() {
        return Err(invalid("say which queue: only `rate` is of the whole port".into()));
    }
    if wanted.rate.is_some() && queue.is_some() {
        return Err(invalid("`rate` is of the whole port: leave the queue out".into()));
    }
    if let (Some(rate), None) = (wanted.rate, queue) {
        control.set_rate(port, rate)?;
    }
    let ([one], Some(queue)) = (before, queue) else { return Ok(()) };
    let mut wred = None;
    if wanted.kmin.is_some() || wanted.kmax.is_some() || wanted.pmax.is_some() {
        let mut config = one.wred.ok_or_else(|| {
            let text = format!("queue {queue} of port {port} has no marking to be changed");
            ControlError::FailedPrecondition(text)
        })?;
        for curve in config.curves.iter_mut().flatten() {
            let (kmin, kmax, pmax) = curve.parts();
            let kmin = wanted.kmin.map_or(kmin, Bytes::get);
            let kmax = wanted.kmax.map_or(kmax, Bytes::get);
            let pmax = wanted.pmax.unwrap_or(pmax);
            *curve = Curve::new(kmin, kmax, pmax).ok_or_else(|| {
                invalid(format!("kmin {kmin} B is above kmax {kmax} B, or kmax above 2 GiB"))
            })?;
        }
        wred = Some(config);
    }
    if let Some(config) = wred {
        control.set_wred(port, queue, config)?;
    }
    if let Some(limit) = wanted.limit {
        control.set_group_limit(port, queue, limit)?;
    }
    Ok(())
}
