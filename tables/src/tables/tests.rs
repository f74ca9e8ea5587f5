use super::*;
use crate::selector::FIRST_OWNED_ID;
use crate::time::Span;
use crate::{ActionSpec, FieldSpec, GroupMember, MatchKind};

fn spec(kinds: &[(u32, MatchKind)], capacity: u32) -> TableSpec {
    let field = |(i, &(bits, kind)): (usize, &(u32, MatchKind))| FieldSpec {
        name: format!("f{i}"),
        bits,
        kind,
    };
    let fields = kinds.iter().enumerate().map(field).collect();
    let actions = vec![
        ActionSpec { id: 0, name: "drop".into(), data_words: 0 },
        ActionSpec { id: 1, name: "send".into(), data_words: 1 },
    ];
    TableSpec { actions, ..TableSpec::new("t", fields, capacity) }
}

fn tables(specs: &[TableSpec]) -> Tables {
    Tables::new(specs, &[], Options::default()).unwrap()
}

const T0: TableId = TableId(0);
const T1: TableId = TableId(1);

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    let exact = [(48, MatchKind::Exact)];
    let tables = tables(&[spec(&exact, 2), spec(&exact, 2)]);
    let mut reader = tables.reader();
    let insert =
        |t, key, port| Update::Insert(t, Entry::new(vec![Match::Exact(key)], 1, vec![port]));
    tables.batch(&[insert(T0, 1, 10), insert(T1, 1, 11)], Time::ZERO).unwrap();
    let failing = [insert(T0, 2, 20), insert(T1, 1, 21)];
    let error = tables.batch(&failing, Time::ZERO).unwrap_err();
    assert_eq!((error.index, &error.error), (1, &EntryError::Duplicate));
    let snapshot = reader.pin();
    let port = |t, key| snapshot.table(t).and_then(|v| v.lookup(&[key])).map(|hit| hit.data[0]);
    assert_eq!((port(T0, 1), port(T1, 1), port(T0, 2)), (Some(10), Some(11), None));
    assert_eq!(tables.entries(T0).unwrap().len(), 1);
}

/// A packet of a new key does not wait for another writer: its key is not learned; that of the next packet is.
#[test]
fn a_learner_does_not_wait_for_a_batch() {
    let tables = tables(&[spec(&[(48, MatchKind::Exact)], 10)]);
    let mut reader = tables.reader();
    let send = ActionCall { action: 1, data: vec![7] };
    let (answer, answers) = std::sync::mpsc::channel();
    let writer = tables.writer();
    let learner = std::thread::spawn({
        let send = send.clone();
        move || {
            answer.send(reader.learn(T0, &[2], &send, None, Time::ZERO)).unwrap();
            reader
        }
    });
    let answered = answers.recv_timeout(std::time::Duration::from_secs(20));
    drop(writer);
    assert_eq!(answered, Ok(Ok(Learned::Busy)), "nobody waits");
    let mut reader = learner.join().unwrap();
    assert!(reader.pin().table(T0).is_some_and(|view| view.lookup(&[2]).is_none()));
    assert_eq!(reader.learn(T0, &[2], &send, None, Time::ZERO), Ok(Learned::New(Slot(0))));
}

