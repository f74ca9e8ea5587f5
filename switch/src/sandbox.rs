//! A device whose ports end in memory: packet tests and traces run in it.
//!
//! It is the same [`Core`] as everywhere; only the media differ, and time is set by the caller.

use std::collections::BTreeMap;

use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

use crate::core::{Core, DeviceError};
use crate::ports::memory::{self, MemoryPort};
use crate::ports::{LinkType, PortNumber};

/// Most frames of a port in flight.
const LINK_FRAMES: usize = 4096;
/// Most polls at one time.
const SETTLE_POLLS: usize = 4096;

/// A device and the far ends of its ports.
pub struct Sandbox {
    /// The device.
    pub core: Core,
    peers: BTreeMap<PortNumber, MemoryPort>,
}

impl Sandbox {
    /// Adds these ports to the device.
    ///
    /// # Errors
    /// An invalid port number.
    pub fn new(mut core: Core, ports: &[(PortNumber, LinkType)]) -> Result<Sandbox, DeviceError> {
        let mut peers = BTreeMap::new();
        for &(number, link) in ports {
            let (near, far) = (format!("port{number}"), format!("peer{number}"));
            let (near, far) = memory::pair(core.memory(), (&near, &far), link, LINK_FRAMES);
            core.add_port(number, Box::new(near))?;
            peers.insert(number, far);
        }
        Ok(Sandbox { core, peers })
    }

    /// Sends a frame into a port and runs the device until it is idle. False: there is no such port, or no memory.
    pub fn send(
        &mut self,
        port: PortNumber,
        frame: &[u8],
        now: Time,
        trace: Option<&mut dyn TraceSink>,
    ) -> bool {
        let sent = self.queue(port, frame);
        self.run_until_idle(now, trace);
        sent
    }

    /// Sends a frame into a port, for the device's next poll, together with others. False: there is no such port, or no
    /// memory.
    pub fn queue(&mut self, port: PortNumber, frame: &[u8]) -> bool {
        let peer = self.peers.get_mut(&port);
        peer.is_some_and(|peer| peer.send_bytes(self.core.memory(), frame))
    }

    /// Sends a packet from the control plane: ingress gets it on the CPU port.
    pub fn send_from_cpu(
        &mut self,
        frame: &[u8],
        now: Time,
        trace: Option<&mut dyn TraceSink>,
    ) -> bool {
        let sent = self.core.inject(frame, now);
        self.run_until_idle(now, trace);
        sent
    }

    /// Whether the device has this port.
    pub fn has_port(&self, port: PortNumber) -> bool {
        self.peers.contains_key(&port)
    }

    /// Runs the device until it is idle at this time.
    pub fn run_until_idle(&mut self, now: Time, mut trace: Option<&mut dyn TraceSink>) {
        // A program whose egress clones to its own port would never end.
        for _ in 0..SETTLE_POLLS {
            let progress = match &mut trace {
                Some(sink) => self.core.poll(now, Some(&mut **sink)),
                None => self.core.poll(now, None),
            };
            let is_due = self.core.next_timer().is_by(now);
            if progress.received == 0 && !is_due {
                return;
            }
        }
    }

    /// The next timer of the device, not after `end`.
    fn next_timer(&mut self, end: Time) -> Option<Time> {
        let now = self.core.time();
        self.core.next_timer().not_before(now).instant().filter(|at| *at <= end)
    }

    /// Advances time to `end`, from one timer of the device to the next.
    pub fn run_until(&mut self, end: Time, mut trace: Option<&mut dyn TraceSink>) {
        while let Some(at) = self.next_timer(end) {
            match &mut trace {
                Some(sink) => self.run_until_idle(at, Some(&mut **sink)),
                None => self.run_until_idle(at, None),
            }
        }
        self.run_until_idle(end, trace);
    }

    /// Advances time until the device is empty, or can make no more progress, or `end`.
    pub fn run_to_the_end(&mut self, end: Time, mut trace: Option<&mut dyn TraceSink>) {
        while self.core.queued() > 0
            && let Some(at) = self.next_timer(end)
        {
            match &mut trace {
                Some(sink) => self.run_until_idle(at, Some(&mut **sink)),
                None => self.run_until_idle(at, None),
            }
        }
    }

    /// Everything that left since the last call, port by port.
    pub fn received(&mut self) -> Vec<(PortNumber, Vec<u8>)> {
        let mut all = Vec::new();
        for (number, peer) in &mut self.peers {
            let frames = peer.receive_bytes(self.core.memory());
            all.extend(frames.into_iter().map(|frame| (*number, frame)));
        }
        all
    }
}
