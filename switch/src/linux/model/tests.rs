//! The kernel's changes, and the resulting ways of packets.

use std::net::IpAddr;

use netlink_packet_route::route::{RouteAttribute, RouteMetric};

use super::super::kernel::{Change, Hop, Identity, KernelRoute, Prefix, RouteChange, Way};
use super::{Goal, Model};
use crate::ports::PortNumber;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (address, len) = text.split_once('/').unwrap();
    Prefix::new(ip(address), len.parse().unwrap())
}

fn hop(link: u32, gateway: &str) -> Hop {
    Hop { link, gateway: ip(gateway), weight: 1 }
}

fn hops(all: &[(u32, &str)]) -> Way {
    Way::Hops(all.iter().map(|(link, gateway)| hop(*link, gateway)).collect())
}

/// Two ports, both up.
fn model() -> Model {
    let mut model = Model::default();
    for index in [1, 2] {
        model.set_port(index, Some(PortNumber(index as u16)), true);
        model.apply(Change::Link {
            index,
            name: String::new(),
            mac: Some([2; 6]),
            mtu: 1500,
            up: true,
        });
    }
    model
}

/// A route for all packets to its prefix.
fn plain(metric: u32, way: Way) -> KernelRoute {
    KernelRoute {
        tos: 0,
        source: None,
        metric,
        has_mtu: false,
        is_shared: false,
        way,
        identity: Identity { protocol: 3, ..Identity::default() },
    }
}

/// A route by a next hop object.
fn by_object(metric: u32, object: u32, to: &[(u32, &str)]) -> KernelRoute {
    let identity = Identity { object: Some(object), ..Identity::default() };
    KernelRoute { identity, ..plain(metric, hops(to)) }
}

fn route(model: &mut Model, to: &str, metric: u32, way: Way, change: RouteChange) {
    let route = plain(metric, way);
    apply(model, to, route, change);
}

fn apply(model: &mut Model, to: &str, route: KernelRoute, change: RouteChange) {
    assert!(!model.apply(Change::Route { prefix: prefix(to), route, change }));
}

fn neighbour(model: &mut Model, index: u32, address: &str, mac: Option<[u8; 6]>) {
    model.apply(Change::Neighbour { index, address: ip(address), mac, stale: false });
}

/// An address of interface 1.
fn address(model: &mut Model, text: &str, present: bool) {
    let address = ip(text.split_once('/').unwrap().0);
    model.apply(Change::Address { index: 1, address, subnet: prefix(text), present });
}

fn goal(model: &Model, to: &str) -> Option<Goal> {
    model.way_of(prefix(to)).map(|(goal, _)| goal)
}

fn to(all: &[(u32, &str)]) -> Option<Goal> {
    match hops(all) {
        Way::Hops(hops) => Some(Goal::Hops(hops)),
        _ => None,
    }
}

use RouteChange::{Added, Appended, Deleted, Replaced};

#[test]
fn the_lowest_metric_counts_and_among_equal_ones_the_first() {
    let mut model = model();
    let net = "10.1.0.0/16";
    route(&mut model, net, 20, hops(&[(1, "10.0.0.1")]), Added);
    route(&mut model, net, 10, hops(&[(1, "10.0.0.2")]), Added);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.2")]));
    route(&mut model, net, 10, hops(&[(1, "10.0.0.3")]), Appended);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.2")]));
    route(&mut model, net, 10, hops(&[(1, "10.0.0.4")]), Added);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.4")]));
    route(&mut model, net, 10, hops(&[(1, "10.0.0.5")]), Replaced);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.5")]));
    for gateway in ["10.0.0.5", "10.0.0.2", "10.0.0.3"] {
        route(&mut model, net, 10, hops(&[(1, gateway)]), Deleted);
    }
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.1")]));
    route(&mut model, net, 20, hops(&[(1, "10.0.0.1")]), Deleted);
    assert_eq!(goal(&model, net), None);
}

#[test]
fn a_replacement_from_before_a_dump_leaves_what_the_dump_has() {
    let net = "10.1.0.0/16";
    let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|gateway| hops(&[(1, gateway)]));
    // The kernel had A, and B in its place, while it was read.
    let mut first = model();
    route(&mut first, net, 0, b.clone(), Appended);
    route(&mut first, net, 0, a.clone(), Added);
    route(&mut first, net, 0, b.clone(), Replaced);
    assert_eq!(goal(&first, net), to(&[(1, "10.0.0.2")]));
    route(&mut first, net, 0, b.clone(), Deleted);
    assert_eq!(goal(&first, net), None);
    // B is there, in the place of what it replaced: the one behind it stays.
    let mut second = model();
    route(&mut second, net, 0, b.clone(), Appended);
    route(&mut second, net, 0, c, Appended);
    route(&mut second, net, 0, b.clone(), Replaced);
    assert_eq!(goal(&second, net), to(&[(1, "10.0.0.2")]));
    route(&mut second, net, 0, b, Deleted);
    assert_eq!(goal(&second, net), to(&[(1, "10.0.0.3")]));
}

