//! A scenario: topology, flows, faults and expectations.
//!
//! The file is YAML with located errors, like every file of Wireyard; its shapes are in [`read`] and make its JSON
//! Schema too. Every quantity carries its unit. After reading it is guaranteed that every flow has a route, every rate
//! is above zero, every queue has room for a frame, and every name that is used exists.

mod collectives;
mod dilate;
mod faults;
mod flow_file;
mod flows;
mod host_keys;
mod hosts;
mod hpcc;
mod htsim;
mod loads;
pub mod nic;
mod quantity;
mod rate_control;
mod read;
mod reading;
mod shapes;
mod sheets;
mod topology;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use wireyard_pipeline::ir::SourceSpan;
use wireyard_tables::time::{Span, Time};

use super::fabric::Fabric;
use super::workload::{self, Gate, ItemRange, Source};
use crate::config::qos::QosConfig;
use crate::frames::envelope::Encap;
use crate::ports::PortNumber;
use crate::report::Unit;
use crate::report::expect::Condition;
use crate::roce::qp::{AckTimer, Retransmission};
use crate::roce::rp::dcqcn::Setting;
use crate::roce::rp::program::{self, Program};
use crate::roce::telemetry::TELEMETRY_BYTES;
use crate::units::{Bytes, Dilation, Probability};

pub use dilate::SlowMotionError;
pub use read::{read, read_changed};
pub use shapes::SCENARIO;

/// The protocol of the hosts on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// RoCEv2 over IPv4: CE, CNP.
    #[default]
    RoceV2,
    /// RoCEv1: no marking, so priority flow control alone.
    RoceV1,
    /// Native InfiniBand: FECN, BECN.
    Infiniband,
}

impl Transport {
    /// Names in scenarios.
    pub const NAMES: &'static [&'static str] = &["rocev2", "rocev1", "infiniband"];

    /// The transport of this name.
    pub fn by_name(name: &str) -> Option<Transport> {
        match name {
            "rocev2" => Some(Transport::RoceV2),
            "rocev1" => Some(Transport::RoceV1),
            "infiniband" => Some(Transport::Infiniband),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Transport::NAMES[self as usize]
    }
}

/// The settings of every switch.
#[derive(Clone, Debug)]
pub struct SwitchSetup {
    /// Folder or file of its program; the `rocev2_lossless` inside the binary when absent.
    pub program: Option<PathBuf>,
    /// Macros of a program in P4, name and value.
    pub defines: Vec<(String, String)>,
    /// Its queues.
    pub qos: QosConfig,
    /// Place of these queues, or of the links that they contradict.
    pub qos_span: Option<SourceSpan>,
    /// Place of the program's name, for errors found later.
    pub span: Option<SourceSpan>,
}

/// The scope of a host's CNP pacing: flow, address pair or port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CnpPer {
    /// One interval for each queue pair.
    #[default]
    Flow,
    /// One for each pair of addresses.
    Pair,
    /// One for the port.
    Port,
}

/// Limit of data without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outstanding {
    /// So much payload.
    Payload(Bytes),
    /// This many packets.
    Packets(u32),
}

