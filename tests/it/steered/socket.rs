//! The socket of a running switch: its name, its mode, its end, and clients that behave badly.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use wireyard_tests::binary;
use wireyard_tests::live::Switch;

use super::{A, B, PROGRAM, frame, rig};
use crate::rig::{private_network, veth};

#[test]
fn a_switch_is_found_by_its_socket_which_goes_with_it() {
    let Some(_network) = private_network("control sockets") else { return };
    let rig = rig(PROGRAM, &[]);
    let path = rig.switch.run_folder().join("controlled.sock");
    assert!(rig.switch.err().contains(&format!("; control: {}", path.display())));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // A variable without a value selects none.
    let mut command = std::process::Command::new(binary::wireyard());
    command.args(["table", "list"]).env("WIREYARD_SWITCH", "");
    let ended = command.env("WIREYARD_RUN_DIR", rig.switch.run_folder()).output().unwrap();
    binary::Ended::of(&ended).expect(0, &[]);
    // A second one in the same folder has another name; then one has to be named.
    veth("c0", "c1");
    let folder = rig.switch.run_folder().to_str().unwrap().to_owned();
    let second = format!("{folder}/second.sock");
    let other = Switch::on(PROGRAM, &["1=raw:c1"], &["--control", &second, "--control-group", "0"]);
    assert_eq!(fs::metadata(&second).unwrap().mode() & 0o777, 0o660);
    rig.refuses("table list", "several switches run: name one with --switch: controlled, second");
    rig.does("table add fdb ethernet.dst=1 forward 1 --switch second");
    rig.does(&format!("table modify fdb ethernet.dst=1 forward 1 --switch {second}"));
    assert_eq!(rig.switch.objects(&["table", "dump", "fdb", "--switch", "controlled"]).len(), 0);
    let here = binary::run_in(folder.as_ref(), &["table", "list", "--switch", "second.sock"]);
    here.expect(2, &["write --switch ./second.sock"]);
    other.end("TERM").expect(0, &[]);
    assert!(!fs::exists(&second).unwrap());
    // One that was killed leaves a file, which is no switch and is replaced.
    rig.switch.signal("KILL");
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while UnixStream::connect(&path).is_ok() && std::time::Instant::now() < deadline {}
    assert!(path.exists());
    rig.refuses("table list", "start one with `wireyard run");
    let path = path.to_str().unwrap();
    let next = Switch::on(PROGRAM, &["1=raw:c1"], &["--control", path]);
    rig.does("table list");
    next.end("INT").expect(0, &[]);
    assert!(!fs::exists(path).unwrap());
}

#[test]
fn a_socket_that_cannot_be_is_an_error_and_none_is_none() {
    let Some(_network) = private_network("no control socket") else { return };
    veth("c0", "c1");
    let run = |control: &str| {
        let port = ["--port", "1=raw:c1", "--duration", "0.2"];
        let run = ["run", PROGRAM, "--control", control];
        binary::run(&[&run[..], &port].concat())
    };
    run("/nowhere/at/all.sock").expect(2, &["--control /nowhere/at/all.sock"]);
    run("/dev/null").expect(2, &["no socket"]);
    let none = run("none");
    none.expect(0, &[" runs on "]);
    assert!(!none.err.contains("control:"), "{}", none.err);
}

/// Clients that send rubbish, say nothing, or read nothing: packets go on, and so do others.
#[test]
fn clients_that_behave_badly_delay_nobody() {
    let Some(_network) = private_network("bad clients") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table default fdb forward 2");
    let path = rig.switch.run_folder().join("controlled.sock");
    let mut held = Vec::new();
    for n in 0..200u32 {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        // Rubbish; the preface of HTTP/2 and then rubbish; nothing.
        let _ = match n % 3 {
            0 => stream.write_all(&n.to_le_bytes().repeat(500)),
            1 => stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff"),
            _ => Ok(()),
        };
        let _ = stream.read(&mut [0; 64]);
        held.push(stream);
    }
    let packet = frame(A, B);
    for _ in 0..20 {
        assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    }
    assert_eq!(rig.switch.objects(&["port", "list"]).len(), 2);
    drop(held);
    rig.switch.end("TERM").expect(0, &[]);
}

/// A command does not wait for ever for a process that is stopped.
#[test]
fn a_switch_that_is_stopped_ends_a_command() {
    let Some(_network) = private_network("a stopped switch") else { return };
    let rig = rig(PROGRAM, &[]);
    rig.switch.signal("STOP");
    let began = Instant::now();
    let ended = rig.switch.command(&["stats"]);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    ended.expect(2, &["the switch has not answered for 20 s"]);
    rig.switch.signal("CONT");
    rig.does("stats");
    rig.switch.end("TERM").expect(0, &[]);
}
