//! The file, read again.

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
