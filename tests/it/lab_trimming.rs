//! Lossy fabrics in the laboratory, through the binary: trimming, selective retransmission, spraying, NSCC.

use std::fs;

use serde_json::Value;
use wireyard_tests::binary::run;
use wireyard_tests::capture;
use wireyard_tests::has_tool;
use wireyard_tests::skip::skip;
use wireyard_tests::workspace_root;

use crate::emitted::tshark;
use crate::lab::{figure, lab, report, scenario};

/// Eight to one, at line rate for as long as they may, into a queue of 60 KB that trims.
const INCAST: &str = "
lab: trimming
duration: 10 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 8 } }
switch:
  program: PROGRAMS/rocev2_trimming
  qos:
    buffer_pools: { in: { direction: ingress, size: 8 MB }, out: { direction: egress, size: 8 MB } }
    buffer_profiles:
      ingress_lossy: { pool: in, static_th: 8 MB }
      egress_lossy: { pool: out, static_th: 1 MB }
      data: { pool: out, static_th: 60 KB, discard: DISCARD }
    schedulers: { control: { type: strict }, data: { type: dwrr, weight: 1 } }
    dscp_to_tc_maps: { ROCE: { 24-31: 3, 46: 5, 48: 6, default: 0 } }
    port_defaults:
      dscp_to_tc_map: ROCE
      queue_buffers: { 3: data, default: egress_lossy }
      queue_schedulers: { 5-6: control, default: data }
host: { rate_control: fixed, HOST, trimmed_dscp: 48, ack_timeout: 8 }
flows: { from: senders, to: sink, size: 300 KB }
";

const TRIM: &str = "trim, trim_size: 80 B, trim_queue: 6";
const SELECTIVE: &str = "retransmission: selective, reordering: 256, outstanding: 16 KB";

fn incast(discard: &str, host: &str) -> String {
    let programs = workspace_root().join("programs");
    let text = INCAST.replace("DISCARD", discard).replace("HOST", host);
    text.replace("PROGRAMS", &programs.display().to_string())
}

#[test]
fn trimmed_packets_are_sent_again_without_a_timeout() {
    let trims = report(&incast(TRIM, SELECTIVE));
    assert_eq!(figure(&trims, "flows.finished"), 8.0);
    assert_eq!(figure(&trims, "flows.timeouts"), 0.0);
    assert!(figure(&trims, "flows.trimmed") > 100.0);
    assert_eq!(figure(&trims, "flows.sent_again"), figure(&trims, "flows.trimmed"));
    assert_eq!(figure(&trims, "drops.total"), 0.0);
    // The same without trimming: what is lost at the end of a flow waits for the timer of 1 ms.
    let drops = report(&incast("drop", SELECTIVE));
    assert_eq!(figure(&drops, "flows.trimmed"), 0.0);
    assert!(figure(&drops, "drops.total") > 100.0);
    assert!(figure(&drops, "flows.timeouts") > 0.0);
    let slowest = |report: &Value| figure(report, "flows.completion_max");
    assert!(slowest(&trims) < slowest(&drops), "{} and {}", slowest(&trims), slowest(&drops));
    // All of 2.4 MB over one link take 0.79 ms, and what was cut takes a part of it.
    assert!(slowest(&trims) < 1.6e-3, "{}", slowest(&trims));
}

