//! What a lab reports, where one can say beforehand what it must be.

use serde_json::Value;

use crate::lab::{figure, lab, scenario};

/// The report of a scenario that passes.
fn report(text: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), text), "--json"]);
    assert_eq!(ended.status, Some(0), "{text}: {}{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).expect("a report")
}

fn incast(rest: &str) -> String {
    format!(
        "lab: figures\nduration: 300 us\nlink: {{ rate: 10 Gbit/s, delay: 1 us }}\nhost: {{ rate_control: fixed }}\n\
         topology: {{ incast: {{ senders: 4 }} }}\n{rest}"
    )
}

#[test]
fn throughput_is_about_the_time_that_its_bytes_are_about() {
    // 1024 of 1106 bytes on the wire are payload.
    let line = 10e9 * 1024.0 / 1106.0;
    for steps in
        ["warm_up: 110 us\nsample: 100 us", "warm_up: 110 us\nsample: 7 us", "sample: 10 us"]
    {
        let found = report(&incast(&format!("{steps}\nflows: {{ from: h1, to: sink }}")));
        let throughput = figure(&found, "flows.throughput");
        assert!((throughput / line - 1.0).abs() < 0.03, "{steps}: {throughput}");
    }
    // The run goes on to the next sample after its last flow; its figures do not.
    let finite = |sample: &str| {
        let text = format!("sample: {sample}\nflows: {{ from: h1, to: sink, size: 100 KB }}");
        figure(&report(&incast(&text)), "flows.throughput")
    };
    assert!((finite("1 us") / finite("300 us") - 1.0).abs() < 1e-9);
}

/// The run goes on to the next sample after its last flow, and a pause of a broken adapter with it; no figure over time does.
#[test]
fn figures_over_time_do_not_depend_on_the_samples() {
    let of = |sample: &str| {
        let found = report(&format!(
            "lab: f\nduration: 3 ms\nsample: {sample}\nlink: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ dumbbell: {{ pairs: 2 }} }}\nswitch: {{ qos: {{ preset: onyx_roce }} }}\nhost: {{ rate_control: fixed }}\n\
             flows: [ {{ from: a1, to: b1, size: 20 KB }}, {{ from: a2, to: b2, size: 20 KB }} ]\n\
             faults: [ {{ at: 60 us, until: 70 us, pause_storm: b2 }} ]\n"
        ));
        ["run.time", "links.utilisation_max", "pauses.time", "flows.completion_max"]
            .map(|name| figure(&found, name))
    };
    let [time, used, paused, completion] = of("1 us");
    assert!(time == completion && paused == 0.0 && used > 0.6, "{time} {used} {paused}");
    assert_eq!(of("10 us"), [time, used, paused, completion]);
    assert_eq!(of("1 ms"), [time, used, paused, completion]);
    // The end of the warm-up need not be a sample.
    let warm = |sample: &str| {
        let text = format!("warm_up: 55 us\nsample: {sample}\nflows: {{ from: h1, to: sink }}");
        let found = report(&incast(&text));
        assert!(found["facts"]["time"].to_string().contains("from 55 us on"), "{}", found["facts"]);
        figure(&found, "flows.throughput")
    };
    assert_eq!(warm("50 us"), warm("5 us"));
}

/// A flow that failed delivered until then, however long others go on.
#[test]
fn throughput_of_a_flow_that_failed_ends_there() {
    let of = |other: &str| {
        let found = report(&format!(
            "lab: f\nduration: 20 ms\nsample: 10 us\nlink: {{ rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ dumbbell: {{ pairs: 2, middle: {{ rate: 100 Gbit/s }} }} }}\nhost: {{ rate_control: fixed, ack_timeout: 3, ack_every: 8 }}\n\
             flows: [ {{ from: a1, to: b1, size: 10 MB }}, {{ from: a2, to: b2, size: {other} }} ]\n\
             faults: [ {{ at: 50 us, link_down: a1-s1 }} ]\n"
        ));
        assert_eq!(figure(&found, "flows.failed"), 1.0);
        figure(&found, "flow.a1.b1.throughput")
    };
    // 50 us at line rate, and eight timeouts of 33 us without a byte.
    let short = of("1 MB");
    assert!((1e9..2e9).contains(&short), "{short}");
    assert_eq!(of("5 MB"), short);
}

