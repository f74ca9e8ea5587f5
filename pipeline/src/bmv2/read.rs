//! Required values of the JSON, and the error where one is missing or of another kind.

use num_bigint::BigInt;

use super::json::{Json, Value};
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::ir::SourceSpan;

/// Most hexadecimal digits of a number: no header is longer.
const DIGITS_MAX: usize = 4096;

static NOTHING: Vec<Json> = Vec::new();

/// Reads values and reports those of the wrong kind.
pub(super) struct Reader<'r> {
    pub(super) report: &'r mut Diagnostics,
}

impl Json {
    /// The value of a key; `None` for `null` as well.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        let Value::Object(pairs) = &self.value else { return None };
        let (_, found) = pairs.iter().find(|(known, _)| known == key)?;
        (!matches!(found.value, Value::Null)).then_some(found)
    }

    /// A string.
    pub(super) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The string of a key, if there is one.
    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// True if the value of the key is `true`.
    pub(super) fn is(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Json { value: Value::Bool(true), .. }))
    }

    /// The place of the key's value, or of this value without one.
    pub(super) fn place(&self, key: &str) -> SourceSpan {
        self.get(key).map_or(self.span, |found| found.span)
    }

    /// Equal except for places in the JSON and in the P4 source.
    pub(super) fn same(&self, other: &Json) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Number(a), Value::Number(b)) | (Value::Text(a), Value::Text(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Value::Object(a), Value::Object(b)) => {
                let (a, b) = (without_source(a), without_source(b));
                a.clone().count() == b.clone().count()
                    && a.zip(b).all(|((key, a), (other, b))| key == other && a.same(b))
            }
            _ => false,
        }
    }
}

fn without_source(pairs: &[(String, Json)]) -> impl Iterator<Item = &(String, Json)> + Clone {
    pairs.iter().filter(|(key, _)| key != "source_info")
}

impl Reader<'_> {
    pub(super) fn error(
        &mut self,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report.error(codes::BMV2_JSON, span, message)
    }

    /// An error of a reader that has no value then.
    pub(super) fn refuse<T>(&mut self, span: SourceSpan, message: impl Into<String>) -> Option<T> {
        self.report.refuse(codes::BMV2_JSON, span, message)
    }

    /// The same for a feature of bmv2 that the language cannot express.
    pub(super) fn unsupported<T>(
        &mut self,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> Option<T> {
        self.report.refuse(codes::P4_UNSUPPORTED, span, message)
    }

    /// A required value.
    pub(super) fn need<'j>(&mut self, json: &'j Json, key: &str) -> Option<&'j Json> {
        json.get(key).or_else(|| {
            self.report.refuse(codes::MISSING_KEY, json.span, format!("this has no `{key}`"))
        })
    }

    fn wrong<T>(&mut self, json: &Json, wanted: &str) -> Option<T> {
        let text = format!("{} where {wanted} must be", json.value.what());
        self.report.refuse(codes::WRONG_TYPE, json.span, text)
    }

    /// The items of a list of a key; empty without the key.
    pub(super) fn list<'j>(&mut self, json: &'j Json, key: &str) -> &'j [Json] {
        match json.get(key) {
            Some(found) => self.items(found),
            None => &NOTHING,
        }
    }

    /// The items of a list.
    pub(super) fn items<'j>(&mut self, json: &'j Json) -> &'j [Json] {
        match &json.value {
            Value::List(items) => items,
            _ => {
                self.wrong::<()>(json, "a list");
                &NOTHING
            }
        }
    }

    /// A string.
    pub(super) fn text<'j>(&mut self, json: &'j Json) -> Option<&'j str> {
        json.as_text().or_else(|| self.wrong(json, "a string"))
    }

    /// The string of a required key.
    pub(super) fn text_at<'j>(&mut self, json: &'j Json, key: &str) -> Option<&'j str> {
        let found = self.need(json, key)?;
        self.text(found)
    }

    /// A number from 0.
    pub(super) fn count(&mut self, json: &Json) -> Option<u32> {
        match &json.value {
            Value::Number(text) => text
                .parse()
                .ok()
                .or_else(|| self.refuse(json.span, "not a whole number from 0 to 4294967295")),
            _ => self.wrong(json, "a number"),
        }
    }

    /// The number of a required key.
    pub(super) fn count_at(&mut self, json: &Json, key: &str) -> Option<u32> {
        let found = self.need(json, key)?;
        self.count(found)
    }

    /// Two strings in a list.
    pub(super) fn pair<'j>(&mut self, json: &'j Json) -> Option<(&'j str, &'j str)> {
        match self.items(json) {
            [first, second] => Some((self.text(first)?, self.text(second)?)),
            _ => self.wrong(json, "a list of two strings"),
        }
    }

    /// A number in hexadecimal digits: `0x0800`, `-0x1`, or a number as it is.
    pub(super) fn hex(&mut self, json: &Json) -> Option<BigInt> {
        let text = match &json.value {
            Value::Text(text) => text.as_str(),
            Value::Number(text) => {
                return BigInt::parse_bytes(text.as_bytes(), 10)
                    .or_else(|| self.refuse(json.span, "not a whole number"));
            }
            _ => {
                return self.wrong(json, "a hexadecimal number");
            }
        };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        let digits = digits.unwrap_or(text.trim_start_matches('-'));
        let is_number = digits.len() <= DIGITS_MAX && digits.chars().all(|c| c.is_ascii_hexdigit());
        match BigInt::parse_bytes(digits.as_bytes(), 16).filter(|_| is_number) {
            Some(value) => Some(if negative { -value } else { value }),
            None => self.refuse(json.span, "not a hexadecimal number, as in 0x0800"),
        }
    }
}
