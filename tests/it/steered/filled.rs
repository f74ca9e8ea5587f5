//! What fills a program that takes the place of another, or that starts on a kept state: which entries, since when, and what is said of a file
//! that is not read.

use std::time::Duration;

use serde_json::Value;
use wireyard_tests::live::Switch;

use super::{Rig, rig};
use crate::rig::private_network;

/// Entries, members and groups, without what they have counted and since when.
fn filled(switch: &Switch) -> Vec<Value> {
    let dumps = ["table", "member", "group", "multicast", "mirror"];
    let mut all: Vec<Value> = dumps.iter().flat_map(|one| switch.objects(&[one, "dump"])).collect();
    for one in all.iter_mut().filter_map(Value::as_object_mut) {
        ["packets", "bytes", "since_hit_ms"].iter().for_each(|name| drop(one.remove(*name)));
    }
    all
}

/// By its name a program inside the binary has the entries that it has with `run`, and that its folder has.
#[test]
fn a_program_that_is_swapped_in_by_name_has_its_entries() {
    let Some(_network) = private_network("swap by name") else { return };
    let Rig { switch, wires: _wires } = rig("l2_switch", &[]);
    let first = filled(&switch);
    for (name, most) in [("ipv4_router", 15), ("rocev2_lossless", 1)] {
        switch.command(&["swap", "--anew", name]).expect(0, &[]);
        let by_name = filled(&switch);
        assert!(by_name.len() >= most, "{name}: {by_name:#?}");
        switch.command(&["swap", "--anew", &format!("programs/{name}")]).expect(0, &[]);
        assert_eq!(filled(&switch), by_name, "{name}");
    }
    // Groups of the device stay, but for --anew.
    for again in [&["swap", "--anew", "l2_switch"][..], &["swap", "l2_switch"]] {
        switch.command(again).expect(0, &[]);
        assert_eq!(filled(&switch), first, "{again:?}");
    }
    switch.end("TERM").expect(0, &[]);
}

/// Entries that fill a program begin to be idle when it comes, not when the switch did.
#[test]
fn entries_of_a_swap_begin_to_be_idle_with_it() {
    let Some(_network) = private_network("idle entries of a swap") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("more.yaml");
    let entry = "{ match: { meta.vid: 10, ethernet.dst: 02:00:00:00:00:09 }, action: forward(1), idle_timeout_ms: 60000 }";
    std::fs::write(&file, format!("entries:\n  fdb:\n    - {entry}\n")).unwrap();
    let Rig { switch, wires: _wires } = rig("l2_switch", &[]);
    std::thread::sleep(Duration::from_secs(3));
    let words = ["swap", "--anew", "l2_switch", "--entries", file.to_str().unwrap()];
    switch.command(&words).expect(0, &[]);
    let entry = switch.objects(&["table", "dump", "fdb"]).remove(0);
    let since = entry["since_hit_ms"].as_u64();
    assert!(since.is_some_and(|ms| ms < 2500), "{entry}");
    switch.end("TERM").expect(0, &[]);
}

