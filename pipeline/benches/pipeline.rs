//! Forwarding speed of an engine, in memory: `programs/ipv4_router` over 8192 packets of 64 to 1088
//! bytes, ingress and egress.
//!
//! The output of every packet is compared with a router written here by hand before anything is measured.
//! Run with `cargo bench -p wireyard-pipeline --bench pipeline`.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::Diagnostics;
use wireyard_pipeline::engine::{Context, Engine, NoDevice};
use wireyard_pipeline::entries;
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, Verdict};
use wireyard_pipeline::interp::Interp;
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes;
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};
use wireyard_pipeline::state::{State, StateOptions, Worker};
use wireyard_tables::time::Time;
use wireyard_tables::{ActionCall, Entry, Match, Target, Update};

const PACKETS: usize = 8192;
const ROUTES: u32 = 1024;
/// Ethernet, IPv4 and the ports of UDP: what the program may write.
const HEADERS: usize = 14 + 20 + 4;

/// The program with its entries file, and routes 10.128.0.0/24 and on, by next hop 2 or 3.
fn router() -> (Arc<wireyard_pipeline::ir::Program>, State) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    let loader = Loader::new(vec![programs.join("headers")], &[]);
    let path = programs.join("ipv4_router/program.yaml");
    let parsed = parse_program(&path, &loader).expect("the program is read");
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("the program is right");
    let program = Arc::new(compiled.program);
    let state = State::new(&program, StateOptions::default()).expect("the program loads");
    let (mut files, mut found) = (parsed.files, Diagnostics::new());
    let path = programs.join("ipv4_router/entries.yaml");
    let read = parse_entries(&path, &loader, &mut files, &mut found).expect("entries are read");
    let resolved = entries::resolve(&read, &program, &mut found).expect("entries are right");
    resolved.apply(&state).expect("entries fit");
    let fib = state.tables().find_table("fib").expect("the table is there");
    let route = |n: u32| {
        let call = ActionCall { action: 0, data: vec![u64::from(next_hop(n))] };
        let entry = Entry {
            matches: vec![Match::Lpm { value: u128::from(0x0a80_0000 | n << 8), prefix_len: 24 }],
            priority: 0,
            target: Target::Action(call),
            idle_timeout: None,
            meter: None,
        };
        Update::Insert(fib, entry)
    };
    let routes: Vec<Update> = (0..ROUTES).map(route).collect();
    state.tables().batch(&routes, Time::ZERO).expect("routes fit");
    (program, state)
}

fn next_hop(route: u32) -> u8 {
    2 + (route % 2) as u8
}

fn packets() -> Vec<Vec<u8>> {
    let packet = |n: usize| {
        let len = 64 + n * 613 % 1025;
        let mut packet = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0];
        let route = (n * 7919 % (ROUTES as usize + 8)) as u16;
        let ttl = if n % 100 == 7 { 1 } else { 64 };
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 1, 5, 10, 128, 0, 9];
        ip[17..19].copy_from_slice(&(0x8000 + route).to_be_bytes());
        ip[2..4].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        let check = full_checksum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        packet.extend(ip);
        packet.resize(len, n as u8);
        packet
    };
    (0..PACKETS).map(packet).collect()
}

fn full_checksum(ip: &[u8]) -> u16 {
    let words = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// What a router does, written without the pipeline; `None` is to the control plane.
fn expected(packet: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut out = packet.to_vec();
    let route = u32::from(u16::from_be_bytes([packet[31], packet[32]])) - 0x8000;
    if packet[22] <= 1 || route >= ROUTES {
        return None;
    }
    let port = next_hop(route);
    out[..12].copy_from_slice(&[2, 0, 0, 0, port, 2, 2, 0, 0, 0, port, 1]);
    out[22] -= 1;
    out[24..26].fill(0);
    let check = full_checksum(&out[14..34]);
    out[24..26].copy_from_slice(&check.to_be_bytes());
    Some((port.into(), out))
}

/// The packets in packet memory, to be run again and again.
struct Load {
    engine: Box<dyn Engine>,
    state: State,
    worker: Worker,
    memory: PacketMemory,
    packets: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
    originals: Vec<Vec<u8>>,
}

impl Load {
    fn new() -> Load {
        let config = MemoryConfig { chunks: 16384, chunk_bytes: 2048, headroom_bytes: 256 };
        let mut memory = PacketMemory::new(config).expect("memory");
        let (program, state) = router();
        let originals = packets();
        let mut received = |bytes: &Vec<u8>| {
            let buf = memory.alloc_frame(bytes).expect("a chunk");
            Descriptor::received(buf, 256, bytes.len() as u32, 1, 0)
        };
        let packets = originals.iter().map(&mut received).collect();
        let meta = originals.iter().map(|_| Intrinsic::default()).collect();
        let engine =
            Box::new(Interp::new(Arc::new(passes::optimised(&program, passes::LEVEL_MAX))));
        Load { engine, worker: state.worker(0), state, memory, packets, meta, originals }
    }

    /// Ingress and egress of all packets, in bursts. What is not forwarded has no egress.
    fn run(&mut self) {
        let Load { engine, state, worker, memory, packets, meta, .. } = self;
        let mut cx = Context { state, worker, memory, device: &mut NoDevice, trace: None };
        for (packets, meta) in packets.chunks_mut(BURST_MAX).zip(meta.chunks_mut(BURST_MAX)) {
            engine.ingress(&mut cx, packets, meta);
            for (packet, meta) in packets.iter_mut().zip(meta) {
                if meta.verdict() == Verdict::Forward {
                    let (packet, meta) = (std::slice::from_mut(packet), std::slice::from_mut(meta));
                    engine.egress(&mut cx, packet, meta);
                }
            }
        }
    }

    /// Headers as they were, so that the next run does the same work.
    fn restore(&mut self) {
        for (packet, original) in self.packets.iter_mut().zip(&self.originals) {
            let buf = packet.buf.as_mut().expect("a buffer");
            let frame = self.memory.frame_mut(buf, packet.data_off, HEADERS as u32);
            frame.expect("not shared").copy_from_slice(&original[..HEADERS]);
        }
    }

    /// Every packet as the hand-written router says.
    fn check(&mut self) {
        self.run();
        for (n, original) in self.originals.iter().enumerate() {
            let (packet, meta) = (&self.packets[n], &self.meta[n]);
            match expected(original) {
                None => assert_eq!(meta.verdict(), Verdict::Punt, "packet {n}"),
                Some((port, out)) => {
                    assert_eq!((meta.verdict(), packet.egress_port), (Verdict::Forward, port));
                    let buf = packet.buf.as_ref().expect("a buffer");
                    let bytes = self.memory.frame(buf, packet.data_off, packet.len);
                    assert_eq!(bytes, out, "packet {n}");
                }
            }
        }
        self.restore();
    }
}

fn router_in_memory(c: &mut Criterion) {
    let mut load = Load::new();
    load.check();
    let mut group = c.benchmark_group("ipv4_router");
    group.throughput(Throughput::Elements(PACKETS as u64));
    group.bench_function(load.engine.name().to_owned(), |b| {
        b.iter(|| {
            load.run();
            black_box(&load.meta);
            load.restore();
        });
    });
    group.finish();
}

criterion_group!(benches, router_in_memory);
criterion_main!(benches);
