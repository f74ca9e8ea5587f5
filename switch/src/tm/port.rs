//! The state of one port: its eight queues, eight priority groups, link, scheduler, pauses.

use wireyard_tables::time::{Deadline, Span, Time};

use crate::units::BitsPerSec;

use super::buffer::{Account, AccountConfig, LosslessConfig};
use super::id::{CLASSES, Count, DropReason};
use super::link::{WireOverhead, WireTime};
use super::pfc::{FlowControl, FlowControlConfig, PauseCounters, PauseReceiver, PauseSender};
use super::queue::{Fifo, Memory};
use super::random::Stream;
use super::scheduler::{Scheduler, ServiceConfig, ShaperConfig, mask};
use super::watchdog::{Sight, StormAction, Watchdog, WatchdogConfig};
use super::wred::{Wred, WredConfig};

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// How it is served.
    pub service: ServiceConfig,
    /// Its egress view of the buffer.
    pub account: AccountConfig,
    /// Its congestion point, if any.
    pub wred: Option<WredConfig>,
    /// How it trims packets that it refuses; `None` drops them.
    pub trim: Option<Trim>,
}

/// How a queue trims the packets that it refuses (SAI `PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Length to which a frame is cut, in bytes without FCS (SAI `PACKET_TRIM_SIZE`); a shorter one stays whole.
    pub bytes: u32,
    /// Queue of the same port that trimmed packets are offered to (SAI `PACKET_TRIM_QUEUE_INDEX`).
    pub queue: u8,
}

/// A priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its ingress view of the buffer.
    pub account: AccountConfig,
    /// Headroom and resume level of a lossless group.
    pub lossless: Option<LosslessConfig>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The link's bit rate; `None` passes packets through without scheduling.
    pub rate: Option<BitsPerSec>,
    /// Overhead in bytes on the wire beyond the frame.
    pub wire: WireOverhead,
    /// How far back in time a late caller may use link time that has passed.
    pub max_catch_up: Span,
    /// How many frames it may send at one instant to catch up: the number that the far end can take at once.
    pub catch_up_frames: u32,
    /// Maximum rate of the port below its link rate.
    pub max: Option<ShaperConfig>,
    /// The queues.
    pub queues: [QueueConfig; CLASSES],
    /// The priority groups.
    pub groups: [GroupConfig; CLASSES],
    /// PFC or PAUSE.
    pub flow_control: FlowControlConfig,
    /// Storm watchdog.
    pub watchdog: Option<WatchdogConfig>,
}

/// Counters of one queue. At every instant admitted = departed + dropped + queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Entered the queue.
    pub admitted: Count,
    /// Sent on the wire.
    pub departed: Count,
    /// Entered the queue and were dropped later (WRED at dequeue, egress, storm, port down).
    pub dropped: Count,
    /// Not admitted.
    pub refused: Count,
    /// Passed through a port without a rate, never queued.
    pub passed: Count,
    /// Not admitted, and offered to the queue for trimmed packets (SAI `QUEUE_STAT_TRIM_PACKETS`); bytes are those of
    /// the whole packets.
    pub trimmed: Count,
    /// Of these, refused by that queue too (SAI `QUEUE_STAT_DROPPED_TRIM_PACKETS`); bytes are those of the trimmed
    /// packets.
    pub trim_dropped: Count,
}

/// Counters of one priority group. admitted = released + resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Packet memories charged.
    pub admitted: Count,
    /// Packet memories released.
    pub released: Count,
    /// Not admitted by the ingress view.
    pub refused: Count,
    /// Arrived while XOFF was in effect.
    pub after_xoff: u64,
    /// Of these, later than a peer that honours the pause would send them.
    pub not_honoured: u64,
    /// Times XOFF was decided.
    pub xoff: u64,
    /// Times XON was decided.
    pub xon: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) fifo: Fifo,
    pub(crate) account: Account,
    pub(crate) wred: Option<Wred>,
    pub(crate) counters: QueueCounters,
    /// Time since which no pause stops it.
    pub(crate) open_since: Time,
    /// Highest occupancy in bytes since the last clear.
    pub(crate) peak_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) account: Account,
    pub(crate) lossless: Option<LosslessConfig>,
    pub(crate) xoff: bool,
    pub(crate) honoured_by: Deadline,
    pub(crate) counters: GroupCounters,
}

