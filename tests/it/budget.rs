//! No input file takes long, much memory or pages of output, whatever is in it.
//!
//! Each is as large as a file may be (1 MiB of a program) and full of one thing: repeated keys in one line, tens of
//! thousands of names, deep nesting, aliases, numbers of a MiB. The time that is allowed is for a build without
//! optimisation on a busy machine; the memory is a bound that the system enforces.

use std::fs;
use std::path::Path;
use std::process::Command;

use wireyard_tests::binary::{Ended, wireyard};

/// Longest time of a processor, in seconds, which other work on the machine does not change much; an optimised build takes a
/// fraction of it.
const SECONDS_MAX: u64 = 20;
/// Address space of a command, in KiB: what it takes by itself, and 1 GiB.
const SPACE_KIB: u64 = 1_900_000;
/// Most bytes of output: a hundred diagnostics.
const OUTPUT_MAX: usize = 400_000;
/// Bytes of a file.
const FULL: usize = (1 << 20) - 4096;

const HEADER: &str = "headers: { h: { fields: { a: 16, b: 16 } } }\n";
const END: &str = "parser: { start: { extract: h } }\ningress: [ std.egress_port = 1 ]\n";

/// So many repetitions as fit into a file.
fn fill(item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for n in 0.. {
        let next = item(n);
        if text.len() + next.len() > FULL {
            break;
        }
        text += &next;
    }
    text
}

