//! The change log of a set of tables as a stream: what is needed to keep a copy of them elsewhere.
//!
//! [`Tables::follow`] gives the contents as they are now, as updates that fill an empty set of the same declarations, and a
//! [`Follower`] of every change after that: batches of control, entries that packets learned, idle entries that were removed. Each
//! change has the version that it made; versions follow each other without a gap. The log is bounded: a
//! follower that does not keep up gets an error and follows anew; the writer never waits for it.
//!
//! Not in it: what packets change without the writer (counters, meters' buckets, last hits).

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
    /// The version of the tables with it: one more than that of the change before.
    pub version: u64,
    /// What was done, in order. A batch on a copy that is up to date does the same there.
    pub updates: Arc<[Update]>,
}

/// What is in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Their version.
    pub version: u64,
    /// Members, groups, entries (the oldest first) and default actions, in an order in which each finds what it names. Constant
    /// tables are left out: their declaration has what is in them.
    pub updates: Vec<Update>,
}

/// Why there is no change to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// More changes waited than the log holds, and later ones are lost: follow anew.
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
    /// Sends a change; false: nobody follows here any more, or the follower has lost it.
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
    /// The next change, if there is one already.
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

    /// The next change; `None` if none comes within `patience`.
    ///
    /// # Errors
    /// As [`Follower::try_next`].
    pub fn next(&mut self, patience: Duration) -> Result<Option<Change>, FollowError> {
        match self.changes.recv_timeout(patience) {
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
    /// What is in the tables now, and every change after that, of which at most `capacity` wait.
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
            let members = profile.members();
            updates.extend(members.map(|(n, call)| Update::InsertMember(id, n, call.clone())));
            let groups = profile.groups();
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
mod tests {
    use super::*;
    use crate::time::Time;
    use crate::{ActionCall, ActionSpec, Target};
    use crate::{Entry, FieldSpec, GroupMember, Match, MatchKind, Options, ProfileSpec, TableSpec};

    fn specs() -> (Vec<TableSpec>, Vec<ProfileSpec>) {
        let key = || FieldSpec { name: "k".into(), bits: 32, kind: MatchKind::Exact };
        let mut one = TableSpec::new("one", vec![key()], 64);
        one.actions.push(ActionSpec { id: 1, name: "to".into(), data_words: 1 });
        let mut two = TableSpec::new("two", vec![key()], 64);
        two.profile = Some(ProfileId(0));
        let profile = ProfileSpec {
            name: "two".into(),
            capacity: 8,
            max_groups: 4,
            max_group_size: 8,
            actions: one.actions.clone(),
            empty_group: ActionCall::default(),
        };
        (vec![one, two], vec![profile])
    }

    fn tables() -> Tables {
        let (specs, profiles) = specs();
        Tables::new(&specs, &profiles, Options::default()).unwrap()
    }

    fn insert(key: u128, to: u64) -> Update {
        Update::Insert(TableId(0), Entry::new(vec![Match::Exact(key)], 1, vec![to]))
    }

    /// Everything that control can read of tables.
    fn all(tables: &Tables) -> String {
        let entries = |id| {
            let all = tables.entries(TableId(id)).unwrap();
            all.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>()
        };
        let defaults = tables.default_action(TableId(0)).unwrap();
        let (members, groups) = (tables.members(ProfileId(0)), tables.groups(ProfileId(0)));
        format!("{:?} {:?} {defaults:?} {members:?} {groups:?}", entries(0), entries(1))
    }

    #[test]
    fn a_mirror_that_follows_is_the_same() {
        let tables = tables();
        let call = |to| ActionCall { action: 1, data: vec![to] };
        let to_group =
            Entry { target: Target::Group(1), ..Entry::new(vec![Match::Exact(5)], 0, Vec::new()) };
        let group = vec![GroupMember { member: 3, weight: 2 }];
        let before = [
            insert(1, 1),
            Update::InsertMember(ProfileId(0), 3, call(9)),
            Update::InsertGroup(ProfileId(0), 1, group),
            Update::Insert(TableId(1), to_group),
            Update::SetDefault(TableId(0), Some(call(4))),
        ];
        tables.batch(&before, Time::ZERO).unwrap();
        let (contents, mut follower) = tables.follow(16);
        let (specs, profiles) = specs();
        let mirror =
            Tables::new(&specs, &profiles, Options { seed: 7, ..Options::default() }).unwrap();
        mirror.batch(&contents.updates, Time::ZERO).unwrap();
        assert_eq!(all(&mirror), all(&tables));

        tables.batch(&[insert(2, 2), insert(3, 3)], Time::ZERO).unwrap();
        assert!(tables.batch(&[insert(4, 4), insert(2, 2)], Time::ZERO).is_err());
        let mut reader = tables.reader();
        reader.learn(TableId(0), &[8], &call(8), None, Time::ZERO).unwrap();
        let gone = Update::Delete(TableId(0), vec![Match::Exact(1)], 0);
        tables.batch(&[gone, Update::SetDefault(TableId(0), None)], Time::ZERO).unwrap();
        let mut version = contents.version;
        while let Some(change) = follower.try_next().unwrap() {
            version += 1;
            assert_eq!(change.version, version, "no gap");
            mirror.batch(&change.updates, Time::ZERO).unwrap();
        }
        assert_eq!(version, tables.snapshot().version());
        assert_eq!(all(&mirror), all(&tables));
    }

    #[test]
    fn a_follower_that_lags_is_told_and_delays_nobody() {
        let tables = tables();
        let (_, mut follower) = tables.follow(2);
        for key in 1..=4 {
            tables.batch(&[insert(key, 1)], Time::ZERO).unwrap();
        }
        let version = |change: Option<Change>| change.unwrap().version;
        assert_eq!(follower.try_next().map(version), Ok(2));
        assert_eq!(follower.next(Duration::ZERO).map(version), Ok(3));
        assert_eq!(follower.try_next(), Err(FollowError::Lagging));
        let (_, mut follower) = tables.follow(2);
        let (specs, profiles) = specs();
        let _new = tables.replace(&specs, &profiles, Options::default()).unwrap();
        assert_eq!(follower.try_next(), Err(FollowError::Ended));
    }
}
