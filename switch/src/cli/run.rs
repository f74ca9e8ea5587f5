//! `run`: the software switch.

mod confined;
mod steer;

use std::num::NonZero;
use std::thread::available_parallelism;

use wireyard_pipeline::diag::{Rejected, counted};
use wireyard_tables::time::Span;

use super::args::{LogLevel, RunArgs, Start};
use super::load::{devices, load_from, load_shown, place, show};
use super::{Failure, Status, counters, log};
use crate::config::SwitchConfig;
use crate::config::room::Holders;
use crate::core::{Core, Statistics};
use crate::linux::Handle;
use crate::live::assembly::Assembly;
use crate::live::delay;
use crate::live::http::Bound;
use crate::live::metrics::Metrics;
use crate::live::port_file::PortFile;
use crate::live::{self, Event, Scheduling, Signals, Workers};
use crate::p4runtime::pack;
use crate::ports::{PortSpec, Spread, files};
use crate::program::{self, DeviceOptions, Loaded, Place};

pub(super) fn run(args: &RunArgs) -> Status {
    match start(args) {
        Ok(status) => status,
        Err(failure) => {
            log::wrong(&failure.to_string());
            Status::Wrong
        }
    }
}

fn start(args: &RunArgs) -> Result<Status, Failure> {
    log::start(args.log, args.log_json);
    args.check_addresses()?;
    live::give_memory_back();
    let place = Place { config: args.config.clone(), ..place(&args.program) };
    let Some(mut loaded) = first(args, &place)? else { return Ok(Status::Wrong) };
    if let Some(config) = &mut loaded.config {
        config.live = Some(delay::of_a_process());
    }
    let mut file = match &args.port_file {
        Some(path) => Some(PortFile::read(path, args.capture.clone(), loaded.sources())?),
        None => None,
    };
    let specs = match &file {
        Some(file) => file.ports().to_vec(),
        None => port_specs(args, loaded.config.as_ref())?,
    };
    // With a file ports may come later, as they do in a container.
    if specs.is_empty() && file.is_none() {
        return Err("no ports: give --port 1=veth0 --port 2=veth1, --ports FILE, or `ports:` in switch.yaml".into());
    }
    if file.is_none() {
        files::check(&specs, &loaded.sources())?;
    }
    let duration = duration(args.duration)?;
    // Before anything is opened: whoever reads that it runs can end it.
    let signals = Signals::catch(true).map_err(|e| format!("signals: {e}"))?;
    // What takes more than a running switch has, and no thread, comes before it is confined.
    let controllers = steer::controllers(args)?;
    let socket = steer::socket(args, &loaded.program.name)?;
    let confinement = confined::confinement(args, &loaded, &specs, socket.as_ref())?;
    let namespace = steer::namespace(args, &loaded, confinement.clone())?;
    // A port below 1024 may be of a user who gives that up now.
    let metrics = args.metrics.map(|address| Bound::to("--metrics", address)).transpose()?;
    let page = args.http.map(|address| Bound::to("--http", address)).transpose()?;
    let mut refusals = confined::enter(confinement.as_ref())?;
    let scheduling = scheduling(args)?;
    let mut metrics = metrics.map(Metrics::serve).transpose()?;
    let numbers: Vec<u16> = specs.iter().map(|(number, _)| *number).collect();
    let workers = usize::from(args.workers);
    let holders = Holders {
        workers: u32::from(args.workers),
        memory: args.packet_memory,
        ..Holders::spread(&specs, file.is_some(), Spread::of(specs.len(), workers))
    };
    let room = loaded.size_memory(&numbers, &holders);
    let (memory, large_chunks) = (room.memory(), room.large_chunks);
    let options = DeviceOptions { background: true, memory, large_chunks, ..DeviceOptions::live() };
    let specs = room.with_rings(&specs);
    for warning in loaded.queue_warnings(&numbers) {
        tracing::warn!("{warning}");
    }
    let assembly = Assembly::new(&specs, workers)?;
    let mut cores = devices(&loaded, Some(&args.engine), args.mac_control, options, workers)?;
    if let Some(cpu) = args.cpu_port {
        if numbers.contains(&cpu) {
            return Err(format!("--cpu-port {cpu}: this is the number of a port too").into());
        }
        cores.iter_mut().for_each(|core| core.cpu_port = cpu);
    }
    if let Some(core) = cores.first_mut() {
        core.memory().divide(room.kept, room.later);
    }
    assembly.build(&loaded, &mut cores, &mut log::note)?;
    let mut name =
        |number: &u16| cores[0].port(*number).map(|port| format!("{number}={}", port.name()));
    let names: Vec<String> = numbers.iter().filter_map(&mut name).collect();
    let control = cores[0].control().ok_or("the device has no control handle")?.clone();
    let begun = steer::begin(args, &control, &loaded.parsed)?;
    steer::make_settings(&loaded, &begun, &control, &mut cores)?;
    // That of a controller, where it was kept.
    let program = control.program();
    let page = steer::page(page, &control, &program.name)?;
    let (socket, device) =
        steer::serve(args, &loaded, (control.clone(), begun), (socket, controllers))?;
    if let (Some(file), Some(device)) = (&mut file, &device) {
        steer::follow_ports(file, device);
    }
    let linux = steer::linux(&loaded, &mut cores, namespace)?;
    let mut core = cores.remove(0);
    let mut workers =
        Workers::start(cores, Some(scheduling)).map_err(|error| format!("workers: {error}"))?;
    tracing::info!(
        event = "start",
        program = program.name,
        engine = args.engine.engine.kind().name(),
        "{} runs on {} ({} engine); SIGUSR1 prints counters, Ctrl-C ends{}",
        program.name,
        if names.is_empty() { "no port yet".to_owned() } else { names.join(" ") },
        args.engine.engine.kind().name(),
        socket
            .as_ref()
            .map_or(String::new(), |file| format!("; control: {}", file.path().display())),
    );
    if let Some(metrics) = &metrics {
        let (control, device) = (control.clone(), device.clone());
        metrics.add_by(move |statistics| {
            statistics.program = Some(control.program_report());
            device.iter().for_each(|device| device.report(statistics));
        });
        let address = metrics.address();
        tracing::info!(event = "metrics", %address, "metrics on http://{address}/metrics");
    }
    if let Some(address) = page {
        tracing::info!(event = "page", %address, "page on http://{address}/");
    }
    // For a service manager that waits for it (sd_notify(3)).
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let all = |workers: &Workers, core: &mut Core| {
        let linux = linux.as_ref().map(Handle::report);
        let mut all = Statistics { linux, ..workers.statistics(core) };
        device.iter().for_each(|device| device.report(&mut all));
        all
    };
    let mut handle = |event: Event<'_>, workers: &Workers| match event {
        Event::Message(message) => log::message(&message),
        Event::Reload { core, .. } => match file.as_mut().map(|file| file.reload(core)) {
            Some(Ok(())) => {}
            Some(Err(why)) => tracing::error!(event = "reload", "{why}"),
            None => tracing::info!(
                event = "reload",
                "SIGHUP: there is no --ports FILE to read again: nothing changed"
            ),
        },
        Event::Counters(core) => {
            let statistics = all(workers, core);
            counters::show(core, &statistics, args.entry_counters, args.json);
        }
        Event::Turn { core, .. } => {
            confined::report(&mut refusals);
            match file.as_mut().and_then(|file| file.poll(core)) {
                Some(Ok(changes)) => {
                    changes.iter().for_each(|text| tracing::info!(event = "ports", "{text}"));
                }
                Some(Err(why)) => tracing::error!(event = "ports", "{why}"),
                None => {}
            }
            if let Some(metrics) = &mut metrics {
                metrics.answer(|| {
                    let linux = linux.as_ref().map(Handle::report);
                    Statistics { linux, ..workers.own_statistics(core) }
                });
            }
        }
    };
    let result = live::run_until(&mut core, &mut workers, duration, &signals, &mut handle);
    let statistics = all(&workers, &mut core);
    counters::show(&core, &statistics, args.entry_counters, args.json);
    result.map_err(|e| format!("the run loop: {e}"))?;
    Ok(Status::Success)
}

