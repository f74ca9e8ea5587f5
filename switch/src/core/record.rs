//! Capture files of a device: frames received, sent, and dropped with the reason.
//!
//! A recorded port has three interfaces in its file: in, out and dropped. A dropped packet is recorded with its ingress
//! port, and also in the file of its egress port if that is another file. [`recorder`](crate::recorder) does the
//! writing; a port without a recording costs a test of an `Option` for each burst.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File as OsFile;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Time;

use super::error::DeviceError;
use super::message::{Message, Topic};
use super::ports::Ports;
use super::slot::Slot;
use crate::folder::{FileError, keep_old};
use crate::pcap::seen::{self, Way};
use crate::pcap::{PcapError, PcapReader};
use crate::ports::capture::number_of;
use crate::ports::files::CaptureFile;
use crate::ports::{PortError, PortNumber, PortSpec, RxFrame, TxFrame};
use crate::recorder::{Recorder, RecorderReport};

/// Interfaces of a port in its file, counted from the port's first one.
const IN: u32 = 0;
const OUT: u32 = 1;
const DROPPED: u32 = 2;

/// Number of ended files that are still reported.
const ENDED_MAX: usize = 64;

/// Where a port is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    /// Its first interface in the file.
    first: u32,
}

/// The capture files of a device.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// By order of their beginning: files being written, and the last of those that have ended.
    files: BTreeMap<usize, File>,
    /// Number of files begun so far.
    begun: usize,
    /// Nanoseconds since 1970 at [`Time::ZERO`].
    origin_ns: u64,
    comment: String,
    /// Frames given to a port, kept until their outcome is known.
    given: Vec<(Buf, Given)>,
}

/// A capture file.
#[derive(Debug)]
struct File {
    recorder: Recorder,
    /// Specifications of ports name the file, so it stays open for the next port that names it.
    waits: bool,
    /// A message has reported that nothing more can be written.
    is_reported: bool,
}

/// Data for the record of a frame that the port frees.
#[derive(Clone, Copy, Debug)]
struct Given {
    data_off: u16,
    len: u32,
    wire_len: u32,
    start: Time,
}

impl Recording {
    /// Records a port into `file` from now on; ports may share a file. Returns what became of an older capture in it.
    ///
    /// # Errors
    /// The file cannot be created.
    fn add(&mut self, port: &mut Slot, file: &Path) -> Result<Option<Kept>, FileError> {
        let (index, said) = match self.find(file) {
            Some(index) => (index, None),
            None => {
                let said = kept(file);
                (self.begin(Recorder::create(file)?, true), said)
            }
        };
        self.describe(port, index);
        Ok(said)
    }

    /// The index of the file at this path, if it is being written.
    pub(super) fn find(&self, file: &Path) -> Option<usize> {
        let is_it = |one: &File| !one.recorder.has_ended() && one.recorder.path() == file;
        self.files.iter().find(|(_, one)| is_it(one)).map(|(index, _)| *index)
    }

    /// The files that are being written.
    pub(crate) fn open_files(&self) -> Vec<CaptureFile> {
        let open = self.files.values().filter(|file| !file.recorder.has_ended());
        let file = |file: &File| CaptureFile {
            path: file.recorder.path().to_owned(),
            takes_ports: file.waits,
        };
        open.map(file).collect()
    }

    /// The path of the file of a place.
    pub(super) fn path(&self, place: Place) -> PathBuf {
        self.files.get(&place.file).map_or(PathBuf::new(), |file| file.recorder.path().to_owned())
    }

    /// Adds a file and returns its index. It replaces an ended one of the same path, and the oldest ended one where
    /// there are many. `waits`: it stays open when its last port is removed, because the specification of a new port
    /// may name it.
    pub(super) fn begin(&mut self, mut recorder: Recorder, waits: bool) -> usize {
        recorder.set_origin_ns(self.origin_ns);
        self.drop_ended(recorder.path());
        let has_ended = |file: &File| file.recorder.has_ended();
        let ended: Vec<usize> = self
            .files
            .iter()
            .filter(|(_, file)| has_ended(file))
            .map(|(index, _)| *index)
            .collect();
        for index in ended.iter().rev().skip(ENDED_MAX - 1) {
            self.files.remove(index);
        }
        self.files.insert(self.begun, File { recorder, waits, is_reported: false });
        self.begun += 1;
        self.begun - 1
    }

