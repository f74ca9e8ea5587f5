//! Transport packets as values: `core` reads them from parsed headers and writes them into built ones.

use super::psn::Psn;
use super::telemetry::TelemetryBytes;

/// Base transport header. Fields that the transport does not decide (TVer, MigReq) are set by the frame builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Opcode as on the wire.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Pad bytes behind the payload, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion mark.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Acknowledge request.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Remote virtual address.
    pub va: u64,
    /// Key of the remote region.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub len_bytes: u32,
}

/// ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Syndrome, see [`super::aeth::Syndrome`].
    pub syndrome: u8,
    /// Messages completed by the responder, 24 bits.
    pub msn: u32,
}

/// ATOMIC extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Remote virtual address, a multiple of 8.
    pub va: u64,
    /// Key of the remote region.
    pub rkey: u32,
    /// Value to swap in, or to add.
    pub swap_or_add: u64,
    /// Value to compare with; unused by fetch and add.
    pub compare: u64,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Source queue pair.
    pub src_qp: u32,
}

/// The first extended header behind a BTH, where it is none of [`Trailing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leading {
    /// There is none.
    None,
    /// WRITE First/Only and READ request.
    Reth(Reth),
    /// Acknowledgements and READ responses except Middle.
    Aeth(Aeth),
    /// ATOMIC requests.
    Atomic(AtomicEth),
    /// Datagrams.
    Deth(Deth),
}

/// The last extended header behind a BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailing {
    /// There is none.
    None,
    /// Original value of an ATOMIC acknowledge.
    AtomicAck(u64),
    /// Immediate data, big-endian on the wire.
    Imm(u32),
    /// R_Key to invalidate.
    Ieth(u32),
    /// Bits of a selective acknowledgement. They are payload on the wire ([`super::aeth`]), so no opcode has this
    /// header.
    Sack(u64),
}

/// The headers of a packet: no opcode has more than two behind the BTH (IBTA 9.2, table 38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The base header, always present.
    pub bth: Bth,
    /// Behind it.
    pub leading: Leading,
    /// Behind both.
    pub trailing: Trailing,
}

impl Headers {
    /// Headers with a BTH alone.
    pub fn new(bth: Bth) -> Headers {
        Headers { bth, leading: Leading::None, trailing: Trailing::None }
    }

    /// The RETH, if there is one.
    pub fn reth(&self) -> Option<Reth> {
        if let Leading::Reth(reth) = self.leading { Some(reth) } else { None }
    }

    /// The AETH, if there is one.
    pub fn aeth(&self) -> Option<Aeth> {
        if let Leading::Aeth(aeth) = self.leading { Some(aeth) } else { None }
    }

    /// The ATOMIC header, if there is one.
    pub fn atomic(&self) -> Option<AtomicEth> {
        if let Leading::Atomic(atomic) = self.leading { Some(atomic) } else { None }
    }

    /// The DETH, if there is one.
    pub fn deth(&self) -> Option<Deth> {
        if let Leading::Deth(deth) = self.leading { Some(deth) } else { None }
    }

    /// The original value of an ATOMIC acknowledge.
    pub fn atomic_ack(&self) -> Option<u64> {
        if let Trailing::AtomicAck(original) = self.trailing { Some(original) } else { None }
    }

    /// The immediate data, if there are.
    pub fn imm(&self) -> Option<u32> {
        if let Trailing::Imm(imm) = self.trailing { Some(imm) } else { None }
    }

    /// The R_Key to invalidate, if there is one.
    pub fn ieth(&self) -> Option<u32> {
        if let Trailing::Ieth(rkey) = self.trailing { Some(rkey) } else { None }
    }

    /// Bytes of the extended headers on the wire (IBTA 9.3).
    pub fn extended_bytes(&self) -> u32 {
        let leading = match self.leading {
            Leading::None => 0,
            Leading::Reth(_) => 16,
            Leading::Aeth(_) => 4,
            Leading::Atomic(_) => 28,
            Leading::Deth(_) => 8,
        };
        let trailing = match self.trailing {
            Trailing::None => 0,
            Trailing::AtomicAck(_) | Trailing::Sack(_) => 8,
            Trailing::Imm(_) | Trailing::Ieth(_) => 4,
        };
        leading + trailing
    }
}

/// Bytes in a registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRef {
    /// Key of the region.
    pub key: u32,
    /// Virtual address of the first byte.
    pub va: u64,
    /// Length in bytes.
    pub len: u32,
}

/// The treatment of the packet by queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassHint {
    /// Requests and READ responses: the data class.
    Data,
    /// ACK, NAK, RNR NAK, ATOMIC acknowledge.
    Ack,
}

/// A packet to send. `core` copies the payload with [`super::memory::MemoryTable::read`] and adds
/// `bth.pad` zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutPacket {
    /// The queue pair that sends.
    pub src_qp: u32,
    /// Headers.
    pub headers: Headers,
    /// Payload; `None` for packets without.
    pub payload: Option<PayloadRef>,
    /// Class.
    pub class: ClassHint,
    /// The peer: the path of the queue pair, or of the datagram's address handle. Opaque to the transport.
    pub path: u32,
    /// Sent before (go-back-N or a re-executed READ).
    pub retransmission: bool,
    /// An acknowledgement with a payload: the bits of [`Trailing::Sack`], otherwise [`super::qp::QueuePair::telemetry`]
    /// of the sending queue pair.
    pub echo: bool,
}

/// A packet received for a queue pair, ICRC already verified.
#[derive(Clone, Copy, Debug)]
pub struct InPacket<'a> {
    /// Headers.
    pub headers: Headers,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
    /// The path that it came by, in the caller's numbering; part of datagram completions.
    pub path: u32,
    /// Telemetry that switches wrote into it.
    pub telemetry: Option<&'a TelemetryBytes>,
}
