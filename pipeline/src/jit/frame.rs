//! What generated code works with: one block of memory per worker, with addresses of everything.
//!
//! Addresses into the state (counters, registers) are good for the life of the state; those of tables
//! for as long as their snapshot is pinned; those of the packet for one packet. The owner is the
//! worker, which only one thread uses at a time.
#![allow(unsafe_code)]

use crate::exec::{Context, Descriptor, Intrinsic};
use crate::interp::Interp;
use crate::interp::bridge::Scalars;
use crate::interp::phv::Slot;
use crate::packet::{BUF_INDEX_BITS, RegionLayout};
use crate::state::State;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use wireyard_tables::Snapshot;
use wireyard_tables::raw::RawTable;

/// Most values in [`Frame::values`]: locals of a body, or arguments of a call.
pub(super) const VALUES_MAX: usize = 256;

/// A value of 128 bits as generated code stores it.
pub(super) const VALUE_BYTES: i32 = 16;

/// See the module.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Frame {
    /// Locals or arguments, for helpers.
    pub(super) values: [u128; VALUES_MAX],
    /// How many of them are locals.
    pub(super) locals: u64,
    /// The pass, for helpers.
    pub(super) scalars: Scalars,
    /// First byte of the packet.
    pub(super) data: *mut u8,
    /// Bytes there.
    pub(super) data_len: u64,
    pub(super) phv_bytes: *mut u8,
    pub(super) slots: *mut Slot,
    pub(super) meta_words: *mut u128,
    pub(super) packet: *mut Descriptor,
    pub(super) intrinsic: *mut Intrinsic,
    /// By table.
    pub(super) tables: *const RawTable,
    /// Lanes of counters, see [`Addresses`].
    pub(super) counters: *const *const AtomicU64,
    /// Words of registers.
    pub(super) registers: *const *const AtomicU64,
    /// Members by value set.
    pub(super) value_sets: *const Members,
    /// What a helper gave that is called rarely.
    pub(super) result: u64,
    /// First packet of the burst, and the end of the last one.
    pub(super) burst_first: u64,
    pub(super) burst_stop: u64,
    /// Not zero once the packet under way has learned.
    pub(super) learned: u64,
    pub(super) hit_slot: u64,
    pub(super) hit_action: u64,
    pub(super) hit_data: *const u64,
    pub(super) chunks: *mut u8,
    pub(super) chunk_refs: *const u32,
    pub(super) chunk_shift: u64,
    pub(super) chunk_bytes: u64,
    /// The handle of chunk 0: a handle less this is an index, and one of another region is none.
    pub(super) chunk_first: u64,
    pub(super) chunk_count: u64,
    /// Flags of [`crate::exec::OpenPorts`]; none is set in a pass of ingress alone.
    pub(super) open: *const bool,
    pub(super) lane: u64,
    pub(super) egress: u64,
    pub(super) cx: *mut Context<'static>,
    pub(super) interp: *const Interp,
    pub(super) ops: *const super::compiled::Tables,
    pub(super) snapshot: *const Snapshot,
}

/// The members of a value set, in order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Members {
    pub(super) first: *const u128,
    pub(super) count: u64,
}

/// Where counters of a program start in the array of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterBase {
    /// Direct counters of table 0.
    pub(super) tables: usize,
    /// Tally of drops; that of punts follows.
    pub(super) tallies: usize,
}

impl CounterBase {
    pub(super) fn new(counters: usize, tables: usize) -> CounterBase {
        CounterBase { tables: counters, tallies: counters + tables }
    }
}

/// The part of a worker that belongs to compiled code: a frame and the arrays it points to.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    inner: Option<Box<Inner>>,
}

#[derive(Debug)]
struct Inner {
    frame: Frame,
    tables: Vec<RawTable>,
    counters: Vec<*const AtomicU64>,
    registers: Vec<*const AtomicU64>,
    value_sets: Vec<Members>,
    /// What they point to.
    members: Vec<Arc<Box<[u128]>>>,
    /// Address and version of the snapshot, and version of the value sets, that the frame has addresses of.
    bound: Option<((usize, u64), u64)>,
}

