//! The interpreter until machine code is there.
//!
//! A live switch starts at once: another thread compiles, and the burst after it is done runs machine
//! code. It compiles twice: first the code for any packet, without optimisation, which takes a small part
//! of the time, then all. All engines do the same, so that nothing but speed tells when that was. Commands
//! whose time is virtual compile first and do not use this.

use super::engine::Recipe;
use super::{Jit, Options, Refused};
use crate::exec::{Context, Descriptor, Engine, Intrinsic, OpenPorts};
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
    let (first, compiled) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let (recipe, places) =
        (Recipe::new(&program, state, options), [&first, &compiled].map(Arc::clone));
    // The places are empty: nobody else fills them.
    let compile = move || {
        if options.level > 0
            && let Ok(jit) = recipe.at_level(0).compile()
        {
            let _ = places[0].set(jit);
        }
        match recipe.compile() {
            Ok(jit) => _ = places[1].set(jit),
            Err(refused) => complain(refused),
        }
    };
    let thread = std::thread::Builder::new().name("wireyard-compile".into());
    // Without a thread there is no machine code, and nothing else is lost.
    let _ = thread.spawn(compile);
    Box::new(Background { interp, first, compiled })
}

/// The interpreter, and machine code behind it.
#[derive(Debug)]
struct Background {
    interp: Interp,
    /// Quickly made.
    first: Arc<OnceLock<Jit>>,
    /// Well made.
    compiled: Arc<OnceLock<Jit>>,
}

impl Background {
    fn engine(&self) -> &dyn Engine {
        match self.compiled.get().or_else(|| self.first.get()) {
            Some(jit) => jit,
            None => &self.interp,
        }
    }
}

impl Engine for Background {
    fn name(&self) -> &'static str {
        match (self.compiled.get(), self.first.get()) {
            (None, Some(_)) => "jit_first",
            _ => self.engine().name(),
        }
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().ingress(cx, packets, meta);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().egress(cx, packets, meta);
    }

    fn through(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: &OpenPorts,
    ) {
        self.engine().through(cx, packets, meta, open);
    }
}
