//! One engine with its own state, workers and packet memory.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wireyard_pipeline::engine::{Context, Device, Engine};
use wireyard_pipeline::entries::Resolved;
use wireyard_pipeline::exec::{Descriptor, Intrinsic, OpenPorts, PacketPath};
use wireyard_pipeline::ids::{DigestId, ExternId};
use wireyard_pipeline::interp::Interp;
use wireyard_pipeline::ir::{Half, Program};
use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::packet::{Buf, MemoryConfig, PacketMemory};
use wireyard_pipeline::passes;
use wireyard_pipeline::state::{State, StateOptions, Worker};
use wireyard_pipeline::trace::{Event, TraceSink};
use wireyard_tables::counter::CounterArray;
use wireyard_tables::time::Time;
use wireyard_tables::{TableId, Update};

use super::{At, How, Origin, Packet};

/// Little headroom, so that headers that grow need another chunk now and then.
pub const MEMORY: MemoryConfig =
    MemoryConfig { chunks: 512, chunk_bytes: 1024, headroom_bytes: 48 };

thread_local! {
    /// Memories of rigs that ended with all chunks free: what is in the chunks is of other packets, and different for
    /// each engine, so that a byte that nobody wrote is seen.
    static MEMORIES: RefCell<Vec<PacketMemory>> = const { RefCell::new(Vec::new()) };
}

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

/// What the program asked of the device.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    messages: Vec<(u32, Vec<u128>)>,
}