    /// Drops ended files of this path: they are reported no more.
    pub(crate) fn drop_ended(&mut self, path: &Path) {
        self.files.retain(|_, file| !file.recorder.has_ended() || file.recorder.path() != path);
    }

    /// Ends a file; another thread writes the rest of it.
    pub(super) fn end(&mut self, place: Place) {
        if let Some(file) = self.files.get_mut(&place.file) {
            file.recorder.end();
        }
    }

    /// True if a file stays open without ports.
    pub(super) fn waits(&self, place: Place) -> bool {
        self.files.get(&place.file).is_some_and(|file| file.waits)
    }

    /// Ends the files that are open without a port; returns their number.
    fn end_waiting(&mut self) -> usize {
        let is_waiting =
            |file: &&mut File| !file.recorder.has_ports() && !file.recorder.has_ended();
        let waiting = self.files.values_mut().filter(is_waiting);
        waiting.map(|file| file.recorder.end()).count()
    }

    /// Removes a port from this file, which stays open.
    pub(super) fn leave(&mut self, place: Place, number: PortNumber) {
        if let Some(file) = self.files.get_mut(&place.file) {
            file.recorder.remove_port(number);
        }
    }

    /// Records a port into the file with this index.
    pub(super) fn describe(&mut self, port: &mut Slot, index: usize) {
        let (number, name, link) = (port.number, port.port.name(), port.port.caps().link);
        let Some(File { recorder, .. }) = self.files.get_mut(&index) else { return };
        let mut add = |way| {
            let text = seen::interface(number.0, name, way);
            recorder.add_interface(number_of(link), text)
        };
        let first = add(Way::In);
        add(Way::Out);
        add(Way::Dropped);
        recorder.add_port(number);
        port.recorded = Some(Place { file: index, first });
    }

