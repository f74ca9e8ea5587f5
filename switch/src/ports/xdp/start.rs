//! Starts AF_XDP on an interface: selects the mode that works, and explains the error if none does.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use wireyard_pipeline::packet::{Buf, PacketMemory};

use super::rings::Entries;
use super::shape::{HEADER_BYTES, Shape};
use crate::ports::PortError;
use crate::ports::sys::bpf::{Attachment, SocketMap, XdpMode, attach};
use crate::ports::sys::interface::{Interface, strips_tags};
use crate::ports::sys::netns::is_in_first_user_namespace;
use crate::ports::sys::packet;
use crate::ports::sys::xsk::{Xsk, XskConfig};
use crate::ports::watch::{SETCAP, Watch, failed};
use crate::sync;

/// The program on an interface, which serves the sockets of all queues of a port.
pub(super) struct Program {
    attachment: Attachment,
    map: SocketMap,
    /// Index of the interface.
    index: u32,
    multi_buffer: bool,
    /// Otherwise a network card drops frames for other addresses before the program runs.
    _promiscuous: OwnedFd,
}

/// A running socket with its program. The program is dropped first.
pub(super) struct Live {
    program: Arc<Program>,
    pub(super) xsk: Xsk,
    /// Frames may span several UMEM chunks.
    pub(super) multi_buffer: bool,
}

impl Live {
    /// Closes the socket. Returns the chunks that the kernel had.
    pub(super) fn close(self) -> Vec<Buf> {
        // The program first: it sends frames to the socket.
        drop(self.program);
        self.xsk.close()
    }

    /// True if the program stores VLAN tags before the frames.
    pub(super) fn stores_tags(&self) -> bool {
        self.program.attachment.stores_tags
    }
}

/// The queue of its interface that a port has, and the state that it shares with the other queues of the same port.
pub(super) struct Queue {
    /// Number of the queue.
    pub(super) number: u32,
    /// The first queue of the port, which attaches the program.
    first: u32,
    /// Number of queues of the port.
    count: u32,
    shared: Arc<Mutex<Option<Arc<Program>>>>,
}

impl Queue {
    /// The queues of a port, in order.
    pub(super) fn of(first: u32, count: u32) -> Vec<Queue> {
        let shared = Arc::<Mutex<Option<Arc<Program>>>>::default();
        let queue = |number| Queue { number, first, count, shared: Arc::clone(&shared) };
        (first..first + count).map(queue).collect()
    }

    fn share(&self, program: Option<Arc<Program>>) {
        *sync::lock(&self.shared) = program;
    }

    /// The program on this interface, if it is attached.
    fn program(&self, index: u32) -> Option<Arc<Program>> {
        let shared = sync::lock(&self.shared);
        shared.clone().filter(|program| program.index == index)
    }

    /// Called when the socket is closed: the program is detached with the last one.
    pub(super) fn stop(&self) {
        if self.number == self.first {
            self.share(None);
        }
    }
}

/// Modes from best to worst, as (mode, multi-buffer). A program without multi-buffer also makes a veth peer cut its own
/// segments (GSO), so it is preferred.
const MODES: [(XdpMode, bool); 4] = [
    (XdpMode::Native, false),
    (XdpMode::Native, true),
    (XdpMode::Generic, false),
    (XdpMode::Generic, true),
];

/// A closed socket occupies its queue for a moment longer: number of tries where the thread may sleep, and time between
/// them.
pub(super) const BUSY_TRIES: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(2);

/// A start of AF_XDP on a queue.
pub(super) struct Start<'a> {
    pub(super) watch: &'a Watch,
    pub(super) found: &'a Interface,
    pub(super) queue: &'a Queue,
    pub(super) mem: &'a PacketMemory,
    pub(super) shape: &'a Shape,
    pub(super) entries: Entries,
    /// How often a queue that is busy is tried. A thread that forwards packets, which must not sleep, tries once.
    pub(super) tries: u32,
}

