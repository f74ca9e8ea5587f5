//! Which code the compiled engine has for a case: what a run of it tests.

use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::passes;
use wireyard_pipeline::state::{State, StateOptions};

use super::Case;
use super::run::compiled;

/// The plan of path-specialised code, at the level that has it first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forms {
    /// A control at least has it.
    pub specialised: bool,
    /// Egress is done behind ingress.
    pub fused: bool,
    /// It verifies checksums.
    pub verified: bool,
    /// It updates checksums by what changed.
    pub updated: bool,
    /// It computes checksums of headers that are added.
    pub computed: bool,
}

/// The plan for a case.
///
/// # Errors
/// The case is refused.
pub fn forms(case: &Case) -> Result<Forms, String> {
    let program = compiled(case)?.program;
    let state = State::new(&program, StateOptions::default()).map_err(|e| e.to_string())?;
    let program = passes::optimised(&program, 1);
    let text = Jit::text(&program, &state, Options { level: 1 }).map_err(|e| e.to_string())?;
    let has = |what: &dyn Fn(&str) -> bool| text.plan.lines().map(str::trim).any(what);
    Ok(Forms {
        specialised: [&text.forms.ingress, &text.forms.egress]
            .into_iter()
            .any(|form| form.starts_with("path-specialised")),
        fused: text.forms.fused.starts_with("fused"),
        verified: has(&|line| line.starts_with("verify ")),
        updated: has(&|line| line.contains("; update ")),
        computed: has(&|line| line.contains("; compute ")),
    })
}
