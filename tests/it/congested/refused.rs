//! Pauses that lie, on veth: counted by name, never obeyed, and nothing is lost beside them.

use wireyard_tests::live::Switch;

use super::{counters, dropped, receive_until};
use crate::queues::frame;
use crate::queues::pauses::wrong_pauses;
use crate::rig::{Wire, private_network, veth};

const LOSSLESS: u8 = 26;
const PACKETS: u32 = 100;

#[test]
fn pauses_that_lie_are_counted_and_not_obeyed() {
    let Some(_network) = private_network("pauses_that_lie_are_counted_and_not_obeyed") else {
        return;
    };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let text = "ports: { 1: { rate: 10Gbps }, 2: { rate: 100Mbps } }\nqos: { preset: onyx_roce }\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    for kind in ["xdp", "raw", "pnet"] {
        let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
        let program = "programs/rocev2_lossless";
        let switch =
            Switch::start(&[program, "--config", config, "--port", &one, "--port", &two, "--json"]);
        let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
        let lies = wrong_pauses();
        host2.send(&lies.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>());
        // What follows them shows that the switch has read them.
        host2.send(&[frame(2, 1, 0, 0, 7, 100)]);
        receive_until(&mut host1, |bytes| bytes[5] == 1);
        let packets: Vec<_> = (0..PACKETS).map(|psn| frame(1, 2, LOSSLESS, 0, psn, 1000)).collect();
        host1.send(&packets);
        let mut got = Vec::new();
        receive_until(&mut host2, |bytes| {
            got.push(bytes);
            got.len() == packets.len()
        });
        assert!(got == packets, "{kind}: in order and unharmed");
        let report = counters(&switch.end("INT"));
        assert_eq!(dropped(&report, None), 0, "{kind}: {report:#}");
        let consumed = report["total"]["consumed"].as_array().expect("reasons");
        for (name, _) in &lies {
            let expected = lies.iter().filter(|(other, _)| other == name).count();
            let found = consumed.iter().find(|known| known[0] == *name).map(|known| &known[1]);
            assert_eq!(found, Some(&expected.into()), "{kind}: {name} in {consumed:?}");
        }
        let pauses = report["queueing"]["ports"][1]["pauses"].as_array().expect("pauses");
        assert!(pauses.iter().all(|known| known["paused_ns"] == 0), "{kind}: {pauses:?}");
    }
}
