//! Expressions: bmv2 computes without a width and truncates a number where it is stored; P4 computes in a width.
//!
//! An expression is read into a tree. Where its value is truncated, only the remaining bits are computed, as far as an
//! operator's low bits depend on low bits only; where it is compared, shifted to the right or divided, it gets the
//! width that holds every value it can have. p4c puts `& mask` around each operation that may overflow, so the result
//! has the widths of the P4 source.

use num_bigint::{BigInt, Sign};

use super::model::Model;
use super::read::Reader;
use crate::ir::SourceSpan;

/// Widest number that is computed exactly.
pub(super) const EXACT_BITS_MAX: u32 = 2048;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(BigInt),
    /// A place or a parameter: P4 text of `bit<bits>`.
    Data {
        text: String,
        bits: u32,
        signed: bool,
    },
    Binary(Op, Box<Expr>, Box<Expr>),
    Complement(Box<Expr>),
    /// In two's complement of these bits.
    Wrapped(u32, Box<Expr>),
    /// The nearest number of these bits, signed or not.
    Saturated {
        signed: bool,
        bits: u32,
        value: Box<Expr>,
    },
    Mux(String, Box<Expr>, Box<Expr>),
    /// P4 text of a `bool`.
    Bool(String),
    /// A `bool` as 1 or 0.
    OfBool(String),
    /// The parser's error.
    Error(String),
    Variable(String),
    /// A header, with the number of its type; a union, a stack.
    Header(String, usize),
    /// A header that is metadata, by its name.
    Loose(String, usize),
    Union(String),
    Stack(String, usize),
}

/// An operator between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Every operator with its symbol.
const SYMBOLS: [(Op, &str); 10] = [
    (Op::Add, "+"),
    (Op::Sub, "-"),
    (Op::Mul, "*"),
    (Op::Div, "/"),
    (Op::Rem, "%"),
    (Op::And, "&"),
    (Op::Or, "|"),
    (Op::Xor, "^"),
    (Op::Shl, "<<"),
    (Op::Shr, ">>"),
];

impl Op {
    pub(super) fn find(symbol: &str) -> Option<Op> {
        SYMBOLS.iter().find(|(_, known)| *known == symbol).map(|(op, _)| *op)
    }

    fn symbol(self) -> &'static str {
        SYMBOLS.iter().find(|(op, _)| *op == self).map_or("", |(_, symbol)| symbol)
    }
}

/// What an expression may hold: its bits, and whether it can be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Natural {
    bits: u32,
    signed: bool,
}

/// Translates the expressions of one place.
pub(super) struct Translator<'t, 'r> {
    pub(super) model: &'t mut Model,
    pub(super) reader: &'t mut Reader<'r>,
    /// Parameters of the action around: name and bits.
    pub(super) params: &'t [(String, u32)],
}

impl Translator<'_, '_> {
    /// A value as a number: of one, of a `bool` or of an error.
    pub(super) fn as_number(&mut self, value: Expr, span: SourceSpan) -> Option<Expr> {
        match value {
            Expr::Bool(text) => Some(Expr::OfBool(text)),
            Expr::Error(text) => Some(self.error_number(&text)),
            Expr::Header(..)
            | Expr::Loose(..)
            | Expr::Union(_)
            | Expr::Stack(..)
            | Expr::Variable(_) => self.reader.refuse(span, "a number must stand here"),
            number => Some(number),
        }
    }

    /// The number that the JSON gives an error: the sum of a number for each, of which one is not 0.
    fn error_number(&self, text: &str) -> Expr {
        let one = |(number, name): (&u32, &String)| {
            let number = Box::new(Expr::Number((*number).into()));
            let condition = format!("({text} == error.{name})");
            Expr::Mux(condition, number, Box::new(Expr::Number(BigInt::ZERO)))
        };
        let mut parts: Vec<Expr> = self.model.errors.iter().map(one).collect();
        // Pairs, and pairs of these: as flat as many errors can be.
        while parts.len() > 1 {
            let mut rest = parts.into_iter();
            parts = Vec::new();
            while let Some(left) = rest.next() {
                parts.push(match rest.next() {
                    Some(right) => Expr::Binary(Op::Or, Box::new(left), Box::new(right)),
                    None => left,
                });
            }
        }
        parts.pop().unwrap_or(Expr::Number(BigInt::ZERO))
    }

    /// P4 text of a `bool`.
    pub(super) fn truth(&mut self, value: Expr, span: SourceSpan) -> Option<String> {
        match value {
            Expr::Bool(text) | Expr::OfBool(text) => Some(text),
            value => {
                let number = self.as_number(value, span)?;
                let (text, bits) = self.exact(&number, span)?;
                Some(format!("({text} != {bits}w0)"))
            }
        }
    }

