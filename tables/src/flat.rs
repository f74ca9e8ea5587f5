//! Cells in whole cache lines, and action records by slot.

/// A cache line of eight words.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; LINE_WORDS]);

pub(crate) const LINE_WORDS: usize = 8;

impl Line {
    const ZERO: Line = Line([0; LINE_WORDS]);

    /// The line as an array of cells of `STRIDE` (1, 2, 4 or 8) words.
    #[inline(always)]
    pub(crate) fn cells<const STRIDE: usize>(&self) -> &[[u64; STRIDE]] {
        self.0.as_chunks::<STRIDE>().0
    }
}

/// Words in lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    pub(crate) fn zeroed(words: usize) -> Lines {
        Lines(vec![Line::ZERO; words.div_ceil(LINE_WORDS)])
    }

    #[inline(always)]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.0
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0[at / LINE_WORDS].0[at % LINE_WORDS]
    }

    pub(crate) fn set(&mut self, at: usize, words: impl IntoIterator<Item = u64>) {
        for (at, word) in (at..).zip(words) {
            self.0[at / LINE_WORDS].0[at % LINE_WORDS] = word;
        }
    }

    pub(crate) fn words(&self, at: usize, n: usize) -> impl Iterator<Item = u64> {
        (at..at + n).map(|at| self.word(at))
    }
}

/// Words between consecutive cells: a small cell is rounded up so that it never crosses a line, a
/// large one takes whole lines.
pub(crate) fn cell_stride(words: usize) -> usize {
    if words <= LINE_WORDS { words.next_power_of_two() } else { words.next_multiple_of(LINE_WORDS) }
}

/// Action and action data by slot: `[action, data...]`.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    words: Vec<u64>,
    stride: usize,
    data_words: usize,
}

impl Records {
    pub(crate) fn new(data_words: usize) -> Records {
        let used = 1 + data_words;
        let stride = if used <= LINE_WORDS { used.next_power_of_two() } else { used };
        Records { words: Vec::new(), stride, data_words }
    }

    /// `call` is `[action, data...]`.
    pub(crate) fn set(&mut self, slot: u32, call: &[u64]) {
        let at = slot as usize * self.stride;
        if self.words.len() < at + self.stride {
            self.words.resize(at + self.stride, 0);
        }
        self.words[at..at + 1 + self.data_words].copy_from_slice(call);
    }

    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> (u32, &[u64]) {
        let at = slot as usize * self.stride;
        let (action, data) = (self.words[at], &self.words[at + 1..at + 1 + self.data_words]);
        (action as u32, data)
    }

    /// `[action, data...]`.
    pub(crate) fn call(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..1 + self.data_words]
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.words.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_not_cross_lines() {
        for words in 1..40 {
            let stride = cell_stride(words);
            assert!(stride >= words && stride < words + LINE_WORDS);
            let first = |i: usize| i * stride / LINE_WORDS;
            let last = |i: usize| (i * stride + words - 1) / LINE_WORDS;
            assert!(words > LINE_WORDS || (0..64).all(|i| first(i) == last(i)));
        }
    }
}
