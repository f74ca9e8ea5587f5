//! Errors in a table's declaration, in an entry and in a batch; every message has what was found and what would work.

use thiserror::Error;

use crate::entry::{MAX_CAPACITY, ProfileId, TableId};
use crate::field::{MAX_FIELD_BITS, MAX_KEY_WORDS, Match, MatchKind};
use crate::meter::MeterError;

/// A table or action profile that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A field of width 0 or above the limit.
    #[error(
        "match field {field} is {bits} bits wide; a match field has 1 to {MAX_FIELD_BITS} bits"
    )]
    FieldWidth {
        /// Index of the field.
        field: usize,
        /// Its width.
        bits: u32,
    },
    /// The fields together need too many words.
    #[error("the match fields need {words} words of 64 bits; a key has at most {MAX_KEY_WORDS}")]
    KeyTooWide {
        /// Words needed.
        words: usize,
    },
    /// More than one lpm field.
    #[error("fields '{}' and '{}' are both lpm; a table has one lpm field, make the other ternary", .fields[0], .fields[1])]
    SeveralLpm {
        /// Names of the first two.
        fields: [String; 2],
    },
    /// Capacity 0 or above the limit.
    #[error("size {capacity} is not possible; use 1 to {MAX_CAPACITY}")]
    Capacity {
        /// The declared capacity.
        capacity: u32,
    },
    /// The default action or a declared entry is wrong.
    #[error("{}: {error}", place(.entry))]
    Entry {
        /// Index among the declared entries; `None` for the default action.
        entry: Option<usize>,
        /// The error.
        error: EntryError,
    },
    /// The table names an action profile that does not exist.
    #[error("there is no action profile {}", profile(.0))]
    NoSuchProfile(ProfileId),
    /// Two actions of a table have the same id.
    #[error("action id {0} is declared twice")]
    DuplicateAction(u32),
}

/// A spec error and the table or profile it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{name}': {error}")]
pub struct BuildError {
    /// Name of the table or profile.
    pub name: String,
    /// The error.
    pub error: SpecError,
}

/// A write that is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Insert into a table that has all its entries.
    #[error("full: all {capacity} are in use; delete one or declare a larger size")]
    Full {
        /// Entries the table holds at most.
        capacity: u32,
    },
    /// Insert of an entry that exists.
    #[error("exists already; modify it, or delete it before inserting")]
    Duplicate,
    /// Modify or delete of an entry, member or group that does not exist.
    #[error("not found; insert it first")]
    NotFound,
    /// The table is const, or its default action is.
    #[error("const: it is fixed by the program and cannot be changed")]
    Const,
    /// The table has been moved to a newer program.
    #[error("moved to the program that replaced this one; write to that program")]
    Moved,
    /// No table with this id.
    #[error("there is no table {}", table(.0))]
    NoSuchTable(TableId),
    /// No action profile with this id.
    #[error("there is no action profile {}", profile(.0))]
    NoSuchProfile(ProfileId),
    /// Not one match per field.
    #[error("{found} match fields given, the key has {expected}")]
    FieldCount {
        /// Matches in the entry.
        found: usize,
        /// Fields of the table.
        expected: usize,
    },
    /// A match that does not suit its field.
    #[error("field '{name}': {error}")]
    Field {
        /// Index of the field.
        field: usize,
        /// Its name.
        name: String,
        /// The error.
        error: Box<FieldError>,
    },
    /// Priority 0 where entries can overlap.
    #[error(
        "priority 0, but entries of this table can overlap; give a priority of 1 or more (higher wins)"
    )]
    PriorityRequired,
    /// A priority where entries cannot overlap.
    #[error("priority {priority}, but exact and lpm tables have none; leave it out or use 0")]
    PriorityNotAllowed {
        /// The priority found.
        priority: u32,
    },
    /// The action is not one of the table's.
    #[error("action {action} is not an action of this table, which takes {allowed:?}")]
    UnknownAction {
        /// The action id found.
        action: u32,
        /// Ids that the table allows.
        allowed: Vec<u32>,
    },
    /// Wrong number of words of action data.
    #[error("action '{action}' takes {expected} words of data, {found} given")]
    DataLength {
        /// Name of the action.
        action: String,
        /// Words found.
        found: usize,
        /// Words expected.
        expected: usize,
    },
    /// A member or group where the table takes an action, or the other way round.
    #[error("{}", target(.profile))]
    WrongTarget {
        /// True if the table takes members and groups.
        profile: bool,
    },
    /// An idle timeout on a table that does not support it.
    #[error("the table does not support idle timeouts; leave the timeout out")]
    TimeoutNotSupported,
    /// Rates for an entry of a table without meters.
    #[error("the entries of this table have no meters; leave the rates out")]
    MeterNotSupported,
    /// Invalid rates.
    #[error("{0}")]
    Meter(MeterError),
    /// The table or the key is not fit for learning: see [`crate::Reader::learn`].
    #[error("only an exact table without action profile learns, from a key of its own width")]
    NotLearnable,
    /// A group or entry refers to a member that does not exist.
    #[error("there is no member {0}; insert it first")]
    NoSuchMember(u32),
    /// An entry refers to a group that does not exist.
    #[error("there is no group {0}; insert it first")]
    NoSuchGroup(u32),
    /// An entry refers to a member or group that belongs to another entry.
    #[error("{0} belongs to another entry, which was given its actions itself")]
    Owned(u32),
    /// An action set in a profile that has named members or groups.
    #[error(
        "its profile has members or groups: delete them before entries get action sets, or name them in the entry"
    )]
    Named,
    /// A named member or group in a profile whose entries have action sets.
    #[error(
        "its entries have action sets: delete these before its profile gets members, or give the entry a set"
    )]
    HasSets,
    /// A member or group that is still referred to.
    #[error("still used by {references} entries or groups; change or delete those first")]
    InUse {
        /// How many entries and groups refer to it.
        references: u32,
    },
    /// A group with more members (weights added) than the profile allows.
    #[error("the weights add up to {size}, a group holds at most {max}")]
    GroupTooLarge {
        /// Sum of the weights.
        size: u64,
        /// The limit.
        max: u32,
    },
}

