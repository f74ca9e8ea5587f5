//! `decode`: the contents of a capture file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, StdoutLock, Write};
use std::path::Path;

use serde_json::json;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::diag::safe::{escape, escape_json, shown};
use wireyard_pipeline::trace::names::hex;

use super::args::DecodeArgs;
use super::load::show;
use super::output::hex_rows;
use super::{Status, complain, note_written, say};
use crate::decode::{Decoded, Dissector, Frame, Position, Sums};
use crate::folder::in_words;
use crate::pcap::seen::Seen;
use crate::pcap::{PcapReader, Record};
use crate::terminal::styled;

/// Files from this size on show their progress on a terminal.
const PROGRESS_BYTES: u64 = 16 << 20;

pub(super) fn run(args: &DecodeArgs) -> Status {
    if args.frame == Some(0) {
        complain("--frame 0: frames are counted from 1");
        return Status::Wrong;
    }
    let dissector = match Dissector::new(args.filter.as_deref()) {
        Ok(dissector) => dissector,
        Err(Rejected { diagnostics, files }) => {
            show(&diagnostics, &files);
            return Status::Wrong;
        }
    };
    let mut job = Job {
        args,
        dissector,
        out: BufWriter::new(io::stdout().lock()),
        sums: Sums::default(),
        first_ns: None,
        shown: 0,
        decoded: 0,
        skipped: BTreeMap::new(),
    };
    let read = job.file(&args.file);
    // With --frame it was read up to that one.
    let written = job.finish(read.is_ok() && args.frame.is_none());
    match (read, written) {
        (Err(End::Wrong(message)), _) => {
            complain(&format!("{}: {message}", shown(&args.file)));
            Status::Wrong
        }
        (Err(End::Written(error)), _) | (_, Err(error)) => {
            note_written(Err(error));
            Status::Success
        }
        (Ok(()), Ok(())) if job.sums.wrong() > 0 => Status::Failed,
        (Ok(()), Ok(())) => Status::Success,
    }
}

/// The capture, and its size in bytes if it is a file; or why there is none.
pub(super) fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), String> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let failed = |error: io::Error| in_words(path, &error);
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(failed(rustix::io::Errno::ISDIR.into()));
    }
    let bytes = meta.is_file().then_some(meta.len());
    Ok((Box::new(file), bytes))
}

/// Why reading ended early.
enum End {
    /// The input cannot be read on.
    Wrong(String),
    /// The output cannot be written.
    Written(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Written(error)
    }
}

struct Job<'a> {
    args: &'a DecodeArgs,
    dissector: Dissector,
    out: BufWriter<StdoutLock<'static>>,
    sums: Sums,
    first_ns: Option<u64>,
    shown: u64,
    decoded: u64,
    /// Records without anything to decode, by the reason.
    skipped: BTreeMap<String, Skipped>,
}

/// Records that were skipped for one reason.
struct Skipped {
    count: u64,
    /// Number and offset of the first.
    number: u64,
    offset: u64,
}

