//! Slowdown by size, the usual comparison of schemes in papers. Tenths of the flows in the order of their sizes, with
//! three percentiles each; incasts are shown apart, as in HPCC's `fct_analysis.py`.

use super::Window;
use super::flows::Measured;
use crate::lab::foreign;
use crate::lab::workload::Source;
use crate::report::{Axis, Column, Layer, Plot, Report, Table, Unit, stats};

/// Bins of equally many flows.
const BINS: usize = 10;
/// Flows up to here are short, and from here on long.
const SHORT_BYTES: f64 = 100e3;
const LONG_BYTES: f64 = 1e6;
/// Percentiles and their names.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)];

pub(super) fn fill(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    let scenario = &window.lab.scenario;
    let by_chance = |source: &Source| matches!(source, Source::Arrivals(_) | Source::Incasts(_));
    if !scenario.sources.iter().any(by_chance) {
        return;
    }
    let is_incast = foreign::incasts(scenario);
    let done = |incast: bool| {
        let flows = flows.iter().zip(&is_incast).filter(move |(_, is)| **is == incast);
        let pair =
            |(flow, _): (&Measured<'_>, _)| Some((flow.spec.size?.get() as f64, flow.slowdown?));
        let mut found: Vec<(f64, f64)> = flows.filter_map(pair).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        found
    };
    let (others, incasts) = (done(false), done(true));
    let slowdowns = |part: &mut dyn Iterator<Item = &(f64, f64)>| {
        stats::sorted(&part.map(|(_, slowdown)| *slowdown).collect::<Vec<_>>())
    };
    let short = slowdowns(&mut others.iter().filter(|(bytes, _)| *bytes <= SHORT_BYTES));
    let long = slowdowns(&mut others.iter().filter(|(bytes, _)| *bytes >= LONG_BYTES));
    let incasts = slowdowns(&mut incasts.iter());
    for (what, values) in [("short", short), ("long", long), ("incast", incasts)] {
        for (name, percent) in PERCENTILES {
            let value = stats::percentile(&values, percent);
            report.figure(format!("flows.{what}_slowdown_{name}"), value, Unit::Plain);
        }
    }
    table(report, &others);
}

fn table(report: &mut Report, flows: &[(f64, f64)]) {
    if flows.len() < BINS {
        return;
    }
    let mut table = Table::new(
        "Slowdown by size",
        "Tenths of the flows that are done, shortest first, without incasts: completion time against the same bytes on an empty \
         network.",
        vec![
            Column::numbers("up to", Unit::Bytes),
            Column::numbers("flows", Unit::Count),
            Column::numbers("p50", Unit::Plain),
            Column::numbers("p95", Unit::Plain),
            Column::numbers("p99", Unit::Plain),
            Column::numbers("worst", Unit::Plain),
        ],
    );
    let mut curves = PERCENTILES.map(|(name, _)| (name, Vec::new()));
    for bin in 0..BINS {
        let part = &flows[bin * flows.len() / BINS..(bin + 1) * flows.len() / BINS];
        let Some((largest, _)) = part.last() else { continue };
        let values = stats::sorted(&part.iter().map(|(_, slowdown)| *slowdown).collect::<Vec<_>>());
        let found = PERCENTILES.map(|(_, percent)| stats::percentile(&values, percent));
        curves.iter_mut().zip(found).for_each(|(curve, value)| curve.1.push((*largest, value)));
        let mut row = vec![(*largest).into(), (part.len() as u64).into()];
        row.extend(found.map(Into::into));
        row.push(stats::largest(&values).into());
        table.rows.push(row);
    }
    let sizes: Vec<f64> = flows.iter().map(|(bytes, _)| *bytes).collect();
    let all: Vec<f64> =
        curves.iter().flat_map(|curve| curve.1.iter().map(|point| point.1)).collect();
    report.plots.push(Plot {
        id: "slowdown-by-size".to_owned(),
        title: "Slowdown by size of the flow".to_owned(),
        caption: "How many times longer flows take than on an empty network, by their size; each point is a tenth of all flows.".to_owned(),
        x: Axis::fitting("size up to", Unit::Bytes, &sizes),
        y: Axis::fitting("slowdown", Unit::Plain, &all),
        layers: curves.map(|(name, points)| Layer::Line { name: name.to_owned(), points }).to_vec(),
    });
    report.tables.push(table);
}
