//! `pcap:` ports: a capture file as input, another as output.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::OFlags;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::files::input_path;
use super::kind::{Kind, Medium, QueueCount};
use super::open::joined;
use super::spec::Pace;
use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortNumber, PortSpec};
use super::{PortStats, RxFrame, TxDone, TxFrame};
use crate::pcap::seen::{Seen, Way};
use crate::pcap::{
    Interface, LINK_ERF, MAX_RECORD_BYTES, PcapError, PcapHeader, PcapReader, Record, Timestamp,
    erf,
};
use output::Output;
use waiting::Waiting;

pub use link::{LINK_OPA, NoLink, link_of, number_of};

mod link;
mod output;
mod waiting;

type Source = Box<dyn Read + Send>;

/// A port on capture files.
pub struct CapturePort {
    name: String,
    link: LinkType,
    /// The link-type number of the input; every record must have it.
    number: u16,
    /// ERF records are delivered whole, not as the frames in them.
    erf_as_is: bool,
    /// The link type of the frames in ERF records, by `link=` or else the first of them: a port has only one.
    inner: Option<LinkType>,
    reads: bool,
    /// The file header of the input, if that is pcap.
    header: Option<PcapHeader>,
    input: Option<PcapReader<Source>>,
    /// The current record of the reader was not delivered yet.
    pending: bool,
    /// Path of the output file, until it is begun.
    out: Option<PathBuf>,
    output: Option<Output>,
    /// Why nothing more can be written to the output.
    ended_by: Option<String>,
    pace: Pace,
    /// The port's number; from a capture of a switch it takes only the records of that port.
    as_port: Option<PortNumber>,
    /// Whether the capture is a switch's and has that port: decided once, so that records do not come from any port
    /// until its own is described. `None` of a stream until its first record.
    is_recorded: Option<bool>,
    /// The capture's time at [`Time::ZERO`]; by default the first record's.
    origin: Option<Timestamp>,
    /// Damage found after records that were delivered first.
    late: Option<PortError>,
    disorder: Disorder,
    stats: PortStats,
}

/// Records that are older than one before them. A device's time does not decrease: they come at the time of that one.
#[derive(Default)]
struct Disorder {
    latest_ns: u64,
    records: u64,
    was_reported: bool,
}

impl Disorder {
    fn note(&mut self, time: Timestamp) {
        self.records += u64::from(time.as_ns() < self.latest_ns);
        self.latest_ns = self.latest_ns.max(time.as_ns());
    }

    /// The message about them, once.
    fn report(&mut self) -> Option<String> {
        if self.records == 0 || std::mem::replace(&mut self.was_reported, true) {
            return None;
        }
        Some(format!(
            "{} records are older than one before them: they come at its time (`reordercap` sorts a capture)",
            self.records
        ))
    }
}

pub(crate) const KIND: Kind = Kind {
    name: "pcap",
    medium: Medium::Files,
    queues: QueueCount::One,
    options: &[],
    open: |spec, _, _| Ok(joined(vec![CapturePort::open(spec)?])),
};

impl CapturePort {
    /// Opens the input of a `pcap:` specification. The output is created, and truncated, only when the port is first
    /// used: a device that cannot be built empties no file.
    ///
    /// # Errors
    /// A file that cannot be opened or read as a capture, or an unsupported link type.
    pub fn open(spec: &PortSpec) -> Result<CapturePort, PortError> {
        CapturePort::open_as(spec, None, None)
    }

    /// Like [`CapturePort::open`], for the port with this number: from a capture of a switch it takes the records
    /// received by the port of that number if there are any, or else those received by any port. With `stop` the input
    /// may be a pipe, which is at its end when `stop` is set; without, only a regular file: nobody waits for it.
    ///
    /// # Errors
    /// As [`CapturePort::open`].
    pub fn open_as(
        spec: &PortSpec,
        as_port: Option<PortNumber>,
        stop: Option<Arc<AtomicBool>>,
    ) -> Result<CapturePort, PortError> {
        let name = spec.to_string();
        let open = |path| open_file(&name, path, stop.is_some());
        let file = spec.input.as_deref().map(open).transpose()?;
        let source = |file| match stop {
            Some(stop) => Box::new(Waiting { file, stop }) as Source,
            None => Box::new(file) as Source,
        };
        let input = file
            .map(source)
            .map(PcapReader::new)
            .transpose()
            .map_err(|source| PortError::Capture { port: name.clone(), source })?;
        let mut port = CapturePort {
            name,
            link: spec.link.unwrap_or(LinkType::Ethernet),
            number: number_of(spec.link.unwrap_or(LinkType::Ethernet)),
            erf_as_is: spec.link == Some(LinkType::Erf),
            inner: spec.link,
            reads: input.is_some(),
            header: input.as_ref().and_then(|reader| reader.pcap_header().copied()),
            input,
            pending: false,
            out: spec.out.clone(),
            output: None,
            ended_by: None,
            pace: spec.pace,
            as_port,
            is_recorded: spec.input.as_deref().zip(as_port).and_then(is_recorded),
            origin: None,
            late: None,
            disorder: Disorder::default(),
            stats: PortStats::default(),
        };
        port.learn_link(spec.link)?;
        Ok(port)
    }

