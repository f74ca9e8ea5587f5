//! Adding and removing ports, the state of their links, and the end of their input.
//!
//! What a port does is in [`ports`](crate::ports). Here a link that went down or is blocked is reported to the traffic
//! manager, which drops or keeps what is queued for it, without loss for other ports. What is queued for a port that is
//! removed is dropped as `port_removed`, its pauses end, and its number no longer exists for the program.

use std::path::Path;

use wireyard_tables::time::Time;

use super::manager::{Manager, port_id};
use super::ports::egress_of;
use super::slot::Slot;
use super::{Core, DeviceError, PASSES_MAX};
use crate::config::qos::Qos;
use crate::ports::absent::AbsentPort;
use crate::ports::files::CaptureFile;
use crate::ports::{Opened, Port, PortError, PortNumber, PortSpec};
use crate::recorder::Recorder;
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
        if let Err(why) = self.add_queues_of(number) {
            port.close(&mut self.mem);
            return Err(why);
        }
        let slot = self.ports.add(number, port, self.mem.kept() as usize);
        self.report_link(slot);
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

    /// Makes a traffic manager port for a port that is to be added.
    fn add_queues_of(&mut self, number: PortNumber) -> Result<(), DeviceError> {
        self.ports.check_number(number)?;
        match self.ports.removed(number) {
            Some(slot) => self.manager.restore_port(slot, number),
            None => self.manager.add_port(number),
        }
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
        if let Err(why) = self.record_as(number, spec) {
            if let Ok((mut port, _)) = self.detach_port(self.now, number) {
                port.close(&mut self.mem);
            }
            return Err(why);
        }
        Ok(opened.notices)
    }

    /// Begins the capture file of an existing port, if its specification names one.
    pub(crate) fn record_as(
        &mut self,
        number: PortNumber,
        spec: &PortSpec,
    ) -> Result<(), DeviceError> {
        let Some(file) = &spec.capture else { return Ok(()) };
        self.record(number, file)
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
            self.report_link(slot);
            self.report_blocked(slot);
        }
        Ok(())
    }

    /// Checks the links. Messages report changes, and what ports have found out since they were opened.
    pub fn check_links(&mut self, now: Time) {
        self.now = now;
        for index in 0..self.ports.len() {
            if let Some(event) = self.ports.check_link(index, now) {
                self.notify_event(event);
            }
            self.report_link(index);
        }
        self.handle_events();
        self.recording.check(&mut self.ports.messages);
    }

    /// Reports a link that went down or up to the traffic manager: packets queued for it are dropped, other ports lose
    /// nothing. Without `qos:` the port itself reports what it could not send.
    pub(super) fn report_link(&mut self, slot: usize) {
        let is_down = self.manager.configured && self.ports[slot].link_is_down();
        let is_mine = self.ports[slot].present && self.ports.is_here(slot);
        if is_down == self.ports[slot].down || !is_mine {
            return;
        }
        self.ports[slot].down = is_down;
        match is_down {
            true => self.manager.tm.port_down(self.now, port_id(slot)),
            false => self.manager.tm.port_up(self.now, port_id(slot)),
        }
    }

    /// Stops or resumes transmission on a port; packets for it wait in its queues meanwhile.
    pub fn block(&mut self, now: Time, number: PortNumber, is_blocked: bool) {
        let Some(slot) = self.ports.find(number) else { return };
        self.now = now;
        self.ports[slot].held = is_blocked;
        self.report_blocked(slot);
    }

    /// True when the input of every port has ended, generators with a frame limit are done, and nothing is queued.
    /// False while all ports are removed: they may be added again.
    pub fn is_finished(&mut self, now: Time) -> bool {
        self.queued() == 0 && !self.generates() && self.ports.have_ended(now)
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
        self.abandon_control();
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
        self.drop_waiting(slot);
        let place = Box::new(AbsentPort::like(self.ports[slot].port.as_ref()));
        let mut port = std::mem::replace(&mut self.ports[slot].port, place);
        self.ports[slot].is_always_polled = true;
        self.ports[slot].has_queue = false;
        self.leave_recording(slot, true);
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

    /// The captures that are being written.
    pub(crate) fn capture_files(&self) -> Vec<CaptureFile> {
        self.recording.open_files()
    }

    /// Reports ended captures in this file no more.
    pub(crate) fn drop_ended_captures(&mut self, file: &Path) {
        self.recording.drop_ended(file);
    }

    /// Checks that none of these ports is recorded.
    ///
    /// # Errors
    /// One is recorded already: its file would end without a message.
    pub(crate) fn check_recorded(&self, numbers: &[PortNumber]) -> Result<(), DeviceError> {
        for number in numbers {
            let slot = self.ports.find(*number).map(|slot| &self.ports[slot]);
            if let Some(place) = slot.and_then(|slot| slot.recorded) {
                let file = self.recording.path(place);
                return Err(DeviceError::Recorded { port: *number, file });
            }
        }
        Ok(())
    }

    /// Records these ports into a new file from now on.
    ///
    /// # Errors
    /// There is no such port, it is recorded already, or the file is being written already.
    pub(crate) fn record_into(
        &mut self,
        numbers: &[PortNumber],
        recorder: Recorder,
    ) -> Result<(), DeviceError> {
        let slot =
            |number: &PortNumber| self.ports.find(*number).ok_or(DeviceError::NoPort(*number));
        let slots: Vec<usize> = numbers.iter().map(slot).collect::<Result<_, _>>()?;
        if self.recording.find(recorder.path()).is_some() {
            return Err(DeviceError::CaptureTaken(recorder.path().to_owned()));
        }
        self.check_recorded(numbers)?;
        let index = self.recording.begin(recorder, false);
        slots.into_iter().for_each(|slot| self.recording.describe(&mut self.ports[slot], index));
        Ok(())
    }

    /// Stops recording a port, or all; files that record no port any more are ended. Returns the number of ports that
    /// were recorded.
    pub(crate) fn stop_recording(&mut self, number: Option<PortNumber>) -> usize {
        let slots = 0..self.ports.len();
        let slots = slots.filter(|slot| number.is_none_or(|it| it == self.ports[*slot].number));
        let slots: Vec<usize> = slots.collect();
        let stopped = slots.into_iter().filter(|slot| self.leave_recording(*slot, false)).count();
        if number.is_none() {
            self.recording.end_waiting();
        }
        stopped
    }

    /// Stops recording the port in this slot, because the port is removed (`goes`) or by command; false: it was not
    /// recorded.
    fn leave_recording(&mut self, slot: usize, goes: bool) -> bool {
        let Some(place) = self.ports[slot].recorded.take() else { return false };
        let is_used = |slot: &Slot| slot.recorded.is_some_and(|one| one.file == place.file);
        match self.ports.iter().any(is_used) || goes && self.recording.waits(place) {
            true => self.recording.leave(place, self.ports[slot].number),
            false => self.recording.end(place),
        }
        true
    }

    /// Drops packets that were about to be given to the port.
    fn drop_waiting(&mut self, slot: usize) {
        let number = self.ports[slot].number;
        for packet in std::mem::take(&mut self.egress.departing) {
            match egress_of(&packet) == number {
                true => self.refuse(packet, DeviceReason::PortRemoved.index()),
                false => self.egress.departing.push(packet),
            }
        }
        let frames = std::mem::take(&mut self.ports[slot].backlog);
        let from = std::mem::take(&mut self.ports[slot].backlog_from);
        for (frame, from) in frames.into_iter().zip(from) {
            let places = self.ports.drop_places(self.ports.find(from), Some(slot));
            self.recording.shed(places, self.now, &self.mem, &frame, "dropped: port_removed");
            self.mem.free(frame.buf);
            self.ports.account_drop(from, DeviceReason::PortRemoved.index());
        }
        self.ports.active.remove(slot);
    }
}
