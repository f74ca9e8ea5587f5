//! Generations: a loaded program, and the change from one to the next while packets are in flight.
//!
//! A packet is processed by one program from ingress to egress. Its descriptor has the number of the [`Generation`]
//! that did ingress; when another program is loaded meanwhile, the old one stays until its packets have left the
//! queues. [`Loader`] is the control plane's side; each worker has an [`Executor`].

use crate::engine::{Context, Device, Engine};
use crate::exec::{Descriptor, Intrinsic, OpenPorts, Verdict};
use crate::interp::Interp;
use crate::ir::{BuiltinReason, Program};
use crate::jit::CompileError;
use crate::packet::PacketMemory;
use crate::state::{Kept, LoadError, State, StateOptions, Worker};
use crate::trace::TraceSink;
use arc_swap::ArcSwap;
use passing::Passing;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use wireyard_tables::time::Time;

mod passing;

/// The atomics of the counts, which `tests/models` replaces.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// Makes an engine for a program, or refuses it.
pub type MakeEngine =
    dyn Fn(&Arc<Program>, &State) -> Result<Box<dyn Engine>, CompileError> + Send + Sync;

/// The interpreter, for [`Loader::new`].
pub fn interpreter(program: &Arc<Program>, _: &State) -> Result<Box<dyn Engine>, CompileError> {
    Ok(Box::new(Interp::new(program.clone())))
}

/// A program that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Its state cannot be built.
    #[error(transparent)]
    State(#[from] LoadError),
    /// Its engine cannot be made.
    #[error(
        "the compiled engine does not run this program here: {0}; --engine auto takes the interpreter"
    )]
    Engine(#[from] CompileError),
}

/// A loaded program.
#[derive(Debug)]
pub struct Generation {
    /// Its number, in descriptors.
    pub id: u16,
    /// The program.
    pub program: Arc<Program>,
    /// Its engine.
    pub engine: Box<dyn Engine>,
    /// Its run-time state.
    pub state: State,
    /// True if egress of this program does nothing to any packet.
    skips_egress: bool,
    /// Packets that did ingress here and have neither done egress nor been dropped or sent without it.
    passing: Passing,
    /// Workers whose new packets use this program.
    workers: AtomicU64,
}

impl Generation {
    /// Packets between ingress and egress.
    pub fn queued(&self) -> u64 {
        self.passing.inside()
    }

    /// True if it has no packet in flight and no worker's new packets use it.
    fn is_done(&self) -> bool {
        self.workers.load(Ordering::SeqCst) == 0 && self.queued() == 0
    }
}

/// The programs that are loaded.
#[derive(Debug)]
struct Loaded {
    current: ArcSwap<Generation>,
    /// The number of the current one, stored after it: a worker reads it before every burst.
    latest: AtomicU16,
    /// All programs that may still have packets; read when a worker gets a packet of one that it does not have. Replaced
    /// as a whole, so that the worker waits for no thread that changes it.
    alive: ArcSwap<Vec<Arc<Generation>>>,
}

