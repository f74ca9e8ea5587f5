//! Traces of packets in a live device: which packets, how many, and where their events are sent.
//!
//! A packet that is examined is run by the interpreter; all others are run as usual. The number examined is bounded for
//! each second and worker, so that a trace that waits for a rare packet does not slow down a busy device: a packet is
//! examined if it was received by the right port and has the bytes of every field that the filter compares for
//! equality. Whether the packet meets the filter is decided from the events of its ingress pass. Later passes of a
//! packet that met it are traced too, by whichever worker runs them: a packet is recognised by its ingress port and
//! time and its chunk of packet memory. A reader that is too slow loses traces; no worker waits for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};

use wireyard_pipeline::exec::{Descriptor, PacketPath};
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ir::{Half, Program};
use wireyard_pipeline::trace::{Event, Scope, TraceSink};
use wireyard_tables::time::{Span, Time};

use super::DeviceError;
use super::ports::ingress_of;
use super::sampler::{Sampler, Samples};
use crate::ports::PortNumber;
use crate::sync;

/// Bytes at the start of a packet in which the fields of a filter are searched.
const SEARCHED_BYTES: usize = 256;
/// Maximum number of events kept of a pass.
const EVENTS_MAX: usize = 4096;
/// Number of packets that met the filter and whose later passes are traced, at most.
const FOLLOWED_MAX: usize = 64;
/// Chunks by which copies of such a packet are recognised, at most.
const CHUNKS_MAX: usize = 16;

/// Decides from the events of an ingress pass whether a packet meets the filter.
pub type EventFilter = Arc<dyn Fn(&[Event]) -> bool + Send + Sync>;

/// A pass of a packet that met the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassTrace {
    /// Number of the packet in this trace, from 1; all passes of a packet have the same.
    pub packet: u32,
    /// Ingress or egress.
    pub half: Half,
    /// Events of the pass.
    pub events: Vec<Event>,
}

/// Which packets are traced.
#[derive(Clone)]
pub struct TraceRequest {
    /// The program that the filter refers to; the trace ends with it.
    pub program: Arc<Program>,
    /// Ports whose packets are traced.
    pub scope: Scope,
    /// Byte strings that a packet must contain.
    pub needles: Vec<Vec<u8>>,
    /// Decides from the events of an ingress pass whether a packet is traced.
    pub filter: EventFilter,
    /// Maximum number of packets, of all workers together.
    pub count: u32,
    /// Maximum number of packets that a worker examines in a second.
    pub rate: u32,
}

/// A trace of all workers: what is traced, until when, and the receiver.
#[derive(Clone)]
pub(crate) struct TraceTask {
    /// Which packets are traced.
    pub(crate) request: TraceRequest,
    /// End of the trace, in the device's time.
    pub(crate) until: Time,
    /// Receiver of the passes.
    pub(crate) to: SyncSender<PassTrace>,
    /// State shared by the workers.
    pub(crate) shared: Arc<TraceShared>,
}

/// State shared by the workers of a trace.
#[derive(Debug, Default)]
pub struct TraceShared {
    /// Tracing is over: the reader was dropped.
    pub over: AtomicBool,
    /// Packets that were not examined, because the rate was reached or another worker used the list.
    pub skipped: AtomicU64,
    /// Passes for which the reader had no room, or at whose end another worker used the list.
    pub lost: AtomicU64,
    followed: Mutex<Followed>,
}

impl TraceShared {
    /// The list of packets that met the filter; `None` while another worker uses it.
    fn followed(&self) -> Option<MutexGuard<'_, Followed>> {
        sync::lock_soon(&self.followed)
    }
}

/// Packets that met the filter.
#[derive(Debug, Default)]
struct Followed {
    /// Their number so far.
    count: u32,
    /// The latest of them.
    packets: VecDeque<FollowedPacket>,
}

#[derive(Debug)]
struct FollowedPacket {
    number: u32,
    received: (PortNumber, u64),
    chunks: Vec<u32>,
}

