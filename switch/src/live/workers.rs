//! The workers of a live switch: their threads, wakes, common requests and end.
//!
//! The first worker is the thread that called, with its loop in [`super::run`]; the others run
//! [`work`] here. They share nothing but flags, event descriptors and the rings between their devices. Statistics are
//! taken while all stand still, so that they add up.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wireyard_tables::time::{Span, Time};

use super::ready::Ready;
use super::sleep::Sleeper;
use super::{LiveError, Pace, Scheduling, next_wait};
use crate::core::{Core, Message, ProgramReport, Progress, Statistics};
use crate::ports::sys::event_fd::EventFd;
use crate::sync::{self, lock, lock_soon};

/// The state of one worker that the others read.
#[derive(Debug)]
struct WorkerSlot {
    wake_fd: EventFd,
    /// Other workers signal when it sleeps and they have frames for it.
    sleeper: Sleeper,
    /// All its input has ended and no packet waits.
    finished: AtomicBool,
    /// Its counters at the last request.
    statistics: Mutex<Option<Statistics>>,
}

/// The data shared by all workers.
#[derive(Debug)]
pub(super) struct Shared {
    began: Instant,
    /// Wall-clock time at that moment, nanoseconds since 1970.
    began_ns: u64,
    slots: Vec<WorkerSlot>,
    stop: AtomicBool,
    asked: AtomicBool,
    barrier: Barrier,
    messages: Mutex<Vec<Message>>,
    has_messages: AtomicBool,
}

/// All workers of a switch, for the first one.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<(Core, Result<(), LiveError>)>>,
    /// Counters of the others when they ended.
    last: Vec<Statistics>,
}

impl Workers {
    /// Only the caller, without a change of its scheduling.
    ///
    /// # Errors
    /// Too many open files.
    pub fn one() -> io::Result<Workers> {
        Workers::start(Vec::new(), None)
    }

