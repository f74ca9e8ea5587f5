//! Chunks that are promised to who holds them for long, as the rings of a port do.
//!
//! A ring that takes what is free leaves nothing to the next: so a holder asks first, and gets a share that leaves the others
//! theirs and the packets under way what they need. A promise is a number, not certain chunks: who keeps within it finds
//! free ones, as long as packets under way keep within what is left to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PacketMemory;
use super::region::Region;

/// How the chunks of a region are divided, and what is promised.
#[derive(Debug)]
pub(super) struct Shares {
    /// Chunks that are never promised.
    kept: AtomicU32,
    /// What a holder gets that asks for no number.
    share: AtomicU32,
    promised: AtomicU32,
}

impl Shares {
    /// Until somebody says otherwise: a quarter for packets under way, and a quarter for a holder.
    pub(super) fn of(chunks: u32) -> Shares {
        let quarter = AtomicU32::new(chunks / 4);
        Shares { kept: AtomicU32::new(chunks / 4), share: quarter, promised: AtomicU32::new(0) }
    }
}

/// Chunks that were promised; the promise ends when this is dropped.
#[derive(Debug)]
pub struct Promise {
    region: Arc<Region>,
    chunks: u32,
}

impl Promise {
    /// How many the holder may have at a time.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.region.shares.promised.fetch_sub(self.chunks, Ordering::Relaxed);
    }
}

/// Fewer chunks than asked for can still be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPromised {
    /// Chunks that can be.
    pub left: u32,
    /// Chunks of the memory.
    pub all: u32,
}

impl PacketMemory {
    /// Says how many chunks are kept for packets under way, and how many a holder gets that asks for no number.
    pub fn divide(&self, kept: u32, share: u32) {
        let shares = &self.region.shares;
        let kept = kept.min(self.region.config.chunks);
        shares.kept.store(kept, Ordering::Relaxed);
        shares.share.store(share, Ordering::Relaxed);
    }

    /// What a holder gets that asks for no number.
    pub fn default_share(&self) -> u32 {
        self.region.shares.share.load(Ordering::Relaxed)
    }

    /// Chunks that are kept for packets under way.
    pub fn kept(&self) -> u32 {
        self.region.shares.kept.load(Ordering::Relaxed)
    }

    /// Promises a holder `most` chunks, or what is left of them, which is at least `least`.
    ///
    /// # Errors
    /// `least` chunks are not left.
    pub fn promise(&self, least: u32, most: u32) -> Result<Promise, NotPromised> {
        let (shares, all) = (&self.region.shares, self.region.config.chunks);
        let wanted = most.max(least);
        let may = all - shares.kept.load(Ordering::Relaxed).min(all);
        let mut before = shares.promised.load(Ordering::Relaxed);
        loop {
            let left = may.saturating_sub(before);
            if left < least {
                return Err(NotPromised { left, all });
            }
            let chunks = wanted.min(left);
            let order = Ordering::Relaxed;
            match shares.promised.compare_exchange_weak(before, before + chunks, order, order) {
                Ok(_) => return Ok(Promise { region: Arc::clone(&self.region), chunks }),
                Err(now) => before = now,
            }
        }
    }
}
