//! The core's interface to the traffic manager: port numbers, class maps and named reasons.
//!
//! Every core has one. Without a configuration it is [`Preset::Plain`](crate::config::qos::Preset) and all ports are
//! without a rate: then packets leave at once without classification, and only packets that a program delays or holds
//! wait in it.
//!
//! Port 0 of the traffic manager is the CPU port, and stands for the ingress of packets without a port; port n + 1 is
//! slot n of the core.

use wireyard_pipeline::exec::{Descriptor, Intrinsic, flags};
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Deadline, Span, Time};

use super::cuts::CutRecords;
use super::error::DeviceError;
use super::ports::{Ports, egress_of, ingress_of};
use crate::config::qos::{Classifier, PortLink, Qos, QosConfig, QosPort};
use crate::ports::PortNumber;
use crate::stats::{ReasonIndex, Reasons};
use crate::tm::{
    Arrival, Charge, Color, Departure, DropReason, FlowControl, FlowControlConfig, PortConfig,
    PortId, Release, SharedCharge, Terms, Tm,
};
use crate::units::BitsPerSec;

/// Set in a packet that the device itself made: it skips egress processing. A bit of [`Descriptor::flags`] that
/// programs do not have.
pub(super) const DEVICE_ORIGINATED: u8 = 1 << 7;

/// When a packet may enter its queue, by the decision of ingress.
pub(super) fn release_of(intrinsic: &Intrinsic, now: Time) -> Release {
    if intrinsic.hold_packets > 0 {
        let timeout = Span::from_ns(intrinsic.hold_timeout_ns);
        return Release::AfterPackets { packets: intrinsic.hold_packets.into(), timeout };
    }
    let at = Time::from_ns(intrinsic.not_before_ns);
    if at > now { Release::At(at) } else { Release::Immediate }
}

/// The traffic manager of a device with its class maps and names. Fields that every packet uses come first, together.
#[repr(C)]
pub struct Manager {
    /// True with `qos:`; otherwise packets have no class but one that a program assigns.
    pub(super) configured: bool,
    /// By number of the traffic manager's port.
    maps: Vec<Classifier>,
    /// Buffer, queues, schedulers, flow control.
    pub tm: Tm<Descriptor>,
    /// By [`DropReason`].
    reasons: [ReasonIndex; DropReason::ALL.len()],
    /// The configuration of ports.
    qos: Qos,
    /// The configuration of ports that `qos` does not name.
    template: QosPort,
}

/// The traffic manager's port number of a slot.
#[inline]
pub(super) fn port_id(slot: usize) -> PortId {
    PortId(u16::try_from(slot + 1).unwrap_or(u16::MAX))
}

/// The slot of a traffic manager's port; `None` for the CPU port.
#[inline]
pub(super) fn slot_of(port: PortId) -> Option<usize> {
    usize::from(port.0).checked_sub(1)
}

/// A port without rate, pauses and reserved bytes, with the other settings of `defaults`.
fn unnamed(defaults: &QosPort) -> QosPort {
    let mut port = defaults.clone();
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
    let link = PortLink { number: PortNumber(0), rate: None };
    QosConfig::default().resolve(&[link]).ok()
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("configured", &self.configured).finish_non_exhaustive()
    }
}

impl Manager {
    /// True with `qos:`.
    pub(crate) fn is_configured(&self) -> bool {
        self.configured
    }

    /// Without `qos:`, for as many packets as there are chunks.
    pub(super) fn plain(chunks: u32, reasons: &mut Reasons) -> Manager {
        let mut qos = plain().unwrap_or_else(|| unreachable!("the plain preset is tested"));
        qos.tm.packet_slots = chunks;
        qos.tm.hold_slots = qos.tm.hold_slots.min(chunks);
        Manager::new(qos, false, reasons)
    }

    /// With `qos:`.
    pub(super) fn configured(qos: &Qos, reasons: &mut Reasons) -> Manager {
        Manager::new(qos.clone(), true, reasons)
    }

