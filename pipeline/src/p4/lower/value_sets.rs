//! Value sets of parsers. The language has sets of numbers, so a member of several keys is one number, the first key on the left, and a
//! `select` with such a set has one key.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::build::{binary, known, number};
use super::env::Val;
use crate::ast::{self, CaseDecl, PatternDecl, Sp};

/// Most bits of a key of `select`.
const KEY_BITS_MAX: u32 = 128;

impl Lower<'_> {
    pub(super) fn value_set(&mut self, decl: &Rc<Decl>, size: &Expr) {
        let ty = self.declared(decl.id);
        let span = decl.name.span;
        // Several keys are one: their values in a row.
        let mut keys = Vec::new();
        set_keys(&ty, &mut keys);
        let bits: u32 = keys.iter().map(|key| self.bits(key, span)).sum();
        if bits > KEY_BITS_MAX {
            let text = format!("the keys of a value set have at most {KEY_BITS_MAX} bits together");
            self.unsupported(span, text);
            return;
        }
        let size = self.known_number(size) as u64;
        let name = self.names.fresh(&decl.name.value, "");
        let full = self.env.full(&decl.annotations, &decl.name.value);
        self.origin().value_sets.insert(name.clone(), full);
        let ty = ast::TypeRef::Bits(Sp::new(u64::from(bits), span));
        let set = ast::ValueSetDecl { ty, size: ast::Size::new(size, span), values: Vec::new() };
        self.unit.value_sets.push((Sp::new(name.clone(), span), set));
        self.bind(decl.id, Val::Text(name.into()));
    }

    /// Whether a case is a value set whose members are values of several keys.
    pub(super) fn is_set_of_several(&self, set: &Expr) -> bool {
        let (ExprKind::Name(..), Type::Set(of)) = (&*set.kind, self.type_of(set)) else {
            return false;
        };
        let mut keys = Vec::new();
        set_keys(&of, &mut keys);
        keys.len() > 1
    }

    /// Makes one key of several, and one pattern of several in each case: a member of a value set is one number.
    pub(super) fn join_keys(
        &mut self,
        keys: &mut Vec<ast::AstExpr>,
        cases: &mut [CaseDecl],
        types: &[Type],
    ) {
        let widths: Vec<u32> = types.iter().map(|ty| self.bits(ty, self.span)).collect();
        let total: u32 = widths.iter().sum();
        if total > KEY_BITS_MAX {
            let text =
                format!("beside a value set, keys have at most {KEY_BITS_MAX} bits together");
            self.unsupported(self.span, text);
            return;
        }
        let all = std::mem::take(keys).into_iter();
        let joined = all.reduce(|a, b| {
            let span = a.span;
            binary(ast::AstBin::Concat, a, b, span)
        });
        keys.extend(joined);
        for case in cases {
            if matches!(case.patterns.as_slice(), [Sp { value: PatternDecl::Set(_), .. }]) {
                continue;
            }
            let (mut value, mut mask) = (0_u128, 0_u128);
            for (pattern, bits) in case.patterns.iter().zip(&widths) {
                let ones = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
                let (v, m) = match &pattern.value {
                    PatternDecl::Any => (Some(0), Some(0)),
                    PatternDecl::Value(value) => (known(value), Some(ones)),
                    PatternDecl::Mask(value, mask) => (known(value), known(mask)),
                    _ => (None, None),
                };
                let (Some(v), Some(m)) = (v, m) else {
                    self.unsupported(
                        pattern.span,
                        "beside a value set of several keys, a case has values and masks only",
                    );
                    return;
                };
                value = value.checked_shl(*bits).unwrap_or(0) | v & m & ones;
                mask = mask.checked_shl(*bits).unwrap_or(0) | m & ones;
            }
            let number = |of: u128| number(of, total, case.span);
            let pattern = PatternDecl::Mask(number(value), number(mask));
            case.patterns = vec![Sp::new(pattern, case.span)];
        }
    }
}

/// The keys of a value set, each a number.
fn set_keys(ty: &Type, keys: &mut Vec<Type>) {
    match ty {
        Type::Tuple(parts) => parts.iter().for_each(|part| set_keys(part, keys)),
        Type::Struct(of) => of.fields.iter().for_each(|(_, part)| set_keys(part, keys)),
        other => keys.push(other.clone()),
    }
}
