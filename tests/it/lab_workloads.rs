//! Workloads of the laboratory: loads, files of other simulators, collectives; what is offered, what is refused, what waits for what.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::lab::{figure, lab, scenario};

/// One line of `fct.txt`.
struct Done {
    ends: (String, String),
    port: u64,
    bytes: u64,
    start_ns: u64,
    fct_ns: u64,
    best_ns: u64,
}

/// Runs a scenario into a folder; gives its report and its `fct.txt`.
fn ran(folder: &Path, text: &str, more: &[&str]) -> (Value, String) {
    let out = folder.join("out");
    let path = scenario(folder, text);
    let mut arguments = vec![path.as_str(), "--json", "-o", out.to_str().expect("a name")];
    arguments.extend(more);
    let ended = lab(&arguments);
    assert_eq!(ended.status, Some(0), "{text}: {}{}", ended.out, ended.err);
    let report = serde_json::from_str(&ended.out).expect("a report");
    (report, fs::read_to_string(out.join("fct.txt")).expect("fct.txt"))
}

fn completions(text: &str) -> Vec<Done> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        assert_eq!(words.len(), 8, "{line}");
        Done {
            ends: (words[0].to_owned(), words[1].to_owned()),
            port: number(3),
            bytes: number(4),
            start_ns: number(5),
            fct_ns: number(6),
            best_ns: number(7),
        }
    };
    text.lines().map(line).collect()
}

fn loaded(flows: &str) -> String {
    format!(
        "lab: load\nduration: 4 ms\nsample: 50 us\nlink: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
         topology: {{ leaf_spine: {{ leaves: 2, spines: 2, hosts: 4, uplink: {{ rate: 100 Gbit/s }} }} }}\n\
         switch: {{ qos: {{ preset: onyx_roce }} }}\nflows:\n{flows}"
    )
}

#[test]
fn a_load_offers_what_it_says_and_follows_its_seed() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = loaded(
        "  - { load: 40 %, sizes: ali_storage, until: 3 ms }\n  - { pattern: incast, fan_in: 5, size: 20 KB, load: 4 %, until: 3 ms }\n",
    );
    let (report, first) = ran(folder.path(), &text, &["--seed", "7"]);
    let done = completions(&first);
    assert_eq!(done.len() as f64, figure(&report, "flows.count"), "all are done");
    let bytes =
        |port: u64| done.iter().filter(|d| d.port == port).map(|d| d.bytes).sum::<u64>() as f64;
    // Eight hosts for 3 ms at 25 Gbit/s are 75 MB: 734 flows of 40.9 KB, with a standard deviation of 27; with the tail of their sizes
    // the bytes vary by a sixth.
    let count = done.iter().filter(|d| d.port == 100).count();
    assert!((620..850).contains(&count), "{count}");
    let (background, incast) = (bytes(100) / 75e6, bytes(200) / 75e6);
    assert!((0.2..0.6).contains(&background), "{background}");
    assert!((0.02..0.07).contains(&incast), "{incast}");
    let many: Vec<&Done> = done.iter().filter(|d| d.port == 200).collect();
    assert!(many.len().is_multiple_of(5) && many.iter().all(|d| d.bytes == 20_000));
    for one in &many {
        let together = many.iter().filter(|d| d.start_ns == one.start_ns && d.ends.1 == one.ends.1);
        assert_eq!(together.count(), 5, "five at a time to one");
    }
    assert!(done.iter().all(|d| d.fct_ns >= d.best_ns && d.ends.0 != d.ends.1));
    let (_, again) = ran(folder.path(), &text, &["--seed", "7"]);
    assert_eq!(first, again);
    let (_, other) = ran(folder.path(), &text, &["--seed", "8"]);
    assert_ne!(first, other);
    // A sweep draws what a run with the same seed draws.
    let out = folder.path().join("seeds");
    let path = scenario(folder.path(), &text);
    let ended = lab(&[&path, "--seed", "7", "--seeds", "2", "-o", out.to_str().expect("a name")]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let of = |seed: &str| fs::read_to_string(out.join(seed).join("fct.txt")).expect("fct.txt");
    assert_eq!((of("seed-7"), of("seed-8")), (first, other));
}

