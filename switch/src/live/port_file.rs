//! The ports of a running switch as a file, which may change: `run --ports FILE`, read again on SIGHUP.
//!
//! The file says `ports:` as switch.yaml does. What is in it and not in the switch is added, what is not in it any more is removed; what is
//! written otherwise is both, with the interface kept open where only number, faults or capture differ. All others go on
//! undisturbed: another thread reads the file and opens and closes ports (`exchange`), for which the kernel may take its time.
//! A file that cannot be, or a port that cannot be opened, changes nothing.

mod exchange;

use std::fs;
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::{Diagnostics, Files, render};
use wireyard_pipeline::source::Loader;
use wireyard_tables::time::Time;

use super::attach_opened;
use crate::config::SwitchConfig;
use crate::core::Core;
use crate::ports::{self, Opened, Port, PortSpec};
use exchange::{Change, Exchanged, Prepared, Source, Task};

/// The file, and what it said last.
#[derive(Debug)]
pub struct PortFile {
    text: PortText,
    ports: Vec<(u16, PortSpec)>,
    step: Step,
    /// SIGHUP came while one was being obeyed.
    again: bool,
}

/// Where the ports are written, and what is to be known to read them.
#[derive(Clone, Debug)]
struct PortText {
    path: PathBuf,
    /// Where ports are recorded that do not say it themselves.
    capture: Option<PathBuf>,
    /// Files of the program, which no port writes.
    sources: Vec<PathBuf>,
}

/// What the other thread does now.
#[derive(Debug)]
enum Step {
    Idle,
    /// Reads the file and opens what can be opened beside the ports that there are.
    Preparing(Task<Result<Prepared, String>>),
    /// Closes ports and opens others in their place; with what is prepared.
    Exchanging(Prepared, Task<Exchanged>),
}

impl PortFile {
    /// Reads it for the first time; nothing is opened. `sources` are files that no port may write, as the file itself.
    ///
    /// # Errors
    /// What is wrong with it, with places.
    pub fn read(
        path: &Path,
        capture: Option<PathBuf>,
        mut sources: Vec<PathBuf>,
    ) -> Result<PortFile, String> {
        sources.push(path.to_owned());
        let text = PortText { path: path.to_owned(), capture, sources };
        let ports = read(&text)?;
        Ok(PortFile { text, ports, step: Step::Idle, again: false })
    }

    /// The ports that it said last.
    pub fn ports(&self) -> &[(u16, PortSpec)] {
        &self.ports
    }

    /// Begins to read it again, and to make the device's ports what it says; [`PortFile::poll`] goes on with it.
    ///
    /// # Errors
    /// There are no threads or descriptors left.
    pub fn reload(&mut self, core: &mut Core) -> Result<(), String> {
        if !matches!(self.step, Step::Idle) {
            self.again = true;
            return Ok(());
        }
        let (text, known) = (self.text.clone(), self.ports.clone());
        let mem = core.memory().worker();
        let task = Task::start(move || exchange::prepare(&read(&text)?, &known, mem))?;
        self.step = Step::Preparing(task);
        Ok(())
    }

