//! The devices and hosts of a seed, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::packet::MemoryConfig;
use wireyard_switch::control::Control;
use wireyard_switch::core::{Core, PortReport, Statistics};
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_tables::time::{Deadline, Span, Time};

use super::host::Host;
use super::model::{End, Model};
use super::planted::{Defect, EVERY, Planted};
use super::program::{self, DEVICES_MAX, LOSSLESS, Queues};
use crate::differ::random::Random;
use crate::wires::{Fabric, link, open_line};

/// Rates of links, in Gbit/s.
const RATES: [u64; 4] = [1, 10, 25, 100];
/// Hosts of a device, at most.
const HOSTS_MAX: usize = 4;
/// Ports to the devices on both sides.
pub(super) const LEFT: u16 = 11;
const RIGHT: u16 = 12;
/// Of so many lossy frames and more that found no room, at least one for so many arrives: of 200 seeds, the worst has one for 4.2.
const LOST_LEAST: u64 = 50;
const LOST_MOST: u64 = 20;
/// What a failure shows of what happened before, at most.
const HISTORY: usize = 40;
/// What a cable between devices takes.
const CABLE: Span = Span::from_ns(25);

/// The devices, their hosts, and the model.
pub struct Network {
    pub(super) fabric: Fabric,
    pub(super) model: Model,
    pub(super) hosts: Vec<Host>,
    pub(super) controls: Vec<Control>,
    /// Mark of the program of each device.
    pub(super) marks: Vec<u8>,
    engine: EngineKind,
    /// Entries that there are, by device and host.
    pub(super) entries: BTreeSet<(usize, u16)>,
    free: Vec<u32>,
    pub(super) defect: Option<Defect>,
    pub(super) changes: u64,
    /// Frames at hosts, for the defect that loses some.
    arrived: u64,
    /// What happened to links and ports of hosts, and pauses that hosts received.
    pub(super) happened: Vec<(Time, usize, &'static str)>,
}

/// An error as text.
pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A device of this place, with ports of these rates.
fn device(
    place: usize,
    queues: &str,
    rates: &[(u16, u64)],
    engine: EngineKind,
    defect: Option<Defect>,
) -> Result<Core, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let (program, config) = (folder.path().join("device.yaml"), folder.path().join("switch.yaml"));
    let keeps_class = defect != Some(Defect::Unclassed);
    std::fs::write(&program, program::text(place, (1, 1), keeps_class)).map_err(text)?;
    std::fs::write(&config, queues).map_err(text)?;
    let loaded =
        load(&Place { program, config: Some(config), ..Place::default() }).map_err(text)?;
    let memory = MemoryConfig { chunks: 8192, chunk_bytes: 2048, headroom_bytes: 256 };
    let core = loaded.device(DeviceOptions { engine, memory, ..DeviceOptions::default() });
    let mut core = core.map_err(text)?;
    let numbers: Vec<_> = rates.iter().map(|(number, _)| PortNumber(*number)).collect();
    loaded.set_queues(&mut core, &numbers).map_err(text)?;
    core.outcomes_mut().listen_to_drops();
    Ok(core)
}

