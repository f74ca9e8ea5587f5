//! Rates, marking curves, thresholds and PFC at run time.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::ports::number;
use crate::control::{
    Control, ControlError, PortChange, QueueChange, QueueSettings, invalid, no_marking,
};
use crate::core::PortState;
use crate::p4runtime::persist::settings::{OfPlace, SHUT};
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::ports::PortNumber;
use crate::tm::{CLASSES, Curve, FlowControl, Limit, Xon};
use crate::units::{BitsPerSec, Bytes, PoolAlpha, Probability};
use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::entries::Setting;

type Result<T> = std::result::Result<T, ControlError>;

/// Names of settings, as in `qos:`.
const NAMES: [&str; 9] =
    ["rate", "pfc", "kmin", "kmax", "pmax", "alpha", "limit", "xon_at", "xon_below_xoff"];

/// The requested settings.
#[derive(Debug, Default)]
struct Wanted {
    rate: Option<BitsPerSec>,
    kmin: Option<Bytes>,
    kmax: Option<Bytes>,
    pmax: Option<Probability>,
    limit: Option<Limit>,
    xon: Option<Xon>,
    /// Priorities with PFC, bit n for priority n.
    pfc: Option<u8>,
}

/// `3,4` or `none`.
fn priorities(text: &str) -> Result<u8> {
    if text.trim() == "none" {
        return Ok(0);
    }
    text.split(',').try_fold(0, |mask, one| match one.trim().parse::<u8>() {
        Ok(priority) if usize::from(priority) < CLASSES => Ok(mask | 1 << priority),
        _ => invalid(format!("pfc: `{one}` is no priority from 0 to 7: write 3,4 or none")),
    })
}

fn parse(settings: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut seen = BTreeSet::new();
    for setting in settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| ControlError::invalid(format!("`{setting}`: write NAME=VALUE")))?;
        fn read<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T> {
            text.trim().parse().map_err(|error| ControlError::invalid(format!("{name}: {error}")))
        }
        if !seen.insert(name.trim()) {
            return invalid(format!("{} is given twice: give it once", name.trim()));
        }
        if matches!(name.trim(), "alpha" | "limit") && wanted.limit.is_some() {
            return invalid("alpha and limit are two kinds of one threshold: give one of them");
        }
        match name.trim() {
            "rate" => wanted.rate = Some(read(name, value)?),
            "kmin" => wanted.kmin = Some(read(name, value)?),
            "kmax" => wanted.kmax = Some(read(name, value)?),
            "pmax" => wanted.pmax = Some(read(name, value)?),
            "alpha" => wanted.limit = Some(Limit::Dynamic(read::<PoolAlpha>(name, value)?)),
            "limit" => wanted.limit = Some(Limit::Static(read::<Bytes>(name, value)?.get())),
            "xon_at" => wanted.xon = Some(Xon::AtBytes(read::<Bytes>(name, value)?.get())),
            "xon_below_xoff" => {
                wanted.xon = Some(Xon::BelowXoff(read::<Bytes>(name, value)?.get()));
            }
            "pfc" => wanted.pfc = Some(priorities(value)?),
            other => {
                let near = suggest(other, NAMES);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                let all = NAMES.join(", ");
                return invalid(format!("`{other}` cannot be set; what can: {all}{near}"));
            }
        }
    }
    Ok(wanted)
}

/// Checks names and values of settings; whether ports and queues have them is known on the device only.
///
/// # Errors
/// The first that cannot be set.
pub fn check(settings: &[String]) -> Result<()> {
    let (_, others) = without_shut(settings)?;
    parse(&others).map(drop)
}

