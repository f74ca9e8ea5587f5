//! What is called, as it is declared: functions, externs with their methods, and parameters.

use std::rc::Rc;

use super::super::tree::*;
use super::Type;
use super::check::{Checker, Name, Place};
use crate::diag::codes;

impl Checker<'_> {
    pub(super) fn external(&mut self, decl: &Rc<Decl>, inner: &ExternDecl) {
        self.bind(&decl.name, Name::Decl(decl.clone()));
        self.open();
        let vars = self.bind_type_params(&inner.type_params);
        self.declared.insert(decl.id, Type::Extern(decl.clone(), Rc::new(vars)));
        for (at, method) in inner.methods.iter().enumerate() {
            if method.result.is_some() && method.name.value == decl.name.value {
                let text = "a method is not called as its extern";
                self.error(codes::TWICE, method.name.span, text);
            }
            self.open();
            self.bind_type_params(&method.type_params);
            if let Some(result) = &method.result {
                let ty = self.declared_type(result);
                if !self.may_return(&ty) {
                    self.type_error(result.span, format!("a method cannot return {ty}"));
                }
            }
            self.note_params(&method.params);
            if method.result.is_none() {
                self.without_directions(&method.params);
            }
            let is_alike = |known: &Method| {
                known.name.value == method.name.value
                    && known.result.is_some() == method.result.is_some()
                    && names(&known.params) == names(&method.params)
            };
            if inner.methods[..at].iter().any(is_alike) {
                self.twice(&method.name);
            }
            for param in &method.params {
                let ty = self.declared.get(&param.id);
                if matches!(ty, Some(Type::Extern(of, _)) if of.id == decl.id) {
                    let text = "a method cannot take an object of its own extern";
                    self.type_error(param.ty.span, text);
                }
            }
            self.close();
        }
        self.close();
    }

    fn may_return(&self, ty: &Type) -> bool {
        matches!(ty, Type::Void) || self.may_hold(ty) && !matches!(ty, Type::Integer | Type::Text)
    }

    /// Notes the types of parameters, and what is wrong about them.
    pub(super) fn note_params(&mut self, params: &[Param]) {
        for (at, param) in params.iter().enumerate() {
            if params[..at].iter().any(|known| known.name.value == param.name.value) {
                self.twice(&param.name);
            }
            let ty = match &param.ty.value {
                // An extern of any type, `f<_> table`, may be given.
                TypeKind::Name { .. } => self.resolve(&param.ty),
                _ => self.declared_type(&param.ty),
            };
            self.parameter_type(param, &ty);
            if let Some(default) = &param.default {
                self.default_argument(param, default, &ty);
            }
            self.declared.insert(param.id, ty);
            if param.direction == Direction::None {
                self.directionless.insert(param.id);
            }
        }
    }

    /// Only calls of externs and packages, and types of parsers and controls, leave out arguments (P4-16 1.2.5, section 6.8.2).
    pub(super) fn without_optional(&mut self, params: &[Param]) {
        for param in params {
            if let Some(one) = annotation(&param.annotations, "optional") {
                let text = "parameters of what has a body are not optional";
                self.type_error(one.name.span, text);
            }
        }
    }

    /// Parameters of constructors, of parsers, controls, externs and packages.
    pub(super) fn without_directions(&mut self, params: &[Param]) {
        for param in params.iter().filter(|param| param.direction != Direction::None) {
            let ty = self.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            // An instance with a direction is refused anywhere.
            if !is_instance(&ty) {
                let text = "a parameter of a constructor has no direction";
                self.type_error(param.name.span, text);
            }
        }
    }

    /// What a parameter can be.
    fn parameter_type(&mut self, param: &Param, ty: &Type) {
        let has_direction = param.direction != Direction::None;
        let text = match ty {
            _ if is_instance(ty) && has_direction => {
                let text = format!("{ty} is passed without a direction");
                self.type_error(param.ty.span, text).help("leave out `in`, `out` or `inout`");
                return;
            }
            Type::Text | Type::MatchKind if has_direction => format!("a parameter cannot be {ty}"),
            Type::Void => "a parameter cannot be void".to_owned(),
            Type::Integer if has_direction => {
                "a number without a width is not known when a packet comes".to_owned()
            }
            _ if has_body(ty) => {
                let text = format!("{ty} has a body, and a parameter is of a type without one");
                self.type_error(param.ty.span, text)
                    .help("declare the type: `control C(..);`, or `parser P(..);`");
                return;
            }
            _ => return,
        };
        self.type_error(param.ty.span, text);
    }

    /// What stands for an argument that is not given is known when the program is compiled.
    fn default_argument(&mut self, param: &Param, default: &Expr, ty: &Type) {
        if annotation(&param.annotations, "optional").is_some() {
            self.type_error(default.span, "an optional parameter has no default");
        }
        if matches!(param.direction, Direction::Out | Direction::InOut) {
            self.type_error(default.span, "an `out` or `inout` parameter has no default");
        }
        if matches!(ty, Type::Parser(..) | Type::Control(..) | Type::Package(..)) {
            return self.constructor_argument(ty, default);
        }
        let fits = self.value_as(default, ty);
        if fits && !self.is_known_value(default) {
            let text = "a default is known when the program is compiled";
            self.error(codes::NOT_CONSTANT, default.span, text);
        }
    }

    pub(super) fn function(&mut self, decl: &Rc<Decl>, inner: &FunctionDecl) {
        self.open();
        let vars = self.bind_type_params(&inner.type_params);
        self.declared.insert(decl.id, Type::Tuple(Rc::new(vars)));
        let result = self.declared_type(&inner.result);
        let is_factory = inner.body.is_none() && matches!(result, Type::Extern(..));
        if !self.may_return(&result) && !is_factory {
            self.type_error(inner.result.span, format!("a function cannot return {result}"));
        }
        self.note_params(&inner.params);
        if let Some(body) = &inner.body {
            self.without_optional(&inner.params);
            self.open();
            self.bind_params(&inner.params);
            let outer = std::mem::replace(&mut self.place, Place::Function(result.clone()));
            self.block(body);
            self.place = outer;
            self.close();
            let is_void = matches!(result, Type::Void | Type::Any);
            if !is_void && !super::stmt::always_returns(&body.statements) {
                let text = format!("`{}` does not return a value on every path", decl.name.value);
                self.type_error(decl.name.span, text);
            }
        }
        self.close();
        self.not_overloaded_alike(decl, inner);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    /// Functions of one name differ in the names of their parameters.
    fn not_overloaded_alike(&mut self, decl: &Rc<Decl>, inner: &FunctionDecl) {
        let mine = names(&inner.params);
        let known = self.scopes.last().and_then(|scope| scope.get(&decl.name.value));
        let alike = known.into_iter().flatten().any(|one| {
            let Name::Decl(one) = one else { return false };
            matches!(&one.kind, DeclKind::Function(known) if names(&known.params) == mine)
        });
        if alike {
            self.twice(&decl.name);
        }
    }
}

/// Names of parameters, by which overloads differ (P4-16, 8.17).
fn names(params: &[Param]) -> Vec<Rc<str>> {
    params.iter().map(|param| param.name.value.clone()).collect()
}

fn is_instance(ty: &Type) -> bool {
    matches!(ty, Type::Extern(..) | Type::Parser(..) | Type::Control(..) | Type::Package(..))
}

/// A parser or control that can be instantiated.
pub(super) fn has_body(ty: &Type) -> bool {
    match ty {
        Type::Parser(decl, _) => {
            matches!(&decl.kind, DeclKind::Parser(inner) if inner.states.is_some())
        }
        Type::Control(decl, _) => {
            matches!(&decl.kind, DeclKind::Control(inner) if inner.body.is_some())
        }
        _ => false,
    }
}
