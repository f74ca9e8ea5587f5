//! A capture of a link, as pcapng in memory: the caller decides about its file.
//!
//! Turns of nodes overlap in time, so frames of the two directions are not recorded in order: they are sorted when the
//! file is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use wireyard_tables::time::Time;

use crate::pcap::{
    Interface, LINK_ETHERNET, LINK_INFINIBAND, PcapError, PcapWriter, RecordToWrite, Timestamp,
};
use crate::ports::LinkType;
use crate::sync;

#[derive(Debug)]
struct Recording {
    writer: PcapWriter<Vec<u8>>,
    /// By the instant of the first bit, direction, and the number of earlier frames.
    frames: BTreeMap<(Time, u32, u64), Vec<u8>>,
    /// Most frames that are kept: the first ones.
    most: u64,
    seen: u64,
}

/// A capture of both directions of a link; each direction holds one.
#[derive(Clone, Debug)]
pub struct Tap {
    recording: Arc<Mutex<Option<Recording>>>,
    /// Interface of the file: the direction.
    interface: u32,
}

impl Tap {
    /// A capture of at most `frames` frames of a link: one end for each direction, by name.
    ///
    /// # Errors
    /// The format cannot take it.
    pub fn pair(names: [String; 2], link: LinkType, frames: u64) -> Result<[Tap; 2], PcapError> {
        let link = if link == LinkType::Infiniband { LINK_INFINIBAND } else { LINK_ETHERNET };
        let mut writer = PcapWriter::pcapng(Vec::new())?;
        for name in names {
            let interface = Interface { link, name };
            writer.add_interface(&interface)?;
        }
        let recording = Recording { writer, frames: BTreeMap::new(), most: frames, seen: 0 };
        let recording = Arc::new(Mutex::new(Some(recording)));
        let tap = |interface| Tap { recording: Arc::clone(&recording), interface };
        Ok([tap(0), tap(1)])
    }

    /// Keeps a frame, while there is room, or instead of a later one.
    pub fn record(&mut self, at: Time, data: &[u8]) {
        let mut recording = sync::lock(&self.recording);
        let Some(Recording { frames, most, seen, .. }) = recording.as_mut() else { return };
        *seen += 1;
        let key = (at, self.interface, *seen);
        if frames.len() as u64 >= *most {
            if frames.last_key_value().is_none_or(|(last, _)| *last < key) {
                return;
            }
            frames.pop_last();
        }
        frames.insert(key, data.to_vec());
    }

    /// The file; empty when the other end has taken it.
    pub fn bytes(self) -> Vec<u8> {
        let taken = sync::lock(&self.recording).take();
        let Some(Recording { mut writer, frames, .. }) = taken else { return Vec::new() };
        for ((at, interface, _), data) in &frames {
            let ns = at.as_ns();
            let record = RecordToWrite {
                time: Timestamp { seconds: ns / 1_000_000_000, nanos: ns % 1_000_000_000 },
                data,
                wire_len: data.len() as u32,
                interface: *interface,
                comment: None,
            };
            // Writing to memory does not fail; a frame over the format's limit is left out.
            let _ = writer.write(&record);
        }
        writer.into_inner().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first frames by time, in the order of time, in whatever order they are recorded.
    #[test]
    fn a_capture_is_in_the_order_of_time() {
        let names = ["a-b".to_owned(), "b-a".to_owned()];
        let [mut there, mut back] = Tap::pair(names, LinkType::Ethernet, 3).unwrap();
        for n in [10, 30, 50] {
            there.record(Time::from_ns(n), &[n as u8; 60]);
        }
        for n in [20, 60] {
            back.record(Time::from_ns(n), &[n as u8; 60]);
        }
        let file = there.bytes();
        let place = |n: u8| file.windows(60).position(|bytes| bytes == [n; 60]);
        let places = [10, 20, 30].map(|n| place(n).expect("one of the first three"));
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!((place(50), place(60), back.bytes()), (None, None, Vec::new()));
    }
}