impl Loaded {
    /// The current program; counts one more worker, unless that worker uses it already.
    fn enter(&self, known: Option<u16>) -> Arc<Generation> {
        loop {
            let current = self.current.load_full();
            if known == Some(current.id) {
                return current;
            }
            current.workers.fetch_add(1, Ordering::SeqCst);
            // Replaced meanwhile? Then it may have been considered done.
            if self.current.load().id == current.id {
                return current;
            }
            current.workers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A program that is ready to replace the current one.
#[derive(Debug)]
pub struct Prepared {
    program: Arc<Program>,
    state: State,
    engine: Box<dyn Engine>,
    /// `None`: it keeps nothing, even what fits.
    kept: Option<Kept>,
}

impl Prepared {
    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// What it will take over from the state of the program that it replaces.
    pub fn kept(&self) -> Kept {
        self.kept.clone().unwrap_or_default()
    }

    /// Its state, which has no readers yet. Objects in [`Prepared::kept`] must not be written, except tables: writes to
    /// those are checked and discarded.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// Loads programs, one after the other.
pub struct Loader {
    loaded: Arc<Loaded>,
    make_engine: Box<MakeEngine>,
    options: StateOptions,
}

impl Loader {
    /// Loads the first program.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn new(
        program: Arc<Program>,
        options: StateOptions,
        make_engine: Box<MakeEngine>,
    ) -> Result<Loader, PrepareError> {
        let state = State::new(&program, options)?;
        let engine = make_engine(&program, &state)?;
        let first = Arc::new(Generation::new(0, program, state, engine, options.workers));
        let alive = ArcSwap::from_pointee(vec![first.clone()]);
        let latest = AtomicU16::new(first.id);
        let loaded = Arc::new(Loaded { current: ArcSwap::new(first), latest, alive });
        Ok(Loader { loaded, make_engine, options })
    }

    /// The program that new packets meet.
    pub fn current(&self) -> Arc<Generation> {
        self.loaded.current.load_full()
    }

    /// How many programs are loaded, the current one and those with packets in flight.
    pub fn alive(&self) -> usize {
        let current = self.current().id;
        let is_alive = |one: &&Arc<Generation>| one.id == current || !one.is_done();
        let alive = |all: &Arc<Vec<_>>| all.iter().filter(is_alive).cloned().collect::<Vec<_>>();
        // What is over is freed here, not by a worker.
        let _before = self.loaded.alive.rcu(alive);
        self.loaded.alive.load().len()
    }

    /// Loads another program: [`Loader::prepare`], then [`Loader::commit`].
    ///
    /// # Errors
    /// See [`PrepareError`]; then nothing has changed.
    pub fn replace(
        &self,
        program: Arc<Program>,
        now: Time,
    ) -> Result<Arc<Generation>, PrepareError> {
        Ok(self.commit(self.prepare(program, now)?))
    }

    /// Builds the state and the engine of another program beside the running one. Nothing changes, and the result may
    /// be dropped.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn prepare(&self, program: Arc<Program>, now: Time) -> Result<Prepared, PrepareError> {
        let options = StateOptions { now, ..self.options };
        let (state, kept) = self.current().state.prepare(&program, options)?;
        let engine = (self.make_engine)(&program, &state)?;
        Ok(Prepared { program, state, engine, kept: Some(kept) })
    }

    /// The same for a program that takes over nothing of the current state.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn prepare_anew(&self, program: Arc<Program>, now: Time) -> Result<Prepared, PrepareError> {
        let state = State::new(&program, StateOptions { now, ..self.options })?;
        let engine = (self.make_engine)(&program, &state)?;
        Ok(Prepared { program, state, engine, kept: None })
    }

    /// Replaces the current program: packets that arrive from now on use the new one, which takes over the state that
    /// it keeps. No other program may be prepared or committed meanwhile.
    pub fn commit(&self, prepared: Prepared) -> Arc<Generation> {
        let Prepared { program, state, engine, kept } = prepared;
        let old = self.current();
        if kept.is_some() {
            state.adopt(&old.state);
        }
        let id = old.id.wrapping_add(1);
        let workers = self.options.workers;
        let next = Arc::new(Generation::new(id, program, state, engine, workers));
        self.loaded.alive.rcu(|all| all.iter().chain([&next]).cloned().collect::<Vec<_>>());
        self.loaded.current.store(next.clone());
        self.loaded.latest.store(id, Ordering::Release);
        self.alive();
        next
    }

    /// The part of worker `lane`.
    pub fn executor(&self, lane: usize) -> Executor {
        let mut executor = Executor { loaded: self.loaded.clone(), lane, live: Vec::new() };
        executor.refresh();
        executor
    }
}

impl Generation {
    fn new(
        id: u16,
        program: Arc<Program>,
        state: State,
        engine: Box<dyn Engine>,
        workers: usize,
    ) -> Generation {
        let skips_egress = program.egress_is_empty();
        let (passing, workers) = (Passing::new(workers.max(1)), AtomicU64::new(0));
        Generation { id, program, engine, state, skips_egress, passing, workers }
    }
}

/// Runs packets on one worker, each on the program it belongs to.
#[derive(Debug)]
pub struct Executor {
    loaded: Arc<Loaded>,
    lane: usize,
    /// The current program last; older ones until their packets have left.
    live: Vec<Live>,
}

#[derive(Debug)]
struct Live {
    generation: Arc<Generation>,
    worker: Worker,
}

impl Live {
    fn new(generation: Arc<Generation>, lane: usize) -> Live {
        let worker = generation.state.worker(lane);
        Live { generation, worker }
    }

