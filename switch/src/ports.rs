//! Ports: where frames enter and leave a device.
//!
//! One trait for all kinds, in bursts, on packet memory: a port fills chunks and gives the handles to
//! its caller, and takes handles back when it sends. A port has no forwarding rule and decides
//! nothing; what it could not do is a number in [`PortStats`] under a name.
//!
//! A live port does not loop, sleep or read a clock: the run loop passes `now`, and sleeps on
//! [`Port::poll_fd`]. System calls are in [`sys`], the only part with `unsafe`.

pub mod absent;
pub mod capture;
pub mod discipline;
pub mod faults;
pub mod files;
mod layers;
pub mod memory;
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

use std::fmt;
use std::io;
use std::os::fd::RawFd;

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

pub use open::{Opened, Spread, decorate_again, open, open_spread};
pub use spec::{PortKind, PortNumber, PortSpec, SpecError};
pub use stats::PortStats;

pub use crate::link_type::LinkType;
use crate::pcap::PcapError;

/// What the port did to a transport checksum that the sender had left to its network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumStatus {
    /// Nothing: the frame is as it was sent.
    #[default]
    AsReceived,
    /// The sender (a veth peer, a virtual machine) left it unfinished; the port computed it.
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
    /// Bytes on the wire: other than `len` only for a capture record that was cut (or lies).
    pub wire_len: u32,
    /// Arrival: the `now` of the call, or the record's time.
    pub timestamp: Time,
    /// Whether the port finished a checksum.
    pub checksum: ChecksumStatus,
}

/// A frame to be sent; the port takes over `buf`.
#[derive(Debug, PartialEq, Eq)]
pub struct TxFrame {
    /// The chunk; it may be shared, a port only reads it.
    pub buf: Buf,
    /// Where the frame starts in the chunk.
    pub data_off: u16,
    /// Bytes of the frame.
    pub len: u32,
    /// Bytes on the wire, for capture records that were cut; `len` for all other frames.
    pub wire_len: u32,
    /// When its first bit goes on the wire: the time of the call where a port has no rate.
    pub start: Time,
    /// When the link is free again: last bit and inter-frame gap are over. In virtual time a frame
    /// arrives at the far end of its link at this time plus the link's delay.
    pub end: Time,
}

impl TxFrame {
    /// A whole frame that leaves at `now` and takes no time.
    pub fn at_once(buf: Buf, data_off: u16, len: u32, now: Time) -> TxFrame {
        TxFrame { buf, data_off, len, wire_len: len, start: now, end: now }
    }
}

/// What a port can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCaps {
    /// What the frames are.
    pub link: LinkType,
    /// The interface's MTU: bytes behind the Ethernet header and one VLAN tag. `None`: no interface.
    pub mtu_bytes: Option<u32>,
}

/// What came of a transmit burst, from its front: first frames that were sent, then frames that were given up. The others stay with the caller.
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
    /// Yes.
    Up,
    /// The interface is up, its peer or cable is not.
    NoCarrier,
    /// The interface is administratively down.
    Down,
    /// The interface does not exist (any more).
    Gone,
    /// No input will come (again): a capture file was read to its end, or is only written.
    Ended,
}

impl LinkState {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::NoCarrier => "no carrier",
            LinkState::Down => "down",
            LinkState::Gone => "gone",
            LinkState::Ended => "ended",
        }
    }
}

