//! The fanout group that the sockets of a port with several queues share (packet(7), PACKET_FANOUT).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use crate::ports::sys::packet::{self, RxOptions};
use crate::sync;

/// The fanout group of a port with several queues, whose sockets share the received frames.
pub(super) struct Group {
    /// The first queue creates the group, the others join it.
    pub(super) is_first: bool,
    /// The group that this queue joined.
    pub(super) joined: Option<u16>,
    /// Interface and number of the group.
    pub(super) shared: Arc<Mutex<Option<(u32, u16)>>>,
}

impl Group {
    /// A socket of the group on this interface. A queue other than the first fails until the first has created the
    /// group.
    pub(super) fn socket(&mut self, index: u32, options: RxOptions) -> io::Result<OwnedFd> {
        let shared = Arc::clone(&self.shared);
        let mut known = sync::lock(&shared);
        let there = known.filter(|(interface, _)| *interface == index && !self.is_first);
        if !self.is_first && there.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (fd, group) = packet::fanout_socket(index, options, there.map(|(_, group)| group))?;
        *known = Some((index, group));
        self.joined = Some(group);
        Ok(fd)
    }

    /// Leaves the group, which ended with its interface: the first queue creates another, unless it has already, in
    /// which case that stays.
    pub(super) fn leave(&mut self) {
        let joined = self.joined.take();
        let mut known = sync::lock(&self.shared);
        known.take_if(|(_, group)| Some(*group) == joined);
    }
}
