//! The judge: marks by depth against a law, with intervals. Plain numbers in, verdicts out.
//!
//! Depth is the value that the congestion point reads: bytes that wait when the packet has left. Below Kmin nothing may
//! be marked and above Kmax everything must be; both are exact. On the ramp a bucket is judged when it has
//! [`MARKS_MIN`] marks, and holds if the law's mean over the received packets is in the interval of the marks.

/// Marks that a bucket must have to be judged.
pub const MARKS_MIN: u64 = 300;
/// Half width of the interval in standard deviations: a correct switch fails a bucket once in 16,000.
const JUDGED_DEVIATIONS: f64 = 4.0;
/// The same of the interval that is usual in a picture: 95 %.
pub const SHOWN_DEVIATIONS: f64 = 1.959_964;
/// Buckets of the ramp.
pub const RAMP_BUCKETS: usize = 8;

/// A marking curve: 0 up to Kmin, linear to Pmax at Kmax, 1 above. Bytes, and a share of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Kmin.
    pub kmin: f64,
    /// Kmax.
    pub kmax: f64,
    /// Pmax.
    pub pmax: f64,
}

impl Law {
    /// The probability at a depth.
    pub fn at(&self, depth: f64) -> f64 {
        if depth <= self.kmin {
            0.0
        } else if depth <= self.kmax {
            self.pmax * (depth - self.kmin) / (self.kmax - self.kmin)
        } else {
            1.0
        }
    }
}

/// Packets of a range of depths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Depths above this, bytes.
    pub above: f64,
    /// And up to this.
    pub up_to: f64,
    /// Packets.
    pub packets: u64,
    /// Marked ones.
    pub marked: u64,
    /// Sum of their depths.
    pub depths: f64,
}

impl Bucket {
    /// Share of marked packets; NaN without packets.
    pub fn share(&self) -> f64 {
        self.marked as f64 / self.packets as f64
    }

    /// The law's share for these packets: it is linear within a bucket, so their mean depth is enough.
    pub fn expected(&self, law: &Law) -> f64 {
        if self.packets == 0 { f64::NAN } else { law.at(self.depths / self.packets as f64) }
    }

    /// Wilson's interval of the probability.
    pub fn interval(&self, deviations: f64) -> (f64, f64) {
        if self.packets == 0 {
            return (0.0, 1.0);
        }
        let (n, p, z) = (self.packets as f64, self.share(), deviations);
        let scale = 1.0 + z * z / n;
        let middle = (p + z * z / (2.0 * n)) / scale;
        let half = z / scale * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        ((middle - half).max(0.0), (middle + half).min(1.0))
    }
}

/// The judgement of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// It agrees with the law.
    Holds,
    /// Not.
    Fails,
    /// Too few packets, or too few marks, to judge.
    Open,
}

impl Opinion {
    /// A word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Opinion::Holds => "holds",
            Opinion::Fails => "FAILS",
            Opinion::Open => "too few",
        }
    }
}

/// Marks by depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Not above Kmin; the ramp in equal parts; above Kmax.
    pub buckets: Vec<Bucket>,
    kmin: f64,
    kmax: f64,
}

impl Tally {
    /// Empty buckets for a law.
    pub fn new(law: &Law) -> Tally {
        let width = (law.kmax - law.kmin) / RAMP_BUCKETS as f64;
        let edge = |n: usize| law.kmin + width * n as f64;
        let bucket = |above, up_to| Bucket { above, up_to, ..Bucket::default() };
        let mut buckets = vec![bucket(f64::NEG_INFINITY, law.kmin)];
        buckets.extend((0..RAMP_BUCKETS).map(|n| bucket(edge(n), edge(n + 1))));
        buckets.push(bucket(law.kmax, f64::INFINITY));
        Tally { buckets, kmin: law.kmin, kmax: law.kmax }
    }

    /// Counts a packet.
    pub fn count(&mut self, depth: f64, is_marked: bool) {
        let part = (depth - self.kmin) / (self.kmax - self.kmin) * RAMP_BUCKETS as f64;
        let index = match depth {
            d if d <= self.kmin => 0,
            d if d > self.kmax => RAMP_BUCKETS + 1,
            _ => (part.ceil() as usize).clamp(1, RAMP_BUCKETS),
        };
        let bucket = &mut self.buckets[index];
        bucket.packets += 1;
        bucket.marked += u64::from(is_marked);
        bucket.depths += depth;
    }

    /// The buckets of the ramp.
    pub fn ramp(&self) -> &[Bucket] {
        &self.buckets[1..=RAMP_BUCKETS]
    }

    /// Packets and marks of all buckets.
    pub fn totals(&self) -> (u64, u64) {
        self.buckets.iter().fold((0, 0), |(n, m), b| (n + b.packets, m + b.marked))
    }

