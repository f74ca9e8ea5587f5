use std::path::Path as FilePath;

use super::*;
use crate::source::{self, Loader, Parsed};

/// The tree without the places.
fn bare(unit: &Unit) -> String {
    let text = format!("{unit:?}");
    let mut parts = text.split("SourceSpan { ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    out
}

fn read(text: &str, folders: &[&FilePath]) -> Parsed {
    let path = std::env::temp_dir().join(format!(
        "wireyard-print-{}-{}.yaml",
        std::process::id(),
        std::thread::current().name().unwrap_or_default().replace("::", "-")
    ));
    std::fs::write(&path, text).expect("writes");
    let folders = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let read = source::parse_program(&path, &Loader::new(folders, &[]));
    std::fs::remove_file(&path).expect("removes");
    read.unwrap_or_else(|rejected| panic!("{text}\n{rejected}"))
}

/// Printing, reading and printing again changes nothing, and the trees are equal.
fn round_trip(unit: &Unit) {
    let text = super::unit(&Unit { is_library: false, ..unit.clone() });
    let again = read(&text, &[]);
    assert_eq!(super::unit(&again.units[0]), text);
    let bare_unit = bare(&Unit { is_library: false, ..unit.clone() });
    assert!(bare(&again.units[0]) == bare_unit, "the tree changed: {text}");
}

#[test]
fn what_is_printed_reads_back_as_the_same_tree() {
    let headers = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../programs/headers");
    let mut units = 0;
    for example in source::tests::reference_examples().iter().filter(|example| !example.entries) {
        for unit in &read(&example.text, &[&headers]).units {
            round_trip(unit);
            units += 1;
        }
    }
    assert!(units >= 8);
    let all = "pipeline: a\ninclude: [infiniband, roce, opa, mpls, geneve]\n";
    read(all, &[&headers]).units.iter().for_each(round_trip);
}

#[test]
fn every_construct_of_the_language_survives() {
    let text = include_str!("tests/everything.yaml");
    let parsed = read(text, &[]);
    round_trip(&parsed.units[0]);
}

#[test]
fn brackets_are_there_when_they_are_needed() {
    let cases = [
        "a - (b - c)",
        "(a == b) == c",
        "!(a && b) || c",
        "(a ? b : c) ? d : e ? f : g",
        "-(-a[7:0])",
        "(a ++ b)[3:0]",
        "a & (b | c) & d",
        "bit<8>(a + b) << 2",
        "signed(a) < signed(b)",
        "f()",
    ];
    for text in cases {
        let whole = crate::ir::SourceSpan { file: crate::ids::FileId(0), start: 0, end: 0 };
        let read = |text: &str| {
            let text = crate::syntax::Text { text, whole, start: None };
            crate::syntax::expression(text).expect("reads")
        };
        let printed = expression(&read(text));
        assert_eq!(read(&printed), read(text), "{printed}");
        assert!(printed.len() <= text.len(), "{printed} has brackets too many");
    }
}
