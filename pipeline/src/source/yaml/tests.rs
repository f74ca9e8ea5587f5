use super::*;
use crate::ids::Id;

fn read(text: &str) -> (Option<Node>, Diagnostics) {
    let mut found = Diagnostics::new();
    let node = parse(FileId::new(0), text, &mut found);
    (node, found)
}

/// `CODE start..end` of each finding.
fn codes_of(text: &str) -> Vec<String> {
    let (_, found) = read(text);
    let place = |one: &crate::diag::Diagnostic| one.primary.as_ref().map(|primary| primary.span);
    found
        .iter()
        .map(|one| {
            let span = place(one).expect("has a place");
            let slice = &text[span.start as usize..span.end as usize];
            format!("{} {slice}", one.code)
        })
        .collect()
}

/// Every scalar with the slice of the source at its span.
fn scalars(node: &Node, text: &str, out: &mut Vec<(String, String)>) {
    let mut note = |scalar: &Scalar| {
        let slice = scalar.start.map(|at| &text[at as usize..][..scalar.text.len()]);
        out.push((scalar.text.clone(), slice.unwrap_or("-").to_owned()));
    };
    match &node.kind {
        NodeKind::Scalar(scalar) => note(scalar),
        NodeKind::List(items) => items.iter().for_each(|item| scalars(item, text, out)),
        NodeKind::Map(map) => {
            for (key, node) in &map.pairs {
                out.push((
                    key.scalar.text.clone(),
                    text[key.span.start as usize..key.span.end as usize].into(),
                ));
                scalars(node, text, out);
            }
        }
        NodeKind::Null | NodeKind::Invalid => {}
    }
}

#[test]
fn scalars_keep_their_text_and_place() {
    let text = "é: 0x0800\r\nb:\t010\r\nc: [yes, 1..5, 02:00:00:00:00:01]\r\nd: 'ü x'\r\ne: \"a\\tb\"\r\n0x86dd: { 17: udp }\r\n";
    let (node, found) = read(text);
    assert!(found.is_empty(), "{found:?}");
    let mut seen = Vec::new();
    scalars(&node.expect("a tree"), text, &mut seen);
    let changed: Vec<_> = seen.iter().filter(|(text, slice)| text != slice).collect();
    assert_eq!(changed, [&("a\tb".to_owned(), "-".to_owned())]);
    assert!(seen.iter().any(|(text, _)| text == "02:00:00:00:00:01"));
}

#[test]
fn what_yaml_reads_as_something_else_is_reported_with_the_place() {
    let cases: [(&str, &[&str]); 28] = [
        ("a: b ? c : d\n", &["E0017 b ? c : d"]),
        ("a: b ? c : d # why\n", &["E0017 b ? c : d"]),
        ("{ a: b ? c : d, e: f }\n", &["E0017 b ? c : d"]),
        ("if: !x.valid\n", &["E0011 !x.valid"]),
        ("if: !x.valid && y\nb: 1\n", &["E0011 !x.valid", "E0017 &&"]),
        ("{ if: !x.valid, then: [] }\n", &["E0011 !x.valid"]),
        ("v: && m\n", &["E0017 &&"]),
        ("v: *x + 1\n", &["E0018 *x"]),
        ("a: [x[7:0]]\n", &["E0017 ["]),
        ("a: [route(3, 4), b]\n", &["E0017 route(3, 4)"]),
        ("a: { default: route(3, f(4, 5)), b: c }\n", &["E0017 route(3, f(4, 5))"]),
        ("a: @x\n", &["E0017 @x"]),
        ("a: [@x, _]\n", &["E0017 @x"]),
        ("a: > 5\n", &["E0017 > 5"]),
        ("a: fe80::\n", &["E0017 fe80::"]),
        ("a:\n\tb: 1\n", &["E0001 b"]),
        ("a:\n  - b = 1\n\t- c\n", &["E0001 -"]),
        ("a: { b: f(c, d[7:0]), e: g }\n", &["E0017 f(c, d[7:0])"]),
        ("a: { b: f(c, d)[7:0], e: g }\n", &["E0017 f(c, d)[7:0]"]),
        ("a: { f(c, d)[7:0]: e }\n", &["E0017 f(c, d)[7:0]"]),
        ("a: { b: c[0].d }\n", &["E0017 c[0].d"]),
        ("a: [f(c, d)[7:0]]\n", &["E0017 ["]),
        ("a: {b: 1\n", &["E0001 {"]),
        ("a: b\n  c: d\n", &["E0001 :"]),
        ("a: 1\nb: 2\na: 3\n", &["E0007 a"]),
        ("a: 1\n---\nb: 2\n", &["E0012 ---"]),
        ("<<: *x\n", &["E0018 *x", "E0018 <<"]),
        ("{a: 1}: 2\n", &["E0010 {a: 1}"]),
    ];
    for (text, expected) in cases {
        assert_eq!(codes_of(text), expected, "{text}");
    }
}

