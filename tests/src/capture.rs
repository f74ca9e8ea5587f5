//! Records of classic pcap files, read by a few lines that share nothing with the product's reader.

use std::path::{Path, PathBuf};

/// What a pcap file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Link-type number.
    pub link: u16,
    /// Captured bytes and length on the wire, record by record.
    pub records: Vec<(Vec<u8>, u32)>,
    /// The file ends inside a record, or a record's length cannot be.
    pub damaged: bool,
}

/// The longest record that capture files may hold (libpcap's MAXIMUM_SNAPLEN).
const LONGEST: usize = 262_144;

/// Reads a pcap file; `None`: not classic pcap of version 2.
pub fn read(path: &Path) -> Option<Capture> {
    let bytes = std::fs::read(path).expect("the file can be read");
    let big = match bytes.get(..4)? {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => true,
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => false,
        _ => return None,
    };
    let word = |at: usize| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    };
    let mut capture = Capture { link: word(20)? as u16, ..Capture::default() };
    let mut at = 24;
    while at < bytes.len() {
        let (Some(len), Some(wire_len)) = (word(at + 8), word(at + 12)) else {
            capture.damaged = true;
            break;
        };
        let data = bytes.get(at + 16..at + 16 + len as usize);
        let Some(data) = data.filter(|data| data.len() <= LONGEST) else {
            capture.damaged = true;
            break;
        };
        capture.records.push((data.to_vec(), wire_len));
        at += 16 + len as usize;
    }
    Some(capture)
}

/// Every file below a folder with one of these extensions, in the order of their names.
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
