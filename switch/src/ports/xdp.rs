//! `xdp:` ports: AF_XDP, the fast kind.
//!
//! The packet memory itself is the UMEM, except for its large chunks, so frames arrive in their chunks. An XDP program
//! of six instructions hands the frames of one queue to the socket; they never reach the host's own network stack. Copy
//! mode, native where the driver supports it, else generic. Frames of more than a page are received and sent in parts
//! (XDP_USE_SG) and joined in one chunk.
//!
//! Every port registers the region for itself: rings need no sharing between ports, and a chunk of any port can be sent
//! by any other. A chunk whose address is in a ring belongs to the kernel; its handle is kept here until the kernel
//! returns it.
//!
//! A socket has one receive queue of the interface. A port with several queues has a socket, with rings of its own, for
//! each; frames are spread over them by the network card (its receive side scaling) or, on a veth pair, by the peer's
//! kernel (its choice of a transmit queue).

mod kind;
mod parts;
pub(crate) mod rings;
mod shape;
mod start;

use std::os::fd::{AsRawFd, RawFd};

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::{Span, Time};

pub(crate) use kind::KIND;
use kind::too_few_queues;
pub(super) use kind::without_socket;
use parts::{Lost, Partial, copy_into_umem};
use rings::Rings;
use shape::{HEADER_BYTES, Shape};
use start::{Live, Queue, Start};

use super::offload::{finish_unmarked_checksum, insert_tag};
use super::sys::bpf::{TAG_RECORD_BYTES, read_tag};
use super::sys::interface::{Interface, receive_queues};
use super::sys::packet::take_error;
use super::sys::xsk::{Fragment, NotHeld};
use super::transmit::{TxVerdict, drop_all, tx_verdict};
use super::watch::Watch;
use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortSpec, PortStats};
use super::{RxFrame, TxDone, TxFrame};

/// How often the interface is checked: an AF_XDP socket does not report that its link went down.
const LOOK_EVERY: Span = Span::from_ms(100);
const TAG_BYTES: u32 = 4;
/// An AF_XDP port.
pub struct XdpPort {
    watch: Watch,
    index: u32,
    queue: Queue,
    caps: PortCaps,
    shape: Shape,
    rings: Rings,
    /// `None` while the interface is gone.
    live: Option<Live>,
    partial: Option<Partial>,
    /// Parts of the frame that is being sent; empty between two frames.
    parts: Vec<(Buf, Fragment)>,
    look_at: Time,
    /// Kernel drops of sockets that were closed, and of this one as last read.
    drops_before: u64,
    drops_now: u64,
    stats: PortStats,
    notices: Vec<String>,
}

/// The message about frames of several segments: what their sender has to change.
fn gso_notice(watch: &Watch) -> String {
    let interface = watch.interface();
    format!(
        "{}: frames of several segments (GSO) arrive and are dropped: AF_XDP does not say how to cut them. Take raw:{interface}, or \
         on the sending side of {interface}: ethtool -K INTERFACE tx off gso off tso off",
        watch.port(),
    )
}

impl XdpPort {
    /// Opens the interface of a specification.
    ///
    /// # Errors
    /// No such interface, no privilege, or an interface, MTU or memory that AF_XDP cannot serve.
    pub fn open(spec: &PortSpec, mem: &PacketMemory) -> Result<XdpPort, PortError> {
        let (watch, found) = Watch::open(&spec.to_string(), &spec.target)?;
        if let Some(has) = receive_queues(&spec.target).filter(|has| spec.queue >= *has) {
            return Err(too_few_queues(spec, 1, has));
        }
        let queue = Queue::of(spec.queue, 1).swap_remove(0);
        XdpPort::open_on(spec, mem, watch, &found, queue)
    }

    /// Like [`XdpPort::open`] with `queues` queues, from the first one of the specification on, which different workers
    /// may have.
    ///
    /// # Errors
    /// As [`XdpPort::open`]; the interface has fewer queues.
    pub fn open_queues(
        spec: &PortSpec,
        mem: &PacketMemory,
        queues: u32,
    ) -> Result<Vec<XdpPort>, PortError> {
        let (watch, found) = Watch::open(&spec.to_string(), &spec.target)?;
        let has = receive_queues(&spec.target).unwrap_or(1);
        if spec.queue + queues > has {
            return Err(too_few_queues(spec, queues, has));
        }
        let beside = (1..queues).map(|_| watch.beside(None)).collect::<Result<Vec<_>, _>>()?;
        let watches = std::iter::once(watch).chain(beside);
        let mut ports = Vec::new();
        for (watch, queue) in watches.zip(Queue::of(spec.queue, queues)) {
            match XdpPort::open_on(spec, mem, watch, &found, queue) {
                Ok(port) => ports.push(port),
                Err(error) => {
                    let mut mem = mem.worker();
                    ports.iter_mut().for_each(|port: &mut XdpPort| port.stop(&mut mem));
                    return Err(error);
                }
            }
        }
        Ok(ports)
    }

