//! The device: the one place that orders receive, ingress, replication, queue, egress and transmit.
//!
//! [`Core::poll`] moves what is there now and returns; it never waits and reads no clock. A live switch calls it in a
//! loop with the time of day, the laboratory with virtual time. The path of a packet:
//!
//! ```text
//! ports rx -> receive (MAC control ends here, pause) -> ingress -> verdict
//!          -> dispatch (drop, punt, resubmit, unicast, multicast, mirror)
//!          -> manager (the traffic manager: class, admission, queue, scheduler, mark)
//!          -> egress -> ports tx
//! ```
//!
//! Each part owns its fields, with methods of its own in a file of its name: ports, ingress (`receive`), manager,
//! egress, outcomes. The core decides nothing about headers (the program does) and nothing about marking or pausing
//! (the traffic manager does). Every packet it owns is counted in the [`stats`](crate::stats) ledger.

mod backlog;
mod bounds;
mod cuts;
mod dispatch;
mod egress;
mod entry_counters;
mod error;
mod full_tables;
mod generate;
mod handover;
mod idle;
mod links;
pub(crate) mod live_trace;
mod manager;
mod merge;
mod mesh;
mod message;
pub(crate) mod notice;
mod originate;
mod outcomes;
mod ports;
mod program_report;
mod queues;
mod receive;
mod record;
mod sampler;
pub(crate) mod signal;
mod slot;
mod statistics;
mod trim;
pub(crate) mod worker_link;

/// Synchronisation types of `signal`; `tests/models` substitutes others.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
    pub(super) use std::sync::{Mutex, PoisonError, TryLockError};
}

use std::sync::Arc;

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::generation::{Executor, Generation};
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::{Deadline, Time};

use crate::device::DeviceState;
use crate::frames::Frames;
use crate::ports::PortNumber;
use crate::replicate::ReplicationReader;
use crate::stats::LedgerReport;
use crate::tm::{PortStatus, View};

pub use bounds::PASSES_MAX;
use bounds::{BURSTS_AGAIN, Copies};
use dispatch::Pass;
use egress::Egress;
pub(crate) use entry_counters::match_text;
pub use entry_counters::{EntriesShown, EntryReport, NoEntriesShown, TableEntries};
pub use error::DeviceError;
use full_tables::FullTables;
pub use generate::{Generator, Generators};
pub use idle::IdleEntry;
use idle::IdleWatch;
pub use live_trace::{EventFilter, PassTrace, TraceRequest, TraceShared};
use live_trace::{Look, Tracing};
pub use manager::Manager;
pub(crate) use mesh::UNCHARGED_MAX;
pub use mesh::{Mesh, WORKERS_MAX};
pub use message::{Message, Topic};
use notice::{DeviceEvent, NoticeKind};
pub use originate::MacControlPolicy;
pub use outcomes::{DroppedPacket, Outcomes, PuntedPacket};
pub use ports::Ports;
pub use program_report::{CellReport, ProgramReport, TableReport};
pub use queues::{
    GroupReport, NotificationReport, PauseReport, PoolReport, PortQueues, QueueReport,
    QueueingReport,
};
use receive::Ingress;
pub use receive::Progress;
use record::{Captures, Recording};
pub use sampler::Samples;
pub use slot::{PortPlace, PortReport, PortState};
pub use statistics::Statistics;
pub use trim::StandIn;
use worker_link::{BETWEEN_BURSTS, Subscriber, WorkerLink};

/// Reborrows the sink for a shorter lifetime.
fn reborrow<'a>(trace: &'a mut Option<&mut dyn TraceSink>) -> Option<&'a mut dyn TraceSink> {
    match trace {
        Some(sink) => Some(&mut **sink),
        None => None,
    }
}

