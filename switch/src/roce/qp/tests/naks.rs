//! Every refusal: the packets on the wire and the completions of both sides.

use super::channel::{BASE, Frame, MTU, Pair, Setup};
use crate::roce::memory::{Access, Bytes};
use crate::roce::packet::{Aeth, Bth, Headers, Leading, Trailing};
use crate::roce::psn::Psn;
use crate::roce::qp::{Attrs, QpState};
use crate::roce::verbs::{Remote, SendOp, SendWr, Status};

fn refused(setup: &Setup, op: impl Fn(&Pair) -> (SendOp, u32)) -> Pair {
    let mut pair = Pair::new(setup);
    let (op, len) = op(&pair);
    let local = pair.sge(0, 0, len);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, op, local), &side.memory).unwrap();
    side.qp.post_send(SendWr::new(2, SendOp::Send, local), &side.memory).unwrap();
    let before = pair.bytes(1);
    pair.run(10_000);
    assert!(pair.bytes(1) == before, "a refused request changes nothing");
    pair
}

fn statuses(pair: &Pair, side: usize) -> Vec<Status> {
    pair.sides[side].done.iter().map(|c| c.status).collect()
}

fn expect(pair: &Pair, nak: u8, status: Status) {
    assert_eq!(pair.syndromes(1), [nak]);
    assert_eq!(statuses(pair, 0), [status, Status::WorkRequestFlushed]);
    assert_eq!(pair.sides[0].qp.state(), QpState::Err);
    assert_eq!(pair.sides[1].qp.state(), QpState::Err);
}

#[test]
fn remote_access_errors() {
    let wrong_key =
        refused(&Setup::default(), |_| (SendOp::Write(Remote { va: BASE, rkey: 0xdead }), 8));
    expect(&wrong_key, 0x62, Status::RemoteAccess);
    let beyond = refused(&Setup::default(), |p| {
        (SendOp::Write(Remote { va: BASE + 65_530, rkey: p.sides[1].key }), 8)
    });
    expect(&beyond, 0x62, Status::RemoteAccess);
    let read = refused(&Setup::default(), |p| {
        (SendOp::Read(Remote { va: BASE - 1, rkey: p.sides[1].key }), 8)
    });
    expect(&read, 0x62, Status::RemoteAccess);
}

#[test]
fn a_region_that_goes_during_a_write_ends_it() {
    let mut pair = Pair::new(&Setup::default());
    let (local, key) = (pair.sge(0, 0, 3 * MTU), pair.sides[1].key);
    let side = &mut pair.sides[0];
    let write = SendOp::Write(Remote { va: BASE, rkey: key });
    side.qp.post_send(SendWr::new(1, write, local), &side.memory).unwrap();
    let first = pair.take(0).unwrap();
    pair.deliver(1, &first);
    assert!(pair.sides[1].memory.remove(key).is_some());
    pair.run(10_000);
    assert_eq!((pair.syndromes(1), statuses(&pair, 0)), (vec![0x62], vec![Status::RemoteAccess]));
    assert_eq!(pair.sides[1].qp.counters().accepted_payload_bytes, u64::from(MTU));
    assert_eq!(pair.sides[1].qp.state(), QpState::Err);
}

#[test]
fn a_region_that_goes_during_a_read_ends_it() {
    let mut pair = Pair::new(&Setup::default());
    let (local, key) = (pair.sge(0, 0, 3 * MTU), pair.sides[1].key);
    let side = &mut pair.sides[0];
    let read = SendOp::Read(Remote { va: BASE, rkey: key });
    side.qp.post_send(SendWr::new(1, read, local), &side.memory).unwrap();
    let request = pair.take(0).unwrap();
    pair.deliver(1, &request);
    let first = pair.take(1).unwrap();
    pair.deliver(0, &first);
    assert!(pair.sides[1].memory.remove(key).is_some());
    pair.run(10_000);
    assert_eq!((pair.syndromes(1), statuses(&pair, 0)), (vec![0x62], vec![Status::RemoteAccess]));
    assert_eq!(pair.sides[1].qp.state(), QpState::Err);
    assert_eq!(pair.sides[0].qp.counters().timeouts, 0);
}

