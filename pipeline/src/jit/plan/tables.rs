//! Lookup strategies: how generated code searches each table.

use wireyard_tables::BitRange;
use wireyard_tables::raw::Layout;

/// How a table is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) enum Search {
    /// An array by key.
    Direct,
    /// A hash table, probed by the code.
    Hash,
    /// A multibit trie over one field, walked by the code.
    Trie { field: BitRange, root_bits: u32, record_words: usize },
    /// A list that the code compares while it is short, a call once it is long.
    List,
    /// A call.
    Call,
}

impl Search {
    /// The strategy for a table with this layout.
    pub(super) fn of(layout: Layout) -> Search {
        match layout {
            Layout::Direct { .. } => Search::Direct,
            Layout::Exact { key_words: 1.., .. } => Search::Hash,
            Layout::Lpm { field, root_bits, record_words } if field.bits <= 64 => {
                Search::Trie { field, root_bits, record_words }
            }
            Layout::Scan { .. } => Search::List,
            _ => Search::Call,
        }
    }

    /// Whether the code itself probes the table, for one cell.
    pub(in crate::jit) fn is_inline_exact(self) -> bool {
        matches!(self, Search::Direct | Search::Hash)
    }
}
