//! What stands behind a dot.

use std::rc::Rc;

use super::super::tree::*;
use super::check::{Checker, Place};
use super::{Const, Type};
use crate::diag::codes;

impl Checker<'_> {
    pub(super) fn member(&mut self, expr: &Expr, of: &Expr, name: &Ident) -> Type {
        let ty = self.value(of);
        match self.known(&ty) {
            Type::Any => Type::Any,
            Type::Name(ty) => self.type_member(expr, &ty, name),
            Type::Struct(ty) => {
                if let Some((_, found)) = ty.fields.iter().find(|(field, _)| *field == name.value) {
                    self.fold_part(expr);
                    return found.clone();
                }
                let is_method = match ty.kind {
                    StructKind::Header => {
                        matches!(&*name.value, "isValid" | "setValid" | "setInvalid")
                            || is_size(&name.value)
                    }
                    StructKind::Union => &*name.value == "isValid" || is_size(&name.value),
                    StructKind::Struct => is_size(&name.value),
                };
                if is_method {
                    return Type::Method;
                }
                let fields: Vec<String> =
                    ty.fields.iter().map(|(name, _)| name.to_string()).collect();
                self.no_member(&Type::Struct(ty.clone()), name, &fields)
            }
            Type::Stack(element, size) => self.stack_member(expr, &element, size, name),
            Type::Table(_) | Type::Parser(..) | Type::Control(..) if &*name.value == "apply" => {
                Type::Method
            }
            Type::Extern(decl, args) => {
                let DeclKind::Extern(inner) = &decl.kind else { return Type::Any };
                if inner
                    .methods
                    .iter()
                    .any(|method| method.name.value == name.value && method.result.is_some())
                {
                    return Type::Method;
                }
                let names: Vec<String> =
                    inner.methods.iter().map(|method| method.name.value.to_string()).collect();
                self.no_member(&Type::Extern(decl.clone(), args), name, &names)
            }
            Type::Applied(table) => match &*name.value {
                "hit" | "miss" => Type::Bool,
                "action_run" => Type::ActionRun(table),
                _ => {
                    let names = ["hit".into(), "miss".into(), "action_run".into()];
                    self.no_member(&Type::Applied(table), name, &names)
                }
            },
            Type::Tuple(_)
            | Type::Bit(_)
            | Type::Bool
            | Type::Int(_)
            | Type::Enum(..)
            | Type::Varbit(_)
                if is_size(&name.value) =>
            {
                Type::Method
            }
            other => self.no_member(&other, name, &[]),
        }
    }

    fn stack_member(&mut self, expr: &Expr, element: &Rc<Type>, size: u32, name: &Ident) -> Type {
        let in_parser = matches!(self.place, Place::Parser);
        match &*name.value {
            "next" | "last" if in_parser => (**element).clone(),
            "lastIndex" if in_parser => Type::Bit(32),
            "next" | "last" | "lastIndex" => {
                let text = format!("`{}` of a stack is only known in a parser", name.value);
                self.error(codes::WRONG_PLACE, name.span, text);
                if &*name.value == "lastIndex" { Type::Bit(32) } else { (**element).clone() }
            }
            "size" => {
                self.consts.insert(expr.id, Const::Int(size.into()));
                Type::Bit(32)
            }
            "push_front" | "pop_front" => Type::Method,
            other if is_size(other) => Type::Method,
            _ => {
                let names = ["next", "last", "lastIndex", "size", "push_front", "pop_front"];
                let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
                self.no_member(&Type::Stack(element.clone(), size), name, &names)
            }
        }
    }

    fn no_member(&mut self, of: &Type, name: &Ident, known: &[String]) -> Type {
        let text = format!("{of} has no `{}`", name.value);
        let error = self.error(codes::NO_MEMBER, name.span, text);
        let help = match (of, &*name.value) {
            (Type::Struct(of), field) if &*of.decl.name.value == "standard_metadata_t" => {
                retired(field)
            }
            (Type::Struct(of), "valid" | "is_valid") if of.kind != StructKind::Struct => {
                Some("whether it is valid is `isValid()`")
            }
            (Type::Table(_), "hit" | "miss" | "action_run") => {
                Some("it is known when the table is applied: `t.apply().hit`")
            }
            _ => None,
        };
        if let Some(help) = help {
            error.help(help);
            return Type::Any;
        }
        error.did_you_mean(&name.value, known.iter().map(String::as_str));
        Type::Any
    }

    /// `error.X`, `E.member`, `T.minSizeInBits`, `T.apply`.
    fn type_member(&mut self, expr: &Expr, ty: &Type, name: &Ident) -> Type {
        match ty {
            Type::Any => Type::Any,
            Type::Error => {
                if !self.errors.contains(&name.value) {
                    let known: Vec<String> =
                        self.errors.iter().map(|name| name.to_string()).collect();
                    return self.no_member(ty, name, &known);
                }
                self.consts.insert(expr.id, Const::Error(name.value.clone()));
                Type::Error
            }
            Type::MatchKind => Type::MatchKind,
            Type::Enum(decl, base) => {
                let DeclKind::Enum(_, members) = &decl.kind else { return Type::Any };
                let found = members.iter().find(|(member, _)| member.value == name.value);
                match found {
                    Some((_, value)) => {
                        let known = match (base, value) {
                            (Some(_), Some(value)) => self.consts.get(&value.id).cloned(),
                            _ => Some(Const::Enum(decl.id, name.value.clone())),
                        };
                        if let Some(known) = known {
                            self.consts.insert(expr.id, known);
                        }
                        ty.clone()
                    }
                    None if is_size(&name.value) => Type::Method,
                    None => {
                        let known: Vec<String> =
                            members.iter().map(|(name, _)| name.value.to_string()).collect();
                        self.no_member(ty, name, &known)
                    }
                }
            }
            Type::Parser(..) | Type::Control(..) if &*name.value == "apply" => Type::Method,
            _ if is_size(&name.value) => Type::Method,
            other => self.no_member(&Type::Name(Rc::new(other.clone())), name, &[]),
        }
    }
}

