//! The oscillation of the fluid model's loop around its fixed point: its frequency, and whether it grows.
//!
//! The equations are those of "ECN or Delay" (CoNEXT 2016) for equal flows: queue, rate, target rate and alpha, driven
//! by the marking probability and the rate of one feedback delay ago. Linear around the fixed point they are `x'(t) = A
//! x(t) + B x(t - delay)`, and a free solution is `exp(s t)` with `det(s - A - B exp(-s delay)) = 0`. The root that
//! decays least (or grows) dominates. The model has no noise: random marks sustain a slowly decaying oscillation, so a
//! peak in a spectrum alone does not mean that the loop is unstable.

use super::{Loop, Terms, fixed_point};

/// The oscillation that decays least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Hertz.
    pub frequency_hz: f64,
    /// Growth of its amplitude: e-foldings per second; below zero it decays.
    pub growth_per_s: f64,
}

/// Inputs of the mode beside the fixed point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// From a mark to the queue that its rate affects, seconds.
    pub delay_s: f64,
    /// Gain g of alpha.
    pub gain: f64,
    /// Increase of the marking probability per packet in the queue.
    pub slope_per_packet: f64,
}

/// Queue above Kmin in packets, rate and target rate in packets per second, alpha.
type State = [f64; 4];
type Matrix = [[f64; 4]; 4];

/// Initial frequencies of the search for roots, and its initial growth.
const FIRST_HZ: f64 = 20.0;
const STARTS: i32 = 60;
const GROWTHS: [f64; 4] = [-2e3, -2e2, 2e2, 2e3];
/// A faster root is an artefact of the arithmetic.
const FASTEST: f64 = 1e6;

/// The mode that decays least; `None` without a fixed point, or without an oscillation.
pub fn mode(of: &Loop, feedback: &Feedback) -> Option<Mode> {
    let point = fixed_point(of)?;
    let rate = of.capacity / of.flows;
    let queue = point.probability / feedback.slope_per_packet;
    let state = [queue, rate, point.target, point.alpha];
    let (now, then) = jacobians(&state, of, feedback);
    let value = |s: Complex| characteristic(s, &now, &then, feedback.delay_s);
    let mut best: Option<Complex> = None;
    for step in 0..STARTS {
        for growth in GROWTHS {
            let start = Complex(growth, std::f64::consts::TAU * FIRST_HZ * 1.15f64.powi(step));
            let Some(root) = secant(start, &value) else { continue };
            if root.1 > 1.0 && root.abs() < FASTEST && best.is_none_or(|known| root.0 > known.0) {
                best = Some(root);
            }
        }
    }
    best.map(|s| Mode { frequency_hz: s.1 / std::f64::consts::TAU, growth_per_s: s.0 })
}

/// Derivative of the state, given the state one delay ago.
fn change(now: &State, then: &State, of: &Loop, feedback: &Feedback) -> State {
    let [_, rate, target, alpha] = *now;
    let (marked, seen_rate) = (then[0] * feedback.slope_per_packet, then[1]);
    let s = Terms::at(marked, seen_rate, of);
    [
        of.flows * rate - of.capacity,
        -rate * alpha * s.cnp_rate / 2.0 + 0.5 * (target - rate) * seen_rate * (s.b + s.d),
        -(target - rate) * s.cnp_rate + of.increase * seen_rate * (s.c + s.e),
        feedback.gain * (s.alpha - alpha) / of.alpha_period,
    ]
}

/// Derivatives by the state now and by the state one delay ago, by central differences.
fn jacobians(state: &State, of: &Loop, feedback: &Feedback) -> (Matrix, Matrix) {
    let (mut now, mut then) = ([[0.0; 4]; 4], [[0.0; 4]; 4]);
    for column in 0..4 {
        let step = state[column] * 1e-5;
        let moved = |by: f64| {
            let mut moved = *state;
            moved[column] += by;
            moved
        };
        let (up, down) = (moved(step), moved(-step));
        let by_now = [change(&up, state, of, feedback), change(&down, state, of, feedback)];
        let by_then = [change(state, &up, of, feedback), change(state, &down, of, feedback)];
        for row in 0..4 {
            now[row][column] = (by_now[0][row] - by_now[1][row]) / (2.0 * step);
            then[row][column] = (by_then[0][row] - by_then[1][row]) / (2.0 * step);
        }
    }
    (now, then)
}

