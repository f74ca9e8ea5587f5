//! Packet memories that copies share: each is charged once, and released with its last reference.
//!
//! Where several workers share a device, the priority group that a packet is charged to belongs to the worker of its
//! ingress port, and the queue it waits in to the worker of its egress port. The charge stays with the first; the
//! second has a shared memory without a group for it, and returns it as an [`Event::Returned`] when the last bit has
//! left. So each group is counted at one worker, which decides its pauses.

use wireyard_tables::time::Time;

use super::id::{DropReason, PortId};
use super::queue::{Charge, Memory};
use super::{Event, Tm};

/// Handle of a packet memory shared by copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCharge(pub(super) u32);

/// Where a shared memory is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// At a priority group of this traffic manager.
    Group { ingress: PortId, group: u8, charged: u32, bytes: u32 },
    /// At another worker, which has this charge for it.
    Elsewhere { worker: u8, charge: SharedCharge },
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Free { next: Option<SharedCharge> },
    Held { references: u32, charged: Charged },
}

/// The shared memories of a traffic manager. The list grows to the largest number of them in use at once.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedList {
    entries: Vec<Entry>,
    free: Option<SharedCharge>,
}

impl SharedList {
    /// Adds a memory with one reference. `None`: there are `max` of them.
    fn add(&mut self, charged: Charged, max: u32) -> Option<SharedCharge> {
        let held = Entry::Held { references: 1, charged };
        if let Some(memory) = self.free
            && let Some(entry) = self.entries.get_mut(memory.0 as usize)
            && let Entry::Free { next } = *entry
        {
            self.free = next;
            *entry = held;
            return Some(memory);
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|index| *index < max)?;
        self.entries.push(held);
        Some(SharedCharge(index))
    }

    /// Where a memory is charged; `None` if it has been released.
    #[inline]
    pub(super) fn get(&self, memory: SharedCharge) -> Option<Charged> {
        match *self.entries.get(memory.0 as usize)? {
            Entry::Held { charged, .. } => Some(charged),
            Entry::Free { .. } => None,
        }
    }

    /// Adds a reference; false if the memory has been released.
    #[inline]
    pub(super) fn retain(&mut self, memory: SharedCharge) -> bool {
        match self.entries.get_mut(memory.0 as usize) {
            Some(Entry::Held { references, .. }) => {
                *references += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes a reference; after the last one, returns where the memory was charged.
    #[inline]
    fn release(&mut self, memory: SharedCharge) -> Option<Charged> {
        let entry = self.entries.get_mut(memory.0 as usize)?;
        let Entry::Held { references, charged } = entry else { return None };
        *references -= 1;
        if *references > 0 {
            return None;
        }
        let charged = *charged;
        *entry = Entry::Free { next: self.free };
        self.free = Some(memory);
        Some(charged)
    }

    /// Where all memories with a reference are charged.
    pub(super) fn held(&self) -> impl Iterator<Item = Charged> {
        self.entries.iter().filter_map(|entry| match *entry {
            Entry::Held { charged, .. } => Some(charged),
            Entry::Free { .. } => None,
        })
    }
}

impl<P: Default> Tm<P> {
    /// Charges the ingress group once for a packet memory that several copies will share. The caller
    /// holds one reference, to be returned with [`Tm::release_shared`] after the last copy is offered.
    pub fn charge_shared(
        &mut self,
        now: Time,
        ingress: PortId,
        group: u8,
        bytes: u32,
    ) -> Result<SharedCharge, DropReason> {
        self.flush(now);
        let charged = self.charge_of(bytes);
        self.charge_group(now, ingress, group, charged, bytes)?;
        let memory = Charged::Group { ingress, group, charged, bytes };
        self.shared.add(memory, self.config.packet_slots).ok_or_else(|| {
            self.release_group(now, ingress, group, charged, bytes);
            DropReason::NoSlot
        })
    }

    /// Adds a reference to a shared packet memory, to be returned with [`Tm::release_shared`]. False: it has been
    /// released.
    pub fn retain_shared(&mut self, memory: SharedCharge) -> bool {
        self.shared.retain(memory)
    }

    /// Returns a reference to a shared packet memory. After the last one its group is released here, or its charge
    /// returned to the worker that has it.
    #[inline]
    pub fn release_shared(&mut self, now: Time, memory: SharedCharge) {
        match self.shared.release(memory) {
            None => {}
            Some(Charged::Group { ingress, group, charged, bytes }) => {
                self.release_group(now, ingress, group, charged, bytes);
            }
            Some(Charged::Elsewhere { worker, charge }) => {
                self.events.push_back(Event::Returned { worker, charge });
            }
        }
    }

    /// Takes over a reference to the buffer of `worker`. The caller has one reference here, to be returned with
    /// [`Tm::release_shared`] after the packet is offered. `None`: no slot is free, and the charge stays with its
    /// owner.
    pub fn borrow_shared(&mut self, worker: u8, charge: SharedCharge) -> Option<SharedCharge> {
        self.shared.add(Charged::Elsewhere { worker, charge }, self.config.packet_slots)
    }

    /// Adds a reference to a memory of another worker. `None`: the charge is of this traffic manager.
    pub(super) fn retain_borrowed(&mut self, charge: Charge) -> Option<Memory> {
        let Charge::Shared(memory) = charge else { return None };
        let is_borrowed = matches!(self.shared.get(memory)?, Charged::Elsewhere { .. });
        (is_borrowed && self.shared.retain(memory)).then_some(Memory::Shared(memory))
    }
}
