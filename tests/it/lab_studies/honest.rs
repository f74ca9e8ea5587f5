//! What studies and comparisons say is of the runs that they name: files that changed, figures that runs do not have, ranges.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use wireyard_tests::binary::{run, wireyard};
use wireyard_tests::workspace_root;

use super::{SCENARIO, STUDY, name, place, sweep};

const BASE: &str = "
lab: marks
duration: 300 us
sample: 10 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 3 } }
switch: { program: sw, qos: { preset: onyx_roce } }
host: { rate_control: dcqcn, parameters: { g: 0.004, additive_increase_bps: 40e6 } }
flows: { from: senders, to: sink, size: 20 KB, window: 2 }
";

fn with(vary: &str) -> String {
    format!("study: s\nscenario: marks.yaml\nvary: {{ {vary} }}\ngoal: min flows.completion_max\n")
}

/// A folder with this scenario, a switch program and a rate control of its own beside it.
fn folder(vary: &str) -> tempfile::TempDir {
    let folder = place(&with(vary));
    let programs = workspace_root().join("programs");
    fs::write(folder.path().join("marks.yaml"), BASE).expect("writes");
    fs::create_dir(folder.path().join("sw")).expect("a folder");
    let copies = [
        ("rocev2_lossless/program.yaml", "sw/program.yaml"),
        ("rate_control/dctcp.yaml", "a.yaml"),
    ];
    for (from, to) in copies {
        fs::copy(programs.join(from), folder.path().join(to)).expect("copies");
    }
    folder
}

/// The values of a key at the points of a study, each once.
fn labels(folder: &Path) -> Vec<String> {
    let runs = fs::read_to_string(folder.join("out/runs.csv")).expect("a table");
    let mut found: Vec<String> =
        runs.lines().skip(1).filter_map(|line| Some(line.split(',').nth(2)?.into())).collect();
    found.dedup();
    found
}

#[test]
fn a_study_whose_programs_changed_is_another_study() {
    for changed in ["a.yaml", "sw/program.yaml"] {
        let folder = folder("host.rate_control: [dcqcn, a.yaml]");
        let base = BASE.replace(", parameters: { g: 0.004, additive_increase_bps: 40e6 }", "");
        fs::write(folder.path().join("marks.yaml"), base).expect("writes");
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        let same = sweep(folder.path(), "out", &[]);
        assert_eq!(same.status, Some(0), "nothing changed: {}", same.err);
        let path = folder.path().join(changed);
        let text = fs::read_to_string(&path).expect("a file");
        fs::write(&path, format!("{text}# another version\n")).expect("writes");
        let other = sweep(folder.path(), "out", &[]);
        assert_eq!(other.status, Some(2), "{changed}: {}{}", other.out, other.err);
        assert!(other.err.contains("another study"), "{changed}: {}", other.err);
    }
}

