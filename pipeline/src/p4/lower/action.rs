//! Actions of tables.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::CallInfo;
use super::env::{Env, Val};
use super::{Lower, Place, Return};
use crate::ast::{self, Sp, TypeRef};
use crate::ir::SourceSpan;

impl Lower<'_> {
    /// The action of the tree for one that a table lists, with the arguments that the list gives.
    pub(super) fn table_action(
        &mut self,
        decl: &Rc<Decl>,
        env: &Env,
        info: Option<&CallInfo>,
        args: &[Arg],
        table: &str,
        span: SourceSpan,
    ) -> Option<String> {
        let DeclKind::Action { params, body } = &decl.kind else { return None };
        let directed: Vec<Param> =
            params.iter().filter(|param| param.direction != Direction::None).cloned().collect();
        let shared = format!("{} {}", decl.id, env.key());
        // One that is bound to its arguments, or to the control that it is in.
        let own = match directed.is_empty() {
            true => format!("{shared} in {}", self.within),
            false => format!("{shared} {table}"),
        };
        let known = self.actions.get(&shared).or_else(|| self.actions.get(&own));
        if let Some(known) = known {
            return Some(known.clone());
        }
        let wanted = decl.name.value.clone();
        let name = self.names.fresh(&wanted, env.prefix());
        self.actions.insert(own, name.clone());
        let bound = self.bound;
        let full = env.full(&decl.annotations, &wanted);
        self.origin().actions.insert(name.clone(), full);
        let scope = env.inner("");
        let mut made = Vec::new();
        for param in params.iter().filter(|param| param.direction == Direction::None) {
            let ty = self.declared(param.id);
            let value = self.parameter(&param.name, &ty, &mut made);
            scope.bind(param.id, value);
        }
        let outer_place = std::mem::replace(&mut self.place, Place::Action);
        let outer_returns = std::mem::replace(&mut self.returns, vec![Return::Native]);
        let statements = self.in_block(Vec::new(), |lower| {
            let ((), made) = lower.apart(|lower| {
                let copies = match info {
                    Some(info) if !directed.is_empty() => {
                        let given = lower.argument_values(&directed, info, args, &[]);
                        lower.bind_arguments(&scope, &directed, &given, Some(body), Some(env))
                    }
                    _ => Vec::new(),
                };
                if !copies.is_empty() {
                    return lower.call_body(body, scope, copies, span);
                }
                let outer = std::mem::replace(&mut lower.env, scope);
                lower.inlined(span, |lower| lower.block(&body.statements));
                lower.env = outer;
            });
            made
        });
        self.place = outer_place;
        self.returns = outer_returns;
        if directed.is_empty() && self.bound == bound {
            self.actions.insert(shared, name.clone());
        }
        let action = ast::ActionDecl { params: made, body: statements };
        self.unit.actions.push((Sp::new(name.clone(), decl.name.span), action));
        Some(name)
    }

    /// A parameter that entries give; a struct is one for each field.
    fn parameter(
        &mut self,
        name: &Ident,
        ty: &super::super::types::Type,
        made: &mut ast::Named<TypeRef>,
    ) -> Val {
        use super::super::types::Type;
        let span = name.span;
        match ty {
            Type::Struct(of) if of.kind == StructKind::Struct => {
                let fields: Vec<(Rc<str>, Val)> = of
                    .fields
                    .iter()
                    .map(|(field, ty)| {
                        let inner = Sp::new(format!("{}_{field}", name.value).into(), span);
                        (field.clone(), self.parameter(&inner, ty, made))
                    })
                    .collect();
                Val::Struct(Rc::new(fields))
            }
            Type::Struct(_) => {
                self.unsupported(span, "a header as data of an action is not supported");
                Val::Nothing
            }
            ty => {
                let bits = self.bits(ty, span);
                if bits == 0 {
                    return Val::Nothing;
                }
                let plain = super::names::plain(&name.value);
                let clashes = super::names::is_reserved(&plain) || self.is_in_bodies(&plain);
                let mut name = if clashes { format!("{plain}_") } else { plain };
                while made.iter().any(|(known, _)| known.value == name) {
                    name.push('_');
                }
                self.names.param(&name);
                made.push((
                    Sp::new(name.clone(), span),
                    TypeRef::Bits(Sp::new(u64::from(bits), span)),
                ));
                Val::Scalar(super::build::named(&[&name], span))
            }
        }
    }

    /// Whether bodies of actions may name something that has this name.
    fn is_in_bodies(&self, name: &str) -> bool {
        let unit = &self.unit;
        unit.instances.iter().any(|(known, _)| known.value == name)
            || unit.counters.iter().any(|(known, _)| known.value == name)
            || unit.meters.iter().any(|(known, _)| known.value == name)
            || unit.registers.iter().any(|(known, _)| known.value == name)
    }

    /// The tree's action for one that a table lists by its declaration.
    pub(super) fn listed_action(
        &mut self,
        table: &Rc<Decl>,
        env: &Env,
        action: &Rc<Decl>,
    ) -> Option<String> {
        let DeclKind::Table(inner) = &table.kind else { return None };
        let found = inner.actions.iter().find(|one| {
            self.checked.calls.get(&one.action.id).is_some_and(|info| {
                matches!(&info.callee, super::super::types::Callee::Decl(known) if known.id == action.id)
            })
        })?;
        let found = found.clone();
        let name = self.table_name(table, env)?;
        self.action_in_list(&found, env, &name)
    }

    /// The tree's action for one in the list of a table.
    pub(super) fn action_in_list(
        &mut self,
        one: &ActionRef,
        env: &Env,
        table: &str,
    ) -> Option<String> {
        let info = self.checked.calls.get(&one.action.id).cloned()?;
        let super::super::types::Callee::Decl(decl) = &info.callee else { return None };
        let decl = decl.clone();
        let args = match &*one.action.kind {
            ExprKind::Call { args, .. } => args.clone(),
            _ => Vec::new(),
        };
        let outer = std::mem::replace(&mut self.env, env.clone());
        let at = match self.declared_value(&decl) {
            Val::Action(at) => at,
            _ => self.root.clone(),
        };
        let name = self.table_action(&decl, &at, Some(&info), &args, table, one.action.span);
        self.env = outer;
        name
    }
}
