//! In place: one copy of the control for each path through the parser.
//!
//! On a path it is known which headers are valid and where they are, so fields are loads and stores
//! at constant offsets of the packet, conditions on validity fold away, and a packet whose headers
//! stay where they are is never put together again. What is rare goes to the code for any program,
//! before anything has happened: shared or foreign packet memory, parser errors, variable parts that
//! are not empty, headers that leave in another order than they came, wrong checksums. A control that
//! adds or removes headers is not compiled in place at all.
//!
//! A dropped packet keeps what was written to it before the drop.

use super::{Emit, Refused, descriptor, flags, frame_offset, intrinsic};
use crate::exec::{Descriptor, Intrinsic, NO_PORT, Verdict};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::interp::phv::bit;
use crate::ir::{BuiltinReason, Crc, Op, ParserOp, Program, Target, Update, Verify};
use crate::packet::{BUF_INDEX_BITS, BUF_INDEX_MASK};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use std::mem::size_of;

/// Most operations and expressions of all paths together.
const PATH_BUDGET: usize = 20_000;
/// Most paths.
const PATHS_MAX: usize = 48;

/// What is known on a path.
#[derive(Clone, Debug)]
pub(in crate::jit) struct InPlace {
    /// First byte of the packet.
    pub(super) data: Value,
    /// Bytes of the packet, 64 bits.
    pub(super) len: Value,
    /// Valid headers.
    pub(super) valid: u64,
    /// Where each of them is.
    pub(super) at: Vec<u32>,
    /// In the order in which they are in the packet.
    order: Vec<InstanceId>,
    /// Bytes of all of them.
    pub(super) cursor: u32,
    /// States visited.
    depth: u32,
}

/// How a control is compiled in place.
pub(in crate::jit) struct PathPlan {
    /// Sets of headers that paths through the parser leave, as masks.
    masks: Vec<u64>,
    /// The control learns.
    pub(super) learns: bool,
}

impl PathPlan {
    /// `None` where it is not possible.
    pub(in crate::jit) fn new(program: &Program, egress: bool) -> Option<PathPlan> {
        let crc_matters = |crc: &Crc| match egress {
            false => crc.verify != Verify::Off,
            true => crc.update == Update::Always,
        };
        let ends_body = |op: &ParserOp| {
            matches!(op, ParserOp::BodyEnd(_) | ParserOp::ExtractAt(..) | ParserOp::Advance(_))
        };
        let mut ops = program.parser.states.iter().flat_map(|state| &state.ops);
        if !program.deparser.after.is_empty()
            || program.crcs.iter().any(crc_matters)
            || ops.any(ends_body)
            || program.parser.states.is_empty()
        {
            return None;
        }
        let mut masks = Vec::new();
        let mut left = 4096;
        walk(program, StateId(0), 0, &mut masks, &mut left)?;
        let body = if egress { &program.egress } else { &program.ingress };
        let bodies = program.actions.iter().map(|action| &action.body).chain([body]);
        let mut ops = bodies.flat_map(|body| &body.blocks).flat_map(|block| &block.ops);
        let learns = ops.any(|op| matches!(op.op, Op::Learn { .. }));
        (masks.len() <= PATHS_MAX).then_some(PathPlan { masks, learns })
    }
}

/// The headers that paths from a state leave; `None` when there are too many paths, or a header is
/// read twice.
fn walk(
    program: &Program,
    id: StateId,
    mut valid: u64,
    masks: &mut Vec<u64>,
    left: &mut u32,
) -> Option<()> {
    *left = left.checked_sub(1)?;
    let Some(state) = program.parser.states.get(id) else { return Some(()) };
    for op in &state.ops {
        match op {
            ParserOp::Extract(instance) if valid & bit(*instance) != 0 => return None,
            ParserOp::Extract(instance) => valid |= bit(*instance),
            ParserOp::ExtractNext(stack) => match next_free(program, *stack, valid) {
                Some(instance) => valid |= bit(instance),
                // Always an error from here on.
                None => return Some(()),
            },
            _ => {}
        }
    }
    for target in state.next.targets() {
        match target {
            Target::State(next) => walk(program, next, valid, masks, left)?,
            Target::Accept if !masks.contains(&valid) => masks.push(valid),
            Target::Accept | Target::Reject(_) => {}
        }
    }
    Some(())
}

