//! AF_XDP sockets: a region of packet memory registered as UMEM, and the rings on it.
//!
//! The kernel owns the chunks in a ring, so handles of chunks enter and leave here and nowhere else: no other code can
//! access a chunk that the kernel may write. Addresses in rings are byte offsets in the region; they do not leave this
//! module.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions,
    XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};
use wireyard_pipeline::packet::{Buf, PacketMemory, RegionPin};

use super::held::Held;
use super::ring::Ring;

/// Bytes that the kernel leaves free before a frame in the UMEM (XDP_PACKET_HEADROOM).
pub const XDP_HEADROOM_BYTES: u32 = 256;
/// Maximum length of a UMEM chunk: a page.
pub const UMEM_CHUNK_BYTES_MAX: u32 = 4096;
/// Minimum length of a UMEM chunk (XDP_UMEM_MIN_CHUNK_SIZE).
pub const UMEM_CHUNK_BYTES_MIN: u32 = 2048;

const SEND_BUFFER_BYTES: usize = 16 << 20;

/// Parameters of a socket.
#[derive(Clone, Copy, Debug)]
pub struct XskConfig {
    /// Interface index.
    pub index: u32,
    /// Receive and transmit queue of the interface.
    pub queue: u32,
    /// Entries of the receive rings (fill, rx): a power of two.
    pub receive_entries: u32,
    /// Entries of the transmit rings (tx, completion): a power of two.
    pub send_entries: u32,
    /// Bytes of a UMEM chunk: 2,048 or 4,096, and at most those of a chunk of packet memory.
    pub umem_chunk_bytes: u32,
    /// Free bytes before the kernel's own headroom.
    pub extra_headroom_bytes: u32,
    /// Frames may span several UMEM chunks.
    pub multi_buffer: bool,
}

/// A part of a frame: its place in its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Byte offset in the chunk.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
    /// Another part of the same frame follows.
    pub continued: bool,
}

/// The kernel returned an address in a chunk that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

/// A bound AF_XDP socket with its rings and the chunks in them.
pub struct Xsk {
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    receiving: Held,
    sending: Held,
    /// Bytes of a chunk of packet memory: a power of two.
    chunk_bytes: u32,
    fd: OwnedFd,
    /// Last field: the kernel writes into the region until the socket is closed.
    region: RegionPin,
}

impl Xsk {
    /// Registers the memory, creates the rings and binds (copy mode, need-wakeup).
    ///
    /// # Errors
    /// The step that failed, and why: ENOMEM or ENOBUFS if the memory cannot be pinned, EBUSY if the queue has a
    /// socket, EINVAL or EOPNOTSUPP for options that this kernel or driver does not support.
    pub fn open(mem: &PacketMemory, config: &XskConfig) -> Result<Xsk, (&'static str, io::Error)> {
        let at = |step| move |error: Errno| (step, io::Error::from(error));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(at("open an AF_XDP socket"))?;
        let (region, pin) = (mem.region_layout(), mem.pin());
        let (region_chunks, chunk_bytes) = (mem.config().chunks as usize, mem.config().chunk_bytes);
        let umem = XdpUmemReg {
            addr: region.base as u64,
            len: region.bytes as u64,
            chunk_size: config.umem_chunk_bytes,
            headroom: config.extra_headroom_bytes,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        // The region is that of `mem`, which lives until the socket is closed: the socket has a pin on it, dropped
        // last.
        sockopt::set_xdp_umem_reg(&fd, umem).map_err(at("pin the packet memory (UMEM)"))?;
        let (receive, send) = (config.receive_entries, config.send_entries);
        size_rings(&fd, receive, send).map_err(at("make the AF_XDP rings"))?;
        // Without the privilege the default stays, which only limits the frames in transit.
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER_BYTES);
        let map = at("map the AF_XDP rings");
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(map)?;
        let rx = Ring::map(&fd, &offsets.rx, receive, XDP_PGOFF_RX_RING).map_err(map)?;
        let tx = Ring::map(&fd, &offsets.tx, send, XDP_PGOFF_TX_RING).map_err(map)?;
        let fill = Ring::map(&fd, &offsets.fr, receive, XDP_UMEM_PGOFF_FILL_RING).map_err(map)?;
        let completion = Ring::map(&fd, &offsets.cr, send, XDP_UMEM_PGOFF_COMPLETION_RING);
        let completion = completion.map_err(map)?;
        bind_to_queue(&fd, config).map_err(at("bind the AF_XDP socket"))?;
        let (receiving, sending) = (Held::new(region_chunks), Held::new(region_chunks));
        Ok(Xsk { rx, tx, fill, completion, receiving, sending, chunk_bytes, fd, region: pin })
    }

    /// Closes the socket and returns the chunks that the kernel had.
    pub fn close(mut self) -> Vec<Buf> {
        let chunks = self.receiving.drain().chain(self.sending.drain()).collect();
        // Only after this does the kernel write into none of them.
        drop(self);
        chunks
    }

    /// The socket, for poll and for the map of the XDP program.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Number of chunks that the kernel has for receiving, and of received ones that were not taken yet.
    pub fn receiving(&self) -> u32 {
        self.receiving.count()
    }

    /// Number of parts that are being sent.
    pub fn sending(&self) -> u32 {
        self.sending.count()
    }

    /// Number of chunks for receiving that the kernel accepts now.
    pub fn fill_room(&mut self) -> u32 {
        self.fill.room()
    }

