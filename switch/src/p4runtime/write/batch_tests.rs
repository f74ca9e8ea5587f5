//! Atomic batches in which an update refers to what an earlier one makes, and those that are done in part.

use std::sync::Arc;

use super::tests::write_all;
use super::*;
use crate::control::{Query, Target};
use crate::core::Core;
use crate::p4runtime::persist::Begun;
use crate::p4runtime::translate::entry;
use crate::program::started;

const PROGRAM: &str = "
pipeline: batches
include: [ethernet]
parser:
  start: { extract: ethernet, next: accept }
registers:
  seen: { bits: 8, size: 4 }
tables:
  ways:
    key: { ethernet.dst: exact }
    actions: [out, nop]
    default: nop
    size: 4
    counters: true
actions:
  out: { params: { to: port }, do: [ std.egress_port = to ] }
ingress:
  - apply: ways
  - { update: 'seen[0]', as: n, do: [ n = n + 1 ] }
deparser: { emit: [ethernet] }
";

fn device() -> (Core, Device) {
    let (loaded, core, control) = started("ways.yaml", PROGRAM);
    let device = Device::new(1, control, &loaded.parsed, Begun::default());
    (core, device)
}

/// The only key that is used here.
fn key(device: &Device) -> EntryKey {
    let table = device.control.table("ways").unwrap();
    EntryKey { table, matches: vec![wireyard_tables::Match::Exact(7)], priority: 0 }
}

fn message(device: &Device, action: Option<&str>) -> p4::TableEntry {
    let schema = Arc::clone(&device.pipeline().schema);
    let mut message = entry::key_message(&schema, &key(device));
    message.action = action.map(|name| {
        let found = schema.info.actions.iter().filter_map(|action| action.preamble.as_ref());
        let action_id = found.clone().find(|found| found.name.ends_with(name)).unwrap().id;
        let params = match name {
            "out" => vec![p4::action::Param { param_id: 1, value: vec![2] }],
            _ => Vec::new(),
        };
        let action = p4::Action { action_id, params };
        p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) }
    });
    message
}

fn update(kind: Type, message: Message) -> p4::Update {
    p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity: Some(message) }) }
}

/// The number of the entry's action and its packets.
fn found(device: &Device) -> (usize, u64) {
    let found = device.control.read(&Query::Entry(key(device))).unwrap();
    let [Entity::TableEntry(entry)] = found.as_slice() else { panic!("{found:?}") };
    let Target::Action(call) = &entry.target else { panic!("{entry:?}") };
    (call.action.index(), entry.counter.unwrap().packets)
}

#[test]
fn an_update_without_an_action_keeps_that_of_an_earlier_update_of_its_batch() {
    let counted = |device: &Device, packets| {
        let mut message = message(device, None);
        message.counter_data = Some(p4::CounterData { packet_count: packets, byte_count: 0 });
        update(Type::Modify, Message::TableEntry(message))
    };
    let with = |device: &Device, kind, action| {
        update(kind, Message::TableEntry(message(device, Some(action))))
    };
    let unchanged = |device: &Device| {
        let entry = p4::DirectCounterEntry { table_entry: Some(message(device, None)), data: None };
        update(Type::Modify, Message::DirectCounterEntry(entry))
    };
    for mode in [Mode::Atomic, Mode::Continue] {
        let (_core, device) = device();
        let inserted =
            [with(&device, Type::Insert, "out"), counted(&device, 3), unchanged(&device)];
        assert_eq!(write_all(&device, &inserted, mode), [], "{mode:?}");
        let (out, packets) = found(&device);
        assert_eq!(packets, 3, "{mode:?}");
        let modified = [with(&device, Type::Modify, "nop"), counted(&device, 5)];
        assert_eq!(write_all(&device, &modified, mode), [], "{mode:?}");
        let (nop, packets) = found(&device);
        assert!(nop != out && packets == 5, "{mode:?}: {out}, then {nop}");
        let deleted = [update(Type::Delete, Message::TableEntry(message(&device, None)))];
        let results = write_all(&device, &[&deleted[..], &[counted(&device, 7)]].concat(), mode);
        assert!(matches!(results[1], Err(ControlError::NoEntry(_))), "{mode:?}: {results:?}");
        assert_eq!(device.control.read(&Query::Entry(key(&device))).is_ok(), mode == Mode::Atomic);
    }
}

/// Without a worker the registers of a batch are not written, and the rest is done and acknowledged.
#[test]
fn what_is_done_beside_registers_without_a_worker_is_acknowledged() {
    let (core, device) = device();
    drop(core);
    let schema = Arc::clone(&device.pipeline().schema);
    let register = p4::RegisterEntry {
        register_id: schema.info.registers[0].preamble.as_ref().unwrap().id,
        index: Some(p4::Index { index: 0 }),
        data: Some(p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(vec![1])) }),
    };
    let updates = [
        update(Type::Modify, Message::RegisterEntry(register)),
        update(Type::Insert, Message::TableEntry(message(&device, Some("out")))),
    ];
    let results = write_all(&device, &updates, Mode::Atomic);
    assert!(matches!(results[..], [Err(ControlError::Unavailable(_)), Ok(())]), "{results:?}");
    found(&device);
}