/// A queue as a document.
pub fn shown(one: &QueueSettings) -> Value {
    let mut value = json!({ "port": one.port, "queue": one.queue });
    value["rate"] = one.rate.map(|rate| rate.to_string()).into();
    value["lossless"] = one.lossless.into();
    match one.limit() {
        Some(Limit::Static(bytes)) => value["limit"] = Bytes::new(bytes).to_string().into(),
        Some(Limit::Dynamic(alpha)) => value["alpha"] = alpha.to_string().into(),
        None => {}
    }
    match one.xon {
        Some(Xon::AtBytes(bytes)) => value["xon_at"] = Bytes::new(bytes).to_string().into(),
        Some(Xon::BelowXoff(bytes)) => {
            value["xon_below_xoff"] = Bytes::new(bytes).to_string().into();
        }
        None => {}
    }
    if one.flow_control.mode == FlowControl::Pfc {
        let enabled = one.flow_control.enabled;
        value["pfc"] = (0..8u8).filter(|priority| enabled >> priority & 1 == 1).collect();
    }
    let curve = one.wred.and_then(|wred| wred.curves.into_iter().flatten().next());
    if let Some((kmin, kmax, pmax)) = curve.map(|curve| curve.parts()) {
        value["kmin"] = Bytes::new(kmin).to_string().into();
        value["kmax"] = Bytes::new(kmax).to_string().into();
        value["pmax"] = pmax.to_string().into();
    }
    value
}

/// Changes the requested settings: all of them, or none. Without settings nothing changes. Returns the queue, or those
/// of the port.
///
/// # Errors
/// Nothing has changed.
pub fn change(control: &Control, request: &wire::QueueRequest) -> Result<Value> {
    let wanted = parse(&request.settings)?;
    let port = request.port.map(number).transpose()?;
    let queue = match request.queue {
        Some(queue) => Some(
            u8::try_from(queue).map_err(|_| ControlError::invalid(format!("no queue {queue}")))?,
        ),
        None => None,
    };
    let is_it = |one: &QueueSettings| {
        port.is_none_or(|port| one.port == port) && queue.is_none_or(|queue| one.queue == queue)
    };
    let found = || -> Result<Vec<QueueSettings>> {
        Ok(control.queue_settings()?.into_iter().filter(&is_it).collect())
    };
    let before = found()?;
    if let Some(port) = port.filter(|_| before.is_empty()) {
        let is_there = control.ports()?.iter().any(|state| state.port == port);
        // A switch without queues has an empty list.
        if !is_there || queue.is_some() || !request.settings.is_empty() {
            return Err(none_of(is_there, port, queue));
        }
    }
    if !request.settings.is_empty() {
        let port = port.ok_or_else(|| ControlError::invalid("say which port"))?;
        set(control, port, queue, wanted)?;
    }
    Ok(found()?.iter().map(shown).collect())
}

/// The settings without `shut=true`, and whether that is among them.
fn without_shut(settings: &[String]) -> Result<(bool, Vec<String>)> {
    let (mut is_shut, mut rest) = (false, Vec::new());
    for one in settings {
        match one.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some((SHUT, "true")) => is_shut = true,
            Some((SHUT, _)) => {
                let why = "a port that is not shut has no such setting: write shut=true or nothing";
                return invalid(format!("`{one}`: {why}"));
            }
            _ => rest.push(one.clone()),
        }
    }
    Ok((is_shut, rest))
}

/// Settings that could not be applied.
#[derive(Debug)]
pub struct NotMade {
    /// The settings.
    pub settings: OfPlace,
    why: ControlError,
}

impl fmt::Display for NotMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, _, settings) = &self.settings;
        write!(f, "port {port}: {}: {}", settings.join(" "), self.why)
    }
}

/// Applies stored settings, once the workers are polled; returns those that could not be applied.
pub fn restore(control: &Control, kept: &[OfPlace]) -> Vec<NotMade> {
    let mut wrong = Vec::new();
    for (port, queue, settings) in kept {
        let (port, queue) = (*port, *queue);
        let shut = without_shut(settings).and_then(|(is_shut, rest)| {
            if is_shut {
                control.shut_port(port, true)?;
            }
            Ok(rest)
        });
        let (left, done) = match shut {
            Err(why) => (settings.clone(), Err(why)),
            Ok(rest) if rest.is_empty() => continue,
            Ok(settings) => {
                let (port, queue) = (Some(u32::from(port.0)), queue.map(u32::from));
                let request = wire::QueueRequest { port, queue, settings };
                let done = change(control, &request).map(drop);
                (request.settings, done)
            }
        };
        if let Err(why) = done {
            wrong.push(NotMade { settings: (port, queue, left), why });
        }
    }
    wrong
}