#[test]
fn a_load_that_the_links_do_not_carry_is_refused_with_its_number() {
    let folder = tempfile::tempdir().expect("a folder");
    for (flows, said) in [
        ("  - { load: 96 %, size: 1 MB }\n", "a load of 103.7 %: `h1` would send"),
        ("  - { load: 120 %, sizes: hadoop }\n", "a load of 1"),
        ("  - { load: 60 %, size: 1 MB }\n  - { load: 60 %, size: 1 MB }\n", "a load of 129.6 %"),
        ("  - { load: 20 %, size: 1 MB, to: h1 }\n", "`h1` would receive"),
        ("  - { load: 50 %, sizes: websearch }\n", "there is no distribution `websearch`"),
        ("  - { load: 50 % }\n", "a `load` needs `sizes`"),
        ("  - { from: h1, to: h2, sizes: hadoop }\n", "`sizes` needs a `load`"),
        ("  - { pattern: incast, fan_in: 8, size: 1 KB, every: 1 ms }\n", "expected 1 to 7"),
        ("  - { load: 90 %, size: 1 B }\n", "flows: at most 100000"),
        ("  - { load: 20 %, size: 1 MB, from: [hosts, h1] }\n", "`h1` is named twice"),
        ("  - { load: 20 %, size: 1 MB, to: [h2, hosts] }\n", "`h2` is named twice"),
        (
            "  - { pattern: incast, fan_in: 2, size: 1 KB, every: 1 ms, from: [h3, h4, h3] }\n",
            "`h3` is named twice",
        ),
        // 90 % of payload in packets of 256 B.
        (
            "  - { pattern: incast, fan_in: 1, from: h2, to: [h1, h3], size: 1 MB, load: 90 % }\n\
             hosts: [ { of: h2, path_mtu: 256 B } ]\n",
            "`h2` would send",
        ),
    ] {
        let ended = lab(&["--check", &scenario(folder.path(), &loaded(flows))]);
        assert_eq!(ended.status, Some(2), "{flows}: {}", ended.err);
        assert!(
            ended.err.contains(said) && ended.err.contains("scenario.yaml:"),
            "{flows}: {}",
            ended.err
        );
    }
}

#[test]
fn loads_one_after_the_other_are_not_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = "  - { load: 60 %, size: 1 MB, until: 1 ms }\n  - { load: 60 %, size: 1 MB, start: 1 ms }\n";
    lab(&["--check", &scenario(folder.path(), &loaded(flows))]).expect(0, &[]);
}

#[test]
fn sizes_come_from_a_file_and_what_is_wrong_in_it_is_told_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("two.txt"),
        "# bytes percent\n1000 50\n1000 50\n3000 50\n3000 100\n",
    )
    .expect("writes");
    let flows = "  - { load: 10 %, sizes: two.txt, until: 500 us }\n";
    let (_, text) = ran(folder.path(), &loaded(flows), &[]);
    let done = completions(&text);
    assert!(done.len() > 50 && done.iter().all(|d| d.bytes == 1000 || d.bytes == 3000));
    let short = done.iter().filter(|d| d.bytes == 1000).count() as f64 / done.len() as f64;
    assert!((0.35..0.65).contains(&short), "{short}");
    fs::write(folder.path().join("two.txt"), "1000 50\n900 100\n").expect("writes");
    let ended = lab(&[&scenario(folder.path(), &loaded(flows))]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("two.txt:2:1") && ended.err.contains("must rise"), "{}", ended.err);
}

const HPCC_TOPOLOGY: &str = "6 2 5\n4 5\n0 4 25Gbps 1000ns 0\n1 4 25Gbps 0.001ms 0\n2 5 25Gbps 1000ns 0\n3 5 25Gbps 1us 0\n4 5 100Gbps 1000ns 0\n";
const HPCC_FLOWS: &str = "3\n0 3 3 100 20000 2\n2 1 3 100 40000 2.000005\n0 2 3 1000 2.00001\n";

