//! A program is replaced: what of its tables the new one keeps.

use super::*;

#[test]
fn a_new_program_keeps_the_entries_of_equal_tables() {
    let mut mac = spec("mac", 48, MatchKind::Exact, 100);
    mac.direct_counter = true;
    let fib = spec("fib", 32, MatchKind::Lpm, 100);
    let ecmp = TableSpec { profile: Some(P0), ..spec("ecmp", 16, MatchKind::Exact, 8) };
    let old_specs = [mac.clone(), fib.clone(), ecmp.clone()];
    let old = Tables::new(&old_specs, &[profile()], Options::default()).unwrap();
    let load = [
        insert(T0, 1, 11),
        insert(T1, 2, 22),
        Update::InsertMember(P0, 1, send(5)),
        Update::Insert(TableId(2), to(1, Target::Member(1))),
    ];
    old.batch(&load, Time::ZERO).unwrap();
    let mut old_reader = old.reader();
    old_reader.pin().table(T0).unwrap().counters().unwrap().add(0, 0, 64);

    // The new program has them in another order, a wider fib and a new default for mac.
    let wider_fib = TableSpec { fields: spec("fib", 128, MatchKind::Lpm, 100).fields, ..fib };
    let mac = TableSpec { default: send(99), ..mac };
    let specs = [wider_fib, mac, ecmp];
    let (new, kept) = old.replace(&specs, &[profile()], Options::default()).unwrap();
    assert_eq!(kept, [T1, TableId(2)]);
    assert_eq!(port(&new, T1, 1), Some(11));
    assert_eq!(new.snapshot().table(T0).unwrap().len(), 0);
    assert_eq!(new.snapshot().table(T1).unwrap().default_action(), (1, &[99][..]));
    assert_eq!(new.snapshot().table(T1).unwrap().counters().unwrap().read(0).unwrap().packets, 1);
    let snapshot = new.snapshot();
    let view = snapshot.table(TableId(2)).unwrap();
    assert_eq!(snapshot.select(view, view.lookup(&[1]).unwrap(), 0).data, [5]);

    // Packets of the old program still find theirs; its writes are refused where tables moved.
    let error = old.batch(&[insert(T0, 3, 33)], Time::ZERO).unwrap_err().error;
    assert_eq!(error, EntryError::Moved);
    old.batch(&[insert(T1, 3, 33)], Time::ZERO).unwrap();
    assert_eq!(old_reader.pin().table(T0).unwrap().lookup(&[1]).unwrap().data, [11]);
    for key in 10..20 {
        new.batch(&[insert(T1, key, key)], Time::ZERO).unwrap();
    }
    assert_eq!(port(&new, T1, 19), Some(19));
    assert_eq!(old_reader.pin().table(T0).unwrap().len(), 1);
}

/// A new program's declaration wins where a controller cannot change the entry.
#[test]
fn a_table_whose_constant_entries_differ_begins_anew() {
    let entry = |value, prefix_len, port| {
        let matches = vec![Match::Lpm { value, prefix_len }];
        Entry::new(matches, 1, vec![port])
    };
    let with = |entry: &Entry| {
        let entries = vec![entry.clone()];
        let of = spec("t", 32, MatchKind::Lpm, 8);
        TableSpec { entries, fixed: vec![0], idle_timeout: true, ..of }
    };
    let first = entry(0x0a00_0001, 32, 2);
    let kept_by = |next: &Entry| {
        let old = tables(&[with(&first)]);
        old.batch(&[insert(T0, 9, 9)], Time::ZERO).unwrap();
        let (new, kept) = old.replace(&[with(next)], &[], Options::default()).unwrap();
        assert_eq!(new.entry_at(T0, Slot(0)).unwrap().target, next.target);
        kept
    };
    assert_eq!(kept_by(&first), [T0]);
    let same = Entry { matches: vec![Match::Exact(0x0a00_0001)], ..first.clone() };
    assert_eq!(kept_by(&same), [T0], "another form of the same match");
    assert_eq!(kept_by(&entry(0x0a00_0001, 32, 3)), []);
    assert_eq!(kept_by(&entry(0x0a00_0000, 24, 2)), []);
    let ages = Entry { idle_timeout: Some(Span::from_ms(5)), ..first.clone() };
    assert_eq!(kept_by(&ages), []);
}

