//! The four rings that an AF_XDP socket shares with the kernel (Documentation/networking/af_xdp.rst).

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// A mapped ring of entries `E`, of which this process is producer or consumer.
#[derive(Debug)]
pub(super) struct Ring<E> {
    map: *mut c_void,
    map_bytes: usize,
    offsets: XdpRingOffset,
    /// Offset of the word of flags.
    flags: u64,
    entries: u32,
    /// This process' index: where it writes or reads next. Indices run freely; the mask makes them positions.
    ours: u32,
    /// The kernel's index, as last read.
    theirs: u32,
    entry: PhantomData<E>,
}

// SAFETY: the mapping belongs to the ring; all shared words are accessed atomically, and entries only between `ours`
// and the kernel's index, where the kernel does not access them.
unsafe impl<E: Send> Send for Ring<E> {}

impl<E: Copy> Ring<E> {
    /// Maps a ring of `entries` (a power of two) that the kernel created for `socket`.
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
        // SAFETY: a new mapping of the size that the kernel reported for this ring.
        let map = unsafe { mmap(place, map_bytes, access, shared, socket, page_offset) }?;
        let (offsets, entry) = (*offsets, PhantomData);
        Ok(Ring { map, map_bytes, offsets, flags, entries, ours: 0, theirs: 0, entry })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are inside the mapping, aligned, and those of 32-bit words that both sides
        // access atomically.
        unsafe { &*self.map.cast::<u8>().add(offset as usize).cast::<AtomicU32>() }
    }

    fn place(&self, index: u32) -> *mut E {
        let position = (index & (self.entries - 1)) as usize;
        // SAFETY: the position is below `entries`, for which the mapping has room behind `desc`.
        unsafe { self.map.cast::<u8>().add(self.offsets.desc as usize).cast::<E>().add(position) }
    }

    /// Producer: number of entries that can be written now.
    pub(super) fn room(&mut self) -> u32 {
        self.theirs = self.word(self.offsets.consumer).load(Ordering::Acquire);
        self.entries - self.ours.wrapping_sub(self.theirs).min(self.entries)
    }

    /// Producer: true if `entries` entries can be written now.
    pub(super) fn fits(&mut self, entries: usize) -> bool {
        let known = self.entries - self.ours.wrapping_sub(self.theirs).min(self.entries);
        known as usize >= entries || self.room() as usize >= entries
    }

    /// Producer: writes an entry; false if there is no room (by the last [`Ring::room`] or [`Ring::fits`]).
    pub(super) fn push(&mut self, entry: E) -> bool {
        if self.ours.wrapping_sub(self.theirs) >= self.entries {
            return false;
        }
        // SAFETY: the place is free: the kernel has consumed it, and does not read it before `publish`.
        unsafe { self.place(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
        true
    }

    /// Producer: publishes the written entries to the kernel.
    pub(super) fn publish(&mut self) {
        self.word(self.offsets.producer).store(self.ours, Ordering::Release);
    }

    /// Producer: number of entries that the kernel has not consumed yet.
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
        // SAFETY: the kernel has produced the entry (acquired above) and does not write it before `release`.
        let entry = unsafe { self.place(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// Consumer: returns the popped entries to the kernel.
    pub(super) fn release(&mut self) {
        self.word(self.offsets.consumer).store(self.ours, Ordering::Release);
    }

    /// True if the kernel requires a system call to process this ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        let flags = self.word(self.flags).load(Ordering::Relaxed);
        XdpRingFlags::from_bits_retain(flags).contains(XdpRingFlags::XDP_RING_NEED_WAKEUP)
    }
}

impl<E> Drop for Ring<E> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and not used afterwards.
        let _ = unsafe { munmap(self.map, self.map_bytes) };
    }
}
