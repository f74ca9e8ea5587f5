//! Controls and actions: blocks, terminators, assignments.

use super::{Emit, Refused, sure};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::ir::layout::ones;
use crate::ir::{Body, LValue, Term};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

impl Emit<'_> {
    /// Code of a body whose first locals have these values; goes to `done` at its end.
    pub(super) fn body(&mut self, body: &Body, args: &[Value], done: Block) -> Result<(), Refused> {
        self.spend(1)?;
        let zero = self.num(0);
        let mut locals = Vec::with_capacity(body.locals.len());
        for (n, local) in body.locals.iter().enumerate() {
            let (var, bits) = self.new_local(local.bits, zero);
            if let Some(value) = args.get(n) {
                self.b.def_var(var, *value);
            }
            locals.push((var, bits));
        }
        let outer = std::mem::replace(&mut self.locals, locals);
        let blocks: Vec<Block> = body.blocks.iter().map(|_| self.b.create_block()).collect();
        let first = blocks.first().copied().unwrap_or(done);
        self.b.ins().jump(first, &[]);
        let flow = (self.mutable != 0).then(|| sure::flow(self.program, body, self.sure));
        for (id, block) in body.blocks.entries() {
            self.b.switch_to_block(blocks[id.index()]);
            if let Some(flow) = &flow {
                // Nothing reaches a block of which nothing is known: it may say what it likes.
                self.sure = flow.blocks[id.index()].unwrap_or_default();
                self.forget_clean();
            }
            for op in &block.ops {
                self.at(op.span);
                self.op(&op.op)?;
            }
            self.at(block.span);
            self.term(&block.term, &blocks, done)?;
        }
        self.locals = outer;
        if let Some(flow) = flow {
            self.sure = flow.returns.unwrap_or_default();
            self.forget_clean();
        }
        Ok(())
    }

    fn term(&mut self, term: &Term, blocks: &[Block], done: Block) -> Result<(), Refused> {
        let block = |id: BlockId| blocks.get(id.index()).copied().unwrap_or(done);
        match term {
            Term::Jump(to) => {
                self.b.ins().jump(block(*to), &[]);
            }
            Term::Branch { cond, then, otherwise } => {
                self.branch(*cond, block(*then), block(*otherwise))?;
            }
            Term::Switch { value, cases, default } => {
                let (bits, value) = (self.bits(*value), self.expr(*value)?);
                for (known, to) in cases {
                    if *known > ones(bits) {
                        continue;
                    }
                    let known = self.constant(*known, bits);
                    let same = self.compare(IntCC::Equal, value, known);
                    let other = self.b.create_block();
                    self.b.ins().brif(same, block(*to), &[], other, &[]);
                    self.b.switch_to_block(other);
                }
                self.b.ins().jump(block(*default), &[]);
            }
            Term::Apply { table, by_action, hit, miss } => {
                let by_action: Vec<(ActionId, Block)> =
                    by_action.iter().map(|(action, to)| (*action, block(*to))).collect();
                self.apply(*table, &by_action, block(*hit), block(*miss))?;
            }
            Term::Return => {
                self.b.ins().jump(done, &[]);
            }
            Term::Exit => self.leave(end::EXIT),
            Term::Drop(reason) => self.leave(end::DROP | u64::from(reason.0)),
            Term::Punt(reason) => self.leave(end::PUNT | u64::from(reason.0)),
        }
        Ok(())
    }

    /// Assigns a value of the right width.
    pub(super) fn assign(&mut self, to: &LValue, value: Value) -> Result<(), Refused> {
        match to {
            LValue::Field(instance, field) => self.assign_field(*instance, *field, value)?,
            LValue::FieldSlice { instance, field, high, low } => {
                let bits = self.field_bits(*instance, *field);
                let width = high - low + 1;
                let hole = self.constant(!(ones(width) << low) & ones(bits), bits);
                let old = self.field(*instance, *field);
                let kept = self.b.ins().band(old, hole);
                let part = self.resize(value, width, bits);
                let part = self.b.ins().ishl_imm_u(part, i64::from(*low));
                let new = self.b.ins().bor(kept, part);
                self.assign_field(*instance, *field, new)?;
            }
            LValue::Meta(meta) => {
                let (var, _) = self.metas[meta.index()];
                self.b.def_var(var, value);
            }
            LValue::Local(local) => {
                let (var, _) = self.locals[local.index()];
                self.b.def_var(var, value);
            }
            LValue::Std(field) => self.assign_std(*field, value),
            // The callers leave it to the interpreter.
            LValue::Element { .. } => {}
        }
        Ok(())
    }
}
