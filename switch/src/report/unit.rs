//! Units of numbers in a report, and their notation.

use std::str::FromStr;

use crate::units::{BitsPerSec, Bytes, Interval, Probability, UnitError};

/// Text that is no value of a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// A missing or wrong unit, or an invalid number before it.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// No number.
    #[error("\"{0}\" is not a number")]
    Number(String),
}

/// The unit of a value; values are kept in the base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count: packets, frames, events.
    Count,
    /// Bytes; shown in decimal KB, MB.
    Bytes,
    /// Bits per second.
    BitRate,
    /// Seconds.
    Seconds,
    /// A share of one; shown in percent.
    Share,
    /// Events per second.
    PerSecond,
    /// Hertz.
    Hertz,
    /// A number without a unit.
    Plain,
}

const BYTES: &[(f64, &str)] = &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")];
const RATES: &[(f64, &str)] =
    &[(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
const TIMES: &[(f64, &str)] =
    &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")];
const EVENTS: &[(f64, &str)] = &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")];
const HERTZ: &[(f64, &str)] = &[(1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")];

impl Unit {
    /// The name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::BitRate => "bit/s",
            Unit::Seconds => "seconds",
            Unit::Share => "share",
            Unit::PerSecond => "1/s",
            Unit::Hertz => "Hz",
            Unit::Plain => "number",
        }
    }

    /// The unit of this name in JSON and CSV.
    pub fn by_name(name: &str) -> Option<Unit> {
        const ALL: [Unit; 8] = [
            Unit::Count,
            Unit::Bytes,
            Unit::BitRate,
            Unit::Seconds,
            Unit::Share,
            Unit::PerSecond,
            Unit::Hertz,
            Unit::Plain,
        ];
        ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// Scales and their names, largest first.
    fn scales(self) -> &'static [(f64, &'static str)] {
        match self {
            Unit::Bytes => BYTES,
            Unit::BitRate => RATES,
            Unit::Seconds => TIMES,
            Unit::PerSecond => EVENTS,
            Unit::Hertz => HERTZ,
            Unit::Share => &[(0.01, "%")],
            Unit::Count | Unit::Plain => &[(1.0, "")],
        }
    }

    /// The scale in which a value of this size is best readable, and its name.
    pub fn scale(self, size: f64) -> (f64, &'static str) {
        let scales = self.scales();
        let fits = |(factor, _): &&(f64, &str)| size.abs() >= *factor * 0.9995;
        let smallest = if self == Unit::Seconds { TIMES[2] } else { scales[scales.len() - 1] };
        scales.iter().find(fits).copied().unwrap_or(smallest)
    }

    /// The value with its unit: four digits, whole for counts.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        if self == Unit::Count {
            return format!("{value:.0}");
        }
        let (factor, name) = self.scale(value);
        let number = digits(value / factor, 4);
        match name {
            "" => number,
            "/s" | "k/s" | "M/s" => format!("{number}{name}"),
            name => format!("{number} {name}"),
        }
    }

    /// The mean of several values with its unit: that of counts is no whole number.
    pub fn show_mean(self, mean: f64) -> String {
        if self == Unit::Count { Unit::Plain.show(mean) } else { self.show(mean) }
    }

    /// Reads the output of [`Unit::show`] or a user's input: "20 KB", "100 Gbit/s", "55 us", "0.08 %", "12".
    ///
    /// # Errors
    /// A missing or wrong unit, with the valid units.
    pub fn read(self, text: &str) -> Result<f64, QuantityError> {
        Ok(match self {
            Unit::Bytes => Bytes::from_str(text)?.get() as f64,
            Unit::BitRate if is_no_rate(text) => 0.0,
            Unit::BitRate => BitsPerSec::from_str(text)?.get() as f64,
            Unit::Seconds => Interval::from_str(text)?.span().as_ps() as f64 / 1e12,
            Unit::Share if text.contains('%') || text.contains('/') => {
                Probability::from_str(text)?.get() as f64 / 4_294_967_296.0
            }
            Unit::PerSecond | Unit::Hertz => {
                let text = text.trim();
                let scaled =
                    |(factor, name): &(f64, &str)| Some((text.strip_suffix(name)?, *factor));
                let (text, factor) = self.scales().iter().find_map(scaled).unwrap_or((text, 1.0));
                number(text.trim_end())? * factor
            }
            Unit::Share | Unit::Count | Unit::Plain => number(text.trim())?,
        })
    }
}

/// `0`, `0 bit/s`: a link has no such rate, but a flow may.
fn is_no_rate(text: &str) -> bool {
    let text = text.trim();
    let unit = text.trim_start_matches(['0', '.', '_']);
    let is_zero = text.starts_with('0') && !unit.starts_with(|c: char| c.is_ascii_digit());
    text == "0" || is_zero && BitsPerSec::from_str(&format!("1{unit}")).is_ok()
}

fn number(text: &str) -> Result<f64, QuantityError> {
    let plain = text.replace('_', "");
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| QuantityError::Number(text.to_owned()))
}

/// A number with `significant` digits, without an exponent and without trailing zeros.
pub fn digits(value: f64, significant: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let whole = value.abs().log10().floor() as i32 + 1;
    let places = (significant as i32 - whole).clamp(0, 9) as usize;
    let text = format!("{value:.places$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
