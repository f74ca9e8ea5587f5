//! Arguments of calls: copied in, and copied out behind (P4-16 6.8), or in place where nobody can tell.

use std::collections::HashSet;
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Def, Type, substitute};
use super::build::{INDEX_BITS, cast, known, number};
use super::env::{Env, Val};
use super::scan::Mentions;
use super::walk::{self, Met};
use super::{Lower, Place};
use crate::ast::{Ast, AstExpr, Path, PathPart, Sp};
use crate::ir::SourceSpan;

/// A value to be copied back behind a call.
pub(super) type CopyOut = (Val, Val, Type);

/// What becomes of a computed index.
type Indices = dyn Fn(&mut Lower<'_>, AstExpr) -> AstExpr;

/// An argument: its value or place, and its type.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: Val,
    pub(super) ty: Type,
    /// A copy of what an `inout` argument was, where a later argument may change it.
    pub(super) saved: Option<Val>,
}

impl Lower<'_> {
    /// Parameters of an inlined call: what is written is written in place where that has the effect of copying. `sees`: what an action
    /// sees beside its parameters.
    pub(super) fn bind_arguments(
        &mut self,
        scope: &Env,
        params: &[Param],
        given: &[Option<Given>],
        body: Option<&Block>,
        sees: Option<&Env>,
    ) -> Vec<CopyOut> {
        let mut copies = Vec::new();
        for (at, (param, one)) in params.iter().zip(given).enumerate() {
            let Some(one) = one else {
                scope.bind(param.id, Val::Nothing);
                continue;
            };
            let shared = self.is_shared(given, at)
                || body.zip(sees).is_some_and(|(body, env)| {
                    self.names_of(body, env, &one.value, &mut HashSet::new())
                });
            let value = if writes(param) {
                let may_be_nowhere = self.is_of_header(&one.value)
                    && body.is_none_or(|body| self.reads_what_it_wrote(body, param.id));
                let in_place = !shared && is_place(&one.value) && !may_be_nowhere;
                self.place_for(param, one, in_place, &mut copies)
            } else {
                let writes = sees.is_some() || params.iter().any(writes);
                self.kept_argument(param, one, shared, writes)
            };
            scope.bind(param.id, value);
        }
        copies
    }

    /// Whether another argument is made of the same storage.
    pub(super) fn is_shared(&self, given: &[Option<Given>], at: usize) -> bool {
        let Some(Some(one)) = given.get(at) else { return false };
        given.iter().enumerate().any(|(other, given)| {
            other != at
                && given.as_ref().is_some_and(|other| self.overlap(&one.value, &other.value))
        })
    }

    /// Where an `out` or `inout` parameter is: the argument itself, or storage that is copied back.
    pub(super) fn place_for(
        &mut self,
        param: &Param,
        given: &Given,
        in_place: bool,
        copies: &mut Vec<CopyOut>,
    ) -> Val {
        let Given { value, ty, saved } = given;
        let span = param.name.span;
        let is_out = param.direction == Direction::Out;
        if in_place && saved.is_none() {
            if is_out {
                self.invalidate(value, span);
            }
            return value.clone();
        }
        let copy = match saved {
            Some(saved) => saved.clone(),
            None if is_out => self.storage(ty, &param.name.value, span),
            None => self.copied(value, ty, &param.name.value, span),
        };
        if is_out {
            self.invalidate(&copy, span);
        }
        copies.push((value.clone(), copy.clone(), ty.clone()));
        copy
    }

    /// Arguments in the order of the parameters. They are evaluated in their own order; what one does is not seen in those before it
    /// (P4-16 6.8).
    pub(super) fn argument_values(
        &mut self,
        params: &[Param],
        info: &CallInfo,
        args: &[Arg],
        types: &[(u32, Type)],
    ) -> Vec<Option<Given>> {
        let at = |param: usize| info.order.get(param).copied().flatten();
        let mut order: Vec<usize> = (0..params.len()).collect();
        order.sort_by_key(|param| at(*param).unwrap_or(usize::MAX));
        let mut given: Vec<Option<Given>> = vec![None; params.len()];
        for this in order {
            let param = &params[this];
            let arg = at(this).and_then(|at| args.get(at)).map(|arg| &arg.value);
            let Some(arg) = arg.or(param.default.as_ref()) else { continue };
            let ty = substitute(&self.declared(param.id), types);
            let mut first = |lower: &mut Self| {
                for (param, one) in params.iter().zip(&mut given) {
                    if let Some(one) = one {
                        lower.save(param, one);
                    }
                }
            };
            let does = |lower: &mut Self| match writes(param) {
                true => {
                    let place = lower.place_of(arg);
                    lower.fixed(place)
                }
                false => lower.eval_as(arg, &ty),
            };
            let value = self.behind(arg, does, &mut first);
            given[this] = Some(Given { value, ty, saved: None });
        }
        given
    }

    /// Saves an argument before a later one does something.
    fn save(&mut self, param: &Param, given: &mut Given) {
        let Given { value, ty, saved } = given;
        match param.direction {
            Direction::Out => {}
            Direction::InOut if saved.is_some() => {}
            Direction::InOut => {
                *saved = Some(self.copied(value, ty, &param.name.value, param.name.span));
            }
            Direction::In | Direction::None => *value = self.keep_all(value, ty),
        }
    }

    /// An argument that is only read: as it is now, also where the call changes what it is made of.
    fn kept_argument(&mut self, param: &Param, given: &Given, shared: bool, writes: bool) -> Val {
        let Given { value, ty, .. } = given;
        let is_scalar = matches!(value, Val::Scalar(_));
        if is_object(value) {
            return value.clone();
        }
        let moves = self.place == Place::Parser && looks_ahead(value);
        if moves || is_scalar && self.place != Place::Parser {
            return self.keep_all(value, ty);
        }
        if !shared || is_scalar && !writes {
            return value.clone();
        }
        self.copied(value, ty, &param.name.value, param.name.span)
    }

    /// The place of an `out` argument, in front of the arguments behind it.
    pub(super) fn target(&mut self, to: &Expr) -> Val {
        let place = self.place_of(to);
        self.fixed(place)
    }

    /// A place whose computed indices are kept as they are now.
    pub(super) fn fixed(&mut self, place: Val) -> Val {
        match place {
            // Outside of parsers its index was kept when it was chosen.
            place @ Val::Choice(_) if self.place != Place::Parser => place,
            place => self.with_indices(place, &|lower, at| match is_name(&at) {
                true => at,
                false => lower.keep_number(at, INDEX_BITS),
            }),
        }
    }

    /// The same in metadata, for a block of its own: it does not have the values that are kept around it.
    pub(super) fn fixed_in_metadata(&mut self, place: Val) -> Val {
        self.with_indices(place, &|lower, at| {
            let span = at.span;
            let index = lower.new_meta("index", INDEX_BITS, span);
            lower.set(&index, cast(INDEX_BITS, at), span);
            index
        })
    }

    /// A place with something else for its computed indices.
    fn with_indices(&mut self, place: Val, index: &Indices) -> Val {
        match place {
            place if is_fixed(&place) => place,
            Val::Header(mut header) => {
                self.path_with_indices(&mut Rc::make_mut(&mut header).path, index);
                Val::Header(header)
            }
            Val::Scalar(mut place) => {
                self.number_with_indices(&mut place, index);
                Val::Scalar(place)
            }
            Val::Struct(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), self.with_indices(value.clone(), index)));
                Val::Struct(Rc::new(fields.collect()))
            }
            Val::Choice(mut choice) => {
                let choice_of = Rc::make_mut(&mut choice);
                choice_of.at = index(self, choice_of.at.clone());
                Val::Choice(choice)
            }
            place => place,
        }
    }

    fn number_with_indices(&mut self, place: &mut AstExpr, index: &Indices) {
        match &mut place.value {
            Ast::Slice { value, .. } => self.number_with_indices(value, index),
            Ast::Path(path) => self.path_with_indices(path, index),
            _ => {}
        }
    }

    fn path_with_indices(&mut self, path: &mut Path, index: &Indices) {
        for part in &mut path.parts {
            if let PathPart::Index(at) = part
                && known(at).is_none()
            {
                *at = index(self, at.clone());
            }
        }
    }

    /// Whether a body, or an action that it calls, names something that this value is made of.
    fn names_of(&self, body: &Block, env: &Env, value: &Val, seen: &mut HashSet<u32>) -> bool {
        let mut inside = HashSet::new();
        walk::any(&body.statements, &mut |met| {
            let Met::Expr(expr) = met else { return false };
            if let ExprKind::Member(of, _) = &*expr.kind {
                inside.insert(of.id);
            }
            if let Some(Def::Decl(decl)) = self.checked.defs.get(&expr.id)
                && let DeclKind::Action { body, .. } = &decl.kind
            {
                let env = match env.find(decl.id) {
                    Some(Val::Action(env)) => env,
                    _ => self.root.clone(),
                };
                return seen.insert(decl.id) && self.names_of(body, &env, value, seen);
            }
            // Of `a.b.c` the whole.
            !inside.contains(&expr.id)
                && self.named_value(expr, env).is_some_and(|named| self.overlap(&named, value))
        })
    }

    /// Fields of a header, which may be invalid: then what is written to them is nowhere.
    pub(super) fn is_of_header(&self, value: &Val) -> bool {
        match value {
            Val::Scalar(Sp { value: Ast::Path(path), .. }) => match path.parts.as_slice() {
                [PathPart::Name(first), _, ..] => {
                    !matches!(first.value.as_str(), "meta" | "std")
                        && !self.hidden.contains(&first.value)
                }
                _ => false,
            },
            Val::Struct(fields) => fields.iter().any(|(_, value)| self.is_of_header(value)),
            _ => false,
        }
    }

    /// Whether a body may read its parameter behind a statement that writes it.
    fn reads_what_it_wrote(&self, body: &Block, param: u32) -> bool {
        let is_param = |expr: &Expr| matches!(self.checked.defs.get(&expr.id), Some(Def::Param(id)) if *id == param);
        let (mut writes, mut reads, mut in_writes, mut loops) = (0, 0, 0, false);
        let mut targets = HashSet::new();
        walk::any(&body.statements, &mut |met| {
            match met {
                Met::Statement(Stmt { kind: StmtKind::Assign(target, _, value), .. }) => {
                    let target = walk::root(target);
                    if is_param(target) {
                        writes += 1;
                        targets.insert(target.id);
                        walk::in_expr(value, &mut |met| {
                            in_writes +=
                                usize::from(matches!(met, Met::Expr(one) if is_param(one)));
                            false
                        });
                    }
                }
                Met::Statement(Stmt {
                    kind: StmtKind::For { .. } | StmtKind::ForIn(..), ..
                }) => {
                    loops = true;
                }
                Met::Expr(one) if is_param(one) && !targets.contains(&one.id) => reads += 1,
                // It may be written there, which counts as read too.
                _ => {}
            }
            false
        });
        reads > 0 && (writes != 1 || reads != in_writes || loops)
    }

    /// What a name with its members stands for; of a field of a header the header.
    fn named_value(&self, expr: &Expr, env: &Env) -> Option<Val> {
        match &*expr.kind {
            ExprKind::Name(..) => match self.checked.defs.get(&expr.id)? {
                Def::Param(id) => env.find(*id),
                Def::Decl(decl) => env.find(decl.id),
            },
            ExprKind::Member(of, name) => match self.named_value(of, env)? {
                Val::Struct(fields) | Val::Union(fields) => {
                    let found = fields.iter().find(|(known, _)| *known == name.value);
                    found.map(|(_, value)| value.clone())
                }
                other => Some(other),
            },
            _ => None,
        }
    }

    pub(super) fn copy_out(&mut self, copies: Vec<CopyOut>, span: SourceSpan) {
        for (place, copy, ty) in copies {
            self.assign(&place, &copy, &ty, span);
        }
    }

    /// An argument; a number without a width takes that of the parameter.
    pub(super) fn eval_as(&mut self, arg: &Expr, ty: &Type) -> Val {
        let value = self.eval(arg);
        self.sized(value, ty)
    }

    /// A number without a width takes that of a type.
    pub(super) fn sized(&mut self, value: Val, ty: &Type) -> Val {
        match &value {
            Val::Scalar(scalar) if matches!(scalar.value, Ast::Number { bits: None, .. }) => {
                let bits = self.bits(ty, scalar.span);
                match (known(scalar), bits) {
                    (Some(value), 1..) => Val::Scalar(number(value, bits, scalar.span)),
                    _ => value,
                }
            }
            _ => value,
        }
    }
}

