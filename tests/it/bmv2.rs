//! The JSON that p4c makes for bmv2: programs under `data/bmv2` in both languages, P4 and JSON, behave the same.
//!
//! The JSON is written by hand, by bmv2's description of its format, as p4c writes it: temporaries in `scalars`, masks around sums, a table
//! for each statement, an action for each table that lists it. Each has its source beside it, and a script that both pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wireyard_pipeline::ast::{SetKeyDecl, Size, Unit, ValueSetDecl};
use wireyard_pipeline::ir::ControllerHeader;
use wireyard_pipeline::p4info::{Info, Param, Preamble};
use wireyard_pipeline::source::{Loader, parse_bmv2, parse_program};
use wireyard_switch::p4runtime::info::p4info;
use wireyard_switch::p4runtime::proto::p4::config::v1::{P4Info, Preamble as Message};
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_switch::stf::run::{Outcome, run_file};
use wireyard_tables::time::Time;
use wireyard_tests::binary::run;

const FOLDER: &str = "data/bmv2";
const PROGRAMS: [&str; 7] = ["basic", "ways", "state", "stacks", "numbers", "fourteen", "sets"];

fn program(name: &str, language: &str) -> PathBuf {
    fs::canonicalize(Path::new(FOLDER).join(format!("{name}.{language}"))).expect("the program")
}

fn loaded(path: &Path) -> Loaded {
    let place = Place { program: path.to_owned(), no_entries: true, ..Place::default() };
    load(&place).unwrap_or_else(|why| panic!("{}:\n{why}", path.display()))
}

/// Random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

#[test]
fn json_of_bmv2_passes_the_scripts_that_its_source_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in PROGRAMS {
        let text = fs::read_to_string(program(name, "stf")).expect("a script");
        let mut packets = Vec::new();
        for language in ["p4", "json"] {
            let script = folder.path().join(format!("{name}_{language}.stf"));
            let head = format!("program {}\n", program(name, language).display());
            fs::write(&script, head + &text).expect("writes");
            for (engine, level) in
                [(EngineKind::Interpreter, 0), (EngineKind::Jit, 0), (EngineKind::Jit, 2)]
            {
                match run_file(&script, engine, level, &[]) {
                    Outcome::Passed { packets: passed } => packets.push(passed),
                    other => panic!("{name}.{language}, {engine:?} {level}: {other:?}"),
                }
            }
        }
        assert!(packets.iter().all(|one| *one == packets[0] && *one > 3), "{name}: {packets:?}");
    }
}

/// What leaves for each of these frames.
fn outputs(name: &str, language: &str, frames: &[Vec<u8>]) -> Vec<Vec<(PortNumber, Vec<u8>)>> {
    let options = DeviceOptions { engine: EngineKind::Interpreter, ..DeviceOptions::small() };
    let core = loaded(&program(name, language)).device(options).expect("a device");
    let ports: Vec<_> = (0..12).map(|port| (PortNumber(port), LinkType::Ethernet)).collect();
    let mut sandbox = Sandbox::new(core, &ports).expect("ports");
    let one = |frame: &Vec<u8>| {
        assert!(sandbox.send(PortNumber(1), frame, Time::ZERO, None));
        sandbox.received()
    };
    frames.iter().map(one).collect()
}

#[test]
fn json_of_bmv2_does_with_any_packet_what_its_source_does() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut frames = |kinds: &[u8], bytes: usize| -> Vec<Vec<u8>> {
        let mut frame = || {
            let mut frame = vec![kinds[numbers.next(kinds.len())]];
            frame.extend((0..numbers.next(bytes)).map(|_| numbers.next(256) as u8));
            // Small numbers are where shifts and indices are.
            for byte in frame.iter_mut().skip(1) {
                if numbers.next(3) == 0 {
                    *byte &= 7;
                }
            }
            frame
        };
        (0..400).map(|_| frame()).collect()
    };
    let kinds: Vec<u8> = (0..22).collect();
    for (name, frames) in [
        ("numbers", frames(&kinds, 14)),
        ("sets", frames(&[1, 9], 3)),
        ("stacks", frames(&[1, 2, 0x11, 0x1f, 0x21, 0x30, 0x40, 0xee], 16)),
    ] {
        let (source, json) = (outputs(name, "p4", &frames), outputs(name, "json", &frames));
        for ((frame, source), json) in frames.iter().zip(&source).zip(&json) {
            assert_eq!(source, json, "{name}: {frame:02x?}");
        }
        let forwarded = source.iter().filter(|frames| !frames.is_empty()).count();
        assert!(forwarded > 200, "{name}: {forwarded} of 400 packets left");
    }
}

