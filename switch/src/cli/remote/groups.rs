//! `member`, `group`, `multicast`, `mirror` and `value-set`: objects that entries and actions refer to by number or
//! name.

use serde_json::{Map, Value, json};

use super::{Outcome, change, dump, list, of_entries, words};
use crate::cli::args::{
    GroupArgs, MemberArgs, MirrorArgs, MulticastArgs, NumberedCommand, SelectorCommand,
    SelectorWords, SwitchArgs, ValueSetArgs, ValueSetCommand,
};
use crate::p4runtime::proto::wireyard::v1 as wire;
use wire::change::Kind;
use wire::read_request::Kind as What;

fn read(on: &SwitchArgs, kind: What, name: Option<&String>, index: Option<u64>) -> Outcome {
    let name = name.cloned().unwrap_or_default();
    let nothing = match kind {
        What::Members => "there are no members",
        What::Groups => "there are no groups",
        What::MulticastGroups => "there are no multicast groups",
        What::MirrorSessions => "there are no mirror sessions",
        _ => "there are no members of value sets",
    };
    dump(on, &wire::ReadRequest { kind: kind.into(), name, index, ..Default::default() }, nothing)
}

/// Members or groups of a table; `value` is the document of one.
fn of_selector(
    on: &SwitchArgs,
    (part, what): (&str, What),
    command: &SelectorCommand,
    value: fn(&[String]) -> Result<Value, String>,
) -> Outcome {
    let write = |kind, table: &str, number: u64, value: Value| {
        let document = json!({ part: { table: { number.to_string(): value } } });
        change(on, of_entries(kind, &document))
    };
    let words =
        |kind, words: &SelectorWords| write(kind, &words.table, words.number, value(&words.words)?);
    match command {
        SelectorCommand::Dump { table, number } => read(on, what, table.as_ref(), *number),
        SelectorCommand::Add(all) => words(Kind::Insert, all),
        SelectorCommand::Modify(all) => words(Kind::Modify, all),
        SelectorCommand::Set(all) => words(Kind::Set, all),
        SelectorCommand::Delete { table, number } => {
            let named = if part == "members" { Value::from("any") } else { json!([]) };
            write(Kind::Delete, table, *number, named)
        }
    }
}

pub(super) fn member(args: &MemberArgs) -> Outcome {
    let value = |all: &[String]| words::call(all).map(Value::from);
    of_selector(&args.on, ("members", What::Members), &args.command, value)
}

pub(super) fn group(args: &GroupArgs) -> Outcome {
    of_selector(&args.on, ("groups", What::Groups), &args.command, words::members)
}

/// Numbered objects of the device; `value` is the document of one, `named` the part that identifies it.
fn of_device(
    on: &SwitchArgs,
    (part, what): (&str, What),
    command: &NumberedCommand,
    value: impl Fn(&[String], bool) -> Result<Value, String>,
    named: Value,
) -> Outcome {
    let write = |kind, number: u64, value: Value| {
        change(on, of_entries(kind, &json!({ part: { number.to_string(): value } })))
    };
    match command {
        NumberedCommand::Dump { number } => read(on, what, None, *number),
        NumberedCommand::Set { number, words, prune_ingress } => {
            write(Kind::Set, *number, value(words, *prune_ingress)?)
        }
        NumberedCommand::Delete { number } => write(Kind::Delete, *number, named),
    }
}

pub(super) fn multicast(args: &MulticastArgs) -> Outcome {
    let value = |all: &[String], prune: bool| {
        let ports = match all {
            [all] if all == "all" => Value::from("all"),
            some if some.iter().any(|word| word == "all") => {
                return Err("`all` stands alone: it is every port".to_owned());
            }
            some => some.iter().map(|word| words::replica(word)).collect::<Result<_, _>>()?,
        };
        Ok(json!({ "ports": ports, "prune_ingress": prune }))
    };
    let part = ("multicast_groups", What::MulticastGroups);
    of_device(&args.on, part, &args.command, value, json!([]))
}

pub(super) fn mirror(args: &MirrorArgs) -> Outcome {
    let value = |all: &[String], prune: bool| {
        if prune {
            return Err("--prune-ingress is for multicast groups".to_owned());
        }
        let pairs = words::pairs(all)?.into_iter().map(|(key, value)| {
            let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
            (key, number.map_or(value, Value::from))
        });
        Ok(Value::from(pairs.collect::<Map<_, _>>()))
    };
    let part = ("mirror_sessions", What::MirrorSessions);
    of_device(&args.on, part, &args.command, value, json!({ "port": 1 }))
}

pub(super) fn value_set(args: &ValueSetArgs) -> Outcome {
    let on = &args.on;
    let write = |kind, name: &str, values: &[String]| {
        let members = values.iter().map(|value| words::set_member(value));
        let members: Vec<Value> = members.collect::<Result<_, _>>()?;
        change(on, of_entries(kind, &json!({ "value_sets": { name: members } })))
    };
    match &args.command {
        ValueSetCommand::List => list(on, "value_sets"),
        ValueSetCommand::Dump { name } => read(on, What::ValueSets, name.as_ref(), None),
        ValueSetCommand::Set { name, values } => write(Kind::Modify, name, values),
        ValueSetCommand::Reset { name } => write(Kind::Delete, name, &[]),
    }
}
