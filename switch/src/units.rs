//! Units of the traffic manager: bytes, cells, bit rates, probabilities, pause quanta, lengths.
//!
//! Each is an integer newtype, so a rate cannot be added to a size and nothing is rounded by accident. Text always
//! carries its unit ("5 KB", "100Gbit/s", "1 %"): a bare number is refused, because "KB" has meant 1000, 1024 and 1030
//! bytes in published simulators. Parsing is in `units/parse.rs`.

use std::fmt;

use wireyard_tables::time::Span;

mod dilation;
mod parse;
pub use dilation::Dilation;
pub use parse::{UnitError, is_unit, rounded};

/// Picoseconds in a second.
pub const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Bits in one pause quantum (IEEE 802.3 Annex 31B.2, 802.1Qbb).
pub const QUANTUM_BITS: u64 = 512;

/// A number of bytes. 1 KB is 1000 B, 1 KiB is 1024 B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// From a count of bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Sum, or `None` beyond 64 bits.
    pub fn checked_add(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_add(other.0).map(Bytes)
    }

    /// Difference, or `None` below zero.
    pub fn checked_sub(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_sub(other.0).map(Bytes)
    }

    /// Sum that stops at the largest value.
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// Difference that stops at zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Product, or `None` beyond 64 bits.
    pub fn checked_mul(self, factor: u64) -> Option<Bytes> {
        self.0.checked_mul(factor).map(Bytes)
    }

    /// Cells of `cell` bytes needed to store this; a cell of zero bytes means no cells are used.
    pub const fn cells(self, cell: Bytes) -> Option<Cells> {
        if cell.0 == 0 { None } else { Some(Cells(self.0.div_ceil(cell.0))) }
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Bytes::saturating_add)
    }
}

/// A number of buffer cells, the unit in which switch chips allocate packet memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cells(u64);

impl Cells {
    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Bytes held by this many cells, or `None` beyond 64 bits.
    pub fn bytes(self, cell: Bytes) -> Option<Bytes> {
        self.0.checked_mul(cell.0).map(Bytes)
    }
}

/// A bit rate, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerSec(std::num::NonZeroU64);

impl BitsPerSec {
    /// The fastest rate accepted: 100 Tbit/s, far beyond any link and safe in 64-bit sums.
    pub const MAX_BPS: u64 = 100_000_000_000_000;

    /// From bits per second; `None` for zero and beyond [`BitsPerSec::MAX_BPS`].
    pub const fn new(bps: u64) -> Option<BitsPerSec> {
        match std::num::NonZeroU64::new(bps) {
            Some(rate) if bps <= Self::MAX_BPS => Some(BitsPerSec(rate)),
            _ => None,
        }
    }

    /// From whole gigabits per second; zero becomes 1 and the result stops at the fastest rate.
    pub const fn gbit(gbit: u32) -> BitsPerSec {
        let bps = gbit as u64 * 1_000_000_000;
        let bps = if bps > Self::MAX_BPS { Self::MAX_BPS } else { bps };
        match std::num::NonZeroU64::new(bps) {
            Some(rate) => BitsPerSec(rate),
            None => BitsPerSec(std::num::NonZeroU64::MIN),
        }
    }

    /// Bits per second.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The time of `bytes` at this rate, rounded up.
    pub fn time_for(self, bytes: Bytes) -> Span {
        self.time_for_bits(u128::from(bytes.0) * 8)
    }

    /// The time of `bits` at this rate, rounded up; saturates.
    pub fn time_for_bits(self, bits: u128) -> Span {
        let ps = (bits * u128::from(PS_PER_SECOND)).div_ceil(u128::from(self.get()));
        Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The bytes transmitted in `span`, rounded up; saturates.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bits = u128::from(span.as_ps()) * u128::from(self.get());
        let bytes = bits.div_ceil(8 * u128::from(PS_PER_SECOND));
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// A probability as an integer fraction of 2^32, from 0 to 1 inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0);
    /// Always.
    pub const ONE: Probability = Probability(1 << 32);

    /// `numerator / denominator`, rounded to the nearest 2^-32; `None` above one.
    pub fn ratio(numerator: u64, denominator: u64) -> Option<Probability> {
        if denominator == 0 || numerator > denominator {
            return None;
        }
        let (n, d) = (u128::from(numerator), u128::from(denominator));
        u64::try_from(((n << 32) + d / 2) / d).ok().map(Probability)
    }

    /// Whole percent; `None` above 100.
    pub fn percent(percent: u64) -> Option<Probability> {
        Probability::ratio(percent, 100)
    }

    /// In units of 2^-32: an event happens when a uniform 32-bit number is below this.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Parts per million, for reports.
    pub const fn ppm(self) -> u64 {
        (self.0 * 1_000_000 + (1 << 31)) >> 32
    }
}

/// A pause time in quanta of 512 bit times (IEEE 802.3 Annex 31B.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quanta(u16);

impl Quanta {
    /// Zero: resume.
    pub const ZERO: Quanta = Quanta(0);
    /// The longest pause, 65535 quanta.
    pub const MAX: Quanta = Quanta(u16::MAX);