    fn open_on(
        spec: &PortSpec,
        mem: &PacketMemory,
        watch: Watch,
        found: &Interface,
        queue: Queue,
    ) -> Result<XdpPort, PortError> {
        let unsupported = |why| PortError::Unsupported { port: spec.to_string(), why };
        let shape = Shape::of(mem).map_err(unsupported)?;
        let rings = Rings::on(mem, spec)?;
        let (entries, tries) = (rings.entries, start::BUSY_TRIES);
        let start =
            Start { watch: &watch, queue: &queue, shape: &shape, found, mem, entries, tries };
        let (live, notices) = start.run()?;
        let link = spec.link.unwrap_or(LinkType::Ethernet);
        let mut port = XdpPort {
            watch,
            index: found.index,
            queue,
            caps: PortCaps { link, mtu_bytes: Some(found.mtu_bytes) },
            shape,
            rings,
            live: Some(live),
            partial: None,
            parts: Vec::new(),
            look_at: Time::ZERO,
            drops_before: 0,
            drops_now: 0,
            stats: PortStats::default(),
            notices,
        };
        port.refill(&mut mem.worker());
        Ok(port)
    }

    /// Checks the interface periodically. An error is reported once.
    fn look(&mut self, mem: &mut PacketMemory, now: Time) -> Result<(), PortError> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK_EVERY;
        if self.live.is_none() {
            self.reopen(mem, now);
            return Ok(());
        }
        let is_bound = |live: &Live| take_error(live.xsk.fd()).is_none();
        if !self.live.as_ref().is_none_or(is_bound) {
            let error = self.watch.taken_away();
            self.stop(mem);
            return error.map_or(Ok(()), Err);
        }
        match self.watch.find(self.index) {
            Some(found) if found.up => {
                self.caps.mtu_bytes = Some(found.mtu_bytes);
                self.watch.works();
                Ok(())
            }
            _ => self.lost(mem),
        }
    }

    fn lost(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        let error = self.watch.lost(self.index);
        if self.watch.is_gone() {
            self.stop(mem);
        }
        error.map_or(Ok(()), Err)
    }

    fn reopen(&mut self, mem: &mut PacketMemory, now: Time) {
        let Some(found) = self.watch.look_again(now) else { return };
        // Once: this is the thread that forwards, and it tries again soon.
        let start = Start {
            watch: &self.watch,
            found: &found,
            queue: &self.queue,
            mem,
            shape: &self.shape,
            entries: self.rings.entries,
            tries: 1,
        };
        let Ok((live, _)) = start.run() else { return };
        self.live = Some(live);
        self.index = found.index;
        self.caps.mtu_bytes = Some(found.mtu_bytes);
        self.watch.works();
        self.refill(mem);
    }

    /// Closes the socket, which returns all chunks.
    fn stop(&mut self, mem: &mut PacketMemory) {
        self.read_drops();
        self.drops_before += self.drops_now;
        self.drops_now = 0;
        let chunks = self.live.take().map(Live::close);
        self.queue.stop();
        chunks.into_iter().flatten().for_each(|buf| mem.free(buf));
        self.partial.take().into_iter().for_each(|partial| mem.free(partial.buf));
    }

    fn read_drops(&mut self) {
        if let Some(live) = &self.live {
            self.drops_now = live.xsk.kernel_drops();
        }
    }

    /// Offers free chunks to the kernel.
    fn refill(&mut self, mem: &mut PacketMemory) {
        let Some(live) = &mut self.live else { return };
        // Chunks of received frames that were not taken yet count as held.
        let room = live.xsk.fill_room().min(self.rings.receive_room(&live.xsk));
        if room == 0 {
            return;
        }
        let data = self.shape.data_offset();
        for _ in 0..room {
            let Some(mut buf) = mem.alloc() else {
                self.stats.rx_no_memory += 1;
                break;
            };
            let before = mem.bytes_mut(&mut buf).and_then(|chunk| chunk.get_mut(..data));
            if let Some(record) = before.and_then(<[u8]>::last_chunk_mut) {
                *record = [0; TAG_RECORD_BYTES];
            }
            if let Err(buf) = live.xsk.fill(buf) {
                mem.free(buf);
                break;
            }
        }
        live.xsk.publish_fill();
    }

    /// Takes one received part; a completed frame is added to `out`.
    fn take_part(
        &mut self,
        mem: &mut PacketMemory,
        buf: Buf,
        part: Fragment,
        now: Time,
        out: &mut Vec<RxFrame>,
    ) {
        let (offset, len) = (part.offset as usize, part.len as usize);
        let mut whole = match self.partial.take() {
            None => Partial::first(buf, offset, len),
            Some(mut first) => {
                first.append(mem, buf, offset, len);
                first
            }
        };
        if part.continued {
            self.partial = Some(whole);
            return;
        }
        // A frame longer than the MTU allows consists of several segments: peers forward none as one packet.
        if whole.len > self.caps.mtu_bytes.unwrap_or(u32::MAX).saturating_add(HEADER_BYTES) as usize
        {
            if self.stats.rx_gso == 0 {
                self.notices.push(gso_notice(&self.watch));
            }
            self.stats.rx_gso += 1;
            mem.free(whole.buf);
            return;
        }
        let end = whole.data_off + whole.len;
        whole.make_room(mem, end);
        match whole.lost {
            None => {}
            Some(Lost::TooLong) => {
                self.stats.rx_too_long += 1;
                return mem.free(whole.buf);
            }
            Some(Lost::NoMemory) => {
                self.stats.rx_no_memory += 1;
                self.stats.rx_errors += 1;
                return mem.free(whole.buf);
            }
        }
        let frame = self.finish(mem, whole, now);
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += u64::from(frame.len);
        out.push(frame);
    }

    /// Restores the tag that the XDP program stored before the frame.
    fn restore_tag(&self, mem: &PacketMemory, whole: &mut Partial) {
        if !self.live.as_ref().is_some_and(Live::stores_tags) {
            return;
        }
        let Some(chunk) = mem.bytes_mut(&mut whole.buf) else { return };
        let record = chunk.get(..whole.data_off).and_then(<[u8]>::last_chunk);
        if let Some(start) = record
            .and_then(read_tag)
            .and_then(|tag| insert_tag(chunk, whole.data_off, whole.len, tag))
        {
            whole.len += whole.data_off - start;
            whole.data_off = start;
        }
    }

    fn finish(&mut self, mem: &PacketMemory, mut whole: Partial, now: Time) -> RxFrame {
        self.restore_tag(mem, &mut whole);
        let Partial { mut buf, data_off, len, .. } = whole;
        let (data_off, len) = (data_off as u16, len as u32);
        let finished = mem.frame_mut(&mut buf, data_off, len).is_some_and(finish_unmarked_checksum);
        self.stats.rx_checksums_finished += u64::from(finished);
        let checksum = match finished {
            true => ChecksumStatus::FinishedByPort,
            false => ChecksumStatus::AsReceived,
        };
        RxFrame { buf, data_off, len, wire_len: len, timestamp: now, checksum }
    }

    /// Makes the kernel send queued frames, and frees those that were sent.
    fn drive_tx(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let kicked = live.xsk.kick();
        while let Some(completed) = live.xsk.completed() {
            match completed {
                Ok(buf) => mem.free(buf),
                Err(NotHeld) => self.stats.tx_errors += 1,
            }
        }
        live.xsk.release_completed();
        match kicked {
            Ok(_) => Ok(()),
            Err(error) if tx_verdict(&error) == TxVerdict::Down => self.lost(mem),
            Err(error) => Err(self.watch.failed("send", error)),
        }
    }

    /// True if a frame is too long. The MTU counts neither the Ethernet header nor one tag. The kernel checks nothing
    /// on this path.
    fn exceeds_mtu(&self, mem: &PacketMemory, frame: &TxFrame) -> bool {
        let with_tag = self.caps.mtu_bytes.unwrap_or(u32::MAX).saturating_add(HEADER_BYTES);
        if frame.len <= with_tag - TAG_BYTES {
            return false;
        }
        let bytes = mem.frame(&frame.buf, frame.data_off, frame.len);
        let tagged = matches!(bytes.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
        !tagged || frame.len > with_tag
    }

    /// Number of frames, from the front, for which the ring has room.
    fn fitting(&mut self, frames: &[TxFrame]) -> usize {
        let Some(live) = &mut self.live else { return 0 };
        let mut room = live.xsk.tx_room().min(self.rings.send_room(&live.xsk));
        let mut count = 0;
        for frame in frames {
            // A frame that is copied to the front of a chunk needs at most as many parts as where it is.
            match room.checked_sub(self.shape.parts(frame)) {
                Some(left) => room = left,
                None => break,
            }
            count += 1;
        }
        count
    }

    /// Queues a frame that fits the ring; false if it was given up.
    fn queue(&mut self, mem: &mut PacketMemory, frame: TxFrame) -> bool {
        if self.exceeds_mtu(mem, &frame) {
            self.stats.tx_too_long += 1;
            mem.free(frame.buf);
            return false;
        }
        let len = frame.len;
        let is_cut = match self.shape.is_outside(&frame) {
            true => self.cut_copied(mem, frame),
            false => self.cut_in_place(mem, frame),
        };
        let is_queued =
            is_cut && self.live.as_mut().is_some_and(|live| live.xsk.send(&mut self.parts));
        self.parts.drain(..).for_each(|(buf, _)| mem.free(buf));
        if !is_queued {
            self.stats.tx_errors += 1;
            return false;
        }
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += u64::from(len);
        true
    }

    /// Lists the parts of a frame that the kernel sends from where it is, or from the front of a chunk; false if it
    /// cannot. Each is completed separately, so each has a reference. The caller frees the parts that are not sent.
    fn cut_in_place(&mut self, mem: &mut PacketMemory, mut frame: TxFrame) -> bool {
        let is_ready = frame.len > 0
            && (self.shape.sends_in_place(&frame, self.has_multi_buffer())
                || self.move_to_front(mem, &mut frame));
        if !is_ready {
            mem.free(frame.buf);
            return false;
        }
        let mut parts = self.shape.split(&frame).peekable();
        while let Some(part) = parts.next_if(|part| part.continued) {
            let Some(share) = mem.share(&frame.buf) else {
                mem.free(frame.buf);
                return false;
            };
            self.parts.push((share, part));
        }
        self.parts.extend(parts.next().map(|part| (frame.buf, part)));
        true
    }

    /// Lists the parts of a frame in a large chunk, copied; false if it cannot be sent so, or chunks are lacking.
    fn cut_copied(&mut self, mem: &mut PacketMemory, frame: TxFrame) -> bool {
        let is_possible = self.has_multi_buffer() || self.shape.parts(&frame) == 1;
        let is_cut = is_possible && copy_into_umem(mem, &self.shape, &frame, &mut self.parts);
        mem.free(frame.buf);
        is_cut
    }

    fn has_multi_buffer(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.multi_buffer)
    }

    /// Copies a frame to the front of another chunk; false if no chunk is free.
    fn move_to_front(&self, mem: &mut PacketMemory, frame: &mut TxFrame) -> bool {
        let Some(mut copy) = mem.alloc() else { return false };
        let from = mem.frame(&frame.buf, frame.data_off, frame.len);
        if let Some(to) = mem.bytes_mut(&mut copy).and_then(|c| c.get_mut(..from.len())) {
            to.copy_from_slice(from);
        }
        mem.free(std::mem::replace(&mut frame.buf, copy));
        frame.data_off = 0;
        true
    }
}

