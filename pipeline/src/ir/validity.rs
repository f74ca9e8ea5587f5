//! Which headers may be valid, and which must be, at every point of a program.
//!
//! A forward data-flow over the parser graph and the control graphs. Branches on `h.valid` refine it, so code under
//! `if: ipv6.valid` of a program that never extracts `ipv6` is known not to run. The effect of a table is the join over
//! its actions. The sets are bit masks by [`InstanceId`].

use super::code::{Body, Op, Term};
use super::decl::AfterBody;
use super::expr::{BinOp, ExprKind, UnOp};
use super::parser::{ParserOp, Target};
use super::{LValue, Program, SourceSpan};
use crate::ids::*;
use petgraph::visit::DfsPostOrder;
use std::collections::BTreeMap;

/// Headers that may be valid, and those that must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// Bit set: valid on some path.
    pub may: u64,
    /// Bit set: valid on every path.
    pub must: u64,
}

impl Validity {
    /// Either of two paths.
    pub fn join(self, other: Validity) -> Validity {
        Validity { may: self.may | other.may, must: self.must & other.must }
    }

    /// Only these headers stay.
    fn within(self, mask: u64) -> Validity {
        Validity { may: self.may & mask, must: self.must & mask }
    }

    /// Whether the header may be valid.
    pub fn may(self, id: InstanceId) -> bool {
        self.may & bit(id) != 0
    }

    /// Whether the header must be valid.
    pub fn must(self, id: InstanceId) -> bool {
        self.must & bit(id) != 0
    }

    fn set(&mut self, id: InstanceId) {
        self.may |= bit(id);
        self.must |= bit(id);
    }

    fn clear(&mut self, id: InstanceId) {
        self.may &= !bit(id);
        self.must &= !bit(id);
    }
}

/// The bit of an instance in a validity mask.
pub(crate) fn bit(id: InstanceId) -> u64 {
    1u64.checked_shl(id.0).unwrap_or(0)
}

fn join_into(slot: &mut Option<Validity>, value: Validity) -> bool {
    let joined = slot.map_or(value, |known| known.join(value));
    let changed = *slot != Some(joined);
    *slot = Some(joined);
    changed
}

/// Validity after the parser.
#[derive(Clone, Debug, Default)]
pub struct ParserValidity {
    /// At the start of each state; `None` for a state that is never reached.
    pub entry: Vec<Option<Validity>>,
    /// When the parser accepts.
    pub accept: Option<Validity>,
    /// When it stops anywhere, with an error too.
    pub end: Option<Validity>,
    /// The same for the parser of egress; `None` if egress has no parser.
    pub egress_end: Option<Validity>,
}

/// Headers at the start of every parser state and at its end.
pub fn parser(program: &Program) -> ParserValidity {
    let states = &program.parser.states;
    let mut found = ParserValidity { entry: vec![None; states.len()], ..Default::default() };
    let start = Validity::default();
    if states.is_empty() {
        (found.accept, found.end) = (Some(start), Some(start));
        return found;
    }
    walk_states(program, StateId(0), &mut found);
    if let Some(egress) = program.parser.egress {
        let ingress = (found.accept.take(), found.end.take());
        walk_states(program, egress, &mut found);
        found.egress_end = found.end;
        (found.accept, found.end) = ingress;
    }
    found
}

/// Headers in the states that are reached from this one.
fn walk_states(program: &Program, first: StateId, found: &mut ParserValidity) {
    let states = &program.parser.states;
    let mut open = vec![first];
    if let Some(entry) = found.entry.get_mut(first.index()) {
        *entry = Some(Validity::default());
    }
    while let Some(id) = open.pop() {
        let (Some(state), Some(Some(mut now))) =
            (states.get(id), found.entry.get(id.index()).copied())
        else {
            continue;
        };
        for op in &state.ops {
            join_into(&mut found.end, now);
            parser_op(program, op, &mut now);
        }
        join_into(&mut found.end, now);
        for target in state.next.targets() {
            match target {
                Target::State(to) => {
                    if let Some(entry) = found.entry.get_mut(to.index())
                        && join_into(entry, now)
                    {
                        open.push(to);
                    }
                }
                Target::Accept => {
                    join_into(&mut found.accept, now);
                }
                Target::Reject(_) => {}
            }
        }
    }
}

