//! JSON with the place of every value.
//!
//! The JSON library's values have no places, and an error without one cannot be found in the ten thousand lines that
//! p4c writes. Nesting is bounded; numbers keep their text.

use std::collections::HashSet;

use crate::diag::{Diagnostics, codes};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Deepest nesting of lists and objects.
const NESTING_MAX: usize = 400;

/// A value at its place.
#[derive(Clone, Debug)]
pub(super) struct Json {
    pub(super) value: Value,
    /// The whole value; of a list or an object its opening bracket.
    pub(super) span: SourceSpan,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number as it is written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    /// Keys with their values, in the order written.
    Object(Vec<(String, Json)>),
}

impl Value {
    /// The kind of value, for messages.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Reads a text. `None`: the errors were reported.
pub(super) fn parse(file: FileId, text: &str, report: &mut Diagnostics) -> Option<Json> {
    let mut reader = Reader { file, text, at: 0, depth: 0 };
    let read = reader.value().and_then(|value| {
        reader.blanks();
        if reader.at < text.len() {
            reader.wrong("the text goes on behind the value")
        } else {
            Ok(value)
        }
    });
    match read {
        Ok(value) => Some(value),
        Err(Wrong { at, why, is_limit }) => {
            let at = at.min(text.len());
            let length = text[at..].chars().next().map_or(0, char::len_utf8);
            let span = SourceSpan { file, start: at as u32, end: (at + length) as u32 };
            let code = if is_limit { codes::LIMIT } else { codes::BMV2_JSON };
            report.refuse(code, span, why)
        }
    }
}

/// Why reading ended.
struct Wrong {
    at: usize,
    why: String,
    is_limit: bool,
}

type Read<T> = Result<T, Wrong>;

struct Reader<'t> {
    file: FileId,
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong<T>(&self, why: &str) -> Read<T> {
        let why = match self.at >= self.text.len() {
            true => format!("the JSON ends too early: {why}"),
            false => format!("this is no JSON: {why}"),
        };
        Err(Wrong { at: self.at, why, is_limit: false })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn span(&self, start: usize) -> SourceSpan {
        SourceSpan { file: self.file, start: start as u32, end: self.at as u32 }
    }

    fn take(&mut self, wanted: u8, why: &str) -> Read<()> {
        self.blanks();
        if self.peek() != Some(wanted) {
            return self.wrong(why);
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Read<Json> {
        self.blanks();
        let start = self.at;
        let value = match self.peek() {
            Some(open @ (b'{' | b'[')) => {
                if self.depth == NESTING_MAX {
                    let why = format!("JSON nested deeper than {NESTING_MAX} levels");
                    return Err(Wrong { at: self.at, why, is_limit: true });
                }
                self.at += 1;
                self.depth += 1;
                let span = self.span(start);
                let value = if open == b'{' { self.object() } else { self.list() }?;
                self.depth -= 1;
                return Ok(Json { value, span });
            }
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(Json { value, span: self.span(start) })
    }

    fn word(&mut self) -> Read<Value> {
        let words =
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.wrong("a value must stand here")
    }

    fn number(&mut self) -> Read<String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn list(&mut self) -> Read<Value> {
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            self.blanks();
            if self.peek() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.take(b']', "a list goes on with `,` or ends with `]`")?;
            return Ok(Value::List(items));
        }
    }

    fn object(&mut self) -> Read<Value> {
        let (mut pairs, mut keys) = (Vec::new(), HashSet::new());
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(pairs));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.wrong("a key in quotes must stand here");
            }
            let start = self.at;
            let key = self.string()?;
            if !keys.insert(key.clone()) {
                let why = format!("the key `{}` is here twice", key.escape_debug());
                return Err(Wrong { at: start, why, is_limit: false });
            }
            self.take(b':', "a key is followed by `:`")?;
            pairs.push((key, self.value()?));
            self.blanks();
            if self.peek() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.take(b'}', "an object goes on with `,` or ends with `}`")?;
            return Ok(Value::Object(pairs));
        }
    }

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut found = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(['"', '\\', '\n']) else {
                self.at = self.text.len();
                return self.wrong("a string ends with `\"`");
            };
            found.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(found);
                }
                Some(b'\\') => found.push(self.escaped()?),
                _ => return self.wrong("a string ends on its line"),
            }
        }
    }

    fn escaped(&mut self) -> Read<char> {
        self.at += 1;
        let Some(c) = self.peek() else { return self.wrong("a string ends with `\"`") };
        let plain = match c {
            b'"' | b'\\' | b'/' => char::from(c),
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let digits = self.text.get(self.at + 1..self.at + 5);
                let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(number) = number else { return self.wrong("`\\u` takes four digits") };
                self.at += 5;
                // Halves of a pair: names of P4 have none.
                return Ok(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return self.wrong("there is no such escape"),
        };
        self.at += 1;
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

    fn read(text: &str) -> Result<Json, String> {
        let mut report = Diagnostics::new();
        let found = parse(FileId::new(0), text, &mut report);
        found.ok_or_else(|| report.iter().map(|one| one.message.clone()).collect())
    }

    #[test]
    fn values_have_their_places() {
        let json = read(r#" {"a": [1, -2.5e3, "x\n\u0041"], "b": null, "c": true} "#).unwrap();
        let Value::Object(pairs) = json.value else { panic!() };
        let Value::List(items) = &pairs[0].1.value else { panic!() };
        assert!(matches!(&items[1].value, Value::Number(text) if text == "-2.5e3"));
        assert!(matches!(&items[2].value, Value::Text(text) if text == "x\nA"));
        assert_eq!((items[1].span.start, items[1].span.end), (11, 17));
    }

    #[test]
    fn what_is_no_json_is_said_with_its_reason() {
        for (text, why) in [
            ("{\"a\": }", "a value must stand here"),
            ("[1, 2", "ends too early"),
            ("{\"a\": 1, \"a\": 2}", "twice"),
            ("{a: 1}", "a key in quotes"),
            ("\"x", "a string ends with"),
            ("[] []", "goes on behind"),
            (&"[".repeat(401), "deeper than 400"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
