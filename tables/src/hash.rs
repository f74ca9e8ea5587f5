//! The key hash: keyed multiplications over words, written so that generated code can repeat it.
//!
//! Definition, with the two words `s0` and `s1` of the table's [`Seed`], `fold(x, y) = low64(x * y) ^ high64(x * y)`
//! on the 128-bit product, and `mix(x, y) = fold(x, y) ^ (x + y)`:
//!
//! ```text
//! h = s0
//! for each pair (a, b) of key words:  h = mix(a ^ h, b ^ s1)
//! if one word c is left:              h = fold(c ^ h, s1)
//! ```
//!
//! One word costs one multiplication, two words cost one as well. The bucket is taken from the top bits.
//!
//! Both factors of every product depend on the seed, and `mix` has no absorbing element: where one factor is 0 the
//! result still has every bit of the other. With a constant factor there would be keys that collide under every seed.
//! It does not resist a sender that has the seed, so a live device draws a random one ([`crate::Options::seed`]), and
//! replay and the laboratory use a fixed one. No order derived from a hash ever reaches an output, and so neither does
//! the seed.

/// Makes the hash of a table its own. The second word is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Seed(pub [u64; 2]);

impl Seed {
    /// For keys that no packet chooses.
    pub(crate) const FIXED: Seed = Seed::of_table(0, u32::MAX);

    /// The seed of a table, from the seed of the set and the table's index in it.
    pub(crate) const fn of_table(seed: u64, table: u32) -> Seed {
        let first = scramble(seed ^ scramble(table as u64 + 1));
        Seed([first, scramble(first ^ seed) | 1])
    }
}

/// A bijection that spreads each bit over all (the finish of SplitMix64).
pub(crate) const fn scramble(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The two halves of the 128-bit product, folded.
#[inline(always)]
const fn fold(x: u64, y: u64) -> u64 {
    let product = (x as u128) * (y as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline(always)]
const fn mix(x: u64, y: u64) -> u64 {
    fold(x, y) ^ x.wrapping_add(y)
}

/// Hash of a key.
#[inline(always)]
pub fn hash(key: &[u64], seed: Seed) -> u64 {
    let Seed([s0, s1]) = seed;
    match key {
        [] => s0,
        [a] => fold(a ^ s0, s1),
        [a, b] => mix(a ^ s0, b ^ s1),
        _ => hash_iter(key.iter().copied(), seed),
    }
}

/// Hash of a key whose words are computed one by one (masked keys).
#[inline(always)]
pub(crate) fn hash_iter(mut words: impl Iterator<Item = u64>, seed: Seed) -> u64 {
    let Seed([mut h, s1]) = seed;
    while let Some(a) = words.next() {
        let Some(b) = words.next() else { return fold(a ^ h, s1) };
        h = mix(a ^ h, b ^ s1);
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn specialisations_agree_with_the_definition() {
        let (words, seed) = ([3, u64::MAX, 0, 7, 1 << 63], Seed::of_table(5, 0));
        for n in 0..=words.len() {
            assert_eq!(hash(&words[..n], seed), hash_iter(words[..n].iter().copied(), seed));
        }
    }

    #[test]
    fn consecutive_keys_spread_over_the_top_bits() {
        let seed = Seed::of_table(0x1234_5679, 0);
        let spread = |key: &dyn Fn(u64) -> Vec<u64>| {
            let mut load = [0u32; 256];
            for n in 0..65_536u64 {
                load[(hash(&key(n), seed) >> 56) as usize] += 1;
            }
            assert!(load.iter().all(|&n| (128..512).contains(&n)), "{load:?}");
        };
        spread(&|n| vec![n]);
        spread(&|n| vec![n, 7]);
        spread(&|n| vec![7, n]);
        spread(&|n| vec![7, n, 9, 11]);
        spread(&|n| vec![7, 9, n]);
    }

    /// With a constant in place of the seed, keys whose second word equals it would all hash to 0, with every seed.
    #[test]
    fn no_constant_makes_keys_collide() {
        let golden_ratio = 0x9e37_79b9_7f4a_7c15;
        for constant in [golden_ratio, 0, 1, u64::MAX, 0x2436_a885_a308_d313] {
            for seed in (0..8).map(|seed| Seed::of_table(seed, 3)) {
                let top = |key: &[u64]| hash(key, seed) >> 48;
                for word in 0..4 {
                    let keys = (0..1000u64).map(|n| {
                        let mut key = [n; 4];
                        key[word] = constant;
                        key
                    });
                    let pairs = keys.clone().map(|key| top(&key[word / 2 * 2..][..2]));
                    assert!(pairs.collect::<BTreeSet<_>>().len() > 300, "{constant:#x}");
                    let whole = keys.map(|key| top(&key));
                    assert!(whole.collect::<BTreeSet<_>>().len() > 300, "{constant:#x}");
                }
            }
        }
    }

    /// Neither do the words of the seed absorb.
    #[test]
    fn nothing_is_absorbed() {
        let seed = Seed::of_table(7, 0);
        let Seed([s0, s1]) = seed;
        let first = (0..1000).map(|b| hash(&[s0, b], seed)).collect::<BTreeSet<_>>();
        let second = (0..1000).map(|a| hash(&[a, s1], seed)).collect::<BTreeSet<_>>();
        assert_eq!((first.len(), second.len()), (1000, 1000));
        assert_eq!(s1 & 1, 1, "one word alone is never multiplied by 0");
    }

    #[test]
    fn tables_and_sets_have_seeds_of_their_own() {
        let seeds = (0..100).flat_map(|seed| (0..100).map(move |t| Seed::of_table(seed, t).0));
        assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 10_000);
    }
}