#[test]
fn files_of_hpccs_simulator_are_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writes");
    let text = "lab: hpcc\nduration: 1 ms\nlink: { mtu: 1500 B }\ntopology: { file: topology.txt }\nhost: { rate_control: fixed }\n\
                flows: { file: flow.txt, format: hpcc, origin: 2 s }\n";
    write("topology.txt", HPCC_TOPOLOGY);
    write("flow.txt", HPCC_FLOWS);
    let (report, fct) = ran(folder.path(), text, &[]);
    assert_eq!(figure(&report, "fabric.hosts"), 4.0);
    // In binary this rate is a little less than it is: it is rounded, as one that is dilated must divide.
    write("topology.txt", &HPCC_TOPOLOGY.replace("0 4 25Gbps", "0 4 1.001Gbps"));
    write("dilated.yaml", &format!("{text}dilate: 1000\n"));
    let dilated = folder.path().join("dilated.yaml");
    lab(&["--check", dilated.to_str().expect("a name")]).expect(0, &[]);
    write("topology.txt", HPCC_TOPOLOGY);
    let done = completions(&fct);
    let short = done.iter().find(|d| d.bytes == 1000).expect("the last flow");
    assert_eq!(
        (short.ends.0.as_str(), short.ends.1.as_str(), short.start_ns),
        ("0b000001", "0b000201", 10_000)
    );
    let alone = done.iter().find(|d| d.bytes == 40_000).expect("the second flow");
    assert_eq!(alone.start_ns, 5_000);
    // Nothing is in its way but the acknowledgement of another flow.
    assert!((alone.best_ns..alone.best_ns + 60).contains(&alone.fct_ns), "{}", alone.fct_ns);
    for (name, wrong, said) in [
        ("flow.txt", "3\n0 3 3 100 20000 2\n2 9 3 100 40000 2\n0 2 3 1000 2\n", "flow.txt:3:3"),
        ("flow.txt", "1\n0 4 3 100 20000 2\n", "4 is a switch"),
        ("flow.txt", "2\n0 3 3 100 20000 2\n", "2 flows are announced, and 1 follow"),
        ("flow.txt", "1\n0 3 3 100 20000 1.5\n", "before `origin`"),
        ("flow.txt", "0\n", "the file has no flow: nothing would be sent"),
        ("flow.txt", "", "the file has no flow: nothing would be sent"),
        (
            "topology.txt",
            "6 2 5\n4 5\n0 4 25Gbps 1000ns 0\n",
            "5 links are announced, and 1 follow",
        ),
        ("topology.txt", "6 2 1\n4 5\n0 4 25Gbps 1000 0\n", "topology.txt:3:12"),
        (
            "topology.txt",
            "6 2 2\n4 5\n0 4 25Gbps 1us 0\n0 5 25Gbps 1us 0\n",
            "another link of `n0`",
        ),
    ] {
        write("topology.txt", HPCC_TOPOLOGY);
        write("flow.txt", HPCC_FLOWS);
        write(name, wrong);
        let ended = lab(&[&scenario(folder.path(), text)]);
        assert_eq!(ended.status, Some(2), "{wrong}");
        assert!(ended.err.contains(said), "{wrong}: {}", ended.err);
    }
}

/// Names of the user's own are no numbers of a file.
#[test]
fn numbers_of_flows_are_places_of_hosts_without_a_topology_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("flow.txt"), "1\n0 1 3 100 5000 0\n").expect("writes");
    let text = "lab: named\nduration: 1 ms\nhost: { rate_control: fixed }\n\
                topology: { hosts: [n1, n2], switches: [s1], links: [{ ends: [n1, s1] }, { ends: [n2, s1] }] }\n\
                flows: { file: flow.txt, format: hpcc }\n";
    let (_, fct) = ran(folder.path(), text, &[]);
    let sizes: Vec<u64> = completions(&fct).iter().map(|done| done.bytes).collect();
    assert_eq!(sizes, [5000]);
}

