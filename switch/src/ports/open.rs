//! Opens a port from its specification, with the fallbacks of a bare interface name, and with its queues where several
//! workers serve it.

use wireyard_pipeline::packet::PacketMemory;

use super::faults::FaultyPort;
use super::faults::chance::FaultSetup;
use super::kind::QueueCount;
use super::sys::interface::receive_queues;
use super::xdp::without_socket;
use super::{Port, PortError, PortKind, PortSpec, bridge};

/// An open port, with messages for the user about it.
pub struct Opened {
    /// The port: its first queue, if it has several.
    pub port: Box<dyn Port>,
    /// Its further queues: each a receive queue and a transmit queue of the same link, for another worker.
    pub queues: Vec<Box<dyn Port>>,
    /// How it was opened: for a bare name, the kind that was used, and why a faster one was not.
    pub notices: Vec<String>,
}

/// Default number of queues of ports (without `queues=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Number of workers: a port has at most one queue for each.
    pub workers: u32,
    /// Queues of a port whose kind can have any number: as many as needed to give every worker one.
    pub each: u32,
}

impl Spread {
    /// One queue.
    pub const ONE: Spread = Spread { workers: 1, each: 1 };

    /// The default for `ports` ports on `workers` workers.
    pub fn of(ports: usize, workers: usize) -> Spread {
        let workers = u32::try_from(workers.max(1)).unwrap_or(u32::MAX);
        let ports = u32::try_from(ports.max(1)).unwrap_or(u32::MAX);
        Spread { workers, each: workers.div_ceil(ports) }
    }

    /// Number of queues of this port. AF_XDP receives the frames of only those queues that it has a socket for, so it
    /// uses all queues of the interface, up to the number of workers.
    pub fn queues(self, spec: &PortSpec, kind: PortKind) -> u32 {
        let of_interface = || match (self.workers, spec.queue) {
            (2.., 0) => receive_queues(&spec.target).unwrap_or(1).min(self.workers),
            _ => 1,
        };
        if spec.capture.is_some() {
            // Only one worker can write a capture file.
            return 1;
        }
        match kind.kind().map(|kind| kind.queues) {
            Some(QueueCount::OfInterface) => spec.queues.unwrap_or_else(of_interface),
            Some(QueueCount::Any) => spec.queues.unwrap_or(self.each),
            Some(QueueCount::One) => 1,
            None => self.queues(spec, PortKind::Xdp).max(self.each),
        }
    }
}

/// Opens a port on the packet memory `mem`, with a faulty cable if the specification has faults.
///
/// # Errors
/// See [`PortError`]; nothing stays open.
pub fn open(spec: &PortSpec, mem: &PacketMemory) -> Result<Opened, PortError> {
    open_spread(spec, mem, Spread::ONE)
}

/// Like [`open`], with queues for several workers.
///
/// # Errors
/// As [`open`]; more queues are requested than there are workers, or than the interface has.
pub fn open_spread(
    spec: &PortSpec,
    mem: &PacketMemory,
    spread: Spread,
) -> Result<Opened, PortError> {
    if let Some(queues) = spec.queues.filter(|queues| *queues > spread.workers) {
        let why = format!(
            "queues={queues}: each queue has a worker of its own, and there are {0}: --workers {queues}, or queues={0}",
            spread.workers
        );
        return Err(PortError::Unsupported { port: spec.to_string(), why });
    }
    if spec.capture.is_some() && spec.queues.is_some_and(|queues| queues > 1) {
        let why = "one worker writes a capture file: queues=1, or no capture of this port";
        return Err(PortError::Unsupported { port: spec.to_string(), why: why.to_owned() });
    }
    let mut opened = open_kind(spec, mem, spread)?;
    opened.port = decorate(spec, opened.port, 0);
    let queues = (1..).zip(opened.queues);
    opened.queues = queues.map(|(number, queue)| decorate(spec, queue, number)).collect();
    Ok(opened)
}

/// Adds a faulty cable to a queue of a port, if the specification has faults. Each queue draws its own faults.
fn decorate(spec: &PortSpec, port: Box<dyn Port>, queue: u64) -> Box<dyn Port> {
    let faults = FaultSetup { seed: spec.faults.seed.wrapping_add(queue), ..spec.faults };
    match faults.can_happen() {
        true => Box::new(FaultyPort::new(port, faults)),
        false => port,
    }
}

