//! Copies of whole headers, and of fields wider than 128 bits or of variable length.

use crate::ast::*;
use crate::check::cx::{Cx, Place};
use crate::check::expr::bytes::BytesField;
use crate::check::expr::path::Target;
use crate::check::flow::Flow;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{BinOp, ExprKind, FieldLayout, LValue, Op, SourceSpan, Term};

impl Cx<'_> {
    /// `a.options = b.options`: a variable part, or a field over 128 bits.
    pub(super) fn copy_bytes(
        &mut self,
        flow: &mut Flow,
        to: Result<BytesField, ()>,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        let from = match &value.value {
            Ast::Path(path) => self.bytes_field(path, value.span),
            _ => None,
        };
        let (Ok(to), Ok(from)) = (to, from.transpose()) else { return };
        let Some(from) = from else { return self.different_lengths(value.span) };
        self.copy_bytes_between(flow, to, from, (value.span, span));
    }

    /// The same for each element that may be meant. What a header has that is never valid is neither written nor read.
    fn copy_bytes_between(
        &mut self,
        flow: &mut Flow,
        to: BytesField,
        from: BytesField,
        spans: (SourceSpan, SourceSpan),
    ) {
        match (to, from) {
            (BytesField::Absent, _) | (_, BytesField::Absent) => {}
            (BytesField::Element(stack, index, field), _) => {
                self.each_element(flow, stack, index, spans.1, &mut |cx, flow, id| {
                    cx.copy_bytes_between(flow, BytesField::One(id, field), from, spans);
                });
            }
            (_, BytesField::Element(stack, index, field)) => {
                self.each_element(flow, stack, index, spans.1, &mut |cx, flow, id| {
                    cx.copy_bytes_between(flow, to, BytesField::One(id, field), spans);
                });
            }
            (BytesField::One(to, field), BytesField::One(from, other)) => {
                self.copy_bytes_of_one(flow, (to, field), (from, other), spans);
            }
        }
    }

    fn copy_bytes_of_one(
        &mut self,
        flow: &mut Flow,
        to: (InstanceId, FieldId),
        from: (InstanceId, FieldId),
        (value, span): (SourceSpan, SourceSpan),
    ) {
        let shape = |cx: &Self, (instance, field): (InstanceId, FieldId)| {
            let header = cx.ir.headers.get(cx.ir.instances.get(instance)?.header)?;
            Some(match header.fields.get(field)?.layout {
                FieldLayout::Variable { max_bytes, .. } => (true, max_bytes),
                FieldLayout::Opaque { bytes, .. } => (false, bytes),
                _ => return None,
            })
        };
        if shape(&*self, from) != shape(&*self, to) {
            return self.different_lengths(value);
        }
        let is_variable = shape(&*self, to).is_some_and(|(variable, _)| variable);
        let given = |id: InstanceId| self.given_lengths.contains_key(&id);
        if is_variable && !(given(to.0) && given(from.0)) {
            let text = "the header type says how long this field is, so it is not assigned";
            let help = "copy the whole header, or declare no `length`";
            self.report.error(codes::WRONG_KIND, span, text).help(help);
            return;
        }
        self.header_op(flow, Op::CopyBytes { to, from }, span);
    }

    fn different_lengths(&mut self, span: SourceSpan) {
        let text = "this field is assigned from one of the same length only";
        let help = "it is variable or over 128 bits: name a field of another header";
        self.report.error(codes::WRONG_KIND, span, text).help(help);
    }

    pub(super) fn copy_header(
        &mut self,
        flow: &mut Flow,
        to: InstanceId,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        let from = match &value.value {
            Ast::Path(path) => match self.resolve(path, value.span) {
                Some(Target::Header(from)) => Some(from),
                Some(Target::AnyElement(stack, index)) => {
                    return self.copy_any_element(flow, to, (stack, index), span);
                }
                Some(Target::AbsentHeader(index)) => {
                    return self.copy_absent(flow, to, index, span);
                }
                None => return,
                Some(_) => None,
            },
            _ => None,
        };
        let Some(from) = from else {
            let text = "a header is assigned from another header of the same type";
            self.report.error(codes::WRONG_KIND, value.span, text);
            return;
        };
        self.copy_between(flow, to, from, span);
    }

    /// A copy of the element with this number; a copy from outside of the stack makes the target invalid.
    fn copy_any_element(
        &mut self,
        flow: &mut Flow,
        to: InstanceId,
        (stack, index): (StackId, ExprId),
        span: SourceSpan,
    ) {
        let number = self.new_local("index", 32);
        flow.op(Op::Set(LValue::Local(number), index), span);
        let index = self.node(ExprKind::Local(number), 32, span);
        let Some(known) = self.ir.stacks.get(stack) else { return };
        let (first, len) = (known.first, known.len);
        let most = self.constant(len.into(), 32, span);
        let outside = self.node(ExprKind::Binary(BinOp::Le, most, index), 1, span);
        let types = (self.ir.instances.get(to), self.ir.instances.get(first));
        if let (Some(a), Some(b)) = types
            && a.header != b.header
        {
            let (a, b) = (a.name.clone(), b.name.clone());
            return self.different_types(&a, &b, span);
        }
        let (none, some) = (flow.block(), flow.block());
        flow.end(Term::Branch { cond: outside, then: none, otherwise: some }, Some(span));
        flow.enter(none);
        flow.op(Op::SetInvalid(to), span);
        flow.end(Term::Jump(some), None);
        flow.enter(some);
        self.each_element(flow, stack, index, span, &mut |cx, flow, from| {
            cx.copy_between(flow, to, from, span);
        });
    }

    fn copy_between(
        &mut self,
        flow: &mut Flow,
        to: InstanceId,
        from: InstanceId,
        span: SourceSpan,
    ) {
        let (Some(a), Some(b)) = (self.ir.instances.get(to), self.ir.instances.get(from)) else {
            return;
        };
        if a.header != b.header {
            let (a, b) = (a.name.clone(), b.name.clone());
            return self.different_types(&a, &b, span);
        }
        if self.env.place == Place::Parser {
            self.report.error(codes::WRONG_PLACE, span, "the parser does not copy headers");
            return;
        }
        self.header_op(flow, Op::CopyHeader { to, from }, span);
    }

    /// A copy of a header that is never valid leaves one that is not valid.
    fn copy_absent(&mut self, flow: &mut Flow, to: InstanceId, from: usize, span: SourceSpan) {
        let Some(from) = self.scope.instances.get(from) else { return };
        let header = self.ir.instances.get(to).and_then(|to| self.ir.headers.get(to.header));
        if header.is_some_and(|header| header.name != from.header.value) {
            let to = self.ir.instances[to].name.clone();
            return self.different_types(&to, &from.name.value, span);
        }
        if self.env.place == Place::Parser {
            self.report.error(codes::WRONG_PLACE, span, "the parser does not copy headers");
            return;
        }
        flow.op(Op::SetInvalid(to), span);
    }

    fn different_types(&mut self, to: &str, from: &str, span: SourceSpan) {
        let text = format!("`{to}` and `{from}` are headers of different types");
        self.report.error(codes::WRONG_KIND, span, text);
    }
}
