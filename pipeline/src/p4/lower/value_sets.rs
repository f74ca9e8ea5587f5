//! Value sets of parsers: their keys, and how each matches.

use std::rc::Rc;

use super::super::info::full_name;
use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::env::Val;
use crate::ast::{self, Sp};
use crate::ir::SourceSpan;
use wireyard_tables::MatchKind;

/// A key: its name, which a number alone has none of, its type, and how it matches.
struct Key {
    name: Option<String>,
    ty: Type,
    kind: Rc<str>,
}

impl Lower<'_> {
    pub(super) fn value_set(&mut self, decl: &Rc<Decl>, size: &Expr) {
        let ty = self.declared(decl.id);
        let span = decl.name.span;
        let mut keys = Vec::new();
        set_keys(&ty, None, &kind_of(&decl.annotations, "exact"), &mut keys);
        let keys: Option<Vec<_>> = keys.iter().map(|key| self.set_key(key, span)).collect();
        let Some(keys) = keys else { return };
        let size = self.known_number(size) as u64;
        let name = self.names.fresh(&decl.name.value, "");
        let full = self.env.full(&decl.annotations, &decl.name.value);
        self.origin().value_sets.insert(name.clone(), full);
        let set = ast::ValueSetDecl { keys, size: ast::Size::new(size, span), values: Vec::new() };
        self.unit.value_sets.push((Sp::new(name.clone(), span), set));
        self.bind(decl.id, Val::Text(name.into()));
    }

    fn set_key(&mut self, key: &Key, span: SourceSpan) -> Option<ast::SetKeyDecl> {
        if MatchKind::named(&key.kind).is_none() {
            let text = format!("a value set does not match by `{}`", key.kind);
            self.unsupported(span, text);
            return None;
        }
        let bits = u64::from(self.bits(&key.ty, span));
        Some(ast::SetKeyDecl {
            name: key.name.clone().map(|name| Sp::new(name, span)),
            ty: ast::TypeRef::Bits(Sp::new(bits, span)),
            kind: Some(Sp::new(key.kind.to_string(), span)),
        })
    }
}

fn kind_of(annotations: &[Annotation], otherwise: &str) -> Rc<str> {
    annotation(annotations, "match").map_or(otherwise.into(), |one| one.text.clone())
}

/// The keys of a value set, each a number: a field in a field is `a.b`, and a part of a tuple `f0`.
fn set_keys(ty: &Type, name: Option<String>, kind: &Rc<str>, keys: &mut Vec<Key>) {
    let within = |part: String| match &name {
        Some(name) => format!("{name}.{part}"),
        None => part,
    };
    match ty {
        Type::Tuple(parts) => {
            for (at, part) in parts.iter().enumerate() {
                set_keys(part, Some(within(format!("f{at}"))), kind, keys);
            }
        }
        Type::Struct(of) => {
            let DeclKind::Struct(inner) = &of.decl.kind else { return };
            for (field, (plain, part)) in inner.fields.iter().zip(&of.fields) {
                let kind = kind_of(&field.annotations, kind);
                let plain = full_name("", &field.annotations, plain);
                set_keys(part, Some(within(plain)), &kind, keys);
            }
        }
        other => keys.push(Key { name, ty: other.clone(), kind: kind.clone() }),
    }
}
