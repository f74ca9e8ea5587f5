//! From names to numbers: one port at a time, then the pools, then the checks.

use std::collections::BTreeMap;

use serde::Deserialize;
use wireyard_tables::time::Span;

use crate::ports::PortNumber;
use crate::tm::{
    self, CLASSES, FlowControl, FlowControlConfig, GroupConfig, PoolConfig, PortConfig,
    ShaperConfig, WireOverhead,
};
use crate::units::{BitsPerSec, Bytes, Length};

use classes::QueuesPlan;

use super::headroom::{Headroom, HeadroomInput};
use super::key::spread;
use super::report::{Problem, Report};
use super::{
    ClassKey, ClassMap, PACKET_SLOTS_MAX, PROCESS_DELAY, PeerWord, PoolSection, PortSection,
    QosConfig,
};

mod classes;
mod fit;
mod link;
mod link_values;

/// Frames that a live port with flow control sends at one instant to catch up; the rings of its peer have room for
/// them.
pub const CATCH_UP_FRAMES: u32 = 512;
/// Default `packet_slots` in virtual time.
const PACKET_SLOTS: u32 = 1 << 16;
/// Default `hold_slots`.
const HOLD_SLOTS: u32 = 1 << 12;
/// Most pools.
const POOLS_MAX: usize = 256;
/// Most contradictions that are kept.
const PROBLEMS_MAX: usize = 1000;
/// Default `mtu`: the usual limit of jumbo frames.
const MTU: Bytes = Bytes::new(9_216);
/// Default bucket of a shaper: one jumbo frame.
const DEFAULT_BURST: Bytes = Bytes::new(9_216);

/// A port of the device and its link.
#[derive(Clone, Copy, Debug)]
pub struct PortLink {
    /// The port's number, its key in `qos.ports`.
    pub number: PortNumber,
    /// Rate given with the port; `qos.ports` may override it.
    pub rate: Option<BitsPerSec>,
}

/// The classification of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// DSCP, VLAN priority if there is none.
    #[default]
    Dscp,
    /// VLAN priority (dot1p), DSCP if there is none.
    Pcp,
}

/// The maps of a port, as arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// The field that comes first.
    pub trust: Trust,
    /// Class of packets with neither.
    pub default_tc: u8,
    /// By DSCP.
    pub dscp_to_tc: [u8; 64],
    /// By VLAN priority.
    pub pcp_to_tc: [u8; CLASSES],
    /// Queue of a class.
    pub tc_to_queue: [u8; CLASSES],
    /// Priority group of a class.
    pub tc_to_group: [u8; CLASSES],
}

impl Classifier {
    /// The class of a packet with this DSCP and VLAN priority; 0xff is none.
    pub fn class(&self, dscp: u8, pcp: u8) -> u8 {
        let by_dscp = self.dscp_to_tc.get(usize::from(dscp));
        let by_pcp = self.pcp_to_tc.get(usize::from(pcp));
        let found = match self.trust {
            Trust::Dscp => by_dscp.or(by_pcp),
            Trust::Pcp => by_pcp.or(by_dscp),
        };
        found.copied().unwrap_or(self.default_tc)
    }

    /// The queue of a class.
    pub fn queue(&self, class: u8) -> u8 {
        self.tc_to_queue[usize::from(class) % CLASSES]
    }

    /// The priority group of a class.
    pub fn group(&self, class: u8) -> u8 {
        self.tc_to_group[usize::from(class) % CLASSES]
    }
}

/// A port's part of the result.
#[derive(Clone, Debug)]
pub struct QosPort {
    /// The port.
    pub number: PortNumber,
    /// For [`tm::Tm::add_port`].
    pub tm: PortConfig,
    /// For the core.
    pub classifier: Classifier,
}

/// A configuration without contradictions.
#[derive(Clone, Debug)]
pub struct Qos {
    /// For [`tm::Tm::new`].
    pub tm: tm::Config,
    /// In the requested order.
    pub ports: Vec<QosPort>,
    /// By `port_defaults` alone, without a rate: for ports that the configuration does not name.
    pub defaults: QosPort,
    /// The thresholds, and warnings.
    pub report: Report,
}

