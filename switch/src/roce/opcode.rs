//! BTH opcodes for the transport: service, operation, position in the message.
//!
//! The extended headers after an opcode are defined in the YAML library (`programs/headers/infiniband.yaml`); here
//! opcodes are only decoded and encoded.

/// Transport service, the upper three bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// Kind of request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge: ACK, NAK or RNR NAK by the AETH syndrome.
    Ack,
    /// ATOMIC acknowledge with the original value.
    AtomicAck,
    /// Compare and swap request.
    CmpSwap,
    /// Fetch and add request.
    FetchAdd,
}

/// Place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// The position of packet `index` of `count`.
    pub fn of(index: u32, count: u32) -> Position {
        match (index == 0, index + 1 >= count) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        }
    }

    /// First or Only.
    pub fn starts(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Last or Only.
    pub fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }
}

/// The addition to the last packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    None,
    /// Immediate data.
    Imm,
    /// An R_Key to invalidate.
    Inv,
}

/// A decoded opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Transport service.
    pub service: Service,
    /// Operation.
    pub kind: Kind,
    /// Position.
    pub position: Position,
    /// Immediate data or invalidate.
    pub extra: Extra,
}

/// CNP in RoCEv2, followed by 16 reserved bytes (IBTA A17).
pub const CNP_ROCEV2: u8 = 0x81;
/// CNP in native InfiniBand and Omni-Path, BTH only (IBTA A10).
pub const CNP_NATIVE: u8 = 0x80;

const SERVICES: [(u8, Service); 3] = [(0, Service::Rc), (1, Service::Uc), (3, Service::Ud)];

/// Low five bits of every supported operation (IBTA 9.2, table 38; `ib_pack.h`).
const OPERATIONS: [(u8, Kind, Position, Extra); 23] = {
    use Extra::{Imm, Inv, None};
    use Position::{First, Last, Middle, Only};
    [
        (0x00, Kind::Send, First, None),
        (0x01, Kind::Send, Middle, None),
        (0x02, Kind::Send, Last, None),
        (0x03, Kind::Send, Last, Imm),
        (0x04, Kind::Send, Only, None),
        (0x05, Kind::Send, Only, Imm),
        (0x06, Kind::Write, First, None),
        (0x07, Kind::Write, Middle, None),
        (0x08, Kind::Write, Last, None),
        (0x09, Kind::Write, Last, Imm),
        (0x0a, Kind::Write, Only, None),
        (0x0b, Kind::Write, Only, Imm),
        (0x0c, Kind::ReadRequest, Only, None),
        (0x0d, Kind::ReadResponse, First, None),
        (0x0e, Kind::ReadResponse, Middle, None),
        (0x0f, Kind::ReadResponse, Last, None),
        (0x10, Kind::ReadResponse, Only, None),
        (0x11, Kind::Ack, Only, None),
        (0x12, Kind::AtomicAck, Only, None),
        (0x13, Kind::CmpSwap, Only, None),
        (0x14, Kind::FetchAdd, Only, None),
        (0x16, Kind::Send, Last, Inv),
        (0x17, Kind::Send, Only, Inv),
    ]
};

/// Every decoded opcode: the product of the two lists above.
static DECODED: [Option<Op>; 256] = decoded();

const fn decoded() -> [Option<Op>; 256] {
    let mut all = [None; 256];
    let mut n = 0;
    while n < SERVICES.len() * OPERATIONS.len() {
        let (high, service) = SERVICES[n / OPERATIONS.len()];
        let (low, kind, position, extra) = OPERATIONS[n % OPERATIONS.len()];
        let op = Op { service, kind, position, extra };
        if op.is_spoken() {
            all[(high << 5 | low) as usize] = Some(op);
        }
        n += 1;
    }
    all
}

/// The opcode of every combination that has one, by [`Op::index`].
static ENCODED: [Option<u8>; 3 * 8 * 4 * 3] = encoded();

