//! `table`: entries and default actions.

use serde_json::{Map, Value, json};

use super::{Failure, Outcome, change, connect, describe, dump, dump_if, list, of_entries, words};
use crate::cli::args::{EntryArgs, KeyArgs, SwitchArgs, TableArgs, TableCommand};
use crate::p4runtime::proto::wireyard::v1 as wire;
use wire::change::Kind;
use wire::read_request::Kind as What;

pub(super) fn run(args: &TableArgs) -> Outcome {
    let on = &args.on;
    match &args.command {
        TableCommand::List => list(on, "tables"),
        TableCommand::Dump { table, keys, priority } => read(on, table.as_deref(), keys, *priority),
        TableCommand::Add(entry) => write(on, Kind::Insert, entry),
        TableCommand::Modify(entry) => write(on, Kind::Modify, entry),
        TableCommand::Set(entry) => write(on, Kind::Set, entry),
        TableCommand::Delete(KeyArgs { table, keys, priority }) => {
            change(on, of_entries(Kind::Delete, &of_key(table, keys, *priority)?))
        }
        TableCommand::Clear { table, .. } => {
            let name = table.clone().unwrap_or_default();
            change(on, wire::Change { kind: Kind::Clear.into(), name, ..Default::default() })
        }
        TableCommand::Default { table, words } => default(on, table.as_deref(), words),
        TableCommand::Load { file } => {
            let (name, entries) = words::file(file)?;
            if entries.trim().is_empty() {
                return Err(format!("{name}: the file is empty").into());
            }
            let kind = Kind::Set.into();
            change(on, wire::Change { kind, entries, name, ..Default::default() })
        }
    }
}

fn default(on: &SwitchArgs, table: Option<&str>, words: &[String]) -> Outcome {
    let (Some(table), Some(first)) = (table, words.first()) else {
        let name = table.unwrap_or_default().to_owned();
        return dump(
            on,
            &wire::ReadRequest { kind: What::Defaults.into(), name, ..Default::default() },
            "there are no tables",
        );
    };
    let kind = match (first.as_str(), words) {
        ("reset", [_]) => Kind::Delete,
        ("reset", [_, more, ..]) => {
            return Err(format!("`{more}`: nothing follows `reset`").into());
        }
        _ => Kind::Modify,
    };
    change(on, of_entries(kind, &json!({ "defaults": { table: words::call(words)? } })))
}

fn write(on: &SwitchArgs, kind: Kind, entry: &EntryArgs) -> Outcome {
    let (keys, action) = words::split(&entry.words);
    if let Some(value) = action.first().filter(|word| !words::may_be_action(word)) {
        return Err(without_key(on, &entry.table, value)?.into());
    }
    if let [word, _, ..] = action
        && word.contains('.')
        && !word.contains('(')
        && keys_of(on, &entry.table)?.contains(word)
    {
        let text =
            "is a key without its value: write KEY=VALUE for a key, and the action behind all keys";
        return Err(format!("`{word}` {text}").into());
    }
    let mut one = Map::new();
    one.insert("match".into(), words::pairs(keys)?.into());
    one.insert("action".into(), words::call(action)?.into());
    one.extend(entry.priority.map(|priority| ("priority".into(), priority.into())));
    one.extend(entry.idle_timeout_ms.map(|ms| ("idle_timeout_ms".into(), ms.into())));
    if let Some(rates) = &entry.meter {
        one.insert("meter".into(), words::rates(std::slice::from_ref(rates))?);
    }
    change(on, of_entries(kind, &json!({ "entries": { &entry.table: [one] } })))
}

/// The error for a value in place of a KEY=VALUE.
fn without_key(on: &SwitchArgs, table: &str, value: &str) -> Result<String, Failure> {
    let keys = keys_of(on, table)?;
    Ok(match keys.as_slice() {
        [key] => format!("write `{key}={value}`: the key of table `{table}` is `{key}`"),
        [] => format!("`{value}` is no KEY=VALUE and no action"),
        [first, ..] => format!(
            "write `{first}={value}`, or which key it is of: those of table `{table}` are {}",
            keys.join(", ")
        ),
    })
}

/// The names of the keys of a table.
fn keys_of(on: &SwitchArgs, table: &str) -> Result<Vec<String>, Failure> {
    let all = describe(&connect(on)?)?;
    let mut tables = all["program"]["tables"].as_array().into_iter().flatten();
    let found = tables.find(|one| one["name"] == table);
    let keys = found.and_then(|one| one["keys"].as_array()).into_iter().flatten();
    Ok(keys.filter_map(|key| key["name"].as_str().map(str::to_owned)).collect())
}

/// The key of one entry.
fn of_key(table: &str, keys: &[String], priority: Option<u64>) -> Result<Value, String> {
    let mut one = Map::new();
    one.insert("match".into(), words::pairs(keys)?.into());
    // For an entry that is only identified the action may be any.
    one.insert("action".into(), "any".into());
    one.extend(priority.map(|priority| ("priority".into(), priority.into())));
    Ok(json!({ "entries": { table: [one] } }))
}

fn read(on: &SwitchArgs, table: Option<&str>, keys: &[String], priority: Option<u64>) -> Outcome {
    let kind = What::Entries.into();
    let name = table.unwrap_or_default().to_owned();
    let entries = match keys {
        [] => String::new(),
        keys => words::yaml(&of_key(&name, keys, priority)?),
    };
    let of_all = priority.filter(|_| keys.is_empty());
    let nothing = match (table, of_all) {
        (_, Some(priority)) => format!("no entry has priority {priority}"),
        (Some(table), None) => format!("table {table} has no entries"),
        (None, None) => "no table has entries".to_owned(),
    };
    let is_it = |entry: &Value| of_all.is_none_or(|priority| entry["priority"] == priority);
    let request = wire::ReadRequest { kind, name, entries, ..Default::default() };
    dump_if(on, &request, &nothing, &is_it)
}