#[test]
fn connection_matrices_of_htsim_wait_for_their_triggers() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |text: &str| fs::write(folder.path().join("x.cm"), text).expect("writes");
    let text = "lab: htsim\nduration: 2 ms\ntopology: { ring: { switches: 4 } }\nhost: { rate_control: fixed }\n\
                flows: { file: x.cm, format: htsim }\n";
    let matrix = "Nodes 4\nConnections 4\nTriggers 2\n0->1 id 1 start 1000000 size 100000 recv_done_trigger 1\n\
                  1->2 id 2 trigger 1 size 50000 recv_done_trigger 2\n3->2 id 3 start 0 size 300000 recv_done_trigger 2\n\
                  2->0 id 4 trigger 2 size 1000\ntrigger id 1 oneshot\ntrigger id 2 barrier count 2\n";
    write(matrix);
    let (_, fct) = ran(folder.path(), text, &[]);
    let done = completions(&fct);
    let of = |bytes: u64| done.iter().find(|d| d.bytes == bytes).expect("a flow");
    assert_eq!(of(100_000).start_ns, 1_000);
    // Received before it is acknowledged: the next begins in between.
    let first = of(100_000).start_ns + of(100_000).fct_ns;
    assert!(of(50_000).start_ns > 1_000 + 8_000 && of(50_000).start_ns < first);
    let last = of(300_000).start_ns + of(300_000).fct_ns;
    assert!(
        of(1000).start_ns > 24_000
            && of(1000).start_ns < last
            && of(1000).start_ns > of(50_000).start_ns
    );
    for (from, to, said) in [
        ("count 2", "count 3", "waits for 3 connections, and 2 make it happen"),
        (
            "2->0 id 4 trigger 2",
            "3->0 id 4 trigger 2",
            "happens at one host, and starts a connection of another",
        ),
        ("trigger id 1 oneshot\n", "", "there is no trigger 1"),
        ("3->2", "7->2", "x.cm:6:1"),
        ("Connections 4", "Connections 5", "5 connections are announced, and 4 follow"),
        ("Connections 4", "Connections", "a word without its number"),
        ("size 1000\n", "sise 1000\n", "`sise` is unknown"),
        (matrix, "Nodes 4\n", "the file has no flow: nothing would be sent"),
        (
            matrix,
            "0->1 trigger 1 size 1000 send_done_trigger 2\n0->2 trigger 2 size 1000 send_done_trigger 1\n\
             trigger id 1 oneshot\ntrigger id 2 oneshot\n",
            "trigger 1 never happens: it waits for connections that wait for it",
        ),
    ] {
        write(&matrix.replace(from, to));
        let ended = lab(&[&scenario(folder.path(), text)]);
        assert_eq!(ended.status, Some(2), "{to}");
        assert!(ended.err.contains(said), "{to}: {}", ended.err);
    }
}

fn collective(rest: &str) -> String {
    format!(
        "lab: collective\nduration: 20 ms\nsample: 100 us\nlink: {{ rate: 100 Gbit/s, delay: 1 us, mtu: 4200 B }}\n\
         topology: {{ leaf_spine: {{ leaves: 2, spines: 2, hosts: 4, uplink: {{ rate: 400 Gbit/s }} }} }}\n\
         switch: {{ qos: {{ preset: onyx_roce }} }}\nhost: {{ path_mtu: 4096 B, ack_timeout: 4 }}\n{rest}"
    )
}

#[test]
fn collectives_are_as_fast_as_their_links_and_no_faster() {
    let folder = tempfile::tempdir().expect("a folder");
    // What each sends over a link for each byte of its size, over 8 ranks, at best.
    let cases = [
        ("all_reduce, algorithm: ring", 1.75, 0.02),
        ("all_reduce, algorithm: halving_doubling", 1.75, 0.05),
        ("all_reduce, algorithm: tree, chunks: 32", 2.0, 2.0),
        ("reduce_scatter", 0.875, 0.02),
        ("all_gather", 0.875, 0.02),
        ("all_to_all", 0.875, 1.0),
        ("moe, expert: 20 us", 1.75, 1.5),
        ("moe, skew: 1", 1.75, 6.0),
    ];
    for (operation, links, over) in cases {
        let rest = format!(
            "collectives: {{ name: c, operation: {operation}, size: 2 MB, iterations: 2 }}\n"
        );
        let (report, _) = ran(folder.path(), &collective(&rest), &[]);
        assert_eq!(figure(&report, "collective.c.iterations"), 2.0, "{operation}");
        let (time, bound) =
            (figure(&report, "collective.c.time_mean"), figure(&report, "collective.c.bound"));
        let wire = 2e6 * links * 8.0 / 100e9;
        assert!(time >= bound * 0.9999 && bound >= wire, "{operation}: {time} {bound} {wire}");
        let found = figure(&report, "collective.c.over_bound");
        assert!(found < over, "{operation}: {found}");
    }
}

