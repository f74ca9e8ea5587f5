//! Endace ERF records (link type 197): a header of 16 bytes and more that says what follows.
//!
//! Layout (Endace ERF types reference, and Wireshark's `erf.c`): timestamp 8 (little-endian), type 1,
//! flags 1, record length 2, loss counter 2, wire length 2 (big-endian), then extension headers of 8
//! bytes while bit 7 of the type before is set. Ethernet records have two bytes of pad in front.

use super::{LINK_ETHERNET, LINK_INFINIBAND};

/// A frame out of an ERF record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErfFrame<'a> {
    /// What it is: [`LINK_ETHERNET`] or [`LINK_INFINIBAND`].
    pub link: u16,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire, bytes.
    pub wire_len: u32,
}

const FIXED_BYTES: usize = 16;
const TYPE_ETHERNET: [u8; 3] = [2, 11, 16];
const TYPE_INFINIBAND: u8 = 21;

/// The frame in an ERF record.
///
/// # Errors
/// The record is cut, or of a type that is not decoded, with its name.
pub fn frame(record: &[u8]) -> Result<ErfFrame<'_>, String> {
    let cut = || format!("an ERF record of {} bytes ends inside its own header", record.len());
    let head = record.get(..FIXED_BYTES).ok_or_else(cut)?;
    let half = |at: usize| {
        u16::from_be_bytes([
            head.get(at).copied().unwrap_or(0),
            head.get(at + 1).copied().unwrap_or(0),
        ])
    };
    let (first, record_len, wire_len) = (head.get(8).copied().unwrap_or(0), half(10), half(14));
    let mut at = FIXED_BYTES;
    let mut more = first & 0x80 != 0;
    while more {
        more = record.get(at).ok_or_else(cut)? & 0x80 != 0;
        at += 8;
    }
    let link = match first & 0x7f {
        kind if TYPE_ETHERNET.contains(&kind) => {
            at += 2;
            LINK_ETHERNET
        }
        TYPE_INFINIBAND => LINK_INFINIBAND,
        kind => {
            let name = type_name(kind);
            return Err(format!(
                "ERF records of type {kind} ({name}) are not decoded: known are Ethernet (2, 11, 16) \
                 and InfiniBand (21)"
            ));
        }
    };
    let end = record.len().min(usize::from(record_len)).min(at + usize::from(wire_len));
    let bytes = record.get(at..end).ok_or_else(cut)?;
    Ok(ErfFrame { link, bytes, wire_len: u32::from(wire_len) })
}

fn type_name(kind: u8) -> &'static str {
    match kind {
        0 => "legacy",
        1 => "PoS with HDLC",
        3 => "ATM cell",
        4 => "AAL5",
        5 | 6 | 7 | 8 | 9 | 12 => "multi-channel",
        10 | 15 | 17 => "PoS with HDLC, coloured or DSM",
        18 => "AAL2",
        19 => "padding",
        20 => "multi-channel AAL2",
        22 => "IPv4",
        23 => "IPv6",
        24 => "raw link",
        25 => "InfiniBand link packet",
        27 => "meta",
        28 => "Omni-Path SNC",
        29 => "Omni-Path 9B",
        48 => "pad",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, extensions: &[[u8; 8]], wire_len: u16, data: &[u8]) -> Vec<u8> {
        let len = 16 + extensions.len() * 8 + data.len();
        let mut bytes = vec![0; 8];
        bytes.extend([kind, 0]);
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(wire_len.to_be_bytes());
        bytes.extend(extensions.iter().flatten());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn ethernet_has_two_bytes_of_pad() {
        let bytes = record(2, &[], 3, &[0, 0, 1, 2, 3, 0, 0, 0]);
        let frame = frame(&bytes).unwrap();
        assert_eq!((frame.link, frame.bytes, frame.wire_len), (LINK_ETHERNET, &[1, 2, 3][..], 3));
    }

    #[test]
    fn extension_headers_are_passed_over() {
        let extensions = [[0x80, 0, 0, 0, 0, 0, 0, 0], [0; 8]];
        let bytes = record(0x80 | 21, &extensions, 4, &[9, 8, 7, 6]);
        let frame = frame(&bytes).unwrap();
        assert_eq!((frame.link, frame.bytes), (LINK_INFINIBAND, &[9, 8, 7, 6][..]));
    }

    #[test]
    fn what_is_cut_or_unknown_is_told() {
        let bytes = record(0x80 | 21, &[[0x80; 8]], 4, &[]);
        assert!(frame(&bytes).is_err());
        assert!(frame(&bytes[..9]).is_err());
        assert!(frame(&record(25, &[], 4, &[0; 4])).unwrap_err().contains("link packet"));
        for cut in 0..20 {
            let _ = frame(&record(21, &[], 4, &[1, 2, 3, 4])[..cut]);
        }
    }
}
