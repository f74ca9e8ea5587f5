//! Frames after egress that wait for room in their ports, and their ends.

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::cuts::CutRecords;
use super::ports::{Ports, ingress_of};
use super::record::Recording;
use crate::ports::TxFrame;
use crate::stats::{DeviceReason, ReasonIndex};

impl Ports {
    /// Puts the frame of a packet into the backlog of a port, with its time on the wire.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        cuts: &CutRecords,
        slot: usize,
        packet: &mut Descriptor,
        start: Time,
        end: Time,
    ) {
        let wire_len = cuts.wire_len(packet);
        let Some(buf) = packet.buf.take() else { return };
        let (data_off, len) = (packet.data_off, packet.len);
        let place = &mut self[slot];
        place.backlog.push(TxFrame { buf, data_off, len, wire_len, start, end });
        place.backlog_from.push(ingress_of(packet));
        self.active.insert(slot);
    }

    /// Counts the first `gone` frames of a backlog: `sent` of them were sent, the others were given up for `reason`.
    #[inline]
    pub(super) fn account_sent(
        &mut self,
        slot: usize,
        gone: usize,
        sent: usize,
        reason: ReasonIndex,
    ) {
        let gone = gone.min(self[slot].backlog_from.len());
        for index in 0..gone {
            let from = self[slot].backlog_from[index];
            if index < sent {
                self.account(from, |ledger| ledger.sent += 1);
            } else {
                self.account_drop(from, reason);
            }
        }
        let from = &mut self[slot].backlog_from;
        if gone == from.len() { from.clear() } else { from.drain(..gone).for_each(drop) }
    }

    /// Drops the newest frames over the limit of a backlog.
    pub(super) fn drop_excess(
        &mut self,
        slot: usize,
        now: Time,
        mem: &mut PacketMemory,
        recording: &mut Recording,
    ) {
        while self[slot].backlog.len() > self.backlog_max {
            let place = &mut self[slot];
            let (Some(frame), Some(from)) = (place.backlog.pop(), place.backlog_from.pop()) else {
                return;
            };
            let places = self.drop_places(self.find(from), Some(slot));
            let why = "dropped: tx_full: no room behind the port";
            recording.shed(places, now, mem, &frame, why);
            mem.free(frame.buf);
            self.account_drop(from, DeviceReason::TxFull.index());
        }
    }

    /// Drops the frames that were about to be given to a port that was removed.
    pub(super) fn drop_backlog(
        &mut self,
        slot: usize,
        now: Time,
        mem: &mut PacketMemory,
        recording: &mut Recording,
    ) {
        let frames = std::mem::take(&mut self[slot].backlog);
        let from = std::mem::take(&mut self[slot].backlog_from);
        for (frame, from) in frames.into_iter().zip(from) {
            let places = self.drop_places(self.find(from), Some(slot));
            recording.shed(places, now, mem, &frame, "dropped: port_removed");
            mem.free(frame.buf);
            self.account_drop(from, DeviceReason::PortRemoved.index());
        }
        self.active.remove(slot);
    }

    /// Number of frames that wait for room in a port.
    pub(super) fn waiting(&self) -> usize {
        self.active.iter().map(|slot| self[slot].backlog.len()).sum()
    }
}