/// So many of them.
fn many(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

/// A program with a section of its own.
fn with(section: &str) -> String {
    format!("pipeline: p\n{section}{HEADER}{END}")
}

/// A program whose ingress is these statements.
fn ingress(before: &str, statements: &str) -> String {
    format!(
        "pipeline: p\n{HEADER}parser: {{ start: {{ extract: h }} }}\n{before}ingress:\n{statements}"
    )
}

/// Locals of eight blocks in each other, all alive through thousands of statements.
fn nested_lets() -> String {
    const LOCALS: usize = 2000;
    let indent = |depth: usize| "   ".repeat(depth) + " ";
    let mut text = String::new();
    for depth in 0..8 {
        let blanks = indent(depth);
        text += &many(LOCALS, |n| format!("{blanks}- let x{depth}_{n} = h.a\n"));
        if depth < 7 {
            text += &format!("{blanks}- if: h.a != {depth}\n{blanks}  then:\n");
        }
    }
    let blanks = indent(7);
    text += &many(9000, |_| format!("{blanks}- h.b = h.a\n"));
    for depth in 0..8 {
        for first in (0..LOCALS).step_by(40) {
            let all: Vec<_> = (first..first + 40).map(|n| format!("x{depth}_{n}")).collect();
            text += &format!("{blanks}- h.b = {}\n", all.join(" ^ "));
        }
    }
    text
}

/// A condition of so many levels, `&&` and `||` in turn.
fn alternating(levels: usize) -> String {
    let deeper = |inner: String, n: usize| {
        format!("({inner}) {} h.b == {n}", if n.is_multiple_of(2) { "&&" } else { "||" })
    };
    let condition = (0..levels).fold("h.a == 0".to_owned(), deeper);
    format!("  - if: '{condition}'\n    then: [ std.egress_port = 1 ]\n    else: [ drop ]\n")
}

/// Actions that each call the one before, behind a header that may be valid.
fn chained_actions(count: usize) -> String {
    let action = |n: usize| {
        let next = if n == 0 { "h.b = 1".to_owned() } else { format!("a{}()", n - 1) };
        format!(
            "  a{n}:\n    do:\n      - if: 'h.a == {n}'\n        then: [ set_valid(x) ]\n        else: [ set_invalid(x) ]\n      - '{next}'\n"
        )
    };
    format!(
        "pipeline: p\n{HEADER}instances: {{ h: h, x: h }}\nparser: {{ start: {{ extract: h }} }}\nactions:\n{}ingress: \
         [ 'a{}()', std.egress_port = 1 ]\ndeparser: {{ emit: [h, x] }}\n",
        many(count, action),
        count - 1
    )
}

/// Different slices of one wide field.
fn slices() -> String {
    let slice = |n: usize| {
        let (low, bits) = (n % 2000, n / 2000 + 1);
        format!("  - h.a = bit<16>(w.k[{}:{low}])\n", low + bits - 1)
    };
    let headers = "{ h: { fields: { a: 16, b: 16 } }, w: { fields: { k: 2048 } } }";
    let text = format!(
        "pipeline: p\nheaders: {headers}\nparser: {{ start: {{ extract: [h, w] }} }}\ningress:\n"
    );
    text + &fill(slice)
}

/// A P4 program with wide numbers that are chosen by conditions in each other.
fn wide_choices(depth: usize) -> String {
    let condition = (0..depth)
        .fold("h.w.b == m.a".to_owned(), |inner, _| format!("(({inner}) ? h.w.b : m.b) == m.a"));
    format!(
        "#include <v1model.p4>
header w_t {{ bit<2040> b; }}
struct headers_t {{ w_t w; }}
struct meta_t {{ bit<2040> a; bit<2040> b; }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.w); transition accept; }}
}}
control V(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    apply {{ if ({condition}) {{ s.egress_spec = 1; }} }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.w); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

/// Programs by name.
fn programs() -> Vec<(&'static str, String)> {
    let list = |key: &str, item: &str| {
        format!("pipeline: p\n{key}: [ {} ]\n", item.repeat(FULL / item.len()))
    };
    let states = fill(|n| format!("  s{n}: {{ next: s{} }}\n", n + 1));
    vec![
        ("keys_58k", with(&format!("const: {{ {} }}\n", "a: 1, ".repeat(58 * 1024 / 6)))),
        ("keys", with(&format!("const: {{ {} }}\n", "a: 1, ".repeat(FULL / 6)))),
        ("keys_in_lines", with(&format!("const:\n{}", "  a: 1\n".repeat(FULL / 7)))),
        ("statements_in_a_line", list("ingress", "x=y, ")),
        ("statements", ingress("", &"  - x = y\n".repeat(FULL / 11))),
        ("instances", with(&format!("instances: {{\n{}}}\n", fill(|n| format!(" i{n}: h,\n"))))),
        ("headers", with(&fill(|n| match n {
            0 => "headers:\n".into(),
            _ => format!(" h{n}: {{ fields: {{ a: 8 }} }}\n"),
        }).replace(" h1:", " h:")).replace(HEADER, "")),
        ("fields", format!("pipeline: p\nheaders: {{ h: {{ fields: {{ {} }} }} }}\n{END}", fill(|n| format!("f{n}: 0, ")))),
        ("constants", with(&format!("const:\n{}", fill(|n| format!("  c{n}: c{} + 1\n", n + 1))))),
        (
            "misspelt",
            ingress(
                &format!("const: {{\n{}}}\n", many(7_000, |n| format!(" constant_name_{n:06}: 1,\n"))),
                &many(20_000, |n| format!("  - meta.x = constant_name_x{n}\n")),
            ),
        ),
        ("states", format!("pipeline: p\n{HEADER}parser:\n  start: {{ extract: h, next: s0 }}\n{states}ingress: [ drop ]\n")),
        ("cases", format!(
            "pipeline: p\nheaders: {{ h: {{ fields: {{ a: 32, b: 16 }} }} }}\nparser:\n  start:\n    extract: h\n    \
             select: h.a\n    cases:\n{}ingress: [ drop ]\n",
            fill(|n| format!("      {n} &&& 0xffff00ff: accept\n"))
        )),
        (
            "tables",
            ingress(
                &format!("tables:\n{}", many(12_000, |n| format!("  t{n}: {{ key: {{ h.a: exact }}, actions: [drop] }}\n"))),
                &many(12_000, |n| format!("  - apply: t{n}\n")),
            ),
        ),
        ("actions", with(&format!("actions:\n{}", fill(|n| format!("  a{n}: {{ do: [ std.egress_port = 1 ] }}\n"))))),
        ("doubling", with(&format!("actions:\n  a0: {{ do: [ drop ] }}\n{}", fill(|n| format!("  a{}: {{ do: [ a{n}, a{n} ] }}\n", n + 1))))),
        ("controls", with(&format!("controls:\n  c0: [ drop ]\n{}", fill(|n| format!("  c{}: [ {{ call: c{n} }}, {{ call: c{n} }} ]\n", n + 1))))),
        ("switch", ingress("metadata: { x: 32 }\n", &format!("  - switch: meta.x\n    cases:\n{}", fill(|n| format!("      {n}: [ meta.x = 2 ]\n"))))),
        ("ifs", ingress("metadata: { x: 32 }\n", &fill(|_| "  - { if: meta.x == 1, then: [ meta.x = 2 ], else: [ h.a = 3 ] }\n".into()))),
        ("machine_code", ingress("metadata: { x: 32 }\n", &(0..5000).map(|n| format!("  - {{ if: meta.x == {n}, then: [ meta.x = {} ], else: [ h.a = 3 ] }}\n", n * 7)).collect::<String>())),
        ("alternating", ingress("", &alternating(60))),
        ("chained_actions", chained_actions(60)),
        ("lets", ingress("", &fill(|n| format!("  - let v{n} = h.a + {n}\n")))),
        ("nested_lets", ingress("", &nested_lets())),
        ("counters", with(&format!("counters:\n{}", fill(|n| format!("  r{n}: 1\n"))))),
        ("counters_of_all_memory", with(&format!("counters:\n{}", (0..200).map(|n| format!("  r{n}: 16777216\n")).collect::<String>()))),
        ("registers_of_all_memory", with(&format!("registers:\n{}", (0..200).map(|n| format!("  r{n}: {{ struct: {{ a: 64, b: 64, c: 64, d: 64 }}, size: 16777216 }}\n")).collect::<String>()))),
        ("meters_of_all_memory", with(&format!("meters:\n{}", (0..200).map(|n| format!("  r{n}: {{ size: 16777216 }}\n")).collect::<String>()))),
        ("value_set", with(&format!("value_sets: {{ v: {{ bits: 32, size: 4096, values: [ {} ] }} }}\n", fill(|n| format!("{n}, "))))),
        ("digest", with(&format!("digests: {{ d: {{ {} }} }}\n", fill(|n| format!("f{n}: h.a, "))))),
        ("parameters", with(&format!("actions: {{ a: {{ params: {{ {} }}, do: [] }} }}\n", fill(|n| format!("f{n}: 8, "))))),
        ("includes", with(&format!("include: [ {} ]\n", fill(|n| format!("l{n}, "))))),
        ("checksums", with(&format!("checksums: [ {} ]\n", "{ field: h.a, over: h }, ".repeat(30_000)))),
        ("deep_list", format!("pipeline: p\nconst: {}", "[".repeat(FULL))),
        ("deep_dashes", format!("pipeline: p\ningress:\n  {}a\n", "- ".repeat(FULL / 2))),
        ("deep_questions", format!("pipeline: p\ningress:\n  {}a\n", "? ".repeat(FULL / 2))),
        ("deep_parentheses", with(&format!("const: {{ a: {}1 }}\n", "(".repeat(FULL)))),
        ("aliases", format!("pipeline: p\nx: &x a\ningress: [ {} ]\n", "*x, ".repeat(FULL / 4))),
        ("laughs", format!("x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n{}", (1..12).map(|n| format!("x{n}: &x{n} [{}]\n", format!("*x{}, ", n - 1).repeat(10))).collect::<String>())),
        ("anchors", list("ingress", "&& b, ")),
        ("merges", list("ingress", "{ <<: {} }, ")),
        ("tags", list("ingress", "!b c, ")),
        ("tags_in_lines", format!("pipeline: p\ningress:\n{}", "  - !b c\n".repeat(FULL / 9))),
        ("torn_calls", list("ingress", "a(b, c), ")),
        ("torn_choices", format!("pipeline: p\ningress:\n{}", "  - x = a ? b : c\n".repeat(FULL / 18))),
        ("number", with(&format!("const: {{ a: {} }}\n", "9".repeat(FULL)))),
        ("name", with(&format!("const: {{ {}: 1 }}\n", "a".repeat(FULL)))),
        ("text", with(&format!("zzz: '{}'\n", "a".repeat(FULL)))),
        ("escapes", with(&format!("const: {{ a: \"{}\" }}\n", "\\n".repeat(FULL / 2)))),
        ("zeros", "\0".repeat(FULL)),
    ]
}

/// Runs a command with a bound on its memory, and on its time.
fn within(name: &str, arguments: &[&Path]) -> Ended {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -v {SPACE_KIB}; ulimit -t {SECONDS_MAX}; exec \"$0\" \"$@\""))
        .arg(wireyard());
    let ended = Ended::of(&command.args(arguments).output().expect("the binary runs"));
    let bytes = ended.out.len() + ended.err.len();
    assert!(bytes < OUTPUT_MAX, "{name}: {bytes} bytes of output");
    assert!(
        ended.status.is_some_and(|status| status < 3),
        "{name}: {:?} {}",
        ended.status,
        ended.err
    );
    ended
}

