//! Bringing AF_XDP up on an interface: which mode works, and what to say if none does.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use wireyard_pipeline::packet::PacketMemory;

use super::rings::Entries;
use super::shape::{HEADER_BYTES, Shape};
use crate::ports::PortError;
use crate::ports::sys::bpf::{Attachment, SocketMap, XdpMode, attach};
use crate::ports::sys::interface::{Interface, strips_tags};
use crate::ports::sys::xsk::{Xsk, XskConfig};
use crate::ports::watch::{Watch, failed};

/// A running socket with the program that feeds it. The program goes first.
pub(super) struct Live {
    attachment: Attachment,
    _map: SocketMap,
    pub(super) xsk: Xsk,
    /// Frames may span several UMEM chunks.
    pub(super) multi_buffer: bool,
}

impl Live {
    /// The program leaves VLAN tags before the frames.
    pub(super) fn stores_tags(&self) -> bool {
        self.attachment.stores_tags
    }
}

/// Modes from the best to the least, as (mode, multi-buffer). A program without multi-buffer also
/// makes a veth peer cut its own segments (GSO), so it is preferred.
const MODES: [(XdpMode, bool); 4] = [
    (XdpMode::Native, false),
    (XdpMode::Native, true),
    (XdpMode::Generic, false),
    (XdpMode::Generic, true),
];

/// A socket that was closed holds its queue for a moment: how often and how long to wait.
const BUSY_TRIES: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(2);

/// Starts AF_XDP in the best mode that works, and says so if that is not the native one.
///
/// # Errors
/// What failed in the last mode, with the way out.
pub(super) fn start(
    watch: &Watch,
    found: &Interface,
    queue: u32,
    mem: &PacketMemory,
    shape: &Shape,
    entries: Entries,
) -> Result<(Live, Vec<String>), PortError> {
    let longest = found.mtu_bytes.saturating_add(HEADER_BYTES);
    if longest > shape.frame_bytes_max() {
        return Err(mtu_too_large(watch, found.mtu_bytes, shape.frame_bytes_max()));
    }
    let mut last = None;
    for (mode, frags) in MODES {
        if !frags && longest > shape.one_part_bytes() {
            continue;
        }
        let config = XskConfig {
            index: found.index,
            queue,
            receive_entries: entries.receive.next_power_of_two(),
            send_entries: entries.send.next_power_of_two(),
            umem_chunk_bytes: shape.umem_chunk_bytes,
            extra_headroom_bytes: shape.extra_headroom_bytes,
            multi_buffer: frags,
        };
        match try_mode(mem, &config, mode) {
            Ok(live) if !live.stores_tags() && strips_tags(watch.interface()) => {
                return Err(tags_are_lost(watch));
            }
            Ok(live) => {
                let notice = match (mode, last) {
                    (XdpMode::Generic, Some((doing, error))) => Some(format!(
                        "{}: the driver has no native XDP ({doing}: {error}), generic XDP is used; \
                         raw:{} may be as fast",
                        watch.port(),
                        watch.interface()
                    )),
                    _ => None,
                };
                return Ok((live, notice.into_iter().collect()));
            }
            // Another mode does not help against these.
            Err((doing, error)) if is_final(&error) => {
                return Err(explain(watch, doing, error, found));
            }
            Err(failure) => last = Some(failure),
        }
    }
    match last {
        Some((doing, error)) => Err(explain(watch, doing, error, found)),
        None => Err(mtu_too_large(watch, found.mtu_bytes, shape.one_part_bytes())),
    }
}

type Failure = (&'static str, io::Error);

fn try_mode(mem: &PacketMemory, config: &XskConfig, mode: XdpMode) -> Result<Live, Failure> {
    let at = |step| move |error| (step, error);
    let XskConfig { index, queue, multi_buffer, .. } = *config;
    let xsk = open_patiently(mem, config)?;
    let map = SocketMap::new(queue + 1).map_err(at("make the map of AF_XDP sockets"))?;
    map.set(queue, xsk.fd()).map_err(at("register the AF_XDP socket"))?;
    let attachment =
        attach(&map, index, mode, multi_buffer).map_err(at("attach the XDP program"))?;
    Ok(Live { attachment, _map: map, xsk, multi_buffer })
}

fn open_patiently(mem: &PacketMemory, config: &XskConfig) -> Result<Xsk, Failure> {
    for _ in 1..BUSY_TRIES {
        match Xsk::open(mem, config) {
            Err((_, error)) if error.raw_os_error() == Some(libc::EBUSY) => sleep(BUSY_WAIT),
            other => return other,
        }
    }
    Xsk::open(mem, config)
}

fn is_final(error: &io::Error) -> bool {
    let codes = [libc::EPERM, libc::EBUSY, libc::ENOMEM, libc::ENOBUFS, libc::EAFNOSUPPORT];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn explain(watch: &Watch, doing: &'static str, source: io::Error, found: &Interface) -> PortError {
    let name = watch.interface();
    let help = match source.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            format!(
                "the packet memory cannot be pinned: raise the limit (ulimit -l unlimited), or give the \
                 binary the right to do without (setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock=ep), or \
                 use less memory (packet_slots), or raw:{name}"
            )
        }
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or: sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock=ep WIREYARD-BINARY".to_owned()
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
        Some(libc::EINVAL | libc::ERANGE) if doing.contains("program") => {
            format!(
                "the driver may want a smaller MTU than {}: ip link set {name} mtu 3400",
                found.mtu_bytes
            )
        }
        _ => return failed(watch.port(), doing, source),
    };
    PortError::Io { port: watch.port().to_owned(), doing, source, help }
}

/// Rather another kind of port than one that loses tags.
fn tags_are_lost(watch: &Watch) -> PortError {
    let name = watch.interface();
    let why = format!(
        "{name} takes VLAN tags out of frames and its driver does not tell them to AF_XDP: \
         ethtool -K {name} rxvlan off"
    );
    PortError::Unsupported { port: watch.port().to_owned(), why }
}

fn mtu_too_large(watch: &Watch, mtu: u32, frame_bytes: u32) -> PortError {
    let (name, fits) = (watch.interface(), frame_bytes - HEADER_BYTES);
    let why = format!(
        "frames of MTU {mtu} do not fit a chunk: ip link set {name} mtu {fits}, or give packet memory \
         larger chunks"
    );
    PortError::Unsupported { port: watch.port().to_owned(), why }
}
