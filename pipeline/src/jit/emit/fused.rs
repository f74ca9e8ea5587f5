//! Egress right after ingress, for a packet that leaves by a port without a queue.
//!
//! The code of egress follows that of ingress: the descriptor need not have the places of headers and the carried
//! metadata. There is one copy of egress for each set of headers that ingress leaves, after all paths that leave it. A
//! packet that turns out not to be eligible (it has learned, a header has no room) has its descriptor written, and its
//! egress is left to the caller: the burst ends there, with [`INGRESS_ONLY`] in the result.

use super::path::{Loop, Packet};
use super::{CompileError, Emit, descriptor, flags, internal, intrinsic, vm_offset};
use crate::jit::plan::{Effects, Fused, PATH_OPERATIONS_MAX, Tail};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

/// Bit of the result of a burst: the packet after those that are done has done ingress and must do egress.
pub(in crate::jit) const INGRESS_ONLY: u64 = 1 << 32;

/// The egress that follows.
#[derive(Debug)]
pub(super) struct Following<'g> {
    plan: &'g Fused<'g>,
    /// Ingress may keep a packet from leaving at once.
    may_wait: bool,
    /// Ingress or egress learns.
    learns: bool,
    /// Sets of headers that ingress leaves, and the code after them: address and length of the packet.
    entries: Vec<(u64, Block)>,
}

impl<'g> Following<'g> {
    pub(super) fn new(ingress: &Effects, plan: &'g Fused<'g>) -> Following<'g> {
        let learns = ingress.learns || plan.effects.learns;
        Following { plan, may_wait: ingress.may_wait, learns, entries: Vec::new() }
    }

    pub(super) fn learns(&self) -> bool {
        self.learns
    }
}

impl Emit<'_> {
    /// The end of ingress with these headers: continues with egress if the packet may leave; code that follows is for
    /// packets that may not.
    pub(super) fn go_on_to_egress(&mut self, tail: &Tail, drop: Block) -> Result<(), CompileError> {
        let Some(following) = &self.following else { return Ok(()) };
        let may_wait = following.may_wait;
        let (go, stay) = (self.b.create_block(), self.b.create_block());
        let Some(gate) = self.gate else { return Ok(()) };
        let port = self.b.use_var(gate);
        let open = self.fixed64(self.vm, vm_offset!(open));
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
        self.put_together(tail)?;
        let start = i64::from(tail.start);
        let Some(packet) = self.on_path.as_ref().map(|on| on.packet) else { return Ok(()) };
        let data = self.b.ins().iadd_imm_s(packet.data, start);
        let len = self.b.ins().iadd_imm_s(packet.len, -start);
        let entry = self.entry(tail.leaving);
        self.b.ins().jump(entry, &[data.into(), len.into()]);
        self.b.switch_to_block(stay);
        self.must_be_decided(drop);
        Ok(())
    }

    fn entry(&mut self, valid: u64) -> Block {
        let entries = self.following.iter().flat_map(|following| &following.entries);
        if let Some((_, entry)) = entries.into_iter().find(|(mask, _)| *mask == valid) {
            return *entry;
        }
        let entry = self.b.create_block();
        self.b.append_block_param(entry, I64);
        self.b.append_block_param(entry, I64);
        if let Some(following) = &mut self.following {
            following.entries.push((valid, entry));
        }
        entry
    }

    /// The code of egress after ingress. Packets that cannot continue jump to `ingress_only`. After egress, those that
    /// may have learned jump to `learning`.
    pub(super) fn egress_behind(
        &mut self,
        mut around: Loop,
        learning: Block,
        ingress_only: Block,
    ) -> Result<(), CompileError> {
        let Some(Following { plan, learns, entries, .. }) = self.following.take() else {
            return Ok(());
        };
        if plan.effects.learns {
            around.next = learning;
        }
        self.control = plan.control.clone();
        self.decisions = None;
        self.budget = PATH_OPERATIONS_MAX;
        self.locals.clear();
        for (valid, entry) in entries {
            let copy = plan.copies.iter().find(|copy| copy.valid == valid);
            let copy = copy.ok_or_else(|| internal("headers that the plan does not leave"))?;
            self.b.switch_to_block(entry);
            let params = self.b.block_params(entry);
            let packet = Packet { data: params[0], len: params[1] };
            let bail = self.b.create_block();
            self.b.append_block_param(bail, I64);
            self.b.set_cold_block(bail);
            self.fail = bail;
            self.only_carried();
            if learns {
                let learned = self.load64(self.vm, vm_offset!(learned));
                self.leave_if(learned, 0);
            }
            let (one, meta) = (self.num(1), self.meta);
            self.store_word(one, meta, intrinsic!(egress_done), 1);
            self.egress_copy(copy, packet, around)?;

            self.b.switch_to_block(bail);
            self.lay_out(valid, packet.len);
            self.b.ins().jump(ingress_only, &[]);
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

    /// Writes the inputs of egress to the descriptor, as ingress does for a packet that goes to a queue.
    fn lay_out(&mut self, valid: u64, len: Value) {
        let (packet, headers) = (self.packet, self.control.emitted_bytes(valid));
        let mask = self.num(valid);
        self.b.ins().store(flags(), mask, packet, descriptor!(valid));
        let offset = self.num(headers.into());
        self.store_word(offset, packet, descriptor!(body_off), 2);
        let body = self.b.ins().iadd_imm_s(len, -i64::from(headers));
        self.store_word(body, packet, descriptor!(body_len), 4);
        self.carry_out();
    }
}
