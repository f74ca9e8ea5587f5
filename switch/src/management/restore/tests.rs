//! Entries that are saved and restored: their order, their timeouts, and those that the program declares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wireyard_tables::time::{Span, Time};

use super::*;
use crate::control::TableEntry;
use crate::core::Core;
use crate::p4runtime::persist::settings::Settings;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::program::started;
use wire::change::Kind;

const PROGRAM: &str = "
pipeline: saved
include: [ethernet]
parser: { start: { extract: ethernet } }
actions: { forward: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  ranked: { key: { ethernet.dst: ternary }, actions: [forward, drop], default: drop, size: 8, counters: true }
  aging: { key: { ethernet.dst: exact }, actions: [forward], size: 8, idle_timeout_ms: 1000 }
  declared:
    key: { ethernet.src: exact }
    actions: [forward, drop]
    default: drop
    size: 2
    entries: [ { match: { ethernet.src: 9 }, action: drop }, { match: { ethernet.src: 8 }, action: drop } ]
ingress: [ { apply: ranked }, { apply: aging }, { apply: declared } ]
deparser: { emit: [ethernet] }
";
const RANKED: &str = "entries: { ranked: [
  { match: { ethernet.dst: 02:00:00:00:00:00 &&& ff:ff:00:00:00:00 }, action: forward(2), priority: 10 },
  { match: { ethernet.dst: 00:00:00:00:00:01 &&& 00:00:00:00:ff:ff }, action: drop, priority: 10 } ] }";

fn device() -> (Core, Control) {
    let (_, core, control) = started("saved.yaml", PROGRAM);
    (core, control)
}

/// Calls `work` with a device that is polled.
fn with_device(work: impl FnOnce(&Control)) {
    let (mut core, control) = device();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut now = Time::from_ns(1000);
            while !stop.load(Ordering::Relaxed) {
                core.poll(now, None);
                now += Span::from_ns(1);
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&control)));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn saved(control: &Control) -> String {
    save::lines(control, &Settings::default(), &|entity| entity).unwrap().join("\n")
}

fn restored(control: &Control, text: &str) {
    restore(control, text, "saved.yaml").unwrap_or_else(|error| panic!("{error}: {text}"));
}

fn does(control: &Control, kind: Kind, entries: &str) -> Result<()> {
    let entries = entries.to_owned();
    let change = wire::Change { kind: kind as i32, entries, ..Default::default() };
    let program = control.program();
    let updates = change::updates(control, &program, &[change])?;
    Ok(control.write_of(&program, &updates, Mode::Atomic)?)
}

fn entries(control: &Control, table: &str) -> Vec<TableEntry> {
    let query = Query::Entries { table: Some(control.table(table).unwrap()) };
    let entry = |entity| match entity {
        Entity::TableEntry(entry) => entry,
        other => panic!("{other:?}"),
    };
    control.read(&query).unwrap().into_iter().map(entry).collect()
}

#[test]
fn of_equal_priorities_the_older_entry_stays_the_older() {
    let mut text = String::new();
    with_device(|control| {
        does(control, Kind::Insert, RANKED).unwrap();
        let written: Vec<EntryKey> =
            entries(control, "ranked").into_iter().map(|entry| entry.key).collect();
        text = saved(control);
        // One of them is younger now than the other, and a third one is between.
        let (head, tail) = RANKED.split_once("\n").unwrap();
        let first = tail.split_once("},\n").unwrap().0;
        let first = format!("{head} {first}}} ] }}");
        does(control, Kind::Delete, &first).unwrap();
        let third = first.replace("10 }", "11 }").replace("forward(2)", "drop");
        does(control, Kind::Insert, &third).unwrap();
        does(control, Kind::Insert, &first).unwrap();
        restored(control, &text);
        let keys = entries(control, "ranked").into_iter().map(|entry| entry.key);
        assert_eq!(keys.collect::<Vec<_>>(), written);
        assert_eq!(saved(control), text);
    });
    with_device(|control| {
        restored(control, &text);
        assert_eq!(saved(control), text);
    });
}

