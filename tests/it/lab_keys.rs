//! Keys that have no effect, or another than they seem to have: refused at their place, or taken as they are written.

use crate::lab::{figure, lab, report, scenario};

const GOOD: &str = "
lab: keys
duration: 2 ms
link: { rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 2 } }
switch: { qos: { preset: onyx_roce } }
host: { rate_control: dcqcn }
flows: { from: senders, to: sink }
";

const FLOWS: &str = "{ from: senders, to: sink }";
const SWITCH: &str = "switch: { qos: { preset: onyx_roce } }";
const HOST: &str = "host: { rate_control: dcqcn }";
const FAULTS: &str = "flows:";

/// What is written instead of what, and what is said of it.
const WRONG: &[(&str, &str, &[&str])] = &[
    (
        FAULTS,
        "faults: [{ at: 10 us, ecn_off: false }]\nflows:",
        &["8:32", "it changes nothing", "`until`"],
    ),
    (
        FAULTS,
        "faults: [{ at: 10 us, link_down: s1-sink, priority: 3 }]\nflows:",
        &["8:43", "`priority` needs `pause_storm` beside it"],
    ),
    (
        FAULTS,
        "faults: [{ at: 10 us, link_down: s1-sink, reroute_after: 5 ms }]\nflows:",
        &["8:10", "other routes 5 ms after the cut", "the run of 2 ms is over"],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost",
        "faults: [{ at: 10 us, ecn_off: true }]\nhost",
        &["6:10", "no queue of a switch has a marking curve"],
    ),
    // 1024 bytes of payload, headers, ICRC and FCS, and the RETH of a message's first packet.
    ("mtu: 1500 B", "mtu: 1094 B", &["a full packet of the hosts has 1098 B", "none would arrive"]),
    (
        HOST,
        "host: { rate_control: dcqcn, parameters: { line_rate_bps: 30e9 } }",
        &["line_rate_bps 30000000000 is above the rate of the link"],
    ),
    (
        HOST,
        "host: { rate_control: dcqcn, ecn: false, cnp_interval: 4 us }",
        &["7:42", "`cnp_interval` means nothing with `ecn: false`"],
    ),
    ("mtu: 1500 B", "mtu: 1500 B, ends: [h1, s1]", &["4:52", "has no key `ends`"]),
    ("senders: 2", "senders: 2, last_hop: { ends: [s1, sink] }", &["has no key `ends`"]),
    ("{ senders: 2 } }", "{ senders: 2 }, switches: [s9] }", &["5:48", "`s9` has no link"]),
    (
        FLOWS,
        "{ pattern: permutation, to: sink }",
        &["8:36", "`to` means nothing with `pattern: permutation`"],
    ),
    (
        FLOWS,
        "{ from: h1, to: sink, size: 5 KB, rounds: 2, message: 1 KB }",
        &["8:62", "with `rounds`, `message` means nothing"],
    ),
    (
        FLOWS,
        "{ pattern: incast, to: sink, fan_in: 2, every: 1 ms, size: 5 KB, sizes: nonsense }",
        &["8:80", "`sizes` means nothing with `pattern: incast`"],
    ),
    (FLOWS, "{ from: [], to: sink }", &["8:16", "`from` has no host"]),
    (FLOWS, "{ pattern: permutation, from: [] }", &["8:38", "`from` has no host"]),
    (FLOWS, "{ pattern: all_to_all, from: h1, to: h1 }", &["8:8", "nothing to send to"]),
    (
        FLOWS,
        "{ load: 10 %, sizes: rpc, start: 3 ms }",
        &["8:41", "flows would arrive from 3 ms on, and the run ends at 2 ms"],
    ),
    (
        FLOWS,
        "{ pattern: incast, to: sink, fan_in: 2, every: 1 ms, size: 5 KB, start: 3 ms }",
        &["8:80", "flows would arrive from 3 ms on"],
    ),
    (
        FAULTS,
        "captures: { s1-sink: 5, sink-s1: 7 }\nflows:",
        &["8:25", "a second capture of this link", "both directions"],
    ),
    (
        HOST,
        "host: { rate_control: hpcc, cnp_interval: 5 us }\nhosts: [{ of: h1, cnp_per: port }]",
        &["7:29", "8:19", "`cnp_per` means nothing with `hpcc`", "`switch: { program: hpcc_int }`"],
    ),
    (
        HOST,
        "host: { rate_control: dctcp, cnp_dscp: 3 }",
        &["7:30", "`cnp_dscp` means nothing with `dctcp`"],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost: { rate_control: dcqcn",
        "switch: { program: PROGRAMS/rocev1_lossless }\nhost: { transport: rocev1, rate_control: fixed, cnp_per: port",
        &["`cnp_per` means nothing with `transport: rocev1`"],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost: { rate_control: dcqcn",
        "switch: { program: PROGRAMS/ib_switch }\nhost: { transport: infiniband, ecn: true, data_dscp: 3",
        &["7:32", "`ecn` means nothing", "`data_dscp` means nothing with `transport: infiniband`"],
    ),
    (
        SWITCH,
        "switch: { program: PROGRAMS/rocev2_lossless, defines: { PORTS: 16 } }",
        &["6:20", "macros of a program in P4, and `rocev2_lossless` is none"],
    ),
    (
        SWITCH,
        "switch: { program: PROGRAMS/rocev1_lossless }",
        &[
            "6:20",
            "`rocev1_lossless`, does not take the routes of `transport: rocev2`",
            "it says: ",
        ],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost",
        "faults: [{ at: 10 us, slow_receiver: sink }]\nhost",
        &["6:10", "`sink` would pause priority 3", "preset: onyx_roce"],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost",
        "faults: [{ at: 10 us, pause_storm: sink }]\nhost",
        &["6:10", "a storm of priority 3 changes nothing", "stop none; ", "preset: onyx_roce"],
    ),
    (
        FAULTS,
        "faults: [{ at: 10 us, pause_storm: sink, priority: 5 }]\nflows:",
        &["8:10", "a storm of priority 5 changes nothing", "stop 3; give one of these"],
    ),
    (
        "switch: { qos: { preset: onyx_roce } }\nhost: { rate_control: dcqcn",
        "faults: [{ at: 10 us, pause_storm: sink }]\nswitch: { program: PROGRAMS/ib_switch }\nhost: { transport: infiniband",
        &["6:10", "InfiniBand has none"],
    ),
    (
        HOST,
        "dilate: 1000\nhost: { rate_control: swift }",
        &[
            "7:9",
            "1000 times slower, `h1` on its link",
            "base_target: 20000000 ns",
            "take a smaller factor",
        ],
    ),
];

/// Keys of flows about an IP header, which InfiniBand does not have.
#[test]
fn flows_on_infiniband_have_no_keys_of_ip() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = GOOD
        .replace(SWITCH, "switch: { program: PROGRAMS/ib_switch }")
        .replace(HOST, "host: { transport: infiniband, rate_control: fixed }");
    lab(&[&scenario(folder.path(), &text), "--check"]).expect(0, &[]);
    for key in ["dscp: 4", "ecn: false"] {
        let flows = format!("{{ from: senders, to: sink, {key} }}");
        let path = scenario(folder.path(), &text.replace(FLOWS, &flows));
        let says = format!(
            "`{}` means nothing with `transport: infiniband`",
            key.split_once(':').unwrap().0
        );
        lab(&[&path, "--check"]).expect(2, &["8:35", &says]);
    }
}

#[test]
fn keys_without_effect_are_refused_at_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    lab(&[&scenario(folder.path(), GOOD), "--check"]).expect(0, &[]);
    for &(right, wrong, expected) in WRONG {
        let text = GOOD.replacen(right, wrong, 1);
        assert_ne!(text, GOOD, "{right}");
        let ended = lab(&[&scenario(folder.path(), &text), "--check"]);
        ended.expect(2, expected).expect(2, &["scenario.yaml:"]);
    }
}

