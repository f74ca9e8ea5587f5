use super::*;
use crate::{ActionSpec, FieldSpec, MatchKind};

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