/// Profiles are numbered by position; which one it is follows from the name.
#[test]
fn a_profile_keeps_its_members_at_another_number() {
    const P1: ProfileId = ProfileId(1);
    let named = |name: &str, profile| TableSpec {
        profile: Some(profile),
        ..spec(name, 16, MatchKind::Exact, 8)
    };
    let other = ProfileSpec { name: "other".into(), ..profile() };
    let alone = Tables::new(&[named("ecmp", P0)], &[profile()], Options::default()).unwrap();
    let load = [
        Update::InsertMember(P0, 1, send(5)),
        Update::InsertGroup(P0, 2, vec![GroupMember { member: 1, weight: 1 }]),
        Update::Insert(T0, to(1, Target::Group(2))),
    ];
    alone.batch(&load, Time::ZERO).unwrap();
    let mut reader = alone.reader();
    reader.pin();
    let chosen = |tables: &Tables, table| {
        let snapshot = tables.snapshot();
        let view = snapshot.table(table).unwrap();
        snapshot.select(view, view.lookup(&[1]).unwrap(), 0).data[0]
    };

    let specs = [named("other", P0), named("ecmp", P1)];
    let profiles = [other.clone(), profile()];
    let (both, kept) = alone.replace(&specs, &profiles, Options::default()).unwrap();
    assert_eq!(kept, [T1]);
    assert_eq!(chosen(&both, T1), 5);
    assert_eq!(both.entries(T1).unwrap()[0].1.target, Target::Group(2));
    both.batch(&[Update::ModifyMember(P1, 1, send(6))], Time::ZERO).unwrap();
    both.batch(&[Update::Insert(T1, to(7, Target::Member(1)))], Time::ZERO).unwrap();
    assert_eq!((chosen(&alone, T0), chosen(&both, T1)), (5, 6), "an old reader has the old one");
    let in_use = both.batch(&[Update::DeleteGroup(P1, 2)], Time::ZERO).unwrap_err();
    assert_eq!(in_use.error, EntryError::InUse { references: 1 });

    let (last, kept) =
        both.replace(&[named("ecmp", P0)], &[profile()], Options::default()).unwrap();
    assert_eq!((kept, chosen(&last, T0)), (vec![T0], 6));
    // With another table that points into the profile it stays behind.
    let shared = [named("ecmp", P0), named("more", P0)];
    let (_, kept) = last.replace(&shared, &[profile()], Options::default()).unwrap();
    assert_eq!(kept, []);
}

/// As of a default action, which is also what such a group does unless declared otherwise.
#[test]
fn a_group_without_members_does_what_the_new_program_declares() {
    let with = |default: ActionCall| {
        let of = spec("ecmp", 16, MatchKind::Exact, 8);
        let table = TableSpec { profile: Some(P0), default: default.clone(), ..of };
        ([table], [ProfileSpec { empty_group: default, ..profile() }])
    };
    let (specs, profiles) = with(send(1));
    let old = Tables::new(&specs, &profiles, Options::default()).unwrap();
    let empty = Update::InsertGroup(P0, 2, vec![]);
    old.batch(&[empty, Update::Insert(T0, to(1, Target::Group(2)))], Time::ZERO).unwrap();
    let (specs, profiles) = with(send(9));
    let (new, kept) = old.replace(&specs, &profiles, Options::default()).unwrap();
    assert_eq!(kept, [T0]);
    for (tables, port) in [(&old, 1), (&new, 9)] {
        let snapshot = tables.snapshot();
        let view = snapshot.table(T0).unwrap();
        assert_eq!(snapshot.select(view, view.lookup(&[1]).unwrap(), 0).data, [port]);
    }
    let member = Update::InsertMember(P0, 1, send(5));
    let group = Update::ModifyGroup(P0, 2, vec![GroupMember { member: 1, weight: 1 }]);
    new.batch(&[member, group], Time::ZERO).unwrap();
    let snapshot = new.snapshot();
    let view = snapshot.table(T0).unwrap();
    assert_eq!(snapshot.select(view, view.lookup(&[1]).unwrap(), 0).data, [5]);
}

#[test]
fn a_table_that_was_taken_over_has_the_new_declaration() {
    let of = |default| TableSpec { default, ..spec("t", 16, MatchKind::Exact, 8) };
    let first = tables(&[of(send(1))]);
    first.batch(&[insert(T0, 1, 7)], Time::ZERO).unwrap();
    let (second, kept) = first.replace(&[of(send(2))], &[], Options::default()).unwrap();
    assert_eq!((kept, port(&second, T0, 1)), (vec![T0], Some(7)));
    let declared =
        |tables: &Tables| tables.snapshot().table(T0).unwrap().shape().spec().default.clone();
    assert_eq!((declared(&first), declared(&second)), (send(1), send(2)));
    second.batch(&[Update::SetDefault(T0, Some(send(3)))], Time::ZERO).unwrap();
    second.batch(&[Update::SetDefault(T0, None)], Time::ZERO).unwrap();
    assert_eq!(second.default_action(T0).unwrap(), send(2));
}