/// Data in a lossy class beside lossless ones is probably not meant.
#[test]
fn data_that_no_lossless_class_takes_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let azure = GOOD.replace("onyx_roce", "sonic_azure");
    let ended = lab(&[&scenario(folder.path(), &azure), "--check"]);
    let says =
        "no packet of data is in a lossless class: DSCP 26 is class 1 here; write `data_dscp: 3`";
    ended.expect(0, &[says]);
    for right in
        [azure.replace(HOST, "host: { rate_control: dcqcn, data_dscp: 3 }"), GOOD.to_owned()]
    {
        let ended = lab(&[&scenario(folder.path(), &right), "--check"]);
        ended.expect(0, &[]);
        assert!(!ended.err.contains("lossless class"), "{}", ended.err);
    }
}

/// A pause storm of the one priority that is paused, and a receiver that is slow and obeyed, are accepted.
#[test]
fn faults_that_pauses_carry_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    for fault in ["pause_storm: sink, priority: 3", "slow_receiver: sink"] {
        let text = GOOD.replace(FAULTS, &format!("faults: [{{ at: 10 us, {fault} }}]\nflows:"));
        lab(&[&scenario(folder.path(), &text), "--check"]).expect(0, &[]);
    }
}

/// Both cuts of a link end with the later one, whatever their routes do.
#[test]
fn a_link_that_is_cut_twice_comes_back_at_the_last_end() {
    let first = "{ at: 100 us, until: 1 ms, link_down: s1-sink }";
    let second = "{ at: 200 us, until: 300 us, link_down: s1-sink, reroute_after: 10 us }";
    let delivered = |faults: &str| {
        let text = GOOD.replace("rate_control: dcqcn", "rate_control: fixed, ack_timeout: 6");
        let text = text.replace(FAULTS, &format!("faults: [{faults}]\nflows:"));
        figure(&report(&text), "run.delivered")
    };
    let once = delivered(first);
    // The routes come back 10 us after the link.
    assert!(delivered(&format!("{first}, {second}")) <= once);
    assert!(delivered("{ at: 100 us, until: 300 us, link_down: s1-sink }") > once);
}

