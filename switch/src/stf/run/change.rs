//! Statements that change something: tables, value sets, registers, replication.
//!
//! They are resolved like an entries file, so a script accepts and refuses the same as a file.

use wireyard_pipeline::diag::Files;
use wireyard_pipeline::entries::Resolved;
use wireyard_pipeline::ids::RegisterId;
use wireyard_pipeline::ir::{CPU_PORT, Program};
use wireyard_tables::{BatchError, EntryError, TableId, Update};

use super::{Script, Stop};
use crate::ports::PortNumber;
use crate::replicate::{Group, Member, Members, Session};
use crate::stf::entry::{Known, Statement as Entries, did_you_mean};
use crate::stf::script::{EntryText, Statement, TestPort};

impl Script {
    /// Changes tables, value sets and registers, and then the device's objects; other statements are queries.
    pub(super) fn change(&mut self, statement: &Statement) -> Result<(), Stop> {
        let known = self.known()?;
        let start = self.line_start();
        let entries = || Entries::new(&self.bare, &known, &self.source, start);
        let resolved = match statement {
            Statement::Add(entry) => entries().one_entry(entry)?,
            Statement::SetDefault(table, action) => entries().default(table, action)?,
            Statement::Member(table, id, action) => entries().member(table, *id, action)?,
            Statement::Group(table, id, members) => entries().group(table, *id, members)?,
            Statement::ValueSet(name, values) => entries().value_set(name, values)?,
            Statement::MeterRates(name, index, rates) => entries().meter(name, *index, *rates)?,
            Statement::Register(name, index, cell, value) => {
                entries().register(name, *index, cell.as_deref(), *value)?
            }
            other => return self.change_device(other),
        };
        self.apply(resolved)
    }

    fn change_device(&mut self, statement: &Statement) -> Result<(), Stop> {
        match statement {
            Statement::Remove(entry) => self.remove(entry),
            Statement::RemoveAll => self.remove_all(),
            Statement::RegisterReset(name) => self.reset_register(name),
            Statement::RegisterRead(name, index) => {
                let size = self.program.registers[self.register_named(name)?].size;
                Ok(is_inside(name, *index, size)?)
            }
            Statement::MeterRead(name, index) => {
                let mut meters = self.program.meters.iter();
                let meter = meters.find(|meter| meter.name == *name);
                let meter = meter.ok_or_else(|| format!("there is no meter `{name}`"))?;
                Ok(is_inside(name, *index, meter.size)?)
            }
            Statement::MirrorRead(id) => match self.sandbox.core.replication.get().session(*id) {
                Some(_) => Ok(()),
                None => Err(format!("there is no mirror session {id}").into()),
            },
            Statement::GroupCreate(id, prune) => {
                self.groups.insert(*id, (*prune, Vec::new()));
                self.publish_group(*id)
            }
            Statement::NodeCreate(instance, ports) => {
                for port in ports.iter().filter(|port| port.0 != CPU_PORT) {
                    self.known_port(TestPort::Port(*port), "mc_node_create")?;
                }
                self.nodes.push((*instance, ports.clone()));
                Ok(())
            }
            Statement::NodeAssociate(group, node) => self.associate(*group, *node),
            Statement::Mirror(id, port) => {
                if *port != PortNumber(CPU_PORT) {
                    self.known_port(TestPort::Port(*port), "mirroring_add")?;
                }
                // Of P4 a copy for a port has no replication id, as on bmv2.
                let instance = if self.program.origin.is_some() { 0 } else { *id };
                self.mirror(*id, vec![Member { port: *port, instance }])
            }
            Statement::MirrorGroup(id, group) => match self.groups.get(group) {
                Some((_, members)) => self.mirror(*id, members.clone()),
                None => Err(format!("there is no group {group}").into()),
            },
            other => self.check(other),
        }
    }

    fn register_named(&self, name: &str) -> Result<RegisterId, Stop> {
        let found = self.program.registers.entries().find(|(_, known)| known.name == name);
        let known = || self.program.registers.iter().map(|register| register.name.as_str());
        Ok(found
            .map(|(id, _)| id)
            .ok_or_else(|| did_you_mean(format!("there is no register `{name}`"), name, known()))?)
    }

    /// Zeros in all cells.
    fn reset_register(&mut self, name: &str) -> Result<(), Stop> {
        let id = self.register_named(name)?;
        self.sandbox.core.before_sleep();
        if let Some(array) = self.generation.state.register(id) {
            for index in 0..u64::from(array.size()) {
                for cell in 0..array.cells() {
                    array.store(index, cell, 0);
                }
            }
        }
        Ok(())
    }

