//! Controls that are applied: each instance is a block of `controls`.
//!
//! The first application gives the parameters their places. An instance with tables or state of its own exists once, so another application runs the
//! same block: what the arguments have is put into those places before, and taken back behind.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Type};
use super::arguments::{CopyOut, Given, is_fixed, is_object, writes};
use super::build::{known, number};
use super::env::{BlockVal, Env, Val};
use super::need::Need;
use super::{Lower, Return};
use crate::ast::{self, Ast, Sp, StmtKind as Made};
use crate::ir::SourceSpan;

/// A control that was applied: its block, and where its parameters are.
#[derive(Clone)]
pub(super) struct Applied {
    block: String,
    /// It, or an action of its tables, has an `exit`.
    exits: bool,
    places: Vec<Option<(Val, Type)>>,
}

/// A parameter that becomes something else while its block runs once more.
struct Moved<'a> {
    param: &'a Param,
    place: &'a Val,
    ty: &'a Type,
    given: &'a Given,
}

impl Lower<'_> {
    /// The scope of a block, with its constructor's arguments.
    pub(super) fn block_scope(&mut self, block: &BlockVal, constructor: &[Param]) -> Env {
        let scope = block.env.block(&block.name, &block.full);
        for (at, param) in constructor.iter().enumerate() {
            let value = match block.args.get(at) {
                Some(Val::Nothing) | None => {
                    param.default.as_ref().map_or(Val::Nothing, |value| self.eval(value))
                }
                Some(value) => value.clone(),
            };
            let ty = self.declared(param.id);
            let ty = super::super::types::substitute(&ty, &block.types);
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
        let has_state = control
            .locals
            .iter()
            .any(|local| matches!(local.kind, DeclKind::Table(_) | DeclKind::Instance { .. }));
        let given = self.argument_values(&control.params, info, args, &block.types);
        if has_state && let Some(applied) = self.controls.get(&block.number).cloned() {
            self.apply_again(block, control, &applied, &given, span);
        } else {
            self.apply_first(block, control, &given, span);
        }
        self.leave_if_exited(span);
    }

    /// Applies a control, and makes its block.
    fn apply_first(
        &mut self,
        block: &Rc<BlockVal>,
        control: &ControlDecl,
        given: &[Option<Given>],
        span: SourceSpan,
    ) {
        let scope = self.block_scope(block, &control.constructor);
        let name = self.names.fresh(&block.name, self.env.clone().prefix());
        let mut copies = Vec::new();
        let params = control.params.iter().enumerate();
        let places: Vec<Option<(Val, Type)>> = params
            .map(|(at, param)| self.place_argument(block, param, at, given, &mut copies))
            .collect();
        for (param, place) in control.params.iter().zip(&places) {
            scope.bind(param.id, place.as_ref().map_or(Val::Nothing, |(value, _)| value.clone()));
        }
        let applied = Applied { block: name.clone(), places, exits: false };
        self.controls.insert(block.number, applied);
        let exits = self.exits;
        let made = self.in_block(copies.clone(), |lower| {
            lower.block_of(block, scope, |lower| {
                lower.inlined(span, |lower| lower.apart(|lower| lower.control_body(control)).1)
            })
        });
        if let Some(applied) = self.controls.get_mut(&block.number) {
            applied.exits = self.exits > exits;
        }
        let Some(made) = made else { return };
        self.unit.controls.push((Sp::new(name.clone(), block.decl.name.span), plain_control(made)));
        self.push(Made::CallControl(Sp::new(name, span), Vec::new()), span);
        self.copy_out(copies, span);
    }

    /// Does something inside of a parser or control.
    pub(super) fn block_of<T>(
        &mut self,
        block: &BlockVal,
        scope: Env,
        does: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = std::mem::replace(&mut self.env, scope);
        let within = std::mem::replace(&mut self.within, block.number);
        let returns = std::mem::replace(&mut self.returns, vec![Return::Native]);
        let value = self.with_types(&block.types, does);
        self.returns = returns;
        self.within = within;
        self.env = outer;
        value
    }

    /// Where a parameter is: the argument itself where nobody can tell, else storage of its own.
    fn place_argument(
        &mut self,
        block: &BlockVal,
        param: &Param,
        at: usize,
        given: &[Option<Given>],
        copies: &mut Vec<CopyOut>,
    ) -> Option<(Val, Type)> {
        let one = given.get(at)?.as_ref()?;
        let is_constant = matches!(&one.value, Val::Scalar(scalar) if known(scalar).is_some())
            && !self.is_needed(&argument(block, param));
        let value = &one.value;
        let in_place = is_fixed(value) && !self.is_of_header(value) && !self.is_shared(given, at);
        let place = match value {
            _ if is_object(value) || is_constant => value.clone(),
            _ if writes(param) => {
                // An `exit` in the block copies out there.
                let value = self.fixed_in_metadata(value.clone());
                self.place_for(param, &Given { value, ..one.clone() }, in_place, copies)
            }
            Val::Scalar(_) => self.copied_argument(param, one),
            _ if in_place && !self.has_numbers(value) && !names_twice(value) => value.clone(),
            _ => self.copied_argument(param, one),
        };
        Some((place, one.ty.clone()))
    }

    fn copied_argument(&mut self, param: &Param, one: &Given) -> Val {
        self.copied(&one.value, &one.ty, &param.name.value, param.name.span)
    }

    /// Numbers and headers that are written down: nothing can be put into their places when the block is run once more.
    fn has_numbers(&self, value: &Val) -> bool {
        match value {
            Val::Scalar(scalar) => {
                known(scalar).is_some() && !self.device_set.iter().any(|(_, set)| set == scalar)
            }
            Val::Literal(_) => true,
            Val::Struct(fields) => fields.iter().any(|(_, value)| self.has_numbers(value)),
            _ => false,
        }
    }

    /// Runs the block of a control once more: its parameters become what the arguments are now, and behind it what they were.
    fn apply_again(
        &mut self,
        block: &BlockVal,
        control: &ControlDecl,
        applied: &Applied,
        given: &[Option<Given>],
        span: SourceSpan,
    ) {
        let mut moved = Vec::new();
        for ((param, place), given) in control.params.iter().zip(&applied.places).zip(given) {
            let (Some((place, ty)), Some(given)) = (place, given) else { continue };
            if matches!(place, Val::Scalar(scalar) if known(scalar).is_some()) {
                if !is_there(given, place) {
                    self.need(argument(block, param));
                }
            } else if !is_object(place) {
                moved.push(Moved { param, place, ty, given });
            }
        }
        // Arguments that may be places of parameters, and not those that they were: then what comes and what goes is copied first.
        let crossed = moved.iter().enumerate().any(|(at, one)| {
            moved.iter().enumerate().any(|(other, two)| {
                (other != at || !is_there(one.given, one.place))
                    && self.overlap(&one.given.value, two.place)
            })
        });
        if !crossed {
            moved.retain(|one| {
                let stays = is_there(one.given, one.place);
                if stays && one.param.direction == Direction::Out {
                    self.invalidate(one.place, span);
                }
                !stays
            });
        }
        if applied.exits && self.alone.is_none() && moved.iter().any(|one| writes(one.param)) {
            self.need(Need::Exits(self.pass));
        }
        self.moved(&moved, crossed, &applied.block, span);
    }

    /// Runs a block with its parameters' places holding something else.
    fn moved(&mut self, moved: &[Moved<'_>], crossed: bool, block: &str, span: SourceSpan) {
        let mut restored = Vec::new();
        let mut come = Vec::new();
        for Moved { param, place, ty, given } in moved {
            let name = &param.name.value;
            restored.push(((*place).clone(), self.copied(place, ty, name, span), (*ty).clone()));
            let value = match &given.saved {
                Some(saved) => saved.clone(),
                None if crossed => self.copied(&given.value, ty, name, span),
                None => given.value.clone(),
            };
            come.push(value);
        }
        for (Moved { param, place, ty, .. }, value) in moved.iter().zip(&come) {
            match param.direction {
                Direction::Out => self.invalidate(place, span),
                _ => self.assign(place, value, ty, span),
            }
        }
        self.push(Made::CallControl(Sp::new(block.to_owned(), span), Vec::new()), span);
        let mut gone = Vec::new();
        for Moved { param, place, ty, given } in moved.iter().filter(|one| writes(one.param)) {
            let value = match crossed {
                true => self.copied(place, ty, &param.name.value, span),
                false => (*place).clone(),
            };
            gone.push((given.value.clone(), value, (*ty).clone()));
        }
        if crossed {
            self.copy_out(restored, span);
            self.copy_out(gone, span);
        } else {
            self.copy_out(gone, span);
            self.copy_out(restored, span);
        }
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

/// Whether a list may have one place twice: then nothing else can be put into it.
fn names_twice(value: &Val) -> bool {
    let mut names = Vec::new();
    super::assign::roots(value, &mut names);
    // Fields of the architecture may be made of one that the device sets.
    names.retain(|name| !name.starts_with("std."));
    let count = names.len();
    names.sort();
    names.dedup();
    matches!(value, Val::Struct(_)) && names.len() < count
}

/// A parameter that needs storage.
fn argument(block: &BlockVal, param: &Param) -> Need {
    Need::Argument(block.name.to_string(), param.id)
}

/// Whether an argument is this place, and still what it was when it was evaluated.
fn is_there(given: &Given, place: &Val) -> bool {
    given.saved.is_none() && same(place, &given.value)
}

/// Whether two values are the same places, wherever they are written.
fn same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Scalar(a), Val::Scalar(b)) => match (&a.value, &b.value) {
            (Ast::Path(a), Ast::Path(b)) => a.plain().is_some() && a.plain() == b.plain(),
            // What the device says, or a number.
            (a_value, b_value) => a_value == b_value || known(a).is_some() && known(a) == known(b),
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
