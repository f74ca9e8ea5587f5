//! What `run` logs: JSON lines with fields, levels, and the texts for people.

use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::Controller;

use super::PROGRAM;
use crate::rig::{ip, private_network, veth};

fn start(more: &[&str]) -> Switch {
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let more = [&["--p4runtime", "127.0.0.1:0"], more].concat();
    Switch::on(PROGRAM, &["1=raw:a1", "2=raw:b1"], &more)
}

/// The events so far: every line is one.
fn events(switch: &Switch) -> Vec<Value> {
    let err = switch.err();
    let whole = err.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    whole.lines().map(event).collect()
}

/// The first event for which this holds, when it has come.
#[track_caller]
fn awaited(switch: &Switch, is_it: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let all = events(switch);
        if let Some(found) = all.iter().find(|event| is_it(event)) {
            return found.clone();
        }
        assert!(Instant::now() < deadline, "{all:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is(event: &str) -> impl Fn(&Value) -> bool {
    move |found| found["event"] == event
}

#[test]
fn json_lines_have_time_level_message_and_fields() {
    let Some(_network) = private_network("the log as JSON") else { return };
    let switch = start(&["--log-json", "--log", "debug"]);
    let begun = awaited(&switch, is("start"));
    let warned = awaited(&switch, is("diagnostic"));
    assert_eq!((&warned["level"], &warned["code"]), (&"WARN".into(), &"W0106".into()));
    assert!(warned["line"].is_u64(), "{warned}");
    assert_eq!((&begun["level"], &begun["program"]), (&"INFO".into(), &"controlled".into()));
    assert!(begun["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{begun}");
    let message = begun["message"].as_str().expect("a message");
    assert!(message.starts_with("controlled runs on 1=raw:a1 2=raw:b1"), "{message}");
    let served = awaited(&switch, is("p4runtime"));
    let address = served["address"].as_str().expect("an address").to_owned();
    // A link goes down and comes back.
    ip("link set a0 down");
    let down = awaited(&switch, |event| event["event"] == "link" && event["state"] == "no_carrier");
    assert_eq!((&down["level"], &down["port"]), (&"WARN".into(), &1.into()));
    ip("link set a0 up");
    let up = awaited(&switch, |event| event["event"] == "link" && event["state"] == "up");
    assert_eq!((&up["level"], &up["message"]), (&"INFO".into(), &"port 1 (raw:a1) is up".into()));
    // A controller comes, is primary, is refused something, and goes.
    let (mut controller, _) = Controller::connect(&address, 1).expect("a stream");
    let peer = awaited(&switch, is("controller"));
    assert!(peer["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{peer}");
    let primary = awaited(&switch, is("primary"));
    assert_eq!((&primary["role"], &primary["stream"]), (&"".into(), &peer["stream"]));
    let request = wireyard_switch::p4runtime::proto::p4::v1::WriteRequest {
        device_id: 7,
        ..controller.write_request(Vec::new())
    };
    controller.request(request).expect_err("no device 7");
    let refused = awaited(&switch, is("refused"));
    assert_eq!((&refused["level"], &refused["code"]), (&"DEBUG".into(), &"NotFound".into()));
    drop(controller);
    let gone = awaited(&switch, |event| event["event"] == "primary" && event["level"] == "WARN");
    assert_eq!(gone["message"], "no controller is primary");
    // Another program; a signal that changes nothing.
    switch.command(&["swap", "programs/l2_switch/program.yaml"]).expect(0, &[]);
    let program = awaited(&switch, is("program"));
    assert_eq!(
        (&program["program"], &program["before"]),
        (&"l2_switch".into(), &"controlled".into())
    );
    switch.signal("HUP");
    awaited(&switch, is("reload"));
    let all = events(&switch);
    let libraries = all.iter().filter(|event| event["message"].is_null());
    assert_eq!(libraries.count(), 0, "{all:#?}");
    switch.end("TERM").expect(0, &[]);
}

#[test]
fn levels_leave_out_what_is_less_grave_and_texts_are_for_people() {
    let Some(_network) = private_network("levels of the log") else { return };
    let mut switch = start(&[]);
    let address = crate::p4runtime::address(&switch);
    drop(Controller::connect(&address, 1).expect("a stream"));
    switch.await_text("wireyard: no controller is primary\n", Duration::from_secs(10));
    let err = switch.err();
    // In front of them is what the check of the program says, with excerpts.
    let (_, reported) = err.split_once("wireyard: P4Runtime").expect("an address");
    assert!(reported.lines().skip(1).all(|line| line.starts_with("wireyard: ")), "{err}");
    assert!(err.contains("wireyard: controller 0 is primary\n"), "{err}");
    switch.end("TERM").expect(0, &[]);
    // Only what is grave: nothing, so this is no `Switch`, which waits for the first line.
    let ended = wireyard_tests::binary::run(&[
        "run",
        PROGRAM,
        "--port",
        "1=raw:a1",
        "--port",
        "2=raw:b1",
        "--control",
        "none",
        "--duration",
        "0.2",
        "--log",
        "error",
    ]);
    ended.expect(0, &[]);
    assert_eq!(ended.err, "");
    let ended = wireyard_tests::binary::run(&[
        "run",
        PROGRAM,
        "--port",
        "1=raw:nowhere",
        "--control",
        "none",
        "--log-json",
    ]);
    ended.expect(2, &[]);
    let last = ended.err.lines().last().expect("a line");
    let event: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&event["level"], &event["event"]), (&"ERROR".into(), &"end".into()));
    assert!(event["message"].as_str().is_some_and(|text| text.contains("nowhere")), "{event}");
}

/// A cable that is dead at the start, an interface that Linux forwards too, and what commands change.
#[test]
fn links_at_the_start_and_changes_by_commands_are_events() {
    let Some(_network) = private_network("links at the start") else { return };
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    veth("c0", "c1");
    ip("link set a0 down");
    let mut bridge = std::process::Command::new("ip");
    let bridge = bridge.args(["link", "add", "br0", "type", "bridge"]).output();
    let has_bridge = bridge.is_ok_and(|done| done.status.success());
    if has_bridge {
        ip("link set b1 master br0");
    }
    let switch = Switch::on(PROGRAM, &["1=raw:a1", "2=raw:b1"], &["--log-json"]);
    let dead = awaited(&switch, |event| event["event"] == "link" && event["port"] == 1);
    assert_eq!((&dead["level"], &dead["state"]), (&"WARN".into(), &"no_carrier".into()));
    assert_eq!(switch.objects(&["port", "list"])[0]["link"], "no_carrier");
    let of_port =
        |number: u64| move |event: &Value| event["event"] == "port" && event["port"] == number;
    if has_bridge {
        let doubled = awaited(&switch, of_port(2));
        let text = "port 2: b1 belongs to a Linux bridge";
        assert!(doubled["message"].as_str().is_some_and(|it| it.starts_with(text)), "{doubled}");
        assert_eq!(doubled["level"], "WARN");
        let doctor = wireyard_tests::binary::run(&["doctor", "b1"]).out;
        assert!(doctor.contains("it belongs to a Linux bridge"), "{doctor}");
    }
    let says = |text: &'static str| move |event: &Value| event["message"] == text;
    switch.command(&["port", "add", "3", "raw:c1"]).expect(0, &[]);
    let added = awaited(&switch, of_port(3));
    assert_eq!(
        (&added["level"], &added["message"]),
        (&"INFO".into(), &"port 3 (raw:c1) was added".into())
    );
    switch.command(&["port", "faults", "3", "loss=1%"]).expect(0, &[]);
    awaited(&switch, says("port 3 has faults: loss=1%"));
    switch.command(&["port", "faults", "3", "none"]).expect(0, &[]);
    awaited(&switch, says("port 3 has no faults any more"));
    switch.command(&["port", "remove", "3"]).expect(0, &[]);
    awaited(&switch, says("port 3 was removed"));
    // Its link does not come up when it goes.
    switch.command(&["port", "remove", "1"]).expect(0, &[]);
    awaited(&switch, says("port 1 was removed"));
    std::thread::sleep(Duration::from_millis(500));
    let links = events(&switch).into_iter().filter(|event| event["event"] == "link");
    let of_first: Vec<Value> = links.filter(|event| event["port"] == 1).collect();
    assert_eq!(of_first, [dead]);
    switch.end("TERM").expect(0, &[]);
}
