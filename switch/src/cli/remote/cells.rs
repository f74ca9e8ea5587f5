//! `counter`, `meter` and `register`: arrays of cells.

use serde_json::json;

use super::{Outcome, change, dump, list, of_entries, words};
use crate::cli::args::{CellCommand, SwitchArgs, whole};
use crate::p4runtime::proto::wireyard::v1 as wire;
use wire::change::Kind;
use wire::read_request::Kind as What;

/// A kind of array.
pub(super) struct Cells {
    /// Its list in a description of the switch, and in entries.yaml.
    list: &'static str,
    what: What,
    set: fn(&str, u64, &[String]) -> Result<wire::Change, String>,
}

pub(super) const COUNTERS: Cells =
    Cells { list: "counters", what: What::Counters, set: set_counter };
pub(super) const METERS: Cells = Cells { list: "meters", what: What::Meters, set: set_meter };
pub(super) const REGISTERS: Cells =
    Cells { list: "registers", what: What::Registers, set: set_register };

pub(super) fn run(kind: &Cells, command: &CellCommand, on: &SwitchArgs) -> Outcome {
    match command {
        CellCommand::List => list(on, kind.list),
        CellCommand::Dump { name, index, all } => {
            let name = name.clone().unwrap_or_default();
            let (kind, index, all) = (kind.what.into(), *index, *all);
            let nothing = match all {
                true => "there are no cells",
                false => {
                    "there is no cell that is not blank; `--all` shows the blank ones, if the program has any"
                }
            };
            let request = wire::ReadRequest { kind, name, index, entries: String::new(), all };
            dump(on, &request, nothing)
        }
        CellCommand::Set { name, index, values } => change(on, (kind.set)(name, *index, values)?),
        CellCommand::Clear { name, index } => change(on, clear(kind.what, name, *index)),
    }
}

/// Cells become blank.
fn clear(kind: What, name: &str, index: Option<u64>) -> wire::Change {
    let cells = vec![wire::Cells { name: name.to_owned(), index, kind: kind.into() }];
    wire::Change { kind: Kind::Delete.into(), cells, ..Default::default() }
}

fn set_counter(name: &str, index: u64, values: &[String]) -> Result<wire::Change, String> {
    let number = |text: &String| {
        whole(text).map_err(|_| format!("`{text}` is not a number: write PACKETS BYTES"))
    };
    match values {
        [packets, bytes] => {
            let (name, packets, bytes) = (name.to_owned(), number(packets)?, number(bytes)?);
            let counters = vec![wire::CounterValue { name, index, packets, bytes }];
            Ok(wire::Change { kind: Kind::Modify.into(), counters, ..Default::default() })
        }
        _ => Err("a counter has two values: write PACKETS BYTES".into()),
    }
}

fn set_meter(name: &str, index: u64, values: &[String]) -> Result<wire::Change, String> {
    let document = json!({ "meters": { name: { index.to_string(): words::rates(values)? } } });
    Ok(of_entries(Kind::Modify, &document))
}

fn set_register(name: &str, index: u64, values: &[String]) -> Result<wire::Change, String> {
    let cells = match values {
        [value] if !value.contains('=') => json!({ "value": value }),
        cells => words::pairs(cells)?.into(),
    };
    let document = json!({ "registers": { name: { index.to_string(): cells } } });
    Ok(of_entries(Kind::Modify, &document))
}
