//! Value sets whose members are masks, prefixes and ranges, of one key and of several: by packet tests, P4Runtime, and commands.
//!
//! What needs veth pairs in a private namespace needs root and skips loudly otherwise.

use serde_json::json;
use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, codes, update};

use crate::p4runtime::{Rig, rig};
use crate::rig::private_network;
use p4::entity::Entity as Message;
use p4::field_match::{Exact, FieldMatchType as Field, Lpm, Optional, Range, Ternary};
use p4::update::Type::Modify;

const PROGRAM: &str = "tests/data/p4runtime/sets.yaml";

fn exact(value: &[u8]) -> Field {
    Field::Exact(Exact { value: value.to_vec() })
}

fn ternary(value: &[u8], mask: &[u8]) -> Field {
    Field::Ternary(Ternary { value: value.to_vec(), mask: mask.to_vec() })
}

fn range(low: &[u8], high: &[u8]) -> Field {
    Field::Range(Range { low: low.to_vec(), high: high.to_vec() })
}

fn lpm(value: &[u8], prefix_len: i32) -> Field {
    Field::Lpm(Lpm { value: value.to_vec(), prefix_len })
}

fn optional(value: &[u8]) -> Field {
    Field::Optional(Optional { value: value.to_vec() })
}

/// A member with these matches by the numbers of their fields.
fn member(matches: &[(u32, Field)]) -> p4::ValueSetMember {
    let one = |(field_id, found): &(u32, Field)| p4::FieldMatch {
        field_id: *field_id,
        field_match_type: Some(found.clone()),
    };
    p4::ValueSetMember { r#match: matches.iter().map(one).collect() }
}

fn set(controller: &Controller, name: &str, members: Vec<p4::ValueSetMember>) -> Message {
    let value_set_id = controller.id(name);
    Message::ValueSetEntry(p4::ValueSetEntry { value_set_id, members })
}

/// Whether the program finds a packet in the set that its first byte stands for.
fn finds(rig: &mut Rig, way: u8, a: u8, b: u16, c: u32) -> bool {
    let mut packet = [&[way, a][..], &b.to_be_bytes(), &c.to_be_bytes(), &[0; 52]].concat();
    packet[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    let [out] = &rig.passes(&packet)[..] else { panic!("one packet comes out") };
    out[8] == 1
}

/// Writes members, which are read back as they are.
fn write(controller: &mut Controller, name: &str, members: Vec<p4::ValueSetMember>) {
    let written = set(controller, name, members);
    controller.write(vec![update(Modify, written.clone())]).unwrap();
    let all = set(controller, name, Vec::new());
    assert_eq!(controller.read(vec![all]).unwrap(), [written]);
}

#[test]
fn packet_tests_of_value_sets_pass_in_every_engine_and_level() {
    run(&["test", "tests/data/p4runtime/sets.stf", "--every-level"]).expect(0, &[]);
}

#[test]
fn controllers_write_and_read_members_of_every_kind() {
    let Some(_network) = private_network("value sets of a controller") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    write(&mut controller, "near", vec![member(&[(1, range(&[5], &[9]))])]);
    assert!(finds(&mut rig, 2, 0, 5, 0) && finds(&mut rig, 2, 0, 9, 0));
    assert!(!finds(&mut rig, 2, 0, 4, 0) && !finds(&mut rig, 2, 0, 10, 0));
    let nets = [lpm(&[10, 1, 0, 0], 16), lpm(&[10, 2, 3, 4], 32)];
    write(&mut controller, "nets", nets.map(|net| member(&[(1, net)])).to_vec());
    assert!(finds(&mut rig, 3, 0, 0, 0x0a01_ffff) && finds(&mut rig, 3, 0, 0, 0x0a02_0304));
    assert!(!finds(&mut rig, 3, 0, 0, 0x0a02_0305));
    // A field that matches everything is left out.
    let several = vec![
        member(&[
            (1, exact(&[1])),
            (2, ternary(&[1, 0], &[0xf, 0])),
            (3, optional(&[10, 0, 0, 1])),
        ]),
        member(&[(1, exact(&[2]))]),
    ];
    write(&mut controller, "all", several);
    assert!(finds(&mut rig, 4, 1, 0x21ff, 0x0a00_0001) && finds(&mut rig, 4, 2, 7, 7));
    assert!(!finds(&mut rig, 4, 1, 0x22ff, 0x0a00_0001));
    assert!(!finds(&mut rig, 4, 1, 0x21ff, 0x0a00_0002));
    // A member without a match takes all.
    write(&mut controller, "nets", vec![member(&[])]);
    assert!(finds(&mut rig, 3, 0, 0, 0));
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn members_that_no_key_takes_are_refused() {
    let Some(_network) = private_network("refused members of value sets") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let bits = |values: &[u8]| values.iter().map(|b| member(&[(1, range(&[*b], &[*b]))])).collect();
    let (invalid, wide) = (Code::InvalidArgument, Code::OutOfRange);
    let one = |field| vec![member(&[(1, field)])];
    for (name, members, code) in [
        ("near", one(range(&[2], &[1])), invalid),
        ("near", one(range(&[0], &[0xff, 0xff])), invalid),
        ("near", one(range(&[0], &[1, 0, 0])), wide),
        ("near", one(exact(&[1])), invalid),
        ("near", vec![member(&[(2, range(&[1], &[2]))])], invalid),
        ("near", bits(&[1, 2, 1]), Code::AlreadyExists),
        ("near", bits(&[1, 2, 3, 4, 5]), Code::ResourceExhausted),
        ("nets", one(lpm(&[10, 0, 0, 0], 33)), invalid),
        ("nets", one(lpm(&[10, 0, 0, 1], 8)), invalid),
        ("nets", one(lpm(&[0], 0)), invalid),
        ("nets", one(lpm(&[10, 0, 0, 0], -1)), invalid),
        ("all", one(exact(&[1, 0])), wide),
        ("all", vec![member(&[(2, ternary(&[1], &[1]))])], invalid),
        ("all", vec![member(&[(1, exact(&[1])), (2, ternary(&[3], &[1]))])], invalid),
        ("all", vec![member(&[(1, exact(&[1])), (2, ternary(&[0], &[0]))])], invalid),
        ("all", vec![member(&[(1, exact(&[1])), (1, exact(&[1]))])], invalid),
        ("plain", one(ternary(&[1], &[1])), invalid),
    ] {
        let refused = update(Modify, set(&controller, name, members.clone()));
        let refused = controller.write(vec![refused]).expect_err(name);
        assert_eq!(codes(&refused), [code], "{name} {members:?}: {refused}");
    }
    assert!(finds(&mut rig, 2, 0, 7, 0), "the members are those of the program");
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn commands_write_save_and_restore_members() {
    let Some(_network) = private_network("value sets by command") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let switch = &rig.switch;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("first.yaml"), path("second.yaml"));
    let save = |path: &str| std::fs::write(path, switch.command(&["save"]).out).unwrap();
    save(&first);
    for words in [
        &["near", "3..5", "9"][..],
        &["nets", "10.9.0.0/16", "_"],
        &["all", "a=3,b=0x10 &&& 0x30,c=10.0.0.1", "a=4"],
    ] {
        switch.command(&[&["value-set", "set"], words].concat()).expect(0, &[]);
    }
    let dumped = json!([
        { "value_set": "plain", "members": ["0x800"] },
        { "value_set": "near", "members": ["3..5", "0x9"] },
        { "value_set": "nets", "members": ["10.9.0.0/16", "_"] },
        { "value_set": "all", "members": [
            { "a": "0x3", "b": "0x10 &&& 0x30", "c": "10.0.0.1" }, { "a": "0x4" } ] },
    ]);
    let dump = || json!(switch.objects(&["value-set", "dump"]));
    assert_eq!(dump(), dumped);
    save(&second);
    let refused = switch.command(&["value-set", "set", "near", "5..3"]);
    refused.expect(2, &["this range is the wrong way round"]);
    switch.command(&["value-set", "set", "all", "a=1,d=2"]).expect(2, &["has no key `d`"]);
    switch.command(&["restore", &first]).expect(0, &[]);
    let before = dump();
    assert_eq!(before[1], json!({ "value_set": "near", "members": ["0x7", "10..20"] }));
    switch.command(&["restore", &second]).expect(0, &[]);
    assert_eq!(dump(), dumped);
    // A swap keeps the sets of the same shape.
    let text = std::fs::read_to_string(wireyard_tests::workspace_root().join(PROGRAM)).unwrap();
    let other = path("other.yaml");
    std::fs::write(&other, text.replace("kind: lpm", "kind: ternary")).unwrap();
    let swapped = switch.command(&["swap", &other]);
    swapped.expect(0, &[]);
    let after = dump();
    assert_eq!([&after[1], &after[3]], [&dumped[1], &dumped[3]], "{}", swapped.out);
    assert_eq!(after[2], json!({ "value_set": "nets", "members": ["10.0.0.0/8"] }));
    assert!(finds(&mut rig, 2, 0, 4, 0) && !finds(&mut rig, 2, 0, 7, 0));
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn members_are_kept_in_the_state_of_a_switch() {
    let Some(_network) = private_network("value sets in a store") else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state").to_str().unwrap().to_owned();
    let Rig { switch, wires: _wires, .. } = rig(PROGRAM, &["--state", &state]);
    switch.command(&["value-set", "set", "near", "3..5", "9"]).expect(0, &[]);
    switch.command(&["value-set", "set", "all", "a=3,b=0x10 &&& 0x30"]).expect(0, &[]);
    let dump = |switch: &Switch| switch.objects(&["value-set", "dump"]);
    let written = dump(&switch);
    switch.end("TERM").expect(0, &[]);
    let again = Switch::on(PROGRAM, &["1=raw:a1", "2=raw:b1"], &["--state", &state]);
    assert_eq!(dump(&again), written);
    again.end("TERM").expect(0, &[]);
}
