//! Numbers the used declarations and builds them: headers, instances, metadata, state.
//!
//! Ids follow the order of declaration, libraries after the program. Unused declarations of a library get no id.

use super::cx::{ConstState, Cx, Env, InstanceRef, Place};
use super::header::Width;
use super::scope::{InstanceItem, Item, Symbol};
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::code::Local;
use crate::ir::decl::{
    CARRIED_BYTES_MAX, CARRIED_INLINE_BYTES, CARRIED_MARK_AT, INSTANCES_MAX, METADATA_BYTES_MAX,
};
use crate::ir::*;
use crate::syntax;
use wireyard_tables::MatchKind;

/// Most elements of a header stack.
pub(crate) const STACK_MAX: u64 = 32;
/// Most fields of a digest.
const DIGEST_FIELDS_MAX: usize = 32;
/// Most cells of a register.
const CELLS_MAX: usize = 16;
/// Most members of a value set.
const VALUE_SET_MAX: u64 = 4096;
/// Most bits of the keys of a value set together: engines look for one number.
const SET_BITS_MAX: u32 = 128;
/// Most entries of a register, counter or meter array.
pub(crate) const ARRAY_MAX: u64 = 1 << 24;

impl Cx<'_> {
    /// Everything but code.
    pub(crate) fn declare(&mut self) {
        // Constants may name them.
        self.declare_errors();
        for index in 0..self.scope.consts.len() {
            let Some(item) = self.scope.consts.get(index).copied() else { continue };
            if item.unit == 0 || self.uses.all.contains(&Symbol::Const(index)) {
                self.const_named(index, item.name.span);
            }
        }
        self.declare_headers();
        self.declare_instances();
        self.declare_unions();
        self.declare_metadata();
        self.declare_state();
        self.declare_value_sets();
        self.ir.externs = self.externs.signatures().clone();
    }

    /// Header types of the program's own file, and those that an instance in use has.
    fn declare_headers(&mut self) {
        for index in 0..self.scope.headers.len() {
            let Some((&name, &item)) = self.scope.headers.get_index(index) else { continue };
            let used = self.scope.instances.iter().enumerate().any(|(index, instance)| {
                instance.header.value == name && self.uses.all.contains(&Symbol::Instance(index))
            });
            if !used && item.unit != 0 {
                continue;
            }
            let (header, broken) = self.header(item.name, item.decl);
            if used {
                let id = self.ir.headers.push(header);
                self.ids.headers.insert(name.to_string(), id);
                if broken {
                    self.ids.broken.insert(id);
                }
            }
        }
    }

    fn declare_instances(&mut self) {
        let mut full = false;
        for index in 0..self.scope.instances.len() {
            let Some(&item) = self.scope.instances.get(index) else { continue };
            let known = self.scope.headers.contains_key(item.header.value.as_str());
            if !known {
                self.no_such_header(item.header);
            }
            let len = item.stack.map_or(Some(1), |len| self.stack_len(len));
            let used = self.uses.all.contains(&Symbol::Instance(index));
            let id = self.ids.headers.get(&item.header.value).copied();
            let place = match (id, len) {
                (Some(header), Some(len)) if used && !full => {
                    full = self.ir.instances.len() + len as usize > INSTANCES_MAX;
                    if full {
                        self.incomplete = true;
                        self.too_many_instances(&item);
                    }
                    (!full).then(|| self.add_instance(&item, header, len))
                }
                _ => None,
            };
            self.ids.instances.push(place);
        }
        for id in self.ir.instances.ids() {
            self.declare_length(id);
        }
    }

    fn no_such_header(&mut self, name: &Name) {
        let text = format!("there is no header type `{}`", name.value);
        let names: Vec<&str> = self.scope.headers.keys().copied().collect();
        self.report.error(codes::UNKNOWN, name.span, text).did_you_mean(&name.value, names);
    }

    fn stack_len(&mut self, len: &Size) -> Option<u32> {
        let len = self.size(len)?;
        if (1..=STACK_MAX).contains(&len.value) {
            return Some(len.value as u32);
        }
        let text = format!("a stack has 1 to {STACK_MAX} elements, not {}", len.value);
        self.report.refuse(codes::LIMITS, len.span, text)
    }

    fn too_many_instances(&mut self, item: &InstanceItem<'_>) {
        let text = format!("the program uses more than {INSTANCES_MAX} header instances");
        let used: Vec<&str> = self.ir.instances.iter().map(|i| i.name.as_str()).collect();
        let help = format!("in use before this one: {}", used.join(", "));
        self.report
            .error(codes::LIMITS, item.name.span, text)
            .note("every element of a stack is an instance")
            .help(help);
    }

    fn add_instance(&mut self, item: &InstanceItem<'_>, header: HeaderId, len: u32) -> InstanceRef {
        let name = &item.name.value;
        let instance = |name, element| Instance { name, header, element, variable_bits: None };
        if item.stack.is_none() {
            return InstanceRef::One(self.ir.instances.push(instance(name.clone(), None)));
        }
        let first = self.ir.instances.next_id();
        let stack = self.ir.stacks.push(Stack { name: name.clone(), first, len });
        for at in 0..len {
            self.ir.instances.push(instance(format!("{name}[{at}]"), Some((stack, at))));
        }
        InstanceRef::Stack(stack)
    }

    /// The length of a variable header, over the fields of this instance.
    fn declare_length(&mut self, id: InstanceId) {
        let Some(header) = self.ir.instances.get(id).map(|instance| instance.header) else {
            return;
        };
        let Some(header) = self.ir.headers.get(header).filter(|header| header.variable.is_some())
        else {
            return;
        };
        let Some(item) = self.scope.headers.get(header.name.as_str()).copied() else { return };
        let Some(length) = item.decl.fields.iter().find_map(|(_, field)| match field {
            FieldDecl::Variable { length, .. } => length.as_ref(),
            _ => None,
        }) else {
            return;
        };
        let env = std::mem::replace(&mut self.env, Env::at(Place::Header(id)));
        let bits = self.offset(length);
        self.env = env;
        if let Some(instance) = self.ir.instances.iter_mut().nth(id.index()) {
            instance.variable_bits = bits;
        }
    }

    /// Width of a field of a header type that has no id; `None` if there is none.
    pub(crate) fn field_bits(&mut self, header: &str, field: &str) -> Option<u32> {
        let item = self.scope.headers.get(header).copied()?;
        let (_, decl) = item.decl.fields.iter().find(|(name, _)| name.value == field)?;
        let bits = match decl {
            FieldDecl::Bits(ty) => self.width(ty)?.bits,
            FieldDecl::Slices(slices) => {
                slices.iter().map(|s| u64::from(s.value.high.abs_diff(s.value.low)) + 1).sum()
            }
            FieldDecl::Array { bits, .. } => bits.value,
            FieldDecl::Variable { .. } => return None,
        };
        (1..=128).contains(&bits).then_some(bits as u32)
    }

    fn declare_metadata(&mut self) {
        let mut total = 0u64;
        let mut sizes = Vec::new();
        let items: Vec<_> = self.scope.metadata.values().copied().collect();
        for Item { name, decl, .. } in items {
            let Some(Width { bits, display }) = self.scalar_width(&decl.ty) else { continue };
            let bytes = (bits as u32).div_ceil(8);
            // Its place is assigned when all are known.
            let carried_at = decl.carried.then_some(0);
            if decl.carried {
                sizes.push((name.clone(), bytes));
            }
            total += u64::from(bytes);
            let meta = Meta { name: name.value.clone(), bits: bits as u32, carried_at, display };
            let id = self.ir.metadata.push(meta);
            self.ids.metadata.insert(name.value.clone(), id);
            if total > METADATA_BYTES_MAX {
                let text = format!("a program has at most {METADATA_BYTES_MAX} bytes of metadata");
                self.report.error(codes::LIMITS, name.span, text);
                return;
            }
        }
        self.declare_given_lengths(&mut sizes);
        let carried: u32 = sizes.iter().map(|(_, bytes)| bytes).sum();
        self.lay_out_carried(carried);
        // A byte is the mark that there are more than fit in the descriptor, and a field is not divided.
        if self.ir.carried_bytes > CARRIED_BYTES_MAX {
            let Some((last, _)) = sizes.last() else { return };
            let room = carried + CARRIED_BYTES_MAX - self.ir.carried_bytes;
            let text =
                format!("carried metadata takes {carried} bytes, and {room} cross the queue");
            let list: Vec<String> =
                sizes.iter().map(|(name, bytes)| format!("{} {bytes}", name.value)).collect();
            let help = self.in_words_of(
                "each field takes whole bytes; join flags into one field, or do not carry it",
                "egress reads these fields of ingress: join flags into one field, or put some into a header that leaves",
            );
            self.report
                .error(codes::CARRIED, last.span, text)
                .note(format!("bytes of each field: {}", list.join(", ")))
                .help(help);
        }
    }

    /// Places the carried fields: one after the other in the descriptor if it has room for all; otherwise the
    /// descriptor's last byte marks that there are more, and those that do not fit in front of it are in the chunk.
    fn lay_out_carried(&mut self, total: u32) {
        let room = if total <= CARRIED_INLINE_BYTES { total } else { CARRIED_MARK_AT };
        let (mut inline, mut chunk) = (0, CARRIED_INLINE_BYTES);
        for meta in self.ir.metadata.iter_mut() {
            let Some(at) = &mut meta.carried_at else { continue };
            let bytes = meta.bits.div_ceil(8);
            let next = if inline + bytes <= room { &mut inline } else { &mut chunk };
            *at = *next;
            *next += bytes;
        }
        self.ir.carried_bytes = if chunk > CARRIED_INLINE_BYTES { chunk } else { inline };
    }

    fn declare_errors(&mut self) {
        self.ir.errors = BuiltinError::ALL.iter().map(|error| error.name().to_string()).collect();
        let own: Vec<_> =
            self.scope.errors.iter().map(|(name, (_, span))| (*name, *span)).collect();
        for (name, span) in own {
            if self.ir.errors.len() > usize::from(u8::MAX) {
                self.report.error(codes::LIMITS, span, "a program has at most 256 parser errors");
                return;
            }
            self.ir.errors.push(name.to_string());
        }
    }

    fn declare_state(&mut self) {
        for index in 0..self.scope.registers.len() {
            let id = self.used(Symbol::Register(index)).then(|| self.declare_register(index));
            self.ids.registers.push(id.flatten());
        }
        for index in 0..self.scope.counters.len() {
            let Some(item) = self.scope.counters.get(index).copied() else { continue };
            let id = if self.used(Symbol::Counter(index)) {
                let name = item.name.value.clone();
                let size = self.array_size(&item.decl.size);
                size.map(|size| self.ir.counters.push(Counter { name, size }))
            } else {
                None
            };
            self.ids.counters.push(id);
        }
        for index in 0..self.scope.meters.len() {
            let Some(item) = self.scope.meters.get(index).copied() else { continue };
            let id = if self.used(Symbol::Meter(index)) {
                let (name, kind) = (item.name.value.clone(), meter_kind(item.decl));
                let size = self.array_size(&item.decl.size);
                size.map(|size| self.ir.meters.push(Meter { name, kind, size }))
            } else {
                None
            };
            self.ids.meters.push(id);
        }
    }

    /// True for what is compiled.
    pub(crate) fn used(&self, symbol: Symbol) -> bool {
        self.uses.all.contains(&symbol)
    }

    fn declare_register(&mut self, index: usize) -> Option<RegisterId> {
        let item = self.scope.registers.get(index).copied()?;
        let mut cells: Vec<Local> = Vec::new();
        if !(1..=CELLS_MAX).contains(&item.decl.cells.len()) {
            let text =
                format!("a register has 1 to {CELLS_MAX} cells, not {}", item.decl.cells.len());
            return self.report.refuse(codes::LIMITS, item.name.span, text);
        }
        // A register with a wrong cell is not created, so that uses of the cell cause no further errors.
        let mut good = true;
        for (name, ty) in &item.decl.cells {
            if cells.iter().any(|cell| cell.name == name.value) {
                let text = format!("cell `{}` is declared twice", name.value);
                self.report.error(codes::TWICE, name.span, text);
                continue;
            }
            let Some(width) = self.scalar_width(ty) else {
                good = false;
                continue;
            };
            if width.bits > 64 {
                let text = format!("a register cell has at most 64 bits, not {}", width.bits);
                self.report.error(codes::BAD_WIDTH, name.span, text);
                good = false;
                continue;
            }
            cells.push(Local { name: name.value.clone(), bits: width.bits as u32 });
        }
        if !good {
            return None;
        }
        let size = self.array_size(&item.decl.size)?;
        Some(self.ir.registers.push(Register { name: item.name.value.clone(), cells, size }))
    }

    /// `None` where it is wrong: the array is not created, so that its indices cause no further errors.
    fn array_size(&mut self, size: &Size) -> Option<u32> {
        let size = self.size(size)?;
        if !(1..=ARRAY_MAX).contains(&size.value) {
            let text = format!("an array has 1 to {ARRAY_MAX} entries, not {}", size.value);
            return self.report.refuse(codes::LIMITS, size.span, text);
        }
        Some(size.value as u32)
    }

    fn declare_value_sets(&mut self) {
        for index in 0..self.scope.value_sets.len() {
            let id = self.used(Symbol::ValueSet(index)).then(|| self.declare_value_set(index));
            self.ids.value_sets.push(id.flatten());
        }
    }

    /// Reports `5000-5999` and `1 & 3` where a value is listed: the result is never meant.
    pub(crate) fn is_dashed_range(&mut self, value: &AstExpr) -> bool {
        let files = &self.ir.files;
        let source = |span: SourceSpan| {
            let text = files.get(span.file).map_or("", |file| file.text.as_str());
            text.get(span.start as usize..span.end as usize).unwrap_or_default()
        };
        let Err(error) = syntax::not_an_operation(value, source) else { return false };
        let help = "a list has single values; ranges (`low..high`) and masks (`value &&& mask`) belong to `cases:` of a parser and to \
                    tables with keys of kind `range`";
        self.report.error(error.code, error.span, error.message).help(help);
        true
    }

    fn declare_value_set(&mut self, index: usize) -> Option<ValueSetId> {
        let item = self.scope.value_sets.get(index).copied()?;
        let keys = self.set_keys(item)?;
        let size = self.size(&item.decl.size)?;
        if !(1..=VALUE_SET_MAX).contains(&size.value) {
            let text = format!("a value set has 1 to {VALUE_SET_MAX} members, not {}", size.value);
            return self.report.refuse(codes::LIMITS, size.span, text);
        }
        if item.decl.values.len() as u64 > size.value {
            let found = item.decl.values.len();
            let text = format!("{found} members do not fit in a set of {}", size.value);
            return self.report.refuse(codes::TOO_MANY_ENTRIES, item.name.span, text);
        }
        self.env = Env::at(Place::Data);
        let name = item.name.value.clone();
        let mut set = ValueSet { name, keys, size: size.value as u32, initial: Vec::new() };
        set.initial = self.set_members(&set, &item.decl.values);
        Some(self.ir.value_sets.push(set))
    }

    fn set_keys(&mut self, item: Item<'_, ValueSetDecl>) -> Option<Vec<MatchField>> {
        let mut keys: Vec<MatchField> = Vec::new();
        for key in &item.decl.keys {
            let width = self.scalar_width(&key.ty)?;
            let name = key.name.as_ref().map_or("", |name| name.value.as_str());
            if keys.iter().any(|known| known.name == name) {
                let span = key.name.as_ref().map_or(item.name.span, |name| name.span);
                return self.report.refuse(codes::TWICE, span, format!("duplicate key `{name}`"));
            }
            let written = key.kind.as_ref().map_or("exact", |kind| kind.value.as_str());
            let kind = MatchKind::named(written)?;
            let (bits, display) = (width.bits as u32, width.display);
            keys.push(MatchField { name: name.to_owned(), bits, kind, display });
        }
        let bits: u32 = keys.iter().map(|key| key.bits).sum();
        if !(1..=SET_BITS_MAX).contains(&bits) {
            let text = format!(
                "the keys of a value set have 1 to {SET_BITS_MAX} bits together, not {bits}"
            );
            return self.report.refuse(codes::LIMITS, item.name.span, text);
        }
        Some(keys)
    }
}