/// A packet handed to egress processing, or on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) queue: u8,
    pub(crate) bytes: u32,
    pub(crate) charged: u32,
    pub(crate) memory: Memory,
    pub(crate) ingress: super::PortId,
    pub(crate) group: u8,
    pub(crate) start: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) config: PortConfig,
    pub(crate) present: bool,
    /// Transmission is stopped by the core (by a test, or because the transmit ring is full).
    pub(crate) blocked: bool,
    /// The fast path: no rate, nothing queued, nothing paused, nothing blocked.
    pub(crate) passes: bool,
    pub(crate) queues: [Queue; CLASSES],
    pub(crate) groups: [Group; CLASSES],
    pub(crate) control: Fifo,
    pub(crate) control_counters: QueueCounters,
    pub(crate) backlog: u8,
    pub(crate) scheduler: Scheduler,
    pub(crate) link: WireTime,
    /// The instant of the last frames that started at an earlier time, and how many they are.
    pub(crate) caught_up: (Time, u32),
    /// When to try sending again without another event (when a shaper allows it).
    pub(crate) wake_at: Deadline,
    /// The earliest of pause, refresh and watchdog timers, kept by `Tm::arm_timer`.
    pub(crate) other_timer: Deadline,
    pub(crate) pending: Option<Leaving>,
    pub(crate) on_wire: Option<Leaving>,
    pub(crate) pause_rx: PauseReceiver,
    /// Queues stopped by received pauses.
    pub(crate) paused: u8,
    pub(crate) pause_tx: PauseSender,
    pub(crate) pauses: PauseCounters,
    pub(crate) watchdog: Option<Watchdog>,
    /// Queues that send although paused (watchdog action forward).
    pub(crate) ignore_pause: u8,
    /// Queues whose packets are discarded (watchdog action drop).
    pub(crate) storm_drop: u8,
    /// Priority groups whose arrivals are discarded (watchdog action drop).
    pub(crate) storm_drop_groups: u8,
    pub(crate) drops: [Count; DropReason::ALL.len()],
}

impl Port {
    /// Start of a frame that could have started earlier: that time, or now if the limit of such frames at this instant
    /// is reached.
    pub(crate) fn catch_up(&mut self, now: Time, start: Time) -> Time {
        let frames = if self.caught_up.0 == now { self.caught_up.1 } else { 0 };
        if frames >= self.config.catch_up_frames {
            return now;
        }
        self.caught_up = (now, frames + 1);
        start
    }

    pub(crate) fn new(config: PortConfig, seed: u64, number: u16) -> Port {
        let queues = std::array::from_fn(|q| {
            let purpose = u64::from(number) << 8 | q as u64;
            let queue = &config.queues[q];
            Queue {
                fifo: Fifo::EMPTY,
                account: Account::new(queue.account),
                wred: queue.wred.map(|wred| Wred::new(wred, Stream::new(seed, purpose))),
                counters: QueueCounters::default(),
                open_since: Time::ZERO,
                peak_bytes: 0,
            }
        });
        let groups = config.groups.map(|group| Group {
            account: Account::new(group.account),
            lossless: group.lossless,
            xoff: false,
            honoured_by: Deadline::NEVER,
            counters: GroupCounters::default(),
        });
        let scheduler = Scheduler::new(config.queues.map(|queue| queue.service), config.max);
        let mut port = Port {
            present: true,
            blocked: false,
            passes: false,
            queues,
            groups,
            control: Fifo::EMPTY,
            control_counters: QueueCounters::default(),
            backlog: 0,
            scheduler,
            link: WireTime::default(),
            caught_up: (Time::ZERO, 0),
            wake_at: Deadline::NEVER,
            other_timer: Deadline::NEVER,
            pending: None,
            on_wire: None,
            pause_rx: PauseReceiver::new(),
            paused: 0,
            pause_tx: PauseSender::IDLE,
            pauses: PauseCounters::default(),
            watchdog: config.watchdog.map(Watchdog::new),
            ignore_pause: 0,
            storm_drop: 0,
            storm_drop_groups: 0,
            drops: [Count::default(); DropReason::ALL.len()],
            config,
        };
        port.update_passes();
        port
    }

