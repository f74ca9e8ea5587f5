//! Decisions from a seed, or from bytes.

use wireyard_switch::tm::random::{GAMMA, mix};

/// A source of decisions: splitmix64, so that a seed means the same everywhere. Behind bytes, if it has some: so a fuzzer that changes
/// a byte changes a decision.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    bytes: std::vec::IntoIter<u8>,
}

impl Random {
    /// The decisions of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed ^ GAMMA, bytes: Vec::new().into_iter() }
    }

    /// The decisions of these bytes, one each; behind them those of a seed that they make.
    pub fn of(bytes: &[u8]) -> Random {
        let seed = bytes.iter().fold(0u64, |sum, byte| mix(sum ^ u64::from(*byte)));
        Random { bytes: Vec::from(bytes).into_iter(), ..Random::new(seed) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        if let Some(byte) = self.bytes.next() {
            // As it is, so that near bytes are near decisions.
            return u64::from(byte);
        }
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// True so often.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len());
        from[at].clone()
    }

    /// A value of a width: small, nearly all ones, or anything.
    pub fn value(&mut self, bits: u32) -> u128 {
        let wide = u128::from(self.bits()) << 64 | u128::from(self.bits());
        let small = u128::from(self.bits() % 5);
        let ones = u128::MAX >> (128 - bits);
        match self.below(4) {
            0 | 1 => small & ones,
            2 => ones.wrapping_sub(small) & ones,
            _ => wide & ones,
        }
    }

    /// A width: ordinary ones, odd ones, and some above a word.
    pub fn width(&mut self) -> u32 {
        match self.below(7) {
            0 => 1,
            1 | 2 => self.pick(&[8, 16, 32, 48, 64, 128]),
            3 => 65 + self.below(64) as u32,
            _ => 1 + self.below(64) as u32,
        }
    }
}
