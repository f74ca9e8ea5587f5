//! Publication: batches are seen whole, readers are never stopped, workers learn, a program is
//! replaced (`versions/adopt.rs`), and a million entries load in linear time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wireyard_tables::Released;
use wireyard_tables::selector::FIRST_OWNED_ID;
use wireyard_tables::time::{Span, Time};
use wireyard_tables::{
    ActionCall, ActionSpec, Entry, EntryError, FieldSpec, GroupMember, Learned, Match, MatchKind,
    Options, ProfileId, ProfileSpec, Slot, TableId, TableSpec, Tables, Target, Update,
};

#[path = "versions/adopt.rs"]
mod adopt;

const T0: TableId = TableId(0);
const T1: TableId = TableId(1);
const P0: ProfileId = ProfileId(0);

fn actions() -> Vec<ActionSpec> {
    let action = |(id, name): (u32, &str)| ActionSpec { id, name: name.into(), data_words: 1 };
    let drop = ActionSpec { id: 0, name: "drop".into(), data_words: 0 };
    [(1, "send"), (2, "mirror")].map(action).into_iter().chain([drop]).collect()
}

fn spec(name: &str, bits: u32, kind: MatchKind, capacity: u32) -> TableSpec {
    let fields = vec![FieldSpec { name: "f".into(), bits, kind }];
    TableSpec { actions: actions(), ..TableSpec::new(name, fields, capacity) }
}

fn tables(specs: &[TableSpec]) -> Tables {
    Tables::new(specs, &[], Options { seed: 3, lanes: 2, ..Options::default() }).unwrap()
}

fn send(port: u64) -> ActionCall {
    ActionCall { action: 1, data: vec![port] }
}

fn insert(table: TableId, key: u64, port: u64) -> Update {
    Update::Insert(table, Entry::new(vec![Match::Exact(key.into())], 1, vec![port]))
}

fn port(tables: &Tables, table: TableId, key: u64) -> Option<u64> {
    tables.snapshot().table(table).unwrap().lookup(&[key]).map(|hit| hit.data[0])
}

#[test]
fn readers_never_see_half_a_batch() {
    let tables =
        tables(&[spec("exact", 48, MatchKind::Exact, 4096), spec("lpm", 32, MatchKind::Lpm, 4096)]);
    let keys = 0..600u64;
    let all = |port| {
        let per_key = |key: u64| [insert(T0, key, port), insert(T1, key, port)];
        keys.clone().flat_map(per_key).collect::<Vec<_>>()
    };
    let modify = |updates: Vec<Update>| -> Vec<Update> {
        let modify = |update| match update {
            Update::Insert(table, entry) => Update::Modify(table, entry),
            other => other,
        };
        updates.into_iter().map(modify).collect()
    };
    tables.batch(&all(0), Time::ZERO).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut reader, mut last) = (tables.reader(), 0);
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = reader.pin();
                    let read =
                        |table, key| snapshot.table(table).unwrap().lookup(&[key]).unwrap().data[0];
                    let now = read(T0, 0);
                    assert!(now >= last, "a version went backwards");
                    last = now;
                    for key in [1, 299, 599] {
                        assert_eq!((read(T0, key), read(T1, key)), (now, now));
                    }
                }
            });
        }
        for round in 1..=300 {
            // One batch with all keys, then one small one that must not disturb the rest.
            let mut batch = modify(all(round));
            if round % 2 == 0 {
                batch.push(insert(T0, 1, 0));
                assert!(tables.batch(&batch, Time::ZERO).is_err());
                batch.pop();
            }
            tables.batch(&batch, Time::ZERO).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(port(&tables, T1, 599), Some(300));
}

