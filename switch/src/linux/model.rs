//! A model of the kernel's state, with the changes since the last flush.
//!
//! It has no socket and no table: [`Change`]s come in, and [`Model::way_of`] returns the way of packets to a prefix.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::kernel::{Change, Hop, KernelRoute, Prefix, RouteChange, Way};

use crate::ports::PortNumber;

/// An interface of the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// The port that its frames leave by, if it is one of ours.
    pub(super) port: Option<PortNumber>,
    pub(super) mac: [u8; 6],
    pub(super) mtu: u32,
    /// The kernel has it up.
    pub(super) up: bool,
    /// The link of its port is up.
    pub(super) carrier: bool,
    /// The kernel passes over routes by it while it has no carrier, of IPv4 and of IPv6.
    pub(super) is_passed_over: [bool; 2],
}

impl Link {
    /// Packets can leave by it.
    pub(super) fn works(&self) -> bool {
        self.port.is_some() && self.up && self.carrier
    }
}

/// A neighbour that packets can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Neighbour {
    mac: [u8; 6],
    /// The kernel has not heard from it for some time, and does not probe it.
    is_stale: bool,
}

/// The target of packets to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// To the kernel, whose address it is.
    Local,
    /// To the kernel, which forwards or handles it.
    Kernel,
    /// Nowhere.
    Blackhole,
    /// To one of these.
    Hops(Vec<Hop>),
}

/// Changed objects.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// In order: next hops get their numbers in it.
    pub(super) prefixes: BTreeSet<Prefix>,
    /// Neighbours, by link and address.
    pub(super) hops: BTreeSet<(u32, IpAddr)>,
    pub(super) links: BTreeSet<u32>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

impl Dirty {
    pub(super) fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
            && self.hops.is_empty()
            && self.links.is_empty()
            && self.addresses.is_empty()
    }
}

/// The kernel's state.
#[derive(Debug, Default)]
pub(super) struct Model {
    links: BTreeMap<u32, Link>,
    /// By address: the interfaces that have it, each with the subnet.
    addresses: BTreeMap<IpAddr, BTreeSet<(u32, Prefix)>>,
    neighbours: BTreeMap<(IpAddr, u32), Neighbour>,
    routes: HashMap<Prefix, Vec<KernelRoute>>,
    pub(super) dirty: Dirty,
}

