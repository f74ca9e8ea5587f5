//! What a run says beyond its figures: slowdown by size, use of links, who paused whom, fairness over time, and two runs side by side.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wireyard_tests::workspace_root;

use crate::lab::{figure, lab, scenario};

fn table<'r>(report: &'r Value, title: &str) -> Vec<&'r Vec<Value>> {
    let tables = report["tables"].as_array().expect("tables");
    let found = tables.iter().find(|table| table["title"].as_str() == Some(title));
    let rows =
        found.unwrap_or_else(|| panic!("no table {title}"))["rows"].as_array().expect("rows");
    rows.iter().map(|row| row.as_array().expect("a row")).collect()
}

/// Runs a scenario into a folder.
fn ran(path: &str, out: &Path, more: &[&str]) -> Value {
    let mut arguments = vec![path, "--json", "-o", out.to_str().expect("a name")];
    arguments.extend(more);
    let ended = lab(&arguments);
    assert_eq!(ended.status, Some(0), "{path}: {}{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).expect("a report")
}

#[test]
fn a_link_is_used_as_much_as_its_flow_says_and_shares_are_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "lab: use\nduration: 2 ms\nsample: 20 us\nlink: { rate: 10 Gbit/s, delay: 1 us }\nhost: { rate_control: fixed }\n\
                topology: { incast: { senders: 2 } }\nflows:\n  - { from: h1, to: sink, size: 1 MB }\n  - { from: h2, to: sink, size: 500 KB, start: 200 us }\n";
    let out = folder.path().join("out");
    let report = ran(&scenario(folder.path(), text), &out, &[]);
    let used = figure(&report, "links.utilisation_max");
    assert!((0.97..=1.0).contains(&used), "{used}");
    let rows = table(&report, "Link utilisation");
    assert_eq!(rows[0][0], "s1->sink");
    // Two flows at line rate share a link half and half from the first packet on.
    assert!(figure(&report, "flows.convergence_time") < 90e-6);
    assert!(figure(&report, "flows.jain_over_time") > 0.95);
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    for id in ["utilisation", "fairness", "queue-distribution"] {
        assert!(page.contains(&format!("<figure id=\"{id}\"")), "{id}");
    }
    // Every picture says in a sentence what it shows.
    assert!(!page.contains("<figcaption></figcaption>"));
}

/// The last value of each flow's series.
fn last_values(out: &Path, what: &str) -> Vec<f64> {
    let series = fs::read_to_string(out.join("series.csv")).expect("series.csv");
    let mut lines = series.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a heading");
    let last = lines.next_back().expect("a sample");
    let named = names.iter().zip(last).filter(|(name, _)| name.ends_with(what));
    named.map(|(_, value)| value.parse().expect("a number")).collect()
}

#[test]
fn flows_have_windows_round_trips_and_marks_over_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |control: &str| {
        let text = format!(
            "lab: paths\nduration: 4 ms\nlink: {{ rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ incast: {{ senders: 2 }} }}\nhost: {{ rate_control: {control} }}\n\
             switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 30 KB, kmax: 30 KB, pmax: 100 % }} }} }} }} }}\n\
             flows: {{ from: senders, to: sink }}\n"
        );
        let out = folder.path().join(control);
        let report = ran(&scenario(folder.path(), &text), &out, &[]);
        let page = fs::read_to_string(out.join("report.html")).expect("a page");
        (report, out, page)
    };
    let (report, out, page) = run("dctcp");
    for id in ["windows", "round-trips", "marks"] {
        assert!(page.contains(&format!("<figure id=\"{id}\"")), "{id}");
    }
    let (windows, trips) =
        (last_values(&out, " window (bytes)"), last_values(&out, " round trip (seconds)"));
    assert!(
        windows.len() == 2 && windows.iter().all(|bytes| (1e3..1e6).contains(bytes)),
        "{windows:?}"
    );
    // Two links and a packet on each in both directions, and not much more than the marked depth of the queue.
    assert!(trips.len() == 2 && trips.iter().all(|s| (5.5e-6..60e-6).contains(s)), "{trips:?}");
    // Every mark comes back, but for those that are still under way.
    let marks: f64 = last_values(&out, " marks (count)").iter().sum();
    let marked = figure(&report, "bottleneck.marked");
    assert!(marked > 50.0 && (marked - 60.0..=marked).contains(&marks), "{marks} of {marked}");

    let (report, out, page) = run("dcqcn");
    assert!(
        last_values(&out, " window (bytes)").is_empty() && !page.contains("<figure id=\"windows\"")
    );
    let marks: f64 = last_values(&out, " marks (count)").iter().sum();
    assert_eq!(marks, figure(&report, "flows.cnps"));
    assert!(marks > 0.0);
}

