//! Numbers of more than 128 bits. The language has them as fields only, which are copied, compared, and read and written in slices of up
//! to 128 bits. So no expression of such a width is computed: who needs some of its bits gets an expression for these. Sums and
//! products, whose bits depend on all lower ones, are not made that way, and the checker refuses them.

use super::super::tree::Binary;
use super::super::types::Type;
use super::Lower;
use super::build::{binary, known, mux, number, slice, unary};
use super::operate::both;
use crate::ast::{Ast, AstBin, AstExpr, Path};
use crate::ir::SourceSpan;
use crate::ir::layout::{VALUE_BITS_MAX, ones};
use num_bigint::{BigInt, Sign};

/// A number of more bits.
pub(super) fn is_wide(ty: &Type) -> bool {
    matches!(ty.base(), Type::Bit(bits) | Type::Int(bits) if *bits > VALUE_BITS_MAX)
}

impl Lower<'_> {
    /// `place = value` for a wide number, slice by slice. A value that reads the place in other bits is read first.
    pub(super) fn assign_wide(
        &mut self,
        place: &AstExpr,
        value: &AstExpr,
        bits: u32,
        span: SourceSpan,
    ) {
        let mut parts: Vec<AstExpr> = slices(bits).map(|part| bits_of(value, part, span)).collect();
        if reads(value, place) {
            parts = slices(bits)
                .zip(parts)
                .map(|((high, low), part)| self.keep_number(part, high - low + 1))
                .collect();
        }
        for (part, value) in slices(bits).zip(parts) {
            self.set(&bits_of(place, part, span), value, span);
        }
    }
}

impl Lower<'_> {
    /// An operator on wide numbers, if each bit of the result is made of bits that are known now.
    pub(super) fn operate_wide(
        &mut self,
        op: Binary,
        a: AstExpr,
        b: AstExpr,
        ty: &Type,
        span: SourceSpan,
    ) -> AstExpr {
        let bits = self.bits(ty, span);
        match op {
            Binary::Op(op @ (AstBin::And | AstBin::Or | AstBin::Xor | AstBin::Concat)) => {
                binary(op, a, b, span)
            }
            Binary::Op(op @ (AstBin::Shl | AstBin::Shr))
                if matches!(ty.base(), Type::Bit(_)) && known(&b).is_some() =>
            {
                shifted(a, op == AstBin::Shl, known(&b).unwrap_or(0), bits, span)
            }
            _ => {
                self.no_wide(ty, span);
                number(0, bits, span)
            }
        }
    }

    pub(super) fn no_wide(&mut self, ty: &Type, span: SourceSpan) {
        self.unsupported(span, format!("arithmetic with {ty}: at most {VALUE_BITS_MAX} bits"))
            .help("`&`, `|`, `^`, `~`, `++`, slices and shifts by a known number work; else compute with slices: `x[127:0]`");
    }
}

/// Whether an expression reads the field that a place is.
fn reads(value: &AstExpr, place: &AstExpr) -> bool {
    let mut whole = &place.value;
    while let Ast::Slice { value, .. } = whole {
        whole = &value.value;
    }
    let Ast::Path(place) = whole else { return true };
    let (place, mut found) = (place.plain(), false);
    // Elements whose numbers differ may be the same one.
    value.value.paths(&mut |path: &Path| {
        let path = path.plain();
        found |= path.is_none() || place.is_none() || path == place;
    });
    found
}

/// The slices of so many bits, highest first; each ends at a multiple of 128 bits.
pub(super) fn slices(bits: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..bits)
        .step_by(VALUE_BITS_MAX as usize)
        .rev()
        .map(move |low| ((low + VALUE_BITS_MAX).min(bits) - 1, low))
}

/// `a == b` for wide numbers.
pub(super) fn equal(a: &AstExpr, b: &AstExpr, bits: u32, span: SourceSpan) -> AstExpr {
    let same = |part| binary(AstBin::Eq, bits_of(a, part, span), bits_of(b, part, span), span);
    slices(bits).map(same).fold(number(1, 1, span), |all, one| both(all, one, span))
}

