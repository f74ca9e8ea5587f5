//! Match fields, the layout of a key in words, and the checked match of an entry on each field.
//!
//! A key is a fixed number of `u64` words. The caller that parses packets gathers the fields into that form; the
//! engines compare whole words and have no notion of fields. [`KeyLayout`] is the contract between the two sides: each
//! field, in order, is above those before it in the first word that has room, so that a key has few words to hash and
//! compare.

use crate::error::{FieldError, SpecError};
pub use crate::field::{FieldSpec, MAX_FIELD_BITS, MAX_KEY_WORDS, Match, MatchKind};

/// The position of a field in the key: bits `shift..shift + bits` of word `word`; a field wider than 64 bits has shift
/// 0, its low 64 bits in `word` and the rest in the low bits of `word + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// First word.
    pub word: usize,
    /// Lowest bit in that word.
    pub shift: u32,
    /// Width of the field.
    pub bits: u32,
}

impl BitRange {
    /// All ones in the width of the field.
    pub fn ones(self) -> u128 {
        ones(self.bits)
    }

    /// The field's value in a key (or in any row of words laid out like one).
    #[inline(always)]
    pub fn get(self, words: &[u64]) -> u128 {
        let low = u128::from(words[self.word] >> self.shift);
        let high = if self.bits > 64 { u128::from(words[self.word + 1]) << 64 } else { 0 };
        (low | high) & self.ones()
    }

    /// Sets the field, whose bits in `words` are zero.
    pub fn put(self, words: &mut [u64], value: u128) {
        words[self.word] |= (value as u64) << self.shift;
        if self.bits > 64 {
            words[self.word + 1] |= (value >> 64) as u64;
        }
    }
}

/// All ones in `bits` bits (1 to 128).
#[inline(always)]
pub(crate) fn ones(bits: u32) -> u128 {
    u128::MAX >> (128 - bits.clamp(1, 128))
}

/// The top `prefix_len` bits of a field of `bits` bits.
pub fn prefix_mask(bits: u32, prefix_len: u32) -> u128 {
    if prefix_len == 0 { 0 } else { ones(bits) & !(ones(bits) >> 1 >> (prefix_len - 1)) }
}

/// The position of every field of a key. A field of at most 64 bits never crosses a word: it is in the first word with
/// enough bits left. A wider field takes two whole words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    places: Vec<BitRange>,
    words: usize,
}

impl KeyLayout {
    /// Places fields of these widths.
    ///
    /// # Errors
    /// A width outside 1 to 128, or more than [`MAX_KEY_WORDS`] words in all.
    pub fn new(widths: impl IntoIterator<Item = u32>) -> Result<KeyLayout, SpecError> {
        // Bits in use, by word.
        let (mut places, mut used) = (Vec::new(), Vec::new());
        for (field, bits) in widths.into_iter().enumerate() {
            if !(1..=MAX_FIELD_BITS).contains(&bits) {
                return Err(SpecError::FieldWidth { field, bits });
            }
            let room = used.iter().position(|used| used + bits <= 64);
            let word = room.unwrap_or(used.len());
            if room.is_none() {
                used.resize(word + if bits > 64 { 2 } else { 1 }, 0);
            }
            places.push(BitRange { word, shift: used[word], bits });
            match bits {
                65.. => used[word..].fill(64),
                _ => used[word] += bits,
            }
        }
        let words = used.len();
        if words > MAX_KEY_WORDS {
            return Err(SpecError::KeyTooWide { words });
        }
        Ok(KeyLayout { places, words })
    }

    /// Number of words in a key; 0 for a table without fields.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The position of field `i`; `None` if there is no such field.
    pub fn place(&self, i: usize) -> Option<BitRange> {
        self.places.get(i).copied()
    }

    /// All positions, in field order.
    pub fn places(&self) -> &[BitRange] {
        &self.places
    }

    /// Gathers field values into a key; values are cut to their widths, missing ones are zero.
    pub fn pack(&self, values: &[u128]) -> Vec<u64> {
        let mut words = vec![0; self.words];
        for (place, &value) in self.places.iter().zip(values) {
            place.put(&mut words, value & place.ones());
        }
        words
    }
}

/// One field of an entry, checked: a masked value or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Values that are `value` under `mask`.
    Masked {
        /// The bits under the mask.
        value: u128,
        /// The bits that count.
        mask: u128,
        /// Number of those bits.
        prefix_len: u32,
    },
    /// Values from `lo` to `hi`.
    Range {
        /// The lowest.
        lo: u128,
        /// The highest.
        hi: u128,
    },
}

impl Pattern {
    /// The canonical match of this field, which is the form that is read back.
    pub fn as_match(self, field: &FieldSpec) -> Match {
        match (self, field.kind) {
            (Pattern::Range { lo, hi }, _) if (lo, hi) == (0, ones(field.bits)) => Match::Any,
            (Pattern::Range { lo, hi }, _) => Match::Range { lo, hi },
            (Pattern::Masked { mask: 0, .. }, _) => Match::Any,
            (Pattern::Masked { value, prefix_len, .. }, MatchKind::Lpm) => {
                Match::Lpm { value, prefix_len }
            }
            (Pattern::Masked { value, mask, .. }, MatchKind::Ternary) => {
                Match::Ternary { value, mask }
            }
            (Pattern::Masked { value, .. }, MatchKind::Optional) => Match::Optional(Some(value)),
            (Pattern::Masked { value, .. }, _) => Match::Exact(value),
        }
    }
}

