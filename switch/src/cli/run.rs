//! `run`: the software switch.

mod confined;
mod shaped;
mod steer;

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use wireyard_pipeline::diag::{Rejected, counted};
use wireyard_tables::time::Span;

use super::args::{LogLevel, RunArgs, Start};
use super::load::{devices, load_from, load_shown, place, show};
use super::{Failure, Status, counters, log};
use crate::config::SwitchConfig;
use crate::config::room::Holders;
use crate::confine::{Confinement, Refusals};
use crate::control::Control;
use crate::core::{Core, Statistics};
use crate::linux::{Handle, Namespace};
use crate::live::assembly::Assembly;
use crate::live::metrics::Metrics;
use crate::live::port_file::PortFile;
use crate::live::{self, Event, Scheduling, Signals, Workers};
use crate::live::{delay, http};
use crate::management::socket::{Socket, SocketFile};
use crate::p4runtime::device::Device;
use crate::p4runtime::pack;
use crate::p4runtime::server::Bound;
use crate::ports::{PortNumber, PortSpec, Spread, files};
use crate::program::{self, DeviceOptions, Loaded, Place};

/// A port by its number.
type Numbered = (PortNumber, PortSpec);

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
    let (mut file, specs) = ports(args, &loaded)?;
    loaded = shaped::queues(args, loaded, &specs)?;
    if let Some(config) = &mut loaded.config {
        config.live = Some(delay::of_a_process());
    }
    let duration = duration(args.duration)?;
    // Before anything is opened: a reader of the line that reports the start may end it.
    let signals = Signals::catch(!args.is_simple_switch).map_err(|e| format!("signals: {e}"))?;
    let privileged = Privileged::open(args, &loaded, &specs)?;
    let refusals = confined::enter(privileged.confinement.as_ref())?;
    let scheduling = scheduling(args)?;
    let metrics = privileged.metrics.map(Metrics::serve).transpose()?;
    let may_have_more = file.is_some() || specs.is_empty();
    let mut cores = assemble(args, &mut loaded, &specs, may_have_more)?;
    let names = names(&specs, &mut cores);
    let control = Control::of(&cores[0]).ok_or("the device has no control handle")?.clone();
    control.set_files(&specs, loaded.sources().into_iter().chain(args.port_file.clone()).collect());
    let mut begun = steer::begin(args, &control, &loaded)?;
    steer::make_settings(&mut begun, &control, &mut cores)?;
    // The program of a controller, if it was stored.
    let program = control.program();
    let page = steer::page(privileged.page, &control, &program.name)?;
    let steering = (privileged.socket, privileged.controllers);
    let (socket, device) = steer::serve(args, &loaded, (control.clone(), begun), steering)?;
    if let (Some(file), Some(device)) = (&mut file, &device) {
        steer::follow_ports(file, device);
    }
    let linux = steer::linux(&loaded, &mut cores, privileged.namespace)?;
    let mut core = cores.remove(0);
    let mut workers =
        Workers::start(cores, Some(scheduling)).map_err(|error| format!("workers: {error}"))?;
    let mut running = Running { args, file, refusals, metrics, linux, device };
    running.report_start(&control, &names, socket.as_ref(), page);
    // For a service manager (sd_notify(3)).
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let mut handle = |event: Event<'_>, workers: &Workers| running.on(event, workers);
    let result = live::run_until(&mut core, &mut workers, duration, &signals, &mut handle);
    let statistics = running.statistics(&workers, &mut core);
    counters::show(&core, &statistics, args.entry_counters, args.json);
    result?;
    Ok(Status::Success)
}

/// Objects that need more privileges than a running switch has, without threads: made before the switch is confined.
struct Privileged {
    controllers: Option<Bound>,
    socket: Option<Socket>,
    /// The restrictions of the switch from then on.
    confinement: Option<Confinement>,
    namespace: Option<Namespace>,
    /// Bound first: ports below 1024 may need a privilege that the switch then drops.
    metrics: Option<http::Bound>,
    page: Option<http::Bound>,
}

impl Privileged {
    fn open(args: &RunArgs, loaded: &Loaded, specs: &[Numbered]) -> Result<Privileged, Failure> {
        let controllers = steer::controllers(args)?;
        let socket = steer::socket(args, &loaded.program.name)?;
        let confinement = confined::confinement(args, loaded, specs, socket.as_ref())?;
        let namespace = steer::namespace(args, loaded, confinement.clone())?;
        let bound = |what, address: Option<SocketAddr>| {
            address.map(|address| http::Bound::to(what, address)).transpose()
        };
        let (metrics, page) = (bound("--metrics", args.metrics)?, bound("--http", args.http)?);
        Ok(Privileged { controllers, socket, confinement, namespace, metrics, page })
    }
}

