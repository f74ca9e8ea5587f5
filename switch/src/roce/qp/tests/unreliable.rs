//! UC and UD.

use super::channel::{BASE, MTU, Pair, Setup};
use crate::roce::opcode::Service;
use crate::roce::verbs::{PostError, Remote, SendOp, SendWr, Status};

fn uc() -> Pair {
    Pair::new(&Setup { service: Service::Uc, ..Setup::default() })
}

#[test]
fn uc_completes_at_once_and_is_never_answered() {
    let mut pair = uc();
    pair.recv(1, 9, 8192, 4096);
    let local = pair.sge(0, 0, 5 * MTU);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, SendOp::SendImm(4), local), &side.memory).unwrap();
    pair.run(1000);
    assert_eq!(pair.opcodes(0), [0x20, 0x21, 0x21, 0x21, 0x23]);
    assert!(pair.opcodes(1).is_empty());
    assert_eq!(pair.sides[0].done[0].status, Status::Success);
    assert_eq!((pair.sides[1].done[0].imm, pair.sides[1].done[0].len_bytes), (Some(4), 5 * MTU));
    assert_eq!(pair.bytes(1)[8192..8192 + 1280], pair.bytes(0)[..1280]);
}

#[test]
fn uc_drops_the_rest_of_a_broken_message_and_takes_the_next() {
    let mut pair = uc();
    pair.recv(1, 9, 8192, 4096);
    pair.drop = Some(Box::new(|_, frame| frame.headers.bth.psn.get() == 1));
    for id in 0..2 {
        let local = pair.sge(0, id * 2048, 3 * MTU);
        let side = &mut pair.sides[0];
        side.qp.post_send(SendWr::new(id, SendOp::Send, local), &side.memory).unwrap();
    }
    pair.run(1000);
    assert_eq!(pair.sides[0].done.len(), 2, "the sender does not know");
    assert_eq!(pair.sides[1].done.len(), 1, "the receive serves the second message");
    assert_eq!(pair.bytes(1)[8192..8192 + 768], pair.bytes(0)[2048..2048 + 768]);
}

#[test]
fn uc_has_no_reads_and_a_bad_write_is_dropped() {
    let mut pair = uc();
    let local = pair.sge(0, 0, 8);
    let remote = Remote { va: BASE, rkey: 0xbad };
    let side = &mut pair.sides[0];
    let read = side.qp.post_send(SendWr::new(1, SendOp::Read(remote), local), &side.memory);
    assert_eq!(read, Err(PostError::Unsupported));
    side.qp.post_send(SendWr::new(1, SendOp::Write(remote), local), &side.memory).unwrap();
    pair.run(100);
    assert_eq!(pair.sides[1].qp.counters().dropped_packets, 1);
    assert!(pair.opcodes(1).is_empty());
}

#[test]
fn datagrams_carry_their_sender_behind_a_grh_area() {
    let mut pair = Pair::new(&Setup { service: Service::Ud, ..Setup::default() });
    pair.recv(1, 9, 8192, 40 + MTU);
    let local = pair.sge(0, 0, 100);
    let datagram = |qkey| SendOp::Datagram { path: 3, dest_qp: 11, qkey, imm: Some(2) };
    let side = &mut pair.sides[0];
    // A wrong Q_Key is dropped; with the high bit the queue pair's own (0x11) is used.
    for qkey in [0x12, 0x8000_0000] {
        side.qp.post_send(SendWr::new(1, datagram(qkey), local), &side.memory).unwrap();
    }
    let long = SendWr::new(1, datagram(0), pair.sge(0, 0, MTU + 1));
    let side = &mut pair.sides[0];
    assert_eq!(side.qp.post_send(long, &side.memory), Err(PostError::BadLength));
    pair.run(100);
    let done = &pair.sides[1].done;
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].len_bytes, done[0].source, done[0].imm), (140, Some((10, 0)), Some(2)));
    assert_eq!(pair.bytes(1)[8232..8332], pair.bytes(0)[..100]);
    assert_eq!(pair.sides[1].qp.counters().dropped_packets, 1);
    assert_eq!(pair.sides[0].done.len(), 2);
}
