//! The VM context: the data of generated code, one block of memory per worker with all addresses.
//!
//! Addresses into the state (counters, registers) are valid for the life of the state; those of tables for as long as
//! their snapshot is pinned; those of packet memory for as long as its region is kept here, which is until the worker
//! gets another one; those of the packet for one packet. The owner is the worker, which only one thread uses at a time.
#![allow(unsafe_code)]

use crate::engine::Context;
use crate::exec::{Descriptor, Intrinsic};
use crate::interp::Interp;
use crate::interp::bridge::Scalars;
use crate::ir::Half;
use crate::packet::{BUF_INDEX_BITS, PacketMemory, RegionPin};
use crate::phv::Slot;
use crate::state::{PassScratch, State};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use wireyard_tables::Snapshot;
use wireyard_tables::raw::RawTable;

/// Most values in [`VmContext::values`]: locals of a body, or arguments of a call.
pub(super) const VALUES_MAX: usize = 256;

/// A value of 128 bits as generated code stores it.
pub(super) const VALUE_BYTES: i32 = 16;

/// See the module.
#[repr(C)]
#[derive(Debug)]
pub(super) struct VmContext {
    /// Locals or arguments, for helpers.
    pub(super) values: [u128; VALUES_MAX],
    /// Number of locals among them.
    pub(super) locals: u64,
    /// The pass, for helpers.
    pub(super) scalars: Scalars,
    /// First byte of the chunk of the packet, in generic code; null if it has none.
    pub(super) chunk: *const u8,
    /// First byte of the packet.
    pub(super) data: *mut u8,
    /// Length of the data in bytes.
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
    /// The result of a rarely called helper.
    pub(super) result: u64,
    /// First packet of the burst, and the end of the last one.
    pub(super) burst_first: u64,
    pub(super) burst_stop: u64,
    /// Not zero once the current packet has learned.
    pub(super) learned: u64,
    // Not adjacent: a helper that reads both in one load would stall on the two stores of the code.
    pub(super) hit_slot: u64,
    pub(super) hit_data: *const u64,
    pub(super) hit_action: u64,
    pub(super) chunks: *mut u8,
    pub(super) chunk_refs: *const u32,
    pub(super) chunk_shift: u64,
    /// A packet that ends before this offset of its chunk can run path-specialised code: the bytes after its headers
    /// then begin inside the chunk, even if there are only headers, and at an offset of 16 bits.
    pub(super) chunk_reach: u64,
    /// The handle of chunk 0: a handle minus this is an index; out of range for a handle of another region.
    pub(super) chunk_first: u64,
    pub(super) chunk_count: u64,
    /// Flags of [`crate::exec::OpenPorts`]; none is set in a pass of ingress alone.
    pub(super) open: *const bool,
    pub(super) lane: u64,
    pub(super) half: Half,
    pub(super) cx: *mut Context<'static>,
    pub(super) interp: *const Interp,
    pub(super) ops: *const super::compiled::Tables,
    pub(super) snapshot: *const Snapshot,
}

/// The members of a value set of single values, in order.
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
    /// Count of drops; that of punts follows.
    pub(super) statistics: usize,
}

impl CounterBase {
    pub(super) fn new(counters: usize, tables: usize) -> CounterBase {
        CounterBase { tables: counters, statistics: counters + tables }
    }
}

/// The part of a worker that belongs to compiled code: a context and the arrays it points to.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    inner: Option<Box<Inner>>,
}

/// The fields that are read before every burst are next to the end of the context, which code uses most.
#[derive(Debug)]
#[repr(C, align(64))]
struct Inner {
    vm: VmContext,
    /// The tables and value sets that the context has addresses of.
    bound: Bound,
    /// The packet memory that it has addresses of; kept, so that no other one is mapped there.
    region: Option<RegionPin>,
    tables: Vec<RawTable>,
    counters: Vec<*const AtomicU64>,
    registers: Vec<*const AtomicU64>,
    value_sets: Vec<Members>,
    /// The members that they point to.
    members: Vec<Arc<crate::state::Members>>,
}

