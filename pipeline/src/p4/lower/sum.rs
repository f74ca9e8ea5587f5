//! `InternetChecksum` and `Checksum` of PSA: what was summed so far is metadata.
//!
//! Of a ones' complement sum it is the sum itself (RFC 1071), so that parts are added and taken away (RFC 1624); of every other algorithm the
//! hash of one `update`, because the language hashes values at once.

use super::super::tree::*;
use super::Lower;
use super::build::{binary, cast, number, slice, unary};
use super::env::{Object, Val};
use crate::ast::{AstBin, AstExpr, AstUn};
use crate::ir::SourceSpan;

impl Lower<'_> {
    /// A method of a checksum.
    pub(super) fn checksum(
        &mut self,
        expr: &Expr,
        object: &Object,
        name: &str,
        args: &[Arg],
    ) -> Val {
        let span = expr.span;
        let Some(sum) = object.sum.clone() else { return Val::Nothing };
        let algorithm = match &*object.decl.name.value {
            "InternetChecksum" => Some("csum16"),
            _ => object.args.first().and_then(|value| self.algorithm(value, span)),
        };
        let Some(algorithm) = algorithm else { return Val::Nothing };
        let is_sum = algorithm == "csum16";
        match (name, args) {
            ("clear", _) => {
                self.updated.remove(&object.full);
                let bits = self.sum_bits(object, span);
                self.set(&sum, number(0, bits, span), span);
            }
            ("set_state", [state]) => {
                let state = self.scalar(&state.value);
                self.set(&sum, state, span);
            }
            ("get_state", _) => return Val::Scalar(sum),
            ("get", _) if is_sum => return Val::Scalar(unary(AstUn::Complement, sum, span)),
            ("get", _) => return Val::Scalar(sum),
            (_, [data]) => {
                let ty = self.type_of(&data.value);
                let value = self.eval(&data.value);
                let fields = self.fields(&value, &ty, span);
                let (hash, bits) = self.hashed(algorithm, &fields, span);
                if is_sum {
                    // The hash is the sum inverted, which is what taking it away adds.
                    let part = match name {
                        "subtract" => hash,
                        _ => unary(AstUn::Complement, hash, span),
                    };
                    self.add_to_sum(&sum, part, span);
                    return Val::Nothing;
                }
                if !self.updated.insert(object.full.clone()) {
                    self.unsupported(span, "a checksum of this algorithm is updated once")
                        .help("give all fields in one `update`");
                }
                let width = self.sum_bits(object, span);
                let hash = if bits == width { hash } else { cast(width, hash) };
                self.set(&sum, hash, span);
            }
            _ => {}
        }
        Val::Nothing
    }

    fn sum_bits(&mut self, object: &Object, span: SourceSpan) -> u32 {
        match object.types.first().cloned() {
            Some(ty) => self.bits(&ty, span),
            None => 16,
        }
    }

    /// Adds 16 bits with the carry around.
    fn add_to_sum(&mut self, sum: &AstExpr, part: AstExpr, span: SourceSpan) {
        let wide = binary(AstBin::Add, cast(17, sum.clone()), cast(17, part), span);
        let wide = self.keep(wide);
        let carry = cast(16, slice(wide.clone(), 16, 16, span));
        let low = slice(wide, 15, 0, span);
        self.set(sum, binary(AstBin::Add, low, carry, span), span);
    }
}