#[test]
fn a_prefix_with_a_route_for_some_packets_is_the_kernels() {
    let mut model = model();
    let net = "10.1.0.0/16";
    let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|gateway| hops(&[(1, gateway)]));
    let of_tos = |way: &Way| KernelRoute { tos: 8, ..plain(50, way.clone()) };
    let of_source = KernelRoute { source: Some(prefix("10.9.0.0/16")), ..plain(0, a.clone()) };
    route(&mut model, net, 0, a.clone(), Added);
    for change in [Added, Replaced] {
        let way = if change == Added { &b } else { &c };
        apply(&mut model, net, of_tos(way), change);
        let way = model.way_of(prefix(net));
        assert_eq!(way, Some((Goal::Kernel, Some("a type of service"))), "{change:?}");
    }
    apply(&mut model, net, of_tos(&c), Deleted);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.1")]));
    apply(&mut model, net, of_source.clone(), Added);
    assert_eq!(model.way_of(prefix(net)), Some((Goal::Kernel, Some("a source prefix"))));
    route(&mut model, net, 0, a, Deleted);
    assert_eq!(goal(&model, net), Some(Goal::Kernel));
    apply(&mut model, net, of_source, Deleted);
    assert_eq!(goal(&model, net), None);
}

#[test]
fn routes_that_differ_in_their_protocol_only_are_two() {
    let mut model = model();
    let net = "10.1.0.0/16";
    let of = |protocol| KernelRoute {
        identity: Identity { protocol, ..Identity::default() },
        ..plain(0, hops(&[(1, "10.0.0.1")]))
    };
    apply(&mut model, net, of(4), Added);
    apply(&mut model, net, of(186), Appended);
    apply(&mut model, net, of(186), Deleted);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.1")]));
    apply(&mut model, net, of(4), Deleted);
    assert_eq!(goal(&model, net), None);
}

#[test]
fn an_address_stays_until_the_last_of_its_subnets_is_gone() {
    let mut model = model();
    for subnet in ["10.9.9.9/32", "10.9.9.9/24"] {
        address(&mut model, subnet, true);
    }
    address(&mut model, "10.9.9.9/32", false);
    assert!(model.is_address(ip("10.9.9.9")));
    address(&mut model, "10.9.9.9/24", false);
    assert!(!model.is_address(ip("10.9.9.9")));
}

#[test]
fn a_message_about_one_ipv6_next_hop_takes_that_one_away() {
    let mut model = model();
    let net = "fd01::/64";
    let shared = |all| KernelRoute { is_shared: true, ..plain(1024, hops(all)) };
    apply(&mut model, net, shared(&[(1, "fd00::1")]), Added);
    apply(&mut model, net, shared(&[(1, "fd00::1"), (2, "fd00::2")]), Appended);
    assert_eq!(goal(&model, net), to(&[(1, "fd00::1"), (2, "fd00::2")]));
    apply(&mut model, net, shared(&[(1, "fd00::1")]), Deleted);
    assert_eq!(goal(&model, net), to(&[(2, "fd00::2")]));
    // The kernel keeps one by a next hop object apart, behind it.
    apply(&mut model, net, by_object(1024, 60, &[(1, "fd00::3")]), Added);
    assert_eq!(goal(&model, net), to(&[(2, "fd00::2")]));
    apply(&mut model, net, shared(&[(2, "fd00::2")]), Deleted);
    assert_eq!(goal(&model, net), to(&[(1, "fd00::3")]));
    apply(&mut model, net, by_object(1024, 60, &[(1, "fd00::3")]), Deleted);
    assert_eq!(goal(&model, net), None);
}

#[test]
fn a_route_by_an_object_is_not_the_one_by_the_same_gateway() {
    let mut model = model();
    let net = "198.18.0.0/24";
    let same = [(1, "10.0.1.3")];
    route(&mut model, net, 0, hops(&same), Added);
    apply(&mut model, net, by_object(0, 40, &same), Appended);
    apply(&mut model, net, by_object(0, 40, &same), Deleted);
    assert_eq!(goal(&model, net), to(&same));
    // An object that is replaced changes its route, wherever that is among the others.
    apply(&mut model, net, by_object(0, 40, &same), Appended);
    apply(&mut model, net, by_object(0, 40, &[(2, "10.0.2.3")]), Replaced);
    assert_eq!(goal(&model, net), to(&same));
    route(&mut model, net, 0, hops(&same), Deleted);
    assert_eq!(goal(&model, net), to(&[(2, "10.0.2.3")]));
}

