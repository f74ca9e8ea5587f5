//! The kernel's notifications about interfaces, addresses, neighbours and routes, as values: rtnetlink(7) messages come
//! in, [`Change`]s go out.
//!
//! Only the routing table `main` counts here. A route that a program's tables cannot express (type of service, source
//! prefixes, an MTU, encapsulations) has a reason ([`KernelRoute::why_kernel`]): the kernel forwards such packets itself.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteProtocol, RouteType, RouteVia,
};

/// The routing table that is mapped (rtnetlink(7)).
const TABLE_MAIN: u32 = 254;

/// Why a route is the kernel's whose message has no next hops.
const OBJECT_ONLY: &str = "the kernel reports only the number of its next hop object: sysctl -w net.ipv4.nexthop_compat_mode=1, and start again";

/// An address prefix; bits below its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Prefix {
    pub(super) address: IpAddr,
    pub(super) len: u8,
}

/// The bits of an address, and how many there are.
pub(super) fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn from_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4((bits as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    }
}

/// The bits below a prefix of this length.
fn host_mask(width: u8, len: u8) -> u128 {
    match width - len.min(width) {
        0 => 0,
        free => u128::MAX >> (128 - u32::from(free)),
    }
}

impl Prefix {
    pub(super) fn new(address: IpAddr, len: u8) -> Prefix {
        let (bits, width) = bits_of(address);
        let len = len.min(width);
        Prefix { address: from_bits(address, bits & !host_mask(width, len)), len }
    }

    /// The prefix of one address.
    pub(super) fn host(address: IpAddr) -> Prefix {
        Prefix { address, len: bits_of(address).1 }
    }

    pub(super) fn is_host(self) -> bool {
        self.len == bits_of(self.address).1
    }

    /// The first and the last address.
    pub(super) fn range(self) -> (IpAddr, IpAddr) {
        let (bits, width) = bits_of(self.address);
        (self.address, from_bits(self.address, bits | host_mask(width, self.len)))
    }

    /// The prefixes that contain this one, itself first.
    pub(super) fn wider(self) -> impl Iterator<Item = Prefix> {
        (0..=self.len).rev().map(move |len| Prefix::new(self.address, len))
    }

    /// Addresses of one link only, which the program sends to the kernel regardless of the tables.
    pub(super) fn is_link_local(self) -> bool {
        match self.address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => {
                self.len >= 10 && address.segments()[0] & 0xffc0 == 0xfe80
                    || self.len >= 8 && address.is_multicast()
            }
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// A gateway on a link, with its share of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) link: u32,
    pub(super) gateway: IpAddr,
    pub(super) weight: u32,
}

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To gateways.
    Hops(Vec<Hop>),
    /// To hosts on this link.
    Connected(u32),
    /// Nowhere.
    Blackhole,
    /// Only the kernel can follow it; with the reason.
    Kernel(&'static str),
}

/// What distinguishes routes of one rank beside their next hops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Origin of the route (RTPROT_*).
    pub(super) protocol: u8,
    /// How far its addresses are valid (RT_SCOPE_*).
    pub(super) scope: u8,
    /// What it does with packets (RTN_*).
    pub(super) kind: u8,
    /// Its gateway is on the link, whatever the subnets.
    pub(super) is_onlink: bool,
    /// The next hop object that it uses (ip-nexthop(8)).
    pub(super) object: Option<u32>,
    /// The router's own source address, metrics, encapsulations: as they are in the messages.
    pub(super) others: Vec<RouteAttribute>,
}

/// One route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelRoute {
    /// Type of service of the packets that it is for; 0: any.
    pub(super) tos: u8,
    /// Source addresses of the packets that it is for; `None`: any.
    pub(super) source: Option<Prefix>,
    pub(super) metric: u32,
    /// It limits the length of packets.
    pub(super) has_mtu: bool,
    /// The kernel makes it one route with the others of its metric for which this is true, too (IPv6).
    pub(super) is_shared: bool,
    pub(super) way: Way,
    pub(super) identity: Identity,
}

impl KernelRoute {
    /// Routes of one rank are alternatives, of which the first one is used.
    pub(super) fn rank(&self) -> (u8, Option<Prefix>, u32) {
        (self.tos, self.source, self.metric)
    }

