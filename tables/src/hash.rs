//! The key hash: folded multiplication over words, written so that generated code can repeat it.
//!
//! Definition, with `fold(a, b) = low64(a * b) ^ high64(a * b)` on the 128-bit product:
//!
//! ```text
//! h = seed
//! for each pair (a, b) of key words:  h = fold(a ^ h, b ^ K0)
//! if one word c is left:              h = fold(c ^ h, K1)
//! ```
//!
//! One word costs one multiplication, two words cost one as well. The bucket is taken from the top
//! bits. It is the mixing step of wyhash and foldhash without their finish: it is not meant to resist
//! somebody who knows the seed, so a live device draws a random one ([`crate::Options::seed`]), and
//! replay and the laboratory use a fixed one. No order derived from a hash ever reaches an output, so
//! the seed cannot either.

/// First constant (fractional part of the golden ratio).
pub const K0: u64 = 0x9e37_79b9_7f4a_7c15;
/// Second constant (from the digits of pi).
pub const K1: u64 = 0x2436_a885_a308_d313;

/// The two halves of the 128-bit product, folded.
#[inline(always)]
pub const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hash of a key.
#[inline(always)]
pub fn hash(key: &[u64], seed: u64) -> u64 {
    match key {
        [] => seed,
        [a] => fold(a ^ seed, K1),
        [a, b] => fold(a ^ seed, b ^ K0),
        _ => hash_iter(key.iter().copied(), seed),
    }
}

/// Hash of a key whose words are computed on the way (masked keys).
#[inline(always)]
pub(crate) fn hash_iter(mut words: impl Iterator<Item = u64>, seed: u64) -> u64 {
    let mut h = seed;
    while let Some(a) = words.next() {
        let Some(b) = words.next() else { return fold(a ^ h, K1) };
        h = fold(a ^ h, b ^ K0);
    }
    h
}

/// The seed of a table, from the seed of the set and the table's place in it.
pub(crate) const fn table_seed(seed: u64, table: u32) -> u64 {
    fold(seed ^ K1, (table as u64 + 1).wrapping_mul(K0)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specialisations_agree_with_the_definition() {
        let words = [3, u64::MAX, 0, 7, 1 << 63];
        for n in 0..=words.len() {
            assert_eq!(hash(&words[..n], 5), hash_iter(words[..n].iter().copied(), 5));
        }
    }

    #[test]
    fn consecutive_keys_spread_over_the_top_bits() {
        let mut load = [0u32; 256];
        for key in 0..65_536u64 {
            load[(hash(&[key], 0x1234_5679) >> 56) as usize] += 1;
        }
        assert!(load.iter().all(|&n| (128..512).contains(&n)), "{load:?}");
    }
}
