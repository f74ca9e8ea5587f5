use proptest::prelude::*;

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
