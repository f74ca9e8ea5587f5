//! Packets on their way to the worker of their egress port: who charges them, and whose program they are.

use std::fs;

use wireyard_switch::control::{Control, Keep};
use wireyard_switch::core::Core;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::{Loaded, Place, load};
use wireyard_switch::tm::PortId;
use wireyard_tables::time::{Span, Time};

use super::{check, switch_of};

/// Class 0 is lossy, on ports of these rates.
const CONFIG: &str = "
ports: { 1: { rate: 1 Gbit/s }, 2: { rate: 1 Gbit/s } }
qos:
  buffer_pools: { in: { direction: ingress, size: 400 KB }, out: { direction: egress, size: 400 KB } }
  buffer_profiles: { ingress_lossy: { pool: in, static_th: 100 KB }, egress_lossy: { pool: out, static_th: 100 KB } }
";
const FORWARDER: &str = "pipeline: forwarder\ningress: [ std.egress_port = 2 ]\n";

fn made(program: &str) -> Loaded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("program.yaml"), program).expect("a file");
    fs::write(path("switch.yaml"), CONFIG).expect("a file");
    let place = Place {
        program: path("program.yaml"),
        config: Some(path("switch.yaml")),
        ..Place::default()
    };
    load(&place).unwrap_or_else(|rejected| panic!("{rejected}"))
}

/// Bytes charged to the priority groups of port 1, and of the CPU port at the worker of port 2.
fn charged(cores: &mut [Core]) -> (u64, u64) {
    let port = cores[0].port_status(PortNumber(1)).expect("port 1");
    let last = cores.len() - 1;
    let now = cores[last].time();
    let cpu = cores[last].view(now).port(PortId(0)).expect("the CPU port");
    let sum = |groups: [wireyard_switch::tm::GroupStatus; 8]| {
        groups.iter().map(|group| group.account.total()).sum()
    };
    (sum(port.groups), sum(cpu.groups))
}

/// What is held at the worker of its egress port stays charged to its ingress port, at the worker of that.
#[test]
fn a_held_packet_is_charged_to_its_ingress_port() {
    let holds = [
        "std.not_before_ns = std.ingress_ns + 9000",
        "std.hold_packets = 9, std.hold_timeout_ns = 9000",
    ];
    for hold in holds {
        let loaded = made(&format!("pipeline: holder\ningress: [ std.egress_port = 2, {hold} ]\n"));
        for workers in [1, 2] {
            let (mut fabric, fars) = switch_of(&loaded, workers, 2);
            for n in 0..3 {
                fars[0].send(Time::from_ns(1_000 + n), &[0x55; 1000]);
            }
            fabric.run_until(Time::from_ns(5_000));
            assert_eq!(charged(&mut fabric.cores), (3_000, 0), "{hold}, {workers} workers");
            check(&mut fabric);
            fabric.run_until(Time::from_ns(100_000));
            assert_eq!(fars[1].count(), 3, "{hold}, {workers} workers");
            assert_eq!(charged(&mut fabric.cores), (0, 0), "{hold}, {workers} workers");
            check(&mut fabric);
        }
    }
}

/// A packet that recirculates at another worker, and leaves by a port of the worker of its ingress port, is charged there.
#[test]
fn a_packet_that_comes_back_is_charged_to_its_ingress_port() {
    let program = "
pipeline: there_and_back
ingress:
  - std.egress_port = 2
  - if: std.packet_path == path.recirculate
    then: [ std.egress_port = 1 ]
egress:
  - if: std.egress_port == 2
    then: [ recirculate() ]
";
    let loaded = made(program);
    for workers in [1, 2] {
        let (mut fabric, fars) = switch_of(&loaded, workers, 2);
        fabric.cores[0].block(Time::ZERO, PortNumber(1), true);
        fars[0].send(Time::from_ns(1_000), &[0x55; 1000]);
        fabric.run_until(Time::from_ns(50_000));
        assert_eq!(charged(&mut fabric.cores), (1_000, 0), "{workers} workers");
        check(&mut fabric);
        fabric.cores[0].block(fabric.now, PortNumber(1), false);
        fabric.run_until(fabric.now + Span::from_us(50));
        assert_eq!((fars[0].count(), charged(&mut fabric.cores)), (1, (0, 0)), "{workers} workers");
        check(&mut fabric);
    }
}

/// A worker that receives nothing itself hears of another program by its packets. Those that it refuses are not in flight
/// any more: otherwise the program would stay loaded.
#[test]
fn a_refused_packet_is_in_flight_no_more() {
    let loaded = made(FORWARDER);
    for workers in [1, 2] {
        let (mut fabric, fars) = switch_of(&loaded, workers, 2);
        let control = Control::of(&fabric.cores[0]).expect("a handle").clone();
        control.swap(&made(FORWARDER), Keep::Nothing).expect("another program");
        fars[1].set_down(true);
        fabric.cores.iter_mut().for_each(|core| core.check_links(Time::from_ns(500)));
        fars[0].send(Time::from_ns(1_000), &[0x55; 1000]);
        fabric.run_until(Time::from_ns(50_000));
        assert_eq!(
            fabric.cores.iter().map(|core| core.report().dropped_for("port_down")).sum::<u64>(),
            1
        );
        let generation = fabric.cores[0].generation().expect("a program");
        assert_eq!(generation.queued(), 0, "{workers} workers");
        check(&mut fabric);
    }
}
