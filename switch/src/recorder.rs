//! A capture file that is written beside forwarding: pcapng, by a thread of its own.
//!
//! Records are made in buffers of a fixed number and size. A full buffer moves to the writing thread and returns empty;
//! while all of them are there, records are lost and counted. Forwarding never waits for a disk, and the memory is
//! bounded. After a failed write the file is truncated to its last whole block, so that every reader accepts it. The
//! selection of records is elsewhere.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wireyard_tables::time::Time;

use crate::folder::{FileError, create_output};
use crate::pcap::{ENHANCED_PACKET, Interface, PcapWriter, RecordToWrite, Timestamp, write_most};
use crate::ports::PortNumber;

/// Bytes of a buffer.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers of a file: 8 MiB, a hundredth of a second at 6 Gbit/s.
const BUFFERS: usize = 32;
/// How long the end of a run waits for a blocked file.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// Bytes of a record beyond data and comment, at most: block, options, padding.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// Decides whether a record is kept: its interface, the captured bytes, the bytes on the wire. The writing thread calls
/// it.
pub type Keep = Box<dyn FnMut(u32, &[u8], u32) -> bool + Send>;

/// A full buffer for the file.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    records: u64,
}

/// The report of the writing thread.
#[derive(Debug, Default)]
struct Outcome {
    /// Why nothing more can be written.
    failed: OnceLock<String>,
    /// Records that were discarded for that reason.
    lost: AtomicU64,
    /// Records in the file.
    written: AtomicU64,
    /// Records that the filter left out.
    left_out: AtomicU64,
}

impl Outcome {
    /// Its present value.
    fn now(&self) -> Outcome {
        let copy = |count: &AtomicU64| AtomicU64::new(count.load(Ordering::Relaxed));
        Outcome {
            failed: self.failed.clone(),
            lost: copy(&self.lost),
            written: copy(&self.written),
            left_out: copy(&self.left_out),
        }
    }
}

/// Progress of a capture file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecorderReport {
    /// The file.
    pub file: String,
    /// The ports that it is of.
    pub ports: Vec<PortNumber>,
    /// `recording`, `waiting` while none of its ports exists, `stopped`, or `failed` if nothing more can be written.
    pub state: &'static str,
    /// Records in the file, or in buffers for it.
    pub records: u64,
    /// Records without a free buffer, or that could not be written.
    pub lost: u64,
    /// Records that did not match the filter of the capture.
    pub left_out: u64,
    /// Why nothing more can be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A capture file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// Ports that are, or were, recorded.
    ports: Vec<PortNumber>,
    writer: PcapWriter<Vec<u8>>,
    /// Records in the writer's buffer.
    pending: u64,
    /// Nanoseconds since 1970 at [`Time::ZERO`].
    origin_ns: u64,
    records: u64,
    lost: u64,
    is_filtered: bool,
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Vec<u8>>,
    outcome: Arc<Outcome>,
}

