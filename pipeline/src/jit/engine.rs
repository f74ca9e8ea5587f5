//! The engine: bursts to compiled code, traced packets to the interpreter.
#![allow(unsafe_code)]

use super::compiled::{Compiled, Facts};
use super::prefetch::Prefetch;
use super::vm_context::{Home, Scratch, VmContext};
use super::{CompileError, Options, Text};
use crate::engine::{Context, Engine};
use crate::exec::{Decision, Descriptor, Intrinsic, OpenPorts};
use crate::interp::Interp;
use crate::ir::{Half, Program};
use crate::state::{State, Worker};
use std::ptr::null;
use std::sync::Arc;
use wireyard_tables::time::Time;

/// The compiled engine of one program and one state.
#[derive(Debug)]
pub struct Jit {
    compiled: Arc<Compiled>,
    interp: Interp,
    prefetch: Prefetch,
    state: u64,
}

/// Flags with all ports closed.
static CLOSED: [bool; 1 << 16] = [false; 1 << 16];

/// The passes of a burst.
#[derive(Clone, Copy)]
struct Passes<'a> {
    half: Half,
    /// After ingress, egress for packets that leave by one of these ports.
    open: Option<&'a OpenPorts>,
}

const INGRESS: Passes<'static> = Passes { half: Half::Ingress, open: None };
const EGRESS: Passes<'static> = Passes { half: Half::Egress, open: None };

impl<'a> Passes<'a> {
    fn fused(open: &'a OpenPorts) -> Passes<'a> {
        Passes { open: Some(open), ..INGRESS }
    }
}

/// The part of a burst that path-specialised code has done.
struct Part {
    vm: *mut VmContext,
    /// Packets that are done.
    done: usize,
    /// The next one has done ingress only.
    ingress_only: bool,
}

impl Part {
    /// Nothing is left to do.
    #[inline]
    fn is_all(&self, cx: &Context<'_>, packets: &[Descriptor]) -> bool {
        self.done == packets.len() && !self.ingress_only && !cx.worker.scratch.wants_to_learn()
    }
}

/// All inputs of the compiler, without the state itself, so that another thread can compile.
#[derive(Clone)]
pub(super) struct Recipe {
    program: Arc<Program>,
    facts: Facts,
    state: u64,
    options: Options,
}

impl Recipe {
    pub(super) fn new(program: &Arc<Program>, state: &State, options: Options) -> Recipe {
        let (program, facts) = (program.clone(), Facts::new(state));
        Recipe { program, facts, state: state.id(), options }
    }

    /// The same program with code of another level.
    pub(super) fn at_level(&self, level: u8) -> Recipe {
        Recipe { options: Options { level }, ..self.clone() }
    }

    pub(super) fn compile(self) -> Result<Jit, CompileError> {
        let compiled = Compiled::new(&self.program, &self.facts, self.options, None)?;
        Ok(Jit::of(Arc::new(compiled), self.program, &self.facts, self.state))
    }
}

impl Jit {
    /// Compiles a program that the verifier accepts, for the state it will run with.
    ///
    /// # Errors
    /// See [`CompileError`]; the interpreter runs it then.
    pub fn new(
        program: &Arc<Program>,
        state: &State,
        options: Options,
    ) -> Result<Jit, CompileError> {
        Recipe::new(program, state, options).compile()
    }

    /// An engine for one of the states with these facts, with compiled code for them.
    pub(super) fn of(
        compiled: Arc<Compiled>,
        program: Arc<Program>,
        facts: &Facts,
        state: u64,
    ) -> Jit {
        let prefetch = Prefetch::new(&program, facts);
        Jit { compiled, interp: Interp::new(program), prefetch, state }
    }

    /// The code of a program as text.
    ///
    /// # Errors
    /// As [`Jit::new`].
    pub fn text(program: &Program, state: &State, options: Options) -> Result<Text, CompileError> {
        let mut text = Text::default();
        Compiled::new(program, &Facts::new(state), options, Some(&mut text))?;
        Ok(text)
    }

    #[cfg(test)]
    pub(super) fn shares_code(&self, other: &Jit) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
    }

    /// Before a burst is run, lines of tables that search at least this much memory are prefetched, if their keys can
    /// be computed then; `usize::MAX` disables it. The default is the measured break-even; this is for measuring it.
    pub fn set_prefetch_least_bytes(&mut self, bytes: usize) {
        self.prefetch.set_least_bytes(bytes);
    }

