//! Records of a store whose object is not there any more.

use std::collections::{HashMap, HashSet};

use wireyard_tables::selector::FIRST_OWNED_ID;

use crate::control::{Entity, TableEntry, Target};

/// Removes the groups and members of action sets that have no entry, and the entries whose set belongs to a younger one;
/// returns their keys. The device removed them when they were idle, and no notice of that arrived. They would keep other
/// groups out of the profile.
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
