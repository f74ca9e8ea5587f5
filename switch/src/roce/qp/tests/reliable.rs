//! RC in cases with known packets.

use std::sync::Arc;

use wireyard_tables::time::{Span, Time};

use super::channel::{BASE, MTU, Pair, Setup, Side, ready};
use crate::roce::opcode::Service;
use crate::roce::psn::Psn;
use crate::roce::qp::{Attrs, QpConfig, QpState, QueuePair};
use crate::roce::rp::RateAlgorithm;
use crate::roce::rp::program::{Instance, Program, Sender};
use crate::roce::verbs::{Remote, SendOp, SendWr, Status};
use crate::units::Dilation;

fn remote(pair: &Pair, offset: u64) -> Remote {
    Remote { va: BASE + offset, rkey: pair.sides[1].key }
}

fn post(pair: &mut Pair, id: u64, op: SendOp, offset: u64, len: u32) {
    let local = pair.sge(0, offset, len);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(id, op, local), &side.memory).unwrap();
}

#[test]
fn a_write_is_cut_by_the_path_mtu() {
    let mut pair = Pair::new(&Setup { psn: 0xff_fffe, ack_every: 100, ..Setup::default() });
    let target = remote(&pair, 4096);
    post(&mut pair, 1, SendOp::Write(target), 0, 3 * MTU + 5);
    pair.run(1000);
    assert_eq!(pair.opcodes(0), [0x06, 0x07, 0x07, 0x08]);
    let frames: Vec<_> = pair.log.iter().filter(|f| f.0 == 0).map(|f| &f.1).collect();
    let psns: Vec<_> = frames.iter().map(|f| f.headers.bth.psn.get()).collect();
    assert_eq!(psns, [0xff_fffe, 0xff_ffff, 0, 1]);
    let reth = frames[0].headers.reth().unwrap();
    assert_eq!((reth.va, reth.len_bytes), (BASE + 4096, 3 * MTU + 5));
    assert!(frames[1..].iter().all(|f| f.headers.reth().is_none()));
    assert_eq!(frames[3].headers.bth.pad, 3);
    let ack_req: Vec<_> = frames.iter().map(|f| f.headers.bth.ack_req).collect();
    assert_eq!(ack_req, [false, false, false, true]);
    assert_eq!(pair.bytes(1)[4096..4096 + 773], pair.bytes(0)[..773]);
    // One ACK with the PSN of the last packet, MSN 1, no credits.
    let acks: Vec<_> = pair.log.iter().filter(|f| f.0 == 1).map(|f| f.1.headers).collect();
    assert_eq!(acks.len(), 1);
    assert_eq!((acks[0].bth.opcode, acks[0].bth.psn), (0x11, Psn::new(1)));
    assert_eq!((acks[0].aeth().unwrap().syndrome, acks[0].aeth().unwrap().msn), (0x1f, 1));
}

#[test]
fn every_form_of_send_reaches_the_receiver() {
    let mut pair = Pair::new(&Setup::default());
    let victim = {
        use crate::roce::memory::{Access, Bytes};
        let memory = &mut pair.sides[1].memory;
        memory.register(0, Access::ALL, Box::new(Bytes::zeroed(8))).unwrap()
    };
    for id in 0..4 {
        pair.recv(1, id, 8192 + id * 1024, 1024);
    }
    post(&mut pair, 0, SendOp::Send, 0, 0);
    post(&mut pair, 1, SendOp::SendImm(0xaabb_ccdd), 0, 600);
    post(&mut pair, 2, SendOp::SendInv(victim), 0, 10);
    let target = remote(&pair, 0);
    post(&mut pair, 3, SendOp::WriteImm(target, 7), 1024, 300);
    pair.run(1000);
    assert_eq!(pair.opcodes(0), [0x04, 0x00, 0x01, 0x03, 0x17, 0x06, 0x09]);
    let got: Vec<_> = pair.sides[1].done.iter().map(|c| (c.len_bytes, c.imm)).collect();
    assert_eq!(got, [(0, None), (600, Some(0xaabb_ccdd)), (10, None), (300, Some(7))]);
    assert_eq!(pair.sides[1].done[2].invalidated, Some(victim));
    assert!(pair.sides[1].memory.backing(victim).is_none());
    assert!(pair.sides[0].done.iter().all(|c| c.status == Status::Success));
}