#[test]
fn an_entry_without_a_timeout_does_not_get_that_of_its_table() {
    with_device(|control| {
        let entry = |timeout: &str| {
            format!(
                "entries: {{ aging: [ {{ match: {{ ethernet.dst: 1 }}, action: forward(1){timeout} }} ] }}"
            )
        };
        does(control, Kind::Insert, &entry(", idle_timeout_ms: 0")).unwrap();
        assert_eq!(entries(control, "aging")[0].idle_timeout, None);
        let text = saved(control);
        assert!(text.contains("idle_timeout_ms: 0"), "{text}");
        // Controllers set nanoseconds.
        for ns in [1, 999_999, 1_000_001, 2_000_000, Span::MAX.as_ns()] {
            does(control, Kind::Set, &entry(&format!(", idle_timeout_ns: {ns}"))).unwrap();
            let exact = saved(control);
            does(control, Kind::Set, &entry(", idle_timeout_ms: 5")).unwrap();
            restored(control, &exact);
            assert_eq!(entries(control, "aging")[0].idle_timeout, Some(Span::from_ns(ns)));
            assert_eq!(saved(control), exact);
        }
        for (wrong, why) in [
            (", idle_timeout_ms: 1, idle_timeout_ns: 1", "exclude each other"),
            (", idle_timeout_ns: 18446744073709552", "is more than 18446744073709551"),
        ] {
            let refused = does(control, Kind::Set, &entry(wrong)).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        does(control, Kind::Set, &entry(", idle_timeout_ms: 0")).unwrap();
        for _ in 0..2 {
            restored(control, &text);
            assert_eq!(entries(control, "aging")[0].idle_timeout, None);
            assert_eq!(saved(control), text);
            does(control, Kind::Set, &entry(", idle_timeout_ms: 5")).unwrap();
            does(control, Kind::Set, &entry(", idle_timeout_ms: 0")).unwrap();
            assert_eq!(entries(control, "aging")[0].idle_timeout, None);
            does(control, Kind::Set, &entry(", idle_timeout_ms: 5")).unwrap();
        }
    });
}

#[test]
fn declared_entries_are_changed_saved_and_restored() {
    let nine = |action: &str| {
        format!("entries: {{ declared: [ {{ match: {{ ethernet.src: 9 }}, action: {action} }} ] }}")
    };
    let mut text = String::new();
    with_device(|control| {
        let (blank, before) = (saved(control), entries(control, "declared"));
        assert!(blank.contains("entries: {}") || !blank.contains("declared"), "{blank}");
        let again = does(control, Kind::Insert, &nine("drop"));
        assert!(matches!(again, Err(ControlError::EntryExists(_))), "{again:?}");
        does(control, Kind::Modify, &nine("forward(1)")).unwrap();
        does(control, Kind::Set, &nine("forward(2)")).unwrap();
        text = saved(control);
        assert!(text.contains("forward(2)"), "{text}");
        restored(control, &text);
        assert_eq!(saved(control), text);
        // As the program declares them, where a file says nothing of them.
        restored(control, "entries: {}");
        assert_eq!((saved(control), entries(control, "declared")), (blank.clone(), before));
        does(control, Kind::Delete, &nine("drop")).unwrap();
        does(control, Kind::Insert, &nine("forward(1)")).unwrap();
        change::clear(control, "declared").unwrap();
        restored(control, &text);
        assert_eq!(saved(control), text);
    });
    with_device(|control| {
        restored(control, &text);
        assert_eq!(saved(control), text);
    });
}

#[test]
fn a_file_that_a_program_starts_with_changes_declared_entries() {
    let file = "entries: { declared: [ { match: { ethernet.src: 9 }, action: forward(3) } ] }";
    let (_core, control) = device();
    let program = control.program();
    let resolved = change::resolve(&program, file, "", Purpose::Fill).unwrap();
    let state = crate::program::from_text("saved.yaml", PROGRAM).unwrap();
    let swap = control.prepare_program(
        &Arc::new((*state.program).clone()),
        Some(&resolved),
        crate::control::Keep::Nothing,
    );
    swap.unwrap().commit().unwrap();
    let found = entries(&control, "declared");
    let forward = control.call("forward", &[3]).unwrap();
    assert!(
        found.iter().any(|entry| entry.target == crate::control::Target::Action(forward.clone()))
    );
    assert_eq!(found.len(), 2);
}

/// Entries that packets or time add and remove meanwhile refuse no file.
#[test]
fn a_file_is_restored_while_entries_come_and_go() {
    with_device(|control| {
        let (head, tail) = RANKED.split_once('\n').unwrap();
        let first = tail.split_once("},\n").unwrap().0;
        let first = format!("{head} {first}}} ] }}");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // One of them is refused: the file is restored meanwhile.
                    let _ = does(control, Kind::Delete, &first);
                    thread::sleep(std::time::Duration::from_micros(200));
                    let _ = does(control, Kind::Insert, &first);
                    thread::sleep(std::time::Duration::from_micros(200));
                }
            });
            let refused = (0..500).find_map(|_| restore(control, RANKED, "saved.yaml").err());
            stop.store(true, Ordering::Relaxed);
            assert!(refused.is_none(), "{refused:?}");
        });
    });
}
