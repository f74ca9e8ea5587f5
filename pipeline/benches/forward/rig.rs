//! A program with its state and its packets in memory, run by an engine over and over.

use std::path::Path;
use std::sync::Arc;
use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::Diagnostics;
use wireyard_pipeline::engine::{Context, Engine, NoDevice};
use wireyard_pipeline::entries;
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, OpenPorts, Verdict};
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes::{LEVEL_MAX, optimised};
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};
use wireyard_pipeline::state::{State, StateOptions, Worker};
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::Update;
use wireyard_tables::time::Time;

/// Packets of a run.
pub(crate) const PACKETS: usize = 8192;
/// Chunk and headroom of packet memory; the rivals keep their packets at the same distances.
pub(crate) const CHUNK_BYTES: usize = 4096;
/// Free bytes in front of a packet.
pub(crate) const HEADROOM_BYTES: usize = 256;
/// Where packet `n` starts in its chunk. Chunks are a power of two apart: with all headers at one
/// offset they would share a few sets of the cache, and the benches would measure that.
pub(crate) fn data_off(n: usize) -> usize {
    HEADROOM_BYTES + n % 16 * 64
}

/// Bytes at the front of a packet that a program may change; put back between runs.
pub(crate) const HEADERS: usize = 128;

/// What is given to both: a packet, the port it comes in by, and whether it is to be marked.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) bytes: Vec<u8>,
    pub(crate) port: u16,
    pub(crate) mark: bool,
}

/// What both give back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// `None` for a packet that is not forwarded.
    pub(crate) port: Option<u16>,
    pub(crate) bytes: Vec<u8>,
}

/// Reads and checks a program with the library's headers; as the engines run it by default.
pub(crate) fn compiled(path: &Path) -> Arc<Program> {
    let parsed = parse_program(path, &loader()).expect("the program is read");
    let compiled = compile(&parsed, &ExternRegistry::new()).expect("the program is right");
    Arc::new(optimised(&compiled.program, LEVEL_MAX))
}

/// The folder of the library.
pub(crate) fn library() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs")
}

fn loader() -> Loader {
    Loader::new(vec![library().join("headers")], &[])
}

/// Fills a state from an entries file.
pub(crate) fn apply_entries(path: &Path, state: &State) {
    let parsed = parse_program(&path.with_file_name("program.yaml"), &loader());
    let mut files = parsed.expect("the program is read").files;
    let mut found = Diagnostics::new();
    let read = parse_entries(path, &loader(), &mut files, &mut found).expect("entries are read");
    let resolved = entries::resolve(&read, state.program(), &mut found).expect("entries are right");
    resolved.apply(state).expect("entries fit");
}

/// An engine at work.
pub(crate) struct Rig {
    pub(crate) state: State,
    worker: Worker,
    memory: PacketMemory,
    packets: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
    inputs: Vec<Input>,
    /// Every port that the programs use.
    open: OpenPorts,
}

impl Rig {
    pub(crate) fn new(program: &Arc<Program>, inputs: &[Input], fill: &dyn Fn(&State)) -> Rig {
        let config = MemoryConfig {
            chunks: 16384,
            chunk_bytes: CHUNK_BYTES as u32,
            headroom_bytes: HEADROOM_BYTES as u32,
        };
        let mut memory = PacketMemory::new(config).expect("memory");
        let state = State::new(program, StateOptions::default()).expect("the program loads");
        fill(&state);
        let received = |(n, input): (usize, &Input)| {
            let mut buf = memory.alloc().expect("a chunk");
            let data_off = data_off(n) as u16;
            let len = input.bytes.len() as u32;
            let frame = memory.frame_mut(&mut buf, data_off, len).expect("there is room");
            frame.copy_from_slice(&input.bytes);
            Descriptor::received(buf, data_off, len, input.port, 0)
        };
        let packets = inputs.iter().enumerate().map(received).collect();
        let meta = (0..BURST_MAX).map(|_| Intrinsic::default()).collect();
        let worker = state.worker(0);
        let mut open = OpenPorts::default();
        (1..64).for_each(|port| open.set(port, true));
        Rig { worker, state, memory, packets, meta, inputs: inputs.to_vec(), open }
    }

    /// Ingress and egress of all packets, in bursts, as by ports without queues; `each` gets what became
    /// of them.
    fn run_with(
        &mut self,
        engine: &dyn Engine,
        mut trace: Option<&mut dyn TraceSink>,
        mut each: impl FnMut(&Descriptor, &Intrinsic, &PacketMemory),
    ) {
        let Rig { state, worker, memory, packets, meta, inputs, open } = self;
        for (packets, inputs) in packets.chunks_mut(BURST_MAX).zip(inputs.chunks(BURST_MAX)) {
            let meta = &mut meta[..packets.len()];
            for (meta, input) in meta.iter_mut().zip(inputs) {
                meta.congestion_mark = input.mark.into();
            }
            let sink: Option<&mut dyn TraceSink> = match &mut trace {
                Some(sink) => Some(&mut **sink),
                None => None,
            };
            let mut cx = Context { state, worker, memory, device: &mut NoDevice, trace: sink };
            engine.fused(&mut cx, packets, meta, open);
            for (packet, meta) in packets.iter().zip(meta.iter()) {
                each(packet, meta, cx.memory);
            }
        }
    }

    /// One run.
    pub(crate) fn run(&mut self, engine: &dyn Engine) {
        self.run_with(engine, None, |_, _, _| {});
    }

    /// One run with a trace sink.
    pub(crate) fn run_traced(&mut self, engine: &dyn Engine, sink: &mut dyn TraceSink) {
        self.run_with(engine, Some(sink), |_, _, _| {});
    }

    /// One run, and what came of it.
    pub(crate) fn outputs(&mut self, engine: &dyn Engine) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.run_with(engine, None, |packet, meta, memory| {
            let forward = meta.verdict() == Verdict::Forward;
            assert!(meta.egress_done == 1 || !forward, "nothing waits");
            let buf = packet.buf.as_ref().expect("a buffer");
            let bytes = memory.frame(buf, packet.data_off, packet.len).to_vec();
            outputs.push(Output { port: forward.then_some(packet.egress_port), bytes });
        });
        outputs
    }

    /// Packets as they were received, for the next run.
    pub(crate) fn restore(&mut self) {
        for (n, (packet, input)) in self.packets.iter_mut().zip(&self.inputs).enumerate() {
            (packet.data_off, packet.len) = (data_off(n) as u16, input.bytes.len() as u32);
            let headers = input.bytes.len().min(HEADERS);
            let buf = packet.buf.as_mut().expect("a buffer");
            let frame = self.memory.frame_mut(buf, packet.data_off, headers as u32);
            frame.expect("not shared").copy_from_slice(&input.bytes[..headers]);
        }
    }
}

/// Inserts entries in one batch.
pub(crate) fn insert(state: &State, updates: &[Update]) {
    state.tables().batch(updates, Time::ZERO).expect("entries fit");
}
