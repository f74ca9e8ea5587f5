//! The part of a program's state that belongs to one worker.

use super::{State, action_words};
use crate::externs::random::Stream;
use crate::ids::*;
use crate::ir::Program;
use crate::phv::Phv;
use std::any::{Any, TypeId};
use wireyard_tables::key::MAX_KEY_WORDS;
use wireyard_tables::time::{Span, Time};
use wireyard_tables::{ActionCall, Learned, Reader};

/// The purpose of the stream behind `random(..)`.
const RANDOM: u64 = 0;

/// One worker's part: its view of the tables, its lane, its random numbers, its scratch space, and the entries that the
/// current packet learns.
#[derive(Debug)]
pub struct Worker {
    /// The view of the tables; an engine pins it.
    pub reader: Reader,
    /// Everything else, apart so that it can change while a version of the tables is borrowed.
    pub scratch: PassScratch,
    /// An engine's own data for this worker.
    pub(crate) engine: EngineMemory,
    /// Whose part it is.
    pub(crate) state: u64,
}

/// The working data of a pass.
#[derive(Debug)]
pub struct PassScratch {
    pub(crate) lane: usize,
    pub(crate) phv: Phv,
    /// Bytes of the packet that a capture left out; 0 for a packet in a device.
    pub(crate) missing: u32,
    /// The key under construction.
    pub(crate) key: [u64; MAX_KEY_WORDS],
    random: Stream,
    learns: Vec<Learn>,
    pending: usize,
}

/// An entry to learn at the end of the pass. Reused: there is no allocation once a packet has learned as many entries
/// before.
#[derive(Debug, Default)]
struct Learn {
    table: TableId,
    key: Vec<u64>,
    call: ActionCall,
    idle_timeout: Option<Span>,
}

/// An engine's data for a worker from burst to burst. Its type is the engine's.
#[derive(Debug, Default)]
pub(crate) struct EngineMemory {
    kept: Option<(TypeId, Box<dyn Any + Send>)>,
}

impl EngineMemory {
    /// The data of an engine of this type; data of another type is dropped.
    #[inline]
    pub(crate) fn get<T: Default + Send + 'static>(&mut self) -> &mut T {
        let fits = matches!(&self.kept, Some((kept, _)) if *kept == TypeId::of::<T>());
        if !fits {
            self.kept = Some((TypeId::of::<T>(), Box::<T>::default()));
        }
        let kept = self.kept.as_mut().and_then(|(_, kept)| kept.downcast_mut());
        kept.expect("it was made above")
    }
}

impl Worker {
    pub(super) fn new(state: &State, lane: usize) -> Worker {
        let random = Stream::new(state.seed, RANDOM, lane);
        let phv = Phv::new(&state.program);
        Worker {
            reader: state.tables.reader(),
            scratch: PassScratch {
                lane,
                phv,
                missing: 0,
                key: [0; MAX_KEY_WORDS],
                random,
                learns: Vec::new(),
                pending: 0,
            },
            engine: EngineMemory::default(),
            state: state.id,
        }
    }

    /// Learns the entries recorded by [`PassScratch::learn`], after the packet. The next pin of the reader sees it.
    pub fn apply_learns(&mut self, state: &State, now: Time) {
        let pending = std::mem::take(&mut self.scratch.pending);
        for learn in self.scratch.learns.iter().take(pending) {
            let table = wireyard_tables::TableId(learn.table.0);
            let learned =
                self.reader.learn(table, &learn.key, &learn.call, learn.idle_timeout, now);
            let statistics = state.statistics();
            let tally = match learned {
                Ok(Learned::New(_) | Learned::Moved(_)) => &statistics.learned,
                Ok(Learned::Refreshed(_)) => continue,
                Ok(Learned::Full | Learned::Busy) | Err(_) => &statistics.learn_failures,
            };
            tally.add(self.scratch.lane, learn.table.index(), 0);
        }
    }

    /// Releases the tables; to be called before the worker sleeps, otherwise control-plane writes wait for it.
    pub fn release(&mut self) {
        self.reader.release();
    }
}

impl PassScratch {
    /// This worker's number.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// A random number of `low..=high`.
    pub fn random(&mut self, low: u128, high: u128) -> u128 {
        self.random.in_range(low, high)
    }

    /// True when the current packet has entries to learn.
    pub fn wants_to_learn(&self) -> bool {
        self.pending > 0
    }

    /// Records an entry to insert or refresh once the packet is done.
    pub fn learn(
        &mut self,
        program: &Program,
        table: TableId,
        key: &[u64],
        action: ActionId,
        args: &[u128],
    ) {
        let (Some(declared), Some(code)) = (program.tables.get(table), program.actions.get(action))
        else {
            return;
        };
        if self.pending == self.learns.len() {
            self.learns.push(Learn::default());
        }
        let Some(learn) = self.learns.get_mut(self.pending) else { return };
        self.pending += 1;
        let place = declared.actions.iter().position(|known| *known == action);
        learn.table = table;
        learn.key.clear();
        learn.key.extend_from_slice(key);
        learn.call.action = place.map_or(u32::MAX, |place| place as u32);
        learn.call.data.clear();
        action_words(code, args, &mut learn.call.data);
        let timeout = declared.idle_timeout_ms.filter(|ms| *ms != 0);
        learn.idle_timeout = timeout.map(Span::from_ms);
    }
}
