//! pcapng blocks: sections, interfaces and the three kinds of packet blocks.
//!
//! Other blocks (name resolution, statistics, secrets, custom) are skipped.

use super::Timestamp;
use super::reader::{Found, u16_at, u32_at};

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const OPT_IF_NAME: u16 = 2;
pub(super) const OPT_IF_TSRESOL: u16 = 9;
const OPT_IF_TSOFFSET: u16 = 14;

/// State of the section that is being read.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) big_endian: bool,
    interfaces: Vec<Capture>,
    /// Interfaces described so far, those of earlier sections included.
    pub(super) described: u64,
    /// The time of the last record, for records without one.
    last: Timestamp,
}

/// The contents of an interface description about its packets.
#[derive(Clone, Debug)]
struct Capture {
    name: Option<String>,
    link: u16,
    snap_len: u32,
    ticks_per_second: u128,
    offset_seconds: i64,
}

pub(super) enum Block {
    Record(Found),
    Other,
}

/// True for a block whose contents are read; others are skipped.
pub(super) fn is_read(kind: u32) -> bool {
    matches!(kind, SECTION_HEADER | INTERFACE | PACKET_OBSOLETE | SIMPLE_PACKET | ENHANCED_PACKET)
}

impl Section {
    /// The name of an interface.
    pub(super) fn name(&self, interface: u32) -> Option<&str> {
        self.interfaces.get(interface as usize)?.name.as_deref()
    }

    /// The names of all that have one.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter_map(|interface| interface.name.as_deref())
    }

    /// Sets the byte order by a section header: that of everything up to the next one, itself included.
    pub(super) fn follow_byte_order(&mut self, head: &[u8]) -> Result<(), &'static str> {
        if u32_at(head, 0, true) != SECTION_HEADER {
            return Ok(());
        }
        self.big_endian = match (u32_at(head, 8, true), u32_at(head, 8, false)) {
            (BYTE_ORDER_MAGIC, _) => true,
            (_, BYTE_ORDER_MAGIC) => false,
            _ => return Err("its byte-order magic is not 1a2b3c4d"),
        };
        Ok(())
    }

    /// Reads one whole block; ranges in the record are relative to it.
    pub(super) fn read_block(&mut self, block: &[u8]) -> Result<Block, &'static str> {
        let word = |at| u32_at(block, at, self.big_endian);
        let body_end = block.len() - 4;
        if word(4) != word(body_end) {
            return Err("its two lengths differ");
        }
        let block = match word(0) {
            SECTION_HEADER if body_end < 24 => Err("a section header needs 28 bytes"),
            SECTION_HEADER if u16_at(block, 12, self.big_endian) != 1 => {
                Err("a section of a version that is not 1")
            }
            SECTION_HEADER => {
                self.interfaces.clear();
                Ok(Block::Other)
            }
            INTERFACE => self.read_interface(block, body_end).map(|()| Block::Other),
            ENHANCED_PACKET => self.read_packet(block, body_end, word(8)),
            PACKET_OBSOLETE => {
                let interface = u32::from(u16_at(block, 8, self.big_endian));
                self.read_packet(block, body_end, interface)
            }
            SIMPLE_PACKET => self.read_simple(block, body_end),
            _ => Ok(Block::Other),
        }?;
        if let Block::Record(found) = &block {
            self.last = found.time;
        }
        Ok(block)
    }

    fn read_interface(&mut self, block: &[u8], body_end: usize) -> Result<(), &'static str> {
        if body_end < 16 {
            return Err("an interface description needs 20 bytes");
        }
        let mut interface = Capture {
            name: None,
            link: u16_at(block, 8, self.big_endian),
            snap_len: u32_at(block, 12, self.big_endian),
            ticks_per_second: 1_000_000,
            offset_seconds: 0,
        };
        for (code, at, len) in Options::new(block, 16, body_end, self.big_endian) {
            let value = block.get(at..at + len).unwrap_or_default();
            match (code, value) {
                (OPT_IF_TSRESOL, [resolution, ..]) => {
                    interface.ticks_per_second = ticks_per_second(*resolution);
                }
                (OPT_IF_NAME, name) => {
                    let name = std::str::from_utf8(name).ok();
                    interface.name = name.map(str::to_owned);
                }
                (OPT_IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => {
                    let (a, b) =
                        (u32_at(value, 0, self.big_endian), u32_at(value, 4, self.big_endian));
                    let (high, low) = if self.big_endian { (a, b) } else { (b, a) };
                    interface.offset_seconds = i64::from(high as i32) << 32 | i64::from(low);
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        self.described += 1;
        Ok(())
    }

    /// Enhanced and obsolete packet blocks have the same fields from byte 12 on.
    fn read_packet(&self, block: &[u8], body_end: usize, id: u32) -> Result<Block, &'static str> {
        if body_end < 28 {
            return Err("a packet block needs 32 bytes");
        }
        let interface = self
            .interfaces
            .get(id as usize)
            .ok_or("it names an interface that was not described before")?;
        let word = |at| u32_at(block, at, self.big_endian);
        let captured = word(20) as usize;
        let data = 28..28usize.saturating_add(captured);
        if data.end > body_end {
            return Err("it states more captured bytes than it has");
        }
        let options = data.end.next_multiple_of(4);
        let comment = Options::new(block, options, body_end, self.big_endian)
            .find(|(code, _, _)| *code == OPT_COMMENT)
            .map(|(_, at, len)| at..at + len);
        let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
        Ok(Block::Record(Found {
            time: interface.time(ticks).ok_or("its time is before 1970, or 2^64 s after it")?,
            wire_len: word(24),
            link: interface.link,
            interface: id,
            data,
            comment,
            at: 0,
            offset: 0,
        }))
    }

    /// A simple packet has no timestamp, for which that of the record before it stands, and belongs to the first interface.
    fn read_simple(&self, block: &[u8], body_end: usize) -> Result<Block, &'static str> {
        if body_end < 12 {
            return Err("a simple packet block needs 16 bytes");
        }
        let interface =
            self.interfaces.first().ok_or("a simple packet comes before any interface")?;
        let wire_len = u32_at(block, 8, self.big_endian);
        let limit = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        let captured = wire_len.min(limit) as usize;
        if captured > body_end - 12 {
            return Err("it states more captured bytes than it has");
        }
        Ok(Block::Record(Found {
            time: self.last,
            wire_len,
            link: interface.link,
            interface: 0,
            data: 12..12 + captured,
            comment: None,
            at: 0,
            offset: 0,
        }))
    }
}

