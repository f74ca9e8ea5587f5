//! Selective retransmission and trims: for any channel, every byte arrives at its place, and only lost packets are
//! retransmitted.

use wireyard_tables::time::{Span, Time};

use super::channel::{BASE, Faults, Frame, MTU, Pair, Random, Setup};
use crate::roce::aeth::{SYNDROME_SACK, SYNDROME_TRIMMED, Syndrome};
use crate::roce::packet::Leading;
use crate::roce::qp::{QpState, Retransmission};
use crate::roce::verbs::{PostError, Remote, SendOp, SendWr, Status};

const SLOT: u64 = 2048;
const SLOTS: u64 = 24;

fn selective(reordering: u32) -> Setup {
    Setup { retransmission: Retransmission::Selective { reordering }, ..Setup::default() }
}

/// Posts WRITEs of up to a slot, some with immediate data; returns the numbers of the latter.
fn post(pair: &mut Pair, random: &mut Random) -> Vec<u32> {
    let mut immediates = Vec::new();
    for id in 0..SLOTS {
        let (offset, len) = (id * SLOT, random.below(SLOT + 1) as u32);
        let remote = Remote { va: BASE + offset, rkey: pair.sides[1].key };
        let op = match random.below(2) {
            0 => SendOp::Write(remote),
            _ => {
                immediates.push(id as u32);
                pair.recv(1, id, 0, 0);
                SendOp::WriteImm(remote, id as u32)
            }
        };
        let local = pair.sge(0, offset, len);
        let side = &mut pair.sides[0];
        side.qp.post_send(SendWr::new(id, op, local), &side.memory).unwrap();
        let span = offset as usize..(offset + u64::from(len)) as usize;
        pair.expected.push(span);
    }
    immediates
}

fn run(setup: &Setup, faults: Faults) -> Pair {
    let mut pair = Pair::new(setup);
    pair.faults = faults;
    let mut random = Random(setup.seed ^ 0x77);
    let mut expected = pair.bytes(1);
    let immediates = post(&mut pair, &mut random);
    let source = pair.bytes(0);
    for span in std::mem::take(&mut pair.expected) {
        expected[span.clone()].copy_from_slice(&source[span]);
    }
    pair.run(200_000);
    let seed = setup.seed;
    let sends = &pair.sides[0].done;
    assert_eq!(sends.len() as u64, SLOTS, "seed {seed}");
    assert!(sends.iter().all(|done| done.status == Status::Success), "seed {seed}: {sends:?}");
    assert!(sends.iter().enumerate().all(|(i, done)| done.wr_id == i as u64), "seed {seed}");
    assert!(pair.bytes(1) == expected, "seed {seed}: a byte is not where it belongs");
    let received: Vec<u32> = pair.sides[1].done.iter().filter_map(|done| done.imm).collect();
    assert_eq!(received, immediates, "seed {seed}: each once and in order");
    pair
}

#[test]
fn a_clean_channel_repeats_nothing() {
    let pair = run(&selective(0), Faults::default());
    let sent = pair.sides[0].qp.counters();
    assert_eq!((sent.retransmitted_packets, sent.timeouts, sent.overtaken_packets), (0, 0, 0));
    assert!(!pair.syndromes(1).contains(&SYNDROME_SACK), "nothing came out of order");
}

#[test]
fn what_comes_in_any_order_is_placed_and_not_sent_again() {
    for seed in 0..30 {
        let faults = Faults { jitter_us: 1 + seed % 8, ..Faults::default() };
        let pair = run(&Setup { seed, ..selective(1000) }, faults);
        let sent = pair.sides[0].qp.counters();
        assert_eq!((sent.retransmitted_packets, sent.timeouts), (0, 0), "seed {seed}");
        assert!(pair.syndromes(1).contains(&SYNDROME_SACK), "seed {seed}");
    }
}

/// Each trimmed packet is reported and retransmitted once, without a timeout. (Of the last packets of a run, all are.)
#[test]
fn what_is_trimmed_is_named_and_sent_again_alone() {
    for seed in 0..30 {
        let faults = Faults { trim_percent: 10, jitter_us: seed % 4, ..Faults::default() };
        let pair = run(&Setup { seed, ..selective(1000) }, faults);
        let (sent, took) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
        assert!(took.trimmed_packets > 0, "seed {seed}");
        assert_eq!(took.trim_naks_sent, took.trimmed_packets, "seed {seed}");
        assert_eq!(sent.retransmitted_packets, took.trimmed_packets, "seed {seed}");
        assert_eq!(sent.timeouts, 0, "seed {seed}");
        assert!(pair.syndromes(1).contains(&SYNDROME_TRIMMED));
    }
}

