//! Priority flow control (IEEE 802.1Qbb, now 802.1Q clause 36) and PAUSE (IEEE 802.3 Annex 31B), both directions.
//!
//! Receiving: `PauseReceiver` keeps one timer per priority. A non-zero time (re)starts it, zero
//! resumes at once, expiry resumes. A paused queue finishes the frame that is on the wire: pause takes
//! effect at the next frame boundary, that is, after at most one maximum frame, well inside the response
//! time of 802.3 31B.3.7. A response time can be configured to model a slower peer.
//!
//! Sending: `PauseSender` has the priorities in XOFF at the peer, and when to repeat that: at half of the announced
//! time, so that a lost frame does not resume the peer.
//!
//! When PFC is on, PAUSE is ignored and counted, and the reverse (802.3 Annex 31D).

use wireyard_tables::time::{Deadline, Span, Time};

use crate::units::{BitsPerSec, Quanta};

use super::id::{CLASSES, PortId};
use super::scheduler::bits;

/// The flow control of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowControl {
    /// None: pauses are ignored and counted.
    #[default]
    Off,
    /// 802.3 PAUSE, the whole link.
    Pause,
    /// 802.1Qbb, per priority.
    Pfc,
}

/// Flow control of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowControlConfig {
    /// Which kind.
    pub mode: FlowControl,
    /// PFC priorities enabled, bit n for priority n (SONiC `pfc_enable`).
    pub enabled: u8,
    /// Queue stopped by each received priority (SONiC `MAP_PFC_PRIORITY_TO_QUEUE`).
    pub priority_to_queue: [u8; CLASSES],
    /// Priority group whose occupancy pauses each priority (`PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`).
    pub priority_to_group: [u8; CLASSES],
    /// Pause time announced in XOFF.
    pub quanta: Quanta,
    /// Time from receiving a pause to stopping; zero stops at the next frame boundary.
    pub response: Span,
    /// Time after an XOFF by which a peer must have stopped; later arrivals count as not honoured.
    pub honoured_within: Span,
    /// The rate that defines a quantum; needed when the port itself has no rate.
    pub quantum_rate: Option<BitsPerSec>,
}

impl Default for FlowControlConfig {
    fn default() -> FlowControlConfig {
        FlowControlConfig {
            mode: FlowControl::Off,
            enabled: 0,
            priority_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
            priority_to_group: [0, 1, 2, 3, 4, 5, 6, 7],
            quanta: Quanta::MAX,
            response: Span::ZERO,
            honoured_within: Span::MAX,
            quantum_rate: None,
        }
    }
}

/// Content of a PFC frame: for each priority in the vector, its pause time (802.1Qbb).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcFrame {
    /// Class-enable vector, bit n for priority n.
    pub vector: u8,
    /// Pause times; those outside the vector are zero and ignored.
    pub quanta: [Quanta; CLASSES],
}

/// Pause counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounters {
    /// Received pauses with non-zero time, per priority.
    pub rx_xoff: [u64; CLASSES],
    /// Received resumes, per priority.
    pub rx_xon: [u64; CLASSES],
    /// Received for priorities (or a kind of pause) this port does not honour.
    pub rx_ignored: u64,
    /// Received while the queue of the response-time model was full, and applied at once.
    pub rx_early: u64,
    /// Sent with non-zero time, per priority; refreshes included.
    pub tx_xoff: [u64; CLASSES],
    /// Sent with zero time, per priority.
    pub tx_xon: [u64; CLASSES],
    /// Time spent paused, per priority, up to the last change.
    pub paused: [Span; CLASSES],
}

/// A received pause whose response time has not passed.
#[derive(Clone, Copy, Debug)]
struct PendingPause {
    at: Time,
    frame: PfcFrame,
}

/// Maximum number of pending pauses; further ones make the oldest apply early.
const PENDING_MAX: usize = 8;

/// Pauses received by one port.
#[derive(Clone, Debug)]
pub(crate) struct PauseReceiver {
    /// Priorities paused now.
    priorities: u8,
    until: [Deadline; CLASSES],
    since: [Time; CLASSES],
    pending: Vec<PendingPause>,
}

