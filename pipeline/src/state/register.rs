//! Registers: arrays of entries of atomic 64-bit cells, and the locks of read-modify-write updates.

use crate::ir::Register;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A register array.
#[derive(Debug)]
pub struct RegisterArray {
    pub(super) declared: Register,
    /// Entry `i`, cell `c` is word `i * cells + c`.
    words: Box<[AtomicU64]>,
}

impl RegisterArray {
    pub(super) fn new(declared: &Register) -> RegisterArray {
        let words = declared.cells.len() * declared.size as usize;
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        RegisterArray { declared: declared.clone(), words }
    }

    /// Number of entries.
    pub fn size(&self) -> u32 {
        self.declared.size
    }

    /// Cells of an entry.
    pub fn cells(&self) -> usize {
        self.declared.cells.len()
    }

    /// The words, for generated code that reads and writes them without a call.
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    fn word(&self, index: u64, cell: usize) -> Option<(&AtomicU64, u64)> {
        let bits = self.declared.cells.get(cell)?.bits;
        if index >= u64::from(self.declared.size) {
            return None;
        }
        let word = self.words.get(index as usize * self.cells() + cell)?;
        Some((word, u64::MAX >> (64 - bits.clamp(1, 64))))
    }

    /// A cell; `None` out of range.
    pub fn load(&self, index: u64, cell: usize) -> Option<u64> {
        self.word(index, cell).map(|(word, _)| word.load(Ordering::Relaxed))
    }

    /// Sets a cell, cut to its width; false out of range.
    pub fn store(&self, index: u64, cell: usize, value: u64) -> bool {
        let word = self.word(index, cell);
        if let Some((word, ones)) = word {
            word.store(value & ones, Ordering::Relaxed);
        }
        word.is_some()
    }
}

/// Locks of register entries, striped. They are held for a few dozen instructions by a worker that does not sleep
/// meanwhile, so the others spin.
#[derive(Debug)]
pub(super) struct Locks {
    /// With one worker nothing is locked.
    several_workers: bool,
    stripes: [AtomicBool; STRIPES],
}

const STRIPES: usize = 1024;

impl Locks {
    pub(super) fn new(several_workers: bool) -> Locks {
        Locks { several_workers, stripes: [const { AtomicBool::new(false) }; STRIPES] }
    }

    /// The address of the array distinguishes registers: successive programs may number them differently.
    pub(super) fn lock(&self, array: &RegisterArray, index: u64) -> Option<u32> {
        if !self.several_workers {
            return None;
        }
        let place = array.words.as_ptr().addr() / size_of::<u64>();
        let stripe = (index as usize).wrapping_add(place) % STRIPES;
        let mut spins = 0u32;
        while self.stripes[stripe].swap(true, Ordering::Acquire) {
            // A holder that was preempted would otherwise be spun on at full speed.
            spins += 1;
            if spins.is_multiple_of(1024) {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
        Some(stripe as u32)
    }

    pub(super) fn unlock(&self, token: u32) {
        if let Some(stripe) = self.stripes.get(token as usize) {
            stripe.store(false, Ordering::Release);
        }
    }
}
