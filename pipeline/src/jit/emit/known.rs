//! What is known while code is generated: constants, validity on a path, fields that a path has compared.
//!
//! A fact about a field is kept only where neither the parser nor the control ever writes a byte of it,
//! so it holds to the end of the pass.

use super::field::Base;
use super::{Emit, flags, narrow_type};
use crate::ids::*;
use crate::ir::eval::{binary, unary};
use crate::ir::layout::ones;
use crate::ir::{BinOp, Body, ExprKind, FieldLayout, LValue, Op, ParserOp, StdField, Term};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Widest field that a length is solved for.
const SOLVE_BITS: u32 = 8;

impl Emit<'_> {
    /// A condition whose value is known on this path.
    pub(super) fn known(&self, id: ExprId) -> Option<bool> {
        self.in_place.as_ref()?;
        match &self.program.exprs[id].kind {
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => match (self.known(*a), self.known(*b)) {
                (Some(false), _) => Some(false),
                (_, Some(false)) if !self.must_be_lazy(*a) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            ExprKind::Binary(BinOp::LogicalOr, a, b) => match (self.known(*a), self.known(*b)) {
                (Some(true), _) => Some(true),
                (_, Some(true)) if !self.must_be_lazy(*a) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            _ => self.known_number(id).map(|value| value == 1),
        }
    }

    /// An expression whose value is known on this path.
    pub(super) fn known_number(&self, id: ExprId) -> Option<u128> {
        let path = self.in_place.as_ref()?;
        let expr = &self.program.exprs[id];
        match &expr.kind {
            ExprKind::Const(value) => Some(*value),
            ExprKind::Std(StdField::ParserError) => Some(0),
            ExprKind::Valid(instance) => self.surely_valid(*instance).map(u128::from),
            ExprKind::Field(instance, field) => match self.surely_valid(*instance)? {
                true => self.known_field(*instance, *field),
                false => Some(0),
            },
            ExprKind::HeaderLength(instance) => {
                let header = &self.program.headers[self.program.instances[*instance].header];
                // In place, a header with a variable part is there only with an empty one.
                Some(if self.surely_valid(*instance)? { header.fixed_bytes.into() } else { 0 })
            }
            ExprKind::Cursor if !self.egress => Some(path.cursor.into()),
            ExprKind::Binary(BinOp::LogicalAnd | BinOp::LogicalOr, ..) => {
                self.known(id).map(u128::from)
            }
            ExprKind::Unary(op, a) => Some(unary(*op, self.known_number(*a)?, self.bits(*a))),
            ExprKind::Binary(op, a, b) => {
                let (left, right) = (self.known_number(*a)?, self.known_number(*b)?);
                Some(binary(*op, left, right, self.bits(*a)))
            }
            ExprKind::Cast(a) => Some(self.known_number(*a)? & ones(expr.bits)),
            ExprKind::Slice { value, high, low } => {
                Some(self.known_number(*value)? >> low & ones(high - low + 1))
            }
            ExprKind::Mux(cond, then, otherwise) => {
                self.known_number(if self.known(*cond)? { *then } else { *otherwise })
            }
            _ => None,
        }
    }

    /// The greatest value that an expression can have, as far as its form tells.
    pub(super) fn most(&self, id: ExprId) -> u128 {
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

    /// The value of a field of a valid header.
    pub(super) fn known_field(&self, instance: InstanceId, field: FieldId) -> Option<u128> {
        let facts = &self.in_place.as_ref()?.facts;
        facts.iter().find(|(known, _)| *known == (instance, field)).map(|(_, value)| *value)
    }

    /// From here on this field has this value.
    pub(super) fn learn_fact(&mut self, instance: InstanceId, field: FieldId, value: u128) {
        if self.may_write(instance, field) {
            return;
        }
        if let Some(path) = &mut self.in_place {
            path.facts.push(((instance, field), value));
        }
    }

    /// The control may write a byte of a field.
    pub(super) fn may_write(&self, instance: InstanceId, field: FieldId) -> bool {
        let bytes = |instance: InstanceId, field: FieldId| {
            let pieces = self.field_layout(instance, field).pieces().unwrap_or_default();
            pieces.iter().map(|piece| piece.byte).collect::<Vec<u32>>()
        };
        let mine = bytes(instance, field);
        let mut others = self.written.iter().filter(|(owner, _)| *owner == instance);
        others.any(|(owner, other)| bytes(*owner, *other).iter().any(|b| mine.contains(b)))
    }

    /// An expression has this value from here on: worth noting if it is a field.
    pub(super) fn learn_equal(&mut self, id: ExprId, value: u128) {
        match self.program.exprs[id].kind {
            ExprKind::Field(instance, field) if self.known_number(id).is_none() => {
                self.learn_fact(instance, field, value);
            }
            ExprKind::Cast(inner) if self.bits(inner) <= self.bits(id) => {
                self.learn_equal(inner, value);
            }
            _ => {}
        }
    }

    /// A condition holds from here on.
    pub(super) fn learn_condition(&mut self, id: ExprId) {
        match self.program.exprs[id].kind {
            ExprKind::Binary(BinOp::Eq, a, b) => {
                if let Some(value) = self.known_number(b) {
                    self.learn_equal(a, value);
                }
            }
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => {
                self.learn_condition(a);
                self.learn_condition(b);
            }
            _ => {}
        }
    }

    /// If an expression is zero for exactly one value of one short field of this header, and reads
    /// nothing else: that field and value.
    pub(super) fn only_zero(
        &mut self,
        instance: InstanceId,
        id: ExprId,
    ) -> Option<(FieldId, u128)> {
        let mut reads = Vec::new();
        self.fields_of(id, &mut reads);
        let field = match reads[..] {
            [(owner, field)] if owner == instance => field,
            _ => return None,
        };
        let bits = self.field_bits(instance, field);
        if bits > SOLVE_BITS || !self.is_scalar(instance, field) {
            return None;
        }
        let mut zeros = Vec::new();
        for value in 0..=ones(bits) {
            self.in_place.as_mut()?.facts.push(((instance, field), value));
            let result = self.known_number(id);
            self.in_place.as_mut()?.facts.pop();
            if result? == 0 {
                zeros.push(value);
            }
        }
        match zeros[..] {
            [value] => Some((field, value)),
            _ => None,
        }
    }

    pub(super) fn fields_of(&self, id: ExprId, reads: &mut Vec<(InstanceId, FieldId)>) {
        let kind = &self.program.exprs[id].kind;
        if let ExprKind::Field(instance, field) = kind
            && !reads.contains(&(*instance, *field))
        {
            reads.push((*instance, *field));
        }
        crate::ir::eval::operands(kind).into_iter().for_each(|part| self.fields_of(part, reads));
    }

    /// Whether a field of a valid header differs from a value, as a condition.
    pub(super) fn field_is_not(
        &mut self,
        instance: InstanceId,
        field: FieldId,
        value: u128,
    ) -> Value {
        let all = ones(self.field_bits(instance, field));
        if let Some(differs) = self.raw_compare(IntCC::NotEqual, instance, field, value, all) {
            return differs;
        }
        let bits = self.field_bits(instance, field);
        let (found, value) = (self.read_field(instance, field), self.constant(value, bits));
        self.compare(IntCC::NotEqual, found, value)
    }

    /// Compares the bits of a field under a mask with a value as they are in memory, with constants in
    /// network order: one instruction or two. `None` where the field is not a short run of a header
    /// that is valid on this path.
    pub(super) fn raw_compare(
        &mut self,
        cc: IntCC,
        instance: InstanceId,
        field: FieldId,
        value: u128,
        mask: u128,
    ) -> Option<Value> {
        let (first, window) = self.raw_window(instance, field)?;
        let base: Base = self.base(instance);
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        let spare = (first + window) * 8 - (bit + bits);
        let place = |word: u128| {
            let word = ((word as u64) << spare).swap_bytes();
            word >> (64 - window * 8)
        };
        let (value, mask) = (place(value), place(mask & ones(bits)));
        let ty = narrow_type(window);
        let raw = self.b.ins().load(ty, flags(), base.address, base.offset + first as i32);
        let raw = if mask == u64::MAX >> (64 - window * 8) {
            raw
        } else {
            let mask = self.b.ins().iconst(ty, narrow(mask, window));
            self.b.ins().band(raw, mask)
        };
        let value = self.b.ins().iconst(ty, narrow(value, window));
        Some(self.compare(cc, raw, value))
    }

    /// First byte and number of bytes (1, 2, 4 or 8) that hold a field and are there.
    fn raw_window(&self, instance: InstanceId, field: FieldId) -> Option<(u32, u32)> {
        let FieldLayout::Run { bit: start, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        let (first, last) = (start / 8, (start + bits - 1) / 8);
        let window = (last - first + 1).checked_next_power_of_two()?;
        let valid = self.surely_valid(instance) == Some(true) && !self.is_made(instance);
        let there = valid && first + window <= self.base(instance).bytes;
        (there && window <= 8).then_some((first, window))
    }

    /// Whether [`Emit::raw_compare`] does a field.
    pub(super) fn has_raw(&self, instance: InstanceId, field: FieldId) -> bool {
        self.raw_window(instance, field).is_some()
    }
}

/// A constant as an integer of so many bytes takes it.
fn narrow(word: u64, bytes: u32) -> i64 {
    match bytes {
        1 => i64::from(word as u8),
        2 => i64::from(word as u16),
        4 => i64::from(word as u32),
        _ => word as i64,
    }
}

/// Fields that a control, the actions it may run, or the parser in front of it may assign.
pub(super) fn written_fields(
    program: &crate::ir::Program,
    egress: bool,
) -> Vec<(InstanceId, FieldId)> {
    let mut fields = Vec::new();
    let mut note = |to: &LValue| match to {
        LValue::Field(instance, field) | LValue::FieldSlice { instance, field, .. }
            if !fields.contains(&(*instance, *field)) =>
        {
            fields.push((*instance, *field));
        }
        _ => {}
    };
    let control = if egress { &program.egress } else { &program.ingress };
    let mut bodies: Vec<&Body> = vec![control];
    let mut seen: Vec<ActionId> = Vec::new();
    while let Some(body) = bodies.pop() {
        let mut actions = Vec::new();
        for block in &body.blocks {
            for op in &block.ops {
                match &op.op {
                    Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => note(to),
                    Op::Extern { to: Some(to), .. } => note(to),
                    Op::Call(action, _) => actions.push(*action),
                    _ => {}
                }
            }
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
    }
    if !egress {
        for op in program.parser.states.iter().flat_map(|state| &state.ops) {
            if let ParserOp::Set(to, _) = op {
                note(to);
            }
        }
    }
    fields
}
