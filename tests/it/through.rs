//! A device without queues: egress right behind ingress changes neither the order on a port nor the counts.

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;

/// Copies of what goes to a group wait for the end of the turn, other packets do not. Egress numbers what leaves.
const PROGRAM: &str = "
pipeline: order
include: [ethernet]
registers: { left: { bits: 16, size: 1 } }
parser:
  start: { extract: ethernet }
ingress:
  - if: ethernet.dst[40:40] == 1
    then: [ std.multicast_group = 1 ]
    else: [ std.egress_port = 2 ]
egress:
  - let n = left[0]
  - left[0] = n + 1
  - ethernet.ether_type = n
deparser:
  emit: [ethernet]
";
const ENTRIES: &str = "multicast_groups: { 1: { ports: [2, 3] } }\n";

fn frame(group: bool, tag: u8) -> Vec<u8> {
    let mut frame = vec![if group { 3 } else { 2 }, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.resize(60, tag);
    frame
}

#[test]
fn what_waits_for_a_port_leaves_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program.yaml");
    std::fs::write(&program, PROGRAM).expect("writes");
    std::fs::write(folder.path().join("entries.yaml"), ENTRIES).expect("writes");
    let place = Place { program: folder.path().to_owned(), ..Place::default() };
    let mut all = Vec::new();
    for engine in EngineKind::ALL {
        for opt_level in 0..=LEVEL_MAX {
            let loaded = load(&place).unwrap_or_else(|e| panic!("{e}"));
            let options = DeviceOptions { engine, opt_level, ..DeviceOptions::small() };
            let core = loaded.device(options).expect("a device");
            let ports = [1, 2, 3].map(|port| (PortNumber(port), LinkType::Ethernet));
            let mut sandbox = Sandbox::new(core, &ports).expect("ports");
            for (tag, group) in [false, true, false, false, true].into_iter().enumerate() {
                assert!(sandbox.queue(PortNumber(1), &frame(group, tag as u8)));
            }
            sandbox.run_until_idle(Time::ZERO, None);
            let left = sandbox.received();
            let order = |port: u16| {
                let of_port = left.iter().filter(move |(number, _)| number.0 == port);
                of_port.map(|(_, bytes)| bytes[20]).collect::<Vec<u8>>()
            };
            assert_eq!(order(2), [0, 1, 2, 3, 4], "{} at level {opt_level}", engine.name());
            assert_eq!(order(3), [1, 4], "{} at level {opt_level}", engine.name());
            let report = sandbox.core.report();
            assert_eq!((report.sent, report.dropped.len()), (7, 0), "{report:?}");
            all.push(left);
        }
    }
    assert!(all.iter().all(|left| *left == all[0]), "every engine numbers them alike");
}
