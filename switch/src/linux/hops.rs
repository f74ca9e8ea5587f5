//! Next hops by number: single ones, and sets of them that share the traffic of a route (ECMP).
//!
//! Routes refer to a number; the port and addresses of its packets are in one place. So a neighbour with a new MAC
//! address, or a link that goes down, changes an entry for each next hop and not for each route. An unreachable next
//! hop is left out of its sets as long as another one is reachable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use wireyard_pipeline::ir::ActionCall;
use wireyard_tables::GroupMember;

use super::kernel::Hop;
use super::mapping::{Facts, Map, Mapped};
use super::model::{Link, Model};
use super::writes::Writes;
use crate::control::{Entity, TableEntry, Target};

/// Why there is no number for next hops.
const NO_NUMBER: &str = "the program's table of next hops is full";
const NO_GROUP: &str = "the program has no more groups of next hops";

/// A gateway on a link.
type Place = (u32, IpAddr);

#[derive(Debug, Default)]
struct Single {
    number: u32,
    /// Routes and sets that use it.
    users: usize,
    written: Option<ActionCall>,
    sets: BTreeSet<u32>,
}

#[derive(Debug)]
struct Several {
    hops: Vec<Hop>,
    users: usize,
    written: Option<Vec<GroupMember>>,
}

/// All next hops in use.
#[derive(Debug, Default)]
pub(super) struct Hops {
    singles: BTreeMap<Place, Single>,
    numbers: HashMap<Vec<Hop>, u32>,
    sets: HashMap<u32, Several>,
    next: u32,
    free: Vec<u32>,
    dirty_singles: BTreeSet<Place>,
    dirty_sets: BTreeSet<u32>,
    /// Numbers that the tables refused: they have to be written whatever was written before.
    refused: BTreeSet<u32>,
}

impl Hops {
    pub(super) fn singles(&self) -> usize {
        self.singles.len()
    }

    pub(super) fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Next hops that the kernel should probe, by working links: stale ones, since the kernel probes only what it uses
    /// itself, and those that it has no MAC address for.
    pub(super) fn to_probe(&self, model: &Model) -> Vec<Place> {
        let (mut stale, mut unresolved) = (Vec::new(), Vec::new());
        for &(link, gateway) in self.singles.keys() {
            let works = model.link(link).is_some_and(Link::works);
            match model.neighbour(link, gateway) {
                _ if !works => {}
                None => unresolved.push((link, gateway)),
                Some(_) if model.is_stale(link, gateway) => stale.push((link, gateway)),
                Some(_) => {}
            }
        }
        stale.append(&mut unresolved);
        stale
    }

    /// How many numbers are free.
    fn room(&self, map: &Map) -> usize {
        self.free.len() + map.numbers.saturating_sub(self.next) as usize
    }

