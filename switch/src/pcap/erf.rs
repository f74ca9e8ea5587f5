//! Endace ERF records (link type 197): a header of 16 bytes and more with the type of the frame after it.
//!
//! Layout (Endace ERF types reference, and Wireshark's `erf.c`): timestamp 8 (little-endian), type 1,
//! flags 1, record length 2, loss counter 2, wire length 2 (big-endian), then extension headers of 8
//! bytes while bit 7 of the type before is set. Ethernet records have two bytes of pad in front.

use std::sync::OnceLock;

use wireyard_pipeline::externs::crc::CrcEngine;
use wireyard_pipeline::ir::CrcParams;

use super::{LINK_ETHERNET, LINK_INFINIBAND};
use crate::link_type::LinkType;

/// A frame out of an ERF record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErfFrame<'a> {
    /// Its link type: [`LINK_ETHERNET`] or [`LINK_INFINIBAND`].
    pub link: u16,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire, bytes.
    pub wire_len: u32,
}

impl ErfFrame<'_> {
    /// Its link type in the form of ports.
    pub fn link_type(&self) -> LinkType {
        if self.link == LINK_INFINIBAND { LinkType::Infiniband } else { LinkType::Ethernet }
    }
}

const FIXED_BYTES: usize = 16;
/// Ethernet: plain, coloured, DSM coloured, coloured with a hash.
const TYPE_ETHERNET: [u8; 4] = [2, 11, 16, 20];
const TYPE_INFINIBAND: u8 = 21;
const FCS_BYTES: usize = 4;
/// CRC-32 of a frame followed by its own FCS.
const RESIDUE: u64 = 0x2144_df1c;

/// Why a record has no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoFrame {
    /// It ends inside its own header.
    #[error("an ERF record that ends inside its own header")]
    Cut,
    /// A type that is not decoded.
    #[error(
        "ERF records of type {kind} ({name}) are not decoded: known are Ethernet (2, 11, 16, 20) and InfiniBand (21)",
        kind = .0, name = type_name(*.0)
    )]
    Type(u8),
}

/// The frame in an ERF record. The FCS of an Ethernet frame is removed, if it is present and correct.
///
/// # Errors
/// The record is cut, or holds no frame that is decoded.
pub fn frame(record: &[u8]) -> Result<ErfFrame<'_>, NoFrame> {
    let head = record.get(..FIXED_BYTES).ok_or(NoFrame::Cut)?;
    let half = |at: usize| {
        u16::from_be_bytes([
            head.get(at).copied().unwrap_or(0),
            head.get(at + 1).copied().unwrap_or(0),
        ])
    };
    let (first, record_len, wire_len) = (head.get(8).copied().unwrap_or(0), half(10), half(14));
    let link = match first & 0x7f {
        kind if TYPE_ETHERNET.contains(&kind) => LINK_ETHERNET,
        TYPE_INFINIBAND => LINK_INFINIBAND,
        kind => return Err(NoFrame::Type(kind)),
    };
    let mut at = FIXED_BYTES;
    let mut more = first & 0x80 != 0;
    while more {
        more = record.get(at).ok_or(NoFrame::Cut)? & 0x80 != 0;
        at += 8;
    }
    if link == LINK_ETHERNET {
        at += 2;
    }
    let end = record.len().min(usize::from(record_len)).min(at + usize::from(wire_len));
    let bytes = record.get(at..end).ok_or(NoFrame::Cut)?;
    let whole = bytes.len() == usize::from(wire_len);
    if link == LINK_ETHERNET && whole && has_fcs(bytes) {
        let bytes = &bytes[..bytes.len() - FCS_BYTES];
        return Ok(ErfFrame { link, bytes, wire_len: bytes.len() as u32 });
    }
    Ok(ErfFrame { link, bytes, wire_len: u32::from(wire_len) })
}

/// Whether the last bytes are the FCS of those before.
fn has_fcs(bytes: &[u8]) -> bool {
    static CRC: OnceLock<CrcEngine> = OnceLock::new();
    let crc = CRC.get_or_init(|| {
        CrcEngine::new(CrcParams {
            width: 32,
            poly: 0x04c1_1db7,
            init: 0xffff_ffff,
            reflect: true,
            xor_out: 0xffff_ffff,
            store_little_endian: false,
        })
    });
    bytes.len() > FCS_BYTES && crc.field_value(&[bytes]) == RESIDUE
}

/// The name in Endace's list, which Wireshark uses too.
fn type_name(kind: u8) -> &'static str {
    const NAMES: [&str; 30] = [
        "LEGACY",
        "HDLC_POS",
        "ETH",
        "ATM",
        "AAL5",
        "MC_HDLC",
        "MC_RAW",
        "MC_ATM",
        "MC_RAW_CHANNEL",
        "MC_AAL5",
        "COLOR_HDLC_POS",
        "COLOR_ETH",
        "MC_AAL2",
        "IP_COUNTER",
        "TCP_FLOW_COUNTER",
        "DSM_COLOR_HDLC_POS",
        "DSM_COLOR_ETH",
        "COLOR_MC_HDLC_POS",
        "AAL2",
        "COLOR_HASH_POS",
        "COLOR_HASH_ETH",
        "INFINIBAND",
        "IPV4",
        "IPV6",
        "RAW_LINK",
        "INFINIBAND_LINK",
        "unknown",
        "META",
        "OPA_SNC",
        "OPA_9B",
    ];
    match kind {
        48 => "PAD",
        _ => NAMES.get(usize::from(kind)).copied().unwrap_or("unknown"),
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
    fn a_right_fcs_is_no_part_of_the_frame() {
        // CRC-32 of "123456789" is 0xcbf43926, stored low byte first.
        let mut data = [&[0, 0][..], b"123456789\x26\x39\xf4\xcb"].concat();
        let with = record(20, &[], 13, &data);
        assert_eq!(
            (frame(&with).unwrap().bytes, frame(&with).unwrap().wire_len),
            (&data[2..11], 9)
        );
        data[3] ^= 1;
        assert_eq!(frame(&record(20, &[], 13, &data)).unwrap().bytes, &data[2..]);
        // Cut: the last bytes are not the FCS.
        assert_eq!(frame(&record(20, &[], 99, &data)).unwrap().wire_len, 99);
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
        for (kind, name) in [(19, "COLOR_HASH_POS"), (25, "INFINIBAND_LINK"), (27, "META")] {
            let why = frame(&record(kind, &[], 4, &[0; 4])).unwrap_err();
            assert_eq!(why, NoFrame::Type(kind));
            assert!(why.to_string().contains(&format!("type {kind} ({name})")), "{why}");
        }
        for cut in 0..20 {
            let _ = frame(&record(21, &[], 4, &[1, 2, 3, 4])[..cut]);
        }
    }
}
