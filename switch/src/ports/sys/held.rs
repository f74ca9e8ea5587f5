//! The handles of chunks whose addresses are in a ring: the kernel owns them meanwhile.

use wireyard_pipeline::packet::Buf;

/// Handles by chunk index. The rings return addresses in any order.
#[derive(Debug)]
pub(super) struct Held {
    slots: Vec<Option<Buf>>,
    /// Further references to chunks whose slot is in use: parts and copies of one frame.
    more: Vec<Buf>,
    count: usize,
}

impl Held {
    pub(super) fn new(chunks: usize) -> Held {
        let slots = (0..chunks).map(|_| None).collect();
        Held { slots, more: Vec::with_capacity(64), count: 0 }
    }

    /// Number of chunks that can be held.
    pub(super) fn chunks(&self) -> usize {
        self.slots.len()
    }

    /// Number of references that are held.
    pub(super) fn count(&self) -> u32 {
        self.count as u32
    }

    pub(super) fn put(&mut self, buf: Buf) {
        self.count += 1;
        match self.slots.get_mut(buf.index() as usize) {
            Some(slot @ None) => *slot = Some(buf),
            _ => self.more.push(buf),
        }
    }

    /// Takes a reference to chunk `index`, if one is held.
    pub(super) fn take(&mut self, index: u32) -> Option<Buf> {
        let again = self.more.iter().position(|buf| buf.index() == index);
        let found = match again {
            Some(at) => Some(self.more.swap_remove(at)),
            None => self.slots.get_mut(index as usize)?.take(),
        };
        self.count -= usize::from(found.is_some());
        found
    }

    /// Takes all references.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Buf> {
        self.count = 0;
        let slots = self.slots.iter_mut().filter_map(Option::take);
        self.more.drain(..).chain(slots)
    }
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};

    use super::*;

    #[test]
    fn every_reference_comes_back_once() {
        let config = MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 0 };
        let mut mem = PacketMemory::new(config).unwrap();
        let mut held = Held::new(4);
        let (a, b) = (mem.alloc().unwrap(), mem.alloc().unwrap());
        let (ia, ib) = (a.index(), b.index());
        let copy = mem.share(&a).unwrap();
        [a, b, copy].into_iter().for_each(|buf| held.put(buf));
        assert_eq!(held.take(9), None);
        for index in [ia, ia] {
            mem.free(held.take(index).unwrap());
        }
        assert_eq!((held.take(ia), held.count()), (None, 1));
        held.drain().for_each(|buf| mem.free(buf));
        assert_eq!((held.take(ib), held.count(), mem.free_chunks()), (None, 0, 4));
    }
}
