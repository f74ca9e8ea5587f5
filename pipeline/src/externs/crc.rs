//! Cyclic redundancy checks in the Rocksoft model, with the fastest engine that fits.
//!
//! CRC-32/ISO-HDLC's polynomial (Ethernet FCS, InfiniBand ICRC) runs on carry-less multiplication through libdeflate,
//! whatever its start and end values; everything else on sixteen tables through `crc`. Both agree with the bitwise
//! definition in the tests.

use crate::ir::CrcParams;
use crc::{Algorithm, Crc, Digest, Table};
use std::sync::{Mutex, PoisonError};

const ISO_HDLC_POLY: u64 = 0x04c1_1db7;

/// A CRC ready to run.
#[derive(Debug)]
pub struct CrcEngine {
    params: CrcParams,
    kind: Kind,
}

enum Kind {
    /// Starts with this finished CRC, the inverted register.
    IsoHdlc(u32),
    Bits8(Box<Crc<u8, Table<16>>>),
    Bits16(Box<Crc<u16, Table<16>>>),
    Bits32(Box<Crc<u32, Table<16>>>),
    Bits64(Box<Crc<u64, Table<16>>>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::IsoHdlc(_) => "libdeflate",
            _ => "table",
        })
    }
}

/// A CRC in progress.
#[derive(Clone)]
pub struct Run<'a> {
    params: CrcParams,
    state: State<'a>,
}

