//! Expressions: from the syntax tree to typed nodes.
//!
//! A value has a width, or it is a number that takes the width of its context ([`Val`]). Operands must agree: there is
//! no silent extension, except in offsets and lengths, which are computed with 32 bits. A part that is wrong has the
//! value `Poison`: it was reported once and causes no further errors.

mod adapt;
pub(crate) mod bytes;
mod call;
pub(crate) mod path;

use super::cx::Cx;
use super::int::Int;
use crate::ast::{Ast, AstBin, AstExpr, AstUn, Sp};
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::VALUE_BITS_MAX;
use crate::ir::{BinOp, Expr, ExprKind, SourceSpan, UnOp};

/// Most operators around an operand of an expression.
pub(crate) const DEPTH_MAX: usize = 128;

/// The value of an expression under construction.
pub(crate) enum Val {
    /// Wrong, and reported.
    Poison,
    /// A node with its width.
    Typed(ExprId),
    /// A number without a width.
    Int(Int),
    /// An expression of numbers that has no width yet: `c ? 1 : 2`.
    Open(Box<Open>),
}

/// A value that gets its width from its context.
pub(crate) struct Open {
    kind: OpenKind,
    span: SourceSpan,
}

enum OpenKind {
    Mux(ExprId, Val, Val),
    Unary(UnOp, Val),
    Binary(BinOp, Val, Val),
    Shift(BinOp, Val, ExprId),
}

