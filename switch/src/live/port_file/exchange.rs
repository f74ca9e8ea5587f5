//! Opening and closing ports beside the run loop, in a thread for each task.
//!
//! Closing a packet socket, and binding one, waits until the kernel has no frame on its way to it: tens to hundreds of
//! milliseconds in which the loop would forward nothing. This touches no device: it gives open ports to the loop.

use std::fmt;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use wireyard_pipeline::packet::PacketMemory;

use crate::ports::{self, Opened, Port, PortError, PortSpec};

/// Work in another thread, which may be asked whether it is over.
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
    /// There are no threads left.
    pub(super) fn start(work: impl FnOnce() -> T + Send + 'static) -> Result<Task<T>, String> {
        let (sender, outcome) = channel();
        let thread = thread::Builder::new().name("ports".into());
        thread
            .spawn(move || {
                // Nobody waits for it when the switch ends.
                let _ = sender.send(work());
            })
            .map_err(|error| format!("a thread for ports: {error}; no port was changed"))?;
        Ok(Task { outcome })
    }

    /// What came of it, or the task, if it goes on.
    pub(super) fn outcome(self) -> Result<T, Task<T>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Ok(outcome),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Err(self),
        }
    }
}

/// Where the port comes from that a new line of the file asks for.
pub(super) enum Source {
    /// It is open.
    Opened(Opened),
    /// It is the port with this number, with another number, cable or capture.
    Kept(u16),
    /// It can be opened when another is closed.
    Exchanged,
}

/// A port that the file has now.
pub(super) struct Change {
    pub(super) number: u16,
    pub(super) spec: PortSpec,
    pub(super) source: Source,
}

/// What a file asks for, with all that could be opened beforehand.
pub(super) struct Prepared {
    /// All that the file says.
    pub(super) ports: Vec<(u16, PortSpec)>,
    /// Ports that it does not say any more.
    pub(super) old: Vec<(u16, PortSpec)>,
    pub(super) changes: Vec<Change>,
    /// Old ports that the device does not have any more.
    pub(super) detached: Vec<u16>,
    /// What the user should know.
    pub(super) messages: Vec<String>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Prepared {
    fn is_kept(&self, number: u16) -> bool {
        self.changes.iter().any(|change| matches!(change.source, Source::Kept(n) if n == number))
    }

    /// Old ports that have what a new one needs.
    pub(super) fn in_the_way(&self) -> Vec<(u16, PortSpec)> {
        let wanted = self.to_exchange();
        let is_needed = |spec: &PortSpec| wanted.iter().any(|(_, wanted)| wanted.excludes(spec));
        let old = self.old.iter().filter(|(number, _)| !self.is_kept(*number));
        old.filter(|(_, spec)| is_needed(spec)).cloned().collect()
    }

    /// New ports that need what an old one has.
    pub(super) fn to_exchange(&self) -> Vec<(u16, PortSpec)> {
        let changes = self.changes.iter();
        let exchanged = changes.filter(|change| matches!(change.source, Source::Exchanged));
        exchanged.map(|change| (change.number, change.spec.clone())).collect()
    }

    /// The exchange is done: all is open.
    pub(super) fn exchanged(&mut self, opened: Vec<(u16, Opened)>) {
        for (number, opened) in opened {
            let change = self.changes.iter_mut().find(|change| change.number == number);
            if let Some(change) = change {
                change.source = Source::Opened(opened);
            }
        }
    }

    /// What was opened for nothing.
    pub(super) fn into_opened(self) -> Vec<Box<dyn Port>> {
        let opened = self.changes.into_iter().filter_map(|change| match change.source {
            Source::Opened(opened) => Some(opened.port),
            _ => None,
        });
        opened.collect()
    }
}

/// Compares the ports of a file with those that there are, and opens what can be opened.
///
/// # Errors
/// A port cannot be opened; then none is.
pub(super) fn prepare(
    ports: &[(u16, PortSpec)],
    known: &[(u16, PortSpec)],
    mut mem: PacketMemory,
) -> Result<Prepared, String> {
    let missing_in = |list: &[(u16, PortSpec)], others: &[(u16, PortSpec)]| {
        list.iter().filter(|port| !others.contains(port)).cloned().collect::<Vec<_>>()
    };
    let old = missing_in(known, ports);
    let mut prepared = Prepared {
        ports: ports.to_vec(),
        changes: Vec::new(),
        detached: Vec::new(),
        messages: Vec::new(),
        old,
    };
    for (number, spec) in missing_in(ports, known) {
        let is_free = |other: u16| !prepared.is_kept(other);
        let mut old = prepared.old.iter();
        let same = old.find(|(other, known)| known.is_same_medium(&spec) && is_free(*other));
        let source = match same {
            Some((other, _)) => Source::Kept(*other),
            None if prepared.old.iter().any(|(_, known)| known.excludes(&spec)) => {
                Source::Exchanged
            }
            None => match ports::open(&spec, &mem) {
                Ok(opened) => Source::Opened(opened),
                Err(error) => {
                    close(prepared.into_opened(), &mut mem);
                    return Err(format!("port {number}: {error}; no port was changed"));
                }
            },
        };
        prepared.changes.push(Change { number, spec, source });
    }
    Ok(prepared)
}

/// How closing some ports and opening others ended.
pub(super) enum Exchanged {
    /// As wanted.
    Done(Vec<(u16, Opened)>),
    /// One cannot be opened; those before are open again, as far as that goes.
    Undone { why: String, restored: Vec<(u16, PortSpec, Result<Opened, PortError>)> },
}

/// Closes ports, which were `before`, and opens those that are wanted in their place.
pub(super) fn exchange(
    closing: Vec<Box<dyn Port>>,
    wanted: &[(u16, PortSpec)],
    before: &[(u16, PortSpec)],
    mut mem: PacketMemory,
) -> Exchanged {
    close(closing, &mut mem);
    let mut all: Vec<(u16, Opened)> = Vec::new();
    for (number, spec) in wanted {
        match ports::open(spec, &mem) {
            Ok(opened) => all.push((*number, opened)),
            Err(error) => {
                close(all.into_iter().map(|(_, opened)| opened.port).collect(), &mut mem);
                let again = |(number, spec): &(u16, PortSpec)| {
                    (*number, spec.clone(), ports::open(spec, &mem))
                };
                let restored = before.iter().map(again).collect();
                return Exchanged::Undone { why: format!("port {number}: {error}"), restored };
            }
        }
    }
    Exchanged::Done(all)
}

fn close(ports: Vec<Box<dyn Port>>, mem: &mut PacketMemory) {
    for mut port in ports {
        port.close(mem);
    }
}
