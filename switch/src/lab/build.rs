//! From a scenario to devices: programs, tables, queues, links, hosts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::diag::{Files, Rejected};
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Span;

use super::addresses::port_mac;
use super::arrival_index::ArrivalIndex;
use super::cable::{CablePort, Cabling};
use super::error::LabError;
use super::fabric::{Fabric, NodeKind};
use super::host::{self, Connection};
use super::lease::Lease;
use super::link::{self, Direction, LinkEnd};
use super::memory;
use super::partition::Layout;
use super::queues::switch_qos;
use super::routes::{Routes, Target};
use super::scenario::{Scenario, SwitchSetup, Transport};
use super::tap::Tap;
use crate::config::qos::{Problem, Qos};
use crate::core::Core;
use crate::host::GateId;
use crate::ports::{LinkType, Port};
use crate::program::{self, DeviceOptions, EngineKind, Loaded, Place};
use crate::units::Length;

/// A cable delays by 5 ns a metre.
const PS_PER_METRE: u64 = 5_000;

/// Options of a lab.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// Instead of the scenario's seed.
    pub seed: Option<u64>,
    /// Threads that run it together, if it can be partitioned; 0 counts as 1. Results are the same.
    pub workers: usize,
    /// Take the captures of the scenario: their frames are in memory until [`Lab::captures`](super::Lab::captures).
    pub captures: bool,
}

/// The devices of a lab.
pub(super) struct Devices {
    pub(super) mem: PacketMemory,
    /// By node.
    pub(super) cores: Vec<Box<Core>>,
    /// By flow.
    pub(super) flows: Vec<Connection>,
    /// By gate.
    pub(super) gates: Vec<GateId>,
    /// By link: from its first end to its second, and back.
    pub(super) links: Vec<[Arc<Direction>; 2]>,
    /// By partition: the arrivals, and the lease of the thread that may access its links.
    pub(super) leases: Vec<(Arc<ArrivalIndex>, Arc<Lease>)>,
    /// The program of the switches, without entries.
    pub(super) base: Loaded,
    /// Entries files of the switches, by name, for output.
    pub(super) entries: Vec<(String, String)>,
}

/// Builds everything; links are over cables if there are any.
///
/// # Errors
/// A part that cannot be built.
pub(super) fn devices(
    scenario: &Scenario,
    options: Options,
    cabling: Option<&Cabling>,
    layout: &Layout,
) -> Result<Devices, LabError> {
    let seed = options.seed.unwrap_or(scenario.seed);
    let memory = memory::make(scenario)?;
    let base = load_program(scenario)?;
    let mut adapters = host::Adapters::default();
    let routes = Routes::new(&scenario.fabric);
    let target = Target::new(scenario, &base.program);
    let tiers = scenario.fabric.tiers();
    if target.telemetry.is_none()
        && scenario.flows.iter().any(|flow| scenario.sender(flow).telemetry())
    {
        return Err(LabError::NoTelemetry);
    }
    let mut devices = Devices {
        mem: memory,
        cores: Vec::new(),
        flows: Vec::new(),
        gates: Vec::new(),
        links: Vec::new(),
        leases: leases(&scenario.fabric, layout),
        base,
        entries: Vec::new(),
    };
    let mut ports = link_ports(scenario, (seed, cabling), layout, options, &mut devices)?;
    for (node, description) in scenario.fabric.nodes.iter().enumerate() {
        let own = std::mem::take(&mut ports[node]);
        let device = DeviceOptions {
            engine: options.engine,
            seed: seed.wrapping_mul(1 << 16).wrapping_add(node as u64),
            // Tiers with the same hash would use only one of the paths between them.
            selector_seed: tiers[node].into(),
            ..DeviceOptions::default()
        };
        let core = match description.kind {
            NodeKind::Switch => {
                let text = routes.entries(&scenario.fabric, node, &target);
                let loaded = with_entries(&devices.base, &description.name, &text)
                    .map_err(|source| not_taken(scenario, source))?;
                devices.entries.push((description.name.clone(), text));
                let core = loaded.device_on(devices.mem.worker(), device)?;
                switch(scenario, node, core, own, seed)?
            }
            NodeKind::Host => {
                let adapter = adapters.of(scenario.host_of(node), scenario.max_state)?;
                host::build(scenario, node, adapter, devices.mem.worker(), device, own)?
            }
        };
        devices.cores.push(Box::new(core));
    }
    for spec in &scenario.flows {
        let flow = host::connect(scenario, spec, &mut devices.cores).map_err(|why| {
            LabError::Flow { scenario: scenario.name.clone(), source: why.into() }
        })?;
        devices.flows.push(flow);
    }
    devices.gates = host::add_gates(scenario, &devices.flows, &mut devices.cores)?;
    Ok(devices)
}