#[test]
fn no_program_takes_long_or_much() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    for (name, text) in programs() {
        fs::write(&path, &text).unwrap();
        let ended = within(name, &[Path::new("check"), &path]);
        assert!(!ended.err.contains("overflowed"), "{name}: {}", ended.err);
    }
}

#[test]
fn slices_of_a_wide_field_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    fs::write(&path, slices()).unwrap();
    let ended = within("slices", &[Path::new("check"), &path]);
    ended.expect(1, &["`w` has more than 4096 fields and different slices of fields"]);
}

#[test]
fn a_hundred_diagnostics_are_shown_and_the_others_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    fs::write(&path, ingress("", &"  - x = y\n".repeat(30_000))).unwrap();
    let ended = within("text", &[Path::new("check"), &path]);
    assert_eq!(ended.err.matches("error[E0100]").count(), 100, "{}", ended.err);
    ended.expect(1, &["and 59900 more, which are not shown", "60000 errors"]);
    let json = within("json", &[Path::new("check"), Path::new("--json"), &path]);
    let list: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let list = list.as_array().expect("a list");
    assert_eq!((list.len(), &list[100]["more"]), (101, &59_900.into()));
}

#[test]
fn a_long_line_is_a_window_around_its_label() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    let before = many(4_000, |n| format!("c{n}: 1, "));
    fs::write(&path, format!("pipeline: p\nconst: {{ {before} zz: nowhere }}\n")).unwrap();
    let ended = within("line", &[Path::new("check"), &path]);
    let line = ended.err.lines().find(|line| line.contains("zz: nowhere")).unwrap_or_default();
    assert!(line.len() < 600 && line.contains("..."), "{}", ended.err);
    assert!(ended.err.contains("program.yaml:2:"), "{}", ended.err);
    let column =
        fs::read_to_string(&path).unwrap().lines().nth(1).and_then(|line| line.find("nowhere"));
    assert!(ended.err.contains(&format!(":2:{}\n", column.unwrap() + 1)), "{}", ended.err);
}