/// Names and ids, sorted, of everything that a controller can name.
fn preambles(info: &P4Info) -> Vec<(u32, String, String)> {
    let mut all: Vec<&Option<Message>> = Vec::new();
    all.extend(info.tables.iter().map(|one| &one.preamble));
    all.extend(info.actions.iter().map(|one| &one.preamble));
    all.extend(info.counters.iter().map(|one| &one.preamble));
    all.extend(info.direct_counters.iter().map(|one| &one.preamble));
    all.extend(info.meters.iter().map(|one| &one.preamble));
    all.extend(info.direct_meters.iter().map(|one| &one.preamble));
    all.extend(info.registers.iter().map(|one| &one.preamble));
    all.extend(info.action_profiles.iter().map(|one| &one.preamble));
    all.extend(info.digests.iter().map(|one| &one.preamble));
    all.extend(info.value_sets.iter().map(|one| &one.preamble));
    let mut all: Vec<_> = all
        .into_iter()
        .flatten()
        .map(|one| (one.id, one.name.clone(), one.alias.clone()))
        .collect();
    all.sort();
    all
}

#[test]
fn json_of_bmv2_has_the_p4info_of_its_source() {
    for name in PROGRAMS {
        let info = |language| p4info(&loaded(&program(name, language)).program);
        let (source, json) = (info("p4"), info("json"));
        assert_eq!(preambles(&source), preambles(&json), "{name}");
        for (a, b) in source.tables.iter().zip(&json.tables) {
            assert_eq!(a.match_fields, b.match_fields, "{name}");
            assert_eq!(a.direct_resource_ids, b.direct_resource_ids, "{name}");
            assert_eq!(a.implementation_id, b.implementation_id, "{name}");
        }
    }
    // Nothing in it that the JSON does not say.
    let info = |language| p4info(&loaded(&program("basic", language)).program);
    assert_eq!(info("p4"), info("json"));
}

/// Kinds of keys and the headers of the controller are in the P4Info only.
#[test]
fn a_p4info_says_what_json_of_bmv2_does_not() {
    let text = fs::read_to_string(program("state", "json")).expect("a program");
    // p4c writes `ternary` for an optional key.
    let (kinds, own) = text.split_at(text.rfind("\"name\": \"ingress.own\"").expect("a table"));
    let text = format!(
        "{kinds}{}",
        own.replacen("\"match_type\": \"exact\"", "\"match_type\": \"ternary\"", 1)
    );
    let loader = Loader::in_memory([("state.json", text.as_str())], &[]);
    let read = |described: Option<&Info>| {
        let parsed = parse_bmv2("state.json".as_ref(), &loader, described);
        parsed.map(|parsed| parsed.units[0].clone())
    };
    let own = read(None).unwrap_or_else(|why| panic!("{why}"));
    let kind = |unit: &Unit| {
        let (_, table) = unit.tables.iter().find(|(name, _)| name.value == "own").expect("own");
        table.key[0].kind.value.clone()
    };
    assert_eq!(kind(&own), "ternary");
    assert!(own.headers.iter().all(|(_, header)| header.controller.is_none()));
    let mut info = own.origin.expect("names of P4").info;
    let table = info.tables.iter_mut().find(|one| one.preamble.name == "ingress.own").expect("own");
    table.keys[0].kind = "optional".into();
    let field = |(id, (name, bits)): (u32, (&str, u32))| Param {
        id,
        name: name.into(),
        bits,
        type_name: None,
        doc: None,
        annotations: Vec::new(),
    };
    let fields = (1..).zip([("kind", 8), ("value", 8), ("count", 32)]).map(field).collect();
    let names = Preamble { name: "packet_in".into(), id: 1, ..Preamble::default() };
    info.controller_headers.push((names, fields));
    let described = read(Some(&info)).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(kind(&described), "optional");
    let controller = described.headers.iter().find_map(|(_, header)| header.controller.clone());
    assert_eq!(controller.map(|one| one.value), Some(ControllerHeader::PacketIn));
    assert_eq!(described.origin.map(|origin| origin.info), Some(info.clone()));
    info.actions[0].params.push(field((9, ("more", 8))));
    let why = read(Some(&info)).expect_err("another action").to_string();
    assert!(why.contains("other parameters of the action"), "{why}");
}