#[test]
fn quoting_fixes_repair_the_line() {
    for text in [
        "a: b ? c : d\n",
        "if: !x.valid\n",
        "a: [route(3, 4), b]\n",
        "a: @x\n",
        "a: [@x, _]\n",
        "a: [x, y = f(c, g(d, e)[7:0]), z]\n",
        "a: [x, f(c, d)[7:0], z]\n",
        "a: { b: f(c, d[7:0]), e: g }\n",
        "a: { 'b, [': 1, f(c, d)[7:0]: e }\n",
    ] {
        let (_, found) = read(text);
        let fix = &found.iter().next().expect("reported").fixes[0];
        let (span, new) = &fix.edits[0];
        let mut repaired = text.to_owned();
        repaired.replace_range(span.start as usize..span.end as usize, new);
        let (_, found) = read(&repaired);
        assert!(found.is_empty(), "{repaired}: {found:?}");
    }
}

/// Quotes around these would only lead to the next error.
#[test]
fn no_quotes_are_offered_where_they_do_not_help() {
    for (text, help) in [
        ("a: [{ b: { c: * }, d: e(1) }]\n", "`_` matches any value"),
        ("a: *\n", "`_` matches any value"),
        ("- if: b.valid then: [c]\n", "write `then:` in the next line"),
        ("- apply: b hit: c\n", "write `hit:` in the next line"),
        ("- { if: b.valid then: [c] }\n", "put a `,` in front of it"),
    ] {
        let (_, found) = read(text);
        let first = found.iter().next().expect("reported");
        assert!(first.fixes.is_empty(), "{text}: {first:?}");
        assert!(first.helps.iter().any(|one| one.contains(help)), "{text}: {first:?}");
    }
}

#[test]
fn aliases_repeat_within_a_budget() {
    let (node, found) = read("a: &q [1, 2]\nb: *q\n");
    assert!(found.is_empty());
    let Some(Node { kind: NodeKind::Map(map), .. }) = node else { panic!("a map") };
    assert_eq!(map.pairs[1].1.kind, map.pairs[0].1.kind);
    assert!(map.pairs[1].1.alias.is_some());
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    assert_eq!(codes_of(&laughs).len(), 1);
    assert!(codes_of(&laughs)[0].starts_with("E0005"));
    assert_eq!(codes_of("a: &a [*a]\n"), ["E0018 *a"]);
}

#[test]
fn nesting_is_limited_without_a_crash() {
    for text in ["[".repeat(100_000), "{a: ".repeat(5_000), "- ".repeat(50_000), "? ".repeat(5_000)]
    {
        let (_, found) = read(&text);
        assert!(found.has_errors());
    }
    let mut deep = String::new();
    for level in 0..5_000 {
        deep.push_str(&" ".repeat(level.min(300)));
        deep.push_str("a:\n");
    }
    read(&deep);
}