    /// From a count of quanta.
    pub const fn new(quanta: u16) -> Quanta {
        Quanta(quanta)
    }

    /// The count.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Its length on a link of `rate`, rounded up. On a rate-scaled link this must be the scaled
    /// rate, or a pause would end orders of magnitude too early.
    pub fn span(self, rate: BitsPerSec) -> Span {
        rate.time_for_bits(u128::from(self.0) * u128::from(QUANTUM_BITS))
    }
}

/// A cable length in millimetres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Length(u64);

impl Length {
    /// From whole metres.
    pub const fn metres(metres: u32) -> Length {
        Length(metres as u64 * 1_000)
    }

    /// Millimetres.
    pub const fn as_mm(self) -> u64 {
        self.0
    }

    /// One-way propagation delay at 5 ns/m (802.1Qbb headroom arithmetic).
    pub const fn delay(self) -> Span {
        Span::from_ps(self.0.saturating_mul(5))
    }
}

/// A span of time written with its unit ("200 ms", "55us").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(Span);

impl Interval {
    /// From a span.
    pub const fn new(span: Span) -> Interval {
        Interval(span)
    }

    /// The span.
    pub const fn span(self) -> Span {
        self.0
    }
}

/// A positive rational factor, `pool_alpha` of a dynamic threshold: alpha x free bytes of the pool.
///
/// SONiC's `dynamic_th: n` is alpha = 2^n. Kept as a fraction so that a comparison is two products
/// and no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolAlpha {
    numerator: u32,
    denominator: u32,
}

impl PoolAlpha {
    /// The largest numerator or denominator: products with 2^44 bytes stay within 64 bits.
    pub const MAX_TERM: u32 = 1 << 16;

    /// `numerator / denominator`; `None` if a term is zero or above [`PoolAlpha::MAX_TERM`].
    pub const fn new(numerator: u32, denominator: u32) -> Option<PoolAlpha> {
        let in_range = numerator != 0
            && denominator != 0
            && numerator <= Self::MAX_TERM
            && denominator <= Self::MAX_TERM;
        if in_range { Some(PoolAlpha { numerator, denominator }) } else { None }
    }

    /// 2^`exponent` as in SAI `DYNAMIC_TH`; `None` outside -10..=10.
    pub const fn power_of_two(exponent: i8) -> Option<PoolAlpha> {
        match exponent {
            0..=10 => PoolAlpha::new(1 << exponent, 1),
            -10..=-1 => PoolAlpha::new(1, 1 << -exponent),
            _ => None,
        }
    }

    /// Numerator and denominator.
    pub const fn terms(self) -> (u32, u32) {
        (self.numerator, self.denominator)
    }

    /// alpha x `free`, rounded down; saturates.
    pub const fn of(self, free: u64) -> u64 {
        free.saturating_mul(self.numerator as u64) / self.denominator as u64
    }

    /// True when `used` has reached alpha x `free`, without division.
    #[inline]
    pub const fn reached(self, used: u64, free: u64) -> bool {
        used.saturating_mul(self.denominator as u64) >= free.saturating_mul(self.numerator as u64)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0 B"),
            b if b % 1_000_000_000 == 0 => write!(f, "{} GB", b / 1_000_000_000),
            b if b % (1 << 20) == 0 => write!(f, "{} MiB", b >> 20),
            b if b % 1_000_000 == 0 => write!(f, "{} MB", b / 1_000_000),
            b if b % 1_000 == 0 => write!(f, "{} KB", b / 1_000),
            b => write!(f, "{b} B"),
        }
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cells", self.0)
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            r if r % 1_000_000_000 == 0 => write!(f, "{} Gbit/s", r / 1_000_000_000),
            r if r % 1_000_000 == 0 => write!(f, "{} Mbit/s", r / 1_000_000),
            r if r % 1_000 == 0 => write!(f, "{} kbit/s", r / 1_000),
            r => write!(f, "{r} bit/s"),
        }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ppm = self.ppm();
        let (whole, fraction) = (ppm / 10_000, ppm % 10_000);
        if fraction == 0 {
            return write!(f, "{whole} %");
        }
        let digits = format!("{fraction:04}");
        write!(f, "{whole}.{} %", digits.trim_end_matches('0'))
    }
}

impl fmt::Display for Quanta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} quanta", self.0)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            mm if mm % 1_000 == 0 => write!(f, "{} m", mm / 1_000),
            mm => write!(f, "{mm} mm"),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PoolAlpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            d => write!(f, "{}/{d}", self.numerator),
        }
    }
}

#[cfg(test)]
mod tests;
