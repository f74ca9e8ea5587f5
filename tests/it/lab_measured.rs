//! Figures are about what they say: flows that cross the bottleneck, time that flows lived, queues that were roots, frames that were lost.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::lab::{figure, lab, report, scenario};

/// Forty-gigabit links with a curve on which the fluid model holds.
fn scene(topology: &str, flows: &str) -> Value {
    report(&format!(
        "lab: theory\nduration: 1 ms\nwarm_up: 200 us\nlink: {{ rate: 40 Gbit/s, delay: 1 us, mtu: 1500 B }}\ntopology: {topology}\n\
         switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 5 KB, kmax: 2000 KB, pmax: 10 % }} }} }} }} }}\n\
         host: {{ rate_control: dcqcn }}\nflows:\n{flows}"
    ))
}

fn incast(senders: usize, more: &str) -> Value {
    let topology = format!("{{ incast: {{ senders: {senders} }} }}");
    scene(&topology, &format!("  - {{ from: [h1, h2], to: sink }}\n{more}"))
}

fn why(report: &Value) -> &str {
    report["facts"]["theory"].as_str().unwrap_or_default()
}

/// The row of a headline figure: what is measured, and theory.
fn headline(report: &Value, name: &str) -> (String, String) {
    let tables = report["tables"].as_array().expect("tables");
    let rows = tables[0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row[0] == name).expect("a row");
    (row[1].as_str().expect("words").to_owned(), row[2].as_str().expect("words").to_owned())
}

#[test]
fn theory_is_about_the_flows_that_cross_the_queue() {
    let two = incast(3, "");
    let depth = figure(&two, "theory.queue_mean");
    assert_ne!(headline(&two, "throughput of all flows").1, "-");
    // What goes the other way is no part of it, however long it lives.
    let short: String = (3..9)
        .map(|n| format!("  - {{ from: sink, to: h3, size: 1 KB, start: {n}00 us }}\n"))
        .collect();
    for other in [short.as_str(), "  - { from: sink, to: [h1, h2] }\n"] {
        let both = incast(3, other);
        assert_eq!(figure(&both, "theory.queue_mean"), depth, "{other}");
        assert_eq!(headline(&both, "throughput of all flows").1, "-", "{other}");
    }
    let uplinks: Vec<Value> = [1, 2]
        .iter()
        .map(|spine| {
            let topology = format!(
                "{{ leaf_spine: {{ leaves: 2, spines: 2, hosts: 6 }}, bottleneck: [leaf1, spine{spine}] }}"
            );
            let flows = "  - { pattern: pairs, from: [h1, h2, h3, h4, h5, h6], to: [h7, h8, h9, h10, h11, h12] }\n";
            scene(&topology, flows)
        })
        .collect();
    // The hash sends four of the six by the first, and two by the second.
    let four = incast(4, "  - { from: [h3, h4], to: sink }\n");
    assert_eq!(figure(&uplinks[0], "theory.queue_mean"), figure(&four, "theory.queue_mean"));
    assert_eq!(figure(&uplinks[1], "theory.queue_mean"), depth);
}

#[test]
fn theory_is_none_where_flows_come_and_go_or_nothing_waits() {
    let parts: String = (1..5)
        .map(|n| format!("  - {{ from: h1, to: sink, size: 100 KB, start: {n}50 us }}\n"))
        .collect();
    let apart = scene("{ incast: { senders: 2 } }", &parts);
    assert!(apart["figures"]["theory.queue_mean"]["value"].is_null());
    assert!(
        why(&apart).contains("3 of 3 flows at the bottleneck were under way for a part"),
        "{}",
        why(&apart)
    );
    let alone = scene(
        "{ leaf_spine: { leaves: 1, spines: 1, hosts: 4 } }",
        "  - { pattern: pairs, from: [h1, h2, h3, h4], to: [h2, h3, h4, h1] }\n",
    );
    assert!(why(&alone).contains("carry no more than the bottleneck"), "{}", why(&alone));
}

