//! Reading a program for a command, with its errors and warnings shown.

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostic, Diagnostics, Files, Rejected, codes, render};
use wireyard_pipeline::entries::Setting;

use super::args::{EngineArgs, MacControl, ProgramArgs};
use super::{colours, log};
use crate::core::{Core, MacControlPolicy};
use crate::management::queues;
use crate::program::{self, BuildError, DeviceOptions, Loaded, Place};
use crate::terminal;

/// The place of the program in the arguments.
pub(super) fn place(args: &ProgramArgs) -> Place {
    Place {
        program: args.program.clone(),
        include: args.sources.include.clone(),
        defines: args.sources.defines.clone(),
        entries: args.entries.clone(),
        max_state: args.limits.max_state(),
        ..Place::default()
    }
}

/// Reads and checks a program; errors and warnings are shown. `None`: it cannot be used.
pub(super) fn load(args: &ProgramArgs) -> Option<Loaded> {
    load_from(&place(args))
}

/// Like [`load`], from any place.
pub(super) fn load_from(place: &Place) -> Option<Loaded> {
    load_shown(place, show)
}

/// A program whose settings of queues are correct too, and whose macros have a meaning.
pub(super) fn read(place: &Place) -> Result<Loaded, Rejected> {
    let loaded = program::load(place)?;
    let mut found = Diagnostics::new();
    let of_config = loaded.config.as_ref().is_some_and(|config| !config.defines.is_empty());
    for (option, is_given) in
        [("-D (--define)", !place.defines.is_empty()), ("`defines:` of switch.yaml", of_config)]
    {
        if is_given && !loaded.is_in_p4() {
            let name = shown(&place.program);
            let text = format!("{option}: macros are of a program in P4, and {name} is none");
            found.push(Diagnostic::new(codes::WRONG_PLACE, None, text));
        }
    }
    for Setting { set, spans, .. } in loaded.entries.iter().flat_map(|entries| &entries.settings) {
        // The first that is wrong, beside those before it.
        let wrong =
            (0..set.len()).find_map(|last| Some((last, queues::check(&set[..=last]).err()?)));
        if let Some((at, why)) = wrong {
            found.error(codes::UNKNOWN_CHOICE, spans[at], why.to_string());
        }
    }
    match found.has_errors() {
        true => Err(Rejected { diagnostics: found, files: loaded.files }),
        false => Ok(loaded),
    }
}

/// Like [`load_from`], with warnings and errors shown in another way.
pub(super) fn load_shown(place: &Place, show: impl Fn(&Diagnostics, &Files)) -> Option<Loaded> {
    match read(place) {
        Ok(loaded) => {
            show(&loaded.warnings, &loaded.files);
            Some(loaded)
        }
        Err(Rejected { diagnostics, files }) => {
            show(&diagnostics, &files);
            log::wrong(&format!("{}: nothing was loaded", diagnostics.summary()));
            None
        }
    }
}

/// Prints diagnostics to standard error.
pub(super) fn show(diagnostics: &Diagnostics, files: &Files) {
    if diagnostics.is_empty() {
        return;
    }
    let text = if colours() {
        render::coloured(diagnostics, files)
    } else {
        render::plain(diagnostics, files)
    };
    terminal::styled(&format!("{text}\n"));
}

/// A device for a loaded program, with the options of the arguments.
pub(super) fn device(
    loaded: &Loaded,
    engine: Option<&EngineArgs>,
    mac_control: MacControl,
    options: DeviceOptions,
) -> Result<Core, BuildError> {
    let mut cores = devices(loaded, engine, mac_control, options, 1)?;
    cores.pop().ok_or(BuildError::NoWorker)
}

/// The same for several workers.
pub(super) fn devices(
    loaded: &Loaded,
    engine: Option<&EngineArgs>,
    mac_control: MacControl,
    mut options: DeviceOptions,
    workers: usize,
) -> Result<Vec<Core>, BuildError> {
    if let Some(args) = engine {
        options.opt_level = args.opt_level.unwrap_or(options.opt_level);
        options.engine = args.engine;
    }
    let mut cores = loaded.workers(options, workers)?;
    for core in &mut cores {
        core.mac_control = match mac_control {
            MacControl::Port => MacControlPolicy::Consume,
            MacControl::Pass => MacControlPolicy::Pass,
        };
    }
    Ok(cores)
}