/// The effect of one parser operation that succeeds.
pub fn parser_op(program: &Program, op: &ParserOp, now: &mut Validity) {
    match op {
        ParserOp::Extract(id) | ParserOp::ExtractAt(id, _) | ParserOp::SetValid(id) => now.set(*id),
        ParserOp::SetInvalid(id) => now.clear(*id),
        ParserOp::ExtractNext(stack) => {
            let elements = stack_bits(program, *stack);
            // The first element that may be free is valid afterwards, the others may be.
            let first_free = elements & !now.must & (elements & !now.must).wrapping_neg();
            now.must |= first_free & !(now.may & !now.must);
            now.may |= elements;
        }
        _ => {}
    }
}

fn stack_bits(program: &Program, id: StackId) -> u64 {
    let Some(stack) = program.stacks.get(id) else { return 0 };
    (0..stack.len).fold(0, |bits, at| bits | bit(InstanceId(stack.first.0 + at)))
}

/// A use of a header's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// This expression reads it.
    Read(ExprId),
    /// An assignment by the operation at this place.
    Write(Option<SourceSpan>),
}

/// Receives every reachable use of a header.
pub trait Watch {
    /// A header's contents are used while these headers are valid.
    fn touch(&mut self, touch: Touch, instance: InstanceId, now: Validity);
}

/// Watches nothing.
impl Watch for () {
    fn touch(&mut self, _: Touch, _: InstanceId, _: Validity) {}
}

/// Headers at the end of ingress and of egress; `None` when a control never ends by forwarding.
pub fn controls(program: &Program, watch: &mut dyn Watch) -> (Option<Validity>, Option<Validity>) {
    let parsed = parser(program);
    let start = if program.parser.drop_on_error { parsed.accept } else { parsed.end };
    // A parser that never accepts still passes its errors to ingress.
    let start = start.or(parsed.end).unwrap_or_default();
    let mut walk = Walk::new(program, watch);
    let ingress = walk.control(&program.ingress, start);
    let kept = kept_across_queue(program);
    let mut start = ingress.map(|end| end.within(kept));
    if program.uses(|op| matches!(op, Op::Clone(_)))
        && let Some(parsed) = parsed.end
    {
        // Egress parses copies of the packet as received.
        join_into(&mut start, parsed);
    }
    let is_parsed_again = program.parser.egress.is_some();
    if is_parsed_again {
        start = parsed.egress_end;
    }
    let Some(mut start) = start else { return (ingress, None) };
    let mut walk = Walk::new(program, watch);
    loop {
        let end = walk.control(&program.egress, start);
        // Egress finds the headers of copies that it made as it left them, those of packets that it drops too.
        let copies = [end, walk.drops].into_iter().flatten().map(|left| left.within(kept));
        let next = copies.fold(start, Validity::join);
        if next == start || is_parsed_again || !walk.clones {
            return (ingress, end);
        }
        start = next;
    }
}

/// Headers that egress can locate again: those that are emitted.
fn kept_across_queue(program: &Program) -> u64 {
    let emit = program.deparser.emit.iter().copied();
    let after = program.deparser.after.iter().filter_map(|item| match item {
        AfterBody::Header(id) => Some(*id),
        AfterBody::Pad { .. } => None,
    });
    emit.chain(after).fold(0, |bits, id| bits | bit(id))
}

struct Walk<'p, 'w> {
    program: &'p Program,
    watch: &'w mut dyn Watch,
    /// Validity after an action, by that before it; `None` when it never returns.
    memo: BTreeMap<(ActionId, Validity), Option<Validity>>,
    /// Validity where the pass ended by `exit`.
    exits: Option<Validity>,
    /// Validity where the packet was dropped or punted.
    drops: Option<Validity>,
    /// A copy is made of a packet.
    clones: bool,
}

impl<'p, 'w> Walk<'p, 'w> {
    fn new(program: &'p Program, watch: &'w mut dyn Watch) -> Walk<'p, 'w> {
        Walk { program, watch, memo: BTreeMap::new(), exits: None, drops: None, clones: false }
    }

    fn control(&mut self, body: &Body, start: Validity) -> Option<Validity> {
        let mut end = self.body(body, start);
        if let Some(exit) = self.exits {
            join_into(&mut end, exit);
        }
        end
    }

