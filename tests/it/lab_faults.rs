//! Faults of a scenario, each through the binary: what it does while it lasts, and that it is over when it is over.

use crate::lab::{figure, report};

/// Two senders, one receiver; data that fills a switch of 4 MB only while somebody stands still.
const BASE: &str = "
lab: faulty
duration: 12 ms
sample: 10 us
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 2 } }
switch:
  program: PROGRAMS/rocev2_lossless
  qos:
    preset: onyx_roce
    buffer_pools: { ingress_lossless_pool: { direction: ingress, size: 4 MB } }
    wred_profiles: { ROCE: { green: { kmin: 20 KB, kmax: 400 KB, pmax: 10 % } } }
host: { program: PROGRAMS/roce_nic, rate_control: dcqcn }
flows: { from: senders, to: sink, size: 1 MB }
";

fn with_fault(fault: &str) -> String {
    format!("{BASE}faults: [{{ {fault} }}]\n")
}

#[test]
fn without_a_fault_nothing_is_lost_or_paused() {
    let report = report(BASE);
    assert_eq!(figure(&report, "flows.finished"), 2.0);
    for quiet in ["links.cut", "drops.total", "pauses.xoff_sent", "flows.sent_again"] {
        assert_eq!(figure(&report, quiet), 0.0, "{quiet}");
    }
    assert!(figure(&report, "bottleneck.marked") > 0.0);
}

#[test]
fn a_link_that_is_cut_loses_and_comes_back() {
    let text = with_fault("at: 100 us, until: 400 us, link_down: h1-s1");
    let report = report(&text.replace("dcqcn }", "dcqcn, ack_timeout: 8 }"));
    assert!(figure(&report, "links.cut") > 0.0 && figure(&report, "flows.sent_again") > 0.0);
    assert_eq!(figure(&report, "flows.finished"), 2.0);
    // What was lost is asked for again one timeout of 1.05 ms after it was sent.
    assert!(figure(&report, "flows.completion_max") > 1.1e-3);
}

#[test]
fn a_pause_storm_stops_its_link_until_it_ends() {
    let report = report(&with_fault("at: 100 us, until: 1 ms, pause_storm: sink, priority: 3"));
    assert!(figure(&report, "pauses.time") >= 0.9e-3, "{}", figure(&report, "pauses.time"));
    assert_eq!(figure(&report, "drops.total"), 0.0);
    assert_eq!(figure(&report, "flows.finished"), 2.0);
    // 2 MB take 0.69 ms at line rate; the last pause of the storm lasts 1.34 ms beyond its end.
    assert!(figure(&report, "flows.completion_max") > 900e-6 + 1.3e-3);
}

#[test]
fn a_slow_receiver_pauses_and_loses_nothing() {
    let report = report(&with_fault("at: 100 us, until: 1 ms, slow_receiver: sink"));
    assert!(figure(&report, "pauses.xoff_sent") > 0.0);
    assert_eq!(figure(&report, "drops.total"), 0.0);
    assert_eq!(figure(&report, "flows.finished"), 2.0);
    assert!(figure(&report, "flows.completion_max") > 900e-6 + 0.6e-3);
}

#[test]
fn without_ecn_nothing_is_marked_until_it_is_on_again() {
    let off = report(&with_fault("at: 0 us, ecn_off: true"));
    assert_eq!(figure(&off, "bottleneck.marked"), 0.0);
    let back = report(&with_fault("at: 0 us, until: 100 us, ecn_off: true"));
    assert!(figure(&back, "bottleneck.marked") > 0.0);
}

#[test]
fn thresholds_change_and_come_back() {
    // A curve that no depth of this run reaches, and one that everything reaches.
    let high = "thresholds: { switch: s1, neighbour: sink, queue: 3, kmin: 3 MB, kmax: 4 MB }";
    let never = report(&with_fault(&format!("at: 0 us, {high}")));
    assert_eq!(figure(&never, "bottleneck.marked"), 0.0);
    let elsewhere = report(&with_fault(&format!("at: 0 us, {}", high.replace("sink", "h1"))));
    assert!(figure(&elsewhere, "bottleneck.marked") > 0.0, "it is the curve of another port");
    let a_while = report(&with_fault(&format!("at: 0 us, until: 100 us, {high}")));
    assert!(figure(&a_while, "bottleneck.marked") > 0.0, "the curve came back");
    let normal = figure(&report(BASE), "bottleneck.marked");
    let low = report(&with_fault("at: 0 us, thresholds: { kmin: 0 B, kmax: 1 KB, pmax: 100 % }"));
    assert!(figure(&low, "bottleneck.marked") > 5.0 * normal, "{low}");
    // XOFF: the default never comes in this run, a low one at once.
    let xoff = report(&with_fault("at: 0 us, thresholds: { xoff_at: 20 KB }"));
    assert!(figure(&xoff, "pauses.xoff_sent") > 0.0);
    assert_eq!(figure(&xoff, "drops.total"), 0.0);
}

#[test]
fn thresholds_and_ecn_off_may_overlap_and_end_in_any_order() {
    let both = "
faults:
  - { at: 0 us, until: 200 us, ecn_off: true }
  - { at: 10 us, until: 100 us, thresholds: { kmin: 0 B, kmax: 1 KB, pmax: 100 % } }
";
    let overlapping = report(&format!("{BASE}{both}"));
    let alone = report(&with_fault("at: 0 us, until: 200 us, ecn_off: true"));
    for same in ["bottleneck.marked", "bottleneck.queue_mean", "flows.completion_max"] {
        assert_eq!(figure(&overlapping, same), figure(&alone, same), "{same}");
    }
}

/// The link is down until the later end, whichever begins first and however it is named.
#[test]
fn a_link_that_is_cut_twice_comes_back_once() {
    let cuts = |faults: &str| {
        report(&format!("{BASE}faults: [{faults}]\n").replace("dcqcn }", "dcqcn, ack_timeout: 8 }"))
    };
    let once = cuts("{ at: 100 us, until: 2 ms, link_down: h1-s1 }");
    let twice = cuts(
        "{ at: 300 us, until: 2 ms, link_down: s1-h1 }, { at: 100 us, until: 400 us, link_down: h1-s1 }",
    );
    assert_eq!(twice["figures"], once["figures"]);
    let shorter = cuts("{ at: 100 us, until: 400 us, link_down: h1-s1 }");
    assert_ne!(shorter["figures"], once["figures"]);
}
