//! `tap:` ports: a TAP device is created, or an existing one is used.
//!
//! The other side of the port is the interface: frames that the host sends by it are received here. Offloads are off,
//! so frames arrive whole, with tags and finished checksums. A device that was created here is deleted with the
//! process, even if that is killed. One system call for each frame.
//!
//! A device with several queues (IFF_MULTI_QUEUE) has a file for each. The kernel's own choice of the queue follows the
//! file by which a flow was answered last, which could change the queue of a flow and reorder it; so a program
//! ([`steer`]) hashes addresses and ports instead.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use wireyard_pipeline::packet::{Buf, LARGE_CHUNK_BYTES, PacketMemory};
use wireyard_tables::time::Time;

use super::kind::{Kind, Medium, QueueCount};
use super::open::joined;
use super::raw::Burst;
use super::sys::bpf::steer;
use super::sys::{interface, tap};
use super::transmit::{Sending, drop_all};
use super::watch::{Watch, failed};
use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortSpec, PortStats};
use super::{RxFrame, TxDone, TxFrame};

pub(crate) const KIND: Kind = Kind {
    name: "tap",
    medium: Medium::OwnInterface,
    queues: QueueCount::Any,
    options: &["queues", "mtu"],
    open: |spec, _, queues| match queues {
        2.. => Ok(joined(TapPort::open_queues(spec, queues)?)),
        _ => Ok(joined(vec![TapPort::open(spec)?])),
    },
};

/// A port on a TAP device.
pub struct TapPort {
    watch: Watch,
    index: u32,
    queues: Queues,
    caps: PortCaps,
    file: Arc<File>,
    spare: Option<Buf>,
    /// The rest of a frame that did not fit its chunk. The operating system allocates its pages when the first long
    /// frame is written there.
    overflow: Box<[u8]>,
    stats: PortStats,
    notices: Vec<String>,
}

impl TapPort {
    /// Creates or attaches to the device of a specification, and sets it up.
    ///
    /// # Errors
    /// No privilege, no /dev/net/tun, in use by another program, an interface that is not a TAP.
    pub fn open(spec: &PortSpec) -> Result<TapPort, PortError> {
        TapPort::open_first(spec, Queues::One)
    }

    /// Like [`TapPort::open`] with `queues` queues, which different workers may have.
    ///
    /// # Errors
    /// As [`TapPort::open`]; an existing device with one queue, no privilege to load the program that spreads frames.
    pub fn open_queues(spec: &PortSpec, queues: u32) -> Result<Vec<TapPort>, PortError> {
        let mut ports = vec![TapPort::open_first(spec, Queues::First)?];
        for _ in 1..queues {
            let [first, ..] = ports.as_slice() else { break };
            let file = Queues::Further.attach(&spec.target);
            let file = file.map_err(|error| failed(first.name(), "open a further queue", error))?;
            let file = Arc::new(file);
            let watch = first.watch.beside(Some(Arc::clone(&file)))?;
            ports.push(TapPort {
                watch,
                index: first.index,
                queues: Queues::Further,
                caps: first.caps,
                file,
                spare: None,
                overflow: overflow(),
                stats: PortStats::default(),
                notices: Vec::new(),
            });
        }
        Ok(ports)
    }

    fn open_first(spec: &PortSpec, queues: Queues) -> Result<TapPort, PortError> {
        let port = spec.to_string();
        let name = spec.target.as_str();
        let exists = interface::look_up(name).is_ok();
        let file = queues.attach(name);
        let file = file.map_err(|source| open_failed(&port, name, (exists, queues), source))?;
        if let Some(mtu) = spec.mtu_bytes {
            interface::set_mtu(name, mtu).map_err(|e| failed(&port, "set the MTU", e))?;
        }
        interface::set_up(name).map_err(|e| failed(&port, "set the interface up", e))?;
        let file = Arc::new(file);
        let (watch, found) = Watch::open_tap(&port, name, Arc::clone(&file))?;
        let done = if exists { "attached to" } else { "created" };
        let mtu = found.mtu_bytes;
        let notices = vec![format!("{port}: {done} {name}, MTU {mtu} (mtu= sets another)")];
        let link = spec.link.unwrap_or(LinkType::Ethernet);
        let caps = PortCaps { link, mtu_bytes: Some(mtu) };
        let stats = PortStats::default();
        let (index, overflow) = (found.index, overflow());
        Ok(TapPort { watch, index, queues, caps, file, spare: None, overflow, stats, notices })
    }

    /// Attaches to a device that was created again under the same name.
    fn reopen(&mut self, now: Time) -> bool {
        let Some(found) = self.watch.look_again(now) else { return false };
        let Ok(file) = self.queues.attach(self.watch.interface()) else { return false };
        self.file = Arc::new(file);
        self.watch.set_tap(Arc::clone(&self.file));
        self.index = found.index;
        self.caps.mtu_bytes = Some(found.mtu_bytes);
        self.watch.works();
        true
    }

