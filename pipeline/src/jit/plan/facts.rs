//! Facts: constants, validity on a path, fields that a path has compared.
//!
//! A fact about a field is kept only where neither the parser nor the control ever writes a byte of it, so it is true
//! to the end of the pass.

use super::{Control, Path};
use crate::ids::*;
use crate::ir::eval::{binary, operands, unary};
use crate::ir::layout::ones;
use crate::ir::{
    BinOp, Body, Checksum, ExprKind, FieldLayout, Half, LValue, Op, ParserOp, Program, StdField,
    Term,
};

/// Widest field that a length is solved for.
const SOLVE_BITS: u32 = 8;

impl Control<'_> {
    fn bits(&self, id: ExprId) -> u32 {
        self.program.exprs[id].bits
    }

    /// A condition whose value is known on this path.
    pub(in crate::jit) fn known(&self, path: &Path, id: ExprId) -> Option<bool> {
        let known = |id| self.known(path, id);
        match &self.program.exprs[id].kind {
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => match (known(*a), known(*b)) {
                (Some(false), _) => Some(false),
                (_, Some(false)) if !self.must_be_lazy(*a) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            ExprKind::Binary(BinOp::LogicalOr, a, b) => match (known(*a), known(*b)) {
                (Some(true), _) => Some(true),
                (_, Some(true)) if !self.must_be_lazy(*a) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            _ => self.known_number(path, id).map(|value| value == 1),
        }
    }

    /// An expression whose value is known on this path.
    pub(in crate::jit) fn known_number(&self, path: &Path, id: ExprId) -> Option<u128> {
        let expr = &self.program.exprs[id];
        let number = |id| self.known_number(path, id);
        match &expr.kind {
            ExprKind::Const(value) => Some(*value),
            ExprKind::Std(StdField::ParserError) => Some(0),
            ExprKind::Valid(instance) => path.is_valid(*instance).map(u128::from),
            ExprKind::Field(instance, field) => match path.is_valid(*instance)? {
                true => path.known_field(*instance, *field),
                false => Some(0),
            },
            ExprKind::HeaderLength(instance) => {
                let header = &self.program.headers[self.program.instances[*instance].header];
                // On a path, a header with a variable part is valid only with an empty one.
                Some(if path.is_valid(*instance)? { header.fixed_bytes.into() } else { 0 })
            }
            ExprKind::Cursor if self.half == Half::Ingress => Some(path.cursor.into()),
            ExprKind::Binary(BinOp::LogicalAnd | BinOp::LogicalOr, ..) => {
                self.known(path, id).map(u128::from)
            }
            ExprKind::Unary(op, a) => Some(unary(*op, number(*a)?, self.bits(*a))),
            ExprKind::Binary(op, a, b) => {
                let (left, right) = (number(*a)?, number(*b)?);
                Some(binary(*op, left, right, self.bits(*a)))
            }
            ExprKind::Cast(a) => Some(number(*a)? & ones(expr.bits)),
            ExprKind::Slice { value, high, low } => {
                Some(number(*value)? >> low & ones(high - low + 1))
            }
            ExprKind::Mux(cond, then, otherwise) => {
                number(if self.known(path, *cond)? { *then } else { *otherwise })
            }
            _ => None,
        }
    }

    /// Whether evaluating it may end the pass, or costs more than a few instructions.
    pub(in crate::jit) fn must_be_lazy(&self, id: ExprId) -> bool {
        match &self.program.exprs[id].kind {
            ExprKind::Element { .. } | ExprKind::Lookahead { .. } | ExprKind::Hash(..) => true,
            ExprKind::SameBytes(..) => true,
            ExprKind::Std(StdField::EmitLength) => true,
            kind => operands(kind).into_iter().any(|part| self.must_be_lazy(part)),
        }
    }

    /// The greatest value that an expression can have, derived from its form.
    pub(in crate::jit) fn most(&self, id: ExprId) -> u128 {
        let expr = &self.program.exprs[id];
        let of_type = ones(expr.bits);
        match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Cast(a) => self.most(*a).min(of_type),
            ExprKind::Slice { high, low, .. } => ones(high - low + 1).min(of_type),
            ExprKind::Binary(BinOp::And, a, b) => self.most(*a).min(self.most(*b)),
            ExprKind::Mux(_, a, b) => self.most(*a).max(self.most(*b)),
            _ => of_type,
        }
    }

    /// Records that this field has this value from here on.
    pub(super) fn learn_fact(
        &self,
        path: &mut Path,
        instance: InstanceId,
        field: FieldId,
        value: u128,
    ) {
        if !self.may_write(instance, field) {
            path.facts.push(((instance, field), value));
        }
    }

    /// Whether the control may write a byte of a field.
    pub(super) fn may_write(&self, instance: InstanceId, field: FieldId) -> bool {
        let bytes = |instance: InstanceId, field: FieldId| {
            let header = &self.program.headers[self.program.instances[instance].header];
            let pieces = header.fields[field].layout.pieces().unwrap_or_default();
            pieces.iter().map(|piece| piece.byte).collect::<Vec<u32>>()
        };
        let mine = bytes(instance, field);
        let mut others = self.written.iter().filter(|(owner, _)| *owner == instance);
        others.any(|(owner, other)| bytes(*owner, *other).iter().any(|b| mine.contains(b)))
    }

    /// Records that an expression has this value from here on, if it is a field.
    pub(super) fn learn_equal(&self, path: &mut Path, id: ExprId, value: u128) {
        match self.program.exprs[id].kind {
            ExprKind::Field(instance, field) if self.known_number(path, id).is_none() => {
                self.learn_fact(path, instance, field, value);
            }
            ExprKind::Cast(inner) if self.bits(inner) <= self.bits(id) => {
                self.learn_equal(path, inner, value);
            }
            _ => {}
        }
    }

    /// Records that a condition is true from here on.
    pub(super) fn learn_condition(&self, path: &mut Path, id: ExprId) {
        match self.program.exprs[id].kind {
            ExprKind::Binary(BinOp::Eq, a, b) => {
                if let Some(value) = self.known_number(path, b) {
                    self.learn_equal(path, a, value);
                }
            }
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => {
                self.learn_condition(path, a);
                self.learn_condition(path, b);
            }
            _ => {}
        }
    }

    /// The field and value for which an expression is zero, if it is zero for exactly one value of one short field of
    /// this header and reads nothing else.
    pub(super) fn only_zero(
        &self,
        path: &Path,
        instance: InstanceId,
        id: ExprId,
    ) -> Option<(FieldId, u128)> {
        let field = match fields_of(self.program, id)[..] {
            [(owner, field)] if owner == instance => field,
            _ => return None,
        };
        let header = &self.program.headers[self.program.instances[instance].header];
        let (bits, layout) = (header.fields[field].bits, &header.fields[field].layout);
        let is_scalar = matches!(layout, FieldLayout::Run { .. } | FieldLayout::Pieces(_));
        if bits > SOLVE_BITS || !is_scalar {
            return None;
        }
        let (mut tried, mut zeros) = (path.clone(), Vec::new());
        for value in 0..=ones(bits) {
            tried.facts.push(((instance, field), value));
            let result = self.known_number(&tried, id);
            tried.facts.pop();
            if result? == 0 {
                zeros.push(value);
            }
        }
        match zeros[..] {
            [value] => Some((field, value)),
            _ => None,
        }
    }

    /// Whether a checksum is in use on a path; `None` if not known.
    pub(super) fn in_use(&self, path: &Path, checksum: &Checksum) -> Option<bool> {
        checksum.when.map_or(Some(true), |when| self.known(path, when))
    }
}

