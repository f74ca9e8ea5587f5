//! `wireyard lab`: scenarios of the library, what they promise, and that they repeat.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wireyard_tests::binary::{Ended, run};
use wireyard_tests::workspace_root;

const LIBRARY: &str = "programs/lab";

/// Scenarios that are short enough for every test run.
const SHORT: [&str; 12] = [
    "all_reduce_ring",
    "deadlock_ring",
    "dumbbell",
    "ib_fecn",
    "incast",
    "incast_16_100g",
    "link_down",
    "pause_storm",
    "pfc_victim",
    "rocev1_pcp",
    "training_straggler",
    "web_search",
];

fn library() -> Vec<PathBuf> {
    let folder = workspace_root().join(LIBRARY);
    let entries = fs::read_dir(folder).expect("the library of scenarios");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    paths
}

pub(crate) fn lab(arguments: &[&str]) -> Ended {
    let mut all = vec!["lab", "--quiet"];
    all.extend(arguments);
    run(&all)
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    found
}

/// The same with names relative to the folder.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.strip_prefix(folder).expect("below").display().to_string();
    files(folder).into_iter().map(|(path, bytes)| (name(&path), bytes)).collect()
}

pub(crate) fn figure(report: &Value, name: &str) -> f64 {
    report["figures"][name]["value"].as_f64().unwrap_or_else(|| panic!("no figure {name}"))
}

/// The report of a scenario that holds its checks.
#[track_caller]
pub(crate) fn report(text: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), text), "--json"]);
    ended.expect(0, &[]);
    serde_json::from_str(&ended.out).expect("JSON")
}

/// A scenario of its own, beside the programs that it names.
pub(crate) fn scenario(folder: &Path, text: &str) -> String {
    let programs = workspace_root().join("programs");
    let text = text.replace("PROGRAMS", &programs.display().to_string());
    let path = folder.join("scenario.yaml");
    fs::write(&path, text).expect("writes the scenario");
    path.display().to_string()
}

#[test]
fn every_scenario_of_the_library_can_be_built_and_asked() {
    for path in library() {
        let ended = lab(&["--check", &path.display().to_string()]);
        assert_eq!(ended.status, Some(0), "{}: {}", path.display(), ended.err);
    }
}

#[test]
fn short_scenarios_keep_their_promises() {
    for name in SHORT {
        let ended = lab(&[&format!("{LIBRARY}/{name}.yaml")]);
        assert_eq!(ended.status, Some(0), "{name}: {}{}", ended.out, ended.err);
    }
}

/// A peak in the spectrum where the fluid model has its mode, and a swing that is narrower or wider than the mean depth: the long
/// form, in CI. Elsewhere both are built and asked.
#[test]
fn the_loop_swings_as_the_fluid_model_says() {
    let is_long = std::env::var_os("CI").is_some();
    for name in ["stable_4us", "oscillating_85us"] {
        let path = format!("{LIBRARY}/{name}.yaml");
        let ended = if is_long { lab(&[&path]) } else { lab(&["--check", &path]) };
        assert_eq!(ended.status, Some(0), "{name}: {}{}", ended.out, ended.err);
    }
}

/// Machine code and the interpreter make the same run: only the name of the engine differs.
#[test]
fn a_run_is_the_same_on_both_engines() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |engine: &str| {
        let out = folder.path().join(engine);
        let scenario = format!("{LIBRARY}/dumbbell.yaml");
        let ended = lab(&[&scenario, "--engine", engine, "-o", &out.display().to_string()]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        let mut files = contents(&out);
        let report = files.remove("report.json").expect("a report");
        let mut report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!(report["facts"]["engine"].take(), engine, "{}", report["facts"]);
        // They name the engine too.
        files.retain(|name, _| !name.starts_with("report."));
        (report, files)
    };
    let (jit, interp) = (run("jit"), run("interp"));
    assert_eq!(jit.0, interp.0);
    assert!(jit.1.len() > 10 && jit.1 == interp.1, "{:?}", jit.1.keys());
}

