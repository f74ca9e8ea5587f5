//! Capture records that were cut: how many bytes of a packet are missing.
//!
//! A descriptor has room for a number only ([`Descriptor::cut`]): the index of how many, and 1.

use wireyard_pipeline::exec::Descriptor;

/// How many bytes are missing, by number.
#[derive(Debug, Default)]
pub(super) struct CutRecords {
    missing: Vec<u32>,
}

impl CutRecords {
    /// The number for so many missing bytes; 0 for none, and for the 65,536th different number.
    #[inline]
    pub(super) fn number(&mut self, missing: u32) -> u16 {
        if missing == 0 { 0 } else { self.learn(missing) }
    }

    fn learn(&mut self, missing: u32) -> u16 {
        let known = self.missing.iter().position(|&m| m == missing);
        let index = known.unwrap_or_else(|| {
            self.missing.push(missing);
            self.missing.len() - 1
        });
        u16::try_from(index + 1).unwrap_or(0)
    }

    /// Bytes that the packet had on the wire.
    #[inline]
    pub(super) fn wire_len(&self, descriptor: &Descriptor) -> u32 {
        let missing = match descriptor.cut {
            0 => 0,
            cut => self.missing.get(cut as usize - 1).copied().unwrap_or(0),
        };
        descriptor.len.wrapping_add(missing)
    }

    /// Bytes that a packet costs in buffers and on links: those of a capture record that was cut too,
    /// unless they are more than any frame has.
    #[inline]
    pub(super) fn frame_bytes(&self, descriptor: &Descriptor) -> u32 {
        let wire = self.wire_len(descriptor);
        if wire <= 1 << 16 { wire.max(descriptor.len) } else { descriptor.len }
    }
}