/// How the keys of value sets match, and how many members there are, is in the P4Info only too.
#[test]
fn a_p4info_says_how_members_of_value_sets_match() {
    let text = fs::read_to_string(program("sets", "json")).expect("a program");
    let loader = Loader::in_memory([("sets.json", text.as_str())], &[]);
    let read = |described: Option<&Info>| {
        let parsed = parse_bmv2("sets.json".as_ref(), &loader, described);
        parsed.unwrap_or_else(|why| panic!("{why}")).units[0].clone()
    };
    let shape = |unit: &Unit| -> Vec<(u64, Vec<String>)> {
        let kind = |key: &SetKeyDecl| key.kind.as_ref().expect("a kind").value.clone();
        let size = |set: &ValueSetDecl| match &set.size {
            Size::Number(size) => size.value,
            other => panic!("{other:?}"),
        };
        let one = |set: &ValueSetDecl| (size(set), set.keys.iter().map(kind).collect());
        unit.value_sets.iter().map(|(_, set)| one(set)).collect()
    };
    let exact = |count| vec!["exact".to_owned(); count];
    let own = read(None);
    assert_eq!(shape(&own), [(1024, exact(2)), (1024, exact(1))]);
    let mut info = own.origin.expect("names of P4").info;
    info.value_sets[0].size = 7;
    info.value_sets[0].fields[1].kind = "range".into();
    info.value_sets[1].fields[0].kind = "ternary".into();
    let range = vec!["exact".to_owned(), "range".to_owned()];
    let described = read(Some(&info));
    assert_eq!(shape(&described), [(7, range), (1024, vec!["ternary".to_owned()])]);
}

