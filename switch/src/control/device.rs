//! What belongs to workers: packets in, ports, queues and thresholds.

use std::collections::BTreeMap;

use wireyard_pipeline::ir::CPU_PORT;

use super::{Control, ControlError};
use crate::core::{
    Core, EntriesShown, PortPlace, PortState, ProgramReport, Statistics, TableEntries, entries_of,
};
use crate::ports::faults::FaultyPort;
use crate::ports::faults::chance::FaultSetup;
use crate::ports::shut::ShutPort;
use crate::ports::{LinkState, Port};
use crate::tm::{FlowControl, Limit, PortId, WredConfig, Xon};

type Result<T> = std::result::Result<T, ControlError>;

pub(super) fn no_port(port: u16) -> ControlError {
    ControlError::NotFound(format!("there is no port {port}"))
}

impl Control {
    /// The worker that has a port.
    pub(super) fn owner(&self, port: u16) -> Result<usize> {
        self.ask(0, move |core, _| core.worker_of(port))?.ok_or_else(|| no_port(port))
    }

    /// Asks the worker that has the port.
    pub(super) fn ask_owner<R: Send + 'static>(
        &self,
        port: u16,
        work: impl FnOnce(&mut Core, wireyard_tables::time::Time) -> R + Send + 'static,
    ) -> Result<R> {
        self.ask(self.owner(port)?, work)
    }

    /// A packet from the control plane: ingress sees it on the CPU port, with the headers in front that the program reads there.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`]: it is longer than packets may be; [`ControlError::ResourceExhausted`]: no packet memory is free, which
    /// the ledger counts; [`ControlError::Unavailable`].
    pub fn packet_out(&self, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        self.ask(0, move |core, now| taken(core, &frame, |core| core.inject(&frame, now)))?
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
        self.ask_owner(port, move |core, now| {
            taken(core, &frame, |core| core.inject_at(port, &frame, now))
        })?
    }

    /// A packet that leaves by this port as it is: the program does not see it; it has its class by the port's maps and waits in its queue.
    ///
    /// # Errors
    /// As [`Control::inject`].
    pub fn send(&self, port: u16, frame: &[u8]) -> Result<()> {
        let frame = frame.to_vec();
        self.ask_owner(port, move |core, now| {
            taken(core, &frame, |core| core.send_out(port, &frame, None, now))
        })?
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

    /// The ports, by number.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn ports(&self) -> Result<Vec<PortState>> {
        let (mut all, mut served) = (Vec::new(), Vec::new());
        for worker in 0..self.workers() {
            let (own, others) = self.ask(worker, |core, _| (core.port_states(), core.served()))?;
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

    /// Takes a port down, as if its link were, or up again: it carries no frame in either direction meanwhile.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn shut_port(&self, port: u16, is_shut: bool) -> Result<()> {
        self.exchange_port(port, move |mut inner, _| {
            if inner.is_shut() == is_shut || inner.shut(is_shut) {
                return inner;
            }
            Box::new(ShutPort::new(inner))
        })
    }

    /// Gives the cable of a port other faults from now on; [`FaultSetup::NONE`] ends them. Its counters go on. Each queue of the port has chances of
    /// its own.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn set_faults(&self, port: u16, setup: FaultSetup) -> Result<()> {
        self.exchange_port(port, move |mut inner, queue| {
            let setup = FaultSetup { seed: setup.seed.wrapping_add(queue), ..setup };
            if inner.set_faults(setup) || !setup.can_happen() {
                return inner;
            }
            Box::new(FaultyPort::new(inner, setup))
        })
    }

    /// Puts another port in the place of one, at each worker that serves a queue of it; `make` has the number of the queue.
    fn exchange_port(
        &self,
        port: u16,
        make: impl Fn(Box<dyn Port>, u64) -> Box<dyn Port> + Clone + Send + 'static,
    ) -> Result<()> {
        let owner = self.owner(port)?;
        for queue in 0..self.workers() {
            let (make, number) = (make.clone(), queue as u64);
            let made = move |inner: Box<dyn Port>| make(inner, number);
            let worker = (owner + queue) % self.workers();
            let is_there =
                self.ask(worker, move |core, now| core.exchange_port(now, port, made))?;
            if !is_there && queue == 0 {
                return Err(no_port(port));
            }
        }
        Ok(())
    }

    /// Stops or resumes transmission on a port; what is for it waits in its queues meanwhile.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn block_port(&self, port: u16, is_blocked: bool) -> Result<()> {
        self.owner(port)?;
        // Without `qos:` each worker sends by a transmit queue of its own.
        let block = move |core: &mut Core, now| core.block(now, port, is_blocked);
        (0..self.workers()).try_for_each(|worker| self.ask(worker, block))
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

    /// Changes when a lossless priority group lets its peer go on.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port or group.
    pub fn set_group_xon(&self, port: u16, group: u8, xon: Xon) -> Result<()> {
        self.ask_owner(port, move |core, now| {
            let id = queue_of(core, port, group)?;
            core.traffic_mut().set_group_xon(now, id, group, xon);
            Ok(())
        })?
    }

    /// Changes which priorities of a port that speaks PFC have it, bit n for priority n.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such port; [`ControlError::FailedPrecondition`]: it speaks none, or the group of a priority is lossy.
    pub fn set_pfc_enabled(&self, port: u16, enabled: u8) -> Result<()> {
        self.ask_owner(port, move |core, now| {
            let id = core.traffic_port(port).ok_or_else(|| no_port(port))?;
            let traffic = core.traffic_mut();
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
                    let text = format!(
                        "priority group {group} of port {port} is lossy: XOFF would never be sent for priority {priority}; switch.yaml gives \
                         a group headroom"
                    );
                    return Err(ControlError::FailedPrecondition(text));
                }
            }
            traffic.set_pfc_enabled(now, id, enabled);
            Ok(())
        })?
    }

    /// The counters of each worker, taken by it between two bursts, and merged: they are not of one instant where there are several. What the
    /// program counted is read by the caller's thread.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn statistics(&self) -> Result<Statistics> {
        let mut all = self.ask(0, |core, _| core.own_statistics())?;
        for worker in 1..self.workers() {
            all.merge(&self.ask(worker, |core, _| core.own_statistics())?);
        }
        all.program = Some(self.program_report());
        Ok(all)
    }

    /// What the program counted; no worker is asked.
    pub fn program_report(&self) -> ProgramReport {
        let current = self.shared.loader().current();
        ProgramReport::of(&current)
    }

    /// What the entries of tables with counters or meters counted; no worker is asked.
    pub fn entry_counters(&self, shown: EntriesShown) -> Vec<TableEntries> {
        let current = self.shared.loader().current();
        entries_of(&current, shown)
    }

    /// Sets all watermarks to what there is now.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub fn clear_watermarks(&self) -> Result<()> {
        let clear = |core: &mut Core, _| core.traffic_mut().clear_watermarks();
        (0..self.workers()).try_for_each(|worker| self.ask(worker, clear))
    }
}

impl Control {
    /// The ports with their counters, and their links as they were looked at last.
    ///
    /// # Errors
    /// As [`Control::statistics`].
    pub fn links(&self) -> Result<Vec<(crate::core::PortReport, LinkState)>> {
        let mut states = BTreeMap::new();
        for worker in 0..self.workers() {
            states.extend(self.ask(worker, |core, _| core.link_states())?);
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

/// Lets a worker take a frame, which has to fit a packet's memory.
fn taken(core: &mut Core, frame: &[u8], take: impl FnOnce(&mut Core) -> bool) -> Result<()> {
    let (bytes, longest) = (frame.len(), core.longest_frame());
    match bytes > longest {
        true => Err(ControlError::InvalidArgument(format!(
            "a packet of {bytes} bytes: packets have at most {longest}"
        ))),
        false if take(core) => Ok(()),
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
