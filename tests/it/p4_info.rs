//! P4Info of P4-16 programs against what p4c makes of the same sources, up to order and documentation.
//!
//! The collection lies beside the project (`../shared/p4`). Programs whose P4Info is equal stand in `data/p4/p4info.txt`, the others with
//! the reason in `data/p4/p4info_differs.txt`. What no stored P4Info shows is in `data/p4/listed.p4`, and what p4c says of it in the
//! file beside it.

use std::fs;
use std::iter::Peekable;
use std::path::PathBuf;
use std::process::Command;
use std::str::Chars;

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::source::{Loader, p4_info, parse_program};
use wireyard_switch::control::ControlError;
use wireyard_switch::p4runtime::forms::Forms;
use wireyard_switch::p4runtime::proto::p4::config::v1::Preamble;
use wireyard_switch::p4runtime::proto::p4::v1::{P4Data, p4_data::Data};
use wireyard_switch::p4runtime::schema::Schema;
use wireyard_switch::p4runtime::{p4_source, proto};
use wireyard_switch::program::without_entries;
use wireyard_tests::binary::wireyard;
use wireyard_tests::{shared, skip};

/// The fields of a message in text form, sorted, one text each; messages without fields are left out, as are comments.
fn fields(chars: &mut Peekable<Chars<'_>>) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        blanks(chars);
        match chars.peek() {
            None => break,
            Some('}') => {
                chars.next();
                break;
            }
            _ => {}
        }
        let name: String = word(chars);
        assert!(
            !name.is_empty(),
            "a field name before {:?}",
            chars.clone().take(20).collect::<String>()
        );
        blanks(chars);
        if chars.next_if_eq(&':').is_some() {
            blanks(chars);
        }
        if chars.next_if_eq(&'[').is_some() {
            loop {
                blanks(chars);
                if chars.next_if_eq(&']').is_some() {
                    break;
                }
                found.extend(field(&name, chars));
            }
        } else {
            found.extend(field(&name, chars));
        }
    }
    found.retain(|one| !one.starts_with("doc{"));
    found.sort();
    found
}

fn field(name: &str, chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    match chars.peek() {
        Some('{') => {
            chars.next();
            let inner = fields(chars);
            (!inner.is_empty()).then(|| format!("{name}{{{}}}", inner.join(" ")))
        }
        Some('"') => Some(format!("{name}={:?}", text(chars))),
        _ => Some(format!("{name}={}", word(chars))),
    }
}

fn blanks(chars: &mut Peekable<Chars<'_>>) {
    while let Some(next) = chars.peek() {
        match next {
            '#' => while chars.next().is_some_and(|c| c != '\n') {},
            ' ' | '\n' | ',' | ';' => drop(chars.next()),
            _ => break,
        }
    }
}

fn word(chars: &mut Peekable<Chars<'_>>) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    std::iter::from_fn(|| chars.next_if(is_part)).collect()
}

/// A string with its escapes.
fn text(chars: &mut Peekable<Chars<'_>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    chars.next();
    while let Some(next) = chars.next() {
        match next {
            '"' => break,
            '\\' => match chars.next() {
                Some(digit @ '0'..='7') => {
                    let mut value = u32::from(digit) - 48;
                    for _ in 0..2 {
                        let Some(digit) = chars.next_if(|c| ('0'..='7').contains(c)) else { break };
                        value = value * 8 + u32::from(digit) - 48;
                    }
                    bytes.push(value as u8);
                }
                Some('x') => {
                    let digits: String =
                        std::iter::from_fn(|| chars.next_if(char::is_ascii_hexdigit)).collect();
                    bytes.push(u8::from_str_radix(&digits, 16).expect("hexadecimal digits"));
                }
                Some('n') => bytes.push(b'\n'),
                Some('t') => bytes.push(b'\t'),
                Some('r') => bytes.push(b'\r'),
                Some(other) => bytes.extend(other.to_string().bytes()),
                None => break,
            },
            other => bytes.extend(other.to_string().bytes()),
        }
    }
    bytes
}

fn normal(text: &str) -> Vec<String> {
    fields(&mut text.chars().peekable())
}

