//! The engine: bursts to compiled code, packets that are traced to the interpreter.
#![allow(unsafe_code)]

use super::compiled::{Compiled, Facts};
use super::frame::Frame;
use super::{Options, Refused, Text};
use crate::exec::{Context, Descriptor, Engine, Intrinsic};
use crate::interp::Interp;
use crate::ir::Program;
use crate::state::State;
use std::sync::Arc;

/// The compiled engine of one program and one state.
#[derive(Debug)]
pub struct Jit {
    compiled: Compiled,
    interp: Interp,
    state: u64,
}

/// All that compiling needs, without the state itself: another thread can do it.
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

    pub(super) fn compile(self) -> Result<Jit, Refused> {
        let compiled = Compiled::new(&self.program, self.facts, self.options, None)?;
        Ok(Jit { compiled, interp: Interp::new(self.program), state: self.state })
    }
}

impl Jit {
    /// Compiles a program that the verifier accepts, for the state it will run with.
    ///
    /// # Errors
    /// See [`Refused`]; the interpreter runs it then.
    pub fn new(program: &Arc<Program>, state: &State, options: Options) -> Result<Jit, Refused> {
        Recipe::new(program, state, options).compile()
    }

    /// The code of a program as text, for people.
    ///
    /// # Errors
    /// As [`Jit::new`].
    pub fn text(program: &Program, state: &State, options: Options) -> Result<Text, Refused> {
        let mut text = Text::default();
        Compiled::new(program, Facts::new(state), options, Some(&mut text))?;
        Ok(text)
    }

    /// True when packets of this control are worked on in place, with a copy of the control for each
    /// path through the parser.
    pub fn is_in_place(&self, egress: bool) -> bool {
        self.compiled.is_in_place(egress)
    }

    fn run(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        egress: bool,
    ) {
        let count = packets.len().min(meta.len());
        let fits = cx.state.id() == self.state && cx.worker.state == self.state;
        let mut at = 0;
        while at < count {
            if !fits || self.is_traced(cx, &packets[at], egress) {
                self.interp.pass(cx, &mut packets[at], &mut meta[at], egress, fits);
                at += 1;
                continue;
            }
            let rest = &packets[at + 1..count];
            let plain = match cx.trace {
                Some(_) => rest.iter().take_while(|p| !self.is_traced(cx, p, egress)).count(),
                None => rest.len(),
            };
            let stop = at + 1 + plain;
            self.burst(cx, &mut packets[at..stop], &mut meta[at..stop], egress);
            at = stop;
        }
    }

    fn is_traced(&self, cx: &mut Context<'_>, packet: &Descriptor, egress: bool) -> bool {
        let Some(sink) = &mut cx.trace else { return false };
        let buf = packet.buf.as_ref();
        let bytes = buf.map_or(&[][..], |b| cx.memory.frame(b, packet.data_off, packet.len));
        sink.wants(packet, bytes, egress)
    }

    /// Packets that nobody traces.
    fn burst(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        egress: bool,
    ) {
        let in_place = self.compiled.is_in_place(egress);
        let mut at = 0;
        while at < packets.len() {
            let (packets, meta) = (&mut packets[at..], &mut meta[at..]);
            let mut done = 0;
            let frame = self.frame(cx, egress);
            if in_place {
                let count = packets.len().min(u32::MAX as usize) as u32;
                // SAFETY: the frame was made for this context, state and worker, which were checked
                // to be those that the code was made for; the slices are `count` long.
                done = unsafe {
                    let (packets, meta) = (packets.as_mut_ptr(), meta.as_mut_ptr());
                    self.compiled.run_in_place(frame, packets, meta, count)
                };
            }
            let learned = cx.worker.bench.wants_to_learn();
            if !learned
                && let (Some(packet), Some(meta)) = (packets.get_mut(done), meta.get_mut(done))
            {
                self.one(cx, frame, packet, meta);
                done += 1;
            }
            if cx.worker.bench.wants_to_learn() {
                let now = meta.get(done.saturating_sub(1)).map_or(0, |meta| meta.now_ns);
                let now = wireyard_tables::time::Time::from_ns(now);
                cx.worker.apply_learns(cx.state, now);
            }
            at += done.max(1);
        }
    }

    /// One packet by the code for any program.
    fn one(
        &self,
        cx: &mut Context<'_>,
        frame: *mut Frame,
        packet: &mut Descriptor,
        meta: &mut Intrinsic,
    ) {
        let buf = packet.buf.as_ref();
        let bytes = buf.map_or(&[][..], |b| cx.memory.frame(b, packet.data_off, packet.len));
        let (data, len) = (bytes.as_ptr().cast_mut(), bytes.len() as u64);
        // SAFETY: the frame is the worker's own, and alive; the code reads the packet's bytes only.
        unsafe {
            ((*frame).data, (*frame).data_len) = (data, len);
            ((*frame).packet, (*frame).intrinsic) = (packet, meta);
            self.compiled.run_any(frame);
        }
    }

    /// The worker's frame with the addresses of this burst in it.
    fn frame(&self, cx: &mut Context<'_>, egress: bool) -> *mut Frame {
        let context: *mut Context<'_> = cx;
        let lane = cx.worker.bench.lane;
        let snapshot = cx.worker.reader.pin();
        let frame = cx.worker.compiled.frame(cx.state, snapshot, lane);
        let (bytes, slots, words) = cx.worker.bench.phv.raw();
        frame.phv_bytes = bytes.as_mut_ptr();
        frame.slots = slots.as_mut_ptr();
        frame.meta_words = words.as_mut_ptr();
        frame.set_region(&cx.memory.region_layout());
        frame.egress = egress.into();
        frame.cx = context.cast();
        frame.interp = &self.interp;
        frame.ops = &self.compiled.lists;
        frame
    }
}

impl Engine for Jit {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.run(cx, packets, meta, false);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.run(cx, packets, meta, true);
    }
}
