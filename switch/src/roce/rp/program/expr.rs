//! Expressions to operations, with the range and the binary point of every value.
//!
//! A value is an exact integer with a number of bits of fraction. Products have the fractions of both sides, sums and
//! comparisons use the finer one, so nothing is lost before a value is stored or divided. The range follows from the
//! widths of state and the bounds of parameters: an expression that could need more than 125 bits, or divide by a value
//! that may be 0, is refused.

use wireyard_pipeline::ast::{Ast, AstBin, AstExpr, AstUn, Sp};
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;

use super::check::{Compiler, Found};
use super::code::{Op, Reg};

/// Most bits of fraction.
pub(super) const FRACTION_MAX: u8 = 48;
/// Largest magnitude of a value.
const LIMIT: i128 = i128::MAX / 4;

/// A value in a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) at: Reg,
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) fraction: u8,
    /// The result of a comparison.
    pub(super) truth: bool,
}

impl Value {
    /// Its value, if it is constant.
    pub(super) fn constant(&self) -> Option<i128> {
        (self.low == self.high).then_some(self.low)
    }
}

impl Compiler<'_, '_> {
    /// The value of an expression; `None`: an error was reported.
    pub(super) fn expr(&mut self, expr: &AstExpr) -> Option<Value> {
        let span = expr.span;
        match &expr.value {
            Ast::Number { value, bits: None } => {
                let value = i128::try_from(*value).ok().filter(|value| *value < LIMIT);
                match value {
                    Some(value) => self.literal(value, 0, span),
                    None => self.too_large(span),
                }
            }
            Ast::Number { .. } => {
                self.no(span, "numbers have no width here: every value is an exact integer")
            }
            Ast::Bool(value) => {
                let found = self.literal((*value).into(), 0, span)?;
                Some(Value { truth: true, ..found })
            }
            Ast::Path(path) => match path.plain() {
                Some(name) => self.read(&Sp::new(name, span)),
                None => self.no(span, "there are no arrays"),
            },
            Ast::Unary(AstUn::Not, inner) => {
                let inner = self.truth(inner)?;
                self.emit(span, (0, 1, 0), true, |to| Op::Not(to, inner.at))
            }
            Ast::Unary(AstUn::Negate, inner) => {
                let zero = self.literal(0, 0, span)?;
                let inner = self.expr(inner)?;
                self.difference(span, zero, inner)
            }
            Ast::Unary(AstUn::Complement, _) => self.no(span, "there are no operations on bits"),
            Ast::Binary(op, left, right) => self.binary(span, *op, left, right),
            Ast::Mux(condition, yes, no) => {
                let condition = self.truth(condition)?;
                let (yes, no) = (self.expr(yes)?, self.expr(no)?);
                let (yes, no) = self.aligned(span, yes, no)?;
                let range = (yes.low.min(no.low), yes.high.max(no.high), yes.fraction);
                self.emit(span, range, yes.truth && no.truth, |to| {
                    Op::Select(to, condition.at, yes.at, no.at)
                })
            }
            Ast::Call(name, arguments) => self.call(span, name, arguments),
            Ast::Named(..) => self.no(span, "arguments have no names here"),
            Ast::Slice { .. } | Ast::Cast(..) | Ast::Signed(_) => {
                self.no(span, "values have no width before they are stored: nothing is cut or cast")
            }
        }
    }

    /// A condition.
    pub(super) fn truth(&mut self, expr: &AstExpr) -> Option<Value> {
        let found = self.expr(expr)?;
        if !found.truth {
            let message = "a condition is a comparison, or several with `&&`, `||` and `!`";
            return self.decoder.refuse(codes::NOT_BOOLEAN, expr.span, message);
        }
        Some(found)
    }

