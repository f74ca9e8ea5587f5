//! Cells, default actions and settings of an entries file, and arrays that a swap begins anew.

use super::*;

/// A program with arrays that an entries file can fill.
fn with_arrays() -> String {
    let arrays = "meters: { rates: { size: 4 } }\nregisters: { seen: { struct: { a: 32 }, size: 4 } }\ncounters:";
    PROGRAM.replace("counters:", arrays)
}

/// Contents of the objects that `FILE` sets: the default action, a meter, a counter, a register.
fn contents(running: &Running) -> (String, bool, Count, u64) {
    let control = &running.device.control;
    let table = control.table("learned").unwrap();
    let default = control.read(&Query::DefaultActions { table: Some(table) }).unwrap().remove(0);
    let Entity::DefaultAction { action: Some(action), .. } = default else { panic!() };
    let name = control.program().actions[action.action].name.clone();
    let meter = control.read(&Query::Meters { meter: None, index: None }).unwrap().remove(0);
    let mut seen = 0;
    control.cells_at_rest(&mut |cell| {
        if let Entity::Register { index: 3, cells, .. } = cell {
            seen = cells[0];
        }
    });
    (name, !meter.is_blank(), running.count("same"), seen)
}

const FILE: &str = "
defaults: { learned: forward(7) }
meters: { rates: { 0: { cir: 1000B/s, cbs: 100B, pir: 2000B/s, pbs: 200B } } }
counters: { same: { 4: { packets: 5, bytes: 6 } } }
registers: { seen: { 3: { a: 7 } } }
settings: [ { port: 2, set: [shut=true] } ]
";

#[test]
fn what_was_reset_of_an_entries_file_stays_reset() {
    let folder = tempfile::tempdir().unwrap();
    let program = with_arrays();
    let start = |file: &str| start_loaded(filled(&program, file), folder.path());
    let all = ("forward".to_owned(), true, COUNT, 7);
    let running = start(FILE);
    assert_eq!((contents(&running), running.device.settings().all().len()), (all.clone(), 1));
    drop(running);
    // The file is not read any more.
    let running = start("entries: {}");
    assert_eq!((contents(&running), running.device.settings().all().len()), (all, 1));
    let control = &running.device.control;
    let (table, counter) = (control.table("learned").unwrap(), running.counter("same"));
    let meter = control.program().meters.ids().next().unwrap();
    running.write(&[
        Update::Modify(Entity::DefaultAction { table, action: None }),
        Update::Modify(Entity::Meter { meter, index: 0, config: None }),
        Update::Modify(Entity::Counter { counter, index: 4, count: Count::default() }),
    ]);
    let mut unit = control.unit().unwrap();
    unit.note(running.device.settings().set(PortNumber(2), None, &["shut=".to_owned()]));
    unit.end().wait().unwrap();
    drop(running);
    let running = start(FILE);
    assert_eq!(running.complaints, [""; 0]);
    let none = ("drop".to_owned(), false, Count::default(), 7);
    assert_eq!((contents(&running), running.device.settings().all().len()), (none, 0));
    // A store of a version that had no cells of the file: they are there once more, and from then on in the store. The
    // counter that was set to 0 has a record of that.
    let mut unit = running.device.control.unit().unwrap();
    unit.note((record::whole().0, None));
    unit.end().wait().unwrap();
    drop(running);
    drop(start(FILE));
    let running = start("entries: {}");
    assert_eq!(contents(&running), ("drop".to_owned(), true, Count::default(), 7));
}

#[test]
fn a_swap_stores_the_cells_of_its_entries_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = with_arrays();
    let file = FILE.split("settings").next().unwrap();
    let all = ("forward".to_owned(), true, COUNT, 7);
    let running = start(&program, folder.path());
    running.swap_to(&filled(&program, file), Keep::Nothing).unwrap();
    assert_eq!(contents(&running), all);
    drop(running);
    let running = start(&program, folder.path());
    assert_eq!(contents(&running), all);
    // What is kept is not that of the file.
    let other = program.replace("same: 8", "same: 16");
    let file = file.replace("a: 7", "a: 8").replace("bytes: 6", "bytes: 60");
    running.swap_to(&filled(&other, &file), Keep::WhatFits).unwrap();
    let (_, _, count, seen) = contents(&running);
    assert_eq!((count.bytes, seen), (60, 7));
    drop(running);
    let running = start(&program, folder.path());
    let (_, _, count, seen) = contents(&running);
    assert_eq!((count.bytes, seen), (60, 7));
}

/// What is stored is of the program before.
#[test]
fn after_a_swap_that_cannot_be_stored_writes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let with = |id: &str| format!("{}ids: {{ seen: {id} }}\n", with_arrays());
    let running = start(&with("0x11"), folder.path());
    let next =
        from_text("next.yaml", &with("0x22")).unwrap_or_else(|rejected| panic!("{rejected}"));
    // No worker is polled, which would read the register that has another id.
    let refused = running.swap_to(&next, Keep::WhatFits).unwrap_err();
    assert!(matches!(refused, ControlError::Unavailable(_)), "{refused}");
    let insert = Update::Insert(running.entry("learned", Match::Exact(1), 0));
    let refused = running.device.control.write(&[insert], Mode::Atomic).unwrap_err().results;
    assert!(matches!(refused[..], [Err(ControlError::Unavailable(_))]), "{refused:?}");
    assert!(running.keys("learned").is_empty());
}
