//! Distributions of flow sizes, as papers publish them: points of the cumulative distribution, straight lines between.
//!
//! The numbers are those that the public generator of HPCC's authors uses for the same names
//! (`alibaba-edu/High-Precision-Congestion-Control`, `traffic_gen`), so that results compare; a test compares the means
//! with it.

use crate::tm::random::Stream;
use crate::units::Bytes;

/// Bytes, and the share of flows that are no longer, in percent.
type Points = &'static [(f64, f64)];

/// Web search: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, Fig. 4, as HPCC (SIGCOMM 2019, 5.1) replays
/// it.
const WEB_SEARCH: Points = &[
    (0.0, 0.0),
    (10e3, 15.0),
    (20e3, 20.0),
    (30e3, 30.0),
    (50e3, 40.0),
    (80e3, 53.0),
    (200e3, 60.0),
    (1e6, 70.0),
    (2e6, 80.0),
    (5e6, 90.0),
    (10e6, 97.0),
    (30e6, 100.0),
];

/// Hadoop: Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015, Fig. 6, as HPCC (5.1) replays
/// it.
const HADOOP: Points = &[
    (0.0, 0.0),
    (100.0, 1.0),
    (200.0, 2.0),
    (300.0, 5.0),
    (350.0, 15.0),
    (400.0, 20.0),
    (500.0, 30.0),
    (600.0, 40.0),
    (700.0, 50.0),
    (1e3, 60.0),
    (2e3, 67.0),
    (7e3, 70.0),
    (30e3, 72.0),
    (50e3, 82.0),
    (80e3, 87.0),
    (120e3, 90.0),
    (300e3, 95.0),
    (1e6, 97.5),
    (2e6, 99.0),
    (10e6, 100.0),
];

/// Alibaba's storage network: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019; `AliStorage2019`.
const ALI_STORAGE: Points = &[
    (0.0, 0.0),
    (4e3, 22.93),
    (8e3, 69.21),
    (16e3, 80.61),
    (32e3, 90.47),
    (64e3, 93.53),
    (128e3, 96.77),
    (256e3, 97.53),
    (2e6, 100.0),
];

/// All RPCs of a Google datacentre: Sivaram, "Some Measured Google Flow Sizes", 2008, which is W3 of Montazeri et al.,
/// "Homa", SIGCOMM 2018; some of its points.
const RPC: Points = &[
    (0.0, 0.0),
    (3.0, 6.488),
    (32.0, 9.732),
    (64.0, 15.527),
    (128.0, 35.157),
    (256.0, 49.79),
    (512.0, 78.492),
    (796.0, 84.083),
    (1024.0, 86.32),
    (1536.0, 89.364),
    (2048.0, 90.886),
    (3072.0, 92.626),
    (4096.0, 93.496),
    (6194.0, 95.484),
    (8192.0, 96.431),
    (12214.0, 97.773),
    (16384.0, 98.469),
    (24461.0, 98.846),
    (32768.0, 99.04),
    (49152.0, 99.23),
    (65536.0, 99.326),
    (98304.0, 99.584),
    (131_072.0, 99.713),
    (194_547.0, 99.799),
    (262_144.0, 99.845),
    (393_216.0, 99.915),
    (524_288.0, 99.95),
    (782_390.0, 99.967),
    (1_058_178.0, 99.976),
    (1_541_023.0, 99.984),
    (2_113_675.0, 99.989),
    (3_076_362.0, 99.993),
    (4_300_563.0, 99.9955),
    (6_309_051.0, 99.9975),
    (8_909_743.0, 99.9987),
    (11_837_511.0, 99.9995),
    (15_158_197.0, 100.0),
];

/// Sizes of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Its name, or that of its file.
    pub name: String,
    /// Bytes and cumulative share, both rising; the last share is 1.
    points: Vec<(f64, f64)>,
}

