//! The sockets to the kernel: notifications as they arrive, dumps of the whole state, and requests to find a neighbour
//! (rtnetlink(7), netlink(7)).
//!
//! Notifications without room in the socket are lost, which the kernel reports once (ENOBUFS): then everything is read
//! again.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt;

use super::kernel::{Change, change_of};
use crate::ports::netlink::{self, PART_BYTES, messages, serialized};

/// Links, neighbours, IPv4 addresses and routes, IPv6 addresses and routes, next hop objects (linux/rtnetlink.h).
const NEWS: [u32; 7] = [1, 3, 5, 7, 9, 11, 32];
/// Memory for pending notifications, of which the kernel takes twice as much: some 80,000 routes.
const NEWS_BYTES: usize = 32 << 20;
/// Most notifications that are dropped at once, more than the socket holds.
const NEWS_DROPPED_MOST: usize = 1 << 20;
/// Most attempts at a dump whose state changes meanwhile.
const DUMP_TRIES: usize = 8;
/// Messages about next hop objects, which are read as routes.
const NEXT_HOP_NEW: u16 = 104;
const NEXT_HOP_DELETED: u16 = 105;
/// The sockets.
pub(super) struct Netlink {
    news: Socket,
    requests: Socket,
    part: Vec<u8>,
    /// Messages that could not be read.
    pub(super) unreadable: u64,
}

/// The result of reading notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// There may be more.
    More,
    /// No more at present.
    End,
    /// Some were lost: everything has to be read again.
    Lost,
}

impl Netlink {
    /// Subscribes in the network namespace of the calling thread.
    pub(super) fn open() -> io::Result<Netlink> {
        let mut news = Socket::new(NETLINK_ROUTE)?;
        news.bind_auto()?;
        // Above the system's limit, if the process has CAP_NET_ADMIN.
        sockopt::set_socket_recv_buffer_size_force(&news, NEWS_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&news, NEWS_BYTES))?;
        NEWS.iter().try_for_each(|group| news.add_membership(*group))?;
        news.set_non_blocking(true)?;
        let mut requests = Socket::new(NETLINK_ROUTE)?;
        requests.bind_auto()?;
        requests.set_non_blocking(true)?;
        Ok(Netlink { news, requests, part: Vec::with_capacity(PART_BYTES), unreadable: 0 })
    }

    /// Readable while there are notifications.
    pub(super) fn fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    /// Reads one part of the notifications.
    pub(super) fn receive(&mut self, changes: &mut Vec<Change>) -> io::Result<News> {
        self.part.clear();
        match self.news.recv(&mut self.part, 0) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(News::End),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(News::More),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(News::Lost),
            Err(error) => return Err(error),
        }
        let mut unreadable = 0;
        for (kind, bytes) in messages(&self.part) {
            match kind {
                NEXT_HOP_DELETED => changes.push(Change::Resync),
                // Routes that use it have messages of their own.
                NEXT_HOP_NEW => {}
                _ => match NetlinkMessage::<Message>::deserialize(bytes) {
                    Ok(message) => changes.extend(change(&message)),
                    Err(_) => unreadable += 1,
                },
            }
        }
        self.unreadable += unreadable;
        if unreadable > 0 {
            changes.push(Change::Resync);
        }
        Ok(News::More)
    }

    /// The whole present state. Earlier notifications are dropped first: an old one, read after it, could remove an
    /// object whose return was lost.
    pub(super) fn dump(&mut self) -> io::Result<Vec<Change>> {
        self.drop_news();
        let mut all = Vec::new();
        let route = |family| {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            Message::GetRoute(message)
        };
        for request in [
            Message::GetLink(LinkMessage::default()),
            Message::GetAddress(AddressMessage::default()),
            Message::GetNeighbour(NeighbourMessage::default()),
            route(AddressFamily::Inet),
            route(AddressFamily::Inet6),
        ] {
            let dumped = (0..DUMP_TRIES).find_map(|_| self.dump_once(&request).transpose());
            all.extend(dumped.unwrap_or_else(|| {
                let text = "the kernel's state changes faster than it can be read";
                Err(io::Error::new(io::ErrorKind::WouldBlock, text))
            })?);
        }
        Ok(all)
    }

    fn drop_news(&mut self) {
        for _ in 0..NEWS_DROPPED_MOST {
            self.part.clear();
            match self.news.recv(&mut self.part, 0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Losses are dropped too; the next call reports other errors of the socket.
                Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return,
                _ => {}
            }
        }
    }

    /// All objects of one kind; `None` if they changed while they were read.
    fn dump_once(&mut self, request: &Message) -> io::Result<Option<Vec<Change>>> {
        let mut changes = Vec::new();
        let dumped = netlink::dump(request.clone(), |message| changes.extend(change(message)))?;
        self.unreadable += dumped.unreadable;
        Ok(dumped.is_whole.then_some(changes))
    }

    /// Has the kernel find out a neighbour's MAC address, as if it had a packet for it.
    pub(super) fn find(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.ifindex = link;
        message.header.flags = NeighbourFlags::Use;
        let (family, destination) = match address {
            IpAddr::V4(ip) => (AddressFamily::Inet, NeighbourAddress::Inet(ip)),
            IpAddr::V6(ip) => (AddressFamily::Inet6, NeighbourAddress::Inet6(ip)),
        };
        message.header.family = family;
        message.attributes.push(NeighbourAttribute::Destination(destination));
        let bytes = serialized(Message::NewNeighbour(message), NLM_F_REQUEST | NLM_F_CREATE);
        self.requests.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        // A refusal by the kernel (the link was removed meanwhile) is ignored.
        self.part.clear();
        while self.requests.recv(&mut self.part, 0).is_ok() {
            self.part.clear();
        }
        Ok(())
    }
}

fn change(message: &NetlinkMessage<Message>) -> Option<Change> {
    match &message.payload {
        NetlinkPayload::InnerMessage(inner) => change_of(inner, message.header.flags),
        _ => None,
    }
}
