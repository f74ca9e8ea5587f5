//! Parameters: units, bounds, defaults, and their values in a scenario.

use wireyard_pipeline::ast::AstExpr;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;

use super::code::Reg;
use crate::units::{BitsPerSec, Bytes, Interval, UnitError};

/// Text that is not a valid value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A missing or wrong unit, or an invalid number before it.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// No number.
    #[error("expected a number, as `3`, `0.8` or `1/256`, found `{0}`")]
    Number(String),
    /// A count with a fraction.
    #[error("expected a whole number, found `{0}`")]
    Whole(String),
    /// A value that the program does not allow; each as text.
    #[error("{name}: {found} is not from {low} to {high}")]
    Bounds {
        /// The parameter.
        name: String,
        /// The value found.
        found: String,
        /// The least.
        low: String,
        /// The most.
        high: String,
    },
    /// Values that do not go together.
    #[error("`{requires}` does not hold: {values}")]
    Requirement {
        /// What the program requires, as written.
        requires: String,
        /// The values that it is about.
        values: String,
    },
}

/// The unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bits per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Packets, stages, hops.
    Count,
    /// No unit; may have bits of fraction.
    Number,
}

impl Unit {
    /// As they are written.
    pub(super) const NAMES: &[&str] = &["ns", "bit/s", "B", "count", "number"];
    pub(super) const ALL: [Unit; 5] =
        [Unit::Time, Unit::Rate, Unit::Bytes, Unit::Count, Unit::Number];

    /// Its name.
    pub fn name(self) -> &'static str {
        Unit::NAMES[self as usize]
    }

    /// The default upper bound, without fraction.
    fn most(self) -> i128 {
        match self {
            Unit::Time | Unit::Bytes => 1 << 40,
            Unit::Rate => 1 << 50,
            Unit::Count => 1 << 24,
            Unit::Number => 1 << 16,
        }
    }

    /// A value with its unit.
    pub(super) fn show(self, value: i128, fraction: u8) -> String {
        let positive = u64::try_from(value).unwrap_or(0);
        match self {
            Unit::Time => format!("{value} ns"),
            Unit::Rate => match BitsPerSec::new(positive) {
                Some(rate) => rate.to_string(),
                None => format!("{value} bit/s"),
            },
            Unit::Bytes => Bytes::new(positive).to_string(),
            Unit::Count => value.to_string(),
            Unit::Number => format!("{}", value as f64 / (1_u64 << fraction) as f64),
        }
    }

    /// The value of a text, in the least unit.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn parse(self, text: &str, fraction: u8) -> Result<i128, ParameterError> {
        let text = text.trim();
        Ok(match self {
            Unit::Time => i128::from(text.parse::<Interval>()?.span().as_ps() / 1000),
            Unit::Rate => i128::from(text.parse::<BitsPerSec>()?.get()),
            Unit::Bytes => i128::from(text.parse::<Bytes>()?.get()),
            Unit::Count | Unit::Number => {
                let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
                let value = match text.split_once('/') {
                    Some((a, b)) => number(a).zip(number(b)).map(|(a, b)| a / b),
                    None => number(text),
                };
                let value = value.filter(|value| value.is_finite());
                let value = value.ok_or_else(|| ParameterError::Number(text.to_owned()))?;
                if self == Unit::Count && value.fract() != 0.0 {
                    return Err(ParameterError::Whole(text.to_owned()));
                }
                (value * (1_u64 << fraction) as f64).round() as i128
            }
        })
    }
}

/// The source of a default.
#[derive(Debug)]
pub(super) enum Default {
    Value(i128),
    Expression(AstExpr),
}

/// A parameter as it is declared.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) unit: Unit,
    pub(super) fraction: u8,
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) default: Default,
    pub(super) doc: String,
    pub(super) span: SourceSpan,
}

/// A parameter of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Bits of fraction.
    pub fraction: u8,
    /// Its description.
    pub doc: String,
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) reg: Reg,
    /// Code that computes the default into the register; `None` for a constant, which is in the register.
    pub(super) default: Option<u32>,
}

impl Parameter {
    /// The value in a scenario, in the least unit (times in nanoseconds; a number times 2^fraction).
    ///
    /// # Errors
    /// Why it is invalid.
    pub fn parse(&self, text: &str) -> Result<i128, ParameterError> {
        let value = self.unit.parse(text, self.fraction)?;
        self.check(value)?;
        Ok(value)
    }

    /// Checks the bounds of a value.
    ///
    /// # Errors
    /// It is outside of them.
    pub(super) fn check(&self, value: i128) -> Result<(), ParameterError> {
        if value >= self.low && value <= self.high {
            return Ok(());
        }
        let (name, found) = (self.name.clone(), self.show(value));
        let (low, high) = (self.show(self.low), self.show(self.high));
        Err(ParameterError::Bounds { name, found, low, high })
    }

    /// A value with its unit.
    pub fn show(&self, value: i128) -> String {
        self.unit.show(value, self.fraction)
    }
}

/// Reads a declaration.
pub(super) fn declared(decoder: &mut Decoder<'_>, node: &Node) -> Option<Declared> {
    let fields = decoder.map(node, &super::read::PARAMETER)?;
    let unit = decoder.choice(fields.get("unit")?, Unit::NAMES)?;
    let unit = Unit::NAMES.iter().position(|name| *name == unit.value).map(|n| Unit::ALL[n])?;
    let fraction = match fields.get("fraction") {
        Some(node) if unit == Unit::Number => super::read::bounded(decoder, node, (0, 32))? as u8,
        Some(node) => {
            let message = format!("a parameter in {} has no fraction", unit.name());
            return decoder.refuse(codes::WRONG_PLACE, node.span, message);
        }
        None => 0,
    };
    let mut bound = |key: &str, usual: i128| match fields.get(key) {
        Some(node) => value(decoder, node, unit, fraction),
        None => Some(usual),
    };
    let (low, high) = (bound("min", 0)?, bound("max", unit.most() << fraction)?);
    let node = fields.get("default")?;
    let text = decoder.scalar(node, "a default")?.text;
    let default = match text.contains(['(', '*']) || text.contains("std.") {
        true => Default::Expression(decoder.expression(node)?),
        false => Default::Value(value(decoder, node, unit, fraction)?),
    };
    let outside = matches!(default, Default::Value(value) if value < low || value > high);
    if low > high || outside || high > 1 << 62 || low < -(1 << 62) {
        let message = "the bounds, or the default between them, are not in order";
        return decoder.refuse(codes::DOES_NOT_FIT, node.span, message);
    }
    let doc = fields.get("doc").and_then(|node| decoder.word(node));
    let doc = doc.map(|doc| doc.value).unwrap_or_default();
    Some(Declared { unit, fraction, low, high, default, doc, span: node.span })
}

fn value(decoder: &mut Decoder<'_>, node: &Node, unit: Unit, fraction: u8) -> Option<i128> {
    let text = decoder.scalar(node, "a quantity with its unit")?.text;
    match unit.parse(text, fraction) {
        Ok(value) => Some(value),
        Err(problem) => decoder.refuse(codes::BAD_NUMBER, node.span, problem.to_string()),
    }
}