impl Capture {
    /// `None`: before 1970, or more than 64 bits of seconds.
    fn time(&self, ticks: u64) -> Option<Timestamp> {
        let (ticks, per_second) = (u128::from(ticks), self.ticks_per_second);
        // At least one tick is a second: the quotient has no more bits than the ticks.
        let seconds = (ticks / per_second) as u64;
        Some(Timestamp {
            seconds: seconds.checked_add_signed(self.offset_seconds)?,
            // Less than 10^9: the fraction is below one second.
            nanos: (ticks % per_second * 1_000_000_000 / per_second) as u64,
        })
    }
}

/// `if_tsresol`: a negative power of 10, or of 2 if the top bit is set. Where it has too many bits, all ticks of a record
/// are less than a nanosecond.
fn ticks_per_second(resolution: u8) -> u128 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.saturating_pow(exponent)
}

/// Walks options as (code, start, length), inside `end`; stops at the first that does not fit.
struct Options<'a> {
    block: &'a [u8],
    at: usize,
    end: usize,
    big_endian: bool,
}

impl<'a> Options<'a> {
    fn new(block: &'a [u8], at: usize, end: usize, big_endian: bool) -> Options<'a> {
        Options { block, at, end, big_endian }
    }
}

impl Iterator for Options<'_> {
    type Item = (u16, usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at + 4 > self.end {
            return None;
        }
        let code = u16_at(self.block, self.at, self.big_endian);
        let len = usize::from(u16_at(self.block, self.at + 2, self.big_endian));
        let start = self.at + 4;
        if code == 0 || start + len > self.end {
            return None;
        }
        self.at = start + len.next_multiple_of(4);
        Some((code, start, len))
    }
}
