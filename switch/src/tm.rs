//! The traffic manager: shared buffer, queues, scheduler, congestion point, priority flow control.
//!
//! What it is: everything between ingress and egress processing that decides *when* and *whether* a packet leaves. What
//! it is not: it reads no header, opens no socket and reads no clock. Time is an argument, a packet is an opaque `P`,
//! and actions for the caller are returned as [`Event`]s.
//!
//! # The path of a packet
//!
//! [`Tm::offer`] is the only entry, for packets, copies, held packets and control frames ([`Terms`]). It checks the
//! egress queue, then charges the ingress priority group (which may send XOFF to the peer, [`Event::FlowControl`]),
//! then queues the packet, or lets it depart at once where its port is idle. [`Tm::begin`] lets the scheduler choose
//! among what is queued, takes the packet out, and decides about its mark with the queue as it is *without* the packet.
//! Either way the packet goes through egress processing, and [`Tm::commit`] takes its length after egress: link, shaper
//! and DWRR are charged those bytes, and the buffer is released when the last bit has left. [`Tm::abort`] gives the
//! link time back instead. [`Tm::advance`] runs timers; [`Tm::next_deadline`] returns when that is needed next.
//!
//! # Thresholds of a lossless priority group
//!
//! ```text
//!   bytes held by (port, priority group)
//!   |
//!   |=========================== xoff + headroom     drop: headroom_exhausted
//!   |  headroom: bytes in transit when XOFF is sent: the port's own frame before the PFC frame, the PFC
//!   |  frame, cable twice, the peer's response, its frame (config/qos/headroom.rs)
//!   |=========================== xoff                XOFF sent, refreshed at half its time
//!   |  shared: threshold static, or pool_alpha x free shared bytes of the pool (moves!)
//!   |--------------------------- xon                 XON sent (xon_at or xon_below_xoff)
//!   |  shared
//!   |=========================== reserved
//!   |  reserved: always available to this group
//!   0
//!
//!   bytes waiting in (port, queue)                   the congestion point, tm/wred.rs
//!   |  q > Kmax          every ECN-capable packet is marked
//!   |  Kmin < q <= Kmax  marked with Pmax (q - Kmin) / (Kmax - Kmin)
//!   |  q <= Kmin         never
//!   0
//! ```
//!
//! # Accounting identity
//!
//! For every queue: admitted = departed + dropped + queued. For every priority group: admitted =
//! released + resident, and its bytes are the sum over resident packets. For every pool: its bytes are
//! the sum over its accounts. [`View::audit`] recomputes all of it from the packets themselves.
//!
//! # Memory
//!
//! Everything is allocated when the traffic manager and its ports are made. Copies of a packet share
//! one ingress charge ([`Tm::charge_shared`], [`Charge::Shared`]) and are counted in each queue they wait in.

use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Time};

use crate::bit_set::BitSet;

mod admit;
mod audit;
pub mod buffer;
mod deadlines;
mod deferred;
mod hold;
pub mod id;
pub mod link;
mod pause_log;
pub mod pfc;
pub mod port;
mod queue;
pub mod random;
pub mod scheduler;
mod settings;
mod shared;
mod timers;
mod transmit;
mod trim;
mod view;
pub mod watchdog;
pub mod wred;

pub use audit::AuditError;
pub use buffer::{AccountConfig, AccountUse, Limit, LosslessConfig, PoolConfig, PoolUse, Xon};
pub use id::{CLASSES, CONTROL_QUEUE, Color, Count, DropReason, PoolId, PortId};
pub use link::WireOverhead;
pub use pfc::{
    FlowControl, FlowControlConfig, FlowControlFrame, PauseCounters, PfcFrame, WaitEdge,
};
pub use port::{GroupConfig, GroupCounters, PortConfig, QueueConfig, QueueCounters, Trim};
pub use queue::{Arrival, Charge, Offered, PacketSlot, QueueDepth, Release, Terms};
pub use scheduler::{Service, ServiceConfig, ShaperConfig};
pub use shared::SharedCharge;
pub use transmit::{Departure, Transmission};
pub use view::{GroupStatus, PortStatus, QueueStatus, View};
pub use watchdog::{StormAction, WatchdogConfig, WatchdogCounters};
pub use wred::{Curve, DecideAt, MarkingHistogram, NotEct, WredConfig, WredCounters};

