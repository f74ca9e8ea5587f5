//! Opening and closing ports beside the run loop, in a thread of its own.
//!
//! Closing a packet socket, and binding one, waits until the kernel has no frame in flight to it: tens to hundreds of
//! milliseconds in which the loop would forward nothing. The workers only remove and insert open ports
//! ([`Control::exchange_ports`]).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use wireyard_pipeline::packet::PacketMemory;

use super::{PortFileError, PortText, read};
use crate::control::{Control, ControlError, NewPort, PortSource, close};
use crate::ports::files::{CaptureFile, OutputError};
use crate::ports::{self, Opened, Port, PortNumber, PortSpec};

/// Work in another thread, whose end can be polled.
pub(super) struct Task<T> {
    outcome: Receiver<T>,
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

impl<T: Send + 'static> Task<T> {
    /// Begins it, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// No thread is left.
    pub(super) fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Task<T>> {
        let (sender, outcome) = channel();
        let thread = thread::Builder::new().name("ports".into());
        thread.spawn(move || {
            // The result has no receiver when the switch ends.
            let _ = sender.send(work());
        })?;
        Ok(Task { outcome })
    }

    /// The result, `None` if its thread panicked, or the task itself while it continues.
    pub(super) fn outcome(self) -> Result<Option<T>, Task<T>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Ok(Some(outcome)),
            Err(TryRecvError::Disconnected) => Ok(None),
            Err(TryRecvError::Empty) => Err(self),
        }
    }
}

/// The origin of the port for a new line of the file.
enum Source {
    /// It is open.
    Opened(Opened),
    /// It is the port with this number, with another number, cable or capture.
    Kept(PortNumber),
    /// It can be opened when another is closed.
    Exchanged,
}

/// A port that the file has now.
struct Change {
    number: PortNumber,
    spec: PortSpec,
    source: Source,
}

/// The changes of a file, with all ports that could be opened beforehand.
struct Prepared {
    /// Ports that are no longer in it.
    old: Vec<(PortNumber, PortSpec)>,
    changes: Vec<Change>,
}

/// The result of reading the file again.
pub(super) struct Reloaded {
    /// The ports of the file before: as they were open, or removed by command.
    pub(super) before: Vec<(PortNumber, PortSpec)>,
    /// The ports of the switch now.
    pub(super) ports: Vec<(PortNumber, PortSpec)>,
    /// A line for each port that changed, or why none did.
    pub(super) outcome: Result<Vec<String>, PortFileError>,
}

impl Prepared {
    fn is_kept(&self, number: PortNumber) -> bool {
        self.changes.iter().any(|change| matches!(change.source, Source::Kept(n) if n == number))
    }

    /// Old ports with something that a new one needs.
    fn in_the_way(&self) -> Vec<(PortNumber, PortSpec)> {
        let wanted = self.to_exchange();
        let is_needed = |spec: &PortSpec| wanted.iter().any(|(_, wanted)| wanted.excludes(spec));
        let old = self.old.iter().filter(|(number, _)| !self.is_kept(*number));
        old.filter(|(_, spec)| is_needed(spec)).cloned().collect()
    }

    /// New ports that need something of an old one.
    fn to_exchange(&self) -> Vec<(PortNumber, PortSpec)> {
        let changes = self.changes.iter();
        let exchanged = changes.filter(|change| matches!(change.source, Source::Exchanged));
        exchanged.map(|change| (change.number, change.spec.clone())).collect()
    }

    /// Closes the ports that were opened for this file.
    fn give_up(self, mem: &mut PacketMemory) {
        for change in self.changes {
            if let Source::Opened(opened) = change.source {
                close(queues(opened), mem);
            }
        }
    }
}

/// The device and its packet memory, for this thread.
struct Device<'a> {
    control: &'a Control,
    mem: PacketMemory,
}

/// Reads the file again, and makes the device's ports, which are `known`, those of the file.
pub(super) fn reload(
    text: &PortText,
    mut known: Vec<(PortNumber, PortSpec)>,
    control: &Control,
    mem: PacketMemory,
) -> Reloaded {
    let mut device = Device { control, mem };
    let wanted = read(text);
    let mut before = known.clone();
    let outcome = wanted.and_then(|wanted| {
        as_open(&mut known, &wanted, &control.port_specs());
        before.clone_from(&known);
        check_files(text, control, &known, &wanted)?;
        // `port remove`, and a reading that failed half-way, removed ports.
        let there = device.queues()?;
        known.retain(|(number, _)| there.contains_key(number));
        let lines = device.make(&wanted, &mut known)?;
        known = wanted;
        match lines.is_empty() {
            true => Ok(vec![format!("{}: no port changed", text.path.display())]),
            false => Ok(lines),
        }
    });
    Reloaded { before, ports: known, outcome }
}

