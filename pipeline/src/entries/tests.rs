//! Reading a file in parts is the same as reading it at once: the same entries, the same errors at the same places.

use super::*;
use crate::check::{ExternRegistry, compile};
use crate::diag::render;
use crate::source::parse_program;
use proptest::prelude::*;
use wireyard_tables::Update;

const PROGRAM: &str = "
pipeline: example
headers: { eth: { fields: { dst: mac, src: mac, kind: 16 } } }
parser: { start: { extract: eth } }
const: { UPLINK: 9 }
actions: { send: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  fdb: { key: { eth.dst: exact }, actions: [send], size: 100 }
  acl: { key: { eth.src: ternary }, actions: [send, drop], idle_timeout_ms: 1000 }
  fixed: { key: { eth.kind: exact }, actions: [send], const_entries: true }
ingress: [ { apply: fdb }, { apply: acl }, { apply: fixed } ]
";

const AT_ONCE: Sizes = Sizes { whole_bytes_max: u64::MAX, chunk_bytes: 0 };

/// The resolved file, and the rendered errors.
fn load(text: &str, sizes: Sizes) -> (Option<Resolved>, String) {
    load_of(PROGRAM, text, Purpose::Fill, sizes)
}

fn load_of(
    program_text: &str,
    text: &str,
    purpose: Purpose,
    sizes: Sizes,
) -> (Option<Resolved>, String) {
    let (program, path) = (Path::new("p.yaml"), Path::new("e.yaml"));
    let loader = Loader::in_memory([(program, program_text), (path, text)], &[]);
    let parsed = parse_program(program, &loader).expect("the program is read");
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("the program is right");
    let (mut files, mut found) = (parsed.files, Diagnostics::new());
    let resolved =
        load_with(path, &loader, &compiled.program, (purpose, sizes), &mut files, &mut found);
    (resolved, render::plain(&found, &files))
}

fn in_parts(chunk_bytes: usize) -> Sizes {
    Sizes { whole_bytes_max: 0, chunk_bytes }
}

const ENTRIES: &str = "\
# In front.
defaults: { acl: drop }
entries:

  # Stations.
  fdb:
    - { match: { eth.dst: 02:00:00:00:00:01 }, action: send(1) }
    # Between.
    - match: { eth.dst: 02:00:00:00:00:02 }

      action: send(UPLINK)
    -
      match:
        eth.dst: \"02:00:00:00:00:03\"
      action: send(3)
    - { match: { eth.dst: 02:00:00:00:00:04 },
        action: send(1) }
  acl:
  - { match: { eth.src: 1 &&& 1 }, priority: 3, action: drop, idle_timeout_ms: 7 }
  - { match: {}, priority: 1, action: send(4) }
multicast_groups: { 1: [1, 2] }
";

#[test]
fn the_same_entries() {
    let (whole, errors) = load(ENTRIES, AT_ONCE);
    assert_eq!((whole.as_ref().map(|r| r.updates.len()), errors.as_str()), (Some(7), ""));
    for text in [ENTRIES.to_owned(), ENTRIES.replace('\n', "\r\n"), ENTRIES.trim_end().to_owned()] {
        for chunk_bytes in [1, 60, 100, 200, 10_000] {
            assert_eq!(load(&text, in_parts(chunk_bytes)), (whole.clone(), String::new()));
        }
    }
}

#[test]
fn what_is_not_a_block_list_is_read_at_once() {
    for text in [
        "{ entries: { fdb: [ { match: { eth.dst: 1 }, action: send(1) } ] } }",
        "entries:\n  fdb: [ { match: { eth.dst: 1 }, action: send(1) } ]\n",
        "entries: { fdb: [\n  { match: { eth.dst: 1 }, action: send(1) } ] }\n",
        "",
        "# Nothing.\n",
        "entries:\n  fdb: []\n",
    ] {
        assert_eq!(load(text, in_parts(1)), load(text, AT_ONCE), "{text}");
        assert_eq!(load(text, AT_ONCE).1, "", "{text}");
    }
}

#[test]
fn the_same_errors() {
    for (right, wrong) in [
        ("send(1)", "sent(1)"),
        ("send(UPLINK)", "send(99999)"),
        ("{ eth.dst: 02:00:00:00:00:02 }", "{ eth.dts: 02:00:00:00:00:02 }"),
        ("      action: send(3)\n", "      acton: send(3)\n"),
        ("\"02:00:00:00:00:03\"", "02:00:00:00:03"),
        ("priority: 3, ", ""),
        ("  acl:\n", "  access:\n"),
        ("  acl:\n", "  fixed:\n"),
        ("multicast_groups", "multicast"),
        ("  acl:\n", "  fdb:\n"),
    ] {
        assert!(ENTRIES.contains(right), "{right}");
        let text = ENTRIES.replace(right, wrong);
        let (resolved, errors) = load(&text, AT_ONCE);
        assert!(resolved.is_none() && !errors.is_empty(), "{wrong}");
        for chunk_bytes in [1, 100, 10_000] {
            assert_eq!(load(&text, in_parts(chunk_bytes)), (None, errors.clone()), "{wrong}");
        }
    }
}

#[test]
fn entries_written_twice_and_too_many_are_found_over_parts() {
    let line = |n: usize| format!("    - {{ match: {{ eth.dst: {n} }}, action: send(1) }}\n");
    let lines = |all: &mut dyn Iterator<Item = usize>| all.map(line).collect::<String>();
    let text = format!("entries:\n  fdb:\n{}", lines(&mut (0..90).chain([7])));
    let (resolved, errors) = load(&text, in_parts(100));
    assert!(resolved.is_none() && errors.contains("e.yaml:93:"), "{errors}");
    assert!(errors.contains("it is entry 8 of the table, counted from 1"), "{errors}");
    let text = format!("entries:\n  fdb:\n{}", lines(&mut (0..101)));
    assert_eq!(load(&text, in_parts(100)), load(&text, AT_ONCE));
    assert!(load(&text, AT_ONCE).1.contains("101 entries do not fit"));
}

#[test]
fn a_file_changes_entries_of_the_program_that_are_not_constant() {
    let program = PROGRAM.replace(
        "fdb: { key: { eth.dst: exact }, actions: [send], size: 100 }",
        "fdb: { key: { eth.dst: exact }, actions: [send], size: 3, entries: [
          { match: { eth.dst: 1 }, action: send(1) }, { match: { eth.dst: 2 }, action: send(1), const: true } ] }",
    );
    let file = |numbers: &[u32]| {
        let line = |n: &u32| format!("    - {{ match: {{ eth.dst: {n} }}, action: send(5) }}\n");
        format!("entries:\n  fdb:\n{}", numbers.iter().map(line).collect::<String>())
    };
    let purposes = [Purpose::Fill, Purpose::Change, Purpose::Remove];
    for (purpose, sizes) in
        purposes.into_iter().flat_map(|one| [(one, AT_ONCE), (one, in_parts(1))])
    {
        let load = |numbers: &[u32]| load_of(&program, &file(numbers), purpose, sizes);
        let (resolved, errors) = load(&[1, 3]);
        let updates = resolved.unwrap_or_else(|| panic!("{purpose:?}: {errors}")).updates;
        let is_modify = |update: &Update| matches!(update, Update::Modify(..));
        let modified: Vec<bool> = updates.iter().map(is_modify).collect();
        assert_eq!(modified, [purpose == Purpose::Fill, false], "{purpose:?}");
        for (numbers, error) in [
            (&[1, 1][..], "this entry already exists"),
            (&[1, 3, 4], "2 entries do not fit: there is room for 1"),
        ] {
            let (_, errors) = load(numbers);
            assert!(errors.contains(error), "{purpose:?}: {errors}");
        }
        // What a text selects to remove may be to read it: the device refuses to remove it.
        let (resolved, errors) = load(&[2]);
        assert_eq!(resolved.is_some(), purpose == Purpose::Remove, "{purpose:?}");
        let error = "the program declares this entry as constant: it cannot be changed";
        assert_eq!(errors.contains(error), purpose != Purpose::Remove, "{purpose:?}: {errors}");
    }
}

