//! The writer: pcap with any given header, or pcapng with nanoseconds, interface names and comments.

use std::io::{self, ErrorKind, Write};

use super::ng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, OPT_COMMENT, OPT_IF_NAME, OPT_IF_TSRESOL,
    SECTION_HEADER,
};
use super::{MAX_RECORD_BYTES, PcapError, PcapHeader, Timestamp};

/// An interface of a pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Link-type number.
    pub link: u16,
    /// Shown by readers as the interface's name.
    pub name: String,
}

/// One packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct RecordToWrite<'a> {
    /// Its timestamp.
    pub time: Timestamp,
    /// Its bytes.
    pub data: &'a [u8],
    /// Bytes on the wire: more than `data` has if that was cut.
    pub wire_len: u32,
    /// Interface index; ignored in pcap.
    pub interface: u32,
    /// A comment; ignored in pcap.
    pub comment: Option<&'a str>,
}

/// Writes as much as the file accepts; returns the amount, and the error if it was not all.
pub(crate) fn write_most(file: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match file.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(ErrorKind::WriteZero.into())),
            Ok(count) => taken += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

/// Writes a capture file record by record. Use a buffered sink.
#[derive(Debug)]
pub struct PcapWriter<W> {
    sink: W,
    /// The header of a pcap file, `None` for pcapng.
    header: Option<PcapHeader>,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a pcap file; a copy of another file's header results in a file equal to it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn pcap(sink: W, header: PcapHeader) -> Result<PcapWriter<W>, PcapError> {
        let mut writer =
            PcapWriter { sink, header: Some(header), interfaces: 1, block: Vec::new() };
        let magic = if header.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        writer.word(magic);
        writer.half(header.version.0);
        writer.half(header.version.1);
        for word in [header.reserved.0, header.reserved.1, header.snap_len, header.link_field] {
            writer.word(word);
        }
        writer.put()?;
        Ok(writer)
    }

    /// Starts a pcapng file (little-endian); add interfaces before records.
    ///
    /// # Errors
    /// I/O errors.
    pub fn pcapng(sink: W) -> Result<PcapWriter<W>, PcapError> {
        let mut writer = PcapWriter { sink, header: None, interfaces: 0, block: Vec::new() };
        writer.word(BYTE_ORDER_MAGIC);
        writer.half(1);
        writer.half(0);
        writer.word(u32::MAX);
        writer.word(u32::MAX);
        writer.put_block(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Describes an interface of a pcapng file and returns its index. In pcap there is one, number 0.
    ///
    /// # Errors
    /// I/O errors.
    pub fn add_interface(&mut self, interface: &Interface) -> Result<u32, PcapError> {
        if self.header.is_some() {
            return Ok(0);
        }
        self.half(interface.link);
        self.half(0);
        self.word(0);
        self.option(OPT_IF_NAME, interface.name.as_bytes());
        self.option(OPT_IF_TSRESOL, &[9]);
        self.word(0);
        self.put_block(INTERFACE)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// [`PcapError::TooLong`] beyond [`MAX_RECORD_BYTES`] (no reader accepts it), and I/O errors.
    pub fn write(&mut self, record: &RecordToWrite<'_>) -> Result<(), PcapError> {
        let captured = u32::try_from(record.data.len()).unwrap_or(u32::MAX);
        if captured > MAX_RECORD_BYTES {
            let bytes = record.data.len() as u64;
            return Err(PcapError::TooLong { offset: 0, bytes, records: 0 });
        }
        let Some(header) = self.header else { return self.write_enhanced(record, captured) };
        let fraction = record.time.nanos / if header.nanoseconds { 1 } else { 1000 };
        // 32 bits, which are over in 2106; a .pcapng file goes on.
        self.word(record.time.seconds as u32);
        self.word(fraction as u32);
        self.word(captured);
        self.word(record.wire_len);
        self.block.extend_from_slice(record.data);
        self.put()
    }

    fn write_enhanced(
        &mut self,
        record: &RecordToWrite<'_>,
        captured: u32,
    ) -> Result<(), PcapError> {
        let ns = record.time.as_ns();
        self.word(record.interface);
        self.word((ns >> 32) as u32);
        self.word(ns as u32);
        self.word(captured);
        self.word(record.wire_len);
        self.block.extend_from_slice(record.data);
        self.pad();
        if let Some(comment) = record.comment {
            self.option(OPT_COMMENT, comment.as_bytes());
            self.word(0);
        }
        self.put_block(ENHANCED_PACKET)
    }

    /// Flushes everything to the operating system.
    ///
    /// # Errors
    /// I/O errors.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        Ok(self.sink.flush()?)
    }

    /// The sink, for an owner that removes the written data from it.
    pub fn sink(&mut self) -> &mut W {
        &mut self.sink
    }

    /// Flushes and returns the sink.
    ///
    /// # Errors
    /// I/O errors.
    pub fn into_inner(mut self) -> Result<W, PcapError> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn big_endian(&self) -> bool {
        self.header.is_some_and(|h| h.big_endian)
    }

    fn word(&mut self, value: u32) {
        let bytes = if self.big_endian() { value.to_be_bytes() } else { value.to_le_bytes() };
        self.block.extend_from_slice(&bytes);
    }

    fn half(&mut self, value: u16) {
        let bytes = if self.big_endian() { value.to_be_bytes() } else { value.to_le_bytes() };
        self.block.extend_from_slice(&bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option; a value beyond 65,535 bytes is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.half(code);
        self.half(len);
        self.block.extend_from_slice(value.get(..usize::from(len)).unwrap_or(value));
        self.pad();
    }

    fn put(&mut self) -> Result<(), PcapError> {
        let done = self.sink.write_all(&self.block);
        self.block.clear();
        Ok(done?)
    }

    /// Frames the collected body as a block.
    fn put_block(&mut self, kind: u32) -> Result<(), PcapError> {
        let len = self.block.len() as u32 + 12;
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[4..].copy_from_slice(&len.to_le_bytes());
        self.sink.write_all(&head)?;
        self.word(len);
        self.put()
    }
}
