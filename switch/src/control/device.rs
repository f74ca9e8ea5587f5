//! What belongs to workers: packets in, ports, queues and thresholds.

use wireyard_pipeline::ir::CPU_PORT;

use super::{Control, ControlError};
use crate::core::Core;
use crate::live;
use crate::ports::absent::AbsentPort;
use crate::ports::{self, Port, PortSpec};
use crate::tm::{Limit, PortId, WredConfig};

/// A port and what somebody outside needs to stand in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPlace {
    /// Its number.
    pub number: u16,
    /// Source address of its own frames.
    pub mac: [u8; 6],
    /// Bytes behind the Ethernet header, where that is known.
    pub mtu_bytes: Option<u32>,
    /// Its link is up.
    pub up: bool,
    /// The worker that has it.
    pub worker: usize,
}

type Result<T> = std::result::Result<T, ControlError>;

fn no_port(port: u16) -> ControlError {
    ControlError::NotFound(format!("there is no port {port}"))
}

impl Control {
    /// The worker that has a port.
    fn owner(&self, port: u16) -> Result<usize> {
        self.ask(0, move |core, _| core.worker_of(port))?.ok_or_else(|| no_port(port))
    }

    /// Asks the worker that has the port.
    fn ask_owner<R: Send + 'static>(
        &self,
        port: u16,
        work: impl FnOnce(&mut Core, wireyard_tables::time::Time) -> R + Send + 'static,
    ) -> Result<R> {
        self.ask(self.owner(port)?, work)
    }

    /// A packet from the control plane: ingress sees it on the CPU port, with the headers in front that the program reads there.
    ///
    /// # Errors
    /// [`ControlError::ResourceExhausted`]: no packet memory is free, which the ledger counts; [`ControlError::Unavailable`].
    pub fn packet_out(&self, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        accepted(self.ask(0, move |core, now| core.inject(&frame, now))?)
    }

    /// A packet that ingress sees as if it had come in by this port; the ledger counts it as generated there.
    ///
    /// # Errors
    /// [`ControlError::NotFound`], and as [`Control::packet_out`].
    pub fn inject(&self, port: u16, frame: &[u8]) -> Result<()> {
        if port == CPU_PORT {
            return self.packet_out(frame);
        }
        let frame = frame.to_vec();
        accepted(self.ask_owner(port, move |core, now| core.inject_at(port, &frame, now))?)
    }

    /// A packet that leaves by this port as it is: the program does not see it; it has its class by the port's maps and waits in its queue.
    ///
    /// # Errors
    /// As [`Control::inject`].
    pub fn send(&self, port: u16, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        accepted(self.ask_owner(port, move |core, now| core.send_out(port, &frame, None, now))?)
    }

    /// Packets that leave by this port of a worker as they are, in this traffic class; how many were taken.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn send_all(
        &self,
        worker: usize,
        port: u16,
        frames: Vec<Vec<u8>>,
        class: u8,
    ) -> Result<u64> {
        let send = move |core: &mut Core, now| {
            let taken = frames.iter().filter(|frame| core.send_out(port, frame, Some(class), now));
            taken.count() as u64
        };
        self.ask(worker, send)
    }

    /// The ports that there are, with their workers.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn port_places(&self) -> Result<Vec<PortPlace>> {
        let mut all = Vec::new();
        for worker in 0..self.workers() {
            all.extend(self.ask(worker, move |core, _| core.port_places(worker))?);
        }
        Ok(all)
    }

    /// Opens a port and adds it to the device, to worker 0; what the user should know about it comes back. With queues (`qos:`), a port that
    /// the configuration does not name has no rate and pauses nobody.
    ///
    /// # Errors
    /// [`ControlError::AlreadyExists`]: the number is taken; [`ControlError::FailedPrecondition`]: it cannot be opened.
    pub fn add_port(&self, number: u16, spec: &PortSpec) -> Result<Vec<String>> {
        let memory = self.ask(0, move |core, _| match core.worker_of(number) {
            Some(_) => Err(ControlError::AlreadyExists(format!("port {number} exists already"))),
            None => Ok(core.memory().worker()),
        })??;
        let failed = |error: ports::PortError| ControlError::FailedPrecondition(error.to_string());
        // Opening takes a while: it is done here and not in the worker.
        let opened = ports::open(spec, &memory).map_err(failed)?;
        let place = AbsentPort::like(opened.port.as_ref());
        let spec = spec.clone();
        let added = self.ask(0, move |core, _| live::attach_opened(core, number, &spec, opened))?;
        let notices = added.map_err(ControlError::InvalidArgument)?;
        self.add_places(number, &place)?;
        Ok(notices)
    }

    /// The same for a port that is open, on the packet memory of the device: a port in memory, or of another kind that this crate does not know.
    ///
    /// # Errors
    /// As [`Control::add_port`].
    pub fn add_open_port(&self, number: u16, port: Box<dyn Port + Send>) -> Result<()> {
        let place = AbsentPort::like(port.as_ref());
        let added = self.ask(0, move |core, _| core.add_port(number, port))?;
        added.map_err(ControlError::InvalidArgument)?;
        self.add_places(number, &place)
    }

    fn add_places(&self, number: u16, place: &AbsentPort) -> Result<()> {
        for worker in 1..self.workers() {
            let place = place.clone();
            let added = self.ask(worker, move |core, _| core.add_elsewhere(number, 0, place))?;
            added.map_err(ControlError::InvalidArgument)?;
        }
        Ok(())
    }

    /// Takes a port out of the device and closes it: what waits for it is dropped, others lose nothing.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::Unimplemented`]: the device has several workers.
    pub fn remove_port(&self, number: u16) -> Result<()> {
        if self.workers() > 1 {
            let text = "the ports of several workers stay as they are";
            return Err(ControlError::Unimplemented(text.to_owned()));
        }
        let (mut port, mut memory) = self.ask(0, move |core, now| {
            let (port, _) = core.detach_port(now, number).map_err(|_| no_port(number))?;
            Ok::<_, ControlError>((port, core.memory().worker()))
        })??;
        port.close(&mut memory);
        Ok(())
    }

    /// Stops or resumes transmission on a port; what is for it waits in its queues meanwhile.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn block_port(&self, port: u16, is_blocked: bool) -> Result<()> {
        self.ask_owner(port, move |core, now| core.block(now, port, is_blocked))
    }

    /// Changes the marking of a queue at run time.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port or queue; [`ControlError::FailedPrecondition`]: the queue has no curve to be changed.
    pub fn set_wred(&self, port: u16, queue: u8, config: WredConfig) -> Result<()> {
        self.ask_owner(port, move |core, _| {
            let id = queue_of(core, port, queue)?;
            if core.traffic().wred(id, queue).is_none() {
                let text = format!("queue {queue} of port {port} has no marking to be changed");
                return Err(ControlError::FailedPrecondition(text));
            }
            core.traffic_mut().set_wred(id, queue, config);
            Ok(())
        })?
    }

    /// Changes how much of its pool a priority group may take at run time. With several workers it is a limit on the part of the pool that
    /// belongs to the port's worker.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port or group.
    pub fn set_group_limit(&self, port: u16, group: u8, limit: Limit) -> Result<()> {
        self.ask_owner(port, move |core, now| {
            let id = queue_of(core, port, group)?;
            core.traffic_mut().set_group_limit(now, id, group, limit);
            Ok(())
        })?
    }

    /// The counters of each worker, taken by it between two bursts, and merged: they are not of one instant where there are several.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn statistics(&self) -> Result<crate::core::Statistics> {
        let mut all = self.ask(0, |core, _| core.statistics())?;
        for worker in 1..self.workers() {
            all.merge(&self.ask(worker, |core, _| core.statistics())?);
        }
        Ok(all)
    }
}

fn accepted(taken: bool) -> Result<()> {
    match taken {
        true => Ok(()),
        false => Err(ControlError::ResourceExhausted("no packet memory is free".to_owned())),
    }
}

/// A port for the traffic manager, which has this queue or group.
fn queue_of(core: &Core, port: u16, queue: u8) -> Result<PortId> {
    let id = core.traffic_port(port).ok_or_else(|| no_port(port))?;
    match usize::from(queue) < crate::tm::CLASSES {
        true => Ok(id),
        false => Err(ControlError::NotFound(format!(
            "there is no queue {queue}: a port has {}",
            crate::tm::CLASSES
        ))),
    }
}