impl Model {
    pub(super) fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(&index)
    }

    pub(super) fn is_address(&self, address: IpAddr) -> bool {
        self.addresses.contains_key(&address)
    }

    /// The MAC address of a neighbour, if it is reachable.
    pub(super) fn neighbour(&self, link: u32, address: IpAddr) -> Option<[u8; 6]> {
        let works = self.links.get(&link).is_some_and(Link::works);
        self.neighbours.get(&(address, link)).filter(|_| works).map(|neighbour| neighbour.mac)
    }

    /// True for a neighbour that may no longer be there: nothing finds out unless it is probed.
    pub(super) fn is_stale(&self, link: u32, address: IpAddr) -> bool {
        self.neighbours.get(&(address, link)).is_some_and(|neighbour| neighbour.is_stale)
    }

    /// The kernel probes a neighbour from now on, which it does not report.
    pub(super) fn set_probed(&mut self, link: u32, address: IpAddr) {
        if let Some(neighbour) = self.neighbours.get_mut(&(address, link)) {
            neighbour.is_stale = false;
        }
    }

    pub(super) fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// An interface is a port's; the port has the state of its link.
    pub(super) fn set_port(&mut self, index: u32, port: Option<PortNumber>, carrier: bool) {
        let link = self.links.entry(index).or_default();
        let before = *link;
        (link.port, link.carrier) = (port, carrier);
        if *link != before {
            self.touch_link(index);
        }
    }

    /// The kernel passes over routes by this interface while it has no carrier, or not (the sysctl
    /// `ignore_routes_with_linkdown`), of IPv4 and of IPv6.
    pub(super) fn set_passed_over(&mut self, index: u32, is_passed_over: [bool; 2]) {
        let Some(link) = self.links.get_mut(&index) else { return };
        if link.is_passed_over != is_passed_over {
            link.is_passed_over = is_passed_over;
            self.touch_routes(index);
        }
    }

    /// Marks the routes by a link.
    fn touch_routes(&mut self, index: u32) {
        let is_by = |route: &KernelRoute| match &route.way {
            Way::Hops(hops) => hops.iter().any(|hop| hop.link == index),
            Way::Connected(link) => *link == index,
            Way::Blackhole | Way::Kernel(_) => false,
        };
        let of_link = self.routes.iter().filter(|(_, routes)| routes.iter().any(is_by));
        let of_link: Vec<Prefix> = of_link.map(|(prefix, _)| *prefix).collect();
        of_link.into_iter().for_each(|prefix| self.touch_prefix(prefix));
    }

    /// Marks everything that depends on a link, which may have changed.
    fn touch_link(&mut self, index: u32) {
        if self.links.get(&index).is_some_and(|link| link.is_passed_over != [false; 2]) {
            self.touch_routes(index);
        }
        self.dirty.links.insert(index);
        let of_link = self.neighbours.keys().filter(|(_, link)| *link == index);
        for (address, link) in of_link {
            self.dirty.hops.insert((*link, *address));
            self.dirty.prefixes.insert(Prefix::host(*address));
        }
    }

    /// Applies a change of the kernel; true: routes have to be read again.
    pub(super) fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Link { index, mac, mtu, up, name: _ } => {
                let link = self.links.entry(index).or_default();
                let before = *link;
                *link = Link { mac: mac.unwrap_or_default(), mtu, up, ..before };
                let (after, went_down) = (*link, before.up && !up);
                if after != before {
                    self.touch_link(index);
                }
                // IPv4 routes of an interface that goes down, or comes back, are not reported.
                return went_down || !before.up && up;
            }
            Change::LinkGone { index } => {
                self.touch_link(index);
                self.links.remove(&index);
                return true;
            }
            Change::Address { index, address, subnet, present } => {
                let of = self.addresses.entry(address).or_default();
                let place = (index, subnet);
                let changed = if present { of.insert(place) } else { of.remove(&place) };
                if of.is_empty() {
                    self.addresses.remove(&address);
                }
                if changed {
                    self.dirty.addresses.insert(address);
                    self.dirty.prefixes.insert(Prefix::host(address));
                }
            }
            Change::Neighbour { index, address, mac, stale } => {
                let key = (address, index);
                let after = mac.map(|mac| Neighbour { mac, is_stale: stale });
                let before = match after {
                    Some(neighbour) => self.neighbours.insert(key, neighbour),
                    None => self.neighbours.remove(&key),
                };
                if before != after {
                    self.dirty.hops.insert((index, address));
                    self.dirty.prefixes.insert(Prefix::host(address));
                }
            }
            Change::Route { prefix, route, change } => return self.route(prefix, route, change),
            Change::Resync => return true,
        }
        false
    }

    /// True: the routes to the prefix may not be those of the kernel.
    fn route(&mut self, prefix: Prefix, route: KernelRoute, change: RouteChange) -> bool {
        let routes = self.routes.entry(prefix).or_insert_with(|| Vec::with_capacity(1));
        let before = routes.clone();
        let mut is_matched = true;
        match change {
            RouteChange::Deleted => is_matched = delete(routes, &route),
            _ => put(routes, prefix, route, change),
        }
        let changed = *routes != before;
        if routes.is_empty() {
            self.routes.remove(&prefix);
        }
        if changed {
            self.touch_prefix(prefix);
        }
        !is_matched
    }

    /// Marks a changed route, and the neighbours below it that it covers.
    fn touch_prefix(&mut self, prefix: Prefix) {
        self.dirty.prefixes.insert(prefix);
        let (first, last) = prefix.range();
        let below = self.neighbours.range((first, 0)..=(last, u32::MAX));
        self.dirty.prefixes.extend(below.map(|((address, _), _)| Prefix::host(*address)));
    }

    /// Replaces neighbours, addresses and routes by another state.
    pub(super) fn replace(&mut self, changes: Vec<Change>) {
        let mut fresh = Model { links: self.links.clone(), ..Model::default() };
        let mut links = BTreeSet::new();
        for change in changes {
            if let Change::Link { index, .. } = &change {
                links.insert(*index);
            }
            // In one dump the first one of a metric is first.
            let change = match change {
                Change::Route { prefix, route, .. } => {
                    Change::Route { prefix, route, change: RouteChange::Appended }
                }
                other => other,
            };
            fresh.apply(change);
        }
        let gone: Vec<u32> =
            fresh.links.keys().filter(|index| !links.contains(index)).copied().collect();
        for index in gone {
            fresh.apply(Change::LinkGone { index });
        }
        let dirty = std::mem::take(&mut self.dirty);
        fresh.dirty.prefixes.extend(dirty.prefixes);
        fresh.dirty.hops.extend(dirty.hops);
        fresh.dirty.links.extend(dirty.links);
        fresh.dirty.addresses.extend(dirty.addresses);
        // Prefixes that no longer exist.
        fresh.dirty.prefixes.extend(self.routes.keys());
        fresh.dirty.addresses.extend(self.addresses.keys());
        for (address, link) in self.neighbours.keys() {
            fresh.dirty.hops.insert((*link, *address));
            fresh.dirty.prefixes.insert(Prefix::host(*address));
        }
        *self = fresh;
    }

    /// Marks everything.
    pub(super) fn touch_all(&mut self) {
        self.dirty.prefixes.extend(self.routes.keys());
        self.dirty.addresses.extend(self.addresses.keys());
        self.dirty.prefixes.extend(self.addresses.keys().map(|address| Prefix::host(*address)));
        self.dirty.hops.extend(self.neighbours.keys().map(|(address, link)| (*link, *address)));
        let links: Vec<u32> = self.links.keys().copied().collect();
        links.into_iter().for_each(|index| self.touch_link(index));
    }

    /// The kernel passes over a route: its links are down, and it ignores such routes.
    fn is_passed_over(&self, route: &KernelRoute, family: usize) -> bool {
        let is_out = |index: u32| {
            let link = self.links.get(&index);
            link.is_some_and(|link| link.is_passed_over[family] && !link.works())
        };
        match &route.way {
            Way::Hops(hops) => !hops.is_empty() && hops.iter().all(|hop| is_out(hop.link)),
            Way::Connected(link) => is_out(*link),
            Way::Blackhole | Way::Kernel(_) => false,
        }
    }

    /// The route that the kernel uses for a prefix. One for some of the packets only comes first, so that the kernel
    /// decides about all of them.
    fn used(&self, prefix: Prefix) -> Option<&KernelRoute> {
        let family = usize::from(prefix.address.is_ipv6());
        let routes = self.routes.get(&prefix)?.iter();
        let routes = routes.filter(|route| !self.is_passed_over(route, family));
        routes.min_by_key(|route| (!route.is_selective(), route.metric))
    }

    /// The way of packets to exactly this prefix, not to a shorter one; `None` without a route or neighbour for it.
    pub(super) fn way_of(&self, prefix: Prefix) -> Option<(Goal, Option<&'static str>)> {
        if prefix.is_host() && self.is_address(prefix.address) {
            return Some((Goal::Local, None));
        }
        if let Some(hop) = self.host(prefix) {
            return Some((Goal::Hops(vec![hop]), None));
        }
        self.used(prefix).map(|route| self.goal(route))
    }

    fn goal(&self, route: &KernelRoute) -> (Goal, Option<&'static str>) {
        if let Some(why) = route.why_kernel() {
            return (Goal::Kernel, Some(why));
        }
        match &route.way {
            Way::Hops(hops) => {
                let is_port =
                    |hop: &Hop| self.links.get(&hop.link).is_some_and(|l| l.port.is_some());
                match hops.iter().all(is_port) && !hops.is_empty() {
                    true => (Goal::Hops(hops.clone()), None),
                    false => (Goal::Kernel, Some("an interface that is no port")),
                }
            }
            Way::Connected(_) | Way::Kernel(_) => (Goal::Kernel, None),
            Way::Blackhole => (Goal::Blackhole, None),
        }
    }

    /// A neighbour that the kernel reaches without a gateway: the longest route to it is that of its link.
    fn host(&self, prefix: Prefix) -> Option<Hop> {
        if !prefix.is_host() {
            return None;
        }
        let address = prefix.address;
        let route = prefix.wider().find_map(|wider| self.used(wider))?;
        let (Way::Connected(link), None) = (&route.way, route.why_kernel()) else { return None };
        let link = *link;
        let is_there = self.neighbours.contains_key(&(address, link));
        let is_port = self.links.get(&link)?.port.is_some();
        (is_there && is_port).then_some(Hop { link, gateway: address, weight: 1 })
    }
}

