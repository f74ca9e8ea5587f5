//! What a caller writes: tables, entries, actions, members and groups, and updates of them.

use crate::field::{FieldSpec, Match};
use crate::meter::{MeterConfig, MeterUnit};
use crate::time::Span;

/// Index of a table in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// Index of an action profile in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(pub u32);

/// The index of an entry in side arrays (counters, meters, last hit): below the table's capacity, the same for the
/// whole life of the entry, reused afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// Most entries of a table.
pub const MAX_CAPACITY: u32 = 1 << 24;

/// The entry that a key matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'a> {
    /// Its index in side arrays.
    pub slot: Slot,
    /// Its action. For a table with an action profile this is 0 and has no meaning: [`crate::Snapshot::select`] returns
    /// the action.
    pub action: u32,
    /// Its action data, padded to the table's `data_words`.
    pub data: &'a [u64],
}

/// An action as entries name it. The caller defines what the id stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSpec {
    /// Id in entries and hits.
    pub id: u32,
    /// For messages. Also part of the shape that must be equal to keep entries over a program swap: a caller whose
    /// parameters have widths includes them.
    pub name: String,
    /// Words of action data.
    pub data_words: usize,
}

/// An action and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionCall {
    /// Id of the action.
    pub action: u32,
    /// Its data: exactly the declared number of words.
    pub data: Vec<u64>,
}

/// The action of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Runs an action.
    Action(ActionCall),
    /// Runs the action of a member of the table's profile.
    Member(u32),
    /// Runs the action of one member of a group, picked by hash.
    Group(u32),
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One per field, in field order.
    pub matches: Vec<Match>,
    /// Higher wins; among equals the entry that was inserted first. 1 or more where a field is
    /// ternary, range or optional; 0 elsewhere.
    pub priority: u32,
    /// Its action.
    pub target: Target,
    /// Idle after this span without a hit, which [`crate::Tables::newly_idle`] reports and [`crate::Tables::age_out`]
    /// removes; `None` for never.
    pub idle_timeout: Option<Span>,
    /// Rates of its meter, where the table has them; `None` colours everything green, and in [`Update::Modify`] leaves
    /// the meter as it is.
    pub meter: Option<MeterConfig>,
}

impl Entry {
    /// An entry that runs an action, without priority, timeout and rates.
    pub fn new(matches: Vec<Match>, action: u32, data: Vec<u64>) -> Entry {
        let target = Target::Action(ActionCall { action, data });
        Entry { matches, priority: 0, target, idle_timeout: None, meter: None }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// For messages, and to recognise the table after a program swap.
    pub name: String,
    /// The key; may be empty (then the table has one entry at most).
    pub fields: Vec<FieldSpec>,
    /// Most entries.
    pub capacity: u32,
    /// Actions that entries and the default may use.
    pub actions: Vec<ActionSpec>,
    /// The action of a miss.
    pub default: ActionCall,
    /// The default action cannot be changed.
    pub const_default: bool,
    /// Entries from the start.
    pub entries: Vec<Entry>,
    /// The entries cannot be changed.
    pub const_entries: bool,
    /// Slots of entries that cannot be changed where others can: the first entries have the slots 0, 1, 2.
    pub fixed: Vec<u32>,
    /// Entries point to members and groups of this profile instead of actions.
    pub profile: Option<ProfileId>,
    /// Entries may have an idle timeout; last-hit times are kept.
    pub idle_timeout: bool,
    /// Packets and bytes are counted per entry.
    pub direct_counter: bool,
    /// Every entry has a meter.
    pub direct_meter: Option<DirectMeter>,
}

/// The meters of a table's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectMeter {
    /// What they count.
    pub unit: MeterUnit,
    /// Two rates (RFC 2698), or a single one (RFC 2697): entries move to another program only where this is the same.
    pub two_rates: bool,
}