/// What to write for a field that the v1model.p4 of years ago had, or that other targets have.
fn retired(field: &str) -> Option<&'static str> {
    Some(match field {
        "drop" | "drop_flag" => "call `mark_to_drop(standard_metadata)`",
        "clone_spec" => {
            "call `clone(CloneType.I2E, session)`; a copy has the `instance_type` 1 or 2"
        }
        "resubmit_flag" => {
            "call `resubmit_preserving_field_list(index)`; the packet then has the `instance_type` 6"
        }
        "recirculate_flag" | "recirculate_port" => {
            "call `recirculate_preserving_field_list(index)`; the packet then has the `instance_type` 4"
        }
        "lf_field_list" | "learn" => "call `digest(receiver, data)`",
        "intrinsic_metadata" | "queueing_metadata" => {
            "its fields are those of `standard_metadata`, as in `standard_metadata.mcast_grp`"
        }
        "ingress_timestamp" => "it is `ingress_global_timestamp`",
        "egress_timestamp" => "it is `egress_global_timestamp`",
        "egress_instance" => "it is `egress_rid`",
        _ => return None,
    })
}

/// `minSizeInBits` and its relatives.
pub(super) fn is_size(name: &str) -> bool {
    matches!(name, "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes")
}

/// Least and most bits of a type.
pub(in crate::p4) fn size_limits(ty: &Type) -> Option<(u32, u32)> {
    let add = |(low, high): (u32, u32), ty: &Type| {
        let (a, b) = size_limits(ty)?;
        Some((low.checked_add(a)?, high.checked_add(b)?))
    };
    match ty {
        Type::Varbit(bits) => Some((0, *bits)),
        Type::Struct(inner) if inner.kind == StructKind::Union => {
            inner.fields.iter().try_fold((u32::MAX, 0), |(low, high), (_, ty)| {
                let (a, b) = size_limits(ty)?;
                Some((low.min(a), high.max(b)))
            })
        }
        Type::Struct(inner) => inner.fields.iter().map(|(_, ty)| ty).try_fold((0, 0), add),
        Type::Tuple(parts) => parts.iter().try_fold((0, 0), add),
        Type::Stack(of, size) => {
            let (low, high) = size_limits(of)?;
            Some((low.checked_mul(*size)?, high.checked_mul(*size)?))
        }
        other => other.bits().map(|bits| (bits, bits)),
    }
}