impl PauseReceiver {
    pub(crate) fn new() -> PauseReceiver {
        PauseReceiver {
            priorities: 0,
            until: [Deadline::NEVER; CLASSES],
            since: [Time::ZERO; CLASSES],
            pending: Vec::with_capacity(PENDING_MAX),
        }
    }

    /// Priorities paused now.
    pub(crate) fn priorities(&self) -> u8 {
        self.priorities
    }

    /// Since when a priority is paused; `None` if it is not paused now.
    pub(crate) fn paused_since(&self, priority: u8) -> Option<Time> {
        let p = usize::from(priority) % CLASSES;
        (self.priorities & 1 << p != 0).then_some(self.since[p])
    }

    /// The next instant at which a pause starts or expires.
    #[inline]
    pub(crate) fn next_change(&self) -> Deadline {
        if self.priorities == 0 && self.pending.is_empty() {
            return Deadline::NEVER;
        }
        let pending = Deadline::from(self.pending.first().map(|pause| pause.at));
        bits(self.priorities).map(|p| self.until[usize::from(p)]).fold(pending, Deadline::min)
    }

    /// Receives a pause; with a response time it takes effect only after that. `rate` gives the length of a quantum.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        frame: PfcFrame,
        response: Span,
        rate: BitsPerSec,
        counters: &mut PauseCounters,
    ) {
        if response.is_zero() {
            return self.apply(now, &frame, rate, counters);
        }
        if self.pending.len() == PENDING_MAX {
            let oldest = self.pending.remove(0);
            counters.rx_early += 1;
            self.apply(now, &oldest.frame, rate, counters);
        }
        self.pending.push(PendingPause { at: now + response, frame });
    }

    fn apply(
        &mut self,
        at: Time,
        frame: &PfcFrame,
        rate: BitsPerSec,
        counters: &mut PauseCounters,
    ) {
        for p in bits(frame.vector) {
            let quanta = frame.quanta[usize::from(p)];
            if quanta == Quanta::ZERO {
                self.resume(p, at, counters);
                continue;
            }
            self.until[usize::from(p)] = Deadline::at(at + quanta.span(rate));
            if self.priorities & 1 << p == 0 {
                self.priorities |= 1 << p;
                self.since[usize::from(p)] = at;
            }
        }
    }

    fn resume(&mut self, priority: u8, at: Time, counters: &mut PauseCounters) {
        let p = usize::from(priority);
        if self.priorities & 1 << p != 0 {
            self.priorities &= !(1 << p);
            self.until[p] = Deadline::NEVER;
            counters.paused[p] = counters.paused[p] + at.since(self.since[p]);
        }
    }

    /// Applies what is due at or before `now`, in order of time.
    pub(crate) fn advance(&mut self, now: Time, rate: BitsPerSec, counters: &mut PauseCounters) {
        loop {
            let Some(at) = self.next_change().instant().filter(|at| *at <= now) else { return };
            for p in bits(self.priorities) {
                if self.until[usize::from(p)].is_by(at) {
                    self.resume(p, at, counters);
                }
            }
            while self.pending.first().is_some_and(|pause| pause.at <= at) {
                let pause = self.pending.remove(0);
                self.apply(pause.at, &pause.frame, rate, counters);
            }
        }
    }

    /// Ends the pauses of these priorities, also those whose response time has not passed: they have no PFC any more.
    pub(crate) fn disable(&mut self, now: Time, gone: u8, counters: &mut PauseCounters) {
        for p in bits(self.priorities & gone) {
            self.resume(p, now, counters);
        }
        self.pending.iter_mut().for_each(|pause| pause.frame.vector &= !gone);
        self.pending.retain(|pause| pause.frame.vector != 0);
    }

    /// Clears all pauses, as when the link goes down.
    pub(crate) fn clear(&mut self, now: Time, counters: &mut PauseCounters) {
        self.pending.clear();
        for p in bits(self.priorities) {
            self.resume(p, now, counters);
        }
    }
}

/// Pauses sent by one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseSender {
    /// Priorities in XOFF at the peer.
    pub(crate) stopped: u8,
    /// When to repeat the frame.
    pub(crate) refresh_at: Deadline,
}

