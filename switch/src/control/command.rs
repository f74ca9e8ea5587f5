//! How control reaches a worker: a bounded ring of commands for each, which the worker empties between two bursts.
//!
//! A command is done by exactly one side: either the worker begins it in time, or who asked gives it up and nobody does it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use wireyard_tables::time::Time;

use super::stream::{Interest, Notice, Said, Subscriber};
use super::{Control, ControlError, lock};
use crate::core::Core;

/// Commands that wait for a worker at most.
const RING: usize = 64;
/// Commands that a worker does between two bursts.
pub(crate) const BETWEEN_BURSTS: usize = 4;
/// How long a worker may take to begin.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) type Command = Box<dyn FnOnce(&mut Core, Time) + Send>;
type Wake = Box<dyn Fn() + Send + Sync>;

/// Control's end of the ring to a worker.
pub(super) struct WorkerEnd {
    commands: Mutex<Producer<Command>>,
    /// The device's time when the worker was polled last, in picoseconds.
    polled_ps: Arc<AtomicU64>,
    /// Wakes the worker, where it sleeps.
    wake: OnceLock<Wake>,
}

/// The worker's end.
pub(super) struct Ring {
    commands: Consumer<Command>,
    polled_ps: Arc<AtomicU64>,
}

pub(super) fn ring() -> (WorkerEnd, Ring) {
    let (producer, commands) = RingBuffer::new(RING);
    let polled_ps = Arc::<AtomicU64>::default();
    let commands_in = Mutex::new(producer);
    let end = WorkerEnd {
        commands: commands_in,
        polled_ps: Arc::clone(&polled_ps),
        wake: OnceLock::new(),
    };
    (end, Ring { commands, polled_ps })
}

impl WorkerEnd {
    pub(super) fn now(&self) -> Time {
        Time::from_ps(self.polled_ps.load(Ordering::Relaxed))
    }

    pub(super) fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Core, Time) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let ended = || ControlError::Unavailable("the device has ended".to_owned());
        let (answer, outcome) = sync_channel(1);
        let claimed = Arc::new(AtomicBool::new(false));
        let claim = Arc::clone(&claimed);
        let command = Box::new(move |core: &mut Core, now| {
            if !claim.swap(true, Ordering::AcqRel) {
                // Who asked waits for it, as it was claimed.
                let _ = answer.send(work(core, now));
            }
        });
        self.push(worker, command)?;
        match outcome.recv_timeout(PATIENCE) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) if !claimed.swap(true, Ordering::AcqRel) => {
                Err(ControlError::Unavailable(format!(
                    "worker {worker} was not polled for {} s; nothing was done",
                    PATIENCE.as_secs()
                )))
            }
            // It has begun.
            Err(RecvTimeoutError::Timeout) => outcome.recv().map_err(|_| ended()),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    pub(super) fn push(&self, worker: usize, command: Command) -> Result<(), ControlError> {
        let mut commands = lock(&self.commands);
        if commands.is_abandoned() {
            return Err(ControlError::Unavailable("the device has ended".to_owned()));
        }
        commands.push(command).map_err(|PushError::Full(_)| {
            let text = format!("{RING} commands wait for worker {worker} already");
            ControlError::Unavailable(text)
        })?;
        drop(commands);
        if let Some(wake) = self.wake.get() {
            wake();
        }
        Ok(())
    }

    /// What wakes the worker from now on.
    pub(super) fn wake_by(&self, wake: Wake) {
        // A worker begins once.
        let _ = self.wake.set(wake);
    }
}

/// A worker's part of the control of its device.
pub(crate) struct WorkerLink {
    control: Control,
    me: usize,
    ring: Ring,
    subscribers: Vec<Subscriber>,
    /// What is to be sent to them.
    notices: Vec<Notice>,
}

impl fmt::Debug for WorkerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLink").field("me", &self.me).finish_non_exhaustive()
    }
}

impl WorkerLink {
    pub(super) fn new(control: Control, me: usize, ring: Ring) -> WorkerLink {
        WorkerLink { control, me, ring, subscribers: Vec::new(), notices: Vec::new() }
    }

    /// The handle.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// What wakes this worker from now on.
    pub(crate) fn wake_by(&self, wake: Wake) {
        if let Some(end) = self.control.shared.workers.get(self.me) {
            end.wake_by(wake);
        }
    }

    /// Notes the time, and returns whether there is something to do.
    #[inline]
    pub(crate) fn polled(&self, now: Time) -> bool {
        self.ring.polled_ps.store(now.as_ps(), Ordering::Relaxed);
        self.has_commands()
    }

    /// True while commands wait.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.ring.commands.is_empty()
    }

    /// The next command.
    pub(crate) fn next(&mut self) -> Option<Command> {
        self.ring.commands.pop().ok()
    }

    /// One more reader of what this worker says.
    pub(crate) fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
    }

    /// True if anybody reads what this worker says.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// What readers want, all of them together.
    pub(crate) fn interest(&self) -> Interest {
        self.subscribers.iter().map(Subscriber::interest).fold(Interest::default(), |a, b| {
            Interest {
                digests: a.digests || b.digests,
                packets: a.packets || b.packets,
                idle: a.idle || b.idle,
                events: a.events || b.events,
            }
        })
    }

    /// Says something, if anybody reads it.
    pub(crate) fn say(&mut self, time: Time, said: Said) {
        if self.is_heard() {
            self.notices.push(Notice { worker: self.me, time, said });
        }
    }

    /// Passes on what was said; true if a reader has gone.
    pub(crate) fn pass_on(&mut self) -> bool {
        if !self.notices.is_empty() {
            self.subscribers.iter_mut().for_each(|subscriber| subscriber.deliver(&self.notices));
            self.notices.clear();
        }
        let before = self.subscribers.len();
        self.subscribers.retain(|subscriber| !subscriber.is_gone());
        self.subscribers.len() != before
    }
}
