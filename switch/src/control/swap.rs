//! Program replacement: everything that can fail is done beside the running program; then packets that arrive run the
//! new one, and packets inside leave by the program that they entered with.

use std::fmt;
use std::sync::Arc;

use wireyard_pipeline::entries::Resolved;
use wireyard_pipeline::generation::{Generation, Prepared};
use wireyard_pipeline::ids::{Id, IdVec};
use wireyard_pipeline::ir::{Program, Table, TableEntry};
use wireyard_tables::TableId;

use super::query::cells_at_rest;
use super::{Control, ControlError, Entity};
use crate::replicate::Replication;
use crate::sync::{self, lock};

/// State that a program takes over from the one it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Tables, registers, counters, meters and value sets that have the same name and shape, groups and sessions.
    #[default]
    WhatFits,
    /// Nothing: it begins with the contents of its own files.
    Nothing,
}

/// What happens to an object of either program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It keeps its contents.
    Kept,
    /// Both programs have one of this name, with different shapes: it begins anew, and the old contents are lost.
    Changed,
    /// Only the new program has it.
    New,
    /// Only the old program has it: its contents are lost.
    Lost,
}

/// An object and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFate {
    /// `table`, `default action`, `register`, `counter`, `meter`, `value set`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub fate: Fate,
    /// Current number of entries, of tables of the old program.
    pub entries: Option<u32>,
}

/// A program that is checked, compiled and filled, ready to replace the running one.
pub struct Swap {
    control: Control,
    prepared: Prepared,
    /// Number of the generation that it was prepared to replace.
    replaces: u16,
    keep: Keep,
    /// Groups and sessions of its entries file.
    replication: Replication,
    report: Vec<ObjectFate>,
}

impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap").field("report", &self.report).finish_non_exhaustive()
    }
}

impl Control {
    /// Prepares a program to replace the running one: compiles it, and fills its tables with these entries.
    pub(crate) fn prepare_program(
        &self,
        program: &Arc<Program>,
        entries: Option<&Resolved>,
        keep: Keep,
    ) -> Result<Swap, ControlError> {
        let loader = self.shared.loader();
        let old = loader.current();
        let prepared = match keep {
            Keep::WhatFits => loader.prepare(Arc::clone(program), self.now()),
            Keep::Nothing => loader.prepare_anew(Arc::clone(program), self.now()),
        };
        let prepared = prepared.map_err(ControlError::invalid)?;
        let mut replication = Replication::default();
        if let Some(entries) = entries {
            entries
                .apply_but(prepared.state(), &prepared.kept(), self.now())
                .map_err(ControlError::invalid)?;
            replication.fill(entries).map_err(ControlError::invalid)?;
        }
        let kept = prepared.kept();
        let (new, was) = (program, &old.program);
        let mut report = Vec::new();
        fates("table", &new.tables, &was.tables, |t| &t.name, &kept.tables, &mut report);
        let snapshot = old.state.tables().snapshot();
        for fate in &mut report {
            let known = was.tables.entries().find(|(_, table)| table.name == fate.name);
            let view = known.and_then(|(id, _)| snapshot.table(TableId(id.0)));
            fate.entries = view.map(wireyard_tables::TableView::len);
            let in_new = new.tables.iter().find(|table| table.name == fate.name);
            if fate.fate == Fate::Changed
                && let (Some((_, before)), Some(after)) = (known, in_new)
                && is_same_constant(was, before, new, after)
            {
                fate.fate = Fate::Kept;
            }
        }
        lost_defaults(&old, &prepared, &kept.tables, &mut report);
        fates(
            "register",
            &new.registers,
            &was.registers,
            |r| &r.name,
            &kept.registers,
            &mut report,
        );
        fates("counter", &new.counters, &was.counters, |c| &c.name, &kept.counters, &mut report);
        fates("meter", &new.meters, &was.meters, |m| &m.name, &kept.meters, &mut report);
        let sets = (&new.value_sets, &was.value_sets);
        fates("value set", sets.0, sets.1, |s| &s.name, &kept.value_sets, &mut report);
        let control = self.clone();
        Ok(Swap { control, prepared, replaces: old.id, keep, replication, report })
    }

    /// Number of loaded programs: the current one, and those with packets still inside or that a worker has not left.
    /// Programs without either are freed by this call, or with the next swap.
    pub fn programs(&self) -> usize {
        self.shared.loader().alive()
    }
}

impl Swap {
    /// What happens to the objects of both programs.
    pub fn report(&self) -> &[ObjectFate] {
        &self.report
    }

