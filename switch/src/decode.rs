//! The contents of a capture, packet by packet: the parser of `programs/parse_all`, and the text of its output.
//!
//! The program and its [`Summary`] are data inside the binary; nothing here depends on a particular header. Parsing,
//! checksums and CRCs are the pipeline's ([`wireyard_pipeline::decode`]). It reads no file and prints nothing: the
//! command does.

mod json;
mod line;
mod summary;
mod sums;
mod tree;

use wireyard_pipeline::check::compile;
use wireyard_pipeline::decode::{Decoder, PACKET_BYTES_MAX, Parsed, filter};
use wireyard_pipeline::diag::{Diagnostics, Rejected};
use wireyard_pipeline::source::{Loader, parse_program};

use crate::library::LIBRARIES;
use crate::link_type::link_types;
use crate::pcap::erf::NoFrame;
use crate::pcap::{Record, erf};
use crate::ports::LinkType;
use crate::ports::capture::{NoLink, link_of};

pub use summary::Summary;
pub use sums::{CrcCount, Sums, Unchecked, Verdict};

const PROGRAM: &str = include_str!("../../programs/parse_all/program.yaml");
const SUMMARY: &str = include_str!("../../programs/parse_all/summary.yaml");

/// A frame to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The captured bytes, without the carrier's own record header.
    pub bytes: &'a [u8],
    /// Bytes on the wire; more than `bytes` when the capture cut the frame.
    pub wire_len: u32,
    /// Its link type.
    pub link: LinkType,
}

/// The position of a packet in its capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number in the file, from 1.
    pub number: u64,
    /// Nanoseconds since the first packet; before it, negative.
    pub time_ns: i128,
}

/// A decoded packet, with the text data to print it.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'d> {
    /// The parsed headers and the results of their checks.
    pub parsed: Parsed<'d>,
    pub(crate) frame: Frame<'d>,
    summary: &'d Summary,
}

/// Why a record of a capture is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Its link type.
    #[error(transparent)]
    Link(#[from] NoLink),
    /// The kind of record.
    #[error(transparent)]
    Record(#[from] NoFrame),
    /// No frame is so long.
    #[error("frames of more than {PACKET_BYTES_MAX} bytes are not decoded")]
    TooLong,
}

/// The decoder for all headers of the header libraries.
#[derive(Debug)]
pub struct Dissector {
    decoder: Decoder,
    summary: Summary,
}

impl<'a> Frame<'a> {
    /// The frame of a capture record.
    ///
    /// # Errors
    /// A link type, or a kind of record, that is not decoded, with its name. Other records of the file may be decoded.
    pub fn of(record: &Record<'a>) -> Result<Frame<'a>, DecodeError> {
        let link = link_of(record.link, None)?;
        if link != LinkType::Erf {
            return Ok(Frame { bytes: record.data, wire_len: record.wire_len, link });
        }
        let inner = erf::frame(record.data)?;
        let link = inner.link_type();
        Ok(Frame { bytes: inner.bytes, wire_len: inner.wire_len, link })
    }

    /// Bytes that the capture left out.
    pub fn missing(&self) -> u32 {
        self.wire_len.saturating_sub(self.bytes.len().min(u32::MAX as usize) as u32)
    }
}

impl Dissector {
    /// Compiles the decoder; with a filter, [`Parsed::picked`] is true for the selected packets.
    ///
    /// # Errors
    /// The errors of the filter.
    pub fn new(wanted: Option<&str>) -> Result<Dissector, Rejected> {
        let loader = Loader::in_memory([("parse_all.yaml", PROGRAM)], LIBRARIES);
        let mut parsed = parse_program("parse_all.yaml".as_ref(), &loader)?;
        parsed = match wanted {
            Some(text) => filter::apply(parsed, text)?,
            None => filter::none(parsed),
        };
        let mut files = parsed.files.clone();
        let refused = |diagnostics, files| Rejected { diagnostics, files };
        let compiled = compile(&parsed, &link_types())
            .map_err(|diagnostics| refused(diagnostics, parsed.files.clone()))?;
        let mut found = Diagnostics::new();
        let summary = Summary::read(SUMMARY, &compiled.program, &mut files, &mut found);
        let Some(summary) = summary.filter(|_| !found.has_errors()) else {
            return Err(refused(found, files));
        };
        let decoder = Decoder::new(compiled.program.into()).map_err(|error| {
            let (mut found, message) = (Diagnostics::new(), error.to_string());
            found.error_without_place(wireyard_pipeline::diag::codes::FILE_NOT_READ, message);
            refused(found, files)
        })?;
        Ok(Dissector { decoder, summary })
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// It is longer than the limit of the decoder.
    pub fn decode<'d>(&'d mut self, frame: Frame<'d>) -> Result<Decoded<'d>, DecodeError> {
        let link = match frame.link {
            LinkType::Ethernet | LinkType::Erf => 0,
            LinkType::Infiniband => 1,
            LinkType::Opa => 2,
        };
        let parsed = self.decoder.parse_cut(frame.bytes, frame.missing(), link);
        let parsed = parsed.ok_or(DecodeError::TooLong)?;
        Ok(Decoded { parsed, frame, summary: &self.summary })
    }
}

#[cfg(test)]
mod tests;
