//! A device with a store, ended and started again: what is back, and in which order.

mod cells;
mod sets;

use std::path::Path;
use std::time::Duration;

use wireyard_pipeline::ids::CounterId;
use wireyard_tables::Match;
use wireyard_tables::counter::Count;

use super::*;
use crate::control::{Entity, EntryKey, Keep, Mode, Query, TableEntry, Target, Update};
use crate::core::Core;
use crate::p4runtime::device::Device;
use crate::p4runtime::pack;
use crate::p4runtime::pipeline::exchange;
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::translate::{action, entry};
use crate::p4runtime::write;
use crate::program::{DeviceOptions, from_text};

const PROGRAM: &str = "
pipeline: stored
include: [ethernet]
parser: { start: { extract: ethernet } }
counters: { same: 8, resized: 8 }
actions: { forward: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  learned: { key: { ethernet.src: exact }, actions: [forward, drop], default: drop, size: 8 }
  ranked: { key: { ethernet.dst: ternary }, actions: [forward, drop], default: drop, size: 8 }
ingress: [ { apply: learned }, { apply: ranked }, 'count(same, 1)', 'count(resized, 1)' ]
deparser: { emit: [ethernet] }
";
const COUNT: Count = Count { packets: 5, bytes: 6 };

/// A running device, with complaints of its start.
struct Running {
    core: Core,
    device: Device,
    complaints: Vec<String>,
}

fn start(text: &str, folder: &Path) -> Running {
    start_as("stored.yaml", text, folder)
}

fn start_as(name: &str, text: &str, folder: &Path) -> Running {
    start_loaded(from_text(name, text).unwrap_or_else(|rejected| panic!("{rejected}")), folder)
}

/// A program with an entries file.
fn filled(text: &str, entries: &str) -> Loaded {
    let loaded = from_text("stored.yaml", text).unwrap_or_else(|rejected| panic!("{rejected}"));
    let filled = loaded.with_entries("entries.yaml", entries);
    filled.unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn start_loaded(loaded: Loaded, folder: &Path) -> Running {
    let core = loaded.device(DeviceOptions::small()).unwrap();
    let control = Control::of(&core).unwrap().clone();
    // The thread of a device that has ended may have the store a little longer.
    let mut begun = begin(folder, &control, &loaded, |_| {});
    for _ in 0..500 {
        if !matches!(begun, Err(BeginError::InUse(_))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        begun = begin(folder, &control, &loaded, |_| {});
    }
    let begun = begun.unwrap();
    let complaints = begun.complaints.clone();
    Running { device: Device::new(1, control, &loaded.parsed, begun), core, complaints }
}

impl Running {
    fn entry(&self, table: &str, matched: Match, priority: u32) -> Entity {
        let call = self.device.control.call("forward", &[2]).unwrap();
        let table = self.device.control.table(table).unwrap();
        let mut entry = TableEntry::new(table, vec![matched], call);
        entry.key.priority = priority;
        Entity::TableEntry(entry)
    }

    fn write(&self, updates: &[Update]) {
        self.device.control.write(updates, Mode::Atomic).unwrap();
    }

    fn keys(&self, table: &str) -> Vec<EntryKey> {
        let table = self.device.control.table(table).unwrap();
        let found = self.device.control.read(&Query::Entries { table: Some(table) }).unwrap();
        let key = |entity| match entity {
            Entity::TableEntry(entry) => entry.key,
            other => panic!("{other:?}"),
        };
        found.into_iter().map(key).collect()
    }

    /// The actions of the entries.
    fn actions(&self, table: &str) -> Vec<String> {
        let table = self.device.control.table(table).unwrap();
        let found = self.device.control.read(&Query::Entries { table: Some(table) }).unwrap();
        let program = self.device.control.program();
        let action = |entity| match entity {
            Entity::TableEntry(TableEntry { target: Target::Action(call), .. }) => {
                program.actions[call.action].name.clone()
            }
            other => panic!("{other:?}"),
        };
        found.into_iter().map(action).collect()
    }

    fn counter(&self, name: &str) -> CounterId {
        self.device.control.counter(name).unwrap()
    }

    fn count(&self, name: &str) -> Count {
        let query = Query::Counters { counter: Some(self.counter(name)), index: Some(4) };
        match &self.device.control.read(&query).unwrap()[..] {
            [Entity::Counter { count, .. }] => *count,
            other => panic!("{other:?}"),
        }
    }

    fn set_counts(&self) {
        let set = |name| {
            let counter = self.counter(name);
            Update::Modify(Entity::Counter { counter, index: 4, count: COUNT })
        };
        self.write(&[set("same"), set("resized")]);
    }

    fn swap(&self, text: &str, keep: Keep) {
        let loaded = from_text("next.yaml", text).unwrap_or_else(|rejected| panic!("{rejected}"));
        self.swap_to(&loaded, keep).unwrap();
    }

    fn swap_to(&self, loaded: &Loaded, keep: Keep) -> Result<(), ControlError> {
        let swap = self.device.control.prepare(loaded, keep).unwrap();
        let schema = Arc::new(Schema::of(loaded.program.clone()));
        let blob = pack::pack(&loaded.parsed);
        let pipeline = Pipeline { schema, blob, cookie: 0, is_absent: false };
        exchange(&self.device, swap, Arc::new(pipeline), keep)
    }
}

fn masked(value: u128, mask: u128) -> Match {
    Match::Ternary { value, mask }
}

#[test]
fn cells_outlive_a_changed_program_and_objects_that_do_not_fit_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(PROGRAM, folder.path());
    running.set_counts();
    let entries = [1, 2].map(|n| running.entry("learned", Match::Exact(n), 0));
    running.write(&entries.map(Update::Insert));
    drop(running);
    let smaller = PROGRAM.replace(
        "exact }, actions: [forward, drop], default: drop, size: 8",
        "exact }, actions: [forward, drop], default: drop, size: 1",
    );
    assert_ne!(smaller, PROGRAM);
    let running = start(&smaller, folder.path());
    assert_eq!(running.complaints.len(), 1, "one entry does not fit: {:?}", running.complaints);
    drop(running);
    let running = start(&smaller, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(running.keys("learned").len(), 1);
    assert_eq!([running.count("same"), running.count("resized")], [COUNT; 2]);
}

#[test]
fn a_swap_stores_what_it_keeps_and_nothing_that_packets_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(PROGRAM, folder.path());
    running.set_counts();
    let (written, learned) = (Match::Exact(1), Match::Exact(2));
    running.write(&[Update::Insert(running.entry("learned", written, 0))]);
    let learn = Update::Insert(running.entry("learned", learned, 0));
    running.device.control.unstored().write_of(None, &[learn], Mode::Atomic).unwrap();
    running.swap(&PROGRAM.replace("resized: 8", "resized: 16"), Keep::WhatFits);
    assert_eq!(running.keys("learned").len(), 2);
    assert_eq!([running.count("same"), running.count("resized")], [COUNT, Count::default()]);
    drop(running);
    let running = start(PROGRAM, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    let keys = running.keys("learned");
    assert!(keys.len() == 1 && keys[0].matches == [written], "{keys:?}");
    assert_eq!([running.count("same"), running.count("resized")], [COUNT, Count::default()]);
    // A program that begins anew.
    running.swap(PROGRAM, Keep::Nothing);
    drop(running);
    let running = start(PROGRAM, folder.path());
    assert!(running.keys("learned").is_empty());
    assert_eq!([running.count("same"), running.count("resized")], [Count::default(); 2]);
}

#[test]
fn an_entry_that_one_batch_deletes_and_inserts_is_the_youngest() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(PROGRAM, folder.path());
    let [first, second] = [masked(0, 0xff00_0000), masked(1, 0xffff)]
        .map(|matched| running.entry("ranked", matched, 10));
    running.write(&[Update::Insert(first.clone()), Update::Insert(second)]);
    running.write(&[Update::Delete(first.clone()), Update::Insert(first)]);
    let keys = running.keys("ranked");
    assert_eq!(keys[1].matches, [masked(0, 0xff00_0000)]);
    drop(running);
    assert_eq!(start(PROGRAM, folder.path()).keys("ranked"), keys);
}

#[test]
fn a_swap_that_changes_ids_stores_what_it_keeps_by_the_new_ones() {
    let actions = "back: { params: { port: port }, do: [ std.egress_port = port ] }, forward:";
    let program = PROGRAM
        .replace("actions: { forward:", &format!("actions: {{ {actions}"))
        .replace("actions: [forward", "actions: [back, forward");
    let with = |ids: &str| format!("{program}ids: {{ {ids} }}\n");
    let folder = tempfile::tempdir().unwrap();
    let running = start(&with("forward: 0x11, back: 0x22, same: 0x33"), folder.path());
    running.set_counts();
    running.write(&[Update::Insert(running.entry("learned", Match::Exact(1), 0))]);
    running.swap(&with("forward: 0x22, back: 0x11, same: 0x44"), Keep::WhatFits);
    assert_eq!(
        (running.actions("learned"), running.count("same")),
        (vec!["forward".into()], COUNT)
    );
    drop(running);
    let running = start(&with("forward: 0x11, back: 0x22, same: 0x33"), folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(
        (running.actions("learned"), running.count("same")),
        (vec!["forward".into()], COUNT)
    );
}

/// Two match fields whose ids do not follow their order.
const TWO_KEYS: &str = "
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> typ; }
struct headers { eth_t eth; }
struct meta_t { }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
  state start { p.extract(h.eth); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
  action send(bit<9> port) { s.egress_spec = port; }
  table t { key = { KEYS } actions = { send; } }
  apply { t.apply(); }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.eth); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// A plain value, a full mask and what the device reads back are one key, with one record.
#[test]
fn a_key_in_another_form_is_the_same_record() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(PROGRAM, folder.path());
    let full = masked(5, (1 << 48) - 1);
    let plain = |matched, action: &str| {
        let Entity::TableEntry(mut entry) = running.entry("ranked", matched, 1) else { panic!() };
        if action == "drop" {
            entry.target = Target::Action(running.device.control.call("drop", &[]).unwrap());
        }
        Entity::TableEntry(entry)
    };
    let inserted = [Match::Exact(5), Match::Exact(6), Match::Exact(7)];
    running.write(&inserted.map(|one| Update::Insert(plain(one, "forward"))));
    running.write(&[Update::Modify(plain(full, "drop"))]);
    running.write(&[Update::Delete(plain(masked(6, (1 << 48) - 1), "forward"))]);
    running.write(&[Update::Delete(plain(Match::Exact(7), "forward"))]);
    drop(running);
    let running = start(PROGRAM, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(
        running.keys("ranked").iter().map(|key| &key.matches[0]).collect::<Vec<_>>(),
        [&full]
    );
    assert_eq!(running.actions("ranked"), ["drop"]);
}

#[test]
fn an_entry_of_a_program_that_orders_its_key_otherwise_stays_deleted() {
    let (dst, src) = ("h.eth.dst : exact @id(1);", "h.eth.src : exact @id(2);");
    let folder = tempfile::tempdir().unwrap();
    let entry = |running: &Running, matches: [u128; 2]| {
        let call = running.device.control.call("send", &[2]).unwrap();
        let table = running.device.control.table("t").unwrap();
        Entity::TableEntry(TableEntry::new(table, matches.map(Match::Exact).to_vec(), call))
    };
    let text = TWO_KEYS.replace("KEYS", &[dst, src].concat());
    let running = start_as("stored.p4", &text, folder.path());
    running.write(&[[1, 2], [3, 4]].map(|key| Update::Insert(entry(&running, key))));
    drop(running);
    let text = TWO_KEYS.replace("KEYS", &[src, dst].concat());
    let running = start_as("stored.p4", &text, folder.path());
    running.write(&[Update::Delete(entry(&running, [2, 1]))]);
    drop(running);
    let running = start_as("stored.p4", &text, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    let keys: Vec<_> = running.keys("t").into_iter().map(|key| key.matches).collect();
    assert_eq!(keys, [[4, 3].map(Match::Exact)]);
}

#[test]
fn metadata_go_with_the_entry_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(PROGRAM, folder.path());
    let key_of = |running: &Running, key: u128| {
        let Entity::TableEntry(found) = running.entry("learned", Match::Exact(key), 0) else {
            panic!()
        };
        entry::key_message(&running.device.pipeline().schema, &found.key)
    };
    let schema = Arc::clone(&running.device.pipeline().schema);
    let call = action::action(&schema, &running.device.control.call("forward", &[2]).unwrap());
    let action = Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(call)) });
    let insert = |key: u128| {
        let metadata = vec![key as u8];
        let message = p4::TableEntry { metadata, action: action.clone(), ..key_of(&running, key) };
        let entity = Some(p4::entity::Entity::TableEntry(message));
        let r#type = p4::update::Type::Insert as i32;
        p4::Update { r#type, entity: Some(p4::Entity { entity }) }
    };
    let updates = [insert(1), insert(2)];
    let (ticket, done) = write::write(&running.device, &schema, &updates, Mode::Atomic);
    assert!(done.is_ok(), "{done:?}");
    ticket.wait().unwrap();
    drop(running);
    let metadata = |running: &Running| {
        [1, 2].map(|key| running.device.kept().of_entry(&key_of(running, key)).len())
    };
    let smaller = PROGRAM.replace(
        "exact }, actions: [forward, drop], default: drop, size: 8",
        "exact }, actions: [forward, drop], default: drop, size: 1",
    );
    let running = start(&smaller, folder.path());
    assert_eq!(running.complaints.len(), 1, "one entry does not fit: {:?}", running.complaints);
    assert_eq!(metadata(&running), [1, 0]);
    drop(running);
    assert_eq!(metadata(&start(PROGRAM, folder.path())), [1, 0]);
}

#[test]
fn a_defect_of_the_store_is_an_error() {
    let (kept, counts) = (KeptUnits::default(), StorageCounts::default());
    assert!(unless_it_fails(|| Ok(()), &kept, &counts).is_ok());
    assert_eq!((kept.failure(), counts.report().errors), (None, 0));
    let failed = unless_it_fails(|| panic!("a panic of this test"), &kept, &counts);
    assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    assert!(kept.failure().is_some() && counts.report().errors == 1);
}

#[test]
fn a_store_without_bytes_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "").unwrap();
    let running = start(PROGRAM, folder.path());
    let [empty] = &running.complaints[..] else { panic!("{:?}", running.complaints) };
    assert!(empty.contains("state.redb has no bytes"), "{empty}");
    drop(running);
}

/// They are removed from the store.
#[test]
fn records_that_do_not_fit_are_named_up_to_a_limit() {
    let lost = |count| vec![(Vec::new(), "no such table".to_owned()); count];
    assert_eq!(restore::complaints(&lost(100)).count(), 100);
    let last = restore::complaints(&lost(103)).last().unwrap();
    assert_eq!(last, "--state: 3 more are not kept");
}
