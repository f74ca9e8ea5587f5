//! The network of the demonstration: a network namespace of its own with a cable for every host.

use std::net::Ipv4Addr;

use super::DemoError;
use super::setting::{MTU_BYTES, SENDERS};
use crate::frames::Mac;
use crate::frames::envelope::mapped;
use crate::live::private;
use crate::ports::{self, Opened, PortKind, PortNumber, PortSpec, veth};
use wireyard_pipeline::packet::PacketMemory;

/// Hosts: the senders, then the receiver.
pub(super) const HOSTS: usize = SENDERS + 1;
/// The host that receives.
pub(super) const RECEIVER: usize = SENDERS;

/// Moves to a new network namespace and lays the cables.
pub(super) fn lay() -> Result<(), DemoError> {
    private::enter("The demonstration")?;
    for host in 0..HOSTS {
        let names = [host_end(host), switch_end(host)];
        veth::create([&names[0], &names[1]], MTU_BYTES)?;
    }
    Ok(())
}

/// The interface at the host's end.
fn host_end(host: usize) -> String {
    format!("wy-host{}", host + 1)
}

/// The interface at the switch's end.
fn switch_end(host: usize) -> String {
    format!("wy-port{}", host + 1)
}

/// The port of a host on its cable.
pub(super) fn open_host(host: usize, memory: &mut PacketMemory) -> Result<Opened, DemoError> {
    open(&host_end(host), memory)
}

/// The switch's port to a host.
pub(super) fn open_switch(host: usize, memory: &mut PacketMemory) -> Result<Opened, DemoError> {
    open(&switch_end(host), memory)
}

fn open(interface: &str, memory: &mut PacketMemory) -> Result<Opened, DemoError> {
    // AF_PACKET works in every namespace; AF_XDP needs more privileges than a user namespace has.
    let spec = PortSpec::new(PortKind::Raw, interface);
    Ok(ports::open(&spec, memory)?)
}

/// MAC address of a host.
pub(super) fn host_mac(host: usize) -> Mac {
    Mac([2, 0, 0, 0, 1, host as u8 + 1])
}

/// MAC address of a port of the switch.
pub(super) fn port_mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 2, host as u8 + 1]
}

/// IP address of a host.
pub(super) fn host_ip(host: usize) -> u128 {
    mapped(Ipv4Addr::new(10, 0, 0, host as u8 + 1))
}

/// Number of the switch's port to a host.
pub(super) fn switch_port(host: usize) -> PortNumber {
    PortNumber(host as u16 + 1)
}