/// The capture of the link to the receiver: tshark takes every trimmed frame apart, and finds nothing wrong with it.
#[test]
fn tshark_decodes_every_trimmed_frame() {
    if !has_tool("tshark") {
        return skip("tshark_decodes_every_trimmed_frame", "no tshark");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = incast(TRIM, SELECTIVE) + "captures: { s1-sink: 4000 }\n";
    let results = folder.path().join("results");
    let path = scenario(folder.path(), &text);
    lab(&[&path, "-o", &results.display().to_string()]).expect(0, &[]);
    let (mut trimmed, mut answers) = (0, 0);
    for file in capture::files(&results, &["pcapng"]) {
        let columns = [
            "frame.len",
            "ip.len",
            "udp.length",
            "infiniband.bth.opcode",
            "infiniband.bth.psn",
            "_ws.malformed",
        ];
        for row in tshark(&file, "ip.dsfield.dscp == 48", &columns) {
            assert_eq!(row[..4], ["80", "66", "46", "10"], "{row:?}");
            assert!(!row[4].is_empty() && row[5].is_empty(), "{row:?}");
            trimmed += 1;
        }
        // The answers: a reserved syndrome of an acknowledgement.
        let naks = tshark(&file, "infiniband.aeth.syndrome == 0x42", &["frame.len"]);
        assert!(naks.iter().all(|row| row[0] == "62"), "{naks:?}");
        answers += naks.len();
        let decoded = run(&["decode", &file.display().to_string()]);
        assert_eq!(decoded.status, Some(0), "{}", decoded.err);
    }
    assert!(trimmed > 100 && answers > 100, "{trimmed} trimmed frames, {answers} answers");
}

/// Packets of a flow take all ways: those that overtake others are placed, and nothing is sent again.
#[test]
fn a_sprayed_flow_takes_all_ways() {
    let text = |spray: &str| {
        incast(TRIM, &format!("{SELECTIVE}, {spray}"))
            .replace("16 KB", "64 KB")
            .replace(
                "{ incast: { senders: 8 } }",
                "{ leaf_spine: { leaves: 2, spines: 4, hosts: 4, uplink: { rate: 25 Gbit/s } } }",
            )
            .replace(
                "{ from: senders, to: sink, size: 300 KB }",
                "{ pattern: pairs, from: [h1, h2, h3, h4], to: [h5, h6, h7, h8], size: 1 MB }",
            )
    };
    let (one, all) = (report(&text("spray: 1")), report(&text("spray: 16384")));
    // Four flows, four ways: by hash some meet, and take as long as two.
    let slowest = |report: &Value| figure(report, "flows.completion_max");
    assert!(slowest(&all) < 0.75 * slowest(&one), "{} and {}", slowest(&all), slowest(&one));
    assert!(figure(&all, "flows.out_of_order") > 100.0);
    assert_eq!(figure(&all, "flows.timeouts") + figure(&all, "flows.overtaken"), 0.0);
}

/// The scenario of the page in small: 16 hosts, sprayed, one of 48 links cut.
#[test]
fn a_lossy_fabric_keeps_its_goodput_when_a_link_is_cut() {
    let path = workspace_root().join("programs/lab/lossy_fabric.yaml");
    let text = fs::read_to_string(path).expect("the scenario");
    let programs = workspace_root().join("programs").display().to_string();
    let small = text
        .replace("../rocev2_trimming", &format!("{programs}/rocev2_trimming"))
        .replace("k: 8", "k: 4")
        .replace("load: 60 %", "load: 40 %")
        .replace("duration: 5 ms", "duration: 1500 us")
        .replace("warm_up: 1 ms", "warm_up: 100 us")
        .replace("until: 4 ms", "until: 1200 us")
        .replace("at: 2 ms", "at: 600 us");
    let at = small.find("\nfaults:").expect("faults") + 1;
    let whole = report(&small[..at]);
    let first = small[at..].lines().take(2).collect::<Vec<_>>().join("\n");
    let cut = report(&format!("{}{first}\n", &small[..at]));
    let goodput = |report: &Value| figure(report, "flows.throughput");
    // In this small tree a quarter of what leaves the pod takes the link that is cut, and is lost for 100 of the 1,100 us that are measured.
    assert!(goodput(&cut) > 0.9 * goodput(&whole), "{} of {}", goodput(&cut), goodput(&whole));
    assert_eq!(figure(&whole, "flows.timeouts"), 0.0);
    assert_eq!(figure(&cut, "flows.failed"), 0.0);
    assert_eq!(figure(&whole, "drops.total"), 0.0);
    assert!(figure(&cut, "drops.port_down") > 0.0, "no packet met the cut");
}

#[test]
fn what_cannot_be_is_refused_where_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    for (host, why) in [
        ("spray: 12", "power of two"),
        ("reordering: 3", "retransmission"),
        ("retransmission: selective, reordering: 99999", "packets"),
        ("retransmission: sometimes", "go_back_n"),
    ] {
        let ended = lab(&[&scenario(folder.path(), &incast(TRIM, host))]);
        ended.expect(2, &[why]).expect(2, &["scenario.yaml:"]);
    }
}
