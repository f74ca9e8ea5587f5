//! Path-specialised code: one copy of the control for each planned path through the parser.
//!
//! On a path the valid headers and their offsets are constant, so fields are loads and stores at constant offsets of
//! the packet, conditions on validity fold away, and a packet whose headers stay where they are is never deparsed; see
//! [`super::header_edits`] for those that do not. Rare cases run generic code, before any effect: shared or foreign
//! packet memory, parser errors, headers that are extracted twice, carried metadata that was not written, variable
//! parts that are not empty, headers that are emitted in another order than extracted, wrong checksums, too little
//! headroom.
//!
//! A dropped packet keeps what was written to it before the drop.

use super::{CompileError, Emit, descriptor, internal, vm_offset};
use crate::exec::PacketPath;
use crate::ir::{Op, Transition};
use crate::jit::plan::{EgressCopy, EmptyPart, Extract, Leaf, Path, Step, Visit, Way};
use crate::phv::bit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};

/// The packet of path-specialised code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// First byte.
    pub(super) data: Value,
    /// Bytes, 64 bits.
    pub(super) len: Value,
}

/// A packet, and the facts about it at the current point of generation.
#[derive(Clone, Debug)]
pub(super) struct OnPath {
    pub(super) packet: Packet,
    pub(super) path: Path,
}

/// Blocks of the loop over a burst.
#[derive(Clone, Copy)]
pub(super) struct Loop {
    /// The next packet.
    pub(super) next: Block,
    /// This packet runs generic code.
    pub(super) bail: Block,
}

