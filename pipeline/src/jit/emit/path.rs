//! In place: one copy of the control for each path through the parser.
//!
//! On a path it is known which headers are valid and where they are, so fields are loads and stores
//! at constant offsets of the packet, conditions on validity fold away, and a packet whose headers
//! stay where they are is never put together again; see [`super::change`] for those that do not. What is
//! rare goes to the code for any program, before anything has happened: shared or foreign packet memory,
//! parser errors, variable parts that are not empty, headers that leave in another order than they came,
//! wrong checksums, too little headroom.
//!
//! A dropped packet keeps what was written to it before the drop.

use super::change::masks_left;
use super::sure::Sure;
use super::{Emit, Refused, descriptor, frame_offset};
use crate::exec::PacketPath;
use crate::ids::*;
use crate::interp::phv::bit;
use crate::ir::{Body, Crc, LValue, Op, ParserOp, Program, StdField, Target, Term, Update, Verify};
use crate::packet::READABLE_BEHIND_BYTES;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};

/// Most operations and expressions of all paths together.
pub(super) const PATH_BUDGET: usize = 30_000;
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
    /// Headers that came with the packet.
    pub(super) received: u64,
    /// Where each of them is.
    pub(super) at: Vec<u32>,
    /// In the order in which they are in the packet.
    pub(super) order: Vec<InstanceId>,
    /// Bytes of all of them.
    pub(super) cursor: u32,
    /// States visited.
    pub(super) depth: u32,
    /// Elements of stacks read.
    pub(super) elements: u32,
    /// Bytes that the packet is known to have.
    pub(super) checked: u32,
    /// Fields whose value is known, of those that this control never writes.
    pub(super) facts: Vec<((InstanceId, FieldId), u128)>,
}

impl InPlace {
    /// Nothing is known but the packet.
    pub(super) fn new(program: &Program, data: Value, len: Value) -> InPlace {
        InPlace {
            data,
            len,
            valid: 0,
            received: 0,
            at: vec![0; program.instances.len()],
            order: Vec::new(),
            cursor: 0,
            depth: 0,
            elements: 0,
            checked: 0,
            facts: Vec::new(),
        }
    }
}

/// How far a header may be read before it is known that the packet is that long: behind every chunk
/// is at least as much memory.
const AHEAD_MAX: u32 = READABLE_BEHIND_BYTES as u32 / 2;

/// How a control is compiled in place.
#[derive(Clone, Debug)]
pub(in crate::jit) struct PathPlan {
    /// Sets of headers that paths through the parser leave, as masks.
    pub(super) masks: Vec<u64>,
    /// The control learns.
    pub(super) learns: bool,
    /// Most elements of stacks on a path; packets with more are left to the other code.
    pub(super) elements_max: u32,
    /// Headers that the control may add, and those that it may add or remove.
    pub(super) added: u64,
    pub(super) changes: u64,
    /// The control may decide when a packet leaves, or that it leaves more than once.
    pub(super) may_wait: bool,
}

impl PathPlan {
    /// `None` where it is not possible. Egress is told which sets of headers ingress leaves; none
    /// where that is not known.
    pub(in crate::jit) fn new(program: &Program, left: Option<Vec<u64>>) -> Option<PathPlan> {
        let egress = left.is_some();
        let left = left.unwrap_or_default();
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
        let mut assigned = program.parser.states.iter().flat_map(|state| &state.ops);
        let parser_waits =
            assigned.any(|op| matches!(op, ParserOp::Set(to, _) if decides_when(to)));
        let body = if egress { &program.egress } else { &program.ingress };
        let mut cost =
            Cost { program, ops: 0, learns: false, may_wait: parser_waits, added: 0, removed: 0 };
        cost.body(body);
        // Elements of stacks multiply paths, and packets that have many of them are rare.
        for elements_max in [u32::MAX, 1, 0] {
            let mut walk = Walk { program, elements_max, ends: 0, masks: Vec::new(), left: 4096 };
            if walk.from(StateId(0), 0, 0).is_none() {
                continue;
            }
            if !left.is_empty() {
                walk.masks.clone_from(&left);
            }
            let copies = if egress { walk.masks.len() } else { walk.ends };
            if walk.masks.len() <= PATHS_MAX && copies * cost.ops <= PATH_BUDGET {
                let (added, changes) = (cost.added, cost.added | cost.removed);
                let Cost { learns, may_wait, .. } = cost;
                let masks = walk.masks;
                return Some(PathPlan { masks, learns, elements_max, added, changes, may_wait });
            }
        }
        None
    }
}

