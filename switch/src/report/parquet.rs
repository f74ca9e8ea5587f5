//! The series as Apache Parquet: one column of doubles for each, null without a measurement.
//!
//! Columns have the names of the CSV, the unit in parentheses, so that a notebook for one can read the other.
//! Uncompressed and without a time of writing: the same measurements result in the same bytes.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::DoubleType;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::Report;

/// All series, one row for each sample.
///
/// # Errors
/// Data that the format cannot have.
pub fn series(report: &Report) -> Result<Vec<u8>> {
    let column = |name: String, repetition| {
        let column = Type::primitive_type_builder(&name, Physical::DOUBLE);
        column.with_repetition(repetition).build().map(Arc::new)
    };
    let mut columns = vec![column("time (seconds)".to_owned(), Repetition::REQUIRED)?];
    for series in &report.series {
        let name = format!("{} ({})", series.name, series.unit.name());
        columns.push(column(name, Repetition::OPTIONAL)?);
    }
    let schema = Type::group_type_builder("series").with_fields(columns).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("wireyard ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    let mut place = 0;
    while let Some(mut column) = rows.next_column()? {
        let typed = column.typed::<DoubleType>();
        match place {
            0 => typed.write_batch(&report.sample_times, None, None)?,
            _ => {
                let values = &report.series[place - 1].values;
                let value = |row: usize| values.get(row).copied().filter(|value| value.is_finite());
                let cells: Vec<Option<f64>> = (0..report.sample_times.len()).map(value).collect();
                let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let there: Vec<f64> = cells.into_iter().flatten().collect();
                typed.write_batch(&there, Some(&levels), None)?
            }
        };
        column.close()?;
        place += 1;
    }
    rows.close()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests;
