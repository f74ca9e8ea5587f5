//! DCQCN: the reaction point's state machine in three published semantics.
//!
//! * [`Law::Paper`]: SIGCOMM 2015 as in section 1.3 of the CoNEXT 2016 companion. A CNP cuts at once with the old
//!   alpha, which is then raised. `max(T, BC)` and `min(T, BC)` choose the phase. When the rate is back at line rate
//!   the limiter is released and alpha is reset.
//! * [`Law::Ns3Rdma`]: `qbb-net-device.cc` of ns3-rdma. Alpha is raised before the cut and starts at 0.5; the phase
//!   depends on the counter that fired; hyper increase counts from one and halves timer and byte counter; a target
//!   above ten times the rate is divided by eight at the first stage. The byte counter in the additive phase follows
//!   the QCN text (it may go on to hyper increase).
//! * [`Law::Sampled`]: ConnectX as modelled by HPCC's `rdma-hw.cc`. A CNP only sets flags; alpha and cut are decided on
//!   fixed periods that start at the first CNP. HPCC separates the two by a nanosecond; here alpha is first at the same
//!   instant. HPCC has no byte counter; if one is set (ConnectX), the phase is chosen by `max` and `min` as in the
//!   paper.
//!
//! Alpha is updated when it is read, so a period of a microsecond costs no event.

use wireyard_tables::time::{Deadline, Span, Time};

use super::{RateControl, RateState};

mod params;
pub mod preset;

#[cfg(test)]
mod tests;

pub use params::{
    CHOICES, ChoiceInfo, ClampTarget, DcqcnParams, FirstCut, Law, PARAMS, ParamInfo, Profile,
    Setting,
};

/// The phase of ns3-rdma's `m_rpStage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    FastRecovery,
    Active,
    Hyper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fired {
    Alpha,
    Cut,
    Timer,
}

/// The reaction point of one queue pair.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    params: Profile,
    rate_bps: f64,
    target_bps: f64,
    alpha: f64,
    time_stage: u32,
    byte_stage: u32,
    /// Bytes sent since the last byte stage.
    bytes: u64,
    limited: bool,
    phase: Phase,
    alpha_at: Deadline,
    increase_at: Deadline,
    /// Sampled law only: the next instant at which a cut may happen.
    cut_at: Deadline,
    cnp_since_alpha: bool,
    cnp_since_cut: bool,
}

impl Dcqcn {
    /// Starts at line rate, not limited.
    pub fn new(params: &Profile) -> Self {
        Dcqcn {
            rate_bps: params.line_rate_bps,
            target_bps: params.line_rate_bps,
            alpha: params.alpha_initial,
            time_stage: 0,
            byte_stage: 0,
            bytes: 0,
            limited: false,
            phase: Phase::FastRecovery,
            alpha_at: Deadline::NEVER,
            increase_at: Deadline::NEVER,
            cut_at: Deadline::NEVER,
            cnp_since_alpha: false,
            cnp_since_cut: false,
            params: params.clone(),
        }
    }

    /// True between the first CNP and the return to line rate (which only [`Law::Paper`] has).
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// Applies everything due before `until`, and at it if `inclusive`, in the order alpha, cut, timer.
    fn advance(&mut self, until: Time, inclusive: bool) {
        while self.limited {
            let due = self.alpha_at.min(self.cut_at).min(self.increase_at);
            let is_due = |at: &Time| *at < until || (*at == until && inclusive);
            let Some(at) = due.instant().filter(is_due) else { return };
            let fired = match due {
                due if due == self.alpha_at => Fired::Alpha,
                due if due == self.cut_at => Fired::Cut,
                _ => Fired::Timer,
            };
            match fired {
                Fired::Alpha => self.on_alpha_period(until),
                Fired::Cut => self.on_cut_period(at, until),
                Fired::Timer => self.on_timer(until),
            }
        }
    }

    fn on_alpha_period(&mut self, until: Time) {
        let g = self.params.g;
        self.alpha *= 1.0 - g;
        if self.cnp_since_alpha {
            self.alpha += g;
            self.cnp_since_alpha = false;
        }
        let period = self.params.alpha_period;
        self.alpha_at += period;
        if self.alpha < f64::MIN_POSITIVE {
            // Only a CNP changes it now: skip the periods of a long idle time.
            self.alpha = 0.0;
            self.alpha_at += whole_periods(self.alpha_at, until, period).1;
        }
    }