    /// They are one route of the kernel, at different times. The next hops of an object are not the route's: they change
    /// with the object.
    pub(super) fn is_same(&self, other: &KernelRoute) -> bool {
        self.rank() == other.rank()
            && self.identity == other.identity
            && (self.identity.object.is_some() || self.way == other.way)
    }

    /// It is for some of the packets to its prefix only.
    pub(super) fn is_selective(&self) -> bool {
        self.tos != 0 || self.source.is_some()
    }

    /// Why only the kernel can follow it, if so.
    pub(super) fn why_kernel(&self) -> Option<&'static str> {
        match self.way {
            _ if self.tos != 0 => Some("a type of service"),
            _ if self.source.is_some() => Some("a source prefix"),
            Way::Hops(_) | Way::Connected(_) if self.has_mtu => Some("an MTU of its own"),
            Way::Kernel(why) => Some(why),
            _ => None,
        }
    }
}

/// The change of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteChange {
    /// It was added before others of its metric.
    Added,
    /// It was added after others of its metric.
    Appended,
    /// It replaced the first one of its metric.
    Replaced,
    /// It went.
    Deleted,
}

/// A change that the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Link {
        index: u32,
        name: String,
        mac: Option<[u8; 6]>,
        mtu: u32,
        up: bool,
    },
    LinkGone {
        index: u32,
    },
    Address {
        index: u32,
        address: IpAddr,
        /// Its subnet, or its peer: an interface has an address once for each.
        subnet: Prefix,
        present: bool,
    },
    /// Without a MAC address it is unreachable (yet).
    Neighbour {
        index: u32,
        address: IpAddr,
        mac: Option<[u8; 6]>,
        stale: bool,
    },
    Route {
        prefix: Prefix,
        route: KernelRoute,
        change: RouteChange,
    },
    /// Routes may have been removed without notification.
    Resync,
}

/// The change in a message, if it is a relevant one. `flags` are those of its header.
pub(super) fn change_of(message: &Message, flags: u16) -> Option<Change> {
    match message {
        // Messages about ports of a bridge: a port that a bridge releases is deleted there only.
        Message::NewLink(link) | Message::DelLink(link)
            if link.header.interface_family == AddressFamily::Bridge =>
        {
            None
        }
        Message::NewNeighbour(neighbour) | Message::DelNeighbour(neighbour)
            if neighbour.header.family == AddressFamily::Bridge =>
        {
            None
        }
        Message::NewLink(link) => Some(link_of(link)),
        Message::DelLink(link) => Some(Change::LinkGone { index: link.header.index }),
        Message::NewAddress(address) => address_of(address, true),
        Message::DelAddress(address) => address_of(address, false),
        Message::NewNeighbour(neighbour) => neighbour_of(neighbour, true),
        Message::DelNeighbour(neighbour) => neighbour_of(neighbour, false),
        Message::NewRoute(route) => {
            let change = match flags {
                _ if flags & NLM_F_REPLACE != 0 => RouteChange::Replaced,
                _ if flags & NLM_F_APPEND != 0 => RouteChange::Appended,
                _ => RouteChange::Added,
            };
            route_of(route, change)
        }
        Message::DelRoute(route) => route_of(route, RouteChange::Deleted),
        _ => None,
    }
}

fn mac_of(bytes: &[u8]) -> Option<[u8; 6]> {
    <[u8; 6]>::try_from(bytes).ok().filter(|mac| *mac != [0; 6])
}

fn link_of(link: &LinkMessage) -> Change {
    let (mut name, mut mac, mut mtu) = (String::new(), None, 0);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name.clone_from(text),
            LinkAttribute::Address(bytes) => mac = mac_of(bytes),
            LinkAttribute::Mtu(bytes) => mtu = *bytes,
            _ => {}
        }
    }
    // Without a carrier an interface is up and not running.
    let up = link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
    Change::Link { index: link.header.index, name, mac, mtu, up }
}

fn address_of(message: &AddressMessage, present: bool) -> Option<Change> {
    let index = message.header.index;
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // If both are present, the other one is the peer's.
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            _ => {}
        }
    }
    let subnet = Prefix::new(address.or(local)?, message.header.prefix_len);
    let address = local.or(address)?;
    let is_of_host = address.is_loopback() || Prefix::host(address).is_link_local();
    (!is_of_host).then_some(Change::Address { index, address, subnet, present })
}

