//! Runs beside each other, which share nothing but the list of what is left to do.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Calls `work` with each number below `count`, in `jobs` threads, until it breaks: no call begins after that.
pub(super) fn each(jobs: usize, count: usize, work: impl Fn(usize) -> ControlFlow<()> + Sync) {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let thread = || {
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            if work(number).is_break() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(thread);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sync::lock;

    #[test]
    fn nothing_begins_behind_a_break() {
        let done = Mutex::new(Vec::new());
        each(3, 10, |number| {
            lock(&done).push(number);
            ControlFlow::Continue(())
        });
        let mut all = std::mem::take(&mut *lock(&done));
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        each(1, 10, |number| {
            lock(&done).push(number);
            if number == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(*lock(&done), [0, 1, 2]);
        each(2, 0, |_| unreachable!("there is nothing to do"));
    }
}
