//! AF_PACKET sockets (packet(7)): bursts by recvmmsg and sendmmsg, directly into packet memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wireyard_pipeline::packet::{Buf, PacketMemory};

use super::{checked, get_option, set_option, set_option_with_addresses};
use crate::ports::TxFrame;

/// Maximum number of messages in one system call.
pub const BATCH_MAX: usize = 64;
/// Bytes of `struct virtio_net_hdr` (virtio 1.x, 5.1.6; without num_buffers).
pub const VNET_HEADER_BYTES: usize = 10;
/// Maximum length in bytes of a frame of several segments, beyond the part in its chunk.
pub const LARGE_BYTES: usize = 65_536;
/// Room for one `tpacket_auxdata` control message.
const CONTROL_BYTES: usize = 64;
const SOCKET_BUFFER_BYTES: libc::c_int = 16 << 20;
/// A classic BPF instruction: return the number of bytes of the frame to deliver.
const FILTER_RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Options of a receive socket.
#[derive(Clone, Copy, Debug)]
pub struct RxOptions {
    /// Only frames with (`Some(true)`) or without (`Some(false)`) a VLAN tag that the kernel took out.
    pub tagged: Option<bool>,
    /// Deliver the stripped VLAN tag beside the frame.
    pub aux_data: bool,
    /// Deliver a `virtio_net_hdr` in front of the frame.
    pub vnet_header: bool,
}

/// A socket that receives every frame that arrives on the interface and none that leaves by it.
///
/// # Errors
/// EPERM without CAP_NET_RAW, ENODEV.
pub fn rx_socket(index: u32, options: RxOptions) -> io::Result<OwnedFd> {
    rx_socket_behind(index, options, &[])
}

/// A socket that receives a part of the frames that arrive on the interface, and none that leaves by it: the sockets of
/// a group share them by the kernel's hash of the flow (PACKET_FANOUT_HASH, `__skb_get_hash_symmetric`: addresses and
/// ports of IPv4 and IPv6, the EtherType of other protocols). Without a `group` it creates one; returns the group.
///
/// # Errors
/// As [`rx_socket`]; EINVAL before Linux 5.10.
pub fn fanout_socket(
    index: u32,
    options: RxOptions,
    group: Option<u16>,
) -> io::Result<(OwnedFd, u16)> {
    // include/uapi/linux/if_packet.h
    const FLAG_UNIQUE_ID: u32 = 0x2000;
    const FLAG_IGNORE_OUTGOING: u32 = 0x4000;
    // Before it is in the group it would receive every frame: the filter accepts none.
    let nothing = libc::sock_filter { code: FILTER_RETURN, jt: 0, jf: 0, k: 0 };
    let fd = rx_socket_behind(index, options, &[nothing])?;
    let kind = libc::PACKET_FANOUT_HASH | FLAG_IGNORE_OUTGOING;
    let (id, flags) = group.map_or((0, FLAG_UNIQUE_ID), |group| (u32::from(group), 0));
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &(id | (kind | flags) << 16))?;
    let group = get_option::<u32>(&fd, libc::SOL_PACKET, libc::PACKET_FANOUT)? as u16;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)?;
    Ok((fd, group))
}

fn rx_socket_behind(
    index: u32,
    options: RxOptions,
    filter: &[libc::sock_filter],
) -> io::Result<OwnedFd> {
    // Protocol 0: nothing is received before the socket is bound and its options are set.
    let fd = socket()?;
    let on: libc::c_int = 1;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)?;
    if options.aux_data {
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &on)?;
    }
    if options.vnet_header {
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)?;
    }
    if let Some(tagged) = options.tagged {
        attach_filter(&fd, &tag_filter(tagged))?;
    }
    if !filter.is_empty() {
        attach_filter(&fd, filter)?;
    }
    grow(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
    add_promiscuous(&fd, index)?;
    bind(&fd, index, libc::ETH_P_ALL as u16)?;
    Ok(fd)
}

