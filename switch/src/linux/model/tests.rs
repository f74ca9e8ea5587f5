//! The kernel's changes, and the resulting ways of packets.

use std::net::IpAddr;

use super::super::kernel::{Change, Hop, KernelRoute, Prefix, RouteChange, Way};
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
        model.apply(Change::Link { index, mac: Some([2; 6]), mtu: 1500, up: true });
    }
    model
}

fn route(model: &mut Model, to: &str, metric: u32, way: Way, change: RouteChange) {
    let route = KernelRoute { metric, way };
    assert!(!model.apply(Change::Route { prefix: prefix(to), route, change }));
}

fn neighbour(model: &mut Model, index: u32, address: &str, mac: Option<[u8; 6]>) {
    model.apply(Change::Neighbour { index, address: ip(address), mac, stale: false });
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
fn a_message_about_one_ipv6_next_hop_takes_that_one_away() {
    let mut model = model();
    let net = "fd01::/64";
    route(&mut model, net, 1024, hops(&[(1, "fd00::1")]), Added);
    route(&mut model, net, 1024, hops(&[(1, "fd00::1"), (2, "fd00::2")]), Appended);
    assert_eq!(goal(&model, net), to(&[(1, "fd00::1"), (2, "fd00::2")]));
    route(&mut model, net, 1024, hops(&[(1, "fd00::1")]), Deleted);
    assert_eq!(goal(&model, net), to(&[(2, "fd00::2")]));
    route(&mut model, net, 1024, hops(&[(2, "fd00::2")]), Deleted);
    assert_eq!(goal(&model, net), None);
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
    model.apply(Change::Address { index: 1, address: ip("10.0.1.130"), present: true });
    assert_eq!(goal(&model, "10.0.1.130/32"), Some(Goal::Local));
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
    let down = Change::Link { index: 1, mac: Some([2; 6]), mtu: 1500, up: false };
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
    let link = |index| Change::Link { index, mac: Some([2; 6]), mtu: 1500, up: true };
    let kept = KernelRoute { metric: 0, way: hops(&[(1, "10.0.1.2")]) };
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
