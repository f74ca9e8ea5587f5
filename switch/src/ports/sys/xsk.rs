//! AF_XDP sockets: a region of packet memory registered as UMEM, and the rings on it.
//!
//! Addresses are byte offsets in the region. Who owns a chunk while its address is in a ring is kept
//! by the caller, who holds the handles.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use wireyard_pipeline::packet::{PacketMemory, RegionPin};

use super::ring::Ring;
use super::{OptionValue, checked, get_option, set_option, set_option_with_addresses, socket};

/// Bytes that the kernel leaves free before a frame in the UMEM (XDP_PACKET_HEADROOM).
pub const XDP_HEADROOM_BYTES: u32 = 256;
/// The longest UMEM chunk: a page.
pub const UMEM_CHUNK_BYTES_MAX: u32 = 4096;
/// The shortest UMEM chunk (XDP_UMEM_MIN_CHUNK_SIZE).
pub const UMEM_CHUNK_BYTES_MIN: u32 = 2048;

const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

/// How a socket is to be made.
#[derive(Clone, Copy, Debug)]
pub struct XskConfig {
    /// Interface index.
    pub index: u32,
    /// Receive and transmit queue of the interface.
    pub queue: u32,
    /// Entries of the rings for receiving (fill, rx): a power of two.
    pub receive_entries: u32,
    /// Entries of the rings for sending (tx, completion): a power of two.
    pub send_entries: u32,
    /// Bytes of a UMEM chunk: 2,048 or 4,096, and not more than a chunk of packet memory.
    pub umem_chunk_bytes: u32,
    /// Free bytes before the kernel's own headroom.
    pub extra_headroom_bytes: u32,
    /// Frames may span several UMEM chunks.
    pub multi_buffer: bool,
}

/// A part of a frame: where, how long, and whether another part follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Byte offset in the region.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// Another part of the same frame follows.
    pub continued: bool,
}

/// A bound AF_XDP socket with its rings.
pub struct Xsk {
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    fd: OwnedFd,
    /// Last: the kernel writes into the region until the socket is closed.
    _region: RegionPin,
}

impl Xsk {
    /// Registers the memory, makes the rings and binds (copy mode, need-wakeup).
    ///
    /// # Errors
    /// The step that failed, and why: ENOMEM or ENOBUFS if the memory cannot be pinned, EBUSY if the
    /// queue has a socket, EINVAL or EOPNOTSUPP for what this kernel or driver does not know.
    pub fn open(mem: &PacketMemory, config: &XskConfig) -> Result<Xsk, (&'static str, io::Error)> {
        let at = |step| move |error| (step, error);
        let fd = socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
            .map_err(at("open an AF_XDP socket"))?;
        let (region, pin) = (mem.region_layout(), mem.pin());
        let umem = libc::xdp_umem_reg {
            addr: region.base as u64,
            len: region.bytes as u64,
            chunk_size: config.umem_chunk_bytes,
            headroom: config.extra_headroom_bytes,
            flags: 0,
            tx_metadata_len: 0,
        };
        let option = |name, value: &u32| set_option(&fd, libc::SOL_XDP, name, value);
        // SAFETY: the region is that of `mem`, which stays until the socket is closed: the socket has a pin on it, dropped last.
        unsafe { set_option_with_addresses(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem) }
            .map_err(at("pin the packet memory (UMEM)"))?;
        let (receive, send) = (config.receive_entries, config.send_entries);
        for (ring, entries) in [
            (libc::XDP_UMEM_FILL_RING, receive),
            (libc::XDP_UMEM_COMPLETION_RING, send),
            (libc::XDP_RX_RING, receive),
            (libc::XDP_TX_RING, send),
        ] {
            option(ring, &entries).map_err(at("make the AF_XDP rings"))?;
        }
        // Without the privilege the default stays, which only bounds frames under way.
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES);
        let offsets: Offsets = get_option(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(at("map the AF_XDP rings"))?;
        let map = at("map the AF_XDP rings");
        let rx = Ring::map(&fd, offsets.ring(0), receive, libc::XDP_PGOFF_RX_RING).map_err(map)?;
        let tx = Ring::map(&fd, offsets.ring(1), send, libc::XDP_PGOFF_TX_RING).map_err(map)?;
        let fill = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let fill = Ring::map(&fd, offsets.ring(2), receive, fill).map_err(map)?;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let completion = Ring::map(&fd, offsets.ring(3), send, completion).map_err(map)?;
        bind(&fd, config).map_err(at("bind the AF_XDP socket"))?;
        Ok(Xsk { rx, tx, fill, completion, fd, _region: pin })
    }

