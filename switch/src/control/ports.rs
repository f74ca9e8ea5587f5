//! Adding and removing ports, at the workers that own them or serve queues of them.
//!
//! All changes are one exchange: some ports are removed, others added in their place. Workers that do not own a port
//! first remove their entry of it, so that they send its owner no more packets for it; each owner then removes and adds
//! all of its ports between two bursts; then the other workers add the new ones. The caller opens and closes ports, not
//! the workers, which would wait for the kernel. An exchange begins when all workers have answered; from then on it
//! waits for a late worker, so that all have the same ports in the end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::device::no_port;
use super::{Control, ControlError};
use crate::core::{Core, DeviceError};
use crate::ports::absent::AbsentPort;
use crate::ports::files::CaptureFile;
use crate::ports::{self, Opened, Port, PortNumber, PortSpec, Spread};
use crate::sync::lock;
use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

type Result<T> = std::result::Result<T, ControlError>;

/// A port to be added.
pub(crate) struct NewPort {
    pub(crate) number: PortNumber,
    pub(crate) spec: PortSpec,
    pub(crate) source: PortSource,
}

/// Source of a port.
pub(crate) enum PortSource {
    /// It was opened for this exchange.
    Opened(Opened),
    /// It is the removed port with this number.
    Kept(PortNumber),
}

/// The result of an exchange.
#[derive(Default)]
pub(crate) struct PortChanges {
    /// Ports that were removed, and their queues: to be closed.
    pub(crate) closing: Vec<Box<dyn Port>>,
    /// Errors of removed ports about their last frames.
    pub(crate) errors: BTreeMap<PortNumber, String>,
    /// Messages of the ports that were added, or the error of one that could not be.
    pub(crate) added: BTreeMap<PortNumber, std::result::Result<Vec<String>, DeviceError>>,
    /// Properties of the added ports, for the other workers.
    places: BTreeMap<PortNumber, AbsentPort>,
}

/// Changes of the ports that a worker owns.
#[derive(Default)]
struct OwnChange {
    old: Vec<PortNumber>,
    new: Vec<NewPort>,
}

impl OwnChange {
    fn make(self, core: &mut Core, now: Time) -> PortChanges {
        let (mut changes, mut gone) = (PortChanges::default(), BTreeMap::new());
        for number in self.old {
            match core.detach_port(now, number) {
                Ok((port, error)) => {
                    changes.errors.extend(error.map(|error| (number, error.to_string())));
                    gone.insert(number, port);
                }
                Err(why) => drop(changes.errors.insert(number, why.to_string())),
            }
        }
        for NewPort { number, spec, source } in self.new {
            let opened = match source {
                PortSource::Opened(opened) => opened,
                PortSource::Kept(from) => {
                    let Some(port) = gone.remove(&from) else {
                        changes.added.insert(number, Err(DeviceError::NoPort(from)));
                        continue;
                    };
                    let port = ports::decorate_again(&spec, port, 0, core.memory());
                    Opened { port, queues: Vec::new(), notices: Vec::new() }
                }
            };
            let place = AbsentPort::like(opened.port.as_ref());
            let added = core.add_opened(number, &spec, opened);
            if added.is_ok() {
                changes.places.insert(number, place);
            }
            changes.added.insert(number, added);
        }
        changes.closing.extend(gone.into_values());
        changes
    }
}

/// A queue of a port at a worker that does not own it.
struct Queue {
    number: PortNumber,
    worker: usize,
    port: Box<dyn Port>,
}

impl Control {
    /// Default number of queues of a port that is added while the device runs.
    pub(crate) fn spread(&self) -> Spread {
        Spread { each: 1, ..Spread::of(1, self.workers()) }
    }

