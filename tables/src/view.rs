//! A reader's view of one table.

use std::sync::Arc;

use crate::calls::Calls;
use crate::counter::CounterArray;
use crate::direct::Direct;
use crate::entry::{Hit, ProfileId};
use crate::exact::Exact;
use crate::idle::LastHits;
use crate::log::{Log, OpKind};
use crate::lpm::Lpm;
use crate::meter::MeterArray;
use crate::replica::Replay;
use crate::shape::{MatchEngine, TableShape};
use crate::ternary::Ternary;

/// Arrays beside the entries, by slot; shared by both copies of the table.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) counters: Option<CounterArray>,
    pub(crate) meters: Option<MeterArray>,
    pub(crate) last_hits: Option<LastHits>,
}

/// One version of a table; immutable while a reader has it pinned.
#[derive(Clone, Debug)]
pub struct TableView {
    pub(crate) shape: Arc<TableShape>,
    pub(crate) side: Arc<Side>,
    pub(crate) engine: Engine,
    /// `[action, data...]` of the default action.
    default: Box<[u64]>,
    len: u32,
}

/// The engine of a table.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    Direct(Direct),
    Exact(Exact),
    Lpm(Lpm),
    Ternary(Ternary),
}

/// Whether something is stored by slot: counters, meters, times of last hits, or the choice of a profile.
fn keeps_by_slot(shape: &TableShape) -> bool {
    let spec = &shape.spec;
    spec.direct_counter
        || spec.direct_meter.is_some()
        || spec.idle_timeout
        || spec.profile.is_some()
}

impl TableView {
    pub(crate) fn new(shape: Arc<TableShape>, side: Arc<Side>) -> TableView {
        let (words, data_words) = (shape.layout.words(), shape.data_words);
        let places = shape.layout.places();
        let engine = match (shape.engine, shape.lpm) {
            (MatchEngine::Lpm, Some(field)) => {
                let capacity = shape.spec.capacity;
                let calls = Calls::new(data_words, !keeps_by_slot(&shape));
                Engine::Lpm(Lpm::new(words, places, field, capacity, calls, shape.seed))
            }
            (MatchEngine::Ternary, _) => Engine::Ternary(Ternary::new(shape.clone())),
            _ if Direct::suits(&shape.layout) => Engine::Direct(Direct::new(data_words)),
            _ => Engine::Exact(Exact::new(words, data_words, shape.seed)),
        };
        let default = shape.call_words(&shape.spec.default).into();
        TableView { shape, side, engine, default, len: 0 }
    }

    /// The fixed part of the table.
    pub fn shape(&self) -> &TableShape {
        &self.shape
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry that matches, or `None`: then the default action applies. `key` has the words of the
    /// table's layout, with no bit set outside the fields.
    ///
    /// # Panics
    /// If `key` is shorter.
    #[inline]
    pub fn lookup(&self, key: &[u64]) -> Option<Hit<'_>> {
        self.lookup_hashed(self.hash(key), key)
    }

    /// First half of a lookup; 0 for engines that do not hash the whole key.
    #[inline]
    pub fn hash(&self, key: &[u64]) -> u64 {
        match &self.engine {
            Engine::Exact(exact) => exact.hash(key),
            Engine::Direct(_) | Engine::Lpm(_) | Engine::Ternary(_) => 0,
        }
    }

