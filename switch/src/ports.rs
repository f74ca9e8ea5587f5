//! Ports: where frames enter and leave a device.
//!
//! One trait for all kinds, in bursts, on packet memory: a port fills chunks and gives the handles to its caller, and
//! takes handles back when it sends. A port makes no forwarding decision; what it could not do is counted by name in
//! [`PortStats`].
//!
//! A live port does not loop, sleep or read a clock: the run loop passes `now`, and sleeps on
//! [`Port::poll_fd`]. System calls are in [`sys`], the only part with `unsafe`.

pub mod absent;
pub(crate) mod bridge;
pub mod capture;
pub mod discipline;
pub mod faults;
pub mod files;
mod kind;
mod layers;
pub mod memory;
pub(crate) mod netlink;
mod offload;
mod open;
pub mod pnet;
pub mod raw;
#[cfg(test)]
pub(crate) mod scripted;
mod segments;
pub mod shut;
pub mod spec;
mod stats;
mod sums;
pub mod sys;
pub mod tap;
mod transmit;
pub mod veth;
mod watch;
pub mod xdp;

use std::io;
use std::os::fd::RawFd;

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

pub(crate) use kind::Medium;
pub use open::{Opened, Spread, decorate_again, open, open_spread};
pub use spec::{PortKind, PortNumber, PortSpec, SpecError};
pub use stats::PortStats;
pub(crate) use watch::SETCAP;

pub use crate::link_type::LinkType;
use crate::pcap::PcapError;

/// What the port did to a transport checksum that the sender left to its network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumStatus {
    /// The frame is as it was sent.
    #[default]
    AsReceived,
    /// The sender (a veth peer, a virtual machine) left it unfinished, and the port computed it.
    FinishedByPort,
}

/// A received frame; the receiver owns `buf`.
#[derive(Debug, PartialEq, Eq)]
pub struct RxFrame {
    /// The chunk.
    pub buf: Buf,
    /// Where the frame starts in the chunk; before it is at least the headroom less 4 bytes.
    pub data_off: u16,
    /// Bytes of the frame in the chunk.
    pub len: u32,
    /// Bytes on the wire: other than `len` only for a capture record that was truncated (or whose length is wrong).
    pub wire_len: u32,
    /// Arrival: the `now` of the call, or the record's time.
    pub timestamp: Time,
    /// Whether the port finished a checksum.
    pub checksum: ChecksumStatus,
}

/// A frame to be sent; the port takes over `buf`.
#[derive(Debug, PartialEq, Eq)]
pub struct TxFrame {
    /// The chunk; it may be shared, as a port only reads it.
    pub buf: Buf,
    /// Where the frame starts in the chunk.
    pub data_off: u16,
    /// Bytes of the frame.
    pub len: u32,
    /// Bytes on the wire, for truncated capture records; `len` for all other frames.
    pub wire_len: u32,
    /// When its first bit is sent: the time of the call if a port has no rate.
    pub start: Time,
    /// When the link is free again, after the last bit and the inter-frame gap. In virtual time a frame arrives at the
    /// far end of its link at this time plus the link's delay.
    pub end: Time,
}

impl TxFrame {
    /// A whole frame that leaves at `now` and occupies the link for no time.
    pub fn at_once(buf: Buf, data_off: u16, len: u32, now: Time) -> TxFrame {
        TxFrame { buf, data_off, len, wire_len: len, start: now, end: now }
    }
}

/// What a port can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCaps {
    /// The link type of the frames.
    pub link: LinkType,
    /// The interface's MTU: bytes after the Ethernet header and one VLAN tag. `None` without an interface.
    pub mtu_bytes: Option<u32>,
}

/// The result of a transmit burst, counted from its front: first the frames that were sent, then those that were given
/// up. The others stay with the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxDone {
    /// Frames handed to the medium.
    pub sent: usize,
    /// Frames given up, counted under a reason in [`PortStats`].
    pub dropped: usize,
}

/// Whether a port can carry frames now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It can.
    Up,
    /// The interface is up, its peer or cable is not.
    NoCarrier,
    /// The interface is administratively down.
    Down,
    /// The interface does not exist (any more).
    Gone,
    /// There is no more input: a capture file was read to its end, or the port only writes.
    Ended,
}

impl LinkState {
    /// Its name in lists, events and the log.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::NoCarrier => "no_carrier",
            LinkState::Down => "down",
            LinkState::Gone => "gone",
            LinkState::Ended => "ended",
        }
    }
}

/// An error of a port, with the remedy. The message names the port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The interface does not exist (any more).
    #[error("{port}: no such interface: {help}")]
    Gone {
        /// The port, as in its specification.
        port: String,
        /// What to do.
        help: String,
    },
    /// Another switch uses the interface.
    #[error("{port}: the interface is taken: {help}")]
    Taken {
        /// The port, as in its specification.
        port: String,
        /// Which one, and what to do.
        help: String,
    },
    /// The interface is down.
    #[error("{port}: the interface is down: {help}")]
    Down {
        /// The port, as in its specification.
        port: String,
        /// What to do.
        help: String,
    },
    /// A system call failed.
    #[error("{port}: {doing}: {source}{}", remedy(.help))]
    Io {
        /// The port, as in its specification.
        port: String,
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's error.
        source: io::Error,
        /// What to do; empty if there is no advice.
        help: String,
    },
    /// A capture file cannot be read or written.
    #[error("{port}: {source}")]
    Capture {
        /// The port, as in its specification.
        port: String,
        /// The reason.
        source: PcapError,
    },
    /// The port does not support what was requested.
    #[error("{port}: {why}")]
    Unsupported {
        /// The port, as in its specification.
        port: String,
        /// The reason, and what to do.
        why: String,
    },
}

