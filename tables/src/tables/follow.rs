//! The change log of a set of tables as a stream: what is needed to keep a copy of them elsewhere.
//!
//! [`Tables::follow`] returns the present contents, as updates that fill an empty set of the same declarations, and a
//! [`Follower`] of every change after that: batches of the control plane, entries that packets learned, idle entries
//! that were removed. Each change has the version that it made; versions have no gaps. The log is bounded: a follower
//! that does not keep up gets an error and must follow anew; the writer never waits for it.
//!
//! It leaves out what packets change without the writer (counters, meters' buckets, last hits).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::time::Duration;

use super::write::Writer;
use crate::entry::{ProfileId, TableId, Update};
use crate::tables::Tables;

/// A change of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version of the tables after it: one more than that of the change before.
    pub version: u64,
    /// The updates, in order. A batch of them on a copy that is up to date has the same result.
    pub updates: Arc<[Update]>,
}

/// The contents of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Their version.
    pub version: u64,
    /// Members, groups, entries (the oldest first) and default actions, in an order in which each refers only to
    /// earlier ones. Constant tables are left out: their declaration has their entries.
    pub updates: Vec<Update>,
}

/// Why a follower has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// More changes were pending than the log holds, and later ones are lost: follow anew.
    Lagging,
    /// The tables are gone, or another program has taken them over.
    Ended,
}

impl std::fmt::Display for FollowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FollowError::Lagging => "changes were lost, as too many waited: follow anew",
            FollowError::Ended => "the tables were replaced: follow those of the new program",
        })
    }
}

impl std::error::Error for FollowError {}

/// The changes of a set of tables, in order.
#[derive(Debug)]
pub struct Follower {
    changes: Receiver<Change>,
    lost: Arc<AtomicBool>,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Following {
    changes: SyncSender<Change>,
    lost: Arc<AtomicBool>,
}

impl Following {
    /// Sends a change; false if the follower is gone or has missed the change.
    pub(crate) fn send(&self, change: &Change) -> bool {
        match self.changes.try_send(change.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.store(true, Ordering::Release);
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

impl Follower {
    /// The next change, if one is pending.
    ///
    /// # Errors
    /// See [`FollowError`]; the changes before it came first.
    pub fn try_next(&mut self) -> Result<Option<Change>, FollowError> {
        match self.changes.try_recv() {
            Ok(change) => Ok(Some(change)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.end()),
        }
    }

    /// The next change; `None` if none comes within `timeout`.
    ///
    /// # Errors
    /// As [`Follower::try_next`].
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Change>, FollowError> {
        match self.changes.recv_timeout(timeout) {
            Ok(change) => Ok(Some(change)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.end()),
        }
    }

    fn end(&self) -> FollowError {
        match self.lost.load(Ordering::Acquire) {
            true => FollowError::Lagging,
            false => FollowError::Ended,
        }
    }
}

impl Tables {
    /// The present contents, and a follower of every change after that with at most `capacity` pending.
    pub fn follow(&self, capacity: usize) -> (Contents, Follower) {
        let (sender, changes) = sync_channel(capacity.max(1));
        let lost = Arc::<AtomicBool>::default();
        let mut writer = self.writer();
        writer.followed_by(Following { changes: sender, lost: Arc::clone(&lost) });
        (writer.contents(), Follower { changes, lost })
    }
}

impl Writer {
    fn contents(&self) -> Contents {
        let mut updates = Vec::new();
        for id in (0..self.profile_count()).map(|id| ProfileId(id as u32)) {
            let Ok(profile) = self.profile(id) else { continue };
            let members = profile.members(0..=u32::MAX);
            updates.extend(members.map(|(n, call)| Update::InsertMember(id, n, call.clone())));
            let groups = profile.groups(0..=u32::MAX);
            updates.extend(groups.map(|(n, all)| Update::InsertGroup(id, n, all.to_vec())));
        }
        let snapshot = self.snapshot();
        for (id, view) in (0..).map(TableId).zip(snapshot.tables()) {
            let spec = view.shape().spec();
            if !spec.const_entries {
                let entries = self.copied(id).into_iter().flatten();
                updates.extend(entries.map(|(slot, mut entry)| {
                    entry.meter = view.meters().and_then(|all| all.config(slot.0 as usize));
                    Update::Insert(id, entry)
                }));
            }
            if let (false, Ok(call)) = (spec.const_default, self.default_action(id)) {
                updates.push(Update::SetDefault(id, Some(call)));
            }
        }
        Contents { version: self.version(), updates }
    }
}

#[cfg(test)]
mod tests;
