//! Pauses in both directions, and what else the traffic manager has to say.

use wireyard_pipeline::exec::{Descriptor, PacketPath};

use super::manager::{OWN, port_id, slot_of};
use super::{Core, MacControlPolicy};
use crate::control::DeviceEvent;
use crate::frames::Mac;
use crate::frames::flow_control::FlowControlError;
use crate::ports::RxFrame;
use crate::stats::DeviceReason;
use crate::tm::{Admitted, Event, FlowControlFrame, PortId, Refused};

/// The address of a port that has none of its own: locally administered, by its number.
fn own_mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [0x02, b'w', b'y', 0, high, low]
}

impl Core {
    /// True for a MAC control frame, whatever is wrong with it: it ends at the port (802.3 clause 31).
    #[inline]
    pub(super) fn is_mac_control(&self, slot: usize, frame: &RxFrame) -> bool {
        self.mac_control == MacControlPolicy::Consume
            && self.slots[slot].is_ethernet()
            && crate::frames::has_mac_control_type(self.mem.frame(
                &frame.buf,
                frame.data_off,
                frame.len,
            ))
    }

    /// Obeys a MAC control frame, if nothing is wrong with it.
    pub(super) fn mac_control_received(&mut self, slot: usize, frame: RxFrame) {
        let bytes = self.mem.frame(&frame.buf, frame.data_off, frame.len);
        let said = match frame.wire_len == frame.len {
            true => self.frames.flow_control.parse(bytes),
            // A capture record that was cut does not have all that it says.
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
        self.slots[slot].ledger.consume(reason.index());
    }

    fn flow_control(&mut self, id: PortId, frame: &FlowControlFrame) {
        let Some(slot) = slot_of(id) else { return };
        let number = self.slots[slot].number;
        let mac = self.macs.get(&number).copied().unwrap_or_else(|| own_mac(number));
        let bytes = self.frames.flow_control.build(Mac(mac), frame);
        self.send_control(slot, &bytes);
    }

    /// Does what the traffic manager asks for.
    #[inline]
    pub(super) fn handle_events(&mut self) {
        if self.manager.tm.has_events() {
            self.handle_all_events();
        }
    }

    fn handle_all_events(&mut self) {
        while let Some(event) = self.manager.tm.next_event() {
            match event {
                Event::FlowControl { port, frame } => self.flow_control(port, &frame),
                Event::Drop { packet, reason, port, .. } => {
                    let was_removed = slot_of(port).is_some_and(|slot| !self.slots[slot].present);
                    let reason = match was_removed {
                        true => DeviceReason::PortRemoved.index(),
                        false => self.manager.reason(reason),
                    };
                    self.refuse(packet, reason);
                }
                Event::StormDetected { port, queue, action } => {
                    let (name, action) = (self.port_name(slot_of(port)), action.name());
                    self.port_messages.push(format!(
                        "{name}: queue {queue} is kept paused by its peer (PFC storm): {action}"
                    ));
                    let port = self.port_of_traffic(port);
                    self.say_event(DeviceEvent::PauseStorm { port, queue, over: false });
                }
                Event::Returned { worker, charge } => self.give_back(worker, charge),
                Event::StormRestored { port, queue } => {
                    let name = self.port_name(slot_of(port));
                    self.port_messages
                        .push(format!("{name}: the PFC storm on queue {queue} is over"));
                    let port = self.port_of_traffic(port);
                    self.say_event(DeviceEvent::PauseStorm { port, queue, over: true });
                }
            }
        }
    }

    /// A port for messages.
    fn port_name(&self, slot: Option<usize>) -> String {
        match slot.and_then(|slot| self.slots.get(slot)) {
            Some(slot) => format!("port {} ({})", slot.number, slot.port.name()),
            None => "the CPU port".into(),
        }
    }

    /// Sends a MAC control frame of the port's own: before all others, never paused.
    pub(super) fn send_control(&mut self, slot: usize, frame: &[u8]) {
        let Some(packet) = self.own_packet(slot, frame) else { return };
        let bytes = self.frame_bytes(&packet);
        match self.manager.tm.send_control(self.now, port_id(slot), packet, bytes) {
            Ok(Admitted::Queued) => {}
            Ok(Admitted::Pass(mut packet)) => {
                self.hand_over(slot, &mut packet, self.now, self.now);
            }
            Err(Refused { packet, reason }) => {
                self.drop_packet(packet, self.manager.reason(reason));
            }
        }
    }

    /// A packet that the device makes, booked as generated on the port it leaves by.
    pub(super) fn own_packet(&mut self, slot: usize, frame: &[u8]) -> Option<Descriptor> {
        let number = self.slots[slot].number;
        self.slots[slot].ledger.generated += 1;
        let Some(buf) = self.mem.alloc_frame(frame) else {
            self.slots[slot].ledger.drop(DeviceReason::NoMemory.index());
            return None;
        };
        let data_off = self.mem.config().headroom_bytes as u16;
        let len = frame.len() as u32;
        let mut packet = Descriptor::received(buf, data_off, len, number, self.now.as_ns());
        packet.egress_port = number;
        packet.path = PacketPath::Generated as u8;
        packet.flags = OWN;
        Some(packet)
    }
}
