//! What the command line does with a P4-16 program: macros and folders given there, and its YAML.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use wireyard_tests::binary::wireyard;

const PROGRAM: &str = "#include <v1model.p4>
#include \"types.p4\"
#ifndef OUT
#error \"OUT is the port that packets leave by\"
#endif
struct H { mark_t mark; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.mark); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    action put(bit<8> v) { h.mark.kind = v; }
    table t { key = { h.mark.kind : exact; } actions = { put; NoAction; } const entries = { 5 : put(9); } }
    apply {
        t.apply();
#ifdef MARK
        h.mark.value = MARK;
#endif
        s.egress_spec = OUT;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h.mark); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

/// A folder with the program, and another one with what it includes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writes");
    fs::create_dir(folder.path().join("inc")).expect("a folder");
    write("inc/types.p4", "header mark_t { bit<8> kind; bit<8> value; }\n");
    write("main.p4", PROGRAM);
    let script =
        "ports 1 2 3\npacket 1 05 00\nexpect 3 09 07 $\nwait\npacket 1 06 00\nexpect 3 06 07 $\n";
    write("main.stf", script);
    folder
}

fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(wireyard()).args(args).current_dir(folder).output();
    let Output { status, stdout, stderr } = output.expect("wireyard starts");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn macros_and_folders_reach_a_p4_program() {
    let folder = folder();
    let run = |args: &[&str]| run(folder.path(), args);
    let (code, text) = run(&["check", "-DOUT=3", "main.p4"]);
    assert!(code == Some(1) && text.contains("there is no file `types.p4`"), "{text}");
    let (code, text) = run(&["check", "-I", "inc", "main.p4"]);
    assert!(code == Some(1) && text.contains("OUT is the port"), "{text}");
    let (code, text) = run(&["check", "-I", "inc", "-D", "OUT=3", "main.p4"]);
    assert_eq!(code, Some(0), "{text}");
    let test = |macros: &[&str]| run(&[&["test", "-I", "inc", "main.stf"], macros].concat());
    assert_eq!(test(&["-D", "OUT=3", "-D", "MARK=7"]).0, Some(0));
    assert_eq!(test(&["-DOUT=2", "-DMARK=7"]).0, Some(1), "another port");
    assert_eq!(test(&["-DOUT=3", "-DMARK"]).0, Some(1), "a macro without a value is 1");
    let (code, text) = run(&["check", "-D", "1OUT", "main.p4"]);
    assert!(code == Some(2) && text.contains("NAME=VALUE"), "{text}");
}

/// The error for a program of another architecture or of P4-14 says what to do with it.
#[test]
fn a_program_that_is_not_for_here_gets_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |source: &str, help: &str| {
        fs::write(folder.path().join("other.p4"), source).expect("writes");
        let (code, text) = run(folder.path(), &["check", "other.p4"]);
        assert!(code == Some(1) && text.contains(help), "{text}");
        text
    };
    let text = refused("#include <tna.p4>\n", "the architecture of another target");
    assert!(!text.contains("did you mean"), "{text}");
    refused("#include \"v1modle.p4\"\n", "+ #include \"v1model.p4\"");
    refused("header_type h_t { fields { a : 8; } }\n", "p4c --std p4-14");
    let source = "bit<8> f(in bit<8> n) { return 8w1 | (1 << n); }\n";
    refused(source, "give the number on the left a width");
}

