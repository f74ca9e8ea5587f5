//! Trimming: a blocked port whose queue overflows, and what leaves when it is open again.

use wireyard_switch::core::Statistics;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::EngineKind;
use wireyard_tables::time::{Span, Time};
use wireyard_tests::binary::run;
use wireyard_tests::wires::{Fabric, Passing};

use super::{device_on, frame, with_ports};

const PROGRAM: &str = "pipeline: example\ninclude: [ethernet]\n\
     parser: { start: { extract: ethernet, next: accept } }\n\
     ingress: [ std.egress_port = 2 ]\n\
     egress: [ { if: std.trimmed == 1, then: [ ethernet.src = bit<48>(std.packet_length) ] } ]\n";

fn config(profile: &str, control: &str) -> String {
    format!(
        "ports: {{ 1: {{}}, 2: {{ rate: 10Gbps }} }}\nqos:\n  \
         buffer_pools: {{ in: {{ direction: ingress, size: 1 MB }}, out: {{ direction: egress, size: 1 MB }} }}\n  \
         buffer_profiles:\n    ingress_lossy: {{ pool: in, static_th: 1 MB }}\n    \
         egress_lossy: {{ pool: out, {control} }}\n    data: {{ pool: out, {profile} }}\n  \
         schedulers: {{ first: {{ type: strict }} }}\n  \
         port_defaults: {{ queue_buffers: {{ 0: data, default: egress_lossy }}, queue_schedulers: {{ 6: first }} }}\n"
    )
}

/// What leaves of 20 frames of 400 bytes that came while the port was blocked; the device is checked.
fn sent(program: &str, config: &str, engine: EngineKind) -> (Vec<Passing>, Fabric) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.yaml");
    std::fs::write(&path, program).unwrap();
    let (core, fars) =
        with_ports(device_on(path.to_str().unwrap(), config, &[1, 2], engine), &[1, 2]);
    let mut fabric = Fabric::new(vec![core]);
    fabric.cores[0].block(Time::ZERO, PortNumber(2), true);
    for psn in 0..20 {
        fars[0].send(Time::ZERO, &frame(1, 2, 0, 2, psn, 400));
    }
    fabric.run_until(Time::ZERO + Span::from_us(10));
    fabric.cores[0].block(Time::ZERO + Span::from_us(10), PortNumber(2), false);
    fabric.run_until(Time::ZERO + Span::from_ms(1));
    fabric.check();
    (fars[1].take(), fabric)
}

fn psn(frame: &Passing) -> u8 {
    frame.bytes[53]
}

#[test]
fn what_a_queue_refuses_leaves_cut_and_first() {
    let trims = config(
        "static_th: 1000 B, discard: trim, trim_size: 100 B, trim_queue: 6",
        "static_th: 1 MB",
    );
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let (frames, mut fabric) = sent(PROGRAM, &trims, engine);
        let (cut, whole): (Vec<_>, Vec<_>) = frames.iter().partition(|f| f.bytes.len() == 100);
        assert_eq!(whole.iter().map(|f| psn(f)).collect::<Vec<_>>(), [0, 1], "[{}]", engine.name());
        assert_eq!(cut.iter().map(|f| psn(f)).collect::<Vec<_>>(), (2..20).collect::<Vec<u8>>());
        assert!(frames[..18].iter().all(|f| f.bytes.len() == 100), "they overtake what waits");
        // Egress knows which, and how long they are.
        assert!(cut.iter().all(|f| f.bytes[6..12] == [0, 0, 0, 0, 0, 100]));
        assert!(whole.iter().all(|f| f.bytes[6..12] == [2, 0, 0, 0, 0, 1]));
        let status = fabric.cores[0].port_status(PortNumber(2)).unwrap();
        let (data, first) = (status.queues[0].counters, status.queues[6].counters);
        assert_eq!((data.trimmed.packets, data.trimmed.bytes), (18, 18 * 400));
        assert_eq!((data.refused.packets, data.trim_dropped.packets), (0, 0));
        assert_eq!((first.departed.packets, first.departed.bytes), (18, 18 * 100));
        assert_eq!(status.drops.iter().map(|count| count.packets).sum::<u64>(), 0);
    }
}