    /// The link type of the input: from the header, or from the first record of a pcapng file.
    fn learn_link(&mut self, given: Option<LinkType>) -> Result<(), PortError> {
        self.find_next()?;
        let number = match (&self.header, self.peek()) {
            (Some(header), _) => header.link(),
            (None, Some(record)) => record.link,
            (None, None) => return Ok(()),
        };
        if number == LINK_ERF && !self.erf_as_is {
            let first = self.peek().and_then(|record| erf::frame(record.data).ok());
            let inner = first.map(|inner| inner.link_type());
            self.link = given.or(inner).unwrap_or(LinkType::Ethernet);
            (self.inner, self.number) = (Some(self.link), number);
            // The output contains the frames, not the records.
            self.header = None;
            return Ok(());
        }
        self.link = link_of(number, given).map_err(|why| {
            // The port's number is given by `replay` only, which has no specifications of ports.
            let why = match (why, self.as_port) {
                (NoLink::Private(_), Some(port)) => {
                    format!("{why}; `link` of port {port} in switch.yaml (--config) gives it")
                }
                (NoLink::Private(_), None) => format!("{why}; link=... of the port gives it"),
                (why, _) => why.to_string(),
            };
            PortError::Unsupported { port: self.name.clone(), why }
        })?;
        self.number = number;
        Ok(())
    }

    /// Creates the output: pcapng if the name ends so, else pcap with the header of the input, if that is pcap.
    fn begin_output(&mut self) -> Result<(), PortError> {
        let Some(path) = self.out.take() else { return Ok(()) };
        let unwrapped = self.number == LINK_ERF && !self.erf_as_is;
        let link = if self.reads && !unwrapped { self.number } else { number_of(self.link) };
        let mut header = self.header.unwrap_or_else(|| PcapHeader::new(link));
        // A program may make a record longer than all of the input.
        header.snap_len = header.snap_len.max(MAX_RECORD_BYTES);
        match Output::create(&path, header, &Interface { link, name: self.name.clone() }) {
            Ok(output) => self.output = Some(output),
            Err(error) => {
                self.ended_by = Some(error.to_string());
                return Err(match error {
                    PcapError::Io(source) => PortError::Io {
                        port: self.name.clone(),
                        doing: "create the output file",
                        source,
                        help: shown(&path).into_owned(),
                    },
                    other => self.failed(other),
                });
            }
        }
        Ok(())
    }

    /// Writes frames to the output. Returns how many are in it, and the error if they are not all. Without an output
    /// they go nowhere, and count as sent.
    fn write(
        &mut self,
        mem: &PacketMemory,
        now: Time,
        frames: &[TxFrame],
    ) -> (usize, Result<(), PcapError>) {
        let origin = self.origin.unwrap_or_default();
        let time = Timestamp::from_ns(origin.as_ns().saturating_add(now.as_ns()));
        let Some(output) = &mut self.output else {
            let sent = if self.ended_by.is_some() { 0 } else { frames.len() };
            return (sent, Ok(()));
        };
        let mut added = Ok(());
        for frame in frames {
            let data = mem.frame(&frame.buf, frame.data_off, frame.len);
            added = output.add(time, data, frame.wire_len);
            if added.is_err() {
                break;
            }
        }
        let (sent, written) = output.write();
        (sent, written.and(added))
    }

    /// The output ends with an error: what comes later is not written behind it.
    fn ended(&mut self, source: PcapError) -> PortError {
        self.output = None;
        self.ended_by = Some(source.to_string());
        self.failed(source)
    }

    fn failed(&self, source: PcapError) -> PortError {
        PortError::Capture { port: self.name.clone(), source }
    }