use buffer::Pool;
use deadlines::{Deadlines, WireEnds};
use deferred::Deferred;
use hold::Holds;
pub use pause_log::{PauseEvent, ReceivedPause};
use port::Port;
use queue::{Slab, SlotLevels};
use shared::SharedList;

/// Capacity of the event queue before it allocates again.
const EVENTS: usize = 64;

/// Sizes of the traffic manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of packets it can hold at once.
    pub packet_slots: u32,
    /// Of these, how many may be in use before lossless groups stop their peers and other groups are refused, so that
    /// packets after XOFF find a slot; `u32::MAX` reserves none for them.
    pub stop_at_slots: u32,
    /// Of these, how many may be delayed or held.
    pub hold_slots: u32,
    /// Allocation unit of packet memory; 0 charges plain bytes.
    pub cell_bytes: u32,
    /// Buffer pools, ingress and egress.
    pub pools: Vec<PoolConfig>,
}

/// An action for the caller, or a change to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// Send this flow control frame from this port: build it, then offer it as [`Charge::Control`].
    FlowControl {
        /// Sending port.
        port: PortId,
        /// Content of the frame.
        frame: FlowControlFrame,
    },
    /// A packet that had been queued or held is dropped; its memory may be freed.
    Drop {
        /// The packet.
        packet: P,
        /// The reason.
        reason: DropReason,
        /// Its egress port.
        port: PortId,
        /// Queue of that port.
        queue: u8,
    },
    /// The watchdog detected a storm on this queue.
    StormDetected {
        /// Port.
        port: PortId,
        /// Queue.
        queue: u8,
        /// What the watchdog does with the queue.
        action: StormAction,
    },
    /// The storm has ended.
    StormRestored {
        /// Port.
        port: PortId,
        /// Queue.
        queue: u8,
    },
    /// The last reference to a memory of another worker ([`Tm::borrow_shared`]) was released.
    Returned {
        /// The worker that owns the charge.
        worker: u8,
        /// Its charge, for [`Tm::release_shared`] there.
        charge: SharedCharge,
    },
}

/// The traffic manager of one worker. Fields that every packet uses come first, together.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Tm<P> {
    /// Time of the last advance.
    pub(crate) now: Time,
    /// A group may be in XOFF: released memory may let a peer resume.
    pub(crate) stops: bool,
    /// Frames that departed while nothing else was inside and are not accounted yet.
    pub(crate) deferred: Deferred,
    /// The next timer of each port.
    pub(crate) deadlines: Deadlines,
    pub(crate) wires: WireEnds,
    /// Ports that may send now.
    pub(crate) ready: BitSet,
    pub(crate) ports: Vec<Port>,
    pub(crate) events: VecDeque<Event<P>>,
    pub(crate) slots: Slab<P>,
    pub(crate) holds: Holds,
    pub(crate) pools: Vec<Pool>,
    shared: SharedList,
    pub(crate) released: Vec<u32>,
    pub(crate) config: Config,
    pub(crate) levels: SlotLevels,
    /// Pauses sent, while recorded.
    pub(crate) pause_log: Option<Vec<PauseEvent>>,
    pub(crate) received_pauses: Option<Vec<ReceivedPause>>,
}

/// A port configuration that does not fit the traffic manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// It names a pool that does not exist.
    #[error("buffer pool {} does not exist", .0.0)]
    NoSuchPool(PoolId),
    /// There are 65535 ports already, or the number to reuse is taken or unknown.
    #[error("no free port of that number")]
    NoSuchPort,
    /// PFC or PAUSE is on, but nothing defines a quantum: give the port a rate or a quantum rate.
    #[error("flow control is on but no rate defines a pause quantum: give the port a rate")]
    NoQuantumRate,
}

impl<P: Default> Tm<P> {
    /// Memory in bytes of a waiting packet apart from its frame: the packet itself, and its slot.
    #[cfg(test)]
    pub(crate) const BYTES_PER_PACKET: usize = size_of::<P>() + size_of::<queue::Slot>();

