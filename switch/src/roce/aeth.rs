//! AETH syndromes, the RNR timer table and the ACK timeout (IBTA 9.7.5 and 9.7.6.1.3; values as in rdmavt `qp.c`).
//!
//! RoCE has no selective acknowledgement. Two of the encodings that IBTA reserves (bits 6:5 are 10) report missing
//! packets here; only queue pairs that are both configured for it exchange them. `BTH.PSN` is that of the oldest
//! missing packet, as in a sequence NAK, and the MSN field is a PSN: with [`SYNDROME_SACK`] the first of 64 packets
//! whose bits, bit 0 the first, are the payload (8 bytes, big-endian); with [`SYNDROME_TRIMMED`] that of a packet that
//! arrived trimmed to its headers.

use wireyard_tables::time::Span;

/// The meaning of a syndrome byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive; the credit code is not used for flow control here.
    Ack,
    /// Receiver not ready, with the timer code.
    RnrNak(u8),
    /// Negative.
    Nak(NakCode),
    /// Packets arrived out of order; not in RoCE.
    Sack,
    /// A packet arrived without its payload; not in RoCE.
    Trimmed,
    /// Reserved encodings.
    Reserved,
}

/// NAK codes, 0x60 to 0x64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// A packet is missing.
    PsnSequence,
    /// The request breaks a rule.
    InvalidRequest,
    /// R_Key, bounds or permission.
    RemoteAccess,
    /// The responder failed.
    RemoteOperational,
    /// Invalid RD request; never sent here.
    InvalidRd,
}

/// Which of 64 packets have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack {
    /// The first of them, whose bit is the lowest.
    pub base: super::psn::Psn,
    /// 1: it has arrived.
    pub bits: u64,
}

/// Selective acknowledgement: a reserved encoding.
pub const SYNDROME_SACK: u8 = 0x41;
/// A trimmed packet: a reserved encoding.
pub const SYNDROME_TRIMMED: u8 = 0x42;

/// ACK with credit code 31: no end-to-end credits.
pub const ACK_NO_CREDITS: u8 = 0x1f;

const NAK_CODES: [NakCode; 5] = [
    NakCode::PsnSequence,
    NakCode::InvalidRequest,
    NakCode::RemoteAccess,
    NakCode::RemoteOperational,
    NakCode::InvalidRd,
];

impl Syndrome {
    /// Reads the byte. Bit 7 is reserved and ignored.
    pub fn decode(byte: u8) -> Syndrome {
        let low = byte & 0x1f;
        match byte >> 5 & 3 {
            0b00 => Syndrome::Ack,
            0b01 => Syndrome::RnrNak(low),
            0b11 => {
                NAK_CODES.get(usize::from(low)).map_or(Syndrome::Reserved, |&c| Syndrome::Nak(c))
            }
            _ => match byte & 0x7f {
                SYNDROME_SACK => Syndrome::Sack,
                SYNDROME_TRIMMED => Syndrome::Trimmed,
                _ => Syndrome::Reserved,
            },
        }
    }

    /// Writes the byte; reserved encodings are written as 0x40.
    pub fn encode(self) -> u8 {
        match self {
            Syndrome::Ack => ACK_NO_CREDITS,
            Syndrome::RnrNak(code) => 0x20 | code & 0x1f,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Sack => SYNDROME_SACK,
            Syndrome::Trimmed => SYNDROME_TRIMMED,
            Syndrome::Reserved => 0x40,
        }
    }
}

/// RNR timer by code, in units of 10 us (rdmavt `ib_rvt_rnr_table`).
const RNR_TIMER_10US: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// How long a requester waits after an RNR NAK with this timer code (low five bits).
pub fn rnr_timer(code: u8) -> Span {
    // The index has five bits, the table 32 entries.
    Span::from_us(RNR_TIMER_10US[usize::from(code & 0x1f)] * 10)
}

/// ACK timeout 4.096 us x 2^code (low five bits); `None` for code 0, which disables it.
pub fn ack_timeout(code: u8) -> Option<Span> {
    let code = code & 0x1f;
    (code != 0).then(|| Span::from_ns(4096 << code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones() {
        assert_eq!(rnr_timer(0), Span::from_us(655_360));
        assert_eq!(rnr_timer(1), Span::from_us(10));
        assert_eq!(rnr_timer(0x12), Span::from_us(5_120));
        assert_eq!(rnr_timer(0x19), Span::from_us(61_440), "rxe has 61410 here by mistake");
        assert_eq!(rnr_timer(31), Span::from_us(491_520));
        assert_eq!(ack_timeout(14), Some(Span::from_ns(67_108_864)));
        assert_eq!(ack_timeout(18), Some(Span::from_ns(1_073_741_824)));
        assert_eq!(ack_timeout(0), None);
    }

    #[test]
    fn syndromes_round_trip() {
        for byte in [0x60, 0x61, 0x62, 0x63, 0x64, 0x20, 0x32, 0x3f, 0x41, 0x42] {
            assert_eq!(Syndrome::decode(byte).encode(), byte);
        }
        assert_eq!(Syndrome::decode(0x1f), Syndrome::Ack);
        assert_eq!(Syndrome::decode(0x05), Syndrome::Ack);
        assert_eq!(Syndrome::decode(0x65), Syndrome::Reserved);
        assert_eq!(Syndrome::decode(0x40), Syndrome::Reserved);
    }
}
