//! The backings of memory regions.

use std::any::Any;
use std::fmt::Debug;

/// The bytes of a region. The table has checked bounds before it calls; if called out of bounds nevertheless, an
/// implementation must do nothing.
pub trait Backing: Any + Debug + Send {
    /// Size of the region, which does not change.
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

/// Bytes of a region that are one run of [`PATTERN`].
const PAGE_BYTES: usize = 4096;
/// Places in [`PATTERN`] where a page may begin: a power of two.
const WINDOWS: usize = 1 << 15;

/// The contents of all regions: a page is the run of these bytes selected by its seed and number. Reading is a copy and
/// verifying is a comparison, which the C library does in the widest registers of the machine. With [`WINDOWS`] of 32
/// KiB it stays in the caches.
static PATTERN: [u8; WINDOWS + PAGE_BYTES] = pattern();

const fn pattern() -> [u8; WINDOWS + PAGE_BYTES] {
    let mut bytes = [0; WINDOWS + PAGE_BYTES];
    let (words, _) = bytes.as_chunks_mut::<8>();
    let mut n = 0;
    while n < words.len() {
        words[n] = mix((n as u64).wrapping_mul(STEP)).to_le_bytes();
        n += 1;
    }
    bytes
}

/// Memory without storage: byte `o` is a function of the seed and `o`, and written data is compared, byte for byte,
/// with that function. Two regions with one seed are source and destination of a verified transfer at equal offsets, of
/// any size.
///
/// A wrong byte is always found. Bytes from another place pass only if that place has the same run of the pattern: one
/// place in 32,768 of those in other pages does, none in the same page.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Where in SplitMix64's sequence the windows of its pages begin.
    first: u64,
    len_bytes: u64,
    verified_bytes: u64,
    wrong_bytes: u64,
    first_wrong_offset: Option<u64>,
}

/// The SplitMix64 finaliser.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The odd constant by which SplitMix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Synthetic {
    /// `len_bytes` of the pattern of `seed`.
    pub fn new(seed: u64, len_bytes: u64) -> Self {
        let (verified_bytes, wrong_bytes, first_wrong_offset) = (0, 0, None);
        Synthetic { first: mix(seed), len_bytes, verified_bytes, wrong_bytes, first_wrong_offset }
    }

    /// Bytes written so far that were as expected.
    pub fn verified_bytes(&self) -> u64 {
        self.verified_bytes
    }

    /// Bytes written so far that differed.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong_bytes
    }

    /// Offset of the first wrong byte.
    pub fn first_wrong_offset(&self) -> Option<u64> {
        self.first_wrong_offset
    }

    /// The bytes of the region from `offset` to the end of their page, at most `len`.
    fn piece(&self, offset: u64, len: usize) -> &'static [u8] {
        let (page, start) = (offset / PAGE_BYTES as u64, offset as usize % PAGE_BYTES);
        let window = mix(self.first.wrapping_add(page.wrapping_mul(STEP))) as usize % WINDOWS;
        let take = len.min(PAGE_BYTES - start);
        &PATTERN[window + start..][..take]
    }

    /// Counts the bytes of `found` that differ from `piece`, which begins at `offset`.
    #[cold]
    fn count_wrong(&mut self, offset: u64, piece: &[u8], found: &[u8]) {
        let pairs = piece.iter().zip(found).enumerate();
        let mut wrong = pairs.filter(|(_, (byte, found))| byte != found);
        if let Some((n, _)) = wrong.next() {
            self.first_wrong_offset.get_or_insert(offset + n as u64);
            self.wrong_bytes += 1 + wrong.count() as u64;
        }
    }
}

impl Backing for Synthetic {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, mut offset: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let piece = self.piece(offset, out.len());
            let (to, rest) = out.split_at_mut(piece.len());
            to.copy_from_slice(piece);
            (offset, out) = (offset.wrapping_add(piece.len() as u64), rest);
        }
    }

    fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        let before = self.wrong_bytes;
        self.verified_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let piece = self.piece(offset, bytes.len());
            let (found, rest) = bytes.split_at(piece.len());
            if found != piece {
                self.count_wrong(offset, piece, found);
            }
            (offset, bytes) = (offset.wrapping_add(piece.len() as u64), rest);
        }
        self.verified_bytes -= self.wrong_bytes - before;
    }
}
