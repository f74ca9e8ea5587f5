//! A record of the pauses that a traffic manager sent, with the queue behind each, and of those that it received.
//!
//! It is off by default, and not on the path of a packet. The cause of a pause is the deepest queue of the stopped
//! classes: the packets that fill a priority group wait in queues, and the deepest has most of them.

use wireyard_tables::time::{Span, Time};

use super::scheduler::mask;
use super::{CLASSES, PfcFrame, PortId, Tm};
use crate::units::Quanta;

/// Maximum number of events kept.
const EVENTS_MAX: usize = 1 << 20;

/// A change of the priorities in XOFF at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// The time.
    pub at: Time,
    /// The port that sent the pause.
    pub port: PortId,
    /// Priorities to stop.
    pub stopped: u8,
    /// Priorities that may resume.
    pub resumed: u8,
    /// The port with the deepest queue of these classes, and whether that queue is itself stopped by a pause.
    pub cause: Option<(PortId, bool)>,
}

/// A received flow control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPause {
    /// The time.
    pub at: Time,
    /// The port that received it.
    pub port: PortId,
    /// Priorities that it stops, including those already stopped.
    pub stopped: u8,
    /// Priorities that it resumes.
    pub resumed: u8,
    /// The longest of its pause times.
    pub lasts: Span,
}

impl<P> Tm<P> {
    /// Records pauses sent and received from now on.
    pub fn observe_pauses(&mut self) {
        self.pause_log.get_or_insert_default();
        self.received_pauses.get_or_insert_default();
    }

    /// The flow control frames received since [`Tm::observe_pauses`], the first 2^20 of them.
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
        let stopped = mask(|p| frame.quanta[p] != Quanta::ZERO) & frame.vector;
        let received = ReceivedPause { at, port, stopped, resumed: frame.vector & !stopped, lasts };
        let log = self.received_pauses.get_or_insert_default();
        if log.len() < EVENTS_MAX {
            log.push(received);
        }
    }

    /// The pauses sent since [`Tm::observe_pauses`], the first 2^20 of them.
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
        // Among equals the first.
        let (bytes, number, paused) =
            queues.max_by_key(|(bytes, number, _)| (*bytes, std::cmp::Reverse(*number)))?;
        (bytes > 0).then_some((PortId(number as u16), paused))
    }
}