#[test]
fn a_configuration_has_macros_of_its_p4_program() {
    let folder = folder();
    let config = "program: main.p4\ndefines: { OUT: 3, MARK: 7 }\n";
    fs::write(folder.path().join("switch.yaml"), config).expect("writes");
    let script = "ports 1 2 3\nconfig switch.yaml\npacket 1 05 00\nexpect 3 09 07 $\n";
    fs::write(folder.path().join("main.stf"), script).expect("writes");
    assert_eq!(run(folder.path(), &["check", "-I", "inc", "."]).0, Some(0));
    let (code, text) = run(folder.path(), &["test", "-I", "inc", "main.stf"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(folder.path(), &["test", "-I", "inc", "-D", "MARK=8", "main.stf"]);
    assert_eq!(code, Some(1), "the command line is stronger: {text}");
}

#[test]
fn convert_prints_the_same_program_in_yaml() {
    let folder = folder();
    let run = |args: &[&str]| run(folder.path(), args);
    let convert = ["convert", "main.p4", "-I", "inc", "-DOUT=3", "-DMARK=7", "-o", "made.yaml"];
    let (code, text) = run(&convert);
    assert_eq!(code, Some(0), "{text}");
    let yaml = fs::read_to_string(folder.path().join("made.yaml")).expect("the YAML");
    assert!(yaml.contains("t: # main.p4:14") && yaml.contains("mark_t: # types.p4:1"), "{yaml}");
    let script = fs::read_to_string(folder.path().join("main.stf")).expect("the script");
    fs::write(folder.path().join("made.stf"), format!("program made.yaml\n{script}")).unwrap();
    let (code, text) = run(&["test", "made.stf", "--every-level"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&["convert", "made.yaml"]);
    assert!(code == Some(2) && text.contains("not a program in P4"), "{text}");
}

/// Long chains and sums, and a loop that skips what it reads the length of, are programs in YAML too; what is not is an error.
#[test]
fn convert_writes_only_what_is_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| run(folder.path(), args);
    let write = |name: &str, apply: &str| {
        let text = format!(
            "#include <v1model.p4>
header h_t {{ bit<8> a; bit<16> r; }}
struct H {{ h_t h; }}
struct M {{ bit<8> left; }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); m.left = h.h.a; transition next; }}
    state next {{ transition select(m.left) {{ 0: accept; default: skip; }} }}
    state skip {{
        bit<8> l = p.lookahead<bit<8>>();
        p.advance((bit<32>)l * 8);
        m.left = m.left - 1;
        transition next;
    }}
}}
control C(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ s.egress_spec = 1; {apply} }} }}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"
        );
        fs::write(folder.path().join(name), text).expect("writes");
    };
    let chain: Vec<String> =
        (0..55).map(|n| format!("if (h.h.a == {n}) {{ h.h.r = {}; }}", 3 * n)).collect();
    let sum = |terms: usize| {
        let one = |n: usize| format!("(h.h.a == {} ? 16w{n} : 0)", n % 256);
        (0..terms).map(one).collect::<Vec<_>>().join(" + ")
    };
    write("long.p4", &format!("h.h.r = {}; {}", sum(100), chain.join(" else ")));
    let (code, text) = run(&["convert", "long.p4", "-o", "long.yaml"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&["check", "long.yaml"]);
    assert_eq!(code, Some(0), "{text}");
    write("longer.p4", &format!("h.h.r = {};", sum(300)));
    assert_eq!(run(&["check", "longer.p4"]).0, Some(0));
    let (code, text) = run(&["convert", "longer.p4", "-o", "longer.yaml"]);
    assert!(code != Some(0) && text.contains("nothing is written"), "{text}");
    assert!(!folder.path().join("longer.yaml").exists());
}

