//! An end point: many queue pairs and the memory they share, behind one port.
//!
//! It dispatches packets by queue pair number and selects the queue pair that may send next. Acknowledgements and data
//! are polled separately, so that a paused data class does not stop acknowledgements. The next data packet is that of
//! the queue pair that has been due longest, so that those that are always due are served in turns.
//!
//! Queue pair numbers and keys are exchanged by the caller (as `ibv_rc_pingpong` does).

use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Time};

use super::memory::MemoryTable;
use super::opcode::Service;
use super::packet::{Bth, InPacket, OutPacket};
use super::qp::{Attrs, ModifyError, QpConfig, QpState, QueuePair};
use super::schedule::Schedule;
use super::verbs::{Completion, PostError, RecvWr, SendWr};

#[cfg(test)]
mod tests;

/// 0 and 1 are for management, hardware numbers start a little above.
const FIRST_QPN: u32 = 0x11;
const LAST_QPN: u32 = 0x00ff_fffe;

#[derive(Debug)]
struct Entry {
    qp: QueuePair,
    in_ack_line: bool,
}

/// The queue pairs of one port.
#[derive(Debug, Default)]
pub struct EndPoint {
    entries: Vec<Entry>,
    memory: MemoryTable,
    data: Schedule,
    /// Queue pairs with an acknowledgement to send, each once.
    ack_line: VecDeque<u32>,
    completions: VecDeque<Completion>,
    unknown_qp_packets: u64,
}

impl EndPoint {
    /// No queue pairs and no memory.
    pub fn new() -> Self {
        EndPoint::default()
    }

    /// Creates a queue pair in RESET and gives it a number; `None` when all 24-bit numbers were used.
    pub fn create_qp(&mut self, service: Service, config: &QpConfig) -> Option<u32> {
        let qpn = FIRST_QPN.checked_add(u32::try_from(self.entries.len()).ok()?)?;
        if qpn > LAST_QPN {
            return None;
        }
        let qp = QueuePair::new(qpn, service, config);
        self.entries.push(Entry { qp, in_ack_line: false });
        Some(qpn)
    }

    /// A queue pair.
    pub fn qp(&self, qpn: u32) -> Option<&QueuePair> {
        let index = qpn.checked_sub(FIRST_QPN)?;
        self.entries.get(index as usize).map(|entry| &entry.qp)
    }