    pub(super) fn compare(
        &mut self,
        sign: &str,
        left: &Expr,
        right: &Expr,
        span: SourceSpan,
    ) -> Option<Expr> {
        let equality = matches!(sign, "==" | "!=");
        let text = match (left, right) {
            (Expr::Bool(a), Expr::Bool(b)) if equality => format!("({a} {sign} {b})"),
            (Expr::Variable(a), Expr::Variable(b))
            | (Expr::Header(a, _), Expr::Header(b, _))
            | (Expr::Stack(a, _), Expr::Stack(b, _))
            | (Expr::Union(a), Expr::Union(b))
            | (Expr::Error(a), Expr::Error(b))
                if equality =>
            {
                format!("({a} {sign} {b})")
            }
            (Expr::Error(text), Expr::Number(number))
            | (Expr::Number(number), Expr::Error(text))
                if equality =>
            {
                let name =
                    u32::try_from(number).ok().and_then(|number| self.model.errors.get(&number));
                match name {
                    Some(name) => format!("({text} {sign} error.{name})"),
                    None => (sign == "!=").to_string(),
                }
            }
            _ => {
                let left = self.as_number(left.clone(), span)?;
                let right = self.as_number(right.clone(), span)?;
                let (a, b) = (natural(&left), natural(&right));
                let both = join(a, b);
                let bits = self.bounded(both.bits, span)?;
                let (a, b) = (self.modular(&left, bits, span)?, self.modular(&right, bits, span)?);
                match both.signed && !equality {
                    true => format!("((int<{bits}>)({a}) {sign} (int<{bits}>)({b}))"),
                    false => format!("({a} {sign} {b})"),
                }
            }
        };
        Some(Expr::Bool(text))
    }

    fn bounded(&mut self, bits: u32, span: SourceSpan) -> Option<u32> {
        if bits > EXACT_BITS_MAX {
            let text = format!(
                "this needs numbers of {bits} bits: at most {EXACT_BITS_MAX}, or `& mask` around what overflows"
            );
            return self.reader.unsupported(span, text);
        }
        Some(bits.max(1))
    }

    /// P4 text of the value in the bits that hold every value of it, in two's complement if it can be negative.
    pub(super) fn exact(&mut self, value: &Expr, span: SourceSpan) -> Option<(String, u32)> {
        let bits = self.bounded(natural(value).bits, span)?;
        Some((self.modular(value, bits, span)?, bits))
    }

    /// P4 text of the value's lowest bits, as `bit<bits>`.
    pub(super) fn modular(&mut self, value: &Expr, bits: u32, span: SourceSpan) -> Option<String> {
        Some(match value {
            Expr::Number(number) => literal(number, bits),
            Expr::Data { text, bits: from, signed } => resized(text, *from, *signed, bits),
            Expr::OfBool(text) | Expr::Bool(text) => format!("({text} ? {bits}w1 : {bits}w0)"),
            Expr::Mux(condition, left, right) => {
                let (left, right) =
                    (self.modular(left, bits, span)?, self.modular(right, bits, span)?);
                format!("({condition} ? {left} : {right})")
            }
            Expr::Complement(value) => format!("(~{})", self.modular(value, bits, span)?),
            Expr::Wrapped(width, value) => {
                let text = self.modular(value, *width, span)?;
                resized(&text, *width, true, bits)
            }
            Expr::Saturated { signed, bits: width, value } => {
                let text = self.saturated(*signed, *width, value, span)?;
                resized(&text, *width, *signed, bits)
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right, bits, span)?,
            Expr::Error(text) => {
                let number = self.error_number(text);
                self.modular(&number, bits, span)?
            }
            Expr::Variable(_)
            | Expr::Header(..)
            | Expr::Loose(..)
            | Expr::Union(_)
            | Expr::Stack(..) => {
                return self.reader.refuse(span, "a number must stand here");
            }
        })
    }

    /// P4 text of an index, as `bit<32>`: an unsigned one that needs more bits, up to 2,048, is behind the end of every
    /// array; a signed one is cut.
    pub(super) fn index(&mut self, value: &Expr, span: SourceSpan) -> Option<String> {
        let of = natural(value);
        if of.signed || !(33..=EXACT_BITS_MAX).contains(&of.bits) {
            return self.modular(value, 32, span);
        }
        let (text, bits) = self.exact(value, span)?;
        let most = u32::MAX;
        Some(format!("({text} > {bits}w{most} ? 32w{most} : (bit<32>)({text}))"))
    }

