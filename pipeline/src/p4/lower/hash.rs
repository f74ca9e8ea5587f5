//! Hashes and checksums over lists of fields, which P4 joins bit by bit and the language in whole bytes.

use super::super::tree::Expr;
use super::super::types::Type;
use super::arch::Arch;
use super::build::{binary, call, cast, known, named, number, slice};
use super::env::Val;
use super::v1model::plain_meta;
use super::{Lower, wide};
use crate::ast::{Ast, AstBin, AstExpr};
use crate::ir::SourceSpan;

/// In the place of a width: a field that has bytes and no value, or the body.
pub(super) const BYTES: u32 = u32::MAX;

impl Lower<'_> {
    /// The hash of the language that a member of the architecture's enum means. Those whose polynomials a controller may set are with those
    /// that bmv2 has before (`calculations.cpp` of its library): CRC-16 and CRC-32.
    pub(super) fn algorithm(&mut self, value: &Val, span: SourceSpan) -> Option<&'static str> {
        let number = match value {
            Val::Scalar(scalar) => known(scalar)?,
            _ => return None,
        };
        let names: &[&str] = match self.arch {
            Arch::V1model => {
                &["crc32", "crc32", "crc16", "crc16", "", "identity", "csum16", "xor16"]
            }
            Arch::Psa => &["identity", "crc32", "crc32", "crc16", "crc16", "csum16", "crc32"],
        };
        match names.get(number as usize) {
            Some(&"") | None => {
                self.unsupported(span, "this hash algorithm is not supported")
                    .note("there are crc16, crc32, csum16, xor16 and identity");
                None
            }
            Some(name) => Some(name),
        }
    }

    /// All numbers of a value with their widths.
    pub(super) fn fields(
        &mut self,
        value: &Val,
        ty: &Type,
        span: SourceSpan,
    ) -> Vec<(AstExpr, u32)> {
        let mut found = Vec::new();
        self.fields_into(value, ty, span, &mut found);
        found
    }

    fn fields_into(
        &mut self,
        value: &Val,
        ty: &Type,
        span: SourceSpan,
        into: &mut Vec<(AstExpr, u32)>,
    ) {
        match value {
            _ if ty.has_no_bits() => {}
            Val::Scalar(scalar) => {
                let is_path = matches!(scalar.value, Ast::Path(_));
                if is_bytes(ty) && !is_path {
                    let bits = self.bits(ty, span);
                    let part =
                        |(high, low)| (wide::bits_of(scalar, (high, low), span), high - low + 1);
                    into.extend(wide::slices(bits).map(part));
                    return;
                }
                if is_bytes(ty) {
                    into.push((scalar.clone(), BYTES));
                    return;
                }
                let bits = self.bits(ty, span);
                if bits == 0 {
                    self.unsupported(span, "a number without a width in a hash or checksum");
                    return;
                }
                // As for p4c, which replaces such variables by their value.
                let one = plain_meta(scalar).and_then(|name| self.constants.get(&name));
                into.push((one.map_or(scalar.clone(), |one| number(*one, bits, span)), bits));
            }
            Val::Struct(fields) | Val::Literal(Some(fields)) => {
                for (name, value) in fields.clone().iter() {
                    let of = super::storage::part(ty, name).unwrap_or(Type::Any);
                    self.fields_into(value, &of, span, into);
                }
            }
            Val::Header(header) => {
                let whole = Type::Struct(header.ty.clone());
                for (name, value) in self.header_fields(header, span) {
                    let of = super::storage::part(&whole, &name).unwrap_or(Type::Any);
                    self.fields_into(&value, &of, span, into);
                }
            }
            _ => {
                self.unsupported(span, "this cannot be hashed");
            }
        }
    }

    /// The fields joined, in pieces of whole bytes; zeros fill the last one. A constant that begins at a whole byte takes whole bytes, with
    /// zeros before it: bmv2 joins only fields bit by bit.
    pub(super) fn pieces(&mut self, fields: &[(AstExpr, u32)], span: SourceSpan) -> Vec<AstExpr> {
        let mut pieces = Vec::new();
        let mut piece: Option<(AstExpr, u32)> = None;
        for (value, bits) in fields {
            if *bits == BYTES {
                if piece.is_some() {
                    let is_payload = matches!(&value.value, Ast::Path(path) if path.plain().as_deref() == Some("body"));
                    let what = match is_payload {
                        true => "the payload",
                        false => "a varbit, or a field over 128 bits,",
                    };
                    let text =
                        format!("{what} that does not begin at a whole byte of what is hashed");
                    self.unsupported(span, text);
                }
                pieces.push(value.clone());
                continue;
            }
            if let (Some(one), None, false) = (known(value), &piece, bits.is_multiple_of(8)) {
                pieces.push(number(one, bits.next_multiple_of(8), span));
                continue;
            }
            let mut left = *bits;
            while left > 0 {
                let room = 128 - piece.as_ref().map_or(0, |(_, bits)| *bits);
                let take = left.min(room);
                let part = if take == *bits {
                    value.clone()
                } else {
                    slice(value.clone(), left - 1, left - take, span)
                };
                let (joined, total) = match piece.take() {
                    Some((before, width)) => {
                        (binary(AstBin::Concat, before, part, span), width + take)
                    }
                    None => (part, take),
                };
                left -= take;
                if total.is_multiple_of(8) {
                    pieces.push(joined);
                } else {
                    piece = Some((joined, total));
                }
            }
        }
        if let Some((last, bits)) = piece {
            let fill = bits.next_multiple_of(8) - bits;
            pieces.push(binary(AstBin::Concat, last, number(0, fill, span), span));
        }
        pieces
    }

    /// The hash of fields, and its width.
    pub(super) fn hashed(
        &mut self,
        algorithm: &str,
        fields: &[(AstExpr, u32)],
        span: SourceSpan,
    ) -> (AstExpr, u32) {
        let pieces = self.pieces(fields, span);
        let bits = match algorithm {
            "crc32" => 32,
            "identity" => 64,
            _ => 16,
        };
        if pieces.is_empty() {
            let nothing = match algorithm {
                "csum16" => 0xffff,
                _ => 0,
            };
            return (number(nothing, bits, span), bits);
        }
        let mut args = vec![named(&[algorithm], span)];
        args.extend(pieces);
        (call("hash", args, span), bits)
    }

    /// The hash of data from a base on, below a limit: `base`, `data`, `max`, in this order.
    pub(super) fn hash_between(
        &mut self,
        algorithm: &str,
        args: [&Expr; 3],
        to: u32,
        span: SourceSpan,
    ) -> AstExpr {
        let [base, data, max] = self.each_in_order(args);
        let [base_ty, data_ty, max_ty] = args.map(|arg| self.type_of(arg));
        let fields = self.fields(&data, &data_ty, span);
        let hash = self.hashed(algorithm, &fields, span);
        let base = (self.number_in(&base, span), self.bits(&base_ty, span));
        let max = (self.number_in(&max, span), self.bits(&max_ty, span));
        self.hash_range(hash, base, max, to, span)
    }

    /// `base + hash % max` in the width of a type.
    fn hash_range(
        &mut self,
        hash: (AstExpr, u32),
        base: (AstExpr, u32),
        max: (AstExpr, u32),
        to: u32,
        span: SourceSpan,
    ) -> AstExpr {
        let width = [hash.1, base.1, max.1, to].into_iter().max().unwrap_or(64).clamp(1, 128);
        let wide =
            |value: AstExpr, bits: u32| if bits == width { value } else { cast(width, value) };
        let hash = wide(hash.0, hash.1);
        let rest = match known(&max.0) {
            Some(max) if max.is_power_of_two() => {
                binary(AstBin::And, hash, number(max - 1, width, span), span)
            }
            Some(0) => number(0, width, span),
            Some(max) => binary(AstBin::Rem, hash, number(max, width, span), span),
            None => binary(AstBin::Rem, hash, wide(max.0, max.1), span),
        };
        let sum = match known(&base.0) {
            Some(0) => rest,
            Some(base) => binary(AstBin::Add, number(base, width, span), rest, span),
            None => binary(AstBin::Add, wide(base.0, base.1), rest, span),
        };
        if to == width { sum } else { cast(to, sum) }
    }
}

/// A type whose values are bytes and no numbers: a varbit, or more than 128 bits.
pub(super) fn is_bytes(ty: &Type) -> bool {
    match ty.base() {
        Type::Varbit(_) => true,
        Type::Bit(bits) | Type::Int(bits) => *bits > 128,
        _ => false,
    }
}
