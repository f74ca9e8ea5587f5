//! One run of the laboratory by several workers: every byte is that of one worker. What a large run asks of the system.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wireyard_tests::binary::wireyard;
use wireyard_tests::{skip, workspace_root};

use crate::lab::{contents, lab};

/// Scenarios of the library, and what is shorter or added here.
const SCENARIOS: [(&str, &[(&str, &str)]); 12] = [
    // Steps that wait for data, of hosts in several partitions.
    (
        "all_reduce_ring",
        &[("hosts: 8, uplink", "hosts: 2, uplink"), ("size: 8 MB", "size: 256 KB")],
    ),
    // A link that is cut, whose frames are lost, and routes around it.
    (
        "link_down",
        &[
            (
                "duration: 40 ms",
                "duration: 1 ms\ncaptures: { leaf1-spine1: 300, leaf2-spine2: 300 }",
            ),
            ("until: 1300 us, ", "until: 700 us, reroute_after: 50 us, "),
        ],
    ),
    // Compute that is drawn, a straggler, a cut.
    (
        "training_straggler",
        &[("size: 4 MB", "size: 256 KB"), ("at: 1500 us, until: 1600", "at: 300 us, until: 350")],
    ),
    // Flows that arrive by chance, incasts.
    ("web_search", &[("duration: 5 ms", "duration: 500 us"), ("until: 4 ms", "until: 400 us")]),
    // One switch, which is parted from its hosts; telemetry.
    ("hpcc", &[("duration: 6 ms", "duration: 400 us"), ("warm_up: 2 ms", "warm_up: 100 us")]),
    ("pfc_victim", &[("duration: 4 ms", "duration: 1 ms"), ("warm_up: 1 ms", "warm_up: 200 us")]),
    (
        "pause_storm",
        &[
            ("duration: 12 ms", "duration: 2 ms"),
            ("at: 2 ms, until: 6 ms", "at: 300 us, until: 1700 us"),
            (
                "detection_time: 1 ms, restoration_time: 1 ms",
                "detection_time: 200 us, restoration_time: 200 us",
            ),
        ],
    ),
    // What fails a check fails it alike, with the same packet.
    ("deadlock_ring", &[]),
    ("ib_fecn", &[("duration: 20 ms", "duration: 1 ms"), ("warm_up: 5 ms", "warm_up: 200 us")]),
    // Sprayed, trimmed, sent again one by one, a link cut and gone around.
    (
        "lossy_fabric",
        &[
            ("  - { at: 2 ms, link_down: agg3.2-core7, reroute_after: 100 us }\n", ""),
            ("  - { at: 2 ms, link_down: edge5.2-agg5.3, reroute_after: 100 us }\n", ""),
            ("  - { at: 2 ms, link_down: edge7.1-agg7.4, reroute_after: 100 us }\n", ""),
            ("k: 8", "k: 4"),
            ("duration: 5 ms", "duration: 600 us"),
            ("warm_up: 1 ms", "warm_up: 100 us"),
            ("until: 4 ms", "until: 500 us"),
            ("at: 2 ms", "at: 200 us"),
        ],
    ),
    // Ways by what switches keep of their ports.
    ("load_balancing", &[("data_dscp: 28", "data_dscp: 27"), ("rounds: 16", "rounds: 3")]),
    // Links that lose, damage and turn over.
    (
        "dumbbell",
        &[
            ("duration: 20 ms", "duration: 1 ms\ncaptures: { s1-s2: 500 }"),
            (
                "mtu: 1500 B",
                "mtu: 1500 B, loss: 0.5 %, corruption: 0.5 %, reordering: 1 %, reorder_by: 3 us",
            ),
        ],
    ),
];

/// What a run wrote: status, standard output, every file, the report among them.
type Written = (Option<i32>, String, BTreeMap<String, Vec<u8>>);

fn written(path: &str, out: &Path, workers: &str) -> Written {
    let folder = out.display().to_string();
    let ended = lab(&[path, "--workers", workers, "--json", "-o", &folder]);
    assert!(ended.err.contains("files in"), "{path}: {}", ended.err);
    (ended.status, ended.out, contents(out))
}

#[test]
fn so_many_workers_write_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, changes) in SCENARIOS {
        let library = workspace_root().join("programs");
        let text =
            fs::read_to_string(library.join(format!("lab/{name}.yaml"))).expect("a scenario");
        let text = changes.iter().fold(text, |text, (from, to)| {
            assert!(text.contains(from), "{name} has no `{from}`");
            text.replace(from, to)
        });
        let text = text.replace("program: ../", &format!("program: {}/", library.display()));
        let path = folder.path().join(format!("{name}.yaml"));
        fs::write(&path, text).expect("writes the scenario");
        let path = path.display().to_string();
        let run = |workers: &str| {
            written(&path, &folder.path().join(format!("{name}-{workers}")), workers)
        };
        let one = run("1");
        assert!(one.2.contains_key("report.json") && one.1.len() > 1000, "{name}: {}", one.1);
        for workers in ["2", "4"] {
            let more = run(workers);
            assert_eq!((one.0, &one.1), (more.0, &more.1), "{name}, {workers} workers");
            assert_eq!(
                one.2.keys().collect::<Vec<_>>(),
                more.2.keys().collect::<Vec<_>>(),
                "{name}, {workers} workers"
            );
            for (file, bytes) in &one.2 {
                assert!(more.2[file] == *bytes, "{name}, {workers} workers: {file} is another");
            }
        }
    }
}

/// What cannot be parted is run by fewer, who say so, with the same result.
#[test]
fn short_links_keep_their_nodes_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "
lab: together
duration: 200 us
link: { rate: 25 Gbit/s, delay: 0 ns }
topology: { dumbbell: { pairs: 2, middle: { delay: DELAY } } }
flows: { pattern: pairs, from: left, to: right, size: 20 KB }
";
    let run = |delay: &str, workers: &str| {
        let scenario = crate::lab::scenario(folder.path(), &text.replace("DELAY", delay));
        let ended = lab(&[&scenario, "--workers", workers, "--json"]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        (ended.out, ended.err)
    };
    for short in ["0 ns", "3 ps", "49 ns"] {
        let (one, told) = run(short, "2");
        let why = told.contains("2 workers are too many for it, 1 run")
            && told.contains("a link of less than 50 ns");
        assert!(why, "{told}");
        assert_eq!(one, run(short, "1").0);
    }
    let (two, told) = run("1 us", "2");
    assert!(!told.contains("too many"), "{told}");
    assert_eq!(two, run("1 us", "1").0);
    let (two, told) = run("1 us", "4");
    assert!(told.contains("4 workers are too many for it, 2 run"), "{told}");
    assert_eq!(two, run("1 us", "1").0);
}

#[test]
fn the_memory_of_a_run_may_be_in_large_pages() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return skip("large pages of a laboratory", "this kernel has none");
    }
    let mut command = Command::new(wireyard());
    command.args(["lab", "fat_tree", "--quiet"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let maps = format!("/proc/{}/smaps", run.id());
    let may_be_large = || {
        let maps = fs::read_to_string(&maps).unwrap_or_default();
        maps.lines().any(|line| line.starts_with("VmFlags:") && line.contains(" hg"))
    };
    let begun = Instant::now();
    let mut found = may_be_large();
    while !found && begun.elapsed() < Duration::from_secs(60) && run.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
        found = may_be_large();
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(found);
}
