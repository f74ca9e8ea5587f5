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