#[test]
fn a_stuck_reader_does_not_stop_the_writer() {
    let tables = tables(&[spec("t", 48, MatchKind::Exact, 4096)]);
    let load: Vec<_> = (0..1000).map(|key| insert(T0, key, key)).collect();
    tables.batch(&load, Time::ZERO).unwrap();
    let held = tables.snapshot();
    for key in 1000..1010 {
        tables.batch(&[insert(T0, key, key)], Time::ZERO).unwrap();
    }
    assert_eq!(tables.impatient_clones(), 1, "one copy is left to the reader, two are in use");
    assert_eq!(held.table(T0).unwrap().len(), 1000);
    assert_eq!(port(&tables, T0, 1009), Some(1009));
}

/// Keys whose places lie together make a run of cells that every lookup there walks: packets cannot make it long.
#[test]
fn packets_cannot_make_a_long_run() {
    let fields = ["high", "low"].map(|name| FieldSpec {
        name: name.into(),
        bits: 64,
        kind: MatchKind::Exact,
    });
    let spec = TableSpec { actions: actions(), ..TableSpec::new("t", fields.into(), 1 << 16) };
    let tables = tables(&[spec]);
    let mut reader = tables.reader();
    // Who knows the seed finds them: here one factor is 0, and all that is left of the other are low bits.
    let [s0, s1] = reader.pin().table(T0).unwrap().shape().seed().0;
    let near = |n: u64| [s0 ^ n, s1];
    let mut learn = |key: &[u64], port| reader.learn(T0, key, &send(port), None, Time::ZERO);
    let learned = (0..2000).filter(|n| learn(&near(*n), 1) != Ok(Learned::Full)).count();
    assert!((200..=300).contains(&learned), "{learned} in one run");
    // What is known can be refreshed and moved, and other keys are learned as long as they are not near that run.
    assert_eq!(learn(&near(5), 1), Ok(Learned::Refreshed(Slot(5))));
    assert_eq!(learn(&near(5), 2), Ok(Learned::Moved(Slot(5))));
    let others = (0..20_000u64).filter(|n| learn(&[*n, *n], 1) == Ok(Learned::Full)).count();
    assert!(others < 200, "{others} of 20,000 are refused");
    // Control may insert them.
    let [high, low] = near(1999).map(|word| Match::Exact(word.into()));
    let entry = Entry::new(vec![high, low], 1, vec![1]);
    tables.batch(&[Update::Insert(T0, entry)], Time::ZERO).unwrap();
}

#[test]
fn tables_that_are_filled_are_as_after_batches() {
    let specs = || [spec("exact", 48, MatchKind::Exact, 4096), spec("lpm", 32, MatchKind::Lpm, 99)];
    let (filled, other) = (tables(&specs()), tables(&specs()));
    let mut reader = filled.reader();
    for round in 0..4 {
        let keys = (round * 20)..(round * 20 + 20);
        let load: Vec<_> = keys.flat_map(|key| [insert(T0, key, 1), insert(T1, key, 2)]).collect();
        // In the third round somebody reads.
        let held = (round == 2).then(|| reader.pin().version());
        let versions = (filled.fill(&load, Time::ZERO), other.batch(&load, Time::ZERO));
        assert_eq!(versions.0, versions.1);
        // All or nothing.
        assert!(filled.fill(&[insert(T0, 4000, 1), insert(T0, 0, 1)], Time::ZERO).is_err());
        assert!(held.is_none_or(|version| reader.pin().version() > version));
        reader.release();
        for key in 0..100 {
            for table in [T0, T1] {
                assert_eq!(port(&filled, table, key), port(&other, table, key));
            }
        }
        assert_eq!(filled.entries(T0), other.entries(T0));
    }
    filled.batch(&[insert(T0, 4000, 7)], Time::ZERO).unwrap();
    assert_eq!((port(&filled, T0, 4000), port(&filled, T0, 3)), (Some(7), Some(1)));
}

