//! Rate controls as programs: one YAML file in the language of the pipeline, run for each queue pair.
//!
//! A program declares parameters with units, state with widths, and statements for events: a CNP, an acknowledgement
//! with its round-trip time and echo of marks, a NACK, a timeout, timers and byte counters of its own. It sets
//! `std.rate`, `std.window` and `std.gap_ns`. [`Program::parse`] checks it, with all errors at their places; [`Instance`] is a
//! program with the parameters of a host; [`Machine`] is one queue pair.
//!
//! It is interpreted: events are per CNP and per acknowledgement, not per byte. Every value is an exact integer with a
//! known range and binary point, so that a run is the same on every machine. The language is described in
//! `programs/rate_control/README.md`.

use std::sync::Arc;

use wireyard_pipeline::ast::Name;
use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{self, Decoder};
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Span;

mod check;
mod code;
mod expr;
mod machine;
mod parameter;
mod read;
mod requires;
#[cfg(test)]
mod tests;

pub use machine::Machine;
pub use parameter::{Parameter, ParameterError, Unit};
pub use read::{RATE_CONTROL, schema};

use check::{Compiler, Scope, Slot, SlotKind};
use code::{LINE, Op, PACKET, Reg};
use expr::Value;
use read::Declared;
use requires::Requirement;

use crate::roce::telemetry::HOPS_MAX;
use crate::units::Dilation;

/// Most timers and byte counters of a program.
const TIMERS_MAX: usize = 16;

/// How marks of the data are returned to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// As CNPs of the notification point.
    #[default]
    Cnp,
    /// As BECN of the acknowledgement, which InfiniBand has and RoCEv2 does not: one bit for all packets that it
    /// acknowledges.
    Ack,
    /// Not at all.
    Nowhere,
}

/// A program's requirements on the receiver and on acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// How marks are returned.
    pub marks: Marks,
    /// Least time between two CNPs.
    pub cnp_interval: Span,
    /// Packets for each acknowledgement.
    pub ack_every: u32,
    /// Data packets have room for path telemetry of switches, and acknowledgements return it.
    pub telemetry: bool,
}

/// Code by what happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Events {
    start: Option<u32>,
    cnp: Option<u32>,
    ack: Option<u32>,
    nack: Option<u32>,
    trim: Option<u32>,
    timeout: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timer {
    code: u32,
    /// It may change rate or window, so the owner runs it when it ends.
    sets_rate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StateSlot {
    name: String,
    reg: Reg,
    fraction: u8,
}

/// The state that plots show: register and bits of fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shows {
    target: Option<(Reg, u8)>,
    estimate: Option<(Reg, u8)>,
}

/// A checked program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    name: String,
    notification: Notification,
    parameters: Vec<Parameter>,
    requires: Vec<Requirement>,
    state: Vec<StateSlot>,
    frame: Vec<i128>,
    code: Vec<Op>,
    events: Events,
    timers: Vec<Timer>,
    counters: Vec<u32>,
    sets_window: bool,
    shows: Shows,
    estimate: Option<Estimate>,
}

/// A program's congestion estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The state that has it.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
}

impl Program {
    /// Reads a program from the text of its file.
    ///
    /// # Errors
    /// All errors, with their places.
    pub fn parse(file: &str, text: &str) -> Result<Program, Rejected> {
        let (mut files, mut found) = (Files::new(), Diagnostics::new());
        let program = Program::parse_into(file, text, &mut files, &mut found);
        match program {
            Some(program) if !found.has_errors() => Ok(program),
            _ => Err(Rejected { diagnostics: found, files }),
        }
    }

    /// The same with the files and diagnostics of a file that uses it; `None`: the errors were reported.
    pub fn parse_into(
        file: &str,
        text: &str,
        files: &mut Files,
        found: &mut Diagnostics,
    ) -> Option<Program> {
        let before = found.counts().0;
        let node = decode::from_text(file, text, files, found)?;
        let program = Program::decode(&mut Decoder::new(files, found), &node);
        program.filter(|_| found.counts().0 == before)
    }

