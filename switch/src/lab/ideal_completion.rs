//! The time of a flow on an empty network, with which slowdown compares.
//!
//! Store and forward, hop by hop, every frame as long as it is on its wire. The time of a chain of packets and links is
//! that of the longest path: the first packet to some link, all of them over it, the last one on. Two such paths over
//! each link are considered, because a short last packet may wait behind its predecessor; a window, rate control and
//! the hosts' own time are not included. So no flow is faster, and a single one that may send at line rate is as fast.
//!
//! Packets on several paths, as those of a sender that sprays or of switches that balance, share all links that are
//! equally near: a hop has the rate of all of these together, and a frame takes the time of one of them.

use std::collections::BTreeSet;

use wireyard_tables::time::Span;

use super::fabric::LinkSetup;
use super::host;
use super::scenario::{FlowSpec, HostSetup, Scenario};
use crate::roce::qp::Retransmission;
use crate::units::{BitsPerSec, Bytes};

/// RETH of a message's first packet (IBTA 9.3.3), of a selective sender's each packet.
pub(super) const RETH_BYTES: u64 = 16;
/// AETH of an acknowledgement (IBTA 9.3.4).
const AETH_BYTES: u64 = 4;
/// Check sequence, preamble, start and inter-frame gap (IEEE 802.3 3.1.1, 4.4.2), and the shortest frame with its check
/// sequence.
const ETHERNET: (u64, u64) = (24, 64);

/// Bytes on the wire of a packet with `behind` bytes after its BTH.
fn wire(host: &HostSetup, behind: u64) -> u64 {
    let frame = host.frame().get() - host.path_mtu.get() + behind;
    if host.is_infiniband() {
        return frame;
    }
    let (overhead, shortest) = ETHERNET;
    (frame + 4).max(shortest) + overhead - 4
}

/// The shortest time from a flow's first post to its last acknowledgement, if its ends are joined; `balances`: switches
/// may send the packets of a flow over several paths.
pub(super) fn least_time(scenario: &Scenario, spec: &FlowSpec, balances: bool) -> Option<Span> {
    let messages = host::messages(spec);
    // Rounds are reported one by one.
    let count = if spec.rounds > 1 { 1 } else { messages.count? };
    let lengths = (u64::from(messages.length), u64::from(messages.last));
    let there = one_way(scenario, spec, (count, lengths), balances)?;
    let setups = links_of(scenario, spec)?;
    let back = wire(scenario.host_of(spec.from), AETH_BYTES);
    let returned = setups.iter().map(|setup| setup.delay + setup.rate.time_for(Bytes::new(back)));
    Some(returned.fold(there, |sum, span| sum + span))
}

/// Transmission time of a message of a flow on the wire of its sender, and on that of its receiver.
pub(super) fn end_hops(scenario: &Scenario, spec: &FlowSpec) -> Option<(Span, Span)> {
    let host = scenario.sender(spec);
    let bytes = Bytes::new(Extent::of(&host, u64::from(host::messages(spec).length)).message);
    let links = links_of(scenario, spec)?;
    Some((links.first()?.rate.time_for(bytes), links.last()?.rate.time_for(bytes)))
}

/// Bytes on the wire of `payload` bytes in full packets.
pub(super) fn wire_bytes(host: &HostSetup, payload: u64) -> u64 {
    Extent::of(host, payload).message
}

/// By hop, the links at this distance from the sender that are on a shortest path; none if there is no path.
fn layers(scenario: &Scenario, spec: &FlowSpec) -> Option<Vec<Vec<LinkSetup>>> {
    let fabric = &scenario.fabric;
    let near = fabric.hops(spec.to);
    let mut nodes = BTreeSet::from([spec.from]);
    let mut layers = Vec::new();
    while !nodes.contains(&spec.to) {
        let (mut next, mut links) = (BTreeSet::new(), Vec::new());
        for node in nodes {
            for link in fabric.leading(node, &near) {
                links.push(fabric.links[link].setup);
                next.insert(fabric.far(link, node));
            }
        }
        if links.is_empty() {
            return None;
        }
        layers.push(links);
        nodes = next;
    }
    Some(layers)
}

/// By hop, the total rate of the links of each layer.
fn joint_rates(layers: &[Vec<LinkSetup>]) -> Option<Vec<BitsPerSec>> {
    let sum = |links: &Vec<LinkSetup>| {
        let rates = links.iter().map(|link| link.rate.get());
        BitsPerSec::new(rates.fold(0, u64::saturating_add))
    };
    layers.iter().map(sum).collect()
}

