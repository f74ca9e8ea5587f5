//! `run --p4runtime`: what controllers keep with entries, copies of a clone session, and two controllers who contend.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::{Duration, Instant};

use tonic::Code;
use wireyard_tests::p4client::{Controller, insert, update};

use crate::p4runtime::{PROGRAM, forward, frame, rig};
use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;
use p4::update::Type::{Delete, Modify};
use wireyard_switch::p4runtime::proto::p4::v1 as p4;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn replica(port: u8, instance: u32) -> p4::Replica {
    let port_kind = Some(p4::replica::PortKind::Port(vec![port]));
    p4::Replica { port_kind, instance, ..Default::default() }
}

fn replication(entry: Replication) -> Message {
    let r#type = Some(entry);
    Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type })
}

fn read_one(controller: &mut Controller, wanted: Message) -> Option<Message> {
    controller.read(vec![wanted]).unwrap().pop()
}

#[test]
fn metadata_of_entries_and_groups_is_kept_until_they_go() {
    let Some(_network) = private_network("P4Runtime metadata") else { return };
    let rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let entry = |metadata: &[u8]| p4::TableEntry {
        metadata: metadata.to_vec(),
        ..forward(&controller, A, 2)
    };
    let [first, second, bare] = [&b"one"[..], b"two", b""].map(entry);
    let table = p4::TableEntry { table_id: first.table_id, ..Default::default() };
    let metadata = |controller: &mut Controller| match read_one(
        controller,
        Message::TableEntry(table.clone()),
    ) {
        Some(Message::TableEntry(entry)) => entry.metadata,
        other => panic!("{other:?}"),
    };
    controller.write(vec![insert(Message::TableEntry(first.clone()))]).unwrap();
    assert_eq!(metadata(&mut controller), b"one");
    // Refused: the old one stays.
    controller.write(vec![insert(Message::TableEntry(second.clone()))]).unwrap_err();
    assert_eq!(metadata(&mut controller), b"one");
    controller.write(vec![update(Modify, Message::TableEntry(second))]).unwrap();
    assert_eq!(metadata(&mut controller), b"two");
    controller.write(vec![update(Delete, Message::TableEntry(first))]).unwrap();
    controller.write(vec![insert(Message::TableEntry(bare))]).unwrap();
    assert_eq!(metadata(&mut controller), b"", "it went with the entry");
    let group = |metadata: &[u8]| {
        let replicas = vec![replica(1, 0), replica(2, 0)];
        let metadata = metadata.to_vec();
        let group = p4::MulticastGroupEntry { multicast_group_id: 4, replicas, metadata };
        replication(Replication::MulticastGroupEntry(group))
    };
    controller.write(vec![insert(group(b"mine"))]).unwrap();
    let all = p4::PacketReplicationEngineEntry::default();
    let found = read_one(&mut controller, Message::PacketReplicationEngineEntry(all));
    assert_eq!(found, Some(group(b"mine")));
    let much = p4::TableEntry { metadata: vec![0; 65 << 20], ..forward(&controller, B, 2) };
    let refused = controller.write(vec![insert(Message::TableEntry(much))]).unwrap_err();
    assert_eq!(wireyard_tests::p4client::codes(&refused), [Code::ResourceExhausted]);
    rig.switch.end("TERM").expect(0, &[]);
}

const CLONES: &str = "
pipeline: clones
include: [ethernet]
parser: { start: { extract: ethernet } }
ingress: [ clone(5), drop ]
egress: [ ethernet.ether_type = std.instance ]
deparser: { emit: [ethernet] }
";

