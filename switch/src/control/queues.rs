//! Rates, marking, thresholds and captures of ports at run time, and waits between ports.

use std::io::ErrorKind;
use std::path::Path;

use super::device::no_port;
use super::{Control, ControlError};
use crate::confine;
use crate::core::{Core, PortState};
use crate::folder;
use crate::ports::PortNumber;
use crate::recorder::{Keep, Recorder};
use crate::tm::{
    AccountConfig, CLASSES, FlowControl, FlowControlConfig, Limit, PortId, WredConfig, Xon,
};
use crate::units::BitsPerSec;

type Result<T> = std::result::Result<T, ControlError>;

/// The current settings of a queue, and of the priority group of the same number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    /// The port.
    pub port: PortNumber,
    /// Traffic class, 0 to 7.
    pub queue: u8,
    /// Rate of the port's link; `None` for a port without a rate, which sends at once.
    pub rate: Option<BitsPerSec>,
    /// Marking of the queue, if it has any.
    pub wred: Option<WredConfig>,
    /// The priority group's share of its pool; `None` for a port without queues.
    pub account: Option<AccountConfig>,
    /// The priority group is lossless.
    pub lossless: bool,
    /// The XON of a lossless group.
    pub xon: Option<Xon>,
    /// Shared bytes of the group's pool.
    pub pool_bytes: u64,
    /// Flow control of the port.
    pub flow_control: FlowControlConfig,
}

impl QueueSettings {
    /// The part of its pool that the priority group may use.
    pub fn limit(&self) -> Option<Limit> {
        self.account.map(|account| account.limit)
    }
}

/// A peer that is stopped because another port cannot send.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Wait {
    /// The port whose peer is stopped.
    pub port: PortNumber,
    /// The priorities that are stopped there; `None` for the whole link, by 802.3 PAUSE.
    pub priorities: Option<Vec<u8>>,
    /// The port whose queue is paused.
    pub waits_for: PortNumber,
    /// That queue.
    pub queue: u8,
    /// Bytes in it that the first port received.
    pub bytes: u64,
}

/// Changes of a queue, and of the priority group of the same number, made together.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueChange {
    /// Marking.
    pub wred: Option<WredConfig>,
    /// The part of its pool that the group may use. With several workers it refers to the part of the pool of the port's
    /// worker.
    pub limit: Option<Limit>,
    /// XON of a lossless group.
    pub xon: Option<Xon>,
}

/// Changes of a port with queues, made together.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortChange {
    /// Rate of a port that has one, from its next frame on.
    pub rate: Option<BitsPerSec>,
    /// Priorities with PFC, of a port whose flow control is PFC: bit n for priority n.
    pub pfc: Option<u8>,
}

fn settings(core: &mut Core) -> Vec<QueueSettings> {
    let core = &*core;
    let of_port = |port: PortNumber| {
        let id = core.ports().traffic_port(port);
        let queues =
            move |id| (0..CLASSES as u8).map(move |queue| settings_of(core, port, id, queue));
        id.into_iter().flat_map(queues)
    };
    // Without `qos:` no queue has a setting.
    let ports = core.manager().is_configured().then(|| core.ports().owned_numbers());
    ports.into_iter().flatten().flat_map(of_port).collect()
}

fn settings_of(core: &Core, port: PortNumber, id: PortId, queue: u8) -> QueueSettings {
    let tm = &core.manager().tm;
    let lossless = tm.group_lossless(id, queue);
    let (account, pool) = tm.group_share(id, queue).unzip();
    QueueSettings {
        port,
        queue,
        rate: tm.rate(id),
        wred: tm.wred(id, queue),
        account,
        lossless: lossless.is_some(),
        xon: lossless.map(|lossless| lossless.xon),
        pool_bytes: pool.map_or(0, |pool| pool.shared_bytes),
        flow_control: tm.flow_control(id).unwrap_or_default(),
    }
}

