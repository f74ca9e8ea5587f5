//! Action profiles and selectors: actions shared by entries, and groups that a hash chooses from.
//!
//! An entry of a table with a profile points to a member or to a group. The choice in a group is
//! `buckets[hash % buckets.len()]`, where `buckets` lists the members in the order of the group's
//! declaration, each as often as its weight. The hash comes from the caller. Changing one member of a
//! group keeps all other buckets; adding or removing one moves flows, as plain ECMP does.
//!
//! Consecutive devices with the same hash would choose alike: the packets that the first one sends to the second have
//! one remainder, and the second uses only one of its paths. So a device can have a seed that scrambles its hashes (SAI
//! calls it SAI_SWITCH_ATTR_ECMP_DEFAULT_HASH_SEED).
//!
//! Members and groups are published in the same snapshot as the tables that point to them.
//!
//! Groups from [`FIRST_OWNED_ID`] on belong to the one entry that points to them: such a group is removed with its last
//! reference, and so are its members, which are numbered behind it. A profile has these, or members and groups with ids
//! given by the client (P4Runtime specification 1.5, "One Shot Action Selector Programming").

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::entry::{ActionCall, GroupMember, ProfileSpec, Released, Target};
use crate::error::{EntryError, SpecError};
use crate::flat::Records;
use crate::hash::scramble;
use crate::replica::{Length, Replay, Replica};
use crate::shape::check_call;

/// Members and groups with this number, or a higher one, belong to an entry.
pub const FIRST_OWNED_ID: u32 = 1 << 31;

/// Set in the data word of an entry that points to a group.
const GROUP: u64 = 1 << 32;

/// One version of an action profile.
#[derive(Clone, Debug)]
pub struct ProfileView {
    spec: Arc<ProfileSpec>,
    /// Seed of choices; 0: none.
    seed: u64,
    members: Records,
    data_words: usize,
    /// Members in use, for judging what a clone costs.
    len: usize,
    /// By group: buckets in use.
    group_sizes: Vec<u32>,
    /// By group, `max_group_size` each: index of the member.
    buckets: Vec<u32>,
    empty_group: Box<[u64]>,
}

impl ProfileView {
    fn new(spec: Arc<ProfileSpec>, seed: u64) -> ProfileView {
        let data_words = spec.actions.iter().map(|a| a.data_words).max().unwrap_or(0);
        let empty_group = call_words(&spec.empty_group, data_words).into();
        ProfileView {
            spec,
            seed,
            members: Records::new(data_words),
            data_words,
            len: 0,
            group_sizes: Vec::new(),
            buckets: Vec::new(),
            empty_group,
        }
    }

    /// The declaration.
    pub fn spec(&self) -> &ProfileSpec {
        &self.spec
    }

    /// Words of data of every choice.
    pub fn data_words(&self) -> usize {
        self.data_words
    }

    /// Action and data of the data word `target` of an entry.
    #[inline]
    pub fn choose(&self, target: u64, hash: u64) -> (u32, &[u64]) {
        let index = target as u32;
        if target & GROUP == 0 {
            return self.members.get(index);
        }
        let size = u64::from(self.group_sizes.get(index as usize).copied().unwrap_or(0));
        if size == 0 {
            return (self.empty_group[0] as u32, &self.empty_group[1..]);
        }
        let hash = if self.seed == 0 { hash } else { scramble(hash ^ scramble(self.seed)) };
        let first = index as usize * self.spec.max_group_size as usize;
        self.members.get(self.buckets[first + (hash % size) as usize])
    }
}

fn call_words(call: &ActionCall, data_words: usize) -> Vec<u64> {
    let mut words = vec![0; 1 + data_words];
    words[0] = u64::from(call.action);
    words[1..1 + call.data.len()].copy_from_slice(&call.data);
    words
}

#[derive(Debug)]
pub(crate) enum ProfileOp {
    AddMember(u32, Vec<u64>),
    SetMember(u32, Vec<u64>),
    RemoveMember,
    Group(u32, Vec<u32>),
}

