//! Paths: what `ipv4.ttl`, `vlan[0].vid`, `std.egress_port` and a single name mean.
//!
//! A path is resolved once into a [`Place`] for reading and writing alike; the assignment refuses what cannot be
//! written.

mod element;

use super::Val;
use crate::ast::{AstExpr, Name, Path, PathPart};
use crate::check::cx::{Binding, Cx, InstanceRef, Place as Where};
use crate::check::int::Int;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::exec::PacketPath;
use crate::ids::*;
use crate::ir::{CPU_PORT, ExprKind, FieldLayout, SourceSpan, StdField};
use crate::syntax::{self, p4};

/// The meaning of a path.
pub(crate) enum Target {
    /// A value that can be read by one node.
    Read(ExprKind, u32),
    /// A constant.
    Value(Val),
    /// A scalar field.
    Field(InstanceId, FieldId, u32),
    /// An element of an array field.
    Element(InstanceId, FieldId, ExprId, u32),
    /// User metadata.
    Meta(MetaId, u32),
    /// Intrinsic metadata.
    Std(StdField),
    /// A local.
    Local(LocalId, u32),
    /// A cell of a register entry.
    Cell { register: usize, index: ExprId, cell: u32, bits: u32 },
    /// A whole header.
    Header(InstanceId),
    /// A field of the element of a stack whose number is computed for each packet.
    ElementField(StackId, ExprId, FieldId, u32),
    /// The whole of such an element.
    AnyElement(StackId, ExprId),
    /// A part of a header that is never valid in this program: it reads as zero.
    Absent(u32),
    /// A whole header of that kind; the number is the index of its declaration.
    AbsentHeader(usize),
}

