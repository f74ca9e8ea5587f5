//! The output file of a `pcap:` port. Each burst is written at once, so that a frame counts as sent only if its record
//! is in the file. After a failed write the file is truncated to its last whole record, so that every reader accepts it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::folder::create_output;
use crate::pcap::{
    Interface, PcapError, PcapHeader, PcapWriter, RecordToWrite, Timestamp, write_most,
};

/// A file that can be truncated.
pub(super) trait Target: Write {
    /// Truncates it to this many bytes, where it is on a disk: a pipe keeps the data it got.
    fn truncate(&mut self, bytes: u64);
}

impl Target for File {
    fn truncate(&mut self, bytes: u64) {
        let _ = self.set_len(bytes);
    }
}

/// The file.
pub(super) struct Output<F = File> {
    file: F,
    /// The records of a burst; at first behind the header of the file.
    writer: PcapWriter<Vec<u8>>,
    /// Bytes of that header, until it is written.
    header: usize,
    /// Where each of these records ends.
    ends: Vec<usize>,
    /// Bytes of the file so far.
    whole: u64,
}

impl Output {
    /// Creates the file: pcapng if its name ends so, else pcap with this header.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn create(
        path: &Path,
        header: PcapHeader,
        interface: &Interface,
    ) -> Result<Output, PcapError> {
        let file = create_output(path)?;
        let mut writer = match path.extension().is_some_and(|extension| extension == "pcapng") {
            true => {
                let mut writer = PcapWriter::pcapng(Vec::new())?;
                writer.add_interface(interface)?;
                writer
            }
            false => PcapWriter::pcap(Vec::new(), header)?,
        };
        let header = writer.sink().len();
        Ok(Output { file, writer, header, ends: Vec::new(), whole: 0 })
    }
}

impl<F: Target> Output<F> {
    /// Adds a frame to the burst.
    ///
    /// # Errors
    /// It is too long for a record.
    pub(super) fn add(
        &mut self,
        time: Timestamp,
        data: &[u8],
        wire_len: u32,
    ) -> Result<(), PcapError> {
        self.writer.write(&RecordToWrite { time, data, wire_len, interface: 0, comment: None })?;
        self.ends.push(self.writer.sink().len());
        Ok(())
    }

    /// Writes the burst. Returns how many of its frames are in the file, and the error if they are not all.
    pub(super) fn write(&mut self) -> (usize, Result<(), PcapError>) {
        let bytes = self.writer.sink();
        let (taken, result) = write_most(&mut self.file, bytes);
        let written = self.ends.partition_point(|end| *end <= taken);
        if result.is_err() {
            let before = if self.header <= taken { self.header } else { 0 };
            let kept = written.checked_sub(1).map_or(before, |last| self.ends[last]);
            self.file.truncate(self.whole + kept as u64);
        }
        self.whole += taken as u64;
        bytes.clear();
        self.ends.clear();
        self.header = 0;
        (written, result.map_err(PcapError::from))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A disk with room for `room` bytes more.
    struct Disk {
        room: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.bytes.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Target for Disk {
        fn truncate(&mut self, bytes: u64) {
            self.bytes.truncate(bytes as usize);
        }
    }

    #[test]
    fn a_full_disk_keeps_whole_records() {
        const HEADER: usize = 24;
        const RECORD: usize = 16 + 60;
        for room in 0..=HEADER + 5 * RECORD {
            let writer = PcapWriter::pcap(Vec::new(), PcapHeader::new(1)).unwrap();
            let file = Disk { room, bytes: Vec::new() };
            let mut output = Output { file, writer, header: HEADER, ends: Vec::new(), whole: 0 };
            let mut sent = 0;
            for burst in [2, 3] {
                for _ in 0..burst {
                    output.add(Timestamp::from_ns(7), &[1; 60], 60).unwrap();
                }
                let (written, result) = output.write();
                sent += written;
                if result.is_err() {
                    break;
                }
            }
            assert_eq!(sent, room.saturating_sub(HEADER) / RECORD, "{room}");
            let whole = if room < HEADER { 0 } else { HEADER + sent * RECORD };
            assert_eq!(output.file.bytes.len(), whole, "{room}");
        }
    }
}
