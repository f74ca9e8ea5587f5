//! Telemetry of a path: the header of HPCC (SIGCOMM 2019, figure 7) with room for five hops, as values.
//!
//! The sender of data leaves room for it, each switch writes one hop, and the receiver sends it back in the payload of
//! the acknowledgement. This module has its bytes and their meaning; their place in a frame is in `frames`, the switch
//! that writes them in `programs/hpcc_int`, and the same layout for programs in `programs/headers/hpcc.yaml`.
//!
//! 4 bits number of hops, 12 bits path; then for each hop, the newest first, 64 bits: 4 bits code of the link rate
//! ([`RATES_BPS`]), 24 bits nanoseconds when the packet left its queue, 20 bits bytes sent in units of 128, 16 bits
//! queue in units of 80 bytes. Time and bytes sent wrap to 0 after their last value.

/// Hops of a header.
pub const HOPS_MAX: usize = 5;
/// Bytes of the header.
pub const TELEMETRY_BYTES: usize = 2 + 8 * HOPS_MAX;
/// Bytes of pad behind it in an acknowledgement: bodies are multiples of 4.
pub const ECHO_PAD_BYTES: u8 = 2;
/// UDP port of data with telemetry, of IANA's dynamic range (RFC 6335).
pub const TELEMETRY_UDP_PORT: u16 = 54322;

/// Bytes in the unit of `tx_bytes`, and of `queue_bytes`.
const SENT_UNIT: u32 = 128;
const QUEUE_UNIT: u32 = 80;
/// Moduli at which the time of a hop, and its bytes sent, wrap.
pub const TIME_NS_MODULUS: u32 = 1 << 24;
/// See [`TIME_NS_MODULUS`].
pub const SENT_BYTES_MODULUS: u32 = (1 << 20) * SENT_UNIT;
/// The largest queue that a hop can report.
pub const QUEUE_BYTES_MAX: u32 = 0xffff * QUEUE_UNIT;

/// Link rates in bit/s by their code; 0 is no rate.
pub const RATES_BPS: [u64; 15] = [
    0,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    25_000_000_000,
    40_000_000_000,
    50_000_000_000,
    56_000_000_000,
    100_000_000_000,
    200_000_000_000,
    400_000_000_000,
    800_000_000_000,
    1_600_000_000_000,
];

/// The code of a link rate.
pub fn rate_code(rate_bps: u64) -> Option<u8> {
    let found = RATES_BPS.iter().position(|known| *known == rate_bps && rate_bps > 0)?;
    Some(found as u8)
}

/// The header as it is on the wire.
pub type TelemetryBytes = [u8; TELEMETRY_BYTES];

/// The record of one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Rate of the link of the packet's egress port, bit/s; `None` for a code without a rate.
    pub rate_bps: Option<u64>,
    /// When it left its queue, modulo [`TIME_NS_MODULUS`].
    pub time_ns: u32,
    /// Bytes that the link had sent by then, modulo [`SENT_BYTES_MODULUS`].
    pub sent_bytes: u32,
    /// Bytes left in its queue at that time; at most [`QUEUE_BYTES_MAX`].
    pub queue_bytes: u32,
}

/// The path of a header: a combination of the numbers of all switches on it, 12 bits.
pub fn path_of(bytes: &TelemetryBytes) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]]) & 0x0fff
}

/// The hops of a header, the newest first; of more than [`HOPS_MAX`], the newest ones.
pub fn hops_of(bytes: &TelemetryBytes) -> impl Iterator<Item = Hop> {
    let count = usize::from(bytes[0] >> 4);
    let (records, _) = bytes[2..].as_chunks::<8>();
    records.iter().take(count).map(|record| {
        let word = u64::from_be_bytes(*record);
        let rate = RATES_BPS.get((word >> 60) as usize).copied();
        Hop {
            rate_bps: rate.filter(|rate| *rate > 0),
            time_ns: (word >> 36) as u32 & (TIME_NS_MODULUS - 1),
            sent_bytes: ((word >> 16) as u32 & 0xf_ffff) * SENT_UNIT,
            queue_bytes: (word as u32 & 0xffff) * QUEUE_UNIT,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_switches_wrote() {
        let mut bytes = [0; TELEMETRY_BYTES];
        bytes[..2].copy_from_slice(&[0x2a, 0xbc]);
        bytes[2..10].copy_from_slice(&[0xa0, 0x00, 0x00, 0x70, 0x00, 0x03, 0x00, 0x02]);
        bytes[10..18].copy_from_slice(&[0xff; 8]);
        let newest = Hop {
            rate_bps: Some(100_000_000_000),
            time_ns: 7,
            sent_bytes: 3 * 128,
            queue_bytes: 160,
        };
        let oldest = Hop {
            rate_bps: None,
            time_ns: TIME_NS_MODULUS - 1,
            sent_bytes: SENT_BYTES_MODULUS - 128,
            queue_bytes: QUEUE_BYTES_MAX,
        };
        assert_eq!(path_of(&bytes), 0xabc);
        assert_eq!(hops_of(&bytes).collect::<Vec<_>>(), [newest, oldest]);
        bytes[0] = 0xf0;
        assert_eq!(hops_of(&bytes).count(), HOPS_MAX, "of 15 hops");
    }

    #[test]
    fn every_rate_has_a_code_and_0_has_none() {
        for (code, rate) in RATES_BPS.iter().enumerate().skip(1) {
            assert_eq!(rate_code(*rate), Some(code as u8));
        }
        assert_eq!((rate_code(0), rate_code(30_000_000_000)), (None, None));
    }
}
