//! Text to units: a number, an optional space, a unit; exact or refused.
//!
//! One grammar for all: digits (with `_` allowed), an optional decimal fraction, a unit from a closed
//! list. A value that is not a whole number of the base unit is an error, not a rounding.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Visitor};
use wireyard_tables::time::Span;

use super::{BitsPerSec, Bytes, Interval, Length, PoolAlpha, Probability, Quanta};

/// Text that is not a quantity, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\": {problem}; expected {expected}")]
pub struct UnitError {
    text: String,
    problem: String,
    expected: &'static str,
}

impl UnitError {
    fn new(text: &str, problem: impl Into<String>, expected: &'static str) -> UnitError {
        UnitError { text: text.to_owned(), problem: problem.into(), expected }
    }
}

const SIZE: &str = "a size such as \"5 KB\" (5000 bytes) or \"5 KiB\" (5120 bytes); units: B, KB, MB, GB, KiB, MiB, GiB";
const RATE: &str = "a bit rate such as \"100Gbit/s\"; units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, or bps to Tbps";
const TIME: &str = "a time such as \"55 us\"; units: ps, ns, us, ms, s";
const LENGTH: &str = "a length such as \"40 m\"; units: m, km";
const CHANCE: &str = "a probability such as \"5 %\" or \"1/256\", at most 100 %";
const QUANTA: &str = "a pause time of 0 to 65535 quanta, such as \"65535 quanta\"";
const ALPHA: &str = "a factor such as \"1/8\" or \"2\", terms from 1 to 65536";

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const RATE_UNITS: &[(&str, u64)] = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("Tbps", 1_000_000_000_000),
];
const TIME_UNITS: &[(&str, u64)] =
    &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];
const LENGTH_UNITS: &[(&str, u64)] = &[("m", 1_000), ("km", 1_000_000)];
/// A probability in percent is parsed as parts per 10^10, so that "0.000001 %" is still exact.
const PERCENT_UNITS: &[(&str, u64)] = &[("%", 100_000_000)];
const QUANTA_UNITS: &[(&str, u64)] = &[("quanta", 1), ("quantum", 1)];

/// All of them, by quantity.
const UNITS: &[&[(&str, u64)]] =
    &[SIZE_UNITS, RATE_UNITS, TIME_UNITS, LENGTH_UNITS, PERCENT_UNITS, QUANTA_UNITS];

/// The units of a quantity that has this one.
fn units_with(unit: &str) -> Option<&'static [(&'static str, u64)]> {
    UNITS.iter().copied().find(|units| units.iter().any(|(name, _)| *name == unit))
}

/// Whether a quantity has this unit.
pub fn is_unit(unit: &str) -> bool {
    units_with(unit).is_some()
}

/// A number with its unit, as text that is read exactly: one that is not a whole number of the base unit is rounded to
/// it, and written in it. Other units are left as they are.
pub fn rounded(number: &str, unit: &str) -> String {
    let text = format!("{number} {unit}");
    let Some(units) = units_with(unit).filter(|units| scaled(&text, units, "").is_err()) else {
        return text;
    };
    let factor = units.iter().find(|(name, _)| *name == unit).map_or(1, |(_, factor)| *factor);
    let (Ok(value), Some(&(base, step))) = (number.parse::<f64>(), units.first()) else {
        return text;
    };
    let steps = (value * factor as f64).round();
    // The smallest step of some has no name: it is a decimal place.
    let places = step.ilog10() as usize;
    let number = format!("{:.places$}", steps / step as f64);
    let number = match places {
        0 => number.as_str(),
        _ => number.trim_end_matches('0').trim_end_matches('.'),
    };
    format!("{number} {base}")
}

