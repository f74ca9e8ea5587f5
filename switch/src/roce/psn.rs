//! 24-bit packet sequence numbers with wrap-around arithmetic.

use std::fmt;

const MASK: u32 = 0x00ff_ffff;

/// A packet sequence number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `raw`.
    pub const fn new(raw: u32) -> Psn {
        Psn(raw & MASK)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This number `count` packets later.
    pub const fn plus(self, count: u32) -> Psn {
        Psn(self.0.wrapping_add(count) & MASK)
    }

    /// This number `count` packets earlier.
    pub const fn minus(self, count: u32) -> Psn {
        Psn(self.0.wrapping_sub(count) & MASK)
    }

    /// How far `self` is ahead of `other`, from -2^23 to 2^23 - 1; negative is behind (IBTA 9.7.1).
    pub const fn ahead_of(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "psn {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_signed_and_wraps() {
        let p = Psn::new(0xff_ffff);
        assert_eq!(p.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).ahead_of(p), 1);
        assert_eq!(p.ahead_of(Psn::new(0)), -1);
        assert_eq!(Psn::new(0x80_0000).ahead_of(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new(0x7f_ffff).ahead_of(Psn::new(0)), (1 << 23) - 1);
    }

    #[test]
    fn agrees_with_arithmetic_modulo_two_to_the_24() {
        proptest::proptest!(|(a: u32, d in -(1i32 << 23)..(1 << 23))| {
            let (a, slow) = (Psn::new(a), (i64::from(a & MASK) + i64::from(d)).rem_euclid(1 << 24));
            let b = Psn::new(slow as u32);
            proptest::prop_assert_eq!(b.ahead_of(a), d);
            proptest::prop_assert_eq!(if d < 0 { a.minus(-d as u32) } else { a.plus(d as u32) }, b);
        });
    }
}