#[test]
fn routes_that_answer_by_icmp_are_different_ones() {
    let mut model = model();
    let net = "198.18.0.0/24";
    let answer = |kind| {
        let identity = Identity { kind, ..Identity::default() };
        KernelRoute { identity, ..plain(0, Way::Kernel("an answer by ICMP")) }
    };
    let [unreachable, prohibit] = [7, 8].map(answer);
    route(&mut model, net, 0, hops(&[(1, "10.0.1.3")]), Added);
    apply(&mut model, net, prohibit.clone(), Appended);
    apply(&mut model, net, unreachable.clone(), Added);
    assert_eq!(goal(&model, net), Some(Goal::Kernel));
    apply(&mut model, net, unreachable, Deleted);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.1.3")]));
    route(&mut model, net, 0, hops(&[(1, "10.0.1.3")]), Deleted);
    assert_eq!(goal(&model, net), Some(Goal::Kernel));
}

#[test]
fn a_removal_that_fits_none_of_the_routes_has_them_read_again() {
    let mut model = model();
    let net = "10.1.0.0/16";
    let remove = |model: &mut Model, metric, gateway| {
        let route = plain(metric, hops(&[(1, gateway)]));
        model.apply(Change::Route { prefix: prefix(net), route, change: Deleted })
    };
    // From before a dump.
    assert!(!remove(&mut model, 0, "10.0.0.1"));
    route(&mut model, net, 0, hops(&[(1, "10.0.0.2")]), Added);
    assert!(!remove(&mut model, 5, "10.0.0.1"));
    assert!(remove(&mut model, 0, "10.0.0.1"));
    assert_eq!(goal(&model, net), to(&[(1, "10.0.0.2")]));
}

#[test]
fn routes_by_a_link_that_is_down_are_passed_over_where_the_kernel_does() {
    let mut model = model();
    let [net, around] = ["10.1.0.0/16", "10.0.0.0/8"];
    route(&mut model, around, 0, hops(&[(2, "10.0.2.2")]), Added);
    route(&mut model, net, 10, hops(&[(1, "10.0.1.2")]), Added);
    route(&mut model, net, 20, hops(&[(2, "10.0.2.2")]), Added);
    model.set_port(1, Some(PortNumber(1)), false);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.1.2")]));
    model.dirty = Default::default();
    model.set_passed_over(1, [true, false]);
    assert!(model.dirty.prefixes.contains(&prefix(net)), "{:?}", model.dirty);
    assert_eq!(goal(&model, net), to(&[(2, "10.0.2.2")]));
    // Without another one the prefix has no route, and a wider one counts.
    route(&mut model, net, 20, hops(&[(2, "10.0.2.2")]), Deleted);
    assert_eq!(goal(&model, net), None);
    // One of several next hops is enough.
    route(&mut model, net, 5, hops(&[(1, "10.0.1.2"), (2, "10.0.2.2")]), Added);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.1.2"), (2, "10.0.2.2")]));
    route(&mut model, net, 5, hops(&[(1, "10.0.1.2"), (2, "10.0.2.2")]), Deleted);
    model.dirty = Default::default();
    model.set_port(1, Some(PortNumber(1)), true);
    assert!(model.dirty.prefixes.contains(&prefix(net)), "{:?}", model.dirty);
    assert_eq!(goal(&model, net), to(&[(1, "10.0.1.2")]));
}

#[test]
fn a_neighbour_is_reached_where_the_longest_route_is_that_of_its_link() {
    let mut model = model();
    route(&mut model, "10.0.1.0/24", 0, Way::Connected(1), Added);
    assert_eq!(goal(&model, "10.0.1.0/24"), Some(Goal::Kernel));
    neighbour(&mut model, 1, "10.0.1.130", Some([4; 6]));
    assert_eq!(goal(&model, "10.0.1.130/32"), to(&[(1, "10.0.1.130")]));
    // A longer route by a gateway covers it: then it is not reached on its link.
    model.dirty = Default::default();
    route(&mut model, "10.0.1.128/25", 0, hops(&[(2, "10.0.2.1")]), Added);
    assert!(model.dirty.prefixes.contains(&prefix("10.0.1.130/32")), "{:?}", model.dirty);
    assert_eq!(goal(&model, "10.0.1.130/32"), None);
    route(&mut model, "10.0.1.128/25", 0, hops(&[(2, "10.0.2.1")]), Deleted);
    assert_eq!(goal(&model, "10.0.1.130/32"), to(&[(1, "10.0.1.130")]));
    // A neighbour on another link is not a host of this one.
    neighbour(&mut model, 2, "10.0.1.7", Some([4; 6]));
    assert_eq!(goal(&model, "10.0.1.7/32"), None);
    neighbour(&mut model, 1, "10.0.1.130", None);
    assert_eq!(goal(&model, "10.0.1.130/32"), None);
    // The router's own address is not a neighbour's.
    address(&mut model, "10.0.1.130/24", true);
    assert_eq!(goal(&model, "10.0.1.130/32"), Some(Goal::Local));
}

