//! Packets per second of every port kind between two veth pairs: generator, forwarder, counter.
//!
//! `cargo bench -p wireyard-switch --bench ports` as root (a private network namespace is made and
//! goes with the process); says so and ends otherwise. The forwarder only moves frames from one port
//! to the other. Beside `xdp` and `pnet` runs a bare forwarder on the same interfaces, without packet
//! memory, counters or checks, and the ratio is printed. Only ratios of one run mean something.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pnet_datalink::{Channel, Config, interfaces};
use wireyard_pipeline::packet::{Buf, MemoryConfig, PacketMemory};
use wireyard_switch::ports::sys::bpf::{SocketMap, XdpMode, attach};
use wireyard_switch::ports::sys::interface;
use wireyard_switch::ports::sys::netns::enter_private_network;
use wireyard_switch::ports::sys::xsk::{Xsk, XskConfig};
use wireyard_switch::ports::{Port, PortSpec, TxFrame, open};
use wireyard_tables::time::Time;

const RUN: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
const CHUNKS: u32 = 8192;

fn main() {
    let _network = match enter_private_network() {
        Ok(network) => network,
        Err(error) => return eprintln!("SKIPPED: root is needed for a network namespace: {error}"),
    };
    for scope in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    for (one, two) in [("gen", "in"), ("out", "sink")] {
        ip(&format!("link add {one} type veth peer name {two}"));
        ip(&format!("link set {one} up"));
        ip(&format!("link set {two} up"));
    }
    println!("{:>6} {:>10} {:>10} {:>8}", "bytes", "port", "kpps", "ratio");
    for bytes in [64, 1024] {
        for kind in ["xdp", "raw", "pnet"] {
            let bare: Option<fn(&AtomicBool)> = match kind {
                "xdp" => Some(bare_xdp),
                "pnet" => Some(bare_pnet),
                _ => None,
            };
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(measure(bytes, |stop| through_ports(kind, stop)));
                theirs.extend(bare.map(|bare| measure(bytes, bare)));
            }
            let rate = median(&mut ours);
            match bare {
                Some(_) => {
                    let bare = median(&mut theirs);
                    println!("{bytes:>6} {kind:>10} {rate:>10.0} {:>8.2}", rate / bare);
                    println!("{bytes:>6} {:>10} {bare:>10.0}", format!("bare {kind}"));
                }
                None => println!("{bytes:>6} {kind:>10} {rate:>10.0}"),
            }
        }
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|s| s.success()), "ip {arguments}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Thousands of frames per second that arrive at the sink while `forward` runs and a generator
/// overloads it.
fn measure(bytes: usize, forward: impl FnOnce(&AtomicBool) + Send) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let mut rate = 0.0;
    thread::scope(|scope| {
        let flag = Arc::clone(&stop);
        scope.spawn(move || generate(bytes, &flag));
        scope.spawn(|| forward(&stop));
        thread::sleep(RUN / 4);
        let (before, started) = (arrived(), Instant::now());
        thread::sleep(RUN);
        rate = (arrived() - before) as f64 / started.elapsed().as_secs_f64() / 1000.0;
        stop.store(true, Ordering::Relaxed);
    });
    rate
}

/// Packets that the sink's interface received.
fn arrived() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|l| l.trim().strip_prefix("sink:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn memory() -> PacketMemory {
    let config = MemoryConfig { chunks: CHUNKS, chunk_bytes: 4096, headroom_bytes: 256 };
    PacketMemory::new(config).unwrap()
}

/// Sends the same frame as fast as it goes.
fn generate(bytes: usize, stop: &AtomicBool) {
    let mut mem = memory();
    let mut port = open(&PortSpec::parse("raw:gen").unwrap(), &mem).unwrap().port;
    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xb5]);
    frame.resize(bytes, 0);
    let original = mem.alloc_frame(&frame).unwrap();
    let mut burst = Vec::with_capacity(64);
    while !stop.load(Ordering::Relaxed) {
        while burst.len() < 64 {
            let buf: Buf = mem.share(&original).unwrap();
            let len = bytes as u32;
            burst.push(TxFrame::at_once(buf, 256, len, Time::ZERO));
        }
        port.tx_burst(&mut mem, Time::ZERO, &mut burst).unwrap();
    }
}

