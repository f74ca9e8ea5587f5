//! Random requests over a channel, and a slow model of their effects.
//!
//! The fuzz target `endpoints` (`tests/src/fuzz`) includes this file by its path.

use super::channel::{BASE, Faults, Pair, Random, Setup};
use crate::roce::qp::QpState;
use crate::roce::verbs::{CompletionOp, Remote, SendOp, SendWr, Status};

/// A slow model of the requests' effects on both memories, in order.
struct Model {
    memory: [Vec<u8>; 2],
    received: Vec<(u64, u32, Option<u32>)>,
}

const SLOT: u64 = 2048;
const SLOTS: u64 = 24;

/// Each request has a slot of its own, so that order cannot hide behind overwriting; ATOMICs share one word.
fn random_requests(pair: &mut Pair, random: &mut Random, model: &mut Model) {
    let word = SLOTS * SLOT;
    let mut receives = 0;
    for id in 0..SLOTS {
        let (offset, len) = (id * SLOT, random.below(SLOT + 1) as u32);
        let rkey = pair.sides[1].key;
        let remote = Remote { va: BASE + offset, rkey };
        let span = offset as usize..(offset + u64::from(len)) as usize;
        let mut local = pair.sge(0, offset, len);
        let op = match random.below(7) {
            0 => SendOp::Write(remote),
            1 => SendOp::WriteImm(remote, id as u32),
            2 => SendOp::Read(remote),
            3 => SendOp::FetchAdd { remote: Remote { va: BASE + word, rkey }, add: id + 1 },
            4 => {
                let remote = Remote { va: BASE + word, rkey };
                SendOp::CmpSwap { remote, compare: read_word(&model.memory[1], word), swap: id }
            }
            5 => SendOp::SendImm(id as u32),
            _ => SendOp::Send,
        };
        match op {
            SendOp::Write(_) => copy(model, 0, span),
            SendOp::Read(_) => copy(model, 1, span),
            SendOp::FetchAdd { .. } | SendOp::CmpSwap { .. } => {
                local.len = 8;
                let old = read_word(&model.memory[1], word);
                let new = if let SendOp::CmpSwap { swap, .. } = op { swap } else { old + id + 1 };
                model.memory[1][word as usize..][..8].copy_from_slice(&new.to_le_bytes());
                model.memory[0][offset as usize..][..8].copy_from_slice(&old.to_le_bytes());
            }
            _ => {
                // Receives are posted for exactly these, late for some of them (RNR NAK).
                let imm = matches!(op, SendOp::WriteImm(..) | SendOp::SendImm(_));
                model.received.push((receives, len, imm.then_some(id as u32)));
                pair.recv(1, receives, offset, SLOT as u32);
                receives += 1;
                copy(model, 0, span);
            }
        }
        let side = &mut pair.sides[0];
        side.qp.post_send(SendWr::new(id, op, local), &side.memory).unwrap();
    }
}

fn read_word(memory: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(memory[at as usize..][..8].try_into().unwrap())
}

fn copy(model: &mut Model, from: usize, span: std::ops::Range<usize>) {
    let bytes = model.memory[from][span.clone()].to_vec();
    model.memory[1 - from][span].copy_from_slice(&bytes);
}

/// Requests of a seed over a bad channel, from a PSN on.
///
/// # Panics
/// A byte, a completion or the order is not that of the model.
pub(super) fn run(seed: u64, faults: Faults, psn: u32) -> Pair {
    let mut pair = Pair::new(&Setup { seed, psn, ..Setup::default() });
    pair.faults = faults;
    let mut random = Random(seed ^ 0xabcd);
    let mut model = Model { memory: [pair.bytes(0), pair.bytes(1)], received: Vec::new() };
    random_requests(&mut pair, &mut random, &mut model);
    pair.run(200_000);
    check(&pair, &model, seed);
    pair
}

fn check(pair: &Pair, model: &Model, seed: u64) {
    let sends = &pair.sides[0].done;
    assert_eq!(sends.len() as u64, SLOTS, "seed {seed}: one completion for each request");
    assert!(sends.iter().enumerate().all(|(i, c)| c.wr_id == i as u64), "seed {seed}: in order");
    if pair.sides[0].qp.state() == QpState::Err {
        let bad = sends.iter().position(|c| c.status != Status::Success).unwrap();
        assert_eq!(sends[bad].status, Status::RetryExceeded, "seed {seed}");
        let rest = &sends[bad + 1..];
        assert!(rest.iter().all(|c| c.status == Status::WorkRequestFlushed), "seed {seed}");
        return;
    }
    assert!(sends.iter().all(|c| c.status == Status::Success), "seed {seed}: {sends:?}");
    assert!(pair.bytes(0) == model.memory[0], "seed {seed}: requester memory");
    assert!(pair.bytes(1) == model.memory[1], "seed {seed}: responder memory");
    let received: Vec<_> =
        pair.sides[1].done.iter().map(|c| (c.wr_id, c.len_bytes, c.imm)).collect();
    assert_eq!(received, model.received, "seed {seed}: each message once and in order");
    let ops = |op| pair.sides[1].done.iter().filter(|c| c.op == op).count();
    assert_eq!(
        ops(CompletionOp::Recv) + ops(CompletionOp::RecvWriteImm),
        model.received.len(),
        "seed {seed}"
    );
}
