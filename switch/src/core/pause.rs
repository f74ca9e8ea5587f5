//! Pauses in both directions, and what else the traffic manager has to say.

use super::manager::slot_of;
use super::{Core, MacControlPolicy};
use crate::ports::RxFrame;
use crate::stats::DeviceReason;
use crate::tm::Event;

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
}
