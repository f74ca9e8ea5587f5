//! Packet memory of one worker's buffer in another worker's queue.
//!
//! Where several workers share a device, the priority group that a packet is charged to belongs to the
//! worker of its ingress port, and the queue it waits in to the worker of its egress port. The first keeps
//! the charge, the second keeps it as shared memory without a group and gives it back as an
//! [`Event::Returned`](super::Event) when the last bit has left. So each group is counted in one
//! place, and a pause is decided there.

use super::id::PortId;
use super::{SharedCharge, SharedMemory, Tm};

/// The ingress port of what is borrowed: no traffic manager has so many.
const BORROWED: PortId = PortId(u16::MAX);

impl SharedMemory {
    /// Whose charge it is, and under which number.
    pub(super) fn owner(&self) -> Option<(u8, SharedCharge)> {
        (self.ingress == BORROWED).then_some((self.group, SharedCharge(self.charged)))
    }
}

impl<P: Default> Tm<P> {
    /// One more reference of a shared packet memory, to be returned with [`Tm::release_shared`]. False:
    /// it is not held any more.
    pub fn retain_shared(&mut self, memory: SharedCharge) -> bool {
        let holder = self.shared.get_mut(memory.0 as usize).filter(|entry| entry.references > 0);
        holder.map(|entry| entry.references += 1).is_some()
    }

    /// Takes over a reference that `worker` holds in its own buffer. The caller holds one reference here,
    /// to be returned with [`Tm::release_shared`] after the packet is offered. `None`: no slot is free,
    /// and its owner still has the charge.
    pub fn borrow_shared(&mut self, worker: u8, charge: SharedCharge) -> Option<SharedCharge> {
        self.keep_shared(SharedMemory {
            ingress: BORROWED,
            group: worker,
            charged: charge.0,
            bytes: 0,
            references: 1,
        })
    }
}