#[test]
fn a_range_takes_the_numbers_that_its_key_takes() {
    let parts = folder("host.parameters.alpha_initial: { from: 0, to: 1, steps: 5 }");
    assert_eq!(sweep(parts.path(), "out", &[]).status, Some(0));
    assert_eq!(labels(parts.path()), ["0", "0.25", "0.5", "0.75", "1"]);

    let whole = folder("flows.window: { from: 1, to: 4, steps: 7 }");
    assert_eq!(sweep(whole.path(), "out", &[]).status, Some(0));
    assert_eq!(labels(whole.path()), ["1", "2", "3", "4"]);

    // Numbers at even steps of these are whole at one part of the range and not at another.
    let steps = folder("host.ack_every: { from: 500, to: 1000, steps: 4 }");
    let ended = sweep(steps.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(labels(steps.path()), ["500", "667", "833", "1000"]);

    let exponents = folder(
        "host.parameters.additive_increase_bps: { from: 40e6, to: 4e+8, steps: 2, scale: log }",
    );
    let ended = sweep(exponents.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(labels(exponents.path()).len(), 2);

    // Numbers of one end of these are refused for another reason than being no whole ones.
    for (vary, expected) in [
        ("flows.start: { from: 0.1 ms, to: 0.2 ms, steps: 3 }", ["0.1 ms", "0.15 ms", "0.2 ms"]),
        ("host.parameters.alpha_initial: { from: 1, to: 0.5, steps: 3 }", ["1", "0.75", "0.5"]),
        (
            "flows.size: { from: 10 KiB, to: 22.5 KiB, steps: 3, scale: log }",
            ["10 KiB", "15 KiB", "22.5 KiB"],
        ),
        (
            "flows.size: { from: 10 KiB, to: 20 KiB, steps: 3, scale: log }",
            ["10 KiB", "14479 B", "20 KiB"],
        ),
    ] {
        let folder = folder(vary);
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(0), "{vary}: {}{}", ended.out, ended.err);
        assert_eq!(labels(folder.path()), expected, "{vary}");
    }

    let twice = folder("flows.window: [2, 3, 2]");
    let ended = sweep(twice.path(), "out", &[]);
    assert_eq!(ended.status, Some(2), "{}", ended.err);
    assert!(ended.err.contains("`2` is listed twice"), "{}", ended.err);
}

/// Where settings do not differ, none of them matters.
#[test]
fn keys_that_change_nothing_explain_nothing() {
    // So many that the mean of equal values is rounded.
    let folder = folder(
        "host.parameters.g: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], flows.window: [8, 9, 10, 11, 12]",
    );
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(!ended.out.contains("What matters"), "{}", ended.out);
}

/// Three pairs rise; the fourth has no second value and is in no number of its row.
#[test]
fn a_comparison_is_of_the_pairs_that_both_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "figure,unit,seed 1,seed 2,seed 3,seed 4,least,mean,largest,deviation\n";
    for (of, values) in [("a", "1,2,3,100"), ("b", "2,3.1,4,")] {
        let of = folder.path().join(of);
        fs::create_dir(&of).expect("a folder");
        fs::write(of.join("seeds.csv"), format!("{head}f,number,{values},0,0,0,0\n"))
            .expect("writes");
    }
    let [a, b] = ["a", "b"].map(|of| folder.path().join(of));
    let ended = run(&["lab", "compare", name(&a), name(&b), "--json"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    let row = &report["tables"][0]["rows"][0];
    assert_eq!((&row[0], &row[1], &row[7]), (&"f".into(), &"2".into(), &"3".into()), "{row}");
    let difference = row[3].as_f64().expect("a number");
    assert!((difference - 31.0 / 60.0).abs() < 1e-9, "{row}");
}

/// Differences are significant among the figures that differ; a few equal differences have no variance.
#[test]
fn a_comparison_counts_the_figures_that_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |of: &str, seeds: &str, rows: &str| {
        let of = folder.path().join(of);
        fs::create_dir(&of).expect("a folder");
        let head = format!("figure,unit,{seeds},least,mean,largest,deviation\n");
        fs::write(of.join("seeds.csv"), head + rows).expect("writes");
        of
    };
    let seeds = "seed 1,seed 2,seed 3,seed 4";
    // p is 0.0036.
    let (first, second) = ("f,number,1,2,3,4,0,0,0,0\n", "f,number,1.8,3,4,5.4,0,0,0,0\n");
    let compared = |a: &Path, b: &Path| -> Value {
        let ended = run(&["lab", "compare", name(a), name(b), "--json"]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        serde_json::from_str(&ended.out).expect("JSON")
    };
    let significant = |report: &Value| report["figures"]["compare.significant"]["value"].clone();
    let alone = compared(&write("a", seeds, first), &write("b", seeds, second));
    assert_eq!(significant(&alone), 1.0, "{alone}");
    let same: String = (0..19).map(|n| format!("same{n},number,7,7,7,7,0,0,0,0\n")).collect();
    let [c, d] =
        [("c", first), ("d", second)].map(|(of, rows)| write(of, seeds, &format!("{rows}{same}")));
    let many = compared(&c, &d);
    assert_eq!(significant(&many), 1.0, "{many}");
    assert_eq!(many["figures"]["compare.figures"]["value"], 1.0, "{many}");
    let noise = |by: u64| -> String {
        (0..19).map(|n| format!("n{n},number,1,2,3,{},0,0,0,0\n", 4 + by)).collect()
    };
    let [c, d] = [("h", first, 0), ("i", second, 1)]
        .map(|(of, rows, by)| write(of, seeds, &format!("{rows}{}", noise(by))));
    let among = compared(&c, &d);
    assert_eq!(significant(&among), 0.0, "one of twenty: {among}");
    // Three pairs, each with one more.
    let three = "seed 1,seed 2,seed 3";
    let [e, g] = [("e", "f,count,1,2,3,0,0,0,0\n"), ("g", "f,count,2,3,4,0,0,0,0\n")]
        .map(|(of, rows)| write(of, three, rows));
    let equal = compared(&e, &g);
    assert_eq!(significant(&equal), 0.0, "{equal}");
    assert!(equal["tables"][0]["rows"][0][5].is_null(), "{equal}");
}

/// On a bad cable a hasty sender is fast or never done: the search finds it, and the last runs tell.
#[test]
fn a_setting_whose_runs_do_not_finish_is_not_better() {
    let folder = place(
        "study: s\nscenario: marks.yaml\nvary: { host.ack_timeout: { from: 8, to: 9 }, flows.window: { from: 1, to: 4 } }\n\
         seeds: 1\ngoal: min flows.completion_max\n",
    );
    let scenario = "
lab: lossy
duration: 600 us
sample: 20 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B, loss: 0.5 % }
topology: { incast: { senders: 1 } }
host: { rate_control: fixed, ack_timeout: 4 }
flows: { from: h1, to: sink, size: 100 KB, message: 4 KB, window: 1 }
";
    fs::write(folder.path().join("marks.yaml"), scenario).expect("writes");
    let (study, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let words = ["lab", "tune", name(&study), "--budget", "64", "-o", name(&out)];
    let ended = run(&words);
    assert_eq!(ended.status, Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("runs of the tuned setting have no"), "{}", ended.out);
}

#[test]
fn a_search_names_a_condition_that_the_scenario_cannot_be_measured_under() {
    let vary = "host.parameters.g: { from: 0.001, to: 0.01 }, flows.size: [20 KB, 40 MB]";
    let folder = folder(vary);
    let (study, out) = (folder.path().join("study.yaml"), folder.path().join("tuned"));
    let ended = run(&["lab", "tune", name(&study), "--budget", "60", "-o", name(&out)]);
    assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
    let text = "as it is written has no `flows.completion_max` under flows.size = 40 MB";
    assert!(ended.err.contains(text), "{}", ended.err);
}

#[test]
fn a_search_measures_the_scenario_as_it_is_written_first() {
    let folder = folder("flows.size: { from: 10 KB, to: 20 KB }");
    fs::write(folder.path().join("marks.yaml"), BASE.replace("20 KB", "40 MB")).expect("writes");
    let study = folder.path().join("study.yaml");
    let ended = run(&["lab", "tune", name(&study), "--budget", "20"]);
    assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
    let text =
        "the scenario as it is written has no `flows.completion_max`: no setting can be compared";
    assert!(ended.err.contains(text), "{}", ended.err);
}

#[test]
fn a_search_has_no_more_conditions_than_runs() {
    let folder = folder(
        "host.parameters.g: { from: 0.001, to: 0.01 }, flows.size: [10 KB, 20 KB, 30 KB], flows.window: [1, 2, 3, 4]",
    );
    let study = folder.path().join("study.yaml");
    let ended = run(&["lab", "tune", name(&study), "--budget", "10"]);
    assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("12 conditions"), "{}", ended.err);
}

/// A check that is meant to break is no failure, whatever else is expected.
#[test]
fn a_run_that_fails_as_it_should_has_figures() {
    let folder = place(
        "study: s\nscenario: marks.yaml\nvary: { flows.window: [2, 3] }\nfigures: drops.lossless\n",
    );
    let scenario = "
lab: loss
duration: 3 ms
sample: 10 us
link: { rate: 25 Gbit/s, delay: 1 us }
topology: { incast: { senders: 4 } }
host: { rate_control: fixed }
flows: { from: senders, to: sink }
fails: lossless
expect: { drops.lossless: \"< 1\" }
switch:
  qos:
    preset: onyx_roce
    allow_lossy_headroom: true
    buffer_profiles:
      ingress_lossless: { pool: ingress_lossless_pool, static_th: 100 KB, headroom: 2 KB, xon_below_xoff: 5 KB }
";
    let path = folder.path().join("marks.yaml");
    fs::write(&path, scenario).expect("writes");
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let runs = fs::read_to_string(folder.path().join("out/runs.csv")).expect("a table");
    assert_eq!(runs.lines().skip(1).filter(|line| line.contains(",no,")).count(), 2, "{runs}");
    let alone = run(&["lab", "--quiet", name(&path)]);
    assert_eq!(alone.status, Some(1), "{}", alone.err);
    assert!(!alone.err.contains("check lossless failed"), "{}", alone.err);
}

#[test]
fn an_edit_during_a_study_ends_it() {
    let folder = place(&STUDY.replace("seeds: 2", "seeds: 400"));
    let (study, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let child = Command::new(wireyard())
        .args(["lab", "sweep", name(&study), "-o", name(&out), "--jobs", "1", "--quiet"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let part = out.join("part-1-of-1.jsonl");
    let lines = || fs::read_to_string(&part).map_or(0, |text| text.lines().count());
    for _ in 0..1000 {
        if lines() > 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let other = format!("{SCENARIO}# another version\n");
    fs::write(folder.path().join("marks.yaml"), other).expect("writes");
    let ended = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("marks.yaml: it changed while the study ran"), "{said}");
}

/// A flow file that is read with the format that another key sets is a file of the study.
#[test]
fn a_study_whose_listed_file_changed_is_another_study() {
    let folder = folder("flows.file: [f1.txt], flows.format: [hpcc], link.delay: [1 us, 2 us]");
    let flows = "flows: { from: senders, to: sink, size: 20 KB, window: 2 }";
    let base = BASE.replace(flows, "flows: { file: f.csv }");
    fs::write(folder.path().join("marks.yaml"), base).expect("writes");
    fs::write(folder.path().join("f.csv"), "from,to,bytes,start_us\nh1,sink,1000,0\n")
        .expect("writes");
    let write = |bytes: u32| {
        let text = format!("1\n0 3 3 100 {bytes} 0\n");
        fs::write(folder.path().join("f1.txt"), text).expect("writes");
    };
    write(20_000);
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    write(30_000);
    let other = sweep(folder.path(), "out", &[]);
    assert_eq!(other.status, Some(2), "{}{}", other.out, other.err);
    assert!(other.err.contains("another study"), "{}", other.err);
}

#[test]
fn a_range_of_a_key_that_another_one_makes_legal_has_whole_numbers() {
    let folder =
        folder("host.reordering: { from: 0, to: 10, steps: 5 }, host.retransmission: [selective]");
    let base = BASE.replace(", parameters: { g: 0.004, additive_increase_bps: 40e6 }", "");
    fs::write(folder.path().join("marks.yaml"), base).expect("writes");
    let ended = sweep(folder.path(), "out", &[]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    assert!(labels(folder.path()).iter().all(|label| !label.contains('.')));
}

#[test]
fn a_point_that_cannot_be_built_does_not_hide_a_figure_that_is_not_there() {
    // Above the curve's Kmax.
    for kmin in ["[2 KB, 400 KB]", "[400 KB, 2 KB]"] {
        let study = format!(
            "study: s\nscenario: marks.yaml\nvary: {{ switch.qos.wred_profiles.ROCE.green.kmin: {kmin} }}\n\
             figures: flows.finishd\n"
        );
        let folder = place(&study);
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(2), "{kmin}: {}{}", ended.out, ended.err);
        assert!(ended.err.contains("did you mean `flows.finished`"), "{}", ended.err);
    }
}

/// Before hours of runs, at its place in the study.
#[test]
fn a_key_or_a_value_that_cannot_be_is_refused_before_anything_runs() {
    for (vary, expected) in [
        ("link.delay: [1 us, nonsense]", &["study.yaml:3:28", "nonsense"][..]),
        ("link.delay: [nonsense, 1 us]", &["study.yaml:3:22", "nonsense"]),
        ("link.dely: [1 us, 2 us]", &["study.yaml:3:", "`dely`", "delay"]),
        ("flows.3.size: [20 KB]", &["study.yaml:3:9", "`3` is no item"]),
        ("flows.window: { from: 0, to: 4, steps: 5 }", &["study.yaml:3:"]),
        ("flows.window: []", &["study.yaml:3:23", "`flows.window` has no value"]),
    ] {
        let folder = folder(vary);
        let ended = sweep(folder.path(), "out", &[]);
        assert_eq!(ended.status, Some(2), "{vary}: {}{}", ended.out, ended.err);
        expected.iter().for_each(|part| assert!(ended.err.contains(part), "{vary}: {}", ended.err));
        assert!(!folder.path().join("out").exists(), "{vary}: something ran");
    }
    // A value that only another key makes legal is none of these.
    let folder = folder("host.retransmission: [go_back_n, selective], host.reordering: [0, 5]");
    let base = BASE.replace(", parameters: { g: 0.004, additive_increase_bps: 40e6 }", "");
    fs::write(folder.path().join("marks.yaml"), base).expect("writes");
    let ended = sweep(folder.path(), "out", &[]);
    assert_ne!(ended.status, Some(2), "{}{}", ended.out, ended.err);
}

#[test]
fn a_search_has_the_unit_of_its_figure() {
    let folder = folder("flows.size: { from: 10 KB, to: 30 KB }");
    let study = folder.path().join("study.yaml");
    let tune = |out: &Path| run(&["lab", "tune", name(&study), "--budget", "14", "-o", name(out)]);
    // What cannot be written is found before the runs.
    let refused = tune(&folder.path().join("marks.yaml"));
    assert_eq!(refused.status, Some(2), "{}{}", refused.out, refused.err);
    assert!(
        refused.out.is_empty() && refused.err.contains("a file stands there"),
        "{}",
        refused.err
    );
    let out = folder.path().join("tuned");
    let ended = tune(&out);
    assert!(ended.out.contains(" us as written, "), "{}{}", ended.out, ended.err);
    let text = fs::read_to_string(out.join("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["figures"]["tune.best"]["unit"], "seconds");
}
