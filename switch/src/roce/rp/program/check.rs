//! Declarations and statements to code: names, ranges of stored values, timers with a least length.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::ast::{AstExpr, Name, Path, Sp, StmtKind};
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;

use super::code::{ACK_HOPS, GAP, HOP, KNOWN, Op, Place, RATE, Reg, WINDOW};
use super::expr::Value;
use super::read::{Block, Statement};
use crate::roce::telemetry::HOPS_MAX;

/// The result of a function that reports its errors.
pub(super) type Found<T> = Option<T>;

/// Most registers of a program.
const REGISTERS_MAX: usize = 4096;
/// Most operations of a program.
const CODE_MAX: usize = 16_384;
/// The shortest timer, in nanoseconds, and the shortest byte counter.
pub(super) const LEAST_NS: i128 = 100;
pub(super) const LEAST_BYTES: i128 = 64;

/// Something with a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) value: Value,
    pub(super) kind: SlotKind,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    Known(Place),
    Parameter,
    State,
    /// State with a register for each hop, in a row.
    PerHop,
    Local,
}

/// The context of code: which names it may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) ack: bool,
    /// `nack`, `trim` and `timeout`.
    pub(super) loss: bool,
    /// A default, computed before there is a queue pair.
    pub(super) fixed: bool,
}

/// A program under construction.
pub(super) struct Compiler<'c, 'd> {
    /// Blocks for `call`.
    pub(super) controls: &'c [(Name, Block)],
    /// Those that are being written.
    calls: Vec<String>,
    pub(super) decoder: &'c mut Decoder<'d>,
    pub(super) slots: BTreeMap<String, Slot>,
    /// Names whose declaration has an error, which was reported.
    pub(super) broken: BTreeSet<String>,
    /// Initial values of the registers.
    pub(super) frame: Vec<i128>,
    pub(super) code: Vec<Op>,
    pub(super) timers: Vec<Name>,
    pub(super) counters: Vec<Name>,
    pub(super) scope: Scope,
    /// The hop of the current code.
    hop: Option<u16>,
    /// Acknowledgements bring telemetry.
    telemetry: bool,
    /// Effects of the current code.
    pub(super) sets_rate: bool,
    pub(super) sets_window: bool,
}

impl<'c, 'd> Compiler<'c, 'd> {
    pub(super) fn new(
        decoder: &'c mut Decoder<'d>,
        controls: &'c [(Name, Block)],
        telemetry: bool,
    ) -> Self {
        let slots = KNOWN.iter().chain(HOP).zip(0..).map(|(known, at)| {
            let value = Value { at, low: known.low, high: known.high, fraction: 0, truth: false };
            (known.name.to_owned(), Slot { value, kind: SlotKind::Known(known.place) })
        });
        let hops = std::iter::repeat_n(HOP, HOPS_MAX).flatten();
        Compiler {
            controls,
            calls: Vec::new(),
            decoder,
            slots: slots.collect(),
            broken: BTreeSet::new(),
            frame: KNOWN.iter().chain(hops).map(|known| known.low).collect(),
            code: Vec::new(),
            timers: Vec::new(),
            counters: Vec::new(),
            scope: Scope::default(),
            hop: None,
            telemetry,
            sets_rate: false,
            sets_window: false,
        }
    }

    /// Declares a name of the program.
    pub(super) fn declare(&mut self, name: &Name, slot: Slot) -> Found<()> {
        if matches!(name.value.as_str(), "std" | "ack" | "hop") {
            let message = format!("`{}` is a word of the language", name.value);
            return self.decoder.refuse(codes::RESERVED, name.span, message);
        }
        if self.slots.insert(name.value.clone(), slot).is_some() {
            let message = format!("`{}` is declared twice", name.value);
            return self.decoder.refuse(codes::TWICE, name.span, message);
        }
        Some(())
    }

    /// A register with this initial value.
    pub(super) fn register(&mut self, value: i128, span: SourceSpan) -> Found<Reg> {
        if self.frame.len() >= REGISTERS_MAX || self.code.len() >= CODE_MAX {
            let message = "this is more code than a rate control may have";
            return self.decoder.refuse(codes::TOO_DEEP, span, message);
        }
        self.frame.push(value);
        Some(self.frame.len() as Reg - 1)
    }

    pub(super) fn push(&mut self, op: Op) -> usize {
        self.code.push(op);
        self.code.len() - 1
    }

    /// The index of the next operation.
    pub(super) fn here(&self) -> u32 {
        self.code.len() as u32
    }

