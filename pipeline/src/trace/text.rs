//! A packet trace as text.

use super::Event;
use super::names::step;
use crate::ir::Program;

/// One line for each event, with the names of the program; bytes of the packet are left out.
pub fn packet_trace(program: &Program, events: &[Event]) -> String {
    let mut out = String::new();
    for event in events {
        let step = step(program, event);
        out.push_str(&"  ".repeat(step.depth));
        out.push_str(&step.text);
        let values = step.values.iter().filter(|(name, _)| name != "bytes");
        for (n, (name, value)) in values.enumerate() {
            out.push_str(if n == 0 { ": " } else { ", " });
            out.push_str(name);
            out.push(' ');
            out.push_str(value);
        }
        out.push('\n');
    }
    out
}
