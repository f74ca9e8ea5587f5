//! The control handle on a device of two workers that forward all the time: each thing that it reads, writes or hears.
//!
//! Four ports in memory, two for each worker; what comes in by 1 leaves by 2 and back, so every frame changes workers. A frame carries a
//! number, and a mark of the program that did its ingress and of the one that did its egress.

mod rig;
mod swap;

use std::time::{Duration, Instant};

use wireyard_switch::control::{
    ControlError, DeviceEvent, Entity, Interest, Mode, NoticeKind, Query, TableEntry, Update,
};
use wireyard_switch::ports::{LinkType, PortNumber, memory};
use wireyard_switch::replicate::{Group, Member, Members, Session};
use wireyard_tables::Match;
use wireyard_tables::counter::Count;

use rig::{FLOOD, MIRROR, OUTSIDE, PUNT, REPORT, Rig, frame, program};

/// Tries until it is so.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn tables_arrays_and_sets_change_under_traffic() {
    let rig = Rig::start(&program(1, ""));
    let control = rig.control.clone();
    let ways = control.table("ways").unwrap();
    let entry = |port: u128, to: u128| {
        TableEntry::new(ways, vec![Match::Exact(port)], control.call("out", &[to]).unwrap())
    };
    let insert = |port, to| Update::Insert(Entity::TableEntry(entry(port, to)));
    rig.traffic.wait_for(1000);

    let before = rig.contents();
    let batch: Vec<Update> = (5..60).map(|port| insert(port, 2)).chain([insert(9, 1)]).collect();
    let refused = control.write(&batch, Mode::Atomic).unwrap_err();
    assert_eq!(refused.first().map(|(at, _)| at), Some(55));
    assert_eq!(rig.contents(), before, "a batch that is refused changes nothing");
    control.write(&batch[..55], Mode::Atomic).unwrap();
    let all = control.read(&Query::Entries { table: Some(ways) }).unwrap();
    assert_eq!(all.len(), 57);

    // The counter of an entry that is hit all the time, the register, the array.
    let counter = || match &control.read(&Query::Entry(entry(1, 2).key)).unwrap()[..] {
        [Entity::TableEntry(entry)] => entry.counter.unwrap().packets,
        other => panic!("{other:?}"),
    };
    let (first, seen) = (counter(), rig.seen());
    rig.traffic.wait_for(1000);
    assert!(counter() > first && rig.seen() > seen);
    let array = control.counter("packets").unwrap();
    let count = Count { packets: 1 << 40, bytes: 7 };
    control.write_one(Update::Modify(Entity::Counter { counter: array, index: 1, count })).unwrap();
    let read = control.read(&Query::Counters { counter: Some(array), index: Some(1) }).unwrap();
    assert!(matches!(read[..], [Entity::Counter { count, .. }] if count.packets >= 1 << 40));
    // A set of the parser: its members are dropped in ingress.
    let set = control.value_set("refused").unwrap();
    let members = vec![vec![Match::Exact(0x88b5)]];
    control.write_one(Update::Modify(Entity::ValueSet { set, members })).unwrap();
    wait_until("nothing passes any more", || {
        let now = rig.traffic.received();
        std::thread::sleep(Duration::from_millis(20));
        rig.traffic.received() == now
    });
    control.write_one(Update::Modify(Entity::ValueSet { set, members: Vec::new() })).unwrap();
    rig.traffic.forgive();
    rig.traffic.wait_for(1000);
    rig.end();
}

