//! The statistics that reports use, each a function of plain numbers.

/// Arithmetic mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of the whole set; NaN without values.
pub fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    (values.iter().map(|v| (v - middle) * (v - middle)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Estimated standard deviation of the population of a sample (n - 1); NaN of less than two.
pub fn sample_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if n < 2.0 { f64::NAN } else { deviation(values) * (n / (n - 1.0)).sqrt() }
}

/// Largest value; NaN of nothing.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// Smallest value; NaN of nothing.
pub fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

/// In ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The nearest-rank percentile of sorted values: the smallest that at least `percent` of them do not exceed.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    // Divided last: 99.9 % of 1,000 would be a little more than 999.
    let rank = (percent * sorted.len() as f64 / 100.0).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Jain's fairness index: 1 when all are equal, 1/n when one has everything; NaN without values.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    sum * sum / (values.len() as f64 * squares)
}

/// Wilson's 95 % interval of a proportion: given `hits` of `trials`.
pub fn wilson(hits: u64, trials: u64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    const Z: f64 = 1.959_964;
    let (n, p) = (trials as f64, hits as f64 / trials as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the extremes the interval includes 0 or 1, which rounding may miss.
    let low = if hits == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if hits == trials { 1.0 } else { (middle + half).min(1.0) };
    (low, high)
}

/// The steps of the empirical distribution function of sorted values, as (value, share).
pub fn distribution(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len() as f64;
    sorted.iter().enumerate().map(|(i, &value)| (value, (i + 1) as f64 / n)).collect()
}

/// Power over frequency of evenly spaced samples, in shares of the variance: Welch's method, Hann windows of
/// `window` samples that overlap by half. Empty when there is not one whole window.
pub fn spectrum(values: &[f64], step_seconds: f64, window: usize) -> Vec<(f64, f64)> {
    if window < 8 || values.len() < window {
        return Vec::new();
    }
    let middle = mean(values);
    let hann: Vec<f64> = (0..window)
        .map(|i| {
            let angle = std::f64::consts::TAU * i as f64 / window as f64;
            0.5 - 0.5 * angle.cos()
        })
        .collect();
    let mut power = vec![0.0; window / 2];
    for start in (0..=values.len() - window).step_by(window / 2) {
        let part: Vec<f64> = (0..window).map(|i| (values[start + i] - middle) * hann[i]).collect();
        for (k, sum) in power.iter_mut().enumerate().skip(1) {
            *sum += goertzel(&part, k);
        }
    }
    let total: f64 = power.iter().sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let frequency = |k: usize| k as f64 / (window as f64 * step_seconds);
    power.iter().enumerate().skip(1).map(|(k, p)| (frequency(k), p / total)).collect()
}

/// The frequency of the highest power, between two frequencies by the parabola through the logarithms of the highest
/// and its neighbours; NaN without powers.
pub fn peak(powers: &[(f64, f64)]) -> f64 {
    let highest =
        (0..powers.len()).max_by(|&a, &b| powers[a].1.total_cmp(&powers[b].1).then(b.cmp(&a)));
    let Some(at) = highest else { return f64::NAN };
    let frequency = powers[at].0;
    let sides = at.checked_sub(1).and_then(|n| powers.get(n)).zip(powers.get(at + 1));
    let Some((left, right)) = sides.filter(|(l, r)| l.1 > 0.0 && r.1 > 0.0) else {
        return frequency;
    };
    let (l, m, r) = (left.1.ln(), powers[at].1.ln(), right.1.ln());
    let bend = l - 2.0 * m + r;
    let shift = if bend < 0.0 { 0.5 * (l - r) / bend } else { 0.0 };
    frequency + shift * (right.0 - frequency)
}

/// Power of one frequency (k periods in all of `values`).
fn goertzel(values: &[f64], k: usize) -> f64 {
    let factor = 2.0 * (std::f64::consts::TAU * k as f64 / values.len() as f64).cos();
    let (mut last, mut before) = (0.0, 0.0);
    for value in values {
        let next = value + factor * last - before;
        before = last;
        last = next;
    }
    last * last + before * before - factor * last * before
}
