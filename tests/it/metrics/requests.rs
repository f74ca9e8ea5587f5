//! Requests that the page refuses, and addresses at which there is none.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use serde_json::Value;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;

use super::{PROGRAM, address, request};
use crate::queues;
use crate::rig::{Wire, ip, private_network, veth};

/// Requests that would exhaust a server: the switch forwards, answers others, and takes neither threads nor memory for them.
#[test]
fn no_request_harms_the_switch() {
    let Some(_network) = private_network("no_request_harms_the_switch") else { return };
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let mut switch =
        Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &["--metrics", "127.0.0.1:0", "--json"]);
    let address = address(&mut switch);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    let status = |name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", switch.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let (threads, kilobytes) = (status("Threads:"), status("VmRSS:"));
    let get = "GET /metrics HTTP/1.1\r\n";
    let attacks = [
        format!("{get}Content-Length: 99999999999\r\n\r\n"),
        format!("{get}Content-Length: 5\r\n\r\n"),
        format!("{get}X: half"),
        String::new(),
    ];
    let mut held = Vec::new();
    for n in 0..600 {
        let mut stream = TcpStream::connect(&address).expect("somebody listens");
        let _ = stream.write_all(attacks[n % attacks.len()].as_bytes());
        held.push(stream);
        if n % 100 == 0 {
            let frames: Vec<_> =
                (0..50).map(|m| queues::frame(1, 2, 0, 0, n as u32 + m, 100)).collect();
            host1.send(&frames);
            assert!(host2.receive(frames.len()) == frames, "{n} connections");
            assert_eq!(request(&address, "GET", "/metrics").0, 200, "{n} connections");
        }
    }
    assert_eq!(request(&address, "GET", "/metrics").0, 200);
    // Those that compile end meanwhile.
    assert!(status("Threads:") <= threads, "{} threads", status("Threads:"));
    assert!(status("VmRSS:") < kilobytes + 65536, "{} KB, {kilobytes} before", status("VmRSS:"));
    drop(held);
    let ended = switch.end("TERM");
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    assert_eq!(report["total"]["balanced"], true);
    assert_eq!(report["total"]["received"], 301);
}

/// Other paths and methods are refused, and the switch goes on.
#[test]
fn nothing_else_is_served() {
    let Some(_network) = private_network("nothing_else_is_served") else { return };
    ip("link set lo up");
    veth("sw1", "host1");
    let mut switch = Switch::start(&[PROGRAM, "--port", "1=raw:sw1", "--metrics", "127.0.0.1:0"]);
    let address = address(&mut switch);
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/metrics/../etc", 404),
        ("POST", "/metrics", 405),
        ("HEAD", "/metrics", 200),
        ("DELETE", "/metrics", 405),
        ("GET", "/metrics?x=1", 200),
        ("GET", "/metrics", 200),
    ] {
        assert_eq!(request(&address, method, path).0, status, "{method} {path}");
    }
    // One that connects and says nothing is in nobody's way.
    let silent = TcpStream::connect(&address).unwrap();
    assert_eq!(request(&address, "GET", "/metrics").0, 200);
    drop(silent);
    switch.end("TERM").expect(0, &[]);
}

/// An address that others could reach, one that is no address and one that is taken end it before it starts.
#[test]
fn a_bad_address_starts_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (address, why) in [
        ("0.0.0.0:9101", "0.0.0.0 is no loopback address"),
        ("[::]:9101", "no loopback address"),
        ("9101", "write an IP address and a port, as 127.0.0.1:9101"),
        ("127.0.0.1:99999", "write an IP address and a port, as 127.0.0.1:PORT"),
        ("localhost:0", "as 127.0.0.1:0: names are not looked up"),
        (taken.as_str(), "in use"),
    ] {
        // The port does not exist: nothing was opened when the address was refused.
        let arguments = ["run", PROGRAM, "--port", "1=raw:no-such-port", "--metrics", address];
        let ended = run(&arguments);
        ended.expect(2, &[why]);
        assert!(!ended.err.contains("no-such-port: no such interface"), "{}", ended.err);
    }
}
