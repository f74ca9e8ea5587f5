//! The journal: what control changed, for a store that keeps it beyond the end of the process ([`crate::p4runtime::persist`]).
//!
//! Changes of one request are one unit, which is kept whole or not at all. Units are handed over in the order in which the device was
//! changed: who writes holds the journal for as long. Whether a unit is kept is known later; who acknowledges a request waits for it. When
//! keeping fails, no more is written: what would be acknowledged would be lost. A device without a journal has none of this.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;
use wireyard_pipeline::ir::Program;

use super::{Control, ControlError, Mode, Update, WriteError};
use crate::sync::{self, lock};

/// A key and what belongs to it from now on; `None`: nothing.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The changes of one unit, with its number.
#[derive(Debug)]
pub struct Changes {
    /// Units are numbered from 1.
    pub number: u64,
    /// What is kept from now on.
    pub changes: Vec<Change>,
    /// Of what was kept before, keys with a first byte below this are not kept any more.
    pub replaces: Option<u8>,
}

/// How an update that was done is kept.
pub type Record = Box<dyn Fn(&Control, &Update, &mut Vec<Change>) + Send + Sync>;

/// What follows from an update that was done by a writer that is no controller ([`Control::write_of`]), and how that is kept.
pub type Written = Box<dyn Fn(&Update, &mut Vec<Change>) + Send + Sync>;

#[derive(Debug, Default)]
struct Progress {
    kept: u64,
    failed: Option<String>,
}

/// What is known of units: for those that wait for them, and for the store.
#[derive(Debug, Default)]
pub struct Kept {
    progress: Mutex<Progress>,
    moved: Condvar,
    notify: Notify,
}

impl Kept {
    /// All units up to this one are kept.
    pub fn up_to(&self, number: u64) {
        lock(&self.progress).kept = number;
        self.wake();
    }

    /// Keeping has failed, for good.
    pub fn fail(&self, why: String) {
        lock(&self.progress).failed.get_or_insert(why);
        self.wake();
    }

    fn wake(&self) {
        self.moved.notify_all();
        self.notify.notify_waiters();
    }

    /// Why nothing is kept any more.
    pub fn failure(&self) -> Option<String> {
        lock(&self.progress).failed.clone()
    }

    /// `None`: not known yet.
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

/// A journal of one device.
pub struct Journal {
    /// Held by who writes.
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
    /// One that hands its units over to this channel.
    pub fn new(record: Record, changes: Sender<Changes>, kept: Arc<Kept>) -> Journal {
        let (writing, changes) = (Mutex::default(), Mutex::new(changes));
        Journal { writing, record, changes, units: AtomicU64::new(0), kept }
    }
}

/// Changes that belong together.
#[derive(Debug)]
pub struct Unit<'a> {
    control: &'a Control,
    open: Option<(&'a Journal, MutexGuard<'a, ()>)>,
    changes: Vec<Change>,
    replaces: Option<u8>,
    /// What went with entries that were changed or deleted.
    released: Vec<Update>,
}

/// A unit that was handed over.
#[derive(Clone, Debug, Default)]
#[must_use = "what is not kept is not to be acknowledged"]
pub struct Ticket(Option<(u64, Arc<Kept>)>);

impl Control {
    /// Begins a unit; others who write wait for its end.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: nothing is kept any more.
    pub fn unit(&self) -> Result<Unit<'_>, ControlError> {
        let (changes, released) = (Vec::new(), Vec::new());
        let mut unit = Unit { control: self, open: None, changes, replaces: None, released };
        if let Some(journal) = self.shared.journal.get() {
            let guard = lock(&journal.writing);
            if let Some(why) = journal.kept.failure() {
                return Err(ControlError::Unavailable(format!(
                    "nothing is written, as it would be lost with the next start: {why}"
                )));
            }
            unit.open = Some((journal, guard));
        }
        Ok(unit)
    }

    /// Writes go to this journal from now on; false where there is one already.
    pub fn keep(&self, journal: Journal) -> bool {
        self.shared.journal.set(journal).is_ok()
    }

    /// Updates of writers that are no controllers are given to `written` from now on; false where that is so already.
    pub fn on_write(&self, written: Written) -> bool {
        self.shared.written.set(written).is_ok()
    }

    /// Whether there is a journal.
    pub fn is_kept(&self) -> bool {
        self.shared.journal.get().is_some()
    }
}

impl Unit<'_> {
    /// As [`Control::write_of`], where there is a program, without waiting until it is kept.
    ///
    /// # Errors
    /// As there.
    pub fn write_of(
        &mut self,
        program: Option<&Arc<Program>>,
        updates: &[Update],
        mode: Mode,
    ) -> Result<(), WriteError> {
        let before = self.released.len();
        let done = self.control.apply(program, updates, mode, &mut self.released);
        if let Some((journal, _)) = &self.open {
            for (at, update) in updates.iter().enumerate() {
                if done.as_ref().map_or_else(|error| error.results[at].is_ok(), |()| true) {
                    (journal.record)(self.control, update, &mut self.changes);
                }
            }
            for update in &self.released[before..] {
                (journal.record)(self.control, update, &mut self.changes);
            }
        }
        done
    }

    /// What went with entries that were changed or deleted: their groups, and the members of these.
    pub fn released(&mut self) -> Vec<Update> {
        std::mem::take(&mut self.released)
    }

    /// What follows from those of these updates that were done, where their writer is no controller.
    pub(super) fn follow(&mut self, updates: &[Update], done: &Result<(), WriteError>) {
        let Some(written) = self.control.shared.written.get() else { return };
        let mut changes = Vec::new();
        for (at, update) in updates.iter().enumerate() {
            if done.as_ref().map_or_else(|error| error.results[at].is_ok(), |()| true) {
                written(update, &mut changes);
            }
        }
        for update in self.released() {
            written(&update, &mut changes);
        }
        changes.into_iter().for_each(|change| self.note(change));
    }

    /// Something of the caller's own to be kept.
    pub fn note(&mut self, change: Change) {
        if self.open.is_some() {
            self.changes.push(change);
        }
    }

    /// These are kept in the place of all keys with a first byte below this.
    pub fn replace(&mut self, changes: Vec<Change>, below: u8) {
        (self.changes, self.replaces) = (changes, Some(below));
    }

    /// Hands the unit over.
    pub fn end(self) -> Ticket {
        let Some((journal, _guard)) = self.open else { return Ticket(None) };
        if self.changes.is_empty() && self.replaces.is_none() {
            return Ticket(None);
        }
        let number = journal.units.fetch_add(1, Ordering::Relaxed) + 1;
        let unit = Changes { number, changes: self.changes, replaces: self.replaces };
        if lock(&journal.changes).send(unit).is_err() {
            journal.kept.fail("whoever keeps it has ended".to_owned());
        }
        Ticket(Some((number, Arc::clone(&journal.kept))))
    }
}

impl Ticket {
    /// Waits until the unit is kept.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: it was done and is not kept.
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

    /// The same for a task.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub async fn kept(&self) -> Result<(), ControlError> {
        let Some((number, kept)) = &self.0 else { return Ok(()) };
        loop {
            // Made before it is looked, so that nothing that happens meanwhile is missed.
            let moved = kept.notify.notified();
            if let Some(outcome) = Kept::outcome(&lock(&kept.progress), *number) {
                return outcome;
            }
            moved.await;
        }
    }
}
