//! Pauses in both directions, and what else the traffic manager has to say.

use wireyard_pipeline::exec::{Descriptor, PacketPath};

use super::manager::{OWN, port_id, slot_of};
use super::{Core, MacControlPolicy};
use crate::ports::RxFrame;
use crate::stats::DeviceReason;
use crate::tm::{Admitted, Event, Refused};

impl Core {
    /// True for a PAUSE or PFC frame, which ends at the port.
    pub(super) fn is_mac_control(&self, slot: usize, frame: &RxFrame) -> bool {
        self.mac_control == MacControlPolicy::Consume
            && self.slots[slot].is_ethernet()
            && crate::frames::is_mac_control(self.mem.frame(&frame.buf, frame.data_off, frame.len))
    }

    /// Obeys a MAC control frame.
    pub(super) fn mac_control_received(&mut self, slot: usize, frame: RxFrame) {
        self.slots[slot].ledger.consume(DeviceReason::MacControl.index());
        self.mem.free(frame.buf);
    }

    /// Does what the traffic manager asks for.
    pub(super) fn handle_events(&mut self) {
        while let Some(event) = self.manager.tm.next_event() {
            match event {
                Event::FlowControl { .. } => {}
                Event::Drop { packet, reason, .. } => {
                    self.will_not_leave(&packet);
                    self.drop_packet(packet, self.manager.reason(reason));
                }
                Event::StormDetected { port, queue, action } => {
                    let (name, action) = (self.port_name(slot_of(port)), action.name());
                    self.port_messages.push(format!(
                        "{name}: queue {queue} is kept paused by its peer (PFC storm): {action}"
                    ));
                }
                Event::StormRestored { port, queue } => {
                    let name = self.port_name(slot_of(port));
                    self.port_messages
                        .push(format!("{name}: the PFC storm on queue {queue} is over"));
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
            Ok(Admitted::Pass(packet)) => self.hand_over(slot, packet, self.now, self.now),
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