#[test]
fn p4info_is_that_of_p4c() {
    let Some(folder) = shared().map(|shared| shared.join("p4")).filter(|folder| folder.is_dir())
    else {
        return skip("p4info_is_that_of_p4c", "no p4c collection in ../shared/p4");
    };
    let stored = fs::read_dir(folder.join("p4info")).expect("the P4Infos");
    let mut names: Vec<String> = stored
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".p4info.txtpb")?.to_owned()))
        .collect();
    names.sort();
    let (mut equal, mut other) = (Vec::new(), Vec::new());
    for name in &names {
        let path: PathBuf = folder.join("samples").join(format!("{name}.p4"));
        let stored = folder.join("p4info").join(format!("{name}.p4info.txtpb"));
        let want = normal(&fs::read_to_string(stored).expect("a P4Info"));
        let found = match p4_info(&path, &Loader::new(Vec::new(), &[])) {
            Ok((Some(info), _)) => normal(&proto::p4info_text(&p4_source::p4info(&info))),
            Ok((None, _)) => vec!["no P4Info".into()],
            Err(why) => vec![why.to_string()],
        };
        if want == found {
            equal.push(name.clone());
            continue;
        }
        let less: Vec<&String> = want.iter().filter(|one| !found.contains(one)).take(2).collect();
        let more: Vec<&String> = found.iter().filter(|one| !want.contains(one)).take(2).collect();
        other.push(format!("{name}\n  p4c:  {less:?}\n  here: {more:?}"));
    }
    println!("P4Info: {} of {} equal\n{}", equal.len(), names.len(), other.join("\n"));
    let golden = "data/p4/p4info.txt";
    if std::env::var_os("BLESS").is_some() {
        fs::write(golden, equal.join("\n") + "\n").expect("writes the list");
        return;
    }
    let known = fs::read_to_string(golden).expect("the list of what is equal");
    let differs = fs::read_to_string("data/p4/p4info_differs.txt").expect("what differs, and why");
    let differs: Vec<&str> = differs
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once('\t').expect("a name, a tab and a reason");
            assert!(!reason.trim().is_empty(), "{name} differs without a reason");
            name
        })
        .collect();
    let lost: Vec<&str> =
        known.lines().filter(|name| !equal.iter().any(|one| one == name)).collect();
    assert!(lost.is_empty(), "no longer equal: {}", lost.join(" "));
    let (new, unlisted): (Vec<&String>, Vec<&String>) = names
        .iter()
        .filter(|name| !known.lines().any(|one| one == name.as_str()))
        .filter(|name| equal.contains(name) || !differs.contains(&name.as_str()))
        .partition(|name| equal.contains(name));
    assert!(new.is_empty(), "equal now, and not in the list: {new:?}");
    assert!(unlisted.is_empty(), "different, and in no list: {unlisted:?}");
}

/// A program with what no stored P4Info shows.
#[test]
fn p4info_of_what_the_collection_does_not_have() {
    for name in ["listed", "listed_twice", "listed_empty", "listed_in_place"] {
        let path = PathBuf::from(format!("data/p4/{name}.p4"));
        let info = p4_info(&path, &Loader::new(Vec::new(), &[])).map_err(|why| why.to_string());
        let info = info.expect("the program is right").0.expect("it has a P4Info");
        let text = proto::p4info_text(&p4_source::p4info(&info));
        let golden = format!("data/p4/{name}.p4info.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&golden, &text).expect("writes the P4Info");
        }
        let want = fs::read_to_string(&golden).expect("its P4Info");
        assert_same(&normal(&want), &normal(&text), name);
    }
}

fn assert_same(want: &[String], found: &[String], name: &str) {
    let less: Vec<&String> = want.iter().filter(|one| !found.contains(one)).collect();
    let more: Vec<&String> = found.iter().filter(|one| !want.contains(one)).collect();
    assert!(less.is_empty() && more.is_empty(), "{name}\nwanted: {less:#?}\nfound: {more:#?}");
}

/// Through the binary, and for a program that is checked only.
#[test]
fn p4info_of_a_p4_source_has_the_names_of_the_source() {
    let output = Command::new(wireyard()).args(["p4info", "data/p4/router.p4"]).output();
    let output = output.expect("wireyard starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("arch: \"v1model\""), "{text}");
    let source = fs::read_to_string("data/p4/router.p4").expect("the source");
    let table =
        source.lines().find_map(|line| line.trim().strip_prefix("table ")).expect("a table");
    let table = table.split(|c: char| !c.is_alphanumeric() && c != '_').next().expect("a name");
    assert!(text.contains(&format!(".{table}\"")), "{text}");
}

