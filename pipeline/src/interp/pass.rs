//! One packet through one control: the state of a pass, and the order of its steps.

use super::Interp;
use super::bridge::Scalars;
use crate::engine::{Context, Device};
use crate::exec::{Descriptor, Intrinsic, NO_PORT, PacketPath, Verdict, flags};
use crate::ids::*;
use crate::ir::{BuiltinReason, Half, Program};
use crate::packet::PacketMemory;
use crate::phv::bit;
use crate::state::{PassScratch, State};
use crate::trace::{Event, TraceSink};
use std::cell::Cell;
use wireyard_tables::Snapshot;
use wireyard_tables::time::Time;

/// Why a pass ends before the end of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `exit`.
    Exit,
    /// The packet drops.
    Drop(ReasonId),
    /// The packet goes to the CPU port.
    Punt(ReasonId),
    /// The parser failed. Ends parsing, not the pass.
    Reject(ErrorId),
}

/// Whether the packet is parsed again.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    No = 0,
    /// As this pass leaves it.
    AsLeft = 1,
    /// As it was received.
    Received = 2,
}

/// A packet that was in ingress before.
fn is_again(path: u8) -> bool {
    path == PacketPath::Resubmit as u8 || path == PacketPath::Recirculate as u8
}

/// A packet in a pass.
pub(super) struct Pass<'a> {
    pub(super) engine: &'a Interp,
    pub(super) program: &'a Program,
    pub(super) state: &'a State,
    pub(super) tables: &'a Snapshot,
    pub(super) scratch: &'a mut PassScratch,
    pub(super) memory: &'a mut PacketMemory,
    pub(super) device: &'a mut dyn Device,
    pub(super) sink: Option<&'a mut dyn TraceSink>,
    pub(super) packet: &'a mut Descriptor,
    pub(super) meta: &'a mut Intrinsic,
    pub(super) half: Half,
    /// Where the locals of the running body start.
    pub(super) base: usize,
    /// Its position. Compiled code has it too, so it is not copied for a step.
    pub(super) scalars: &'a mut Scalars,
    /// The failure inside the expression under evaluation.
    pub(super) trap: Cell<Option<End>>,
}

impl Interp {
    /// One packet through ingress or egress. `is_wanted` is true when the trace sink has already selected this packet.
    pub(crate) fn pass(
        &self,
        cx: &mut Context<'_>,
        packet: &mut Descriptor,
        meta: &mut Intrinsic,
        half: Half,
        is_wanted: bool,
    ) {
        let now = Time::from_ns(meta.now_ns);
        let mut scalars = Scalars::new(packet.len);
        let mut pass = self.begin(cx, packet, meta, &mut scalars, half, is_wanted);
        if half == Half::Egress && pass.is_identity() {
            pass.egress_unchanged();
            pass.end_trace();
            return;
        }
        let end = match half {
            Half::Ingress => pass.ingress(),
            Half::Egress => pass.egress(),
        };
        pass.conclude(end);
        pass.end_trace();
        if cx.worker.scratch.wants_to_learn() {
            cx.worker.apply_learns(cx.state, now);
        }
    }

    /// The start of a pass.
    pub(super) fn begin<'p>(
        &'p self,
        cx: &'p mut Context<'_>,
        packet: &'p mut Descriptor,
        meta: &'p mut Intrinsic,
        scalars: &'p mut Scalars,
        half: Half,
        is_wanted: bool,
    ) -> Pass<'p> {
        let mut sink: Option<&mut dyn TraceSink> = match &mut cx.trace {
            Some(sink) => Some(&mut **sink),
            None => None,
        };
        let bytes = || packet.buf.as_ref().map(|b| cx.memory.frame(b, packet.data_off, packet.len));
        if let Some(wanted) = &mut sink
            && !is_wanted
            && !wanted.wants(packet, bytes().unwrap_or_default(), half)
        {
            sink = None;
        }
        cx.worker.scratch.phv.reset();
        let mut pass = Pass {
            engine: self,
            program: &self.program,
            state: cx.state,
            tables: cx.worker.reader.pin(),
            scratch: &mut cx.worker.scratch,
            memory: cx.memory,
            device: cx.device,
            sink,
            packet,
            meta,
            half,
            base: 0,
            scalars,
            trap: Cell::new(None),
        };
        pass.start();
        pass
    }
}