/// A priority group before its pool's sizes are known.
#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    pub(super) profile: String,
    pub(super) config: GroupConfig,
    pub(super) needed: Option<Headroom>,
    /// Headroom for a peer that is hardware.
    pub(super) least: u64,
    /// `headroom: auto`.
    pub(super) is_auto: bool,
}

/// A port before the pools' sizes are known.
#[derive(Clone, Debug)]
pub(super) struct PortPlan {
    pub(super) number: PortNumber,
    pub(super) mtu: Bytes,
    /// From XOFF to the last byte of hardware that honours it.
    pub(super) loop_time: Span,
    /// Assumed delay of a peer that is a process.
    pub(super) process: Option<Span>,
    pub(super) groups: Vec<GroupPlan>,
    /// Profiles of the queues.
    pub(super) buffer_names: [String; CLASSES],
    pub(super) wred_names: [Option<String>; CLASSES],
    pub(super) scheduler_names: [Option<String>; CLASSES],
    pub(super) tm: PortConfig,
    pub(super) classifier: Classifier,
}

impl From<PortPlan> for QosPort {
    fn from(plan: PortPlan) -> QosPort {
        QosPort { number: plan.number, tm: plan.tm, classifier: plan.classifier }
    }
}

impl PortPlan {
    fn is_lossless(&self) -> bool {
        self.groups.iter().any(|group| group.config.lossless.is_some())
    }
}

/// The state of resolving.
pub(super) struct Resolver<'a> {
    pub(super) config: &'a QosConfig,
    pub(super) pools: Vec<(&'a str, &'a PoolSection)>,
    pub(super) pool_configs: Vec<PoolConfig>,
    pub(super) report: Report,
}

impl QosConfig {
    /// Resolves names, computes thresholds, checks. `Err` is a report with problems.
    pub fn resolve(&self, ports: &[PortLink]) -> Result<Qos, Box<Report>> {
        let merged = match self.with_preset() {
            Ok(merged) => merged,
            Err(error) => {
                let problem = Problem::new("preset", error.to_string());
                return Err(Box::new(Report { problems: vec![problem], ..Report::default() }));
            }
        };
        let pools = merged.buffer_pools.iter().map(|(name, pool)| (name.as_str(), pool)).collect();
        let mut resolver = Resolver {
            config: &merged,
            pools,
            pool_configs: Vec::new(),
            report: Report::default(),
        };
        resolver.check_names(ports);
        if resolver.pools.len() > POOLS_MAX {
            return Err(Box::new(resolver.report));
        }
        let mut plans: Vec<PortPlan> = ports.iter().map(|link| resolver.port(link)).collect();
        if !resolver.report.problems.is_empty() {
            // What is compared with a value that was refused is no contradiction.
            return Err(Box::new(resolver.report));
        }
        let defaults = resolver.defaults();
        resolver.fit_headroom(&mut plans);
        resolver.size_pools(&plans);
        resolver.check(&plans);
        let Resolver { pool_configs, report, .. } = resolver;
        if !report.problems.is_empty() {
            return Err(Box::new(report));
        }
        let cell = merged.cell.map_or(0, Bytes::get);
        let packet_slots = merged.packet_slots.unwrap_or(PACKET_SLOTS);
        let tm = tm::Config {
            seed: merged.seed.unwrap_or(1),
            packet_slots,
            stop_at_slots: match plans.iter().any(PortPlan::is_lossless) && merged.live.is_some() {
                true => packet_slots - packet_slots / 4,
                false => u32::MAX,
            },
            hold_slots: merged.hold_slots.unwrap_or(HOLD_SLOTS).min(packet_slots),
            cell_bytes: u32::try_from(cell).unwrap_or(u32::MAX),
            pools: pool_configs,
        };
        let ports = plans.into_iter().map(QosPort::from).collect();
        Ok(Qos { tm, ports, defaults, report })
    }
}

fn narrow(bytes: Option<Bytes>, default: u32) -> u32 {
    bytes.map_or(default, |bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX))
}