#[test]
fn commands_take_json_of_bmv2_where_they_take_a_program() {
    let json = program("basic", "json");
    let json = json.to_str().unwrap();
    run(&["check", json]).expect(0, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    run(&["convert", json, "-o", &path("made.yaml")]).expect(0, &[]);
    let yaml = fs::read_to_string(path("made.yaml")).expect("the YAML");
    assert!(yaml.contains("ipv4_lpm") && yaml.contains("ipv4_forward"), "{yaml}");
    run(&["check", &path("made.yaml")]).expect(0, &[]);
    // What it is packed as is what a controller of bmv2 pushes.
    run(&["pack", json, "-o", &path("blob")]).expect(0, &[]);
    assert_eq!(fs::read(path("blob")).ok(), fs::read(json).ok());
    let info = run(&["p4info", json]);
    info.expect(0, &[]);
    assert!(info.out.contains("name: \"MyIngress.ipv4_lpm\""), "{}", info.out);
}

/// No panic and no endless work for any change of a program: bytes removed, doubled, exchanged.
#[test]
fn mutants_of_json_of_bmv2_end() {
    let count = std::env::var("WIREYARD_P4_MUTANTS").ok().and_then(|n| n.parse().ok());
    let (mut numbers, count) = (Numbers(0x2545_f491_4f6c_dd1d), count.unwrap_or(200_usize));
    let texts: Vec<String> =
        PROGRAMS.map(|name| fs::read_to_string(program(name, "json")).expect("a program")).into();
    let (mut accepted, mut refused) = (0, 0);
    for at in 0..count {
        let mut bytes = texts[at % texts.len()].clone().into_bytes();
        for _ in 0..=numbers.next(2) {
            let (from, len) = (numbers.next(bytes.len() - 60), 1 + numbers.next(12));
            match numbers.next(4) {
                0 => drop(bytes.drain(from..from + len)),
                1 => {
                    let part = bytes[from..from + len].to_vec();
                    let to = numbers.next(bytes.len());
                    bytes.splice(to..to, part);
                }
                2 => {
                    // A number or a word becomes another one of its kind, so that it is still JSON.
                    let digits = |byte: &u8| byte.is_ascii_digit();
                    if let Some(place) = bytes[from..].iter().position(digits) {
                        bytes[from + place] = b'0' + numbers.next(10) as u8;
                    }
                }
                _ => {
                    let words: [&[u8]; 6] = [
                        b"\"ethernet\"",
                        b"\"field\"",
                        b"null",
                        b"\"assign\"",
                        b"\"hexstr\"",
                        b"[]",
                    ];
                    let (a, b) = (words[numbers.next(6)], words[numbers.next(6)]);
                    let found = bytes[from..].windows(a.len()).position(|part| part == a);
                    if let Some(place) = found {
                        bytes.splice(from + place..from + place + a.len(), b.iter().copied());
                    }
                }
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let start = Instant::now();
        let loader = Loader::in_memory([("m.json", text.as_str())], &[]);
        match parse_program("m.json".as_ref(), &loader) {
            Ok(_) => accepted += 1,
            Err(why) => {
                refused += 1;
                assert!(why.diagnostics.has_errors(), "{why}");
            }
        }
        assert!(start.elapsed() < Duration::from_secs(10), "slow:\n{text}");
    }
    assert!(accepted > count / 50 && refused > count / 3, "{accepted} accepted, {refused} refused");
}

/// What is wrong in JSON is said at its place: `data/bmv2/wrong.txt` has a change of a program and what is said about it, in each block.
#[test]
fn wrong_json_of_bmv2_is_refused_with_its_reason() {
    let text = fs::read_to_string(Path::new(FOLDER).join("wrong.txt")).expect("the wrong programs");
    let mut wrong = Vec::new();
    let blocks: Vec<&str> = text.trim_end().split("\n\n").collect();
    for block in &blocks {
        let part = |mark: &str| {
            let found = block.lines().find_map(|line| line.strip_prefix(mark));
            found.unwrap_or_else(|| panic!("no `{mark}` in\n{block}"))
        };
        let (name, from, to, said) = (part("in "), part("- "), part("+ "), part("! "));
        let json = fs::read_to_string(Path::new(FOLDER).join(name)).expect("a program");
        assert!(json.contains(from), "{name} has nothing like {from}");
        let json = json.replacen(from, to, 1);
        let loader = Loader::in_memory([("wrong.json", json.as_str())], &[]);
        match parse_program("wrong.json".as_ref(), &loader) {
            Err(why) if why.to_string().contains(said) => {
                assert!(why.to_string().contains("wrong.json:"), "no place: {why}");
            }
            Err(why) => wrong.push(format!("{}: says\n{why}", part("# "))),
            Ok(_) => wrong.push(format!("{}: is taken", part("# "))),
        }
    }
    assert!(blocks.len() >= 30, "{} programs", blocks.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// P4-14's length of a header in its type is not followed, so it is refused at its place, as the page says.
#[test]
fn a_length_in_a_header_type_is_refused() {
    let text = fs::read_to_string(program("stacks", "json")).expect("a program");
    let length = "\"length_exp\": {\"type\": \"expression\", \"value\": null}, \"max_length\": 9";
    for (length, refused) in [(length, true), ("\"length_exp\": null, \"max_length\": 9", false)] {
        let text = text.replacen("\"max_length\": 9", length, 1);
        let loader = Loader::in_memory([("m.json", text.as_str())], &[]);
        let said = parse_program("m.json".as_ref(), &loader).err().map(|why| why.to_string());
        assert_eq!(said.is_some(), refused, "{said:?}");
        assert!(said.is_none_or(|said| said.contains("length_exp")));
    }
}

/// A program that parses a byte `o.a`, and ends with `last`, which sends to port 2. `edit` changes the rest.
fn small(edit: impl FnOnce(&mut Value)) -> String {
    let field = |name: &str| json!({"type": "field", "value": ["standard_metadata", name]});
    let send = |id: u32, name: &str, port: &str| {
        let port = json!({"type": "hexstr", "value": port});
        let parameters = json!([field("egress_spec"), port]);
        let primitives = json!([{"op": "assign", "parameters": parameters}]);
        json!({"name": name, "id": id, "runtime_data": [], "primitives": primitives})
    };
    let standard = [("ingress_port", 9), ("egress_spec", 9), ("parser_error", 32)];
    let standard = standard.map(|(name, bits)| json!([name, bits, false]));
    let pipeline = |name: &str, first: Value| {
        json!({"name": name, "init_table": first, "tables": [], "action_profiles": [], "conditionals": [],
               "action_calls": [{"name": "last", "id": 0, "action_id": 1, "next_node": null}]})
    };
    let mut egress = pipeline("egress", Value::Null);
    egress["action_calls"] = json!([]);
    let mut program = json!({
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": standard},
            {"name": "o_t", "id": 1, "fields": [["a", 8, false], ["b", 8, false]]},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": true},
            {"name": "o", "id": 1, "header_type": "o_t", "metadata": false},
        ],
        "errors": [],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
            "name": "start", "id": 0,
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "o"}]}],
            "transition_key": [],
            "transitions": [{"value": "default", "mask": null, "next_state": null}],
        }]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["o"], "primitives": []}],
        "actions": [
            {"name": "NoAction", "id": 0, "runtime_data": [], "primitives": []},
            send(1, "send", "0x2"),
            send(2, "other", "0x3"),
        ],
        "pipelines": [pipeline("ingress", json!("last")), egress],
    });
    edit(&mut program);
    program.to_string()
}

