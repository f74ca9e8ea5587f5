//! What is done stays: after a full disk, in parts of other divisions, behind a comparison or a kill.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wireyard_tests::binary::{Ended, run, wireyard};

use super::{SCENARIO, STUDY, figure, name, place, sweep};

/// A limit of the size of files stands for a full disk: it ends a line in the middle, too.
#[test]
fn a_line_that_could_not_be_stored_is_not_there() {
    let folder = place(STUDY);
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$WIREYARD\" lab sweep study.yaml -o out --jobs 2 --quiet";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(folder.path()).env("WIREYARD", wireyard());
    let ended = Ended::of(&shell.output().expect("a shell"));
    ended.expect(2, &["part-1-of-1.jsonl: "]);
    let part = fs::read(folder.path().join("out/part-1-of-1.jsonl")).expect("a part");
    assert_eq!(part.last(), Some(&b'\n'), "whole lines only");
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(figure(&folder.path().join("out"), "study.missing"), 0.0);
}

#[test]
fn parts_of_another_division_count() {
    let folder = place(STUDY);
    for part in ["1/2", "2/2"] {
        assert_eq!(sweep(folder.path(), "out", &["--shard", part]).status, Some(0));
    }
    for (more, said) in [
        (&["--shard", "3/3"][..], "4 of 4 runs were done before"),
        (&[], "12 of 12 runs were done before"),
    ] {
        let ended = sweep(folder.path(), "out", more);
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        assert!(ended.err.contains(said), "{}", ended.err);
    }
    // Parts that could not be merged are refused before the runs, by a part and by a job array too.
    let other = SCENARIO.replace("pmax: 10 %", "pmax: 11 %");
    fs::write(folder.path().join("marks.yaml"), other).expect("writes");
    for more in [["--shard", "1/5"], ["--slurm", "5"]] {
        let ended = sweep(folder.path(), "out", &more);
        assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
        assert!(ended.err.contains("a part of another study"), "{more:?}: {}", ended.err);
    }
    assert!(!folder.path().join("out/part-1-of-5.jsonl").exists());
}

/// A line of a part that says that its run failed stands for one that had no memory.
#[test]
fn a_run_that_failed_is_run_again_when_that_is_asked_for() {
    let folder = place(STUDY);
    let out = folder.path().join("out");
    assert_eq!(sweep(folder.path(), "out", &[]).status, Some(0));
    let part = out.join("part-1-of-1.jsonl");
    let text = fs::read_to_string(&part).expect("a part");
    let (whole, last) = text.trim_end().rsplit_once('\n').expect("lines");
    let mut record: Value = serde_json::from_str(last).expect("JSON");
    record["failed"] = "no memory".into();
    record["figures"] = Value::Object(serde_json::Map::new());
    fs::write(&part, format!("{whole}\n{record}\n")).expect("writes");
    assert_eq!(sweep(folder.path(), "out", &[]).status, Some(1), "it stays failed");
    assert_eq!(figure(&out, "study.failed"), 1.0);
    let ended = sweep(folder.path(), "out", &["--retry-failed"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("11 of 12 runs were done before"), "{}", ended.err);
    assert_eq!((figure(&out, "study.failed"), figure(&out, "study.runs")), (0.0, 12.0));
}

#[test]
fn results_of_another_build_are_named() {
    let folder = place(STUDY);
    assert_eq!(sweep(folder.path(), "out", &[]).status, Some(0));
    let part = folder.path().join("out/part-1-of-1.jsonl");
    let text = fs::read_to_string(&part).expect("a part");
    let (head, runs) = text.split_once('\n').expect("lines");
    let mut head: Value = serde_json::from_str(head).expect("JSON");
    head["build"] = "0.0.1 (abc)".into();
    fs::write(&part, format!("{head}\n{runs}")).expect("writes");
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("of the builds 0.0.1 (abc) and "), "{}", ended.err);
}

/// Two seeds of a scenario, and their folder.
fn seeds(folder: &Path, out: &str, more: &[&str]) -> std::path::PathBuf {
    let (scenario, out) = (folder.join("marks.yaml"), folder.join(out));
    let arguments = ["lab", "--quiet", name(&scenario), "-o", name(&out)];
    let ended = run(&[&arguments[..], more].concat());
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    out
}

#[test]
fn a_comparison_does_not_take_the_place_of_what_it_compares() {
    let folder = place(STUDY);
    let both = seeds(folder.path(), "a", &["--seeds", "2"]);
    let [one, two] = ["seed-1", "seed-2"].map(|seed| both.join(seed));
    let inner = [(&one, &two, &two), (&both, &both, &one)];
    for (a, b, out) in [(&both, &both, &both), (&one, &two, &both)].into_iter().chain(inner) {
        let ended = run(&["lab", "compare", name(a), name(b), "-o", name(out)]);
        assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
        assert!(ended.err.contains("would be replaced by the comparison"), "{}", ended.err);
        assert!(both.join("seeds.csv").is_file() && one.join("report.json").is_file());
    }
    // The folder that has both in it, and is of no run itself.
    let ended = run(&["lab", "compare", name(&one), name(&two), "-o", name(folder.path())]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
}

/// Seeds 1 to 3 beside 2 to 4 of the same scenario: the picture is of a run that both have.
#[test]
fn the_picture_of_a_comparison_is_of_a_run_that_it_compares() {
    let folder = place(STUDY);
    // Flows enough for tenths.
    let busy = SCENARIO.replace("load: 15 %", "load: 20 %").replace(", until: 300 us", "");
    let busy = busy.replace("duration: 400 us", "duration: 2 ms");
    fs::write(folder.path().join("marks.yaml"), busy).expect("writes");
    let a = seeds(folder.path(), "a", &["--seeds", "3"]);
    let b = seeds(folder.path(), "b", &["--seeds", "3", "--seed", "2"]);
    let out = folder.path().join("out");
    let ended = run(&["lab", "compare", name(&a), name(&b), "-o", name(&out)]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    let picture = page.split("id=\"slowdown-by-size\"").nth(1).expect("a picture");
    let picture = picture.split("</svg>").next().unwrap_or_default();
    let lines: Vec<&str> = picture
        .split("<path d=\"")
        .filter_map(|path| path.split('"').next().filter(|d| d.starts_with('M')))
        .collect();
    assert_eq!(lines.len(), 4, "p50 and p99 of both: {picture}");
    assert_eq!(lines[..2], lines[2..], "the same run");
}