    fn number(&mut self, map: &Map) -> Result<u32, &'static str> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        if self.next >= map.numbers {
            return Err(NO_NUMBER);
        }
        self.next += 1;
        Ok(self.next)
    }

    /// The number of these next hops, for one more user, or why they have none.
    pub(super) fn acquire(&mut self, hops: &[Hop], map: &Map) -> Result<u32, &'static str> {
        match hops {
            [] => Err("no next hop"),
            [hop] => self.single((hop.link, hop.gateway), map),
            [hop, ..] if map.groups == 0 => self.single((hop.link, hop.gateway), map),
            hops => self.several(hops, map),
        }
    }

    fn single(&mut self, place: Place, map: &Map) -> Result<u32, &'static str> {
        if let Some(single) = self.singles.get_mut(&place) {
            single.users += 1;
            return Ok(single.number);
        }
        let number = self.number(map)?;
        self.singles.insert(place, Single { number, users: 1, ..Single::default() });
        self.dirty_singles.insert(place);
        Ok(number)
    }

    fn several(&mut self, hops: &[Hop], map: &Map) -> Result<u32, &'static str> {
        if let Some(number) = self.numbers.get(hops) {
            if let Some(set) = self.sets.get_mut(number) {
                set.users += 1;
            }
            return Ok(*number);
        }
        if self.sets.len() >= map.groups as usize {
            return Err(NO_GROUP);
        }
        // Nothing is acquired in part: to give that back would free numbers, for which the others are retried.
        let is_new = |hop: &&Hop| !self.singles.contains_key(&(hop.link, hop.gateway));
        if self.room(map) <= hops.iter().filter(is_new).count() {
            return Err(NO_NUMBER);
        }
        let number = self.number(map)?;
        for hop in hops {
            self.single((hop.link, hop.gateway), map)?;
            if let Some(single) = self.singles.get_mut(&(hop.link, hop.gateway)) {
                single.sets.insert(number);
            }
        }
        self.numbers.insert(hops.to_vec(), number);
        self.sets.insert(number, Several { hops: hops.to_vec(), users: 1, written: None });
        self.dirty_sets.insert(number);
        Ok(number)
    }

    /// Drops one user of these next hops.
    pub(super) fn release(&mut self, hops: &[Hop], map: &Map) {
        let Some(first) = hops.first() else { return };
        if hops.len() == 1 || map.groups == 0 {
            return self.leave((first.link, first.gateway));
        }
        let Some(number) = self.numbers.get(hops).copied() else { return };
        if let Some(set) = self.sets.get_mut(&number) {
            set.users = set.users.saturating_sub(1);
            self.dirty_sets.insert(number);
        }
    }

    fn leave(&mut self, place: Place) {
        if let Some(single) = self.singles.get_mut(&place) {
            single.users = single.users.saturating_sub(1);
            self.dirty_singles.insert(place);
        }
    }

    /// Marks a next hop whose data may have changed.
    pub(super) fn touch(&mut self, place: Place) {
        if self.singles.contains_key(&place) {
            self.dirty_singles.insert(place);
        }
    }

    /// Marks all next hops by a link, whose data may have changed.
    pub(super) fn touch_link(&mut self, link: u32) {
        let of_link = self.singles.keys().filter(|(of, _)| *of == link);
        self.dirty_singles.extend(of_link.copied());
    }

    /// The number of some next hop that is in the table.
    pub(super) fn any(&self) -> Option<u32> {
        self.singles.values().find(|single| single.written.is_some()).map(|single| single.number)
    }

    /// Marks all of it as missing in the tables.
    pub(super) fn forget_written(&mut self) {
        self.singles.values_mut().for_each(|single| single.written = None);
        self.sets.values_mut().for_each(|set| set.written = None);
        self.dirty_singles.extend(self.singles.keys());
        self.dirty_sets.extend(self.sets.keys());
    }

    /// The tables refused the next hop or group of this number.
    pub(super) fn refuse(&mut self, number: u32) {
        self.refused.insert(number);
    }

    /// Number of next hops and groups that the tables refused.
    pub(super) fn refused_count(&self) -> usize {
        self.refused.len()
    }

    /// Next hops that have to be touched so that what was refused is written again.
    pub(super) fn refused(&self) -> Vec<Place> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        let singles = self.singles.iter().filter(|(_, single)| {
            self.refused.contains(&single.number) || !self.refused.is_disjoint(&single.sets)
        });
        singles.map(|(place, _)| *place).collect()
    }

    /// Brings what changed into `writes`. True: numbers have become free.
    pub(super) fn collect(&mut self, model: &Model, map: &Map, writes: &mut Writes) -> bool {
        let Some(mapped) = &map.neighbours else { return false };
        let free = self.free.len();
        let dirty = std::mem::take(&mut self.dirty_singles);
        for place in &dirty {
            if let Some(single) = self.singles.get_mut(place) {
                self.dirty_sets.extend(&single.sets);
                let is_refused = self.refused.remove(&single.number);
                write_single(single, is_refused, *place, model, (map, mapped), writes);
            }
        }
        for number in std::mem::take(&mut self.dirty_sets) {
            let is_used = self.sets.get(&number).is_some_and(|set| set.users > 0);
            match is_used {
                true => self.write_set(number, model, (map, mapped), writes),
                false => self.drop_set(number, mapped, writes),
            }
        }
        // Removed sets have released their next hops.
        let left = std::mem::take(&mut self.dirty_singles);
        for place in dirty.into_iter().chain(left) {
            self.drop_single(place, (map, mapped), writes);
        }
        self.free.len() > free
    }

    fn write_set(
        &mut self,
        number: u32,
        model: &Model,
        (map, mapped): (&Map, &Mapped),
        writes: &mut Writes,
    ) {
        let is_refused = self.refused.remove(&number);
        let Some(set) = self.sets.get(&number) else { return };
        let member = |hop: &Hop| {
            let single = self.singles.get(&(hop.link, hop.gateway))?;
            Some(GroupMember { member: single.number, weight: hop.weight })
        };
        let reached = |hop: &&Hop| model.neighbour(hop.link, hop.gateway).is_some();
        let mut members: Vec<_> = set.hops.iter().filter(reached).filter_map(member).collect();
        if members.is_empty() {
            members = set.hops.iter().filter_map(member).collect();
        }
        let members = fitted(members, map.group_size);
        if set.written.as_ref() == Some(&members) && !is_refused {
            return;
        }
        let is_known = set.written.is_some() && !is_refused;
        let group = Entity::Group { table: mapped.table, id: number, members: members.clone() };
        writes.upsert_group(number, is_known, group);
        if !is_known {
            writes.upsert_hop(number, false, entry(mapped, number, Target::Group(number)));
        }
        if let Some(set) = self.sets.get_mut(&number) {
            set.written = Some(members);
        }
    }

    fn drop_set(&mut self, number: u32, mapped: &Mapped, writes: &mut Writes) {
        let Some(set) = self.sets.remove(&number) else { return };
        self.numbers.remove(&set.hops);
        self.refused.remove(&number);
        for hop in &set.hops {
            let place = (hop.link, hop.gateway);
            if let Some(single) = self.singles.get_mut(&place) {
                single.sets.remove(&number);
            }
            self.leave(place);
        }
        if set.written.is_some() {
            writes.drop_hop(entry(mapped, number, Target::Group(number)));
            let group = Entity::Group { table: mapped.table, id: number, members: Vec::new() };
            writes.drop_group(group);
        }
        self.free.push(number);
    }

    fn drop_single(&mut self, place: Place, (map, mapped): (&Map, &Mapped), writes: &mut Writes) {
        if self.singles.get(&place).is_none_or(|single| single.users > 0) {
            return;
        }
        let Some(single) = self.singles.remove(&place) else { return };
        self.refused.remove(&single.number);
        if let Some(action) = single.written {
            let target = target(single.number, &action, map);
            writes.drop_hop(entry(mapped, single.number, target));
            if map.has_members {
                let (table, id) = (mapped.table, single.number);
                writes.drop_member(Entity::Member { table, id, action });
            }
        }
        self.free.push(single.number);
    }
}