#[test]
fn two_runs_give_the_same_bytes_and_another_seed_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let once = |name: &str, more: &[&str]| {
        let out = folder.path().join(name);
        let out_text = out.display().to_string();
        let scenario = format!("{LIBRARY}/dumbbell.yaml");
        let mut arguments = vec![scenario.as_str(), "-o", &out_text];
        arguments.extend(more);
        let ended = lab(&arguments);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        (contents(&out), ended.out)
    };
    let (one, other) = (once("one", &[]), once("other", &[]));
    assert!(one.0.contains_key("report.html") && one.0.contains_key("series.csv"));
    assert!(
        one.0["series.parquet"].starts_with(b"PAR1") && one.0["series.parquet"].ends_with(b"PAR1")
    );
    assert!(one == other, "the same seed gives other bytes");
    let seeds = ["--seeds", "2", "--jobs", "2"];
    let (swept, _) = once("swept", &seeds);
    assert_eq!(swept["seed-1/series.csv"], one.0["series.csv"], "a sweep gives other bytes");
    assert_ne!(swept["seed-2/series.csv"], one.0["series.csv"], "the seed changes nothing");
}

const LOSSY: &str = "
lab: lossy
duration: 3 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B, loss: 1 %, corruption: 1 % }
topology: { incast: { senders: 2 } }
switch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }
host: { program: PROGRAMS/roce_nic, rate_control: fixed, ack_timeout: 4 }
captures: { h1-s1: 50 }
flows: { from: senders, to: sink, size: 200 KB }
expect:
  flows.finished: '== 2'
  flows.sent_again: '> 0'
  links.lost: '> 0'
  links.corrupted: '> 0'
";

#[test]
fn lost_and_damaged_packets_are_sent_again_and_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = scenario(folder.path(), LOSSY);
    let out = folder.path().join("out").display().to_string();
    let ended = lab(&[&path, "-o", &out, "--json"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(figure(&report, "flows.failed"), 0.0);
    let capture = format!("{out}/captures/h1-s1.pcapng");
    let decoded = run(&["decode", &capture]);
    assert_eq!(decoded.status, Some(0), "{}", decoded.err);
    assert_eq!(decoded.out.lines().count(), 50, "{}", decoded.out);
}

/// A scenario needs no program beside it, and what cannot be written is reported before the run, not after it.
#[test]
fn a_scenario_runs_anywhere_and_knows_first_where_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(workspace_root().join(LIBRARY).join("dumbbell.yaml")).unwrap();
    let place = folder.path().join("mine.yaml");
    let path = place.to_str().unwrap();
    fs::write(&place, &text).unwrap();
    lab(&[path, "--check"]).expect(0, &[]);
    let ended = lab(&[path, "-o", path]);
    ended.expect(2, &["mine.yaml"]);
    assert!(!ended.err.contains("data packets delivered"), "it ran: {}", ended.err);
    for (sample, says) in [("1 ps", "20000000000 samples"), ("1 s", "longer than `duration`")] {
        fs::write(&place, text.replace("sample: 10 us", &format!("sample: {sample}"))).unwrap();
        lab(&[path, "--check"]).expect(2, &[says]);
    }
    fs::write(&place, text.replace("host: { rate", "host: { program: nowhere, rate")).unwrap();
    lab(&[path, "--check"]).expect(2, &["there is no program", "relative to the scenario"]);
}

/// Two flows between the same hosts, one long after the other.
const ONE_BY_ONE: &str = "
lab: one_by_one
duration: 2 ms
sample: 5 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 1 } }
host: { rate_control: fixed }
flows:
  - { from: h1, to: sink, size: 100 KB }
  - { from: h1, to: sink, size: 100 KB, start: 1 ms }
";