    /// A traffic manager without ports; allocates all packet slots.
    pub fn new(config: Config) -> Tm<P> {
        let slots = Slab::new(config.packet_slots);
        let holds = Holds::new(config.hold_slots as usize, slots.capacity());
        Tm {
            ports: Vec::new(),
            pools: config.pools.iter().copied().map(Pool::new).collect(),
            slots,
            shared: SharedList::default(),
            holds,
            released: Vec::with_capacity(hold::COUNTED_MAX),
            events: VecDeque::with_capacity(EVENTS),
            ready: BitSet::default(),
            deadlines: Deadlines::new(),
            wires: WireEnds::default(),
            stops: false,
            now: Time::ZERO,
            deferred: Deferred::default(),
            pause_log: None,
            received_pauses: None,
            levels: SlotLevels::of(&config),
            config,
        }
    }

    /// Adds a port, under the lowest number never used.
    pub fn add_port(&mut self, config: PortConfig) -> Result<PortId, PortError> {
        self.check_port(&config)?;
        self.deferred.invalidate();
        let number = u16::try_from(self.ports.len()).map_err(|_| PortError::NoSuchPort)?;
        self.ports.push(Port::new(config, self.config.seed, number));
        self.ready.grow(self.ports.len());
        self.deadlines.grow(self.ports.len());
        self.wires.grow(self.ports.len());
        Ok(PortId(number))
    }

    /// Gives a removed port's number to a new port. Bytes received through the old one and still queued elsewhere
    /// stay charged to the same groups.
    pub fn restore_port(&mut self, id: PortId, config: PortConfig) -> Result<(), PortError> {
        self.check_port(&config)?;
        self.flush(self.now);
        self.deferred.invalidate();
        let seed = self.config.seed;
        let port = self.ports.get_mut(id.index()).filter(|port| !port.present);
        let port = port.ok_or(PortError::NoSuchPort)?;
        let mut fresh = Port::new(config, seed, id.0);
        for (group, old) in fresh.groups.iter_mut().zip(&port.groups) {
            // The pool must stay the one that was charged while bytes are resident.
            let pool = old.account.config.pool;
            group.account.used = old.account.used;
            group.xoff = old.xoff && group.lossless.is_some();
            if old.account.used.total() != 0 && pool != group.account.config.pool {
                return Err(PortError::NoSuchPool(group.account.config.pool));
            }
        }
        fresh.take_counters(port);
        *port = fresh;
        // Bytes received by the port before may still fill its groups: the peer is stopped before it sends, as after a
        // link that was down.
        self.send_flow_control(self.now, id);
        Ok(())
    }

    fn check_port(&self, config: &PortConfig) -> Result<(), PortError> {
        let accounts = config.queues.iter().map(|queue| queue.account);
        let accounts = accounts.chain(config.groups.iter().map(|group| group.account));
        for account in accounts {
            if usize::from(account.pool.0) >= self.pools.len() {
                return Err(PortError::NoSuchPool(account.pool));
            }
        }
        let flow = &config.flow_control;
        let has_quantum = flow.quantum_rate.or(config.rate).is_some();
        if flow.mode != FlowControl::Off && !has_quantum {
            return Err(PortError::NoQuantumRate);
        }
        Ok(())
    }

    /// True if [`Tm::next_event`] returns one.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the next event, oldest first. Take all after every call that changes something.
    pub fn next_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
    }

    /// When [`Tm::advance`] or [`Tm::next_ready`] has work; now if a port may send already.
    #[inline]
    pub fn next_deadline(&mut self) -> Deadline {
        self.flush(self.now);
        if !self.ready.is_empty() {
            return Deadline::NOW;
        }
        self.deadlines.first().0.min(self.holds.first()).min(self.wires.first())
    }

    /// Like [`Tm::next_deadline`], without the instants that only free the memory of frames already sent.
    #[inline]
    pub fn next_effect(&mut self) -> Deadline {
        if !self.ready.is_empty() {
            return Deadline::NOW;
        }
        // The end of a frame has a visible effect if a packet waits for it, or if released memory lets a peer resume.
        let is_seen = |(_, port): &(Time, u16)| {
            self.stops || self.ports.get(usize::from(*port)).is_some_and(port::Port::has_work)
        };
        let may_be_seen = self.stops || self.slots.used() > 0;
        let seen = if may_be_seen { self.wires.iter().find(is_seen) } else { None };
        let wire = seen.map(|(at, _)| at).into();
        self.deadlines.first().0.min(self.holds.first()).min(wire)
    }
}

#[cfg(test)]
mod tests;