/// The queue for trimmed packets has room for three.
#[test]
fn what_finds_no_room_there_either_is_dropped_under_its_own_reason() {
    let trims = config(
        "static_th: 1000 B, discard: trim, trim_size: 100 B, trim_queue: 6",
        "static_th: 300 B",
    );
    let (frames, mut fabric) = sent(PROGRAM, &trims, EngineKind::Jit);
    assert_eq!(frames.len(), 5);
    let status = fabric.cores[0].port_status(PortNumber(2)).unwrap();
    let data = status.queues[0].counters;
    assert_eq!((data.trimmed.packets, data.trim_dropped.packets), (18, 15));
    assert_eq!(status.queues[6].counters.refused.packets, 15);
    let report = fabric.cores[0].report();
    assert!(report.balanced);
    let json = serde_json::to_value(Statistics::of(&mut fabric.cores[0])).unwrap();
    let drops = json["ports"].to_string() + &json["queueing"].to_string();
    assert!(drops.contains("trim_refused"), "{drops}");
}

/// A frame that is no longer than what is left takes the other queue as it is, and `std.trimmed` stays 0.
#[test]
fn a_short_frame_goes_whole() {
    let trims = config(
        "static_th: 1000 B, discard: trim, trim_size: 400 B, trim_queue: 6",
        "static_th: 1 MB",
    );
    let (frames, _) = sent(PROGRAM, &trims, EngineKind::Jit);
    assert_eq!(frames.len(), 20);
    assert!(frames.iter().all(|f| f.bytes.len() == 400 && f.bytes[6..12] == [2, 0, 0, 0, 0, 1]));
}

#[test]
fn what_cannot_be_trimmed_is_refused_where_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.yaml");
    std::fs::write(&program, PROGRAM).unwrap();
    let file = folder.path().join("switch.yaml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&["check", program.to_str().unwrap(), "--config", file.to_str().unwrap()])
    };
    let with = |profile: &str| check(&config(profile, "static_th: 1 MB"));
    with("static_th: 10 KB, discard: trim, trim_queue: 6").expect(0, &[]);
    with("static_th: 10 KB, packet_discard_action: trim, trim_queue: 6").expect(0, &[]);
    let trim = "static_th: 10 KB, discard: trim";
    for (profile, why) in [
        (trim.to_owned(), "needs trim_queue"),
        (format!("{trim}, trim_queue: 8"), "needs trim_queue"),
        (format!("{trim}, trim_queue: 0"), "is the queue itself"),
        (format!("{trim}, trim_queue: 6, trim_size: 20 B"), "trim_size 20 B"),
        ("static_th: 10 KB, trim_size: 64 B".to_owned(), "mean nothing without discard: trim"),
    ] {
        let ended = with(&profile);
        assert_eq!(ended.status, Some(1), "{profile}: {}", ended.err);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(why), "{profile}: {said}");
    }
    let lossless = "ports: { 1: { rate: 10Gbps }, 2: { rate: 10Gbps } }\n\
        qos: { preset: onyx_roce, buffer_profiles: { egress_lossless: { pool: egress_lossless_pool, static_th: 64 MiB, \
        discard: trim, trim_queue: 6 } } }\n";
    let said = check(lossless);
    let said = format!("{}{}", said.out, said.err);
    assert!(said.contains("priority group 3 is lossless"), "{said}");
    // A program that does not look gets a warning.
    std::fs::write(&program, PROGRAM.replace("std.trimmed == 1", "std.congestion_mark == 1"))
        .unwrap();
    let ended = with("static_th: 10 KB, discard: trim, trim_queue: 6");
    assert!(ended.out.contains("never reads std.trimmed"), "{}", ended.out);
}
