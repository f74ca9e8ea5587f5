//! Bodies: blocks, operations, assignments.

use super::Verifier;
use crate::ids::*;
use crate::ir::code::{Body, Local};
use crate::ir::layout::ones;
use crate::ir::{FieldLayout, LValue, Op, Param, Term};
use petgraph::algo::is_cyclic_directed;
use petgraph::visit::{Dfs, Walker};

/// The expressions that an operation evaluates, its target's index included.
pub fn op_exprs(op: &Op) -> Vec<ExprId> {
    let mut exprs = match op {
        Op::Set(_, value) => vec![*value],
        Op::SetValid(_)
        | Op::SetInvalid(_)
        | Op::CopyHeader { .. }
        | Op::PushFront(..)
        | Op::PopFront(..)
        | Op::CopyBytes { .. }
        | Op::Resubmit { .. }
        | Op::Recirculate
        | Op::MarkWritten
        | Op::UpdateCrc(_) => Vec::new(),
        Op::Call(_, args) | Op::Digest(_, args) | Op::Extern { args, .. } => args.clone(),
        Op::Count(_, index) | Op::Clone(index) | Op::Truncate(index) => vec![*index],
        Op::Meter { index, color, .. } => [*index].into_iter().chain(*color).collect(),
        Op::RegisterLoad { index, .. } | Op::RegisterStore { index, .. } => vec![*index],
        Op::Random { low, high, .. } => vec![*low, *high],
        Op::Learn { key, args, .. } => key.iter().chain(args).copied().collect(),
    };
    if let Some(LValue::Element { index, .. }) = op_target(op) {
        exprs.push(*index);
    }
    exprs
}

/// The place that an operation assigns to.
pub fn op_target(op: &Op) -> Option<&LValue> {
    match op {
        Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => Some(to),
        Op::Extern { to, .. } => to.as_ref(),
        _ => None,
    }
}

/// The context of a body.
pub(super) struct Site<'b> {
    pub(super) name: &'b str,
    pub(super) body: &'b Body,
    pub(super) is_control: bool,
}

