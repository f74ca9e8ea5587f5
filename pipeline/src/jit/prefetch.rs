//! Prefetch: cache lines of tables that outgrow the caches are loaded before a burst is run.
//!
//! Packet by packet, compiled code waits for one line of a table at a time; prefetched, the lines are loaded in
//! parallel. It is only a hint, so a guess is enough: a header is assumed at its offset on the shortest path to it
//! through the parser, and a table whose key is not all header fields there, the ingress port and constants is not
//! prefetched. Small tables are in the caches and would have only the cost: see [`LEAST_BYTES`].
#![allow(unsafe_code)]

use super::compiled::Facts;
use crate::engine::Context;
use crate::exec::Descriptor;
use crate::ids::*;
use crate::ir::layout::{FieldLayout, ones};
use crate::ir::{ExprKind, ParserOp, Program, StdField, Target, Term};
use crate::packet::PacketMemory;
use std::collections::VecDeque;
use wireyard_tables::prefetch::prefetch_line;
use wireyard_tables::raw::Layout;
use wireyard_tables::{BitRange, Snapshot, TableView};

/// Tables that search less memory are not prefetched: measured with `benches/prefetch` on a machine with 1 MiB of
/// second-level cache for each processor and 32 MiB of third-level cache for both.
pub const LEAST_BYTES: usize = 6 << 20;
/// A table of at most this capacity never searches that much.
const SMALL_SIZE: u32 = 1 << 15;
/// Words of a key.
const KEY_WORDS_MAX: usize = 2;

/// The tables of a program for which prefetching pays once they are large.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    tables: Vec<Fetched>,
    /// Tables whose declared size is too small for it.
    small: Vec<Fetched>,
    least_bytes: usize,
}

#[derive(Debug)]
struct Fetched {
    table: wireyard_tables::TableId,
    parts: Vec<(Source, BitRange)>,
}

/// A part of a key.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Bits of the big-endian word at this byte of the packet.
    Word {
        at: usize,
        shift: u32,
        mask: u64,
    },
    IngressPort,
    Const(u64),
}

impl Prefetch {
    /// Selects the tables that ingress applies.
    pub(super) fn new(program: &Program, facts: &Facts) -> Prefetch {
        let starts = header_starts(program);
        let applied = program.ingress.blocks.iter().filter_map(|block| match &block.term {
            Term::Apply { table, .. } => Some(*table),
            _ => None,
        });
        let (mut tables, mut small): (Vec<Fetched>, Vec<Fetched>) = (Vec::new(), Vec::new());
        for id in applied {
            let known = &facts.tables[id.index()];
            let keys = &program.tables[id].keys;
            let is_laid_out = matches!(known.layout, Layout::Exact { .. } | Layout::Lpm { .. });
            let table = wireyard_tables::TableId(id.index() as u32);
            let into = if program.tables[id].size > SMALL_SIZE { &mut tables } else { &mut small };
            let is_known = into.iter().any(|other| other.table == table);
            if !is_laid_out || is_known || known.key_words > KEY_WORDS_MAX {
                continue;
            }
            let source = |key: &crate::ir::Key| source(program, &starts, key.value);
            let parts = keys.iter().zip(&known.places);
            let parts: Option<Vec<_>> =
                parts.map(|(key, place)| Some((source(key)?, *place))).collect();
            if let Some(parts) = parts {
                into.push(Fetched { table, parts });
            }
        }
        Prefetch { tables, small, least_bytes: LEAST_BYTES }
    }

    /// Tables that search less memory are not prefetched from now on. With 0 all are, however small.
    pub(super) fn set_least_bytes(&mut self, bytes: usize) {
        self.least_bytes = bytes;
        if bytes == 0 {
            self.tables.append(&mut self.small);
        }
    }

    /// Prefetches the lines that these packets will need.
    #[inline(always)]
    pub(super) fn ahead(&self, cx: &mut Context<'_>, packets: &[Descriptor]) {
        if packets.len() >= 2 && !self.tables.is_empty() {
            self.of_burst(cx, packets);
        }
    }

