//! Match fields: their declaration in a table, and the match of an entry on one field.

/// Widest match field.
pub const MAX_FIELD_BITS: u32 = 128;
/// Most words in a key (1,024 bits).
pub const MAX_KEY_WORDS: usize = 16;

/// How a field is matched (P4-16 core.p4 and psa.p4). Fields of kind `selector` are not matched: the caller hashes them
/// and passes the hash to [`crate::Snapshot::select`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// All bits equal.
    Exact,
    /// The longest matching prefix wins.
    Lpm,
    /// Bits under a mask equal; the entry priority decides.
    Ternary,
    /// Between two bounds, both included; the entry priority decides.
    Range,
    /// All bits equal, or don't care; the entry priority decides.
    Optional,
}

impl MatchKind {
    /// Their names in P4-16, in the order of declaration.
    pub const NAMES: [&'static str; 5] = ["exact", "lpm", "ternary", "range", "optional"];
    const ALL: [MatchKind; 5] = [
        MatchKind::Exact,
        MatchKind::Lpm,
        MatchKind::Ternary,
        MatchKind::Range,
        MatchKind::Optional,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        MatchKind::NAMES[self as usize]
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<MatchKind> {
        MatchKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A match field of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldSpec {
    /// For messages.
    pub name: String,
    /// Width, 1 to [`MAX_FIELD_BITS`].
    pub bits: u32,
    /// Its match kind.
    pub kind: MatchKind,
}

/// The match of an entry on one field.
///
/// `Exact` is accepted for every kind (a full prefix, a full mask, a range of one value), `Any` for every kind but
/// exact. The stored form, which is read back, is canonical: a prefix of length 0, a zero mask and a full range are
/// `Any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// All bits equal.
    Exact(u128),
    /// The top `prefix_len` bits equal; the bits below must be zero.
    Lpm {
        /// Value, low bits zero.
        value: u128,
        /// 0 to the width of the field.
        prefix_len: u32,
    },
    /// The bits in `mask` equal; `value` has no bit outside `mask`.
    Ternary {
        /// Value.
        value: u128,
        /// Bits that count.
        mask: u128,
    },
    /// `lo <= key <= hi`.
    Range {
        /// Lowest value that matches.
        lo: u128,
        /// Highest value that matches.
        hi: u128,
    },
    /// All bits equal, or don't care.
    Optional(Option<u128>),
    /// Don't care.
    Any,
}
