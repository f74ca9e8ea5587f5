//! Packets per second of every port kind between two veth pairs: generator, forwarder, counter.
//!
//! `cargo bench -p wireyard-switch --bench ports` as root (a private network namespace is made and goes with the
//! process); says so and ends otherwise. Three forwarders run in turns on the same interfaces: a bare one without packet
//! memory, counters or checks; one that only moves frames from port to port (`ports`); and the switch as `run` has it with
//! `rocev2_lossless`, compiled, bridging by a learned address (`switch`).
//!
//! `-- xdp` measures one kind only. Beside the rate stands the forwarder's processor time for each frame: where others use the machine too, its
//! ratio means more than that of the rates. Only ratios of one run mean something. Then each forwarder's delay, from one packet socket to
//! another: of a frame that comes while it sleeps, and of one among others at a rate that it carries. In the short form of all benches
//! (`./ci.sh bench`) there is one round instead of five, and no delays.
//!
//! Another program forwards with `WIREYARD_PROGRAM=FILE WIREYARD_ENTRIES=FILE WIREYARD_FRAME=HEX`: its entries take the
//! frame from port 1 to port 2. The frame is the only one, and there are no delays.

use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pnet_datalink::{Channel, Config, interfaces};
use wireyard_pipeline::packet::{Buf, MemoryConfig, PacketMemory};
use wireyard_switch::config::room::Holders;
use wireyard_switch::core::Core;
use wireyard_switch::live::{self, Event, Workers};
use wireyard_switch::ports::sys::bpf::{LiveFrames, SocketMap, XdpMode, attach};
use wireyard_switch::ports::sys::interface;
use wireyard_switch::ports::sys::netns::enter_private_network;
use wireyard_switch::ports::sys::poll;
use wireyard_switch::ports::sys::xsk::{Xsk, XskConfig};
use wireyard_switch::ports::{Port, PortNumber, PortSpec, TxFrame, open};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_tables::time::Time;

const RUN: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
const CHUNKS: u32 = 8192;
/// Frames of one call of the kernel's generator: a call takes some 30 ms before and after them, so that few frames would
/// find a forwarder that sleeps most of the time.
const LIVE_BURST: u32 = 1 << 15;
/// Empty polls of a forwarder before it sleeps until a frame comes, as the loop of `run` does.
const SPINS: u32 = 64;

/// Moves frames from `in` to `out` until it is stopped.
type Forwarder = Box<dyn Fn(&AtomicBool) + Sync>;

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
    // The other words are values of options for criterion, which all benches are given.
    let kinds = ["xdp", "raw", "pnet"];
    let wanted: Vec<String> =
        std::env::args().filter(|word| kinds.contains(&word.as_str())).collect();
    println!(
        "{:>6} {:>12} {:>8} {:>6} {:>8} {:>6}",
        "bytes", "forwarder", "kpps", "ratio", "CPU ns", "ratio"
    );
    let is_wanted = |kind: &&str| wanted.is_empty() || wanted.iter().any(|word| word == kind);
    let kinds = || kinds.into_iter().filter(is_wanted);
    let is_short = std::env::args().any(|word| word == "--sample-size");
    let rounds = if is_short { 1 } else { ROUNDS };
    let other = Other::read();
    let frames =
        other.as_ref().map_or_else(|| vec![frame(64), frame(1024)], |one| vec![one.frame.clone()]);
    for frame in &frames {
        kinds().for_each(|kind| compare(frame, kind, rounds));
    }
    if is_short || other.is_some() {
        return;
    }
    println!("{:>12} {:>10} {:>9} {:>9}", "forwarder", "others", "p50 us", "p99 us");
    for kind in kinds() {
        for (name, forward) in forwarders(kind) {
            for others in [0, 20] {
                let (p50, p99) = delays(kind, &name, &forward, others);
                println!("{name:>12} {:>5} kpps {p50:>9.1} {p99:>9.1}", others);
            }
        }
    }
}

/// The program, the entries and the frame that replace those of `rocev2_lossless`.
struct Other {
    program: PathBuf,
    entries: PathBuf,
    frame: Vec<u8>,
}

