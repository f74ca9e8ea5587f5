//! The interfaces that the kernel has for ports: a TAP for each, in the namespace of the calling thread.
//!
//! They are removed when their files are closed, so with the process, however that ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use super::LinuxError;
use crate::control::PortPlace;
use crate::ports::PortNumber;
use crate::ports::sys::{interface, tap};

/// The MTU if the port has no interface (RFC 894).
pub(super) const MTU: u32 = 1500;
/// The largest frame of a TAP.
const FRAME_BYTES: usize = 65536;

/// A port's interface.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) worker: usize,
    pub(super) carrier: bool,
    file: File,
}

impl Tap {
    pub(super) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Passes the kernel a frame; false: it does not accept it (the interface is down).
    pub(super) fn give(&self, frame: &[u8]) -> bool {
        (&self.file).write(frame).is_ok()
    }

    /// Takes up to `most` frames that the kernel sends.
    pub(super) fn take(&self, most: usize, room: &mut Vec<u8>) -> Vec<Vec<u8>> {
        room.resize(FRAME_BYTES, 0);
        let mut frames = Vec::new();
        while frames.len() < most {
            match (&self.file).read(room) {
                Ok(len) if len > 0 => frames.push(room[..len].to_vec()),
                // Nothing there; or its interface is gone, which the next notification reports.
                _ => break,
            }
        }
        frames
    }

    /// Whether the kernel passes over routes by this interface while it has no carrier, of IPv4 and of IPv6.
    pub(super) fn is_passed_over(&self) -> [bool; 2] {
        ["ipv4", "ipv6"].map(|family| {
            let name = &self.name;
            let file = format!("/proc/sys/net/{family}/conf/{name}/ignore_routes_with_linkdown");
            // A namespace without IPv6 has no such file.
            std::fs::read_to_string(file).is_ok_and(|text| text.trim() != "0")
        })
    }

    /// Sets the interface's link to that of its port.
    pub(super) fn set_carrier(&mut self, up: bool) -> io::Result<()> {
        self.carrier = up;
        tap::set_carrier(&self.file, up)
    }
}

/// The name of a port's interface.
pub(super) fn name_of(number: PortNumber, names: &BTreeMap<PortNumber, String>) -> Option<String> {
    match names.is_empty() {
        true => Some(format!("swp{number}")),
        false => names.get(&number).cloned(),
    }
}

/// Makes the interface of a port, up, with the port's address and MTU. It forwards: it is an interface of a router.
///
/// # Errors
/// With the interface's name and a remedy.
pub(super) fn make(name: &str, port: &PortPlace) -> Result<Tap, LinuxError> {
    let failed = |doing: &'static str, source: io::Error| {
        let (name, port) = (name.to_owned(), port.number);
        LinuxError::Interface { name, port, doing, source }
    };
    let file = tap::open(name).map_err(|e| failed("make it", e))?;
    interface::set_mac(name, port.mac).map_err(|e| failed("set its address", e))?;
    let mtu = port.mtu_bytes.unwrap_or(MTU);
    interface::set_mtu(name, mtu).map_err(|e| failed("set its MTU", e))?;
    forward(name);
    tap::set_carrier(&file, port.up).map_err(|e| failed("set its carrier", e))?;
    interface::set_up(name).map_err(|e| failed("set it up", e))?;
    let found = interface::look_up(name).map_err(|e| failed("look it up", e))?;
    let (index, worker) = (found.index, port.worker);
    Ok(Tap { name: name.to_owned(), index, worker, carrier: port.up, file })
}

/// Lets the kernel forward packets that arrive at this interface: without that it sends no ICMP errors for packets in
/// transit.
fn forward(name: &str) {
    for family in ["ipv4", "ipv6"] {
        // A namespace without IPv6 has no such file.
        let _ = std::fs::write(format!("/proc/sys/net/{family}/conf/{name}/forwarding"), "1");
    }
}

/// IPv6 forwards in a whole namespace or not at all (Documentation/networking/ip-sysctl.rst). Returns a notice for the
/// user.
pub(super) fn ipv6_notice() -> Option<String> {
    let on = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").ok()?;
    (on.trim() == "0").then(|| {
        "linux: IPv6 forwarding is off in this namespace, so the kernel answers no expired hop limit and finds no IPv6 neighbour for \
         packets in transit: sysctl -w net.ipv6.conf.all.forwarding=1"
            .to_owned()
    })
}
