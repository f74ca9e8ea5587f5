//! Studies: a scenario with many settings; killed and taken up again, in parts, on a cluster, and what fails in them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wireyard_tests::binary::{Ended, run, wireyard};

mod clusters;
mod honest;
mod kept;

const SCENARIO: &str = "
lab: marks
duration: 400 us
sample: 20 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
host: { rate_control: hpcc_dcqcn }
switch: { qos: { preset: onyx_roce, wred_profiles: { ROCE: { green: { kmin: 20 KB, kmax: 200 KB, pmax: 10 % } } } } }
flows:
  - { load: 15 %, sizes: ali_storage, from: senders, to: sink, until: 300 us }
";

const STUDY: &str = "
study: marks
scenario: marks.yaml
vary:
  switch.qos.wred_profiles.ROCE.green.kmin: [2 KB, 40 KB]
  flows.0.load: { from: 5 %, to: 15 %, steps: 3 }
seeds: 2
figures: [flows.cnps]
goal: min flows.slowdown_p99
pareto: [min flows.slowdown_p99, max flows.throughput]
";

/// A folder with the scenario and this study.
fn place(study: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("marks.yaml"), SCENARIO).expect("writes");
    fs::write(folder.path().join("study.yaml"), study).expect("writes");
    folder
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name")
}

fn sweep(folder: &Path, out: &str, more: &[&str]) -> Ended {
    let (study, out) = (folder.join("study.yaml"), folder.join(out));
    let mut arguments = vec!["lab", "sweep", name(&study), "-o", name(&out)];
    arguments.extend(more);
    run(&arguments)
}

/// The report and the table of runs.
fn results(folder: &Path) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let read =
        |file: &str| fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    (read("report.html"), read("report.json"), read("runs.csv"))
}

fn figure(folder: &Path, name: &str) -> f64 {
    let report: Value = serde_json::from_slice(&results(folder).1).expect("a report");
    report["figures"][name]["value"].as_f64().unwrap_or_else(|| panic!("no figure {name}"))
}