    /// Updates the state of a queue pair's reaction point to `now`, before it is read.
    pub fn sync_rate(&mut self, qpn: u32, now: Time) {
        let index = qpn.checked_sub(FIRST_QPN).map(|index| index as usize);
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.qp.sync_rate(now);
        }
    }

    /// All queue pairs in the order of their numbers.
    pub fn qps(&self) -> impl Iterator<Item = &QueuePair> {
        self.entries.iter().map(|entry| &entry.qp)
    }

    /// Registered memory.
    pub fn memory(&self) -> &MemoryTable {
        &self.memory
    }

    /// Registered memory.
    pub fn memory_mut(&mut self) -> &mut MemoryTable {
        &mut self.memory
    }

    /// Packets for queue pairs that do not exist.
    pub fn unknown_qp_packets(&self) -> u64 {
        self.unknown_qp_packets
    }

    /// Changes a queue pair's state; `None` if there is no such queue pair.
    pub fn modify(
        &mut self,
        qpn: u32,
        to: QpState,
        attrs: &Attrs,
    ) -> Option<Result<(), ModifyError>> {
        self.with(qpn, false, |qp, _| qp.modify(to, attrs))
    }

    /// Posts a send work request; `None` if there is no such queue pair.
    pub fn post_send(&mut self, qpn: u32, wr: SendWr) -> Option<Result<(), PostError>> {
        self.with(qpn, false, |qp, memory| qp.post_send(wr, memory))
    }

    /// Posts a receive work request; `None` if there is no such queue pair.
    pub fn post_recv(&mut self, qpn: u32, wr: RecvWr) -> Option<Result<(), PostError>> {
        self.with(qpn, false, |qp, memory| qp.post_recv(wr, memory))
    }

    /// A transport packet for this port. The ICRC has been verified, CE was passed to the notification point.
    pub fn on_packet(&mut self, now: Time, packet: &InPacket<'_>) {
        let qpn = packet.headers.bth.dest_qp;
        if self.with(qpn, false, |qp, memory| qp.on_packet(now, packet, memory)).is_none() {
            self.unknown_qp_packets += 1;
        }
    }

    /// A request for this port that a switch trimmed to its headers.
    pub fn on_trimmed(&mut self, bth: &Bth) {
        if self.with(bth.dest_qp, false, |qp, _| qp.on_trimmed(bth.opcode, bth.psn)).is_none() {
            self.unknown_qp_packets += 1;
        }
    }

    /// The next packet to send at `now`: acknowledgements first.
    pub fn poll_tx(&mut self, now: Time) -> Option<OutPacket> {
        self.poll_ack().or_else(|| self.poll_data(now)).or_else(|| self.poll_ack())
    }

    /// The next acknowledgement to send.
    pub fn poll_ack(&mut self) -> Option<OutPacket> {
        while let Some(&index) = self.ack_line.front() {
            self.ack_line.pop_front();
            let entry = &mut self.entries[index as usize];
            entry.in_ack_line = false;
            let packet = entry.qp.poll_ack();
            self.refresh(index, false);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// The next request or READ response to send at `now`; applies the timers that are due. A caller whose data
    /// class is paused does not call it, so an ACK timer that ends during the pause takes effect after it, unless the
    /// acknowledgement has arrived by then.
    #[inline]
    pub fn poll_data(&mut self, now: Time) -> Option<OutPacket> {
        while let Some((at, index)) = self.data.first() {
            if !at.is_by(now) {
                return None;
            }
            let entry = &mut self.entries[index as usize];
            let packet = entry.qp.poll_data(now, &self.memory);
            let stuck = packet.is_none() && entry.qp.data_deadline().is_by(now);
            self.refresh(index, true);
            if stuck {
                // It was due and had no packet: wait for its next event instead of spinning.
                self.data.set(index, Deadline::NEVER, false);
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// When [`Self::poll_tx`] may next have a packet.
    pub fn next_deadline(&self) -> Deadline {
        if self.has_ack() { Deadline::NOW } else { self.data_deadline() }
    }

    /// True if [`Self::poll_ack`] has a packet.
    pub fn has_ack(&self) -> bool {
        !self.ack_line.is_empty()
    }

    /// When [`Self::poll_data`] may next have a packet.
    pub fn data_deadline(&self) -> Deadline {
        self.data.first().map_or(Deadline::NEVER, |(at, _)| at)
    }

    /// The next completion of any queue pair, in the order in which they happened.
    pub fn poll_cq(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn with<R>(
        &mut self,
        qpn: u32,
        requeue: bool,
        act: impl FnOnce(&mut QueuePair, &mut MemoryTable) -> R,
    ) -> Option<R> {
        let index = qpn.checked_sub(FIRST_QPN)?;
        let entry = self.entries.get_mut(index as usize)?;
        let result = act(&mut entry.qp, &mut self.memory);
        self.refresh(index, requeue);
        Some(result)
    }

    /// Updates completions, the acknowledgement line and the schedule for a queue pair.
    fn refresh(&mut self, index: u32, requeue: bool) {
        let entry = &mut self.entries[index as usize];
        while let Some(done) = entry.qp.poll_cq() {
            self.completions.push_back(done);
        }
        if entry.qp.has_ack() && !entry.in_ack_line {
            entry.in_ack_line = true;
            self.ack_line.push_back(index);
        }
        self.data.set(index, entry.qp.data_deadline(), requeue);
    }
}
