//! Patterns of cases of `select` and of entries.

use std::collections::HashSet;

use super::super::types::Type;
use super::build::{known, number};
use crate::ast::{Ast, AstExpr, Name, PatternDecl, Sp};
use crate::ir::layout::ones;

/// The patterns of a case as unsigned numbers: a signed range from below zero to above is two.
pub(super) fn around_zero(
    patterns: Vec<Sp<PatternDecl>>,
    types: &[Type],
) -> Vec<Vec<Sp<PatternDecl>>> {
    let mut made = vec![Vec::new()];
    for (pattern, ty) in patterns.into_iter().zip(types) {
        let parts = match (&pattern.value, ty.base()) {
            (PatternDecl::Range(low, high), Type::Int(bits)) if known(low) > known(high) => {
                let last = number(ones(*bits), *bits, high.span);
                let zero = number(0, *bits, low.span);
                let part = |low, high| Sp::new(PatternDecl::Range(low, high), pattern.span);
                vec![part(low.clone(), last), part(zero, high.clone())]
            }
            _ => vec![pattern],
        };
        let with = |so_far: &Vec<Sp<PatternDecl>>| {
            let one =
                |part: &Sp<PatternDecl>| [so_far.as_slice(), std::slice::from_ref(part)].concat();
            parts.iter().map(one).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(with).collect();
    }
    made
}

/// Cases or entries that there are; of several for the same values the first one counts.
#[derive(Default)]
pub(super) struct Seen(HashSet<(Vec<String>, Vec<Values>)>);

impl Seen {
    /// Adds a case, or an entry with the names of its keys: whether it is the first one for its values.
    pub(super) fn is_first(&mut self, names: &[Name], patterns: &[Sp<PatternDecl>]) -> bool {
        let names = names.iter().map(|name| name.value.clone()).collect();
        let all: Option<Vec<Values>> = patterns.iter().map(|one| values(&one.value)).collect();
        all.is_none_or(|all| self.0.insert((names, all)))
    }
}

/// What a pattern matches; `None` where that is not known when the program is compiled.
fn values(pattern: &PatternDecl) -> Option<Values> {
    Some(match pattern {
        PatternDecl::Any => Values::Masked(0, 0),
        PatternDecl::Value(value) => Values::Masked(known(value)?, all(value)),
        PatternDecl::Mask(value, mask) => {
            let mask = known(mask)? & all(value);
            Values::Masked(known(value)? & mask, mask)
        }
        PatternDecl::Prefix(value, length) => {
            let all = all(value);
            let behind = all.count_ones().checked_sub(length.value as u32)?;
            let mask = all & !ones(behind);
            Values::Masked(known(value)? & mask, mask)
        }
        PatternDecl::Range(low, high) => Values::Range(known(low)?, known(high)?),
        PatternDecl::Set(_) => return None,
    })
}

#[derive(PartialEq, Eq, Hash)]
enum Values {
    /// A value, and the mask that it is compared under.
    Masked(u128, u128),
    Range(u128, u128),
}

/// All bits of a number.
fn all(value: &AstExpr) -> u128 {
    match &value.value {
        Ast::Number { bits: Some(bits), .. } => ones(*bits),
        _ => u128::MAX,
    }
}