#[test]
fn idle_entries_are_reported_once_in_each_timeout() {
    let mut spec = spec("t", 48, MatchKind::Exact, 16);
    spec.idle_timeout = true;
    let tables = tables(&[spec]);
    let at = |seconds: u64| Time::ZERO + Span::from_ms(1000 * seconds);
    let entry = |key: u64| {
        let entry = Entry::new(vec![Match::Exact(key.into())], 1, vec![1]);
        Update::Insert(T0, Entry { idle_timeout: Some(Span::from_ms(1000)), ..entry })
    };
    tables.batch(&[entry(1), entry(2)], at(0)).unwrap();
    let slots = |seconds| {
        let found = tables.newly_idle(T0, at(seconds), 100).unwrap().unwrap();
        found.into_iter().map(|(slot, _)| slot.0).collect::<Vec<_>>()
    };
    assert_eq!(slots(0), []);
    assert_eq!(slots(1), [0, 1]);
    assert_eq!(slots(1), []);
    assert_eq!(slots(2), [0, 1], "a timeout later");
    let touch = |slot, seconds| {
        tables.snapshot().table(T0).unwrap().last_hits().unwrap().touch(Slot(slot), at(seconds));
    };
    touch(1, 2);
    assert_eq!(slots(2), []);
    assert_eq!(slots(3), [0, 1]);
    assert_eq!(slots(9), [0, 1]);
    assert_eq!(tables.idle(T0, at(9), 100).unwrap().len(), 2, "they are still there, and idle");
    // Another entry in the same place is another one.
    tables.batch(&[Update::Delete(T0, vec![Match::Exact(2)], 0)], at(9)).unwrap();
    tables.batch(&[entry(3)], at(9)).unwrap();
    assert_eq!(slots(10), [0, 2]);
}

#[test]
fn workers_learn() {
    let mut spec = spec("mac", 48, MatchKind::Exact, 2);
    spec.idle_timeout = true;
    let tables = tables(&[spec]);
    let (mut one, mut other) = (tables.reader(), tables.reader());
    let now = Time::ZERO;
    let second = Some(Span::from_ms(1000));
    let at = |seconds: u64| now + Span::from_ms(1000 * seconds);
    assert_eq!(one.learn(T0, &[7], &send(1), second, now), Ok(Learned::New(Slot(0))));
    let version = one.pin().version();
    assert_eq!(one.learn(T0, &[7], &send(1), second, now), Ok(Learned::Refreshed(Slot(0))));
    assert_eq!(one.pin().version(), version, "nothing is published for what is known");
    assert_eq!(other.learn(T0, &[7], &send(2), second, now), Ok(Learned::Moved(Slot(0))));
    assert_eq!(one.pin().table(T0).unwrap().lookup(&[7]).unwrap().data, [2]);
    assert_eq!(one.learn(T0, &[8], &send(1), None, now), Ok(Learned::New(Slot(1))));
    assert_eq!(one.learn(T0, &[9], &send(1), None, now), Ok(Learned::Full));
    assert_eq!(one.learn(T0, &[9, 9], &send(1), None, now), Err(EntryError::NotLearnable));
    let wrong = ActionCall { action: 1, data: vec![] };
    assert!(matches!(one.learn(T0, &[7], &wrong, None, now), Err(EntryError::DataLength { .. })));

    // A hit keeps an entry alive; without one it ages out, and one without timeout never does.
    other.pin().table(T0).unwrap().last_hits().unwrap().touch(Slot(0), at(5));
    assert_eq!(tables.age_out(T0, at(5), 100), Ok(Some(vec![])));
    let aged = tables.age_out(T0, at(6), 100).unwrap().unwrap();
    assert_eq!(aged.len(), 1);
    assert_eq!((aged[0].slot, aged[0].entry.matches[0]), (Slot(0), Match::Exact(7)));
    assert_eq!(tables.snapshot().table(T0).unwrap().len(), 1);
    assert_eq!(tables.age_out(T0, at(99), 100), Ok(Some(vec![])));
}

