//! The files that a running device reads and writes, which ports to come must not damage.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{Control, ControlError};
use crate::confine;
use crate::core::Core;
use crate::file_identity::Identity;
use crate::ports::files::{self, CaptureFile, InUse};
use crate::ports::{PortNumber, PortSpec};
use crate::sync::lock;

type Result<T> = std::result::Result<T, ControlError>;

impl Control {
    /// Sets the ports that the device began with, and the files that no port may write.
    pub(crate) fn set_files(&self, ports: &[(PortNumber, PortSpec)], sources: Vec<PathBuf>) {
        lock(&self.shared.specs).extend(ports.iter().cloned());
        self.shared.sources.get_or_init(|| sources);
    }

    /// The files in use.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub(crate) fn files_in_use(&self) -> Result<InUse> {
        let captures = self.capture_files()?.into_iter().flatten().collect();
        let sources = self.shared.sources.get().cloned().unwrap_or_default();
        Ok(InUse { sources, ports: self.port_specs().into_iter().collect(), captures })
    }

    /// The captures that each worker is writing.
    pub(super) fn capture_files(&self) -> Result<Vec<Vec<CaptureFile>>> {
        let files = |core: &mut Core, _| core.captures().files.open_files();
        (0..self.workers()).map(|worker| self.ask(worker, files)).collect()
    }

    /// Drops what workers report of ended captures in this file, which another one has replaced.
    pub(super) fn drop_ended_captures(&self, file: &Path) {
        for worker in 0..self.workers() {
            let file = file.to_owned();
            // A worker that does not answer leaves an old report in the list, and the capture has begun.
            let _ = self.ask(worker, move |core, _| core.captures().files.drop_ended(&file));
        }
    }

    /// Checks the files of a port that is to be added. Its output is new: what stands there may be anybody's, as it is a
    /// client that names it. So is its capture, or it is one that other ports are recorded into, which it then names as
    /// they do.
    ///
    /// # Errors
    /// [`ControlError::AlreadyExists`]: its output or capture exists; [`ControlError::FailedPrecondition`]: a file is in use, or
    /// cannot be written.
    pub(super) fn check_files(&self, number: PortNumber, spec: &mut PortSpec) -> Result<()> {
        let used = self.files_in_use()?;
        let is_regular = |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file());
        let mut captures = used.captures.iter().filter(|capture| capture.takes_ports);
        let joined = spec.capture.as_deref().and_then(Identity::known).and_then(|wanted| {
            captures.find(|capture| Identity::known(&capture.path).as_ref() == Some(&wanted))
        });
        let capture = spec.capture.iter().filter(|path| joined.is_none() && is_regular(path));
        // No link and no pipe either, whose reader the worker would wait for. A device (/dev/null) loses nothing.
        let is_taken = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_char_device())
        };
        let output = spec.out.iter().filter(is_taken);
        let exists = output.chain(capture).next().cloned();
        if let Some(joined) = joined {
            spec.capture = Some(joined.path.clone());
        }
        // Checked here because a port opens its file only with its first frame.
        let output = PortSpec { capture: None, ..spec.clone() };
        let checked = files::check_beside(&[(number, spec.clone())], &used);
        checked.and_then(|()| files::check_unwritten(&[(number, output)])).map_err(|error| {
            let advice = error.refused().map_or(String::new(), confine::advice);
            ControlError::FailedPrecondition(error.to_string() + &advice)
        })?;
        match exists {
            Some(path) => Err(ControlError::exists(&path)),
            None => Ok(()),
        }
    }
}
