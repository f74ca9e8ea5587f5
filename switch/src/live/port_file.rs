//! The ports of a running switch as a file, which may change: `run --ports FILE`, read again on SIGHUP.
//!
//! The file says `ports:` as switch.yaml does. What is in it and not in the switch is added, what is not in it any more is removed, what is written
//! otherwise is both; all others go on undisturbed. New ports are opened before anything is removed, so that a file that
//! cannot be, or a port that cannot be opened, changes nothing.

use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::{Diagnostics, Files, render};
use wireyard_pipeline::source::Loader;
use wireyard_tables::time::Time;

use super::attach_opened;
use crate::config::SwitchConfig;
use crate::core::Core;
use crate::ports::{self, Opened, PortSpec};

/// The file, and what it said last.
#[derive(Debug)]
pub struct PortFile {
    path: PathBuf,
    /// Where ports are recorded that do not say it themselves.
    capture: Option<PathBuf>,
    /// Files of the program, which no port writes.
    sources: Vec<PathBuf>,
    ports: Vec<(u16, PortSpec)>,
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
        let ports = read(path, capture.as_deref(), &sources)?;
        Ok(PortFile { path: path.to_owned(), capture, sources, ports })
    }

    /// The ports that it said last.
    pub fn ports(&self) -> &[(u16, PortSpec)] {
        &self.ports
    }

    /// Reads it again and makes the device's ports what it says. What was done comes back, a line for each port.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn reload(&mut self, core: &mut Core, now: Time) -> Result<Vec<String>, String> {
        let ports = read(&self.path, self.capture.as_deref(), &self.sources)?;
        let is_in = |list: &[(u16, PortSpec)], port: &(u16, PortSpec)| list.contains(port);
        let new: Vec<_> = ports.iter().filter(|port| !is_in(&self.ports, port)).collect();
        let old: Vec<_> = self.ports.iter().filter(|port| !is_in(&ports, port)).collect();
        let opened = open_all(core, &new)?;
        let mut told = Vec::new();
        for (number, spec) in old {
            let error = core.remove_port(now, *number)?;
            told.push(format!("port {number} ({spec}) was removed"));
            told.extend(error.map(|error| error.to_string()));
        }
        for ((number, spec), opened) in new.iter().zip(opened) {
            let notices = attach_opened(core, *number, spec, opened);
            told.push(format!("port {number} ({spec}) was added"));
            told.extend(notices.unwrap_or_else(|why| vec![why]));
        }
        if told.is_empty() {
            told.push(format!("{}: no port changed", self.path.display()));
        }
        self.ports = ports;
        Ok(told)
    }
}

/// Opens all of them, or none.
fn open_all(core: &mut Core, wanted: &[&(u16, PortSpec)]) -> Result<Vec<Opened>, String> {
    let mut all = Vec::new();
    for (number, spec) in wanted {
        match ports::open(spec, core.memory()) {
            Ok(opened) => all.push(opened),
            Err(error) => {
                all.iter_mut().for_each(|opened: &mut Opened| opened.port.close(core.memory()));
                return Err(format!("port {number}: {error}; no port was changed"));
            }
        }
    }
    Ok(all)
}

fn read(
    path: &Path,
    capture: Option<&Path>,
    sources: &[PathBuf],
) -> Result<Vec<(u16, PortSpec)>, String> {
    let loader = Loader::new(Vec::new(), &[]);
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    let Some(config) = SwitchConfig::read(path, &loader, &mut files, &mut found) else {
        return Err(format!("no port was changed:\n{}", render::plain(&found, &files)));
    };
    let wrong = |why: String| format!("{}: {why}; no port was changed", path.display());
    let is_more = config.program.is_some() || config.entries.is_some() || config.qos.is_some();
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
    let ports = PortSpec::list(&texts, Some(&config), capture).map_err(wrong)?;
    ports::files::check(&ports, sources).map_err(wrong)?;
    Ok(ports)
}
