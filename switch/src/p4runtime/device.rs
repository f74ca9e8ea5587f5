//! The device behind the service: the control handle, the program's schema, and the arbitration of controllers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::arbitration::Arbitration;
use super::counts::Counts;
use super::digests::Digests;
use super::kept::Kept;
use super::pack;
use super::persist::record;
use super::persist::settings::Settings;
use super::persist::{Begun, StorageCounts};
use super::proto::p4::v1 as p4;
use super::saved::Saved;
use super::schema::Schema;
use super::translate::{action, entry, replication};
use super::watch::{self, Name, Watch};
use crate::control::{
    Change, Control, ControlError, Entity, Mode, Query, TableEntry, Unit, Update,
};
use crate::core::{PortReport, Statistics};
use crate::ports::{LinkState, PortNumber};
use crate::sync;
use p4::entity::Entity as Message;
use wireyard_pipeline::ids::Id;
use wireyard_pipeline::source::Parsed;

/// The supported version of P4Runtime.
pub const API_VERSION: &str = "1.5.0";

/// The running program, in the form for controllers.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The program's objects by id.
    pub schema: Arc<Schema>,
    /// The device configuration: the packed program.
    pub blob: Vec<u8>,
    /// The cookie given by the controller that pushed it; 0 for the program that `run` was started with.
    pub cookie: u64,
    /// The device was started without a program, and none was pushed: the running one drops every packet and is not
    /// visible to controllers.
    pub is_absent: bool,
}

impl Pipeline {
    /// Checks that there is a program.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`], with a text that controllers match.
    pub fn check(&self) -> Result<(), ControlError> {
        match self.is_absent {
            false => Ok(()),
            true => Err(ControlError::FailedPrecondition(
                "no forwarding pipeline config: push one with SetForwardingPipelineConfig".into(),
            )),
        }
    }
}

/// A device that controllers control.
#[derive(Debug)]
pub struct Device {
    /// Its number in messages.
    pub id: u64,
    /// The handle.
    pub control: Control,
    /// Counters of the server.
    pub counts: Counts,
    /// Counters of the store, if there is one.
    pub storage: Option<Arc<StorageCounts>>,
    pipeline: RwLock<Arc<Pipeline>>,
    /// Read-locked during writes to the device; write-locked when primaries change. So the writes of an old primary are
    /// done when a new one is notified.
    arbitration: RwLock<Arbitration>,
    digests: Mutex<Digests>,
    kept: Mutex<Kept>,
    watch: Mutex<Watch>,
    settings: Mutex<Settings>,
    /// A verified program that waits for COMMIT.
    saved: Mutex<Option<Arc<Saved>>>,
    /// Number of requests in progress that may hold locks of the device for long.
    long: AtomicUsize,
}

/// Exists while a request is in progress that may hold locks of the device for long.
#[derive(Debug)]
pub struct Long(Arc<Device>);

impl Drop for Long {
    fn drop(&mut self) {
        self.0.long.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Device {
    /// A device that runs this program, or the state restored from its store.
    pub fn new(id: u64, control: Control, parsed: &Parsed, begun: Begun) -> Device {
        let own = || {
            let schema = Arc::new(Schema::of(control.program()));
            Pipeline { schema, blob: pack::pack(parsed), cookie: 0, is_absent: false }
        };
        let pipeline = begun.pipeline.unwrap_or_else(own);
        let kept = Mutex::new(Kept::of(begun.metadata));
        Device {
            id,
            control,
            counts: Counts::default(),
            storage: begun.storage,
            pipeline: RwLock::new(Arc::new(pipeline)),
            arbitration: RwLock::default(),
            digests: Mutex::default(),
            kept,
            watch: Mutex::new(begun.watch),
            settings: Mutex::new(begun.settings),
            saved: Mutex::default(),
            long: AtomicUsize::new(0),
        }
    }

    /// Marks the begin of a request that may hold locks of the device for long: it compiles, writes much or waits for
    /// workers. To be called by the thread that serves all requests, before another thread executes it.
    pub fn begin_long(self: &Arc<Device>) -> Long {
        self.long.fetch_add(1, Ordering::Relaxed);
        Long(Arc::clone(self))
    }

    /// True if a lock of the device may be held for long now: then the thread that serves all requests must not take
    /// any.
    pub fn is_long_held(&self) -> bool {
        self.long.load(Ordering::Relaxed) > 0
    }

    /// Adds the counts of controllers (streams, requests, packets, digests) and of the store.
    pub fn report(&self, statistics: &mut Statistics) {
        statistics.controllers = Some(self.counts.report(&self.control.program()));
        statistics.storage = self.storage.as_ref().map(|storage| storage.report());
    }

    /// Digests that controllers configured.
    pub fn digests(&self) -> MutexGuard<'_, Digests> {
        sync::lock(&self.digests)
    }

    /// Metadata of entries and groups.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        sync::lock(&self.kept)
    }

