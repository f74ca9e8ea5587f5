//! Whether an interface is a port of a Linux bridge, by netlink (rtnetlink(7)): the bridge forwards its frames, and a
//! packet socket takes copies of them.

use std::io;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoPortKind, LinkAttribute, LinkInfo, LinkMessage};

use super::netlink;
use super::sys::interface;

/// True for a port of a bridge in the network namespace of the calling thread.
pub(crate) fn has(name: &str) -> bool {
    link(name).is_ok_and(|link| link.is_some_and(|link| is_port(&link)))
}

fn link(name: &str) -> io::Result<Option<LinkMessage>> {
    let mut asked = LinkMessage::default();
    asked.header.index = interface::look_up(name)?.index;
    let socket = netlink::request(RouteNetlinkMessage::GetLink(asked), 0)?;
    let mut part = Vec::with_capacity(netlink::PART_BYTES);
    socket.recv(&mut part, 0)?;
    let found = netlink::messages(&part).find_map(|(_, bytes)| {
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).ok()?.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Some(link),
            _ => None,
        }
    });
    Ok(found)
}

fn is_port(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(all) => {
            all.iter().any(|one| matches!(one, LinkInfo::PortKind(InfoPortKind::Bridge)))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_a_bridge_above_it_is_a_port_of_it() {
        let of = |kind| {
            let mut link = LinkMessage::default();
            link.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(kind)]));
            is_port(&link)
        };
        assert!(of(InfoPortKind::Bridge) && !of(InfoPortKind::Bond));
        assert!(!has("lo") && !has("no_such_interface"));
    }
}
