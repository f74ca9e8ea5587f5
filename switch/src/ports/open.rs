//! From a specification to a port, with the fall-backs a bare interface name asks for.

use wireyard_pipeline::packet::PacketMemory;

use super::capture::CapturePort;
use super::faults::FaultyPort;
use super::pnet::PnetPort;
use super::raw::RawPort;
use super::tap::TapPort;
use super::xdp::XdpPort;
use super::{Port, PortError, PortKind, PortSpec};

/// A port that was opened, and what the user should know about it.
pub struct Opened {
    /// The port.
    pub port: Box<dyn Port>,
    /// How it was opened: for a bare name, the kind that was taken and why not a faster one.
    pub notices: Vec<String>,
}

/// Opens a port on the packet memory `mem`, behind a bad cable where the specification says so.
///
/// # Errors
/// See [`PortError`]; nothing is left open.
pub fn open(spec: &PortSpec, mem: &PacketMemory) -> Result<Opened, PortError> {
    let opened = open_kind(spec, mem)?;
    Ok(Opened { port: decorate(spec, opened.port), ..opened })
}

/// Puts an open port behind a bad cable, where the specification says so.
pub fn decorate(spec: &PortSpec, port: Box<dyn Port>) -> Box<dyn Port> {
    match spec.faults.can_happen() {
        true => Box::new(FaultyPort::new(port, spec.faults)),
        false => port,
    }
}

fn open_kind(spec: &PortSpec, mem: &PacketMemory) -> Result<Opened, PortError> {
    let mut port: Box<dyn Port> = match spec.kind {
        PortKind::Auto => return open_fastest(spec, mem),
        // Who names a kind gets it or an error.
        PortKind::Xdp => Box::new(XdpPort::open(spec, mem)?),
        PortKind::Raw => Box::new(RawPort::open(spec)?),
        PortKind::Pnet => Box::new(PnetPort::open(spec)?),
        PortKind::Tap => Box::new(TapPort::open(spec)?),
        PortKind::Pcap => Box::new(CapturePort::open(spec)?),
    };
    let notices = port.notices();
    Ok(Opened { port, notices })
}

/// For a bare name: AF_XDP, or AF_PACKET with the reason.
fn open_xdp(spec: &PortSpec, mem: &PacketMemory) -> Result<Opened, PortError> {
    let why = match XdpPort::open(spec, mem) {
        Ok(mut port) => {
            let notices = port.notices();
            return Ok(Opened { port: Box::new(port), notices });
        }
        Err(error @ (PortError::Gone { .. } | PortError::Taken { .. })) => return Err(error),
        Err(why) => why,
    };
    let raw = PortSpec { kind: PortKind::Raw, queue: 0, ..spec.clone() };
    // Where that fails too (no privilege), what was asked for is what is explained.
    let Ok(mut port) = RawPort::open(&raw) else { return Err(why) };
    let mut notices = vec![format!("{why}; using {raw} instead")];
    notices.append(&mut port.notices());
    Ok(Opened { port: Box::new(port), notices })
}

/// The fastest kind that works: xdp, raw, pnet.
fn open_fastest(spec: &PortSpec, mem: &PacketMemory) -> Result<Opened, PortError> {
    let of = |kind| PortSpec { kind, ..spec.clone() };
    let mut opened = match open_xdp(&of(PortKind::Xdp), mem) {
        Err(error @ (PortError::Gone { .. } | PortError::Taken { .. })) => {
            return Err(renamed(error, spec));
        }
        Err(error) => {
            // Where a packet socket of ours cannot be opened, pnet's cannot either, except for one
            // that lacks what we ask of it.
            let mut port = PnetPort::open(&of(PortKind::Pnet)).map_err(|_| error)?;
            let notices = port.notices();
            Opened { port: Box::new(port), notices }
        }
        Ok(opened) => opened,
    };
    let said = format!("{}: opened as {}", spec.target, opened.port.name());
    opened.notices.insert(0, said);
    Ok(opened)
}

/// What is wrong with an interface is said under the name that was given.
fn renamed(error: PortError, spec: &PortSpec) -> PortError {
    match error {
        PortError::Gone { help, .. } => PortError::Gone { port: spec.target.clone(), help },
        PortError::Taken { help, .. } => PortError::Taken { port: spec.target.clone(), help },
        other => other,
    }
}
