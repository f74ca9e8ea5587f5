//! Commands from control to a worker: they wait in its ring ([`worker_link`](crate::core::worker_link)), and the worker
//! executes them between two bursts.
//!
//! A command has exactly one outcome: either the worker begins it in time, or the caller withdraws it and it is not
//! done. Steps of a change that has begun are not withdrawn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rtrb::PushError;
use wireyard_tables::time::Time;

use super::ControlError;
use crate::core::Core;
use crate::core::worker_link::{Command, RING, Sender};
use crate::sync::lock;

/// Time within which a worker must begin a command.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time after which a full ring is tried again.
const FULL_RING_LOOK: Duration = Duration::from_millis(1);

fn ended() -> ControlError {
    ControlError::Unavailable("the device has ended".to_owned())
}

/// A command whose result the caller waits for.
struct Asked<R> {
    command: Command,
    outcome: Receiver<R>,
    /// Set by the worker that begins it, or by the caller that withdraws it.
    claimed: Arc<AtomicBool>,
}

impl<R: Send + 'static> Asked<R> {
    fn new(work: impl FnOnce(&mut Core, Time) -> R + Send + 'static) -> Asked<R> {
        let (answer, outcome) = sync_channel(1);
        let claimed = Arc::new(AtomicBool::new(false));
        let claim = Arc::clone(&claimed);
        let command = Box::new(move |core: &mut Core, now| {
            if !claim.swap(true, Ordering::AcqRel) {
                // The caller waits for the result, as the command was claimed.
                let _ = answer.send(work(core, now));
            }
        });
        Asked { command, outcome, claimed }
    }
}

/// Control's end of the ring to a worker.
pub(super) struct WorkerEnd(pub(super) Sender);

impl WorkerEnd {
    pub(super) fn now(&self) -> Time {
        self.0.now()
    }

    /// Runs `work` in the worker. A worker that does not begin it in time leaves it undone.
    pub(super) fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Core, Time) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let asked = Asked::new(work);
        self.push(worker, asked.command)?;
        match asked.outcome.recv_timeout(BEGIN_TIMEOUT) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) if !asked.claimed.swap(true, Ordering::AcqRel) => {
                Err(ControlError::Unavailable(format!(
                    "worker {worker} was not polled for {} s; nothing was done",
                    BEGIN_TIMEOUT.as_secs()
                )))
            }
            // The worker has begun it.
            Err(RecvTimeoutError::Timeout) => asked.outcome.recv().map_err(|_| ended()),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    /// Runs `work` in the worker, however late that begins it: for a change that other workers have made already. Only
    /// the end of the device leaves it undone.
    pub(super) fn insist<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let asked = Asked::new(work);
        let mut command = asked.command;
        while let Err(PushError::Full(back)) = self.try_push(command)? {
            command = back;
            thread::sleep(FULL_RING_LOOK);
        }
        loop {
            match asked.outcome.recv_timeout(BEGIN_TIMEOUT) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) if !lock(&self.0.commands).is_abandoned() => {}
                Err(_) => return Err(ended()),
            }
        }
    }

    pub(super) fn push(&self, worker: usize, command: Command) -> Result<(), ControlError> {
        self.try_push(command)?.map_err(|PushError::Full(_)| {
            let text = format!("{RING} commands wait for worker {worker} already");
            ControlError::Unavailable(text)
        })
    }

    /// The worker's end is gone.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.0.commands).is_abandoned()
    }

    fn try_push(&self, command: Command) -> Result<Result<(), PushError<Command>>, ControlError> {
        if self.has_ended() {
            return Err(ended());
        }
        let mut commands = lock(&self.0.commands);
        let pushed = commands.push(command);
        drop(commands);
        self.0.wake();
        Ok(pushed)
    }
}
