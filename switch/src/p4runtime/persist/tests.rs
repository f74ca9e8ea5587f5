//! A device with a store, ended and started again: what is back, and in which order.

use std::path::Path;
use std::time::Duration;

use wireyard_pipeline::ids::CounterId;
use wireyard_tables::Match;
use wireyard_tables::counter::Count;

use super::*;
use crate::control::{Entity, EntryKey, Keep, Mode, Query, TableEntry, Update};
use crate::core::Core;
use crate::p4runtime::device::Device;
use crate::p4runtime::pack;
use crate::p4runtime::pipeline::exchange;
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
    _core: Core,
    device: Device,
    complaints: Vec<String>,
}

fn start(text: &str, folder: &Path) -> Running {
    let loaded = from_text("stored.yaml", text).unwrap_or_else(|rejected| panic!("{rejected}"));
    let core = loaded.device(DeviceOptions::small()).unwrap();
    let control = core.control().unwrap().clone();
    // The thread of a device that has ended may have the store a little longer.
    let mut begun = begin(folder, &control, &loaded.parsed, |_| {});
    for _ in 0..500 {
        if !matches!(begun, Err(BeginError::InUse(_))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        begun = begin(folder, &control, &loaded.parsed, |_| {});
    }
    let begun = begun.unwrap();
    let complaints = begun.complaints.clone();
    Running { device: Device::new(1, control, &loaded.parsed, begun), _core: core, complaints }
}

impl Running {
    fn entry(&self, table: &str, matched: Match, priority: u32) -> Entity {
        let call = self.device.control.call("forward", &[2]).unwrap();
        let table = self.device.control.table(table).unwrap();
        let entry = TableEntry::new(table, vec![matched], call).with_priority(priority);
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
        let swap = self.device.control.prepare(&loaded, keep).unwrap();
        let schema = Arc::new(Schema::of(loaded.program.clone()));
        let blob = pack::pack(&loaded.parsed);
        let pipeline = Pipeline { schema, blob, cookie: 0, is_absent: false };
        exchange(&self.device, swap, Arc::new(pipeline), keep).unwrap();
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