impl Verifier<'_> {
    pub(super) fn controls(&mut self) {
        let program = self.program;
        self.body(&Site { name: "ingress", body: &program.ingress, is_control: true });
        self.body(&Site { name: "egress", body: &program.egress, is_control: true });
        for action in &program.actions {
            self.body(&Site { name: &action.name, body: &action.body, is_control: false });
        }
    }

    fn body(&mut self, site: &Site<'_>) {
        let body = site.body;
        let mut targets_exist = true;
        for (id, block) in body.blocks.entries() {
            for to in block.term.successors() {
                let exists = body.blocks.get(to).is_some();
                targets_exist &= exists;
                self.ensure(exists, || {
                    format!("{}.{id}: jump to {to}, which is not there", site.name)
                });
            }
        }
        if !targets_exist || body.blocks.is_empty() {
            return;
        }
        let graph = body.graph();
        self.ensure(!is_cyclic_directed(&graph), || format!("{}: blocks in a circle", site.name));
        let reached = Dfs::new(&graph, petgraph::graph::NodeIndex::new(0)).iter(&graph).count();
        self.ensure(reached == body.blocks.len(), || {
            format!("{}: a block is never reached", site.name)
        });
        for (id, block) in body.blocks.entries() {
            let place = format!("{}.{id}", site.name);
            for op in &block.ops {
                for expr in op_exprs(&op.op) {
                    self.locals_of(expr, &body.locals, false, &place);
                }
                self.op(&op.op, &body.locals, &place);
            }
            self.term(&block.term, site, &place);
        }
        self.locks(site);
    }

    fn term(&mut self, term: &Term, site: &Site<'_>, place: &str) {
        match term {
            Term::Branch { cond, .. } => {
                self.locals_of(*cond, &site.body.locals, false, place);
                let bits = self.bits(*cond);
                self.ensure(bits == 1, || format!("{place}: a condition of {bits} bits"));
            }
            Term::Switch { value, cases, .. } => {
                self.locals_of(*value, &site.body.locals, false, place);
                let most = ones(self.bits(*value));
                let mut seen: Vec<u128> = cases.iter().map(|(value, _)| *value).collect();
                self.ensure(seen.iter().all(|v| *v <= most), || {
                    format!("{place}: a case too large")
                });
                seen.sort_unstable();
                seen.dedup();
                self.ensure(seen.len() == cases.len(), || format!("{place}: a case twice"));
            }
            Term::Apply { table, by_action, .. } => {
                self.ensure(site.is_control, || format!("{place}: a table applied by an action"));
                let known = self.program.tables.get(*table);
                self.ensure(known.is_some(), || format!("{place}: there is no {table}"));
                for (action, _) in by_action {
                    let known = self.program.actions.get(*action).is_some();
                    self.ensure(known, || format!("{place}: there is no {action}"));
                }
            }
            Term::Drop(reason) | Term::Punt(reason) => {
                let known = self.program.reasons.get(*reason).is_some();
                self.ensure(known, || format!("{place}: there is no {reason}"));
            }
            Term::Jump(_) | Term::Return | Term::Exit => {}
        }
    }

    fn op(&mut self, op: &Op, locals: &IdVec<LocalId, Local>, place: &str) {
        let program = self.program;
        match op {
            Op::Set(to, value) => self.assigned(to, &[*value], locals, place),
            Op::Random { to, low, high } => self.assigned(to, &[*low, *high], locals, place),
            Op::SetValid(id) | Op::SetInvalid(id) => self.instance(*id, place),
            Op::CopyHeader { to, from } => {
                let types = (program.instances.get(*to), program.instances.get(*from));
                let same = matches!(types, (Some(a), Some(b)) if a.header == b.header);
                self.ensure(same, || format!("{place}: {from} is not like {to}"));
            }
            Op::PushFront(stack, count) | Op::PopFront(stack, count) => {
                let fits = program.stacks.get(*stack).is_some_and(|s| (1..=s.len).contains(count));
                self.ensure(fits, || format!("{place}: {stack} moved by {count}"));
            }
            Op::Call(action, args) => {
                let params = program.actions.get(*action).map(|action| action.params.as_slice());
                self.args(params, args, &format!("{place}: call of {action}"));
            }
            Op::Count(counter, index) => {
                let known = program.counters.get(*counter).is_some();
                self.ensure(known, || format!("{place}: there is no {counter}"));
                self.index(*index, place);
            }
            Op::Meter { to, meter, index, color } => {
                let known = program.meters.get(*meter).is_some();
                self.ensure(known, || format!("{place}: there is no {meter}"));
                self.index(*index, place);
                let width = self.place_bits(to, locals);
                self.ensure(width == Some(2), || format!("{place}: a colour has 2 bits"));
                let two = color.is_none_or(|color| self.bits(color) == 2);
                self.ensure(two, || format!("{place}: a colour has 2 bits"));
            }
            Op::RegisterLoad { register, index, first, .. } => {
                self.cells(*register, *first, locals, place);
                self.index(*index, place);
            }
            Op::RegisterStore { register, index, first, cells, locked } => {
                self.cells(*register, *first, locals, place);
                self.index(*index, place);
                let count = program.registers.get(*register).map_or(0, |r| r.cells.len());
                let inside = cells.iter().all(|cell| (*cell as usize) < count);
                let all = !locked || cells.len() == count;
                self.ensure(inside && all, || format!("{place}: cells that are not in {register}"));
            }
            Op::Digest(digest, values) => {
                let fields = program.digests.get(*digest).map(|digest| digest.fields.as_slice());
                self.args(fields, values, &format!("{place}: {digest}"));
            }
            Op::Clone(session) => {
                let bits = self.bits(*session);
                self.ensure(bits == 16, || format!("{place}: a session has 16 bits, not {bits}"));
            }
            Op::Truncate(bytes) => self.index(*bytes, place),
            Op::UpdateCrc(crc) => {
                let known = program.crcs.get(*crc).is_some();
                self.ensure(known, || format!("{place}: there is no {crc}"));
            }
            Op::Learn { table, key, action, args } => {
                let known = program.tables.get(*table);
                let fits = known.is_some_and(|table| {
                    table.keys.len() == key.len()
                        && table.keys.iter().zip(key).all(|(k, v)| k.bits == self.bits(*v))
                });
                self.ensure(fits, || format!("{place}: a key that is not like that of {table}"));
                let params = program.actions.get(*action).map(|action| action.params.as_slice());
                self.args(params, args, &format!("{place}: {action}"));
            }
            Op::Extern { external, args, to } => {
                let known = program.externs.get(*external);
                self.args(
                    known.map(|e| e.params.as_slice()),
                    args,
                    &format!("{place}: {external}"),
                );
                if let Some(to) = to {
                    let width = self.place_bits(to, locals);
                    let fits =
                        known.is_some_and(|e| e.result_bits.is_some() && e.result_bits == width);
                    self.ensure(fits, || format!("{place}: the result of {external} does not fit"));
                }
            }
            Op::CopyBytes { to, from } => {
                for field in [to, from] {
                    if let Err(why) = self.bytes_of(*field) {
                        self.found.push(format!("{place}: {why}"));
                    }
                }
            }
            Op::Resubmit { .. } | Op::Recirculate | Op::MarkWritten => {}
        }
    }

    fn instance(&mut self, id: InstanceId, place: &str) {
        let known = self.program.instances.get(id).is_some();
        self.ensure(known, || format!("{place}: there is no {id}"));
    }

    fn index(&mut self, id: ExprId, place: &str) {
        let bits = self.bits(id);
        self.ensure(bits == 32, || format!("{place}: an index or length of {bits} bits"));
    }

    fn cells(
        &mut self,
        register: RegisterId,
        first: LocalId,
        locals: &IdVec<LocalId, Local>,
        place: &str,
    ) {
        let Some(known) = self.program.registers.get(register) else {
            self.found.push(format!("{place}: there is no {register}"));
            return;
        };
        let fits = known.cells.iter().enumerate().all(|(at, cell)| {
            locals.get(LocalId(first.0 + at as u32)).is_some_and(|local| local.bits == cell.bits)
        });
        self.ensure(fits, || format!("{place}: locals that are not like the cells of {register}"));
    }

    /// Checks arguments: as many values as parameters, with the same widths.
    pub(super) fn args(&mut self, params: Option<&[Param]>, values: &[ExprId], what: &str) {
        let fits = params.is_some_and(|params| {
            params.len() == values.len()
                && params.iter().zip(values).all(|(param, value)| param.bits == self.bits(*value))
        });
        self.ensure(fits, || format!("{what}: arguments that do not fit"));
    }

    /// Checks values: as wide as the place they are assigned to.
    pub(super) fn assigned(
        &mut self,
        to: &LValue,
        values: &[ExprId],
        locals: &IdVec<LocalId, Local>,
        place: &str,
    ) {
        let Some(bits) = self.place_bits(to, locals) else {
            self.found.push(format!("{place}: {to:?} cannot be assigned"));
            return;
        };
        for value in values {
            let found = self.bits(*value);
            self.ensure(found == bits, || format!("{place}: {found} bits for {to:?} of {bits}"));
        }
    }

    fn place_bits(&self, to: &LValue, locals: &IdVec<LocalId, Local>) -> Option<u32> {
        let scalar = |instance: &InstanceId, field: &FieldId| {
            let header = self.program.instances.get(*instance)?.header;
            let layout = &self.program.headers.get(header)?.fields.get(*field)?.layout;
            let scalar = matches!(layout, FieldLayout::Run { .. } | FieldLayout::Pieces(_));
            scalar.then(|| self.field_bits(*instance, *field)).flatten()
        };
        match to {
            LValue::Field(instance, field) => scalar(instance, field),
            LValue::FieldSlice { instance, field, high, low } => {
                let bits = scalar(instance, field)?;
                (low <= high && *high < bits).then(|| high - low + 1)
            }
            LValue::Element { instance, field, index } => {
                let is_index = self.bits(*index) == 32;
                is_index.then(|| self.field_bits(*instance, *field)).flatten()
            }
            LValue::Meta(id) => self.program.metadata.get(*id).map(|meta| meta.bits),
            LValue::Std(field) => Some(field.bits()),
            LValue::Local(id) => locals.get(*id).map(|local| local.bits),
        }
    }
}