#[test]
fn a_device_is_heard_from_all_workers() {
    let rig = Rig::start(&program(1, ""));
    let control = rig.control.clone();
    let mut stream = control.subscribe(Interest::ALL, 256).unwrap();
    let mut lagging = control.subscribe(Interest::ALL, 1).unwrap();
    rig.traffic.wait_for(500);
    for n in 0..10 {
        control.inject(PortNumber(1), &frame(REPORT, n)).unwrap();
        control.inject(PortNumber(2), &frame(REPORT, n)).unwrap();
        control.inject(PortNumber(3), &frame(PUNT, n)).unwrap();
    }
    let (mut digests, mut packets) = ([0; 2], 0);
    let mut idle = 0;
    control
        .insert({
            let ways = control.table("ways").unwrap();
            let nop = control.call("nop", &[]).unwrap();
            let mut entry = TableEntry::new(ways, vec![Match::Exact(99)], nop);
            entry.idle_timeout = Some(wireyard_tables::time::Span::from_ms(1));
            entry
        })
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while (digests != [10, 10] || packets < 10 || idle == 0) && Instant::now() < end {
        let Some(notice) = stream.next(Duration::from_secs(1)) else { continue };
        match notice.kind {
            NoticeKind::Digest(digest) => {
                assert_eq!(digest.program.digests[digest.digest].name, "report");
                assert_eq!(digest.values, [notice.worker as u128 + 1]);
                digests[notice.worker] += 1;
            }
            NoticeKind::Packet(packet) => {
                assert_eq!((packet.reason.as_str(), packet.ingress_port), ("asked", PortNumber(3)));
                packets += 1;
            }
            NoticeKind::Idle(notice) => {
                assert_eq!(notice.entry().key.matches, [Match::Exact(99)]);
                assert!(!notice.idle.removed);
                idle += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((digests, packets), ([10, 10], 10));
    assert!(idle > 0, "the entry is idle and nobody was told");
    assert_eq!(stream.lost(), 0);
    wait_until("a reader that lags is notified", || lagging.lost() > 0);
    assert!(lagging.try_next().is_some());
    rig.end();
    // The entry is notified again each time that its timeout has run out once more.
    while let Some(notice) = stream.next(Duration::from_secs(5)) {
        assert!(matches!(notice.kind, NoticeKind::Idle(_)), "{:?}", notice.kind);
    }
    assert!(stream.has_ended());
    let ended = control.inject(PortNumber(1), &frame(PUNT, 1)).unwrap_err();
    assert!(matches!(ended, ControlError::Unavailable(_)), "{ended}");
}

#[test]
fn packets_enter_by_a_port_and_leave_by_a_port() {
    let mut rig = Rig::start(&program(1, ""));
    let control = rig.control.clone();
    // As it is, by a port of each worker.
    control.send(PortNumber(3), &frame(OUTSIDE, 1)).unwrap();
    control.send(PortNumber(4), &frame(OUTSIDE, 2)).unwrap();
    assert_eq!(rig.take(3), [frame(OUTSIDE, 1)]);
    assert_eq!(rig.take(4), [frame(OUTSIDE, 2)]);
    assert!(matches!(
        control.send(PortNumber(9), &frame(OUTSIDE, 2)),
        Err(ControlError::NotFound(_))
    ));
    // Through the program: all replicas of a group, of which every worker sees all or nothing.
    let member = |port| Member { port: PortNumber(port), instance: 0 };
    let group = |ports: [u16; 2]| Entity::Multicast {
        id: 1,
        group: Group { members: Members::List(ports.map(member).into()), prune_ingress: false },
    };
    control.write_one(Update::Insert(group([3, 4]))).unwrap();
    for port in [1, 2] {
        control.inject(PortNumber(port), &frame(FLOOD, 7)).unwrap();
        assert_eq!((rig.take(3).len(), rig.take(4).len()), (1, 1));
    }
    let session = Session {
        replicas: vec![Member { port: PortNumber(3), instance: 0 }],
        traffic_class: None,
        truncate_bytes: 20,
    };
    control.write_one(Update::Insert(Entity::Mirror { id: 5, session })).unwrap();
    control.packet_out(&frame(MIRROR, 7)).unwrap();
    assert_eq!(rig.take(3)[0].len(), 20);
    control.write_one(Update::Delete(group([3, 4]))).unwrap();
    control.inject(PortNumber(1), &frame(FLOOD, 7)).unwrap();
    wait_until("the group is gone", || {
        control.statistics().unwrap().total.dropped.iter().any(|(why, _)| why == "no_such_group")
    });
    rig.traffic.wait_for(500);
    rig.end();
}

#[test]
fn ports_come_and_stop_under_traffic() {
    let mut rig = Rig::start(&program(1, ""));
    let control = rig.control.clone();
    let (near, mut far) = memory::pair(&rig.memory, ("5", "far5"), LinkType::Ethernet, 64);
    control.add_open_port(PortNumber(5), Box::new(near)).unwrap();
    let (again, _far) = memory::pair(&rig.memory, ("5", "far5"), LinkType::Ethernet, 64);
    let taken = control.add_open_port(PortNumber(5), Box::new(again)).unwrap_err();
    assert!(matches!(taken, ControlError::AlreadyExists(_)), "{taken}");
    // It belongs to worker 0; worker 1 hands its packets over.
    let ways = control.table("ways").unwrap();
    let to = |port| control.call("out", &[port]).unwrap();
    control.insert(TableEntry::new(ways, vec![Match::Exact(4)], to(5))).unwrap();
    control.inject(PortNumber(4), &frame(OUTSIDE, 3)).unwrap();
    let mut memory = rig.memory.worker();
    wait_until("it leaves by the new port", || !far.receive_bytes(&mut memory).is_empty());
    // Removed at every worker, and added again.
    control.remove_port(PortNumber(5)).unwrap();
    let gone = control.remove_port(PortNumber(5)).unwrap_err();
    assert!(matches!(gone, ControlError::NotFound(_)), "{gone}");
    control.inject(PortNumber(4), &frame(OUTSIDE, 3)).unwrap();
    let (near, mut far) = memory::pair(&rig.memory, ("5", "far5"), LinkType::Ethernet, 64);
    control.add_open_port(PortNumber(5), Box::new(near)).unwrap();
    control.inject(PortNumber(4), &frame(OUTSIDE, 3)).unwrap();
    wait_until("it leaves by the port again", || !far.receive_bytes(&mut memory).is_empty());
    // Blocked: nothing leaves; then everything does.
    control.block_port(PortNumber(3), true).unwrap();
    control.send(PortNumber(3), &frame(OUTSIDE, 4)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(rig.far(3).is_empty(), "the port is stopped");
    control.block_port(PortNumber(3), false).unwrap();
    assert_eq!(rig.take(3).len(), 1);
    rig.traffic.wait_for(500);
    rig.end();
}

#[test]
fn a_link_that_changes_is_an_event() {
    let mut rig = Rig::start(&program(1, ""));
    let interest = Interest { events: true, ..Interest::default() };
    let mut stream = rig.control.subscribe(interest, 16).unwrap();
    rig.traffic.wait_for(100);
    rig.cut(4);
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < end, "no event");
        let Some(notice) = stream.next(Duration::from_secs(1)) else { continue };
        if let NoticeKind::Event(DeviceEvent::Link { port: PortNumber(4), .. }) = notice.kind {
            break;
        }
    }
    rig.end();
}
