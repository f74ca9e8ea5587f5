//! A packet as a JSON object.

use serde_json::{Map, Value, json};
use wireyard_pipeline::decode::{self, Header};
use wireyard_pipeline::ids::{FieldId, Id};
use wireyard_pipeline::ir::Display;
use wireyard_pipeline::trace::names;

use super::{Decoded, Position};

/// The widest number that every JSON reader keeps exactly.
const EXACT_BITS: u32 = 53;

impl Decoded<'_> {
    /// The packet with all its headers. Numbers of more than 53 bits, and byte strings, are hexadecimal text; addresses
    /// are in their usual notation.
    pub fn json(&self, place: Position) -> Value {
        let headers: Vec<Value> =
            self.parsed.headers().iter().map(|h| self.header_json(h)).collect();
        let sums = |sum: wireyard_pipeline::decode::Sum<'_>| {
            (sum.name.to_owned(), Value::from(if sum.right { "ok" } else { "bad" }))
        };
        let body = self.parsed.body_range();
        json!({
            "number": place.number,
            "time_ns": place.time_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            "link": self.frame.link.name(),
            "length": self.frame.wire_len,
            "captured": self.frame.bytes.len(),
            "headers": headers,
            "body": { "at": body.start, "length": body.end - body.start },
            "slack": self.parsed.slack().len(),
            "error": self.parsed.error(),
            "crcs": self.parsed.crcs().map(sums).collect::<Map<_, _>>(),
            "checksums": self.parsed.checksums().map(sums).collect::<Map<_, _>>(),
        })
    }

    fn header_json(&self, header: &Header<'_>) -> Value {
        let mut fields = Map::new();
        let mut called = Map::new();
        for (index, (name, value)) in header.fields().enumerate() {
            if let decode::Value::Number { value, .. } = value
                && let Some(text) = self.summary.name((header.instance, FieldId::new(index)), value)
            {
                called.insert(name.to_owned(), text.into());
            }
            fields.insert(name.to_owned(), field_json(&value));
        }
        let mut object = json!({
            "name": header.name,
            "at": header.at,
            "length": header.bytes.len(),
            "fields": fields,
        });
        if let Some(object) = object.as_object_mut()
            && !called.is_empty()
        {
            object.insert("names".into(), called.into());
        }
        object
    }
}

fn field_json(value: &decode::Value<'_>) -> Value {
    let plain = |value: u128| match u64::try_from(value) {
        Ok(small) if small >> EXACT_BITS == 0 => Value::from(small),
        _ => Value::from(format!("{value:#x}")),
    };
    match value {
        decode::Value::Number { value, bits, display } => match display {
            Display::Hex | Display::Decimal if *bits <= EXACT_BITS => plain(*value),
            _ => names::value(*display, *bits, *value).into(),
        },
        decode::Value::List(values) => values.iter().map(|value| plain(*value)).collect(),
        decode::Value::Bytes(bytes) => names::hex(bytes).into(),
    }
}
