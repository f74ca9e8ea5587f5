//! `check`: all errors of a program, or of a configuration alone.

use std::path::Path;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, codes, counted, json};
use wireyard_pipeline::source::{
    CheckedP4, Loader, PROGRAM_BYTES_MAX, check_p4, is_p4, only_limits,
};

use super::args::{CheckArgs, MacControl};
use super::load::{device, read, show};
use super::{Status, print, print_json};
use crate::config::SwitchConfig;
use crate::config::qos::{PROCESS_DELAY, Report};
use crate::config::room::Room;
use crate::file_kind::FileKind;
use crate::library::LIBRARIES;
use crate::program::{DeviceOptions, Place};
use crate::roce::rp::program::Program;

pub(super) fn run(args: &CheckArgs) -> Status {
    let checked = match (&args.program, &args.config) {
        (Some(program), _) => check_program(program, args),
        (None, Some(config)) => check_config(config),
        // The command line requires one of them.
        (None, None) => return Status::Wrong,
    };
    match checked {
        Ok(checked) => show_checked(&checked, args),
        Err(Refusal::Device(message)) => {
            super::complain(&message);
            Status::Failed
        }
        Err(Refusal::Rejected(rejected)) => {
            let Rejected { diagnostics, files } = *rejected;
            report(&diagnostics, &files, args.json);
            if !args.json {
                super::complain(&diagnostics.summary());
            }
            // A file that was not read was not checked.
            let unread = diagnostics.iter().any(|found| found.code == codes::FILE_NOT_READ);
            if unread { Status::Wrong } else { Status::Failed }
        }
    }
}

/// The results of a check without errors.
struct Checked {
    /// One line about the files that were read.
    summary: String,
    warnings: Diagnostics,
    files: Files,
    /// The resolved queues of the configuration, or its contradictions.
    queues: Option<Result<Box<Report>, Box<Report>>>,
    /// The packet memory of a live switch.
    room: Option<Room>,
}

/// Why the check failed.
enum Refusal {
    Rejected(Box<Rejected>),
    Device(String),
}

fn queues_of(config: &SwitchConfig) -> Option<Result<Box<Report>, Box<Report>>> {
    config.queues(&[]).map(|queues| queues.map(|qos| Box::new(qos.report)))
}

/// A rate control, if the file is one.
fn check_rate_control(path: &Path) -> Option<Result<Checked, Refusal>> {
    if is_p4(path) {
        return None;
    }
    let read = Loader::new(Vec::new(), LIBRARIES).read(path, PROGRAM_BYTES_MAX).ok()?;
    let text = String::from_utf8(read).ok()?;
    if FileKind::of(&text) != Some(FileKind::RateControl) {
        return None;
    }
    let parsed = Program::parse(&shown(path), &text);
    Some(match parsed {
        Ok(program) => {
            let (name, parameters) = (program.name(), program.parameters().len());
            let summary = format!("rate control {name}: {}", counted(parameters, "parameter"));
            let (warnings, files) = (Diagnostics::new(), Files::new());
            Ok(Checked { summary, warnings, files, queues: None, room: None })
        }
        Err(rejected) => Err(Refusal::Rejected(Box::new(rejected))),
    })
}

/// A program in P4, with nothing beside it, that is correct and does not run here: of another architecture, or with
/// features that Wireyard does not support. Authors of P4 for several targets check only that it is correct; `--strict`
/// requires that it runs.
fn check_p4_alone(path: &Path, args: &CheckArgs, rejected: &Rejected) -> Option<Checked> {
    if !is_p4(path) || args.entries.is_some() || args.config.is_some() {
        return None;
    }
    let loader = Loader::new(args.sources.include.clone(), LIBRARIES);
    // Its errors were already reported on loading.
    let checked = check_p4(path, &loader.with_defines(args.sources.defines.clone())).ok()?;
    let checked_as = |why: &str| format!("{}: checked; {why}", shown(path));
    let CheckedP4 { warnings, files, not_run, .. } = checked;
    let (warnings, files, why) = match not_run {
        Some(why) => (warnings, files, why),
        None => {
            let limits = only_limits(&rejected.diagnostics)?;
            let why = "it is right P4-16 and does not run here, as the warnings say".to_owned();
            (limits, rejected.files.clone(), why)
        }
    };
    Some(Checked { summary: checked_as(&why), warnings, files, queues: None, room: None })
}