    /// The deepest bucket of the ramp with fewer than `marks` marks: it needs more packets.
    pub fn wanting(&self, marks: u64) -> Option<&Bucket> {
        self.ramp().iter().rev().find(|bucket| bucket.marked < marks)
    }

    /// The judgement of each bucket.
    pub fn opinions(&self, law: &Law) -> Vec<Opinion> {
        let last = self.buckets.len() - 1;
        let of = |(index, bucket): (usize, &Bucket)| {
            let holds = match index {
                _ if bucket.packets == 0 => return Opinion::Open,
                0 => bucket.marked == 0,
                n if n == last => bucket.marked == bucket.packets,
                _ if bucket.marked < MARKS_MIN => return Opinion::Open,
                _ => {
                    let (low, high) = bucket.interval(JUDGED_DEVIATIONS);
                    (low..=high).contains(&bucket.expected(law))
                }
            };
            if holds { Opinion::Holds } else { Opinion::Fails }
        };
        self.buckets.iter().enumerate().map(of).collect()
    }

    /// The verdict on the curve: fails if a bucket fails, or if none of the ramp could be judged.
    pub fn verdict(&self, law: &Law) -> (bool, String) {
        let opinions = self.opinions(law);
        let of = |wanted: Opinion| opinions.iter().filter(|o| **o == wanted).count();
        let judged = opinions[1..=RAMP_BUCKETS].iter().filter(|o| **o != Opinion::Open).count();
        let worst = self
            .ramp()
            .iter()
            .filter(|bucket| bucket.marked >= MARKS_MIN)
            .map(|bucket| (bucket.share() / bucket.expected(law) - 1.0).abs())
            .fold(0.0, f64::max);
        let (packets, marks) = self.totals();
        let found = format!(
            "{judged} of {RAMP_BUCKETS} ramp buckets judged ({MARKS_MIN} marks or more), {} fail; worst {:.1} % off; {marks} \
             marks in {packets} packets",
            of(Opinion::Fails),
            worst * 100.0
        );
        (of(Opinion::Fails) == 0 && judged > 0, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::random::Stream;
    use crate::tm::{Curve, DecideAt, NotEct, WredConfig};
    use crate::units::Probability;

    const LAW: Law = Law { kmin: 5e3, kmax: 2000e3, pmax: 0.1 };

    /// Draining queues of a switch with this Pmax, in percent.
    fn drained(percent: u64) -> Tally {
        let curve = Curve::new(5_000, 2_000_000, Probability::percent(percent).unwrap());
        let config = WredConfig {
            curves: [curve, None, None],
            decide_at: DecideAt::Dequeue,
            not_ect: NotEct::Pass,
        };
        let curve = config.curves[0].unwrap();
        let mut tally = Tally::new(&LAW);
        let mut dice = Stream::new(1, 0);
        while let Some(bucket) = tally.wanting(2 * MARKS_MIN) {
            let packets = (bucket.up_to / 1082.0) as u64 + 40;
            for left in (0..packets).rev() {
                tally.count(left as f64 * 1082.0, curve.chooses(left * 1082, dice.next_u32()));
            }
        }
        tally
    }

    #[test]
    fn a_right_switch_holds() {
        let (holds, found) = drained(10).verdict(&LAW);
        assert!(holds, "{found}");
        assert!(found.starts_with("8 of 8"), "{found}");
    }

    #[test]
    fn a_wrong_curve_fails() {
        for percent in [7, 13] {
            let (holds, found) = drained(percent).verdict(&LAW);
            assert!(!holds, "{percent} %: {found}");
        }
        let moved = Law { kmin: 5e3, kmax: 1500e3, pmax: 0.1 };
        assert!(!drained(10).verdict(&moved).0);
    }

    #[test]
    fn one_mark_too_many_or_too_few_fails_outside_the_ramp() {
        let mut below = drained(10);
        below.count(5e3, true);
        assert!(!below.verdict(&LAW).0);
        let mut above = drained(10);
        above.count(2000e3 + 1.0, true);
        assert!(above.verdict(&LAW).0);
        above.count(2000e3 + 1.0, false);
        assert!(!above.verdict(&LAW).0);
    }

    #[test]
    fn nothing_proves_nothing() {
        let mut tally = Tally::new(&LAW);
        assert!(!tally.verdict(&LAW).0);
        (0..1000).for_each(|_| tally.count(1000e3, false));
        assert_eq!(tally.opinions(&LAW)[4], Opinion::Open);
        assert!(!tally.verdict(&LAW).0);
    }

    #[test]
    fn edges_belong_where_the_law_says() {
        let mut tally = Tally::new(&LAW);
        for depth in [0.0, 5e3, 5e3 + 1.0, 2000e3, 2000e3 + 1.0] {
            tally.count(depth, false);
        }
        let counts: Vec<u64> = tally.buckets.iter().map(|b| b.packets).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
    }
}
