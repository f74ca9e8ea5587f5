//! Objects with state: externs of v1model and PSA.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Const, Type};
use super::ids::{full_name, number_of, text_of};
use super::walk::{Bound, Walk};
use super::{Object, ObjectKind, SelectorSize, Unit};

/// Annotations of action profiles for which P4Info has fields of their own.
const OF_PROFILES: [&str; 3] = ["max_group_size", "selector_size_semantics", "max_member_weight"];

/// Kinds with ids of their own.
pub(super) fn sort(kind: &ObjectKind) -> u8 {
    match kind {
        ObjectKind::Counter(..) => 0,
        ObjectKind::DirectCounter(_) => 1,
        ObjectKind::Meter(..) => 2,
        ObjectKind::DirectMeter(_) => 3,
        ObjectKind::Register(..) => 4,
        ObjectKind::Profile(..) => 5,
        ObjectKind::Digest(_) => 6,
    }
}

impl Walk<'_> {
    /// An instance of an extern, where P4Info lists it.
    pub(super) fn object(&mut self, decl: &Rc<Decl>, prefix: &str) {
        let Some(Type::Extern(of, types)) = self.checked.declared.get(&decl.id).cloned() else {
            return;
        };
        if &*of.name.value == "register" && self.by_typedef(decl) {
            return;
        }
        let args = self.arguments(decl);
        let name = full_name(prefix, &decl.annotations, &decl.name.value);
        if let Some(at) = self.new_object(&of, &types, &args, name, &decl.annotations) {
            self.known.insert(decl.id, Bound::Object(at));
        }
    }

    pub(super) fn new_object(
        &mut self,
        of: &Decl,
        types: &[Type],
        args: &[Option<Expr>],
        name: String,
        annotations: &[Annotation],
    ) -> Option<usize> {
        let size = |walk: &Self, at: usize| match walk.bound(args.get(at)?.as_ref()?) {
            Some(Bound::Const(Const::Int(value))) => i64::try_from(&value).ok(),
            _ => None,
        };
        let unit = |walk: &Self, at: usize| match walk.bound(args.get(at)?.as_ref()?) {
            Some(Bound::Const(Const::Enum(_, name))) => match name.to_ascii_lowercase().as_str() {
                "packets" => Some(Unit::Packets),
                "bytes" => Some(Unit::Bytes),
                _ => Some(Unit::Both),
            },
            _ => None,
        };
        let kind = match &*of.name.value {
            "counter" => {
                ObjectKind::Counter(unit(self, 1)?, size(self, 0)?, self.index_type(types.first()))
            }
            "Counter" => {
                ObjectKind::Counter(unit(self, 1)?, size(self, 0)?, self.index_type(types.get(1)))
            }
            "direct_counter" | "DirectCounter" => ObjectKind::DirectCounter(unit(self, 0)?),
            "meter" | "Meter" => {
                ObjectKind::Meter(unit(self, 1)?, size(self, 0)?, self.index_type(types.first()))
            }
            "direct_meter" | "DirectMeter" => ObjectKind::DirectMeter(unit(self, 0)?),
            "register" | "Register" => {
                let cell = self.type_ref(types.first()?);
                ObjectKind::Register(cell, size(self, 0)?, self.index_type(types.get(1)))
            }
            "action_profile" | "ActionProfile" => {
                ObjectKind::Profile(false, size(self, 0)?, 0, None)
            }
            "action_selector" | "ActionSelector" => {
                let most = number_of(annotations, "max_group_size").unwrap_or(0);
                let most = i32::try_from(most).unwrap_or(0);
                ObjectKind::Profile(true, size(self, 1)?, most, selector_size(annotations))
            }
            "Digest" => ObjectKind::Digest(self.type_ref(types.first()?)),
            _ => return None,
        };
        let is_profile = matches!(kind, ObjectKind::Profile(..));
        let known: &[&str] = if is_profile { &OF_PROFILES } else { &[] };
        let preamble = self.preamble(name, annotations, known);
        self.info.objects.push(Object { preamble, kind });
        Some(self.info.objects.len() - 1)
    }

    /// `R(4096) r;` with `typedef register<T> R;`: p4c lists only instances that name the extern.
    fn by_typedef(&self, decl: &Decl) -> bool {
        let DeclKind::Instance { ty, .. } = &decl.kind else { return false };
        let TypeKind::Name { name, .. } = &ty.value else { return false };
        let mut all = self.checked.decls.iter();
        all.any(|one| one.name.value == name.value && matches!(one.kind, DeclKind::Typedef(_)))
    }

    /// The name of the type of an index, where it has one.
    fn index_type(&mut self, ty: Option<&Type>) -> Option<String> {
        let ty = ty?.clone();
        matches!(ty, Type::New(..)).then(|| self.width(&ty).1)?
    }
}

/// The meaning of a selector's size, from its annotations; `None` without them.
fn selector_size(annotations: &[Annotation]) -> Option<SelectorSize> {
    match text_of(annotations, "selector_size_semantics")?.as_str() {
        "sum_of_members" => {
            let most = number_of(annotations, "max_member_weight").unwrap_or(0);
            Some(SelectorSize::Members(i32::try_from(most).unwrap_or(0)))
        }
        "sum_of_weights" => Some(SelectorSize::Weights),
        _ => None,
    }
}
