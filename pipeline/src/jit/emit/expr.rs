//! Expressions.

mod arithmetic;

use super::field::Base;
use super::{
    CompileError, Emit, Validity, descriptor, flags, internal, intrinsic, scalar_offset, type_of,
    vm_offset,
};
use crate::exec::{TRIMMED, flags as packet_flags};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::ir::{BinOp, BuiltinError, ExprKind, FieldLayout, StdField, UnOp};
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

impl Emit<'_> {
    pub(super) fn bits(&self, id: ExprId) -> u32 {
        self.program.exprs[id].bits
    }

    /// The value of an expression.
    pub(super) fn expr(&mut self, id: ExprId) -> Result<Value, CompileError> {
        self.spend(1)?;
        let expr = &self.program.exprs[id];
        let bits = expr.bits;
        if let Some(known) = self.known_number(id) {
            return Ok(self.constant(known, bits));
        }
        let kind = expr.kind.clone();
        Ok(match kind {
            ExprKind::Const(value) => self.constant(value, bits),
            ExprKind::Field(instance, field) => self.field(instance, field),
            ExprKind::Element { .. } => self.left_to_interpreter(id)?,
            ExprKind::StackLast(stack, field) => self.stack_last(stack, field, bits),
            ExprKind::StackDepth(stack) => {
                let stack = &self.program.stacks[stack];
                self.count_valid(stack.first, stack.len)
            }
            ExprKind::Valid(instance) => self.valid_bit(instance),
            ExprKind::Meta(meta) => {
                let (var, _) = self.metas[meta.index()];
                self.b.use_var(var)
            }
            ExprKind::Std(field) => self.std(id, field)?,
            ExprKind::Local(local) => {
                let (var, _) = self.locals[local.index()];
                self.b.use_var(var)
            }
            ExprKind::Lookahead { offset_bits } => self.lookahead(id, offset_bits, bits)?,
            ExprKind::Cursor => {
                let cursor = self.b.use_var(self.cursor_bits);
                let bytes = self.b.ins().ushr_imm_u(cursor, 3);
                self.masked(bytes, 32)
            }
            ExprKind::HeaderLength(instance) => self.header_length(instance),
            ExprKind::SameBytes(..) | ExprKind::Bytes(..) | ExprKind::Body => {
                self.left_to_interpreter(id)?
            }
            ExprKind::Unary(op, a) => {
                let value = self.expr(a)?;
                match op {
                    UnOp::Not => {
                        let one = self.num(1);
                        self.b.ins().bxor(value, one)
                    }
                    UnOp::Complement => {
                        let value = self.b.ins().bnot(value);
                        self.masked(value, bits)
                    }
                    UnOp::Negate => {
                        let zero = self.zero(bits);
                        let value = self.b.ins().isub(zero, value);
                        self.masked(value, bits)
                    }
                }
            }
            ExprKind::Binary(op, a, b) => self.binary(id, op, a, b, bits)?,
            ExprKind::Slice { value, high, low }
                if let Some(slice) = self.slice_of_field(value, high, low) =>
            {
                slice
            }
            ExprKind::Slice { value, high, low } => {
                let (from, value) = (self.bits(value), self.expr(value)?);
                let value = self.b.ins().ushr_imm_u(value, i64::from(low));
                let value = self.resize(value, from, bits);
                if high + 1 == from { value } else { self.masked(value, high - low + 1) }
            }
            ExprKind::Concat(high, low) => {
                let (high_bits, low_bits) = (self.bits(high), self.bits(low));
                let (high, low) = (self.expr(high)?, self.expr(low)?);
                let (high, low) =
                    (self.resize(high, high_bits, bits), self.resize(low, low_bits, bits));
                let high = self.b.ins().ishl_imm_u(high, i64::from(low_bits));
                self.b.ins().bor(high, low)
            }
            ExprKind::Cast(value) => {
                let (from, value) = (self.bits(value), self.expr(value)?);
                let value = self.resize(value, from, bits);
                if bits < from { self.masked(value, bits) } else { value }
            }
            ExprKind::Mux(cond, then, otherwise) => self.mux(cond, then, otherwise, bits)?,
            ExprKind::Hash(_, operands) if self.has_bytes(&operands) => {
                self.left_to_interpreter(id)?
            }
            ExprKind::Hash(algorithm, operands) => self.hash(algorithm, &operands)?,
        })
    }

    /// Bits of a field in memory: loads no more bytes than contain them.
    fn slice_of_field(&mut self, value: ExprId, high: u32, low: u32) -> Option<Value> {
        let ExprKind::Field(instance, field) = self.program.exprs[value].kind else { return None };
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        if self.is_valid(instance) != Some(true) || self.is_synthesized(instance) || high >= bits {
            return None;
        }
        let base = self.base(instance);
        Some(self.read_run(base, bit + bits - 1 - high, high - low + 1))
    }

    /// A join of two branches: the value that each block computes is its parameter.
    fn join(&mut self, bits: u32) -> (Block, Value) {
        let join = self.b.create_block();
        let value = self.b.append_block_param(join, type_of(bits));
        (join, value)
    }

    fn mux(
        &mut self,
        cond: ExprId,
        then: ExprId,
        otherwise: ExprId,
        bits: u32,
    ) -> Result<Value, CompileError> {
        if let Some(known) = self.known(cond) {
            return self.expr(if known { then } else { otherwise });
        }
        if !self.control.must_be_lazy(then) && !self.control.must_be_lazy(otherwise) {
            let cond = self.expr(cond)?;
            let (then, otherwise) = (self.expr(then)?, self.expr(otherwise)?);
            return Ok(self.select(cond, then, otherwise, bits));
        }
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let (join, value) = self.join(bits);
        self.branch(cond, yes, no)?;
        for (block, expr) in [(yes, then), (no, otherwise)] {
            self.b.switch_to_block(block);
            let result = self.expr(expr)?;
            self.b.ins().jump(join, &[result.into()]);
        }
        self.b.switch_to_block(join);
        Ok(value)
    }

    /// Goes to one of two blocks by a condition, evaluating no more of it than needed.
    pub(super) fn branch(&mut self, id: ExprId, yes: Block, no: Block) -> Result<(), CompileError> {
        if let Some(known) = self.known(id) {
            self.b.ins().jump(if known { yes } else { no }, &[]);
            return Ok(());
        }
        match self.program.exprs[id].kind {
            ExprKind::Unary(UnOp::Not, a) => self.branch(a, no, yes),
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => {
                let more = self.b.create_block();
                self.branch(a, more, no)?;
                self.b.switch_to_block(more);
                self.branch(b, yes, no)
            }
            ExprKind::Binary(BinOp::LogicalOr, a, b) => {
                let more = self.b.create_block();
                self.branch(a, yes, more)?;
                self.b.switch_to_block(more);
                self.branch(b, yes, no)
            }
            ExprKind::Binary(op @ (BinOp::Eq | BinOp::Ne), a, b) => {
                let value = match self.raw_equality(op, a, b) {
                    Some(value) => value,
                    None => self.expr(id)?,
                };
                self.b.ins().brif(value, yes, &[], no, &[]);
                Ok(())
            }
            _ => {
                let value = self.expr(id)?;
                self.b.ins().brif(value, yes, &[], no, &[]);
                Ok(())
            }
        }
    }

    /// A field compared with a constant in memory order.
    fn raw_equality(&mut self, op: BinOp, a: ExprId, b: ExprId) -> Option<Value> {
        let value = self.known_number(b)?;
        let (field, mask) = match self.program.exprs[a].kind {
            ExprKind::Field(instance, field) => ((instance, field), u128::MAX),
            ExprKind::Slice { value: of, high, low } => match self.program.exprs[of].kind {
                ExprKind::Field(instance, field) => {
                    let mask = crate::ir::layout::ones(high - low + 1) << low;
                    return self.raw_slice(op, (instance, field), value << low, mask);
                }
                _ => return None,
            },
            ExprKind::Binary(BinOp::And, of, mask) => match self.program.exprs[of].kind {
                ExprKind::Field(instance, field) => ((instance, field), self.known_number(mask)?),
                _ => return None,
            },
            _ => return None,
        };
        if value & !mask != 0 {
            return None;
        }
        self.raw_slice(op, field, value, mask)
    }

    fn raw_slice(
        &mut self,
        op: BinOp,
        (instance, field): (InstanceId, FieldId),
        value: u128,
        mask: u128,
    ) -> Option<Value> {
        let cc = if op == BinOp::Eq { IntCC::Equal } else { IntCC::NotEqual };
        self.raw_compare(cc, instance, field, value, mask)
    }

    fn stack_last(&mut self, stack: StackId, field: FieldId, bits: u32) -> Value {
        let stack = &self.program.stacks[stack];
        let elements = (stack.first.0..stack.first.0 + stack.len).map(InstanceId);
        let mut value = self.zero(bits);
        for instance in elements {
            match self.validity(instance) {
                Validity::Known(false) => {}
                Validity::Known(true) => value = self.read_field(instance, field),
                Validity::At(valid) => {
                    let this = self.read_field(instance, field);
                    value = self.select(valid, this, value, bits);
                }
            }
        }
        value
    }

    fn header_length(&mut self, instance: InstanceId) -> Value {
        let header = &self.program.headers[self.program.instances[instance].header];
        let validity = self.validity(instance);
        if let Validity::Known(false) = validity {
            return self.num(0);
        }
        // On a path, a header with a variable part is valid only with an empty one.
        let len = if self.on_path.is_some() || header.fixed_bytes == header.max_bytes {
            self.num(header.fixed_bytes.into())
        } else {
            let slots = self.load64(self.vm, vm_offset!(slots));
            self.load64(slots, super::parser::slot_len(instance))
        };
        match validity {
            Validity::At(valid) => {
                let zero = self.num(0);
                self.b.ins().select(valid, len, zero)
            }
            Validity::Known(_) => len,
        }
    }

    fn lookahead(
        &mut self,
        id: ExprId,
        offset_bits: u32,
        bits: u32,
    ) -> Result<Value, CompileError> {
        let bytes = (offset_bits % 8 + bits).div_ceil(8) + offset_bits / 8;
        let (base, have, need) = if let Some((data, cursor, len)) = self.path_cursor() {
            let need = self.num(u64::from(cursor + bytes));
            (Base { address: data, offset: cursor as i32, before: cursor, bytes }, len, need)
        } else if self.inside_byte {
            return self.left_to_interpreter(id);
        } else {
            let cursor = self.b.use_var(self.cursor_bits);
            let at = self.b.ins().ushr_imm_u(cursor, 3);
            let need = self.b.ins().iadd_imm_s(at, i64::from(bytes));
            let data = self.load64(self.vm, vm_offset!(data));
            let address = self.b.ins().iadd(data, at);
            let have = self.load64(self.vm, vm_offset!(data_len));
            (Base { address, offset: 0, before: 0, bytes }, have, need)
        };
        let short = self.compare(IntCC::UnsignedLessThan, have, need);
        self.leave_if(short, end::REJECT | u64::from(BuiltinError::PacketTooShort.id().0));
        Ok(self.read_run(base, offset_bits, bits))
    }

    /// Whether a hash has operands of bytes: fields without a value, or the body.
    fn has_bytes(&self, operands: &[ExprId]) -> bool {
        let kinds = operands.iter().map(|operand| &self.program.exprs[*operand].kind);
        kinds.into_iter().any(|kind| matches!(kind, ExprKind::Bytes(..) | ExprKind::Body))
    }

    /// A step of the interpreter that evaluates.
    fn left_to_interpreter(&mut self, id: ExprId) -> Result<Value, CompileError> {
        if self.on_path.is_some() {
            return Err(internal("a step of the interpreter in path-specialised code"));
        }
        self.sync_out()?;
        let expr = self.num(id.0.into());
        let code = self.call(Helper::Eval, &[expr]);
        self.leave_unless_zero(code);
        let bits = self.bits(id);
        Ok(self.get_value(0, bits))
    }

    /// An unsigned field of the descriptor.
    fn of_packet(&mut self, offset: i32, bytes: u32) -> Value {
        self.load_word(self.packet, offset, bytes)
    }

    fn of_meta(&mut self, offset: i32, bytes: u32) -> Value {
        self.load_word(self.meta, offset, bytes)
    }

    fn std(&mut self, id: ExprId, field: StdField) -> Result<Value, CompileError> {
        Ok(match field {
            StdField::IngressPort => self.of_packet(descriptor!(ingress_port), 2),
            StdField::IngressLink => self.of_packet(descriptor!(ingress_link), 1),
            StdField::PacketPath => self.of_packet(descriptor!(path), 1),
            StdField::PacketLength if self.on_path.is_some() => self.packet_len(),
            StdField::PacketLength => self.of_packet(descriptor!(len), 4),
            StdField::IngressNs => self.of_packet(descriptor!(ingress_ns), 8),
            StdField::NowNs => self.of_meta(intrinsic!(now_ns), 8),
            StdField::ParserError if self.on_path.is_some() => self.num(0),
            StdField::ParserError => self.of_meta(intrinsic!(parser_error), 1),
            StdField::BodyLength => self.body_length(),
            StdField::EmitLength if self.on_path.is_some() => self.path_emit_length(),
            StdField::EmitLength => self.left_to_interpreter(id)?,
            StdField::ChecksumError => self.of_meta(intrinsic!(checksum_error), 4),
            StdField::CrcError => self.of_meta(intrinsic!(crc_error), 4),
            StdField::EgressPort => match self.decisions {
                Some(made) => self.b.use_var(made.egress_port),
                None => self.of_packet(descriptor!(egress_port), 2),
            },
            StdField::MulticastGroup => self.of_meta(intrinsic!(multicast_group), 2),
            StdField::TrafficClass => match self.decisions {
                Some(made) => self.b.use_var(made.traffic_class),
                None => self.of_packet(descriptor!(traffic_class), 1),
            },
            StdField::PriorityGroup => match self.decisions {
                Some(made) => self.b.use_var(made.priority_group),
                None => self.of_packet(descriptor!(priority_group), 1),
            },
            StdField::Ect => {
                let all = self.packet_flags();
                self.b.ins().band_imm_u(all, i64::from(packet_flags::ECT))
            }
            StdField::Color => {
                let all = self.packet_flags();
                let down = self.b.ins().ushr_imm_u(all, i64::from(packet_flags::COLOR_SHIFT));
                self.b.ins().band_imm_u(down, 3)
            }
            StdField::NotBeforeNs => self.of_meta(intrinsic!(not_before_ns), 8),
            StdField::HoldPackets => self.of_meta(intrinsic!(hold_packets), 2),
            StdField::HoldTimeoutNs => self.of_meta(intrinsic!(hold_timeout_ns), 8),
            StdField::Instance => self.of_packet(descriptor!(instance), 2),
            StdField::CongestionMark => self.of_meta(intrinsic!(congestion_mark), 1),
            StdField::Trimmed => {
                let group = self.of_packet(descriptor!(priority_group), 1);
                self.b.ins().ushr_imm_u(group, i64::from(TRIMMED.trailing_zeros()))
            }
            StdField::EnqueueNs => self.of_meta(intrinsic!(enqueue_ns), 8),
            StdField::DequeueNs => self.of_meta(intrinsic!(dequeue_ns), 8),
            StdField::EnqueueDepthBytes => self.of_meta(intrinsic!(enqueue_depth_bytes), 4),
            StdField::DequeueDepthBytes => self.of_meta(intrinsic!(dequeue_depth_bytes), 4),
            StdField::EnqueueDepthPackets => self.of_meta(intrinsic!(enqueue_depth_packets), 2),
            StdField::DequeueDepthPackets => self.of_meta(intrinsic!(dequeue_depth_packets), 2),
        })
    }

    fn body_length(&mut self) -> Value {
        if self.on_path.is_some() {
            return self.path_body_length();
        }
        let start = self.load_word(self.vm, scalar_offset!(body_start), 4);
        let stop = self.load_word(self.vm, scalar_offset!(body_end), 4);
        let len = self.b.ins().isub(stop, start);
        self.masked(len, 32)
    }

    fn packet_flags(&mut self) -> Value {
        match self.decisions {
            Some(made) => self.b.use_var(made.flags),
            None => self.of_packet(descriptor!(flags), 1),
        }
    }

    /// Assigns intrinsic metadata.
    pub(super) fn assign_std(&mut self, field: StdField, value: Value) {
        let (packet, meta) = (self.packet, self.meta);
        match field {
            StdField::EgressPort => match self.decisions {
                Some(made) => self.b.def_var(made.egress_port, value),
                None => self.store_word(value, packet, descriptor!(egress_port), 2),
            },
            StdField::MulticastGroup => {
                self.store_word(value, meta, intrinsic!(multicast_group), 2)
            }
            StdField::TrafficClass => {
                match self.decisions {
                    Some(made) => self.b.def_var(made.traffic_class, value),
                    None => self.store_word(value, packet, descriptor!(traffic_class), 1),
                }
                self.change_flags(!0, packet_flags::CLASS_ASSIGNED.into(), None);
            }
            StdField::PriorityGroup => {
                match self.decisions {
                    Some(made) => self.b.def_var(made.priority_group, value),
                    None => self.store_word(value, packet, descriptor!(priority_group), 1),
                }
                self.change_flags(!0, packet_flags::GROUP_ASSIGNED.into(), None);
            }
            StdField::Ect => {
                let one = self.b.ins().band_imm_u(value, 1);
                self.change_flags(!u64::from(packet_flags::ECT), 0, Some(one));
            }
            StdField::Color => {
                let shift = packet_flags::COLOR_SHIFT;
                let two = self.b.ins().band_imm_u(value, 3);
                let two = self.b.ins().ishl_imm_u(two, i64::from(shift));
                self.change_flags(!(3 << shift), 0, Some(two));
            }
            StdField::NotBeforeNs => {
                self.store_word(value, meta, intrinsic!(not_before_ns), 8);
                let delayed = self.b.ins().icmp_imm_u(IntCC::NotEqual, value, 0);
                let delayed = self.b.ins().uextend(I64, delayed);
                self.store_word(delayed, meta, intrinsic!(delayed), 2);
            }
            StdField::HoldPackets => self.store_word(value, meta, intrinsic!(hold_packets), 2),
            StdField::HoldTimeoutNs => self.store_word(value, meta, intrinsic!(hold_timeout_ns), 8),
            // Nothing else is writable; the verifier refuses it.
            _ => {}
        }
    }

    /// `flags = flags & keep | set | more`.
    pub(super) fn change_flags(&mut self, keep: u64, set: u64, more: Option<Value>) {
        let packet = self.packet;
        let mut value = self.packet_flags();
        if keep != !0 {
            value = self.b.ins().band_imm_u(value, (keep & 0xff) as i64);
        }
        if set != 0 {
            value = self.b.ins().bor_imm_u(value, set as i64);
        }
        if let Some(more) = more {
            value = self.b.ins().bor(value, more);
        }
        match self.decisions {
            Some(made) => self.b.def_var(made.flags, value),
            None => self.store_word(value, packet, descriptor!(flags), 1),
        }
    }

    /// Stores a word to the context.
    pub(super) fn store_vm(&mut self, value: Value, offset: i32) {
        let vm = self.vm;
        self.b.ins().store(flags(), value, vm, offset);
    }
}
