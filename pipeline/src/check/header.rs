//! Header types: the layout of their fields.

use super::cx::Cx;
use super::expr::Val;
use super::scope::Symbol;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::{VALUE_BITS_MAX, run_pieces};
use crate::ir::{Display, Field, FieldLayout, Header, Piece};

/// Most fixed bits of a header.
pub(crate) const HEADER_BITS_MAX: u64 = 2048;

/// Most fields of a header, with the slices of fields over 128 bits that a program uses.
pub(crate) const FIELDS_MAX: usize = 4096;
/// Most bits of a variable field.
const VARIABLE_BITS_MAX: u64 = 65_536;

/// Built-in types.
pub(crate) const BUILTIN: [(&str, u64, Display); 5] = [
    ("mac", 48, Display::Mac),
    ("ipv4", 32, Display::Ipv4),
    ("ipv6", 128, Display::Ipv6),
    ("port", 16, Display::Decimal),
    ("bool", 1, Display::Decimal),
];

/// A width with its display form.
#[derive(Clone, Copy)]
pub(crate) struct Width {
    pub(crate) bits: u64,
    pub(crate) display: Display,
}

impl Cx<'_> {
    /// The width that a type reference names.
    pub(crate) fn width(&mut self, ty: &TypeRef) -> Option<Width> {
        let mut ty = ty;
        for _ in 0..=self.scope.types.len() {
            let name = match ty {
                TypeRef::Bits(bits) => {
                    return Some(Width { bits: bits.value, display: Display::Hex });
                }
                TypeRef::Named(name) => name,
            };
            match self.scope.types.get(name.value.as_str()) {
                Some(item) => ty = item.decl,
                None => return self.builtin_type(name),
            }
        }
        if let TypeRef::Named(name) = ty {
            let text = format!("type `{}` is defined by itself", name.value);
            self.report.error(codes::CONST_CYCLE, name.span, text);
        }
        None
    }

    fn builtin_type(&mut self, name: &Name) -> Option<Width> {
        if let Some((_, bits, display)) = BUILTIN.iter().find(|(known, ..)| *known == name.value) {
            return Some(Width { bits: *bits, display: *display });
        }
        if let Some(Symbol::Const(index)) = self.scope.symbol(&name.value) {
            let bits = self.const_count(index, name.span)?;
            return Some(Width { bits, display: Display::Hex });
        }
        let text = format!("there is no type `{}`", name.value);
        let names = BUILTIN.iter().map(|(name, ..)| *name).chain(self.scope.types.keys().copied());
        self.report
            .error(codes::UNKNOWN, name.span, text)
            .did_you_mean(&name.value, names)
            .help("a width is a number of bits, or the name of a type or a constant");
        None
    }

    /// The number of entries that a declaration has. `None`: an error was reported.
    pub(crate) fn size(&mut self, size: &Size) -> Option<Sp<u64>> {
        let name = match size {
            Size::Number(number) => return Some(number.clone()),
            Size::Const(name) => name,
        };
        if let Some(Symbol::Const(index)) = self.scope.symbol(&name.value) {
            return Some(Sp::new(self.const_count(index, name.span)?, name.span));
        }
        let text = format!("there is no constant `{}`", name.value);
        let known = self.scope.consts.iter().map(|item| item.name.value.as_str());
        self.report
            .error(codes::UNKNOWN, name.span, text)
            .did_you_mean(&name.value, known)
            .help("a size is a number or the name of a constant");
        None
    }

    /// A constant as a count; `u64::MAX` if it does not fit, which exceeds any limit.
    fn const_count(&mut self, index: usize, span: crate::ir::SourceSpan) -> Option<u64> {
        let value = match self.const_named(index, span)? {
            Val::Int(number) => number.value(),
            Val::Typed(id) => crate::ir::eval::constant(&self.ir.exprs, id),
            Val::Open(_) | Val::Poison => None,
        };
        Some(value.map_or(u64::MAX, |value| u64::try_from(value).unwrap_or(u64::MAX)))
    }

    /// A width of 1 to 128 bits, of a value used in arithmetic.
    pub(crate) fn scalar_width(&mut self, ty: &TypeRef) -> Option<Width> {
        let width = self.width(ty)?;
        let span = match ty {
            TypeRef::Bits(bits) => bits.span,
            TypeRef::Named(name) => name.span,
        };
        self.width_is_valid(width.bits, span).then_some(width)
    }

    /// Lays a header type out. A wrong field is left out, and the header counts as broken.
    pub(crate) fn header(&mut self, name: &Name, decl: &HeaderDecl) -> (Header, bool) {
        let errors = self.report.counts().0;
        if let Some((surplus, _)) = decl.fields.get(HEADER_BITS_MAX as usize) {
            let text = format!("header `{}` has more than {HEADER_BITS_MAX} fields", name.value);
            self.report.error(codes::HEADER_SIZE, surplus.span, text);
        }
        let mut header = Header {
            name: name.value.clone(),
            fields: IdVec::new(),
            fixed_bytes: 0,
            max_bytes: 0,
            variable: None,
            controller: decl.controller.as_ref().map(|controller| controller.value),
            span: Some(name.span),
        };
        if decl.word.is_some() {
            self.word_layout(decl, &mut header, name);
        } else {
            self.run_layout(decl, &mut header, name);
        }
        if let Some(controller) = &decl.controller
            && header.max_bytes > header.fixed_bytes
        {
            let text = format!("`{}` has a length that varies", name.value);
            self.report
                .error(codes::BAD_LAYOUT, controller.span, text)
                .help("a header of the control plane has fields of fixed width only");
        }
        let wide = |field: &&Field| matches!(field.layout, FieldLayout::Opaque { .. });
        if let (Some(controller), Some(field)) = (&decl.controller, header.fields.iter().find(wide))
        {
            let text = format!("`{}.{}` has more than 128 bits", name.value, field.name);
            self.report
                .error(codes::BAD_LAYOUT, controller.span, text)
                .help("a field of a header of the control plane has at most 128: divide it");
        }
        (header, self.report.counts().0 > errors)
    }

    /// Fields that follow each other in network order.
    fn run_layout(&mut self, decl: &HeaderDecl, header: &mut Header, name: &Name) {
        let mut bit = 0u64;
        let mut whole = true;
        let fields = decl.fields.iter().take(HEADER_BITS_MAX as usize);
        for (position, (field_name, field)) in fields.enumerate() {
            self.check_field_name(header, field_name);
            let last = position + 1 == decl.fields.len();
            // After a wrong field the start of the next one is unknown.
            bit = if whole { bit } else { bit.next_multiple_of(8) };
            let errors = self.report.counts().0;
            if let Some(field) = self.run_field(field_name, field, bit, last) {
                bit += fixed_bits(&field);
                if matches!(field.layout, FieldLayout::Variable { .. }) {
                    header.variable = Some(header.fields.next_id());
                }
                header.fields.push(field);
            }
            whole &= self.report.counts().0 == errors;
            if bit > HEADER_BITS_MAX {
                let text = format!("header `{}` is longer than {HEADER_BITS_MAX} bits", name.value);
                self.report.error(codes::HEADER_SIZE, field_name.span, text);
                return;
            }
        }
        if !whole {
            return;
        }
        if !bit.is_multiple_of(8) {
            let text = format!("header `{}` has {bit} bits, which are not whole bytes", name.value);
            let help = format!("{} bits are missing, or {} too many", 8 - bit % 8, bit % 8);
            self.report.error(codes::HEADER_SIZE, name.span, text).help(help);
        }
        header.fixed_bytes = (bit / 8) as u32;
        let variable = header.fields.iter().map(|field| match field.layout {
            FieldLayout::Variable { max_bytes, .. } => max_bytes,
            _ => 0,
        });
        header.max_bytes = header.fixed_bytes + variable.sum::<u32>();
        if header.max_bytes == 0 {
            let text = format!("header `{}` has no bits", name.value);
            self.report.error(codes::HEADER_SIZE, name.span, text);
        }
        if let Some(bytes) = &decl.bytes
            && bytes.value != bit / 8
        {
            let text = format!("the fields take {} bytes, not {}", bit / 8, bytes.value);
            self.report.error(codes::HEADER_SIZE, bytes.span, text);
        }
    }

    fn check_field_name(&mut self, header: &Header, name: &Name) {
        if matches!(name.value.as_str(), "valid" | "length" | "last" | "depth") {
            let text = format!("no field is named `{}`: it means something else", name.value);
            let help = "`h.valid`, `h.length`, `stack.last` and `stack.depth` are taken";
            self.report.error(codes::RESERVED, name.span, text).help(help);
        } else if header.fields.iter().any(|field| field.name == name.value) {
            let text = format!("field `{}` is declared twice", name.value);
            self.report.error(codes::TWICE, name.span, text);
        }
    }

    /// A field at `bit`; `None` when it is wrong.
    fn run_field(&mut self, name: &Name, field: &FieldDecl, bit: u64, last: bool) -> Option<Field> {
        let at = bit as u32;
        let (layout, bits, display) = match field {
            FieldDecl::Bits(ty) => {
                let width = self.width(ty)?;
                if width.bits > u64::from(VALUE_BITS_MAX) {
                    (self.opaque(name, width.bits, bit)?, 0, Display::Hex)
                } else {
                    self.width_is_valid(width.bits, name.span).then_some(())?;
                    let bits = width.bits as u32;
                    (FieldLayout::Run { bit: at, bits }, bits, width.display)
                }
            }
            FieldDecl::Array { count, bits } => {
                if !(1..=64).contains(&bits.value) || !(1..=2048).contains(&count.value) {
                    let text = "an array has 1 to 2048 elements of 1 to 64 bits";
                    return self.report.refuse(codes::BAD_WIDTH, name.span, text);
                }
                let (bits, count) = (bits.value as u32, count.value as u32);
                (FieldLayout::Array { bit: at, bits, count }, bits, Display::Hex)
            }
            FieldDecl::Variable { max_bits, .. } => {
                (self.variable(name, max_bits, bit, last)?, 0, Display::Hex)
            }
            FieldDecl::Slices(_) => {
                let text = "slices refer to words, and this header does not say which";
                self.report
                    .error(codes::BAD_LAYOUT, name.span, text)
                    .help("add `word: { bits: 32, order: little }` and `bytes:` to the header");
                return None;
            }
        };
        Some(Field { name: name.value.clone(), bits, layout, display, part_of: None })
    }

    fn opaque(&mut self, name: &Name, bits: u64, bit: u64) -> Option<FieldLayout> {
        if bits.is_multiple_of(8) && bit.is_multiple_of(8) && bits <= HEADER_BITS_MAX {
            let (byte, bytes) = ((bit / 8) as u32, (bits / 8) as u32);
            return Some(FieldLayout::Opaque { byte, bytes });
        }
        let text = format!(
            "a field over {VALUE_BITS_MAX} bits is whole bytes, from the start of one, up to \
             {HEADER_BITS_MAX} bits"
        );
        self.report.refuse(codes::BAD_WIDTH, name.span, text)
    }

    fn variable(
        &mut self,
        name: &Name,
        max_bits: &Sp<u64>,
        bit: u64,
        last: bool,
    ) -> Option<FieldLayout> {
        if !last {
            let text = "a variable field is the last one of its header";
            return self.report.refuse(codes::BAD_LAYOUT, name.span, text);
        }
        let bits = max_bits.value;
        // Its start is the end of the fixed part, and whether that is a whole byte is checked for the header.
        if !bits.is_multiple_of(8) || !(8..=VARIABLE_BITS_MAX).contains(&bits) {
            let text =
                format!("a variable field has whole bytes, at most {VARIABLE_BITS_MAX} bits");
            return self.report.refuse(codes::BAD_LAYOUT, max_bits.span, text);
        }
        Some(FieldLayout::Variable { byte: (bit / 8) as u32, max_bytes: (bits / 8) as u32 })
    }

    /// Fields made of slices of words.
    fn word_layout(&mut self, decl: &HeaderDecl, header: &mut Header, name: &Name) {
        let Some(word) = &decl.word else { return };
        let Some(bytes) = &decl.bytes else {
            let text = "a header made of words says how long it is";
            self.report.error(codes::BAD_LAYOUT, name.span, text).help("add `bytes: 20`");
            return;
        };
        if bytes.value == 0 || bytes.value * 8 > HEADER_BITS_MAX {
            let text = format!("a header has 1 to {} bytes", HEADER_BITS_MAX / 8);
            self.report.error(codes::HEADER_SIZE, bytes.span, text);
            return;
        }
        if !matches!(word.bits.value, 8 | 16 | 32 | 64) {
            let text = format!("a word has 8, 16, 32 or 64 bits, not {}", word.bits.value);
            self.report.error(codes::BAD_LAYOUT, word.bits.span, text);
            return;
        }
        (header.fixed_bytes, header.max_bytes) = (bytes.value as u32, bytes.value as u32);
        let mut owners: Vec<Option<&Name>> = vec![None; bytes.value as usize * 8];
        for (field_name, field) in &decl.fields {
            self.check_field_name(header, field_name);
            let FieldDecl::Slices(slices) = field else {
                let text = "a field of a header with `word` names its slices";
                let help = format!("as in `{}: \"w0[15:0]\"`", field_name.value);
                self.report.error(codes::BAD_LAYOUT, field_name.span, text).help(help);
                continue;
            };
            let Some(pieces) = self.word_pieces(slices, word, bytes.value as u32) else { continue };
            self.claim(&pieces, field_name, &mut owners);
            let bits = pieces.iter().map(|piece| u32::from(piece.bits)).sum();
            let layout = as_run(&pieces, bits).unwrap_or(FieldLayout::Pieces(pieces));
            let name = field_name.value.clone();
            header.fields.push(Field { name, bits, layout, display: Display::Hex, part_of: None });
        }
    }

    /// The pieces of a field, highest first; `None` when a slice is wrong.
    fn word_pieces(
        &mut self,
        slices: &[Sp<WordSlice>],
        word: &WordDecl,
        bytes: u32,
    ) -> Option<Vec<Piece>> {
        let word_bits = word.bits.value as u32;
        let mut total = 0u64;
        for slice in slices {
            let WordSlice { word: at, high, low } = slice.value;
            let fits = low <= high && high < word_bits;
            let end = (u64::from(at) + 1) * u64::from(word_bits / 8);
            if !fits || end > bytes.into() {
                let text = format!("`w{at}[{high}:{low}]` is outside the header");
                let help = format!("it has {} words of {word_bits} bits", bytes * 8 / word_bits);
                self.report.error(codes::BAD_LAYOUT, slice.span, text).help(help);
                return None;
            }
            total += u64::from(high - low + 1);
        }
        let span = slices.first()?.span;
        self.width_is_valid(total, span).then_some(())?;
        let mut pieces = Vec::new();
        let mut left = total as u32;
        for slice in slices {
            slice_pieces(slice.value, word_bits, word.little, &mut left, &mut pieces);
        }
        Some(pieces)
    }

    /// Notes the owner of these bits; overlapping fields are an error.
    fn claim<'n>(&mut self, pieces: &[Piece], name: &'n Name, owners: &mut [Option<&'n Name>]) {
        for piece in pieces {
            for bit in 0..u32::from(piece.bits) {
                let at = piece.byte * 8 + u32::from(piece.lsb) + bit;
                let Some(owner) = owners.get_mut(at as usize) else { continue };
                if let Some(first) = owner {
                    let text = format!("`{}` shares bits with `{}`", name.value, first.value);
                    let first = first.span;
                    self.report
                        .error(codes::BAD_LAYOUT, name.span, text)
                        .label(first, "these bits are taken");
                    return;
                }
                *owner = Some(name);
            }
        }
    }
}