/// The fields that an expression reads.
pub(super) fn fields_of(program: &Program, id: ExprId) -> Vec<(InstanceId, FieldId)> {
    let (mut reads, mut todo) = (Vec::new(), vec![id]);
    while let Some(id) = todo.pop() {
        let kind = &program.exprs[id].kind;
        if let ExprKind::Field(instance, field) = kind
            && !reads.contains(&(*instance, *field))
        {
            reads.push((*instance, *field));
        }
        todo.extend(operands(kind));
    }
    reads
}

/// A control and every action that it may run, each once.
pub(super) fn bodies(program: &Program, half: Half) -> Vec<&Body> {
    let mut bodies = vec![program.control(half)];
    let mut seen: Vec<ActionId> = Vec::new();
    let mut next = 0;
    while let Some(body) = bodies.get(next).copied() {
        let mut actions = Vec::new();
        for block in &body.blocks {
            actions.extend(block.ops.iter().filter_map(|op| match op.op {
                Op::Call(action, _) => Some(action),
                _ => None,
            }));
            if let Term::Apply { table, .. } = &block.term {
                actions.extend(program.tables[*table].actions.iter().copied());
                actions.push(program.tables[*table].default.action);
            }
        }
        for action in actions {
            if !seen.contains(&action) {
                seen.push(action);
                bodies.push(&program.actions[action].body);
            }
        }
        next += 1;
    }
    bodies
}

/// The parts of a wide field that the program uses.
fn parts_of(
    program: &Program,
    (instance, whole): (InstanceId, FieldId),
) -> impl Iterator<Item = (InstanceId, FieldId)> {
    let fields = &program.headers[program.instances[instance].header].fields;
    let parts = fields.entries().filter(move |(_, field)| field.part_of == Some(whole));
    parts.map(move |(part, _)| (instance, part))
}

/// Fields that a control, the actions it may run, or the parser before it may assign. A copy into a wide field writes its parts.
pub(super) fn written_fields(program: &Program, half: Half) -> Vec<(InstanceId, FieldId)> {
    let blocks = bodies(program, half).into_iter().flat_map(|body| &body.blocks);
    let by_control = blocks.flat_map(|block| &block.ops).filter_map(|op| match &op.op {
        Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => Some(to),
        Op::Extern { to, .. } => to.as_ref(),
        _ => None,
    });
    let states = program.parser.states.iter().filter(|_| half == Half::Ingress);
    let by_parser = states.flat_map(|state| &state.ops).filter_map(|op| match op {
        ParserOp::Set(to, _) => Some(to),
        _ => None,
    });
    let copies = bodies(program, half).into_iter().flat_map(|body| &body.blocks);
    let copied = copies.flat_map(|block| &block.ops).filter_map(|op| match op.op {
        Op::CopyBytes { to, .. } => Some(to),
        _ => None,
    });
    let mut fields: Vec<_> = copied.flat_map(|to| parts_of(program, to)).collect();
    for to in by_control.chain(by_parser) {
        match to {
            LValue::Field(instance, field) | LValue::FieldSlice { instance, field, .. }
                if !fields.contains(&(*instance, *field)) =>
            {
                fields.push((*instance, *field));
            }
            _ => {}
        }
    }
    fields
}
