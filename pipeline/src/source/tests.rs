mod mutated;

use std::path::Path;

use super::*;
use crate::ast::*;

/// An example of `programs/README.md`, as a whole file.
pub(crate) struct Example {
    pub(crate) text: String,
    pub(crate) entries: bool,
}

/// Every YAML example of the reference; a fragment gets a heading.
pub(crate) fn reference_examples() -> Vec<Example> {
    let reference = include_str!("../../../programs/README.md");
    let mut examples = Vec::new();
    for block in reference.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default().to_owned();
        let entries = text.starts_with("entries:");
        let heading = !entries && !text.contains("pipeline:") && !text.contains("library:");
        let text = if heading { format!("pipeline: example\n{text}") } else { text };
        examples.push(Example { text, entries });
    }
    assert!(examples.len() >= 6, "the reference has examples");
    examples
}

const LIBRARIES: &[(&str, &str)] = &[
    (
        "ethernet",
        "library: ethernet\nheaders: { ethernet: { fields: { dst: mac, src: mac, ether_type: 16 } } }\n",
    ),
    ("ip", "library: ip\ninclude: ethernet\n"),
];

fn read(text: &str) -> Result<Parsed, Rejected> {
    read_files(&[("p/main.yaml", text)])
}

fn read_files(files: &[(&str, &str)]) -> Result<Parsed, Rejected> {
    let loader = Loader::in_memory(files.iter().copied(), LIBRARIES);
    parse_program(Path::new("p/main.yaml"), &loader)
}

/// `CODE source-at-the-caret` of each finding.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let rejected = match read_files(files) {
        Ok(_) => return Vec::new(),
        Err(rejected) => rejected,
    };
    let show = |one: &&crate::diag::Diagnostic| match &one.primary {
        Some(label) => {
            let text = &rejected.files[label.span.file].text;
            format!("{} {}", one.code, &text[label.span.start as usize..label.span.end as usize])
        }
        None => one.code.to_string(),
    };
    rejected.diagnostics.sorted().iter().map(show).collect()
}

#[test]
fn the_examples_of_the_reference_are_read() {
    for example in reference_examples() {
        if example.entries {
            let loader = Loader::in_memory([("e.yaml", example.text)], &[]);
            let (mut files, mut found) = (Files::new(), Diagnostics::new());
            let read = parse_entries(Path::new("e.yaml"), &loader, &mut files, &mut found);
            assert!(read.is_some(), "{}", crate::diag::render::plain(&found, &files));
        } else if let Err(rejected) = read(&example.text) {
            panic!("{}\n{rejected}", example.text);
        }
    }
}

#[test]
fn the_first_program_has_its_parts() {
    let example = &reference_examples()[0].text;
    let parsed = read(example).expect("reads");
    let [program, ethernet, ip] = parsed.units.as_slice() else { panic!("three units") };
    let by = |unit: &Unit| unit.name.as_ref().map(|name| name.value.clone());
    assert_eq!(by(program).as_deref(), Some("tiny_router"));
    assert_eq!((by(ethernet).as_deref(), by(ip).as_deref()), (Some("ethernet"), Some("ip")));
    assert_eq!(program.parser.len(), 2);
    let NextDecl::Select { cases, default, .. } = &program.parser[0].1.next else {
        panic!("a select")
    };
    assert_eq!(
        (cases.len(), default.as_ref().map(|name| name.value.as_str())),
        (1, Some("accept"))
    );
    assert_eq!(program.actions[0].1.body.len(), 4);
    assert_eq!(
        program.tables[0].1.key[0].name.as_ref().map(|n| n.value.as_str()),
        Some("ipv4.dst")
    );
    assert_eq!(program.ingress.as_ref().map(|control| control.value.len()), Some(2));
    let stmt = &program.actions[0].1.body[3];
    let text = &parsed.files[stmt.span.file].text[stmt.span.start as usize..stmt.span.end as usize];
    assert_eq!(text, "ipv4.ttl = ipv4.ttl - 1");
}

#[test]
fn all_errors_of_all_files_are_collected() {
    let main = "pipeline: x\ninclude: [lib, nolib, ethernt]\nheadrs: {}\nheaders:\n  h: { feilds: { a: 8 } }\nactions:\n  a: { do: [ x.y = , \"f(\" ] }\ntables:\n  t: { key: { a.b: longest }, actions: drop, size: 12x }\n";
    let lib = "library: lib\ningress: []\nconst: { A: 1 +, B: 08 }\n";
    assert_eq!(
        findings(&[("p/main.yaml", main), ("p/lib.yaml", lib)]),
        [
            "E0003 nolib",
            "E0003 ethernt",
            "E0008 headrs",
            "E0008 feilds",
            "E0013 ",
            "E0013 ",
            "E0016 longest",
            "E0014 12x",
            "E0021 ingress",
            "E0013 ",
            "E0014 08",
        ]
    );
}

