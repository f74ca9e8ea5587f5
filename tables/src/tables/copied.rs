//! All entries of a table as they were at one moment, to be read while writes go on.
//!
//! Under the lock of the tables only the words of the store are copied, tens of bytes for an entry; entries are made of
//! them one by one, without the lock. So a read of a million entries holds the lock for milliseconds, and no caller
//! needs memory for all entries.

use std::sync::Arc;

use crate::entry::{Entry, Slot, Target};
use crate::shape::TableShape;
use crate::time::Span;
use crate::view::Side;

/// Entries of one table, the oldest first.
#[derive(Debug)]
pub struct CopiedEntries {
    shape: Arc<TableShape>,
    side: Arc<Side>,
    slots: Vec<u32>,
    rows: Vec<u64>,
    calls: Vec<u64>,
    timeouts_ps: Vec<u64>,
    /// Of a table with a profile, whose calls refer to it.
    targets: Vec<Target>,
    next: usize,
}

impl CopiedEntries {
    pub(super) fn of(shape: Arc<TableShape>, side: Arc<Side>, len: usize) -> CopiedEntries {
        CopiedEntries {
            slots: Vec::with_capacity(len),
            rows: Vec::with_capacity(len * shape.row_words),
            calls: Vec::with_capacity(len * (1 + shape.data_words)),
            timeouts_ps: Vec::with_capacity(len),
            targets: Vec::new(),
            next: 0,
            shape,
            side,
        }
    }

    pub(super) fn push(
        &mut self,
        slot: u32,
        (row, timeout_ps): (&[u64], u64),
        call: &[u64],
        target: Option<Target>,
    ) {
        self.slots.push(slot);
        self.rows.extend_from_slice(row);
        self.calls.extend_from_slice(call);
        self.timeouts_ps.push(timeout_ps);
        self.targets.extend(target);
    }
}

impl Iterator for CopiedEntries {
    type Item = (Slot, Entry);

    fn next(&mut self) -> Option<(Slot, Entry)> {
        let (at, shape) = (self.next, &*self.shape);
        let slot = *self.slots.get(at)?;
        self.next += 1;
        let (row_words, call_words) = (shape.row_words, 1 + shape.data_words);
        let row = &self.rows[at * row_words..][..row_words];
        let call = || shape.call_from(&self.calls[at * call_words..][..call_words]);
        let target = self.targets.get(at).cloned().unwrap_or_else(|| Target::Action(call()));
        let what = (row, self.timeouts_ps[at]);
        Some((Slot(slot), entry_of(shape, &self.side, slot, what, target)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.slots.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for CopiedEntries {}

/// The entry of a row, with the rates that its meter has now.
pub(super) fn entry_of(
    shape: &TableShape,
    side: &Side,
    slot: u32,
    (row, timeout_ps): (&[u64], u64),
    target: Target,
) -> Entry {
    let (matches, priority) = shape.matches(row);
    let idle_timeout = (timeout_ps > 0).then_some(Span::from_ps(timeout_ps));
    let meter = side.meters.as_ref().and_then(|meters| meters.config(slot as usize));
    Entry { matches, priority, target, idle_timeout, meter }
}