    /// Sets the capture time of [`Time::ZERO`], so that several files share one clock.
    pub fn set_origin(&mut self, origin: Timestamp) {
        self.origin = Some(origin);
    }

    /// The capture time of the next record, `None` at the end: the earliest of all inputs is their common origin.
    ///
    /// # Errors
    /// Reading the file failed.
    pub fn next_timestamp(&mut self) -> Result<Option<Timestamp>, PortError> {
        Ok(if self.find_next()? { self.peek().map(|record| record.time) } else { None })
    }

    /// When the next record is due, in the device's time.
    ///
    /// # Errors
    /// Reading the file failed.
    pub fn next_time(&mut self) -> Result<Option<Time>, PortError> {
        Ok(self.next_timestamp()?.map(|time| self.device_time(time)))
    }

    fn peek(&self) -> Option<Record<'_>> {
        self.input.as_ref().and_then(PcapReader::record)
    }

    /// Moves the reader to an undelivered record; false at the end of the input. A damaged input ends at the damage,
    /// reported once.
    fn find_next(&mut self) -> Result<bool, PortError> {
        if self.pending {
            return Ok(true);
        }
        loop {
            let Some(reader) = &mut self.input else { return Ok(false) };
            match reader.advance() {
                Ok(true) => {
                    if self.is_recorded.is_none() {
                        self.is_recorded = self.as_port.map(|port| describes(reader, port));
                    }
                    if self.is_of_another() {
                        continue;
                    }
                    self.pending = self.is_wanted();
                    if self.pending {
                        return Ok(true);
                    }
                    self.stats.rx_errors += 1;
                }
                Ok(false) => {
                    self.input = None;
                    return Ok(false);
                }
                Err(source) => {
                    self.input = None;
                    return Err(self.failed(source));
                }
            }
        }
    }

    /// True for a record of a switch that is not to be received by this port: frames sent or dropped were received
    /// before, and others belong to another port.
    fn is_of_another(&self) -> bool {
        let seen = self.peek().and_then(|record| Seen::read(record.interface_name?, None));
        seen.is_some_and(|seen| {
            seen.way != Way::In || self.recorded_port().is_some_and(|port| port.0 != seen.port)
        })
    }

    /// Its own number, if the capture contains a port with that number.
    fn recorded_port(&self) -> Option<PortNumber> {
        self.as_port.filter(|_| self.is_recorded == Some(true))
    }

    /// A message about which part of a capture of a switch is taken; `None` for the capture of another program.
    pub fn taken_note(&self) -> Option<String> {
        let mut names = self.input.as_ref()?.interface_names();
        names.find_map(|name| Seen::read(name, None))?;
        let of = self.recorded_port().map_or("any port".to_owned(), |port| format!("port {port}"));
        Some(format!(
            "{}: a capture of a switch, of which only what came in by {of} is taken",
            self.name
        ))
    }

    /// True if the record contains a frame for this port. ERF records may contain other data, or a frame of another
    /// link type.
    fn is_wanted(&self) -> bool {
        let Some(record) = self.peek() else { return false };
        if record.link != LINK_ERF || self.erf_as_is {
            return true;
        }
        let inner = erf::frame(record.data).map(|inner| inner.link_type());
        inner.is_ok_and(|link| self.inner.is_none_or(|own| own == link))
    }

    fn device_time(&mut self, time: Timestamp) -> Time {
        let origin = *self.origin.get_or_insert(time);
        time.since(origin)
    }

    fn deliver(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
    ) -> Result<bool, PortError> {
        let Some(due) = self.next_time()? else { return Ok(false) };
        if self.pace == Pace::Recorded && due > now {
            return Ok(false);
        }
        let Some(record) = self.input.as_ref().and_then(PcapReader::record) else {
            return Ok(false);
        };
        if record.link != self.number {
            let why = format!(
                "a record of link type {} at offset {} follows records of link type {}: a port has one",
                record.link, record.offset, self.number
            );
            self.pending = false;
            self.input = None;
            return Err(PortError::Unsupported { port: self.name.clone(), why });
        }
        let (data, wire_len) = match erf::frame(record.data) {
            Ok(inner) if record.link == LINK_ERF && !self.erf_as_is => {
                (inner.bytes, inner.wire_len)
            }
            _ => (record.data, record.wire_len),
        };
        let (len, time) = (data.len() as u32, record.time);
        if len > mem.max_frame_bytes() {
            self.stats.rx_too_long += 1;
            self.pending = false;
            return Ok(true);
        }
        let Some(buf) = mem.alloc_frame(data) else {
            self.stats.rx_no_memory += 1;
            return Ok(false);
        };
        let data_off = mem.config().headroom_bytes as u16;
        let checksum = ChecksumStatus::AsReceived;
        self.disorder.note(time);
        out.push(RxFrame { buf, data_off, len, wire_len, timestamp: due, checksum });
        self.pending = false;
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += u64::from(len);
        Ok(true)
    }
}

