//! Gives values the width of their context, and the error when one does not fit.

use super::{Open, OpenKind, Val};
use crate::ast::{Ast, AstBin, AstExpr, AstUn};
use crate::check::cx::Cx;
use crate::diag::{Diagnostic, codes};
use crate::ids::*;
use crate::ir::layout::VALUE_BITS_MAX;
use crate::ir::{BinOp, Display, ExprKind, MatchField, SourceSpan, eval};

/// The form of a value of `bits` bits in a message: addresses have a width of their own.
fn form_of(bits: u32) -> String {
    match bits {
        32 => "an IPv4 address (32 bits)".to_owned(),
        48 => "a MAC address (48 bits)".to_owned(),
        128 => "an IPv6 address (128 bits)".to_owned(),
        bits => format!("a value of {bits} bits"),
    }
}

impl Cx<'_> {
    /// The value with exactly `bits` bits; an error when it has another width or does not fit.
    pub(crate) fn adapt(&mut self, value: Val, bits: u32, span: SourceSpan) -> Option<ExprId> {
        match value {
            Val::Poison => None,
            Val::Typed(id) if self.bits(id) == bits => Some(id),
            Val::Typed(id) => {
                let found = self.bits(id);
                let kind = self.ir.exprs.get(id).map(|expr| &expr.kind);
                let wraps = matches!(
                    kind,
                    Some(ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl, ..))
                );
                let error = self.wrong_width(bits, found, span);
                if wraps && found < bits {
                    error.note(format!(
                        "it is computed with {found} bits, and what is above is lost: extend its \
                         operands to keep that"
                    ));
                }
                None
            }
            Val::Int(number) => match number.fit(bits) {
                Some(value) => Some(self.constant(value, bits, span)),
                None => {
                    self.does_not_fit(&number.to_string(), bits, span);
                    None
                }
            },
            Val::Open(open) => self.adapt_open(*open, bits),
        }
    }

    fn adapt_open(&mut self, open: Open, bits: u32) -> Option<ExprId> {
        let span = open.span;
        let kind = match open.kind {
            OpenKind::Mux(cond, then, otherwise) => {
                let then = self.adapt(then, bits, span);
                let otherwise = self.adapt(otherwise, bits, span);
                ExprKind::Mux(cond, then?, otherwise?)
            }
            OpenKind::Unary(op, value) => ExprKind::Unary(op, self.adapt(value, bits, span)?),
            OpenKind::Binary(op, left, right) => {
                let left = self.adapt(left, bits, span);
                let right = self.adapt(right, bits, span);
                ExprKind::Binary(op, left?, right?)
            }
            OpenKind::Shift(op, value, count) => {
                ExprKind::Binary(op, self.adapt(value, bits, span)?, count)
            }
        };
        Some(self.node(kind, bits, span))
    }

    /// Both operands with `bits` bits; one of them has this width, the error shows both.
    pub(super) fn agree(
        &mut self,
        left: Val,
        right: Val,
        bits: u32,
        spans: (SourceSpan, SourceSpan),
        symbol: &str,
    ) -> Option<(ExprId, ExprId)> {
        if let (Val::Typed(a), Val::Typed(b)) = (&left, &right) {
            let (x, y) = (self.bits(*a), self.bits(*b));
            if x != y {
                self.widths_differ((x, y), spans, symbol);
                return None;
            }
        }
        let left = self.adapt(left, bits, spans.0);
        let right = self.adapt(right, bits, spans.1);
        Some((left?, right?))
    }

    fn widths_differ(&mut self, bits: (u32, u32), spans: (SourceSpan, SourceSpan), symbol: &str) {
        let text = format!("the operands of `{symbol}` have {} and {} bits", bits.0, bits.1);
        let narrow = if bits.0 < bits.1 { spans.0 } else { spans.1 };
        let help = format!(
            "`bit<{}>({})` extends with zeros; widths must agree",
            bits.0.max(bits.1),
            self.text(narrow, "x")
        );
        self.report
            .error(codes::WIDTHS, spans.0, text)
            .here(format!("{} bits", bits.0))
            .label(spans.1, format!("{} bits", bits.1))
            .help(help);
    }

    pub(crate) fn wrong_width(
        &mut self,
        wanted: u32,
        found: u32,
        span: SourceSpan,
    ) -> &mut Diagnostic {
        let what = if wanted < found { "cuts to the low bits" } else { "extends with zeros" };
        let help = match self.ir.files.is_empty() {
            // Of an entries file, where a value is written and not computed.
            true => format!("write a number without a width, or {}", form_of(wanted)),
            false => format!("`bit<{wanted}>({})` {what}", self.text(span, "x")),
        };
        self.width_error(wanted, found, span).help(help)
    }

    /// The error without a help, for values that a cast cannot stand around.
    pub(crate) fn width_error(
        &mut self,
        wanted: u32,
        found: u32,
        span: SourceSpan,
    ) -> &mut Diagnostic {
        let plural = if found == 1 { "bit" } else { "bits" };
        let text = format!("{wanted} bits are wanted here, this has {found}");
        self.report.error(codes::WIDTHS, span, text).here(format!("{found} {plural}"))
    }

    pub(super) fn does_not_fit(&mut self, number: &str, bits: u32, span: SourceSpan) {
        let text = format!("{number} does not fit in {bits} bits");
        let note = self.report.error(codes::DOES_NOT_FIT, span, text);
        if bits < VALUE_BITS_MAX {
            note.help(format!("the largest value is {}", crate::ir::layout::ones(bits)));
        }
    }

    pub(crate) fn width_is_valid(&mut self, bits: u64, span: SourceSpan) -> bool {
        if (1..=u64::from(VALUE_BITS_MAX)).contains(&bits) {
            return true;
        }
        let text = format!("a value has 1 to {VALUE_BITS_MAX} bits, not {bits}");
        self.report.error(codes::BAD_WIDTH, span, text);
        false
    }

    /// An expression with exactly `bits` bits; with 0 for what has a wrong width itself, which was reported.
    pub(crate) fn expr(&mut self, ast: &AstExpr, bits: u32) -> Option<ExprId> {
        let value = self.value(ast);
        if bits == 0 {
            return None;
        }
        self.adapt(value, bits, ast.span)
    }

    /// An expression that has a width by itself.
    pub(crate) fn sized(&mut self, ast: &AstExpr) -> Option<ExprId> {
        match self.value(ast) {
            Val::Poison => None,
            Val::Typed(id) => Some(id),
            Val::Int(_) | Val::Open(_) => {
                let text = "this number needs a width";
                let help = format!("`bit<16>({})` or `16w42` has one", self.text(ast.span, "x"));
                self.report.error(codes::NEEDS_WIDTH, ast.span, text).help(help);
                None
            }
        }
    }

    /// A condition: one bit.
    pub(crate) fn condition(&mut self, ast: &AstExpr) -> Option<ExprId> {
        match self.value(ast) {
            Val::Typed(id) if self.bits(id) != 1 => {
                let text = format!("a condition has one bit, this has {}", self.bits(id));
                let help = format!("compare it: `{} != 0`", self.text(ast.span, "x"));
                self.report.error(codes::NOT_BOOLEAN, ast.span, text).help(help);
                None
            }
            value => self.adapt(value, 1, ast.span),
        }
    }

    /// An offset, a length or an index: 32 bits, narrower values are extended in place.
    pub(crate) fn offset(&mut self, ast: &AstExpr) -> Option<ExprId> {
        let value = self.offset_value(ast, 0);
        let value = self.counted(value, ast.span);
        self.adapt(value, 32, ast.span)
    }

    /// A value that counts something: a constant below 0 is an error.
    pub(super) fn counted(&mut self, value: Val, span: SourceSpan) -> Val {
        let Val::Int(number) = value else { return value };
        if number.value().is_some() {
            return value;
        }
        let text = format!("{number} is negative, and this counts from 0");
        self.report.error(codes::DOES_NOT_FIT, span, text);
        Val::Poison
    }

    /// The index of an array with a declared number of entries. A constant one outside is an error; one that is
    /// computed for each packet may be outside, and then nothing is read or written.
    pub(crate) fn index_of(
        &mut self,
        ast: &AstExpr,
        what: &str,
        size: Option<u32>,
    ) -> Option<ExprId> {
        let at = self.offset(ast)?;
        let known = crate::ir::eval::constant(&self.ir.exprs, at);
        match (known, size) {
            (Some(value), Some(size)) if value >= size.into() => {
                let plural = if size == 1 { "entry" } else { "entries" };
                let text = format!("index {value} is outside {what}, which has {size} {plural}");
                self.report.error(codes::BAD_INDEX, ast.span, text).note("entries count from 0");
                None
            }
            _ => Some(at),
        }
    }

    fn offset_value(&mut self, ast: &AstExpr, depth: usize) -> Val {
        if depth >= super::DEPTH_MAX {
            return self.value(ast);
        }
        match &ast.value {
            Ast::Binary(op, left, right) => {
                let op = match op {
                    AstBin::Add => BinOp::Add,
                    AstBin::Sub => BinOp::Sub,
                    AstBin::Mul => BinOp::Mul,
                    AstBin::Rem => BinOp::Rem,
                    AstBin::SatAdd => BinOp::SatAdd,
                    AstBin::SatSub => BinOp::SatSub,
                    AstBin::And => BinOp::And,
                    AstBin::Or => BinOp::Or,
                    AstBin::Xor => BinOp::Xor,
                    AstBin::Shl | AstBin::Shr => {
                        return self.offset_shift(*op, (left, right), ast.span, depth);
                    }
                    _ => return self.extended(ast),
                };
                let left_value = self.offset_value(left, depth + 1);
                let right_value = self.offset_value(right, depth + 1);
                self.combine(op, (left_value, right_value), (left.span, right.span), ast.span)
            }
            Ast::Mux(cond, then, otherwise) => {
                let cond = self.condition(cond);
                let then = self.offset_value(then, depth + 1);
                let otherwise = self.offset_value(otherwise, depth + 1);
                match (cond, &then, &otherwise) {
                    (None, ..) | (_, Val::Poison, _) | (_, _, Val::Poison) => Val::Poison,
                    (Some(cond), ..) => {
                        let kind = OpenKind::Mux(cond, then, otherwise);
                        let open = Val::Open(Box::new(Open { kind, span: ast.span }));
                        self.adapt(open, 32, ast.span).map_or(Val::Poison, Val::Typed)
                    }
                }
            }
            Ast::Unary(op @ (AstUn::Complement | AstUn::Negate), inner) => {
                let value = self.offset_value(inner, depth + 1);
                self.negated(*op, value, ast.span)
            }
            _ => self.extended(ast),
        }
    }

    fn offset_shift(
        &mut self,
        op: AstBin,
        (left, right): (&AstExpr, &AstExpr),
        span: SourceSpan,
        depth: usize,
    ) -> Val {
        let value = self.offset_value(left, depth + 1);
        let count = self.offset_value(right, depth + 1);
        let count = self.counted(count, right.span);
        if let (Val::Int(value), Val::Int(count)) = (&value, &count) {
            let exact = if op == AstBin::Shl { value.shl(*count) } else { value.shr(*count) };
            return self.exact(exact, span);
        }
        let value = self.adapt(value, 32, left.span);
        let count = self.adapt(count, 32, right.span);
        let (Some(value), Some(count)) = (value, count) else { return Val::Poison };
        let op = if op == AstBin::Shl { BinOp::Shl } else { BinOp::Shr };
        Val::Typed(self.node(ExprKind::Binary(op, value, count), 32, span))
    }

    /// A leaf of an offset: extended to 32 bits when it is narrower.
    fn extended(&mut self, ast: &AstExpr) -> Val {
        match self.value(ast) {
            Val::Typed(id) if self.bits(id) < 32 => {
                Val::Typed(self.node(ExprKind::Cast(id), 32, ast.span))
            }
            value => value,
        }
    }

    /// A constant with `bits` bits, or of any width when `None`.
    pub(crate) fn const_value(&mut self, ast: &AstExpr, bits: Option<u32>) -> Option<u128> {
        let value = self.value(ast);
        self.const_of(value, ast, bits)
    }

    /// The value of an entry for a key.
    pub(crate) fn key_value(&mut self, key: &MatchField, ast: &AstExpr) -> Option<u128> {
        let value = self.value(ast);
        match value {
            Val::Typed(id) if self.bits(id) != key.bits => {
                let (found, wanted) = (form_of(self.bits(id)), form_of(key.bits));
                let text = format!("key `{}` has {} bits, and this is {found}", key.name, key.bits);
                let help = match key.display {
                    Display::Ipv4 | Display::Ipv6 | Display::Mac => format!("write {wanted}"),
                    Display::Decimal | Display::Hex => "write a number without a width".to_owned(),
                };
                self.report.error(codes::WIDTHS, ast.span, text).help(help);
                None
            }
            value => self.const_of(value, ast, Some(key.bits)),
        }
    }

    fn const_of(&mut self, value: Val, ast: &AstExpr, bits: Option<u32>) -> Option<u128> {
        let id = match (value, bits) {
            // What it is for has a wrong width, and that was reported.
            (_, Some(0)) => return None,
            // The common case of large entries files creates no node.
            (Val::Int(number), Some(bits)) => {
                if number.fit(bits).is_none() {
                    self.does_not_fit(&number.to_string(), bits, ast.span);
                }
                return number.fit(bits);
            }
            (Val::Int(number), None) => {
                if number.value().is_none() {
                    self.does_not_fit(&number.to_string(), VALUE_BITS_MAX, ast.span);
                }
                return number.value();
            }
            (Val::Typed(id), None) => id,
            (value, bits) => self.adapt(value, bits.unwrap_or(VALUE_BITS_MAX), ast.span)?,
        };
        let value = eval::constant(&self.ir.exprs, id);
        if value.is_none() {
            let text = "a constant is needed here, and this is only known for each packet";
            self.report.error(codes::NOT_CONSTANT, ast.span, text);
        }
        value
    }

    /// A constant that fits in 32 bits.
    pub(crate) fn const_u32(&mut self, ast: &AstExpr) -> Option<u32> {
        let value = self.const_value(ast, None)?;
        let small = u32::try_from(value).ok();
        if small.is_none() {
            self.does_not_fit(&value.to_string(), 32, ast.span);
        }
        small
    }

    pub(crate) fn slice_bounds(&mut self, high: &AstExpr, low: &AstExpr) -> Option<(u32, u32)> {
        let high = self.const_u32(high);
        let low = self.const_u32(low);
        Some((high?, low?))
    }

    pub(crate) fn slice_fits(&mut self, high: u32, low: u32, bits: u32, span: SourceSpan) -> bool {
        if low <= high && high < bits {
            return true;
        }
        let text = if low > high {
            format!("the slice [{high}:{low}] is the wrong way round")
        } else {
            format!("the slice [{high}:{low}] is outside a value of {bits} bits")
        };
        self.report
            .error(codes::BAD_SLICE, span, text)
            .help(format!("`x[high:low]` with {} >= high >= low >= 0", bits.saturating_sub(1)));
        false
    }
}
