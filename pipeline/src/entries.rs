//! The initial contents of a program's tables and arrays: an entries file, resolved against the checked program.
//!
//! [`resolve`] checks everything that can be checked without a device and reports all errors with places;
//! [`Resolved::apply`] applies the result to a [`State`](crate::state::State). [`load`] does it from the file, and
//! reads a large one in parts, so that a million entries take little more memory than their resolved form. Multicast
//! groups and mirror sessions belong to the device; they are kept here as they are written.

use crate::check;
use crate::diag::{Diagnostics, Files};
use crate::ir::Program;
use crate::source::Loader;
use crate::source::chunks::{self, Sizes};
use std::path::Path;

pub use crate::check::{Purpose, resolve_entries as resolve};
pub use crate::state::entries::{
    ApplyError, MirrorSession, MulticastGroup, Replica, Resolved, Setting,
};

/// Reads an entries file and resolves it. Its text is added to `files`, those of the program, as far as errors refer to
/// it. `None`: the errors are in `diagnostics`.
pub fn load(
    path: &Path,
    loader: &Loader,
    program: &Program,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    load_for(path, loader, program, Purpose::Fill, files, diagnostics)
}

/// The same for a program that runs.
pub fn load_for(
    path: &Path,
    loader: &Loader,
    program: &Program,
    purpose: Purpose,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    load_with(path, loader, program, (purpose, Sizes::default()), files, diagnostics)
}

fn load_with(
    path: &Path,
    loader: &Loader,
    program: &Program,
    (purpose, sizes): (Purpose, Sizes),
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    let (file, chunks) = chunks::open(path, loader, sizes, files, diagnostics)?;
    let mut chunks = chunks;
    let mut next = |found: &mut Diagnostics| chunks.as_mut()?.next(files, found);
    check::resolve_chunks(&file, program, purpose, diagnostics, &mut next)
}

#[cfg(test)]
mod tests;
