//! Adding and removing ports, the checks between polls (links, idle entries, full tables), and the end of a device.
//!
//! What a port does is in [`ports`](crate::ports). Here a link that went down or is blocked is reported to the traffic
//! manager, which drops or keeps what is queued for it, without loss for other ports. What is queued for a port that is
//! removed is dropped as `port_removed`, its pauses end, and its number no longer exists for the program.

use std::sync::Arc;

use wireyard_tables::time::Time;

use super::manager::{Manager, port_id};
use super::notice::{IdleNotice, NoticeKind};
use super::ports::egress_of;
use super::record::Leave;
use super::{Core, DeviceError, IdleEntry, PASSES_MAX};
use crate::config::qos::Qos;
use crate::ports::absent::AbsentPort;
use crate::ports::{Opened, Port, PortError, PortNumber, PortSpec};
use crate::stats::DeviceReason;

impl Core {
    /// Adds a port, also while packets flow. A number that was removed before keeps its counters. A port that cannot be
    /// added is closed.
    ///
    /// # Errors
    /// The number is taken, or reserved ([`DeviceError::PortNumber`]).
    pub fn add_port(
        &mut self,
        number: PortNumber,
        mut port: Box<dyn Port>,
    ) -> Result<(), DeviceError> {
        if let Err(why) = self.manager.add_queues_of(&self.ports, number) {
            port.close(&mut self.mem);
            return Err(why);
        }
        let slot = self.ports.add(number, port, self.mem.kept() as usize);
        self.manager.report_link(self.now, &mut self.ports, slot);
        Ok(())
    }

    /// Adds a port that belongs to another worker, with `place` in its stead.
    ///
    /// # Errors
    /// As [`Core::add_port`].
    pub fn add_elsewhere(
        &mut self,
        number: PortNumber,
        worker: u8,
        place: AbsentPort,
    ) -> Result<(), DeviceError> {
        self.add_port(number, Box::new(place))?;
        if let Some(slot) = self.ports.find(number) {
            self.ports[slot].worker = Some(worker);
        }
        Ok(())
    }

    /// Adds a queue of a port that belongs to another worker: this worker receives from it, and without `qos:` sends by
    /// it.
    ///
    /// # Errors
    /// As [`Core::add_port`].
    pub fn add_queue(
        &mut self,
        number: PortNumber,
        worker: u8,
        queue: Box<dyn Port>,
    ) -> Result<(), DeviceError> {
        self.add_port(number, queue)?;
        if let Some(slot) = self.ports.find(number) {
            self.ports[slot].worker = Some(worker);
            self.ports[slot].has_queue = true;
        }
        Ok(())
    }

    /// Adds a port opened from this specification, and begins its capture file if it has one; returns messages for the
    /// user about it.
    ///
    /// # Errors
    /// The number is taken, or the capture file cannot be written.
    pub(crate) fn add_opened(
        &mut self,
        number: PortNumber,
        spec: &PortSpec,
        opened: Opened,
    ) -> Result<Vec<String>, DeviceError> {
        self.add_port(number, opened.port)?;
        if let Err(why) = self.captures().record_as(number, spec) {
            if let Ok((mut port, _)) = self.detach_port(self.now, number) {
                port.close(&mut self.mem);
            }
            return Err(why);
        }
        Ok(opened.notices)
    }

    /// Configures the device with queues: class maps, buffers, schedulers, flow control. Ports are identified by their
    /// numbers; one that `qos` does not name has no rate and sends no pauses. Ports may be added before and after.
    ///
    /// # Errors
    /// Packets are inside, or `qos` did not pass its own checks.
    pub fn set_qos(&mut self, qos: &Qos) -> Result<(), DeviceError> {
        if self.queued() > 0 {
            return Err(DeviceError::PacketsInside);
        }
        let mut manager = Manager::configured(qos, &mut self.outcomes.reasons);
        for slot in self.ports.iter() {
            manager.add_port(slot.number)?;
        }
        self.manager = manager;
        let gone = self.ports.iter().enumerate().filter(|(_, slot)| !slot.present);
        gone.for_each(|(slot, _)| self.manager.tm.port_down(self.now, port_id(slot)));
        for slot in 0..self.ports.len() {
            self.ports[slot].down = false;
            self.manager.report_link(self.now, &mut self.ports, slot);
            self.manager.report_blocked(self.now, &self.ports, slot);
        }
        Ok(())
    }

    /// Checks the links. Messages report changes, and what ports have found out since they were opened.
    pub fn check_links(&mut self, now: Time) {
        self.now = now;
        for index in 0..self.ports.len() {
            if let Some(event) = self.ports.check_link(index, now) {
                self.notify(NoticeKind::Event(event));
            }
            self.manager.report_link(self.now, &mut self.ports, index);
        }
        self.handle_events();
        self.recording.check(&mut self.ports.messages);
    }

    /// Looks for idle entries, at a bounded number of slots of each table, and removes those of tables with `on_idle:
    /// remove`. Returns the idle entries, for the control plane: an entry that stays is returned once in each
    /// timeout. The first one of a table that stays is also a message. It waits for no writer of a table:
    /// [`Core::ageing_is_put_off`].
    pub fn age(&mut self, now: Time) -> Vec<IdleEntry> {
        self.refresh_program();
        let Some(generation) = self.executor.current().map(Arc::clone) else { return Vec::new() };
        self.executor.release();
        let found = self.idle.age(&generation, now, &mut self.ports.messages);
        for idle in found.iter().cloned() {
            let program = Arc::clone(&generation.program);
            self.notify(NoticeKind::Idle(IdleNotice { program, idle }));
        }
        found
    }

