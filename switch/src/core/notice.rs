//! Notices of a worker to its subscribers: digests, punted packets, idle entries and events. Readers are in
//! [`control`](crate::control::Stream).

use std::sync::Arc;

use wireyard_pipeline::ir::Program;
use wireyard_tables::time::Time;

use super::{IdleEntry, PuntedPacket};
use crate::device::DigestMessage;
use crate::ports::{LinkState, PortNumber};

/// The kinds of notices of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Digests of the program.
    pub digests: bool,
    /// Packets to the CPU port.
    pub packets: bool,
    /// Entries that no packet hit for their idle timeout.
    pub idle: bool,
    /// Links, pause storms, full tables, programs.
    pub events: bool,
}

impl Interest {
    /// Everything.
    pub const ALL: Interest = Interest { digests: true, packets: true, idle: true, events: true };

    /// The kinds in either.
    pub(super) fn or(self, other: Interest) -> Interest {
        Interest {
            digests: self.digests || other.digests,
            packets: self.packets || other.packets,
            idle: self.idle || other.idle,
            events: self.events || other.events,
        }
    }

    pub(super) fn includes(self, kind: &NoticeKind) -> bool {
        match kind {
            NoticeKind::Digest(_) => self.digests,
            NoticeKind::Packet(_) => self.packets,
            NoticeKind::Idle(_) => self.idle,
            NoticeKind::Event(_) => self.events,
        }
    }
}

/// An entry that no packet hit for its idle timeout.
#[derive(Clone, Debug)]
pub struct IdleNotice {
    /// The program with the table.
    pub program: Arc<Program>,
    /// The entry as its table contains it, and whether the device has removed it (`on_idle: remove`).
    pub idle: IdleEntry,
}

/// An event of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// A link changed.
    Link {
        /// Its port.
        port: PortNumber,
        /// Its new state.
        state: LinkState,
    },
    /// A peer keeps a queue paused for longer than its watchdog allows, or has ended that.
    PauseStorm {
        /// The port; `None` is the CPU port.
        port: Option<PortNumber>,
        /// The queue.
        queue: u8,
        /// The storm has ended.
        over: bool,
    },
    /// A table became full, or has room again.
    TableFull {
        /// Its name.
        table: String,
        /// It has room again.
        over: bool,
    },
    /// New packets of this worker run another program from now on.
    Program {
        /// Its name.
        name: String,
    },
}

impl DeviceEvent {
    /// Its name in the log and in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            DeviceEvent::Link { .. } => "link",
            DeviceEvent::PauseStorm { .. } => "pause_storm",
            DeviceEvent::TableFull { .. } => "table_full",
            DeviceEvent::Program { .. } => "program",
        }
    }
}

/// The content of a notice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NoticeKind {
    /// A digest, with the program that its id is of.
    Digest(DigestMessage),
    /// A packet to the CPU port, after egress: with the headers that the program added for the control plane.
    Packet(PuntedPacket),
    /// An entry is idle.
    Idle(IdleNotice),
    /// An event.
    Event(DeviceEvent),
}

/// A notice of a worker.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The worker.
    pub worker: usize,
    /// The device's time.
    pub time: Time,
    /// Its content.
    pub kind: NoticeKind,
}
