//! Responses: ACK, NAK, RNR NAK, READ responses, ATOMIC acknowledges, in PSN order.
//!
//! An ACK that has not left when the next is due is replaced by it: there is no other coalescing. ACKs wait behind READ
//! responses queued before them, as the requester relies on that order.

use super::super::aeth::{NakCode, Syndrome};
use super::super::memory::{Access, MemoryTable};
use super::super::opcode::{Extra, Kind, Op, Position};
use super::super::packet::{
    Aeth, Bth, ClassHint, Headers, Leading, OutPacket, PayloadRef, Reth, Trailing,
};
use super::super::psn::Psn;
use super::super::qp::{Link, QpCounters};
use super::Responder;

/// A response that has not left.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Ack {
        psn: Psn,
        syndrome: Syndrome,
        msn: u32,
        becn: bool,
    },
    /// Arrival bits of the 64 packets from this one on, read when it leaves.
    Sack {
        base: Psn,
        becn: bool,
    },
    Atomic {
        psn: Psn,
        old: u64,
        msn: u32,
        repeat: bool,
    },
    Read {
        next: Psn,
        sent: u32,
        packets: u32,
        reth: Reth,
        msn: u32,
        repeat: bool,
    },
}

/// A READ or ATOMIC that may be requested again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Saved {
    Read { first: Psn, packets: u32, reth: Reth },
    Atomic { psn: Psn, old: u64 },
}

impl Saved {
    fn range(&self) -> (Psn, u32) {
        match self {
            Saved::Read { first, packets, .. } => (*first, *packets),
            Saved::Atomic { psn, .. } => (*psn, 1),
        }
    }
}

impl Reply {
    /// PSN of the next packet of this response.
    fn psn(&self) -> Psn {
        match self {
            Reply::Ack { psn, .. } | Reply::Atomic { psn, .. } => *psn,
            Reply::Sack { base, .. } => *base,
            Reply::Read { next, .. } => *next,
        }
    }

    fn is_repeat(&self) -> bool {
        matches!(self, Reply::Atomic { repeat: true, .. } | Reply::Read { repeat: true, .. })
    }

    fn is_for(&self, saved: &Saved) -> bool {
        let (first, packets) = saved.range();
        let ahead = self.psn().ahead_of(first);
        !matches!(self, Reply::Ack { .. } | Reply::Sack { .. })
            && ahead >= 0
            && (ahead as u32) < packets
    }
}

impl Responder {
    /// Acknowledges everything before the expected PSN.
    pub(super) fn reply_ack(&mut self) {
        // The mark of an acknowledgement that has not left is kept in its replacement.
        let marked = std::mem::take(&mut self.marked);
        let becn = match self.replies.back() {
            Some(Reply::Ack { becn, .. }) => marked | becn,
            _ => marked,
        };
        let (psn, msn) = (self.expected.minus(1), self.msn);
        let ack = Reply::Ack { psn, syndrome: Syndrome::Ack, msn, becn };
        match self.replies.back_mut() {
            Some(last @ Reply::Ack { syndrome: Syndrome::Ack, .. }) => *last = ack,
            // The report of a trimmed packet is not repeated.
            Some(Reply::Ack { syndrome: Syndrome::Trimmed, .. }) => self.replies.push_back(ack),
            // A NAK for the packet still expected acknowledges as much; an older one is overtaken.
            Some(Reply::Ack { psn, becn: carried, .. }) if *psn == self.expected => *carried = becn,
            Some(last @ Reply::Ack { .. }) => *last = ack,
            _ => self.replies.push_back(ack),
        }
    }

    pub(super) fn reply_nak(&mut self, psn: Psn, code: NakCode) {
        let (syndrome, msn) = (Syndrome::Nak(code), self.msn);
        self.replies.push_back(Reply::Ack { psn, syndrome, msn, becn: false });
    }

    /// Reports the arrivals around this packet; a report that has not left includes it.
    pub(super) fn reply_sack(&mut self, psn: Psn) {
        let marked = std::mem::take(&mut self.marked);
        let base = psn.minus(psn.get() & 63);
        match self.replies.back_mut() {
            Some(Reply::Sack { base: known, becn }) if *known == base => *becn |= marked,
            _ => self.replies.push_back(Reply::Sack { base, becn: marked }),
        }
    }

    /// Reports that this packet arrived without its payload.
    pub(super) fn reply_trimmed(&mut self, psn: Psn) {
        let becn = std::mem::take(&mut self.marked);
        let (syndrome, msn) = (Syndrome::Trimmed, psn.get());
        self.replies.push_back(Reply::Ack { psn: self.expected, syndrome, msn, becn });
    }

    pub(super) fn reply_rnr(&mut self, psn: Psn, timer: u8) {
        let syndrome = Syndrome::RnrNak(timer);
        self.replies.push_back(Reply::Ack { psn, syndrome, msn: self.msn, becn: false });
    }

    pub(super) fn reply_atomic(&mut self, psn: Psn, old: u64, repeat: bool) {
        self.replies.push_back(Reply::Atomic { psn, old, msn: self.msn, repeat });
    }

    pub(super) fn reply_read(&mut self, psn: Psn, packets: u32, reth: Reth, repeat: bool) {
        let msn = self.msn;
        self.replies.push_back(Reply::Read { next: psn, sent: 0, packets, reth, msn, repeat });
    }

    /// Saves a READ or ATOMIC in place of the oldest. [`Responder::check_room`] was called before.
    pub(super) fn save(&mut self, saved: Saved) {
        if self.saved.len() >= self.max_saved
            && let Some(oldest) = self.saved.pop_front()
        {
            // The requester has progressed: a repeated response that still waits is for a copy of the request.
            self.replies.retain(|reply| !reply.is_for(&oldest));
        }
        self.saved.push_back(saved);
    }

