//! `dump`: a program in one of its compiled forms.

use wireyard_pipeline::ir::print as ir_print;
use wireyard_pipeline::{ast, passes};

use super::args::{DumpArgs, Stage};
use super::load::load;
use super::{Status, print};

pub(super) fn run(args: &DumpArgs) -> Status {
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    match args.stage {
        Stage::Ast => {
            print(&ast::print::units(&loaded.parsed.units));
        }
        Stage::Ir => {
            let mut program = (*loaded.program).clone();
            let options =
                if args.opt_level == 0 { passes::Options::none() } else { passes::Options::all() };
            passes::run(&mut program, &options);
            print(&ir_print::program(&program));
        }
    }
    Status::Success
}
