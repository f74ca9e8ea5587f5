//! Wrong P4 programs of ours: each is refused, with an error at the line that is marked; and right ones that look unusual, which are taken.
//!
//! `data/p4/wrong.txt`, `right.txt`, `limits.txt` (right ones that do not run here) and `once.txt` (wrong ones with one error) have them in
//! parts: what stands at the top of a program, in its parser, in front of and in the `apply` of its ingress control. The rest of the program
//! is the same for all.

use std::collections::BTreeMap;
use std::fs;

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{Diagnostics, Files, Severity, line_columns};
use wireyard_pipeline::source::{Loader, check_p4, only_limits, parse_program};

/// The mark of a line where an error must be.
const MARK: &str = "//!";

/// A program around the parts of a wrong one.
fn program(parts: &BTreeMap<&str, String>) -> String {
    let part = |name: &str| parts.get(name).map_or("", String::as_str);
    let parser = match part("parser") {
        "" => "state start { packet.extract(hdr.h); transition accept; }\n",
        given => given,
    };
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<16> c; int<8> s; }}
struct hd {{ h_t h; h_t[3] st; }}
struct mt {{ bit<8> m; }}
{}
parser P(packet_in packet, out hd hdr, inout mt meta, inout standard_metadata_t std) {{
{parser}}}
control V(inout hd hdr, inout mt meta) {{ apply {{ }} }}
control I(inout hd hdr, inout mt meta, inout standard_metadata_t std) {{
{}
apply {{
{}
}} }}
control E(inout hd hdr, inout mt meta, inout standard_metadata_t std) {{ apply {{ }} }}
control C(inout hd hdr, inout mt meta) {{ apply {{ }} }}
control D(packet_out packet, in hd hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
",
        part("top"),
        part("declares"),
        part("applies")
    )
}

/// Lines with errors.
fn lines_of(diagnostics: &Diagnostics, files: &Files) -> Vec<usize> {
    let errors = diagnostics.iter().filter(|one| one.severity() == Severity::Error);
    let spans: Vec<_> = errors.filter_map(|one| one.primary.as_ref()).map(|at| at.span).collect();
    line_columns(files, &spans).into_iter().map(|(line, _)| line).collect()
}

/// A program that is read, with its errors where it does not run.
fn run(loader: &Loader) -> Result<(), (Diagnostics, Files)> {
    let parsed = parse_program("wrong.p4".as_ref(), loader)
        .map_err(|rejected| (rejected.diagnostics, rejected.files))?;
    compile(&parsed, &ExternRegistry::new()).map(drop).map_err(|found| (found, parsed.files))
}

/// Lines with errors of a program that does not run; none if it runs.
fn refused(text: String) -> Vec<usize> {
    let loader = Loader::in_memory([("wrong.p4", text)], &[]);
    run(&loader).map_or_else(|(found, files)| lines_of(&found, &files), |()| Vec::new())
}

/// Lines with errors of a program that `check` refuses; none if it is right, also beyond what runs.
fn refused_by_check(text: String) -> Vec<usize> {
    let loader = Loader::in_memory([("wrong.p4", text)], &[]);
    let Err((found, files)) = run(&loader) else { return Vec::new() };
    let is_right = check_p4("wrong.p4".as_ref(), &loader).is_ok();
    if is_right && only_limits(&found).is_some() { Vec::new() } else { lines_of(&found, &files) }
}

/// The programs of a list, with their names.
fn programs(list: &str, least: usize) -> Vec<(String, String)> {
    let text = fs::read_to_string(list).expect("a list of programs");
    let mut found = Vec::new();
    for block in text.split("\n\n") {
        let mut parts: BTreeMap<&str, String> = BTreeMap::new();
        let (mut name, mut part) = ("", "");
        for line in block.lines() {
            if let Some(title) = line.strip_prefix("# ") {
                name = title;
            } else if let Some(title) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                part = title;
            } else {
                let text = parts.entry(part).or_default();
                *text += line;
                text.push('\n');
            }
        }
        assert!(!name.is_empty(), "{list}: a program without a name");
        found.push((name.to_owned(), program(&parts)));
    }
    assert!(found.len() >= least, "{list}: {} programs", found.len());
    found
}

