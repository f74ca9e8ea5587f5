//! Hosts and flows with settings of their own, settings of the reaction point, packets and windows of any size, and ways around a cut
//! link: through the binary.

use crate::lab::{figure, lab, report, scenario};

/// Two that are controlled, one that is not, and one in a lossy class that cannot be marked.
const MIXED: &str = "
lab: mixed
duration: 4 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
switch:
  qos:
    preset: onyx_roce
    wred_profiles: { ROCE: { green: { kmin: 20 KB, kmax: 400 KB, pmax: 10 % } } }
hosts:
  - { of: h3, rate_control: dcqcn, parameters: { line_rate_bps: 2e9, min_rate_bps: 2e9 } }
flows:
  - { from: [h1, h2, h3], to: sink }
  - { from: h4, to: sink, rate_control: fixed, dscp: 0, ecn: false }
";

#[test]
fn background_traffic_has_a_class_and_a_rate_of_its_own() {
    let report = report(MIXED);
    let rate = |host: &str| figure(&report, &format!("flow.{host}.sink.throughput"));
    assert!(rate("h3") > 1.7e9 && rate("h3") < 2e9, "{}", rate("h3"));
    // Both classes are served, whatever the background offers.
    assert!(rate("h4") > 4e9, "{}", rate("h4"));
    assert!(rate("h1") + rate("h2") > 3e9, "{} and {}", rate("h1"), rate("h2"));
    // If a class loses, it is the background's.
    assert_eq!(figure(&report, "drops.lossless"), 0.0);
    let facts = report["facts"].to_string();
    assert!(facts.contains("1 hosts and 1 flows"), "{facts}");
    assert!(report["figures"]["theory.marking_probability"]["value"].is_null());
}

#[test]
fn settings_that_cannot_be_are_refused_at_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    for (right, wrong, expected) in [
        ("of: h3", "of: h9", "there is no host `h9`"),
        ("{ of: h3,", "{ of: [h3, h3],", "`h3` is in `hosts` twice"),
        ("of: h3,", "of: h3, transport: rocev1,", "has no key `transport`"),
        ("rate_control: fixed, dscp", "parameters: { g: 0.1 }, dscp", "rate_control"),
        ("dscp: 0", "dscp: 64", "a DSCP"),
        ("dscp: 0", "window: 0", "messages under way"),
        ("line_rate_bps: 2e9", "law: papre", "`papre`"),
        ("line_rate_bps: 2e9", "first_cut: at_once", "`dcqcn` does not use `first_cut`"),
        ("hosts:", "host: { packet: 1001 B }\nhosts:", "multiple of 4"),
        ("hosts:", "host: { packet: 1000 B, path_mtu: 1024 B }\nhosts:", "`path_mtu`"),
    ] {
        let text = MIXED.replacen(right, wrong, 1);
        assert_ne!(text, MIXED, "{right}");
        lab(&[&scenario(folder.path(), &text), "--check"]).expect(2, &[expected, "scenario.yaml:"]);
    }
}

