//! Value sets of parsers. The language has sets of numbers, so a member of several keys is one number, the first key on the left, and a
//! `select` with such a set has one key.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::build::{binary, known, number};
use super::env::Val;
use crate::ast::{self, CaseDecl, PatternDecl, Sp};
use crate::ir::layout::ones;

/// Most bits of a key of `select`.
const KEY_BITS_MAX: u32 = 128;
/// Most masks that one case beside a value set becomes.
const CASES_MAX: usize = 256;

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
        cases: &mut Vec<CaseDecl>,
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
        let mut made = Vec::new();
        for case in cases.drain(..) {
            if matches!(case.patterns.as_slice(), [Sp { value: PatternDecl::Set(_), .. }]) {
                made.push(case);
                continue;
            }
            let mut parts = Vec::new();
            for (pattern, bits) in case.patterns.iter().zip(&widths) {
                let Some(masked) = masked(&pattern.value, *bits) else {
                    let text = "beside a value set of several keys, a case has known values, masks and ranges";
                    self.unsupported(pattern.span, text);
                    return;
                };
                parts.push(masked);
            }
            let count = parts.iter().fold(1_usize, |count, part| count.saturating_mul(part.len()));
            if count > CASES_MAX {
                let text = format!(
                    "beside a value set, the ranges of a case become {count} masks, and more than {CASES_MAX}"
                );
                self.unsupported(case.span, text);
                return;
            }
            for (value, mask) in products(&parts, &widths) {
                let number = |of: u128| number(of, total, case.span);
                let pattern = PatternDecl::Mask(number(value), number(mask));
                made.push(CaseDecl {
                    patterns: vec![Sp::new(pattern, case.span)],
                    to: case.to.clone(),
                    span: case.span,
                });
            }
        }
        *cases = made;
    }
}

/// What a pattern matches, as values and masks; `None` where it is not known.
fn masked(pattern: &PatternDecl, bits: u32) -> Option<Vec<(u128, u128)>> {
    let ones = ones(bits);
    Some(match pattern {
        PatternDecl::Any => vec![(0, 0)],
        PatternDecl::Value(value) => vec![(known(value)? & ones, ones)],
        PatternDecl::Mask(value, mask) => {
            let mask = known(mask)? & ones;
            vec![(known(value)? & mask, mask)]
        }
        PatternDecl::Range(low, high) => prefixes(known(low)?, known(high)?, bits),
        _ => return None,
    })
}

/// A range as prefixes: each the largest that begins where the one before has ended.
fn prefixes(mut low: u128, high: u128, bits: u32) -> Vec<(u128, u128)> {
    let mut found = Vec::new();
    while low <= high {
        let mut free = low.trailing_zeros().min(bits);
        while free > 0 && low | ones(free) > high {
            free -= 1;
        }
        found.push((low, ones(bits) & !ones(free)));
        let last = low | ones(free);
        if last == u128::MAX {
            break;
        }
        low = last + 1;
    }
    found
}

/// One pattern of each key, joined, the first key on the left: all ways.
fn products(parts: &[Vec<(u128, u128)>], widths: &[u32]) -> Vec<(u128, u128)> {
    let shifted = |value: u128, bits: u32| value.checked_shl(bits).unwrap_or(0);
    parts.iter().zip(widths).fold(vec![(0, 0)], |joined, (part, bits)| {
        let with = |(value, mask): (u128, u128)| {
            let next = part
                .iter()
                .map(move |(v, m)| (shifted(value, *bits) | v, shifted(mask, *bits) | m));
            next.collect::<Vec<_>>()
        };
        joined.into_iter().flat_map(with).collect()
    })
}

/// The keys of a value set, each a number.
fn set_keys(ty: &Type, keys: &mut Vec<Type>) {
    match ty {
        Type::Tuple(parts) => parts.iter().for_each(|part| set_keys(part, keys)),
        Type::Struct(of) => of.fields.iter().for_each(|(_, part)| set_keys(part, keys)),
        other => keys.push(other.clone()),
    }
}
