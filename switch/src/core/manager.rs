//! The traffic manager as the core sees it: with port numbers, class maps and named reasons.
//!
//! Every core has one. Without a configuration it is [`Preset::Plain`](crate::config::qos::Preset)
//! and all ports are without a rate: then packets go out at once without classification, and only
//! what a program delays or holds waits in it.
//!
//! Port 0 of the traffic manager is the CPU port, and the place of whatever has no port; port n + 1 is
//! slot n of the core.

use wireyard_pipeline::exec::{Descriptor, Intrinsic, flags};
use wireyard_tables::time::{Span, Time};

use crate::config::qos::{Classifier, PortLink, Qos, QosConfig, QosPort};
use crate::stats::{ReasonIndex, Reasons};
use crate::tm::{
    Admitted, Arrival, Color, DropReason, FlowControl, FlowControlConfig, PortConfig, PortId,
    Refused, SharedCharge, Tm, Wait,
};
use crate::units::BitsPerSec;

/// A packet that the device made itself: it sees no egress processing. A bit of
/// [`Descriptor::flags`] that programs do not have.
pub(super) const OWN: u8 = 1 << 7;

/// Who pays for the packet memory of what is enqueued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    /// Each packet for itself.
    Own,
    /// Copies together.
    Shared(SharedCharge),
    /// The copies were refused together.
    Refused(DropReason),
}

/// What a program asked of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Leave when it is its turn.
    Now,
    /// Not before this instant.
    Until(Time),
    /// Behind so many later packets of its queue, or after the time is over.
    Behind(u32, Span),
}

impl Wanted {
    /// What ingress decided.
    pub(super) fn of(intrinsic: &Intrinsic, now: Time) -> Wanted {
        if intrinsic.hold_packets > 0 {
            let timeout = Span::from_ns(intrinsic.hold_timeout_ns);
            return Wanted::Behind(intrinsic.hold_packets.into(), timeout);
        }
        let until = Time::from_ns(intrinsic.not_before_ns);
        if until > now { Wanted::Until(until) } else { Wanted::Now }
    }
}

/// What became of an offered packet.
pub(super) enum Offered {
    /// It waits.
    Queued,
    /// It goes out now.
    Pass(Descriptor),
    /// It is not taken.
    Refused(Descriptor, ReasonIndex),
}

/// The traffic manager with its maps; what every packet touches stands together, first.
#[repr(C)]
pub(super) struct Manager {
    /// A configuration was given; otherwise packets have no class but what a program assigns.
    pub(super) configured: bool,
    pub(super) charge: Charge,
    /// By traffic manager port.
    maps: Vec<Classifier>,
    pub(super) tm: Tm<Descriptor>,
    /// By [`DropReason`].
    reasons: [ReasonIndex; DropReason::ALL.len()],
    /// Bits per second, by traffic manager port.
    rates: Vec<Option<u64>>,
    /// By traffic manager port.
    flow_control: Vec<FlowControl>,
    /// What ports get.
    qos: Qos,
    /// A port that no configuration names.
    template: QosPort,
}

/// The traffic manager's port of a slot.
#[inline]
pub(super) fn port_id(slot: usize) -> PortId {
    PortId(u16::try_from(slot + 1).unwrap_or(u16::MAX))
}

/// The slot of a traffic manager's port; `None` is the CPU port.
#[inline]
pub(super) fn slot_of(port: PortId) -> Option<usize> {
    usize::from(port.0).checked_sub(1)
}

/// Packets that are held are held behind others of the same queue of the same port.
#[inline]
fn hold_group(arrival: &Arrival) -> u32 {
    u32::from(arrival.egress.0) << 3 | u32::from(arrival.queue)
}

/// A port that has no rate, pauses nobody and reserves nothing, in the pools of `like`.
fn unnamed(like: &QosPort) -> QosPort {
    let mut port = like.clone();
    port.name = "unnamed".into();
    port.tm = PortConfig {
        rate: None,
        max: None,
        flow_control: FlowControlConfig::default(),
        watchdog: None,
        ..port.tm
    };
    for queue in &mut port.tm.queues {
        queue.account.reserved_bytes = 0;
    }
    for group in &mut port.tm.groups {
        group.account.reserved_bytes = 0;
        group.lossless = None;
    }
    port
}

