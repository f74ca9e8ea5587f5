//! Metadata: bytes that a controller sets with a table entry or a multicast group, and reads back (P4Runtime
//! specification 1.5, sections 9.1 and 9.5).
//!
//! The device does not use them, so they are stored here, by the key of the entry as a message; they are deleted with
//! the entry. While no controller sets any, nothing is stored or looked up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use prost::Message as _;

use super::proto::p4::v1 as p4;
use super::schema::Schema;
use super::translate::entry;
use crate::control::{Control, ControlError, Query};
use p4::entity::Entity as Message;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::update::Type;

/// Maximum number of bytes of all metadata.
const BYTES_MAX: usize = 64 << 20;

/// The owner of metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// An entry or default entry, by a message with only its key.
    Entry(Vec<u8>),
    /// A multicast group.
    Group(u32),
}

impl Owner {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Owner::Entry(key) => [&[0][..], key].concat(),
            Owner::Group(group) => [&[1][..], &group.to_be_bytes()].concat(),
        }
    }

    fn of(bytes: &[u8]) -> Option<Owner> {
        match bytes.split_first()? {
            (0, key) => Some(Owner::Entry(key.to_vec())),
            (1, group) => Some(Owner::Group(u32::from_be_bytes(group.try_into().ok()?))),
            _ => None,
        }
    }
}

/// Metadata by owner.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Shared with reads, which need no lock then: the first write beside one copies it.
    all: Arc<HashMap<Owner, Vec<u8>>>,
    bytes: usize,
}

/// The metadata of an update.
fn given(update: &p4::Update) -> &[u8] {
    match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Message::TableEntry(entry)) => &entry.metadata,
        Some(Message::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(Replication::MulticastGroupEntry(group)) => &group.metadata,
            _ => &[],
        },
        _ => &[],
    }
}

/// True for a default entry that becomes that of the program, which has no metadata (P4Runtime specification 1.5,
/// section 9.1.3).
fn is_reset(update: &p4::Update) -> bool {
    match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Message::TableEntry(entry)) => entry.is_default_action && entry.action.is_none(),
        _ => false,
    }
}

