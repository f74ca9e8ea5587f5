//! The four rings that an AF_XDP socket shares with the kernel (Documentation/networking/af_xdp.rst).

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// A mapped ring of entries `E`, of which we are producer or consumer.
#[derive(Debug)]
pub(super) struct Ring<E> {
    map: *mut c_void,
    map_bytes: usize,
    offsets: XdpRingOffset,
    /// Of the word of flags.
    flags: u64,
    entries: u32,
    /// Our index: where we write or read next. Indices run freely; the mask makes them positions.
    ours: u32,
    /// The kernel's index, as last read.
    theirs: u32,
    entry: PhantomData<E>,
}

// SAFETY: the mapping belongs to the ring; all shared words are accessed atomically, and entries only
// between our index and the kernel's, where the kernel does not touch them.
unsafe impl<E: Send> Send for Ring<E> {}

impl<E: Copy> Ring<E> {
    /// Maps a ring of `entries` (a power of two), that the kernel made for `socket`.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: &XdpRingOffset,
        entries: u32,
        page_offset: u64,
    ) -> Result<Ring<E>, Errno> {
        // Before Linux 5.4 there is no such word, and no wake-ups.
        let flags = offsets.flags.ok_or(Errno::OPNOTSUPP)?;
        let map_bytes = offsets.desc as usize + entries as usize * size_of::<E>();
        let (access, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        let place = std::ptr::null_mut();
        // SAFETY: a new mapping of the size that the kernel gave for this ring.
        let map = unsafe { mmap(place, map_bytes, access, shared, socket, page_offset) }?;
        let (offsets, entry) = (*offsets, PhantomData);
        Ok(Ring { map, map_bytes, offsets, flags, entries, ours: 0, theirs: 0, entry })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets lie inside the mapping, are aligned, and name 32-bit words
        // that both sides access atomically.
        unsafe { &*self.map.cast::<u8>().add(offset as usize).cast::<AtomicU32>() }
    }

    fn place(&self, index: u32) -> *mut E {
        let position = (index & (self.entries - 1)) as usize;
        // SAFETY: the position is below `entries`, which the mapping holds behind `desc`.
        unsafe { self.map.cast::<u8>().add(self.offsets.desc as usize).cast::<E>().add(position) }
    }

    /// Producer: entries that can be written now.
    pub(super) fn room(&mut self) -> u32 {
        self.theirs = self.word(self.offsets.consumer).load(Ordering::Acquire);
        self.entries - self.ours.wrapping_sub(self.theirs).min(self.entries)
    }

    /// Producer: whether so many entries can be written now.
    pub(super) fn fits(&mut self, entries: usize) -> bool {
        let known = self.entries - self.ours.wrapping_sub(self.theirs).min(self.entries);
        known as usize >= entries || self.room() as usize >= entries
    }

    /// Producer: writes an entry; false if there is no room (by the last [`Ring::room`] or [`Ring::fits`]).
    pub(super) fn push(&mut self, entry: E) -> bool {
        if self.ours.wrapping_sub(self.theirs) >= self.entries {
            return false;
        }
        // SAFETY: the place is free: the kernel has consumed it and gets it by `publish` only.
        unsafe { self.place(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
        true
    }

    /// Producer: gives what was written to the kernel.
    pub(super) fn publish(&mut self) {
        self.word(self.offsets.producer).store(self.ours, Ordering::Release);
    }

    /// Producer: entries that the kernel has not consumed yet.
    pub(super) fn waiting(&mut self) -> u32 {
        self.entries - self.room()
    }

    /// Consumer: the next entry, if there is one; see [`Ring::release`].
    pub(super) fn pop(&mut self) -> Option<E> {
        if self.ours == self.theirs {
            self.theirs = self.word(self.offsets.producer).load(Ordering::Acquire);
            if self.ours == self.theirs {
                return None;
            }
        }
        // SAFETY: the kernel has produced the entry (acquired above) and gets it back by `release`.
        let entry = unsafe { self.place(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// Consumer: gives what was popped back to the kernel.
    pub(super) fn release(&mut self) {
        self.word(self.offsets.consumer).store(self.ours, Ordering::Release);
    }

    /// True if the kernel asks to be woken by a system call for this ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        let flags = self.word(self.flags).load(Ordering::Relaxed);
        XdpRingFlags::from_bits_retain(flags).contains(XdpRingFlags::XDP_RING_NEED_WAKEUP)
    }
}

impl<E> Drop for Ring<E> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and not used after.
        let _ = unsafe { munmap(self.map, self.map_bytes) };
    }
}