fn shaper(rate: Option<BitsPerSec>, burst: Option<Bytes>) -> Option<ShaperConfig> {
    rate.map(|rate| ShaperConfig { rate, burst_bytes: burst.unwrap_or(DEFAULT_BURST).get() })
}

impl Resolver<'_> {
    /// Notes a contradiction.
    pub(super) fn refuse(&mut self, place: &str, message: String) {
        let problem = Problem::new(place, message);
        // An error of a profile is reported once, however many ports use it.
        if self.report.problems.len() < PROBLEMS_MAX && !self.report.problems.contains(&problem) {
            self.report.problems.push(problem);
        }
    }

    /// Records that a lossless promise cannot be kept: refused unless allowed.
    pub(super) fn lossy(&mut self, place: &str, message: String) {
        let problem = Problem::new(place, message);
        match self.config.allow_lossy_headroom {
            true => self.report.warnings.push(problem),
            false => self.report.problems.push(problem),
        }
    }

    /// Notes a weak promise.
    pub(super) fn warn(&mut self, place: &str, message: String) {
        self.report.warnings.push(Problem::new(place, message));
    }

    fn check_names(&mut self, ports: &[PortLink]) {
        if let Some(cell) = self.config.cell
            && (cell == Bytes::ZERO || cell.get() > 65_536)
        {
            self.refuse(
                "cell",
                format!("{cell}: a cell has 1 to 65536 bytes; leave it out for plain bytes"),
            );
        }
        if let Some(slots) = self.config.packet_slots
            && !(1..=PACKET_SLOTS_MAX).contains(&slots)
        {
            self.refuse("packet_slots", format!("{slots}: give 1 to {PACKET_SLOTS_MAX}"));
        }
        if let (Some(hold), Some(slots)) = (self.config.hold_slots, self.config.packet_slots)
            && hold > slots
        {
            let message =
                format!("{hold} of {slots} packet_slots: packets that are held are some of them");
            self.refuse("hold_slots", message);
        } else if let Some(hold) = self.config.hold_slots.filter(|hold| *hold > PACKET_SLOTS_MAX) {
            self.refuse("hold_slots", format!("{hold}: give 0 to {PACKET_SLOTS_MAX}"));
        }
        if self.pools.len() > POOLS_MAX {
            let message = format!("{} pools, at most {POOLS_MAX}", self.pools.len());
            self.refuse("buffer_pools", message);
        }
        let known: Vec<String> = ports.iter().map(|link| link.number.to_string()).collect();
        for name in self.config.ports.keys() {
            if !known.contains(name) {
                self.refuse(
                    &format!("ports.{name}"),
                    format!("there is no port \"{name}\"; ports are: {}", known.join(", ")),
                );
            }
        }
    }

    fn spread_or_refuse<V: Clone, const N: usize>(
        &mut self,
        place: &str,
        map: Option<&BTreeMap<ClassKey, V>>,
        of: (&str, &str),
    ) -> [Option<V>; N] {
        let Some(map) = map else { return std::array::from_fn(|_| None) };
        spread(map, of).unwrap_or_else(|message| {
            self.refuse(place, message);
            std::array::from_fn(|_| None)
        })
    }

    /// A named map as an array; absent keys, which are what `of` names, take `absent(key)`.
    fn map<const N: usize>(
        &mut self,
        (place, of): (&str, (&str, &str)),
        maps: &BTreeMap<String, ClassMap>,
        name: &Option<String>,
        absent: impl Fn(usize) -> u8,
    ) -> [u8; N] {
        let Some(name) = name else { return std::array::from_fn(absent) };
        let place = format!("{place} \"{name}\"");
        let Some(map) = maps.get(name) else {
            let known: Vec<&str> = maps.keys().map(String::as_str).collect();
            self.refuse(&place, format!("there is no such map; known: {}", known.join(", ")));
            return std::array::from_fn(absent);
        };
        let values: [Option<u8>; N] = self.spread_or_refuse(&place, Some(&map.0), of);
        if let Some(value) = values.iter().flatten().find(|value| usize::from(**value) >= CLASSES) {
            self.refuse(
                &place,
                format!("{value} is not a class, queue or group: they go from 0 to 7"),
            );
        }
        std::array::from_fn(|key| values[key].unwrap_or_else(|| absent(key)) % CLASSES as u8)
    }

    fn mask(&mut self, place: &str, priorities: &[u8]) -> u8 {
        let mut mask = 0;
        for priority in priorities {
            match usize::from(*priority) < CLASSES {
                true => mask |= 1 << priority,
                false => self.refuse(place, format!("{priority}: priorities go from 0 to 7")),
            }
        }
        mask
    }

    fn port(&mut self, link: &PortLink) -> PortPlan {
        let config = self.config;
        let section = match config.ports.get(&link.number.to_string()) {
            Some(section) => section.over(&config.port_defaults),
            None => config.port_defaults.clone(),
        };
        self.port_of(link, section)
    }

    /// A port without settings of its own. Problems of the defaults are reported for the ports that have them.
    fn defaults(&mut self) -> QosPort {
        let reported = std::mem::take(&mut self.report);
        let link = PortLink { number: PortNumber(0), rate: None };
        let plan = self.port_of(&link, self.config.port_defaults.clone());
        self.report = reported;
        QosPort::from(plan)
    }

    fn port_of(&mut self, link: &PortLink, section: PortSection) -> PortPlan {
        let config = self.config;
        let place = format!("port {}", link.number);
        let rate = section.rate.or(link.rate);
        let mtu = section.mtu.unwrap_or(MTU);
        self.link_values(&place, &section, rate);
        let classifier = self.classifier(&place, &section);
        let flow_control = self.flow_control(&place, &section, rate);
        let input = rate.map(|rate| headroom_input(&section, rate, mtu, config));
        let groups = self.groups(&place, &section, input.as_ref());
        let QueuesPlan { queues, buffer_names, wred_names, scheduler_names } =
            self.queues(&place, &section);
        let flow_control = FlowControlConfig {
            honoured_within: input.map_or(Span::MAX, |input| input.loop_time()),
            ..flow_control
        };
        let watchdog = self.watchdog(&place, &section, &flow_control);
        let tm = PortConfig {
            rate,
            wire: WireOverhead {
                preamble_and_gap: narrow(section.preamble_and_gap, 20),
                fcs: narrow(section.fcs, 4),
                min_frame: narrow(section.min_frame, 64),
            },
            max_catch_up: section
                .max_catch_up
                .map_or(Span::from_ms(100), |interval| interval.span()),
            catch_up_frames: match config.live {
                Some(_) if flow_control.mode != FlowControl::Off => CATCH_UP_FRAMES,
                _ => u32::MAX,
            },
            max: shaper(section.max_rate, section.max_burst),
            queues,
            groups: std::array::from_fn(|g| groups[g].config),
            flow_control,
            watchdog,
        };
        let loop_time = input.map_or(Span::MAX, |input| input.of_hardware().loop_time());
        let process = input.and_then(|input| input.process);
        let number = link.number;
        PortPlan {
            number,
            mtu,
            loop_time,
            process,
            groups,
            buffer_names,
            wred_names,
            scheduler_names,
            tm,
            classifier,
        }
    }
}

fn headroom_input(
    section: &PortSection,
    rate: BitsPerSec,
    mtu: Bytes,
    config: &QosConfig,
) -> HeadroomInput {
    HeadroomInput {
        formula: section.headroom_formula.unwrap_or_default(),
        rate,
        nominal: config.dilation.undone(rate),
        cable: section.cable.unwrap_or(Length::metres(5)),
        mtu,
        lossless_mtu: section.lossless_mtu.unwrap_or(mtu),
        preamble_and_gap: section.preamble_and_gap.unwrap_or(Bytes::new(20)),
        peer_response: section.peer_response.map(|interval| interval.span()),
        process: match (section.peer, section.peer_response) {
            (Some(PeerWord::Hardware), _) | (_, Some(_)) => None,
            (Some(PeerWord::Software), None) => Some(config.live.unwrap_or(PROCESS_DELAY)),
            (None, None) => config.live,
        },
        interface_delay: section.interface_delay.map(|interval| interval.span()),
        cell: config.cell.unwrap_or(Bytes::ZERO),
        small_packet_percent: section.small_packet_percent.unwrap_or(100),
    }
}