/// Links of 40 Gbit/s with a curve on which the model holds, and more settings of queues.
fn shaped(qos: &str, topology: &str, flows: &str) -> Value {
    report(&format!(
        "lab: shaped\nduration: 1 ms\nwarm_up: 20 us\nlink: {{ rate: 40 Gbit/s, delay: 1 us, mtu: 1500 B }}\ntopology: {topology}\n\
         switch:\n  qos:\n    preset: onyx_roce\n    wred_profiles: {{ ROCE: {{ green: {{ kmin: 5 KB, kmax: 2000 KB, pmax: 10 % }} }} }}\n{qos}\
         host: {{ rate_control: dcqcn }}\nflows: {flows}\n"
    ))
}

#[test]
fn theory_is_of_the_least_rate_at_the_bottleneck() {
    let flows = "{ from: senders, to: sink }";
    let slow = "{ incast: { senders: 4, last_hop: { rate: 20 Gbit/s } } }";
    let link = shaped("", slow, flows);
    let port = "    port_defaults: { max_rate: 20 Gbit/s }\n";
    let port = shaped(port, "{ incast: { senders: 4 } }", flows);
    let whole = shaped("", "{ incast: { senders: 4 } }", flows);
    for name in ["theory.queue_mean", "theory.marking_probability", "bottleneck.payload_rate"] {
        assert_eq!(figure(&port, name), figure(&link, name), "{name}");
        assert_ne!(figure(&port, name), figure(&whole, name), "{name}");
    }
}

#[test]
fn theory_is_none_where_flows_cannot_take_a_fair_share() {
    let topology = "{ hosts: [a, b, c, k], switches: [s], links: [ { ends: [a, s], rate: 1 Gbit/s }, { ends: [b, s] }, \
                    { ends: [c, s] }, { ends: [k, s] } ] }";
    let slow = shaped("", topology, "{ from: [a, b, c], to: k }");
    assert!(why(&slow).contains("the link of a does not carry a fair share"), "{}", why(&slow));
    let windows = "{ from: senders, to: sink, message: 2 KB, window: 1 }";
    let short = shaped("", "{ incast: { senders: 2 } }", windows);
    assert!(why(&short).contains("`window` limits 2 of 2 flows"), "{}", why(&short));
    for report in [slow, short] {
        assert!(report["figures"]["theory.queue_mean"]["value"].is_null());
    }
}

/// What the fluid model has no term for: losses, faults, a least rate, bounded cuts, packets that are bounded or not marked.
#[test]
fn theory_is_none_where_rates_alone_do_not_decide() {
    let scene = |link: &str, host: &str, more: &str| {
        report(&format!(
            "lab: disturbed\nduration: 1 ms\nwarm_up: 20 us\nlink: {{ rate: 40 Gbit/s, delay: 1 us, mtu: 1500 B{link} }}\n\
             topology: {{ incast: {{ senders: 4 }} }}\n\
             switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 5 KB, kmax: 2000 KB, pmax: 10 % }} }} }} }} }}\n\
             host: {{ rate_control: dcqcn{host} }}\nflows: {{ from: senders, to: sink, window: 1000 }}\n{more}"
        ))
    };
    assert!(figure(&scene("", "", ""), "theory.queue_mean") > 5e3);
    for (link, host, more, says) in [
        (", loss: 0.1 %", ", ack_timeout: 6", "", "links lose or corrupt packets"),
        (", corruption: 0.1 %", ", ack_timeout: 6", "", "links lose or corrupt packets"),
        ("", ", outstanding: 4 packets", "", "`outstanding` bounds"),
        ("", ", ecn: false", "", "without ECT"),
        (
            "",
            ", parameters: { min_decrease_factor: 0.99 }",
            "",
            "keeps a cut smaller than alpha / 2",
        ),
        ("", ", parameters: { min_rate_bps: 9.9e9 }", "", "min_rate_bps is close to"),
        (
            "",
            "",
            "faults: [ { at: 500 us, until: 600 us, slow_receiver: sink } ]\n",
            "a fault happens",
        ),
    ] {
        let report = scene(link, host, more);
        assert!(why(&report).contains(says), "{says}: {}", why(&report));
        assert!(report["figures"]["theory.queue_mean"]["value"].is_null(), "{says}");
    }
    // One that is over before figures are taken is no disturbance.
    let early = "faults: [ { at: 1 us, until: 5 us, slow_receiver: sink } ]\n";
    assert!(figure(&scene("", "", early), "theory.queue_mean") > 5e3);
}