/// The interface receives frames for all addresses as long as the socket is open (packet(7), PACKET_MR_PROMISC).
fn add_promiscuous(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// A socket that receives nothing and makes the interface receive frames for all addresses, for ports that receive in
/// another way.
///
/// # Errors
/// EPERM without CAP_NET_RAW, ENODEV.
pub fn promiscuous(index: u32) -> io::Result<OwnedFd> {
    let fd = socket()?;
    add_promiscuous(&fd, index)?;
    Ok(fd)
}

/// A socket that sends on the interface, past the queueing discipline, and receives nothing.
///
/// # Errors
/// EPERM without CAP_NET_RAW, ENODEV.
pub fn tx_socket(index: u32) -> io::Result<OwnedFd> {
    let fd = socket()?;
    let on: libc::c_int = 1;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
    grow(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
    bind(&fd, index, 0)?;
    Ok(fd)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// The privileged option has no limit; the other is limited by net.core.[rw]mem_max.
fn grow(fd: &OwnedFd, forced: libc::c_int, polite: libc::c_int) {
    if set_option(fd, libc::SOL_SOCKET, forced, &SOCKET_BUFFER_BYTES).is_err() {
        // A smaller buffer only drops earlier, which the kernel's drop counter shows.
        let _ = set_option(fd, libc::SOL_SOCKET, polite, &SOCKET_BUFFER_BYTES);
    }
}

fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: plain data, for which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// True if the kernel unbound the socket from its interface, which was deleted or moved to another namespace. An
/// interface with the same index may exist again.
pub fn is_unbound(fd: &OwnedFd) -> bool {
    // SAFETY: plain data, for which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes `len` bytes of `address` at most.
    let named =
        unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    checked(named).is_ok() && address.sll_ifindex <= 0
}

/// A classic BPF program that tests for the stripped tag, which is not part of the frame's bytes.
fn tag_filter(tagged: bool) -> [libc::sock_filter; 4] {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let present = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    let (if_present, if_absent) = if tagged { (u32::MAX, 0) } else { (0, u32::MAX) };
    [
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, present),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, if_present),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, if_absent),
    ]
}

fn attach_filter(fd: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let mut program = program.to_vec();
    // The kernel copies the program during the call.
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: `program` lives through the call and has `len` instructions.
    unsafe { set_option_with_addresses(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter) }
}

/// Frames that the kernel dropped since the last call because the socket's buffer was full.
pub fn kernel_drops(fd: &OwnedFd) -> u64 {
    // `tpacket_stats`: packets, drops. Reading resets both.
    match get_option::<[u32; 2]>(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS) {
        Ok([_, drops]) => u64::from(drops),
        Err(_) => 0,
    }
}

/// Takes the pending error of a socket.
pub fn take_error(fd: &OwnedFd) -> Option<io::Error> {
    match get_option::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) | Err(_) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
    }
}

/// The kernel's description of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the frame, which may be more than were stored.
    pub len: u32,
    /// The frame did not fit.
    pub truncated: bool,
    /// The VLAN tag that the kernel took out: tag protocol and control information.
    pub vlan: Option<(u16, u16)>,
    /// Where the checksum starts, and where it is stored, if the sender left it unfinished.
    pub unfinished_checksum: Option<(u16, u16)>,
    /// For a frame of more than one transport segment: `gso_type` and `gso_size`.
    pub gso: Option<(u8, u16)>,
}

/// Buffers of the batched calls, allocated once.
pub struct Batch {
    messages: [libc::mmsghdr; BATCH_MAX],
    parts: [[libc::iovec; 3]; BATCH_MAX],
    headers: [[u8; VNET_HEADER_BYTES]; BATCH_MAX],
    controls: [Control; BATCH_MAX],
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: the pointers inside are written before each system call and never read after it.
unsafe impl Send for Batch {}

impl Batch {
    /// Buffers for [`BATCH_MAX`] messages.
    pub fn new() -> Box<Batch> {
        // SAFETY: plain data (integers, pointers, byte arrays), for which zero is valid.
        Box::new(unsafe { std::mem::zeroed() })
    }

