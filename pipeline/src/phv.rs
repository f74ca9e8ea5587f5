//! The packet header vector: every header instance in a slot of its own, validity, metadata, locals.
//!
//! A slot is as long as the longest form of its header. Beside its bytes it has their offset in the received packet,
//! for checksums that follow changes.

use crate::ids::*;
use crate::ir::layout::ones;
pub(crate) use crate::ir::validity::bit;
use crate::ir::{Field, FieldLayout, Program};

/// The headers and metadata of the current packet.
#[derive(Debug)]
pub(crate) struct Phv {
    bytes: Box<[u8]>,
    slots: Box<[Slot]>,
    /// Valid headers, bit by instance.
    pub(crate) valid: u64,
    /// Headers that came with the packet and that the program has not replaced.
    pub(crate) received: u64,
    /// User metadata.
    pub(crate) meta: Box<[u128]>,
    /// Frames of locals.
    pub(crate) locals: Vec<u128>,
    /// For each checksum, the sums of its input at the start of the pass.
    pub(crate) before: Box<[Before]>,
    /// For each item behind the body, the received and the emitted one.
    pub(crate) tail: Box<[TailItem]>,
}

/// The input of an incremental checksum at the start of the pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// The checksum was in use: its condition was true and its header valid.
    pub(crate) active: bool,
    /// Sum of everything but the body.
    pub(crate) head: u16,
    /// The body started in the low half of a word.
    pub(crate) odd_at_body: bool,
}

/// An item behind the body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailItem {
    /// Offset in the received packet.
    pub(crate) received_at: u32,
    /// Length there in bytes.
    pub(crate) received_len: u32,
    /// Bytes that will leave.
    pub(crate) len: u32,
    /// It will be emitted at the same distance from the body as received.
    pub(crate) at_same_distance: bool,
}

impl TailItem {
    /// A pad with the place and length that it was received with keeps its bytes.
    pub(crate) fn keeps(&self) -> bool {
        self.at_same_distance && self.len == self.received_len
    }
}

/// The place of a header in the bytes. Compiled code writes `len` and `at`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    start: usize,
    max: usize,
    pub(crate) len: usize,
    /// Its offset in the packet when it was extracted.
    pub(crate) at: u32,
}

/// The place of a field of at most 64 bits among all header bytes: read as one big-endian word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuickField {
    valid: u64,
    at: usize,
    shift: u32,
    mask: u64,
}

/// Bytes of a [`QuickField`]'s word.
const WORD: usize = 8;

/// By instance and field; `None` for a field that is not a short run in the fixed part of its header.
pub(crate) fn quick_fields(program: &Program) -> Box<[Box<[Option<QuickField>]>]> {
    let mut start = 0;
    let mut fields = Vec::with_capacity(program.instances.len());
    for (instance, declared) in program.instances.entries() {
        let header = &program.headers[declared.header];
        let quick = |field: &Field| {
            let FieldLayout::Run { bit: first, bits } = field.layout else { return None };
            let fits = first % 8 + bits <= 64 && first + bits <= header.fixed_bytes * 8;
            fits.then(|| QuickField {
                valid: bit(instance),
                at: start + (first / 8) as usize,
                shift: 64 - first % 8 - bits,
                mask: ones(bits) as u64,
            })
        };
        fields.push(header.fields.iter().map(quick).collect());
        start += header.max_bytes as usize;
    }
    fields.into()
}

impl Phv {
    pub(crate) fn new(program: &Program) -> Phv {
        let mut start = 0;
        let slot = |instance: &crate::ir::Instance| {
            let max = program.headers[instance.header].max_bytes as usize;
            start += max;
            Slot { start: start - max, max, len: 0, at: 0 }
        };
        let slots: Box<[Slot]> = program.instances.iter().map(slot).collect();
        Phv {
            // A word read at the last byte of the last header stays inside the allocation.
            bytes: vec![0; start + WORD].into(),
            slots,
            valid: 0,
            received: 0,
            meta: vec![0; program.metadata.len()].into(),
            locals: Vec::with_capacity(64),
            before: vec![Default::default(); program.checksums.len()].into(),
            tail: vec![Default::default(); program.deparser.after.len()].into(),
        }
    }

    /// The bytes, the slots and the metadata, for compiled code. The bytes of an instance start at the sum of
    /// `max_bytes` of those before it.
    pub(crate) fn raw(&mut self) -> (&mut [u8], &mut [Slot], &mut [u128]) {
        (&mut self.bytes, &mut self.slots, &mut self.meta)
    }

    /// Empty, for the next pass.
    pub(crate) fn reset(&mut self) {
        self.valid = 0;
        self.received = 0;
        self.meta.fill(0);
        self.locals.clear();
        self.tail.fill(Default::default());
    }

