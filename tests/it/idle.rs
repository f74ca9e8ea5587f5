//! A switch with nothing to do: what it costs.
//!
//! Processor time of the process (proc_pid_stat(5)), so that a machine under load changes nothing. Needs root
//! and skips loudly otherwise.

use std::time::{Duration, Instant};

use wireyard_tests::live::Switch;

use crate::rig::{private_network, veth};

/// Clock ticks of a second in /proc: USER_HZ, 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// How long a switch is watched.
const WATCHED: Duration = Duration::from_secs(4);

/// User and system time of all threads so far, in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    // The name, in parentheses, may hold anything; the third field follows it.
    let rest = stat.rsplit_once(") ").expect("a name").1;
    let field = |n: usize| rest.split(' ').nth(n - 3).and_then(|f| f.parse::<f64>().ok());
    (field(14).expect("utime") + field(15).expect("stime")) / TICKS_PER_SECOND
}

/// Under 2 % of a processor with ports of each kind, with queues that have nothing in them, and while somebody reads metrics.
#[test]
fn an_idle_switch_costs_nearly_nothing() {
    let Some(_network) = private_network("an_idle_switch_costs_nearly_nothing") else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let queues =
        "ports: { 1: { rate: 10Gbps }, 2: { rate: 10Gbps } }\nqos: { preset: sonic_azure }\n";
    std::fs::write(&config, queues).unwrap();
    let with_queues = ["--config", config.to_str().unwrap()];
    for kind in ["xdp", "raw", "pnet", "tap"] {
        let (one, two) = match kind {
            "tap" => ("1=tap:idle1".to_owned(), "2=tap:idle2".to_owned()),
            kind => (format!("1={kind}:sw1"), format!("2={kind}:sw2")),
        };
        let more: &[&str] = if kind == "raw" { &with_queues } else { &[] };
        let arguments =
            [&["programs/rocev2_lossless", "--port", &one, "--port", &two], more].concat();
        let switch = Switch::start(&arguments);
        // Machine code is made in the background at first: watch from when that is over.
        let mut before = cpu_seconds(switch.pid());
        let settled = Instant::now() + Duration::from_secs(20);
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = cpu_seconds(switch.pid());
            if now - before <= 0.02 || Instant::now() > settled {
                break;
            }
            before = now;
        }
        let (began, before) = (Instant::now(), cpu_seconds(switch.pid()));
        std::thread::sleep(WATCHED);
        let share = (cpu_seconds(switch.pid()) - before) / began.elapsed().as_secs_f64();
        eprintln!("{kind}: {:.2} % of a processor", share * 100.0);
        assert!(share < 0.02, "{kind}: {:.1} % of a processor while idle", share * 100.0);
        switch.end("INT").expect(0, &[]);
    }
}