    /// Sets the time of day of [`Time::ZERO`], in nanoseconds since 1970, for the timestamps in the files.
    pub(crate) fn set_origin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
        self.files.values_mut().for_each(|file| file.recorder.set_origin_ns(origin_ns));
    }

    /// The state of the files.
    pub(super) fn reports(&self) -> Vec<RecorderReport> {
        self.files.values().map(|file| file.recorder.report()).collect()
    }

    /// Passes buffered records to the writing thread, before the worker sleeps.
    pub(super) fn flush(&mut self) {
        self.files.values_mut().for_each(|file| file.recorder.flush());
    }

    /// Writes the rest; what is recorded later is lost. Returns the files that could not be written to their end.
    pub(super) fn finish(&mut self) -> Vec<PortError> {
        self.files.values_mut().for_each(|file| file.recorder.finish());
        let failed =
            self.reports().into_iter().filter_map(|report| Some((report.file, report.error?)));
        let error = |(file, why): (String, String)| PortError::Capture {
            port: format!("capture {file}"),
            source: PcapError::Io(std::io::Error::other(why)),
        };
        failed.map(error).collect()
    }

    /// Reports, once for each, files that cannot be written any more.
    pub(super) fn check(&mut self, messages: &mut Vec<Message>) {
        for File { recorder, is_reported, .. } in self.files.values_mut() {
            let report = recorder.report();
            if let Some(error) = report.error.filter(|_| !*is_reported) {
                *is_reported = true;
                let text = format!("capture {}: {error}: nothing more is written", report.file);
                messages.push(Message::new(Topic::Capture, text));
            }
        }
    }

    pub(super) fn received(&mut self, place: Place, mem: &PacketMemory, frames: &[RxFrame]) {
        let Some(file) = self.files.get_mut(&place.file) else { return };
        for frame in frames {
            let data = mem.frame(&frame.buf, frame.data_off, frame.len);
            file.recorder.record(frame.timestamp, place.first + IN, data, frame.wire_len, None);
        }
    }

    /// Keeps a reference to the frames that a port is about to be given.
    pub(super) fn hold(&mut self, mem: &mut PacketMemory, frames: &[TxFrame]) {
        for frame in frames {
            let TxFrame { data_off, len, wire_len, start, .. } = *frame;
            let Some(buf) = mem.share(&frame.buf) else { continue };
            self.given.push((buf, Given { data_off, len, wire_len, start }));
        }
    }

    /// Records the frames that the port was given: the first `sent` were sent, the others up to `gone` were given up.
    pub(super) fn given(&mut self, place: Place, mem: &mut PacketMemory, gone: usize, sent: usize) {
        for (index, (buf, given)) in self.given.drain(..).enumerate() {
            if let Some(file) = self.files.get_mut(&place.file).filter(|_| index < gone) {
                let data = mem.frame(&buf, given.data_off, given.len);
                let (interface, comment) = match index < sent {
                    true => (OUT, None),
                    false => (DROPPED, Some("dropped: tx_full: the port gave it up")),
                };
                file.recorder.record(
                    given.start,
                    place.first + interface,
                    data,
                    given.wire_len,
                    comment,
                );
            }
            mem.free(buf);
        }
    }

    /// Records a dropped packet; `queue` is number and bytes of the queue it was for.
    pub(super) fn dropped(
        &mut self,
        places: [Option<Place>; 2],
        drop: &Dropped<'_>,
        queue: Option<(u8, u64)>,
    ) {
        let Dropped { now, mem, packet, wire_len, reason } = *drop;
        let Some(buf) = &packet.buf else { return };
        self.comment.clear();
        let _ = write!(self.comment, "dropped: {reason}");
        if let Some((queue, bytes)) = queue {
            let number = packet.egress_port;
            let _ = write!(self.comment, "; port {number} queue {queue} holds {bytes} B");
        }
        let data = mem.frame(buf, packet.data_off, packet.len);
        for place in places.into_iter().flatten() {
            if let Some(file) = self.files.get_mut(&place.file) {
                file.recorder.record(
                    now,
                    place.first + DROPPED,
                    data,
                    wire_len,
                    Some(&self.comment),
                );
            }
        }
    }

    /// Records a frame that was not given to its port; `why` is the comment.
    pub(super) fn shed(
        &mut self,
        places: [Option<Place>; 2],
        now: Time,
        mem: &PacketMemory,
        frame: &TxFrame,
        why: &str,
    ) {
        for place in places.into_iter().flatten() {
            if let Some(file) = self.files.get_mut(&place.file) {
                let data = mem.frame(&frame.buf, frame.data_off, frame.len);
                file.recorder.record(now, place.first + DROPPED, data, frame.wire_len, Some(why));
            }
        }
    }
}

/// A message about an older capture; the second one where it could not be kept.
type Kept = Result<String, String>;

/// Keeps the capture of an earlier run, which may show why that ended. A switch that is started again and again is not
/// stopped by it, and a start that failed, whose capture has no records, takes no other one's place.
fn kept(file: &Path) -> Option<Kept> {
    if has_no_records(file) {
        return None;
    }
    let name = shown(file);
    match keep_old(file) {
        Ok(old) => {
            old.map(|old| Ok(format!("capture {name}: the one before is {} now", shown(&old))))
        }
        Err(why) => Some(Err(format!("capture {name}: the one before is overwritten: {why}"))),
    }
}

fn has_no_records(file: &Path) -> bool {
    // Opening a FIFO would wait for its writer.
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let opened = is_regular.then(|| OsFile::open(file).ok()).flatten();
    let reader = opened.and_then(|opened| PcapReader::new(BufReader::new(opened)).ok());
    reader.is_some_and(|mut reader| matches!(reader.advance(), Ok(false)))
}

/// The capture files of a device with its ports.
pub(crate) struct Captures<'a> {
    pub(super) ports: &'a mut Ports,
    /// The files.
    pub(crate) files: &'a mut Recording,
}

