//! A packet that nothing follows departs at once: with the same result as through its queue.

use wireyard_switch::core::{Core, Statistics};
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_tables::time::{Span, Time};
use wireyard_tests::wires::{Far, open_line};

/// What ingress may decide, by the last byte of the destination; egress numbers what leaves and writes marks.
const PROGRAM: &str = "
pipeline: cut_through
include: [ethernet]
registers: { left: { bits: 16, size: 1 }, seen: { bits: 16, size: 256 } }
parser:
  start: { extract: ethernet }
ingress:
  - let what = ethernet.dst[7:0]
  - let from = seen[what]
  - seen[what] = from + 1
  - std.egress_port = 2
  - std.ect = 1
  - std.traffic_class = 3
  - if: what == 1
    then: [ std.egress_port = 3 ]
  - if: what == 2
    then: [ std.egress_port = std.ingress_port ]
  - if: what == 3
    then: [ std.multicast_group = 1 ]
  - if: what == 4
    then: [ std.not_before_ns = std.ingress_ns + 2500 ]
  - if: what == 5
    then: [ std.hold_packets = 2, std.hold_timeout_ns = 9000 ]
  - if: what == 6
    then: [ clone(7) ]
  - if: what == 7 && from[0:0] == 0
    then: [ resubmit() ]
  - if: what == 8
    then: [ drop unwanted ]
  - if: what == 9
    then: [ punt wanted ]
  - if: what == 10
    then: [ std.egress_port = 99 ]
egress:
  - let n = left[0]
  - left[0] = n + 1
  - if: ethernet.ether_type == 0x88b6
    then: [ drop late ]
  - if: ethernet.dst[7:0] == 11 && std.packet_path != path.recirculate && ethernet.ether_type == 0x88b5
    then: [ ethernet.ether_type = n, recirculate() ]
    else: [ ethernet.ether_type = n, 'ethernet.src[0:0] = std.congestion_mark' ]
deparser:
  emit: [ethernet]
";
/// Egress does nothing: uncontended packets are accounted together.
const FORWARDER: &str = "
pipeline: forwarder
include: [ethernet]
parser:
  start: { extract: ethernet }
ingress:
  - std.egress_port = 2
  - std.traffic_class = 1
  - if: ethernet.dst[7:0] == 1
    then: [ std.egress_port = 1 ]
deparser:
  emit: [ethernet]
";
const ENTRIES: &str =
    "multicast_groups: { 1: { ports: [2, 3] } }\nmirror_sessions: { 7: { port: 3 } }\n";
const CONFIG: &str = "
ports: { 1: { rate: 10Gbps }, 2: { rate: 2Gbps }, 3: { rate: 10Gbps } }
qos:
  preset: onyx_roce
  wred_profiles: { ROCE: { green: { kmin: 1 KB, kmax: 3 KB, pmax: 50 % } } }
";
const PORTS: [PortNumber; 3] = [PortNumber(1), PortNumber(2), PortNumber(3)];

fn device(program: &str, engine: EngineKind) -> (Core, Vec<Far>) {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = if program == PROGRAM { ENTRIES } else { "{}\n" };
    let files = [("program.yaml", program), ("entries.yaml", entries), ("switch.yaml", CONFIG)];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let config = Some(folder.path().join("switch.yaml"));
    let place = Place { program: folder.path().to_owned(), config, ..Place::default() };
    let loaded = load(&place).unwrap_or_else(|e| panic!("{e}"));
    let options = DeviceOptions { engine, ..DeviceOptions::small() };
    let mut core = loaded.device(options).expect("a device");
    loaded.set_queues(&mut core, &PORTS).unwrap_or_else(|why| panic!("{why}"));
    core.outcomes_mut().listen_to_punts();
    core.outcomes_mut().listen_to_drops();
    let fars = PORTS.map(|number| {
        let (near, far) = open_line();
        core.add_port(number, Box::new(near)).expect("a free number");
        far
    });
    (core, fars.to_vec())
}

/// A frame for a decision, or a late drop.
fn frame(what: u8, late: bool, n: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, what, 2, 0, 0, 0, 0, 0, 0x88, 0xb5 + u8::from(late)];
    frame.resize(60 + n * 37 % 900, n as u8);
    frame
}

/// Packets that a program waits for before it can be let go.
fn of_program(core: &Core) -> u64 {
    core.generation().expect("a program").queued()
}

/// What arrived: when it left, when it came, its header and length.
fn summary(far: &Far) -> Vec<(Time, Time, Vec<u8>, usize)> {
    let took = far.take().into_iter();
    took.map(|f| (f.start, f.at, f.bytes[..16].to_vec(), f.bytes.len())).collect()
}