#[test]
fn everything_at_once_across_the_wrap_of_the_psn() {
    let wanted = std::env::var("WIREYARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..wanted {
        let faults = Faults {
            loss_percent: seed % 10,
            copy_percent: seed % 7,
            jitter_us: seed % 6,
            trim_percent: seed % 13,
        };
        let psn = 0x00ff_fff0 - (seed as u32 % 64);
        run(&Setup { seed, psn, ..selective(seed as u32 % 20) }, faults);
    }
}

/// An overtaken packet is detected without a timeout: the middle of a message is lost once.
#[test]
fn a_packet_that_others_overtake_is_lost() {
    let mut pair = Pair::new(&selective(3));
    let mut lost = false;
    pair.drop = Some(Box::new(move |from, frame| {
        let drops = from == 0 && frame.headers.bth.psn.get() == 5 && !lost;
        lost |= drops;
        drops
    }));
    let local = pair.sge(0, 0, 20 * MTU);
    let op = SendOp::Write(Remote { va: BASE, rkey: pair.sides[1].key });
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, op, local), &side.memory).unwrap();
    pair.run(10_000);
    let sent = pair.sides[0].qp.counters();
    assert_eq!((sent.retransmitted_packets, sent.overtaken_packets, sent.timeouts), (1, 1, 0));
    assert_eq!(pair.bytes(1)[..20 * MTU as usize], pair.bytes(0)[..20 * MTU as usize]);
}

#[test]
fn go_back_n_asks_for_a_trimmed_packet_by_its_number() {
    for seed in 0..30 {
        let setup = Setup { seed, ..Setup::default() };
        let pair = run(&setup, Faults { trim_percent: 4, ..Faults::default() });
        let sent = pair.sides[0].qp.counters();
        assert!(sent.sequence_naks_received > 0 && sent.timeouts == 0, "seed {seed}: {sent:?}");
        let syndromes = pair.syndromes(1);
        assert!(!syndromes.contains(&SYNDROME_TRIMMED), "its NAK is that of IBTA");
    }
}

/// One-packet WRITEs with immediate data, their numbers from 1 on, taken from the wire.
fn immediates(pair: &mut Pair, count: u32) -> Vec<Frame> {
    let frame = |id: u32| {
        let remote = Remote { va: BASE + u64::from(id * MTU), rkey: pair.sides[1].key };
        let local = pair.sge(0, u64::from(id * MTU), MTU);
        let side = &mut pair.sides[0];
        let wr = SendWr::new(id.into(), SendOp::WriteImm(remote, id), local);
        side.qp.post_send(wr, &side.memory).unwrap();
        pair.now += Span::from_us(1);
        pair.take(0).unwrap()
    };
    (1..=count).map(frame).collect()
}

fn taken(pair: &mut Pair) -> Vec<u32> {
    let qp = &mut pair.sides[1].qp;
    std::iter::from_fn(|| qp.poll_cq()).filter_map(|done| done.imm).collect()
}

/// The one receive is for the expected packet, however early another one arrived.
#[test]
fn early_immediate_data_takes_no_receive_from_what_comes_before_it() {
    let mut pair = Pair::new(&selective(100));
    pair.recv(1, 0, 0, 0);
    let frames = immediates(&mut pair, 2);
    pair.deliver(1, &frames[1]);
    assert!(pair.take(1).is_none(), "nothing is said of a packet that may have to come again");
    pair.deliver(1, &frames[0]);
    assert_eq!(taken(&mut pair), [1]);
    // The second has no receive to complete: it is requested again when there is one.
    pair.recv(1, 0, 0, 0);
    pair.run(1000);
    let counters = [0, 1].map(|side| *pair.sides[side].qp.counters());
    assert_eq!((counters[1].rnr_naks_sent, counters[0].retransmitted_packets), (1, 1));
    assert_eq!(pair.sides[1].done.iter().filter_map(|done| done.imm).collect::<Vec<_>>(), [2]);
    assert_eq!(counters[1].accepted_payload_bytes, 2 * u64::from(MTU));
}