/// Replaces what the last reading knows of the file's ports by what `port add` has opened since.
fn as_open(
    known: &mut Vec<(PortNumber, PortSpec)>,
    wanted: &[(PortNumber, PortSpec)],
    added: &BTreeMap<PortNumber, PortSpec>,
) {
    for (number, spec) in added {
        let is_it = |(other, _): &(PortNumber, PortSpec)| other == number;
        match known.iter_mut().find(|port| is_it(port)) {
            Some((_, known)) => known.clone_from(spec),
            None if wanted.iter().any(is_it) => known.push((*number, spec.clone())),
            None => {}
        }
    }
}

/// Checks the files of the wanted ports against those of the ports that `port add` added beside them, and against
/// captures.
fn check_files(
    text: &PortText,
    control: &Control,
    known: &[(PortNumber, PortSpec)],
    wanted: &[(PortNumber, PortSpec)],
) -> Result<(), PortFileError> {
    let mut used = control.files_in_use().map_err(PortFileError::Control)?;
    let is_of_file = |number: &PortNumber| known.iter().chain(wanted).any(|(one, _)| one == number);
    used.ports.retain(|(number, _)| !is_of_file(number));
    let refused = |problem: OutputError| PortFileError::Content {
        file: text.path.clone(),
        problem: problem.into(),
    };
    ports::files::check_beside(wanted, &used).map_err(refused)?;
    // Outputs may be those of ports that go on, or are opened again.
    let is_new = |spec: &PortSpec| {
        let is_it = |capture: &CaptureFile| spec.capture.as_ref() == Some(&capture.path);
        !used.captures.iter().any(is_it)
    };
    let captures = wanted.iter().filter(|(_, spec)| is_new(spec));
    let captures: Vec<(PortNumber, PortSpec)> =
        captures.map(|(number, spec)| (*number, PortSpec { out: None, ..spec.clone() })).collect();
    ports::files::check_unwritten(&captures).map_err(refused)
}

