//! The memory of the trie: cache lines that hold sixteen cells of a node, or a bucket.

/// Cells in a unit, as a power of two.
pub(super) const UNIT_SHIFT: u32 = 4;

/// A cache line: sixteen cells of a node, or a bucket. A bucket is `[leaf for the rest, number of entries, 0, 0]` and
/// three entries `[value, in memory order, leaf, shift]`: of the 64 bits that follow the bucket's cell, all but the low
/// `shift` (0 to 63) must equal the entry's. Longer prefixes are later and win; unused entries are first and have the
/// leaf for the rest.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Unit(pub(crate) [u32; 1 << UNIT_SHIFT]);

pub(super) const BUCKET_ENTRIES: usize = 3;

/// A value of 64 bits from its two words of memory.
#[inline(always)]
fn value(words: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = words.map(u32::to_ne_bytes);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

impl Unit {
    pub(super) const EMPTY: Unit = Unit([0; 1 << UNIT_SHIFT]);

    /// Value, leaf and length of the entries in use.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        let used = self.0[1] as usize;
        self.0[4..]
            .chunks_exact(4)
            .skip(BUCKET_ENTRIES - used)
            .map(|words| (value([words[0], words[1]]), words[2], 64 - words[3]))
    }

    /// `entries` are in ascending order of length.
    pub(super) fn bucket(rest: u32, entries: &[(u64, u32, u32)]) -> Unit {
        let mut unit = Unit::EMPTY;
        (unit.0[0], unit.0[1]) = (rest, entries.len() as u32);
        let unused = BUCKET_ENTRIES - entries.len();
        let unused = std::iter::repeat_n((0, rest, 64), unused);
        let words = unit.0[4..].chunks_exact_mut(4);
        for (words, (value, leaf, len)) in words.zip(unused.chain(entries.iter().copied())) {
            words[..2].copy_from_slice(&halves(value));
            words[2..].copy_from_slice(&[leaf, 64 - len]);
        }
        unit
    }

    /// The bucket with another leaf for the rest.
    pub(super) fn with_rest(&self, rest: u32) -> Unit {
        let entries: Vec<_> = self.entries().collect();
        Unit::bucket(rest, &entries)
    }

    /// The bucket with other leaves.
    pub(super) fn map(&self, leaf: impl Fn(u32) -> u32) -> Unit {
        let entries = self.entries().map(|(value, old, len)| (value, leaf(old), len));
        Unit::bucket(leaf(self.0[0]), &entries.collect::<Vec<_>>())
    }

    /// The leaf for an address whose bits after the bucket's cell are `rest`.
    #[inline(always)]
    pub(super) fn choose(&self, rest: u64) -> u32 {
        (0..BUCKET_ENTRIES).fold(self.0[0], |leaf, i| {
            let [first, second, entry, shift] = [4, 5, 6, 7].map(|at| self.0[at + 4 * i]);
            if (rest ^ value([first, second])) >> (shift & 63) == 0 { entry } else { leaf }
        })
    }

    /// The same where no prefix has more than 32 bits.
    #[inline(always)]
    pub(super) fn choose_narrow(&self, rest: u32) -> u32 {
        (0..BUCKET_ENTRIES).fold(self.0[0], |leaf, i| {
            let [first, second, entry, shift] = [4, 5, 6, 7].map(|at| self.0[at + 4 * i]);
            if (rest ^ (value([first, second]) >> 32) as u32) >> (shift & 31) == 0 {
                entry
            } else {
                leaf
            }
        })
    }
}