#[test]
fn a_read_owns_one_psn_for_each_response() {
    let mut pair = Pair::new(&Setup::default());
    let source = remote(&pair, 2048);
    post(&mut pair, 1, SendOp::Read(source), 0, 3 * MTU);
    post(&mut pair, 2, SendOp::Write(source), 4096, 1);
    pair.run(1000);
    assert_eq!(pair.opcodes(1), [0x0d, 0x0e, 0x0f, 0x11]);
    assert_eq!(pair.opcodes(0), [0x0c, 0x0a]);
    assert_eq!(
        pair.log.iter().find(|f| f.1.headers.bth.opcode == 0x0a).unwrap().1.headers.bth.psn.get(),
        3
    );
    assert_eq!(pair.sides[0].done.len(), 2);
}

#[test]
fn a_lost_read_response_is_asked_for_from_where_it_broke() {
    let mut pair = Pair::new(&Setup::default());
    let mut lost = false;
    pair.drop = Some(Box::new(move |from, frame| {
        let hit = from == 1 && frame.headers.bth.psn.get() == 2 && !lost;
        lost |= hit;
        hit
    }));
    let source = remote(&pair, 2048);
    post(&mut pair, 1, SendOp::Read(source), 0, 5 * MTU + 9);
    pair.run(1000);
    let again: Vec<_> = pair.log.iter().filter(|f| f.0 == 0).map(|f| f.1.headers).collect();
    assert_eq!(again.len(), 2, "one repeat, not one for each late response");
    let reth = again[1].reth().unwrap();
    assert_eq!(again[1].bth.psn.get(), 2);
    assert_eq!((reth.va, reth.len_bytes), (BASE + 2048 + 512, 3 * MTU + 9));
    assert_eq!(pair.bytes(0)[..1289], pair.bytes(1)[2048..2048 + 1289]);
    assert_eq!(pair.sides[0].qp.counters().implied_naks, 1);
    assert_eq!(pair.sides[0].qp.counters().timeouts, 0);
}

#[test]
fn a_response_that_is_missing_again_after_a_timeout_is_asked_for_at_once() {
    let mut pair = Pair::new(&Setup::default());
    let mut lost = 0;
    pair.drop = Some(Box::new(move |from, frame| {
        let hit = from == 1 && frame.headers.bth.psn.get() == 0 && lost < 3;
        lost += u32::from(hit);
        hit
    }));
    let source = remote(&pair, 2048);
    post(&mut pair, 1, SendOp::Read(source), 0, 3 * MTU);
    pair.run(1000);
    assert_eq!(pair.sides[0].done.len(), 1);
    let counters = pair.sides[0].qp.counters();
    assert_eq!((counters.implied_naks, counters.timeouts), (2, 1));
}

#[test]
fn a_lost_atomic_answer_is_replayed_and_not_executed_twice() {
    let mut pair = Pair::new(&Setup::default());
    let mut lost = false;
    pair.drop = Some(Box::new(move |from, _| from == 1 && !std::mem::replace(&mut lost, true)));
    let word = remote(&pair, 0);
    let before = u64::from_le_bytes(pair.bytes(1)[..8].try_into().unwrap());
    post(&mut pair, 1, SendOp::FetchAdd { remote: word, add: 5 }, 64, 8);
    pair.run(1000);
    assert_eq!(u64::from_le_bytes(pair.bytes(1)[..8].try_into().unwrap()), before.wrapping_add(5));
    assert_eq!(u64::from_le_bytes(pair.bytes(0)[64..72].try_into().unwrap()), before);
    assert_eq!(pair.opcodes(1), [0x12, 0x12]);
}

/// The first side's first packet with this number is lost.
fn lose_once(pair: &mut Pair, psn: u32) {
    let mut lost = false;
    pair.drop = Some(Box::new(move |from, frame| {
        let hit = from == 0 && frame.headers.bth.psn.get() == psn && !lost;
        lost |= hit;
        hit
    }));
}

#[test]
fn one_nak_for_a_gap_then_silence_then_go_back() {
    let mut pair = Pair::new(&Setup { ack_every: 100, ..Setup::default() });
    lose_once(&mut pair, 3);
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 8192, 20 * MTU);
    pair.run(1000);
    let naks: Vec<_> = pair.syndromes(1).into_iter().filter(|s| *s == 0x60).collect();
    assert_eq!(naks, [0x60]);
    let nak = pair.log.iter().find(|f| f.0 == 1).unwrap();
    assert_eq!(nak.1.headers.bth.psn.get(), 3, "the NAK names the expected PSN");
    assert_eq!(pair.bytes(1)[..20 * 256], pair.bytes(0)[8192..8192 + 20 * 256]);
    assert_eq!(pair.sides[0].qp.counters().sequence_naks_received, 1);
    assert_eq!(pair.sides[0].qp.counters().timeouts, 0);
    // Sixteen packets behind the gap, and one step back for the sender's one.
    let (sender, receiver) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
    assert_eq!((sender.rewinds, receiver.steps_back), (1, 1));
    assert!(receiver.out_of_sequence > 1);
}

