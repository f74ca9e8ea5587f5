//! `pnet:` ports: pnet's data link channel, with additions for what it loses.
//!
//! pnet reads with recvfrom, so a VLAN tag that the kernel took out of the frame is lost, and frames larger than its
//! buffer are truncated silently. It is given prepared sockets: one that sends, and one that receives frames without a
//! tag, with the kernel's `virtio_net_hdr` in front (pnet takes it for data), so that unfinished checksums can be
//! finished and frames of several segments cut. A separate packet socket receives frames with a tag. Order is kept
//! among frames with a tag, and among those without.
//!
//! One system call for each frame, and a poll before it: the portable port, not the fast one.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use pnet_datalink::{
    Channel, ChannelType, Config, DataLinkReceiver, DataLinkSender, NetworkInterface,
};
use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

use super::kind::{Kind, Medium, QueueCount};
use super::offload::TAG_BYTES;
use super::open::joined;
use super::raw::{Burst, RawRx, begin_cutting, finish, give, gso_notice, segment};
use super::segments::Cutting;
use super::sys::packet::{self, Received, RxOptions, VNET_HEADER_BYTES};
use super::sys::poll::Waiter;
use super::transmit::{Sending, drop_all};
use super::watch::Watch;
use super::{LinkState, LinkType, Port, PortCaps, PortError, PortSpec, PortStats};
use super::{RxFrame, TxDone, TxFrame};

/// The longest read: the longest frame that Linux delivers, and its `virtio_net_hdr`.
const READ_BYTES: usize = 65_536 + VNET_HEADER_BYTES;

/// A port on pnet's data link channel.
pub struct PnetPort {
    watch: Watch,
    caps: PortCaps,
    channels: Channels,
    /// A chunk for the next frame: pnet reads into it before it is known whether there is one.
    spare: Option<Buf>,
    /// A frame of several segments, of which some were delivered.
    large: Box<[u8]>,
    cutting: Option<Cutting>,
    late: Option<PortError>,
    stats: PortStats,
    notices: Vec<String>,
}

struct Channels {
    index: u32,
    receiver: Box<dyn DataLinkReceiver>,
    sender: Box<dyn DataLinkSender>,
    tagged: RawRx,
    /// A duplicate of the descriptor of the receiver's socket.
    rx_fd: OwnedFd,
    tx_fd: OwnedFd,
    waiter: Waiter,
}

impl Channels {
    fn open(index: u32, name: &str) -> io::Result<Channels> {
        let options = RxOptions { tagged: Some(false), aux_data: false, vnet_header: true };
        let rx = packet::rx_socket(index, options)?;
        let tx = packet::tx_socket(index)?;
        let (rx_fd, tx_fd) = (rx.try_clone()?, tx.try_clone()?);
        let tagged = RawRx::open(index, Some(true))?;
        let interface = NetworkInterface {
            name: name.to_owned(),
            description: String::new(),
            index,
            mac: None,
            ips: Vec::new(),
            flags: 0,
        };
        let config = Config {
            read_buffer_size: READ_BYTES,
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            // The sockets are promiscuous already.
            promiscuous: false,
            ..Config::default()
        };
        let (_, receiver) = channel(&interface, config, rx)?;
        // Protocol 0: the sending socket receives nothing. (pnet uses the type to bind only.)
        let sending = Config { channel_type: ChannelType::Layer3(0), ..config };
        let (sender, _) = channel(&interface, sending, tx)?;
        let waiter = Waiter::on(&[rx_fd.as_raw_fd(), tagged.fd.as_raw_fd()])?;
        Ok(Channels { index, receiver, sender, tagged, rx_fd, tx_fd, waiter })
    }
}

pub(crate) const KIND: Kind = Kind {
    name: "pnet",
    medium: Medium::Interface,
    queues: QueueCount::One,
    options: &[],
    open: |spec, _, _| Ok(joined(vec![PnetPort::open(spec)?])),
};

type Halves = (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>);

