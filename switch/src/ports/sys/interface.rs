//! Properties of a network interface, by ioctl (netdevice(7)): not by /sys, which shows the namespace it was mounted
//! in.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::checked;

/// ARPHRD_ETHER.
pub const HARDWARE_ETHERNET: u16 = 1;
/// ARPHRD_LOOPBACK: frames have an Ethernet header too.
pub const HARDWARE_LOOPBACK: u16 = 772;

/// A snapshot of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index: a different one after it was deleted and created again.
    pub index: u32,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Administratively up.
    pub up: bool,
    /// Has a carrier: its cable is connected, its peer is up.
    pub running: bool,
    /// Hardware type (ARPHRD_*).
    pub hardware: u16,
    /// Its address, where it is an Ethernet interface.
    pub mac: [u8; 6],
}

/// A socket for ioctls on the interfaces of the network namespace in which it was created. It works also when no
/// further descriptor can be opened, and from a thread in another namespace.
#[derive(Debug)]
pub struct Control(pub(super) OwnedFd);

impl Control {
    /// A socket for the namespace of the calling thread.
    ///
    /// # Errors
    /// Too many open files.
    pub fn open() -> io::Result<Control> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok(Control(socket))
    }

    /// Looks an interface up by name.
    ///
    /// # Errors
    /// ENODEV if there is none.
    pub fn look_up(&self, name: &str) -> io::Result<Interface> {
        let socket = &self.0;
        let mut request = request(name)?;
        ioctl(socket, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: the kernel has just written this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex } as u32;
        ioctl(socket, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: as above.
        let mtu_bytes = unsafe { request.ifr_ifru.ifru_mtu } as u32;
        ioctl(socket, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: as above.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        mac.iter_mut().zip(address.sa_data).for_each(|(to, from)| *to = from as u8);
        let flags = flags(socket, name)?;
        Ok(Interface {
            index,
            mtu_bytes,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
            hardware: address.sa_family,
            mac,
        })
    }

    /// The current name of an interface.
    ///
    /// # Errors
    /// ENODEV if there is none with this index.
    pub fn name_of(&self, index: u32) -> io::Result<String> {
        let mut request = request("?")?;
        request.ifr_ifru.ifru_ifindex = index as libc::c_int;
        ioctl(&self.0, libc::SIOCGIFNAME, &mut request)?;
        let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
        Ok(name.map(|byte| char::from(*byte as u8)).collect())
    }
}

/// Looks an interface up by name in the namespace of the calling thread.
///
/// # Errors
/// ENODEV if there is none.
pub fn look_up(name: &str) -> io::Result<Interface> {
    Control::open()?.look_up(name)
}

/// Sets an interface up.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN, ENODEV.
pub fn set_up(name: &str) -> io::Result<()> {
    let socket = control_socket()?;
    let flags = flags(&socket, name)? | libc::IFF_UP;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    ioctl(&socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Sets an interface's MTU.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN, EINVAL beyond the limit of the device, ENODEV.
pub fn set_mtu(name: &str, mtu_bytes: u32) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu =
        libc::c_int::try_from(mtu_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    ioctl(&socket, libc::SIOCSIFMTU, &mut request)
}

/// Sets an Ethernet interface's address.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN, EADDRNOTAVAIL for a group address, EBUSY, ENODEV.
pub fn set_mac(name: &str, mac: [u8; 6]) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = request(name)?;
    // SAFETY: `sockaddr` is plain data, for which zero is valid.
    let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
    address.sa_family = HARDWARE_ETHERNET;
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    ioctl(&socket, libc::SIOCSIFHWADDR, &mut request)
}

/// True if the network card (or a veth peer's kernel) takes VLAN tags out of received frames.
pub fn strips_tags(name: &str) -> bool {
    const ETHTOOL_GFLAGS: u32 = 0x25;
    const ETH_FLAG_RXVLAN: u32 = 1 << 8;
    ethtool(name, ETHTOOL_GFLAGS, [0u32; 2]).is_ok_and(|[_, flags]| flags & ETH_FLAG_RXVLAN != 0)
}

/// Number of receive queues of an interface; `None` if its driver does not report it.
pub fn receive_queues(name: &str) -> Option<u32> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    // struct ethtool_channels: rx_count and combined_count are words 5 and 8.
    let channels = ethtool(name, ETHTOOL_GCHANNELS, [0u32; 9]).ok()?;
    Some(channels[5] + channels[8]).filter(|queues| *queues > 0)
}

/// The driver of an interface.
pub fn driver(name: &str) -> Option<String> {
    const ETHTOOL_GDRVINFO: u32 = 0x03;
    // struct ethtool_drvinfo: 196 bytes, with the driver's name in the 32 bytes after the command.
    let info = ethtool(name, ETHTOOL_GDRVINFO, [0u32; 49]).ok()?;
    let bytes = info[1..9].iter().flat_map(|word| word.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Some(String::from_utf8_lossy(&name).into_owned()).filter(|name| !name.is_empty())
}

/// Executes an ethtool command (include/uapi/linux/ethtool.h) whose structure has `WORDS` words, the command first.
fn ethtool<const WORDS: usize>(
    name: &str,
    command: u32,
    mut value: [u32; WORDS],
) -> io::Result<[u32; WORDS]> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    value[0] = command;
    let (socket, mut request) = (control_socket()?, request(name)?);
    // The kernel writes words of `value` during the call, no more than the command's structure has.
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    ioctl(&socket, SIOCETHTOOL, &mut request)?;
    Ok(value)
}

/// The names of all interfaces, sorted. Empty if they cannot be listed.
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: `if_nameindex` returns null or an array that ends with an entry of index 0, with zero-terminated names,
    // valid until it is freed below.
    unsafe {
        let list = libc::if_nameindex();
        let mut at = list;
        while !at.is_null() && (*at).if_index != 0 {
            names.push(CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        if !list.is_null() {
            libc::if_freenameindex(list);
        }
    }
    names.sort();
    names
}

fn control_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// An empty request for an interface of this name.
pub(super) fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

pub(super) fn ioctl(fd: &OwnedFd, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the codes used in this module take a pointer to one `ifreq`.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), code, request as *mut libc::ifreq) }).map(drop)
}

fn flags(socket: &OwnedFd, name: &str) -> io::Result<libc::c_int> {
    let mut request = request(name)?;
    ioctl(socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the kernel has just written this member of the union.
    Ok(libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags } as u16))
}