/// A flow is as fast as it was while it ran, each has a figure, and what follows the warm-up has a picture of its own.
#[test]
fn a_flow_is_measured_from_its_start_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let page = |text: &str| {
        lab(&[&scenario(folder.path(), text), "-o", out.to_str().unwrap()]).expect(0, &[]);
        fs::read_to_string(out.join("report.html")).unwrap()
    };
    assert!(!page(ONE_BY_ONE).contains("Queue depth after the warm-up"));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).expect("JSON");
    for name in ["flow.h1.sink.throughput", "flow.h1.sink.2.throughput"] {
        let rate = figure(&report, name);
        assert!((15e9..25e9).contains(&rate), "{name}: {rate}");
    }
    // Together they filled the link for a small part of the run.
    assert!(figure(&report, "flows.throughput") < 5e9);
    let warm = ONE_BY_ONE.replace("sample:", "warm_up: 500 us\nsample:");
    assert!(page(&warm).contains("Queue depth after the warm-up"));
}

#[test]
fn an_expectation_that_fails_is_exit_status_1_and_a_wrong_one_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = LOSSY;
    let path = scenario(folder.path(), &text.replace("'== 2'", "'== 3'"));
    let ended = lab(&[&path]);
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert!(ended.out.contains("FAIL  flows.finished: 2, wanted == 3"), "{}", ended.out);
    let path = scenario(folder.path(), &text.replace("flows.finished", "flows.finnished"));
    let ended = lab(&[&path]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("did you mean `flows.finished`?"), "{}", ended.err);
    let path = scenario(folder.path(), &text.replace("'> 0'", "'> 5 KB'"));
    assert_eq!(lab(&[&path]).status, Some(2), "bytes are no count");
}

/// Four into one; what differs between the transports is in capitals.
const ANY_TRANSPORT: &str = "
lab: any_transport
duration: 8 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
switch: { program: PROGRAMS/SWITCH, qos: { QOS } }
host: { program: PROGRAMS/roce_nic, transport: TRANSPORT, HOST }
flows: { from: senders, to: sink, size: 1 MB }
expect:
  flows.finished: '== 4'
  flows.sent_again: '== 0'
  drops.total: '== 0'
";

#[test]
fn one_incast_runs_on_all_transports() {
    let pause = "preset: onyx_roce, buffer_pools: { ingress_lossless_pool: { direction: ingress, size: 2 MB } }";
    let deep = "buffer_pools: { ingress_lossy_pool: { direction: ingress, size: 32 MB }, \
                egress_lossy_pool: { direction: egress, size: 32 MB } }, \
                wred_profiles: { FECN: { green: { kmin: 5 KB, kmax: 400 KB, pmax: 10 % } } }, \
                port_defaults: { preamble_and_gap: 0 B, fcs: 0 B, min_frame: 1 B, queue_wred: { default: FECN } }";
    // Program, queues, transport, host; whether it marks, whether it has to pause.
    let cases = [
        ("rocev2_lossless", pause.to_owned(), "rocev2", "rate_control: dcqcn", (true, false)),
        (
            "rocev1_lossless",
            format!("{pause}, port_defaults: {{ trust: pcp }}"),
            "rocev1",
            "rate_control: fixed, ecn: false",
            (false, true),
        ),
        ("ib_switch", deep.to_owned(), "infiniband", "rate_control: dcqcn", (true, false)),
    ];
    for (program, qos, transport, host, (marks, pauses)) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let text = ANY_TRANSPORT.replace("SWITCH", program).replace("QOS", &qos);
        let text = text.replace("TRANSPORT", transport).replace("HOST", host);
        let ended = lab(&[&scenario(folder.path(), &text), "--json"]);
        assert_eq!(ended.status, Some(0), "{transport}: {}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("JSON");
        assert_eq!(figure(&report, "flows.cnps") > 0.0, marks, "{transport}: marks");
        assert_eq!(figure(&report, "pauses.xoff_sent") > 0.0, pauses, "{transport}: pauses");
    }
}

