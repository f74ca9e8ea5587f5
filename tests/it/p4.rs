//! P4-16 programs: the collection of p4c as judge of the front end, packet tests of our own, and mutants.
//!
//! The collection lies beside the project (`../shared/p4`) and is not part of it. What passes stands in `data/p4/*.txt`, one name a
//! line, so that nothing falls back; `BLESS=1` writes the lists anew. Reasons of what does not pass are printed in groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use wireyard_pipeline::ast::print::units_with_places;
use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{Diagnostics, Rejected, Severity, line_columns};
use wireyard_pipeline::entries::load;
use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_pipeline::source::{Loader, check_p4, parse_program};
use wireyard_switch::program::{EngineKind, Place};
use wireyard_switch::stf::run::{Outcome, PORTS_OF_P4, run_file};
use wireyard_tests::binary::wireyard;
use wireyard_tests::{shared, skip};

/// The collection; `None`, and a loud skip, where it is not there.
fn collection(test: &str) -> Option<PathBuf> {
    let folder = shared().map(|shared| shared.join("p4")).filter(|folder| folder.is_dir());
    if folder.is_none() {
        skip(test, "no p4c collection in ../shared/p4");
    }
    folder
}

/// Programs that a list names.
fn listed(folder: &Path, lists: &[&str]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for list in lists {
        let text = fs::read_to_string(folder.join(list)).expect("a list of programs");
        paths.extend(text.lines().map(|name| folder.join("samples").join(name.trim())));
    }
    paths
}

/// The first error of each program that was refused, without its names, and how often it is first.
fn reasons(refused: &[(String, String)]) -> String {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, text) in refused {
        let first = text.lines().next().unwrap_or_default();
        let parts: Vec<&str> = first.split('`').step_by(2).collect();
        groups.entry(parts.join("`..`")).or_default().push(name);
    }
    let mut lines: Vec<String> = groups
        .iter()
        .map(|(reason, names)| format!("{:4} {reason} ({})", names.len(), names.join(" ")))
        .collect();
    lines.sort();
    lines.join("\n")
}

/// Runs a check over programs and compares those that pass with a list.
fn judged(list: &str, paths: &[PathBuf], check: impl Fn(&Path) -> Result<(), String>) {
    let (mut passed, mut refused) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match check(path) {
            Ok(()) => passed.push(name),
            Err(text) => refused.push((name, text)),
        }
    }
    passed.sort();
    println!("{list}: {} of {}\n{}", passed.len(), paths.len(), reasons(&refused));
    let golden = Path::new("data/p4").join(list);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&golden, passed.join("\n") + "\n").expect("writes the list");
        return;
    }
    let known = fs::read_to_string(&golden).expect("the list of what passes");
    let lost: Vec<&str> =
        known.lines().filter(|name| !passed.iter().any(|one| one == name)).collect();
    assert!(lost.is_empty(), "{list}: no longer as it was: {}", lost.join(" "));
    let new = passed.iter().filter(|name| !known.lines().any(|one| one == **name)).count();
    if new > 0 {
        println!("{list}: {new} more than listed: run with BLESS=1");
    }
}

fn compiled(path: &Path) -> Result<(), String> {
    let parsed =
        parse_program(path, &Loader::new(Vec::new(), &[])).map_err(|why| why.to_string())?;
    let files = parsed.files.clone();
    compile(&parsed, &ExternRegistry::new())
        .map(drop)
        .map_err(|diagnostics| Rejected { diagnostics, files }.to_string())
}

#[test]
fn programs_of_the_collection_are_accepted() {
    let Some(folder) = collection("programs_of_the_collection_are_accepted") else { return };
    let loader = Loader::new(Vec::new(), &[]);
    let check = |path: &Path| check_p4(path, &loader).map(drop).map_err(|why| why.to_string());
    judged("accepted.txt", &listed(&folder, &["stf.txt", "compile.txt", "frontend.txt"]), check);
}