#[test]
fn theory_is_none_where_a_second_queue_marks_the_flows() {
    let flows = "[ { from: long, to: end }, { from: x1, to: y1 }, { from: x2, to: y2 } ]";
    let two = shaped("", "{ parking_lot: { hops: 2 } }", flows);
    assert!(why(&two).contains("flows are also marked at "), "{}", why(&two));
    let one = "[ { from: long, to: end }, { from: x1, to: y1 } ]";
    let one = shaped("", "{ parking_lot: { hops: 1 } }", one);
    assert!(figure(&one, "theory.queue_mean") > 5e3);
}

#[test]
fn a_bottleneck_that_every_sample_finds_empty_is_empty() {
    let found = report(
        "lab: idle\nduration: 1 ms\nsample: 10 us\nlink: { rate: 100 Gbit/s, delay: 1 us }\ntopology: { incast: { senders: 1 } }\n\
         switch: { qos: { preset: onyx_roce } }\nhost: { rate_control: fixed }\nflows: { from: h1, to: sink, size: 10 KB }\n\
         expect: { bottleneck.queue_mean: \"< 10 KB\", bottleneck.empty: \"> 90 %\" }\n",
    );
    assert_eq!(figure(&found, "bottleneck.queue_mean"), 0.0);
    assert_eq!(figure(&found, "bottleneck.queue_p99"), 0.0);
    assert_eq!(figure(&found, "bottleneck.empty"), 1.0);
}

#[test]
fn rates_are_of_the_time_that_flows_lived() {
    let text = "lab: rates\nduration: 1 ms\nlink: { rate: 40 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
                topology: { incast: { senders: 3 } }\nhost: { rate_control: dcqcn }\n\
                switch: { qos: { preset: onyx_roce, wred_profiles: { ROCE: { green: { kmin: 5 KB, kmax: 50 KB, pmax: 50 % } } } } }\n\
                flows:\n  - { from: [h1, h2], to: sink }\n";
    let short: String = (30..70)
        .map(|n| format!("  - {{ from: sink, to: h3, size: 1 KB, start: {n}0 us }}\n"))
        .collect();
    let (lone, found) = (report(text), report(&format!("{text}{short}")));
    let (cnps, rate) = (figure(&found, "flows.cnps"), figure(&found, "flows.cnp_rate"));
    assert!(cnps > 0.0);
    // Two flows for a millisecond; forty more for 5 us each.
    let wanted = cnps / (2.0 * 1e-3 + 40.0 * 5e-6);
    assert!((rate / wanted - 1.0).abs() < 0.05, "{rate} for {wanted}");
    // Those that had no CNP keep an alpha of 1 for ever.
    let (alpha, alone) = (figure(&found, "flows.alpha"), figure(&lone, "flows.alpha"));
    assert!((alpha / alone - 1.0).abs() < 0.01, "{alpha} for {alone}");
}

#[test]
fn a_flow_that_was_over_before_the_warm_up_has_no_throughput() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "lab: zero\nduration: 600 us\nwarm_up: 300 us\nlink: { rate: 10 Gbit/s, delay: 1 us }\n\
                topology: { incast: { senders: 2 } }\nhost: { rate_control: fixed }\n\
                flows: [ { from: h1, to: sink, size: 10 KB }, { from: h2, to: sink } ]\n\
                expect: { flow.h1.sink.throughput: \"< 1 Mbit/s\" }\n";
    let ended = lab(&[&scenario(folder.path(), text)]);
    ended.expect(1, &[]);
    assert!(ended.out.contains("FAIL  flow.h1.sink.throughput: -, wanted"), "{}", ended.out);
}