/// What is wrong with the match of one field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A match of a kind the field does not take.
    #[error("found {found:?}, but it takes {}", takes(.kind))]
    WrongKind {
        /// Kind of the field.
        kind: MatchKind,
        /// The match in the entry.
        found: Match,
    },
    /// A value or mask wider than the field.
    #[error("{value:#x} does not fit its {bits} bits (at most {:#x})", widest(.bits))]
    TooWide {
        /// The value.
        value: u128,
        /// Width of the field.
        bits: u32,
    },
    /// A prefix longer than the field.
    #[error("prefix length {prefix_len} is more than its {bits} bits")]
    PrefixTooLong {
        /// Length found.
        prefix_len: u32,
        /// Width of the field.
        bits: u32,
    },
    /// A value with bits set outside its mask or prefix.
    #[error("{value:#x} has bits outside the mask {mask:#x}; write {:#x}", *.value & *.mask)]
    NotCanonical {
        /// The value.
        value: u128,
        /// The bits that count.
        mask: u128,
    },
    /// A range whose low bound is above its high bound.
    #[error("the range {lo:#x}..{hi:#x} is empty; the low bound comes first")]
    EmptyRange {
        /// Low bound.
        lo: u128,
        /// High bound.
        hi: u128,
    },
}

/// A batch that is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("update {index}{}: {error}", quoted(.name))]
pub struct BatchError {
    /// Index of the first update that cannot be done.
    pub index: usize,
    /// Name of the table or profile; empty if there is no such table.
    pub name: String,
    /// The error.
    pub error: EntryError,
}

fn table(id: &TableId) -> u32 {
    id.0
}

fn profile(id: &ProfileId) -> u32 {
    id.0
}

/// Which declared entry is wrong.
fn place(entry: &Option<usize>) -> String {
    entry.map_or_else(|| "default action".to_owned(), |entry| format!("entry {entry}"))
}

fn target(profile: &bool) -> &'static str {
    match profile {
        true => "the table takes members and groups of its action profile, not an action",
        false => "the table has no action profile; give an action",
    }
}

fn takes(kind: &MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "a value",
        MatchKind::Lpm => "a value and a prefix length",
        MatchKind::Ternary => "a value and a mask",
        MatchKind::Range => "a low and a high bound",
        MatchKind::Optional => "a value or nothing",
    }
}

/// All ones in a field of 1 to 128 bits.
fn widest(bits: &u32) -> u128 {
    u128::MAX >> (128 - (*bits).clamp(1, 128))
}

fn quoted(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ('{name}')") }
}