#[test]
fn a_clone_session_makes_a_copy_for_each_replica() {
    let Some(_network) = private_network("P4Runtime clones") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("clones.yaml");
    std::fs::write(&program, CLONES).unwrap();
    let mut rig = rig(program.to_str().unwrap(), &[]);
    let mut controller = rig.primary();
    let session = |replicas: Vec<p4::Replica>| {
        let session = p4::CloneSessionEntry { session_id: 5, replicas, ..Default::default() };
        replication(Replication::CloneSessionEntry(session))
    };
    let three = session(vec![replica(2, 7), replica(2, 8), replica(1, 9)]);
    controller.write(vec![insert(three.clone())]).unwrap();
    let all = p4::PacketReplicationEngineEntry::default();
    let found = read_one(&mut controller, Message::PacketReplicationEngineEntry(all));
    assert_eq!(found, Some(three));
    rig.wires[0].send(&[frame(A, B, 0x1234)]);
    let types =
        |frames: Vec<Vec<u8>>| -> Vec<u8> { frames.iter().map(|frame| frame[13]).collect() };
    assert_eq!(types(rig.wires[1].receive(2)), [7, 8]);
    assert_eq!(types(rig.wires[0].receive(1)), [9]);
    for (wrong, code) in [
        (session(Vec::new()), Code::InvalidArgument),
        (session(vec![replica(2, 7), replica(2, 7)]), Code::InvalidArgument),
    ] {
        let refused = controller.write(vec![update(Modify, wrong)]).unwrap_err();
        assert_eq!(wireyard_tests::p4client::codes(&refused), [code]);
    }
    rig.switch.end("TERM").expect(0, &[]);
}

const TO_CPU: &str = "
pipeline: to_cpu
include: [ethernet]
headers: { packet_in: { controller: packet_in, fields: { ingress_port: 16, instance: 16 } } }
parser: { start: { extract: ethernet } }
ingress:
  - if: ethernet.ether_type == 0x1111
    then: [ std.multicast_group = 6 ]
  - if: ethernet.ether_type == 0x2222
    then: [ clone(5), std.egress_port = 2 ]
  - if: ethernet.ether_type == 0x3333
    then: [ std.egress_port = CPU_PORT ]
egress:
  - if: std.egress_port == CPU_PORT
    then: [ set_valid(packet_in), packet_in.ingress_port = std.ingress_port, packet_in.instance = std.instance ]
deparser: { emit: [packet_in, ethernet] }
";

/// Originals, clones and copies of a group come to the controller by the CPU port, each with the program's header.
#[test]
fn packets_and_copies_of_them_come_to_the_controller() {
    let Some(_network) = private_network("P4Runtime: copies to the CPU port") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("to_cpu.yaml");
    std::fs::write(&program, TO_CPU).unwrap();
    let mut rig = rig(program.to_str().unwrap(), &[]);
    let mut controller = rig.primary();
    let to_cpu = |instance| {
        let port_kind = Some(p4::replica::PortKind::Port(vec![0xff, 0xff, 0xff, 0xfd]));
        p4::Replica { port_kind, instance, ..Default::default() }
    };
    let replicas = vec![replica(2, 3), to_cpu(4)];
    let group = p4::MulticastGroupEntry { multicast_group_id: 6, replicas, ..Default::default() };
    let replicas = vec![to_cpu(9)];
    let session = p4::CloneSessionEntry { session_id: 5, replicas, ..Default::default() };
    let both = [Replication::MulticastGroupEntry(group), Replication::CloneSessionEntry(session)];
    controller.write(both.map(replication).map(insert).to_vec()).unwrap();
    for (ether_type, instance, leaves) in [(0x3333, 0, 0), (0x1111, 4, 1), (0x2222, 9, 1)] {
        let packet = frame(A, B, ether_type);
        rig.wires[0].send(std::slice::from_ref(&packet));
        let found = controller.next_message().unwrap();
        let FromDevice::Packet(found) = found else { panic!("{found:?}") };
        let metadata: Vec<u8> = found.metadata.iter().map(|one| one.value[0]).collect();
        assert_eq!((&found.payload, metadata), (&packet, vec![1, instance]), "{ether_type:x}");
        assert_eq!(rig.wires[1].receive(leaves), vec![packet; leaves], "{ether_type:x}");
    }
    assert!(controller.message_within(Duration::from_millis(200)).is_none());
    rig.switch.end("TERM").expect(0, &[]);
}

/// Addresses of one controller: its number, and the number of the entry.
fn address(controller: u8, entry: u32) -> [u8; 6] {
    let [_, b, c, d] = entry.to_be_bytes();
    [2, controller, 0, b, c, d]
}