#[test]
fn a_repeated_read_of_a_region_that_is_gone_is_refused() {
    let mut pair = Pair::new(&Setup::default());
    let (local, key) = (pair.sge(0, 0, 8), pair.sides[1].key);
    let side = &mut pair.sides[0];
    let read = SendOp::Read(Remote { va: BASE, rkey: key });
    side.qp.post_send(SendWr::new(1, read, local), &side.memory).unwrap();
    let request = pair.take(0).unwrap();
    pair.deliver(1, &request);
    assert!(pair.take(1).is_some(), "lost");
    assert!(pair.sides[1].memory.remove(key).is_some());
    pair.run(10_000);
    assert_eq!((pair.syndromes(1), statuses(&pair, 0)), (vec![0x62], vec![Status::RemoteAccess]));
    assert_eq!(pair.sides[0].qp.counters().timeouts, 1);
}

#[test]
fn a_send_invalidates_only_a_region_that_peers_have_access_to() {
    for exists in [true, false] {
        let mut pair = Pair::new(&Setup::default());
        let access = if exists { Access::LOCAL_WRITE } else { Access::ALL };
        let memory = &mut pair.sides[1].memory;
        let key = memory.register(0, access, Box::new(Bytes::zeroed(8))).unwrap();
        if !exists {
            assert!(memory.remove(key).is_some());
        }
        pair.recv(1, 5, 0, 64);
        let local = pair.sge(0, 0, 8);
        let side = &mut pair.sides[0];
        side.qp.post_send(SendWr::new(1, SendOp::SendInv(key), local), &side.memory).unwrap();
        pair.run(1000);
        assert_eq!(pair.syndromes(1), [0x62]);
        assert_eq!(statuses(&pair, 0), [Status::RemoteAccess]);
        assert_eq!(statuses(&pair, 1), [Status::WorkRequestFlushed]);
        assert_eq!(pair.sides[1].memory.backing(key).is_some(), exists);
    }
}

#[test]
fn a_region_without_the_right_is_refused() {
    let mut pair = Pair::new(&Setup::default());
    let memory = &mut pair.sides[1].memory;
    let key = memory.register(0, Access::REMOTE_READ, Box::new(Bytes::zeroed(64))).unwrap();
    let local = pair.sge(0, 0, 8);
    let side = &mut pair.sides[0];
    let remote = Remote { va: 0, rkey: key };
    let swap = SendOp::FetchAdd { remote, add: 1 };
    side.qp.post_send(SendWr::new(1, SendOp::Read(remote), local), &side.memory).unwrap();
    side.qp.post_send(SendWr::new(2, swap, local), &side.memory).unwrap();
    pair.run(1000);
    assert_eq!(statuses(&pair, 0), [Status::Success, Status::RemoteAccess]);
}

#[test]
fn operations_that_the_queue_pair_does_not_permit_are_invalid() {
    let setup = Setup { access: Access::REMOTE_READ, ..Setup::default() };
    let write = refused(&setup, |p| (SendOp::Write(Remote { va: BASE, rkey: p.sides[1].key }), 8));
    expect(&write, 0x61, Status::RemoteInvalidRequest);
    let setup = Setup { access: Access::REMOTE_WRITE, ..Setup::default() };
    let read = refused(&setup, |p| (SendOp::Read(Remote { va: BASE, rkey: p.sides[1].key }), 8));
    expect(&read, 0x61, Status::RemoteInvalidRequest);
}

#[test]
fn a_misaligned_atomic_is_invalid() {
    let pair = refused(&Setup::default(), |p| {
        let remote = Remote { va: BASE + 4, rkey: p.sides[1].key };
        (SendOp::FetchAdd { remote, add: 1 }, 8)
    });
    expect(&pair, 0x61, Status::RemoteInvalidRequest);
}

#[test]
fn a_send_longer_than_its_receive_is_a_length_error_on_the_receiver() {
    let mut pair = Pair::new(&Setup::default());
    pair.recv(1, 77, 0, 100);
    pair.recv(1, 78, 0, 100);
    let local = pair.sge(0, 0, 101);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, SendOp::Send, local), &side.memory).unwrap();
    pair.run(1000);
    assert_eq!(statuses(&pair, 0), [Status::RemoteInvalidRequest]);
    assert_eq!(statuses(&pair, 1), [Status::LocalLength, Status::WorkRequestFlushed]);
    assert_eq!(pair.sides[1].done[0].wr_id, 77);
}

