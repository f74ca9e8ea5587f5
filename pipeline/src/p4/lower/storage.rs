//! Where values are: metadata for numbers, instances for headers.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Const, StructType, Type};
use super::Lower;
use super::build::{named, path};
use super::env::{Header, Stack, Val};
use super::names::{self, Fields};
use crate::ast::{self, FieldDecl, HeaderDecl, InstanceDecl, PathPart, Sp, StmtKind, TypeRef};
use crate::ir::{BuiltinError, SourceSpan};

/// The field of a hidden header.
pub(super) const HIDDEN_FIELD: &str = "value";

/// The type of a part of a struct or tuple.
pub(super) fn part(ty: &Type, name: &str) -> Option<Type> {
    match ty {
        Type::Struct(of) => {
            of.fields.iter().find(|(known, _)| **known == *name).map(|(_, ty)| ty.clone())
        }
        Type::Tuple(parts) | Type::Listed(parts, _) => {
            name.parse::<usize>().ok().and_then(|at| parts.get(at)).cloned()
        }
        Type::Record(fields, _) => {
            fields.iter().find(|(known, _)| **known == *name).map(|(_, ty)| ty.clone())
        }
        Type::New(_, base) => part(base, name),
        Type::Stack(of, _) => Some((**of).clone()),
        _ => None,
    }
}

/// Whether this is an array: its elements are neither headers nor unions.
fn is_array(ty: &Type) -> bool {
    match ty {
        Type::Stack(of, _) => match of.unwrapped() {
            Type::Struct(of) => of.kind == StructKind::Struct,
            _ => true,
        },
        _ => false,
    }
}

/// The part of a header that a field is; `path` is where that is in the source.
fn named_part(header: &Header, named: &Fields, path: &str, ty: &Type, span: SourceSpan) -> Val {
    let inside =
        |inner: &str, ty: &Type| named_part(header, named, &format!("{path}.{inner}"), ty, span);
    match ty {
        Type::Struct(of) => {
            let fields = of.fields.iter().map(|(inner, ty)| (inner.clone(), inside(inner, ty)));
            Val::Struct(Rc::new(fields.collect()))
        }
        Type::Stack(of, size) => {
            let fields = (0..*size).map(|at| {
                let at = at.to_string();
                (at.as_str().into(), inside(&at, of))
            });
            Val::Struct(Rc::new(fields.collect()))
        }
        ty if matches!(ty.unwrapped(), Type::Bit(0)) => Val::Nothing,
        _ => {
            let mut place = header.path.clone();
            place.parts.push(PathPart::Name(Sp::new(named.name(path), span)));
            Val::Scalar(Sp::new(ast::Ast::Path(place), span))
        }
    }
}

/// Bits of an enum without a type: 8, or as many as its members need.
pub(super) fn enum_bits(decl: &Decl) -> u32 {
    let last = match &decl.kind {
        DeclKind::Enum(_, members) => members.len().saturating_sub(1),
        _ => 0,
    };
    (usize::BITS - last.leading_zeros()).max(8)
}