impl Port for XdpPort {
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
        self.look(mem, now)?;
        if self.live.as_ref().is_some_and(|live| live.xsk.sending() > 0) {
            self.drive_tx(mem)?;
        }
        let before = out.len();
        while out.len() - before < max {
            match self.live.as_mut().and_then(|live| live.xsk.receive()) {
                Some(Ok((buf, part))) => self.take_part(mem, buf, part, now, out),
                Some(Err(NotHeld)) => self.stats.rx_errors += 1,
                None => break,
            }
        }
        if let Some(live) = &mut self.live {
            live.xsk.release_rx();
        }
        self.refill(mem);
        Ok(out.len() - before)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        self.look(mem, now)?;
        if self.live.is_none() || self.watch.is_down() {
            return Ok(drop_all(mem, frames, &mut self.stats));
        }
        let mut done = TxDone::default();
        loop {
            let count = self.fitting(frames);
            let mut fitting = frames.drain(..count);
            for frame in fitting.by_ref() {
                if !self.queue(mem, frame) {
                    done.dropped = 1;
                    break;
                }
                done.sent += 1;
            }
            // Frames after one that was given up; empty otherwise.
            let rest: Vec<TxFrame> = fitting.collect();
            frames.splice(..0, rest).for_each(drop);
            match self.drive_tx(mem) {
                Err(error) if done.sent == 0 => return Err(error),
                Err(error) => {
                    self.notices.push(error.to_string());
                    break;
                }
                Ok(()) if frames.is_empty() || count == 0 || done.dropped > 0 => break,
                Ok(()) => {}
            }
        }
        self.stats.tx_full += u64::from(!frames.is_empty() && done.dropped == 0);
        Ok(done)
    }

    fn flush(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        self.drive_tx(mem)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        self.live.as_ref().map(|live| live.xsk.fd().as_raw_fd())
    }

    /// Its rings are memory, so a poll needs no system call.
    fn is_always_polled(&self) -> bool {
        true
    }

    fn stats(&mut self) -> PortStats {
        self.read_drops();
        self.stats.rx_kernel_drops = self.drops_before + self.drops_now;
        self.stats
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        self.watch.look(self.index)
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.stop(mem);
    }
}
