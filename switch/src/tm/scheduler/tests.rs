use proptest::prelude::*;
use wireyard_tables::time::Span;

use super::*;

fn dwrr(weights: &[u16]) -> [ServiceConfig; CLASSES] {
    let mut queues = [ServiceConfig::default(); CLASSES];
    for (queue, weight) in queues.iter_mut().zip(weights) {
        queue.service = Service::Dwrr { weight: *weight };
    }
    queues
}

fn serve(scheduler: &mut Scheduler, eligible: u8) -> u8 {
    match scheduler.pick(Time::ZERO, eligible) {
        Pick::Queue(q, _) => q,
        other => panic!("expected a queue, got {other:?}"),
    }
}

proptest! {
    /// Golestani's fairness measure: after every frame, bytes per weight of any two backlogged queues
    /// differ by at most one largest frame of the lighter one, and one round.
    #[test]
    fn dwrr_shares_are_within_one_frame(
        weights in prop::collection::vec(1u16..200, 2..=8),
        lengths in prop::collection::vec(84u64..9240, 300..1500),
    ) {
        let mut scheduler = Scheduler::new(dwrr(&weights), None);
        let eligible = ((1u16 << weights.len()) - 1) as u8;
        let weights: Vec<u64> = weights.into_iter().map(u64::from).collect();
        let mut sent = vec![0u64; weights.len()];
        for length in lengths {
            let q = serve(&mut scheduler, eligible);
            sent[usize::from(q)] += length;
            scheduler.sent(q, Time::ZERO, length, false);
            for i in 0..weights.len() {
                for j in 0..i {
                    let (a, b) = (sent[i] * weights[j], sent[j] * weights[i]);
                    let bound = 9240 * weights[i].max(weights[j]) + weights[i] * weights[j];
                    prop_assert!(a.abs_diff(b) <= bound, "queues {i}, {j}: {a} and {b}");
                }
            }
        }
    }
}

#[test]
fn strict_goes_before_dwrr_and_higher_before_lower() {
    let mut queues = dwrr(&[1; 8]);
    queues[5].service = Service::Strict;
    queues[7].service = Service::Strict;
    let mut scheduler = Scheduler::new(queues, None);
    assert_eq!(serve(&mut scheduler, 0b1111_1111), 7);
    assert_eq!(serve(&mut scheduler, 0b0111_1111), 5);
    assert_ne!(serve(&mut scheduler, 0b0101_1111), 6 + 1);
    assert!([0, 1, 2, 3, 4, 6].contains(&serve(&mut scheduler, 0b0101_1111)));
}

#[test]
fn a_guaranteed_rate_beats_strict_until_it_is_used() {
    let mut queues = dwrr(&[1; 8]);
    queues[7].service = Service::Strict;
    queues[0].min = Some(ShaperConfig { rate: BitsPerSec::gbit(1), burst_bytes: 0 });
    let mut scheduler = Scheduler::new(queues, None);
    assert_eq!(serve(&mut scheduler, 0b1000_0001), 0);
    scheduler.sent(0, Time::ZERO, 125, false);
    assert_eq!(serve(&mut scheduler, 0b1000_0001), 7);
    assert_eq!(scheduler.pick(Time::from_ns(1_000), 0b1000_0001), Pick::Queue(0, Time::ZERO));
}

/// Frames of each queue in the next 1000 of a link of 20 Mbit/s, all of 1000 B, with these queues backlogged.
fn shares(scheduler: &mut Scheduler, now: &mut Time, eligible: u8) -> [u32; CLASSES] {
    let mut sent = [0; CLASSES];
    for _ in 0..1000 {
        let Pick::Queue(queue, _) = scheduler.pick(*now, eligible) else { panic!("one may send") };
        scheduler.sent(queue, *now, 1000, false);
        sent[usize::from(queue)] += 1;
        *now += Span::from_us(400);
    }
    sent
}

/// The first of eight queues of this weight has 8 Mbit/s.
fn guaranteed(weight: u16) -> [ServiceConfig; CLASSES] {
    let mut queues = dwrr(&[weight; 8]);
    queues[0].min =
        Some(ShaperConfig { rate: BitsPerSec::new(8_000_000).unwrap(), burst_bytes: 2000 });
    queues
}

