//! Expressions as text.

use super::Printer;
use crate::ids::*;
use crate::ir::code::Local;
use crate::ir::expr::{ExprKind, HashAlgorithm, UnOp};

/// The name of a hash in the language.
pub(super) fn hash_name(algorithm: HashAlgorithm) -> &'static str {
    let found = HashAlgorithm::ALL.iter().find(|(_, known)| *known == algorithm);
    found.map_or("hash", |(name, _)| name)
}

/// The name of a local with its id, which distinguishes two of one name.
pub(super) fn local_name(locals: &IdVec<LocalId, Local>, id: LocalId) -> String {
    locals.get(id).map_or_else(|| id.to_string(), |local| format!("{}%{}", local.name, id.0))
}

impl Printer<'_> {
    /// An expression as in the language.
    pub(super) fn expr(&self, id: ExprId, locals: &IdVec<LocalId, Local>) -> String {
        let Some(expr) = self.program.exprs.get(id) else { return id.to_string() };
        let of = |id: &ExprId| self.expr(*id, locals);
        match &expr.kind {
            ExprKind::Const(value) if expr.bits == 1 => format!("{value}:1"),
            ExprKind::Const(value) => format!("{value:#x}:{}", expr.bits),
            ExprKind::Field(instance, field) => self.field(*instance, *field),
            ExprKind::Element { instance, field, index } => {
                format!("{}[{}]", self.field(*instance, *field), of(index))
            }
            ExprKind::StackLast(stack, field) => {
                let first = self.program.stacks.get(*stack).map(|stack| stack.first);
                let field = first.map(|first| self.field(first, *field)).unwrap_or_default();
                let name = field.rsplit('.').next().unwrap_or_default();
                format!("{}.last.{name}", self.stack(*stack))
            }
            ExprKind::StackDepth(stack) => format!("{}.depth", self.stack(*stack)),
            ExprKind::Valid(instance) => format!("{}.valid", self.instance(*instance)),
            ExprKind::Meta(meta) => {
                let name = self.program.metadata.get(*meta).map(|meta| meta.name.as_str());
                format!("meta.{}", name.unwrap_or("?"))
            }
            ExprKind::Std(field) => format!("std.{}", field.name()),
            ExprKind::Local(local) => local_name(locals, *local),
            ExprKind::Lookahead { offset_bits } => {
                format!("lookahead({}, {offset_bits})", expr.bits)
            }
            ExprKind::Cursor => "cursor".to_string(),
            ExprKind::HeaderLength(instance) => format!("{}.length", self.instance(*instance)),
            ExprKind::Bytes(instance, field) => self.field(*instance, *field),
            ExprKind::Body => "body".to_string(),
            ExprKind::SameBytes(a, b) => {
                format!("({} == {})", self.field(a.0, a.1), self.field(b.0, b.1))
            }
            ExprKind::Unary(op, value) => {
                let symbol = match op {
                    UnOp::Not => "!",
                    UnOp::Complement => "~",
                    UnOp::Negate => "-",
                };
                format!("{symbol}{}", of(value))
            }
            ExprKind::Binary(op, left, right) => {
                format!("({} {} {})", of(left), op.symbol(), of(right))
            }
            ExprKind::Slice { value, high, low } => format!("{}[{high}:{low}]", of(value)),
            ExprKind::Concat(high, low) => format!("({} ++ {})", of(high), of(low)),
            ExprKind::Cast(value) => format!("bit<{}>({})", expr.bits, of(value)),
            ExprKind::Mux(cond, then, otherwise) => {
                format!("({} ? {} : {})", of(cond), of(then), of(otherwise))
            }
            ExprKind::Hash(algorithm, values) => {
                let values: Vec<String> = values.iter().map(of).collect();
                format!("hash({}, {})", hash_name(*algorithm), values.join(", "))
            }
        }
    }

    /// Expressions with commas.
    pub(super) fn list(&self, ids: &[ExprId], locals: &IdVec<LocalId, Local>) -> String {
        let all: Vec<String> = ids.iter().map(|id| self.expr(*id, locals)).collect();
        all.join(", ")
    }
}