/// Rate control lowers the window while packets are sent again, none of which has requested an acknowledgement yet.
#[test]
fn a_window_that_shrinks_behind_a_step_back_does_not_stop_the_sender() {
    let mut pair = Pair::new(&Setup { ack_every: 8, ..Setup::default() });
    lose_once(&mut pair, 3);
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 8192, 20 * MTU);
    while pair.sides[0].qp.counters().rewinds == 0 {
        assert!(pair.step(), "a NAK comes back");
    }
    // Some are sent again, at their pace.
    while pair.sides[0].qp.counters().retransmitted_packets < 4 {
        match pair.take(0) {
            Some(again) => pair.transmit(0, again),
            None => pair.now = pair.sides[0].qp.data_deadline().instant().expect("a next packet"),
        }
    }
    pair.sides[0].qp.requester.set_window(2);
    pair.run(1000);
    assert_eq!(pair.bytes(1)[..20 * 256], pair.bytes(0)[8192..8192 + 20 * 256]);
    assert_eq!(pair.sides[0].qp.counters().timeouts, 0);
}

#[test]
fn a_duplicate_write_is_acknowledged_with_the_newest_psn_and_not_executed() {
    let mut pair = Pair::new(&Setup::default());
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 64, 8);
    post(&mut pair, 2, SendOp::Write(target), 128, 8);
    pair.run(1000);
    let first = pair.log[0].1.clone();
    assert_eq!(first.headers.bth.opcode, 0x0a);
    pair.deliver(1, &first);
    let ack = pair.take(1).unwrap().headers;
    assert_eq!((ack.bth.psn.get(), ack.aeth().unwrap().msn), (1, 2));
    assert_eq!(pair.bytes(1)[..8], pair.bytes(0)[128..136], "the second write stands");
}

#[test]
fn acknowledgements_coalesce_when_they_wait() {
    let mut pair = Pair::new(&Setup { ack_every: 1, ..Setup::default() });
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 8192, 4 * MTU);
    for _ in 0..4 {
        pair.now = pair.sides[0].qp.next_deadline().not_before(pair.now).instant().unwrap();
        let frame = pair.take(0).unwrap();
        assert!(frame.headers.bth.ack_req);
        pair.deliver(1, &frame);
    }
    assert_eq!(pair.take(1).unwrap().headers.bth.psn.get(), 3);
    assert!(pair.take(1).is_none());
}

#[test]
fn packets_leave_at_the_rate_and_never_early() {
    let mut pair = Pair::new(&Setup { memory_bytes: 1 << 20, ..Setup::default() });
    let target = remote(&pair, 0);
    let packets = 400; // less than the ACK timeout
    post(&mut pair, 1, SendOp::Write(target), 0, packets * MTU);
    let Side { qp, memory, .. } = &mut pair.sides[0];
    let (mut now, mut sent) = (Time::ZERO, 0);
    let mut last = Time::ZERO;
    while sent < packets {
        let early = Time::from_ps(now.as_ps().saturating_sub(1));
        assert!(qp.poll_tx(early, memory).is_none() || sent == 0);
        if sent == 0 || qp.poll_tx(now, memory).is_some() {
            sent += 1;
            last = now;
        }
        now = qp.next_deadline().not_before(now).instant().unwrap();
    }
    // 62 + 256 B each, 16 more in the first; 10 Gb/s. The last leaves one gap before the end.
    let exact = (u64::from(packets - 1) * 318 + 16) * 800;
    assert!(last.since(Time::ZERO).as_ps().abs_diff(exact) <= 2, "{last} vs {exact} ps");
}