    fn on_cut_period(&mut self, at: Time, until: Time) {
        self.cut_at += self.params.decrease_period;
        if !self.cnp_since_cut {
            self.cut_at += whole_periods(self.cut_at, until, self.params.decrease_period).1;
            return;
        }
        self.cnp_since_cut = false;
        self.cut(at);
    }

    fn on_timer(&mut self, until: Time) {
        let period = self.params.increase_period;
        let hyper = self.params.law == Law::Ns3Rdma && self.phase == Phase::Hyper;
        self.increase_at += if hyper { Span::from_ps(period.as_ps() / 2) } else { period };
        self.increase_after(true);
        let full = self.params.line_rate_bps;
        if self.rate_bps >= full && self.target_bps == full {
            // A sender at line rate only counts stages: skip a long idle time.
            let (count, span) = whole_periods(self.increase_at, until, period);
            self.time_stage = self.time_stage.saturating_add(count);
            self.increase_at += span;
        }
    }

    fn increase_after(&mut self, timer: bool) {
        match self.params.law {
            Law::Paper => {
                self.count(timer);
                self.increase_by_min_max();
            }
            Law::Ns3Rdma => {
                self.count(timer);
                self.increase_ns3(if timer { self.time_stage } else { self.byte_stage });
            }
            Law::Sampled => {
                // HPCC compares the stage before it counts the event.
                self.increase_by_min_max();
                self.count(timer);
            }
        }
    }

    fn count(&mut self, timer: bool) {
        let stage = if timer { &mut self.time_stage } else { &mut self.byte_stage };
        *stage = stage.saturating_add(1);
    }

    fn increase_by_min_max(&mut self) {
        let p = &self.params;
        let f = p.fast_recovery_stages;
        let (low, high) = match p.byte_counter_bytes {
            Some(_) => (self.time_stage.min(self.byte_stage), self.time_stage.max(self.byte_stage)),
            // Without a byte counter HPCC's only stage plays both parts, the paper's minimum stays 0.
            None if p.law == Law::Sampled => (self.time_stage, self.time_stage),
            None => (0, self.time_stage),
        };
        let recovering = if p.fast_recovery_inclusive { high <= f } else { high < f };
        if !recovering && low > f {
            let steps = if p.law == Law::Sampled { 1 } else { low - f };
            self.target_bps += f64::from(steps) * p.hyper_increase_bps;
        } else if !recovering {
            self.target_bps += p.additive_increase_bps;
        }
        self.target_bps = self.target_bps.min(p.line_rate_bps);
        self.rate_bps = ((self.target_bps + self.rate_bps) / 2.0).min(p.line_rate_bps);
        if p.law == Law::Paper && self.rate_bps >= p.line_rate_bps {
            self.release();
        }
    }

    /// `AdjustRates`, `rpr_fast_*`, `rpr_active_select`, `rpr_hyper_increase`.
    fn increase_ns3(&mut self, fired_stage: u32) {
        let p = &self.params;
        let f = p.fast_recovery_stages;
        let low = self.time_stage.min(self.byte_stage);
        let step = if self.phase == Phase::FastRecovery && fired_stage < f {
            0.0
        } else if self.phase == Phase::Hyper || low >= f {
            self.phase = Phase::Hyper;
            (f64::from(low) - f64::from(f) + 1.0) * p.hyper_increase_bps
        } else {
            self.phase = Phase::Active;
            p.additive_increase_bps
        };
        let first = self.time_stage == 1 || self.byte_stage == 1;
        if first && self.target_bps > 10.0 * self.rate_bps {
            self.target_bps /= 8.0;
        } else {
            self.target_bps += step;
        }
        self.rate_bps = ((self.target_bps + self.rate_bps) / 2.0).min(p.line_rate_bps);
    }

    fn release(&mut self) {
        self.limited = false;
        self.rate_bps = self.params.line_rate_bps;
        self.target_bps = self.params.line_rate_bps;
        self.alpha = self.params.alpha_initial;
        self.alpha_at = Deadline::NEVER;
        self.increase_at = Deadline::NEVER;
        self.time_stage = 0;
        self.byte_stage = 0;
        self.bytes = 0;
    }

