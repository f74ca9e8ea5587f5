//! Commands from control to a worker: they wait in its ring ([`worker_link`](crate::core::worker_link)), and the worker
//! executes them between two bursts.
//!
//! A command has exactly one outcome: either the worker begins it in time, or the caller withdraws it and it is not
//! done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use rtrb::PushError;
use wireyard_tables::time::Time;

use super::ControlError;
use crate::core::Core;
use crate::core::worker_link::{Command, RING, Sender};
use crate::sync::lock;

/// Time within which a worker must begin a command.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Control's end of the ring to a worker.
pub(super) struct WorkerEnd(pub(super) Sender);

impl WorkerEnd {
    pub(super) fn now(&self) -> Time {
        self.0.now()
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
                // The caller waits for the result, as the command was claimed.
                let _ = answer.send(work(core, now));
            }
        });
        self.push(worker, command)?;
        match outcome.recv_timeout(BEGIN_TIMEOUT) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) if !claimed.swap(true, Ordering::AcqRel) => {
                Err(ControlError::Unavailable(format!(
                    "worker {worker} was not polled for {} s; nothing was done",
                    BEGIN_TIMEOUT.as_secs()
                )))
            }
            // The worker has begun it.
            Err(RecvTimeoutError::Timeout) => outcome.recv().map_err(|_| ended()),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    pub(super) fn push(&self, worker: usize, command: Command) -> Result<(), ControlError> {
        let mut commands = lock(&self.0.commands);
        if commands.is_abandoned() {
            return Err(ControlError::Unavailable("the device has ended".to_owned()));
        }
        commands.push(command).map_err(|PushError::Full(_)| {
            let text = format!("{RING} commands wait for worker {worker} already");
            ControlError::Unavailable(text)
        })?;
        drop(commands);
        self.0.wake();
        Ok(())
    }
}