#[test]
fn a_study_is_the_same_in_one_go_in_parts_and_after_a_kill() {
    let folder = place(STUDY);
    let at = |out: &str| folder.path().join(out);
    let ended = sweep(folder.path(), "whole", &["--jobs", "2"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let whole = results(&at("whole"));
    assert_eq!(
        (figure(&at("whole"), "study.runs"), figure(&at("whole"), "study.missing")),
        (12.0, 0.0)
    );
    let page = String::from_utf8(whole.0.clone()).expect("a page");
    // Values have the units of their figures.
    let runs = String::from_utf8(whole.2.clone()).expect("a table");
    for column in ["flows.throughput (bit/s)", "flows.cnps (count)"] {
        assert!(runs.lines().next().expect("a heading").contains(column), "{runs}");
    }
    assert!(
        page.contains(">flows.throughput (Gbit/s)<")
            || page.contains(">flows.throughput (Mbit/s)<")
    );
    for id in ["heat-flows-slowdown_p99", "pareto"] {
        assert!(page.contains(&format!("<figure id=\"{id}\"")), "{id}");
    }
    for part in ["1/3", "2/3", "3/3"] {
        assert_eq!(sweep(folder.path(), "parts", &["--shard", part]).status, Some(0));
    }
    let (parts, merged) = (at("parts"), at("merged"));
    let ended = run(&["lab", "merge", name(&parts), "-o", name(&merged)]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert_eq!(results(&merged), whole);
    // What a kill in the middle of the sixth line leaves: the others are not run again.
    let file = "part-1-of-1.jsonl";
    let text = fs::read_to_string(at("whole").join(file)).expect("results");
    let cut: usize = text.lines().take(5).map(|line| line.len() + 1).sum();
    fs::create_dir(at("killed")).expect("a folder");
    fs::write(at("killed").join(file), &text[..cut + 20]).expect("writes");
    let ended = sweep(folder.path(), "killed", &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.err.contains("4 of 12 runs were done before"), "{}", ended.err);
    assert_eq!(results(&at("killed")), whole);
}

/// Results are data for programs too, and who waits at a terminal sees how long.
#[test]
fn studies_print_json_and_their_progress() {
    let folder = place(STUDY);
    let report = |ended: &Ended| {
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        serde_json::from_str::<Value>(&ended.out).expect("JSON")
    };
    let swept = report(&sweep(folder.path(), "out", &["--json"]));
    assert_eq!(swept["figures"]["study.runs"]["value"], 12.0);
    let (out, merged) = (folder.path().join("out"), folder.path().join("merged"));
    let again = report(&run(&["lab", "merge", name(&out), "-o", name(&merged), "--json"]));
    assert_eq!(swept, again);
    let one = report(&sweep(folder.path(), "out", &["--json", "--only", "2:1"]));
    assert_eq!((&one["point"], &one["seed"]), (&Value::from(2), &Value::from(1)));
    assert!(one["figures"]["flows.cnps"].is_number(), "{one}");

    let study = folder.path().join("study.yaml");
    let command = format!(
        "{} lab sweep {} -o {}",
        wireyard().display(),
        name(&study),
        name(&folder.path().join("shown"))
    );
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    let Ok(ended) = script.output() else {
        return wireyard_tests::skip(
            "studies_print_json_and_their_progress",
            "script(1) is not there",
        );
    };
    let shown = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(
        shown.contains("0 of 12 runs, 0 %") && shown.contains("6 of 12 runs, 50 % | "),
        "{shown}"
    );
}

/// A cluster may start a task again while the old one still runs.
#[test]
fn a_part_is_written_by_one_process() {
    let folder = place(STUDY);
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("a folder");
    let part = fs::File::create(out.join("part-1-of-1.jsonl")).expect("a part");
    part.lock().expect("a lock");
    let refused = sweep(folder.path(), "out", &[]);
    refused.expect(2, &["part-1-of-1.jsonl: another process adds to it"]);
    part.unlock().expect("a lock");
    assert_eq!(sweep(folder.path(), "out", &["--only", "1:1"]).status, Some(0));
}

#[test]
fn a_kill_loses_no_finished_run() {
    let folder = place(&STUDY.replace("seeds: 2", "seeds: 8"));
    let (study, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let mut child = Command::new(wireyard())
        .args(["lab", "sweep", name(&study), "-o", name(&out), "--jobs", "1", "--quiet"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let part = out.join("part-1-of-1.jsonl");
    let lines = || fs::read_to_string(&part).map_or(0, |text| text.lines().count());
    for _ in 0..1000 {
        if lines() > 6 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().expect("kills");
    child.wait().expect("ends");
    let before = lines();
    assert!(before > 6, "{before}");
    let ended = sweep(folder.path(), "out", &["--only", "1:1"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let said = ended.err.split(" of 48 runs were done before").next().unwrap_or_default();
    let done = said.split_whitespace().last().and_then(|number| number.parse::<usize>().ok());
    // The file has a head, and its last line may be torn.
    assert!(done.is_some_and(|done| done + 2 >= before), "{before} lines: {}", ended.err);
    assert_eq!(figure(&out, "study.missing"), 0.0);
}

#[test]
fn a_point_that_fails_is_listed_and_the_others_go_on() {
    let study = STUDY.replace("[2 KB, 40 KB]", "[2 KB, 400 KB]");
    let folder = place(&study);
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(1), "{}{}", ended.out, ended.err);
    let out = folder.path().join("out");
    assert_eq!((figure(&out, "study.failed"), figure(&out, "study.runs")), (6.0, 12.0));
    assert!(ended.err.contains("point 4 with seed 1 failed"), "{}", ended.err);
    let page = String::from_utf8(results(&out).0).expect("a page");
    assert!(page.contains("Runs that failed") && page.contains("--only 4:1"), "a command for each");
    assert!(page.contains("kmin 400 KB is "), "the reason, and not only where it is");
    // The command that is shown runs it alone, and says why.
    let alone = sweep(folder.path(), "out", &["--only", "4:1"]);
    assert_eq!(alone.status, Some(1));
    assert!(alone.err.contains("kmin"), "{}", alone.err);
    let part = sweep(folder.path(), "part", &["--shard", "1/1"]);
    assert_eq!(part.status, Some(1), "{}", part.err);
}

#[test]
fn parts_of_different_studies_are_not_merged() {
    let folder = place(STUDY);
    assert_eq!(sweep(folder.path(), "a", &["--shard", "1/12"]).status, Some(0));
    fs::write(folder.path().join("marks.yaml"), SCENARIO.replace("pmax: 10 %", "pmax: 11 %"))
        .expect("writes");
    // The scenario is part of what a study is.
    assert_eq!(sweep(folder.path(), "b", &["--shard", "2/12"]).status, Some(0));
    let (a, b, out) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("out"));
    let ended = run(&["lab", "merge", name(&a), name(&b), "-o", name(&out)]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("parts of different studies"), "{}", ended.err);
    let ended = sweep(folder.path(), "a", &["--shard", "1/12"]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("a part of another study"), "{}", ended.err);
    // Nor does a sweep run whose parts could not be merged.
    let ended = sweep(folder.path(), "a", &[]);
    assert_eq!(ended.status, Some(2), "{}", ended.err);
    assert!(
        ended.err.contains("part-1-of-12.jsonl: this is a part of another study"),
        "{}",
        ended.err
    );
    assert!(!a.join("part-1-of-1.jsonl").exists());
    // Parts that did not run are reported.
    let ended = run(&["lab", "merge", name(&a), "-o", name(&out)]);
    assert_eq!(ended.status, Some(1));
    assert_eq!(figure(&out, "study.missing"), 11.0);
    assert_eq!(
        run(&["lab", "merge", name(&folder.path().join("none")), "-o", name(&out)]).status,
        Some(2)
    );
}

#[test]
fn what_is_wrong_in_a_study_is_told_at_its_place() {
    for (from, to, said) in [
        ("from: 5 %", "from: 5 KB", "both ends in the same unit"),
        ("goal: min", "goal: least", "a goal is `min FIGURE` or `max FIGURE`"),
        ("scenario: marks.yaml", "scenario: none.yaml", "study.yaml:3:11"),
        ("scenario: marks.yaml", "scenario: none.yaml", "the path is relative to the study"),
        ("vary:", "vary:\n  host.rate_control: [hpcc_dcqcn, no_such]", "study.yaml:5:35"),
        ("seeds: 2", "seeds: 0", "study.yaml:7:8"),
        ("vary:", "varry:", "`vary`"),
        ("seeds: 2", "seeds: 2\nsample: { grid: 3 }", "has no key `grid`"),
        ("steps: 3", "steps: 900000", "runs: at most"),
        ("flows.cnps", "flows.cnsp", "no figure `flows.cnsp` in its scenario"),
        ("flows.cnps", "flows.cnsp", "study.yaml:8:"),
        ("seeds: 2", "seeds: 2\nsample: { random: 3 }", "`steps` means nothing beside `sample`"),
        ("vary:", "vary:\n  seed: [5, 9]", "`seed` cannot vary"),
        ("vary:", "vary:\n  captures.h1-s1: [5, 9]", "`captures` cannot vary"),
        (
            "min flows.slowdown_p99\n",
            "min flows.slowdwn_p99\n",
            "did you mean `flows.slowdown_p99`?",
        ),
    ] {
        let folder = place(&STUDY.replace(from, to));
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(2), "{to}: {}", ended.err);
        assert!(ended.err.contains(said), "{to}: {}", ended.err);
    }
    // A key that is not there is refused at its place in the study.
    let folder = place(&STUDY.replace("flows.0.load", "flows.1.load"));
    let ended = sweep(folder.path(), "out", &["--only", "1:1"]);
    assert_eq!(ended.status, Some(2));
    assert!(
        ended.err.contains("`1` is no item of a list of 1") && ended.err.contains("study.yaml:6"),
        "{}",
        ended.err
    );
    // The last part of a key that is misspelt is what is wrong, and what is offered instead.
    let folder = place(&STUDY.replace("green.kmin", "green.kminn"));
    let said = sweep(folder.path(), "out", &["--only", "1:1"]).err;
    assert!(said.contains("+   switch.qos.wred_profiles.ROCE.green.kmin: [2 KB, 40 KB]"), "{said}");
    assert_eq!(sweep(folder.path(), "out", &["--shard", "4/3"]).status, Some(2));
}

#[test]
fn points_are_drawn_as_the_study_says() {
    for (sample, points) in [("random: 5", 5.0), ("latin_hypercube: 6", 6.0)] {
        let study = STUDY
            .replace("seeds: 2", &format!("sample: {{ {sample} }}"))
            .replace(", steps: 3", "")
            .replace("[2 KB, 40 KB]", "{ from: 2 KB, to: 80 KB, scale: log }");
        let folder = place(&study);
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert_eq!(figure(&folder.path().join("out"), "study.points"), points);
    }
}

/// A study of an incast: marks are many, and only marking is by chance.
fn place_incast(study: &str) -> tempfile::TempDir {
    let folder = place(study);
    let loads = "{ load: 15 %, sizes: ali_storage, from: senders, to: sink, until: 300 us }";
    let busy = SCENARIO.replace(loads, "{ from: senders, to: sink, size: 300 KB }");
    let busy = busy.replace("duration: 400 us", "duration: 800 us");
    fs::write(folder.path().join("marks.yaml"), busy).expect("writes");
    folder
}

#[test]
fn a_search_keeps_its_budget_and_is_judged_by_seeds_that_it_did_not_see() {
    let study = "study: search\nscenario: marks.yaml\nvary:\n  \
                 switch.qos.wred_profiles.ROCE.green.kmax: { from: 50 KB, to: 800 KB, scale: log }\n  \
                 switch.qos.wred_profiles.ROCE.green.pmax: { from: 1 %, to: 50 %, scale: log }\ngoal: min flows.cnps\n";
    let folder = place_incast(study);
    let (path, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let tune = |budget: &str| {
        run(&[
            "lab",
            "tune",
            name(&path),
            "--engine",
            "interp",
            "--budget",
            budget,
            "-o",
            name(&out),
        ])
    };
    let ended = tune("8");
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("a budget of 8 runs"), "{}", ended.err);
    let ended = tune("48");
    // Fewer marks with a higher curve: it must find that.
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).expect("a report"))
            .expect("JSON");
    let of = |name: &str| report["figures"][name]["value"].as_f64().expect("a figure");
    assert!(
        of("tune.runs") <= 48.0 && of("tune.best") < of("tune.written"),
        "{} {}",
        of("tune.best"),
        of("tune.written")
    );
    let before = fs::read(out.join("report.html")).expect("a page");
    tune("48");
    assert_eq!(before, fs::read(out.join("report.html")).expect("a page"));
}

#[test]
fn a_setting_is_searched_that_is_good_under_every_condition() {
    let study = "study: conditions\nscenario: marks.yaml\nvary:\n  \
                 flows.0.size: [200 KB, 400 KB]\n  \
                 switch.qos.wred_profiles.ROCE.green.kmax: { from: 50 KB, to: 800 KB, scale: log }\n\
                 goal: min flows.cnps\n";
    let folder = place_incast(study);
    let (path, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let tune = || {
        run(&["lab", "tune", name(&path), "--engine", "interp", "--budget", "72", "-o", name(&out)])
    };
    let ended = tune();
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let read = fs::read(out.join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&read).expect("JSON");
    let of = |name: &str| report["figures"][name]["value"].as_f64().expect("a figure");
    // Ratios to the scenario as it is written.
    assert_eq!(of("tune.written"), 1.0);
    assert!(of("tune.best") < 1.0 && of("tune.runs") <= 72.0, "{}", of("tune.best"));
    let tables = report["tables"].as_array().expect("tables");
    let table = tables.iter().find(|table| table["title"] == "Under each condition");
    let rows = table.expect("the table")["rows"].as_array().expect("rows");
    let sizes: Vec<&Value> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(sizes, ["200 KB", "400 KB"]);
    for row in rows {
        assert!(row[2].as_f64() < row[1].as_f64(), "less in each: {row}");
    }

    let lists = "study: lists\nscenario: marks.yaml\nvary:\n  flows.0.size: [200 KB, 400 KB]\ngoal: min flows.cnps\n";
    fs::write(&path, lists).expect("writes");
    let ended = tune();
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("no key has a range"), "{}", ended.err);
}