/// A device with one worker, or one worker of a device ([`Core::mesh`]): parts that own their fields, and the order in
/// which they work.
///
/// Fields that every packet uses come first, together: where many devices share a thread, little of each stays in the
/// cache.
#[repr(C, align(64))]
pub struct Core {
    /// Time of the current call.
    now: Time,
    /// Handling of received PAUSE and PFC frames.
    pub mac_control: MacControlPolicy,
    /// A second number of the CPU port (`--cpu-port`), where a program defines one: packets sent to it go to the
    /// control plane, and packets from the control plane have it as their ingress port.
    pub cpu_port: PortNumber,
    /// Marks and trims that a test applies before egress in place of the traffic manager.
    pub stand_in: StandIn,
    ports: Ports,
    ingress: Ingress,
    mem: PacketMemory,
    executor: Executor,
    /// Digests and calls of externs.
    pub device: DeviceState,
    /// Buffer, queues, schedulers, flow control.
    manager: Manager,
    egress: Egress,
    /// The rings to the other workers of the device, if there are any; to be set before ports are added.
    pub(crate) mesh: Mesh,
    /// Commands from the control handle, and notices to it; `None` for a device made without a handle.
    pub(crate) control: Option<Box<WorkerLink>>,
    copies: Copies,
    /// Multicast groups and mirror sessions.
    pub replication: ReplicationReader,
    /// Builders and readers of the device's own frames.
    frames: Arc<Frames>,
    outcomes: Outcomes,
    /// Capture files.
    recording: Recording,
    /// A live trace or packet sampling that control requested.
    live_trace: Option<Box<Look>>,
    idle: IdleWatch,
    full_tables: FullTables,
}

impl Core {
    /// A device without ports; `executor` runs its program.
    pub fn new(mem: PacketMemory, executor: Executor) -> Core {
        let mut outcomes = Outcomes::default();
        let manager = Manager::plain(mem.config().chunks, &mut outcomes.reasons);
        Core {
            now: Time::ZERO,
            mac_control: MacControlPolicy::default(),
            cpu_port: PortNumber(CPU_PORT),
            stand_in: StandIn::default(),
            ports: Ports::default(),
            ingress: Ingress::default(),
            mem,
            executor,
            device: DeviceState::default(),
            manager,
            egress: Egress::default(),
            mesh: Mesh::default(),
            control: None,
            copies: Copies::default(),
            replication: ReplicationReader::default(),
            frames: Frames::shared().unwrap_or_else(|why| unreachable!("tested: {why}")),
            outcomes,
            recording: Recording::default(),
            live_trace: None,
            idle: IdleWatch::default(),
            full_tables: FullTables::default(),
        }
    }

    /// The generation that runs new packets.
    pub fn generation(&self) -> Option<&Arc<Generation>> {
        self.executor.current()
    }

