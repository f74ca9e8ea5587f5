//! From the kernel's state to entries: the contents of the tables, and the necessary changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use wireyard_pipeline::ir::Program;

use super::hops::Hops;
use super::kernel::{Hop, Prefix};
use super::mapping::{Facts, Map, Mapped};
use super::model::{Goal, Model};
use super::writes::{self, Subject, Writes, Written};
use crate::control::{Control, Entity, Query, TableEntry, Update};
use crate::stats::LinuxReport;

/// Routes of one kind that have a notice each; more are counted only.
const NOTICES_MOST: usize = 8;

/// The contents of the tables for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Installed {
    /// Nothing yet.
    Nothing,
    Local,
    Kernel,
    Blackhole,
    Via(u32),
}

/// The contents of the tables of one program.
#[derive(Debug)]
pub(super) struct Plan {
    map: Map,
    hops: Hops,
    interfaces: BTreeMap<u32, Facts>,
    addresses: BTreeSet<IpAddr>,
    routes: HashMap<Prefix, (Installed, Vec<Hop>)>,
    /// Number of these, of IPv4 and IPv6.
    counts: [u64; 2],
    /// Prefixes without room, or refused.
    missing: BTreeSet<Prefix>,
    /// Prefixes for whose next hops no number or group was free: the kernel follows them.
    waiting: BTreeSet<Prefix>,
    /// Number of missing prefixes and next hops that notices have reported.
    reported_missing: usize,
    /// Routes that the kernel follows itself, since the tables cannot.
    of_kernel: HashMap<Prefix, &'static str>,
    failures: u64,
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl Plan {
    /// A plan for tables that it empties first.
    pub(super) fn new(map: Map, control: &Control) -> Plan {
        writes::empty(control, &map.program);
        Plan {
            map,
            hops: Hops::default(),
            interfaces: BTreeMap::new(),
            addresses: BTreeSet::new(),
            routes: HashMap::new(),
            counts: [0; 2],
            missing: BTreeSet::new(),
            waiting: BTreeSet::new(),
            reported_missing: 0,
            of_kernel: HashMap::new(),
            failures: 0,
        }
    }

    /// Another program has the same mappings, and may have kept tables of the one before. Next hops keep their numbers:
    /// kept routes lead to the same ones.
    pub(super) fn adopt(&mut self, map: Map, control: &Control) {
        let of_prefix = |prefix| Facts { prefix: Some(prefix), ..Facts::default() };
        if !holds(control, map.interfaces.as_ref(), self.interfaces.values().next().copied()) {
            self.interfaces.clear();
        }
        for of in 0..2 {
            let host = self.addresses.iter().find(|address| family(**address) == of);
            let host = host.map(|address| of_prefix(Prefix::host(*address)));
            if !holds(control, map.addresses[of].as_ref(), host) {
                self.addresses.retain(|address| family(*address) != of);
            }
            let route = self.routes.keys().filter(|prefix| family(prefix.address) == of).min();
            if !holds(control, map.routes[of].as_ref(), route.copied().map(of_prefix)) {
                let of_family = |prefix: &Prefix| family(prefix.address) == of;
                let lost = self.routes.iter_mut().filter(|(prefix, _)| of_family(prefix));
                lost.for_each(|(_, (installed, _))| *installed = Installed::Nothing);
                self.counts[of] = 0;
            }
        }
        let hop = self.hops.any().map(|number| Facts { number, ..Facts::default() });
        if !holds(control, map.neighbours.as_ref(), hop) {
            self.hops.forget_written();
        }
        self.map = map;
    }

    /// Whether this plan's next hops and entries can be those of another mapping.
    pub(super) fn fits(&self, map: &Map) -> bool {
        self.map.text == map.text
            && self.map.has_members == map.has_members
            && self.map.numbers <= map.numbers
            && self.map.groups <= map.groups
            && self.map.group_size <= map.group_size
    }

    /// True for the program whose tables it was written into.
    pub(super) fn is_of(&self, program: &Arc<Program>) -> bool {
        Arc::ptr_eq(&self.map.program, program)
    }

    /// Next hops that the kernel should probe, by link and address.
    pub(super) fn to_probe(&self, model: &Model) -> Vec<(u32, IpAddr)> {
        self.hops.to_probe(model)
    }

    /// Fills in the contents of the tables.
    pub(super) fn report(&self, report: &mut LinuxReport) {
        [report.routes4, report.routes6] = self.counts;
        report.next_hops = self.hops.singles() as u64;
        report.groups = self.hops.sets() as u64;
        report.routes_of_kernel = self.of_kernel.len() as u64;
        report.routes_missing = self.missing.len() as u64;
        report.writes_refused = self.failures;
    }

    /// Writes the changes of the model. Returns notices for the user.
    pub(super) fn flush(&mut self, model: &mut Model, control: &Control) -> Vec<String> {
        let dirty = std::mem::take(&mut model.dirty);
        let (mut writes, mut notices) = (Writes::default(), Vec::new());
        for link in &dirty.links {
            self.interface(*link, model, &mut writes);
            self.hops.touch_link(*link);
        }
        dirty.addresses.iter().for_each(|address| self.address(*address, model, &mut writes));
        dirty.hops.iter().for_each(|place| self.hops.touch(*place));
        let mut left: Vec<Vec<Hop>> = Vec::new();
        for prefix in dirty.prefixes {
            left.extend(self.route(prefix, model, &mut writes, &mut notices));
        }
        left.iter().for_each(|hops| self.hops.release(hops, &self.map));
        let has_freed = self.hops.collect(model, &self.map, &mut writes);
        let written = writes.done_by(control, &self.map.program);
        self.took(written, &mut notices);
        // Their numbers can be used from the next flush on: the old entries are removed last in this one.
        if has_freed {
            model.dirty.prefixes.append(&mut self.waiting);
        }
        notices
    }

    /// Retries prefixes without room, and next hops that were refused.
    pub(super) fn retry(&mut self, model: &mut Model, most: usize) {
        model.dirty.prefixes.extend(self.missing.iter().take(most));
        model.dirty.hops.extend(self.hops.refused());
    }

    fn took(&mut self, written: Written, notices: &mut Vec<String>) {
        self.failures += written.failures;
        let count = written.failures;
        for subject in written.refused {
            let prefix = match subject {
                Subject::Route(prefix) => prefix,
                Subject::Hop(number) => {
                    self.hops.refuse(number);
                    continue;
                }
                Subject::Other => continue,
            };
            if let Some((_, hops)) = self.routes.remove(&prefix) {
                self.counts[family(prefix.address)] -= 1;
                self.hops.release(&hops, &self.map);
            }
            self.missing.insert(prefix);
        }
        // Those that are retried have been reported.
        let missing = self.missing.len() + self.hops.refused_count();
        let is_new = missing > self.reported_missing || missing == 0;
        self.reported_missing = missing;
        if let Some(why) = written.why.filter(|_| is_new) {
            notices.push(format!(
                "{count} of the kernel's entries were refused; routes and next hops among them are tried again: {why}"
            ));
        }
    }

    fn interface(&mut self, index: u32, model: &Model, writes: &mut Writes) {
        let Some(mapped) = &self.map.interfaces else { return };
        let link = model.link(index).filter(|link| link.port.is_some());
        let is_up = link.is_some_and(|link| link.up);
        let role = if is_up { "action" } else { "down" };
        let link = link.filter(|_| is_up || mapped.has(role));
        let wanted = link.map(|link| Facts {
            port: link.port.unwrap_or_default(),
            mac: link.mac,
            mtu: link.mtu,
            ..Facts::default()
        });
        let before = self.interfaces.remove(&index);
        let key = |facts: &Facts| mapped.key(facts);
        if let (Some(old), new) = (&before, &wanted)
            && new.as_ref().map(key) != Some(key(old))
        {
            writes.entry(Update::Delete(entity(mapped, "action", old)), Subject::Other);
        }
        if let Some(new) = wanted {
            let is_known = before.is_some_and(|old| key(&old) == key(&new));
            let entity = entity(mapped, role, &new);
            let update = if is_known { Update::Modify(entity) } else { Update::Insert(entity) };
            writes.entry(update, Subject::Other);
            self.interfaces.insert(index, new);
        }
    }

    fn address(&mut self, address: IpAddr, model: &Model, writes: &mut Writes) {
        let of = family(address);
        let Some(mapped) = &self.map.addresses[of] else { return };
        if self.map.locals_are_routes(of) {
            return;
        }
        let facts = Facts { prefix: Some(Prefix::host(address)), ..Facts::default() };
        let entity = entity(mapped, "action", &facts);
        match model.is_address(address) {
            true if self.addresses.insert(address) => {
                writes.entry(Update::Insert(entity), Subject::Other);
            }
            false if self.addresses.remove(&address) => {
                writes.entry(Update::Delete(entity), Subject::Other);
            }
            _ => {}
        }
    }

    /// Writes one prefix into the table; returns its previous next hops.
    fn route(
        &mut self,
        prefix: Prefix,
        model: &Model,
        writes: &mut Writes,
        notices: &mut Vec<String>,
    ) -> Option<Vec<Hop>> {
        let of = family(prefix.address);
        self.map.routes[of].as_ref()?;
        self.missing.remove(&prefix);
        self.waiting.remove(&prefix);
        let way = model.way_of(prefix);
        let mut why = way.as_ref().and_then(|(_, why)| *why);
        let wanted = way.and_then(|(goal, _)| self.installed(goal, prefix, &mut why));
        match why {
            Some(why) => {
                let is_new = self.of_kernel.insert(prefix, why).is_none();
                notices.extend(of_kernel(prefix, why, self.of_kernel.len()).filter(|_| is_new));
            }
            None => _ = self.of_kernel.remove(&prefix),
        }
        let mapped = self.map.routes[of].as_ref()?;
        let before = self.routes.remove(&prefix);
        let is_known = before.as_ref().is_some_and(|(old, _)| *old != Installed::Nothing);
        let (old, hops) = before.map_or((None, None), |(old, hops)| (Some(old), Some(hops)));
        match &wanted {
            Some((new, _)) if old.as_ref() != Some(new) => {
                let entity = self.entity_of(mapped, prefix, new);
                let update = if is_known { Update::Modify(entity) } else { Update::Insert(entity) };
                writes.entry(update, Subject::Route(prefix));
            }
            None if is_known => {
                let facts = Facts { prefix: Some(prefix), ..Facts::default() };
                writes.entry(Update::Delete(entity(mapped, "kernel", &facts)), Subject::Other);
            }
            _ => {}
        }
        self.counts[of] = self.counts[of] + u64::from(wanted.is_some()) - u64::from(is_known);
        self.routes.extend(wanted.map(|wanted| (prefix, wanted)));
        hops.filter(|hops| !hops.is_empty())
    }

    /// The entry for the table; its next hops get one more user.
    fn installed(
        &mut self,
        goal: Goal,
        prefix: Prefix,
        why: &mut Option<&'static str>,
    ) -> Option<(Installed, Vec<Hop>)> {
        Some(match goal {
            Goal::Local if self.map.locals_are_routes(family(prefix.address)) => {
                (Installed::Local, Vec::new())
            }
            Goal::Local => return None,
            Goal::Kernel => (Installed::Kernel, Vec::new()),
            Goal::Blackhole => (Installed::Blackhole, Vec::new()),
            Goal::Hops(hops) => match self.hops.acquire(&hops, &self.map) {
                Ok(number) => (Installed::Via(number), hops),
                Err(full) => {
                    *why = Some(full);
                    self.waiting.insert(prefix);
                    (Installed::Kernel, Vec::new())
                }
            },
        })
    }

    fn entity_of(&self, mapped: &Mapped, prefix: Prefix, what: &Installed) -> Entity {
        let mut facts = Facts { prefix: Some(prefix), ..Facts::default() };
        match what {
            Installed::Via(number) => {
                facts.number = *number;
                entity(mapped, "action", &facts)
            }
            Installed::Blackhole if mapped.call("blackhole", &facts).is_some() => {
                entity(mapped, "blackhole", &facts)
            }
            Installed::Local => {
                let mut local = entity(mapped, "kernel", &facts);
                let addresses = self.map.addresses[family(prefix.address)].as_ref();
                let call = addresses.and_then(|addresses| addresses.call("action", &facts));
                if let (Entity::TableEntry(entry), Some(call)) = (&mut local, call) {
                    entry.target = crate::control::Target::Action(call);
                }
                local
            }
            _ => entity(mapped, "kernel", &facts),
        }
    }
}

/// Whether a table has the entry for these facts, which was written before its program was replaced.
fn holds(control: &Control, mapped: Option<&Mapped>, facts: Option<Facts>) -> bool {
    let (Some(mapped), Some(facts)) = (mapped, facts) else { return false };
    control.read(&Query::Entry(mapped.key(&facts))).is_ok_and(|found| !found.is_empty())
}

/// The notice about a route that the kernel follows itself: only for the first ones.
fn of_kernel(prefix: Prefix, why: &str, count: usize) -> Option<String> {
    let text = format!("the kernel forwards {prefix} itself: {why}");
    match count {
        0..NOTICES_MOST => Some(text),
        NOTICES_MOST => Some(format!("{text}; more such routes are counted (routes_of_kernel)")),
        _ => None,
    }
}

/// The entry of a role.
fn entity(mapped: &Mapped, role: &str, facts: &Facts) -> Entity {
    let key = mapped.key(facts);
    let call = mapped.call(role, facts).unwrap_or_else(|| wireyard_pipeline::ir::ActionCall {
        action: Default::default(),
        args: Vec::new(),
    });
    let mut entry = TableEntry::new(key.table, Vec::new(), call);
    entry.key = key;
    Entity::TableEntry(entry)
}

#[cfg(test)]
mod tests;