    fn binary(
        &mut self,
        op: Op,
        left: &Expr,
        right: &Expr,
        bits: u32,
        span: SourceSpan,
    ) -> Option<String> {
        // `x & 0xff` is the lowest bits of x.
        if op == Op::And
            && let Some((ones, value)) = mask(left, right)
        {
            if ones >= bits {
                return self.modular(value, bits, span);
            }
            let least = natural(value);
            let ones = if least.signed { ones } else { ones.min(least.bits) };
            let text = self.modular(value, ones.max(1), span)?;
            return Some(resized(&text, ones.max(1), false, bits));
        }
        match op {
            Op::Add | Op::Sub | Op::Mul | Op::And | Op::Or | Op::Xor => {
                let (left, right) =
                    (self.modular(left, bits, span)?, self.modular(right, bits, span)?);
                Some(format!("({left} {} {right})", op.symbol()))
            }
            Op::Shl => {
                let left = self.modular(left, bits, span)?;
                let by = self.amount(right, span)?;
                Some(format!("({left} << {by})"))
            }
            Op::Shr => {
                let all = natural(left);
                let (text, width) = self.exact(left, span)?;
                let by = self.amount(right, span)?;
                let text = match all.signed {
                    true => format!("((bit<{width}>)((int<{width}>)({text}) >> {by}))"),
                    false => format!("({text} >> {by})"),
                };
                Some(resized(&text, width, all.signed, bits))
            }
            Op::Div | Op::Rem => {
                let (a, b) = (natural(left), natural(right));
                if a.signed || b.signed {
                    return self
                        .no_operator(&format!("{} between signed numbers", op.symbol()), span);
                }
                let width = self.bounded(a.bits.max(b.bits), span)?;
                let (left, right) =
                    (self.modular(left, width, span)?, self.modular(right, width, span)?);
                Some(resized(&format!("({left} {} {right})", op.symbol()), width, false, bits))
            }
        }
    }

    /// By how many bits.
    fn amount(&mut self, value: &Expr, span: SourceSpan) -> Option<String> {
        match value {
            Expr::Number(number) if number.sign() == Sign::Minus => {
                self.reader.refuse(span, "a shift by less than nothing")
            }
            Expr::Number(number) => {
                Some(u32::try_from(number).unwrap_or(u32::MAX).min(EXACT_BITS_MAX).to_string())
            }
            other if natural(other).signed => self.no_operator("shift by a signed number", span),
            other => Some(self.exact(other, span)?.0),
        }
    }

    /// The nearest number of `bits` bits: a sum or difference, as p4c makes it of `|+|` and `|-|`.
    fn saturated(
        &mut self,
        signed: bool,
        bits: u32,
        value: &Expr,
        span: SourceSpan,
    ) -> Option<String> {
        if let Expr::Binary(op @ (Op::Add | Op::Sub), left, right) = value {
            let fits = |side: &Expr| {
                let found = natural(side);
                match signed {
                    true => {
                        found.bits + u32::from(!found.signed) <= bits
                            || matches!(side, Expr::Data { bits: of, .. } if *of == bits)
                    }
                    false => found.bits <= bits && !found.signed,
                }
            };
            if fits(left) && fits(right) {
                let (left, right) =
                    (self.modular(left, bits, span)?, self.modular(right, bits, span)?);
                let sign = if *op == Op::Add { "|+|" } else { "|-|" };
                return Some(match signed {
                    true => format!(
                        "((bit<{bits}>)((int<{bits}>)({left}) {sign} (int<{bits}>)({right})))"
                    ),
                    false => format!("({left} {sign} {right})"),
                });
            }
        }
        self.no_operator("sat_cast of anything but a sum or difference that fits", span)
    }
}

/// A mask of ones in the lowest bits, and what it is laid over.
fn mask<'e>(left: &'e Expr, right: &'e Expr) -> Option<(u32, &'e Expr)> {
    let ones = |value: &Expr| match value {
        Expr::Number(number) if number.sign() == Sign::Plus => {
            let next: BigInt = number + BigInt::from(1);
            let bits = number.bits() as u32;
            (next == BigInt::from(1) << bits).then_some(bits)
        }
        _ => None,
    };
    ones(right).map(|bits| (bits, left)).or_else(|| ones(left).map(|bits| (bits, right)))
}

fn join(a: Natural, b: Natural) -> Natural {
    let signed = a.signed || b.signed;
    let of = |one: Natural| one.bits.saturating_add(u32::from(signed && !one.signed));
    Natural { bits: of(a).max(of(b)), signed }
}

