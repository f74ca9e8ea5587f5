//! The state of one queue pair under a program, and the interpreter of its code.
//!
//! Registers are 128 bits wide and their values are checked to fit ([`super::check`]), so no operation here can
//! overflow, divide by zero or run for ever: code has no loops, and timers and byte counters have a least length.

use std::sync::Arc;

use wireyard_tables::time::{Deadline, Span, Time};

use super::super::{AckSample, RateControl, RateState};
use super::code::{
    ACK_HOPS, ACK_MARKED, ACK_PACKETS, ACK_PATH, ACK_RTT, ACKED, FIRST_HOP, GAP, HOP, LINE,
    LOST_PACKETS, NOW, Op, RATE, Reg, SENT, WINDOW, WINDOW_MAX,
};
use super::{Instance, Unit};
use crate::roce::telemetry::{self, TelemetryBytes};

/// A byte counter that does not run.
const OFF: u64 = u64::MAX;

/// A queue pair under a program.
#[derive(Clone, Debug)]
pub struct Machine {
    of: Arc<Instance>,
    frame: Box<[i128]>,
    timers: Box<[Deadline]>,
    counters: Box<[u64]>,
    rate_bps: f64,
    /// The earliest timer that may change rate or window.
    deadline: Deadline,
    /// The earliest timer.
    due: Deadline,
}

impl Machine {
    /// A new queue pair.
    pub(super) fn new(of: &Arc<Instance>) -> Machine {
        let program = &of.program;
        let mut machine = Machine {
            frame: of.frame.clone(),
            timers: vec![Deadline::NEVER; program.timers.len()].into_boxed_slice(),
            counters: vec![OFF; program.counters.len()].into_boxed_slice(),
            rate_bps: 0.0,
            deadline: Deadline::NEVER,
            due: Deadline::NEVER,
            of: Arc::clone(of),
        };
        machine.frame[usize::from(RATE)] = machine.frame[usize::from(LINE)];
        machine.frame[usize::from(WINDOW)] = WINDOW_MAX;
        machine.event(Time::ZERO, program.events.start);
        machine
    }

    fn set(&mut self, reg: Reg, value: u64) {
        self.frame[usize::from(reg)] = i128::from(value);
    }

    /// Sets the telemetry of an acknowledgement. The hops end before one whose link rate has no code.
    fn set_telemetry(&mut self, telemetry: Option<&TelemetryBytes>) {
        let (mut hops, mut path) = (0, 0);
        if let Some(bytes) = telemetry {
            path = telemetry::path_of(bytes);
            for hop in telemetry::hops_of(bytes) {
                let Some(rate) = hop.rate_bps else { break };
                // Codes are those of the undilated links.
                let said = [
                    (rate / self.of.dilation).max(1),
                    hop.time_ns.into(),
                    hop.sent_bytes.into(),
                    hop.queue_bytes.into(),
                ];
                let first = FIRST_HOP + hops * HOP.len() as Reg;
                for (reg, value) in (first..).zip(said) {
                    self.set(reg, value);
                }
                hops += 1;
            }
        }
        self.set(ACK_HOPS, hops.into());
        self.set(ACK_PATH, path.into());
    }

    /// The least unit of the estimate, in its base unit.
    fn unit(&self) -> f64 {
        let estimate = self.of.program.estimate();
        let is_time = estimate.is_some_and(|estimate| estimate.unit == Unit::Time);
        if is_time { 1e-9 } else { 1.0 }
    }

    /// The value of a state by name, as a number; for tests and plots.
    pub fn value(&self, name: &str) -> Option<f64> {
        let shown = self.of.program.state.iter().find(|state| state.name == name)?;
        Some(scaled(self.frame[usize::from(shown.reg)], shown.fraction))
    }

