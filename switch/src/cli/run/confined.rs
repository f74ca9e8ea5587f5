//! The folders that `run` may access once it is confined: those of its arguments.

use std::path::Path;

use super::super::Failure;
use super::super::args::RunArgs;
use crate::confine::{Confinement, Refusals};
use crate::linux;
use crate::management::socket::Socket;
use crate::p4runtime::persist::make_folder;
use crate::ports::{PortNumber, PortSpec};
use crate::program::Loaded;

/// The confinement of this switch; `None` with `--no-sandbox`.
pub(super) fn confinement(
    args: &RunArgs,
    loaded: &Loaded,
    specs: &[(PortNumber, PortSpec)],
    socket: Option<&Socket>,
) -> Result<Option<Confinement>, Failure> {
    if args.no_sandbox {
        return Ok(None);
    }
    let mut confinement = Confinement::new();
    loaded.sources().iter().for_each(|file| confinement.read_beside(file));
    args.program.sources.include.iter().for_each(|folder| confinement.read_beneath(folder));
    if let Some(file) = &args.port_file {
        confinement.read_beside(file);
    }
    for (_, spec) in specs {
        spec.input.iter().for_each(|file| confinement.read_beside(file));
        spec.out.iter().chain(&spec.capture).for_each(|file| confinement.write_beside(file));
    }
    args.capture.iter().for_each(|file| confinement.write_beside(file));
    if let Some(socket) = socket {
        // The socket is removed at the end.
        confinement.write_beneath(socket.path().parent().unwrap_or(Path::new(".")));
    }
    if let Some(folder) = &args.state {
        // Rules can only refer to a folder that exists. If it cannot be made, opening the store reports it.
        let _ = make_folder(folder);
        confinement.write_beneath(folder);
    }
    if super::steer::wants_linux(args, loaded) {
        linux::FILES.iter().for_each(|folder| confinement.write_beneath(Path::new(folder)));
    }
    for folder in &args.writable {
        if !folder.is_dir() {
            return Err(format!("--writable {}: there is no such folder", folder.display()).into());
        }
        confinement.write_beneath(folder);
    }
    if args.realtime {
        confinement.allow_realtime();
    }
    confinement.write_here();
    Ok(Some(confinement))
}

/// Confines the process; returns the refusals, to be reported while it runs.
pub(super) fn enter(confinement: Option<&Confinement>) -> Result<Option<Refusals>, Failure> {
    let Some(confinement) = confinement else { return Ok(None) };
    let entered = confinement
        .enter()
        .map_err(|why| format!("the sandbox: {why}; --no-sandbox runs without it"))?;
    for warning in &entered.warnings {
        tracing::warn!("sandbox: {warning}");
    }
    Ok(Some(entered.refusals))
}

/// Reports system calls that were refused since the last call.
pub(super) fn report(refusals: &mut Option<Refusals>) {
    for number in refusals.iter_mut().flat_map(Refusals::news) {
        tracing::warn!(
            number,
            "the sandbox refused system call {number} of {} (EPERM): please report it; --no-sandbox runs without it",
            std::env::consts::ARCH
        );
    }
}
