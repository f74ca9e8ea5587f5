//! The interpreter until machine code is there.
//!
//! A live switch starts at once: another thread compiles, and the burst after it is done runs machine
//! code. Both engines do the same, so that nothing but speed tells when that was. Commands whose time is
//! virtual compile first and do not use this.

use super::engine::Recipe;
use super::{Jit, Options, Refused};
use crate::exec::{Context, Descriptor, Engine, Intrinsic};
use crate::interp::Interp;
use crate::ir::Program;
use crate::passes;
use crate::state::State;
use std::sync::{Arc, OnceLock};

/// What is told when there will be no machine code.
pub type Complain = dyn FnOnce(Refused) + Send;

/// An engine that interprets until another thread has compiled the program.
pub fn background(
    program: &Arc<Program>,
    state: &State,
    options: Options,
    complain: Box<Complain>,
) -> Box<dyn Engine> {
    let program = Arc::new(passes::optimised(program, options.level));
    let interp = Interp::new(program.clone());
    let compiled = Arc::new(OnceLock::new());
    let (recipe, place) = (Recipe::new(&program, state, options), compiled.clone());
    let compile = move || match recipe.compile() {
        // The place is empty: nobody else fills it.
        Ok(jit) => _ = place.set(jit),
        Err(refused) => complain(refused),
    };
    let thread = std::thread::Builder::new().name("wireyard-compile".into());
    // Without a thread there is no machine code, and nothing else is lost.
    let _ = thread.spawn(compile);
    Box::new(Background { interp, compiled })
}

/// The interpreter, and machine code behind it.
#[derive(Debug)]
struct Background {
    interp: Interp,
    compiled: Arc<OnceLock<Jit>>,
}

impl Background {
    fn engine(&self) -> &dyn Engine {
        match self.compiled.get() {
            Some(jit) => jit,
            None => &self.interp,
        }
    }
}

impl Engine for Background {
    fn name(&self) -> &'static str {
        self.engine().name()
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().ingress(cx, packets, meta);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().egress(cx, packets, meta);
    }
}
