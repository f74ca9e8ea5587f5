//! A packet in one line.

use std::fmt::Write as _;

use super::summary::{Format, Info, Piece};
use super::{Decoded, Position};

impl Decoded<'_> {
    /// Number, seconds, addresses, headers, length, values of the summary, and errors.
    pub fn line(&self, place: Position) -> String {
        let (from, to) = self.addresses();
        let headers = self.parsed.headers();
        let body_at = self.parsed.body_range().start;
        let stack: Vec<&str> = headers.iter().filter(|h| h.at < body_at).map(|h| h.name).collect();
        let mut line = format!(
            "{:>5} {} {from} -> {to} {} {}",
            place.number,
            seconds(place.time_ns),
            stack.join(":"),
            self.frame.wire_len,
        );
        for text in self.info() {
            line.push(' ');
            line.push_str(&text);
        }
        for note in self.notes() {
            // Writing to a string cannot fail.
            let _ = write!(line, " [{note}]");
        }
        line
    }

    fn addresses(&self) -> (String, String) {
        let found =
            self.summary.addresses.iter().find(|(source, _)| self.parsed.is_valid(source.0));
        let Some((source, destination)) = found else { return ("?".into(), "?".into()) };
        let show = |field| self.summary.show(&self.parsed, field, Format::Natural);
        (show(*source), show(*destination))
    }

    fn info(&self) -> Vec<String> {
        let here = |info: &&Info| {
            let is = |id| self.parsed.is_valid(id);
            is(info.header)
                && info.with.iter().copied().all(is)
                && !info.unless.iter().copied().any(is)
        };
        let texts = |weak: bool| {
            let all = self.summary.info.iter().filter(here);
            all.filter(move |info| info.weak == weak).map(|info| self.text(&info.text))
        };
        let strong: Vec<String> = texts(false).collect();
        if strong.is_empty() { texts(true).next_back().into_iter().collect() } else { strong }
    }

    fn text(&self, pieces: &[Piece]) -> String {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(fixed) => text.push_str(fixed),
                Piece::Field(field, format) => {
                    text.push_str(&self.summary.show(&self.parsed, *field, *format));
                }
                Piece::Flag(field, shown) => {
                    let zero = self.summary.show(&self.parsed, *field, Format::Decimal) == "0";
                    text.push_str(if zero { "" } else { shown });
                }
            }
        }
        text
    }

    /// Deviations of the packet.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        // What is behind the cut of a capture is missing there, and not in the packet.
        let is_cut = |error: &&str| self.frame.missing() > 0 && *error == "packet_too_short";
        notes.extend(self.parsed.error().filter(|error| !is_cut(error)).map(str::to_owned));
        for crc in self.parsed.crcs().filter(|crc| !crc.right) {
            notes.push(format!("{} bad", crc.name));
        }
        for sum in self.parsed.checksums().filter(|sum| !sum.right) {
            notes.push(format!("{} wrong", sum.name));
        }
        if self.frame.missing() > 0 {
            notes.push(format!("captured {} of {}", self.frame.bytes.len(), self.frame.wire_len));
        }
        notes
    }
}

/// Seconds with six digits behind the point.
pub(super) fn seconds(ns: i128) -> String {
    let us = ns.unsigned_abs() / 1000;
    let sign = if ns < 0 && us > 0 { "-" } else { "" };
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}
