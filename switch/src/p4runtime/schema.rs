//! A program by the ids of its P4Info.

use std::sync::Arc;

use wireyard_pipeline::ids::{
    ActionId, CounterId, DigestId, HeaderId, Id, MeterId, RegisterId, TableId, ValueSetId,
};
use wireyard_pipeline::ir::{ControllerHeader, Program, Table};

use super::info::{self, ById, Ids};
use super::proto::p4::config::v1::P4Info;
use crate::control::ControlError;

/// A program and the ids that a controller uses for it.
#[derive(Debug)]
pub struct Schema {
    /// The program.
    pub program: Arc<Program>,
    /// What the controller sees.
    pub info: P4Info,
    /// Ids in the order of declaration.
    pub ids: Ids,
    tables: ById,
    actions: ById,
    value_sets: ById,
    profiles: ById,
    counters: ById,
    meters: ById,
    registers: ById,
    digests: ById,
}

type Result<T> = std::result::Result<T, ControlError>;

impl Schema {
    /// Of a program.
    pub fn of(program: Arc<Program>) -> Schema {
        let (ids, info) = (Ids::of(&program), info::p4info(&program));
        Schema {
            tables: ById::of(&ids.tables),
            actions: ById::of(&ids.actions),
            value_sets: ById::of(&ids.value_sets),
            profiles: ById::of(&ids.profiles),
            counters: ById::of(&ids.counters),
            meters: ById::of(&ids.meters),
            registers: ById::of(&ids.registers),
            digests: ById::of(&ids.digests),
            program,
            info,
            ids,
        }
    }

    fn find<I: Id>(&self, objects: &ById, id: u32, what: &str) -> Result<I> {
        let found = objects.get(id).map(I::new);
        found.ok_or_else(|| {
            let program = &self.program.name;
            ControlError::NotFound(format!("program {program} has no {what} with id {id:#010x}"))
        })
    }

    /// A table.
    ///
    /// # Errors
    /// [`ControlError::NotFound`], as of the functions below.
    pub fn table(&self, id: u32) -> Result<TableId> {
        self.find(&self.tables, id, "table")
    }

    /// The declaration of a table.
    pub fn declared(&self, table: TableId) -> &Table {
        &self.program.tables[table]
    }

    /// An action; one that is not there is an invalid argument, as the specification has it.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`].
    pub fn action(&self, id: u32) -> Result<ActionId> {
        let found = self.find(&self.actions, id, "action");
        found.map_err(|error| ControlError::InvalidArgument(error.to_string()))
    }

    /// A value set.
    pub fn value_set(&self, id: u32) -> Result<ValueSetId> {
        self.find(&self.value_sets, id, "value set")
    }

    /// The table with this action profile.
    pub fn profile(&self, id: u32) -> Result<TableId> {
        self.find(&self.profiles, id, "action profile")
    }

    /// A counter array.
    pub fn counter(&self, id: u32) -> Result<CounterId> {
        self.find(&self.counters, id, "counter")
    }

    /// A meter array.
    pub fn meter(&self, id: u32) -> Result<MeterId> {
        self.find(&self.meters, id, "meter")
    }

    /// A register.
    pub fn register(&self, id: u32) -> Result<RegisterId> {
        self.find(&self.registers, id, "register")
    }

    /// A digest.
    pub fn digest(&self, id: u32) -> Result<DigestId> {
        self.find(&self.digests, id, "digest")
    }

    /// The header that packets to, or from, the control plane begin with.
    pub fn controller(&self, controller: ControllerHeader) -> Option<HeaderId> {
        let mut headers = self.program.headers.entries();
        headers.find(|(_, header)| header.controller == Some(controller)).map(|(id, _)| id)
    }
}

/// `None` where an id is 0, which names every object of a kind.
///
/// # Errors
/// Those of `find`.
pub fn optional<T>(id: u32, find: impl FnOnce(u32) -> Result<T>) -> Result<Option<T>> {
    if id == 0 { Ok(None) } else { find(id).map(Some) }
}
