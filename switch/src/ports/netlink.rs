//! Requests to the kernel by netlink, and the messages of its replies (netlink(7), rtnetlink(7)).
//!
//! It does not interpret them: interfaces are made in `veth`, queueing disciplines read in `discipline`, routes in `linux`. A request has a
//! socket of its own, in the network namespace of the calling thread, so that nothing but its reply arrives there.

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Room for one datagram of a reply, in bytes: the kernel's dumps come in parts of up to 32 KiB.
pub(crate) const PART_BYTES: usize = 64 << 10;
/// Bytes of a message's header (`struct nlmsghdr`).
const HEADER_BYTES: usize = 16;

/// What a dump was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dumped {
    /// False if the state changed while it was read (NLM_F_DUMP_INTR).
    pub(crate) is_whole: bool,
    /// Messages that could not be read.
    pub(crate) unreadable: u64,
}

/// Sends a request with these flags (NLM_F_*); the reply comes on the socket.
///
/// # Errors
/// Errors of the socket.
pub(crate) fn request(message: Message, flags: u16) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    let bytes = serialized(message, NLM_F_REQUEST | flags);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
    Ok(socket)
}

/// Hands every object that the kernel lists for a request to `each`.
///
/// # Errors
/// Errors of the socket, and the kernel's refusal.
pub(crate) fn dump(
    message: Message,
    mut each: impl FnMut(&NetlinkMessage<Message>),
) -> io::Result<Dumped> {
    let socket = request(message, NLM_F_DUMP)?;
    let mut part = Vec::with_capacity(PART_BYTES);
    let mut dumped = Dumped { is_whole: true, unreadable: 0 };
    loop {
        part.clear();
        socket.recv(&mut part, 0)?;
        for (_, bytes) in messages(&part) {
            let Ok(message) = NetlinkMessage::<Message>::deserialize(bytes) else {
                dumped.unreadable += 1;
                continue;
            };
            dumped.is_whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
            match &message.payload {
                // The kernel ends a list that it cannot continue with the error (net/netlink: dump_done_errno).
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(io::Error::from_raw_os_error(-done.code));
                }
                NetlinkPayload::Done(_) => return Ok(dumped),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error.to_io());
                }
                _ => each(&message),
            }
        }
    }
}

/// A message as bytes.
pub(crate) fn serialized(message: Message, flags: u16) -> Vec<u8> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The messages of a datagram, each with its type.
pub(crate) fn messages(part: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = part;
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([*rest.get(4)?, *rest.get(5)?]);
        let message = rest.get(..len).filter(|_| len >= HEADER_BYTES)?;
        // Each begins at a multiple of four (NLMSG_ALIGN).
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, message))
    })
}
