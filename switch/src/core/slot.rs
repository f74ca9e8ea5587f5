//! A port with its ledger and the frames that wait for it.

use serde::Serialize;
use wireyard_tables::time::Time;

use super::record::Place;
use crate::ports::faults::FaultReport;
use crate::ports::{LinkState, LinkType, Port, PortStats, TxFrame};
use crate::stats::{Ledger, LedgerReport, Reasons};

/// A port of the device; what every packet touches stands together, first.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// The port.
    pub(super) port: Box<dyn Port>,
    /// Its number.
    pub(super) number: u16,
    /// The worker it belongs to, its owner, where that is another one.
    pub(super) worker: Option<u8>,
    /// A receive queue and a transmit queue of it are here, although it belongs to another worker.
    pub(super) has_queue: bool,
    link: LinkType,
    /// It is asked in every poll, whatever its descriptor says.
    pub(super) is_always_polled: bool,
    /// False once it was removed.
    pub(super) present: bool,
    /// It was reported to the traffic manager that the port takes no more.
    pub(super) blocked: bool,
    /// Its transmission is stopped ([`super::Core::block`]).
    pub(super) held: bool,
    /// It was reported to the traffic manager that the link is down.
    pub(super) down: bool,
    last_state: LinkState,
    /// Where it is recorded.
    pub(super) recorded: Option<Place>,
    /// Packets that came in by it.
    pub(super) ledger: Ledger,
    /// Frames after egress that the port had no room for, and their ingress ports.
    pub(super) backlog: Vec<TxFrame>,
    /// Ingress port of each frame of the backlog.
    pub(super) backlog_from: Vec<u16>,
}

/// A port's counters with names.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Port number.
    pub port: u16,
    /// The port as in its specification.
    pub name: String,
    /// Where the packets that came in by it went.
    pub ledger: LedgerReport,
    /// The port's own counters.
    pub medium: PortStats,
    /// What happened to frames by chance, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultReport>,
}

/// A port as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortState {
    /// Port number.
    pub port: u16,
    /// The port as in its specification.
    pub name: String,
    /// `up`, `no carrier`, `down`, `gone` or `ended`.
    pub link: &'static str,
    /// It is down by command.
    pub shut: bool,
    /// What its frames are.
    pub frames: &'static str,
    /// The worker it belongs to.
    pub worker: usize,
    /// Other workers that serve queues of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<usize>,
    /// Faults on its cable, as `--port` has them.
    pub faults: Option<String>,
}

impl Slot {
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

    pub(super) fn new(number: u16, mut port: Box<dyn Port>) -> Slot {
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
        }
    }

    /// The number of a removed port has one again; the ledger goes on.
    pub(super) fn put_back(&mut self, port: Box<dyn Port>) {
        let ledger = std::mem::take(&mut self.ledger);
        *self = Slot { ledger, ..Slot::new(self.number, port) };
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.link == LinkType::Ethernet
    }

    /// What the program reads in `std.ingress_link`.
    #[inline]
    pub(super) fn link_code(&self) -> u8 {
        match self.link {
            LinkType::Ethernet => 0,
            LinkType::Infiniband => 1,
            LinkType::Opa => 2,
            LinkType::Erf => 3,
        }
    }

    /// The link cannot carry frames now. A capture that was read to its end still takes frames.
    pub(super) fn link_is_down(&self) -> bool {
        !matches!(self.last_state, LinkState::Up | LinkState::Ended)
    }

    /// The link is up, but nothing is at its other end.
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

    /// The link when it was looked at last.
    pub(super) fn last_state(&self) -> LinkState {
        self.last_state
    }

    /// Looks at the link; a message when it changed.
    pub(super) fn check_link(&mut self, now: Time) -> Option<String> {
        let state = self.port.link_state(now);
        if state == self.last_state {
            return None;
        }
        self.last_state = state;
        let number = self.number;
        let by_command = format!("is down by command: `wireyard port up {number}` takes it up");
        let text = match state {
            LinkState::Up => "is up",
            LinkState::NoCarrier => "has no carrier: its peer is down",
            LinkState::Down if self.port.is_shut() => &by_command,
            LinkState::Down => "is down: `ip link set ... up` brings it back",
            LinkState::Gone => "is gone; the other ports go on, and it is used again if it returns",
            LinkState::Ended => return None,
        };
        Some(format!("port {number} ({}) {text}", self.port.name()))
    }
}
