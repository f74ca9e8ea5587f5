//! What packets can teach a table: an entry for each value of its keys, or the one of a table without keys.

use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;

const PROGRAM: &str = "
pipeline: learning
headers: { eth: { fields: { dst: mac, src: mac, kind: 16 } } }
parser: { start: { extract: eth } }
actions: { send: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  last: { key: {}, actions: [send] }
  wide: { key: { eth.dst: exact, eth.src: exact, eth.kind: exact }, actions: [send] }
ingress:
  - std.egress_port = 3
  - if: eth.kind == 1
    then: [ { apply: last }, { learn: last, key: [], action: send(std.ingress_port) } ]
    else: [ { apply: wide }, { learn: wide, key: [eth.dst, eth.src, eth.kind], action: send(std.ingress_port) } ]
";

#[test]
fn tables_that_may_learn_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("learning.yaml");
    std::fs::write(&program, PROGRAM).expect("the program");
    let loaded = load(&Place { program, ..Place::default() }).unwrap_or_else(|e| panic!("{e}"));
    for engine in EngineKind::ALL {
        for opt_level in 0..=2 {
            let options = DeviceOptions { engine, opt_level, ..DeviceOptions::small() };
            let core = loaded.device(options).expect("a device");
            let ports = [1, 2, 3].map(|port| (PortNumber(port), LinkType::Ethernet));
            let mut sandbox = Sandbox::new(core, &ports).expect("ports");
            let mut way = |port, kind: u8, from: u8| {
                let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, from, 0, kind];
                frame.resize(60, 0);
                assert!(sandbox.send(PortNumber(port), &frame, Time::ZERO, None));
                sandbox.received()[0].0.0
            };
            // Not known; then what the packet before said.
            assert_eq!([way(1, 1, 1), way(2, 1, 9), way(2, 1, 9), way(1, 1, 9)], [3, 1, 2, 2]);
            assert_eq!([way(1, 2, 1), way(2, 2, 1), way(2, 2, 2), way(1, 2, 1)], [3, 1, 3, 2]);
        }
    }
}
