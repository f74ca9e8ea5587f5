//! The device: the one place that orders receive, ingress, replication, queue, egress and transmit.
//!
//! [`Core::poll`] moves what is there now and returns; it never waits and reads no clock. A live
//! switch calls it in a loop with the time of day, the laboratory with virtual time. A packet's way:
//!
//! ```text
//! ports rx -> classify (MAC control ends here) -> ingress -> verdict
//!          -> dispatch (drop, punt, resubmit, unicast, multicast, mirror)
//!          -> queue of the egress port -> egress -> ports tx
//! ```
//!
//! It decides nothing about headers (the program does) and nothing about marking or pausing (the
//! traffic manager does). Every packet it owns is booked in the [`stats`](crate::stats) ledger.

mod dispatch;
mod slot;

use std::sync::Arc;

use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, PacketPath};
use wireyard_pipeline::generation::{Executor, Generation};
use wireyard_pipeline::ids::{Id, ReasonId};
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

use crate::device::DeviceState;
use crate::ports::{LinkState, Port, PortError, RxFrame, TxFrame};
use crate::replicate::{Member, Replication};
use crate::stats::{DeviceReason, Ledger, LedgerReport, ReasonIndex, Reasons, device_reasons};

pub use slot::PortReport;
use slot::Slot;

/// Most passes of one packet through ingress: resubmissions and recirculations together.
pub const PASSES_MAX: u8 = 8;
/// Slots of a table that one [`Core::age`] looks at.
const AGE_SLOTS: usize = 65_536;
/// Frames that wait for a port that finds no room; more are dropped as `tx_full`.
const BACKLOG_MAX: usize = 1024;

/// The same sink for a shorter time.
fn lend<'a>(trace: &'a mut Option<&mut dyn TraceSink>) -> Option<&'a mut dyn TraceSink> {
    match trace {
        Some(sink) => Some(&mut **sink),
        None => None,
    }
}

/// What happened in one [`Core::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Frames received.
    pub received: usize,
    /// Frames sent.
    pub sent: usize,
    /// Packets that still wait inside.
    pub queued: usize,
}

/// A packet that went to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntedPacket {
    /// Why.
    pub reason: String,
    /// Port it came in by.
    pub ingress_port: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What becomes of PAUSE and PFC frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacControlPolicy {
    /// They end at the port.
    #[default]
    Consume,
    /// The program sees them.
    Pass,
}

/// A device with one worker.
pub struct Core {
    mem: PacketMemory,
    executor: Executor,
    slots: Vec<Slot>,
    /// Slot of a port number; `u16::MAX` is none.
    slot_of: Vec<u16>,
    /// Port numbers in slot order.
    numbers: Vec<u16>,
    /// Copies that a program's groups and sessions make.
    pub replication: Replication,
    /// Digests and calls of externs.
    pub device: DeviceState,
    /// What becomes of PAUSE and PFC frames.
    pub mac_control: MacControlPolicy,
    /// When set, stands for the traffic manager's decision: packets that may be marked are.
    pub mark_all: bool,
    /// Packets from the control plane.
    cpu: Ledger,
    reasons: Reasons,
    /// By generation, the index in `reasons` of each reason of its program.
    program_reasons: Vec<(u16, Vec<ReasonIndex>)>,
    /// Packets for the control plane, when it is listening.
    punted: Option<Vec<PuntedPacket>>,
    /// Messages about ports, for people.
    port_messages: Vec<String>,
    /// How many bytes are missing from cut capture records: `Descriptor::cut` is an index + 1.
    cuts: Vec<u32>,
    again: Vec<(Descriptor, Intrinsic)>,
    burst: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
    rx: Vec<RxFrame>,
    copies: Vec<Member>,
}