    /// Gives the kernel a chunk for receiving. It is returned if there is no room, if it is not in the UMEM, or if it
    /// is shared. See `publish_fill`.
    pub fn fill(&mut self, buf: Buf) -> Result<(), Buf> {
        match self.address(&buf, 0, self.chunk_bytes) {
            Some(address) if self.region.is_unique(&buf) && self.fill.push(address) => {
                self.receiving.put(buf);
                Ok(())
            }
            _ => Err(buf),
        }
    }

    /// Publishes the offered chunks to the kernel.
    pub fn publish_fill(&mut self) {
        self.fill.publish();
        if self.fill.needs_wakeup() {
            // No buffer is passed: the call only makes the driver check the ring.
            let _ = recv(&self.fd, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }

    /// The next received part. After the last call of a burst, call `release_rx`.
    pub fn receive(&mut self) -> Option<Result<(Buf, Fragment), NotHeld>> {
        let XdpDesc { addr, len, options } = self.rx.pop()?;
        let continued = options.contains(XdpDescOptions::XDP_PKT_CONTD);
        let part = Fragment { offset: self.offset(addr), len, continued };
        let buf = self.receiving.take(self.chunk(addr));
        Some(buf.map(|buf| (buf, part)).ok_or(NotHeld))
    }

    /// Returns the receive entries to the kernel.
    pub fn release_rx(&mut self) {
        self.rx.release();
    }

    /// Number of parts that can be sent now.
    pub fn tx_room(&mut self) -> u32 {
        self.tx.room()
    }

    /// Queues a frame, all of its parts or none. False if there was no room, or the frame is not in the UMEM: then the
    /// parts stay in the list. See `kick`.
    pub fn send(&mut self, parts: &mut Vec<(Buf, Fragment)>) -> bool {
        let is_inside =
            |(buf, part): &(Buf, Fragment)| self.address(buf, part.offset, part.len).is_some();
        if !parts.iter().all(is_inside) || !self.tx.fits(parts.len()) {
            return false;
        }
        for (buf, part) in parts.drain(..) {
            let Some(addr) = self.address(&buf, part.offset, part.len) else { continue };
            let options = match part.continued {
                true => XdpDescOptions::XDP_PKT_CONTD,
                false => XdpDescOptions::empty(),
            };
            self.tx.push(XdpDesc { addr, len: part.len, options });
            self.sending.put(buf);
        }
        true
    }

    /// Makes the kernel send the queued parts. True if some of them still wait.
    ///
    /// # Errors
    /// ENETDOWN, ENXIO: the interface is down or gone.
    pub fn kick(&mut self) -> io::Result<bool> {
        self.tx.publish();
        let mut waiting = self.tx.waiting();
        while waiting > 0 && self.tx.needs_wakeup() {
            // No buffer is passed: the frames are in the ring.
            let result = send(&self.fd, &[], SendFlags::DONTWAIT);
            let left = self.tx.waiting();
            match result {
                Ok(_) => {}
                // A batch was sent, or there is no room: continue while the ring drains.
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if left == waiting {
                break;
            }
            waiting = left;
        }
        Ok(self.tx.waiting() > 0)
    }

    /// The chunk of a part that was sent. After the last, call `release_completed`.
    pub fn completed(&mut self) -> Option<Result<Buf, NotHeld>> {
        let address = self.completion.pop()?;
        Some(self.sending.take(self.chunk(address)).ok_or(NotHeld))
    }

    /// Returns the completion entries to the kernel.
    pub fn release_completed(&mut self) {
        self.completion.release();
    }

    /// Frames that the kernel dropped since the socket was created: no chunk offered, no room, too long.
    pub fn kernel_drops(&self) -> u64 {
        let dropped = |drops: XdpStatistics| drops.rx_dropped + drops.rx_ring_full.unwrap_or(0);
        sockopt::xdp_statistics(&self.fd).map_or(0, dropped)
    }

    /// The address of `len` bytes of a chunk; `None` if they are not in the UMEM.
    fn address(&self, buf: &Buf, offset: u32, len: u32) -> Option<u64> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.chunk_bytes);
        let is_inside = self.region.owns(buf) && (buf.index() as usize) < self.receiving.chunks();
        let base = u64::from(buf.index()) << self.chunk_bytes.trailing_zeros();
        (fits && is_inside).then_some(base + u64::from(offset))
    }

    /// The index of the chunk of an address.
    fn chunk(&self, address: u64) -> u32 {
        (address >> self.chunk_bytes.trailing_zeros()) as u32
    }

    /// The offset of an address in its chunk.
    fn offset(&self, address: u64) -> u32 {
        address as u32 & (self.chunk_bytes - 1)
    }
}

fn size_rings(fd: &OwnedFd, receive: u32, send: u32) -> Result<(), Errno> {
    sockopt::set_xdp_umem_fill_ring_size(fd, receive)?;
    sockopt::set_xdp_umem_completion_ring_size(fd, send)?;
    sockopt::set_xdp_rx_ring_size(fd, receive)?;
    sockopt::set_xdp_tx_ring_size(fd, send)
}

fn bind_to_queue(fd: &OwnedFd, config: &XskConfig) -> Result<(), Errno> {
    let mut flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    flags.set(SocketAddrXdpFlags::XDP_USE_SG, config.multi_buffer);
    bind(fd, &SocketAddrXdp::new(flags, config.index, config.queue))
}