    /// True when this control has path-specialised code: a copy of the control for each path through the parser.
    pub fn is_specialised(&self, half: Half) -> bool {
        self.compiled.is_specialised(half)
    }

    #[inline]
    fn run(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
    ) {
        let count = packets.len().min(meta.len());
        let fits = cx.state.id() == self.state && cx.worker.state == self.state;
        if fits && cx.trace.is_none() {
            return self.burst(cx, &mut packets[..count], &mut meta[..count], which);
        }
        self.run_traced(cx, &mut packets[..count], &mut meta[..count], which, fits);
    }

    /// Packets some of which may be traced, or that come with the state of another program.
    #[inline(never)]
    fn run_traced(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
        fits: bool,
    ) {
        let (count, half) = (packets.len(), which.half);
        let scope = cx.trace.as_ref().map(|sink| sink.scope());
        if fits && !scope.is_some_and(|scope| scope.has_any(packets)) {
            return self.burst(cx, packets, meta, which);
        }
        // A sink is called once about a packet: `is_wanted` is true if it selected the next one.
        let (mut at, mut is_wanted) = (0, false);
        while at < count {
            if !fits || is_wanted || self.is_traced(cx, &packets[at], half) {
                is_wanted = false;
                let (packet, meta) = (&mut packets[at..=at], &mut meta[at..=at]);
                self.interp.pass(cx, &mut packet[0], &mut meta[0], half, fits);
                self.go_on(cx, packet, meta, which);
                at += 1;
                continue;
            }
            let rest = &packets[at + 1..count];
            let plain = match cx.trace {
                Some(_) => rest.iter().take_while(|p| !self.is_traced(cx, p, half)).count(),
                None => rest.len(),
            };
            let stop = at + 1 + plain;
            is_wanted = cx.trace.is_some() && stop < count;
            self.burst(cx, &mut packets[at..stop], &mut meta[at..stop], which);
            at = stop;
        }
    }

    fn is_traced(&self, cx: &mut Context<'_>, packet: &Descriptor, half: Half) -> bool {
        let Some(sink) = &mut cx.trace else { return false };
        if !sink.scope().has_any(std::slice::from_ref(packet)) {
            return false;
        }
        let buf = packet.buf.as_ref();
        let bytes = buf.map_or(&[][..], |b| cx.memory.frame(b, packet.data_off, packet.len));
        sink.wants(packet, bytes, half)
    }

    /// Egress for a packet that has done ingress, if it may leave at once.
    fn go_on(
        &self,
        cx: &mut Context<'_>,
        packet: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
    ) {
        if let (Some(open), [first], [decided]) = (which.open, &*packet, &*meta)
            && Decision::is_plain(first, decided, open)
        {
            self.run(cx, packet, meta, EGRESS);
            meta[0].egress_done = 1;
        }
    }

    /// Packets that are not traced.
    #[inline]
    fn burst(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
    ) {
        if which.half == Half::Ingress {
            self.prefetch.ahead(cx, packets);
        }
        if !self.compiled.is_specialised(which.half) && which.open.is_none() {
            return self.generic(cx, packets, meta, which);
        }
        let part = self.specialised(cx, packets, meta, which);
        if !part.is_all(cx, packets) {
            self.finish(cx, packets, meta, which, part);
        }
    }

    /// A burst of a control that has no path-specialised code, where no other pass follows for a packet: the context
    /// stays as it is until tables learn.
    #[inline(never)]
    fn generic(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
    ) {
        let mut vm = self.context(cx, which);
        for (packet, meta) in packets.iter_mut().zip(meta) {
            self.one(cx, vm, packet, meta);
            if cx.worker.scratch.wants_to_learn() {
                cx.worker.apply_learns(cx.state, Time::from_ns(meta.now_ns));
                vm = self.context(cx, which);
            }
        }
    }

    /// The rest of a burst after its first part.
    #[inline(never)]
    fn finish(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
        mut part: Part,
    ) {
        let mut at = 0;
        loop {
            at += self.go_past(cx, &mut packets[at..], &mut meta[at..], which, &part);
            if at >= packets.len() {
                return;
            }
            part = self.specialised(cx, &mut packets[at..], &mut meta[at..], which);
            if part.is_all(cx, &packets[at..]) {
                return;
            }
        }
    }