    fn context<'a>(
        &'a mut self,
        memory: &'a mut PacketMemory,
        device: &'a mut dyn Device,
        trace: Option<&'a mut dyn TraceSink>,
    ) -> (&'a dyn Engine, Context<'a>) {
        let Live { generation, worker } = self;
        (&*generation.engine, Context { state: &generation.state, worker, memory, device, trace })
    }
}

impl Executor {
    /// Changes to a new program if there is one, and drops old ones that are done. Called by `ingress`.
    #[inline]
    pub fn refresh(&mut self) {
        let known = self.live.last().map(|live| live.generation.id);
        let latest = self.loaded.latest.load(Ordering::Acquire);
        if known != Some(latest) || self.live.len() > 1 {
            self.change(known);
        }
    }

    fn change(&mut self, known: Option<u16>) {
        let current = self.loaded.enter(known);
        if known != Some(current.id) {
            // The new one was entered before the old one is left: so one of them is in use at any time.
            if let Some(live) = self.live.last() {
                live.generation.workers.fetch_sub(1, Ordering::AcqRel);
            }
            self.live.retain(|live| live.generation.id != current.id);
            self.live.push(Live::new(Arc::clone(&current), self.lane));
        }
        if self.live.len() > 1 {
            self.live.retain(|live| live.generation.id == current.id || !live.generation.is_done());
        }
    }

    /// This worker's part of a program with packets in flight.
    #[inline(always)]
    fn find(&mut self, id: u16) -> Option<&mut Live> {
        match self.live.last().is_some_and(|live| live.generation.id == id) {
            true => self.live.last_mut(),
            false => self.find_older(id),
        }
    }

    #[inline(never)]
    fn find_older(&mut self, id: u16) -> Option<&mut Live> {
        if !self.live.iter().any(|live| live.generation.id == id) {
            let alive = self.loaded.alive.load();
            let alive = alive.iter().find(|alive| alive.id == id).cloned()?;
            // In front: the last one is that of new packets.
            self.live.insert(0, Live::new(alive, self.lane));
        }
        self.live.iter_mut().find(|live| live.generation.id == id)
    }

    /// The program of this worker's next packets.
    pub fn current(&self) -> Option<&Arc<Generation>> {
        self.live.last().map(|live| &live.generation)
    }

    /// The program with this number, while it has packets in flight.
    pub fn generation(&self, id: u16) -> Option<&Arc<Generation>> {
        self.live.iter().map(|live| &live.generation).find(|generation| generation.id == id)
    }

    /// Joins the program with this number, while it has packets in flight: another worker did their ingress.
    pub fn join(&mut self, id: u16) {
        self.find(id);
    }

    /// Ingress of a burst, on the current program; with `open`, egress at once for packets that leave by one of these
    /// ports ([`Engine::fused`]): they have [`Intrinsic::egress_done`] set.
    #[inline]
    pub fn ingress(
        &mut self,
        memory: &mut PacketMemory,
        device: &mut dyn Device,
        trace: Option<&mut dyn TraceSink>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: Option<&OpenPorts>,
    ) {
        self.refresh();
        self.ingress_of_current(memory, device, trace, packets, meta, open);
    }

    /// Ingress of packets that were in ingress before: metadata that a program carried is valid only for that program.
    pub fn ingress_again(
        &mut self,
        memory: &mut PacketMemory,
        device: &mut dyn Device,
        trace: Option<&mut dyn TraceSink>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
    ) {
        self.refresh();
        let current = self.current().map(|generation| generation.id);
        for packet in packets.iter_mut().filter(|packet| Some(packet.generation) != current) {
            packet.carried = [0; 16];
        }
        self.ingress_of_current(memory, device, trace, packets, meta, None);
    }