impl PauseSender {
    pub(crate) const IDLE: PauseSender = PauseSender { stopped: 0, refresh_at: Deadline::NEVER };

    /// Sets the priorities to stop to `wanted` and returns the frame for the peer; one frame repeats every stopped
    /// priority and resumes those no longer in `wanted`.
    pub(crate) fn announce(
        &mut self,
        now: Time,
        wanted: u8,
        config: &FlowControlConfig,
        rate: BitsPerSec,
        counters: &mut PauseCounters,
    ) -> PfcFrame {
        let resumed = self.stopped & !wanted;
        let mut frame = PfcFrame { vector: wanted | resumed, quanta: [Quanta::ZERO; CLASSES] };
        for p in bits(wanted) {
            frame.quanta[usize::from(p)] = config.quanta;
            counters.tx_xoff[usize::from(p)] += 1;
        }
        for p in bits(resumed) {
            counters.tx_xon[usize::from(p)] += 1;
        }
        self.stopped = wanted;
        self.refresh_at = match wanted {
            0 => Deadline::NEVER,
            _ => Deadline::at(now + PauseSender::refresh_after(config, rate)),
        };
        frame
    }

    /// Time from an XOFF to its repetition: half of the announced time, so that one lost frame does not resume the
    /// peer.
    fn refresh_after(config: &FlowControlConfig, rate: BitsPerSec) -> Span {
        Span::from_ps((config.quanta.span(rate).as_ps() / 2).max(1))
    }

    /// Skips a repetition due at `at` if the next one is due by `now` too: a loop that is late sends the current state
    /// once, at the last instant at which one was due; a frame for each missed period would only fill the control
    /// queue.
    pub(crate) fn skips_refresh(
        &mut self,
        at: Time,
        now: Time,
        config: &FlowControlConfig,
        rate: BitsPerSec,
    ) -> bool {
        let period = PauseSender::refresh_after(config, rate).as_ps();
        let late = now.since(at).as_ps();
        let skipped = late >= period;
        if skipped {
            self.refresh_at = Deadline::at(at + Span::from_ps(late - late % period));
        }
        skipped
    }
}

/// A flow control frame for the core to build and send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControlFrame {
    /// 802.1Qbb.
    Pfc(PfcFrame),
    /// 802.3 PAUSE with this time; zero resumes.
    Pause(Quanta),
}

/// A wait between ports: an ingress group that paused its peer, and a paused queue with its bytes.
///
/// `ingress`/`priorities` are in XOFF, because bytes wait in `queue` of `egress`, which is stopped by its own peer. A
/// cycle of such edges through several switches is a PFC deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEdge {
    /// Port whose peer is stopped.
    pub ingress: PortId,
    /// Priorities in XOFF there: all of them by 802.3 PAUSE.
    pub priorities: u8,
    /// The stop is by 802.3 PAUSE, for the whole link.
    pub whole_link: bool,
    /// Port with the paused queue.
    pub egress: PortId,
    /// The paused queue.
    pub queue: u8,
    /// Bytes of the ingress group in that queue.
    pub bytes: u64,
}

