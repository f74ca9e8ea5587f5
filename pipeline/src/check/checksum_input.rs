//! Checksums and CRCs: the field, its input, its condition, and the reaction to a wrong one.

use super::cx::{Cx, Env, Place};
use super::expr::path::Target;
use super::scope::Symbol;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::*;

/// Most checksums, and most CRCs: bits of `std.checksum_error` and `std.crc_error`.
const COVERS_MAX: usize = 32;

impl Cx<'_> {
    /// Checksums of every unit; one of a library is left out if its header is.
    pub(crate) fn lower_checksums(&mut self) {
        self.env = Env::at(Place::Data);
        let units = self.units;
        for (unit, decls) in units.iter().enumerate() {
            for decl in &decls.checksums {
                if self.ir.checksums.len() >= COVERS_MAX {
                    let text = format!("a program has at most {COVERS_MAX} checksums");
                    self.report.error(codes::LIMITS, decl.span, text);
                    return;
                }
                if let Some(checksum) = self.checksum(unit, decl) {
                    self.ir.checksums.push(checksum);
                }
            }
        }
    }

    fn checksum(&mut self, unit: usize, decl: &ChecksumDecl) -> Option<Checksum> {
        let field = self.field_of_cover(unit, &decl.field, Some(16));
        let over = self.covered(unit, &decl.over, decl.when.as_ref());
        let when = self.when(decl.when.as_ref())?;
        let verify = self.verify_word(decl.verify.as_ref(), Verify::Count);
        let words = [
            ("incremental", Update::Incremental),
            ("always", Update::Always),
            ("never", Update::Never),
        ];
        let update = self.update_word(decl.update.as_ref(), &words, Update::Incremental);
        let (field, name) = field?;
        let zero_means_none = decl.zero_means_none;
        Some(Checksum { name, field, over: over?, when, zero_means_none, verify, update })
    }

    /// CRCs of every unit, in order.
    pub(crate) fn lower_crcs(&mut self) {
        self.env = Env::at(Place::Data);
        for index in 0..self.scope.crcs.len() {
            let Some((&name, &item)) = self.scope.crcs.get_index(index) else { continue };
            if self.ir.crcs.len() >= COVERS_MAX {
                let text = format!("a program has at most {COVERS_MAX} CRCs");
                self.report.error(codes::LIMITS, item.name.span, text);
                return;
            }
            if let Some(crc) = self.crc(item.unit, item.name, item.decl) {
                let id = self.ir.crcs.push(crc);
                self.ids.crcs.insert(name.to_string(), id);
            }
        }
    }

    fn crc(&mut self, unit: usize, name: &Name, decl: &CrcDecl) -> Option<Crc> {
        let params = self.crc_params(name, decl);
        let width = params.map(|params| params.width);
        let field = match &decl.field {
            Some(field) => self.field_of_cover(unit, field, width).map(|(field, _)| field),
            None => self.first_field(unit, name, width),
        };
        let over = self.covered(unit, &decl.over, decl.when.as_ref());
        let when = self.when(decl.when.as_ref())?;
        let verify = self.verify_word(decl.verify.as_ref(), Verify::Off);
        let words = [
            ("never", Update::Never),
            ("on_request", Update::OnRequest),
            ("always", Update::Always),
        ];
        let update = self.update_word(decl.update.as_ref(), &words, Update::Never);
        let (name, field) = (name.value.clone(), field?);
        Some(Crc { name, field, params: params?, over: over?, when, verify, update })
    }

    /// The field that holds a checksum or CRC: `bits` wide, whole bytes in network order. `None`
    /// without an error when a library names a header that the program does not use.
    fn field_of_cover(
        &mut self,
        unit: usize,
        field: &AstExpr,
        bits: Option<u32>,
    ) -> Option<((InstanceId, FieldId), String)> {
        let text = "a field of a header is wanted here";
        let Ast::Path(path) = &field.value else {
            return self.report.refuse(codes::WRONG_KIND, field.span, text);
        };
        match self.resolve(path, field.span)? {
            Target::Field(instance, id, width) => {
                let name = path.plain().unwrap_or_default();
                self.check_cover_field((instance, id), width, bits, field.span)?;
                Some(((instance, id), name))
            }
            Target::Absent(_) => {
                if unit == 0 {
                    self.never_valid(path, field.span);
                }
                None
            }
            _ => self.report.refuse(codes::WRONG_KIND, field.span, text),
        }
    }

    fn check_cover_field(
        &mut self,
        (instance, field): (InstanceId, FieldId),
        width: u32,
        bits: Option<u32>,
        span: SourceSpan,
    ) -> Option<()> {
        if let Some(bits) = bits
            && bits != width
        {
            let text = format!("this field has {width} bits, and the result {bits}");
            return self.report.refuse(codes::COVER_FIELD, span, text);
        }
        let header = self.ir.instances.get(instance)?.header;
        let layout = &self.ir.headers.get(header)?.fields.get(field)?.layout;
        let whole = matches!(layout, FieldLayout::Run { bit, .. } if bit.is_multiple_of(8));
        if !whole {
            let text = "a checksum or CRC is whole bytes in network order";
            self.report.error(codes::COVER_FIELD, span, text);
        }
        whole.then_some(())
    }

    /// The first field of the instance with the name of the CRC.
    fn first_field(
        &mut self,
        unit: usize,
        name: &Name,
        width: Option<u32>,
    ) -> Option<(InstanceId, FieldId)> {
        let Some(Symbol::Instance(_)) = self.scope.symbol(&name.value) else {
            let text = format!("there is no header `{}` to hold this CRC", name.value);
            self.report
                .error(codes::COVER_FIELD, name.span, text)
                .help("say where it is: `field: icrc.value`");
            return None;
        };
        let Some(instance) = self.instances_named(name).first().copied() else {
            if unit == 0 {
                self.warn_never(&name.value, name.span);
            }
            return None;
        };
        let header = self.ir.instances.get(instance)?.header;
        let field = self.ir.headers.get(header)?.fields.get(FieldId(0))?.bits;
        self.check_cover_field((instance, FieldId(0)), field, width, name.span)?;
        Some((instance, FieldId(0)))
    }

    fn never_valid(&mut self, path: &Path, span: SourceSpan) {
        if let Some(PathPart::Name(name)) = path.parts.first() {
            self.warn_never(&name.value, span);
        }
    }

    /// Warns of a header of the program's own file that is never made valid; not where states are missing, because of
    /// an error. In P4 once, by the name of the source, and not of those that the source does not have.
    pub(crate) fn warn_never(&mut self, name: &str, span: SourceSpan) {
        if self.incomplete {
            return;
        }
        let origin = self.ir.origin.clone();
        let called = match &origin {
            Some(origin) => origin.any_header(name),
            None => Some(name.to_owned()),
        };
        let Some(called) = called else { return };
        let text = format!("header `{called}` is never valid");
        if origin.is_some() && self.report.iter().any(|one| one.message == text) {
            return;
        }
        self.report
            .warning(codes::NEVER_VALID, span, text)
            .note("no state extracts it and no statement makes it valid: it reads as 0");
    }

    /// `None` when the condition was wrong.
    fn when(&mut self, when: Option<&AstExpr>) -> Option<Option<ExprId>> {
        match when {
            Some(when) => self.condition(when).map(Some),
            None => Some(None),
        }
    }

    fn verify_word(&mut self, word: Option<&Name>, otherwise: Verify) -> Verify {
        let words = [("off", Verify::Off), ("count", Verify::Count), ("drop", Verify::Drop)];
        self.choice(word, &words, otherwise)
    }

    fn update_word(
        &mut self,
        word: Option<&Name>,
        words: &[(&'static str, Update)],
        otherwise: Update,
    ) -> Update {
        self.choice(word, words, otherwise)
    }

    fn choice<T: Copy>(
        &mut self,
        word: Option<&Name>,
        words: &[(&'static str, T)],
        otherwise: T,
    ) -> T {
        let Some(word) = word else { return otherwise };
        match words.iter().find(|(known, _)| *known == word.value) {
            Some((_, value)) => *value,
            None => {
                let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
                let text = format!("`{}` is not one of {}", word.value, names.join(", "));
                self.report.error(codes::UNKNOWN, word.span, text).did_you_mean(&word.value, names);
                otherwise
            }
        }
    }

    /// The input, in order; `None` when a part was wrong.
    fn covered(
        &mut self,
        unit: usize,
        over: &[CoveredDecl],
        when: Option<&AstExpr>,
    ) -> Option<Vec<Covered>> {
        let mut all = Vec::new();
        let mut good = true;
        if let Some(when) = when {
            self.guard(when);
        }
        for item in over {
            match self.covered_item(unit, item, &mut all) {
                Some(()) => {}
                None => good = false,
            }
        }
        self.guards.clear();
        good.then_some(all)
    }

    fn covered_item(
        &mut self,
        unit: usize,
        item: &CoveredDecl,
        all: &mut Vec<Covered>,
    ) -> Option<()> {
        match item {
            CoveredDecl::Ones(bytes) => {
                if !(1..=256).contains(&bytes.value) {
                    let text = format!("1 to 256 bytes of ones, not {}", bytes.value);
                    return self.report.refuse(codes::LIMITS, bytes.span, text);
                }
                all.push(Covered::Ones(bytes.value as u32));
            }
            CoveredDecl::Value(value) => {
                let id = self.sized(value)?;
                let bits = self.bits(id);
                if !bits.is_multiple_of(8) {
                    let text = format!("covered values are whole bytes, and this has {bits} bits");
                    self.report
                        .error(codes::COVER, value.span, text)
                        .help("join values with `++`, as in `8w0 ++ ipv4.protocol`");
                    return None;
                }
                all.push(Covered::Value(id));
            }
            CoveredDecl::Masked { instance, mask } => {
                let ids = self.covered_header(unit, instance)?;
                for id in ids {
                    let ones = self.mask_bytes(id, mask)?;
                    all.push(Covered::Header { instance: id, ones });
                }
            }
            CoveredDecl::Name(name) => self.covered_name(unit, name, all)?,
        }
        Some(())
    }

    fn covered_name(&mut self, unit: usize, name: &Name, all: &mut Vec<Covered>) -> Option<()> {
        let plain = |instance| Covered::Header { instance, ones: Vec::new() };
        if name.value == "body" {
            all.push(Covered::Body);
            return Some(());
        }
        // Pads without a name of their own share one.
        let pads = self.pads.iter().enumerate();
        let named = pads.filter(|(_, pad)| pad.as_ref() == Some(&name.value));
        let named: Vec<Covered> = named.map(|(at, _)| Covered::After(at as u32)).collect();
        if !named.is_empty() {
            all.extend(named);
            return Some(());
        }
        if matches!(self.scope.symbol(&name.value), Some(Symbol::Instance(_))) {
            all.extend(self.covered_header(unit, name)?.into_iter().map(plain));
            return Some(());
        }
        match name.value.as_str() {
            // A program without a pad has none to cover.
            "pad" => {}
            "rest" => {
                let named = |id: &InstanceId| {
                    all.iter()
                        .any(|c| matches!(c, Covered::Header { instance, .. } if instance == id))
                };
                let emit = &self.ir.deparser.emit;
                let last = all.iter().rev().find_map(|covered| match covered {
                    Covered::Header { instance, .. } => emit.iter().position(|id| id == instance),
                    _ => None,
                });
                let from = last.map_or(0, |at| at + 1);
                let rest: Vec<InstanceId> =
                    emit.iter().skip(from).filter(|id| !named(id)).copied().collect();
                all.extend(rest.into_iter().map(plain));
                all.push(Covered::Body);
            }
            _ => {
                let known = self.scope.symbols.iter();
                let headers =
                    known.filter(|(_, (symbol, _))| matches!(symbol, Symbol::Instance(_)));
                let mut names: Vec<&str> = headers.map(|(name, _)| *name).collect();
                names.extend(["body", "rest", "pad"]);
                let text = format!("nothing is called `{}` that can be covered", name.value);
                self.report.error(codes::UNKNOWN, name.span, text).did_you_mean(&name.value, names);
                return None;
            }
        }
        Some(())
    }

    /// The headers of a name, with a warning when the program covers a header that is never valid.
    fn covered_header(&mut self, unit: usize, name: &Name) -> Option<Vec<InstanceId>> {
        if !matches!(self.scope.symbol(&name.value), Some(Symbol::Instance(_))) {
            self.no_such(name, "a header", |symbol| matches!(symbol, Symbol::Instance(_)));
            return None;
        }
        let ids = self.instances_named(name);
        if ids.is_empty() && unit == 0 {
            self.warn_never(&name.value, name.span);
        }
        Some(ids)
    }

    /// Ones where masked fields are, over the fixed part of a header.
    fn mask_bytes(&mut self, instance: InstanceId, mask: &[Name]) -> Option<Vec<u8>> {
        let header = self.ir.instances.get(instance)?.header;
        let header = self.ir.headers.get(header)?.clone();
        let mut bytes = vec![0u8; header.fixed_bytes as usize];
        let mut set = |bit: u32| {
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte |= 0x80 >> (bit % 8);
            }
        };
        let mut good = true;
        for name in mask {
            let Some(field) = header.fields.iter().find(|field| field.name == name.value) else {
                let text = format!("header `{}` has no field `{}`", header.name, name.value);
                let names = header.fields.iter().map(|field| field.name.as_str());
                self.report
                    .error(codes::NO_MEMBER, name.span, text)
                    .did_you_mean(&name.value, names);
                good = false;
                continue;
            };
            match &field.layout {
                FieldLayout::Run { bit, bits } => (*bit..bit + bits).for_each(&mut set),
                FieldLayout::Array { bit, bits, count } => {
                    (*bit..bit + bits * count).for_each(&mut set);
                }
                FieldLayout::Opaque { byte, bytes } => {
                    (byte * 8..(byte + bytes) * 8).for_each(&mut set);
                }
                FieldLayout::Pieces(pieces) => {
                    for piece in pieces {
                        let top = 8 - u32::from(piece.lsb) - u32::from(piece.bits);
                        let from = piece.byte * 8 + top;
                        (from..from + u32::from(piece.bits)).for_each(&mut set);
                    }
                }
                FieldLayout::Variable { .. } => {
                    let text = format!("`{}` has no fixed place and cannot be masked", name.value);
                    self.report.error(codes::COVER, name.span, text);
                    good = false;
                }
            }
        }
        good.then_some(bytes)
    }

    /// Parameters in the Rocksoft model.
    fn crc_params(&mut self, name: &Name, decl: &CrcDecl) -> Option<CrcParams> {
        const KNOWN: [&str; 6] = ["width", "poly", "init", "reflect", "xor_out", "store"];
        for (key, _) in &decl.params {
            if !KNOWN.contains(&key.value.as_str()) {
                let text = format!("a CRC has no parameter `{}`", key.value);
                self.report.error(codes::UNKNOWN, key.span, text).did_you_mean(&key.value, KNOWN);
            }
        }
        let width = self.crc_number(decl, "width", 32)?;
        if !width.is_some_and(|width| matches!(width, 8 | 16 | 24 | 32 | 64)) {
            let text = "a CRC has a width of 8, 16, 24, 32 or 64 bits";
            return self.report.refuse(codes::CRC_PARAMS, name.span, text);
        }
        let width = width? as u32;
        let poly = self.crc_number(decl, "poly", width)?;
        let init = self.crc_number(decl, "init", width)?.unwrap_or(0);
        let xor_out = self.crc_number(decl, "xor_out", width)?.unwrap_or(0);
        let Some(poly) = poly else {
            let text = "a CRC needs its polynomial";
            let help = "as in `poly: 0x04c11db7`: without the top bit, not reflected";
            self.report.error(codes::CRC_PARAMS, name.span, text).help(help);
            return None;
        };
        let reflect = self.crc_word(decl, "reflect", [("false", false), ("true", true)]);
        let little = self.crc_word(decl, "store", [("big", false), ("little", true)]);
        Some(CrcParams { width, poly, init, reflect, xor_out, store_little_endian: little })
    }

    fn crc_number(&mut self, decl: &CrcDecl, key: &str, width: u32) -> Option<Option<u64>> {
        let Some((_, value)) = decl.params.iter().find(|(name, _)| name.value == key) else {
            return Some(None);
        };
        let text = value.value.replace('_', "");
        let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse::<u64>().ok(),
        };
        match number {
            Some(number) if u128::from(number) <= ones(width) => Some(Some(number)),
            _ => {
                let text = format!("`{key}` is a number of at most {width} bits");
                self.report.refuse(codes::CRC_PARAMS, value.span, text)
            }
        }
    }

    fn crc_word(&mut self, decl: &CrcDecl, key: &str, words: [(&'static str, bool); 2]) -> bool {
        let value = decl.params.iter().find(|(name, _)| name.value == key).map(|(_, value)| value);
        self.choice(value, &words, false)
    }
}