#[test]
fn idle_scans_are_bounded_and_go_round() {
    let mut spec = spec("t", 16, MatchKind::Exact, 100);
    spec.idle_timeout = true;
    let tables = tables(&[spec]);
    let entry = |key| {
        let idle_timeout = Some(Span::from_ns(u64::from(key % 2 == 0)));
        let entry = Entry { idle_timeout, ..Entry::new(vec![Match::Exact(key)], 1, vec![0]) };
        Update::Insert(T0, entry)
    };
    tables.batch(&(0..10).map(entry).collect::<Vec<_>>(), Time::ZERO).unwrap();
    let scan = |slots| {
        let idle = tables.idle(T0, Time::from_ns(1), slots).unwrap();
        idle.iter().map(|(slot, _)| slot.0).collect::<Vec<_>>()
    };
    assert_eq!(scan(4), [0, 2]);
    assert_eq!(scan(4), [4, 6]);
    assert_eq!(scan(4), [8, 0]);
    assert_eq!(scan(1000), [2, 4, 6, 8, 0]);
}

#[test]
fn counters_and_meters_start_afresh_with_a_new_entry() {
    let mut spec = spec("t", 16, MatchKind::Exact, 1);
    spec.direct_counter = true;
    let tables = tables(&[spec]);
    let snapshot = || tables.snapshot();
    tables.batch(&[insert(T0, 1, 1)], Time::ZERO).unwrap();
    let read = || snapshot().table(T0).unwrap().counters().unwrap().read(0).unwrap().packets;
    snapshot().table(T0).unwrap().counters().unwrap().add(1, 0, 64);
    tables
        .batch(&[Update::Modify(T0, Entry::new(vec![Match::Exact(1)], 2, vec![9]))], Time::ZERO)
        .unwrap();
    assert_eq!(read(), 1, "modify keeps the counter");
    let swap = [Update::Delete(T0, vec![Match::Exact(1)], 0), insert(T0, 2, 1)];
    let outcome = tables.batch(&swap, Time::ZERO).unwrap();
    assert_eq!(outcome.inserted, [(T0, Slot(0))]);
    assert_eq!(read(), 0);
}

fn profile() -> ProfileSpec {
    ProfileSpec {
        name: "ecmp".into(),
        capacity: 4,
        max_groups: 2,
        max_group_size: 8,
        actions: actions(),
        empty_group: ActionCall { action: 0, data: vec![] },
    }
}

fn to(key: u64, target: Target) -> Entry {
    Entry { target, ..Entry::new(vec![Match::Exact(key.into())], 0, vec![]) }
}

