//! Scenarios that cannot be run, and runs that cannot move, through the binary: where, what, and a way out; exit status 2 for the first.

use crate::lab::{lab, scenario};

const GOOD: &str = "
lab: good
duration: 1 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 2 } }
switch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }
host: { program: PROGRAMS/roce_nic, rate_control: dcqcn }
flows: { from: senders, to: sink, size: 100 KB }
";

/// What is written instead of what, and what is said of it.
const WRONG: &[(&str, &str, &[&str])] = &[
    ("to: sink", "to: snk", &["8:29", "there is no host `snk`", "did you mean `sink`?"]),
    (
        "{ incast: { senders: 2 } }",
        "{ hosts: [senders, sink], switches: [s1, s2], links: [{ ends: [senders, s1] }, { ends: [s2, sink] }] }",
        &["there is no way from `senders` to `sink`"],
    ),
    (
        "PROGRAMS/rocev2_lossless",
        "hpcc_imt",
        &["6:", "there is no program", "known by their names", "did you mean `hpcc_int`?"],
    ),
    (
        "{ from: senders, to: sink, size: 100 KB }",
        "{ load: 10 %, sizes: web_search, until: 2 ms }",
        &["8:", "`until` is after the end of the run"],
    ),
    ("25 Gbit/s", "0 Gbit/s", &["4:15", "a rate of zero moves nothing"]),
    ("size: 100 KB", "size: 0 B", &["8:41", "a flow of zero bytes"]),
    (
        "preset: onyx_roce",
        "preset: onyx_roce, allow_lossy_headroom: true, buffer_profiles: { egress_lossless: { pool: egress_lossless_pool, static_th: 1000 B } }, wred_profiles: { ROCE: { green: { kmin: 100 B, kmax: 200 B, pmax: 1 % } } }",
        &["queue 3", "holds 1 KB, and a full packet of the hosts has 1082 B: none would ever pass"],
    ),
    ("mtu: 1500 B", "mtu: 1000 B", &["a full packet of the hosts has 1098 B: none would arrive"]),
    ("size: 100 KB", "size: 100 KB, start: -1 ms", &["before time zero"]),
    ("100 KB", "100k", &["8:41", "\"k\" is not a unit", "\"5 KB\""]),
    ("1 us", "1 KB", &["4:33", "\"KB\" is not a unit", "units: ps, ns, us, ms, s"]),
    ("25 Gbit/s", "25 KB", &["4:15", "\"KB\" is not a unit", "units: bit/s"]),
    ("onyx_roce", "onyx_rocee", &["6:", "unknown variant `onyx_rocee`", "`onyx_roce`"]),
    ("dcqcn }", "dcqnc }", &["7:", "there is no rate control `dcqnc`", "did you mean `dcqcn`?"]),
    (
        "duration: 1 ms",
        "duration: 1 ms\nsample: 50 ps",
        &["4:9", "20000000 samples in `duration`: at most 10000000"],
    ),
    (
        "duration: 1 ms",
        "duration: 1 ms\nsample: 2 ms",
        &["4:9", "not one sample is taken: `sample` is longer than `duration`"],
    ),
    (
        "flows:",
        "expect: { flow.h1.sink.7.completion_time: \"< 1 ms\" }\nflows:",
        &[
            "8:11",
            "no figure `flow.h1.sink.7.completion_time`",
            "there are `flow.h1.sink.throughput`",
        ],
    ),
    ("to: sink", "to: skin", &["8:29", "there are senders, h1, h2, sink"]),
    (
        "flows: { from: senders, to: sink, size: 100 KB }",
        "collectives: []",
        &["8:14", "no collective: nothing would be sent"],
    ),
    (
        "{ incast: { senders: 2 } }",
        "{ hosts: [a, c], switches: [b-c, a-b], links: [{ ends: [a, b-c] }, { ends: [b-c, a-b] }, { ends: [a-b, c] }] }",
        &["`a-b-c` would name two links: of `a` and `b-c`, and of `a-b` and `c`", "another name"],
    ),
    (
        "{ incast: { senders: 2 } }",
        "{ hosts: [hosts, sink], switches: s1, links: [{ ends: [hosts, s1] }, { ends: [s1, sink] }] }",
        &["5:21", "`hosts` is the name of a group of hosts"],
    ),
    (
        "{ incast: { senders: 2 } }",
        "{ hosts: [\"\", sink], switches: s1, links: [{ ends: [\"\", s1] }, { ends: [s1, sink] }] }",
        &["5:21", "a node needs a name"],
    ),
    (
        "dcqcn }",
        "fixed, parameters: { line_rate_bps: 5e9 } }",
        &["`fixed` does not use `line_rate_bps`", "make `rate` of the link lower"],
    ),
    (
        "dcqcn }",
        "dcqcn, parameters: { decrease_period_us: 5 } }",
        &["`dcqcn` does not use `decrease_period_us`", "`dcqcn` has line_rate_bps, min_rate_bps,"],
    ),
    (
        "dcqcn }",
        "ns3_rdma_code, parameters: { decrease_period_us: 5 } }",
        &["`ns3_rdma_code` does not use `decrease_period_us`"],
    ),
    (
        "dcqcn }",
        "dcqcn, parameters: { gain: 0.1 } }",
        &[
            "there is no parameter `gain`",
            "`dcqcn` has line_rate_bps, min_rate_bps, alpha_initial, g,",
        ],
    ),
    (
        "dcqcn }",
        "dcqcn, parameters: { min_rate_bps: 100e9 } }",
        &["`h1` on its link of 25 Gbit/s: min_rate_bps is 100000000000, expected at most"],
    ),
    ("25 Gbit/s", "1 bit/s", &["7:", "`h1` on its link of 1 bit/s: min_rate_bps is 1000000"]),
    (
        "switch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }\nhost: { program: PROGRAMS/roce_nic, rate_control: dcqcn }",
        "host: { transport: infiniband }",
        &["6:1", "which forwards no InfiniBand", "`switch: { program: ib_switch }`"],
    ),
    (
        "delay: 1 us",
        "delay: 3 ms",
        &["4:1", "h1, port 1, pause_time: pause_time 65535 quanta lasts"],
    ),
    (
        "flows:",
        "faults: [{ at: 0 us, thresholds: { switch: s1, kmin: 5 MB } }]\nflows:",
        &["8:10", "the marking curve would be from kmin 5 MB to kmax 1500 KB"],
    ),
    (
        "flows:",
        "faults: [{ at: 0 us, thresholds: { kmin: 1 MB } }, { at: 1 us, thresholds: { kmax: 200 KB } }]\nflows:",
        &["8:52", "the marking curve would be from kmin 1 MB to kmax 200 KB"],
    ),
    (
        "flows:",
        "faults: [{ at: 0 us, thresholds: { queue: 1, kmin: 1 KB } }]\nflows:",
        &["8:10", "this changes nothing"],
    ),
];

