//! What a program reads: metadata and fields anywhere, locals by one pass backwards; and so which assignments matter.
//!
//! Metadata and fields are analysed for the whole program, without an order: a read by any expression counts, wherever
//! it is. Locals belong to one body, which is a graph without cycles, so that one backward pass finds exactly which are
//! read later.

use crate::ids::*;
use crate::ir::eval::{may_end, operands};
use crate::ir::verify::{op_exprs, op_target};
use crate::ir::*;
use fixedbitset::FixedBitSet;
use petgraph::algo::toposort;
use std::collections::BTreeSet;

/// The reads of a program, anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// By metadata field: an expression reads it, or it crosses the queue.
    pub metadata: Vec<bool>,
    /// Fields that some expression reads.
    pub fields: BTreeSet<(InstanceId, FieldId)>,
    /// Instances, bit by id, whose bytes matter as a whole: they are emitted, covered by a checksum or CRC, copied, or have fields
    /// that overlap.
    pub whole: u64,
}

impl Reads {
    /// Analyses a program.
    pub fn of(program: &Program) -> Reads {
        let mut reads = Reads {
            metadata: program.metadata.iter().map(|meta| meta.carried_at.is_some()).collect(),
            ..Reads::default()
        };
        let mut seen = vec![false; program.exprs.len()];
        let mut open = roots(program);
        while let Some(id) = open.pop() {
            if seen.get_mut(id.index()).is_none_or(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            let kind = &program.exprs[id].kind;
            reads.note(program, kind);
            open.extend(operands(kind));
        }
        reads.whole = whole(program);
        reads
    }

    /// True when the value of a field can matter.
    pub fn field(&self, instance: InstanceId, field: FieldId) -> bool {
        let bit = 1u64.checked_shl(instance.0).unwrap_or(u64::MAX);
        self.whole & bit != 0 || self.fields.contains(&(instance, field))
    }

    /// Whether the value of a place that is not a local can matter.
    pub fn place(&self, to: &LValue) -> bool {
        match to {
            LValue::Meta(meta) => self.metadata.get(meta.index()).copied().unwrap_or(true),
            LValue::Field(instance, field) | LValue::FieldSlice { instance, field, .. } => {
                self.field(*instance, *field)
            }
            // An index out of range ends the pass.
            LValue::Element { .. } | LValue::Std(_) | LValue::Local(_) => true,
        }
    }

    fn note(&mut self, program: &Program, kind: &ExprKind) {
        match kind {
            ExprKind::Meta(meta) => {
                if let Some(read) = self.metadata.get_mut(meta.index()) {
                    *read = true;
                }
            }
            ExprKind::Field(instance, field) | ExprKind::Element { instance, field, .. } => {
                self.fields.insert((*instance, *field));
            }
            ExprKind::StackLast(stack, field) => {
                let elements = elements(program, *stack);
                self.fields.extend(elements.map(|instance| (instance, *field)));
            }
            _ => {}
        }
    }
}

fn elements(program: &Program, stack: StackId) -> impl Iterator<Item = InstanceId> {
    let stack = &program.stacks[stack];
    (stack.first.0..stack.first.0 + stack.len).map(InstanceId)
}

/// Every body of a program.
pub(super) fn bodies(program: &Program) -> impl Iterator<Item = &Body> {
    let actions = program.actions.iter().map(|action| &action.body);
    [&program.ingress, &program.egress].into_iter().chain(actions)
}

/// Expressions that are evaluated other than as operands.
fn roots(program: &Program) -> Vec<ExprId> {
    let mut roots: Vec<ExprId> = program.instances.iter().filter_map(|i| i.variable_bits).collect();
    for state in &program.parser.states {
        roots.extend(state.ops.iter().flat_map(parser_op_exprs));
        if let Transition::Select { keys, .. } = &state.next {
            roots.extend(keys);
        }
    }
    for block in bodies(program).flat_map(|body| &body.blocks) {
        roots.extend(block.ops.iter().flat_map(|op| op_exprs(&op.op)));
        roots.extend(term_expr(&block.term));
    }
    for table in &program.tables {
        roots.extend(table.keys.iter().map(|key| key.value));
        roots.extend(table.selector.iter().flat_map(|selector| &selector.keys));
    }
    roots.extend(program.digests.iter().flat_map(|digest| &digest.values));
    for item in &program.deparser.after {
        if let AfterBody::Pad { bytes, when, .. } = item {
            roots.extend([*bytes].into_iter().chain(*when));
        }
    }
    let checksums = program.checksums.iter().map(|sum| (&sum.over, sum.when));
    for (over, when) in checksums.chain(program.crcs.iter().map(|crc| (&crc.over, crc.when))) {
        roots.extend(when);
        roots.extend(over.iter().filter_map(|part| match part {
            Covered::Value(value) => Some(*value),
            _ => None,
        }));
    }
    for (value, present) in [program.qos.dscp, program.qos.pcp].into_iter().flatten() {
        roots.extend([value, present]);
    }
    roots
}

/// The expressions that an operation of the parser evaluates.
fn parser_op_exprs(op: &ParserOp) -> Vec<ExprId> {
    match op {
        ParserOp::Extract(_)
        | ParserOp::ExtractNext(_)
        | ParserOp::SetValid(_)
        | ParserOp::SetInvalid(_) => Vec::new(),
        ParserOp::ExtractAt(_, value)
        | ParserOp::Advance(value)
        | ParserOp::BodyEnd(value)
        | ParserOp::Verify(value, _) => vec![*value],
        ParserOp::Set(LValue::Element { index, .. }, value) => vec![*index, *value],
        ParserOp::Set(_, value) => vec![*value],
    }
}

/// The expression that a terminator evaluates.
fn term_expr(term: &Term) -> Option<ExprId> {
    match term {
        Term::Branch { cond, .. } => Some(*cond),
        Term::Switch { value, .. } => Some(*value),
        _ => None,
    }
}

/// Instances whose bytes matter as a whole. Parts of a wide field may overlap, so that a read of one may read what is written to another.
fn whole(program: &Program) -> u64 {
    let bit = |instance: &InstanceId| 1u64.checked_shl(instance.0).unwrap_or(u64::MAX);
    let mut whole = program.deparser.emit.iter().map(bit).fold(0, |a, b| a | b);
    for (instance, declared) in program.instances.entries() {
        if program.headers[declared.header].fields.iter().any(|field| field.part_of.is_some()) {
            whole |= bit(&instance);
        }
    }
    for item in &program.deparser.after {
        if let AfterBody::Header(instance) = item {
            whole |= bit(instance);
        }
    }
    let sums = program.checksums.iter().map(|sum| (&sum.over, sum.field));
    for (over, field) in sums.chain(program.crcs.iter().map(|crc| (&crc.over, crc.field))) {
        whole |= bit(&field.0);
        for part in over {
            if let Covered::Header { instance, .. } = part {
                whole |= bit(instance);
            }
        }
    }
    for expr in &program.exprs {
        match &expr.kind {
            ExprKind::Bytes(instance, _) => whole |= bit(instance),
            ExprKind::SameBytes(a, b) => whole |= bit(&a.0) | bit(&b.0),
            _ => {}
        }
    }
    for op in bodies(program).flat_map(|body| &body.blocks).flat_map(|block| &block.ops) {
        match &op.op {
            Op::CopyHeader { from, .. } => whole |= bit(from),
            Op::CopyBytes { from, .. } => whole |= bit(&from.0),
            Op::PushFront(stack, _) | Op::PopFront(stack, _) => {
                whole |= elements(program, *stack).map(|i| bit(&i)).fold(0, |a, b| a | b);
            }
            _ => {}
        }
    }
    whole
}

/// Adds the locals that an expression reads.
fn locals_of(program: &Program, id: ExprId, live: &mut FixedBitSet) {
    let kind = &program.exprs[id].kind;
    if let ExprKind::Local(local) = kind {
        live.insert(local.index());
    }
    for operand in operands(kind) {
        locals_of(program, operand, live);
    }
}

/// For each block, which of its operations matter. An assignment does not if nothing reads its value later, or only
/// assignments that do not matter, and computing it cannot end the pass.
pub fn that_matter(program: &Program, reads: &Reads, body: &Body) -> IdVec<BlockId, Vec<bool>> {
    let mut matter: IdVec<BlockId, Vec<bool>> =
        body.blocks.iter().map(|block| vec![true; block.ops.len()]).collect();
    let mut entry: IdVec<BlockId, FixedBitSet> =
        body.blocks.iter().map(|_| FixedBitSet::new()).collect();
    let order = toposort(&body.graph(), None).unwrap_or_default();
    for node in order.into_iter().rev() {
        let id = BlockId(node.index() as u32);
        let block = &body.blocks[id];
        // The locals that are read later before they are set again.
        let mut live = FixedBitSet::with_capacity(body.locals.len());
        for next in block.term.successors() {
            live.union_with(&entry[next]);
        }
        if let Some(value) = term_expr(&block.term) {
            locals_of(program, value, &mut live);
        }
        for (n, op) in block.ops.iter().enumerate().rev() {
            let is_read = match &op.op {
                Op::Set(LValue::Local(local), value) => {
                    live.contains(local.index()) || may_end(&program.exprs, *value)
                }
                Op::Set(to, value) => reads.place(to) || may_end(&program.exprs, *value),
                _ => true,
            };
            matter[id][n] = is_read;
            if is_read {
                step_back(program, &op.op, &mut live);
            }
        }
        entry[id] = live;
    }
    matter
}

/// From the live locals after an operation to those before it.
fn step_back(program: &Program, op: &Op, live: &mut FixedBitSet) {
    let cell = |first: &LocalId, n: usize| first.index() + n;
    if let Some(LValue::Local(local)) = op_target(op) {
        live.remove(local.index());
    }
    match op {
        Op::RegisterLoad { register, first, .. } => {
            let cells = program.registers[*register].cells.len();
            (0..cells).for_each(|n| live.remove(cell(first, n)));
        }
        Op::RegisterStore { first, cells, .. } => {
            cells.iter().for_each(|n| live.insert(cell(first, *n as usize)));
        }
        _ => {}
    }
    for value in op_exprs(op) {
        locals_of(program, value, live);
    }
}