/// Wrong words about a program with longer keys, and without any array.
#[test]
fn values_of_another_family_are_named() {
    let Some(_network) = private_network("addresses of another family") else { return };
    let rig = rig("ipv4_router", &[]);
    for (words, reason) in [
        (
            "table add fib 10.1.0.0/16 via 9",
            "write `ipv4.dst=10.1.0.0/16`: the key of table `fib` is `ipv4.dst`",
        ),
        (
            "table add fib ipv4.dst=2001:db8::/32 via 9",
            "key `ipv4.dst` has 32 bits, and this is an IPv6 address (128 bits); write an IPv4 address",
        ),
        ("table add fib ipv4.dst=10.0.0.0/255.0.0.0 via 9", "a prefix length of 0 to 32"),
        ("meter dump x", "there is no meter x: the program has no meters"),
    ] {
        rig.refuses(words, reason);
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_file_that_is_named_and_not_loaded_is_said() {
    let Some(_network) = private_network("entries beside a kept state") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, state) = (path("more.yaml"), path("state"));
    let entry = "{ match: { meta.vid: 10, ethernet.dst: 02:00:00:00:00:09 }, action: forward(1) }";
    std::fs::write(&file, format!("entries:\n  fdb:\n    - {entry}\n")).unwrap();
    let more = ["--state", &state, "--entries", &file];
    let Rig { switch, wires: _wires } = rig("l2_switch", &more);
    assert!(!switch.err().contains("what was written before"), "{}", switch.err());
    let note =
        format!("--entries {file} does not go into what is kept (fdb): --anew keeps nothing");
    switch.command(&["swap", "l2_switch", "--entries", &file]).expect(0, &[&note]);
    let anew = switch.command(&["swap", "--anew", "l2_switch", "--entries", &file]);
    assert!(!anew.expect(0, &[]).err.contains("note"), "{}", anew.err);
    let fdb = anew.out.lines().find(|line| line.contains("  fdb ")).unwrap_or_default();
    assert!(fdb.contains("changed: begins anew  ") && fdb.ends_with(" lost"), "{}", anew.out);
    // Another program runs when the switch is killed; it is that one which is back, and is named.
    switch.command(&["swap", "programs/ipv4_router"]).expect(0, &[]);
    switch.signal("KILL");
    drop(switch);
    let again = Switch::on("l2_switch", &["1=raw:a1", "2=raw:b1"], &more);
    let err = again.err();
    assert!(
        err.contains(&format!("in the place of --entries {file}: `wireyard restore {file}`")),
        "{err}"
    );
    assert!(err.contains("wireyard: ipv4_router runs on 1=raw:a1 2=raw:b1"), "{err}");
    again.end("TERM").expect(0, &[]);
}

const KEPT: &str = "
pipeline: kept
include: [ethernet]
parser: { start: { extract: ethernet } }
registers: { seen: { bits: 32, size: 8 } }
actions: { forward: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  known:
    key: { ethernet.dst: exact }
    actions: [forward, drop]
    default: drop
    size: 4
    entries: [ { match: { ethernet.dst: 1 }, action: forward(1), const: true }, { match: { ethernet.dst: 2 }, action: forward(1) } ]
ingress: [ { apply: known }, 'seen[7] = 1' ]
deparser: { emit: [ethernet] }
";

/// What is kept has another id; a constant entry is read by its key, and stays.
#[test]
fn what_a_swap_keeps_under_another_id_is_back_after_a_kill() {
    let Some(_network) = private_network("a register with another id") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let [one, other] = ["0x11", "0x22"]
        .map(|id| file(&format!("{id}.yaml"), &format!("{KEPT}ids: {{ seen: {id} }}\n")));
    let entry = "entries: { known: [ { match: { ethernet.dst: 2 }, action: drop } ] }\n";
    let (entries, state) =
        (file("entries.yaml", entry), folder.path().join("state").display().to_string());
    let more = ["--state", &state];
    let Rig { switch, wires: _wires } = rig(&one, &more);
    let cell = |switch: &Switch| switch.objects(&["register", "dump", "seen", "3"]);
    switch.command(&["register", "set", "seen", "3", "77"]).expect(0, &[]);
    let before = cell(&switch);
    assert!(before.len() == 1 && before[0].to_string().contains("77"), "{before:?}");
    assert_eq!(switch.objects(&["table", "dump", "known", "ethernet.dst=1"]).len(), 1);
    switch
        .command(&["table", "delete", "known", "ethernet.dst=1"])
        .expect(2, &["known", "cannot be changed"]);
    assert_eq!(switch.objects(&["table", "dump", "known"]).len(), 2);
    assert!(switch.command(&["stats"]).expect(0, &[]).out.contains("  sent out  "));
    let note = format!("--entries {entries} does not go into what is kept (known)");
    switch.command(&["swap", &other, "--entries", &entries]).expect(0, &[&note]);
    switch.signal("KILL");
    drop(switch);
    let again = Switch::on(&one, &["1=raw:a1", "2=raw:b1"], &more);
    assert_eq!(cell(&again), before);
    again.end("TERM").expect(0, &[]);
}
