//! A program, with lookup by the ids of its P4Info.

use std::sync::Arc;

use wireyard_pipeline::ids::{
    ActionId, CounterId, DigestId, HeaderId, Id, MeterId, RegisterId, TableId, ValueSetId,
};
use wireyard_pipeline::ir::{ControllerHeader, Program, Table};
use wireyard_pipeline::state::group_size_max;

use super::forms::Forms;
use super::info::{self, ById, Ids};
use super::proto::p4::config::v1::{ActionProfile, P4Info};
use crate::control::{ControlError, invalid};

/// A program and its ids for controllers.
#[derive(Debug)]
pub struct Schema {
    /// The program.
    pub program: Arc<Program>,
    /// The P4Info for controllers.
    pub info: P4Info,
    /// Ids in the order of declaration.
    pub ids: Ids,
    /// Numbers and types of fields and data.
    pub forms: Forms,
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
    /// The schema of a program.
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
            forms: Forms::of(&program),
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

    /// A table by id.
    ///
    /// # Errors
    /// [`ControlError::NotFound`], as for the functions below.
    pub fn table(&self, id: u32) -> Result<TableId> {
        self.find(&self.tables, id, "table")
    }

    /// The declaration of a table.
    pub fn declared(&self, table: TableId) -> &Table {
        &self.program.tables[table]
    }

    /// An action by id; one that does not exist is an invalid argument by the specification.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`].
    pub fn action(&self, id: u32) -> Result<ActionId> {
        let found = self.find(&self.actions, id, "action");
        found.map_err(ControlError::invalid)
    }

    /// An action of a table: one of P4 may correspond to several of the program. One that the table does not list is
    /// refused later.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`].
    pub fn action_of(&self, table: TableId, id: u32) -> Result<ActionId> {
        let mut listed = self.declared(table).actions.iter();
        let found = listed.find(|action| self.ids.actions[action.index()] == id);
        found.copied().filter(|_| id != 0).map_or_else(|| self.action(id), Ok)
    }

    /// Checks that an action may be in an entry of a table (or, with `default`, be its default action).
    ///
    /// # Errors
    /// [`ControlError::PermissionDenied`].
    pub fn check_scope(&self, table: TableId, action: u32, default: bool) -> Result<()> {
        let found = self.action_of(table, action).ok();
        let found = found.and_then(|id| self.program.actions.get(id));
        let (Some(origin), Some(found)) = (&self.program.origin, found) else { return Ok(()) };
        let name = &self.declared(table).name;
        let (wrong, place) = match default {
            true => ("@tableonly", "entries, not the default"),
            false => ("@defaultonly", "the default, not entries"),
        };
        match origin.is_annotated(name, &found.name, wrong) {
            true => Err(ControlError::PermissionDenied(format!(
                "table {name}: action {action:#010x} is for {place}"
            ))),
            false => Ok(()),
        }
    }

    /// A value set by id.
    pub fn value_set(&self, id: u32) -> Result<ValueSetId> {
        self.find(&self.value_sets, id, "value set")
    }

    /// The table with this action profile.
    ///
    /// # Errors
    /// Also [`ControlError::Unimplemented`]: a profile of several tables, or of one with entries of the program.
    pub fn profile(&self, id: u32) -> Result<TableId> {
        let tables = self.ids.profiles.iter().filter(|one| **one == id && id != 0).count();
        let preamble = |one: &super::proto::p4::config::v1::ActionProfile| one.preamble.clone();
        let mut listed = self.info.action_profiles.iter().filter_map(preamble);
        let name = listed.find(|preamble| preamble.id == id).map(|preamble| preamble.name);
        match (tables, name) {
            (0, Some(name)) => Err(ControlError::Unimplemented(format!(
                "action profile {name} is of no table, of several, or of one with entries of the program: entries have their actions themselves"
            ))),
            (2.., name) => Err(ControlError::Unimplemented(format!(
                "action profile {} belongs to {tables} tables: a profile of this switch belongs to one",
                name.unwrap_or_default()
            ))),
            _ => self.find(&self.profiles, id, "action profile"),
        }
    }

    fn action_profile(&self, table: TableId) -> Option<&ActionProfile> {
        let id = self.ids.profiles[table.index()];
        let has_id =
            |one: &&ActionProfile| one.preamble.as_ref().is_some_and(|preamble| preamble.id == id);
        self.info.action_profiles.iter().find(has_id)
    }