    fn new(qos: Qos, configured: bool, reasons: &mut Reasons) -> Manager {
        let mut manager = Manager {
            tm: Tm::new(qos.tm.clone()),
            configured,
            maps: Vec::new(),
            template: unnamed(&qos.defaults),
            qos,
            reasons: DropReason::ALL.map(|reason| reasons.intern(reason.name())),
        };
        // A pool that the template names exists: it is from the same configuration.
        let cpu = manager.template.clone();
        let _ = manager.add(&cpu);
        manager
    }

    fn add(&mut self, port: &QosPort) -> Result<(), DeviceError> {
        self.tm.add_port(port.tm.clone())?;
        self.maps.push(port.classifier.clone());
        Ok(())
    }

    /// The configuration of port `number`.
    fn configuration(&self, number: PortNumber) -> QosPort {
        let mut ports = self.qos.ports.iter();
        let named = ports.find(|port| self.configured && port.number == number);
        named.unwrap_or(&self.template).clone()
    }

    /// Adds port `number`, in the next slot.
    pub(super) fn add_port(&mut self, number: PortNumber) -> Result<(), DeviceError> {
        let port = self.configuration(number);
        self.add(&port)
    }

    /// Adds port `number` again in its slot, after it was removed.
    pub(super) fn restore_port(
        &mut self,
        slot: usize,
        number: PortNumber,
    ) -> Result<(), DeviceError> {
        let (id, port) = (port_id(slot), self.configuration(number));
        Ok(self.tm.restore_port(id, port.tm)?)
    }

    /// Adds a port of this number, which must be free, in the slot that it gets.
    ///
    /// # Errors
    /// The number is taken, or reserved ([`DeviceError::PortNumber`]).
    pub(super) fn add_queues_of(
        &mut self,
        ports: &Ports,
        number: PortNumber,
    ) -> Result<(), DeviceError> {
        ports.check_number(number)?;
        match ports.removed(number) {
            Some(slot) => self.restore_port(slot, number),
            None => self.add_port(number),
        }
    }

    /// Takes over a link that went down or up: packets queued for it are dropped, other ports lose nothing. Without
    /// `qos:` the port itself reports what it could not send.
    pub(super) fn report_link(&mut self, now: Time, ports: &mut Ports, slot: usize) {
        let is_down = self.configured && ports[slot].link_is_down();
        let is_mine = ports[slot].present && ports.is_here(slot);
        if is_down == ports[slot].down || !is_mine {
            return;
        }
        ports[slot].down = is_down;
        match is_down {
            true => self.tm.port_down(now, port_id(slot)),
            false => self.tm.port_up(now, port_id(slot)),
        }
    }

    /// Takes over whether a port takes frames.
    pub(super) fn report_blocked(&mut self, now: Time, ports: &Ports, slot: usize) {
        let blocked = ports[slot].blocked || ports[slot].held;
        self.tm.set_blocked(now, port_id(slot), blocked);
    }

    /// Prefetches the header of the packet that leaves next by a queue: in a long queue it was last accessed long ago.
    #[inline]
    pub(super) fn prefetch_behind(&self, mem: &PacketMemory, id: PortId, departure: &Departure) {
        if let Some(Descriptor { buf: Some(buf), data_off, .. }) = self.tm.behind(id, departure) {
            mem.prefetch(buf, *data_off);
        }
    }

    /// True if egress of a packet for this slot may directly follow its ingress: no class is needed, and the packet
    /// does not wait.
    #[inline]
    pub(super) fn is_open(&self, slot: usize) -> bool {
        !self.configured && self.tm.passes(port_id(slot)) && !self.tm.is_counting()
    }

    /// Sets class and group of a packet, unless its program did.
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

