//! The differential machine for a bounded time, and everything it ever found.

use std::time::{Duration, Instant};

use serde_json::Value;

use wireyard_tests::differ::forms::{Forms, forms};
use wireyard_tests::differ::run::{Outcome, Seen, run};
use wireyard_tests::differ::{At, Case, How, Origin, file, generate};
use wireyard_tests::{seeds, workspace_root};

/// How long the machine runs here. `cargo run --example differ` runs it for long.
const TIME: Duration = Duration::from_secs(30);

#[test]
fn random_programs_do_the_same_on_every_engine_at_every_level() {
    let first = seeds::first();
    eprintln!("from seed {first} on");
    let start = Instant::now();
    let (mut agreed, mut refused, mut executions) = (0, 0, 0);
    let mut all = Seen::default();
    for seed in first.. {
        match run(&generate::case(seed)) {
            Outcome::Agree { executions: more, seen } => {
                agreed += 1;
                all += seen;
                executions += more;
            }
            Outcome::Refused(_) => refused += 1,
            Outcome::Differ(report) => panic!(
                "seed {seed}: {report}\nagain: WIREYARD_SEED={seed} cargo test -p wireyard-tests --test it random_programs_do_the_same"
            ),
        }
        if start.elapsed() > TIME {
            break;
        }
    }
    println!("{agreed} programs agree in {executions} executions, {refused} were refused: {all:?}");
    assert!(agreed >= 5, "only {agreed} programs ran, {refused} were refused");
    // Measured: two fifths have path-specialised code.
    assert!(all.specialised * 5 >= agreed, "of {agreed} programs: {all:?}");
    assert!(all.forwarded > 0 && all.held > 0, "{all:?}");
    assert!(refused * 10 <= agreed, "{refused} of {agreed} programs were refused");
}

/// What the language has is in the programs, and what may happen to packets in the cases.
#[test]
fn random_programs_have_all_there_is() {
    let cases: Vec<_> = (0..400).map(generate::case).collect();
    let words = [
        "\"parsers\":",
        "\"bind\":",
        "\"extract(",
        "\"extract_at(",
        "\"body_end(",
        "\"verify(",
        "set_valid(",
        "resubmit_received()",
        "\"word\":{\"bits\":8,",
        "\"word\":{\"bits\":16,",
        "\"word\":{\"bits\":32,",
        "\"word\":{\"bits\":64,",
        "\"params\":{\"width\":8,",
        "\"params\":{\"width\":16,",
        "\"params\":{\"width\":24,",
        "\"params\":{\"width\":32,",
        "\"params\":{\"width\":64,",
        "\"c1\":{\"field\":",
        "\"ones\":",
        "\"rest\"",
        "\"fields\":[\"h",
        "\"pad\"]",
        "\"name\":\"pad",
        "\"tail2\"",
        "\"discard\":",
        "\"size\":300,",
        "\"idle_timeout_ms\":",
        "\"meter\":{\"type\":\"srtcm\",\"unit\":\"packets\"}",
        "\"meter\":{\"type\":\"trtcm\",\"unit\":\"packets\"}",
        "\"meter\":{\"type\":\"srtcm\",\"unit\":\"bytes\"}",
        "\"learn\":",
        "\"selector\":",
        "\"pcp\":",
        " % ",
        "\"direction\":\"inout\"",
        "\"direction\":\"out\"",
        "(p1 = ",
        "{\"varbits\":160}",
        "\"unions\":",
        "\"set_invalid(h",
        "tags[(",
        "valid(tags[(",
        "\"1, 2\":",
        "\"egress_parser\":",
        "= device_weigh(",
        "\"device_note(",
        "\"on_idle\":\"remove\"",
        "\"const\":true",
        "\"drop\",\"nop\"]",
        "\"default\":\"nop\"",
        "\"default\":\"drop\"",
        "\"empty\":",
        "\"name\":\"s1\"",
        "\"update\":\"one[",
        " = one[",
        "\"x2\":",
        "\"extract\":[",
        "\"tags[1]\"]",
        "clone(bit",
        "].valid",
        "std.color = execute",
        "[1:0] = execute",
        ".rest = ",
        ".rest == ",
        ".rest)",
        ".blob)",
        ", body)",
        "std.ingress_link",
        "std.crc_error",
        "std.dequeue_ns",
    ];
    let texts: Vec<String> = cases.iter().map(|case| case.program.to_string()).collect();
    for word in words {
        let count = texts.iter().filter(|text| text.contains(word)).count();
        assert!(count >= 4, "{word}: in {count} of 400 programs");
    }
    let entries: Vec<String> =
        cases.iter().flat_map(|case| &case.entries).map(|e| e.to_string()).collect();
    let groups = entries.iter().filter(|text| text.contains("\"8\":[") || text.contains("\"8\":{"));
    assert!(groups.count() >= 4, "groups above two");
    for at in [At::Headroom, At::Start, At::End] {
        let some = |case: &&Case| case.packets.iter().any(|p| p.at == at);
        assert!(cases.iter().filter(some).count() >= 100, "{at:?}");
    }
    let count = |what: fn(&Case) -> bool| cases.iter().filter(|case| what(case)).count();
    assert!(count(|case| case.packets.iter().any(|p| p.held)) >= 100);
    assert!(count(|case| case.workers > 1) >= 100);
    for how in [How::Insert, How::Modify, How::Delete] {
        let some = |case: &&Case| case.changes.iter().any(|change| change.how == how);
        assert!(cases.iter().filter(some).count() >= 30, "{how:?}");
    }
    for key in ["entries", "defaults", "members", "groups", "value_sets", "registers", "meters"] {
        let some = |case: &&Case| case.changes.iter().any(|c| c.entries.get(key).is_some());
        assert!(cases.iter().filter(some).count() >= 4, "{key}");
    }
}