#[test]
fn what_cannot_be_run_is_refused_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = lab(&[&scenario(folder.path(), GOOD), "--check"]);
    good.expect(0, &[]);
    for &(right, wrong, expected) in WRONG {
        let text = GOOD.replacen(right, wrong, 1);
        assert_ne!(text, GOOD, "{right}");
        let ended = lab(&[&scenario(folder.path(), &text)]);
        ended.expect(2, expected).expect(2, &["scenario.yaml:"]);
        assert!(ended.out.is_empty(), "nothing was run: {}", ended.out);
    }
}

const TOPOLOGY: &str = "{ incast: { senders: 2 } }";

/// What is too large, or no lab, and what is said of it at the line of the topology or of the flow.
const TOO_LARGE: &[(&str, &str, &[&str])] = &[
    ("100 KB", "9000000000 GB", &["8:41", "a flow of 9000000000 GB: at most 10^18 bytes"]),
    ("mtu: 1500 B", "mtu: 70 KB", &["4:44", "frames of 70 KB: at most 65535 B"]),
    ("senders: 2", "senders: 1024", &["5:32", "senders: 1024, expected 1 to 1023"]),
    ("senders: 2", "senders: 0", &["5:32", "senders: 0, expected 1 to 1023"]),
    ("size: 100 KB", "size: -5 B", &["8:41", "negative is not allowed"]),
    (TOPOLOGY, "{ dumbbell: { pairs: 4096 } }", &["5:23", "at most 4096 nodes", "8192 hosts"]),
    (
        TOPOLOGY,
        "{ leaf_spine: { leaves: 4096, spines: 4096, hosts: 1 } }",
        &["5:25", "at most 16384 links", "16781312 links"],
    ),
    (TOPOLOGY, "{ leaf_spine: { leaves: 500, spines: 500, hosts: 7 } }", &["at most 4096 nodes"]),
    (TOPOLOGY, "{ ring: { switches: 1000 } }", &["at most 524288 rows in forwarding tables"]),
    (TOPOLOGY, "{ parking_lot: { hops: 2000 } }", &["at most 4096 nodes"]),
    (
        "{ incast: { senders: 2 } }\nswitch: { program: PROGRAMS/rocev2_lossless, qos: { preset: onyx_roce } }\nhost: { program: PROGRAMS/roce_nic, rate_control: dcqcn }\nflows: { from: senders, to: sink, size: 100 KB }",
        "{ fat_tree: { k: 16 } }\nflows: { pattern: all_to_all }",
        &["6:8", "1048576 flows: at most 100000"],
    ),
    (
        TOPOLOGY,
        "{ incast: { senders: 2 }, switches: s2, links: { ends: [s2, h1] } }",
        &["5:66", "a second link of `h1`: a host has one"],
    ),
    (TOPOLOGY, "{ incast: { senders: 2 }, hosts: [spare] }", &["5:45", "`spare` has no link"]),
];