#[test]
fn a_flow_delivers_its_size() {
    let text = incast("flows: { from: h1, to: sink, size: 2500003 B }");
    let found = report(&text.replace("duration: 300 us", "duration: 3 ms"));
    let tables = found["tables"].as_array().expect("tables");
    let flows = tables.iter().find(|table| table["title"] == "Flows").expect("flows");
    assert_eq!(flows["rows"][0][5].as_f64(), Some(2_500_003.0), "{}", flows["rows"][0]);
    assert!(figure(&found, "flows.slowdown_p50") > 0.9999);
}

#[test]
fn what_was_not_reached_is_said_and_not_left_out() {
    let of = |flows: &str| {
        let control = incast(flows).replace("rate_control: fixed", "rate_control: dcqcn");
        report(&format!("{control}\nswitch: {{ qos: {{ preset: onyx_roce }} }}\n"))
    };
    let cut = of("flows: { from: [h1, h2], to: sink, size: 100 MB }");
    let rows = cut["tables"][0]["rows"].as_array().expect("rows");
    let finished = rows.iter().find(|row| row[0] == "flows finished").expect("a row");
    assert_eq!(finished[1], "0 of 2");
    // Ranks that compute beyond the end of the run.
    let idle = of("collectives: { operation: all_reduce, size: 10 KB, compute: 1 ms }");
    assert_eq!(idle["facts"]["theory"], "none: no flow began");
    // What stands in the column of theory has its sentence, without a fluid model too.
    let folder = tempfile::tempdir().expect("a folder");
    let fixed = scenario(folder.path(), &incast("flows: { from: senders, to: sink }"));
    let ended = lab(&[&fixed]);
    let said = "Theory of throughput is the payload that the bottleneck can carry.";
    assert!(ended.out.contains(said), "{}", ended.out);
}

/// The throughput of flows that start late is that of their time, and not of the time before.
#[test]
fn throughput_begins_with_the_first_flow() {
    let text = "sample: 1 us\nflows: { from: h1, to: sink, start: 150 us }";
    let found = report(&incast(text));
    let (all, one) = (figure(&found, "flows.throughput"), figure(&found, "flows.throughput_min"));
    assert!((all / one - 1.0).abs() < 0.02, "{all} and {one}");
}

#[test]
fn a_flow_that_was_over_before_the_warm_up_is_not_measured() {
    let flows = "warm_up: 150 us\nsample: 10 us\nflows:\n  - { from: [h1, h2], to: sink, start: 150 us }\n  \
                 - { from: [h3, h4], to: sink, size: 10 KB }";
    let found = report(&incast(flows));
    assert!(figure(&found, "flows.jain") > 0.99);
    assert!(figure(&found, "flows.throughput_min") > 4e9);
    let early = "warm_up: 200 us\nsample: 10 us\nflows: { from: h1, to: sink, size: 10 KB }";
    let time = report(&incast(early))["facts"].to_string();
    assert!(time.contains("ended before its warm-up of 200 us"), "{time}");
}

#[test]
fn percentiles_of_finished_flows_say_of_how_many() {
    let flows = "flows: [ { from: [h1, h2], to: sink, size: 10 KB }, { from: h3, to: sink } ]";
    let found = report(&incast(flows));
    let rows = found["tables"][0]["rows"].as_array().expect("rows");
    for name in ["completion, p95", "slowdown, p99"] {
        let row = rows.iter().find(|row| row[0] == name).expect("a row");
        let text = row[1].as_str().expect("words");
        assert!(text.ends_with(", of 2 of 3 flows"), "{text}");
    }
    let all = report(&incast("flows: { from: [h1, h2], to: sink, size: 10 KB }"));
    assert!(!all["tables"][0].to_string().contains("of 2 flows"), "{}", all["tables"][0]);
}

