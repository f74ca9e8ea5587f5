//! Headers that come and go in place.
//!
//! On a path, a header that came with the packet stays where it is in memory, valid or not; one that the
//! control adds is made in registers ([`super::made`]) or in the worker's header vector. Which of them are valid in the end depends on the
//! way through the control, so validity of those that may change ([`Emit::mutable`]) is a variable. For
//! every set of valid headers that the control may leave there is one tail, in which all is constant
//! again: it computes new checksums and moves what is not in its place. What is moved is loaded before
//! anything is stored, so the order of moves does not matter. The body never moves: headers grow into the
//! headroom and shrink away from it.

use super::path::InPlace;
use super::{Emit, Refused, descriptor, flags, narrow_type};
use crate::ids::*;
use crate::interp::phv::bit;
use crate::ir::{BinOp, Body, Checksum, ExprKind, Op, Program, Term, UnOp};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Most sets of valid headers that a control may leave on a path.
const TAILS_MAX: usize = 8;
/// Most steps to find them.
const STEPS_MAX: u32 = 2000;

/// The ways through a control, as far as validity goes.
struct Ways<'p> {
    program: &'p Program,
    /// Masks at the end of a pass that does not drop.
    ends: Vec<u64>,
    left: u32,
}

fn note(masks: &mut Vec<u64>, mask: u64) {
    if !masks.contains(&mask) {
        masks.push(mask);
    }
}

/// Sets of valid headers that a control may leave of one that it finds; `None` when there are too many.
pub(super) fn masks_left(program: &Program, egress: bool, valid: u64) -> Option<Vec<u64>> {
    let mut ways = Ways { program, ends: Vec::new(), left: STEPS_MAX };
    let body = if egress { &program.egress } else { &program.ingress };
    for mask in ways.body(body, valid)? {
        note(&mut ways.ends, mask);
    }
    (ways.ends.len() <= TAILS_MAX).then_some(ways.ends)
}