/// Counted before anything is built: at once, whatever the numbers say.
#[test]
fn what_is_too_large_is_refused_before_it_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    lab(&[&scenario(folder.path(), GOOD), "--check"]).expect(0, &[]);
    let began = std::time::Instant::now();
    for &(right, wrong, expected) in TOO_LARGE {
        let text = GOOD.replacen(right, wrong, 1);
        assert_ne!(text, GOOD, "{right}");
        let ended = lab(&[&scenario(folder.path(), &text), "--check"]);
        ended.expect(2, expected).expect(2, &["scenario.yaml:"]);
    }
    // Each takes milliseconds; building one of them took from 16 s to for ever.
    let most = std::time::Duration::from_secs(2 * TOO_LARGE.len() as u64);
    assert!(began.elapsed() < most, "{:?}", began.elapsed());
    for largest in ["senders: 1023", "senders: 2, last_hop: { mtu: 65535 B }"] {
        let text = GOOD.replacen("senders: 2", largest, 1);
        lab(&[&scenario(folder.path(), &text), "--check"]).expect(0, &[]);
    }
    let text = GOOD.replacen("100 KB", "1000000000 GB", 1);
    lab(&[&scenario(folder.path(), &text)]).expect(0, &[]);
}

/// What is wrong in a file of flows, and what is said of it at its cell.
const WRONG_FLOWS: &[(&str, &[&str])] = &[
    ("to,from,bytes,start_us\nsink,h1,5000,0\n", &["1:1", "column 1 is `to`, expected `from`"]),
    ("from,to,KB,start_us\nh1,sink,5,0\n", &["1:9", "column 3 is `KB`, expected `bytes`"]),
    ("from,to,bytes\nh1,sink,5\n", &["2:1", "3 cells, expected 4"]),
    ("from,to,bytes\nh1,sink,5,0\n", &["1:1", "names 3 columns: `start_us` is missing"]),
    ("h1,sink,5000,0\nh1,snk,5000,0\n", &["2:4", "no host `snk`", "did you mean `sink`?"]),
    ("h1,sink,5 KB,0\n", &["1:9", "`5 KB` is no number of bytes"]),
    ("h1,sink,18446744073709551615,0\n", &["1:9", "no number of bytes from 1 to 10^18"]),
    ("h1,sink,5000, later\n", &["1:15", "`later` is no number of microseconds"]),
    ("h1,sink,5000,5000\n", &["1:1", "a flow would start at 5 ms"]),
    ("h1,h1,5000,0\r\n", &["1:1", "`h1` would send to itself"]),
];

#[test]
fn what_is_wrong_in_a_file_of_flows_is_shown_at_its_cell() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = GOOD.replace("{ from: senders, to: sink, size: 100 KB }", "{ file: flows.csv }");
    let run = |rows: &str| {
        std::fs::write(folder.path().join("flows.csv"), rows).expect("writes the flows");
        lab(&[&scenario(folder.path(), &text), "--json"])
    };
    for (rows, expected) in WRONG_FLOWS {
        run(rows).expect(2, expected).expect(2, &["flows.csv:"]);
    }
    let rows = "from,to,bytes,start_us\r\nh1, sink ,5000,0\r\n\r\nh2,sink,7000,1.5";
    let ended = run(rows);
    let report: serde_json::Value = serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON");
    assert_eq!(crate::lab::figure(&report, "flows.finished"), 2.0);
    let text = text.replace("flows.csv }", "flows.csv, size: 5 KB }");
    lab(&[&scenario(folder.path(), &text)]).expect(2, &["scenario.yaml:8:", "`file`", "`size`"]);
}

/// A run in which nothing arrives ends, and says what is in the way.
#[test]
fn a_run_that_does_not_move_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |faults: &str| {
        let ended = lab(&[&scenario(folder.path(), &format!("{GOOD}{faults}\n"))]);
        ended.expect(0, &[]).out.clone()
    };
    let cut = run("faults: [{ at: 0 us, link_down: h1-s1 }, { at: 0 us, link_down: h2-s1 }]");
    assert!(cut.contains("progress: none: no flow delivered anything: h1 dropped"), "{cut}");
    assert!(cut.contains(": port_down; h2 dropped"), "{cut}");
    let storm = run("faults: [{ at: 0 us, pause_storm: sink }]");
    assert!(storm.contains("delivered anything: s1->sink queue 3 is paused"), "{storm}");
    assert!(!run("").contains("progress:"), "it moves");
    // The 64th router takes the last hop from the TTL.
    let far = "lab: far\nduration: 3 ms\nsample: 100 us\ntopology: { parking_lot: { hops: 64 } }\n\
               flows: { from: long, to: end, size: 10 KB }\n";
    let ended = lab(&[&scenario(folder.path(), far)]);
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert!(ended.out.contains("s64 punted 10 as ttl_expired"), "{}", ended.out);
}
