//! What a frame costs that comes alone: the same on a switch with 60 ports as on one with two.
//!
//! Processor time of the process from the scheduler's own clock, so that a machine under load changes little. Needs root and skips
//! loudly otherwise.

use std::thread::sleep;
use std::time::{Duration, Instant};

use wireyard_tests::live::Switch;

use crate::many_ports::cables;
use crate::queues::frame;
use crate::rig::{Wire, private_network};

const FRAMES: u32 = 150;
/// Far longer than anybody would spin.
const BETWEEN: Duration = Duration::from_millis(3);

/// Nanoseconds that all threads were on a processor (/proc/PID/task/TID/schedstat).
fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| of(task.ok()?.path())).sum()
}

/// Microseconds of processor for each of some frames from port 1 to port 2, what an idle switch takes aside.
fn cost_us(kind: &str, ports: usize) -> f64 {
    let names: Vec<String> = (1..=ports).map(|n| format!("{n}={kind}:sw{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let switch = Switch::on("programs/rocev2_lossless", &names, &[]);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    let pid = switch.pid();
    let spent = |work: &mut dyn FnMut()| {
        let (before, began) = (cpu_ns(pid), Instant::now());
        work();
        (cpu_ns(pid).saturating_sub(before) as f64, began.elapsed().as_secs_f64())
    };
    // Machine code is made in the background at first; a thread that ends takes its time along.
    let mut idle = f64::MAX;
    for _ in 0..40 {
        let (ns, seconds) = spent(&mut || sleep(Duration::from_millis(300)));
        idle = idle.min(ns / seconds);
        if ns < 3e6 {
            break;
        }
    }
    let (ns, seconds) = spent(&mut || {
        for n in 0..FRAMES {
            let sent = frame(1, 2, 0, 0, n, 100);
            host1.send(std::slice::from_ref(&sent));
            assert_eq!(host2.receive(1), [sent]);
            sleep(BETWEEN);
        }
    });
    (ns - idle * seconds).max(0.0) / f64::from(FRAMES) / 1e3
}

#[test]
fn a_sparse_frame_costs_the_same_with_many_ports() {
    let test = "a_sparse_frame_costs_the_same_with_many_ports";
    let Some(_network) = private_network(test) else { return };
    cables(60);
    for kind in ["raw", "pnet"] {
        let (few, many) = (cost_us(kind, 2), cost_us(kind, 60));
        println!("{kind}: {few:.1} us of processor for a frame with 2 ports, {many:.1} us with 60");
        assert!(many < 2.5 * few + 30.0, "{kind}: {few:.1} us with 2 ports, {many:.1} us with 60");
    }
}
