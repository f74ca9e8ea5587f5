//! Objects of the program in words: what is written is in force, is read back as written, and a wrong word is refused with a way out.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;

use super::{A, B, PROGRAM, frame, rig, split};
use crate::rig::{private_network, veth};

#[test]
fn entries_are_written_in_words_and_packets_meet_them() {
    let Some(_network) = private_network("commands on tables") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let packet = frame(A, B);
    rig.stops(&packet);
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a forward 2");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    rig.does("table add acl 'ethernet.src=02:00:00:00:00:00 &&& ff:ff:00:00:00:00' ethernet.ether_type=0x1000..0x2000 drop --priority 7");
    rig.stops(&packet);
    let entries = rig.switch.objects(&["table", "dump"]);
    let expected = [
        json!({
            "table": "fdb", "match": { "ethernet.dst": "02:00:00:00:00:0a" }, "action": "forward(2)", "packets": 2,
            "bytes": 128,
        }),
        json!({
            "table": "acl",
            "match": {
                "ethernet.src": "02:00:00:00:00:00 &&& 0xffff00000000", "ethernet.ether_type": "4096..8192",
            },
            "priority": 7, "action": "drop",
        }),
        json!({
            "table": "fixed", "match": { "ethernet.ether_type": "0x88b6" }, "action": "drop", "const": true,
        }),
    ];
    assert_eq!(entries, expected);
    // What is read back can be written again.
    rig.does("table delete acl 'ethernet.src=02:00:00:00:00:00 &&& 0xffff00000000' ethernet.ether_type=4096..8192 --priority 7");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    rig.does("table modify fdb ethernet.dst=02:00:00:00:00:0a drop");
    rig.stops(&packet);
    rig.does("table default fdb forward 2");
    rig.does("table clear fdb");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet), "the default");
    rig.does("table default fdb reset");
    rig.stops(&packet);
    assert_eq!(rig.switch.objects(&["table", "dump", "fdb"]), [] as [Value; 0]);
    let shown = rig.switch.command(&["table", "dump", "fdb"]);
    assert_eq!(
        (shown.out.as_str(), shown.err.as_str()),
        ("", "wireyard: table fdb has no entries\n")
    );
    rig.switch.end("TERM").expect(0, &[]);
}

/// Each example of the help is a command on the program that it names, or on the one before.
#[test]
fn examples_of_the_help_are_commands_of_programs_that_are_there() {
    let Some(_network) = private_network("examples of the help") else { return };
    veth("a0", "a1");
    veth("b0", "b1");
    let help = run(&["table", "add", "--help"]);
    let help = &help.expect(0, &[]).out;
    let (_, examples) =
        help.split_once("Examples:").expect("a command beneath another has its examples");
    // Long lines are wrapped.
    let examples = examples.split_whitespace().collect::<Vec<_>>().join(" ");
    let (examples, _) = examples.split_once(" Values are").expect("what stands behind them");
    let mut on: Option<(String, Switch)> = None;
    let mut waiting: Vec<String> = Vec::new();
    let mut done = 0;
    for words in examples.split("wireyard ").filter(|words| !words.is_empty()) {
        let (words, program) =
            match words.trim_end().strip_suffix(')').and_then(|words| words.rsplit_once(" (")) {
                Some((words, program)) if !program.contains(' ') => (words, Some(program)),
                _ => (words, None),
            };
        waiting.push(words.to_owned());
        if let Some(program) = program {
            if let Some((_, before)) = on.take() {
                before.end("TERM").expect(0, &[]);
            }
            on = Some((program.to_owned(), Switch::on(program, &["1=raw:a1", "2=raw:b1"], &[])));
        }
        let Some((program, switch)) = &on else { continue };
        for words in waiting.drain(..) {
            let ended = switch.command(&split(&words));
            assert_eq!(ended.status, Some(0), "{program}: {words}: {}", ended.err);
            done += 1;
        }
    }
    assert_eq!(done, 6, "{examples}");
    if let Some((_, last)) = on {
        last.end("TERM").expect(0, &[]);
    }
}