#[test]
fn groups_pick_by_weight_and_keep_references() {
    let spec = TableSpec { profile: Some(P0), ..spec("t", 16, MatchKind::Exact, 8) };
    let tables = Tables::new(&[spec], &[profile()], Options::default()).unwrap();
    let member = |member, weight| GroupMember { member, weight };
    let batch = |updates: &[Update]| tables.batch(updates, Time::ZERO).map_err(|e| e.error);
    batch(&[
        Update::InsertMember(P0, 10, send(1)),
        Update::InsertMember(P0, 20, send(2)),
        Update::InsertMember(P0, 30, send(3)),
        Update::InsertGroup(P0, 5, vec![member(20, 1), member(10, 2), member(30, 0)]),
        Update::InsertGroup(P0, 6, vec![]),
        Update::Insert(T0, to(1, Target::Group(5))),
        Update::Insert(T0, to(2, Target::Member(20))),
        Update::Insert(T0, to(3, Target::Group(6))),
    ])
    .unwrap();
    let ports = |key: u64| -> Vec<u64> {
        let snapshot = tables.snapshot();
        let view = snapshot.table(T0).unwrap();
        let hit = view.lookup(&[key]).unwrap();
        let pick = |hash| {
            let chosen = snapshot.select(view, hit, hash);
            chosen.data[0] * u64::from(chosen.action)
        };
        (0..6).map(pick).collect()
    };
    assert_eq!(ports(1), [2, 1, 1, 2, 1, 1]);
    assert_eq!(ports(2), [2; 6]);
    assert_eq!(ports(3), [0; 6]);
    let in_use = |references| Err(EntryError::InUse { references });
    assert_eq!(batch(&[Update::DeleteMember(P0, 20)]), in_use(2));
    assert_eq!(batch(&[Update::DeleteGroup(P0, 5)]), in_use(1));
    assert_eq!(batch(&[Update::InsertMember(P0, 10, send(1))]), Err(EntryError::Duplicate));
    let nine = vec![member(10, 8), member(20, 1)];
    let too_large = EntryError::GroupTooLarge { size: 9, max: 8 };
    assert_eq!(batch(&[Update::ModifyGroup(P0, 5, nine)]), Err(too_large));

    // A batch that fails at its end leaves members, groups and references as they were.
    let failing = [
        Update::Delete(T0, vec![Match::Exact(1)], 0),
        Update::DeleteGroup(P0, 5),
        Update::DeleteMember(P0, 10),
        Update::ModifyMember(P0, 20, send(7)),
        Update::InsertMember(P0, 11, send(8)),
        Update::InsertGroup(P0, 7, vec![member(11, 1), member(20, 1)]),
        Update::Insert(T0, to(4, Target::Member(99))),
    ];
    assert_eq!(batch(&failing), Err(EntryError::NoSuchMember(99)));
    assert_eq!(ports(1), [2, 1, 1, 2, 1, 1]);
    assert_eq!(batch(&[Update::DeleteMember(P0, 20)]), in_use(2));
    assert_eq!(batch(&[Update::DeleteMember(P0, 10)]), in_use(1));
    assert_eq!(tables.members(P0).unwrap().len(), 3);
    assert_eq!(tables.groups(P0).unwrap()[0].1.len(), 3);
    assert_eq!(tables.entries(T0).unwrap()[0].1.target, Target::Group(5));
    batch(&failing[..6]).unwrap();
    assert_eq!(tables.entries(T0).unwrap()[0].1.target, Target::Member(20));
    assert_eq!(ports(2), [7; 6]);
}

#[test]
fn a_group_of_an_entry_goes_with_it_and_comes_back_with_a_batch_that_fails() {
    let spec = TableSpec { profile: Some(P0), ..spec("t", 16, MatchKind::Exact, 8) };
    let tables = Tables::new(&[spec], &[profile()], Options::default()).unwrap();
    let batch = |updates: &[Update]| tables.batch(updates, Time::ZERO).map_err(|e| e.error);
    let set = |group: u32| {
        let members = vec![GroupMember { member: group + 1, weight: 1 }];
        [
            Update::InsertMember(P0, group + 1, send(1)),
            Update::InsertMember(P0, group + 2, send(2)),
            Update::InsertGroup(P0, group, members),
        ]
    };
    let (first, second) = (FIRST_OWNED_ID + 5, FIRST_OWNED_ID + 9);
    batch(&set(first)).unwrap();
    batch(&[Update::Insert(T0, to(1, Target::Group(first)))]).unwrap();
    // It is of this entry alone, and of a profile without other members.
    let other = Update::Insert(T0, to(2, Target::Group(first)));
    assert_eq!(batch(&[other]), Err(EntryError::Owned(first)));
    assert_eq!(batch(&[Update::InsertMember(P0, 1, send(3))]), Err(EntryError::HasSets));
    let state = || {
        let members = tables.members(P0).unwrap();
        (tables.entries(T0).unwrap(), members, tables.groups(P0).unwrap())
    };
    let before = state();
    let gone = Update::Delete(T0, vec![Match::Exact(1)], 0);
    let failing = [
        gone.clone(),
        Update::InsertMember(P0, 1, send(3)),
        Update::InsertGroup(P0, 1, Vec::new()),
        Update::Insert(T0, to(3, Target::Member(99))),
    ];
    assert_eq!(batch(&failing), Err(EntryError::NoSuchMember(99)));
    assert_eq!(state(), before);
    // Another set in its place: the first one is gone, with a member that is in no group.
    batch(&set(second)).unwrap();
    let done = batch(&[Update::Modify(T0, to(1, Target::Group(second)))]).unwrap();
    let members = vec![first + 1, first + 2];
    assert_eq!(done.released, [(P0, Released { group: first, members })]);
    batch(&[gone]).unwrap();
    assert_eq!(state(), (Vec::new(), Vec::new(), Vec::new()));
    batch(&[Update::InsertMember(P0, 1, send(3))]).unwrap();
    assert_eq!(batch(&set(first)), Err(EntryError::Named));
}