/// The program of switches with the entries of one.
pub(super) fn with_entries(base: &Loaded, switch: &str, text: &str) -> Result<Loaded, Rejected> {
    let name = format!("entries of {switch}, made from the topology");
    base.with_entries(&name, text)
}

/// The program of switches when the scenario names none.
const USUAL: &str = "rocev2_lossless";

/// The program of the switches as the scenario names it.
fn program_name(scenario: &Scenario) -> String {
    let path = scenario.switch.program.as_deref().unwrap_or(Path::new(USUAL));
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Entries that the program of the switches does not take.
fn not_taken(scenario: &Scenario, rejected: Rejected) -> LabError {
    let transport = scenario.host.transport;
    let usual = match transport {
        Transport::RoceV2 => USUAL,
        Transport::RoceV1 => "rocev1_lossless",
        Transport::Infiniband => "ib_switch",
    };
    let (program, source) = (program_name(scenario), Box::new(rejected));
    LabError::Entries { program, transport: transport.name(), usual, source }
}

fn load_program(scenario: &Scenario) -> Result<Loaded, LabError> {
    let SwitchSetup { program: path, defines, .. } = &scenario.switch;
    let loaded = program(path.as_deref(), USUAL, scenario.max_state, defines)?;
    if !defines.is_empty() && !loaded.is_in_p4() {
        return Err(LabError::Defines(program_name(scenario)));
    }
    Ok(loaded)
}

/// What the program of the switches makes of their queues, where that is not what queues are for.
pub fn weaknesses(scenario: &Scenario) -> Vec<Problem> {
    let node = scenario.fabric.switches().next();
    let (Some(node), Ok(loaded)) = (node, load_program(scenario)) else { return Vec::new() };
    let Ok(qos) = switch_qos(scenario, node) else { return Vec::new() };
    let mut found = loaded.weaknesses(&qos);
    found.extend(unused_losslessness(scenario, &qos));
    found
}

/// Lossless groups that take none of the data, where the usual program of the switches leaves the class to the maps.
fn unused_losslessness(scenario: &Scenario, qos: &Qos) -> Option<Problem> {
    let port = qos.ports.first()?;
    let is_lossless = |dscp: u8| {
        let group = port.classifier.group(port.classifier.class(dscp, 0xff));
        port.tm.groups[usize::from(group)].lossless.is_some()
    };
    let other = (0..64).find(|dscp| is_lossless(*dscp))?;
    let has_maps =
        scenario.switch.program.is_none() && scenario.host.transport == Transport::RoceV2;
    let dscp = scenario.flows.iter().map(|flow| scenario.sender(flow).data_dscp).next()?;
    let takes_some = scenario.flows.iter().any(|flow| is_lossless(scenario.sender(flow).data_dscp));
    if !has_maps || takes_some {
        return None;
    }
    let message = format!(
        "no packet of data is in a lossless class: DSCP {dscp} is class {} here; write `data_dscp: {other}` in \
         `host`, or another map",
        port.classifier.class(dscp, 0xff)
    );
    Some(Problem::new("queues of the switches", message))
}

/// The files of the programs that a scenario names, of its switches and adapters; of one that cannot be loaded none.
pub(super) fn program_files(scenario: &Scenario) -> Vec<Files> {
    let switches = scenario.switch.program.is_some().then(|| load_program(scenario));
    let hosts = std::iter::once(&scenario.host).chain(scenario.hosts.values());
    let adapters: BTreeSet<&Path> = hosts.filter_map(|host| host.program.as_deref()).collect();
    let load = |path: &Path| program(Some(path), "roce_nic", scenario.max_state, &[]);
    let loaded = switches.into_iter().chain(adapters.into_iter().map(load));
    loaded.filter_map(|loaded| Some(loaded.ok()?.files)).collect()
}

/// A program of a scenario, without entries: the one at `path`, or the one of this name that is inside the binary.
pub(super) fn program(
    path: Option<&Path>,
    inside: &str,
    max_state: Option<u64>,
    defines: &[(String, String)],
) -> Result<Loaded, LabError> {
    let loaded = match (path, program::embedded(inside)) {
        (None, Some(loaded)) => loaded,
        (path, _) => {
            let program = path.unwrap_or(Path::new(inside)).to_owned();
            let defines = defines.to_vec();
            let place = Place { program, defines, no_entries: true, max_state, ..Place::default() };
            program::load(&place)
        }
    };
    loaded.map_err(|rejected| LabError::Rejected(Box::new(rejected)))
}

/// The ends of all links, by node, in the order of the nodes' ports.
fn link_ports(
    scenario: &Scenario,
    (seed, cabling): (u64, Option<&Cabling>),
    layout: &Layout,
    options: Options,
    devices: &mut Devices,
) -> Result<Vec<Vec<Box<dyn Port>>>, LabError> {
    let fabric = &scenario.fabric;
    let mut ports: Vec<Vec<Box<dyn Port>>> = fabric.nodes.iter().map(|_| Vec::new()).collect();
    let kind = link_type(scenario.host.transport);
    for (number, link) in fabric.links.iter().enumerate() {
        let [a, b] = link.ends.map(|node| fabric.nodes[node].name.clone());
        let names = [format!("{a}-{b}"), format!("{b}-{a}")];
        let ends = link.ends.map(|node| {
            let (arrival_index, lease) = &devices.leases[layout.of[node].0];
            let place = layout.place(node, fabric.port(node, number));
            let is_host = fabric.nodes[node].kind == NodeKind::Host;
            LinkEnd { arrival_index, lease, place, is_host }
        });
        let (ends, directions) =
            link::join(names.clone(), kind, link.setup, (seed, number as u64), ends);
        let mut captures = scenario.captures.iter().filter(|_| options.captures);
        if let Some(capture) = captures.find(|capture| capture.link == number) {
            for (direction, tap) in directions.iter().zip(Tap::pair(names, kind, capture.frames)?) {
                direction.capture(tap);
            }
        }
        for (side, (node, end)) in link.ends.into_iter().zip(ends).enumerate() {
            ports[node].push(match cabling {
                Some(cabling) => {
                    let cable = Arc::clone(&cabling.cables[number]);
                    Box::new(CablePort::new(end, cable, side, cabling.look))
                }
                None => Box::new(end),
            });
        }
        devices.links.push(directions);
    }
    Ok(ports)
}

/// The index and the lease of each partition's links.
fn leases(fabric: &Fabric, layout: &Layout) -> Vec<(Arc<ArrivalIndex>, Arc<Lease>)> {
    let lease = |nodes: &Vec<usize>| {
        let ports = nodes.iter().map(|&node| fabric.nodes[node].links.len());
        (ArrivalIndex::new(ports), Lease::new())
    };
    layout.parts.iter().map(lease).collect()
}

/// The link type of this transport's frames.
pub fn link_type(transport: Transport) -> LinkType {
    match transport {
        Transport::RoceV2 | Transport::RoceV1 => LinkType::Ethernet,
        Transport::Infiniband => LinkType::Infiniband,
    }
}

fn switch(
    scenario: &Scenario,
    node: usize,
    mut core: Core,
    ports: Vec<Box<dyn Port>>,
    seed: u64,
) -> Result<Core, LabError> {
    let name = &scenario.fabric.nodes[node].name;
    let mut qos = switch_qos(scenario, node)
        .map_err(|report| LabError::SwitchQueues { switch: name.clone(), report })?;
    qos.tm.seed = seed.wrapping_mul(1 << 16).wrapping_add(node as u64);
    if scenario.switch.qos.packet_slots.is_none() {
        // Its pools limit its contents, and packet memory is checked separately.
        qos.tm.packet_slots = core.memory().config().chunks;
    }
    core.set_qos(&qos)?;
    for (number, port) in scenario.fabric.nodes[node].ports().zip(ports) {
        core.ports_mut().set_mac(number, port_mac(node, number));
        core.add_port(number, port)?;
    }
    Ok(core)
}

/// The cable that delays so long.
pub(super) fn cable(delay: Span) -> Length {
    Length::metres(u32::try_from(delay.as_ps() / PS_PER_METRE).unwrap_or(u32::MAX))
}
