//! Frames that the device consumes and makes itself: pauses in both directions, CNPs, generated frames; and the events
//! of the traffic manager.

use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, NO_PORT, PacketPath, flags};
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::Core;
use super::manager::{DEVICE_ORIGINATED, port_id, slot_of};
use super::notice::DeviceEvent;
use super::ports::Ports;
use super::receive::Ingress;
use super::slot::Slot;
use crate::device::notify::{Notice, NoticeClass, Via};
use crate::frames::flow_control::FlowControlError;
use crate::frames::{Mac, has_mac_control_type};
use crate::ports::{ChecksumStatus, PortNumber, RxFrame};
use crate::stats::DeviceReason;
use crate::tm::{Arrival, CONTROL_QUEUE, Charge, Event, FlowControlFrame, PortId, Terms};

/// Handling of received PAUSE and PFC frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacControlPolicy {
    /// The device consumes them, and obeys those of the port's flow control; the program does not receive them.
    #[default]
    Consume,
    /// They enter ingress like other frames.
    Pass,
}

impl Ingress {
    /// Sends a frame of the device's own into ingress as if a port had received it at `at`. False where no packet memory
    /// is free, which is counted.
    fn enter(
        &mut self,
        ports: &mut Ports,
        mem: &mut PacketMemory,
        slot: usize,
        frame: &[u8],
        at: Time,
    ) -> bool {
        let Some(mut packet) = ports.own_packet(slot, frame, mem, at) else { return false };
        packet.flags &= !DEVICE_ORIGINATED;
        packet.ingress_link = ports[slot].link_code();
        self.again.push_back(Descriptor { egress_port: NO_PORT, ..packet });
        true
    }
}

impl Ports {
    /// Makes a packet of the device's own, counted as generated on the port it leaves by. `None` when packet memory is
    /// exhausted.
    fn own_packet(
        &mut self,
        slot: usize,
        frame: &[u8],
        mem: &mut PacketMemory,
        now: Time,
    ) -> Option<Descriptor> {
        let port = &mut self[slot];
        port.ledger.generated += 1;
        let Some(buf) = mem.alloc_frame(frame) else {
            port.ledger.drop(DeviceReason::NoMemory.index());
            return None;
        };
        let data_off = mem.config().headroom_bytes as u16;
        let len = frame.len() as u32;
        let mut packet = Descriptor::received(buf, data_off, len, port.number.0, now.as_ns());
        packet.egress_port = port.number.0;
        packet.path = PacketPath::Generated as u8;
        packet.flags = DEVICE_ORIGINATED;
        Some(packet)
    }
}

impl MacControlPolicy {
    /// True if MAC control frames end at this port.
    #[inline]
    fn consumes(self, port: &Slot) -> bool {
        self == MacControlPolicy::Consume && port.is_ethernet()
    }

    /// True for a MAC control frame that ends at this port, malformed or not: the device consumes it (802.3 clause 31).
    #[inline]
    pub(super) fn is_for_device(self, port: &Slot, mem: &PacketMemory, frame: &RxFrame) -> bool {
        self.consumes(port)
            && has_mac_control_type(mem.frame(&frame.buf, frame.data_off, frame.len))
    }
}

