//! A link of a live lab: the link of virtual time, and behind it a virtual cable of the kernel.
//!
//! ```text
//!  switch -> LinkPort (delay, loss, faults, capture) -> veth end ~~ kernel ~~ veth end -> host
//! ```
//!
//! Delay and faults are still those of [`link`](super::link), so a scenario has the same meaning. A frame whose delay
//! is over is sent on one end of a veth pair, and received on the other: the far device gets the frame that the kernel
//! delivered, and when it did. Nearly always that is at once; otherwise the port polls again soon. This file counts
//! frames in and out, and decides nothing else.

use std::sync::{Arc, Mutex};

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Deadline, Span, Time};

use super::error::LabError;
use super::fabric::Fabric;
use super::link::LinkPort;
use crate::ports::raw::RawPort;
use crate::ports::{
    LinkState, Port, PortCaps, PortError, PortKind, PortSpec, PortStats, RxFrame, TxDone, TxFrame,
    veth,
};
use crate::sync;

/// Longest name of an interface (IFNAMSIZ less its end).
const NAME_MAX: usize = 15;
/// Polls without a result after which a missing frame counts as lost.
const LOOKS_MAX: u32 = 20_000;
/// EtherType of IPv6: no lab sends it, but the kernel's interfaces do on their own, unless it is disabled there.
const IPV6: [u8; 2] = [0x86, 0xdd];
const ETHER_TYPE: std::ops::Range<usize> = 12..14;

/// Counters of one direction of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CableCounters {
    /// Frames that were passed to the kernel.
    pub put: u64,
    /// Frames that were received from it.
    pub got: u64,
    /// Frames that it did not take: the interface was down, or they were too long.
    pub refused: u64,
    /// Frames that never arrived.
    pub lost: u64,
    /// Frames that did not arrive at once, and were polled for again.
    pub late: u64,
    /// Frames of the kernel itself, which no device receives.
    pub foreign: u64,
}

impl std::ops::AddAssign for CableCounters {
    fn add_assign(&mut self, other: CableCounters) {
        self.put += other.put;
        self.got += other.got;
        self.refused += other.refused;
        self.lost += other.lost;
        self.late += other.late;
        self.foreign += other.foreign;
    }
}

impl CableCounters {
    /// Frames that are in the kernel.
    pub fn inside(&self) -> u64 {
        self.put.saturating_sub(self.got + self.lost)
    }
}

/// A veth pair with a packet socket on each end.
pub struct Cable {
    ends: [Mutex<RawPort>; 2],
    /// By the end that receives.
    counters: [Mutex<CableCounters>; 2],
}

impl Cable {
    /// Makes the pair in the network namespace of this thread and opens both ends.
    ///
    /// # Errors
    /// An operation that the kernel refuses, with the names.
    pub fn lay(names: &[String; 2], mtu_bytes: u32) -> Result<Cable, LabError> {
        let [a, b] = names;
        veth::create([a, b], mtu_bytes)?;
        let open = |name: &String| {
            let port = RawPort::open(&PortSpec::new(PortKind::Raw, name));
            port.map(Mutex::new)
        };
        Ok(Cable { ends: [open(a)?, open(b)?], counters: Default::default() })
    }

    /// Counters of the direction towards an end.
    pub fn counters(&self, end: usize) -> CableCounters {
        *sync::lock(&self.counters[end])
    }

    /// Sends towards `end`; frames that the kernel has no room for stay.
    fn put(&self, end: usize, mem: &mut PacketMemory, now: Time, frames: &mut Vec<TxFrame>) {
        let mut counters = sync::lock(&self.counters[end]);
        let before = frames.len();
        let done = sync::lock(&self.ends[1 - end]).tx_burst(mem, now, frames).unwrap_or_default();
        counters.put += done.sent as u64;
        counters.refused += (before - frames.len() - done.sent) as u64;
    }