const PERMUTATION: &str = "
lab: drawn
seed: 9
duration: 1 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { leaf_spine: { leaves: 3, spines: 2, hosts: 3 } }
flows: { pattern: permutation, size: 10 KB }
";

/// The seed in force draws who sends to whom, wherever it was said, and each run of a sweep draws its own.
#[test]
fn permutations_are_drawn_with_the_seed_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = |text: &str, more: &[&str]| -> Vec<Value> {
        let path = scenario(folder.path(), text);
        let ended = lab(&[&[path.as_str(), "--json"], more].concat());
        let found: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
        let runs = found.as_array().cloned().unwrap_or_else(|| vec![found]);
        let names = |run: &Value| {
            let figures = run["figures"].as_object().expect("figures").keys();
            figures.filter(|name| name.starts_with("flow.")).cloned().collect::<Value>()
        };
        runs.iter().map(names).collect()
    };
    let written = flows(PERMUTATION, &[]);
    let asked = flows(&PERMUTATION.replace("seed: 9", "seed: 3"), &["--seed", "9"]);
    assert_eq!(asked, written, "`--seed` wins");
    let swept = flows(&PERMUTATION.replace("seed: 9", "seed: 8"), &["--seeds", "2"]);
    assert_eq!(swept[1], written[0]);
    assert_ne!(swept[0], swept[1], "a sweep has one permutation");
}

/// Other seeds draw other flows.
#[test]
fn a_seed_without_an_expected_flow_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), PERMUTATION), "--json"]);
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    let mut names = report["figures"].as_object().expect("figures").keys();
    let is_of_a_flow = |name: &&String| name.starts_with("flow.") && name.ends_with(".throughput");
    let name = names.find(is_of_a_flow).expect("a flow");
    let text = format!("{PERMUTATION}expect: {{ {name}: \"> 1 Mbit/s\" }}\n");
    let ended = lab(&[&scenario(folder.path(), &text), "--seeds", "6"]);
    assert_eq!(ended.status, Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("PASS  seed 9"), "{}", ended.out);
    assert!(ended.out.contains(&format!("{name}: there is no figure `{name}`")), "{}", ended.out);
}

/// A folder holds one run: of the one before it nothing is left, and what somebody else put there stays.
#[test]
fn a_folder_that_is_used_again_holds_the_last_run_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (scenario(folder.path(), PERMUTATION), folder.path().join("out"));
    let out_text = out.display().to_string();
    let captured = format!("{PERMUTATION}captures: {{ h1-leaf1: 10 }}\n");
    let one = scenario(folder.path(), &captured);
    lab(&[&one, "-o", &out_text]).expect(0, &[]);
    let captured = contents(&out);
    assert!(captured.contains_key("captures/leaf1-h1.pcapng"), "{:?}", captured.keys());
    fs::write(out.join("captures/notes.txt"), "mine").expect("writes");
    scenario(folder.path(), PERMUTATION);
    lab(&[&path, "-o", &out_text, "--seeds", "2"]).expect(0, &[]);
    let swept = contents(&out);
    let top: Vec<&String> = swept.keys().filter(|name| !name.starts_with("seed-")).collect();
    assert_eq!(top, ["captures/notes.txt", "files.txt", "seeds.csv"]);
    let listed = String::from_utf8_lossy(&swept["files.txt"]);
    assert_eq!(listed.lines().count() + 2, swept.len(), "all but itself and the notes");
    let spread = String::from_utf8_lossy(&swept["seeds.csv"]);
    let columns = spread.lines().next().expect("names of columns");
    assert!(columns.starts_with("figure,unit,seed "), "{columns}");
    assert!(columns.ends_with(",least,mean,largest,deviation") && spread.contains("flows."));
    // A list that was changed leads nowhere else.
    fs::write(out.join("files.txt"), "../scenario.yaml\nseeds.csv\n").expect("writes");
    lab(&[&path, "-o", &out_text]).expect(0, &[]);
    assert!(Path::new(&path).exists() && !out.join("seeds.csv").exists());
}