#[test]
fn rnr_waits_and_succeeds_when_a_receive_comes() {
    let mut pair = Pair::new(&Setup { rnr_retry: 3, ..Setup::default() });
    let local = pair.sge(0, 0, 3 * MTU);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, SendOp::Send, local), &side.memory).unwrap();
    // Code 1 is 10 us; the receive is posted in time for the second try.
    for _ in 0..3 {
        let frame = pair.take(0);
        let Some(frame) = frame else { break };
        pair.deliver(1, &frame);
        pair.now = pair.sides[0].qp.next_deadline().instant().unwrap();
    }
    let nak = pair.take(1).unwrap();
    assert_eq!(nak.headers.aeth().unwrap().syndrome, 0x21);
    assert!(pair.take(1).is_none(), "later packets of the message are met with silence");
    pair.deliver(0, &nak);
    let until = pair.sides[0].qp.next_deadline().instant().unwrap();
    assert_eq!(until.since(pair.now).as_ns(), 10_000);
    assert!(pair.take(0).is_none(), "waiting");
    pair.recv(1, 5, 4096, 3 * MTU);
    pair.run(1000);
    assert_eq!(statuses(&pair, 0), [Status::Success]);
    assert_eq!(statuses(&pair, 1), [Status::Success]);
    assert_eq!(pair.sides[0].qp.counters().rnr_naks_received, 1);
}

#[test]
fn rnr_retries_run_out() {
    let pair = refused(&Setup { rnr_retry: 2, ..Setup::default() }, |_| (SendOp::Send, 8));
    assert_eq!(statuses(&pair, 0), [Status::RnrRetryExceeded, Status::WorkRequestFlushed]);
    assert_eq!(pair.syndromes(1), [0x21, 0x21, 0x21]);
    assert_eq!(pair.sides[1].qp.state(), QpState::Rts, "not the responder's fault");
}

#[test]
fn rnr_retry_seven_never_runs_out() {
    let mut pair = Pair::new(&Setup { rnr_retry: 7, ..Setup::default() });
    let local = pair.sge(0, 0, 8);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, SendOp::Send, local), &side.memory).unwrap();
    for _ in 0..100 {
        pair.now = pair.sides[0].qp.next_deadline().not_before(pair.now).instant().unwrap();
        let frame = pair.take(0).unwrap();
        pair.deliver(1, &frame);
        let nak = pair.take(1).unwrap();
        pair.deliver(0, &nak);
    }
    assert_eq!(pair.sides[0].qp.state(), QpState::Rts);
    pair.recv(1, 1, 0, 8);
    pair.run(100);
    assert_eq!(statuses(&pair, 0), [Status::Success]);
}

/// A request packet made by hand.
fn raw(opcode: u8, psn: u32, len: usize) -> Frame {
    let bth = Bth {
        opcode,
        solicited: false,
        pad: 0,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dest_qp: 11,
        ack_req: true,
        psn: Psn::new(psn),
    };
    Frame { headers: Headers::new(bth), payload: vec![1; len], trimmed: false }
}

fn syndrome_of(frames: &[Frame]) -> Option<u8> {
    let mut pair = Pair::new(&Setup::default());
    for id in 0..4 {
        pair.recv(1, id, 0, 4096);
    }
    for frame in frames {
        pair.deliver(1, frame);
    }
    let mut last = None;
    while let Some(frame) = pair.take(1) {
        last = frame.headers.aeth().map(|aeth| aeth.syndrome);
    }
    last
}

