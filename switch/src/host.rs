//! A host: the RoCE end point as a port, so that a host is a device in the role of a NIC.
//!
//! ```text
//!  wire <─ port 1 ─ core (programs/roce_nic) ─ port 2 ─> EndPointPort
//!                   traffic manager, PFC                  queue pairs, rate control, CNPs, flows
//! ```
//!
//! [`EndPointPort`] is what remains of a NIC when the device has taken queues, links and pauses: it turns the
//! transport's values (`roce`) into frames (`frames`) and back, answers ARP and neighbour discovery, and sends a frame
//! when pace, link and PFC allow it. Like every port it reads no clock; [`Port::next_arrival`] returns when it has
//! something to send, so the same end point runs live and in virtual time.
//!
//! * [`config`]: addresses and classes of a host.
//! * [`port`]: the port.
//! * [`counters`]: events of packets outside queue pairs.
//! * [`connect`]: the data that two ends exchange out of band, and a whole pair in one process.
//! * [`flow`]: work that keeps queue pairs busy, with its counters.
//! * [`gate`]: conditions before messages may be posted.
//! * [`session`]: commands of a user or a test, one JSON object per line.
//!
//! [`Port::next_arrival`]: crate::ports::Port::next_arrival

pub mod config;
pub mod connect;
pub mod counters;
pub mod flow;
pub mod gate;
pub mod port;
pub mod session;
mod spray;
#[cfg(test)]
mod tests;

use wireyard_pipeline::diag::Rejected;

use crate::core::Core;
use crate::ports::PortNumber;
use crate::program::{self, Loaded};

pub use config::{Classes, HostConfig};
pub use connect::{ConnectError, ConnectOptions, PairSpec, Peer, connect_pair};
pub use counters::HostCounters;
pub use flow::{FlowId, FlowOp, FlowReport, FlowSpec};
pub use gate::{GateId, GateReport, Need};
pub use port::EndPointPort;

/// Port number of the wire in `programs/roce_nic`.
pub const WIRE_PORT: PortNumber = PortNumber(1);
/// Port number of the end point in `programs/roce_nic`.
pub const END_POINT_PORT: PortNumber = PortNumber(2);

/// The program of a host, inside the binary: [`WIRE_PORT`] and [`END_POINT_PORT`].
///
/// # Errors
/// Its errors, which do not occur in a build that passed its tests.
pub fn nic_program() -> Result<Loaded, Rejected> {
    program::embedded("roce_nic").unwrap_or_else(|| unreachable!("it is inside the binary"))
}

/// The end point on a port of a device; `None` for another kind of port.
pub fn end_point(core: &mut Core, port: PortNumber) -> Option<&mut EndPointPort> {
    core.ports_mut().port(port)?.as_any_mut()?.downcast_mut()
}