/// A path as fast as any: by hop the highest rate and the least delay of its layer, because paths of the same length may differ.
fn fastest(layers: &[Vec<LinkSetup>]) -> Option<Vec<LinkSetup>> {
    let of = |links: &Vec<LinkSetup>| {
        let (first, rest) = links.split_first()?;
        Some(rest.iter().fold(*first, |best, link| LinkSetup {
            rate: best.rate.max(link.rate),
            delay: best.delay.min(link.delay),
            ..best
        }))
    };
    layers.iter().map(of).collect()
}

fn links_of(scenario: &Scenario, spec: &FlowSpec) -> Option<Vec<LinkSetup>> {
    fastest(&layers(scenario, spec)?)
}

/// Bytes on the wire of a message and of its packets.
struct Extent {
    first: u64,
    middle: u64,
    last: u64,
    message: u64,
}

impl Extent {
    fn of(host: &HostSetup, length: u64) -> Extent {
        let length = length.max(1);
        let mtu = host.path_mtu.get();
        let packets = length.div_ceil(mtu);
        // Padded to words (IBTA 9.2.5).
        let last_payload = (length - (packets - 1) * mtu).next_multiple_of(4);
        let first = wire(host, length.next_multiple_of(4).min(mtu) + RETH_BYTES);
        // Each packet of a selective sender has its address.
        let reth = match host.retransmission {
            Retransmission::GoBackN => 0,
            Retransmission::Selective { .. } => RETH_BYTES,
        };
        let middle = if packets <= 2 { first } else { wire(host, mtu + reth) };
        if packets == 1 {
            return Extent { first, middle, last: first, message: first };
        }
        let last = wire(host, last_payload + reth);
        Extent { first, middle, last, message: first + (packets - 2) * middle + last }
    }
}

/// Bytes on the wire of the first packet of `count` messages, of the last but one, of the last, and of all.
fn packets(
    host: &HostSetup,
    count: u64,
    (length, last_length): (u64, u64),
) -> (u64, u64, u64, u64) {
    let (each, end) = (Extent::of(host, length), Extent::of(host, last_length));
    let before = count.saturating_sub(1);
    let all = each.message.saturating_mul(before).saturating_add(end.message);
    let first = if before == 0 { end.first } else { each.first };
    // A last message of one packet follows the last packet of the message before it.
    let is_one = last_length <= host.path_mtu.get();
    let middle = if before > 0 && is_one { each.last } else { end.middle };
    (first, middle, end.last, all)
}

/// The shortest time from the first post of `count` messages of a length, the last of its own, to the arrival of the last
/// bit.
pub(super) fn one_way(
    scenario: &Scenario,
    spec: &FlowSpec,
    (count, (length, last_length)): (u64, (u64, u64)),
    balances: bool,
) -> Option<Span> {
    let layers = layers(scenario, spec)?;
    let setups = fastest(&layers)?;
    let host = scenario.sender(spec);
    let rates = match balances || host.spray > 1 {
        true => joint_rates(&layers)?,
        false => setups.iter().map(|setup| setup.rate).collect(),
    };
    let (first, middle, last, all) = packets(&host, count, (length, last_length));
    let time = |hop: usize, bytes: u64| setups[hop].rate.time_for(Bytes::new(bytes));
    let joint = |hop: usize, bytes: u64| rates[hop].time_for(Bytes::new(bytes));
    let sum = |spans: &mut dyn Iterator<Item = Span>| spans.fold(Span::ZERO, |a, b| a + b);
    let end = setups.len() - 1;
    let path = |over: usize| {
        let in_front = sum(&mut (0..over).map(|hop| time(hop, first)));
        let behind = |bytes: u64| sum(&mut (over + 1..setups.len()).map(|hop| time(hop, bytes)));
        let straight = joint(over, all).max(time(over, last)) + behind(last);
        let waiting = match end > over && all > last {
            true => joint(over, all - last) + behind(middle) + time(end, last),
            false => Span::ZERO,
        };
        in_front + straight.max(waiting)
    };
    let longest = (0..setups.len()).map(path).max()?;
    Some(longest + sum(&mut setups.iter().map(|setup| setup.delay)))
}
