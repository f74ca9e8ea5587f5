//! Received frames: bursts from a port become packets and enter ingress, or end here.

use std::collections::VecDeque;

use super::cuts::CutRecords;
use super::dispatch::Pass;
use super::generate::Generators;
use super::manager::Manager;
use super::ports::Ports;
use super::record::Recording;
use super::slot::Slot;
use super::{Core, reborrow};
use crate::ports::{PortError, RxFrame};
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, OpenPorts};
use wireyard_pipeline::packet::PacketMemory;
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

/// Bursts that one poll receives from a port that honours pauses: as many frames as a switch with default settings can
/// queue.
const BURSTS_MAX: usize = 128;

/// Counts of one [`Core::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Frames received.
    pub received: usize,
    /// Packets taken from the rings of other workers.
    pub handed: usize,
    /// Frames sent.
    pub sent: usize,
}

/// The packets on their way into ingress, and their state. Fields that every packet uses come first, together.
#[repr(C)]
pub(super) struct Ingress {
    /// Received frames that are not packets yet.
    rx: Vec<RxFrame>,
    /// The packets of a pass.
    pub(super) burst: Vec<Descriptor>,
    /// One for each of them: the engine sets what a pass decides anew each time.
    pub(super) meta: Vec<Intrinsic>,
    /// Packets for another pass.
    pub(super) again: VecDeque<Descriptor>,
    /// True when a packet did egress in this poll before the others: packets that recirculate there wait for the next
    /// poll, as always.
    pub(super) has_departed: bool,
    /// Ports by which a packet leaves at once, as of the last burst.
    pub(super) open: OpenPorts,
    pub(super) generators: Generators,
    pub(super) cuts: CutRecords,
}

impl Default for Ingress {
    fn default() -> Ingress {
        Ingress {
            rx: Vec::with_capacity(BURST_MAX),
            burst: Vec::with_capacity(BURST_MAX),
            meta: (0..BURST_MAX).map(|_| Intrinsic::default()).collect(),
            again: VecDeque::new(),
            has_departed: false,
            open: OpenPorts::default(),
            generators: Generators::default(),
            cuts: CutRecords::default(),
        }
    }
}

impl Ingress {
    /// The packets of a pass and their metadata, which are returned to the fields when the pass is over: the lists are
    /// reused.
    #[inline]
    pub(super) fn take_burst(&mut self) -> (Vec<Descriptor>, Vec<Intrinsic>) {
        (std::mem::take(&mut self.burst), std::mem::take(&mut self.meta))
    }

    /// Lists the ports by which a packet leaves at once.
    pub(super) fn list_open(&mut self, ports: &Ports, manager: &Manager) {
        for (n, slot) in ports.iter().enumerate() {
            let is_open =
                slot.present && manager.is_open(n) && (slot.worker.is_none() || slot.has_queue);
            self.open.set(slot.number.0, is_open);
        }
    }

    /// Takes one burst from a port. Returns the number of frames.
    #[inline]
    fn rx_burst(
        &mut self,
        ports: &mut Ports,
        slot: usize,
        now: Time,
        mem: &mut PacketMemory,
        recording: &mut Recording,
    ) -> usize {
        let result = ports[slot].port.rx_burst(mem, now, &mut self.rx, BURST_MAX);
        if self.rx.len() > BURST_MAX {
            self.refuse_surplus(ports, slot, mem);
        }
        let received = self.rx.len();
        let port = &mut ports[slot];
        port.ledger.received += received as u64;
        if let Some(place) = port.recorded {
            recording.received(place, mem, &self.rx);
        }
        if let Err(error) = result {
            ports.report_error(slot, &error);
        }
        received
    }

    /// Drops the frames that a port returned beyond the requested number: there is no room for them.
    #[cold]
    fn refuse_surplus(&mut self, ports: &mut Ports, slot: usize, mem: &mut PacketMemory) {
        let surplus = self.rx.drain(BURST_MAX..);
        let count = surplus.len();
        surplus.for_each(|frame| mem.free(frame.buf));
        let port = ports[slot].port.name().to_owned();
        let why = format!(
            "gave {count} frames more than the {BURST_MAX} it was asked for: they are lost"
        );
        ports.report_error(slot, &PortError::Unsupported { port, why });
    }

    /// Adds a received frame to the burst, as a packet.
    #[inline]
    fn push(&mut self, port: &Slot, frame: RxFrame) {
        let cut = self.cuts.number(frame.wire_len, frame.len);
        let received_ns = frame.timestamp.as_ns();
        let mut descriptor =
            Descriptor::received(frame.buf, frame.data_off, frame.len, port.number.0, received_ns);
        descriptor.ingress_link = port.link_code();
        descriptor.cut = cut;
        self.burst.push(descriptor);
    }

    /// Moves packets for another pass into the burst.
    pub(super) fn take_again(&mut self) {
        let count = self.again.len().min(BURST_MAX);
        self.burst.extend(self.again.drain(..count));
    }
}

impl Core {
    /// Receives a burst of a port and runs ingress on it; receives nothing while there is no room. `is_last_port`: no
    /// port is polled after this one. Returns the number of frames.
    #[inline]
    pub(super) fn receive(
        &mut self,
        slot: usize,
        is_last_port: bool,
        progress: &mut Progress,
        trace: Option<&mut dyn TraceSink>,
    ) -> usize {
        if self.mesh.is_crowded() || self.copies.are_enough(self.ingress.again.len()) {
            return 0;
        }
        let (ports, mem, recording) = (&mut self.ports, &mut self.mem, &mut self.recording);
        let received = self.ingress.rx_burst(ports, slot, self.now, mem, recording);
        progress.received += received;
        self.list_received(slot);
        if let Some(owner) = self.manager.owner_elsewhere(&self.ports, slot) {
            self.ingress_for(owner, trace);
            return received;
        }
        self.run_ingress(Pass::First { last: is_last_port && received < BURST_MAX }, trace);
        received
    }

    /// Like [`Core::receive`], repeated while bursts are full from a port that honours pauses: frames in its ring are
    /// charged to the buffer, which stops the peer in time, and a pause behind them is obeyed before more is sent. The
    /// device's own pauses are sent between two bursts.
    #[inline]
    pub(super) fn receive_all(
        &mut self,
        slot: usize,
        is_last_port: bool,
        progress: &mut Progress,
        mut trace: Option<&mut dyn TraceSink>,
    ) {
        for _ in 0..BURSTS_MAX {
            let received = self.receive(slot, is_last_port, progress, reborrow(&mut trace));
            if received < BURST_MAX || !self.manager.obeys_pauses(slot) {
                return;
            }
            if !self.ports.active.is_empty() {
                progress.sent += self.send_all(false);
            }
        }
    }

    /// Moves received frames into the burst, as packets.
    #[inline]
    fn list_received(&mut self, slot: usize) {
        let mut rx = std::mem::take(&mut self.ingress.rx);
        for frame in rx.drain(..) {
            if self.mac_control.is_for_device(&self.ports[slot], &self.mem, &frame) {
                self.mac_control_received(slot, frame);
                continue;
            }
            self.ingress.push(&self.ports[slot], frame);
        }
        self.ingress.rx = rx;
    }
}