#[test]
fn figures_of_single_flows_that_are_drawn_are_not_put_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "lab: drawn\nduration: 300 us\nlink: { rate: 25 Gbit/s, delay: 1 us }\n\
                topology: { leaf_spine: { leaves: 2, spines: 2, hosts: 2 } }\nhost: { rate_control: fixed }\n\
                flows: [ { load: 30 %, size: 20 KB }, { from: h1, to: h2, size: 20 KB, rounds: 2 } ]\n";
    let out = folder.path().join("out").display().to_string();
    let ended = lab(&[&scenario(folder.path(), text), "--seeds", "2", "-o", &out]);
    ended.expect(0, &[]);
    let seeds = fs::read_to_string(Path::new(&out).join("seeds.csv")).expect("seeds.csv");
    assert!(seeds.contains("\nflows.throughput,"));
    assert!(!seeds.contains("\nflow."), "{seeds}");
    // Nor are they compared, of two single runs.
    let outs = ["1", "2"].map(|seed| {
        let out = folder.path().join(seed).display().to_string();
        let path = scenario(folder.path(), text);
        lab(&[&path, "--seed", seed, "-o", &out]).expect(0, &[]);
        out
    });
    let compared = wireyard_tests::binary::run(&["lab", "compare", &outs[0], &outs[1]]);
    assert!(compared.out.contains("flows.throughput"), "{}", compared.out);
    assert!(!compared.out.contains("flow.h"), "{}", compared.out);
}

/// Rows of the tree of pauses: who, and why.
fn tree(report: &Value) -> Vec<(String, String)> {
    let tables = report["tables"].as_array().expect("tables");
    let found = tables.iter().find(|table| table["title"] == "Who paused whom, and why");
    let rows = found.and_then(|table| table["rows"].as_array()).cloned().unwrap_or_default();
    let word = |cell: &Value| cell.as_str().expect("words").to_owned();
    rows.iter().map(|row| (word(&row[0]), word(&row[1]))).collect()
}

fn paused(senders: usize, more: &str) -> Value {
    report(&format!(
        "lab: pauses\nduration: 700 us\nlink: {{ rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }}\ntopology: {{ incast: {{ senders: {senders} }} }}\n\
         switch: {{ qos: {{ preset: onyx_roce, buffer_pools: {{ ingress_lossless_pool: {{ direction: ingress, size: 300 KB }} }} }} }}\n\
         host: {{ rate_control: fixed, ack_timeout: 0 }}\n{more}"
    ))
}

#[test]
fn a_queue_is_one_root_however_many_it_pauses() {
    let flows = "flows: { from: senders, to: sink, size: 100 KB }\n";
    let found = paused(4, flows);
    assert_eq!((figure(&found, "pauses.roots"), tree(&found).len()), (1.0, 4));
    // Everything is over by then.
    let late = "flows: [ { from: senders, to: sink, size: 100 KB }, { from: h1, to: sink, size: 2 KB, start: 650 us } ]\n";
    let later = paused(4, &format!("{late}warm_up: 600 us\n"));
    assert_eq!((figure(&later, "pauses.roots"), figure(&later, "pauses.depth")), (0.0, 0.0));
    assert!(tree(&later).is_empty());
}

