//! Chunks that are promised to long-term holders, such as the rings of a port.
//!
//! A ring that took all free chunks would leave none to the next: so a holder requests a promise first, of a share that
//! leaves enough to the others and to the packets in flight. A promise is a number, not particular chunks: a holder
//! within its number finds free ones, as long as packets in flight stay within the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PacketMemory;
use super::region::Region;

/// How the chunks of a region are divided, and what is promised.
#[derive(Debug)]
pub(super) struct Shares {
    /// Chunks that are never promised.
    kept: AtomicU32,
    /// The default number of chunks of a promise.
    share: AtomicU32,
    promised: AtomicU32,
}

impl Shares {
    /// The initial division: a quarter for packets in flight, and a quarter per holder.
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
    /// Most chunks that the holder may have at a time.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.region.shares.promised.fetch_sub(self.chunks, Ordering::Relaxed);
    }
}

/// Fewer chunks than requested can still be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPromised {
    /// Chunks that can be.
    pub left: u32,
    /// Chunks of the memory.
    pub all: u32,
}

impl PacketMemory {
    /// Sets the number of chunks kept for packets in flight, and the default number of a promise.
    pub fn divide(&self, kept: u32, share: u32) {
        let shares = &self.region.shares;
        let kept = kept.min(self.region.config.chunks);
        shares.kept.store(kept, Ordering::Relaxed);
        shares.share.store(share, Ordering::Relaxed);
    }

    /// The default number of chunks of a promise.
    pub fn default_share(&self) -> u32 {
        self.region.shares.share.load(Ordering::Relaxed)
    }

    /// Chunks that are kept for packets in flight.
    pub fn kept(&self) -> u32 {
        self.region.shares.kept.load(Ordering::Relaxed)
    }

    /// Promises a holder `most` chunks, or as many as are left, which must be at least `least`.
    ///
    /// # Errors
    /// Fewer than `least` chunks are left.
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
