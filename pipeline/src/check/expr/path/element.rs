//! Paths to an element: of an array field, of a header stack, and of a declaration that has no instance.

use super::Target;
use crate::ast::{AstExpr, Name, PathPart};
use crate::check::cx::Cx;
use crate::check::expr::Val;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{BinOp, ExprKind, SourceSpan};

impl Cx<'_> {
    pub(super) fn element(
        &mut self,
        id: InstanceId,
        field: FieldId,
        index: &AstExpr,
        (bits, count): (u32, u32),
    ) -> Option<Target> {
        let at = self.offset(index)?;
        match crate::ir::eval::constant(&self.ir.exprs, at) {
            Some(value) if value >= count.into() => {
                let text = format!("index {value} is outside an array of {count} elements");
                self.report.refuse(codes::BAD_INDEX, index.span, text)
            }
            None if self.env.in_update => {
                let text = "an index computed for each packet is not allowed inside `update`";
                self.report
                    .error(codes::WRONG_PLACE, index.span, text)
                    .help("read the element before: `let x = ..`");
                None
            }
            _ => Some(Target::Element(id, field, at, bits)),
        }
    }

    pub(super) fn stack_path(
        &mut self,
        id: StackId,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        let stack = self.ir.stacks.get(id)?.clone();
        match rest {
            [PathPart::Index(index), rest @ ..] => match self.element_at(id, index)? {
                Ok(element) => self.header_path(element, rest, span),
                Err(index) => self.any_element(id, index, rest, span),
            },
            [PathPart::Name(depth)] if depth.value == "depth" => {
                Some(Target::Read(ExprKind::StackDepth(id), 32))
            }
            [PathPart::Name(last), PathPart::Name(name)] if last.value == "last" => {
                match self.member_of(stack.first, name, span)? {
                    Target::Field(_, field, bits) => {
                        Some(Target::Read(ExprKind::StackLast(id, field), bits))
                    }
                    Target::Read(ExprKind::Valid(_), _) => {
                        Some(Target::Value(Val::Typed(self.any_valid(id, span))))
                    }
                    _ => {
                        let text = "only fields of the last element can be named";
                        self.report.refuse(codes::WRONG_KIND, span, text)
                    }
                }
            }
            _ => {
                let name = &stack.name;
                let text = format!("`{name}` is a stack");
                let help = format!("use `{name}[0].field`, `{name}.last.field` or `{name}.depth`");
                self.report.error(codes::WRONG_KIND, span, text).help(help);
                None
            }
        }
    }

    /// Whether an element of a stack is valid: then there is a last one.
    pub(crate) fn any_valid(&mut self, stack: StackId, span: SourceSpan) -> ExprId {
        let nodes: Vec<ExprId> = self
            .elements(stack)
            .into_iter()
            .map(|id| self.node(ExprKind::Valid(id), 1, span))
            .collect();
        let either = |a, b| self.node(ExprKind::Binary(BinOp::LogicalOr, a, b), 1, span);
        let any = nodes.into_iter().reduce(either);
        any.unwrap_or_else(|| self.constant(0, 1, span))
    }

    /// An element by its number: a constant within the stack, or an expression of 32 bits.
    pub(in crate::check::expr) fn element_at(
        &mut self,
        id: StackId,
        index: &AstExpr,
    ) -> Option<Result<InstanceId, ExprId>> {
        let at = self.offset(index)?;
        let known = crate::ir::eval::constant(&self.ir.exprs, at);
        let Some(number) = known.and_then(|value| u32::try_from(value).ok()) else {
            return Some(Err(at));
        };
        let stack = self.ir.stacks.get(id)?;
        if number >= stack.len {
            let text = format!("stack `{}` has {} elements", stack.name, stack.len);
            return self.report.refuse(codes::BAD_INDEX, index.span, text);
        }
        Some(Ok(InstanceId(stack.first.0 + number)))
    }

    /// A part of the element with a computed number.
    fn any_element(
        &mut self,
        id: StackId,
        index: ExprId,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        let first = self.ir.stacks.get(id)?.first;
        let target = self.header_path(first, rest, span)?;
        let (read, bits): (fn(InstanceId) -> ExprKind, u32) = match target {
            Target::Header(_) => return Some(Target::AnyElement(id, index)),
            Target::Field(_, field, bits) => {
                return Some(Target::ElementField(id, index, field, bits));
            }
            Target::Read(ExprKind::Valid(_), bits) => (ExprKind::Valid, bits),
            Target::Read(ExprKind::HeaderLength(_), bits) => (ExprKind::HeaderLength, bits),
            _ => {
                let text = "an array is read from an element with a known number";
                return self.report.refuse(codes::WRONG_KIND, span, text);
            }
        };
        Some(Target::Value(Val::Typed(self.of_element(id, index, bits, &read, span))))
    }

    /// A part of the element with this number: a comparison for each element, and 0 outside of the stack.
    pub(super) fn of_element(
        &mut self,
        stack: StackId,
        index: ExprId,
        bits: u32,
        read: &dyn Fn(InstanceId) -> ExprKind,
        span: SourceSpan,
    ) -> ExprId {
        self.each_of_element(stack, index, bits, span, &mut |cx, id| cx.node(read(id), bits, span))
    }

    /// The same of what is computed for each element.
    pub(in crate::check::expr) fn each_of_element(
        &mut self,
        stack: StackId,
        index: ExprId,
        bits: u32,
        span: SourceSpan,
        compute: &mut dyn FnMut(&mut Self, InstanceId) -> ExprId,
    ) -> ExprId {
        let mut value = self.constant(0, bits, span);
        for (at, id) in self.elements(stack).into_iter().enumerate().rev() {
            let at = self.constant(at as u128, 32, span);
            let this = self.node(ExprKind::Binary(BinOp::Eq, index, at), 1, span);
            let of_this = compute(self, id);
            value = self.node(ExprKind::Mux(this, of_this, value), bits, span);
        }
        value
    }

    /// Warns that a header is never valid, in the program's own file and unless the code around tests its validity.
    pub(crate) fn warn_absent(&mut self, name: &str, rest: &[PathPart], span: SourceSpan) {
        let asks = matches!(rest.last(), Some(PathPart::Name(last)) if last.value == "valid");
        let guarded = self.guards.iter().any(|known| known == name);
        if span.file == FileId(0) && !asks && !guarded {
            self.warn_never(name, span);
        }
    }

    /// A part of a header that is declared and never made valid: it has no id and reads 0.
    pub(super) fn absent(&mut self, index: usize, rest: &[PathPart]) -> Option<Target> {
        let declared = self.scope.instances.get(index)?;
        let header = declared.header;
        match rest {
            [] if declared.stack.is_none() => return Some(Target::AbsentHeader(index)),
            [PathPart::Index(_)] if declared.stack.is_some() => {
                return Some(Target::AbsentHeader(index));
            }
            _ => {}
        }
        let last = rest.iter().rev().find_map(|part| match part {
            PathPart::Name(name) => Some(name),
            PathPart::Index(_) => None,
        })?;
        if let Some(bits) = self.field_bits(&header.value, &last.value) {
            return Some(Target::Absent(bits));
        }
        match last.value.as_str() {
            "valid" => Some(Target::Absent(1)),
            "length" | "depth" => Some(Target::Absent(32)),
            "last" | "next" => None,
            _ => {
                // A header that is not declared has its error, and a field of computed length is no value.
                let fields = &self.scope.headers.get(header.value.as_str())?.decl.fields;
                let names: Vec<&str> = fields.iter().map(|(name, _)| name.value.as_str()).collect();
                if !names.contains(&last.value.as_str()) {
                    self.no_field(&header.value, last, names);
                }
                None
            }
        }
    }

    /// The error for a name that is no field of a header.
    pub(super) fn no_field(&mut self, header: &str, name: &Name, mut names: Vec<&str>) {
        names.extend(["valid", "length"]);
        let text = format!("header `{header}` has no field `{}`", name.value);
        let error = self.report.error(codes::NO_MEMBER, name.span, text);
        error.did_you_mean(&name.value, names.iter().copied());
        if error.fixes.is_empty() {
            error.help(format!("it has `{}`", names.join("`, `")));
        }
    }
}
