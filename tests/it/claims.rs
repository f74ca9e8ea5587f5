//! One switch has an interface, of the kind that was asked for: the next one gets an error, and no port becomes another kind.
//!
//! On veth pairs in private namespaces; needs root and skips loudly otherwise.

use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use wireyard_switch::ports::sys::bpf::{SocketMap, XdpMode, attach};
use wireyard_switch::ports::sys::interface::look_up;
use wireyard_switch::ports::{LinkState, PortError};
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip, workspace_root};

use crate::rig::{Wire, frame, ip, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const SOON: Duration = Duration::from_secs(10);

fn cables() {
    veth("sw1", "host1");
    veth("sw2", "host2");
}

/// Whatever kind the second one asks for; and after the first one was killed, at once.
#[test]
fn an_interface_has_one_switch() {
    let Some(_network) = private_network("an_interface_has_one_switch") else { return };
    cables();
    for kind in ["raw", "xdp"] {
        let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
        let switch = Switch::on(PROGRAM, &[&one, &two], &[]);
        let process =
            format!("sw1 is the port of another switch or host, process {}", switch.pid());
        for second in ["raw:sw1", "pnet:sw1", "xdp:sw1", "sw1"] {
            let ended = run(&["run", PROGRAM, "--port", &format!("1={second}")]);
            ended.expect(2, &[&format!("{second}: the interface is taken: {process}")]);
            assert!(!ended.err.contains(" runs on "), "{}", ended.err);
        }
        let ended = run(&["host", "--port", "raw:sw1", "--ip", "10.0.0.1"]);
        ended.expect(2, &[&process]);
        let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
        host1.send(&[frame(&[], 60)]);
        assert_eq!(host2.receive(2), [frame(&[], 60)], "once");
        // The drop kills it.
        drop(switch);
        Switch::on(PROGRAM, &[&one, &two], &[]).end("INT").expect(0, &[]);
    }
}

/// The same index in another namespace is another interface.
#[test]
fn namespaces_are_apart() {
    let test = "namespaces_are_apart";
    let Some(_outer) = private_network(test) else { return };
    cables();
    let index = look_up("sw1").unwrap().index;
    let _first = Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &[]);
    let Some(_inner) = private_network(test) else { return };
    cables();
    assert_eq!(look_up("sw1").unwrap().index, index);
    Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &[]).end("INT").expect(0, &[]);
}

/// A kind that was named is had or refused, with what helps; a bare name takes another, and says so in its line.
#[test]
fn a_named_kind_is_never_another() {
    let Some(_network) = private_network("a_named_kind_is_never_another") else { return };
    cables();
    let map = SocketMap::new(1).unwrap();
    let theirs = attach(&map, look_up("sw1").unwrap().index, XdpMode::Native, true).unwrap();
    let ended = run(&["run", PROGRAM, "--port", "1=xdp:sw1", "--port", "2=raw:sw2"]);
    ended.expect(2, &["xdp:sw1", "another XDP program is attached: ip link set dev sw1 xdp off"]);
    assert!(!ended.err.contains(" runs on "), "{}", ended.err);
    let switch = Switch::on(PROGRAM, &["1=sw1", "2=sw2"], &[]);
    assert!(switch.err().contains("using raw:sw1 instead"), "{}", switch.err());
    assert!(switch.err().contains(" runs on 1=raw:sw1 2=xdp:sw2 "), "{}", switch.err());
    switch.end("INT").expect(0, &[]);
    drop(theirs);
    let switch = Switch::on(PROGRAM, &["1=xdp:sw1", "2=sw2"], &[]);
    assert!(switch.err().contains(" runs on 1=xdp:sw1 2=xdp:sw2 "), "{}", switch.err());
    switch.end("INT").expect(0, &[]);
}

/// /dev/net/tun has a mode of its own, which no capability of the network opens: the message says that.
#[test]
fn a_tap_without_its_file_is_explained() {
    let test = "a_tap_without_its_file_is_explained";
    if !has_tool("setpriv") {
        return skip(test, "there is no `setpriv` (Debian package util-linux)");
    }
    let Some(_network) = private_network(test) else { return };
    cables();
    // A mount of this process alone, in which the file belongs to root only; the user has the capabilities and no more.
    let script = "mount -t tmpfs none /dev && mkdir -p /dev/net && mknod -m 600 /dev/net/tun c 10 200 && \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=+net_admin,+net_raw \
        --ambient-caps=+net_admin,+net_raw \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).arg(wireyard());
    command.args(["run", PROGRAM, "--port", "1=tap:tap9"]).current_dir(workspace_root());
    let ended = Ended::of(&command.output().expect("unshare runs"));
    if ended.err.contains("mknod") || ended.err.contains("Permission denied: programs") {
        return skip(test, "no device nodes, or no way to the binary for other users");
    }
    ended.expect(2, &["tap:tap9: open the TAP device", "chmod 666 /dev/net/tun"]);
}

/// A TAP that its user moves away is still at the other end of the port; only a deleted one is gone.
#[test]
fn a_tap_may_be_moved_and_renamed() {
    let test = "a_tap_may_be_moved_and_renamed";
    let Some(_network) = private_network(test) else { return };
    let mut port = Wire::open("tap:tap5");
    ip("link set tap5 down");
    ip("link set tap5 name other5");
    ip("link set other5 up");
    port.await_link_up();
    let (ready, is_ready) = channel();
    let (moved, is_moved) = channel::<()>();
    let (heard, is_heard) = channel::<()>();
    let there = std::thread::spawn(move || {
        let _inner = private_network(test).expect("as before");
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        ready.send(thread.file_name().unwrap().to_string_lossy().into_owned()).unwrap();
        is_moved.recv().unwrap();
        ip("link set other5 up");
        let mut host = Wire::open("raw:other5");
        host.send(&[frame(&[], 60)]);
        assert_eq!(host.receive(1), [frame(&[], 80)]);
        is_heard.recv().unwrap();
        ip("link del other5");
    });
    ip(&format!("link set other5 netns {}", is_ready.recv().unwrap()));
    let now = port.now();
    assert_eq!(port.port.link_state(now), LinkState::Down, "as every interface that was moved");
    assert!(port.poll().is_ok_and(|frames| frames.is_empty()), "nothing is wrong with it");
    moved.send(()).unwrap();
    port.await_link_up_quietly();
    assert_eq!(port.receive(1), [frame(&[], 60)]);
    port.send(&[frame(&[], 80)]);
    heard.send(()).unwrap();
    there.join().unwrap();
    let deadline = Instant::now() + SOON;
    let error = loop {
        match port.poll() {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline, "a deleted one is gone"),
        }
    };
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}
