//! Members and groups of tables with a selector.

use super::{Purpose, Resolver};
use crate::ast::entries::*;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::Table;
use std::collections::BTreeSet;
use wireyard_tables::selector::FIRST_OWNED_ID;
use wireyard_tables::{Entry, GroupMember as Member, ProfileId, Target, Update};

impl Resolver<'_> {
    pub(super) fn selectors(&mut self, file: &EntriesFile) {
        for (name, members) in &file.members {
            let Some((id, table)) = self.table(name) else { continue };
            let Some(profile) = self.profile(id, table, name) else { continue };
            let most = table.selector.as_ref().map_or(0, |selector| selector.max_members as usize);
            self.fits(members.len(), most, name, "members");
            for (number, call) in members {
                let what = ("member", "all members");
                let Some(number32) = self.id(number, u32::MAX.into(), what) else { continue };
                if !self.members.entry(id).or_default().insert(number.value) {
                    self.twice(number, "member");
                    continue;
                }
                self.note_owned(id, number, false);
                let Some(call) = self.call(table, call, false) else { continue };
                self.found.updates.push(Update::InsertMember(profile, number32, call));
            }
        }
        for (name, groups) in &file.groups {
            let Some((id, table)) = self.table(name) else { continue };
            let Some(profile) = self.profile(id, table, name) else { continue };
            let most = table.selector.as_ref().map_or(0, |selector| selector.max_groups as usize);
            self.fits(groups.len(), most, name, "groups");
            for (number, members) in groups {
                let what = ("group", "all groups");
                let Some(number32) = self.id(number, u32::MAX.into(), what) else { continue };
                if !self.groups.entry(id).or_default().insert(number.value) {
                    self.twice(number, "group");
                    continue;
                }
                self.note_owned(id, number, true);
                if members.is_empty() && self.purpose == Purpose::Fill {
                    let text =
                        format!("group {} of table `{}` has no members", number.value, name.value);
                    let why = "a packet that chooses it takes the table's default";
                    self.cx.report.warning(codes::EMPTY_GROUP, number.span, text).note(why);
                }
                let Some(members) = self.group_members(id, members) else { continue };
                self.found.updates.push(Update::InsertGroup(profile, number32, members));
            }
        }
    }

    fn note_owned(&mut self, id: TableId, number: &Sp<u64>, is_group: bool) {
        if number.value >= FIRST_OWNED_ID.into() && self.purpose != Purpose::Remove {
            self.owned.push((id, number.clone(), is_group));
        }
    }

    /// Refuses numbers that belong to entries with action sets, except in what an entry with such a set needs: its
    /// group, and the members behind it. Nobody could reach them, and the profile would take no others.
    pub(super) fn owned(&mut self) {
        let owned = std::mem::take(&mut self.owned);
        if owned.is_empty() {
            return;
        }
        let mut groups = BTreeSet::new();
        for update in &self.found.updates {
            if let Some((table, Entry { target: Target::Group(group), .. })) = update.entry()
                && *group >= FIRST_OWNED_ID
            {
                groups.insert((table.0, u64::from(*group)));
            }
        }
        for (table, number, is_group) in owned {
            let (first, here) = ((table.0, 0), (table.0, number.value));
            let is_needed = match is_group {
                true => groups.contains(&here),
                false => groups.range(first..here).next().is_some(),
            };
            if !is_needed {
                let text = format!(
                    "{}: numbers of members and groups are below {FIRST_OWNED_ID}; those above belong to entries with action sets",
                    number.value
                );
                self.cx.report.error(codes::ENTRY, number.span, text);
            }
        }
    }

    /// The profile of a table with a selector.
    pub(super) fn profile(&mut self, id: TableId, table: &Table, name: &Name) -> Option<ProfileId> {
        if table.selector.is_none() {
            let text = format!("table `{}` has no selector", table.name);
            self.cx
                .report
                .error(codes::SELECTOR, name.span, text)
                .help("members and groups belong to tables with `selector:`");
            return None;
        }
        Some(self.profile_of(id))
    }

    /// Profiles are numbered like the tables that have one.
    fn profile_of(&self, id: TableId) -> ProfileId {
        let before = self.program.tables.iter().take(id.index());
        ProfileId(before.filter(|table| table.selector.is_some()).count() as u32)
    }

    fn group_members(&mut self, id: TableId, members: &[GroupMember]) -> Option<Vec<Member>> {
        let known = self.members.remove(&id).unwrap_or_default();
        let list = self.listed_members(&known, members);
        self.members.insert(id, known);
        list
    }

    fn listed_members(
        &mut self,
        known: &BTreeSet<u64>,
        members: &[GroupMember],
    ) -> Option<Vec<Member>> {
        let mut list: Vec<Member> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut good = true;
        for member in members {
            let number = &member.member;
            if !known.contains(&number.value) && self.purpose == Purpose::Fill {
                let text = format!("there is no member {}", number.value);
                self.cx.report.error(codes::UNKNOWN, number.span, text);
                good = false;
                continue;
            }
            if !seen.insert(number.value) {
                self.twice(number, "member");
                good = false;
                continue;
            }
            if member.weight.value == 0 {
                let text = format!("member {} has the weight 0 and gets no packet", number.value);
                let help = "leave it out of the group, or give it 1 to 4096";
                self.cx.report.error(codes::ENTRY, member.weight.span, text).help(help);
                good = false;
                continue;
            }
            let weight = self.number(&member.weight, 4096);
            let id = self.number(number, u64::from(u32::MAX));
            let (Some(member), Some(weight)) = (id, weight) else { return None };
            list.push(Member { member, weight });
        }
        good.then_some(list)
    }
}
