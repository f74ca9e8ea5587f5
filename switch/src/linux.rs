//! Linux on top of a device: the kernel is the control plane of the router that the program is.
//!
//! Each routed port has an interface in a network namespace of the user's choice: a TAP with the port's address, MTU
//! and link state. The kernel receives there the packets that the program punts; packets that the kernel sends there
//! leave by the port. The kernel's interfaces, addresses, neighbours and routes are written into tables of the program,
//! by its `linux:`, so tools that change them (`ip`, FRR, a DHCP client) change the device's forwarding without support
//! for the device. ARP, neighbour discovery, ICMP and routing protocols are left to the kernel and its programs: none
//! of them is here. VPP's linux-cp and SONiC's control plane have the same design.
//!
//! Packets of routes that the tables cannot express go to the kernel, which forwards them itself: slower, but
//! correctly. Only the routing table `main` is read: no policy routing, no VRFs, no VLAN interfaces on top of a port's.
//!
//! * `kernel`: messages of the kernel as values; `netlink`: the sockets; `model`: the kernel's state, without I/O.
//! * `mapping`: the program's `linux:`; `hops`: next hops by number, and groups of them; `plan`: from state to entries;
//!   `writes`: a flush in the right order.
//! * `taps`: the interfaces; `mirror`: the thread.

mod error;
mod hops;
mod kernel;
mod mapping;
mod mirror;
mod model;
mod netlink;
mod plan;
mod taps;
mod writes;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use error::LinuxError;
pub use mapping::is_mapped;

use crate::control::{Control, PortPlace};
use crate::ports::PortNumber;
use crate::ports::sys::netns;
use crate::stats::LinuxReport;
use crate::sync;
use mirror::Mirror;

/// Receives notices for the user.
pub type Notify = Box<dyn Fn(&str) + Send>;

/// Options of the kernel's side.
#[derive(Clone, Debug)]
pub struct Options {
    /// The network namespace: a name as in `ip netns`, or a path; `None`: that of the calling thread.
    pub namespace: Option<String>,
    /// Names of the interfaces, by port: other ports get none. Empty: each port has `swpN`.
    pub names: BTreeMap<PortNumber, String>,
    /// The class of the kernel's packets.
    pub traffic_class: u8,
    /// The existing ports.
    pub ports: Vec<PortPlace>,
}

/// The running mirror; it ends when this is dropped.
#[derive(Debug)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<LinuxReport>>,
    thread: Option<JoinHandle<()>>,
}

/// Folders of `/proc` whose files are written: forwarding of interfaces.
pub const FILES: [&str; 1] = ["/proc/sys/net"];

type Work = Box<dyn FnOnce() + Send>;

/// A thread in the network namespace, without work yet: entering a namespace requires a privilege that nothing after it
/// needs.
#[derive(Debug)]
pub struct Namespace {
    work: SyncSender<Work>,
    thread: JoinHandle<()>,
}

impl Namespace {
    /// Starts it in the namespace of this name or path, or that of the calling thread; there it calls `then`.
    ///
    /// # Errors
    /// No such namespace, no privilege, or the error of `then`.
    pub fn enter(
        name: Option<String>,
        then: impl FnOnce() -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    ) -> Result<Namespace, LinuxError> {
        let (ready, entered) = sync_channel(1);
        let (work, wanted) = sync_channel::<Work>(1);
        let thread = std::thread::Builder::new().name("linux".into());
        let thread = thread.spawn(move || {
            let begun = name.as_deref().map_or(Ok(()), enter);
            let begun = begun.and_then(|()| then().map_err(LinuxError::Then));
            let is_there = begun.is_ok();
            // The creator of the thread waits for this.
            let _ = ready.send(begun);
            if let (true, Ok(work)) = (is_there, wanted.recv()) {
                work();
            }
        });
        let thread = thread.map_err(LinuxError::Thread)?;
        entered.recv().unwrap_or(Err(LinuxError::Ended))?;
        Ok(Namespace { work, thread })
    }
}

/// Starts it. When this returns, the interfaces exist and the tables have the kernel's state.
///
/// # Errors
/// No such namespace, no privilege, an interface that already exists.
pub fn start(control: Control, options: Options, notify: Notify) -> Result<Handle, LinuxError> {
    let namespace = Namespace::enter(options.namespace.clone(), || Ok(()))?;
    start_in(namespace, control, options, notify)
}

/// The same in a thread that is in its namespace, regardless of the one in `options`.
///
/// # Errors
/// No privilege, an interface that already exists.
pub fn start_in(
    namespace: Namespace,
    control: Control,
    options: Options,
    notify: Notify,
) -> Result<Handle, LinuxError> {
    let Namespace { work, thread } = namespace;
    let stop = Arc::<AtomicBool>::default();
    let report = Arc::<Mutex<LinuxReport>>::default();
    let (ready, opened) = sync_channel(1);
    let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&report));
    let run = move || match Mirror::open(control, options, notify, counted) {
        Ok(mirror) => {
            // The creator of the thread waits for this.
            let _ = ready.send(Ok(()));
            mirror.run(&stopped);
        }
        Err(why) => _ = ready.send(Err(why)),
    };
    // If it has ended, so has the other end of `opened`.
    let _ = work.send(Box::new(run));
    opened.recv().unwrap_or(Err(LinuxError::Ended))?;
    Ok(Handle { stop, report, thread: Some(thread) })
}

/// Moves the calling thread into a network namespace.
fn enter(namespace: &str) -> Result<(), LinuxError> {
    let path = match namespace.contains('/') {
        true => PathBuf::from(namespace),
        false => Path::new("/run/netns").join(namespace),
    };
    let name = namespace.to_owned();
    netns::enter(&path).map_err(|source| LinuxError::Namespace { name, path, source })
}

impl Handle {
    /// The counters, and the contents of the tables.
    pub fn report(&self) -> LinuxReport {
        *sync::lock(&self.report)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It checks at least once a second. The interfaces are removed with it.
        self.thread.take().map(JoinHandle::join);
    }
}
