//! Fusing: egress right after ingress, in the same code, for a packet that leaves by a port without a queue.
//!
//! Nothing happens to such a packet between the passes, so the places of headers and carried metadata stay in
//! registers. There is one copy of egress for each set of headers that ingress leaves.

use super::{Control, ControlPlan, Effects, EgressCopy, Form, path, selection};
use crate::jit::compiled::Facts;

/// Egress behind ingress.
#[derive(Debug)]
pub(in crate::jit) struct Fused<'p> {
    pub(in crate::jit) control: Control<'p>,
    pub(in crate::jit) effects: Effects,
    /// By the headers that ingress leaves, which are then at the start of the packet.
    pub(in crate::jit) copies: Vec<EgressCopy>,
}

impl<'p> Fused<'p> {
    pub(super) fn new(ingress: &ControlPlan<'p>, facts: &Facts) -> Form<Fused<'p>> {
        let program = ingress.control.program;
        let (mut control, effects) = selection::select(program, facts, Some(Vec::new()))?;
        control.empty_parts = ingress.control.keeps_empty();
        let left = ingress.headers_left().into_iter();
        let copies = left.map(|valid| path::egress_copy(&control, valid)).collect::<Form<_>>()?;
        Ok(Fused { control, effects, copies })
    }
}