#[test]
fn state_is_summed_before_anything_is_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    let large = "registers: { r: { bits: 32, size: 16000000 }, s: { bits: 8, size: 16 } }\n";
    fs::write(&path, with(large)).unwrap();
    let check = |arguments: &[&str]| {
        let mut all = vec![Path::new("check"), path.as_path()];
        all.extend(arguments.iter().map(Path::new));
        within("state", &all)
    };
    check(&[]).expect(0, &[]);
    check(&["--max-state", "100MB"]).expect(1, &["E0142", "128000128 bytes", "`r`", "--max-state"]);
    check(&["--max-state", "200MB"]).expect(0, &[]);
    for command in [
        vec!["replay", "--in", "1=none.pcap"],
        vec!["trace", "--hex", "00"],
        vec!["run", "--port", "1=none"],
    ] {
        let mut all = vec![Path::new(command[0]), path.as_path()];
        all.extend(command[1..].iter().map(Path::new));
        all.extend(["--max-state", "100MB"].map(Path::new));
        within("state", &all).expect(2, &["E0142"]);
    }
    let script = folder.path().join("a.stf");
    fs::write(&script, "no_packet\n").unwrap();
    let all = ["test", "--max-state", "100MB"].map(Path::new);
    let ended = within("state", &[all.as_slice(), &[script.as_path()]].concat());
    assert!(ended.status == Some(2) && ended.out.contains("E0142"), "{} {}", ended.out, ended.err);
}