impl Lower<'_> {
    /// Bits of a number of this type; what has none is reported.
    pub(super) fn bits(&mut self, ty: &Type, span: SourceSpan) -> u32 {
        match ty {
            Type::Bit(bits) | Type::Int(bits) => *bits,
            Type::Bool => 1,
            Type::Error => 8,
            Type::Enum(_, Some(base)) | Type::New(_, base) => self.bits(base, span),
            Type::Enum(decl, None) => enum_bits(decl),
            Type::Integer | Type::Any => 0,
            other => {
                self.unsupported(span, format!("{other} is not one number"));
                1
            }
        }
    }

    /// New storage for a value of this type. `wanted` names it.
    pub(super) fn storage(&mut self, ty: &Type, wanted: &str, span: SourceSpan) -> Val {
        match ty {
            Type::New(_, base) => self.storage(base, wanted, span),
            Type::Struct(of) => match of.kind {
                StructKind::Struct => {
                    let fields = of.fields.iter().map(|(name, ty)| {
                        let inner = match ty {
                            Type::Struct(_) | Type::Stack(..) if wanted.is_empty() => {
                                name.to_string()
                            }
                            Type::Struct(of) if of.kind != StructKind::Struct => name.to_string(),
                            Type::Stack(..) => name.to_string(),
                            _ if wanted.is_empty() => name.to_string(),
                            _ => format!("{wanted}_{name}"),
                        };
                        let value = self.storage(ty, &inner, span);
                        self.note_lists(of, name, &value);
                        (name.clone(), value)
                    });
                    Val::Struct(Rc::new(fields.collect()))
                }
                StructKind::Header => Val::Header(Rc::new(self.new_header(of, wanted, span))),
                StructKind::Union => self.new_union(of, wanted, span),
            },
            Type::Tuple(parts) => {
                let fields = parts.iter().enumerate().map(|(at, ty)| {
                    (at.to_string().into(), self.storage(ty, &format!("{wanted}_{at}"), span))
                });
                Val::Struct(Rc::new(fields.collect()))
            }
            Type::Stack(of, size) if is_array(ty) => {
                let fields = (0..*size).map(|at| {
                    (at.to_string().into(), self.storage(of, &format!("{wanted}_{at}"), span))
                });
                Val::Struct(Rc::new(fields.collect()))
            }
            Type::Stack(of, size) => self.new_stack(of, *size, wanted, span),
            ty if super::hash::is_bytes(ty) => self.hidden(ty, wanted, span),
            Type::Extern(..) => Val::Packet,
            other => {
                let bits = self.bits(other, span);
                if bits == 0 {
                    return Val::Nothing;
                }
                Val::Scalar(self.new_meta(wanted, bits, span))
            }
        }
    }

    /// A header that never leaves, for a value that is no number.
    fn hidden(&mut self, ty: &Type, wanted: &str, span: SourceSpan) -> Val {
        let name = self.hidden_header(ty, wanted, span);
        Val::Scalar(named(&[&name, HIDDEN_FIELD], span))
    }

    /// The name of such a header.
    pub(super) fn hidden_header(&mut self, ty: &Type, wanted: &str, span: SourceSpan) -> String {
        if matches!(ty.base(), Type::Bit(bits) | Type::Int(bits) if bits % 8 != 0) {
            self.unsupported(
                span,
                format!("a variable of {ty}: more than 128 bits are whole bytes"),
            );
        }
        let header = self.names.fresh(&format!("{wanted}_t"), "");
        let mut fields = Vec::new();
        self.header_field(&Fields::default(), HIDDEN_FIELD, ty.base(), span, &mut fields);
        let decl = HeaderDecl { fields, bytes: None, word: None, controller: None };
        self.unit.headers.push((Sp::new(header.clone(), span), decl));
        let name = self.names.visible(wanted, self.env.clone().prefix());
        let decl = InstanceDecl { header: Sp::new(header, span), stack: None };
        self.unit.instances.push((Sp::new(name.clone(), span), decl));
        self.hidden.push(name.clone());
        name
    }

    /// Notes the lists that `@field_list(1, 2)` puts a field into.
    fn note_lists(&mut self, of: &StructType, name: &str, value: &Val) {
        let DeclKind::Struct(inner) = &of.decl.kind else { return };
        let field = inner.fields.iter().find(|field| *field.name.value == *name);
        let Some(list) = field.and_then(|field| annotation(&field.annotations, "field_list"))
        else {
            return;
        };
        let numbers: Vec<u128> = list
            .args
            .iter()
            .filter_map(|arg| match &*arg.value.kind {
                ExprKind::Member(of, name) => self.member_of_enum(of, &name.value),
                _ => self.written_number(&arg.value),
            })
            .collect();
        if numbers.is_empty() {
            let span = list.name.span;
            self.unsupported(span, "`@field_list` takes numbers: `@field_list(1, 2)`");
        }
        let mut parts = Vec::new();
        self.flat(value, &mut parts);
        for part in parts {
            if let ast::Ast::Path(path) = &part.value
                && let Some(PathPart::Name(name)) = path.parts.get(1)
            {
                self.listed.push((name.value.clone(), numbers.clone()));
            }
        }
    }

    /// The number of an enum's member in an annotation, which the type checker does not check.
    fn member_of_enum(&self, of: &Expr, member: &str) -> Option<u128> {
        let ExprKind::Name(name, _) = &*of.kind else { return None };
        let mut decls = self.checked.decls.iter();
        let found = decls.find(|decl| decl.name.value == name.value)?;
        let DeclKind::Enum(_, members) = &found.kind else { return None };
        let (_, value) = members.iter().find(|(known, _)| *known.value == *member)?;
        self.written_number(value.as_ref()?)
    }

    /// A written number, one that the type checker computed, or the name of a constant.
    fn written_number(&self, value: &Expr) -> Option<u128> {
        if let Some(Const::Int(value)) = self.checked.consts.get(&value.id) {
            return u128::try_from(value).ok();
        }
        match &*value.kind {
            ExprKind::Number(value, _) => u128::try_from(value).ok(),
            ExprKind::Cast(_, inner) => self.written_number(inner),
            ExprKind::Name(name, _) => {
                let mut decls = self.checked.decls.iter();
                match &decls.find(|decl| decl.name.value == name.value)?.kind {
                    DeclKind::Const(_, value) => self.written_number(value),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn new_union(&mut self, of: &Rc<StructType>, wanted: &str, span: SourceSpan) -> Val {
        let mut members = Vec::new();
        let mut list = Vec::new();
        for (name, ty) in &of.fields {
            let Type::Struct(inner) = ty else { continue };
            let header = self.new_header(inner, &format!("{wanted}_{name}"), span);
            if let Some(PathPart::Name(name)) = header.path.parts.first() {
                list.push(name.clone());
            }
            members.push((name.clone(), Val::Header(Rc::new(header))));
        }
        if list.len() > 1 {
            let name = self.names.fresh(wanted, "");
            self.unit.unions.push((Sp::new(name, span), list));
        }
        Val::Union(Rc::new(members))
    }

    fn new_stack(&mut self, of: &Rc<Type>, size: u32, wanted: &str, span: SourceSpan) -> Val {
        match &**of {
            Type::Struct(inner) if inner.kind == StructKind::Header => {
                let header = self.header_type(inner);
                let name = self.names.visible(wanted, self.env.clone().prefix());
                let stack = Some(ast::Size::new(u64::from(size), span));
                let decl = InstanceDecl { header: Sp::new(header, span), stack };
                self.unit.instances.push((Sp::new(name.clone(), span), decl));
                Val::Stack(Rc::new(Stack { name, of: (**of).clone(), size, elements: Vec::new() }))
            }
            Type::Struct(inner) => {
                let inner = inner.clone();
                let elements = (0..size)
                    .map(|at| self.new_union(&inner, &format!("{wanted}_{at}"), span))
                    .collect();
                let of = (**of).clone();
                Val::Stack(Rc::new(Stack { name: wanted.to_owned(), of, size, elements }))
            }
            _ => Val::Nothing,
        }
    }

    fn new_header(&mut self, of: &Rc<StructType>, wanted: &str, span: SourceSpan) -> Header {
        let header = self.header_type(of);
        let name = self.names.visible(wanted, self.env.clone().prefix());
        let decl = InstanceDecl { header: Sp::new(header, span), stack: None };
        self.unit.instances.push((Sp::new(name.clone(), span), decl));
        Header { path: path(&[&name], span), ty: of.clone() }
    }

    /// The header type of the tree.
    fn header_type(&mut self, of: &Rc<StructType>) -> String {
        let key = format!("{}{}", of.decl.id, Type::Struct(of.clone()));
        if let Some(known) = self.headers.get(&key) {
            return known.clone();
        }
        let name = self.names.fresh(&of.decl.name.value, "");
        let mut fields = Vec::new();
        let at = of.decl.name.span;
        let named = Fields::of(of);
        for (field, ty) in &of.fields {
            self.header_field(&named, field, ty, at, &mut fields);
        }
        if fields.is_empty() {
            // It is valid or not; nothing of it enters or leaves.
            let byte = FieldDecl::Bits(TypeRef::Bits(Sp::new(8, at)));
            fields.push((Sp::new("nothing".to_owned(), at), byte));
        }
        self.fill(&name, of, &mut fields);
        let controller = annotation(&of.decl.annotations, "controller_header").and_then(|one| {
            match one.text.trim_matches('"') {
                "packet_in" => Some(crate::ir::ControllerHeader::PacketIn),
                "packet_out" => Some(crate::ir::ControllerHeader::PacketOut),
                _ => None,
            }
        });
        let controller = controller.map(|which| Sp::new(which, at));
        let decl = HeaderDecl { fields, bytes: None, word: None, controller };
        self.unit.headers.push((Sp::new(name.clone(), at), decl));
        self.headers.insert(key, name.clone());
        name
    }

    /// Fills the last byte of a header type, which only headers that never are in the packet may need.
    fn fill(&mut self, name: &str, of: &StructType, fields: &mut ast::Named<FieldDecl>) {
        let bits = |field: &FieldDecl| match field {
            FieldDecl::Bits(TypeRef::Bits(bits)) => bits.value,
            _ => 0,
        };
        let total: u64 = fields.iter().map(|(_, field)| bits(field)).sum();
        let is_variable = |(_, field): &(_, _)| matches!(field, FieldDecl::Variable { .. });
        if total.is_multiple_of(8) || fields.iter().any(is_variable) {
            return;
        }
        let mut filler = "filler".to_owned();
        while fields.iter().any(|(known, _)| known.value == filler) {
            filler.push('_');
        }
        let at = of.decl.name.span;
        self.unfilled.insert(name.to_owned(), total);
        let missing = TypeRef::Bits(Sp::new(8 - total % 8, at));
        fields.push((Sp::new(filler, at), FieldDecl::Bits(missing)));
    }

    /// Headers in the packet are whole bytes, as for p4c's target bmv2.
    pub(super) fn refuse_unfilled(&mut self) {
        let in_packet: Vec<String> = self.in_packet().collect();
        let types = self.unit.instances.iter().filter(|(name, _)| in_packet.contains(&name.value));
        let mut types: Vec<ast::Name> = types.map(|(_, decl)| decl.header.clone()).collect();
        types.sort_by(|a, b| a.value.cmp(&b.value));
        types.dedup_by(|a, b| a.value == b.value);
        for name in types {
            let Some(bits) = self.unfilled.get(&name.value).copied() else { continue };
            let declared = self.unit.headers.iter().find(|(known, _)| known.value == name.value);
            let span = declared.map_or(name.span, |(known, _)| known.span);
            let text =
                format!("header `{}` has {bits} bits, which are not whole bytes", name.value);
            self.unsupported(span, text)
                .note("headers in packets are whole bytes here, as p4c wants them for bmv2")
                .help(format!("add a field of {} bits", 8 - bits % 8));
        }
    }

    /// The fields that a field of the source becomes; `path` is where it is.
    fn header_field(
        &mut self,
        named: &Fields,
        path: &str,
        ty: &Type,
        span: SourceSpan,
        fields: &mut ast::Named<FieldDecl>,
    ) {
        let decl = match ty {
            Type::Struct(of) => {
                for (inner, ty) in &of.fields {
                    self.header_field(named, &format!("{path}.{inner}"), ty, span, fields);
                }
                return;
            }
            Type::Stack(of, size) => {
                for at in 0..*size {
                    self.header_field(named, &format!("{path}.{at}"), of, span, fields);
                }
                return;
            }
            Type::Varbit(bits) => {
                FieldDecl::Variable { max_bits: Sp::new(u64::from(*bits), span), length: None }
            }
            ty => {
                let bits = self.bits(ty, span);
                if bits == 0 {
                    return;
                }
                FieldDecl::Bits(TypeRef::Bits(Sp::new(u64::from(bits), span)))
            }
        };
        fields.push((Sp::new(named.name(path), span), decl));
    }

    /// A field of a header.
    pub(super) fn header_part(
        &self,
        header: &Header,
        name: &str,
        ty: &Type,
        span: SourceSpan,
    ) -> Val {
        // Most are as in the source.
        let is_plain = !matches!(ty, Type::Struct(_) | Type::Stack(..)) && !names::is_of_tree(name);
        let named = if is_plain { Fields::default() } else { Fields::of(&header.ty) };
        named_part(header, &named, name, ty, span)
    }

    /// All fields of a header.
    pub(super) fn header_fields(&self, header: &Header, span: SourceSpan) -> Vec<(Rc<str>, Val)> {
        let named = Fields::of(&header.ty);
        let parts = header.ty.fields.iter();
        parts.map(|(name, ty)| (name.clone(), named_part(header, &named, name, ty, span))).collect()
    }

    /// An element of a stack.
    pub(super) fn element(&mut self, stack: &Stack, at: ast::AstExpr, span: SourceSpan) -> Val {
        if !stack.elements.is_empty() {
            let found = super::build::known(&at).and_then(|at| stack.elements.get(at as usize));
            return found.cloned().unwrap_or_else(|| {
                self.unsupported(span, "a computed index of a stack of unions is not supported");
                Val::Nothing
            });
        }
        let Type::Struct(ty) = &stack.of else { return Val::Nothing };
        let mut path = path(&[&stack.name], span);
        let at = match super::build::known(&at) {
            Some(value) => super::build::number(value, 0, span),
            None => at,
        };
        path.parts.push(PathPart::Index(at));
        Val::Header(Rc::new(Header { path, ty: ty.clone() }))
    }

    /// All elements of a stack.
    pub(super) fn elements_of(&mut self, stack: &Stack, span: SourceSpan) -> Vec<Val> {
        let numbers = (0..stack.size).map(|at| super::build::number(at.into(), 0, span));
        numbers.map(|at| self.element(stack, at, span)).collect()
    }

    /// A stack as the list of its elements.
    pub(super) fn listed(&mut self, value: &Val, span: SourceSpan) -> Val {
        let Val::Stack(stack) = value else { return value.clone() };
        let elements = self.elements_of(stack, span).into_iter().enumerate();
        Val::Struct(Rc::new(elements.map(|(at, one)| (at.to_string().into(), one)).collect()))
    }

    /// Every header in a value.
    pub(super) fn headers_in(&mut self, value: &Val) -> Vec<Rc<Header>> {
        match value {
            Val::Header(header) => vec![header.clone()],
            Val::Struct(fields) | Val::Union(fields) => {
                fields.clone().iter().flat_map(|(_, value)| self.headers_in(value)).collect()
            }
            Val::Stack(stack) => {
                let all = self.elements_of(stack, self.span);
                all.iter().flat_map(|value| self.headers_in(value)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Makes every header in a value invalid, as `out` parameters and new variables begin.
    pub(super) fn invalidate(&mut self, value: &Val, span: SourceSpan) {
        for header in self.headers_in(value) {
            self.procedure("set_invalid", &header, span);
        }
        self.forget_counts(value, span);
    }

    /// `set_valid(h)`, `set_invalid(h)`.
    pub(super) fn procedure(&mut self, name: &str, header: &Header, span: SourceSpan) {
        let arg = Sp::new(ast::Ast::Path(header.path.clone()), span);
        self.push(StmtKind::Call(Sp::new(name.to_owned(), span), vec![arg]), span);
    }

    /// `h.valid`.
    pub(super) fn is_valid(&self, header: &Header, span: SourceSpan) -> ast::AstExpr {
        let mut path = header.path.clone();
        path.parts.push(PathPart::Name(Sp::new("valid".to_owned(), span)));
        Sp::new(ast::Ast::Path(path), span)
    }

    /// An error of the parser by its name in P4.
    pub(super) fn error_name(&mut self, name: &Rc<str>, span: SourceSpan) -> String {
        let known = match &**name {
            "NoError" => "none",
            "PacketTooShort" => "packet_too_short",
            "NoMatch" => "no_match",
            "StackOutOfBounds" => "stack_overflow",
            "HeaderTooShort" => "header_length",
            "ParserTimeout" => "too_many_states",
            _ => "",
        };
        if !known.is_empty() {
            return known.to_owned();
        }
        if let Some(found) = self.errors.get(name) {
            return found.clone();
        }
        let mut fresh = names::plain(name);
        let taken: Vec<&str> = BuiltinError::ALL.iter().map(|error| error.name()).collect();
        while taken.contains(&&*fresh) || self.errors.values().any(|known| *known == fresh) {
            fresh.push('_');
        }
        self.unit.errors.push(Sp::new(fresh.clone(), span));
        self.errors.insert(name.clone(), fresh.clone());
        fresh
    }

    /// `error.name`.
    pub(super) fn error_value(&mut self, name: &Rc<str>, span: SourceSpan) -> ast::AstExpr {
        let name = self.error_name(name, span);
        named(&["error", &name], span)
    }
}
