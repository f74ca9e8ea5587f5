//! Code: blocks and operations.

use super::pass::{Again, End, Pass};
use crate::exec::flags;
use crate::ids::*;
use crate::ir::{Body, Op, SourceSpan, Term};
use crate::trace::Event;

impl<'a> Pass<'a> {
    /// Runs a control in a new frame of locals.
    pub(super) fn run(&mut self, control: &'a Body) -> Result<(), End> {
        let base = self.scratch.phv.locals.len();
        self.run_in(control, base, true)
    }

    /// Runs a control, or an action, in the frame at `base`, which may hold arguments already.
    fn run_in(&mut self, body: &'a Body, base: usize, is_control: bool) -> Result<(), End> {
        self.scratch.phv.locals.resize(base + body.locals.len(), 0);
        let caller = std::mem::replace(&mut self.base, base);
        let mut at = (!body.blocks.is_empty()).then_some(BlockId(0));
        while let Some(id) = at {
            let block = &body.blocks[id];
            if is_control && let Some(sink) = &mut self.sink {
                sink.block(id);
            }
            for op in &block.ops {
                self.op(&op.op, op.span)?;
            }
            at = self.term(&block.term)?;
        }
        self.base = caller;
        self.scratch.phv.locals.truncate(base);
        Ok(())
    }

    /// The next block, or none at the end of the body.
    fn term(&mut self, term: &'a Term) -> Result<Option<BlockId>, End> {
        Ok(Some(match term {
            Term::Jump(to) => *to,
            Term::Branch { cond, then, otherwise } => {
                if self.eval(*cond)? == 1 {
                    *then
                } else {
                    *otherwise
                }
            }
            Term::Switch { value, cases, default } => {
                let value = self.eval(*value)?;
                let case = cases.iter().find(|(known, _)| *known == value);
                case.map_or(*default, |(_, to)| *to)
            }
            Term::Apply { table, by_action, hit, miss } => {
                let (was_hit, action) = self.apply(*table)?;
                let by_action = by_action.iter().find(|(known, _)| *known == action);
                by_action.map_or(if was_hit { *hit } else { *miss }, |(_, to)| *to)
            }
            Term::Return => return Ok(None),
            Term::Exit => return Err(End::Exit),
            Term::Drop(reason) => return Err(End::Drop(*reason)),
            Term::Punt(reason) => return Err(End::Punt(*reason)),
        }))
    }

    pub(super) fn op(&mut self, op: &'a Op, span: Option<SourceSpan>) -> Result<(), End> {
        match op {
            Op::Set(to, value) => {
                let value = self.eval(*value)?;
                self.assign(to, value, span)?;
            }
            Op::SetValid(_)
            | Op::SetInvalid(_)
            | Op::CopyHeader { .. }
            | Op::CopyBytes { .. }
            | Op::PushFront(..)
            | Op::PopFront(..) => self.change_headers(op),
            Op::Call(action, args) => {
                let base = self.push_values(args)?;
                self.run_action(*action, base)?;
            }
            Op::Count(counter, index) => {
                let index = self.eval(*index)?;
                self.state.count(self.scratch.lane, *counter, index, self.packet.len);
                self.trace(|_| Event::Count { counter: *counter, index });
            }
            Op::Meter { to, meter, index, color } => {
                let index = self.eval(*index)?;
                let before = color.map_or(Ok(0), |color| self.eval(color))? as u8;
                let color = self.state.meter(*meter, index, self.packet.len, before, self.now());
                self.trace(|_| Event::Metered { meter: *meter, index, color });
                self.assign(to, color.into(), span)?;
            }
            Op::RegisterLoad { register, index, first, locked } => {
                self.register_load(*register, *index, *first, *locked)?;
            }
            Op::RegisterStore { register, index, first, cells, locked } => {
                self.register_store(*register, *index, *first, cells, *locked)?;
            }
            Op::Random { to, low, high } => {
                let (low, high) = (self.eval(*low)?, self.eval(*high)?);
                let value = self.scratch.random(low, high);
                self.assign(to, value, span)?;
            }
            Op::UpdateCrc(crc) => self.scalars.asked_crcs |= 1u64.checked_shl(crc.0).unwrap_or(0),
            Op::Truncate(bytes) => {
                let bytes = self.eval(*bytes)?.min(u32::MAX.into()) as u32;
                self.scalars.truncate_to = self.scalars.truncate_to.min(bytes);
            }
            Op::Resubmit { received } => {
                self.scalars.resubmit = if *received { Again::Received } else { Again::AsLeft }
            }
            Op::Recirculate => self.packet.flags |= flags::RECIRCULATE,
            Op::MarkWritten => self.packet.flags |= flags::MARKED,
            Op::Clone(session) => self.clone_to(*session)?,
            Op::Digest(digest, values) => self.digest(*digest, values)?,
            Op::Learn { table, key, action, args } => self.learn(*table, key, *action, args)?,
            Op::Extern { external, args, to } => {
                self.call_device(*external, args, to.as_ref(), span)?;
            }
        }
        Ok(())
    }

    /// Evaluates onto the top of the frames of locals; the caller truncates to the returned length.
    pub(super) fn push_values(&mut self, values: &[ExprId]) -> Result<usize, End> {
        let base = self.scratch.phv.locals.len();
        for value in values {
            let value = self.eval(*value)?;
            self.scratch.phv.locals.push(value);
        }
        Ok(base)
    }

    pub(super) fn run_action(&mut self, action: ActionId, base: usize) -> Result<(), End> {
        self.trace(|pass| Event::Action { action, args: pass.scratch.phv.locals[base..].to_vec() });
        self.run_in(&self.program.actions[action].body, base, false)
    }
}