#[test]
fn a_load_that_draws_no_flow_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = incast("flows: { load: 0.0000001 %, sizes: web_search }");
    let ended = lab(&[&scenario(folder.path(), &text), "--json"]);
    ended.expect(0, &[]);
    assert!(ended.out.contains("no flow was drawn"), "{}", ended.out);
    assert!(!ended.err.contains("-0.000"), "{}", ended.err);
}

#[test]
fn a_lone_flow_is_not_slowed_down() {
    let wires = "{ hosts: [a, b], switches: [s, t], links: [ { ends: [a, s], rate: 20 Gbit/s }, { ends: [s, t] },
      { ends: [t, b], rate: 40 Gbit/s } ] }";
    for host in [
        "{ rate_control: fixed }",
        "{ rate_control: fixed, transport: rocev1, path_mtu: 256 B }",
        "{ rate_control: fixed, path_mtu: 4096 B }",
    ] {
        for size in ["100 B", "1024 B", "1030 B", "50 KB", "1 MB"] {
            for (topology, flow) in
                [(wires, "from: a, to: b"), ("{ incast: { senders: 1 } }", "from: h1, to: sink")]
            {
                let found = report(&format!(
                    "lab: alone\nduration: 3 ms\nlink: {{ rate: 10 Gbit/s, delay: 1 us, mtu: 4200 B }}\nhost: {host}\n\
                     topology: {topology}\nflows: {{ {flow}, size: {size} }}"
                ));
                let slowdown = figure(&found, "flows.slowdown_p50");
                // A short packet may wait in its host behind a long one.
                assert!((0.9999..1.005).contains(&slowdown), "{host} {flow} {size}: {slowdown}");
            }
        }
    }
}

/// The adapter and its end point count the same bytes on an InfiniBand link, so a sender at line rate fills nothing.
#[test]
fn a_lone_infiniband_sender_at_line_rate_loses_nothing() {
    let found = report(
        "lab: ib\nduration: 3 ms\nlink: { rate: 25 Gbit/s, delay: 1 us, mtu: 1200 B }\ntopology: { incast: { senders: 1 } }\n\
         switch: { program: PROGRAMS/ib_switch }\nhost: { transport: infiniband, rate_control: fixed }\n\
         flows: { from: h1, to: sink }",
    );
    assert!((figure(&found, "drops.total"), figure(&found, "links.lost")) == (0.0, 0.0));
    let line = 25e9 * 1024.0 / 1050.0;
    assert!((figure(&found, "flows.throughput") / line - 1.0).abs() < 0.01);
}

/// The check speaks at the next sample, and the figure counts each packet once.
#[test]
fn a_lossless_class_that_loses_is_found_where_it_does() {
    let text = "lab: loss\nduration: 3 ms\nsample: 10 us\nlink: { rate: 25 Gbit/s, delay: 1 us }\n\
        topology: { incast: { senders: 4 } }\nhost: { rate_control: fixed }\nflows: { from: senders, to: sink }\nfails: lossless\n\
        switch:\n  qos:\n    preset: onyx_roce\n    allow_lossy_headroom: true\n    buffer_profiles:\n      \
        ingress_lossless: { pool: ingress_lossless_pool, static_th: 100 KB, headroom: 2 KB, xon_below_xoff: 5 KB }\n";
    let found = report(text);
    let lost = figure(&found, "drops.lossless");
    assert!(lost > 0.0 && lost == figure(&found, "drops.total"));
    assert!(figure(&found, "run.time") < 100e-6, "{}", figure(&found, "run.time"));
}

