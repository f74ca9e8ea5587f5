//! Registered memory: keys, bounds, permissions, and the backing of a region.
//!
//! A region's bytes are a small trait, [`Backing`], so that an end point can have real memory ([`Bytes`]) and a
//! laboratory can move terabytes through [`Synthetic`], which computes the bytes that are read and verifies those that
//! are written, and stores neither. One key serves as L_Key and R_Key. Its low byte is a tag that changes when a slot
//! is reused.

pub mod backing;
#[cfg(test)]
mod tests;

pub use backing::{Backing, Bytes, Synthetic};

use super::packet::PayloadRef;

/// Permissions of a region or a queue pair, `IBV_ACCESS_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Local read only.
    pub const NONE: Access = Access(0);
    /// The adapter may write on behalf of the owner (receive buffers, READ and ATOMIC results).
    pub const LOCAL_WRITE: Access = Access(1);
    /// A peer may write.
    pub const REMOTE_WRITE: Access = Access(2);
    /// A peer may read.
    pub const REMOTE_READ: Access = Access(4);
    /// A peer may run ATOMICs.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// Everything.
    pub const ALL: Access = Access(15);

    /// Both sets.
    pub const fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// True if every permission of `needed` is included.
    pub const fn allows(self, needed: Access) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// True if a peer has any access.
    const fn is_remote(self) -> bool {
        self.0 & !Access::LOCAL_WRITE.0 != 0
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No region has this key.
    #[error("no memory region has this key")]
    UnknownKey,
    /// Not inside the region.
    #[error("the range is not inside the memory region")]
    OutOfBounds,
    /// The region does not permit it.
    #[error("the memory region does not permit this access")]
    Denied,
}

#[derive(Debug)]
struct Region {
    va: u64,
    len_bytes: u64,
    access: Access,
    backing: Box<dyn Backing>,
}

#[derive(Debug, Default)]
struct Slot {
    tag: u8,
    region: Option<Region>,
}

/// The memory regions of one end point.
#[derive(Debug, Default)]
pub struct MemoryTable {
    slots: Vec<Slot>,
    /// Slots without a region.
    free: Vec<u32>,
}

/// Slot numbers are the upper 24 bits of a key.
const MAX_SLOTS: usize = 1 << 24;

impl MemoryTable {
    /// No regions.
    pub fn new() -> Self {
        MemoryTable::default()
    }

    /// Registers a region at virtual address `va`; returns its key, or `None` if the address range
    /// wraps or all 2^24 slots are taken.
    pub fn register(&mut self, va: u64, access: Access, backing: Box<dyn Backing>) -> Option<u32> {
        let len_bytes = backing.len_bytes();
        va.checked_add(len_bytes)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() >= MAX_SLOTS => return None,
            None => {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.tag = slot.tag.wrapping_add(1);
        slot.region = Some(Region { va, len_bytes, access, backing });
        Some(index << 8 | u32::from(slot.tag))
    }

    /// Removes a region (deregistration, or SEND with invalidate) and returns its backing.
    pub fn remove(&mut self, key: u32) -> Option<Box<dyn Backing>> {
        self.region(key)?;
        let slot = self.slots.get_mut((key >> 8) as usize)?;
        let region = slot.region.take()?;
        self.free.push(key >> 8);
        Some(region.backing)
    }

    /// The backing of a region.
    pub fn backing(&self, key: u32) -> Option<&dyn Backing> {
        self.region(key).map(|region| region.backing.as_ref())
    }

    /// Checks key, bounds and permission. A length of zero needs no region (IBTA 9.7.5: the R_Key of a
    /// zero-length RDMA is not checked).
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn check(&self, key: u32, va: u64, len: u32, need: Access) -> Result<(), AccessError> {
        if len == 0 {
            return Ok(());
        }
        let region = self.region(key).ok_or(AccessError::UnknownKey)?;
        if !region.access.allows(need) {
            return Err(AccessError::Denied);
        }
        region.offset_of(va, u64::from(len)).map(|_| ())
    }

    /// Checks that a region exists and that a peer has access to it.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn check_remote(&self, key: u32) -> Result<(), AccessError> {
        let region = self.region(key).ok_or(AccessError::UnknownKey)?;
        if region.access.is_remote() { Ok(()) } else { Err(AccessError::Denied) }
    }

    /// Copies payload bytes out, for building a frame. `out` is `payload.len` bytes.
    ///
    /// # Errors
    /// The region is gone or too small, or `out` has another length.
    pub fn read(&self, payload: &PayloadRef, out: &mut [u8]) -> Result<(), AccessError> {
        if out.is_empty() && payload.len == 0 {
            return Ok(());
        }
        if out.len() as u64 != u64::from(payload.len) {
            return Err(AccessError::OutOfBounds);
        }
        let region = self.region(payload.key).ok_or(AccessError::UnknownKey)?;
        let offset = region.offset_of(payload.va, out.len() as u64)?;
        region.backing.read(offset, out);
        Ok(())
    }

    /// Stores payload bytes.
    ///
    /// # Errors
    /// The reason for a refusal; nothing is stored then.
    pub fn write(
        &mut self,
        key: u32,
        va: u64,
        bytes: &[u8],
        need: Access,
    ) -> Result<(), AccessError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let region = self.region_mut(key).ok_or(AccessError::UnknownKey)?;
        if !region.access.allows(need) {
            return Err(AccessError::Denied);
        }
        let offset = region.offset_of(va, bytes.len() as u64)?;
        region.backing.write(offset, bytes);
        Ok(())
    }

    /// Replaces the little-endian word at `va` by `update(word)` and returns the old one.
    ///
    /// # Errors
    /// The reason for a refusal; nothing is changed then.
    pub fn atomic(
        &mut self,
        key: u32,
        va: u64,
        update: impl FnOnce(u64) -> u64,
    ) -> Result<u64, AccessError> {
        let region = self.region_mut(key).ok_or(AccessError::UnknownKey)?;
        if !region.access.allows(Access::REMOTE_ATOMIC) {
            return Err(AccessError::Denied);
        }
        let offset = region.offset_of(va, 8)?;
        let mut word = [0; 8];
        region.backing.read(offset, &mut word);
        let old = u64::from_le_bytes(word);
        region.backing.write(offset, &update(old).to_le_bytes());
        Ok(old)
    }

    fn region(&self, key: u32) -> Option<&Region> {
        let slot = self.slots.get((key >> 8) as usize)?;
        slot.region.as_ref().filter(|_| slot.tag == key as u8)
    }

    fn region_mut(&mut self, key: u32) -> Option<&mut Region> {
        let slot = self.slots.get_mut((key >> 8) as usize)?;
        let tag = slot.tag;
        slot.region.as_mut().filter(|_| tag == key as u8)
    }
}

impl Region {
    fn offset_of(&self, va: u64, len: u64) -> Result<u64, AccessError> {
        let offset = va.checked_sub(self.va).ok_or(AccessError::OutOfBounds)?;
        let end = offset.checked_add(len).ok_or(AccessError::OutOfBounds)?;
        if end > self.len_bytes {
            return Err(AccessError::OutOfBounds);
        }
        Ok(offset)
    }
}