/// A program of an architecture that does not run here is checked like any other, and refused where something is to run.
#[test]
fn programs_of_any_architecture_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writes");
    let own = "control Pipe(inout bit<8> x);\npackage Own(Pipe p);\n\
        control add(inout bit<8> x) { apply { x = x + 1; } }\n";
    write("own.p4", &format!("{own}Own(add()) main;\n"));
    // A name alone does not make it ours. Instances may be an array, and an argument of a package may be a default.
    write(
        "named.p4",
        "extern cell_t { cell_t(); void set(in bit<8> x); }
        control Pipe(inout bit<8> x);
        control keep(inout bit<8> x) { cell_t() cells[4]; apply { cells[x].set(x); } }
        package V1Switch(Pipe p = keep());
        V1Switch() main;\n",
    );
    // A block may leave out what its type calls optional, and a number takes the type that another argument says.
    write(
        "optional.p4",
        "control Pipe(in bit<8> x, @optional in bit<8> y);
        extern T most<T>(in T a, in T b);
        control keep(in bit<8> x) { apply { bit<8> z = most(3, x); } }
        package Own(Pipe p);
        Own(keep()) main;\n",
    );
    // Right, and beyond what runs here.
    write(
        "limit.p4",
        "#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<3> a; } struct headers { h_t h; } struct meta_t { }
        parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
            state start { packet.extract(hdr.h); transition accept; } }
        control V(inout headers hdr, inout meta_t meta) { apply { } }
        control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
        control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }
        V1Switch(P(), V(), I(), I(), V(), D()) main;\n",
    );
    write("part.p4", own);
    write("wrong.p4", &format!("{own}Own(sub()) main;\n"));
    let unknown = |declared: &str, call: &str| {
        let limit = fs::read_to_string(folder.path().join("limit.p4")).expect("the program");
        let text =
            limit.replace("bit<3>", "bit<8>").replace("{ apply { } }", &format!("{{ {call} }}"));
        text.replace("header h_t", &format!("{declared}\nheader h_t"))
    };
    write(
        "method.p4",
        &unknown("extern mine_t { mine_t(); void go(); }", "mine_t() m; apply { m.go(); }"),
    );
    write("function.p4", &unknown("extern void go();", "apply { go(); }"));
    let run = |args: &[&str]| run(folder.path(), args);
    for (file, says) in [("method.p4", "register, counter"), ("function.p4", "hash, random")] {
        let (code, text) = run(&["check", file]);
        assert!(code == Some(0) && text.contains("W0111") && text.contains("`go`"), "{text}");
        assert!(text.contains("what runs: ") && text.contains(says), "{text}");
    }
    let (code, text) = run(&["check", "own.p4"]);
    assert!(code == Some(0) && text.contains("checked; it is for the architecture"), "{text}");
    assert!(text.contains("`Own`") && text.contains("0 warnings"), "{text}");
    let (code, text) = run(&["check", "named.p4"]);
    assert!(code == Some(0) && text.contains("package `V1Switch`"), "{text}");
    let (code, text) = run(&["check", "optional.p4"]);
    assert!(code == Some(0) && text.contains("architecture"), "{text}");
    let (code, text) = run(&["check", "limit.p4"]);
    assert!(code == Some(0) && text.contains("warning[W0111]: header `h_t` has 3 bits"), "{text}");
    assert!(text.contains("it is right P4-16 and does not run here"), "{text}");
    assert_eq!(run(&["check", "--strict", "limit.p4"]).0, Some(1));
    let (code, text) = run(&["test", "limit.p4"]);
    assert!(code != Some(0), "{text}");
    let (code, text) = run(&["check", "part.p4"]);
    assert!(code == Some(0) && text.contains("checked; it has no `main`"), "{text}");
    let (code, text) = run(&["check", "--json", "own.p4"]);
    assert_eq!((code, text.as_str()), (Some(0), "[]\n"));
    let (code, text) = run(&["check", "wrong.p4"]);
    assert!(code == Some(1) && text.contains("wrong.p4:4:5") && text.contains("`sub`"), "{text}");
    let (code, text) = run(&["convert", "own.p4"]);
    assert!(code != Some(0) && text.contains("E0025"), "{text}");
}

/// Mistakes that the language takes in silence, and errors whose remedy is one word.
#[test]
fn frequent_mistakes_are_named_with_their_remedy() {
    let program = |ingress: &str, transition: &str| {
        format!(
            "#include <v1model.p4>
header h_t {{ bit<6> dscp; bit<2> ecn; bit<16> kind; }}
struct H {{ h_t h; }}
struct M {{ }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); {transition} }}
}}
control C(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{
    table t {{ key = {{ h.h.kind: exact; }} actions = {{ NoAction; }} }}
    apply {{ {ingress} }}
}}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let check = |ingress: &str, transition: &str| {
        std::fs::write(folder.path().join("x.p4"), program(ingress, transition)).expect("writes");
        run(folder.path(), &["check", "x.p4"])
    };
    let accept = "transition accept;";
    for (ingress, transition, code, texts) in [
        ("h.h.dscp = 184;", accept, 0, ["warning[W0112]: 184 does not fit into bit<6>", "to 56"]),
        ("h.h.dscp = 6w184;", accept, 0, ["warning[W0112]: 184 does not fit", "x.p4:11:24"]),
        ("if (h.h.ecn == 5) { t.apply(); }", accept, 0, ["W0112", "it is cut to 1"]),
        ("t.apply();", "", 0, ["warning[W0113]: state `start`", "`transition accept;`"]),
        ("t();", accept, 1, ["cannot be called", "`.apply(..)`"]),
        (
            "s.egress_spec = h.h.kind;",
            accept,
            1,
            ["expected bit<9>, found bit<16>", "`(bit<9>) ..`"],
        ),
    ] {
        let (got, text) = check(ingress, transition);
        assert_eq!(got, Some(code), "{ingress}: {text}");
        texts.iter().for_each(|part| assert!(text.contains(part), "{ingress}: {part}: {text}"));
        assert_eq!(text.matches("W01").count(), usize::from(code == 0), "{ingress}: {text}");
    }
    // Words and signs of other languages.
    for (ingress, parts) in [
        ("bits<8> x = 1;", ["there is no `bits`", "did you mean `bit`?"]),
        ("h.h.dscp = h.h.kind[0:5];", ["the higher bit of a slice comes first", "`[5:0]`"]),
        ("while (h.h.ecn > 0) { h.h.ecn = 0; }", ["P4 has no `while`", "`for (; condition; )"]),
        ("switch (h.h.kind) { case 1: { } }", ["found the number 1", "without `case`"]),
        ("h.h.kind++;", ["found `;`", "`x = x + 1`"]),
        ("h.h.kind--;", ["found `;`", "`x = x - 1`"]),
        ("if (h.h.kind = 1) { }", ["found `=`", "compared by `==`"]),
        ("if (h.h.kind == 1) { } elif (h.h.kind == 2) { }", ["found `{`", "`else if`"]),
        ("if (h.h.kind == 1 and h.h.ecn == 2) { }", ["found `and`", "write `&&`"]),
        ("if (h.h.kind == 1 or h.h.ecn == 2) { }", ["found `or`", "write `||`"]),
        ("if (not h.h.isValid()) { }", ["found `h`", "write `!`"]),
        ("bit<32> x = 10.0.0.1;", ["found the number 0", "write 0x0a000001"]),
        ("int x = 5;", ["a variable cannot be int", "`bit<32>`"]),
        ("bool x = 1;", ["expected bool, found int", "write `true` or `false`"]),
        ("if (h.h.kind) { }", ["expected bool, found bit<16>", "`.. != 0`"]),
        ("uint8 x = 1;", ["found `x`", "`uint8` is no type here"]),
    ] {
        let (got, text) = check(ingress, accept);
        assert_eq!(got, Some(1), "{ingress}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{ingress}: {part}: {text}"));
    }
    // A negative number for an unsigned type, a cast, and what fits are not reported.
    let fine = "h.h.kind = -1; h.h.ecn = 3; h.h.dscp = (bit<6>) 184; h.h.kind = h.h.kind + 65535; t.apply();";
    let (code, text) = check(fine, accept);
    assert!(code == Some(0) && text.contains("0 warnings"), "{text}");
}