/// A full table refuses from the readers' snapshot: packets of keys that do not fit wait for no writer.
#[test]
fn a_full_table_needs_no_writer_to_refuse() {
    let tables = tables(&[spec(&[(48, MatchKind::Exact)], 1)]);
    let mut reader = tables.reader();
    let send = ActionCall { action: 1, data: vec![7] };
    let known = reader.learn(T0, &[1], &send, None, Time::ZERO);
    assert_eq!(known, Ok(Learned::New(Slot(0))));
    let wrong = ActionCall { action: 1, data: vec![] };
    let refused = reader.learn(T0, &[2], &wrong, None, Time::ZERO);
    assert!(matches!(refused, Err(EntryError::DataLength { .. })));
    let (answer, answers) = std::sync::mpsc::channel();
    let writer = tables.writer();
    let learner = std::thread::spawn(move || {
        answer.send(reader.learn(T0, &[2], &send, None, Time::ZERO)).unwrap();
        reader
    });
    let answered = answers.recv_timeout(std::time::Duration::from_secs(20));
    drop(writer);
    assert_eq!(answered, Ok(Ok(Learned::Full)), "nobody waits");
    // Once an entry is removed, there is room again.
    let mut reader = learner.join().unwrap();
    tables.batch(&[Update::Delete(T0, vec![Match::Exact(1)], 0)], Time::ZERO).unwrap();
    let send = ActionCall { action: 1, data: vec![7] };
    assert!(matches!(reader.learn(T0, &[2], &send, None, Time::ZERO), Ok(Learned::New(_))));
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// A table that keeps times of hits, with 1000 entries of which none has a timeout.
fn filled() -> Tables {
    let spec = TableSpec { idle_timeout: true, ..spec(&[(48, MatchKind::Exact)], 4096) };
    let tables = tables(&[spec]);
    let entry = |key| Update::Insert(T0, Entry::new(vec![Match::Exact(key)], 1, vec![1]));
    tables.batch(&(0..1000).map(entry).collect::<Vec<_>>(), Time::ZERO).unwrap();
    tables
}

#[test]
fn ageing_does_not_wait_for_a_batch() {
    let tables = filled();
    let send = ActionCall { action: 1, data: vec![7] };
    let timeout = Some(Span::from_ms(10));
    tables.reader().learn(T0, &[5000], &send, timeout, Time::ZERO).unwrap();
    let (answer, answers) = std::sync::mpsc::channel();
    let writer = tables.writer();
    let other = tables.clone();
    std::thread::spawn(move || {
        answer.send((other.newly_idle(T0, ms(10), 2000), other.age_out(T0, ms(10), 2000)))
    });
    let answered = answers.recv_timeout(std::time::Duration::from_secs(20));
    drop(writer);
    assert_eq!(answered, Ok((Ok(None), Ok(None))), "both are put off");
    let idle = tables.newly_idle(T0, ms(10), 2000).unwrap();
    assert_eq!(idle.map(|found| found.len()), Some(1));
    let aged = tables.age_out(T0, ms(10), 2000).unwrap();
    assert_eq!(aged.map(|found| found.len()), Some(1));
}

/// A constant entry with a timeout does not age, and keeps no other entry from ageing.
#[test]
fn a_constant_entry_does_not_stop_ageing() {
    let spec =
        TableSpec { idle_timeout: true, fixed: vec![0], ..spec(&[(48, MatchKind::Exact)], 16) };
    let tables = tables(&[spec]);
    let timeout = Some(Span::from_ms(10));
    let entry = |key| {
        let entry = Entry::new(vec![Match::Exact(key)], 1, vec![1]);
        Update::Insert(T0, Entry { idle_timeout: timeout, ..entry })
    };
    tables.batch(&[entry(1), entry(2)], Time::ZERO).unwrap();
    let aged = tables.age_out(T0, ms(20), 16).unwrap().unwrap();
    assert_eq!(
        aged.iter().map(|one| one.entry.matches.clone()).collect::<Vec<_>>(),
        [vec![Match::Exact(2)]]
    );
    assert_eq!(tables.snapshot().table(T0).map(TableView::len), Some(1));
}

/// Whoever keeps entries elsewhere learns which group and members went with one.
#[test]
fn the_group_of_an_entry_that_ages_is_returned_with_it() {
    let profile = ProfileSpec {
        name: "sets".into(),
        capacity: 8,
        max_groups: 4,
        max_group_size: 4,
        actions: spec(&[], 1).actions,
        empty_group: ActionCall { action: 0, data: vec![] },
    };
    let p0 = ProfileId(0);
    let exact = spec(&[(48, MatchKind::Exact)], 16);
    let spec = TableSpec { idle_timeout: true, profile: Some(p0), ..exact };
    let tables = Tables::new(&[spec], &[profile], Options::default()).unwrap();
    let send = ActionCall { action: 1, data: vec![7] };
    let set = |key: u32, timeout| {
        let group = FIRST_OWNED_ID + 10 * key;
        let target = Target::Group(group);
        let entry = Entry::new(vec![Match::Exact(key.into())], 0, vec![]);
        let members = vec![GroupMember { member: group + 1, weight: 1 }];
        [
            Update::InsertMember(p0, group + 1, send.clone()),
            Update::InsertGroup(p0, group, members),
            Update::Insert(
                T0,
                Entry { target, idle_timeout: Some(Span::from_ms(timeout)), ..entry },
            ),
        ]
    };
    let all: Vec<Update> = [set(1, 10), set(2, 99), set(3, 10)].concat();
    tables.batch(&all, Time::ZERO).unwrap();
    let aged = tables.age_out(T0, ms(20), 16).unwrap().unwrap();
    let released = |key: u32| {
        let group = FIRST_OWNED_ID + 10 * key;
        Some((p0, Released { group, members: vec![group + 1] }))
    };
    let found: Vec<_> = aged.into_iter().map(|one| (one.slot, one.released)).collect();
    assert_eq!(found, [(Slot(0), released(1)), (Slot(2), released(3))]);
}

/// How often this thread has given up its processor by itself (proc(5)).
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Who has an old version holds up no packet: what would change its copy is put off, for 50 ms of the caller's clock.
#[test]
fn workers_do_not_wait_for_a_reader_of_an_old_version() {
    let tables = filled();
    let mut reader = tables.reader();
    let send = ActionCall { action: 1, data: vec![7] };
    let held = tables.snapshot();
    let mut learn = |key, at| reader.learn(T0, &[key], &send, Some(Span::from_ms(1)), at).unwrap();
    assert!(matches!(learn(5000, ms(7)), Learned::New(_)), "the other copy is free");
    let before = sleeps();
    assert_eq!(learn(5001, ms(7)), Learned::Busy);
    assert_eq!(tables.age_out(T0, ms(30), 2000), Ok(None));
    assert_eq!(learn(5001, ms(56)), Learned::Busy);
    // One that waits sleeps 500 times.
    assert!(sleeps() - before < 100, "{}", sleeps() - before);
    assert_eq!(tables.impatient_clones(), 0);
    assert!(matches!(learn(5001, ms(57)), Learned::New(_)));
    assert_eq!(tables.impatient_clones(), 1, "one copy is left to the reader, two are in use");
    assert_eq!(held.table(T0).map(TableView::len), Some(1000));
    assert_eq!(tables.age_out(T0, ms(58), 2000).unwrap().map(|aged| aged.len()), Some(2));

    // A reader that leaves in time costs no copy.
    let held = tables.snapshot();
    assert!(matches!(learn(5002, ms(60)), Learned::New(_)));
    assert_eq!(learn(5003, ms(60)), Learned::Busy);
    drop(held);
    assert!(matches!(learn(5003, ms(61)), Learned::New(_)));
    assert_eq!(tables.impatient_clones(), 1);
}

/// A set that was replaced has its version until its last packet has left: nothing is put off for that.
#[test]
fn a_replaced_set_holds_up_nothing() {
    let old = filled();
    let spec = TableSpec { idle_timeout: true, ..spec(&[(48, MatchKind::Exact)], 4096) };
    let (new, kept) = old.replace(&[spec], &[], Options::default()).unwrap();
    assert_eq!(kept, [T0]);
    let mut reader = new.reader();
    let send = ActionCall { action: 1, data: vec![7] };
    for key in 5000..5005 {
        let learned = reader.learn(T0, &[key], &send, None, Time::ZERO);
        assert!(matches!(learned, Ok(Learned::New(_))), "{key}: {learned:?}");
    }
    assert_eq!(old.snapshot().table(T0).map(TableView::len), Some(1000));
    assert_eq!(new.snapshot().table(T0).map(TableView::len), Some(1005));
}
