//! Threads that run the partitions of one lab at the same time, with the results of one thread.
//!
//! Conservative parallel simulation: a partition runs up to the instant before which no frame can come from another.
//! The clock of each is an instant before which it sends nothing any more; a frame takes at least the delay of its
//! link, the lookahead; so nothing arrives from there before the sum of both. Clocks are null messages in the sense of
//! Chandy and Misra (1979), "Distributed Simulation: A Case Study in Design and Verification of Distributed Programs",
//! in shared memory.
//!
//! Why results do not depend on threads: a poll of a node depends on the node and on frames that have arrived by then,
//! which are complete; frames of a direction arrive in the order in which one partition sent them, and those of
//! different directions are never in one list behind a link. Everything that concerns several nodes (faults, routes,
//! samples, checks) happens between two phases, in the thread of the lab, while no partition runs: all nodes have then
//! handled the events before that time, and none after it. Every node and direction has a random stream of its own.
//! Numbers of chunks in packet memory differ from run to run and reach no output.
//!
//! A thread that waits polls for a while and then sleeps for short times, so that a busy machine runs the thread that
//! it waits for; between phases it sleeps until it is woken.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wireyard_tables::time::{Deadline, Span};

use super::error::LabError;
use super::part::{Halt, Part, Passing};
use crate::sync;

/// Nodes run between two readings of the others' clocks: each reading costs a few cache lines that another
/// processor owns.
const RUNS_PER_CLOCK_READ: u32 = 32;
/// Polls without progress before a thread sleeps: about as long as another thread needs for its nodes.
const SPINS: u32 = 2_000;
/// Polls between two yields, for partitions that share a processor. Few: if other processes need it too, each yield may
/// cost a whole time slice.
const SPINS_TO_YIELD: u32 = 400;
/// How long a thread sleeps that no other thread wakes.
const SLEEP: Duration = Duration::from_micros(50);

/// On a line of memory of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own<T>(T);

/// The result of a partition in a phase.
type Done = (Part, Result<(), Halt>);

/// The data shared by the threads.
struct Shared {
    /// By partition: it sends nothing before this instant except frames that are in the mailboxes of others
    /// ([`Deadline::to_bits`]).
    clocks: Vec<Own<AtomicU64>>,
    /// By partition, frames for it.
    mailboxes: Vec<Own<Mutex<Vec<Passing>>>>,
    /// By partition that receives: those that send to it, and the time that a frame takes at least.
    senders: Vec<Vec<(usize, Span)>>,
    /// Partitions that wait for their thread, or for the lab.
    slots: Vec<Mutex<Option<Done>>>,
    /// Phases begun.
    phase: AtomicU64,
    /// The end of this phase ([`Deadline::to_bits`]).
    limit: AtomicU64,
    /// Number of threads that are done with it.
    done: AtomicUsize,
    /// A partition cannot continue, so the others stop too.
    is_halted: AtomicBool,
    /// No other phase will follow.
    is_over: AtomicBool,
}

