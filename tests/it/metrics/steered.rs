//! Series of controllers and of the store: those of the JSON form, and that a running switch counts what happens.

use serde_json::Value;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, insert};

use super::{Samples, await_sample, expect, scrape};
use crate::p4runtime::{PROGRAM, address, forward, frame};
use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;

const CONTROLLERS: [(&str, &str); 9] = [
    ("streams", "p4runtime_streams"),
    ("primaries", "p4runtime_primaries"),
    ("primary_changes", "p4runtime_primary_changes_total"),
    ("updates", "p4runtime_updates_total"),
    ("packets_in", "p4runtime_sent_packets_total"),
    ("packets_in_dropped", "p4runtime_dropped_packets_total"),
    ("packets_out", "p4runtime_received_packets_total"),
    ("packets_out_refused", "p4runtime_refused_packets_total"),
    ("notices_lost", "p4runtime_lost_notices_total"),
];

const DIGEST: [(&str, &str); 7] = [
    ("waiting", "digest_waiting_messages{L}"),
    ("unacknowledged", "digest_unacknowledged_messages{L}"),
    ("lists", "digest_lists_total{L}"),
    ("sent", "digest_sent_messages_total{L}"),
    ("acknowledged", "digest_acknowledged_messages_total{L}"),
    ("expired", "digest_expired_messages_total{L}"),
    ("dropped", "digest_dropped_messages_total{L}"),
];

const STORAGE: [(&str, &str); 6] = [
    ("requests", "storage_requests_total"),
    ("commits", "storage_commits_total"),
    ("records", "storage_records_total"),
    ("bytes", "storage_written_bytes_total"),
    ("commit_ns", "storage_commit_seconds_total"),
    ("errors", "storage_errors_total"),
];

/// The samples that belong to these parts of a report in JSON.
pub(super) fn page_of(out: &mut Samples, report: &Value) {
    if let Some(controllers) = report.get("controllers") {
        expect(out, controllers, "", &CONTROLLERS, &["requests", "digests"]);
        for request in controllers["requests"].as_array().expect("a list") {
            let labels = format!("kind={},status={}", request["kind"], request["status"]);
            let names = [("requests", "p4runtime_requests_total{L}")];
            expect(out, request, &labels, &names, &["kind", "status"]);
        }
        for digest in controllers["digests"].as_array().expect("a list") {
            expect(out, digest, &format!("digest={}", digest["digest"]), &DIGEST, &["digest"]);
        }
    }
    if let Some(storage) = report.get("storage") {
        expect(out, storage, "", &STORAGE, &[]);
    }
}

#[test]
fn controllers_digests_and_the_store_are_counted() {
    let Some(_network) = private_network("metrics of controllers") else { return };
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state").display().to_string();
    let ports = ["1=raw:a1", "2=raw:b1"];
    let more = ["--p4runtime", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--state", &state];
    let mut switch = Switch::on(PROGRAM, &ports, &more);
    let metrics = super::address(&mut switch);
    let (mut controller, standing) = Controller::connect(&address(&switch), 5).expect("a stream");
    assert_eq!(standing, 0);
    let (backup, standing) = Controller::connect(&address(&switch), 3).expect("a stream");
    assert_ne!(standing, 0, "a backup");
    let entry = |last: u8| forward(&controller, [2, 0, 0, 0, 0, last], 2);
    let entries = [entry(1), entry(2)].map(|entry| insert(Message::TableEntry(entry)));
    controller.write(entries.to_vec()).expect("two entries");
    controller.write(entries[..1].to_vec()).expect_err("it is there");
    let before = scrape(&metrics);
    let is = |name: &str, value: f64| {
        let found = before.get(name).copied();
        assert_eq!(found, Some(value), "{name}");
    };
    is("p4runtime_streams", 2.0);
    is("p4runtime_primaries", 1.0);
    is("p4runtime_primary_changes_total", 1.0);
    is("p4runtime_updates_total", 3.0);
    is("p4runtime_requests_total{kind=\"write\",status=\"ok\"}", 1.0);
    is("p4runtime_requests_total{kind=\"write\",status=\"unknown\"}", 1.0);
    is("storage_requests_total", 1.0);
    is("storage_records_total", 2.0);
    is("storage_errors_total", 0.0);
    assert!(
        before["storage_written_bytes_total"] > 20.0
            && before["storage_commit_seconds_total"] > 0.0
    );
    // A digest that is acknowledged.
    let wanted = p4::DigestEntry {
        digest_id: controller.id("learn"),
        config: Some(p4::digest_entry::Config {
            max_list_size: 1,
            ack_timeout_ns: 60_000_000_000,
            ..Default::default()
        }),
    };
    controller.write(vec![insert(Message::DigestEntry(wanted))]).expect("a digest");
    switch.command(&["table", "default", "fdb", "forward", "2"]).expect(0, &[]);
    let learns = ["table", "add", "acl", "std.ingress_port=1", "learn_it", "--priority", "1"];
    switch.command(&learns).expect(0, &[]);
    Wire::open("raw:a0").send(&[frame([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8], 0x1234)]);
    let list = loop {
        if let FromDevice::Digest(list) = controller.next_message().expect("a list") {
            break list;
        }
    };
    await_sample(&metrics, "digest_sent_messages_total{digest=\"learn\"}", 1.0);
    await_sample(&metrics, "digest_unacknowledged_messages{digest=\"learn\"}", 1.0);
    let (digest_id, list_id) = (list.digest_id, list.list_id);
    controller.send(ToDevice::DigestAck(p4::DigestListAck { digest_id, list_id }));
    await_sample(&metrics, "digest_acknowledged_messages_total{digest=\"learn\"}", 1.0);
    // The primary goes: the backup's number is below the highest, so nobody is.
    drop(controller);
    await_sample(&metrics, "p4runtime_primary_changes_total", 2.0);
    await_sample(&metrics, "p4runtime_streams", 1.0);
    await_sample(&metrics, "p4runtime_primaries", 0.0);
    // A list that nobody gets.
    Wire::open("raw:a0").send(&[frame([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 7], 0x1234)]);
    await_sample(&metrics, "digest_dropped_messages_total{digest=\"learn\"}", 1.0);
    let stats = switch.objects(&["stats"]).remove(0);
    assert_eq!(stats["controllers"]["streams"], 1, "{stats}");
    assert!(stats["storage"]["commits"].as_u64() > Some(0), "{stats}");
    drop(backup);
    switch.end("INT").expect(0, &["no controller is primary"]);
}
