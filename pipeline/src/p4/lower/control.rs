//! Controls that are applied: each instance is a block of `controls`.
//!
//! The first application gives the parameters their places. An instance with tables or state of its own exists once, so another application runs the
//! same block: what the arguments have is put into those places before, and taken back behind.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Type};
use super::build::{known, number};
use super::call::is_fixed;
use super::env::{BlockVal, Val};
use super::{Lower, Return};
use crate::ast::{self, Ast, Sp, StmtKind as Made};
use crate::ir::SourceSpan;

/// A control that was applied: its block, and where its parameters are.
pub(super) struct Applied {
    block: String,
    /// It, or an action of its tables, has an `exit`.
    exits: bool,
    places: Vec<Option<(Val, Type)>>,
}

impl Lower<'_> {
    /// The scope of a block, with its constructor's arguments.
    pub(super) fn block_scope(
        &mut self,
        block: &BlockVal,
        constructor: &[Param],
    ) -> super::env::Env {
        let scope = block.env.block(&block.name, &block.full);
        for (at, param) in constructor.iter().enumerate() {
            let value = match block.args.get(at) {
                Some(Val::Nothing) | None => {
                    param.default.as_ref().map_or(Val::Nothing, |value| self.eval(value))
                }
                Some(value) => value.clone(),
            };
            let ty = self.declared(param.id);
            let ty = super::super::types::with_types(&ty, &block.types);
            let value = match &value {
                Val::Scalar(scalar) => match known(scalar) {
                    Some(known) => {
                        let bits = self.bits(&ty, scalar.span);
                        Val::Scalar(number(known, bits, scalar.span))
                    }
                    None => value,
                },
                _ => value,
            };
            scope.bind(param.id, value);
        }
        scope
    }

    /// Applies a control.
    pub(super) fn call_control(
        &mut self,
        block: &Rc<BlockVal>,
        control: &ControlDecl,
        info: &CallInfo,
        args: &[Arg],
        span: SourceSpan,
    ) {
        let key = block.number.to_string();
        let has_state = control
            .locals
            .iter()
            .any(|local| matches!(local.kind, DeclKind::Table(_) | DeclKind::Instance { .. }));
        let values = self.argument_values(&control.params, info, args, &block.types);
        if has_state && let Some(applied) = self.controls.get(&key) {
            let (name, places, exits) =
                (applied.block.clone(), applied.places.clone(), applied.exits);
            self.apply_again(block, control, &name, &places, &values, span);
            let writes =
                |param: &Param| matches!(param.direction, Direction::Out | Direction::InOut);
            let moved =
                control.params.iter().zip(&places).zip(&values).any(|((param, place), value)| {
                    let pair = place.as_ref().zip(value.as_ref());
                    writes(param)
                        && pair.is_some_and(|((place, _), (value, _))| !same(place, value))
                });
            if exits && moved {
                self.unsupported(
                    span,
                    "a control that exits is applied again with other arguments that it writes",
                )
                .help("declare an instance for each application");
            }
            return;
        }
        let scope = self.block_scope(block, &control.constructor);
        let name = self.names.fresh(&block.name, self.env.clone().prefix());
        let mut copies = Vec::new();
        let places: Vec<Option<(Val, Type)>> = control
            .params
            .iter()
            .enumerate()
            .map(|(at, param)| self.place_argument(block, param, at, &values, &mut copies))
            .collect();
        for (param, place) in control.params.iter().zip(&places) {
            scope.bind(param.id, place.as_ref().map_or(Val::Nothing, |(value, _)| value.clone()));
        }
        let applied = Applied { block: name.clone(), places, exits: false };
        self.controls.insert(key.clone(), applied);
        self.leaving.push(copies.clone());
        let exits = self.exits;
        let outer = std::mem::replace(&mut self.env, scope);
        let returns = std::mem::replace(&mut self.returns, vec![Return::Native]);
        let made = self.with_types(&block.types, |lower| {
            lower.inlined(span, |lower| lower.apart(|lower| lower.control_body(control)).1)
        });
        self.leaving.pop();
        if let Some(applied) = self.controls.get_mut(&key) {
            applied.exits = self.exits > exits;
        }
        self.returns = returns;
        self.env = outer;
        let Some(made) = made else { return };
        self.unit.controls.push((Sp::new(name.clone(), block.decl.name.span), plain_control(made)));
        self.push(Made::CallControl(Sp::new(name, span), Vec::new()), span);
        self.copy_out(copies, span);
    }

    /// Where a parameter is: the argument itself where nobody can tell, else storage of its own.
    fn place_argument(
        &mut self,
        block: &BlockVal,
        param: &Param,
        at: usize,
        values: &[Option<(Val, Type)>],
        copies: &mut Vec<(Val, Val, Type)>,
    ) -> Option<(Val, Type)> {
        let (value, ty) = values.get(at)?.as_ref()?;
        let span = param.name.span;
        let others = values.iter().enumerate().filter(|(other, _)| *other != at);
        let shared =
            others.filter_map(|(_, one)| one.as_ref()).any(|(one, _)| self.overlap(value, one));
        let is_object =
            matches!(value, Val::Packet | Val::Object(_) | Val::Block(_) | Val::Text(_));
        let writes = matches!(param.direction, Direction::Out | Direction::InOut);
        let is_constant = matches!(value, Val::Scalar(scalar) if known(scalar).is_some())
            && !self.stored.contains(&argument_name(block, param));
        let in_place = match value {
            _ if is_object => true,
            Val::Scalar(_) if !writes => is_constant,
            _ => is_fixed(value) && !shared,
        };
        if in_place {
            if param.direction == Direction::Out {
                self.invalidate(value, span);
            }
            return Some((value.clone(), ty.clone()));
        }
        let place = self.storage(ty, &param.name.value, span);
        if param.direction == Direction::Out {
            self.invalidate(&place, span);
        } else {
            self.assign(&place, value, ty, span);
        }
        if writes {
            copies.push((value.clone(), place.clone(), ty.clone()));
        }
        Some((place, ty.clone()))
    }

    /// Runs the block of a control once more, with other arguments.
    fn apply_again(
        &mut self,
        block: &BlockVal,
        control: &ControlDecl,
        name: &str,
        places: &[Option<(Val, Type)>],
        values: &[Option<(Val, Type)>],
        span: SourceSpan,
    ) {
        let (mut back, mut restored) = (Vec::new(), Vec::new());
        for ((param, place), value) in control.params.iter().zip(places).zip(values) {
            let (Some((place, ty)), Some((value, _))) = (place, value) else { continue };
            if same(place, value) {
                continue;
            }
            if matches!(place, Val::Scalar(scalar) if known(scalar).is_some()) {
                self.wanted.insert(argument_name(block, param));
                continue;
            }
            let saved = self.storage(ty, &param.name.value, span);
            self.assign(&saved, place, ty, span);
            self.assign(place, value, ty, span);
            if matches!(param.direction, Direction::Out | Direction::InOut) {
                back.push((value.clone(), place.clone(), ty.clone()));
            }
            restored.push((place.clone(), saved, ty.clone()));
        }
        self.push(Made::CallControl(Sp::new(name.to_owned(), span), Vec::new()), span);
        self.copy_out(back, span);
        self.copy_out(restored, span);
    }

    /// What a control declares and does.
    pub(super) fn control_body(&mut self, control: &ControlDecl) {
        for local in &control.locals {
            self.local(local);
        }
        if let Some(body) = &control.body {
            self.block(&body.statements);
        }
    }
}

/// The name of a parameter that needs storage, for the next round.
fn argument_name(block: &BlockVal, param: &Param) -> String {
    format!("argument {} {}", block.name, param.id)
}

/// Whether two values are the same places, wherever they are written.
fn same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Scalar(a), Val::Scalar(b)) => match (&a.value, &b.value) {
            (Ast::Path(a), Ast::Path(b)) => a.plain().is_some() && a.plain() == b.plain(),
            _ => known(a).is_some() && known(a) == known(b),
        },
        (Val::Struct(a), Val::Struct(b)) | (Val::Union(a), Val::Union(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((_, a), (_, b))| same(a, b))
        }
        (Val::Header(a), Val::Header(b)) => {
            a.path.plain().is_some() && a.path.plain() == b.path.plain()
        }
        (Val::Stack(a), Val::Stack(b)) => a.name == b.name,
        (Val::Object(a), Val::Object(b)) => Rc::ptr_eq(a, b),
        (Val::Packet, Val::Packet) => true,
        _ => false,
    }
}

/// A block of `controls` without parameters.
pub(super) fn plain_control(body: Vec<ast::Stmt>) -> ast::ControlDecl {
    ast::ControlDecl { params: Vec::new(), body }
}
