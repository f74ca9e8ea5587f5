//! Why a laboratory cannot be built or run.

use std::io;

use wireyard_pipeline::packet::MemoryError;

use super::results::BadExpectation;
use super::scenario::Scenario;
use crate::live::private::NoNamespace;
use crate::pcap::PcapError;
use crate::ports::PortError;
use crate::ports::veth::VethError;
use crate::program::BuildError;
use crate::roce::rp::ParamError;
use crate::roce::rp::program::ParameterError;

/// What a scenario asks for that cannot be, or what the system refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A device, a queue or a flow that cannot be as the scenario says.
    #[error("{0}")]
    Scenario(String),
    /// A device that its program or configuration does not allow.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No packet memory for what the scenario may hold.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Flows that are drawn with this seed have not all figures that the scenario expects.
    #[error("with seed {seed} there is no figure `{names}`: other flows are drawn")]
    NoFigure {
        /// The seed.
        seed: u64,
        /// The figures, in the words of the scenario.
        names: String,
    },
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
        /// How many can be live.
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
    /// Expectations of figures that a run has not.
    pub(super) fn no_figure(scenario: &Scenario, wrong: &[BadExpectation]) -> LabError {
        let names = wrong.iter().map(|bad| scenario.expect[bad.index].figure.as_str());
        let names = names.collect::<Vec<_>>().join("`, `");
        LabError::NoFigure { seed: scenario.seed, names }
    }
}

impl From<LabError> for String {
    fn from(error: LabError) -> String {
        error.to_string()
    }
}

/// A rate control with parameters that it cannot have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateControlError {
    /// An unknown name, or a value that cannot be.
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