/// `o.a == value`, with its successors.
fn compares(name: &str, value: usize, yes: Option<String>, no: &str) -> Value {
    let left = json!({"type": "field", "value": ["o", "a"]});
    let right = json!({"type": "hexstr", "value": format!("{value:#x}")});
    let same = json!({"op": "==", "left": left, "right": right});
    json!({"name": name, "id": 0, "expression": {"type": "expression", "value": same},
           "true_next": yes, "false_next": no})
}

/// What is said about a small program.
fn said(text: &str) -> String {
    let loader = Loader::in_memory([("small.json", text)], &[]);
    let read = parse_program("small.json".as_ref(), &loader);
    read.err().map(|why| why.to_string()).unwrap_or_default()
}

/// The ports by which a frame that begins with each of these bytes leaves.
fn ports_of(text: &str, first: &[u8]) -> Vec<Option<u16>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.json");
    fs::write(&path, text).expect("writes");
    let options = DeviceOptions { engine: EngineKind::Interpreter, ..DeviceOptions::small() };
    let core = loaded(&path).device(options).expect("a device");
    let ports: Vec<_> = (0..12).map(|port| (PortNumber(port), LinkType::Ethernet)).collect();
    let mut sandbox = Sandbox::new(core, &ports).expect("ports");
    let one = |byte: &u8| {
        assert!(sandbox.send(PortNumber(1), &[*byte; 60], Time::ZERO, None));
        sandbox.received().first().map(|(port, _)| port.0)
    };
    first.iter().map(one).collect()
}

/// `if (c) { other(); exit; }` 70 times in a row: the rest is not in 70 branches.
#[test]
fn branches_that_end_the_pipeline_leave_the_rest_flat() {
    let text = small(|program| {
        let ingress = &mut program["pipelines"][0];
        for at in 0..70 {
            let next = if at == 69 { "last".to_owned() } else { format!("node_{}", at + 1) };
            let end = (at % 2 == 0).then(|| format!("other_{at}"));
            let node = compares(&format!("node_{at}"), at, end, &next);
            ingress["conditionals"].as_array_mut().unwrap().push(node);
            ingress["action_calls"].as_array_mut().unwrap().push(
                json!({"name": format!("other_{at}"), "id": 0, "action_id": 2, "next_node": null}),
            );
        }
        ingress["init_table"] = json!("node_0");
    });
    let wanted = [Some(3), Some(0), Some(3), Some(0), Some(2), Some(2)];
    assert_eq!(ports_of(&text, &[0, 1, 68, 69, 70, 200]), wanted);
}

/// A chain of 120 `else if`, with a step behind it: P4 is read to 200 levels.
#[test]
fn an_else_that_is_a_condition_is_one_level() {
    let text = small(|program| {
        let ingress = &mut program["pipelines"][0];
        let call = |name: &str, action: u32, next: Value| json!({"name": name, "id": 0, "action_id": action, "next_node": next});
        ingress["action_calls"] =
            json!([call("last", 1, json!("behind")), call("behind", 0, Value::Null)]);
        for at in 0..120 {
            let next = if at == 119 { "last".to_owned() } else { format!("node_{}", at + 1) };
            let other = format!("other_{at}");
            let calls = ingress["action_calls"].as_array_mut().unwrap();
            calls.push(call(&other, 2, json!("behind")));
            let node = compares(&format!("node_{at}"), at, Some(other), &next);
            ingress["conditionals"].as_array_mut().unwrap().push(node);
        }
        ingress["init_table"] = json!("node_0");
    });
    assert_eq!(ports_of(&text, &[0, 60, 119, 120]), [Some(3), Some(3), Some(3), Some(2)]);
}