/// The settings before those of a file are applied.
#[derive(Debug)]
pub struct Before {
    queues: Vec<QueueSettings>,
    ports: Vec<PortState>,
}

impl Before {
    /// The current settings.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn of(control: &Control) -> Result<Before> {
        Ok(Before { queues: control.queue_settings()?, ports: control.ports()? })
    }

    /// Checks that the place of settings exists; `of_queue`: they are not only those of the port itself.
    fn check(&self, port: PortNumber, queue: Option<u8>, of_queue: bool) -> Result<()> {
        let is_there = self.ports.iter().any(|state| state.port == port);
        let is_it =
            |one: &&QueueSettings| one.port == port && queue.is_none_or(|queue| one.queue == queue);
        let found = self.queues.iter().find(is_it);
        match !is_there || of_queue && found.is_none() {
            true => Err(none_of(is_there, port, queue)),
            false => Ok(()),
        }
    }

    /// Restores them, on the ports of these settings.
    ///
    /// # Errors
    /// What could not be restored: everything else is.
    pub fn put_back(&self, control: &Control, settings: &[Setting]) -> Result<()> {
        let is_of = |port: PortNumber| settings.iter().any(|other| other.port == port.0);
        let mut failed = Ok(());
        let mut note = |done: Result<()>| {
            if failed.is_ok() {
                failed = done;
            }
        };
        for port in self.ports.iter().filter(|port| is_of(port.port)) {
            note(control.shut_port(port.port, port.shut));
        }
        for one in self.queues.iter().filter(|one| is_of(one.port)) {
            if one.queue == 0 {
                let speaks_pfc = one.flow_control.mode == FlowControl::Pfc;
                let pfc = speaks_pfc.then_some(one.flow_control.enabled);
                note(control.change_port(one.port, PortChange { rate: one.rate, pfc }));
            }
            let change = QueueChange { wred: one.wred, limit: one.limit(), xon: one.xon };
            note(control.change_queue(one.port, one.queue, move |_| Ok(change)));
        }
        failed
    }

    /// Like [`Before::put_back`]; returns the result for the text of an error.
    pub fn undone(&self, control: &Control, settings: &[Setting]) -> String {
        match self.put_back(control, settings) {
            Ok(()) => "nothing is restored".into(),
            Err(why) => format!("what was set before could not be set again: {why}"),
        }
    }
}

/// Applies the settings of a file: all of them, or none.
///
/// # Errors
/// The first error; and whether anything has changed.
pub fn make(control: &Control, settings: &[Setting], before: &Before) -> Result<()> {
    let kept = settings.iter();
    let kept: Vec<_> = kept.map(|one| (PortNumber(one.port), one.queue, one.set.clone())).collect();
    // Invalid settings are detected before anything is changed; so are ports and queues that do not exist: undoing would
    // not bring back what a shut link has lost.
    for (port, queue, set) in &kept {
        let parsed = without_shut(set).and_then(|(_, rest)| Ok((parse(&rest)?, rest)));
        let (wanted, rest) = parsed
            .map_err(|error| ControlError::invalid(format!("settings: port {port}: {error}")))?;
        let checked = before.check(*port, *queue, !rest.is_empty());
        checked.and_then(|()| check_place(*queue, &wanted)).map_err(|why| {
            ControlError::FailedPrecondition(format!("settings: {why}: nothing is restored"))
        })?;
    }
    match restore(control, &kept).into_iter().next() {
        None => Ok(()),
        Some(wrong) => {
            let undone = before.undone(control, settings);
            Err(ControlError::FailedPrecondition(format!("settings: {wrong}: {undone}")))
        }
    }
}