    /// Opens a port and adds it to the device; returns messages for the user about it. Its owner is the worker that
    /// owned its number before, the one that writes its capture, or the one with the fewest ports. With queues (`qos:`), a port that the configuration
    /// does not name has no rate and sends no pauses.
    ///
    /// # Errors
    /// [`ControlError::AlreadyExists`]: the number is taken, or its output or capture exists;
    /// [`ControlError::FailedPrecondition`]: it cannot be opened, or a file of its own is in use or cannot be written.
    pub fn add_port(&self, number: PortNumber, spec: &PortSpec) -> Result<Vec<String>> {
        let mut memory =
            self.ask(0, move |core, _| match core.ports().worker_of(number, core.mesh.me()) {
                Some(_) => {
                    Err(ControlError::AlreadyExists(format!("port {number} exists already")))
                }
                None => Ok(core.memory().worker()),
            })??;
        let mut spec = spec.clone();
        let _one_at_a_time = lock(&self.shared.adding);
        self.check_files(number, &mut spec)?;
        let failed = |error: ports::PortError| ControlError::FailedPrecondition(error.to_string());
        let opened = ports::open_spread(&spec, &memory, self.spread()).map_err(failed)?;
        let capture = spec.capture.clone();
        let new = NewPort { number, spec, source: PortSource::Opened(opened) };
        let mut changes = self.exchange_ports(&mut memory, &[], vec![new])?;
        close(changes.closing, &mut memory);
        let added = changes.added.remove(&number).unwrap_or(Ok(Vec::new()));
        let notices = added.map_err(ControlError::invalid)?;
        capture.iter().for_each(|file| self.drop_ended_captures(file));
        Ok(notices)
    }

    /// Like [`Control::add_port`] for a port that is open already, on the packet memory of the device, at worker 0: a
    /// port in memory, or of a kind outside of this crate.
    ///
    /// # Errors
    /// As [`Control::add_port`].
    pub fn add_open_port(&self, number: PortNumber, port: Box<dyn Port + Send>) -> Result<()> {
        let _one_at_a_time = lock(&self.shared.specs);
        let refused = |error: DeviceError| match &error {
            DeviceError::PortTaken(_) => ControlError::AlreadyExists(error.to_string()),
            _ => ControlError::invalid(error),
        };
        let place = AbsentPort::like(port.as_ref());
        // A device that does not answer has ended, and its packet memory with it.
        let mut memory = self.ask(0, |core, _| core.memory().worker())?;
        if let Err(why) = self.owned() {
            close([port as Box<dyn Port>], &mut memory);
            return Err(why);
        }
        self.insist(0, move |core, _| core.add_port(number, port))?.map_err(refused)?;
        for worker in 1..self.workers() {
            let place = place.clone();
            let added = self.insist(worker, move |core, _| core.add_elsewhere(number, 0, place))?;
            added.map_err(refused)?;
        }
        Ok(())
    }

