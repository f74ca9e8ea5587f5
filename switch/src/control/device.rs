//! Requests that workers execute: packets in, and ports.

use std::collections::BTreeMap;

use wireyard_pipeline::ir::CPU_PORT;

use super::error::invalid;
use super::{Control, ControlError};
use crate::core::{
    Core, EntriesShown, PortPlace, PortState, ProgramReport, Statistics, TableEntries,
};
use crate::ports::faults::FaultyPort;
use crate::ports::faults::chance::FaultSetup;
use crate::ports::shut::ShutPort;
use crate::ports::{LinkState, Port, PortNumber};
use crate::sync::lock;

type Result<T> = std::result::Result<T, ControlError>;

pub(super) fn no_port(port: PortNumber) -> ControlError {
    ControlError::NotFound(format!("there is no port {port}"))
}

impl Control {
    /// The worker that owns a port.
    pub(super) fn owner(&self, port: PortNumber) -> Result<usize> {
        self.ask(0, move |core, _| core.ports().worker_of(port, core.mesh.me()))?
            .ok_or_else(|| no_port(port))
    }

    /// Runs `work` in the worker that owns the port.
    pub(super) fn ask_owner<R: Send + 'static>(
        &self,
        port: PortNumber,
        work: impl FnOnce(&mut Core, wireyard_tables::time::Time) -> R + Send + 'static,
    ) -> Result<R> {
        self.ask(self.owner(port)?, work)
    }

    /// Sends a packet of the control plane into ingress by the CPU port. It must begin with the headers that the
    /// program parses there.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`]: it exceeds the maximum length of a packet;
    /// [`ControlError::ResourceExhausted`]: no packet memory is free, which the ledger counts;
    /// [`ControlError::Unavailable`].
    pub fn packet_out(&self, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        self.ask(0, move |core, now| taken(core, &frame, |core| core.inject(&frame, now)))?
    }

    /// Sends a packet into ingress as if this port had received it; the ledger counts it as generated there.
    ///
    /// # Errors
    /// [`ControlError::NotFound`], and as [`Control::packet_out`].
    pub fn inject(&self, port: PortNumber, frame: &[u8]) -> Result<()> {
        if port == PortNumber(CPU_PORT) {
            return self.packet_out(frame);
        }
        let frame = frame.to_vec();
        self.ask_owner(port, move |core, now| {
            taken(core, &frame, |core| core.inject_at(port, &frame, now))
        })?
    }

    /// Sends a packet out of this port unchanged: it skips the program, gets its class from the port's maps and waits
    /// in its queue.
    ///
    /// # Errors
    /// As [`Control::inject`].
    pub fn send(&self, port: PortNumber, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        self.ask_owner(port, move |core, now| {
            taken(core, &frame, |core| core.send_out(port, &frame, None, now))
        })?
    }

    /// Sends packets out of this port of a worker unchanged, in this traffic class; returns how many were accepted.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn send_all(
        &self,
        worker: usize,
        port: PortNumber,
        frames: Vec<Vec<u8>>,
        class: u8,
    ) -> Result<u64> {
        let send = move |core: &mut Core, now| {
            let taken = frames.iter().filter(|frame| core.send_out(port, frame, Some(class), now));
            taken.count() as u64
        };
        self.ask(worker, send)
    }

    /// All ports with their workers.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn port_places(&self) -> Result<Vec<PortPlace>> {
        let mut all = Vec::new();
        for worker in 0..self.workers() {
            all.extend(self.ask(worker, move |core, _| core.ports().places(worker))?);
        }
        Ok(all)
    }

    /// The state of all ports, by number.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn ports(&self) -> Result<Vec<PortState>> {
        let (mut all, mut served) = (Vec::new(), Vec::new());
        for worker in 0..self.workers() {
            let states =
                move |core: &mut Core, _| (core.ports().states(worker), core.ports().served());
            let (own, others) = self.ask(worker, states)?;
            all.extend(own);
            served.extend(others.into_iter().map(|port| (port, worker)));
        }
        for state in &mut all {
            let others = served.iter().filter(|(port, _)| *port == state.port);
            state.also = others.map(|(_, worker)| *worker).collect();
        }
        all.sort_by_key(|port| port.port);
        Ok(all)
    }

    /// Shuts a port down, as if its link were down, or brings it up again: while shut it carries no frame in either
    /// direction.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn shut_port(&self, port: PortNumber, is_shut: bool) -> Result<()> {
        self.exchange_port(port, move |mut inner, _| {
            if inner.is_shut() == is_shut || inner.shut(is_shut) {
                return inner;
            }
            Box::new(ShutPort::new(inner))
        })
    }

    /// Changes the faults on the cable of a port; [`FaultSetup::NONE`] ends them. Its counters continue. Each queue of
    /// the port draws independently.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn set_faults(&self, port: PortNumber, setup: FaultSetup) -> Result<()> {
        self.exchange_port(port, move |mut inner, queue| {
            let setup = FaultSetup { seed: setup.seed.wrapping_add(queue), ..setup };
            if inner.set_faults(setup) || !setup.can_happen() {
                return inner;
            }
            Box::new(FaultyPort::new(inner, setup))
        })
    }

    /// Replaces a port by what `make` returns, at each worker that serves a queue of it; `make` gets the number of the
    /// queue.
    fn exchange_port(
        &self,
        port: PortNumber,
        make: impl Fn(Box<dyn Port>, u64) -> Box<dyn Port> + Clone + Send + 'static,
    ) -> Result<()> {
        let _one_at_a_time = lock(&self.shared.specs);
        let owner = self.owner(port)?;
        self.all_answer()?;
        for queue in 0..self.workers() {
            let (make, number) = (make.clone(), queue as u64);
            let made = move |inner: Box<dyn Port>| make(inner, number);
            let worker = (owner + queue) % self.workers();
            let exchange = move |core: &mut Core, now| core.exchange_port(now, port, made);
            // From the second queue on the change has begun.
            let is_there = match queue {
                0 => self.ask(worker, exchange)?,
                _ => self.insist(worker, exchange)?,
            };
            if !is_there && queue == 0 {
                return Err(no_port(port));
            }
        }
        Ok(())
    }

    /// Stops or resumes transmission on a port; packets for it wait in its queues meanwhile.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn block_port(&self, port: PortNumber, is_blocked: bool) -> Result<()> {
        let _one_at_a_time = lock(&self.shared.specs);
        self.owner(port)?;
        // Without `qos:` each worker sends by a transmit queue of its own.
        self.ask_all(move |core, now| core.block(now, port, is_blocked)).map(drop)
    }

    /// The counters of all workers, merged. Each worker reads its own between two bursts, so several are not of one
    /// instant. The caller's thread reads the counts of the program.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn statistics(&self) -> Result<Statistics> {
        let mut all = self.ask(0, |core, _| Statistics::of_worker(core))?;
        for worker in 1..self.workers() {
            all.merge(&self.ask(worker, |core, _| Statistics::of_worker(core))?);
        }
        all.program = Some(self.program_report());
        Ok(all)
    }

    /// The counts of the program; needs no worker.
    pub fn program_report(&self) -> ProgramReport {
        let current = self.shared.loader().current();
        ProgramReport::of(&current)
    }

    /// The counts of the entries of tables with counters or meters; needs no worker.
    pub fn entry_counters(&self, shown: EntriesShown) -> Vec<TableEntries> {
        let current = self.shared.loader().current();
        TableEntries::of(&current, shown)
    }

    /// Sets all watermarks to the current occupancy.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn clear_watermarks(&self) -> Result<()> {
        self.ask_all(|core, _| core.manager_mut().tm.clear_watermarks()).map(drop)
    }
}

impl Control {
    /// The ports with their counters, and the state of their links at the last check.
    ///
    /// # Errors
    /// As [`Control::statistics`].
    pub fn links(&self) -> Result<Vec<(crate::core::PortReport, LinkState)>> {
        let mut states = BTreeMap::new();
        for worker in 0..self.workers() {
            states.extend(self.ask(worker, |core, _| core.ports().link_states())?);
        }
        let ports = self.statistics()?.ports;
        let state = |port: &crate::core::PortReport| states.get(&port.port).copied();
        Ok(ports
            .into_iter()
            .map(|port| {
                let state = state(&port).unwrap_or(LinkState::Gone);
                (port, state)
            })
            .collect())
    }
}

/// Gives a worker a frame that fits into a packet's memory; `take` sends it, and returns false without packet memory.
fn taken(core: &mut Core, frame: &[u8], take: impl FnOnce(&mut Core) -> bool) -> Result<()> {
    let (bytes, longest) = (frame.len(), core.memory().max_frame_bytes() as usize);
    match bytes > longest {
        true => invalid(format!("a packet of {bytes} bytes: packets have at most {longest}")),
        false if take(core) => Ok(()),
        false => Err(ControlError::ResourceExhausted("no packet memory is free".to_owned())),
    }
}
