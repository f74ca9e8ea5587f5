//! A packet in full: every header with every field.

use std::fmt::Write as _;

use wireyard_pipeline::decode::{Header, Value};
use wireyard_pipeline::ids::{FieldId, Id};
use wireyard_pipeline::ir::Display;
use wireyard_pipeline::trace::names;

use super::line::seconds;
use super::{Decoded, Position};

/// Bytes of a field or body that are shown.
const BYTES_SHOWN: usize = 64;

impl Decoded<'_> {
    /// The packet in full, several lines.
    pub fn tree(&self, place: Position) -> String {
        let mut text = format!(
            "packet {}: {} bytes on {}, at {} s\n",
            place.number,
            self.frame.wire_len,
            self.frame.link.name(),
            seconds(place.time_ns)
        );
        let body = self.parsed.body_range();
        let mut body_shown = body.is_empty();
        for header in self.parsed.headers() {
            if !body_shown && header.at >= body.end {
                self.tell_body(&mut text);
                body_shown = true;
            }
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "  {} ({} bytes at {})", header.name, header.bytes.len(), header.at);
            for (index, (name, value)) in header.fields().enumerate() {
                let shown = self.show_value(&header, FieldId::new(index), &value);
                let _ = writeln!(text, "    {name}: {shown}");
            }
        }
        if !body_shown {
            self.tell_body(&mut text);
        }
        if !self.parsed.slack().is_empty() {
            let slack = self.parsed.slack();
            let _ = writeln!(text, "  slack ({} bytes): {}", slack.len(), bytes(slack));
        }
        for crc in self.parsed.crcs().filter(|crc| crc.right) {
            let _ = writeln!(text, "  {}: right", crc.name);
        }
        for sum in self.parsed.checksums().filter(|sum| sum.right) {
            let _ = writeln!(text, "  {}: right", sum.name);
        }
        for note in self.notes() {
            let _ = writeln!(text, "  [{note}]");
        }
        text
    }

    fn tell_body(&self, text: &mut String) {
        let (body, at) = (self.parsed.body(), self.parsed.body_range().start);
        let _ = writeln!(text, "  body ({} bytes at {at}): {}", body.len(), bytes(body));
    }

    fn show_value(&self, header: &Header<'_>, field: FieldId, value: &Value<'_>) -> String {
        match value {
            Value::Number { value, bits, display } => {
                let mut shown = names::value(*display, *bits, *value);
                if *display == Display::Hex && *value > 9 {
                    let _ = write!(shown, " ({value})");
                }
                if let Some(name) = self.summary.name((header.instance, field), *value) {
                    let _ = write!(shown, " {name}");
                }
                shown
            }
            Value::List(values) => {
                let count = values.len();
                let used = values.iter().rposition(|value| *value != 0).map_or(0, |at| at + 1);
                let values: Vec<String> =
                    values.iter().take(used).map(|value| format!("{value:#x}")).collect();
                match count - used {
                    0 => values.join(" "),
                    _ if used == 0 => "all 0".into(),
                    _ => format!("{}, the rest 0", values.join(" ")),
                }
            }
            Value::Bytes(found) => bytes(found),
        }
    }
}

fn bytes(bytes: &[u8]) -> String {
    match bytes.get(..BYTES_SHOWN) {
        Some(first) if bytes.len() > BYTES_SHOWN => format!("{}...", names::hex(first)),
        _ => names::hex(bytes),
    }
}