/// What went wrong on a port, with the way out. The message names the port.
#[derive(Debug)]
pub enum PortError {
    /// The interface does not exist (any more).
    Gone {
        /// The port, as in its specification.
        port: String,
        /// What to do.
        help: String,
    },
    /// Another switch has the interface.
    Taken {
        /// The port, as in its specification.
        port: String,
        /// Who, and what to do.
        help: String,
    },
    /// The interface is down.
    Down {
        /// The port, as in its specification.
        port: String,
        /// What to do.
        help: String,
    },
    /// A system call failed.
    Io {
        /// The port, as in its specification.
        port: String,
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
        /// What to do; empty if nothing is known.
        help: String,
    },
    /// A capture file cannot be read or written.
    Capture {
        /// The port, as in its specification.
        port: String,
        /// Why.
        source: PcapError,
    },
    /// The port can not be what was asked.
    Unsupported {
        /// The port, as in its specification.
        port: String,
        /// Why, and what to do.
        why: String,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::Gone { port, help } => write!(f, "{port}: no such interface: {help}"),
            PortError::Taken { port, help } => write!(f, "{port}: the interface is taken: {help}"),
            PortError::Down { port, help } => write!(f, "{port}: the interface is down: {help}"),
            PortError::Io { port, doing, source, help } if help.is_empty() => {
                write!(f, "{port}: {doing}: {source}")
            }
            PortError::Io { port, doing, source, help } => {
                write!(f, "{port}: {doing}: {source}: {help}")
            }
            PortError::Capture { port, source } => write!(f, "{port}: {source}"),
            PortError::Unsupported { port, why } => write!(f, "{port}: {why}"),
        }
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PortError::Io { source, .. } => Some(source),
            PortError::Capture { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A port of any kind. One worker uses it; it may be moved to another.
///
/// Every method that moves frames takes the worker's handle on the one packet memory that the port
/// was opened with.
///
/// A decorator (a bad cable, a port that is down by command) names the port below it in [`Port::inner`] and [`Port::inner_mut`]. Methods
/// with a body then ask that port, so a decorator writes only those that it changes; the others it cannot forget, because they have none.
pub trait Port: Send {
    /// The port below a decorator; `None` for a port that decorates none.
    fn inner(&self) -> Option<&dyn Port> {
        None
    }

    /// The same, to be changed.
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

    /// Receives up to `max` frames that are there now, appends them to `out` and returns how many. What is in `out` counts; more than
    /// `max` is freed, and reported.
    /// Without a free chunk it stops early and counts that; the frames wait where they are.
    ///
    /// # Errors
    /// A change for the worse is reported once; then the port is silent (0 frames) until it recovers.
    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError>;

    /// Sends `frames` in order, frees their chunks when they are no longer needed, and takes from the front of the vector what it sent and, behind it, what it gave up. Where it gave up none,
    /// what stays found no room now: the caller keeps it, or drops it under its own reason. Otherwise the burst goes on with another call.
    ///
    /// # Errors
    /// As [`Port::rx_burst`]; none of the frames that it took was sent, they are given up and counted. What fails when some were sent is
    /// reported by a later call.
    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError>;

    /// Pushes out what is under way and frees the chunks of completed frames.
    ///
    /// # Errors
    /// As [`Port::tx_burst`].
    fn flush(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        self.inner_mut().map_or(Ok(()), |port| port.flush(mem))
    }

    /// When the next frame of an input with its own time is due; `None` when none will come.
    fn next_arrival(&mut self) -> Option<Time> {
        self.inner_mut()?.next_arrival()
    }

    /// A descriptor that becomes readable when frames wait; `None` if there is nothing to sleep on, and the port is to be asked
    /// in every poll.
    fn poll_fd(&self) -> Option<RawFd> {
        self.inner()?.poll_fd()
    }

    /// True for a port with a descriptor that is to be asked in every poll nevertheless: asking it takes no system call, or it
    /// has to do more than its descriptor shows.
    fn is_always_polled(&self) -> bool {
        self.inner().is_some_and(Port::is_always_polled)
    }

    /// The counters, the kernel's included.
    fn stats(&mut self) -> PortStats;

    /// What happened to frames by chance; `None` for a port on which nothing can.
    fn faults(&self) -> Option<faults::FaultReport> {
        self.inner()?.faults()
    }

    /// What may happen to its frames by chance; `None` for a cable that is good.
    fn fault_setup(&self) -> Option<faults::chance::FaultSetup> {
        self.inner()?.fault_setup()
    }

    /// Looks at the link (a system call for an interface) and tries to recover a lost one.
    fn link_state(&mut self, now: Time) -> LinkState;

    /// What a user should know, said once after opening: a fallback, a limit of this kind.
    fn notices(&mut self) -> Vec<String> {
        self.inner_mut().map_or_else(Vec::new, Port::notices)
    }

    /// Gives its cable other faults; false for a port that has none ([`faults::FaultyPort`]).
    fn set_faults(&mut self, setup: faults::chance::FaultSetup) -> bool {
        self.inner_mut().is_some_and(|port| port.set_faults(setup))
    }

    /// True for a port that is down by command.
    fn is_shut(&self) -> bool {
        self.inner().is_some_and(Port::is_shut)
    }

    /// Takes the port down, or up again; false for a port that cannot be ([`shut::ShutPort`]).
    fn shut(&mut self, is_shut: bool) -> bool {
        self.inner_mut().is_some_and(|port| port.shut(is_shut))
    }

    /// Takes the port below a decorator out of it, which is empty from then on; `None` for a port that decorates none.
    fn take_inner(&mut self, _mem: &mut PacketMemory) -> Option<Box<dyn Port>> {
        None
    }

    /// The port as what it is, for owners that know its kind; `None` for all other kinds.
    fn as_any_mut(&mut self) -> Option<&mut dyn std::any::Any> {
        self.inner_mut()?.as_any_mut()
    }

    /// Stops, and gives back every chunk that the port holds. After it the port moves no frames.
    fn close(&mut self, mem: &mut PacketMemory) {
        if let Some(port) = self.inner_mut() {
            port.close(mem);
        }
    }
}