/// The program that runs first; `None`: what is wrong was shown.
fn first(args: &RunArgs, place: &Place) -> Result<Option<Loaded>, Failure> {
    let rejected = |why: Rejected| format!("the program is rejected:\n{why}");
    match &args.start {
        Start::Program if args.log_json => Ok(load_shown(place, log::diagnostics)),
        Start::Program if args.log == LogLevel::Error => Ok(load_shown(place, |found, files| {
            if found.has_errors() {
                show(found, files);
            }
        })),
        Start::Program => Ok(load_from(place)),
        Start::Nothing => {
            let text = "pipeline: no_program\ningress: [ drop ]\n";
            Ok(Some(program::from_text("no_program.yaml", text).map_err(rejected)?))
        }
        Start::Packed(blob) => {
            let parsed = pack::unpack(blob, None)?;
            Ok(Some(program::without_entries(parsed).map_err(rejected)?))
        }
    }
}

/// Ports of the command line, or else of the configuration.
fn port_specs(
    args: &RunArgs,
    config: Option<&SwitchConfig>,
) -> Result<Vec<(u16, PortSpec)>, Failure> {
    let configured = config.iter().flat_map(|config| &config.ports);
    let configured = configured
        .filter_map(|(n, port)| port.interface.as_ref().map(|text| format!("{n}={text}")));
    let texts = match args.ports.is_empty() {
        true => configured.collect(),
        false => args.ports.clone(),
    };
    let link_of = |port| config.and_then(|config| config.link_of(port));
    Ok(PortSpec::list(&texts, link_of, args.capture.as_deref())?)
}

/// How the workers get a processor, once the system has shown that it grants it.
fn scheduling(args: &RunArgs) -> Result<Scheduling, Failure> {
    if !args.realtime {
        return Ok(Scheduling::Shared);
    }
    Scheduling::RealTime.check().map_err(|why| {
        format!(
            "--realtime: {why}: run as root, with CAP_SYS_NICE, or with a limit of real-time priorities of 1 (ulimit -r 1, LimitRTPRIO=1 in a unit)"
        )
    })?;
    let processors = available_parallelism().map_or(1, NonZero::get);
    if usize::from(args.workers) >= processors {
        tracing::warn!(
            "--realtime: {} for {} of this machine: while packets come, little is left for anything else",
            counted(usize::from(args.workers), "worker"),
            counted(processors, "processor"),
        );
    }
    Ok(Scheduling::RealTime)
}

fn duration(seconds: Option<f64>) -> Result<Option<Span>, Failure> {
    match seconds {
        None => Ok(None),
        Some(s) if s > 0.0 && s < 1e9 => Ok(Some(Span::from_ns((s * 1e9) as u64))),
        Some(s) if s >= 1e9 => Err(format!("--duration {s}: at most 1000000000 seconds").into()),
        Some(s) => Err(format!("--duration {s}: give a number of seconds above 0").into()),
    }
}
