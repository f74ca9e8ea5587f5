//! Capture files of a device: what arrived, what left, and what was dropped with its reason.
//!
//! A port that is recorded has three interfaces in its file: in, out and dropped. A dropped packet stands at the port it came in
//! by, and in the file of the port it would have left by if that is another one. Writing is the
//! [`recorder`](crate::recorder)'s; without one a burst costs a look at an `Option`.

use std::fmt::Write;
use std::path::Path;

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::packet::Buf;
use wireyard_tables::time::Time;

use super::Core;
use super::manager::port_id;
use crate::pcap::PcapError;
use crate::ports::capture::number_of;
use crate::ports::{PortError, RxFrame, TxFrame};
use crate::recorder::{Recorder, RecorderReport};
use crate::stats::ReasonIndex;

/// Interfaces of a port in its file, from its first one on.
const IN: u32 = 0;
const OUT: u32 = 1;
const DROPPED: u32 = 2;

/// Where a port is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: usize,
    /// Its first interface in the file.
    first: u32,
}

/// The capture files of a device.
#[derive(Debug, Default)]
pub(super) struct Recording {
    files: Vec<Recorder>,
    /// By file: it was told that nothing more can be written.
    told: Vec<bool>,
    /// Nanoseconds since 1970 at [`Time::ZERO`].
    origin_ns: u64,
    comment: String,
    /// Frames that a port was given, kept until it is known what became of them.
    given: Vec<(Buf, Given)>,
}

/// What a record needs of a frame that the port has freed.
#[derive(Clone, Copy, Debug)]
struct Given {
    data_off: u16,
    len: u32,
    wire_len: u32,
    start: Time,
}

impl Core {
    /// Records a port into `file` from now on; ports may share a file.
    ///
    /// # Errors
    /// There is no such port, or the file cannot be created.
    pub fn record(&mut self, number: u16, file: &Path) -> Result<(), String> {
        let slot = self.slot(number).ok_or_else(|| format!("there is no port {number}"))?;
        let recording = &mut self.recording;
        let known = recording.files.iter().position(|recorder| recorder.path() == file);
        let index = match known {
            Some(index) => index,
            None => {
                let mut recorder = Recorder::create(file)?;
                recorder.set_origin_ns(recording.origin_ns);
                recording.files.push(recorder);
                recording.told.push(false);
                recording.files.len() - 1
            }
        };
        let port = &mut self.slots[slot];
        let (name, link) = (port.port.name(), number_of(port.port.caps().link));
        let mut add = |what| {
            recording.files[index].add_interface(link, format!("port {number} {name} {what}"))
        };
        let first = add("in");
        add("out");
        add("dropped");
        port.recorded = Some(Place { file: index, first });
        Ok(())
    }

    /// The time of day, in nanoseconds since 1970, that is [`Time::ZERO`]: capture files say it.
    pub fn set_time_of_day(&mut self, origin_ns: u64) {
        self.recording.origin_ns = origin_ns;
        self.recording.files.iter_mut().for_each(|recorder| recorder.set_origin_ns(origin_ns));
    }

    /// How far the capture files are.
    pub(super) fn recorder_reports(&self) -> Vec<RecorderReport> {
        self.recording.files.iter().map(Recorder::report).collect()
    }

    /// Passes on what was recorded: before a sleep.
    pub(super) fn flush_recording(&mut self) {
        self.recording.files.iter_mut().for_each(Recorder::flush);
    }

    /// Writes the rest. What is recorded later is lost.
    pub(super) fn finish_recording(&mut self) {
        self.recording.files.iter_mut().for_each(Recorder::finish);
    }

    /// Capture files that could not be written to their end.
    pub(super) fn recording_errors(&self) -> Vec<PortError> {
        let reports = self.recording.files.iter().map(Recorder::report);
        let failed = reports.filter_map(|report| Some((report.file, report.error?)));
        let error = |(file, why): (String, String)| PortError::Capture {
            port: format!("capture {file}"),
            source: PcapError::Io(std::io::Error::other(why)),
        };
        failed.map(error).collect()
    }

