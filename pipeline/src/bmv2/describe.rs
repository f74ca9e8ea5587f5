//! Checks that a P4Info belongs to a program: each object in it must exist in the same shape. Ids may be any.

use std::mem::discriminant;

use crate::p4info::{Info, Key, ObjectKind, Param};

/// Compares the P4Info that came with a program with the one that p4c would derive.
///
/// # Errors
/// The first difference.
pub(super) fn fits(given: &Info, own: &Info) -> Result<(), String> {
    let action_name =
        |info: &Info, at: usize| info.actions.get(at).map(|one| one.preamble.name.clone());
    for table in &given.tables {
        let name = &table.preamble.name;
        let Some(known) = own.tables.iter().find(|one| one.preamble.name == *name) else {
            return Err(format!("the P4Info has the table {name}, which the program does not"));
        };
        if table.keys.len() != known.keys.len()
            || table.keys.iter().zip(&known.keys).any(|(a, b)| !same_key(a, b))
        {
            return Err(format!("the P4Info has other keys of the table {name} than the program"));
        }
        let names = |info: &Info, actions: &[crate::p4info::ActionRef]| {
            let mut names: Vec<String> =
                actions.iter().filter_map(|one| action_name(info, one.action)).collect();
            names.sort_unstable();
            names
        };
        // p4c lists `NoAction` where it is the default only.
        let mut own_names = names(own, &known.actions);
        own_names.retain(|name| name != "NoAction");
        let mut given_names = names(given, &table.actions);
        given_names.retain(|name| name != "NoAction");
        if own_names != given_names {
            return Err(format!(
                "the P4Info has other actions of the table {name} than the program"
            ));
        }
    }
    for action in &given.actions {
        let name = &action.preamble.name;
        // An action that no table lists is left out, and cannot be referred to.
        let Some(known) = own.actions.iter().find(|one| one.preamble.name == *name) else {
            continue;
        };
        if action.params.len() != known.params.len()
            || action.params.iter().zip(&known.params).any(|(a, b)| !same_param(a, b))
        {
            return Err(format!(
                "the P4Info has other parameters of the action {name} than the program"
            ));
        }
    }
    for object in &given.objects {
        let name = &object.preamble.name;
        let is_it = |one: &crate::p4info::Object| {
            one.preamble.name == *name && discriminant(&one.kind) == discriminant(&object.kind)
        };
        // Unused objects are not in the JSON.
        let may_be_absent = matches!(
            object.kind,
            ObjectKind::Profile(..)
                | ObjectKind::DirectCounter(_)
                | ObjectKind::DirectMeter(_)
                | ObjectKind::Digest(_)
        );
        if !may_be_absent && !own.objects.iter().any(is_it) {
            return Err(format!("the P4Info has {name}, which the program does not"));
        }
    }
    Ok(())
}

fn same_key(given: &Key, own: &Key) -> bool {
    same_param(&given.field, &own.field) && given.kind == own.kind
}

/// A translated type has a width of its own.
fn same_param(given: &Param, own: &Param) -> bool {
    given.name == own.name && (given.bits == own.bits || given.type_name.is_some())
}
