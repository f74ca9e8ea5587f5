//! A mirror of tables against the tables.

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

/// All that the control plane can read of tables.
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
    let mirror = Tables::new(&specs, &profiles, Options { seed: 7, ..Options::default() }).unwrap();
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
