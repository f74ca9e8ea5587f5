//! Operations with an effect: header validity, registers, clones, digests, externs.

use super::pass::{End, Pass};
use crate::exec::CLONES_MAX;
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::{FieldLayout, LValue, Op, SourceSpan};
use crate::phv::bit;
use crate::trace::Event;

impl Pass<'_> {
    pub(super) fn change_headers(&mut self, op: &Op) {
        let program = self.program;
        let fixed = |i: InstanceId| program.headers[program.instances[i].header].fixed_bytes;
        match op {
            Op::SetValid(instance) if !self.scratch.phv.is_valid(*instance) => {
                self.scratch.phv.set_zero(*instance, fixed(*instance));
                self.made_new(*instance);
            }
            Op::SetInvalid(instance) => {
                self.scratch.phv.valid &= !bit(*instance);
                self.made_new(*instance);
            }
            Op::CopyHeader { to, from } => {
                self.scratch.phv.copy(*to, *from);
                self.made_new(*to);
            }
            Op::CopyBytes { to, from } => {
                let given = self.bytes_of(*from).len();
                let at = |layout: &FieldLayout| match *layout {
                    FieldLayout::Variable { byte, .. } | FieldLayout::Opaque { byte, .. } => byte,
                    _ => 0,
                };
                let (len, ends) = match *self.layout(to.0, to.1) {
                    FieldLayout::Opaque { bytes, .. } => (bytes as usize, false),
                    _ => (given, true),
                };
                let places = (at(self.layout(to.0, to.1)), at(self.layout(from.0, from.1)));
                let (to, from) = ((to.0, places.0 as usize), (from.0, places.1 as usize));
                self.scratch.phv.copy_part(to, from, (given, len), ends);
            }
            Op::PushFront(stack, count) => {
                let count = *count as usize;
                for (to, from) in self.stack(*stack).rev().zip(self.stack(*stack).rev().skip(count))
                {
                    self.scratch.phv.copy(to, from);
                }
                for instance in self.stack(*stack).take(count) {
                    self.scratch.phv.clear(instance);
                }
                self.stack(*stack).for_each(|instance| self.made_new(instance));
            }
            Op::PopFront(stack, count) => {
                let count = *count as usize;
                for (to, from) in self.stack(*stack).zip(self.stack(*stack).skip(count)) {
                    self.scratch.phv.copy(to, from);
                }
                for instance in self.stack(*stack).rev().take(count) {
                    self.scratch.phv.clear(instance);
                }
                self.stack(*stack).for_each(|instance| self.made_new(instance));
            }
            _ => {}
        }
        self.trace(|pass| Event::Headers { valid: pass.scratch.phv.valid });
    }

    pub(super) fn register_load(
        &mut self,
        register: RegisterId,
        index: ExprId,
        first: LocalId,
        locked: bool,
    ) -> Result<(), End> {
        let index = u64::try_from(self.eval(index)?).unwrap_or(u64::MAX);
        // Updates do not nest (the verifier checks it); if they did, the outer lock would be enough.
        if locked && !self.scalars.is_locked() {
            self.scalars.hold(self.state.lock(register, index));
        }
        if let Some(array) = self.state.register(register) {
            for cell in 0..array.cells() {
                let value = array.load(index, cell).unwrap_or(0);
                self.scratch.phv.locals[self.base + first.index() + cell] = value.into();
            }
            self.trace(|pass| {
                let at = pass.base + first.index();
                let cells = pass.scratch.phv.locals[at..at + array.cells()].to_vec();
                Event::RegisterLoad { register, index, cells }
            });
        }
        Ok(())
    }

    pub(super) fn register_store(
        &mut self,
        register: RegisterId,
        index: ExprId,
        first: LocalId,
        cells: &[u32],
        locked: bool,
    ) -> Result<(), End> {
        let index = u64::try_from(self.eval(index)?).unwrap_or(u64::MAX);
        for cell in cells {
            let value = self.scratch.phv.locals[self.base + first.index() + *cell as usize];
            if let Some(array) = self.state.register(register) {
                array.store(index, *cell as usize, value as u64);
            }
            self.trace(|_| Event::RegisterStore { register, index, cell: *cell, value });
        }
        if locked && let Some(token) = self.scalars.release() {
            self.state.unlock(token);
        }
        Ok(())
    }

    pub(super) fn clone_to(&mut self, session: ExprId) -> Result<(), End> {
        let session = self.eval(session)? as u16;
        let count = usize::from(self.meta.clone_count);
        if count < CLONES_MAX {
            self.meta.clones[count] = session;
            self.meta.clone_count += 1;
        } else {
            self.tally(|statistics| &statistics.lost_clones, 0);
        }
        Ok(())
    }

    pub(super) fn digest(&mut self, digest: DigestId, values: &[ExprId]) -> Result<(), End> {
        let base = self.push_values(values)?;
        self.device.digest(self.state.program(), digest, &self.scratch.phv.locals[base..]);
        self.trace(|pass| Event::Digest {
            digest,
            values: pass.scratch.phv.locals[base..].to_vec(),
        });
        self.scratch.phv.locals.truncate(base);
        Ok(())
    }

    pub(super) fn call_device(
        &mut self,
        external: ExternId,
        args: &[ExprId],
        to: Option<&LValue>,
        span: Option<SourceSpan>,
    ) -> Result<(), End> {
        let base = self.push_values(args)?;
        let (now, buf) = (self.now(), self.packet.buf.as_ref());
        let bytes = buf
            .map_or(&[][..], |buf| self.memory.frame(buf, self.packet.data_off, self.packet.len));
        let args = &self.scratch.phv.locals[base..];
        let result = self.device.call(external, args, self.packet, bytes, now);
        self.trace(|pass| {
            let args = pass.scratch.phv.locals[base..].to_vec();
            Event::Extern { external, args, result }
        });
        self.scratch.phv.locals.truncate(base);
        let Some(to) = to else { return Ok(()) };
        let bits = self.program.externs[external].result_bits.unwrap_or(128);
        self.assign(to, result & ones(bits), span)
    }
}
