//! Flows from a CSV file: `from,to,bytes,start_us`, with errors at their cells.

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_tables::time::{Span, Time};

use super::flows::{FLOWS_MAX, few_enough, host};
use super::quantity::SIZE_MAX;
use super::sheets::whole;
use super::{FlowSpec, MESSAGE};
use crate::lab::fabric::Fabric;
use crate::units::Bytes;

/// The columns, as the first line may name them.
const COLUMNS: [&str; 4] = ["from", "to", "bytes", "start_us"];
/// Latest start that can be read, in microseconds; whether it is within the run is checked later.
const START_US_MAX: f64 = 1e12;
/// Most wrong lines of one file that are reported.
pub(super) const WRONG_MAX: usize = 10;

/// The flows of a file; `common` has the settings that a line does not have.
pub(super) fn flows(
    decoder: &mut Decoder<'_>,
    (file, text): (FileId, &str),
    fabric: &Fabric,
    common: (&FlowSpec, Span),
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
        if wrong >= WRONG_MAX || flows.len() > FLOWS_MAX {
            break;
        }
    }
    if wrong > 0 || !few_enough(decoder, flows.len(), common.0.span) {
        return None;
    }
    some_flows(decoder, flows, common.0.span)
}

/// Refuses a file without a flow.
pub(super) fn some_flows(
    decoder: &mut Decoder<'_>,
    flows: Vec<FlowSpec>,
    item: SourceSpan,
) -> Option<Vec<FlowSpec>> {
    if flows.is_empty() {
        let message = "the file has no flow: nothing would be sent";
        return decoder.refuse(codes::SCENARIO, item, message);
    }
    Some(flows)
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

/// A first line of words names the columns: others, or another order, would be misread and are refused.
fn heading(decoder: &mut Decoder<'_>, cells: &[Sp<String>]) -> Option<()> {
    let names: Vec<&str> = cells.iter().map(|cell| cell.value.as_str()).collect();
    if names == COLUMNS {
        return Some(());
    }
    let wrong =
        cells.iter().enumerate().find(|(n, cell)| COLUMNS.get(*n) != Some(&cell.value.as_str()));
    let (span, message) = match wrong {
        Some((n, cell)) => match COLUMNS.get(n) {
            Some(column) => {
                (cell.span, format!("column {} is `{}`, expected `{column}`", n + 1, cell.value))
            }
            None => (cell.span, format!("column {} is one too many", n + 1)),
        },
        None => {
            let missing = COLUMNS[cells.len()..].join("`, `");
            (whole(cells), format!("this names {} columns: `{missing}` is missing", cells.len()))
        }
    };
    let columns = COLUMNS.join(",");
    decoder.diagnostics.error(codes::SCENARIO, span, message).note(format!(
        "the columns are `{columns}`, in this order; the line that names them may be absent"
    ));
    None
}

fn line(
    decoder: &mut Decoder<'_>,
    cells: &[Sp<String>],
    fabric: &Fabric,
    (common, origin): (&FlowSpec, Span),
) -> Option<FlowSpec> {
    let span = whole(cells);
    let [from, to, bytes, start] = cells else {
        let message = format!("{} cells, expected 4: {}", cells.len(), COLUMNS.join(","));
        return decoder.refuse(codes::SCENARIO, span, message);
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
        return decoder.refuse(codes::SCENARIO, span, message);
    }
    let start = since(decoder, start.span, (start_us? * 1e6).round() as u64, origin)?;
    Some(listed(common, (a, b, size), start, span))
}

/// A flow of a file.
pub(super) fn listed(
    common: &FlowSpec,
    (from, to, size): (usize, usize, Bytes),
    start: Time,
    span: SourceSpan,
) -> FlowSpec {
    FlowSpec {
        from,
        to,
        size: Some(size),
        message: size.min(MESSAGE),
        start,
        span,
        ..common.clone()
    }
}

/// A time of a file, in picoseconds, from the instant at which the run begins.
pub(super) fn since(
    decoder: &mut Decoder<'_>,
    place: SourceSpan,
    ps: u64,
    origin: Span,
) -> Option<Time> {
    let since = ps.checked_sub(origin.as_ps());
    if since.is_none() {
        let message = format!("this is before `origin`, {origin}, where the run begins");
        decoder.diagnostics.error(codes::SCENARIO, place, message);
    }
    since.map(Time::from_ps)
}
