//! Devices whose tables hash with different seeds: they share machine code and each finds its own entries.

use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::hash::Seed;
use wireyard_tables::time::Time;
use wireyard_tests::workspace_root;

const STATIONS: u8 = 100;

fn bridge(loaded: &Loaded, hash_seed: u64) -> Sandbox {
    let options = DeviceOptions { engine: EngineKind::Jit, hash_seed, ..DeviceOptions::small() };
    let core = loaded.device(options).expect("a device");
    Sandbox::new(core, &[1, 2, 4].map(|port| (PortNumber(port), LinkType::Ethernet)))
        .expect("ports")
}

fn seeds(sandbox: &Sandbox) -> Vec<Seed> {
    let snapshot = sandbox.core.generation().expect("a program").state.tables().snapshot();
    snapshot.tables().map(|view| view.shape().seed()).collect()
}

/// The ports that a frame from one station to another leaves by.
fn way(sandbox: &mut Sandbox, port: u16, from: u8, to: u8) -> Vec<u16> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(60, 0);
    assert!(sandbox.send(PortNumber(port), &frame, Time::ZERO, None));
    sandbox.received().into_iter().map(|(port, _)| port.0).collect()
}

/// Port 1 or 2.
fn home(station: u8) -> u16 {
    1 + u16::from(station) % 2
}

#[test]
fn live_devices_have_seeds_of_their_own() {
    let [one, other] = [DeviceOptions::live(), DeviceOptions::live()];
    assert_ne!(one.hash_seed, other.hash_seed);
    assert_eq!(DeviceOptions::default().hash_seed, DeviceOptions::small().hash_seed);

    let program = workspace_root().join("programs/l2_switch");
    let loaded =
        load(&Place { program, ..Place::default() }).unwrap_or_else(|error| panic!("{error}"));
    let mut devices = [1, 2, one.hash_seed].map(|seed| bridge(&loaded, seed));
    for device in &mut devices {
        for station in 0..STATIONS {
            way(device, home(station), station, 255);
        }
    }
    let [a, b, c] = &devices;
    assert!(seeds(a).iter().zip(seeds(b)).zip(seeds(c)).all(|((a, b), c)| *a != b && b != c));
    assert_eq!(seeds(a), seeds(&bridge(&loaded, 1)), "a fixed seed gives the same tables");
    for device in &mut devices {
        for station in 0..STATIONS {
            assert_eq!(way(device, 3 - home(station), 200, station), [home(station)]);
        }
    }
}