impl Sizes {
    /// Names of the built-in ones.
    pub const NAMES: &'static [&'static str] = &["web_search", "hadoop", "ali_storage", "rpc"];

    /// The distribution of this name.
    pub fn named(name: &str) -> Option<Sizes> {
        let points = match name {
            "web_search" => WEB_SEARCH,
            "hadoop" => HADOOP,
            "ali_storage" => ALI_STORAGE,
            "rpc" => RPC,
            _ => return None,
        };
        Sizes::new(name, points.to_vec()).ok()
    }

    /// All flows are so long.
    pub fn fixed(size: Bytes) -> Sizes {
        Sizes { name: size.to_string(), points: vec![(size.get() as f64, 1.0)] }
    }

    /// From bytes and percent.
    ///
    /// # Errors
    /// The index of the wrong point, and why.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Result<Sizes, (usize, String)> {
        let last = points.len().saturating_sub(1);
        let mut before = (0.0, 0.0);
        for (place, &(bytes, percent)) in points.iter().enumerate() {
            if !(0.0..=1e15).contains(&bytes) || !(0.0..=100.0).contains(&percent) {
                return Err((place, "expected bytes up to 10^15 and a percentage".to_owned()));
            }
            if bytes < before.0 || percent < before.1 {
                return Err((place, "bytes and percentages must rise".to_owned()));
            }
            before = (bytes, percent);
        }
        match points.get(last) {
            Some(&(bytes, 100.0)) if bytes >= 1.0 => {}
            _ => {
                return Err((
                    last,
                    "the last point is the longest flow: 1 byte or more, at 100 percent".to_owned(),
                ));
            }
        }
        let share = |(bytes, percent): (f64, f64)| (bytes, percent / 100.0);
        Ok(Sizes { name: name.to_owned(), points: points.into_iter().map(share).collect() })
    }

    /// The size that this part of all flows does not exceed, at least 1 byte.
    pub fn quantile(&self, part: f64) -> Bytes {
        let at = self.points.partition_point(|(_, share)| *share < part);
        let (high, above) = self.points[at.min(self.points.len() - 1)];
        let bytes = match at.checked_sub(1).map(|at| self.points[at]) {
            Some((low, below)) if above > below => {
                low + (high - low) * (part - below) / (above - below)
            }
            _ => high,
        };
        Bytes::new((bytes as u64).max(1))
    }

    /// Mean of the lines between the points, in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points[0].0 * self.points[0].1;
        let lines = self.points.windows(2).map(|pair| {
            let ((low, below), (high, above)) = (pair[0], pair[1]);
            (low + high) / 2.0 * (above - below)
        });
        first + lines.sum::<f64>()
    }

    /// Mean of something that depends on the size, over a thousand even parts.
    pub fn mean_of(&self, value: impl Fn(Bytes) -> f64) -> f64 {
        let parts = 1000;
        let sum: f64 = (0..parts)
            .map(|part| value(self.quantile((f64::from(part) + 0.5) / f64::from(parts))))
            .sum();
        sum / f64::from(parts)
    }
}

/// A number from 0 to below 1, of 53 bits.
pub fn uniform(stream: &mut Stream) -> f64 {
    let bits = u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32());
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A number below `count`.
pub fn below(stream: &mut Stream, count: usize) -> usize {
    ((u64::from(stream.next_u32()) * count as u64) >> 32) as usize
}

/// An exponentially distributed number of this mean.
pub fn exponential(stream: &mut Stream, mean: f64) -> f64 {
    -ln(1.0 - uniform(stream)) * mean
}

/// The natural logarithm of a positive normal number by operations that IEEE 754 defines exactly: the C library's
/// differs from system to system in the last bit, and with it a run.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut part = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if part > std::f64::consts::SQRT_2 {
        (part, exponent) = (part / 2.0, exponent + 1);
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is below 0.172 here: the series ends below 1e-17.
    let t = (part - 1.0) / (part + 1.0);
    let square = t * t;
    let sum = (0..11).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * t * sum + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `CustomRand.getAvg` of HPCC's generator for the same files, to the byte; of `rpc`, which has
    /// fewer points here, within three percent of the mean that Homa's simulator states.
    #[test]
    fn means_are_those_of_the_public_generator() {
        let mean = |name| Sizes::named(name).unwrap().mean();
        assert!((mean("web_search") - 1_711_250.0).abs() < 1.0, "{}", mean("web_search"));
        assert!((mean("hadoop") - 120_420.75).abs() < 1.0, "{}", mean("hadoop"));
        assert!((mean("ali_storage") - 40_869.8).abs() < 1.0, "{}", mean("ali_storage"));
        assert!((mean("rpc") / 2_927.4 - 1.0).abs() < 0.03, "{}", mean("rpc"));
    }

    #[test]
    fn drawn_sizes_and_times_have_the_mean_that_is_asked_for() {
        for name in Sizes::NAMES {
            let sizes = Sizes::named(name).unwrap();
            // Evenly spaced: the tails are too heavy for a random sample's mean.
            let count = 200_000;
            let even = (0..count).map(|n| (f64::from(n) + 0.5) / f64::from(count));
            let drawn = even.map(|part| sizes.quantile(part).get() as f64);
            let mean = drawn.sum::<f64>() / f64::from(count);
            assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{name}: {mean} {}", sizes.mean());
        }
        let mut stream = Stream::new(1, 1);
        let times = (0..200_000).map(|_| exponential(&mut stream, 10.0)).sum::<f64>() / 200_000.0;
        assert!((times - 10.0).abs() < 0.1, "{times}");
        for x in [1e-300, 1e-9, 0.3, 0.999_999, 1.0, 2.0, 1234.5] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn points_that_are_no_distribution_are_refused_at_their_place() {
        let place = |points: &[(f64, f64)]| Sizes::new("x", points.to_vec()).unwrap_err().0;
        assert_eq!(place(&[(1.0, 10.0), (2.0, 5.0), (3.0, 100.0)]), 1);
        assert_eq!(place(&[(1.0, 10.0), (2.0, 101.0)]), 1);
        assert_eq!(place(&[(1.0, 10.0), (2.0, 90.0)]), 1);
        assert_eq!(place(&[]), 0);
    }
}
