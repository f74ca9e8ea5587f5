//! The time that a flow takes where nothing else is: what slowdown compares with.
//!
//! Store and forward, hop by hop, every frame as long as it is on its wire. Of a chain of packets and links the time is that of the
//! longest path: the first packet to the slowest link, all of them over it, the last one on. Two such paths are
//! looked at, because a short last packet may wait behind its predecessor; a window, rate control and the hosts'
//! own time are not in it. So no flow is faster, and a lone one that may send at line rate is as fast.

use wireyard_tables::time::Span;

use super::fabric::LinkSetup;
use super::host;
use super::scenario::{FlowSpec, HostSetup, Scenario};
use crate::units::Bytes;

/// RETH of a message's first packet (IBTA 9.3.3).
const RETH_BYTES: u64 = 16;
/// AETH of an acknowledgement (IBTA 9.3.4).
const AETH_BYTES: u64 = 4;
/// Check sequence, preamble, start and inter-frame gap (IEEE 802.3 3.1.1, 4.4.2), and the shortest frame with its check sequence.
const ETHERNET: (u64, u64) = (24, 64);

/// Bytes on the wire of a packet with so many behind its BTH.
fn wire(host: &HostSetup, behind: u64) -> u64 {
    let frame = host.frame().get() - host.path_mtu.get() + behind;
    if host.is_infiniband() {
        return frame;
    }
    let (overhead, shortest) = ETHERNET;
    (frame + 4).max(shortest) + overhead - 4
}

/// The shortest time from a flow's first post to its last acknowledgement, if its ends are joined.
pub(super) fn least_time(scenario: &Scenario, spec: &FlowSpec) -> Option<Span> {
    let way = scenario.fabric.way(spec.from, spec.to)?;
    let setups: Vec<LinkSetup> =
        way.iter().map(|&link| scenario.fabric.links[link].setup).collect();
    let (messages, length) = host::messages(spec);
    // Rounds are told one by one.
    let messages = if spec.rounds > 1 { 1 } else { messages? };
    let (host, length) = (scenario.host_of(spec.from), u64::from(length).max(1));
    let mtu = host.path_mtu.get();
    let packets = length.div_ceil(mtu);
    // Padded to words (IBTA 9.2.5).
    let last_payload = (length - (packets - 1) * mtu).next_multiple_of(4);
    let is_alone = packets == 1;
    let first = wire(host, length.next_multiple_of(4).min(mtu) + RETH_BYTES);
    let middle = if packets <= 2 { first } else { wire(host, mtu) };
    let last = if is_alone { first } else { wire(host, last_payload) };
    let message = if is_alone { first } else { first + (packets - 2) * wire(host, mtu) + last };
    let all = message.saturating_mul(messages);
    let time = |hop: usize, bytes: u64| setups[hop].rate.time_for(Bytes::new(bytes));
    let slowest = (0..setups.len()).max_by_key(|&hop| (time(hop, mtu), std::cmp::Reverse(hop)))?;
    let sum = |spans: &mut dyn Iterator<Item = Span>| spans.fold(Span::ZERO, |a, b| a + b);
    let in_front = sum(&mut (0..slowest).map(|hop| time(hop, first)));
    let behind = |bytes: u64| sum(&mut (slowest + 1..setups.len()).map(|hop| time(hop, bytes)));
    let straight = time(slowest, all) + behind(last);
    let end = setups.len() - 1;
    let waiting = match end > slowest && all > last {
        true => time(slowest, all - last) + behind(middle) + time(end, last),
        false => Span::ZERO,
    };
    let back = wire(host, AETH_BYTES);
    let returned = (0..setups.len()).map(|hop| setups[hop].delay + time(hop, back));
    let delays = setups.iter().map(|setup| setup.delay);
    Some(in_front + straight.max(waiting) + sum(&mut delays.chain(returned)))
}