#[test]
fn packets_out_of_place_or_of_the_wrong_length_are_invalid() {
    let mtu = MTU as usize;
    let cases: &[(&str, Vec<Frame>)] = &[
        ("middle first", vec![raw(0x01, 0, mtu)]),
        ("last first", vec![raw(0x02, 0, 4)]),
        ("first twice", vec![raw(0x00, 0, mtu), raw(0x00, 1, mtu)]),
        ("write in a send", vec![raw(0x00, 0, mtu), raw(0x07, 1, mtu)]),
        ("read in a send", vec![raw(0x00, 0, mtu), raw(0x0c, 1, 0)]),
        ("short first", vec![raw(0x00, 0, mtu - 1)]),
        ("short middle", vec![raw(0x00, 0, mtu), raw(0x01, 1, mtu - 4)]),
        ("empty last", vec![raw(0x00, 0, mtu), raw(0x02, 1, 0)]),
        ("long only", vec![raw(0x04, 0, mtu + 1)]),
        ("write without RETH", vec![raw(0x0a, 0, 4)]),
        ("atomic without header", vec![raw(0x13, 0, 0)]),
    ];
    for (what, frames) in cases {
        assert_eq!(syndrome_of(frames), Some(0x61), "{what}");
    }
    assert_eq!(syndrome_of(&[raw(0x00, 0, mtu), raw(0x02, 1, 5)]), Some(0x1f));
    assert_eq!(syndrome_of(&[raw(0x04, 5, 4)]), Some(0x60));
}

#[test]
fn foreign_packets_are_dropped_and_counted() {
    let mut pair = Pair::new(&Setup::default());
    let mut limited = raw(0x04, 0, 4);
    limited.headers.bth.pkey = 0x7ffe;
    let uc = raw(0x24, 0, 4);
    let unknown = raw(0x1c, 0, 4);
    for frame in [limited, uc, unknown] {
        pair.deliver(1, &frame);
    }
    assert_eq!(pair.sides[1].qp.counters().dropped_packets, 3);
    assert!(pair.take(1).is_none());
}

#[test]
fn a_foreign_cnp_does_not_slow_a_queue_pair() {
    let mut pair = Pair::new(&Setup::default());
    let mut cnp = raw(0x81, 0, 16);
    let mut marked = raw(0x04, 0, 4);
    marked.headers.bth.becn = true;
    for frame in [&mut cnp, &mut marked] {
        frame.headers.bth.pkey = 0x7ffe;
        pair.deliver(1, frame);
    }
    let counters = |pair: &Pair| {
        let of = pair.sides[1].qp.counters();
        (of.cnps_received, of.dropped_packets)
    };
    assert_eq!(counters(&pair), (0, 2), "of another partition");
    cnp.headers.bth.pkey = 0x7fff;
    pair.deliver(1, &cnp);
    assert_eq!(counters(&pair), (1, 2), "a limited member of the same");
    pair.sides[1].qp.modify(QpState::Err, &Attrs::default()).unwrap();
    pair.deliver(1, &cnp);
    assert_eq!(counters(&pair), (1, 3), "nothing is sent in this state");
}

#[test]
fn answers_nobody_asked_for_are_ignored() {
    let mut pair = Pair::new(&Setup::default());
    for opcode in [0x0d, 0x10, 0x11, 0x12] {
        for psn in [0, 1, 0x80_0000, 0xff_ffff] {
            for syndrome in 0..=255 {
                let mut frame = raw(opcode, psn, 0);
                frame.headers.leading = Leading::Aeth(Aeth { syndrome, msn: 0 });
                frame.headers.trailing = Trailing::AtomicAck(3);
                pair.deliver(0, &frame);
            }
        }
    }
    assert_eq!(pair.sides[0].qp.state(), QpState::Rts);
}

#[test]
fn more_reads_than_the_responder_takes_are_invalid() {
    let mut pair = Pair::new(&Setup { max_rd_atomic: 1, ..Setup::default() });
    let key = pair.sides[1].key;
    for psn in 0..2 {
        let mut read = raw(0x0c, psn, 0);
        let reth = crate::roce::packet::Reth { va: BASE, rkey: key, len_bytes: 8 };
        read.headers.leading = Leading::Reth(reth);
        pair.deliver(1, &read);
    }
    let syndromes: Vec<_> = std::iter::from_fn(|| pair.take(1))
        .map(|frame| frame.headers.aeth().unwrap().syndrome)
        .collect();
    assert_eq!(syndromes, [0x61], "the READ in progress goes with the queue pair");
}
