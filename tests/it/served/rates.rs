//! How much two workers forward on two queues, against one on one: a measurement, which `WIREYARD_RATES=1` asks for.
//!
//! The kernel sends (`LiveFrames`), from a thread for each queue, so that little of the machine goes into sending; on two processors it still shares
//! them with the workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wireyard_switch::ports::sys::bpf::LiveFrames;
use wireyard_switch::ports::sys::interface::look_up;
use wireyard_tests::live::Switch;

use super::{PROGRAM, last_report, of_flow, two_queues};
use crate::rig::{private_network, veth};

const FOR: Duration = Duration::from_secs(3);

/// Frames per second that so many workers forward, each on a queue of its own.
fn rate(kind: &str, workers: u32) -> f64 {
    let test = format!("rate {kind} {workers}");
    let Some(_network) = private_network(&test) else { return 0.0 };
    for n in [1, 2] {
        match workers {
            1 => veth(&format!("sw{n}"), &format!("host{n}")),
            _ => two_queues(&format!("sw{n}"), &format!("host{n}")),
        }
    }
    let ports = [1, 2].map(|n| format!("{n}={kind}:sw{n},queues={workers}"));
    let count = workers.to_string();
    let more = ["--workers", &count, "--json"];
    let switch = Switch::on(PROGRAM, &ports.each_ref().map(String::as_str), &more);
    let index = look_up("host1").expect("an interface").index;
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        for flow in 0..2 {
            let live = LiveFrames::new(index, &of_flow(1, 2, flow, 0, 0)).expect("root");
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    live.send(4096).expect("Linux 5.18");
                }
            });
        }
        thread::sleep(FOR);
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = began.elapsed().as_secs_f64();
    let report = last_report(switch);
    report["ports"][1]["medium"]["tx_frames"].as_u64().expect("a number") as f64 / seconds
}

#[test]
fn two_workers_against_one() {
    if std::env::var_os("WIREYARD_RATES").is_none() {
        return;
    }
    for _ in 0..3 {
        let (one, two) = (rate("xdp", 1), rate("xdp", 2));
        assert!(one > 0.0 && two > 0.0, "nothing was forwarded: {one} and {two} frames/s");
        println!("xdp: {one:.0} frames/s with one worker, {two:.0} with two: {:.2}", two / one);
    }
}