/// A number that is written, as wide as its type.
pub(super) fn constant(value: &BigInt, bits: u32, span: SourceSpan) -> AstExpr {
    let mut value = value.clone();
    if value.sign() == Sign::Minus {
        value += BigInt::from(1) << bits;
    }
    let part = |(high, low): (u32, u32)| {
        let part = (&value >> low) & BigInt::from(ones(high - low + 1));
        number(u128::try_from(part).unwrap_or(0), high - low + 1, span)
    };
    slices(bits)
        .map(part)
        .reduce(|high, low| binary(AstBin::Concat, high, low, span))
        .unwrap_or_else(|| number(0, bits, span))
}

/// What the bits of an `int<bits>` mean; a number that is written in one piece is below 2 to the 128.
pub(super) fn signed(value: u128, bits: u32) -> BigInt {
    let is_negative = bits <= VALUE_BITS_MAX && value >> (bits - 1) & 1 == 1;
    BigInt::from(value) - if is_negative { BigInt::from(1) << bits } else { BigInt::from(0) }
}

/// An operand of a concatenation, in a form that says how wide it is.
pub(super) fn sized(value: AstExpr, bits: u32, span: SourceSpan) -> AstExpr {
    match width(&value) {
        Some(_) => value,
        None => slice(value, bits - 1, 0, span),
    }
}

/// A number in another width, one of them a wide one; what is new above it is zero.
pub(super) fn resized(value: AstExpr, from: u32, to: u32, span: SourceSpan) -> AstExpr {
    if to < from {
        return match to <= VALUE_BITS_MAX {
            true => bits_of(&value, (to - 1, 0), span),
            false => slice(value, to - 1, 0, span),
        };
    }
    binary(AstBin::Concat, number(0, to - from, span), sized(value, from, span), span)
}

/// `value << by` and `value >> by` by a number that is known.
pub(super) fn shifted(
    value: AstExpr,
    left: bool,
    by: u128,
    bits: u32,
    span: SourceSpan,
) -> AstExpr {
    let by = match u32::try_from(by) {
        Ok(0) => return value,
        Ok(by) if by < bits => by,
        _ => return number(0, bits, span),
    };
    match left {
        true => {
            let kept = slice(value, bits - 1 - by, 0, span);
            binary(AstBin::Concat, kept, number(0, by, span), span)
        }
        false => {
            let kept = slice(value, bits - 1, by, span);
            binary(AstBin::Concat, number(0, by, span), kept, span)
        }
    }
}

/// How wide an expression is, where its form says it.
fn width(value: &AstExpr) -> Option<u32> {
    match &value.value {
        Ast::Number { bits, .. } => *bits,
        Ast::Slice { high, low, .. } => u32::try_from(known(high)? - known(low)? + 1).ok(),
        Ast::Binary(AstBin::Concat, a, b) => Some(width(a)? + width(b)?),
        Ast::Cast(bits, _) => u32::try_from(bits.value).ok(),
        Ast::Mux(_, a, b) => width(a).or_else(|| width(b)),
        _ => None,
    }
}

/// The bits `high..=low`, at most 128, of a number.
pub(super) fn bits_of(value: &AstExpr, (high, low): (u32, u32), span: SourceSpan) -> AstExpr {
    let part = |of: &AstExpr| bits_of(of, (high, low), span);
    match &value.value {
        Ast::Number { value, .. } => {
            let bits = high - low + 1;
            number(value.checked_shr(low).unwrap_or(0) & ones(bits), bits, span)
        }
        Ast::Slice { value: of, low: below, .. } => {
            let below = known(below).and_then(|below| u32::try_from(below).ok()).unwrap_or(0);
            bits_of(of, (high + below, low + below), span)
        }
        Ast::Unary(op @ crate::ast::AstUn::Complement, of) => unary(*op, part(of), span),
        Ast::Binary(op @ (AstBin::And | AstBin::Or | AstBin::Xor), a, b) => {
            binary(*op, part(a), part(b), span)
        }
        Ast::Mux(condition, a, b) => mux((**condition).clone(), part(a), part(b), span),
        Ast::Binary(AstBin::Concat, a, b) => {
            let Some(below) = width(b) else { return slice(value.clone(), high, low, span) };
            match (low >= below, high < below) {
                (true, _) => bits_of(a, (high - below, low - below), span),
                (_, true) => bits_of(b, (high, low), span),
                _ => {
                    let above = bits_of(a, (high - below, 0), span);
                    binary(AstBin::Concat, above, bits_of(b, (below - 1, low), span), span)
                }
            }
        }
        _ => slice(value.clone(), high, low, span),
    }
}
