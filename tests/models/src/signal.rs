//! A reader that finds nothing and sleeps is woken by who says something, whatever the order of their steps.

use std::sync::atomic::{AtomicUsize, Ordering as Plain};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub(super) use loom::sync::Mutex;
    pub(super) use std::sync::{PoisonError, TryLockError};
}

#[path = "../../../switch/src/core/signal.rs"]
mod part;

use part::Signal;

/// Counts how often it is woken; no part of the model.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Plain::Relaxed);
    }
}

#[test]
fn who_sleeps_is_woken() {
    loom::model(|| {
        let (signal, said) = (Arc::new(Signal::default()), Arc::new(AtomicBool::new(false)));
        let (worker, say) = (Arc::clone(&signal), Arc::clone(&said));
        let speaker = loom::thread::spawn(move || {
            say.store(true, Ordering::Release);
            worker.wake();
        });
        let count = std::sync::Arc::<Count>::default();
        signal.wait_by(&Waker::from(std::sync::Arc::clone(&count)));
        let seen = said.load(Ordering::Acquire);
        speaker.join().expect("the worker ends");
        assert!(seen || count.0.load(Plain::Relaxed) == 1, "asleep for ever");
    });
}

#[test]
fn who_waits_again_is_woken_again() {
    loom::model(|| {
        let (signal, said) = (Arc::new(Signal::default()), Arc::new(AtomicBool::new(false)));
        let (worker, say) = (Arc::clone(&signal), Arc::clone(&said));
        let speaker = loom::thread::spawn(move || {
            // Something that the reader has seen already, then what it waits for.
            worker.wake();
            say.store(true, Ordering::Release);
            worker.wake();
        });
        let count = std::sync::Arc::<Count>::default();
        let mut seen = false;
        for _ in 0..2 {
            count.0.store(0, Plain::Relaxed);
            signal.wait_by(&Waker::from(std::sync::Arc::clone(&count)));
            seen = said.load(Ordering::Acquire);
            if seen || count.0.load(Plain::Relaxed) == 0 {
                break;
            }
        }
        speaker.join().expect("the worker ends");
        assert!(seen || count.0.load(Plain::Relaxed) > 0, "asleep for ever");
    });
}

#[test]
fn who_waits_is_woken_by_one_of_two() {
    let mut model = loom::model::Builder::new();
    // All orders of three threads take minutes.
    model.preemption_bound = Some(3);
    model.check(|| {
        let signal = Arc::new(Signal::default());
        let said = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let speakers = [0, 1].map(|at| {
            let (worker, say) = (Arc::clone(&signal), Arc::clone(&said));
            loom::thread::spawn(move || {
                say[at].store(true, Ordering::Release);
                worker.wake();
            })
        });
        let count = std::sync::Arc::<Count>::default();
        let waker = Waker::from(std::sync::Arc::clone(&count));
        let mut seen = 0;
        for _ in 0..3 {
            count.0.store(0, Plain::Relaxed);
            signal.wait_by(&waker);
            seen = said.iter().filter(|said| said.load(Ordering::Acquire)).count();
            if seen == 2 || count.0.load(Plain::Relaxed) == 0 {
                break;
            }
        }
        speakers.into_iter().for_each(|speaker| speaker.join().expect("the worker ends"));
        assert!(seen == 2 || count.0.load(Plain::Relaxed) > 0, "asleep for ever");
    });
}