/// The route that a new one extends: a message about it has all of its next hops.
fn merged(routes: &[KernelRoute], route: &KernelRoute) -> Option<usize> {
    let of_rank = |other: &KernelRoute| other.is_shared && other.rank() == route.rank();
    routes.iter().position(|other| route.is_shared && of_rank(other))
}

/// The route that a new one replaces, if the kernel reports a replacement: the first one of its metric. IPv6 prefers one
/// of the same kind.
fn replaced_by(routes: &[KernelRoute], route: &KernelRoute) -> Option<usize> {
    let of_rank = |other: &KernelRoute| other.rank() == route.rank();
    let alike = |other: &KernelRoute| of_rank(other) && other.is_shared == route.is_shared;
    routes.iter().position(alike).or_else(|| routes.iter().position(of_rank))
}

/// A message about a new or changed route.
fn put(routes: &mut Vec<KernelRoute>, prefix: Prefix, route: KernelRoute, change: RouteChange) {
    let known = routes.iter().position(|other| other.is_same(&route));
    match known {
        // Its object was replaced.
        Some(at) if route.identity.object.is_some() => routes[at] = route,
        // News from before a dump are applied to it: the new route may be there, and the old one again.
        Some(at) if change == RouteChange::Replaced && replaced_by(routes, &route) != Some(at) => {
            routes.retain(|other| !other.is_same(&route));
            add(routes, prefix, route, change);
        }
        Some(_) => {}
        None => add(routes, prefix, route, change),
    }
}

