//! Lists that are read here equal those of the full reader, to the byte; the usual forms are read here.

use proptest::prelude::*;

use super::*;
use crate::diag::Diagnostics;
use crate::ids::Id as _;
use crate::source::yaml;

/// Both readers agree, or this one leaves the text to the other. True if it read the text.
fn agrees(text: &str) -> bool {
    let file = FileId::new(0);
    let Some(node) = read(file, text) else { return false };
    let mut found = Diagnostics::new();
    let full = yaml::parse(file, text, &mut found);
    assert!(found.is_empty(), "{text:?}: {found:?}");
    assert_eq!(Some(node), full, "{text:?}");
    true
}

/// Entries in the shapes of this reader, with `{}` where values go.
const SHAPES: [&str; 10] = [
    "- { match: { eth.dst: {} }, action: {} }\n",
    "  - { match: { eth.dst: {} }, action: {} }\n",
    "- match: { eth.dst: {} }\n  action: {}\n",
    "-   match:\n      eth.dst: {}\n      eth.src: {}\n    action: {}\n    priority: 7\n",
    "\n\n# comment\n- { match: {}, action: {} } # why\n\n   # more\n- {match: {a: {}}, action: {}}\n",
    "- { match: { a: {}, b: {}, vlan: {} }, priority: 3, idle_timeout_ms: 9, action: {} }   \n",
    "- match: { a: {} }\n  meter: { cir: 1Gbit/s, cbs: 16KB }\n  action: {} # why\n",
    "- action: {}\n  match:\n\n    a: {}\n   # odd\n    b: {}\n- action: {}\n",
    "\n\n\n    - { match: { a: {} }, action: {} }",
    "- match:   \n   a: {}\n  action:   {}\n- match:\n     a: {}\n  action: {}\n",
];

/// Values that are written without quotes, and with them.
const VALUES: [&str; 19] = [
    "1",
    "0x0800",
    "02:00:00:00:00:01",
    "10.0.0.0/8",
    "1 &&& 0xff",
    "5..9",
    "_",
    "2001:db8::1",
    "drop",
    "send(1)",
    "set(port = 3)",
    "UPLINK",
    "\"send(1, 2)\"",
    "'send(1, 2)'",
    "\"2001:db8::/32\"",
    "a'b\"c#d",
    "1000 MB",
    "\"\"",
    "x-y!z&*",
];

fn filled(shape: &str, values: &[usize]) -> String {
    let mut values = values.iter().cycle().map(|value| VALUES[value % VALUES.len()]);
    let parts: Vec<&str> = shape.split("{}").collect();
    let mut text = parts[0].to_owned();
    for part in &parts[1..] {
        text.push_str(values.next().unwrap_or("1"));
        text.push_str(part);
    }
    text
}

#[test]
fn common_shapes_are_read_here() {
    for shape in SHAPES {
        for value in 0..VALUES.len() {
            let text = filled(shape, &[value]);
            assert!(agrees(&text), "{text:?}");
        }
    }
    assert!(agrees("- { match: {}, action: drop }\n- {  }\n"));
}

#[test]
fn the_rest_is_left_to_the_full_reader() {
    for text in [
        "",
        "- a\n",
        "a: 1\n",
        "- { a: b c: d }\n",
        "- { action: send(1, 2) }\n",
        "- { a: 1, a: 2 }\n",
        "- { a: ~ }\n",
        "- { a: null }\n",
        "- { a: &x 1 }\n",
        "- { a: *x }\n",
        "- { a: !t 1 }\n",
        "- { a: [1] }\n",
        "- { a: 1,\n    b: 2 }\n",
        "- a: 1\n    2\n",
        "- a: |\n    2\n",
        "- a: 1\n b: 2\n",
        "- a: é\n",
        "-\ta: 1\n",
        "- a: 1\r\n",
        "- a: \"b\\n\"\n",
        "- a: 'it''s'\n",
        "- { a: 1 }\n---\n- { a: 1 }\n",
        "- { a: 1 } x\n",
        "- { a: 1 }\n  b: 2\n",
        "- { a: }\n",
        "- a:\n- a: 1\n",
    ] {
        assert!(!agrees(text), "{text:?}");
    }
}

/// Characters that are special in YAML.
const SIGNS: &[u8] = b" \n:,{}[]#-'\"&*!?|>%@`~.a0()_\t\\<=";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Valid texts with a few characters changed, removed or inserted.
    #[test]
    fn mutated_lists(
        shapes in proptest::collection::vec((0..SHAPES.len(), proptest::collection::vec(0usize..99, 1..4)), 1..4),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..SIGNS.len(), 0..3), 0..4),
    ) {
        let mut bytes: Vec<u8> = Vec::new();
        for (shape, values) in &shapes {
            bytes.extend(filled(SHAPES[*shape], values).bytes());
        }
        for (at, sign, change) in changes {
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = SIGNS[sign],
                1 => bytes.insert(at, SIGNS[sign]),
                _ if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => {}
            }
        }
        agrees(std::str::from_utf8(&bytes).expect("ASCII"));
    }

    /// Lines of signs, in every order.
    #[test]
    fn random_signs(picks in proptest::collection::vec(0usize..24, 0..40)) {
        let parts = [
            "- ", "  ", "    ", "\n", "\n", "{ ", " }", "a: ", "b: ", "1", "x(1)", ", ", ":", " # c", "\"q\"", "'s'", "null",
            "-", "match:", "\n  ", "\n- ", "~", "?", "\n    ",
        ];
        let text: String = picks.iter().map(|pick| parts[*pick]).collect();
        agrees(&text);
        agrees(&format!("- a: 1\n{text}"));
        agrees(&format!("- {{ a: {text} }}\n"));
    }
}
