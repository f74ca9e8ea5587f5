//! Helpers for tests about packets: hexadecimal, emitting what was parsed, walking captures.

use std::fs::File;
use std::path::{Path, PathBuf};

use wireyard_pipeline::decode::{Parsed, Value};
use wireyard_pipeline::ir::FieldLayout;
use wireyard_pipeline::ir::layout::write_run;
use wireyard_switch::decode::Dissector;
use wireyard_switch::pcap::{PcapReader, Record};

pub(crate) fn dissector() -> Dissector {
    Dissector::new(None).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|n| u8::from_str_radix(&hex[n..n + 2], 16).unwrap()).collect()
}

/// The packet put together again from the values of its fields.
pub(crate) fn emit(parsed: &Parsed<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let body = parsed.body_range();
    let headers = parsed.headers();
    let (front, trailers): (Vec<_>, Vec<_>) = headers.iter().partition(|h| h.at < body.start);
    let write = |out: &mut Vec<u8>, header: &wireyard_pipeline::decode::Header<'_>| {
        // What comes between is no field: a pad, or bytes that the parser passed over.
        assert!(out.len() <= header.at as usize, "{} overlaps", header.name);
        out.extend_from_slice(&parsed.bytes()[out.len()..header.at as usize]);
        let mut fresh = vec![0; header.bytes.len()];
        for ((_, value), field) in header.fields().zip(header.layout()) {
            match (value, &field.layout) {
                (Value::Number { value, .. }, layout) => layout.write(&mut fresh, value),
                (Value::List(values), FieldLayout::Array { bit, bits, .. }) => {
                    for (n, value) in values.into_iter().enumerate() {
                        write_run(&mut fresh, bit + bits * n as u32, *bits, value);
                    }
                }
                (Value::Bytes(from), FieldLayout::Variable { byte, .. })
                | (Value::Bytes(from), FieldLayout::Opaque { byte, .. }) => {
                    fresh[*byte as usize..][..from.len()].copy_from_slice(from);
                }
                (value, layout) => panic!("{value:?} in {layout:?}"),
            }
        }
        out.extend(fresh);
    };
    front.iter().for_each(|header| write(&mut out, header));
    assert!(out.len() <= body.start as usize);
    out.extend_from_slice(&parsed.bytes()[out.len()..body.start as usize]);
    out.extend_from_slice(parsed.body());
    trailers.iter().for_each(|header| write(&mut out, header));
    out.extend_from_slice(parsed.slack());
    out
}

/// Every file below a folder, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Runs over the records of a capture, numbered from 1; the error that ended it, if one did.
pub(crate) fn each_record(path: &Path, mut run: impl FnMut(u64, &Record<'_>)) -> Option<String> {
    let mut reader = match PcapReader::new(File::open(path).unwrap()) {
        Ok(reader) => reader,
        Err(error) => return Some(error.to_string()),
    };
    let mut number = 0;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                number += 1;
                run(number, &record);
            }
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}