    pub(crate) fn is_valid(&self, instance: InstanceId) -> bool {
        self.valid & bit(instance) != 0
    }

    /// A field by its place; 0 when the header is not valid. A valid header has all its fixed part.
    pub(crate) fn quick(&self, field: &QuickField) -> u64 {
        let word = self.bytes.get(field.at..).and_then(|rest| rest.first_chunk::<WORD>());
        match word {
            Some(word) if self.valid & field.valid != 0 => {
                u64::from_be_bytes(*word) >> field.shift & field.mask
            }
            _ => 0,
        }
    }

    /// Writes a field by its place, if the header is valid.
    pub(crate) fn set_quick(&mut self, field: &QuickField, value: u64) {
        let valid = self.valid & field.valid != 0;
        let word = self.bytes.get_mut(field.at..).and_then(|rest| rest.first_chunk_mut::<WORD>());
        if let (true, Some(word)) = (valid, word) {
            let hole = u64::from_be_bytes(*word) & !(field.mask << field.shift);
            *word = (hole | (value & field.mask) << field.shift).to_be_bytes();
        }
    }

    /// It came with the packet and has not been replaced, so that it has a place there.
    pub(crate) fn is_received(&self, instance: InstanceId) -> bool {
        self.received & bit(instance) != 0
    }

    /// Bytes of the header if it is valid, otherwise empty.
    pub(crate) fn header(&self, instance: InstanceId) -> &[u8] {
        if !self.is_valid(instance) {
            return &[];
        }
        let slot = self.slots[instance.index()];
        &self.bytes[slot.start..slot.start + slot.len]
    }

    /// The same to write to.
    pub(crate) fn header_mut(&mut self, instance: InstanceId) -> &mut [u8] {
        if !self.is_valid(instance) {
            return &mut [];
        }
        let slot = self.slots[instance.index()];
        &mut self.bytes[slot.start..slot.start + slot.len]
    }

    /// Appends to the bytes of a header that is being extracted; bytes beyond the slot are cut.
    pub(crate) fn append(&mut self, instance: InstanceId, bytes: &[u8]) {
        let slot = &mut self.slots[instance.index()];
        let len = bytes.len().min(slot.max - slot.len);
        let at = slot.start + slot.len;
        self.bytes[at..at + len].copy_from_slice(&bytes[..len]);
        slot.len += len;
    }

    /// Starts an extraction: no bytes, not valid.
    pub(crate) fn clear(&mut self, instance: InstanceId) {
        self.slots[instance.index()].len = 0;
        self.valid &= !bit(instance);
        self.received &= !bit(instance);
    }

    /// The extraction succeeded.
    pub(crate) fn set_received(&mut self, instance: InstanceId, at: u32) {
        self.slots[instance.index()].at = at;
        self.valid |= bit(instance);
        self.received |= bit(instance);
    }

    /// Its offset in the packet when it was last extracted.
    pub(crate) fn received_at(&self, instance: InstanceId) -> u32 {
        self.slots[instance.index()].at
    }

    /// Makes a header of `len` zero bytes valid.
    pub(crate) fn set_zero(&mut self, instance: InstanceId, len: u32) {
        let slot = &mut self.slots[instance.index()];
        slot.len = (len as usize).min(slot.max);
        self.bytes[slot.start..slot.start + slot.len].fill(0);
        self.valid |= bit(instance);
        self.received &= !bit(instance);
    }

    /// Replaces `len` bytes at offset `to.1` of a valid header by `given` bytes of another one, and zeros after them.
    /// With `ends` the header ends there.
    pub(crate) fn copy_part(
        &mut self,
        to: (InstanceId, usize),
        from: (InstanceId, usize),
        (given, len): (usize, usize),
        ends: bool,
    ) {
        if !self.is_valid(to.0) {
            return;
        }
        let (source, target) = (self.slots[from.0.index()], self.slots[to.0.index()]);
        let len = len.min(target.max.saturating_sub(to.1));
        let given = given.min(len);
        let (at, start) = (target.start + to.1, source.start + from.1);
        self.bytes.copy_within(start..start + given, at);
        self.bytes[at + given..at + len].fill(0);
        if ends {
            self.slots[to.0.index()].len = to.1 + len;
        }
    }

    /// Copies bytes and validity; both are of one type. The copy is a new header.
    pub(crate) fn copy(&mut self, to: InstanceId, from: InstanceId) {
        if to == from {
            return;
        }
        let (source, target) = (self.slots[from.index()], self.slots[to.index()]);
        let len = source.len.min(target.max);
        self.clear(to);
        if self.is_valid(from) {
            self.bytes.copy_within(source.start..source.start + len, target.start);
            self.slots[to.index()].len = len;
            self.valid |= bit(to);
        }
    }
}