    /// The value of a name, in the context of this code.
    pub(super) fn read(&mut self, name: &Name) -> Found<Value> {
        let Some(slot) = self.slots.get(&name.value).copied() else {
            if self.broken.contains(&name.value) {
                return None;
            }
            let message = format!("there is no `{}`", name.value);
            let known: Vec<&str> = self.slots.keys().map(String::as_str).collect();
            let error = self.decoder.diagnostics.error(codes::UNKNOWN, name.span, message);
            error.did_you_mean(&name.value, known.iter().copied());
            if error.fixes.is_empty() {
                error.note(format!("there are {}", known.join(", ")));
            }
            return None;
        };
        let scope = self.scope;
        let (fits, where_) = match slot.kind {
            SlotKind::Known(Place::Fixed) | SlotKind::Parameter => (true, ""),
            SlotKind::Known(Place::Always | Place::Set) | SlotKind::State | SlotKind::Local => {
                (!scope.fixed, "when a queue pair is at work, not in a default or in `requires`")
            }
            SlotKind::Known(Place::Ack) => (scope.ack, "in `on: ack`"),
            SlotKind::Known(Place::Loss) => {
                (scope.loss, "in `on: nack`, `on: trim` and `on: timeout`")
            }
            SlotKind::Known(Place::Hop) | SlotKind::PerHop => {
                (self.hop.is_some(), "in `each_hop`, which `on: ack` has")
            }
        };
        if !fits {
            let message = format!("`{}` is known {where_}", name.value);
            return self.decoder.refuse(codes::WRONG_PLACE, name.span, message);
        }
        let hop = self.hop.unwrap_or(0);
        let at = match slot.kind {
            SlotKind::Known(Place::Hop) => slot.value.at + hop * HOP.len() as u16,
            SlotKind::PerHop => slot.value.at + hop,
            _ => slot.value.at,
        };
        Some(Value { at, ..slot.value })
    }

    /// Separate code, with its end; returns its start.
    pub(super) fn handler(&mut self, block: &Block, scope: Scope) -> u32 {
        let at = self.here();
        self.scope = scope;
        (self.sets_rate, self.sets_window) = (false, false);
        self.block(block);
        self.push(Op::End);
        at
    }

    /// Statements, and the names of `let` in them, whose scope ends with them.
    fn block(&mut self, block: &Block) {
        let mut locals = Vec::new();
        for statement in block {
            if let Some(local) = self.statement(statement) {
                locals.push(local);
            }
        }
        for local in locals {
            self.slots.remove(&local);
        }
    }

    /// A statement; returns the name that it declares.
    fn statement(&mut self, statement: &Statement) -> Option<String> {
        match statement {
            Statement::If { condition, then, or } => {
                let condition = self.truth(condition);
                let skip = self.push(Op::End);
                self.block(then);
                if or.is_empty() {
                    self.patch(skip, condition, self.here());
                    return None;
                }
                let over = self.push(Op::End);
                self.patch(skip, condition, self.here());
                self.block(or);
                self.code[over] = Op::Jump(self.here());
                None
            }
            Statement::Call(name) => {
                self.call_control(name);
                None
            }
            Statement::EachHop(block, span) => {
                self.each_hop(block, *span);
                None
            }
            Statement::Plain(kind, span) => self.plain(kind, *span),
        }
    }

    /// Statements once for each hop, one after the other: code has no loops. After the last hop of an acknowledgement
    /// it continues after all of them.
    fn each_hop(&mut self, block: &Block, span: SourceSpan) -> Found<()> {
        let problem = match (self.telemetry, self.scope.ack, self.hop) {
            (false, ..) => "`each_hop` needs `telemetry: hpcc` in `notification`",
            (_, false, _) => "`each_hop` is known in `on: ack`, which brings telemetry",
            (.., Some(_)) => "`each_hop` in itself: each would have all hops",
            _ => "",
        };
        if !problem.is_empty() {
            return self.decoder.refuse(codes::WRONG_PLACE, span, problem);
        }
        let mut ends = Vec::new();
        for hop in 0..HOPS_MAX as u16 {
            let number = self.literal(hop.into(), 0, span)?;
            let is_there = self.register(0, span)?;
            self.push(Op::Less(is_there, number.at, ACK_HOPS));
            ends.push((self.push(Op::End), is_there));
            self.hop = Some(hop);
            self.block(block);
        }
        self.hop = None;
        for (at, is_there) in ends {
            self.code[at] = Op::Unless(is_there, self.here());
        }
        Some(())
    }

    /// Inlines a block at its call: it may do whatever is permitted here.
    fn call_control(&mut self, name: &Name) -> Found<()> {
        let controls = self.controls;
        let Some((_, block)) = controls.iter().find(|(known, _)| known.value == name.value) else {
            let message = format!("there is no block `{}` in `controls`", name.value);
            let known = controls.iter().map(|(name, _)| name.value.as_str());
            let of = &mut self.decoder.diagnostics;
            of.error(codes::UNKNOWN, name.span, message).did_you_mean(&name.value, known);
            return None;
        };
        if self.calls.contains(&name.value) {
            let message = format!("`{}` calls itself", name.value);
            return self.decoder.refuse(codes::RECURSION, name.span, message);
        }
        self.calls.push(name.value.clone());
        self.block(block);
        self.calls.pop();
        Some(())
    }

    fn patch(&mut self, at: usize, condition: Found<Value>, to: u32) {
        if let Some(condition) = condition {
            self.code[at] = Op::Unless(condition.at, to);
        }
    }