impl Followed {
    fn find(&mut self, packet: &Descriptor) -> Option<&mut FollowedPacket> {
        let (received, chunk) = (received(packet), chunk(packet)?);
        self.packets.iter_mut().find(|one| one.received == received && one.chunks.contains(&chunk))
    }

    /// Adds a packet; returns its number.
    fn add(&mut self, packet: &Descriptor, chunks: Vec<u32>) -> u32 {
        self.count += 1;
        if self.packets.len() == FOLLOWED_MAX {
            self.packets.pop_front();
        }
        let (number, received) = (self.count, received(packet));
        self.packets.push_back(FollowedPacket { number, received, chunks });
        number
    }
}

fn received(packet: &Descriptor) -> (PortNumber, u64) {
    (ingress_of(packet), packet.ingress_ns)
}

fn chunk(packet: &Descriptor) -> Option<u32> {
    packet.buf.as_ref().map(|buf| buf.index())
}

/// Where the events of packets on a worker are sent.
pub(super) enum Look {
    /// A trace.
    Trace(LiveTrace),
    /// Sampling, until a trace begins.
    Samples(Sampler),
}

impl Look {
    /// Begins another poll; false if tracing has ended.
    pub(super) fn begin(&mut self, now: Time, generation: Option<u16>) -> bool {
        match self {
            Look::Trace(trace) => trace.begin(now, generation),
            Look::Samples(sampler) => sampler.begin(now, generation),
        }
    }

    /// Where the events of this poll are sent.
    pub(super) fn sink(&mut self) -> &mut dyn TraceSink {
        match self {
            Look::Trace(trace) => trace,
            Look::Samples(sampler) => sampler,
        }
    }
}

/// A worker's traces, with the program that new packets run.
pub(crate) struct Tracing<'a> {
    pub(super) look: &'a mut Option<Box<Look>>,
    pub(super) generation: Option<&'a Arc<Generation>>,
}

impl Tracing<'_> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Another trace is in progress, or the program was replaced.
    pub(crate) fn start(self, task: TraceTask, now: Time) -> Result<(), DeviceError> {
        let id = self.untraced(&task.request.program, now)?;
        *self.look = Some(Box::new(Look::Trace(LiveTrace::new(task, id, now))));
        Ok(())
    }

    /// Samples into `samples` for some seconds from now on, or extends that.
    ///
    /// # Errors
    /// A trace is in progress, or the program was replaced.
    pub(crate) fn sample(self, samples: &Arc<Samples>, now: Time) -> Result<(), DeviceError> {
        let id = self.untraced(samples.source(), now)?;
        if let Some(Look::Samples(sampler)) = self.look.as_deref_mut()
            && sampler.extend(samples, now)
        {
            return Ok(());
        }
        let sampler = Sampler::new(Arc::clone(samples), id, now);
        *self.look = Some(Box::new(Look::Samples(sampler)));
        Ok(())
    }

    /// The id of the generation of this program, which must be the running one; an error while a trace is in progress.
    fn untraced(&self, program: &Arc<Program>, now: Time) -> Result<u16, DeviceError> {
        let current = self.generation.filter(|current| Arc::ptr_eq(&current.program, program));
        let id = current.ok_or(DeviceError::ProgramReplaced)?.id;
        match self.look.as_deref() {
            Some(Look::Trace(trace)) if trace.goes_on(now, Some(id)) => Err(DeviceError::Traced),
            _ => Ok(id),
        }
    }
}

/// A worker's part of a trace.
pub(super) struct LiveTrace {
    task: TraceTask,
    /// The generation number that packets carry.
    generation: u16,
    is_over: bool,
    /// Packets that may still be examined in this second, and when it began.
    looks: u32,
    since: Time,
    pass: TracedPass,
}

/// The pass in progress.
#[derive(Default)]
struct TracedPass {
    half: Half,
    /// The packet's chunk when the pass began.
    chunk: Option<u32>,
    /// The packet's number, if it met the filter before.
    number: Option<u32>,
    events: Vec<Event>,
}

