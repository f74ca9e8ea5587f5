//! `save` and `restore`: what was written at run time, as an entries file.

use std::fmt::Write as _;

use super::{Outcome, connect, print};
use crate::cli::args::{RestoreArgs, SaveArgs};
use crate::management::client::Calls;
use crate::p4runtime::proto::wireyard::v1 as wire;

pub(super) fn save(args: &SaveArgs) -> Outcome {
    let remote = connect(&args.on)?;
    let call = |mut calls: Calls| async move { calls.save(wire::SaveRequest {}).await };
    let mut text = String::new();
    remote.list(call, &mut |line| writeln!(text, "{}", print::cell(&line)).is_ok())?;
    match &args.output {
        Some(path) => {
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        None => super::super::print(&text),
    }
    Ok(())
}

pub(super) fn restore(args: &RestoreArgs) -> Outcome {
    let name = args.file.display().to_string();
    let entries = std::fs::read_to_string(&args.file).map_err(|e| format!("{name}: {e}"))?;
    let remote = connect(&args.on)?;
    let request = wire::RestoreRequest { entries, name };
    let done = remote.document(|mut calls| async move { calls.restore(request).await })?;
    if args.on.json {
        print::line(&done);
    }
    Ok(())
}