fn neighbour_of(message: &NeighbourMessage, present: bool) -> Option<Change> {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => {
                address = Some(IpAddr::V4(*ip));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => {
                address = Some(IpAddr::V6(*ip));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = mac_of(bytes),
            _ => {}
        }
    }
    let address = address.filter(|address| !address.is_multicast())?;
    use NeighbourState::{Delay, Noarp, Permanent, Probe, Reachable, Stale};
    let usable = [Reachable, Stale, Delay, Probe, Permanent, Noarp];
    let is_usable = present && usable.contains(&message.header.state);
    Some(Change::Neighbour {
        index: message.header.ifindex,
        address,
        mac: mac.filter(|_| is_usable),
        stale: present && message.header.state == Stale,
    })
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

/// The attributes of a route, or of one next hop of several.
#[derive(Default)]
struct Parts {
    link: Option<u32>,
    gateway: Option<IpAddr>,
    is_odd: bool,
    has_object: bool,
}

impl Parts {
    fn of(attributes: &[RouteAttribute]) -> Parts {
        let mut parts = Parts::default();
        for attribute in attributes {
            match attribute {
                RouteAttribute::Oif(index) => parts.link = Some(*index),
                RouteAttribute::Gateway(address) => parts.gateway = ip_of(address),
                RouteAttribute::Via(RouteVia::Inet(ip)) => parts.gateway = Some(IpAddr::V4(*ip)),
                RouteAttribute::Via(RouteVia::Inet6(ip)) => parts.gateway = Some(IpAddr::V6(*ip)),
                RouteAttribute::NhId(_) => parts.has_object = true,
                RouteAttribute::Via(_)
                | RouteAttribute::NewDestination(_)
                | RouteAttribute::Encap(_)
                | RouteAttribute::EncapType(_) => parts.is_odd = true,
                _ => {}
            }
        }
        parts
    }

    fn way(&self) -> Way {
        match (self.link, self.gateway) {
            _ if self.is_odd => Way::Kernel("an encapsulation"),
            (Some(link), Some(gateway)) => Way::Hops(vec![Hop { link, gateway, weight: 1 }]),
            (Some(link), None) => Way::Connected(link),
            (None, _) if self.has_object => Way::Kernel(OBJECT_ONLY),
            (None, _) => Way::Kernel("no interface"),
        }
    }
}

fn several(next_hops: &[RouteNextHop]) -> Way {
    let mut hops = Vec::new();
    for next_hop in next_hops {
        let mut parts = Parts::of(&next_hop.attributes);
        parts.link = Some(next_hop.interface_index);
        match parts.way() {
            Way::Hops(one) => {
                let weight = u32::from(next_hop.hops) + 1;
                hops.extend(one.into_iter().map(|hop| Hop { weight, ..hop }));
            }
            Way::Connected(_) => return Way::Kernel("one of several next hops has no gateway"),
            other => return other,
        }
    }
    hops.sort_unstable();
    Way::Hops(hops)
}

/// The target of a route; `None` for one that forwards nothing.
fn way_of(header: &RouteHeader, attributes: &[RouteAttribute]) -> Option<Way> {
    let next_hops = attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(next_hops) => Some(next_hops),
        _ => None,
    });
    Some(match header.kind {
        RouteType::Unicast => match next_hops {
            Some(next_hops) => several(next_hops),
            None => Parts::of(attributes).way(),
        },
        RouteType::BlackHole => Way::Blackhole,
        RouteType::Unreachable | RouteType::Prohibit | RouteType::Throw => {
            Way::Kernel("an answer by ICMP")
        }
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            Way::Kernel("a local route")
        }
        _ => return None,
    })
}

/// What stays as it is of one of several next hops: the flags also have the state of its link.
fn settled(next_hop: &RouteNextHop) -> RouteNextHop {
    let mut settled = next_hop.clone();
    settled.flags &= RouteNextHopFlags::Onlink;
    settled
}