    /// True while its first response has not left completely.
    pub(super) fn is_being_answered(&self, saved: &Saved) -> bool {
        self.replies.iter().any(|reply| reply.is_for(saved) && !reply.is_repeat())
    }

    /// A requester that requests `psn` again has gone back there: responses from it on are useless now, and will be
    /// requested again. This also bounds the queue.
    pub(super) fn drop_answers_from(&mut self, psn: Psn) {
        self.replies.retain_mut(|reply| {
            if let Reply::Read { next, sent, packets, .. } = reply {
                let end = next.plus(*packets - *sent);
                if next.ahead_of(psn) < 0 && end.ahead_of(psn) > 0 {
                    // The part before `psn` is still needed only if the requester skipped it: it did not.
                    return false;
                }
            }
            reply.psn().ahead_of(psn) < 0
        });
    }

    /// True if the next response is an acknowledgement.
    pub(in super::super) fn has_ack(&self) -> bool {
        let front = self.replies.front();
        matches!(front, Some(Reply::Ack { .. } | Reply::Atomic { .. } | Reply::Sack { .. }))
    }

    /// True if the next response is a READ response packet.
    pub(in super::super) fn has_response(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Read { .. }))
    }

    /// The acknowledgement next in line.
    pub(in super::super) fn next_ack(&mut self, link: &Link) -> Option<OutPacket> {
        if !self.has_ack() {
            return None;
        }
        match self.replies.pop_front()? {
            Reply::Ack { psn, syndrome, msn, becn } => {
                let mut packet = answer(link, Kind::Ack, Position::Only, psn)?;
                packet.headers.bth.becn = becn;
                packet.headers.leading = Leading::Aeth(Aeth { syndrome: syndrome.encode(), msn });
                Some(packet)
            }
            Reply::Sack { base, becn } => {
                let sack = self.arrivals.bits(self.expected, base);
                let mut packet = answer(link, Kind::Ack, Position::Only, self.expected)?;
                packet.headers.bth.becn = becn;
                let syndrome = Syndrome::Sack.encode();
                packet.headers.leading = Leading::Aeth(Aeth { syndrome, msn: base.get() });
                packet.headers.trailing = Trailing::Sack(sack.bits);
                packet.echo = true;
                Some(packet)
            }
            Reply::Atomic { psn, old, msn, repeat } => {
                let mut packet = answer(link, Kind::AtomicAck, Position::Only, psn)?;
                let aeth = Aeth { syndrome: Syndrome::Ack.encode(), msn };
                packet.headers.leading = Leading::Aeth(aeth);
                packet.headers.trailing = Trailing::AtomicAck(old);
                packet.retransmission = repeat;
                Some(packet)
            }
            Reply::Read { .. } => None,
        }
    }

    /// Replaces the READ response next in line by a NAK if its region is gone, or no longer permits it; true then, and
    /// the queue pair goes to ERR.
    pub(in super::super) fn refuse_unreadable(
        &mut self,
        memory: &MemoryTable,
        counters: &mut QpCounters,
    ) -> bool {
        let Some(Reply::Read { next, reth, .. }) = self.replies.front() else { return false };
        let (psn, Reth { rkey, va, len_bytes }) = (*next, *reth);
        if memory.check(rkey, va, len_bytes, Access::REMOTE_READ).is_ok() {
            return false;
        }
        counters.error_naks_sent += 1;
        self.drop_answers_from(psn);
        self.reply_nak(psn, NakCode::RemoteAccess);
        true
    }

    /// The next READ response packet. Its payload is read when the frame is built.
    pub(in super::super) fn next_response(
        &mut self,
        link: &Link,
        counters: &mut QpCounters,
    ) -> Option<OutPacket> {
        let Some(Reply::Read { next, sent, packets, reth, msn, repeat }) = self.replies.front_mut()
        else {
            return None;
        };
        let position = Position::of(*sent, *packets);
        let done = *sent * link.mtu.bytes();
        let len = reth.len_bytes.saturating_sub(done).min(link.mtu.bytes());
        let va = reth.va.wrapping_add(u64::from(done));
        let mut packet = answer(link, Kind::ReadResponse, position, *next)?;
        packet.class = ClassHint::Data;
        packet.payload = (len > 0).then_some(PayloadRef { key: reth.rkey, va, len });
        packet.headers.bth.pad = (len.wrapping_neg() & 3) as u8;
        packet.retransmission = *repeat;
        if position != Position::Middle {
            let aeth = Aeth { syndrome: Syndrome::Ack.encode(), msn: *msn };
            packet.headers.leading = Leading::Aeth(aeth);
        }
        counters.retransmitted_packets += u64::from(*repeat);
        *next = next.plus(1);
        *sent += 1;
        if position.ends() {
            self.replies.pop_front();
        }
        Some(packet)
    }
}

fn answer(link: &Link, kind: Kind, position: Position, psn: Psn) -> Option<OutPacket> {
    let op = Op { service: link.service, kind, position, extra: Extra::None };
    let bth = Bth {
        opcode: op.encode()?,
        solicited: false,
        pad: 0,
        pkey: link.pkey,
        fecn: false,
        becn: false,
        dest_qp: link.dest_qp,
        ack_req: false,
        psn,
    };
    Some(OutPacket {
        src_qp: link.qpn,
        headers: Headers::new(bth),
        payload: None,
        class: ClassHint::Ack,
        path: link.path,
        retransmission: false,
        echo: false,
    })
}