fn check_program(program: &Path, args: &CheckArgs) -> Result<Checked, Refusal> {
    if let Some(checked) = check_rate_control(program) {
        return checked;
    }
    let place = Place {
        program: program.to_owned(),
        include: args.sources.include.clone(),
        defines: args.sources.defines.clone(),
        entries: args.entries.clone(),
        config: args.config.clone(),
        max_state: args.limits.max_state(),
        ..Place::default()
    };
    let mut loaded = match read(&place) {
        Ok(loaded) => loaded,
        Err(rejected) => {
            let alone = check_p4_alone(program, args, &rejected);
            return alone.ok_or_else(|| Refusal::Rejected(Box::new(rejected)));
        }
    };
    if let Some(config) = &mut loaded.config {
        config.live = Some(PROCESS_DELAY);
    }
    // Building the device finds errors that only the tables detect: entries that collide, or too many.
    let engine = Some(&args.engine);
    device(&loaded, engine, MacControl::Port, DeviceOptions::default())
        .map_err(|error| Refusal::Device(error.to_string()))?;
    loaded.config.as_ref().map_or(Ok(()), check_ports)?;
    let program = &loaded.program;
    let parts = [
        (program.parser.states.len(), "state"),
        (program.tables.len(), "table"),
        (program.actions.len(), "action"),
        (program.instances.len(), "header instance"),
        (program.carried_bytes as usize, "carried byte"),
    ];
    let parts = parts.map(|(count, thing)| counted(count, thing)).join(", ");
    let summary = format!("{}: {parts}", program.name);
    let queues = loaded.config.as_ref().and_then(|config| config.queues(&[]));
    let resolved = queues.as_ref().and_then(|qos| qos.as_ref().ok());
    let weaknesses = resolved.map(|qos| loaded.weaknesses(qos)).unwrap_or_default();
    let mut queues = queues.map(|queues| queues.map(|qos| Box::new(qos.report)));
    if let Some(Ok(report)) = &mut queues {
        report.warnings.extend(weaknesses);
    }
    let room = loaded.config.as_ref().and_then(|config| config.room(&[], None));
    Ok(Checked { summary, warnings: loaded.warnings, files: loaded.files, queues, room })
}

/// The errors of `run` in the ports of the configuration.
fn check_ports(config: &SwitchConfig) -> Result<(), Refusal> {
    let own = config.own_ports();
    own.map_or(Ok(()), |own| config.check_generators(&own))
        .map_err(|error| Refusal::Device(error.to_string()))
}

/// A configuration by itself; a program that it names is not read.
fn check_config(path: &Path) -> Result<Checked, Refusal> {
    let loader = Loader::new(Vec::new(), LIBRARIES);
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    let Some(mut config) = SwitchConfig::read(path, &loader, &mut files, &mut found) else {
        return Err(Refusal::Rejected(Box::new(Rejected { diagnostics: found, files })));
    };
    config.live = Some(PROCESS_DELAY);
    check_ports(&config)?;
    let queues = queues_of(&config);
    let with = if queues.is_some() { "with queues" } else { "without queues" };
    let summary = format!("{}: {} ports, {with}", shown(path), config.ports.len());
    Ok(Checked { summary, warnings: found, files, queues, room: config.room(&[], None) })
}

fn show_checked(checked: &Checked, args: &CheckArgs) -> Status {
    let Checked { summary, warnings, files, queues, room } = checked;
    let refused = queues.as_ref().is_some_and(Result::is_err);
    let report = queues.as_ref().map(|queues| queues.as_ref().unwrap_or_else(|report| report));
    let weak = report.is_some_and(|report| !report.warnings.is_empty());
    if args.json {
        let found = json::to_json(warnings, files);
        // With queues in the configuration, the list of diagnostics is one of several parts.
        print_json(&match report {
            Some(report) => {
                serde_json::json!({ "diagnostics": found, "queues": report, "packets": room })
            }
            None => found,
        });
    } else {
        show(warnings, files);
        print(&report.map(|report| report.to_string()).unwrap_or_default());
        print(&room.as_ref().map(|room| format!("{room}\n")).unwrap_or_default());
        let count = warnings.counts().1 + report.map_or(0, |report| report.warnings.len());
        let errors = report.map_or(0, |report| report.problems.len());
        let found = match errors {
            0 => counted(count, "warning"),
            _ => format!("{}, {}", counted(errors, "error"), counted(count, "warning")),
        };
        print(&format!("{summary}; {found}\n"));
        if refused {
            super::complain("queues that cannot be: the errors stand with the queues above");
        }
    }
    if refused || args.strict && (weak || !warnings.is_empty()) {
        Status::Failed
    } else {
        Status::Success
    }
}

fn report(diagnostics: &Diagnostics, files: &Files, as_json: bool) {
    if as_json {
        print_json(&json::to_json(diagnostics, files));
    } else {
        show(diagnostics, files);
    }
}
