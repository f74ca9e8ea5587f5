//! A record of the pauses that a traffic manager asked for, with the queue behind each, and of those that it was asked for.
//!
//! It is off unless it is asked for; nothing of it is on the path of a packet. The cause of a pause is the deepest queue of the classes
//! that are stopped: what fills a priority group waits in queues, and the deepest holds most of it.

use wireyard_tables::time::{Span, Time};

use super::{CLASSES, PfcFrame, PortId, Tm};
use crate::units::Quanta;

/// Events kept at most.
const EVENTS_MAX: usize = 1 << 20;

/// A change of what a peer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// When.
    pub at: Time,
    /// The port whose peer is asked.
    pub port: PortId,
    /// Priorities to stop.
    pub stopped: u8,
    /// Priorities that may go on.
    pub resumed: u8,
    /// The port with the deepest queue of these classes, and whether that queue is itself stopped by a pause.
    pub cause: Option<(PortId, bool)>,
}

/// A frame of flow control that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPause {
    /// When.
    pub at: Time,
    /// The port that it arrived on.
    pub port: PortId,
    /// Priorities that it stops, also those that stand already.
    pub stopped: u8,
    /// Priorities that it lets go on.
    pub resumed: u8,
    /// How long the longest of its pauses lasts if no other frame follows.
    pub lasts: Span,
}

impl<P> Tm<P> {
    /// Records pauses from now on, those that are asked for and those that arrive.
    pub fn observe_pauses(&mut self) {
        self.pause_log.get_or_insert_default();
        self.received_pauses.get_or_insert_default();
    }

    /// The frames of flow control that arrived.
    pub fn received_pauses(&self) -> &[ReceivedPause] {
        self.received_pauses.as_deref().unwrap_or_default()
    }

    #[cold]
    pub(super) fn note_received_pause(
        &mut self,
        at: Time,
        port: PortId,
        frame: &PfcFrame,
        lasts: Span,
    ) {
        let stopped = (0..CLASSES).filter(|p| frame.quanta[*p] != Quanta::ZERO);
        let stopped = stopped.fold(0, |mask, p| mask | 1 << p) & frame.vector;
        let received = ReceivedPause { at, port, stopped, resumed: frame.vector & !stopped, lasts };
        let log = self.received_pauses.get_or_insert_default();
        if log.len() < EVENTS_MAX {
            log.push(received);
        }
    }

    /// What was recorded.
    pub fn pause_log(&self) -> &[PauseEvent] {
        self.pause_log.as_deref().unwrap_or_default()
    }

    #[cold]
    pub(super) fn note_pause(&mut self, at: Time, port: PortId, (before, wanted): (u8, u8)) {
        let (stopped, resumed) = (wanted & !before, before & !wanted);
        if stopped | resumed == 0 {
            return;
        }
        let cause = if stopped == 0 { None } else { self.deepest(stopped) };
        let log = self.pause_log.get_or_insert_default();
        if log.len() < EVENTS_MAX {
            log.push(PauseEvent { at, port, stopped, resumed, cause });
        }
    }

    fn deepest(&self, classes: u8) -> Option<(PortId, bool)> {
        let queues = self.ports.iter().enumerate().flat_map(|(number, port)| {
            let of = (0..CLASSES).filter(move |queue| classes & 1 << queue != 0);
            of.map(move |queue| {
                (port.queues[queue].fifo.bytes, number, port.paused & 1 << queue != 0)
            })
        });
        // Of equals the first.
        let (bytes, number, paused) =
            queues.max_by_key(|(bytes, number, _)| (*bytes, std::cmp::Reverse(*number)))?;
        (bytes > 0).then_some((PortId(number as u16), paused))
    }
}
