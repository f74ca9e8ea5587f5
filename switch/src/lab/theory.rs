//! The fixed point of the DCQCN fluid model: the state at which a single bottleneck settles in theory.
//!
//! Zhu, Ghobadi, Misra, Padhye, "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016: with
//! R = C/N packets per second for every flow and p the marking probability,
//!
//! ```text
//!   alpha = 1-(1-p)^(tau' R)    a = 1-(1-p)^(tau R)
//!   b = p/((1-p)^-B - 1)        c = b (1-p)^(F B)
//!   d = p/((1-p)^-(T R) - 1)    e = d (1-p)^(F T R)
//!   k^2 alpha / ((b+d)(c+e)) = R_AI R      k = a/tau
//! ```
//!
//! There k is the CNP rate of a notification point that checks once per tau whether there was a mark. The rule of
//! SIGCOMM 2015 (section 3.1) differs: the first mark causes a CNP at once, further marks when tau has passed. Marks
//! are random, lambda = -R ln(1-p) a second, so the mean time between CNPs is tau, and the wait for the next mark after
//! a tau without one: k = 1/(tau + exp(-lambda tau)/lambda). [`Notification`] selects one of the two.
//!
//! The model has no pause, no hyper increase, no limit of the target rate, and packets of one size; [`domain`] checks
//! whether a loop is outside of that. It is an independent yardstick: nothing in the simulation uses it.

pub mod domain;
pub mod mode;

/// How a notification point, or a reaction point that gates by itself, turns marks into rate cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Once per interval, if there was a mark in it (CoNEXT 2016; ns3-rdma polls, HPCC gates cuts so).
    Polled,
    /// The first mark at once, then at most one per interval (SIGCOMM 2015, section 3.1).
    FirstMark,
}

impl Notification {
    /// CNPs per second of a flow whose packets are marked `marks` times a second, at least `interval` seconds apart.
    pub fn rate(self, marks: f64, interval: f64) -> f64 {
        let silent = (-marks * interval).exp();
        match self {
            Notification::Polled => -(-marks * interval).exp_m1() / interval,
            Notification::FirstMark => marks / (marks * interval + silent),
        }
    }
}

/// The inputs of the fixed point, in packets and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Capacity of the bottleneck in packets per second.
    pub capacity: f64,
    /// Flows.
    pub flows: f64,
    /// The rule from marks to CNPs.
    pub notification: Notification,
    /// tau: least time between CNPs of a flow.
    pub cnp_interval: f64,
    /// tau': alpha timer.
    pub alpha_period: f64,
    /// T: rate increase timer.
    pub increase_period: f64,
    /// B: byte counter in packets; infinite when it is off.
    pub byte_counter: f64,
    /// F: stages without an increase of the target rate; the model's first additive step is stage F + 1.
    pub stages: f64,
    /// R_AI in packets per second.
    pub increase: f64,
}

/// The fixed point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedPoint {
    /// Marking probability.
    pub probability: f64,
    /// Alpha of every flow.
    pub alpha: f64,
    /// CNPs per second of each flow.
    pub cnp_rate: f64,
    /// Target rate of each flow, packets per second.
    pub target: f64,
}

/// The terms of the model at a marking probability and a rate in packets per second.
struct Terms {
    /// k: CNPs per second.
    cnp_rate: f64,
    /// Share of alpha periods with a mark, at which alpha settles.
    alpha: f64,
    /// b, c, d, e: stages and increases per packet, by the byte counter and by the timer.
    b: f64,
    c: f64,
    d: f64,
    e: f64,
}

impl Terms {
    fn at(p: f64, rate: f64, of: &Loop) -> Terms {
        let ln = (-p).ln_1p();
        let per_stage = |packets: f64| {
            let exponent = -packets * ln;
            if exponent > 700.0 { 0.0 } else { p / exponent.exp_m1() }
        };
        let after = |stage: f64, packets: f64| {
            if stage == 0.0 { 0.0 } else { stage * (of.stages * packets * ln).exp() }
        };
        let timer = of.increase_period * rate;
        let (b, d) = (per_stage(of.byte_counter), per_stage(timer));
        Terms {
            cnp_rate: of.notification.rate(-rate * ln, of.cnp_interval),
            alpha: -(of.alpha_period * rate * ln).exp_m1(),
            b,
            c: after(b, of.byte_counter),
            d,
            e: after(d, timer),
        }
    }
}

/// Both sides of the equation at p, as the logarithm of their ratio.
fn imbalance(p: f64, of: &Loop) -> f64 {
    let rate = of.capacity / of.flows;
    let t = Terms::at(p, rate, of);
    let left = t.cnp_rate * t.cnp_rate * t.alpha / ((t.b + t.d) * (t.c + t.e));
    (left / (of.increase * rate)).ln()
}

