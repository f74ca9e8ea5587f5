//! The journal: changes made by control, for a store that keeps them beyond the end of the process
//! ([`crate::p4runtime::persist`]).
//!
//! The changes of one request are one unit, which is stored completely or not at all. Units are handed over in the
//! order in which the device was changed: a writer locks the journal meanwhile. Whether a unit is stored is known
//! later; a server waits for that before it acknowledges a request. When storing fails, further writes are refused:
//! they would be acknowledged and lost. A device without a journal has no such delay.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;
use wireyard_pipeline::ids::TableId;
use wireyard_pipeline::ir::Program;

use super::{Control, ControlError, Entity, EntryKey, Mode, TableEntry, Update, WriteError};
use crate::sync::{self, lock};

/// A key and its new value; `None` deletes it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The changes of one unit, with its number.
#[derive(Debug)]
pub struct Changes {
    /// Units are numbered from 1.
    pub number: u64,
    /// Keys and values to store.
    pub changes: Vec<Change>,
    /// Keys stored before that begin with none of these are deleted first; `None`: all stay.
    pub stays: Option<Vec<Vec<u8>>>,
}

/// Converts an update that was done into changes to store.
pub type Record = Box<dyn Fn(&Control, &Update, &mut Vec<Change>) + Send + Sync>;

/// Called with each update done by a writer other than a controller ([`Control::write_of`]); adds the changes to store
/// for its consequences.
pub type Written = Box<dyn Fn(&Update, &mut Vec<Change>) + Send + Sync>;

#[derive(Debug, Default)]
struct Progress {
    kept: u64,
    failed: Option<String>,
}

/// Progress of storing, for callers that wait for units, and for the store.
#[derive(Debug, Default)]
pub struct Kept {
    progress: Mutex<Progress>,
    moved: Condvar,
    notify: Notify,
}

impl Kept {
    /// Records that all units up to `number` are stored.
    pub fn up_to(&self, number: u64) {
        lock(&self.progress).kept = number;
        self.wake();
    }

    /// Records that storing has failed permanently.
    pub fn fail(&self, why: String) {
        lock(&self.progress).failed.get_or_insert(why);
        self.wake();
    }

    fn wake(&self) {
        self.moved.notify_all();
        self.notify.notify_waiters();
    }

    /// Why nothing is stored any more; `None` while storing works.
    pub fn failure(&self) -> Option<String> {
        lock(&self.progress).failed.clone()
    }

    /// The outcome of a unit; `None` if it is not known yet.
    fn outcome(progress: &Progress, number: u64) -> Option<Result<(), ControlError>> {
        match &progress.failed {
            _ if progress.kept >= number => Some(Ok(())),
            Some(why) => Some(Err(ControlError::Unavailable(format!(
                "done, but not kept for the next start: {why}"
            )))),
            None => None,
        }
    }
}

/// The journal of a device.
pub struct Journal {
    /// Locked during a write.
    writing: Mutex<()>,
    record: Record,
    changes: Mutex<Sender<Changes>>,
    units: AtomicU64,
    kept: Arc<Kept>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Journal {
    /// A journal that sends its units to this channel.
    pub fn new(record: Record, changes: Sender<Changes>, kept: Arc<Kept>) -> Journal {
        let (writing, changes) = (Mutex::default(), Mutex::new(changes));
        Journal { writing, record, changes, units: AtomicU64::new(0), kept }
    }
}

/// Changes that are stored together.
#[derive(Debug)]
pub struct Unit<'a> {
    control: &'a Control,
    open: Option<(&'a Journal, MutexGuard<'a, ()>)>,
    /// False: the changes are not stored.
    is_stored: bool,
    /// The writer is the mirror of the kernel, or follows the state of the device: it may write tables that the kernel fills.
    pub(super) fills_mirrored: bool,
    changes: Vec<Change>,
    stays: Option<Vec<Vec<u8>>>,
    /// Objects removed together with changed or deleted entries.
    released: Vec<Update>,
}

/// A unit that was handed over.
#[derive(Clone, Debug, Default)]
#[must_use = "what is not kept is not to be acknowledged"]
pub struct Ticket(Option<(u64, Arc<Kept>)>);

impl Control {
    /// Begins a unit; other writers wait for its end.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: storing has failed.
    pub fn unit(&self) -> Result<Unit<'_>, ControlError> {
        let unit = self.begin(true);
        match unit.open.as_ref().and_then(|(journal, _)| journal.kept.failure()) {
            Some(why) => Err(ControlError::Unavailable(format!(
                "nothing is written, as it would be lost with the next start: {why}"
            ))),
            None => Ok(unit),
        }
    }

    /// Begins a unit of changes that follow from the state of the device and are not stored: it needs no store that
    /// works. Other writers wait for its end.
    pub(crate) fn unstored(&self) -> Unit<'_> {
        self.begin(false)
    }

    fn begin(&self, is_stored: bool) -> Unit<'_> {
        let (changes, released) = (Vec::new(), Vec::new());
        let open = self.shared.journal.get().map(|journal| (journal, lock(&journal.writing)));
        let fills_mirrored = !is_stored;
        Unit { control: self, open, is_stored, fills_mirrored, changes, stays: None, released }
    }

    /// Sends writes to this journal from now on; false if there is one already.
    pub fn keep(&self, journal: Journal) -> bool {
        self.shared.journal.set(journal).is_ok()
    }

    /// Calls `written` with the updates of writers other than controllers from now on; false if a function is set
    /// already.
    pub fn on_write(&self, written: Written) -> bool {
        self.shared.written.set(written).is_ok()
    }

    /// From now on a mirror of the kernel writes the tables that the program maps to it, or no longer does.
    pub(crate) fn set_mirrored(&self, is_mirrored: bool) {
        self.shared.is_mirrored.store(is_mirrored, Ordering::Relaxed);
    }

    /// The table of an object that a mirror of the kernel determines: such objects are neither stored nor saved, and other
    /// writers do not change them.
    pub(crate) fn mirrored_table(&self, program: &Program, object: &Entity) -> Option<TableId> {
        let (Entity::TableEntry(TableEntry { key: EntryKey { table, .. }, .. })
        | Entity::Member { table, .. }
        | Entity::Group { table, .. }) = object
        else {
            return None;
        };
        let is_mirrored = self.shared.is_mirrored.load(Ordering::Relaxed);
        (is_mirrored && program.linux.iter().any(|mapping| mapping.table == *table))
            .then_some(*table)
    }

    /// True if a mirror of the kernel determines this object of the program.
    pub(crate) fn is_mirrored(&self, program: &Program, object: &Entity) -> bool {
        self.mirrored_table(program, object).is_some()
    }

    /// True if there is a journal.
    pub fn is_kept(&self) -> bool {
        self.shared.journal.get().is_some()
    }
}