    /// Runs a body; returns the validity at its return.
    fn body(&mut self, body: &Body, start: Validity) -> Option<Validity> {
        if body.blocks.is_empty() {
            return Some(start);
        }
        let mut entry: Vec<Option<Validity>> = vec![None; body.blocks.len()];
        if let Some(first) = entry.first_mut() {
            *first = Some(start);
        }
        let mut end = None;
        for id in order(body) {
            let (Some(block), Some(Some(mut now))) =
                (body.blocks.get(id), entry.get(id.index()).copied())
            else {
                continue;
            };
            let mut alive = true;
            for op in &block.ops {
                if !self.op(&op.op, op.span, &mut now) {
                    alive = false;
                    break;
                }
            }
            if alive {
                self.term(&block.term, now, &mut entry, &mut end);
            }
        }
        end
    }

    fn term(
        &mut self,
        term: &Term,
        now: Validity,
        entry: &mut [Option<Validity>],
        end: &mut Option<Validity>,
    ) {
        let mut go = |to: BlockId, now: Validity| {
            if let Some(slot) = entry.get_mut(to.index()) {
                join_into(slot, now);
            }
        };
        match term {
            Term::Jump(to) => go(*to, now),
            Term::Branch { cond, then, otherwise } => {
                self.reads(*cond, now);
                if let Some(now) = assume(self.program, *cond, true, now) {
                    go(*then, now);
                }
                if let Some(now) = assume(self.program, *cond, false, now) {
                    go(*otherwise, now);
                }
            }
            Term::Switch { value, cases, default } => {
                self.reads(*value, now);
                cases.iter().map(|(_, to)| *to).chain([*default]).for_each(|to| go(to, now));
            }
            Term::Apply { table, by_action, hit, miss } => {
                let Some(known) = self.program.tables.get(*table) else { return };
                for key in known.keys.iter().map(|key| key.value) {
                    self.reads(key, now);
                }
                for key in known.selector.iter().flat_map(|selector| &selector.keys) {
                    self.reads(*key, now);
                }
                let mut actions = known.actions.clone();
                if !actions.contains(&known.default.action) {
                    actions.push(known.default.action);
                }
                for action in actions {
                    let Some(after) = self.action(action, now) else { continue };
                    match by_action.iter().find(|(known, _)| *known == action) {
                        Some((_, to)) => go(*to, after),
                        None => {
                            go(*hit, after);
                            go(*miss, after);
                        }
                    }
                }
            }
            Term::Return => {
                join_into(end, now);
            }
            Term::Exit => {
                join_into(&mut self.exits, now);
            }
            Term::Drop(_) | Term::Punt(_) => {
                join_into(&mut self.drops, now);
            }
        }
    }

    fn action(&mut self, action: ActionId, now: Validity) -> Option<Validity> {
        if let Some(known) = self.memo.get(&(action, now)) {
            return *known;
        }
        // The checker refuses recursion; until then a recursive call counts as never returning.
        self.memo.insert((action, now), None);
        let program = self.program;
        let end = program.actions.get(action).and_then(|action| self.body(&action.body, now));
        self.memo.insert((action, now), end);
        end
    }

    /// Runs an operation; false when the operations after it never run.
    fn op(&mut self, op: &Op, span: Option<SourceSpan>, now: &mut Validity) -> bool {
        for expr in super::verify::op_exprs(op) {
            self.reads(expr, *now);
        }
        if let Some(
            LValue::Field(id, _)
            | LValue::FieldSlice { instance: id, .. }
            | LValue::Element { instance: id, .. },
        ) = super::verify::op_target(op)
        {
            self.watch.touch(Touch::Write(span), *id, *now);
        }
        match op {
            Op::SetValid(id) => now.set(*id),
            Op::SetInvalid(id) => now.clear(*id),
            Op::CopyBytes { to, .. } => self.watch.touch(Touch::Write(span), to.0, *now),
            Op::CopyHeader { to, from } => {
                let source = *now;
                now.clear(*to);
                now.may |= if source.may(*from) { bit(*to) } else { 0 };
                now.must |= if source.must(*from) { bit(*to) } else { 0 };
            }
            Op::PushFront(stack, count) | Op::PopFront(stack, count) => {
                let elements = stack_bits(self.program, *stack);
                let shifted = |bits: u64| {
                    let inside = bits & elements;
                    let moved = match op {
                        Op::PushFront(..) => inside.checked_shl(*count).unwrap_or(0),
                        _ => inside.checked_shr(*count).unwrap_or(0),
                    };
                    bits & !elements | moved & elements
                };
                *now = Validity { may: shifted(now.may), must: shifted(now.must) };
            }
            Op::Clone(_) => self.clones = true,
            Op::Call(action, _) => match self.action(*action, *now) {
                Some(after) => *now = after,
                None => return false,
            },
            _ => {}
        }
        true
    }