/// The fixed point; `None` if the loop has none (no increase, no flows).
pub fn fixed_point(of: &Loop) -> Option<FixedPoint> {
    let (mut low, mut high) = (1e-9f64.ln(), 0.999_999f64.ln());
    let value = |ln_p: f64| imbalance(ln_p.exp(), of);
    if value(low).is_nan() || value(low) > 0.0 || value(high) < 0.0 {
        return None;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if value(middle) > 0.0 { high = middle } else { low = middle }
    }
    let probability = ((low + high) / 2.0).exp();
    let rate = of.capacity / of.flows;
    let t = Terms::at(probability, rate, of);
    // The rate is constant: R alpha k / 2 = (R_T - R) R (b + d) / 2.
    let target = rate + t.alpha * t.cnp_rate / (t.b + t.d);
    Some(FixedPoint { probability, alpha: t.alpha, cnp_rate: t.cnp_rate, target })
}

/// Depth at which a curve marks with this probability; beyond its end, its end.
pub fn queue_at(probability: f64, (kmin, kmax, pmax): (f64, f64, f64)) -> f64 {
    if probability > pmax { kmax } else { kmin + probability / pmax * (kmax - kmin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal flows on a link of `gbit` Gbit/s, with the parameters of the paper.
    pub(super) fn paper(gbit: f64, flows: f64) -> Loop {
        let packet = 8.0 * 1000.0;
        Loop {
            capacity: gbit * 1e9 / packet,
            flows,
            notification: Notification::Polled,
            cnp_interval: 50e-6,
            alpha_period: 55e-6,
            increase_period: 55e-6,
            byte_counter: 10e6 / 1000.0,
            stages: 5.0,
            increase: 40e6 / packet,
        }
    }

    /// Rows of the published evaluation (CoNEXT 2016 parameters): p in percent, queue in KB, CNPs per second.
    #[test]
    fn the_published_table_is_reproduced() {
        for (gbit, flows, percent, queue, cnps) in [
            (40.0, 2.0, 0.0777, 20.15, 1852.0),
            (40.0, 4.0, 0.1888, 41.81, 2228.0),
            (100.0, 2.0, 0.0239, 9.65, 1438.0),
            (100.0, 16.0, 0.3432, 71.92, 2513.0),
            (10.0, 2.0, 0.4552, 93.77, 2658.0),
        ] {
            let found = fixed_point(&paper(gbit, flows)).unwrap();
            assert!(
                (found.probability * 100.0 - percent).abs() < 5e-5 + percent * 1e-3,
                "{found:?}"
            );
            let depth = queue_at(found.probability, (5e3, 200e3, 0.01)) / 1e3;
            assert!((depth - queue).abs() < 0.02, "{depth} for {queue}");
            assert!((found.cnp_rate - cnps).abs() < 1.0, "{found:?}");
        }
    }

    /// Random marks and CNPs by the rule: the rate of CNPs is that of the formula.
    #[test]
    fn the_first_mark_law_is_that_of_random_marks() {
        let interval = 50e-6;
        for marks in [200.0, 3e3, 20e3, 400e3] {
            let mut random = crate::tm::random::Stream::new(7, 0);
            let (mut now, mut sent) = (0.0, 0u32);
            let (mut open_until, mut pending) = (0.0, false);
            while sent < 200_000 {
                let uniform = (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
                now -= uniform.ln() / marks;
                // A window that ended with a pending mark sent a CNP and began anew.
                while pending && now >= open_until {
                    sent += 1;
                    (open_until, pending) = (open_until + interval, false);
                }
                if now >= open_until {
                    sent += 1;
                    open_until = now + interval;
                } else {
                    pending = true;
                }
            }
            let (found, wanted) =
                (f64::from(sent) / now, Notification::FirstMark.rate(marks, interval));
            assert!((found / wanted - 1.0).abs() < 0.01, "{marks}: {found}, {wanted}");
            assert!(wanted >= Notification::Polled.rate(marks, interval));
        }
    }

    /// The model scales: links slower and times longer by the same factor settle at the same probability.
    #[test]
    fn time_dilation_changes_nothing_but_time() {
        let base = paper(100.0, 10.0);
        let slow = Loop {
            capacity: base.capacity / 1000.0,
            cnp_interval: base.cnp_interval * 1000.0,
            alpha_period: base.alpha_period * 1000.0,
            increase_period: base.increase_period * 1000.0,
            increase: base.increase / 1000.0,
            ..base
        };
        let (one, other) = (fixed_point(&base).unwrap(), fixed_point(&slow).unwrap());
        assert!((one.probability / other.probability - 1.0).abs() < 1e-9);
        assert!(fixed_point(&Loop { byte_counter: f64::INFINITY, ..base }).is_some());
        assert!(fixed_point(&Loop { increase: 0.0, ..base }).is_none());
    }
}