impl Emit<'_> {
    /// The rest of a path.
    pub(super) fn way(
        &mut self,
        way: &Way,
        packet: Packet,
        around: Loop,
    ) -> Result<(), CompileError> {
        match way {
            Way::State(visit) => self.visit(visit, packet, around),
            Way::Leaf(leaf) => self.leaf(leaf, packet, around),
            Way::Detour(_) => {
                self.leave(0);
                Ok(())
            }
        }
    }

    /// A state on a path, and all code after it.
    fn visit(&mut self, visit: &Visit, packet: Packet, around: Loop) -> Result<(), CompileError> {
        let state = &self.program.parser.states[visit.state];
        self.on_path = Some(OnPath { packet, path: visit.path.clone() });
        self.at(state.span);
        for step in &visit.steps {
            self.spend(1)?;
            match step {
                Step::Extract(extract) => self.extract_on_path(extract)?,
                Step::Set(to, value) => {
                    let value = self.expr(*value)?;
                    self.assign(to, value)?;
                }
                Step::Verify(condition, after) => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.b.set_cold_block(no);
                    self.branch(*condition, yes, no)?;
                    self.b.switch_to_block(no);
                    self.leave(0);
                    self.b.switch_to_block(yes);
                    self.path_mut()?.clone_from(after);
                }
            }
        }
        let Ok(next) = &visit.next else {
            self.leave(0);
            return Ok(());
        };
        self.path_mut()?.clone_from(&visit.after);
        self.next_ways(&state.next, next, packet, around)
    }

    fn next_ways(
        &mut self,
        transition: &Transition,
        next: &[Way],
        packet: Packet,
        around: Loop,
    ) -> Result<(), CompileError> {
        self.transition(transition, &mut |emit, n, _| match next.get(n) {
            Some(way) => emit.way(way, packet, around),
            None => Err(internal("a target that is not in the plan")),
        })
    }

    pub(super) fn path_mut(&mut self) -> Result<&mut Path, CompileError> {
        self.on_path.as_mut().map(|on| &mut on.path).ok_or_else(|| internal("code without a path"))
    }

    /// A header at the cursor; one with a variable part that is not empty runs generic code.
    fn extract_on_path(&mut self, extract: &Extract) -> Result<(), CompileError> {
        if let Some(bytes) = extract.need_bytes {
            self.must_have(bytes);
        }
        self.path_mut()?.clone_from(&extract.after);
        match extract.empty {
            EmptyPart::Known => {}
            EmptyPart::Field(field, value) => {
                let wrong = self.field_is_not(extract.instance, field, value);
                self.leave_if(wrong, 0);
            }
            // The expression may read the length so far, which is that of the fixed part.
            EmptyPart::Length(variable) => {
                let bits = self.expr(variable)?;
                let (bits, _) = self.words(bits, self.bits(variable));
                self.leave_if(bits, 0);
            }
        }
        Ok(())
    }

    /// Egress: by the headers that ingress left.
    pub(super) fn resume(
        &mut self,
        copies: &[EgressCopy],
        start: Packet,
        around: Loop,
    ) -> Result<(), CompileError> {
        let mask = self.load64(self.packet, descriptor!(valid));
        let body_off = self.load_word(self.packet, descriptor!(body_off), 2);
        let body_len = self.load_word(self.packet, descriptor!(body_len), 4);
        let stop = self.b.ins().iadd(body_off, body_len);
        let slack = self.compare(IntCC::NotEqual, stop, start.len);
        self.leave_if(slack, 0);
        let no_headers = copies.iter().any(|copy| copy.valid == 0);
        if no_headers && self.program.uses(|op| matches!(op, Op::Clone(_))) {
            // A copy that must be parsed looks like a packet without headers.
            let how = self.load_word(self.packet, descriptor!(path), 1);
            let copy = i64::from(PacketPath::CloneIngress as u8);
            let unparsed = self.b.ins().icmp_imm_u(IntCC::Equal, how, copy);
            self.leave_if(unparsed, 0);
        }
        let mut switch = Switch::new();
        let mut blocks = Vec::new();
        for copy in copies {
            let block = self.b.create_block();
            switch.set_entry(u128::from(copy.valid), block);
            blocks.push((copy, block));
        }
        let other = self.b.create_block();
        self.b.set_cold_block(other);
        switch.emit(&mut self.b, mask, other);
        self.b.switch_to_block(other);
        self.leave(0);
        for (copy, block) in blocks {
            self.b.switch_to_block(block);
            let headers_value = self.num(self.control.emitted_bytes(copy.valid).into());
            let other = self.compare(IntCC::NotEqual, body_off, headers_value);
            self.leave_if(other, 0);
            self.carried_in();
            self.egress_copy(copy, start, around)?;
        }
        Ok(())
    }

    /// Egress of packets with one set of headers.
    pub(super) fn egress_copy(
        &mut self,
        copy: &EgressCopy,
        packet: Packet,
        around: Loop,
    ) -> Result<(), CompileError> {
        for extract in &copy.extracts {
            self.on_path = Some(OnPath { packet, path: extract.after.clone() });
            self.extract_on_path(extract)?;
        }
        self.way(&copy.end, packet, around)
    }

    /// The end of a path: checksums, the control, the verdict.
    fn leaf(&mut self, leaf: &Leaf, packet: Packet, around: Loop) -> Result<(), CompileError> {
        let Ok(code) = &leaf.code else {
            self.leave(0);
            return Ok(());
        };
        let (program, bail) = (self.program, self.fail);
        self.on_path = Some(OnPath { packet, path: leaf.path.clone() });
        if let Some(bytes) = code.need_bytes {
            self.must_have(bytes);
        }
        self.must_have_room(code.headroom_bytes);
        let valid = self.num(leaf.path.valid);
        code.verified.iter().for_each(|sum| self.verify_checksum(sum));
        self.follow(&code.followed);
        if self.control.changes != 0 {
            self.synthesize(&code.synthesized);
            self.b.def_var(self.valid, valid);
            self.phv = self.load64(self.vm, vm_offset!(phv_bytes));
        }
        let (done, fail) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(fail, I64);
        self.fail = fail;
        let locals = std::mem::take(&mut self.locals);
        let body = program.control(self.control.half);
        self.body(body, &[], done)?;
        self.conclude(done, fail, around, (leaf, &code.tails))?;
        // The parser continues with other paths, on which they may come with the packet.
        self.synthesized.clear();
        self.followed.clear();
        self.locals = locals;
        self.fail = bail;
        Ok(())
    }

    /// Runs generic code for a packet that has fewer bytes.
    fn must_have(&mut self, bytes: u32) {
        let Some(len) = self.on_path.as_ref().map(|on| on.packet.len) else { return };
        let need = self.num(bytes.into());
        let short = self.compare(IntCC::UnsignedLessThan, len, need);
        self.leave_if(short, 0);
    }

    /// Data, cursor and length for a lookahead.
    pub(super) fn path_cursor(&mut self) -> Option<(Value, u32, Value)> {
        let on = self.on_path.as_ref()?;
        Some((on.packet.data, on.path.cursor, on.packet.len))
    }

    pub(super) fn path_body_length(&mut self) -> Value {
        let Some((_, headers, len)) = self.path_cursor() else { return self.num(0) };
        self.b.ins().iadd_imm_s(len, -i64::from(headers))
    }

    /// Length of the valid headers and the body.
    pub(super) fn path_emit_length(&mut self) -> Value {
        let Some(OnPath { packet, path }) = self.on_path.clone() else { return self.num(0) };
        let mut len = packet.len;
        if path.mutable == 0 {
            return len;
        }
        let program = self.program;
        let emitted = program.deparser.emit.iter();
        let stays = emitted.clone().filter(|i| path.is_valid(**i) == Some(true));
        let stays: u32 = stays.map(|i| self.control.emitted_bytes(bit(*i))).sum();
        len = self.b.ins().iadd_imm_s(len, i64::from(stays) - i64::from(path.cursor));
        for instance in emitted.filter(|i| path.is_valid(**i).is_none()) {
            let bytes = self.control.emitted_bytes(bit(*instance));
            let there = self.valid_bit(*instance);
            let bytes = self.b.ins().imul_imm_u(there, i64::from(bytes));
            len = self.b.ins().iadd(len, bytes);
        }
        len
    }

    /// The variable of a sum.
    pub(super) fn word_variable(&mut self, value: Value) -> Variable {
        let var = self.b.declare_var(I64);
        self.b.def_var(var, value);
        var
    }
}