impl Recorder {
    /// Creates the file, and a thread that writes it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Recorder, FileError> {
        let file =
            create_output(path).map_err(|source| FileError { path: path.to_owned(), source })?;
        Recorder::into_file(path, file, None)
    }

    /// Begins to write all records, or the selected ones, to an open file, and starts a thread for it.
    ///
    /// # Errors
    /// No thread is left.
    pub fn into_file(path: &Path, file: File, keep: Option<Keep>) -> Result<Recorder, FileError> {
        let refused = |source| FileError { path: path.to_owned(), source };
        // Both channels have room for every buffer, so that no sender ever waits.
        let (full, arriving) = sync_channel(BUFFERS);
        let (returned, empty) = sync_channel(BUFFERS);
        for _ in 1..BUFFERS {
            let _ = returned.try_send(Vec::with_capacity(BUFFER_BYTES));
        }
        let outcome = Arc::<Outcome>::default();
        let (written, is_filtered) = (Arc::clone(&outcome), keep.is_some());
        thread::Builder::new()
            .name("capture".into())
            .spawn(move || write_all(file, keep, (&arriving, &returned), &written))
            .map_err(refused)?;
        let first = Vec::with_capacity(BUFFER_BYTES);
        Ok(Recorder {
            path: path.to_owned(),
            ports: Vec::new(),
            writer: PcapWriter::pcapng(first).map_err(|error| refused(io::Error::other(error)))?,
            pending: 0,
            origin_ns: 0,
            records: 0,
            lost: 0,
            is_filtered,
            full: Some(full),
            empty,
            outcome,
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The wall-clock time of [`Time::ZERO`], in nanoseconds since 1970.
    pub fn set_origin_ns(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    /// Describes an interface; records refer to it by the returned number.
    pub fn add_interface(&mut self, link: u16, name: String) -> u32 {
        // Names are short, and writing to memory does not fail.
        self.writer.add_interface(&Interface { link, name }).unwrap_or(0)
    }

    /// Adds a port whose interfaces are among its own.
    pub fn add_port(&mut self, number: PortNumber) {
        self.ports.push(number);
    }

    /// Whether it is of any port.
    pub fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Ends the recording of a port; the file continues.
    pub fn remove_port(&mut self, number: PortNumber) {
        self.ports.retain(|port| *port != number);
    }

    /// Makes a record, or counts it as lost. `wire_bytes` is its length on the wire.
    pub fn record(
        &mut self,
        at: Time,
        interface: u32,
        data: &[u8],
        wire_bytes: u32,
        comment: Option<&str>,
    ) {
        let need = RECORD_OVERHEAD_BYTES + data.len() + comment.map_or(0, str::len);
        let is_full = self.writer.sink().len() + need > BUFFER_BYTES;
        let is_over = self.full.is_none() || self.outcome.failed.get().is_some();
        if is_over || is_full && !self.hand_over() {
            self.lost += 1;
            return;
        }
        let time = Timestamp::from_ns(self.origin_ns.saturating_add(at.as_ns()));
        let record = RecordToWrite { time, data, wire_len: wire_bytes, interface, comment };
        match self.writer.write(&record) {
            Ok(()) => (self.pending, self.records) = (self.pending + 1, self.records + 1),
            Err(_) => self.lost += 1,
        }
    }

    /// Passes on the records so far; without an empty buffer they wait.
    pub fn flush(&mut self) {
        if !self.writer.sink().is_empty() {
            self.hand_over();
        }
    }

    /// False when there is no empty buffer to continue with.
    fn hand_over(&mut self) -> bool {
        let Ok(empty) = self.empty.try_recv() else { return false };
        self.send(empty);
        true
    }

    fn send(&mut self, empty: Vec<u8>) {
        let bytes = std::mem::replace(self.writer.sink(), empty);
        let records = std::mem::take(&mut self.pending);
        if let Some(full) = &self.full {
            // There is room for every buffer, and the thread runs until this end is dropped.
            let _ = full.try_send(Batch { bytes, records });
        }
    }

    /// Its progress.
    pub fn report(&self) -> RecorderReport {
        let lost = self.outcome.lost.load(Ordering::Relaxed);
        let left_out = self.outcome.left_out.load(Ordering::Relaxed);
        RecorderReport {
            file: self.path.display().to_string(),
            ports: self.ports.clone(),
            state: match (self.outcome.failed.get(), self.has_ended()) {
                (Some(_), _) => "failed",
                (None, true) => "stopped",
                (None, false) if !self.has_ports() => "waiting",
                (None, false) => "recording",
            },
            // Records that a filter may still leave out do not count.
            records: match self.is_filtered {
                true => self.outcome.written.load(Ordering::Relaxed),
                false => self.records - lost,
            },
            lost: self.lost + lost,
            left_out,
            error: self.outcome.failed.get().cloned(),
        }
    }

    /// Nothing is written any more.
    pub fn has_ended(&self) -> bool {
        self.full.is_none()
    }

    /// Leaves the rest to the writing thread without waiting for it. Its buffers are freed as they return.
    pub fn end(&mut self) {
        if self.full.is_some() {
            self.send(Vec::new());
            self.full = None;
            (_, self.empty) = sync_channel(0);
        }
    }

    /// Writes the rest and waits until it is in the file, unless it is blocked for two seconds. Later records are lost.
    pub fn finish(&mut self) {
        if self.full.is_none() {
            return;
        }
        self.send(Vec::new());
        self.full = None;
        // Buffers return while the file accepts them; then the other end of the channel is dropped.
        loop {
            match self.empty.recv_timeout(STUCK_AFTER) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        let stuck = || "it takes nothing more: the end is missing".to_owned();
        self.outcome.failed.get_or_init(stuck);
        // The thread may continue and count; its further writes are not known to be in the file.
        self.outcome = Arc::new(self.outcome.now());
        let known = self.outcome.written.load(Ordering::Relaxed);
        let (lost, left_out) = (&self.outcome.lost, &self.outcome.left_out);
        let gone = lost.load(Ordering::Relaxed) + left_out.load(Ordering::Relaxed);
        let under_way = self.records - known - gone;
        (self.records, self.lost) = (self.records - under_way, self.lost + under_way);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

fn write_all(
    mut file: File,
    mut keep: Option<Keep>,
    (full, returned): (&Receiver<Batch>, &SyncSender<Vec<u8>>),
    outcome: &Outcome,
) {
    let mut whole = 0;
    for Batch { mut bytes, mut records } in full {
        if let Some(keep) = &mut keep {
            let left_out = leave_out(&mut bytes, keep);
            records -= left_out;
            outcome.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
        let mut written = 0;
        if outcome.failed.get().is_none() {
            let (taken, result) = write_most(&mut file, &bytes);
            written = records;
            whole += taken as u64;
            if let Err(error) = result {
                outcome.failed.get_or_init(|| error.to_string());
                let (kept, whole_records) = whole_blocks(&bytes[..taken]);
                written = whole_records;
                // A file that is not on a disk, such as a pipe, keeps the data it got.
                let _ = file.set_len(whole - (taken - kept) as u64);
            }
        }
        outcome.written.fetch_add(written, Ordering::Relaxed);
        outcome.lost.fetch_add(records - written, Ordering::Relaxed);
        bytes.clear();
        let _ = returned.try_send(bytes);
    }
}

/// A word of a block.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)
}

/// Removes the records that are filtered out from these whole blocks; returns their number.
fn leave_out(bytes: &mut Vec<u8>, keep: &mut Keep) -> u64 {
    // Of an Enhanced Packet Block (pcapng, section 4.3): type, length, interface, two words of time, captured and
    // original length, data.
    const DATA: usize = 28;
    let (mut at, mut kept, mut left_out) = (0, 0, 0);
    while let (Some(kind), Some(len)) = (word(bytes, at), word(bytes, at + 4)) {
        let end = at.saturating_add(len as usize).min(bytes.len());
        if end <= at {
            break;
        }
        let (interface, captured) = (word(bytes, at + 8), word(bytes, at + 20).unwrap_or(0));
        let wire_len = word(bytes, at + 24).unwrap_or(0);
        let data = bytes.get(at + DATA..at + DATA + captured as usize);
        let goes = match (kind == ENHANCED_PACKET, interface, data) {
            (true, Some(interface), Some(data)) => !keep(interface, data, wire_len),
            _ => false,
        };
        if goes {
            left_out += 1;
        } else {
            bytes.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    bytes.truncate(kept);
    left_out
}

/// Bytes of the whole pcapng blocks at the beginning, and the records among them.
fn whole_blocks(bytes: &[u8]) -> (usize, u64) {
    let word = |at: usize| word(bytes, at);
    let (mut at, mut records) = (0, 0);
    while let (Some(kind), Some(len)) = (word(at), word(at + 4)) {
        let end = at.saturating_add(len as usize);
        if len < 12 || end > bytes.len() {
            break;
        }
        records += u64::from(kind == ENHANCED_PACKET);
        at = end;
    }
    (at, records)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    use super::*;

    /// A disk with room for this many bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A switch keeps only the report of captures that were stopped.
    #[test]
    fn a_capture_that_was_ended_holds_no_buffers() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(&folder.path().join("one.pcapng")).unwrap();
        recorder.record(Time::ZERO, 0, &[7; 60], 60, None);
        recorder.end();
        assert!(recorder.empty.try_recv().is_err(), "a buffer is kept");
        assert_eq!(recorder.report().records, 1);
    }

    #[test]
    fn a_full_disk_keeps_whole_blocks() {
        let mut writer = PcapWriter::pcapng(Vec::new()).unwrap();
        writer.add_interface(&Interface { link: 1, name: "one".into() }).unwrap();
        let mut ends = vec![writer.sink().len()];
        for n in 0..5 {
            let (time, data) = (Timestamp::from_ns(n), vec![7; 60 + n as usize]);
            let record =
                RecordToWrite { time, data: &data, wire_len: 60, interface: 0, comment: None };
            writer.write(&record).unwrap();
            ends.push(writer.sink().len());
        }
        let bytes = writer.into_inner().unwrap();
        // Of five records those with an odd length are left out; the rest is unchanged.
        let mut odd = bytes.clone();
        let mut keep: Keep = Box::new(|interface, data, wire_len| {
            assert_eq!((interface, wire_len), (0, 60));
            data.len().is_multiple_of(2)
        });
        assert_eq!(leave_out(&mut odd, &mut keep), 2);
        let part = |n: usize| &bytes[ends[n]..ends[n + 1]];
        assert_eq!(odd, [&bytes[..ends[0]], part(0), part(2), part(4)].concat());
        for room in 0..=bytes.len() {
            let (taken, result) = write_most(&mut Disk(room), &bytes);
            assert_eq!((taken, result.is_ok()), (room, room == bytes.len()));
            let (kept, records) = whole_blocks(&bytes[..taken]);
            let expected = ends.iter().filter(|end| **end <= room).count().saturating_sub(1);
            assert_eq!(records, expected as u64, "{room}");
            assert!(room < ends[0] || kept == ends[expected], "{room}: {kept}");
        }
    }
}
