//! `save` and `restore`: a state comes back with the same bytes, on a switch that has another one; a bad file changes nothing.

use std::io::Write;
use std::process::{Command, Stdio};

use wireyard_tests::binary::{Ended, wireyard};
use wireyard_tests::live::Switch;

use super::notices::{heard, listen};
use super::{A, B, PROGRAM, Rig, frame, rig};
use crate::rig::private_network;

/// One of everything, and what the format has to write with care.
const STATE: [&str; 25] = [
    "table add fdb ethernet.dst=02:00:00:00:00:0a forward 2 --meter cir=10Mbit/s,cbs=16KB,pir=20Mbit/s,pbs=32KB",
    "table add fdb ethernet.dst=02:00:00:00:00:09 to_controller",
    "table add acl 'ethernet.src=02:00:00:00:00:00 &&& ff:ff:00:00:00:00' ethernet.ether_type=0x1000..0x2000 nop --priority 7",
    "table add acl std.ingress_port=2 drop --priority 6",
    "table add short_lived ethernet.ether_type=0x88b5 nop --idle-timeout-ms 60000",
    "table default fdb forward 1",
    "member add ways 1 forward 2",
    "member add ways 2 forward 1",
    "member add ways 3 forward 3",
    "group add ways 7 1 2*3",
    "group add ways 8 3 1",
    "group add ways 9",
    "table add ways std.ingress_port=1 group(7)",
    "table add ways std.ingress_port=2 member(3)",
    "multicast set 5 1 2:9 --prune-ingress",
    "multicast set 6 2 1",
    "multicast set 9 all",
    "mirror set 3 port=2 truncate=128",
    "mirror set 4 port=2 instance=7 traffic_class=3",
    "value-set set known_types 0x0800 0x86dd",
    "register set seen 3 17",
    "register set pair 1 low=5 high=0x10",
    "meter set police 0 cir=10Mbit/s cbs=16KB pir=20Mbit/s pbs=32KB",
    "meter set police 2 cir=8bit/s cbs=1B pir=16bit/s pbs=1B",
    "counter set ports 5 5 500",
];
/// Something else everywhere.
const OTHER: [&str; 13] = [
    "table add fdb ethernet.dst=02:00:00:00:00:0a drop",
    "table add fdb ethernet.dst=02:00:00:00:00:77 forward 3",
    "table default acl drop",
    "member add ways 1 forward 9",
    "member add ways 64 forward 9",
    "group add ways 7 64",
    "group add ways 9 1 64",
    "table add ways std.ingress_port=1 group(9)",
    "multicast set 12 1",
    "mirror set 12 port=1",
    "register set pair 2 low=5",
    "meter set police 1 cir=10Mbit/s cbs=16KB pir=20Mbit/s pbs=32KB",
    "counter set ports 6 7 700",
];

