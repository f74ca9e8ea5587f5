//! Tests of the traffic manager by its interface, with integers as packets.

use proptest::prelude::*;
use wireyard_tables::time::{Span, Time};

use crate::units::{BitsPerSec, PoolAlpha, Probability, Quanta};

use super::*;

mod borrow;
mod cut_through;
mod flow_control;
mod life;
mod marking;
mod model;
mod sending;
mod watchdog;

/// The result for an accepted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    Queued,
    Departs(u32),
}

/// A packet that was not accepted, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    packet: u32,
    reason: DropReason,
}

/// A packet that was taken out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Departed {
    packet: u32,
    departure: Departure,
}

impl std::ops::Deref for Departed {
    type Target = Departure;

    fn deref(&self) -> &Departure {
        &self.departure
    }
}

/// Offers of every kind, as not the last of their instant.
impl Tm<u32> {
    /// The view at the time of the last call.
    fn seen(&mut self) -> View<'_, u32> {
        self.view(self.now)
    }

    fn take(&mut self, now: Time, id: PortId) -> Option<Departed> {
        self.begin(now, id).map(|(packet, departure)| Departed { packet, departure })
    }

    fn offer_packet(
        &mut self,
        now: Time,
        packet: u32,
        arrival: &Arrival,
    ) -> Result<Admitted, Refused> {
        match self.offer(now, arrival) {
            Offered::Refused(reason) => Err(Refused { packet, reason }),
            Offered::Trims(_) => Err(Refused { packet, reason: DropReason::QueueThreshold }),
            Offered::Departs(departure) => {
                assert!(departure.sent.is_some(), "others follow");
                Ok(Admitted::Departs(packet))
            }
            Offered::Queued(slot) => {
                self.put(slot, packet);
                Ok(Admitted::Queued)
            }
        }
    }

    fn enqueue(&mut self, now: Time, packet: u32, arrival: &Arrival) -> Result<Admitted, Refused> {
        self.offer_packet(now, packet, arrival)
    }

    fn enqueue_copy(
        &mut self,
        now: Time,
        packet: u32,
        memory: SharedCharge,
        arrival: &Arrival,
    ) -> Result<Admitted, Refused> {
        let terms = Terms { charge: Charge::Shared(memory), ..Terms::default() };
        self.offer_packet(now, packet, &Arrival { terms, ..*arrival })
    }

    fn hold(
        &mut self,
        now: Time,
        packet: u32,
        arrival: &Arrival,
        release: Release,
    ) -> Result<(), Refused> {
        let terms = Terms { release, ..Terms::default() };
        self.offer_packet(now, packet, &Arrival { terms, ..*arrival }).map(drop)
    }

    fn send_control(
        &mut self,
        now: Time,
        port: PortId,
        packet: u32,
        bytes: u32,
    ) -> Result<Admitted, Refused> {
        let queue = CONTROL_QUEUE;
        let terms = Terms { charge: Charge::Control, ..Terms::default() };
        let arrival =
            Arrival { ingress: port, egress: port, queue, bytes, terms, ..Arrival::default() };
        self.offer_packet(now, packet, &arrival)
    }
}

/// Pools 0 (ingress) and 1 (egress).
const INGRESS: PoolId = PoolId(0);
const EGRESS: PoolId = PoolId(1);

fn account(pool: PoolId, limit: Limit) -> AccountConfig {
    AccountConfig { pool, reserved_bytes: 0, limit }
}

/// A port of `gbit` (0: none) with lossy groups and queues that may fill their pools.
fn port(gbit: u32) -> PortConfig {
    let queue = QueueConfig {
        service: ServiceConfig::default(),
        account: account(EGRESS, Limit::Static(u64::MAX >> 20)),
        wred: None,
        trim: None,
    };
    let group =
        GroupConfig { account: account(INGRESS, Limit::Static(u64::MAX >> 20)), lossless: None };
    PortConfig {
        rate: (gbit != 0).then(|| BitsPerSec::gbit(gbit)),
        wire: WireOverhead::default(),
        max_catch_up: Span::from_ms(1),
        catch_up_frames: u32::MAX,
        max: None,
        queues: [queue; CLASSES],
        groups: [group; CLASSES],
        flow_control: FlowControlConfig::default(),
        watchdog: None,
    }
}

fn manager(pools: [(u64, u64); 2], ports: &[PortConfig]) -> Tm<u32> {
    let pools =
        pools.map(|(shared_bytes, headroom_bytes)| PoolConfig { shared_bytes, headroom_bytes });
    let config = Config {
        seed: 1,
        packet_slots: 8192,
        stop_at_slots: u32::MAX,
        hold_slots: 64,
        cell_bytes: 0,
        pools: pools.to_vec(),
    };
    let mut tm = Tm::new(config);
    for port in ports {
        tm.add_port(port.clone()).unwrap();
    }
    tm
}

/// Two ports of 100 Gbit/s and 100 MB of lossy buffer.
fn plain() -> Tm<u32> {
    manager([(100_000_000, 0), (100_000_000, 0)], &[port(100), port(100)])
}

/// A packet from port 0 to queue `queue` of port 1.
fn to(queue: u8, bytes: u32) -> Arrival {
    Arrival { egress: PortId(1), queue, group: queue, bytes, ect: true, ..Arrival::default() }
}

/// Begins and commits everything that can leave port 1 until `until`, jumping from deadline to deadline.
fn drain(tm: &mut Tm<u32>, mut now: Time, until: Time) -> Vec<(Departed, Transmission)> {
    let mut left = Vec::new();
    loop {
        tm.advance(now);
        while let Some(port) = tm.next_ready() {
            let Some(departed) = tm.take(now, port) else { continue };
            let transmission = tm.commit(now, port, departed.packet).unwrap();
            left.push((departed, transmission));
        }
        match tm.next_deadline().not_before(now).instant() {
            Some(next) if next <= until => now = next,
            _ => return left,
        }
    }
}

/// An outside event at one of three ports.
#[derive(Clone, Copy, Debug)]
enum Outside {
    Pause { port: u16, vector: u8, quanta: u16 },
    Block { port: u16, blocked: bool },
    Down { port: u16 },
}

fn outside() -> impl Strategy<Value = Outside> {
    let port = 0u16..3;
    prop_oneof![
        (port.clone(), any::<u8>(), 0u16..40).prop_map(|(port, vector, quanta)| Outside::Pause {
            port,
            vector,
            quanta
        }),
        (port.clone(), any::<bool>()).prop_map(|(port, blocked)| Outside::Block { port, blocked }),
        port.prop_map(|port| Outside::Down { port }),
    ]
}

impl Outside {
    /// A port that goes down comes up again at once.
    fn happen(self, tm: &mut Tm<u32>, now: Time) {
        match self {
            Outside::Pause { port, vector, quanta } => {
                let quanta = [Quanta::new(quanta); CLASSES];
                tm.pfc_received(now, PortId(port), &PfcFrame { vector, quanta });
            }
            Outside::Block { port, blocked } => tm.set_blocked(now, PortId(port), blocked),
            Outside::Down { port } => {
                tm.port_down(now, PortId(port));
                tm.port_up(now, PortId(port));
            }
        }
    }
}
