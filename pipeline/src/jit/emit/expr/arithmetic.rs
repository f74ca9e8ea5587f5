//! Operators of two values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::{CompileError, Emit};
use crate::ids::*;
use crate::ir::{BinOp, ExprKind};
use crate::jit::runtime::Helper;

impl Emit<'_> {
    pub(super) fn binary(
        &mut self,
        id: ExprId,
        op: BinOp,
        a: ExprId,
        b: ExprId,
        bits: u32,
    ) -> Result<Value, CompileError> {
        if let Some(known) = self.known(id) {
            return Ok(self.num(known.into()));
        }
        if matches!(op, BinOp::LogicalAnd | BinOp::LogicalOr) && self.control.must_be_lazy(b) {
            let (yes, no) = (self.b.create_block(), self.b.create_block());
            let (join, value) = self.join(1);
            self.branch(id, yes, no)?;
            for (block, result) in [(yes, 1), (no, 0)] {
                self.b.switch_to_block(block);
                let result = self.num(result);
                self.b.ins().jump(join, &[result.into()]);
            }
            self.b.switch_to_block(join);
            return Ok(value);
        }
        let (width, amount_bits) = (self.bits(a), self.bits(b));
        if let (BinOp::Shl | BinOp::Shr, ExprKind::Const(by)) = (op, &self.program.exprs[b].kind) {
            let by = *by;
            return self.shift_by(op, a, by, bits);
        }
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        Ok(match op {
            BinOp::Add => self.wrap(bits, |e| e.b.ins().iadd(x, y)),
            BinOp::Sub => self.wrap(bits, |e| e.b.ins().isub(x, y)),
            BinOp::Mul => self.wrap(bits, |e| e.b.ins().imul(x, y)),
            BinOp::Rem => self.remainder(x, y, self.known_number(b), bits)?,
            BinOp::SatAdd => self.saturating_add(x, y, bits),
            BinOp::SatSub => {
                let less = self.b.ins().isub(x, y);
                let below = self.compare(IntCC::UnsignedLessThan, x, y);
                let zero = self.zero(bits);
                self.select(below, zero, less, bits)
            }
            BinOp::And | BinOp::LogicalAnd => self.b.ins().band(x, y),
            BinOp::Or | BinOp::LogicalOr => self.b.ins().bor(x, y),
            BinOp::Xor => self.b.ins().bxor(x, y),
            BinOp::Shl | BinOp::Shr => self.shift(op, x, y, bits, amount_bits),
            BinOp::Eq => self.test(IntCC::Equal, x, y),
            BinOp::Ne => self.test(IntCC::NotEqual, x, y),
            BinOp::Lt => self.test(IntCC::UnsignedLessThan, x, y),
            BinOp::Le => self.test(IntCC::UnsignedLessThanOrEqual, x, y),
            BinOp::SignedLt | BinOp::SignedLe => {
                // Adding half the range turns two's complement order into unsigned order.
                let half = self.constant(1 << (width - 1), width);
                let (x, y) = (self.b.ins().bxor(x, half), self.b.ins().bxor(y, half));
                let strict = op == BinOp::SignedLt;
                let below =
                    if strict { IntCC::UnsignedLessThan } else { IntCC::UnsignedLessThanOrEqual };
                self.test(below, x, y)
            }
        })
    }

    fn wrap(&mut self, bits: u32, op: impl FnOnce(&mut Self) -> Value) -> Value {
        let value = op(self);
        self.masked(value, bits)
    }

    /// A comparison as a value of one bit.
    fn test(&mut self, cc: IntCC, x: Value, y: Value) -> Value {
        let narrow = self.compare(cc, x, y);
        self.b.ins().uextend(I64, narrow)
    }

    /// The remainder of a division, 0 for a division by 0.
    fn remainder(
        &mut self,
        x: Value,
        y: Value,
        divisor: Option<u128>,
        bits: u32,
    ) -> Result<Value, CompileError> {
        if let Some(power) = divisor.filter(|divisor| divisor.is_power_of_two()) {
            let mask = self.constant(power - 1, bits);
            return Ok(self.b.ins().band(x, mask));
        }
        if bits > 64 {
            self.put_value(0, x, bits)?;
            self.put_value(1, y, bits)?;
            self.call(Helper::Remainder, &[]);
            return Ok(self.get_value(0, bits));
        }
        // The remainder of a division by 1 is 0 too, and the processor can divide by 1.
        let zero = self.zero(bits);
        let none = self.compare(IntCC::Equal, y, zero);
        let one = self.constant(1, bits);
        let by = self.select(none, one, y, bits);
        Ok(self.b.ins().urem(x, by))
    }

    fn saturating_add(&mut self, x: Value, y: Value, bits: u32) -> Value {
        let sum = self.b.ins().iadd(x, y);
        let most = self.constant(crate::ir::layout::ones(bits), bits);
        let over = match bits {
            64 | 128 => self.compare(IntCC::UnsignedLessThan, sum, x),
            _ => self.compare(IntCC::UnsignedGreaterThan, sum, most),
        };
        self.select(over, most, sum, bits)
    }

    fn shift_by(
        &mut self,
        op: BinOp,
        a: ExprId,
        by: u128,
        bits: u32,
    ) -> Result<Value, CompileError> {
        let value = self.expr(a)?;
        if by >= u128::from(bits) {
            return Ok(self.zero(bits));
        }
        Ok(match op {
            BinOp::Shl => {
                let value = self.b.ins().ishl_imm_u(value, by as i64);
                self.masked(value, bits)
            }
            _ => self.b.ins().ushr_imm_u(value, by as i64),
        })
    }

    fn shift(&mut self, op: BinOp, x: Value, y: Value, bits: u32, amount_bits: u32) -> Value {
        let limit = self.constant(bits.into(), amount_bits);
        let within = self.compare(IntCC::UnsignedLessThan, y, limit);
        let by = self.resize(y, amount_bits, 64);
        let shifted = match op {
            BinOp::Shl => {
                let value = self.b.ins().ishl(x, by);
                self.masked(value, bits)
            }
            _ => self.b.ins().ushr(x, by),
        };
        let zero = self.zero(bits);
        self.select(within, shifted, zero, bits)
    }
}
