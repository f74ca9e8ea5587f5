//! Notices of a device: digests, punted packets, idle entries and events of all its workers.
//!
//! Each subscription has a bounded ring from each worker. A worker that finds no room counts the lost notices and
//! continues, so a slow reader delays no packet. The notices of one worker are in order; between workers there is no
//! order.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rtrb::Consumer;

use super::{Control, ControlError, TableEntry, Update, plan};
use crate::core::notice::{IdleNotice, Interest, Notice};
use crate::core::signal::Signal;
use crate::core::worker_link::Subscriber;

/// The notices of a device from the subscription on, of all its workers. Read it with [`Stream::next`] in a thread, or
/// with [`Stream::poll_next`] in a task.
pub struct Stream {
    rings: Vec<Consumer<Notice>>,
    /// The ring that is read first.
    first: usize,
    lost: Arc<AtomicU64>,
    signal: Arc<Signal>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// Wakes a thread that is parked here, without a lock: the worker that wakes it does not wait for it.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Longest sleep of a reader before it checks whether the device has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Stream {
    /// The next notice, without waiting; `None` if there is none.
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

    /// The next notice; `None` if none arrives within `timeout`, or the device has ended.
    pub fn next(&mut self, timeout: Duration) -> Option<Notice> {
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        let deadline = Instant::now().checked_add(timeout);
        loop {
            self.signal.wait_by(&waker);
            if let Some(notice) = self.try_next() {
                return Some(notice);
            }
            let left =
                deadline.map_or(LOOK_EVERY, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() || self.has_ended() {
                return None;
            }
            // A wake for an earlier wait may end this one early.
            thread::park_timeout(left.min(LOOK_EVERY));
        }
    }

    /// The next notice, for a task: `Ready(None)` when the device has ended.
    pub fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        let stream = self.get_mut();
        stream.signal.wait_by(cx.waker());
        match stream.try_next() {
            Some(notice) => Poll::Ready(Some(notice)),
            None if stream.has_ended() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Number of notices lost because they were not read in time.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// True if no more notices will come.
    pub fn has_ended(&self) -> bool {
        self.rings.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }
}

impl IdleNotice {
    /// The entry, without its counter and meter.
    pub fn entry(&self) -> TableEntry {
        plan::idle_entry(&self.program, self.idle.table, self.idle.entry.clone())
    }

    /// Objects removed together with it, as updates.
    pub(crate) fn released(&self) -> Vec<Update> {
        let released = self.idle.released.iter();
        released.flat_map(|(of, one)| plan::released(&self.program, *of, one)).collect()
    }
}

impl Control {
    /// Subscribes to notices of the device, of which at most `capacity` of each worker wait. They begin with the next
    /// poll of the workers.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: the device has ended.
    pub fn subscribe(&self, interest: Interest, capacity: usize) -> Result<Stream, ControlError> {
        let (lost, signal) = (Arc::<AtomicU64>::default(), Arc::<Signal>::default());
        let mut rings = Vec::new();
        for worker in 0..self.workers() {
            let (lost, signal) = (Arc::clone(&lost), Arc::clone(&signal));
            let (subscriber, consumer) = Subscriber::new(interest, capacity, lost, signal);
            self.post(worker, move |core, _| core.subscribe_control(subscriber))?;
            rings.push(consumer);
        }
        Ok(Stream { rings, first: 0, lost, signal })
    }
}
