//! Wakes a reader that waits for notices of a worker; while none waits, the worker takes no lock.
//!
//! A reader sets a flag and then reads its ring; a worker writes to the ring and then reads the flag. A fence between
//! the two steps of each makes sure that one of them sees what the other wrote. A worker does not wait for the lock of
//! the waker either: whoever has it is about to check the ring, or to wake the reader. `tests/models` runs this file
//! through every order of their steps.

use std::task::Waker;

use super::sync::{AtomicBool, Mutex, Ordering, PoisonError, TryLockError, fence};

/// Wakes a reader that waits.
#[derive(Default)]
pub(crate) struct Signal {
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    /// Registers the reader's waker; the reader must check its ring once more before it sleeps.
    pub(crate) fn wait_by(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        // Release: a worker that sees it does not take the lock above for one that is still held.
        self.waits.store(true, Ordering::Release);
        // Pairs with the fence in `wake`: either the reader sees what was pushed, or the worker sees that it waits.
        fence(Ordering::SeqCst);
    }

    /// Wakes the reader, if it waits: a notice was written.
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Acquire) {
            let waker = match self.waker.try_lock() {
                Ok(mut waker) => waker.take(),
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
                // The reader registers once more and then checks its ring, or another worker wakes it.
                Err(TryLockError::WouldBlock) => None,
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }
}
