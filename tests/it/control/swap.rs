//! Programs that are replaced while packets are inside.

use wireyard_switch::control::{ControlError, Entity, Fate, Keep, Query, TableEntry, Update};
use wireyard_tables::Match;
use wireyard_tables::counter::Count;

use super::rig::{Rig, loaded, program};

const SWAPS: u64 = 100;
/// Marks of the programs, in turn.
const MARKS: [u8; 3] = [1, 2, 3];

#[test]
fn a_hundred_replacements_lose_no_packet_and_mix_no_programs() {
    let mut rig = Rig::start(&program(MARKS[0], ""));
    let programs = MARKS.map(|mark| loaded(&program(mark, "")));
    rig.traffic.wait_for(500);
    for n in 1..=SWAPS {
        let report = rig.control.swap(&programs[n as usize % 3], Keep::WhatFits).unwrap();
        assert!(report.iter().all(|object| object.fate == Fate::Kept), "{report:?}");
        let ways = report.iter().find(|object| object.name == "ways");
        assert_eq!(ways.and_then(|ways| ways.entries), Some(2));
        rig.traffic.wait_for(200);
    }
    let sent = rig.stop_traffic();
    // The register was kept over all of them, and counted each frame once, in whichever program.
    assert_eq!(rig.seen(), sent);
    let marks = rig.traffic.marks();
    assert_eq!(marks.keys().copied().collect::<Vec<_>>(), MARKS);
    assert_eq!(marks.values().sum::<u64>(), sent);
    assert_eq!(rig.control.programs(), 1, "old programs are gone");
    eprintln!("{SWAPS} replacements, {sent} frames, by program: {marks:?}");
    rig.end();
}

#[test]
fn a_replacement_that_fails_or_is_dropped_changes_nothing() {
    let rig = Rig::start(&program(1, ""));
    rig.traffic.wait_for(200);
    let before = rig.contents();
    // A dry run of a program that has another table.
    let text = program(2, "").replace("size: 64", "size: 128");
    let swap = rig.control.prepare(&loaded(&text), Keep::WhatFits).unwrap();
    let fate = |name: &str| swap.report().iter().find(|o| o.name == name).unwrap().fate;
    assert_eq!(
        (fate("ways"), fate("seen"), fate("packets")),
        (Fate::Changed, Fate::Kept, Fate::Kept)
    );
    drop(swap);
    assert_eq!(rig.contents(), before);
    // One that was prepared for a program which is gone.
    let late = rig.control.prepare(&loaded(&program(2, "")), Keep::WhatFits).unwrap();
    rig.control.swap(&loaded(&program(3, "")), Keep::WhatFits).unwrap();
    let after = rig.contents();
    let error = late.commit().unwrap_err();
    assert!(matches!(error, ControlError::FailedPrecondition(_)), "{error}");
    assert_eq!(rig.contents(), after);
    rig.traffic.wait_for(200);
    rig.end();
}

/// A file says what an entry has counted; a table that is kept has counted more.
#[test]
fn what_entries_have_counted_is_of_the_file_or_of_the_table_that_is_kept() {
    const ENTRIES: &str = "
entries:
  ways:
    - { match: { std.ingress_port: 1 }, action: out(2) }
    - { match: { std.ingress_port: 2 }, action: out(1) }
    - { match: { std.ingress_port: 9 }, action: out(1), counter: { packets: 7, bytes: 700 } }
";
    let rig = Rig::start(&program(1, ""));
    let control = rig.control.clone();
    let next = loaded(&program(2, "")).with_entries("entries.yaml", ENTRIES).unwrap();
    let way = control.table("ways").unwrap();
    let key = TableEntry::new(way, vec![Match::Exact(9)], control.call("nop", &[]).unwrap()).key;
    let counted = || match &control.read(&Query::Entry(key.clone())).unwrap()[..] {
        [Entity::TableEntry(entry)] => entry.counter.unwrap(),
        other => panic!("{other:?}"),
    };
    control.swap(&next, Keep::Nothing).unwrap();
    assert_eq!(counted(), Count { packets: 7, bytes: 700 });
    let count = Count { packets: 20, bytes: 2000 };
    control.write_one(Update::Modify(Entity::DirectCounter { key: key.clone(), count })).unwrap();
    control.swap(&next, Keep::WhatFits).unwrap();
    assert_eq!(counted(), count);
    rig.end();
}