#[test]
fn a_receiver_that_takes_nothing_is_the_root() {
    let flows = "flows: { from: senders, to: sink }\n";
    for (fault, why) in
        [("slow_receiver", "root: sink takes no more"), ("pause_storm", "root: a storm of pauses")]
    {
        let found = paused(
            1,
            &format!("{flows}faults: [ {{ at: 50 us, until: 500 us, {fault}: sink }} ]\n"),
        );
        let words = tree(&found);
        let wanted = [("sink->s1", why), ("> s1->h1", "s1->sink was paused")];
        let wanted = wanted.map(|(who, why)| (who.to_owned(), why.to_owned()));
        assert_eq!(words, wanted, "{fault}");
        assert_eq!(figure(&found, "pauses.roots"), 1.0);
    }
}

const NODES: &str = "6 2 5\n0 5\n0 1 100Gbps 1000ns 0\n0 2 100Gbps 1000ns 0\n3 5 25Gbps 1000ns 0\n4 5 100Gbps 1000ns 0\n0 5 100Gbps 1000ns 0\n";

#[test]
fn nodes_have_the_same_numbers_in_all_files_of_hpcc() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("topology.txt"), NODES).expect("writes the topology");
    let text = "lab: numbers\nduration: 4 ms\nlink: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }\ntopology: { file: topology.txt }\n\
                switch: { qos: { preset: onyx_roce, buffer_pools: { ingress_lossless_pool: { direction: ingress, size: 1 MB } } } }\n\
                host: { rate_control: fixed }\nflows: { from: [n1, n2, n4], to: n3, size: 300 KB }\n\
                faults: [ { at: 100 us, until: 200 us, pause_storm: n3 } ]\n";
    let out = folder.path().join("out");
    let ended = lab(&[&scenario(folder.path(), text), "-o", &out.display().to_string(), "--json"]);
    ended.expect(0, &[]);
    let completions = fs::read_to_string(out.join("fct.txt")).expect("fct.txt");
    let mut ends: Vec<&str> = completions.lines().map(|line| &line[..17]).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["0b000101 0b000301", "0b000201 0b000301", "0b000401 0b000301"]);
    let pauses = fs::read_to_string(out.join("pfc.txt")).expect("pfc.txt");
    // The adapter's own pauses are among them, when they arrive: a frame and a delay of a microsecond after they were sent.
    let storm = pauses.lines().find(|line| line.ends_with(" 5 1 1 1")).expect("a line");
    let at: u64 = storm.split(' ').next().expect("a time").parse().expect("a number");
    assert!((101_000..102_000).contains(&at), "{storm}");
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(tree(&report)[0].0, "n3->n5");
}

#[test]
fn frames_with_a_wrong_bit_are_drops_of_the_host() {
    let found = report(
        "lab: corruption\nduration: 5 ms\nlink: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
         topology: { hosts: [a, b], switches: [s], links: [ { ends: [a, s], corruption: 0.5 % }, { ends: [b, s] } ] }\n\
         host: { rate_control: fixed, ack_timeout: 2 }\nflows: { from: a, to: b }\n",
    );
    let (wrong, total) = (figure(&found, "drops.bad_icrc"), figure(&found, "drops.total"));
    assert!(wrong > 0.0 && total >= wrong, "{wrong} of {total}");
    // Each corrupted frame that arrived was dropped somewhere, but acknowledgements may be on their way.
    let corrupted = figure(&found, "links.corrupted");
    assert!((corrupted - total).abs() <= 2.0, "{corrupted} corrupted, {total} dropped");
}