#[test]
fn a_list_of_nothing_says_so() {
    let Some(_network) = private_network("lists of nothing") else { return };
    let rig = rig(PROGRAM, &[]);
    rig.refuses("capture stop 2", "nothing records port 2: `wireyard capture list`");
    for (words, says) in [
        ("group dump", "there are no groups"),
        ("member dump", "there are no members"),
        ("mirror dump", "there are no mirror sessions"),
        ("register dump", "there is no cell that is not blank; `--all` shows the blank ones"),
        ("queue list", "the switch has no `qos:`"),
        ("capture list", "nothing is captured"),
    ] {
        let ended = rig.switch.command(&split(words));
        assert!(ended.status == Some(0) && ended.out.is_empty(), "{words}: {}", ended.out);
        assert!(ended.err.contains(says), "{words}: {}", ended.err);
        let words = format!("{words} --json");
        assert_eq!(rig.switch.command(&split(&words)).err, "", "{words}");
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_wrong_word_is_refused_with_a_way_out_and_changes_nothing() {
    let Some(_network) = private_network("wrong commands") else { return };
    let rig = rig(PROGRAM, &[]);
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a forward 2");
    let before = rig.switch.objects(&["table", "dump"]);
    for (words, reason) in [
        ("table add fbd ethernet.dst=02:00:00:00:00:0b forward 2", "did you mean `fdb`?"),
        ("table add fdb ethernet.dts=02:00:00:00:00:0b forward 2", "did you mean `ethernet.dst`?"),
        ("table add fdb ethernet.dst=02:00:00:00:00:0b forwrd 2", "did you mean `forward`?"),
        ("table add fdb ethernet.dst=02:00:00:00:00:0b forward", "forward"),
        (
            "table add fdb ethernet.dst=02:00:00:00:00:0a forward 2",
            "exists already: `wireyard table modify`",
        ),
        (
            "table add fdb ethernet.dst=02:00:00:00:00 forward 2",
            "`02:00:00:00:00` is not a MAC address",
        ),
        ("table add fixed ethernet.ether_type=1 drop", "constant"),
        ("table add fdb forward(2)", "ethernet.dst"),
        (
            "table modify fdb ethernet.dst=02:00:00:00:00:0b forward 2",
            "table `fdb` has no entry ethernet.dst=02:00:00:00:00:0b",
        ),
        (
            "table delete fdb ethernet.dst=02:00:00:00:00:0b",
            "table `fdb` has no entry ethernet.dst=02:00:00:00:00:0b",
        ),
        (
            "table dump fdb ethernet.dst=02:00:00:00:00:0b",
            "table `fdb` has no entry ethernet.dst=02:00:00:00:00:0b",
        ),
        ("member delete ways 77", "table `ways` has no member 77"),
        ("group delete ways 77", "table `ways` has no group 77"),
        (
            "table add fdb 02:00:00:00:00:0b forward 2",
            "write `ethernet.dst=02:00:00:00:00:0b`: the key of table `fdb` is `ethernet.dst`",
        ),
        ("table add fdb dst=02:00:00:00:00:0b forward 2", "its keys are ethernet.dst"),
        ("table add fdb ethernet.dst=02-00-00-00-00-0b forward 2", "write it with colons"),
        (
            "table add fdb ethernet.dst=10.0.0.1 forward 2",
            "key `ethernet.dst` has 48 bits, and this is an IPv4 address (32 bits); write a MAC address",
        ),
        (
            "value-set set known_types 10.0.0.1",
            "key `known_types` has 16 bits, and this is an IPv4 address (32 bits); write a number without a width",
        ),
        ("table add acl std.ingress_port=2 drop", "add `--priority 10`"),
        (
            "port faults 1 los=1%",
            "there are: loss, corrupt, duplicate, reorder, reorder_by, delay, seed; did you mean loss?",
        ),
        ("port faults 9", "there is no port 9; there are: 1, 2"),
        ("port add 4 raw:a1", "a1 is a port of this switch already"),
        ("queue list 9", "there is no port 9"),
        ("queue set 1 3 kmin=1KB", "port 1 has no queues: the switch has no `qos:`"),
        ("table clear fdb --watch", "leave it out"),
        ("packet listen --count 0", "give 1 or more"),
        ("trace --live --filter 'ethernet.dst == 10.0.0.1'", "ethernet.dst has 48 bits"),
        ("trace --live --filter 'ethernet.ether_type > 65536'", "0 to 65535"),
        ("capture start 1 -", "name a file"),
        ("table dump fdbb", "did you mean fdb?"),
        ("register set sean 3 17", "did you mean `seen`?"),
        ("register set seen 16 17", "16"),
        ("counter clear prots", "did you mean ports?"),
        ("counter clear seen", "there is no counter, or table with counters, called seen"),
        ("register clear ports", "there is no register called ports"),
        ("register clear nope", "there are: seen, pair"),
        ("table default fdb reset again", "`again`: nothing follows `reset`"),
        ("mirror set 0 port=1", "mirror session 0 means"),
        ("events --seconds 1000000001", "give 0 to 1000000000"),
        ("counter clear fdb 3", "the counters of fdb are those of its entries: clear all of them"),
        ("table clear ''", "a value is required"),
        ("member add ways 0 forward 1", "member 0 means \"all members\""),
        ("group add ways 0 1", "group 0 means \"all groups\""),
        ("counter set ports 8 1 1", "no cell 8"),
        ("group add ways 7 1", "member"),
        ("port down 9", "there is no port 9"),
        ("port add 1 raw:nothing", "exists already"),
        ("port faults 1 mtu=9000", "mtu"),
        ("table list --switch nobody", "no switch nobody"),
        ("table list --watch=0", "--watch"),
        ("table add fdb ethernet.dst=1 ethernet.dst=2 forward 1", "`ethernet.dst` is given twice"),
        ("table add fdb ethernet.dst forward 1", "`ethernet.dst` is a key without its value"),
        ("register set pair 3 low=1 low=2", "`low` is given twice"),
        ("mirror set 4 port=2 port=1", "`port` is given twice"),
        ("queue set 1 3 kmin=10KB kmin=20KB", "kmin is given twice"),
        ("multicast set 5 all 1", "`all` stands alone"),
        ("multicast set 7 1 1", "a copy to port 1 with instance 0 already exists"),
        ("group add ways 7 1 1", "`1` is given twice"),
        (
            "member add ways 4294967295 forward 1",
            "numbers of members and groups are below 2147483648",
        ),
        ("group add ways 2147483648 1", "numbers of members and groups are below 2147483648"),
        ("port faults 2 ''", "`none` to end them"),
        ("capture start 1 all.pcapng --filter ''", "leave it out to record everything"),
        (
            "table add short_lived ethernet.ether_type=1 drop --idle-timeout-ms 18446744074",
            "18446744074 is more than 18446744073",
        ),
    ] {
        rig.refuses(words, reason);
    }
    assert_eq!(rig.switch.objects(&["table", "dump"]), before);
    // A batch that fails at its end has done nothing.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let line = |mac: u32, port: u32| {
        format!("    - {{ match: {{ ethernet.dst: {mac} }}, action: forward({port}) }}\n")
    };
    let text = format!("entries:\n  fdb:\n{}{}", line(1, 1), line(2, 1 << 20));
    std::fs::write(&file, &text).unwrap();
    let load = format!("table load {}", file.display());
    rig.refuses(&load, "wrong.yaml:4");
    assert_eq!(rig.switch.objects(&["table", "dump"]), before);
    std::fs::write(&file, text.replace("1048576", "2")).unwrap();
    rig.does(&load);
    assert_eq!(rig.switch.objects(&["table", "dump", "fdb"]).len(), 3);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn groups_cells_and_sets_are_read_back_as_they_were_written() {
    let Some(_network) = private_network("commands on objects") else { return };
    let rig = rig(PROGRAM, &[]);
    for words in [
        "member add ways 1 forward 2",
        "member set ways 2 forward(1)",
        "group add ways 7 1 2*3",
        "table add ways std.ingress_port=1 group(7)",
        "multicast set 5 1 2:9 --prune-ingress",
        "mirror set 3 port=2 truncate=128",
        "value-set set known_types 0x0800 0x86dd",
        "register set seen 0x3 17",
        "register set pair 0b1 low=5 high=0x10",
        "register set pair 1 low=6",
        "meter set police 0x0 cir=10Mbit/s cbs=16KB pir=20Mbit/s pbs=32KB",
        "counter set ports 0x5 0x5 500",
    ] {
        rig.does(words);
    }
    rig.refuses("member delete ways 1", "still used by 1 entries or groups");
    let replica = |port, instance| json!({ "port": port, "instance": instance });
    let rates = json!({ "cir": 1_250_000, "cbs": 16_000, "pir": 2_500_000, "pbs": 32_000, "unit": "bytes" });
    for (words, expected) in [
        ("member dump ways 1", json!({ "table": "ways", "member": 1, "action": "forward(2)" })),
        (
            "group dump",
            json!({ "table": "ways", "group": 7, "members": [{ "member": 1, "weight": 1 }, { "member": 2, "weight": 3 }] }),
        ),
        (
            "table dump ways std.ingress_port=1",
            json!({ "table": "ways", "match": { "std.ingress_port": "1" }, "action": "group(7)" }),
        ),
        (
            "multicast dump",
            json!({ "multicast_group": 5, "ports": [replica(1, 0), replica(2, 9)], "prune_ingress": true }),
        ),
        ("mirror dump", json!({ "mirror_session": 3, "port": 2, "instance": 0, "truncate": 128 })),
        ("value-set dump", json!({ "value_set": "known_types", "members": ["0x800", "0x86dd"] })),
        (
            "register dump seen 0x3",
            json!({ "register": "seen", "index": 3, "cells": { "value": 17 } }),
        ),
        (
            "register dump pair",
            json!({ "register": "pair", "index": 1, "cells": { "low": 6, "high": 16 } }),
        ),
        ("meter dump", json!({ "meter": "police", "index": 0, "rates": rates })),
        (
            "counter dump ports 5",
            json!({ "counter": "ports", "index": 5, "packets": 5, "bytes": 500 }),
        ),
    ] {
        assert_eq!(rig.switch.objects(&super::split(words)), [expected], "{words}");
    }
    // What a table for people shows can be written again.
    let shown = rig.switch.command(&["meter", "dump", "police", "0"]).out;
    let words = shown.split_whitespace().filter(|word| word.contains('='));
    let words = words.collect::<Vec<_>>().join(" ");
    rig.does("meter clear police 0");
    rig.does(&format!("meter set police 0 {words}"));
    assert_eq!(rig.switch.objects(&["meter", "dump", "police", "0"])[0]["rates"], rates, "{words}");
    let shown = rig.switch.command(&["group", "dump", "ways", "7"]).out;
    assert!(shown.contains(" 1 2*3\n"), "{shown}");
    for words in [
        "table clear ways",
        "group delete ways 7",
        "member delete ways 1",
        "multicast delete 5",
        "mirror delete 3",
        "value-set reset known_types",
        "register clear pair",
        "meter clear police 0x0",
        "counter clear ports",
        "counter clear fdb",
    ] {
        rig.does(words);
    }
    for words in ["group dump", "multicast dump", "mirror dump", "register dump pair", "meter dump"]
    {
        assert_eq!(rig.switch.objects(&super::split(words)), [] as [Value; 0], "{words}");
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_change_keeps_the_timeout_of_an_entry_and_lists_have_what_is_in_force() {
    let Some(_network) = private_network("commands that change entries") else { return };
    let rig = rig(PROGRAM, &[]);
    let listed = |table: &str| {
        let tables = rig.switch.objects(&["table", "list"]);
        let found = tables.into_iter().find(|one| one["name"] == table).unwrap();
        (found["default"].clone(), found["entries"].clone())
    };
    assert_eq!(listed("fdb"), (json!("drop"), json!(0)));
    rig.does("table default fdb forward 2");
    rig.does("table add fdb ethernet.dst=1 forward 2");
    assert_eq!(listed("fdb"), (json!("forward(2)"), json!(1)));
    let key = "short_lived ethernet.ether_type=1";
    let timeout = || {
        let found = rig.switch.objects(&["table", "dump", "short_lived"]).remove(0);
        (found["action"].clone(), found["idle_timeout_ms"].clone())
    };
    rig.does(&format!("table add {key} drop --idle-timeout-ms 90000"));
    rig.does(&format!("table modify {key} nop"));
    assert_eq!(timeout(), (json!("nop"), json!(90_000)));
    rig.does(&format!("table set {key} drop"));
    assert_eq!(timeout(), (json!("drop"), json!(90_000)));
    rig.does(&format!("table modify {key} drop --idle-timeout-ms 80000"));
    assert_eq!(timeout(), (json!("drop"), json!(80_000)));
    rig.does("table add acl ethernet.ether_type=1..2 drop --priority 7");
    rig.does("table add acl ethernet.ether_type=3..4 drop --priority 8");
    let of_seven = rig.switch.objects(&["table", "dump", "acl", "--priority", "7"]);
    assert_eq!(of_seven.iter().map(|one| one["priority"].clone()).collect::<Vec<_>>(), [7]);
    // The same program keeps everything, its constant entries too.
    let swapped = rig.switch.objects(&["swap", PROGRAM, "--keep-all"]).remove(0);
    let fates = swapped["objects"].as_array().unwrap().iter();
    assert!(fates.clone().all(|one| one["fate"] == "kept"), "{swapped}");
    rig.switch.end("TERM").expect(0, &[]);
}

/// Waits until the link of a port is so.
fn await_link(rig: &super::Rig, port: usize, link: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while rig.switch.objects(&["port", "list"])[port - 1]["link"] != link {
        assert!(Instant::now() < deadline, "port {port} does not become {link}");
    }
}

#[test]
fn ports_go_down_lose_frames_and_come_back_by_command() {
    let Some(_network) = private_network("commands on ports") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let packet = frame(A, B);
    rig.does("table default fdb forward 2");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    rig.does("port down 2");
    await_link(&rig, 2, "down");
    rig.stops(&packet);
    rig.does("port down 1");
    rig.wires[0].send(&vec![packet.clone(); 5]);
    std::thread::sleep(Duration::from_millis(100));
    rig.does("port up 1");
    rig.does("port up 2");
    await_link(&rig, 2, "up");
    assert!(rig.wires[1].receive_unexpected().is_empty(), "nothing old comes in");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    let stats = rig.switch.objects(&["stats"]).remove(0);
    let medium = |port: usize, name: &str| stats["ports"][port - 1]["medium"][name].clone();
    assert_eq!((medium(1, "rx_down"), medium(1, "rx_frames")), (json!(5), json!(3)));
    assert_eq!((medium(2, "tx_down"), medium(2, "tx_frames")), (json!(1), json!(2)));
    assert_eq!(stats["total"]["balanced"], true, "{stats}");
    let up = "port 2 (raw:b1) is down by command: `wireyard port up 2` takes it up";
    assert!(rig.switch.err().contains(up), "{}", rig.switch.err());
    // A cable that loses everything, and one that loses nothing.
    let faults = |rig: &super::Rig| {
        let listed = rig.switch.objects(&["port", "list"])[1]["faults"].clone();
        assert_eq!(rig.switch.objects(&["port", "faults", "2"])[0]["faults"], listed);
        listed
    };
    assert_eq!(faults(&rig), Value::Null);
    rig.does("port faults 2 loss=100%,delay=2ms,seed=7");
    assert_eq!(faults(&rig), "loss=100%,delay=2ms,seed=7");
    rig.stops(&packet);
    for words in [&["stats"][..], &["top", "--once", "--watch=0.1"]] {
        let shown = rig.switch.command(words).out;
        assert!(shown.contains("port 2 fault, sent: 1 lost"), "{shown}");
    }
    rig.does("port faults 2 none");
    assert_eq!(faults(&rig), Value::Null);
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    // Another number for the interface.
    rig.does("port remove 2");
    rig.stops(&packet);
    rig.does("port add 7 raw:b1");
    rig.does("table default fdb forward 7");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_port_of_several_workers_is_removed_and_added() {
    let Some(_network) = private_network("ports of several workers") else { return };
    let mut rig = rig(PROGRAM, &["--workers", "2"]);
    let packet = frame(A, B);
    rig.does("table default fdb forward 2");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    for _ in 0..3 {
        rig.does("port remove 2");
        rig.stops(&packet);
        rig.does("port add 2 raw:b1");
        assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    }
    rig.does("port down 1");
    rig.stops(&packet);
    rig.does("port up 1");
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    let stats = rig.switch.objects(&["stats"]).remove(0);
    assert_eq!(stats["total"]["balanced"], true, "{stats}");
    rig.switch.end("TERM").expect(0, &[]);
}
