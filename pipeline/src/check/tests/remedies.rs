//! What an error advises is accepted, and one mistake is one error.

use super::compiled;

/// A program around these lines.
fn program(lines: &str) -> String {
    "pipeline: p
headers: { h: { fields: { a: 8, b: 16 } }, g: { fields: { a: 8 } } }
parser: { start: { extract: [h, g] } }
metadata: { x: 16 }
"
    .to_owned()
        + lines
}

fn refused(lines: &str) -> String {
    compiled(&program(lines)).expect_err(lines)
}

/// The ingress of these statements, with a register and a meter.
fn ingress(statements: &str) -> String {
    format!(
        "registers: {{ r: {{ bits: 8, size: 4 }} }}\nmeters: {{ m: 4 }}\ningress:\n  - std.egress_port = 1\n{statements}"
    )
}

#[test]
fn an_effect_of_another_width_goes_through_a_local() {
    for effect in ["r[0]", "execute(m, 1)", "random(8w1, 5)"] {
        let help = format!("`let t = {effect}` first, then `bit<16>(t)`");
        for target in ["meta.x", "h.b", "h.b[15:0]"] {
            let text = refused(&ingress(&format!("  - {target} = {effect}\n")));
            assert!(text.contains(&help), "{text}");
        }
        let repaired = format!("  - let t = {effect}\n  - meta.x = bit<16>(t)\n");
        compiled(&program(&ingress(&repaired))).unwrap();
    }
}

#[test]
fn a_random_number_gets_its_width_from_its_first_operand() {
    let text = refused(&ingress("  - let x = random(1, 5)\n"));
    assert!(text.contains("as in `let x = random(16w1, 5)`"), "{text}");
    let text = refused(&ingress("  - \"random(1, 5)\"\n"));
    assert!(text.contains("as in `let x = random(16w1, 5)`"), "{text}");
    compiled(&program(&ingress("  - let x = random(16w1, 5)\n  - meta.x = x\n"))).unwrap();
    let text = refused(&ingress("  - \"execute(m, 1)\"\n"));
    assert!(text.contains("as in `let x = execute(m, 1)`"), "{text}");
}

#[test]
fn as_many_operators_in_a_row_as_the_page_has() {
    let sum = |operators: usize| {
        program(&ingress(&format!("  - g.a = {}\n", vec!["h.a"; operators + 1].join(" + "))))
    };
    compiled(&sum(128)).unwrap();
    for operators in [129, 140] {
        let text = compiled(&sum(operators)).unwrap_err();
        assert_eq!(text.matches("error[").count(), 1, "{text}");
    }
}

/// The number of errors, in a program with these lines.
fn errors(lines: &str) -> usize {
    refused(lines).matches("error[").count()
}