const fn encoded() -> [Option<u8>; 3 * 8 * 4 * 3] {
    let (all, mut encoded) = (decoded(), [None; 3 * 8 * 4 * 3]);
    let mut opcode = 0;
    while opcode < all.len() {
        if let Some(op) = all[opcode] {
            encoded[op.index()] = Some(opcode as u8);
        }
        opcode += 1;
    }
    encoded
}

impl Op {
    /// Decodes an opcode; `None` for services and operations that are not supported.
    pub fn decode(opcode: u8) -> Option<Op> {
        DECODED[usize::from(opcode)]
    }

    /// The opcode on the wire; `None` for a combination that has none.
    pub fn encode(self) -> Option<u8> {
        ENCODED[self.index()]
    }

    /// A unique number for every combination: 3 services, 8 kinds, 4 positions, 3 extras.
    const fn index(self) -> usize {
        let operation = self.service as usize * 8 + self.kind as usize;
        (operation * 4 + self.position as usize) * 3 + self.extra as usize
    }

    /// UC has no READ, ATOMIC, ACK or invalidate, UD has single-packet SEND only.
    const fn is_spoken(self) -> bool {
        let invalidates = matches!(self.extra, Extra::Inv);
        match self.service {
            Service::Rc => true,
            Service::Uc => matches!(self.kind, Kind::Send | Kind::Write) && !invalidates,
            Service::Ud => {
                matches!((self.kind, self.position), (Kind::Send, Position::Only)) && !invalidates
            }
        }
    }

    /// True for what a requester sends.
    pub fn is_request(self) -> bool {
        !matches!(self.kind, Kind::ReadResponse | Kind::Ack | Kind::AtomicAck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_decodes_to_itself_or_not_at_all() {
        let mut spoken = 0;
        for opcode in 0..=255u8 {
            if let Some(op) = Op::decode(opcode) {
                assert_eq!(op.encode(), Some(opcode), "{opcode:#x} {op:?}");
                spoken += 1;
            }
        }
        // RC 0x00-0x14, 0x16, 0x17; UC SEND and WRITE; UD SEND Only with and without immediate.
        assert_eq!(spoken, 23 + 12 + 2);
        for unknown in [0x15, 0x1c, 0x2c, 0x36, 0x40, 0x60, 0x74, CNP_NATIVE, CNP_ROCEV2, 0xff] {
            assert_eq!(Op::decode(unknown), None, "{unknown:#x}");
        }
    }

    /// IBTA 9.2, table 38; `ib_pack.h`.
    #[test]
    fn what_an_opcode_says_is_what_it_is_made_of() {
        use Extra::{Imm, Inv, None as Nothing};
        use Position::{First, Last, Middle, Only};
        for (opcode, service, kind, position, extra) in [
            (0x00, Service::Rc, Kind::Send, First, Nothing),
            (0x07, Service::Rc, Kind::Write, Middle, Nothing),
            (0x0f, Service::Rc, Kind::ReadResponse, Last, Nothing),
            (0x14, Service::Rc, Kind::FetchAdd, Only, Nothing),
            (0x17, Service::Rc, Kind::Send, Only, Inv),
            (0x29, Service::Uc, Kind::Write, Last, Imm),
            (0x65, Service::Ud, Kind::Send, Only, Imm),
        ] {
            let op = Op { service, kind, position, extra };
            assert_eq!((Op::decode(opcode), op.encode()), (Some(op), Some(opcode)));
        }
        let read = Op { service: Service::Uc, ..Op::decode(0x0c).unwrap() };
        assert_eq!(read.encode(), None, "UC has no READ");
    }

    #[test]
    fn position_of_a_packet() {
        assert_eq!(Position::of(0, 1), Position::Only);
        assert_eq!(Position::of(0, 2), Position::First);
        assert_eq!(Position::of(1, 3), Position::Middle);
        assert_eq!(Position::of(1, 2), Position::Last);
    }
}