impl Start<'_> {
    /// Starts the queue, and attaches the program if it is the first one of its port.
    ///
    /// # Errors
    /// The error in the last mode, with the remedy; a queue other than the first fails until that one has started.
    pub(super) fn run(&self) -> Result<(Live, Vec<String>), PortError> {
        let queue = self.queue;
        if queue.number == queue.first {
            let (live, notices) = self.first()?;
            queue.share(Some(Arc::clone(&live.program)));
            return Ok((live, notices));
        }
        let at = |step| move |error| self.explain(step, error);
        let program = queue.program(self.found.index).ok_or_else(|| io::ErrorKind::NotFound.into());
        let program = program.map_err(at("find the XDP program of the first queue"))?;
        let multi_buffer = program.multi_buffer;
        let xsk = self.open(multi_buffer).map_err(|(step, error)| at(step)(error))?;
        program.map.set(queue.number, xsk.fd()).map_err(at("register the AF_XDP socket"))?;
        Ok((Live { program, xsk, multi_buffer }, Vec::new()))
    }

    /// Starts the first queue in the best mode that works, with a message if that is not the native one.
    fn first(&self) -> Result<(Live, Vec<String>), PortError> {
        let Start { watch, found, shape, .. } = *self;
        let longest = found.mtu_bytes.saturating_add(HEADER_BYTES);
        if longest > shape.frame_bytes_max() {
            return Err(mtu_too_large(watch, found.mtu_bytes, shape.frame_bytes_max()));
        }
        let mut last = None;
        for (mode, frags) in MODES {
            if !frags && longest > shape.one_part_bytes() {
                continue;
            }
            match self.try_mode(mode, frags) {
                Ok(live) if !live.stores_tags() && strips_tags(watch.interface()) => {
                    return Err(tags_are_lost(watch, last.as_ref()));
                }
                Ok(live) => {
                    let notice = match (mode, last) {
                        (XdpMode::Generic, Some(failure)) => Some(format!(
                            "{}: the driver has no native XDP ({}: {}), generic XDP is used; {}",
                            watch.port(),
                            failure.0,
                            failure.1,
                            instead(watch.interface(), &failure)
                        )),
                        _ => None,
                    };
                    return Ok((live, notice.into_iter().collect()));
                }
                // No other mode helps against these.
                Err((doing, error)) if is_final(&error) => {
                    return Err(self.explain(doing, error));
                }
                Err(failure) => last = Some(failure),
            }
        }
        match last {
            Some((doing, error)) => Err(self.explain(doing, error)),
            None => Err(mtu_too_large(watch, found.mtu_bytes, shape.one_part_bytes())),
        }
    }

    fn try_mode(&self, mode: XdpMode, multi_buffer: bool) -> Result<Live, Failure> {
        let (queue, index) = (self.queue, self.found.index);
        let at = |step| move |error| (step, error);
        let xsk = self.open(multi_buffer)?;
        let map = SocketMap::new(queue.first + queue.count)
            .map_err(at("make the map of AF_XDP sockets"))?;
        map.set(queue.number, xsk.fd()).map_err(at("register the AF_XDP socket"))?;
        let attachment =
            attach(&map, index, mode, multi_buffer).map_err(at("attach the XDP program"))?;
        let _promiscuous =
            packet::promiscuous(index).map_err(at("make the interface promiscuous"))?;
        let program = Arc::new(Program { attachment, map, index, multi_buffer, _promiscuous });
        Ok(Live { program, xsk, multi_buffer })
    }

    /// Opens the socket.
    fn open(&self, multi_buffer: bool) -> Result<Xsk, Failure> {
        let Start { found, queue, mem, shape, entries, tries, .. } = *self;
        let config = XskConfig {
            index: found.index,
            queue: queue.number,
            receive_entries: entries.receive.next_power_of_two(),
            send_entries: entries.send.next_power_of_two(),
            umem_chunk_bytes: shape.umem_chunk_bytes,
            extra_headroom_bytes: shape.extra_headroom_bytes,
            multi_buffer,
        };
        for _ in 1..tries {
            match Xsk::open(mem, &config) {
                Err((_, error)) if error.raw_os_error() == Some(libc::EBUSY) => sleep(BUSY_WAIT),
                other => return other,
            }
        }
        Xsk::open(mem, &config)
    }

    fn explain(&self, doing: &'static str, source: io::Error) -> PortError {
        let Start { watch, found, shape, .. } = *self;
        let (name, mtu) = (watch.interface(), found.mtu_bytes);
        // For frames in one part.
        let fits = shape.one_part_bytes() - HEADER_BYTES;
        let help = match source.raw_os_error() {
            Some(libc::ENOMEM | libc::ENOBUFS | libc::EPERM | libc::EACCES)
                if !is_in_first_user_namespace() =>
            {
                format!(
                    "the capabilities of a user namespace do not reach AF_XDP: raw:{name}, or start the switch outside of it \
                     (sudo nsenter --net=/proc/PID/ns/net, with the PID of a process in it)"
                )
            }
            Some(libc::ENOMEM | libc::ENOBUFS) => {
                format!(
                    "the packet memory cannot be pinned: raise the limit (ulimit -l unlimited), or give the \
                     binary the right to do without ({SETCAP}), or use less memory (packet_slots), or raw:{name}"
                )
            }
            Some(libc::EPERM | libc::EACCES) => {
                format!("run as root, or: sudo {SETCAP}")
            }
            Some(libc::EBUSY) if doing.contains("program") => {
                format!("another XDP program is attached: ip link set dev {name} xdp off")
            }
            Some(libc::EBUSY) => {
                format!(
                    "another AF_XDP socket has this queue of {name}: end its program, or use raw:{name}"
                )
            }
            Some(libc::EAFNOSUPPORT) => "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
            Some(libc::EINVAL | libc::ERANGE | libc::EOPNOTSUPP) if mtu > fits => {
                format!(
                    "frames of MTU {mtu} are received in several parts, which Linux 6.6 and its driver have to know: \
                     ip link set {name} mtu {fits}, or raw:{name}"
                )
            }
            _ => return failed(watch.port(), doing, source),
        };
        PortError::Io { port: watch.port().to_owned(), doing, source, help }
    }
}

