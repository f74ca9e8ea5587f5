//! Moving the state of tables to the program that replaces theirs.

use super::{TableWriter, Writer, empty_log};
use crate::entry::{ProfileId, TableId, TableSpec};
use crate::replica::{Length, Patience};
use crate::selector::ProfileWriter;
use crate::store::Store;

/// True if entries of a table declared like `old` fit a table declared like `new` unchanged.
fn same_shape(new: &TableSpec, old: &TableSpec) -> bool {
    new.name == old.name
        && new.fields == old.fields
        && new.capacity == old.capacity
        && new.actions == old.actions
        && new.const_default == old.const_default
        && new.profile == old.profile
        && new.idle_timeout == old.idle_timeout
        && new.direct_counter == old.direct_counter
        && new.direct_meter == old.direct_meter
        && !new.const_entries
        && !old.const_entries
        && new.fixed == old.fixed
        && new.entries == old.entries
}

impl Writer {
    /// For each table, the one of `old` whose entries it can take over, and for each profile whether it can move.
    fn moves(&self, old: &Writer) -> (Vec<Option<usize>>, Vec<bool>) {
        let source = |new: &TableWriter| {
            let fits = |old: &TableWriter| {
                !old.moved
                    && same_shape(&new.shape().spec, &old.shape().spec)
                    && new.lanes() == old.lanes()
            };
            old.tables.iter().position(fits)
        };
        let mut moves: Vec<Option<usize>> = self.tables.iter().map(source).collect();
        let profiles: Vec<bool> =
            (0..self.profiles.len()).map(|p| self.profile_moves(p, old, &moves)).collect();
        for (new, from) in self.tables.iter().zip(&mut moves) {
            if new.shape().spec.profile.is_some_and(|id| !profiles[id.0 as usize]) {
                *from = None;
            }
        }
        (moves, profiles)
    }

    /// The tables that [`Writer::adopt`] would take over.
    pub(crate) fn would_adopt(&self, old: &Writer) -> Vec<TableId> {
        let (moves, _) = self.moves(old);
        let kept = (0..).map(TableId).zip(moves).filter(|(_, from)| from.is_some());
        kept.map(|(id, _)| id).collect()
    }

    /// Takes over the state of tables of equal shape; see `Tables::adopt`.
    pub(crate) fn adopt(&mut self, old: &mut Writer) -> Vec<TableId> {
        let (moves, profiles) = self.moves(old);
        for (p, _) in profiles.iter().enumerate().filter(|(_, moves)| **moves) {
            let frozen = old.profiles[p].frozen();
            self.profiles[p] = std::mem::replace(&mut old.profiles[p], frozen);
        }
        let mut kept = Vec::new();
        for (at, from) in moves.into_iter().enumerate() {
            if let Some(from) = from {
                self.tables[at].take_over(&mut old.tables[from]);
                kept.push(TableId(at as u32));
            }
        }
        self.version = old.version + 1;
        old.followers.clear();
        kept
    }

    /// A profile moves only together with every table that points into it, before and after, so that its references
    /// stay valid.
    fn profile_moves(&self, p: usize, old: &Writer, moves: &[Option<usize>]) -> bool {
        let uses = |table: &TableWriter| table.shape().spec.profile == Some(ProfileId(p as u32));
        let same = |old: &ProfileWriter| !old.moved && old.spec == self.profiles[p].spec;
        old.profiles.get(p).is_some_and(same)
            && self.tables.iter().zip(moves).all(|(new, from)| !uses(new) || from.is_some())
            && old
                .tables
                .iter()
                .enumerate()
                .all(|(at, old)| !uses(old) || moves.contains(&Some(at)))
    }
}

impl TableWriter {
    fn lanes(&self) -> Option<usize> {
        self.side.counters.as_ref().map(|counters| counters.lanes())
    }

    /// Takes the place of `old`, which keeps its readers' snapshot and takes no more writes. A default action that the
    /// new program declares otherwise wins over one set at run time.
    fn take_over(&mut self, old: &mut TableWriter) {
        let frozen = TableWriter {
            store: Store::new(old.store.shape.clone()),
            side: old.side.clone(),
            replica: old.replica.frozen(),
            log: empty_log(old.shape()),
            default: old.default.clone(),
            declared_default: old.declared_default.clone(),
            scan: 0,
            reported: Vec::new(),
            moved: true,
        };
        let declared = self.declared_default.clone();
        *self = std::mem::replace(old, frozen);
        if self.declared_default != declared {
            self.declared_default = declared.clone();
            self.set_default(declared);
        }
        if self.log.len() > 0 {
            let log = std::mem::replace(&mut self.log, empty_log(&self.store.shape));
            self.replica.publish(log, Patience::Waits);
        }
    }
}
