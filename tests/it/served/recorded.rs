//! A port that several workers serve, and that is recorded from some time on.

use wireyard_tests::live::Switch;

use super::{Host, SOON, last_report, of_flow, two_queues};
use crate::rig::private_network;

/// The file names a capture: the port is opened again with one queue, so that all of its frames are recorded; and without it with two.
#[test]
fn all_queues_are_recorded() {
    let Some(_network) = private_network("all_queues_are_recorded") else { return };
    two_queues("sw1", "host1");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, capture) = (path("ports.yaml"), path("all.pcapng"));
    let write = |more: &str| {
        let text = format!("ports: {{ 1: {{ interface: 'raw:sw1{more}' }} }}\n");
        std::fs::write(&file, text).expect("a file");
    };
    write("");
    let arguments = [super::PROGRAM, "--workers", "2", "--json", "--ports", &file];
    let mut switch = Switch::start(&arguments);
    let also = |switch: &Switch| switch.objects(&["port", "list"])[0]["also"].clone();
    assert_eq!(also(&switch), serde_json::json!([1]), "two workers serve it");
    write(&format!(",capture={capture}"));
    switch.signal("HUP");
    switch.await_text("port 1 (raw:sw1) was added", SOON);
    let mut host = Host::open("raw:host1", 2);
    let frames: Vec<_> = (0..48).map(|flow| of_flow(1, 2, flow, 0, 0)).collect();
    host.send(0, &frames);
    let received =
        |switch: &Switch| switch.objects(&["stats"])[0]["ports"][0]["ledger"]["received"].clone();
    let deadline = std::time::Instant::now() + SOON;
    while received(&switch) != 48 {
        assert!(std::time::Instant::now() < deadline, "{} frames", received(&switch));
    }
    assert_eq!(also(&switch), serde_json::Value::Null, "one worker writes the file");
    write("");
    switch.signal("HUP");
    let deadline = std::time::Instant::now() + SOON;
    while switch.err().matches("port 1 (raw:sw1) was added").count() < 2 {
        assert!(std::time::Instant::now() < deadline, "{}", switch.err());
    }
    let report = last_report(switch);
    let captured = &report["captures"][0];
    // Each as it came in, and as it was dropped: nobody else is there.
    assert_eq!((&captured["records"], &captured["lost"]), (&96.into(), &0.into()), "{report:#}");
}
