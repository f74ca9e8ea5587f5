//! Flows from a CSV file: `from,to,bytes,start_us`, with what is wrong at its cell.
//!
//! The files are read before the scenario is: what is wrong in them is shown as in every other file, so they are among the files
//! that diagnostics know.

use std::path::Path;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::{Files, codes};
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::{SourceFile, SourceSpan};
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::{DATA_BYTES_MAX, Loader, ReadError};
use wireyard_tables::time::Time;

use super::FlowSpec;
use super::flows::{FLOWS_MAX, MESSAGE, few_enough, host};
use super::quantity::SIZE_MAX;
use crate::lab::fabric::Fabric;
use crate::units::Bytes;

/// The columns, as the first line may name them.
const COLUMNS: [&str; 4] = ["from", "to", "bytes", "start_us"];
/// Latest start that can be read, in microseconds; whether it is within the run is asked later.
const START_US_MAX: f64 = 1e12;
/// Wrong lines of one file that are told.
const TOLD_MAX: usize = 10;

/// The files that a scenario names, by the place of the name.
#[derive(Default)]
pub(super) struct Sheets(Vec<(SourceSpan, Result<FileId, String>)>);

impl Sheets {
    /// Reads every `file` below `flows`.
    pub(super) fn read(scenario: &Node, folder: &Path, loader: &Loader, files: &mut Files) -> Self {
        let flows = child(scenario, "flows");
        let items = flows.map_or(&[][..], |flows| match &flows.kind {
            NodeKind::List(items) => items,
            _ => std::slice::from_ref(flows),
        });
        let names = items.iter().filter_map(|item| child(item, "file"));
        Sheets(
            names
                .filter_map(|node| Some((node.span, sheet(node, folder, loader, files)?)))
                .collect(),
        )
    }

    /// The file that is named here.
    pub(super) fn at(&self, span: SourceSpan) -> Option<&Result<FileId, String>> {
        self.0.iter().find(|(place, _)| *place == span).map(|(_, sheet)| sheet)
    }
}

fn child<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let NodeKind::Map(map) = &node.kind else { return None };
    map.pairs.iter().find(|(known, _)| known.scalar.text == key).map(|(_, node)| node)
}

fn sheet(
    node: &Node,
    folder: &Path,
    loader: &Loader,
    files: &mut Files,
) -> Option<Result<FileId, String>> {
    let NodeKind::Scalar(name) = &node.kind else { return None };
    let path = folder.join(&name.text);
    let text = loader.read(&path, DATA_BYTES_MAX).map_err(|error| why(&error));
    let text = text.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".to_owned())
    });
    let name = path.display().to_string();
    Some(match text {
        Ok(text) => Ok(files.push(SourceFile { name, text })),
        Err(why) => Err(format!("{name}: {why}")),
    })
}

/// Why a file was not read.
fn why(error: &ReadError) -> String {
    match error {
        ReadError::NotFound => "there is no such file".to_owned(),
        ReadError::TooLarge(most) => format!("it has more than {most} bytes"),
        ReadError::Other(text) => text.clone(),
    }
}

/// The flows of a file; `common` says what a line does not.
pub(super) fn flows(
    decoder: &mut Decoder<'_>,
    (file, text): (FileId, &str),
    fabric: &Fabric,
    common: &FlowSpec,
) -> Option<Vec<FlowSpec>> {
    let (mut flows, mut wrong, mut start) = (Vec::new(), 0, 0);
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        let cells = cells(file, start, whole);
        start += whole.len();
        if whole.trim().is_empty() {
            continue;
        }
        let is_heading = number == 0 && cells.iter().all(|cell| cell.value.parse::<f64>().is_err());
        let found = match is_heading {
            true => heading(decoder, &cells).map(|()| None),
            false => line(decoder, &cells, fabric, common).map(Some),
        };
        match found {
            Some(flow) => flows.extend(flow),
            None => wrong += 1,
        }
        if wrong >= TOLD_MAX || flows.len() > FLOWS_MAX {
            break;
        }
    }
    (few_enough(decoder, flows.len(), common.span) && wrong == 0).then_some(flows)
}

/// The cells of a line, each without the blanks around it.
fn cells(file: FileId, start: usize, line: &str) -> Vec<Sp<String>> {
    let mut at = start;
    let cell = |text: &str| {
        let trimmed = text.trim();
        let first = at + (text.len() - text.trim_start().len()).min(text.trim_end().len());
        at += text.len() + 1;
        let span = SourceSpan { file, start: first as u32, end: (first + trimmed.len()) as u32 };
        Sp::new(trimmed.to_owned(), span)
    };
    line.split(',').map(cell).collect()
}

fn whole(cells: &[Sp<String>]) -> Option<SourceSpan> {
    let (first, last) = (cells.first()?, cells.last()?);
    Some(SourceSpan { end: last.span.end, ..first.span })
}

/// A first line of words names the columns: others, or in another order, would be read as what they are not.
fn heading(decoder: &mut Decoder<'_>, cells: &[Sp<String>]) -> Option<()> {
    let names: Vec<&str> = cells.iter().map(|cell| cell.value.as_str()).collect();
    if names == COLUMNS {
        return Some(());
    }
    let (number, cell) =
        cells.iter().enumerate().find(|(n, cell)| COLUMNS.get(*n) != Some(&cell.value.as_str()))?;
    let message = match COLUMNS.get(number) {
        Some(column) => format!("column {} is `{}`, expected `{column}`", number + 1, cell.value),
        None => format!("column {} is one too many", number + 1),
    };
    let columns = COLUMNS.join(",");
    decoder.diagnostics.error(codes::SCENARIO, cell.span, message).note(format!(
        "the columns are `{columns}`, in this order; the line that names them may be absent"
    ));
    None
}

fn line(
    decoder: &mut Decoder<'_>,
    cells: &[Sp<String>],
    fabric: &Fabric,
    common: &FlowSpec,
) -> Option<FlowSpec> {
    let span = whole(cells)?;
    let [from, to, bytes, start] = cells else {
        let message = format!("{} cells, expected 4: {}", cells.len(), COLUMNS.join(","));
        decoder.diagnostics.error(codes::SCENARIO, span, message);
        return None;
    };
    let size = bytes.value.parse::<u64>().ok();
    let size = size.filter(|size| (1..=SIZE_MAX.get()).contains(size)).map(Bytes::new);
    if size.is_none() {
        let message = format!("`{}` is no number of bytes from 1 to 10^18", bytes.value);
        decoder.diagnostics.error(codes::BAD_NUMBER, bytes.span, message);
    }
    let start_us = start.value.parse::<f64>().ok().filter(|us| (0.0..START_US_MAX).contains(us));
    if start_us.is_none() {
        let message = format!("`{}` is no number of microseconds from 0", start.value);
        decoder.diagnostics.error(codes::BAD_NUMBER, start.span, message);
    }
    let (a, b) = (host(decoder, from, fabric), host(decoder, to, fabric));
    let (a, b, size) = (a?, b?, size?);
    if a == b {
        let message = format!("`{}` would send to itself", from.value);
        decoder.diagnostics.error(codes::SCENARIO, span, message);
        return None;
    }
    Some(FlowSpec {
        from: a,
        to: b,
        size: Some(size),
        message: size.min(MESSAGE),
        start: Time::from_ps((start_us? * 1e6).round() as u64),
        span,
        ..common.clone()
    })
}
