//! Requests before the expected PSN (IBTA 9.7.5.1.5; rxe `duplicate_request`).
//!
//! SEND and WRITE are acknowledged again and not executed again. A READ is executed again, and may start inside its
//! original range. An ATOMIC is answered with the saved result. A READ or ATOMIC that is no longer saved is dropped
//! silently.

use super::super::opcode::{Kind, Op};
use super::super::packet::{InPacket, Reth};
use super::super::psn::Psn;
use super::super::qp::Ctx;
use super::Responder;
use super::reply::Saved;

impl Responder {
    pub(super) fn on_duplicate(&mut self, packet: &InPacket<'_>, op: Op, ctx: &mut Ctx<'_>) {
        let psn = packet.headers.bth.psn;
        match op.kind {
            Kind::Send | Kind::Write => self.reply_ack(),
            Kind::ReadRequest => {
                let Some(reth) = packet.headers.reth() else { return };
                let mtu = ctx.link.mtu;
                let inside = |saved: &Saved| repeats(saved, psn, &reth, mtu.bytes());
                if self.saved.iter().any(inside) {
                    self.drop_answers_from(psn);
                    self.reply_read(psn, mtu.packets(reth.len_bytes), reth, true);
                }
            }
            Kind::CmpSwap | Kind::FetchAdd => {
                let result = self.saved.iter().find_map(|saved| match saved {
                    Saved::Atomic { psn: at, old } if *at == psn => Some(*old),
                    _ => None,
                });
                if let Some(old) = result {
                    self.drop_answers_from(psn);
                    self.reply_atomic(psn, old, true);
                }
            }
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck => {}
        }
    }
}

/// True if a READ at `psn` requests a part of the saved one, address and end included.
fn repeats(saved: &Saved, psn: Psn, reth: &Reth, mtu: u32) -> bool {
    let Saved::Read { first, packets, reth: original } = saved else { return false };
    let skipped = psn.ahead_of(*first);
    if skipped < 0 || skipped as u32 >= *packets {
        return false;
    }
    let skipped_bytes = u64::from(skipped as u32) * u64::from(mtu);
    reth.rkey == original.rkey
        && reth.va == original.va.wrapping_add(skipped_bytes)
        && skipped_bytes + u64::from(reth.len_bytes) <= u64::from(original.len_bytes)
}
