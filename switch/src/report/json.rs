//! JSON: everything except the pictures, values in base units.

use serde_json::{Map, Value, json};

use super::{Cell, Report, Table};

/// A number, or null without a measurement.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The report without its series.
pub fn value(report: &Report) -> Value {
    let facts: Map<String, Value> =
        report.facts.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    let figure = |figure: &super::Figure| {
        let value = json!({ "value": number(figure.value), "unit": figure.unit.name() });
        (figure.name.clone(), value)
    };
    let figures: Map<String, Value> = report.figures.iter().map(figure).collect();
    let verdicts: Vec<Value> = report
        .verdicts
        .iter()
        .map(|v| {
            let passed = (!v.skipped).then_some(v.passed);
            json!({ "name": v.name, "passed": passed, "skipped": v.skipped, "found": v.found })
        })
        .collect();
    json!({
        "title": report.title,
        "passed": report.passed(),
        "skipped": report.verdicts.iter().filter(|verdict| verdict.skipped).count(),
        "facts": facts,
        "figures": figures,
        "drawn": report.drawn,
        "verdicts": verdicts,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

/// All series, with their instants.
pub fn series(report: &Report) -> Value {
    let numbers = |values: &[f64]| values.iter().map(|v| number(*v)).collect::<Vec<_>>();
    let series: Map<String, Value> = report
        .series
        .iter()
        .map(|s| {
            let value = json!({ "unit": s.unit.name(), "values": numbers(&s.values) });
            (s.name.clone(), value)
        })
        .collect();
    json!({ "time_seconds": numbers(&report.sample_times), "series": series })
}

fn table(table: &Table) -> Value {
    let columns: Vec<Value> = table
        .columns
        .iter()
        .map(|c| json!({ "name": c.name, "unit": c.unit.map(super::Unit::name) }))
        .collect();
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Number(value) => number(*value),
        Cell::Empty => Value::Null,
    };
    let rows: Vec<Vec<Value>> =
        table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    json!({ "title": table.title, "columns": columns, "rows": rows })
}
