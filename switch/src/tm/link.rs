//! Exact time on the wire.
//!
//! 1048 bytes at 100 Gbit/s last 83,840 ps, but one byte at 30 Gbit/s lasts 266 2/3 ps, no whole number of picoseconds.
//! [`WireTime`] therefore keeps picoseconds plus a remainder in units of 1/rate picoseconds: the reported instant is
//! rounded up, so a departure is never early, and rounding errors do not accumulate, so the long-run rate is exact. The
//! same arithmetic serves link and shapers.

use wireyard_tables::time::{Span, Time};

use crate::units::{BitsPerSec, PS_PER_SECOND};

/// An instant with a fraction of a picosecond, advanced by bits at a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireTime {
    ps: u64,
    /// Fraction of a picosecond, in units of 1/rate; below the rate.
    remainder: u64,
}

impl WireTime {
    /// The instant, rounded up to whole picoseconds.
    #[inline]
    pub fn ceil(self) -> Time {
        Time::from_ps(self.ps.saturating_add(u64::from(self.remainder != 0)))
    }

    /// Rounds up to a whole picosecond: before another rate, as the fraction is in units of the present one.
    pub fn round_up(&mut self) {
        *self = WireTime { ps: self.ceil().as_ps(), remainder: 0 };
    }

    /// Moves to `earliest` unless it is there or later.
    #[inline]
    pub fn not_before(&mut self, earliest: Time) {
        if earliest > self.ceil() {
            *self = WireTime { ps: earliest.as_ps(), remainder: 0 };
        }
    }

    /// Adds the time of `bytes` at `rate`; saturates at the end of time.
    #[inline]
    pub fn advance(&mut self, bytes: u64, rate: BitsPerSec) {
        // 2^21 bytes x 8 x 10^12 plus a remainder below 10^14 fits 64 bits; more bytes use 128 bits.
        let (span, remainder) = if bytes < 1 << 21 {
            let total = bytes * 8 * PS_PER_SECOND + self.remainder;
            (total / rate.get(), total % rate.get())
        } else {
            let total = u128::from(bytes) * 8 * u128::from(PS_PER_SECOND);
            let total = total + u128::from(self.remainder);
            let rate = u128::from(rate.get());
            (u64::try_from(total / rate).unwrap_or(u64::MAX), (total % rate) as u64)
        };
        *self = WireTime { ps: self.ps.saturating_add(span), remainder };
    }
}

/// Bytes on the wire beyond those of a frame in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireOverhead {
    /// Preamble, start delimiter and inter-frame gap (IEEE 802.3: 8 + 12).
    pub preamble_and_gap: u32,
    /// Frame check sequence, which frames in memory do not carry.
    pub fcs: u32,
    /// Shortest frame including its FCS (IEEE 802.3: 64); shorter ones are padded on the wire.
    pub min_frame: u32,
}

impl Default for WireOverhead {
    fn default() -> WireOverhead {
        WireOverhead { preamble_and_gap: 20, fcs: 4, min_frame: 64 }
    }
}

impl WireOverhead {
    /// Bytes on the wire of a frame of `frame_bytes` in memory.
    #[inline]
    pub fn wire_bytes(&self, frame_bytes: u32) -> u64 {
        let framed = u64::from(frame_bytes) + u64::from(self.fcs);
        framed.max(u64::from(self.min_frame)) + u64::from(self.preamble_and_gap)
    }
}

/// A token bucket in virtual-scheduling form (ITU-T I.371 GCRA), exact like the link itself.
#[derive(Clone, Debug)]
pub struct Shaper {
    rate: BitsPerSec,
    burst: Span,
    arrival: WireTime,
}

impl Shaper {
    /// A bucket of `burst_bytes` filled at `rate`; it starts full.
    pub fn new(rate: BitsPerSec, burst_bytes: u64) -> Shaper {
        let burst = rate.time_for(crate::units::Bytes::new(burst_bytes));
        Shaper { rate, burst, arrival: WireTime::default() }
    }

    /// The first instant at which the bucket is not in debt: a frame may start then.
    #[inline]
    pub fn conforms_at(&self) -> Time {
        self.arrival.ceil() - self.burst
    }

    /// Charges the bytes of a frame that started at `start`.
    #[inline]
    pub fn charge(&mut self, start: Time, wire_bytes: u64) {
        self.arrival.not_before(start);
        self.arrival.advance(wire_bytes, self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_frames_do_not_drift() {
        for (bytes, bps) in
            [(1048u64, 100_000_000_000u64), (1049, 40_000_003), (84, 7), (1538, 999)]
        {
            let rate = BitsPerSec::new(bps).unwrap();
            let mut clock = WireTime::default();
            for sent in 1..=100_000u128 {
                clock.advance(bytes, rate);
                let exact =
                    (sent * u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(bps));
                assert_eq!(u128::from(clock.ceil().as_ps()), exact.min(u128::from(u64::MAX)));
                if clock.ps > u64::MAX / 2 {
                    break;
                }
            }
        }
    }

    #[test]
    fn jumbo_lengths_take_the_same_path() {
        let rate = BitsPerSec::gbit(1);
        let (mut whole, mut parts) = (WireTime::default(), WireTime::default());
        whole.advance(1 << 22, rate);
        for _ in 0..4 {
            parts.advance(1 << 20, rate);
        }
        assert_eq!(whole, parts);
    }

    #[test]
    fn a_shaper_holds_its_rate_and_burst() {
        let mut shaper = Shaper::new(BitsPerSec::new(8_000).unwrap(), 2_000);
        let mut now = Time::from_ns(5_000_000_000);
        let first = now;
        let mut sent = 0u64;
        for _ in 0..1_000 {
            now = now.max(shaper.conforms_at());
            shaper.charge(now, 500);
            sent += 500;
        }
        let elapsed_ms = now.since(first).as_ps() / (PS_PER_SECOND / 1_000);
        // A full bucket of 2000 bytes, one frame of debt, and 1000 bytes a second.
        assert_eq!(sent, 2_000 + 500 + elapsed_ms);
    }

    #[test]
    fn short_frames_are_padded_on_the_wire() {
        let wire = WireOverhead::default();
        assert_eq!(
            (wire.wire_bytes(14), wire.wire_bytes(60), wire.wire_bytes(1514)),
            (84, 84, 1538)
        );
    }
}