    /// The caller, and a thread for each of `others`, all scheduled alike.
    ///
    /// # Errors
    /// No thread or open file is left, or the system refuses the scheduling.
    pub fn start(others: Vec<Core>, scheduling: Option<Scheduling>) -> io::Result<Workers> {
        let slot = || -> io::Result<WorkerSlot> {
            Ok(WorkerSlot {
                wake_fd: EventFd::new()?,
                sleeper: Sleeper::default(),
                finished: AtomicBool::new(false),
                statistics: Mutex::default(),
            })
        };
        let slots = (0..=others.len()).map(|_| slot()).collect::<io::Result<Vec<_>>>();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            began_ns: crate::time_of_day::now_ns(),
            slots: slots?,
            stop: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            barrier: Barrier::default(),
            messages: Mutex::default(),
            has_messages: AtomicBool::new(false),
        });
        let mut workers = Workers { shared, threads: Vec::new(), last: Vec::new() };
        scheduling.map_or(Ok(()), Scheduling::apply)?;
        for (index, mut core) in others.into_iter().enumerate() {
            core.captures().files.set_origin(workers.shared.began_ns);
            let (shared, me) = (Arc::clone(&workers.shared), index + 1);
            Shared::wakes(&shared, me, &core);
            let thread = thread::Builder::new()
                .name(format!("worker {}", me + 1))
                .spawn(move || work(core, &shared, me, scheduling))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The counters of all workers together; `first` is the caller's device. All workers stop meanwhile.
    pub fn statistics(&self, first: &mut Core) -> Statistics {
        let all = self.own_statistics(first);
        Statistics { program: first.generation().map(|current| ProgramReport::of(current)), ..all }
    }

    /// The same without the program's counters, for which no worker stops.
    pub fn own_statistics(&self, first: &mut Core) -> Statistics {
        let is_asked = !self.threads.is_empty() && !self.shared.is_stopped();
        if !is_asked || !self.shared.ask() {
            let mut all = Statistics::of_worker(first);
            self.last.iter().for_each(|statistics| all.merge(statistics));
            return all;
        }
        let mut all = Statistics::of_worker(first);
        self.shared.answers().iter().for_each(|statistics| all.merge(statistics));
        all
    }

    /// Ends the other workers, drains all queues and closes all ports.
    ///
    /// # Errors
    /// An error of one of them.
    pub(super) fn finish(&mut self, first: &mut Core) -> Result<(), LiveError> {
        let (mut others, failure) = self.stop();
        let lost = super::drain(first, &mut others, || self.shared.now());
        let last = others.iter_mut().flat_map(|core| core.ports_mut().take_messages());
        lock(&self.shared.messages).extend(last);
        self.shared.has_messages.store(true, Ordering::Relaxed);
        self.last = others.iter_mut().map(Statistics::of_worker).collect();
        failure.or(lost.map(LiveError::Output)).map_or(Ok(()), Err)
    }

    /// Ends the other workers: returns their devices, and an error of one.
    fn stop(&mut self) -> (Vec<Core>, Option<LiveError>) {
        self.shared.stop();
        let (mut cores, mut failure) = (Vec::new(), None);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok((core, result)) => {
                    cores.push(core);
                    failure = failure.or(result.err());
                }
                Err(_) => failure = Some(LiveError::Defect),
            }
        }
        (cores, failure)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Shared {
    /// The time of all workers.
    pub(super) fn now(&self) -> Time {
        Time::from_ns(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Wall-clock time at time zero, in nanoseconds since 1970.
    pub(super) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.barrier.abandon();
        self.wake_all();
    }

    /// Stops all at a barrier; false: one of them has ended.
    fn ask(&self) -> bool {
        self.asked.store(true, Ordering::SeqCst);
        self.wake_all();
        self.barrier.wait(self.slots.len())
    }

    /// The counters of the others, which continue after it.
    fn answers(&self) -> Vec<Statistics> {
        self.asked.store(false, Ordering::SeqCst);
        self.barrier.wait(self.slots.len());
        self.slots.iter().filter_map(|slot| lock(&slot.statistics).take()).collect()
    }

    /// Lets the control of a worker's device wake the worker.
    pub(super) fn wakes(shared: &Arc<Shared>, me: usize, core: &Core) {
        let shared = Arc::clone(shared);
        if let Some(link) = &core.control {
            link.wake_by(Box::new(move || shared.wake(1 << me)));
        }
    }

    fn wake_all(&self) {
        self.slots.iter().for_each(|slot| slot.wake_fd.signal());
    }

    /// Wakes the workers, bit by number, that were given frames.
    pub(super) fn wake(&self, workers: u64) {
        if workers == 0 {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            if workers >> index & 1 == 1 && slot.sleeper.must_wake() {
                slot.wake_fd.signal();
            }
        }
    }

    /// The waiter for frames on a worker's ports.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn ready(&self, me: usize) -> io::Result<Ready> {
        Ready::with(self.wake_fd(me)?)
    }

    fn wake_fd(&self, me: usize) -> io::Result<&EventFd> {
        self.slots.get(me).map(|slot| &slot.wake_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Moves the pending frames of the ports that have any.
    pub(super) fn poll(
        &self,
        me: usize,
        core: &mut Core,
        now: Time,
        ready: &mut Ready,
    ) -> io::Result<Progress> {
        ready.watch(core, false)?;
        let progress = core.poll_readable(now, ready.numbers(self.wake_fd(me)?)?);
        self.wake(core.mesh.take_wakes());
        Ok(progress)
    }

    /// Sleeps until a frame arrives, another worker signals, or the time is over.
    pub(super) fn sleep(
        &self,
        me: usize,
        core: &mut Core,
        most: Span,
        ready: &mut Ready,
    ) -> io::Result<()> {
        let Some(slot) = self.slots.get(me) else { return Ok(()) };
        core.before_sleep();
        let has_work = || {
            core.mesh.has_pending()
                || core.control.as_ref().is_some_and(|link| link.has_commands())
                || self.asked.load(Ordering::Relaxed)
                || self.is_stopped()
        };
        let most = Duration::from_nanos(most.as_ns());
        let slept = slot.sleeper.sleep_unless(has_work, || ready.sleep(&slot.wake_fd, most));
        slept.unwrap_or(Ok(()))
    }

    /// Records whether a worker has finished; true when all have.
    pub(super) fn finished(&self, me: usize, is_finished: bool) -> bool {
        if let Some(slot) = self.slots.get(me) {
            slot.finished.store(is_finished, Ordering::SeqCst);
        }
        self.slots.iter().all(|slot| slot.finished.load(Ordering::SeqCst))
    }

    /// Messages of the other workers.
    pub(super) fn take_messages(&self) -> Vec<Message> {
        if !self.has_messages.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Otherwise with the next poll.
        let Some(mut messages) = lock_soon(&self.messages) else { return Vec::new() };
        self.has_messages.store(false, Ordering::Relaxed);
        std::mem::take(&mut *messages)
    }

    /// Leaves messages for the first worker, if no other worker is doing so: then they stay.
    fn give_messages(&self, messages: &mut Vec<Message>) {
        if !messages.is_empty()
            && let Some(mut all) = lock_soon(&self.messages)
        {
            all.append(messages);
            self.has_messages.store(true, Ordering::Relaxed);
        }
    }

    /// Stops at the barrier if requested, with its statistics for the first.
    fn answer(&self, me: usize, core: &mut Core) {
        if !self.asked.load(Ordering::SeqCst) || !self.barrier.wait(self.slots.len()) {
            return;
        }
        if let Some(slot) = self.slots.get(me) {
            *lock(&slot.statistics) = Some(Statistics::of_worker(core));
        }
        self.barrier.wait(self.slots.len());
    }
}

/// Ends the switch when a worker's thread ends, however it does.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The loop of every worker except the first.
fn work(
    mut core: Core,
    shared: &Shared,
    me: usize,
    scheduling: Option<Scheduling>,
) -> (Core, Result<(), LiveError>) {
    let _leaving = Leaving(shared);
    let result = scheduling
        .map_or(Ok(()), Scheduling::apply)
        .and_then(|()| poll_until_stopped(&mut core, shared, me))
        .map_err(|source| LiveError::Worker { worker: me + 1, source });
    (core, result)
}

/// The loop; what it has to report at its end is left for the first worker.
fn poll_until_stopped(core: &mut Core, shared: &Shared, me: usize) -> io::Result<()> {
    let mut messages = Vec::new();
    let ended = poll_and_report(core, shared, me, &mut messages);
    messages.extend(core.ports_mut().take_messages());
    lock(&shared.messages).append(&mut messages);
    shared.has_messages.store(true, Ordering::Relaxed);
    ended
}

fn poll_and_report(
    core: &mut Core,
    shared: &Shared,
    me: usize,
    messages: &mut Vec<Message>,
) -> io::Result<()> {
    let (mut pace, mut ready) = (Pace::default(), shared.ready(me)?);
    while !shared.is_stopped() {
        let now = shared.now();
        let progress = shared.poll(me, core, now, &mut ready)?;
        shared.answer(me, core);
        if pace.is_check_due(now) {
            core.check_links(now);
            ready.watch(core, true)?;
            shared.finished(me, core.is_finished(now));
        }
        messages.extend(core.ports_mut().take_messages());
        shared.give_messages(messages);
        if let Some(sleep) = pace.sleep_after(now, &progress, || next_wait(core, now)) {
            shared.sleep(me, core, sleep, &mut ready)?;
        }
    }
    Ok(())
}

/// A barrier for all workers; unlike `std::sync::Barrier` it ends when one of them ends.
#[derive(Debug, Default)]
struct Barrier {
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BarrierState {
    waiting: usize,
    round: u64,
    /// A worker has ended.
    is_abandoned: bool,
}

impl Barrier {
    /// Waits until `parties` wait. False: one of the workers has ended.
    fn wait(&self, parties: usize) -> bool {
        let mut state = lock(&self.state);
        if state.is_abandoned {
            return false;
        }
        let round = state.round;
        state.waiting += 1;
        if state.waiting == parties {
            state.waiting = 0;
            state.round += 1;
            self.changed.notify_all();
            return true;
        }
        while state.round == round && !state.is_abandoned {
            state = sync::wait(&self.changed, state);
        }
        state.round != round
    }

    fn abandon(&self) {
        lock(&self.state).is_abandoned = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Topic;

    #[test]
    fn messages_wait_for_the_lock_and_their_worker_does_not() {
        let workers = Workers::one().unwrap();
        let shared = workers.shared();
        let mut messages = vec![Message { topic: Topic::IdleEntries, text: "one".to_owned() }];
        let held = lock(&shared.messages);
        shared.give_messages(&mut messages);
        assert_eq!(messages.len(), 1, "for the next poll");
        drop(held);
        shared.give_messages(&mut messages);
        assert!(messages.is_empty());
        let held = lock(&shared.messages);
        assert!(shared.take_messages().is_empty());
        drop(held);
        assert_eq!(shared.take_messages().len(), 1);
    }
}