/// A snapshot by its address and version, and the version of the value sets. No snapshot has the address 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    snapshot: *const Snapshot,
    tables: u64,
    value_sets: u64,
}

/// What a context is bound to beside its worker: seldom different from last time.
pub(super) struct Home<'a> {
    pub(super) ops: &'a super::compiled::Tables,
    pub(super) interp: &'a Interp,
    pub(super) memory: &'a PacketMemory,
}

// SAFETY: the addresses are of memory that any thread may use as this worker's thread does (atomics,
// and memory of the worker itself), and they are used only through `&mut`.
unsafe impl Send for Scratch {}

impl Scratch {
    /// The context of the worker that `scratch` belongs to, with the addresses of `state` in it, the tables of
    /// `snapshot`, and `home`.
    #[inline]
    pub(super) fn context(
        &mut self,
        state: &State,
        snapshot: &Snapshot,
        scratch: &mut PassScratch,
        home: &Home<'_>,
    ) -> &mut VmContext {
        let inner = self.inner.get_or_insert_with(|| Inner::new(state, scratch.lane));
        let bound =
            Bound { snapshot, tables: snapshot.version(), value_sets: state.value_sets_version() };
        if inner.bound != bound {
            inner.bind(state, snapshot);
            inner.bound = bound;
        }
        if !inner.is_at(home) {
            inner.move_to(scratch, home);
        }
        &mut inner.vm
    }
}

/// See [`VmContext::chunk_reach`].
fn reach(memory: &PacketMemory) -> u64 {
    u64::from(memory.max_chunk_bytes()).min(1 << 16)
}

impl Inner {
    #[inline]
    fn is_at(&self, home: &Home<'_>) -> bool {
        std::ptr::eq(self.vm.ops, home.ops)
            && std::ptr::eq(self.vm.interp, home.interp)
            && self.region.as_ref().is_some_and(|region| region.is_of(home.memory))
    }

    /// Puts the addresses of code, packet memory and the worker's headers into the context.
    #[cold]
    fn move_to(&mut self, scratch: &mut PassScratch, home: &Home<'_>) {
        let vm = &mut self.vm;
        let (bytes, slots, words) = scratch.phv.raw();
        vm.phv_bytes = bytes.as_mut_ptr();
        vm.slots = slots.as_mut_ptr();
        vm.meta_words = words.as_mut_ptr();
        let region = home.memory.region_layout();
        vm.chunks = region.base;
        vm.chunk_refs = region.refs.cast();
        vm.chunk_shift = region.chunk_shift.into();
        vm.chunk_reach = reach(home.memory);
        vm.chunk_first = u64::from(region.tag) << BUF_INDEX_BITS;
        vm.chunk_count = region.chunks.into();
        (vm.interp, vm.ops) = (home.interp, home.ops);
        self.region = Some(home.memory.pin());
    }

    /// Puts the addresses of tables and value sets of this moment into the context.
    #[cold]
    fn bind(&mut self, state: &State, snapshot: &Snapshot) {
        self.tables.clear();
        self.tables.extend(snapshot.tables().map(|table| table.raw()));
        self.members = state.all_members().collect();
        let members = self.members.iter();
        let members = members.map(|m| &m.values);
        let members = members.map(|m| Members { first: m.as_ptr(), count: m.len() as u64 });
        self.value_sets = members.collect();
        let vm = &mut self.vm;
        vm.tables = self.tables.as_ptr();
        vm.counters = self.counters.as_ptr();
        vm.registers = self.registers.as_ptr();
        vm.value_sets = self.value_sets.as_ptr();
        vm.snapshot = snapshot;
    }