    /// Second half of a lookup.
    #[inline]
    pub fn lookup_hashed(&self, hash: u64, key: &[u64]) -> Option<Hit<'_>> {
        match &self.engine {
            Engine::Direct(direct) => direct.lookup(key[0]),
            Engine::Exact(exact) => exact.lookup_hashed(hash, key),
            Engine::Lpm(lpm) => lpm.lookup(key),
            Engine::Ternary(ternary) => ternary.lookup(key),
        }
    }

    /// Whether a packet must not insert this new key because its probe would be too long.
    pub(crate) fn is_crowded(&self, key: &[u64]) -> bool {
        match &self.engine {
            Engine::Exact(exact) => exact.is_crowded(key),
            Engine::Direct(_) | Engine::Lpm(_) | Engine::Ternary(_) => false,
        }
    }

    /// Size of the memory that lookups search, without action data: cells of an exact table, nodes and buckets of a
    /// trie; 0 for other engines.
    pub fn searched_bytes(&self) -> usize {
        match &self.engine {
            Engine::Exact(exact) => size_of_val(exact.cells.lines()),
            Engine::Lpm(lpm) => size_of_val(lpm.read_by_code().0),
            Engine::Direct(_) | Engine::Ternary(_) => 0,
        }
    }

    /// The memory outside of the caches that generated code will read for this key in a large table, as far as the
    /// cached part shows: a burst of packets can prefetch it before the lookups. `None` where there is none, or no
    /// single address.
    ///
    /// # Panics
    /// If `key` is shorter than a key.
    #[inline]
    pub fn prefetch_address(&self, key: &[u64]) -> Option<*const u8> {
        match &self.engine {
            Engine::Exact(exact) => Some(exact.home_address(exact.hash(key)).cast()),
            Engine::Lpm(lpm) => lpm.behind_root(key),
            Engine::Direct(_) | Engine::Ternary(_) => None,
        }
    }

    /// Action and data of a miss.
    pub fn default_action(&self) -> (u32, &[u64]) {
        (self.default[0] as u32, &self.default[1..])
    }

    pub(crate) fn default_words(&self) -> &[u64] {
        &self.default
    }

    /// The profile that entries point into.
    pub fn profile(&self) -> Option<ProfileId> {
        self.shape.spec.profile
    }

    /// Packets and bytes per entry, if the table has direct counters.
    pub fn counters(&self) -> Option<&CounterArray> {
        self.side.counters.as_ref()
    }

    /// A meter per entry, if the table has direct meters.
    pub fn meters(&self) -> Option<&MeterArray> {
        self.side.meters.as_ref()
    }

    /// When each entry was last hit, if the table supports idle timeouts. The reader records hits
    /// with [`LastHits::touch`].
    pub fn last_hits(&self) -> Option<&LastHits> {
        self.side.last_hits.as_ref()
    }
}

impl Replay for TableView {
    type Log = Log;

    fn replay(&mut self, log: &Log) {
        let split = self.shape.row_words;
        for (head, words) in log.iter() {
            let (row, call) = words.split_at(split);
            match head.kind {
                OpKind::Default => self.default.copy_from_slice(call),
                OpKind::Insert => self.len += 1,
                OpKind::Remove => self.len -= 1,
                OpKind::Modify => {}
            }
            match (&mut self.engine, head.kind) {
                (_, OpKind::Default) => {}
                (Engine::Direct(e), OpKind::Insert) => e.insert(row[0], head.slot, call),
                (Engine::Direct(e), OpKind::Modify) => e.modify(head.slot, call),
                (Engine::Direct(e), OpKind::Remove) => e.remove(row[0]),
                (Engine::Exact(e), OpKind::Insert) => e.insert(row, head.slot, call),
                (Engine::Exact(e), OpKind::Modify) => e.modify(row, head.slot, call),
                (Engine::Exact(e), OpKind::Remove) => e.remove(row),
                (Engine::Lpm(e), OpKind::Insert) => e.insert(row, head.slot, call),
                (Engine::Lpm(e), OpKind::Modify) => e.modify(row, head.slot, call),
                (Engine::Lpm(e), OpKind::Remove) => e.remove(row, head.slot, head.extra as u32),
                (Engine::Ternary(e), OpKind::Insert) => {
                    e.insert(row, head.slot, head.extra, call);
                }
                (Engine::Ternary(e), OpKind::Modify) => e.modify(head.slot, call),
                (Engine::Ternary(e), OpKind::Remove) => e.remove(head.slot),
            }
        }
    }

    fn size(&self) -> usize {
        self.len as usize
    }
}
