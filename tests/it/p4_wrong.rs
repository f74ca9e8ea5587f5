//! Wrong P4 programs of ours: each is refused, with an error at the line that is marked.
//!
//! `data/p4/wrong.txt` has them in parts: what stands at the top of a program, in its parser, in front of and in the `apply` of its
//! ingress control. The rest of the program is the same for all.

use std::collections::BTreeMap;
use std::fs;

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{Diagnostics, Files, Severity, line_columns};
use wireyard_pipeline::source::{Loader, parse_program};

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

/// Lines with errors of a program; none if it is taken.
fn refused(text: String) -> Vec<usize> {
    let loader = Loader::in_memory([("wrong.p4", text)], &[]);
    match parse_program("wrong.p4".as_ref(), &loader) {
        Err(rejected) => lines_of(&rejected.diagnostics, &rejected.files),
        Ok(parsed) => match compile(&parsed, &ExternRegistry::new()) {
            Err(found) => lines_of(&found, &parsed.files),
            Ok(_) => Vec::new(),
        },
    }
}

#[test]
fn wrong_p4_programs_are_refused_at_their_lines() {
    let text = fs::read_to_string("data/p4/wrong.txt").expect("the wrong programs");
    let mut wrong = Vec::new();
    let mut count = 0;
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
        let text = program(&parts);
        let marked = (1..).zip(text.lines()).find(|(_, line)| line.contains(MARK));
        let (want, _) = marked.unwrap_or_else(|| panic!("{name} marks no line"));
        let found = refused(text);
        count += 1;
        if !found.contains(&want) {
            wrong.push(format!("{name}: line {want} is wrong, errors at {found:?}"));
        }
    }
    assert!(count > 350, "{count} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same program with nothing wrong in it is taken.
#[test]
fn the_program_around_them_is_right() {
    assert_eq!(refused(program(&BTreeMap::new())), Vec::<usize>::new());
}
