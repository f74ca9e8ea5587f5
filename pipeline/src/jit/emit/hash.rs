//! Hashes of values. CRC-32 is code in place; the others are a call.
//!
//! The operands are put together in registers, in words of eight bytes of the stream that is hashed, and
//! each word takes eight looks into tables (Kounavis and Berry, "A systematic approach to building high
//! performance software-based CRC generators", 2005): the table of a byte holds what it adds to the CRC
//! when so many bytes follow it. What is known while code is generated, as the fields of headers that a
//! path does not have, is looked up then.

use super::{Emit, Refused, flags};
use crate::ids::*;
use crate::ir::HashAlgorithm;
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// Most bytes that are hashed in place.
const INLINE_BYTES: u32 = 96;

/// CRC-32 as in Ethernet, bits reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[n][byte]`: what a byte adds to the CRC when `n` bytes follow it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
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

/// Up to eight bytes of the stream, the first one on top; `known` are bits that are not in `value`.
#[derive(Clone, Copy, Default)]
struct Word {
    known: u64,
    value: Option<Value>,
    bytes: u32,
}

/// A CRC under way.
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
    ) -> Result<Value, Refused> {
        let bytes: u32 = operands.iter().map(|operand| self.bits(*operand).div_ceil(8)).sum();
        if algorithm == HashAlgorithm::Crc32 && bytes <= INLINE_BYTES {
            return self.crc32(operands);
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

    fn crc32(&mut self, operands: &[ExprId]) -> Result<Value, Refused> {
        let words = self.stream(operands)?;
        let mut crc = Crc::Known(!0);
        for word in words {
            crc = self.crc32_word(crc, word);
        }
        Ok(match crc {
            Crc::Known(crc) => self.num((!crc).into()),
            Crc::Value(crc) => {
                let crc = self.b.ins().bnot(crc);
                self.b.ins().uextend(I64, crc)
            }
        })
    }

    /// The operands one behind the other, each in whole bytes.
    fn stream(&mut self, operands: &[ExprId]) -> Result<Vec<Word>, Refused> {
        let mut words = vec![Word::default()];
        for operand in operands {
            let bits = self.bits(*operand);
            let bytes = bits.div_ceil(8);
            if let Some(known) = self.known_number(*operand) {
                if bytes > 8 {
                    self.append(
                        &mut words,
                        Word { known: (known >> 64) as u64, value: None, bytes: bytes - 8 },
                    );
                }
                self.append(
                    &mut words,
                    Word { known: known as u64, value: None, bytes: bytes.min(8) },
                );
                continue;
            }
            let value = self.expr(*operand)?;
            let (low, high) = self.words(value, bits);
            if bytes > 8 {
                self.append(&mut words, Word { known: 0, value: Some(high), bytes: bytes - 8 });
            }
            self.append(&mut words, Word { known: 0, value: Some(low), bytes: bytes.min(8) });
        }
        Ok(words)
    }

    /// Adds a part, whose last byte is the lowest, to the last word and if need be a new one.
    fn append(&mut self, words: &mut Vec<Word>, part: Word) {
        if words.last().is_none_or(|last| last.bytes == 8) {
            words.push(Word::default());
        }
        let Some(last) = words.last_mut() else { return };
        // In the last word, bytes are counted from the top.
        let stop = last.bytes + part.bytes;
        let (known, value) = match stop <= 8 {
            true => {
                let up = (8 - stop) * 8;
                (part.known << up, part.value.map(|v| self.b.ins().ishl_imm_u(v, i64::from(up))))
            }
            false => {
                let down = (stop - 8) * 8;
                (
                    part.known >> down,
                    part.value.map(|v| self.b.ins().ushr_imm_u(v, i64::from(down))),
                )
            }
        };
        last.known |= known;
        last.value = match (last.value, value) {
            (Some(a), Some(b)) => Some(self.b.ins().bor(a, b)),
            (a, b) => a.or(b),
        };
        last.bytes = stop.min(8);
        if stop > 8 {
            let up = (16 - stop) * 8;
            let value = part.value.map(|v| self.b.ins().ishl_imm_u(v, i64::from(up)));
            words.push(Word { known: part.known << up, value, bytes: stop - 8 });
        }
    }

    /// The CRC behind one more word.
    fn crc32_word(&mut self, crc: Crc, word: Word) -> Crc {
        let count = word.bytes as usize;
        // The first byte of the stream at the bottom, where it meets the first byte of the CRC.
        let mut known = word.known.swap_bytes();
        let mut value = word.value.map(|value| self.b.ins().bswap(value));
        // How many bytes are not known: those of the CRC where the word is.
        let unknown = if word.value.is_some() { 8 } else { 4 };
        match crc {
            Crc::Known(crc) => known ^= u64::from(crc),
            Crc::Value(crc) => {
                let crc = self.b.ins().uextend(I64, crc);
                value = Some(value.map_or(crc, |value| self.b.ins().bxor(value, crc)));
            }
        }
        let here = if unknown == 8 { known } else { known & u64::from(u32::MAX) };
        if here != 0 {
            value = value.map(|value| self.b.ins().bxor_imm_u(value, here as i64));
        }
        let mut sum = Crc::Known(0);
        for at in 0..count {
            let after = count - 1 - at;
            let this = match value {
                Some(value) if at < unknown => Crc::Value(self.crc32_look(after, value, at)),
                _ => Crc::Known(TABLES[after][usize::from((known >> (at * 8)) as u8)]),
            };
            sum = self.crc32_sum(sum, this);
        }
        if count < 4 {
            let rest = match value {
                Some(value) => {
                    let low = self.b.ins().ireduce(I32, value);
                    Crc::Value(self.b.ins().ushr_imm_u(low, count as i64 * 8))
                }
                None => Crc::Known((known as u32) >> (count * 8)),
            };
            sum = self.crc32_sum(sum, rest);
        }
        sum
    }

    /// What byte `at` of a word adds when so many bytes follow it.
    fn crc32_look(&mut self, after: usize, word: Value, at: usize) -> Value {
        let mut byte = word;
        if at > 0 {
            byte = self.b.ins().ushr_imm_u(byte, at as i64 * 8);
        }
        if at < 7 {
            let low = self.b.ins().ireduce(I8, byte);
            byte = self.b.ins().uextend(I64, low);
        }
        let tables = self.num(TABLES.as_ptr() as u64);
        let offset = self.b.ins().ishl_imm_u(byte, 2);
        let place = self.b.ins().iadd(tables, offset);
        self.b.ins().load(I32, flags(), place, (after * size_of::<[u32; 256]>()) as i32)
    }

    fn crc32_sum(&mut self, a: Crc, b: Crc) -> Crc {
        match (a, b) {
            (Crc::Known(a), Crc::Known(b)) => Crc::Known(a ^ b),
            (Crc::Known(0), other) | (other, Crc::Known(0)) => other,
            (Crc::Known(known), Crc::Value(value)) | (Crc::Value(value), Crc::Known(known)) => {
                Crc::Value(self.b.ins().bxor_imm_u(value, i64::from(known)))
            }
            (Crc::Value(a), Crc::Value(b)) => Crc::Value(self.b.ins().bxor(a, b)),
        }
    }
}
