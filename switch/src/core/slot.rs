//! A port with its ledger and the frames that wait for it.

use serde::Serialize;
use wireyard_tables::time::Time;

use super::record::Place;
use crate::ports::faults::FaultReport;
use crate::ports::{LinkState, LinkType, Port, PortNumber, PortStats, TxFrame};
use crate::stats::{Ledger, LedgerReport, Reasons};

/// A port of the device. Fields that every packet uses come first, together.
#[repr(C, align(64))]
pub struct Slot {
    pub(super) port: Box<dyn Port>,
    /// Its number.
    pub(super) number: PortNumber,
    /// The worker that owns it; `None` for this worker.
    pub(super) worker: Option<u8>,
    /// This worker has a receive queue and a transmit queue of it, although another worker owns it.
    pub(super) has_queue: bool,
    link: LinkType,
    /// It must be polled in every poll, regardless of its descriptor.
    pub(super) is_always_polled: bool,
    /// False after its removal.
    pub(super) present: bool,
    /// The traffic manager was notified that the port accepts no frames.
    pub(super) blocked: bool,
    /// Its transmission is stopped ([`super::Core::block`]).
    pub(super) held: bool,
    /// The traffic manager was notified that the link is down.
    pub(super) down: bool,
    last_state: LinkState,
    /// The state that messages have reported; a new port is taken to be up.
    reported: LinkState,
    /// Where it is recorded.
    pub(super) recorded: Option<Place>,
    /// Counts of packets received by it.
    pub(super) ledger: Ledger,
    /// Frames after egress that wait for room in the port.
    pub(super) backlog: Vec<TxFrame>,
    /// Ingress port of each frame of the backlog.
    pub(super) backlog_from: Vec<PortNumber>,
}

/// A port's counters with names.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Port number.
    pub port: PortNumber,
    /// The port as in its specification.
    pub name: String,
    /// Outcomes of the packets received by it.
    pub ledger: LedgerReport,
    /// The port's own counters.
    pub medium: PortStats,
    /// Injected faults, where configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultReport>,
}

/// A port as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortState {
    /// Port number.
    pub port: PortNumber,
    /// The port as in its specification.
    pub name: String,
    /// `up`, `no_carrier`, `down`, `gone` or `ended`.
    pub link: &'static str,
    /// It was shut down by command.
    pub shut: bool,
    /// The link type of its frames.
    pub frames: &'static str,
    /// The worker that owns it.
    pub worker: usize,
    /// Other workers that serve queues of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<usize>,
    /// Faults on its cable, in the notation of `--port`.
    pub faults: Option<String>,
}

/// A port, with what a client outside of the device needs to send and receive in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPlace {
    /// Its number.
    pub number: PortNumber,
    /// Source address of its own frames.
    pub mac: [u8; 6],
    /// MTU in bytes, without the Ethernet header; `None` if unknown.
    pub mtu_bytes: Option<u32>,
    /// Its link is up.
    pub up: bool,
    /// The worker that owns it.
    pub worker: usize,
}

impl Slot {
    /// True for a present port that this worker owns.
    pub(super) fn is_owned(&self) -> bool {
        self.present && self.worker.is_none()
    }

    /// Its state now; `worker` is this worker.
    pub(super) fn state(&self, worker: usize) -> PortState {
        PortState {
            port: self.number,
            name: self.port.name().to_owned(),
            link: self.last_state.name(),
            shut: self.port.is_shut(),
            frames: self.link.name(),
            worker,
            also: Vec::new(),
            faults: self.port.fault_setup().map(|setup| setup.to_string()),
        }
    }

    pub(super) fn new(number: PortNumber, mut port: Box<dyn Port>) -> Slot {
        let last_state = port.link_state(Time::ZERO);
        Slot {
            number,
            present: true,
            is_always_polled: port.poll_fd().is_none() || port.is_always_polled(),
            link: port.caps().link,
            port,
            worker: None,
            has_queue: false,
            ledger: Ledger::default(),
            backlog: Vec::new(),
            backlog_from: Vec::new(),
            blocked: false,
            held: false,
            down: false,
            recorded: None,
            last_state,
            reported: LinkState::Up,
        }
    }

    /// Puts a port into the slot of a removed one with its number; the ledger continues.
    pub(super) fn put_back(&mut self, port: Box<dyn Port>) {
        let ledger = std::mem::take(&mut self.ledger);
        *self = Slot { ledger, ..Slot::new(self.number, port) };
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.link == LinkType::Ethernet
    }

    /// The value of `std.ingress_link` in the program.
    #[inline]
    pub(super) fn link_code(&self) -> u8 {
        self.link.code()
    }

    /// True if the link cannot carry frames now. A capture whose input has ended still takes frames.
    pub(super) fn link_is_down(&self) -> bool {
        !matches!(self.last_state, LinkState::Up | LinkState::Ended)
    }

    /// True if the interface is up, and its peer or cable is not.
    pub(super) fn has_no_carrier(&self) -> bool {
        self.last_state == LinkState::NoCarrier
    }

    pub(super) fn report(&mut self, reasons: &Reasons, queued: u64) -> PortReport {
        PortReport {
            port: self.number,
            name: self.port.name().to_owned(),
            ledger: LedgerReport::new(&self.ledger, reasons, queued),
            medium: self.port.stats(),
            faults: self.port.faults(),
        }
    }

    /// The state of the link at the last check.
    pub(super) fn last_state(&self) -> LinkState {
        self.last_state
    }

    /// Reads the state of the link.
    pub(super) fn look_at_link(&mut self, now: Time) {
        self.last_state = self.port.link_state(now);
    }

    /// Checks the link; returns its state with a message if that is another than the last one reported.
    pub(super) fn check_link(&mut self, now: Time) -> Option<(LinkState, String)> {
        self.look_at_link(now);
        let state = match self.last_state {
            // The end of an input is no change of a link: the port still sends.
            LinkState::Ended => LinkState::Up,
            state => state,
        };
        let before = std::mem::replace(&mut self.reported, state);
        if state == before || !self.present {
            return None;
        }
        let (number, name) = (self.number, self.port.name());
        let text = match state {
            LinkState::Up | LinkState::Ended => "is up".to_owned(),
            LinkState::NoCarrier => "has no carrier: its peer is down".to_owned(),
            LinkState::Down if self.port.is_shut() => {
                format!("is down by command: `wireyard port up {number}` takes it up")
            }
            LinkState::Down => match self.port.interface() {
                Some(interface) => format!("is down: `ip link set {interface} up` brings it back"),
                None => "is down".to_owned(),
            },
            LinkState::Gone => {
                "is gone; the other ports go on, and it is used again if it returns".to_owned()
            }
        };
        Some((state, format!("port {number} ({name}) {text}")))
    }
}
