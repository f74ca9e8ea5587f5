//! Control of a running device: the handle by which all code outside of the forwarding path uses it.
//!
//! [`Control`] is a handle: clones refer to the same device, and any thread may use it while the workers forward. It
//! reads and writes [`Entity`]s: table entries, default actions, members and groups, counters, meters, registers, value
//! sets, multicast groups and mirror sessions. It has no network protocol: servers and the command line are built on
//! it.
//!
//! # Visibility of writes
//!
//! * Tables, members and groups of one batch are published as one version: each worker uses all of it or none of it,
//!   from its next burst on.
//! * Multicast groups and mirror sessions are published the same way, as one version of their own; so is each value
//!   set.
//! * Counters and meters are written at once. A read of a counter takes its packets first, then its bytes, while
//!   packets are counted: the two may differ by the packets in between.
//! * Registers are read and written by a worker between two bursts, at the request of [`Control::write`] and
//!   [`Control::read`]. With one worker, up to 256 entries that are read together are of one instant; with several,
//!   each entry is read and written under its lock, so that its cells belong together.
//!
//! # Notices of a device
//!
//! [`Control::subscribe`] returns digests, packets to the CPU port, idle entries and events of all workers as one
//! bounded [`Stream`]. [`Control::follow_tables`] returns the contents of the tables and every change of them, so that
//! a copy elsewhere can follow.
//!
//! # Programs
//!
//! [`Control::prepare`] checks and compiles another program beside the running one and reports what it would keep;
//! [`Swap::commit`] replaces the running one by it. Each worker changes between two bursts, and one program handles a
//! packet from ingress to egress. Ids of tables and actions are valid for one program: look them up again after a swap.
//!
//! # Workers
//!
//! Each worker has one bounded ring of commands, which it checks when it is polled ([`Core::poll`],
//! [`Core::poll_readable`]): one load where there is none. The caller waits for the result, for two seconds at most,
//! and then gets the error that nothing was done; so the thread that polls must not call what needs workers. Tables,
//! counters, meters, groups and sessions need no worker.
//!
//! # Example
//!
//! ```
//! use wireyard_switch::control::{Control, Entity, Query, TableEntry};
//! use wireyard_switch::ports::{LinkType, PortNumber, memory};
//! use wireyard_switch::program::{DeviceOptions, from_text};
//! use wireyard_tables::{Match, time::Time};
//!
//! const PROGRAM: &str = "
//! pipeline: wire
//! include: [ethernet]
//! parser: { start: { extract: ethernet } }
//! tables:
//!   ways: { key: { std.ingress_port: exact }, actions: [out, nop], default: nop, size: 16, counters: true }
//! actions:
//!   out: { params: { to: port }, do: [ std.egress_port = to ] }
//! ingress: [ { apply: ways } ]
//! egress: []
//! deparser: { emit: [ethernet] }
//! ";
//!
//! // A device with two ports; the example uses their far ends.
//! let mut core = from_text("wire.yaml", PROGRAM)?.device(DeviceOptions::small())?;
//! let (one, mut far_one) = memory::pair(core.memory(), ("1", "far1"), LinkType::Ethernet, 16);
//! let (two, mut far_two) = memory::pair(core.memory(), ("2", "far2"), LinkType::Ethernet, 16);
//! core.add_port(PortNumber(1), Box::new(one))?;
//! core.add_port(PortNumber(2), Box::new(two))?;
//!
//! // Packets received by port 1 leave by port 2.
//! let control = Control::of(&core).ok_or("a device that was loaded has a handle")?.clone();
//! let ways = control.table("ways")?;
//! let to_two = control.call("out", &[2])?;
//! control.insert(TableEntry::new(ways, vec![Match::Exact(1)], to_two))?;
//!
//! far_one.send_bytes(core.memory(), &[0; 60]);
//! core.poll(Time::from_ns(1000), None);
//! assert_eq!(far_two.receive_bytes(core.memory()), [[0; 60]]);
//!
//! let entries = control.read(&Query::Entries { table: Some(ways) })?;
//! let [Entity::TableEntry(entry)] = &entries[..] else { panic!("{entries:?}") };
//! assert_eq!(entry.counter.map(|count| (count.packets, count.bytes)), Some((1, 60)));
//!
//! // Delete the entry again.
//! control.delete(entry.key.clone())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod command;
mod device;
mod entity;
mod error;
mod journal;
mod plan;
mod port_files;
mod ports;
mod query;
mod queues;
mod stream;
mod swap;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard};