#[test]
fn a_backup_takes_over_and_only_the_primary_writes() {
    let Some(_network) = private_network("P4Runtime arbitration") else { return };
    let rig = rig(PROGRAM, &[]);
    let (mut old, standing) = Controller::connect(&rig.address, 5).unwrap();
    assert_eq!(standing, 0);
    let used = Controller::connect(&rig.address, 5).map(|_| ()).unwrap_err();
    assert_eq!(used.code(), Code::InvalidArgument);
    assert!(used.message().contains("election id 5 is used"), "{used:?}");
    let (mut backup, standing) = Controller::connect(&rig.address, 3).unwrap();
    assert_eq!(standing, Code::AlreadyExists as i32);
    let entry = Message::TableEntry(forward(&backup, A, 2));
    let denied = backup.write(vec![insert(entry.clone())]).unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let (mut new, standing) = Controller::connect(&rig.address, 9).unwrap();
    assert_eq!(standing, 0);
    let FromDevice::Arbitration(arbitration) = old.next_message().unwrap() else {
        panic!("no notification")
    };
    assert_eq!(arbitration.status.map(|status| status.code), Some(Code::AlreadyExists as i32));
    assert_eq!(old.write(vec![insert(entry.clone())]).unwrap_err().code(), Code::PermissionDenied);
    new.write(vec![insert(entry)]).unwrap();
    let started = Instant::now();
    drop(new);
    let FromDevice::Arbitration(arbitration) = old.next_message().unwrap() else {
        panic!("no notification")
    };
    let FromDevice::Arbitration(_) = backup.next_message().unwrap() else {
        panic!("no notification")
    };
    let status = arbitration.status.unwrap();
    assert_ne!(status.code, 0, "5 is below 9");
    assert!(status.message.contains("the highest election id so far is 9"), "{status:?}");
    // A stream keeps its device.
    let (device_id, election_id) = (2, Some(p4::Uint128 { high: 0, low: 3 }));
    let moved = p4::MasterArbitrationUpdate { device_id, election_id, ..Default::default() };
    backup.send(ToDevice::Arbitration(moved));
    // Behind what it has received meanwhile.
    let refused = std::iter::from_fn(|| Some(backup.next_message())).find_map(Result::err);
    assert_eq!(refused.map(|status| status.code()), Some(Code::FailedPrecondition));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_backup_takes_over_at_once_and_no_write_is_lost_or_done_twice() {
    let Some(_network) = private_network("P4Runtime takeover") else { return };
    let rig = rig(PROGRAM, &[]);
    let address_of = rig.address.clone();
    let mut worst = Duration::ZERO;
    let (mut done, mut denied) = (Vec::new(), 0);
    let mut backup = Controller::connect(&address_of, 1).unwrap().0;
    let mut election = 1;
    for round in 0..8u8 {
        let (mut primary, standing) = Controller::connect(&address_of, election + 1).unwrap();
        assert_eq!(standing, 0);
        let FromDevice::Arbitration(_) = backup.next_message().unwrap() else { panic!() };
        let requests = (0..200).map(|n| {
            let entry = Message::TableEntry(forward(&primary, address(round, n), 2));
            primary.write_request(vec![insert(entry)])
        });
        let requests: Vec<p4::WriteRequest> = requests.collect();
        // It writes in a thread of its own, and dies when it has: some rounds are cut off by the next primary.
        let is_cut = round % 2 == 1;
        let writer = std::thread::spawn(move || {
            let results = requests.into_iter().map(|request| primary.request(request));
            let results: Vec<bool> = results.map(|result| result.is_ok()).collect();
            (results, primary)
        });
        if !is_cut {
            let (results, primary) = writer.join().unwrap();
            assert!(results.iter().all(|done| *done), "nobody else is primary");
            done.extend((0..200).map(|n| address(round, n)));
            let died = Instant::now();
            drop(primary);
            let FromDevice::Arbitration(update) = backup.next_message().unwrap() else { panic!() };
            assert_eq!(update.status.map(|status| status.code), Some(Code::NotFound as i32));
            worst = worst.max(takes_over(&mut backup, election + 2, died));
        } else {
            std::thread::sleep(Duration::from_millis(10));
            takes_over(&mut backup, election + 2, Instant::now());
            let (results, _) = writer.join().unwrap();
            let good = (0..200).zip(results).filter(|(_, done)| *done);
            let good: Vec<_> = good.map(|(n, _)| address(round, n)).collect();
            denied += 200 - good.len();
            done.extend(good);
        }
        let own = address(100 + round, 0);
        backup.write(vec![insert(Message::TableEntry(forward(&backup, own, 1)))]).unwrap();
        done.push(own);
        election += 2;
    }
    assert!(worst < Duration::from_millis(100), "a takeover took {worst:?}");
    assert!(denied > 0, "no old primary was cut off while it wrote");
    let table = p4::TableEntry { table_id: backup.id("fdb"), ..Default::default() };
    let found = backup.read(vec![Message::TableEntry(table)]).unwrap();
    let key = |message: &Message| match message {
        Message::TableEntry(entry) => match &entry.r#match[0].field_match_type {
            Some(p4::field_match::FieldMatchType::Exact(exact)) => exact.value.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let mut found: Vec<Vec<u8>> = found.iter().map(key).collect();
    let mut done: Vec<Vec<u8>> = done.iter().map(|key| key.to_vec()).collect();
    found.sort();
    done.sort();
    assert_eq!(found, done, "what was acknowledged is there, and nothing else");
    rig.switch.end("TERM").expect(0, &[]);
}

/// A backup claims to be primary; how long after `died` it is.
fn takes_over(backup: &mut Controller, election: u64, died: Instant) -> Duration {
    backup.claim(election);
    loop {
        if let FromDevice::Arbitration(update) = backup.next_message().unwrap()
            && update.status.is_none()
        {
            return died.elapsed();
        }
    }
}

const THREE: &str = "
pipeline: three
include: [ethernet]
parser: { start: { extract: ethernet } }
actions: { forward: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  ways:
    key: { std.ingress_port: exact, ethernet.src: selector }
    actions: [forward]
    default: forward(1)
    size: 16
    selector: { hash: crc16, members: 64, groups: 16 }
ingress:
  - if: ethernet.ether_type == 0x1111
    then: [ std.multicast_group = 6 ]
    else: [ apply: ways ]
deparser: { emit: [ethernet] }
";

/// What comes out of each wire for eight packets of as many senders.
fn spread(wires: &mut [Wire], ether_type: u16) -> Vec<usize> {
    let packets: Vec<Vec<u8>> = (0..8).map(|n| frame(A, [2, 0, 0, 0, 1, n], ether_type)).collect();
    wires[0].send(&packets);
    wires[1..].iter_mut().map(|wire| wire.receive(8).len()).collect()
}

#[test]
fn members_and_copies_follow_the_links_that_they_watch() {
    let Some(_network) = private_network("P4Runtime watched links") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("three.yaml");
    std::fs::write(&program, THREE).unwrap();
    veth("c0", "c1");
    let rig = rig(program.to_str().unwrap(), &["--port", "3=raw:c1"]);
    let [a, b] = rig.wires;
    let mut wires = [a, b, Wire::open("raw:c0")];
    let (mut controller, _) = Controller::connect(&rig.address, 1).unwrap();
    let profile = controller.id("ways.profile");
    let watches =
        |port: u8| Some(p4::action_profile_group::member::WatchKind::WatchPort(vec![port]));
    let member = |id: u32, port: u8| {
        insert(Message::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: profile,
            member_id: id,
            action: Some(controller.action("forward", &[&[port]])),
        }))
    };
    let in_group = |member_id: u32, port: u8| p4::action_profile_group::Member {
        member_id,
        weight: 1,
        watch_kind: watches(port),
    };
    let group = Message::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 1,
        members: vec![in_group(2, 2), in_group(3, 3)],
        max_size: 0,
    });
    let mut way = controller.exact("ways", &[1], controller.action("forward", &[&[1]]));
    let kind = p4::table_action::Type::ActionProfileGroupId(1);
    way.action = Some(p4::TableAction { r#type: Some(kind) });
    let backup = p4::BackupReplica { port: vec![3], instance: 0 };
    let copy = p4::Replica { backup_replicas: vec![backup], ..replica(2, 0) };
    let multicast = replication(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
        multicast_group_id: 6,
        replicas: vec![copy],
        metadata: Vec::new(),
    }));
    controller
        .write(vec![
            member(2, 2),
            member(3, 3),
            insert(group.clone()),
            insert(Message::TableEntry(way)),
            insert(multicast.clone()),
        ])
        .unwrap();
    let both = spread(&mut wires, 0x1234);
    assert!(both[0] > 0 && both[1] > 0 && both[0] + both[1] == 8, "{both:?}");
    assert_eq!(spread(&mut wires, 0x1111), [8, 0]);
    let mut read = || {
        let groups = Message::ActionProfileGroup(p4::ActionProfileGroup::default());
        let all = p4::PacketReplicationEngineEntry::default();
        controller.read(vec![groups, Message::PacketReplicationEngineEntry(all)]).unwrap()
    };
    for (state, expected, copies) in [("down", [0, 8], [0, 8]), ("up", [0, 0], [8, 0])] {
        ip(&format!("link set b1 {state}"));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let found = spread(&mut wires, 0x1234);
            let follows = match state {
                "down" => found == expected,
                _ => found == both,
            };
            if follows && spread(&mut wires, 0x1111) == copies {
                break;
            }
            assert!(Instant::now() < deadline, "{state}: {found:?}");
        }
        assert_eq!(read(), [group.clone(), multicast.clone()], "as it was written, whatever is up");
    }
    // A port that is removed, and one that is added again after it was down.
    let command = |words: &[&str]| _ = rig.switch.command(words).expect(0, &[]);
    command(&["port", "remove", "2"]);
    assert_eq!(spread(&mut wires, 0x1234), [0, 8]);
    assert_eq!(spread(&mut wires, 0x1111), [0, 8]);
    command(&["port", "add", "2", "raw:b1"]);
    command(&["port", "down", "3"]);
    command(&["port", "remove", "3"]);
    command(&["port", "add", "3", "raw:c1"]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while spread(&mut wires, 0x1234) != both || spread(&mut wires, 0x1111) != [8, 0] {
        assert!(Instant::now() < deadline, "the groups do not follow ports that were added");
    }
    rig.switch.end("TERM").expect(0, &[]);
}

