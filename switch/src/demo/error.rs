//! Why there is no demonstration.

use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::packet::MemoryError;

use super::setting::FRAME_BYTES;
use crate::config::qos::Report;
use crate::core::DeviceError;
use crate::frames::envelope::AddressError;
use crate::frames::layout::LayoutError;
use crate::frames::transport;
use crate::lab::LabError;
use crate::live::private::NoNamespace;
use crate::ports::PortError;
use crate::ports::veth::VethError;
use crate::program::BuildError;

/// An operation that this system does not permit; or a defect of this build, which does not occur in one that passed
/// its tests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// No network namespace of its own.
    #[error(transparent)]
    Namespace(#[from] NoNamespace),
    /// A cable that cannot be laid.
    #[error(transparent)]
    Cable(#[from] VethError),
    /// An end of a cable that cannot be opened, or disappears.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No packet memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The closed loop, in the laboratory.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The scenario, the program or its entries are wrong.
    #[error(transparent)]
    Rejected(Box<Rejected>),
    /// The program makes no device.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The queues of the switch contradict each other.
    #[error("the queues:\n{0}")]
    Queues(Box<Report>),
    /// The device refuses its ports or queues.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The header libraries lack a header of the frames.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The hosts have addresses that no frame can have.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A data frame that cannot be built.
    #[error(transparent)]
    Frame(#[from] transport::BuildError),
    /// A data frame of another length than the law is judged with.
    #[error("a data frame has {0} bytes, not {FRAME_BYTES}")]
    FrameLength(usize),
    /// A part of the experiment is missing.
    #[error("{0}")]
    Missing(&'static str),
}

impl From<Rejected> for DemoError {
    fn from(rejected: Rejected) -> DemoError {
        DemoError::Rejected(Box::new(rejected))
    }
}