type Failure = (&'static str, io::Error);

fn is_final(error: &io::Error) -> bool {
    let codes = [libc::EPERM, libc::EBUSY, libc::ENOMEM, libc::ENOBUFS, libc::EAFNOSUPPORT];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// The remedy where the driver refuses native XDP.
fn instead(name: &str, (_, error): &Failure) -> String {
    match error.raw_os_error() {
        // drivers/net/veth.c, veth_xdp_set: fewer receive queues than the peer has transmit queues.
        Some(libc::ENOSPC) => format!(
            "native XDP of a veth wants as many receive queues as its peer has transmit queues: ethtool -L {name} rx N"
        ),
        _ => format!("raw:{name} may be as fast"),
    }
}

/// The error for an interface that would lose tags: another kind of port is better. `native` is the driver's error for
/// native XDP, if any.
fn tags_are_lost(watch: &Watch, native: Option<&Failure>) -> PortError {
    let name = watch.interface();
    let help = match native {
        Some(failure) if failure.1.raw_os_error() == Some(libc::ENOSPC) => instead(name, failure),
        _ => format!("ethtool -K {name} rxvlan off"),
    };
    let why = format!(
        "{name} takes VLAN tags out of frames and its driver does not pass them to AF_XDP: {help}"
    );
    PortError::Unsupported { port: watch.port().to_owned(), why }
}

fn mtu_too_large(watch: &Watch, mtu: u32, frame_bytes: u32) -> PortError {
    let (name, fits) = (watch.interface(), frame_bytes - HEADER_BYTES);
    let why = format!(
        "frames of MTU {mtu} fit no chunk of packet memory: ip link set {name} mtu {fits}, or less"
    );
    PortError::Unsupported { port: watch.port().to_owned(), why }
}
