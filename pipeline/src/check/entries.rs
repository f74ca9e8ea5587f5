//! Resolves an entries file: names to ids, patterns to matches, values to their widths.
//!
//! Only the checked program is used: its constants are available by name, its libraries are not.

mod objects;
mod selectors;
mod tables;

use super::ExternRegistry;
use super::cx::{Cx, Env, Place};
use super::scope::Scope;
use super::uses::Uses;
use crate::ast::entries::*;
use crate::ast::*;
use crate::diag::{Diagnostics, codes};
use crate::ids::*;
use crate::ir::{Action, Program, Table};
use crate::source::chunks::Chunk;
use crate::state::entries::Resolved;
use crate::state::{action_data_words, action_words};
use std::collections::{BTreeMap, BTreeSet};
use wireyard_tables::ActionCall;

/// The purpose of reading an entries file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To fill a program that starts: every member and group that it names is in it.
    #[default]
    Fill,
    /// To change a program that runs: members and groups may already exist.
    Change,
    /// To remove from a program that runs: only what identifies an object is checked, and an entry's action may be any.
    Remove,
}

/// Resolves an entries file against a checked program. `None`: the errors are in `diagnostics`.
pub fn resolve_entries(
    file: &EntriesFile,
    program: &Program,
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    resolve_chunks(file, program, Purpose::Fill, diagnostics, &mut |_| None)
}

/// The same for a file whose entries come in parts.
pub(crate) fn resolve_chunks(
    file: &EntriesFile,
    program: &Program,
    purpose: Purpose,
    diagnostics: &mut Diagnostics,
    next: &mut dyn FnMut(&mut Diagnostics) -> Option<Chunk>,
) -> Option<Resolved> {
    let externs = ExternRegistry::new();
    // Places are those of the entries file; the ids of the program's files would be mixed up with them.
    let known = Program { files: IdVec::new(), ..program.clone() };
    let mut cx = Cx::new(&[], Scope::default(), Uses::default(), known, &externs);
    cx.env = Env::at(Place::Data);
    for constant in &program.constants {
        cx.env.bind_constant(&constant.name, constant.value, constant.bits);
    }
    let mut resolver = Resolver {
        cx,
        program,
        purpose,
        found: Resolved::default(),
        members: BTreeMap::new(),
        groups: BTreeMap::new(),
        owned: Vec::new(),
    };
    resolver.selectors(file);
    resolver.entries(file);
    resolver.chunks(file, next);
    resolver.owned();
    resolver.defaults(file);
    resolver.value_sets(file);
    resolver.registers(file);
    resolver.meters(file);
    resolver.counters(file);
    resolver.groups(file);
    resolver.sessions(file);
    resolver.settings(file);
    let Resolver { cx, found, .. } = resolver;
    let good = !cx.report.has_errors();
    diagnostics.append(cx.report);
    good.then_some(found)
}

struct Resolver<'a> {
    cx: Cx<'a>,
    program: &'a Program,
    purpose: Purpose,
    found: Resolved,
    /// Numbers of members and groups that the file creates.
    members: BTreeMap<TableId, BTreeSet<u64>>,
    groups: BTreeMap<TableId, BTreeSet<u64>>,
    /// Members and groups (`true`) whose numbers belong to entries with action sets.
    owned: Vec<(TableId, Sp<u64>, bool)>,
}
impl<'a> Resolver<'a> {
    /// Something of the program by name.
    fn named<I: Id, T>(
        &mut self,
        list: &'a IdVec<I, T>,
        name: &Name,
        what: &str,
        name_of: fn(&T) -> &str,
    ) -> Option<(I, &'a T)> {
        let found = self.program.named(list, &name.value, name_of);
        if found.is_none() {
            let text = format!("the program has no {what} `{}`", name.value);
            let names: Vec<&str> = list.iter().map(name_of).collect();
            let error = self.cx.report.error(codes::UNKNOWN, name.span, text);
            error.did_you_mean_or_list(&name.value, &names);
        }
        found
    }

    fn table(&mut self, name: &Name) -> Option<(TableId, &'a Table)> {
        let program = self.program;
        self.named(&program.tables, name, "table", |table| &table.name)
    }

    /// An action: one of the table if that has one of this name, by the program or the P4 source.
    fn action(&mut self, table: &Table, name: &Name) -> Option<(ActionId, &'a Action)> {
        let program = self.program;
        let listed =
            || table.actions.iter().filter_map(|id| Some((*id, program.actions.get(*id)?)));
        program
            .named_among(listed, &name.value, |action: &Action| &action.name)
            .or_else(|| self.named(&program.actions, name, "action", |action| &action.name))
    }

    /// An action with its arguments, in an entry or (with `is_default`) as the default action.
    fn call(&mut self, table: &Table, call: &AstExpr, is_default: bool) -> Option<ActionCall> {
        if self.purpose == Purpose::Remove {
            return Some(ActionCall { action: 0, data: Vec::new() });
        }
        let (name, args) = self.cx.call_parts(call)?;
        let (action, known) = self.action(table, name)?;
        if !self.cx.listed_for_entries(table, action, name) {
            return None;
        }
        let (annotation, place) = match is_default {
            true => ("@tableonly", "the default action"),
            false => ("@defaultonly", "an entry"),
        };
        let origin = self.program.origin.as_ref();
        if origin.is_some_and(|o| o.is_annotated(&table.name, &known.name, annotation)) {
            let text = format!(
                "action `{}` is {annotation} in table `{}`: it cannot be {place}",
                known.name, table.name
            );
            return self.cx.report.refuse(codes::NOT_LISTED, name.span, text);
        }
        let args = self.cx.constants_for(&known.name, &known.params, args, call.span)?;
        let place = table.actions.iter().position(|listed| *listed == action)?;
        // A million entries have as many of these: no unused capacity.
        let mut data = Vec::with_capacity(action_data_words(known));
        action_words(known, &args, &mut data);
        Some(ActionCall { action: place as u32, data })
    }

    /// A number of at most `most`, which fits in 32 bits.
    fn number(&mut self, number: &Sp<u64>, most: u64) -> Option<u32> {
        match u32::try_from(number.value) {
            Ok(value) if number.value <= most => Some(value),
            _ => {
                let text = format!("{} is more than {most}", number.value);
                self.cx.report.refuse(codes::DOES_NOT_FIT, number.span, text)
            }
        }
    }

    /// The number of an object, of at most `most`. 0 names none of them: what it means instead is the second word.
    fn id(&mut self, number: &Sp<u64>, most: u64, (what, zero): (&str, &str)) -> Option<u32> {
        if number.value == 0 {
            let text = format!("{what} 0 means \"{zero}\"");
            let error = self.cx.report.error(codes::BAD_INDEX, number.span, text);
            error.help(format!("use 1 to {most}"));
            return None;
        }
        self.number(number, most)
    }

    fn fits(&mut self, found: usize, room: usize, name: &Name, what: &str) {
        if found > room {
            let text = format!("{found} {what} do not fit: there is room for {room}");
            self.cx.report.error(codes::TOO_MANY_ENTRIES, name.span, text);
        }
    }

    fn twice(&mut self, number: &Sp<u64>, what: &str) {
        let text = format!("{what} {} already exists", number.value);
        self.cx.report.error(codes::TWICE, number.span, text);
    }
}
