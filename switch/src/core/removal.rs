//! Ports that are taken out of a device while packets flow.
//!
//! What waits for the port is dropped as `port_removed`, its pauses end, and its number is unknown to the program from then on.
//! Its slot stays: packets that came in by it may still be inside, and their ledger goes on. Others lose nothing.

use wireyard_tables::time::Time;

use super::manager::port_id;
use super::{BACKLOG_LEAST, BACKLOG_MAX, Core, Crew};
use crate::ports::absent::AbsentPort;
use crate::ports::{Port, PortError};
use crate::stats::{DeviceReason, Ledger, LedgerReport};

impl Core {
    /// Takes a port out of the device and closes it. An error is what the port said about its last frames.
    ///
    /// # Errors
    /// There is no such port, or the device has several workers.
    pub fn remove_port(&mut self, now: Time, number: u16) -> Result<Option<PortError>, String> {
        let (mut port, error) = self.detach_port(now, number)?;
        port.close(&mut self.mem);
        Ok(error)
    }

    /// Takes a port out of the device and leaves it open. An error is what the port said about its last frames.
    ///
    /// # Errors
    /// There is no such port, or the device has several workers.
    pub fn detach_port(
        &mut self,
        now: Time,
        number: u16,
    ) -> Result<(Box<dyn Port>, Option<PortError>), String> {
        let slot = self.slot(number).ok_or_else(|| format!("there is no port {number}"))?;
        if self.crew.as_ref().is_some_and(Crew::is_shared) {
            return Err("the ports of several workers stay as they are".to_owned());
        }
        self.now = now;
        self.handle_events();
        self.slots[slot].present = false;
        self.slot_of[usize::from(number)] = u16::MAX;
        self.list_numbers();
        self.manager.tm.port_down(now, port_id(slot));
        self.handle_events();
        self.drop_waiting(slot);
        let place = Box::new(AbsentPort::like(self.slots[slot].port.as_ref()));
        let mut port = std::mem::replace(&mut self.slots[slot].port, place);
        self.slots[slot].is_always_polled = true;
        self.slots[slot].recorded = None;
        let error = port.flush(&mut self.mem).err();
        Ok((port, error))
    }

    /// Drops what the port was about to be given.
    fn drop_waiting(&mut self, slot: usize) {
        for packet in std::mem::take(&mut self.slots[slot].out) {
            self.refuse(packet, DeviceReason::PortRemoved.index());
        }
        let frames = std::mem::take(&mut self.slots[slot].backlog);
        let from = std::mem::take(&mut self.slots[slot].backlog_from);
        for (frame, from) in frames.into_iter().zip(from) {
            self.record_shed(slot, from, &frame, "dropped: port_removed");
            self.mem.free(frame.buf);
            self.book_drop(from, DeviceReason::PortRemoved.index());
        }
        self.active.remove(slot);
    }

    /// The slot of a number that was removed.
    pub(super) fn removed_slot(&self, number: u16) -> Option<usize> {
        self.slots.iter().position(|slot| slot.number == number && !slot.present)
    }

    /// Lists the ports that are there again.
    pub(super) fn list_numbers(&mut self) {
        self.port_changes += 1;
        self.numbers.clear();
        let there = self.slots.iter().filter(|slot| slot.present);
        self.numbers.extend(there.map(|slot| slot.number));
        let each = self.mem.kept() as usize / self.numbers.len().max(1);
        self.backlog_max = each.clamp(BACKLOG_LEAST, BACKLOG_MAX);
    }

    /// The part of the ledger that ports had which were removed; `None` when there is none.
    pub(super) fn removed_report(&mut self) -> Option<LedgerReport> {
        let queued = self.queued_by_ingress();
        let gone = self.slots.iter().zip(queued).filter(|(slot, _)| !slot.present);
        let (mut ledger, mut waiting, mut some) = (Ledger::default(), 0, false);
        for (slot, queued) in gone {
            ledger.merge(&slot.ledger);
            waiting += queued;
            some = true;
        }
        some.then(|| LedgerReport::new(&ledger, &self.reasons, waiting))
    }
}
