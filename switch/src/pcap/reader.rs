//! The reader: a growing window over any byte source, and the pcap format on it.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::ng::{Block, Section, is_read};
use super::{MAX_RECORD_BYTES, PcapError, PcapHeader, Record, Timestamp};

/// Bytes requested from the source at once.
const READ_BYTES: usize = 64 * 1024;
/// The longest pcapng block that is read: a record and generous options; longer means a damaged length. Blocks of other
/// types may have any length.
const MAX_BLOCK_BYTES: u64 = 16 << 20;

/// Reads pcap and pcapng records from any source of bytes.
#[derive(Debug)]
pub struct PcapReader<R> {
    window: Window<R>,
    format: Format,
    current: Option<Found>,
    records: u64,
}

#[derive(Debug)]
enum Format {
    Pcap(PcapHeader),
    PcapNg(Section),
}

/// A record whose bytes are in the window.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) time: Timestamp,
    pub(super) wire_len: u32,
    pub(super) link: u16,
    pub(super) interface: u32,
    /// Ranges relative to the start of the record or block.
    pub(super) data: Range<usize>,
    pub(super) comment: Option<Range<usize>>,
    /// Position of the record or block in the window, and in the file.
    pub(super) at: usize,
    pub(super) offset: u64,
}

impl<R: Read> PcapReader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// Not a capture file, a variant that is not supported, or an I/O error.
    pub fn new(source: R) -> Result<PcapReader<R>, PcapError> {
        let mut window = Window { source, buf: Vec::new(), start: 0, end: 0, offset: 0 };
        let magic: Vec<u8> = window.want(4)?.iter().copied().take(4).collect();
        let (big_endian, nanoseconds) = match magic.as_slice() {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true),
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                let format = Format::PcapNg(Section::default());
                return Ok(PcapReader { window, format, current: None, records: 0 });
            }
            [0xa1, 0xb2, 0xcd, 0x34] | [0x34, 0xcd, 0xb2, 0xa1] => {
                return Err(PcapError::Variant(
                    "a pcap file in Kuznetzov's modified format: convert it with editcap",
                ));
            }
            _ => return Err(PcapError::NotACapture { magic }),
        };
        let head = window.need(24, 0)?;
        let word = |at| u32_at(head, at, big_endian);
        let half = |at| u16_at(head, at, big_endian);
        let header = PcapHeader {
            big_endian,
            nanoseconds,
            version: (half(4), half(6)),
            reserved: (word(8), word(12)),
            snap_len: word(16),
            link_field: word(20),
        };
        if header.version.0 != 2 {
            return Err(PcapError::Variant("a pcap file that is not of version 2"));
        }
        window.consume(24);
        Ok(PcapReader { window, format: Format::Pcap(header), current: None, records: 0 })
    }

    /// The file header of a pcap file; `None` for pcapng.
    pub fn pcap_header(&self) -> Option<&PcapHeader> {
        match &self.format {
            Format::Pcap(header) => Some(header),
            Format::PcapNg(_) => None,
        }
    }

    /// Names of the interfaces described so far (pcapng).
    pub fn interface_names(&self) -> impl Iterator<Item = &str> {
        let section = match &self.format {
            Format::PcapNg(section) => Some(section),
            Format::Pcap(_) => None,
        };
        section.into_iter().flat_map(Section::names)
    }

    /// Interfaces described so far, those of earlier sections included (pcapng).
    pub fn interfaces_described(&self) -> u64 {
        match &self.format {
            Format::PcapNg(section) => section.described,
            Format::Pcap(_) => 0,
        }
    }

    /// Records found so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Moves to the next record; false at the end of the file.
    ///
    /// # Errors
    /// See [`PcapError`]. After an error the reader keeps its position.
    pub fn advance(&mut self) -> Result<bool, PcapError> {
        self.current = None;
        let found = match &mut self.format {
            Format::Pcap(header) => next_pcap(&mut self.window, header, self.records)?,
            Format::PcapNg(section) => next_ng(&mut self.window, section, self.records)?,
        };
        self.records += u64::from(found.is_some());
        self.current = found;
        Ok(self.current.is_some())
    }

    /// The record that [`PcapReader::advance`] found.
    pub fn record(&self) -> Option<Record<'_>> {
        let found = self.current.as_ref()?;
        let whole = self.window.buf.get(found.at..)?;
        Some(Record {
            time: found.time,
            data: whole.get(found.data.clone())?,
            wire_len: found.wire_len,
            link: found.link,
            interface: found.interface,
            interface_name: match &self.format {
                Format::PcapNg(section) => section.name(found.interface),
                Format::Pcap(_) => None,
            },
            comment: found
                .comment
                .clone()
                .and_then(|range| whole.get(range))
                .and_then(|bytes| std::str::from_utf8(bytes).ok()),
            offset: found.offset,
        })
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// As [`PcapReader::advance`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        Ok(if self.advance()? { self.record() } else { None })
    }
}