use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::generation::Loader;
use wireyard_pipeline::ids::{
    ActionId, CounterId, DigestId, Id, IdVec, MeterId, RegisterId, TableId, ValueSetId,
};
use wireyard_pipeline::ir::{ActionCall, Program};
use wireyard_tables::follow::{Contents, Follower};
use wireyard_tables::time::Time;

pub(crate) use batch::{CELLS_MAX, named};
pub use entity::{Entity, EntryKey, Mode, Query, TableEntry, Target, Update};
pub(crate) use error::invalid;
pub use error::{ControlError, WriteError};
pub use journal::{Change, Changes, Journal, Kept as KeptUnits, Record, Ticket, Unit, Written};
pub(crate) use ports::{NewPort, PortSource, close};
pub use query::EntriesPart;
pub(crate) use queues::no_marking;
pub use queues::{PortChange, QueueChange, QueueSettings, Wait};
pub use stream::Stream;
pub use swap::{Fate, Keep, ObjectFate, Swap};
pub use trace::LiveTrace;

use crate::core::Core;
pub use crate::core::PortPlace;
pub use crate::core::notice::{DeviceEvent, IdleNotice, Interest, Notice, NoticeKind};
use crate::core::worker_link::{self, WorkerLink};
use crate::ports::{PortNumber, PortSpec};
use crate::replicate::SharedReplication;
use crate::sync;
use command::WorkerEnd;

/// A running device, to be read and changed. See the [module](self).
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
}

struct Shared {
    /// Read-locked by users of the running program; write-locked while it is replaced.
    loader: RwLock<Loader>,
    replication: SharedReplication,
    /// Locked while groups and sessions are changed.
    replicating: Mutex<()>,
    /// The specifications of the open ports that have one. Locked while ports are exchanged, so that a number is the
    /// same port at all workers.
    specs: Mutex<BTreeMap<PortNumber, PortSpec>>,
    /// Locked while ports are added, so that two of them do not begin one file.
    adding: Mutex<()>,
    /// Files that no port may write: those that the program was read from.
    sources: OnceLock<Vec<PathBuf>>,
    workers: Vec<WorkerEnd>,
    /// Receives writes that are to be stored beyond the end of the process.
    journal: OnceLock<Journal>,
    /// Receives the updates of writers other than controllers.
    written: OnceLock<Written>,
    /// A mirror of the kernel writes the tables of the program's `linux:`.
    is_mirrored: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = &self.loader().current().program.name;
        f.debug_struct("Shared").field("program", program).finish_non_exhaustive()
    }
}

impl Shared {
    fn loader(&self) -> RwLockReadGuard<'_, Loader> {
        sync::read(&self.loader)
    }
}

/// The id of an object of the program, by name.
fn find<I: Id, T>(
    program: &Program,
    objects: &IdVec<I, T>,
    kind: &str,
    name: &str,
    name_of: impl Fn(&T) -> &str,
) -> Result<I, ControlError> {
    let found = program.named(objects, name, &name_of);
    found.map(|(id, _)| id).ok_or_else(|| {
        let known: Vec<&str> = objects.iter().map(name_of).collect();
        if known.is_empty() {
            let text = format!("there is no {kind} {name}: the program has no {kind}s");
            return ControlError::NotFound(text);
        }
        let near = suggest(name, known.iter().copied());
        let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
        ControlError::NotFound(format!(
            "there is no {kind} {name}; {near}there are: {}",
            known.join(", ")
        ))
    })
}

/// Functions of the handle that find an object of the program by its name.
macro_rules! by_name {
    ($($doc:literal $function:ident: $id:ident in $objects:ident, $kind:literal;)+) => {
        impl Control {
            $(
                #[doc = concat!($doc, " by its name.\n\n# Errors\n[`ControlError::NotFound`].")]
                pub fn $function(&self, name: &str) -> Result<$id, ControlError> {
                    let program = self.program();
                    find(&program, &program.$objects, $kind, name, |object| &object.name)
                }
            )+
        }
    };
}

by_name! {
    "A table" table: TableId in tables, "table";
    "An action" action: ActionId in actions, "action";
    "A counter array" counter: CounterId in counters, "counter";
    "A meter array" meter: MeterId in meters, "meter";
    "A register" register: RegisterId in registers, "register";
    "A value set" value_set: ValueSetId in value_sets, "value set";
    "A digest" digest: DigestId in digests, "digest";
}

impl Control {
    /// The handle on the device of this worker, for use by any thread; `None` for a device made without one
    /// ([`Core::new`]).
    pub fn of(core: &Core) -> Option<&Control> {
        core.control.as_ref()?.handle().downcast_ref()
    }

