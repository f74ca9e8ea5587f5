//! Truncated capture records: how many bytes of a packet are missing.
//!
//! A descriptor has room for a 16-bit number only ([`Descriptor::cut`]): 1 plus the index of the length that is
//! missing; 0 for none.

use std::collections::BTreeMap;

use wireyard_pipeline::exec::Descriptor;

/// Numbers of bytes missing, by index.
#[derive(Debug, Default)]
pub(super) struct CutRecords {
    missing: Vec<u32>,
    /// The number of each of them.
    numbers: BTreeMap<u32, u16>,
}

impl CutRecords {
    /// The number for `missing` bytes; 0 for none, and from the 65,536th different length on.
    #[inline]
    pub(super) fn number(&mut self, missing: u32) -> u16 {
        if missing == 0 { 0 } else { self.learn(missing) }
    }

    fn learn(&mut self, missing: u32) -> u16 {
        if let Some(known) = self.numbers.get(&missing) {
            return *known;
        }
        let Ok(number) = u16::try_from(self.missing.len() + 1) else { return 0 };
        self.missing.push(missing);
        self.numbers.insert(missing, number);
        number
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

    /// Bytes that a packet occupies in buffers and on links: its length on the wire, also of a truncated capture
    /// record, unless that is more than any frame has.
    #[inline]
    pub(super) fn frame_bytes(&self, descriptor: &Descriptor) -> u32 {
        let wire = self.wire_len(descriptor);
        if wire <= 1 << 16 { wire.max(descriptor.len) } else { descriptor.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_without_a_number_take_no_room() {
        let mut cuts = CutRecords::default();
        let numbers: Vec<u16> = (1..=70_000).map(|missing| cuts.number(missing)).collect();
        assert_eq!((numbers[0], numbers[65_534], numbers[65_535]), (1, 65_535, 0));
        assert_eq!((cuts.missing.len(), cuts.numbers.len()), (65_535, 65_535));
        assert_eq!((cuts.number(0), cuts.number(65_535), cuts.number(70_000)), (0, 65_535, 0));
    }
}