    fn binary(
        &mut self,
        span: SourceSpan,
        op: AstBin,
        left: &AstExpr,
        right: &AstExpr,
    ) -> Option<Value> {
        if matches!(op, AstBin::LogicalAnd | AstBin::LogicalOr) {
            let (a, b) = (self.truth(left)?, self.truth(right)?);
            return self.emit(span, (0, 1, 0), true, |to| match op {
                AstBin::LogicalAnd => Op::And(to, a.at, b.at),
                _ => Op::Or(to, a.at, b.at),
            });
        }
        let (a, b) = (self.expr(left)?, self.expr(right)?);
        match op {
            AstBin::Mul => self.product(span, a, b),
            AstBin::Shl | AstBin::Shr => self.shift(span, op, a, (b, right.span)),
            AstBin::Sub => self.difference(span, a, b),
            AstBin::Add | AstBin::SatAdd => {
                let (a, b) = self.aligned(span, a, b)?;
                let range = (a.low + b.low, a.high + b.high, a.fraction);
                self.emit(span, range, false, |to| Op::Add(to, a.at, b.at))
            }
            AstBin::SatSub => {
                let difference = self.difference(span, a, b)?;
                let zero = self.literal(0, difference.fraction, span)?;
                self.extreme(span, true, difference, zero)
            }
            AstBin::Eq | AstBin::Ne => {
                let (a, b) = self.aligned(span, a, b)?;
                let equal = self.emit(span, (0, 1, 0), true, |to| Op::Equal(to, a.at, b.at))?;
                match op {
                    AstBin::Eq => Some(equal),
                    _ => self.emit(span, (0, 1, 0), true, |to| Op::Not(to, equal.at)),
                }
            }
            AstBin::Lt | AstBin::Gt | AstBin::Le | AstBin::Ge => {
                let (a, b) = self.aligned(span, a, b)?;
                // a <= b is not (b < a).
                let (a, b) = if matches!(op, AstBin::Gt | AstBin::Le) { (b, a) } else { (a, b) };
                let less = self.emit(span, (0, 1, 0), true, |to| Op::Less(to, a.at, b.at))?;
                match op {
                    AstBin::Lt | AstBin::Gt => Some(less),
                    _ => self.emit(span, (0, 1, 0), true, |to| Op::Not(to, less.at)),
                }
            }
            AstBin::Rem => self.no(span, "there is no `%`; `div(a, b)` divides"),
            _ => self.no(span, "there are no operations on bits"),
        }
    }

    fn difference(&mut self, span: SourceSpan, a: Value, b: Value) -> Option<Value> {
        let (a, b) = self.aligned(span, a, b)?;
        let range = (a.low - b.high, a.high - b.low, a.fraction);
        self.emit(span, range, false, |to| Op::Sub(to, a.at, b.at))
    }

