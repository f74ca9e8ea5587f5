//! The state of a network interface under a port: missing, down, gone, there again.
//!
//! The kernel reports to a socket once that its interface went down (ENETDOWN); this module determines whether it is
//! down or gone, and reports that with the command that helps. A port claims its interface: with another switch on it,
//! frames would be duplicated, or one of the two would receive none.

use std::fs::File;
use std::io;
use std::sync::Arc;

use wireyard_tables::time::{Span, Time};

use super::sys::claim::{Refused, claim, claim_once};
use super::sys::interface::{self, Control, HARDWARE_ETHERNET, HARDWARE_LOOPBACK, Interface};
use super::sys::tap::{self, TapState};
use super::{LinkState, PortError, PortStats};

/// How often a port whose interface is gone searches for it.
const RETRY_EVERY: Span = Span::from_ms(200);

/// A port's state of its interface.
#[derive(Debug)]
pub(super) struct Watch {
    port: String,
    interface: String,
    state: LinkState,
    retry_at: Time,
    /// Created when the port is opened, so that later requests need no new descriptor.
    control: Control,
    /// Index of the interface that it has claimed.
    claimed: u32,
    /// The first queue of the same port has the claim.
    is_beside: bool,
    mac: [u8; 6],
    /// The file of a TAP, from which its state is read instead of the interface's.
    tap: Option<Arc<File>>,
}

impl Watch {
    /// Looks up and claims the interface of a port that is being opened.
    pub(super) fn open(port: &str, name: &str) -> Result<(Watch, Interface), PortError> {
        Watch::open_on(port, name, None)
    }

    /// Like [`Watch::open`] for the device side of a TAP, which is claimed separately from its interface.
    pub(super) fn open_tap(
        port: &str,
        name: &str,
        file: Arc<File>,
    ) -> Result<(Watch, Interface), PortError> {
        Watch::open_on(port, name, Some(file))
    }

    /// For a further queue of a port that has claimed its interface.
    pub(super) fn beside(&self, tap: Option<Arc<File>>) -> Result<Watch, PortError> {
        let port = self.port.clone();
        let control =
            Control::open().map_err(|source| failed(&port, "look up the interface", source))?;
        let (interface, claimed, mac) = (self.interface.clone(), self.claimed, self.mac);
        let (state, retry_at, is_beside) = (LinkState::Up, Time::ZERO, true);
        Ok(Watch { port, interface, state, retry_at, control, claimed, is_beside, mac, tap })
    }

    fn open_on(
        port: &str,
        name: &str,
        tap: Option<Arc<File>>,
    ) -> Result<(Watch, Interface), PortError> {
        let control =
            Control::open().map_err(|source| failed(port, "look up the interface", source))?;
        let found = find(&control, port, name)?;
        let usage = usage(tap.as_ref());
        claim(&control, usage, found.index).map_err(|refused| match refused {
            Refused::Taken(process) => {
                PortError::Taken { port: port.to_owned(), help: taken(name, process) }
            }
            Refused::Failed(source) => failed(port, "claim the interface", source),
        })?;
        let (port, interface) = (port.to_owned(), name.to_owned());
        // An interface that is down returns an error on first use.
        let (state, retry_at, claimed) = (LinkState::Up, Time::ZERO, found.index);
        let (mac, is_beside) = (found.mac, false);
        let watch =
            Watch { port, interface, state, retry_at, control, claimed, is_beside, mac, tap };
        Ok((watch, found))
    }

    /// Sets the file after a TAP was attached again.
    pub(super) fn set_tap(&mut self, file: Arc<File>) {
        self.tap = Some(file);
    }

    /// The current state of the interface that the port was opened on; `None` if it does not exist.
    pub(super) fn find(&self, index: u32) -> Option<Interface> {
        let named = self.control.look_up(&self.interface).ok();
        named.filter(|found| found.index == index).or_else(|| {
            let name = self.control.name_of(index).ok()?;
            self.control.look_up(&name).ok().filter(|found| found.index == index)
        })
    }

    /// The state of the link of the port's interface, independent of errors of sockets.
    fn link(&self, index: u32) -> LinkState {
        match self.tap.as_deref().map(tap::state) {
            Some(TapState::Up) => LinkState::Up,
            Some(TapState::Down) => LinkState::Down,
            Some(TapState::Gone) => LinkState::Gone,
            None => self.find(index).map_or(LinkState::Gone, |found| state_of(&found)),
        }
    }

    pub(super) fn port(&self) -> &str {
        &self.port
    }

    /// The address of the interface when the port was opened; `None` for a TAP, whose address is that of the host
    /// behind it.
    pub(super) fn mac(&self) -> Option<[u8; 6]> {
        (self.tap.is_none() && self.mac != [0; 6]).then_some(self.mac)
    }

    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// True while the interface that the port was opened on does not exist: its sockets are dead.
    pub(super) fn is_gone(&self) -> bool {
        self.state == LinkState::Gone
    }

    /// True while the interface is known to be down.
    pub(super) fn is_down(&self) -> bool {
        self.state == LinkState::Down
    }

    /// Called when frames pass: the interface works again.
    pub(super) fn works(&mut self) {
        self.state = LinkState::Up;
    }

    /// Called when a socket reports that its interface does not work. Returns the error, unless it was reported before.
    pub(super) fn lost(&mut self, index: u32) -> Option<PortError> {
        // If a new interface has the same name, this port's own is gone all the same.
        self.fails(match self.link(index) {
            LinkState::Gone => LinkState::Gone,
            _ => LinkState::Down,
        })
    }