impl LiveTrace {
    fn new(task: TraceTask, generation: u16, now: Time) -> LiveTrace {
        let (looks, pass) = (task.request.rate, TracedPass::default());
        LiveTrace { task, generation, is_over: false, looks, since: now, pass }
    }

    /// Begins another poll; false if the trace has ended.
    fn begin(&mut self, now: Time, generation: Option<u16>) -> bool {
        if now.since(self.since) >= Span::from_ms(1000) {
            (self.since, self.looks) = (now, self.task.request.rate);
        }
        self.goes_on(now, generation)
    }

    /// False if the trace has ended.
    fn goes_on(&self, now: Time, generation: Option<u16>) -> bool {
        let is_same = generation == Some(self.generation);
        let is_over = self.is_over || self.task.shared.over.load(Ordering::Relaxed);
        is_same && !is_over && now < self.task.until
    }

    fn has_needles(&self, bytes: &[u8]) -> bool {
        let bytes = &bytes[..bytes.len().min(SEARCHED_BYTES)];
        let has = |needle: &Vec<u8>| bytes.windows(needle.len()).any(|some| some == &needle[..]);
        self.task.request.needles.iter().all(has)
    }

    /// True if a packet that was not traced before is to be examined.
    fn looks_at(&mut self, bytes: &[u8]) -> bool {
        let shared = &self.task.shared;
        if !self.has_needles(bytes) {
            return false;
        }
        let count = shared.followed().map(|followed| followed.count);
        if count.is_some_and(|count| count >= self.task.request.count) {
            return false;
        }
        if count.is_none() || self.looks == 0 {
            shared.skipped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.looks -= 1;
        true
    }

    /// The number of a packet that met the filter in an earlier pass.
    fn followed_number(&self, packet: &Descriptor) -> Option<u32> {
        let Some(mut followed) = self.task.shared.followed() else {
            self.task.shared.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        followed.find(packet).map(|known| known.number)
    }

    /// The number of the packet whose pass ended, if it is traced.
    fn number(&self, packet: &Descriptor) -> Option<u32> {
        // The filter runs before the list is taken, which other workers use too.
        let is_known = self.pass.number.is_some();
        if !is_known && !(self.task.request.filter)(&self.pass.events) {
            return None;
        }
        let Some(mut followed) = self.task.shared.followed() else {
            self.task.shared.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let chunks = || self.pass.chunk.into_iter().chain(chunk(packet));
        if let Some(number) = self.pass.number {
            let known = followed.packets.iter_mut().find(|one| one.number == number);
            let known = known.filter(|one| one.chunks.len() < CHUNKS_MAX);
            known.into_iter().for_each(|one| one.chunks.extend(chunk(packet)));
            return Some(number);
        }
        let has_room = followed.count < self.task.request.count;
        has_room.then(|| followed.add(packet, chunks().collect()))
    }
}

impl TraceSink for LiveTrace {
    fn scope(&self) -> Scope {
        self.task.request.scope
    }

    fn wants(&mut self, packet: &Descriptor, bytes: &[u8], half: Half) -> bool {
        const AGAIN: [u8; 2] = [PacketPath::Resubmit as u8, PacketPath::Recirculate as u8];
        if packet.generation != self.generation {
            return false;
        }
        let number = match half == Half::Egress || AGAIN.contains(&packet.path) {
            true => self.followed_number(packet),
            false => None,
        };
        let is_wanted = number.is_some() || (half == Half::Ingress && self.looks_at(bytes));
        if is_wanted {
            self.pass = TracedPass { half, chunk: chunk(packet), number, events: Vec::new() };
        }
        is_wanted
    }

    fn event(&mut self, event: Event) {
        if self.pass.events.len() < EVENTS_MAX {
            self.pass.events.push(event);
        }
    }

    fn end(&mut self, packet: &Descriptor) {
        let Some(number) = self.number(packet) else { return };
        let events = std::mem::take(&mut self.pass.events);
        let pass = PassTrace { packet: number, half: self.pass.half, events };
        match self.task.to.try_send(pass) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.task.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => self.is_over = true,
        }
    }
}