impl Identity {
    fn of(message: &RouteMessage, way: &Way) -> Identity {
        let (header, attributes) = (&message.header, &message.attributes);
        let object = attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::NhId(id) => Some(*id),
            _ => None,
        });
        // An object may become a blackhole, and then its routes are reported as such.
        let kind = if object.is_some() { RouteType::Unicast } else { header.kind };
        Identity {
            protocol: header.protocol.into(),
            scope: header.scope.into(),
            kind: kind.into(),
            is_onlink: object.is_none() && header.flags.contains(RouteFlags::Onlink),
            object,
            others: attributes.iter().filter_map(|a| other(a, way, object.is_some())).collect(),
        }
    }
}

/// An attribute, if it distinguishes routes and is in neither the rank nor the way.
fn other(attribute: &RouteAttribute, way: &Way, has_object: bool) -> Option<RouteAttribute> {
    let is_kept = match attribute {
        RouteAttribute::PrefSource(_)
        | RouteAttribute::Metrics(_)
        | RouteAttribute::Preference(_) => true,
        // What follows is the object's.
        _ if has_object => false,
        RouteAttribute::MultiPath(hops) => {
            let hops: Vec<RouteNextHop> = hops.iter().map(settled).collect();
            let is_odd = |hop: &RouteNextHop| {
                let has_realm = |a: &RouteAttribute| matches!(a, RouteAttribute::Realm(_));
                !hop.flags.is_empty() || hop.attributes.iter().any(has_realm)
            };
            let is_kept = matches!(way, Way::Kernel(_)) || hops.iter().any(is_odd);
            return is_kept.then_some(RouteAttribute::MultiPath(hops));
        }
        RouteAttribute::Oif(_) | RouteAttribute::Gateway(_) => matches!(way, Way::Kernel(_)),
        RouteAttribute::Realm(_)
        | RouteAttribute::Via(_)
        | RouteAttribute::Encap(_)
        | RouteAttribute::EncapType(_)
        | RouteAttribute::TtlPropagate(_)
        | RouteAttribute::NewDestination(_)
        | RouteAttribute::NewDestinationAddress(_) => true,
        // The rank; times, which change; what no route has.
        _ => false,
    };
    is_kept.then(|| attribute.clone())
}

/// Whether the kernel makes this one route with others of its metric (net/ipv6: rt6_qualify_for_ecmp). Routes of router
/// advertisements stay apart.
fn is_shared(message: &RouteMessage, identity: &Identity) -> bool {
    let header = &message.header;
    let by_gateway = |attribute: &RouteAttribute| {
        matches!(
            attribute,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_)
        )
    };
    header.address_family == AddressFamily::Inet6
        && header.kind == RouteType::Unicast
        && header.protocol != RouteProtocol::Ra
        && identity.object.is_none()
        && message.attributes.iter().any(by_gateway)
}

fn route_of(message: &RouteMessage, change: RouteChange) -> Option<Change> {
    let header = &message.header;
    let any = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(0.into()),
        AddressFamily::Inet6 => IpAddr::V6(0.into()),
        _ => return None,
    };
    let (mut destination, mut source) = (any, any);
    let (mut table, mut metric, mut has_mtu) = (u32::from(header.table), 0, false);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip_of(address)?,
            RouteAttribute::Source(address) => source = ip_of(address)?,
            RouteAttribute::Table(id) => table = *id,
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::Metrics(metrics) => {
                has_mtu = metrics.iter().any(|metric| matches!(metric, RouteMetric::Mtu(_)));
            }
            _ => {}
        }
    }
    let prefix = Prefix::new(destination, header.destination_prefix_length);
    let is_cached = header.flags.contains(RouteFlags::Cloned);
    if table != TABLE_MAIN || is_cached || prefix.is_link_local() {
        return None;
    }
    let source_len = header.source_prefix_length;
    let way = way_of(header, &message.attributes)?;
    let identity = Identity::of(message, &way);
    let route = KernelRoute {
        tos: header.tos,
        source: (source_len != 0).then(|| Prefix::new(source, source_len)),
        metric,
        has_mtu,
        is_shared: is_shared(message, &identity),
        way,
        identity,
    };
    Some(Change::Route { prefix, route, change })
}

#[cfg(test)]
mod tests;