    /// Takes over the counters of the port that had its number before.
    pub(crate) fn take_counters(&mut self, old: &mut Port) {
        for (queue, old) in self.queues.iter_mut().zip(&mut old.queues) {
            queue.counters = old.counters;
            if let (Some(wred), Some(old)) = (&mut queue.wred, &mut old.wred) {
                wred.counters = old.counters;
                wred.histogram = old.histogram.take();
            }
        }
        for (group, old) in self.groups.iter_mut().zip(&old.groups) {
            group.counters = old.counters;
        }
        if let (Some(watchdog), Some(old)) = (&mut self.watchdog, &old.watchdog) {
            watchdog.counters = old.counters;
        }
        self.control_counters = old.control_counters;
        self.pauses = old.pauses;
        self.drops = old.drops;
    }

    /// Recomputes whether the fast path may be used.
    pub(crate) fn update_passes(&mut self) {
        self.passes = self.config.rate.is_none()
            && self.present
            && !self.blocked
            && self.backlog == 0
            && self.control.is_empty()
            && self.pending.is_none()
            && self.paused == 0
            && self.storm_drop == 0
            && !self.scheduler.shapes();
    }

    /// Queues that have packets and may send.
    #[inline]
    pub(crate) fn eligible(&self) -> u8 {
        self.backlog & (!self.paused | self.ignore_pause)
    }

    /// The rate that defines a pause quantum here.
    pub(crate) fn quantum_rate(&self) -> Option<BitsPerSec> {
        self.config.flow_control.quantum_rate.or(self.config.rate)
    }

    /// Recomputes which queues are stopped after pauses changed at `at`.
    pub(crate) fn update_paused(&mut self, at: Time) {
        let flow = &self.config.flow_control;
        let priorities = self.pause_rx.priorities();
        let mut paused = 0u8;
        if flow.mode == FlowControl::Pause && priorities != 0 {
            paused = u8::MAX;
        } else {
            for (p, queue) in flow.priority_to_queue.iter().enumerate() {
                if priorities & 1 << p != 0 {
                    paused |= 1 << (queue % CLASSES as u8);
                }
            }
        }
        let opened = self.paused & !paused;
        for (q, queue) in self.queues.iter_mut().enumerate() {
            if opened & 1 << q != 0 {
                queue.open_since = at;
            }
        }
        self.paused = paused;
        self.update_passes();
    }

    /// Priorities that should be in XOFF at the peer, by the state of the groups.
    pub(crate) fn wanted_xoff(&self) -> u8 {
        let flow = &self.config.flow_control;
        match flow.mode {
            FlowControl::Off => 0,
            // PAUSE has one "priority", the link, which is stopped while any group is in XOFF.
            FlowControl::Pause => u8::from(self.groups.iter().any(|group| group.xoff)),
            FlowControl::Pfc => mask(|p| {
                let group = usize::from(flow.priority_to_group[p]) % CLASSES;
                flow.enabled & 1 << p != 0 && self.groups[group].xoff
            }),
        }
    }

    /// The priorities that a group in XOFF stops at the peer; PAUSE has one, the link.
    pub(crate) fn priorities_of_group(&self, group: u8) -> u8 {
        let flow = &self.config.flow_control;
        match flow.mode {
            FlowControl::Off => 0,
            FlowControl::Pause => 1,
            FlowControl::Pfc => {
                flow.enabled & mask(|p| flow.priority_to_group[p] % CLASSES as u8 == group)
            }
        }
    }

    /// After the priorities in XOFF at the peer changed: a group in XOFF that the peer hears of now has its time to be
    /// honoured from now on, and one that the peer does not hear of any more has none.
    pub(crate) fn await_honouring(&mut self, now: Time, before: u8, wanted: u8) {
        let by = Deadline::at(now + self.config.flow_control.honoured_within);
        for g in 0..CLASSES as u8 {
            let of_group = self.priorities_of_group(g);
            let group = &mut self.groups[usize::from(g)];
            match (before & of_group != 0, wanted & of_group != 0) {
                (false, true) if group.xoff => group.honoured_by = by,
                (_, false) => group.honoured_by = Deadline::NEVER,
                _ => {}
            }
        }
    }