impl Core {
    /// Acts on a MAC control frame, if it is well formed.
    pub(super) fn mac_control_received(&mut self, slot: usize, frame: RxFrame) {
        if let Some(owner) = self.manager.owner_elsewhere(&self.ports, slot) {
            return self.mac_control_for(owner, slot, frame);
        }
        let bytes = self.mem.frame(&frame.buf, frame.data_off, frame.len);
        let said = match frame.wire_len == frame.len {
            true => self.frames.flow_control.parse(bytes),
            // A truncated capture record does not contain all fields.
            false => Err(FlowControlError::Length { bytes: bytes.len() }),
        };
        self.mem.free(frame.buf);
        let (now, id) = (self.now, port_id(slot));
        let reason = match said {
            Ok(FlowControlFrame::Pfc(pfc)) => {
                self.manager.tm.pfc_received(now, id, &pfc);
                DeviceReason::MacControl
            }
            Ok(FlowControlFrame::Pause(quanta)) => {
                self.manager.tm.pause_received(now, id, quanta);
                DeviceReason::MacControl
            }
            Err(FlowControlError::Length { .. }) => DeviceReason::MacControlLength,
            Err(FlowControlError::WrongMac { .. }) => DeviceReason::MacControlAddress,
            Err(FlowControlError::UnknownOpcode { .. }) => DeviceReason::MacControlOpcode,
            Err(FlowControlError::Vector { .. }) => DeviceReason::PfcVector,
            Err(FlowControlError::NotMacControl { .. }) => DeviceReason::MacControl,
        };
        self.ports[slot].ledger.consume(reason.index());
    }

    /// Handles the events of the traffic manager.
    #[inline]
    pub(super) fn handle_events(&mut self) {
        if self.manager.tm.has_events() {
            self.handle_all_events();
        }
    }

    fn handle_all_events(&mut self) {
        while let Some(event) = self.manager.tm.next_event() {
            match event {
                Event::FlowControl { port, frame } => self.send_control(port, &frame),
                Event::Drop { packet, reason, port, .. } => {
                    let was_removed = slot_of(port).is_some_and(|slot| !self.ports[slot].present);
                    let reason = match was_removed {
                        true => DeviceReason::PortRemoved.index(),
                        false => self.manager.reason(reason),
                    };
                    self.refuse(packet, reason);
                }
                Event::StormDetected { port, queue, action } => {
                    let (name, action) = (self.ports.name(slot_of(port)), action.name());
                    let text = format!(
                        "{name}: queue {queue} is kept paused by its peer (PFC storm): {action}"
                    );
                    let port = self.ports.port_of_traffic(port);
                    self.report_event(DeviceEvent::PauseStorm { port, queue, over: false }, text);
                }
                Event::Returned { worker, charge } => self.mesh.give_back(worker, charge),
                Event::StormRestored { port, queue } => {
                    let name = self.ports.name(slot_of(port));
                    let text = format!("{name}: the PFC storm on queue {queue} is over");
                    let port = self.ports.port_of_traffic(port);
                    self.report_event(DeviceEvent::PauseStorm { port, queue, over: true }, text);
                }
            }
        }
    }

    /// Sends a MAC control frame out of the port: before all other frames, and regardless of pauses.
    fn send_control(&mut self, id: PortId, frame: &FlowControlFrame) {
        let Some(slot) = slot_of(id) else { return };
        let number = self.ports[slot].number;
        let frame = self.frames.flow_control.build(Mac(self.ports.mac(number)), frame);
        let Some(mut packet) = self.ports.own_packet(slot, &frame, &mut self.mem, self.now) else {
            return;
        };
        let (port, bytes) = (port_id(slot), self.ingress.cuts.frame_bytes(&packet));
        let terms = Terms { charge: Charge::Control, ..Terms::default() };
        let (ingress, egress, queue) = (port, port, CONTROL_QUEUE);
        let arrival = Arrival { ingress, egress, queue, bytes, terms, ..Arrival::default() };
        self.offer_as(slot, &mut packet, &arrival);
    }

    /// Sends the due frames of generators into ingress.
    pub(super) fn generate(&mut self) {
        let mut generators = std::mem::take(&mut self.ingress.generators);
        for _ in 0..BURST_MAX {
            let Some((frame, port, at)) = generators.take(self.now) else { break };
            if let Some(slot) = self.ports.find(port) {
                self.enter_generated(slot, frame, at);
            }
        }
        self.ingress.generators = generators;
    }