/// Parameters of `host` hold for `hosts`, too, where they are not written again.
#[test]
fn hosts_with_parameters_of_their_own_keep_the_others() {
    let host = |parameters: &str, own: &str| {
        let text =
            format!("host: {{ rate_control: dcqcn, parameters: {{ {parameters} }} }}\n{own}");
        let curve = "preset: onyx_roce, wred_profiles: { ROCE: { green: { kmin: 5 KB, kmax: 20 KB, pmax: 100 % } } }";
        let text = GOOD.replace(HOST, &text).replace("preset: onyx_roce", curve);
        let report = report(&text);
        ["flows.throughput", "flows.cnps"].map(|name| figure(&report, name))
    };
    let all = host("min_rate_bps: 2e9, additive_increase_bps: 10e6", "");
    let own =
        |parameters: &str| format!("hosts: [{{ of: senders, parameters: {{ {parameters} }} }}]");
    assert_eq!(host("min_rate_bps: 2e9", &own("additive_increase_bps: 10e6")), all);
    let again = own("additive_increase_bps: 10e6, min_rate_bps: 2e9");
    assert_eq!(host("min_rate_bps: 1e9, additive_increase_bps: 10e6", &again), all);
    assert_ne!(host("additive_increase_bps: 10e6", ""), all, "the least rate matters here");
}

#[test]
fn experts_compute_longer_in_slow_motion() {
    let time = |factor: u32| {
        let moe = format!(
            "dilate: {factor}\ncollectives: {{ operation: moe, size: 10 KB, expert: 500 us }}"
        );
        figure(&report(&GOOD.replace(&format!("flows: {FLOWS}"), &moe)), "run.time")
    };
    let (fast, slow) = (time(1), time(10));
    assert!(fast > 500e-6 && (slow / fast - 10.0).abs() < 0.1, "{fast} s, {slow} s slowed down");
}
