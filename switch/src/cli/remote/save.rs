//! `save` and `restore`: the state written at run time, as an entries file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::{Outcome, connect, print, words};
use crate::cli::args::{RestoreArgs, SaveArgs};
use crate::management::client::Calls;
use crate::output_file;
use crate::p4runtime::proto::wireyard::v1 as wire;
use wireyard_pipeline::diag::safe::shown;

pub(super) fn save(args: &SaveArgs) -> Outcome {
    let remote = connect(&args.on)?;
    let call = |mut calls: Calls| async move { calls.save(wire::SaveRequest {}).await };
    let mut text = String::new();
    remote.list(call, &mut |line| writeln!(text, "{}", print::cell(&line)).is_ok())?;
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(path) = path {
        output_file::write(path, text.as_bytes(), &[]).map_err(|error| error.to_string())?;
    }
    match (path, args.on.json) {
        (Some(path), true) => print::line(&json!({ "file": path, "bytes": text.len() })),
        (Some(path), false) => super::super::say(&format!("wrote {}", shown(path))),
        (None, true) => print::line(&json!({ "yaml": text })),
        (None, false) => super::super::print(&text),
    }
    Ok(())
}

pub(super) fn restore(args: &RestoreArgs) -> Outcome {
    let (name, entries) = words::file(&args.file)?;
    let remote = connect(&args.on)?;
    let request = wire::RestoreRequest { entries, name };
    let done = remote.document(|mut calls| async move { calls.restore(request).await })?;
    if args.on.json {
        print::line(&done);
    }
    Ok(())
}