impl Cx<'_> {
    /// The value of a path in an expression.
    pub(super) fn path_value(&mut self, path: &Path, span: SourceSpan) -> Val {
        match self.resolve(path, span) {
            Some(target) => self.target_value(target, span),
            None => Val::Poison,
        }
    }

    /// The value of what a path names.
    pub(super) fn target_value(&mut self, target: Target, span: SourceSpan) -> Val {
        let (kind, bits) = match target {
            Target::Read(kind, bits) => (kind, bits),
            Target::Value(value) => return value,
            Target::Field(instance, field, bits) => (ExprKind::Field(instance, field), bits),
            Target::Element(instance, field, index, bits) => {
                (ExprKind::Element { instance, field, index }, bits)
            }
            Target::Meta(meta, bits) => (ExprKind::Meta(meta), bits),
            Target::Std(field) => (ExprKind::Std(field), field.bits()),
            Target::Local(local, bits) => (ExprKind::Local(local), bits),
            Target::Absent(bits) => (ExprKind::Const(0), bits),
            Target::ElementField(stack, index, field, bits) => {
                let read = |instance| ExprKind::Field(instance, field);
                return Val::Typed(self.of_element(stack, index, bits, &read, span));
            }
            Target::Cell { .. } => {
                let name = self.text(span, "flow[i].cell").to_string();
                self.report
                    .error(codes::EFFECT, span, "a register is not part of an expression")
                    .help(format!("read it first: `let x = {name}`, then use `x`"));
                return Val::Poison;
            }
            Target::Header(_) | Target::AbsentHeader(_) | Target::AnyElement(..) => {
                let text = "this is a whole header, not a value";
                let help = "name a field of it, or `.valid`";
                self.report.error(codes::WRONG_KIND, span, text).help(help);
                return Val::Poison;
            }
        };
        Val::Typed(self.node(kind, bits, span))
    }

    /// Resolves a path; `None` when an error was reported.
    pub(crate) fn resolve(&mut self, path: &Path, span: SourceSpan) -> Option<Target> {
        let (PathPart::Name(first), rest) = path.parts.split_first()? else {
            return self.report.refuse(codes::UNKNOWN, span, "a path begins with a name");
        };
        if let Where::Header(instance) = self.env.place {
            return self.own_field(instance, first, rest, span);
        }
        if let Some(binding) = self.env.local(&first.value) {
            return self.local_path(binding, first, rest, span);
        }
        if self.env.place == Where::Constant && self.is_of_a_packet(&first.value) {
            let text = format!("`{}` is not a constant", first.value);
            let help = "compute it where it is used: `let x = ..`";
            self.report.error(codes::NOT_CONSTANT, span, text).help(help);
            return None;
        }
        match first.value.as_str() {
            "std" => self.std_path(rest, span),
            "meta" => self.meta_path(rest, span),
            "error" | "link" | "path" => self.named_value(first, rest, span),
            "cursor" if rest.is_empty() => {
                if self.env.place != Where::Parser {
                    let text = "`cursor` is only known in the parser";
                    return self.report.refuse(codes::WRONG_PLACE, span, text);
                }
                Some(Target::Read(ExprKind::Cursor, 32))
            }
            "CPU_PORT" if rest.is_empty() => {
                Some(Target::Read(ExprKind::Const(CPU_PORT.into()), 16))
            }
            _ => self.symbol_path(first, rest, span),
        }
    }

    /// Whether a path that begins with this name has a value for each packet, or none.
    fn is_of_a_packet(&self, first: &str) -> bool {
        matches!(first, "std" | "meta" | "cursor")
            || self.scope.symbol(first).is_some_and(|of| !matches!(of, Symbol::Const(_)))
    }

    /// A field of the header whose length is computed.
    fn own_field(
        &mut self,
        instance: InstanceId,
        first: &Name,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        if rest.is_empty() {
            return self.field_of(instance, first, None, span);
        }
        let text = "a length is computed from the fields of its own header";
        self.report.error(codes::WRONG_PLACE, span, text).help("write the field alone: `ihl`");
        None
    }

    fn local_path(
        &mut self,
        binding: Binding,
        first: &Name,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        match (binding, rest) {
            (Binding::Poison, _) => None,
            (Binding::Value(local, bits), []) => Some(Target::Local(local, bits)),
            (Binding::Constant(value, Some(bits)), []) => {
                Some(Target::Read(ExprKind::Const(value), bits))
            }
            (Binding::Constant(value, None), []) => Some(Target::Value(Val::Int(Int::new(value)))),
            (Binding::Constant(..), _) => {
                let text = format!("`{}` is a constant and has no fields", first.value);
                self.report.refuse(codes::NO_MEMBER, span, text)
            }
            (Binding::Value(..), _) => {
                let text = format!("`{}` is a value and has no fields", first.value);
                self.report.refuse(codes::NO_MEMBER, span, text)
            }
            (Binding::Entry { register, first }, rest) => {
                let (cell, bits) = self.cell(register, rest, span)?;
                Some(Target::Local(LocalId(first.0 + cell), bits))
            }
        }
    }

    /// Reports a cell that a register does not have.
    pub(crate) fn no_cell(&mut self, register: &crate::ir::Register, cell: &Name) {
        let text = format!("register `{}` has no cell `{}`", register.name, cell.value);
        let cells: Vec<&str> = register.cells.iter().map(|known| known.name.as_str()).collect();
        let error = self.report.error(codes::NO_MEMBER, cell.span, text);
        if cells == ["value"] {
            error.help("an entry of it is one value, without a name");
            return;
        }
        error.did_you_mean(&cell.value, cells.iter().copied());
        if error.fixes.is_empty() {
            error.help(format!("cells: {}", cells.join(", ")));
        }
    }

    /// The cell of a register that the rest of a path names, with its width.
    fn cell(&mut self, register: usize, rest: &[PathPart], span: SourceSpan) -> Option<(u32, u32)> {
        let id = self.ids.registers.get(register).copied().flatten()?;
        let known = self.ir.registers.get(id)?.clone();
        match rest {
            [] if known.cells.len() == 1 => known.cells.first().map(|cell| (0, cell.bits)),
            [PathPart::Name(name)] => {
                let found = known.cells.iter().position(|cell| cell.name == name.value);
                if found.is_none() {
                    self.no_cell(&known, name);
                }
                let at = found?;
                Some((at as u32, known.cells.get(at)?.bits))
            }
            _ => {
                let cells: Vec<_> = known.cells.iter().map(|cell| cell.name.as_str()).collect();
                let text = format!("name a cell of register `{}`", known.name);
                let help = format!("cells: {}", cells.join(", "));
                self.report.error(codes::NO_MEMBER, span, text).help(help);
                None
            }
        }
    }

    fn std_path(&mut self, rest: &[PathPart], span: SourceSpan) -> Option<Target> {
        let name = self.one_name(rest, "std.egress_port", span)?;
        let field = StdField::by_name(&name.value);
        if field.is_none() {
            let text = format!("there is no `std.{}`", name.value);
            let names = StdField::ALL.iter().map(|field| field.name());
            let error = self.report.error(codes::NO_MEMBER, name.span, text);
            match p4::std_field(&name.value) {
                Some(known) => error.did_you_mean(known, names),
                None => error.did_you_mean(&name.value, names),
            };
        }
        field.map(Target::Std)
    }

    fn meta_path(&mut self, rest: &[PathPart], span: SourceSpan) -> Option<Target> {
        let name = self.one_name(rest, "meta.name", span)?;
        match self.ids.metadata.get(&name.value) {
            Some(id) => Some(Target::Meta(*id, self.ir.metadata.get(*id)?.bits)),
            None if self.scope.metadata.contains_key(name.value.as_str()) => None,
            None => {
                let text = format!("there is no metadata field `{}`", name.value);
                let names = self.scope.metadata.keys().copied();
                self.report
                    .error(codes::NO_MEMBER, name.span, text)
                    .did_you_mean(&name.value, names)
                    .help(format!("declare it: `metadata: {{ {}: 16 }}`", name.value));
                None
            }
        }
    }

    /// `error.name`, `link.name`, `path.name`: constants of 8 bits.
    fn named_value(&mut self, space: &Name, rest: &[PathPart], span: SourceSpan) -> Option<Target> {
        let name = self.one_name(rest, "error.no_match", span)?;
        let values: Vec<(String, u128)> = match space.value.as_str() {
            "error" => {
                let errors = self.ir.errors.entries();
                errors.map(|(id, name)| (name.clone(), id.0.into())).collect()
            }
            "link" => {
                let links = self.ir.link_types.iter();
                links.map(|(name, value)| (name.clone(), (*value).into())).collect()
            }
            _ => PacketPath::ALL.iter().map(|(n, path)| (n.to_string(), *path as u128)).collect(),
        };
        match values.iter().find(|(known, _)| *known == name.value) {
            Some((_, value)) => Some(Target::Read(ExprKind::Const(*value), 8)),
            None => {
                let text = format!("there is no `{}.{}`", space.value, name.value);
                let names = values.iter().map(|(name, _)| name.as_str());
                self.report
                    .error(codes::NO_MEMBER, name.span, text)
                    .did_you_mean(&name.value, names);
                None
            }
        }
    }

    fn one_name<'p>(
        &mut self,
        rest: &'p [PathPart],
        example: &str,
        span: SourceSpan,
    ) -> Option<&'p Name> {
        match rest {
            [PathPart::Name(name)] => Some(name),
            _ => {
                let text = format!("one name is wanted here, as in `{example}`");
                self.report.refuse(codes::NO_MEMBER, span, text)
            }
        }
    }

    fn symbol_path(&mut self, first: &Name, rest: &[PathPart], span: SourceSpan) -> Option<Target> {
        let bound = self.env.bound(&first.value).to_string();
        match self.scope.symbol(&bound) {
            Some(Symbol::Const(index)) if rest.is_empty() => {
                self.const_named(index, span).map(Target::Value)
            }
            Some(Symbol::Instance(index)) => match self.instance_ref(index) {
                Some(InstanceRef::One(id)) => self.header_path(id, rest, span),
                Some(InstanceRef::Stack(id)) => self.stack_path(id, rest, span),
                None => {
                    let target = self.absent(index, rest);
                    self.warn_absent(&first.value, rest, span);
                    target
                }
            },
            Some(Symbol::Register(index)) => self.register_path(index, rest, span),
            Some(symbol) => {
                let text = format!("`{}` is {}, not a value", first.value, symbol.kind());
                self.report.refuse(codes::WRONG_KIND, first.span, text)
            }
            None => {
                self.unknown_value(first, rest);
                None
            }
        }
    }

    fn unknown_value(&mut self, first: &Name, rest: &[PathPart]) {
        let text = format!("there is nothing called `{}` here", first.value);
        let mut names: Vec<String> = self.env.local_names();
        // A whole header is a value nowhere but in code.
        let is_data = !matches!(self.env.place, Where::Control | Where::Action);
        let values = |symbol: Symbol| {
            matches!(symbol, Symbol::Const(_) | Symbol::Register(_))
                || matches!(symbol, Symbol::Instance(_)) && !(is_data && rest.is_empty())
        };
        let known = self.scope.symbols.iter().filter(|(_, (symbol, _))| values(*symbol));
        names.extend(known.map(|(name, _)| name.to_string()));
        names.extend(["std", "meta", "error", "link", "path"].map(String::from));
        let is_meta = rest.is_empty() && self.scope.metadata.contains_key(first.value.as_str());
        let is_std = rest.is_empty() && StdField::by_name(&first.value).is_some();
        let library = self.library_with(&first.value);
        let behind = rest.first().and_then(|part| match part {
            PathPart::Name(name) => Some(name.value.as_str()),
            PathPart::Index(_) => None,
        });
        let p4 = p4::name(&first.value, behind);
        let note = self.report.error(codes::UNKNOWN, first.span, text);
        if first.value == "default" && rest.is_empty() {
            note.help(match self.env.place {
                Where::Data => "what no entry matches runs the table's default action; a key that is not exact matches any value where it is left out",
                _ => "`default:` stands beside `cases:`, for all other values",
            });
        } else if first.value == "any" && rest.is_empty() && self.env.place == Where::Data {
            note.help(syntax::ANY_VALUE);
        } else if let Some(help) = library.or(p4) {
            note.help(help);
        } else if is_meta {
            note.help(format!("metadata is written `meta.{}`", first.value));
        } else if is_std {
            note.help(format!("intrinsic metadata is written `std.{}`", first.value));
        } else {
            note.did_you_mean(&first.value, names.iter().map(String::as_str));
        }
    }

    fn header_path(
        &mut self,
        id: InstanceId,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        match rest {
            [] => Some(Target::Header(id)),
            [PathPart::Name(name)] => self.member_of(id, name, span),
            [PathPart::Name(name), PathPart::Index(index)] => {
                self.field_of(id, name, Some(index), span)
            }
            _ => {
                let text = "a header has fields; this path goes deeper";
                self.report.refuse(codes::NO_MEMBER, span, text)
            }
        }
    }

    /// A field, `valid` or `length`; a field of that name takes precedence.
    fn member_of(&mut self, id: InstanceId, name: &Name, span: SourceSpan) -> Option<Target> {
        let header = self.ir.instances.get(id)?.header;
        let is_field = self.ir.headers.get(header)?.fields.iter().any(|f| f.name == name.value);
        match name.value.as_str() {
            "valid" if !is_field => Some(Target::Read(ExprKind::Valid(id), 1)),
            "length" if !is_field => Some(Target::Read(ExprKind::HeaderLength(id), 32)),
            _ => self.field_of(id, name, None, span),
        }
    }

    /// A field of an instance, with the index of an array.
    fn field_of(
        &mut self,
        id: InstanceId,
        name: &Name,
        index: Option<&AstExpr>,
        span: SourceSpan,
    ) -> Option<Target> {
        let header_id = self.ir.instances.get(id)?.header;
        let header = self.ir.headers.get(header_id)?;
        let found = header.fields.entries().find(|(_, field)| field.name == name.value);
        let Some((field_id, field)) = found else {
            if !self.ids.broken.contains(&header_id) {
                let header = header.clone();
                let names = header.fields.iter().map(|field| field.name.as_str()).collect();
                self.no_field(&header.name, name, names);
            }
            return None;
        };
        let (layout, bits) = (field.layout.clone(), field.bits);
        match (layout, index) {
            (FieldLayout::Array { count, .. }, Some(index)) => {
                self.element(id, field_id, index, (bits, count))
            }
            (FieldLayout::Run { .. } | FieldLayout::Pieces(_), None) => {
                Some(Target::Field(id, field_id, bits))
            }
            (FieldLayout::Array { count, .. }, None) => {
                let text = format!("`{}` is an array of {count} elements", name.value);
                let help = format!("name one: `{}[0]`", name.value);
                self.report.error(codes::WRONG_KIND, span, text).help(help);
                None
            }
            (FieldLayout::Run { .. } | FieldLayout::Pieces(_), Some(_)) => {
                let text = format!("`{}` is not an array", name.value);
                let help = format!("`{}[7:0]` is a slice of bits", name.value);
                self.report.error(codes::WRONG_KIND, span, text).help(help);
                None
            }
            (FieldLayout::Variable { .. } | FieldLayout::Opaque { .. }, _) => {
                let text =
                    format!("`{}` has no value: it is variable or over 128 bits", name.value);
                let help =
                    "it takes part in copies, hashes, checksums and CRCs, and is compared by `==`";
                self.report.error(codes::WRONG_KIND, span, text).help(help);
                None
            }
        }
    }

    fn register_path(
        &mut self,
        index: usize,
        rest: &[PathPart],
        span: SourceSpan,
    ) -> Option<Target> {
        let [PathPart::Index(entry), rest @ ..] = rest else {
            let text = "a register needs an index";
            self.report.error(codes::WRONG_KIND, span, text).help("as in `flow[i].cell`");
            return None;
        };
        let entry = self.register_index(index, entry);
        let (cell, bits) = self.cell(index, rest, span)?;
        Some(Target::Cell { register: index, index: entry?, cell, bits })
    }

    /// The index of an entry of a register.
    pub(crate) fn register_index(&mut self, register: usize, index: &AstExpr) -> Option<ExprId> {
        let id = self.ids.registers.get(register).copied().flatten();
        let known = id.and_then(|id| self.ir.registers.get(id));
        let name = known.map(|known| format!("register `{}`", known.name)).unwrap_or_default();
        let size = known.map(|known| known.size);
        self.index_of(index, &name, size)
    }
}
