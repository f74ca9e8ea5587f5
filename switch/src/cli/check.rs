//! `check`: everything that is wrong with a program.

use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, json};

use super::args::{CheckArgs, MacControl};
use super::load::{device, place, show};
use super::{Status, print, print_json};
use crate::program::{self, DeviceOptions};

pub(super) fn run(args: &CheckArgs) -> Status {
    let mut place = place(&args.program);
    place.config = args.config.clone();
    match program::load(&place) {
        Ok(loaded) => {
            // Building the device finds what only the tables know: entries that collide, or too many.
            let engine = Some(&args.engine);
            let made = device(&loaded, engine, MacControl::Port, DeviceOptions::default());
            if let Err(message) = made {
                super::complain(&message);
                return Status::Failed;
            }
            let queues = loaded.config.as_ref().and_then(|config| config.queues(&[]));
            let refused = queues.as_ref().is_some_and(Result::is_err);
            let report =
                queues.map(|queues| queues.map_or_else(|report| *report, |qos| qos.report));
            let weak = report.as_ref().is_some_and(|report| !report.warnings.is_empty());
            let failed = refused || args.strict && (weak || !loaded.warnings.is_empty());
            if args.json {
                let found = json::to_json(&loaded.warnings, &loaded.files);
                // With queues in the configuration, the list of diagnostics is one of two parts.
                print_json(&match &report {
                    Some(report) => serde_json::json!({ "diagnostics": found, "queues": report }),
                    None => found,
                });
            } else {
                show(&loaded.warnings, &loaded.files);
                print(&report.map(|report| report.to_string()).unwrap_or_default());
            }
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
