//! Updates and queries on a device of one worker: what is read back, and the status of each wrong request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::{Span, Time};
use wireyard_tables::{GroupMember, Match};

use super::*;
use crate::core::Topic;
use crate::ports::scripted::ScriptedPort;
use crate::ports::{Opened, PortNumber, PortSpec};
use crate::program::{DeviceOptions, from_text, started};
use crate::replicate::{Group, Member, Members, Session};
use wireyard_pipeline::ir::SetMember;

const PROGRAM: &str = "
pipeline: everything
include: [ethernet]
value_sets: { kinds: { bits: 16, size: 2, values: [0x0800] } }
registers: { seen: { bits: 32, size: 600 }, pair: { struct: { a: 8, b: 16 }, size: 2 } }
counters: { packets: { size: 4 } }
meters: { rates: { size: 4, type: srtcm, unit: packets } }
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: [ { match: ['@kinds'], next: accept } ] }
tables:
  ways:
    key: { std.ingress_port: exact }
    actions: [out, nop]
    default: nop
    size: 4
    counters: true
    meter: { type: trtcm, unit: bytes }
    idle_timeout_ms: 1000
  fixed:
    key: { ethernet.dst: exact }
    actions: [nop]
    default: nop
    const_default: true
    const_entries: true
    size: 4
    entries: [ { match: { ethernet.dst: 02:00:00:00:00:01 }, action: nop } ]
  spread:
    key: { std.ingress_port: exact, ethernet.src: selector }
    actions: [out, nop]
    default: nop
    size: 4
    selector: { hash: crc16, members: 4, groups: 2 }
actions:
  out: { params: { to: port }, do: [ std.egress_port = to ] }
  other: { do: [ std.egress_port = 1 ] }
ingress:
  - apply: ways
  - apply: fixed
  - apply: spread
  - { update: 'seen[0]', as: n, do: [ n = n + 1 ] }
  - { update: 'pair[0]', as: p, do: [ p.a = 1 ] }
  - count(packets, 0)
  - std.color = execute(rates, 0)
  - if: ethernet.ether_type == 1
    then: [ other() ]
deparser: { emit: [ethernet] }
";

pub(super) fn device() -> (Core, Control) {
    let (_, core, control) = started("everything.yaml", PROGRAM);
    (core, control)
}