/// The error for a queue whose marking is to be changed and that has none.
pub(crate) fn no_marking(one: &QueueSettings) -> ControlError {
    let (port, queue) = (one.port, one.queue);
    let text = format!("queue {queue} of port {port} has no marking to be changed");
    ControlError::FailedPrecondition(text)
}

/// Checks that a port can have PFC for these priorities.
fn check_pfc(core: &Core, port: PortNumber, id: PortId, enabled: u8) -> Result<()> {
    let traffic = &core.manager().tm;
    let flow = traffic.flow_control(id).unwrap_or_default();
    if flow.mode != FlowControl::Pfc {
        let text = format!(
            "port {port} does not speak PFC: switch.yaml says so, as headroom is divided at the start"
        );
        return Err(ControlError::FailedPrecondition(text));
    }
    let lossless = traffic.lossless_groups(id);
    for priority in (0..8u8).filter(|priority| enabled >> priority & 1 == 1) {
        let group = flow.priority_to_group[usize::from(priority)];
        if lossless >> group & 1 == 0 {
            return Err(ControlError::FailedPrecondition(format!(
                "priority group {group} of port {port} is lossy: XOFF would never be sent for priority {priority}; \
                 switch.yaml gives a group headroom"
            )));
        }
    }
    Ok(())
}

fn waits(core: &mut Core) -> Vec<Wait> {
    let edges = core.view(core.time()).wait_edges().into_iter().filter_map(|edge| {
        Some(Wait {
            port: core.ports().port_of_traffic(edge.ingress)?,
            priorities: (!edge.whole_link)
                .then(|| (0..8).filter(|p| edge.priorities >> p & 1 == 1).collect()),
            waits_for: core.ports().port_of_traffic(edge.egress)?,
            queue: edge.queue,
            bytes: edge.bytes,
        })
    });
    edges.collect()
}