#[test]
fn slowdown_is_told_by_size_with_incasts_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = workspace_root().join("programs/lab/web_search.yaml").display().to_string();
    let out = folder.path().join("out");
    let report = ran(&path, &out, &[]);
    let rows = table(&report, "Slowdown by size");
    assert_eq!(rows.len(), 10);
    let numbers: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| cell.as_f64().expect("a number")).collect())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "sizes rise");
    assert!(
        numbers
            .iter()
            .all(|row| row[2] >= 1.0 && row[2] <= row[3] && row[3] <= row[4] && row[4] <= row[5])
    );
    let flows: f64 = numbers.iter().map(|row| row[1]).sum();
    let incasts = fs::read_to_string(out.join("fct.txt")).expect("fct.txt");
    let incasts = incasts.lines().filter(|line| line.contains(" 200 ")).count() as f64;
    assert_eq!(flows + incasts, figure(&report, "flows.finished"));
    // Eight at once to one: the median of them waits for the others.
    assert!(figure(&report, "flows.incast_slowdown_p50") > 2.0);
    assert!(
        figure(&report, "flows.short_slowdown_p99") >= figure(&report, "flows.short_slowdown_p50")
    );
}

#[test]
fn pauses_are_told_from_their_root() {
    let folder = tempfile::tempdir().expect("a folder");
    // Two switches in a row: the queue to the sink fills s2, which stops s1, which stops the hosts.
    let text = "lab: tree\nduration: 1500 us\nlink: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }\nhost: { rate_control: fixed }\n\
                topology: { dumbbell: { pairs: 4, middle: { rate: 400 Gbit/s } } }\nswitch: { qos: { preset: onyx_roce, wred_profiles: {} } }\n\
                flows: { from: left, to: b1, window: 32 }\n";
    let out = folder.path().join("out");
    let report = ran(&scenario(folder.path(), text), &out, &[]);
    let rows = table(&report, "Who paused whom, and why");
    let words: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row[0].as_str().expect("words"), row[1].as_str().expect("words")))
        .collect();
    assert_eq!(words[0], ("s2->s1", "root: queue s2->b1"));
    for host in ["a1", "a2", "a3", "a4"] {
        assert!(words.contains(&(&format!("> s1->{host}"), "s1->s2 was paused")), "{words:?}");
    }
    assert_eq!((figure(&report, "pauses.roots"), figure(&report, "pauses.depth")), (1.0, 2.0));
    let pauses = fs::read_to_string(out.join("pfc.txt")).expect("pfc.txt");
    let lines: Vec<Vec<u64>> = pauses
        .lines()
        .map(|line| line.split(' ').map(|word| word.parse().expect("a number")).collect())
        .collect();
    assert!(lines.len() > 10 && lines.iter().all(|line| line.len() == 5));
    // Of each port that is asked, pauses and resumptions alternate, beginning with a pause.
    let mut stopped = std::collections::BTreeMap::new();
    for line in &lines {
        let before = stopped.insert((line[1], line[3]), line[4]).unwrap_or(0);
        assert_eq!(before + line[4], 1, "{line:?}");
    }
}