/// Polls the device while `work` runs.
fn while_polled(mut core: Core, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut now = Time::from_ns(1000);
            while !stop.load(Ordering::Relaxed) {
                core.poll(now, None);
                now += Span::from_us(1);
            }
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

pub(super) fn entry(control: &Control, port: u128, to: u128) -> TableEntry {
    let table = control.table("ways").unwrap();
    TableEntry::new(table, vec![Match::Exact(port)], control.call("out", &[to]).unwrap())
}

pub(super) fn entries(control: &Control, table: &str) -> Vec<TableEntry> {
    let query = Query::Entries { table: Some(control.table(table).unwrap()) };
    let all = control.read(&query).unwrap().into_iter();
    all.map(|entity| match entity {
        Entity::TableEntry(entry) => entry,
        other => panic!("{other:?}"),
    })
    .collect()
}

/// Members of a set of one exact key.
fn exact(values: &[u128]) -> Vec<SetMember> {
    values.iter().map(|value| vec![Match::Exact(*value)]).collect()
}

#[test]
fn an_entry_is_read_back_as_it_was_written() {
    let (_core, control) = device();
    let mut written = entry(&control, 1, 2);
    written.idle_timeout = Some(Span::from_ms(5));
    written.meter = Some(MeterConfig::TwoRate { cir: 1, cbs: 2, pir: 3, pbs: 4 });
    written.counter = Some(Count { packets: 7, bytes: 700 });
    control.insert(written.clone()).unwrap();
    written.since_hit = Some(Span::ZERO);
    assert_eq!(entries(&control, "ways"), [written.clone()]);
    assert_eq!(
        control.read(&Query::Entry(written.key.clone())).unwrap(),
        [Entity::TableEntry(written.clone())]
    );
    // Values that the update does not set stay.
    control.modify(entry(&control, 1, 3)).unwrap();
    let changed = entries(&control, "ways").remove(0);
    assert_eq!((changed.counter, changed.meter), (written.counter, written.meter));
    assert_eq!(changed.target, Target::Action(control.call("out", &[3]).unwrap()));
    assert_eq!(changed.idle_timeout, None);
}

#[test]
fn each_wrong_update_has_its_status() {
    let (_core, control) = device();
    control.insert(entry(&control, 1, 2)).unwrap();
    let status = |update: Update| control.write_one(update).unwrap_err();
    let insert = |entry| Update::Insert(Entity::TableEntry(entry));
    let with = |action: &str, args: &[u128]| {
        TableEntry::new(
            control.table("ways").unwrap(),
            vec![Match::Exact(9)],
            control.call(action, args).unwrap(),
        )
    };
    type E = ControlError;
    assert!(matches!(status(insert(entry(&control, 1, 2))), E::EntryExists(_)));
    let absent = Update::Delete(Entity::TableEntry(entry(&control, 9, 2)));
    assert!(matches!(status(absent), E::NoEntry(_)));
    assert!(matches!(status(insert(with("other", &[]))), E::InvalidArgument(_)));
    assert!(matches!(status(insert(with("out", &[]))), E::InvalidArgument(_)));
    assert!(matches!(status(insert(with("out", &[1 << 16]))), E::OutOfRange(_)));
    assert!(matches!(status(insert(entry(&control, 1 << 16, 2))), E::OutOfRange(_)));
    let mut ranked = entry(&control, 9, 2);
    ranked.key.priority = 1;
    assert!(matches!(status(insert(ranked)), E::InvalidArgument(_)));
    let fixed = control.table("fixed").unwrap();
    let nop = control.call("nop", &[]).unwrap();
    let constant = TableEntry::new(fixed, vec![Match::Exact(9)], nop.clone());
    assert!(matches!(status(insert(constant)), E::PermissionDenied(_)));
    let default = Entity::DefaultAction { table: fixed, action: Some(nop) };
    assert!(matches!(status(Update::Modify(default.clone())), E::PermissionDenied(_)));
    assert!(matches!(status(Update::Insert(default)), E::InvalidArgument(_)));
    for port in 2..=4 {
        control.insert(entry(&control, port, 2)).unwrap();
    }
    assert!(matches!(status(insert(entry(&control, 5, 2))), E::ResourceExhausted(_)));
    let packets = control.counter("packets").unwrap();
    let cell = Entity::Counter { counter: packets, index: 4, count: Count::default() };
    assert!(matches!(status(Update::Modify(cell.clone())), E::OutOfRange(_)));
    assert!(matches!(status(Update::Insert(cell)), E::InvalidArgument(_)));
    let kinds = control.value_set("kinds").unwrap();
    let set =
        |members: &[u128]| Update::Modify(Entity::ValueSet { set: kinds, members: exact(members) });
    assert!(matches!(status(set(&[1, 2, 3])), E::ResourceExhausted(_)));
    assert!(matches!(status(set(&[1 << 16])), E::OutOfRange(_)));
    assert!(matches!(control.table("none"), Err(E::NotFound(_))));
    assert!(matches!(control.read(&Query::Mirrors { id: Some(3) }), Err(E::NotFound(_))));
}

#[test]
fn an_atomic_batch_is_done_whole_or_not_at_all() {
    let (_core, control) = device();
    let insert = |port| Update::Insert(Entity::TableEntry(entry(&control, port, 2)));
    let session = Session {
        replicas: vec![Member { port: PortNumber(3), instance: 0 }],
        traffic_class: None,
        truncate_bytes: 0,
    };
    let mirror = || Update::Insert(Entity::Mirror { id: 5, session: session.clone() });
    let batch = [insert(1), mirror(), insert(2), insert(1), insert(3)];
    let error = control.write(&batch, Mode::Atomic).unwrap_err();
    assert_eq!(error.first().map(|(at, _)| at), Some(3));
    let aborted = error.results.iter().filter(|r| matches!(r, Err(ControlError::Aborted(_))));
    assert_eq!(aborted.count(), 4);
    assert!(entries(&control, "ways").is_empty());
    assert!(control.read(&Query::Mirrors { id: None }).unwrap().is_empty());

    let error = control.write(&batch, Mode::Continue).unwrap_err();
    let done: Vec<bool> = error.results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, true, false, true]);
    assert!(matches!(error.results[3], Err(ControlError::EntryExists(_))));
    assert_eq!(entries(&control, "ways").len(), 3);
    let mirrors = control.read(&Query::Mirrors { id: Some(5) }).unwrap();
    assert_eq!(mirrors, [Entity::Mirror { id: 5, session }]);
}