/// Members whose weights fit in a group of this size, in about the same proportions.
fn fitted(mut members: Vec<GroupMember>, size: u32) -> Vec<GroupMember> {
    members.truncate(size as usize);
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    if total > u64::from(size) {
        let room = u64::from(size) - members.len() as u64;
        for member in &mut members {
            member.weight = 1 + (u64::from(member.weight) * room / total) as u32;
        }
    }
    members
}

fn target(number: u32, action: &ActionCall, map: &Map) -> Target {
    match map.has_members {
        true => Target::Member(number),
        false => Target::Action(action.clone()),
    }
}

fn entry(mapped: &Mapped, number: u32, target: Target) -> Entity {
    let facts = Facts { number, ..Facts::default() };
    let blank = ActionCall { action: Default::default(), args: Vec::new() };
    let mut entry = TableEntry::new(mapped.table, Vec::new(), blank);
    entry.key = mapped.key(&facts);
    entry.target = target;
    Entity::TableEntry(entry)
}

/// The present action of a next hop.
fn action(
    single: &Single,
    place: Place,
    model: &Model,
    (map, mapped): (&Map, &Mapped),
) -> ActionCall {
    let (link, gateway) = place;
    let mut facts = Facts { number: single.number, ..Facts::default() };
    let port = model.link(link).and_then(|known| Some((known.port?, known)));
    if let Some((number, known)) = port {
        (facts.port, facts.mac, facts.mtu) = (number, known.mac, known.mtu);
    }
    let neighbour = port.and_then(|_| model.neighbour(link, gateway));
    let reached = neighbour.and_then(|neighbour| {
        facts.neighbour = neighbour;
        mapped.call("action", &facts)
    });
    reached.or_else(|| mapped.call("unresolved", &facts)).unwrap_or_else(|| map.miss.clone())
}

fn write_single(
    single: &mut Single,
    is_refused: bool,
    place: Place,
    model: &Model,
    (map, mapped): (&Map, &Mapped),
    writes: &mut Writes,
) {
    let action = action(single, place, model, (map, mapped));
    if single.users == 0 || single.written.as_ref() == Some(&action) && !is_refused {
        return;
    }
    let (table, id) = (mapped.table, single.number);
    let is_known = single.written.is_some() && !is_refused;
    let entry = entry(mapped, id, target(id, &action, map));
    if map.has_members {
        writes.upsert_member(id, is_known, Entity::Member { table, id, action: action.clone() });
    }
    if !map.has_members || !is_known {
        writes.upsert_hop(id, is_known, entry);
    }
    single.written = Some(action);
}

#[cfg(test)]
mod tests {
    use super::{GroupMember, fitted};

    #[test]
    fn weights_are_scaled_to_the_size_of_a_group() {
        let weights = |weights: &[u32], size| {
            let members =
                (1..).zip(weights).map(|(member, &weight)| GroupMember { member, weight });
            let fitted = fitted(members.collect(), size);
            fitted.iter().map(|member| member.weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(&[3, 1], 4), [3, 1]);
        assert_eq!(weights(&[256, 1], 16), [14, 1]);
        assert_eq!(weights(&[256; 17], 4096), [240; 17]);
        assert_eq!(weights(&[2, 2, 2], 2), [1, 1]);
    }
}
