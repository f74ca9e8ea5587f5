//! Objects of a device that control reads and writes: one type for both.

use wireyard_pipeline::ids::{CounterId, MeterId, RegisterId, TableId, ValueSetId};
use wireyard_pipeline::ir::{ActionCall, Program, SetMember};
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;
use wireyard_tables::time::Span;
use wireyard_tables::{GroupMember, Match};

use crate::replicate::{Group, Session};

/// The effect of an entry when it is hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Runs this action, with one value for each of its parameters.
    Action(ActionCall),
    /// Runs the action of a member of the table's profile.
    Member(u32),
    /// Runs the action of one member of a group of the table's profile, picked by hash.
    Group(u32),
}

/// The key of an entry: what distinguishes it from others of its table.
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
    /// Its effect.
    pub target: Target,
    /// Idle after this long without a hit; `None` for never.
    pub idle_timeout: Option<Span>,
    /// Rates of its meter, where the table has direct meters. In a write, `None` colours everything green for a new
    /// entry, and keeps the meter of a modified one.
    pub meter: Option<MeterConfig>,
    /// Packets and bytes that hit it, where the table counts them. In a write, `None` starts a new entry at zero, and
    /// leaves the counter of a modified one unchanged.
    pub counter: Option<Count>,
    /// Time since the last hit, or since insertion, where the table supports idle timeouts. Read only: ignored in a
    /// write.
    pub since_hit: Option<Span>,
    /// The program declares the entry, and it cannot be changed. Read only: ignored in a write.
    pub is_const: bool,
}

impl TableEntry {
    /// An entry that runs an action, without priority, timeout and rates.
    pub fn new(table: TableId, matches: Vec<Match>, action: ActionCall) -> TableEntry {
        let key = EntryKey { table, matches, priority: 0 };
        TableEntry { target: Target::Action(action), ..TableEntry::of_key(key) }
    }

    /// An entry with this key, for a deletion, which reads nothing else.
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
}

/// An object of a device. A table with a selector has a profile of members and groups; the id of the table names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entity {
    /// An entry of a table.
    TableEntry(TableEntry),
    /// The action of a table for a miss. Modify only; in a write, `None` restores what the program declares. A read
    /// returns the current one.
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
        /// Its action; in a deletion its contents are ignored.
        action: ActionCall,
    },
    /// A group of the profile of a table: members with weights; a hash picks one.
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
        /// The new value.
        count: Count,
    },
    /// The direct meter of an entry. Modify only; it is read in [`Entity::TableEntry`].
    DirectMeter {
        /// The entry.
        key: EntryKey,
        /// Rates; with `None` everything is green.
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
        /// Rates; with `None` the colour is unchanged.
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
        /// Destinations of copies.
        session: Session,
    },
}

impl Entity {
    /// True for an entry that the program declares as constant.
    pub fn is_const(&self) -> bool {
        matches!(self, Entity::TableEntry(entry) if entry.is_const)
    }

    /// True for a cell of an array with its initial value.
    pub fn is_blank(&self) -> bool {
        match self {
            Entity::Counter { count, .. } => count.packets == 0 && count.bytes == 0,
            Entity::Meter { config, .. } => config.is_none(),
            Entity::Register { cells, .. } => cells.iter().all(|cell| *cell == 0),
            _ => false,
        }
    }

    /// The update that removes what was written: a deletion, or the value that the program declares; `None` for an
    /// object that has this value.
    pub(crate) fn reset(self, program: &Program) -> Option<Update> {
        match self {
            Entity::DefaultAction { table, action } => {
                let declared = program.tables.get(table)?;
                let is_written =
                    !declared.const_default && action.as_ref() != Some(&declared.default);
                is_written.then_some(Update::Modify(Entity::DefaultAction { table, action: None }))
            }
            cell @ (Entity::Counter { .. } | Entity::Meter { .. } | Entity::Register { .. })
                if cell.is_blank() =>
            {
                None
            }
            Entity::Counter { counter, index, .. } => {
                Some(Update::Modify(Entity::Counter { counter, index, count: Count::default() }))
            }
            Entity::Meter { meter, index, .. } => {
                Some(Update::Modify(Entity::Meter { meter, index, config: None }))
            }
            Entity::Register { register, index, cells } => {
                let cells = vec![0; cells.len()];
                Some(Update::Modify(Entity::Register { register, index, cells }))
            }
            Entity::ValueSet { set, members } => {
                let initial = &program.value_sets.get(set)?.initial;
                let is_written = *initial != members;
                is_written
                    .then(|| Update::Modify(Entity::ValueSet { set, members: initial.clone() }))
            }
            other => Some(Update::Delete(other)),
        }
    }
}

/// A write of an [`Entity`]. Of an entity that is deleted only its identity is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Creates an entity; it must not exist.
    Insert(Entity),
    /// Changes an existing entity.
    Modify(Entity),
    /// Deletes an existing entity.
    Delete(Entity),
}

impl Update {
    /// The entity that it refers to.
    pub fn entity(&self) -> &Entity {
        match self {
            Update::Insert(entity) | Update::Modify(entity) | Update::Delete(entity) => entity,
        }
    }
}

/// Handling of a batch of which an update is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All updates are done, or none. Packets see the updates of tables, members and groups as one version; then the
    /// others follow, each at once.
    #[default]
    Atomic,
    /// Each update is done on its own, in order.
    Continue,
}

/// Objects to read; `None` for all of them.
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
    /// Counters that belong to no table.
    Counters {
        /// The array.
        counter: Option<CounterId>,
        /// The cell.
        index: Option<u64>,
    },
    /// Meters that belong to no table.
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
