//! What happens to the devices of a seed: control operations, links and ports that come and go, pauses of hosts.

use std::collections::BTreeMap;

use wireyard_switch::control::{Entity, Keep, Mode, TableEntry, Update};
use wireyard_switch::core::Statistics;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::Loaded;
use wireyard_tables::Match;
use wireyard_tables::time::Deadline;

use super::host::Host;
use super::model::Outage;
use super::network::{LEFT, Network, text};
use super::planted::{Defect, Planted};
use super::program::{self, MARKS};
use crate::differ::random::Random;
use crate::wires::open_line;

/// The longest pause that a host asks for.
const PAUSE_NS: usize = 20_000;
/// How often a host gets its link or port back with an operation.
const REPAIRS_PERCENT: usize = 60;
/// How often a change of entries has an entry at its end that is there already.
const REFUSED_PERCENT: usize = 10;
/// Changes of entries before those that the defect leaves out.
const CHANGES_DONE: u64 = 8;

impl Network {
    /// Does something to a device that a user, a cable or a host could do.
    ///
    /// # Errors
    /// It was refused, or an account does not add up.
    pub fn operate(&mut self, random: &mut Random) -> Result<(), String> {
        let device = random.below(self.controls.len());
        let host = random.below(self.hosts.len());
        if random.chance(REPAIRS_PERCENT) {
            self.repair()?;
        }
        match random.below(14) {
            0..5 => self.change(random, device, 1)?,
            5 | 6 => self.change(random, device, 4)?,
            7 => self.swap(device)?,
            8 => self.unplug(host),
            9 | 10 => self.replug(host)?,
            11 => {
                let ns = random.below(PAUSE_NS) as u64;
                self.hosts[host].ask(self.fabric.now, ns);
            }
            12 => self.hold(host, self.hosts[host].held_since.is_none()),
            _ => _ = Statistics::of(&mut self.fabric.cores[device]),
        }
        self.collect()?;
        self.audit()
    }