/// The first element of a stack that is not valid.
fn next_free(program: &Program, stack: StackId, valid: u64) -> Option<InstanceId> {
    let stack = &program.stacks[stack];
    let mut elements = (stack.first.0..stack.first.0 + stack.len).map(InstanceId);
    elements.find(|instance| valid & bit(*instance) == 0)
}

/// Blocks of the loop over a burst.
#[derive(Clone, Copy)]
struct Loop {
    /// The next packet.
    next: Block,
    /// This packet is left to the other code.
    bail: Block,
}

impl Emit<'_> {
    /// A loop over a burst; returns how many packets were done.
    pub(in crate::jit) fn in_place_program(mut self, plan: PathPlan) -> Result<(), Refused> {
        self.budget = PATH_BUDGET;
        let entry = self.b.current_block().ok_or(Refused::TooLarge)?;
        let params = self.b.block_params(entry).to_vec();
        let [_, packets, metas, count] = params[..] else { return Err(Refused::TooLarge) };
        let count = self.b.ins().uextend(I64, count);
        let index = self.b.declare_var(I64);
        let zero = self.num(0);
        self.b.def_var(index, zero);
        let (head, packet, exit) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let around = Loop { next: self.b.create_block(), bail: self.b.create_block() };
        self.b.append_block_param(around.bail, I64);
        self.b.set_cold_block(around.bail);
        self.b.ins().jump(head, &[]);

        self.b.switch_to_block(head);
        let at = self.b.use_var(index);
        let more = self.compare(IntCC::UnsignedLessThan, at, count);
        self.b.ins().brif(more, packet, &[], exit, &[]);

        self.b.switch_to_block(packet);
        let offset = self.b.ins().imul_imm_u(at, size_of::<Descriptor>() as i64);
        self.packet = self.b.ins().iadd(packets, offset);
        let offset = self.b.ins().imul_imm_u(at, size_of::<Intrinsic>() as i64);
        self.meta = self.b.ins().iadd(metas, offset);
        self.packet_in_place(&plan, around)?;

        self.b.switch_to_block(around.next);
        let at = self.b.use_var(index);
        let at = self.b.ins().iadd_imm_s(at, 1);
        self.b.def_var(index, at);
        if plan.learns {
            let learned = self.load64(self.frame, frame_offset!(learned));
            self.b.ins().brif(learned, exit, &[], head, &[]);
        } else {
            self.b.ins().jump(head, &[]);
        }

        for block in [around.bail, exit] {
            self.b.switch_to_block(block);
            let done = self.b.use_var(index);
            self.b.ins().return_(&[done]);
        }
        self.finish();
        Ok(())
    }

    /// One packet: whether it can be done here, then by its path.
    fn packet_in_place(&mut self, plan: &PathPlan, around: Loop) -> Result<(), Refused> {
        self.fail = around.bail;
        self.store_frame(self.packet, frame_offset!(packet));
        self.store_frame(self.meta, frame_offset!(intrinsic));
        let (data, len) = self.packet_bytes();
        self.defaults(plan);
        let zero = self.num(0);
        for (var, bits) in self.metas.clone() {
            let zero = self.resize(zero, 64, bits);
            self.b.def_var(var, zero);
        }
        let at = vec![0; self.program.instances.len()];
        let path = InPlace { data, len, valid: 0, at, order: Vec::new(), cursor: 0, depth: 0 };
        let program = self.program;
        if self.egress {
            return self.resume_in_place(&path, plan, around);
        }
        self.locals = program.parser.locals.iter().map(|l| self.new_local(l.bits, zero)).collect();
        self.state_in_place(StateId(0), path, around)
    }

    /// Address and length of a packet that is ours alone.
    fn packet_bytes(&mut self) -> (Value, Value) {
        let (packet, frame) = (self.packet, self.frame);
        let buf = self.load_word(packet, descriptor!(buf), 4);
        let tag = self.b.ins().ushr_imm_u(buf, i64::from(BUF_INDEX_BITS));
        let ours = self.load64(frame, frame_offset!(chunk_tag));
        let foreign = self.compare(IntCC::NotEqual, tag, ours);
        self.leave_if(foreign, 0);
        let chunk = self.b.ins().band_imm_u(buf, i64::from(BUF_INDEX_MASK));
        let refs = self.load64(frame, frame_offset!(chunk_refs));
        let offset = self.b.ins().ishl_imm_u(chunk, 2);
        let place = self.b.ins().iadd(refs, offset);
        let count = self.load_word(place, 0, 4);
        let shared = self.b.ins().icmp_imm_u(IntCC::NotEqual, count, 1);
        self.leave_if(shared, 0);
        let off = self.load_word(packet, descriptor!(data_off), 2);
        let len = self.load_word(packet, descriptor!(len), 4);
        let stop = self.b.ins().iadd(off, len);
        let size = self.load64(frame, frame_offset!(chunk_bytes));
        let over = self.compare(IntCC::UnsignedGreaterThan, stop, size);
        self.leave_if(over, 0);
        let shift = self.load64(frame, frame_offset!(chunk_shift));
        let chunks = self.load64(frame, frame_offset!(chunks));
        let start = self.b.ins().ishl(chunk, shift);
        let start = self.b.ins().iadd(chunks, start);
        (self.b.ins().iadd(start, off), len)
    }

    /// Every decision at its default.
    fn defaults(&mut self, plan: &PathPlan) {
        let (packet, meta) = (self.packet, self.meta);
        let (zero, ones) = (self.num(0), self.num(u64::MAX));
        for (offset, bytes) in [
            (intrinsic!(not_before_ns), 8),
            (intrinsic!(hold_timeout_ns), 8),
            (intrinsic!(checksum_error), 4),
            (intrinsic!(crc_error), 4),
            (intrinsic!(multicast_group), 2),
            (intrinsic!(hold_packets), 2),
            (intrinsic!(clone_count), 1),
            (intrinsic!(parser_error), 1),
        ] {
            self.store_word(zero, meta, offset, bytes);
        }
        self.store_word(ones, meta, intrinsic!(truncate_to), 4);
        self.store_word(ones, meta, intrinsic!(dscp), 1);
        self.store_word(ones, meta, intrinsic!(pcp), 1);
        if !self.egress {
            self.store_word(zero, meta, intrinsic!(congestion_mark), 1);
            let none = self.num(NO_PORT.into());
            self.store_word(none, packet, descriptor!(egress_port), 2);
            for offset in
                [descriptor!(traffic_class), descriptor!(priority_group), descriptor!(flags)]
            {
                self.store_word(zero, packet, offset, 1);
            }
        }
        if plan.learns {
            self.store_frame(zero, frame_offset!(learned));
        }
    }

    /// A state on a path, and everything behind it.
    fn state_in_place(
        &mut self,
        id: StateId,
        mut path: InPlace,
        around: Loop,
    ) -> Result<(), Refused> {
        let program = self.program;
        path.depth += 1;
        let Some(state) = program.parser.states.get(id) else { return self.leaf(path, around) };
        if path.depth > program.parser.max_states {
            self.leave(0);
            return Ok(());
        }
        self.in_place = Some(path);
        self.at(state.span);
        for op in &state.ops {
            self.spend(1)?;
            match op {
                ParserOp::Extract(instance) => self.extract_in_place(*instance)?,
                ParserOp::ExtractNext(stack) => {
                    let valid = self.path()?.valid;
                    match next_free(program, *stack, valid) {
                        Some(instance) => self.extract_in_place(instance)?,
                        None => {
                            self.leave(0);
                            return Ok(());
                        }
                    }
                }
                ParserOp::Set(to, value) => {
                    let value = self.expr(*value)?;
                    self.assign(to, value)?;
                }
                ParserOp::Verify(condition, _) => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.b.set_cold_block(no);
                    self.branch(*condition, yes, no)?;
                    self.b.switch_to_block(no);
                    self.leave(0);
                    self.b.switch_to_block(yes);
                }
                _ => return Err(Refused::TooLarge),
            }
        }
        let here = self.path()?.clone();
        self.transition(&state.next, &mut |emit, target| {
            emit.in_place = Some(here.clone());
            match target {
                Target::State(next) => emit.state_in_place(next, here.clone(), around),
                Target::Accept => emit.leaf(here.clone(), around),
                Target::Reject(_) => {
                    emit.leave(0);
                    Ok(())
                }
            }
        })
    }

    fn path(&self) -> Result<&InPlace, Refused> {
        self.in_place.as_ref().ok_or(Refused::TooLarge)
    }

    fn extract_in_place(&mut self, instance: InstanceId) -> Result<(), Refused> {
        let program = self.program;
        let fixed = program.headers[program.instances[instance].header].fixed_bytes;
        let (len, stop) = (self.path()?.len, self.path()?.cursor + fixed);
        let need = self.num(stop.into());
        let short = self.compare(IntCC::UnsignedLessThan, len, need);
        self.leave_if(short, 0);
        self.place(instance)
    }

    /// Notes that a header is at the cursor; one with a variable part that is not empty is left to
    /// the other code.
    fn place(&mut self, instance: InstanceId) -> Result<(), Refused> {
        let program = self.program;
        let declared = &program.instances[instance];
        let fixed = program.headers[declared.header].fixed_bytes;
        let path = self.in_place.as_mut().ok_or(Refused::TooLarge)?;
        path.at[instance.index()] = path.cursor;
        path.valid |= bit(instance);
        path.order.push(instance);
        path.cursor += fixed;
        if let Some(variable) = declared.variable_bits {
            // The expression may ask for what is there so far, which is the fixed part.
            let bits = self.expr(variable)?;
            let (bits, _) = self.words(bits, self.bits(variable));
            self.leave_if(bits, 0);
        }
        Ok(())
    }

    /// Egress: by the mask that ingress left, one copy for each that the parser can give.
    fn resume_in_place(
        &mut self,
        start: &InPlace,
        plan: &PathPlan,
        around: Loop,
    ) -> Result<(), Refused> {
        let program = self.program;
        let mask = self.load64(self.packet, descriptor!(valid));
        let body_off = self.load_word(self.packet, descriptor!(body_off), 2);
        let body_len = self.load_word(self.packet, descriptor!(body_len), 4);
        let stop = self.b.ins().iadd(body_off, body_len);
        let slack = self.compare(IntCC::NotEqual, stop, start.len);
        self.leave_if(slack, 0);
        for known in &plan.masks {
            let (this, other) = (self.b.create_block(), self.b.create_block());
            let value = self.num(*known);
            let same = self.compare(IntCC::Equal, mask, value);
            self.b.ins().brif(same, this, &[], other, &[]);
            self.b.switch_to_block(this);
            self.in_place = Some(start.clone());
            for instance in &program.deparser.emit {
                if known & bit(*instance) != 0 {
                    let fixed = program.headers[program.instances[*instance].header].fixed_bytes;
                    let need = self.num((self.path()?.cursor + fixed).into());
                    let short = self.compare(IntCC::UnsignedLessThan, body_off, need);
                    self.leave_if(short, 0);
                    self.place(*instance)?;
                }
            }
            self.carried_in();
            let path = self.path()?.clone();
            self.leaf(path, around)?;
            self.b.switch_to_block(other);
        }
        self.leave(0);
        Ok(())
    }

    /// Metadata that crossed the queue.
    fn carried_in(&mut self) {
        let program = self.program;
        for (id, meta) in program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let (count, packet) = (meta.bits.div_ceil(8), self.packet);
            let mut words = [self.num(0), self.num(0)];
            let mut done = 0;
            while done < count {
                let step = [8, 4, 2].into_iter().find(|s| done + s <= count).unwrap_or(1);
                let offset = descriptor!(carried) + (at + done) as i32;
                let part = self.load_word(packet, offset, step);
                let part = self.b.ins().ishl_imm_u(part, i64::from(done % 8 * 8));
                let word = &mut words[(done / 8) as usize % 2];
                *word = self.b.ins().bor(*word, part);
                done += step;
            }
            let [low, high] = words;
            let value = if meta.bits > 64 { self.b.ins().iconcat(low, high) } else { low };
            let value = self.masked(value, meta.bits);
            let (var, _) = self.metas[id.index()];
            self.b.def_var(var, value);
        }
    }

    /// Metadata that crosses the queue, also when the packet drops.
    fn carried_out(&mut self) {
        let program = self.program;
        if self.egress {
            return;
        }
        for (id, meta) in program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let (count, packet) = (meta.bits.div_ceil(8), self.packet);
            let (var, bits) = self.metas[id.index()];
            let value = self.b.use_var(var);
            let (low, high) = self.words(value, bits);
            let mut done = 0;
            while done < count {
                let step = [8, 4, 2].into_iter().find(|s| done + s <= count).unwrap_or(1);
                let word = if done < 8 { low } else { high };
                let part = self.b.ins().ushr_imm_u(word, i64::from(done % 8 * 8));
                let offset = descriptor!(carried) + (at + done) as i32;
                self.store_word(part, packet, offset, step);
                done += step;
            }
        }
    }

    /// The end of a path: checksums, the control, the verdict.
    fn leaf(&mut self, path: InPlace, around: Loop) -> Result<(), Refused> {
        let program = self.program;
        let emitted = program.deparser.emit.iter().filter(|i| path.valid & bit(**i) != 0);
        if !emitted.eq(&path.order) {
            self.leave(0);
            return Ok(());
        }
        let bail = self.fail;
        self.in_place = Some(path);
        let sums = self.checksums_before()?;
        let (done, fail) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(fail, I64);
        self.fail = fail;
        let locals = std::mem::take(&mut self.locals);
        self.body(if self.egress { &program.egress } else { &program.ingress }, &[], done)?;
        self.conclude(done, fail, &sums, around)?;
        self.locals = locals;
        self.fail = bail;
        Ok(())
    }

    fn conclude(
        &mut self,
        done: Block,
        fail: Block,
        sums: &[super::sums::Followed],
        around: Loop,
    ) -> Result<(), Refused> {
        let (finish, drop) = (self.b.create_block(), self.b.create_block());
        let verdict = self.b.append_block_param(finish, I64);
        let reason = self.b.append_block_param(finish, I64);
        let why = self.b.append_block_param(drop, I64);
        self.b.set_cold_block(drop);
        self.b.set_cold_block(fail);

        self.b.switch_to_block(fail);
        let code = self.b.block_params(fail)[0];
        let kind = self.b.ins().ushr_imm_u(code, 32);
        let low = self.masked(code, 32);
        let (other, punt) = (self.b.create_block(), self.b.create_block());
        let exits = self.b.ins().icmp_imm_u(IntCC::Equal, kind, (end::EXIT >> 32) as i64);
        self.b.ins().brif(exits, done, &[], other, &[]);
        self.b.switch_to_block(other);
        let punts = self.b.ins().icmp_imm_u(IntCC::Equal, kind, (end::PUNT >> 32) as i64);
        self.b.ins().brif(punts, punt, &[], drop, &[low.into()]);
        self.b.switch_to_block(punt);
        let to_cpu = self.num(Verdict::Punt as u64);
        self.add_to_lane(self.facts.counters.tallies + 1, low);
        self.b.ins().jump(finish, &[to_cpu.into(), low.into()]);

        self.b.switch_to_block(done);
        let (forward, none) = (self.num(Verdict::Forward as u64), self.num(0));
        if self.egress {
            self.b.ins().jump(finish, &[forward.into(), none.into()]);
        } else {
            let (check, lost) = (self.b.create_block(), self.b.create_block());
            let port = self.load_word(self.packet, descriptor!(egress_port), 2);
            let undecided = self.b.ins().icmp_imm_u(IntCC::Equal, port, i64::from(NO_PORT));
            self.b.ins().brif(undecided, check, &[], finish, &[forward.into(), none.into()]);
            self.b.switch_to_block(check);
            let group = self.load_word(self.meta, intrinsic!(multicast_group), 2);
            self.b.ins().brif(group, finish, &[forward.into(), none.into()], lost, &[]);
            self.b.switch_to_block(lost);
            let reason = self.num(BuiltinReason::NoDecision.id().0.into());
            self.b.ins().jump(drop, &[reason.into()]);
        }
        self.b.switch_to_block(drop);
        let dropped = self.num(Verdict::Drop as u64);
        let meta = self.meta;
        self.store_word(dropped, meta, intrinsic!(verdict), 1);
        self.store_word(why, meta, intrinsic!(reason), 2);
        self.add_to_lane(self.facts.counters.tallies, why);
        self.carried_out();
        self.b.ins().jump(around.next, &[]);

        self.b.switch_to_block(finish);
        self.store_word(verdict, meta, intrinsic!(verdict), 1);
        self.store_word(reason, meta, intrinsic!(reason), 2);
        self.checksums_after(sums);
        self.describe()?;
        self.carried_out();
        self.b.ins().jump(around.next, &[]);
        Ok(())
    }

    /// What egress and the device need to know.
    fn describe(&mut self) -> Result<(), Refused> {
        let path = self.path()?.clone();
        let packet = self.packet;
        let (valid, headers) = (self.num(path.valid), self.num(path.cursor.into()));
        self.b.ins().store(flags(), valid, packet, descriptor!(valid));
        self.store_word(headers, packet, descriptor!(body_off), 2);
        let body = self.path_body_length();
        self.store_word(body, packet, descriptor!(body_len), 4);
        if self.egress {
            return Ok(());
        }
        let (dscp, pcp) = (self.program.qos.dscp, self.program.qos.pcp);
        for (pair, offset) in [(dscp, intrinsic!(dscp)), (pcp, intrinsic!(pcp))] {
            let Some((value, present)) = pair else { continue };
            let (bits, none) = (self.bits(value), self.num(0xff));
            let value = match self.known(present) {
                Some(false) => continue,
                Some(true) => {
                    let value = self.expr(value)?;
                    self.resize(value, bits, 64)
                }
                None => {
                    let present = self.expr(present)?;
                    let value = self.expr(value)?;
                    let value = self.resize(value, bits, 64);
                    self.b.ins().select(present, value, none)
                }
            };
            let meta = self.meta;
            self.store_word(value, meta, offset, 1);
        }
        Ok(())
    }

    /// Data, cursor and length for a lookahead.
    pub(super) fn path_cursor(&mut self) -> Option<(Value, u32, Value)> {
        let path = self.in_place.as_ref()?;
        Some((path.data, path.cursor, path.len))
    }

    pub(super) fn path_body_length(&mut self) -> Value {
        let Some((_, headers, len)) = self.path_cursor() else { return self.num(0) };
        self.b.ins().iadd_imm_s(len, -i64::from(headers))
    }

    /// Headers and body are all there is.
    pub(super) fn path_emit_length(&mut self) -> Value {
        let Some((_, _, len)) = self.path_cursor() else { return self.num(0) };
        len
    }

    /// The variable of a sum.
    pub(super) fn word_variable(&mut self, value: Value) -> Variable {
        let var = self.b.declare_var(I64);
        self.b.def_var(var, value);
        var
    }
}
