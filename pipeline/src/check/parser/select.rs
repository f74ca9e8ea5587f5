//! Transitions of a state: keys, patterns, and cases that can never match.

use super::Scheme;
use crate::ast::*;
use crate::check::cx::Cx;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::{BuiltinError, Case, ExprKind, Pattern, Target, Transition};
use wireyard_tables::key::prefix_mask;

/// Most cases of a state: each is compared with those before it.
const CASES_MAX: usize = 4096;

impl<'a> Cx<'a> {
    pub(super) fn transition(&mut self, scheme: &Scheme<'a>, next: &'a NextDecl) -> Transition {
        let (keys, cases, default) = match next {
            NextDecl::To(None) => return Transition::To(scheme.accept),
            NextDecl::To(Some(to)) => return Transition::To(self.target(scheme, to)),
            NextDecl::Select { keys, cases, default } => (keys, cases, default),
        };
        let ids: Vec<Option<ExprId>> = keys.iter().map(|key| self.sized(key)).collect();
        let default = match default {
            Some(to) => self.target(scheme, to),
            None => Target::Reject(BuiltinError::NoMatch.id()),
        };
        if cases.len() > CASES_MAX
            && let Some(first) = cases.get(CASES_MAX)
        {
            let text = format!("a state has at most {CASES_MAX} cases, not {}", cases.len());
            let help = self.in_words_of(
                "one field with many values is a table, or a value set: `@known`",
                "one field with many values is a table, or a `value_set`",
            );
            self.report.error(codes::LIMITS, first.span, text).help(help);
            return Transition::To(default);
        }
        let mut lowered: Vec<Case> = Vec::new();
        // The keys in a row, after the others, where a set matches all of them.
        let mut ids = ids;
        let row = self.row_of_keys(&mut ids, keys, cases);
        for case in cases {
            let to = self.target(scheme, &case.to);
            if let Some(name) = whole_set(case, keys.len()) {
                let set = row.and_then(|row| self.set_of_keys(name, row, &ids[..keys.len()]));
                let Some(set) = set else { continue };
                let patterns = [vec![Pattern::Any; keys.len()], vec![set]].concat();
                self.check_covered(&lowered, &patterns, case, &ids);
                lowered.push(Case { patterns, to, span: Some(case.span) });
                continue;
            }
            if case.patterns.len() != keys.len() {
                let text = format!("{} patterns for {} keys", case.patterns.len(), keys.len());
                self.report.error(codes::ARGUMENTS, case.span, text);
                continue;
            }
            let patterns: Vec<_> = case
                .patterns
                .iter()
                .zip(&ids)
                .map(|(pattern, key)| self.pattern(pattern, *key))
                .collect();
            let patterns = patterns.into_iter().collect::<Option<Vec<_>>>();
            let Some(mut patterns) = patterns else { continue };
            patterns.resize(ids.len(), Pattern::Any);
            self.check_covered(&lowered, &patterns, case, &ids);
            lowered.push(Case { patterns, to, span: Some(case.span) });
        }
        match ids.into_iter().collect::<Option<Vec<_>>>() {
            Some(keys) => Transition::Select { keys, cases: lowered, default },
            None => Transition::To(default),
        }
    }

    fn pattern(&mut self, pattern: &Sp<PatternDecl>, key: Option<ExprId>) -> Option<Pattern> {
        let bits = key.map(|id| self.bits(id));
        let lowered = match &pattern.value {
            PatternDecl::Any => Pattern::Any,
            PatternDecl::Value(value) => Pattern::Value(self.const_value(value, bits)?),
            PatternDecl::Mask(value, mask) => {
                let value = self.const_value(value, bits);
                let mask = self.const_value(mask, bits);
                let (value, mask) = (value?, mask?);
                Pattern::Mask { value: value & mask, mask }
            }
            PatternDecl::Range(low, high) => {
                let low = self.const_value(low, bits);
                let high = self.const_value(high, bits);
                let (low, high) = (low?, high?);
                if low > high {
                    let text = "this range is the wrong way round and never matches";
                    return self.report.refuse(codes::BAD_PATTERN, pattern.span, text);
                }
                Pattern::Range { low, high }
            }
            PatternDecl::Prefix(value, len) => {
                let value = self.const_value(value, bits)?;
                let width = bits?;
                if len.value > width.into() {
                    let text = format!("a prefix of {} bits in a key of {width}", len.value);
                    return self.report.refuse(codes::BAD_PATTERN, len.span, text);
                }
                let mask = prefix_mask(width, len.value as u32);
                Pattern::Mask { value: value & mask, mask }
            }
            PatternDecl::Set(name) => return self.set_pattern(name, bits),
        };
        Some(lowered)
    }

    fn set_named(&mut self, name: &Name) -> Option<ValueSetId> {
        let Some(Symbol::ValueSet(index)) = self.scope.symbol(&name.value) else {
            self.no_such(name, "a value set", |symbol| matches!(symbol, Symbol::ValueSet(_)));
            return None;
        };
        self.ids.value_sets.get(index).copied().flatten()
    }