fn compared(a: &Path, b: &Path) -> Value {
    let ended = lab_compare(a, b);
    assert_eq!(ended.0, Some(0), "{}", ended.1);
    serde_json::from_str(&ended.1).expect("a comparison")
}

fn lab_compare(a: &Path, b: &Path) -> (Option<i32>, String) {
    let ended = wireyard_tests::binary::run(&["lab", "compare", path(a), path(b), "--json"]);
    (ended.status, ended.out + &ended.err)
}

#[test]
fn two_folders_are_compared_with_the_chance_in_mind() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |kmax: &str| {
        format!(
            "lab: marks\nduration: 3 ms\nsample: 20 us\nlink: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ incast: {{ senders: 6 }} }}\nhost: {{ rate_control: hpcc_dcqcn }}\n\
             switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 5 KB, kmax: {kmax}, pmax: 50 % }} }} }} }} }}\n\
             flows: {{ from: senders, to: sink, size: 300 KB }}\n"
        )
    };
    let run = |name: &str, kmax: &str, seeds: &[&str]| {
        let out = folder.path().join(name);
        let path = scenario(folder.path(), &text(kmax));
        let words = [path.as_str(), "-o", out.to_str().expect("a name"), "--seeds"];
        let ended = lab(&[&words, seeds].concat());
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        out
    };
    let a = run("a", "2 MB", &["5"]);
    let same = compared(&a, &run("again", "2 MB", &["5"]));
    assert_eq!(
        (figure(&same, "compare.figures"), figure(&same, "compare.significant")),
        (0.0, 0.0)
    );
    // Marked from the first packets on: more CNPs in every pair.
    let marked = compared(&a, &run("marked", "10 KB", &["5"]));
    assert!(figure(&marked, "compare.significant") >= 1.0);
    let rows = table(&marked, "Differences");
    let cnps = rows.iter().find(|row| row[0] == "flows.cnps").expect("a row");
    assert!(
        cnps[3].as_f64().expect("a share") > 0.0 && cnps[5].as_f64().expect("p") < 0.05,
        "{cnps:?}"
    );
    assert!(marked["facts"]["how"].as_str().expect("words").contains("in pairs"));
    let three = compared(&a, &run("three", "10 KB", &["3"]));
    assert!(three["facts"]["how"].as_str().expect("words").contains("in pairs"));
    assert_eq!(three["facts"]["left out"], "seed 4, 5 of A: the other has no such run");
    let others = compared(&a, &run("others", "10 KB", &["3", "--seed", "5"]));
    assert!(others["facts"]["how"].as_str().expect("words").contains("Welch"));
    // One run each: the differences, and no word about chance.
    let (one, other) = (a.join("seed-1"), folder.path().join("marked/seed-1"));
    let single = compared(&one, &other);
    assert_eq!(figure(&single, "compare.significant"), 0.0);
    assert!(table(&single, "Differences").iter().all(|row| row[5].is_null()));
}

#[test]
fn what_is_no_folder_of_results_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, said) = lab_compare(folder.path(), folder.path());
    assert_eq!(status, Some(2));
    assert!(said.contains("neither seeds.csv nor report.json"), "{said}");
    let (status, said) = lab_compare(&folder.path().join("none"), folder.path());
    assert_eq!(status, Some(2));
    assert!(said.contains("no folder of results"), "{said}");
}

/// What a run wrote hides no scenario of the binary, and a run is no different from itself.
#[test]
fn a_folder_of_its_name_hides_no_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("dumbbell");
    for _ in 0..2 {
        let args = ["lab", "dumbbell", "-o", "dumbbell"];
        let ended = wireyard_tests::binary::run_in(folder.path(), &args);
        ended.expect(0, &[]);
    }
    let ended = wireyard_tests::binary::run(&["lab", "compare", path(&out), path(&out)]);
    ended.expect(0, &[]);
    assert!(ended.out.contains("No figure differs."), "{}", ended.out);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a name")
}