#[test]
fn the_counter_of_an_entry_is_written_where_the_batch_has_the_entry() {
    let (_core, control) = device();
    let one = || Entity::TableEntry(entry(&control, 1, 2));
    let count = Count { packets: 7, bytes: 700 };
    let counted = Update::Modify(Entity::DirectCounter { key: entry(&control, 1, 2).key, count });
    control.write(&[Update::Insert(one()), counted.clone()], Mode::Atomic).unwrap();
    let error = control.write(&[Update::Delete(one()), counted.clone()], Mode::Atomic).unwrap_err();
    assert!(matches!(error.results[1], Err(ControlError::NoEntry(_))), "{error:?}");
    assert_eq!(entries(&control, "ways").len(), 1, "nothing was done");
    let again = [Update::Delete(one()), Update::Insert(one()), counted];
    control.write(&again, Mode::Atomic).unwrap();
    assert_eq!(entries(&control, "ways")[0].counter, Some(count));
}

#[test]
fn a_default_action_that_a_swap_replaces_is_lost() {
    let (_core, control) = device();
    let next = |text: &str| from_text("everything.yaml", text).unwrap();
    let other = PROGRAM.replace(
        "    actions: [out, nop]\n    default: nop\n    size: 4\n    counters: true",
        "    actions: [out, nop]\n    default: out(3)\n    size: 4\n    counters: true",
    );
    assert_ne!(other, PROGRAM);
    let lost = |text: &str| {
        let swap = control.prepare(&next(text), Keep::WhatFits).unwrap();
        swap.lost().map(|one| (one.kind, one.name.clone(), one.fate))
    };
    assert_eq!(lost(&other), None, "nobody set it");
    let table = control.table("ways").unwrap();
    let action = Some(control.call("out", &[2]).unwrap());
    let set = Update::Modify(Entity::DefaultAction { table, action });
    control.write(std::slice::from_ref(&set), Mode::Atomic).unwrap();
    assert_eq!(lost(PROGRAM), None, "it is kept");
    assert_eq!(lost(&other), Some(("default action", "ways".to_owned(), Fate::Changed)));
    // The one of the program that runs now is declared by that.
    control.swap(&next(&other), Keep::WhatFits).unwrap();
    assert_eq!(lost(&other.replace("default: out(3)", "default: out(1)")), None, "nobody set it");
    control.write(&[set], Mode::Atomic).unwrap();
    assert_eq!(lost(PROGRAM), Some(("default action", "ways".to_owned(), Fate::Changed)));
}