    /// Changes entries of a device, in one batch.
    fn change(&mut self, random: &mut Random, device: usize, most: usize) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for _ in 0..=random.below(most) {
            let dst = random.below(self.hosts.len()) as u16;
            let there = self.hosts.iter().filter(|host| host.device == device);
            let ports: Vec<u16> = there.map(|host| host.port).collect();
            let is_home = self.hosts[usize::from(dst)].device == device;
            let port = match random.below(10) {
                0 => None,
                1..5 if is_home => Some(random.pick(&ports)),
                _ => Some(self.port_to(device, dst)),
            };
            wanted.insert(dst, port);
        }
        let deletes = random.chance(50);
        let wanted: Vec<_> = wanted.into_iter().collect();
        if random.chance(REFUSED_PERCENT) {
            return self.write_wrongly(device, &wanted, deletes);
        }
        self.write(device, &wanted, deletes)
    }

    /// Writes entries; where nothing is to be forwarded, an entry that says so, or none.
    pub(super) fn write(
        &mut self,
        device: usize,
        wanted: &[(u16, Option<u16>)],
        deletes: bool,
    ) -> Result<(), String> {
        let mut updates = Vec::new();
        for &(dst, port) in wanted {
            let version = self.model.version();
            updates.extend(self.update(device, (dst, port, version), deletes)?);
            self.model.set(self.fabric.now, device, dst, port, version);
            match port.is_none() && deletes {
                true => self.entries.remove(&(device, dst)),
                false => self.entries.insert((device, dst)),
            };
        }
        self.changes += 1;
        let modifies = updates.iter().all(|update| matches!(update, Update::Modify(_)));
        let is_lost = modifies && self.changes > CHANGES_DONE;
        if updates.is_empty() || (self.defect == Some(Defect::LostWrite) && is_lost) {
            return Ok(());
        }
        self.controls[device].write(&updates, Mode::Atomic).map_err(text)
    }

    /// What makes an entry of this version of the one that is there, if there is anything to do.
    fn update(
        &self,
        device: usize,
        (dst, port, version): (u16, Option<u16>, u16),
        deletes: bool,
    ) -> Result<Option<Update>, String> {
        let control = &self.controls[device];
        let table = control.table("routes").map_err(text)?;
        let call = match port {
            Some(port) => control.call("out", &[port.into(), version.into()]),
            None => control.call("stop", &[]),
        };
        let key = vec![Match::Exact(dst.into())];
        let entry = Entity::TableEntry(TableEntry::new(table, key, call.map_err(text)?));
        Ok(match (self.entries.contains(&(device, dst)), port.is_none() && deletes) {
            (true, true) => Some(Update::Delete(entry)),
            (true, false) => Some(Update::Modify(entry)),
            (false, true) => None,
            (false, false) => Some(Update::Insert(entry)),
        })
    }

    /// Writes entries, and at the end of the batch one that is there already: all of it is refused, so the model stays as it is.
    fn write_wrongly(
        &mut self,
        device: usize,
        wanted: &[(u16, Option<u16>)],
        deletes: bool,
    ) -> Result<(), String> {
        let is_other = |dst: &u16| wanted.iter().all(|(other, _)| other != dst);
        let there = self.entries.range((device, 0)..=(device, u16::MAX)).map(|(_, dst)| *dst);
        let Some(there) = there.into_iter().find(is_other) else { return Ok(()) };
        let mut updates = Vec::new();
        for &(dst, port) in wanted {
            let version = self.model.version();
            updates.extend(self.update(device, (dst, port, version), deletes)?);
        }
        let control = &self.controls[device];
        if self.defect == Some(Defect::Partial) && !updates.is_empty() {
            control.write(&updates, Mode::Atomic).map_err(text)?;
        }
        let version = self.model.version();
        match self.update(device, (there, Some(LEFT), version), false)? {
            Some(Update::Modify(entry)) => updates.push(Update::Insert(entry)),
            other => return Err(format!("an entry that is there is changed by {other:?}")),
        }
        match self.controls[device].write(&updates, Mode::Atomic) {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("device {device} took an entry twice: {updates:?}")),
        }
    }

    /// Replaces the program of a device.
    fn swap(&mut self, device: usize) -> Result<(), String> {
        let before = self.marks[device];
        let mark = before % MARKS + 1;
        let egress = if self.defect == Some(Defect::HalfSwap) { before } else { mark };
        let keeps_class = self.defect != Some(Defect::Unclassed);
        let loaded: Loaded = program::loaded(device, (mark, egress), keeps_class)?;
        self.controls[device].swap(&loaded, Keep::WhatFits).map_err(text)?;
        self.marks[device] = mark;
        Ok(())
    }

    /// Takes the link of a host down, or up again.
    fn unplug(&mut self, number: usize) {
        let now = self.fabric.now;
        let host = &mut self.hosts[number];
        if host.is_removed {
            return;
        }
        host.is_down = !host.is_down;
        let what = if host.is_down { "link down" } else { "link up" };
        self.happened.push((now, number, what));
        host.far.set_down(host.is_down);
        let (device, port) = (host.device, host.port);
        match host.is_down {
            true => {
                self.model.cut(&host.cut());
                self.model.fails(now, device, port, Outage::Down);
            }
            false => {
                host.pauses_go_on(now);
                self.model.recovers(now, device, port);
            }
        }
        self.fabric.cores[host.device].check_links(now);
    }

    /// One host that has no link or no port gets it back.
    fn repair(&mut self) -> Result<(), String> {
        let is_cut = |host: &Host| host.is_down || host.is_removed;
        match self.hosts.iter().position(is_cut) {
            Some(host) if self.hosts[host].is_removed => self.add_again(host)?,
            Some(host) => self.unplug(host),
            None => {}
        }
        Ok(())
    }

    /// Removes the port of a host, or adds it again.
    fn replug(&mut self, number: usize) -> Result<(), String> {
        let now = self.fabric.now;
        let host = &mut self.hosts[number];
        if host.is_removed {
            return self.add_again(number);
        }
        host.is_removed = true;
        self.happened.push((now, number, "port removed"));
        self.model.cut(&host.cut());
        self.model.fails(now, host.device, host.port, Outage::Removed);
        let error = self.fabric.cores[host.device].remove_port(now, PortNumber(host.port));
        error.map_err(text)?.map_or(Ok(()), |error| Err(error.to_string()))
    }

    fn add_again(&mut self, number: usize) -> Result<(), String> {
        self.collect()?;
        let (now, defect) = (self.fabric.now, self.defect);
        let host = &mut self.hosts[number];
        let (line, far) = open_line();
        let core = &mut self.fabric.cores[host.device];
        core.add_port(PortNumber(host.port), Box::new(Planted::new(line, defect))).map_err(text)?;
        self.happened.push((now, number, "port added"));
        host.far = far;
        (host.is_removed, host.is_down, host.held_since) = (false, false, None);
        host.wire_free_at = now;
        self.model.recovers(now, host.device, host.port);
        core.block(now, PortNumber(host.port), false);
        host.pauses_go_on(now);
        Ok(())
    }

    fn hold(&mut self, number: usize, held: bool) {
        let now = self.fabric.now;
        let host = &mut self.hosts[number];
        if host.is_removed {
            return;
        }
        let was_held = host.held_since.is_some();
        if was_held != held {
            self.happened.push((now, number, if held { "held" } else { "released" }));
            host.held_since = held.then_some(now);
        }
        match held {
            true => host.pauses_stop(),
            false if was_held => host.pauses_go_on(now),
            false => {}
        }
        let blocks = held && self.defect != Some(Defect::Unheld);
        self.fabric.cores[host.device].block(now, PortNumber(host.port), blocks);
    }

    /// Nobody sends or pauses any more, all ports are there, all links are up.
    ///
    /// # Errors
    /// A port cannot be added again.
    pub fn calm(&mut self) -> Result<(), String> {
        let now = self.fabric.now;
        for number in 0..self.hosts.len() {
            if self.hosts[number].is_removed {
                self.add_again(number)?;
            }
            self.hold(number, false);
            let host = &mut self.hosts[number];
            host.next_at = Deadline::NEVER;
            host.is_down = false;
            self.model.recovers(now, host.device, host.port);
            host.far.set_down(false);
            host.ask(now, 0);
        }
        self.fabric.cores.iter_mut().for_each(|core| core.check_links(now));
        Ok(())
    }
}