#[test]
fn a_parameter_of_a_wrong_width_is_one_error() {
    let action = "actions: { f: { params: { x: foo, y: 8 }, do: [ h.b = x, h.a = y ] } }
tables: { t: { key: { h.a: exact }, actions: [f], default: \"f(500, 3)\", entries: [ { match: { h.a: 1 }, action: \"f(70000, 4)\" } ] } }
ingress: [ std.egress_port = 1, apply: t, \"f(h.b, 2)\" ]\n";
    assert_eq!(errors(action), 1);
    let control = "controls: { c: { params: { x: foo, y: { bits: foo, direction: out } }, do: [ h.b = x, y = h.b ] } }
ingress: [ std.egress_port = 1, { call: \"c(h.b, meta.x)\" }, { call: \"c(7, h.a)\" } ]\n";
    assert_eq!(errors(control), 2);
}

#[test]
fn an_array_of_wrong_size_is_one_error() {
    let text = "registers: { r: { bits: 16, size: 0 } }
counters: { c: 0 }
meters: { m: 0 }
ingress: [ std.egress_port = 1, \"h.b = r[2]\", \"r[3] = 1\", \"count(c, 3)\", \"std.color = execute(m, 2)\", { update: \"r[1]\", as: x, do: [ x = 1 ] } ]\n";
    assert_eq!(errors(text), 3);
}

#[test]
fn a_word_of_the_language_as_a_name_is_one_error() {
    let text = "actions: { exit: { do: [ drop ] }, drop: { do: [ drop ] } }
tables: { count: { key: { h.a: exact }, actions: [exit], default: exit } }
ingress: [ std.egress_port = 1, apply: count ]\n";
    assert_eq!(errors(text), 3);
}

#[test]
fn a_sub_parser_is_found_in_the_library_that_has_it() {
    let text = "pipeline: p
include: [ethernet, ip]
parser: { start: { extract: ethernet, call: ethernet.v4, next: accept } }
ingress: [ std.egress_port = 1, ipv4.ttl = 3 ]
checksums: [ { field: ipv4.checksum, over: ipv4 } ]\n";
    let found = compiled(text).unwrap_err();
    assert!(found.contains("did you mean `ip.v4`?"), "{found}");
    assert!(!found.contains("W0102"), "{found}");
}

#[test]
fn one_misspelt_or_missing_key_is_one_error() {
    let state = "pipeline: p
headers: { h: { fields: { a: 8 } } }
parser: { start: { extract: h, slect: h.a, cases: { 1: accept }, default: accept } }\n";
    let table = "pipeline: p
headers: { h: { fields: { a: 8 } } }
tables: { t: { kye: { h.a: exact }, actions: [drop] } }\n";
    let header = "pipeline: p\nheaders: { h: { a: 8, b: 16 } }\n";
    for (text, help) in [(state, "`select`"), (table, "`key`"), (header, "`fields: { a: .. }`")] {
        let found = compiled(text).unwrap_err();
        assert_eq!(found.matches("error[").count(), 1, "{found}");
        assert!(found.contains(help), "{found}");
    }
}

#[test]
fn forms_of_other_languages_have_the_form_of_this_one() {
    let cases = [
        ("metadata: { x: bit<16> }\n", "write the number of bits"),
        ("actions: { f: [ drop ] }\n", "`{ do: [..] }`"),
        (
            "tables: { t: { key: {}, actions: [f], entries: [ { action: { f: 1 } } ] } }\n",
            "write `f(1)`",
        ),
        ("ingress: [ drop ttl-expired ]\n", "a reason is a name"),
        ("ingress:\n  - std.egress_port: 1\n", "`std.egress_port = 1`"),
        ("ingress: [ { if: valid(h), then: [ drop ] } ]\n", "write `h.valid`"),
        ("ingress: [ \"h.b = hash(crc64, h.a)[15:0]\" ]\n", "hashes: crc16, "),
    ];
    for (lines, help) in cases {
        let text = "pipeline: p\nheaders: { h: { fields: { a: 8, b: 16 } } }\n".to_owned() + lines;
        let found = compiled(&text).unwrap_err();
        assert!(found.contains(help), "{found}");
    }
}

#[test]
fn the_sum_of_carried_metadata_is_that_of_its_fields() {
    let fields = |count: usize| -> String {
        let field = |at| format!("  m{at}: {{ bits: 128, carried: true }}\n");
        (0..count).map(field).collect()
    };
    let text = |count| format!("pipeline: p\nmetadata:\n{}", fields(count));
    compiled(&text(15)).unwrap();
    let found = compiled(&text(16)).unwrap_err();
    assert!(found.contains("takes 256 bytes, and 240 cross the queue"), "{found}");
}

#[test]
fn a_header_without_a_place_in_the_packet_is_shown_where_it_is_made_valid() {
    let text = "pipeline: p
headers: { h: { fields: { a: 8 } }, t: { fields: { c: 8 } } }
parser: { start: { extract: h } }
ingress:
  - std.egress_port = 1
  - set_valid(t)\n";
    let found = compiled(text).unwrap_err();
    assert!(found.contains("p.yaml:6:5"), "{found}");
    assert!(found.contains("`t` is made valid here"), "{found}");
    let found = compiled(&(text.to_owned() + "deparser: { emit: [h] }\n")).unwrap_err();
    assert!(found.contains("p.yaml:7:11"), "{found}");
    assert!(found.contains("`t` is made valid here"), "{found}");
}