impl Job<'_> {
    fn file(&mut self, path: &Path) -> Result<(), End> {
        let wrong = |error: &dyn std::fmt::Display| End::Wrong(error.to_string());
        let (file, bytes) = open(path).map_err(|error| wrong(&error))?;
        let args = self.args;
        let quiet = args.verify_crc && !args.json;
        let mut progress = Progress::new(bytes.unwrap_or(0), quiet);
        let mut reader = PcapReader::new(file).map_err(|error| wrong(&error))?;
        let mut number = 0;
        loop {
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    progress.clear();
                    return Err(wrong(&error));
                }
            };
            number += 1;
            progress.at(record.offset, number);
            if let Err(end) = self.record(number, &record) {
                progress.clear();
                return Err(end);
            }
            if bytes.is_none() {
                // A reader that follows a growing capture gets each packet at once.
                self.out.flush()?;
            }
            if self.args.frame == Some(number) {
                break;
            }
        }
        progress.clear();
        match self.args.frame {
            Some(frame) if frame > number => {
                Err(End::Wrong(format!("it has {number} frames, not {frame}")))
            }
            _ => self.tell_skipped(path),
        }
    }

    /// A file without anything to decode is refused; for any other the skipped records are reported.
    fn tell_skipped(&self, path: &Path) -> Result<(), End> {
        let place =
            |skipped: &Skipped| format!("record {} at offset {}", skipped.number, skipped.offset);
        if let (0, Some((why, skipped))) = (self.decoded, self.skipped.iter().next()) {
            return Err(End::Wrong(format!("{}: {why}", place(skipped))));
        }
        for (why, skipped) in &self.skipped {
            let (path, first) = (shown(path), place(skipped));
            say(&format!("{path}: {} skipped, the first is {first}: {why}", skipped.count));
        }
        Ok(())
    }

    fn skip(&mut self, number: u64, offset: u64, why: String) -> Result<(), End> {
        if self.args.frame == Some(number) {
            return Err(End::Wrong(format!("record {number} at offset {offset}: {why}")));
        }
        let first = Skipped { count: 0, number, offset };
        self.skipped.entry(why).or_insert(first).count += 1;
        Ok(())
    }

    fn record(&mut self, number: u64, record: &Record<'_>) -> Result<(), End> {
        let now = record.time.as_ns();
        let first = *self.first_ns.get_or_insert(now);
        if self.args.frame.is_some_and(|frame| frame != number) {
            return Ok(());
        }
        let decoded = match Frame::of(record).and_then(|frame| self.dissector.decode(frame)) {
            Ok(decoded) => decoded,
            Err(why) => return self.skip(number, record.offset, why.to_string()),
        };
        self.decoded += 1;
        if self.args.filter.is_some() && !decoded.parsed.picked() {
            return Ok(());
        }
        let place = Position { number, time_ns: i128::from(now) - i128::from(first) };
        let mut is_shown = true;
        if self.args.verify_crc {
            let verdict = decoded.verdict();
            self.sums.add(&verdict);
            // With --verify-crc only the sums are requested; a packet is shown only if one is wrong.
            is_shown = self.args.json || !verdict.wrong.is_empty();
        }
        if is_shown {
            self.shown += 1;
            let name = record.interface_name;
            let seen = name.and_then(|name| Seen::read(name, record.comment));
            let text = text(self.args, &decoded, place, seen.as_ref());
            self.out.write_all(plain(self.args, &text).as_bytes())?;
        }
        Ok(())
    }

    /// The sums of the decoded packets, also after an incomplete capture.
    fn finish(&mut self, whole: bool) -> io::Result<()> {
        if self.args.verify_crc {
            let text = match self.args.json {
                true => json!({ "whole_file": whole, "sums": self.sums.json() }).to_string() + "\n",
                false => self.sums.text(),
            };
            self.out.write_all(plain(self.args, &text).as_bytes())?;
        }
        self.out.flush()
    }
}

/// Text without characters that a terminal interprets.
fn plain<'t>(args: &DecodeArgs, text: &'t str) -> Cow<'t, str> {
    if args.json { escape_json(text) } else { escape(text) }
}

/// With the switch's metadata of the packet, in a capture of Wireyard.
fn text(
    args: &DecodeArgs,
    decoded: &Decoded<'_>,
    place: Position,
    seen: Option<&Seen<'_>>,
) -> String {
    if args.json {
        let mut packet = decoded.json(place);
        if args.bytes {
            packet["bytes"] = hex(decoded.frame.bytes).into();
        }
        if let Some(Seen { port, way, reason }) = seen {
            packet["port"] = (*port).into();
            packet["way"] = way.name().into();
            packet["reason"] = (*reason).into();
        }
        return packet.to_string() + "\n";
    }
    let seen = seen.map_or(String::new(), |seen| format!(" [{}]", seen.text()));
    let mut text = match args.tree {
        true => decoded.tree(place).replacen('\n', &format!("{seen}\n"), 1),
        false => decoded.line(place) + &seen + "\n",
    };
    if args.bytes {
        text.push_str(&hex_rows(decoded.frame.bytes));
    }
    text
}

/// Progress in a large file, on a terminal.
struct Progress {
    bytes: u64,
    percent: u64,
    on: bool,
}

impl Progress {
    /// `quiet`: little other output, which it could disturb, is printed.
    fn new(bytes: u64, quiet: bool) -> Progress {
        let on = bytes >= PROGRESS_BYTES
            && io::stderr().is_terminal()
            && (quiet || !io::stdout().is_terminal());
        Progress { bytes, percent: 0, on }
    }

    fn at(&mut self, offset: u64, packets: u64) {
        if !self.on {
            return;
        }
        let percent = offset.saturating_mul(100) / self.bytes.max(1);
        if percent > self.percent {
            self.percent = percent;
            styled(&format!("\r{percent:>3} %, {packets} packets"));
        }
    }

    fn clear(&mut self) {
        if self.on && self.percent > 0 {
            styled("\r\x1b[K");
        }
    }
}
