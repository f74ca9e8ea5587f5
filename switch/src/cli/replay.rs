//! `replay`: capture files in, capture files out, in virtual time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::args::ReplayArgs;
use super::load::{device, load_from, place};
use super::{Failure, Status, counters, ended, say};
use crate::live::Signals;
use crate::ports::{PortKind, PortNumber, PortSpec, files};
use crate::program::{DeviceOptions, Place};
use crate::replay;
use wireyard_pipeline::packet::MemoryConfig;

/// Records of captures may be as long as 256 KiB; a replay has few packets in flight.
const REPLAY_MEMORY: MemoryConfig =
    MemoryConfig { chunks: 1024, chunk_bytes: 1 << 19, headroom_bytes: 256 };

pub(super) fn run(args: &ReplayArgs) -> Status {
    ended(start(args))
}

fn start(args: &ReplayArgs) -> Result<Status, Failure> {
    let mut specs = specs(&args.inputs, &args.outputs)?;
    let place = Place { config: args.config.clone(), ..place(&args.program) };
    let Some(loaded) = load_from(&place) else { return Ok(Status::Wrong) };
    files::check(&specs, &loaded.sources())?;
    let config = loaded.config.as_ref();
    for (number, spec) in specs.iter_mut().filter(|(_, spec)| spec.target.is_empty()) {
        spec.link = config.and_then(|config| config.ports.get(number)).and_then(|port| port.link);
    }
    let options = DeviceOptions { memory: REPLAY_MEMORY, ..DeviceOptions::default() };
    let mut core = device(&loaded, Some(&args.engine), args.mac_control, options)?;
    let numbers: Vec<PortNumber> = specs.iter().map(|(number, _)| *number).collect();
    loaded.set_queues(&mut core, &numbers)?;
    let signals = Signals::catch(false).map_err(|error| format!("signals: {error}"))?;
    replay::open(&mut core, specs)?.iter().for_each(|note| say(note));
    let outcome = replay::run(&mut core, &|| signals.is_stopped(), &mut |message| say(&message));
    let statistics = core.statistics();
    counters::show(&core, &statistics, args.entry_counters, args.json);
    outcome?;
    Ok(Status::Success)
}

/// `--in N=FILE` and `--out N=FILE` as ports.
fn specs(inputs: &[String], outputs: &[String]) -> Result<Vec<(PortNumber, PortSpec)>, String> {
    let mut ports: BTreeMap<PortNumber, (Option<String>, Option<PathBuf>)> = BTreeMap::new();
    for input in inputs {
        let (port, file) = split(input, "--in")?;
        let place = &mut ports.entry(port).or_default().0;
        if place.replace(file.to_owned()).is_some() {
            return Err(format!("--in {input}: port {port} has an input already"));
        }
    }
    for output in outputs {
        let (port, file) = split(output, "--out")?;
        if file == "-" {
            return Err(format!("--out {output}: standard output has the counters: name a file"));
        }
        let place = &mut ports.entry(port).or_default().1;
        if place.replace(file.into()).is_some() {
            return Err(format!("--out {output}: port {port} has an output already"));
        }
    }
    let spec = |(port, (input, out)): (PortNumber, (Option<String>, Option<PathBuf>))| {
        let mut spec = PortSpec::new(PortKind::Pcap, &input.unwrap_or_default());
        spec.out = out;
        (port, spec)
    };
    Ok(ports.into_iter().map(spec).collect())
}

fn split<'a>(text: &'a str, option: &str) -> Result<(PortNumber, &'a str), String> {
    let wrong = || format!("{option} {text}: write NUMBER=FILE, as in {option} 1=a.pcap");
    let (port, file) = text.split_once('=').ok_or_else(wrong)?;
    let port = port.parse().map(PortNumber).map_err(|_| wrong())?;
    if file.is_empty() { Err(wrong()) } else { Ok((port, file)) }
}
