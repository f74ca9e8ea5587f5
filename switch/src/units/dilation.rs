//! Time dilation: the same network, slowed down by a factor.
//!
//! Rates are divided and times multiplied by one factor, bytes and probabilities stay. In units of the slower clock
//! every ratio in a feedback loop (packets per period, increase per period, bytes in flight) is unchanged.

use std::num::NonZeroU32;

use wireyard_tables::time::Span;

use super::{BitsPerSec, Interval, Length};

/// The factor; 1 is no dilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dilation(NonZeroU32);

impl Default for Dilation {
    fn default() -> Dilation {
        Dilation::ONE
    }
}

impl Dilation {
    /// As it is.
    pub const ONE: Dilation = Dilation(NonZeroU32::MIN);

    /// A dilation by `factor`; `None` for zero.
    pub const fn new(factor: u32) -> Option<Dilation> {
        match NonZeroU32::new(factor) {
            Some(factor) => Some(Dilation(factor)),
            None => None,
        }
    }

    /// The factor.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Both combined; `None` beyond 32 bits.
    pub fn then(self, other: Dilation) -> Option<Dilation> {
        self.0.checked_mul(other.0).map(Dilation)
    }

    /// A time, multiplied; `None` beyond 64 bits of picoseconds (213 days).
    pub fn span(self, span: Span) -> Option<Span> {
        span.as_ps().checked_mul(u64::from(self.get())).map(Span::from_ps)
    }

    /// [`Dilation::span`] of a time written with its unit.
    pub fn interval(self, interval: Interval) -> Option<Interval> {
        self.span(interval.span()).map(Interval::new)
    }

    /// A rate, divided; `None` if the result is no whole number of bits per second.
    pub fn rate(self, rate: BitsPerSec) -> Option<BitsPerSec> {
        let factor = u64::from(self.get());
        let divides = rate.get().is_multiple_of(factor);
        BitsPerSec::new(rate.get() / factor).filter(|_| divides)
    }

    /// The rate before the dilation; stops at the fastest rate.
    pub fn undone(self, rate: BitsPerSec) -> BitsPerSec {
        let before = rate.get().saturating_mul(u64::from(self.get())).min(BitsPerSec::MAX_BPS);
        BitsPerSec::new(before).unwrap_or(rate)
    }

    /// A cable, multiplied: its delay is a time.
    pub fn cable(self, cable: Length) -> Option<Length> {
        cable.as_mm().checked_mul(u64::from(self.get())).map(Length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_rates_shrink_and_ends_are_told() {
        let ten = Dilation::new(10).unwrap();
        assert_eq!(ten.span(Span::from_us(50)), Some(Span::from_us(500)));
        assert_eq!(ten.span(Span::MAX), None);
        assert_eq!(ten.rate(BitsPerSec::gbit(100)), Some(BitsPerSec::gbit(10)));
        assert_eq!(ten.rate(BitsPerSec::new(12).unwrap()), None);
        assert_eq!(ten.undone(BitsPerSec::gbit(10)), BitsPerSec::gbit(100));
        assert_eq!(ten.cable(Length::metres(5)), Some(Length::metres(50)));
        assert_eq!(ten.then(ten), Dilation::new(100));
        assert_eq!(Dilation::new(u32::MAX).unwrap().then(ten), None);
        assert_eq!(Dilation::new(0), None);
    }
}
