//! The device: the one place that orders receive, ingress, replication, queue, egress and transmit.
//!
//! [`Core::poll`] moves what is there now and returns; it never waits and reads no clock. A live
//! switch calls it in a loop with the time of day, the laboratory with virtual time. A packet's way:
//!
//! ```text
//! ports rx -> receive (MAC control ends here, pause) -> ingress -> verdict
//!          -> dispatch (drop, punt, resubmit, unicast, multicast, mirror)
//!          -> manager (the traffic manager: class, admission, queue, scheduler, mark)
//!          -> transmit: egress -> ports tx
//! ```
//!
//! A port without a rate that nothing stops takes packets past the traffic manager's queues. The core
//! decides nothing about headers (the program does) and nothing about marking or pausing (the
//! traffic manager does). Every packet it owns is booked in the [`stats`](crate::stats) ledger.

mod bounds;
mod control;
mod dispatch;
mod entry_counters;
mod generate;
mod handover;
mod idle;
mod links;
mod manager;
mod merge;
mod notify;
mod pause;
mod program_report;
mod queues;
mod receive;
mod record;
mod removal;
mod slot;
mod statistics;
mod straight;
mod transmit;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, OpenPorts, PacketPath};
use wireyard_pipeline::generation::{Executor, Generation};
use wireyard_pipeline::ids::{Id, ReasonId, TableId};
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

use crate::config::qos::Qos;
use crate::config::{PORT_MAX, is_port};
use crate::control::WorkerLink;
use crate::device::DeviceState;
use crate::device::notify::Notifier;
use crate::frames::Frames;
use crate::ports::{Port, RxFrame};
use crate::replicate::{Member, ReplicationReader};
use crate::stats::{DeviceReason, Ledger, ReasonIndex, Reasons, device_reasons};
use crate::tm::{PortId, Tm};

use bounds::BURSTS_AGAIN;
pub use bounds::PASSES_MAX;
pub use entry_counters::{EntriesShown, EntryReport, TableEntries};
pub use generate::Generator;
pub use handover::{Crew, WORKERS_MAX};
pub use idle::IdleEntry;
use manager::{Manager, port_id};
pub use program_report::{CellReport, ProgramReport, TableReport};
pub use queues::{
    GroupReport, NotificationReport, PauseReport, PoolReport, PortQueues, QueueReport,
    QueueingReport,
};
pub use slot::PortReport;
use slot::{Slot, SlotSet};
pub use statistics::Statistics;

/// Bursts that one poll receives from a port that obeys pauses: as many frames as wait at once in a switch at its defaults.
const BURSTS_MAX: usize = 128;
/// Frames that wait for a port that finds no room; more are dropped as `tx_full`. Fewer where packet memory has less for each port,
/// so that ports that take nothing do not take the memory of the others.
const BACKLOG_MAX: usize = 1024;
const BACKLOG_LEAST: usize = 16;

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
    /// Packets that other workers gave to ports of this one.
    pub handed: usize,
    /// Frames sent.
    pub sent: usize,
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

/// A packet that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedPacket {
    /// Why.
    pub reason: String,
    /// Port it came in by.
    pub ingress_port: u16,
    /// Its bytes, as they were then.
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