fn next_pcap<R: Read>(
    window: &mut Window<R>,
    header: &PcapHeader,
    records: u64,
) -> Result<Option<Found>, PcapError> {
    if window.want(16)?.is_empty() {
        return Ok(None);
    }
    let head = window.need(16, records)?;
    let word = |at| u32_at(head, at, header.big_endian);
    let (seconds, fraction, captured, wire_len) = (word(0), word(4), word(8), word(12));
    let offset = window.offset;
    if captured > MAX_RECORD_BYTES {
        return Err(PcapError::TooLong { offset, bytes: u64::from(captured), records });
    }
    let len = 16 + captured as usize;
    window.need(len, records)?;
    let at = window.consume(len);
    let nanos = u64::from(fraction) * if header.nanoseconds { 1 } else { 1000 };
    Ok(Some(Found {
        time: Timestamp { seconds: u64::from(seconds), nanos },
        wire_len,
        link: header.link(),
        interface: 0,
        data: 16..len,
        comment: None,
        at,
        offset,
    }))
}

fn next_ng<R: Read>(
    window: &mut Window<R>,
    section: &mut Section,
    records: u64,
) -> Result<Option<Found>, PcapError> {
    loop {
        if window.want(12)?.is_empty() {
            return Ok(None);
        }
        let offset = window.offset;
        let damaged = |what| PcapError::BadBlock { offset, what, records };
        let head = window.need(12, records)?;
        section.follow_byte_order(head).map_err(damaged)?;
        let len = u64::from(u32_at(head, 4, section.big_endian));
        if len < 12 || len % 4 != 0 {
            return Err(damaged("its length is not a multiple of 4 of at least 12"));
        }
        if len > MAX_BLOCK_BYTES {
            if is_read(u32_at(head, 0, section.big_endian)) {
                return Err(damaged("a block of its type is not longer than 16 MiB"));
            }
            window.skip(len - 4, records)?;
            let end = window.need(4, records)?;
            if u64::from(u32_at(end, 0, section.big_endian)) != len {
                return Err(damaged("its two lengths differ"));
            }
            window.consume(4);
            continue;
        }
        let block = window.need(len as usize, records)?;
        let block = block.get(..len as usize).unwrap_or(block);
        let found = section.read_block(block).map_err(damaged)?;
        let at = window.consume(len as usize);
        match found {
            Block::Record(found) if found.data.len() > MAX_RECORD_BYTES as usize => {
                return Err(PcapError::TooLong { offset, bytes: found.data.len() as u64, records });
            }
            Block::Record(found) => return Ok(Some(Found { at, offset, ..found })),
            Block::Other => {}
        }
    }
}

/// The bytes that were read and not yet consumed.
#[derive(Debug)]
struct Window<R> {
    source: R,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// File offset of `start`.
    offset: u64,
}

impl<R: Read> Window<R> {
    /// At least `len` unread bytes, fewer only at the end of the file.
    fn want(&mut self, len: usize) -> Result<&[u8], PcapError> {
        while self.end - self.start < len {
            if self.end == self.buf.len() {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                // Grows by what was read, never by a damaged length.
                self.buf.resize(self.buf.len().max(self.end + READ_BYTES), 0);
            }
            match self.source.read(self.buf.get_mut(self.end..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.buf.get(self.start..self.end).unwrap_or_default())
    }

    /// As `want`, except that too few bytes are an error.
    fn need(&mut self, len: usize, records: u64) -> Result<&[u8], PcapError> {
        let offset = self.offset;
        let bytes = self.want(len)?;
        if bytes.len() < len {
            let (need, have) = (len as u64, bytes.len() as u64);
            return Err(PcapError::Truncated { offset, need, have, records });
        }
        Ok(bytes)
    }

    /// Skips `len` bytes without keeping them. At the end of the file the last byte stays, so that an error stays an
    /// error.
    fn skip(&mut self, len: u64, records: u64) -> Result<(), PcapError> {
        let (offset, mut left) = (self.offset, len);
        while left > 0 {
            let have = self.want(left.min(2) as usize)?.len() as u64;
            if have < left.min(2) {
                let have = len - left + have;
                return Err(PcapError::Truncated { offset, need: len, have, records });
            }
            let step = if left <= have { left } else { have - 1 };
            self.consume(step as usize);
            left -= step;
        }
        Ok(())
    }

    /// Skips `len` bytes that were read; they stay in place until the next `want`.
    fn consume(&mut self, len: usize) -> usize {
        let at = self.start;
        self.start = (self.start + len).min(self.end);
        self.offset += (self.start - at) as u64;
        at
    }
}

/// Two bytes at `at`; 0 outside.
pub(super) fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let Some(Ok(raw)) = bytes.get(at..at + 2).map(<[u8; 2]>::try_from) else { return 0 };
    if big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

/// Four bytes at `at`; 0 outside.
pub(super) fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let Some(Ok(raw)) = bytes.get(at..at + 4).map(<[u8; 4]>::try_from) else { return 0 };
    if big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
}
