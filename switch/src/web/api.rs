//! The description of a switch, and small objects of its program, as documents.

use serde_json::{Value, json};

use super::Result;
use super::parameters::Parameters;
use crate::control::{Control, ControlError, Query};
use crate::management::{describe, show};

/// Most objects of one kind that are sent; more are counted.
const OBJECTS_MAX: usize = 500;

/// The switch, its program by names, and its ports.
///
/// # Errors
/// A worker does not answer.
pub(super) fn switch(control: &Control, name: &str) -> Result<Value> {
    describe::describe(control, name)
}

/// Kinds of objects beside entries of tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Defaults,
    Members,
    Groups,
    Counters,
    Meters,
    Registers,
    ValueSets,
    Multicast,
    Mirrors,
}

impl Kind {
    /// Reads `kind=groups`.
    ///
    /// # Errors
    /// There is no such kind.
    pub(super) fn read(parameters: &Parameters) -> Result<Kind> {
        const KINDS: [(&str, Kind); 9] = [
            ("defaults", Kind::Defaults),
            ("members", Kind::Members),
            ("groups", Kind::Groups),
            ("counters", Kind::Counters),
            ("meters", Kind::Meters),
            ("registers", Kind::Registers),
            ("value_sets", Kind::ValueSets),
            ("multicast", Kind::Multicast),
            ("mirrors", Kind::Mirrors),
        ];
        let wanted = parameters.text("kind");
        let found = KINDS.iter().find(|(name, _)| *name == wanted).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            ControlError::invalid(format!("kind: one of {}", names.join(", ")))
        })
    }
}

/// Objects of a kind: of arrays, only cells that are not blank.
///
/// # Errors
/// A worker does not answer.
pub(super) fn objects(control: &Control, kind: Kind) -> Result<Value> {
    let query = match kind {
        Kind::Defaults => Query::DefaultActions { table: None },
        Kind::Members => Query::Members { table: None, id: None },
        Kind::Groups => Query::Groups { table: None, id: None },
        Kind::Counters => Query::Counters { counter: None, index: None },
        Kind::Meters => Query::Meters { meter: None, index: None },
        Kind::Registers => Query::Registers { register: None, index: None },
        Kind::ValueSets => Query::ValueSets { set: None },
        Kind::Multicast => Query::Multicast { id: None },
        Kind::Mirrors => Query::Mirrors { id: None },
    };
    let program = control.program();
    let (mut shown, mut more) = (Vec::new(), 0u64);
    control.visit(&query, &mut |entity| {
        if entity.is_blank() {
            return;
        }
        match shown.len() < OBJECTS_MAX {
            true => shown.extend(show::entity(&program, &entity)),
            false => more += 1,
        }
    })?;
    Ok(json!({ "objects": shown, "more": more }))
}
