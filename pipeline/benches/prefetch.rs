//! Tables that outgrow the caches: what asking for a burst's lines ahead saves, and what it costs where tables are small.
//!
//! The router of `forward`, its tables declared large and filled with so many addresses and routes, keys at random over all of
//! them. In turns: the engine without fetching, with it for every table, and as it is by default.
//! Run with `cargo bench -p wireyard-pipeline --bench prefetch`.

#![allow(missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::engine::{Context, Engine, NoDevice};
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic};
use wireyard_pipeline::exec::{OpenPorts, Verdict};
use wireyard_pipeline::externs::random::Stream;
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::jit::{Jit, Options, PREFETCH_LEAST_BYTES};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes::{LEVEL_MAX, optimised};
use wireyard_pipeline::source::{Loader, parse_program};
use wireyard_pipeline::state::{State, StateOptions, Worker};
use wireyard_tables::time::Time;
use wireyard_tables::{Entry, Match, TableId, Update};

/// Packets of a run.
const PACKETS: usize = 4096;
/// No table searches so much: no line is fetched.
const NEVER: usize = usize::MAX;
const CHUNK_BYTES: u32 = 2048;
const HEADROOM_BYTES: u16 = 256;
/// Ethernet, IPv4, UDP.
const FRAME_BYTES: u32 = 64;
const DST_MAC: usize = 0;
const TTL: usize = 22;
const DST_IP: usize = 30;

fn below(random: &mut Stream, n: usize) -> usize {
    random.in_range(0, n as u128 - 1) as usize
}

/// The router of `forward` with tables that may be large.
fn router(folder: &Path) -> Arc<Program> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/forward");
    let text = std::fs::read_to_string(benches.join("rocev2_router.yaml")).expect("the router");
    let sized = ["not_ours, size: 4096", "no_route, size: 16384"].iter().fold(text, |text, at| {
        assert!(text.contains(at), "{at}: the router has other sizes");
        let name = at.split(',').next().unwrap_or_default();
        text.replace(at, &format!("{name}, size: 1048576"))
    });
    let path = folder.join("program.yaml");
    std::fs::write(&path, sized).expect("a file");
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs/headers");
    let parsed = parse_program(&path, &Loader::new(vec![library], &[])).expect("it is read");
    let program = compile(&parsed, &ExternRegistry::new()).expect("it is right").program;
    Arc::new(optimised(&program, LEVEL_MAX))
}

fn mac(n: usize) -> u64 {
    // Odd: no two numbers give one address.
    (n as u64).wrapping_mul(0x9e37_79b9_7f4b) & 0xffff_ffff_ffff
}

/// Routes as in the Internet, more than half of them of 24 bits; the value in the top bits.
fn routes(n: usize, random: &mut Stream) -> Vec<(u32, u32)> {
    let mut routes = std::collections::BTreeSet::new();
    while routes.len() < n {
        let len = match below(random, 100) {
            0..60 => 24,
            60..97 => 16 + below(random, 8) as u32,
            _ => 25 + below(random, 8) as u32,
        };
        routes.insert((random.next_u64() as u32 & (u32::MAX << (32 - len)), len));
    }
    routes.into_iter().collect()
}

/// The router at work on packets whose keys change from run to run.
struct Rig {
    engine: Jit,
    state: State,
    worker: Worker,
    memory: PacketMemory,
    packets: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
    open: OpenPorts,
    addresses: usize,
    routes: Vec<(u32, u32)>,
    random: Stream,
}

impl Rig {
    fn new(program: &Arc<Program>, addresses: usize, route_count: usize) -> Rig {
        let table = |name: &str| {
            let found = program.tables.iter().position(|table| table.name == name);
            TableId(found.expect("the router's tables") as u32)
        };
        let tables = ["macs", "fib"].map(table);
        let mut random = Stream::new(1, 0, 0);
        let routes = routes(route_count, &mut random);
        let state = State::new(program, StateOptions::default()).expect("the program loads");
        let entry = |key, action, data| Entry::new(vec![key], action, data);
        let macs = (0..addresses).map(|n| entry(Match::Exact(mac(n).into()), 0, vec![]));
        let path = |&(value, prefix_len): &(u32, u32)| {
            let hop = u64::from(value) % 32;
            entry(Match::Lpm { value: value.into(), prefix_len }, 0, vec![1 + hop, hop, hop])
        };
        let updates = macs.map(|entry| Update::Insert(tables[0], entry));
        let updates = updates.chain(routes.iter().map(|r| Update::Insert(tables[1], path(r))));
        state.tables().batch(&updates.collect::<Vec<_>>(), Time::ZERO).expect("entries fit");
        let config = MemoryConfig {
            chunks: PACKETS as u32 * 2,
            chunk_bytes: CHUNK_BYTES,
            headroom_bytes: HEADROOM_BYTES.into(),
        };
        let mut memory = PacketMemory::new(config).expect("memory");
        let received = |n: usize| {
            let mut buf = memory.alloc().expect("a chunk");
            let data_off = data_off(n);
            let frame = memory.frame_mut(&mut buf, data_off, FRAME_BYTES).expect("there is room");
            frame.fill(0);
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
            Descriptor::received(buf, data_off, FRAME_BYTES, 1, 0)
        };
        let packets = (0..PACKETS).map(received).collect();
        let meta = (0..BURST_MAX).map(|_| Intrinsic::default()).collect();
        let mut open = OpenPorts::default();
        (1..64).for_each(|port| open.set(port, true));
        let engine = Jit::new(program, &state, Options::default()).expect("it compiles");
        let worker = state.worker(0);
        Rig { engine, worker, state, memory, packets, meta, open, addresses, routes, random }
    }