impl Network {
    /// What a seed makes.
    ///
    /// # Errors
    /// A device cannot be made.
    pub fn new(random: &mut Random, defect: Option<Defect>) -> Result<Network, String> {
        let devices = 1 + random.below(DEVICES_MAX);
        let engine = if random.chance(20) { EngineKind::Jit } else { EngineKind::Interp };
        let between: Vec<u64> = (1..devices).map(|_| random.pick(&RATES)).collect();
        let (mut cores, mut hosts, mut model) = (Vec::new(), Vec::new(), Model::default());
        for place in 0..devices {
            let count = if devices == 1 { 2 } else { 1 } + random.below(HOSTS_MAX - 1);
            let mut rates: Vec<(u16, u64)> =
                (1..=count as u16).map(|port| (port, random.pick(&RATES))).collect();
            let of_hosts = rates.clone();
            rates.extend(place.checked_sub(1).map(|left| (LEFT, between[left])));
            rates.extend(between.get(place).map(|rate| (RIGHT, *rate)));
            let queues = Queues::random(random);
            let mut core =
                device(place, &program::config(&rates, &queues), &rates, engine, defect)?;
            for (port, gbps) in of_hosts {
                let (line, far) = open_line();
                core.add_port(PortNumber(port), Box::new(Planted::new(line, defect)))
                    .map_err(text)?;
                model.join(place, port, End::Host(hosts.len() as u16));
                hosts.push(Host::new(far, place, port, gbps));
            }
            cores.push(core);
        }
        for left in 0..devices - 1 {
            let (one, two) = link(CABLE);
            cores[left].add_port(PortNumber(RIGHT), Box::new(one)).map_err(text)?;
            cores[left + 1].add_port(PortNumber(LEFT), Box::new(two)).map_err(text)?;
            model.join(left, RIGHT, End::Device(left + 1));
            model.join(left + 1, LEFT, End::Device(left));
        }
        let controls = cores.iter().filter_map(Control::of).cloned().collect();
        let free = cores.iter_mut().map(|core| core.memory().free_chunks()).collect();
        let (marks, entries) = (vec![1; devices], BTreeSet::new());
        let fabric = Fabric::new(cores);
        let mut network = Network {
            fabric,
            model,
            hosts,
            controls,
            marks,
            engine,
            entries,
            free,
            defect,
            changes: 0,
            arrived: 0,
            happened: Vec::new(),
        };
        for device in 0..devices {
            let all =
                (0..network.hosts.len() as u16).map(|dst| (dst, network.port_to(device, dst)));
            let all: Vec<_> = all.map(|(dst, port)| (dst, Some(port))).collect();
            network.write(device, &all, false)?;
        }
        Ok(network)
    }

    /// The port of a device on the way to a host.
    pub(super) fn port_to(&self, device: usize, dst: u16) -> u16 {
        let host = &self.hosts[usize::from(dst)];
        match host.device.cmp(&device) {
            std::cmp::Ordering::Less => LEFT,
            std::cmp::Ordering::Equal => host.port,
            std::cmp::Ordering::Greater => RIGHT,
        }
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.fabric.now
    }

    /// When a host sends next.
    pub fn next_sender(&self) -> Deadline {
        self.hosts.iter().map(|host| host.next_at).min().unwrap_or(Deadline::NEVER)
    }

    /// Frames that were sent, arrived, were dropped.
    pub fn counts(&self) -> (u64, u64, u64) {
        self.model.counts
    }

    /// Frames of the lossy class that arrived, and that found no room.
    pub fn lossy(&self) -> (u64, u64) {
        self.model.lossy
    }