/// Profiles are numbered by position, and meters have rates of one kind.
#[test]
fn a_swap_keeps_a_selector_at_another_place_and_no_meters_of_another_kind() {
    let (_core, control) = device();
    let next = |text: &str| from_text("everything.yaml", text).unwrap();
    let table = control.table("spread").unwrap();
    let action = control.call("out", &[2]).unwrap();
    let members = vec![GroupMember { member: 1, weight: 1 }];
    let mut to_group = entry(&control, 1, 1);
    (to_group.key.table, to_group.target) = (table, Target::Group(1));
    let all = [
        Entity::Member { table, id: 1, action },
        Entity::Group { table, id: 1, members: members.clone() },
        Entity::TableEntry(to_group),
    ];
    control.write(&all.map(Update::Insert), Mode::Atomic).unwrap();
    let front = "tables:\n  front: { key: { ethernet.dst: exact, ethernet.src: selector }, actions: [out, nop], \
                 default: nop, size: 4, selector: { hash: crc16, members: 4, groups: 2 } }\n";
    let with_front = PROGRAM.replace("tables:\n", front);
    let with_front =
        with_front.replace("  - apply: spread\n", "  - apply: spread\n  - apply: front\n");
    for text in [&with_front, PROGRAM] {
        control.swap(&next(text), Keep::WhatFits).unwrap();
        let table = control.table("spread").unwrap();
        assert_eq!(entries(&control, "spread")[0].target, Target::Group(1));
        let groups = control.read(&Query::Groups { table: None, id: None }).unwrap();
        assert_eq!(groups, [Entity::Group { table, id: 1, members: members.clone() }]);
    }
    let one_rate = PROGRAM.replace("type: trtcm, unit: bytes", "type: srtcm, unit: bytes");
    let swap = control.prepare(&next(&one_rate), Keep::WhatFits).unwrap();
    let fate = |name: &str| swap.report().iter().find(|one| one.name == name).unwrap().fate;
    assert_eq!((fate("ways"), fate("spread")), (Fate::Changed, Fate::Kept));
}

#[test]
fn updates_of_tables_behind_refused_ones_are_done_with_their_counters() {
    let (_core, control) = device();
    let insert = |entry| Update::Insert(Entity::TableEntry(entry));
    let mut counted = entry(&control, 2, 2);
    counted.counter = Some(Count { packets: 7, bytes: 700 });
    let mut wrong = entry(&control, 3, 3);
    wrong.key.matches.clear();
    let batch = [
        insert(entry(&control, 1, 1)),
        insert(entry(&control, 1, 2)),
        insert(wrong.clone()),
        insert(counted.clone()),
        insert(wrong),
        Update::Delete(Entity::TableEntry(entry(&control, 1, 1))),
    ];
    let error = control.write(&batch, Mode::Continue).unwrap_err();
    let done: Vec<bool> = error.results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false, false, true, false, true]);
    let left = entries(&control, "ways");
    assert_eq!((left.len(), left[0].counter), (1, counted.counter));
}

#[test]
fn members_groups_and_copies_are_written_and_read() {
    let (_core, control) = device();
    let table = control.table("spread").unwrap();
    let member = |id, to| Entity::Member { table, id, action: control.call("out", &[to]).unwrap() };
    let weight = |member| GroupMember { member, weight: 1 };
    let group = Entity::Group { table, id: 1, members: vec![weight(1), weight(2)] };
    let mut to_group = entry(&control, 1, 1);
    to_group.key.table = table;
    to_group.target = Target::Group(1);
    let copies = Members::List(vec![Member { port: PortNumber(2), instance: 1 }]);
    let flood = Entity::Multicast { id: 7, group: Group { members: copies, prune_ingress: true } };
    let all = [
        member(1, 1),
        member(2, 2),
        group.clone(),
        Entity::TableEntry(to_group.clone()),
        flood.clone(),
    ];
    control.write(&all.map(Update::Insert), Mode::Atomic).unwrap();
    let read = |query| control.read(&query).unwrap();
    assert_eq!(read(Query::Members { table: None, id: None }), [member(1, 1), member(2, 2)]);
    let groups = read(Query::Groups { table: Some(table), id: Some(1) });
    assert_eq!(groups, std::slice::from_ref(&group));
    assert_eq!(entries(&control, "spread"), [to_group]);
    assert_eq!(read(Query::Multicast { id: None }), [flood]);
    let in_use = control.write_one(Update::Delete(group)).unwrap_err();
    assert!(matches!(in_use, ControlError::FailedPrecondition(_)), "{in_use}");
}