/// Opens a channel on a prepared socket, which pnet closes (after an error too).
fn channel(interface: &NetworkInterface, config: Config, socket: OwnedFd) -> io::Result<Halves> {
    let config = Config { socket_fd: Some(socket.into_raw_fd()), ..config };
    match pnet_datalink::channel(interface, config)? {
        Channel::Ethernet(sender, receiver) => Ok((sender, receiver)),
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

impl PnetPort {
    /// Opens the interface of a specification.
    ///
    /// # Errors
    /// No such interface, not Ethernet, no privilege.
    pub fn open(spec: &PortSpec) -> Result<PnetPort, PortError> {
        let port = spec.to_string();
        let (watch, found) = Watch::open(&port, &spec.target)?;
        let channels = Channels::open(found.index, &spec.target)
            .map_err(|error| watch.failed("open a pnet channel", error))?;
        let link = spec.link.unwrap_or(LinkType::Ethernet);
        let notices = vec![format!(
            "{port}: pnet loses VLAN tags, so tagged frames are received by a packet socket beside it; \
             raw:{} is one socket, and faster",
            spec.target
        )];
        Ok(PnetPort {
            watch,
            caps: PortCaps { link, mtu_bytes: Some(found.mtu_bytes) },
            channels,
            spare: None,
            large: vec![0; READ_BYTES].into_boxed_slice(),
            cutting: None,
            late: None,
            stats: PortStats::default(),
            notices,
        })
    }

    fn reopen(&mut self, now: Time) -> bool {
        let Some(found) = self.watch.look_again(now) else { return false };
        let Ok(channels) = Channels::open(found.index, self.watch.interface()) else {
            return false;
        };
        let old = std::mem::replace(&mut self.channels, channels);
        self.channels.tagged.take_over(old.tagged);
        self.caps.mtu_bytes = Some(found.mtu_bytes);
        self.watch.works();
        true
    }

    /// Receives one frame without a tag.
    fn receive(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
    ) -> io::Result<Burst> {
        let offset = (mem.config().headroom_bytes as usize).max(TAG_BYTES);
        if let Some(cutting) = &self.cutting {
            let end = offset + cutting.segment_len();
            let Some(buf) = self.chunk(mem, end) else {
                // It is not kept for later, as in `raw:`: nothing behind it would be read.
                self.cutting = None;
                self.stats.rx_errors += 1;
                return Ok(Burst::Last);
            };
            self.cut(mem, buf, offset, now, out);
            return Ok(Burst::More);
        }
        // A frame is read only if there is a chunk for it: otherwise it waits in the kernel.
        let Some(mut buf) = self.chunk(mem, 0) else { return Ok(Burst::Last) };
        let read = match self.channels.receiver.next() {
            Ok(read) => read,
            Err(error) => {
                self.spare = Some(buf);
                return if error.kind() == ErrorKind::TimedOut {
                    Ok(Burst::Last)
                } else {
                    Err(cause(error, &self.channels.rx_fd))
                };
            }
        };
        let mut received = Received::default();
        let Some((header, frame)) = read.split_first_chunk::<VNET_HEADER_BYTES>() else {
            self.spare = Some(buf);
            self.stats.rx_errors += 1;
            return Ok(Burst::More);
        };
        packet::read_vnet_header(header, &mut received);
        received.len = frame.len() as u32;
        received.truncated = read.len() >= READ_BYTES;
        let longest = (mem.max_chunk_bytes() as usize).saturating_sub(offset);
        self.cutting = begin_cutting(frame, &received, longest);
        if let (Some(_), Some(place)) = (&self.cutting, self.large.get_mut(..frame.len())) {
            place.copy_from_slice(frame);
            self.spare = Some(buf);
            return Ok(Burst::More);
        }
        let end = offset + frame.len();
        if end > mem.end_max(&buf) && end <= mem.max_chunk_bytes() as usize {
            let Some(large) = mem.alloc_to(end) else {
                self.spare = Some(buf);
                self.stats.rx_no_memory += 1;
                self.stats.rx_errors += 1;
                return Ok(Burst::More);
            };
            self.spare = Some(std::mem::replace(&mut buf, large));
        }
        match mem.bytes_mut(&mut buf).and_then(|chunk| chunk.get_mut(offset..end)) {
            Some(place) => place.copy_from_slice(frame),
            None => received.truncated = true,
        }
        match finish(mem, buf, offset, &received, now, &mut self.stats) {
            Ok(frame) => give(frame, out, &mut self.stats),
            Err(buf) => self.keep(mem, buf),
        }
        Ok(Burst::More)
    }

    /// A chunk in which a frame may end at `end`; the spare one, if that is large enough.
    fn chunk(&mut self, mem: &mut PacketMemory, end: usize) -> Option<Buf> {
        let buf = match self.spare.take() {
            Some(buf) if end <= mem.end_max(&buf) => Some(buf),
            small => {
                small.into_iter().for_each(|buf| mem.free(buf));
                mem.alloc_to(end)
            }
        };
        self.stats.rx_no_memory += u64::from(buf.is_none());
        buf
    }

    /// Stores a chunk for the next call.
    fn keep(&mut self, mem: &mut PacketMemory, buf: Buf) {
        self.spare.replace(buf).into_iter().for_each(|old| mem.free(old));
    }

    /// Writes the next segment of the large frame into `buf`.
    fn cut(
        &mut self,
        mem: &mut PacketMemory,
        mut buf: Buf,
        offset: usize,
        now: Time,
        out: &mut Vec<RxFrame>,
    ) {
        let Some(mut cutting) = self.cutting.take() else { return self.keep(mem, buf) };
        let made = match cutting.write(mem, [&self.large, &[]], &mut buf, offset) {
            Some(len) => segment(mem, buf, offset, len, None, now),
            None => Err(buf),
        };
        match made {
            Ok(frame) => give(frame, out, &mut self.stats),
            Err(buf) => {
                self.keep(mem, buf);
                self.stats.rx_gso += 1;
                return;
            }
        }
        if cutting.is_done() {
            self.stats.rx_segmented += 1;
        } else {
            self.cutting = Some(cutting);
        }
    }

    /// Receives frames without a tag first, then those with one.
    fn receive_all(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        end: usize,
    ) -> io::Result<()> {
        // Half of the burst at most, so that tagged frames are not starved by the others.
        let half = end - (end - out.len()) / 2;
        while out.len() < half && self.receive(mem, now, out)? == Burst::More {}
        while out.len() < end {
            let want = end - out.len();
            let burst = self.channels.tagged.burst(mem, now, out, want, &mut self.stats);
            match burst {
                Ok(Burst::More) => {}
                Ok(Burst::Last) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while out.len() < end && self.receive(mem, now, out)? == Burst::More {}
        Ok(())
    }
}

/// The socket's own error where pnet returns "unexpected poll event" for it.
fn cause(error: io::Error, fd: &OwnedFd) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    packet::take_error(fd).unwrap_or(error)
}

impl Port for PnetPort {
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
        let segments = self.stats.rx_gso;
        let result = self.receive_all(mem, now, out, before.saturating_add(max));
        if segments == 0 && self.stats.rx_gso > 0 {
            self.notices.push(gso_notice(&self.watch));
        }
        let failure = result
            .err()
            .and_then(|error| self.watch.rx_failed(error, self.channels.index, &mut self.stats));
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
        let Channels { index, sender, tx_fd, .. } = &mut self.channels;
        let sending = Sending { watch: &mut self.watch, index: *index, stats: &mut self.stats };
        sending.one_by_one(mem, frames, |bytes| match sender.send_to(bytes, None) {
            Some(Err(error)) => Err(cause(error, tx_fd)),
            _ => Ok(()),
        })
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.channels.waiter.as_raw_fd())
    }

    fn next_arrival(&mut self) -> Option<Time> {
        (self.cutting.is_some() || self.channels.tagged.holds()).then_some(Time::ZERO)
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_kernel_drops += packet::kernel_drops(&self.channels.rx_fd);
        self.stats.rx_kernel_drops += packet::kernel_drops(&self.channels.tagged.fd);
        self.stats
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        if self.watch.is_gone() {
            self.reopen(now);
        }
        self.watch.look(self.channels.index)
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.channels.tagged.close(mem);
        self.spare.take().into_iter().for_each(|buf| mem.free(buf));
    }
}
