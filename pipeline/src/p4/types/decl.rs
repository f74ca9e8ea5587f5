//! Declarations. Types are in `structure`, functions and methods in `signature`, blocks in `control` and `table`.

use std::rc::Rc;

use num_bigint::Sign;

use super::super::tree::*;
use super::Type;
use super::check::{Checker, Name, Place};
use crate::diag::codes;

/// Most instances of parsers and controls in one of them.
const INSTANCES_MAX: u32 = 4096;

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
            DeclKind::Parser(inner) => self.counted(decl, |checker| checker.parser(decl, inner)),
            DeclKind::Control(inner) => self.counted(decl, |checker| checker.control(decl, inner)),
            DeclKind::Package { type_params, params } => {
                self.open();
                self.bind_type_params(type_params);
                self.note_params(params);
                self.without_directions(params);
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
                if !is_in_sets(&of) {
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

    pub(super) fn twice(&mut self, name: &Ident) {
        let text = format!("`{}` is declared twice", name.value);
        self.error(codes::TWICE, name.span, text);
    }

    /// Structured annotations hold constants.
    pub(super) fn annotations(&mut self, all: &[Annotation]) {
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

    /// Checks a parser or control, and counts the instances of such that one of it has: they double where each has two of the one before.
    fn counted(&mut self, decl: &Rc<Decl>, check: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.instances, 1);
        check(self);
        let made = std::mem::replace(&mut self.instances, outer);
        if made > INSTANCES_MAX {
            let text = format!("`{}` has more than {INSTANCES_MAX} instances", decl.name.value);
            self.error(codes::LIMIT, decl.name.span, text)
                .note("instances in instances of parsers and controls are counted");
        }
        // What has it is not refused again.
        self.instances_of.insert(decl.id, if made > INSTANCES_MAX { 1 } else { made });
    }

    /// An instance of a parser or control is made here.
    pub(super) fn count_instance(&mut self, of: &Decl) {
        self.instances += self.instances_of.get(&of.id).copied().unwrap_or(1);
    }

    fn constant(&mut self, decl: &Rc<Decl>, ty: &TypeExpr, value: &Expr) {
        let want = self.declared_type(ty);
        if !self.may_hold(&want) {
            self.type_error(ty.span, format!("a constant cannot be {want}"));
        }
        let fits = self.value_as(value, &want);
        let want = self.known(&want);
        let is_known = self.is_known_value(value);
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
            let error = self.type_error(ty.span, format!("a variable cannot be {want}"));
            if matches!(want, Type::Integer) {
                error.help("give it a width: `bit<32>`, or `int<32>` for a signed number");
            }
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
        if let Type::Control(of, _) | Type::Parser(of, _) = &built {
            self.count_instance(of);
            if self.inside.contains(&of.id) {
                let text = format!("`{}` has an instance of itself", of.name.value);
                self.error(codes::RECURSION, decl.name.span, text);
            }
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

/// Whether a value set may hold values of this type: what `select` compares, and structs and tuples of it.
fn is_in_sets(ty: &Type) -> bool {
    match ty {
        Type::Struct(of) => {
            of.kind == StructKind::Struct && of.fields.iter().all(|(_, ty)| is_in_sets(ty))
        }
        Type::Tuple(parts) => parts.iter().all(is_in_sets),
        Type::New(_, base) => is_in_sets(base),
        Type::Bit(_) | Type::Int(_) | Type::Bool | Type::Enum(..) | Type::Any | Type::Var(..) => {
            true
        }
        _ => false,
    }
}