fn saved(switch: &Switch) -> String {
    let ended = switch.command(&["save"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    ended.out
}

/// A command that reads this from standard input.
fn with_input(switch: &Switch, words: &[&str], input: &str) -> Ended {
    let mut command = Command::new(wireyard());
    command.args(words).env("WIREYARD_RUN_DIR", switch.run_folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    Ended::of(&child.wait_with_output().expect("its output"))
}

fn restores(rig: &Rig, file: &std::path::Path) {
    rig.does(&format!("restore {}", file.display()));
}

#[test]
fn what_was_saved_comes_back_with_the_same_bytes() {
    let Some(_network) = private_network("save and restore") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.yaml");
    let mut first = rig(PROGRAM, &[]);
    let empty = saved(&first.switch);
    assert!(
        empty.ends_with(" beside what it declares.\nentries: {}\n"),
        "nothing was written: {empty}"
    );
    STATE.iter().for_each(|words| first.does(words));
    let packet = frame(A, B);
    assert_eq!(first.passes(&packet), std::slice::from_ref(&packet));
    first.does(&format!("save -o {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, saved(&first.switch));
    assert!(text.contains("idle_timeout_ms: 60000") && !text.contains("0x88b6"), "{text}");
    let counted = format!(", counter: {{ packets: 1, bytes: {} }} }}", packet.len());
    assert!(text.contains(&counted), "what an entry has counted: {text}");
    let cell = "counters:\n  ports:\n    1: { packets: 1, bytes: 64 }\n    5: { packets: 5, bytes: 500 }\n";
    assert!(text.contains(cell), "{text}");
    let Rig { switch, wires } = first;
    // Onto another state; and onto itself.
    // Standard output and input, and an object for programs.
    let word = |words: &[&str]| switch.command(words).expect(0, &[]).out.clone();
    assert_eq!(word(&["save", "-o", "-"]), text);
    assert_eq!(switch.objects(&["save"]), [serde_json::json!({ "yaml": text })]);
    let copy = folder.path().join("copy.yaml").display().to_string();
    let written = serde_json::json!({ "file": copy, "bytes": text.len() });
    assert_eq!(switch.objects(&["save", "-o", &copy]), [written]);
    for command in [&["restore", "-"][..], &["table", "load", "-"]] {
        assert_eq!(with_input(&switch, command, &text).status, Some(0), "{command:?}");
        assert_eq!(saved(&switch), text, "{command:?}");
    }
    switch.command(&["restore", "-"]).expect(2, &["standard input has no key"]);
    switch.end("TERM").expect(0, &[]);
    let ports = ["1=raw:a1", "2=raw:b1"];
    let mut second = Rig { switch: Switch::on(PROGRAM, &ports, &[]), wires };
    OTHER.iter().for_each(|words| second.does(words));
    second.stops(&packet);
    for _ in 0..2 {
        restores(&second, &file);
        assert_eq!(saved(&second.switch), text);
    }
    assert_eq!(second.passes(&packet), std::slice::from_ref(&packet));
    // All goes where the file has nothing.
    let nothing = folder.path().join("nothing.yaml");
    std::fs::write(&nothing, "entries: {}\n").unwrap();
    restores(&second, &nothing);
    assert_eq!(saved(&second.switch), empty);
    second.stops(&packet);
    second.switch.end("TERM").expect(0, &[]);
    // What `run` reads at its start is the same format.
    let third = Switch::on(PROGRAM, &ports, &["--entries", file.to_str().unwrap()]);
    assert_eq!(saved(&third), text);
    third.end("TERM").expect(0, &[]);
}

#[test]
fn a_bad_file_restores_nothing_and_says_where() {
    let Some(_network) = private_network("restoring bad files") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    let rig = rig(PROGRAM, &[]);
    STATE.iter().for_each(|words| rig.does(words));
    let before = saved(&rig.switch);
    let line = |mac: u32, action: &str| {
        format!("    - {{ match: {{ ethernet.dst: {mac} }}, action: {action} }}\n")
    };
    // A limit of the device is refused at the end of the batch: a group that hashes among too many.
    let heavy = "members: { ways: { 1: forward(1) } }\ngroups: { ways: { 1: { 1: 5000 } } }\n";
    for (text, reason) in [
        (
            format!("entries:\n  fdb:\n{}{}", line(1, "forward(1)"), line(2, "forwrd(1)")),
            "bad.yaml:4",
        ),
        (format!("entries:\n  fdb:\n{}{}", line(1, "drop"), line(1, "drop")), "bad.yaml:4"),
        (
            "entries:\n  ways:\n    - { match: { std.ingress_port: 1 }, action: group(3) }\n"
                .into(),
            "has no group 3",
        ),
        ("entries:\n  fixed: []\n".into(), "constant"),
        ("settings: [ { port: 1, set: [shut=false] } ]\n".into(), "shut=true or nothing"),
        ("mirror_sessions: { 3: { truncate: 5 } }\n".into(), "one copy at least"),
        ("mirror_sessions: { 3: { port: 1, ports: [1] } }\n".into(), "exclude each other"),
        ("multicast_groups: { 1: [1, 2\n".into(), "bad.yaml"),
        ("counters: { ports: { 8: { packets: 1 } } }\n".into(), "index 8 is outside"),
        ("counters: { prots: { 1: { packets: 1 } } }\n".into(), "no counter `prots`"),
        ("settings: [ { port: 1, set: [kmni=1KB] } ]\n".into(), "did you mean kmin?"),
        ("settings: [ { port: 1, set: [rate=1Gbit/s] } ]\n".into(), "port 1 has no queues"),
        (heavy.into(), "bad.yaml:2"),
        // Nothing at all is a mistake and no wish; `entries: {}` is one.
        (String::new(), "bad.yaml has no key"),
        ("# entries: none\n".into(), "has no key"),
        ("{}\n".into(), "has no key"),
    ] {
        std::fs::write(&file, &text).unwrap();
        rig.refuses(&format!("restore {}", file.display()), reason);
        assert_eq!(saved(&rig.switch), before, "{text}");
    }
    rig.refuses("restore /nowhere.yaml", "/nowhere.yaml");
    // Of many errors the first come whole, and how many more there are.
    let many: String = (0..60).map(|n| format!("  wrong_table_{n}: []\n")).collect();
    std::fs::write(&file, format!("entries:\n{many}")).unwrap();
    let name = file.display().to_string();
    let err = rig.switch.command(&["restore", &name]).expect(2, &[]).err.clone();
    assert!(err.starts_with("error[E0100]"), "{err}");
    let shown = err.matches("error[E0100]").count();
    assert!((4..60).contains(&shown), "{shown}: {err}");
    assert!(err.ends_with("lists all of them\n") && err.contains("more: `wireyard check"), "{err}");
    // Several copies of one session.
    std::fs::write(&file, "mirror_sessions:\n  3: { ports: [1, { port: 2, instance: 4 }] }\n")
        .unwrap();
    rig.does(&format!("restore {}", file.display()));
    assert!(
        saved(&rig.switch)
            .ends_with("mirror_sessions:\n  3: { ports: [1, { port: 2, instance: 4 }] }\n")
    );
    rig.switch.end("TERM").expect(0, &[]);
}

/// Settings that were made while the switch ran are saved, restored, and read at the start; where one is refused, nothing is changed.
#[test]
fn settings_of_queues_and_ports_are_saved_and_restored() {
    let Some(_network) = private_network("saving settings") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [config, file, bad] = ["switch.yaml", "saved.yaml", "bad.yaml"]
        .map(|name| folder.path().join(name).display().to_string());
    let text = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }\nqos: { preset: sonic_azure }\n";
    std::fs::write(&config, text).unwrap();
    let first = rig(PROGRAM, &["--config", &config]);
    let list = |switch: &Switch| switch.objects(&["queue", "list"]);
    let untouched = list(&first.switch);
    first.does("queue set 2 4 kmin=10KB kmax=20KB pmax=50% alpha=1/4");
    first.does("queue set 2 port rate=100Mbit/s pfc=3,4");
    first.does("port down 1");
    first.refuses("queue set 2 9 kmin=10KB", "there is no queue 9: a port has queues 0 to 7");
    first.refuses("queue set 2 4 kmin=500KB", "kmin 500 KB is above kmax 20 KB: set both");
    first.refuses("queue set 2 4 kmax=3GB", "kmax 3 GB is above 2 GiB");
    first.does("counter set ports 1 3 300");
    let (wanted, saved_text) = (list(&first.switch), saved(&first.switch));
    assert_ne!(untouched, wanted);
    assert!(
        saved_text.contains("settings:\n  - { port: 1, set: [\"shut=true\"] }"),
        "{saved_text}"
    );
    first.does(&format!("save -o {file}"));
    first.switch.end("TERM").expect(0, &[]);
    // By a command, onto a switch without them; one that is refused at the end leaves all as it was.
    let ports = ["1=raw:a1", "2=raw:b1"];
    let second =
        Rig { switch: Switch::on(PROGRAM, &ports, &["--config", &config]), wires: first.wires };
    let wrong = "  - { port: 2, queue: 4, set: [xon_at=100MB] }\n";
    std::fs::write(&bad, format!("{saved_text}{wrong}")).unwrap();
    let shut = |switch: &Switch| switch.objects(&["port", "list"])[0]["shut"].clone();
    second.refuses(&format!("restore {bad}"), "nothing is restored");
    assert_eq!((list(&second.switch), shut(&second.switch)), (untouched, false.into()));
    assert!(saved(&second.switch).ends_with("entries: {}\n"), "no counter, no setting");
    second.does(&format!("restore {file}"));
    assert_eq!((list(&second.switch), saved(&second.switch)), (wanted.clone(), saved_text));
    assert_eq!(shut(&second.switch), true);
    second.switch.end("TERM").expect(0, &[]);
    // At the start.
    let more = ["--config", &config, "--entries", &file];
    let mut third = Switch::on(PROGRAM, &ports, &more);
    third.await_text("3 settings of queues and ports are back", std::time::Duration::from_secs(10));
    assert_eq!((list(&third), shut(&third)), (wanted, true.into()));
    third.end("TERM").expect(0, &[]);
}

/// Also on ports that do not speak PFC, which have nothing of it to set back.
#[test]
fn settings_are_set_back_on_ports_without_pfc() {
    let Some(_network) = private_network("setting back") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [config, bad] =
        ["switch.yaml", "bad.yaml"].map(|name| folder.path().join(name).display().to_string());
    let text = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }\nqos: { preset: plain }\n";
    std::fs::write(&config, text).unwrap();
    let rig = rig(PROGRAM, &["--config", &config]);
    let list = |switch: &Switch| switch.objects(&["queue", "list"]);
    let untouched = list(&rig.switch);
    let text = "settings:\n  - { port: 2, set: [rate=100Mbit/s] }\n  - { port: 2, queue: 4, set: [xon_at=1KB] }\n";
    std::fs::write(&bad, text).unwrap();
    rig.refuses(&format!("restore {bad}"), "nothing is restored");
    assert_eq!(list(&rig.switch), untouched);
    // Nor is a link cut, and brought up again, by a file that is refused.
    for (settings, why) in [
        ("{ port: 9, set: [rate=1Gbit/s] }", "there is no port 9"),
        ("{ port: 2, queue: 3, set: [rate=1Gbit/s] }", "of the whole port"),
    ] {
        let text = format!("settings:\n  - {{ port: 1, set: [shut=true] }}\n  - {settings}\n");
        std::fs::write(&bad, text).unwrap();
        let child = listen(&rig, &["events", "--seconds", "2"]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        rig.refuses(&format!("restore {bad}"), why);
        // Its own changes prove that the listener hears any.
        rig.does("port down 2");
        rig.does("port up 2");
        let links = heard(child, || {}).into_iter().filter(|one| one["event"] == "link");
        let links: Vec<_> = links.collect();
        let own = |one: &serde_json::Value| one["port"] == 2;
        assert!(!links.is_empty() && links.iter().all(own), "{settings}: {links:?}");
    }
    rig.refuses("queue set 2 port rate=100Mbit/s pfc=3", "does not speak PFC");
    assert_eq!(list(&rig.switch), untouched, "all settings or none");
    rig.switch.end("TERM").expect(0, &[]);
}