#[test]
fn a_host_with_a_route_to_its_link_is_reached_once_it_is_known() {
    let mut model = model();
    route(&mut model, "10.7.7.7/32", 0, Way::Connected(1), Added);
    assert_eq!(goal(&model, "10.7.7.7/32"), Some(Goal::Kernel));
    neighbour(&mut model, 2, "10.7.7.7", Some([4; 6]));
    assert_eq!(goal(&model, "10.7.7.7/32"), Some(Goal::Kernel));
    neighbour(&mut model, 1, "10.7.7.7", Some([4; 6]));
    assert_eq!(goal(&model, "10.7.7.7/32"), to(&[(1, "10.7.7.7")]));
    // A limit of the length of packets is the kernel's to keep.
    let mut limited = KernelRoute { has_mtu: true, ..plain(0, Way::Connected(1)) };
    limited.identity.others = vec![RouteAttribute::Metrics(vec![RouteMetric::Mtu(1300)])];
    apply(&mut model, "10.7.7.7/32", limited, Replaced);
    let way = model.way_of(prefix("10.7.7.7/32"));
    assert_eq!(way, Some((Goal::Kernel, Some("an MTU of its own"))));
}

#[test]
fn a_link_that_is_down_reaches_nobody() {
    let mut model = model();
    neighbour(&mut model, 1, "10.0.1.2", Some([4; 6]));
    assert_eq!(model.neighbour(1, ip("10.0.1.2")), Some([4; 6]));
    model.dirty = Default::default();
    model.set_port(1, Some(PortNumber(1)), false);
    assert_eq!(model.neighbour(1, ip("10.0.1.2")), None);
    assert!(model.dirty.links.contains(&1) && model.dirty.hops.contains(&(1, ip("10.0.1.2"))));
    model.set_port(1, Some(PortNumber(1)), true);
    // Removals when the kernel takes it down are not reported: everything is read again.
    let down =
        Change::Link { index: 1, name: String::new(), mac: Some([2; 6]), mtu: 1500, up: false };
    assert!(model.apply(down));
    assert_eq!(model.neighbour(1, ip("10.0.1.2")), None);
}

#[test]
fn what_is_gone_when_all_is_read_again_is_looked_at() {
    let mut model = model();
    route(&mut model, "10.1.0.0/16", 0, hops(&[(1, "10.0.1.2")]), Added);
    route(&mut model, "10.2.0.0/16", 0, hops(&[(1, "10.0.1.2")]), Added);
    neighbour(&mut model, 1, "10.0.1.2", Some([4; 6]));
    model.dirty = Default::default();
    let link =
        |index| Change::Link { index, name: String::new(), mac: Some([2; 6]), mtu: 1500, up: true };
    let kept = plain(0, hops(&[(1, "10.0.1.2")]));
    let kept = Change::Route { prefix: prefix("10.1.0.0/16"), route: kept, change: Added };
    model.replace(vec![link(1), kept]);
    assert!(goal(&model, "10.1.0.0/16").is_some());
    assert_eq!(goal(&model, "10.2.0.0/16"), None);
    for gone in ["10.2.0.0/16", "10.0.1.2/32"] {
        assert!(model.dirty.prefixes.contains(&prefix(gone)), "{gone}");
    }
    assert_eq!(model.neighbour(1, ip("10.0.1.2")), None);
    assert!(model.link(1).is_some_and(|link| link.works()));
    assert!(model.link(2).is_none());
}

#[test]
fn prefixes_hold_their_addresses() {
    let range = |text: &str| prefix(text).range();
    assert_eq!(range("10.1.2.3/16"), (ip("10.1.0.0"), ip("10.1.255.255")));
    assert_eq!(range("0.0.0.0/0"), (ip("0.0.0.0"), ip("255.255.255.255")));
    assert_eq!(range("::/0").1, ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
    assert_eq!(prefix("10.1.2.3/32").wider().count(), 33);
    assert_eq!(prefix("fd00::1/128").wider().nth(64), Some(prefix("fd00::/64")));
    for (text, link_local) in [("fe80::/64", true), ("febf::1/128", true), ("fec0::/10", false)] {
        assert_eq!(prefix(text).is_link_local(), link_local, "{text}");
    }
    assert!(prefix("ff00::/8").is_link_local() && !prefix("::/0").is_link_local());
}