#[test]
fn const_tables_and_defaults_refuse_changes() {
    let mut spec = spec("t", 16, MatchKind::Ternary, 8);
    let any = Entry { priority: 1, ..Entry::new(vec![Match::Any], 1, vec![4]) };
    spec.entries = vec![any.clone()];
    (spec.const_entries, spec.const_default) = (true, true);
    let tables = tables(&[spec.clone()]);
    assert_eq!(port(&tables, T0, 1234), Some(4));
    let error = |update| tables.batch(&[update], Time::ZERO).unwrap_err();
    assert_eq!(error(Update::Delete(T0, vec![Match::Any], 1)).error, EntryError::Const);
    let refused = error(Update::SetDefault(T0, None));
    assert_eq!(
        refused.to_string(),
        "update 0 ('t'): const: it is fixed by the program and cannot be changed"
    );
    // Of a table that may change, one entry may not.
    let loose = Entry { priority: 2, ..Entry::new(vec![Match::Any], 1, vec![5]) };
    let mixed = TableSpec {
        entries: vec![any.clone(), loose.clone()],
        const_entries: false,
        fixed: vec![0],
        ..spec.clone()
    };
    let mixed = Tables::new(&[mixed], &[], Options::default()).unwrap();
    let change = |update| mixed.batch(&[update], Time::ZERO).map_err(|error| error.error);
    assert_eq!(change(Update::Modify(T0, any.clone())), Err(EntryError::Const));
    assert_eq!(change(Update::Delete(T0, vec![Match::Any], 1)), Err(EntryError::Const));
    change(Update::Modify(T0, loose)).unwrap();
    change(Update::Delete(T0, vec![Match::Any], 2)).unwrap();
    spec.entries.push(any);
    let error = Tables::new(&[spec], &[], Options::default()).unwrap_err();
    let text = "'t': entry 1: exists already; modify it, or delete it before inserting";
    assert_eq!(error.to_string(), text);
}

/// Linear cost, with a bound that a quadratic load could not meet by far.
#[test]
fn a_million_entries_load() {
    let million = 1_000_000;
    for (kind, bits, n) in [
        (MatchKind::Exact, 48, million),
        (MatchKind::Lpm, 32, million / 2),
        (MatchKind::Ternary, 48, million / 5),
    ] {
        let tables = tables(&[spec("t", bits, kind, million)]);
        let start = Instant::now();
        for chunk in (0..u64::from(n)).collect::<Vec<_>>().chunks(100_000) {
            let update = |&key: &u64| match insert(T0, key * 4099, key) {
                Update::Insert(table, entry) if kind == MatchKind::Ternary => {
                    Update::Insert(table, Entry { priority: 1, ..entry })
                }
                update => update,
            };
            tables.batch(&chunk.iter().map(update).collect::<Vec<_>>(), Time::ZERO).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{kind:?} {:?}", start.elapsed());
        assert_eq!(port(&tables, T0, u64::from(n - 1) * 4099), Some(u64::from(n - 1)));
        assert_eq!(port(&tables, T0, 1), None);
    }
}