/// What P4Info lists of a program that can run, and the service does not know by its id.
fn unknown(schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut see = |what: &str, known: bool, preamble: &Option<Preamble>| {
        let name = preamble.as_ref().map(|preamble| &preamble.name);
        if !known {
            unknown.push(format!("{what} {}", name.expect("a name")));
        }
    };
    let id = |preamble: &Option<Preamble>| preamble.as_ref().map_or(0, |preamble| preamble.id);
    for table in &schema.info.tables {
        let Ok(found) = schema.table(id(&table.preamble)) else {
            see("table", false, &table.preamble);
            continue;
        };
        let keys: Vec<u32> = table.match_fields.iter().map(|field| field.id).collect();
        let own = &schema.forms.keys[found.0 as usize];
        let is_same = own.iter().map(|field| field.id).eq(keys);
        see("match fields of table", is_same, &table.preamble);
        for action in &table.action_refs {
            let listed = &schema.declared(found).actions;
            let has = schema.action_of(found, action.id).is_ok_and(|id| listed.contains(&id));
            see("an action of table", has, &table.preamble);
        }
    }
    macro_rules! see_all {
        ($($field:ident by $find:ident),*) => {
            $(for one in &schema.info.$field {
                see(stringify!($find), schema.$find(id(&one.preamble)).is_ok(), &one.preamble);
            })*
        };
    }
    see_all!(
        counters by counter, meters by meter, registers by register, digests by digests,
        value_sets by value_set
    );
    // A profile without a selector, or of several tables, is refused with the reason.
    for one in &schema.info.action_profiles {
        let found = schema.profile(id(&one.preamble));
        let known = matches!(found, Ok(_) | Err(ControlError::Unimplemented(_)));
        see("action profile", known, &one.preamble);
    }
    unknown
}

#[test]
fn everything_in_the_p4info_of_the_collection_is_known_by_its_id() {
    let Some(folder) = shared().map(|shared| shared.join("p4")).filter(|folder| folder.is_dir())
    else {
        let test = "everything_in_the_p4info_of_the_collection_is_known_by_its_id";
        return skip(test, "no p4c collection in ../shared/p4");
    };
    let list = |name: &str| fs::read_to_string(folder.join(name)).expect("a list");
    let names = list("stf.txt") + "\n" + &list("compile.txt");
    let (mut ran, mut wrong) = (0, Vec::new());
    for name in names.lines().filter_map(|line| line.split_whitespace().next()) {
        let name = name.trim_end_matches(".p4");
        let path = folder.join("samples").join(format!("{name}.p4"));
        let Ok(parsed) = parse_program(&path, &Loader::new(Vec::new(), &[])) else { continue };
        let Ok(loaded) = without_entries(parsed) else { continue };
        ran += 1;
        let unknown = unknown(&Schema::of(loaded.program));
        wrong.extend(unknown.iter().map(|what| format!("{name}: {what}")));
    }
    println!("{ran} programs");
    assert!(ran > 200, "{ran} programs run");
    assert!(wrong.is_empty(), "not known: {}", wrong.join("\n"));
}

/// The language has it in two cells.
#[test]
fn a_register_above_64_bits_is_one_number_for_controllers() {
    let loader = Loader::new(Vec::new(), &[]);
    let parsed = parse_program("data/p4/cells.p4".as_ref(), &loader).expect("the program");
    let program = compile(&parsed, &ExternRegistry::new()).expect("it is a program").program;
    let found = program.registers.iter().position(|register| register.name == "wide");
    let wide = found.expect("the register");
    let forms = Forms::of(&program);
    let message = forms.register(wide, &[1, 0x2345]);
    let bytes = vec![1, 0, 0, 0, 0, 0, 0, 0x23, 0x45];
    assert_eq!(message.data, Some(Data::Bitstring(bytes)));
    let found = forms.cells(wide, &message, 2, || "wide".into());
    assert_eq!(found, Ok(Some(vec![vec![1], vec![0x23, 0x45]])));
    let long = P4Data { data: Some(Data::Bitstring(vec![1; 17])) };
    let refused = forms.cells(wide, &long, 2, || "wide".into());
    assert!(matches!(refused, Err(ControlError::OutOfRange(_))), "{refused:?}");
}

/// Types stand in the order of their names: a message of a map has none, and the next run would have another.
#[test]
fn types_of_a_p4info_are_in_order() {
    for (format, first, second) in [
        ("text", "key: \"candidates\"", "key: \"requests\""),
        ("json", "\"candidates\": {", "\"requests\": {"),
    ] {
        for _ in 0..6 {
            let made = Command::new(wireyard())
                .args(["p4info", "nic_notification_point", "--format", format])
                .output()
                .expect("it runs");
            let text = String::from_utf8(made.stdout).expect("text");
            let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
            assert!(at(first) < at(second), "{text}");
        }
    }
}
