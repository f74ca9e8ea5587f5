//! Declarations.

use std::rc::Rc;

use num_bigint::Sign;

use super::super::tree::*;
use super::check::{Checker, Name, Place};
use super::{Const, StructType, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// A declaration, wherever it stands.
    pub(super) fn declaration(&mut self, decl: &Rc<Decl>) {
        self.annotations(&decl.annotations);
        match &decl.kind {
            DeclKind::Const(ty, value) => self.constant(decl, ty, value),
            DeclKind::Errors(names) => {
                for name in names {
                    if self.errors.contains(&name.value) {
                        self.twice(name);
                    } else {
                        self.errors.push(name.value.clone());
                    }
                }
            }
            DeclKind::MatchKinds(names) => {
                for name in names {
                    if self.match_kinds.contains(&name.value) {
                        self.twice(name);
                    } else {
                        self.match_kinds.push(name.value.clone());
                    }
                }
            }
            DeclKind::Enum(base, members) => self.enumeration(decl, base.as_ref(), members),
            DeclKind::Typedef(of) => {
                let ty = self.declared_type(of);
                if matches!(ty, Type::Void) {
                    self.type_error(of.span, "`void` is the result of a function, and no type");
                }
                self.declared.insert(decl.id, ty);
                self.bind(&decl.name, Name::Decl(decl.clone()));
            }
            DeclKind::NewType(of) => self.new_type(decl, of),
            DeclKind::Struct(inner) => self.structure(decl, inner),
            DeclKind::Extern(inner) => self.external(decl, inner),
            DeclKind::Function(inner) => self.function(decl, inner),
            DeclKind::Parser(inner) => self.parser(decl, inner),
            DeclKind::Control(inner) => self.control(decl, inner),
            DeclKind::Package { type_params, params } => {
                self.open();
                self.bind_type_params(type_params);
                self.note_params(params);
                self.close();
                self.bind(&decl.name, Name::Decl(decl.clone()));
            }
            DeclKind::Action { params, body } => self.action(decl, params, body),
            DeclKind::Table(inner) => self.table(decl, inner),
            DeclKind::Instance { ty, args, size, methods } => {
                self.instance(decl, ty, args, methods);
                if let Some(size) = size {
                    self.instances(decl, size);
                }
            }
            DeclKind::Variable(ty, value) => self.variable(decl, ty, value.as_ref()),
            DeclKind::ValueSet(ty, size) => {
                let of = self.declared_type(ty);
                if !self.may_hold(&of) || matches!(of, Type::Integer | Type::Text) {
                    self.type_error(ty.span, format!("a value set cannot hold {of}"));
                }
                let number = self.constant_number(size, "the size of a value set");
                if number.is_some_and(|number| number.sign() == Sign::Minus) {
                    self.type_error(size.span, "the size of a value set is not negative");
                }
                self.match_kinds_of(&of);
                self.declared.insert(decl.id, of);
                self.bind(&decl.name, Name::Decl(decl.clone()));
            }
        }
    }

    /// `@match(..)` of the fields of a value set.
    fn match_kinds_of(&mut self, of: &Type) {
        let Type::Struct(of) = of else { return };
        let DeclKind::Struct(inner) = &of.decl.kind else { return };
        for field in &inner.fields {
            let Some(one) = annotation(&field.annotations, "match") else { continue };
            if !self.match_kinds.contains(&one.text) {
                let text = format!("there is no match kind `{}`", one.text);
                let known = self.match_kinds.iter().map(|name| name.to_string());
                let known: Vec<String> = known.collect();
                let error = self.error(codes::UNKNOWN, one.name.span, text);
                error.did_you_mean(&one.text, known.iter().map(String::as_str));
            }
        }
    }

    fn twice(&mut self, name: &Ident) {
        let text = format!("`{}` is declared twice", name.value);
        self.error(codes::TWICE, name.span, text);
    }

    /// Structured annotations hold constants.
    fn annotations(&mut self, all: &[Annotation]) {
        self.annotated(all);
        for one in all.iter().filter(|one| one.structured) {
            let mut names: Vec<&str> = Vec::new();
            for arg in &one.args {
                if let Some(name) = &arg.name {
                    if names.contains(&&*name.value) {
                        self.twice(name);
                    }
                    names.push(&name.value);
                }
                self.value(&arg.value);
                if !self.consts.contains_key(&arg.value.id) && !self.noted(&arg.value).is_any() {
                    let text = "a value of an annotation is a number, a string or true or false";
                    self.error(codes::NOT_CONSTANT, arg.value.span, text);
                }
            }
        }
    }

    fn constant(&mut self, decl: &Rc<Decl>, ty: &TypeExpr, value: &Expr) {
        let want = self.declared_type(ty);
        if !self.may_hold(&want) {
            self.type_error(ty.span, format!("a constant cannot be {want}"));
        }
        let fits = self.value_as(value, &want);
        let want = self.known(&want);
        let is_list = matches!(
            &*value.kind,
            ExprKind::List(..)
                | ExprKind::Record(..)
                | ExprKind::Invalid
                | ExprKind::Cast(..)
                | ExprKind::Name(..)
                | ExprKind::Member(..)
                | ExprKind::Dots
        );
        let is_known = self.consts.contains_key(&value.id) || is_list && self.is_known(value);
        if fits && !is_known && !want.is_any() {
            let text = format!(
                "the value of `{}` is not known when the program is compiled",
                decl.name.value
            );
            self.error(codes::NOT_CONSTANT, value.span, text);
        }
        self.declared.insert(decl.id, want);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    /// A number without a width that is a member's value is not cut to the type of the enum (P4-16 7.2.4).
    fn must_be_held(&mut self, value: &Expr, below: &Type) {
        let (Type::Integer, Some(Const::Int(number))) =
            (self.noted(value), self.consts.get(&value.id).cloned())
        else {
            return;
        };
        if !below.is_any() && super::wrapped(&number, below.unwrapped()) != number {
            self.type_error(value.span, format!("{number} is no value of {below}"));
        }
    }

    fn enumeration(
        &mut self,
        decl: &Rc<Decl>,
        base: Option<&TypeExpr>,
        members: &[(Ident, Option<Expr>)],
    ) {
        let below = base.map(|base| {
            let ty = self.resolve(base);
            if !matches!(ty.unwrapped(), Type::Bit(_) | Type::Int(_) | Type::Any)
                || matches!(ty, Type::New(..))
            {
                self.type_error(
                    base.span,
                    format!("an enum is made of bit<..> or int<..>, not of {ty}"),
                );
            }
            Rc::new(ty)
        });
        self.declared.insert(decl.id, Type::Enum(decl.clone(), below.clone()));
        self.bind(&decl.name, Name::Decl(decl.clone()));
        for (at, (name, value)) in members.iter().enumerate() {
            if members[..at].iter().any(|(known, _)| known.value == name.value) {
                self.twice(name);
            }
            match (value, &below) {
                (Some(value), Some(below)) => {
                    let below = (**below).clone();
                    self.value(value);
                    self.must_be_held(value, &below);
                    if self.fit(value, &below) && !self.consts.contains_key(&value.id) {
                        let text =
                            "the value of a member must be known when the program is compiled";
                        self.error(codes::NOT_CONSTANT, value.span, text);
                    }
                }
                (Some(value), None) => {
                    let text = "only an enum of bit<..> or int<..> has values";
                    self.type_error(value.span, text);
                }
                (None, Some(_)) => {
                    let text = format!("`{}` needs a value", name.value);
                    self.type_error(name.span, text);
                }
                (None, None) => {}
            }
        }
    }

    fn new_type(&mut self, decl: &Rc<Decl>, of: &TypeExpr) {
        let base = self.declared_type(of);
        let fits = matches!(
            base,
            Type::Bit(_)
                | Type::Int(_)
                | Type::Bool
                | Type::New(..)
                | Type::Any
                | Type::Enum(_, Some(_))
        );
        if !fits {
            self.type_error(of.span, format!("`type` cannot be made of {base}"));
        }
        self.declared.insert(decl.id, Type::New(decl.clone(), Rc::new(base)));
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    fn structure(&mut self, decl: &Rc<Decl>, inner: &StructDecl) {
        self.open();
        let args = self.bind_type_params(&inner.type_params);
        let mut fields: Vec<(Rc<str>, Type)> = Vec::new();
        for field in &inner.fields {
            self.annotations(&field.annotations);
            if fields.iter().any(|(known, _)| *known == field.name.value) {
                self.twice(&field.name);
                continue;
            }
            let mut ty = self.declared_type(&field.ty);
            if !self.may_be_field(inner.kind, &ty) {
                let what = match inner.kind {
                    StructKind::Struct => "a struct",
                    StructKind::Header => "a header",
                    StructKind::Union => "a header union",
                };
                self.type_error(field.ty.span, format!("{what} cannot hold a field of {ty}"));
                ty = Type::Any;
            }
            fields.push((field.name.value.clone(), ty));
        }
        self.close();
        let kind = inner.kind;
        let ty = Type::Struct(Rc::new(StructType { decl: decl.clone(), kind, args, fields }));
        self.declared.insert(decl.id, ty);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    pub(super) fn may_be_field(&self, kind: StructKind, ty: &Type) -> bool {
        let anything = matches!(ty, Type::Any | Type::Var(..));
        match (kind, ty) {
            _ if anything => true,
            (StructKind::Union, Type::Struct(of)) => {
                of.kind == StructKind::Header && self.may_be_fields(of)
            }
            (StructKind::Union, _) => false,
            (StructKind::Header, Type::Struct(of)) => {
                of.kind == StructKind::Struct
                    && of.fields.iter().all(|(_, ty)| self.may_be_field(kind, ty))
            }
            (StructKind::Header, Type::New(_, base)) => self.may_be_field(kind, base),
            (StructKind::Header, Type::Bool | Type::Bit(_) | Type::Int(_) | Type::Varbit(_)) => {
                true
            }
            (StructKind::Header, Type::Enum(_, base)) => base.is_some(),
            (StructKind::Header, Type::Stack(of, _)) => {
                matches!(&**of, Type::Bit(_) | Type::Int(_) | Type::Bool)
            }
            (StructKind::Header, _) => false,
            // Type arguments may be in any of them.
            (StructKind::Struct, Type::Struct(of)) => self.may_be_fields(of),
            (StructKind::Struct, Type::Stack(of, _)) => self.may_be_field(kind, of),
            (StructKind::Struct, _) => {
                self.may_hold(ty) && !matches!(ty, Type::Integer | Type::Text | Type::List(_))
            }
        }
    }

    fn may_be_fields(&self, of: &StructType) -> bool {
        of.fields.iter().all(|(_, ty)| self.may_be_field(of.kind, ty))
    }

    /// Whether a value can be of this type.
    pub(super) fn may_hold(&self, ty: &Type) -> bool {
        !matches!(
            ty,
            Type::Void
                | Type::MatchKind
                | Type::Extern(..)
                | Type::Parser(..)
                | Type::Control(..)
                | Type::Package(..)
                | Type::Infer(_)
        )
    }

    /// Whether two methods, or constructors, have one name and parameters of the same names and types.
    fn is_same(&self, one: &Method, two: &Method) -> bool {
        let shown = |method: &Method| -> Vec<(Rc<str>, String)> {
            let ty = |param: &Param| {
                self.declared.get(&param.id).map_or(String::new(), |ty| ty.to_string())
            };
            method.params.iter().map(|param| (param.name.value.clone(), ty(param))).collect()
        };
        one.name.value == two.name.value
            && one.result.is_some() == two.result.is_some()
            && shown(one) == shown(two)
    }

    fn external(&mut self, decl: &Rc<Decl>, inner: &ExternDecl) {
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
            if inner.methods[..at].iter().any(|known| self.is_same(known, method)) {
                let text = format!("`{}` takes these parameters already", method.name.value);
                self.error(codes::TWICE, method.name.span, text);
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
        }
    }

    /// What a parameter can be.
    fn parameter_type(&mut self, param: &Param, ty: &Type) {
        let has_direction = param.direction != Direction::None;
        let text = match ty {
            Type::Extern(..) | Type::Parser(..) | Type::Control(..) | Type::Package(..)
                if has_direction =>
            {
                format!("{ty} is passed without a direction")
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
        let is_call = matches!(&*default.kind, ExprKind::Call { .. });
        let is_known = self.consts.contains_key(&default.id) || !is_call && self.is_known(default);
        if fits && !is_known {
            let text = "a default is known when the program is compiled";
            self.error(codes::NOT_CONSTANT, default.span, text);
        }
    }

    fn function(&mut self, decl: &Rc<Decl>, inner: &FunctionDecl) {
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
        let names = |params: &[Param]| -> Vec<Rc<str>> {
            params.iter().map(|param| param.name.value.clone()).collect()
        };
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

    fn variable(&mut self, decl: &Rc<Decl>, ty: &TypeExpr, value: Option<&Expr>) {
        if matches!(self.place, Place::Top) && self.inside.is_empty() {
            let text = format!(
                "`{}` is a variable, and stands outside of parsers and controls",
                decl.name.value
            );
            self.error(codes::WRONG_PLACE, decl.name.span, text).help("did you mean `const`?");
        }
        let want = self.declared_type(ty);
        if !self.may_hold(&want) || matches!(want, Type::Integer | Type::Text) {
            self.type_error(ty.span, format!("a variable cannot be {want}"));
        }
        if let Some(value) = value {
            self.value_as(value, &want);
        }
        let want = self.known(&want);
        self.declared.insert(decl.id, want);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    fn instance(&mut self, decl: &Rc<Decl>, ty: &TypeExpr, args: &[Arg], methods: &[Rc<Decl>]) {
        let of = self.resolve(ty);
        let expr = Expr { kind: Rc::new(ExprKind::Poison), span: ty.span, id: u32::MAX - decl.id };
        let built = self.construct(&expr, &of, Vec::new(), args);
        let wrong_place = match (&self.place, &of) {
            (Place::Top, Type::Parser(..) | Type::Control(..)) if self.inside.is_empty() => {
                Some("a parser or control is instantiated inside another one, or in `main`")
            }
            (_, Type::Package(..)) if !self.inside.is_empty() => {
                Some("a package is instantiated at the top")
            }
            (Place::Top, _) => None,
            (_, Type::Extern(..) | Type::Parser(..) | Type::Control(..)) => {
                Some("an instance is declared outside of statements")
            }
            _ => None,
        };
        if let Some(text) = wrong_place {
            self.error(codes::WRONG_PLACE, decl.name.span, text);
        }
        let stranger = match &built {
            Type::Control(..) if self.in_parser => "a parser has no instances of controls",
            Type::Parser(..) if !self.in_parser && !self.inside.is_empty() => {
                "a control has no instances of parsers"
            }
            _ => "",
        };
        if !stranger.is_empty() {
            self.error(codes::WRONG_PLACE, decl.name.span, stranger);
        }
        if let Type::Control(of, _) | Type::Parser(of, _) = &built
            && self.inside.contains(&of.id)
        {
            let text = format!("`{}` has an instance of itself", of.name.value);
            self.error(codes::RECURSION, decl.name.span, text);
        }
        let is_open = matches!(&ty.value, TypeKind::Name { args, .. } if args.is_empty());
        if let Type::Extern(of, args) = &built
            && is_open
            && args.iter().any(|arg| matches!(arg, Type::Infer(_) | Type::Integer))
        {
            let text = format!("the type arguments of `{}` cannot be found out", of.name.value);
            self.type_error(decl.name.span, text).help("write them: `T<bit<8>>(..) name;`");
        }
        self.declared.insert(decl.id, built.clone());
        self.abstract_methods(decl, &built, methods);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    /// An array of instances.
    fn instances(&mut self, decl: &Rc<Decl>, size: &Expr) {
        let Some(of) = self.declared.get(&decl.id).cloned() else { return };
        if !matches!(of, Type::Extern(..) | Type::Any) {
            let text = format!("an array of instances is of an extern, not of {of}");
            self.type_error(decl.name.span, text);
        }
        if let Some(ty) = self.stack_of(of, size) {
            self.declared.insert(decl.id, ty);
        }
    }

    /// The methods that an instance gives its extern.
    fn abstract_methods(&mut self, decl: &Rc<Decl>, ty: &Type, given: &[Rc<Decl>]) {
        let Type::Extern(external, outer) = ty else { return };
        let DeclKind::Extern(inner) = &external.kind else { return };
        for method in inner.methods.iter().filter(|method| method.is_abstract) {
            let found = given.iter().any(|one| one.name.value == method.name.value);
            if !found {
                let text =
                    format!("`{}` needs the method `{}`", decl.name.value, method.name.value);
                self.type_error(decl.name.span, text);
            }
        }
        self.open();
        for (name, ty) in inner.type_params.iter().zip(outer.iter()) {
            self.bind(name, Name::TypeVar(ty.clone()));
        }
        self.inside.push(decl.id);
        for one in given {
            let DeclKind::Function(function) = &one.kind else {
                self.declaration(one);
                continue;
            };
            let want = inner.methods.iter().find(|method| {
                method.is_abstract
                    && method.name.value == one.name.value
                    && method.params.len() == function.params.len()
            });
            self.open();
            self.bind(&decl.name, Name::Decl(decl.clone()));
            self.bind(
                &crate::ast::Sp::new("this".into(), decl.name.span),
                Name::Param(decl.id, Direction::None, ty.clone()),
            );
            self.function(one, function);
            self.close();
            let Some(want) = want else {
                let text = format!(
                    "`{}` has no abstract method `{}` like this",
                    external.name.value, one.name.value
                );
                self.type_error(one.name.span, text);
                continue;
            };
            let same =
                want.params.iter().zip(&function.params).all(|(a, b)| a.direction == b.direction);
            let result = want.result.as_ref().map_or(Type::Void, |ty| self.resolve(ty));
            let given = self.resolve(&function.result);
            let wants: Vec<Type> =
                want.params.iter().map(|param| self.resolve(&param.ty)).collect();
            let gives: Vec<Type> =
                function.params.iter().map(|param| self.resolve(&param.ty)).collect();
            if !same || !self.unify(&result, &given) || !self.unify_all(&wants, &gives) {
                let text =
                    format!("`{}` is not as `{}` declares it", one.name.value, external.name.value);
                self.type_error(one.name.span, text);
            }
        }
        self.inside.pop();
        self.close();
    }
}

/// A parser or control that can be instantiated.
fn has_body(ty: &Type) -> bool {
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