    /// Groups and sessions that depend on links.
    pub fn watch(&self) -> MutexGuard<'_, Watch> {
        sync::lock(&self.watch)
    }

    /// Settings of queues and ports that were made at run time.
    pub fn settings(&self) -> MutexGuard<'_, Settings> {
        sync::lock(&self.settings)
    }

    /// Deletes the settings of a removed port, so that a new one with its number does not get them.
    ///
    /// # Errors
    /// The deletion could not be stored.
    pub fn forget_port(&self, mut unit: Unit<'_>, port: PortNumber) -> Result<(), ControlError> {
        self.settings().forget(port).into_iter().for_each(|change| unit.note(change));
        unit.end().wait()
    }

    /// Stores a verified program for COMMIT, replacing an earlier one; `None` for none.
    pub fn save(&self, saved: Option<Arc<Saved>>) {
        *sync::lock(&self.saved) = saved;
    }

    /// This program waits for COMMIT no more; another one, saved meanwhile, does.
    pub fn committed(&self, saved: &Arc<Saved>) {
        sync::lock(&self.saved).take_if(|waiting| Arc::ptr_eq(waiting, saved));
    }

    /// The program that waits for COMMIT: reads and writes refer to it.
    pub fn saved(&self) -> Option<Arc<Saved>> {
        sync::lock(&self.saved).clone()
    }

    /// The running program.
    pub fn pipeline(&self) -> Arc<Pipeline> {
        Arc::clone(&sync::read(&self.pipeline))
    }

    /// Sets the running program.
    pub fn set_pipeline(&self, pipeline: Arc<Pipeline>) {
        *sync::write(&self.pipeline) = pipeline;
    }

    /// Marks the running program as not visible to controllers.
    pub fn set_absent(&self) {
        let mut pipeline = sync::write(&self.pipeline);
        Arc::make_mut(&mut pipeline).is_absent = true;
    }

    /// The arbitration, locked against changes while this is held.
    pub fn arbitration(&self) -> RwLockReadGuard<'_, Arbitration> {
        sync::read(&self.arbitration)
    }

    /// The arbitration, to be changed: waits until writes in progress are done.
    pub fn arbitrate(&self) -> RwLockWriteGuard<'_, Arbitration> {
        sync::write(&self.arbitration)
    }

    /// Checks which ports exist and which links are up. False, and groups do not follow the links, if a worker does not
    /// answer.
    pub fn look_at_links(self: &Arc<Device>) -> bool {
        let _long = self.begin_long();
        let mut is_known = true;
        // Asked in the unit: a change that is reported meanwhile is followed after this.
        self.follow(|watch| match self.control.links() {
            Ok(links) => {
                let (up, down): (Vec<_>, Vec<_>) =
                    links.iter().partition(|(_, state)| *state == LinkState::Up);
                let ports = |all: Vec<&(PortReport, LinkState)>| {
                    all.into_iter().map(|(port, _)| port.port).collect()
                };
                watch.links(ports(up), ports(down))
            }
            Err(why) => {
                tracing::warn!(event = "links", "groups do not follow the links yet: {why}");
                is_known = false;
                Vec::new()
            }
        });
        is_known
    }

    /// Updates groups and sessions after a link came up or went down.
    pub fn link(&self, port: PortNumber, is_up: bool) {
        self.follow(|watch| watch.link(port, is_up));
    }

    /// Removes what is stored and known of an entry that the device removed, and of its own group and members, but for
    /// what a controller has made again: the same entry, or another one whose group has the number.
    pub(super) fn removed_when_idle(&self, schema: &Schema, entry: TableEntry, own: Vec<Update>) {
        // Stored with writes, one after the other; without a store that works nothing of it is lost that was kept.
        let mut unit = self.control.unit().unwrap_or_else(|_| self.control.unstored());
        if !Arc::ptr_eq(&self.pipeline().schema.program, &schema.program) {
            return;
        }
        let table = Some(entry.key.table);
        let removed = std::iter::once(Update::Delete(Entity::TableEntry(entry))).chain(own);
        for update in removed {
            let query = match update.entity() {
                Entity::TableEntry(entry) => Query::Entry(entry.key.clone()),
                Entity::Group { id, .. } => Query::Groups { table, id: Some(*id) },
                Entity::Member { id, .. } => Query::Members { table, id: Some(*id) },
                _ => continue,
            };
            if self.control.visit(&query, &mut |_| {}).is_ok() {
                continue;
            }
            let deleted = record::deleted(&self.control, schema, update.entity());
            deleted.into_iter().for_each(|deleted| unit.note(deleted));
            if let Entity::TableEntry(entry) = update.entity() {
                let owner = self.kept().removed(&entry::key_message(schema, &entry.key));
                owner.into_iter().for_each(|owner| unit.note(record::metadata(owner, None)));
            }
            let mut watch = self.watch();
            if let Some(name) = name_of(schema, update.entity())
                && watch.wanted(name).is_some()
            {
                unit.note(record::watched(name, None));
                watch.set(name, None);
            }
        }
        let _ = unit.end();
    }

    fn follow(&self, change: impl FnOnce(&mut Watch) -> Vec<Message>) {
        // What was written is stored, and not the form that follows from the links.
        let mut unit = self.control.unstored();
        let pipeline = self.pipeline();
        let mut watch = self.watch();
        let left = change(&mut watch);
        let refused = |what: Name, why: &ControlError| {
            tracing::warn!(event = "links", "{what} does not follow the links: {why}");
        };
        let (mut updates, mut names) = (Vec::new(), Vec::new());
        for message in &left {
            let Some(name) = watch::name(message) else { continue };
            match regardless_of_links(&pipeline.schema, message, &self.control) {
                Ok(entity) => {
                    updates.push(Update::Modify(entity));
                    names.push(name);
                }
                Err(why) => refused(name, &why),
            }
        }
        let done = unit.write_of(Some(&pipeline.schema.program), &updates, Mode::Continue);
        let results = done.err().map(|error| error.results).unwrap_or_default();
        for (name, result) in names.into_iter().zip(results) {
            result.err().inspect(|why| refused(name, why));
        }
        let _ = unit.end();
    }

    /// An object as it was written, where the device may have a reduced form because links are down.
    pub fn as_written(&self, entity: Entity) -> Entity {
        if !matches!(
            entity,
            Entity::Group { .. } | Entity::Multicast { .. } | Entity::Mirror { .. }
        ) {
            return entity;
        }
        let pipeline = self.pipeline();
        let name = name_of(&pipeline.schema, &entity);
        let watch = self.watch();
        let wanted = name.and_then(|name| watch.wanted(name));
        let written = wanted
            .and_then(|wanted| regardless_of_links(&pipeline.schema, wanted, &self.control).ok());
        written.unwrap_or(entity)
    }

    /// From now on, the state kept of entries, groups and sessions follows writes of others than controllers (command
    /// line, page, kernel): objects that they write depend on no link any more, but a group keeps its `max_size`, and
    /// metadata are deleted with their objects.
    pub fn follow_writes(self: &Arc<Device>) {
        let device = Arc::downgrade(self);
        self.control.on_write(Box::new(move |update, changes| {
            if let Some(device) = device.upgrade() {
                device.written(update, changes);
            }
        }));
    }

    fn written(&self, update: &Update, changes: &mut Vec<Change>) {
        let pipeline = self.pipeline();
        if let Some(name) = name_of(&pipeline.schema, update.entity()) {
            let mut watch = self.watch();
            if watch.wanted(name).is_some() {
                let kept = match update {
                    Update::Modify(Entity::Group { table, id, members }) => {
                        let group = action::group_message(&pipeline.schema, *table, *id, members);
                        let max_size = watch.max_size(name);
                        (max_size != 0)
                            .then_some(p4::ActionProfileGroup { max_size, ..group })
                            .map(Message::ActionProfileGroup)
                    }
                    _ => None,
                };
                changes.push(record::watched(name, kept.as_ref()));
                watch.set(name, kept);
            }
        }
        if let Update::Delete(entity) = update {
            let mut kept = self.kept();
            let owner = match entity {
                Entity::TableEntry(found) if !kept.is_empty() => {
                    kept.removed(&entry::key_message(&pipeline.schema, &found.key))
                }
                Entity::Multicast { id, .. } => kept.removed_group((*id).into()),
                _ => None,
            };
            changes.extend(owner.map(|owner| record::metadata(owner, None)));
        }
    }

    /// Checks that a message is for this device. Number 0, which older controllers use, is for every device.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn check_id(&self, id: u64) -> Result<(), ControlError> {
        match id == self.id || id == 0 {
            true => Ok(()),
            false => {
                let text = format!("there is no device {id}; this is device {}", self.id);
                Err(ControlError::NotFound(text))
            }
        }
    }
}

