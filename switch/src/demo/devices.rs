//! The switch of the open loop: program and entries of `programs/rocev2_lossless`, queues of the scenario.

use wireyard_pipeline::packet::MemoryConfig;
use wireyard_tables::time::Span;

use super::DemoError;
use super::cables::{self, HOSTS, port_mac, switch_port};
use super::setting;
use crate::config::qos::PortLink;
use crate::core::Core;
use crate::lab::scenario::Scenario;
use crate::program::{self, DeviceOptions, EngineKind, Loaded};
use crate::units::{Bytes, Interval};

/// Chunks of packet memory: more than the buffer holds in full packets.
const CHUNKS: u32 = 16_384;
/// Longest frame, with the room that a port leaves in front of it.
const FRAME_BYTES_MAX: u32 = 1_536;
const HEADROOM_BYTES: u32 = 256;
/// Longest frame with its check sequence, for the headroom formula.
const MTU: Bytes = Bytes::new(1_522);
/// Longer than any sender of the open loop takes to react: none does.
const PEER_RESPONSE: Span = Span::from_ms(1);

const PROGRAM: &str = "rocev2_lossless";
const ENTRIES: &str = include_str!("../../../programs/rocev2_lossless/entries.yaml");

fn load() -> Result<Loaded, DemoError> {
    let missing = DemoError::Missing("the program is not inside the binary");
    let program = program::embedded(PROGRAM).ok_or(missing)??;
    Ok(program.with_entries(&format!("programs/{PROGRAM}/entries.yaml"), ENTRIES)?)
}

/// The switch with its ports.
pub(super) fn switch(
    scenario: &Scenario,
    engine: EngineKind,
    seed: u64,
) -> Result<Core, DemoError> {
    let memory = MemoryConfig::for_frames(CHUNKS, FRAME_BYTES_MAX, HEADROOM_BYTES);
    let options = DeviceOptions { engine, seed, memory, ..DeviceOptions::default() };
    let mut core = load()?.device(options)?;
    let mut config = scenario.switch.qos.clone();
    config.port_defaults.rate = Some(setting::open_rate());
    config.port_defaults.mtu = Some(MTU);
    config.port_defaults.peer_response = Some(Interval::new(PEER_RESPONSE));
    let lossless = config.buffer_profiles.get_mut("ingress_lossless");
    lossless.ok_or(DemoError::Missing("no lossless profile"))?.static_th = Some(setting::OPEN_XOFF);
    let link = |host| PortLink { number: switch_port(host), rate: None };
    let links: Vec<PortLink> = (0..HOSTS).map(link).collect();
    let mut qos = config.resolve(&links).map_err(DemoError::Queues)?;
    qos.tm.seed = seed;
    core.set_qos(&qos)?;
    for host in 0..HOSTS {
        let opened = cables::open_switch(host, core.memory())?;
        core.ports_mut().set_mac(switch_port(host), port_mac(host));
        core.add_port(switch_port(host), opened.port)?;
    }
    Ok(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_loads_without_a_file() {
        assert_eq!(load().unwrap().program.name, PROGRAM);
    }
}
