mod remedies;

use super::*;
use crate::diag::render;
use crate::ir::{print, verify};
use crate::source::{Loader, parse_program};
use std::path::Path;

/// A program in memory beside the header libraries.
fn loader(text: &str) -> Loader {
    let libraries = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/headers");
    let mut files = vec![(std::path::PathBuf::from("p.yaml"), text.as_bytes().to_vec())];
    for entry in std::fs::read_dir(libraries).expect("header libraries") {
        let path = entry.expect("a library").path();
        let name = path.file_name().expect("a name").to_owned();
        files.push((Path::new("headers").join(name), std::fs::read(&path).expect("a library")));
    }
    Loader::in_memory(files, &[])
}

/// Compiles a program; the rendered errors when it is refused.
fn compiled(text: &str) -> Result<Compiled, String> {
    let parsed = parse_program(Path::new("p.yaml"), &loader(text))
        .map_err(|rejected| rejected.to_string())?;
    let files = parsed.files.clone();
    match compile(&parsed, &ExternRegistry::new()) {
        Ok(compiled) => {
            assert_eq!(verify::verify(&compiled.program), Vec::<String>::new());
            Ok(compiled)
        }
        Err(diagnostics) => Err(render::plain(&diagnostics, &files)),
    }
}

const ROUTER: &str = r#"
pipeline: tiny_router
include: [ethernet, ip]

parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x0800: ipv4 }, default: accept }
  ipv4:  { extract: ipv4 }

actions:
  route:
    params: { port: port, next_hop: mac }
    do:
      - std.egress_port = port
      - ethernet.src = ethernet.dst
      - ethernet.dst = next_hop
      - ipv4.ttl = ipv4.ttl - 1

tables:
  fib: { key: { ipv4.dst: lpm }, actions: [route, drop], default: drop, size: 1024 }

ingress:
  - if: ipv4.valid && ipv4.ttl <= 1
    then: [ drop ttl_expired ]
  - apply: fib

checksums:
  - { field: ipv4.checksum, over: ipv4, when: ipv4.valid }
"#;

#[test]
fn the_first_example_of_the_language_page() {
    let compiled = compiled(ROUTER).unwrap_or_else(|text| panic!("{text}"));
    assert!(
        print::program(&compiled.program).contains("action act2 route(port: 16, next_hop: 48)")
    );
    assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
}

/// Every sub-parser of every header library, each in a program that calls only it.
#[test]
fn every_sub_parser_of_the_libraries_is_right() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/headers"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("header libraries")
        .map(|entry| entry.expect("a library").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_string()))
        .collect();
    names.sort();
    let mut calls = 0;
    for library in names {
        let include = format!("pipeline: p\ninclude: [{library}]\n");
        let parsed = parse_program(Path::new("p.yaml"), &loader(&include)).expect("the library");
        let unit =
            parsed.units.iter().find(|u| u.name.as_ref().is_some_and(|n| n.value == library));
        for (parser, _) in &unit.expect("its unit").parsers {
            let text =
                format!("{include}parser: {{ start: {{ call: {library}.{} }} }}\n", parser.value);
            match compiled(&text) {
                Ok(compiled) => assert!(!compiled.program.parser.states.is_empty()),
                // Several trailers have no default order; there must be no other error.
                Err(found) => assert!(
                    found.matches("error[").count() == found.matches("error[E0136]").count(),
                    "{found}"
                ),
            }
            calls += 1;
        }
    }
    assert!(calls > 10, "{calls} sub-parsers were found");
}