impl Length for Vec<ProfileOp> {
    fn len(&self) -> usize {
        self.len()
    }
}

impl Replay for ProfileView {
    type Log = Vec<ProfileOp>;

    fn replay(&mut self, log: &Vec<ProfileOp>) {
        let stride = self.spec.max_group_size as usize;
        for op in log {
            match op {
                ProfileOp::AddMember(index, call) => {
                    self.members.set(*index, call);
                    self.len += 1;
                }
                ProfileOp::SetMember(index, call) => self.members.set(*index, call),
                ProfileOp::RemoveMember => self.len = self.len.saturating_sub(1),
                ProfileOp::Group(index, members) => {
                    let index = *index as usize;
                    if self.group_sizes.len() <= index {
                        self.group_sizes.resize(index + 1, 0);
                        self.buckets.resize((index + 1) * stride, 0);
                    }
                    self.group_sizes[index] = members.len() as u32;
                    self.buckets[index * stride..][..members.len()].copy_from_slice(members);
                }
            }
        }
    }

    fn size(&self) -> usize {
        self.len.max(self.buckets.len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    index: u32,
    call: ActionCall,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    index: u32,
    members: Vec<GroupMember>,
}

/// Dense indices of members or groups: their ids and reference counts. The last freed is used first.
#[derive(Debug, Default)]
struct Indices {
    ids: Vec<u32>,
    references: Vec<u32>,
    free: Vec<u32>,
}

impl Indices {
    fn take(&mut self, id: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.ids.push(id);
            self.references.push(0);
            self.ids.len() as u32 - 1
        });
        self.ids[index as usize] = id;
        index
    }

    /// The index of a new object (`new`), of which there are `len` and may be `capacity`, or the one that an old object
    /// has.
    fn index_for(
        &mut self,
        id: u32,
        known: Option<u32>,
        new: bool,
        len: usize,
        capacity: u32,
    ) -> Result<u32, EntryError> {
        match (known, new) {
            (Some(_), true) => Err(EntryError::Duplicate),
            (None, false) => Err(EntryError::NotFound),
            (None, true) if len as u64 >= u64::from(capacity) => Err(EntryError::Full { capacity }),
            (None, true) => Ok(self.take(id)),
            (Some(index), false) => Ok(index),
        }
    }

    /// Undoes the freeing of an index, which may have got another id since.
    fn take_back(&mut self, index: u32, id: u32) {
        self.free.pop();
        self.ids[index as usize] = id;
    }

    fn refer(&mut self, index: u32, by: i32) {
        let count = &mut self.references[index as usize];
        *count = count.wrapping_add_signed(by);
    }

    fn unused(&self, index: u32) -> Result<(), EntryError> {
        match self.references[index as usize] {
            0 => Ok(()),
            references => Err(EntryError::InUse { references }),
        }
    }
}

/// The state before a change.
#[derive(Debug)]
pub(crate) enum ProfileUndo {
    Member { id: u32, was: Option<MemberWas> },
    Group { id: u32, was: Option<GroupWas> },
}

/// A member before it was changed.
#[derive(Debug)]
pub(crate) struct MemberWas(Member);
/// A group before it was changed.
#[derive(Debug)]
pub(crate) struct GroupWas(Group);

/// The write side of a profile.
#[derive(Debug)]
pub(crate) struct ProfileWriter {
    pub(crate) spec: Arc<ProfileSpec>,
    pub(crate) replica: Replica<ProfileView>,
    pub(crate) log: Vec<ProfileOp>,
    members: BTreeMap<u32, Member>,
    groups: BTreeMap<u32, Group>,
    member_indices: Indices,
    group_indices: Indices,
    pub(crate) moved: bool,
}