impl Core {
    /// A device without ports that runs what `executor` has.
    pub fn new(mem: PacketMemory, executor: Executor) -> Core {
        Core {
            mem,
            executor,
            slots: Vec::new(),
            slot_of: Vec::new(),
            numbers: Vec::new(),
            replication: Replication::default(),
            device: DeviceState::default(),
            mac_control: MacControlPolicy::default(),
            mark_all: false,
            cpu: Ledger::default(),
            reasons: device_reasons(),
            program_reasons: Vec::new(),
            punted: None,
            port_messages: Vec::new(),
            cuts: Vec::new(),
            again: Vec::new(),
            burst: Vec::with_capacity(BURST_MAX),
            meta: Vec::with_capacity(BURST_MAX),
            rx: Vec::with_capacity(BURST_MAX),
            copies: Vec::new(),
        }
    }

    /// Index of a program's reason; names are learned when a generation is first met.
    fn program_reason(&mut self, generation: u16, reason: ReasonId) -> ReasonIndex {
        let known = self.program_reasons.iter().position(|(id, _)| *id == generation);
        let place = known.unwrap_or_else(|| {
            let program = self.executor.generation(generation).map(|g| Arc::clone(&g.program));
            let names = program.iter().flat_map(|p| p.reasons.iter());
            let indices = names.map(|name| self.reasons.intern(name)).collect();
            self.program_reasons.push((generation, indices));
            self.program_reasons.len() - 1
        });
        let index = self.program_reasons[place].1.get(reason.index()).copied();
        index.unwrap_or(DeviceReason::NoSuchPort.index())
    }

    /// The program that new packets meet.
    pub fn generation(&self) -> Option<&Arc<Generation>> {
        self.executor.current()
    }

    /// The packet memory, for ports that are fed by hand.
    pub fn memory(&mut self) -> &mut PacketMemory {
        &mut self.mem
    }

    /// Adds a port.
    ///
    /// # Errors
    /// The number is taken, 0, or one of the reserved ones from [`CPU_PORT`] on.
    pub fn add_port(&mut self, number: u16, port: Box<dyn Port>) -> Result<(), String> {
        if number == 0 || number >= CPU_PORT {
            return Err(format!("port {number}: use 1 to {}", CPU_PORT - 1));
        }
        if self.slot(number).is_some() {
            return Err(format!("port {number} is there already"));
        }
        if self.slot_of.len() <= number as usize {
            self.slot_of.resize(number as usize + 1, u16::MAX);
        }
        self.slot_of[number as usize] = self.slots.len() as u16;
        self.numbers.push(number);
        self.slots.push(Slot::new(number, port));
        Ok(())
    }

    fn slot(&self, number: u16) -> Option<usize> {
        let slot = *self.slot_of.get(number as usize)?;
        (slot != u16::MAX).then_some(slot as usize)
    }

    /// The port itself.
    pub fn port(&mut self, number: u16) -> Option<&mut dyn Port> {
        let slot = self.slot(number)?;
        Some(self.slots[slot].port.as_mut())
    }

    /// Keep packets for the control plane from now on; [`Core::take_punted`] gives them.
    pub fn listen_to_punts(&mut self) {
        self.punted.get_or_insert_with(Vec::new);
    }