/// What is not seen in the text of a program by a word.
#[test]
fn random_tables_and_packets_are_of_all_kinds() {
    let cases: Vec<_> = (0..400).map(generate::case).collect();
    let count = |what: fn(&Case) -> bool| cases.iter().filter(|case| what(case)).count();
    let kinds = |table: &Value| -> Vec<String> {
        let keys = table["key"].as_array().into_iter().flatten();
        keys.filter_map(|key| key["kind"].as_str()).map(str::to_owned).collect()
    };
    let tables = |case: &Case| -> Vec<Value> {
        let all = case.program["tables"].as_object().into_iter().flatten();
        all.map(|(_, table)| table.clone()).collect()
    };
    let small = cases.iter().filter(|case| tables(case).iter().any(|table| table["size"] == 4));
    assert!(small.count() >= 20, "tables with little room");
    // What a quoted text holds, behind what stands before it.
    let quoted = |before: &str, what: &str| {
        let has = |case: &&Case| {
            let text = case.program.to_string();
            text.split(before)
                .skip(1)
                .any(|rest| rest.split('"').next().unwrap_or("").contains(what))
        };
        cases.iter().filter(has).count()
    };
    assert!(quoted("\"actions\":{\"", ", a") >= 20, "statements for two actions");
    assert!(quoted("\"call\":\"c", "_0 = ") >= 20, "arguments with names");
    let mixed = |table: &Value| {
        let kinds = kinds(table);
        let ordered = kinds.iter().any(|kind| ["ternary", "range", "optional"].contains(&&**kind));
        ordered && kinds.iter().any(|kind| kind == "lpm")
    };
    let mixed = cases.iter().filter(|case| tables(case).iter().any(mixed)).count();
    assert!(mixed >= 20, "prefixes beside masks: in {mixed} programs");
    let fewer = |entries: &Value| {
        let keys = |entry: &Value| entry["match"].as_object().map_or(0, |keys| keys.len());
        let all: Vec<usize> = entries.as_array().into_iter().flatten().map(keys).collect();
        all.iter().min() < all.iter().max()
    };
    let fewer = |case: &&Case| tables(case).iter().any(|table| fewer(&table["entries"]));
    let fewer = cases.iter().filter(fewer).count();
    assert!(fewer >= 20, "keys left out: in {fewer} programs");
    let equal = |table: &Value| {
        let entries = table["entries"].as_array().into_iter().flatten();
        let mut all: Vec<u64> = entries.filter_map(|entry| entry["priority"].as_u64()).collect();
        let entries = all.len();
        all.dedup();
        all.len() < entries
    };
    let equal = cases.iter().filter(|case| tables(case).iter().any(equal)).count();
    assert!(equal >= 20, "equal priorities: in {equal} programs");
    assert!(count(|case| case.program["deparser"]["emit"].is_null()) >= 10, "a default emit");
    let wide = |case: &Case| {
        let text = case.program.to_string();
        let widths = text.split("lookahead(").skip(1);
        widths.filter_map(|rest| rest.split(',').next()?.parse().ok()).any(|bits: u32| bits > 40)
    };
    assert!(count(wide) >= 10, "a wide lookahead");
    let counted = |case: &Case| case.entries.iter().any(|file| file.get("counters").is_some());
    assert!(count(counted) >= 40, "counters that begin with something");
    assert!(count(|case| case.packets.iter().any(|p| p.from == Origin::Cpu)) >= 100);
    assert!(count(|case| case.packets.iter().any(|p| p.from == Origin::Generator)) >= 100);
    let (through, alone) = (count(|case| case.through), count(|case| case.workers == 1));
    assert!(through >= 200 && alone >= 230, "{through} behind ingress, {alone} of one worker");
}

/// Path-specialised code is made, with all that it has.
#[test]
fn random_programs_have_all_forms_of_code() {
    const PROGRAMS: u64 = 150;
    let all: Vec<_> = (0..PROGRAMS).filter_map(|seed| forms(&generate::case(seed)).ok()).collect();
    let count = |what: fn(&Forms) -> bool| all.iter().filter(|forms| what(forms)).count();
    let specialised = count(|forms| forms.specialised);
    let fused = count(|forms| forms.fused);
    let (verified, updated) = (count(|forms| forms.verified), count(|forms| forms.updated));
    let computed = count(|forms| forms.computed);
    let text = format!(
        "{specialised} are specialised, {fused} fused, {verified} verify, {updated} update, {computed} compute"
    );
    println!("of {} programs: {text}", all.len());
    assert!(specialised * 3 >= all.len() && fused * 4 >= all.len(), "{text}");
    assert!(verified >= 5 && updated >= 8, "{text}");
}

#[test]
fn what_was_found_once_stays_right() {
    let folder = workspace_root().join("tests/data/regressions");
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).expect("the folder of regressions") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case = file::read(&path).unwrap_or_else(|why| panic!("{why}"));
        match run(&case) {
            Outcome::Agree { .. } => {}
            other => wrong.push(format!("{}: {other:?}", path.display())),
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= 6, "{ran} cases");
}