/// Four to one at 40 Gbit/s in the SIGCOMM profile of HPCC's simulator, with an acknowledgement for each packet of 1000 bytes.
const SIGCOMM: &str = "
lab: sigcomm
duration: 40 ms
link: { rate: 40 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
switch:
  qos:
    preset: onyx_roce
    wred_profiles: { ROCE: { green: { kmin: 5 KB, kmax: 200 KB, pmax: 1 % } } }
host:
  rate_control: hpcc_dcqcn_paper
  packet: 1000 B
  ack_every: 1
  parameters:
    alpha_period_us: 55
    fast_recovery_stages: 5
    additive_increase_bps: 40e6
    hyper_increase_bps: 40e6
    pacing_gap: kept
flows: { from: senders, to: sink, size: 4 MB }
";

/// Clamping the target at every cut costs time: the rates come back from lower.
#[test]
fn the_target_clamp_is_a_setting() {
    let took = |text: &str| figure(&report(text), "flows.completion_max");
    let free = took(SIGCOMM);
    let clamped =
        took(&SIGCOMM.replace("pacing_gap: kept", "pacing_gap: kept\n    clamp_target: always"));
    assert!(clamped > 1.03 * free, "{clamped} s clamped, {free} s not");
}

#[test]
fn packets_of_any_size_take_the_time_that_they_take() {
    let alone = SIGCOMM.replace("from: senders", "from: h1");
    for size in ["1000 B", "1500 B", "9000 B"] {
        let text = alone.replace("1000 B", size).replace("1500 B }", "9216 B }");
        let report = report(&text.replace("mtu: 9000 B", "mtu: 9216 B"));
        let slowdown = figure(&report, "flows.slowdown_p50");
        assert!((slowdown - 1.0).abs() < 0.001, "{size}: {slowdown}");
    }
}

#[test]
fn a_window_that_limits_a_flow_is_told() {
    let text = SIGCOMM.replace("from: senders", "from: h1").replace("delay: 1 us", "delay: 20 us");
    let limited = report(&text.replace("size: 4 MB", "size: 4 MB, message: 20 KB"));
    let facts = limited["facts"].to_string();
    assert!(facts.contains("limits 1 of 1 flows"), "{facts}");
    let wide = report(&text.replace("size: 4 MB", "size: 4 MB, message: 20 KB, window: 64"));
    assert!(!wide["facts"].to_string().contains("limits 1 of 1 flows"));
    assert!(figure(&wide, "flows.completion_max") < 0.8 * figure(&limited, "flows.completion_max"));
}

/// Two ways; one is cut. Where the switches choose again, the flows that were on it go on.
const CUT: &str = "
lab: cut
duration: 30 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { leaf_spine: { leaves: 2, spines: 2, hosts: 4 } }
switch: { qos: { preset: onyx_roce } }
host: { ack_timeout: 8 }
flows: { from: [h1, h2, h3, h4], to: [h5, h6, h7, h8], pattern: pairs, size: 2 MB }
faults: [{ at: 200 us, until: 20 ms, link_down: leaf1-spine1, reroute_after: 1 ms }]
";

#[test]
fn switches_route_around_a_cut_link_where_that_is_asked() {
    let routed = report(CUT);
    assert_eq!(figure(&routed, "flows.finished"), 4.0);
    assert!(figure(&routed, "flows.completion_max") < 10e-3);
    let stuck = report(&CUT.replace(", reroute_after: 1 ms", ""));
    assert!(
        figure(&stuck, "flows.completion_max") > 20e-3 || figure(&stuck, "flows.finished") < 4.0
    );
    let folder = tempfile::tempdir().expect("a folder");
    let text = CUT.replace("link_down: leaf1-spine1", "slow_receiver: h5");
    lab(&[&scenario(folder.path(), &text), "--check"]).expect(2, &["`link_down`"]);
}

/// What a switch program must have, as the page says: routes and next hops.
const ROUTER: &str = "
pipeline: router
include: [ethernet, ip, l4]
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x0800: ipv4 }, default: accept }
  ipv4: { extract: ipv4, select: ipv4.protocol, cases: { 17: udp }, default: accept }
  udp: { extract: udp }
metadata: { next_hop: 16 }
actions:
  send: { params: { port: port, vlan: 12, src: mac, dst: mac }, do: [ std.egress_port = port, ethernet.src = src, ethernet.dst = dst ] }
  no_route: { do: [ drop no_route ] }
  via: { params: { number: 16 }, do: [ meta.next_hop = number ] }
tables:
  routes4: { key: { ipv4.dst: lpm }, actions: [via, no_route], default: no_route, size: 1024 }
  next_hops:
    key: { meta.next_hop: exact, ipv4.src: selector, ipv4.dst: selector, udp.src_port: selector }
    selector: { hash: crc16, members: 256, groups: 64 }
    actions: [send, drop]
    default: drop
    size: 64
QOS
ingress:
  - apply: routes4
  - apply: next_hops
  - std.ect = ipv4.valid && ipv4.ecn != 0
egress:
  - if: std.congestion_mark
    then: [ ipv4.ecn = 3 ]
checksums:
  - { field: ipv4.checksum, over: ipv4, when: ipv4.valid }
deparser: { emit: [ethernet, ipv4, udp] }
";

#[test]
fn a_small_router_of_ones_own_marks_if_it_says_its_classes() {
    for (qos, marks) in [("qos: { dscp: ipv4.dscp }", true), ("", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("router.yaml"), ROUTER.replace("QOS", qos))
            .expect("writes");
        let text = "lab: own\nduration: 1 ms\nlink: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
                    topology: { incast: { senders: 3 } }\nhost: { rate_control: dcqcn }\n\
                    switch: { program: router.yaml, qos: { preset: onyx_roce, wred_profiles: \
                    { ROCE: { green: { kmin: 10 KB, kmax: 200 KB, pmax: 10 % } } } } }\nflows: { from: senders, to: sink }\n";
        let ended = lab(&[&scenario(folder.path(), text), "--json"]);
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        let report: serde_json::Value = serde_json::from_str(&ended.out).expect("a report");
        assert_eq!(figure(&report, "bottleneck.marked") > 0.0, marks, "{qos}");
        assert_eq!(ended.err.contains("gives no packet a class"), !marks, "{}", ended.err);
    }
}