/// The number of a field's bits that every packet has.
fn fixed_bits(field: &Field) -> u64 {
    match field.layout {
        FieldLayout::Run { bits, .. } => bits.into(),
        FieldLayout::Array { bits, count, .. } => u64::from(bits) * u64::from(count),
        FieldLayout::Opaque { bytes, .. } => u64::from(bytes) * 8,
        FieldLayout::Pieces(_) | FieldLayout::Variable { .. } => 0,
    }
}

/// Adds the pieces of one slice; `left` is the number of bits of the value not placed yet.
fn slice_pieces(
    slice: WordSlice,
    word_bits: u32,
    little: bool,
    left: &mut u32,
    pieces: &mut Vec<Piece>,
) {
    let mut high = slice.high;
    loop {
        let byte_in_word = if little { high / 8 } else { word_bits / 8 - 1 - high / 8 };
        let low = (high / 8 * 8).max(slice.low);
        let bits = high - low + 1;
        *left -= bits;
        pieces.push(Piece {
            byte: slice.word * (word_bits / 8) + byte_in_word,
            lsb: (low % 8) as u8,
            bits: bits as u8,
            at: *left as u8,
        });
        if low == slice.low {
            return;
        }
        high = low - 1;
    }
}

/// The pieces as a run in network order, if they are contiguous.
fn as_run(pieces: &[Piece], bits: u32) -> Option<FieldLayout> {
    let first = pieces.first()?;
    let bit = first.byte * 8 + 8 - u32::from(first.lsb) - u32::from(first.bits);
    (run_pieces(bit, bits) == pieces).then_some(FieldLayout::Run { bit, bits })
}
