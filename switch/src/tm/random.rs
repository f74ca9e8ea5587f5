//! Seeded randomness, one stream per purpose.
//!
//! Counter based: number n of a stream is a hash of (key, n), so streams never influence each other
//! and adding one does not disturb the rest. The hash is the SplitMix64 finaliser (Steele, Lea,
//! Flood, OOPSLA 2014), which passes BigCrush on a counter; it is not for secrets.

/// The step of the counter: the odd number nearest to 2^64 divided by the golden ratio.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The SplitMix64 finaliser: a bijection of 64 bits.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of uniform 32-bit numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream number `purpose` of `seed`.
    pub const fn new(seed: u64, purpose: u64) -> Stream {
        Stream { state: mix(mix(seed.wrapping_add(GAMMA)) ^ mix(purpose.wrapping_mul(GAMMA))) }
    }

    /// The next number.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.state = self.state.wrapping_add(GAMMA);
        (mix(self.state) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, purpose| {
            let mut stream = Stream::new(seed, purpose);
            (0..64).map(|_| stream.next_u32()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn bits_are_balanced() {
        let mut stream = Stream::new(7, 7);
        let ones: u32 = (0..100_000).map(|_| stream.next_u32().count_ones()).sum();
        // 3.2 million fair bits: standard deviation 894.
        assert!(ones.abs_diff(1_600_000) < 4_500, "{ones}");
    }
}
