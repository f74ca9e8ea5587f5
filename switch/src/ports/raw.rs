//! `raw:` ports: an AF_PACKET socket of our own.
//!
//! Bursts of recvmmsg and sendmmsg straight into and out of packet memory. One socket receives (and
//! ignores what leaves by the interface, ours and others'), one sends. VLAN tags come back from the
//! auxiliary data, unfinished checksums are finished where `virtio_net_hdr` says. Segments that the
//! sender left to its card to cut (GSO) are dropped and explained.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

use super::offload::{TAG_BYTES, finish_checksum, insert_tag};
use super::sys::packet::{self, BATCH_MAX, Batch, Received, RxOptions};
use super::transmit::{TxVerdict, drop_all, tx_verdict};
use super::watch::Watch;
use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortSpec, PortStats};
use super::{RxFrame, TxDone, TxFrame};

/// An AF_PACKET port.
pub struct RawPort {
    watch: Watch,
    index: u32,
    caps: PortCaps,
    rx: RawRx,
    tx: RawTx,
    /// Told by the next call, because this one brought frames.
    late: Option<PortError>,
    stats: PortStats,
    notices: Vec<String>,
}

impl RawPort {
    /// Opens the interface of a specification.
    ///
    /// # Errors
    /// No such interface, not Ethernet, no privilege.
    pub fn open(spec: &PortSpec) -> Result<RawPort, PortError> {
        let port = spec.to_string();
        let (watch, found) = Watch::open(&port, &spec.target)?;
        let opened = |error| watch.failed("open a packet socket", error);
        let rx = RawRx::open(found.index, None).map_err(opened)?;
        let tx = RawTx::open(found.index).map_err(opened)?;
        let link = spec.link.unwrap_or(LinkType::Ethernet);
        let caps = PortCaps { link, mtu_bytes: Some(found.mtu_bytes) };
        Ok(RawPort {
            watch,
            index: found.index,
            caps,
            rx,
            tx,
            late: None,
            stats: PortStats::default(),
            notices: Vec::new(),
        })
    }

    /// Opens the sockets again on an interface that came back under the same name.
    fn reopen(&mut self, now: Time) -> bool {
        let Some(found) = self.watch.look_again(now) else { return false };
        let (Ok(rx), Ok(tx)) = (RawRx::open(found.index, None), RawTx::open(found.index)) else {
            return false;
        };
        self.rx.fd = rx.fd;
        self.tx.fd = tx.fd;
        self.index = found.index;
        self.caps.mtu_bytes = Some(found.mtu_bytes);
        self.watch.works();
        true
    }
}

impl Port for RawPort {
    fn name(&self) -> &str {
        self.watch.port()
    }

    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        if let Some(error) = self.late.take() {
            return Err(error);
        }
        if self.watch.is_gone() && !self.reopen(now) {
            return Ok(0);
        }
        let before = out.len();
        let segments = self.stats.rx_gso;
        while out.len() - before < max {
            let want = max - (out.len() - before);
            match self.rx.burst(mem, now, out, want, &mut self.stats) {
                Ok(Burst::More) => {}
                Ok(Burst::Last) => break,
                Err(error) => {
                    self.late = self.watch.rx_failed(error, self.index, &mut self.stats);
                    break;
                }
            }
        }
        if segments == 0 && self.stats.rx_gso > 0 {
            self.notices.push(gso_notice(&self.watch));
        }
        let failure = self.late.take();
        self.watch.received(out.len() - before, failure, &mut self.late)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        if self.watch.is_gone() && !self.reopen(now) {
            return Ok(drop_all(mem, frames, &mut self.stats));
        }
        self.tx.burst(mem, frames, &mut self.stats, &mut self.watch, self.index)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.rx.fd.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_kernel_drops += packet::kernel_drops(&self.rx.fd);
        self.stats
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        if self.watch.is_gone() {
            self.reopen(now);
        }
        self.watch.look(self.index)
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.rx.close(mem);
    }
}

/// What a sender has to do whose frames come in segments.
pub(super) fn gso_notice(watch: &Watch) -> String {
    format!(
        "{}: frames of several segments (GSO) arrive and are dropped, because the sender counts on a \
         network card to cut them. On the sending side of {}: ethtool -K INTERFACE tx off gso off tso off",
        watch.port(),
        watch.interface()
    )
}

/// Whether more may wait after a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    More,
    Last,
}

/// The receiving half.
pub(super) struct RawRx {
    pub(super) fd: OwnedFd,
    batch: Box<Batch>,
    /// Chunks for the next call.
    spare: Vec<Buf>,
}

impl RawRx {
    /// `tagged`: only frames with, or without, a VLAN tag.
    pub(super) fn open(index: u32, tagged: Option<bool>) -> io::Result<RawRx> {
        let options = RxOptions { tagged, aux_data: true, vnet_header: true };
        let fd = packet::rx_socket(index, options)?;
        Ok(RawRx { fd, batch: Batch::new(), spare: Vec::with_capacity(BATCH_MAX) })
    }