/// The words and signs of a text, blanks kept.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match tokens.last_mut() {
            Some(last) if is_word && in_word => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        in_word = is_word;
    }
    tokens
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    /// A mutated program is refused with errors, or the verifier and every pass accept it. Nothing panics.
    #[test]
    fn changed_programs_are_refused_or_right(
        edits in proptest::collection::vec((0usize..10_000, 0usize..10_000, 0u8..4), 1..4),
    ) {
        let text = include_str!("../../../tests/data/ir/everything.yaml");
        let mut words = tokens(text);
        let solid: Vec<usize> =
            (0..words.len()).filter(|at| !words[*at].trim().is_empty()).collect();
        for (a, b, kind) in edits {
            let (a, b) = (solid[a % solid.len()], solid[b % solid.len()]);
            match kind {
                0 => words.swap(a, b),
                1 => words[a] = words[b].clone(),
                2 => words[a] = ["0", "1", "8", "129", "4294967296"][b % 5].to_string(),
                _ => words[a] = String::new(),
            }
        }
        let text = words.concat();
        if let Ok(parsed) = parse_program(Path::new("p.yaml"), &loader(&text)) {
            match compile(&parsed, &ExternRegistry::new()) {
                Ok(mut compiled) => {
                    let found = verify::verify(&compiled.program);
                    proptest::prop_assert_eq!(found, Vec::<String>::new());
                    crate::passes::run(&mut compiled.program, &crate::passes::Options::all());
                    print::program(&compiled.program);
                }
                Err(found) => proptest::prop_assert!(found.has_errors()),
            }
        }
    }
}

#[test]
fn an_update_of_a_crc_that_is_never_updated_is_refused() {
    let program = |update: &str| {
        ROUTER.replace("  - if: ipv4.valid", "  - update_crc(sum)\n  - if: ipv4.valid")
            + "crcs:\n  sum:\n    field: ipv4.src\n    params: { width: 32, poly: 0x04c11db7, init: 0, reflect: true, xor_out: 0 }\n    over: [ body ]\n"
            + update
    };
    for never in ["", "    update: never\n"] {
        let refused = compiled(&program(never)).expect_err("nothing would happen");
        assert!(refused.contains("CRC `sum` is never updated"), "{refused}");
        assert!(refused.contains("update: on_request"), "{refused}");
    }
    for good in ["    update: on_request\n", "    update: always\n"] {
        compiled(&program(good)).expect("an update");
    }
}

#[test]
fn a_header_that_the_parser_makes_valid_is_emitted_or_discarded() {
    let program = |deparser: &str| {
        format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 16 }} }} }}\ninstances: {{ shim: h }}\n\
             parser: {{ start: {{ extract: h, do: [ set_valid(shim) ] }} }}\n\
             ingress: [ shim.a = 5, std.egress_port = 1 ]\ndeparser: {{ {deparser} }}\n"
        )
    };
    let refused = compiled(&program("emit: [h]")).expect_err("the shim vanishes");
    assert!(refused.contains("headers that may be valid are not emitted: shim"), "{refused}");
    for good in ["emit: [h, shim]", "emit: [h], discard: [shim]", "slack: keep"] {
        compiled(&program(good)).unwrap_or_else(|text| panic!("{good}: {text}"));
    }
}

#[test]
fn a_trailer_leaves_behind_the_body_unless_the_deparser_says_otherwise() {
    let program = |deparser: &str| {
        let text = format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 16 }} }}, t: {{ fields: {{ b: 16 }} }} }}\n\
             parser: {{ start: {{ extract: h, extract_at: {{ t: 4 }} }} }}\n\
             ingress: [ std.egress_port = 1 ]\n{deparser}\n"
        );
        compiled(&text).map(|compiled| compiled.program.deparser)
    };
    for default in ["", "deparser: { slack: strip }"] {
        let deparser = program(default).unwrap_or_else(|text| panic!("{default}: {text}"));
        assert_eq!(deparser.after.len(), 1, "{default}");
        assert_eq!(deparser.strip_slack, !default.is_empty());
    }
    let deparser = program("deparser: { discard: [t] }").unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(deparser.after.len(), 0);
    assert!(program("deparser: { emit: [h] }").is_err());
}

