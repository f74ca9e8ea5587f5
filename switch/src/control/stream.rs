//! What a device says by itself: digests, punted packets, idle entries and events of all its workers.
//!
//! Each subscription has a bounded ring from each worker. A worker that finds no room counts what is lost and goes on, so a
//! slow reader delays no packet. What one worker says comes in its order; between workers there is none.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use wireyard_pipeline::ids::TableId;
use wireyard_pipeline::ir::Program;
use wireyard_tables::time::Time;

use super::{Control, ControlError, TableEntry, lock};
use crate::core::PuntedPacket;
use crate::device::DigestMessage;
use crate::ports::LinkState;

/// What a subscription is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Digests of the program.
    pub digests: bool,
    /// Packets to the CPU port.
    pub packets: bool,
    /// Entries that no packet hit for their idle timeout.
    pub idle: bool,
    /// Links, pause storms, programs.
    pub events: bool,
}

impl Interest {
    /// Everything.
    pub const ALL: Interest = Interest { digests: true, packets: true, idle: true, events: true };

    fn wants(self, said: &Said) -> bool {
        match said {
            Said::Digest(_) => self.digests,
            Said::Packet(_) => self.packets,
            Said::Idle(_) => self.idle,
            Said::Event(_) => self.events,
        }
    }
}

/// An entry that no packet hit for its idle timeout.
#[derive(Clone, Debug)]
pub struct IdleNotice {
    /// The program with the table.
    pub program: Arc<Program>,
    /// The table.
    pub table: TableId,
    /// The entry, without what is counted beside it.
    pub entry: TableEntry,
    /// The device has removed it (`on_idle: remove`); otherwise it is there.
    pub removed: bool,
}

/// Something that happened to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// A link changed.
    Link {
        /// Its port.
        port: u16,
        /// What it is now.
        state: LinkState,
    },
    /// A peer keeps a queue paused for longer than its watchdog allows, or does so no more.
    PauseStorm {
        /// The port; `None` is the CPU port.
        port: Option<u16>,
        /// The queue.
        queue: u8,
        /// It is over.
        over: bool,
    },
    /// New packets of this worker meet another program from now on.
    Program {
        /// Its name.
        name: String,
    },
}

/// What was said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Said {
    /// A digest, with the program that its id is of.
    Digest(DigestMessage),
    /// A packet to the CPU port, as egress left it: with the headers that the program put in front for control.
    Packet(PuntedPacket),
    /// An entry is idle.
    Idle(IdleNotice),
    /// Something happened.
    Event(DeviceEvent),
}

/// What a worker said, and when.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The worker.
    pub worker: usize,
    /// The device's time.
    pub time: Time,
    /// What it said.
    pub said: Said,
}

/// Wakes a reader that waits.
#[derive(Default)]
struct Signal {
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn wait_by(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
        self.waits.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either the reader sees what was pushed, or who pushed sees that it waits.
        fence(Ordering::SeqCst);
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed) {
            let waker = lock(&self.waker).take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// A worker's end of a subscription.
pub(crate) struct Subscriber {
    interest: Interest,
    ring: Producer<Notice>,
    lost: Arc<AtomicU64>,
    signal: Arc<Signal>,
}

impl Subscriber {
    pub(super) fn interest(&self) -> Interest {
        self.interest
    }

    pub(super) fn is_gone(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Passes on what this subscription is about, and wakes its reader.
    pub(super) fn deliver(&mut self, notices: &[Notice]) {
        let interest = self.interest;
        let mut wanted = notices.iter().filter(|notice| interest.wants(&notice.said)).peekable();
        if wanted.peek().is_none() {
            return;
        }
        for notice in wanted {
            if self.ring.push(notice.clone()).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.signal.wake();
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        // The reader may wait for what never comes. The ring is abandoned when this is dropped: the reader looks again in a while.
        self.signal.wake();
    }
}

/// What a device says from now on, of all its workers. Read it with [`Stream::next`] in a thread, or with
/// [`Stream::poll_next`] in a task.
pub struct Stream {
    rings: Vec<Consumer<Notice>>,
    /// The ring that is looked at first.
    first: usize,
    lost: Arc<AtomicU64>,
    signal: Arc<Signal>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// Wakes a thread that waits here.
#[derive(Default)]
struct WakeFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_set) = true;
        self.changed.notify_all();
    }
}

impl WakeFlag {
    /// Waits until it is set; false: nobody did within `patience`.
    fn wait(&self, patience: Duration) -> bool {
        let is_set = lock(&self.is_set);
        let waited = self.changed.wait_timeout_while(is_set, patience, |is_set| !*is_set);
        let (mut is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *is_set)
    }
}

/// The longest that a reader sleeps before it looks whether the device has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Stream {
    /// What was said and not read yet.
    pub fn try_next(&mut self) -> Option<Notice> {
        let rings = self.rings.len();
        for n in 0..rings {
            let at = (self.first + n) % rings;
            if let Ok(notice) = self.rings[at].pop() {
                self.first = (at + 1) % rings;
                return Some(notice);
            }
        }
        None
    }

    /// The next that is said within `patience`; `None` if nothing is, or the device has ended.
    pub fn next(&mut self, patience: Duration) -> Option<Notice> {
        let flag = Arc::<WakeFlag>::default();
        let waker = Waker::from(Arc::clone(&flag));
        let mut left = patience;
        loop {
            self.signal.wait_by(&waker);
            if let Some(notice) = self.try_next() {
                return Some(notice);
            }
            if left.is_zero() || self.has_ended() {
                return None;
            }
            let wait = left.min(LOOK_EVERY);
            if !flag.wait(wait) {
                left -= wait;
            }
        }
    }

    /// The next that is said, for a task: `Ready(None)` when the device has ended.
    pub fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        let stream = self.get_mut();
        stream.signal.wait_by(cx.waker());
        match stream.try_next() {
            Some(notice) => Poll::Ready(Some(notice)),
            None if stream.has_ended() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// How much was lost because this was not read in time.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// No worker will say anything more.
    pub fn has_ended(&self) -> bool {
        self.rings.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }
}

impl Control {
    /// What the device says from now on, of which `capacity` of each worker wait at most. It begins when the workers are polled next.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: the device has ended.
    pub fn subscribe(&self, interest: Interest, capacity: usize) -> Result<Stream, ControlError> {
        let (lost, signal) = (Arc::<AtomicU64>::default(), Arc::<Signal>::default());
        let mut rings = Vec::new();
        for worker in 0..self.workers() {
            let (ring, consumer) = RingBuffer::new(capacity.max(1));
            let (lost, signal) = (Arc::clone(&lost), Arc::clone(&signal));
            let subscriber = Subscriber { interest, ring, lost, signal };
            self.post(worker, move |core, _| core.subscribe_control(subscriber))?;
            rings.push(consumer);
        }
        Ok(Stream { rings, first: 0, lost, signal })
    }
}
