//! The interpreter until machine code is compiled.
//!
//! A live switch starts at once: another thread compiles, and the first burst after that runs machine code. It compiles
//! at every level up to the requested one, each of which takes a few times as long as the one before and generates
//! faster code. All engines have the same results, so the change affects only speed. Commands in virtual time compile
//! first and do not use this.

use super::engine::Recipe;
use super::{CompileError, Jit, NotSupported, Options};
use crate::engine::{Context, Engine};
use crate::exec::{Descriptor, Intrinsic, OpenPorts};
use crate::interp::Interp;
use crate::ir::Program;
use crate::passes;
use crate::state::State;
use std::sync::{Arc, OnceLock, Weak};

/// The report when there will be no machine code (`None`), or none better than that of the given level.
pub type Complain = dyn Fn(Option<u8>, CompileError) + Send + Sync;

/// An engine that interprets until another thread has compiled the program.
pub fn background(
    program: &Arc<Program>,
    state: &State,
    options: Options,
    complain: Arc<Complain>,
) -> Box<dyn Engine> {
    let program = Arc::new(passes::optimised(program, options.level));
    let interp = Interp::new(program.clone());
    let levels: Arc<Levels> = (0..=options.level).map(|_| OnceLock::new()).collect();
    let (recipe, places) = (Recipe::new(&program, state, options), Arc::downgrade(&levels));
    let of_thread = Arc::clone(&complain);
    let compile = move || fill(&places, |level| recipe.at_level(level).compile(), &*of_thread);
    let thread = std::thread::Builder::new().name("wireyard-compile".into());
    if let Err(error) = thread.spawn(compile) {
        let why = NotSupported::System(format!("a thread: {error}"));
        complain(None, CompileError::NotSupported(why));
    }
    Box::new(Background { interp, levels })
}

/// Compiles one level after the other, until all are done or the engine is dropped: of a program that is replaced
/// sooner, at most one more level is finished.
fn fill<T>(
    places: &Weak<[OnceLock<T>]>,
    compile: impl Fn(u8) -> Result<T, CompileError>,
    complain: &Complain,
) {
    let levels = places.upgrade().map_or(0, |places| places.len());
    for (level, at) in (0..).zip(0..levels) {
        if places.strong_count() == 0 {
            return;
        }
        match compile(level) {
            // The place is empty: only this thread fills it.
            Ok(code) => _ = places.upgrade().map(|places| places[at].set(code)),
            // A refusal at one level applies to those above.
            Err(refused) => return complain(level.checked_sub(1), refused),
        }
    }
}

/// The code of each level, the best last.
type Levels = [OnceLock<Jit>];

/// The interpreter, and machine code once compiled.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Compiles the levels of an engine that is dropped when `gone_after` is compiled; returns the compiled levels.
    fn compiled(gone_after: u8) -> Vec<u8> {
        let levels: Arc<[OnceLock<u8>]> = (0..3).map(|_| OnceLock::new()).collect();
        let (places, engine) = (Arc::downgrade(&levels), RefCell::new(Some(levels)));
        let done = RefCell::new(Vec::new());
        let compile = |level| {
            done.borrow_mut().push(level);
            engine.borrow_mut().take_if(|_| level == gone_after);
            Ok(level)
        };
        fill(&places, compile, &|_, refused| panic!("{refused}"));
        let there =
            engine.borrow().as_ref().map_or(0, |all| all.iter().flat_map(OnceLock::get).count());
        assert!(there == 0 || there == 3, "{there} levels are there");
        done.take()
    }

    #[test]
    fn an_engine_that_is_gone_is_not_compiled_any_further() {
        assert_eq!(compiled(9), [0, 1, 2]);
        assert_eq!(compiled(0), [0]);
        assert_eq!(compiled(1), [0, 1]);
    }
}
