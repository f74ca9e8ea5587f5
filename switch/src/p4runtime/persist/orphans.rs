//! Records of a store whose object, or the object that they belong to, is not there any more.

use std::collections::{HashMap, HashSet};

use wireyard_tables::selector::FIRST_OWNED_ID;

use super::{Begun, record};
use crate::control::{Change, Control, Entity, Query, TableEntry, Target};
use crate::p4runtime::kept;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::watch::Name;

/// Removes the groups and members of action sets that have no entry, and the entries whose set belongs to a younger
/// one; returns their keys. The device removed them when they were idle, and no notice of that arrived. They would keep
/// other groups out of the profile.
pub(super) fn action_sets(objects: &mut Vec<(Vec<u8>, Entity)>) -> Vec<Vec<u8>> {
    let own = |entity: &Entity| match entity {
        Entity::TableEntry(TableEntry { key, target: Target::Group(id), .. }) => {
            Some((key.table, *id)).filter(|(_, id)| *id >= FIRST_OWNED_ID)
        }
        Entity::Group { table, id, .. } | Entity::Member { table, id, .. } => {
            Some((*table, *id)).filter(|(_, id)| *id >= FIRST_OWNED_ID)
        }
        _ => None,
    };
    let (mut owners, mut members) = (HashMap::new(), HashSet::new());
    for (at, (_, entity)) in objects.iter().enumerate() {
        if let (Entity::TableEntry(_), Some(group)) = (entity, own(entity)) {
            owners.insert(group, at);
        }
    }
    for (_, entity) in objects.iter() {
        if let (Entity::Group { table, members: list, .. }, Some(group)) = (entity, own(entity))
            && owners.contains_key(&group)
        {
            members.extend(list.iter().map(|one| (*table, one.member)));
        }
    }
    let mut at = 0..;
    let gone = objects.extract_if(.., |(_, entity)| {
        let (at, Some(own)) = (at.next(), own(entity)) else { return false };
        match entity {
            Entity::TableEntry(_) => owners.get(&own).copied() != at,
            Entity::Group { .. } => !owners.contains_key(&own),
            _ => !members.contains(&own),
        }
    });
    gone.map(|(key, _)| key).collect()
}

/// Removes metadata and links of objects that were not restored, and gives the metadata of an entry the form of its key
/// in this program; returns the changes to store. They would be taken as of an object that is made later, and keep a
/// program from being reconciled.
pub(super) fn beside_objects(control: &Control, schema: &Schema, begun: &mut Begun) -> Vec<Change> {
    let (mut changes, mut moved) = (Vec::new(), Vec::new());
    begun.metadata.retain_mut(|(owner, metadata)| {
        let present = kept::present(control, schema, owner);
        if present.as_ref() != Some(owner) {
            changes.push(record::metadata(owner.clone(), None));
        }
        if let Some(present) = present.clone().filter(|present| present != owner) {
            moved.push(record::metadata(present.clone(), Some(metadata.clone())));
            *owner = present;
        }
        present.is_some()
    });
    let gone = begun.watch.retain(|name| is_there(control, schema, name));
    changes.extend(gone.into_iter().map(|name| record::watched(name, None)));
    changes.extend(moved);
    changes
}

fn is_there(control: &Control, schema: &Schema, name: Name) -> bool {
    let of_device = |id: u32| u16::try_from(id).ok().map(Some);
    let query = match name {
        Name::Group(profile, id) => schema
            .profile(profile)
            .ok()
            .map(|table| Query::Groups { table: Some(table), id: Some(id) }),
        Name::Multicast(id) => of_device(id).map(|id| Query::Multicast { id }),
        Name::Session(id) => of_device(id).map(|id| Query::Mirrors { id }),
    };
    query.is_some_and(|query| control.read(&query).is_ok())
}