impl Pass<'_> {
    /// The packet as received.
    pub(super) fn bytes(&self) -> &[u8] {
        let buf = self.packet.buf.as_ref();
        buf.map_or(&[], |buf| self.memory.frame(buf, self.packet.data_off, self.packet.len))
    }

    pub(super) fn body_len(&self) -> u32 {
        self.scalars.body_end - self.scalars.body_start
    }

    /// Bytes of the valid headers in front of the body.
    pub(super) fn emit_len(&self) -> u64 {
        let phv = &self.scratch.phv;
        self.engine.emitted(phv.valid).map(|i| phv.header(i).len() as u64).sum()
    }

    fn end_trace(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.end(self.packet);
        }
    }

    /// Passes an event to the trace, if there is one.
    pub(super) fn trace(&mut self, event: impl FnOnce(&Self) -> Event) {
        if self.sink.is_some() {
            let event = event(self);
            if let Some(sink) = &mut self.sink {
                sink.event(event);
            }
        }
    }

    /// Every decision at its default.
    pub(super) fn start(&mut self) {
        let meta = &mut *self.meta;
        meta.not_before_ns = 0;
        meta.hold_timeout_ns = 0;
        meta.checksum_error = 0;
        meta.crc_error = 0;
        meta.forward_plain();
        meta.reason = 0;
        meta.parser_error = 0;
        (meta.dscp, meta.pcp) = (0xff, 0xff);
        meta.egress_done = 0;
        if self.half == Half::Ingress {
            self.packet.egress_port = NO_PORT;
            self.packet.traffic_class = 0;
            self.packet.priority_group = 0;
            self.packet.flags = 0;
            if is_again(self.packet.path) {
                self.carried_in();
            }
        }
        self.trace(|pass| Event::Start {
            half: pass.half,
            port: match pass.half {
                Half::Ingress => pass.packet.ingress_port,
                Half::Egress => pass.packet.egress_port,
            },
            path: pass.packet.path,
            now_ns: pass.meta.now_ns,
            bytes: pass.bytes().to_vec(),
        });
    }

    fn ingress(&mut self) -> Result<(), End> {
        let parsed = self.parse();
        self.after_parse(parsed)?;
        self.run(&self.program.ingress)
    }

    /// The work between the parser and the control of ingress.
    pub(super) fn after_parse(&mut self, parsed: Result<(), End>) -> Result<(), End> {
        match parsed {
            Err(End::Reject(error)) => {
                self.meta.parser_error = error.0 as u8;
                self.tally(|statistics| &statistics.parser_errors, error.index());
                self.trace(|_| Event::ParserError(error));
                if self.program.parser.drop_on_error {
                    return Err(End::Drop(BuiltinReason::ParserError.id()));
                }
            }
            other => other?,
        }
        self.trace_body();
        self.check_sums()?;
        self.check_crcs()
    }

    fn egress(&mut self) -> Result<(), End> {
        self.before_egress()?;
        self.run(&self.program.egress)
    }

    /// Whether egress is the identity for this packet, which is not traced.
    fn is_identity(&self) -> bool {
        let packet = &*self.packet;
        let body_end = u64::from(packet.body_off) + u64::from(packet.body_len);
        let slack_goes = self.program.deparser.strip_slack && body_end < packet.len.into();
        self.engine.egress_is_identity && self.sink.is_none() && !slack_goes && !self.is_unparsed()
    }

    /// Egress of a program that changes nothing there: only the positions of the headers are written.
    fn egress_unchanged(&mut self) {
        if !self.engine.given_lengths.is_empty() {
            self.carried_in();
        }
        let mut at = 0;
        let mut valid = 0;
        let limit = u32::from(self.packet.body_off).min(self.packet.len) as usize;
        for instance in self.engine.emitted(self.packet.valid) {
            let Ok(len) = self.extract(instance, at, limit) else { break };
            at += len;
            valid |= bit(instance);
        }
        let end = u64::from(self.packet.body_off) + u64::from(self.packet.body_len);
        let end = end.min(self.packet.len.into()) as u32;
        self.packet.body_off = (at as u32).min(end) as u16;
        self.packet.body_len = end - u32::from(self.packet.body_off);
        self.packet.valid = valid;
        self.meta.verdict = Verdict::Forward as u8;
        self.meta.reason = BuiltinReason::None.id().0 as u16;
    }

    /// The work before the control of egress.
    pub(super) fn before_egress(&mut self) -> Result<(), End> {
        if let Some(first) = self.program.parser.egress {
            self.parse_again(first)?;
        } else if self.is_unparsed() {
            self.parse_copy()?;
        } else {
            self.carried_in();
            self.resume()?;
        }
        self.trace_body();
        self.check_sums()
    }

    /// A copy of the packet as received, whose headers have not been located.
    fn is_unparsed(&self) -> bool {
        let is_copy = self.packet.path == PacketPath::CloneIngress as u8;
        // The optimisation passes leave at least one block in a control that is not empty.
        is_copy && self.packet.valid == 0 && !self.program.egress.blocks.is_empty()
    }

    /// The parser of egress, on the packet as it is now.
    fn parse_again(&mut self, first: StateId) -> Result<(), End> {
        self.carried_in();
        match self.parse_from(first) {
            Err(End::Reject(error)) => {
                self.meta.parser_error = error.0 as u8;
                self.trace(|_| Event::ParserError(error));
                Ok(())
            }
            other => other,
        }
    }

    /// The parser, in egress. Its errors end parsing and are not counted twice; only carried metadata stays, with the
    /// lengths of headers as they were just parsed: ingress may have changed the headers that it left lengths of.
    fn parse_copy(&mut self) -> Result<(), End> {
        let parsed = self.parse();
        let (lengths, phv) = (&self.engine.given_lengths, &mut self.scratch.phv);
        phv.locals.extend(lengths.iter().map(|length| phv.meta[length.index()]));
        phv.meta.fill(0);
        self.carried_in();
        let phv = &mut self.scratch.phv;
        for (length, parsed) in lengths.iter().zip(phv.locals.drain(..)) {
            phv.meta[length.index()] = parsed;
        }
        match parsed {
            Err(End::Reject(error)) => self.trace(|_| Event::ParserError(error)),
            other => other?,
        }
        Ok(())
    }

    fn trace_body(&mut self) {
        self.trace(|pass| Event::Body {
            at: pass.scalars.body_start,
            len: pass.body_len(),
            slack: pass.packet.len - pass.scalars.slack_at,
        });
    }

    /// Verdict, clones, deparser, statistics.
    pub(super) fn conclude(&mut self, end: Result<(), End>) {
        if let Some(token) = self.scalars.release() {
            self.state.unlock(token);
        }
        let len = self.packet.len;
        let (mut verdict, mut reason) = self.decide(end);
        if self.goes_on() {
            self.carry();
        }
        if self.half == Half::Ingress && self.meta.clone_count > 0 {
            self.keep_original();
        }
        let is_as_received =
            verdict == Verdict::Resubmit && self.scalars.resubmit == Again::Received;
        if (verdict != Verdict::Drop && !is_as_received)
            || (self.half == Half::Egress && self.meta.clone_count > 0)
        {
            match self.deparse() {
                Ok(()) => self.map_class(),
                Err(end) => {
                    verdict = Verdict::Drop;
                    reason = match end {
                        End::Drop(cause) | End::Punt(cause) => cause,
                        _ => BuiltinReason::ArrayIndex.id(),
                    };
                    // Clones of egress are copies of what the deparser makes.
                    if self.half == Half::Egress {
                        self.lose_clones();
                    }
                }
            }
        }
        if self.program.carried_in_chunk() > 0
            && self.goes_on()
            && let Err(End::Drop(cause)) = self.carry_in_chunk(verdict != Verdict::Drop)
        {
            (verdict, reason) = (Verdict::Drop, cause);
        }
        self.meta.verdict = verdict as u8;
        self.meta.reason = reason.0 as u16;
        let statistics = self.state.statistics();
        match verdict {
            Verdict::Drop => statistics.drops.add(self.scratch.lane, reason.index(), len.into()),
            Verdict::Punt => statistics.punts.add(self.scratch.lane, reason.index(), len.into()),
            _ => {}
        }
        self.trace(|pass| Event::Verdict {
            verdict,
            reason,
            egress_port: pass.packet.egress_port,
            multicast_group: pass.meta.multicast_group,
            clones: pass.meta.clones[..usize::from(pass.meta.clone_count)].to_vec(),
            bytes: if verdict == Verdict::Drop { Vec::new() } else { pass.bytes().to_vec() },
        });
    }

    fn decide(&self, end: Result<(), End>) -> (Verdict, ReasonId) {
        let none = BuiltinReason::None.id();
        match end {
            Err(End::Drop(reason)) => (Verdict::Drop, reason),
            Err(End::Punt(reason)) => (Verdict::Punt, reason),
            Err(End::Reject(_)) => (Verdict::Drop, BuiltinReason::ParserError.id()),
            Ok(()) | Err(End::Exit) if self.half == Half::Egress => (Verdict::Forward, none),
            Ok(()) | Err(End::Exit) if self.scalars.resubmit != Again::No => {
                (Verdict::Resubmit, none)
            }
            Ok(()) | Err(End::Exit) => {
                match self.packet.egress_port == NO_PORT && self.meta.multicast_group == 0 {
                    true => (Verdict::Drop, BuiltinReason::NoDecision.id()),
                    false => (Verdict::Forward, none),
                }
            }
        }
    }

    /// Another reference to the packet as received, for the device to clone. As the bytes are then shared, the deparser
    /// writes to a copy.
    fn keep_original(&mut self) {
        self.meta.original = self.packet.buf.as_ref().and_then(|buf| self.memory.share(buf));
        self.meta.original_len = self.packet.len;
        self.meta.original_off = self.packet.data_off;
        if self.meta.original.is_none() {
            self.lose_clones();
        }
    }

    /// Makes none of the requested clones, and counts them.
    pub(super) fn lose_clones(&mut self) {
        for _ in 0..std::mem::take(&mut self.meta.clone_count) {
            self.tally(|statistics| &statistics.lost_clones, 0);
        }
    }

    /// DSCP and PCP of the packet as it leaves ingress, for the device's maps.
    fn map_class(&mut self) {
        if self.half == Half::Egress {
            return;
        }
        let read = |pair: &Option<(ExprId, ExprId)>| {
            let (value, present) = (*pair)?;
            let present = self.eval(present).is_ok_and(|present| present == 1);
            let value = if present { self.eval(value).ok()? } else { return None };
            Some(value as u8)
        };
        let (dscp, pcp) = (read(&self.program.qos.dscp), read(&self.program.qos.pcp));
        self.meta.dscp = dscp.unwrap_or(0xff);
        self.meta.pcp = pcp.unwrap_or(0xff);
    }

    pub(super) fn tally(
        &self,
        which: impl FnOnce(&crate::state::Statistics) -> &wireyard_tables::counter::CounterArray,
        index: usize,
    ) {
        which(self.state.statistics()).add(self.scratch.lane, index, self.packet.len.into());
    }

    pub(super) fn now(&self) -> Time {
        Time::from_ns(self.meta.now_ns)
    }

    pub(super) fn set_color(&mut self, color: u8) {
        let flags = &mut self.packet.flags;
        *flags = *flags & !(3 << flags::COLOR_SHIFT) | (color & 3) << flags::COLOR_SHIFT;
    }

    /// Marks a header whose bytes are no longer those that came with the packet.
    pub(super) fn made_new(&mut self, instance: InstanceId) {
        self.scratch.phv.received &= !bit(instance);
        for (owner, _, bit) in &self.engine.checksum_fields {
            if *owner == instance {
                self.scalars.assigned &= !bit;
            }
        }
    }
}
