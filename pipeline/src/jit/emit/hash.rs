//! Hashes of values. CRC-16, CRC-32 and the sum of the Internet checksum are inline code; the others are a call.
//!
//! The operands are put together in registers, in words of eight bytes of the stream that is hashed. For a CRC each
//! word takes eight table lookups (Kounavis and Berry, "A systematic approach to building high performance
//! software-based CRC generators", 2005): the table for a byte's position has the byte's contribution to the CRC, given
//! the number of bytes that follow it. Bytes that are constant at code generation, as the fields of headers that a path
//! does not have, are looked up then.

use super::{CompileError, Emit, flags};
use crate::ids::*;
use crate::ir::{ExprKind, FieldLayout, HashAlgorithm};
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// Most bytes that are hashed by inline code.
const INLINE_BYTES: usize = 96;

/// `[n][byte]`: the contribution of a byte to the CRC when `n` bytes follow it.
type Tables = [[u32; 256]; INLINE_BYTES];

/// CRC-32 as in Ethernet, bits reflected.
static CRC32: Tables = tables(0xedb8_8320);
/// CRC-16/ARC, bits reflected.
static CRC16: Tables = tables(0xa001);

const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; INLINE_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < INLINE_BYTES {
        byte = 0;
        while byte < 256 {
            let crc: u32 = tables[after - 1][byte];
            tables[after][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// A CRC that has inline code.
#[derive(Clone, Copy)]
struct Kind {
    tables: &'static Tables,
    bytes: usize,
    /// Its start value, which is also combined with the result.
    ones: u32,
}

impl Kind {
    fn of(algorithm: HashAlgorithm) -> Option<Kind> {
        match algorithm {
            HashAlgorithm::Crc32 => Some(Kind { tables: &CRC32, bytes: 4, ones: !0 }),
            HashAlgorithm::Crc16 => Some(Kind { tables: &CRC16, bytes: 2, ones: 0 }),
            _ => None,
        }
    }
}

/// A piece of the stream: up to eight bytes that are not constant at code generation, the first one on top of a word,
/// and the constant bytes after them.
#[derive(Clone, Default)]
struct Piece {
    word: Option<Value>,
    bytes: usize,
    known: Vec<u8>,
}

/// Adjacent bits of a header.
#[derive(Clone, Copy)]
struct Run {
    instance: InstanceId,
    bit: u32,
    bits: u32,
}

impl Run {
    fn followed_by(self, next: Run) -> Option<Run> {
        let is_next = next.instance == self.instance && next.bit == self.bit + self.bits;
        is_next.then_some(Run { bits: self.bits + next.bits, ..self })
    }
}

/// A CRC in progress.
#[derive(Clone, Copy)]
enum Crc {
    Known(u32),
    /// As `i32`.
    Value(Value),
}

impl Emit<'_> {
    /// A hash of values.
    pub(super) fn hash(
        &mut self,
        algorithm: HashAlgorithm,
        operands: &[ExprId],
    ) -> Result<Value, CompileError> {
        let bytes: u32 = operands.iter().map(|operand| self.bits(*operand).div_ceil(8)).sum();
        if bytes as usize <= INLINE_BYTES {
            match Kind::of(algorithm) {
                Some(kind) => return self.crc(kind, operands),
                None if algorithm == HashAlgorithm::Csum16 => return self.csum16(operands),
                None => {}
            }
        }
        let widths: Vec<u32> = operands.iter().map(|operand| self.bits(*operand)).collect();
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            values.push(self.expr(*operand)?);
        }
        for (n, (value, bits)) in values.iter().zip(&widths).enumerate() {
            self.put_value(n, *value, *bits)?;
        }
        let place = HashAlgorithm::ALL.iter().position(|(_, known)| *known == algorithm);
        let algorithm = self.num(place.unwrap_or(0) as u64);
        let known = self.lists.widths.iter().position(|known| *known == widths);
        let list = known.unwrap_or(self.lists.widths.len());
        if known.is_none() {
            self.lists.widths.push(widths);
        }
        let list = self.num(list as u64);
        Ok(self.call(Helper::Hash, &[algorithm, list]))
    }

    fn crc(&mut self, kind: Kind, operands: &[ExprId]) -> Result<Value, CompileError> {
        let mut crc = Crc::Known(kind.ones);
        for piece in self.stream(operands)? {
            crc = self.crc_piece(kind, crc, &piece);
        }
        Ok(match crc {
            Crc::Known(crc) => self.num((crc ^ kind.ones).into()),
            Crc::Value(mut crc) => {
                if kind.ones != 0 {
                    crc = self.b.ins().bnot(crc);
                }
                self.b.ins().uextend(I64, crc)
            }
        })
    }

    /// The checksum of RFC 1071. Words of 32 bits are summed in 64: the carries out of 16 bits are added at the end.
    fn csum16(&mut self, operands: &[ExprId]) -> Result<Value, CompileError> {
        let (mut sum, mut fixed, mut at) = (None, 0, 0);
        for piece in self.stream(operands)? {
            if let Some(word) = piece.word {
                let part = self.sum_of_word(word, at % 2 == 1);
                sum = Some(sum.map_or(part, |sum| self.b.ins().iadd(sum, part)));
            }
            at += piece.bytes;
            for byte in piece.known {
                fixed += u64::from(byte) << if at % 2 == 0 { 8 } else { 0 };
                at += 1;
            }
        }
        let fixed = self.num(fixed);
        let mut sum = sum.map_or(fixed, |sum| self.b.ins().iadd(sum, fixed));
        for bits in [32, 16, 16, 16] {
            let (low, high) =
                (self.masked(sum, bits), self.b.ins().ushr_imm_u(sum, i64::from(bits)));
            sum = self.b.ins().iadd(low, high);
        }
        Ok(self.b.ins().bxor_imm_u(sum, 0xffff))
    }

    /// The contribution of a word of the stream; its first byte is the low half of a pair where the stream is `odd`.
    fn sum_of_word(&mut self, word: Value, odd: bool) -> Value {
        let (mut word, mut last) = (word, None);
        if odd {
            let low = self.b.ins().band_imm_u(word, 0xff);
            last = Some(self.b.ins().ishl_imm_u(low, 8));
            word = self.b.ins().ushr_imm_u(word, 8);
        }
        let (low, high) = (self.masked(word, 32), self.b.ins().ushr_imm_u(word, 32));
        let sum = self.b.ins().iadd(low, high);
        last.map_or(sum, |last| self.b.ins().iadd(sum, last))
    }

    /// The operands concatenated, each in whole bytes.
    fn stream(&mut self, operands: &[ExprId]) -> Result<Vec<Piece>, CompileError> {
        let mut pieces = vec![Piece::default()];
        let mut left = operands;
        while let Some((operand, behind)) = left.split_first() {
            left = behind;
            if let Some(run) = self.bytes_in_memory(*operand) {
                left = self.append_run(&mut pieces, run, left);
                continue;
            }
            let bits = self.bits(*operand);
            let bytes = bits.div_ceil(8) as usize;
            if let Some(known) = self.known_number(*operand) {
                if let Some(last) = pieces.last_mut() {
                    last.known.extend(known.to_be_bytes().get(16 - bytes..).unwrap_or_default());
                }
                continue;
            }
            let value = self.expr(*operand)?;
            let (low, high) = self.words(value, bits);
            if bytes > 8 {
                self.append(&mut pieces, high, bytes - 8);
            }
            self.append(&mut pieces, low, bytes.min(8));
        }
        Ok(pieces)
    }

    /// The bytes of a header of an operand, unless it is constant at code generation.
    fn bytes_in_memory(&self, operand: ExprId) -> Option<Run> {
        let run = self.run_of(operand).filter(|run| run.bit % 8 == 0 && run.bits % 8 == 0)?;
        let there = self.is_valid(run.instance) == Some(true) && !self.is_synthesized(run.instance);
        (there && self.known_number(operand).is_none()).then_some(run)
    }

    fn run_of(&self, operand: ExprId) -> Option<Run> {
        match self.program.exprs[operand].kind {
            ExprKind::Field(instance, field) => match *self.field_layout(instance, field) {
                FieldLayout::Run { bit, bits } => Some(Run { instance, bit, bits }),
                _ => None,
            },
            ExprKind::Concat(high, low) => self.run_of(high)?.followed_by(self.run_of(low)?),
            _ => None,
        }
    }

    /// Adds bytes of a header with those of the operands that follow them there; returns the remaining operands.
    fn append_run<'o>(
        &mut self,
        pieces: &mut Vec<Piece>,
        mut run: Run,
        mut left: &'o [ExprId],
    ) -> &'o [ExprId] {
        while let Some((next, behind)) = left.split_first()
            && let Some(longer) = self.bytes_in_memory(*next).and_then(|next| run.followed_by(next))
        {
            (run, left) = (longer, behind);
        }
        let (base, stop) = (self.base(run.instance), (run.bit + run.bits) / 8);
        let mut at = run.bit / 8;
        while at < stop {
            let count = (stop - at).min(8);
            let word = self.load_be(base, at, count);
            self.append(pieces, word, count as usize);
            at += count;
        }
        left
    }

    /// Adds the low bytes of a word.
    fn append(&mut self, pieces: &mut Vec<Piece>, value: Value, bytes: usize) {
        if pieces.last().is_none_or(|last| last.bytes == 8 || !last.known.is_empty()) {
            pieces.push(Piece::default());
        }
        let Some(last) = pieces.last_mut() else { return };
        let stop = last.bytes + bytes;
        let moved = match stop <= 8 {
            true => self.b.ins().ishl_imm_u(value, (8 - stop) as i64 * 8),
            false => self.b.ins().ushr_imm_u(value, (stop - 8) as i64 * 8),
        };
        last.word = Some(last.word.map_or(moved, |word| self.b.ins().bor(word, moved)));
        last.bytes = stop.min(8);
        if stop > 8 {
            let rest = self.b.ins().ishl_imm_u(value, (16 - stop) as i64 * 8);
            pieces.push(Piece { word: Some(rest), bytes: stop - 8, known: Vec::new() });
        }
    }

    /// The CRC after one more piece. It is linear: constant bytes are added separately, at no cost.
    fn crc_piece(&mut self, kind: Kind, crc: Crc, piece: &Piece) -> Crc {
        let len = piece.bytes + piece.known.len();
        let look = |at: usize, byte: u8| kind.tables[len - 1 - at][usize::from(byte)];
        let known = piece.known.iter().enumerate();
        let mut fixed = known.fold(0, |sum, (n, byte)| sum ^ look(piece.bytes + n, *byte));
        // The first byte of the stream at the bottom, where it meets the first byte of the CRC.
        let mut value = piece.word.map(|word| self.b.ins().bswap(word));
        let mut unknown = piece.bytes;
        let mut rest = None;
        match crc {
            Crc::Known(crc) => {
                let bytes = crc.to_le_bytes().into_iter().enumerate().take(len);
                fixed = bytes.fold(fixed, |sum, (at, byte)| sum ^ look(at, byte));
                fixed ^= crc.checked_shr(len as u32 * 8).unwrap_or(0);
            }
            Crc::Value(crc) => {
                let wide = self.b.ins().uextend(I64, crc);
                value = Some(value.map_or(wide, |value| self.b.ins().bxor(value, wide)));
                unknown = unknown.max(kind.bytes).min(len);
                rest = (len < kind.bytes).then(|| self.b.ins().ushr_imm_u(crc, len as i64 * 8));
            }
        }
        let mut sum = rest;
        for at in 0..unknown {
            let Some(value) = value else { break };
            let this = self.crc_look(kind.tables, len - 1 - at, value, at);
            sum = Some(sum.map_or(this, |sum| self.b.ins().bxor(sum, this)));
        }
        match sum {
            None => Crc::Known(fixed),
            Some(sum) if fixed == 0 => Crc::Value(sum),
            Some(sum) => Crc::Value(self.b.ins().bxor_imm_u(sum, i64::from(fixed))),
        }
    }

    /// The contribution of byte `at` of a word when `after` bytes follow it.
    fn crc_look(&mut self, tables: &'static Tables, after: usize, word: Value, at: usize) -> Value {
        let mut byte = word;
        if at > 0 {
            byte = self.b.ins().ushr_imm_u(byte, at as i64 * 8);
        }
        if at < 7 {
            let low = self.b.ins().ireduce(I8, byte);
            byte = self.b.ins().uextend(I64, low);
        }
        let tables = self.num(tables.as_ptr() as u64);
        let offset = self.b.ins().ishl_imm_u(byte, 2);
        let place = self.b.ins().iadd(tables, offset);
        self.b.ins().load(I32, flags(), place, (after * size_of::<[u32; 256]>()) as i32)
    }
}