/// Finds a cycle in a directed graph of `(from, to)` edges and returns its nodes in order, first one lowest; `None` if
/// there is none. The caller defines the nodes: (switch, port, priority) across a fabric.
pub fn find_cycle<N: Ord + Copy>(edges: &[(N, N)]) -> Option<Vec<N>> {
    // Remove nodes without an outgoing edge until only nodes that can reach a cycle remain (Kahn, 1962).
    let mut left: Vec<(N, N)> = edges.to_vec();
    left.sort_unstable();
    left.dedup();
    loop {
        let before = left.len();
        let sources: Vec<N> = left.iter().map(|edge| edge.0).collect();
        left.retain(|edge| sources.binary_search(&edge.1).is_ok());
        if left.len() == before {
            break;
        }
    }
    let mut path = vec![left.first()?.0];
    loop {
        let last = *path.last()?;
        let next = left.iter().find(|edge| edge.0 == last)?.1;
        if let Some(start) = path.iter().position(|node| *node == next) {
            let mut cycle = path.split_off(start);
            let lowest = cycle.iter().enumerate().min_by_key(|(_, node)| **node)?.0;
            cycle.rotate_left(lowest);
            return Some(cycle);
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(vector: u8, quanta: u16) -> PfcFrame {
        PfcFrame { vector, quanta: [Quanta::new(quanta); CLASSES] }
    }

    #[test]
    fn pause_expires_resumes_and_extends() {
        let rate = BitsPerSec::gbit(100);
        let mut counters = PauseCounters::default();
        let mut rx = PauseReceiver::new();
        rx.receive(Time::ZERO, frame(0b1000, 100), Span::ZERO, rate, &mut counters);
        // 100 quanta at 100 Gbit/s are 512 ns.
        assert_eq!((rx.priorities(), rx.next_change()), (0b1000, Deadline::at(Time::from_ns(512))));
        rx.receive(Time::from_ns(500), frame(0b1000, 100), Span::ZERO, rate, &mut counters);
        assert_eq!(rx.next_change(), Deadline::at(Time::from_ns(1_012)));
        rx.advance(Time::from_ns(2_000), rate, &mut counters);
        assert_eq!((rx.priorities(), counters.paused[3]), (0, Span::from_ns(1_012)));
        rx.receive(Time::from_ns(3_000), frame(0b1000, 9), Span::ZERO, rate, &mut counters);
        rx.receive(Time::from_ns(3_001), frame(0b1000, 0), Span::ZERO, rate, &mut counters);
        assert_eq!(rx.priorities(), 0);
    }

    #[test]
    fn a_slow_peer_obeys_later_and_in_order() {
        let rate = BitsPerSec::gbit(100);
        let mut counters = PauseCounters::default();
        let mut rx = PauseReceiver::new();
        let response = Span::from_ns(300);
        rx.receive(Time::ZERO, frame(1, 100), response, rate, &mut counters);
        rx.receive(Time::from_ns(100), frame(1, 0), response, rate, &mut counters);
        rx.advance(Time::from_ns(299), rate, &mut counters);
        assert_eq!(rx.priorities(), 0);
        rx.advance(Time::from_ns(300), rate, &mut counters);
        assert_eq!((rx.priorities(), rx.next_change()), (1, Deadline::at(Time::from_ns(400))));
        rx.advance(Time::from_ns(400), rate, &mut counters);
        assert_eq!((rx.priorities(), rx.next_change()), (0, Deadline::NEVER));
        for _ in 0..PENDING_MAX + 3 {
            rx.receive(Time::from_ns(500), frame(1, 7), response, rate, &mut counters);
        }
        assert_eq!((rx.pending.len(), counters.rx_early), (PENDING_MAX, 3));
    }

    #[test]
    fn missed_repetitions_are_skipped_at_once() {
        let rate = BitsPerSec::gbit(100);
        // One quantum at 100 Gbit/s is 5.12 ns, so the pause is repeated every 2.56 ns.
        let config = FlowControlConfig { quanta: Quanta::new(1), ..FlowControlConfig::default() };
        let mut sender = PauseSender { stopped: 1, ..PauseSender::IDLE };
        let (at, now) = (Time::from_ps(1_000), Time::from_ps(1_000 + 1_000_000 * 2_560 + 7));
        assert!(sender.skips_refresh(at, now, &config, rate));
        let last = Time::from_ps(1_000 + 1_000_000 * 2_560);
        assert_eq!(sender.refresh_at, Deadline::at(last));
        assert!(!sender.skips_refresh(last, now, &config, rate));
    }

    #[test]
    fn cycles_are_found_and_trees_are_not() {
        assert_eq!(find_cycle(&[(1, 2), (2, 3), (1, 3), (4, 1)]), None);
        assert_eq!(find_cycle(&[(9, 3), (3, 1), (1, 2), (2, 3), (2, 7)]), Some(vec![1, 2, 3]));
        assert_eq!(find_cycle(&[(5, 5)]), Some(vec![5]));
        assert_eq!(find_cycle::<u8>(&[]), None);
    }
}
