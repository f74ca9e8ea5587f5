//! The interpreter until machine code is there.
//!
//! A live switch starts at once: another thread compiles, and the burst after it is done runs machine
//! code. It compiles at every level up to the one that was asked for, each of which takes a few times as long as the one
//! before and makes faster code. All engines do the same, so that nothing but speed shows when that was.
//! Commands whose time is virtual compile first and do not use this.

use super::engine::Recipe;
use super::{CompileError, Jit, Options};
use crate::engine::{Context, Engine};
use crate::exec::{Descriptor, Intrinsic, OpenPorts};
use crate::interp::Interp;
use crate::ir::Program;
use crate::passes;
use crate::state::State;
use std::sync::{Arc, OnceLock};

/// What is reported when there will be no machine code, or no better than that of the level given.
pub type Complain = dyn FnOnce(Option<u8>, CompileError) + Send;

/// An engine that interprets until another thread has compiled the program.
pub fn background(
    program: &Arc<Program>,
    state: &State,
    options: Options,
    complain: Box<Complain>,
) -> Box<dyn Engine> {
    let program = Arc::new(passes::optimised(program, options.level));
    let interp = Interp::new(program.clone());
    let levels: Arc<Levels> = (0..=options.level).map(|_| OnceLock::new()).collect();
    let (recipe, places) = (Recipe::new(&program, state, options), Arc::clone(&levels));
    let compile = move || {
        for (level, place) in (0..).zip(places.iter()) {
            match recipe.at_level(level).compile() {
                // The place is empty: nobody else fills it.
                Ok(jit) => _ = place.set(jit),
                // What is refused at one level is refused at those above.
                Err(refused) => return complain(level.checked_sub(1), refused),
            }
        }
    };
    let thread = std::thread::Builder::new().name("wireyard-compile".into());
    // Without a thread there is no machine code, and nothing else is lost.
    let _ = thread.spawn(compile);
    Box::new(Background { interp, levels })
}

/// The code of each level, the best last.
type Levels = [OnceLock<Jit>];

/// The interpreter, and machine code behind it.
#[derive(Debug)]
struct Background {
    interp: Interp,
    levels: Arc<Levels>,
}

impl Background {
    fn engine(&self) -> &dyn Engine {
        match self.levels.iter().rev().find_map(OnceLock::get) {
            Some(jit) => jit,
            None => &self.interp,
        }
    }
}

impl Engine for Background {
    fn name(&self) -> &'static str {
        let is_there = |level: Option<&OnceLock<Jit>>| level.is_some_and(|it| it.get().is_some());
        match is_there(self.levels.first()) && !is_there(self.levels.last()) {
            true => "jit_baseline",
            false => self.engine().name(),
        }
    }

    fn program(&self) -> &Arc<Program> {
        self.interp.program()
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().ingress(cx, packets, meta);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.engine().egress(cx, packets, meta);
    }

    fn fused(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: &OpenPorts,
    ) {
        self.engine().fused(cx, packets, meta, open);
    }
}