/// The name of a group or session of the device; `None` for other objects.
fn name_of(schema: &Schema, entity: &Entity) -> Option<Name> {
    match entity {
        Entity::Group { table, id, .. } => {
            schema.ids.profiles.get(table.index()).map(|profile| Name::Group(*profile, *id))
        }
        Entity::Multicast { id, .. } => Some(Name::Multicast((*id).into())),
        Entity::Mirror { id, .. } => Some(Name::Session((*id).into())),
        _ => None,
    }
}

/// The object of a group or session, with all members and without backups; of the device's one it has what P4Runtime has
/// no field for.
fn regardless_of_links(
    schema: &Schema,
    message: &Message,
    control: &Control,
) -> Result<Entity, ControlError> {
    match message {
        Message::ActionProfileGroup(group) => action::group(schema, group, false),
        Message::PacketReplicationEngineEntry(entry) => replication::modified(entry, control),
        _ => Err(ControlError::Internal("neither a group nor a session".into())),
    }
}

/// An election id as a number; `None` if there is none.
pub fn election(id: Option<&p4::Uint128>) -> Option<u128> {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

/// The message of an election id.
pub fn election_message(id: Option<u128>) -> Option<p4::Uint128> {
    id.map(|id| p4::Uint128 { high: (id >> 64) as u64, low: id as u64 })
}