    fn decode(decoder: &mut Decoder<'_>, node: &Node) -> Option<Program> {
        let declared = read::file(decoder, node)?;
        compile(decoder, &declared)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The state that it shows as its congestion estimate, if any.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.estimate.as_ref()
    }

    /// Its requirements on the receiver.
    pub fn notification(&self) -> Notification {
        self.notification
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
}

/// A program with its parameters, for one sender.
#[derive(Clone, Debug)]
pub struct Instance {
    program: Arc<Program>,
    /// Initial values of the registers of a queue pair.
    frame: Box<[i128]>,
    /// Dilation of the links.
    dilation: u64,
}

/// Properties of a sender.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Rate of its link, bit/s.
    pub line_rate_bps: u64,
    /// Payload of a full packet.
    pub packet_bytes: u32,
    /// Dilation of the scenario.
    pub dilation: Dilation,
}

impl Instance {
    /// A program for a sender with these parameters by name, in the least unit, and the defaults of the others.
    ///
    /// # Errors
    /// An invalid parameter, or parameters that contradict each other.
    pub fn new(
        program: &Arc<Program>,
        sender: &Sender,
        given: &[(String, i128)],
    ) -> Result<Instance, ParameterError> {
        let mut frame = program.frame.clone();
        let factor = i128::from(sender.dilation.get());
        // Defaults are computed for the fast link; the final registers are for this one.
        frame[usize::from(LINE)] = i128::from(sender.line_rate_bps.max(1)) * factor;
        frame[usize::from(PACKET)] = sender.packet_bytes.max(1).into();
        for parameter in &program.parameters {
            match given.iter().find(|(name, _)| *name == parameter.name) {
                Some((_, value)) => frame[usize::from(parameter.reg)] = *value,
                None => {
                    if let Some(at) = parameter.default {
                        machine::run_plain(&mut frame, &program.code, at);
                        parameter.check(frame[usize::from(parameter.reg)])?;
                    }
                }
            }
        }
        for requirement in &program.requires {
            requirement.check(&mut frame, &program.code, &program.parameters)?;
        }
        for parameter in &program.parameters {
            let value = &mut frame[usize::from(parameter.reg)];
            match parameter.unit {
                Unit::Time => *value *= factor,
                Unit::Rate => *value /= factor,
                _ => {}
            }
            parameter.check(*value)?;
        }
        frame[usize::from(LINE)] = sender.line_rate_bps.max(1).into();
        let dilation = sender.dilation.get().into();
        Ok(Instance { program: Arc::clone(program), frame: frame.into_boxed_slice(), dilation })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The parameters in force, with their units.
    pub fn values(&self) -> impl Iterator<Item = (&Parameter, String)> {
        self.program.parameters.iter().map(|of| (of, of.show(self.frame[usize::from(of.reg)])))
    }

    /// A new queue pair.
    pub fn start(self: &Arc<Self>) -> Machine {
        Machine::new(self)
    }
}

fn compile(decoder: &mut Decoder<'_>, declared: &Declared) -> Option<Program> {
    let mut compiler = Compiler::new(decoder, &declared.controls, declared.telemetry);
    compiler.broken = declared.broken.clone();
    let parameters = parameters(&mut compiler, declared);
    let requires = requires::compile(&mut compiler, &declared.requires);
    let state = state(&mut compiler, declared);
    compiler.timers = declared.timers.iter().map(|(name, _)| name.clone()).collect();
    compiler.counters = declared.counters.iter().map(|(name, _)| name.clone()).collect();
    check_timers(&mut compiler, declared);
    let (mut sets_rate, mut sets_window) = (false, false);
    let [start, cnp, ack, nack, trim, timeout] =
        events(&mut compiler, declared, &mut sets_rate, &mut sets_window);
    let mut timers = Vec::new();
    for (_, block) in &declared.timers {
        let code = compiler.handler(block, Scope::default());
        let sets = compiler.sets_rate || compiler.sets_window;
        (sets_rate, sets_window) =
            (sets_rate | compiler.sets_rate, sets_window | compiler.sets_window);
        timers.push(Timer { code, sets_rate: sets });
    }
    let mut counters = Vec::new();
    for (_, block) in &declared.counters {
        counters.push(compiler.handler(block, Scope::default()));
        (sets_rate, sets_window) =
            (sets_rate | compiler.sets_rate, sets_window | compiler.sets_window);
    }
    // A statement that is wrong may be the one that sets it.
    if !sets_rate && !sets_window && !compiler.decoder.diagnostics.has_errors() {
        let message =
            "nothing here sets `std.rate`, `std.window` or `std.gap_ns`: it would control nothing";
        compiler.decoder.diagnostics.error(codes::RATE_CONTROL, declared.on_span, message);
    }
    let shows = Shows {
        target: shown(&mut compiler, declared.target.as_ref()),
        estimate: shown(&mut compiler, declared.estimate.as_ref()),
    };
    let marks = match declared.marks.as_deref() {
        Some("ack") => Marks::Ack,
        Some("none") => Marks::Nowhere,
        _ => Marks::Cnp,
    };
    let ack_every = declared.ack_every.unwrap_or(if ack.is_some() { 1 } else { 64 });
    Some(Program {
        name: declared.name.value.clone(),
        notification: Notification {
            marks,
            cnp_interval: declared.cnp_interval.unwrap_or(Span::from_us(50)),
            ack_every,
            telemetry: declared.telemetry,
        },
        parameters: parameters?,
        requires: requires?,
        state: state?,
        frame: compiler.frame,
        code: compiler.code,
        // A program without a handler for trims treats them as losses.
        events: Events { start, cnp, ack, nack, trim: trim.or(nack), timeout },
        timers,
        counters,
        sets_window,
        shows,
        estimate: declared
            .estimate
            .as_ref()
            .map(|name| Estimate { name: name.value.clone(), unit: declared.estimate_unit }),
    })
}

/// Checks that names of timers and byte counters differ, and their number.
fn check_timers(compiler: &mut Compiler<'_, '_>, declared: &Declared) {
    let twice = compiler
        .counters
        .iter()
        .find(|name| compiler.timers.iter().any(|timer| timer.value == name.value));
    if let Some(name) = twice.cloned() {
        let message = format!("`{}` is a timer and a byte counter", name.value);
        compiler.decoder.diagnostics.error(codes::TWICE, name.span, message);
    }
    if let Some((name, _)) = declared.timers.iter().chain(&declared.counters).nth(TIMERS_MAX) {
        let message = format!("more than {TIMERS_MAX} timers and byte counters");
        compiler.decoder.diagnostics.error(codes::LIMITS, name.span, message);
    }
}

/// Parameters, and the code of those with a computed default.
fn parameters(compiler: &mut Compiler<'_, '_>, declared: &Declared) -> Option<Vec<Parameter>> {
    let mut found = Vec::new();
    for (name, of) in &declared.parameters {
        let first = match of.default {
            parameter::Default::Value(value) => value,
            parameter::Default::Expression(_) => of.low,
        };
        let reg = compiler.register(first, name.span)?;
        let value =
            Value { at: reg, low: of.low, high: of.high, fraction: of.fraction, truth: false };
        let mut default = None;
        if let parameter::Default::Expression(expr) = &of.default {
            compiler.scope = Scope { fixed: true, ..Scope::default() };
            default = Some(compiler.here());
            let worked_out = compiler.expr(expr);
            // Not clamped: a default outside of the bounds is an error, as a written value is.
            if let Some(worked_out) = worked_out
                && let Some(worked_out) = compiler.with_fraction(of.span, worked_out, of.fraction)
            {
                compiler.push(Op::Copy(reg, worked_out.at));
            }
            compiler.push(Op::End);
        }
        compiler.declare(name, Slot { value, kind: SlotKind::Parameter });
        found.push(Parameter {
            name: name.value.clone(),
            unit: of.unit,
            fraction: of.fraction,
            doc: of.doc.clone(),
            low: of.low,
            high: of.high,
            reg,
            default,
        });
    }
    Some(found)
}

fn state(compiler: &mut Compiler<'_, '_>, declared: &Declared) -> Option<Vec<StateSlot>> {
    let mut found = Vec::new();
    for (name, of) in &declared.state {
        let at = compiler.register(0, name.span)?;
        for _ in 1..registers(of) {
            compiler.register(0, name.span)?;
        }
        let (low, high) = match of.signed {
            true => (-(1 << (of.bits - 1)), (1 << (of.bits - 1)) - 1),
            false => (0, (1 << of.bits) - 1),
        };
        let value = Value { at, low, high, fraction: of.fraction, truth: false };
        let kind = if of.per_hop { SlotKind::PerHop } else { SlotKind::State };
        compiler.declare(name, Slot { value, kind });
        found.push(StateSlot { name: name.value.clone(), reg: at, fraction: of.fraction });
    }
    Some(found)
}

/// Registers of a state.
fn registers(of: &read::State) -> u16 {
    if of.per_hop { HOPS_MAX as u16 } else { 1 }
}

/// Code of `on`, in its order.
fn events(
    compiler: &mut Compiler<'_, '_>,
    declared: &Declared,
    sets_rate: &mut bool,
    sets_window: &mut bool,
) -> [Option<u32>; 6] {
    let mut found = [None; 6];
    for (index, block) in declared.events.iter().enumerate() {
        let (ack, loss) = (index == 2, index > 2);
        let nothing = Vec::new();
        let first = match index {
            // Initial state is set before the program's own start.
            0 => Some(starts(compiler, declared)),
            _ => None,
        };
        if block.is_none() && first.is_none() {
            continue;
        }
        let block = block.as_ref().unwrap_or(&nothing);
        let at = compiler.handler(block, Scope { ack, loss, ..Scope::default() });
        *sets_rate |= compiler.sets_rate && index > 0;
        *sets_window |= compiler.sets_window;
        found[index] = Some(first.unwrap_or(at));
    }
    found
}

/// Code that sets the initial state, and continues with what follows.
fn starts(compiler: &mut Compiler<'_, '_>, declared: &Declared) -> u32 {
    let at = compiler.here();
    compiler.scope = Scope::default();
    for (name, of) in &declared.state {
        let Some(start) = &of.start else { continue };
        let value = compiler.expr(start);
        let to = compiler.slots.get(&name.value).map(|slot| slot.value);
        if let (Some(value), Some(to)) = (value, to) {
            refuse_outside(compiler, (value, to), start.span);
            for at in to.at..to.at + registers(of) {
                compiler.store(Value { at, ..to }, value, start.span);
            }
        }
    }
    at
}

/// Refuses a start that its state can never have: it would be another one without a word.
fn refuse_outside(compiler: &mut Compiler<'_, '_>, (value, to): (Value, Value), span: SourceSpan) {
    // At the finer of both points.
    let fraction = value.fraction.max(to.fraction);
    let at = |bound: i128, own: u8| bound.checked_mul(1 << (fraction - own));
    let outside = at(value.low, value.fraction) > at(to.high, to.fraction)
        || at(value.high, value.fraction) < at(to.low, to.fraction);
    if outside {
        let plain = |bound: i128| bound as f64 / (1_u64 << to.fraction) as f64;
        let message = format!("this state holds {} to {}", plain(to.low), plain(to.high));
        let error = compiler.decoder.diagnostics.error(codes::DOES_NOT_FIT, span, message);
        error.help("give it more `bits`, or a `start` that fits");
    }
}

/// State that plots show.
fn shown(compiler: &mut Compiler<'_, '_>, name: Option<&Name>) -> Option<(Reg, u8)> {
    let name = name?;
    compiler.scope = Scope::default();
    let found = compiler.read(name)?;
    Some((found.at, found.fraction))
}
