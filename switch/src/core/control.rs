//! The device's part of its control handle: commands between two bursts.

use std::any::Any;
use std::sync::Arc;

use wireyard_pipeline::exec::{Intrinsic, flags};
use wireyard_pipeline::generation::Generation;
use wireyard_tables::time::Time;

use super::manager::slot_of;
use super::message::{Message, Topic};
use super::notice::{DeviceEvent, IdleNotice, NoticeKind};
use super::worker_link::{BETWEEN_BURSTS, Subscriber, WorkerLink};
use super::{Core, IdleEntry};
use crate::ports::PortNumber;
use crate::tm::{PortId, Terms};

impl Core {
    /// The handle on this device, made by [`control`](crate::control).
    pub(crate) fn control_handle(&self) -> Option<&dyn Any> {
        self.control.as_ref().map(|link| link.handle())
    }

    /// Connects this device to the control handle through `link`.
    pub(crate) fn set_control(&mut self, link: WorkerLink) {
        self.control = Some(Box::new(link));
    }

    /// Sets the function that wakes the loop that polls this device.
    pub(crate) fn wake_by(&self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Some(link) = &self.control {
            link.wake_by(wake);
        }
    }

    /// True while commands of control wait.
    pub fn has_commands(&self) -> bool {
        self.control.as_ref().is_some_and(|link| link.has_commands())
    }

    /// Executes pending commands of control. [`Core::poll`] and [`Core::poll_readable`] do this first.
    #[inline]
    pub fn serve_control(&mut self, now: Time) {
        if self.control.as_ref().is_some_and(|link| link.polled(now)) {
            self.serve_commands(now);
        }
    }

    #[cold]
    fn serve_commands(&mut self, now: Time) {
        self.now = now;
        self.manager.tm.advance(now);
        for _ in 0..BETWEEN_BURSTS {
            let Some(command) = self.control.as_mut().and_then(|link| link.next()) else { return };
            command(self, now);
        }
    }

    /// Executes no more commands of control: callers that wait for one get an error.
    pub(super) fn abandon_control(&mut self) {
        if let Some(link) = &mut self.control {
            link.abandon();
        }
    }

    /// Changes to a new program now, if there is one.
    pub(crate) fn refresh_program(&mut self) {
        let known = self.executor.current().map(|generation| generation.id);
        self.executor.refresh();
        if let Some(generation) = self.executor.current().filter(|new| Some(new.id) != known) {
            let name = generation.program.name.clone();
            self.notify_event(DeviceEvent::Program { name });
        }
    }

    /// Adds a subscription to the notices of this worker.
    pub(crate) fn subscribe_control(&mut self, subscriber: Subscriber) {
        let Some(link) = &mut self.control else { return };
        link.subscribe(subscriber);
        self.listen_for_control();
    }

    /// Collects digests and punted packets while a subscription includes them.
    fn listen_for_control(&mut self) {
        let Some(link) = &self.control else { return };
        let wanted = link.interest();
        match wanted.digests {
            true => self.device.listen(),
            false => self.device.stop_listening(),
        }
        match wanted.packets {
            true => self.listen_to_punts(),
            false => self.outcomes.punted = None,
        }
    }

    /// Sends an event to the subscribers.
    pub(super) fn notify_event(&mut self, event: DeviceEvent) {
        self.notify(NoticeKind::Event(event));
    }

    /// Reports a pause storm in the messages and to the subscribers; `None` is the CPU port.
    pub(super) fn notify_storm(&mut self, port: PortId, queue: u8, over: bool, text: String) {
        let port = slot_of(port).map(|slot| self.ports[slot].number);
        let event = DeviceEvent::PauseStorm { port, queue, over };
        self.ports.messages.push(Message::new(Topic::Event(event.clone()), text));
        self.notify_event(event);
    }

    /// Sends idle entries to the subscribers.
    pub(super) fn notify_idle(&mut self, generation: &Generation, found: &[IdleEntry]) {
        for one in found {
            let program = Arc::clone(&generation.program);
            self.notify(NoticeKind::Idle(IdleNotice { program, idle: one.clone() }));
        }
    }

    /// Sends a notice to the subscribers.
    pub(super) fn notify(&mut self, kind: NoticeKind) {
        if let Some(link) = &mut self.control {
            link.notify(self.now, kind);
        }
    }

    /// Passes the digests and punted packets since the last call to the subscribers.
    #[inline]
    pub(super) fn pass_on_to_control(&mut self) {
        if self.control.as_ref().is_some_and(|link| link.has_subscribers()) {
            self.pass_on();
        }
    }

    #[cold]
    fn pass_on(&mut self) {
        let Some(link) = &mut self.control else { return };
        if self.device.has_digests() {
            let digests = self.device.take_digests().into_iter();
            digests.for_each(|digest| link.notify(self.now, NoticeKind::Digest(digest)));
        }
        if let Some(punted) = self.outcomes.punted.as_mut().filter(|punted| !punted.is_empty()) {
            let packets = punted.drain(..);
            packets.for_each(|packet| link.notify(self.now, NoticeKind::Packet(packet)));
        }
        if link.pass_on() {
            self.listen_for_control();
        }
    }

    /// Injects a packet into ingress as if it had been received by this port. False where no packet memory is free.
    pub(crate) fn inject_at(&mut self, port: PortNumber, frame: &[u8], now: Time) -> bool {
        let Some(slot) = self.ports.find(port) else { return false };
        let before = self.ingress.again.len();
        self.enter(slot, frame, now);
        self.ingress.again.len() > before
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
        let Some(mut packet) = self.own_packet(slot, frame) else { return false };
        if let Some(class) = class {
            packet.traffic_class = class;
            packet.flags |= flags::CLASS_ASSIGNED;
        }
        self.manager.classify(Some(slot), &mut packet, &Intrinsic::default());
        self.offer(slot, &mut packet, Terms::default());
        true
    }
}
