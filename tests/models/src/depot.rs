//! Two workers take and give chains of one depot: no chunk is ever with both, and none is lost.

use loom::sync::Arc;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[expect(dead_code, reason = "what others of the same part need")]
#[path = "../../../pipeline/src/packet/depot.rs"]
mod part;

use part::Depot;

/// Everything that is in the depot.
fn rest(depot: &Depot) -> Vec<u32> {
    let mut all = Vec::new();
    while depot.take(&mut all) {}
    all
}

fn each_once(chunks: u32, of: &[&[u32]]) {
    let mut all = of.concat();
    all.sort_unstable();
    assert_eq!(all, (0..chunks).collect::<Vec<_>>(), "every chunk is in one place");
}

#[test]
fn a_chain_that_came_back_is_not_taken_for_the_old_one() {
    // One takes two chains and gives the first back, while the other is in the middle of taking it.
    loom::model(|| {
        let depot = Arc::new(Depot::full(2, 1));
        let theirs = Arc::clone(&depot);
        let other = loom::thread::spawn(move || {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            if theirs.take(&mut first) {
                theirs.take(&mut second);
                theirs.give(&mut first);
            }
            second
        });
        let mut mine = Vec::new();
        depot.take(&mut mine);
        let second = other.join().expect("the other worker ends");
        each_once(2, &[&mine, &second, &rest(&depot)]);
    });
}

#[test]
fn both_give_and_take() {
    loom::model(|| {
        let depot = Arc::new(Depot::full(3, 1));
        let theirs = Arc::clone(&depot);
        let other = loom::thread::spawn(move || {
            let mut held = Vec::new();
            theirs.take(&mut held);
            theirs.give(&mut held);
            theirs.take(&mut held);
            held
        });
        let mut mine = Vec::new();
        depot.take(&mut mine);
        depot.give(&mut mine);
        let held = other.join().expect("the other worker ends");
        each_once(3, &[&mine, &held, &rest(&depot)]);
    });
}
