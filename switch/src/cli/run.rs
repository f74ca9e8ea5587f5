//! `run`: the software switch.

use wireyard_tables::time::Span;

use super::args::RunArgs;
use super::load::{devices, load_from, place};
use super::{Status, complain, counters, say};
use crate::config::SwitchConfig;
use crate::config::qos::Part;
use crate::core::Core;
use crate::live::metrics::Metrics;
use crate::live::port_file::PortFile;
use crate::live::{self, Event, Signals, Workers};
use crate::ports::PortSpec;
use crate::ports::absent::AbsentPort;
use crate::program::{DeviceOptions, Loaded, Place};

pub(super) fn run(args: &RunArgs) -> Status {
    match start(args) {
        Ok(status) => status,
        Err(message) => {
            complain(&message);
            Status::Wrong
        }
    }
}

fn start(args: &RunArgs) -> Result<Status, String> {
    let place = Place { config: args.config.clone(), ..place(&args.program) };
    let Some(loaded) = load_from(&place) else { return Ok(Status::Wrong) };
    let mut file = match &args.port_file {
        Some(_) if args.workers > 1 => {
            return Err(
                "--ports: the ports of several workers stay as they are: use --workers 1".into()
            );
        }
        Some(path) => Some(PortFile::read(path, args.capture.clone())?),
        None => None,
    };
    let specs = match &file {
        Some(file) => file.ports().to_vec(),
        None => port_specs(args, loaded.config.as_ref())?,
    };
    if specs.is_empty() {
        return Err("no ports: give --port 1=veth0 --port 2=veth1, --ports FILE, or `ports:` in switch.yaml".into());
    }
    let duration = duration(args.duration)?;
    let mut metrics = args.metrics.map(Metrics::bind).transpose()?;
    let options = DeviceOptions { background: true, ..DeviceOptions::default() };
    let workers = usize::from(args.workers);
    if workers > specs.len() {
        return Err(format!(
            "--workers {workers}: each worker has ports of its own, and there are {}: use --workers {}",
            specs.len(),
            specs.len()
        ));
    }
    check_captures(&specs, workers)?;
    let mut cores = devices(&loaded, Some(&args.engine), args.mac_control, options, workers)?;
    open_ports(&mut cores, &specs)?;
    set_queues(&loaded, &mut cores, &specs)?;
    let names: Vec<String> = specs.iter().map(|(n, s)| format!("{n}={s}")).collect();
    say(&format!(
        "{} runs on {} ({} engine); SIGUSR1 prints counters, Ctrl-C ends",
        loaded.program.name,
        names.join(" "),
        args.engine.engine.kind().name(),
    ));
    if let Some(metrics) = &metrics {
        say(&format!("metrics on http://{}/metrics", metrics.address()));
    }
    let mut core = cores.remove(0);
    let mut workers = Workers::start(cores)?;
    let signals = Signals::catch(file.is_some()).map_err(|e| format!("signals: {e}"))?;
    let mut tell = |event: Event<'_>, workers: &Workers| match event {
        Event::Message(message) => say(&message),
        Event::Reload { core, now } => match file.as_mut().map(|file| file.reload(core, now)) {
            Some(Ok(told)) => told.iter().for_each(|text| say(text)),
            Some(Err(why)) => complain(&why),
            None => {}
        },
        Event::Counters(core) => counters::show(&workers.statistics(core), args.json),
        Event::Turn { core, .. } => {
            if let Some(metrics) = &mut metrics {
                metrics.answer(|| workers.statistics(core));
            }
        }
    };
    let result = live::run_until(&mut core, &mut workers, duration, &signals, &mut tell);
    counters::show(&workers.statistics(&mut core), args.json);
    result.map_err(|e| format!("the run loop: {e}"))?;
    Ok(Status::Success)
}

/// The worker of a port, by the port's place on the command line: they take turns.
fn owner(place: usize, workers: usize) -> usize {
    place % workers.max(1)
}

/// Opens each port at its worker; the others get its place.
fn open_ports(cores: &mut [Core], specs: &[(u16, PortSpec)]) -> Result<(), String> {
    let workers = cores.len();
    for (place, (number, spec)) in specs.iter().enumerate() {
        let mine = owner(place, workers);
        for notice in live::attach(&mut cores[mine], *number, spec)? {
            say(&format!("port {number}: {notice}"));
        }
        let Some(port) = cores[mine].port(*number) else { continue };
        let elsewhere = AbsentPort::like(port);
        for (_, core) in cores.iter_mut().enumerate().filter(|(worker, _)| *worker != mine) {
            core.add_elsewhere(*number, mine as u8, elsewhere.clone())?;
        }
    }
    Ok(())
}

/// Ports of several workers cannot write into one capture file.
fn check_captures(specs: &[(u16, PortSpec)], workers: usize) -> Result<(), String> {
    for (place, (number, spec)) in specs.iter().enumerate() {
        let same = |(other, (_, known)): &(usize, &(u16, PortSpec))| {
            known.capture == spec.capture && owner(*other, workers) != owner(place, workers)
        };
        let earlier = specs.iter().enumerate().take(place).find(same);
        if let (Some(_), Some((_, (earlier, _)))) = (&spec.capture, earlier) {
            return Err(format!(
                "ports {earlier} and {number} belong to different workers and cannot share a capture \
                 file: give each its own (1=veth0,capture=FILE), or use --workers 1"
            ));
        }
    }
    Ok(())
}

/// Gives every worker its queues.
fn set_queues(
    loaded: &Loaded,
    cores: &mut [Core],
    specs: &[(u16, PortSpec)],
) -> Result<(), String> {
    let numbers: Vec<u16> = specs.iter().map(|(number, _)| *number).collect();
    let workers = cores.len();
    for (worker, core) in cores.iter_mut().enumerate() {
        let owns = |number: u16| {
            let place = numbers.iter().position(|known| *known == number);
            place.is_some_and(|place| owner(place, workers) == worker)
        };
        let part = (workers > 1).then_some(Part { workers, owns: &owns });
        loaded.set_queues_of(core, &numbers, part.as_ref())?;
    }
    Ok(())
}

/// Ports of the command line, or else of the configuration.
fn port_specs(
    args: &RunArgs,
    config: Option<&SwitchConfig>,
) -> Result<Vec<(u16, PortSpec)>, String> {
    let configured = config.iter().flat_map(|config| &config.ports);
    let configured = configured
        .filter_map(|(n, port)| port.interface.as_ref().map(|text| format!("{n}={text}")));
    let texts = match args.ports.is_empty() {
        true => configured.collect(),
        false => args.ports.clone(),
    };
    let mut ports = PortSpec::list(&texts, config)?;
    for (_, spec) in &mut ports {
        spec.capture = spec.capture.take().or(args.capture.clone());
        spec.check_capture()?;
    }
    Ok(ports)
}

fn duration(seconds: Option<f64>) -> Result<Option<Span>, String> {
    match seconds {
        None => Ok(None),
        Some(s) if s > 0.0 && s < 1e9 => Ok(Some(Span::from_ns((s * 1e9) as u64))),
        Some(s) => Err(format!("--duration {s}: give a number of seconds above 0")),
    }
}