impl Unit<'_> {
    /// Like [`Control::write_of`] (or [`Control::write`] without a program), without waiting until the unit is stored.
    ///
    /// # Errors
    /// As [`Control::write_of`].
    pub fn write_of(
        &mut self,
        program: Option<&Arc<Program>>,
        updates: &[Update],
        mode: Mode,
    ) -> Result<(), WriteError> {
        let before = self.released.len();
        let fills = self.fills_mirrored;
        let done = self.control.apply(program, updates, (mode, fills), &mut self.released);
        if let Some((journal, _)) = self.open.as_ref().filter(|_| self.is_stored) {
            // A later update of the batch may have made an object of the same number.
            for update in &self.released[before..] {
                (journal.record)(self.control, update, &mut self.changes);
            }
            for update in those_done(updates, &done) {
                (journal.record)(self.control, update, &mut self.changes);
            }
        }
        done
    }

    /// Objects removed together with changed or deleted entries: their groups, and the members of these. Empties the
    /// list.
    pub fn released(&mut self) -> Vec<Update> {
        std::mem::take(&mut self.released)
    }

    /// Calls `written` with those of these updates that were done, for a writer other than a controller.
    pub(super) fn follow(&mut self, updates: &[Update], done: &Result<(), WriteError>) {
        let Some(written) = self.control.shared.written.get() else { return };
        let mut changes = Vec::new();
        let released = self.released();
        for update in those_done(updates, done).chain(&released) {
            written(update, &mut changes);
        }
        changes.into_iter().for_each(|change| self.note(change));
    }

    /// Adds a change of the caller's own to the unit.
    pub fn note(&mut self, change: Change) {
        if self.open.is_some() && self.is_stored {
            self.changes.push(change);
        }
    }

    /// Replaces all stored keys that begin with none of `stays` by these changes.
    pub fn replace(&mut self, changes: Vec<Change>, stays: Vec<Vec<u8>>) {
        (self.changes, self.stays) = (changes, Some(stays));
    }

    /// This unit cannot be stored, so no later one is: writes are refused from now on.
    pub(crate) fn fail(&mut self, why: &ControlError) {
        if let Some((journal, _)) = &self.open {
            journal.kept.fail(why.to_string());
        }
        self.is_stored = false;
    }

    /// Ends the unit and hands it over.
    pub fn end(self) -> Ticket {
        let Some((journal, _guard)) = self.open else { return Ticket(None) };
        if self.changes.is_empty() && self.stays.is_none() {
            return Ticket(None);
        }
        let number = journal.units.fetch_add(1, Ordering::Relaxed) + 1;
        let unit = Changes { number, changes: self.changes, stays: self.stays };
        if lock(&journal.changes).send(unit).is_err() {
            journal.kept.fail("whoever keeps it has ended".to_owned());
        }
        Ticket(Some((number, Arc::clone(&journal.kept))))
    }
}

impl Ticket {
    /// Waits until the unit is stored.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: it was done but not stored.
    pub fn wait(&self) -> Result<(), ControlError> {
        let Some((number, kept)) = &self.0 else { return Ok(()) };
        let mut progress = lock(&kept.progress);
        loop {
            if let Some(outcome) = Kept::outcome(&progress, *number) {
                return outcome;
            }
            progress = sync::wait(&kept.moved, progress);
        }
    }

    /// Like [`Ticket::wait`], for an asynchronous task.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub async fn kept(&self) -> Result<(), ControlError> {
        let Some((number, kept)) = &self.0 else { return Ok(()) };
        loop {
            // Created before the check, so that no notification is missed.
            let moved = kept.notify.notified();
            if let Some(outcome) = Kept::outcome(&lock(&kept.progress), *number) {
                return outcome;
            }
            moved.await;
        }
    }
}

/// Those of these updates that were done.
fn those_done<'a>(
    updates: &'a [Update],
    done: &'a Result<(), WriteError>,
) -> impl Iterator<Item = &'a Update> {
    let is_done =
        move |at: usize| done.as_ref().map_or_else(|error| error.results[at].is_ok(), |()| true);
    updates.iter().enumerate().filter(move |(at, _)| is_done(*at)).map(|(_, update)| update)
}