#[test]
fn arrays_and_sets_are_written_and_read() {
    let (core, control) = device();
    while_polled(core, || {
        let (seen, pair) = (control.register("seen").unwrap(), control.register("pair").unwrap());
        let counter = control.counter("packets").unwrap();
        let meter = control.meter("rates").unwrap();
        let set = control.value_set("kinds").unwrap();
        let config = Some(MeterConfig::SingleRate { cir: 10, cbs: 5, ebs: 0 });
        let written = [
            Entity::Counter { counter, index: 3, count: Count { packets: 1, bytes: 2 } },
            Entity::Meter { meter, index: 2, config },
            Entity::Register { register: seen, index: 599, cells: vec![77] },
            Entity::Register { register: pair, index: 1, cells: vec![255, 65535] },
            Entity::ValueSet { set, members: exact(&[3, 9]) },
        ];
        control.write(&written.clone().map(Update::Modify), Mode::Atomic).unwrap();
        let read = |query| control.read(&query).unwrap();
        let mut found = read(Query::Counters { counter: Some(counter), index: Some(3) });
        found.extend(read(Query::Meters { meter: None, index: Some(2) }));
        let registers = read(Query::Registers { register: Some(seen), index: None });
        assert_eq!(registers.len(), 600);
        found.extend(registers.last().cloned());
        found.extend(read(Query::Registers { register: Some(pair), index: Some(1) }));
        found.extend(read(Query::ValueSets { set: None }));
        assert_eq!(found, written);
        let wide = Entity::Register { register: pair, index: 0, cells: vec![256, 0] };
        let error = control.write_one(Update::Modify(wide)).unwrap_err();
        assert!(matches!(error, ControlError::OutOfRange(_)), "{error}");
    });
    let ended = control.read(&Query::Registers { register: None, index: Some(0) }).unwrap_err();
    assert!(matches!(ended, ControlError::Unavailable(_)), "{ended}");
    // Without a worker a batch is done except for its registers, and an error reports those.
    let insert = Update::Insert(Entity::TableEntry(entry(&control, 1, 2)));
    let seen = control.register("seen").unwrap();
    let cell = Update::Modify(Entity::Register { register: seen, index: 0, cells: vec![1] });
    let error = control.write(&[cell, insert], Mode::Atomic).unwrap_err();
    assert!(matches!(error.results[..], [Err(ControlError::Unavailable(_)), Ok(())]), "{error}");
    assert_eq!(entries(&control, "ways").len(), 1);
}

/// One event for a table that fills and one for its first free entry, whatever is refused in between; none for a table of
/// constant entries, nor for one that goes with its program.
#[test]
fn a_table_that_becomes_full_is_an_event() {
    let (mut core, control) = device();
    let events = |core: &mut Core| {
        core.check_tables();
        let found =
            core.ports_mut().take_messages().into_iter().map(|message| match message.topic {
                Topic::Event(DeviceEvent::TableFull { table, over }) => (table, over),
                other => panic!("{other:?}"),
            });
        found.collect::<Vec<_>>()
    };
    let (nothing, full) = (Vec::<(String, bool)>::new(), |over| vec![("ways".to_owned(), over)]);
    let insert = |port| {
        let entry = Entity::TableEntry(entry(&control, port, 2));
        control.write_one(Update::Insert(entry))
    };
    assert_eq!(events(&mut core), nothing);
    (0..3).for_each(|port| insert(port).unwrap());
    assert_eq!(events(&mut core), nothing);
    insert(3).unwrap();
    assert_eq!(events(&mut core), full(false));
    assert!(matches!(insert(4), Err(ControlError::ResourceExhausted(_))));
    assert_eq!(events(&mut core), nothing);
    let delete = |port| {
        let entry = Entity::TableEntry(entry(&control, port, 2));
        control.write_one(Update::Delete(entry)).unwrap();
    };
    // Entries that come and go are no news.
    delete(0);
    assert_eq!(events(&mut core), nothing);
    insert(0).unwrap();
    assert_eq!(events(&mut core), nothing);
    (0..2).for_each(delete);
    assert_eq!(events(&mut core), full(true));
    (0..2).for_each(|port| insert(port).unwrap());
    assert_eq!(events(&mut core), full(false));
    let loaded = from_text("everything.yaml", PROGRAM).unwrap_or_else(|why| panic!("{why}"));
    control.swap(&loaded, Keep::WhatFits).unwrap();
    assert_eq!(events(&mut core), nothing);
    control.swap(&loaded, Keep::Nothing).unwrap();
    assert_eq!(events(&mut core), full(true));
}