    /// True if the size of a group is the number of its members, not the sum of their weights.
    pub fn counts_members(&self, table: TableId) -> bool {
        use super::proto::p4::config::v1::action_profile::SelectorSizeSemantics as Counted;
        let counted = self.action_profile(table).map(|profile| &profile.selector_size_semantics);
        matches!(counted, Some(Some(Counted::SumOfMembers(_))))
    }

    /// Checks the number of members of a group or action set, with these weights, against the limits of P4Info.
    /// `max_size` is the group's own limit, or 0.
    ///
    /// # Errors
    /// [`ControlError::ResourceExhausted`]; [`ControlError::InvalidArgument`] if the weight of one of them or
    /// `max_size` is the cause.
    pub fn check_group(&self, table: TableId, weights: &[u32], max_size: u32) -> Result<()> {
        use super::proto::p4::config::v1::action_profile::SelectorSizeSemantics as Counted;
        let Some(profile) = self.action_profile(table) else { return Ok(()) };
        let of = &self.declared(table).name;
        let (size, what) = match &profile.selector_size_semantics {
            Some(Counted::SumOfMembers(bound)) => {
                let most = u32::try_from(bound.max_member_weight).unwrap_or(0);
                let above = weights.iter().find(|weight| most > 0 && **weight > most);
                if let Some(weight) = above {
                    return invalid(format!(
                        "table {of}: a weight is {weight}, and {most} at most"
                    ));
                }
                (weights.len() as u64, "members")
            }
            _ => (weights.iter().map(|weight| u64::from(*weight)).sum(), "weights together"),
        };
        let most = u32::try_from(profile.max_group_size).unwrap_or(0);
        if most > 0 && max_size > most {
            return invalid(format!("table {of}: max_size is {max_size}, and {most} at most"));
        }
        let held = self.declared(table).selector.as_ref().map_or(0, group_size_max);
        if max_size > held {
            return Err(ControlError::ResourceExhausted(format!(
                "table {of}: max_size is {max_size}, and a group holds {held} at most"
            )));
        }
        if max_size > 0 && size > max_size.into() {
            return invalid(format!(
                "table {of}: a group has {size} {what} and a max_size of {max_size}"
            ));
        }
        match most > 0 && size > most.into() {
            true => Err(ControlError::ResourceExhausted(format!(
                "table {of}: a group has {size} {what}, and {most} at most (max_group_size)"
            ))),
            false => Ok(()),
        }
    }

    /// Checks that an action profile has groups.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`]: it has members only.
    pub fn check_groups(&self, table: TableId) -> Result<()> {
        match self.action_profile(table) {
            Some(profile) if !profile.with_selector => invalid(format!(
                "the action profile of table {} has no selector, so it has members and no groups",
                self.declared(table).name
            )),
            _ => Ok(()),
        }
    }

    /// A counter array by id.
    pub fn counter(&self, id: u32) -> Result<CounterId> {
        self.find(&self.counters, id, "counter")
    }

    /// A meter array by id.
    pub fn meter(&self, id: u32) -> Result<MeterId> {
        self.find(&self.meters, id, "meter")
    }

    /// A register by id.
    pub fn register(&self, id: u32) -> Result<RegisterId> {
        self.find(&self.registers, id, "register")
    }

    /// A digest by id; one of P4 corresponds to several of the program if several places send it.
    pub fn digests(&self, id: u32) -> Result<Vec<DigestId>> {
        self.find::<DigestId>(&self.digests, id, "digest")?;
        let all = self.ids.digests.iter().enumerate().filter(|(_, one)| **one == id);
        Ok(all.map(|(at, _)| DigestId::new(at)).collect())
    }

    /// The header with which packets to, or from, the control plane begin.
    pub fn controller(&self, controller: ControllerHeader) -> Option<HeaderId> {
        let mut headers = self.program.headers.entries();
        headers.find(|(_, header)| header.controller == Some(controller)).map(|(id, _)| id)
    }
}

/// `None` if an id is 0, which selects all objects of a kind.
///
/// # Errors
/// Those of `find`.
pub fn optional<T>(id: u32, find: impl FnOnce(u32) -> Result<T>) -> Result<Option<T>> {
    if id == 0 { Ok(None) } else { find(id).map(Some) }
}
