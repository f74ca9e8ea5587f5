//! Controls and actions: blocks, terminators, assignments.

use super::{Budget, CompileError, Emit};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::ir::layout::ones;
use crate::ir::{Body, LValue, Term};
use crate::jit::error::LOCALS_MAX;
use crate::jit::plan::validity::{self, KnownValidity};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

impl Emit<'_> {
    /// The known validity: on a path, of the headers that the control adds or removes.
    pub(super) fn validity_known(&self) -> KnownValidity {
        self.on_path.as_ref().map_or(self.known_validity, |on| on.path.validity)
    }

    pub(super) fn set_validity_known(&mut self, validity: KnownValidity) {
        match &mut self.on_path {
            Some(on) => on.path.validity = validity,
            None => self.known_validity = validity,
        }
    }

    /// Code of a body whose first locals have these values; goes to `done` at its end.
    pub(super) fn body(
        &mut self,
        body: &Body,
        args: &[Value],
        done: Block,
    ) -> Result<(), CompileError> {
        self.spend(1)?;
        if body.locals.len() > LOCALS_MAX {
            return Err(Budget::Declared.into());
        }
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
        let changes = self.on_path.as_ref().is_none_or(|on| on.path.mutable != 0);
        let flow = changes.then(|| validity::flow(self.program, body, self.validity_known()));
        for (id, block) in body.blocks.entries() {
            self.b.switch_to_block(blocks[id.index()]);
            if let Some(flow) = &flow {
                // A block without known validity is never reached.
                self.set_validity_known(flow.blocks[id.index()].unwrap_or_default());
                self.invalidate_clean();
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
            self.set_validity_known(flow.returns.unwrap_or_default());
            self.invalidate_clean();
        }
        Ok(())
    }

    fn term(&mut self, term: &Term, blocks: &[Block], done: Block) -> Result<(), CompileError> {
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
    pub(super) fn assign(&mut self, to: &LValue, value: Value) -> Result<(), CompileError> {
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
            // The callers leave these to the interpreter.
            LValue::Element { .. } => {}
        }
        Ok(())
    }
}
