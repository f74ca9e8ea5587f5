//! The limits of the fluid model: behaviour of a reaction point at the fixed point for which the model has no term.
//!
//! A figure of theory beside a measurement that it cannot describe would mislead, so there is none then, and this
//! module has the reason. Whether the measurement agrees is up to expectations.

use std::fmt;

use super::{FixedPoint, Loop};

/// Share of the intervals between CNPs that may reach hyper increase while the model applies.
const HYPER_MAX: f64 = 0.01;

/// Largest additive step, as a part of a flow's rate, at which the model's averages apply: at a tenth the simulated
/// marking probability is a quarter above the fixed point, at two fifths it is twice as high.
const STEP_MAX: f64 = 0.08;

/// When a reaction point begins hyper increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hyper {
    /// Never, or with steps like those of additive increase.
    Never,
    /// After fast recovery by the timer and by the byte counter (SIGCOMM 2015, figure 7).
    TimerAndBytes,
    /// After fast recovery by the timer alone (HPCC's `rdma-hw.cc`, which has no byte counter).
    Timer,
}

/// Behaviour without a term in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// This share of the intervals between CNPs reaches hyper increase.
    HyperIncrease(f64),
    /// An additive step is this part of a flow's rate.
    AdditiveStep(f64),
    /// The target rate at the fixed point, as a part of the line rate, which it cannot exceed.
    TargetRate(f64),
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outside::HyperIncrease(share) => write!(
                f,
                "{:.0} % of the intervals between CNPs reach hyper increase, which the fluid model does not have",
                share * 100.0
            ),
            Outside::AdditiveStep(part) => write!(
                f,
                "one additive step is {:.0} % of a flow's rate, and the fluid model is one of small steps",
                part * 100.0
            ),
            Outside::TargetRate(part) => write!(
                f,
                "the fluid model settles at a target rate of {part:.2} times the line rate, which the reaction point does not exceed"
            ),
        }
    }
}

/// Why the model does not apply at its own fixed point; `line` is the line rate in packets per second.
pub fn outside(of: &Loop, point: &FixedPoint, hyper: Hyper, line: f64) -> Option<Outside> {
    let rate = of.capacity / of.flows;
    let timer = of.increase_period * rate;
    let reached = |stage: f64| {
        let share = ((of.stages + 1.0) * stage * (-point.probability).ln_1p()).exp();
        (share > HYPER_MAX).then_some(Outside::HyperIncrease(share))
    };
    let hyper = match hyper {
        Hyper::Never => None,
        Hyper::TimerAndBytes => reached(timer.max(of.byte_counter)),
        Hyper::Timer => reached(timer),
    };
    let step = (of.increase > STEP_MAX * rate).then_some(Outside::AdditiveStep(of.increase / rate));
    let target = (point.target > line).then_some(Outside::TargetRate(point.target / line));
    hyper.or(step).or(target)
}

#[cfg(test)]
mod tests {
    use super::super::{fixed_point, tests::paper};
    use super::*;

    #[test]
    fn the_paper_is_inside_and_short_stages_are_outside() {
        let of = paper(100.0, 2.0);
        let point = fixed_point(&of).unwrap();
        let line = of.capacity;
        assert_eq!(outside(&of, &point, Hyper::TimerAndBytes, line), None);
        let short = Loop { byte_counter: 32.0, stages: 1.0, ..of };
        let point = fixed_point(&short).unwrap();
        let found = outside(&short, &point, Hyper::TimerAndBytes, line);
        assert!(matches!(found, Some(Outside::HyperIncrease(share)) if share > 0.1), "{found:?}");
        assert_eq!(outside(&short, &point, Hyper::Never, line), None);
        // Without the byte counter only the timer decides.
        let timer = Loop { byte_counter: f64::INFINITY, stages: 1.0, ..of };
        let point = fixed_point(&timer).unwrap();
        assert_eq!(outside(&timer, &point, Hyper::TimerAndBytes, line), None);
        assert!(outside(&timer, &point, Hyper::Timer, line).is_some());
    }

    #[test]
    fn large_steps_and_a_flow_alone_are_outside() {
        // A twentieth of the line rate, as uet-htsim.
        let of = Loop { increase: paper(100.0, 2.0).capacity / 20.0, ..paper(100.0, 2.0) };
        let point = fixed_point(&of).unwrap();
        let found = outside(&of, &point, Hyper::TimerAndBytes, of.capacity);
        assert_eq!(found, Some(Outside::AdditiveStep(0.1)));
        let of = paper(100.0, 1.0);
        let found = outside(&of, &fixed_point(&of).unwrap(), Hyper::TimerAndBytes, of.capacity);
        assert!(matches!(found, Some(Outside::TargetRate(part)) if part > 1.0), "{found:?}");
    }
}