/// Parses `text` as a number of one of `units`, in base units, exactly.
fn scaled(
    text: &str,
    units: &[(&'static str, u64)],
    expected: &'static str,
) -> Result<u64, UnitError> {
    let fail = |problem: String| UnitError::new(text, problem, expected);
    let trimmed = text.trim();
    let number_end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(number_end);
    let unit = unit.trim_start();
    if number.is_empty() || number.starts_with(['.', '_']) || number.ends_with(['.', '_']) {
        let is_negative = number.is_empty()
            && unit
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let problem = if is_negative { "negative is not allowed" } else { "no number in front" };
        return Err(fail(problem.to_owned()));
    }
    if unit.is_empty() {
        return Err(fail("missing unit".to_owned()));
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(fail(format!("\"{unit}\" is not a unit here")));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    let places = fraction.chars().filter(|c| *c != '_').count();
    let value: u128 = digits.parse().map_err(|_| fail("the number is not readable".to_owned()))?;
    let divisor = u32::try_from(places)
        .ok()
        .and_then(|places| 10u128.checked_pow(places))
        .ok_or_else(|| fail("too many decimal places".to_owned()))?;
    let product = value
        .checked_mul(u128::from(factor))
        .ok_or_else(|| fail("the number is too large".to_owned()))?;
    if product % divisor != 0 {
        return Err(fail(format!("not a whole number of {}", base_name(units))));
    }
    u64::try_from(product / divisor).map_err(|_| fail("the number is too large".to_owned()))
}

fn base_name(units: &[(&'static str, u64)]) -> &'static str {
    match units.first() {
        Some((name, 1)) => name,
        _ => "the smallest step",
    }
}

/// Parses "n/d", or "n" as n/1.
fn fraction(text: &str) -> Option<(u64, u64)> {
    let (n, d) = text.trim().split_once('/').unwrap_or((text.trim(), "1"));
    Some((n.trim().parse().ok()?, d.trim().parse().ok()?))
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        scaled(text, SIZE_UNITS, SIZE).map(Bytes::new)
    }
}

impl FromStr for BitsPerSec {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<BitsPerSec, UnitError> {
        let bps = scaled(text, RATE_UNITS, RATE)?;
        BitsPerSec::new(bps)
            .ok_or_else(|| UnitError::new(text, "a rate is above 0 and at most 100 Tbit/s", RATE))
    }
}

impl FromStr for Interval {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Interval, UnitError> {
        scaled(text, TIME_UNITS, TIME).map(|ps| Interval::new(Span::from_ps(ps)))
    }
}

impl FromStr for Length {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Length, UnitError> {
        scaled(text, LENGTH_UNITS, LENGTH).map(Length)
    }
}

impl FromStr for Probability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Probability, UnitError> {
        let above = || UnitError::new(text, "a probability is at most 100 %", CHANCE);
        if text.contains('/') {
            let (n, d) = fraction(text)
                .ok_or_else(|| UnitError::new(text, "the fraction is not readable", CHANCE))?;
            return Probability::ratio(n, d).ok_or_else(above);
        }
        let parts = scaled(text, PERCENT_UNITS, CHANCE)?;
        Probability::ratio(parts, 10_000_000_000).ok_or_else(above)
    }
}

impl FromStr for Quanta {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Quanta, UnitError> {
        let quanta = scaled(text, QUANTA_UNITS, QUANTA)?;
        u16::try_from(quanta)
            .map(Quanta::new)
            .map_err(|_| UnitError::new(text, "more than 65535 quanta do not fit a frame", QUANTA))
    }
}

impl FromStr for PoolAlpha {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<PoolAlpha, UnitError> {
        fraction(text)
            .and_then(|(n, d)| Some((u32::try_from(n).ok()?, u32::try_from(d).ok()?)))
            .and_then(|(n, d)| PoolAlpha::new(n, d))
            .ok_or_else(|| UnitError::new(text, "not a factor", ALPHA))
    }
}

/// Reads a quantity from a string; a bare number is refused with the valid units.
struct QuantityVisitor<T> {
    expected: &'static str,
    quantity: PhantomData<T>,
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for QuantityVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

fn quantity<'de, D, T>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = UnitError>,
{
    deserializer.deserialize_any(QuantityVisitor { expected, quantity: PhantomData })
}

macro_rules! deserialize_quantity {
    ($($unit:ty => $expected:expr),* $(,)?) => {$(
        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                quantity(deserializer, $expected)
            }
        }
    )*};
}

deserialize_quantity! {
    Bytes => SIZE,
    BitsPerSec => RATE,
    Interval => TIME,
    Length => LENGTH,
    Probability => CHANCE,
    Quanta => QUANTA,
    PoolAlpha => ALPHA,
}
