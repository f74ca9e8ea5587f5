//! Side effects of a change of a header's validity: the length of a variable part that an `extract` gave, and the other
//! headers of a union.
//!
//! Both are lowered to operations that the IR has. A given length is a metadata field of the header's own, which is
//! carried: egress needs it to locate the header again. A header of a union that becomes valid makes the others
//! invalid.

use super::cx::{Cx, InstanceRef};
use super::flow::Flow;
use super::parser::ops::Ops;
use crate::ast::*;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::{
    BinOp, Display, ExprKind, FieldLayout, LValue, Meta, Op, ParserOp, SourceSpan, Term,
};

impl Cx<'_> {
    /// Declares the unions: for every header in one, the others.
    pub(crate) fn declare_unions(&mut self) {
        let unions: Vec<_> = self.scope.unions.values().copied().collect();
        for union in unions {
            let mut members: Vec<(InstanceId, SourceSpan)> = Vec::new();
            for name in union.decl {
                let Some(Symbol::Instance(index)) = self.scope.symbol(&name.value) else {
                    self.no_such(name, "a header", |symbol| matches!(symbol, Symbol::Instance(_)));
                    continue;
                };
                match self.instance_ref(index) {
                    Some(InstanceRef::One(id)) => self.add_member(&mut members, id, name),
                    Some(InstanceRef::Stack(_)) => {
                        let text =
                            format!("`{}` is a stack; a union has single headers", name.value);
                        self.report.error(codes::WRONG_KIND, name.span, text);
                    }
                    None => {}
                }
            }
            for (id, _) in &members {
                let others = members.iter().map(|(other, _)| *other).filter(|other| other != id);
                self.rivals.insert(*id, others.collect());
            }
        }
    }

    fn add_member(
        &mut self,
        members: &mut Vec<(InstanceId, SourceSpan)>,
        id: InstanceId,
        name: &Name,
    ) {
        let first = members.iter().find(|(known, _)| *known == id).map(|(_, span)| *span);
        if first.is_none() && !self.rivals.contains_key(&id) {
            return members.push((id, name.span));
        }
        let text = format!("`{}` is in a union already", name.value);
        let error = self.report.error(codes::TWICE, name.span, text);
        if let Some(first) = first {
            error.label(first, "here");
        }
    }

    /// Declares a metadata field for the length of each variable part whose header type does not define it.
    pub(crate) fn declare_given_lengths(&mut self, sizes: &mut Vec<(Name, u32)>) {
        for id in self.ir.instances.ids() {
            let Some(instance) = self.ir.instances.get(id) else { continue };
            let Some(header) = self.ir.headers.get(instance.header) else { continue };
            let variable = header.variable.and_then(|field| header.fields.get(field));
            let layout = variable.map(|field| &field.layout);
            let Some(FieldLayout::Variable { max_bytes, .. }) = layout else { continue };
            let declared = self.scope.headers.get(header.name.as_str());
            let says = declared.is_some_and(|item| {
                let mut fields = item.decl.fields.iter();
                fields.any(|(_, f)| matches!(f, FieldDecl::Variable { length: Some(_), .. }))
            });
            let Some(span) = header.span.filter(|_| !says) else { continue };
            let bits = u32::BITS - (max_bytes * 8).leading_zeros();
            let name = format!("{}.varbits", instance.name);
            let bytes = bits.div_ceil(8);
            let meta =
                Meta { name: name.clone(), bits, carried_at: Some(0), display: Display::Decimal };
            let meta = self.ir.metadata.push(meta);
            sizes.push((Sp::new(name, span), bytes));
            self.given_lengths.insert(id, meta);
            let value = self.node(ExprKind::Meta(meta), bits, span);
            let value = self.node(ExprKind::Cast(value), 32, span);
            if let Some(instance) = self.ir.instances.iter_mut().nth(id.index()) {
                instance.variable_bits = Some(value);
            }
        }
    }

    /// Checks that a variable part has its length from its header type or from the `extract`, and not from both.
    pub(super) fn length_is_given_once(
        &mut self,
        header: InstanceRef,
        given: bool,
        name: &Name,
    ) -> bool {
        let first = match header {
            InstanceRef::One(id) => Some(id),
            InstanceRef::Stack(id) => self.ir.stacks.get(id).map(|stack| stack.first),
        };
        let Some(first) = first else { return false };
        let wanted = self.given_lengths.contains_key(&first);
        let has_length =
            self.ir.instances.get(first).is_some_and(|known| known.variable_bits.is_some());
        let (text, help) = match (wanted, given) {
            (true, false) => (
                format!("nothing says how long the variable part of `{}` is", name.value),
                format!(
                    "give its bits: `do: [ \"extract({}, bits)\" ]`, or declare its `length`",
                    name.value
                ),
            ),
            (false, true) if has_length => (
                format!("the header type of `{}` says how long its variable part is", name.value),
                format!("write `extract({})`, or declare no `length`", name.value),
            ),
            (false, true) => (
                format!("`{}` has no variable part", name.value),
                format!("write `extract({})`", name.value),
            ),
            _ => return true,
        };
        self.report.error(codes::ARGUMENTS, name.span, text).help(help);
        false
    }

    /// Stores the length for the next `extract` of a header. A length above the maximum is stored as all ones, which
    /// are not whole bytes, so that the extraction fails with `header_length`.
    pub(super) fn give_length(
        &mut self,
        ops: &mut Ops,
        header: InstanceRef,
        bits: ExprId,
        span: SourceSpan,
    ) {
        let local = self.new_local("length", 32);
        ops.push(ParserOp::Set(LValue::Local(local), bits), span);
        let elements = match header {
            InstanceRef::One(id) => vec![id],
            InstanceRef::Stack(id) => self.elements(id),
        };
        for id in elements {
            let Some(meta) = self.given_lengths.get(&id).copied() else { continue };
            let width = self.ir.metadata.get(meta).map_or(32, |meta| meta.bits);
            let given = self.node(ExprKind::Local(local), 32, span);
            let most = self.constant(ones(width), 32, span);
            let over = self.node(ExprKind::Binary(BinOp::Lt, most, given), 1, span);
            let all = self.constant(ones(width), width, span);
            let cut = self.node(ExprKind::Cast(given), width, span);
            let mut value = self.node(ExprKind::Mux(over, all, cut), width, span);
            if matches!(header, InstanceRef::Stack(_)) {
                // Of a stack the first free element is extracted; valid ones keep their lengths.
                let valid = self.node(ExprKind::Valid(id), 1, span);
                let old = self.node(ExprKind::Meta(meta), width, span);
                value = self.node(ExprKind::Mux(valid, old, value), width, span);
            }
            ops.push(ParserOp::Set(LValue::Meta(meta), value), span);
        }
    }

    /// The given length of a header that `set_valid` makes valid: none, and that of one that is valid stays.
    pub(super) fn length_of_new(
        &mut self,
        id: InstanceId,
        span: SourceSpan,
    ) -> Option<(MetaId, ExprId)> {
        let meta = self.given_lengths.get(&id).copied()?;
        let bits = self.ir.metadata.get(meta).map_or(32, |meta| meta.bits);
        let valid = self.node(ExprKind::Valid(id), 1, span);
        let old = self.node(ExprKind::Meta(meta), bits, span);
        let none = self.constant(0, bits, span);
        Some((meta, self.node(ExprKind::Mux(valid, old, none), bits, span)))
    }

    /// An operation of a control, with the side effects of a changed validity.
    pub(super) fn header_op(&mut self, flow: &mut Flow, op: Op, span: SourceSpan) {
        match op {
            Op::SetValid(id) => {
                if let Some((meta, value)) = self.length_of_new(id, span) {
                    flow.op(Op::Set(LValue::Meta(meta), value), span);
                }
                flow.op(op, span);
                self.remove_rivals(flow, id, span);
            }
            Op::CopyHeader { to, from } => {
                self.copy_length(flow, to, from, span);
                flow.op(op, span);
                if self.rivals.contains_key(&to) {
                    // A copy of an invalid header leaves the others as they are.
                    let cond = self.node(ExprKind::Valid(to), 1, span);
                    let (then, otherwise) = (flow.block(), flow.block());
                    flow.end(Term::Branch { cond, then, otherwise }, Some(span));
                    flow.enter(then);
                    self.remove_rivals(flow, to, span);
                    flow.end(Term::Jump(otherwise), None);
                    flow.enter(otherwise);
                }
            }
            Op::CopyBytes { to, from } => {
                // If the source is invalid its part is empty.
                let metas = [to.0, from.0].map(|id| self.given_lengths.get(&id).copied());
                flow.op(op, span);
                if let [Some(meta), Some(other)] = metas {
                    let bits = self.ir.metadata.get(other).map_or(32, |meta| meta.bits);
                    let length = self.node(ExprKind::Meta(other), bits, span);
                    let none = self.constant(0, bits, span);
                    let valid = self.node(ExprKind::Valid(from.0), 1, span);
                    let value = self.node(ExprKind::Mux(valid, length, none), bits, span);
                    flow.op(Op::Set(LValue::Meta(meta), value), span);
                }
            }
            Op::PushFront(stack, count) => {
                let elements = self.elements(stack);
                for (to, from) in
                    elements.iter().rev().zip(elements.iter().rev().skip(count as usize))
                {
                    self.copy_length(flow, *to, *from, span);
                }
                flow.op(op, span);
            }
            Op::PopFront(stack, count) => {
                let elements = self.elements(stack);
                for (to, from) in elements.iter().zip(elements.iter().skip(count as usize)) {
                    self.copy_length(flow, *to, *from, span);
                }
                flow.op(op, span);
            }
            op => flow.op(op, span),
        }
    }

    fn copy_length(&mut self, flow: &mut Flow, to: InstanceId, from: InstanceId, span: SourceSpan) {
        let metas = (self.given_lengths.get(&to).copied(), self.given_lengths.get(&from).copied());
        if let (Some(to), Some(from)) = metas {
            let bits = self.ir.metadata.get(from).map_or(32, |meta| meta.bits);
            let value = self.node(ExprKind::Meta(from), bits, span);
            flow.op(Op::Set(LValue::Meta(to), value), span);
        }
    }

    fn remove_rivals(&mut self, flow: &mut Flow, id: InstanceId, span: SourceSpan) {
        for rival in self.rivals.get(&id).into_iter().flatten() {
            flow.op(Op::SetInvalid(*rival), span);
        }
    }
}
