//! `raw:` ports: AF_PACKET sockets.
//!
//! Bursts of recvmmsg and sendmmsg directly into and out of packet memory. One socket receives (and ignores what leaves
//! by the interface, from this port or others), one sends. VLAN tags are restored from the auxiliary data, unfinished
//! checksums are finished where `virtio_net_hdr` marks them. Frames of several segments (GSO), which the sender left to
//! its network card to cut, are cut in `segments`.
//!
//! A port with several queues has a socket of both kinds for each; the kernel spreads what arrives by its hash of the
//! flow ([`packet::fanout_socket`]), so that the frames of a flow are received on one queue, in order.

mod group;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

use group::Group;

use super::kind::{Kind, Medium, QueueCount};
use super::offload::{TAG_BYTES, finish_checksum, insert_tag};
use super::open::joined;
use super::segments::{Cutting, Gso};
use super::sys::interface::Interface;
use super::sys::packet::{self, BATCH_MAX, Batch, LARGE_BYTES, Received, RxOptions};
use super::transmit::{TxVerdict, drop_all, tx_verdict};
use super::watch::Watch;
use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortSpec, PortStats};
use super::{RxFrame, TxDone, TxFrame};

pub(crate) const KIND: Kind = Kind {
    name: "raw",
    medium: Medium::Interface,
    queues: QueueCount::Any,
    options: &["queues"],
    open: |spec, _, queues| match queues {
        2.. => Ok(joined(RawPort::open_queues(spec, queues)?)),
        _ => Ok(joined(vec![RawPort::open(spec)?])),
    },
};