    /// Runs path-specialised code from the first packet on.
    #[inline(always)]
    fn specialised(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
    ) -> Part {
        let vm = self.context(cx, which);
        let count = packets.len().min(u32::MAX as usize) as u32;
        let (packets, meta) = (packets.as_mut_ptr(), meta.as_mut_ptr());
        // SAFETY: the context was made for this context, state and worker, which were checked to be those
        // that the code was made for; the slices are `count` long.
        let (done, ingress_only) =
            unsafe { self.compiled.run_specialised(vm, packets, meta, count, which.half) };
        Part { vm, done, ingress_only }
    }

    /// Path-specialised code has done a part and stopped: the next packet has done ingress only, or needs generic code,
    /// or there is something to learn. Returns the number of packets done now.
    fn go_past(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        which: Passes<'_>,
        part: &Part,
    ) -> usize {
        let Part { vm, mut done, ingress_only } = *part;
        let mut stopped = ingress_only;
        if !cx.worker.scratch.wants_to_learn()
            && !ingress_only
            && let (Some(packet), Some(meta)) = (packets.get_mut(done), meta.get_mut(done))
        {
            self.one(cx, vm, packet, meta);
            stopped = true;
        }
        if cx.worker.scratch.wants_to_learn() {
            let last = if stopped { done } else { done.saturating_sub(1) };
            let now = meta.get(last).map_or(0, |meta| meta.now_ns);
            cx.worker.apply_learns(cx.state, Time::from_ns(now));
        }
        if stopped {
            self.go_on(cx, &mut packets[done..=done], &mut meta[done..=done], which);
            done += 1;
        }
        done.max(1)
    }

    /// One packet by generic code.
    fn one(
        &self,
        cx: &mut Context<'_>,
        vm: *mut VmContext,
        packet: &mut Descriptor,
        meta: &mut Intrinsic,
    ) {
        let buf = packet.buf.as_ref();
        let chunk = buf.map_or(&[][..], |b| cx.memory.bytes(b));
        let bytes = buf.map_or(&[][..], |b| cx.memory.frame(b, packet.data_off, packet.len));
        let (data, len) = (bytes.as_ptr().cast_mut(), bytes.len() as u64);
        // SAFETY: the context is the worker's own, and alive; the code reads the bytes of the packet's chunk, and
        // writes them where the chunk is not shared.
        unsafe {
            (*vm).chunk = if chunk.is_empty() { null() } else { chunk.as_ptr() };
            ((*vm).data, (*vm).data_len) = (data, len);
            ((*vm).packet, (*vm).intrinsic) = (packet, meta);
            self.compiled.run_generic(vm);
        }
    }

    /// The worker's context with the addresses of this burst in it.
    #[inline(always)]
    fn context(&self, cx: &mut Context<'_>, which: Passes<'_>) -> *mut VmContext {
        let context: *mut Context<'_> = cx;
        let Worker { reader, scratch, engine, .. } = &mut *cx.worker;
        let home = Home { ops: &self.compiled.lists, interp: &self.interp, memory: cx.memory };
        let vm = engine.get::<Scratch>().context(cx.state, reader.pin(), scratch, &home);
        vm.half = which.half;
        let open = which.open.map_or(&CLOSED, OpenPorts::flags);
        vm.open = open.as_ptr();
        vm.cx = context.cast();
        vm
    }
}

impl Engine for Jit {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn program(&self) -> &Arc<Program> {
        self.interp.program()
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.run(cx, packets, meta, INGRESS);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.run(cx, packets, meta, EGRESS);
    }

    fn fused(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: &OpenPorts,
    ) {
        if self.compiled.is_specialised(Half::Ingress) && !self.compiled.is_fused() {
            // Path-specialised code would do ingress of the whole burst first.
            for (packet, meta) in packets.iter_mut().zip(meta) {
                let (packet, meta) = (std::slice::from_mut(packet), std::slice::from_mut(meta));
                self.run(cx, packet, meta, INGRESS);
                self.go_on(cx, packet, meta, Passes::fused(open));
            }
            return;
        }
        self.run(cx, packets, meta, Passes::fused(open));
    }
}
