//! Packet memory of one worker's buffer in another worker's queue.
//!
//! Where several workers share a device, the priority group that a packet is charged to belongs to the worker of its
//! ingress port, and the queue it waits in to the worker of its egress port. The charge stays with the first; the
//! second has a shared memory without a group for it, and returns it as an [`Event::Returned`](super::Event) when the
//! last bit has left. So each group is counted at one worker, which decides its pauses.

use super::id::PortId;
use super::queue::{Charge, Memory};
use super::{SharedCharge, SharedMemory, Tm};

/// The ingress port of borrowed memory: no port has this number.
const BORROWED: PortId = PortId(u16::MAX);

impl SharedMemory {
    /// The owner of the charge, and its number there; `None` if it is not borrowed.
    pub(super) fn owner(&self) -> Option<(u8, SharedCharge)> {
        (self.ingress == BORROWED).then_some((self.group, SharedCharge(self.charged)))
    }
}

impl<P: Default> Tm<P> {
    /// Adds a reference to a shared packet memory, to be returned with [`Tm::release_shared`]. False: it has been
    /// released.
    pub fn retain_shared(&mut self, memory: SharedCharge) -> bool {
        let holder = self.shared.get_mut(memory.0 as usize).filter(|entry| entry.references > 0);
        holder.map(|entry| entry.references += 1).is_some()
    }

    /// Adds a reference to a memory of another worker. `None`: the charge is of this traffic manager.
    pub(super) fn retain_borrowed(&mut self, charge: Charge) -> Option<Memory> {
        let Charge::Shared(SharedCharge(index)) = charge else { return None };
        let holder = self.shared.get_mut(index as usize)?;
        holder.owner().filter(|_| holder.references > 0)?;
        holder.references += 1;
        Some(Memory::Shared(index))
    }

    /// Takes over a reference to the buffer of `worker`. The caller has one reference here, to be returned with
    /// [`Tm::release_shared`] after the packet is offered. `None`: no slot is free, and the charge stays with its
    /// owner.
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