/// An AF_PACKET port.
pub struct RawPort {
    watch: Watch,
    index: u32,
    /// The fanout group of a port with several queues.
    group: Option<Group>,
    caps: PortCaps,
    rx: RawRx,
    tx: RawTx,
    /// Reported by the next call, because this one returned frames.
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
        let (watch, found) = Watch::open(&spec.to_string(), &spec.target)?;
        RawPort::open_on(spec, watch, &found, None)
    }

    /// Like [`RawPort::open`] with `queues` queues, which different workers may have.
    ///
    /// # Errors
    /// As [`RawPort::open`].
    pub fn open_queues(spec: &PortSpec, queues: u32) -> Result<Vec<RawPort>, PortError> {
        let (watch, found) = Watch::open(&spec.to_string(), &spec.target)?;
        let shared = Arc::<Mutex<Option<(u32, u16)>>>::default();
        let group = |is_first| Some(Group { is_first, joined: None, shared: Arc::clone(&shared) });
        let others = (1..queues).map(|_| watch.beside(None)).collect::<Result<Vec<_>, _>>()?;
        let mut ports = vec![RawPort::open_on(spec, watch, &found, group(true))?];
        for watch in others {
            ports.push(RawPort::open_on(spec, watch, &found, group(false))?);
        }
        Ok(ports)
    }

    fn open_on(
        spec: &PortSpec,
        watch: Watch,
        found: &Interface,
        mut group: Option<Group>,
    ) -> Result<RawPort, PortError> {
        let opened = |error| watch.failed("open a packet socket", error);
        let rx = RawRx::open_in(found.index, group.as_mut()).map_err(opened)?;
        let tx = RawTx::open(found.index).map_err(opened)?;
        let link = spec.link.unwrap_or(LinkType::Ethernet);
        let caps = PortCaps { link, mtu_bytes: Some(found.mtu_bytes) };
        Ok(RawPort {
            watch,
            index: found.index,
            group,
            caps,
            rx,
            tx,
            late: None,
            stats: PortStats::default(),
            notices: Vec::new(),
        })
    }

    /// Opens the sockets again on an interface that exists again under the same name.
    fn reopen(&mut self, now: Time) -> bool {
        let Some(found) = self.watch.look_again(now) else { return false };
        let rx = RawRx::open_in(found.index, self.group.as_mut());
        let (Ok(rx), Ok(tx)) = (rx, RawTx::open(found.index)) else { return false };
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

    fn interface_mac(&self) -> Option<[u8; 6]> {
        self.watch.mac()
    }

    fn interface(&self) -> Option<&str> {
        Some(self.watch.interface())
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
        let (segments, mut failure) = (self.stats.rx_gso, None);
        while out.len() - before < max {
            let want = max - (out.len() - before);
            match self.rx.burst(mem, now, out, want, &mut self.stats) {
                Ok(Burst::More) => {}
                Ok(Burst::Last) => break,
                Err(error) => {
                    failure = self.watch.rx_failed(error, self.index, &mut self.stats);
                    break;
                }
            }
        }
        if segments == 0 && self.stats.rx_gso > 0 {
            self.notices.push(gso_notice(&self.watch));
        }
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

    fn next_arrival(&mut self) -> Option<Time> {
        self.rx.holds().then_some(Time::ZERO)
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_kernel_drops += packet::kernel_drops(&self.rx.fd);
        self.stats
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        if !self.watch.is_gone() && packet::is_unbound(&self.rx.fd) {
            self.group.as_mut().into_iter().for_each(Group::leave);
            self.late = self.watch.taken_away().or(self.late.take());
        }
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

/// The message about frames of several segments that are not cut here: what their sender has to change.
pub(super) fn gso_notice(watch: &Watch) -> String {
    format!(
        "{}: frames of several segments (GSO) arrive that this port does not cut (neither TCP nor UDP, or in a tunnel that is encrypted, \
         numbers its packets or has no IP), and are dropped. On the sending side of {}: ethtool -K INTERFACE tx off gso off tso off",
        watch.port(),
        watch.interface()
    )
}

/// Whether more frames may wait after a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    More,
    Last,
}

/// Minimum number of messages requested by a call when the last one returned few: each needs a chunk meanwhile.
const WANT_MIN: usize = 8;

/// The receiving half of a port.
pub(super) struct RawRx {
    pub(super) fd: OwnedFd,
    batch: Box<Batch>,
    /// The rest of messages that did not fit their chunks. The operating system allocates its pages when the first
    /// large frame is written there.
    overflow: Box<[u8]>,
    /// Chunks of messages that are not delivered yet, the next one last. Empty between two bursts, unless a burst was
    /// full.
    chunks: Vec<Buf>,
    /// Number of the next message.
    next: usize,
    /// Number of messages to request.
    want: usize,
    /// The last call returned as many as requested.
    was_full: bool,
    cutting: Option<(Cutting, Large)>,
}

/// The frame that is being cut.
struct Large {
    buf: Buf,
    message: usize,
    vlan: Option<(u16, u16)>,
}

impl RawRx {
    /// A receiver of all frames (`None`), or only of those with, or without, a VLAN tag.
    pub(super) fn open(index: u32, tagged: Option<bool>) -> io::Result<RawRx> {
        let options = RxOptions { tagged, aux_data: true, vnet_header: true };
        packet::rx_socket(index, options).map(RawRx::on)
    }

    /// A receiver of all frames, or of the share of one socket of a group.
    fn open_in(index: u32, group: Option<&mut Group>) -> io::Result<RawRx> {
        let Some(group) = group else { return RawRx::open(index, None) };
        let options = RxOptions { tagged: None, aux_data: true, vnet_header: true };
        group.socket(index, options).map(RawRx::on)
    }

    fn on(fd: OwnedFd) -> RawRx {
        RawRx {
            fd,
            batch: Batch::new(),
            overflow: vec![0; BATCH_MAX * LARGE_BYTES].into_boxed_slice(),
            chunks: Vec::with_capacity(BATCH_MAX),
            next: 0,
            want: WANT_MIN,
            was_full: false,
            cutting: None,
        }
    }

    /// True while received frames wait here for the next burst: the descriptor does not show them.
    pub(super) fn holds(&self) -> bool {
        self.cutting.is_some() || !self.chunks.is_empty()
    }

    /// Receives a burst, with one system call at most.
    pub(super) fn burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
        stats: &mut PortStats,
    ) -> io::Result<Burst> {
        // Room for the tag also in a memory without headroom.
        let offset = (mem.config().headroom_bytes as usize).max(TAG_BYTES);
        let end = out.len().saturating_add(max);
        if !self.holds() {
            self.receive(mem, offset, max, stats)?;
        }
        while out.len() < end {
            if self.cutting.is_some() {
                self.cut(mem, now, offset, out, end, stats);
                continue;
            }
            let Some(buf) = self.chunks.pop() else {
                return Ok(if self.was_full { Burst::More } else { Burst::Last });
            };
            let message = self.next;
            self.next += 1;
            let received = self.batch.received(message);
            let longest = (mem.max_chunk_bytes() as usize).saturating_sub(offset);
            let head = mem.bytes(&buf).get(offset..).unwrap_or_default();
            let cutting = begin_cutting(head, &received, longest);
            if let Some(cutting) = cutting {
                self.want = WANT_MIN;
                self.cutting = Some((cutting, Large { buf, message, vlan: received.vlan }));
                continue;
            }
            let tail = tail_of(&self.overflow, message);
            let finished = match join(mem, buf, offset, &received, tail) {
                Ok(buf) => finish(mem, buf, offset, &received, now, stats),
                Err(buf) => {
                    stats.rx_no_memory += 1;
                    stats.rx_errors += 1;
                    Err(buf)
                }
            };
            match finished {
                Ok(frame) => give(frame, out, stats),
                Err(buf) => mem.free(buf),
            }
        }
        Ok(Burst::More)
    }

    /// Receives messages from the kernel. Chunks that it did not fill are freed at once, so that a port without frames
    /// keeps none.
    fn receive(
        &mut self,
        mem: &mut PacketMemory,
        offset: usize,
        max: usize,
        stats: &mut PortStats,
    ) -> io::Result<()> {
        self.was_full = false;
        let want = max.min(self.want);
        while self.chunks.len() < want {
            let Some(buf) = mem.alloc() else { break };
            self.chunks.push(buf);
        }
        let asked = self.chunks.len();
        if asked == 0 {
            stats.rx_no_memory += 1;
            return Ok(());
        }
        let overflow = &mut self.overflow;
        let received = self.batch.receive(&self.fd, mem, &mut self.chunks, offset, overflow);
        let count = received.as_ref().map_or(0, |count| *count).min(asked);
        self.chunks.drain(count..).for_each(|buf| mem.free(buf));
        self.chunks.reverse();
        self.next = 0;
        self.was_full = count == asked;
        self.want = (2 * count).clamp(WANT_MIN, BATCH_MAX);
        received.map(drop)
    }

    /// Cuts segments off the large frame until the burst is full.
    fn cut(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        offset: usize,
        out: &mut Vec<RxFrame>,
        end: usize,
        stats: &mut PortStats,
    ) {
        let Some((mut cutting, large)) = self.cutting.take() else { return };
        let tail = tail_of(&self.overflow, large.message);
        while out.len() < end && !cutting.is_done() {
            let Some(mut buf) = mem.alloc_to(offset + cutting.segment_len()) else {
                // It is not kept for later: it occupies a chunk itself, and every port might do so.
                stats.rx_no_memory += 1;
                stats.rx_errors += 1;
                return mem.free(large.buf);
            };
            let head = mem.bytes(&large.buf).get(offset..).unwrap_or_default();
            let Some(len) = cutting.write(mem, [head, tail], &mut buf, offset) else {
                stats.rx_gso += 1;
                mem.free(buf);
                return mem.free(large.buf);
            };
            match segment(mem, buf, offset, len, large.vlan, now) {
                Ok(frame) => give(frame, out, stats),
                Err(buf) => mem.free(buf),
            }
        }
        if cutting.is_done() {
            stats.rx_segmented += 1;
            mem.free(large.buf);
        } else {
            self.cutting = Some((cutting, large));
        }
    }

    /// Continues with frames that an older receiver, which is replaced by this one, has not delivered.
    pub(super) fn take_over(&mut self, mut old: RawRx) {
        std::mem::swap(&mut old.fd, &mut self.fd);
        *self = old;
    }

    pub(super) fn close(&mut self, mem: &mut PacketMemory) {
        self.chunks.drain(..).for_each(|buf| mem.free(buf));
        self.cutting.take().into_iter().for_each(|(_, large)| mem.free(large.buf));
    }
}

/// Delivers a frame and counts it.
pub(super) fn give(frame: RxFrame, out: &mut Vec<RxFrame>, stats: &mut PortStats) {
    stats.rx_frames += 1;
    stats.rx_bytes += u64::from(frame.len);
    out.push(frame);
}

/// How to cut a received frame that begins with `head`; `None` if it is one segment, or cannot be cut: into segments of
/// more than `longest` bytes no frame is.
pub(super) fn begin_cutting(head: &[u8], received: &Received, longest: usize) -> Option<Cutting> {
    let (kind, segment_bytes) = received.gso.filter(|_| !received.truncated)?;
    let checksum_from = received.unfinished_checksum.map(|(from, _)| from);
    let len = received.len as usize;
    let head = head.get(..len).unwrap_or(head);
    let cutting = Cutting::of(head, len, Gso { kind, segment_bytes, checksum_from })?;
    (cutting.segment_len() <= longest).then_some(cutting)
}

/// The part of a message that did not fit its chunk.
fn tail_of(overflow: &[u8], message: usize) -> &[u8] {
    overflow.chunks(LARGE_BYTES).nth(message).unwrap_or_default()
}

/// Joins a frame that continues in `tail` behind its chunk, in one chunk; returns the chunk as an error if no large one
/// is free. A frame too long for any chunk stays as it is.
fn join(
    mem: &mut PacketMemory,
    buf: Buf,
    offset: usize,
    received: &Received,
    tail: &[u8],
) -> Result<Buf, Buf> {
    let end = offset + received.len as usize;
    let is_whole = end <= mem.end_max(&buf) || received.truncated || received.gso.is_some();
    if is_whole || end > mem.max_chunk_bytes() as usize {
        return Ok(buf);
    }
    let Some(mut large) = mem.alloc_to(end) else { return Err(buf) };
    let head = mem.bytes(&buf).get(offset..).unwrap_or_default();
    if let Some(to) = mem.bytes_mut(&mut large).and_then(|chunk| chunk.get_mut(offset..end)) {
        let (first, second) = to.split_at_mut(head.len().min(to.len()));
        first.copy_from_slice(head.get(..first.len()).unwrap_or_default());
        second.copy_from_slice(tail.get(..second.len()).unwrap_or_default());
    }
    mem.free(buf);
    Ok(large)
}

/// The frame of a segment that was written at `offset`.
pub(super) fn segment(
    mem: &PacketMemory,
    mut buf: Buf,
    offset: usize,
    len: u32,
    vlan: Option<(u16, u16)>,
    now: Time,
) -> Result<RxFrame, Buf> {
    let (mut start, mut len) = (offset, len);
    if let Some(tag) = vlan {
        let moved =
            mem.bytes_mut(&mut buf).and_then(|chunk| insert_tag(chunk, offset, len as usize, tag));
        let Some(moved) = moved else { return Err(buf) };
        start = moved;
        len += TAG_BYTES as u32;
    }
    let checksum = ChecksumStatus::FinishedByPort;
    Ok(RxFrame { buf, data_off: start as u16, len, wire_len: len, timestamp: now, checksum })
}

/// Completes the frame that the kernel delivered at `offset`; returns the chunk as an error if that is impossible.
pub(super) fn finish(
    mem: &PacketMemory,
    mut buf: Buf,
    offset: usize,
    received: &Received,
    now: Time,
    stats: &mut PortStats,
) -> Result<RxFrame, Buf> {
    if received.gso.is_some() {
        stats.rx_gso += 1;
        return Err(buf);
    }
    if received.truncated || offset + received.len as usize > mem.end_max(&buf) {
        stats.rx_too_long += 1;
        return Err(buf);
    }
    let len = received.len;
    let mut checksum = ChecksumStatus::AsReceived;
    if let Some((from, at)) = received.unfinished_checksum {
        let frame = mem.frame_mut(&mut buf, offset as u16, len);
        if frame.is_some_and(|frame| finish_checksum(frame, from, at)) {
            checksum = ChecksumStatus::FinishedByPort;
            stats.rx_checksums_finished += 1;
        }
    }
    match segment(mem, buf, offset, len, received.vlan, now) {
        Ok(frame) => Ok(RxFrame { checksum, ..frame }),
        Err(buf) => {
            stats.rx_errors += 1;
            Err(buf)
        }
    }
}

/// The sending half of a port.
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
        let mut failure = None;
        while let Some(rest) = frames.get(done.sent..).filter(|rest| !rest.is_empty()) {
            match self.batch.send(&self.fd, mem, rest) {
                Ok(count) => {
                    let bytes: u64 = rest.iter().take(count).map(|f| u64::from(f.len)).sum();
                    stats.tx_frames += count as u64;
                    stats.tx_bytes += bytes;
                    done.sent += count;
                    watch.works();
                    continue;
                }
                Err(error) => match tx_verdict(&error) {
                    TxVerdict::Again => continue,
                    TxVerdict::Full => stats.tx_full += 1,
                    // The next call fails in the same way, and can report it.
                    TxVerdict::Down if done.sent > 0 => {}
                    TxVerdict::Down => {
                        failure = watch.lost(index);
                        done.dropped = frames.len();
                        stats.tx_down += done.dropped as u64;
                    }
                    verdict => {
                        let too_long = verdict == TxVerdict::TooLong;
                        stats.tx_too_long += u64::from(too_long);
                        stats.tx_errors += u64::from(!too_long);
                        done.dropped = 1;
                    }
                },
            }
            break;
        }
        frames.drain(..done.sent + done.dropped).for_each(|frame| mem.free(frame.buf));
        failure.map_or(Ok(done), Err)
    }
}
