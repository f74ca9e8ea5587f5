//! A port with its ledger and the packets that wait for it.

use serde::Serialize;
use wireyard_pipeline::exec::Descriptor;
use wireyard_tables::time::Time;

use crate::ports::{LinkState, LinkType, Port, PortStats, TxFrame};
use crate::stats::{Ledger, LedgerReport, Reasons};

/// A port of the device.
pub(super) struct Slot {
    /// Its number.
    pub(super) number: u16,
    /// The port.
    pub(super) port: Box<dyn Port>,
    /// Packets that came in by it.
    pub(super) ledger: Ledger,
    /// Packets that go out by it, before egress.
    pub(super) out: Vec<Descriptor>,
    /// Frames after egress that the port had no room for, and their ingress ports.
    pub(super) backlog: Vec<TxFrame>,
    /// Ingress port of each frame of the backlog.
    pub(super) backlog_from: Vec<u16>,
    link: LinkType,
    last_state: LinkState,
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
}

impl Slot {
    pub(super) fn new(number: u16, mut port: Box<dyn Port>) -> Slot {
        let last_state = port.link_state(Time::ZERO);
        Slot {
            number,
            link: port.caps().link,
            port,
            ledger: Ledger::default(),
            out: Vec::new(),
            backlog: Vec::new(),
            backlog_from: Vec::new(),
            last_state,
        }
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.link == LinkType::Ethernet
    }

    /// What the program reads in `std.ingress_link`.
    pub(super) fn link_code(&self) -> u8 {
        match self.link {
            LinkType::Ethernet => 0,
            LinkType::Infiniband => 1,
            LinkType::Opa => 2,
            LinkType::Erf => 3,
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.out.len() + self.backlog.len()
    }

    /// Ingress port of every packet that waits here.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u16> {
        self.out.iter().map(|d| d.ingress_port).chain(self.backlog_from.iter().copied())
    }

    pub(super) fn report(&mut self, reasons: &Reasons, queued: u64) -> PortReport {
        PortReport {
            port: self.number,
            name: self.port.name().to_owned(),
            ledger: LedgerReport::new(&self.ledger, reasons, queued),
            medium: self.port.stats(),
        }
    }

    /// Looks at the link; a message when it changed.
    pub(super) fn check_link(&mut self, now: Time) -> Option<String> {
        let state = self.port.link_state(now);
        if state == self.last_state {
            return None;
        }
        self.last_state = state;
        let text = match state {
            LinkState::Up => "is up",
            LinkState::NoCarrier => "has no carrier: its peer is down",
            LinkState::Down => "is down: `ip link set ... up` brings it back",
            LinkState::Gone => "is gone; the other ports go on, and it is used again if it returns",
            LinkState::Ended => return None,
        };
        Some(format!("port {} ({}) {text}", self.number, self.port.name()))
    }
}
