//! A charge in one traffic manager for a packet that waits in another.

use super::*;

const GROUP: u8 = 3;

fn lent(lender: &mut Tm<u32>) -> (u64, u64, u64) {
    let group = &lender.seen().port(PortId(0)).unwrap().groups[usize::from(GROUP)];
    (group.account.total(), group.counters.admitted.packets, group.counters.released.packets)
}

fn returned(tm: &mut Tm<u32>) -> Vec<(u8, SharedCharge)> {
    let mut found = Vec::new();
    while let Some(event) = tm.next_event() {
        if let Event::Returned { worker, charge } = event {
            found.push((worker, charge));
        }
    }
    found
}

#[test]
fn the_lender_is_told_when_the_last_bit_has_left() {
    let (mut lender, mut borrower) = (plain(), plain());
    let now = Time::from_ns(1_000);
    let charge = lender.charge_shared(now, PortId(0), GROUP, 1500).unwrap();
    assert!(lender.retain_shared(charge));
    // Two packets of one memory in the borrower's queue: one charge, returned twice.
    for _ in 0..2 {
        let memory = borrower.borrow_shared(5, charge).unwrap();
        borrower.enqueue_copy(now, 1500, memory, &to(GROUP, 1500)).unwrap();
        borrower.release_shared(now, memory);
    }
    assert_eq!(returned(&mut borrower), []);
    assert_eq!(lent(&mut lender), (1500, 1, 0));
    borrower.seen().audit().unwrap();
    let sent = drain(&mut borrower, now, Time::from_ns(1_000_000));
    assert_eq!(sent.len(), 2);
    let back = returned(&mut borrower);
    assert_eq!(back, [(5, charge), (5, charge)]);
    borrower.seen().audit().unwrap();
    for (_, charge) in back {
        lender.release_shared(Time::from_ns(1_000_000), charge);
    }
    assert_eq!(lent(&mut lender), (0, 1, 1));
    assert!(!lender.retain_shared(charge));
    lender.seen().audit().unwrap();
}

#[test]
fn a_refused_packet_returns_its_charge_at_once() {
    let (mut lender, mut borrower) =
        (plain(), manager([(0, 0), (100, 0)], &[port(100), port(100)]));
    let now = Time::from_ns(1_000);
    let charge = lender.charge_shared(now, PortId(0), GROUP, 1500).unwrap();
    let memory = borrower.borrow_shared(0, charge).unwrap();
    let refused = borrower.enqueue_copy(now, 1500, memory, &to(GROUP, 1500));
    assert!(refused.is_err());
    borrower.release_shared(now, memory);
    assert_eq!(returned(&mut borrower), [(0, charge)]);
    borrower.seen().audit().unwrap();
}

/// The lender has charged a packet that waits outside of its queue; the borrower charges no group for it.
#[test]
fn a_held_packet_stays_charged_at_its_lender() {
    let (mut lender, mut borrower) = (plain(), plain());
    let now = Time::from_ns(1_000);
    for (packet, until) in [(1, Time::from_ns(5_000)), (2, Time::from_ns(10))] {
        let charge = lender.charge_shared(now, PortId(0), GROUP, 1500).unwrap();
        let memory = borrower.borrow_shared(5, charge).unwrap();
        let (charge, release) = (Charge::Shared(memory), Release::At(until));
        let terms = Terms { charge, release, ..Terms::default() };
        borrower.offer_packet(now, packet, &Arrival { terms, ..to(GROUP, 1500) }).unwrap();
        borrower.release_shared(now, memory);
    }
    assert_eq!((lent(&mut borrower), lent(&mut lender)), ((0, 0, 0), (3000, 2, 0)));
    assert_eq!(returned(&mut borrower), []);
    borrower.seen().audit().unwrap();
    let sent = drain(&mut borrower, now, Time::from_ns(1_000_000));
    // The second one's time had passed when it came: it did not wait here before.
    let entered: Vec<(u32, Time)> =
        sent.iter().map(|(departed, _)| (departed.packet, departed.enqueued_at)).collect();
    assert_eq!(entered, [(2, now), (1, Time::from_ns(5_000))]);
    assert_eq!(returned(&mut borrower).len(), 2);
    borrower.seen().audit().unwrap();
}
