//! Numbers without a width: exact integers of 129 bits in two's complement.
//!
//! `255`, `1 << 20` and `~0` take the width of their context only when they meet it; until then
//! they are computed exactly, so that a number that does not fit is an error and never wraps.

/// An integer from `-2^128` to `2^128 - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    negative: bool,
    low: u128,
}

impl Int {
    /// A number that is not negative.
    pub(crate) fn new(value: u128) -> Int {
        Int { negative: false, low: value }
    }

    /// The bits in `bits` (1 to 128) of width: a number below `2^bits`, or a negative one not below
    /// `-2^bits`, whose low bits are kept (`-1` and `~0` are all ones at every width).
    pub(crate) fn fit(self, bits: u32) -> Option<u128> {
        let mask = crate::ir::layout::ones(bits);
        let fits = if self.negative { !self.low & !mask == 0 } else { self.low & !mask == 0 };
        fits.then_some(self.low & mask)
    }

    /// The bits in a signed number of this width.
    pub(crate) fn fit_signed(self, bits: u32) -> Option<u128> {
        let mask = crate::ir::layout::ones(bits.saturating_sub(1));
        let fits = if self.negative { !self.low & !mask == 0 } else { self.low & !mask == 0 };
        fits.then_some(self.low & crate::ir::layout::ones(bits))
    }

    /// The value when it is not negative.
    pub(crate) fn value(self) -> Option<u128> {
        (!self.negative).then_some(self.low)
    }

    pub(crate) fn not(self) -> Int {
        Int { negative: !self.negative, low: !self.low }
    }

    pub(crate) fn negate(self) -> Option<Int> {
        self.not().add(Int::new(1))
    }

    pub(crate) fn add(self, other: Int) -> Option<Int> {
        let (low, carry) = self.low.overflowing_add(other.low);
        let negative = self.negative ^ other.negative ^ carry;
        let overflow = self.negative == other.negative && negative != self.negative;
        (!overflow).then_some(Int { negative, low })
    }

    pub(crate) fn sub(self, other: Int) -> Option<Int> {
        // a - b = ~(~a + b), which cannot overflow in the middle when the result fits.
        self.not().add(other).map(Int::not)
    }

    pub(crate) fn mul(self, other: Int) -> Option<Int> {
        let magnitude = self.magnitude()?.checked_mul(other.magnitude()?)?;
        let product = Int::new(magnitude);
        if self.negative != other.negative { product.negate() } else { Some(product) }
    }

    /// The remainder, whose sign is that of the dividend; `None` for a division by 0.
    pub(crate) fn rem(self, other: Int) -> Option<Int> {
        let rest = Int::new(self.magnitude()?.checked_rem(other.magnitude()?)?);
        if self.negative { rest.negate() } else { Some(rest) }
    }

    fn magnitude(self) -> Option<u128> {
        if self.negative { self.negate()?.value() } else { Some(self.low) }
    }

    pub(crate) fn shl(self, count: Int) -> Option<Int> {
        let count = count.value()?;
        if self.low == 0 && !self.negative {
            return Some(self);
        }
        self.mul(Int::new(1u128.checked_shl(u32::try_from(count).ok()?)?))
    }

    pub(crate) fn shr(self, count: Int) -> Option<Int> {
        let count = u32::try_from(count.value()?).unwrap_or(u32::MAX);
        let shift = |value: u128| value.checked_shr(count).unwrap_or(0);
        let low = if self.negative { !shift(!self.low) } else { shift(self.low) };
        Some(Int { negative: self.negative, low })
    }

    pub(crate) fn bitwise(self, other: Int, op: fn(u128, u128) -> u128) -> Int {
        let sign = op(self.negative.into(), other.negative.into());
        Int { negative: sign & 1 == 1, low: op(self.low, other.low) }
    }

    pub(crate) fn less(self, other: Int) -> bool {
        (!self.negative, self.low) < (!other.negative, other.low)
    }
}

impl std::fmt::Display for Int {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.magnitude() {
            Some(magnitude) if self.negative => write!(f, "-{magnitude}"),
            Some(magnitude) => write!(f, "{magnitude}"),
            None => f.write_str("-2^128"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn int(value: i64) -> Int {
        let magnitude = Int::new(value.unsigned_abs().into());
        if value < 0 { magnitude.negate().unwrap() } else { magnitude }
    }

    proptest! {
        #[test]
        fn agrees_with_wide_arithmetic(a in any::<i32>(), b in any::<i32>(), n in 0u8..31) {
            let (x, y) = (i64::from(a), i64::from(b));
            prop_assert_eq!(int(x).add(int(y)), Some(int(x + y)));
            prop_assert_eq!(int(x).sub(int(y)), Some(int(x - y)));
            prop_assert_eq!(int(x).mul(int(y)), Some(int(x * y)));
            prop_assert_eq!(int(x).bitwise(int(y), |a, b| a & b), int(x & y));
            prop_assert_eq!(int(x).bitwise(int(y), |a, b| a ^ b), int(x ^ y));
            prop_assert_eq!(int(x).not(), int(!x));
            prop_assert_eq!(int(x).shr(int(n.into())), Some(int(x >> n)));
            prop_assert_eq!(int(x).shl(int(n.into())), Some(int(x << n)));
            prop_assert_eq!(int(x).less(int(y)), x < y);
        }
    }

    #[test]
    fn a_number_fits_or_is_refused() {
        assert_eq!(int(255).fit(8), Some(255));
        assert_eq!(int(256).fit(8), None);
        assert_eq!(int(-1).fit(8), Some(255));
        assert_eq!(int(-257).fit(8), None);
        assert_eq!(int(-1).fit(128), Some(u128::MAX));
        assert_eq!(int(-128).fit_signed(8), Some(128));
        assert_eq!(int(128).fit_signed(8), None);
        assert_eq!(Int::new(u128::MAX).add(int(1)), None);
        assert_eq!(Int::new(u128::MAX).not().negate(), None);
        assert_eq!(Int::new(u128::MAX).not().to_string(), "-2^128");
    }
}
