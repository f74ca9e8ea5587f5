//! `replay`: capture files in, capture files out, in virtual time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::packet::MemoryConfig;

use super::args::ReplayArgs;
use super::load::{device, load_from, place};
use super::{Failure, Status, counters, ended, say};
use crate::config::PORT_MAX;
use crate::core::Statistics;
use crate::live::Signals;
use crate::ports::{PortKind, PortNumber, PortSpec, files};
use crate::program::{DeviceOptions, Place};
use crate::replay;

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
    for (number, spec) in &mut specs {
        spec.link = config.and_then(|config| config.ports.get(number)).and_then(|port| port.link);
    }
    let options = DeviceOptions { memory: REPLAY_MEMORY, ..DeviceOptions::default() };
    let mut core = device(&loaded, Some(&args.engine), args.mac_control, options)?;
    let numbers: Vec<PortNumber> = specs.iter().map(|(number, _)| *number).collect();
    loaded.set_queues(&mut core, &numbers)?;
    let signals = Signals::catch(false).map_err(|error| format!("signals: {error}"))?;
    replay::open(&mut core, specs, &signals.stop())?.iter().for_each(|note| say(note));
    let outcome = replay::run(&mut core, &|| signals.is_stopped(), &mut |message| say(&message));
    let statistics = Statistics::of(&mut core);
    counters::show(&core, &statistics, args.entry_counters, args.json);
    outcome?;
    Ok(Status::Success)
}

/// `--in N=FILE` and `--out N=FILE` as ports.
fn specs(inputs: &[OsString], outputs: &[OsString]) -> Result<Vec<(PortNumber, PortSpec)>, String> {
    let mut ports: BTreeMap<PortNumber, PortSpec> = BTreeMap::new();
    let none = || PortSpec::new(PortKind::Pcap, "");
    for input in inputs {
        let (port, file) = split(input, "--in")?;
        let is_same = |(_, spec): &(&PortNumber, &PortSpec)| spec.input.as_deref() == Some(file);
        if file.as_os_str() == "-"
            && let Some((other, _)) = ports.iter().find(is_same)
        {
            return Err(format!("--in {port}=-: port {other} reads standard input already"));
        }
        let spec = ports.entry(port).or_insert_with(none);
        if spec.input.replace(file.to_owned()).is_some() {
            let input = shown(input.as_ref());
            return Err(format!("--in {input}: port {port} has an input already"));
        }
    }
    for output in outputs {
        let (port, file) = split(output, "--out")?;
        let output = shown(output.as_ref());
        if file.as_os_str() == "-" {
            return Err(format!("--out {output}: standard output has the counters: name a file"));
        }
        let spec = ports.entry(port).or_insert_with(none);
        if spec.out.replace(file.to_owned()).is_some() {
            return Err(format!("--out {output}: port {port} has an output already"));
        }
    }
    Ok(ports.into_iter().collect())
}

fn split<'a>(text: &'a OsStr, option: &str) -> Result<(PortNumber, &'a Path), String> {
    let wrong = || {
        let text = shown(text.as_ref());
        format!("{option} {text}: write NUMBER=FILE, as in {option} 1=a.pcap")
    };
    let at = text.as_bytes().iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
    let (port, file) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
    let port: u32 =
        std::str::from_utf8(port).ok().and_then(|port| port.parse().ok()).ok_or_else(wrong)?;
    let port = u16::try_from(port).ok().map(PortNumber).filter(|port| *port <= PORT_MAX);
    let port = port.ok_or_else(|| {
        format!("{option} {}: port numbers are 0 to {PORT_MAX}", shown(text.as_ref()))
    })?;
    if file.is_empty() { Err(wrong()) } else { Ok((port, Path::new(OsStr::from_bytes(file)))) }
}