/// Whether a parameter is written.
pub(super) fn writes(param: &Param) -> bool {
    matches!(param.direction, Direction::Out | Direction::InOut)
}

/// Whether a value is made of bits that the parser is in front of: behind a sub-parser these are others.
fn looks_ahead(value: &Val) -> bool {
    let is_ahead = |value: &AstExpr| {
        let mut seen = Mentions::default();
        seen.expr(value);
        seen.called.contains("lookahead")
    };
    match value {
        Val::Scalar(scalar) => is_ahead(scalar),
        Val::Struct(fields) | Val::Literal(Some(fields)) => {
            fields.iter().any(|(_, value)| looks_ahead(value))
        }
        Val::Choice(choice) => is_ahead(&choice.at) || choice.elements.iter().any(looks_ahead),
        _ => false,
    }
}

/// Something that no call changes.
pub(super) fn is_object(value: &Val) -> bool {
    matches!(value, Val::Packet | Val::Object(_) | Val::Block(_) | Val::Text(_))
}

/// A place, rather than a part of one or a choice among several.
fn is_place(value: &Val) -> bool {
    match value {
        Val::Choice(_) => false,
        Val::Scalar(scalar) => matches!(scalar.value, Ast::Path(_)),
        _ => true,
    }
}

/// Whether a place is the same everywhere: no part of its path is computed, and it is no value that was kept.
pub(super) fn is_fixed(value: &Val) -> bool {
    match value {
        Val::Choice(_) => false,
        Val::Header(header) => is_plain(&header.path),
        Val::Scalar(scalar) => match &scalar.value {
            Ast::Path(path) => is_plain(path) && !is_name(scalar),
            _ => false,
        },
        Val::Struct(fields) => fields.iter().all(|(_, value)| match value {
            Val::Scalar(scalar) if !matches!(scalar.value, Ast::Path(_)) => is_of_device(value),
            other => is_fixed(other),
        }),
        _ => true,
    }
}

/// What is computed of metadata only, as fields that the device sets are.
fn is_of_device(value: &Val) -> bool {
    let mut made_of = Vec::new();
    super::assign::roots(value, &mut made_of);
    made_of.iter().all(|root| root.contains('.'))
}

fn is_plain(path: &Path) -> bool {
    path.parts.iter().all(|part| match part {
        PathPart::Name(_) => true,
        PathPart::Index(at) => known(at).is_some(),
    })
}

/// A name of its own: a value that was kept, or data of an action.
fn is_name(value: &AstExpr) -> bool {
    matches!(&value.value, Ast::Path(path) if path.parts.len() == 1)
}