/// Four hosts on one switch: two messages of 16 MB to one host take its link twice as long as one, and so does what it sends back.
#[test]
fn the_bound_of_a_collective_counts_what_a_link_receives() {
    let folder = tempfile::tempdir().expect("a folder");
    // 4096 of 4178 bytes on the wire are payload.
    let message = 16e6 * 8.0 / 100e9 * 4178.0 / 4096.0;
    let tree = "ranks: [h1, h2, sink], operation: all_reduce, algorithm: tree, chunks: 1";
    // Shares of 1/1, 1/2, 1/3 and 1/4: the first expert has 12 of 25 parts, three times, there and back.
    for (keys, messages) in [(tree, 4.0), ("operation: moe, skew: 1", 2.0 * 3.0 * 12.0 / 25.0)] {
        let text = format!(
            "lab: bound\nduration: 12 ms\nsample: 100 us\nlink: {{ rate: 100 Gbit/s, delay: 1 us, mtu: 9216 B }}\n\
             topology: {{ incast: {{ senders: 3 }} }}\nswitch: {{ qos: {{ preset: onyx_roce }} }}\n\
             host: {{ rate_control: fixed, path_mtu: 4096 B }}\ncollectives: {{ name: c, size: 16 MB, {keys} }}\n"
        );
        let (report, _) = ran(folder.path(), &text, &[]);
        let bound = figure(&report, "collective.c.bound") / message;
        assert!((bound / messages - 1.0).abs() < 0.01, "{keys}: {bound} messages of {messages}");
        assert!(figure(&report, "collective.c.over_bound") > -1e-4, "{keys}");
    }
}

/// The rows of a table whose title begins so, as text.
fn rows(report: &Value, title: &str) -> Vec<String> {
    let tables = report["tables"].as_array().expect("tables");
    let found =
        tables.iter().find(|table| table["title"].as_str().is_some_and(|t| t.starts_with(title)));
    let rows =
        found.unwrap_or_else(|| panic!("no table {title}"))["rows"].as_array().expect("rows");
    rows.iter().map(Value::to_string).collect()
}

#[test]
fn a_straggler_and_a_cut_link_are_named_by_what_waited_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = "collectives: { name: c, operation: all_reduce, size: 1 MB, iterations: 2, compute: 100 us, stragglers: { of: h6, slower: 3 } }\n";
    let (report, _) = ran(folder.path(), &collective(slow), &[]);
    assert!(figure(&report, "collective.c.time_mean") > 300e-6);
    let path = rows(&report, "What iteration");
    assert!(path[0].contains("\"h6\"") && path[0].contains("computes"), "{path:?}");
    let cut = "collectives: { name: c, operation: all_reduce, size: 1 MB }\nfaults: { at: 100 us, until: 200 us, link_down: leaf1-h2 }\n";
    let (report, _) =
        ran(folder.path(), &collective(&cut.replace("faults: {", "faults:\n  - {")), &[]);
    let path = rows(&report, "What iteration");
    let slowest =
        report["figures"]["collective.c.path_over_best"]["value"].as_f64().expect("a figure");
    assert!(slowest > 90e-6, "{slowest}");
    assert!(
        path.iter().any(|row| row.contains("data of h1") || row.contains("data of h2")),
        "{path:?}"
    );
}

/// The figure is one of every collective, so that conditions and goals can be about it.
#[test]
fn the_path_of_a_collective_can_be_expected_before_it_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "collectives: { name: c, operation: all_reduce, size: 1 MB }\n\
                expect: { collective.c.path_over_best: \"< 1 ms\" }\n";
    lab(&["--check", &scenario(folder.path(), &collective(rest))]).expect(0, &[]);
}

#[test]
fn collectives_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (keys, said) in [
        (
            "operation: all_reduce, algorithm: halving_doubling, ranks: [h1, h2, h3]",
            "`halving_doubling` of 3 ranks",
        ),
        ("operation: all_reduce, ranks: [h1, h1]", "`h1` is in this collective twice"),
        ("operation: all_reduce, ranks: h1", "at least 2"),
        ("operation: all_gather, algorithm: tree", "`all_gather` has one algorithm"),
        ("operation: all_reduce, jitter: 5 %", "`jitter` means nothing without `compute`"),
        ("operation: all_reduce, ranks: [h1, h9]", "there is no host `h9`"),
        ("operation: all_reduce, iterations: 1000000", "steps of all ranks and iterations"),
        ("operation: all_redcue", "did you mean `all_reduce`?"),
    ] {
        let rest = format!("collectives: {{ size: 1 MB, {keys} }}\n");
        let ended = lab(&["--check", &scenario(folder.path(), &collective(&rest))]);
        assert_eq!(ended.status, Some(2), "{keys}: {}", ended.err);
        assert!(ended.err.contains(said), "{keys}: {}", ended.err);
    }
}
