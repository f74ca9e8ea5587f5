//! One flush into the tables: new objects before those that refer to them, and removed ones after those that referred
//! to them.

use std::sync::Arc;

use wireyard_pipeline::ir::Program;

use crate::control::{Control, ControlError, Entity, Mode, Query, Update, WriteError};

use super::kernel::Prefix;

/// Number of objects that are removed together.
const TOGETHER: usize = 4096;

/// The object of an update, which is made again if it is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    Route(Prefix),
    /// A next hop, or a group of them, by number.
    Hop(u32),
    /// Not made again.
    Other,
}

/// Updates of one flush, in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct Writes {
    members: Vec<(Update, Subject)>,
    groups: Vec<(Update, Subject)>,
    hops: Vec<(Update, Subject)>,
    /// Interfaces, addresses, routes.
    entries: Vec<(Update, Subject)>,
    drop_hops: Vec<Update>,
    drop_groups: Vec<Update>,
    drop_members: Vec<Update>,
}

/// The result of a flush.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Objects that are not in the tables as they should be.
    pub(super) refused: Vec<Subject>,
    /// How many updates were refused, those of routes too.
    pub(super) failures: u64,
    /// Why the first one was refused.
    pub(super) why: Option<String>,
}

fn upsert(is_known: bool, entity: Entity) -> Update {
    if is_known { Update::Modify(entity) } else { Update::Insert(entity) }
}

impl Writes {
    pub(super) fn upsert_member(&mut self, number: u32, is_known: bool, member: Entity) {
        self.members.push((upsert(is_known, member), Subject::Hop(number)));
    }

    pub(super) fn upsert_group(&mut self, number: u32, is_known: bool, group: Entity) {
        self.groups.push((upsert(is_known, group), Subject::Hop(number)));
    }

    pub(super) fn upsert_hop(&mut self, number: u32, is_known: bool, entry: Entity) {
        self.hops.push((upsert(is_known, entry), Subject::Hop(number)));
    }

    pub(super) fn drop_hop(&mut self, entry: Entity) {
        self.drop_hops.push(Update::Delete(entry));
    }

    pub(super) fn drop_group(&mut self, group: Entity) {
        self.drop_groups.push(Update::Delete(group));
    }

    pub(super) fn drop_member(&mut self, member: Entity) {
        self.drop_members.push(Update::Delete(member));
    }

    pub(super) fn entry(&mut self, update: Update, subject: Subject) {
        self.entries.push((update, subject));
    }

    /// Makes them all, in tables of this program.
    pub(super) fn done_by(self, control: &Control, program: &Arc<Program>) -> Written {
        let plain =
            |updates: Vec<Update>| updates.into_iter().map(|update| (update, Subject::Other));
        // Removals make room for additions, in full tables.
        let (gone, come): (Vec<_>, Vec<_>) =
            self.entries.into_iter().partition(|(update, _)| matches!(update, Update::Delete(_)));
        let first = self.members.into_iter().chain(self.groups).chain(self.hops);
        let last =
            plain(self.drop_hops).chain(plain(self.drop_groups)).chain(plain(self.drop_members));
        let all = first.chain(gone).chain(come).chain(last);
        let (updates, subjects): (Vec<Update>, Vec<Subject>) = all.unzip();
        let mut written = Written::default();
        if updates.is_empty() {
            return written;
        }
        let Err(WriteError { results }) = control.write_unstored(program, &updates, Mode::Continue)
        else {
            return written;
        };
        for ((update, subject), result) in updates.into_iter().zip(subjects).zip(results) {
            let Err(error) = result.or_else(|error| again(control, program, update, error)) else {
                continue;
            };
            written.failures += 1;
            written.why.get_or_insert_with(|| error.to_string());
            written.refused.push(subject);
        }
        written
    }
}

/// Removes what the tables hold that the kernel fills: after a start or a swap nothing says which of it the kernel still
/// has.
pub(super) fn empty(control: &Control, program: &Arc<Program>) {
    let mut gone = Vec::new();
    for mapping in &program.linux {
        let table = Some(mapping.table);
        for query in [
            Query::Entries { table },
            Query::Groups { table, id: None },
            Query::Members { table, id: None },
        ] {
            // A table without a profile has neither groups nor members.
            let found = control.read(&query).unwrap_or_default().into_iter();
            gone.extend(found.filter(|entity| !entity.is_const()).map(Update::Delete));
        }
    }
    for some in gone.chunks(TOGETHER) {
        // Stored, so that records of another run go too. Without a store that works the tables are emptied all the same.
        if control.write_mirrored(program, some, Mode::Continue).is_err() {
            let _ = control.write_unstored(program, some, Mode::Continue);
        }
    }
}

/// Repeats an update of an entry that is there already, or not any more, so that it ends as the kernel has it.
fn again(
    control: &Control,
    program: &Arc<Program>,
    update: Update,
    error: ControlError,
) -> Result<(), ControlError> {
    let write = |update| Ok(control.write_unstored(program, &[update], Mode::Atomic)?);
    match (update, error) {
        (Update::Insert(entity), ControlError::EntryExists(_)) => write(Update::Modify(entity)),
        (Update::Modify(entity), ControlError::NoEntry(_)) => write(Update::Insert(entity)),
        (Update::Delete(_), ControlError::NoEntry(_)) => Ok(()),
        (_, error) => Err(error),
    }
}
