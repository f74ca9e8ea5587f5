//! What can be wrong with a table's declaration, with an entry, and with a batch; every message says
//! what was found and what would work.

use std::fmt;

use crate::entry::{MAX_CAPACITY, ProfileId, TableId};
use crate::field::{MAX_FIELD_BITS, MAX_KEY_WORDS, Match, MatchKind};
use crate::meter::MeterError;

/// A table or action profile that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// A field of width 0 or above the limit.
    FieldWidth {
        /// Index of the field.
        field: usize,
        /// Its width.
        bits: u32,
    },
    /// The fields together need too many words.
    KeyTooWide {
        /// Words needed.
        words: usize,
    },
    /// More than one lpm field.
    SeveralLpm {
        /// Names of the first two.
        fields: [String; 2],
    },
    /// Capacity 0 or above the limit.
    Capacity {
        /// The capacity asked for.
        capacity: u32,
    },
    /// The default action or a declared entry is wrong.
    Entry {
        /// Index among the declared entries; `None` for the default action.
        entry: Option<usize>,
        /// What is wrong.
        error: EntryError,
    },
    /// The table names an action profile that does not exist.
    NoSuchProfile(ProfileId),
    /// Two actions of a table have the same id.
    DuplicateAction(u32),
}

/// A spec error and the table or profile it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// Name of the table or profile.
    pub name: String,
    /// What is wrong with it.
    pub error: SpecError,
}

/// A write that is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// Insert into a table that has all its entries.
    Full {
        /// Entries the table holds at most.
        capacity: u32,
    },
    /// Insert of an entry that exists.
    Duplicate,
    /// Modify or delete of an entry, member or group that does not exist.
    NotFound,
    /// The table is const, or its default action is.
    Const,
    /// The table has been moved to a newer program.
    Moved,
    /// No table with this id.
    NoSuchTable(TableId),
    /// No action profile with this id.
    NoSuchProfile(ProfileId),
    /// Not one match per field.
    FieldCount {
        /// Matches in the entry.
        found: usize,
        /// Fields of the table.
        expected: usize,
    },
    /// What the entry asks of one field cannot be.
    Field {
        /// Index of the field.
        field: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        error: Box<FieldError>,
    },
    /// Priority 0 where entries can overlap.
    PriorityRequired,
    /// A priority where entries cannot overlap.
    PriorityNotAllowed {
        /// The priority found.
        priority: u32,
    },
    /// The action is not one of the table's.
    UnknownAction {
        /// The action id found.
        action: u32,
        /// Ids the table takes.
        allowed: Vec<u32>,
    },
    /// Wrong number of words of action data.
    DataLength {
        /// Name of the action.
        action: String,
        /// Words found.
        found: usize,
        /// Words expected.
        expected: usize,
    },
    /// A member or group where the table takes an action, or the other way round.
    WrongTarget {
        /// True if the table takes members and groups.
        profile: bool,
    },
    /// An idle timeout on a table that does not support it.
    TimeoutNotSupported,
    /// Rates for an entry of a table without meters.
    MeterNotSupported,
    /// Rates that mean nothing.
    Meter(MeterError),
    /// Members, groups or a learnt key do not exist or do not fit the table.
    NotLearnable,
    /// A group or entry refers to a member that does not exist.
    NoSuchMember(u32),
    /// An entry refers to a group that does not exist.
    NoSuchGroup(u32),
    /// A member or group that is still referred to.
    InUse {
        /// How many entries and groups refer to it.
        references: u32,
    },
    /// A group with more members (weights added) than the profile allows.
    GroupTooLarge {
        /// Sum of the weights.
        size: u64,
        /// The limit.
        max: u32,
    },
}

/// What is wrong with the match of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// A match of a kind the field does not take.
    WrongKind {
        /// Kind of the field.
        kind: MatchKind,
        /// The match in the entry.
        found: Match,
    },
    /// A value or mask wider than the field.
    TooWide {
        /// The value.
        value: u128,
        /// Width of the field.
        bits: u32,
    },
    /// A prefix longer than the field.
    PrefixTooLong {
        /// Length found.
        prefix_len: u32,
        /// Width of the field.
        bits: u32,
    },
    /// A value with bits set outside its mask or prefix.
    NotCanonical {
        /// The value.
        value: u128,
        /// The bits that count.
        mask: u128,
    },
    /// A range whose low bound is above its high bound.
    EmptyRange {
        /// Low bound.
        lo: u128,
        /// High bound.
        hi: u128,
    },
}

