//! A frame that comes alone: its way through a switch, and the processor time it takes, beside a Linux bridge.
//!
//! `cargo bench -p wireyard-switch --bench sparse` as root; says so and ends otherwise. On the same veth pairs run in turns a bridge
//! and `wireyard run` with each kind of port, with 2 ports and with 60. `-- BINARY` measures another build of wireyard in the same turns,
//! as one from before a change. Delay is from the send call of one packet socket to the receipt by another that spins; processor time is
//! that of the switch's threads, less what it takes idle. Only ratios of one run mean something.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::ports::sys::netns::enter_private_network;
use wireyard_switch::ports::{Port, PortSpec, TxFrame, open, veth};
use wireyard_tables::time::Time;

const ROUNDS: usize = 3;
const FRAMES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(3);
const LOST_AFTER: Duration = Duration::from_millis(50);

fn main() {
    let _network = match enter_private_network() {
        Ok(network) => network,
        Err(error) => return eprintln!("SKIPPED: root is needed for a network namespace: {error}"),
    };
    for scope in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    let other = std::env::args().skip(1).map(PathBuf::from).find(|path| path.is_file());
    let mut binaries = vec![("", PathBuf::from(env!("CARGO_BIN_EXE_wireyard")))];
    binaries.extend(other.map(|path| ("other ", path)));
    let is_short = std::env::args().any(|word| word == "--sample-size");
    for n in 1..=60 {
        veth::create([&format!("sw{n}"), &format!("host{n}")], 1500).expect("a cable");
    }
    println!(
        "{:>16} {:>6} {:>9} {:>9} {:>7} {:>9}",
        "forwarder", "ports", "p50 us", "p90 us", "ratio", "CPU us"
    );
    for ports in if is_short { vec![2] } else { vec![2, 60] } {
        let mut all: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
        for _ in 0..if is_short { 1 } else { ROUNDS } {
            let mut note = |name: String, delays: Vec<f64>, cost: f64| match all
                .iter_mut()
                .find(|(known, ..)| *known == name)
            {
                Some((_, before, costs)) => {
                    before.extend(delays);
                    costs.push(cost);
                }
                None => all.push((name, delays, vec![cost])),
            };
            let (delays, cost) = through_bridge(ports);
            note("bridge".into(), delays, cost);
            for kind in ["raw", "pnet", "xdp"] {
                for (label, binary) in &binaries {
                    let (delays, cost) = through_switch(binary, kind, ports);
                    note(format!("{label}{kind}"), delays, cost);
                }
            }
        }
        let bridge = all.first_mut().map_or(1.0, |(_, delays, _)| quantile(delays, 50));
        for (name, mut delays, mut costs) in all {
            let (p50, p90) = (quantile(&mut delays, 50), quantile(&mut delays, 90));
            let cost = quantile(&mut costs, 50);
            println!(
                "{name:>16} {ports:>6} {p50:>9.1} {p90:>9.1} {:>7.2} {cost:>9.1}",
                p50 / bridge
            );
        }
    }
}

fn quantile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * percent / 100).copied().unwrap_or(f64::NAN)
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|s| s.success()), "ip {arguments}");
}

fn through_bridge(ports: usize) -> (Vec<f64>, f64) {
    ip("link add bridge type bridge");
    ip("link set bridge up");
    (1..=ports).for_each(|n| ip(&format!("link set sw{n} master bridge")));
    sleep(Duration::from_millis(300));
    let result = (delays(), 0.0);
    ip("link del bridge");
    result
}

/// A switch as a process; it ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Nanoseconds that its threads were on a processor.
    fn cpu_ns(&self) -> u64 {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.0.id())) else { return 0 };
        let of = |path: PathBuf| {
            let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        tasks.filter_map(|task| of(task.ok()?.path())).sum()
    }

    /// Its processor time while something goes on, and how long that took.
    fn spent<T>(&self, work: impl FnOnce() -> T) -> (T, f64, f64) {
        let (before, began) = (self.cpu_ns(), Instant::now());
        let result = work();
        (result, (self.cpu_ns() - before) as f64, began.elapsed().as_secs_f64())
    }
}

fn through_switch(binary: &Path, kind: &str, ports: usize) -> (Vec<f64>, f64) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/rocev2_lossless");
    let mut command = Command::new(binary);
    command.args(["run", program]).stdout(Stdio::null()).stderr(Stdio::null());
    (1..=ports).for_each(|n| {
        command.arg("--port").arg(format!("{n}={kind}:sw{n}"));
    });
    let running = Running(command.spawn().expect("the switch starts"));
    // Machine code is made in the background at first.
    sleep(Duration::from_millis(1500));
    let ((), idle_ns, seconds) = running.spent(|| sleep(Duration::from_millis(500)));
    let idle = idle_ns / seconds;
    let (delays, ns, seconds) = running.spent(delays);
    (delays, (ns - idle * seconds).max(0.0) / f64::from(FRAMES) / 1e3)
}

/// One end of the way.
struct Socket {
    port: Box<dyn Port>,
    mem: PacketMemory,
}

impl Socket {
    fn open(name: &str) -> Socket {
        let mem = PacketMemory::new(MemoryConfig { chunks: 256, ..MemoryConfig::default() });
        let mem = mem.expect("memory");
        let port = open(&PortSpec::parse(name).expect("a port"), &mem).expect("it opens").port;
        Socket { port, mem }
    }

    fn send(&mut self, bytes: &[u8]) {
        let buf = self.mem.alloc_frame(bytes).expect("a chunk");
        let offset = self.mem.config().headroom_bytes as u16;
        let frame = TxFrame::at_once(buf, offset, bytes.len() as u32, Time::ZERO);
        self.port.tx_burst(&mut self.mem, Time::ZERO, &mut vec![frame]).expect("it sends");
    }

    /// Spins until these bytes come; false if they do not.
    fn await_bytes(&mut self, bytes: &[u8]) -> bool {
        let (began, mut got) = (Instant::now(), Vec::new());
        while began.elapsed() < LOST_AFTER {
            self.port.rx_burst(&mut self.mem, Time::ZERO, &mut got, 64).expect("it receives");
            for frame in got.drain(..) {
                let is_it = self.mem.frame(&frame.buf, frame.data_off, frame.len) == bytes;
                self.mem.free(frame.buf);
                if is_it {
                    return true;
                }
            }
        }
        false
    }
}

/// Microseconds from host 1 to host 2, of each frame that arrived.
fn delays() -> Vec<f64> {
    let (mut one, mut two) = (Socket::open("raw:host1"), Socket::open("raw:host2"));
    let frame = |to: u8, from: u8, n: u32| {
        let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
        bytes.extend(n.to_be_bytes());
        bytes.resize(60, 0);
        bytes
    };
    // The address is learned.
    two.send(&frame(1, 2, 0));
    one.await_bytes(&frame(1, 2, 0));
    let mut all = Vec::new();
    for n in 0..FRAMES {
        sleep(BETWEEN);
        let bytes = frame(2, 1, n);
        let began = Instant::now();
        one.send(&bytes);
        if two.await_bytes(&bytes) {
            all.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    one.port.close(&mut one.mem);
    two.port.close(&mut two.mem);
    all
}