impl Other {
    fn read() -> Option<Other> {
        let program = std::env::var_os("WIREYARD_PROGRAM")?.into();
        let given = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is needed too"));
        let digits: Vec<u8> =
            given("WIREYARD_FRAME").bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let frame = digits.chunks(2).map(|pair| byte(pair).expect("hexadecimal digits")).collect();
        Some(Other { program, entries: given("WIREYARD_ENTRIES").into(), frame })
    }
}

/// The forwarders of a kind, the rival first.
fn forwarders(kind: &'static str) -> Vec<(String, Forwarder)> {
    let ports: (String, Forwarder) =
        (format!("{kind} ports"), Box::new(move |stop: &AtomicBool| through_ports(kind, stop)));
    let switch: (String, Forwarder) =
        (format!("{kind} switch"), Box::new(move |stop: &AtomicBool| through_program(kind, stop)));
    let bare: Option<(String, Forwarder)> = match kind {
        "xdp" => Some(("bare xdp".into(), Box::new(bare_xdp))),
        "pnet" => Some(("bare pnet".into(), Box::new(bare_pnet))),
        _ => None,
    };
    bare.into_iter().chain([ports, switch]).collect()
}

/// All forwarders of a kind, in turns; the ratio is to the first.
fn compare(frame: &[u8], kind: &'static str, rounds: usize) {
    let all = forwarders(kind);
    let mut results: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); all.len()];
    for _ in 0..rounds {
        for ((name, forward), (rates, costs)) in all.iter().zip(&mut results) {
            let (rate, cost) = measure(frame, kind, name, forward);
            rates.push(rate);
            costs.push(cost);
        }
    }
    let medians: Vec<(f64, f64)> =
        results.iter_mut().map(|(rates, costs)| (median(rates), median(costs))).collect();
    for ((name, _), (rate, cost)) in all.iter().zip(&medians) {
        let (fast, cheap) = (rate / medians[0].0, medians[0].1 / cost);
        let bytes = frame.len();
        println!("{bytes:>6} {name:>12} {rate:>8.0} {fast:>6.2} {cost:>8.0} {cheap:>6.2}");
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

/// Thousands of frames per second that arrive at the sink while `forward` runs and a generator overloads it, and the
/// nanoseconds that the forwarder's thread was on a processor for each.
fn measure(frame: &[u8], kind: &str, name: &str, forward: &Forwarder) -> (f64, f64) {
    let (stop, forwarder) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
    let mut result = (0.0, 0.0);
    thread::scope(|scope| {
        // Named for who looks with perf.
        let thread = thread::Builder::new().name(name.to_owned());
        let _ = thread.spawn_scoped(scope, || {
            let me = std::fs::read_link("/proc/thread-self").unwrap();
            let number = me.file_name().unwrap().to_str().unwrap().parse().unwrap();
            forwarder.store(number, Ordering::Relaxed);
            forward(&stop);
        });
        let flag = Arc::clone(&stop);
        let is_live = kind == "xdp";
        scope.spawn(
            move || if is_live { generate_live(frame, &flag) } else { generate(frame, &flag) },
        );
        let begin = arrived();
        while arrived() < begin + 1000 {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(RUN / 4);
        let processor = || on_processor_ns(forwarder.load(Ordering::Relaxed));
        let (frames, spent, started) = (arrived(), processor(), Instant::now());
        thread::sleep(RUN);
        let (frames, spent) = ((arrived() - frames) as f64, processor() - spent);
        result = (frames / started.elapsed().as_secs_f64() / 1000.0, spent / frames);
        stop.store(true, Ordering::Relaxed);
    });
    result
}

/// Microseconds that a frame of 64 bytes takes, the median and what 99 of 100 do not exceed, while so many thousand
/// others come every second.
fn delays(kind: &str, name: &str, forward: &Forwarder, others: u32) -> (f64, f64) {
    const PROBES: usize = 1000;
    let stop = AtomicBool::new(false);
    let mut result = (0.0, 0.0);
    thread::scope(|scope| {
        scope.spawn(|| forward(&stop));
        scope.spawn(|| accompany(others, &stop));
        let mut mem = memory();
        let port = |name: &str| open(&PortSpec::parse(name).unwrap(), &mem).unwrap().port;
        let (mut sender, mut receiver) = (port("raw:gen"), port("raw:sink"));
        let begin = arrived();
        let mut took_us = Vec::with_capacity(PROBES);
        let mut probe = frame(64);
        for number in 0..2 * PROBES as u32 {
            // Neither in step with the others nor with a timer of the forwarder.
            thread::sleep(Duration::from_micros(500 + u64::from(number * 7919 % 1000)));
            probe[60..64].copy_from_slice(&(number | 1 << 31).to_be_bytes());
            let sent = Instant::now();
            let buf = mem.alloc_frame(&probe).unwrap();
            let mut burst = vec![TxFrame::at_once(buf, 256, 64, Time::ZERO)];
            sender.tx_burst(&mut mem, Time::ZERO, &mut burst).unwrap();
            let is_back = await_frame(receiver.as_mut(), &mut mem, &probe, sent);
            // The forwarder may not run yet.
            if is_back && arrived() > begin + 100 {
                took_us.push(sent.elapsed().as_nanos() as f64 / 1000.0);
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(
            took_us.len() > PROBES / 2,
            "{kind}: {name} lost {} probes",
            2 * PROBES - took_us.len()
        );
        took_us.sort_by(f64::total_cmp);
        result = (took_us[took_us.len() / 2], took_us[took_us.len() * 99 / 100]);
        sender.close(&mut mem);
        receiver.close(&mut mem);
    });
    result
}

/// Looks for one frame on a port, for 20 ms at most.
fn await_frame(port: &mut dyn Port, mem: &mut PacketMemory, wanted: &[u8], sent: Instant) -> bool {
    let mut received = Vec::with_capacity(64);
    let mut is_back = false;
    while !is_back && sent.elapsed() < Duration::from_millis(20) {
        port.rx_burst(mem, Time::ZERO, &mut received, 64).unwrap();
        for got in received.drain(..) {
            is_back |= mem.frame(&got.buf, got.data_off, got.len).ends_with(&wanted[60..]);
            mem.free(got.buf);
        }
    }
    is_back
}

/// Sends so many thousand frames every second, a few each millisecond.
fn accompany(others: u32, stop: &AtomicBool) {
    let mut mem = memory();
    let mut port = open(&PortSpec::parse("raw:gen").unwrap(), &mem).unwrap().port;
    let original = mem.alloc_frame(&frame(64)).unwrap();
    let mut burst = Vec::with_capacity(64);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..others {
            let buf: Buf = mem.share(&original).unwrap();
            burst.push(TxFrame::at_once(buf, 256, 64, Time::ZERO));
        }
        port.tx_burst(&mut mem, Time::ZERO, &mut burst).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    mem.free(original);
    port.close(&mut mem);
}

/// What a thread of this process spent on a processor.
fn on_processor_ns(thread: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
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

/// A RoCEv2 SEND from host 1 to host 2, ECN-capable, in the lossless class.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    let ip_bytes = (bytes - 14) as u16;
    frame.extend([0x45, 26 << 2 | 2]);
    frame.extend(ip_bytes.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0xc0, 0, 0x12, 0xb7]);
    frame.extend((ip_bytes - 20).to_be_bytes());
    frame.extend([0, 0, 4, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 1]);
    frame.resize(bytes, 0);
    frame
}

/// Sends the same frame as fast as a packet socket goes.
fn generate(frame: &[u8], stop: &AtomicBool) {
    let mut mem = memory();
    let mut port = open(&PortSpec::parse("raw:gen").unwrap(), &mem).unwrap().port;
    let original = mem.alloc_frame(frame).unwrap();
    let mut burst = Vec::with_capacity(64);
    while !stop.load(Ordering::Relaxed) {
        while burst.len() < 64 {
            let buf: Buf = mem.share(&original).unwrap();
            let len = frame.len() as u32;
            burst.push(TxFrame::at_once(buf, 256, len, Time::ZERO));
        }
        port.tx_burst(&mut mem, Time::ZERO, &mut burst).unwrap();
    }
}

/// Sends the same frame as fast as the kernel goes; AF_XDP takes more than a packet socket sends.
fn generate_live(frame: &[u8], stop: &AtomicBool) {
    let index = interface::look_up("gen").unwrap().index;
    let frames = LiveFrames::new(index, frame).unwrap();
    while !stop.load(Ordering::Relaxed) {
        frames.send(LIVE_BURST).unwrap();
        thread::yield_now();
    }
}

/// Waits when nothing came for a while: processor time is then that of frames.
struct Idle {
    fd: RawFd,
    polls: u32,
}

impl Idle {
    fn after(&mut self, received: usize) {
        self.polls = if received > 0 { 0 } else { self.polls + 1 };
        if self.polls > SPINS {
            poll::wait(&[self.fd], Duration::from_millis(10)).unwrap();
        }
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
    let mut idle = Idle { fd: input.poll_fd().unwrap(), polls: 0 };
    while !stop.load(Ordering::Relaxed) {
        let now = Time::from_ns(started.elapsed().as_nanos() as u64);
        input.rx_burst(&mut mem, now, &mut received, 64).unwrap();
        idle.after(received.len());
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

/// The switch as `run` has it, with the address of host 2 known, or with another program.
fn through_program(kind: &str, stop: &AtomicBool) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    let folder = tempfile::tempdir().unwrap();
    let entries = folder.path().join("entries.yaml");
    let known = "entries: { fdb: [ { match: { meta.vid: 0, ethernet.dst: 02:00:00:00:00:02 }, action: forward(2) } ] }\n";
    std::fs::write(&entries, known).unwrap();
    let (program, entries) = match Other::read() {
        Some(other) => (other.program, other.entries),
        None => (programs.join("rocev2_lossless"), entries),
    };
    let place = Place { program, entries: Some(entries), ..Place::default() };
    let mut loaded = load(&place).unwrap_or_else(|rejected| panic!("{rejected}"));
    let numbers = [PortNumber(1), PortNumber(2)];
    let room = loaded.size_memory(&numbers, &Holders::of_any(numbers));
    let (memory, large_chunks) = (room.memory(), room.large_chunks);
    let options =
        DeviceOptions { engine: EngineKind::Jit, memory, large_chunks, ..DeviceOptions::default() };
    let mut core: Core = loaded.workers(options, 1).unwrap().remove(0);
    core.memory().divide(room.kept, room.later);
    for (number, name) in numbers.into_iter().zip(["in", "out"]) {
        let spec = PortSpec::parse(&format!("{kind}:{name}")).unwrap();
        let port = open(&spec, core.memory()).unwrap().port;
        assert!(port.name().starts_with(kind), "{kind} does not work here");
        core.add_port(number, port).unwrap();
    }
    loaded.set_queues(&mut core, &numbers).unwrap();
    let mut handle = |event: Event<'_>, _: &Workers| {
        if let Event::Polled { stop: end, .. } = event {
            *end = stop.load(Ordering::Relaxed);
        }
    };
    live::run(&mut core, &mut Workers::one().unwrap(), None, &mut handle).unwrap();
}

/// Two AF_XDP sockets, and chunks that go round: fill, receive, send, completion.
fn bare_xdp(stop: &AtomicBool) {
    let mut mem = memory();
    let (receive_entries, send_entries) = (1024, 1024);
    let socket = |name: &str| {
        let config = XskConfig {
            index: interface::look_up(name).unwrap().index,
            queue: 0,
            receive_entries,
            send_entries,
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
    let mut free: Vec<Buf> = (0..2 * receive_entries).map(|_| mem.alloc().unwrap()).collect();
    let mut parts = Vec::new();
    let mut idle = Idle { fd: input.fd().as_raw_fd(), polls: 0 };
    while !stop.load(Ordering::Relaxed) {
        let room = input.fill_room().min(free.len() as u32);
        for buf in free.drain(free.len() - room as usize..) {
            input.fill(buf).unwrap();
        }
        if room > 0 {
            input.publish_fill();
        }
        let mut count = 0;
        while count < 64 {
            let Some(received) = input.receive() else { break };
            parts.push(received.unwrap());
            if !output.send(&mut parts) {
                free.extend(parts.drain(..).map(|(buf, _)| buf));
            }
            count += 1;
        }
        input.release_rx();
        if count > 0 {
            output.kick().unwrap();
        }
        while let Some(completed) = output.completed() {
            free.push(completed.unwrap());
        }
        output.release_completed();
        idle.after(count);
    }
    free.extend([input.close(), output.close()].into_iter().flatten());
    free.into_iter().for_each(|buf| mem.free(buf));
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
