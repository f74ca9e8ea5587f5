//! Instants and durations in integer picoseconds.
//!
//! They are in the leaf crate so that ageing, meters, the traffic manager and the laboratory share one notion of time.
//! This is not a clock: nothing here reads one, and every caller passes `now`. The unit is the picosecond, because one
//! byte at 400 Gbit/s lasts 20 ps and must not round; 64 bits of them last 213 days, counted from the start of the
//! process or of the simulation.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time: picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// When something is due without external input: at an instant, or never. One word, ordered as time is, because whole
/// devices of timers are compared; an `Option<Time>` has two words and its `None` comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

/// A span of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// The last instant. An event that never happens has [`Deadline::NEVER`].
    pub const MAX: Time = Time(u64::MAX);

    /// From picoseconds since the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// From nanoseconds since the start; saturates.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1_000))
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds since the start, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// The span since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Deadline {
    /// Due at every poll, as no instant is before the start of the run.
    pub const NOW: Deadline = Deadline(0);
    /// Due only by external input.
    pub const NEVER: Deadline = Deadline(u64::MAX);

    /// At an instant; [`Time::MAX`], to which sums of time saturate, is never reached: it is [`Deadline::NEVER`].
    #[inline]
    pub const fn at(at: Time) -> Deadline {
        Deadline(at.0)
    }

    /// In one word, for atomics: picoseconds since the start, `u64::MAX` for never.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From such a word.
    #[inline]
    pub const fn from_bits(bits: u64) -> Deadline {
        Deadline(bits)
    }

    /// True if it is due at `now`.
    #[inline]
    pub const fn is_by(self, now: Time) -> bool {
        self.0 <= now.0 && !self.is_never()
    }

    /// True if it is due before `at`.
    #[inline]
    pub const fn is_before(self, at: Time) -> bool {
        self.0 < at.0
    }

    /// True if it is never due.
    #[inline]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// The instant, `None` for never.
    #[inline]
    pub const fn instant(self) -> Option<Time> {
        if self.is_never() { None } else { Some(Time(self.0)) }
    }

    /// The span until then: zero if it is due, [`Span::MAX`] if it never is.
    #[inline]
    pub const fn left(self, now: Time) -> Span {
        if self.is_never() { Span::MAX } else { Span(self.0.saturating_sub(now.0)) }
    }

    /// This deadline, or `now` if that is later.
    #[inline]
    pub fn not_before(self, now: Time) -> Deadline {
        self.max(Deadline(now.0))
    }
}

impl From<Option<Time>> for Deadline {
    #[inline]
    fn from(at: Option<Time>) -> Deadline {
        at.map_or(Deadline::NEVER, Deadline::at)
    }
}

impl Add<Span> for Deadline {
    type Output = Deadline;
    fn add(self, span: Span) -> Deadline {
        Deadline(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Deadline {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.instant() {
            Some(at) => write!(f, "at {at}"),
            None => f.write_str("never"),
        }
    }
}

impl Span {
    /// No time.
    pub const ZERO: Span = Span(0);
    /// The longest span.
    pub const MAX: Span = Span(u64::MAX);

    /// From picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    /// From nanoseconds; saturates.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns.saturating_mul(1_000))
    }

    /// From microseconds; saturates.
    pub const fn from_us(us: u64) -> Span {
        Span(us.saturating_mul(1_000_000))
    }

    /// From milliseconds; saturates.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000_000_000))
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// True for the empty span.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000_000, self.0 / 1_000 % 1_000_000_000)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ps if ps % 1_000 != 0 => write!(f, "{ps} ps"),
            ps if ps % 1_000_000 != 0 => write!(f, "{} ns", ps / 1_000),
            ps if ps % 1_000_000_000 != 0 => write!(f, "{} us", ps / 1_000_000),
            ps => write!(f, "{} ms", ps / 1_000_000_000),
        }
    }
}
