//! A router's program is replaced: what the kernel knows is in the tables of the new one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use wireyard_switch::control::{
    Changes, Control, Entity, Journal, Keep, KeptUnits, PortPlace, Query, Record, TableEntry,
};
use wireyard_switch::linux::{self, Options};
use wireyard_switch::management::{restore, save};
use wireyard_switch::p4runtime::persist::settings::Settings;
use wireyard_switch::ports::{LinkType, PortNumber, memory};
use wireyard_switch::program::{DeviceOptions, Loaded, Place, load};
use wireyard_tables::Match;
use wireyard_tables::time::Time;
use wireyard_tests::workspace_root;

use super::rig::{Namespace, eventually};
use super::{PROGRAM, network};

/// The router, with other text in its program.
fn program(change: impl Fn(String) -> String) -> Loaded {
    let path = workspace_root().join(PROGRAM).join("program.yaml");
    let text = change(std::fs::read_to_string(path).expect("the program"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program.yaml");
    std::fs::write(&program, text).expect("a file");
    let loaded = load(&Place { program, ..Place::default() });
    loaded.unwrap_or_else(|rejected| panic!("{rejected}"))
}

/// The entries of the tables that the kernel fills, and the next hops.
fn contents(control: &Control) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for table in ["interfaces", "addresses4", "addresses6", "routes4", "routes6", "next_hops"] {
        let id = control.table(table).expect("a table");
        for query in [
            Query::Entries { table: Some(id) },
            Query::Members { table: Some(id), id: None },
            Query::Groups { table: Some(id), id: None },
        ] {
            for entity in control.read(&query).unwrap_or_default() {
                // What is counted beside an entry is not compared.
                all.insert(match entity {
                    Entity::TableEntry(entry) => {
                        format!("{table} {:?} {:?}", entry.key.matches, entry.target)
                    }
                    other => format!("{table} {other:?}"),
                });
            }
        }
    }
    all
}

/// What would be stored from now on.
fn journal(control: &Control) -> Receiver<Changes> {
    let (sender, units) = channel();
    let kept = Arc::<KeptUnits>::default();
    kept.up_to(u64::MAX);
    let record: Record =
        Box::new(|_, update, changes| changes.push((format!("{update:?}").into_bytes(), None)));
    assert!(control.keep(Journal::new(record, sender, kept)));
    units
}

#[test]
fn another_program_has_what_the_kernel_knows() {
    let Some(_network) = network("linux_swap") else { return };
    let kernel = Namespace::new();
    let first = program(|text| text);
    let mut core = first.device(DeviceOptions::small()).expect("a device");
    let (near, _far) = memory::pair(core.memory(), ("1", "far1"), LinkType::Ethernet, 16);
    core.add_port(PortNumber(1), Box::new(near)).expect("a port");
    let control = Control::of(&core).expect("a handle").clone();
    let stop = Arc::<AtomicBool>::default();
    let (stopped, began) = (Arc::clone(&stop), Instant::now());
    let worker = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            core.poll(Time::from_ns(began.elapsed().as_nanos() as u64 + 1), None);
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    let mac = [2, 0, 0, 0, 1, 1];
    let port = PortPlace { number: PortNumber(1), mac, mtu_bytes: None, up: true, worker: 0 };
    let options = Options {
        namespace: Some(kernel.path.clone()),
        names: Default::default(),
        traffic_class: 6,
        ports: vec![port],
    };
    // Of a run before: the kernel does not have it.
    let old = ["192.0.77.0".parse::<Ipv4Addr>().expect("an address")].map(u32::from);
    let matches = vec![Match::Lpm { value: old[0].into(), prefix_len: 24 }];
    let via = control.call("via", &[7]).expect("an action");
    let routes = control.table("routes4").expect("a table");
    control.insert(TableEntry::new(routes, matches, via)).expect("room");
    let units = journal(&control);
    let handle = linux::start(control.clone(), options, Box::new(|_| {})).expect("it starts");
    assert!(!contents(&control).iter().any(|one| one.contains(&old[0].to_string())));
    kernel.ip("addr add 10.0.1.1/24 dev swp1");
    kernel.ip("addr add fd00:1::1/64 dev swp1 nodad");
    for n in 2..6 {
        let mac = format!("02:00:00:00:00:{n:02}");
        kernel.ip(&format!("neigh replace 10.0.1.{n} lladdr {mac} dev swp1 nud permanent"));
        kernel.ip(&format!("route add 192.0.{n}.0/24 via 10.0.1.{n}"));
    }
    kernel.ip("route add 198.51.100.0/24 nexthop via 10.0.1.2 nexthop via 10.0.1.3");
    kernel.ip("-6 route add 2001:db8::/32 via fd00:1::2");
    eventually("all is written", || handle.report().routes4 == 10 && handle.report().routes6 == 2);
    let before = contents(&control);
    assert!(before.len() > 20, "{before:?}");
    let stored: Vec<Changes> = units.try_iter().collect();
    assert!(
        stored.len() == 1 && stored[0].changes.len() == 1,
        "what goes at the start: {stored:?}"
    );
    // Files have no part in it.
    let lines = save::lines(&control, &Settings::default(), &|entity| entity).expect("a state");
    let text = lines.join("\n");
    assert!(!text.contains("routes4") && !text.contains("next_hops"), "{text}");
    let route = "{ match: { ipv4.dst: 10.77.0.0/16 }, action: via(1) }";
    for file in [text, format!("entries: {{ routes4: [ {route} ] }}")] {
        restore::restore(&control, &file, "saved.yaml").expect("it is restored");
        assert_eq!(contents(&control), before);
    }
    // The same, another table of another size, and nothing kept.
    let larger = program(|text| text.replace("size: 1048576", "size: 524288"));
    for (keep, next) in [
        (Keep::WhatFits, program(|text| text)),
        (Keep::WhatFits, larger),
        (Keep::Nothing, program(|text| text)),
    ] {
        control.swap(&next, keep).expect("a swap");
        eventually("all is there again", || contents(&control) == before);
        assert_eq!(handle.report().writes_refused, 0, "{keep:?}");
        // It goes on from there.
        kernel.ip("route add 203.0.113.0/24 via 10.0.1.2");
        eventually("a new route", || contents(&control).len() == before.len() + 1);
        kernel.ip("route del 203.0.113.0/24");
        eventually("it goes", || contents(&control) == before);
    }
    // With another mapping it is as after a start, also where tables are kept.
    let other = program(|text| text.replace("kernel: to_kernel", "kernel: no_route"));
    control.swap(&other, Keep::Nothing).expect("a swap");
    eventually("all is there", || contents(&control).len() == before.len());
    let fresh = contents(&control);
    control.swap(&program(|text| text), Keep::WhatFits).expect("a swap");
    eventually("the first mapping is in force", || {
        let now = contents(&control);
        now.len() == fresh.len() && now != fresh
    });
    control.swap(&other, Keep::WhatFits).expect("a swap");
    eventually("the other one is in force", || contents(&control) == fresh);
    drop(handle);
    assert!(!kernel.ip("-o link").contains("swp1"), "the interface goes with the handle");
    stop.store(true, Ordering::Relaxed);
    worker.join().expect("the worker");
}