    fn product(&mut self, span: SourceSpan, a: Value, b: Value) -> Option<Value> {
        let ends = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
        let products: Option<Vec<i128>> = ends.iter().map(|(a, b)| a.checked_mul(*b)).collect();
        let Some(products) = products else { return self.too_large(span) };
        let range = products
            .iter()
            .fold((i128::MAX, i128::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
        let fraction = a.fraction + b.fraction;
        self.emit(span, (range.0, range.1, fraction), false, |to| Op::Mul(to, a.at, b.at))
    }

    fn shift(
        &mut self,
        span: SourceSpan,
        op: AstBin,
        a: Value,
        by: (Value, SourceSpan),
    ) -> Option<Value> {
        let Some(by) = by.0.constant().filter(|n| (0..100).contains(n) && by.0.fraction == 0)
        else {
            return self.no(
                by.1,
                "a shift is by a number from 0 to 99; `+` and `-` bind stronger: write `(a >> 3) + b`",
            );
        };
        match op {
            AstBin::Shl => self.scaled_up(span, a, by as u8),
            _ => {
                let range = (a.low >> by, a.high >> by, a.fraction);
                self.emit(span, range, false, |to| Op::Shr(to, a.at, by as u8))
            }
        }
    }

    fn scaled_up(&mut self, span: SourceSpan, a: Value, by: u8) -> Option<Value> {
        let factor = 1_i128.checked_shl(by.into()).filter(|factor| *factor > 0);
        let ends = factor.and_then(|f| Some((a.low.checked_mul(f)?, a.high.checked_mul(f)?)));
        let Some((low, high)) = ends else { return self.too_large(span) };
        if low == high {
            return self.literal(low, a.fraction, span);
        }
        self.emit(span, (low, high, a.fraction), false, |to| Op::Shl(to, a.at, by))
    }

    /// The value with `fraction` bits of fraction, rounded down.
    pub(super) fn with_fraction(
        &mut self,
        span: SourceSpan,
        a: Value,
        fraction: u8,
    ) -> Option<Value> {
        if a.fraction == fraction {
            return Some(a);
        }
        let found = if a.fraction < fraction {
            self.scaled_up(span, a, fraction - a.fraction)?
        } else {
            let by = a.fraction - fraction;
            let range = (a.low >> by, a.high >> by, fraction);
            self.emit(span, range, false, |to| Op::Shr(to, a.at, by))?
        };
        Some(Value { fraction, ..found })
    }

    /// Both at the finer fraction.
    fn aligned(&mut self, span: SourceSpan, a: Value, b: Value) -> Option<(Value, Value)> {
        let fraction = a.fraction.max(b.fraction);
        Some((self.with_fraction(span, a, fraction)?, self.with_fraction(span, b, fraction)?))
    }

    fn extreme(&mut self, span: SourceSpan, most: bool, a: Value, b: Value) -> Option<Value> {
        let (a, b) = self.aligned(span, a, b)?;
        let of = |a: i128, b: i128| if most { a.max(b) } else { a.min(b) };
        let range = (of(a.low, b.low), of(a.high, b.high), a.fraction);
        self.emit(span, range, false, |to| match most {
            true => Op::Max(to, a.at, b.at),
            false => Op::Min(to, a.at, b.at),
        })
    }

    fn call(
        &mut self,
        span: SourceSpan,
        name: &Sp<String>,
        arguments: &[AstExpr],
    ) -> Option<Value> {
        match (name.value.as_str(), arguments) {
            ("min" | "max", [first, rest @ ..]) if !rest.is_empty() => {
                let mut found = self.expr(first)?;
                for next in rest {
                    let next = self.expr(next)?;
                    found = self.extreme(span, name.value == "max", found, next)?;
                }
                Some(found)
            }
            ("clamp", [value, low, high]) => {
                let (value, low) = (self.expr(value)?, self.expr(low)?);
                let above = self.extreme(span, true, value, low)?;
                let high = self.expr(high)?;
                self.extreme(span, false, above, high)
            }
            ("div", [a, b]) => self.quotient(span, (a, b), 0),
            ("div", [a, b, fraction]) => {
                let fraction = self.fraction_bits(fraction)?;
                self.quotient(span, (a, b), fraction)
            }
            ("fixed", [value, fraction]) => {
                let value = self.expr(value)?;
                let fraction = self.fraction_bits(fraction)?;
                self.with_fraction(span, value, fraction)
            }
            ("sqrt", [value]) => self.root(span, value),
            ("min" | "max" | "clamp" | "div" | "fixed" | "sqrt", _) => {
                let message = format!("`{}` with {} arguments", name.value, arguments.len());
                let error = self.decoder.diagnostics.error(codes::ARGUMENTS, span, message);
                error.note("there are `min(a, b, ..)`, `max(a, b, ..)`, `clamp(value, least, most)`, `div(a, b)`, `div(a, b, BITS)`, `fixed(value, BITS)`, `sqrt(value)`");
                None
            }
            (unknown, _) => {
                let message = format!("there is no function `{unknown}`");
                let names = ["min", "max", "clamp", "div", "fixed", "sqrt"];
                let error = self.decoder.diagnostics.error(codes::UNKNOWN, name.span, message);
                error.note(format!("there are {}", names.join(", "))).did_you_mean(unknown, names);
                None
            }
        }
    }

    fn fraction_bits(&mut self, expr: &AstExpr) -> Option<u8> {
        match expr.value {
            Ast::Number { value, bits: None } if value <= u128::from(FRACTION_MAX) => {
                Some(value as u8)
            }
            _ => self.no(expr.span, "bits of fraction are a number from 0 to 48"),
        }
    }

    fn quotient(
        &mut self,
        span: SourceSpan,
        (a, by): (&AstExpr, &AstExpr),
        fraction: u8,
    ) -> Option<Value> {
        let (a, b) = (self.expr(a)?, self.expr(by)?);
        if b.low <= 0 {
            let what = if b.high <= 0 { "is never above 0" } else { "can be 0 or less" };
            let message = format!("this divisor {what}");
            let of = &mut self.decoder.diagnostics;
            of.error(codes::RATE_CONTROL, by.span, message)
                .here(format!("from {} to {}", shown(b.low, b), shown(b.high, b)))
                .help("write `max(x, 1)`, or give the parameter a `min`");
            return None;
        }
        let up = i32::from(fraction) + i32::from(b.fraction) - i32::from(a.fraction);
        let (a, b) = match up {
            0.. => (self.scaled_up(span, a, up as u8)?, b),
            _ => (a, self.scaled_up(span, b, (-up) as u8)?),
        };
        let ends = [a.low, a.high].map(|a| [a.div_euclid(b.low), a.div_euclid(b.high)]);
        let [[p, q], [r, s]] = ends;
        let range = (p.min(q), r.max(s), fraction);
        self.emit(span, range, false, |to| Op::Div(to, a.at, b.at))
    }

    fn root(&mut self, span: SourceSpan, value: &AstExpr) -> Option<Value> {
        let value = self.expr(value)?;
        if value.low < 0 {
            return self.no(span, "the root of what can be below 0: write `max(x, 0)`");
        }
        let value = match value.fraction % 2 {
            0 => value,
            _ => self.with_fraction(span, value, value.fraction + 1)?,
        };
        let range = (value.low.isqrt(), value.high.isqrt(), value.fraction / 2);
        self.emit(span, range, false, |to| Op::Root(to, value.at))
    }

    /// A number that is written.
    pub(super) fn literal(&mut self, value: i128, fraction: u8, span: SourceSpan) -> Option<Value> {
        let at = self.register(value, span)?;
        Some(Value { at, low: value, high: value, fraction, truth: false })
    }

    /// An operation with its result in a register of its own, with this range and fraction.
    fn emit(
        &mut self,
        span: SourceSpan,
        (low, high, fraction): (i128, i128, u8),
        truth: bool,
        op: impl FnOnce(Reg) -> Op,
    ) -> Option<Value> {
        if low < -LIMIT || high > LIMIT || fraction > 2 * FRACTION_MAX {
            return self.too_large(span);
        }
        let at = self.register(0, span)?;
        self.push(op(at));
        Some(Value { at, low, high, fraction, truth })
    }

    fn too_large<T>(&mut self, span: SourceSpan) -> Option<T> {
        let message = "this can need more than 125 bits";
        let error = self.decoder.diagnostics.error(codes::RATE_CONTROL, span, message);
        error.help("narrow what goes in: fewer `bits`, `max` of a parameter, `min(x, ..)`, or fewer bits of fraction");
        None
    }

    /// Reports what is not possible here.
    pub(super) fn no<T>(&mut self, span: SourceSpan, why: &str) -> Found<T> {
        self.decoder.refuse(codes::WRONG_PLACE, span, why)
    }
}

/// A bound as a number.
fn shown(value: i128, of: Value) -> String {
    match of.fraction {
        0 => value.to_string(),
        bits => format!("{}", value as f64 / 2_f64.powi(bits.into())),
    }
}