impl Device for Heard {
    fn digest(&mut self, _: &Arc<Program>, digest: DigestId, values: &[u128]) {
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

/// Traces one of so many packets, by the low bits of their time.
struct Sampled {
    every: usize,
    events: Vec<Event>,
}

impl TraceSink for Sampled {
    fn wants(&mut self, packet: &Descriptor, _: &[u8], _: Half) -> bool {
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

/// A reference to a chunk whose bytes must stay as they are.
struct Held {
    buf: Buf,
    bytes: Vec<u8>,
}

/// An engine, its state, its memory.
pub struct Rig {
    /// Which engine at which level.
    pub way: Way,
    /// The state of the program.
    pub state: State,
    /// What the program asked of the device.
    pub heard: Heard,
    /// There is path-specialised code, of a control at least.
    pub specialised: bool,
    /// Headers behind the body, by instance.
    pub trailers: u64,
    engine: Box<dyn Engine>,
    /// Each with its handle on the packet memory.
    workers: Vec<(Worker, PacketMemory)>,
    /// Packet memory. `Some` until the rig ends.
    memory: Option<PacketMemory>,
    held: Vec<Held>,
    /// Ports that packets leave by at once; programs send them to 0 to 3, and elsewhere.
    open: OpenPorts,
}

impl Rig {
    /// An engine for a program with its entries, and so many workers.
    ///
    /// # Errors
    /// A state that cannot be as declared, or no machine code.
    pub fn new(
        program: &Arc<Program>,
        entries: Option<&Resolved>,
        way: Way,
        workers: usize,
    ) -> Result<Rig, String> {
        let options = StateOptions { seed: 7, workers, ..StateOptions::default() };
        let state = State::new(program, options).map_err(|e| e.to_string())?;
        if let Some(entries) = entries {
            entries.apply(&state).map_err(|error| error.to_string())?;
        }
        let optimised = Arc::new(passes::optimised(program, way.level));
        let (mut specialised, trailers) = (false, optimised.trailers());
        let engine: Box<dyn Engine> = if way.jit {
            let jit = Jit::new(&optimised, &state, Options { level: way.level });
            let mut jit = jit.map_err(|refused| format!("{way}: {refused}"))?;
            // Tables here are never as large as those that are worth it.
            jit.set_prefetch_least_bytes(0);
            specialised = Half::BOTH.into_iter().any(|half| jit.is_specialised(half));
            Box::new(jit)
        } else {
            Box::new(Interp::new(optimised))
        };
        let memory = match MEMORIES.with_borrow_mut(Vec::pop) {
            Some(memory) => memory,
            None => PacketMemory::guarded(MEMORY).map_err(|e| e.to_string())?,
        };
        let workers = (0..workers).map(|n| (state.worker(n), memory.worker())).collect();
        let mut open = OpenPorts::default();
        [0, 2].into_iter().for_each(|port| open.set(port, true));
        let (heard, held, memory) = (Heard::default(), Vec::new(), Some(memory));
        Ok(Rig { way, state, heard, specialised, trailers, engine, workers, memory, held, open })
    }

    /// A burst through a pass, or two, on a worker; returns the events of what was traced.
    pub fn run(
        &mut self,
        worker: usize,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        pass: Pass,
        traced: usize,
    ) -> Vec<Event> {
        let mut sampled = Sampled { every: traced, events: Vec::new() };
        let count = self.workers.len();
        let Some((worker, memory)) = self.workers.get_mut(worker % count) else {
            return Vec::new();
        };
        let mut cx = Context {
            state: &self.state,
            worker: &mut *worker,
            memory,
            device: &mut self.heard,
            trace: if traced > 0 { Some(&mut sampled) } else { None },
        };
        match pass {
            Pass::Ingress => self.engine.ingress(&mut cx, packets, meta),
            Pass::Egress => self.engine.egress(&mut cx, packets, meta),
            Pass::Through => self.engine.fused(&mut cx, packets, meta, &self.open),
        }
        // A worker that learns waits for the others, and here nobody else runs.
        worker.release();
        sampled.events
    }

    /// A packet just received, if there is memory.
    pub fn receive(&mut self, packet: &Packet, bytes: &[u8], now_ns: u64) -> Option<Descriptor> {
        let chunk = MEMORY.chunk_bytes as usize;
        let bytes = bytes.get(..chunk).unwrap_or(bytes);
        let room = chunk - bytes.len();
        let offset = match packet.at {
            At::Headroom => room.min(MEMORY.headroom_bytes as usize),
            At::Start => 0,
            At::End => room,
        } as u16;
        let memory = self.memory.as_mut()?;
        let (mut buf, len) = (memory.alloc()?, bytes.len() as u32);
        memory.frame_mut(&mut buf, offset, len)?.copy_from_slice(bytes);
        if packet.held {
            let bytes = memory.bytes(&buf).to_vec();
            self.held.push(Held { buf: memory.share(&buf)?, bytes });
        }
        let path = match packet.from {
            Origin::Link => PacketPath::Normal,
            Origin::Cpu => PacketPath::FromCpu,
            Origin::Generator => PacketPath::Generated,
        };
        let received = Descriptor::received(buf, offset, len, packet.port, now_ns);
        Some(Descriptor { path: path as u8, ..received })
    }

    /// Gives back what was held.
    ///
    /// # Errors
    /// Somebody wrote into it.
    pub fn release_held(&mut self) -> Result<(), String> {
        let Some(memory) = &mut self.memory else { return Ok(()) };
        for held in self.held.drain(..) {
            let same = memory.bytes(&held.buf) == held.bytes;
            memory.free(held.buf);
            if !same {
                return Err(format!("{}: a chunk was written that is shared", self.way));
            }
        }
        Ok(())
    }

    /// Another reference to a packet's bytes, as copies of it have.
    pub fn copy(&self, packet: &Descriptor) -> Option<Descriptor> {
        let buf = self.memory.as_ref()?.share(packet.buf.as_ref()?)?;
        Some(packet.with_buf(buf))
    }

    /// Changes the tables one by one, and everything else; says what became of each change.
    pub fn change(&mut self, change: &Resolved, how: How, now: Time) -> Vec<String> {
        self.release();
        let mut results = Vec::new();
        for update in &change.updates {
            let done = self.state.tables().batch(&[with(update, how)], now);
            results.push(format!("{done:?}"));
        }
        let rest = Resolved { updates: Vec::new(), ..change.clone() };
        results.push(format!("{:?}", rest.apply(&self.state)));
        results
    }

    /// Removes entries that were not hit for long; says which.
    pub fn age(&mut self, now: Time) -> Vec<String> {
        self.release();
        let tables = 0..self.state.program().tables.len();
        let ids = tables.filter(|n| self.state.program().tables.iter().nth(*n).is_some_and(ages));
        let old = ids.map(|n| self.state.tables().age_out(TableId(n as u32), now, usize::MAX));
        let none = |old: &Result<Option<Vec<_>>, _>| matches!(old, Ok(Some(old)) if old.is_empty());
        old.filter(|old| !none(old)).map(|old| format!("{old:?}")).collect()
    }

    /// How often nothing more could be learned.
    pub fn learn_failures(&self) -> u64 {
        let array = &self.state.statistics().learn_failures;
        (0..array.size()).filter_map(|n| array.read(n)).map(|count| count.packets).sum()
    }

    /// The program has entries that age.
    pub fn may_age(&self) -> bool {
        self.state.program().tables.iter().any(ages)
    }

    /// Releases the tables, as a worker that sleeps does.
    fn release(&mut self) {
        self.workers.iter_mut().for_each(|(worker, _)| worker.release());
    }

    /// All chunks are free, and nothing was written beside them.
    ///
    /// # Errors
    /// How many are lost.
    pub fn end(&mut self) -> Result<(), String> {
        self.workers.clear();
        let Some(memory) = self.memory.take() else { return Ok(()) };
        memory.check_guards();
        let (free, foreign) = (memory.free_chunks(), memory.foreign_handles());
        if free != MEMORY.chunks || foreign != 0 {
            return Err(format!("{}: {free} chunks are free, {foreign} were foreign", self.way));
        }
        MEMORIES.with_borrow_mut(|memories| memories.push(memory));
        Ok(())
    }

    /// The bytes of a packet.
    pub fn bytes<'r>(&'r self, packet: &'r Descriptor) -> &'r [u8] {
        let Some(memory) = &self.memory else { return &[] };
        let buf = packet.buf.as_ref();
        buf.map_or(&[], |buf| memory.frame(buf, packet.data_off, packet.len))
    }

    /// Bytes of a chunk.
    pub fn frame<'r>(&'r self, buf: &'r Buf, offset: u16, len: u32) -> &'r [u8] {
        self.memory.as_ref().map_or(&[], |memory| memory.frame(buf, offset, len))
    }

    /// Gives a packet's memory back.
    pub fn free(&mut self, mut packet: Descriptor) {
        if let (Some(buf), Some(memory)) = (packet.buf.take(), &mut self.memory) {
            memory.free(buf);
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
        let t = state.statistics();
        for (name, array) in [
            ("drops", &t.drops),
            ("punts", &t.punts),
            ("parser errors", &t.parser_errors),
            ("checksum errors", &t.checksum_errors),
            ("crc errors", &t.crc_errors),
            ("stray counts", &t.out_of_range_counts),
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
            let id = TableId(n as u32);
            let (entries, default) =
                (state.tables().entries(id), state.tables().default_action(id));
            all.push((format!("entries of {}", table.name), format!("{entries:?} {default:?}")));
        }
        all.push(("messages".into(), format!("{:?}", self.heard)));
        all
    }
}

fn ages(table: &wireyard_pipeline::ir::Table) -> bool {
    table.idle_timeout_ms.is_some()
}

/// The change that an entries file asks for when what it names is there already.
fn with(update: &Update, how: How) -> Update {
    match (how, update.clone()) {
        (How::Modify, Update::Insert(table, entry)) => Update::Modify(table, entry),
        (How::Modify, Update::InsertMember(profile, id, call)) => {
            Update::ModifyMember(profile, id, call)
        }
        (How::Modify, Update::InsertGroup(profile, id, members)) => {
            Update::ModifyGroup(profile, id, members)
        }
        (How::Delete, Update::Insert(table, entry)) => {
            Update::Delete(table, entry.matches, entry.priority)
        }
        (How::Delete, Update::InsertMember(profile, id, _)) => Update::DeleteMember(profile, id),
        (How::Delete, Update::InsertGroup(profile, id, _)) => Update::DeleteGroup(profile, id),
        (_, update) => update,
    }
}
