//! Names of keys that have no `@name`: p4c makes them of the expression.

use super::super::tree::*;
use super::super::types::{Const, Def, Type};
use super::ids::text_of;
use super::walk::Walk;

impl Walk<'_> {
    /// The expression as it is written, with constants as their values, and `$valid$` for `isValid()`.
    pub(super) fn key_name(&self, expr: &Expr) -> String {
        if let Some(value) = self.constant(expr) {
            return value;
        }
        match &*expr.kind {
            ExprKind::Name(name, _) => name.value.to_string(),
            ExprKind::Member(of, name) => self.field_of(of, &name.value),
            ExprKind::Index(of, at) => format!("{}[{}]", self.key_name(of), self.key_name(at)),
            ExprKind::Slice(of, high, low) => {
                let (high, low) = (self.key_name(high), self.key_name(low));
                format!("{}[{high}:{low}]", self.key_name(of))
            }
            ExprKind::PlusSlice(of, base, width) => {
                let (base, width) = (self.key_name(base), self.key_name(width));
                format!("{}[{base}+:{width}]", self.key_name(of))
            }
            ExprKind::Call { callee, .. } => match &*callee.kind {
                ExprKind::Member(of, name) if &*name.value == "isValid" => {
                    format!("{}.$valid$", self.key_name(of))
                }
                _ => self.key_name(callee),
            },
            ExprKind::Binary(operator, a, b) => {
                format!("{} {} {}", self.key_name(a), operator.symbol(), self.key_name(b))
            }
            ExprKind::Cast(_, of) => self.key_name(of),
            _ => String::new(),
        }
    }

    /// A field by the name that it has for control; `@name(".x")` leaves out what stands before it.
    fn field_of(&self, of: &Expr, name: &str) -> String {
        let own = match self.checked.types.get(of.id as usize) {
            Some(Type::Struct(ty)) => match &ty.decl.kind {
                DeclKind::Struct(inner) => {
                    let found = inner.fields.iter().find(|field| &*field.name.value == name);
                    found.and_then(|field| text_of(&field.annotations, "name"))
                }
                _ => None,
            },
            _ => None,
        };
        let own = own.unwrap_or_else(|| name.to_owned());
        match own.strip_prefix('.') {
            Some(absolute) => absolute.to_owned(),
            None => format!("{}.{own}", self.key_name(of)),
        }
    }

    /// A value that is known, in the base that it was written in.
    fn constant(&self, expr: &Expr) -> Option<String> {
        let value = match (self.checked.consts.get(&expr.id), &*expr.kind) {
            (Some(Const::Int(value)), _) | (None, ExprKind::Number(value, _)) => value,
            (Some(Const::Bool(flag)), _) => return Some(flag.to_string()),
            _ => return None,
        };
        Some(match self.radix(expr) {
            16 => format!("0x{value:x}"),
            8 => format!("0o{value:o}"),
            2 => format!("0b{value:b}"),
            _ => value.to_string(),
        })
    }

    fn radix(&self, expr: &Expr) -> u32 {
        if let Some(radix) = self.checked.radixes.get(&expr.id) {
            return *radix;
        }
        match (self.checked.defs.get(&expr.id), &*expr.kind) {
            (Some(Def::Decl(decl)), _) => match &decl.kind {
                DeclKind::Const(_, value) => self.radix(value),
                _ => 10,
            },
            (_, ExprKind::Binary(_, of, _) | ExprKind::Unary(_, of) | ExprKind::Cast(_, of)) => {
                self.radix(of)
            }
            _ => 10,
        }
    }
}
