//! Machine code that devices share: a laboratory can have a hundred hosts with one program.
//!
//! Code refers to a state only by its context argument, so devices whose states have the same layout need it once:
//! compiled once, and warm in the instruction cache for all of them. It is freed with the last engine that runs it;
//! nothing is kept for later.

use super::compiled::{Compiled, Facts};
use super::engine::Jit;
use super::{CompileError, Options};
use crate::ir::Program;
use crate::passes;
use crate::state::State;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The code of a program for one layout.
#[derive(Debug)]
struct Made {
    /// The program as it was before the passes: its address distinguishes it from others while this is held.
    source: Weak<Program>,
    facts: Facts,
    options: Options,
    /// The program as the passes left it.
    program: Weak<Program>,
    code: Weak<Compiled>,
}

/// The code in use by some devices.
#[derive(Debug, Default)]
pub struct Codes {
    made: Mutex<Vec<Made>>,
}

impl Codes {
    /// The engine of a program for a state: with existing code, or new code.
    ///
    /// # Errors
    /// See [`CompileError`], with the program after the passes, for the interpreter.
    pub fn engine(
        &self,
        source: &Arc<Program>,
        state: &State,
        options: Options,
    ) -> Result<Jit, (CompileError, Arc<Program>)> {
        let facts = Facts::new(state);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|made| made.code.strong_count() > 0);
        let is_same = |made: &&Made| {
            made.source.as_ptr() == Arc::as_ptr(source)
                && made.options == options
                && made.facts == facts
        };
        let known = made.iter().find(is_same);
        let known = known.and_then(|made| made.program.upgrade().zip(made.code.upgrade()));
        let (program, code) = match known {
            Some(known) => known,
            None => {
                let program = Arc::new(passes::optimised(source, options.level));
                let code = match Compiled::new(&program, &facts, options, None) {
                    Ok(code) => Arc::new(code),
                    Err(refused) => return Err((refused, program)),
                };
                made.push(Made {
                    source: Arc::downgrade(source),
                    facts: facts.clone(),
                    options,
                    program: Arc::downgrade(&program),
                    code: Arc::downgrade(&code),
                });
                (program, code)
            }
        };
        Ok(Jit::of(code, program, &facts, state.id()))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