/// Serves the timers of a device between two instants, and then what arrives.
fn run(core: &mut Core, (mut now, until): (Time, Time), arrives: Option<PortNumber>, cuts: bool) {
    // As in a lab: not for memory alone.
    let next = |core: &mut Core| if cuts { core.next_effect() } else { core.next_timer() };
    while let Some(at) = next(core).not_before(now).instant().filter(|at| *at < until) {
        // What is due at once is due at the time of the last poll.
        now = at;
        match cuts {
            true => core.poll_timers(now, None),
            false => core.poll_readable(now, &PORTS),
        };
    }
    // Who asks several ports does not know which frame is the last one: none departs before it was queued.
    match (cuts, arrives) {
        (true, Some(port)) => core.poll_ports(until, &[port], None),
        (true, None) => core.poll_timers(until, None),
        (false, _) => core.poll_readable(until, &PORTS),
    };
}

#[test]
fn a_packet_that_departs_at_once_is_as_one_that_was_queued() {
    for engine in EngineKind::ALL {
        let (mut fast, mut plain) = (device(PROGRAM, engine), device(PROGRAM, engine));
        let mut now = Time::from_ns(10);
        let mut dice = 7u64;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (dice >> 33) % sides
        };
        for n in 0..6_000 {
            // Now and then a pause long enough for all queues to run empty.
            let last = now;
            now += Span::from_ns(if roll(9) == 0 { 20_000 } else { 1 + roll(1_200) });
            let (what, late) = (if roll(3) == 0 { 0 } else { roll(12) as u8 }, roll(20) == 0);
            let (port, bytes) = (1 + 2 * roll(2) as usize, frame(what, late, n));
            for (device, cuts) in [(&mut fast, true), (&mut plain, false)] {
                device.1[port - 1].send(now, &bytes);
                run(&mut device.0, (last, now), Some(PortNumber(port as u16)), cuts);
            }
            let place = format!("{} packet {n} for {what} at {now}", engine.name());
            for (fast, plain) in fast.1.iter().zip(&plain.1) {
                let [fast, plain] = [fast, plain].map(summary);
                assert_eq!(fast, plain, "{place}");
            }
            assert_eq!(
                fast.0.outcomes_mut().take_punted(),
                plain.0.outcomes_mut().take_punted(),
                "{place}"
            );
            assert_eq!(
                fast.0.outcomes_mut().take_dropped(),
                plain.0.outcomes_mut().take_dropped(),
                "{place}"
            );
        }
        let rest = (now, now + Span::from_ms(1));
        run(&mut fast.0, rest, None, true);
        run(&mut plain.0, rest, None, false);
        fast.0.sync(rest.1);
        for (fast, plain) in fast.1.iter().zip(&plain.1) {
            assert_eq!(fast.take(), plain.take());
        }
        let seen = |core: &mut Core| format!("{:#?}", Statistics::of(core));
        assert_eq!(seen(&mut fast.0), seen(&mut plain.0));
        fast.0.view(fast.0.time()).audit().expect("everything adds up");
        assert_eq!((fast.0.queued(), of_program(&fast.0)), (0, 0));
        let report = Statistics::of(&mut fast.0).queueing.expect("it has queues");
        let marked: u64 = report.ports.iter().flat_map(|p| &p.queues).map(|q| q.marked).sum();
        assert!(marked > 10, "{marked} marks");
        for reason in ["unwanted", "wanted", "late", "no_such_port"] {
            assert!(seen(&mut fast.0).contains(reason), "{reason}");
        }
    }
}

/// Whoever reads the counters of a device finds what was uncontended, also while it is on the wire.
#[test]
fn uncontended_packets_are_counted() {
    for engine in EngineKind::ALL {
        let (mut fast, mut plain) = (device(FORWARDER, engine), device(FORWARDER, engine));
        let seen = |core: &mut Core, now: Time| {
            core.sync(now);
            core.view(core.time()).audit().expect("everything adds up");
            let books = (Statistics::of(core), of_program(core));
            format!("{books:#?}")
        };
        let mut now = Time::from_ns(10);
        for n in 0..3_000_usize {
            let last = now;
            // 960 bytes take 4 us to port 2; now and then two come at once, the other way, or soon after.
            now += Span::from_ns(if n % 89 == 0 { 700 } else { 5_000 });
            let back = n % 97 == 0;
            let bytes = frame(u8::from(back), false, n);
            for (device, cuts) in [(&mut fast, true), (&mut plain, false)] {
                let port = if back { 3 } else { 1 };
                device.1[port - 1].send(now, &bytes);
                if n % 131 == 0 {
                    device.1[port - 1].send(now, &bytes);
                }
                run(&mut device.0, (last, now), Some(PortNumber(port as u16)), cuts);
            }
            if n % 53 == 0 {
                let at = now + Span::from_ns(n as u64);
                assert_eq!(seen(&mut fast.0, at), seen(&mut plain.0, at), "packet {n} at {at}");
            }
        }
        for (fast, plain) in fast.1.iter().zip(&plain.1) {
            assert_eq!(fast.take(), plain.take());
        }
        let end = now + Span::from_ms(1);
        assert_eq!(seen(&mut fast.0, end), seen(&mut plain.0, end));
    }
}