/// A queue that had the link alone keeps its guarantee, beside strict and beside many others.
#[test]
fn what_is_sent_beyond_a_guaranteed_rate_costs_nothing_of_it() {
    let mut queues = guaranteed(1000);
    queues[7].service = Service::Strict;
    let (mut scheduler, mut now) = (Scheduler::new(queues, None), Time::ZERO);
    assert_eq!(shares(&mut scheduler, &mut now, 0b1)[0], 1000);
    let sent = shares(&mut scheduler, &mut now, 0b1000_0001);
    assert!(sent[0].abs_diff(400) <= 4, "{sent:?}");
    assert_eq!(shares(&mut scheduler, &mut now, 0b1)[0], 1000);
    let sent = shares(&mut scheduler, &mut now, 0b1111);
    assert!(sent[0].abs_diff(400) <= 4 && sent[1].abs_diff(200) <= 4, "{sent:?}");
}

/// A queue gets the larger of its guaranteed rate and its share, whatever it had before.
#[test]
fn what_is_guaranteed_beyond_a_share_is_no_debt() {
    for weight in [1, 7, 1000, 20_000] {
        let (mut scheduler, mut now) = (Scheduler::new(guaranteed(weight), None), Time::ZERO);
        let sent = shares(&mut scheduler, &mut now, 0b1111);
        assert!(sent[0].abs_diff(400) <= 20, "weight {weight}: {sent:?}");
        let sent = shares(&mut scheduler, &mut now, 0b11);
        assert!(sent[0].abs_diff(500) <= 20, "weight {weight}: {sent:?}");
    }
}

#[test]
fn a_maximum_rate_names_the_instant_it_allows() {
    let mut queues = dwrr(&[1; 8]);
    queues[3].max = Some(ShaperConfig { rate: BitsPerSec::gbit(1), burst_bytes: 0 });
    let mut scheduler = Scheduler::new(queues, None);
    assert_eq!(serve(&mut scheduler, 0b1000), 3);
    scheduler.sent(3, Time::ZERO, 125, false);
    assert_eq!(scheduler.pick(Time::ZERO, 0b1000), Pick::Later(Deadline::at(Time::from_ns(1_000))));
    assert_eq!(serve(&mut scheduler, 0b1100), 2);
    let freed = Time::from_ns(1_000);
    assert_eq!(scheduler.pick(freed, 0b1000), Pick::Queue(3, freed));
    assert_eq!(scheduler.pick(freed, 0), Pick::Later(Deadline::NEVER));
}

#[test]
fn an_idle_queue_saves_no_credit() {
    let mut scheduler = Scheduler::new(dwrr(&[1, 1]), None);
    for _ in 0..100 {
        assert_eq!(serve(&mut scheduler, 0b01), 0);
        scheduler.sent(0, Time::ZERO, 1_000, false);
    }
    let mut sent = [0; 2];
    for _ in 0..100 {
        let q = usize::from(serve(&mut scheduler, 0b11));
        sent[q] += 1;
        scheduler.sent(q as u8, Time::ZERO, 1_000, false);
    }
    assert!(sent[0] >= 49 && sent[1] <= 51, "{sent:?}");
}

#[test]
fn a_queue_whose_last_packet_is_dropped_saves_no_credit() {
    let mut scheduler = Scheduler::new(dwrr(&[50, 50]), None);
    let queue = serve(&mut scheduler, 0b11);
    assert!(scheduler.deficit[usize::from(queue)] > 0);
    scheduler.emptied(queue);
    assert_eq!(scheduler.deficit[usize::from(queue)], 0);
    // What it sent ahead of its share stays owed.
    serve(&mut scheduler, 1 << queue);
    scheduler.sent(queue, Time::ZERO, 100_000, false);
    let owed = scheduler.deficit[usize::from(queue)];
    scheduler.emptied(queue);
    assert!(owed < 0 && scheduler.deficit[usize::from(queue)] == owed);
}