#[test]
fn a_gap_of_rate_control_is_between_packets_of_every_length() {
    let text =
        "rate_control: t\non: { start: [ std.gap_ns = 5000 ], ack: [ std.gap_ns = 5000 ] }\n";
    let program = Arc::new(Program::parse("t.yaml", text).unwrap());
    let sender =
        Sender { line_rate_bps: 10_000_000_000, packet_bytes: MTU, dilation: Dilation::ONE };
    let instance = Instance::new(&program, &sender, &[]).unwrap();
    let config = QpConfig::new(RateAlgorithm::Program(Arc::new(instance)));
    let mut pair = Pair::new(&Setup::default());
    pair.sides[0].qp = QueuePair::new(10, Service::Rc, &config);
    ready(&mut pair.sides[0].qp, 11, &Setup::default());
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 0, 8);
    post(&mut pair, 2, SendOp::Write(target), 0, 2 * MTU);
    let mut leaves = Vec::new();
    while leaves.len() < 3 {
        match pair.take(0) {
            Some(_) => leaves.push(pair.now),
            None => pair.now = pair.sides[0].qp.next_deadline().instant().unwrap(),
        }
    }
    assert_eq!(leaves, [Time::ZERO, Time::from_ns(5_000), Time::from_ns(10_000)]);
}

/// READ responses and requests of one queue pair take turns, and together they have one rate.
#[test]
fn responses_and_requests_take_turns_at_one_rate() {
    let mut pair = Pair::new(&Setup { memory_bytes: 1 << 20, ..Setup::default() });
    let source = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Read(source), 0, 4 * MTU);
    let request = pair.take(0).unwrap();
    pair.deliver(1, &request);
    let (local, key) = (pair.sge(1, 0, 4 * MTU), pair.sides[0].key);
    let target = Remote { va: BASE, rkey: key };
    let side = &mut pair.sides[1];
    side.qp.post_send(SendWr::new(2, SendOp::Write(target), local), &side.memory).unwrap();
    let (mut order, mut leaves) = (Vec::new(), Vec::new());
    while order.len() < 8 {
        match pair.take(1) {
            Some(frame) => {
                order.push(frame.headers.bth.opcode);
                leaves.push(pair.now);
            }
            None => pair.now = pair.sides[1].qp.next_deadline().instant().unwrap(),
        }
    }
    assert_eq!(order, [0x06, 0x0d, 0x07, 0x0e, 0x07, 0x0e, 0x08, 0x0f]);
    // At 10 Gb/s no packet takes less than its 62 + 256 bytes.
    let gaps = leaves.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(
        gaps.clone().all(|gap| gap >= Span::from_ps(318 * 800)),
        "{:?}",
        gaps.collect::<Vec<_>>()
    );
}

#[test]
fn sqd_finishes_what_was_started_and_starts_nothing() {
    let mut pair = Pair::new(&Setup::default());
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 8192, 4 * MTU);
    post(&mut pair, 2, SendOp::Write(target), 8192, MTU);
    let first = pair.take(0).unwrap();
    pair.deliver(1, &first);
    pair.sides[0].qp.modify(QpState::Sqd, &Attrs::default()).unwrap();
    assert!(!pair.sides[0].qp.is_drained());
    pair.run(1000);
    assert!(pair.sides[0].qp.is_drained());
    assert_eq!(pair.sides[0].done.len(), 1);
    pair.sides[0].qp.modify(QpState::Rts, &Attrs::default()).unwrap();
    pair.run(1000);
    assert_eq!(pair.sides[0].done.len(), 2);
}

#[test]
fn a_fence_waits_for_earlier_reads() {
    let mut pair = Pair::new(&Setup::default());
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Read(target), 8192, 8);
    let local = pair.sge(0, 0, 8);
    let side = &mut pair.sides[0];
    let fenced = SendWr { fence: true, ..SendWr::new(2, SendOp::Write(target), local) };
    side.qp.post_send(fenced, &side.memory).unwrap();
    let read = pair.take(0).unwrap();
    pair.now += Span::from_us(10);
    assert!(pair.take(0).is_none());
    pair.deliver(1, &read);
    let answer = pair.take(1).unwrap();
    pair.deliver(0, &answer);
    assert_eq!(pair.take(0).unwrap().headers.bth.opcode, 0x0a);
}

#[test]
fn becn_and_cnp_reach_the_reaction_point() {
    let mut pair = Pair::new(&Setup::default());
    let target = remote(&pair, 0);
    post(&mut pair, 1, SendOp::Write(target), 8192, MTU);
    let frame = pair.take(0).unwrap();
    pair.deliver(1, &frame);
    let mut ack = pair.take(1).unwrap();
    ack.headers.bth.becn = true;
    pair.deliver(0, &ack);
    ack.headers.bth.opcode = 0x81;
    pair.deliver(0, &ack);
    assert_eq!(pair.sides[0].qp.counters().cnps_received, 2);
}