#[test]
fn what_is_counted_is_not_negative() {
    for (parser, ingress) in [
        ("next: accept", "meta.x = meta.x << -1"),
        ("next: accept", "meta.x = 1 << -1"),
        ("next: accept", "truncate(-1)"),
        ("next: accept", "truncate(3 - 4)"),
        ("do: [ 'advance(-8)' ]", "meta.x = 0"),
        ("body_end: -1", "meta.x = 0"),
    ] {
        let text = format!(
            "pipeline: p\nmetadata: {{ x: 16 }}\nparser: {{ start: {{ {parser} }} }}\n\
             ingress: [ '{ingress}', std.egress_port = 1 ]\n"
        );
        let refused = compiled(&text).expect_err("a negative count");
        assert!(refused.contains("is negative, and this counts from 0"), "{refused}");
    }
}

#[test]
fn an_element_outside_of_its_stack_is_refused_in_do() {
    for number in ["9", "4294967296"] {
        let text = format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 16 }} }} }}\n\
             instances: {{ s: {{ header: h, stack: 2 }} }}\n\
             parser: {{ start: {{ do: [ 'extract(s[{number}])' ] }} }}\n\
             ingress: [ std.egress_port = 1 ]\n"
        );
        let refused = compiled(&text).expect_err("an element that is not there");
        let expected =
            format!("error[E0110]: the stack has 2 elements; there is none of number {number}");
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn pads_of_one_name_are_covered_together() {
    let text = "
pipeline: p
headers: { h: { fields: { sum: 16 } }, t: { fields: { b: 16 } } }
parser: { start: { extract: h, extract_at: { t: 4 } } }
ingress: [ std.egress_port = 1 ]
deparser: { after: [ { pad: 1 }, t, { pad: 2 } ] }
crcs:
  sum:
    field: h.sum
    params: { width: 16, poly: 0x8005 }
    over: [ body, pad ]
    update: always
";
    let compiled = compiled(text).unwrap_or_else(|text| panic!("{text}"));
    let over: Vec<_> = compiled.program.crcs.iter().flat_map(|crc| &crc.over).collect();
    use crate::ir::Covered;
    assert_eq!(over, [&Covered::Body, &Covered::After(0), &Covered::After(2)]);
}

#[test]
fn sums_that_cover_each_other_have_a_warning() {
    let program = |mask: &str| {
        format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 16, b: 16 }} }} }}\n\
             parser: {{ start: {{ extract: h }} }}\ningress: [ std.egress_port = 1 ]\n\
             checksums: [ {{ field: h.a, over: h }}, {{ field: h.b, over: [ {{ h: {{ mask: [{mask}] }} }} ] }} ]\n"
        )
    };
    let circle = compiled(&program("b")).unwrap_or_else(|text| panic!("{text}"));
    let warnings = format!("{:?}", circle.warnings);
    assert!(warnings.contains("`h.a` and `h.b` cover each other"), "{warnings}");
    // A sum over a circle, declared before it, is written behind it.
    let behind =
        program("b").replace("checksums: [ ", "checksums: [ { field: o.c, over: [ o, h ] }, ");
    let behind = behind
        .replace("headers: { h", "headers: { o: { fields: { c: 16 } }, h")
        .replace("extract: h }", "extract: [o, h] }");
    let behind = compiled(&behind).unwrap_or_else(|text| panic!("{text}"));
    let order = crate::ir::sums::write_order(&behind.program).0;
    let expected = [1, 2, 0].map(|id| crate::ir::sums::SumId::Checksum(crate::ids::ChecksumId(id)));
    assert_eq!(order, expected);
    let masked = compiled(&program("a")).unwrap_or_else(|text| panic!("{text}"));
    assert!(masked.warnings.is_empty(), "{:?}", masked.warnings);
    let order = crate::ir::sums::write_order(&masked.program).0;
    let expected = [1, 0].map(|id| crate::ir::sums::SumId::Checksum(crate::ids::ChecksumId(id)));
    assert_eq!(order, expected);
}

