//! The operations of a state: extractions, checks and the statements of `do`.

use crate::ast::*;
use crate::check::cx::{Binding, Cx, InstanceRef};
use crate::check::expr::Val;
use crate::check::expr::path::Target;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{LValue, ParserOp, SourceSpan};

/// Operations with their places.
#[derive(Default)]
pub(crate) struct Ops {
    ops: Vec<ParserOp>,
    spans: Vec<SourceSpan>,
}

impl Ops {
    pub(crate) fn push(&mut self, op: ParserOp, span: SourceSpan) {
        self.ops.push(op);
        self.spans.push(span);
    }

    pub(crate) fn parts(self) -> (Vec<ParserOp>, Vec<SourceSpan>) {
        (self.ops, self.spans)
    }
}

impl Cx<'_> {
    pub(super) fn extract(&mut self, ops: &mut Ops, name: &Name) {
        if let Some(header) = self.extracted(name) {
            self.extract_header(ops, header, None, name);
        }
    }

    /// `extract(h, bits)`: the length of the variable part is given.
    fn extract_with_length(&mut self, ops: &mut Ops, name: &Name, length: &AstExpr) {
        let bits = self.offset(length);
        if let (Some(header), Some(bits)) = (self.extracted(name), bits) {
            self.extract_header(ops, header, Some((bits, length.span)), name);
        }
    }

    fn extract_header(
        &mut self,
        ops: &mut Ops,
        header: InstanceRef,
        length: Option<(ExprId, SourceSpan)>,
        name: &Name,
    ) {
        if !self.length_is_given_once(header, length.is_some(), name) {
            return;
        }
        if let Some((bits, span)) = length {
            self.give_length(ops, header, bits, span);
        }
        match header {
            InstanceRef::One(id) => {
                ops.push(ParserOp::Extract(id), name.span);
                self.remove_rivals_here(ops, id, name.span);
            }
            InstanceRef::Stack(id) => ops.push(ParserOp::ExtractNext(id), name.span),
        }
    }

    pub(super) fn extract_at(&mut self, ops: &mut Ops, name: &Name, offset: &AstExpr) {
        let at = self.offset(offset);
        match self.extracted(name) {
            Some(header @ InstanceRef::One(id)) => {
                if self.length_is_given_once(header, false, name)
                    && let Some(at) = at
                {
                    ops.push(ParserOp::ExtractAt(id, at), name.span);
                    self.remove_rivals_here(ops, id, name.span);
                }
            }
            Some(InstanceRef::Stack(_)) => {
                let text = format!("`{}` is a stack; a trailer is one header", name.value);
                self.report.error(codes::WRONG_KIND, name.span, text);
            }
            None => {}
        }
    }

    pub(super) fn verify(&mut self, ops: &mut Ops, cond: &AstExpr, error: &Name) {
        let condition = self.condition(cond);
        let error = self.error_named(error);
        if let (Some(condition), Some(error)) = (condition, error) {
            ops.push(ParserOp::Verify(condition, error), cond.span);
        }
    }

    pub(super) fn parser_statement(&mut self, ops: &mut Ops, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Assign(path, slice, value) => {
                self.parser_assign(ops, path, slice.as_ref(), value, statement.span);
            }
            StmtKind::Let(name, value) => {
                let binding = match self.value(value) {
                    Val::Typed(id) => {
                        let bits = self.bits(id);
                        let local = self.new_local(&name.value, bits);
                        ops.push(ParserOp::Set(LValue::Local(local), id), statement.span);
                        Binding::Value(local, bits)
                    }
                    Val::Poison => Binding::Poison,
                    _ => {
                        let text = format!("`{}` needs a width", name.value);
                        let help = format!("as in `let {} = bit<32>(14)`", name.value);
                        self.report.error(codes::NEEDS_WIDTH, value.span, text).help(help);
                        Binding::Poison
                    }
                };
                self.bind_local(name, binding);
            }
            StmtKind::Call(name, args) => self.parser_call(ops, name, args, statement.span),
            _ => {
                let text = "this statement does not belong to the parser";
                let help = "a state has assignments to metadata, `let`, `extract`, `extract_at`, \
                            `set_valid`, `set_invalid`, `advance`, `body_end` and `verify`; it branches by `select`";
                self.report.error(codes::WRONG_PLACE, statement.span, text).help(help);
            }
        }
    }

    fn has_checksums(&self) -> bool {
        self.units.iter().any(|unit| !unit.checksums.is_empty() || !unit.crcs.is_empty())
    }

    fn parser_assign(
        &mut self,
        ops: &mut Ops,
        path: &Sp<Path>,
        slice: Option<&(AstExpr, AstExpr)>,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        let (target, slice) = self.sliced(path, slice);
        let (to, bits) = match target {
            Some(Target::Meta(meta, bits)) => (LValue::Meta(meta), bits),
            Some(Target::Local(local, bits)) => (LValue::Local(local), bits),
            // A checksum that follows changes compares with the header after the parser.
            Some(Target::Field(instance, field, bits)) if !self.has_checksums() => {
                (LValue::Field(instance, field), bits)
            }
            // This header is never valid, so writing to it does nothing.
            Some(Target::Absent(bits)) => {
                self.expr(value, bits);
                return;
            }
            None => {
                self.value(value);
                return;
            }
            Some(_) => {
                let text = "the parser assigns to metadata, locals and fields of headers only";
                self.report
                    .error(codes::WRONG_PLACE, path.span, text)
                    .note("to fields only in a program that declares no checksums and no CRCs")
                    .help("keep it in `meta.` here, and assign the rest in ingress");
                return;
            }
        };
        if slice.is_some() {
            let text = "the parser assigns whole values";
            self.report.error(codes::NOT_ASSIGNABLE, path.span, text);
            return;
        }
        if let Some(id) = self.expr(value, bits) {
            ops.push(ParserOp::Set(to, id), span);
        }
    }

    fn parser_call(&mut self, ops: &mut Ops, name: &Name, args: &[AstExpr], span: SourceSpan) {
        match (name.value.as_str(), args) {
            ("extract", [header]) => {
                if let Some(header) = self.plain_name(header) {
                    self.extract(ops, &header);
                }
            }
            ("extract", [header, bits]) => {
                if let Some(header) = self.plain_name(header) {
                    self.extract_with_length(ops, &header, bits);
                }
            }
            (change @ ("set_valid" | "set_invalid"), [header]) => {
                self.change_validity_here(ops, change == "set_valid", header, span);
            }
            ("extract_at", [header, offset]) => {
                if let Some(header) = self.plain_name(header) {
                    self.extract_at(ops, &header, offset);
                }
            }
            ("advance", [bits]) => {
                if let Some(id) = self.offset(bits) {
                    self.whole_bytes(id, bits.span);
                    ops.push(ParserOp::Advance(id), span);
                }
            }
            ("body_end", [end]) => {
                if let Some(id) = self.offset(end) {
                    ops.push(ParserOp::BodyEnd(id), span);
                }
            }
            ("verify", [cond, error]) => {
                if let Some(error) = self.plain_name(error) {
                    self.verify(ops, cond, &error);
                }
            }
            (known, _) if usage_of(known).is_some() => {
                self.wrong_call(usage_of(known).unwrap_or_default(), span);
            }
            _ => {
                let text = format!("`{}` is no procedure of the parser", name.value);
                let names = [
                    "extract",
                    "extract_at",
                    "set_valid",
                    "set_invalid",
                    "advance",
                    "body_end",
                    "verify",
                ];
                self.report
                    .error(codes::WRONG_PLACE, name.span, text)
                    .did_you_mean(&name.value, names);
            }
        }
    }

    /// Makes the other members of a header's union invalid.
    fn remove_rivals_here(&self, ops: &mut Ops, id: InstanceId, span: SourceSpan) {
        for rival in self.rivals.get(&id).into_iter().flatten() {
            ops.push(ParserOp::SetInvalid(*rival), span);
        }
    }

    /// `set_valid(h)`, with its side effects, or `set_invalid(h)`.
    fn change_validity_here(
        &mut self,
        ops: &mut Ops,
        is_valid: bool,
        header: &AstExpr,
        span: SourceSpan,
    ) {
        let Some(id) = self.header_named(header) else { return };
        if !is_valid {
            return ops.push(ParserOp::SetInvalid(id), span);
        }
        if let Some((meta, value)) = self.length_of_new(id, span) {
            ops.push(ParserOp::Set(LValue::Meta(meta), value), span);
        }
        ops.push(ParserOp::SetValid(id), span);
        self.remove_rivals_here(ops, id, span);
    }

    /// A constant advance is whole bytes; others are checked for each packet.
    fn whole_bytes(&mut self, bits: ExprId, span: SourceSpan) {
        let value = crate::ir::eval::constant(&self.ir.exprs, bits);
        if value.is_some_and(|value| !value.is_multiple_of(8)) {
            let text = "the cursor moves by whole bytes";
            self.report.error(codes::BAD_LAYOUT, span, text).help("a byte has 8 bits");
        }
    }

    /// An argument that is one name, or `error.name`.
    fn plain_name(&mut self, arg: &AstExpr) -> Option<Name> {
        if let Ast::Path(path) = &arg.value {
            match path.parts.as_slice() {
                [PathPart::Name(name)] => return Some(name.clone()),
                [PathPart::Name(space), PathPart::Name(name)] if space.value == "error" => {
                    return Some(name.clone());
                }
                [PathPart::Name(stack), PathPart::Index(at)] => {
                    if let Ast::Number { value, .. } = &at.value {
                        let name = format!("{}[{value}]", stack.value);
                        return Some(Sp::new(name, arg.span));
                    }
                }
                _ => {}
            }
        }
        self.report.refuse(codes::ARGUMENTS, arg.span, "a name is wanted here")
    }
}

/// The usage of a procedure of the parser, for messages.
fn usage_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "extract" => "extract(header) or extract(header, bits)",
        "set_valid" => "set_valid(header)",
        "set_invalid" => "set_invalid(header)",
        "extract_at" => "extract_at(header, byte)",
        "advance" => "advance(bits)",
        "body_end" => "body_end(byte)",
        "verify" => "verify(condition, error)",
        _ => return None,
    })
}