    /// Removes a port from the device and closes it: packets queued for it are dropped, other ports lose nothing.
    /// Returns errors about its last frames.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn remove_port(&self, number: PortNumber) -> Result<Vec<String>> {
        let mut memory = self.ask(0, |core, _| core.memory().worker())?;
        let changes = self.exchange_ports(&mut memory, &[number], Vec::new())?;
        close(changes.closing, &mut memory);
        Ok(changes.errors.into_values().collect())
    }

    /// Removes ports and adds others. On failure nothing is changed, unless the device has ended, and all ports without
    /// a place are closed, in `memory`.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: an old port; [`ControlError::AlreadyExists`]: a new one;
    /// [`ControlError::FailedPrecondition`]: two workers would write one capture; [`ControlError::Unavailable`].
    pub(crate) fn exchange_ports(
        &self,
        memory: &mut PacketMemory,
        old: &[PortNumber],
        new: Vec<NewPort>,
    ) -> Result<PortChanges> {
        let mut open = lock(&self.shared.specs);
        let taken = |one: &&NewPort| !old.contains(&one.number) && self.owner(one.number).is_ok();
        if let Some(number) = new.iter().find(taken).map(|one| one.number) {
            close(opened(new), memory);
            return Err(ControlError::AlreadyExists(format!("port {number} exists already")));
        }
        let (owners, places) = match self.owners(old, &new) {
            Ok(found) => found,
            Err(error) => {
                close(opened(new), memory);
                return Err(error);
            }
        };
        let specs: Vec<_> = new.iter().map(|one| (one.number, one.spec.clone())).collect();
        let (mut all, mut queues) = (PortChanges::default(), Vec::new());
        if let Err(why) = self.take_queues(&owners, &mut queues) {
            close(opened(new).chain(queues.into_iter().map(|queue| queue.port)), memory);
            return Err(why);
        }
        let (own, others) = self.deal(&owners, new.into_iter().zip(places), &mut queues);
        all.closing.extend(queues.into_iter().map(|queue| queue.port));
        match self.make(own, others, &mut all) {
            Ok(()) => {
                open.retain(|number, _| !old.contains(number));
                let is_there = |number| matches!(all.added.get(&number), Some(Ok(_)));
                open.extend(specs.into_iter().filter(|(number, _)| is_there(*number)));
                Ok(all)
            }
            Err(why) => {
                close(all.closing, memory);
                Err(why)
            }
        }
    }

    /// The specifications of the open ports that have one.
    pub(crate) fn port_specs(&self) -> BTreeMap<PortNumber, PortSpec> {
        lock(&self.shared.specs).clone()
    }

    /// The workers of the removed ports, by number, and of the added ones, in their order.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: a port to be removed, or to be kept under another number;
    /// [`ControlError::FailedPrecondition`]: two workers would write one capture; [`ControlError::Unavailable`].
    fn owners(
        &self,
        old: &[PortNumber],
        new: &[NewPort],
    ) -> Result<(BTreeMap<PortNumber, usize>, Vec<usize>)> {
        let owners = old.iter().map(|number| Ok((*number, self.owner(*number)?)));
        let owners = owners.collect::<Result<BTreeMap<PortNumber, usize>>>()?;
        let mut owned = self.owned()?;
        let mut writers = match new.iter().any(|one| one.spec.capture.is_some()) {
            true => self.capture_writers()?,
            false => BTreeMap::new(),
        };
        let place = |one: &NewPort| {
            let file = one.spec.capture.as_ref();
            let writer = file.and_then(|file| writers.get(file)).copied();
            let owner = match &one.source {
                PortSource::Kept(from) => {
                    owners.get(from).copied().ok_or_else(|| no_port(*from))?
                }
                PortSource::Opened(_) => self.owner_for(one.number, writer, &mut owned)?,
            };
            if let Some(file) = file
                && *writers.entry(file.clone()).or_insert(owner) != owner
            {
                return Err(ControlError::FailedPrecondition(format!(
                    "port {} and the other ports in {} belong to different workers: name another file",
                    one.number,
                    file.display()
                )));
            }
            Ok(owner)
        };
        let places = new.iter().map(place).collect::<Result<_>>()?;
        Ok((owners, places))
    }

    /// The changes of each worker to its own ports, and to those of others; leaves in `queues` those of removed ports.
    fn deal(
        &self,
        owners: &BTreeMap<PortNumber, usize>,
        new: impl Iterator<Item = (NewPort, usize)>,
        queues: &mut Vec<Queue>,
    ) -> (BTreeMap<usize, OwnChange>, Vec<OtherWorkers>) {
        let (mut own, mut others) = (BTreeMap::<usize, OwnChange>::new(), Vec::new());
        for (number, owner) in owners {
            own.entry(*owner).or_default().old.push(*number);
        }
        for (mut one, owner) in new {
            let (number, mut coming, mut spec) = (one.number, Vec::new(), None);
            match &mut one.source {
                PortSource::Kept(from) => {
                    coming.extend(queues.extract_if(.., |queue| queue.number == *from));
                    spec = Some(one.spec.clone());
                }
                PortSource::Opened(opened) => {
                    let worker = |n: usize| (owner + 1 + n) % self.workers();
                    let queues = opened.queues.drain(..).enumerate();
                    coming.extend(queues.map(|(n, port)| Queue {
                        number,
                        worker: worker(n),
                        port,
                    }));
                }
            }
            others.push(OtherWorkers { number, owner, spec, queues: coming });
            own.entry(owner).or_default().new.push(one);
        }
        (own, others)
    }

    /// Executes the change in the workers. From the first failure on, opened and removed ports are only collected in
    /// `all.closing`.
    fn make(
        &self,
        own: BTreeMap<usize, OwnChange>,
        others: Vec<OtherWorkers>,
        all: &mut PortChanges,
    ) -> Result<()> {
        let mut done = Ok(());
        for (worker, change) in own {
            if done.is_err() {
                all.closing.extend(opened(change.new));
                continue;
            }
            match self.insist(worker, move |core, now| change.make(core, now)) {
                Ok(changes) => {
                    all.closing.extend(changes.closing);
                    all.errors.extend(changes.errors);
                    all.added.extend(changes.added);
                    all.places.extend(changes.places);
                }
                Err(why) => done = Err(why),
            }
        }
        for one in others {
            match done {
                Ok(()) => done = self.add_at_others(one, all),
                Err(_) => all.closing.extend(one.queues.into_iter().map(|queue| queue.port)),
            }
        }
        done
    }

    /// Removes these ports from the workers that do not own them; their queues are added to `queues`.
    fn take_queues(
        &self,
        owners: &BTreeMap<PortNumber, usize>,
        queues: &mut Vec<Queue>,
    ) -> Result<()> {
        for worker in 0..self.workers() {
            let others = owners.iter().filter(|(_, owner)| **owner != worker);
            let numbers: Vec<PortNumber> = others.map(|(number, _)| *number).collect();
            if numbers.is_empty() {
                continue;
            }
            let take = move |core: &mut Core, now| {
                let queue =
                    |number| Some(Queue { number, worker, port: core.detach_queue(now, number)? });
                numbers.into_iter().filter_map(queue).collect::<Vec<_>>()
            };
            queues.extend(self.insist(worker, take)?);
        }
        Ok(())
    }

    /// Adds a port to the workers that do not own it: with their queue of it, or only its properties.
    fn add_at_others(&self, one: OtherWorkers, changes: &mut PortChanges) -> Result<()> {
        let OtherWorkers { number, owner, spec, mut queues } = one;
        // The owner could not add the port.
        let Some(place) = changes.places.get(&number) else {
            changes.closing.extend(queues.into_iter().map(|queue| queue.port));
            return Ok(());
        };
        for worker in (0..self.workers()).filter(|worker| *worker != owner) {
            let queue = queues.extract_if(.., |queue| queue.worker == worker).next();
            let (place, spec) = (place.clone(), spec.clone());
            let queue_number = ((worker + self.workers() - owner) % self.workers()) as u64;
            let added = self.insist(worker, move |core, _| match queue {
                Some(Queue { mut port, .. }) => {
                    if let Some(spec) = spec {
                        port = ports::decorate_again(&spec, port, queue_number, core.memory());
                    }
                    core.add_queue(number, owner as u8, port)
                }
                None => core.add_elsewhere(number, owner as u8, place),
            });
            let refused = |error: DeviceError| ControlError::invalid(error);
            if let Err(why) = added.and_then(|added| added.map_err(refused)) {
                changes.closing.extend(queues.into_iter().map(|queue| queue.port));
                return Err(why);
            }
        }
        Ok(())
    }

    /// Number of ports of each worker.
    fn owned(&self) -> Result<Vec<usize>> {
        let count = |core: &mut Core, _| core.ports().owned_numbers().len();
        (0..self.workers()).map(|worker| self.ask(worker, count)).collect()
    }

    /// The workers that write captures into which ports may be recorded.
    fn capture_writers(&self) -> Result<BTreeMap<PathBuf, usize>> {
        let of_worker = |(worker, files): (usize, Vec<CaptureFile>)| {
            let files = files.into_iter().filter(|file| file.takes_ports);
            files.map(move |file| (file.path, worker))
        };
        Ok(self.capture_files()?.into_iter().enumerate().flat_map(of_worker).collect())
    }

    /// The worker that is to own a new port, and `writer` the one that writes its capture; `owned` has the number of
    /// ports of each worker.
    fn owner_for(
        &self,
        number: PortNumber,
        writer: Option<usize>,
        owned: &mut [usize],
    ) -> Result<usize> {
        let former =
            self.ask(0, move |core, _| core.ports().former_worker_of(number, core.mesh.me()))?;
        let fewest = owned.iter().enumerate().min_by_key(|(_, ports)| **ports);
        let owner = former.or(writer).or(fewest.map(|(worker, _)| worker)).unwrap_or(0);
        owned[owner] += 1;
        Ok(owner)
    }
}

/// Closes ports that no worker has any more.
pub(crate) fn close(ports: impl IntoIterator<Item = Box<dyn Port>>, memory: &mut PacketMemory) {
    ports.into_iter().for_each(|mut port| port.close(memory));
}

/// All queues of the ports that were opened.
fn opened(new: Vec<NewPort>) -> impl Iterator<Item = Box<dyn Port>> {
    let opened = new.into_iter().filter_map(|one| match one.source {
        PortSource::Opened(opened) => Some(opened),
        PortSource::Kept(_) => None,
    });
    opened.flat_map(|one| std::iter::once(one.port).chain(one.queues))
}

/// The entries of a port at the workers that do not own it.
struct OtherWorkers {
    number: PortNumber,
    owner: usize,
    /// For a port that was open before, the specification of its cable.
    spec: Option<PortSpec>,
    queues: Vec<Queue>,
}
