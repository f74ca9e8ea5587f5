//! The fixed point of the DCQCN fluid model: what theory says that a single bottleneck settles at.
//!
//! Zhu, Ghobadi, Misra, Padhye, "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016: with
//! R = C/N packets per second for every flow and p the marking probability,
//!
//! ```text
//!   alpha = 1-(1-p)^(tau' R)    a = 1-(1-p)^(tau R)
//!   b = p/((1-p)^-B - 1)        c = b (1-p)^(F B)
//!   d = p/((1-p)^-(T R) - 1)    e = d (1-p)^(F T R)
//!   a^2 alpha / ((b+d)(c+e)) = tau^2 R_AI R
//! ```
//!
//! The model knows no pause, no hyper increase, and packets of one size. It is an outside yardstick: nothing in the
//! simulation uses it.

pub mod mode;

/// What the fixed point depends on; packets and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Capacity of the bottleneck in packets per second.
    pub capacity: f64,
    /// Flows.
    pub flows: f64,
    /// tau: least time between CNPs of a flow.
    pub cnp_interval: f64,
    /// tau': alpha timer.
    pub alpha_period: f64,
    /// T: rate increase timer.
    pub increase_period: f64,
    /// B: byte counter in packets; infinite when it is off.
    pub byte_counter: f64,
    /// F: stages of fast recovery.
    pub stages: f64,
    /// R_AI in packets per second.
    pub increase: f64,
}

/// What it settles at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedPoint {
    /// Marking probability.
    pub probability: f64,
    /// Alpha of every flow.
    pub alpha: f64,
    /// CNPs per second of each flow.
    pub cnp_rate: f64,
}

/// Both sides of the equation at p, as the logarithm of their ratio; and alpha, a.
fn imbalance(p: f64, of: &Loop) -> (f64, f64, f64) {
    let rate = of.capacity / of.flows;
    let ln = (-p).ln_1p();
    let seen = |packets: f64| -(packets * ln).exp_m1();
    let (a, alpha) = (seen(of.cnp_interval * rate), seen(of.alpha_period * rate));
    let per_stage = |packets: f64| {
        let exponent = -packets * ln;
        if exponent > 700.0 { 0.0 } else { p / exponent.exp_m1() }
    };
    let (counter, timer) = (of.byte_counter, of.increase_period * rate);
    let after = |stage: f64, packets: f64| {
        if stage == 0.0 { 0.0 } else { stage * (of.stages * packets * ln).exp() }
    };
    let (b, d) = (per_stage(counter), per_stage(timer));
    let (c, e) = (after(b, counter), after(d, timer));
    let right = of.cnp_interval * of.cnp_interval * of.increase * rate;
    let left = a * a * alpha / ((b + d) * (c + e));
    ((left / right).ln(), alpha, a)
}

/// The fixed point; `None` where the loop has none (no increase, no flows).
pub fn fixed_point(of: &Loop) -> Option<FixedPoint> {
    let (mut low, mut high) = (1e-9f64.ln(), 0.999_999f64.ln());
    let value = |ln_p: f64| imbalance(ln_p.exp(), of).0;
    if value(low).is_nan() || value(low) > 0.0 || value(high) < 0.0 {
        return None;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if value(middle) > 0.0 { high = middle } else { low = middle }
    }
    let probability = ((low + high) / 2.0).exp();
    let (_, alpha, a) = imbalance(probability, of);
    Some(FixedPoint { probability, alpha, cnp_rate: a / of.cnp_interval })
}

/// Depth at which a curve marks with this probability; beyond its end, its end.
pub fn queue_at(probability: f64, (kmin, kmax, pmax): (f64, f64, f64)) -> f64 {
    if probability > pmax { kmax } else { kmin + probability / pmax * (kmax - kmin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal flows on a link of so many Gbit/s, with the parameters of the paper.
    pub(super) fn paper(gbit: f64, flows: f64) -> Loop {
        let packet = 8.0 * 1000.0;
        Loop {
            capacity: gbit * 1e9 / packet,
            flows,
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