    /// True if the last [`Core::age`] ended at a table that another thread was writing: call it again soon.
    pub fn ageing_is_put_off(&self) -> bool {
        self.idle.is_put_off()
    }

    /// Reports tables that became full or have room again since the last call, in the messages and to the subscribers.
    pub fn check_tables(&mut self) {
        self.refresh_program();
        let Some(generation) = self.executor.current() else { return };
        for (event, text) in self.full_tables.changes(generation) {
            self.report_event(event, text);
        }
    }

    /// Releases the tables and flushes capture records before the worker sleeps.
    pub fn before_sleep(&mut self) {
        self.executor.release();
        self.recording.flush();
    }

    /// Stops or resumes transmission on a port; packets for it wait in its queues meanwhile.
    pub fn block(&mut self, now: Time, number: PortNumber, is_blocked: bool) {
        let Some(slot) = self.ports.find(number) else { return };
        self.now = now;
        self.ports[slot].held = is_blocked;
        self.manager.report_blocked(self.now, &self.ports, slot);
    }

    /// True when the input of every port has ended, generators with a frame limit are done, and nothing is queued.
    /// False while all ports are removed: they may be added again.
    pub fn is_finished(&mut self, now: Time) -> bool {
        self.queued() == 0 && !self.ingress.generators.have_frames() && self.ports.have_ended(now)
    }

    /// Sends what is queued and closes the ports.
    pub fn drain(&mut self, now: Time) -> Vec<PortError> {
        for _ in 0..PASSES_MAX {
            if self.queued() == 0 {
                break;
            }
            self.poll_timers(now, None);
        }
        self.close()
    }

    /// Flushes and closes the ports and capture files, and returns their chunks. Commands of control are not executed
    /// from then on.
    pub fn close(&mut self) -> Vec<PortError> {
        let mut errors = Vec::new();
        if let Some(link) = &mut self.control {
            link.abandon();
        }
        for slot in self.ports.iter_mut() {
            if let Err(error) = slot.port.flush(&mut self.mem) {
                errors.push(error);
            }
            slot.port.close(&mut self.mem);
        }
        errors.extend(self.recording.finish());
        errors
    }

    /// Removes a port from the device and closes it. The returned error is the port's, about its last frames.
    ///
    /// # Errors
    /// There is no such port.
    pub fn remove_port(
        &mut self,
        now: Time,
        number: PortNumber,
    ) -> Result<Option<PortError>, DeviceError> {
        let (mut port, error) = self.detach_port(now, number)?;
        port.close(&mut self.mem);
        Ok(error)
    }

    /// Removes a port from the device and leaves it open. The returned error is the port's, about its last frames. Each
    /// of several workers removes it, its owner last: packets that the others have sent to the owner by then are
    /// dropped there.
    ///
    /// # Errors
    /// There is no such port.
    pub fn detach_port(
        &mut self,
        now: Time,
        number: PortNumber,
    ) -> Result<(Box<dyn Port>, Option<PortError>), DeviceError> {
        let slot = self.ports.find(number).ok_or(DeviceError::NoPort(number))?;
        self.now = now;
        self.handle_events();
        self.ports.remove(slot, self.mem.kept() as usize);
        self.manager.tm.port_down(now, port_id(slot));
        self.handle_events();
        for packet in std::mem::take(&mut self.egress.departing) {
            match egress_of(&packet) == number {
                true => self.refuse(packet, DeviceReason::PortRemoved.index()),
                false => self.egress.departing.push(packet),
            }
        }
        self.ports.drop_backlog(slot, now, &mut self.mem, &mut self.recording);
        let place = Box::new(AbsentPort::like(self.ports[slot].port.as_ref()));
        let mut port = std::mem::replace(&mut self.ports[slot].port, place);
        self.ports[slot].is_always_polled = true;
        self.ports[slot].has_queue = false;
        self.captures().leave(slot, Leave::WithPort);
        let error = port.flush(&mut self.mem).err();
        Ok((port, error))
    }

    /// Removes a port of another worker from the device, if it exists here; returns its queue here, if there is one.
    pub(crate) fn detach_queue(&mut self, now: Time, number: PortNumber) -> Option<Box<dyn Port>> {
        let slot = self.ports.find(number)?;
        let has_queue = self.ports[slot].has_queue;
        // Errors of its link are reported by its owner.
        let (port, _) = self.detach_port(now, number).ok()?;
        has_queue.then_some(port)
    }

    /// Replaces a port by another that `make` builds from it. False: there is no such port here.
    pub(crate) fn exchange_port(
        &mut self,
        now: Time,
        number: PortNumber,
        make: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>,
    ) -> bool {
        let Some(index) = self.ports.find(number).filter(|slot| self.ports.is_served_here(*slot))
        else {
            return false;
        };
        self.now = now;
        let slot = &mut self.ports[index];
        let place = Box::new(AbsentPort::like(slot.port.as_ref()));
        slot.port = make(std::mem::replace(&mut slot.port, place));
        slot.is_always_polled = slot.port.poll_fd().is_none() || slot.port.is_always_polled();
        self.ports.changes += 1;
        self.check_links(now);
        true
    }
}
