//! What goes wrong with a link that has full queues: it is cut, or its peer pauses it for ever.

use wireyard_tables::time::{Span, Time};
use wireyard_tests::wires::{Fabric, Far};

use super::pauses::{config, pfc};
use super::{device_with_ports, frame};

fn at(us: u64) -> Time {
    Time::from_ns(us * 1000)
}

/// Three ports at 1 Gbit/s; 20 frames of 1000 bytes for port 2 and for port 3, of which one each has left.
fn queued(settings: &str) -> (Fabric, Vec<Far>) {
    let ports = "{ 1: { rate: 10Gbps }, 2: { rate: 1Gbps }, 3: { rate: 1Gbps } }";
    let (core, fars) = device_with_ports("event_injector", &(config("auto", ports) + settings), 3);
    let mut fabric = Fabric::new(vec![core]);
    for psn in 0..20u32 {
        // The program forwards to port 2 and mirrors to port 3.
        fars[0].send(at(u64::from(psn)), &frame(1, 2, 26, 0, psn, 1000));
    }
    fabric.run_until(at(21));
    (fabric, fars)
}

/// Its queue is dropped under a name, the other ports lose nothing, and it works again when it is back.
#[test]
fn a_link_that_is_cut_drops_its_queue_and_nothing_else() {
    let (mut fabric, fars) = queued("");
    let left = fars[1].take().len() as u64;
    assert!((1..6).contains(&left), "{left} left before");
    fars[1].set_down(true);
    fabric.cores[0].check_links(at(21));
    let messages = fabric.cores[0].ports_mut().take_messages();
    assert!(messages.len() == 1 && messages[0].contains("port 2 (line) is down"), "{messages:?}");
    assert_eq!(fabric.cores[0].report().dropped_for("port_down"), 20 - left);
    fars[0].send(at(22), &frame(1, 2, 26, 0, 20, 1000));
    fabric.run_until(at(1000));
    assert_eq!((fars[1].count(), fars[2].count()), (0, 21), "the mirror loses nothing");
    assert_eq!(
        fabric.cores[0].report().dropped_for("port_down"),
        21 - left,
        "and nothing new is queued"
    );
    fabric.check();

    fars[1].set_down(false);
    fabric.cores[0].check_links(at(1000));
    assert_eq!(fabric.cores[0].ports_mut().take_messages(), ["port 2 (line) is up"]);
    fars[0].send(at(1001), &frame(1, 2, 26, 0, 21, 1000));
    fabric.run_until(at(2000));
    assert_eq!((fars[1].count(), fars[2].count(), fabric.cores[0].queued()), (1, 1, 0));
    fabric.check();
}

/// The watchdog tells of the storm, drops what is stuck under its name, and tells when it is over.
#[test]
fn a_pause_storm_is_told_dropped_and_over() {
    let watchdog = "    pfcwd: { detection_time: 1 ms, restoration_time: 1 ms, \
                    poll_interval: 200 us, action: drop }\n";
    let (mut fabric, fars) = queued(watchdog);
    let left = fars[1].take().len() as u64;
    // 65,535 quanta at 1 Gbit/s are 33 ms.
    fars[1].send(at(22), &pfc(3, 65_535));
    fabric.run_until(at(3_000));
    let messages = fabric.cores[0].ports_mut().take_messages();
    let storm = "port 2 (line): queue 3 is kept paused by its peer (PFC storm): its packets are dropped until it ends";
    assert_eq!(messages, [storm]);
    let sent = left + fars[1].count() as u64;
    assert_eq!(fabric.cores[0].report().dropped_for("watchdog_storm"), 20 - sent);
    assert_eq!(fars[2].count(), 20, "the other port goes on");
    fars[1].send(fabric.now, &pfc(3, 0));
    let end = fabric.now + Span::from_ms(3);
    fabric.run_until(end);
    assert_eq!(
        fabric.cores[0].ports_mut().take_messages(),
        ["port 2 (line): the PFC storm on queue 3 is over"]
    );
    fars[0].send(end, &frame(1, 2, 26, 0, 21, 1000));
    fabric.run_until(end + Span::from_ms(1));
    assert_eq!(fars[1].count(), 1);
    fabric.check();
}