/// How much code a control is, with every action where it is used.
struct Cost<'p> {
    program: &'p Program,
    ops: usize,
    learns: bool,
    may_wait: bool,
    added: u64,
    removed: u64,
}

impl Cost<'_> {
    fn body(&mut self, body: &Body) {
        if self.ops > PATH_BUDGET {
            return;
        }
        for block in &body.blocks {
            for op in &block.ops {
                self.ops += 3;
                match &op.op {
                    Op::Learn { .. } => self.learns = true,
                    Op::SetValid(instance) => self.added |= bit(*instance),
                    Op::SetInvalid(instance) => self.removed |= bit(*instance),
                    Op::Call(action, _) => self.body(&self.program.actions[*action].body),
                    Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => {
                        self.may_wait |= decides_when(to);
                    }
                    _ => {}
                }
            }
            self.ops += 2;
            if let Term::Apply { table, .. } = &block.term {
                self.ops += 10;
                let declared = &self.program.tables[*table];
                for action in declared.actions.iter().chain([&declared.default.action]) {
                    self.body(&self.program.actions[*action].body);
                }
            }
        }
    }
}

/// What keeps a packet from leaving at once, when it is not zero.
fn decides_when(to: &LValue) -> bool {
    use StdField::{HoldPackets, HoldTimeoutNs, MulticastGroup, NotBeforeNs};
    matches!(to, LValue::Std(NotBeforeNs | HoldPackets | HoldTimeoutNs | MulticastGroup))
}

/// A walk over the paths through a parser.
struct Walk<'p> {
    program: &'p Program,
    /// Most elements of stacks on a path.
    elements_max: u32,
    /// Paths that end in accept.
    ends: usize,
    /// The headers they leave.
    masks: Vec<u64>,
    left: u32,
}

impl Walk<'_> {
    /// The paths from a state; `None` when there are too many, or a header is read twice.
    fn from(&mut self, id: StateId, mut valid: u64, mut elements: u32) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let program = self.program;
        let Some(state) = program.parser.states.get(id) else { return Some(()) };
        for op in &state.ops {
            match op {
                ParserOp::Extract(instance) if valid & bit(*instance) != 0 => return None,
                ParserOp::Extract(instance) => valid |= bit(*instance),
                ParserOp::ExtractNext(stack) => {
                    elements += 1;
                    match next_free(program, *stack, valid) {
                        Some(instance) if elements <= self.elements_max => valid |= bit(instance),
                        // An error from here on, or left to the other code.
                        _ => return Some(()),
                    }
                }
                _ => {}
            }
        }
        for target in state.next.targets() {
            match target {
                Target::State(next) => self.from(next, valid, elements)?,
                Target::Accept => {
                    self.ends += 1;
                    if !self.masks.contains(&valid) {
                        self.masks.push(valid);
                    }
                }
                Target::Reject(_) => {}
            }
        }
        Some(())
    }
}

/// The first element of a stack that is not valid.
fn next_free(program: &Program, stack: StackId, valid: u64) -> Option<InstanceId> {
    let stack = &program.stacks[stack];
    let mut elements = (stack.first.0..stack.first.0 + stack.len).map(InstanceId);
    elements.find(|instance| valid & bit(*instance) == 0)
}

/// Blocks of the loop over a burst.
#[derive(Clone, Copy)]
pub(super) struct Loop {
    /// The next packet.
    pub(super) next: Block,
    /// This packet is left to the other code.
    pub(super) bail: Block,
}

