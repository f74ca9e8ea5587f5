//! The devices: a switch and hosts, made of the programs in `programs/` like any others.

use wireyard_pipeline::check::compile;
use wireyard_pipeline::diag::{Diagnostics, render};
use wireyard_pipeline::entries;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};

use super::cables::{self, HOSTS, host_ip, host_mac, host_name, port_mac, switch_port};
use super::setting;
use crate::config::qos::{PortLink, PortSection, Qos, QosConfig};
use crate::core::Core;
use crate::device;
use crate::frames::Frames;
use crate::host::{END_POINT_PORT, EndPointPort, HostConfig, WIRE_PORT};
use crate::library::LIBRARIES;
use crate::program::{DeviceOptions, EngineKind, Loaded};
use crate::roce::np::NpConfig;
use crate::units::{BitsPerSec, Bytes};

/// Chunks of packet memory: more than the buffer holds in full packets.
const CHUNKS: u32 = 16_384;
/// Chunks of a host.
const HOST_CHUNKS: u32 = 4_096;
/// Longest frame, and what a port leaves in front of it.
const FRAME_BYTES_MAX: u32 = 1_536;
const HEADROOM_BYTES: u32 = 256;
/// The way between an adapter and its end point is so much faster than the wire.
const INSIDE: u64 = 10;

/// A program with its entries, as they are inside the binary.
struct Embedded {
    name: &'static str,
    program: &'static str,
    entries: Option<&'static str>,
}

const SWITCH: Embedded = Embedded {
    name: "rocev2_lossless",
    program: include_str!("../../../programs/rocev2_lossless/program.yaml"),
    entries: Some(include_str!("../../../programs/rocev2_lossless/entries.yaml")),
};

const HOST: Embedded = Embedded {
    name: "roce_nic",
    program: include_str!("../../../programs/roce_nic/program.yaml"),
    entries: None,
};

impl Embedded {
    fn load(&self) -> Result<Loaded, String> {
        let place = |file: &str| format!("programs/{}/{file}", self.name);
        let (program, entries_place) = (place("program.yaml"), place("entries.yaml"));
        let files = [(program.as_str(), self.program)]
            .into_iter()
            .chain(self.entries.map(|text| (entries_place.as_str(), text)));
        let loader = Loader::in_memory(files, LIBRARIES);
        let parsed =
            parse_program(program.as_ref(), &loader).map_err(|rejected| rejected.to_string())?;
        let compiled = compile(&parsed, &device::externs())
            .map_err(|found| render::plain(&found, &parsed.files))?;
        let (mut files, mut found) = (parsed.files.clone(), Diagnostics::new());
        let mut resolved = None;
        if self.entries.is_some() {
            let ast = parse_entries(entries_place.as_ref(), &loader, &mut files, &mut found);
            resolved = ast.and_then(|ast| entries::resolve(&ast, &compiled.program, &mut found));
            if found.has_errors() {
                return Err(render::plain(&found, &files));
            }
        }
        Ok(Loaded {
            parsed,
            program: compiled.program.into(),
            entries: resolved,
            config: None,
            warnings: compiled.warnings,
            files,
        })
    }
}

fn options(chunks: u32, engine: EngineKind, seed: u64) -> DeviceOptions {
    let memory = MemoryConfig::for_frames(chunks, FRAME_BYTES_MAX, HEADROOM_BYTES);
    DeviceOptions { engine, seed, memory, ..DeviceOptions::default() }
}

/// The switch, with links of this rate, and a pause for whoever has this much in its buffer.
pub(super) fn switch(
    rate: BitsPerSec,
    xoff: Bytes,
    engine: EngineKind,
    seed: u64,
) -> Result<Core, String> {
    let mut core = SWITCH.load()?.device(options(CHUNKS, engine, seed))?;
    let mut config: QosConfig = queues(include_str!("switch.json"))?;
    config.port_defaults.rate = Some(rate);
    let lossless = config.buffer_profiles.get_mut("ingress_lossless");
    lossless.ok_or("no lossless profile")?.static_th = Some(xoff);
    let link = |host| PortLink { name: switch_port(host).to_string(), rate: None };
    let mut qos = resolve(&config, (0..HOSTS).map(link).collect())?;
    qos.tm.seed = seed;
    core.set_qos(&qos)?;
    for host in 0..HOSTS {
        let opened = cables::open_switch(host, core.memory())?;
        core.set_mac(switch_port(host), port_mac(host));
        core.add_port(switch_port(host), opened.port)?;
    }
    Ok(core)
}

/// A host.
pub(super) fn host(host: usize, engine: EngineKind, seed: u64) -> Result<Core, String> {
    let mut core = HOST.load()?.device(options(HOST_CHUNKS, engine, seed))?;
    let mut config: QosConfig = queues(include_str!("host.json"))?;
    config.port_defaults.rate = Some(setting::rate());
    let inside = BitsPerSec::new(setting::rate().get() * INSIDE);
    let own = config.ports.entry(END_POINT_PORT.to_string()).or_default();
    *own = PortSection { rate: inside, ..own.clone() };
    let link = |port: u16| PortLink { name: port.to_string(), rate: None };
    core.set_qos(&resolve(&config, vec![link(WIRE_PORT), link(END_POINT_PORT)])?)?;
    let opened = cables::open_host(host, core.memory())?;
    for port in [WIRE_PORT, END_POINT_PORT] {
        core.set_mac(port, host_mac(host).0);
    }
    core.add_port(WIRE_PORT, opened.port)?;
    let (_, cnp_interval) = setting::rate_control().map_err(|error| error.to_string())?;
    let config = HostConfig {
        rate: Some(setting::rate()),
        np: Some(NpConfig { interval: cnp_interval, ..NpConfig::default() }),
        ..HostConfig::ethernet(&host_name(host), host_mac(host), host_ip(host))
    };
    core.add_port(END_POINT_PORT, Box::new(EndPointPort::new(config, Frames::shared()?)))?;
    Ok(core)
}

fn queues(text: &str) -> Result<QosConfig, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn resolve(config: &QosConfig, links: Vec<PortLink>) -> Result<Qos, String> {
    config.resolve(&links).map_err(|report| format!("the queues:\n{report}"))
}

#[cfg(test)]
mod tests {
    use super::super::judge::Law;
    use super::super::setting::{DATA_CLASS, LAW};
    use super::*;

    /// What is judged is what is configured.
    #[test]
    fn the_law_is_that_of_the_switch() {
        let mut config = queues(include_str!("switch.json")).unwrap();
        config.port_defaults.rate = Some(setting::rate());
        let qos = resolve(&config, vec![PortLink { name: "1".into(), rate: None }]).unwrap();
        let wred = qos.ports[0].tm.queues[usize::from(DATA_CLASS)].wred.unwrap();
        let (kmin, kmax, pmax) = wred.curves[0].unwrap().parts();
        let pmax = pmax.get() as f64 / 4_294_967_296.0;
        assert!((pmax - LAW.pmax).abs() < 1e-9);
        assert_eq!(Law { kmin: kmin as f64, kmax: kmax as f64, ..LAW }, LAW);
    }

    #[test]
    fn both_programs_load_without_a_file() {
        for program in [SWITCH, HOST] {
            let loaded = program.load().unwrap();
            assert_eq!(loaded.program.name, program.name);
        }
    }
}
