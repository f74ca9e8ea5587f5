//! Expectations: a figure of a report, and its condition.
//!
//! ```text
//! flows.jain:                     ">= 0.98"
//! bottleneck.queue_mean:          "20.9 KB +- 15 % or 4 KB"      the wider of the two
//! bottleneck.marking_probability: "theory.marking_probability +- 12 %"
//! drops.lossless:                 "== 0"
//! ```
//!
//! Quantities carry the unit of the figure; `%` after `+-` is always a part of the value in the middle.

use super::unit::QuantityError;
use super::{Figure, Report, Unit};

/// A condition on a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Compare(Comparison, Operand),
    Near { middle: Operand, tolerances: Vec<Tolerance> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
    NotEqual,
}

/// Longest sign first.
const COMPARISONS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A quantity, read with the figure's unit.
    Quantity(String),
    /// Another figure.
    Figure(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Tolerance {
    Part(f64),
    Quantity(String),
}

/// Why a condition is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectError {
    /// The report has no such figure.
    #[error("there is no figure `{0}`")]
    NoFigure(String),
    /// No sign of a comparison, and no tolerance.
    #[error("`{0}` is no condition: write `>= 0.98`, `== 0`, or `20 KB +- 15 % or 4 KB`")]
    Form(String),
    /// A quantity or a figure is missing.
    #[error("a quantity is missing")]
    NoQuantity,
    /// The tolerance is missing.
    #[error("a tolerance is missing after `+-`")]
    NoTolerance,
    /// A tolerance that is no share.
    #[error("`{0}` is no tolerance")]
    Tolerance(String),
    /// A quantity that the figure cannot have.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// Two figures that cannot be compared.
    #[error("`{figure}` is in {}, `{other}` in {}", .unit.name(), .other_unit.name())]
    Units {
        /// The figure.
        figure: String,
        /// Its unit.
        unit: Unit,
        /// The other figure.
        other: String,
        /// The unit of that.
        other_unit: Unit,
    },
}

impl Condition {
    /// Reads a condition; quantities are read when the figure is known.
    ///
    /// # Errors
    /// What is missing, with the valid forms.
    pub fn parse(text: &str) -> Result<Condition, ExpectError> {
        let text = text.trim();
        for (sign, comparison) in COMPARISONS {
            if let Some(rest) = text.strip_prefix(sign) {
                return Ok(Condition { kind: Kind::Compare(comparison, operand(rest)?) });
            }
        }
        let Some((middle, tolerances)) = text.split_once("+-") else {
            return Err(ExpectError::Form(text.to_owned()));
        };
        let tolerances = tolerances.split(" or ").map(tolerance).collect::<Result<_, _>>()?;
        Ok(Condition { kind: Kind::Near { middle: operand(middle)?, tolerances } })
    }

    /// Checks names and units against a report, independent of its values.
    ///
    /// # Errors
    /// A missing figure, or a quantity of another unit.
    pub fn check(&self, name: &str, report: &Report) -> Result<(), ExpectError> {
        self.judge(name, report).map(|_| ())
    }

    /// Whether the figure meets the condition, and its value as text. A figure that was not measured does not.
    ///
    /// # Errors
    /// As [`Condition::check`].
    pub fn judge(&self, name: &str, report: &Report) -> Result<(bool, String), ExpectError> {
        let figure = report.find(name).ok_or_else(|| ExpectError::NoFigure(name.to_owned()))?;
        let unit = figure.unit;
        match &self.kind {
            Kind::Compare(comparison, operand) => {
                let wanted = value(operand, figure, report)?;
                let passed = comparison.holds(figure.value, wanted);
                let text = format!(
                    "{}, wanted {} {}",
                    unit.show(figure.value),
                    comparison.sign(),
                    unit.show(wanted)
                );
                Ok((passed, text))
            }
            Kind::Near { middle, tolerances } => {
                let middle = value(middle, figure, report)?;
                let mut allowed = 0f64;
                for tolerance in tolerances {
                    allowed = allowed.max(match tolerance {
                        Tolerance::Part(part) => middle.abs() * part,
                        Tolerance::Quantity(text) => unit.read(text)?,
                    });
                }
                let away = figure.value - middle;
                let relative = 100.0 * away / middle.abs();
                let relative = match relative.is_finite() {
                    true => format!("; {} % away", super::unit::digits(relative, 3)),
                    false => String::new(),
                };
                let text = format!(
                    "{}, wanted {} within {}{relative}",
                    unit.show(figure.value),
                    unit.show(middle),
                    unit.show(allowed),
                );
                // NaN on either side is not near.
                Ok((away.abs() <= allowed, text))
            }
        }
    }
}

