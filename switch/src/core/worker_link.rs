//! A worker's part of the control of its device: commands arrive in a bounded ring, which the worker empties between
//! two bursts, and its notices leave by one ring for each reader.
//!
//! The other ends are in [`control`](crate::control). The worker does not use the handle: it stores one for callers
//! that get it from the device.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rtrb::{Consumer, Producer, RingBuffer};
use wireyard_tables::time::Time;

use super::notice::{Interest, Notice, NoticeKind};
use super::signal::Signal;
use super::{Core, Outcomes};
use crate::device::DeviceState;

/// Maximum number of commands that wait for a worker.
pub(crate) const RING: usize = 64;
/// Maximum number of commands that a worker executes between two bursts.
pub(super) const BETWEEN_BURSTS: usize = 4;

/// A call that a worker executes between two bursts.
pub(crate) type Command = Box<dyn FnOnce(&mut Core, Time) + Send>;
type Wake = Box<dyn Fn() + Send + Sync>;

/// The worker's end of its ring.
pub(crate) struct Ring {
    commands: Consumer<Command>,
    /// The device's time at the worker's last poll, in picoseconds.
    polled_ps: Arc<AtomicU64>,
    wake: Arc<OnceLock<Wake>>,
}

/// The sender's end of a worker's ring.
pub(crate) struct Sender {
    pub(crate) commands: Mutex<Producer<Command>>,
    polled_ps: Arc<AtomicU64>,
    /// Wakes the worker, where it sleeps.
    wake: Arc<OnceLock<Wake>>,
}

/// A ring of commands.
pub(crate) fn ring() -> (Sender, Ring) {
    let (producer, commands) = RingBuffer::new(RING);
    let (polled_ps, wake) = (Arc::<AtomicU64>::default(), Arc::<OnceLock<Wake>>::default());
    let sender = Sender {
        commands: Mutex::new(producer),
        polled_ps: Arc::clone(&polled_ps),
        wake: Arc::clone(&wake),
    };
    (sender, Ring { commands, polled_ps, wake })
}

impl Sender {
    /// The time of the device at the worker's last poll.
    pub(crate) fn now(&self) -> Time {
        Time::from_ps(self.polled_ps.load(Ordering::Relaxed))
    }

    /// Wakes the worker so that it checks its ring.
    pub(crate) fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
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
    /// A subscription to these kinds, with room for `capacity` notices, and the other end of its ring. Notices without
    /// room are counted in `lost`.
    pub(crate) fn new(
        interest: Interest,
        capacity: usize,
        lost: Arc<AtomicU64>,
        signal: Arc<Signal>,
    ) -> (Subscriber, Consumer<Notice>) {
        let (ring, consumer) = RingBuffer::new(capacity.max(1));
        (Subscriber { interest, ring, lost, signal }, consumer)
    }

    fn is_gone(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Sends the notices that this subscription includes, and wakes its reader.
    fn deliver(&mut self, notices: &[Notice]) {
        let interest = self.interest;
        let mut wanted = notices.iter().filter(|notice| interest.includes(&notice.kind)).peekable();
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
        // Wakes a reader that would wait for ever. The ring is abandoned only when it is dropped after this: the reader
        // checks again periodically.
        self.signal.wake();
    }
}

/// A worker's part of the control of its device.
pub(crate) struct WorkerLink {
    /// The handle on the device, for callers that request it from the device.
    handle: Box<dyn Any + Send + Sync>,
    me: usize,
    ring: Ring,
    subscribers: Vec<Subscriber>,
    /// Notices that were not delivered yet.
    notices: Vec<Notice>,
}

impl fmt::Debug for WorkerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLink").field("me", &self.me).finish_non_exhaustive()
    }
}

impl WorkerLink {
    pub(crate) fn new(handle: Box<dyn Any + Send + Sync>, me: usize, ring: Ring) -> WorkerLink {
        WorkerLink { handle, me, ring, subscribers: Vec::new(), notices: Vec::new() }
    }

    /// The handle on the device, made by [`control`](crate::control).
    pub(crate) fn handle(&self) -> &dyn Any {
        &*self.handle
    }

    /// Sets the function that wakes this worker.
    pub(crate) fn wake_by(&self, wake: Wake) {
        // A worker is started once.
        let _ = self.ring.wake.set(wake);
    }

    /// Stores the time, and returns whether commands wait.
    #[inline]
    pub(super) fn polled(&self, now: Time) -> bool {
        self.ring.polled_ps.store(now.as_ps(), Ordering::Relaxed);
        self.has_commands()
    }

    /// True while commands wait.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.ring.commands.is_empty()
    }

    /// The next command.
    pub(super) fn next(&mut self) -> Option<Command> {
        self.ring.commands.pop().ok()
    }

    /// Ends the ring: commands that wait are dropped, and no more are accepted.
    pub(super) fn abandon(&mut self) {
        while self.next().is_some() {}
        (_, self.ring.commands) = RingBuffer::new(0);
    }

    /// Adds a subscription.
    pub(super) fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
    }

    /// True while there is a subscription.
    #[inline]
    pub(super) fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// The kinds that any subscription includes.
    fn interest(&self) -> Interest {
        let all = self.subscribers.iter().map(|subscriber| subscriber.interest);
        all.fold(Interest::default(), Interest::or)
    }

    /// Stores a notice for the subscribers, if there are any.
    pub(super) fn notify(&mut self, time: Time, kind: NoticeKind) {
        if self.has_subscribers() {
            self.notices.push(Notice { worker: self.me, time, kind });
        }
    }

    /// Collects digests and punted packets while a subscription includes them.
    pub(super) fn listen(&self, device: &mut DeviceState, outcomes: &mut Outcomes) {
        let wanted = self.interest();
        match wanted.digests {
            true => device.listen(),
            false => device.stop_listening(),
        }
        match wanted.packets {
            true => outcomes.listen_to_punts(),
            false => outcomes.punted = None,
        }
    }

    /// Delivers the notices, and the digests and punted packets since the last call, to the subscribers.
    #[cold]
    pub(super) fn pass_on(&mut self, now: Time, device: &mut DeviceState, outcomes: &mut Outcomes) {
        if device.has_digests() {
            let digests = device.take_digests().into_iter();
            digests.for_each(|digest| self.notify(now, NoticeKind::Digest(digest)));
        }
        if let Some(punted) = outcomes.punted.as_mut().filter(|punted| !punted.is_empty()) {
            let packets = punted.drain(..);
            packets.for_each(|packet| self.notify(now, NoticeKind::Packet(packet)));
        }
        if self.deliver() {
            self.listen(device, outcomes);
        }
    }

    /// Delivers the notices to the subscribers; true if a subscription has ended.
    fn deliver(&mut self) -> bool {
        if !self.notices.is_empty() {
            self.subscribers.iter_mut().for_each(|subscriber| subscriber.deliver(&self.notices));
            self.notices.clear();
        }
        let before = self.subscribers.len();
        self.subscribers.retain(|subscriber| !subscriber.is_gone());
        self.subscribers.len() != before
    }
}
