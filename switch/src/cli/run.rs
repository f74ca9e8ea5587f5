//! `run`: the software switch.

use wireyard_tables::time::Span;

use super::args::RunArgs;
use super::load::{device, load_from, place};
use super::{Status, complain, counters, say};
use crate::config::SwitchConfig;
use crate::live::metrics::Metrics;
use crate::live::{self, Event};
use crate::ports::{PortKind, PortSpec};
use crate::program::{DeviceOptions, Place};

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
    let mut specs = port_specs(&args.ports, loaded.config.as_ref())?;
    for (_, spec) in &mut specs {
        spec.capture = spec.capture.take().or(args.capture.clone());
        spec.check_capture()?;
    }
    let duration = duration(args.duration)?;
    let mut metrics = args.metrics.map(Metrics::bind).transpose()?;
    let options = DeviceOptions { background: true, ..DeviceOptions::default() };
    let mut core = device(&loaded, Some(&args.engine), args.mac_control, options)?;
    for (number, spec) in &specs {
        for notice in live::attach(&mut core, *number, spec)? {
            say(&format!("port {number}: {notice}"));
        }
    }
    loaded.set_queues(&mut core, &specs.iter().map(|(number, _)| *number).collect::<Vec<_>>())?;
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
    let result = live::run(&mut core, duration, &mut |event| match event {
        Event::Message(message) => say(&message),
        Event::Counters(core) => counters::show(core, args.json),
        Event::Turn { core, .. } => {
            if let Some(metrics) = &mut metrics {
                metrics.answer(core);
            }
        }
    });
    counters::show(&mut core, args.json);
    result.map_err(|e| format!("the run loop: {e}"))?;
    Ok(Status::Success)
}

/// Ports of the command line, or else of the configuration.
fn port_specs(
    given: &[String],
    config: Option<&SwitchConfig>,
) -> Result<Vec<(u16, PortSpec)>, String> {
    let mut ports: Vec<(u16, PortSpec)> = Vec::new();
    let configured = config.iter().flat_map(|config| &config.ports);
    let configured = configured
        .filter_map(|(n, port)| port.interface.as_ref().map(|text| format!("{n}={text}")));
    let texts: Vec<String> = if given.is_empty() { configured.collect() } else { given.to_vec() };
    for (index, text) in texts.iter().enumerate() {
        let mut spec = PortSpec::parse(text).map_err(|e| e.to_string())?;
        let number = match spec.number {
            Some(number) => {
                u16::try_from(number).map_err(|_| format!("port `{text}`: use 1 to 65532"))?
            }
            None => index as u16 + 1,
        };
        if ports.iter().any(|(known, _)| *known == number) {
            return Err(format!("port `{text}`: number {number} is taken"));
        }
        // Two sockets on one interface would each get every frame.
        let same = |known: &PortSpec| known.target == spec.target && known.queue == spec.queue;
        let double = ports.iter().find(|(_, known)| known.kind != PortKind::Pcap && same(known));
        if let Some((known, _)) = double.filter(|_| spec.kind != PortKind::Pcap) {
            return Err(format!("port `{text}`: its interface is port {known} already"));
        }
        let port = config.and_then(|config| config.ports.get(&number));
        spec.link = spec.link.or(port.and_then(|port| port.link));
        ports.push((number, spec));
    }
    if ports.is_empty() {
        return Err(
            "no ports: give --port 1=veth0 --port 2=veth1, or `ports:` in switch.yaml".to_owned()
        );
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