    /// What the traffic manager needs about a packet of `bytes`.
    #[inline]
    pub(super) fn arrival(
        &self,
        packet: &Descriptor,
        from: Option<usize>,
        to: usize,
        bytes: u32,
        terms: Terms,
    ) -> Arrival {
        let egress = port_id(to);
        Arrival {
            ingress: from.map_or(PortId(0), port_id),
            group: packet.priority_group % 8,
            egress,
            queue: self.queue_of(to, packet.traffic_class),
            color: Color::of_bits(packet.flags >> flags::COLOR_SHIFT),
            ect: packet.flags & flags::ECT != 0,
            bytes,
            terms,
        }
    }

    /// Charges the memory of a packet once for the copies that follow; without `qos:` each copy is charged itself.
    /// [`Manager::release_copies`] follows when all were offered.
    pub(super) fn charge_copies(
        &mut self,
        now: Time,
        ports: &Ports,
        cuts: &CutRecords,
        packet: &Descriptor,
    ) -> Charge {
        if !self.configured {
            return Charge::Own;
        }
        let ingress = ports.charged_slot(ingress_of(packet)).map_or(PortId(0), port_id);
        let (group, bytes) = (packet.priority_group % 8, cuts.frame_bytes(packet));
        let charged = self.tm.charge_shared(now, ingress, group, bytes);
        charged.map_or_else(Charge::Refused, Charge::Shared)
    }

    /// Ends [`Manager::charge_copies`]: all copies were offered.
    pub(super) fn release_copies(&mut self, now: Time, charge: Charge) {
        if let Charge::Shared(memory) = charge {
            self.tm.release_shared(now, memory);
        }
    }

    /// Charges the priority group of a packet that will wait at another worker; copies that are charged
    /// together have one charge, but held copies have charges of their own. `None`: nothing is charged here, as `worker`
    /// owns the ingress port too and charges it.
    ///
    /// # Errors
    /// The reason for which the group refuses it.
    pub(super) fn charge_remote(
        &mut self,
        now: Time,
        ports: &Ports,
        cuts: &CutRecords,
        worker: u8,
        packet: &Descriptor,
        terms: Terms,
    ) -> Result<Option<SharedCharge>, DropReason> {
        if !self.configured {
            return Ok(None);
        }
        match terms.charge {
            Charge::Refused(reason) => return Err(reason),
            Charge::Shared(memory) if terms.release == Release::Immediate => {
                return Ok(self.tm.retain_shared(memory).then_some(memory));
            }
            Charge::Shared(_) | Charge::Own | Charge::Control => {}
        }
        let from = ports.find(ingress_of(packet));
        if from.is_some_and(|slot| ports[slot].worker == Some(worker)) {
            return Ok(None);
        }
        let ingress = from.filter(|slot| ports.is_here(*slot)).map_or(PortId(0), port_id);
        let (group, bytes) = (packet.priority_group % 8, cuts.frame_bytes(packet));
        self.tm.charge_shared(now, ingress, group, bytes).map(Some)
    }

    /// Counts a packet that its priority group refused at the egress queue it was for, in this worker: a queue's
    /// counters are the sum over all workers.
    pub(super) fn count_refused(
        &mut self,
        ports: &Ports,
        cuts: &CutRecords,
        packet: &Descriptor,
        terms: Terms,
        reason: DropReason,
    ) {
        let Some(to) = ports.find(egress_of(packet)) else { return };
        // Copies that were refused together are not counted at queues.
        if matches!(terms.charge, Charge::Refused(_)) {
            return;
        }
        let (from, bytes) = (ports.charged_slot(ingress_of(packet)), cuts.frame_bytes(packet));
        let arrival = self.arrival(packet, from, to, bytes, terms);
        self.tm.count_refusal(&arrival, reason);
    }

    /// The other worker that keeps the accounts of a slot's port; `None` if this worker keeps them. Without `qos:` there
    /// are none.
    #[inline]
    pub(super) fn owner_elsewhere(&self, ports: &Ports, slot: usize) -> Option<u8> {
        ports[slot].worker.filter(|_| self.configured)
    }