    /// Takes the frames that arrived at `end`.
    fn get(
        &self,
        end: usize,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<(), PortError> {
        let first = out.len();
        let result = sync::lock(&self.ends[end]).rx_burst(mem, now, out, max);
        let mut counters = sync::lock(&self.counters[end]);
        let all = out.len();
        for index in (first..all).rev() {
            let frame = &out[index];
            let bytes = mem.frame(&frame.buf, frame.data_off, frame.len);
            if bytes.get(ETHER_TYPE).is_some_and(|kind| kind == IPV6) {
                mem.free(out.remove(index).buf);
                counters.foreign += 1;
            }
        }
        counters.got += (out.len() - first) as u64;
        result.map(drop)
    }

    /// Removes the frames still in flight towards an end, unread; returns how many have not arrived.
    pub(super) fn take_rest(&self, end: usize, mem: &mut PacketMemory) -> u64 {
        let mut rest = Vec::new();
        while self.counters(end).inside() > 0 {
            // An end that fails delivers nothing, and its frames are lost.
            let _ = self.get(end, mem, Time::ZERO, &mut rest, 64);
            if rest.is_empty() {
                break;
            }
            rest.drain(..).for_each(|frame| mem.free(frame.buf));
        }
        self.counters(end).inside()
    }

    /// Counts the frames in the kernel towards an end as lost.
    pub(super) fn give_up(&self, end: usize) {
        let mut counters = sync::lock(&self.counters[end]);
        counters.lost += counters.inside();
    }
}

/// The cables of a live lab, by link.
pub struct Cabling {
    /// By link, with its first end first.
    pub cables: Vec<Arc<Cable>>,
    /// Time of the devices between two polls for a late frame.
    pub look: Span,
}

impl Cabling {
    /// Lays a cable for every link, in the network namespace of this thread.
    ///
    /// # Errors
    /// An operation that the kernel refuses.
    pub fn lay(fabric: &Fabric, look: Span) -> Result<Cabling, LabError> {
        let lay = |link: usize| {
            // The MTU of an interface leaves out the Ethernet header; a link's does not.
            let mtu_bytes = fabric.links[link].setup.mtu.get() as u32;
            Cable::lay(&names(fabric, link), mtu_bytes).map(Arc::new)
        };
        let cables = (0..fabric.links.len()).map(lay).collect::<Result<_, _>>()?;
        Ok(Cabling { cables, look })
    }
}

/// Names of the interfaces of a link, those of its ends where they fit: `h1-s1` is the end at h1.
pub fn names(fabric: &Fabric, link: usize) -> [String; 2] {
    let [a, b] = fabric.links[link].ends.map(|node| fabric.nodes[node].name.as_str());
    let [from, to] = fabric.links[link].ends;
    let same = |other: &&super::fabric::Link| other.ends == [from, to] || other.ends == [to, from];
    let is_only = fabric.links.iter().filter(same).count() == 1;
    let names = [format!("{a}-{b}"), format!("{b}-{a}")];
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    let fits = |name: &String| name.len() <= NAME_MAX && name.bytes().all(is_plain);
    if is_only && names.iter().all(fits) {
        return names;
    }
    [format!("wy{link}a"), format!("wy{link}b")]
}

/// One end of a link over a cable.
pub struct CablePort {
    link: LinkPort,
    cable: Arc<Cable>,
    end: usize,
    /// Time between two polls.
    look: Span,
    /// Frames whose delay is over, for the kernel.
    due: Vec<TxFrame>,
    arrived: Vec<RxFrame>,
    /// When to poll for frames that are in the kernel.
    look_at: Deadline,
    looks: u32,
}

impl CablePort {
    /// The end `end` of a cable behind a link; a late frame is polled for every `look`.
    pub fn new(link: LinkPort, cable: Arc<Cable>, end: usize, look: Span) -> CablePort {
        let (due, arrived) = (Vec::with_capacity(64), Vec::with_capacity(64));
        CablePort { link, cable, end, look, due, arrived, look_at: Deadline::NEVER, looks: 0 }
    }

    /// Passes the kernel the frames whose delay is over.
    fn hand_over(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        max: usize,
    ) -> Result<(), PortError> {
        self.link.rx_burst(mem, now, &mut self.arrived, max)?;
        for frame in self.arrived.drain(..) {
            let RxFrame { buf, data_off, len, wire_len, timestamp, .. } = frame;
            let (start, end) = (timestamp, timestamp);
            self.due.push(TxFrame { buf, data_off, len, wire_len, start, end });
        }
        if !self.due.is_empty() {
            self.cable.put(self.end, mem, now, &mut self.due);
        }
        Ok(())
    }

    /// Plans the next poll, after one that found `count` frames.
    fn plan(&mut self, now: Time, count: usize) {
        if self.looks == LOOKS_MAX {
            self.cable.give_up(self.end);
        }
        let mut counters = sync::lock(&self.cable.counters[self.end]);
        let waits = !self.due.is_empty() || counters.inside() > 0;
        if count == 0 && self.looks == 0 {
            counters.late += counters.inside();
        }
        self.looks = if waits && count == 0 { self.looks + 1 } else { 0 };
        self.look_at = waits.then(|| now + self.look).into();
    }
}

impl Port for CablePort {
    fn name(&self) -> &str {
        self.link.name()
    }

    fn caps(&self) -> PortCaps {
        self.link.caps()
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        let is_due = self.link.next_arrival().is_some_and(|at| at <= now);
        if !is_due && !self.look_at.is_by(now) {
            return Ok(0);
        }
        self.hand_over(mem, now, max)?;
        let first = out.len();
        let result = self.cable.get(self.end, mem, now, out, max);
        let count = out.len() - first;
        self.plan(now, count);
        result.map(|()| count)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        self.link.tx_burst(mem, now, frames)
    }

    fn next_arrival(&mut self) -> Option<Time> {
        self.look_at.min(self.link.next_arrival().into()).instant()
    }

    fn stats(&mut self) -> PortStats {
        self.link.stats()
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        self.link.link_state(now)
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.due.drain(..).for_each(|frame| mem.free(frame.buf));
        sync::lock(&self.cable.ends[self.end]).close(mem);
        self.link.close(mem);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabric::{LinkSetup, NodeKind};
    use super::*;

    #[test]
    fn interfaces_have_the_names_of_their_ends_where_the_kernel_takes_them() {
        let mut fabric = Fabric::default();
        let switch = fabric.add("s1", NodeKind::Switch);
        for name in ["h1", "a_host_with_a_long_name", "h/2", "h3"] {
            let host = fabric.add(name, NodeKind::Host);
            fabric.join(host, switch, LinkSetup::clean());
        }
        let twice = fabric.find("h3").unwrap();
        fabric.join(switch, twice, LinkSetup::clean());
        let all: Vec<_> = (0..fabric.links.len()).map(|link| names(&fabric, link)).collect();
        assert_eq!(all[0], ["h1-s1", "s1-h1"]);
        for (link, names) in all.iter().enumerate().skip(1) {
            assert_eq!(*names, [format!("wy{link}a"), format!("wy{link}b")]);
        }
    }

    #[test]
    fn what_was_put_in_is_inside_until_it_came_out_or_is_lost() {
        let mut all = CableCounters { put: 10, got: 7, lost: 1, ..CableCounters::default() };
        assert_eq!(all.inside(), 2);
        all += CableCounters { put: 1, got: 3, late: 2, refused: 1, ..CableCounters::default() };
        assert_eq!((all.inside(), all.late, all.refused), (0, 2, 1));
    }
}