    #[inline(always)]
    fn ingress_of_current(
        &mut self,
        memory: &mut PacketMemory,
        device: &mut dyn Device,
        trace: Option<&mut dyn TraceSink>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: Option<&OpenPorts>,
    ) {
        let Some(live) = self.live.last_mut() else { return };
        for packet in packets.iter_mut() {
            packet.generation = live.generation.id;
        }
        let trace = trace.map(|sink| sink as &mut dyn TraceSink);
        let (engine, mut cx) = live.context(memory, device, trace);
        match open {
            Some(open) => engine.fused(&mut cx, packets, meta, open),
            None => engine.ingress(&mut cx, packets, meta),
        }
        let waits = |meta: &Intrinsic| meta.verdict() == Verdict::Forward && meta.egress_done == 0;
        let waiting = match (&*packets, &*meta) {
            // A single packet, the usual case in virtual time.
            ([_], [meta]) => waits(meta).into(),
            _ => meta.iter().take(packets.len()).filter(|meta| waits(meta)).count(),
        };
        live.generation.passing.enter(self.lane, waiting as u64);
    }

    /// True if egress of the current program does nothing, and this is its number.
    #[inline]
    pub fn has_no_egress(&self, id: u16) -> bool {
        let current = self.live.last().map(|live| &live.generation);
        current.is_some_and(|generation| generation.id == id && generation.skips_egress)
    }

    /// Counts `packets` more packets of the program with this number that will do egress.
    #[inline]
    pub fn count_in(&self, id: u16, packets: u64) {
        if let Some(generation) = self.generation(id) {
            generation.passing.enter(self.lane, packets);
        }
    }

    /// Uncounts a packet that passed ingress of the program with this number: it did egress, or will not, because it
    /// was dropped in the queue or is sent without it.
    #[inline]
    pub fn count_out(&self, id: u16) {
        if let Some(generation) = self.generation(id) {
            generation.passing.leave(self.lane, 1);
        }
    }

    /// Does egress of one packet that is not traced, if the program that did its ingress has none: the packet stays as
    /// it is. False: the caller must call [`Executor::egress`].
    #[inline]
    pub fn skips_egress(&mut self, id: u16) -> bool {
        let lane = self.lane;
        let Some(live) = self.find(id) else { return false };
        if live.generation.skips_egress {
            live.generation.passing.leave(lane, 1);
        }
        live.generation.skips_egress
    }

    /// Egress of a burst, each packet on the program that did its ingress; where that has none and packets are not
    /// traced, they stay as they are, and of the intrinsics only what is deferred is set. The caller counts each packet
    /// out ([`Executor::count_out`]) after what its egress decided, so that a copy is counted in before. A packet that belongs to no
    /// program that is loaded (its number is wrong) drops with reason `no_decision`.
    #[inline]
    pub fn egress(
        &mut self,
        memory: &mut PacketMemory,
        device: &mut dyn Device,
        mut trace: Option<&mut dyn TraceSink>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
    ) {
        if let [packet] = &*packets {
            return self.egress_of(packet.generation, memory, device, trace, packets, meta);
        }
        let (mut packets, mut meta) = (packets, meta);
        while let Some(first) = packets.first() {
            let id = first.generation;
            let run = packets.iter().take_while(|packet| packet.generation == id).count();
            let (these, rest) = packets.split_at_mut(run);
            let (these_meta, rest_meta) = meta.split_at_mut(run.min(meta.len()));
            (packets, meta) = (rest, rest_meta);
            let sink: Option<&mut dyn TraceSink> = match &mut trace {
                Some(sink) => Some(&mut **sink),
                None => None,
            };
            self.egress_of(id, memory, device, sink, these, these_meta);
        }
    }

    /// Egress of packets that all belong to the program with this number.
    #[inline]
    fn egress_of(
        &mut self,
        id: u16,
        memory: &mut PacketMemory,
        device: &mut dyn Device,
        trace: Option<&mut dyn TraceSink>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
    ) {
        let Some(live) = self.find(id) else {
            for meta in meta {
                meta.forward_plain();
                meta.verdict = Verdict::Drop as u8;
                meta.reason = BuiltinReason::NoDecision.id().0 as u16;
            }
            return;
        };
        if live.generation.skips_egress && trace.is_none() {
            for meta in meta {
                meta.forward_plain();
            }
            return;
        }
        let trace = trace.map(|sink| sink as &mut dyn TraceSink);
        let (engine, mut cx) = live.context(memory, device, trace);
        engine.egress(&mut cx, packets, meta);
    }

    /// Releases the tables; to be called before the worker sleeps, otherwise control-plane writes wait for it.
    pub fn release(&mut self) {
        for live in &mut self.live {
            live.worker.release();
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(live) = self.live.last() {
            live.generation.workers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests;