    /// Goes on, where the other thread has got so far. What was done comes back at the end, a line for each port.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn poll(&mut self, core: &mut Core, now: Time) -> Option<Result<Vec<String>, String>> {
        if matches!(self.step, Step::Idle) {
            return None;
        }
        let outcome = match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => return None,
            Step::Preparing(task) => match task.outcome() {
                Err(task) => {
                    self.step = Step::Preparing(task);
                    return None;
                }
                Ok(Err(why)) => Err(why),
                Ok(Ok(prepared)) => self.begin_exchange(core, now, prepared).transpose()?,
            },
            Step::Exchanging(prepared, task) => match task.outcome() {
                Err(task) => {
                    self.step = Step::Exchanging(prepared, task);
                    return None;
                }
                Ok(exchanged) => self.end_exchange(core, now, prepared, exchanged),
            },
        };
        if std::mem::take(&mut self.again)
            && let Err(why) = self.reload(core)
        {
            return Some(Err(why));
        }
        Some(outcome)
    }

    /// Takes the ports out whose interfaces others need; does nothing more where there are none.
    fn begin_exchange(
        &mut self,
        core: &mut Core,
        now: Time,
        mut prepared: Prepared,
    ) -> Result<Option<Vec<String>>, String> {
        let (mut closing, mut before) = (Vec::new(), Vec::new());
        for (number, spec) in prepared.in_the_way() {
            let (port, error) = core.detach_port(now, number)?;
            prepared.messages.extend(error.map(|error| error.to_string()));
            closing.push(port);
            before.push((number, spec));
        }
        if closing.is_empty() {
            return self.finish(core, now, prepared).map(Some);
        }
        let wanted = prepared.to_exchange();
        let mem = core.memory().worker();
        prepared.detached = before.iter().map(|(number, _)| *number).collect();
        let task = Task::start(move || exchange::exchange(closing, &wanted, &before, mem))?;
        self.step = Step::Exchanging(prepared, task);
        Ok(None)
    }

    fn end_exchange(
        &mut self,
        core: &mut Core,
        now: Time,
        mut prepared: Prepared,
        exchanged: Exchanged,
    ) -> Result<Vec<String>, String> {
        match exchanged {
            Exchanged::Done(opened) => {
                prepared.exchanged(opened);
                self.finish(core, now, prepared)
            }
            Exchanged::Undone { why, restored } => {
                let mut why = format!("{why}; no port was changed");
                for (number, spec, opened) in restored {
                    let back = opened
                        .map_err(|error| error.to_string())
                        .and_then(|opened| attach_opened(core, number, &spec, opened));
                    if let Err(error) = back {
                        // The next reading of the file adds it again.
                        self.ports.retain(|(known, _)| *known != number);
                        why = format!("{why}, but port {number} could not come back: {error}");
                    }
                }
                close_elsewhere(core, prepared.into_opened());
                Err(why)
            }
        }
    }

    /// All that is needed is open: makes the device's ports those of the file.
    fn finish(
        &mut self,
        core: &mut Core,
        now: Time,
        prepared: Prepared,
    ) -> Result<Vec<String>, String> {
        let Prepared { ports, old, changes, detached, mut messages } = prepared;
        let (mut kept, mut closing) = (Vec::new(), Vec::new());
        for (number, spec) in &old {
            if !detached.contains(number) {
                let (mut port, error) = core.detach_port(now, *number)?;
                messages.extend(error.map(|error| error.to_string()));
                let moves =
                    |change: &Change| matches!(change.source, Source::Kept(n) if n == *number);
                match changes.iter().any(moves) {
                    true => {
                        let inner = port.take_inner(core.memory());
                        kept.push((*number, inner.unwrap_or(port)));
                    }
                    false => closing.push(port),
                }
            }
            messages.push(format!("port {number} ({spec}) was removed"));
        }
        for Change { number, spec, source } in changes {
            let opened = match source {
                Source::Opened(opened) => Some(opened),
                Source::Kept(from) => {
                    let place = kept.iter().position(|(number, _)| *number == from);
                    let kept = place.map(|place| kept.swap_remove(place).1);
                    kept.map(|port| Opened {
                        port: ports::decorate(&spec, port),
                        notices: Vec::new(),
                    })
                }
                Source::Exchanged => None,
            };
            let Some(opened) = opened else { continue };
            let notices = attach_opened(core, number, &spec, opened);
            messages.push(format!("port {number} ({spec}) was added"));
            messages.extend(notices.unwrap_or_else(|why| vec![why]));
        }
        close_elsewhere(core, closing);
        if messages.is_empty() {
            messages.push(format!("{}: no port changed", self.text.path.display()));
        }
        self.ports = ports;
        Ok(messages)
    }
}

/// Closes ports in another thread: the kernel waits there until no frame is on its way to them.
fn close_elsewhere(core: &mut Core, mut ports: Vec<Box<dyn Port>>) {
    if ports.is_empty() {
        return;
    }
    let mut mem = core.memory().worker();
    // Where there are no more threads, the system closes them at the end.
    let _ = Task::start(move || ports.iter_mut().for_each(|port| port.close(&mut mem)));
}

fn read(text: &PortText) -> Result<Vec<(u16, PortSpec)>, String> {
    let path = text.path.as_path();
    // A FIFO would be waited for, a device may have no end.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(format!("{}: it is no regular file; no port was changed", path.display()));
    }
    let loader = Loader::new(Vec::new(), &[]);
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    let Some(config) = SwitchConfig::read(path, &loader, &mut files, &mut found) else {
        return Err(format!("no port was changed:\n{}", render::plain(&found, &files)));
    };
    let wrong = |why: String| format!("{}: {why}; no port was changed", path.display());
    let is_more = !config.defines.is_empty()
        || config.program.is_some()
        || config.entries.is_some()
        || config.qos.is_some();
    if is_more || !config.generators.is_empty() {
        return Err(wrong("only `ports` is read here: write the rest in switch.yaml".into()));
    }
    // An editor may empty a file before it writes it: that no port is wanted has to be said.
    let says_nothing = |line: &str| matches!(line.trim().chars().next(), None | Some('#'));
    if files.iter().all(|file| file.text.lines().all(says_nothing)) {
        return Err(wrong("it is empty: write `ports: {}` for a switch without ports".into()));
    }
    let mut texts = Vec::new();
    for (number, port) in &config.ports {
        if port.qos.is_some() {
            let why = "rates and queues are made when the switch starts: write them in switch.yaml";
            return Err(wrong(format!("port {number}: {why}")));
        }
        let Some(interface) = &port.interface else {
            return Err(wrong(format!("port {number} has no `interface`")));
        };
        texts.push(format!("{number}={interface}"));
    }
    let ports = PortSpec::list(&texts, Some(&config), text.capture.as_deref()).map_err(wrong)?;
    ports::files::check(&ports, &text.sources).map_err(wrong)?;
    Ok(ports)
}