// SAFETY: the addresses are of memory that any thread may use as this worker's thread does (atomics,
// and memory of the worker itself), and they are used only through `&mut`.
unsafe impl Send for Scratch {}

impl Scratch {
    /// The frame, with the addresses of `state` in it and the tables of `snapshot`.
    pub(super) fn frame(&mut self, state: &State, snapshot: &Snapshot, lane: usize) -> &mut Frame {
        let inner = self.inner.get_or_insert_with(|| Box::new(Inner::new(state, lane)));
        let tables = (std::ptr::from_ref(snapshot) as usize, snapshot.version());
        let bound = Some((tables, state.value_sets_version()));
        if inner.bound != bound {
            inner.bind(state, snapshot);
            inner.bound = bound;
        }
        &mut inner.frame
    }
}

impl Inner {
    /// Puts the addresses of tables and value sets as they are now into the frame.
    #[cold]
    fn bind(&mut self, state: &State, snapshot: &Snapshot) {
        self.tables.clear();
        self.tables.extend(snapshot.tables().map(|table| table.raw()));
        self.members = state.all_members().collect();
        let members = self.members.iter();
        let members = members.map(|m| Members { first: m.as_ptr(), count: m.len() as u64 });
        self.value_sets = members.collect();
        let frame = &mut self.frame;
        frame.tables = self.tables.as_ptr();
        frame.counters = self.counters.as_ptr();
        frame.registers = self.registers.as_ptr();
        frame.value_sets = self.value_sets.as_ptr();
        frame.snapshot = snapshot;
    }

    fn new(state: &State, lane: usize) -> Inner {
        let lane_of = |counters: &wireyard_tables::counter::CounterArray| counters.lane_ptr(lane);
        let program = state.program();
        let mut counters: Vec<*const AtomicU64> = Vec::new();
        for id in program.counters.ids() {
            counters.push(state.counter(id).and_then(lane_of).unwrap_or(null()));
        }
        let snapshot = state.tables().snapshot();
        for table in snapshot.tables() {
            counters.push(table.counters().and_then(lane_of).unwrap_or(null()));
        }
        let tallies = state.tallies();
        for tally in [&tallies.drops, &tallies.punts, &tallies.checksum_errors] {
            counters.push(lane_of(tally).unwrap_or(null()));
        }
        let words = |id| state.register(id).map_or(null(), |array| array.words().as_ptr());
        let registers = program.registers.ids().map(words).collect();
        Inner {
            frame: Frame::new(lane),
            tables: Vec::new(),
            counters,
            registers,
            value_sets: Vec::new(),
            members: Vec::new(),
            bound: None,
        }
    }
}

impl Frame {
    fn new(lane: usize) -> Frame {
        Frame {
            values: [0; VALUES_MAX],
            locals: 0,
            scalars: Scalars::new(0),
            data: null_mut(),
            data_len: 0,
            phv_bytes: null_mut(),
            slots: null_mut(),
            meta_words: null_mut(),
            packet: null_mut(),
            intrinsic: null_mut(),
            tables: null(),
            counters: null(),
            registers: null(),
            value_sets: null(),
            result: 0,
            burst_first: 0,
            burst_stop: 0,
            learned: 0,
            hit_slot: 0,
            hit_action: 0,
            hit_data: null(),
            chunks: null_mut(),
            chunk_refs: null(),
            chunk_shift: 0,
            chunk_bytes: 0,
            chunk_first: 0,
            chunk_count: 0,
            open: null(),
            lane: lane as u64,
            egress: 0,
            cx: null_mut(),
            interp: null(),
            ops: null(),
            snapshot: null(),
        }
    }

    pub(super) fn set_region(&mut self, region: &RegionLayout) {
        self.chunks = region.base;
        self.chunk_refs = region.refs.cast();
        self.chunk_shift = region.chunk_shift.into();
        self.chunk_bytes = 1 << region.chunk_shift;
        self.chunk_first = u64::from(region.tag) << BUF_INDEX_BITS;
        self.chunk_count = region.chunks.into();
    }
}
