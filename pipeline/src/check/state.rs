//! The bound on a program's memory: the sum of its tables, registers, counters and meters.
//!
//! It is summed from the declarations, before anything is allocated: one line of a program can require more than any
//! machine has.

use super::cx::Cx;
use crate::diag::codes;
use crate::ids::Id;
use crate::ir::SourceSpan;
use crate::state::size::{self, Keeper, StatePart};

/// Declarations that are pointed at.
const SHOWN: usize = 3;

impl Cx<'_> {
    /// Refuses more state than this.
    pub(crate) fn check_state(&mut self, limit: u64) {
        let parts = size::parts(&self.ir, 1);
        let total = size::total(&parts);
        if total <= limit {
            return;
        }
        let places: Vec<(SourceSpan, &StatePart)> =
            parts.iter().filter_map(|part| Some((self.keeper_span(part.keeper)?, part))).collect();
        let (found, allowed) = (size::amount(total), size::amount(limit));
        let text =
            format!("the state of this program takes {total} bytes, and {limit} are allowed");
        let Some(((first, largest), others)) = places.split_first() else { return };
        let words = |part: &StatePart| format!("{} takes {}", part.name, size::amount(part.bytes));
        let error = self.report.error(codes::STATE, *first, text);
        error.here(words(largest));
        for (span, part) in others.iter().take(SHOWN - 1) {
            error.label(*span, words(part));
        }
        error
            .note(format!("{found} in all: {}", size::largest(&parts)))
            .note("a table counts with all the entries it has room for, in the two copies it has")
            .help(format!("make the largest smaller, or allow more than {allowed}: `--max-state`"));
    }

    fn keeper_span(&self, keeper: Keeper) -> Option<SourceSpan> {
        fn at<I: Id>(ids: &[Option<I>], id: I) -> Option<usize> {
            ids.iter().position(|known| known.is_some_and(|known| known.index() == id.index()))
        }
        let (ids, scope) = (&self.ids, &self.scope);
        match keeper {
            Keeper::Table(id) => Some(scope.tables.get(at(&ids.tables, id)?)?.name.span),
            Keeper::Register(id) => Some(scope.registers.get(at(&ids.registers, id)?)?.name.span),
            Keeper::Counter(id) => Some(scope.counters.get(at(&ids.counters, id)?)?.name.span),
            Keeper::Meter(id) => Some(scope.meters.get(at(&ids.meters, id)?)?.name.span),
        }
    }
}
