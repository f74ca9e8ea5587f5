//! The device's links: which are up, who may send, when frames arrive by themselves, and their end.
//!
//! What a port does is in [`ports`](crate::ports); how ports come and go is in `removal`. Here a link that went down or is blocked
//! is told to the traffic manager, so that what waits for it has a fate and others lose nothing.

use std::os::fd::RawFd;

use wireyard_tables::time::Time;

use super::manager::port_id;
use super::{Core, PASSES_MAX};
use crate::control::DeviceEvent;
use crate::ports::{LinkState, PortError};

impl Core {
    /// Looks at the links; messages tell what changed, and what ports found out since they were opened.
    pub fn check_links(&mut self, now: Time) {
        self.now = now;
        for index in 0..self.slots.len() {
            if let Some(message) = self.slots[index].check_link(now) {
                self.port_messages.push(message);
                let (port, state) = (self.slots[index].number, self.slots[index].last_state());
                self.say_event(DeviceEvent::Link { port, state });
            }
            let number = self.slots[index].number;
            let notices = self.slots[index].port.notices().into_iter();
            self.port_messages.extend(notices.map(|notice| format!("port {number}: {notice}")));
            self.tell_link(index);
        }
        self.handle_events();
        self.check_recording();
    }

    /// Tells the traffic manager about a link that went down or came back: what was queued for it is
    /// dropped, others lose nothing. Without a configuration the port itself says what it could not send.
    pub(super) fn tell_link(&mut self, slot: usize) {
        let is_down = self.manager.configured && self.slots[slot].link_is_down();
        if is_down == self.slots[slot].down || !self.slots[slot].present {
            return;
        }
        self.slots[slot].down = is_down;
        match is_down {
            true => self.manager.tm.port_down(self.now, port_id(slot)),
            false => self.manager.tm.port_up(self.now, port_id(slot)),
        }
    }

    /// Stops or resumes transmission on a port; what is for it waits in its queues meanwhile.
    pub fn block(&mut self, now: Time, number: u16, is_blocked: bool) {
        let Some(slot) = self.slot(number) else { return };
        self.now = now;
        self.slots[slot].held = is_blocked;
        self.tell_blocked(slot);
    }

    /// True when every port has come to the end of its input, generators that end have ended, and nothing waits. Not while
    /// all ports are removed: they may come back.
    pub fn is_finished(&mut self, now: Time) -> bool {
        self.queued() == 0
            && !self.generates()
            && self.slots.iter().any(|slot| slot.present)
            && self.slots.iter_mut().all(|slot| slot.port.link_state(now) == LinkState::Ended)
    }

    /// When the next frame of an input with its own time arrives; `None` when none will.
    pub fn next_arrival(&mut self) -> Option<Time> {
        self.slots.iter_mut().filter_map(|slot| slot.port.next_arrival()).min()
    }

    /// The same for one port.
    pub fn next_arrival_at(&mut self, number: u16) -> Option<Time> {
        let slot = self.slot(number)?;
        self.slots[slot].port.next_arrival()
    }

    /// Numbers and descriptors of the ports that have one: what to sleep on, and what tells [`Core::poll_readable`] whom to ask.
    pub fn poll_fds(&self) -> impl Iterator<Item = (u16, RawFd)> {
        self.slots.iter().filter_map(|slot| Some((slot.number, slot.port.poll_fd()?)))
    }

    /// True if every port is asked in every poll, whatever its descriptor tells.
    pub fn polls_always(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_always_polled)
    }

    /// How often ports came or went: who waits on their descriptors has to look again.
    pub fn port_changes(&self) -> u64 {
        self.port_changes
    }

    /// Sends what waits and closes the ports.
    pub fn drain(&mut self, now: Time) -> Vec<PortError> {
        for _ in 0..PASSES_MAX {
            if self.queued() == 0 {
                break;
            }
            self.poll_timers(now, None);
        }
        self.close()
    }

    /// Pushes out what is under way, closes the ports and capture files, and gives the chunks back.
    pub fn close(&mut self) -> Vec<PortError> {
        let mut errors = Vec::new();
        for slot in &mut self.slots {
            if let Err(error) = slot.port.flush(&mut self.mem) {
                errors.push(error);
            }
            slot.port.close(&mut self.mem);
        }
        self.finish_recording();
        errors.extend(self.recording_errors());
        errors
    }

    /// True while the link of a port is up but has no carrier: where that is new, the system takes up to a second to see it.
    pub fn waits_for_carrier(&mut self, now: Time) -> bool {
        let present = self.slots.iter_mut().filter(|slot| slot.present && slot.worker.is_none());
        let mut waits = false;
        for slot in present {
            slot.check_link(now);
            waits |= slot.has_no_carrier();
        }
        waits
    }
}
