//! What a device has that control reads and writes: one type for writing and for reading back.

use wireyard_pipeline::ids::{CounterId, MeterId, RegisterId, TableId, ValueSetId};
use wireyard_pipeline::ir::{ActionCall, SetMember};
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::Span;
use wireyard_tables::{GroupMember, Match};

use crate::replicate::{Group, Session};

/// What an entry does when it is hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Runs this action, with one value for each of its parameters.
    Action(ActionCall),
    /// Runs the action of a member of the table's profile.
    Member(u32),
    /// Runs the action of one member of a group of the table's profile, picked by hash.
    Group(u32),
}

/// What distinguishes an entry from others of its table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// The table.
    pub table: TableId,
    /// One match for each key of the table, in its order.
    pub matches: Vec<Match>,
    /// 1 or more where a key is ternary, range or optional, and higher wins; 0 elsewhere.
    pub priority: u32,
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Table, matches and priority.
    pub key: EntryKey,
    /// What it does.
    pub target: Target,
    /// Idle after this long without a hit; `None` for never.
    pub idle_timeout: Option<Span>,
    /// Rates of its meter, where the table has direct meters. Written as `None`: a new entry colours everything green, and
    /// a modified one keeps its meter.
    pub meter: Option<MeterConfig>,
    /// Packets and bytes that hit it, where the table counts them. Written as `None`: a new entry starts at zero, and a
    /// modified one goes on.
    pub counter: Option<Count>,
    /// How long ago it was hit, or inserted, where the table supports idle timeouts. Read only: ignored in a write.
    pub since_hit: Option<Span>,
    /// The program declares it, and it cannot be changed. Read only: ignored in a write.
    pub is_const: bool,
}

impl TableEntry {
    /// An entry that runs an action, without priority, timeout and rates.
    pub fn new(table: TableId, matches: Vec<Match>, action: ActionCall) -> TableEntry {
        TableEntry {
            key: EntryKey { table, matches, priority: 0 },
            target: Target::Action(action),
            idle_timeout: None,
            meter: None,
            counter: None,
            since_hit: None,
            is_const: false,
        }
    }

    /// What names an entry, for a deletion, which looks at nothing else.
    pub(crate) fn of_key(key: EntryKey) -> TableEntry {
        TableEntry {
            key,
            target: Target::Member(0),
            idle_timeout: None,
            meter: None,
            counter: None,
            since_hit: None,
            is_const: false,
        }
    }

    /// The same with a priority.
    #[must_use]
    pub fn with_priority(mut self, priority: u32) -> TableEntry {
        self.key.priority = priority;
        self
    }
}

/// What a device has. A table with a selector has a profile of members and groups; it is named by its table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entity {
    /// An entry of a table.
    TableEntry(TableEntry),
    /// What a miss in a table does. Modify only; `None` is what the program declares. Read back as it is.
    DefaultAction {
        /// The table.
        table: TableId,
        /// The action.
        action: Option<ActionCall>,
    },
    /// A member of the profile of a table: an action that entries and groups share.
    Member {
        /// The table.
        table: TableId,
        /// Number of the member in the profile.
        id: u32,
        /// What it does; may be empty to delete it.
        action: ActionCall,
    },
    /// A group of the profile of a table: members with weights, one of which a hash picks.
    Group {
        /// The table.
        table: TableId,
        /// Number of the group in the profile.
        id: u32,
        /// Its members.
        members: Vec<GroupMember>,
    },
    /// The direct counter of an entry. Modify only; it is read in [`Entity::TableEntry`].
    DirectCounter {
        /// The entry.
        key: EntryKey,
        /// What it reads from now on.
        count: Count,
    },
    /// The direct meter of an entry. Modify only; it is read in [`Entity::TableEntry`].
    DirectMeter {
        /// The entry.
        key: EntryKey,
        /// Rates; `None` colours everything green.
        config: Option<MeterConfig>,
    },
    /// A cell of a counter array. Modify only.
    Counter {
        /// The array.
        counter: CounterId,
        /// The cell.
        index: u64,
        /// Packets and bytes.
        count: Count,
    },
    /// A cell of a meter array. Modify only.
    Meter {
        /// The array.
        meter: MeterId,
        /// The cell.
        index: u64,
        /// Rates; `None` leaves the colour as it was.
        config: Option<MeterConfig>,
    },
    /// An entry of a register. Modify only.
    Register {
        /// The register.
        register: RegisterId,
        /// The entry.
        index: u64,
        /// One value for each cell of the entry.
        cells: Vec<u64>,
    },
    /// All members of a value set, in order. Modify only.
    ValueSet {
        /// The set.
        set: ValueSetId,
        /// Its members.
        members: Vec<SetMember>,
    },
    /// A multicast group of the device.
    Multicast {
        /// Its number, 1 or more.
        id: u16,
        /// Its copies.
        group: Group,
    },
    /// A mirror session of the device.
    Mirror {
        /// Its number.
        id: u16,
        /// Where copies go.
        session: Session,
    },
}

/// What is done with an [`Entity`]. Of an entity that is deleted only what names it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// It is new.
    Insert(Entity),
    /// It is there, and changes.
    Modify(Entity),
    /// It is there, and goes.
    Delete(Entity),
}

impl Update {
    /// What it is about.
    pub fn entity(&self) -> &Entity {
        match self {
            Update::Insert(entity) | Update::Modify(entity) | Update::Delete(entity) => entity,
        }
    }
}

/// What a batch does when one of its updates is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All is done, or nothing. Updates of tables, members and groups are seen by packets as one version; then those of
    /// other things follow, each at once.
    #[default]
    Atomic,
    /// Each is done on its own, in order.
    Continue,
}

/// What to read; `None` is every one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// One entry.
    Entry(EntryKey),
    /// Entries of a table, the oldest first.
    Entries {
        /// The table.
        table: Option<TableId>,
    },
    /// Default actions.
    DefaultActions {
        /// The table.
        table: Option<TableId>,
    },
    /// Members of profiles.
    Members {
        /// The table with the profile.
        table: Option<TableId>,
        /// The member.
        id: Option<u32>,
    },
    /// Groups of profiles.
    Groups {
        /// The table with the profile.
        table: Option<TableId>,
        /// The group.
        id: Option<u32>,
    },
    /// Counters that are no table's.
    Counters {
        /// The array.
        counter: Option<CounterId>,
        /// The cell.
        index: Option<u64>,
    },
    /// Meters that are no table's.
    Meters {
        /// The array.
        meter: Option<MeterId>,
        /// The cell.
        index: Option<u64>,
    },
    /// Registers.
    Registers {
        /// The register.
        register: Option<RegisterId>,
        /// The entry.
        index: Option<u64>,
    },
    /// Value sets.
    ValueSets {
        /// The set.
        set: Option<ValueSetId>,
    },
    /// Multicast groups.
    Multicast {
        /// The group.
        id: Option<u16>,
    },
    /// Mirror sessions.
    Mirrors {
        /// The session.
        id: Option<u16>,
    },
}
