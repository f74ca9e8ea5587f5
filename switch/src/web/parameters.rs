//! The part of a URL after the question mark, as names and values.

use percent_encoding::percent_decode_str;

use super::Result;
use crate::control::ControlError;

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads `a=1&b=x%20y`.
    ///
    /// # Errors
    /// It is no UTF-8.
    pub(super) fn read(query: &str) -> Result<Parameters> {
        let parts = query.split('&').filter(|part| !part.is_empty());
        let decoded = |text: &str| {
            // The encoding of forms (application/x-www-form-urlencoded).
            let text = text.replace('+', " ");
            let decoded = percent_decode_str(&text).decode_utf8().map(|text| text.into_owned());
            decoded.map_err(|_| ControlError::invalid("the query is no UTF-8"))
        };
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(name)?, decoded(value)?))
        };
        parts.map(pair).collect::<Result<Vec<_>>>().map(Parameters)
    }

    /// A value; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A number, at most `most`, or the default if there is none.
    ///
    /// # Errors
    /// It is no number, or too large.
    pub(super) fn number(&self, name: &str, otherwise: u32, most: u32) -> Result<u32> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(otherwise);
        }
        text.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
            ControlError::invalid(format!("{name}: a number up to {most} is expected"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_browsers_write_it() {
        let read = Parameters::read("table=fib&search=10.1%200%2F8+x&empty=&flag").unwrap();
        assert_eq!((read.text("table"), read.text("search")), ("fib", "10.1 0/8 x"));
        assert_eq!((read.text("empty"), read.text("flag"), read.text("none")), ("", "", ""));
        assert!(Parameters::read("a=%ff").is_err());
        let read = Parameters::read("limit=20&from=4294967296&x=-1").unwrap();
        assert_eq!(read.number("limit", 50, 200), Ok(20));
        assert_eq!(read.number("nothing", 50, 200), Ok(50));
        assert!(read.number("limit", 50, 10).is_err() && read.number("from", 0, u32::MAX).is_err());
        assert!(read.number("x", 0, 1).is_err());
    }
}