/// The error for a queue that does not exist; `is_there` is true if its port exists.
fn none_of(is_there: bool, port: PortNumber, queue: Option<u8>) -> ControlError {
    ControlError::NotFound(match queue {
        _ if !is_there => {
            format!("there is no port {port}: `wireyard port list` shows those that there are")
        }
        Some(queue) if usize::from(queue) >= CLASSES => {
            format!("there is no queue {queue}: a port has queues 0 to {}", CLASSES - 1)
        }
        _ => format!("port {port} has no queues: the switch has no `qos:` (switch.yaml)"),
    })
}

/// Checks that a port, or a queue, has such settings.
fn check_place(queue: Option<u8>, wanted: &Wanted) -> Result<()> {
    let is_of_queue = wanted.kmin.is_some()
        || wanted.kmax.is_some()
        || wanted.pmax.is_some()
        || wanted.limit.is_some()
        || wanted.xon.is_some();
    if is_of_queue && queue.is_none() {
        let text = "say which queue: only `rate` and `pfc` are of the whole port";
        return invalid(text);
    }
    if (wanted.rate.is_some() || wanted.pfc.is_some()) && queue.is_some() {
        return invalid("`rate` and `pfc` are of the whole port: write `port`");
    }
    Ok(())
}

/// Checks all settings, then sets them.
fn set(control: &Control, port: PortNumber, queue: Option<u8>, wanted: Wanted) -> Result<()> {
    check_place(queue, &wanted)?;
    match queue {
        None => control.change_port(port, PortChange { rate: wanted.rate, pfc: wanted.pfc }),
        Some(queue) => control.change_queue(port, queue, move |one| planned(one, &wanted)),
    }
}

/// The change of a queue that gives it the wanted settings.
fn planned(one: &QueueSettings, wanted: &Wanted) -> Result<QueueChange> {
    let mut wred = None;
    if wanted.kmin.is_some() || wanted.kmax.is_some() || wanted.pmax.is_some() {
        let mut config = one.wred.ok_or_else(|| no_marking(one))?;
        for curve in config.curves.iter_mut().flatten() {
            let (kmin, kmax, pmax) = curve.parts();
            let kmin = wanted.kmin.map_or(kmin, Bytes::get);
            let kmax = wanted.kmax.map_or(kmax, Bytes::get);
            let pmax = wanted.pmax.unwrap_or(pmax);
            *curve = Curve::new(kmin, kmax, pmax).ok_or_else(|| {
                let shown = |bytes: u64| Bytes::new(bytes).to_string();
                ControlError::invalid(match kmin > kmax {
                    true => format!(
                        "kmin {} is above kmax {}: set both, as in kmin=100KB kmax=400KB",
                        shown(kmin),
                        shown(kmax)
                    ),
                    false => format!("kmax {} is above 2 GiB", shown(kmax)),
                })
            })?;
        }
        wred = Some(config);
    }
    check_thresholds(one, wanted)?;
    Ok(QueueChange { wred, limit: wanted.limit, xon: wanted.xon })
}

/// The check of a configuration with these thresholds.
fn check_thresholds(one: &QueueSettings, wanted: &Wanted) -> Result<()> {
    if wanted.xon.is_some() && !one.lossless {
        let text = format!(
            "priority group {} of port {} is lossy: it sends no XOFF, and so no XON",
            one.queue, one.port
        );
        return Err(ControlError::FailedPrecondition(text));
    }
    let Some(mut account) = one.account else { return Ok(()) };
    account.limit = wanted.limit.unwrap_or(account.limit);
    let shown = |bytes: u64| Bytes::new(bytes).to_string();
    if let Limit::Static(bytes) = account.limit
        && bytes > one.pool_bytes
    {
        let (limit, pool) = (shown(bytes), shown(one.pool_bytes));
        return invalid(format!("limit {limit} is above the {pool} that its pool shares"));
    }
    let xoff_at = account.alone(one.pool_bytes);
    let Some(xon) = wanted.xon.or(one.xon) else { return Ok(()) };
    let xon_at = xon.at(xoff_at);
    match xon_at < xoff_at {
        true => Ok(()),
        false => invalid(format!(
            "XON at {} is not below XOFF at {}: the peer would be resumed where it is stopped",
            shown(xon_at),
            shown(xoff_at)
        )),
    }
}
