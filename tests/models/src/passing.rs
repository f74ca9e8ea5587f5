//! Two workers count packets of a program in and out; who asks never finds none while one is inside.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../../../pipeline/src/generation/passing.rs"]
mod part;

use part::Passing;

#[test]
fn a_packet_that_another_worker_counts_out_hides_none() {
    // One packet stays; the other goes to the second worker, which counts it out.
    loom::model(|| {
        let passing = Arc::new(Passing::new(2));
        let handed = Arc::new(AtomicBool::new(false));
        passing.enter(0, 1);
        let (counts, ring) = (Arc::clone(&passing), Arc::clone(&handed));
        let other = loom::thread::spawn(move || {
            if ring.load(Ordering::Acquire) {
                counts.leave(1, 1);
            }
        });
        let counts = Arc::clone(&passing);
        let asks = loom::thread::spawn(move || counts.inside());
        passing.enter(0, 1);
        handed.store(true, Ordering::Release);
        let inside = asks.join().expect("who asks ends");
        assert!((1..=2).contains(&inside), "one is inside all the time: {inside}");
        other.join().expect("the other worker ends");
    });
}