    /// Packets for the control plane since the last call.
    pub fn take_punted(&mut self) -> Vec<PuntedPacket> {
        self.punted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Messages about ports since the last call: an interface went down, vanished, came back.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.port_messages)
    }

    /// Moves everything that is there now, at most one burst from each port.
    pub fn poll(&mut self, now: Time, mut trace: Option<&mut dyn TraceSink>) -> Progress {
        let mut progress = Progress::default();
        for slot in 0..self.slots.len() {
            progress.received += self.receive(slot, now);
            self.run_ingress(now, lend(&mut trace));
        }
        // Each packet comes back at most PASSES_MAX times, so this ends.
        while !self.again.is_empty() {
            self.take_again();
            self.run_ingress(now, lend(&mut trace));
        }
        for slot in 0..self.slots.len() {
            progress.sent += self.transmit(slot, now, lend(&mut trace));
        }
        // What recirculated in egress is another turn; it goes on in the next poll.
        progress.queued = self.queued();
        progress
    }

    /// A packet from the control plane: ingress sees it on the CPU port, at the next poll. False when
    /// packet memory is exhausted; that is booked.
    pub fn inject(&mut self, frame: &[u8], now: Time) -> bool {
        self.cpu.received += 1;
        let Some(buf) = self.mem.alloc_frame(frame) else {
            self.cpu.drop(DeviceReason::NoMemory.index());
            return false;
        };
        let data_off = self.mem.config().headroom_bytes as u16;
        let len = frame.len() as u32;
        let mut packet = Descriptor::received(buf, data_off, len, CPU_PORT, now.as_ns());
        packet.path = PacketPath::FromCpu as u8;
        self.again.push((packet, Intrinsic { now_ns: now.as_ns(), ..Intrinsic::default() }));
        true
    }

    fn receive(&mut self, slot: usize, now: Time) -> usize {
        let mut rx = std::mem::take(&mut self.rx);
        let port = &mut self.slots[slot];
        if let Err(error) = port.port.rx_burst(&mut self.mem, now, &mut rx, BURST_MAX) {
            self.port_messages.push(error.to_string());
        }
        let received = rx.len();
        port.ledger.received += received as u64;
        for frame in rx.drain(..) {
            if self.is_mac_control(slot, &frame) {
                self.slots[slot].ledger.consume(DeviceReason::MacControl.index());
                self.mem.free(frame.buf);
                continue;
            }
            let (descriptor, intrinsic) = self.describe(slot, frame, now);
            self.burst.push(descriptor);
            self.meta.push(intrinsic);
        }
        self.rx = rx;
        received
    }

    /// True for a PAUSE or PFC frame, which ends at the port.
    fn is_mac_control(&self, slot: usize, frame: &RxFrame) -> bool {
        self.mac_control == MacControlPolicy::Consume
            && self.slots[slot].is_ethernet()
            && crate::frames::is_mac_control(self.mem.frame(&frame.buf, frame.data_off, frame.len))
    }

    fn describe(&mut self, slot: usize, frame: RxFrame, now: Time) -> (Descriptor, Intrinsic) {
        let cut = self.cut(frame.wire_len.wrapping_sub(frame.len));
        let number = self.slots[slot].number;
        let received_ns = frame.timestamp.as_ns();
        let mut descriptor =
            Descriptor::received(frame.buf, frame.data_off, frame.len, number, received_ns);
        descriptor.ingress_link = self.slots[slot].link_code();
        descriptor.cut = cut;
        (descriptor, Intrinsic { now_ns: now.as_ns(), ..Intrinsic::default() })
    }

    /// The number for so many missing bytes; 0 for none, and for the 65,536th different number.
    fn cut(&mut self, missing: u32) -> u16 {
        if missing == 0 {
            return 0;
        }
        let known = self.cuts.iter().position(|&m| m == missing);
        let index = known.unwrap_or_else(|| {
            self.cuts.push(missing);
            self.cuts.len() - 1
        });
        u16::try_from(index + 1).unwrap_or(0)
    }

    fn wire_len(&self, descriptor: &Descriptor) -> u32 {
        let missing = match descriptor.cut {
            0 => 0,
            cut => self.cuts.get(cut as usize - 1).copied().unwrap_or(0),
        };
        descriptor.len.wrapping_add(missing)
    }

    fn take_again(&mut self) {
        let count = self.again.len().min(BURST_MAX);
        for (descriptor, intrinsic) in self.again.drain(..count) {
            self.burst.push(descriptor);
            self.meta.push(intrinsic);
        }
    }

    /// Packets inside: waiting for a port, or for another pass.
    pub fn queued(&self) -> usize {
        self.again.len() + self.slots.iter().map(Slot::queued).sum::<usize>()
    }

    /// The ledger of everything.
    pub fn ledger(&self) -> Ledger {
        let mut total = self.cpu.clone();
        for slot in &self.slots {
            total.merge(&slot.ledger);
        }
        total
    }

    /// The ledger with names, and whether it balances.
    pub fn report(&self) -> LedgerReport {
        LedgerReport::new(&self.ledger(), &self.reasons, self.queued() as u64)
    }

    /// The ledgers of the ports, with their own counters.
    pub fn port_reports(&mut self) -> Vec<PortReport> {
        let queued = self.queued_by_ingress();
        let reasons = &self.reasons;
        self.slots.iter_mut().zip(queued).map(|(slot, n)| slot.report(reasons, n)).collect()
    }

    /// Packets inside by the port they came in by, in slot order.
    fn queued_by_ingress(&self) -> Vec<u64> {
        let mut counts = vec![0; self.slots.len()];
        let mut add = |number: u16| {
            if let Some(slot) = self.slot(number) {
                counts[slot] += 1;
            }
        };
        for slot in &self.slots {
            slot.waiting().for_each(&mut add);
        }
        self.again.iter().for_each(|(descriptor, _)| add(descriptor.ingress_port));
        counts
    }

    /// Drops booked so far for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.ledger().dropped_for(&self.reasons, reason)
    }

    /// Packets consumed so far for a reason.
    pub fn consumed(&self, reason: &str) -> u64 {
        self.ledger().consumed_for(&self.reasons, reason)
    }

    /// Looks at the links; messages tell what changed.
    pub fn check_links(&mut self, now: Time) {
        for slot in &mut self.slots {
            if let Some(message) = slot.check_link(now) {
                self.port_messages.push(message);
            }
        }
    }

    /// True when every port has come to the end of its input and nothing waits.
    pub fn is_finished(&mut self, now: Time) -> bool {
        self.queued() == 0
            && self.slots.iter_mut().all(|slot| slot.port.link_state(now) == LinkState::Ended)
    }

    /// When the next frame of an input with its own time arrives; `None` when none will.
    pub fn next_arrival(&mut self) -> Option<Time> {
        self.slots.iter_mut().filter_map(|slot| slot.port.next_arrival()).min()
    }

    /// Lets go of the tables before the worker sleeps.
    pub fn rest(&mut self) {
        self.executor.release();
    }

    /// Removes idle table entries. Looks at a bounded number of slots of each table.
    pub fn age(&mut self, now: Time) {
        let Some(generation) = self.executor.current().map(Arc::clone) else { return };
        self.executor.release();
        for (table, declared) in generation.program.tables.entries() {
            if declared.idle_timeout_ms.is_some() {
                let id = wireyard_tables::TableId(table.0);
                // A table that moved to the next program is aged there.
                let _ = generation.state.tables().age_out(id, now, AGE_SLOTS);
            }
        }
    }

    /// Sends what waits and closes the ports.
    pub fn drain(&mut self, now: Time) -> Vec<PortError> {
        for _ in 0..PASSES_MAX {
            if self.queued() == 0 {
                break;
            }
            for slot in 0..self.slots.len() {
                self.transmit(slot, now, None);
            }
        }
        self.close()
    }

    /// Descriptors to sleep on.
    pub fn poll_fds(&self) -> Vec<std::os::fd::RawFd> {
        self.slots.iter().filter_map(|slot| slot.port.poll_fd()).collect()
    }

    /// Pushes out what is under way, closes the ports and gives their chunks back.
    pub fn close(&mut self) -> Vec<PortError> {
        let mut errors = Vec::new();
        for slot in &mut self.slots {
            if let Err(error) = slot.port.flush(&mut self.mem) {
                errors.push(error);
            }
            slot.port.close(&mut self.mem);
        }
        errors
    }

    /// A frame for a port, from its descriptor.
    fn tx_frame(&self, descriptor: &mut Descriptor) -> Option<TxFrame> {
        let wire_len = self.wire_len(descriptor);
        let buf = descriptor.buf.take()?;
        Some(TxFrame { buf, data_off: descriptor.data_off, len: descriptor.len, wire_len })
    }
}