#[test]
fn what_timers_count_is_shown_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = "rate_control: counter\nparameters: { r: { unit: bit/s, default: 1 Gbit/s } }\nstate: { n: 32 }\nshows: { estimate: n }\n\
                   on: { start: [ std.rate = r, \"arm(t, 10000)\" ], timeout: [ std.rate = r ] }\n\
                   timers: { t: [ n = n + 1, \"arm(t, 10000)\" ] }\n";
    fs::write(folder.path().join("counter.yaml"), program).expect("writes the program");
    let text = "lab: shows\nduration: 1 ms\nlink: { rate: 10 Gbit/s, delay: 1 us }\ntopology: { incast: { senders: 1 } }\n\
                host: { rate_control: counter.yaml }\nflows: { from: senders, to: sink }\n";
    let out = folder.path().join("out");
    let ended = lab(&[&scenario(folder.path(), text), "-o", &out.display().to_string()]);
    ended.expect(0, &[]);
    let series = fs::read_to_string(out.join("series.csv")).expect("series.csv");
    let mut lines = series.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column =
        lines.next().expect("a heading").iter().position(|name| name.ends_with(" n (number)"));
    let last = lines.next_back().expect("a sample")[column.expect("what it shows")];
    // Every 10 us; what is due at the instant of the sample is not done yet.
    assert_eq!(last, "99");
    let page = fs::read_to_string(out.join("report.html")).expect("report.html");
    assert!(page.contains("n of each flow") && !page.contains(">alpha<"));
}

/// Alpha is DCQCN's: what another rate control estimates by has its own name and unit, and one that estimates nothing shows nothing.
#[test]
fn an_estimate_has_the_name_and_unit_that_its_rate_control_gives_it() {
    let text = |flows: &str| {
        format!(
            "lab: estimates\nduration: 1 ms\nlink: {{ rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ incast: {{ senders: 4 }} }}\nhost: {{ rate_control: fixed }}\n\
             switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 5 KB, kmax: 50 KB, pmax: 50 % }} }} }} }} }}\n\
             flows: [ {flows} ]\n"
        )
    };
    let plain = report(&text("{ from: h1, to: sink }"));
    assert!(plain["figures"].get("flows.alpha").is_none(), "a fixed rate has no alpha");
    assert!(!plain["tables"].to_string().contains("alpha"), "{}", plain["tables"]);
    let of = |n: u32, name: &str| format!("{{ from: h{n}, to: sink, rate_control: {name} }}");
    let flows = [of(1, "dcqcn"), of(2, "nscc"), of(3, "swift"), of(4, "dctcp")].join(", ");
    let mixed = report(&text(&flows));
    let columns = mixed["tables"].as_array().expect("tables").iter();
    let table = columns.clone().find(|table| table["title"] == "Flows").expect("flows");
    let names = table["columns"].to_string();
    assert!(names.contains("\"alpha\"") && names.contains("\"mean_delay\""), "{names}");
    assert_eq!(mixed["figures"]["flows.mean_delay"]["unit"], "seconds");
    // A queueing delay: less than what the largest queue of this buffer takes.
    let delay = figure(&mixed, "flows.mean_delay");
    assert!(delay > 1e-7 && delay < 1e-3, "{delay}");
    let alpha = figure(&mixed, "flows.alpha");
    assert!(alpha > 0.0 && alpha <= 1.0, "{alpha}");
}

#[test]
fn a_queue_that_dropped_is_in_the_table_though_every_sample_found_it_empty() {
    let found = report(
        "lab: between_samples\nduration: 20 ms\nsample: 1 ms\nwarm_up: 0 us\nlink: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
         topology: { incast: { senders: 4 } }\nswitch:\n  qos:\n\
         \x20   buffer_pools: { in: { direction: ingress, size: 40 KB }, out: { direction: egress, size: 20 KB } }\n\
         \x20   buffer_profiles: { ingress_lossy: { pool: in, static_th: 40 KB }, egress_lossy: { pool: out, static_th: 20 KB } }\n\
         host: { ack_timeout: 8 }\nflows: { from: senders, to: sink, size: 300 KB, start: 100 us }\n",
    );
    let tables = found["tables"].as_array().expect("tables");
    let queues = tables.iter().find(|table| table["title"] == "Queues").expect("queues");
    let rows = queues["rows"].as_array().expect("rows");
    assert_eq!(rows[0][2], 0.0, "no sample is within the burst");
    let dropped: f64 = rows.iter().map(|row| row[9].as_f64().expect("dropped")).sum();
    assert!(dropped > 100.0);
    assert_eq!(dropped, figure(&found, "drops.total"));
}
