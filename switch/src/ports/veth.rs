//! Virtual cables: pairs of veth interfaces, created by netlink (rtnetlink(7), veth(4)).
//!
//! They are created in the network namespace of the calling thread and deleted with it, or with either of their ends.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage,
};

use super::netlink;
use super::sys::interface;

/// Room for a reply: an error message repeats the request.
const ANSWER_BYTES: usize = 8192;

/// A cable that could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the veth pair {cable}: {source}{}", remedy(.source))]
pub struct VethError {
    cable: String,
    source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => ": it takes CAP_NET_ADMIN",
        Some(libc::EOPNOTSUPP) => ": the kernel has no veth (modprobe veth)",
        _ => "",
    }
}

/// Creates a pair of interfaces with these names, both up, with this MTU.
///
/// # Errors
/// The kernel's error: no privilege, a name in use, no veth.
pub fn create(names: [&str; 2], mtu_bytes: u32) -> Result<(), VethError> {
    let cable = names.join("-");
    let made = request(names, mtu_bytes);
    // Only now: an end cannot be set up before it has a peer.
    made.and_then(|()| names.into_iter().try_for_each(interface::set_up))
        .map_err(|source| VethError { cable, source })
}

fn request(names: [&str; 2], mtu_bytes: u32) -> io::Result<()> {
    let [near, far] = names.map(|name| end(name, mtu_bytes));
    let mut link = near;
    let peer = InfoData::Veth(InfoVeth::Peer(far));
    let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)];
    link.attributes.push(LinkAttribute::LinkInfo(info));
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let socket = netlink::request(RouteNetlinkMessage::NewLink(link), flags)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    socket.recv(&mut answer, 0)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match answer.payload {
        // Code 0 is the acknowledgement.
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        _ => Ok(()),
    }
}

fn end(name: &str, mtu_bytes: u32) -> LinkMessage {
    let mut end = LinkMessage::default();
    end.attributes.push(LinkAttribute::IfName(name.to_owned()));
    end.attributes.push(LinkAttribute::Mtu(mtu_bytes));
    end
}