    /// The socket, for poll and for the map of the XDP program.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// How many more chunks the kernel takes for receiving.
    pub fn fill_room(&mut self) -> u32 {
        self.fill.room()
    }

    /// Offers a chunk at `address` for receiving; false if there is no room. See `publish_fill`.
    pub fn fill(&mut self, address: u64) -> bool {
        self.fill.push(address)
    }

    /// Makes the offered chunks known to the kernel.
    pub fn publish_fill(&mut self) {
        self.fill.publish();
        if self.fill.needs_wakeup() {
            // SAFETY: no buffer is given; the call only makes the driver look at the ring.
            unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// The next received part. After the last call of a burst: `release_rx`.
    pub fn receive(&mut self) -> Option<Part> {
        self.rx.pop().map(|desc| Part {
            address: desc.addr,
            len: desc.len,
            continued: desc.options & libc::XDP_PKT_CONTD != 0,
        })
    }

    /// Gives the receive entries back to the kernel.
    pub fn release_rx(&mut self) {
        self.rx.release();
    }

    /// How many parts can be sent now.
    pub fn tx_room(&mut self) -> u32 {
        self.tx.room()
    }

    /// Queues a part of a frame; false if there is no room. See `kick`.
    pub fn send(&mut self, part: Part) -> bool {
        let options = if part.continued { libc::XDP_PKT_CONTD } else { 0 };
        self.tx.push(libc::xdp_desc { addr: part.address, len: part.len, options })
    }

    /// Makes the kernel send what is queued. True if some of it still waits.
    ///
    /// # Errors
    /// ENETDOWN, ENXIO: the interface does not work.
    pub fn kick(&mut self) -> io::Result<bool> {
        self.tx.publish();
        let mut waiting = self.tx.waiting();
        while waiting > 0 && self.tx.needs_wakeup() {
            // SAFETY: no buffer and no address are given; the frames are in the ring.
            let result = unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            let error = checked(result as libc::c_int).err();
            let left = self.tx.waiting();
            match error.as_ref().and_then(io::Error::raw_os_error) {
                None => {}
                // A batch was sent, or there is no room: go on while it moves.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
                    if left < waiting => {}
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => break,
                Some(_) => return Err(error.unwrap_or_else(io::Error::last_os_error)),
            }
            if left == waiting {
                break;
            }
            waiting = left;
        }
        Ok(self.tx.waiting() > 0)
    }

    /// The address of a part that was sent and is free again. After the last: `release_completed`.
    pub fn completed(&mut self) -> Option<u64> {
        self.completion.pop()
    }

    /// Gives the completion entries back to the kernel.
    pub fn release_completed(&mut self) {
        self.completion.release();
    }

    /// Frames that the kernel dropped since the socket was made: no chunk offered, no room, too long.
    pub fn kernel_drops(&self) -> u64 {
        // `xdp_statistics`: rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full, ...
        match get_option::<[u64; 6]>(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS) {
            Ok([dropped, _, _, ring_full, _, _]) => dropped + ring_full,
            Err(_) => 0,
        }
    }
}

/// `xdp_mmap_offsets` as words: producer, consumer, desc, flags of rx, tx, fill, completion.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Offsets([[u64; 4]; 4]);

// SAFETY: integers, side by side.
unsafe impl OptionValue for Offsets {}

impl Offsets {
    fn ring(&self, i: usize) -> libc::xdp_ring_offset {
        let [producer, consumer, desc, flags] = self.0.get(i).copied().unwrap_or_default();
        libc::xdp_ring_offset { producer, consumer, desc, flags }
    }
}

fn bind(fd: &OwnedFd, config: &XskConfig) -> io::Result<()> {
    let sg = if config.multi_buffer { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP | sg,
        sxdp_ifindex: config.index,
        sxdp_queue_id: config.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}
