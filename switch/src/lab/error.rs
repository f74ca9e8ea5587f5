//! Why a laboratory cannot be built or run.

use std::io;
use std::slice::GetDisjointMutError;

use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::packet::MemoryError;

use super::routes::LINKS;
use super::scenario::Scenario;
use crate::config::qos::{Problem, Report};
use crate::core::DeviceError;
use crate::frames::envelope::AddressError;
use crate::frames::layout::LayoutError;
use crate::host::connect::ConnectError;
use crate::live::private::NoNamespace;
use crate::pcap::PcapError;
use crate::ports::PortError;
use crate::ports::veth::VethError;
use crate::program::BuildError;
use crate::roce::rp::ParamError;
use crate::roce::rp::program::ParameterError;

/// A scenario that cannot be built, or a refusal of the system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The program of the switches, or of an adapter, is wrong: with the places.
    #[error(transparent)]
    Rejected(Box<Rejected>),
    /// The program of the switches has no tables for the routes that the topology gives.
    #[error(
        "the program of the switches, `{program}`, does not take the routes of `transport: {transport}`: name one that \
         does with `switch: {{ program: .. }}`, as `{usual}`, or another `transport` of `host`"
    )]
    Entries {
        /// The program.
        program: String,
        /// The transport of the hosts.
        transport: &'static str,
        /// A program for it.
        usual: &'static str,
        /// What it does not take.
        source: Box<Rejected>,
    },
    /// Macros of a program that is not in P4.
    #[error("`defines` are macros of a program in P4, and `{0}` is none: leave them out")]
    Defines(String),
    /// The program of the switches does not measure the inputs of a rate control.
    #[error(
        "the program of the switches has no table `{LINKS}`, so it writes no telemetry, which a rate control needs: \
         `switch: {{ program: hpcc_int }}` has one"
    )]
    NoTelemetry,
    /// The queues of a switch contradict each other: the whole report.
    #[error("queues of {switch}: {}\n{report}", .report.problems.first().map_or(String::new(), ToString::to_string))]
    SwitchQueues {
        /// The switch.
        switch: String,
        /// Their errors.
        report: Box<Report>,
    },
    /// The queues of an adapter contradict each other.
    #[error("queues of `{host}`: {}", lines(.problems))]
    AdapterQueues {
        /// The host.
        host: String,
        /// Their errors.
        problems: Vec<Problem>,
    },
    /// A host without a link.
    #[error("`{0}` has no link")]
    NoLink(String),
    /// A flow that cannot be.
    #[error("a flow of {scenario}: {source}")]
    Flow {
        /// The scenario.
        scenario: String,
        /// The cause.
        source: Box<FlowError>,
    },
    /// A gate of a host without flows.
    #[error("a host without an end point")]
    NoEndPoint,
    /// A device with an invalid program or configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A device refuses its ports or queues.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The header libraries lack a header of the frames. It does not occur in a build that passed its tests.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No packet memory for what the scenario may hold.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Native InfiniBand over interfaces of the kernel.
    #[error(
        "native InfiniBand cannot be live: its links are not Ethernet, and no interface of the kernel carries a local \
         route header; run it without `--live`, or with `transport: rocev2`"
    )]
    LiveInfiniband,
    /// More links than cables are laid.
    #[error(
        "{links} links cannot be live: at most {most} cables are laid; run it without `--live`"
    )]
    LiveLinks {
        /// Links of the scenario.
        links: usize,
        /// Most links that can be live.
        most: usize,
    },
    /// No network namespace for a live run.
    #[error(transparent)]
    Namespace(#[from] NoNamespace),
    /// A cable that cannot be laid.
    #[error(transparent)]
    Cable(#[from] VethError),
    /// An end of a cable that cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The format of captures cannot take a link.
    #[error(transparent)]
    Capture(#[from] PcapError),
    /// The system has no more threads.
    #[error("no thread for a worker: {0}")]
    Thread(io::Error),
}

impl LabError {
    /// The place in the scenario that is wrong, if it is known.
    pub fn place(&self, scenario: &Scenario) -> Option<SourceSpan> {
        match self {
            LabError::NoTelemetry | LabError::Entries { .. } | LabError::Defines(_) => {
                scenario.switch.span
            }
            _ => None,
        }
    }
}

/// Why two hosts are not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The sender has no link.
    #[error("it has no link")]
    NoLink,
    /// A packet length that RoCE does not have.
    #[error("no such path MTU")]
    PathMtu,
    /// A rate control with invalid parameters.
    #[error(transparent)]
    RateControl(#[from] RateControlError),
    /// It goes from a host to itself.
    #[error(transparent)]
    SameHost(#[from] GetDisjointMutError),
    /// A node without flows.
    #[error("a host without an end point")]
    NoEndPoint,
    /// An adapter with contradictory queues, so that the class of the flow's DSCP is unknown.
    #[error("queues that cannot be")]
    Queues,
    /// The end point has no number for another queue pair or another region, or the queue pair accepts no receives.
    #[error("{0}")]
    Full(&'static str),
    /// Addresses that no header has.
    #[error("{0:?}")]
    Address(#[from] AddressError),
    /// A queue pair that refuses its attributes.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// A rate control with invalid parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateControlError {
    /// An unknown name, or an invalid value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A parameter that the program does not have.
    #[error("there is no parameter {0}")]
    NoParameter(String),
    /// A value that the program does not allow.
    #[error(transparent)]
    Value(#[from] ParameterError),
    /// Periods that are too long in slow motion.
    #[error("periods that are too long")]
    Periods,
}
