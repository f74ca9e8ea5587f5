//! What it costs to compile: every program of the library, and a curve over programs of growing size.
//!
//! Prints the time from the checked program to a packet's first verdict on the compiled engine, with the code of each
//! level; `run` makes them in this order, in the background. For the first one, of any program of the library, the
//! project promises less than 20 ms. Size is the operations and expressions of the program as it was checked; the passes are
//! part of the time.
//! Run with `cargo bench -p wireyard-pipeline --bench compile`.

#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::engine::{Context, Engine, NoDevice};
use wireyard_pipeline::exec::{Descriptor, Intrinsic};
use wireyard_pipeline::ir::{Display, ExternSignature, Param, Program};
use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes::{LEVEL_MAX, optimised};
use wireyard_pipeline::source::{Loader, parse_program};
use wireyard_pipeline::state::{State, StateOptions};

const RUNS: usize = 15;

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs")
}

/// What `wireyard` offers to programs; nothing is behind it here.
fn externs() -> ExternRegistry {
    let mut registry = ExternRegistry::new();
    let params = [128, 128, 24, 8, 1, 24].map(|bits| Param {
        name: String::new(),
        bits,
        display: Display::default(),
    });
    registry.add(ExternSignature {
        name: "notify_congestion".into(),
        params: params.into(),
        result_bits: None,
        controls: (true, true),
    });
    for (value, name) in (0..).zip(["ethernet", "infiniband", "opa", "erf"]) {
        registry.add_link_type(name, value);
    }
    registry
}

fn checked(path: &Path) -> Program {
    let loader = Loader::new(vec![library().join("headers")], &[]);
    let parsed = parse_program(path, &loader).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let compiled = compile(&parsed, &externs());
    compiled.unwrap_or_else(|e| panic!("{}: {e:?}", path.display())).program
}

/// Operations and expressions, as a measure of size.
fn size(program: &Program) -> usize {
    let bodies = program.actions.iter().map(|action| &action.body);
    let bodies = bodies.chain([&program.ingress, &program.egress]);
    let ops: usize = bodies.flat_map(|body| &body.blocks).map(|block| block.ops.len() + 1).sum();
    ops + program.parser.states.len() + program.exprs.len()
}

/// Compiles a program and sends it a packet.
fn first_packet(program: &Program, level: u8, memory: &mut PacketMemory) -> Duration {
    let shared = Arc::new(program.clone());
    let state = State::new(&shared, StateOptions::default()).expect("the program loads");
    let mut worker = state.worker(0);
    let buf = memory.alloc_frame(&[0; 128]).expect("a chunk");
    let start = Instant::now();
    // The passes of all levels, as in `run`.
    let program = Arc::new(optimised(program, LEVEL_MAX));
    let jit = Jit::new(&program, &state, Options { level }).expect("it compiles");
    let mut packets = [Descriptor::received(buf, 256, 128, 1, 0)];
    let mut meta = [Intrinsic::default()];
    let mut cx =
        Context { state: &state, worker: &mut worker, memory, device: &mut NoDevice, trace: None };
    jit.ingress(&mut cx, &mut packets, &mut meta);
    let took = start.elapsed();
    if let Some(buf) = packets[0].buf.take() {
        memory.free(buf);
    }
    took
}

/// Milliseconds of the best run, by level.
fn best(program: &Program, memory: &mut PacketMemory) -> [f64; LEVEL_MAX as usize + 1] {
    [0, 1, LEVEL_MAX].map(|level| {
        let times = (0..RUNS).map(|_| first_packet(program, level, memory));
        times.min().unwrap_or_default().as_secs_f64() * 1e3
    })
}

/// A program with so many tables and actions in a row.
fn chain(tables: usize) -> String {
    let mut text = String::from(
        "pipeline: chain\ninclude: [ethernet]\nmetadata: { a: 32, b: 32 }\nparser:\n  start: { extract: ethernet }\nactions:\n",
    );
    for n in 0..tables {
        let _ = writeln!(
            text,
            "  act{n}: {{ params: {{ x: 32 }}, do: [ meta.a = meta.a + x, meta.b = meta.b ^ meta.a ] }}"
        );
    }
    text.push_str("tables:\n");
    for n in 0..tables {
        let _ = writeln!(
            text,
            "  t{n}: {{ key: {{ meta.b: exact }}, actions: [act{n}, nop], default: nop, size: 64 }}"
        );
    }
    text.push_str("ingress:\n  - std.egress_port = 1\n");
    for n in 0..tables {
        let _ = writeln!(text, "  - apply: t{n}");
    }
    text.push_str("deparser:\n  emit: [ethernet]\n");
    text
}

fn compile_times(c: &mut Criterion) {
    let config = MemoryConfig { chunks: 64, chunk_bytes: 2048, headroom_bytes: 256 };
    let mut memory = PacketMemory::new(config).expect("memory");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(library())
        .expect("the library")
        .filter_map(|entry| Some(entry.ok()?.path().join("program.yaml")))
        .collect();
    folders.sort();
    let mut slowest = (0.0, String::new());
    println!("COMPILE program: size, milliseconds to the first packet at level 0, 1 and 2");
    for path in folders.iter().filter(|path| path.is_file()) {
        let program = checked(path);
        let [first, quick, all] = best(&program, &mut memory);
        println!("COMPILE {}: {}, {first:.1} {quick:.1} {all:.1}", program.name, size(&program));
        if first > slowest.0 {
            slowest = (first, program.name.clone());
        }
    }
    println!("COMPILE slowest: {} {:.1} ms to the first packet (limit 20)", slowest.1, slowest.0);
    let folder = std::env::temp_dir().join(format!("wireyard-compile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut group = c.benchmark_group("compile");
    for tables in [1, 4, 16, 64, 128] {
        let path = folder.join("program.yaml");
        std::fs::write(&path, chain(tables)).expect("a file");
        let program = checked(&path);
        let [first, quick, all] = best(&program, &mut memory);
        let size = size(&program);
        println!("COMPILE chain of {tables} tables: {size}, {first:.1} {quick:.1} {all:.1}");
        if tables == 16 {
            group.bench_function("16 tables", |b| {
                b.iter_custom(|n| {
                    (0..n).map(|_| first_packet(&program, LEVEL_MAX, &mut memory)).sum()
                });
            });
        }
    }
    group.finish();
    let _ = std::fs::remove_dir_all(&folder);
}

criterion_group!(benches, compile_times);
criterion_main!(benches);
