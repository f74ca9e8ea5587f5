//! What stands behind a memory region.

use std::any::Any;
use std::fmt::Debug;

/// The bytes of a region. The table has checked bounds before it calls; an implementation that is
/// called out of bounds all the same does nothing.
pub trait Backing: Any + Debug + Send {
    /// Size of the region.
    fn len_bytes(&self) -> u64;
    /// Fills `out` from `offset`.
    fn read(&self, offset: u64, out: &mut [u8]);
    /// Stores `bytes` at `offset`.
    fn write(&mut self, offset: u64, bytes: &[u8]);
}

/// Real memory.
#[derive(Clone, Debug)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Bytes(vec![0; len])
    }
}

impl Backing for Bytes {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let from = self.0.get(offset as usize..).and_then(|tail| tail.get(..out.len()));
        if let Some(bytes) = from {
            out.copy_from_slice(bytes);
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let to = self.0.get_mut(offset as usize..).and_then(|tail| tail.get_mut(..bytes.len()));
        if let Some(to) = to {
            to.copy_from_slice(bytes);
        }
    }
}

/// Memory that is not there: byte `o` is a function of the seed and `o`, and what is written is compared
/// with that function. Two regions with one seed are source and destination of a verified transfer
/// at equal offsets, of any size.
#[derive(Clone, Debug)]
pub struct Synthetic {
    seed: u64,
    len_bytes: u64,
    verified_bytes: u64,
    wrong_bytes: u64,
    first_wrong_offset: Option<u64>,
}

impl Synthetic {
    /// `len_bytes` of the pattern of `seed`.
    pub fn new(seed: u64, len_bytes: u64) -> Self {
        Synthetic { seed, len_bytes, verified_bytes: 0, wrong_bytes: 0, first_wrong_offset: None }
    }

    /// Bytes written so far that were as expected.
    pub fn verified_bytes(&self) -> u64 {
        self.verified_bytes
    }

    /// Bytes written so far that were not.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong_bytes
    }

    /// Where the first wrong byte was.
    pub fn first_wrong_offset(&self) -> Option<u64> {
        self.first_wrong_offset
    }

    /// Eight bytes of the pattern (SplitMix64 finaliser over the word number).
    fn word(&self, index: u64) -> [u8; 8] {
        let mut z = self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }

    /// Calls `each` with the pattern for every piece of `len` bytes from `offset`: (start in range, bytes).
    fn pieces(&self, offset: u64, len: usize, mut each: impl FnMut(usize, &[u8])) {
        let mut at = 0;
        while at < len {
            let position = offset.wrapping_add(at as u64);
            let word = self.word(position / 8);
            let skip = (position % 8) as usize;
            let take = (8 - skip).min(len - at);
            each(at, &word[skip..skip + take]);
            at += take;
        }
    }
}

impl Backing for Synthetic {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.pieces(offset, out.len(), |at, bytes| {
            // `pieces` covers 0..out.len() exactly.
            out[at..at + bytes.len()].copy_from_slice(bytes);
        });
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut wrong, mut first) = (0, None);
        self.pieces(offset, bytes.len(), |at, expected| {
            let found = &bytes[at..at + expected.len()];
            if found != expected {
                let differ = found.iter().zip(expected).filter(|(a, b)| a != b).count();
                wrong += differ as u64;
                first.get_or_insert(offset + at as u64);
            }
        });
        self.wrong_bytes += wrong;
        self.verified_bytes += bytes.len() as u64 - wrong;
        self.first_wrong_offset = self.first_wrong_offset.or(first);
    }
}