impl Control {
    fn of_all<T: Send + 'static>(&self, read: fn(&mut Core) -> Vec<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for worker in 0..self.workers() {
            all.extend(self.ask(worker, move |core, _| read(core))?);
        }
        Ok(all)
    }

    /// The current settings of every queue of every port, in the order of their numbers; none without `qos:`.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn queue_settings(&self) -> Result<Vec<QueueSettings>> {
        let mut all = self.of_all(settings)?;
        all.sort_by_key(|one| (one.port, one.queue));
        Ok(all)
    }

    /// The current waits between ports, of each worker.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn waits(&self) -> Result<Vec<Wait>> {
        self.of_all(waits)
    }

    /// Changes a port with queues: everything that `change` has, or nothing.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port; [`ControlError::FailedPrecondition`]: it has no rate, or a lossless
    /// class whose headroom is for a lower one; its flow control is not PFC, or the group of a priority is lossy.
    pub fn change_port(&self, port: PortNumber, change: PortChange) -> Result<()> {
        self.ask_owner(port, move |core, now| {
            let id = core.ports().traffic_port(port).ok_or_else(|| no_port(port))?;
            if let Some(enabled) = change.pfc {
                check_pfc(core, port, id, enabled)?;
            }
            if let Some(rate) = change.rate {
                let set = core.manager_mut().set_rate(now, id, port, rate);
                set.map_err(|error| ControlError::FailedPrecondition(error.to_string()))?;
            }
            if let Some(enabled) = change.pfc {
                core.manager_mut().tm.set_pfc_enabled(now, id, enabled);
            }
            Ok(())
        })?
    }

    /// Changes a queue: everything that `change` makes of its current settings, or nothing. No other change of the queue
    /// comes between.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port or queue; [`ControlError::FailedPrecondition`]: the queue has no marking
    /// to be changed; and those of `change`.
    pub fn change_queue(
        &self,
        port: PortNumber,
        queue: u8,
        change: impl FnOnce(&QueueSettings) -> Result<QueueChange> + Send + 'static,
    ) -> Result<()> {
        self.ask_owner(port, move |core, now| {
            let id = core.ports().traffic_port(port).ok_or_else(|| no_port(port))?;
            if usize::from(queue) >= CLASSES {
                let text = format!("there is no queue {queue}: a port has {CLASSES}");
                return Err(ControlError::NotFound(text));
            }
            let current = settings_of(core, port, id, queue);
            let QueueChange { wred, limit, xon } = change(&current)?;
            if wred.is_some() && current.wred.is_none() {
                return Err(no_marking(&current));
            }
            let traffic = &mut core.manager_mut().tm;
            if let Some(config) = wred {
                traffic.set_wred(id, queue, config);
            }
            if let Some(limit) = limit {
                traffic.set_group_limit(now, id, queue, limit);
            }
            if let Some(xon) = xon {
                traffic.set_group_xon(now, id, queue, xon);
            }
            Ok(())
        })?
    }

    /// Records a port, or all ports, into a new pcapng file: everything, or the part that `keep` selects. Each port has
    /// three interfaces in the file: in, out and dropped, in the order of [`Control::recorded_ports`].
    ///
    /// # Errors
    /// [`ControlError::AlreadyExists`]: the file exists; [`ControlError::NotFound`]: no such port;
    /// [`ControlError::FailedPrecondition`]: the ports belong to several workers, or the file cannot be made.
    pub fn record(&self, port: Option<PortNumber>, file: &Path, keep: Option<Keep>) -> Result<()> {
        let (worker, numbers) = self.recorded(port)?;
        let wanted = numbers.clone();
        // Checked before the file is created, which would otherwise be left over.
        self.ask(worker, move |core, _| core.captures().check_recorded(&wanted))?
            .map_err(|error| ControlError::FailedPrecondition(error.to_string()))?;
        // This thread creates the file, not the worker.
        let new = folder::create_new(file).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => ControlError::exists(file),
            _ => {
                let (file, advice) = (file.display(), confine::advice(&error));
                ControlError::FailedPrecondition(format!("{file}: {error}{advice}"))
            }
        })?;
        let failed =
            |error: &dyn std::fmt::Display| ControlError::FailedPrecondition(error.to_string());
        let recorder = Recorder::into_file(file, new, keep).map_err(|error| failed(&error));
        let begun = recorder.and_then(|recorder| {
            let done =
                self.ask(worker, move |core, _| core.captures().record_into(&numbers, recorder))?;
            done.map_err(|error| failed(&error))
        });
        if begun.is_err() {
            // The empty file would prevent another try.
            let _ = std::fs::remove_file(file);
        } else {
            self.drop_ended_captures(file);
        }
        begun
    }

    /// Ends the captures of a port, or of all; returns the number of captures that this changed.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn stop_recording(&self, port: Option<PortNumber>) -> Result<usize> {
        if let Some(port) = port {
            return self.ask_owner(port, move |core, _| core.captures().stop(Some(port)));
        }
        Ok(self.ask_all(|core, _| core.captures().stop(None))?.into_iter().sum())
    }

    /// The ports that a capture of a port, or of all, contains, in their order.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn recorded_ports(&self, port: Option<PortNumber>) -> Result<Vec<PortState>> {
        let mut ports = self.ports()?;
        ports.retain(|state| port.is_none_or(|port| state.port == port));
        Ok(ports)
    }

    /// The worker that records a port, or all, and the numbers of the ports.
    fn recorded(&self, port: Option<PortNumber>) -> Result<(usize, Vec<PortNumber>)> {
        let wanted = self.recorded_ports(port)?;
        let Some(first) = wanted.first() else { return Err(no_port(port.unwrap_or_default())) };
        if let Some(state) = wanted.iter().find(|state| !state.also.is_empty()) {
            let text = format!(
                "port {} has queues at several workers, and one worker writes a capture file: open it with queues=1",
                state.port
            );
            return Err(ControlError::FailedPrecondition(text));
        }
        if wanted.iter().any(|state| state.worker != first.worker) {
            let text = "ports of several workers cannot share a file: record one port";
            return Err(ControlError::FailedPrecondition(text.to_owned()));
        }
        Ok((first.worker, wanted.iter().map(|state| state.port).collect()))
    }
}