    /// Cuts with the present alpha and restarts the increase machinery.
    fn cut(&mut self, at: Time) {
        let p = &self.params;
        let clamp = match p.clamp_target {
            ClampTarget::Always => true,
            ClampTarget::AfterByteStage => self.byte_stage != 0,
            ClampTarget::AfterAnyStage => self.byte_stage != 0 || self.time_stage != 0,
        };
        if clamp {
            self.target_bps = self.rate_bps;
            self.bytes = 0;
        }
        let factor = (1.0 - self.alpha / 2.0).max(p.min_decrease_factor);
        self.rate_bps = (self.rate_bps * factor).max(p.min_rate_bps);
        self.time_stage = 0;
        self.byte_stage = 0;
        self.phase = Phase::FastRecovery;
        self.increase_at = Deadline::at(at + p.increase_period);
    }

    fn byte_threshold(&self) -> Option<u64> {
        let full = self.params.byte_counter_bytes?;
        let hyper = self.params.law == Law::Ns3Rdma && self.phase == Phase::Hyper;
        Some(if hyper { full / 2 } else { full }.max(1))
    }

    fn raise_alpha(&mut self) {
        let g = self.params.g;
        self.alpha = (1.0 - g) * self.alpha + g;
    }

    fn on_first_sampled_cnp(&mut self, now: Time) {
        self.limited = true;
        self.alpha = self.params.alpha_initial;
        self.set_on_first_cnp();
        self.alpha_at = Deadline::at(now + self.params.alpha_period);
        self.cut_at = Deadline::at(now + self.params.decrease_period);
        self.cnp_since_cut = true;
        if self.params.first_cut == FirstCut::AtOnce {
            self.cnp_since_cut = false;
            self.cut(now);
        }
    }

    /// Sets the part of the rate that remains after the first CNP; false if the first is like any other.
    fn set_on_first_cnp(&mut self) -> bool {
        let Some(fraction) = self.params.rate_on_first_cnp else { return false };
        self.rate_bps = (self.rate_bps * fraction).max(self.params.min_rate_bps);
        self.target_bps = self.rate_bps;
        true
    }
}

/// How many whole periods fit from `at` to before `until`, and their span.
fn whole_periods(at: Deadline, until: Time, period: Span) -> (u32, Span) {
    let left = at.instant().map_or(Span::ZERO, |at| until.since(at));
    let count = left.as_ps() / period.as_ps();
    (u32::try_from(count).unwrap_or(u32::MAX), Span::from_ps(count * period.as_ps()))
}

impl RateControl for Dcqcn {
    fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    fn on_cnp(&mut self, now: Time) {
        // Timers due at this instant come after the CNP, which restarts them.
        self.advance(now, false);
        let law = self.params.law;
        match law {
            Law::Paper | Law::Ns3Rdma if !self.limited && self.set_on_first_cnp() => {
                self.raise_alpha();
                self.increase_at = Deadline::at(now + self.params.increase_period);
            }
            Law::Paper => {
                self.cut(now);
                self.raise_alpha();
            }
            Law::Ns3Rdma => {
                self.raise_alpha();
                self.cut(now);
            }
            Law::Sampled if !self.limited => return self.on_first_sampled_cnp(now),
            Law::Sampled => {
                self.cnp_since_alpha = true;
                self.cnp_since_cut = true;
                return;
            }
        }
        self.limited = true;
        self.alpha_at = Deadline::at(now + self.params.alpha_period);
    }

    fn on_bytes_sent(&mut self, now: Time, bytes: u64) {
        if !self.limited {
            return;
        }
        self.advance(now, true);
        self.bytes = self.bytes.saturating_add(bytes);
        while let Some(threshold) =
            self.byte_threshold().filter(|&t| self.limited && self.bytes >= t)
        {
            self.bytes -= threshold;
            self.increase_after(false);
        }
    }

    fn next_deadline(&self) -> Deadline {
        if !self.limited {
            return Deadline::NEVER;
        }
        // At line rate an increase has no visible effect before the next cut.
        let full = self.rate_bps >= self.params.line_rate_bps;
        let increase_at = if full { Deadline::NEVER } else { self.increase_at };
        if self.cnp_since_cut { increase_at.min(self.cut_at) } else { increase_at }
    }

    fn poll(&mut self, now: Time) {
        self.advance(now, true);
    }

    fn state(&self) -> RateState {
        RateState {
            rate_bps: self.rate_bps,
            target_bps: self.target_bps,
            estimate: self.alpha,
            time_stage: self.time_stage,
            byte_stage: self.byte_stage,
        }
    }
}