#[test]
fn programs_of_the_collection_become_pipelines() {
    let Some(folder) = collection("programs_of_the_collection_become_pipelines") else { return };
    judged("compiled.txt", &listed(&folder, &["stf.txt", "compile.txt"]), compiled);
}

#[test]
fn wrong_programs_of_the_collection_are_refused() {
    let Some(folder) = collection("wrong_programs_of_the_collection_are_refused") else { return };
    let entries = fs::read_dir(folder.join("errors")).expect("the wrong programs");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "p4"));
    paths.sort();
    judged("refused.txt", &paths, |path| {
        let loader = Loader::new(Vec::new(), &[]);
        match check_p4(path, &loader) {
            Err(_) => Ok(()),
            Ok(_) => Err("nothing is found wrong".into()),
        }
    });
    let listed = fs::read_to_string("data/p4/not_refused.txt").expect("the list with reasons");
    let listed: Vec<&str> =
        listed.lines().filter_map(|line| line.split_once(": ").map(|(name, _)| name)).collect();
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let refused = check_p4(path, &Loader::new(Vec::new(), &[])).is_err();
        let says = if refused { "is refused, and listed" } else { "is accepted, and not listed" };
        assert_eq!(!refused, listed.contains(&&*name), "{name} {says} in not_refused.txt");
    }
    paths.retain(|path| !marked(path).is_empty());
    judged("refused_lines.txt", &paths, |path| {
        let Err(rejected) = check_p4(path, &Loader::new(Vec::new(), &[])) else {
            return Err("nothing is found wrong".into());
        };
        let errors = rejected.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
        let spans: Vec<_> =
            errors.filter_map(|one| one.primary.as_ref()).map(|at| at.span).collect();
        let lines = line_columns(&rejected.files, &spans);
        match lines.iter().any(|(line, _)| marked(path).contains(line)) {
            true => Ok(()),
            false => Err(format!("the error is elsewhere: {lines:?}")),
        }
    });
}

/// Lines of a wrong program whose comments say what is wrong there.
fn marked(path: &Path) -> Vec<usize> {
    const WORDS: &[&str] = &[
        "error",
        "illegal",
        "not ",
        "no ",
        "invalid",
        "wrong",
        "missing",
        "too many",
        "cannot",
        "different",
        "same argument",
        "multiple",
    ];
    let text = fs::read_to_string(path).unwrap_or_default();
    let is_marked = |line: &str| {
        line.split_once("//").is_some_and(|(code, comment)| {
            !code.trim().is_empty()
                && WORDS.iter().any(|word| comment.to_lowercase().contains(word))
        })
    };
    (1..).zip(text.lines()).filter(|(_, line)| is_marked(line)).map(|(at, _)| at).collect()
}

/// The ways that the packet tests of one program run: both engines, the compiled one at levels that follow each other from program to
/// program; all with `WIREYARD_P4_EVERY_LEVEL`.
fn ways(program: usize) -> Vec<(EngineKind, u8)> {
    let (interpreter, compiled) = (EngineKind::Interp, EngineKind::Jit);
    if std::env::var_os("WIREYARD_P4_EVERY_LEVEL").is_some() {
        return (0..=LEVEL_MAX)
            .flat_map(|level| [(interpreter, level), (compiled, level)])
            .collect();
    }
    vec![(interpreter, 0), (compiled, (program % (usize::from(LEVEL_MAX) + 1)) as u8)]
}

#[test]
fn packet_tests_of_the_collection_pass() {
    let Some(folder) = collection("packet_tests_of_the_collection_pass") else { return };
    let paths = listed(&folder, &["stf.txt"]);
    judged("passed.txt", &paths, |path| {
        let number = paths.iter().position(|one| one == path).unwrap_or(0);
        let script = path.with_extension("stf");
        for (engine, level) in ways(number) {
            match run_file(&script, engine, level, &Place::default()) {
                Outcome::Passed { .. } => {}
                Outcome::Failed(text) | Outcome::Malformed(text) => {
                    let way = format!("{} at level {level}", engine.name());
                    return Err(text.replace(&*script.to_string_lossy(), &way));
                }
            }
        }
        Ok(())
    });
}

