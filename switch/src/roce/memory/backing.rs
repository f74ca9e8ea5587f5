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

/// Bytes of the pattern that are kept; every page of the region is this one, combined with a word of its own.
const PAGE_BYTES: usize = 4096;

/// Memory that is not there: byte `o` is a function of the seed and `o`, and what is written is compared
/// with that function. Two regions with one seed are source and destination of a verified transfer
/// at equal offsets, of any size.
#[derive(Clone, Debug)]
pub struct Synthetic {
    seed: u64,
    page: Box<[u8]>,
    len_bytes: u64,
    verified_bytes: u64,
    wrong_bytes: u64,
    first_wrong_offset: Option<u64>,
}

/// The SplitMix64 finaliser.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The odd constant by which SplitMix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Synthetic {
    /// `len_bytes` of the pattern of `seed`.
    pub fn new(seed: u64, len_bytes: u64) -> Self {
        let word = |n: u64| mix(seed.wrapping_add(n.wrapping_mul(STEP))).to_le_bytes();
        let page = (0..PAGE_BYTES as u64 / 8).flat_map(word).collect();
        let (verified_bytes, wrong_bytes, first_wrong_offset) = (0, 0, None);
        Synthetic { seed, page, len_bytes, verified_bytes, wrong_bytes, first_wrong_offset }
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

    /// Calls `each` for every piece of `len` bytes from `offset` that is in one page: its start in the range, the bytes
    /// of the page there, and the word to combine them with, eight bytes at a time.
    fn pieces(&self, offset: u64, len: usize, mut each: impl FnMut(usize, &[u8], [u8; 8])) {
        let mut at = 0;
        while at < len {
            let position = offset.wrapping_add(at as u64);
            let start = (position % PAGE_BYTES as u64) as usize;
            let take = (PAGE_BYTES - start).min(len - at);
            let number = position / PAGE_BYTES as u64;
            let salt = mix(self.seed ^ mix(number.wrapping_mul(STEP)));
            let turned = salt.rotate_right(8 * (start % 8) as u32).to_le_bytes();
            each(at, &self.page[start..start + take], turned);
            at += take;
        }
    }
}

/// Bytes that are worked on together, eight at a time: a loop over blocks becomes a few wide instructions.
const BLOCK_BYTES: usize = 64;
const BLOCK_WORDS: usize = BLOCK_BYTES / 8;

/// Writes `page` combined with `salt`.
fn combine(page: &[u8], salt: [u8; 8], out: &mut [u8]) {
    let (blocks, tail) = page.as_chunks::<BLOCK_BYTES>();
    let (out_blocks, out_tail) = out.as_chunks_mut::<BLOCK_BYTES>();
    let salt_word = u64::from_ne_bytes(salt);
    for (to, block) in out_blocks.iter_mut().zip(blocks) {
        let ((to, _), (words, _)) = (to.as_chunks_mut::<8>(), block.as_chunks::<8>());
        for (to, word) in to.iter_mut().zip(words) {
            *to = (u64::from_ne_bytes(*word) ^ salt_word).to_ne_bytes();
        }
    }
    for (n, (to, byte)) in out_tail.iter_mut().zip(tail).enumerate() {
        *to = byte ^ salt[n % 8];
    }
}

/// Bytes of `found` that are not `page` combined with `salt`, and the first of them.
fn differences(page: &[u8], salt: [u8; 8], found: &[u8]) -> (u64, Option<usize>) {
    let (blocks, tail) = page.as_chunks::<BLOCK_BYTES>();
    let (found_blocks, found_tail) = found.as_chunks::<BLOCK_BYTES>();
    let salt_word = u64::from_ne_bytes(salt);
    let mut wrong = [0; BLOCK_WORDS];
    for (block, found) in blocks.iter().zip(found_blocks) {
        let ((words, _), (found, _)) = (block.as_chunks::<8>(), found.as_chunks::<8>());
        for ((wrong, word), found) in wrong.iter_mut().zip(words).zip(found) {
            *wrong |= u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*found) ^ salt_word;
        }
    }
    let mut tails = tail.iter().zip(found_tail).enumerate();
    let tail_is_right = tails.all(|(n, (byte, found))| byte ^ salt[n % 8] == *found);
    if wrong == [0; BLOCK_WORDS] && tail_is_right {
        return (0, None);
    }
    let right = |n: usize| page[n] ^ salt[n % 8] == found[n];
    let mut wrong = (0..page.len()).filter(|n| !right(*n));
    let first = wrong.next();
    (wrong.count() as u64 + 1, first)
}

impl Backing for Synthetic {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.pieces(offset, out.len(), |at, page, salt| {
            // `pieces` covers 0..out.len() exactly.
            combine(page, salt, &mut out[at..at + page.len()]);
        });
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut wrong, mut first) = (0, None);
        self.pieces(offset, bytes.len(), |at, page, salt| {
            let (count, at_first) = differences(page, salt, &bytes[at..at + page.len()]);
            wrong += count;
            if let (None, Some(n)) = (first, at_first) {
                first = Some(offset + (at + n) as u64);
            }
        });
        self.wrong_bytes += wrong;
        self.verified_bytes += bytes.len() as u64 - wrong;
        self.first_wrong_offset = self.first_wrong_offset.or(first);
    }
}
