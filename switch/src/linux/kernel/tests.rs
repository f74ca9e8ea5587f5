//! Messages of the kernel as changes.

use std::net::Ipv4Addr;

use netlink_packet_route::route::{RouteLwEnCapType, RouteScope};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn prefix(address: &str, len: u8) -> Prefix {
    Prefix::new(ip(address), len)
}

/// A route to 10.1.0.0/16 by 10.0.0.1 on interface 7.
fn message(more: &[RouteAttribute]) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = 16;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(v4("10.1.0.0"))),
        RouteAttribute::Oif(7),
        RouteAttribute::Gateway(RouteAddress::Inet(v4("10.0.0.1"))),
    ];
    message.attributes.extend_from_slice(more);
    message
}

/// The route of a message, and why it is only the kernel's.
#[track_caller]
fn route(message: RouteMessage) -> (KernelRoute, Option<&'static str>) {
    match change_of(&Message::NewRoute(message), 0) {
        Some(Change::Route { prefix: to, route, .. }) => {
            assert_eq!(to, prefix("10.1.0.0", 16));
            let why = route.why_kernel();
            (route, why)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bridge_that_releases_a_port_deletes_no_interface() {
    let mut link = LinkMessage::default();
    link.header.index = 7;
    let gone = |link: &LinkMessage| change_of(&Message::DelLink(link.clone()), 0);
    assert!(matches!(gone(&link), Some(Change::LinkGone { index: 7 })));
    link.header.interface_family = AddressFamily::Bridge;
    assert!(gone(&link).is_none());
    assert!(change_of(&Message::NewLink(link), 0).is_none());
    let mut neighbour = NeighbourMessage::default();
    neighbour.header.state = NeighbourState::Permanent;
    neighbour.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(v4("10.0.0.1"))),
        NeighbourAttribute::LinkLayerAddress(vec![2; 6]),
    ];
    for (family, is_one) in [(AddressFamily::Inet, true), (AddressFamily::Bridge, false)] {
        neighbour.header.family = family;
        for message in [Message::NewNeighbour, Message::DelNeighbour] {
            let change = change_of(&message(neighbour.clone()), 0);
            assert_eq!(change.is_some(), is_one, "{family:?}");
        }
    }
}

#[test]
fn a_route_is_what_distinguishes_it_from_others() {
    let (plain, why) = route(message(&[RouteAttribute::Priority(20)]));
    assert_eq!((plain.rank(), why), ((0, None, 20), None));
    let with = |attribute| route(message(&[RouteAttribute::Priority(20), attribute])).0;
    let encapsulated = |id| {
        let mut route = message(&[RouteAttribute::EncapType(RouteLwEnCapType::Ip)]);
        route.attributes[1] = RouteAttribute::Oif(id);
        self::route(route).0
    };
    let source = RouteAttribute::PrefSource(RouteAddress::Inet(v4("10.0.0.9")));
    for attribute in [
        source,
        RouteAttribute::Metrics(vec![RouteMetric::Advmss(1400)]),
        RouteAttribute::NhId(40),
        RouteAttribute::EncapType(RouteLwEnCapType::Ip),
    ] {
        let other = with(attribute.clone());
        assert!(!plain.is_same(&other) && other.is_same(&with(attribute)), "{other:?}");
    }
    // The kernel follows both itself; they are two all the same.
    assert!(!encapsulated(7).is_same(&encapsulated(8)));
    let changed = |change: fn(&mut RouteHeader)| {
        let mut other = message(&[RouteAttribute::Priority(20)]);
        change(&mut other.header);
        route(other).0
    };
    let others: [fn(&mut RouteHeader); 4] = [
        |header| header.protocol = RouteProtocol::Bgp,
        |header| header.scope = RouteScope::Link,
        |header| header.flags = RouteFlags::Onlink,
        |header| header.kind = RouteType::Prohibit,
    ];
    for other in others {
        assert!(!changed(other).is_same(&plain));
    }
    let unreachable = changed(|header| header.kind = RouteType::Unreachable);
    assert!(!unreachable.is_same(&changed(|header| header.kind = RouteType::Prohibit)));
    // What a message about its removal may have in another way.
    let down = changed(|header| header.flags = RouteFlags::from_bits_retain(0x4011));
    assert!(down.is_same(&plain));
}

#[test]
fn a_route_by_an_object_is_the_same_with_other_next_hops() {
    let by = |gateway: &str, id| {
        let mut message = message(&[RouteAttribute::NhId(id)]);
        message.attributes[2] = RouteAttribute::Gateway(RouteAddress::Inet(v4(gateway)));
        message
    };
    let (before, after) = (route(by("10.0.0.1", 40)).0, route(by("10.0.0.2", 40)).0);
    assert!(before.is_same(&after) && before.way != after.way);
    assert!(!before.is_same(&route(by("10.0.0.1", 41)).0));
    let mut blackhole = by("10.0.0.1", 40);
    blackhole.header.kind = RouteType::BlackHole;
    let blackhole = route(blackhole).0;
    assert!(blackhole.is_same(&before) && blackhole.way == Way::Blackhole);
    // Where the kernel reports the number alone.
    let mut alone = by("10.0.0.1", 40);
    alone.attributes.drain(1..3);
    assert!(route(alone).1.is_some_and(|why| why.contains("nexthop_compat_mode=1")));
}

#[test]
fn the_kernel_joins_ipv6_routes_by_gateways_without_an_object() {
    let is_shared = |attributes: &[RouteAttribute], protocol| {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        message.header.destination_prefix_length = 64;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.kind = RouteType::Unicast;
        message.header.protocol = protocol;
        message.attributes = vec![RouteAttribute::Oif(7)];
        message.attributes.extend_from_slice(attributes);
        match change_of(&Message::NewRoute(message), 0) {
            Some(Change::Route { route, .. }) => route.is_shared,
            other => panic!("{other:?}"),
        }
    };
    let gateway = RouteAttribute::Gateway(RouteAddress::Inet6("fd00::1".parse().unwrap()));
    assert!(is_shared(std::slice::from_ref(&gateway), RouteProtocol::Static));
    assert!(!is_shared(std::slice::from_ref(&gateway), RouteProtocol::Ra));
    assert!(!is_shared(&[gateway, RouteAttribute::NhId(60)], RouteProtocol::Static));
    assert!(!is_shared(&[], RouteProtocol::Static));
    assert!(!route(message(&[])).0.is_shared, "IPv4");
}

#[test]
fn what_the_tables_cannot_express_has_a_reason() {
    let mut tos = message(&[]);
    tos.header.tos = 8;
    let (route_of_tos, why) = route(tos);
    assert_eq!((route_of_tos.rank(), why), ((8, None, 0), Some("a type of service")));
    let mut source = message(&[RouteAttribute::Source(RouteAddress::Inet(v4("10.9.0.0")))]);
    source.header.source_prefix_length = 16;
    let (of_source, why) = route(source);
    let rank = (0, Some(prefix("10.9.0.0", 16)), 0);
    assert_eq!((of_source.rank(), why), (rank, Some("a source prefix")));
    let (_, why) = route(message(&[RouteAttribute::Metrics(vec![RouteMetric::Mtu(1400)])]));
    assert_eq!(why, Some("an MTU of its own"));
    let (_, why) = route(message(&[RouteAttribute::Metrics(vec![RouteMetric::Advmss(1400)])]));
    assert_eq!(why, None);
    for kind in [RouteType::Local, RouteType::Broadcast, RouteType::Multicast] {
        let mut local = message(&[]);
        local.header.kind = kind;
        assert_eq!(route(local).1, Some("a local route"), "{kind:?}");
    }
}

#[test]
fn an_address_has_its_subnet_or_its_peer() {
    let subnet = |attributes: &[AddressAttribute], len| {
        let mut message = AddressMessage::default();
        message.header.index = 7;
        message.header.prefix_len = len;
        message.attributes = attributes.to_vec();
        match change_of(&Message::NewAddress(message), 0) {
            Some(Change::Address { address, subnet, .. }) => (address, subnet),
            other => panic!("{other:?}"),
        }
    };
    let (own, peer) = (ip("10.9.9.9"), ip("10.8.8.8"));
    let local = AddressAttribute::Local(own);
    let plain = [AddressAttribute::Address(own), local.clone()];
    assert_eq!(subnet(&plain, 24), (own, prefix("10.9.9.0", 24)));
    assert_eq!(subnet(&plain, 32), (own, prefix("10.9.9.9", 32)));
    let pair = [AddressAttribute::Address(peer), local];
    assert_eq!(subnet(&pair, 32), (own, prefix("10.8.8.8", 32)));
    let v6 = [AddressAttribute::Address(ip("fd00::9"))];
    assert_eq!(subnet(&v6, 64), (ip("fd00::9"), prefix("fd00::", 64)));
}