impl Comparison {
    fn holds(self, found: f64, wanted: f64) -> bool {
        match self {
            Comparison::AtLeast => found >= wanted,
            Comparison::AtMost => found <= wanted,
            Comparison::Above => found > wanted,
            Comparison::Below => found < wanted,
            Comparison::Equal => found == wanted,
            // NaN differs from everything, but a figure without a measurement proves nothing.
            Comparison::NotEqual => found != wanted && !found.is_nan(),
        }
    }

    fn sign(self) -> &'static str {
        let known = COMPARISONS.iter().find(|(_, comparison)| *comparison == self);
        known.map_or("", |(sign, _)| sign)
    }
}

fn operand(text: &str) -> Result<Operand, ExpectError> {
    let text = text.trim();
    match text.chars().next() {
        None => Err(ExpectError::NoQuantity),
        Some(c) if c.is_ascii_alphabetic() => Ok(Operand::Figure(text.to_owned())),
        Some(_) => Ok(Operand::Quantity(text.to_owned())),
    }
}

fn tolerance(text: &str) -> Result<Tolerance, ExpectError> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(number) => {
            let part = number.trim().parse::<f64>().ok().filter(|p| p.is_finite() && *p >= 0.0);
            let part = part.ok_or_else(|| ExpectError::Tolerance(text.to_owned()))?;
            Ok(Tolerance::Part(part / 100.0))
        }
        None if text.is_empty() => Err(ExpectError::NoTolerance),
        None => Ok(Tolerance::Quantity(text.to_owned())),
    }
}

fn value(operand: &Operand, figure: &Figure, report: &Report) -> Result<f64, ExpectError> {
    match operand {
        Operand::Quantity(text) => Ok(figure.unit.read(text)?),
        Operand::Figure(name) => {
            let other = report.find(name).ok_or_else(|| ExpectError::NoFigure(name.clone()))?;
            if other.unit != figure.unit {
                let (figure, unit) = (figure.name.clone(), figure.unit);
                let (other, other_unit) = (name.clone(), other.unit);
                return Err(ExpectError::Units { figure, unit, other, other_unit });
            }
            Ok(other.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, condition: &str) -> Result<bool, ExpectError> {
        let report = crate::report::tests::sample();
        let condition = Condition::parse(condition).unwrap();
        condition.judge(name, &report).map(|(passed, _)| passed)
    }

    /// Around zero, and where nothing was measured, there is no share by which a value is away.
    #[test]
    fn a_condition_around_zero_has_no_share() {
        let mut report = Report::default();
        for (value, shown) in [(1.0, "1, wanted 0 within 2"), (f64::NAN, "-, wanted 0 within 2")] {
            report.figures.clear();
            report.figure("a", value, crate::report::Unit::Plain);
            let (passed, text) = Condition::parse("0 +- 2").unwrap().judge("a", &report).unwrap();
            assert_eq!((passed, text.as_str()), (value == 1.0, shown));
        }
    }

    #[test]
    fn conditions_hold_or_not() {
        assert_eq!(judged("queue_mean", "20 KB +- 1 %"), Ok(true));
        assert_eq!(judged("queue_mean", "20 KB +- 0.1 %"), Ok(false));
        assert_eq!(judged("queue_mean", "20 KB +- 0.1 % or 1 KB"), Ok(true));
        assert_eq!(judged("queue_mean", "theory +- 5 %"), Ok(true));
        assert_eq!(judged("queue_mean", "< theory"), Ok(true));
        assert_eq!(judged("queue_mean", ">= 21 KB"), Ok(false));
        assert_eq!(judged("queue_mean", "== 20151 B"), Ok(true));
        for condition in ["<= 1 s", ">= 0 s", "!= 1 s", "1 s +- 1 s"] {
            assert_eq!(judged("nothing", condition), Ok(false), "nothing was measured");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_an_error() {
        assert!(matches!(judged("queue_maen", "> 1 KB"), Err(ExpectError::NoFigure(_))));
        assert!(matches!(judged("queue_mean", "> 5k"), Err(ExpectError::Quantity(_))));
        assert!(matches!(judged("queue_mean", "> nothing"), Err(ExpectError::Units { .. })));
        assert!(Condition::parse("about 5").is_err());
        assert!(Condition::parse(">=").is_err());
        assert!(Condition::parse("5 +- ").is_err());
        assert!(Condition::parse("5 +- x %").is_err());
    }
}