    #[cold]
    fn new(state: &State, lane: usize) -> Box<Inner> {
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
        let statistics = state.statistics();
        for tally in [&statistics.drops, &statistics.punts, &statistics.checksum_errors] {
            counters.push(lane_of(tally).unwrap_or(null()));
        }
        let words = |id| state.register(id).map_or(null(), |array| array.words().as_ptr());
        let registers = program.registers.ids().map(words).collect();
        Box::new(Inner {
            vm: VmContext::new(lane),
            tables: Vec::new(),
            counters,
            registers,
            value_sets: Vec::new(),
            members: Vec::new(),
            bound: Bound { snapshot: null(), tables: 0, value_sets: 0 },
            region: None,
        })
    }
}

impl VmContext {
    fn new(lane: usize) -> VmContext {
        VmContext {
            values: [0; VALUES_MAX],
            locals: 0,
            scalars: Scalars::new(0),
            chunk: null(),
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
            hit_data: null(),
            hit_action: 0,
            chunks: null_mut(),
            chunk_refs: null(),
            chunk_shift: 0,
            chunk_reach: 0,
            chunk_first: 0,
            chunk_count: 0,
            open: null(),
            lane: lane as u64,
            half: Half::Ingress,
            cx: null_mut(),
            interp: null(),
            ops: null(),
            snapshot: null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::compiled::Tables;
    use super::*;
    use crate::ids::ActionId;
    use crate::interp::tests::build::{Build, Rig, ethernet_ipv4};
    use crate::packet::MemoryConfig;
    use wireyard_tables::Update;
    use wireyard_tables::key::MatchKind;
    use wireyard_tables::time::Time;

    /// Nothing of the last burst is reused if memory, code or tables differ.
    #[test]
    fn a_context_has_the_addresses_of_this_burst() {
        let mut build = Build::new();
        let (_, ipv4) = ethernet_ipv4(&mut build);
        let (nothing, dst) = (ActionId(0), build.field(ipv4, "dst"));
        build.table("t", &[(dst, MatchKind::Exact)], &[nothing], nothing);
        let mut rig = Rig::new(build.program.clone(), MemoryConfig::default(), 1);
        let program = rig.state.program().clone();
        let memories = [2048, 4096, 2048].map(|chunk_bytes| {
            let config = MemoryConfig { chunks: 16, chunk_bytes, headroom_bytes: 128 };
            PacketMemory::new(config).unwrap()
        });
        let lists = [Tables::default(), Tables::default()];
        let interps = [Interp::new(program.clone()), Interp::new(program)];
        // Each of them in turn is changed.
        for (memory, list, interp) in
            [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 1), (2, 1, 1), (2, 0, 1), (2, 0, 0), (0, 1, 1)]
        {
            let publish = Update::SetDefault(wireyard_tables::TableId(0), None);
            rig.state.tables().batch(&[publish], Time::ZERO).unwrap();
            let (ops, interp, memory) = (&lists[list], &interps[interp], &memories[memory]);
            let home = Home { ops, interp, memory };
            let snapshot = rig.state.tables().snapshot();
            let worker = &mut rig.worker;
            let vm = worker.engine.get::<Scratch>().context(
                &rig.state,
                &snapshot,
                &mut worker.scratch,
                &home,
            );
            let layout = memory.region_layout();
            assert_eq!(vm.chunks, layout.base);
            assert_eq!(vm.chunk_reach, u64::from(memory.config().chunk_bytes));
            assert_eq!(vm.chunk_shift, u64::from(layout.chunk_shift));
            assert_eq!((vm.chunk_refs, vm.chunk_count), (layout.refs.cast(), layout.chunks.into()));
            assert_eq!(vm.chunk_first, u64::from(layout.tag) << BUF_INDEX_BITS);
            assert!(std::ptr::eq(vm.ops, ops) && std::ptr::eq(vm.interp, interp));
            assert!(std::ptr::eq(vm.snapshot, &*snapshot));
        }
    }
}
