//! Addresses of a lab: those of every host and switch port follow from its place in the topology.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::ports::PortNumber;

/// The MAC address of a host.
pub fn host_mac(node: usize) -> [u8; 6] {
    let [high, low] = (node as u16).to_be_bytes();
    [0x02, 0, 0, 0, high, low]
}

/// The MAC address of a port of a switch.
pub fn port_mac(node: usize, port: PortNumber) -> [u8; 6] {
    let ([high, low], [port_high, port_low]) = ((node as u16).to_be_bytes(), port.0.to_be_bytes());
    [0x06, port_high, port_low, 0, high, low]
}

/// The IPv4 address of a host.
pub fn host_ip(node: usize) -> Ipv4Addr {
    let [high, low] = (node as u16).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The LID of a host: unicast, above 0.
pub fn host_lid(node: usize) -> u16 {
    node as u16 + 1
}

/// A MAC address as entries have it.
pub fn mac_text(mac: [u8; 6]) -> String {
    let mut text = String::with_capacity(17);
    for (index, byte) in mac.iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}