fn plain() -> Option<Qos> {
    let link = PortLink { name: "unnamed".into(), rate: None };
    QosConfig::default().resolve(&[link]).ok()
}

impl Manager {
    /// Without a configuration, for as many packets as there are chunks.
    pub(super) fn plain(chunks: u32, reasons: &mut Reasons) -> Manager {
        let mut qos = plain().unwrap_or_else(|| unreachable!("the plain preset is tested"));
        qos.tm.packet_slots = chunks;
        qos.tm.hold_slots = qos.tm.hold_slots.min(chunks);
        Manager::new(qos, false, reasons)
    }

    /// With a configuration.
    pub(super) fn configured(qos: &Qos, reasons: &mut Reasons) -> Manager {
        Manager::new(qos.clone(), true, reasons)
    }

    fn new(qos: Qos, configured: bool, reasons: &mut Reasons) -> Manager {
        let like = qos.ports.first().cloned().or_else(|| plain()?.ports.into_iter().next());
        let like = like.unwrap_or_else(|| unreachable!("the plain preset is tested"));
        let mut manager = Manager {
            tm: Tm::new(qos.tm.clone()),
            configured,
            maps: Vec::new(),
            rates: Vec::new(),
            flow_control: Vec::new(),
            template: unnamed(&like),
            qos,
            charge: Charge::Own,
            reasons: DropReason::ALL.map(|reason| reasons.intern(reason.name())),
        };
        // A pool that the template names is there: it comes from the same configuration.
        let cpu = manager.template.clone();
        let _ = manager.add(&cpu);
        manager
    }

    fn add(&mut self, port: &QosPort) -> Result<(), String> {
        self.tm.add_port(port.tm.clone()).map_err(|error| error.to_string())?;
        self.maps.push(port.classifier.clone());
        self.rates.push(port.tm.rate.map(BitsPerSec::get));
        self.flow_control.push(port.tm.flow_control.mode);
        Ok(())
    }

    /// What the configuration says about port `number`.
    fn configuration(&self, number: u16) -> QosPort {
        let name = number.to_string();
        let named = self.qos.ports.iter().find(|port| self.configured && port.name == name);
        named.unwrap_or(&self.template).clone()
    }

    /// The next slot is port `number`.
    pub(super) fn add_port(&mut self, number: u16) -> Result<(), String> {
        let port = self.configuration(number);
        self.add(&port)
    }

    /// A slot whose port was removed is port `number` again.
    pub(super) fn restore_port(&mut self, slot: usize, number: u16) -> Result<(), String> {
        let (id, port) = (port_id(slot), self.configuration(number));
        self.tm.restore_port(id, port.tm).map_err(|error| error.to_string())
    }

    /// True if a packet for this slot needs no look at its class: it goes out at once.
    #[inline]
    pub(super) fn is_open(&self, slot: usize) -> bool {
        !self.configured && self.tm.passes(port_id(slot)) && !self.tm.is_counting()
    }

    /// Decides class and group of a packet, where its program did not.
    #[inline]
    pub(super) fn classify(
        &self,
        from: Option<usize>,
        packet: &mut Descriptor,
        intrinsic: &Intrinsic,
    ) {
        if !self.configured {
            return;
        }
        let Some(map) = self.maps.get(from.map_or(0, |slot| slot + 1)) else { return };
        if packet.flags & flags::CLASS_ASSIGNED == 0 {
            packet.traffic_class = map.class(intrinsic.dscp, intrinsic.pcp);
        }
        if packet.flags & flags::GROUP_ASSIGNED == 0 {
            packet.priority_group = map.group(packet.traffic_class);
        }
    }

    /// The queue of a slot's port for a class.
    #[inline]
    pub(super) fn queue_of(&self, to: usize, traffic_class: u8) -> u8 {
        let map = self.maps.get(usize::from(port_id(to).0));
        map.map_or(0, |map| map.queue(traffic_class))
    }