impl TableSpec {
    /// A table with a key and a capacity, without actions (one action `NoAction` of id 0 and no data,
    /// which is also the default), entries, counters, meters and timeouts.
    pub fn new(name: &str, fields: Vec<FieldSpec>, capacity: u32) -> TableSpec {
        let no_action = ActionSpec { id: 0, name: "NoAction".into(), data_words: 0 };
        TableSpec {
            name: name.into(),
            fields,
            capacity,
            actions: vec![no_action],
            default: ActionCall::default(),
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            fixed: Vec::new(),
            profile: None,
            idle_timeout: false,
            direct_counter: false,
            direct_meter: None,
        }
    }

    /// Whether the entry in this slot cannot be changed.
    pub fn is_fixed(&self, slot: Slot) -> bool {
        self.const_entries || self.fixed.contains(&slot.0)
    }
}

/// An action profile, or action selector: actions shared by entries, one by one or in groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// For messages.
    pub name: String,
    /// Most members.
    pub capacity: u32,
    /// Most groups; 0 for a profile that is not a selector.
    pub max_groups: u32,
    /// Highest sum of weights in a group.
    pub max_group_size: u32,
    /// Actions that members may use.
    pub actions: Vec<ActionSpec>,
    /// What a hit on a group without members does (PSA: `psa_empty_group_action`).
    pub empty_group: ActionCall,
}

/// A member of a group: its id and weight. Weight 0 keeps the member out of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Id of the member.
    pub member: u32,
    /// Share of the traffic, relative to the sum of weights.
    pub weight: u32,
}

/// One change. A batch of them is applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// A new entry.
    Insert(TableId, Entry),
    /// A new action and timeout for an entry, found by its matches and priority, and new rates if it has any, which
    /// fill the buckets of its meter. It keeps its slot, its age among equals, its counters, and without new rates its
    /// meter.
    Modify(TableId, Entry),
    /// Removes an entry, found by its matches and priority.
    Delete(TableId, Vec<Match>, u32),
    /// A new default action; `None` for the declared one.
    SetDefault(TableId, Option<ActionCall>),
    /// A new member.
    InsertMember(ProfileId, u32, ActionCall),
    /// A new action for a member.
    ModifyMember(ProfileId, u32, ActionCall),
    /// Removes a member without references.
    DeleteMember(ProfileId, u32),
    /// A new group.
    InsertGroup(ProfileId, u32, Vec<GroupMember>),
    /// New members for a group.
    ModifyGroup(ProfileId, u32, Vec<GroupMember>),
    /// Removes a group that no entry refers to.
    DeleteGroup(ProfileId, u32),
}

impl Update {
    /// The entry that it inserts or modifies, and its table.
    pub fn entry(&self) -> Option<(TableId, &Entry)> {
        match self {
            Update::Insert(table, entry) | Update::Modify(table, entry) => Some((*table, entry)),
            _ => None,
        }
    }
}

/// An entry's own group that was removed with the entry, or because the entry now points elsewhere, and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The group.
    pub group: u32,
    /// Its members.
    pub members: Vec<u32>,
}

/// An entry that was removed because no packet hit it for its idle timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aged {
    /// Its slot.
    pub slot: Slot,
    /// The entry.
    pub entry: Entry,
    /// Its own group, which was removed with it, and the profile of that.
    pub released: Option<(ProfileId, Released)>,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Version that readers see from now on.
    pub version: u64,
    /// Slots of inserted entries, in the order of the batch. Direct counters, meters and last-hit times in the table
    /// are already reset; arrays outside of it are the caller's to reset.
    pub inserted: Vec<(TableId, Slot)>,
    /// Entries' own groups that were removed with their last reference, by profile.
    pub released: Vec<(ProfileId, Released)>,
}

/// The outcome of a data-plane insert ([`crate::Reader::learn`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// A new entry.
    New(Slot),
    /// The entry already existed with this action and data.
    Refreshed(Slot),
    /// The entry existed with another action or data, which are replaced.
    Moved(Slot),
    /// The table is full, the cells near this key are crowded, or its entry cannot be changed; nothing changed.
    Full,
    /// Another writer holds the lock, or a reader the copy that would be changed (for 50 ms at most); nothing changed.
    /// The next packet of the key may learn it.
    Busy,
}
