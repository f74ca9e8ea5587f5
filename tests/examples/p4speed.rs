//! How fast a program is, packet by packet of a script, in memory: the engine alone, ingress and egress, without a device around it.
//!
//! `cargo run --release -p wireyard-tests --example p4speed -- SCRIPT.stf [TURNS]`
//!
//! The script is run first, and must pass; what it left in tables stays. Then each of its packets is run again and again, in bursts,
//! and a line says what it takes on each engine. Compiling is timed too: from the text of the program to code that runs.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use wireyard_pipeline::engine::{Context, NoDevice};
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, Verdict};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::stf::run::{Left, left_by};

/// Nanoseconds of one packet, the least of five rounds.
fn packet_ns((generation, _): &Left, port: u16, bytes: &[u8], turns: usize) -> f64 {
    const HEADROOM_BYTES: u16 = 512;
    let config =
        MemoryConfig { chunks: 256, chunk_bytes: 4096, headroom_bytes: HEADROOM_BYTES.into() };
    let mut memory = PacketMemory::new(config).expect("memory");
    let mut worker = generation.state.worker(0);
    let mut round = || {
        let mut spent_ns = 0_u128;
        for _ in 0..turns / BURST_MAX {
            let receive = |_| {
                let buf = memory.alloc_frame(bytes).expect("a chunk");
                Descriptor::received(buf, HEADROOM_BYTES, bytes.len() as u32, port, 0)
            };
            let mut packets: Vec<Descriptor> = (0..BURST_MAX).map(receive).collect();
            let mut meta = Vec::from_iter((0..BURST_MAX).map(|_| Intrinsic::default()));
            let state = &generation.state;
            let mut cx = Context {
                state,
                worker: &mut worker,
                memory: &mut memory,
                device: &mut NoDevice,
                trace: None,
            };
            let start = Instant::now();
            generation.engine.ingress(&mut cx, &mut packets, &mut meta);
            for (packet, meta) in packets.iter_mut().zip(&mut meta) {
                if meta.verdict() == Verdict::Forward {
                    let (packet, meta) = (std::slice::from_mut(packet), std::slice::from_mut(meta));
                    generation.engine.egress(&mut cx, packet, meta);
                }
            }
            spent_ns += start.elapsed().as_nanos();
            for packet in &mut packets {
                packet.buf.take().into_iter().for_each(|buf| memory.free(buf));
            }
        }
        spent_ns as f64 / (turns / BURST_MAX * BURST_MAX) as f64
    };
    (0..5).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(script) = args.first() else {
        eprintln!("p4speed SCRIPT.stf [TURNS]");
        return ExitCode::from(2);
    };
    let turns = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(100_000).max(BURST_MAX);
    let text = std::fs::read_to_string(script).unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("program "));
    let folder = Path::new(script).parent().unwrap_or(Path::new(""));
    let program = named.map_or(Path::new(script).with_extension("p4"), |name| folder.join(name));
    for engine in [EngineKind::Interp, EngineKind::Jit] {
        let start = Instant::now();
        let place = Place { program: program.clone(), no_entries: true, ..Place::default() };
        let options = DeviceOptions { engine, opt_level: LEVEL_MAX, ..DeviceOptions::small() };
        let loaded = load(&place).unwrap_or_else(|why| panic!("{why}"));
        let checked = start.elapsed();
        let _device = loaded.device(options).expect("a device");
        println!("{}: checked in {checked:?}, ready in {:?}", engine.name(), start.elapsed());
        let left = match left_by(Path::new(script), engine, LEVEL_MAX, &Place::default()) {
            Ok(left) => left,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        };
        for (line, port, bytes) in &left.1 {
            let ns = packet_ns(&left, port.0, bytes, turns);
            println!(
                "{} line {line}, {} bytes into port {port}: {ns:.0} ns",
                engine.name(),
                bytes.len()
            );
        }
    }
    ExitCode::SUCCESS
}
