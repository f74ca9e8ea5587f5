//! Expressions: ids, widths, order.

use super::Verifier;
use crate::ids::*;
use crate::ir::FieldLayout;
use crate::ir::eval::operands;
use crate::ir::expr::{BinOp, Expr, ExprKind, UnOp};
use crate::ir::layout::ones;

impl Verifier<'_> {
    pub(super) fn exprs(&mut self) {
        for (id, expr) in self.program.exprs.entries() {
            self.ensure((1..=128).contains(&expr.bits), || format!("{id}: {} bits", expr.bits));
            let parts = operands(&expr.kind);
            if parts.iter().any(|part| part.index() >= id.index()) {
                self.found.push(format!("{id}: a part does not come before it"));
                continue;
            }
            match self.expected_bits(&expr.kind, expr) {
                Ok(bits) => self.ensure(bits == expr.bits, || {
                    format!("{id}: {} bits where {bits} are right", expr.bits)
                }),
                Err(why) => self.found.push(format!("{id}: {why}")),
            }
        }
    }

    /// The width of an expression; 0 when it does not exist.
    pub(super) fn bits(&self, id: ExprId) -> u32 {
        self.program.exprs.get(id).map_or(0, |expr| expr.bits)
    }

    /// The width of a field of an instance.
    pub(super) fn field_bits(&self, instance: InstanceId, field: FieldId) -> Option<u32> {
        let instance = self.program.instances.get(instance)?;
        let field = self.program.headers.get(instance.header)?.fields.get(field)?;
        (field.bits > 0).then_some(field.bits)
    }

    fn expected_bits(&self, kind: &ExprKind, expr: &Expr) -> Result<u32, String> {
        let program = self.program;
        let missing = |what: &str| Err(format!("there is no such {what}"));
        match kind {
            ExprKind::Const(value) if *value > ones(expr.bits) => Err("constant too large".into()),
            ExprKind::Const(_) | ExprKind::Cast(_) => Ok(expr.bits),
            ExprKind::Lookahead { .. } | ExprKind::Local(_) => Ok(expr.bits),
            ExprKind::Field(instance, field) => {
                self.field_bits(*instance, *field).map_or_else(|| missing("field"), Ok)
            }
            ExprKind::Element { instance, field, index } => {
                match self.field_bits(*instance, *field) {
                    Some(_) if self.bits(*index) != 32 => Err("an index has 32 bits".into()),
                    Some(bits) => Ok(bits),
                    None => missing("array"),
                }
            }
            ExprKind::StackLast(stack, field) => match program.stacks.get(*stack) {
                Some(stack) => {
                    self.field_bits(stack.first, *field).map_or_else(|| missing("field"), Ok)
                }
                None => missing("stack"),
            },
            ExprKind::StackDepth(stack) if program.stacks.get(*stack).is_none() => missing("stack"),
            ExprKind::StackDepth(_) | ExprKind::Cursor => Ok(32),
            ExprKind::Valid(id) if program.instances.get(*id).is_none() => missing("instance"),
            ExprKind::Valid(_) => Ok(1),
            ExprKind::HeaderLength(id) if program.instances.get(*id).is_none() => {
                missing("instance")
            }
            ExprKind::HeaderLength(_) => Ok(32),
            ExprKind::Bytes(instance, field) => self.bytes_of((*instance, *field)).map(|()| 8),
            ExprKind::Body => Ok(8),
            ExprKind::SameBytes(a, b) => {
                self.bytes_of(*a)?;
                self.bytes_of(*b).map(|()| 1)
            }
            ExprKind::Meta(id) => {
                program.metadata.get(*id).map_or_else(|| missing("metadata"), |meta| Ok(meta.bits))
            }
            ExprKind::Std(field) => Ok(field.bits()),
            ExprKind::Unary(UnOp::Not, value) if self.bits(*value) != 1 => {
                Err("`!` of more than a bit".into())
            }
            ExprKind::Unary(_, value) => Ok(self.bits(*value)),
            ExprKind::Binary(op, left, right) => self.binary_bits(*op, *left, *right),
            ExprKind::Slice { value, high, low } => {
                if low > high || *high >= self.bits(*value) {
                    return Err("slice outside its value".into());
                }
                Ok(high - low + 1)
            }
            ExprKind::Concat(high, low) => Ok(self.bits(*high) + self.bits(*low)),
            ExprKind::Mux(cond, then, otherwise) => {
                if self.bits(*cond) != 1 || self.bits(*then) != self.bits(*otherwise) {
                    return Err("a choice by more than a bit, or of different widths".into());
                }
                Ok(self.bits(*then))
            }
            ExprKind::Hash(algorithm, values) if !values.is_empty() => Ok(algorithm.bits()),
            ExprKind::Hash(..) => Err("a hash of nothing".into()),
        }
    }

    /// The field has bytes, not a value.
    pub(super) fn bytes_of(&self, (instance, field): (InstanceId, FieldId)) -> Result<(), String> {
        let known = self.program.instances.get(instance);
        let header = known.and_then(|known| self.program.headers.get(known.header));
        match header.and_then(|header| header.fields.get(field)).map(|field| &field.layout) {
            Some(FieldLayout::Variable { .. } | FieldLayout::Opaque { .. }) => Ok(()),
            _ => Err(format!("{field} of {instance} has no bytes of its own")),
        }
    }

    fn binary_bits(&self, op: BinOp, left: ExprId, right: ExprId) -> Result<u32, String> {
        let (a, b) = (self.bits(left), self.bits(right));
        match op {
            BinOp::Shl | BinOp::Shr => Ok(a),
            BinOp::LogicalAnd | BinOp::LogicalOr if a != 1 || b != 1 => {
                Err(format!("`{}` of more than bits", op.symbol()))
            }
            _ if a != b => Err(format!("`{}` of {a} and {b} bits", op.symbol())),
            _ if op.is_boolean() => Ok(1),
            _ => Ok(a),
        }
    }

    /// Checks that locals read by an expression exist in this body, with this width, and that parser-only operands are
    /// in the parser.
    pub(super) fn locals_of(
        &mut self,
        id: ExprId,
        locals: &IdVec<LocalId, crate::ir::code::Local>,
        in_parser: bool,
        place: &str,
    ) {
        // Operands may be shared by many: each is checked once.
        let mut open = vec![id];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some(expr) = self.program.exprs.get(id) else {
                self.found.push(format!("{place}: there is no {id}"));
                continue;
            };
            match &expr.kind {
                ExprKind::Local(local) => {
                    let bits = locals.get(*local).map(|local| local.bits);
                    self.ensure(bits == Some(expr.bits), || {
                        format!("{place}: {id} reads no such {local}")
                    });
                }
                ExprKind::Lookahead { .. } | ExprKind::Cursor => {
                    self.ensure(in_parser, || format!("{place}: {id} belongs to the parser"));
                }
                _ => {}
            }
            open.extend(operands(&expr.kind).into_iter().filter(|part| part.index() < id.index()));
        }
    }
}