/// Entries, configurations, scenarios, scripts and port files.
#[test]
fn no_other_file_takes_long_or_much() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let full = |item: &str| item.repeat((4 << 20) / item.len());
    let program = file(
        "program.yaml",
        with("tables: { t: { key: { h.a: exact }, actions: [drop] } }\n")
            .replace("[ std", "[ { apply: t }, std"),
    );
    let choices = file("choices.p4", wide_choices(60));
    within("wide choices", &[Path::new("check"), &choices]).expect(0, &[]);
    let entries = [
        format!("entries: {{ t: [ {} ] }}\n", full("{ match: { h.a: 1 }, action: drop }, ")),
        format!("entries: {{ t: [ {} ] }}\n", full("{ match: { h.b: 1 }, action: dorp }, ")),
        format!("value_sets: {{ v: [ {} ] }}\n", full("1, ")),
        format!("multicast_groups: {{ {} }}\n", full("1: [1], ")),
    ];
    for (number, text) in entries.into_iter().enumerate() {
        let path = file("e.yaml", text);
        let name = format!("entries {number}");
        within(&name, &[Path::new("check"), &program, Path::new("--entries"), &path]);
    }
    let configs = [
        format!("ports: {{ {} }}\n", full("1: { rate: 1Gbps }, ")),
        format!(
            "ports: {{ {} }}\n",
            (0..200_000).map(|n| format!("{n}: {{ zz: 1 }}, ")).collect::<String>()
        ),
        format!("qos: {{ {} }}\n", full("[")),
        format!(
            "qos: {{ buffer_pools: {{ {} }} }}\n",
            (0..50_000)
                .map(|n| format!("p{n}: {{ direction: ingress, size: 1MB }}, "))
                .collect::<String>()
        ),
        format!("generators: [ {} ]\n", full("{ port: 1, frame: '00', period: 1s }, ")),
    ];
    for (number, text) in configs.into_iter().enumerate() {
        let path = file("switch.yaml", text);
        let name = format!("configuration {number}");
        within(&name, &[Path::new("check"), Path::new("--config"), &path]);
        fs::remove_file(&path).unwrap();
    }
    let scenarios = [
        format!("lab: x\nflows: [ {} ]\n", full("{ from: a, to: b }, ")),
        format!("lab: x\nhosts: {}\n", full("[")),
        format!("lab: x\nexpect: [ {} ]\n", full("x == 1, ")),
    ];
    for (number, text) in scenarios.into_iter().enumerate() {
        let path = file("scenario.yaml", text);
        within(&format!("scenario {number}"), &[Path::new("lab"), &path, Path::new("--check")]);
    }
    let script = file("a.stf", full("no such statement\n"));
    within("script", &[Path::new("test"), &script]);
    // One line, and one packet, as long as a script may be.
    let lines = ["x".repeat(FULL), format!("link {}", "x".repeat(FULL - 5))];
    let pattern = format!("packet 1 00000000\nexpect 1 {}\n", "*".repeat(FULL - 64));
    for (number, text) in lines.into_iter().chain([pattern]).enumerate() {
        let script = file("a.stf", format!("program program.yaml\n{text}\n"));
        within(&format!("line of a script {number}"), &[Path::new("test"), &script]);
    }
    let ports = file("ports.yaml", format!("ports: {{ {} }}\n", full("1: { interface: zz }, ")));
    within("ports", &[Path::new("run"), &program, Path::new("--ports"), &ports]);
}
