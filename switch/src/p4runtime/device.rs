//! The device behind the service: the control handle, the program's schema, and who may write.

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
use super::watch::{Name, Watch};
use crate::control::{Change, Control, ControlError, Entity, Mode, Unit, Update};
use crate::core::Statistics;
use crate::ports::LinkState;
use crate::sync;
use p4::entity::Entity as Message;
use wireyard_pipeline::ids::Id;
use wireyard_pipeline::source::Parsed;

/// The version of P4Runtime that the service speaks.
pub const API_VERSION: &str = "1.5.0";

/// The program that runs, as controllers know it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// By ids.
    pub schema: Arc<Schema>,
    /// The device configuration: the packed program.
    pub blob: Vec<u8>,
    /// What the controller who pushed it gave with it; 0 for the program that `run` was started with.
    pub cookie: u64,
    /// The device was started without a program, and none was pushed: this one drops every packet and has no name for controllers.
    pub is_absent: bool,
}

impl Pipeline {
    /// There is one.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`], in words that controllers look for.
    pub fn check(&self) -> Result<(), ControlError> {
        match self.is_absent {
            false => Ok(()),
            true => Err(ControlError::FailedPrecondition(
                "no forwarding pipeline config: push one with SetForwardingPipelineConfig".into(),
            )),
        }
    }
}

/// A device that controllers steer.
#[derive(Debug)]
pub struct Device {
    /// Its number in messages.
    pub id: u64,
    /// The handle.
    pub control: Control,
    /// What the server counts.
    pub counts: Counts,
    /// What the store counts, where there is one.
    pub storage: Option<Arc<StorageCounts>>,
    pipeline: RwLock<Arc<Pipeline>>,
    /// Read by whoever writes to the device, for as long as that takes; written when primaries change. So an old
    /// primary's writes are done when a new one is notified.
    arbitration: RwLock<Arbitration>,
    digests: Mutex<Digests>,
    kept: Mutex<Kept>,
    watch: Mutex<Watch>,
    settings: Mutex<Settings>,
    /// A program that was verified and waits for COMMIT.
    saved: Mutex<Option<Arc<Saved>>>,
    /// Requests under way that may hold locks of the device for long.
    long: AtomicUsize,
}

/// A request that may hold locks of the device for long is under way while this is there.
#[derive(Debug)]
pub struct Long(Arc<Device>);

impl Drop for Long {
    fn drop(&mut self) {
        self.0.long.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Device {
    /// A device that runs this program, or what it ran when the process ended.
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

    /// A request begins that may hold locks of the device for long: it compiles, writes much or waits for workers. To be called by the
    /// thread that has all requests, before another thread does it.
    pub fn begin_long(self: &Arc<Device>) -> Long {
        self.long.fetch_add(1, Ordering::Relaxed);
        Long(Arc::clone(self))
    }

    /// Whether a lock of the device may be held for long now: then the thread that has all requests takes none.
    pub fn is_long_held(&self) -> bool {
        self.long.load(Ordering::Relaxed) > 0
    }

    /// Adds what controllers (streams, requests, packets, digests) and the store have counted.
    pub fn report(&self, statistics: &mut Statistics) {
        statistics.controllers = Some(self.counts.report(&self.control.program()));
        statistics.storage = self.storage.as_ref().map(|storage| storage.report());
    }

    /// Digests that controllers asked for.
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

    /// A port was removed: another one of its number does not get its settings.
    ///
    /// # Errors
    /// It could not be kept.
    pub fn forget_port(&self, mut unit: Unit<'_>, port: u16) -> Result<(), ControlError> {
        self.settings().forget(port).into_iter().for_each(|change| unit.note(change));
        unit.end().wait()
    }

    /// Keeps a verified program for COMMIT, in the place of the one before; `None`: none waits.
    pub fn save(&self, saved: Option<Arc<Saved>>) {
        *sync::lock(&self.saved) = saved;
    }

    /// The program that waits for COMMIT: reads and writes are of it.
    pub fn saved(&self) -> Option<Arc<Saved>> {
        sync::lock(&self.saved).clone()
    }

    /// The program that runs.
    pub fn pipeline(&self) -> Arc<Pipeline> {
        Arc::clone(&sync::read(&self.pipeline))
    }

    /// Another program runs.
    pub fn set_pipeline(&self, pipeline: Arc<Pipeline>) {
        *sync::write(&self.pipeline) = pipeline;
    }

    /// The program that runs is none that a controller knows.
    pub fn set_absent(&self) {
        let mut pipeline = sync::write(&self.pipeline);
        Arc::make_mut(&mut pipeline).is_absent = true;
    }

    /// Who may write, unchanged while this is held.
    pub fn arbitration(&self) -> RwLockReadGuard<'_, Arbitration> {
        sync::read(&self.arbitration)
    }

    /// Who may write, to be changed: waits until writes under way are done.
    pub fn arbitrate(&self) -> RwLockWriteGuard<'_, Arbitration> {
        sync::write(&self.arbitration)
    }

    /// Looks which links are up.
    pub fn look_at_links(&self) {
        let links = match self.control.links() {
            Ok(links) => links,
            Err(why) => {
                tracing::warn!(event = "links", "groups do not follow the links yet: {why}");
                return;
            }
        };
        let down = links.iter().filter(|(_, state)| *state != LinkState::Up);
        let down = down.map(|(port, _)| port.port).collect();
        self.follow(|watch| watch.links(down));
    }

    /// A link is up, or is not: what depends on it follows.
    pub fn link(&self, port: u16, is_up: bool) {
        self.follow(|watch| watch.link(port, is_up));
    }

    fn follow(&self, change: impl FnOnce(&mut Watch) -> Vec<Message>) {
        // Where nothing is written any more, groups stay as they are.
        let Ok(mut unit) = self.control.unit() else { return };
        let pipeline = self.pipeline();
        let mut watch = self.watch();
        let left = change(&mut watch);
        let updates = left.iter().filter_map(|message| match message {
            Message::ActionProfileGroup(group) => {
                action::group(&pipeline.schema, group, false).ok()
            }
            Message::PacketReplicationEngineEntry(entry) => replication::entity(entry, false).ok(),
            _ => None,
        });
        let updates: Vec<Update> = updates.map(Update::Modify).collect();
        // One that is refused is gone; the others follow.
        let _ = unit.write_of(Some(&pipeline.schema.program), &updates, Mode::Continue);
        let _ = unit.end();
    }

    /// What is known of entries, groups and sessions follows writes of others than controllers (command line, page, kernel) from now on:
    /// what they write depends on no link any more, but a group keeps its `max_size`, and metadata go with what they delete.
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
        let name = match update.entity() {
            Entity::Group { table, id, .. } => {
                let profile = pipeline.schema.ids.profiles.get(table.index());
                profile.map(|profile| Name::Group(*profile, *id))
            }
            Entity::Multicast { id, .. } => Some(Name::Multicast((*id).into())),
            Entity::Mirror { id, .. } => Some(Name::Session((*id).into())),
            _ => None,
        };
        if let Some(name) = name {
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

    /// Whether a message is for this device. Number 0, which older controllers use, is every device.
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

/// An election id as a number; `None` where there is none.
pub fn election(id: Option<&p4::Uint128>) -> Option<u128> {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

/// The message of an election id.
pub fn election_message(id: Option<u128>) -> Option<p4::Uint128> {
    id.map(|id| p4::Uint128 { high: (id >> 64) as u64, low: id as u64 })
}
