//! Calls: overloads, arguments, type arguments.

use std::rc::Rc;

use num_bigint::Sign;

use super::super::tree::*;
use super::arguments::order;
use super::check::{Checker, Name, Place};
use super::infer::type_arguments;
use super::member::{is_size, size_limits};
use super::signature::has_body;
use super::{CallInfo, Callee, Const, Type};
use crate::diag::codes;

/// What a call may run, with its parameters.
struct Candidate {
    callee: Callee,
    name: Rc<str>,
    type_params: Vec<Ident>,
    params: Vec<Param>,
    result: Option<TypeExpr>,
    /// Type parameters of the object around.
    outer: Vec<(Ident, Type)>,
}

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        callee: &Expr,
        types: &[TypeExpr],
        args: &[Arg],
    ) -> Type {
        let types: Vec<Type> = types.iter().map(|ty| self.resolve(ty)).collect();
        if let ExprKind::Member(of, name) = &*callee.kind {
            self.value(callee);
            let ty = self.noted(of);
            return self.method(expr, of, &ty, name, types, args);
        }
        let called = self.value(callee);
        match self.known(&called) {
            Type::Any => {
                args.iter().for_each(|arg| {
                    self.value(&arg.value);
                });
                Type::Any
            }
            Type::Name(of) => {
                if let Type::Extern(decl, _) = &*of
                    && let DeclKind::Extern(inner) = &decl.kind
                    && inner.methods.iter().any(|method| method.is_abstract)
                {
                    let text = format!(
                        "`{}` has abstract methods, which an instance gives",
                        decl.name.value
                    );
                    self.type_error(expr.span, text);
                }
                self.construct(expr, &of, types, args)
            }
            Type::Function(_) | Type::Action(_) => self.overloaded(expr, callee, types, args),
            other => {
                let has_apply =
                    matches!(other, Type::Table(_) | Type::Control(..) | Type::Parser(..));
                let error = self.type_error(callee.span, format!("{other} cannot be called"));
                if has_apply {
                    error.help("write `.apply(..)` behind its name");
                }
                Type::Any
            }
        }
    }

    /// Functions and actions of one name.
    fn overloaded(&mut self, expr: &Expr, callee: &Expr, types: Vec<Type>, args: &[Arg]) -> Type {
        let ExprKind::Name(name, global) = &*callee.kind else { return Type::Any };
        let names = self.find(&name.value, *global).map(<[Name]>::to_vec).unwrap_or_default();
        let mut candidates = Vec::new();
        for one in names {
            let Name::Decl(decl) = one else { continue };
            let (type_params, params, result) = match &decl.kind {
                DeclKind::Function(inner) => {
                    (inner.type_params.clone(), inner.params.clone(), Some(inner.result.clone()))
                }
                DeclKind::Action { params, .. } => (Vec::new(), params.clone(), None),
                _ => continue,
            };
            let name = decl.name.value.clone();
            let callee = Callee::Decl(decl);
            candidates.push(Candidate {
                callee,
                name,
                type_params,
                params,
                result,
                outer: Vec::new(),
            });
        }
        let is_action = candidates.iter().any(|one| {
            matches!(&one.callee, Callee::Decl(decl) if matches!(decl.kind, DeclKind::Action { .. }))
        });
        if is_action && matches!(self.place, Place::Parser | Place::Function(_)) {
            let text = "an action is not called here";
            self.error(codes::WRONG_PLACE, expr.span, text);
        }
        self.choose(expr, candidates, types, args)
    }

    /// The candidate that takes these arguments.
    fn choose(
        &mut self,
        expr: &Expr,
        mut candidates: Vec<Candidate>,
        types: Vec<Type>,
        args: &[Arg],
    ) -> Type {
        let several = candidates.len() > 1;
        if several {
            candidates.retain(|one| order(&one.params, args).is_some());
        }
        if candidates.is_empty() {
            self.error(codes::ARGUMENTS, expr.span, "no declaration takes these arguments");
            return Type::Any;
        }
        if candidates.len() > 1 && !args.is_empty() {
            let text = "several declarations take these arguments: overloads differ in the number or names of their parameters";
            self.error(codes::ARGUMENTS, expr.span, text);
            return Type::Any;
        }
        let chosen = candidates.swap_remove(0);
        self.invoke(expr, chosen, types, args)
    }

    fn invoke(&mut self, expr: &Expr, chosen: Candidate, types: Vec<Type>, args: &[Arg]) -> Type {
        let Some(order) = order(&chosen.params, args) else {
            self.misfit(expr.span, &chosen.name, &chosen.params, args);
            return Type::Any;
        };
        if !types.is_empty() && types.len() != chosen.type_params.len() {
            let text = format!(
                "`{}` takes {} type arguments, not {}",
                chosen.name,
                chosen.type_params.len(),
                types.len()
            );
            self.type_error(expr.span, text);
            return Type::Any;
        }
        self.open();
        for (name, ty) in &chosen.outer {
            self.bind(name, Name::TypeVar(ty.clone()));
        }
        let mut given = Vec::new();
        for (at, name) in chosen.type_params.iter().enumerate() {
            let ty = types.get(at).cloned().unwrap_or_else(|| self.fresh());
            self.bind(name, Name::TypeVar(ty.clone()));
            given.push(ty);
        }
        let params: Vec<Type> = chosen.params.iter().map(|param| self.resolve(&param.ty)).collect();
        let result = chosen.result.as_ref().map_or(Type::Void, |ty| self.resolve(ty));
        self.close();
        let given_args = chosen.params.iter().zip(&params).zip(&order);
        let mut given_args: Vec<_> = given_args
            .filter_map(|((param, ty), at)| Some((param, ty, at.and_then(|at| args.get(at))?)))
            .collect();
        for (_, _, arg) in &given_args {
            self.typed(&arg.value);
        }
        given_args.sort_by_key(|(_, _, arg)| self.openness(&arg.value));
        let is_action = matches!(&chosen.callee, Callee::Decl(decl) if matches!(decl.kind, DeclKind::Action { .. }));
        for (param, ty, arg) in given_args {
            self.typed_argument(param, ty, &arg.value);
            if param.direction == Direction::None && !is_action {
                self.known_without_direction(param, &arg.value);
            }
        }
        if let Callee::Decl(decl) = &chosen.callee
            && &*decl.name.value == "static_assert"
        {
            self.static_assert(expr, args);
        }
        self.special(expr, &chosen.callee, args, &given);
        let types = match &chosen.callee {
            Callee::Decl(decl) => type_arguments(self.declared.get(&decl.id), &given),
            _ => Vec::new(),
        };
        let info = CallInfo { callee: chosen.callee, order, types };
        self.calls.insert(expr.id, info);
        self.known(&result)
    }

    /// The language's requirements on calls of its own declarations.
    fn special(&mut self, expr: &Expr, callee: &Callee, args: &[Arg], types: &[Type]) {
        match callee {
            Callee::Decl(decl) => {
                let is_extern =
                    matches!(&decl.kind, DeclKind::Function(inner) if inner.body.is_none());
                self.no_blocks(types, expr.span);
                let open = types.iter().any(|ty| matches!(self.known(ty), Type::Integer));
                if open && !self.is_static(&decl.name.value) {
                    let text = "a number without a width is passed for a type parameter";
                    self.type_error(expr.span, text).help("give it a width, as in 8w5");
                }
                let in_blocks = matches!(self.place, Place::Control | Place::Action);
                if is_extern && &*decl.name.value == "verify" && in_blocks && args.len() == 2 {
                    self.error(codes::WRONG_PLACE, expr.span, "`verify` stands in parsers");
                }
            }
            Callee::Method(decl, at) => {
                let DeclKind::Extern(inner) = &decl.kind else { return };
                let name = inner.methods.get(*at).map(|method| method.name.value.clone());
                if types.iter().any(|ty| matches!(self.known(ty), Type::Table(_) | Type::Action(_)))
                {
                    self.type_error(expr.span, "a table or an action is no value");
                }
                if &*decl.name.value == "packet_out"
                    && let Some(ty) = types.first()
                {
                    self.emitted(&self.known(ty), expr.span);
                }
                if &*decl.name.value != "packet_in" {
                    return;
                }
                if let Some(ty) = types.first().map(|ty| self.known(ty)) {
                    if matches!(ty, Type::Infer(_)) {
                        // The argument has an error of its own.
                        if args
                            .first()
                            .is_some_and(|arg| matches!(self.noted(&arg.value), Type::Any))
                        {
                            return;
                        }
                        let text = "nothing says which type is read";
                        self.type_error(expr.span, text).help("name it: `extract<header_t>(_)`");
                        return;
                    }
                    self.packet_call(name.as_deref().unwrap_or_default(), args, &ty, expr.span);
                }
                if name.as_deref() != Some("extract") {
                    return;
                }
                let Some(arg) = args.first() else { return };
                let ty = self.noted(&arg.value);
                let ty = self.known(&ty);
                let fits =
                    ty.is_header() || matches!(ty, Type::Any | Type::Infer(_) | Type::Var(..));
                if !fits {
                    self.type_error(arg.value.span, format!("`extract` takes a header, not {ty}"));
                }
            }
            _ => {}
        }
    }

    fn static_assert(&mut self, expr: &Expr, args: &[Arg]) {
        match args.first().and_then(|arg| self.consts.get(&arg.value.id)) {
            Some(Const::Bool(true)) => {
                self.consts.insert(expr.id, Const::Bool(true));
            }
            Some(_) => {
                let note = match args.get(1).and_then(|arg| self.consts.get(&arg.value.id)) {
                    Some(Const::Text(text)) => text.to_string(),
                    _ => "the condition is false".into(),
                };
                self.type_error(expr.span, "`static_assert` does not hold").note(note);
            }
            None => {
                let text = "`static_assert` needs a condition that is known now";
                self.error(codes::NOT_CONSTANT, expr.span, text);
            }
        }
    }

    /// Types an argument, in front of what its parameter asks of it. `_` has the type of its parameter.
    pub(super) fn typed(&mut self, value: &Expr) {
        if !matches!(&*value.kind, ExprKind::Any) {
            self.value(value);
        }
    }

    /// How much of the type of an argument may come from others that have the same type parameter: the argument is looked at behind them.
    pub(super) fn openness(&self, value: &Expr) -> u8 {
        openness(&self.known(&self.noted(value)))
    }

    /// An argument in the place of a parameter.
    pub(super) fn argument(&mut self, param: &Param, ty: &Type, value: &Expr) {
        self.typed(value);
        self.typed_argument(param, ty, value);
    }

    fn typed_argument(&mut self, param: &Param, ty: &Type, value: &Expr) {
        if matches!(&*value.kind, ExprKind::Any) {
            if param.direction != Direction::Out {
                let text = format!(
                    "`_` stands only for an `out` parameter, and `{}` is none",
                    param.name.value
                );
                self.type_error(value.span, text);
            }
            self.note(value, ty.clone());
            return;
        }
        if matches!(self.known(ty), Type::Infer(_)) && !self.is_a_value(value) {
            return;
        }
        match param.direction {
            Direction::None | Direction::In => {
                let got = self.noted(value);
                let is_number = matches!(self.known(&got), Type::Bit(_) | Type::Int(_));
                if !(is_number && matches!(ty, Type::Integer)) {
                    self.fit(value, ty);
                }
            }
            Direction::Out | Direction::InOut => {
                let got = self.noted(value);
                let got = self.known(&got);
                if self.must_be_place(value) && !self.unify(&got, ty) {
                    let want = self.known(ty);
                    let text = format!("`{}` is {want}, not {got}", param.name.value);
                    self.type_error(value.span, text);
                }
            }
        }
    }

    /// An argument of a parameter without a direction is known when the program is compiled, except that of an action
    /// (P4-16 1.2.5, section 6.8). Instances are, and so are parameters without a direction.
    fn known_without_direction(&mut self, param: &Param, value: &Expr) {
        let given = self.noted(value);
        let is_instance = matches!(self.known(&given), Type::Extern(..));
        let is_given =
            |id| self.directionless.contains(&id) || self.constructor_params.contains(&id);
        if !is_instance && !self.is_known_with(value, &is_given) {
            let text = format!(
                "`{}` has no direction: its argument must be known when the program is compiled",
                param.name.value
            );
            self.error(codes::NOT_CONSTANT, value.span, text);
        }
    }

    /// Whether an argument whose type is inferred is a value: names of types, actions, tables and functions are none.
    pub(super) fn is_a_value(&mut self, value: &Expr) -> bool {
        let ty = self.noted(value);
        let is_none = match self.known(&ty) {
            Type::Name(_) | Type::Action(_) | Type::Table(_) | Type::Function(_) => true,
            Type::Method => true,
            _ => matches!(&*value.kind, ExprKind::Dots | ExprKind::Any),
        };
        if is_none {
            self.type_error(value.span, "this is no value: an argument is one");
            return false;
        }
        match &*value.kind {
            ExprKind::List(items, _) | ExprKind::Tuple(items) => {
                items.iter().all(|item| self.is_a_value(item))
            }
            _ => true,
        }
    }

    /// `object.name(args)`.
    fn method(
        &mut self,
        expr: &Expr,
        of: &Expr,
        ty: &Type,
        name: &Ident,
        types: Vec<Type>,
        args: &[Arg],
    ) -> Type {
        let ty = self.known(ty);
        match &ty {
            Type::Any => {
                args.iter().for_each(|arg| {
                    self.value(&arg.value);
                });
                Type::Any
            }
            Type::Extern(decl, outer) => {
                let DeclKind::Extern(inner) = &decl.kind else { return Type::Any };
                let outer: Vec<(Ident, Type)> =
                    inner.type_params.iter().cloned().zip(outer.iter().cloned()).collect();
                let candidates: Vec<Candidate> = inner
                    .methods
                    .iter()
                    .enumerate()
                    .filter(|(_, method)| {
                        method.name.value == name.value && method.result.is_some()
                    })
                    .map(|(at, method)| Candidate {
                        callee: Callee::Method(decl.clone(), at),
                        name: name.value.clone(),
                        type_params: method.type_params.clone(),
                        params: method.params.clone(),
                        result: method.result.clone(),
                        outer: outer.clone(),
                    })
                    .collect();
                if candidates.is_empty() {
                    return Type::Any;
                }
                self.choose(expr, candidates, types, args)
            }
            Type::Table(decl) if &*name.value == "apply" => {
                self.applied(expr, args);
                if !matches!(self.place, Place::Control) {
                    let text = "a table is applied in the `apply` of a control";
                    self.error(codes::WRONG_PLACE, expr.span, text);
                }
                Type::Applied(decl.clone())
            }
            Type::Parser(..) | Type::Control(..) if &*name.value == "apply" => {
                self.apply_block(expr, &ty, args)
            }
            Type::Name(_) if &*name.value == "apply" => self.apply_block(expr, &ty, args),
            _ => self.builtin(expr, of, &ty, name, args),
        }
    }

    fn applied(&mut self, expr: &Expr, args: &[Arg]) {
        if let Some(arg) = args.first() {
            self.error(codes::ARGUMENTS, arg.value.span, "`apply` of a table takes no arguments");
        }
        let info = CallInfo { callee: Callee::Apply, order: Vec::new(), types: Vec::new() };
        self.calls.insert(expr.id, info);
    }

    /// `apply` of a parser or control.
    fn apply_block(&mut self, expr: &Expr, ty: &Type, args: &[Arg]) -> Type {
        // By the name of its type: an instance of its own (P4-16, direct type invocation).
        let (ty, is_direct) =
            if let Type::Name(inner) = ty { (&**inner, true) } else { (ty, false) };
        let (decl, types, is_parser) = match ty {
            Type::Parser(decl, types) => (decl, types, true),
            Type::Control(decl, types) => (decl, types, false),
            _ => return Type::Any,
        };
        let (type_params, params, constructor) = match &decl.kind {
            DeclKind::Parser(inner) => (&inner.type_params, &inner.params, &inner.constructor),
            DeclKind::Control(inner) => (&inner.type_params, &inner.params, &inner.constructor),
            _ => return Type::Any,
        };
        if is_direct && !has_body(ty) {
            let text = format!("`{}` has no body, so that it cannot be applied", decl.name.value);
            self.type_error(expr.span, text);
            return Type::Any;
        }
        if is_direct {
            self.count_instance(decl);
        }
        if is_direct && self.inside.contains(&decl.id) {
            let text = format!("`{}` applies itself", decl.name.value);
            self.error(codes::RECURSION, expr.span, text);
        }
        if is_direct && order(constructor, &[]).is_none() {
            let text = format!("`{}` needs arguments to be instantiated", decl.name.value);
            self.error(codes::ARGUMENTS, expr.span, text).help(format!(
                "declare an instance, and apply that: `{}(..) name;`",
                decl.name.value
            ));
        }
        let fits = if is_parser {
            matches!(self.place, Place::Parser)
        } else {
            matches!(self.place, Place::Control)
        };
        if !fits {
            let text = if is_parser {
                "a parser is applied in the states of a parser"
            } else {
                "a control is applied in the `apply` of a control"
            };
            self.error(codes::WRONG_PLACE, expr.span, text);
        }
        let chosen = Candidate {
            callee: Callee::Apply,
            name: decl.name.value.clone(),
            type_params: Vec::new(),
            params: params.clone(),
            result: None,
            outer: type_params.iter().cloned().zip(types.iter().cloned()).collect(),
        };
        self.invoke(expr, chosen, Vec::new(), args)
    }

    /// Methods of headers, stacks and types.
    fn builtin(&mut self, expr: &Expr, of: &Expr, ty: &Type, name: &Ident, args: &[Arg]) -> Type {
        let info = CallInfo { callee: Callee::Builtin, order: Vec::new(), types: Vec::new() };
        let is_type = matches!(ty, Type::Name(_));
        let inner = if let Type::Name(inner) = ty { (**inner).clone() } else { ty.clone() };
        let takes = usize::from(matches!(&*name.value, "push_front" | "pop_front"));
        let is_method = match (&inner, &*name.value) {
            (_, size) if is_size(size) => true,
            (Type::Struct(of), "isValid") => of.kind != StructKind::Struct && !is_type,
            (Type::Struct(of), "setValid" | "setInvalid") => {
                of.kind == StructKind::Header && !is_type
            }
            (Type::Stack(..), "push_front" | "pop_front") => !is_type,
            _ => false,
        };
        if !is_method {
            // A field, or something that was reported.
            if !self.noted_is_any(expr) {
                self.type_error(name.span, format!("`{}` cannot be called", name.value));
            }
            return Type::Any;
        }
        if args.len() != takes {
            let text = format!("`{}` takes {takes} arguments, not {}", name.value, args.len());
            self.error(codes::ARGUMENTS, expr.span, text);
            return Type::Any;
        }
        self.calls.insert(expr.id, info);
        if is_size(&name.value) {
            return self.size_call(expr, &inner, name);
        }
        if &*name.value == "isValid" {
            return Type::Bool;
        }
        self.must_be_place(of);
        if let Some(arg) = args.first() {
            if matches!(&*arg.value.kind, ExprKind::Any) {
                self.type_error(arg.value.span, "`_` is no number of elements");
                return Type::Void;
            }
            let number = self.constant_number(&arg.value, "the number of elements");
            if number.is_some_and(|number| number.sign() == Sign::Minus) {
                self.type_error(arg.value.span, "a number of elements is not negative");
            }
        }
        Type::Void
    }

    fn noted_is_any(&self, expr: &Expr) -> bool {
        match &*expr.kind {
            ExprKind::Call { callee, .. } => self.noted(callee).is_any(),
            _ => false,
        }
    }

    fn size_call(&mut self, expr: &Expr, ty: &Type, name: &Ident) -> Type {
        if matches!(ty, Type::Var(..) | Type::Infer(_)) {
            return Type::Integer;
        }
        let Some((low, high)) = size_limits(ty) else {
            self.type_error(name.span, format!("{ty} has no size"));
            return Type::Any;
        };
        let bits = if name.value.starts_with("min") { low } else { high };
        let value = if name.value.ends_with("Bytes") { bits.div_ceil(8) } else { bits };
        self.consts.insert(expr.id, Const::Int(value.into()));
        Type::Integer
    }
}

/// 0 for a type that is known, 1 for a list of such, 2 for what has no type of its own.
fn openness(ty: &Type) -> u8 {
    match ty {
        Type::Integer | Type::Invalid => 2,
        Type::Listed(parts, _) => parts.iter().map(openness).fold(1, u8::max),
        Type::Record(fields, _) => fields.iter().map(|(_, ty)| openness(ty)).fold(1, u8::max),
        _ => 0,
    }
}
