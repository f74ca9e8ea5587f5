//! The series as Apache Parquet: one column of doubles for each, null where nothing was measured.
//!
//! Columns have the names of the CSV, the unit in parentheses, so that a notebook that reads one reads the other. Uncompressed and
//! without a time of writing: the same measurements give the same bytes.

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
/// What the format cannot hold.
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
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::report::Series;
    use crate::report::tests::sample;

    #[test]
    fn what_is_written_is_read_back_and_is_the_same_twice() {
        let mut report = sample();
        report.series[0].values[0] = f64::NAN;
        let other =
            Series { name: "alpha".into(), values: vec![0.25, 0.5], ..report.series[0].clone() };
        report.series.push(other);
        let bytes = series(&report).unwrap();
        assert_eq!(bytes, series(&report).unwrap(), "other bytes the second time");
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, ["time (seconds)", "queue (bytes)", "alpha (bytes)"]);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), report.sample_times.len());
        for (row, time) in rows.iter().zip(&report.sample_times) {
            assert_eq!(row.get_double(0).unwrap(), *time);
        }
        assert!(rows[0].get_double(1).is_err(), "nothing was measured");
        assert_eq!(rows[1].get_double(1).unwrap(), report.series[0].values[1]);
        assert_eq!([0, 1].map(|row| rows[row].get_double(2).unwrap()), [0.25, 0.5]);
    }
}
