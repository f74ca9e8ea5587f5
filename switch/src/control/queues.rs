//! Rates, marking, thresholds and captures of ports at run time, and waits between ports.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::device::no_port;
use super::{Control, ControlError};
use crate::confine;
use crate::core::{Core, PortState};
use crate::ports::PortNumber;
use crate::recorder::{Keep, Recorder};
use crate::tm::{CLASSES, FlowControlConfig, Limit, WredConfig, Xon};
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
    /// The part of its pool that the priority group may use.
    pub limit: Option<Limit>,
    /// The priority group is lossless.
    pub lossless: bool,
    /// The XON of a lossless group.
    pub xon: Option<Xon>,
    /// Bytes reserved for the group.
    pub reserved_bytes: u64,
    /// Shared bytes of its pool.
    pub pool_bytes: u64,
    /// Flow control of the port.
    pub flow_control: FlowControlConfig,
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

fn settings(core: &mut Core) -> Vec<QueueSettings> {
    let tm = core.traffic();
    let of_port = |port: PortNumber| {
        let id = core.traffic_port(port);
        id.into_iter().flat_map(move |id| {
            (0..CLASSES as u8).map(move |queue| {
                let lossless = tm.group_lossless(id, queue);
                let (account, pool) = tm.group_share(id, queue).unzip();
                QueueSettings {
                    port,
                    queue,
                    rate: tm.rate(id),
                    wred: tm.wred(id, queue),
                    limit: account.map(|account| account.limit),
                    lossless: lossless.is_some(),
                    xon: lossless.map(|lossless| lossless.xon),
                    reserved_bytes: account.map_or(0, |account| account.reserved_bytes),
                    pool_bytes: pool.map_or(0, |pool| pool.shared_bytes),
                    flow_control: tm.flow_control(id).unwrap_or_default(),
                }
            })
        })
    };
    core.queued_ports().into_iter().flat_map(of_port).collect()
}

fn waits(core: &mut Core) -> Vec<Wait> {
    let edges = core.view(core.time()).wait_edges().into_iter().filter_map(|edge| {
        Some(Wait {
            port: core.port_of_traffic(edge.ingress)?,
            priorities: (!edge.whole_link)
                .then(|| (0..8).filter(|p| edge.priorities >> p & 1 == 1).collect()),
            waits_for: core.port_of_traffic(edge.egress)?,
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

    /// Changes the rate of a port that has one, from its next frame on.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::FailedPrecondition`]: it has none, or a lossless class whose
    /// headroom is for a lower rate.
    pub fn set_rate(&self, port: PortNumber, rate: BitsPerSec) -> Result<()> {
        let set = self.ask_owner(port, move |core, now| core.set_rate(now, port, rate))?;
        set.map_err(|error| ControlError::FailedPrecondition(error.to_string()))
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
        self.ask(worker, move |core, _| core.check_recorded(&wanted))?
            .map_err(|error| ControlError::FailedPrecondition(error.to_string()))?;
        // This thread creates the file, not the worker.
        let new = File::create_new(file).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let text = format!("{} already exists: name a new file", file.display());
                ControlError::AlreadyExists(text)
            }
            _ => {
                let (file, advice) = (file.display(), confine::advice(&error));
                ControlError::FailedPrecondition(format!("{file}: {error}{advice}"))
            }
        })?;
        let failed =
            |error: &dyn std::fmt::Display| ControlError::FailedPrecondition(error.to_string());
        let recorder = Recorder::into_file(file, new, keep).map_err(|error| failed(&error));
        let begun = recorder.and_then(|recorder| {
            let done = self.ask(worker, move |core, _| core.record_into(&numbers, recorder))?;
            done.map_err(|error| failed(&error))
        });
        if begun.is_err() {
            // The empty file would prevent another try.
            let _ = std::fs::remove_file(file);
        }
        begun
    }

    /// Ends the captures of a port, or of all; returns the number of ports that were recorded.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn stop_recording(&self, port: Option<PortNumber>) -> Result<usize> {
        if let Some(port) = port {
            return self.ask_owner(port, move |core, _| core.stop_recording(Some(port)));
        }
        Ok(self.ask_all(|core, _| core.stop_recording(None))?.into_iter().sum())
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