impl Device<'_> {
    /// Makes the ports, which are `known`, match `wanted`; ports that are lost in the process are removed from `known`.
    fn make(
        &mut self,
        wanted: &[(PortNumber, PortSpec)],
        known: &mut Vec<(PortNumber, PortSpec)>,
    ) -> Result<Vec<String>, PortFileError> {
        let mut prepared = self.prepare(wanted, known)?;
        let (in_the_way, mut lines) = (prepared.in_the_way(), Vec::new());
        if !in_the_way.is_empty() {
            if let Err(why) = self.take_out(&in_the_way, &mut lines) {
                prepared.give_up(&mut self.mem);
                return Err(PortFileError::Control(why));
            }
            if let Err(why) = self.open_exchanged(&mut prepared) {
                prepared.give_up(&mut self.mem);
                return Err(self.restore(in_the_way, why, known));
            }
        }
        self.finish(prepared, in_the_way, lines, known)
    }

    fn open(&self, port: PortNumber, spec: &PortSpec) -> Result<Opened, PortFileError> {
        let opened = ports::open_spread(spec, &self.mem, self.control.spread());
        opened.map_err(|source| PortFileError::Open { port, source })
    }

    /// Compares the ports of a file with the present ones, and opens those that can be opened. If one fails, none is
    /// opened.
    fn prepare(
        &mut self,
        ports: &[(PortNumber, PortSpec)],
        known: &[(PortNumber, PortSpec)],
    ) -> Result<Prepared, PortFileError> {
        let missing_in = |list: &[(PortNumber, PortSpec)], others: &[(PortNumber, PortSpec)]| {
            list.iter().filter(|port| !others.contains(port)).cloned().collect::<Vec<_>>()
        };
        let mut prepared = Prepared { old: missing_in(known, ports), changes: Vec::new() };
        let queues = self.queues()?;
        for (number, spec) in missing_in(ports, known) {
            let is_free = |other: PortNumber| !prepared.is_kept(other);
            // A port with a capture file has one queue, and may have more without.
            let wanted = self.control.spread().queues(&spec, spec.kind) as usize;
            let has_queues = |other: PortNumber, known: &PortSpec| {
                let is_recorded = known.capture.is_some();
                is_recorded == spec.capture.is_some() || queues.get(&other) == Some(&wanted)
            };
            let is_it = |other: PortNumber, known: &PortSpec| {
                known.is_same_medium(&spec) && has_queues(other, known) && is_free(other)
            };
            let same = prepared.old.iter().find(|(other, known)| is_it(*other, known));
            let source = match same {
                Some((other, _)) => Source::Kept(*other),
                None if prepared.old.iter().any(|(_, known)| known.excludes(&spec)) => {
                    Source::Exchanged
                }
                None => match self.open(number, &spec) {
                    Ok(opened) => Source::Opened(opened),
                    Err(why) => {
                        prepared.give_up(&mut self.mem);
                        return Err(why);
                    }
                },
            };
            prepared.changes.push(Change { number, spec, source });
        }
        Ok(prepared)
    }

    /// Number of queues of each port.
    fn queues(&self) -> Result<BTreeMap<PortNumber, usize>, PortFileError> {
        let ports = self.control.ports().map_err(PortFileError::Control)?;
        Ok(ports.into_iter().map(|port| (port.port, 1 + port.also.len())).collect())
    }

    /// Removes ports and closes them.
    fn take_out(
        &mut self,
        ports: &[(PortNumber, PortSpec)],
        lines: &mut Vec<String>,
    ) -> Result<(), ControlError> {
        let numbers: Vec<PortNumber> = ports.iter().map(|(number, _)| *number).collect();
        let taken = self.control.exchange_ports(&mut self.mem, &numbers, Vec::new())?;
        lines.extend(taken.errors.into_values());
        close(taken.closing, &mut self.mem);
        Ok(())
    }

    /// Opens the ports that could not be opened before others were closed.
    fn open_exchanged(&self, prepared: &mut Prepared) -> Result<(), PortFileError> {
        for change in &mut prepared.changes {
            if matches!(change.source, Source::Exchanged) {
                change.source = Source::Opened(self.open(change.number, &change.spec)?);
            }
        }
        Ok(())
    }

    /// Opens removed ports again after a failure, as far as possible; returns the error with its cause.
    fn restore(
        &mut self,
        ports: Vec<(PortNumber, PortSpec)>,
        why: PortFileError,
        known: &mut Vec<(PortNumber, PortSpec)>,
    ) -> PortFileError {
        let mut lost = Vec::new();
        for (number, spec) in ports {
            if let Err(error) = self.put_back(number, spec) {
                // The next reading of the file adds it again.
                known.retain(|(known, _)| *known != number);
                lost.push((number, error.to_string()));
            }
        }
        match lost.is_empty() {
            true => why,
            false => PortFileError::Lost { source: Box::new(why), lost },
        }
    }

    fn put_back(&mut self, number: PortNumber, spec: PortSpec) -> Result<(), Box<dyn Error>> {
        let source = ports::open_spread(&spec, &self.mem, self.control.spread())?;
        let new = vec![NewPort { number, spec, source: PortSource::Opened(source) }];
        let mut changes = self.control.exchange_ports(&mut self.mem, &[], new)?;
        close(changes.closing, &mut self.mem);
        changes.added.remove(&number).transpose()?;
        Ok(())
    }

    /// With all ports open, makes the device's ports those of the file. `gone` are already removed, and are restored if
    /// this fails.
    fn finish(
        &mut self,
        prepared: Prepared,
        gone: Vec<(PortNumber, PortSpec)>,
        mut lines: Vec<String>,
        known: &mut Vec<(PortNumber, PortSpec)>,
    ) -> Result<Vec<String>, PortFileError> {
        let Prepared { old, changes } = prepared;
        let still = old.iter().filter(|port| !gone.contains(port));
        let still: Vec<PortNumber> = still.map(|(number, _)| *number).collect();
        let (mut new, mut named) = (Vec::new(), Vec::new());
        for Change { number, spec, source } in changes {
            named.push((number, spec.to_string()));
            let source = match source {
                Source::Opened(opened) => PortSource::Opened(opened),
                Source::Kept(from) => PortSource::Kept(from),
                Source::Exchanged => continue,
            };
            new.push(NewPort { number, spec, source });
        }
        let mut made = match self.control.exchange_ports(&mut self.mem, &still, new) {
            Ok(made) => made,
            Err(why) => return Err(self.restore(gone, PortFileError::Exchange(why), known)),
        };
        for (number, spec) in &old {
            lines.extend(made.errors.remove(number));
            lines.push(format!("port {number} ({spec}) was removed"));
        }
        for (number, name) in named {
            let added = made.added.remove(&number).unwrap_or(Ok(Vec::new()));
            lines.extend(lines_of(number, &name, added));
        }
        close(made.closing, &mut self.mem);
        Ok(lines)
    }
}

/// The lines for a new port: that it was added, with notices for the user, or why it was not.
fn lines_of(
    number: PortNumber,
    name: &str,
    added: Result<Vec<String>, impl fmt::Display>,
) -> Vec<String> {
    match added {
        Ok(mut notices) => {
            notices.insert(0, format!("port {number} ({name}) was added"));
            notices
        }
        Err(why) => vec![format!("port {number} ({name}) was not added: {why}")],
    }
}

/// All queues of a port.
fn queues(opened: Opened) -> impl Iterator<Item = Box<dyn Port>> {
    std::iter::once(opened.port).chain(opened.queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_could_not_come_is_not_reported_as_added() {
        let refused = lines_of(PortNumber(3), "raw:x", Err("its capture cannot be written"));
        assert_eq!(refused, ["port 3 (raw:x) was not added: its capture cannot be written"]);
        let added = lines_of(PortNumber(3), "raw:x", Ok::<_, String>(vec!["a notice".into()]));
        assert_eq!(added, ["port 3 (raw:x) was added", "a notice"]);
    }
}
