//! Entries with action sets of their own that the device removed when they were idle.

use wireyard_tables::GroupMember;
use wireyard_tables::selector::FIRST_OWNED_ID;
use wireyard_tables::time::{Span, Time};

use super::*;
use crate::control::IdleNotice;

const SETS: &str = "
pipeline: sets
include: [ethernet]
parser: { start: { extract: ethernet } }
actions: { forward: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  spread:
    key: { ethernet.dst: exact, ethernet.src: selector }
    actions: [forward, drop]
    default: drop
    size: 8
    selector: { hash: crc16, members: 8, groups: 4 }
    idle_timeout_ms: 1000
    on_idle: remove
ingress: [ { apply: spread } ]
deparser: { emit: [ethernet] }
";

impl Running {
    /// An entry with an action set of one action: its member, its group, the entry.
    fn insert_set(&self, dst: u128, group: u32) {
        let control = &self.device.control;
        let (table, action) = (control.table("spread").unwrap(), control.call("forward", &[2]));
        let action = action.unwrap();
        let members = vec![GroupMember { member: group + 1, weight: 1 }];
        let mut entry = TableEntry::new(table, vec![Match::Exact(dst)], action.clone());
        (entry.target, entry.idle_timeout) = (Target::Group(group), Some(Span::from_ms(1000)));
        self.write(&[
            Update::Insert(Entity::Member { table, id: group + 1, action }),
            Update::Insert(Entity::Group { table, id: group, members }),
            Update::Insert(Entity::TableEntry(entry)),
        ]);
    }

    /// Removes the entries that are idle; returns the notices of them.
    fn age(&mut self) -> Vec<IdleNotice> {
        let program = self.device.control.program();
        let found = self.core.age(Time::ZERO + Span::from_ms(5000)).into_iter();
        found.map(|idle| IdleNotice { program: Arc::clone(&program), idle }).collect()
    }

    /// The destinations of the entries, and the groups that exist.
    fn sets(&self) -> (Vec<Match>, Vec<u32>) {
        let groups = self.device.control.read(&Query::Groups { table: None, id: None }).unwrap();
        let id = |group| match group {
            Entity::Group { id, .. } => id,
            other => panic!("{other:?}"),
        };
        let keys = self.keys("spread").into_iter().map(|key| key.matches[0]);
        (keys.collect(), groups.into_iter().map(id).collect())
    }
}

#[test]
fn an_idle_entry_that_was_removed_leaves_no_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(SETS, folder.path());
    running.insert_set(1, FIRST_OWNED_ID);
    running.insert_set(2, FIRST_OWNED_ID + 10);
    let schema = Arc::clone(&running.device.pipeline().schema);
    for notice in running.age() {
        running.device.removed_when_idle(&schema, notice.entry(), notice.released());
    }
    // Its numbers are used again.
    running.insert_set(3, FIRST_OWNED_ID);
    drop(running);
    let running = start(SETS, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(running.sets(), (vec![Match::Exact(3)], vec![FIRST_OWNED_ID]));
}

#[test]
fn of_two_entries_with_one_action_set_the_younger_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(SETS, folder.path());
    running.insert_set(1, FIRST_OWNED_ID);
    // The notice is lost.
    assert_eq!(running.age().len(), 1);
    running.insert_set(2, FIRST_OWNED_ID);
    drop(running);
    let running = start(SETS, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(running.sets(), (vec![Match::Exact(2)], vec![FIRST_OWNED_ID]));
    drop(running);
    let running = start(SETS, folder.path());
    assert_eq!(running.sets().0, [Match::Exact(2)]);
}

/// As switches before left them: groups of action sets keep others out of a profile.
#[test]
fn an_action_set_without_an_entry_is_removed_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(SETS, folder.path());
    running.insert_set(1, FIRST_OWNED_ID);
    let schema = Arc::clone(&running.device.pipeline().schema);
    let table = running.device.control.table("spread").unwrap();
    let entry = running.device.control.read(&Query::Entries { table: Some(table) }).unwrap();
    let deleted = record::deleted(&running.device.control, &schema, &entry[0]).unwrap();
    let mut unit = running.device.control.unit().unwrap();
    unit.note(deleted);
    unit.end().wait().unwrap();
    drop(running);
    let running = start(SETS, folder.path());
    assert_eq!(running.complaints, [""; 0]);
    assert_eq!(running.sets(), (vec![], vec![]));
    let action = running.device.control.call("forward", &[2]).unwrap();
    running.write(&[Update::Insert(Entity::Member { table, id: 1, action })]);
}
