//! Ports whose line in the file changes: other options, another kind, another number; and what must not disturb a switch.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wireyard_switch::ports::sys::bpf::{SocketMap, XdpMode, attach};
use wireyard_switch::ports::sys::interface::look_up;
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip};

use super::{PROGRAM, Rig, SOON, TWO, exchange, report, three};
use crate::queues;
use crate::rig::{Wire, ip};

fn hosts() -> (Wire, Wire) {
    (Wire::open("raw:host1"), Wire::open("raw:host2"))
}

/// A switch that runs on the ports of its file, and its hosts.
fn started(rig: &Rig) -> (Switch, Wire, Wire) {
    let mut switch = rig.start(&[]);
    switch.await_text(" runs on ", SOON);
    let (host1, host2) = hosts();
    (switch, host1, host2)
}

/// Port 1 on sw1 and these others.
fn ports(others: &[(u16, &str)]) -> String {
    let others = others.iter().map(|(n, spec)| format!(", {n}: {{ interface: '{spec}' }}"));
    format!("ports: {{ 1: {{ interface: 'raw:sw1' }}{} }}\n", others.collect::<String>())
}

/// Has the switch read its file once more, and waits until it says this; what it said since comes back.
#[track_caller]
fn reload(switch: &mut Switch, rig: &Rig, text: &str, awaited: &str) -> String {
    rig.write(text);
    let before = switch.err().len();
    switch.signal("HUP");
    let deadline = Instant::now() + SOON;
    loop {
        let said = switch.err().split_off(before);
        if said.contains(awaited) {
            return said;
        }
        assert!(Instant::now() < deadline, "no `{awaited}` in {said}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same interface with other options, and with another kind of port.
#[test]
fn a_port_has_other_options() {
    let Some(rig) = Rig::new("a_port_has_other_options") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    let capture = rig.folder.path().join("sw2.pcapng").display().to_string();
    let captured = format!("xdp:sw2,capture={capture}");
    let (mut sent, specs) =
        (0, ["raw:sw2,delay=1ms", "xdp:sw2", &captured, "pnet:sw2", "sw2", "raw:sw2"]);
    for spec in specs {
        let name = spec.split(',').next().unwrap();
        reload(&mut switch, &rig, &ports(&[(2, spec)]), &format!("port 2 ({name}) was added"));
        host2.send(&[queues::frame(2, 1, 0, 0, sent, 100)]);
        assert_eq!(host1.receive(1).len(), 1, "{spec} is heard");
        exchange(&mut host1, &mut host2, sent);
        sent += 50;
    }
    let report = report(switch);
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
    assert!(report.get("removed").is_none(), "{report:#}");
}

/// A port that a command took out is added again by the file, and is no obstacle to what the file says of others.
#[test]
fn a_port_that_was_removed_by_command_comes_back() {
    let Some(rig) = Rig::new("a_port_that_was_removed_by_command_comes_back") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    exchange(&mut host1, &mut host2, 0);
    switch.command(&["port", "remove", "2"]).expect(0, &[]);
    reload(&mut switch, &rig, TWO, "port 2 (raw:sw2) was added");
    exchange(&mut host1, &mut host2, 50);
    switch.command(&["port", "remove", "2"]).expect(0, &[]);
    // A capture that the file names waits for its port, and goes on with it.
    let recorded = format!("raw:sw3,capture={}", rig.folder.path().join("3.pcapng").display());
    let three = ports(&[(3, recorded.as_str())]);
    let state = |switch: &Switch| {
        let mut all = switch.objects(&["capture", "list"]);
        (all.len(), all.remove(0)["state"].clone())
    };
    let said = reload(&mut switch, &rig, &three, "port 3 (raw:sw3) was added");
    assert!(!said.contains("error"), "{said}");
    switch.command(&["port", "remove", "3"]).expect(0, &[]);
    assert_eq!(state(&switch), (1, "waiting".into()));
    reload(&mut switch, &rig, &three, "port 3 (raw:sw3) was added");
    assert_eq!(state(&switch), (1, "recording".into()));
    switch.end("INT").expect(0, &[]);
}

/// The file is compared with the ports that are open, which `port add` may have put in their place.
#[test]
fn a_port_that_a_command_replaced_is_compared_as_it_is() {
    let Some(rig) = Rig::new("a_port_that_a_command_replaced_is_compared_as_it_is") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    let replace = |switch: &Switch, spec: &str| {
        switch.command(&["port", "remove", "2"]).expect(0, &[]);
        switch.command(&["port", "add", "2", spec]).expect(0, &[]);
    };
    replace(&switch, "raw:sw3");
    let report = reload(&mut switch, &rig, TWO, "port 2 (raw:sw2) was added");
    assert!(report.contains("port 2 (raw:sw3) was removed"), "{report}");
    exchange(&mut host1, &mut host2, 0);
    replace(&switch, "raw:sw2");
    reload(&mut switch, &rig, TWO, "no port changed");
    // A port of a command becomes one of the file that names it.
    switch.command(&["port", "add", "3", "raw:sw3"]).expect(0, &[]);
    reload(&mut switch, &rig, TWO, "no port changed");
    reload(&mut switch, &rig, &three("raw"), "no port changed");
    reload(&mut switch, &rig, TWO, "port 3 (raw:sw3) was removed");
    switch.end("INT").expect(0, &[]);
}

/// Two ports change their interfaces in one file, and their kinds too.
#[test]
fn two_ports_are_swapped() {
    let Some(rig) = Rig::new("two_ports_are_swapped") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    let swapped = "ports: { 1: { interface: 'KIND:sw2' }, 2: { interface: 'KIND:sw1' } }\n";
    let kinds = [
        ("raw", swapped.replace("KIND", "raw")),
        ("xdp", swapped.replace("KIND", "xdp")),
        ("raw", TWO.to_owned()),
    ];
    for (n, (kind, text)) in (0..).zip(&kinds) {
        reload(&mut switch, &rig, text, "port 2 (");
        switch.await_text(&format!("port 2 ({kind}:"), SOON);
        // The addresses are learned again at their new ports.
        host1.send(&[queues::frame(1, 9, 0, 0, n, 100)]);
        host2.send(&[queues::frame(2, 9, 0, 0, n, 100)]);
        assert_eq!((host1.receive(1).len(), host2.receive(1).len()), (1, 1), "{text}");
        exchange(&mut host1, &mut host2, 100 * (n + 1));
    }
    let report = report(switch);
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
    assert_eq!(report["ports"][1]["name"], "raw:sw2", "{report:#}");
}

/// A TAP is made once: with another cable or number it is the same device, with its addresses.
#[test]
fn a_tap_stays_what_it_is() {
    let Some(rig) = Rig::new("a_tap_stays_what_it_is") else { return };
    rig.write(&ports(&[(2, "raw:sw2"), (3, "tap:tap3")]));
    let mut switch = rig.start(&[]);
    switch.await_text(" runs on ", SOON);
    let index = look_up("tap3").unwrap().index;
    for (n, number, spec) in [(1, 3, "tap:tap3,loss=1%"), (2, 3, "tap:tap3"), (3, 4, "tap:tap3")] {
        let text = ports(&[(2, "raw:sw2"), (number, spec)]);
        reload(&mut switch, &rig, &text, &format!("port {number} (tap:tap3) was added"));
        assert_eq!(look_up("tap3").unwrap().index, index, "{spec}");
        let mut host3 = Wire::open("raw:tap3");
        let mut host1 = Wire::open("raw:host1");
        host3.send(&[queues::frame(3, 9, 0, 0, n, 100)]);
        if !spec.contains("loss") {
            assert_eq!(host1.receive(1), [queues::frame(3, 9, 0, 0, n, 100)], "{spec}");
        }
    }
    // Its MTU is set when it is made.
    let text = ports(&[(2, "raw:sw2"), (4, "tap:tap3,mtu=2000")]);
    reload(&mut switch, &rig, &text, "port 4 (tap:tap3) was added");
    assert_eq!(look_up("tap3").unwrap().mtu_bytes, 2000);
    assert_eq!(report(switch)["total"]["balanced"], true);
}

/// What cannot be opened in the place of a port that was closed for it: that port comes back.
#[test]
fn a_port_that_cannot_be_exchanged_comes_back() {
    let Some(rig) = Rig::new("a_port_that_cannot_be_exchanged_comes_back") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    let map = SocketMap::new(1).unwrap();
    let _theirs = attach(&map, look_up("sw3").unwrap().index, XdpMode::Native, true).unwrap();
    // Port 3 is refused because of a program of others, after port 2 was closed and opened as another kind.
    let wanted = ports(&[(2, "pnet:sw2"), (3, "raw:sw3")]);
    reload(&mut switch, &rig, &wanted, "port 3 (raw:sw3) was added");
    let wanted = ports(&[(2, "raw:sw2"), (3, "xdp:sw3")]);
    let said = reload(&mut switch, &rig, &wanted, "no port was changed");
    assert!(said.contains("port 3: xdp:sw3: attach the XDP program"), "{said}");
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    exchange(&mut host1, &mut host2, 0);
    let report = report(switch);
    assert_eq!(report["ports"][1]["name"], "pnet:sw2", "{report:#}");
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
}

/// What never ends or never comes is not read.
#[test]
fn a_file_that_is_none_stops_nothing() {
    let Some(rig) = Rig::new("a_file_that_is_none_stops_nothing") else { return };
    let (mut switch, mut host1, mut host2) = started(&rig);
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    for (n, how) in (0..).zip(["fifo", "zero"]) {
        std::fs::remove_file(rig.file()).unwrap();
        match how {
            "fifo" => {
                let made = Command::new("mkfifo").arg(rig.file()).status();
                assert!(made.is_ok_and(|status| status.success()));
            }
            _ => symlink("/dev/zero", rig.file()).unwrap(),
        }
        let before = switch.err().len();
        switch.signal("HUP");
        let deadline = Instant::now() + SOON;
        while !switch.err()[before..].contains("it is no regular file; no port was changed") {
            assert!(Instant::now() < deadline, "{how}: {}", switch.err());
            std::thread::sleep(Duration::from_millis(10));
        }
        exchange(&mut host1, &mut host2, 50 * n);
    }
    std::fs::remove_file(rig.file()).unwrap();
    reload(&mut switch, &rig, TWO, "no port changed");
    report(switch);
    let fifo = rig.folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    let arguments = ["run", PROGRAM, "--ports", fifo.to_str().unwrap()];
    wireyard_tests::binary::run(&arguments).expect(2, &["it is no regular file"]);
}

/// Without a file there is nothing to read again; the switch goes on.
#[test]
fn a_hangup_without_a_file_is_answered() {
    let Some(_rig) = Rig::new("a_hangup_without_a_file_is_answered") else { return };
    let mut switch = Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &["--json"]);
    let (mut host1, mut host2) = hosts();
    switch.signal("HUP");
    switch.await_text("no --ports FILE to read again: nothing changed", SOON);
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    exchange(&mut host1, &mut host2, 0);
    assert_eq!(report(switch)["total"]["received"], 51);
}

/// A process that can open nothing more still knows its interfaces.
#[test]
fn a_healthy_port_is_never_gone() {
    let test = "a_healthy_port_is_never_gone";
    if !has_tool("prlimit") {
        return skip(test, "there is no `prlimit` (Debian package util-linux)");
    }
    let Some(rig) = Rig::new(test) else { return };
    rig.write(&ports(&[(2, "xdp:sw2")]));
    let (mut switch, mut host1, mut host2) = started(&rig);
    let pid = switch.pid().to_string();
    let has = |fd: &u32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok();
    let free = (0..).find(|fd| !has(fd)).unwrap();
    let limit = format!("--nofile={free}:{free}");
    let limit = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(limit.is_ok_and(|status| status.success()));
    // Links are looked at five times a second, `xdp:` ten times.
    std::thread::sleep(Duration::from_millis(700));
    assert!(!switch.err().contains("no such interface"), "{}", switch.err());
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    exchange(&mut host1, &mut host2, 0);
    // What is wrong with a link is still seen, and that it is over.
    ip("link set sw2 down");
    switch.await_text("sw2: the interface is down", SOON);
    ip("link set sw2 up");
    let deadline = Instant::now() + SOON;
    loop {
        host1.send(&[queues::frame(1, 2, 0, 0, 7, 100)]);
        if !host2.receive(1).is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{}", switch.err());
    }
    // A reload needs descriptors, and says so.
    let text = ports(&[(2, "xdp:sw2"), (3, "raw:sw3")]);
    let said = reload(&mut switch, &rig, &text, "no port was changed");
    assert!(said.contains("Too many open files"), "{said}");
    assert_eq!(report(switch)["total"]["balanced"], true);
}

/// Other ports forward while the kernel closes and opens sockets: the longest gap of most reloads is shorter than that takes.
#[test]
fn a_reload_holds_nobody_up() {
    let Some(rig) = Rig::new("a_reload_holds_nobody_up") else { return };
    let (switch, mut host1, mut host2) = started(&rig);
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                host1.send(&[queues::frame(1, 2, 0, 0, n, 100)]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut gaps = Vec::new();
        for n in 0..10 {
            let text =
                if n % 2 == 0 { ports(&[(2, "raw:sw2"), (3, "raw:sw3")]) } else { TWO.to_owned() };
            let word = if n % 2 == 0 {
                "port 3 (raw:sw3) was added"
            } else {
                "port 3 (raw:sw3) was removed"
            };
            let before = switch.err().matches(word).count();
            rig.write(&text);
            switch.signal("HUP");
            let (mut last, mut gap, mut done) = (Instant::now(), Duration::ZERO, None);
            // A little longer than the reload itself: sockets are closed behind it.
            while done.is_none_or(|done: Instant| done.elapsed() < Duration::from_millis(300)) {
                if host2.take() > 0 {
                    gap = gap.max(last.elapsed());
                    last = Instant::now();
                }
                if done.is_none() && switch.err().matches(word).count() > before {
                    done = Some(Instant::now());
                }
                assert!(last.elapsed() < SOON, "{}", switch.err());
            }
            gaps.push(gap);
        }
        end.store(true, Ordering::Relaxed);
        gaps.sort();
        eprintln!("longest gaps: {gaps:?}");
        assert!(gaps[gaps.len() / 2] < Duration::from_millis(60), "{gaps:?}");
    });
    report(switch);
}

/// An interface that ends and is there again under the same name and number before anybody has looked: its port hears and speaks again.
#[test]
fn an_interface_that_was_made_again_is_noticed() {
    for kind in ["raw", "xdp"] {
        let Some(rig) = Rig::new(&format!("an_interface_that_was_made_again_is_noticed {kind}"))
        else {
            return;
        };
        rig.write(&ports(&[(2, &format!("{kind}:sw2"))]));
        let (switch, mut host1, mut host2) = started(&rig);
        host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
        assert_eq!(host1.receive(1).len(), 1);
        exchange(&mut host1, &mut host2, 0);
        drop(host2);
        let index = look_up("sw2").unwrap().index;
        let again = rig.folder.path().join("again");
        let made =
            format!("link add sw2 index {index} mtu 1500 type veth peer name host2 mtu 1500");
        let text = format!("link del sw2\n{made}\nlink set sw2 up\nlink set host2 up\n");
        std::fs::write(&again, text).unwrap();
        ip(&format!("-batch {}", again.display()));
        assert_eq!(look_up("sw2").unwrap().index, index, "the same number");
        let mut host2 = Wire::open("raw:host2");
        let deadline = Instant::now() + SOON;
        loop {
            host2.send(&[queues::frame(2, 1, 0, 0, 1, 100)]);
            if host1.receive(1).len() == 1 {
                break;
            }
            assert!(Instant::now() < deadline, "{kind}: port 2 is deaf: {}", switch.err());
        }
        exchange(&mut host1, &mut host2, 100);
        let report = report(switch);
        assert_eq!(report["total"]["balanced"], true, "{report:#}");
    }
}

/// What was set for a port at run time stays in force with other options of the port, and goes with the port.
#[test]
fn settings_go_with_their_port() {
    let Some(rig) = Rig::new("settings_go_with_their_port") else { return };
    let config = rig.folder.path().join("switch.yaml");
    let rates = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }\nqos: { preset: sonic_azure }\n";
    std::fs::write(&config, rates).unwrap();
    let state = rig.folder.path().join("state").display().to_string();
    let more = ["--config", config.to_str().unwrap(), "--state", &state];
    let mut switch = rig.start(&more);
    switch.await_text(" runs on ", SOON);
    let list = |switch: &Switch, port: &str| switch.objects(&["queue", "list", port]);
    let (untouched, one) = (list(&switch, "2"), list(&switch, "1"));
    let set = |switch: &Switch| {
        for words in ["queue set 2 4 kmin=10KB kmax=20KB", "queue set 2 port rate=100Mbit/s"] {
            switch.command(&words.split(' ').collect::<Vec<_>>()).expect(0, &[]);
        }
        list(switch, "2")
    };
    let made = set(&switch);
    assert_ne!(made, untouched);
    reload(&mut switch, &rig, &ports(&[(2, "raw:sw2,delay=1ms")]), "port 2 (raw:sw2) was added");
    assert_eq!(list(&switch, "2"), made, "another cable of the same port");
    let saved = |switch: &Switch| switch.command(&["save"]).out;
    assert!(saved(&switch).contains("port: 2"), "{}", saved(&switch));
    // By the file, and by a command.
    reload(&mut switch, &rig, &ports(&[]), "port 2 (raw:sw2) was removed");
    assert!(!saved(&switch).contains("port: 2"), "{}", saved(&switch));
    reload(&mut switch, &rig, TWO, "port 2 (raw:sw2) was added");
    assert_eq!(list(&switch, "2"), untouched, "a new port of the same number");
    assert_eq!(set(&switch), made);
    switch.command(&["queue", "set", "1", "port", "rate=200Mbit/s"]).expect(0, &[]);
    switch.command(&["port", "remove", "2"]).expect(0, &[]);
    switch.end("KILL");
    let mut switch = rig.start(&more);
    switch.await_text("1 setting of queues and ports is back", SOON);
    assert_eq!(list(&switch, "2"), untouched, "the store has nothing of it");
    assert_ne!(list(&switch, "1"), one, "the other port has what was set");
    switch.end("TERM").expect(0, &[]);
}