    /// The present members and groups of selectors.
    fn known(&self) -> Result<Known, Stop> {
        let tables = self.generation.state.tables();
        let mut known = Known::new();
        let snapshot = tables.snapshot();
        for (id, table) in self.program.tables.entries() {
            let view = snapshot.table(TableId(id.0));
            let Some(profile) = view.and_then(|view| view.profile()) else { continue };
            let ids = |e: EntryError| e.to_string();
            let members = tables.members(profile).map_err(ids)?.into_iter().map(|(id, _)| id);
            let groups = tables.groups(profile).map_err(ids)?.into_iter().map(|(id, _)| id);
            known.insert(table.name.clone(), (members.collect(), groups.collect()));
        }
        Ok(known)
    }

    fn apply(&mut self, resolved: Resolved) -> Result<(), Stop> {
        self.batch(&resolved.updates)?;
        let rest = Resolved { updates: Vec::new(), ..resolved };
        Ok(rest.apply(&self.generation.state).map_err(|error| error.to_string())?)
    }

    pub(super) fn one_entry(&self, entry: &EntryText) -> Result<Resolved, Stop> {
        let known = self.known()?;
        Ok(Entries::new(&self.bare, &known, &self.source, self.line_start()).one_entry(entry)?)
    }

    /// The first byte of the current line.
    fn line_start(&self) -> usize {
        self.lines.get(self.line.saturating_sub(1)).copied().unwrap_or(0)
    }

    fn remove(&mut self, entry: &EntryText) -> Result<(), Stop> {
        let resolved = self.one_entry(entry)?;
        let delete = |update: &Update| match update {
            Update::Insert(table, entry) => {
                Some(Update::Delete(*table, entry.matches.clone(), entry.priority))
            }
            _ => None,
        };
        let updates: Vec<Update> = resolved.updates.iter().filter_map(delete).collect();
        self.batch(&updates)
    }

    fn remove_all(&mut self) -> Result<(), Stop> {
        let tables = self.generation.state.tables();
        let mut updates = Vec::new();
        for (id, table) in self.program.tables.entries().filter(|(_, t)| !t.const_entries) {
            let id = TableId(id.0);
            let entries = tables.entries(id).map_err(|e| format!("{}: {e}", table.name))?;
            updates.extend(
                entries.into_iter().map(|(_, e)| Update::Delete(id, e.matches, e.priority)),
            );
        }
        self.batch(&updates)
    }

    fn batch(&mut self, updates: &[Update]) -> Result<(), Stop> {
        self.sandbox.core.before_sleep();
        let done = self.generation.state.tables().batch(updates, self.now);
        Ok(done.map(|_| ()).map_err(|BatchError { name, error, .. }| refused(&name, &error))?)
    }

    fn associate(&mut self, group: u16, node: usize) -> Result<(), Stop> {
        let (instance, ports) =
            self.nodes.get(node).cloned().ok_or(format!("there is no node {node}"))?;
        let (_, members) =
            self.groups.get_mut(&group).ok_or(format!("there is no group {group}"))?;
        members.extend(ports.into_iter().map(|port| Member { port, instance }));
        self.publish_group(group)
    }

    /// A mirror session with a copy for each of these.
    fn mirror(&mut self, id: u16, replicas: Vec<Member>) -> Result<(), Stop> {
        let session = Session { replicas, traffic_class: None, truncate_bytes: 0 };
        let changed = self.sandbox.core.replication.change(|all| all.set_session(id, session));
        Ok(changed.map_err(|error| error.to_string())?)
    }

    fn publish_group(&mut self, id: u16) -> Result<(), Stop> {
        let Some((prune_ingress, members)) = self.groups.get(&id).cloned() else { return Ok(()) };
        let group = Group { members: Members::List(members), prune_ingress };
        let changed = self.sandbox.core.replication.change(|all| all.set_group(id, group));
        Ok(changed.map_err(|error| error.to_string())?)
    }
}

/// Checks that an array of this name has an entry of this index.
fn is_inside(name: &str, index: u64, size: u32) -> Result<(), String> {
    match index < u64::from(size) {
        true => Ok(()),
        false => Err(format!("{name} has {size} entries, not one of index {index}")),
    }
}

/// A table's refusal of an entry, in the terms of a script.
pub(super) fn refused(table: &str, error: &EntryError) -> String {
    match error {
        EntryError::NotFound => format!("{table}: there is no such entry"),
        error => format!("{table}: {error}"),
    }
}

/// A program without entries of its own, all of whose tables can be queried.
pub(super) fn bare(program: &Program) -> Program {
    let mut bare = program.clone();
    // Places of a statement are in its script.
    bare.files = Files::new();
    for table in bare.tables.iter_mut() {
        table.entries.clear();
        table.const_entries = false;
    }
    bare
}