#[test]
fn nothing_stands_still_because_it_has_just_begun_or_is_slow() {
    report(
        "lab: late\nduration: 10 ms\nsample: 3 ms\nlink: { rate: 10 Gbit/s, delay: 1 us }\nhost: { rate_control: fixed }\n\
         topology: { incast: { senders: 1 } }\nflows: { from: h1, to: sink, size: 10 KB, start: 9 ms }",
    );
    let slow = report(
        "lab: slow\nduration: 100 ms\nsample: 1 ms\nlink: { rate: 1 Mbit/s, delay: 1 us }\nhost: { rate_control: fixed }\n\
         topology: { incast: { senders: 1 } }\nflows: { from: h1, to: sink }",
    );
    assert!(figure(&slow, "flows.packets") >= 5.0);
}

#[test]
fn a_flow_that_ended_in_an_error_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "lab: dead\nduration: 20 ms\nlink: { rate: 25 Gbit/s, delay: 1 us, loss: 100 % }\ntopology: { incast: { senders: 1 } }\n\
         host: { ack_timeout: 3 }\nflows: { from: h1, to: sink, size: 10 KB }";
    let ended = lab(&[&scenario(folder.path(), text)]);
    assert!(ended.out.contains("FAILED"), "{}", ended.out);
}

/// Samples may find every queue empty: the one that is reported is still one that packets went through.
#[test]
fn the_bottleneck_is_a_queue_that_was_used() {
    let found = report(
        "lab: lone\nduration: 1 ms\nsample: 100 us\nlink: { rate: 100 Gbit/s, delay: 1 us }\n\
         topology: { leaf_spine: { leaves: 2, spines: 2, hosts: 1 } }\nswitch: { qos: { preset: onyx_roce } }\n\
         host: { rate_control: fixed }\nflows: { from: h1, to: h2, size: 10 KB }",
    );
    assert_eq!(figure(&found, "bottleneck.packets"), 10.0);
}

/// What filled before the warm-up ended is no bottleneck of the time that is measured.
#[test]
fn the_bottleneck_is_of_the_time_that_is_measured() {
    let found = report(
        "lab: f\nduration: 1 ms\nwarm_up: 500 us\nsample: 5 us\nlink: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
         topology: { leaf_spine: { leaves: 2, spines: 1, hosts: 6, uplink: { rate: 400 Gbit/s } } }\n\
         switch: { qos: { preset: onyx_roce } }\nhost: { rate_control: fixed }\nflows:\n\
         \x20 - { from: [h2, h3, h4, h5, h6], to: h1, size: 200 KB, window: 8 }\n\
         \x20 - { from: [h7, h8], to: h9, size: 60 KB, start: 600 us }\n",
    );
    assert_eq!(found["facts"]["bottleneck"], "leaf2->h9 queue 3");
    assert!(figure(&found, "bottleneck.queue_mean") > 1000.0);
}

/// Paths of the same length, one a quarter as fast: no flow is faster than on an empty network.
#[test]
fn no_flow_is_faster_than_the_fastest_path() {
    let mut links = String::new();
    for (ends, more) in [
        ("l1, s1", ", rate: 25 Gbit/s"),
        ("s1, l2", ", rate: 25 Gbit/s"),
        ("l1, s2", ""),
        ("s2, l2", ""),
    ] {
        links += &format!("    - {{ ends: [{ends}]{more} }}\n");
    }
    for n in 1..=4 {
        links += &format!("    - {{ ends: [a{n}, l1] }}\n    - {{ ends: [b{n}, l2] }}\n");
    }
    let flows: String = (1..=4)
        .map(|n| format!("  - {{ from: a{n}, to: b{n}, size: 1 MB, window: 64, start: {n} ms }}\n"))
        .collect();
    let found = report(&format!(
        "lab: f\nduration: 6 ms\nsample: 50 us\nlink: {{ rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
         topology:\n  hosts: [a1, a2, a3, a4, b1, b2, b3, b4]\n  switches: [l1, l2, s1, s2]\n  links:\n{links}\
         switch: {{ qos: {{ preset: onyx_roce }} }}\nhost: {{ rate_control: fixed }}\nflows:\n{flows}"
    ));
    // The hash sends some by each spine.
    let [least, most] =
        ["flows.slowdown_p50", "flows.slowdown_p99"].map(|name| figure(&found, name));
    assert!((0.999..1.1).contains(&least) && most > 3.0, "{least} to {most}");
}