impl Ways<'_> {
    /// Masks with which a body returns.
    fn body(&mut self, body: &Body, valid: u64) -> Option<Vec<u64>> {
        let mut returned = Vec::new();
        let mut todo = vec![(BlockId(0), valid)];
        let mut seen = Vec::new();
        if body.blocks.is_empty() {
            return Some(vec![valid]);
        }
        while let Some((id, valid)) = todo.pop() {
            if seen.contains(&(id, valid)) {
                continue;
            }
            seen.push((id, valid));
            self.left = self.left.checked_sub(1)?;
            let Some(block) = body.blocks.get(id) else {
                note(&mut returned, valid);
                continue;
            };
            let mut masks = vec![valid];
            for op in &block.ops {
                masks = self.op(&op.op, masks)?;
            }
            for mask in masks {
                self.term(&block.term, mask, &mut todo, &mut returned)?;
            }
        }
        Some(returned)
    }

    fn op(&mut self, op: &Op, mut masks: Vec<u64>) -> Option<Vec<u64>> {
        match op {
            Op::SetValid(instance) => masks.iter_mut().for_each(|mask| *mask |= bit(*instance)),
            Op::SetInvalid(instance) => masks.iter_mut().for_each(|mask| *mask &= !bit(*instance)),
            Op::Call(action, _) => {
                let mut after = Vec::new();
                for mask in masks {
                    let program = self.program;
                    for mask in self.body(&program.actions[*action].body, mask)? {
                        note(&mut after, mask);
                    }
                }
                masks = after;
            }
            _ => {}
        }
        Some(masks)
    }

    fn term(
        &mut self,
        term: &Term,
        valid: u64,
        todo: &mut Vec<(BlockId, u64)>,
        returned: &mut Vec<u64>,
    ) -> Option<()> {
        match term {
            Term::Jump(to) => todo.push((*to, valid)),
            Term::Branch { cond, then, otherwise } => {
                let known = self.known(*cond, valid);
                if known != Some(false) {
                    todo.push((*then, valid));
                }
                if known != Some(true) {
                    todo.push((*otherwise, valid));
                }
            }
            Term::Apply { table, by_action, hit, miss } => {
                let program = self.program;
                let declared = &program.tables[*table];
                // An action that does not exist does nothing.
                let mut after = vec![(None, valid)];
                for action in declared.actions.iter().chain([&declared.default.action]) {
                    for mask in self.body(&program.actions[*action].body, valid)? {
                        after.push((Some(*action), mask));
                    }
                }
                for (action, mask) in after {
                    match by_action.iter().find(|(known, _)| Some(*known) == action) {
                        Some((_, to)) => todo.push((*to, mask)),
                        None => todo.extend([(*hit, mask), (*miss, mask)]),
                    }
                }
            }
            Term::Return => note(returned, valid),
            Term::Exit | Term::Punt(_) => note(&mut self.ends, valid),
            Term::Drop(_) => {}
            Term::Switch { .. } => todo.extend(term.successors().into_iter().map(|to| (to, valid))),
        }
        Some(())
    }

    fn known(&self, id: ExprId, valid: u64) -> Option<bool> {
        match &self.program.exprs[id].kind {
            ExprKind::Const(value) => Some(*value == 1),
            ExprKind::Valid(instance) => Some(valid & bit(*instance) != 0),
            ExprKind::Unary(UnOp::Not, a) => Some(!self.known(*a, valid)?),
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => {
                match (self.known(*a, valid), self.known(*b, valid)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
            ExprKind::Binary(BinOp::LogicalOr, a, b) => {
                match (self.known(*a, valid), self.known(*b, valid)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Emit<'_> {
    fn fixed_bytes(&self, instance: InstanceId) -> u32 {
        self.program.headers[self.program.instances[instance].header].fixed_bytes
    }

    /// Those of these headers that leave; a header may be discarded.
    pub(super) fn leaving(&self, valid: u64) -> u64 {
        let emitted = self.program.deparser.emit.iter();
        valid & emitted.fold(0, |mask, instance| mask | bit(*instance))
    }

    /// Bytes of the headers that leave with this mask.
    pub(super) fn emitted_bytes(&self, valid: u64) -> u32 {
        let emitted = self.program.deparser.emit.iter().filter(|i| valid & bit(**i) != 0);
        emitted.map(|instance| self.fixed_bytes(*instance)).sum()
    }

    /// Adds or removes a header; `None` where the control is not known to.
    pub(super) fn change_header(&mut self, instance: InstanceId, add: bool) -> Result<(), Refused> {
        if self.mutable & bit(instance) == 0 {
            return Err(Refused::TooLarge);
        }
        let known = self.sure.of(instance);
        self.sure.set(instance, add);
        if known == Some(add) {
            return Ok(());
        }
        let valid = self.b.use_var(self.valid);
        let this = self.num(bit(instance));
        if !add {
            let rest = self.b.ins().band_not(valid, this);
            self.b.def_var(self.valid, rest);
            return Ok(());
        }
        if known == Some(false) {
            self.clear_header(instance, true);
            let more = self.b.ins().bor(valid, this);
            self.b.def_var(self.valid, more);
            return Ok(());
        }
        let (make, done) = (self.b.create_block(), self.b.create_block());
        let there = self.b.ins().band(valid, this);
        self.b.ins().brif(there, done, &[], make, &[]);
        self.b.switch_to_block(make);
        self.clear_header(instance, false);
        let more = self.b.ins().bor(valid, this);
        self.b.def_var(self.valid, more);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// All bits of a header to zero; `here` says that they are so in what is generated next.
    fn clear_header(&mut self, instance: InstanceId, here: bool) {
        if self.is_made(instance) {
            return self.clear_made(instance, here);
        }
        let (base, bytes, zero) = (self.base(instance), self.fixed_bytes(instance), self.num(0));
        let mut at = 0;
        while at < bytes {
            let step = [8, 4, 2].into_iter().find(|step| at + step <= bytes).unwrap_or(1);
            self.store_word(zero, base.address, base.offset + at as i32, step);
            at += step;
        }
    }

    /// Leaves packets to the other code whose headroom may not be enough.
    pub(super) fn must_have_room(&mut self, path: &InPlace, left: &[u64]) {
        let most = left.iter().map(|mask| self.emitted_bytes(*mask)).max().unwrap_or(0);
        let grows = most.saturating_sub(path.cursor);
        if grows > 0 {
            let off = self.load_word(self.packet, descriptor!(data_off), 2);
            let small = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, off, i64::from(grows));
            self.leave_if(small, 0);
        }
    }

    /// Checksums in full of headers that the control made; the mask of the path is that of a tail.
    pub(super) fn new_checksums(&mut self, received: u64) -> Result<(), Refused> {
        let program = self.program;
        for checksum in program.checksums.iter() {
            let owner = checksum.field.0;
            let valid = self.path()?.valid;
            let due = match checksum.update {
                crate::ir::Update::Incremental => valid & !received & bit(owner) != 0,
                crate::ir::Update::Always if self.egress && valid & bit(owner) != 0 => {
                    return Err(Refused::TooLarge);
                }
                _ => false,
            };
            if !due {
                continue;
            }
            match checksum.when.map(|when| self.known(when)) {
                Some(Some(false)) => continue,
                Some(None) => return Err(Refused::TooLarge),
                Some(Some(true)) | None => {}
            }
            if self.written.contains(&checksum.field) {
                return Err(Refused::TooLarge);
            }
            let parts = self.covered(checksum)?;
            let own = match self.field_layout(owner, checksum.field.1) {
                crate::ir::FieldLayout::Run { bit, bits: 16 } if bit.is_multiple_of(16) => bit / 8,
                _ => return Err(Refused::TooLarge),
            };
            self.new_checksum(checksum, &parts, own)?;
        }
        Ok(())
    }

    /// A checksum in full, whose field at byte `own` of its header is zero or not added. What is in memory
    /// is summed as the processor loads it, which is the swapped sum: eight bits further up, it is the
    /// other one again (RFC 1071 section 2).
    fn new_checksum(
        &mut self,
        checksum: &Checksum,
        parts: &[Option<(InstanceId, u32)>],
        own: u32,
    ) -> Result<(), Refused> {
        let (owner, field) = checksum.field;
        let (mut sum, mut loaded) = (self.num(0), self.num(0));
        for part in parts {
            let Some((instance, len)) = *part else { return Err(Refused::TooLarge) };
            if let Some(more) = self.sum_made(instance, len) {
                sum = self.b.ins().iadd(sum, more);
                continue;
            }
            let base = self.base(instance);
            for at in (0..len).step_by(2).filter(|at| instance != owner || *at != own) {
                let word = self.load_word(base.address, base.offset + at as i32, 2);
                loaded = self.b.ins().iadd(loaded, word);
            }
        }
        let loaded = self.b.ins().ishl_imm_u(loaded, 8);
        let sum = self.b.ins().iadd(sum, loaded);
        let (low, high) = (self.masked(sum, 32), self.b.ins().ushr_imm_u(sum, 32));
        let sum = self.b.ins().iadd(low, high);
        let sum = self.fold16(sum, 3);
        let value = self.b.ins().bxor_imm_u(sum, 0xffff);
        let value = match checksum.zero_means_none {
            true => {
                let ones = self.num(0xffff);
                self.b.ins().select(value, value, ones)
            }
            false => value,
        };
        if !self.write_made(owner, field, value) {
            let base = self.base(owner);
            self.store_be(base, own, 2, value);
        }
        Ok(())
    }

    /// Moves headers to where they leave, and tells the descriptor; the mask of the path is that of a
    /// tail.
    pub(super) fn put_together(&mut self) -> Result<(), Refused> {
        let path = self.path()?.clone();
        let total = self.emitted_bytes(path.valid);
        let start = path.cursor as i32 - total as i32;
        let mut moves: Vec<(Value, i32, u32)> = Vec::new();
        let mut to = start;
        for instance in &self.program.deparser.emit {
            if path.valid & bit(*instance) == 0 {
                continue;
            }
            let (base, bytes) = (self.base(*instance), self.fixed_bytes(*instance));
            if let Some(stores) = self.bytes_of_made(*instance, bytes) {
                moves.extend(stores.into_iter().map(|(word, at, step)| (word, to + at, step)));
                to += bytes as i32;
                continue;
            }
            let stays = path.received & bit(*instance) != 0 && base.offset == to;
            let mut at = 0;
            while !stays && at < bytes {
                let step = [8, 4, 2].into_iter().find(|step| at + step <= bytes).unwrap_or(1);
                let ty = narrow_type(step);
                let word = self.b.ins().load(ty, flags(), base.address, base.offset + at as i32);
                moves.push((word, to + at as i32, step));
                at += step;
            }
            to += bytes as i32;
        }
        for (word, at, _) in moves {
            self.b.ins().store(flags(), word, path.data, at);
        }
        if start != 0 {
            let packet = self.packet;
            let off = self.load_word(packet, descriptor!(data_off), 2);
            let off = self.b.ins().iadd_imm_s(off, i64::from(start));
            self.store_word(off, packet, descriptor!(data_off), 2);
            let len = self.b.ins().iadd_imm_s(path.len, -i64::from(start));
            self.store_word(len, packet, descriptor!(len), 4);
        }
        Ok(())
    }
}