    /// Adds the keys in a row, the first on the left, where a case is a value set for several.
    fn row_of_keys(
        &mut self,
        ids: &mut Vec<Option<ExprId>>,
        keys: &[AstExpr],
        cases: &[CaseDecl],
    ) -> Option<ExprId> {
        let case = cases.iter().find(|case| whole_set(case, keys.len()).is_some())?;
        let known: Vec<ExprId> = ids.iter().copied().collect::<Option<_>>()?;
        let bits: u32 = known.iter().map(|id| self.bits(*id)).sum();
        if bits > 128 {
            let text =
                format!("keys that a value set matches have at most 128 bits together, not {bits}");
            return self.report.refuse(codes::LIMITS, case.span, text);
        }
        let row = known.into_iter().reduce(|left, right| {
            let bits = self.bits(left) + self.bits(right);
            self.node(ExprKind::Concat(left, right), bits, case.span)
        });
        ids.push(row);
        row
    }

    /// A set whose keys are those of the state.
    fn set_of_keys(
        &mut self,
        name: &Name,
        row: ExprId,
        keys: &[Option<ExprId>],
    ) -> Option<Pattern> {
        let id = self.set_named(name)?;
        let widths: Vec<u32> =
            self.ir.value_sets.get(id)?.keys.iter().map(|key| key.bits).collect();
        let found: Vec<u32> = keys.iter().flatten().map(|key| self.bits(*key)).collect();
        if widths != found {
            let shown = |widths: &[u32]| {
                widths.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ")
            };
            let text = format!(
                "value set `{}` has keys of {} bits, the state of {}",
                name.value,
                shown(&widths),
                shown(&found)
            );
            return self.report.refuse(codes::WIDTHS, name.span, text);
        }
        self.set_pattern(name, Some(self.bits(row)))
    }

    fn set_pattern(&mut self, name: &Name, bits: Option<u32>) -> Option<Pattern> {
        let id = self.set_named(name)?;
        let width = self.ir.value_sets.get(id)?.bits();
        if bits.is_some_and(|bits| bits != width) {
            let text = format!(
                "value set `{}` has {width} bits, the key {}",
                name.value,
                bits.unwrap_or_default()
            );
            return self.report.refuse(codes::WIDTHS, name.span, text);
        }
        Some(Pattern::Set(id))
    }

    /// Warns when an earlier case covers everything that this one would match.
    fn check_covered(
        &mut self,
        earlier: &[Case],
        patterns: &[Pattern],
        case: &CaseDecl,
        keys: &[Option<ExprId>],
    ) {
        let width = |at: usize| keys.get(at).copied().flatten().map_or(128, |id| self.bits(id));
        let covering = earlier.iter().find(|known| {
            let pairs = known.patterns.iter().zip(patterns).enumerate();
            pairs.into_iter().all(|(at, (wide, narrow))| covers(wide, narrow, width(at)))
        });
        let Some(covering) = covering else { return };
        let (first, same) = (covering.span, covering.patterns == patterns);
        let note = if same {
            self.report.error(codes::DUPLICATE_CASE, case.span, "this case already exists")
        } else {
            self.report.warning(codes::COVERED_CASE, case.span, "this case never matches")
        };
        if let Some(first) = first {
            note.label(first, "this one, before it, takes all of its values");
        }
    }
}

/// The set that a case of a state with several keys is, one pattern for all of them.
fn whole_set(case: &CaseDecl, keys: usize) -> Option<&Name> {
    match case.patterns.as_slice() {
        [Sp { value: PatternDecl::Set(name), .. }] if keys > 1 => Some(name),
        _ => None,
    }
}

/// True when every key that `narrow` matches is matched by `wide`.
fn covers(wide: &Pattern, narrow: &Pattern, bits: u32) -> bool {
    let all = ones(bits);
    let range = |pattern: &Pattern| match *pattern {
        Pattern::Any => Some((0, all)),
        Pattern::Value(value) => Some((value, value)),
        Pattern::Range { low, high } => Some((low, high)),
        // A mask that is a prefix is a range too.
        Pattern::Mask { value, mask }
            if (!mask & all).wrapping_add(1).is_power_of_two() || mask == 0 =>
        {
            Some((value, value | !mask & all))
        }
        Pattern::Mask { .. } | Pattern::Set(_) => None,
    };
    let masked = |pattern: &Pattern| match *pattern {
        Pattern::Any => Some((0, 0)),
        Pattern::Value(value) => Some((value, all)),
        Pattern::Mask { value, mask } => Some((value, mask)),
        Pattern::Range { .. } | Pattern::Set(_) => None,
    };
    if wide == narrow {
        return true;
    }
    if let (Some((value, mask)), Some((other, inner))) = (masked(wide), masked(narrow)) {
        return mask & !inner == 0 && other & mask == value;
    }
    match (range(wide), range(narrow)) {
        (Some((low, high)), Some((from, to))) => low <= from && to <= high,
        _ => false,
    }
}
