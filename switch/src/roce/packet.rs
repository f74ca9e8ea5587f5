//! Transport packets as values: what `core` reads from parsed headers and writes into built ones.

use super::psn::Psn;

/// Base transport header. Fields that the transport does not decide (TVer, MigReq) are the frame builder's.
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

/// The headers of a packet. Those the opcode does not have are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Always there.
    pub bth: Bth,
    /// WRITE First/Only and READ request.
    pub reth: Option<Reth>,
    /// Acknowledgements and READ responses but Middle.
    pub aeth: Option<Aeth>,
    /// ATOMIC requests.
    pub atomic: Option<AtomicEth>,
    /// Original value of an ATOMIC acknowledge.
    pub atomic_ack: Option<u64>,
    /// Datagrams.
    pub deth: Option<Deth>,
    /// Immediate data, big-endian on the wire.
    pub imm: Option<u32>,
    /// R_Key to invalidate.
    pub ieth: Option<u32>,
}

impl Headers {
    /// Headers with a BTH alone.
    pub fn new(bth: Bth) -> Headers {
        Headers {
            bth,
            reth: None,
            aeth: None,
            atomic: None,
            atomic_ack: None,
            deth: None,
            imm: None,
            ieth: None,
        }
    }

    /// Bytes of the extended headers on the wire (wire.md section 3).
    pub fn extended_bytes(&self) -> u32 {
        let part = |there: bool, bytes: u32| if there { bytes } else { 0 };
        part(self.reth.is_some(), 16)
            + part(self.aeth.is_some(), 4)
            + part(self.atomic.is_some(), 28)
            + part(self.atomic_ack.is_some(), 8)
            + part(self.deth.is_some(), 8)
            + part(self.imm.is_some(), 4)
            + part(self.ieth.is_some(), 4)
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

/// How the packet should be treated by queues.
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
}

/// A packet received for a queue pair, ICRC already verified.
#[derive(Clone, Copy, Debug)]
pub struct InPacket<'a> {
    /// Headers.
    pub headers: Headers,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
    /// Where it came from, in the caller's numbering of paths; shown in datagram completions.
    pub path: u32,
}