impl Match {
    /// The canonical form of this match, which is the form that is read back; one that does not fit the field stays as
    /// it is.
    pub fn canonical(self, kind: MatchKind, bits: u32) -> Match {
        let field = FieldSpec { name: String::new(), bits, kind };
        self.check(&field).map_or(self, |pattern| pattern.as_match(&field))
    }

    /// Checks the match against the field it is meant for.
    ///
    /// # Errors
    /// It is of another kind, does not fit, or is not canonical.
    pub fn check(self, field: &FieldSpec) -> Result<Pattern, FieldError> {
        let bits = field.bits;
        let fits = |value: u128| {
            if value <= ones(bits) { Ok(value) } else { Err(FieldError::TooWide { value, bits }) }
        };
        let masked = |value, mask: u128| {
            let stray = value & !mask != 0;
            let prefix_len = mask.count_ones();
            let pattern = Pattern::Masked { value, mask, prefix_len };
            if stray { Err(FieldError::NotCanonical { value, mask }) } else { Ok(pattern) }
        };
        match (field.kind, self) {
            (MatchKind::Range, Match::Exact(value)) => {
                Ok(Pattern::Range { lo: fits(value)?, hi: value })
            }
            (MatchKind::Range, Match::Any) => Ok(Pattern::Range { lo: 0, hi: ones(bits) }),
            (MatchKind::Range, Match::Range { lo, hi }) if lo > hi => {
                Err(FieldError::EmptyRange { lo, hi })
            }
            (MatchKind::Range, Match::Range { lo, hi }) => Ok(Pattern::Range { lo, hi: fits(hi)? }),
            (_, Match::Exact(value)) | (MatchKind::Optional, Match::Optional(Some(value))) => {
                masked(fits(value)?, ones(bits))
            }
            (MatchKind::Lpm | MatchKind::Ternary | MatchKind::Optional, Match::Any)
            | (MatchKind::Optional, Match::Optional(None)) => masked(0, 0),
            (MatchKind::Lpm, Match::Lpm { prefix_len, .. }) if prefix_len > bits => {
                Err(FieldError::PrefixTooLong { prefix_len, bits })
            }
            (MatchKind::Lpm, Match::Lpm { value, prefix_len }) => {
                masked(fits(value)?, prefix_mask(bits, prefix_len))
            }
            (MatchKind::Ternary, Match::Ternary { value, mask }) => {
                masked(fits(value)?, fits(mask)?)
            }
            (kind, found) => Err(FieldError::WrongKind { kind, found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_fill_words_and_do_not_cross_them() {
        let layout = KeyLayout::new([48, 12, 16, 128, 9, 64]).unwrap();
        let at: Vec<_> = layout.places().iter().map(|p| (p.word, p.shift)).collect();
        assert_eq!(at, [(0, 0), (0, 48), (1, 0), (2, 0), (1, 16), (4, 0)]);
        assert_eq!(layout.words(), 5);
        let values = [0xaabb_ccdd_eeff, 0xfff, 0x1234, u128::MAX - 5, 0x1ff, 7];
        let key = layout.pack(&values);
        for (place, value) in layout.places().iter().zip(values) {
            assert_eq!(place.get(&key), value);
        }
    }

    #[test]
    fn limits_are_refused() {
        assert!(KeyLayout::new([0]).is_err());
        assert!(KeyLayout::new([129]).is_err());
        assert!(KeyLayout::new([64; 16]).is_ok());
        assert!(KeyLayout::new([64; 17]).is_err());
        assert_eq!(KeyLayout::new([]).unwrap().words(), 0);
    }

    #[test]
    fn one_form_is_read_back() {
        use MatchKind::*;
        let forms = [
            (Exact, Match::Exact(5), Match::Exact(5)),
            (Lpm, Match::Exact(5), Match::Lpm { value: 5, prefix_len: 8 }),
            (Lpm, Match::Lpm { value: 0, prefix_len: 0 }, Match::Any),
            (Ternary, Match::Exact(5), Match::Ternary { value: 5, mask: 0xff }),
            (Ternary, Match::Ternary { value: 0, mask: 0 }, Match::Any),
            (Range, Match::Exact(5), Match::Range { lo: 5, hi: 5 }),
            (Range, Match::Range { lo: 0, hi: 0xff }, Match::Any),
            (Optional, Match::Exact(5), Match::Optional(Some(5))),
            (Optional, Match::Optional(None), Match::Any),
            (Exact, Match::Exact(0x100), Match::Exact(0x100)),
        ];
        for (kind, written, read) in forms {
            assert_eq!(written.canonical(kind, 8), read, "{kind:?}");
        }
    }

    #[test]
    fn prefix_masks() {
        assert_eq!(prefix_mask(32, 0), 0);
        assert_eq!(prefix_mask(32, 24), 0xffff_ff00);
        assert_eq!(prefix_mask(128, 128), u128::MAX);
        assert_eq!(prefix_mask(128, 1), 1 << 127);
        assert_eq!(prefix_mask(1, 1), 1);
    }
}