impl Cx<'_> {
    /// Adds a node.
    pub(crate) fn node(&mut self, kind: ExprKind, bits: u32, span: SourceSpan) -> ExprId {
        self.ir.exprs.push(Expr { kind, bits, span: Some(span) })
    }

    /// Adds a constant.
    pub(crate) fn constant(&mut self, value: u128, bits: u32, span: SourceSpan) -> ExprId {
        self.node(ExprKind::Const(value & crate::ir::layout::ones(bits)), bits, span)
    }

    /// Width of a node.
    pub(crate) fn bits(&self, id: ExprId) -> u32 {
        self.ir.exprs.get(id).map_or(1, |expr| expr.bits)
    }

    /// Lowers an expression whose width is not known yet.
    pub(crate) fn value(&mut self, ast: &AstExpr) -> Val {
        if self.depth > DEPTH_MAX {
            // Once for an expression: both operands of an operator are as deep.
            if !std::mem::replace(&mut self.is_too_deep, true) {
                let text = format!("this expression is nested deeper than {DEPTH_MAX} levels");
                let help = self
                    .in_words_of("name parts of it with `let`", "keep parts of it in variables");
                self.report.error(codes::TOO_DEEP, ast.span, text).help(help);
            }
            return Val::Poison;
        }
        self.is_too_deep &= self.depth > 0;
        self.depth += 1;
        let value = self.value_inner(ast);
        self.depth -= 1;
        value
    }

    fn value_inner(&mut self, ast: &AstExpr) -> Val {
        match &ast.value {
            Ast::Number { value, bits: None } => Val::Int(Int::new(*value)),
            Ast::Number { value, bits: Some(bits) } => self.sized_number(*value, *bits, ast.span),
            Ast::Bool(value) => Val::Typed(self.constant((*value).into(), 1, ast.span)),
            Ast::Path(path) => self.path_value(path, ast.span),
            Ast::Unary(op, operand) => self.unary(*op, operand, ast.span),
            Ast::Binary(op, left, right) => self.binary(*op, left, right, ast.span),
            Ast::Slice { value, high, low } => self.slice(value, high, low, ast.span),
            Ast::Cast(bits, value) => self.cast(bits, value, ast.span),
            Ast::Signed(_) => {
                let text = "`signed(..)` is an operand of `<`, `<=`, `>` or `>=` only";
                self.report
                    .error(codes::SIGNED, ast.span, text)
                    .help("values are unsigned; `signed(a) < signed(b)` compares two's complement");
                Val::Poison
            }
            Ast::Mux(cond, then, otherwise) => self.mux(cond, then, otherwise, ast.span),
            Ast::Call(name, args) => self.call_value(name, args, ast.span),
            Ast::Named(name, _) => {
                let text = format!("`{}` is the name of no parameter here", name.value);
                let help = "arguments of actions and controls have names; others stand in order";
                self.report.error(codes::ARGUMENTS, name.span, text).help(help);
                Val::Poison
            }
        }
    }

    fn sized_number(&mut self, value: u128, bits: u32, span: SourceSpan) -> Val {
        if !self.width_is_valid(bits.into(), span) {
            return Val::Poison;
        }
        match Int::new(value).fit(bits) {
            Some(value) => Val::Typed(self.constant(value, bits, span)),
            None => {
                self.does_not_fit(&value.to_string(), bits, span);
                Val::Poison
            }
        }
    }

    fn unary(&mut self, op: AstUn, operand: &AstExpr, span: SourceSpan) -> Val {
        if op == AstUn::Not {
            let Some(operand) = self.condition(operand) else { return Val::Poison };
            return Val::Typed(self.node(ExprKind::Unary(UnOp::Not, operand), 1, span));
        }
        let value = self.value(operand);
        self.negated(op, value, span)
    }

    /// `-` or `~` of a value.
    fn negated(&mut self, op: AstUn, value: Val, span: SourceSpan) -> Val {
        let (op, exact): (_, fn(Int) -> Option<Int>) = match op {
            AstUn::Complement => (UnOp::Complement, |value| Some(value.not())),
            _ => (UnOp::Negate, Int::negate),
        };
        match value {
            Val::Poison => Val::Poison,
            Val::Int(value) => self.exact(exact(value), span),
            Val::Typed(id) => {
                let bits = self.bits(id);
                Val::Typed(self.node(ExprKind::Unary(op, id), bits, span))
            }
            open => Val::Open(Box::new(Open { kind: OpenKind::Unary(op, open), span })),
        }
    }

    /// The result of exact arithmetic on numbers without a width.
    fn exact(&mut self, value: Option<Int>, span: SourceSpan) -> Val {
        match value {
            Some(value) => Val::Int(value),
            None => {
                let text = "this constant is beyond 128 bits";
                self.report.error(codes::CONST_RANGE, span, text);
                Val::Poison
            }
        }
    }

    fn binary(&mut self, op: AstBin, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        match op {
            AstBin::LogicalAnd => self.logical(BinOp::LogicalAnd, left, right, span),
            AstBin::LogicalOr => self.logical(BinOp::LogicalOr, left, right, span),
            AstBin::Concat => self.concat(left, right, span),
            AstBin::Eq => self.compare(BinOp::Eq, left, right, span),
            AstBin::Ne => self.compare(BinOp::Ne, left, right, span),
            AstBin::Lt => self.compare(BinOp::Lt, left, right, span),
            AstBin::Le => self.compare(BinOp::Le, left, right, span),
            AstBin::Gt => self.compare(BinOp::Lt, right, left, span),
            AstBin::Ge => self.compare(BinOp::Le, right, left, span),
            AstBin::Shl => self.shift(BinOp::Shl, left, right, span),
            AstBin::Shr => self.shift(BinOp::Shr, left, right, span),
            AstBin::Add => self.arithmetic(BinOp::Add, left, right, span),
            AstBin::Sub => self.arithmetic(BinOp::Sub, left, right, span),
            AstBin::Mul => self.arithmetic(BinOp::Mul, left, right, span),
            AstBin::Rem => self.arithmetic(BinOp::Rem, left, right, span),
            AstBin::SatAdd => self.arithmetic(BinOp::SatAdd, left, right, span),
            AstBin::SatSub => self.arithmetic(BinOp::SatSub, left, right, span),
            AstBin::And => self.arithmetic(BinOp::And, left, right, span),
            AstBin::Or => self.arithmetic(BinOp::Or, left, right, span),
            AstBin::Xor => self.arithmetic(BinOp::Xor, left, right, span),
        }
    }

    fn logical(&mut self, op: BinOp, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        let left_value = self.condition(left);
        let guards = self.guards.len();
        self.guard(left);
        let right_value = self.condition(right);
        self.guards.truncate(guards);
        match (left_value, right_value) {
            (Some(left), Some(right)) => {
                Val::Typed(self.node(ExprKind::Binary(op, left, right), 1, span))
            }
            _ => Val::Poison,
        }
    }

    fn concat(&mut self, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        let (left, right) = (self.sized(left), self.sized(right));
        let (Some(left), Some(right)) = (left, right) else { return Val::Poison };
        let bits = self.bits(left) + self.bits(right);
        if !self.width_is_valid(bits.into(), span) {
            return Val::Poison;
        }
        Val::Typed(self.node(ExprKind::Concat(left, right), bits, span))
    }

    fn arithmetic(&mut self, op: BinOp, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        let values = (self.value(left), self.value(right));
        self.combine(op, values, (left.span, right.span), span)
    }

    /// Combines two values of equal width by an arithmetic or bitwise operator.
    fn combine(
        &mut self,
        op: BinOp,
        values: (Val, Val),
        spans: (SourceSpan, SourceSpan),
        span: SourceSpan,
    ) -> Val {
        if op == BinOp::Rem && self.is_zero(&values.1) {
            let text = "this is the remainder of a division by 0";
            self.report.error(codes::CONST_RANGE, spans.1, text);
            return Val::Poison;
        }
        match values {
            (Val::Poison, _) | (_, Val::Poison) => Val::Poison,
            (Val::Int(a), Val::Int(b)) => self.exact(exact_binary(op, a, b), span),
            (Val::Typed(a), b) => self.join(op, Val::Typed(a), b, self.bits(a), spans, span),
            (a, Val::Typed(b)) => self.join(op, a, Val::Typed(b), self.bits(b), spans, span),
            (a, b) => Val::Open(Box::new(Open { kind: OpenKind::Binary(op, a, b), span })),
        }
    }

    /// A constant that is 0.
    fn is_zero(&self, value: &Val) -> bool {
        match value {
            Val::Int(value) => *value == Int::new(0),
            Val::Typed(id) => crate::ir::eval::constant(&self.ir.exprs, *id) == Some(0),
            _ => false,
        }
    }

    fn join(
        &mut self,
        op: BinOp,
        left: Val,
        right: Val,
        bits: u32,
        spans: (SourceSpan, SourceSpan),
        span: SourceSpan,
    ) -> Val {
        let Some((left, right)) = self.agree(left, right, bits, spans, op.symbol()) else {
            return Val::Poison;
        };
        let bits = if op.is_boolean() { 1 } else { bits };
        Val::Typed(self.node(ExprKind::Binary(op, left, right), bits, span))
    }

    fn shift(&mut self, op: BinOp, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        let value = self.value(left);
        let count = self.value(right);
        let count = self.counted(count, right.span);
        match (value, count) {
            (Val::Poison, _) | (_, Val::Poison) => Val::Poison,
            (Val::Int(value), Val::Int(count)) => {
                let exact = if op == BinOp::Shl { value.shl(count) } else { value.shr(count) };
                self.exact(exact, span)
            }
            (value, count) => {
                let count = match count {
                    Val::Typed(id) => Some(id),
                    other => self.adapt(other, 32, right.span),
                };
                let Some(count) = count else { return Val::Poison };
                match value {
                    Val::Typed(id) => {
                        let bits = self.bits(id);
                        Val::Typed(self.node(ExprKind::Binary(op, id, count), bits, span))
                    }
                    open => {
                        Val::Open(Box::new(Open { kind: OpenKind::Shift(op, open, count), span }))
                    }
                }
            }
        }
    }

    fn compare(&mut self, op: BinOp, left: &AstExpr, right: &AstExpr, span: SourceSpan) -> Val {
        if let Some(same) = self.compare_bytes(op, left, right, span) {
            return same;
        }
        let (left_signed, right_signed) = (unsigned(left), unsigned(right));
        let signed = left_signed.is_some() || right_signed.is_some();
        let (a, b) = (left_signed.unwrap_or(left), right_signed.unwrap_or(right));
        let values = (self.value(a), self.value(b));
        if signed {
            return self.compare_signed(op, values, (left, right), span);
        }
        match values {
            (Val::Poison, _) | (_, Val::Poison) => Val::Poison,
            (Val::Int(a), Val::Int(b)) => {
                let truth = match op {
                    BinOp::Eq => a == b,
                    BinOp::Ne => a != b,
                    BinOp::Lt => a.less(b),
                    _ => !b.less(a),
                };
                Val::Typed(self.constant(truth.into(), 1, span))
            }
            (x, y) => {
                let bits = match (&x, &y) {
                    (Val::Typed(id), _) | (_, Val::Typed(id)) => self.bits(*id),
                    _ => VALUE_BITS_MAX,
                };
                self.join(op, x, y, bits, (a.span, b.span), span)
            }
        }
    }

    fn compare_signed(
        &mut self,
        op: BinOp,
        values: (Val, Val),
        asts: (&AstExpr, &AstExpr),
        span: SourceSpan,
    ) -> Val {
        let both = |ast: &AstExpr, value: &Val| {
            unsigned(ast).is_some() || matches!(value, Val::Int(_) | Val::Poison)
        };
        if !both(asts.0, &values.0) || !both(asts.1, &values.1) {
            let text = "a signed value is compared with an unsigned one";
            self.report.error(codes::SIGNED, span, text).help("write `signed(..)` on both sides");
            return Val::Poison;
        }
        let op = match op {
            BinOp::Lt => BinOp::SignedLt,
            BinOp::Le => BinOp::SignedLe,
            other => other,
        };
        let (x, y) = values;
        let bits = match (&x, &y) {
            (Val::Poison, _) | (_, Val::Poison) => return Val::Poison,
            (Val::Typed(id), _) | (_, Val::Typed(id)) => self.bits(*id),
            _ => VALUE_BITS_MAX,
        };
        let x = self.as_signed(x, bits, asts.0.span);
        let y = self.as_signed(y, bits, asts.1.span);
        self.join(op, x, y, bits, (asts.0.span, asts.1.span), span)
    }

    /// A number in a signed comparison, checked against the signed range.
    fn as_signed(&mut self, value: Val, bits: u32, span: SourceSpan) -> Val {
        let Val::Int(number) = value else { return value };
        match number.fit_signed(bits) {
            Some(value) => Val::Typed(self.constant(value, bits, span)),
            None => {
                self.does_not_fit(&format!("{number} as a signed number"), bits, span);
                Val::Poison
            }
        }
    }

    fn slice(&mut self, value: &AstExpr, high: &AstExpr, low: &AstExpr, span: SourceSpan) -> Val {
        if let Ast::Path(path) = &value.value
            && let Some(part) = self.part(path, (high, low), span)
        {
            return part.map_or(Val::Poison, |part| self.target_value(part, span));
        }
        let value = self.sized(value);
        let (Some(value), Some((high, low))) = (value, self.slice_bounds(high, low)) else {
            return Val::Poison;
        };
        let bits = self.bits(value);
        if !self.slice_fits(high, low, bits, span) {
            return Val::Poison;
        }
        Val::Typed(self.node(ExprKind::Slice { value, high, low }, high - low + 1, span))
    }

    fn cast(&mut self, bits: &Sp<u64>, value: &AstExpr, span: SourceSpan) -> Val {
        if !self.width_is_valid(bits.value, bits.span) {
            return Val::Poison;
        }
        let bits = bits.value as u32;
        match self.value(value) {
            Val::Poison => Val::Poison,
            Val::Int(value) => match value.fit(VALUE_BITS_MAX) {
                Some(value) => Val::Typed(self.constant(value, bits, span)),
                None => {
                    self.does_not_fit(&value.to_string(), VALUE_BITS_MAX, span);
                    Val::Poison
                }
            },
            Val::Typed(id) if self.bits(id) == bits => Val::Typed(id),
            Val::Typed(id) => Val::Typed(self.node(ExprKind::Cast(id), bits, span)),
            open => self.adapt(open, bits, span).map_or(Val::Poison, Val::Typed),
        }
    }

    fn mux(&mut self, c: &AstExpr, then: &AstExpr, otherwise: &AstExpr, span: SourceSpan) -> Val {
        let cond = self.condition(c);
        let guards = self.guards.len();
        self.guard(c);
        let values = (self.value(then), self.value(otherwise));
        self.guards.truncate(guards);
        let Some(cond) = cond else { return Val::Poison };
        let bits = match &values {
            (Val::Poison, _) | (_, Val::Poison) => return Val::Poison,
            (Val::Typed(id), _) | (_, Val::Typed(id)) => self.bits(*id),
            _ => {
                let kind = OpenKind::Mux(cond, values.0, values.1);
                return Val::Open(Box::new(Open { kind, span }));
            }
        };
        let spans = (then.span, otherwise.span);
        match self.agree(values.0, values.1, bits, spans, ":") {
            Some((then, otherwise)) => {
                Val::Typed(self.node(ExprKind::Mux(cond, then, otherwise), bits, span))
            }
            None => Val::Poison,
        }
    }
}

/// The operand of `signed(..)`.
fn unsigned(ast: &AstExpr) -> Option<&AstExpr> {
    match &ast.value {
        Ast::Signed(inner) => Some(inner),
        _ => None,
    }
}

/// Exact arithmetic; saturating operators stop at zero, and have no upper end without a width.
fn exact_binary(op: BinOp, a: Int, b: Int) -> Option<Int> {
    match op {
        BinOp::Add | BinOp::SatAdd => a.add(b),
        BinOp::Sub => a.sub(b),
        BinOp::SatSub => Some(if a.less(b) { Int::new(0) } else { a.sub(b)? }),
        BinOp::Mul => a.mul(b),
        BinOp::Rem => a.rem(b),
        BinOp::And => Some(a.bitwise(b, |a, b| a & b)),
        BinOp::Or => Some(a.bitwise(b, |a, b| a | b)),
        BinOp::Xor => Some(a.bitwise(b, |a, b| a ^ b)),
        _ => None,
    }
}
