//! Why the kernel cannot be the control plane of a device.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::control::ControlError;
use crate::ports::PortNumber;

/// An error of the mirror of the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxError {
    /// The network namespace does not exist, or may not be entered.
    #[error("linux: network namespace {}: {source}{}", .path.display(), namespace_help(.name, .source))]
    Namespace {
        /// As it was named.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The function that was to run first in the namespace failed.
    #[error(transparent)]
    Then(Box<dyn Error + Send + Sync>),
    /// The system has no more threads.
    #[error("linux: a thread: {0}")]
    Thread(#[source] io::Error),
    /// The thread ended before it reported that it runs.
    #[error("linux: its thread has ended")]
    Ended,
    /// The device does not accept a reader of its packets and events.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The system has no more descriptors.
    #[error("linux: {0}")]
    Descriptors(#[source] io::Error),
    /// The kernel does not report changes of its state.
    #[error("linux: the socket for news of routes: {0}: it takes root, or CAP_NET_ADMIN")]
    News(#[source] io::Error),
    /// The kernel's state cannot be read.
    #[error("linux: reading the kernel's routes: {0}")]
    State(#[source] io::Error),
    /// An interface name for a port that does not exist.
    #[error("linux: there is no port {0}, whose interface has a name")]
    NoPort(PortNumber),
    /// The interface of a port cannot be made.
    #[error("linux: interface {name} of port {port}: {doing}: {source}{}", interface_help(.source))]
    Interface {
        /// Its name.
        name: String,
        /// The port.
        port: PortNumber,
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

fn namespace_help(name: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!(": ip netns add {name}"),
        Some(libc::EPERM) => ": it takes root, or CAP_SYS_ADMIN".to_owned(),
        _ => String::new(),
    }
}

fn interface_help(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => ": it takes root, or CAP_NET_ADMIN",
        Some(libc::EBUSY) => ": another program has it",
        Some(libc::EINVAL) => ": there is another kind of interface of this name",
        Some(libc::ENOENT | libc::ENODEV) => ": there is no /dev/net/tun: modprobe tun",
        _ => "",
    }
}