/// The figures of the pages are those of the lists.
#[test]
fn pages_state_how_much_of_the_collection_passes() {
    let lines = |path: &Path| fs::read_to_string(path).expect("a list").lines().count();
    let passed = lines("data/p4/passed.txt".as_ref());
    let mut sentence = format!("{passed} of p4c's 141 packet tests pass");
    if let Some(folder) = shared().map(|shared| shared.join("p4/stf.txt")).filter(|p4| p4.is_file())
    {
        sentence = format!("{passed} of p4c's {} packet tests pass", lines(&folder));
    }
    for page in ["../README.md", "../programs/p4.md"] {
        let text = fs::read_to_string(page).expect("a page");
        let found = text.matches("packet tests pass").count();
        assert_eq!((found, text.matches(&sentence).count()), (1, 1), "{page}: {sentence}");
    }
    let page = fs::read_to_string("../programs/p4.md").expect("a page");
    let equal = lines("data/p4/p4info.txt".as_ref());
    let sentence = format!("It is equal for all {equal} programs of p4c's collection");
    assert!(page.contains(&sentence), "{sentence}");
}

/// Every packet test here, on every engine and level, through the binary.
#[test]
fn p4_programs_pass_their_packet_tests() {
    // Programs of others, which `p4_large` has.
    const ELSEWHERE: &[&str] = &["fabric.stf", "up4.stf"];
    let files = fs::read_dir("data/p4").expect("the programs");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"));
    let mut scripts: Vec<String> = names
        .filter(|name| name.ends_with(".stf") && !ELSEWHERE.contains(&name.as_str()))
        .map(|name| format!("data/p4/{name}"))
        .collect();
    scripts.sort();
    assert!(scripts.iter().any(|script| script == "data/p4/router.stf"), "{scripts:?}");
    let mut failed = String::new();
    for script in scripts {
        let output = Command::new(wireyard())
            .args(["test", &script, "--every-level"])
            .output()
            .expect("wireyard starts");
        let text = [output.stdout.as_slice(), &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if !output.status.success() {
            failed += &format!("{script}:\n{text}\n");
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// The messages of one kind of warning about a program.
fn warnings(text: &str, code: &str) -> Vec<String> {
    let loader = Loader::in_memory([("m.p4", text)], &[]);
    let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("it is a program");
    let found = compiled.warnings.iter().filter(|one| one.code.id == code);
    found.map(|one| one.message.clone()).collect()
}

/// A header that is never valid has one warning, by its name in the source.
#[test]
fn headers_that_are_never_valid_are_named_as_in_the_source() {
    let text = fs::read_to_string("data/p4/bytes.p4").expect("the program");
    let mut found = warnings(&text, "W0102");
    found.sort();
    let mut once = found.clone();
    once.dedup();
    assert_eq!(found, once);
    let of = |name: &str| format!("header `{name}` is never valid");
    for name in ["absent", "unset.v"] {
        assert!(found.contains(&of(name)), "{name}: {found:?}");
    }
    let known = ["absent", "none", "none[1]", "u.b", "u.v", "unset.v"].map(of);
    assert!(found.iter().all(|one| known.contains(one)), "{found:?}");
}

/// A header that is a variable of the parser does not leave the packet when it is extracted again.
#[test]
fn variables_that_are_extracted_again_have_no_warning() {
    let text = fs::read_to_string("data/p4/ahead_alone.p4").expect("the program");
    let state = "state one { packet.lookahead<bit<8>>(); transition accept; }";
    assert!(text.contains(state));
    let again = |declared: &str, header: &str| {
        let next = format!("transition select({header}.a) {{ 1: one; default: accept; }}");
        let looped = format!("state one {{ {declared} packet.extract({header}); {next} }}");
        warnings(&text.replace(state, &looped), "W0104")
    };
    assert_eq!(again("byte_t t;", "t"), Vec::<String>::new());
    let lost = "header `failed` may be extracted already when this state is reached";
    assert_eq!(again("", "hdr.failed"), [lost]);
}

/// Where the egress parser of PSA would find other headers than those of ingress, egress parses; else it goes on with what ingress left.
#[test]
fn psa_programs_parse_in_egress_where_that_finds_something_else() {
    let text = fs::read_to_string("data/p4/psa.p4").expect("the program");
    let drop = "} else if (hdr.shim.to != 7) {";
    let (decides, accepts) =
        ("transition select(hdr.shim.to) { 3: accept; }", "transition accept;");
    let parses = |text: String| {
        let loader = Loader::in_memory([("m.p4", text)], &[]);
        let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
        let compiled = compile(&parsed, &ExternRegistry::new()).expect("it is a program");
        compiled.program.parser.egress.is_some()
    };
    for (from, to, expected) in [
        ("", "", false),
        (drop, "} else { hdr.shim.setInvalid();", true),
        ("packet.emit(hdr.shim);", "", true),
        (accepts, decides, false),
    ] {
        assert_eq!(parses(text.replacen(from, to, 1)), expected, "{to}");
    }
    let changed = text.replacen(accepts, decides, 1).replacen(drop, "} else { hdr.shim.to = 4;", 1);
    assert!(parses(changed), "the field decides");
}

/// Only where egress writes `egress_spec` does it ask whether to drop; in front of an `exit` too.
#[test]
fn egress_that_writes_no_egress_spec_does_not_read_it() {
    let text = fs::read_to_string("data/p4/parsed.p4").expect("the program");
    let empty = "control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }";
    assert!(text.contains(empty));
    for (body, reads) in [
        ("if (hdr.kind.a == 3) { exit; } hdr.kind.a = 4;", false),
        ("if (hdr.kind.a == 3) { std.egress_spec = 511; exit; } hdr.kind.a = 4;", true),
    ] {
        let text = text.replace(empty, &empty.replace("apply { }", &format!("apply {{ {body} }}")));
        let loader = Loader::in_memory([("m.p4", text)], &[]);
        let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
        let yaml = units_with_places(&parsed.units, &parsed.files);
        let compiled = compile(&parsed, &ExternRegistry::new()).expect("it is a program");
        let said = compiled.warnings.iter().any(|one| one.code.id == "W0107");
        assert!(!said, "no warning: {yaml}");
        assert_eq!(yaml.contains("meta.egress_spec_2 =="), reads, "{yaml}");
    }
}

/// What `wireyard convert` prints passes the packet tests that the P4 source passes.
#[test]
fn the_yaml_of_programs_of_the_collection_behaves_the_same() {
    let Some(folder) = collection("the_yaml_of_programs_of_the_collection_behaves_the_same") else {
        return;
    };
    let made = tempfile::tempdir().expect("a folder");
    judged("converted.txt", &listed(&folder, &["stf.txt"]), |path| {
        let parsed = parse_program(path, &Loader::new(Vec::new(), &[]));
        let parsed = parsed.map_err(|why| why.to_string())?;
        let ports: Vec<String> = (0..PORTS_OF_P4).map(|port| port.to_string()).collect();
        let text = fs::read_to_string(path.with_extension("stf")).expect("a script");
        let script = made.path().join("script.stf");
        let run = |program: &Path, text: &str| {
            let head = format!("program {}\nports {}\n", program.display(), ports.join(" "));
            fs::write(&script, format!("{head}{text}")).expect("writes");
            run_file(&script, EngineKind::Interp, 0, &Place::default())
        };
        let Outcome::Passed { packets } = run(path, &text) else {
            return Err("does not pass in P4".into());
        };
        let yaml = made.path().join("made.yaml");
        fs::write(&yaml, units_with_places(&parsed.units, &parsed.files)).expect("writes");
        match run(&yaml, &with_higher_priorities(&text)) {
            Outcome::Passed { packets: again } if again == packets => Ok(()),
            // The actions of a table in a script have the names that P4 gives them; YAML has one of each name.
            Outcome::Malformed(why) => Err(format!("the script does not fit the YAML: {why}")),
            other => panic!("{}: in YAML {other:?}", path.display()),
        }
    });
}

/// The script with every entry's priority one higher: those of bmv2 begin at 0, those of a YAML program at 1.
fn with_higher_priorities(script: &str) -> String {
    let mut lines = String::new();
    for line in script.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let priority = words.get(2).and_then(|word| word.parse::<u32>().ok());
        match (words[0], priority) {
            ("add", Some(priority)) => {
                let rest = words[3..].join(" ");
                lines += &format!("add {} {} {rest}\n", words[1], priority + 1);
            }
            _ => lines += &format!("{line}\n"),
        }
    }
    lines
}

/// The YAML of a program's tree is read again and gives the same tree.
#[test]
fn the_yaml_of_a_p4_program_is_the_same_program() {
    for program in ["data/p4/router.p4", "data/p4/places.p4"] {
        let loader = Loader::new(Vec::new(), &[]);
        let parsed = parse_program(program.as_ref(), &loader).expect("the program");
        let yaml = wireyard_pipeline::ast::print::units(&parsed.units);
        let memory = Loader::in_memory([("again.yaml", yaml.as_str())], &[]);
        let again = parse_program("again.yaml".as_ref(), &memory)
            .unwrap_or_else(|why| panic!("{why}\n{yaml}"));
        assert_eq!(wireyard_pipeline::ast::print::units(&again.units), yaml);
    }
}

/// No panic and no endless work for any change of a program: bytes removed, doubled, exchanged. The programs are ours and those of
/// the collection, a part of the changes each; `WIREYARD_P4_MUTANTS` says how many changes there are.
#[test]
fn mutants_of_p4_programs_end() {
    let mut paths = vec![PathBuf::from("data/p4/router.p4"), PathBuf::from("data/p4/psa_more.p4")];
    if let Some(folder) = collection("mutants_of_p4_programs_end") {
        paths.extend(listed(&folder, &["stf.txt", "compile.txt"]));
    }
    let count = std::env::var("WIREYARD_P4_MUTANTS").ok().and_then(|n| n.parse().ok());
    let (mut seed, count) = (0x2545_f491_4f6c_dd1d_u64, count.unwrap_or(300));
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for turn in 0..count {
        // A step that shares no factor with how many there are visits all of them.
        let path = &paths[turn * 101 % paths.len()];
        let mut bytes = fs::read(path).expect("a program");
        for _ in 0..=next(3) {
            let (from, len) = (next(bytes.len() - 40), 1 + next(30));
            match next(3) {
                0 => drop(bytes.drain(from..from + len)),
                1 => {
                    let part = bytes[from..from + len].to_vec();
                    let to = next(bytes.len());
                    bytes.splice(to..to, part);
                }
                _ => bytes[from] = b"(){}<>;:,.=+-*&|!~@#\"0aA"[next(24)],
            }
        }
        let loader = Loader::in_memory([("m.p4", bytes)], &[]);
        let start = Instant::now();
        if let Ok(parsed) = parse_program("m.p4".as_ref(), &loader) {
            let _ = compile(&parsed, &ExternRegistry::new());
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{}: a mutant takes too long",
            path.display()
        );
    }
}

/// Small texts that would grow without bound are errors, and soon.
#[test]
fn p4_programs_that_grow_without_bound_are_refused() {
    let doubled = |line: &dyn Fn(usize, usize) -> String| -> String {
        (1..50).map(|n| line(n, n - 1) + "\n").collect()
    };
    let macros = doubled(&|n, before| format!("#define E{n} E{before} E{before}"));
    let numbers = doubled(&|n, before| format!("const int a{n} = a{before} * a{before};"));
    let strings = doubled(&|n, before| format!("const string s{n} = s{before} ++ s{before};"));
    for (text, said) in [
        (format!("#define E0\n{macros}E49 const bit<8> a = 1;"), "steps"),
        (format!("const int a0 = 3;\n{numbers}"), "bits"),
        (format!("const string s0 = \"ab\";\n{strings}"), "bytes"),
        (format!("#if 9{} == 1\n#endif\n", " * 9".repeat(100_000)), "has no value"),
    ] {
        let loader = Loader::in_memory([("m.p4", text)], &[]);
        let start = Instant::now();
        let refused = check_p4("m.p4".as_ref(), &loader).expect_err(said);
        assert!(refused.to_string().contains(said), "{refused}");
        assert!(start.elapsed() < Duration::from_secs(10), "{said} takes too long");
    }
}

/// Actions that call each other twice become more statements than there may be, which is an error, and soon.
#[test]
fn p4_calls_that_double_are_refused() {
    let text = fs::read_to_string("data/p4/turns.p4").expect("the program");
    let (before, behind) = text.split_once("control Eg(").expect("its egress");
    let (head, behind) = behind.split_once("{ apply { } }").expect("which is empty");
    for first in ["hdr.n.a = hdr.n.a + 1;", ""] {
        let calls: String =
            (1..40).map(|n| format!("action a{n}() {{ a{0}(); a{0}(); }}\n", n - 1)).collect();
        let body = format!("{{ action a0() {{ {first} }}\n{calls} apply {{ a39(); }} }}");
        let text = format!("{before}control Eg({head}{body}{behind}");
        let loader = Loader::in_memory([("m.p4", text)], &[]);
        let start = Instant::now();
        let refused = parse_program("m.p4".as_ref(), &loader).expect_err("too much");
        assert!(refused.to_string().contains("statements"), "{refused}");
        assert!(start.elapsed() < Duration::from_secs(10), "it takes too long");
    }
}

/// A table of one key.
fn table(name: &str) -> String {
    format!(
        "table {name} {{ key = {{ hdr.h.n: exact; }} actions = {{ drop; NoAction; }} \
         default_action = NoAction(); }}"
    )
}

/// What is wrong with entries of a program, and the names of its tables.
fn read_entries(text: String, entries: &str) -> (Result<(), String>, Vec<String>) {
    let loader = Loader::in_memory([("m.p4", text), ("e.yaml", entries.to_owned())], &[]);
    let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
    let program = compile(&parsed, &ExternRegistry::new()).expect("it is a program").program;
    let (mut files, mut found) = (parsed.files, Diagnostics::new());
    let resolved = load("e.yaml".as_ref(), &loader, &program, &mut files, &mut found);
    let why = Rejected { diagnostics: found, files };
    let names = program.tables.iter().map(|table| table.name.clone());
    (resolved.map(drop).ok_or_else(|| why.to_string()), names.collect())
}

/// Entries name tables and actions as the source does, also where the program has other names since the language has these.
#[test]
fn entries_have_the_names_of_the_p4_source() {
    let text = fs::read_to_string("data/p4/ranged.p4").expect("the program");
    let action = "bit<8> k = 2; action drop() { std.egress_spec = 511; }";
    let text = text
        .replace("bit<8> k = 2;", &format!("{action} {} {}", table("n"), table("punt")))
        .replace("std.egress_spec = 2;", "std.egress_spec = 2; n.apply(); punt.apply();");
    let entries = "entries:\n  n: [ { match: { hdr.h.n: 1 }, action: drop() } ]\n  \
                   punt: [ { match: { hdr.h.n: 2 }, action: drop() } ]\n";
    // With the control around it, which is how P4Info has it.
    let whole = "entries:\n  In.n: [ { match: { hdr.h.n: 1 }, action: In.drop() } ]\n  \
                 In.punt: [ { match: { hdr.h.n: 2 }, action: In.drop } ]\n\
                 defaults: { In.n: NoAction() }\n";
    let wrong = "entries: { Other.n: [ { match: { hdr.h.n: 1 }, action: drop() } ] }\n";
    for (entries, is_right) in [(entries, true), (whole, true), (wrong, false)] {
        let loader =
            Loader::in_memory([("m.p4", text.clone()), ("e.yaml", entries.to_owned())], &[]);
        let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
        let program = compile(&parsed, &ExternRegistry::new()).expect("it is a program").program;
        assert!(program.tables.iter().any(|table| table.name == "n"), "a name of its own");
        let (mut files, mut found) = (parsed.files, Diagnostics::new());
        let resolved = load("e.yaml".as_ref(), &loader, &program, &mut files, &mut found);
        let why = Rejected { diagnostics: found, files };
        assert_eq!(resolved.is_some(), is_right, "{entries}: {why}");
    }
}

/// A name that two tables of the source have means neither of them; each has its own in the program.
#[test]
fn entries_do_not_name_one_of_two_tables_of_the_p4_source() {
    let text = fs::read_to_string("data/p4/ranged.p4").expect("the program");
    let of = |std: &str| format!("action drop() {{ {std} }} {}", table("punt"));
    let text = text
        .replace("bit<8> k = 2;", &format!("bit<8> k = 2; {}", of("std.egress_spec = 511;")))
        .replace("std.egress_spec = 2;", "std.egress_spec = 2; punt.apply();");
    let (before, behind) = text.split_once("control Eg(").expect("its egress");
    let (head, behind) = behind.split_once("{ apply { } }").expect("which is empty");
    let egress = format!("{{ {} apply {{ punt.apply(); }} }}", of("hdr.h.steps = 0;"));
    let text = format!("{before}control Eg({head}{egress}{behind}");
    let entries_of = |table: &str| {
        format!("entries:\n  {table}: [ {{ match: {{ hdr.h.n: 1 }}, action: NoAction() }} ]\n")
    };
    let (read, names) = read_entries(text.clone(), &entries_of("punt"));
    let why = read.expect_err("two tables have this name");
    assert!(why.contains("the program has no table `punt`"), "{why}");
    for name in &names {
        assert_eq!(read_entries(text.clone(), &entries_of(name)).0, Ok(()), "{name} of {names:?}");
    }
}

/// Loops that become more code than a pass may have are one error, which names the limit.
#[test]
fn p4_loops_that_become_too_much_are_one_error() {
    let text = fs::read_to_string("data/p4/ranged.p4").expect("the program");
    let (before, behind) = text.split_once("for (bit<8> i in k..hdr.h.n) {").expect("a loop");
    let ifs: String =
        (0..20).map(|n| format!("if (hdr.h.n == {n}) {{ hdr.h.steps = {n}; }}\n")).collect();
    let loops = "for (bit<8> o = 0; o < hdr.h.n; o = o + 1) { for (bit<8> i in k..hdr.h.n) {";
    let text = format!("{before}{loops} {ifs} }} }} for (bit<8> i in k..hdr.h.n) {{{behind}");
    let loader = Loader::in_memory([("m.p4", text)], &[]);
    let parsed = parse_program("m.p4".as_ref(), &loader).unwrap_or_else(|why| panic!("{why}"));
    let refused = compile(&parsed, &ExternRegistry::new()).map(drop).expect_err("too much");
    let errors = refused.iter().filter(|one| one.severity() == Severity::Error).count();
    assert_eq!(errors, 1, "{:?}", refused.iter().map(|one| &one.message).collect::<Vec<_>>());
    assert!(refused.iter().any(|one| one.message.contains("16384 blocks")));
}

/// Nesting that would exhaust the stack is an error.
#[test]
fn deep_p4_programs_are_refused() {
    for text in [
        format!("const bit<8> a = {}1{};", "(".repeat(50_000), ")".repeat(50_000)),
        format!("const bit<8> a = {}1;", "-".repeat(50_000)),
        format!("const bool a = {}true;", "1 == ".repeat(50_000)),
        format!("void f() {}{}", "{".repeat(50_000), "}".repeat(50_000)),
        format!("#define A {}\nconst bit<8> a = A;", "A ".repeat(1000)),
        "#define A B B B B\n#define B C C C C\n#define C D D D D\n#define D A A A A\nA".to_owned(),
        "#include \"m.p4\"\n".to_owned(),
    ] {
        let loader = Loader::in_memory([("m.p4", text)], &[]);
        assert!(check_p4("m.p4".as_ref(), &loader).is_err());
    }
}
