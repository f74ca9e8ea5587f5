//! Quantities and names of scenarios, with their places.

use std::str::FromStr;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Span;

use crate::units::{BitsPerSec, Bytes, Interval, Probability};

/// A quantity in the unit's own grammar; errors are reported.
pub(super) fn quantity<T>(decoder: &mut Decoder<'_>, node: &Node) -> Option<Sp<T>>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text = decoder.scalar(node, "a quantity with its unit")?;
    match text.text.parse::<T>() {
        Ok(value) => Some(Sp::new(value, node.span)),
        Err(error) => decoder.refuse(codes::BAD_NUMBER, node.span, error.to_string()),
    }
}

/// A bit rate; zero has a different error than an unreadable value.
pub(super) fn rate(decoder: &mut Decoder<'_>, node: &Node) -> Option<BitsPerSec> {
    let text = decoder.scalar(node, "a bit rate")?.text;
    let digits: String = text.chars().take_while(|c| !c.is_ascii_alphabetic()).collect();
    if digits.trim().parse::<f64>().is_ok_and(|value| value == 0.0) {
        let error =
            decoder.diagnostics.error(codes::SCENARIO, node.span, "a rate of zero moves nothing");
        error.help("to stop a link for a while, write a fault: `{ at: 1 ms, link_down: a-b, until: 2 ms }`");
        return None;
    }
    quantity::<BitsPerSec>(decoder, node).map(|rate| rate.value)
}

/// A span of time.
pub(super) fn span(decoder: &mut Decoder<'_>, node: &Node) -> Option<Span> {
    quantity::<Interval>(decoder, node).map(|interval| interval.value.span())
}

/// A time from the start of the run; one before it has an error of its own.
pub(super) fn instant(decoder: &mut Decoder<'_>, node: &Node) -> Option<Span> {
    let text = decoder.scalar(node, "a time")?.text;
    if text.trim_start().starts_with('-') {
        return decoder.refuse(
            codes::SCENARIO,
            node.span,
            "this is before time zero, where the run begins",
        );
    }
    span(decoder, node)
}

/// A span of time above zero.
pub(super) fn positive_span(decoder: &mut Decoder<'_>, node: &Node, what: &str) -> Option<Span> {
    let found = span(decoder, node)?;
    if found.is_zero() {
        let message = format!("{what} must be longer than zero");
        return decoder.refuse(codes::SCENARIO, node.span, message);
    }
    Some(found)
}

/// Largest size: the fastest link, of 100 Tbit/s, is busy with it for 22 hours.
pub(super) const SIZE_MAX: Bytes = Bytes::new(1_000_000_000_000_000_000);

/// A size above zero.
pub(super) fn size(decoder: &mut Decoder<'_>, node: &Node, what: &str) -> Option<Bytes> {
    let found = quantity::<Bytes>(decoder, node)?.value;
    if found == Bytes::ZERO {
        return decoder.refuse(codes::SCENARIO, node.span, format!("{what} of zero bytes"));
    }
    if found > SIZE_MAX {
        let message = format!("{what} of {found}: at most 10^18 bytes");
        return decoder.refuse(codes::LIMIT, node.span, message);
    }
    Some(found)
}

/// A probability.
pub(super) fn chance(decoder: &mut Decoder<'_>, node: &Node) -> Option<Probability> {
    quantity::<Probability>(decoder, node).map(|found| found.value)
}

/// A count that fits, from `least` to `most`.
pub(super) fn bounded(
    decoder: &mut Decoder<'_>,
    node: &Node,
    what: &str,
    (least, most): (u64, u64),
) -> Option<u64> {
    let found = decoder.count(node)?;
    if found.value < least || found.value > most {
        let message = format!("{what}: {}, expected {least} to {most}", found.value);
        return decoder.refuse(codes::SCENARIO, node.span, message);
    }
    Some(found.value)
}
