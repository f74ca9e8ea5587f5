//! One engine with its own state and packet memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wireyard_pipeline::entries::Resolved;
use wireyard_pipeline::exec::{Context, Descriptor, Device, Engine, Intrinsic, OpenPorts};
use wireyard_pipeline::ids::{DigestId, ExternId};
use wireyard_pipeline::interp::Interp;
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes;
use wireyard_pipeline::state::{State, StateOptions, Worker};
use wireyard_pipeline::trace::{Event, TraceSink};
use wireyard_tables::TableId;
use wireyard_tables::counter::CounterArray;
use wireyard_tables::time::Time;

/// Little headroom, so that headers that grow need another chunk now and then.
const MEMORY: MemoryConfig = MemoryConfig { chunks: 256, chunk_bytes: 1024, headroom_bytes: 48 };

/// An engine at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The compiled engine, not the interpreter.
    pub jit: bool,
    /// Optimisation level.
    pub level: u8,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at level {}", if self.jit { "jit" } else { "interp" }, self.level)
    }
}

/// What the program told the device.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    messages: Vec<(u32, Vec<u128>)>,
}

impl Device for Heard {
    fn digest(&mut self, digest: DigestId, values: &[u128]) {
        self.messages.push((digest.0, values.to_vec()));
    }

    fn call(
        &mut self,
        external: ExternId,
        args: &[u128],
        _: &Descriptor,
        bytes: &[u8],
        _: Time,
    ) -> u128 {
        self.messages.push((external.0 | 1 << 31, args.to_vec()));
        bytes.len() as u128
    }
}

/// Tells the story of every so many packets, by the low bits of their time.
struct Story {
    every: usize,
    events: Vec<Event>,
}

impl TraceSink for Story {
    fn wants(&mut self, packet: &Descriptor, _: &[u8], _: bool) -> bool {
        self.every > 0 && (packet.ingress_ns as usize).is_multiple_of(self.every)
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// What packets are put through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Parser and ingress.
    Ingress,
    /// Egress.
    Egress,
    /// Ingress, and egress behind it for what leaves by a port that is open.
    Through,
}

/// An engine, its state, its memory.
pub struct Rig {
    /// Which engine at which level.
    pub way: Way,
    /// The state of the program.
    pub state: State,
    /// Packet memory.
    pub memory: PacketMemory,
    /// What the program told the device.
    pub heard: Heard,
    engine: Box<dyn Engine>,
    worker: Worker,
    /// Ports that packets leave by at once; programs send them to 0 to 3, and elsewhere.
    open: OpenPorts,
}

impl Rig {
    /// An engine for a program with its entries.
    ///
    /// # Errors
    /// A state that cannot be as declared, or no machine code.
    pub fn new(
        program: &Arc<Program>,
        entries: Option<&Resolved>,
        way: Way,
    ) -> Result<Rig, String> {
        let options = StateOptions { seed: 7, workers: 1, ..StateOptions::default() };
        let state = State::new(program, options).map_err(|e| e.to_string())?;
        if let Some(entries) = entries {
            entries.apply(&state)?;
        }
        let optimised = Arc::new(passes::optimised(program, way.level));
        let engine: Box<dyn Engine> = if way.jit {
            let jit = Jit::new(&optimised, &state, Options { level: way.level });
            Box::new(jit.map_err(|refused| format!("{way}: {refused}"))?)
        } else {
            Box::new(Interp::new(optimised))
        };
        let memory = PacketMemory::new(MEMORY).map_err(|e| e.to_string())?;
        let worker = state.worker(0);
        let mut open = OpenPorts::default();
        [0, 2].into_iter().for_each(|port| open.set(port, true));
        Ok(Rig { way, engine, worker, state, memory, heard: Heard::default(), open })
    }

    /// A burst through a pass, or two; returns the story of what was traced.
    pub fn run(
        &mut self,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        pass: Pass,
        traced: usize,
    ) -> Vec<Event> {
        let mut story = Story { every: traced, events: Vec::new() };
        let mut cx = Context {
            state: &self.state,
            worker: &mut self.worker,
            memory: &mut self.memory,
            device: &mut self.heard,
            trace: if traced > 0 { Some(&mut story) } else { None },
        };
        match pass {
            Pass::Ingress => self.engine.ingress(&mut cx, packets, meta),
            Pass::Egress => self.engine.egress(&mut cx, packets, meta),
            Pass::Through => self.engine.through(&mut cx, packets, meta, &self.open),
        }
        story.events
    }

    /// A packet just received, if there is memory.
    pub fn receive(&mut self, bytes: &[u8], port: u16, now_ns: u64) -> Option<Descriptor> {
        let buf = self.memory.alloc_frame(bytes)?;
        let offset = MEMORY.headroom_bytes as u16;
        Some(Descriptor::received(buf, offset, bytes.len() as u32, port, now_ns))
    }

    /// The bytes of a packet.
    pub fn bytes<'r>(&'r self, packet: &'r Descriptor) -> &'r [u8] {
        let buf = packet.buf.as_ref();
        buf.map_or(&[], |buf| self.memory.frame(buf, packet.data_off, packet.len))
    }

    /// Gives a packet's memory back.
    pub fn free(&mut self, mut packet: Descriptor) {
        if let Some(buf) = packet.buf.take() {
            self.memory.free(buf);
        }
    }

    /// Everything that outlives a packet, by name.
    pub fn contents(&self) -> Vec<(String, String)> {
        let state = &self.state;
        let program = state.program();
        let mut all = Vec::new();
        let counts = |array: &CounterArray| {
            let counts = (0..array.size()).map(|n| array.read(n).unwrap_or_default());
            let counts: Vec<String> =
                counts.map(|count| format!("{}/{}", count.packets, count.bytes)).collect();
            counts.join(" ")
        };
        for (id, counter) in program.counters.entries() {
            let array = state.counter(id).map(counts);
            all.push((format!("counter {}", counter.name), array.unwrap_or_default()));
        }
        for (id, register) in program.registers.entries() {
            let words = state.register(id).map(|array| array.words()).unwrap_or_default();
            let words: Vec<String> =
                words.iter().map(|word| format!("{:x}", word.load(Relaxed))).collect();
            all.push((format!("register {}", register.name), words.join(" ")));
        }
        let t = state.tallies();
        for (name, array) in [
            ("drops", &t.drops),
            ("punts", &t.punts),
            ("parser errors", &t.parser_errors),
            ("checksum errors", &t.checksum_errors),
            ("crc errors", &t.crc_errors),
            ("stray counts", &t.stray_counts),
            ("learn failures", &t.learn_failures),
            ("lost clones", &t.lost_clones),
        ] {
            all.push((name.into(), counts(array)));
        }
        let snapshot = state.tables().snapshot();
        for (n, (view, table)) in snapshot.tables().zip(&program.tables).enumerate() {
            if let Some(counters) = view.counters() {
                all.push((format!("counters of {}", table.name), counts(counters)));
            }
            let entries = state.tables().entries(TableId(n as u32));
            all.push((format!("entries of {}", table.name), format!("{entries:?}")));
        }
        all.push(("messages".into(), format!("{:?}", self.heard)));
        all
    }
}