#[test]
fn a_copy_that_egress_makes_has_what_egress_left() {
    let warned = |before: &str, copy: &str| {
        let text = format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 8 }} }} }}\n\
             instances: {{ h: {{ header: h }}, x: {{ header: h }}, y: {{ header: h }} }}\n\
             parser: {{ start: {{ extract: h }} }}\ningress: [ std.egress_port = 1{before} ]\n\
             egress:\n  - if: std.packet_path == path.clone_egress\n    then: [ h.a = x.a + y.a ]\n    \
             else: [ set_valid(x), set_valid(y), x.a = 7{copy} ]\ndeparser: {{ emit: [h, x], discard: [y] }}\n"
        );
        let compiled = compiled(&text).unwrap_or_else(|text| panic!("{text}"));
        let found: Vec<_> = compiled.warnings.iter().collect();
        found.iter().map(|one| one.message.clone()).collect::<Vec<_>>()
    };
    let (x, y) = ("`x` cannot be valid here", "`y` cannot be valid here");
    assert_eq!(warned("", ""), [x, y]);
    // What is not emitted is not in the copy.
    assert_eq!(warned("", ", clone(1)"), [y]);
    assert_eq!(warned("", ", clone(1), drop why"), [y]);
    assert_eq!(warned(", clone(1)", ""), [x, y]);
}

/// The words of a key are those of the tables: a field goes into the first one that has room.
#[test]
fn a_key_is_refused_where_the_tables_refuse_it() {
    let program = |wide: usize| {
        let of = |letter: char, bits: usize, n: usize| {
            (0..n).map(|i| format!("{letter}{i}: {bits}")).collect::<Vec<_>>()
        };
        let fields = [of('a', 48, 12), of('c', 64, wide), of('b', 16, 12)].concat();
        let name = |field: &String| format!("h.{}: exact", field.split(':').next().unwrap());
        let keys: Vec<String> = fields.iter().map(name).collect();
        compiled(&format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ {} }} }} }}\nparser: {{ start: {{ extract: h }} }}\n\
             tables: {{ t: {{ key: {{ {} }}, actions: [drop, nop] }} }}\n\
             ingress: [ std.egress_port = 1, {{ apply: t }} ]\n",
            fields.join(", "),
            keys.join(", ")
        ))
    };
    assert!(program(4).is_ok());
    let text = program(5).unwrap_err();
    assert!(text.contains("need 17 words of 64 bits"), "{text}");
}

/// The program with these rows of its table, over a key of 8 bits of this kind.
fn with_entries(kind: &str, rows: &[&str]) -> Result<Compiled, String> {
    let rows: Vec<String> = rows.iter().map(|row| format!("      - {row}\n")).collect();
    compiled(&format!(
        "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 8 }} }} }}\nparser: {{ start: {{ extract: h }} }}\n\
         tables:\n  t:\n    key: {{ h.a: {kind} }}\n    actions: [drop, nop]\n    entries:\n{}\
         ingress: [ std.egress_port = 1, {{ apply: t }} ]\n",
        rows.concat()
    ))
}

#[test]
fn an_entry_in_another_form_is_the_same_entry() {
    let forms = [
        ("lpm", "5", "5/8"),
        ("ternary", "5", "5 &&& 0xff"),
        ("range", "5", "5..5"),
        ("range", "_", "0..255"),
    ];
    for (kind, first, second) in forms {
        let priority = if kind == "lpm" { "" } else { ", priority: 3" };
        let row = |form: &str| format!("{{ match: {{ h.a: {form} }}, action: drop{priority} }}");
        // One that is wrong is no entry: places are counted without it.
        let wrong = row("300");
        let (first, second) = (row(first), row(second));
        let text = with_entries(kind, &[&wrong, &first, &second]).unwrap_err();
        assert!(text.contains("E0101") && text.contains("this entry already exists"), "{text}");
        let place = |what: &str| text.lines().position(|line| line.contains(what)).unwrap();
        assert_eq!(place("first here"), place(&first) + 1, "{text}");
        assert!(with_entries(kind, &[&first]).is_ok());
    }
}