    /// A frame of a generator: MAC control ends at the port, as if the port had received it.
    fn enter_generated(&mut self, slot: usize, frame: &[u8], at: Time) {
        if !self.mac_control.consumes(&self.ports[slot]) || !has_mac_control_type(frame) {
            self.ingress.enter(&mut self.ports, &mut self.mem, slot, frame, at);
            return;
        }
        let Some(packet) = self.ports.own_packet(slot, frame, &mut self.mem, self.now) else {
            return;
        };
        let Descriptor { buf: Some(buf), data_off, len, .. } = packet else { return };
        let checksum = ChecksumStatus::default();
        let frame = RxFrame { buf, data_off, len, wire_len: len, timestamp: at, checksum };
        self.mac_control_received(slot, frame);
    }

    /// Sends the CNPs that are due.
    pub(super) fn send_notices(&mut self) {
        while let Some(notifier) = &mut self.device.notifier {
            if !notifier.next_deadline().is_by(self.now) {
                return;
            }
            let Some(notice) = notifier.poll(self.now) else { return };
            self.send_notice(&notice);
        }
    }

    fn send_notice(&mut self, notice: &Notice) {
        let (Via::Out(number) | Via::In(number)) = notice.via;
        // The port may have been removed, or the marked packet came from the CPU port.
        let Some(slot) = self.ports.find(number) else { return };
        if let Via::In(_) = notice.via {
            let frame = notice.frame();
            self.ingress.enter(&mut self.ports, &mut self.mem, slot, frame, self.now);
            return;
        }
        let Some(mut packet) = self.ports.own_packet(slot, notice.frame(), &mut self.mem, self.now)
        else {
            return;
        };
        let mut intrinsic = Intrinsic::default();
        match notice.class {
            NoticeClass::Maps(class) => (intrinsic.dscp, intrinsic.pcp) = (class.dscp, class.pcp),
            NoticeClass::Lane(lane) => {
                packet.traffic_class = lane & 7;
                packet.flags |= flags::CLASS_ASSIGNED;
            }
        }
        self.manager.classify(Some(slot), &mut packet, &intrinsic);
        self.offer(slot, &mut packet, Terms::default());
    }

    /// A packet from the control plane: it enters ingress by the CPU port, at the next poll. False when packet memory
    /// is exhausted, which is counted.
    pub fn inject(&mut self, frame: &[u8], now: Time) -> bool {
        self.ports.cpu.received += 1;
        let Some(buf) = self.mem.alloc_frame(frame) else {
            self.ports.cpu.drop(DeviceReason::NoMemory.index());
            return false;
        };
        let data_off = self.mem.config().headroom_bytes as u16;
        let len = frame.len() as u32;
        let mut packet = Descriptor::received(buf, data_off, len, self.cpu_port.0, now.as_ns());
        packet.path = PacketPath::FromCpu as u8;
        self.ingress.again.push_back(packet);
        true
    }

    /// Injects a packet into ingress as if it had been received by this port. False where no packet memory is free.
    pub(crate) fn inject_at(&mut self, port: PortNumber, frame: &[u8], now: Time) -> bool {
        let Some(slot) = self.ports.find(port) else { return false };
        self.ingress.enter(&mut self.ports, &mut self.mem, slot, frame, now)
    }

    /// Sends a packet out of this port unchanged, in `class` or else the class of the port's maps. False where no
    /// packet memory is free.
    pub(crate) fn send_out(
        &mut self,
        port: PortNumber,
        frame: &[u8],
        class: Option<u8>,
        now: Time,
    ) -> bool {
        self.now = now;
        let Some(slot) = self.ports.find(port) else { return false };
        let Some(mut packet) = self.ports.own_packet(slot, frame, &mut self.mem, self.now) else {
            return false;
        };
        if let Some(class) = class {
            packet.traffic_class = class;
            packet.flags |= flags::CLASS_ASSIGNED;
        }
        self.manager.classify(Some(slot), &mut packet, &Intrinsic::default());
        self.offer(slot, &mut packet, Terms::default());
        true
    }
}
