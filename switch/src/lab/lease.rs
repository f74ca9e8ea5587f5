//! Values that several devices share and that one thread at a time may access, without a lock for each use.
//!
//! The links of a partition are shared by the ports at their ends, and every packet accesses them several times. A
//! mutex would cost an atomic exchange for each access (5 % of a lab with two flows); a value bound to its thread could
//! never move to another. So a [`Lease`] has the number of the thread that may access the values under it, which is
//! compared with the thread's own; it is released and taken over when a partition moves from one thread to another,
//! which is once in a phase of the run.
//!
//! It is not a lock: an access without the lease, or inside of another access under the same lease, panics.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No thread has the lease.
const FREE: u64 = u64::MAX - 1;
/// Its holder touches a value.
const BUSY: u64 = u64::MAX;
/// The number of a thread that has never had a lease, which no thread has.
const NEVER: u64 = 0;

/// The number of the last thread that got one.
static LAST: AtomicU64 = AtomicU64::new(NEVER);

thread_local! {
    /// The number of this thread, from 1 on, once it has had a lease; no two threads of a process ever have the same.
    static NUMBER: Cell<u64> = const { Cell::new(NEVER) };
}

/// The number of this thread, assigned with its first lease.
fn this_thread() -> u64 {
    if NUMBER.get() == NEVER {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

/// The thread that may access the values under it.
#[derive(Debug)]
pub struct Lease {
    /// The number of a thread, [`FREE`] or [`BUSY`].
    holder: AtomicU64,
}

impl Lease {
    /// Held by this thread.
    pub fn new() -> Arc<Lease> {
        Arc::new(Lease { holder: AtomicU64::new(this_thread()) })
    }

    /// Releases it.
    ///
    /// # Panics
    /// This thread does not hold it, or is accessing a value under it.
    pub fn give(&self) {
        assert!(self.holder.load(Ordering::Relaxed) == this_thread(), "a lease of another thread");
        // This thread's accesses happen before those of the next holder.
        self.holder.store(FREE, Ordering::Release);
    }

    /// Takes it over from the thread that released it.
    ///
    /// # Panics
    /// A thread holds it.
    pub fn take(&self) {
        let from = (FREE, this_thread());
        let taken =
            self.holder.compare_exchange(from.0, from.1, Ordering::Acquire, Ordering::Relaxed);
        assert!(taken.is_ok(), "a lease that another thread has");
    }

    /// Begins an access to a value; returns the number of this thread.
    #[inline]
    fn enter(&self) -> u64 {
        let number = NUMBER.get();
        // The number of this thread was stored by this thread: no other thread can have changed it since.
        if self.holder.load(Ordering::Relaxed) != number {
            refuse();
        }
        self.holder.store(BUSY, Ordering::Relaxed);
        number
    }
}

#[cold]
fn refuse() -> ! {
    panic!("a value was touched without its lease, or twice at once");
}

/// A value under a lease.
pub(super) struct Leased<T> {
    lease: Arc<Lease>,
    value: UnsafeCell<T>,
}

// SAFETY: a value is accessed only by `with`, which admits the thread whose number is in the lease. That number is
// stored by `new` and `take` of that thread, so two threads are never admitted at the same time, and between two of
// them are a release by `give` and an acquire by `take`. While a thread is inside, the lease is `BUSY`: no second
// reference is made, and `give` panics. After a panic inside, the lease stays `BUSY` for ever. `T: Send`, because other
// threads than the creator use and drop it.
unsafe impl<T: Send> Sync for Leased<T> {}

impl<T> Leased<T> {
    /// A value that the holder of this lease may access.
    pub(super) fn new(lease: &Arc<Lease>, value: T) -> Leased<T> {
        Leased { lease: Arc::clone(lease), value: UnsafeCell::new(value) }
    }

    /// Accesses the value.
    ///
    /// # Panics
    /// This thread does not hold the lease, or is inside of another access under it.
    #[inline]
    pub(super) fn with<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
        let number = self.lease.enter();
        // SAFETY: `enter` admitted this thread and no other until the number is stored again, below.
        let result = touch(unsafe { &mut *self.value.get() });
        self.lease.holder.store(number, Ordering::Relaxed);
        result
    }
}

impl<T> fmt::Debug for Leased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("lease", &self.lease).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_value_goes_from_thread_to_thread_with_its_lease() {
        let lease = Lease::new();
        let value = Arc::new(Leased::new(&lease, 0u64));
        for _ in 0..100 {
            value.with(|n| *n += 1);
            lease.give();
            thread::scope(|scope| {
                scope.spawn(|| {
                    lease.take();
                    value.with(|n| *n *= 2);
                    lease.give();
                });
            });
            lease.take();
            value.with(|n| *n %= 1_000_003);
        }
        let mut plain = 0u64;
        (0..100).for_each(|_| plain = (plain + 1) * 2 % 1_000_003);
        assert_eq!(value.with(|n| *n), plain);
    }

    #[test]
    fn who_has_no_lease_is_not_let_in() {
        let lease = Lease::new();
        let (one, other) = (Leased::new(&lease, 1), Leased::new(&lease, 2));
        let panics = |touch: &dyn Fn()| catch_unwind(AssertUnwindSafe(touch)).is_err();
        let elsewhere = |touch: &(dyn Fn() + Sync)| {
            thread::scope(|scope| scope.spawn(|| panics(&|| touch())).join().unwrap())
        };
        assert!(elsewhere(&|| one.with(|_| ())), "held by another thread");
        assert!(elsewhere(&|| lease.take()), "not given up");
        assert!(elsewhere(&|| lease.give()), "not its own to give");
        one.with(|n| *n += 1);
        lease.give();
        assert!(panics(&|| one.with(|_| ())), "given up");
        lease.take();
        assert_eq!(one.with(|n| *n), 2);
        assert!(panics(&|| one.with(|_| other.with(|_| ()))), "inside of another touch");
        // An interrupted value is not accessed again.
        assert!(panics(&|| one.with(|_| ())) && panics(&|| lease.give()));
    }
}