impl Captures<'_> {
    /// Records a port into the file that its specification names, if it names one, from now on; ports may share a file.
    ///
    /// # Errors
    /// There is no such port, or the file cannot be created.
    pub(crate) fn record_as(
        &mut self,
        number: PortNumber,
        spec: &PortSpec,
    ) -> Result<(), DeviceError> {
        let Some(file) = &spec.capture else { return Ok(()) };
        let slot = self.ports.find(number).ok_or(DeviceError::NoPort(number))?;
        let added = self.files.add(&mut self.ports[slot], file);
        let said = added.map_err(|source| DeviceError::Capture { port: number, source })?;
        self.ports.messages.extend(said.map(|kept| match kept {
            Ok(text) => Message::new(Topic::Port(number), text),
            Err(text) => Message::new(Topic::Capture, text),
        }));
        Ok(())
    }

    /// Checks that none of these ports is recorded.
    ///
    /// # Errors
    /// One is recorded already: its file would end without a message.
    pub(crate) fn check_recorded(&self, numbers: &[PortNumber]) -> Result<(), DeviceError> {
        for number in numbers {
            let slot = self.ports.find(*number).map(|slot| &self.ports[slot]);
            if let Some(place) = slot.and_then(|slot| slot.recorded) {
                let file = self.files.path(place);
                return Err(DeviceError::Recorded { port: *number, file });
            }
        }
        Ok(())
    }

    /// Records these ports into a new file from now on.
    ///
    /// # Errors
    /// There is no such port, it is recorded already, or the file is being written already.
    pub(crate) fn record_into(
        &mut self,
        numbers: &[PortNumber],
        recorder: Recorder,
    ) -> Result<(), DeviceError> {
        let slot =
            |number: &PortNumber| self.ports.find(*number).ok_or(DeviceError::NoPort(*number));
        let slots: Vec<usize> = numbers.iter().map(slot).collect::<Result<_, _>>()?;
        if self.files.find(recorder.path()).is_some() {
            return Err(DeviceError::CaptureTaken(recorder.path().to_owned()));
        }
        self.check_recorded(numbers)?;
        let index = self.files.begin(recorder, false);
        slots.into_iter().for_each(|slot| self.files.describe(&mut self.ports[slot], index));
        Ok(())
    }

    /// Stops recording a port, or all; files that record no port any more are ended. Returns the number of captures that
    /// it changed.
    pub(crate) fn stop(&mut self, number: Option<PortNumber>) -> usize {
        let slots = 0..self.ports.len();
        let slots = slots.filter(|slot| number.is_none_or(|it| it == self.ports[*slot].number));
        let slots: Vec<usize> = slots.collect();
        let places = slots.into_iter().filter_map(|slot| self.leave(slot, Leave::ByCommand));
        // Ports may share a file.
        let files: BTreeSet<usize> = places.map(|place| place.file).collect();
        files.len() + if number.is_none() { self.files.end_waiting() } else { 0 }
    }

    /// Stops recording the port in this slot; `None`: it was not recorded.
    pub(super) fn leave(&mut self, slot: usize, why: Leave) -> Option<Place> {
        let place = self.ports[slot].recorded.take()?;
        let is_used = |slot: &Slot| slot.recorded.is_some_and(|one| one.file == place.file);
        let may_return = why == Leave::WithPort && self.files.waits(place);
        match self.ports.iter().any(is_used) || may_return {
            true => self.files.leave(place, self.ports[slot].number),
            false => self.files.end(place),
        }
        Some(place)
    }
}

/// Why a port is no longer recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    ByCommand,
    /// The port is removed.
    WithPort,
}

/// A dropped packet, for its record.
pub(super) struct Dropped<'a> {
    pub(super) now: Time,
    pub(super) mem: &'a PacketMemory,
    pub(super) packet: &'a Descriptor,
    pub(super) wire_len: u32,
    pub(super) reason: &'a str,
}

impl Ports {
    /// Where a drop is recorded: in the file of its ingress port, and in that of its egress port if that is another.
    pub(super) fn drop_places(&self, from: Option<usize>, to: Option<usize>) -> [Option<Place>; 2] {
        let place = |slot: Option<usize>| slot.and_then(|slot| self[slot].recorded);
        let (from, to) = (place(from), place(to));
        let is_same = from.zip(to).is_some_and(|(from, to)| from.file == to.file);
        [from, to.filter(|_| !is_same)]
    }
}
