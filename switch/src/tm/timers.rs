//! Timers and outside events: pauses received and sent, watchdog, delayed packets, link state.

use wireyard_tables::time::{Deadline, Time};

use crate::units::Quanta;

use super::admit::resume_group;
use super::id::{CLASSES, CONTROL_QUEUE, DropReason, PortId};
use super::pfc::{FlowControl, FlowControlFrame, PauseReceiver, PauseSender, PfcFrame};
use super::scheduler::{bits, mask};
use super::watchdog::{Change, Sight, StormAction};
use super::{Event, Tm};

impl<P: Default> Tm<P> {
    /// Runs every timer due at or before `now`, in order of time; of equal instants the ends of frames first.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        loop {
            let (timer, port) = self.deadlines.first();
            let (wire, hold) = (self.wires.first(), self.holds.first());
            let first = wire.min(timer).min(hold);
            let Some(at) = first.instant().filter(|at| *at <= now) else { return };
            self.flush(at);
            if wire <= timer.min(hold) {
                self.frame_ended();
            } else if timer <= hold {
                self.run_timers(at, PortId(port as u16));
            } else if let Some(slot) = self.holds.due(at) {
                self.queue_held(at, slot);
            }
        }
    }

    /// Ends the earliest frame on a wire: its memory is released, and the link is free.
    #[inline]
    fn frame_ended(&mut self) {
        let Some((at, port)) = self.wires.pop() else { return };
        let id = PortId(port);
        self.release_wire(id, at);
        if self.ports[id.index()].has_work() {
            self.ready.insert(id.index());
        }
    }

    fn run_timers(&mut self, at: Time, id: PortId) {
        let port = &mut self.ports[id.index()];
        if port.wake_at.is_by(at) {
            port.wake_at = Deadline::NEVER;
            self.arm_sending(at, id);
        }
        let port = &mut self.ports[id.index()];
        if !port.other_timer.is_by(at) {
            return self.arm(id);
        }
        if port.pause_rx.next_change().is_by(at) {
            if let Some(rate) = port.quantum_rate() {
                port.pause_rx.advance(at, rate, &mut port.pauses);
            }
            self.pauses_changed(at, id);
        }
        if self.ports[id.index()].pause_tx.refresh_at.is_by(at) {
            self.refresh_flow_control(at, id);
        }
        let watchdog = self.ports[id.index()].watchdog.as_ref();
        if watchdog.is_some_and(|watchdog| watchdog.poll_at.is_by(at)) {
            self.poll_watchdog(at, id);
        }
        self.arm_timer(id);
    }

    /// A PFC frame arrived on `id` (802.1Qbb). Priorities that are not enabled are ignored and counted.
    pub fn pfc_received(&mut self, now: Time, id: PortId, frame: &PfcFrame) {
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        let flow = port.config.flow_control;
        let honoured = if flow.mode == FlowControl::Pfc { frame.vector & flow.enabled } else { 0 };
        port.pauses.rx_ignored += u64::from((frame.vector & !honoured).count_ones());
        self.pause(now, id, PfcFrame { vector: honoured, ..*frame });
    }

    /// A PAUSE frame arrived on `id` (802.3 Annex 31B). Ignored and counted while PFC is on.
    pub fn pause_received(&mut self, now: Time, id: PortId, quanta: Quanta) {
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        if port.config.flow_control.mode != FlowControl::Pause {
            port.pauses.rx_ignored += 1;
            return;
        }
        self.pause(now, id, PfcFrame { vector: 1, quanta: [quanta; CLASSES] });
    }

    fn pause(&mut self, now: Time, id: PortId, frame: PfcFrame) {
        self.flush(now);
        let port = &mut self.ports[id.index()];
        let Some(rate) = port.quantum_rate() else { return };
        if frame.vector == 0 || !port.present {
            return;
        }
        for p in bits(frame.vector) {
            match frame.quanta[usize::from(p)] {
                Quanta::ZERO => port.pauses.rx_xon[usize::from(p)] += 1,
                _ => port.pauses.rx_xoff[usize::from(p)] += 1,
            }
        }
        if let Some(mut watchdog) = port.watchdog.take() {
            let counted = frame.vector & mask(|p| frame.quanta[p] != Quanta::ZERO);
            watchdog.arm(now, |queue| {
                // The pause that starts the watch counts as part of it.
                let started = u64::from((counted & port.priorities_of_queue(queue)).count_ones());
                let sight = port.sight(queue, now);
                Sight { pauses: sight.pauses.saturating_sub(started), ..sight }
            });
            port.watchdog = Some(watchdog);
        }
        let response = port.config.flow_control.response;
        if self.received_pauses.is_some() {
            let longest = bits(frame.vector).map(|p| frame.quanta[usize::from(p)]).max();
            let lasts = longest.unwrap_or(Quanta::ZERO).span(rate);
            self.note_received_pause(now, id, &frame, lasts);
        }
        let port = &mut self.ports[id.index()];
        port.pause_rx.advance(now, rate, &mut port.pauses);
        port.pause_rx.receive(now, frame, response, rate, &mut port.pauses);
        self.pauses_changed(now, id);
        self.arm_timer(id);
    }

    /// Sets the priorities of a port that have PFC, bit n for priority n. Queues paused by a priority that is disabled
    /// resume, and a peer that was stopped for it gets an XON.
    pub fn set_pfc_enabled(&mut self, now: Time, id: PortId, enabled: u8) {
        self.flush(now);
        self.deferred.invalidate();
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        let gone = port.config.flow_control.enabled & !enabled;
        let before = port.watched_queues();
        port.config.flow_control.enabled = enabled;
        let unwatched = before & !port.watched_queues();
        self.end_storms(id, unwatched);
        let port = &mut self.ports[id.index()];
        if let Some(rate) = port.quantum_rate().filter(|_| gone != 0) {
            port.pause_rx.advance(now, rate, &mut port.pauses);
            port.pause_rx.disable(now, gone, &mut port.pauses);
            self.pauses_changed(now, id);
        }
        self.send_flow_control(now, id);
        self.arm_timer(id);
    }

    fn pauses_changed(&mut self, at: Time, id: PortId) {
        self.ports[id.index()].update_paused(at);
        self.arm_sending(at, id);
    }

    /// Sends the state of the priority groups to the peer of `id`, if it changed.
    pub(crate) fn send_flow_control(&mut self, now: Time, id: PortId) {
        let port = &self.ports[id.index()];
        if port.wanted_xoff() != port.pause_tx.stopped && port.present {
            self.emit_flow_control(now, id);
        }
    }

    /// Half of the announced pause is over: resumes if the pool allows it by now, or else repeats the pause.
    fn refresh_flow_control(&mut self, at: Time, id: PortId) {
        let few_slots = self.slots.used() >= self.levels.resume;
        let port = &mut self.ports[id.index()];
        let flow = port.config.flow_control;
        let rate = port.quantum_rate();
        if rate.is_some_and(|rate| port.pause_tx.skips_refresh(at, self.now, &flow, rate)) {
            return;
        }
        for group in &mut port.groups {
            if let Some(pool) = self.pools.get(usize::from(group.account.config.pool.0)) {
                resume_group(group, pool, few_slots);
            }
        }
        self.note_stops();
        self.emit_flow_control(at, id);
    }

    fn emit_flow_control(&mut self, now: Time, id: PortId) {
        let port = &mut self.ports[id.index()];
        let wanted = port.wanted_xoff();
        let flow = port.config.flow_control;
        let Some(rate) = port.quantum_rate() else {
            port.pause_tx = PauseSender::IDLE;
            return;
        };
        let before = port.pause_tx.stopped;
        let frame = port.pause_tx.announce(now, wanted, &flow, rate, &mut port.pauses);
        port.await_honouring(now, before, wanted);
        if self.pause_log.is_some() {
            self.note_pause(now, id, (before, wanted));
        }
        let frame = match flow.mode {
            FlowControl::Off => return,
            FlowControl::Pfc => FlowControlFrame::Pfc(frame),
            FlowControl::Pause => FlowControlFrame::Pause(frame.quanta[0]),
        };
        self.events.push_back(Event::FlowControl { port: id, frame });
        self.arm_timer(id);
    }

    fn poll_watchdog(&mut self, at: Time, id: PortId) {
        let port = &mut self.ports[id.index()];
        let Some(mut watchdog) = port.watchdog.take() else { return };
        let watched = port.watched_queues();
        let sights: [_; CLASSES] = std::array::from_fn(|q| port.sight(q as u8, at));
        let action = watchdog.config.action;
        let mut changes = [Change::None; CLASSES];
        for (queue, sight) in (0u8..).zip(sights) {
            let is_watched = watched & 1 << queue != 0;
            changes[usize::from(queue)] = watchdog.look(queue, sight, is_watched);
        }
        let goes_on = !port.pause_rx.next_change().is_never() || watchdog.is_busy();
        let poll_at = goes_on.then(|| at + watchdog.config.poll);
        watchdog.poll_at = poll_at.into();
        port.watchdog = Some(watchdog);
        port.apply_storms();
        for (queue, change) in (0u8..).zip(changes) {
            match change {
                Change::None => {}
                Change::Storm => self.storm_detected(at, id, queue, action),
                Change::Restored => self.events.push_back(Event::StormRestored { port: id, queue }),
            }
        }
        self.ports[id.index()].update_passes();
        self.arm_sending(at, id);
    }

    /// Ends the storms of these queues, which are not watched any more, or whose link went down.
    fn end_storms(&mut self, id: PortId, queues: u8) {
        let port = &mut self.ports[id.index()];
        let Some(watchdog) = &mut port.watchdog else { return };
        let ended = watchdog.restart(queues);
        port.apply_storms();
        for queue in bits(ended) {
            self.events.push_back(Event::StormRestored { port: id, queue });
        }
    }

    fn storm_detected(&mut self, at: Time, id: PortId, queue: u8, action: StormAction) {
        self.events.push_back(Event::StormDetected { port: id, queue, action });
        match action {
            StormAction::Alert => {}
            StormAction::Forward => {
                self.ports[id.index()].queues[usize::from(queue)].open_since = at
            }
            StormAction::Drop => {
                let flushed = self.flush_queue(at, id, queue, DropReason::WatchdogStorm);
                if let Some(watchdog) = &mut self.ports[id.index()].watchdog {
                    watchdog.counters[usize::from(queue)].tx_dropped += flushed;
                }
            }
        }
    }

    /// Stops or resumes all transmission of a port, for a test or because the transmit ring is full.
    pub fn set_blocked(&mut self, now: Time, id: PortId, blocked: bool) {
        self.flush(now);
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        if port.blocked && !blocked {
            for queue in &mut port.queues {
                queue.open_since = now;
            }
        }
        port.blocked = blocked;
        port.update_passes();
        self.arm_sending(now, id);
    }

    /// The link went down, or the port is being removed: everything queued is dropped with events, new packets are
    /// refused, pauses are cleared. Other ports are not affected.
    pub fn port_down(&mut self, now: Time, id: PortId) {
        self.flush(now);
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        port.present = false;
        port.pause_rx.clear(now, &mut port.pauses);
        port.pause_rx = PauseReceiver::new();
        port.pause_tx = PauseSender::IDLE;
        if let Some(watchdog) = &mut port.watchdog {
            watchdog.poll_at = Deadline::NEVER;
        }
        self.end_storms(id, u8::MAX);
        self.ports[id.index()].update_paused(now);
        self.wires.remove(id.0);
        self.release_wire(id, now);
        // A departure between begin and commit ends here; its commit returns `None`.
        if let Some(leaving) = self.ports[id.index()].pending.take() {
            self.drop_leaving(now, id, &leaving, DropReason::PortDown);
        }
        for queue in 0..=CONTROL_QUEUE {
            self.flush_queue(now, id, queue, DropReason::PortDown);
        }
        self.ready.remove(id.index());
        self.arm_timer(id);
    }

    /// The link is up again. XOFF is sent again where groups are still over their threshold.
    pub fn port_up(&mut self, now: Time, id: PortId) {
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        port.present = true;
        for queue in &mut port.queues {
            queue.open_since = now;
        }
        port.update_passes();
        self.send_flow_control(now, id);
        self.arm_sending(now, id);
    }
}