    /// What the traffic manager is told about a packet of `bytes`.
    #[inline]
    pub(super) fn arrival(
        &self,
        packet: &Descriptor,
        from: Option<usize>,
        to: usize,
        bytes: u32,
    ) -> Arrival {
        let egress = port_id(to);
        Arrival {
            ingress: from.map_or(PortId(0), port_id),
            group: packet.priority_group % 8,
            egress,
            queue: self.queue_of(to, packet.traffic_class),
            color: match packet.flags >> flags::COLOR_SHIFT & 3 {
                0 => Color::Green,
                1 => Color::Yellow,
                _ => Color::Red,
            },
            ect: packet.flags & flags::ECT != 0,
            bytes,
        }
    }

    /// Offers a packet.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Time,
        packet: Descriptor,
        arrival: &Arrival,
        wanted: Wanted,
    ) -> Offered {
        let group = hold_group(arrival);
        let result = match (wanted, self.charge) {
            (_, Charge::Refused(reason)) => Err(Refused { packet, reason }),
            (Wanted::Now, Charge::Own) => self.tm.enqueue(now, packet, arrival),
            (Wanted::Now, Charge::Shared(memory)) => {
                self.tm.enqueue_copy(now, packet, memory, arrival)
            }
            // Held copies are rare: each pays for itself.
            (Wanted::Until(at), _) => {
                self.tm.hold(now, packet, arrival, Wait::Until(at)).map(|()| Admitted::Queued)
            }
            (Wanted::Behind(packets, timeout), _) => {
                let wait = Wait::Behind { group, packets, timeout };
                self.tm.hold(now, packet, arrival, wait).map(|()| Admitted::Queued)
            }
        };
        match result {
            Ok(admitted) => {
                if wanted == Wanted::Now {
                    self.passed(now, arrival);
                }
                match admitted {
                    Admitted::Queued => Offered::Queued,
                    Admitted::Pass(packet) => Offered::Pass(packet),
                }
            }
            Err(Refused { packet, reason }) => Offered::Refused(packet, self.reason(reason)),
        }
    }

    /// A packet passed its queue, or entered it: those that are held behind it may be next.
    #[inline]
    pub(super) fn passed(&mut self, now: Time, arrival: &Arrival) {
        self.tm.passed(now, hold_group(arrival));
    }

    /// Charges the memory of a packet once for the copies that follow, until [`Manager::end_copies`].
    pub(super) fn begin_copies(
        &mut self,
        now: Time,
        packet: &Descriptor,
        from: Option<usize>,
        bytes: u32,
    ) {
        let ingress = from.map_or(PortId(0), port_id);
        self.charge = match self.tm.charge_shared(now, ingress, packet.priority_group % 8, bytes) {
            Ok(memory) => Charge::Shared(memory),
            Err(reason) => Charge::Refused(reason),
        };
    }

    /// All copies were offered.
    pub(super) fn end_copies(&mut self, now: Time) {
        if let Charge::Shared(memory) = std::mem::replace(&mut self.charge, Charge::Own) {
            self.tm.release_shared(now, memory);
        }
    }

    /// The ledger's reason.
    #[inline]
    pub(super) fn reason(&self, reason: DropReason) -> ReasonIndex {
        self.reasons[reason as usize]
    }

    /// Packets in it.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.tm.slots().0 as usize
    }

    /// Names of the pools, by their numbers.
    pub(super) fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.qos.report.pools.iter().map(|pool| pool.name.as_str())
    }

    /// The rate of a slot's port.
    pub(super) fn rate_bps(&self, slot: usize) -> Option<u64> {
        self.rates.get(slot + 1).copied().flatten()
    }

    /// True for a slot whose port is stopped by received pauses.
    pub(super) fn obeys_pauses(&self, slot: usize) -> bool {
        self.flow_control(slot) != FlowControl::Off
    }

    /// The flow control of a slot's port.
    pub(super) fn flow_control(&self, slot: usize) -> FlowControl {
        self.flow_control.get(slot + 1).copied().unwrap_or_default()
    }

    /// When it has something to do.
    #[inline]
    pub(super) fn next_deadline(&mut self) -> Option<Time> {
        self.tm.next_deadline()
    }

    /// When it has something to do that can be seen.
    #[inline]
    pub(super) fn next_effect(&mut self) -> Option<Time> {
        self.tm.next_effect()
    }
}