impl Emit<'_> {
    /// A state on a path, and everything behind it.
    pub(super) fn state_in_place(
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
                    let path = self.in_place.as_mut().ok_or(Refused::TooLarge)?;
                    path.elements += 1;
                    let (valid, elements) = (path.valid, path.elements);
                    match next_free(program, *stack, valid) {
                        Some(instance) if elements <= self.elements_max => {
                            self.extract_in_place(instance)?;
                        }
                        _ => {
                            self.leave(0);
                            return Ok(());
                        }
                    }
                }
                // A packet that is left to the other code later is as it came.
                ParserOp::Set(to, value)
                    if matches!(to, LValue::Meta(_) | LValue::Local(_) | LValue::Std(_)) =>
                {
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
                    self.learn_condition(*condition);
                }
                _ => return Err(Refused::TooLarge),
            }
        }
        let here = self.path()?.clone();
        self.transition(&state.next, &mut |emit, target, facts| {
            emit.in_place = Some(here.clone());
            facts.iter().for_each(|(key, value)| emit.learn_equal(*key, *value));
            let here = emit.path()?.clone();
            match target {
                Target::State(next) => emit.state_in_place(next, here, around),
                Target::Accept => emit.leaf(here, around),
                Target::Reject(_) => {
                    emit.leave(0);
                    Ok(())
                }
            }
        })
    }

    pub(super) fn path(&self) -> Result<&InPlace, Refused> {
        self.in_place.as_ref().ok_or(Refused::TooLarge)
    }

    fn extract_in_place(&mut self, instance: InstanceId) -> Result<(), Refused> {
        let program = self.program;
        let fixed = program.headers[program.instances[instance].header].fixed_bytes;
        let stop = self.path()?.cursor + fixed;
        if stop > AHEAD_MAX {
            let path = self.path()?.clone();
            self.must_have(&path, stop);
            self.in_place.as_mut().ok_or(Refused::TooLarge)?.checked = stop;
        }
        self.place(instance)
    }

    /// Notes that a header is at the cursor; one with a variable part that is not empty is left to
    /// the other code.
    pub(super) fn place(&mut self, instance: InstanceId) -> Result<(), Refused> {
        let program = self.program;
        let declared = &program.instances[instance];
        let fixed = program.headers[declared.header].fixed_bytes;
        let path = self.in_place.as_mut().ok_or(Refused::TooLarge)?;
        path.at[instance.index()] = path.cursor;
        path.valid |= bit(instance);
        path.received |= bit(instance);
        path.order.push(instance);
        path.cursor += fixed;
        if let Some(variable) = declared.variable_bits {
            // One value of one field nearly always: no options.
            if let Some((field, value)) = self.only_zero(instance, variable) {
                if self.egress && self.empty_parts & bit(instance) != 0 {
                    self.learn_fact(instance, field, value);
                    return Ok(());
                }
                if let Some(known) = self.known_field(instance, field) {
                    if known != value {
                        self.leave(0);
                        let nowhere = self.b.create_block();
                        self.b.switch_to_block(nowhere);
                    }
                    return Ok(());
                }
                let wrong = self.field_is_not(instance, field, value);
                self.leave_if(wrong, 0);
                self.learn_fact(instance, field, value);
                return Ok(());
            }
            // The expression may ask for what is there so far, which is the fixed part.
            let bits = self.expr(variable)?;
            let (bits, _) = self.words(bits, self.bits(variable));
            self.leave_if(bits, 0);
        }
        Ok(())
    }

    /// Egress: by the mask that ingress left, one copy for each that the parser can give.
    pub(super) fn resume_in_place(
        &mut self,
        start: &InPlace,
        plan: &PathPlan,
        around: Loop,
    ) -> Result<(), Refused> {
        let mask = self.load64(self.packet, descriptor!(valid));
        let body_off = self.load_word(self.packet, descriptor!(body_off), 2);
        let body_len = self.load_word(self.packet, descriptor!(body_len), 4);
        let stop = self.b.ins().iadd(body_off, body_len);
        let slack = self.compare(IntCC::NotEqual, stop, start.len);
        self.leave_if(slack, 0);
        if plan.masks.contains(&0) && self.program.uses(|op| matches!(op, Op::Clone(_))) {
            // A copy that is to be parsed looks like a packet without headers.
            let how = self.load_word(self.packet, descriptor!(path), 1);
            let copy = i64::from(PacketPath::CloneIngress as u8);
            let unparsed = self.b.ins().icmp_imm_u(IntCC::Equal, how, copy);
            self.leave_if(unparsed, 0);
        }
        let mut switch = Switch::new();
        let mut blocks = Vec::new();
        for known in &plan.masks {
            let block = self.b.create_block();
            switch.set_entry(u128::from(*known), block);
            blocks.push((*known, block));
        }
        let other = self.b.create_block();
        self.b.set_cold_block(other);
        switch.emit(&mut self.b, mask, other);
        self.b.switch_to_block(other);
        self.leave(0);
        for (known, block) in blocks {
            self.b.switch_to_block(block);
            let headers_value = self.num(self.emitted_bytes(known).into());
            let other = self.compare(IntCC::NotEqual, body_off, headers_value);
            self.leave_if(other, 0);
            self.carried_in();
            self.egress_in_place(known, start.clone(), around)?;
        }
        Ok(())
    }

    /// Egress of a packet with these headers, which are where `start` says and nothing else is.
    pub(super) fn egress_in_place(
        &mut self,
        valid: u64,
        start: InPlace,
        around: Loop,
    ) -> Result<(), Refused> {
        let program = self.program;
        let headers = self.emitted_bytes(valid);
        self.in_place = Some(InPlace { checked: headers, ..start });
        for instance in program.deparser.emit.iter().filter(|i| valid & bit(**i) != 0) {
            self.place(*instance)?;
        }
        let path = self.path()?.clone();
        self.leaf(path, around)
    }

    /// The end of a path: checksums, the control, the verdict.
    pub(super) fn leaf(&mut self, path: InPlace, around: Loop) -> Result<(), Refused> {
        let program = self.program;
        let emitted = program.deparser.emit.iter().filter(|i| path.valid & bit(**i) != 0);
        if !emitted.eq(&path.order) {
            self.leave(0);
            return Ok(());
        }
        if self.cannot_follow(path.valid) {
            self.leave(0);
            return Ok(());
        }
        let left = match self.changes {
            0 => vec![path.valid],
            _ => match masks_left(program, self.egress, path.valid) {
                Some(left) => left,
                None => {
                    self.leave(0);
                    return Ok(());
                }
            },
        };
        let bail = self.fail;
        self.must_have(&path, path.cursor);
        self.must_have_room(&path, &left);
        let (changes, valid) = (self.changes, self.num(path.valid));
        let received;
        self.in_place = Some(path);
        self.followed = self.checksums_before()?;
        self.mutable = changes;
        if changes != 0 {
            let path = self.path()?;
            (self.sure, received) = (Sure::all(path.valid), path.received);
            self.make_headers(received);
            self.b.def_var(self.valid, valid);
            self.phv = self.load64(self.frame, frame_offset!(phv_bytes));
            let path = self.in_place.as_mut().ok_or(Refused::TooLarge)?;
            path.facts.retain(|((instance, _), _)| changes & bit(*instance) == 0);
        }
        let (done, fail) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(fail, I64);
        self.fail = fail;
        let locals = std::mem::take(&mut self.locals);
        self.body(if self.egress { &program.egress } else { &program.ingress }, &[], done)?;
        self.conclude(done, fail, around, &left)?;
        self.mutable = 0;
        // The parser goes on with other paths, on which they may come with the packet.
        self.made.clear();
        self.followed.clear();
        self.locals = locals;
        self.fail = bail;
        Ok(())
    }

    /// Leaves the packet to the other code unless it has so many bytes.
    fn must_have(&mut self, path: &InPlace, bytes: u32) {
        if bytes > path.checked {
            let need = self.num(bytes.into());
            let short = self.compare(IntCC::UnsignedLessThan, path.len, need);
            self.leave_if(short, 0);
        }
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
        let Some((_, cursor, mut len)) = self.path_cursor() else { return self.num(0) };
        if self.mutable == 0 {
            return len;
        }
        let program = self.program;
        let emitted = program.deparser.emit.iter();
        let stays = emitted.clone().filter(|i| self.surely_valid(**i) == Some(true));
        let stays: u32 = stays.map(|i| self.emitted_bytes(bit(*i))).sum();
        len = self.b.ins().iadd_imm_s(len, i64::from(stays) - i64::from(cursor));
        let open: Vec<_> = emitted.filter(|i| self.surely_valid(**i).is_none()).collect();
        for instance in open {
            let (there, bytes) = (self.valid_bit(*instance), self.emitted_bytes(bit(*instance)));
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