    /// Reports to the watcher what an expression reads; the right side of `&&` under its left.
    fn reads(&mut self, id: ExprId, now: Validity) {
        let program = self.program;
        let Some(expr) = program.exprs.get(id) else { return };
        match &expr.kind {
            ExprKind::Field(instance, _)
            | ExprKind::HeaderLength(instance)
            | ExprKind::Bytes(instance, _) => {
                self.watch.touch(Touch::Read(id), *instance, now);
            }
            ExprKind::SameBytes(a, b) => {
                self.watch.touch(Touch::Read(id), a.0, now);
                self.watch.touch(Touch::Read(id), b.0, now);
            }
            ExprKind::Element { instance, index, .. } => {
                self.watch.touch(Touch::Read(id), *instance, now);
                self.reads(*index, now);
            }
            ExprKind::StackLast(stack, _) => {
                if let Some(stack) = program.stacks.get(*stack) {
                    let any = now.may & stack_bits(program, stack_id(program, stack.first)) != 0;
                    let first = stack.first;
                    let now = if any { Validity { may: now.may | bit(first), ..now } } else { now };
                    self.watch.touch(Touch::Read(id), first, now);
                }
            }
            ExprKind::Binary(op @ (BinOp::LogicalAnd | BinOp::LogicalOr), left, right) => {
                self.reads(*left, now);
                if let Some(now) = assume(program, *left, *op == BinOp::LogicalAnd, now) {
                    self.reads(*right, now);
                }
            }
            ExprKind::Mux(cond, then, otherwise) => {
                self.reads(*cond, now);
                if let Some(now) = assume(program, *cond, true, now) {
                    self.reads(*then, now);
                }
                if let Some(now) = assume(program, *cond, false, now) {
                    self.reads(*otherwise, now);
                }
            }
            kind => super::eval::operands(kind).into_iter().for_each(|part| self.reads(part, now)),
        }
    }
}

fn stack_id(program: &Program, first: InstanceId) -> StackId {
    let instance = program.instances.get(first);
    instance.and_then(|instance| instance.element).map_or(StackId(u32::MAX), |(stack, _)| stack)
}

/// Validity when a condition is `truth`; `None` when it cannot be.
pub fn assume(program: &Program, cond: ExprId, truth: bool, now: Validity) -> Option<Validity> {
    split(program, cond, now)[usize::from(truth)]
}

/// Validity where a condition is false, and where it is true; `None` where it cannot be. Both at once: a condition that is asked for
/// each of them asks its parts twice, and theirs four times.
fn split(program: &Program, cond: ExprId, now: Validity) -> [Option<Validity>; 2] {
    let Some(expr) = program.exprs.get(cond) else { return [Some(now); 2] };
    let then = |at: Option<Validity>, id| at.map_or([None; 2], |now| split(program, id, now));
    match expr.kind {
        ExprKind::Const(0) => [Some(now), None],
        ExprKind::Const(_) => [None, Some(now)],
        ExprKind::Valid(id) => [
            (!now.must(id)).then_some(Validity { may: now.may & !bit(id), ..now }),
            now.may(id).then_some(Validity { must: now.must | bit(id), ..now }),
        ],
        ExprKind::Unary(UnOp::Not, inner) => {
            let [no, yes] = split(program, inner, now);
            [yes, no]
        }
        ExprKind::Binary(BinOp::LogicalAnd, left, right) => {
            let [no, yes] = split(program, left, now);
            let [late, both] = then(yes, right);
            [either(no, late), both]
        }
        ExprKind::Binary(BinOp::LogicalOr, left, right) => {
            let [no, yes] = split(program, left, now);
            let [none, late] = then(no, right);
            [none, either(yes, late)]
        }
        _ => [Some(now); 2],
    }
}

/// Validity after one way or another; `None` for a way that cannot be.
fn either(one: Option<Validity>, other: Option<Validity>) -> Option<Validity> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.join(other)),
        (one, other) => one.or(other),
    }
}

/// Blocks, each after all of its predecessors.
pub(crate) fn order(body: &Body) -> Vec<BlockId> {
    let graph = body.graph();
    let mut walk = DfsPostOrder::new(&graph, petgraph::graph::NodeIndex::new(0));
    let mut order = Vec::new();
    while let Some(node) = walk.next(&graph) {
        order.extend(graph.node_weight(node).copied());
    }
    order.reverse();
    order
}
