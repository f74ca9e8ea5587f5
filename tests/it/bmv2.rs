//! The JSON that p4c makes for bmv2: programs under `data/bmv2` in both languages, P4 and JSON, behave the same.
//!
//! The JSON is written by hand, by bmv2's description of its format, as p4c writes it: temporaries in `scalars`, masks around sums, a table
//! for each statement, an action for each table that lists it. Each has its source beside it, and a script that both pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

mod small;

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
                [(EngineKind::Interp, 0), (EngineKind::Jit, 0), (EngineKind::Jit, 2)]
            {
                match run_file(&script, engine, level, &Place::default()) {
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
    let options = DeviceOptions { engine: EngineKind::Interp, ..DeviceOptions::small() };
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
