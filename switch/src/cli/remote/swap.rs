//! `swap`: another program for a running switch.

use std::collections::BTreeSet;

use serde_json::Value;
use wireyard_pipeline::source::{DATA_BYTES_MAX, read_text};

use super::{Outcome, connect, print};
use crate::cli::args::SwapArgs;
use crate::cli::load::load;
use crate::cli::say;
use crate::library;
use crate::management::client::Calls;
use crate::p4runtime::pack;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::program::Loaded;

/// The entries for the program: those that `run` reads.
fn entries(loaded: &Loaded) -> Result<String, String> {
    let Some(path) = &loaded.entries_path else { return Ok(String::new()) };
    if let Some(inside) = library::text_at(path) {
        return Ok(inside.to_owned());
    }
    read_text(path, DATA_BYTES_MAX).map_err(|error| format!("{}: {error}", path.display()))
}

/// Notes a named file of which a part is not loaded, because the switch keeps its own state there.
fn note_kept(args: &SwapArgs, loaded: &Loaded, done: &Value) {
    let (Some(path), Some(entries)) = (&args.program.entries, &loaded.entries) else { return };
    let filled: BTreeSet<&str> = entries.filled(&loaded.program).collect();
    let objects = done["objects"].as_array().into_iter().flatten();
    let kept = objects.filter(|object| object["fate"] == "kept");
    let names = kept.filter_map(|object| object["name"].as_str());
    let names: Vec<&str> = names.filter(|name| filled.contains(name)).collect();
    if !names.is_empty() {
        let (path, names) = (path.display(), names.join(", "));
        say(&format!(
            "note: --entries {path} does not go into what is kept ({names}): --anew keeps nothing, `wireyard table load {path}` \
             adds it to what is there"
        ));
    }
}

/// What happens to an object and its entries, as a row of text.
fn people(object: &Value) -> Value {
    let mut shown = object.clone();
    let entries = match (object["fate"].as_str(), object["entries"].as_u64()) {
        (_, None) => Value::Null,
        (Some("kept"), Some(count)) => format!("{count} kept").into(),
        (_, Some(count)) => format!("{count} lost").into(),
    };
    shown["entries"] = entries;
    if object["fate"] == "changed" {
        shown["fate"] = "changed: begins anew".into();
    }
    shown
}

pub(super) fn run(args: &SwapArgs) -> Outcome {
    let on = &args.on;
    // Errors of the program are shown here, with their source lines.
    let loaded = load(&args.program).ok_or("the switch runs on as it was")?;
    let remote = connect(on)?;
    let request = wire::SwapRequest {
        program: pack::pack(&loaded.parsed),
        entries: entries(&loaded)?,
        dry_run: args.dry_run,
        anew: args.anew,
        keep_all: args.keep_all,
    };
    let done = remote.document(|mut calls: Calls| async move { calls.swap(request).await })?;
    note_kept(args, &loaded, &done);
    if on.json {
        print::line(&done);
        return Ok(());
    }
    let mut rows = print::Rows::new(false);
    done["objects"].as_array().into_iter().flatten().all(|object| rows.add(people(object)));
    rows.finish();
    let name = |member: &str| done[member].as_str().unwrap_or_default().to_owned();
    match done["done"] == true {
        true => say(&format!("{} runs in the place of {}", name("program"), name("before"))),
        false => say(&format!("nothing was changed: {} runs", name("before"))),
    }
    Ok(())
}
