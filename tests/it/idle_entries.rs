//! Idle table entries: a notice of those that stay, removal where the table asks for it, on each engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use wireyard_switch::core::{IdleEntry, Statistics};
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::{Span, Time};
use wireyard_tables::{Entry, Match, TableId, TableView, Update};

const PROGRAM: &str = "
pipeline: idle
headers: { eth: { fields: { dst: mac, src: mac, kind: 16 } } }
parser: { start: { extract: eth } }
actions:
  send: { params: { port: port }, do: [ std.egress_port = port ] }
tables:
  stays:
    key: { eth.dst: exact }
    actions: [send]
    idle_timeout_ms: 1000
    entries:
      - { match: { eth.dst: 1 }, action: send(2) }
      - { match: { eth.dst: 2 }, action: send(2), idle_timeout_ms: 5000 }
  goes:
    key: { eth.dst: exact }
    actions: [send]
    idle_timeout_ms: 1000
    on_idle: remove
    entries:
      - { match: { eth.dst: 3 }, action: send(2) }
ingress:
  - std.egress_port = 3
  - apply: stays
  - apply: goes
";

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// The port that a frame for this address leaves by.
fn way(sandbox: &mut Sandbox, to: u8, now: Time) -> u16 {
    let mut frame = vec![0, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    frame.resize(60, 0);
    assert!(sandbox.send(PortNumber(1), &frame, now, None));
    sandbox.received()[0].0.0
}

fn device(engine: EngineKind) -> Sandbox {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("idle.yaml");
    std::fs::write(&program, PROGRAM).expect("the program");
    let loaded = load(&Place { program, ..Place::default() }).unwrap_or_else(|e| panic!("{e}"));
    let core = loaded.device(DeviceOptions { engine, ..DeviceOptions::small() }).expect("a device");
    Sandbox::new(core, &[1, 2, 3].map(|port| (PortNumber(port), LinkType::Ethernet)))
        .expect("ports")
}

#[test]
fn idle_entries_stay_unless_the_table_removes_them() {
    for engine in EngineKind::ALL {
        let mut sandbox = device(engine);
        let found = |sandbox: &mut Sandbox, ms| {
            let found = sandbox.core.age(at(ms)).into_iter();
            found.map(|idle| (idle.entry.matches[0], idle.removed)).collect::<Vec<_>>()
        };
        let (one, two, three) = (Match::Exact(1), Match::Exact(2), Match::Exact(3));
        assert_eq!(found(&mut sandbox, 999), []);
        assert_eq!(found(&mut sandbox, 1000), [(one, false), (three, true)]);
        assert_eq!(found(&mut sandbox, 1200), []);
        let messages = sandbox.core.ports_mut().take_messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("table stays") && messages[0].contains("on_idle: remove"));

        // The one is there and is hit, the other is not.
        assert_eq!((way(&mut sandbox, 1, at(2000)), way(&mut sandbox, 3, at(2000))), (2, 3));
        assert_eq!(found(&mut sandbox, 2999), []);
        assert_eq!(found(&mut sandbox, 3000), [(one, false)], "idle again");
        assert_eq!(found(&mut sandbox, 5000), [(one, false), (two, false)], "one still is");
        assert!(sandbox.core.ports_mut().take_messages().is_empty(), "one message for a table");

        let statistics = Statistics::of(&mut sandbox.core);
        let program = statistics.program.expect("a program");
        let count = |list: &[(String, u64)]| list.iter().cloned().collect::<BTreeMap<_, _>>();
        assert_eq!(count(&program.idle_notices), BTreeMap::from([("stays".into(), 4)]));
        assert_eq!(count(&program.idle_removals), BTreeMap::from([("goes".into(), 1)]));
        let entries: Vec<u32> = program.tables.iter().map(|table| table.entries).collect();
        assert_eq!(entries, [2, 0]);
    }
}

/// What another thread reads or writes stops no packet: ageing goes on later, where it ended.
#[test]
fn ageing_is_put_off_while_a_reader_has_the_old_version() {
    let mut sandbox = device(EngineKind::Interp);
    let generation = Arc::clone(sandbox.core.generation().expect("a program"));
    let (tables, goes) = (generation.state.tables(), TableId(1));
    let entry = |key: u128| {
        let entry = Entry::new(vec![Match::Exact(key)], 0, vec![2]);
        Update::Insert(goes, entry)
    };
    tables.batch(&(100..500).map(entry).collect::<Vec<_>>(), Time::ZERO).expect("entries");
    let held = tables.snapshot();
    tables.batch(&[entry(500)], Time::ZERO).expect("one more");
    let removed = |found: &[IdleEntry]| found.iter().map(|idle| idle.removed).collect::<Vec<_>>();

    assert_eq!(removed(&sandbox.core.age(at(1000))), [false], "only of the first table");
    assert!(sandbox.core.ageing_is_put_off());
    assert_eq!(
        removed(&sandbox.core.age(at(2500))),
        [true],
        "from the second on, and not for ever"
    );
    assert!(!sandbox.core.ageing_is_put_off());
    assert_eq!(held.table(goes).map(TableView::len), Some(401));
    assert_eq!(removed(&sandbox.core.age(at(2500))), [false], "all tables again");
}