fn remedy(help: &str) -> String {
    if help.is_empty() { String::new() } else { format!(": {help}") }
}

/// A port of any kind. One worker uses it at a time; it may be moved to another.
///
/// Every method that moves frames takes the worker's handle on the one packet memory that the port
/// was opened with.
///
/// A decorator (a cable with faults, a port that is shut down) returns the port below it from [`Port::inner`] and
/// [`Port::inner_mut`]. Provided methods call that port, so a decorator writes only those that it changes, and the
/// required ones.
pub trait Port: Send {
    /// The port below a decorator; `None` for any other port.
    fn inner(&self) -> Option<&dyn Port> {
        None
    }

    /// Like [`Port::inner`], mutable.
    fn inner_mut(&mut self) -> Option<&mut dyn Port> {
        None
    }

    /// Its name for messages, as in its specification: `raw:veth0`.
    fn name(&self) -> &str;

    /// What it can carry.
    fn caps(&self) -> PortCaps;

    /// The address of the interface below it; `None` where there is none.
    fn interface_mac(&self) -> Option<[u8; 6]> {
        self.inner()?.interface_mac()
    }

    /// The name of that interface.
    fn interface(&self) -> Option<&str> {
        self.inner()?.interface()
    }

    /// Receives up to `max` frames that have arrived, appends them to `out` and returns their number. The caller goes
    /// by the frames in `out`; those beyond `max` are freed, and reported. Without a free chunk it stops early and
    /// counts that; the frames wait in the medium.
    ///
    /// # Errors
    /// A failure is reported once; then the port returns 0 frames until it recovers.
    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError>;

    /// Sends `frames` in order, frees their chunks when they are no longer needed, and removes from the front of the
    /// vector the frames that it sent and, after them, those that it gave up. If it gave up none, the port has no room
    /// for the rest now: the caller keeps those frames, or drops them under its own reason. Otherwise the burst
    /// continues with another call.
    ///
    /// # Errors
    /// As [`Port::rx_burst`]; none of the frames that it took was sent, they are given up and counted. A failure after
    /// some were sent is reported by a later call.
    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError>;

    /// Sends buffered frames and frees the chunks of completed ones.
    ///
    /// # Errors
    /// As [`Port::tx_burst`].
    fn flush(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        self.inner_mut().map_or(Ok(()), |port| port.flush(mem))
    }

    /// When the next frame of an input with its own timing is due; `None` when there is none.
    fn next_arrival(&mut self) -> Option<Time> {
        self.inner_mut()?.next_arrival()
    }

    /// A descriptor that becomes readable when frames wait; `None` if there is none to wait on, and the port must be
    /// polled in every poll.
    fn poll_fd(&self) -> Option<RawFd> {
        self.inner()?.poll_fd()
    }

    /// True for a port with a descriptor that must be polled in every poll nevertheless: its poll needs no system call,
    /// or it has work that its descriptor does not show.
    fn is_always_polled(&self) -> bool {
        self.inner().is_some_and(Port::is_always_polled)
    }

    /// The counters, including those of the kernel.
    fn stats(&mut self) -> PortStats;

    /// Counts of faults; `None` for a port without fault injection.
    fn faults(&self) -> Option<faults::FaultReport> {
        self.inner()?.faults()
    }

    /// The faults configured for its cable; `None` without fault injection.
    fn fault_setup(&self) -> Option<faults::chance::FaultSetup> {
        self.inner()?.fault_setup()
    }

    /// Reads the state of the link (a system call for an interface) and tries to reopen a lost one.
    fn link_state(&mut self, now: Time) -> LinkState;

    /// Messages for the user that were not returned yet: a fallback, a limit of this kind, what its input has shown.
    fn notices(&mut self) -> Vec<String> {
        self.inner_mut().map_or_else(Vec::new, Port::notices)
    }

    /// Changes the faults of its cable; false for a port without fault injection ([`faults::FaultyPort`]).
    fn set_faults(&mut self, setup: faults::chance::FaultSetup) -> bool {
        self.inner_mut().is_some_and(|port| port.set_faults(setup))
    }

    /// True for a port that was shut down by command.
    fn is_shut(&self) -> bool {
        self.inner().is_some_and(Port::is_shut)
    }

    /// Shuts the port down, or brings it up again; false for a port that does not support it ([`shut::ShutPort`]).
    fn shut(&mut self, is_shut: bool) -> bool {
        self.inner_mut().is_some_and(|port| port.shut(is_shut))
    }

    /// Takes the port below out of a decorator, which is empty from then on; `None` for any other port.
    fn take_inner(&mut self, _mem: &mut PacketMemory) -> Option<Box<dyn Port>> {
        None
    }

    /// The port as its concrete type, for owners that need its kind; `None` where the kind does not offer it.
    fn as_any_mut(&mut self) -> Option<&mut dyn std::any::Any> {
        self.inner_mut()?.as_any_mut()
    }

    /// Stops, and returns every chunk of the port to the memory. Afterwards the port moves no frames.
    fn close(&mut self, mem: &mut PacketMemory) {
        if let Some(port) = self.inner_mut() {
            port.close(mem);
        }
    }
}