    /// Called when the kernel unbound a socket from its interface. If one of the same name and index exists again,
    /// nothing else shows it. Returns the error, unless it was reported before.
    pub(super) fn taken_away(&mut self) -> Option<PortError> {
        self.fails(LinkState::Gone)
    }

    fn fails(&mut self, state: LinkState) -> Option<PortError> {
        let before = std::mem::replace(&mut self.state, state);
        if self.state == before {
            return None;
        }
        let (port, name) = (self.port.clone(), &self.interface);
        Some(if self.state == LinkState::Gone {
            let help =
                format!("{name} was deleted or moved away; the port resumes when it is back");
            PortError::Gone { port, help }
        } else {
            PortError::Down { port, help: format!("ip link set {name} up; the port resumes then") }
        })
    }

    /// For a port whose interface is gone: the interface that has its name now; searches at most every [`RETRY_EVERY`].
    pub(super) fn look_again(&mut self, now: Time) -> Option<Interface> {
        if now < self.retry_at {
            return None;
        }
        self.retry_at = now + RETRY_EVERY;
        let found = self.control.look_up(&self.interface).ok().filter(|found| found.up)?;
        if found.index != self.claimed && !self.is_beside {
            let control = Control::open().ok()?;
            // An interface that another switch has claimed is not used while that lasts.
            claim_once(&control, usage(self.tap.as_ref()), found.index).ok()?;
            (self.control, self.claimed) = (control, found.index);
        }
        Some(found)
    }

    /// Reads the state of the link now.
    pub(super) fn look(&mut self, index: u32) -> LinkState {
        if self.state == LinkState::Gone {
            return LinkState::Gone;
        }
        let link = self.link(index);
        if !matches!(link, LinkState::Gone | LinkState::Down) {
            self.works();
        }
        link
    }

    /// The end of a receive burst: frames are returned first, and an error after them is kept in `late`.
    pub(super) fn received(
        &mut self,
        count: usize,
        failure: Option<PortError>,
        late: &mut Option<PortError>,
    ) -> Result<usize, PortError> {
        match failure {
            Some(error) if count == 0 => return Err(error),
            None if count > 0 => self.works(),
            failure => *late = failure,
        }
        Ok(count)
    }

    /// Classifies a receive error: an error for the caller, or `None` if it was reported or is transient.
    pub(super) fn rx_failed(
        &mut self,
        error: io::Error,
        index: u32,
        stats: &mut PortStats,
    ) -> Option<PortError> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => None,
            // The kernel cannot describe the frame (an unknown kind of GSO) and has dropped it.
            Some(libc::EINVAL) => {
                stats.rx_gso += 1;
                None
            }
            // The last two: a TAP without its device.
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADFD | libc::EFAULT) => {
                self.lost(index)
            }
            _ => Some(self.failed("receive", error)),
        }
    }

    /// The error of a port for a failed system call.
    pub(super) fn failed(&self, doing: &'static str, source: io::Error) -> PortError {
        failed(&self.port, doing, source)
    }
}

fn state_of(found: &Interface) -> LinkState {
    match (found.up, found.running) {
        (false, _) => LinkState::Down,
        (true, false) => LinkState::NoCarrier,
        (true, true) => LinkState::Up,
    }
}

/// The command that gives a binary the privileges of all kinds of ports: `setcap` takes away what it does not name.
pub(crate) const SETCAP: &str =
    "setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep WIREYARD-BINARY";

/// The error of `port` for a failed system call, with advice where the cause is known.
pub(super) fn failed(port: &str, doing: &'static str, source: io::Error) -> PortError {
    let help = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!("run as root, or: sudo {SETCAP}"),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files: ulimit -n".to_owned(),
        _ => String::new(),
    };
    PortError::Io { port: port.to_owned(), doing, source, help }
}

/// The two sides of a TAP are claimed separately, and may have different owners.
fn usage(tap: Option<&Arc<File>>) -> &'static str {
    if tap.is_some() { "tap" } else { "port" }
}

fn taken(name: &str, process: Option<u32>) -> String {
    if process == Some(std::process::id()) {
        return format!(
            "{name} is a port of this switch already: take that away first (`wireyard port list` and `port remove`), or use another interface"
        );
    }
    let who = process.map_or(String::new(), |process| format!(", process {process}"));
    format!("{name} is the port of another switch or host{who}: end it, or use another interface")
}

/// Looks up an Ethernet interface; the error for a missing one lists those that exist.
fn find(control: &Control, port: &str, name: &str) -> Result<Interface, PortError> {
    let found = control.look_up(name).map_err(|source| match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            PortError::Gone { port: port.to_owned(), help: missing(name) }
        }
        _ => failed(port, "look up the interface", source),
    })?;
    if ![HARDWARE_ETHERNET, HARDWARE_LOOPBACK].contains(&found.hardware) {
        let why = format!(
            "{name} is not an Ethernet interface (hardware type {}): use one that is, or a TAP",
            found.hardware
        );
        return Err(PortError::Unsupported { port: port.to_owned(), why });
    }
    Ok(found)
}

fn missing(name: &str) -> String {
    let names = interface::names();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "this network namespace has {there}; to make a pair: \
         ip link add {name} type veth peer name PEER && ip link set {name} up"
    )
}