/// Ids of a program that was replaced are refused: in the new one they may refer to another table.
#[test]
fn ids_of_a_program_that_is_gone_write_and_read_nothing() {
    let (_core, control) = device();
    let (old, insert) =
        (control.program(), Update::Insert(Entity::TableEntry(entry(&control, 1, 2))));
    control.write_of(&old, std::slice::from_ref(&insert), Mode::Atomic).unwrap();
    let loaded = from_text("everything.yaml", PROGRAM).unwrap_or_else(|why| panic!("{why}"));
    control.swap(&loaded, Keep::Nothing).unwrap();
    let error = control.write_of(&old, &[insert], Mode::Continue).unwrap_err();
    assert!(matches!(error.results[..], [Err(ControlError::FailedPrecondition(_))]), "{error}");
    let all = Query::Entries { table: None };
    let mut seen = 0;
    let read = control.visit_of(&old, &all, &mut |_| seen += 1).unwrap_err();
    assert!(matches!(read, ControlError::FailedPrecondition(_)), "{read}");
    assert_eq!((seen, entries(&control, "ways").len()), (0, 0));
    control.visit_of(&control.program(), &all, &mut |_| seen += 1).unwrap();
    assert_eq!(seen, control.read(&all).unwrap().len());
}

#[test]
fn ports_that_cannot_come_are_closed() {
    let (mut core, control) = device();
    core.add_port(PortNumber(1), Box::new(ScriptedPort::default())).unwrap();
    let port = ScriptedPort::default();
    let is_closed = Arc::clone(&port.is_closed);
    assert!(core.add_port(PortNumber(1), Box::new(port)).is_err());
    assert!(is_closed.load(Ordering::Relaxed), "the number is taken");

    let port = ScriptedPort::default();
    let is_closed = Arc::clone(&port.is_closed);
    let opened = Opened { port: Box::new(port), queues: Vec::new(), notices: Vec::new() };
    let [one, two, three, four] = [1, 2, 3, 4].map(PortNumber);
    let new = |number, source| NewPort { number, spec: PortSpec::parse("raw:x").unwrap(), source };
    // There is no port 3 to be kept as port 4.
    let new = vec![new(four, PortSource::Kept(three)), new(two, PortSource::Opened(opened))];
    let mut memory = core.memory().worker();
    while_polled(core, || {
        let refused = control.exchange_ports(&mut memory, &[one], new).map(drop);
        assert!(matches!(refused, Err(ControlError::NotFound(_))), "{refused:?}");
        assert!(is_closed.load(Ordering::Relaxed));
        assert!(control.owner(one).is_ok(), "nothing was taken out");
    });
}