    fn event(&mut self, now: Time, at: Option<u32>) {
        let Some(at) = at else { return };
        self.set(NOW, now.as_ps() / 1000);
        self.run(now, at);
        let line = self.frame[usize::from(LINE)];
        let rate = self.frame[usize::from(RATE)].clamp(1, line);
        self.frame[usize::from(RATE)] = rate;
        self.rate_bps = rate as f64;
        let program = &self.of.program;
        let earliest = |alone: bool| {
            let timers = self.timers.iter().zip(&program.timers);
            let timers = timers.filter(|(_, timer)| !alone || timer.sets_rate);
            timers.map(|(at, _)| *at).min().unwrap_or(Deadline::NEVER)
        };
        (self.deadline, self.due) = (earliest(true), earliest(false));
    }

    /// Timers that end before `until`, and at it if `inclusive`; of equals the one declared first.
    fn advance(&mut self, until: Time, inclusive: bool) {
        while self.due.is_before(until) || inclusive && self.due.is_by(until) {
            let due = self.due;
            let Some(at) = due.instant() else { return };
            let Some(index) = self.timers.iter().position(|timer| *timer == due) else { return };
            self.timers[index] = Deadline::NEVER;
            self.event(at, Some(self.of.program.timers[index].code));
        }
    }

    fn run(&mut self, now: Time, at: u32) {
        let of = Arc::clone(&self.of);
        let (code, mut at) = (&of.program.code, at as usize);
        loop {
            let op = code[at];
            at += 1;
            let next = match op {
                Op::End => return,
                Op::Arm(timer, span) => {
                    let ns = self.frame[usize::from(span)] as u64;
                    self.timers[usize::from(timer)] = Deadline::at(now + Span::from_ns(ns));
                    None
                }
                Op::Stop(timer) => {
                    self.timers[usize::from(timer)] = Deadline::NEVER;
                    None
                }
                Op::Count(counter, bytes) => {
                    self.counters[usize::from(counter)] = self.frame[usize::from(bytes)] as u64;
                    None
                }
                Op::StopCount(counter) => {
                    self.counters[usize::from(counter)] = OFF;
                    None
                }
                op => step(&mut self.frame, op),
            };
            at = next.map_or(at, |next| next as usize);
        }
    }
}

/// One operation on registers; the next operation, if not the following one.
#[inline]
fn step(frame: &mut [i128], op: Op) -> Option<u32> {
    let get = |frame: &[i128], reg: Reg| frame[usize::from(reg)];
    let (to, value) = match op {
        Op::Copy(to, a) => (to, get(frame, a)),
        Op::Add(to, a, b) => (to, get(frame, a).wrapping_add(get(frame, b))),
        Op::Sub(to, a, b) => (to, get(frame, a).wrapping_sub(get(frame, b))),
        Op::Mul(to, a, b) => (to, get(frame, a).wrapping_mul(get(frame, b))),
        Op::Div(to, a, b) => (to, quotient(get(frame, a), get(frame, b))),
        Op::Shl(to, a, by) => (to, get(frame, a) << by),
        Op::Shr(to, a, by) => (to, get(frame, a) >> by),
        Op::Root(to, a) => (to, get(frame, a).max(0).isqrt()),
        Op::Min(to, a, b) => (to, get(frame, a).min(get(frame, b))),
        Op::Max(to, a, b) => (to, get(frame, a).max(get(frame, b))),
        Op::Equal(to, a, b) => (to, (get(frame, a) == get(frame, b)).into()),
        Op::Less(to, a, b) => (to, (get(frame, a) < get(frame, b)).into()),
        Op::Not(to, a) => (to, (get(frame, a) == 0).into()),
        Op::And(to, a, b) => (to, get(frame, a) & get(frame, b)),
        Op::Or(to, a, b) => (to, get(frame, a) | get(frame, b)),
        Op::Select(to, c, a, b) => (to, get(frame, if get(frame, c) != 0 { a } else { b })),
        Op::Unless(c, end) => return (get(frame, c) == 0).then_some(end),
        Op::Jump(end) => return Some(end),
        _ => return None,
    };
    frame[usize::from(to)] = value;
    None
}

