//! Truncated capture records: how many bytes of a packet are missing. A record may also state fewer bytes than it has:
//! then the number is negative.
//!
//! A descriptor has room for a 16-bit number only ([`Descriptor::cut`]): 1 plus the index of the length that is
//! missing; 0 for none.

use std::collections::BTreeMap;

use wireyard_pipeline::exec::Descriptor;

/// Numbers of bytes missing, by index.
#[derive(Debug, Default)]
pub(super) struct CutRecords {
    missing: Vec<i64>,
    /// The number of each of them.
    numbers: BTreeMap<i64, u16>,
}

impl CutRecords {
    /// The number for a packet of `len` bytes that had `wire_len` on the wire; 0 for none missing, and from the 65,536th
    /// different number of them on.
    #[inline]
    pub(super) fn number(&mut self, wire_len: u32, len: u32) -> u16 {
        if wire_len == len { 0 } else { self.learn(i64::from(wire_len) - i64::from(len)) }
    }

    fn learn(&mut self, missing: i64) -> u16 {
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
        match descriptor.cut {
            0 => descriptor.len,
            cut => {
                let missing = self.missing.get(cut as usize - 1).copied().unwrap_or(0);
                (i64::from(descriptor.len) + missing).clamp(0, u32::MAX.into()) as u32
            }
        }
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
        let numbers: Vec<u16> = (1..=70_000).map(|missing| cuts.number(missing, 0)).collect();
        assert_eq!((numbers[0], numbers[65_534], numbers[65_535]), (1, 65_535, 0));
        assert_eq!((cuts.missing.len(), cuts.numbers.len()), (65_535, 65_535));
        let again = [0, 65_535, 70_000].map(|missing| cuts.number(missing, 0));
        assert_eq!(again, [0, 65_535, 0]);
    }

    #[test]
    fn a_packet_that_is_shortened_has_a_length_whatever_its_record_states() {
        // Length in the record, bytes captured, bytes that the program leaves; length on the wire.
        for (stated, captured, left, expected) in [
            (100, 60, 60, 100),
            (100, 60, 20, 60),
            (50, 60, 60, 50),
            (50, 60, 40, 30),
            (50, 60, 4, 0),
            (0, 60, 70, 10),
            (u32::MAX, 60, 60, u32::MAX),
            (u32::MAX, 60, 70, u32::MAX),
        ] {
            let mut cuts = CutRecords::default();
            let mut packet = Descriptor { len: left, ..Descriptor::default() };
            packet.cut = cuts.number(stated, captured);
            assert_eq!(cuts.wire_len(&packet), expected, "{stated} {captured} {left}");
        }
    }
}