/// True if a switch's capture has described this port.
fn describes<R: Read>(capture: &PcapReader<R>, port: PortNumber) -> bool {
    let mut seen = capture.interface_names().filter_map(|name| Seen::read(name, None));
    seen.any(|seen| seen.port == port.0)
}

/// Whether a capture is a switch's and describes this port, at the beginning or later; `None` of anything but a regular
/// file, which can be read only once. Damage is left to those who read the records.
fn is_recorded((path, port): (&Path, PortNumber)) -> Option<bool> {
    let path = input_path(path);
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut capture = PcapReader::new(File::open(path).ok()?).ok()?;
    let mut has_more = capture.advance().unwrap_or(false);
    if !capture.interface_names().any(|name| Seen::read(name, None).is_some()) {
        return Some(false);
    }
    let mut described = 0;
    loop {
        if capture.interfaces_described() > described && describes(&capture, port) {
            return Some(true);
        }
        if !has_more {
            return Some(false);
        }
        described = capture.interfaces_described();
        has_more = capture.advance().unwrap_or(false);
    }
}

/// Opens an input. One that is not waited for is opened without waiting too: a FIFO may never get another end.
fn open_file(port: &str, path: &Path, waits: bool) -> Result<File, PortError> {
    let at_once = if waits { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    let opened = match path.as_os_str() == "-" {
        true => std::io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => File::options().read(true).custom_flags(at_once.bits() as i32).open(path),
    };
    let kind = opened.and_then(|file| Ok((file.metadata()?.is_file(), file)));
    let (is_regular, file) = kind.map_err(|source| PortError::Io {
        port: port.to_owned(),
        doing: "open the capture file",
        source,
        help: String::new(),
    })?;
    if is_regular || waits {
        return Ok(file);
    }
    let why = "it is no file but a pipe, a device or a folder, for which a switch that runs cannot wait: write what \
               comes from it into a file first, or give it to `wireyard replay`";
    Err(PortError::Unsupported { port: port.to_owned(), why: why.to_owned() })
}

impl Port for CapturePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: self.link, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        self.begin_output()?;
        if let Some(error) = self.late.take() {
            return Err(error);
        }
        let before = out.len();
        while out.len() - before < max {
            match self.deliver(mem, now, out) {
                Ok(true) => {}
                Ok(false) => break,
                // Records before the damage are delivered; the next call reports the damage.
                Err(error) if out.len() == before => return Err(error),
                Err(error) => {
                    self.late = Some(error);
                    break;
                }
            }
        }
        Ok(out.len() - before)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let begun = self.begin_output();
        let (sent, written) = self.write(mem, now, frames);
        let dropped = frames.len() - sent;
        self.stats.tx_frames += sent as u64;
        self.stats.tx_bytes += frames[..sent].iter().map(|frame| u64::from(frame.len)).sum::<u64>();
        self.stats.tx_errors += dropped as u64;
        frames.drain(..).for_each(|frame| mem.free(frame.buf));
        begun?;
        if let Err(source) = written {
            let error = self.ended(source);
            if sent == 0 {
                return Err(error);
            }
            self.late = Some(error);
        }
        Ok(TxDone { sent, dropped })
    }

    fn next_arrival(&mut self) -> Option<Time> {
        match self.next_time() {
            Ok(next) => next,
            Err(error) => {
                self.late = Some(error);
                None
            }
        }
    }

    /// Writes the header of a file without records, and reports again that the file is not complete.
    fn flush(&mut self, _mem: &mut PacketMemory) -> Result<(), PortError> {
        self.begin_output()?;
        if let Some(Err(source)) = self.output.as_mut().map(|output| output.write().1) {
            return Err(self.ended(source));
        }
        let failed = self.ended_by.clone().map(|why| PcapError::Io(std::io::Error::other(why)));
        failed.map_or(Ok(()), Err).map_err(|source| self.failed(source))
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn notices(&mut self) -> Vec<String> {
        self.disorder.report().into_iter().collect()
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        if self.input.is_none() { LinkState::Ended } else { LinkState::Up }
    }
}

#[cfg(test)]
mod tests;
