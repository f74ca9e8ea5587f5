//! Locks that stay usable after a panic elsewhere.
//!
//! A thread that panics while it holds a lock poisons it. The values behind the locks here are replaced as a whole or
//! only counted, so they are valid after such a panic too: the other threads continue with them, and the panic is
//! reported where it happened.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};

/// Attempts of [`lock_soon`].
const LOOKS_MAX: u32 = 256;

/// Locks a mutex, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex for a thread that forwards packets, poisoned or not: `None` if another thread has it for more than some
/// microseconds.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOOKS_MAX {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// Locks for reading, poisoned or not.
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, poisoned or not.
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a condition variable, which may wake without a reason.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_forwards_waits_for_no_other() {
        let mutex = Mutex::new(1);
        let held = lock(&mutex);
        assert!(lock_soon(&mutex).is_none());
        drop(held);
        assert_eq!(lock_soon(&mutex).as_deref(), Some(&1));
    }
}
