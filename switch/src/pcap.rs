//! Capture files: pcap (micro- and nanoseconds, both byte orders) and pcapng, read and written.
//!
//! Own code, because the published crates lose data that a switch must keep: nanoseconds of pcapng, the original file
//! header, comments. The reader borrows each record from its buffer and copies nothing; nothing here interprets the
//! contents of a frame. Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng; link-type numbers:
//! draft-ietf-opsawg-pcaplinktype.

pub mod erf;
mod linktypes;
mod ng;
mod reader;
pub mod seen;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

use wireyard_tables::time::Time;

pub use linktypes::link_type_name;
pub(crate) use ng::ENHANCED_PACKET;
pub use reader::PcapReader;
pub(crate) use writer::write_most;
pub use writer::{Interface, PcapWriter, RecordToWrite};

/// The longest record that is read, in bytes: libpcap's MAXIMUM_SNAPLEN.
pub const MAX_RECORD_BYTES: u32 = 262_144;

/// LINKTYPE_ETHERNET.
pub const LINK_ETHERNET: u16 = 1;
/// LINKTYPE_ERF: Endace records; their header has the type of the frame.
pub const LINK_ERF: u16 = 197;
/// LINKTYPE_INFINIBAND: frames from the LRH on.
pub const LINK_INFINIBAND: u16 = 247;

/// A timestamp of a capture, as in its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: u64,
    /// Nanoseconds of the second. A malformed record may have more than a second; it is kept.
    pub nanos: u64,
}

impl Timestamp {
    /// The latest record of a capture in the device's time, 212 days: the device's clock ends a day later, and what
    /// waits then still has to leave.
    pub const SPAN_MAX: Time = Time::from_ns(212 * 86_400 * 1_000_000_000);

    /// Nanoseconds since 1970; saturates.
    pub fn as_ns(self) -> u64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(self.nanos)
    }

    /// The device's time of a record, when `origin` is [`Time::ZERO`]: at most [`Timestamp::SPAN_MAX`].
    pub fn since(self, origin: Timestamp) -> Time {
        Time::from_ns(self.as_ns().saturating_sub(origin.as_ns())).min(Timestamp::SPAN_MAX)
    }

    /// From nanoseconds since 1970.
    pub fn from_ns(ns: u64) -> Timestamp {
        Timestamp { seconds: ns / 1_000_000_000, nanos: ns % 1_000_000_000 }
    }
}

/// One captured packet, borrowed from the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was captured.
    pub time: Timestamp,
    /// The captured bytes; fewer than `wire_len` if the capture cut the packet.
    pub data: &'a [u8],
    /// Bytes on the wire, as in the record.
    pub wire_len: u32,
    /// Link-type number of its interface.
    pub link: u16,
    /// Interface index (pcapng; 0 in pcap).
    pub interface: u32,
    /// The name of its interface (pcapng), if it has one that is UTF-8.
    pub interface_name: Option<&'a str>,
    /// First comment option (pcapng), if it is UTF-8.
    pub comment: Option<&'a str>,
    /// Offset of the record in the file.
    pub offset: u64,
}

/// The file header of a pcap file, kept so that a copy has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapHeader {
    /// Byte order of the file.
    pub big_endian: bool,
    /// Timestamps in nanoseconds (magic 0xa1b23c4d), else microseconds.
    pub nanoseconds: bool,
    /// Version major and minor: 2.4 in every file of this century.
    pub version: (u16, u16),
    /// The two obsolete words (zone offset, accuracy).
    pub reserved: (u32, u32),
    /// Longest record that the writer declared, in bytes.
    pub snap_len: u32,
    /// Link type in the low 16 bits; bits 26 to 31 describe a frame check sequence.
    pub link_field: u32,
}

impl PcapHeader {
    /// A little-endian nanosecond header for a link type.
    pub fn new(link: u16) -> PcapHeader {
        PcapHeader {
            big_endian: false,
            nanoseconds: true,
            version: (2, 4),
            reserved: (0, 0),
            snap_len: MAX_RECORD_BYTES,
            link_field: u32::from(link),
        }
    }

    /// The link-type number.
    pub fn link(&self) -> u16 {
        (self.link_field & 0xffff) as u16
    }
}

/// Why a capture could not be read further. Everything before `offset` was delivered.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first bytes are of no known capture format.
    #[error("{}", not_a_capture(.magic))]
    NotACapture {
        /// The first four bytes of the file, or fewer.
        magic: Vec<u8>,
    },
    /// A pcap file of a version or variant that has another record layout.
    #[error("{0}")]
    Variant(&'static str),
    /// The file ends inside a record or block.
    #[error(
        "the file ends early: the record at offset {offset} needs {need} bytes and {have} are left ({records} records \
         were read before it)"
    )]
    Truncated {
        /// Offset of the record.
        offset: u64,
        /// Bytes that the record needs.
        need: u64,
        /// Number of bytes present.
        have: u64,
        /// Records delivered before.
        records: u64,
    },
    /// A record is longer than [`MAX_RECORD_BYTES`].
    #[error(
        "the record at offset {offset} states {bytes} bytes, more than {MAX_RECORD_BYTES}: the file is damaged \
         ({records} records were read before it)"
    )]
    TooLong {
        /// Offset of the record.
        offset: u64,
        /// The length it states, in bytes.
        bytes: u64,
        /// Records delivered before.
        records: u64,
    },
    /// A pcapng block contradicts itself.
    #[error(
        "the pcapng block at offset {offset} is damaged: {what} ({records} records were read before it)"
    )]
    BadBlock {
        /// Offset of the block.
        offset: u64,
        /// The error.
        what: &'static str,
        /// Records delivered before.
        records: u64,
    },
}

/// The format of a compressed file, and the tool that unpacks it.
fn packed_by(magic: &[u8]) -> Option<(&'static str, &'static str)> {
    match magic {
        [0x1f, 0x8b, ..] => Some(("gzip", "gunzip")),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(("zstd", "unzstd")),
        [0xfd, b'7', b'z', b'X'] => Some(("xz", "unxz")),
        [b'B', b'Z', b'h', ..] => Some(("bzip2", "bunzip2")),
        [0x04, 0x22, 0x4d, 0x18] => Some(("lz4", "unlz4")),
        _ => None,
    }
}

fn not_a_capture(magic: &[u8]) -> String {
    if let Some((format, tool)) = packed_by(magic) {
        return format!("the file is compressed with {format}: unpack it with {tool} first");
    }
    if magic.is_empty() {
        return "the file is empty: a capture has at least a file header of 24 bytes".to_owned();
    }
    // Nothing of the contents: a client of a switch may name a file that it cannot read itself.
    "not a pcap or pcapng file: `editcap -F pcapng` converts the other formats that Wireshark reads"
        .to_owned()
}
