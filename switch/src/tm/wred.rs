//! WRED and ECN: the congestion point (CP).
//!
//! The law (DCQCN, "ECN or Delay", CoNEXT 2016, equation for p), on the instantaneous
//! bytes q of one egress queue, not an average:
//!
//! ```text
//!   p(q) = 0                                 q <= Kmin
//!        = Pmax (q - Kmin) / (Kmax - Kmin)   Kmin < q <= Kmax
//!        = 1                                 q > Kmax
//! ```
//!
//! At q = Kmax the probability is Pmax (the paper); SONiC's text gives "100 % from Kmax on". The two differ for one
//! depth only. By default the decision is made at dequeue and q is read after the packet left the queue, which takes
//! the queueing delay out of the control loop. This module decides and marks no header: the egress program writes the
//! mark in its protocol.

use crate::units::Probability;

use super::id::Color;
use super::random::Stream;

/// The largest threshold: products with a 2^32 probability stay within 64 bits.
pub const MAX_THRESHOLD_BYTES: u64 = (1 << 31) - 1;

/// One colour's marking curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    kmin: u64,
    kmax: u64,
    pmax: Probability,
}

impl Curve {
    /// A ramp from 0 at `kmin` to `pmax` at `kmax` bytes; `None` if `kmin > kmax` or `kmax` is above
    /// [`MAX_THRESHOLD_BYTES`]. `kmin == kmax` is a step (DCTCP).
    pub fn new(kmin: u64, kmax: u64, pmax: Probability) -> Option<Curve> {
        (kmin <= kmax && kmax <= MAX_THRESHOLD_BYTES).then_some(Curve { kmin, kmax, pmax })
    }

    /// Kmin and Kmax in bytes, and Pmax.
    pub fn parts(&self) -> (u64, u64, Probability) {
        (self.kmin, self.kmax, self.pmax)
    }

    /// True when a uniform 32-bit `draw` chooses this packet at depth `queue_bytes`.
    #[inline]
    pub fn chooses(&self, queue_bytes: u64, draw: u32) -> bool {
        if queue_bytes > self.kmax {
            return true;
        }
        // draw / 2^32 < Pmax (q - Kmin) / (Kmax - Kmin), without division.
        queue_bytes > self.kmin
            && u64::from(draw) * (self.kmax - self.kmin)
                < self.pmax.get() * (queue_bytes - self.kmin)
    }
}

/// When the queue depth is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecideAt {
    /// At dequeue, without the departing packet.
    #[default]
    Dequeue,
    /// At enqueue, without the arriving packet.
    Enqueue,
}

/// What happens to a chosen packet that is not ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotEct {
    /// It is dropped, as WRED without ECN does.
    Drop,
    /// It is treated as not chosen; only tail drop applies.
    #[default]
    Pass,
}

/// A WRED profile of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WredConfig {
    /// Curves by colour: green, yellow, red. `None`: that colour is never chosen.
    pub curves: [Option<Curve>; 3],
    /// When the queue depth is read.
    pub decide_at: DecideAt,
    /// Policy for packets without ECT.
    pub not_ect: NotEct,
}

/// Counters of the congestion point of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WredCounters {
    /// ECN-capable packets that were decided about.
    pub eligible: u64,
    /// Of these, chosen to be marked.
    pub marked: u64,
    /// Of `marked`, sent with a mark that egress has written.
    pub written: u64,
    /// Packets without ECT that were dropped.
    pub dropped: u64,
}

/// Number of packets marked, by the depth of the queue that the decision read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkingHistogram {
    bucket_bytes: u64,
    buckets: Vec<(u64, u64)>,
}

impl MarkingHistogram {
    /// A histogram of `buckets` buckets of `bucket_bytes` (above zero), and one for all greater depths.
    pub fn new(bucket_bytes: u64, buckets: usize) -> MarkingHistogram {
        MarkingHistogram { bucket_bytes: bucket_bytes.max(1), buckets: vec![(0, 0); buckets + 1] }
    }

