//! Random numbers for programs: a seeded stream for each worker and purpose.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): eight
//! bytes of state, any seed is good, and the same seed gives the same packets. Not for secrets.

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of this purpose on this lane; streams of one seed are independent.
    pub fn new(seed: u64, purpose: u64, lane: usize) -> Stream {
        Stream(mix(mix(seed ^ mix(purpose)).wrapping_add(mix(lane as u64 ^ GOLDEN))))
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `low..=high`, or `low` if the range is empty. Takes two steps of the stream,
    /// whatever the range; no value is favoured by more than its share of 2^-64 up to ranges of 2^64.
    pub fn in_range(&mut self, low: u128, high: u128) -> u128 {
        let bits = u128::from(self.next_u64()) << 64 | u128::from(self.next_u64());
        if low > high {
            return low;
        }
        match (high - low).checked_add(1) {
            Some(span) => low + multiply_high(bits, span),
            None => bits,
        }
    }
}

/// The upper 128 bits of the 256-bit product.
fn multiply_high(a: u128, b: u128) -> u128 {
    let split = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (split(a), split(b));
    let (m1, m0) = split(a0 * b1 + ((a0 * b0) >> 64));
    let (n1, _) = split(a1 * b0 + m0);
    a1 * b1 + m1 + n1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_range_and_reaches_both_ends() {
        let mut stream = Stream::new(1, 2, 0);
        let drawn: Vec<u128> = (0..200).map(|_| stream.in_range(5, 8)).collect();
        assert!((5..=8).all(|value| drawn.contains(&value)));
        assert!(drawn.iter().all(|value| (5..=8).contains(value)));
        assert_eq!(stream.in_range(9, 3), 9);
        assert_eq!(stream.in_range(7, 7), 7);
        assert!((0..100).all(|_| stream.in_range(u128::MAX - 1, u128::MAX) >= u128::MAX - 1));
        assert_ne!(stream.in_range(0, u128::MAX), stream.in_range(0, u128::MAX));
    }

    #[test]
    fn mean_is_the_middle() {
        let mut stream = Stream::new(42, 0, 3);
        let sum: u128 = (0..100_000).map(|_| stream.in_range(0, 1000)).sum();
        assert!((49_500_000..50_500_000).contains(&sum), "{sum}");
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_lane() {
        let first = |seed, purpose, lane| Stream::new(seed, purpose, lane).next_u64();
        let all = [first(0, 0, 0), first(1, 0, 0), first(0, 1, 0), first(0, 0, 1), first(1, 1, 0)];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a));
        }
        assert_eq!(first(7, 8, 9), first(7, 8, 9));
    }

    #[test]
    fn product_of_large_numbers() {
        assert_eq!(multiply_high(u128::MAX, u128::MAX), u128::MAX - 1);
        assert_eq!(multiply_high(1 << 127, 6), 3);
        assert_eq!(multiply_high(u128::MAX, 1), 0);
    }
}
