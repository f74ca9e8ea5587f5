//! A worker that finds no work and sleeps is woken by who gives it some, whatever the order of their steps.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Notify};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

#[path = "../../../switch/src/live/sleep.rs"]
mod part;

use part::Sleeper;

/// A worker, with a ring for one piece of work from each of two others.
struct Worker {
    sleeper: Sleeper,
    rings: [AtomicBool; 2],
    wake_fd: Notify,
}

impl Worker {
    fn new() -> Arc<Worker> {
        let (sleeper, rings) = (Sleeper::default(), <[AtomicBool; 2]>::default());
        Arc::new(Worker { sleeper, rings, wake_fd: Notify::new() })
    }

    fn give(&self, ring: usize) {
        self.rings[ring].store(true, Ordering::Release);
        if self.sleeper.must_wake() {
            self.wake_fd.notify();
        }
    }

    /// Pieces of work so far.
    fn given(&self) -> usize {
        self.rings.iter().filter(|ring| ring.load(Ordering::Acquire)).count()
    }

    /// The loop of a worker until it has taken this much. The model fails if it sleeps for ever.
    fn run(&self, all: usize) {
        loop {
            let taken = self.given();
            if taken == all {
                return;
            }
            self.sleeper.sleep_unless(|| self.given() > taken, || self.wake_fd.wait());
        }
    }
}

#[test]
fn who_sleeps_is_woken_for_work() {
    loom::model(|| {
        let worker = Worker::new();
        let other = Arc::clone(&worker);
        let giver = loom::thread::spawn(move || other.give(0));
        worker.run(1);
        giver.join().expect("the other worker ends");
    });
}

/// A model that leaves out orders with more preemptions: all of them take minutes.
fn mostly(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn who_sleeps_again_is_woken_again() {
    mostly(|| {
        let worker = Worker::new();
        let other = Arc::clone(&worker);
        let giver = loom::thread::spawn(move || {
            other.give(0);
            other.give(1);
        });
        worker.run(2);
        giver.join().expect("the other worker ends");
    });
}

#[test]
fn two_give_at_once() {
    mostly(|| {
        let worker = Worker::new();
        let givers = [0, 1].map(|ring| {
            let other = Arc::clone(&worker);
            loom::thread::spawn(move || other.give(ring))
        });
        worker.run(2);
        givers.into_iter().for_each(|giver| giver.join().expect("the other worker ends"));
    });
}