/// With a receive for each packet before it, early immediate data is acknowledged when it arrives.
#[test]
fn early_immediate_data_with_receives_enough_is_acknowledged() {
    let mut pair = Pair::new(&selective(100));
    (0..2).for_each(|_| pair.recv(1, 0, 0, 0));
    let frames = immediates(&mut pair, 3);
    pair.deliver(1, &frames[1]);
    let sack = pair.take(1).unwrap();
    assert_eq!(sack.headers.aeth().unwrap().syndrome, SYNDROME_SACK);
    pair.deliver(1, &frames[2]);
    assert!(pair.take(1).is_none(), "the third may find none");
    pair.deliver(1, &frames[0]);
    assert_eq!(taken(&mut pair), [1, 2]);
}

#[test]
fn receives_that_come_one_by_one_serve_immediate_data_in_order() {
    for seed in 0..30 {
        let mut pair = Pair::new(&Setup { seed, ..selective(8) });
        pair.faults = Faults { jitter_us: seed % 8, loss_percent: seed % 5, ..Faults::default() };
        (0..=seed % 3).for_each(|_| pair.recv(1, 0, 0, 0));
        pair.refills = SLOTS;
        for id in 0..SLOTS {
            let remote = Remote { va: BASE + id * SLOT, rkey: pair.sides[1].key };
            let local = pair.sge(0, id * SLOT, MTU + id as u32);
            let side = &mut pair.sides[0];
            let wr = SendWr::new(id, SendOp::WriteImm(remote, id as u32), local);
            side.qp.post_send(wr, &side.memory).unwrap();
        }
        pair.run(200_000);
        let received: Vec<u32> = pair.sides[1].done.iter().filter_map(|done| done.imm).collect();
        assert_eq!(received, (0..SLOTS as u32).collect::<Vec<_>>(), "seed {seed}");
        let sent: u64 = (0..SLOTS).map(|id| u64::from(MTU) + id).sum();
        assert_eq!(pair.sides[1].qp.counters().accepted_payload_bytes, sent, "seed {seed}");
    }
}

/// A copy of an RNR NAK costs no retry, and one that arrives after the acknowledgement starts no wait.
#[test]
fn an_rnr_nak_counts_once() {
    let mut pair = Pair::new(&Setup { rnr_retry: 1, ..selective(0) });
    let frames = immediates(&mut pair, 1);
    pair.deliver(1, &frames[0]);
    let nak = pair.take(1).unwrap();
    (0..2).for_each(|_| pair.deliver(0, &nak));
    (0..2).for_each(|_| pair.recv(1, 0, 0, 0));
    pair.run(1000);
    assert_eq!(pair.sides[0].done[0].status, Status::Success);
    pair.deliver(0, &nak);
    assert_eq!(pair.sides[0].qp.counters().stale_acks, 1);
    immediates(&mut pair, 1);
}

/// The receiver's RNR wait is longer than the ACK timeout, which does not expire meanwhile.
#[test]
fn no_timeout_ends_while_a_receive_is_waited_for() {
    let mut pair = Pair::new(&selective(0));
    let frames = immediates(&mut pair, 2);
    pair.deliver(1, &frames[0]);
    let mut nak = pair.take(1).unwrap();
    let Leading::Aeth(aeth) = &mut nak.headers.leading else { panic!("an AETH") };
    aeth.syndrome = Syndrome::RnrNak(12).encode(); // 640 us; the timeout is 131 us
    pair.deliver(0, &nak);
    let qp = &mut pair.sides[0].qp;
    qp.on_time(Time::ZERO + Span::from_us(300));
    assert_eq!(qp.counters().timeouts, 0);
    // The second was lost: its timer runs when the wait is over.
    (0..2).for_each(|_| pair.recv(1, 0, 0, 0));
    pair.run(1000);
    let sent = *pair.sides[0].qp.counters();
    assert_eq!((sent.timeouts, sent.retransmitted_packets), (1, 2));
    assert!(pair.now > Time::ZERO + Span::from_us(640 + 131));
}

#[test]
fn only_writes_are_sent_selectively() {
    let mut pair = Pair::new(&selective(0));
    let local = pair.sge(0, 0, 8);
    let remote = Remote { va: BASE, rkey: pair.sides[1].key };
    for op in [SendOp::Send, SendOp::Read(remote), SendOp::FetchAdd { remote, add: 1 }] {
        let side = &mut pair.sides[0];
        let posted = side.qp.post_send(SendWr::new(1, op, local), &side.memory);
        assert_eq!(posted, Err(PostError::Unsupported));
    }
    assert_eq!(pair.sides[0].qp.state(), QpState::Rts);
}