/// The settings of every host.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its protocol.
    pub transport: Transport,
    /// Folder or file of the adapter's program; the `roce_nic` inside the binary when absent.
    pub program: Option<PathBuf>,
    /// Its queues; those of the lab when absent.
    pub qos: Option<QosConfig>,
    /// Rate control: `fixed`, a preset, or a program.
    pub rate_control: String,
    /// The program, if it is one.
    pub rate_program: Option<Arc<Program>>,
    /// Parameters that differ from the preset.
    pub parameters: Vec<(String, Setting)>,
    /// Least time between two CNPs; that of the preset when absent.
    pub cnp_interval: Option<Span>,
    /// The scope of that interval.
    pub cnp_per: CnpPer,
    /// Payload of a full packet.
    pub path_mtu: Bytes,
    /// DSCP of data.
    pub data_dscp: u8,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
    /// VLAN priority of data, if the transport has no DSCP.
    pub data_pcp: u8,
    /// Whether data packets are sent as ECT.
    pub ecn: bool,
    /// An acknowledgement is requested every this many packets; by rate control when absent.
    pub ack_every: Option<u32>,
    /// After 4.096 us x 2^n without an acknowledgement, packets are retransmitted; 0 is never.
    pub ack_timeout: u8,
    /// The adapter's handling of that timeout.
    pub ack_timer: AckTimer,
    /// The retransmission scheme.
    pub retransmission: Retransmission,
    /// Limit between the oldest missing packet and the newest, independent of rate control.
    pub outstanding: Option<Outstanding>,
    /// UDP source ports that data packets use in turn; 0 or 1: one.
    pub spray: u16,
    /// DSCPs of packets that switches trimmed, one bit each.
    pub trimmed_dscps: u64,
    /// Place of the rate control, or of what else decides it.
    pub rate_span: Option<SourceSpan>,
    /// Place of its queues, or of the links that they contradict.
    pub qos_span: Option<SourceSpan>,
    /// The factor by which everything is slowed down: values of a preset follow.
    pub dilation: Dilation,
}

impl HostSetup {
    /// Whether frames begin with a local route header.
    pub fn is_infiniband(&self) -> bool {
        self.transport == Transport::Infiniband
    }

    /// The congestion estimate of the rate control, and its unit in a report: alpha of DCQCN, or the state that a
    /// program shows.
    pub fn estimate(&self) -> Option<(&str, Unit)> {
        let Some(program) = &self.rate_program else {
            return (self.rate_control != "fixed").then_some(("alpha", Unit::Plain));
        };
        let of = program.estimate()?;
        let unit = match of.unit {
            program::Unit::Time => Unit::Seconds,
            program::Unit::Rate => Unit::BitRate,
            program::Unit::Bytes => Unit::Bytes,
            program::Unit::Count => Unit::Count,
            program::Unit::Number => Unit::Plain,
        };
        Some((&of.name, unit))
    }

    /// Packets for each acknowledgement.
    pub fn acks_every(&self) -> u32 {
        let usual = self.rate_program.as_ref().map_or(64, |of| of.notification().ack_every);
        self.ack_every.unwrap_or(usual)
    }

    /// The longest wait for an acknowledgement; `None` is unlimited.
    pub fn longest_ack_timeout(&self) -> Option<Span> {
        let (timeout, early) = self.ack_timer.timeout(self.ack_timeout);
        timeout.max(self.ack_timer.early[..early].last().copied())
    }

    /// Most packets of its queue pairs between the oldest missing one and the newest; `None` without a limit of its
    /// own.
    pub fn outstanding_packets(&self) -> Option<u32> {
        match self.outstanding? {
            Outstanding::Packets(packets) => Some(packets),
            Outstanding::Payload(bytes) => {
                u32::try_from(bytes.get().div_ceil(self.path_mtu.get().max(1))).ok()
            }
        }
    }

    /// Whether hosts detect losses by trimming, or retransmit single packets: reports have more figures then.
    pub fn is_for_lossy_fabrics(&self) -> bool {
        self.trimmed_dscps != 0 || self.retransmission != Retransmission::GoBackN
    }

    /// Whether its data packets have room for path telemetry of switches.
    pub fn telemetry(&self) -> bool {
        self.rate_program.as_ref().is_some_and(|of| of.notification().telemetry)
    }

    /// A full packet of data, without check sequence.
    pub fn frame(&self) -> Bytes {
        let encap = match self.transport {
            Transport::RoceV2 => Encap::RoceV2Ipv4,
            Transport::RoceV1 => Encap::RoceV1,
            Transport::Infiniband => Encap::IbLocal,
        };
        let headers = encap.overhead_bytes(self.transport == Transport::RoceV1);
        let telemetry = if self.telemetry() { TELEMETRY_BYTES as u64 } else { 0 };
        Bytes::new(self.path_mtu.get() + u64::from(headers) + telemetry)
    }
}

