//! The ports of a running switch as a file, which may change: `run --ports FILE`, read again on SIGHUP.
//!
//! The file has `ports:` as in switch.yaml. It is compared with the ports that are open, which `port add` may have put
//! in the place of those at its last reading: ports that are new in it are added, ports that are no longer in it are
//! removed; changed ones are removed and added, with the interface kept open if only number, faults or capture differ.
//! All others are undisturbed: another thread reads the file, opens and closes ports (`exchange`), which may take the
//! kernel some time, and sends requests to the workers through the device's control handle. An invalid file, or a port
//! that cannot be opened, changes nothing.

mod error;
mod exchange;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wireyard_pipeline::diag::{Diagnostics, Files, Rejected};
use wireyard_pipeline::source::Loader;

use crate::config::SwitchConfig;
use crate::control::Control;
use crate::core::Core;
use crate::ports::{self, PortNumber, PortSpec};
pub use error::{ContentError, PortFileError};
use exchange::{Reloaded, Task};

/// The ports that another reading of the file changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPorts {
    /// They were removed.
    pub gone: Vec<PortNumber>,
    /// Ports that were removed and added again, with the settings of the configuration.
    pub back: Vec<PortNumber>,
}

/// A callback for changed ports, in a thread that may wait for the workers.
#[derive(Clone, Default)]
struct Listener(Option<Arc<OnChange>>);

type OnChange = dyn Fn(&ChangedPorts) + Send + Sync;

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// The file, and its ports at the last reading.
#[derive(Debug)]
pub struct PortFile {
    text: PortText,
    listener: Listener,
    ports: Vec<(PortNumber, PortSpec)>,
    /// Present work of the other thread.
    task: Option<Task<Reloaded>>,
    /// SIGHUP came during a reading.
    again: bool,
}

/// The path of the file, and the context for reading it.
#[derive(Clone, Debug)]
struct PortText {
    path: PathBuf,
    /// Capture file of ports without one of their own.
    capture: Option<PathBuf>,
    /// Files of the program, which no port writes.
    sources: Vec<PathBuf>,
}

impl PortFile {
    /// Reads it for the first time; nothing is opened. `sources` are files that no port may write, as the file itself.
    ///
    /// # Errors
    /// Its errors, with places.
    pub fn read(
        path: &Path,
        capture: Option<PathBuf>,
        mut sources: Vec<PathBuf>,
    ) -> Result<PortFile, PortFileError> {
        sources.push(path.to_owned());
        let text = PortText { path: path.to_owned(), capture, sources };
        let ports = read(&text)?;
        Ok(PortFile { text, listener: Listener::default(), ports, task: None, again: false })
    }

    /// Calls `changed` with the changed ports after each later reading; they may be none.
    pub fn on_change(&mut self, changed: impl Fn(&ChangedPorts) + Send + Sync + 'static) {
        self.listener = Listener(Some(Arc::new(changed)));
    }

    /// Its ports at the last reading.
    pub fn ports(&self) -> &[(PortNumber, PortSpec)] {
        &self.ports
    }

    /// Begins to read it again, and to make the device's ports those of the file; [`PortFile::poll`] returns the
    /// result.
    ///
    /// # Errors
    /// No thread or descriptor is left.
    pub fn reload(&mut self, core: &mut Core) -> Result<(), PortFileError> {
        if self.task.is_some() {
            self.again = true;
            return Ok(());
        }
        let (text, known) = (self.text.clone(), self.ports.clone());
        let mem = core.memory().worker();
        let control = Control::of(core).ok_or(PortFileError::NoControl)?.clone();
        let listener = self.listener.clone();
        let task = Task::start(move || {
            let reloaded = exchange::reload(&text, known, &control, mem);
            listener.call(&reloaded.before, &reloaded.ports);
            reloaded
        })
        .map_err(PortFileError::Thread)?;
        self.task = Some(task);
        Ok(())
    }

    /// Checks whether the other thread is done. Then it returns the changes, a line for each port.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn poll(&mut self, core: &mut Core) -> Option<Result<Vec<String>, PortFileError>> {
        let Reloaded { ports, outcome, .. } = match self.task.take()?.outcome() {
            Ok(Some(reloaded)) => reloaded,
            // Its effects until then are found when the file is read again.
            Ok(None) => return Some(Err(PortFileError::Defect)),
            Err(task) => {
                self.task = Some(task);
                return None;
            }
        };
        self.ports = ports;
        if std::mem::take(&mut self.again)
            && let Err(why) = self.reload(core)
        {
            return Some(Err(why));
        }
        Some(outcome)
    }
}

impl Listener {
    fn call(&self, before: &[(PortNumber, PortSpec)], after: &[(PortNumber, PortSpec)]) {
        let Some(on_change) = &self.0 else { return };
        let is_there = |number: &PortNumber| after.iter().any(|(known, _)| known == number);
        let changed = before.iter().filter(|port| !after.contains(port));
        let (back, gone) = changed.map(|(number, _)| *number).partition(is_there);
        // Ports of the file that `port remove` had removed are added without being another.
        on_change(&ChangedPorts { gone, back });
    }
}

fn read(text: &PortText) -> Result<Vec<(PortNumber, PortSpec)>, PortFileError> {
    let path = text.path.as_path();
    // A FIFO would block, a device may have no end.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(PortFileError::NoFile(path.to_owned()));
    }
    let loader = Loader::new(Vec::new(), &[]);
    let (mut files, mut diagnostics) = (Files::new(), Diagnostics::new());
    let Some(config) = SwitchConfig::read(path, &loader, &mut files, &mut diagnostics) else {
        return Err(PortFileError::Rejected(Box::new(Rejected { diagnostics, files })));
    };
    ports_of(&config, &files, text)
        .map_err(|problem| PortFileError::Content { file: path.to_owned(), problem })
}

/// The ports of a file that has nothing else.
fn ports_of(
    config: &SwitchConfig,
    files: &Files,
    text: &PortText,
) -> Result<Vec<(PortNumber, PortSpec)>, ContentError> {
    let is_more = !config.defines.is_empty()
        || config.program.is_some()
        || config.entries.is_some()
        || config.qos.is_some()
        || config.notification != Default::default()
        || config.linux.is_some();
    if is_more || !config.generators.is_empty() {
        return Err(ContentError::More);
    }
    // An editor may empty a file before it writes it: an empty list of ports must be explicit.
    let says_nothing = |line: &str| matches!(line.trim().chars().next(), None | Some('#'));
    if files.iter().all(|file| file.text.lines().all(says_nothing)) {
        return Err(ContentError::Empty);
    }
    let mut texts = Vec::new();
    for (number, port) in &config.ports {
        if port.qos.is_some() {
            return Err(ContentError::Queues(*number));
        }
        let interface = port.interface.as_ref().ok_or(ContentError::NoInterface(*number))?;
        texts.push(format!("{number}={interface}"));
    }
    let ports = PortSpec::list(&texts, |port| config.link_of(port), text.capture.as_deref())?;
    ports::files::check(&ports, &text.sources)?;
    Ok(ports)
}
