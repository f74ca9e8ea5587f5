//! `dump`: a program in one of its compiled forms.

use std::sync::Arc;

use wireyard_pipeline::ir::print as ir_print;
use wireyard_pipeline::jit::{self, Jit};
use wireyard_pipeline::state::{State, StateOptions};
use wireyard_pipeline::{ast, passes};

use super::args::{DumpArgs, Stage};
use super::load::load;
use super::{Failure, Status, complain, print};
use crate::program::Loaded;

pub(super) fn run(args: &DumpArgs) -> Status {
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    match args.stage {
        Stage::Ast => {
            print(&ast::print::units(&loaded.parsed.units));
        }
        Stage::Ir => {
            print(&ir_print::program(&passes::optimised(&loaded.program, args.opt_level)));
        }
        Stage::Plan | Stage::Clif | Stage::Asm => match code(&loaded, args.opt_level) {
            Ok(text) => print(match args.stage {
                Stage::Plan => &text.plan,
                Stage::Clif => &text.clif,
                _ => &text.asm,
            }),
            Err(message) => {
                complain(&message.to_string());
                return Status::Failed;
            }
        },
    }
    Status::Success
}

/// The code of a program, for a state with its entries.
fn code(loaded: &Loaded, level: u8) -> Result<jit::Text, Failure> {
    let program = Arc::new(passes::optimised(&loaded.program, level));
    let state = State::new(&loaded.program, StateOptions::default())?;
    if let Some(entries) = &loaded.entries {
        entries.apply(&state)?;
    }
    let text = Jit::text(&program, &state, jit::Options { level });
    text.map_err(|refused| format!("no machine code: {refused}").into())
}