/// A rate control with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct RateSetup {
    /// `fixed`, a preset, or a program.
    pub name: String,
    /// The program, if it is one.
    pub program: Option<Arc<Program>>,
    /// Parameters that are written.
    pub parameters: Vec<(String, Setting)>,
}

/// Settings of a flow that override those of its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSetup {
    /// Rate control and the parameters that differ from the preset.
    pub rate_control: Option<RateSetup>,
    /// DSCP of its data.
    pub dscp: Option<u8>,
    /// Whether its data packets are sent as ECT.
    pub ecn: Option<bool>,
    /// The retransmission scheme.
    pub retransmission: Option<Retransmission>,
    /// UDP source ports that its packets use in turn.
    pub spray: Option<u16>,
}

/// One flow: a stream of messages from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Sending host.
    pub from: usize,
    /// Receiving host.
    pub to: usize,
    /// Bytes of one round; `None` sends until the end.
    pub size: Option<Bytes>,
    /// Bytes of a message (one work request).
    pub message: Bytes,
    /// When the first round starts.
    pub start: Time,
    /// Rounds, each after the one before has completed.
    pub rounds: u32,
    /// Most messages in flight.
    pub window: u32,
    /// Settings that differ from its host's.
    pub own: Option<Arc<FlowSetup>>,
    /// Its messages wait for gates of the workload.
    pub is_gated: bool,
    /// Its place in the file.
    pub span: SourceSpan,
}

/// Default length of a message.
pub(super) const MESSAGE: Bytes = Bytes::new(1_000_000);

/// A fault, or a change of settings.
#[derive(Clone, Debug)]
pub struct Fault {
    /// When it begins.
    pub at: Time,
    /// When it is over; `None` lasts to the end.
    pub until: Option<Time>,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Its place in the file.
    pub span: SourceSpan,
}

/// The kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The link carries nothing.
    LinkDown {
        /// Link.
        link: usize,
        /// Time after a cut, and after the link's return, when switches choose other routes.
        reroute_after: Option<Span>,
    },
    /// A host keeps its switch paused.
    PauseStorm {
        /// Host.
        host: usize,
        /// Priority.
        priority: u8,
    },
    /// A host accepts nothing from its wire.
    SlowReceiver {
        /// Host.
        host: usize,
    },
    /// Switches mark nothing.
    EcnOff,
    /// Other marking curves or XOFF levels.
    Thresholds(Tuning),
}

impl FaultKind {
    /// Whether packets may be lost or stopped because of it.
    pub fn stops_packets(&self) -> bool {
        !matches!(self, FaultKind::EcnOff | FaultKind::Thresholds(_))
    }
}

/// Thresholds instead of the configured ones; absent ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Of this switch alone.
    pub switch: Option<usize>,
    /// Of this port of it alone.
    pub port: Option<PortNumber>,
    /// Only of this queue, and of the priority group of the same number.
    pub queue: Option<u8>,
    /// Start of the marking curve.
    pub kmin: Option<Bytes>,
    /// Its end.
    pub kmax: Option<Bytes>,
    /// Its height.
    pub pmax: Option<Probability>,
    /// Occupancy of a lossless priority group at which its peer is paused.
    pub xoff_at: Option<Bytes>,
}

impl Tuning {
    /// Whether it changes marking.
    pub fn has_curve(&self) -> bool {
        self.kmin.is_some() || self.kmax.is_some() || self.pmax.is_some()
    }

    /// Whether it changes this queue or priority group.
    pub fn is_about(&self, node: usize, port: PortNumber, class: u8) -> bool {
        self.switch.is_none_or(|own| own == node)
            && self.port.is_none_or(|own| own == port)
            && self.queue.is_none_or(|own| own == class)
    }
}