/// The time of every port is in the sum, however many ports were paused.
#[test]
fn time_paused_is_of_all_ports() {
    let paused = |senders: usize| {
        let found = report(&format!(
            "lab: f\nduration: 200 us\nsample: 5 us\nlink: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ incast: {{ senders: {senders} }} }}\nswitch: {{ qos: {{ preset: onyx_roce }} }}\n\
             host: {{ rate_control: fixed }}\nflows: {{ from: senders, to: sink, size: 32 KB }}\n\
             faults:\n  - {{ at: 100 ns, thresholds: {{ xoff_at: 4 KB }} }}\n"
        ));
        let tables = found["tables"].as_array().expect("tables");
        let pauses = tables.iter().find(|table| table["title"] == "Pauses").expect("pauses");
        let rows = pauses["rows"].as_array().expect("rows");
        let without = rows.iter().filter(|row| row[1] != 0.0 && row[3] == 0.0).count();
        assert_eq!(without, 0, "{senders}: ports that were paused for no time");
        figure(&found, "pauses.time")
    };
    // Above 256, the number of ports whose pauses are drawn.
    assert!(paused(300) > 1.1 * paused(200));
}

#[test]
fn counts_of_the_programs_are_among_the_figures() {
    let ended = lab(&["incast", "--json"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    let found: Value = serde_json::from_str(&ended.out).expect("a report");
    // rocev2_lossless counts every packet of its egress by class, and those that it marks by port.
    let marked = figure(&found, "bottleneck.marked");
    assert!(marked > 100.0);
    assert_eq!(figure(&found, "counter.ce_marked.packets"), marked);
    let tables = found["tables"].as_array().expect("tables");
    let counts = tables.iter().find(|table| table["title"] == "Counts of the programs");
    let counts = counts.expect("the table")["rows"].as_array().expect("rows");
    let row = counts.iter().find(|row| row[1] == "counter ce_marked").expect("a row");
    assert_eq!((&row[0], row[3].as_f64()), (&"s1".into(), Some(marked)));
    let queues = tables.iter().find(|table| table["title"] == "Queues").expect("queues");
    let [examined, of_these, share] = [6, 7, 8].map(|at| queues["rows"][0][at].as_f64());
    assert_eq!((examined, of_these), (Some(figure(&found, "bottleneck.packets")), Some(marked)));
    let (share, examined) = (share.expect("a share"), examined.expect("a count"));
    assert!((share - marked / examined).abs() < 1e-6, "{share}");
    let received = tables.iter().find(|table| table["title"] == "Where every packet went");
    let received = received.expect("ledgers")["rows"][0][1].as_f64();
    assert_eq!(Some(figure(&found, "counter.class_packets.packets")), received);
    assert!(figure(&found, "table.transport_class.hits.packets") > 0.0);
    // What never counted has its figure too, for expectations.
    let quiet = incast(
        "flows: { from: h1, to: sink, size: 10 KB }\nexpect: { counter.ce_marked.packets: == 0 }",
    );
    report(&quiet);
}

/// With one sample after the warm-up no link was measured: its figures are null in JSON, and no reader sees `NaN`.
#[test]
fn a_link_that_was_not_measured_has_no_utilisation() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = incast("warm_up: 250 us\nsample: 300 us\nflows: { from: h1, to: sink }");
    let out = folder.path().join("out").display().to_string();
    lab(&[&scenario(folder.path(), &text), "-o", &out]).expect(0, &[]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name));
    let found: Value = serde_json::from_str(&read("report.json").expect("a file")).expect("JSON");
    for name in ["links.utilisation_mean", "links.utilisation_max"] {
        assert!(found["figures"][name]["value"].is_null(), "{name}: {}", found["figures"][name]);
    }
    for name in ["report.html", "report.txt"] {
        assert!(!read(name).expect("a file").contains("NaN"), "{name}");
    }
}
