//! JSON of bmv2 that a test writes: a small program with what p4c makes of one construct, or beyond one limit.

use std::fs;

use serde_json::{Value, json};
use wireyard_pipeline::p4info::{Info, Param, Preamble};
use wireyard_pipeline::source::{Loader, parse_bmv2, parse_program};
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;

use super::{loaded, program};
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
    let options = DeviceOptions { engine: EngineKind::Interp, ..DeviceOptions::small() };
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

/// A table of this name with one key, and an entry for 7 with this mask.
fn with_entry(name: &str, mask: &str) -> String {
    small(|program| {
        program["pipelines"][0]["tables"] = json!([{
            "name": name, "id": 0, "max_size": 16,
            "key": [{"match_type": "ternary", "name": "a", "target": ["o", "a"], "mask": null}],
            "actions": ["other", "NoAction"], "action_ids": [2, 0],
            "base_default_next": "last", "next_tables": {"other": null, "NoAction": "last"},
            "default_entry": {"action_id": 0, "action_const": true, "action_data": []},
            "entries": [{
                "match_key": [{"match_type": "ternary", "key": "0x07", "mask": mask}],
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
    let text = |mask: &str| with_entry("ingress.t", mask);
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
        let text = with_entry(name, "0xff");
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
