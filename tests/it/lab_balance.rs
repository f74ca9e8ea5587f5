//! Load balancing in the laboratory, through the binary: which of equal ways `rocev2_dlb` takes, and what that does to flows.

use std::fs;

use serde_json::Value;
use wireyard_tests::workspace_root;

use crate::lab::{figure, lab, report, scenario};

/// The scenario of the library with data of this DSCP.
fn library(dscp: u8) -> String {
    let path = workspace_root().join("programs/lab/load_balancing.yaml");
    let text = fs::read_to_string(path).expect("the scenario");
    assert!(text.contains("data_dscp: 28") && text.contains("program: ../"), "{text}");
    let programs = workspace_root().join("programs").display().to_string();
    text.replace("data_dscp: 28", &format!("data_dscp: {dscp}"))
        .replace("program: ../", &format!("program: {programs}/"))
}

/// Sixteen flows, eight ways in each direction: by hash some meet, and the slowest has a part of a link.
#[test]
fn balanced_flows_have_a_way_each() {
    let [hash, packets, flowlets] = [26, 27, 28].map(|dscp| report(&library(dscp)));
    let slowest = |report: &Value| figure(report, "flows.throughput_min");
    let slowdown = |report: &Value| figure(report, "flows.slowdown_p99");
    for balanced in [&packets, &flowlets] {
        assert!(
            slowest(balanced) > 2.0 * slowest(&hash),
            "{} and {}",
            slowest(balanced),
            slowest(&hash)
        );
        assert!(slowdown(balanced) < 1.02, "{}", slowdown(balanced));
    }
    assert!(slowdown(&hash) > 2.0, "{}", slowdown(&hash));
    let overtaken = |report: &Value| figure(report, "flows.out_of_order");
    assert_eq!((overtaken(&hash), overtaken(&flowlets)), (0.0, 0.0));
    assert!(overtaken(&packets) > 0.0, "each packet has a way of its own");
}

/// Four leaves, where flows meet behind the spines: queues differ, and so do ways. Receivers go back, so the check `order` holds.
fn permutation(dscp: u8) -> String {
    let text = library(dscp);
    let flows = text.find("flows:").expect("flows");
    let text = text[..flows].replace("leaves: 2", "leaves: 4");
    let text = text.replace("retransmission: selective, reordering: 256", "ack_timeout: 8");
    format!("{text}flows: {{ pattern: permutation, size: 256 KB, rounds: 16 }}\n")
}

#[test]
fn flowlets_keep_the_order_of_a_flow_and_packets_do_not() {
    let flowlets = report(&permutation(28));
    assert_eq!(figure(&flowlets, "flows.out_of_order"), 0.0);
    assert_eq!(figure(&flowlets, "flows.finished"), 32.0);
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), &permutation(27)), "--json"]);
    ended.expect(1, &["order"]);
}

/// Slowdown is against all ways together where packets take all of them: a host of 100 Gbit/s above four uplinks of 25.
#[test]
fn no_sprayed_or_balanced_flow_is_faster_than_an_empty_network() {
    let text = |program: &str, host: &str| {
        format!(
            "lab: ways\nduration: 2 ms\nlink: {{ rate: 100 Gbit/s, delay: 1 us, mtu: 4500 B }}\n\
             topology: {{ leaf_spine: {{ leaves: 2, spines: 4, hosts: 2, uplink: {{ rate: 25 Gbit/s }} }} }}\n\
             switch: {{ program: PROGRAMS/{program}, qos: {{ preset: plain }} }}\n\
             host: {{ rate_control: fixed, path_mtu: 4096 B, retransmission: selective, reordering: 256{host} }}\n\
             flows: {{ from: h1, to: h3, size: 4 MB }}\n"
        )
    };
    let slowdown = |program: &str, host: &str| {
        let report = report(&text(program, host));
        assert_eq!(figure(&report, "flows.finished"), 1.0);
        figure(&report, "flows.slowdown_p50")
    };
    let sprayed = slowdown("rocev2_trimming", ", spray: 16384");
    assert!((1.0..1.25).contains(&sprayed), "{sprayed}");
    let balanced = slowdown("rocev2_dlb", ", data_dscp: 27");
    assert!((1.0..1.1).contains(&balanced), "{balanced}");
    // One way of four is a quarter as fast, and that is what the flow had.
    let hashed = slowdown("rocev2_trimming", "");
    assert!((1.0..1.02).contains(&hashed), "{hashed}");
}