    /// A handle on the device of `workers` workers, and the part of each worker.
    pub(crate) fn new(
        loader: Loader,
        replication: SharedReplication,
        workers: usize,
    ) -> (Control, Vec<WorkerLink>) {
        let (ends, rings): (Vec<_>, Vec<_>) = (0..workers).map(|_| worker_link::ring()).unzip();
        let (loader, replicating) = (RwLock::new(loader), Mutex::default());
        let (journal, written) = (OnceLock::new(), OnceLock::new());
        let ends = ends.into_iter().map(WorkerEnd).collect();
        let specs = Mutex::default();
        let workers = ends;
        let shared = Arc::new(Shared {
            loader,
            replication,
            replicating,
            specs,
            adding: Mutex::default(),
            sources: OnceLock::new(),
            workers,
            journal,
            written,
            is_mirrored: AtomicBool::new(false),
        });
        let control = Control { shared };
        let link = |(me, ring)| WorkerLink::new(Box::new(control.clone()), me, ring);
        let links = rings.into_iter().enumerate().map(link).collect();
        (control, links)
    }

    /// The program that new packets run.
    pub fn program(&self) -> Arc<Program> {
        Arc::clone(&self.shared.loader().current().program)
    }

    /// Number of workers of the device.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// The time of the device at the latest poll of a worker.
    pub fn now(&self) -> Time {
        self.shared.workers.iter().map(WorkerEnd::now).max().unwrap_or(Time::ZERO)
    }

    /// Runs `work` in a worker between two bursts and waits for its result.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: it was not done.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Core, Time) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let no_worker = || ControlError::NotFound(format!("there is no worker {worker}"));
        self.shared.workers.get(worker).ok_or_else(no_worker)?.ask(worker, work)
    }

    /// Like [`Control::ask`], however late the worker begins it: for the steps of a change that has begun. All workers
    /// have answered just before.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: the device has ended.
    fn insist<R: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Core, Time) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let no_worker = || ControlError::NotFound(format!("there is no worker {worker}"));
        self.shared.workers.get(worker).ok_or_else(no_worker)?.insist(work)
    }

    /// Checks that all workers answer, before a change of several of them begins.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    fn all_answer(&self) -> Result<(), ControlError> {
        (0..self.workers()).try_for_each(|worker| self.ask(worker, |_, _| ()))
    }

    /// A change that all workers make: either it is not begun, or each makes it.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`]: it was not begun, or the device has ended.
    fn ask_all<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ControlError> {
        self.all_answer()?;
        let first = self.ask(0, work.clone())?;
        let others = (1..self.workers()).map(|worker| self.insist(worker, work.clone()));
        std::iter::once(Ok(first)).chain(others).collect()
    }

    /// Runs `work` in a worker between two bursts, without waiting for it.
    fn post(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Core, Time) + Send + 'static,
    ) -> Result<(), ControlError> {
        let ends = self.shared.workers.get(worker);
        ends.map_or(Ok(()), |end| end.push(worker, Box::new(work)))
    }

    /// The device has ended, or a worker of it.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.workers.iter().any(|worker| worker.has_ended())
    }

    /// The contents of the tables now, and every change from then on: see [`follow`](wireyard_tables::follow). It ends
    /// when the program is replaced.
    pub fn follow_tables(&self, capacity: usize) -> (Contents, Follower) {
        self.shared.loader().current().state.tables().follow(capacity)
    }

    /// A call of an action by its name, with arguments.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]. Whether the arguments fit is checked when the call is written.
    pub fn call(&self, action: &str, args: &[u128]) -> Result<ActionCall, ControlError> {
        Ok(ActionCall { action: self.action(action)?, args: args.to_vec() })
    }

    /// Inserts a new entry.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub fn insert(&self, entry: TableEntry) -> Result<(), ControlError> {
        self.write_one(Update::Insert(Entity::TableEntry(entry)))
    }

    /// Changes action, timeout and rates of an entry.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub fn modify(&self, entry: TableEntry) -> Result<(), ControlError> {
        self.write_one(Update::Modify(Entity::TableEntry(entry)))
    }

    /// Deletes an entry.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub fn delete(&self, key: EntryKey) -> Result<(), ControlError> {
        self.write_one(Update::Delete(Entity::TableEntry(TableEntry::of_key(key))))
    }

    /// Writes one update.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub fn write_one(&self, update: Update) -> Result<(), ControlError> {
        Ok(self.write(&[update], Mode::Atomic)?)
    }
}