    /// Says once which files cannot be written any more.
    pub(super) fn check_recording(&mut self) {
        for (recorder, told) in self.recording.files.iter().zip(&mut self.recording.told) {
            let report = recorder.report();
            if let Some(error) = report.error.filter(|_| !*told) {
                *told = true;
                self.port_messages
                    .push(format!("capture {}: {error}: nothing more is written", report.file));
            }
        }
    }

    pub(super) fn record_received(&mut self, place: Place, frames: &[RxFrame]) {
        let Some(file) = self.recording.files.get_mut(place.file) else { return };
        for frame in frames {
            let data = self.mem.frame(&frame.buf, frame.data_off, frame.len);
            file.record(frame.timestamp, place.first + IN, data, frame.wire_len, None);
        }
    }

    /// Holds on to the frames that a port is about to be given.
    pub(super) fn hold_given(&mut self, slot: usize) {
        for frame in &self.slots[slot].backlog {
            let TxFrame { data_off, len, wire_len, start, .. } = *frame;
            let Some(buf) = self.mem.share(&frame.buf) else { continue };
            self.recording.given.push((buf, Given { data_off, len, wire_len, start }));
        }
    }

    /// Records the frames that were given: the first `sent` left, others to `gone` were given up.
    pub(super) fn record_given(&mut self, slot: usize, gone: usize, sent: usize) {
        let recording = &mut self.recording;
        let place = self.slots[slot].recorded;
        for (index, (buf, given)) in recording.given.drain(..).enumerate() {
            let file = place.and_then(|place| Some((place, recording.files.get_mut(place.file)?)));
            if let Some((place, file)) = file.filter(|_| index < gone) {
                let data = self.mem.frame(&buf, given.data_off, given.len);
                let (interface, comment) = match index < sent {
                    true => (OUT, None),
                    false => (DROPPED, Some("dropped: tx_full: the port gave it up")),
                };
                let interface = place.first + interface;
                file.record(given.start, interface, data, given.wire_len, comment);
            }
            self.mem.free(buf);
        }
    }

    /// Records a packet that is dropped.
    pub(super) fn record_drop(&mut self, packet: &Descriptor, reason: ReasonIndex) {
        let Some(buf) = &packet.buf else { return };
        let to = self.slot(packet.egress_port);
        let places = self.drop_places(self.slot(packet.ingress_port), to);
        if places == [None, None] {
            return;
        }
        let wire_len = self.wire_len(packet);
        let recording = &mut self.recording;
        recording.comment.clear();
        let _ = write!(recording.comment, "dropped: {}", self.reasons.name(reason));
        if let Some(to) = to {
            let queue = self.manager.queue_of(to, packet.traffic_class);
            let bytes = self.manager.tm.queue_bytes(port_id(to), queue);
            let number = packet.egress_port;
            let _ = write!(recording.comment, "; port {number} queue {queue} holds {bytes} B");
        }
        let data = self.mem.frame(buf, packet.data_off, packet.len);
        for place in places.into_iter().flatten() {
            if let Some(file) = recording.files.get_mut(place.file) {
                let interface = place.first + DROPPED;
                file.record(self.now, interface, data, wire_len, Some(&recording.comment));
            }
        }
    }

    /// Records a frame that its port was not given, and says why.
    pub(super) fn record_shed(&mut self, slot: usize, from: u16, frame: &TxFrame, why: &str) {
        for place in self.drop_places(self.slot(from), Some(slot)).into_iter().flatten() {
            if let Some(file) = self.recording.files.get_mut(place.file) {
                let data = self.mem.frame(&frame.buf, frame.data_off, frame.len);
                file.record(self.now, place.first + DROPPED, data, frame.wire_len, Some(why));
            }
        }
    }

    /// Where a drop is recorded: with its ingress port, and in the file of its egress port if that is another.
    fn drop_places(&self, from: Option<usize>, to: Option<usize>) -> [Option<Place>; 2] {
        let place = |slot: Option<usize>| self.slots.get(slot?)?.recorded;
        let (from, to) = (place(from), place(to));
        let is_same = from.zip(to).is_some_and(|(from, to)| from.file == to.file);
        [from, to.filter(|_| !is_same)]
    }
}
