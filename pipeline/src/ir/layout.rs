//! Where the bits of a field are in its header.
//!
//! A field is either a run of bits in network order, or a list of pieces, each inside one byte: the second form covers
//! everything else (little-endian words, a value split over several words). Reading and writing through pieces is the
//! definition; nearly every field is a run.

/// Most bits of a value; a field of more has bytes, and parts that are values.
pub(crate) const VALUE_BITS_MAX: u32 = 128;

/// Where the bits of a field are, counted from the first byte of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldLayout {
    /// `bits` bits in network order from bit `bit` (bit 0 is the top bit of byte 0).
    Run {
        /// First bit.
        bit: u32,
        /// Width, 1 to 128.
        bits: u32,
    },
    /// Any arrangement: the value is the sum of the pieces.
    Pieces(Vec<Piece>),
    /// `count` elements of `bits` bits in network order from bit `bit`.
    Array {
        /// First bit.
        bit: u32,
        /// Width of an element, 1 to 64.
        bits: u32,
        /// Number of elements.
        count: u32,
    },
    /// Bytes from `byte` to the end of the header, whose length is computed; always the last field.
    Variable {
        /// First byte.
        byte: u32,
        /// Longest, in bytes.
        max_bytes: u32,
    },
    /// `bytes` whole bytes that take part in copies, checksums and CRCs but not in arithmetic (a
    /// field over 128 bits).
    Opaque {
        /// First byte.
        byte: u32,
        /// Length.
        bytes: u32,
    },
}

/// Part of a field inside one byte: `((byte >> lsb) & ones(bits)) << at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Byte of the header.
    pub byte: u32,
    /// Lowest bit in that byte, 0 to 7.
    pub lsb: u8,
    /// Number of bits, 1 to 8.
    pub bits: u8,
    /// Lowest bit in the value, 0 to 127.
    pub at: u8,
}

/// `bits` ones, for 0 to 128.
pub const fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1u128 << bits) - 1 }
}

/// Reads `bits` (1 to 128) in network order from bit `bit` of `bytes`; bits beyond the end are zero.
pub fn read_run(bytes: &[u8], bit: u32, bits: u32) -> u128 {
    let (first, last) = ((bit / 8) as usize, ((bit + bits - 1) / 8) as usize);
    let spare = (last as u32 + 1) * 8 - (bit + bits);
    if last - first < 8
        && let Some(run) = bytes.get(first..=last)
    {
        let value = run.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        return u128::from(value >> spare) & ones(bits);
    }
    let byte = |index: usize| u128::from(bytes.get(index).copied().unwrap_or(0));
    if last - first < 16 {
        let value = (first..=last).fold(0u128, |value, index| value << 8 | byte(index));
        return value >> spare & ones(bits);
    }
    // 17 bytes: the lowest `8 - spare` bits come from the last one.
    let value = (first..last).fold(0u128, |value, index| value << 8 | byte(index));
    (value << (8 - spare) | byte(last) >> spare) & ones(bits)
}

/// Writes `bits` (1 to 128) in network order from bit `bit`; bits beyond the end are left out.
pub fn write_run(bytes: &mut [u8], bit: u32, bits: u32, value: u128) {
    let (first, last) = ((bit / 8) as usize, (bit + bits - 1) / 8);
    let mut lsb = (last + 1) * 8 - (bit + bits);
    if last as usize - first < 8
        && let Some(run) = bytes.get_mut(first..=last as usize)
    {
        let old = run.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let mask = (ones(bits) as u64) << lsb;
        let new = old & !mask | (value as u64) << lsb & mask;
        for (at, byte) in run.iter_mut().rev().enumerate() {
            *byte = (new >> (8 * at)) as u8;
        }
        return;
    }
    let mut left = bits;
    let mut rest = value & ones(bits);
    let mut index = last as usize;
    while left > 0 {
        let here = left.min(8 - lsb);
        if let Some(byte) = bytes.get_mut(index) {
            let mask = (ones(here) as u8) << lsb;
            *byte = *byte & !mask | (rest as u8) << lsb & mask;
        }
        rest = rest.checked_shr(here).unwrap_or(0);
        left -= here;
        lsb = 0;
        index = index.wrapping_sub(1);
    }
}

/// Reads a field made of pieces.
pub fn read_pieces(bytes: &[u8], pieces: &[Piece]) -> u128 {
    pieces.iter().fold(0, |value, piece| {
        let byte = bytes.get(piece.byte as usize).copied().unwrap_or(0);
        value | (u128::from(byte >> piece.lsb) & ones(piece.bits.into())) << piece.at
    })
}

/// Writes a field made of pieces.
pub fn write_pieces(bytes: &mut [u8], pieces: &[Piece], value: u128) {
    for piece in pieces {
        if let Some(byte) = bytes.get_mut(piece.byte as usize) {
            let mask = (ones(piece.bits.into()) as u8) << piece.lsb;
            *byte = *byte & !mask | ((value >> piece.at) as u8) << piece.lsb & mask;
        }
    }
}

impl FieldLayout {
    /// Reads a scalar field; zero for an array, a variable or an opaque field.
    pub fn read(&self, header: &[u8]) -> u128 {
        match self {
            FieldLayout::Run { bit, bits } => read_run(header, *bit, *bits),
            FieldLayout::Pieces(pieces) => read_pieces(header, pieces),
            _ => 0,
        }
    }

    /// Writes a scalar field; does nothing for an array, a variable or an opaque field.
    pub fn write(&self, header: &mut [u8], value: u128) {
        match self {
            FieldLayout::Run { bit, bits } => write_run(header, *bit, *bits, value),
            FieldLayout::Pieces(pieces) => write_pieces(header, pieces, value),
            _ => {}
        }
    }

    /// The same field as pieces, the form that defines it; `None` unless it is a scalar.
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        match self {
            FieldLayout::Run { bit, bits } => Some(run_pieces(*bit, *bits)),
            FieldLayout::Pieces(pieces) => Some(pieces.clone()),
            _ => None,
        }
    }
}

/// A run in network order as pieces, highest first.
pub fn run_pieces(bit: u32, bits: u32) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < bits {
        let position = bit + done;
        let here = (8 - position % 8).min(bits - done);
        pieces.push(Piece {
            byte: position / 8,
            lsb: (8 - position % 8 - here) as u8,
            bits: here as u8,
            at: (bits - done - here) as u8,
        });
        done += here;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_run_is_its_pieces(
            header in proptest::collection::vec(any::<u8>(), 40),
            bit in 0u32..180, bits in 1u32..=128, value in any::<u128>(),
        ) {
            let pieces = run_pieces(bit, bits);
            prop_assert_eq!(read_run(&header, bit, bits), read_pieces(&header, &pieces));
            let (mut by_run, mut by_pieces) = (header.clone(), header.clone());
            write_run(&mut by_run, bit, bits, value);
            write_pieces(&mut by_pieces, &pieces, value);
            prop_assert_eq!(&by_run, &by_pieces);
            prop_assert_eq!(read_run(&by_run, bit, bits), value & ones(bits));
        }
    }

    #[test]
    fn bits_beyond_the_end_are_zero_and_never_written() {
        assert_eq!(read_run(&[0xff], 4, 16), 0xf000);
        let mut short = [0u8; 1];
        write_run(&mut short, 4, 16, 0xffff);
        assert_eq!(short, [0x0f]);
    }
}