    /// Width of a bucket in bytes.
    pub fn bucket_bytes(&self) -> u64 {
        self.bucket_bytes
    }

    /// For each bucket, ECN-capable packets and those marked; the last has no upper bound.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.buckets
    }

    fn count(&mut self, queue_bytes: u64, is_marked: bool) {
        let last = self.buckets.len() - 1;
        let index = usize::try_from(queue_bytes / self.bucket_bytes).map_or(last, |n| n.min(last));
        self.buckets[index].0 += 1;
        self.buckets[index].1 += u64::from(is_marked);
    }
}

/// The decision for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Leave,
    Mark,
    Drop,
}

/// The congestion point of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Wred {
    pub(crate) config: WredConfig,
    pub(crate) counters: WredCounters,
    /// Only while enabled.
    pub(crate) histogram: Option<MarkingHistogram>,
    stream: Stream,
}

impl Wred {
    pub(crate) fn new(config: WredConfig, stream: Stream) -> Wred {
        Wred { config, counters: WredCounters::default(), histogram: None, stream }
    }

    /// Decides for a packet of `color` at depth `queue_bytes` and counts.
    ///
    /// A number is drawn for every packet, chosen or not: the stream does not depend on depth.
    #[inline]
    pub(crate) fn decide(&mut self, queue_bytes: u64, color: Color, ect: bool) -> Decision {
        let draw = self.stream.next_u32();
        let curve = self.config.curves[color as usize];
        let chosen = curve.is_some_and(|curve| curve.chooses(queue_bytes, draw));
        self.counters.eligible += u64::from(ect);
        if ect && let Some(histogram) = &mut self.histogram {
            histogram.count(queue_bytes, chosen);
        }
        match (chosen, ect, self.config.not_ect) {
            (true, true, _) => {
                self.counters.marked += 1;
                Decision::Mark
            }
            (true, false, NotEct::Drop) => {
                self.counters.dropped += 1;
                Decision::Drop
            }
            _ => Decision::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_the_law() {
        let curve = Curve::new(5_000, 200_000, Probability::percent(1).unwrap()).unwrap();
        assert!(!curve.chooses(5_000, 0) && !curve.chooses(0, 0));
        assert!(curve.chooses(5_001, 0) && !curve.chooses(5_001, u32::MAX));
        let pmax = Probability::percent(1).unwrap().get() as u32;
        assert!(curve.chooses(200_000, pmax - 1) && !curve.chooses(200_000, pmax));
        assert!(curve.chooses(200_001, u32::MAX));
        let step = Curve::new(30, 30, Probability::ONE).unwrap();
        assert!(!step.chooses(30, 0) && step.chooses(31, u32::MAX));
        assert!(Curve::new(2, 1, Probability::ONE).is_none());
        let widest = Curve::new(0, MAX_THRESHOLD_BYTES, Probability::ONE).unwrap();
        assert!(widest.chooses(MAX_THRESHOLD_BYTES, u32::MAX));
    }

    /// The measured share at fixed depths is within five binomial standard deviations.
    #[test]
    fn probability_within_the_binomial_spread() {
        let pmax = Probability::percent(20).unwrap();
        let curve = Curve::new(400_000, 1_600_000, pmax).unwrap();
        let config = WredConfig {
            curves: [Some(curve), None, None],
            decide_at: DecideAt::Dequeue,
            not_ect: NotEct::Pass,
        };
        for step in 1..=12u64 {
            let mut wred = Wred::new(config, Stream::new(42, step));
            let (n, depth) = (50_000u64, 400_000 + step * 100_000);
            for _ in 0..n {
                wred.decide(depth, Color::Green, true);
            }
            let p = 0.2 * step as f64 / 12.0;
            let (mean, sd) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
            let marked = wred.counters.marked as f64;
            assert!(
                (marked - mean).abs() < 5.0 * sd,
                "depth {depth}: {marked}, expected {mean} +- {sd}"
            );
        }
    }
}
