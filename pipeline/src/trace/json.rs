//! A packet trace as JSON.

use super::Event;
use super::names::step;
use crate::ir::Program;
use serde_json::{Map, Value, json};

/// An array with one object for each event: `event` (its kind), `text` (a sentence), `values`.
pub fn packet_trace(program: &Program, events: &[Event]) -> Value {
    let one = |event: &Event| {
        let step = step(program, event);
        let values: Map<String, Value> =
            step.values.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        json!({ "event": step.kind, "text": step.text, "values": values })
    };
    Value::Array(events.iter().map(one).collect())
}
