//! Moving the state of tables to the program that replaces theirs.

use std::sync::Arc;

use super::{TableWriter, Writer, empty_log};
use crate::entry::{ProfileId, TableId, TableSpec};
use crate::replica::Replay;
use crate::selector::ProfileWriter;
use crate::shape::TableShape;
use crate::store::Store;
use crate::view::TableView;

/// True if entries of a table declared like `old` fit a table declared like `new` unchanged.
fn same_shape(new: &TableSpec, old: &TableSpec) -> bool {
    new.name == old.name
        && new.fields == old.fields
        && new.capacity == old.capacity
        && new.actions == old.actions
        && new.const_default == old.const_default
        && new.profile.is_some() == old.profile.is_some()
        && new.idle_timeout == old.idle_timeout
        && new.direct_counter == old.direct_counter
        && new.direct_meter == old.direct_meter
        && !new.const_entries
        && !old.const_entries
        && new.fixed == old.fixed
        && new.entries == old.entries
}

/// What moves to a new set: for each of its tables and profiles the one of the old set, if it moves.
struct Moves {
    tables: Vec<Option<usize>>,
    profiles: Vec<Option<usize>>,
}

impl Writer {
    fn moves(&self, old: &Writer) -> Moves {
        let source = |new: &TableWriter| {
            let fits = |old: &TableWriter| {
                !old.moved
                    && same_shape(&new.shape().spec, &old.shape().spec)
                    && new.lanes() == old.lanes()
            };
            old.tables.iter().position(fits)
        };
        let mut tables: Vec<Option<usize>> = self.tables.iter().map(source).collect();
        let profiles: Vec<Option<usize>> =
            (0..self.profiles.len()).map(|p| self.profile_source(p, old, &tables)).collect();
        for (new, from) in self.tables.iter().zip(&mut tables) {
            if new.shape().spec.profile.is_some_and(|id| profiles[id.0 as usize].is_none()) {
                *from = None;
            }
        }
        Moves { tables, profiles }
    }

    /// The tables that [`Writer::adopt`] would take over.
    pub(crate) fn would_adopt(&self, old: &Writer) -> Vec<TableId> {
        let kept = (0..).map(TableId).zip(self.moves(old).tables);
        kept.filter(|(_, from)| from.is_some()).map(|(id, _)| id).collect()
    }

    /// Takes over the state of tables of equal shape; see `Tables::adopt`.
    pub(crate) fn adopt(&mut self, old: &mut Writer) -> Vec<TableId> {
        let Moves { tables, profiles } = self.moves(old);
        for (new, from) in self.profiles.iter_mut().zip(profiles) {
            if let Some(from) = from {
                new.take_over(&mut old.profiles[from]);
            }
        }
        let mut kept = Vec::new();
        for (at, from) in tables.into_iter().enumerate() {
            if let Some(from) = from {
                self.tables[at].take_over(&mut old.tables[from]);
                kept.push(TableId(at as u32));
            }
        }
        self.version = old.version + 1;
        old.followers.clear();
        kept
    }

    /// The profile of the old set, of the same name, that moves here. It moves only together with every table that
    /// points into it, before and after, so that its references stay valid.
    fn profile_source(&self, p: usize, old: &Writer, tables: &[Option<usize>]) -> Option<usize> {
        let same = |old: &ProfileWriter| !old.moved && old.fits(&self.profiles[p].spec);
        let from = old.profiles.iter().position(same)?;
        let uses = |table: &TableWriter, p| table.shape().spec.profile == Some(ProfileId(p as u32));
        let moves = |table: &Option<usize>| table.is_some_and(|at| uses(&old.tables[at], from));
        let mut after = self.tables.iter().zip(tables).filter(|(new, _)| uses(new, p));
        let mut before = old.tables.iter().enumerate().filter(|(_, old)| uses(old, from));
        let all = after.all(|(_, table)| moves(table))
            && before.all(|(at, _)| tables.contains(&Some(at)));
        all.then_some(from)
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
            scan: 0,
            reported: Vec::new(),
            moved: true,
        };
        let declared = self.shape().spec.clone();
        *self = std::mem::replace(old, frozen);
        let before = &self.shape().spec;
        if before.default != declared.default || before.profile != declared.profile {
            self.declare(declared);
        }
    }

    /// Replaces the declaration by one of the same shape. Readers of the old set keep theirs, so the view is copied,
    /// which the next change would do.
    fn declare(&mut self, spec: TableSpec) {
        let before = self.store.shape.clone();
        self.store.shape = Arc::new(TableShape { spec, ..(*before).clone() });
        let shape = self.store.shape.clone();
        if shape.spec.default != before.spec.default {
            self.set_default(shape.spec.default.clone());
        }
        let log = std::mem::replace(&mut self.log, empty_log(&shape));
        let mut view = TableView::clone(self.replica.front());
        view.shape = shape;
        view.replay(&log);
        self.replica.restart(view);
    }
}