    /// The first object whose contents are lost. Constant entries are no contents: nobody wrote them.
    pub fn lost(&self) -> Option<&ObjectFate> {
        let running = self.control.program();
        let is_const = |one: &ObjectFate| {
            let mut tables = running.tables.iter();
            one.kind == "table" && tables.any(|table| table.name == one.name && table.const_entries)
        };
        self.report.iter().find(|one| {
            matches!(one.fate, Fate::Changed | Fate::Lost)
                && one.entries != Some(0)
                && !is_const(one)
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.prepared.program()
    }

    /// Calls `each` with the cells that are not blank of arrays that begin anew: an entries file set them.
    pub(crate) fn new_cells(&self, each: &mut dyn FnMut(Entity)) {
        let (program, kept) = (self.prepared.program(), self.prepared.kept());
        cells_at_rest(program, self.prepared.state(), &mut |cell| {
            let is_kept = match &cell {
                Entity::Counter { counter, .. } => kept.counters.contains(counter),
                Entity::Meter { meter, .. } => kept.meters.contains(meter),
                Entity::Register { register, .. } => kept.registers.contains(register),
                _ => false,
            };
            if !is_kept {
                each(cell);
            }
        });
    }

    /// Replaces the running program. Each worker changes between two bursts; one program handles a packet from ingress
    /// to egress. With [`Keep::WhatFits`] the groups and sessions of the device stay, and those of its entries file
    /// that do not exist are added.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`]: another program was loaded meanwhile; nothing has changed.
    pub fn commit(self) -> Result<(), ControlError> {
        let Swap { control, prepared, replaces, keep, replication, .. } = self;
        let loader = sync::write(&control.shared.loader);
        if loader.current().id != replaces {
            let text = "another program was loaded since this one was prepared: prepare it again";
            return Err(ControlError::FailedPrecondition(text.to_owned()));
        }
        let before = loader.current().program.name.clone();
        let program = prepared.program().name.clone();
        {
            let _replicating = lock(&control.shared.replicating);
            let mut all = match keep {
                Keep::WhatFits => (*control.shared.replication.load()).clone(),
                Keep::Nothing => Replication::default(),
            };
            all.add(&replication);
            loader.commit(prepared);
            control.shared.replication.publish(all);
        }
        drop(loader);
        tracing::info!(
            event = "program",
            program,
            before,
            "{program} runs in the place of {before}"
        );
        for worker in 0..control.workers() {
            // A worker that is not polled changes with its next packet.
            let _ = control.post(worker, |core, _| core.refresh_program());
        }
        Ok(())
    }
}

/// True for a table with the same constant entries in both programs: it is built anew, and nothing is different.
fn is_same_constant(was: &Program, before: &Table, new: &Program, after: &Table) -> bool {
    let shown = |program: &Program, table: &Table| -> Vec<_> {
        let name = |one: &TableEntry| program.actions.get(one.call.action).map(|a| a.name.clone());
        let part = |one: &TableEntry| {
            let fields = one.matches.iter().zip(&table.keys);
            let matches: Vec<_> =
                fields.map(|(one, key)| one.canonical(key.kind, key.bits)).collect();
            (matches, one.priority, name(one), one.call.args.clone())
        };
        table.entries.iter().map(part).collect()
    };
    // Counts of entries begin at 0 again.
    let counts = |table: &Table| table.counters || table.meter.is_some();
    let keys = |table: &Table| -> Vec<_> {
        table.keys.iter().map(|key| (key.name.clone(), key.kind, key.bits)).collect()
    };
    before.const_entries
        && after.const_entries
        && !counts(before)
        && keys(before) == keys(after)
        && shown(was, before) == shown(new, after)
}

/// The default actions set at run time that a kept table does not keep, because the new program declares another.
fn lost_defaults(
    old: &Generation,
    prepared: &Prepared,
    kept: &[wireyard_pipeline::ids::TableId],
    report: &mut Vec<ObjectFate>,
) {
    let (before, after) = (old.state.tables().snapshot(), prepared.state().tables().snapshot());
    for id in kept {
        let name = &prepared.program().tables[*id].name;
        let Some((was, _)) = old.program.tables.entries().find(|(_, table)| table.name == *name)
        else {
            continue;
        };
        let was = TableId(was.0);
        let (Some(old_view), Some(new_view)) = (before.table(was), after.table(TableId(id.0)))
        else {
            continue;
        };
        let (declared, next) = (&old_view.shape().spec().default, &new_view.shape().spec().default);
        let current = old.state.tables().default_action(was);
        if declared != next && current.is_ok_and(|current| current != *declared && current != *next)
        {
            let (kind, fate) = ("default action", Fate::Changed);
            report.push(ObjectFate { kind, name: name.clone(), fate, entries: None });
        }
    }
}

/// What happens to the objects of one kind: those of the new program in its order, then those that only the old one
/// has.
fn fates<I: Id, T>(
    kind: &'static str,
    new: &IdVec<I, T>,
    old: &IdVec<I, T>,
    name: impl Fn(&T) -> &String,
    kept: &[I],
    report: &mut Vec<ObjectFate>,
) {
    let has = |all: &IdVec<I, T>, object: &T| all.iter().any(|one| name(one) == name(object));
    let fate = |id, object: &T| match (kept.contains(&id), has(old, object)) {
        (true, _) => Fate::Kept,
        (false, true) => Fate::Changed,
        (false, false) => Fate::New,
    };
    let one =
        |object: &T, fate| ObjectFate { kind, name: name(object).clone(), fate, entries: None };
    report.extend(new.entries().map(|(id, object)| one(object, fate(id, object))));
    report.extend(old.iter().filter(|object| !has(new, object)).map(|o| one(o, Fate::Lost)));
}
