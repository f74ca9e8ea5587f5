//! Student's t: whether a difference between means of a few runs is significant.
//!
//! The two-sided probability is the regularised incomplete beta function I(df / (df + t^2); df/2, 1/2), by Lentz's
//! continued fraction (Press et al., "Numerical Recipes", 6.4).

use super::stats::{mean, sample_deviation};

/// Probability of a t at least so far from zero by chance.
pub fn p_value(t: f64, df: f64) -> f64 {
    if !t.is_finite() || df.is_nan() || df <= 0.0 {
        return if t.is_infinite() && df > 0.0 { 0.0 } else { f64::NAN };
    }
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// The t that 5 % of both sides together exceed.
pub fn t_95(df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if p_value(middle, df) > 0.05 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Fewest values that differ by the same for a probability: two or three equal differences of whole numbers are no
/// estimate of their variance.
pub const EQUAL_MIN: usize = 5;

/// Half of the 95 % interval of a mean.
pub fn half_width(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return f64::NAN;
    }
    t_95(n - 1.0) * sample_deviation(values) / n.sqrt()
}

/// A difference of means: the second less the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Of the means.
    pub mean: f64,
    /// Half of its 95 % interval; NaN without a probability.
    pub half_width: f64,
    /// Probability of such a difference by chance; NaN without variance of fewer than [`EQUAL_MIN`] values.
    pub p: f64,
}

/// Of paired values, such as runs with the same seed.
pub fn paired(a: &[f64], b: &[f64]) -> Difference {
    let each: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let (mean, n) = (mean(&each), each.len() as f64);
    let error = sample_deviation(&each) / n.sqrt();
    let p = of(mean, error, n - 1.0, each.len());
    Difference { mean, half_width: if p.is_nan() { p } else { half_width(&each) }, p }
}

/// Of independent values (Welch 1947).
pub fn independent(a: &[f64], b: &[f64]) -> Difference {
    let part = |values: &[f64]| sample_deviation(values).powi(2) / values.len() as f64;
    let (va, vb) = (part(a), part(b));
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let df = (va + vb).powi(2) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
    let (mean, error) = (mean(b) - mean(a), (va + vb).sqrt());
    let p = of(mean, error, df, a.len().min(b.len()));
    let half_width = match error == 0.0 {
        _ if p.is_nan() => p,
        true => 0.0,
        false => t_95(df) * error,
    };
    Difference { mean, half_width, p }
}

/// Probability of a mean with this standard error. Many values without variance differ certainly, or not at all.
fn of(mean: f64, error: f64, df: f64, count: usize) -> f64 {
    // Below that the variance is that of rounding.
    let is_exact = error <= 1e-12 * mean.abs();
    match (mean == 0.0, is_exact) {
        (true, _) => 1.0,
        (false, true) if count < EQUAL_MIN => f64::NAN,
        (false, true) => 0.0,
        (false, false) => p_value(mean / error, df),
    }
}

/// Which of many probabilities are significant at 5 % together (Holm 1979).
pub fn holm(values: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..values.len()).filter(|n| values[*n].is_finite()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
    let mut found = vec![false; values.len()];
    let count = order.len();
    for (rank, place) in order.into_iter().enumerate() {
        if values[place] > 0.05 / (count - rank) as f64 {
            break;
        }
        found[place] = true;
    }
    found
}

fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    match x < (a + 1.0) / (a + b + 2.0) {
        true => front * fraction(x, a, b) / a,
        false => 1.0 - front * fraction(1.0 - x, b, a) / b,
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let safe = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for step in 1..300 {
        let m = f64::from(step);
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / safe(1.0 + term * d);
            c = safe(1.0 + term / c);
            sum *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    sum
}

/// Lanczos' approximation with g = 5, six terms: below 2e-10.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let sum = TERMS
        .iter()
        .zip(1..)
        .fold(1.000_000_000_190_015, |sum, (term, n)| sum + term / (x + f64::from(n)));
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * sum / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of every textbook.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (df, t) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (1e6, 1.96)]
        {
            assert!((t_95(df) - t).abs() < 0.001, "{df}: {}", t_95(df));
        }
        assert!((p_value(2.0, 10.0) - 0.0734).abs() < 0.0001);
    }

    #[test]
    fn differences_count_where_they_are_larger_than_chance() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 3.1, 4.1001]);
        assert!(paired(&a, &b).p < 0.001, "the same pairs differ by the same");
        assert!(independent(&a, &b).p > 0.5, "but not as two heaps");
        assert_eq!(paired(&a, &a).p, 1.0);
        let (few, many) = ([[0.0; 3], [0.1; 3]], [[0.0; 5], [0.1; 5]]);
        for difference in [paired, independent] {
            assert!(difference(&few[0], &few[1]).p.is_nan(), "three equal differences");
            assert!(difference(&few[0], &few[1]).half_width.is_nan());
            assert_eq!(difference(&many[0], &many[1]).p, 0.0);
        }
        assert_eq!(holm(&[0.001, 0.04, f64::NAN, 0.03]), [true, false, false, false]);
    }
}