/// A device with one worker, or one worker of a device ([`Core::join`]).
///
/// What every packet touches stands together, first: where many devices take turns on one thread, each finds little of itself in
/// the cache.
#[repr(C, align(64))]
pub struct Core {
    /// The time of this call.
    now: Time,
    /// Ports by which a packet leaves at once, as they were at the last burst.
    open: OpenPorts,
    /// Frames handed over without a list in this turn.
    sent_straight: usize,
    /// Frames are handed to ports one by one, without a list: see `straight`.
    is_straight: bool,
    /// What becomes of PAUSE and PFC frames.
    pub mac_control: MacControlPolicy,
    /// When set, packets that may be marked are, whatever the traffic manager decided.
    pub mark_all: bool,
    slots: Vec<Slot>,
    /// Slot of a port number; `u16::MAX` is none.
    slot_of: Vec<u16>,
    /// What is told about the packet that goes straight; the engine sets the rest anew each time.
    alone: Intrinsic,
    mem: PacketMemory,
    executor: Executor,
    again: VecDeque<(Descriptor, Intrinsic)>,
    /// Packets for the control plane that have not done egress.
    to_cpu: Vec<Descriptor>,
    rx: Vec<RxFrame>,
    /// Ports with something to send.
    active: SlotSet,
    /// Ports whose descriptors are readable, while [`Core::poll_readable`] asks them.
    readable: SlotSet,
    generators: Vec<Generator>,
    /// The other workers, if there are any.
    crew: Option<Crew>,
    /// Digests and calls of externs.
    pub device: DeviceState,
    /// Buffer, queues, schedulers, flow control.
    manager: Manager,
    burst: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
    copies: Vec<Member>,
    /// Copies made in this poll.
    copies_made: usize,
    /// Numbers of the ports that are there, in slot order.
    numbers: Vec<u16>,
    /// How often ports came or went.
    port_changes: u64,
    /// Frames that may wait for each of them.
    backlog_max: usize,
    /// Copies that groups and sessions make.
    pub replication: ReplicationReader,
    /// What control asks of this worker.
    control: Option<Box<WorkerLink>>,
    /// Source addresses of ports' own frames, where they were given.
    macs: BTreeMap<u16, [u8; 6]>,
    /// Builders and readers of the device's own frames.
    frames: Arc<Frames>,
    /// Packets from the control plane.
    cpu: Ledger,
    reasons: Reasons,
    /// By generation, the index in `reasons` of each reason of its program.
    program_reasons: Vec<(u16, Vec<ReasonIndex>)>,
    /// Packets for the control plane, when it is listening.
    punted: Option<Vec<PuntedPacket>>,
    /// Packets that were dropped, when somebody asks who.
    dropped: Option<Vec<DroppedPacket>>,
    /// Messages about ports, for people.
    port_messages: Vec<String>,
    /// Tables whose idle entries a message told of: generation and table.
    idle_tables: Vec<(u16, TableId)>,
    /// Capture files.
    recording: record::Recording,
    /// How many bytes are missing from cut capture records: `Descriptor::cut` is an index + 1.
    cuts: Vec<u32>,
}

impl Core {
    /// A device without ports that runs what `executor` has.
    pub fn new(mem: PacketMemory, executor: Executor) -> Core {
        let mut reasons = device_reasons();
        let manager = Manager::plain(mem.config().chunks, &mut reasons);
        Core {
            mem,
            executor,
            slots: Vec::new(),
            slot_of: Vec::new(),
            numbers: Vec::new(),
            port_changes: 0,
            backlog_max: BACKLOG_MAX,
            replication: ReplicationReader::default(),
            control: None,
            device: DeviceState::default(),
            mac_control: MacControlPolicy::default(),
            mark_all: false,
            manager,
            active: SlotSet::default(),
            readable: SlotSet::default(),
            macs: BTreeMap::new(),
            frames: Frames::shared().unwrap_or_else(|why| unreachable!("tested: {why}")),
            now: Time::ZERO,
            cpu: Ledger::default(),
            reasons,
            program_reasons: Vec::new(),
            punted: None,
            dropped: None,
            port_messages: Vec::new(),
            idle_tables: Vec::new(),
            recording: record::Recording::default(),
            crew: None,
            cuts: Vec::new(),
            again: VecDeque::new(),
            to_cpu: Vec::new(),
            copies_made: 0,
            generators: Vec::new(),
            burst: Vec::with_capacity(BURST_MAX),
            meta: Vec::with_capacity(BURST_MAX),
            rx: Vec::with_capacity(BURST_MAX),
            copies: Vec::new(),
            open: OpenPorts::default(),
            is_straight: false,
            sent_straight: 0,
            alone: Intrinsic::default(),
        }
    }

