//! Bytestrings of P4Runtime: unsigned numbers in network order (specification 1.5, section 8.3).
//!
//! Leading zero bytes are accepted in any number; answers have none. The empty string is not a number.

/// A number in the fewest bytes: `0` is one byte.
pub fn shortest(value: u128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = (value.leading_zeros() as usize / 8).min(bytes.len() - 1);
    bytes[zeros..].to_vec()
}

/// Why a bytestring is not a number of a width.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// No bytes.
    #[error("the value is empty; a value has at least one byte")]
    Empty,
    /// More bits than the width.
    #[error("the value has {found} bits, but only {bits} fit")]
    TooWide {
        /// Bits of the value.
        found: u64,
        /// Bits that fit.
        bits: u32,
    },
}

/// The number of a bytestring that fits into `bits` bits (128 at most).
///
/// # Errors
/// It is empty, or too wide.
pub fn number(bytes: &[u8], bits: u32) -> Result<u128, ValueError> {
    if bytes.is_empty() {
        return Err(ValueError::Empty);
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let found = digits
        .first()
        .map_or(0, |first| digits.len() as u64 * 8 - u64::from(first.leading_zeros()));
    if found > u64::from(bits.min(128)) {
        return Err(ValueError::TooWide { found, bits });
    }
    Ok(digits.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_accepted_and_never_written() {
        assert_eq!(number(&[0, 0, 0, 1, 2], 9), Ok(0x102));
        assert_eq!(number(&[0; 40], 1), Ok(0));
        assert_eq!(number(&[1; 16], 128), Ok(u128::from_be_bytes([1; 16])));
        assert_eq!(shortest(0x102), [1, 2]);
        assert_eq!(shortest(0), [0]);
        assert_eq!(shortest(u128::MAX), [255; 16]);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        assert_eq!(number(&[], 8), Err(ValueError::Empty));
        assert_eq!(number(&[2, 0], 9), Err(ValueError::TooWide { found: 10, bits: 9 }));
        assert_eq!(number(&[1, 0], 8), Err(ValueError::TooWide { found: 9, bits: 8 }));
        let long = [&[1u8][..], &[0; 16]].concat();
        assert_eq!(number(&long, 128), Err(ValueError::TooWide { found: 129, bits: 128 }));
    }
}