/// The threads, one for each partition but the first, which the thread of the lab runs.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// For partitions with this lookahead, by sender and receiver.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub(super) fn new(lookahead: &[Vec<Span>]) -> Result<Workers, LabError> {
        let count = lookahead.len();
        let senders = |to: usize| {
            let all = (0..count).map(|from| (from, lookahead[from][to]));
            all.filter(|&(from, span)| from != to && span != Span::MAX).collect()
        };
        let shared = Arc::new(Shared {
            clocks: (0..count).map(|_| Own::default()).collect(),
            mailboxes: (0..count).map(|_| Own::default()).collect(),
            senders: (0..count).map(senders).collect(),
            slots: (0..count).map(|_| Mutex::new(None)).collect(),
            phase: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            is_halted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let mut workers = Workers { shared, threads: Vec::new() };
        for number in 1..count {
            let shared = Arc::clone(&workers.shared);
            let thread = thread::Builder::new().name(format!("lab-{number}"));
            let thread = thread.spawn(move || shared.work(number));
            workers.threads.push(thread.map_err(LabError::Thread)?);
        }
        Ok(workers)
    }

    /// Runs all partitions up to `limit`, which is not reached. All frames in flight are on their links then.
    ///
    /// # Errors
    /// The error of the first partition that cannot continue.
    pub(super) fn phase(&self, parts: &mut Vec<Part>, limit: Deadline) -> Result<(), Halt> {
        let shared = &self.shared;
        let first = parts.iter().map(Part::next).min().unwrap_or(Deadline::NEVER);
        for clock in &shared.clocks {
            clock.0.store(first.to_bits(), Ordering::Relaxed);
        }
        shared.limit.store(limit.to_bits(), Ordering::Relaxed);
        shared.done.store(0, Ordering::Relaxed);
        for part in parts.drain(1..) {
            part.lease.give();
            let number = part.number;
            *sync::lock(&shared.slots[number]) = Some((part, Ok(())));
        }
        shared.phase.fetch_add(1, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        let mut result = shared.run_partition(&mut parts[0], limit);
        let mut backoff = Backoff::default();
        while shared.done.load(Ordering::Acquire) < self.threads.len() {
            backoff.wait();
        }
        for slot in &shared.slots[1..] {
            let (part, other) = sync::lock(slot).take().expect("a worker of the lab has panicked");
            part.lease.take();
            parts.push(part);
            // A partition that stopped because another did reports nothing.
            if matches!(result, Ok(()) | Err(Halt::Other)) && other.is_err() {
                result = other;
            }
        }
        for part in parts.iter_mut() {
            part.receive(&mut sync::lock(&shared.mailboxes[part.number].0));
        }
        result
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.is_halted.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic was reported by its thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The work of a thread.
    fn work(&self, number: usize) {
        let mut seen = 0;
        loop {
            let mut backoff = Backoff { sleeps: true, ..Backoff::default() };
            while self.phase.load(Ordering::Acquire) == seen {
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                backoff.wait();
            }
            seen += 1;
            let _alarm = PanicGuard(self);
            let Some((mut part, _)) = sync::lock(&self.slots[number]).take() else { return };
            part.lease.take();
            let limit = Deadline::from_bits(self.limit.load(Ordering::Relaxed));
            let result = self.run_partition(&mut part, limit);
            part.lease.give();
            *sync::lock(&self.slots[number]) = Some((part, result));
        }
    }

    /// Runs a partition up to the limit.
    fn run_partition(&self, part: &mut Part, limit: Deadline) -> Result<(), Halt> {
        let number = part.number;
        let mut backoff = Backoff::default();
        loop {
            // Clocks before mailboxes: frames sent before a clock was set are in the mailboxes when it is read.
            let earliest_from = |&(from, span): &(usize, Span)| {
                Deadline::from_bits(self.clocks[from].0.load(Ordering::Acquire)) + span
            };
            let bound =
                self.senders[number].iter().map(earliest_from).min().unwrap_or(Deadline::NEVER);
            part.receive(&mut sync::lock(&self.mailboxes[number].0));
            let until = bound.min(limit);
            let is_ahead = part.next() < until;
            if let Err(halt) = part.run(until, RUNS_PER_CLOCK_READ) {
                self.is_halted.store(true, Ordering::Release);
                return Err(halt);
            }
            for (to, leaving) in part.leaving.iter_mut().enumerate() {
                if !leaving.is_empty() {
                    sync::lock(&self.mailboxes[to].0).append(leaving);
                }
            }
            let next = part.next();
            self.clocks[number].0.store(next.min(bound).to_bits(), Ordering::Release);
            if next >= limit && bound >= limit {
                return Ok(());
            }
            if is_ahead {
                backoff = Backoff::default();
            } else if self.is_halted.load(Ordering::Acquire) {
                return Err(Halt::Other);
            } else {
                backoff.wait();
            }
        }
    }
}

/// Marks a thread as done, even if it panicked, so that the others do not wait for it for ever.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_halted.store(true, Ordering::Release);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

/// State of a waiting thread: it polls, yields, and then sleeps.
#[derive(Default)]
struct Backoff {
    looks: u32,
    /// Another thread wakes it.
    sleeps: bool,
}

impl Backoff {
    fn wait(&mut self) {
        self.looks = self.looks.saturating_add(1);
        match self.looks {
            looks if looks < SPINS && looks % SPINS_TO_YIELD == 0 => thread::yield_now(),
            ..SPINS => std::hint::spin_loop(),
            _ if self.sleeps => thread::park(),
            _ => thread::park_timeout(SLEEP),
        }
    }
}

#[cfg(test)]
mod tests;
