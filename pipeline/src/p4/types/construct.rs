//! Construction: blocks, externs and packages with their arguments.

use std::rc::Rc;

use super::super::tree::*;
use super::arguments::order;
use super::check::{Checker, Name};
use super::{CallInfo, Callee, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// `T(args)`: an instance.
    pub(super) fn construct(
        &mut self,
        expr: &Expr,
        ty: &Type,
        types: Vec<Type>,
        args: &[Arg],
    ) -> Type {
        let ty = match (ty, types.is_empty()) {
            (
                Type::Extern(decl, _)
                | Type::Parser(decl, _)
                | Type::Control(decl, _)
                | Type::Package(decl, _),
                false,
            ) => self.type_of_decl(&decl.clone(), types, expr.span),
            _ => ty.clone(),
        };
        let (params, decl, outer): (Vec<Param>, Rc<Decl>, Rc<Vec<Type>>) = match &ty {
            Type::Extern(decl, outer) => {
                let DeclKind::Extern(inner) = &decl.kind else { return Type::Any };
                let mut all: Vec<&Method> =
                    inner.methods.iter().filter(|method| method.result.is_none()).collect();
                let any = !all.is_empty();
                all.retain(|method| order(&method.params, args).is_some());
                match all.first() {
                    Some(method) => (method.params.clone(), decl.clone(), outer.clone()),
                    None => {
                        let text = if any {
                            format!("no constructor of `{}` takes these arguments", decl.name.value)
                        } else {
                            format!("`{}` has no constructor", decl.name.value)
                        };
                        self.error(codes::ARGUMENTS, expr.span, text);
                        return Type::Any;
                    }
                }
            }
            Type::Parser(decl, outer) => match &decl.kind {
                DeclKind::Parser(inner) if inner.states.is_some() => {
                    (inner.constructor.clone(), decl.clone(), outer.clone())
                }
                _ => return self.not_constructed(expr, &ty),
            },
            Type::Control(decl, outer) => match &decl.kind {
                DeclKind::Control(inner) if inner.body.is_some() => {
                    (inner.constructor.clone(), decl.clone(), outer.clone())
                }
                _ => return self.not_constructed(expr, &ty),
            },
            Type::Package(decl, outer) => match &decl.kind {
                DeclKind::Package { params, .. } => (params.clone(), decl.clone(), outer.clone()),
                _ => return Type::Any,
            },
            Type::Any => return Type::Any,
            _ => return self.not_constructed(expr, &ty),
        };
        let Some(order) = order(&params, args) else {
            self.misfit(expr.span, &decl.name.value, &params, args);
            return Type::Any;
        };
        let wants = self.params_with(&decl, &params, &outer);
        let given = wants.iter().zip(&order);
        let given = given.filter_map(|(want, at)| Some((want, &args.get((*at)?)?.value)));
        self.constructor_arguments(given.collect());
        let info = CallInfo { callee: Callee::Constructor, order, types: Vec::new() };
        self.calls.insert(expr.id, info);
        self.known(&ty)
    }

    fn not_constructed(&mut self, expr: &Expr, ty: &Type) -> Type {
        self.type_error(expr.span, format!("{ty} cannot be instantiated"));
        Type::Any
    }

    /// The types of the parameters of a declaration with these type arguments.
    pub(super) fn params_with(
        &mut self,
        decl: &Decl,
        params: &[Param],
        outer: &[Type],
    ) -> Vec<Type> {
        let names: &[Ident] = match &decl.kind {
            DeclKind::Extern(inner) => &inner.type_params,
            DeclKind::Parser(inner) => &inner.type_params,
            DeclKind::Control(inner) => &inner.type_params,
            DeclKind::Package { type_params, .. } => type_params,
            _ => &[],
        };
        self.open();
        for (name, ty) in names.iter().zip(outer) {
            self.bind(name, Name::TypeVar(ty.clone()));
        }
        let types = params.iter().map(|param| self.resolve(&param.ty)).collect();
        self.close();
        types
    }

    fn constructor_arguments(&mut self, mut given: Vec<(&Type, &Expr)>) {
        for (_, value) in &given {
            self.typed(value);
        }
        given.sort_by_key(|(_, value)| self.openness(value));
        for (want, value) in given {
            self.typed_constructor_argument(want, value);
        }
    }

    /// An argument of a constructor: a block for a parameter of a block type, else a value.
    pub(super) fn constructor_argument(&mut self, want: &Type, value: &Expr) {
        self.typed(value);
        self.typed_constructor_argument(want, value);
    }

    fn typed_constructor_argument(&mut self, want: &Type, value: &Expr) {
        if matches!(&*value.kind, ExprKind::Any) {
            let text = "`_` stands only for an `out` parameter, and a constructor has none";
            self.type_error(value.span, text);
            return;
        }
        let got = self.noted(value);
        let (got, wanted) = (self.known(&got), self.known(want));
        match (&got, &wanted) {
            (Type::Parser(..), Type::Parser(..)) | (Type::Control(..), Type::Control(..)) => {
                if !self.block_fits(&got, &wanted) {
                    let text = format!("`{}` does not have the parameters of {wanted}", got);
                    let params = parameters(&wanted);
                    self.type_error(value.span, text)
                        .note(format!("{wanted} has the parameters {params}"));
                }
            }
            (_, Type::Infer(_)) => {
                if self.is_a_value(value) {
                    self.unify(&wanted, &got);
                    self.known_argument(value);
                }
            }
            _ => {
                if self.fit(value, want) {
                    self.known_argument(value);
                }
            }
        }
    }

    /// Whether a parser or control has the parameters that a type of blocks declares.
    fn block_fits(&mut self, got: &Type, want: &Type) -> bool {
        let parts = |ty: &Type| match ty {
            Type::Parser(decl, args) => match &decl.kind {
                DeclKind::Parser(inner) => Some((decl.clone(), inner.params.clone(), args.clone())),
                _ => None,
            },
            Type::Control(decl, args) => match &decl.kind {
                DeclKind::Control(inner) => {
                    Some((decl.clone(), inner.params.clone(), args.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        let (Some((a, a_params, a_args)), Some((b, b_params, b_args))) = (parts(got), parts(want))
        else {
            return false;
        };
        if a.id == b.id {
            return self.unify_all(&a_args, &b_args);
        }
        let b_params = without_left_out(b_params, &a_params);
        if a_params.len() != b_params.len() {
            return false;
        }
        let same = a_params.iter().zip(&b_params).all(|(a, b)| a.direction == b.direction);
        let a_types = self.params_with(&a, &a_params, &a_args);
        let b_types = self.params_with(&b, &b_params, &b_args);
        same && self.unify_all(&a_types, &b_types)
    }
}

/// Parameters of a type of blocks without the `@optional` ones that a block leaves out (P4-16, 6.8.2), which are known by their names.
fn without_left_out(mut wanted: Vec<Param>, has: &[Param]) -> Vec<Param> {
    wanted.retain(|param| {
        annotation(&param.annotations, "optional").is_none()
            || has.iter().any(|one| one.name.value == param.name.value)
    });
    wanted
}

/// The parameters of a parser or control, as they are written.
fn parameters(of: &Type) -> String {
    let params = match of {
        Type::Parser(decl, _) | Type::Control(decl, _) => match &decl.kind {
            DeclKind::Parser(inner) => inner.params.as_slice(),
            DeclKind::Control(inner) => &inner.params,
            _ => &[],
        },
        _ => &[],
    };
    let written = params.iter().map(|param| {
        let direction = match param.direction {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        };
        let ty = match &param.ty.value {
            TypeKind::Name { name, .. } => format!("{} ", name.value),
            _ => String::new(),
        };
        format!("{direction}{ty}{}", param.name.value)
    });
    written.collect::<Vec<_>>().join(", ")
}