/// A change of ports that has begun is made at all workers, however late one of them is.
#[test]
fn a_late_worker_has_the_same_ports_in_the_end() {
    let loaded = from_text("everything.yaml", PROGRAM).unwrap_or_else(|why| panic!("{why}"));
    let mut cores = loaded.workers(DeviceOptions::small(), 2).unwrap();
    let control = Control::of(&cores[0]).unwrap().clone();
    let mut memory = cores[0].memory().worker();
    let opened = || Opened {
        port: Box::new(ScriptedPort::default()),
        queues: vec![Box::new(ScriptedPort::default())],
        notices: Vec::new(),
    };
    let new = |number, opened| NewPort {
        number: PortNumber(number),
        spec: PortSpec::parse("raw:x").unwrap(),
        source: PortSource::Opened(opened),
    };
    let is_over = AtomicBool::new(false);
    // The second worker answers one command, and the next one later than a command waits.
    let poll = |core: &mut Core, mut is_late: bool| {
        let mut now = Time::from_ns(1000);
        while !is_over.load(Ordering::Relaxed) {
            let is_asked = core.control.as_ref().is_some_and(|link| link.has_commands());
            core.poll(now, None);
            now += Span::from_us(1);
            if is_asked && std::mem::take(&mut is_late) {
                thread::sleep(Duration::from_millis(2_200));
            }
        }
    };
    let (one, two) = cores.split_at_mut(1);
    let port = ScriptedPort::default();
    let is_closed = Arc::clone(&port.is_closed);
    let first = Opened { port: Box::new(port), ..opened() };
    let changes = thread::scope(|scope| {
        scope.spawn(|| poll(&mut one[0], false));
        scope.spawn(|| poll(&mut two[0], true));
        let changes = control.exchange_ports(&mut memory, &[], vec![new(1, first)]);
        is_over.store(true, Ordering::Relaxed);
        changes
    });
    let added = changes.map(|changes| changes.added.values().all(std::result::Result::is_ok));
    assert!(matches!(added, Ok(true)), "{added:?}");
    assert!(!is_closed.load(Ordering::Relaxed));
    for core in &cores {
        assert_eq!(core.ports().worker_of(PortNumber(1), core.mesh.me()), Some(0));
    }
    assert_eq!(cores[1].ports().served(), [PortNumber(1)]);
}

/// A wake that nobody waits for any more does not shorten the next wait.
#[test]
fn a_reader_waits_as_long_as_it_asks_for() {
    let (mut core, control) = device();
    let mut stream = control.subscribe(Interest::default(), 4).unwrap();
    core.poll(Time::ZERO, None);
    std::thread::current().unpark();
    let (begun, timeout) = (std::time::Instant::now(), Duration::from_millis(30));
    assert!(stream.next(timeout).is_none());
    assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
}

fn copy_to(id: u16, port: u16) -> Entity {
    let members = Members::List(vec![Member { port: PortNumber(port), instance: 0 }]);
    Entity::Multicast { id, group: Group { members, prune_ingress: false } }
}

#[test]
fn groups_that_are_published_together_have_a_result_each() {
    let (_core, control) = device();
    let session = Session {
        replicas: vec![Member { port: PortNumber(1), instance: 0 }],
        traffic_class: None,
        truncate_bytes: 0,
    };
    let updates = [
        Update::Insert(copy_to(1, 1)),
        Update::Insert(copy_to(1, 2)),
        Update::Delete(copy_to(9, 1)),
        Update::Modify(copy_to(1, 3)),
        Update::Insert(Entity::Mirror { id: 1, session }),
        Update::Delete(copy_to(1, 1)),
        Update::Insert(copy_to(2, 4)),
    ];
    let results = control.write(&updates, Mode::Continue).unwrap_err().results;
    let done: Vec<bool> = results.iter().map(std::result::Result::is_ok).collect();
    assert_eq!(done, [true, false, false, true, true, true, true]);
    assert!(matches!(results[1], Err(ControlError::AlreadyExists(_))), "{results:?}");
    assert!(matches!(results[2], Err(ControlError::NotFound(_))), "{results:?}");
    assert_eq!(control.read(&Query::Multicast { id: None }).unwrap(), [copy_to(2, 4)]);
    assert_eq!(control.read(&Query::Mirrors { id: Some(1) }).unwrap().len(), 1);
    let missing = control.read(&Query::Multicast { id: Some(1) }).unwrap_err();
    assert_eq!(missing, ControlError::NotFound("there is no multicast group 1".into()));
}

/// A copy of all groups for each update, and a search through all for each that is read, would take minutes.
#[test]
fn many_groups_are_written_and_read_one_by_one() {
    let (_core, control) = device();
    let began = std::time::Instant::now();
    let all = || 1..30_000;
    let inserted: Vec<Update> = all().map(|id| Update::Insert(copy_to(id, 1))).collect();
    control.write(&inserted, Mode::Continue).unwrap();
    for id in all() {
        assert_eq!(control.read(&Query::Multicast { id: Some(id) }).unwrap(), [copy_to(id, 1)]);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