#[derive(Clone)]
enum State<'a> {
    /// The finished CRC so far.
    IsoHdlc(u32),
    Bits8(Digest<'a, u8, Table<16>>),
    Bits16(Digest<'a, u16, Table<16>>),
    Bits32(Digest<'a, u32, Table<16>>),
    Bits64(Digest<'a, u64, Table<16>>),
}

/// The crate `crc` requires `'static` parameters: every distinct set is kept once per process.
fn interned<W: crc::Width + Copy + PartialEq>(
    pool: &Mutex<Vec<&'static Algorithm<W>>>,
    wanted: Algorithm<W>,
) -> &'static Algorithm<W> {
    let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |a: &Algorithm<W>| {
        (a.width, a.poly, a.init, a.refin, a.xorout)
            == (wanted.width, wanted.poly, wanted.init, wanted.refin, wanted.xorout)
    };
    if let Some(known) = pool.iter().find(|known| same(known)) {
        return known;
    }
    let new: &'static Algorithm<W> = Box::leak(Box::new(wanted));
    pool.push(new);
    new
}

macro_rules! table {
    ($params:expr, $word:ty) => {{
        static POOL: Mutex<Vec<&'static Algorithm<$word>>> = Mutex::new(Vec::new());
        let p = $params;
        let algorithm = Algorithm {
            width: p.width as u8,
            poly: p.poly as $word,
            init: p.init as $word,
            refin: p.reflect,
            refout: p.reflect,
            xorout: p.xor_out as $word,
            check: 0,
            residue: 0,
        };
        Box::new(Crc::<$word, Table<16>>::new(interned(&POOL, algorithm)))
    }};
}

impl CrcEngine {
    /// Prepares a CRC of width 8, 16, 24, 32 or 64. Builds tables, so it is called at load time.
    pub fn new(params: CrcParams) -> CrcEngine {
        let iso = params.width == 32 && params.poly == ISO_HDLC_POLY && params.reflect;
        let kind = match params.width {
            _ if iso => Kind::IsoHdlc(!(params.init as u32).reverse_bits()),
            ..=8 => Kind::Bits8(table!(params, u8)),
            9..=16 => Kind::Bits16(table!(params, u16)),
            17..=32 => Kind::Bits32(table!(params, u32)),
            _ => Kind::Bits64(table!(params, u64)),
        };
        CrcEngine { params, kind }
    }

    /// Starts a run over a stream of bytes.
    pub fn start(&self) -> Run<'_> {
        let state = match &self.kind {
            Kind::IsoHdlc(first) => State::IsoHdlc(*first),
            Kind::Bits8(crc) => State::Bits8(crc.digest()),
            Kind::Bits16(crc) => State::Bits16(crc.digest()),
            Kind::Bits32(crc) => State::Bits32(crc.digest()),
            Kind::Bits64(crc) => State::Bits64(crc.digest()),
        };
        Run { params: self.params, state }
    }

    /// The value as its field holds it, of a stream in parts: as [`Run::field_value`] over all of them.
    #[inline]
    pub fn field_value(&self, parts: &[&[u8]]) -> u64 {
        let Kind::IsoHdlc(first) = self.kind else {
            let mut run = self.start();
            parts.iter().for_each(|part| run.add(part));
            return run.field_value();
        };
        let crc = parts.iter().fold(first, |crc, part| iso_hdlc(crc, part));
        in_field(&self.params, iso_hdlc_value(crc, &self.params))
    }
}

/// The finished CRC-32/ISO-HDLC of bytes after those with this CRC.
#[inline]
pub(super) fn iso_hdlc(crc: u32, bytes: &[u8]) -> u32 {
    let mut run = libdeflater::Crc::with_initial(crc);
    run.update(bytes);
    run.sum()
}

fn iso_hdlc_value(crc: u32, params: &CrcParams) -> u64 {
    u64::from(!crc) ^ params.xor_out
}

/// The field's number in network order.
fn in_field(params: &CrcParams, value: u64) -> u64 {
    match params.store_little_endian {
        true => value.swap_bytes() >> (64 - params.width.clamp(8, 64)),
        false => value,
    }
}

impl Run<'_> {
    /// Adds the next bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::IsoHdlc(crc) => *crc = iso_hdlc(*crc, bytes),
            State::Bits8(digest) => digest.update(bytes),
            State::Bits16(digest) => digest.update(bytes),
            State::Bits32(digest) => digest.update(bytes),
            State::Bits64(digest) => digest.update(bytes),
        }
    }

    /// The value as its field holds it: the field's number in network order.
    pub fn field_value(self) -> u64 {
        let value = match self.state {
            State::IsoHdlc(crc) => iso_hdlc_value(crc, &self.params),
            State::Bits8(digest) => digest.finalize().into(),
            State::Bits16(digest) => digest.finalize().into(),
            State::Bits32(digest) => digest.finalize().into(),
            State::Bits64(digest) => digest.finalize(),
        };
        in_field(&self.params, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: one bit at a time (Ross Williams, "A painless guide to CRC").
    fn bitwise(p: CrcParams, bytes: &[u8]) -> u64 {
        let ones = u64::MAX >> (64 - p.width);
        let reverse = |value: u64, bits: u32| value.reverse_bits() >> (64 - bits);
        let mut register = p.init & ones;
        for &byte in bytes {
            let byte = if p.reflect { byte.reverse_bits() } else { byte };
            for bit in (0..8).rev() {
                let top = register >> (p.width - 1) & 1 ^ u64::from(byte >> bit & 1);
                register = register << 1 & ones;
                if top == 1 {
                    register ^= p.poly & ones;
                }
            }
        }
        let value =
            if p.reflect { reverse(register, p.width) } else { register } ^ p.xor_out & ones;
        if !p.store_little_endian {
            return value;
        }
        let bytes = value.to_le_bytes();
        bytes[..p.width as usize / 8].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn run(p: CrcParams, parts: &[&[u8]]) -> u64 {
        let engine = CrcEngine::new(p);
        let mut run = engine.start();
        parts.iter().for_each(|part| run.add(part));
        run.field_value()
    }

    const ICRC: CrcParams = CrcParams {
        width: 32,
        poly: 0x04c1_1db7,
        init: 0xffff_ffff,
        reflect: true,
        xor_out: 0xffff_ffff,
        store_little_endian: true,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn engines_equal_the_definition(
            width in prop::sample::select(vec![8u32, 16, 24, 32, 64]),
            poly in any::<u64>(), init in any::<u64>(), xor_out in any::<u64>(),
            reflect in any::<bool>(), store_little_endian in any::<bool>(), iso in any::<bool>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..150), cut in any::<u8>(),
        ) {
            let ones = u64::MAX >> (64 - width);
            let mut p = CrcParams {
                width, poly: poly & ones, init: init & ones, reflect, xor_out: xor_out & ones,
                store_little_endian,
            };
            if iso && width == 32 {
                p = CrcParams { poly: ISO_HDLC_POLY, reflect: true, ..p };
            }
            let (a, b) = bytes.split_at(usize::from(cut).min(bytes.len()));
            prop_assert_eq!(run(p, &[a, b]), bitwise(p, &bytes));
            prop_assert_eq!(CrcEngine::new(p).field_value(&[a, b]), bitwise(p, &bytes));
        }
    }

    /// IBTA: the register after the eight bytes of ones that precede a RoCE packet.
    #[test]
    fn known_values() {
        let register = CrcParams { xor_out: 0, store_little_endian: false, ..ICRC };
        assert_eq!(run(register, &[&[0xff; 8]]), 0xdebb_20e3);
        let vcrc = CrcParams {
            width: 16,
            poly: 0x100b,
            init: 0xffff,
            reflect: true,
            xor_out: 0xffff,
            store_little_endian: false,
        };
        assert_eq!(run(vcrc, &[b"1234", b"56789"]), 0x0a3d);
        assert_eq!(run(ICRC, &[b"123456789"]), 0x2639_f4cb);
    }
}
