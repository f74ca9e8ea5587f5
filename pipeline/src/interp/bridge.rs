//! The interpreter's steps, one by one, for compiled code.
//!
//! Compiled code does most of a pass by itself and leaves rare or long work to these steps. Between two steps the state
//! of the pass is in the packet header vector of the worker and in [`Scalars`]; a step builds a [`Pass`] of them, does
//! what the interpreter does, and writes them back.

use super::Interp;
use super::pass::{Again, End, Pass};
use crate::engine::Context;
use crate::exec::{Descriptor, Intrinsic};
use crate::ids::*;
use crate::ir::{Half, Op, ParserOp};
use wireyard_tables::Snapshot;

/// State of a pass beside headers, metadata and locals. Compiled code reads and writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalars {
    /// Valid headers.
    pub(crate) valid: u64,
    /// Headers of the received packet.
    pub(crate) received: u64,
    /// Bits that the parser has consumed.
    pub(crate) cursor_bits: u64,
    /// Checksums whose field was assigned.
    pub(crate) assigned: u64,
    /// CRCs that the program requested (`update_crc`).
    pub(crate) asked_crcs: u64,
    /// Offset of the body.
    pub(crate) body_start: u32,
    /// Offset of its end.
    pub(crate) body_end: u32,
    /// Offset of the bytes behind the last trailer.
    pub(crate) slack_at: u32,
    /// Bytes to cut the packet to.
    pub(crate) truncate_to: u32,
    /// Parse again.
    pub(crate) resubmit: Again,
    /// The lock held by the current register update, or [`NO_LOCK`].
    pub(crate) lock: u32,
}

/// No lock is held.
pub(crate) const NO_LOCK: u32 = u32::MAX;

/// A step of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// Load the metadata of the packet.
    CarriedIn,
    /// An operation of a parser state.
    ParserOp(&'a ParserOp),
    /// The parser stopped, with this end: body, trailers, checksums.
    Parsed(u64),
    /// Start of egress: metadata, headers, checksums.
    Resume,
    /// An operation of a control.
    Op(&'a Op),
    /// The value of an expression: the first local after the step.
    Eval(ExprId),
    /// Verdict, checksums, deparser, statistics, with this end.
    Conclude(u64),
}

/// How a step or a pass ended, as a number: 0 if it has not ended, otherwise a kind in the upper half and a reason or
/// an error in the lower.
pub(crate) mod end {
    /// `exit`.
    pub(crate) const EXIT: u64 = 1 << 32;
    /// Drop for a reason.
    pub(crate) const DROP: u64 = 2 << 32;
    /// Punt for a reason.
    pub(crate) const PUNT: u64 = 3 << 32;
    /// A parser error.
    pub(crate) const REJECT: u64 = 4 << 32;
    /// The pass is concluded: there is no step left.
    pub(crate) const CONCLUDED: u64 = 5 << 32;
}

fn encode(result: Result<(), End>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(End::Exit) => end::EXIT,
        Err(End::Drop(reason)) => end::DROP | u64::from(reason.0),
        Err(End::Punt(reason)) => end::PUNT | u64::from(reason.0),
        Err(End::Reject(error)) => end::REJECT | u64::from(error.0),
    }
}

fn decode(code: u64) -> Result<(), End> {
    let low = code as u32;
    match code & !u64::from(u32::MAX) {
        0 => Ok(()),
        end::EXIT => Err(End::Exit),
        end::PUNT => Err(End::Punt(ReasonId(low))),
        end::REJECT => Err(End::Reject(ErrorId(low))),
        _ => Err(End::Drop(ReasonId(low))),
    }
}

/// A packet between two steps.
pub(crate) struct Work<'w> {
    /// The version of the tables that is pinned.
    pub(crate) tables: &'w Snapshot,
    /// The packet.
    pub(crate) packet: &'w mut Descriptor,
    /// Its intrinsic metadata.
    pub(crate) meta: &'w mut Intrinsic,
    /// Ingress or egress.
    pub(crate) half: Half,
    /// The rest of the pass.
    pub(crate) scalars: &'w mut Scalars,
    /// Locals of the current body; changed by the step.
    pub(crate) locals: &'w mut [u128],
}

impl Scalars {
    /// Of a pass that begins.
    pub(crate) fn new(len: u32) -> Scalars {
        Scalars {
            valid: 0,
            received: 0,
            cursor_bits: 0,
            assigned: 0,
            asked_crcs: 0,
            body_start: 0,
            body_end: len,
            slack_at: len,
            truncate_to: u32::MAX,
            resubmit: Again::No,
            lock: NO_LOCK,
        }
    }

    /// A lock is held.
    pub(super) fn is_locked(&self) -> bool {
        self.lock != NO_LOCK
    }

    /// This lock is held from here on.
    pub(super) fn hold(&mut self, lock: Option<u32>) {
        self.lock = lock.unwrap_or(NO_LOCK);
    }

    /// Takes the lock that is held, so that none is afterwards.
    pub(super) fn release(&mut self) -> Option<u32> {
        Some(std::mem::replace(&mut self.lock, NO_LOCK)).filter(|lock| *lock != NO_LOCK)
    }
}

impl Interp {
    /// Does a step; returns how it ended. Inlined: each caller does one kind of step, so its parts need not go through
    /// memory.
    #[inline(always)]
    pub(crate) fn step(&self, cx: &mut Context<'_>, work: Work<'_>, step: Step<'_>) -> u64 {
        let Work { tables, packet, meta, half, scalars, locals } = work;
        let scratch = &mut cx.worker.scratch;
        (scratch.phv.valid, scratch.phv.received) = (scalars.valid, scalars.received);
        // The other steps are between two bodies.
        let has_locals = matches!(step, Step::ParserOp(_) | Step::Op(_) | Step::Eval(_));
        scratch.phv.locals.clear();
        if has_locals {
            scratch.phv.locals.extend_from_slice(locals);
        }
        let mut pass = Pass {
            engine: self,
            program: &self.program,
            state: cx.state,
            tables,
            scratch,
            memory: cx.memory,
            device: cx.device,
            sink: None,
            packet,
            meta,
            half,
            base: 0,
            scalars,
            trap: std::cell::Cell::new(None),
        };
        let code = encode(pass.step(step));
        let phv = &pass.scratch.phv;
        (pass.scalars.valid, pass.scalars.received) = (phv.valid, phv.received);
        if has_locals {
            locals.iter_mut().zip(&phv.locals).for_each(|(to, from)| *to = *from);
        }
        code
    }
}

impl<'a> Pass<'a> {
    #[inline(always)]
    fn step(&mut self, step: Step<'a>) -> Result<(), End> {
        match step {
            Step::CarriedIn => self.carried_in(),
            Step::ParserOp(op) => self.parser_op(op)?,
            Step::Parsed(code) => {
                self.scratch.phv.tail.fill(Default::default());
                let framed = self.find_body();
                let parsed = decode(code).and(framed);
                self.after_parse(parsed)?;
            }
            Step::Resume => {
                self.scratch.phv.reset();
                self.before_egress()?;
            }
            Step::Op(op) => self.op(op, None)?,
            Step::Eval(expr) => {
                let value = self.eval(expr)?;
                if let Some(to) = self.scratch.phv.locals.first_mut() {
                    *to = value;
                }
            }
            Step::Conclude(code) => self.conclude(decode(code)),
        }
        Ok(())
    }
}