    /// The ports: their links, ledgers and messages.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The ports, to change their settings and to take their messages.
    pub fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }

    /// The rings to the other workers.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The generators of frames. Frames for a port that does not exist are not generated.
    pub fn generators(&mut self) -> &mut Generators {
        &mut self.ingress.generators
    }

    /// Live traces and samples of the program that new packets run, which is the newest from now on.
    pub(crate) fn tracing(&mut self) -> Tracing<'_> {
        self.refresh_program();
        Tracing { look: &mut self.live_trace, generation: self.executor.current() }
    }

    /// The recording of ports into capture files.
    pub(crate) fn captures(&mut self) -> Captures<'_> {
        Captures { ports: &mut self.ports, files: &mut self.recording }
    }

    /// Names of reasons, and packets that callers collect.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// The same, to collect and take packets.
    pub fn outcomes_mut(&mut self) -> &mut Outcomes {
        &mut self.outcomes
    }

    /// The traffic manager as it was last accounted: its settings and its queued packets. Counters are those of
    /// [`Core::view`].
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The traffic manager, for callers that observe or change its congestion points.
    pub fn manager_mut(&mut self) -> &mut Manager {
        &mut self.manager
    }

    /// The packet memory, for ports whose frames the caller provides.
    pub fn memory(&mut self) -> &mut PacketMemory {
        &mut self.mem
    }

    /// Moves everything that is there now, at most one burst from each port. `now` is counted from the start of the
    /// device, and does not go back from one call to the next. Errors of ports are among [`Ports::take_messages`].
    pub fn poll(&mut self, now: Time, mut trace: Option<&mut dyn TraceSink>) -> Progress {
        self.serve_control(now);
        let mut progress = self.begin_poll(now);
        let slots = self.ports.len();
        for slot in 0..slots {
            self.receive_all(slot, slot + 1 == slots, &mut progress, reborrow(&mut trace));
        }
        let progress = self.end_poll(progress, trace);
        self.pass_on_to_control();
        progress
    }

    /// Like [`Core::poll`], but polls a port with a descriptor only if it is in `readable`, holds frames itself, or
    /// must be polled always.
    pub fn poll_readable(&mut self, now: Time, readable: &[PortNumber]) -> Progress {
        self.serve_control(now);
        match self.live_trace.is_none() {
            true => self.poll_these(now, readable, None),
            false => self.poll_traced(now, readable),
        }
    }

    #[cold]
    fn poll_traced(&mut self, now: Time, readable: &[PortNumber]) -> Progress {
        self.refresh_program();
        let id = self.generation().map(|generation| generation.id);
        let mut look = self.live_trace.take();
        if !look.as_mut().is_some_and(|look| look.begin(now, id)) {
            return self.poll_these(now, readable, None);
        }
        let sink = look.as_mut().map(|look| look.sink());
        let progress = self.poll_these(now, readable, sink);
        self.live_trace = look;
        progress
    }

    #[inline]
    fn poll_these(
        &mut self,
        now: Time,
        readable: &[PortNumber],
        mut trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        let mut progress = self.begin_poll(now);
        for &number in readable {
            if let Some(slot) = self.ports.find(number) {
                self.ports.readable.insert(slot);
            }
        }
        for slot in 0..self.ports.len() {
            if self.ports.is_polled(slot, now) {
                self.receive_all(slot, false, &mut progress, reborrow(&mut trace));
            }
        }
        self.ports.readable.clear();
        let progress = self.end_poll(progress, trace);
        self.pass_on_to_control();
        progress
    }

    /// Like [`Core::poll`], but receives on these ports only, in this order, and serves no commands: for a caller that
    /// has determined where frames arrived.
    #[inline]
    pub fn poll_ports(
        &mut self,
        now: Time,
        numbers: &[PortNumber],
        mut trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        let mut progress = self.begin_poll(now);
        for (index, &number) in numbers.iter().enumerate() {
            if let Some(slot) = self.ports.find(number) {
                let is_last = index + 1 == numbers.len();
                self.receive(slot, is_last, &mut progress, reborrow(&mut trace));
            }
        }
        self.end_poll(progress, trace)
    }

    /// Does only what timers make due and receives on no port.
    pub fn poll_timers(&mut self, now: Time, trace: Option<&mut dyn TraceSink>) -> Progress {
        self.poll_ports(now, &[], trace)
    }

    #[inline]
    fn begin_poll(&mut self, now: Time) -> Progress {
        self.now = now;
        self.manager.tm.advance(now);
        let handed = if self.mesh.is_shared() { self.take_handed() } else { 0 };
        self.after_pass();
        self.copies.made = 0;
        let is_busy = self.copies.are_enough(self.ingress.again.len());
        if !self.ingress.generators.is_empty() && !is_busy {
            self.generate();
        }
        Progress { handed, ..Progress::default() }
    }

    /// Runs packets that go through ingress again, then transmits.
    #[inline]
    fn end_poll(
        &mut self,
        mut progress: Progress,
        mut trace: Option<&mut dyn TraceSink>,
    ) -> Progress {
        // Packets that egress recirculates wait for the next poll, as do those beyond these bursts.
        let has_departed = std::mem::take(&mut self.ingress.has_departed);
        for _ in 0..BURSTS_AGAIN {
            if has_departed || self.ingress.again.is_empty() {
                break;
            }
            self.ingress.take_again();
            self.run_ingress(Pass::Again, reborrow(&mut trace));
        }
        progress.sent += self.transmit(trace);
        progress
    }

    /// Handles events of the traffic manager and sends due notices, after packets passed the program or the buffer.
    #[inline(always)]
    fn after_pass(&mut self) {
        self.handle_events();
        if let Some(notifier) = &self.device.notifier
            && notifier.next_deadline().is_by(self.now)
        {
            self.send_notices();
        }
    }

    /// Executes pending commands of control. [`Core::poll`] and [`Core::poll_readable`] do this first.
    #[inline]
    pub fn serve_control(&mut self, now: Time) {
        if self.control.as_ref().is_some_and(|link| link.polled(now)) {
            self.serve_commands(now);
        }
    }

    #[cold]
    fn serve_commands(&mut self, now: Time) {
        self.now = now;
        self.manager.tm.advance(now);
        for _ in 0..BETWEEN_BURSTS {
            let Some(command) = self.control.as_mut().and_then(|link| link.next()) else { return };
            command(self, now);
        }
    }

    /// Adds a subscription to the notices of this worker, which collects what it includes.
    pub(crate) fn subscribe_control(&mut self, subscriber: Subscriber) {
        let Some(link) = &mut self.control else { return };
        link.subscribe(subscriber);
        link.listen(&mut self.device, &mut self.outcomes);
    }

    /// Sends a notice to the subscribers.
    fn notify(&mut self, kind: NoticeKind) {
        if let Some(link) = &mut self.control {
            link.notify(self.now, kind);
        }
    }

    /// Reports an event in the messages and to the subscribers.
    fn report_event(&mut self, event: DeviceEvent, text: String) {
        self.ports.messages.push(Message::new(Topic::Event(event.clone()), text));
        self.notify(NoticeKind::Event(event));
    }

    /// Passes the digests and punted packets since the last call to the subscribers.
    #[inline]
    fn pass_on_to_control(&mut self) {
        if let Some(link) = &mut self.control
            && link.has_subscribers()
        {
            link.pass_on(self.now, &mut self.device, &mut self.outcomes);
        }
    }

    /// Changes to a new program now, if there is one.
    pub(crate) fn refresh_program(&mut self) {
        let known = self.executor.current().map(|generation| generation.id);
        self.executor.refresh();
        if let Some(generation) = self.executor.current().filter(|new| Some(new.id) != known) {
            let name = generation.program.name.clone();
            self.notify(NoticeKind::Event(DeviceEvent::Program { name }));
        }
    }

    /// When the device has work that no frame from a port causes: a packet that may leave, a timer of the buffer.
    pub fn next_timer(&mut self) -> Deadline {
        let buffer = self.manager.next_deadline();
        self.next_but(buffer)
    }

    /// Like [`Core::next_timer`], without the instants that only free the memory of frames already sent.
    pub fn next_effect(&mut self) -> Deadline {
        let buffer = self.manager.next_effect();
        self.next_but(buffer)
    }

    /// Time of the last call.
    pub fn time(&self) -> Time {
        self.now
    }

    /// The ledger with names of reasons, and whether it balances.
    pub fn report(&self) -> LedgerReport {
        LedgerReport::new(&self.ports.ledger(), &self.outcomes.reasons, self.queued() as u64)
    }

    /// Number of packets inside: in queues, held, waiting for a port, or for another pass.
    pub fn queued(&self) -> usize {
        let passes = self.ingress.again.len() + self.egress.departing.len();
        passes + self.manager.queued() + self.ports.waiting() + self.mesh.waiting()
    }

    /// The traffic manager at `now`: counters, watermarks, waits between ports.
    pub fn view(&mut self, now: Time) -> View<'_, Descriptor> {
        self.sync(now);
        self.manager.tm.view(now)
    }

    /// The traffic manager's counters of a port; `None` when there is no such port.
    pub fn port_status(&mut self, number: PortNumber) -> Option<PortStatus> {
        let id = self.ports.traffic_port(number)?;
        self.view(self.now).port(id)
    }

    /// Does what is due by `now` in the buffer and nowhere else: frees the memory of frames that have left, ends
    /// pauses.
    pub fn sync(&mut self, now: Time) {
        self.now = now;
        self.manager.tm.view(now);
        self.handle_events();
    }

    /// The earliest of `buffer` and the device's other deadlines.
    #[inline]
    fn next_but(&self, buffer: Deadline) -> Deadline {
        let waits = !self.ingress.again.is_empty() || !self.egress.departing.is_empty();
        if waits || self.mesh.has_pending() {
            return Deadline::NOW;
        }
        let mut next = buffer;
        if let Some(notifier) = &self.device.notifier {
            next = next.min(notifier.next_deadline());
        }
        next.min(self.ingress.generators.next().into())
    }

    /// The earliest time at which [`Core::poll`] has work: [`Core::next_timer`], or the next frame of an input with its
    /// own time. Not before `now`. `None`: only a new frame of a live port can change anything.
    pub fn next_event_at(&mut self, now: Time) -> Option<Time> {
        let next = self.next_timer().min(self.ports.next_arrival().into());
        next.not_before(now).instant()
    }
}
