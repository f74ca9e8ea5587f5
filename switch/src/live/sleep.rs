//! The sleep of a worker, and who ends it.
//!
//! A worker sets a flag, looks for work once more, and sleeps if there is none; another thread gives it work and then
//! reads the flag. A fence between the two steps of each makes sure that one of them sees what the other wrote.
//! `tests/models` runs this file through every order of their steps.

use super::sync::{AtomicBool, Ordering, fence};

/// Whether a worker sleeps, for those who give it work.
#[derive(Debug, Default)]
pub(super) struct Sleeper {
    /// It sleeps, or is about to, and nobody has begun to wake it.
    asleep: AtomicBool,
}

impl Sleeper {
    /// Sleeps, unless there is work now. Of two threads that give work at once one wakes the worker, so it must look
    /// for all work afterwards.
    pub(super) fn sleep_unless<R>(
        &self,
        has_work: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> R,
    ) -> Option<R> {
        // Stores would do here, but loom would allow orders of them and the exchanges below that no processor does.
        self.asleep.swap(true, Ordering::Relaxed);
        // Pairs with the fence in `must_wake`: either this thread sees the work, or the other one that it sleeps.
        fence(Ordering::SeqCst);
        let slept = (!has_work()).then(sleep);
        self.asleep.swap(false, Ordering::Relaxed);
        slept
    }

    /// For a thread that has given the worker work: true if it must wake it.
    pub(super) fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.swap(false, Ordering::Relaxed)
    }
}
