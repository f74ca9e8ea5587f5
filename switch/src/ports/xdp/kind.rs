//! AF_XDP as a kind of port, and what is said of its queues when one is opened.

use wireyard_pipeline::packet::PacketMemory;

use super::XdpPort;
use crate::ports::kind::{Kind, Medium, QueueCount};
use crate::ports::open::{Opened, joined};
use crate::ports::sys::interface::receive_queues;
use crate::ports::{PortError, PortSpec};

pub(crate) const KIND: Kind = Kind {
    name: "xdp",
    medium: Medium::Interface,
    queues: QueueCount::OfInterface,
    options: &["queue", "queues", "ring"],
    open,
};

fn open(spec: &PortSpec, mem: &PacketMemory, queues: u32) -> Result<Opened, PortError> {
    let mut opened = joined(match queues {
        2.. => XdpPort::open_queues(spec, mem, queues)?,
        _ => vec![XdpPort::open(spec, mem)?],
    });
    opened.notices.extend(without_socket(spec, queues).map(|why| format!("{spec}: {why}")));
    Ok(opened)
}

/// The message for an interface with more receive queues than the port has sockets, with the remedy: a network card
/// spreads flows over all queues, and frames of one without a socket go to the kernel
/// (Documentation/networking/af_xdp.rst, "Usage").
pub(in crate::ports) fn without_socket(spec: &PortSpec, queues: u32) -> Option<String> {
    let has = receive_queues(&spec.target)?;
    (has > queues).then(|| {
        let name = &spec.target;
        format!(
            "{name} has {has} receive queues and the port has sockets for {queues}, so frames of the others are lost: --workers {has}, or ethtool -L \
             {name} combined {queues} (veth: ethtool -L {name} rx {queues}), or raw:{name}"
        )
    })
}

pub(super) fn too_few_queues(spec: &PortSpec, queues: u32, has: u32) -> PortError {
    let (first, name) = (spec.queue, &spec.target);
    let (last, all) = (first + queues - 1, first + queues);
    let fits = has.saturating_sub(first).max(1);
    let why = format!(
        "queues {first} to {last} are asked for, {name} has {has} (from 0 on): queues={fits}, or ethtool -L {name} combined {all} (a veth pair \
         is made with them: ip link add ... numrxqueues {all} numtxqueues {all})",
    );
    PortError::Unsupported { port: spec.to_string(), why }
}
