//! `swap`: another program for a running switch.

use std::path::PathBuf;

use super::{Outcome, connect, print};
use crate::cli::args::{ProgramArgs, SwapArgs};
use crate::cli::load::load;
use crate::cli::say;
use crate::management::client::Calls;
use crate::p4runtime::pack;
use crate::p4runtime::proto::wireyard::v1 as wire;

/// The entries that go with the program.
fn entries(args: &ProgramArgs) -> Result<String, String> {
    let beside = || {
        let path: PathBuf = args.program.join("entries.yaml");
        path.is_file().then_some(path)
    };
    let Some(path) = args.entries.clone().or_else(beside) else { return Ok(String::new()) };
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn run(args: &SwapArgs) -> Outcome {
    let on = &args.on;
    // Errors of the program are shown here, with its lines.
    let loaded = load(&args.program).ok_or("the switch runs on as it was")?;
    let remote = connect(on)?;
    let request = wire::SwapRequest {
        program: pack::pack(&loaded.parsed),
        entries: entries(&args.program)?,
        dry_run: args.dry_run,
        anew: args.anew,
        keep_all: args.keep_all,
    };
    let done = remote.document(|mut calls: Calls| async move { calls.swap(request).await })?;
    if on.json {
        print::line(&done);
        return Ok(());
    }
    let mut rows = print::Rows::new(false);
    done["objects"].as_array().into_iter().flatten().cloned().all(|object| rows.add(object));
    rows.finish();
    let name = |member: &str| done[member].as_str().unwrap_or_default().to_owned();
    match done["done"] == true {
        true => say(&format!("{} runs in the place of {}", name("program"), name("before"))),
        false => say(&format!("nothing was changed: {} runs", name("before"))),
    }
    Ok(())
}
