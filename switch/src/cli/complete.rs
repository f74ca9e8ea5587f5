//! Completion in the shell with names of the switch that runs (tables, keys, actions, arrays, ports, switches), and
//! with programs.
//!
//! `source <(COMPLETE=bash wireyard)`, and the same for zsh and fish. Without a running switch, or without its answer,
//! there are no names; a completion reports no errors.

use std::env;
use std::ffi::OsStr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use serde_json::Value;

use super::remote::describe;
use crate::library;
use crate::management::client::Remote;
use crate::management::socket;

/// The words of the command line that is completed: what follows `--`.
fn line() -> Vec<String> {
    let all = env::args_os().map(|word| word.to_string_lossy().into_owned());
    all.skip_while(|word| word != "--").skip(1).collect()
}

/// Longest wait of the shell for a switch that does not answer.
const WAIT_AT_MOST: Duration = Duration::from_secs(1);

/// The switch's description, if it answers soon.
fn description() -> Option<Value> {
    let line = line();
    let apart = line.iter().position(|word| word == "--switch").and_then(|at| line.get(at + 1));
    let joined = line.iter().find_map(|word| word.strip_prefix("--switch=").map(str::to_owned));
    let named = joined.or_else(|| apart.cloned());
    let named = named.or_else(|| env::var("WIREYARD_SWITCH").ok());
    let (answer, answered) = channel();
    thread::spawn(move || {
        let found =
            Remote::connect(named.as_deref(), None).ok().and_then(|remote| describe(&remote).ok());
        let _ = answer.send(found);
    });
    answered.recv_timeout(WAIT_AT_MOST).ok()?
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

fn candidate(value: &Value, help: &str) -> Option<CompletionCandidate> {
    let help = (!help.is_empty()).then(|| help.to_owned().into());
    Some(CompletionCandidate::new(value.as_str()?).help(help))
}

/// Programs: those inside the binary, and paths.
pub(super) fn programs(current: &OsStr) -> Vec<CompletionCandidate> {
    inside_or_path(&library::programs(), current)
}

/// Scenarios: those inside the binary, and paths.
#[cfg(feature = "lab")]
pub(super) fn scenarios(current: &OsStr) -> Vec<CompletionCandidate> {
    inside_or_path(&library::scenarios(), current)
}

fn inside_or_path(names: &[&'static str], current: &OsStr) -> Vec<CompletionCandidate> {
    let is_meant = |name: &&&str| current.to_str().is_some_and(|word| name.starts_with(word));
    let help = || Some("inside wireyard".into());
    let inside =
        names.iter().filter(is_meant).map(|name| CompletionCandidate::new(*name).help(help()));
    inside.chain(PathCompleter::any().complete(current)).collect()
}

/// The switches that run here.
pub(super) fn switches() -> Vec<CompletionCandidate> {
    socket::running().into_iter().map(|(name, _)| CompletionCandidate::new(name)).collect()
}

/// The tables of the program.
pub(super) fn tables() -> Vec<CompletionCandidate> {
    let all = description().unwrap_or_default();
    list(&all["program"], "tables").filter_map(|table| candidate(&table["name"], "")).collect()
}

/// The arrays, sets or digests that the command refers to.
pub(super) fn arrays() -> Vec<CompletionCandidate> {
    let line = line();
    let kinds = ["counter", "meter", "register", "value-set", "digest"];
    let kind = line.iter().find_map(|word| kinds.iter().find(|kind| *kind == word));
    let all = description().unwrap_or_default();
    let name = kind.map_or(String::new(), |kind| format!("{}s", kind.replace('-', "_")));
    list(&all["program"], &name).filter_map(|one| candidate(&one["name"], "")).collect()
}

/// Numbers of the ports.
pub(super) fn ports() -> Vec<CompletionCandidate> {
    let all = description().unwrap_or_default();
    let port = |port: &Value| {
        let help = port["name"].as_str().unwrap_or_default().to_owned();
        CompletionCandidate::new(port["port"].to_string()).help(Some(help.into()))
    };
    list(&all, "ports").map(port).collect()
}

/// The ports, and `all`.
pub(super) fn ports_or_all() -> Vec<CompletionCandidate> {
    let mut all = ports();
    all.push(CompletionCandidate::new("all").help(Some("every port".into())));
    all
}

/// Keys, as `KEY=`, of the table that the command line names.
pub(super) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = words(current);
    all.retain(|word| word.get_value().to_string_lossy().ends_with('='));
    all
}

/// Keys, as `KEY=`, and actions of the table that the command line names.
pub(super) fn words(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let line = line();
    let all = description().unwrap_or_default();
    let mut tables = list(&all["program"], "tables");
    let table = tables.find(|table| line.iter().any(|word| table["name"] == word.as_str()));
    let Some(table) = table else { return Vec::new() };
    let given = |key: &str| line.iter().any(|word| word.starts_with(&format!("{key}=")));
    let keys = list(table, "keys").filter_map(|key| Some((key["name"].as_str()?, &key["kind"])));
    let keys = keys.filter(|(key, _)| !given(key) || current.starts_with(key));
    let keys =
        keys.map(|(key, kind)| (format!("{key}="), kind.as_str().unwrap_or_default().to_owned()));
    let actions = list(table, "actions").filter_map(|action| {
        let params = list(action, "params").filter_map(|param| param["name"].as_str());
        Some((action["name"].as_str()?.to_owned(), params.collect::<Vec<_>>().join(" ")))
    });
    let found = keys.chain(actions).filter(|(word, _)| word.starts_with(current));
    found.map(|(word, help)| CompletionCandidate::new(word).help(Some(help.into()))).collect()
}