    /// One system call.
    pub(super) fn burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
        stats: &mut PortStats,
    ) -> io::Result<Burst> {
        let want = max.min(BATCH_MAX);
        while self.spare.len() < want {
            let Some(buf) = mem.alloc() else { break };
            self.spare.push(buf);
        }
        let want = want.min(self.spare.len());
        if want == 0 {
            stats.rx_no_memory += 1;
            return Ok(Burst::Last);
        }
        // Room for the tag even if the memory was made without headroom.
        let offset = (mem.config().headroom_bytes as usize).max(TAG_BYTES);
        let bufs = self.spare.get_mut(..want).unwrap_or_default();
        let count = self.batch.receive(&self.fd, mem, bufs, offset)?.min(want);
        for (i, buf) in self.spare.drain(..count).enumerate() {
            let received = self.batch.received(i);
            match finish(mem, buf, offset, &received, now, stats) {
                Ok(frame) => {
                    stats.rx_frames += 1;
                    stats.rx_bytes += u64::from(frame.len);
                    out.push(frame);
                }
                Err(buf) => mem.free(buf),
            }
        }
        Ok(if count == want { Burst::More } else { Burst::Last })
    }

    /// Takes over the chunks of a receiver that is given up.
    pub(super) fn take_spare(&mut self, mut old: RawRx) {
        self.spare.append(&mut old.spare);
    }

    pub(super) fn close(&mut self, mem: &mut PacketMemory) {
        self.spare.drain(..).for_each(|buf| mem.free(buf));
    }
}

/// Makes what the kernel delivered at `offset` the frame that was sent; gives the chunk back if that
/// cannot be.
pub(super) fn finish(
    mem: &PacketMemory,
    mut buf: Buf,
    offset: usize,
    received: &Received,
    now: Time,
    stats: &mut PortStats,
) -> Result<RxFrame, Buf> {
    if received.gso {
        stats.rx_gso += 1;
        return Err(buf);
    }
    if received.truncated {
        stats.rx_too_long += 1;
        return Err(buf);
    }
    let mut len = received.len;
    let mut start = offset;
    let mut checksum = ChecksumStatus::AsReceived;
    if let Some((from, at)) = received.unfinished_checksum {
        let frame = mem.frame_mut(&mut buf, offset as u16, len);
        if frame.is_some_and(|frame| finish_checksum(frame, from, at)) {
            checksum = ChecksumStatus::FinishedByPort;
            stats.rx_checksums_finished += 1;
        }
    }
    if let Some(tag) = received.vlan {
        let moved =
            mem.bytes_mut(&mut buf).and_then(|chunk| insert_tag(chunk, offset, len as usize, tag));
        let Some(moved) = moved else {
            stats.rx_errors += 1;
            return Err(buf);
        };
        start = moved;
        len += TAG_BYTES as u32;
    }
    Ok(RxFrame { buf, data_off: start as u16, len, wire_len: len, timestamp: now, checksum })
}

/// The sending half.
pub(super) struct RawTx {
    fd: OwnedFd,
    batch: Box<Batch>,
}

impl RawTx {
    pub(super) fn open(index: u32) -> io::Result<RawTx> {
        Ok(RawTx { fd: packet::tx_socket(index)?, batch: Batch::new() })
    }

    pub(super) fn burst(
        &mut self,
        mem: &mut PacketMemory,
        frames: &mut Vec<TxFrame>,
        stats: &mut PortStats,
        watch: &mut Watch,
        index: u32,
    ) -> Result<TxDone, PortError> {
        let mut done = TxDone::default();
        let mut at = 0;
        let mut failure = None;
        while let Some(rest) = frames.get(at..).filter(|rest| !rest.is_empty()) {
            match self.batch.send(&self.fd, mem, rest) {
                Ok(count) => {
                    let bytes: u64 = rest.iter().take(count).map(|f| u64::from(f.len)).sum();
                    stats.tx_frames += count as u64;
                    stats.tx_bytes += bytes;
                    done.sent += count;
                    at += count;
                    watch.works();
                }
                Err(error) => match tx_verdict(&error) {
                    TxVerdict::Again => {}
                    TxVerdict::Full => {
                        stats.tx_full += 1;
                        break;
                    }
                    TxVerdict::Down => {
                        failure = watch.lost(index);
                        let lost = frames.len() - at;
                        stats.tx_down += lost as u64;
                        done.dropped += lost;
                        at = frames.len();
                    }
                    verdict => {
                        let too_long = verdict == TxVerdict::TooLong;
                        stats.tx_too_long += u64::from(too_long);
                        stats.tx_errors += u64::from(!too_long);
                        done.dropped += 1;
                        at += 1;
                    }
                },
            }
        }
        frames.drain(..at).for_each(|frame| mem.free(frame.buf));
        failure.map_or(Ok(done), Err)
    }
}