#[test]
fn an_entry_of_the_program_is_found_in_any_form() {
    let program = PROGRAM.replace(
        "fdb: { key: { eth.dst: exact }, actions: [send], size: 100 }",
        "fdb: { key: { eth.dst: ternary }, actions: [send], size: 3, entries: [
          { match: { eth.dst: 1 }, action: send(1), priority: 5 },
          { match: { eth.dst: 0xff00 &&& 0xff00 }, action: send(1), priority: 5 } ] }",
    );
    for (form, is_declared) in [
        ("1 &&& 0xffffffffffff", true),
        ("1", true),
        ("0xff00 &&& 0xff00", true),
        ("1 &&& 0xff", false),
        ("0xff00", false),
    ] {
        let line = format!(
            "entries:\n  fdb:\n    - {{ match: {{ eth.dst: {form} }}, action: send(5), priority: 5 }}\n"
        );
        let (resolved, errors) = load_of(&program, &line, Purpose::Fill, AT_ONCE);
        let updates = resolved.unwrap_or_else(|| panic!("{form}: {errors}")).updates;
        assert_eq!(matches!(updates[0], Update::Modify(..)), is_declared, "{form}");
    }
}

#[test]
fn texts_of_parts_are_not_kept() {
    let line = |n: usize| format!("    - {{ match: {{ eth.dst: {n} }}, action: send(1) }}\n");
    let text = format!("entries:\n  fdb:\n{}", (0..100).map(line).collect::<String>());
    let (program, path) = (Path::new("p.yaml"), Path::new("e.yaml"));
    let loader = Loader::in_memory([(program, PROGRAM), (path, text.as_str())], &[]);
    let parsed = parse_program(program, &loader).expect("the program is read");
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("the program is right");
    let (mut files, mut found) = (parsed.files, Diagnostics::new());
    let before: usize = files.iter().map(|file| file.text.len()).sum();
    let sizes = in_parts(200);
    load_with(path, &loader, &compiled.program, (Purpose::Fill, sizes), &mut files, &mut found)
        .expect("entries");
    let kept = files.iter().map(|file| file.text.len()).sum::<usize>() - before;
    assert!(kept < text.len() / 4, "{kept} of {}", text.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For any lines, both ways of reading accept the same ones, and mostly report the same errors.
    #[test]
    fn random_lines(
        lines in proptest::collection::vec(0usize..16, 0..40),
        chunk_bytes in 1usize..300,
    ) {
        let text: String = lines.iter().enumerate().map(|(n, kind)| match kind {
            0 => "entries:\n".to_owned(),
            1 => "  fdb:\n".to_owned(),
            2 => "  acl:\n".to_owned(),
            3 => "\n".to_owned(),
            4 => "    # comment\n".to_owned(),
            5 => "      action: send(2)\n".to_owned(),
            6 => format!("    - match: {{ eth.dst: {n} }}\n      action: send(1)\n"),
            7 => format!("  - {{ match: {{ eth.src: {n} &&& {n} }}, priority: {n}, action: drop }}\n"),
            8 => "defaults: { acl: drop }\n".to_owned(),
            9 => "  ]\n".to_owned(),
            _ => format!("    - {{ match: {{ eth.dst: {n} }}, action: send(1) }}\n"),
        }).collect();
        let (whole, parts) = (load(&text, AT_ONCE).0, load(&text, in_parts(chunk_bytes)).0);
        if whole.is_some() {
            prop_assert_eq!(parts, whole, "{}", text);
        } else {
            prop_assert!(parts.is_none(), "{}", text);
        }
    }
}