/// The devices of the workers, with their memory and their ports.
fn assemble(
    args: &RunArgs,
    loaded: &mut Loaded,
    specs: &[Numbered],
    may_have_more: bool,
) -> Result<Vec<Core>, Failure> {
    let numbers: Vec<PortNumber> = specs.iter().map(|(number, _)| *number).collect();
    let workers = usize::from(args.workers);
    let holders = Holders {
        workers: u32::from(args.workers),
        memory: args.packet_memory,
        ..Holders::spread(specs, may_have_more, Spread::of(specs.len(), workers))
    };
    let room = loaded.size_memory(&numbers, &holders);
    let (memory, large_chunks) = (room.memory(), room.large_chunks);
    let options = DeviceOptions {
        background: true,
        selector_seed: args.selector_seed,
        memory,
        large_chunks,
        ..DeviceOptions::live()
    };
    let specs = room.with_rings(specs);
    for warning in loaded.queue_warnings(&numbers) {
        tracing::warn!("{warning}");
    }
    let assembly = Assembly::new(&specs, workers)?;
    let mut cores = devices(loaded, Some(&args.engine), args.mac_control, options, workers)?;
    if let Some(cpu) = args.cpu_port {
        if numbers.contains(&cpu) {
            return Err(format!("--cpu-port {cpu}: this is the number of a port too").into());
        }
        cores.iter_mut().for_each(|core| core.cpu_port = cpu);
    }
    if let Some(core) = cores.first_mut() {
        core.memory().divide(room.kept, room.later);
    }
    assembly.build(loaded, &mut cores, &mut log::port_note)?;
    Ok(cores)
}

/// The services beside the workers, and the work in their loop.
struct Running<'a> {
    args: &'a RunArgs,
    file: Option<PortFile>,
    refusals: Option<Refusals>,
    metrics: Option<Metrics>,
    linux: Option<Handle>,
    device: Option<Arc<Device>>,
}

impl Running<'_> {
    fn report_start(
        &self,
        control: &Control,
        names: &str,
        socket: Option<&SocketFile>,
        page: Option<SocketAddr>,
    ) {
        let (program, engine) = (control.program(), self.args.engine.engine.name());
        tracing::info!(
            event = "start",
            program = program.name,
            engine,
            "{} runs on {names} ({engine} engine); SIGUSR1 prints counters, Ctrl-C ends{}",
            program.name,
            socket.map_or(String::new(), |file| format!("; control: {}", file.path().display())),
        );
        if let Some(metrics) = &self.metrics {
            let (control, device) = (control.clone(), self.device.clone());
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
    }

    fn statistics(&self, workers: &Workers, core: &mut Core) -> Statistics {
        let linux = self.linux.as_ref().map(Handle::report);
        let mut all = Statistics { linux, ..workers.statistics(core) };
        self.device.iter().for_each(|device| device.report(&mut all));
        all
    }

    fn on(&mut self, event: Event<'_>, workers: &Workers) {
        match event {
            Event::Message(message) => log::message(&message),
            Event::Reload { core, .. } => match self.file.as_mut().map(|file| file.reload(core)) {
                Some(Ok(())) => {}
                Some(Err(why)) => tracing::error!(event = "reload", "{why}"),
                None => tracing::info!(
                    event = "reload",
                    "SIGHUP: there is no --ports FILE to read again: nothing changed"
                ),
            },
            Event::Counters(core) => {
                let statistics = self.statistics(workers, core);
                counters::show(core, &statistics, self.args.entry_counters, self.args.json);
            }
            Event::Polled { core, .. } => self.after_poll(core, workers),
        }
    }

    fn after_poll(&mut self, core: &mut Core, workers: &Workers) {
        confined::report(&mut self.refusals);
        match self.file.as_mut().and_then(|file| file.poll(core)) {
            Some(Ok(changes)) => {
                changes.iter().for_each(|text| tracing::info!(event = "ports", "{text}"));
            }
            Some(Err(why)) => tracing::error!(event = "ports", "{why}"),
            None => {}
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.answer(|| {
                let linux = self.linux.as_ref().map(Handle::report);
                Statistics { linux, ..workers.own_statistics(core) }
            });
        }
    }
}

/// The program that runs first; `None`: the errors were shown.
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

/// The file of ports, if there is one, and the ports.
fn ports(args: &RunArgs, loaded: &Loaded) -> Result<(Option<PortFile>, Vec<Numbered>), Failure> {
    if let Some(path) = &args.port_file {
        let file = PortFile::read(path, args.capture.clone(), loaded.sources())?;
        let specs = file.ports().to_vec();
        files::check_unwritten(&specs)?;
        return Ok((Some(file), specs));
    }
    let specs = port_specs(args, loaded.config.as_ref())?;
    // With a file, ports may come later, as in a container.
    if specs.is_empty() && !args.is_simple_switch {
        return Err("no ports: give --port 1=veth0 --port 2=veth1, --ports FILE, or `ports:` in switch.yaml".into());
    }
    files::check(&specs, &loaded.sources())?;
    files::check_unwritten(&specs)?;
    Ok((None, specs))
}

/// The ports in the form that opens them, for a line of text.
fn names(specs: &[Numbered], cores: &mut [Core]) -> String {
    let name = |(number, _): &Numbered| {
        cores[0].ports_mut().port(*number).map(|port| format!("{number}={}", port.name()))
    };
    let names: Vec<String> = specs.iter().filter_map(name).collect();
    if names.is_empty() { "no port yet".to_owned() } else { names.join(" ") }
}

/// Ports of the command line, or else of the configuration.
fn port_specs(args: &RunArgs, config: Option<&SwitchConfig>) -> Result<Vec<Numbered>, Failure> {
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

/// The scheduling of the workers, after a test that the system grants it.
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
