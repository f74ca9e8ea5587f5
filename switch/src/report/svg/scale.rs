//! An axis of a picture: round ticks, a fitting unit, values to coordinates.

use crate::report::plot::Axis;
use crate::report::unit::digits;

/// Approximate number of ticks on an axis.
const TICKS: f64 = 5.0;

/// A linear or logarithmic scale.
pub(super) struct Scale {
    low: f64,
    high: f64,
    step: f64,
    is_logarithmic: bool,
    /// Places of `low` and `high`.
    range: (f64, f64),
    /// Base units in one unit of the labels.
    factor: f64,
    unit: &'static str,
}

impl Scale {
    /// A scale for all values that begins and ends at a tick, or at the bounds of the axis.
    pub(super) fn new(axis: &Axis, values: Vec<f64>, range: (f64, f64)) -> Scale {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let least = axis.from.unwrap_or_else(|| finite().fold(f64::INFINITY, f64::min));
        let most = axis.to.unwrap_or_else(|| finite().fold(f64::NEG_INFINITY, f64::max));
        let (least, most) = match (least.is_finite(), most.is_finite()) {
            (true, true) if most > least => (least, most),
            (true, _) => (least, least + if least == 0.0 { 1.0 } else { least.abs() }),
            _ => (0.0, 1.0),
        };
        if axis.is_logarithmic && least > 0.0 {
            let low = axis.from.unwrap_or_else(|| 10f64.powf(least.log10().floor()));
            let high = axis.to.unwrap_or_else(|| 10f64.powf(most.log10().ceil()));
            let high = if high > low { high } else { low * 10.0 };
            let (factor, unit) = axis.unit.scale(low * (high / low).sqrt());
            return Scale { low, high, step: 10.0, is_logarithmic: true, range, factor, unit };
        }
        let (factor, unit) = axis.unit.scale(most.abs().max(least.abs()));
        let step = round_step((most - least) / factor / TICKS) * factor;
        let low = axis.from.unwrap_or_else(|| (least / step).floor() * step);
        let high = axis.to.unwrap_or_else(|| (most / step).ceil() * step);
        // Bounds of an axis may be equal, as of a single instant.
        let high = if high > low { high } else { low + step };
        Scale { low, high, step, is_logarithmic: false, range, factor, unit }
    }

    /// The coordinate of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.is_logarithmic {
            true => (value / self.low).max(f64::MIN_POSITIVE).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.range.0 + share.clamp(0.0, 1.0) * (self.range.1 - self.range.0)
    }

    /// The unit of the labels.
    pub(super) fn unit_name(&self) -> &'static str {
        self.unit
    }

    /// Places and labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_logarithmic {
            let (first, last) = (self.low.log10() - 1e-9, self.high.log10() + 1e-9);
            let decades = first.ceil() as i32..=last.floor() as i32;
            let step = (decades.clone().count() as f64 / TICKS).ceil() as usize;
            let tick = |power| {
                let value = 10f64.powi(power);
                (self.place(value), digits(value / self.factor, 6))
            };
            return decades.step_by(step.max(1)).map(tick).collect();
        }
        let first = (self.low / self.step - 1e-9).ceil() as i64;
        let last = (self.high / self.step + 1e-9).floor() as i64;
        let value = |k: i64| k as f64 * self.step;
        (first..=last).map(|k| (self.place(value(k)), digits(value(k) / self.factor, 6))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let share = rough / power;
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| share <= *round * 1.0001);
    round.unwrap_or(10.0) * power
}