/// What P4Runtime has no field for stays when a group is written as it was read: that copies do not go back.
#[test]
fn a_pruned_group_stays_pruned_when_a_controller_modifies_it() {
    let Some(_network) = private_network("P4Runtime: pruned groups") else { return };
    let mut rig = rig("programs/l2_switch", &[]);
    let mut controller = rig.primary();
    let group = p4::MulticastGroupEntry { multicast_group_id: 10, ..Default::default() };
    let found = read_one(&mut controller, replication(Replication::MulticastGroupEntry(group)));
    let broadcast = frame([0xff; 6], A, 0x1234);
    let mut floods = || {
        rig.wires[0].send(std::slice::from_ref(&broadcast));
        let there = rig.wires[1].receive(1).len();
        (there, rig.wires[0].receive_unexpected().len())
    };
    assert_eq!(floods(), (1, 0));
    controller.write(vec![update(Modify, found.unwrap())]).unwrap();
    assert_eq!(floods(), (1, 0), "it does not go back");
    rig.switch.end("TERM").expect(0, &[]);
}

/// A group of all ports has no replicas when it is read; written so, it has all ports still, and with replicas these.
#[test]
fn a_group_of_all_ports_stays_one_while_no_replicas_are_given() {
    let Some(_network) = private_network("P4Runtime: groups of all ports") else { return };
    let rig = rig("programs/rocev2_lossless", &[]);
    let mut controller = rig.primary();
    let group = |replicas| p4::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas,
        ..Default::default()
    };
    let ports = || rig.switch.objects(&["multicast", "dump"]);
    let all = ports();
    let found =
        read_one(&mut controller, replication(Replication::MulticastGroupEntry(group(vec![]))));
    controller.write(vec![update(Modify, found.unwrap())]).unwrap();
    assert_eq!(ports(), all);
    let one = replication(Replication::MulticastGroupEntry(group(vec![replica(2, 0)])));
    controller.write(vec![update(Modify, one)]).unwrap();
    assert_ne!(ports(), all);
    rig.switch.end("TERM").expect(0, &[]);
}