fn add(routes: &mut Vec<KernelRoute>, prefix: Prefix, route: KernelRoute, change: RouteChange) {
    let (merged, replaced) = (merged(routes, &route), replaced_by(routes, &route));
    let is_first = prefix.address.is_ipv4() && change == RouteChange::Added;
    match (merged, replaced) {
        (Some(at), _) => routes[at] = route,
        (None, Some(at)) if change == RouteChange::Replaced => routes[at] = route,
        // IPv6 adds a route after the others of its metric, whatever was asked for (net/ipv6: fib6_add_rt2node).
        (None, Some(at)) if is_first => routes.insert(at, route),
        _ => routes.push(route),
    }
}

/// A message about a removed route; one about a removed next hop of several (IPv6) has only that one. False: it is none
/// of these routes, of which one may be another one meanwhile.
fn delete(routes: &mut Vec<KernelRoute>, route: &KernelRoute) -> bool {
    if let Some(at) = routes.iter().position(|other| other.is_same(route)) {
        routes.remove(at);
        return true;
    }
    if let (Some(at), Way::Hops(gone)) = (merged(routes, route), &route.way)
        && let Way::Hops(hops) = &mut routes[at].way
    {
        let is_gone =
            |hop: &Hop| gone.iter().any(|one| (one.link, one.gateway) == (hop.link, hop.gateway));
        let before = hops.len();
        hops.retain(|hop| !is_gone(hop));
        let (is_known, is_empty) = (hops.len() < before, hops.is_empty());
        if is_empty {
            routes.remove(at);
        }
        if is_known {
            return true;
        }
    }
    !routes.iter().any(|other| other.rank() == route.rank())
}

#[cfg(test)]
mod tests;
