//! Departure instants at a rate.
//!
//! After a packet of `b` bytes at rate `r` the next may leave `8 b / r` later. The fraction of a picosecond that does
//! not fit the clock is carried, so the long-run rate has no drift. The treatment of a gap that runs while the rate
//! changes is a choice ([`Gap`]). A packet that leaves late (the link was busy) by less than its predecessor's gap does
//! not lose that time; an idle sender gains nothing.

use wireyard_tables::time::{Span, Time};

const PS_PER_S: f64 = 1e12;

/// The treatment of a gap that runs while the rate changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Its rest is stretched or shrunk by the ratio of the rates, as with a token bucket of one packet.
    #[default]
    Rest,
    /// Its length is as if the packet had left at the new rate (`RdmaHw::ChangeRate` of HPCC's simulator).
    Whole,
    /// It is unchanged, and the new rate begins with the next packet (DCQCN in the same simulator, which only sets the
    /// rate).
    Kept,
}

/// The pacing state of one queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
    gap_ps: u64,
    fraction_ps: f64,
    gap: Gap,
    /// Departure of the newest packet, and the least time from it to the next.
    sent: Time,
    least: Span,
}

impl Pacer {
    /// Nothing has left.
    pub fn new(gap: Gap) -> Pacer {
        Pacer { gap, ..Pacer::default() }
    }

    /// The earliest instant for the next packet.
    pub fn due(&self) -> Time {
        if self.least.is_zero() { self.due } else { self.due.max(self.sent + self.least) }
    }

    /// Sets the least time from one packet to the next, whatever the rate. It applies to a gap that runs, too.
    pub fn set_least(&mut self, least: Span) {
        self.least = least;
    }

    /// A packet of `bytes` leaves at `now`, at `rate_bps` (above zero).
    pub fn on_sent(&mut self, now: Time, bytes: u64, rate_bps: f64) {
        let late = now.since(self.due).as_ps();
        let start = if late < self.gap_ps { self.due } else { now };
        // Via signed integers, which every machine converts in one instruction. The conversion saturates: a rate near
        // zero stops the sender for a hundred days.
        let exact = (bytes * 8) as i64 as f64 / rate_bps * PS_PER_S + self.fraction_ps;
        let gap_ps = exact as i64;
        self.gap_ps = gap_ps as u64;
        self.fraction_ps = exact - gap_ps as f64;
        self.due = start + Span::from_ps(self.gap_ps);
        self.sent = now;
    }

    /// The rate changed from `old_bps` to `new_bps`.
    pub fn on_rate_change(&mut self, now: Time, old_bps: f64, new_bps: f64) {
        let left = self.due.since(now).as_ps();
        if left > 0 && self.gap == Gap::Whole {
            let gap_ps = (self.gap_ps as f64 * (old_bps / new_bps)) as u64;
            self.due = Time::from_ps((self.due.as_ps() - self.gap_ps).saturating_add(gap_ps));
            self.gap_ps = gap_ps;
        } else if left > 0 && self.gap == Gap::Rest {
            let ratio = old_bps / new_bps;
            self.due = now + Span::from_ps((left as f64 * ratio) as u64);
            self.gap_ps = (self.gap_ps as f64 * ratio) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_exact() {
        // 1,048 B at 99 Gb/s is 84,686.868... ps: a million of them must not drift by a picosecond.
        let mut pacer = Pacer::default();
        for _ in 0..1_000_000 {
            let at = pacer.due();
            pacer.on_sent(at, 1048, 99e9);
        }
        let exact = 1_000_000.0 * 1048.0 * 8.0 / 99e9 * PS_PER_S;
        assert!((pacer.due().as_ps() as f64 - exact).abs() < 2.0, "{}", pacer.due().as_ps());
    }

    #[test]
    fn a_short_delay_is_made_up_and_idle_time_is_not() {
        let mut pacer = Pacer::default();
        pacer.on_sent(Time::ZERO, 1000, 8e9); // 1 us
        pacer.on_sent(Time::from_ns(1_400), 1000, 8e9);
        assert_eq!(pacer.due(), Time::from_ns(2_000));
        pacer.on_sent(Time::from_ns(9_000), 1000, 8e9);
        assert_eq!(pacer.due(), Time::from_ns(10_000));
    }

    #[test]
    fn a_least_gap_is_that_of_packets_of_every_length() {
        let mut pacer = Pacer::default();
        for bytes in [1000, 10] {
            let at = pacer.due();
            pacer.on_sent(at, bytes, 8e9);
            pacer.set_least(Span::from_us(5));
            assert_eq!(pacer.due(), at + Span::from_us(5));
            pacer.set_least(Span::from_us(7));
            assert_eq!(pacer.due(), at + Span::from_us(7), "the gap that runs");
        }
        let at = pacer.due();
        pacer.on_sent(at, 1000, 8e9);
        pacer.set_least(Span::ZERO);
        assert_eq!(pacer.due(), at + Span::from_us(1), "no longer");
    }

    #[test]
    fn a_cut_stretches_the_gap_that_runs() {
        let mut pacer = Pacer::default();
        pacer.on_sent(Time::ZERO, 1000, 8e9);
        pacer.on_rate_change(Time::from_ns(500), 8e9, 4e9);
        assert_eq!(pacer.due(), Time::from_ns(1_500));
        pacer.on_rate_change(Time::from_ns(1_500), 4e9, 1.0);
        assert_eq!(pacer.due(), Time::from_ns(1_500), "nothing left to stretch");
    }

    #[test]
    fn a_gap_is_measured_anew_or_kept_where_that_is_asked() {
        for (gap, due_ns, then_ns) in
            [(Gap::Rest, 1_500, 3_500), (Gap::Whole, 2_000, 4_000), (Gap::Kept, 1_000, 3_000)]
        {
            let mut pacer = Pacer::new(gap);
            pacer.on_sent(Time::ZERO, 1000, 8e9);
            pacer.on_rate_change(Time::from_ns(500), 8e9, 4e9);
            assert_eq!(pacer.due(), Time::from_ns(due_ns), "{gap:?}");
            pacer.on_sent(pacer.due(), 1000, 4e9);
            assert_eq!(pacer.due(), Time::from_ns(then_ns), "{gap:?}");
        }
        // A gap that would have ended before now ends now.
        let mut pacer = Pacer::new(Gap::Whole);
        pacer.on_sent(Time::ZERO, 1000, 4e9);
        pacer.on_rate_change(Time::from_ns(1_500), 4e9, 8e9);
        assert_eq!(pacer.due(), Time::from_ns(1_000));
    }
}