    /// The next instant at which a pause, a refresh or the watchdog is due.
    pub(crate) fn next_other_timer(&self) -> Deadline {
        let poll = self.watchdog.as_ref().map_or(Deadline::NEVER, |watchdog| watchdog.poll_at);
        self.pause_tx.refresh_at.min(self.pause_rx.next_change()).min(poll)
    }

    /// The next instant at which this port has work, apart from the end of a frame.
    #[inline]
    pub(crate) fn next_timer(&self) -> Deadline {
        self.wake_at.min(self.other_timer)
    }

    /// True if a packet waits that could be sent as soon as the link is free.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        let may_send = self.pending.is_none() && !self.blocked && self.present;
        may_send && (!self.control.is_empty() || self.eligible() != 0)
    }

    /// True if nothing waits for this port, nothing is on its wire, and nothing delays a packet of this queue.
    #[inline]
    pub(crate) fn is_idle(&self, now: Time, queue: u8) -> bool {
        let stopped = self.paused & !self.ignore_pause | self.storm_drop;
        usize::from(queue) < CLASSES
            && self.present
            && !self.blocked
            && self.config.rate.is_some()
            && self.backlog == 0
            && self.control.is_empty()
            && self.pending.is_none()
            && self.on_wire.is_none()
            && self.link.ceil() <= now
            && self.wake_at.is_never()
            && stopped & 1 << queue == 0
            && !self.scheduler.shapes()
    }

    /// Queues that the watchdog watches.
    pub(crate) fn watched_queues(&self) -> u8 {
        let flow = &self.config.flow_control;
        let of_pfc = || {
            let enabled = (0..CLASSES).filter(|p| flow.enabled & 1 << p != 0);
            enabled.fold(0, |mask, p| mask | 1 << (flow.priority_to_queue[p] % CLASSES as u8))
        };
        self.config.watchdog.map_or(0, |watchdog| watchdog.queues.unwrap_or_else(of_pfc))
    }

    /// Applies the watchdog's action to the queues in a storm.
    pub(crate) fn apply_storms(&mut self) {
        let Some(watchdog) = &self.watchdog else { return };
        let (storms, action) = (watchdog.storms(), watchdog.config.action);
        self.storm_drop = if action == StormAction::Drop { storms } else { 0 };
        self.storm_drop_groups = self.groups_of_queues(self.storm_drop);
        self.ignore_pause = if action == StormAction::Forward { storms } else { 0 };
        self.update_passes();
    }

    /// The watchdog's input about a queue at `now`.
    pub(crate) fn sight(&self, queue: u8, now: Time) -> Sight {
        let q = usize::from(queue) % CLASSES;
        let flow = &self.config.flow_control;
        let mut sight = Sight {
            holds_packets: !self.queues[q].fifo.is_empty(),
            sent: self.queues[q].counters.departed.packets + self.queues[q].counters.passed.packets,
            ..Sight::default()
        };
        for p in 0..CLASSES as u8 {
            let index = usize::from(p);
            if usize::from(flow.priority_to_queue[index]) % CLASSES == q {
                let current = self.pause_rx.paused_since(p).map_or(Span::ZERO, |s| now.since(s));
                sight.pauses += self.pauses.rx_xoff[index];
                sight.paused = sight.paused.max(self.pauses.paused[index] + current);
            }
        }
        sight
    }

    /// The priorities that stop a queue.
    pub(crate) fn priorities_of_queue(&self, queue: u8) -> u8 {
        let map = &self.config.flow_control.priority_to_queue;
        mask(|p| map[p] % CLASSES as u8 == queue)
    }

    /// The priority groups fed by the priorities that stop these queues.
    pub(crate) fn groups_of_queues(&self, queues: u8) -> u8 {
        let flow = &self.config.flow_control;
        (0..CLASSES)
            .filter(|p| queues & 1 << (flow.priority_to_queue[*p] % CLASSES as u8) != 0)
            .fold(0, |mask, p| mask | 1 << (flow.priority_to_group[p] % CLASSES as u8))
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason, bytes: u32) {
        self.drops[reason as usize].add(bytes);
    }
}
