//! ECMP of `ipv4_router`: the selector spreads flows over the next hops of a group, a flow stays on one, and a router with a seed of its own
//! spreads what another one chose.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;
use wireyard_tests::live::Switch;
use wireyard_tests::workspace_root;

use crate::rig::{Wire, private_network, veth};

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
    assert!(sandbox.send(PortNumber(1), frame, Time::ZERO, None));
    let received = sandbox.received();
    assert_eq!(received.len(), 1, "{:?}", sandbox.core.report().dropped);
    received[0].0.0
}

fn router(engine: EngineKind, opt_level: u8, selector_seed: u64) -> Sandbox {
    let program = workspace_root().join("programs/ipv4_router");
    let loaded = load(&Place { program, ..Place::default() }).unwrap_or_else(|e| panic!("{e}"));
    let options = DeviceOptions { engine, opt_level, selector_seed, ..DeviceOptions::small() };
    let core = loaded.device(options).expect("a device");
    let ports = [1, 2, 3].map(|port| (PortNumber(port), LinkType::Ethernet));
    Sandbox::new(core, &ports).expect("ports")
}

#[test]
fn flows_spread_over_the_next_hops_and_each_stays_on_one() {
    let mut ways: Option<BTreeMap<u16, u16>> = None;
    for engine in EngineKind::ALL {
        for level in 0..=LEVEL_MAX {
            let mut sandbox = router(engine, level, 0);
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
    let mut sandbox = router(EngineKind::Interp, LEVEL_MAX, 0);
    // What stands where ports would be is data in the second fragment.
    for first in 0..40 {
        let more = way(&mut sandbox, &datagram(first, 64, 0x2000));
        let last = way(&mut sandbox, &datagram(first ^ 0x5555, 64, 0x0001));
        assert_eq!(more, last);
    }
}

/// By UDP source port, the way of each flow through a router whose choices have this seed.
fn ways(engine: EngineKind, level: u8, selector_seed: u64) -> BTreeMap<u16, u16> {
    let mut sandbox = router(engine, level, selector_seed);
    (0..FLOWS).map(|flow| (flow, way(&mut sandbox, &datagram(flow, 64, 0)))).collect()
}

/// What one router sends by one port is all that the one behind it has: with the same choices it would use one of its ports.
#[test]
fn a_router_with_a_seed_spreads_what_another_chose() {
    let mut seeded: Option<BTreeMap<u16, u16>> = None;
    for engine in EngineKind::ALL {
        for level in 0..=LEVEL_MAX {
            let (first, second) = (ways(engine, level, 0), ways(engine, level, 1));
            for port in PORTS {
                let behind = first.iter().filter(|(_, way)| **way == port);
                let ways: Vec<u16> = behind.map(|(flow, _)| second[flow]).collect();
                let share = ways.iter().filter(|way| **way == PORTS[0]).count();
                let fair = ways.len() * 3 / 8..=ways.len() * 5 / 8;
                assert!(
                    fair.contains(&share),
                    "{share} of {}, {} {level}",
                    ways.len(),
                    engine.name()
                );
            }
            assert_eq!(*seeded.get_or_insert(second.clone()), second, "engines choose alike");
        }
    }
}

/// `run --selector-seed` is that seed.
#[test]
fn the_seed_of_the_command_line_chooses() {
    let Some(_network) = private_network("the_seed_of_the_command_line_chooses") else { return };
    (1..=3).for_each(|n| veth(&format!("sw{n}"), &format!("host{n}")));
    let ports = ["1=raw:sw1", "2=raw:sw2", "3=raw:sw3"];
    let seed = ["--selector-seed", "7"];
    let switch = Switch::on("programs/ipv4_router", &ports, &seed);
    let mut hosts = [1, 2, 3].map(|n| Wire::open(&format!("raw:host{n}")));
    let expected = ways(EngineKind::Interp, LEVEL_MAX, 7);
    let flows = 0..40;
    let frames: Vec<_> = flows.clone().map(|flow| datagram(flow, 64, 0)).collect();
    hosts[0].send(&frames);
    for (host, port) in hosts[1..].iter_mut().zip(PORTS) {
        let by: BTreeSet<u16> = flows.clone().filter(|flow| expected[flow] == port).collect();
        let source = |frame: &Vec<u8>| u16::from_be_bytes([frame[34], frame[35]]);
        let came: BTreeSet<u16> = host.receive(by.len()).iter().map(source).collect();
        assert_eq!(came, by, "port {port}");
    }
    switch.end("INT").expect(0, &[]);
}
