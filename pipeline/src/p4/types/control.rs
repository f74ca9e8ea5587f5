//! Parsers, controls and actions.

use std::rc::Rc;

use super::super::info::full_name;
use super::super::tree::*;
use super::Type;
use super::check::{Checker, Name, Place};
use crate::diag::codes;

impl Checker<'_> {
    pub(super) fn parser(&mut self, decl: &Rc<Decl>, inner: &ParserDecl) {
        self.open_block(decl, &inner.type_params, &inner.params, &inner.constructor);
        if let Some(states) = &inner.states {
            self.without_optional(&inner.constructor);
            self.without_optional(&inner.params);
            self.bind_params(&inner.constructor);
            self.bind_params(&inner.params);
            for table in inner.locals.iter().filter(|one| matches!(one.kind, DeclKind::Table(_))) {
                let text = "a table is declared in a control";
                self.error(codes::WRONG_PLACE, table.name.span, text);
            }
            self.body(decl, &inner.locals, Place::Parser, |checker| {
                checker.state_names(decl, states);
                for state in states {
                    let twice = inner.locals.iter().any(|one| one.name.value == state.name.value);
                    if twice {
                        let text = format!("`{}` is declared twice", state.name.value);
                        checker.error(codes::TWICE, state.name.span, text);
                    }
                }
                checker.parser_ends(decl, states);
                for state in states {
                    checker.open();
                    checker.statements(&state.body.statements);
                    checker.transition(state, states);
                    checker.close();
                }
            });
        }
        self.close();
    }

    fn state_names(&mut self, decl: &Rc<Decl>, states: &[State]) {
        for (at, state) in states.iter().enumerate() {
            if matches!(&*state.name.value, "accept" | "reject") {
                let text = format!("`{}` is where a parser ends, not a state", state.name.value);
                self.error(codes::RESERVED, state.name.span, text);
            }
            if states[..at].iter().any(|known| known.name.value == state.name.value) {
                let text = format!("state `{}` already exists", state.name.value);
                self.error(codes::TWICE, state.name.span, text);
            }
        }
        // A state that cannot be read is left out, with an error of its own.
        let is_whole = self.report.iter().all(|known| known.code != codes::P4_SYNTAX);
        if is_whole && !states.iter().any(|state| &*state.name.value == "start") {
            let names: Vec<&str> = states.iter().map(|state| &*state.name.value).collect();
            let text = format!("parser `{}` has no state `start`", decl.name.value);
            self.report.error(codes::NO_START, decl.name.span, text).did_you_mean("start", names);
        }
    }

    fn transition(&mut self, state: &State, states: &[State]) {
        let target = |checker: &mut Self, to: &Ident| {
            let known = states.iter().map(|state| &*state.name.value).chain(["accept", "reject"]);
            let names: Vec<&str> = known.collect();
            if !names.contains(&&*to.value) {
                let text = format!("there is no state `{}`", to.value);
                checker.report.error(codes::UNKNOWN, to.span, text).did_you_mean(&to.value, names);
            }
        };
        match &state.next {
            Transition::None => {
                let name = &state.name;
                let text = format!("state `{}` has no transition: it goes to `reject`", name.value);
                let warning = self.report.warning(codes::NO_TRANSITION, name.span, text);
                warning.help("write `transition accept;` or `transition reject;`");
            }
            Transition::To(to) => target(self, to),
            Transition::Select(select) => {
                let types: Vec<Type> = select.keys.iter().map(|key| self.value(key)).collect();
                let types: Vec<Type> = types.iter().map(|ty| self.known(ty)).collect();
                for (key, ty) in select.keys.iter().zip(&types) {
                    if matches!(ty, Type::Integer) && select.keys.len() == 1 {
                        continue;
                    }
                    let fits = matches!(
                        ty.base(),
                        Type::Bit(_)
                            | Type::Int(_)
                            | Type::Bool
                            | Type::Enum(..)
                            | Type::Error
                            | Type::Any
                            | Type::Integer
                            | Type::Tuple(_)
                            | Type::Listed(..)
                    );
                    if !fits {
                        self.type_error(key.span, format!("`select` cannot look at {ty}"));
                    }
                }
                for (set, to) in &select.cases {
                    self.keyset(set, &types);
                    target(self, to);
                }
            }
        }
    }

    /// What a case or entry matches, against the types of the keys.
    pub(super) fn keyset(&mut self, set: &Expr, keys: &[Type]) {
        match &*set.kind {
            ExprKind::Any => {
                self.note(set, Type::Any);
            }
            ExprKind::Tuple(items) => {
                if items.len() != keys.len() {
                    let text = format!("{} sets for {} keys", items.len(), keys.len());
                    self.type_error(set.span, text);
                }
                for (item, key) in items.iter().zip(keys) {
                    self.one_set(item, key);
                }
            }
            ExprKind::List(items, false)
                if keys.len() == 1
                    && items.len() == 1
                    && !matches!(keys[0], Type::Tuple(_) | Type::Listed(..)) =>
            {
                self.one_set(&items[0], &keys[0]);
            }
            _ if keys.len() == 1 => self.one_set(set, &keys[0]),
            _ => {
                let ty = self.value(set);
                let fits = match self.known(&ty) {
                    Type::Set(of) => match &*of {
                        Type::Tuple(parts) => self.unify_all(&parts.to_vec(), keys),
                        Type::Struct(of) => {
                            let mut fields = Vec::new();
                            leaves(&Type::Struct(of.clone()), &mut fields);
                            self.unify_all(&fields, keys)
                        }
                        _ => false,
                    },
                    Type::Tuple(parts) => self.unify_all(&parts.to_vec(), keys),
                    Type::Listed(parts, _) => parts.len() == keys.len(),
                    Type::Any => true,
                    _ => false,
                };
                if !fits {
                    let text = format!("one set for {} keys", keys.len());
                    self.type_error(set.span, text);
                }
            }
        }
    }

    fn one_set(&mut self, set: &Expr, key: &Type) {
        if matches!(&*set.kind, ExprKind::Any) {
            self.note(set, Type::Any);
            return;
        }
        let got = self.value(set);
        let got = self.known(&got);
        if let Type::Set(of) = &got {
            let of = (**of).clone();
            let inner = match &*set.kind {
                ExprKind::Mask(left, right) | ExprKind::Range(left, right) => {
                    vec![left.clone(), right.clone()]
                }
                _ => Vec::new(),
            };
            let fits = if inner.is_empty() {
                self.unify(&of, key)
                    || matches!(&of, Type::Tuple(parts) if parts.len() == 1 && self.unify(&parts[0], key))
                    || matches!(&of, Type::Struct(of) if of.fields.len() == 1 && self.unify(&of.fields[0].1, key))
            } else {
                inner.iter().all(|one| {
                    let got = self.noted(one);
                    self.converts(one, &got, key) || self.simple_set(&got, key)
                })
            };
            if !fits {
                self.type_error(set.span, format!("expected a set of {key}, found {got}"));
            }
            return;
        }
        if self.converts(set, &got, key) || self.simple_set(&got, key) {
            return;
        }
        self.type_error(set.span, format!("expected {key}, found {got}"));
    }

    /// A set of plain numbers for a key of `type T` or of a serializable enum.
    fn simple_set(&self, got: &Type, key: &Type) -> bool {
        matches!(key, Type::Enum(_, Some(_)) | Type::Integer)
            && matches!(got, Type::Integer | Type::Bit(_) | Type::Int(_))
    }

    pub(super) fn control(&mut self, decl: &Rc<Decl>, inner: &ControlDecl) {
        self.open_block(decl, &inner.type_params, &inner.params, &inner.constructor);
        if let Some(body) = &inner.body {
            self.without_optional(&inner.constructor);
            self.without_optional(&inner.params);
            self.bind_params(&inner.constructor);
            self.bind_params(&inner.params);
            self.body(decl, &inner.locals, Place::Control, |checker| checker.block(body));
        }
        self.close();
    }

    /// Opens the scope of a parser or control, and notes its parameters, which are names only where there is a body.
    fn open_block(
        &mut self,
        decl: &Rc<Decl>,
        types: &[Ident],
        params: &[Param],
        constructor: &[Param],
    ) {
        self.bind(&decl.name, Name::Decl(decl.clone()));
        self.open();
        let vars = self.bind_type_params(types);
        self.declared.insert(decl.id, Type::Tuple(Rc::new(vars)));
        self.note_params(params);
        self.note_params(constructor);
        self.constructor_params.extend(constructor.iter().map(|param| param.id));
        self.without_directions(constructor);
    }

    /// Checks what a parser or control declares for itself, then its code.
    fn body(
        &mut self,
        decl: &Rc<Decl>,
        locals: &[Rc<Decl>],
        place: Place,
        code: impl FnOnce(&mut Self),
    ) {
        self.open();
        self.inside.push(decl.id);
        self.in_parser = matches!(place, Place::Parser);
        self.all.push(locals.to_vec());
        locals.iter().for_each(|local| self.declaration(local));
        self.all.pop();
        self.distinct_for_control(decl, locals);
        self.in_parser = false;
        self.place = place;
        code(self);
        self.place = Place::Top;
        self.inside.pop();
        self.close();
    }

    /// A controller knows tables, actions and instances by their names, so `@name` gives no name twice.
    fn distinct_for_control(&mut self, block: &Decl, locals: &[Rc<Decl>]) {
        let mut seen: Vec<(&str, String, bool)> = Vec::new();
        for local in locals {
            let what = match &local.kind {
                DeclKind::Table(_) => "table",
                DeclKind::Action { .. } => "action",
                DeclKind::Instance { .. } => "instance",
                _ => continue,
            };
            let name = full_name(&block.name.value, &local.annotations, &local.name.value);
            let is_given = local.annotations.iter().any(|one| &*one.name.value == "name");
            let is_it = |one: &&(&str, String, bool)| one.0 == what && one.1 == name;
            if seen.iter().find(is_it).is_some_and(|(.., was_given)| is_given || *was_given) {
                let text = format!("another {what} has the name `{name}` for controllers");
                self.error(codes::TWICE, local.name.span, text);
            }
            seen.push((what, name, is_given));
        }
    }

    pub(super) fn action(&mut self, decl: &Rc<Decl>, params: &[Param], body: &Block) {
        self.note_params(params);
        self.without_optional(params);
        let mut data = false;
        for param in params {
            let ty = self.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            if matches!(ty, Type::Extern(..) | Type::Parser(..) | Type::Control(..) | Type::Text) {
                self.type_error(param.ty.span, format!("an action cannot take {ty}"));
            }
            if matches!(ty, Type::Integer) && param.direction == Direction::None {
                self.type_error(param.ty.span, "the control plane gives numbers with a width");
            }
            if param.direction == Direction::None {
                data = true;
            } else if data {
                let text = "parameters with a direction stand before those without";
                self.type_error(param.name.span, text);
            }
        }
        self.open();
        self.bind_params(params);
        let outer = std::mem::replace(&mut self.place, Place::Action);
        self.block(body);
        self.place = outer;
        self.close();
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    /// Whether an expression can be written, an error if not: a variable, a parameter that may be written, or a part of one.
    pub(super) fn must_be_place(&mut self, expr: &Expr) -> bool {
        let problem = self.not_a_place(expr);
        let is_place = problem.is_none();
        if let Some(text) = problem {
            self.error(codes::NOT_ASSIGNABLE, expr.span, text);
        }
        is_place
    }

    fn not_a_place(&self, expr: &Expr) -> Option<String> {
        match &*expr.kind {
            ExprKind::Name(name, global) => {
                let found = self.find(&name.value, *global).and_then(<[Name]>::first);
                match found {
                    Some(Name::Decl(decl)) => match &decl.kind {
                        DeclKind::Variable(..) => None,
                        _ => Some(format!("`{}` cannot be written", name.value)),
                    },
                    Some(Name::Param(_, direction, ty)) => match direction {
                        Direction::Out | Direction::InOut => None,
                        _ if matches!(ty, Type::Any) => None,
                        _ => Some(format!("`{}` is only read here", name.value)),
                    },
                    _ => None,
                }
            }
            ExprKind::Member(of, name) => {
                let ty = self.known(&self.noted(of));
                match &ty {
                    Type::Struct(_) | Type::Any => self.not_a_place(of),
                    Type::Stack(..) if &*name.value == "next" || &*name.value == "last" => {
                        self.not_a_place(of)
                    }
                    _ => Some("this cannot be written".into()),
                }
            }
            ExprKind::Index(of, _) => match self.known(&self.noted(of)) {
                Type::Listed(..) => Some("an element of a list cannot be written".into()),
                _ => self.not_a_place(of),
            },
            ExprKind::Slice(of, ..) | ExprKind::PlusSlice(of, ..) => self.not_a_place(of),
            ExprKind::Poison => None,
            _ => Some("this cannot be written".into()),
        }
    }
}

/// The types of all parts of a struct that are no structs.
fn leaves(ty: &Type, into: &mut Vec<Type>) {
    match ty {
        Type::Struct(of) => of.fields.iter().for_each(|(_, ty)| leaves(ty, into)),
        other => into.push(other.clone()),
    }
}