    /// Frames that were dropped, by reason.
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        self.model.reasons.clone()
    }

    /// Pauses that hosts received.
    pub fn pauses(&self) -> u64 {
        self.hosts.iter().map(|host| host.paused).sum()
    }

    /// Lets time go on.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn run_until(&mut self, end: Time) -> Result<(), String> {
        while self.fabric.step(end) {
            self.collect()?;
        }
        self.fabric.now = end;
        Ok(())
    }

    /// The last things that happened to links and ports of hosts.
    pub fn history(&self) -> String {
        let lines = self.happened.iter().rev().take(HISTORY).rev();
        let line = |(at, host, what): &(Time, usize, &str)| {
            let Host { device, port, gbps, .. } = &self.hosts[*host];
            format!(
                "\n  {} ps: host {host} at port {port} of device {device}, {gbps} Gbit/s: {what}",
                at.as_ps()
            )
        };
        lines.map(line).collect()
    }

    /// Takes what hosts received and devices dropped.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        let at = |time: Time| move |why: String| format!("at {time:?}: {why}");
        for number in 0..self.hosts.len() {
            for passing in self.hosts[number].far.take() {
                let heard = self.hosts[number].heard(&passing);
                heard.map_err(|why| format!("at {:?}: host {number}: {why}", passing.at))?;
                if passing.bytes.get(12..14) == Some(&[0x88, 0x08]) {
                    let what = if passing.bytes[24..26] == [0, 0] { "XON" } else { "XOFF" };
                    self.happened.push((passing.at, number, what));
                    self.hosts[number].pause(passing.at, &passing.bytes);
                    continue;
                }
                let crossed = self.defect == Some(Defect::Crossed) && number < 2;
                let host = if crossed { 1 - number } else { number } as u16;
                let known = match self.loses(&passing.bytes) {
                    Some(reason) => {
                        let device = self.hosts[number].device;
                        self.model.dropped(device, passing.at, reason, &passing.bytes)
                    }
                    None => self.model.received(host, passing.at, &passing.bytes),
                };
                known.map_err(at(passing.at))?;
            }
        }
        let now = self.fabric.now;
        for (device, core) in self.fabric.cores.iter_mut().enumerate() {
            for dropped in core.outcomes_mut().take_dropped() {
                let known = self.model.dropped(device, now, &dropped.reason, &dropped.bytes);
                known.map_err(at(now))?;
            }
        }
        Ok(())
    }

    /// The reason with which a planted defect loses a frame that would have arrived.
    fn loses(&mut self, bytes: &[u8]) -> Option<&'static str> {
        let is_lossy = program::tag(bytes).is_some_and(|tag| tag.class != LOSSLESS);
        match self.defect? {
            Defect::Excused => {
                self.arrived += 1;
                self.arrived.is_multiple_of(EVERY).then_some("port_down")
            }
            Defect::Shut => is_lossy.then_some("pool_exhausted"),
            _ => None,
        }
    }

    /// The host whose turn it is sends a frame, if it may.
    pub fn send_next(&mut self, random: &mut Random) {
        let (now, count) = (self.fabric.now, self.hosts.len());
        let Some(src) = (0..count).find(|n| self.hosts[*n].next_at == Deadline::at(now)) else {
            return;
        };
        let dst = (src + 1 + random.below(count - 1)) % count;
        let sent = self.hosts[src].send(random, now, src as u16, dst as u16);
        if let Some(sending) = sent {
            self.model.sent(&sending);
        }
    }

    /// True if nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.fabric.cores.iter().all(|core| core.queued() == 0) && self.model.waiting() == 0
    }

    pub(super) fn audit(&mut self) -> Result<(), String> {
        for (device, core) in self.fabric.cores.iter_mut().enumerate() {
            core.view(core.time()).audit().map_err(|error| format!("device {device}: {error}"))?;
            let ports = PortReport::all(core);
            let ledgers = ports.iter().map(|port| &port.ledger);
            let total = core.report();
            if let Some(wrong) = ledgers.chain([&total]).find(|ledger| !ledger.balanced) {
                return Err(format!("device {device} does not add up: {wrong:?}"));
            }
        }
        Ok(())
    }

    /// All came to an end.
    ///
    /// # Errors
    /// What did not.
    pub fn finish(&mut self) -> Result<(), String> {
        self.audit()?;
        if !self.is_empty() {
            let queued: Vec<usize> = self.fabric.cores.iter().map(Core::queued).collect();
            return Err(format!(
                "{} frames neither arrived nor were dropped; in devices wait {queued:?}",
                self.model.waiting()
            ));
        }
        let (arrived, full) = self.model.lossy;
        if full > LOST_LEAST && arrived * LOST_MOST < full {
            return Err(format!(
                "{arrived} frames of the lossy class arrived, {full} found no room"
            ));
        }
        for (device, core) in self.fabric.cores.iter_mut().enumerate() {
            let (free, before) = (core.memory().free_chunks(), self.free[device]);
            if free != before {
                return Err(format!("device {device} has {free} free chunks of {before}"));
            }
            let report = Statistics::of(core);
            let cells = report.program.into_iter().flat_map(|program| program.counters);
            let counted: BTreeMap<u16, u64> =
                cells.map(|cell| (cell.index as u16, cell.packets)).collect();
            let met = self.model.met(device);
            if counted != met {
                return Err(format!("device {device} counted {counted:?}, and met {met:?}"));
            }
            for host in self.hosts.iter().filter(|host| host.device == device) {
                let port = report.ports.iter().find(|port| port.port.0 == host.port);
                let received = port.map(|port| port.ledger.received);
                if received != Some(host.frames) {
                    return Err(format!(
                        "port {} of device {device} received {received:?} of {} frames",
                        host.port, host.frames
                    ));
                }
            }
        }
        Ok(())
    }

    /// The engine of all devices.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }
}