/// The range of an expression.
fn natural(value: &Expr) -> Natural {
    let unsigned = |bits: u32| Natural { bits, signed: false };
    match value {
        Expr::Number(number) => match number.sign() {
            Sign::Minus => Natural { bits: (number.bits() as u32).saturating_add(1), signed: true },
            _ => unsigned((number.bits() as u32).max(1)),
        },
        Expr::Data { bits, signed, .. } => Natural { bits: *bits, signed: *signed },
        Expr::OfBool(_) | Expr::Bool(_) => unsigned(1),
        Expr::Error(_) => unsigned(32),
        Expr::Mux(_, left, right) => join(natural(left), natural(right)),
        Expr::Complement(value) => {
            let of = natural(value);
            Natural { bits: of.bits.saturating_add(u32::from(!of.signed)), signed: true }
        }
        Expr::Wrapped(bits, _) => Natural { bits: *bits, signed: true },
        Expr::Saturated { signed, bits, .. } => Natural { bits: *bits, signed: *signed },
        Expr::Binary(op, left, right) => of_binary(*op, left, right),
        Expr::Variable(_)
        | Expr::Header(..)
        | Expr::Loose(..)
        | Expr::Union(_)
        | Expr::Stack(..) => unsigned(1),
    }
}

fn of_binary(op: Op, left: &Expr, right: &Expr) -> Natural {
    let (a, b) = (natural(left), natural(right));
    let both = join(a, b);
    match op {
        Op::Add => Natural { bits: both.bits.saturating_add(1), ..both },
        Op::Sub => Natural { bits: both.bits.saturating_add(1), signed: true },
        Op::Mul => Natural {
            bits: a.bits.saturating_add(b.bits).saturating_add(u32::from(both.signed)),
            ..both
        },
        Op::And => match (a.signed, b.signed) {
            (false, false) => Natural { bits: a.bits.min(b.bits), signed: false },
            (false, true) => a,
            (true, false) => b,
            (true, true) => both,
        },
        Op::Or | Op::Xor => both,
        Op::Shl => {
            let by = match right {
                Expr::Number(number) => u32::try_from(number).unwrap_or(u32::MAX),
                _ => 1_u32.checked_shl(b.bits).map_or(u32::MAX, |most| most - 1),
            };
            Natural { bits: a.bits.saturating_add(by), ..a }
        }
        Op::Shr | Op::Div => a,
        Op::Rem => Natural { bits: a.bits.min(b.bits), signed: a.signed },
    }
}

/// A number in `bits` bits.
pub(super) fn literal(number: &BigInt, bits: u32) -> String {
    let size = BigInt::from(1) << bits;
    let rest: BigInt = ((number % &size) + &size) % &size;
    format!("{bits}w{rest}")
}

/// `bit<from>` as `bit<to>`.
fn resized(text: &str, from: u32, signed: bool, to: u32) -> String {
    if from == to {
        text.to_owned()
    } else if signed && to > from {
        format!("((bit<{to}>)((int<{to}>)((int<{from}>)({text}))))")
    } else {
        format!("((bit<{to}>)({text}))")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Diagnostics;
    use crate::ids::FileId;

    fn translated<T>(model: &mut Model, does: impl FnOnce(&mut Translator<'_, '_>) -> T) -> T {
        let mut report = Diagnostics::new();
        let mut reader = Reader { report: &mut report };
        does(&mut Translator { model, reader: &mut reader, params: &[] })
    }

    const SPAN: SourceSpan = SourceSpan { file: FileId(0), start: 0, end: 0 };

    #[test]
    fn the_number_of_an_error_is_as_flat_as_it_can_be() {
        let mut model = Model::default();
        model.errors = (0..256).map(|number| (number, format!("E{number}"))).collect();
        let text = translated(&mut model, |translator| {
            let value = translator.as_number(Expr::Error("e".into()), SPAN)?;
            translator.exact(&value, SPAN)
        });
        let (text, bits) = text.expect("a number");
        let (mut depth, mut most) = (0, 0);
        for letter in text.chars() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            most = most.max(depth);
        }
        // Eight pairs around a choice and its condition.
        assert_eq!((bits, depth, most), (8, 0, 10));
        assert!(text.contains("((e == error.E255) ? 8w255 : 8w0)"), "{text}");
    }

    #[test]
    fn an_index_of_many_bits_is_not_cut_to_one_that_exists() {
        let index = |bits, signed| {
            let value = Expr::Data { text: "x".into(), bits, signed };
            translated(&mut Model::default(), |translator| translator.index(&value, SPAN))
        };
        assert_eq!(index(16, false).as_deref(), Some("((bit<32>)(x))"));
        assert_eq!(index(32, false).as_deref(), Some("x"));
        let wide = "(x > 48w4294967295 ? 32w4294967295 : (bit<32>)(x))";
        assert_eq!(index(48, false).as_deref(), Some(wide));
        assert_eq!(index(16, true).as_deref(), Some("((bit<32>)((int<32>)((int<16>)(x))))"));
        assert_eq!(index(48, true).as_deref(), Some("((bit<32>)(x))"));
    }
}
