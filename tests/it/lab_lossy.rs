//! What a scenario may hold and lose, through the binary: RoCE without PFC, long links, full buffers.

use crate::lab::{figure, lab, report, scenario};

/// Four to one into 200 KB of a lossy class: what overflows is dropped, a NAK or a timer sends it again.
const LOSSY: &str = "
lab: lossy
duration: 20 ms
link: { rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
switch:
  qos:
    buffer_pools: { in: { direction: ingress, size: 400 KB }, out: { direction: egress, size: 200 KB } }
    buffer_profiles: { ingress_lossy: { pool: in, static_th: 400 KB }, egress_lossy: { pool: out, static_th: 200 KB } }
host: { ack_timeout: 8 }
flows: { from: senders, to: sink, size: 2 MB }
";

#[test]
fn roce_without_pfc_drops_recovers_and_stays_in_order() {
    let report = report(LOSSY);
    assert!(figure(&report, "drops.total") > 100.0, "nothing was dropped");
    assert!(figure(&report, "flows.sent_again") > 100.0, "nothing was sent again");
    assert!(figure(&report, "flows.out_of_order") > 100.0, "there are gaps");
    assert_eq!(figure(&report, "drops.lossless"), 0.0);
    assert_eq!(figure(&report, "flows.finished"), 4.0);
}

/// A lost tail waits for its timer, longer than a standstill would be believed without loss.
#[test]
fn a_flow_that_waits_for_its_timer_after_a_drop_does_not_stand_still() {
    let text = LOSSY
        .replace("ack_timeout: 8", "ack_timeout: 10")
        .replace("size: 2 MB", "size: 300 KB")
        .replace("400 KB", "40 KB")
        .replace("200 KB", "20 KB");
    let report = report(&text.replace("20 ms", "200 ms"));
    assert!(figure(&report, "drops.total") > 0.0);
    assert_eq!(figure(&report, "flows.finished"), 4.0);
}

/// 12 MB on each link: more packets than the buffers of the switches hold.
#[test]
fn long_links_are_filled() {
    let report = report(
        "
lab: long
duration: 6 ms
link: { rate: 100 Gbit/s, delay: 1 ms }
topology: { dumbbell: { pairs: 2 } }
host: { rate_control: fixed, qos: { preset: plain } }
flows: { from: left, to: right, pattern: pairs, message: 100 MB }
",
    );
    assert!(figure(&report, "run.delivered") > 20_000.0);
}

/// The pools of a preset, which the file does not write, are filled by 8 x 4 flows that nothing slows down.
#[test]
fn the_pools_of_a_preset_are_filled() {
    let report = report(
        "
lab: preset
duration: 2 ms
topology: { incast: { senders: 8 } }
host: { rate_control: fixed }
switch: { qos: { preset: onyx_roce } }
flows:
  - { from: senders, to: sink }
  - { from: senders, to: sink }
  - { from: senders, to: sink }
  - { from: senders, to: sink }
",
    );
    assert_eq!(figure(&report, "drops.total"), 0.0);
    assert!(figure(&report, "pauses.xoff_sent") > 0.0);
}

/// A link that loses everything is a standstill, although a timer would send again long after the end of the run.
#[test]
fn a_run_in_which_nothing_arrives_fails_the_check_of_liveness() {
    let text = "lab: nothing\nduration: 10 ms\nlink: { rate: 25 Gbit/s, delay: 1 us }\n\
                topology: { hosts: [h1, h2], switches: [s1], links: [{ ends: [h1, s1], loss: LOST }, { ends: [s1, h2] }] }\n\
                flows: { from: h1, to: h2, size: 1 MB }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let run = |lost: &str, more: &str| {
        lab(&[&scenario(folder.path(), &(text.replace("LOST", lost) + more))])
    };
    let ended = run("100 %", "");
    ended.expect(1, &["check liveness failed", "nothing was delivered", "links lost"]);
    run("100 %", "fails: liveness\n").expect(0, &[]);
    run("0 %", "").expect(0, &[]);
    // What has begun just before the end has not waited.
    let late = text.replace("LOST", "100 %").replace("size: 1 MB", "size: 1 MB, start: 9 ms");
    lab(&[&scenario(folder.path(), &late)]).expect(0, &[]);
}

/// A flow on a link that is cut for good ends after its retries, and the report says so.
#[test]
fn flows_that_end_in_an_error_are_listed_with_the_error() {
    let text = "lab: failed\nduration: 200 ms\nlink: { rate: 25 Gbit/s, delay: 1 us }\n\
                topology: { incast: { senders: 2 } }\nhost: { ack_timeout: 4 }\n\
                flows: { from: senders, to: sink, size: 1 MB }\n\
                faults: { at: 100 us, link_down: h1-s1 }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let ended = lab(&[&scenario(folder.path(), text)]);
    ended.expect(0, &[]);
    let wanted = "failures: 1 of 2 flows, first h1->sink (1): it sent again after timeouts and NAKs until no retry was left";
    assert!(ended.out.contains(wanted), "{}", ended.out);
}