/// Tables in a row that all end at `drop`: the branches of actions with one successor are written once.
#[test]
fn branches_of_actions_do_not_multiply() {
    let text = small(|program| {
        let drop = json!([{"op": "mark_to_drop", "parameters": []}]);
        program["actions"].as_array_mut().unwrap().extend([
            json!({"name": "drop", "id": 3, "runtime_data": [], "primitives": drop}),
            json!({"name": "pass", "id": 4, "runtime_data": [], "primitives": []}),
        ]);
        let ingress = &mut program["pipelines"][0];
        for at in 0..40 {
            let next = if at == 39 { "last".to_owned() } else { format!("ingress.t_{}", at + 1) };
            let key = format!("{at:#x}");
            ingress["tables"].as_array_mut().unwrap().push(json!({
                "name": format!("ingress.t_{at}"), "id": at, "max_size": 16,
                "key": [{"match_type": "exact", "name": "a", "target": ["o", "a"], "mask": null}],
                "actions": ["drop", "pass", "NoAction"], "action_ids": [3, 4, 0],
                "next_tables": {"drop": null, "pass": next, "NoAction": next},
                "default_entry": {"action_id": 0, "action_const": true, "action_data": []},
                "entries": [{
                    "match_key": [{"match_type": "exact", "key": key}],
                    "action_entry": {"action_id": 3, "action_data": []}, "priority": 1,
                }],
            }));
        }
        ingress["init_table"] = json!("ingress.t_0");
    });
    assert_eq!(ports_of(&text, &[0, 20, 39, 40]), [None, None, None, Some(2)]);
}

#[test]
fn programs_of_bmv2_beyond_a_limit_are_refused() {
    // 9,000 branches within each other, each with a step of its own behind it.
    let nested = small(|program| {
        let ingress = &mut program["pipelines"][0];
        for at in 0..9000 {
            let yes = if at == 8999 { "last".to_owned() } else { format!("node_{}", at + 1) };
            let other = format!("other_{at}");
            let node = compares(&format!("node_{at}"), at % 256, Some(yes), &other);
            ingress["conditionals"].as_array_mut().unwrap().push(node);
            let call = json!({"name": other, "id": 0, "action_id": 2, "next_node": "last"});
            ingress["action_calls"].as_array_mut().unwrap().push(call);
        }
        ingress["init_table"] = json!("node_0");
    });
    // An action that is written each time it is called.
    let copied = small(|program| {
        let one = program["actions"][1]["primitives"][0].clone();
        program["actions"][1]["primitives"] = json!(vec![one; 5000]);
        let calls = (0..500).map(|at| {
            let next = if at == 499 { "last".to_owned() } else { format!("call_{}", at + 1) };
            json!({"name": format!("call_{at}"), "id": 0, "action_id": 1, "next_node": next})
        });
        let calls: Vec<Value> = calls.collect();
        let ingress = &mut program["pipelines"][0];
        ingress["action_calls"].as_array_mut().unwrap().extend(calls);
        ingress["init_table"] = json!("call_0");
    });
    // Jumps to the next but one primitive, each over one.
    let jumps = small(|program| {
        let condition = json!({"type": "field", "value": ["o", "a"]});
        let jump = |to: usize| {
            let to = json!({"type": "hexstr", "value": format!("{to:#x}")});
            json!({"op": "_jump_if_zero", "parameters": [condition, to]})
        };
        program["actions"][1]["primitives"] = (0..9000).map(|_| jump(9000)).collect();
    });
    let errors = small(|program| {
        program["errors"] = (0..100_000).map(|at| json!([format!("E{at}"), at])).collect();
    });
    for (text, why) in [
        (nested, "branches are nested deeper than 100 levels"),
        (copied, "more than 8 MiB of P4"),
        (jumps, "jumps are nested deeper than 100 levels"),
        (errors, "100000 errors: there are at most 256"),
    ] {
        let said = said(&text);
        assert!(said.contains(why), "{why}: {said}");
    }
}

