//! ECMP of `ipv4_router`: the selector spreads flows over the next hops of a group, and a flow stays on one.

use std::collections::BTreeMap;

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::ports::LinkType;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;
use wireyard_tests::workspace_root;

const FLOWS: u16 = 400;
/// The ports of group 9, which 10.9.0.0/16 goes by.
const PORTS: [u16; 2] = [2, 3];

/// A UDP datagram to 10.9.0.9, or a fragment of one.
fn datagram(source_port: u16, ttl: u8, fragment: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0];
    let mut ip = vec![0x45, 0, 0, 32, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 1, 5, 10, 9, 0, 9];
    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
    let words = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    frame.extend(source_port.to_be_bytes());
    frame.extend([0x12, 0xb7, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// The port that a frame leaves by.
fn way(sandbox: &mut Sandbox, frame: &[u8]) -> u16 {
    assert!(sandbox.send(1, frame, Time::ZERO, None));
    let received = sandbox.received();
    assert_eq!(received.len(), 1, "{:?}", sandbox.core.report().dropped);
    received[0].0
}

fn router(engine: EngineKind, opt_level: u8) -> Sandbox {
    let program = workspace_root().join("programs/ipv4_router");
    let loaded = load(&Place { program, ..Place::default() }).unwrap_or_else(|e| panic!("{e}"));
    let options = DeviceOptions { engine, opt_level, ..DeviceOptions::small() };
    let core = loaded.device(options).expect("a device");
    let ports = [1, 2, 3].map(|port| (port, LinkType::Ethernet));
    Sandbox::new(core, &ports).expect("ports")
}

#[test]
fn flows_spread_over_the_next_hops_and_each_stays_on_one() {
    let mut ways: Option<BTreeMap<u16, u16>> = None;
    for engine in EngineKind::ALL {
        for level in 0..=LEVEL_MAX {
            let mut sandbox = router(engine, level);
            let mut send = |ttl| {
                let flow = |port| (port, way(&mut sandbox, &datagram(port, ttl, 0)));
                (0..FLOWS).map(flow).collect::<BTreeMap<u16, u16>>()
            };
            let first = send(64);
            // Another TTL is the same flow.
            assert_eq!(send(9), first, "{} at level {level}", engine.name());
            for port in PORTS {
                let share = first.values().filter(|way| **way == port).count();
                assert!((150..=250).contains(&share), "port {port} has {share} of {FLOWS} flows");
            }
            assert_eq!(*ways.get_or_insert(first.clone()), first, "engines choose alike");
        }
    }
}

#[test]
fn the_fragments_of_a_datagram_take_one_way() {
    let mut sandbox = router(EngineKind::Interpreter, LEVEL_MAX);
    // What stands where ports would be is data in the second fragment.
    for first in 0..40 {
        let more = way(&mut sandbox, &datagram(first, 64, 0x2000));
        let last = way(&mut sandbox, &datagram(first ^ 0x5555, 64, 0x0001));
        assert_eq!(more, last);
    }
}