/// A name that is used in front of its declaration, or whose declaration cannot be read.
#[test]
fn names_are_declared_further_below_or_cannot_be_read() {
    let program = |header: &str, declares: &str, apply: &str| {
        format!(
            "#include <v1model.p4>
header h_t {{ {header} }}
struct H {{ h_t h; }}
struct M {{ }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control C(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{
{declares}
    apply {{ {apply} }}
}}
control Below(inout H h) {{ apply {{ }} }}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: String| {
        std::fs::write(folder.path().join("x.p4"), text).expect("writes");
        let (code, text) = run(folder.path(), &["check", "x.p4"]);
        assert_eq!(code, Some(1), "{text}");
        text
    };
    let field = "bit<8> a;";
    let table = "table t { actions = { NoAction; } }";
    let below = "declared here, below";
    let text = check(program(field, "action a() { b(); }\naction b() { }", "a();"));
    assert!(text.contains("there is no `b`") && text.contains(below), "{text}");
    let applies = format!("action a() {{ t.apply(); }}\n{table}");
    let text = check(program(field, &applies, "a();"));
    assert!(text.contains("cannot apply a table") && text.contains(below), "{text}");
    let text = check(program(field, "Below() q;", "q.apply(h);"));
    assert!(text.contains("there is no type `Below`") && text.contains(below), "{text}");
    // One error each, where there is one.
    let broken = table.replace("= {", "{");
    for text in [program("bit<8> a", "", "h.h.a = 1;"), program(field, &broken, "t.apply();")] {
        let text = check(text);
        assert!(text.contains("E0022") && !text.contains("there is no"), "{text}");
    }
}

/// A table without a size has room for its entries, also for more than the 1,024 that it has by default.
#[test]
fn a_table_has_room_for_its_entries() {
    let entries: String =
        (0..1100).map(|key| format!("            {key}: go({key} % 7);\n")).collect();
    let program = format!(
        "#include <v1model.p4>
header h_t {{ bit<16> kind; }}
struct H {{ h_t h; }}
struct M {{ }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control C(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{
    action go(bit<9> port) {{ s.egress_spec = port; }}
    table t {{
        key = {{ h.h.kind: exact; }}
        actions = {{ go; NoAction; }}
        const entries = {{
{entries}        }}
    }}
    apply {{ t.apply(); }}
}}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"
    );
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("x.p4"), program).expect("writes");
    // The last entry is there: 1099 % 7 is 0.
    let test = "program x.p4\npacket 3 044b\nexpect 0 044b\n";
    std::fs::write(folder.path().join("x.stf"), test).expect("writes");
    let (code, text) = run(folder.path(), &["test", "x.stf"]);
    assert_eq!(code, Some(0), "{text}");
}