/// An expectation.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Figure.
    pub figure: String,
    /// Its condition.
    pub condition: Condition,
    /// Its place in the file.
    pub span: SourceSpan,
}

/// A capture of a link.
#[derive(Clone, Debug)]
pub struct CaptureSpec {
    /// Link.
    pub link: usize,
    /// Most frames kept.
    pub frames: u64,
}

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Its file, for reports.
    pub path: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
    /// Most bytes of the state of a device's program; the default when absent.
    pub max_state: Option<u64>,
    /// Duration of the run.
    pub duration: Span,
    /// Figures count from here on.
    pub warm_up: Span,
    /// Time between samples.
    pub sample: Span,
    /// Samples in one window of the spectrum.
    pub spectrum_window: usize,
    /// Nodes and links.
    pub fabric: Fabric,
    /// Every switch.
    pub switch: SwitchSetup,
    /// Every host that is not in `hosts`.
    pub host: HostSetup,
    /// Hosts that differ.
    pub hosts: BTreeMap<usize, HostSetup>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// The gates of the flows.
    pub gates: Vec<Gate>,
    /// The sources of the flows.
    pub sources: Vec<Source>,
    /// The flows and gates of each source.
    pub parts: Vec<ItemRange>,
    /// Faults, in order of time.
    pub faults: Vec<Fault>,
    /// The check that this scenario is made to break.
    pub fails: Option<String>,
    /// Expectations.
    pub expect: Vec<Expect>,
    /// Captures.
    pub captures: Vec<CaptureSpec>,
}

impl Scenario {
    /// The settings of a host.
    pub fn host_of(&self, node: usize) -> &HostSetup {
        self.hosts.get(&node).unwrap_or(&self.host)
    }

    /// The settings of hosts, each kind once.
    pub fn host_setups(&self) -> impl Iterator<Item = &HostSetup> {
        std::iter::once(&self.host).chain(self.hosts.values())
    }

    /// The settings of the sender for this flow.
    pub fn sender(&self, flow: &FlowSpec) -> Cow<'_, HostSetup> {
        let host = self.host_of(flow.from);
        let Some(own) = &flow.own else { return Cow::Borrowed(host) };
        let mut setup = host.clone();
        if let Some(control) = &own.rate_control {
            setup.rate_control.clone_from(&control.name);
            setup.rate_program.clone_from(&control.program);
            setup.parameters.clone_from(&control.parameters);
            // An error in them is reported at the flow.
            setup.rate_span = Some(flow.span);
        }
        setup.data_dscp = own.dscp.unwrap_or(setup.data_dscp);
        setup.ecn = own.ecn.unwrap_or(setup.ecn);
        setup.retransmission = own.retransmission.unwrap_or(setup.retransmission);
        setup.spray = own.spray.unwrap_or(setup.spray);
        Cow::Owned(setup)
    }

    /// Hosts or flows have settings of their own: no single model applies to all of them.
    pub fn is_mixed(&self) -> bool {
        !self.hosts.is_empty() || self.flows.iter().any(|flow| flow.own.is_some())
    }

    /// The same with another seed: random choices on reading are drawn again.
    pub fn with_seed(self: &Arc<Scenario>, seed: Option<u64>) -> Arc<Scenario> {
        let Some(seed) = seed.filter(|seed| *seed != self.seed) else { return Arc::clone(self) };
        let mut scenario = Scenario { seed, ..Scenario::clone(self) };
        if self.sources.iter().any(Source::is_drawn) {
            scenario.draw();
        }
        Arc::new(scenario)
    }

    /// Creates the flows and gates of the sources, with the seed in force.
    fn draw(&mut self) {
        let work = workload::expand(&self.sources, &self.fabric, self.seed);
        (self.flows, self.gates, self.parts) = (work.flows, work.gates, work.parts);
    }
}