    /// Receives into `bufs` from byte `offset` of each chunk on; longer frames continue in `overflow` ([`LARGE_BYTES`]
    /// for each message). Returns the number of frames; [`Batch::received`] describes them. The socket must have the
    /// options for `virtio_net_hdr` and auxiliary data.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when nothing waits.
    pub fn receive(
        &mut self,
        fd: &OwnedFd,
        mem: &PacketMemory,
        bufs: &mut [Buf],
        offset: usize,
        overflow: &mut [u8],
    ) -> io::Result<usize> {
        let mut count = 0;
        let behind = overflow.chunks_mut(LARGE_BYTES);
        for (i, (buf, behind)) in bufs.iter_mut().zip(behind).enumerate().take(BATCH_MAX) {
            let room = mem.bytes_mut(buf).and_then(|chunk| chunk.get_mut(offset..));
            let Some(room) = room else { break };
            self.parts[i] = [part(&mut self.headers[i]), part(room), part(behind)];
            let header = &mut self.messages[i].msg_hdr;
            header.msg_iov = self.parts[i].as_mut_ptr();
            header.msg_iovlen = 3;
            header.msg_control = self.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            count += 1;
        }
        // SAFETY: the first `count` messages point at this struct, at `overflow` and at chunks whose handles are
        // borrowed exclusively through the call, so that the kernel alone writes them.
        let received = checked(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        })?;
        Ok(received as usize)
    }

    /// The kernel's description of message `i` of the last [`Batch::receive`].
    pub fn received(&self, i: usize) -> Received {
        let (Some(message), Some(header)) = (self.messages.get(i), self.headers.get(i)) else {
            return Received::default();
        };
        let mut received = Received {
            len: message.msg_len.saturating_sub(VNET_HEADER_BYTES as u32),
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            ..Received::default()
        };
        read_vnet_header(header, &mut received);
        // SAFETY: the kernel filled the control buffer of this message in the last call, and both are
        // part of `self`, which has not moved since (it is boxed and borrowed).
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&raw const message.msg_hdr);
            while let Some(head) = at.as_ref() {
                if head.cmsg_level == libc::SOL_PACKET && head.cmsg_type == libc::PACKET_AUXDATA {
                    let aux: libc::tpacket_auxdata =
                        std::ptr::read_unaligned(libc::CMSG_DATA(at).cast());
                    received.vlan = stripped_tag(&aux);
                }
                at = libc::CMSG_NXTHDR(&raw const message.msg_hdr, at);
            }
        }
        received
    }

    /// Sends the first frames of `frames` and returns the number that the kernel accepted (at least one).
    ///
    /// # Errors
    /// The kernel's error for the first frame.
    pub fn send(
        &mut self,
        fd: &OwnedFd,
        mem: &PacketMemory,
        frames: &[TxFrame],
    ) -> io::Result<usize> {
        let count = frames.len().min(BATCH_MAX);
        for (i, frame) in frames.iter().enumerate().take(count) {
            let bytes = mem.frame(&frame.buf, frame.data_off, frame.len);
            self.parts[i][0] =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let header = &mut self.messages[i].msg_hdr;
            header.msg_iov = self.parts[i].as_mut_ptr();
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            header.msg_flags = 0;
        }
        // SAFETY: the first `count` messages point at this struct and at frames whose handles are
        // borrowed through the call; the kernel only reads them.
        let sent = checked(unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok(sent as usize)
    }
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Parses a `virtio_net_hdr` in the byte order of the host, as packet sockets deliver it.
pub fn read_vnet_header(header: &[u8; VNET_HEADER_BYTES], received: &mut Received) {
    const NEEDS_CHECKSUM: u8 = 1;
    let [flags, gso_type, _, _, g0, g1, s0, s1, o0, o1] = *header;
    received.gso = (gso_type != 0).then(|| (gso_type, u16::from_ne_bytes([g0, g1])));
    if flags & NEEDS_CHECKSUM != 0 {
        received.unfinished_checksum =
            Some((u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([o0, o1])));
    }
}

fn stripped_tag(aux: &libc::tpacket_auxdata) -> Option<(u16, u16)> {
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let known = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if known { aux.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    Some((protocol, aux.tp_vlan_tci))
}
