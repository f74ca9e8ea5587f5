//! Bytes and broken programs: never a panic, every place inside of its file.

use proptest::prelude::*;

use super::*;
use crate::diag::{json, render};

/// Insertions of a mutation: characters that are special in YAML or in the grammar, and odd bytes.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\t",
    "\r\n",
    ": ",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "\"",
    "'",
    "|",
    ">",
    "#",
    " #",
    "%",
    "@",
    "`",
    "? ",
    "---\n",
    "<<: ",
    "null",
    "~",
    "(",
    ")",
    "&&&",
    "..",
    "++",
    "|+|",
    "==",
    "=",
    "0x",
    "8w",
    "1:2:3:4:5:6",
    "ff02::1",
    "10.0.0.1/33",
    "\u{feff}",
    "é",
    "\u{0}",
    "\\",
    "if: ",
    "apply: ",
    "select: ",
    "cases: ",
];

/// Reads a text as a program and as entries; every diagnostic must have a valid place and be renderable.
fn survives(bytes: Vec<u8>) {
    let files = [("p/main.yaml", bytes.clone()), ("e.yaml", bytes)];
    let loader = Loader::in_memory(files, LIBRARIES);
    if let Err(rejected) = parse_program(Path::new("p/main.yaml"), &loader) {
        well_placed(&rejected.diagnostics, &rejected.files);
    }
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    parse_entries(Path::new("e.yaml"), &loader, &mut files, &mut found);
    well_placed(&found, &files);
}

fn well_placed(found: &Diagnostics, files: &Files) {
    for one in found.iter() {
        let labels = one.primary.iter().chain(&one.secondary).map(|label| label.span);
        let edits = one.fixes.iter().flat_map(|fix| fix.edits.iter().map(|(span, _)| *span));
        for span in labels.chain(edits) {
            let text = &files[span.file].text;
            let part = text.get(span.start as usize..span.end as usize);
            assert!(part.is_some(), "{}: {span:?} of {} bytes: {text:?}", one.message, text.len());
        }
    }
    render::plain(found, files);
    render::coloured(found, files);
    json::to_json(found, files);
}

/// The nearest place between characters.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        survives(bytes);
    }

    #[test]
    fn random_pieces(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..40)) {
        survives(pieces.concat().into_bytes());
    }

    #[test]
    fn mutated_programs(
        example in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(
            (any::<prop::sample::Index>(), 0..12usize, proptest::sample::select(PIECES)),
            1..6,
        ),
    ) {
        let examples = reference_examples();
        let everything = include_str!("../../ast/print/tests/everything.yaml");
        let mut texts: Vec<&str> = examples.iter().map(|example| example.text.as_str()).collect();
        texts.push(everything);
        let mut text = example.get(&texts).to_string();
        for (at, length, piece) in cuts {
            let start = floor(&text, at.index(text.len() + 1));
            let end = floor(&text, start + length).max(start);
            text.replace_range(start..end, piece);
        }
        survives(text.into_bytes());
    }
}
