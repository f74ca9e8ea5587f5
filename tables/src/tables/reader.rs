//! The read side of one worker.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::entry::{ActionCall, Entry, Learned, TableId, Target};
use crate::error::EntryError;
use crate::key::Match;
use crate::shape::MatchEngine;
use crate::tables::{Snapshot, Tables};
use crate::time::{Span, Time};

/// A worker's view of the tables. Pin once per burst; the snapshot stays the same until the next [`Reader::pin`]. A
/// worker that goes to sleep calls [`Reader::release`], otherwise the writer waits for it.
#[derive(Debug)]
pub struct Reader {
    tables: Tables,
    cache: Option<Pinned>,
}

/// The current version in the worker's cache.
type Pinned = Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// Kept out of [`Reader::pin`], which nearly always has a snapshot already.
#[cold]
fn pinned(current: &Arc<ArcSwap<Snapshot>>) -> Pinned {
    Cache::new(current.clone())
}

impl Reader {
    pub(crate) fn new(tables: Tables) -> Reader {
        Reader { tables, cache: None }
    }

    /// The tables read from.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The current version. Costs one load and a comparison while nothing has been published.
    #[inline]
    pub fn pin(&mut self) -> &Snapshot {
        let current = &self.tables.shared.current;
        self.cache.get_or_insert_with(|| pinned(current)).load()
    }

    /// Drops the snapshot.
    pub fn release(&mut self) {
        self.cache = None;
    }

    /// Data-plane insert into an exact table: a new entry for `key`, or a new action, data and timeout for the one that
    /// exists. The next [`Reader::pin`] of this reader sees it; other readers with their next burst. Nothing is
    /// published, and no lock is taken, if the entry exists with this action and data (its idle time starts again), or
    /// if the table is full. It waits for nobody ([`Learned::Busy`]): while a batch is applied, nothing is learned.
    ///
    /// # Errors
    /// [`EntryError::NotLearnable`], [`EntryError::Const`], a wrong action or amount of data.
    pub fn learn(
        &mut self,
        table: TableId,
        key: &[u64],
        call: &ActionCall,
        idle_timeout: Option<Span>,
        now: Time,
    ) -> Result<Learned, EntryError> {
        let view = self.pin().table(table).ok_or(EntryError::NoSuchTable(table))?;
        let shape = view.shape();
        let fits = key.len() == shape.layout().words();
        if shape.engine() != MatchEngine::Exact || view.profile().is_some() || !fits {
            return Err(EntryError::NotLearnable);
        }
        let known = view.lookup(key);
        if let Some(hit) = known {
            shape.check_call(call)?;
            if hit.action == call.action && hit.data.starts_with(&call.data) {
                view.last_hits().inspect(|hits| hits.touch(hit.slot, now));
                return Ok(Learned::Refreshed(hit.slot));
            }
        } else if view.len() >= shape.spec.capacity && !shape.spec.const_entries {
            // Every packet of a key that does not fit tries to learn it: none waits for the writer, which would refuse
            // as well.
            shape.check_call(call)?;
            return Ok(Learned::Full);
        }
        let places = shape.layout().places();
        let matches = places.iter().map(|p| Match::Exact(p.get(key))).collect();
        let target = Target::Action(call.clone());
        let entry = Entry { matches, priority: 0, target, idle_timeout, meter: None };
        // The writer may need the copy that this worker has pinned.
        self.release();
        self.tables.learn(table, entry, now)
    }
}