    #[inline(never)]
    fn of_burst(&self, cx: &mut Context<'_>, packets: &[Descriptor]) {
        self.lines(cx.worker.reader.pin(), cx.memory, packets, prefetch_line);
    }

    #[inline]
    fn lines(
        &self,
        tables: &Snapshot,
        memory: &PacketMemory,
        packets: &[Descriptor],
        mut prefetch: impl FnMut(*const u8),
    ) {
        for fetched in &self.tables {
            let Some(view) = tables.table(fetched.table) else { continue };
            if view.searched_bytes() < self.least_bytes {
                continue;
            }
            match fetched.parts[..] {
                // One field, as a rule: then there is no loop in the loop.
                [part] => lines(view, memory, packets, &[part], &mut prefetch),
                _ => lines(view, memory, packets, &fetched.parts, &mut prefetch),
            }
        }
    }
}

/// The line of each packet, if its headers are at the assumed offsets.
#[inline(always)]
fn lines(
    view: &TableView,
    memory: &PacketMemory,
    packets: &[Descriptor],
    parts: &[(Source, BitRange)],
    mut prefetch: impl FnMut(*const u8),
) {
    for packet in packets {
        let Some(buf) = &packet.buf else { continue };
        let bytes = memory.frame(buf, packet.data_off, packet.len);
        let mut key = [0; KEY_WORDS_MAX];
        for (source, place) in parts {
            let value = match *source {
                Source::Word { at, shift, mask } => {
                    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
                    u64::from_be_bytes(word.copied().unwrap_or_default()) >> shift & mask
                }
                Source::IngressPort => packet.ingress_port.into(),
                Source::Const(value) => value,
            };
            key[place.word] |= value << place.shift;
        }
        if let Some(line) = view.prefetch_address(&key) {
            prefetch(line);
        }
    }
}

/// The place of a part of a key in a packet; `None` if it is not known before the packet is run.
fn source(program: &Program, starts: &[Option<u32>], expr: ExprId) -> Option<Source> {
    match &program.exprs[expr].kind {
        ExprKind::Const(value) => u64::try_from(*value).ok().map(Source::Const),
        ExprKind::Std(StdField::IngressPort) => Some(Source::IngressPort),
        ExprKind::Field(instance, field) => {
            let header = &program.headers[program.instances[*instance].header];
            let FieldLayout::Run { bit, bits } = header.fields[*field].layout else { return None };
            let (at, first) = (starts[instance.index()]? + bit / 8, bit % 8);
            let shift = 64u32.checked_sub(first + bits)?;
            Some(Source::Word { at: at as usize, shift, mask: ones(bits) as u64 })
        }
        _ => None,
    }
}

/// The first byte of each header on the path to it with the fewest states, variable parts empty.
fn header_starts(program: &Program) -> Vec<Option<u32>> {
    let mut starts = vec![None; program.instances.len()];
    let mut seen = vec![false; program.parser.states.len()];
    let mut ways: VecDeque<(StateId, u32)> =
        program.parser.states.ids().take(1).map(|id| (id, 0)).collect();
    while let Some((state, mut cursor)) = ways.pop_front() {
        if std::mem::replace(&mut seen[state.index()], true) {
            continue;
        }
        let state = &program.parser.states[state];
        let extracts = state.ops.iter().all(|op| match op {
            ParserOp::Extract(instance) => {
                starts[instance.index()].get_or_insert(cursor);
                cursor += program.headers[program.instances[*instance].header].fixed_bytes;
                true
            }
            // After these the cursor is not known.
            ParserOp::ExtractNext(_) | ParserOp::Advance(_) => false,
            _ => true,
        });
        let next = state.next.targets().into_iter().filter(|_| extracts);
        ways.extend(next.filter_map(|target| match target {
            Target::State(next) => Some((next, cursor)),
            _ => None,
        }));
    }
    starts
}

#[cfg(test)]
mod tests;
