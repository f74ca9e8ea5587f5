//! `check`: everything that is wrong with a program.

use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, json};

use super::args::CheckArgs;
use super::load::{place, show};
use super::{Status, print, print_json};
use crate::program::{self, DeviceOptions};

pub(super) fn run(args: &CheckArgs) -> Status {
    let mut place = place(&args.program);
    place.config = args.config.clone();
    match program::load(&place) {
        Ok(loaded) => {
            // Building the device finds what only the tables know: entries that collide, or too many.
            if let Err(message) = loaded.device(DeviceOptions::default()) {
                super::complain(&message);
                return Status::Failed;
            }
            let failed = args.strict && !loaded.warnings.is_empty();
            tell(&loaded.warnings, &loaded.files, args.json);
            if !args.json {
                let (_, warnings) = loaded.warnings.counts();
                let program = &loaded.program;
                print(&format!(
                    "{}: {} states, {} tables, {} actions, {} header instances, {} of 16 carried \
                     bytes; {warnings} warnings\n",
                    program.name,
                    program.parser.states.len(),
                    program.tables.len(),
                    program.actions.len(),
                    program.instances.len(),
                    program.carried_bytes,
                ));
            }
            if failed { Status::Failed } else { Status::Success }
        }
        Err(Rejected { diagnostics, files }) => {
            tell(&diagnostics, &files, args.json);
            if !args.json {
                let (errors, warnings) = diagnostics.counts();
                super::complain(&format!("{errors} errors, {warnings} warnings"));
            }
            Status::Failed
        }
    }
}

fn tell(diagnostics: &Diagnostics, files: &Files, as_json: bool) {
    if as_json {
        print_json(&json::to_json(diagnostics, files));
    } else {
        show(diagnostics, files);
    }
}
