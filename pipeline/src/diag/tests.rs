use super::*;
use crate::ids::Id;

fn span(start: u32, end: u32) -> SourceSpan {
    SourceSpan { file: FileId::new(0), start, end }
}

fn files(text: &str) -> Files {
    [SourceFile::named("a.yaml", text.into())].into_iter().collect()
}

#[test]
fn rendering_shows_place_line_caret_notes_and_fix() {
    let mut found = Diagnostics::new();
    found
        .error(codes::UNKNOWN_KEY, span(11, 17), "unknown key `feilds`")
        .label(span(0, 1), "in this header")
        .note("a header has `fields`, `bytes` and `word`")
        .did_you_mean("feilds", ["fields", "bytes"]);
    let text = render::plain(&found, &files("h:\n a: 1\n  feilds: 3\n"));
    assert!(text.contains("error[E0008]: unknown key `feilds`"), "{text}");
    assert!(text.contains("did you mean `fields`?"), "{text}");
    let text = render::plain(&found, &files("é:\r\n\tx\r\n  feilds: 3\r\n"));
    assert!(text.contains("a.yaml:3:3"), "{text}");
    let caret = text.lines().find(|line| line.contains("^^^^^^")).expect("caret");
    let source = text.lines().find(|line| line.contains("feilds: 3")).expect("source line");
    assert_eq!(caret.find('^'), source.find("feilds"), "{text}");
}

#[test]
fn order_is_by_place_and_repeats_collapse() {
    let mut found = Diagnostics::new();
    found.error(codes::SYNTAX, span(5, 6), "second");
    found.error(codes::SYNTAX, span(1, 2), "first");
    found.error(codes::SYNTAX, span(5, 6), "second");
    found.error_without_place(codes::FILE_NOT_READ, "nowhere");
    let order: Vec<&str> = found.sorted().iter().map(|one| one.message.as_str()).collect();
    assert_eq!(order, ["nowhere", "first", "second"]);
    assert_eq!(found.counts(), (4, 0));
    assert_eq!(found.summary(), "3 errors");
}

#[test]
fn spans_beyond_the_text_do_not_panic() {
    let mut found = Diagnostics::new();
    found.error(codes::SYNTAX, span(1, 900), "é is two bytes").label(span(700, 3), "backwards");
    for text in ["é", "", "\n", "a\r\n"] {
        render::plain(&found, &files(text));
        json::to_json(&found, &files(text));
    }
}

#[test]
fn json_counts_columns_in_characters() {
    let mut found = Diagnostics::new();
    found.error(codes::SYNTAX, span(6, 7), "here").here("label");
    let value = json::to_json(&found, &files("a\né: x\n"));
    assert_eq!(value[0]["place"]["line"], 2);
    assert_eq!(value[0]["place"]["column"], 4);
    assert_eq!(value[0]["place"]["start_byte"], 6);
    assert_eq!(value[0]["place"]["label"], "label");
    assert_eq!(value[0]["severity"], "error");
}
