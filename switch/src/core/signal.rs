//! A reader that waits for what a worker says, and is woken without a lock where it does not wait.
//!
//! A reader says that it waits and then looks; a worker says something and then looks whether it waits. A fence between the two steps of each
//! makes sure that one of them sees the other. `tests/models` runs this file through every order of their steps.

use std::task::Waker;

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError, fence};

/// Wakes a reader that waits.
#[derive(Default)]
pub(crate) struct Signal {
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader waits from now on, and looks once more before it sleeps.
    pub(crate) fn wait_by(&self, waker: &Waker) {
        *self.waker() = Some(waker.clone());
        self.waits.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either the reader sees what was pushed, or who pushed sees that it waits.
        fence(Ordering::SeqCst);
    }

    /// Something was said.
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed) {
            let waker = self.waker().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}
