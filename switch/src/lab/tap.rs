//! A capture of a link, as pcapng in memory: the caller decides where it is written.

use std::sync::{Arc, Mutex, PoisonError};

use wireyard_tables::time::Time;

use crate::pcap::{
    Interface, LINK_ETHERNET, LINK_INFINIBAND, PcapWriter, RecordToWrite, Timestamp,
};
use crate::ports::LinkType;

#[derive(Debug)]
struct Recording {
    writer: PcapWriter<Vec<u8>>,
    left: u64,
}

/// A capture of both directions of a link; each direction holds one.
#[derive(Clone, Debug)]
pub struct Tap {
    recording: Arc<Mutex<Option<Recording>>>,
    /// Interface of the file: the direction.
    interface: u32,
}

impl Tap {
    /// A capture of at most so many frames of a link: one end for each direction, by name.
    ///
    /// # Errors
    /// The format cannot take it.
    pub fn pair(names: [String; 2], link: LinkType, frames: u64) -> Result<[Tap; 2], String> {
        let link = if link == LinkType::Infiniband { LINK_INFINIBAND } else { LINK_ETHERNET };
        let mut writer = PcapWriter::pcapng(Vec::new()).map_err(|error| error.to_string())?;
        for name in names {
            let interface = Interface { link, name };
            writer.add_interface(&interface).map_err(|error| error.to_string())?;
        }
        let recording = Arc::new(Mutex::new(Some(Recording { writer, left: frames })));
        let tap = |interface| Tap { recording: Arc::clone(&recording), interface };
        Ok([tap(0), tap(1)])
    }

    /// Keeps a frame, while there is room.
    pub fn record(&mut self, at: Time, data: &[u8]) {
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(recording) = recording.as_mut().filter(|recording| recording.left > 0) else {
            return;
        };
        recording.left -= 1;
        let ns = at.as_ns();
        let record = RecordToWrite {
            time: Timestamp { seconds: ns / 1_000_000_000, nanos: ns % 1_000_000_000 },
            data,
            wire_len: data.len() as u32,
            interface: self.interface,
            comment: None,
        };
        // Writing to memory does not fail; a frame over the format's limit is not kept.
        let _ = recording.writer.write(&record);
    }

    /// The file; empty when the other end has taken it.
    pub fn bytes(self) -> Vec<u8> {
        let taken = self.recording.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.and_then(|recording| recording.writer.into_inner().ok()).unwrap_or_default()
    }
}