/// Replaces all decorators of a queue that was in use by those of the specification.
pub fn decorate_again(
    spec: &PortSpec,
    mut port: Box<dyn Port>,
    queue: u64,
    mem: &mut PacketMemory,
) -> Box<dyn Port> {
    while let Some(inner) = port.take_inner(mem) {
        port = inner;
    }
    decorate(spec, port, queue)
}

/// A port with these queues, of which it has at least one.
pub(super) fn joined<P: Port + 'static>(queues: Vec<P>) -> Opened {
    let mut queues = queues.into_iter();
    let mut port = queues.next().unwrap_or_else(|| unreachable!("a port has a queue"));
    let notices = port.notices();
    let boxed = |queue: P| -> Box<dyn Port> { Box::new(queue) };
    Opened { port: Box::new(port), queues: queues.map(boxed).collect(), notices }
}

/// A kind that is named is opened, or returns an error.
fn open_kind(spec: &PortSpec, mem: &PacketMemory, spread: Spread) -> Result<Opened, PortError> {
    match spec.kind.kind() {
        Some(kind) => {
            let mut opened = (kind.open)(spec, mem, spread.queues(spec, spec.kind))?;
            // AF_XDP takes frames away from the kernel; packet sockets take copies.
            if matches!(spec.kind, PortKind::Raw | PortKind::Pnet) && bridge::has(&spec.target) {
                let target = &spec.target;
                opened.notices.push(format!(
                    "warning: {target} belongs to a Linux bridge, which forwards its frames too, so they are doubled: \
                     ip link set {target} nomaster"
                ));
            }
            Ok(opened)
        }
        None => open_fastest(spec, mem, spread),
    }
}

/// For a bare name: AF_XDP, or else AF_PACKET with the reason in the messages.
fn open_xdp(spec: &PortSpec, mem: &PacketMemory, spread: Spread) -> Result<Opened, PortError> {
    let asked = match without_socket(spec, spread.queues(spec, spec.kind)) {
        Some(why) => Err(PortError::Unsupported { port: spec.to_string(), why }),
        None => open_kind(spec, mem, spread),
    };
    let why = match asked {
        Err(error @ (PortError::Gone { .. } | PortError::Taken { .. })) => return Err(error),
        Err(why) => why,
        opened => return opened,
    };
    let raw = PortSpec { kind: PortKind::Raw, queue: 0, ..spec.clone() };
    // If that fails too (no privilege), its error is the one to act on: this kind asks for less of the interface.
    let mut opened = open_kind(&raw, mem, spread)?;
    opened.notices.insert(0, format!("{why}; using {raw} instead"));
    Ok(opened)
}

/// The fastest kind that works: xdp, raw, pnet.
fn open_fastest(spec: &PortSpec, mem: &PacketMemory, spread: Spread) -> Result<Opened, PortError> {
    let of = |kind| PortSpec { kind, ..spec.clone() };
    let mut opened = match open_xdp(&of(PortKind::Xdp), mem, spread) {
        Err(error @ (PortError::Gone { .. } | PortError::Taken { .. })) => {
            return Err(renamed(error, spec));
        }
        // If a packet socket cannot be opened, pnet's cannot either, unless the kernel lacks only an option that the
        // former needs.
        Err(error) => open_kind(&of(PortKind::Pnet), mem, Spread::ONE).map_err(|_| error)?,
        Ok(opened) => opened,
    };
    let said = format!("{}: opened as {}", spec.target, opened.port.name());
    opened.notices.push(said);
    Ok(opened)
}

/// The error about an interface with the name that the user gave.
fn renamed(error: PortError, spec: &PortSpec) -> PortError {
    match error {
        PortError::Gone { help, .. } => PortError::Gone { port: spec.target.clone(), help },
        PortError::Taken { help, .. } => PortError::Taken { port: spec.target.clone(), help },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_gets_a_queue() {
        let raw = PortSpec::parse("raw:x").unwrap();
        let queues =
            |spec: &PortSpec, ports, workers| Spread::of(ports, workers).queues(spec, spec.kind);
        assert_eq!([(2, 1), (2, 2), (2, 3), (1, 4)].map(|(p, w)| queues(&raw, p, w)), [1, 1, 2, 4]);
        let asks = PortSpec::parse("raw:x,queues=3").unwrap();
        assert_eq!(queues(&asks, 2, 4), 3);
        let pnet = PortSpec::parse("pnet:x").unwrap();
        assert_eq!(queues(&pnet, 1, 4), 1);
    }
}