fn of_key(message: &p4::TableEntry) -> Owner {
    let p4::TableEntry { table_id, r#match, priority, is_default_action, .. } = message;
    let key = p4::TableEntry {
        table_id: *table_id,
        r#match: r#match.clone(),
        priority: *priority,
        is_default_action: *is_default_action,
        ..Default::default()
    };
    Owner::Entry(key.encode_to_vec())
}

fn owner(schema: &Schema, update: &p4::Update) -> Option<Owner> {
    match update.entity.as_ref()?.entity.as_ref()? {
        Message::TableEntry(message) if message.is_default_action => Some(of_key(message)),
        Message::TableEntry(message) => {
            // Normalised to the form of the switch: values without leading zeros.
            let table = schema.table(message.table_id).ok()?;
            let key = entry::key(schema, table, message).ok()?;
            Some(of_key(&entry::key_message(schema, &key)))
        }
        Message::PacketReplicationEngineEntry(message) => match &message.r#type {
            Some(Replication::MulticastGroupEntry(group)) => {
                Some(Owner::Group(group.multicast_group_id))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The owner of stored metadata, in the form of this program; `None` if the device has no such entry or group.
pub fn present(control: &Control, schema: &Schema, owner: &[u8]) -> Option<Vec<u8>> {
    let found = match Owner::of(owner)? {
        Owner::Entry(key) => {
            let message = p4::TableEntry::decode(key.as_slice()).ok()?;
            let table = schema.table(message.table_id).ok()?;
            if message.is_default_action {
                of_key(&message)
            } else {
                let key = entry::key(schema, table, &message).ok()?;
                control.read(&Query::Entry(key.clone())).ok()?;
                of_key(&entry::key_message(schema, &key))
            }
        }
        Owner::Group(group) => {
            let id = Some(u16::try_from(group).ok()?);
            control.read(&Query::Multicast { id }).ok()?;
            Owner::Group(group)
        }
    };
    Some(found.bytes())
}

impl Kept {
    /// True if updates may change the stored metadata.
    ///
    /// # Errors
    /// [`ControlError::ResourceExhausted`]: there is no room for their metadata.
    pub fn is_concerned(
        &self,
        schema: &Schema,
        updates: &[p4::Update],
    ) -> Result<bool, ControlError> {
        let given: usize = updates.iter().map(|update| given(update).len()).sum();
        if self.bytes + given > BYTES_MAX {
            let bytes = self.bytes + given - self.replaced(schema, updates);
            if bytes > BYTES_MAX {
                return Err(ControlError::ResourceExhausted(format!(
                    "entries have {bytes} bytes of metadata, and {BYTES_MAX} are kept: give the entries less"
                )));
            }
        }
        Ok(given > 0 || !self.all.is_empty())
    }

    /// Number of bytes of the metadata that updates replace or delete.
    fn replaced(&self, schema: &Schema, updates: &[p4::Update]) -> usize {
        let existing = updates.iter().filter(|update| update.r#type != Type::Insert as i32);
        let owners: HashSet<Owner> = existing.filter_map(|update| owner(schema, update)).collect();
        owners.iter().filter_map(|owner| self.all.get(owner)).map(Vec::len).sum()
    }

    /// Stores the metadata of an update that was done; returns the owner and its metadata, if these changed.
    pub fn done(
        &mut self,
        schema: &Schema,
        update: &p4::Update,
    ) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let owner = owner(schema, update)?;
        let metadata = given(update);
        let is_gone =
            update.r#type == Type::Delete as i32 || metadata.is_empty() || is_reset(update);
        let new = (!is_gone).then(|| metadata.to_vec());
        let bytes = owner.bytes();
        let had = self.set(owner, new.clone());
        (had || new.is_some()).then_some((bytes, new))
    }

    /// Sets or deletes the metadata of an owner; true if it had some before.
    fn set(&mut self, owner: Owner, metadata: Option<Vec<u8>>) -> bool {
        self.bytes += metadata.as_ref().map_or(0, Vec::len);
        let old = match metadata {
            Some(metadata) => Arc::make_mut(&mut self.all).insert(owner, metadata),
            None if !self.all.contains_key(&owner) => None,
            None => Arc::make_mut(&mut self.all).remove(&owner),
        };
        self.bytes -= old.as_ref().map_or(0, Vec::len);
        old.is_some()
    }

    /// Restores the metadata of the store, by the bytes of their owners.
    pub fn of(all: Vec<(Vec<u8>, Vec<u8>)>) -> Kept {
        let mut kept = Kept::default();
        for (owner, metadata) in all {
            if let Some(owner) = Owner::of(&owner) {
                kept.set(owner, Some(metadata));
            }
        }
        kept
    }

    /// True if there are no metadata.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Deletes the metadata of an entry that was removed by the device or by a writer other than a controller; returns
    /// their owner, if there were any.
    pub fn removed(&mut self, key: &p4::TableEntry) -> Option<Vec<u8>> {
        if self.all.is_empty() { None } else { self.forget(of_key(key)) }
    }

    /// Like [`Kept::removed`], for a multicast group.
    pub fn removed_group(&mut self, group: u32) -> Option<Vec<u8>> {
        self.forget(Owner::Group(group))
    }

    fn forget(&mut self, owner: Owner) -> Option<Vec<u8>> {
        let bytes = owner.bytes();
        self.set(owner, None).then_some(bytes)
    }

    /// Deletes the metadata of entries of all tables but these, by their ids; returns the owners. Those of multicast
    /// groups stay.
    pub fn retain_tables(&mut self, stays: impl Fn(u32) -> bool) -> Vec<Vec<u8>> {
        let of_table = |key: &[u8]| p4::TableEntry::decode(key).map_or(0, |key| key.table_id);
        let gone = self.all.keys().filter(|owner| match owner {
            Owner::Entry(key) => !stays(of_table(key)),
            Owner::Group(_) => false,
        });
        let gone: Vec<Owner> = gone.cloned().collect();
        gone.into_iter().filter_map(|owner| self.forget(owner)).collect()
    }

    /// Whether an entry of a table for which this holds has metadata.
    pub fn has_entry_of(&self, is_it: impl Fn(u32) -> bool) -> bool {
        self.all.keys().any(|owner| match owner {
            Owner::Entry(key) => {
                is_it(p4::TableEntry::decode(key.as_slice()).map_or(0, |key| key.table_id))
            }
            Owner::Group(_) => false,
        })
    }

    /// The metadata of an entry that is read.
    pub fn of_entry(&self, message: &p4::TableEntry) -> Vec<u8> {
        if self.all.is_empty() {
            return Vec::new();
        }
        self.all.get(&of_key(message)).cloned().unwrap_or_default()
    }

    /// The metadata of a multicast group.
    pub fn of_group(&self, group: u32) -> Option<Vec<u8>> {
        self.all.get(&Owner::Group(group)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::one_way;

    #[test]
    fn metadata_that_are_replaced_do_not_count() {
        let schema = Schema::of(one_way().program);
        let update = |kind: Type, multicast_group_id, bytes| {
            let metadata = vec![0; bytes];
            let group =
                p4::MulticastGroupEntry { multicast_group_id, metadata, ..Default::default() };
            let entry = p4::PacketReplicationEngineEntry {
                r#type: Some(Replication::MulticastGroupEntry(group)),
            };
            let entity = Some(Message::PacketReplicationEngineEntry(entry));
            p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity }) }
        };
        let mut kept = Kept::default();
        kept.done(&schema, &update(Type::Insert, 1, BYTES_MAX / 2 + 1));
        let is_concerned = |update| kept.is_concerned(&schema, &[update]);
        assert_eq!(is_concerned(update(Type::Modify, 1, BYTES_MAX)), Ok(true));
        assert!(is_concerned(update(Type::Modify, 1, BYTES_MAX + 1)).is_err());
        assert!(is_concerned(update(Type::Insert, 1, BYTES_MAX / 2)).is_err());
        assert!(is_concerned(update(Type::Modify, 2, BYTES_MAX / 2)).is_err());
    }
}