#[test]
fn includes_are_found_once_in_order_and_circles_show_the_chain() {
    let files = [
        ("p/main.yaml", "pipeline: x\ninclude: [a, b]\n"),
        ("p/a.yaml", "library: a\ninclude: b\n"),
        ("p/headers/b.yaml", "library: b\n"),
    ];
    assert_eq!(read_files(&files).expect("reads").units.len(), 3);
    let circle = [
        ("p/main.yaml", "pipeline: x\ninclude: a\n"),
        ("p/a.yaml", "library: a\ninclude: b\n"),
        ("p/b.yaml", "library: b\ninclude: a\n"),
    ];
    let rejected = read_files(&circle).expect_err("a circle").to_string();
    assert!(rejected.contains("p/a.yaml -> p/b.yaml -> p/a.yaml"), "{rejected}");
    assert_eq!(findings(&circle), ["E0004 a"]);
    let wrong = [
        ("p/main.yaml", "pipeline: x\ninclude: [a, b]\n"),
        ("p/a.yaml", "library: c\n"),
        ("p/b.yaml", "pipeline: b\n"),
    ];
    assert_eq!(findings(&wrong), ["E0015 c", "E0009 pipeline"]);
}

#[test]
fn levels_of_inclusion_are_limited() {
    let mut files = vec![("p/main.yaml".to_owned(), "pipeline: x\ninclude: l0\n".to_owned())];
    for level in 0..20 {
        let text = format!("library: l{level}\ninclude: l{}\n", level + 1);
        files.push((format!("p/l{level}.yaml"), text));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(findings(&files), ["E0005 l16"]);
}

#[test]
fn files_that_cannot_be_read() {
    assert_eq!(findings(&[]), ["E0002"]);
    let long = format!("pipeline: x\ndoc: \"{}\"\n", "x".repeat(1 << 20));
    assert_eq!(findings(&[("p/main.yaml", &long)]), ["E0005"]);
    let loader = Loader::in_memory([("p/main.yaml", b"pipeline: \xff\xfe\n".to_vec())], &[]);
    let rejected = parse_program(Path::new("p/main.yaml"), &loader).expect_err("not UTF-8");
    assert!(rejected.to_string().contains("p/main.yaml:1:11"), "{rejected}");
    let loader = Loader::new(Vec::new(), &[]);
    for path in ["/", "/nonexistent/x.yaml"] {
        assert!(parse_program(Path::new(path), &loader).is_err());
    }
    assert_eq!(findings(&[("p/main.yaml", "")]), ["E0010 "]);
    assert_eq!(findings(&[("p/main.yaml", "just a text\n")]), ["E0010 just a text"]);
}

#[test]
fn a_byte_order_mark_and_crlf_do_not_move_the_caret() {
    let text = "\u{feff}pipeline: ü\r\nactions:\r\n  a: { do: [ \"m.x = +\" ] }\r\n";
    let rejected = read(text).expect_err("no operand").to_string();
    assert!(rejected.contains("p/main.yaml:1:11"), "the name is not ASCII: {rejected}");
    assert!(rejected.contains("p/main.yaml:3:21"), "{rejected}");
}

#[test]
fn expressions_torn_by_yaml_get_the_advice_to_quote() {
    let text = "pipeline: x\ningress:\n  - meta.x = a ? b : c\n  - if: !ipv4.valid\n    then: [ route(3, 4), drop ]\n";
    assert_eq!(
        findings(&[("p/main.yaml", text)]),
        ["E0017 meta.x = a ? b : c", "E0011 !ipv4.valid", "E0017 route(3, 4)"]
    );
}

#[test]
fn statements_that_are_maps() {
    let text = "pipeline: x\ningress:\n  - { iff: a, then: [] }\n  - {}\n  - { apply: t, hit: [], actions: { a: [] } }\n  - { if: a }\n  - [ a ]\n";
    assert_eq!(
        findings(&[("p/main.yaml", text)]),
        ["E0019 iff", "E0019 {}", "E0020 actions", "E0009 { if: a }", "E0010 [ a ]"]
    );
}

#[test]
fn parser_keys_that_need_or_exclude_each_other() {
    let text = "pipeline: x\nparser:\n  start: { select: a.b, next: accept }\n  b: { cases: { 1: accept } }\n  c: { bind: { a: b } }\n  d: { select: a.b, cases: { 1: reject(x), 2: reject() } }\n";
    assert_eq!(
        findings(&[("p/main.yaml", text)]),
        ["E0020 next", "E0009 cases", "E0009 bind", "E0015 reject()"]
    );
}

#[test]
fn the_standard_library_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs/headers");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        names.extend(name.strip_suffix(".yaml").map(str::to_owned));
    }
    names.sort();
    assert!(names.len() >= 10);
    let main = format!("pipeline: all\ninclude: [{}]\n", names.join(", "));
    let path = std::env::temp_dir().join(format!("wireyard-front-{}.yaml", std::process::id()));
    std::fs::write(&path, main).expect("writes");
    let read = parse_program(&path, &Loader::new(vec![folder], &[]));
    std::fs::remove_file(&path).expect("removes");
    match read {
        Ok(parsed) => assert_eq!(parsed.units.len(), names.len() + 1),
        Err(rejected) => panic!("{rejected}"),
    }
}
