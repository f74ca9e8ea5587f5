//! Egress right behind ingress, for a packet that leaves by a port without a queue.
//!
//! Nothing happens to such a packet between the passes, so the code of egress follows that of ingress: where
//! headers are and what is carried stays in registers, and the descriptor is not told about it. There is one
//! copy of egress for each set of headers that ingress leaves, behind all ways that leave it. A packet that
//! cannot go on so when it is there (it has learned, a header has no room) gets its descriptor, and its
//! egress is left to the caller: the burst ends there, with [`HALF`] in the result.

use super::path::{InPlace, Loop, PATH_BUDGET, PathPlan};
use super::{Emit, Refused, descriptor, flags, frame_offset, intrinsic, known};
use crate::ids::*;
use crate::interp::phv::bit;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

/// Bit of the result of a burst: the packet behind those that are done did ingress and has egress before it.
pub(in crate::jit) const HALF: u64 = 1 << 32;

/// What is known about the egress that follows.
#[derive(Debug)]
pub(super) struct Through {
    plan: PathPlan,
    /// Ingress may keep a packet from leaving at once.
    may_wait: bool,
    /// Ingress or egress learns.
    learns: bool,
    /// Sets of headers that ingress leaves, and the code behind them: address and length of the packet.
    entries: Vec<(u64, Block)>,
}

impl Through {
    pub(super) fn new(ingress: &PathPlan, egress: PathPlan) -> Through {
        let (may_wait, learns) = (ingress.may_wait, ingress.learns || egress.learns);
        Through { plan: egress, may_wait, learns, entries: Vec::new() }
    }

    pub(super) fn learns(&self) -> bool {
        self.learns
    }
}

impl Emit<'_> {
    /// The end of ingress with these headers: goes on to egress if the packet may leave; code that follows
    /// is for packets that may not. The mask of the path is that of a tail.
    pub(super) fn go_through(&mut self, drop: Block) -> Result<(), Refused> {
        let Some(through) = &self.through else { return Ok(()) };
        let may_wait = through.may_wait;
        let path = self.path()?.clone();
        let (go, stay) = (self.b.create_block(), self.b.create_block());
        let Some(gate) = self.gate else { return Ok(()) };
        let port = self.b.use_var(gate);
        let open = self.fixed64(self.frame, frame_offset!(open));
        let at = self.b.ins().iadd(open, port);
        let open = self.load_word(at, 0, 1);
        self.b.ins().brif(open, go, &[], stay, &[]);
        self.b.switch_to_block(go);
        if may_wait {
            let deferred = self.load64(self.meta, intrinsic!(multicast_group));
            let go = self.b.create_block();
            self.b.ins().brif(deferred, stay, &[], go, &[]);
            self.b.switch_to_block(go);
        }
        if self.changes != 0 {
            self.put_together()?;
        }
        let start = i64::from(path.cursor) - i64::from(self.emitted_bytes(path.valid));
        let data = self.b.ins().iadd_imm_s(path.data, start);
        let len = self.b.ins().iadd_imm_s(path.len, -start);
        let entry = self.entry(self.leaving(path.valid));
        self.b.ins().jump(entry, &[data.into(), len.into()]);
        self.b.switch_to_block(stay);
        self.must_be_decided(drop);
        Ok(())
    }

    fn entry(&mut self, valid: u64) -> Block {
        let entries = self.through.iter().flat_map(|through| &through.entries);
        if let Some((_, entry)) = entries.into_iter().find(|(mask, _)| *mask == valid) {
            return *entry;
        }
        let entry = self.b.create_block();
        self.b.append_block_param(entry, I64);
        self.b.append_block_param(entry, I64);
        if let Some(through) = &mut self.through {
            through.entries.push((valid, entry));
        }
        entry
    }

    /// The code of egress behind ingress. Packets that cannot go on go to `half`.
    /// The others go on where nothing has been learned, or to `learning` if egress may.
    pub(super) fn egress_behind(
        &mut self,
        mut around: Loop,
        learning: Block,
        half: Block,
    ) -> Result<(), Refused> {
        let Some(through) = self.through.take() else { return Ok(()) };
        if through.plan.learns {
            around.next = learning;
        }
        let program = self.program;
        self.empty_parts = self.kept_empty();
        self.egress = true;
        self.decisions = None;
        self.budget = PATH_BUDGET;
        self.written = known::written_fields(program, true);
        (self.added, self.changes) = (through.plan.added, through.plan.changes);
        self.locals.clear();
        for (valid, entry) in through.entries {
            self.b.switch_to_block(entry);
            let [data, len] = *self.b.block_params(entry) else { return Err(Refused::TooLarge) };
            let bail = self.b.create_block();
            self.b.append_block_param(bail, I64);
            self.b.set_cold_block(bail);
            self.fail = bail;
            self.only_carried();
            if through.learns {
                let learned = self.load64(self.frame, frame_offset!(learned));
                self.leave_if(learned, 0);
            }
            let (one, meta) = (self.num(1), self.meta);
            self.store_word(one, meta, intrinsic!(egress_done), 1);
            self.egress_in_place(valid, InPlace::new(program, data, len), around)?;

            self.b.switch_to_block(bail);
            self.lay_out(valid, len);
            self.b.ins().jump(half, &[]);
        }
        Ok(())
    }

    /// Metadata as it is behind a queue.
    fn only_carried(&mut self) {
        let zero = self.num(0);
        for (meta, (var, bits)) in self.program.metadata.iter().zip(self.metas.clone()) {
            if meta.carried_at.is_none() {
                let zero = self.resize(zero, 64, bits);
                self.b.def_var(var, zero);
            }
        }
    }

    /// Tells the descriptor what egress finds, as ingress does for a packet that goes to a queue.
    fn lay_out(&mut self, valid: u64, len: Value) {
        let (packet, headers) = (self.packet, self.emitted_bytes(valid));
        let mask = self.num(valid);
        self.b.ins().store(flags(), mask, packet, descriptor!(valid));
        let offset = self.num(headers.into());
        self.store_word(offset, packet, descriptor!(body_off), 2);
        let body = self.b.ins().iadd_imm_s(len, -i64::from(headers));
        self.store_word(body, packet, descriptor!(body_len), 4);
        self.carry_out();
    }

    /// Headers that have an empty variable part behind ingress as they had in front of it: it neither adds
    /// them nor writes what the part depends on.
    fn kept_empty(&self) -> u64 {
        let program = self.program;
        let stays = |(instance, declared): (InstanceId, &crate::ir::Instance)| {
            let variable = declared.variable_bits?;
            let mut reads = Vec::new();
            self.fields_of(variable, &mut reads);
            let touched = reads.iter().any(|(owner, field)| self.may_write(*owner, *field));
            (!touched && self.added & bit(instance) == 0).then_some(bit(instance))
        };
        program.instances.entries().filter_map(stays).fold(0, |all, one| all | one)
    }
}