    fn plain(&mut self, kind: &StmtKind, span: SourceSpan) -> Option<String> {
        match kind {
            StmtKind::Let(name, value) => {
                let local = self.local(name, value, span);
                if local.is_none() {
                    self.broken.insert(name.value.clone());
                }
                local
            }
            StmtKind::Assign(target, None, value) => {
                let found = self.expr(value);
                self.assign(target, found?, value.span);
                None
            }
            StmtKind::Call(name, arguments) => {
                self.procedure(name, arguments, span);
                None
            }
            _ => self
                .no(span, "a rate control has assignments, `let`, `arm`, `stop`, `if` and `call`"),
        }
    }

    /// Declares the name of a `let`, and returns it.
    fn local(&mut self, name: &Name, value: &AstExpr, span: SourceSpan) -> Found<String> {
        let found = self.expr(value)?;
        // The register of a name is not that of the local: a later assignment must not change it.
        let at = self.register(0, span)?;
        self.push(Op::Copy(at, found.at));
        self.declare(name, Slot { value: Value { at, ..found }, kind: SlotKind::Local })?;
        Some(name.value.clone())
    }

    fn assign(&mut self, target: &Sp<Path>, value: Value, span: SourceSpan) -> Found<()> {
        let Some(name) = target.value.plain() else {
            return self.no(target.span, "there are no arrays");
        };
        let to = self.read(&Sp::new(name.clone(), target.span))?;
        match self.slots.get(&name).map(|slot| slot.kind) {
            Some(SlotKind::State | SlotKind::PerHop | SlotKind::Known(Place::Set)) => {}
            _ => {
                let message = format!("`{name}` cannot be set");
                let of = &mut self.decoder.diagnostics;
                of.error(codes::NOT_ASSIGNABLE, target.span, message)
                    .note("`state`, `std.rate`, `std.window` and `std.gap_ns` can");
                return None;
            }
        }
        self.sets_rate |= to.at == RATE || to.at == GAP;
        self.sets_window |= to.at == WINDOW;
        self.store(to, value, span)
    }

    /// Stores a value: with the fraction of the place, rounded down, and clamped to its bounds.
    pub(super) fn store(&mut self, to: Value, value: Value, span: SourceSpan) -> Found<()> {
        let mut value = self.with_fraction(span, value, to.fraction)?;
        if value.low < to.low {
            let least = self.literal(to.low, to.fraction, span)?;
            let at = self.register(0, span)?;
            self.push(Op::Max(at, value.at, least.at));
            value.at = at;
        }
        if value.high > to.high {
            let most = self.literal(to.high, to.fraction, span)?;
            let at = self.register(0, span)?;
            self.push(Op::Min(at, value.at, most.at));
            value.at = at;
        }
        self.push(Op::Copy(to.at, value.at));
        Some(())
    }

    /// `arm(name, after)` and `stop(name)`.
    fn procedure(&mut self, name: &Name, arguments: &[AstExpr], span: SourceSpan) -> Found<()> {
        let arms = match (name.value.as_str(), arguments.len()) {
            ("arm", 2) => true,
            ("stop", 1) => false,
            _ => {
                let message = format!("there is no statement `{}(..)` with these", name.value);
                let of = &mut self.decoder.diagnostics;
                of.error(codes::ARGUMENTS, span, message)
                    .note("there are `arm(timer, after)` and `stop(timer)`");
                return None;
            }
        };
        let of = single(&arguments[0]);
        let place = |list: &[Name]| {
            let found = of.and_then(|of| list.iter().position(|name| name.value == of.value));
            found.map(|index| index as u8)
        };
        let (timer, counter) = (place(&self.timers), place(&self.counters));
        if timer.or(counter).is_none() {
            let names: Vec<&str> =
                self.timers.iter().chain(&self.counters).map(|name| name.value.as_str()).collect();
            let message = "this is no timer and no byte counter";
            let note = match names.is_empty() {
                true => "there is none: `timers` and `bytes` of this file declare them".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            let of = &mut self.decoder.diagnostics;
            of.error(codes::UNKNOWN, arguments[0].span, message).note(note);
            return None;
        }
        if !arms {
            self.push(timer.map_or(Op::StopCount(counter.unwrap_or(0)), Op::Stop));
            return Some(());
        }
        let found = self.expr(&arguments[1])?;
        let value = self.with_fraction(arguments[1].span, found, 0)?;
        let (least, what) = match timer {
            Some(_) => (
                LEAST_NS,
                "a timer that starts itself again must let time go by: it needs 100 ns or more",
            ),
            None => (LEAST_BYTES, "a byte counter needs 64 bytes or more"),
        };
        if value.low < least {
            let message = format!("this can be {}, and {what}", value.low);
            let of = &mut self.decoder.diagnostics;
            of.error(codes::RATE_CONTROL, arguments[1].span, message)
                .help(format!("write `max(x, {least})`, or give the parameter a `min`"));
            return None;
        }
        self.push(match timer {
            Some(timer) => Op::Arm(timer, value.at),
            None => Op::Count(counter.unwrap_or(0), value.at),
        });
        Some(())
    }
}

/// The name that an expression is.
fn single(expr: &AstExpr) -> Option<&Name> {
    match &expr.value {
        wireyard_pipeline::ast::Ast::Path(path) => path.single(),
        _ => None,
    }
}