    fn receive(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
    ) -> io::Result<Burst> {
        let Some(mut buf) = self.spare.take().or_else(|| mem.alloc()) else {
            self.stats.rx_no_memory += 1;
            return Ok(Burst::Last);
        };
        let data_off = mem.config().headroom_bytes as u16;
        let offset = usize::from(data_off);
        let room = mem.end_max(&buf) - offset;
        let chunk = mem.bytes_mut(&mut buf).and_then(|c| c.get_mut(offset..offset + room));
        let mut places =
            [IoSliceMut::new(chunk.unwrap_or_default()), IoSliceMut::new(&mut self.overflow)];
        let len = match (&*self.file).read_vectored(&mut places) {
            Ok(len) => len,
            Err(error) => {
                self.spare = Some(buf);
                return Err(error);
            }
        };
        // The kernel truncates a frame that does not fit both, without notice; the largest chunk has less room than
        // both together.
        if len > mem.max_frame_bytes() as usize {
            self.stats.rx_too_long += 1;
            self.spare = Some(buf);
            return Ok(Burst::More);
        }
        if len > room {
            let Some(mut large) = mem.alloc_to(offset + len) else {
                self.stats.rx_no_memory += 1;
                self.stats.rx_errors += 1;
                self.spare = Some(buf);
                return Ok(Burst::More);
            };
            let head = mem.bytes(&buf).get(offset..offset + room).unwrap_or_default();
            let place = mem.bytes_mut(&mut large).and_then(|c| c.get_mut(offset..offset + len));
            if let Some((first, second)) = place.and_then(|place| place.split_at_mut_checked(room))
            {
                first.copy_from_slice(head);
                second.copy_from_slice(&self.overflow[..len - room]);
            }
            self.spare = Some(std::mem::replace(&mut buf, large));
        }
        let len = len as u32;
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += u64::from(len);
        let checksum = ChecksumStatus::AsReceived;
        out.push(RxFrame { buf, data_off, len, wire_len: len, timestamp: now, checksum });
        Ok(Burst::More)
    }
}

/// The queue of its device that a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    One,
    /// The first of several.
    First,
    Further,
}

impl Queues {
    fn attach(self, name: &str) -> io::Result<File> {
        if self == Queues::One {
            return tap::open(name);
        }
        let file = tap::open_queue(name)?;
        if self == Queues::First {
            tap::steer(&file, &steer::by_flow()?)?;
        }
        Ok(file)
    }
}

fn overflow() -> Box<[u8]> {
    vec![0; LARGE_CHUNK_BYTES as usize].into_boxed_slice()
}

fn open_failed(
    port: &str,
    name: &str,
    (exists, queues): (bool, Queues),
    source: io::Error,
) -> PortError {
    let help = match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV) => "there is no /dev/net/tun: modprobe tun".to_owned(),
        // The capability is for the device behind the file; the file has permissions of its own.
        Some(libc::EACCES) => {
            "open the file for this user: chmod 666 /dev/net/tun, or run as root".to_owned()
        }
        Some(libc::EBUSY) => format!("another program has {name}: end it, or use another name"),
        Some(libc::EINVAL) if exists && queues != Queues::One => format!(
            "{name} exists and has one queue (or is no TAP device): queues=1, or make it with several \
             (ip tuntap add dev {name} mode tap multi_queue)"
        ),
        Some(libc::EINVAL) if exists => {
            format!("{name} exists and is no TAP device: use raw:{name}, or another name")
        }
        _ => return failed(port, "open the TAP device", source),
    };
    PortError::Io { port: port.to_owned(), doing: "open the TAP device", source, help }
}

impl Port for TapPort {
    fn name(&self) -> &str {
        self.watch.port()
    }

    fn interface(&self) -> Option<&str> {
        Some(self.watch.interface())
    }

    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        if self.watch.is_gone() && !self.reopen(now) {
            return Ok(0);
        }
        let before = out.len();
        while out.len() - before < max {
            match self.receive(mem, now, out) {
                Ok(Burst::More) => self.watch.works(),
                Ok(Burst::Last) => break,
                Err(error) => {
                    let failed = self.watch.rx_failed(error, self.index, &mut self.stats);
                    match failed {
                        Some(error) if out.len() == before => return Err(error),
                        // A dead device fails again with the next call.
                        _ => break,
                    }
                }
            }
        }
        Ok(out.len() - before)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        if self.watch.is_gone() && !self.reopen(now) {
            return Ok(drop_all(mem, frames, &mut self.stats));
        }
        let mut file = &*self.file;
        let sending = Sending { watch: &mut self.watch, index: self.index, stats: &mut self.stats };
        sending.one_by_one(mem, frames, |bytes| file.write(bytes).map(|_| ()))
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        if self.watch.is_gone() {
            self.reopen(now);
        }
        self.watch.look(self.index)
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.spare.take().into_iter().for_each(|buf| mem.free(buf));
    }
}