    /// Packets as they are received, to other destinations than the last time.
    fn renew(&mut self) {
        for (n, packet) in self.packets.iter_mut().enumerate() {
            (packet.data_off, packet.len) = (data_off(n), FRAME_BYTES);
            let buf = packet.buf.as_mut().expect("a buffer");
            let frame = self.memory.frame_mut(buf, packet.data_off, FRAME_BYTES);
            let frame = frame.expect("not shared");
            let to = mac(below(&mut self.random, self.addresses)).to_be_bytes();
            frame[DST_MAC..DST_MAC + 6].copy_from_slice(&to[2..]);
            let (value, len) = self.routes[below(&mut self.random, self.routes.len())];
            let host = self.random.next_u64() as u32 & u32::MAX.checked_shr(len).unwrap_or(0);
            frame[DST_IP..DST_IP + 4].copy_from_slice(&(value | host).to_be_bytes());
            frame[TTL] = 64;
        }
    }

    /// All packets in bursts, each of which is looked at behind.
    fn pass(&mut self, least_bytes: usize, mut look: impl FnMut(&[Intrinsic])) {
        self.engine.set_prefetch_least_bytes(least_bytes);
        let Rig { engine, state, worker, memory, packets, meta, open, .. } = self;
        for packets in packets.chunks_mut(BURST_MAX) {
            let meta = &mut meta[..packets.len()];
            let mut cx = Context { state, worker, memory, device: &mut NoDevice, trace: None };
            engine.fused(&mut cx, packets, meta, open);
            look(meta);
        }
    }

    fn run(&mut self, least_bytes: usize) -> Duration {
        self.renew();
        let start = Instant::now();
        self.pass(least_bytes, |_| {});
        start.elapsed()
    }

    /// Every packet is routed, whether lines are fetched or not.
    fn check(&mut self) {
        for least_bytes in [NEVER, 0] {
            self.renew();
            let mut left = 0;
            self.pass(least_bytes, |meta| {
                left += meta.iter().filter(|meta| meta.verdict() == Verdict::Forward).count();
            });
            assert_eq!(left, PACKETS, "all packets left");
        }
    }
}

fn data_off(n: usize) -> u16 {
    HEADROOM_BYTES + (n % 16 * 64) as u16
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e9 / PACKETS as f64
}

fn main() {
    // `cargo bench` says so; without it, and in the short form, a few runs are enough.
    let is_short = std::env::args().any(|arg| arg == "--sample-size" || arg == "--test");
    let pairs = if is_short { 15 } else { 201 };
    let folder = std::env::temp_dir().join(format!("wireyard-prefetch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, addresses, routes) in [
        ("4096 addresses, 10,000 routes", 1 << 12, 10_000),
        ("16,384 addresses", 1 << 14, 10_000),
        ("65,536 addresses", 1 << 16, 10_000),
        ("131,072 addresses", 1 << 17, 10_000),
        ("262,144 addresses", 1 << 18, 10_000),
        ("1,048,576 addresses", 1 << 20, 10_000),
        ("65,536 routes", 1 << 12, 1 << 16),
        ("131,072 routes", 1 << 12, 1 << 17),
        ("524,288 routes", 1 << 12, 1 << 19),
        ("1,048,576 addresses, 524,288 routes", 1 << 20, 1 << 19),
    ] {
        let program = router(&folder);
        let mut rig = Rig::new(&program, addresses, routes);
        rig.check();
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..pairs {
            for (times, least_bytes) in times.iter_mut().zip([NEVER, 0, PREFETCH_LEAST_BYTES]) {
                times.push(rig.run(least_bytes));
            }
        }
        let [never, always, default] = times.map(|mut times| median(&mut times));
        let snapshot = rig.state.tables().snapshot();
        let searched: usize = snapshot.tables().map(|table| table.searched_bytes()).sum();
        println!(
            "PREFETCH {name}, {} KiB: {never:.1} ns a packet without, {always:.1} with, {default:.1} by default; \
             without / default {:.2}",
            searched >> 10,
            never / default
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}