/// A batch that is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// Index of the first update that cannot be done.
    pub index: usize,
    /// Name of the table or profile; empty if there is no such table.
    pub name: String,
    /// What is wrong with it.
    pub error: EntryError,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::FieldWidth { field, bits } => write!(
                f,
                "match field {field} is {bits} bits wide; a match field has 1 to {MAX_FIELD_BITS} bits"
            ),
            SpecError::KeyTooWide { words } => write!(
                f,
                "the match fields need {words} words of 64 bits; a key has at most {MAX_KEY_WORDS}"
            ),
            SpecError::SeveralLpm { fields: [a, b] } => write!(
                f,
                "fields '{a}' and '{b}' are both lpm; a table has one lpm field, make the other ternary"
            ),
            SpecError::Capacity { capacity } => {
                write!(f, "size {capacity} is not possible; use 1 to {MAX_CAPACITY}")
            }
            SpecError::Entry { entry: Some(i), error } => write!(f, "entry {i}: {error}"),
            SpecError::Entry { entry: None, error } => write!(f, "default action: {error}"),
            SpecError::NoSuchProfile(id) => write!(f, "there is no action profile {}", id.0),
            SpecError::DuplicateAction(id) => write!(f, "action id {id} is declared twice"),
        }
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::Full { capacity } => {
                write!(f, "full: all {capacity} entries are in use; delete one or declare a larger size")
            }
            EntryError::Duplicate => {
                f.write_str("exists already; modify it, or delete it before inserting")
            }
            EntryError::NotFound => f.write_str("not found; insert it first"),
            EntryError::Const => f.write_str("const: it is fixed by the program and cannot be changed"),
            EntryError::Moved => {
                f.write_str("moved to the program that replaced this one; write to that program")
            }
            EntryError::NoSuchTable(id) => write!(f, "there is no table {}", id.0),
            EntryError::NoSuchProfile(id) => write!(f, "there is no action profile {}", id.0),
            EntryError::FieldCount { found, expected } => {
                write!(f, "{found} match fields given, the key has {expected}")
            }
            EntryError::PriorityRequired => f.write_str(
                "priority 0, but entries of this table can overlap; give a priority of 1 or more (higher wins)",
            ),
            EntryError::PriorityNotAllowed { priority } => write!(
                f,
                "priority {priority}, but exact and lpm tables have none; leave it out or use 0"
            ),
            EntryError::UnknownAction { action, allowed } => {
                write!(f, "action {action} is not an action of this table, which takes {allowed:?}")
            }
            EntryError::DataLength { action, found, expected } => {
                write!(f, "action '{action}' takes {expected} words of data, {found} given")
            }
            EntryError::WrongTarget { profile: true } => {
                f.write_str("the table takes members and groups of its action profile, not an action")
            }
            EntryError::WrongTarget { profile: false } => {
                f.write_str("the table has no action profile; give an action")
            }
            EntryError::TimeoutNotSupported => {
                f.write_str("the table does not support idle timeouts; leave the timeout out")
            }
            EntryError::MeterNotSupported => {
                f.write_str("the entries of this table have no meters; leave the rates out")
            }
            EntryError::Meter(error) => error.fmt(f),
            EntryError::NotLearnable => f.write_str(
                "only an exact table without action profile learns, from a key of its own width",
            ),
            EntryError::NoSuchMember(id) => write!(f, "there is no member {id}; insert it first"),
            EntryError::NoSuchGroup(id) => write!(f, "there is no group {id}; insert it first"),
            EntryError::InUse { references } => {
                write!(f, "still used by {references} entries or groups; change or delete those first")
            }
            EntryError::GroupTooLarge { size, max } => {
                write!(f, "the weights add up to {size}, a group holds at most {max}")
            }
            EntryError::Field { name, error, .. } => write!(f, "field '{name}': {error}"),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::WrongKind { kind, found } => {
                let takes = match kind {
                    MatchKind::Exact => "a value",
                    MatchKind::Lpm => "a value and a prefix length",
                    MatchKind::Ternary => "a value and a mask",
                    MatchKind::Range => "a low and a high bound",
                    MatchKind::Optional => "a value or nothing",
                };
                write!(f, "found {found:?}, but it takes {takes}")
            }
            FieldError::TooWide { value, bits } => write!(
                f,
                "{value:#x} does not fit its {bits} bits (at most {:#x})",
                crate::key::ones(*bits)
            ),
            FieldError::PrefixTooLong { prefix_len, bits } => {
                write!(f, "prefix length {prefix_len} is more than its {bits} bits")
            }
            FieldError::NotCanonical { value, mask } => write!(
                f,
                "{value:#x} has bits outside the mask {mask:#x}; write {:#x}",
                value & mask
            ),
            FieldError::EmptyRange { lo, hi } => {
                write!(f, "the range {lo:#x}..{hi:#x} is empty; the low bound comes first")
            }
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.name, self.error)
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update {}", self.index)?;
        if !self.name.is_empty() {
            write!(f, " ('{}')", self.name)?;
        }
        write!(f, ": {}", self.error)
    }
}

impl std::error::Error for SpecError {}
impl std::error::Error for EntryError {}
impl std::error::Error for FieldError {}
impl std::error::Error for BuildError {}
impl std::error::Error for BatchError {}