#[test]
fn wrong_p4_programs_are_refused_at_their_lines() {
    let mut wrong = Vec::new();
    for (name, text) in programs("data/p4/wrong.txt", 500) {
        let marked = (1..).zip(text.lines()).find(|(_, line)| line.contains(MARK));
        let (want, _) = marked.unwrap_or_else(|| panic!("{name} marks no line"));
        let found = refused_by_check(text);
        if !found.contains(&want) {
            wrong.push(format!("{name}: line {want} is wrong, errors at {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What one mistake leads to is no error of its own.
#[test]
fn one_mistake_is_one_error() {
    for (name, text) in programs("data/p4/once.txt", 9) {
        let marked = (1..).zip(text.lines()).find(|(_, line)| line.contains(MARK));
        let (want, _) = marked.unwrap_or_else(|| panic!("{name} marks no line"));
        assert_eq!(refused(text), [want], "{name}");
    }
}

/// What only the device has too little for is right for `check`.
#[test]
fn p4_programs_beyond_what_runs_are_right() {
    for (name, text) in programs("data/p4/limits.txt", 3) {
        let marked = (1..).zip(text.lines()).find(|(_, line)| line.contains(MARK));
        let (want, _) = marked.unwrap_or_else(|| panic!("{name} marks no line"));
        assert!(refused(text.clone()).contains(&want), "{name} runs");
        assert_eq!(refused_by_check(text), Vec::<usize>::new(), "{name} is wrong");
    }
}

/// A right program that is refused is worse than a wrong one that is taken.
#[test]
fn unusual_p4_programs_are_taken() {
    let mut wrong = Vec::new();
    for (name, text) in programs("data/p4/right.txt", 17) {
        let found = refused(text);
        if !found.is_empty() {
            wrong.push(format!("{name}: errors at {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lines and files are put together as cpp does it: `\` and blanks end no line, and `#pragma once` reads a file once, by any path.
#[test]
fn lines_and_files_are_joined_as_by_cpp() {
    let top = "#include \"once.p4\"\n#include \"./once.p4\"\n#define SUM ONCE + \\ \t\n  1\n\
               // a comment that goes on \\  \nbit<8> x = y;\nconst bit<8>\u{b}TWO = SUM;\n\
               #if !__has_include(\"once.p4\") || __has_include(<none.p4>)\n#error\n#endif";
    let parts = BTreeMap::from([("top", top.to_owned())]);
    let once = "#pragma once\nconst bit<8> ONCE = 1;\n";
    let once = ["once.p4", "./once.p4"].map(|path| (path, once.to_owned()));
    let files = once.into_iter().chain([("m.p4", program(&parts))]);
    let loader = Loader::in_memory(files, &[]);
    parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
}

/// The same program with nothing wrong in it is taken.
#[test]
fn the_program_around_them_is_right() {
    assert_eq!(refused(program(&BTreeMap::new())), Vec::<usize>::new());
}

/// Types, instances and loops that double with each line are refused, and soon: a file of some hundred bytes takes no time without end.
#[test]
fn programs_that_double_are_refused_in_time() {
    let levels = |first: &str, each: &dyn Fn(usize) -> String| {
        let lines: Vec<String> = (1..40).map(each).collect();
        format!("{first}\n{}\n", lines.join("\n"))
    };
    let top = [
        levels("struct s0 { bit<8> a; }", &|n| format!("struct s{n} {{ s{0} a; s{0} b; }}", n - 1)),
        levels("typedef tuple<bit<8>> t0;", &|n| format!("typedef tuple<t{0}, t{0}> t{n};", n - 1)),
        levels("struct g<T> { T a; T b; }\ntypedef bit<8> t0;", &|n| {
            format!("typedef g<t{}> t{n};", n - 1)
        }),
        levels("parser q0(packet_in p) { state start { transition accept; } }", &|n| {
            format!(
                "parser q{n}(packet_in p) {{ q{0}() a; q{0}() b; state start {{ a.apply(p); b.apply(p); transition accept; }} }}",
                n - 1
            )
        }),
        levels("control c0(inout bit<8> x) { apply { x = x + 1; } }", &|n| {
            format!(
                "control c{n}(inout bit<8> x) {{ c{0}() a; c{0}() b; apply {{ a.apply(x); b.apply(x); }} }}",
                n - 1
            )
        }),
        "#if 1\n".repeat(50_000),
    ];
    let nested = |head: &dyn Fn(usize) -> String| {
        (0..5).rev().fold("hdr.h.a = hdr.h.a + 1;".to_owned(), |inner, n| {
            format!("{} {{ {inner} }}", head(n))
        })
    };
    let loops = [
        nested(&|n| format!("for (bit<16> i{n} in 0..999)")),
        nested(&|n| format!("for (bit<8> i{n} = 0; i{n} < 100; i{n} = i{n} + 1)")),
        nested(&|n| format!("for (bit<8> i{n} = 0; i{n} < hdr.h.a; i{n} = i{n} + 1)")),
    ];
    let tops = top.into_iter().map(|text| BTreeMap::from([("top", text)]));
    let bodies = loops.into_iter().map(|text| BTreeMap::from([("applies", text)]));
    for parts in tops.chain(bodies) {
        let begun = std::time::Instant::now();
        let text = program(&parts);
        let start = text[text.len() / 3..][..80].to_owned();
        assert!(!refused(text).is_empty(), "taken: {start}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{start}");
    }
}

/// Comments are in many encodings; outside of them such a character is an error at its place.
#[test]
fn comments_in_latin_1_are_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program.p4");
    let refused = |text: &str| {
        fs::write(&path, text.chars().map(|c| c as u8).collect::<Vec<u8>>()).expect("writes");
        match parse_program(&path, &Loader::new(Vec::new(), &[])) {
            Err(rejected) => lines_of(&rejected.diagnostics, &rejected.files),
            Ok(_) => Vec::new(),
        }
    };
    let program = program(&BTreeMap::new());
    assert_eq!(refused(&format!("// Acc\u{e8}s r\u{e9}seau\n{program}")), Vec::<usize>::new());
    let lines = refused(&format!("const bit<8> \u{e9} = 1;\n{program}"));
    assert!(!lines.is_empty() && lines.iter().all(|line| *line == 1), "{lines:?}");
}

/// The codes of warnings of a program that is taken.
fn warned(text: String) -> Vec<String> {
    let loader = Loader::in_memory([("warned.p4", text)], &[]);
    let parsed = parse_program("warned.p4".as_ref(), &loader).expect("a program");
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("a pipeline");
    let all = parsed.warnings.iter().chain(compiled.warnings.iter());
    all.map(|warning| warning.code.to_string()).collect()
}

#[test]
fn right_p4_programs_have_no_warnings() {
    let egress = "inout standard_metadata_t std) { apply { } }\ncontrol C";
    let clones = "inout standard_metadata_t std) { apply {
if (std.instance_type != 2) { if (hdr.h.a == 1) { clone(CloneType.E2E, 5); } else { clone(CloneType.E2E, 6); } }
} }
control C";
    let text = program(&BTreeMap::new());
    assert!(text.contains(egress), "{text}");
    assert_eq!(warned(text.replace(egress, clones)), Vec::<String>::new(), "guarded clones");
    let variables: String = (0..70)
        .map(|n| format!("k_t v{n}; v{n}.setValid(); v{n}.a = hdr.h.a + {n}; hdr.h.a = v{n}.a;\n"))
        .collect();
    let top = "header k_t { bit<8> a; }".to_owned();
    let parts = BTreeMap::from([("top", top), ("applies", variables)]);
    assert_eq!(warned(program(&parts)), Vec::<String>::new(), "a type of variables only");
}

/// Warnings of a program that is right, with their codes.
fn warnings(text: String) -> Vec<String> {
    let loader = Loader::in_memory([("right.p4", text)], &[]);
    let parsed = parse_program("right.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("it is a program");
    compiled.warnings.iter().map(|one| format!("{} {}", one.code.id, one.message)).collect()
}

/// A statement is never reached if it is so in every instance, a header never valid if no element at its place is; an index outside says
/// so itself, and not the array that nothing else uses.
#[test]
fn warnings_are_of_all_that_a_place_stands_for() {
    let q = "control Q(inout bit<8> v)(bool ex) { apply { if (ex) { v = 9; exit; } v = v + 1; } }";
    let apply = "std.egress_spec = 1; if (hdr.h.a == 1) { one.apply(meta.m); } two.apply(meta.m);";
    let computed = "std.egress_spec = 1; hdr.st[0].setValid(); meta.m = hdr.st[hdr.h.a].a;";
    for (top, declares, applies, code, count) in [
        (q, "Q(true) one; Q(false) two;", apply, "W0100", 0),
        (q, "Q(true) one; Q(true) two;", apply, "W0100", 1),
        ("", "", computed, "W0103", 0),
        ("", "counter(4, CounterType.packets) c;", "c.count(7);", "W0106", 0),
        (
            "",
            "counter(4, CounterType.packets) c;",
            "c.count(7);",
            "W0117 index 7 is outside of `c`",
            1,
        ),
    ] {
        let parts = [("top", top), ("declares", declares), ("applies", applies)];
        let parts = parts.map(|(part, text)| (part, text.to_owned()));
        let found = warnings(program(&parts.into_iter().collect()));
        let of_code = found.iter().filter(|one| one.starts_with(code)).count();
        assert_eq!(of_code, count, "{code} of {applies}: {found:?}");
    }
}

/// A clone of PSA is a bit that egress sets: where that is guarded, the clone is.
#[test]
fn a_guarded_clone_in_egress_of_psa_is_not_warned_of() {
    const PROGRAM: &str = "#include <core.p4>
#include <psa.p4>
header k_t { bit<8> a; }
struct H { k_t k; }
struct E { }
parser IP(packet_in p, out H h, inout E m, in psa_ingress_parser_input_metadata_t i, in E a, in E b) {
    state start { p.extract(h.k); transition accept; }
}
control I(inout H h, inout E m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    apply { send_to_port(o, (PortId_t)1); }
}
control ID(packet_out p, out E a, out E b, out E c, inout H h, in E m, in psa_ingress_output_metadata_t o) {
    apply { p.emit(h); }
}
parser EP(packet_in p, out H h, inout E m, in psa_egress_parser_input_metadata_t i, in E a, in E b, in E c) {
    state start { p.extract(h.k); transition accept; }
}
control Eg(inout H h, inout E m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) {
    apply { if (GUARD) { o.clone = true; o.clone_session_id = (CloneSessionId_t)7; } }
}
control ED(packet_out p, out E a, out E b, inout H h, in E m, in psa_egress_output_metadata_t o,
    in psa_egress_deparser_input_metadata_t d) { apply { p.emit(h); } }
PSA_Switch(IngressPipeline(IP(), I(), ID()), PacketReplicationEngine(),
    EgressPipeline(EP(), Eg(), ED()), BufferingQueueingEngine()) main;
";
    for (guard, count) in
        [("i.packet_path != PSA_PacketPath_t.CLONE_E2E", 0), ("h.k.a == 1", 1), ("true", 1)]
    {
        let found = warnings(PROGRAM.replace("GUARD", guard));
        let clones = found.iter().filter(|one| one.starts_with("W0108")).count();
        assert_eq!(clones, count, "{guard}: {found:?}");
    }
}