impl ProfileWriter {
    /// True if members and groups fit a profile declared like this unchanged.
    pub(crate) fn fits(&self, spec: &ProfileSpec) -> bool {
        let empty_group = self.spec.empty_group.clone();
        *self.spec == ProfileSpec { empty_group, ..spec.clone() }
    }

    /// Takes the place of `old`, which keeps its readers' snapshot and takes no more writes. What a group without
    /// members does is as declared here.
    pub(crate) fn take_over(&mut self, old: &mut ProfileWriter) {
        let (frozen, spec) = (old.frozen(), self.spec.clone());
        *self = std::mem::replace(old, frozen);
        if self.spec != spec {
            let mut view = ProfileView::clone(self.replica.front());
            view.empty_group = call_words(&spec.empty_group, view.data_words).into();
            view.spec = spec.clone();
            self.spec = spec;
            self.replica.restart(view);
        }
    }

    /// What remains when the profile moves to another program: the view, closed for writes.
    fn frozen(&mut self) -> ProfileWriter {
        ProfileWriter {
            spec: self.spec.clone(),
            replica: self.replica.frozen(),
            log: Vec::new(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            member_indices: Indices::default(),
            group_indices: Indices::default(),
            moved: true,
        }
    }

    pub(crate) fn new(spec: ProfileSpec, seed: u64) -> Result<ProfileWriter, SpecError> {
        check_call(&spec.actions, &spec.empty_group)
            .map_err(|error| SpecError::Entry { entry: None, error })?;
        let buckets = u64::from(spec.max_groups) * u64::from(spec.max_group_size);
        for size in [u64::from(spec.capacity), buckets] {
            if size > u64::from(crate::entry::MAX_CAPACITY) {
                let capacity = u32::try_from(size).unwrap_or(u32::MAX);
                return Err(SpecError::Capacity { capacity });
            }
        }
        let spec = Arc::new(spec);
        Ok(ProfileWriter {
            replica: Replica::new(ProfileView::new(spec.clone(), seed)),
            spec,
            log: Vec::new(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            member_indices: Indices::default(),
            group_indices: Indices::default(),
            moved: false,
        })
    }

    /// The data word of an entry that points to `target`.
    pub(crate) fn target_word(&self, target: &Target) -> Result<u64, EntryError> {
        match target {
            Target::Action(_) => Err(EntryError::WrongTarget { profile: true }),
            Target::Member(id) => {
                let member = self.members.get(id).ok_or(EntryError::NoSuchMember(*id))?;
                Ok(u64::from(member.index))
            }
            Target::Group(id) => {
                let group = self.groups.get(id).ok_or(EntryError::NoSuchGroup(*id))?;
                Ok(u64::from(group.index) | GROUP)
            }
        }
    }

    /// What an entry's data word points to.
    pub(crate) fn target_of(&self, word: u64) -> Target {
        let index = word as u32 as usize;
        if word & GROUP == 0 {
            Target::Member(self.member_indices.ids[index])
        } else {
            Target::Group(self.group_indices.ids[index])
        }
    }

    /// Refuses an entry that points to a group or member of another entry; `old` is its data word before.
    pub(crate) fn check_owner(&self, word: u64, old: Option<u64>) -> Result<(), EntryError> {
        match self.target_of(word) {
            Target::Group(id) if id >= FIRST_OWNED_ID && old != Some(word) => {
                self.group_indices.unused(word as u32).map_err(|_| EntryError::Owned(id))
            }
            Target::Member(id) if id >= FIRST_OWNED_ID => Err(EntryError::Owned(id)),
            _ => Ok(()),
        }
    }

    /// Refuses to mix members and groups that belong to entries with those that a controller numbered.
    fn check_mixed(&self, id: u32) -> Result<(), EntryError> {
        match self.numbers() {
            Some(used) if id >= FIRST_OWNED_ID && *used.start() < FIRST_OWNED_ID => {
                Err(EntryError::Named)
            }
            Some(used) if id < FIRST_OWNED_ID && *used.end() >= FIRST_OWNED_ID => {
                Err(EntryError::HasSets)
            }
            _ => Ok(()),
        }
    }

    /// After a reference was dropped: an entry's own group without references is removed, with its members.
    pub(crate) fn release(&mut self, word: u64) -> Option<(Released, Vec<ProfileUndo>)> {
        let index = word as u32;
        let group = *self.group_indices.ids.get(index as usize).filter(|_| word & GROUP != 0)?;
        if group < FIRST_OWNED_ID || self.group_indices.unused(index).is_err() {
            return None;
        }
        let mut undo = vec![self.delete_group(group).ok()?];
        let behind = group.saturating_add(1);
        let next = self.groups.range(behind..).next().map_or(u32::MAX, |(id, _)| *id);
        let members: Vec<u32> = self.members.range(behind..next).map(|(id, _)| *id).collect();
        undo.extend(members.iter().filter_map(|id| self.delete_member(*id).ok()));
        Some((Released { group, members }, undo))
    }

    /// Counts an entry's reference; `by` is 1 or -1.
    pub(crate) fn refer(&mut self, word: u64, by: i32) {
        let group = word & GROUP != 0;
        let indices = if group { &mut self.group_indices } else { &mut self.member_indices };
        indices.refer(word as u32, by);
    }

    /// A new member (`new`) or a new action for an old one.
    pub(crate) fn put_member(
        &mut self,
        id: u32,
        call: &ActionCall,
        new: bool,
    ) -> Result<ProfileUndo, EntryError> {
        check_call(&self.spec.actions, call)?;
        let was = self.members.get(&id).cloned();
        if was.is_none() && new {
            self.check_mixed(id)?;
        }
        let (known, taken) = (was.as_ref().map(|was| was.index), self.members.len());
        let index = self.member_indices.index_for(id, known, new, taken, self.spec.capacity)?;
        let words = call_words(call, self.replica.front().data_words);
        self.log.push(match was {
            None => ProfileOp::AddMember(index, words),
            Some(_) => ProfileOp::SetMember(index, words),
        });
        self.members.insert(id, Member { index, call: call.clone() });
        Ok(ProfileUndo::Member { id, was: was.map(MemberWas) })
    }

    pub(crate) fn delete_member(&mut self, id: u32) -> Result<ProfileUndo, EntryError> {
        let member = self.members.get(&id).ok_or(EntryError::NotFound)?;
        self.member_indices.unused(member.index)?;
        self.member_indices.free.push(member.index);
        self.log.push(ProfileOp::RemoveMember);
        let was = self.members.remove(&id).map(MemberWas);
        Ok(ProfileUndo::Member { id, was })
    }

    /// A new group (`new`) or new members for an old one.
    pub(crate) fn put_group(
        &mut self,
        id: u32,
        members: &[GroupMember],
        new: bool,
    ) -> Result<ProfileUndo, EntryError> {
        let max = self.spec.max_group_size;
        let size: u64 = members.iter().map(|m| u64::from(m.weight)).sum();
        if size > u64::from(max) || members.len() as u64 > u64::from(max) {
            return Err(EntryError::GroupTooLarge { size, max });
        }
        let mut buckets = Vec::new();
        for &GroupMember { member, weight } in members {
            let found = self.members.get(&member).ok_or(EntryError::NoSuchMember(member))?;
            buckets.extend(std::iter::repeat_n(found.index, weight as usize));
        }
        let was = self.groups.get(&id).cloned();
        if was.is_none() && new {
            self.check_mixed(id)?;
        }
        let (known, taken) = (was.as_ref().map(|was| was.index), self.groups.len());
        let index = self.group_indices.index_for(id, known, new, taken, self.spec.max_groups)?;
        self.count_members(members, 1);
        if let Some(was) = &was {
            self.count_members(&was.members, -1);
        }
        self.log.push(ProfileOp::Group(index, buckets));
        self.groups.insert(id, Group { index, members: members.to_vec() });
        Ok(ProfileUndo::Group { id, was: was.map(GroupWas) })
    }

    pub(crate) fn delete_group(&mut self, id: u32) -> Result<ProfileUndo, EntryError> {
        let group = self.groups.get(&id).ok_or(EntryError::NotFound)?;
        self.group_indices.unused(group.index)?;
        let group = group.clone();
        self.group_indices.free.push(group.index);
        self.log.push(ProfileOp::Group(group.index, Vec::new()));
        self.count_members(&group.members, -1);
        self.groups.remove(&id);
        Ok(ProfileUndo::Group { id, was: Some(GroupWas(group)) })
    }

    fn count_members(&mut self, members: &[GroupMember], by: i32) {
        for GroupMember { member, .. } in members {
            if let Some(member) = self.members.get(member) {
                self.member_indices.refer(member.index, by);
            }
        }
    }

    /// Undoes changes in reverse order; the log of the batch is thrown away by the caller.
    pub(crate) fn undo(&mut self, undo: ProfileUndo) {
        match undo {
            ProfileUndo::Member { id, was: None } => {
                if let Some(member) = self.members.remove(&id) {
                    self.member_indices.free.push(member.index);
                }
            }
            ProfileUndo::Member { id, was: Some(MemberWas(was)) } => {
                let index = was.index;
                if self.members.insert(id, was).is_none() {
                    self.member_indices.take_back(index, id);
                }
            }
            ProfileUndo::Group { id, was } => {
                let now = self.groups.remove(&id);
                if let Some(now) = &now {
                    self.count_members(&now.members, -1);
                }
                match (now, was) {
                    (Some(now), None) => self.group_indices.free.push(now.index),
                    (now, Some(GroupWas(was))) => {
                        if now.is_none() {
                            self.group_indices.take_back(was.index, id);
                        }
                        self.count_members(&was.members, 1);
                        self.groups.insert(id, was);
                    }
                    (None, None) => {}
                }
            }
        }
    }

    /// Members with these ids, by id.
    pub(crate) fn members(
        &self,
        ids: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (u32, &ActionCall)> {
        self.members.range(ids).map(|(id, member)| (*id, &member.call))
    }

    /// The least and the greatest id of a member or group; `None` where there is neither.
    pub(crate) fn numbers(&self) -> Option<RangeInclusive<u32>> {
        let members = self.members.first_key_value().zip(self.members.last_key_value());
        let groups = self.groups.first_key_value().zip(self.groups.last_key_value());
        let ranges = [members.map(|(a, b)| (*a.0, *b.0)), groups.map(|(a, b)| (*a.0, *b.0))];
        let both = ranges.into_iter().flatten();
        both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).map(|(least, greatest)| least..=greatest)
    }

    /// Groups with these ids, by id.
    pub(crate) fn groups(
        &self,
        ids: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (u32, &[GroupMember])> {
        self.groups.range(ids).map(|(id, group)| (*id, &group.members[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::ActionSpec;

    /// The size decides how a write waits for readers.
    #[test]
    fn members_that_are_modified_do_not_count_again() {
        let call = |data| ActionCall { action: 0, data: vec![data] };
        let spec = ProfileSpec {
            name: "ecmp".into(),
            capacity: 4,
            max_groups: 1,
            max_group_size: 1,
            actions: vec![ActionSpec { id: 0, name: "send".into(), data_words: 1 }],
            empty_group: call(0),
        };
        let mut writer = ProfileWriter::new(spec.clone(), 0).unwrap();
        writer.put_member(1, &call(1), true).unwrap();
        writer.put_member(2, &call(2), true).unwrap();
        for data in 0..300 {
            writer.put_member(1, &call(data), false).unwrap();
        }
        writer.delete_member(2).unwrap();
        let mut view = ProfileView::new(Arc::new(spec), 0);
        view.replay(&writer.log);
        assert_eq!(view.size(), 1);
    }
}