impl Cx<'_> {
    /// Constants of the program, for its entries file; negative ones are for expressions only.
    pub(crate) fn keep_constants(&mut self) {
        for (item, state) in self.scope.consts.iter().zip(&self.consts) {
            let (value, bits) = match state {
                ConstState::Number(number) => match number.value() {
                    Some(value) => (value, None),
                    None => continue,
                },
                ConstState::Sized(value, bits) => (*value, Some(*bits)),
                ConstState::New | ConstState::Busy | ConstState::Poison => continue,
            };
            self.ir.constants.push(Constant { name: item.name.value.clone(), value, bits });
        }
    }

    /// Digests: their values are read where the digest is sent.
    pub(crate) fn declare_digests(&mut self) {
        for index in 0..self.scope.digests.len() {
            let id = self.used(Symbol::Digest(index)).then(|| self.declare_digest(index)).flatten();
            self.ids.digests.push(id);
        }
    }

    fn declare_digest(&mut self, index: usize) -> Option<DigestId> {
        let item = self.scope.digests.get(index).copied()?;
        if item.decl.len() > DIGEST_FIELDS_MAX {
            let text = format!("a digest has at most {DIGEST_FIELDS_MAX} fields");
            return self.report.refuse(codes::LIMITS, item.name.span, text);
        }
        self.env = Env::at(Place::Control);
        let (mut fields, mut values): (Vec<Param>, Vec<ExprId>) = (Vec::new(), Vec::new());
        for (name, value) in item.decl {
            if fields.iter().any(|field| field.name == name.value) {
                let text = format!("digest field `{}` is declared twice", name.value);
                self.report.error(codes::TWICE, name.span, text);
            }
            let Some(id) = self.sized(value) else { continue };
            let (bits, display) = (self.bits(id), self.display_of(id));
            fields.push(Param { name: name.value.clone(), bits, display });
            values.push(id);
        }
        let name = item.name.value.clone();
        Some(self.ir.digests.push(Digest { name, fields, values }))
    }
}

/// The kind of a meter declaration.
pub(crate) fn meter_kind(decl: &MeterDecl) -> MeterKind {
    MeterKind { two_rates: decl.two_rates, packets: decl.packets }
}