    /// The reason of the ledger.
    #[inline]
    pub(super) fn reason(&self, reason: DropReason) -> ReasonIndex {
        self.reasons[reason as usize]
    }

    /// Number of packets in it.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.tm.slots().0 as usize
    }

    /// Names of the pools, by their numbers.
    pub(super) fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.qos.report.pools.iter().map(|pool| pool.name.as_str())
    }

    /// Changes the rate of port `number`, which is `id` here and must have a rate. With a lossless class the new rate is
    /// at most the configured one: the headroom was computed for that.
    ///
    /// # Errors
    /// The port has no rate, or has a lossless class and a lower configured one.
    pub(crate) fn set_rate(
        &mut self,
        now: Time,
        id: PortId,
        number: PortNumber,
        rate: BitsPerSec,
    ) -> Result<(), DeviceError> {
        let configured = self.configuration(number).tm.rate;
        let is_lossless = self.tm.lossless_groups(id) != 0;
        if let Some(most) = configured.filter(|most| is_lossless && rate > *most) {
            return Err(DeviceError::LosslessRate { port: number, most });
        }
        if !self.tm.set_rate(now, id, rate) {
            return Err(DeviceError::NoRate(number));
        }
        Ok(())
    }

    /// The rate of a slot's port in bits per second.
    pub(super) fn rate_bps(&self, slot: usize) -> Option<u64> {
        self.tm.rate(port_id(slot)).map(BitsPerSec::get)
    }

    /// True for a slot whose port stops on received pauses.
    pub(super) fn obeys_pauses(&self, slot: usize) -> bool {
        self.flow_control(slot) != FlowControl::Off
    }

    /// The flow control of a slot's port.
    pub(super) fn flow_control(&self, slot: usize) -> FlowControl {
        self.tm.flow_control(port_id(slot)).map(|flow| flow.mode).unwrap_or_default()
    }

    /// When the traffic manager has work.
    #[inline]
    pub(super) fn next_deadline(&mut self) -> Deadline {
        self.tm.next_deadline()
    }

    /// When the traffic manager has work whose effect is visible outside of it.
    #[inline]
    pub(super) fn next_effect(&mut self) -> Deadline {
        self.tm.next_effect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::GroupConfig;

    /// Of a port that the configuration does not name nothing is promised that others have to pay for.
    #[test]
    fn a_port_without_a_section_has_the_template() {
        let text = r#"{ "preset": "sonic_azure" }"#;
        let config: QosConfig = serde_json::from_str(text).unwrap();
        let link = PortLink { number: PortNumber(1), rate: Some(BitsPerSec::gbit(100)) };
        let mut qos = config.resolve(&[link]).unwrap();
        let named = qos.ports[0].clone();
        qos.defaults = named.clone();
        for queue in &mut qos.defaults.tm.queues {
            queue.account.reserved_bytes = 1000;
        }
        let manager = Manager::configured(&qos, &mut Reasons::default());
        let same = manager.configuration(PortNumber(1));
        assert_eq!((same.tm.rate, same.tm.flow_control), (named.tm.rate, named.tm.flow_control));
        assert!(same.tm.groups.iter().any(|group| group.lossless.is_some()));
        let other = manager.configuration(PortNumber(9));
        let PortConfig { rate, max, flow_control, watchdog, queues, groups, .. } = &other.tm;
        assert!(rate.is_none() && max.is_none() && watchdog.is_none());
        assert_eq!(*flow_control, FlowControlConfig::default());
        assert!(queues.iter().all(|queue| queue.account.reserved_bytes == 0));
        let is_plain =
            |group: &GroupConfig| group.lossless.is_none() && group.account.reserved_bytes == 0;
        assert!(groups.iter().all(is_plain));
        assert_eq!(other.classifier, named.classifier, "the rest is that of `port_defaults`");
    }
}
