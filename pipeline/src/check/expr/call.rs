//! Functions in expressions: `hash` and `lookahead`.

use super::Val;
use crate::ast::{Ast, AstExpr, Name};
use crate::check::cx::{Cx, Place};
use crate::check::expr::bytes::BytesField;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{ExprKind, HashAlgorithm, SourceSpan};
use crate::syntax::p4;

/// Calls with an effect: they are the whole right side of an assignment.
const EFFECTS: &[&str] = &["random", "execute"];

impl Cx<'_> {
    pub(super) fn call_value(&mut self, name: &Name, args: &[AstExpr], span: SourceSpan) -> Val {
        match name.value.as_str() {
            "hash" => self.hash(args, span),
            "lookahead" => self.lookahead(args, span),
            other if EFFECTS.contains(&other) || self.external(other).is_some() => {
                let text = format!("`{other}(..)` has an effect and is not part of an expression");
                self.report
                    .error(codes::EFFECT, span, text)
                    .help(format!("`let x = {other}(..)` first, then use `x`"));
                Val::Poison
            }
            other => {
                let text = match self.scope.symbol(other) {
                    Some(symbol) => format!("`{other}` is {}, not a function", symbol.kind()),
                    None => format!("there is no function `{other}`"),
                };
                let names = ["hash", "lookahead", "random", "execute", "signed"];
                let header = match (other, args) {
                    ("valid", [header]) => Some(self.text(header.span, "h").to_owned()),
                    _ => None,
                };
                let note = self.report.error(codes::UNKNOWN, name.span, text);
                let valid = header.map(|header| format!("write `{header}.valid`"));
                match valid.or(p4::name(other, None)) {
                    Some(help) => note.help(help),
                    None => note.did_you_mean(other, names.iter().copied()),
                };
                Val::Poison
            }
        }
    }

    fn hash(&mut self, args: &[AstExpr], span: SourceSpan) -> Val {
        let Some((algorithm, operands)) = args.split_first() else {
            return self.wrong_call("hash(algorithm, a, b, ..)", span);
        };
        let algorithm = match &algorithm.value {
            Ast::Path(path) => path.single().cloned(),
            _ => None,
        };
        let Some(algorithm) = algorithm else {
            return self.wrong_call("hash(algorithm, a, b, ..)", span);
        };
        let algorithm = self.hash_algorithm(&algorithm);
        let ids: Vec<_> = operands.iter().map(|operand| self.hash_operand(operand)).collect();
        let ids: Option<Vec<_>> = ids.into_iter().collect();
        let (Some(algorithm), Some(ids)) = (algorithm, ids) else { return Val::Poison };
        if ids.is_empty() {
            return self.wrong_call("hash(algorithm, a, b, ..)", span);
        }
        Val::Typed(self.node(ExprKind::Hash(algorithm, ids), algorithm.bits(), span))
    }

    /// A value, the bytes of a field that has no value, or the body.
    fn hash_operand(&mut self, operand: &AstExpr) -> Option<ExprId> {
        if let Ast::Path(path) = &operand.value {
            let kind = match path.single() {
                Some(name) if name.value == "body" && self.scope.symbol("body").is_none() => {
                    Some(ExprKind::Body)
                }
                _ => match self.bytes_field(path, operand.span) {
                    None => None,
                    Some(Ok(BytesField::One(id, field))) => Some(ExprKind::Bytes(id, field)),
                    Some(Ok(BytesField::Absent)) => Some(ExprKind::Const(0)),
                    Some(Ok(BytesField::Element(..))) => {
                        let text =
                            "a field without a value is hashed from an element with a known number";
                        self.report
                            .error(codes::WRONG_KIND, operand.span, text)
                            .help("copy the element to a header first, and hash the field of that");
                        return None;
                    }
                    Some(Err(())) => return None,
                },
            };
            if let Some(kind) = kind {
                return Some(self.node(kind, 8, operand.span));
            }
        }
        self.sized(operand)
    }

    /// A hash algorithm by name.
    pub(crate) fn hash_algorithm(&mut self, name: &Name) -> Option<HashAlgorithm> {
        let known = HashAlgorithm::ALL.iter().find(|(known, _)| *known == name.value);
        if known.is_none() {
            let text = format!("there is no hash `{}`", name.value);
            let names: Vec<&str> = HashAlgorithm::ALL.iter().map(|(name, _)| *name).collect();
            let error = self.report.error(codes::UNKNOWN, name.span, text);
            error.did_you_mean(&name.value, names.iter().copied());
            error.note(format!("hashes: {}", names.join(", ")));
        }
        known.map(|(_, algorithm)| *algorithm)
    }

    fn lookahead(&mut self, args: &[AstExpr], span: SourceSpan) -> Val {
        if self.env.place != Place::Parser {
            let text = "`lookahead` is only known in the parser";
            self.report.error(codes::WRONG_PLACE, span, text);
            return Val::Poison;
        }
        let (bits, offset_bits) = match args {
            [bits] => (self.const_u32(bits), Some(0)),
            [bits, offset] => (self.const_u32(bits), self.const_u32(offset)),
            _ => return self.wrong_call("lookahead(bits) or lookahead(bits, offset_bits)", span),
        };
        let (Some(bits), Some(offset_bits)) = (bits, offset_bits) else { return Val::Poison };
        if !self.width_is_valid(bits.into(), span) {
            return Val::Poison;
        }
        Val::Typed(self.node(ExprKind::Lookahead { offset_bits }, bits, span))
    }

    /// Reports a call with the wrong arguments.
    pub(crate) fn wrong_call(&mut self, usage: &str, span: SourceSpan) -> Val {
        self.report
            .error(codes::ARGUMENTS, span, "the arguments do not fit")
            .help(format!("use: `{usage}`"));
        Val::Poison
    }
}
