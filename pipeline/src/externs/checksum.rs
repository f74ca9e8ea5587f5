//! The ones'-complement checksum of the Internet protocols (RFC 1071) and its incremental update
//! (RFC 1624).

/// A running sum over a stream of bytes. Parts of odd length are allowed: the stream is summed as if
/// it were one piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Adds the next bytes of the stream.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.odd
            && let Some((&first, tail)) = rest.split_first()
        {
            self.total += u64::from(first);
            self.odd = false;
            rest = tail;
        }
        // 2^16 is congruent to 1, so wider words may be added; 2^32 additions cannot overflow.
        let (words, tail) = rest.as_chunks::<4>();
        self.total += words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
        let (pairs, tail) = tail.as_chunks::<2>();
        self.total += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
        if let Some(&last) = tail.first() {
            self.total += u64::from(last) << 8;
            self.odd = true;
        }
    }

    /// Skips `len` bytes of the stream without adding them.
    pub fn skip(&mut self, len: usize) {
        self.odd ^= len % 2 == 1;
    }

    /// True when the next byte is the low half of a word.
    pub fn is_odd(&self) -> bool {
        self.odd
    }

    /// The sum so far, not folded. It only grows: the difference of two is the sum of the bytes between.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The sum so far, folded to 16 bits and not inverted.
    pub fn folded(&self) -> u16 {
        fold(self.total)
    }

    /// The checksum: the inverted sum. Sums to 0xffff together with the data.
    pub fn checksum(&self) -> u16 {
        !self.folded()
    }
}

/// Adds the carries back in until 16 bits are left.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The checksum after the covered data changed from sum `old` to sum `new` (RFC 1624 equation 3, `HC' = ~(~HC + ~m +
/// m')`); `None` when the two are the same number in ones' complement, and then the field stays.
///
/// The result is never 0xffff: of the two zeros of ones' complement a checksum over data that is not
/// all zeros is 0x0000.
pub fn updated(check: u16, old: u16, new: u16) -> Option<u16> {
    let zero = |sum: u16| sum == 0 || sum == 0xffff;
    let same = old == new || (zero(old) && zero(new));
    if same {
        return None;
    }
    Some(match fold(u64::from(!check) + u64::from(!old) + u64::from(new)) {
        0 => 0,
        sum => !sum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, word by word.
    fn slow(bytes: &[u8]) -> u16 {
        let word =
            |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from);
        !fold(bytes.chunks(2).map(word).sum())
    }

    proptest! {
        #[test]
        fn parts_sum_like_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), cuts in any::<[u8; 3]>(),
        ) {
            let mut sum = Sum::default();
            let mut rest = &bytes[..];
            for cut in cuts {
                let (part, tail) = rest.split_at(usize::from(cut).min(rest.len()));
                sum.add(part);
                rest = tail;
            }
            sum.add(rest);
            prop_assert_eq!(sum.checksum(), slow(&bytes));
        }

        #[test]
        fn an_update_equals_the_full_checksum(
            mut bytes in proptest::collection::vec(any::<u8>(), 1..40)
                .prop_filter("not all zeros", |b| b.iter().any(|&b| b != 0)),
            at in any::<prop::sample::Index>(), value in any::<u8>(),
        ) {
            let (check, old) = (slow(&bytes), !slow(&bytes));
            let at = at.index(bytes.len());
            bytes[at] = value;
            prop_assume!(bytes.iter().any(|&b| b != 0));
            let new = !slow(&bytes);
            prop_assert_eq!(updated(check, old, new).unwrap_or(check), slow(&bytes));
        }

        #[test]
        fn a_wrong_checksum_stays_wrong_by_the_same_amount(
            check in any::<u16>(), old in 1u16.., new in 1u16..,
        ) {
            let error = |check: u16, sum: u16| (u32::from(check) + u32::from(sum)) % 0xffff;
            let after = updated(check, old, new).unwrap_or(check);
            prop_assert_eq!(error(after, new), error(check, old));
        }
    }

    /// RFC 1624 section 4, example, for which RFC 1141 has a wrong result.
    #[test]
    fn rfc_1624_example() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), Some(0x0000));
    }
}