/// `det(s - A - B exp(-s delay))`, by elimination with pivots.
fn characteristic(s: Complex, now: &Matrix, then: &Matrix, delay: f64) -> Complex {
    let late = Complex(-s.0 * delay, -s.1 * delay).exp();
    let mut m = [[Complex(0.0, 0.0); 4]; 4];
    for row in 0..4 {
        for column in 0..4 {
            let known = late.times(then[row][column]) + Complex(now[row][column], 0.0);
            let own = if row == column { s } else { Complex(0.0, 0.0) };
            m[row][column] = own - known;
        }
    }
    let mut product = Complex(1.0, 0.0);
    for k in 0..4 {
        let pivot = (k..4).max_by(|&a, &b| m[a][k].abs().total_cmp(&m[b][k].abs())).unwrap_or(k);
        if m[pivot][k].abs() == 0.0 {
            return Complex(0.0, 0.0);
        }
        if pivot != k {
            m.swap(pivot, k);
            product = product.times(-1.0);
        }
        product = product * m[k][k];
        for row in k + 1..4 {
            let factor = m[row][k] / m[k][k];
            let above = m[k];
            for (value, above) in m[row].iter_mut().zip(above).skip(k) {
                *value = *value - factor * above;
            }
        }
    }
    product
}

/// A root near `start`, by the secant method; `None` when it does not converge.
fn secant(start: Complex, value: &dyn Fn(Complex) -> Complex) -> Option<Complex> {
    let (mut before, mut here) = (start, start.times(1.01));
    let (mut old, mut new) = (value(before), value(here));
    for _ in 0..80 {
        let slope = new - old;
        if slope.abs() == 0.0 {
            return None;
        }
        let next = here - new * (here - before) / slope;
        (before, old, here) = (here, new, next);
        if !here.abs().is_finite() || here.abs() > 10.0 * FASTEST {
            return None;
        }
        new = value(here);
        if (here - before).abs() <= 1e-9 * here.abs() {
            return Some(here);
        }
    }
    None
}

/// Real and imaginary part.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Complex(f64, f64);

impl Complex {
    fn abs(self) -> f64 {
        (self.0 * self.0 + self.1 * self.1).sqrt()
    }

    fn times(self, by: f64) -> Complex {
        Complex(self.0 * by, self.1 * by)
    }

    fn exp(self) -> Complex {
        let size = self.0.exp();
        Complex(size * self.1.cos(), size * self.1.sin())
    }
}

impl std::ops::Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex(self.0 + other.0, self.1 + other.1)
    }
}

impl std::ops::Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        Complex(self.0 - other.0, self.1 - other.1)
    }
}

impl std::ops::Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

impl std::ops::Div for Complex {
    type Output = Complex;
    fn div(self, other: Complex) -> Complex {
        let size = other.0 * other.0 + other.1 * other.1;
        let product = self * Complex(other.0, -other.1);
        Complex(product.0 / size, product.1 / size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(flows: f64, delay_s: f64) -> Mode {
        let of = super::super::tests::paper(40.0, flows);
        // 5 KB to 2000 KB, 10 %.
        let feedback = Feedback { delay_s, gain: 1.0 / 256.0, slope_per_packet: 0.1 / 1995.0 };
        mode(&of, &feedback).unwrap()
    }

    /// The cases that were integrated as delay equations (40 Gbit/s, long ramp): which settle, which oscillate for
    /// ever. The growth was confirmed by an independent program with another determinant.
    #[test]
    fn the_model_is_stable_where_its_integration_settles() {
        for (flows, delay, swings) in [
            (2.0, 4e-6, false),
            (2.0, 50e-6, false),
            (4.0, 50e-6, false),
            (4.0, 85e-6, true),
            (10.0, 4e-6, false),
            (10.0, 50e-6, false),
            (10.0, 85e-6, true),
        ] {
            let found = paper(flows, delay);
            assert_eq!(found.growth_per_s > 0.0, swings, "{flows} {delay}: {found:?}");
        }
        let (short, long) = (paper(10.0, 4e-6), paper(10.0, 85e-6));
        assert!(
            (short.frequency_hz - 405.0).abs() < 2.0 && (short.growth_per_s + 197.0).abs() < 2.0,
            "{short:?}"
        );
        assert!(
            (long.frequency_hz - 408.0).abs() < 2.0 && (long.growth_per_s - 73.0).abs() < 2.0,
            "{long:?}"
        );
    }

    #[test]
    fn without_a_fixed_point_there_is_no_mode() {
        let of = super::super::tests::paper(40.0, 2.0);
        let of = Loop { byte_counter: f64::INFINITY, increase: 0.0, ..of };
        let feedback = Feedback { delay_s: 4e-6, gain: 1.0 / 256.0, slope_per_packet: 1e-4 };
        assert_eq!(mode(&of, &feedback), None);
    }
}