fn through_ports(kind: &str, stop: &AtomicBool) {
    let mut mem = memory();
    let spec = |name: &str| PortSpec::parse(&format!("{kind}:{name}")).unwrap();
    let mut input = open(&spec("in"), &mem).unwrap().port;
    let mut output = open(&spec("out"), &mem).unwrap().port;
    assert!(input.name().starts_with(kind), "{kind} does not work here");
    let started = Instant::now();
    let (mut received, mut sending) = (Vec::with_capacity(256), Vec::with_capacity(512));
    while !stop.load(Ordering::Relaxed) {
        let now = Time::from_ns(started.elapsed().as_nanos() as u64);
        input.rx_burst(&mut mem, now, &mut received, 64).unwrap();
        sending.extend(
            received
                .drain(..)
                .map(|frame| TxFrame::at_once(frame.buf, frame.data_off, frame.len, now)),
        );
        if !sending.is_empty() {
            output.tx_burst(&mut mem, now, &mut sending).unwrap();
            // A full ring drops here: nothing queues in this forwarder.
            sending.drain(..).for_each(|frame| mem.free(frame.buf));
        }
    }
    sending.drain(..).for_each(|frame| mem.free(frame.buf));
    let mut close = |port: &mut Box<dyn Port>| port.close(&mut mem);
    close(&mut input);
    close(&mut output);
}

/// Two AF_XDP sockets, and addresses that go round: fill, receive, send, completion.
fn bare_xdp(stop: &AtomicBool) {
    let mut mem = memory();
    let ring_entries = 1024;
    let socket = |name: &str| {
        let config = XskConfig {
            index: interface::look_up(name).unwrap().index,
            queue: 0,
            ring_entries,
            umem_chunk_bytes: 4096,
            extra_headroom_bytes: 0,
            multi_buffer: false,
        };
        let mut tries = 0;
        let xsk = loop {
            match Xsk::open(&mem, &config) {
                Ok(xsk) => break xsk,
                Err(error) if tries == 100 => panic!("{error:?}"),
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
            tries += 1;
        };
        let map = SocketMap::new(1).unwrap();
        map.set(0, xsk.fd()).unwrap();
        let attachment = attach(&map, config.index, XdpMode::Native, false).unwrap();
        (xsk, map, attachment)
    };
    let (mut input, _map_in, _program_in) = socket("in");
    let (mut output, _map_out, _program_out) = socket("out");
    let chunks: Vec<Buf> = (0..2 * ring_entries).map(|_| mem.alloc().unwrap()).collect();
    let mut free: Vec<u64> = chunks.iter().map(|buf| u64::from(buf.index()) * 4096).collect();
    while !stop.load(Ordering::Relaxed) {
        let room = input.fill_room().min(free.len() as u32);
        for address in free.drain(free.len() - room as usize..) {
            input.fill(address);
        }
        if room > 0 {
            input.publish_fill();
        }
        let mut count = 0;
        while count < 64 {
            let Some(part) = input.receive() else { break };
            if !output.send(part) {
                free.push(part.address / 4096 * 4096);
            }
            count += 1;
        }
        input.release_rx();
        if count > 0 {
            output.kick().unwrap();
        }
        while let Some(address) = output.completed() {
            free.push(address / 4096 * 4096);
        }
        output.release_completed();
    }
}

/// pnet as its documentation shows it.
fn bare_pnet(stop: &AtomicBool) {
    let channel = |name: &str| {
        let found = interfaces().into_iter().find(|i| i.name == name).unwrap();
        let read_timeout = Some(Duration::from_millis(10));
        match pnet_datalink::channel(&found, Config { read_timeout, ..Config::default() }).unwrap()
        {
            Channel::Ethernet(sender, receiver) => (sender, receiver),
            _ => panic!("no Ethernet channel"),
        }
    };
    let (_, mut receiver) = channel("in");
    let (mut sender, _) = channel("out");
    while !stop.load(Ordering::Relaxed) {
        if let Ok(frame) = receiver.next() {
            let _ = sender.send_to(frame, None);
        }
    }
}