/// A program with two headers of the same fields, for packets to the controller and from it; their P4Info.
fn with_controller(types: [&str; 2], name: &str) -> (String, Info) {
    let text = small(|program| {
        for (at, ty) in types.iter().enumerate() {
            let fields = json!([[name, 9, false], ["_pad", 7, false]]);
            program["header_types"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": ty, "id": 2 + at, "fields": fields}));
            program["headers"].as_array_mut().unwrap().push(
                json!({"name": format!("c{at}"), "id": 2 + at, "header_type": ty, "metadata": false}),
            );
            program["deparsers"][0]["order"].as_array_mut().unwrap().push(json!(format!("c{at}")));
        }
    });
    let field = |id, name: &str, bits, type_name: Option<&str>| Param {
        id,
        name: name.into(),
        bits,
        type_name: type_name.map(Into::into),
        doc: None,
        annotations: Vec::new(),
    };
    // A port of 9 bits is a number of 32 for a controller.
    let fields = vec![field(1, name, 32, Some("port_t")), field(2, "_pad", 7, None)];
    let mut info = Info::default();
    for (id, kind) in (1..).zip(["packet_in", "packet_out"]) {
        let names = Preamble { name: kind.into(), id, ..Preamble::default() };
        info.controller_headers.push((names, fields.clone()));
    }
    (text, info)
}

/// The header types with their kind of controller header.
fn controllers(text: &str, info: Option<&Info>) -> Result<Vec<(String, String)>, String> {
    let loader = Loader::in_memory([("small.json", text)], &[]);
    let parsed = parse_bmv2("small.json".as_ref(), &loader, info).map_err(|why| why.to_string())?;
    let all = parsed.units[0].headers.iter().filter_map(|(name, header)| {
        let kind = header.controller.as_ref()?;
        Some((name.value.clone(), format!("{:?}", kind.value)))
    });
    Ok(all.collect())
}

#[test]
fn headers_of_the_controller_are_found_by_their_fields_and_names() {
    let (kind_in, kind_out) = ("PacketIn".to_owned(), "PacketOut".to_owned());
    let (text, info) = with_controller(["packet_out_t", "packet_in_t"], "port");
    let mut found = controllers(&text, Some(&info)).unwrap_or_else(|why| panic!("{why}"));
    found.sort();
    let wanted = [("packet_in_t".to_owned(), kind_in), ("packet_out_t".to_owned(), kind_out)];
    assert_eq!(found, wanted);
    assert_eq!(controllers(&text, None).map(|found| found.len()), Ok(2));
    // Without such names each has one.
    let (text, mut info) = with_controller(["x_t", "y_t"], "port");
    assert_eq!(controllers(&text, Some(&info)).map(|found| found.len()), Ok(2));
    info.controller_headers[1].1[0].name = "other".into();
    let why = controllers(&text, Some(&info)).expect_err("no such header");
    assert!(why.contains("the controller header packet_out, and no header type"), "{why}");
}

/// Fields may have the names of P4's properties, and a controller sees the names of the source.
#[test]
fn fields_keep_their_names_for_a_controller() {
    for name in ["priority", "type", "table"] {
        let (text, _) = with_controller(["packet_in_t", "packet_out_t"], name);
        let loader = Loader::in_memory([("small.json", text.as_str())], &[]);
        let parsed = parse_program("small.json".as_ref(), &loader);
        let parsed = parsed.unwrap_or_else(|why| panic!("{name}: {why}"));
        let origin = parsed.units[0].origin.as_ref().expect("names of P4");
        for (_, fields) in &origin.info.controller_headers {
            assert_eq!(fields[0].name, name);
        }
        assert_eq!(origin.info.controller_headers.len(), 2);
    }
}

/// Copies keep standard metadata and headers as the device does, whether a list has them or not.
#[test]
fn lists_of_fields_may_have_what_every_copy_keeps() {
    let text = fs::read_to_string(program("fourteen", "json")).expect("a program");
    let own = r#""name": "fl1", "elements": [{"type": "field", "value": ["scalars", "meta.turn"]}"#;
    assert!(text.contains(own));
    for more in [r#"["standard_metadata", "ingress_port"]"#, r#"["o", "a"]"#] {
        let text =
            text.replacen(own, &format!(r#"{own}, {{"type": "field", "value": {more}}}"#), 1);
        assert_eq!(said(&text), "", "{more}");
    }
}

/// A table with one key, and an entry with this value and mask; its name.
fn with_entry(name: &str, value: &str, mask: &str) -> String {
    small(|program| {
        program["pipelines"][0]["tables"] = json!([{
            "name": name, "id": 0, "max_size": 16,
            "key": [{"match_type": "ternary", "name": "a", "target": ["o", "a"], "mask": null}],
            "actions": ["other", "NoAction"], "action_ids": [2, 0],
            "base_default_next": "last", "next_tables": {"other": null, "NoAction": "last"},
            "default_entry": {"action_id": 0, "action_const": true, "action_data": []},
            "entries": [{
                "match_key": [{"match_type": "ternary", "key": value, "mask": mask}],
                "action_entry": {"action_id": 2, "action_data": []}, "priority": 1,
            }],
        }]);
        program["pipelines"][0]["init_table"] = json!(name);
    })
}

#[test]
fn constant_entries_of_optional_keys_have_a_value_or_none() {
    let read = |text: &str, info: Option<&Info>| {
        let loader = Loader::in_memory([("small.json", text)], &[]);
        let parsed = parse_bmv2("small.json".as_ref(), &loader, info);
        parsed.map(|parsed| parsed.units[0].clone()).map_err(|why| why.to_string())
    };
    let text = |mask: &str| with_entry("ingress.t", "0x07", mask);
    let own = read(&text("0xff"), None).unwrap_or_else(|why| panic!("{why}"));
    let mut info = own.origin.expect("names of P4").info;
    info.tables[0].keys[0].kind = "optional".into();
    for mask in ["0xff", "0x00"] {
        let described = read(&text(mask), Some(&info)).unwrap_or_else(|why| panic!("{why}"));
        let (_, table) = &described.tables[0];
        assert_eq!(table.key[0].kind.value, "optional");
    }
    let why = read(&text("0x0f"), Some(&info)).expect_err("a part of the bits");
    assert!(why.contains("a mask of an optional key"), "{why}");
}

/// What p4c makes of a `switch` has no names for a controller.
#[test]
fn tables_of_a_switch_are_hidden() {
    for (name, is_shown) in [("ingress.t", true), ("switch_0_table", false)] {
        let text = with_entry(name, "0x07", "0xff");
        assert_eq!(ports_of(&text, &[7, 8]), [Some(3), Some(2)]);
        let loader = Loader::in_memory([("small.json", text.as_str())], &[]);
        let parsed = parse_program("small.json".as_ref(), &loader);
        let parsed = parsed.unwrap_or_else(|why| panic!("{why}"));
        let info = &parsed.units[0].origin.as_ref().expect("names of P4").info;
        let mut actions = info.actions.iter();
        let is_listed = actions.any(|one| one.preamble.name == "other" && !one.hidden);
        assert_eq!((info.tables.len() == 1, is_listed), (is_shown, is_shown), "{name}");
    }
}

/// A `source_fragment` is in the encoding of its source; some editors write a mark in front.
#[test]
fn json_of_bmv2_in_any_encoding_is_recognised() {
    let text = small(|program| program["source_info"] = json!({"source_fragment": "x@y"}));
    let byte = text.bytes().map(|byte| if byte == b'@' { 0xe9 } else { byte });
    let mut bytes: Vec<u8> = byte.collect();
    assert!(wireyard_switch::p4runtime::pack::is_json(&bytes));
    for _ in 0..2 {
        let loader = Loader::in_memory([("small.json", bytes.as_slice())], &[]);
        let read = parse_program("small.json".as_ref(), &loader);
        assert!(read.is_ok(), "{}", read.err().map(|why| why.to_string()).unwrap_or_default());
        let read = wireyard_switch::p4runtime::pack::unpack(&bytes, None);
        assert!(read.is_ok(), "{}", read.err().map(|why| why.to_string()).unwrap_or_default());
        bytes.splice(0..0, "\u{feff}".bytes());
    }
}