/// Rounded down; the divisor is above zero.
pub(super) fn quotient(a: i128, b: i128) -> i128 {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b @ 1..)) => a.div_euclid(b).into(),
        _ => a.div_euclid(b.max(1)),
    }
}

/// Runs operations on registers only.
pub(super) fn run_plain(frame: &mut [i128], code: &[Op], at: u32) {
    let mut at = at as usize;
    while let Some(op) = code.get(at).filter(|op| **op != Op::End) {
        at = step(frame, *op).map_or(at + 1, |next| next as usize);
    }
}

/// The number in a register with `fraction` bits of fraction.
fn scaled(value: i128, fraction: u8) -> f64 {
    value as f64 / (1_u64 << fraction) as f64
}

impl RateControl for Machine {
    fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    fn window_bytes(&self) -> Option<u64> {
        let program = &self.of.program;
        program.sets_window.then(|| self.frame[usize::from(WINDOW)] as u64)
    }

    fn gap(&self) -> Span {
        Span::from_ns(self.frame[usize::from(GAP)] as u64)
    }

    fn on_cnp(&mut self, now: Time) {
        // Timers due at this instant come after the event, which may restart them.
        self.advance(now, false);
        self.event(now, self.of.program.events.cnp);
    }

    fn on_bytes_sent(&mut self, now: Time, bytes: u64) {
        if self.counters.is_empty() {
            return;
        }
        // A timer that has ended may restart a counter, which begins with these bytes then.
        self.advance(now, true);
        for index in 0..self.counters.len() {
            let mut bytes = bytes;
            while self.counters[index] != OFF {
                if bytes < self.counters[index] {
                    self.counters[index] -= bytes;
                    break;
                }
                bytes -= std::mem::replace(&mut self.counters[index], OFF);
                self.event(now, Some(self.of.program.counters[index]));
            }
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample<'_>) {
        let Some(code) = self.of.program.events.ack else { return };
        self.advance(now, false);
        self.set(ACKED, sample.acked);
        self.set(SENT, sample.sent);
        self.set(ACK_PACKETS, sample.packets.into());
        self.set(ACK_MARKED, if sample.becn { sample.packets.into() } else { 0 });
        self.set(ACK_RTT, sample.round_trip.map_or(0, |span| (span.as_ps() / 1000).max(1)));
        if self.of.program.notification.telemetry {
            self.set_telemetry(sample.telemetry);
        }
        self.event(now, Some(code));
    }

    fn on_nack(&mut self, now: Time, lost: u32) {
        self.advance(now, false);
        self.set(LOST_PACKETS, lost.max(1).into());
        self.event(now, self.of.program.events.nack);
    }

    fn on_trim(&mut self, now: Time) {
        self.advance(now, false);
        self.set(LOST_PACKETS, 1);
        self.event(now, self.of.program.events.trim);
    }

    fn on_timeout(&mut self, now: Time, lost: u32) {
        self.advance(now, false);
        self.set(LOST_PACKETS, lost.max(1).into());
        self.event(now, self.of.program.events.timeout);
    }

    fn next_deadline(&self) -> Deadline {
        self.deadline
    }

    fn poll(&mut self, now: Time) {
        self.advance(now, true);
    }

    fn sync(&mut self, now: Time) {
        self.advance(now, false);
    }

    fn state(&self) -> RateState {
        let shown = |of: &Option<(Reg, u8)>| {
            of.map(|(reg, fraction)| scaled(self.frame[usize::from(reg)], fraction))
        };
        RateState {
            rate_bps: self.rate_bps,
            target_bps: shown(&self.of.program.shows.target).unwrap_or(self.rate_bps),
            estimate: shown(&self.of.program.shows.estimate).unwrap_or(0.0) * self.unit(),
            time_stage: 0,
            byte_stage: 0,
        }
    }
}