    /// Index of a program's reason; names are learned when a generation is first met.
    fn program_reason(&mut self, generation: u16, reason: ReasonId) -> ReasonIndex {
        let known = self.program_reasons.iter().position(|(id, _)| *id == generation);
        let place = known.unwrap_or_else(|| {
            let program = self.executor.generation(generation).map(|g| Arc::clone(&g.program));
            let names = program.iter().flat_map(|p| p.reasons.iter());
            let indices = names.map(|name| self.reasons.intern(name)).collect();
            // Numbers of programs are used again.
            self.program_reasons.retain(|(id, _)| self.executor.generation(*id).is_some());
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

    /// Adds a port, also while packets flow. A number that was removed goes on with its counters.
    ///
    /// # Errors
    /// The number is taken, 0, or one of the reserved ones from [`CPU_PORT`] on.
    pub fn add_port(&mut self, number: u16, port: Box<dyn Port>) -> Result<(), String> {
        if !is_port(number) {
            return Err(format!("port {number}: use 1 to {PORT_MAX}"));
        }
        if self.slot(number).is_some() {
            return Err(format!("port {number} is there already"));
        }
        if self.slot_of.len() <= number as usize {
            self.slot_of.resize(number as usize + 1, u16::MAX);
        }
        let slot = match self.removed_slot(number) {
            Some(slot) => {
                self.manager.restore_port(slot, number)?;
                self.slots[slot].put_back(port);
                slot
            }
            None => {
                self.manager.add_port(number)?;
                self.slots.push(Slot::new(number, port));
                self.slots.len() - 1
            }
        };
        self.slot_of[number as usize] = slot as u16;
        self.list_numbers();
        self.active.grow(slot + 1);
        self.readable.grow(slot + 1);
        self.tell_link(slot);
        Ok(())
    }

    /// Gives the device real queues: class maps, buffers, schedulers, flow control. Ports are named by
    /// their numbers; one that `qos` does not name has no rate and pauses nobody. Ports may be added
    /// before and after.
    ///
    /// # Errors
    /// Packets are inside, or `qos` was not made by its own checks.
    pub fn set_qos(&mut self, qos: &Qos) -> Result<(), String> {
        if self.queued() > 0 {
            return Err("the queues cannot change while packets are in them".into());
        }
        let mut manager = Manager::configured(qos, &mut self.reasons);
        for slot in &self.slots {
            manager.add_port(slot.number)?;
        }
        self.manager = manager;
        let gone = self.slots.iter().enumerate().filter(|(_, slot)| !slot.present);
        gone.for_each(|(slot, _)| self.manager.tm.port_down(self.now, port_id(slot)));
        for slot in 0..self.slots.len() {
            self.slots[slot].down = false;
            self.tell_link(slot);
            self.tell_blocked(slot);
        }
        Ok(())
    }

    /// The source address of the frames that a port itself sends; ports may be added later.
    pub fn set_mac(&mut self, number: u16, mac: [u8; 6]) {
        self.macs.insert(number, mac);
    }

    /// The traffic manager, to be read: depths, counters, who waits for whom. After [`Core::poll_ports`], [`Core::settle`] first.
    pub fn traffic(&self) -> &Tm<Descriptor> {
        &self.manager.tm
    }

    /// The traffic manager, for who observes or changes its congestion points.
    pub fn traffic_mut(&mut self) -> &mut Tm<Descriptor> {
        &mut self.manager.tm
    }

    /// A port as the traffic manager numbers it.
    pub fn traffic_port(&self, number: u16) -> Option<PortId> {
        self.slot(number).map(port_id)
    }

    /// The port behind a number of the traffic manager; `None` is the CPU port.
    pub fn port_of_traffic(&self, id: PortId) -> Option<u16> {
        self.slots.get(manager::slot_of(id)?).map(|slot| slot.number)
    }

    #[inline]
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

    /// Keep packets that are dropped from now on; [`Core::take_dropped`] gives them. For who asks which packet it was: the
    /// ledger counts without it.
    pub fn listen_to_drops(&mut self) {
        self.dropped.get_or_insert_with(Vec::new);
    }

    /// Packets dropped since the last call.
    pub fn take_dropped(&mut self) -> Vec<DroppedPacket> {
        self.dropped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Messages about ports since the last call: an interface went down, vanished, came back.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.port_messages)
    }

    /// Moves everything that is there now, at most one burst from each port.
    pub fn poll(&mut self, now: Time, mut trace: Option<&mut dyn TraceSink>) -> Progress {
        self.serve_control(now);
        let mut progress = self.begin_turn(now);
        for slot in 0..self.slots.len() {
            self.take_in_all(slot, &mut progress, lend(&mut trace));
        }
        let progress = self.end_turn(progress, trace);
        self.pass_on_to_control();
        progress
    }

    /// The same, but a port with a descriptor is asked only if it is one of `readable`, has frames that it holds itself, or wants
    /// to be asked always.
    pub fn poll_readable(&mut self, now: Time, readable: &[u16]) -> Progress {
        self.serve_control(now);
        let mut progress = self.begin_turn(now);
        for &number in readable {
            if let Some(slot) = self.slot(number) {
                self.readable.insert(slot);
            }
        }
        for slot in 0..self.slots.len() {
            let place = &mut self.slots[slot];
            if place.is_always_polled
                || self.readable.contains(slot)
                || place.port.next_arrival().is_some_and(|at| at <= now)
            {
                self.take_in_all(slot, &mut progress, None);
            }
        }
        self.readable.clear();
        let progress = self.end_turn(progress, None);
        self.pass_on_to_control();
        progress
    }

    /// The same, but looks for frames only on this port: for a caller who knows where one arrived. The traffic manager may keep its
    /// books for later; [`Core::settle`] brings them up to date.
    pub fn poll_port(
        &mut self,
        now: Time,
        number: u16,
        trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        self.poll_ports(now, &[number], trace)
    }

    /// The same on these ports, in this order.
    #[inline]
    pub fn poll_ports(
        &mut self,
        now: Time,
        numbers: &[u16],
        mut trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        let mut progress = self.begin_turn(now);
        if let ([] | [_], None) = (numbers, &trace) {
            return self.go_straight(numbers.first().copied(), progress);
        }
        for &number in numbers {
            if let Some(slot) = self.slot(number) {
                self.take_in(slot, &mut progress, lend(&mut trace));
            }
        }
        self.end_turn(progress, trace)
    }

    /// The same without a look at any port: for a caller who knows that only a timer is due.
    pub fn poll_timers(&mut self, now: Time, trace: Option<&mut dyn TraceSink>) -> Progress {
        self.poll_ports(now, &[], trace)
    }

    #[inline]
    fn begin_turn(&mut self, now: Time) -> Progress {
        self.now = now;
        self.manager.tm.advance(now);
        let handed = if self.crew.is_some() { self.take_handed() } else { 0 };
        self.after_pass();
        self.copies_made = 0;
        if !self.generators.is_empty() && !self.is_busy() {
            self.generate();
        }
        Progress { handed, ..Progress::default() }
    }

    /// One burst of a port, through ingress; nothing while there is no room. Returns how many frames came.
    #[inline]
    fn take_in(
        &mut self,
        slot: usize,
        progress: &mut Progress,
        trace: Option<&mut dyn TraceSink>,
    ) -> usize {
        if self.is_crowded() || self.is_busy() {
            return 0;
        }
        let received = self.ask(slot);
        progress.received += received;
        self.list_received(slot);
        self.run_ingress(true, trace);
        received
    }

    /// The same for a port that obeys pauses, on while bursts are full: what waits in its ring is charged to the buffer, which stops the
    /// peer in time, and a pause that waits behind it is obeyed before more is sent. Pauses of the device's own leave between two bursts.
    #[inline]
    fn take_in_all(
        &mut self,
        slot: usize,
        progress: &mut Progress,
        mut trace: Option<&mut dyn TraceSink>,
    ) {
        for _ in 0..BURSTS_MAX {
            let received = self.take_in(slot, progress, lend(&mut trace));
            if received < BURST_MAX || !self.manager.obeys_pauses(slot) {
                return;
            }
            if !self.active.is_empty() {
                progress.sent += self.send_all();
            }
        }
    }

    /// Packets that go again, and what leaves.
    #[inline]
    fn end_turn(
        &mut self,
        mut progress: Progress,
        mut trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        // What recirculates in egress goes on in the next poll, as what is more than these bursts.
        for _ in 0..BURSTS_AGAIN {
            if self.again.is_empty() {
                break;
            }
            self.take_again();
            self.run_ingress(false, lend(&mut trace));
        }
        progress.sent += self.transmit(trace);
        progress
    }

    /// What has to be done after packets passed the program or the buffer.
    #[inline(always)]
    fn after_pass(&mut self) {
        self.handle_events();
        if let Some(notifier) = &self.device.notifier
            && notifier.next_deadline() <= self.now
        {
            self.send_notices();
        }
    }

    /// When the device has something to do by itself, ports aside: a packet that may leave, a timer
    /// of the buffer. Now ([`Time::ZERO`]) while something waits for nothing but the next poll.
    pub fn next_timer(&mut self) -> Option<Time> {
        let buffer = self.manager.next_deadline();
        self.next_but(buffer)
    }

    /// The same for a caller who asks for counters only after [`Core::settle`]: without the instants at which nothing
    /// happens but that the memory of a frame that has left is free again.
    pub fn next_effect(&mut self) -> Option<Time> {
        let buffer = self.manager.next_effect();
        self.next_but(buffer)
    }

    /// Brings the buffer's counters up to `now`, for a caller who goes by [`Core::next_effect`].
    pub fn settle(&mut self, now: Time) {
        self.now = now;
        self.manager.tm.advance(now);
        self.manager.tm.book(now);
        self.handle_events();
    }

    /// The earliest of the buffer's instant and what else there is to do.
    #[inline]
    fn next_but(&self, buffer: Option<Time>) -> Option<Time> {
        let waits = !self.again.is_empty() || !self.to_cpu.is_empty();
        if waits || self.has_mail() || self.waits_for_egress() {
            return Some(Time::ZERO);
        }
        let notices = self.device.notifier.as_ref().map_or(Time::MAX, Notifier::next_deadline);
        let mut next = buffer.unwrap_or(Time::MAX).min(notices);
        if !self.generators.is_empty() {
            next = next.min(self.next_generated().unwrap_or(Time::MAX));
        }
        (next != Time::MAX).then_some(next)
    }

    /// A packet that leaves at once has not.
    #[inline]
    fn waits_for_egress(&self) -> bool {
        !self.active.is_empty() && self.active.iter().any(|slot| !self.slots[slot].out.is_empty())
    }

    /// True while a port has not taken all that was ready for it.
    pub fn waits_for_room(&self) -> bool {
        self.active.next(0).is_some()
    }

    /// The earliest time at which [`Core::poll`] has something to do: [`Core::next_timer`], or the
    /// next frame of an input with its own time. Not before `now`. `None`: only a new frame of a
    /// live port can change anything.
    pub fn next_event_at(&mut self, now: Time) -> Option<Time> {
        let next = [self.next_timer(), self.next_arrival()].into_iter().flatten().min();
        next.map(|at| at.max(now))
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
        self.again.push_back((packet, Intrinsic { now_ns: now.as_ns(), ..Intrinsic::default() }));
        true
    }

    /// Packets inside: in queues, held, waiting for a port, or for another pass.
    pub fn queued(&self) -> usize {
        let waits: usize = self.active.iter().map(|slot| self.slots[slot].waits()).sum();
        self.again.len() + self.to_cpu.len() + self.manager.queued() + waits + self.handed_waiting()
    }

    /// Lets go of the tables, and passes capture records on, before the worker sleeps.
    pub fn rest(&mut self) {
        self.executor.release();
        self.flush_recording();
    }
}
