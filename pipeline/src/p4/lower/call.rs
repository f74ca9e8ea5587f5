//! Calls: functions and actions are inlined, controls become blocks, methods what the language has for them.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Callee, Type};
use super::build::{binary, known, number};
use super::env::{BlockVal, Val};
use super::stmt::returns;
use super::{Lower, Place, Return};
use crate::ast::{self, Ast, AstBin, AstExpr, Sp, StmtKind as Made};
use crate::ir::SourceSpan;

/// The result of the function that is inlined, as a name in its scope.
pub(super) const RESULT: u32 = u32::MAX;

/// A value to be copied back behind a call.
pub(super) type CopyOut = (Val, Val, Type);

impl Lower<'_> {
    pub(super) fn call(&mut self, expr: &Expr, callee: &Expr, args: &[Arg]) -> Val {
        let Some(info) = self.checked.calls.get(&expr.id).cloned() else { return Val::Nothing };
        match &info.callee {
            Callee::Constructor => self.construct(expr, &info, args),
            Callee::Builtin => self.builtin(callee, args, expr.span),
            Callee::Apply => self.apply(callee, &info, args, expr.span),
            Callee::Method(decl, at) => {
                let ExprKind::Member(of, _) = &*callee.kind else { return Val::Nothing };
                let object = self.eval(of);
                self.method(expr, &object, decl, *at, &info, args)
            }
            Callee::Decl(decl) => match &decl.kind {
                DeclKind::Function(function) if function.body.is_none() => {
                    self.external(expr, decl, &info, args)
                }
                DeclKind::Function(function) => {
                    let types: Vec<(u32, Type)> =
                        info.types.iter().map(|(var, ty)| (*var, self.concrete(ty))).collect();
                    let scope = self.root.inner("");
                    let copies = self.bind_arguments(&scope, &function.params, &info, args, &types);
                    let value = self.with_types(&types, |lower| {
                        lower.function(decl, function, scope, expr.span)
                    });
                    self.copy_out(copies, expr.span);
                    value
                }
                DeclKind::Action { params, body } => {
                    self.call_action(decl, params, body, &info, args, expr.span);
                    Val::Nothing
                }
                _ => Val::Nothing,
            },
        }
    }

    /// Does something with types in place of type parameters.
    pub(super) fn with_types<T>(
        &mut self,
        types: &[(u32, Type)],
        does: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.types.len();
        self.types.extend_from_slice(types);
        let value = does(self);
        self.types.truncate(outer);
        value
    }

    /// The type parameters of a parser or control, with what an instance gives them.
    fn type_arguments(&self, decl: &Decl, types: &[Type]) -> Vec<(u32, Type)> {
        let Some(Type::Tuple(vars)) = self.checked.declared.get(&decl.id) else {
            return Vec::new();
        };
        let pairs = vars.iter().zip(types);
        pairs
            .filter_map(|(var, ty)| match var {
                Type::Var(id, _) => Some((*id, self.concrete(ty))),
                _ => None,
            })
            .collect()
    }

    fn function(
        &mut self,
        decl: &Rc<Decl>,
        function: &FunctionDecl,
        scope: super::env::Env,
        span: SourceSpan,
    ) -> Val {
        let Some(body) = &function.body else { return Val::Nothing };
        let (last, before) = match body.statements.split_last() {
            Some((Stmt { kind: StmtKind::Return(last), .. }, before)) if !returns(before) => {
                (last.clone(), before)
            }
            _ => {
                let result = match &function.result.value {
                    TypeKind::Void => Type::Void,
                    _ => self.result_type(body),
                };
                return self.function_with_flag(body, &result, scope, span);
            }
        };
        let outer = std::mem::replace(&mut self.env, scope);
        let value = self.inlined(span, |lower| {
            lower.block(before);
            last.map_or(Val::Nothing, |last| {
                let ty = lower.type_of(&last);
                let value = lower.eval(&last);
                match &value {
                    // What the function changes behind must not change what it gave.
                    Val::Scalar(scalar)
                        if !matches!(scalar.value, Ast::Number { .. })
                            && lower.place != Place::Parser =>
                    {
                        let bits = lower.bits(&ty, last.span);
                        Val::Scalar(if bits > 0 {
                            lower.keep(scalar.clone(), bits)
                        } else {
                            scalar.clone()
                        })
                    }
                    _ => value,
                }
            })
        });
        self.env = outer;
        let _ = decl;
        value.unwrap_or(Val::Nothing)
    }

    /// The type of what a body returns.
    fn result_type(&self, body: &Block) -> Type {
        fn find(statements: &[Stmt]) -> Option<&Expr> {
            statements.iter().find_map(|one| match &one.kind {
                StmtKind::Return(value) => value.as_ref(),
                StmtKind::Block(block) => find(&block.statements),
                StmtKind::If(_, then, other) => find(std::slice::from_ref(then))
                    .or_else(|| other.as_ref().and_then(|other| find(std::slice::from_ref(other)))),
                StmtKind::Switch(_, cases) => cases
                    .iter()
                    .filter_map(|case| case.body.as_ref())
                    .find_map(|body| find(&body.statements)),
                _ => None,
            })
        }
        find(&body.statements).map_or(Type::Void, |value| self.type_of(value))
    }

    /// A function that returns in the middle: a bit says that the rest is not run.
    fn function_with_flag(
        &mut self,
        body: &Block,
        result: &Type,
        scope: super::env::Env,
        span: SourceSpan,
    ) -> Val {
        let place = match result {
            Type::Void => Val::Nothing,
            ty => self.storage(ty, "result", span),
        };
        scope.bind(RESULT, place.clone());
        self.with_flag(body, scope, span);
        place
    }

    pub(super) fn with_flag(&mut self, body: &Block, scope: super::env::Env, span: SourceSpan) {
        let flag = if returns(&body.statements) {
            let flag = self.new_meta("returned", 1, span);
            self.set(&flag, number(0, 1, span), span);
            Some(flag)
        } else {
            None
        };
        let outer = std::mem::replace(&mut self.env, scope);
        self.inlined(span, |lower| {
            if let Some(flag) = flag {
                lower.returns.push(Return::Flag(flag));
                lower.block(&body.statements);
                lower.returns.pop();
            } else {
                lower.block(&body.statements);
            }
        });
        self.env = outer;
    }

    /// An action that is called by a statement.
    fn call_action(
        &mut self,
        decl: &Rc<Decl>,
        params: &[Param],
        body: &Block,
        info: &CallInfo,
        args: &[Arg],
        span: SourceSpan,
    ) {
        let env = match self.declared_value(decl) {
            Val::Action(env) => env,
            _ => self.root.clone(),
        };
        let scope = env.inner("");
        let copies = self.bind_arguments(&scope, params, info, args, &[]);
        self.leaving.push(copies.clone());
        self.with_flag(body, scope, span);
        self.leaving.pop();
        self.copy_out(copies, span);
    }

    /// Parameters of an inlined call: what is written is written in place where that has the effect of copying.
    pub(super) fn bind_arguments(
        &mut self,
        scope: &super::env::Env,
        params: &[Param],
        info: &CallInfo,
        args: &[Arg],
        types: &[(u32, Type)],
    ) -> Vec<CopyOut> {
        let values = self.argument_values(params, info, args, types);
        let mut copies = Vec::new();
        for (at, (param, value)) in params.iter().zip(&values).enumerate() {
            let Some((value, ty)) = value else {
                scope.bind(param.id, Val::Nothing);
                continue;
            };
            let span = param.name.span;
            let shared = values.iter().enumerate().any(|(other, one)| {
                other != at && one.as_ref().is_some_and(|(one, _)| self.overlap(value, one))
            });
            let writes = params
                .iter()
                .any(|param| matches!(param.direction, Direction::Out | Direction::InOut));
            match param.direction {
                Direction::None | Direction::In => {
                    let kept = self.kept_argument(param, value, ty, shared, writes);
                    scope.bind(param.id, kept);
                }
                Direction::Out | Direction::InOut => {
                    if is_fixed(value) && !shared {
                        if param.direction == Direction::Out {
                            self.invalidate(value, span);
                        }
                        scope.bind(param.id, value.clone());
                        continue;
                    }
                    let copy = self.storage(ty, &param.name.value, span);
                    if param.direction == Direction::InOut {
                        self.assign(&copy, value, ty, span);
                    } else {
                        self.invalidate(&copy, span);
                    }
                    scope.bind(param.id, copy.clone());
                    copies.push((value.clone(), copy, ty.clone()));
                }
            }
        }
        copies
    }

    /// Arguments in the order of the parameters.
    pub(super) fn argument_values(
        &mut self,
        params: &[Param],
        info: &CallInfo,
        args: &[Arg],
        types: &[(u32, Type)],
    ) -> Vec<Option<(Val, Type)>> {
        let pairs = params.iter().zip(&info.order);
        pairs
            .map(|(param, at)| {
                let arg = at
                    .and_then(|at| args.get(at))
                    .map(|arg| &arg.value)
                    .or(param.default.as_ref())?;
                let ty = self.declared(param.id);
                let ty = super::super::types::with_types(&ty, types);
                let is_written = matches!(param.direction, Direction::Out | Direction::InOut);
                let value = if is_written { self.place_of(arg) } else { self.eval_as(arg, &ty) };
                Some((value, ty))
            })
            .collect()
    }

    /// An argument that is only read: as it is now, also where the call changes what it is made of.
    fn kept_argument(
        &mut self,
        param: &Param,
        value: &Val,
        ty: &Type,
        shared: bool,
        writes: bool,
    ) -> Val {
        let is_scalar = matches!(value, Val::Scalar(_));
        if matches!(value, Val::Packet | Val::Object(_) | Val::Block(_) | Val::Text(_)) {
            return value.clone();
        }
        if is_scalar && self.place != Place::Parser {
            return self.keep_all(value, ty);
        }
        if !shared || is_scalar && !writes {
            return value.clone();
        }
        let span = param.name.span;
        let copy = self.storage(ty, &param.name.value, span);
        self.assign(&copy, value, ty, span);
        copy
    }

    pub(super) fn copy_out(&mut self, copies: Vec<CopyOut>, span: SourceSpan) {
        for (place, copy, ty) in copies {
            self.assign(&place, &copy, &ty, span);
        }
    }

    /// An argument; a number without a width takes that of the parameter.
    pub(super) fn eval_as(&mut self, arg: &Expr, ty: &Type) -> Val {
        let value = self.eval(arg);
        match &value {
            Val::Scalar(scalar) if matches!(scalar.value, Ast::Number { bits: None, .. }) => {
                let bits = self.bits(ty, arg.span);
                match (known(scalar), bits) {
                    (Some(value), 1..) => Val::Scalar(number(value, bits, arg.span)),
                    _ => value,
                }
            }
            _ => value,
        }
    }

    /// `T(args)`.
    fn construct(&mut self, expr: &Expr, info: &CallInfo, args: &[Arg]) -> Val {
        let ty = self.type_of(expr);
        self.instantiate(&ty, "", &[], info, args, expr.span)
    }

    /// An instance that is declared.
    pub(super) fn instance(&mut self, decl: &Rc<Decl>, args: &[Arg]) -> Val {
        let ty = self.declared(decl.id);
        let Some(info) = self.checked.calls.get(&(u32::MAX - decl.id)).cloned() else {
            return Val::Nothing;
        };
        self.instantiate(
            &ty,
            &decl.name.value.clone(),
            &decl.annotations.clone(),
            &info,
            args,
            decl.name.span,
        )
    }

    fn instantiate(
        &mut self,
        ty: &Type,
        name: &str,
        annotations: &[Annotation],
        info: &CallInfo,
        args: &[Arg],
        span: SourceSpan,
    ) -> Val {
        let values: Vec<Val> = info
            .order
            .iter()
            .map(|at| {
                at.and_then(|at| args.get(at)).map_or(Val::Nothing, |arg| self.eval(&arg.value))
            })
            .collect();
        match ty {
            Type::Parser(decl, types) | Type::Control(decl, types) | Type::Package(decl, types) => {
                let full = match name.is_empty() {
                    true => self.env.full(&decl.annotations, &decl.name.value),
                    false => self.env.full(annotations, name),
                };
                let name: Rc<str> =
                    if name.is_empty() { decl.name.value.clone() } else { name.into() };
                let env = self.root.clone();
                Val::Block(Rc::new(BlockVal {
                    decl: decl.clone(),
                    name,
                    full,
                    args: values,
                    types: self.type_arguments(decl, types),
                    number: env.next_number(),
                    env,
                }))
            }
            Type::Extern(decl, types) => {
                let types = types.iter().map(|ty| self.concrete(ty)).collect();
                self.new_object(decl, Rc::new(types), values, name, annotations, span)
            }
            _ => Val::Nothing,
        }
    }

    /// `apply` of a table, parser or control.
    fn apply(&mut self, callee: &Expr, info: &CallInfo, args: &[Arg], span: SourceSpan) -> Val {
        let ExprKind::Member(of, _) = &*callee.kind else { return Val::Nothing };
        let block = match self.type_of(of) {
            // `C.apply(..)`: an instance of its own.
            Type::Name(ty) => match &*ty {
                Type::Parser(decl, types) | Type::Control(decl, types) => {
                    let name = decl.name.value.clone();
                    let full = self.env.full(&decl.annotations, &name);
                    let env = self.root.clone();
                    Val::Block(Rc::new(BlockVal {
                        decl: decl.clone(),
                        name,
                        full,
                        args: Vec::new(),
                        types: self.type_arguments(decl, types),
                        number: env.next_number(),
                        env,
                    }))
                }
                _ => Val::Nothing,
            },
            _ => self.eval(of),
        };
        match &block {
            Val::Table(decl, env) => self.apply_table(decl, env, span),
            Val::Block(block) => {
                match &block.decl.kind {
                    DeclKind::Control(control) => {
                        self.call_control(block, control, info, args, span);
                    }
                    DeclKind::Parser(parser) => {
                        let scope = self.block_scope(block, &parser.constructor);
                        let copies =
                            self.bind_arguments(&scope, &parser.params, info, args, &block.types);
                        self.with_types(&block.types, |lower| {
                            lower.call_parser(block, parser, scope, span);
                        });
                        self.copy_out(copies, span);
                    }
                    _ => {}
                }
                Val::Nothing
            }
            _ => Val::Nothing,
        }
    }

    /// Methods of headers, stacks and unions.
    fn builtin(&mut self, callee: &Expr, args: &[Arg], span: SourceSpan) -> Val {
        let ExprKind::Member(of, name) = &*callee.kind else { return Val::Nothing };
        let value = self.eval(of);
        self.builtin_of(&value, name, args, span)
    }

    fn builtin_of(&mut self, value: &Val, name: &Ident, args: &[Arg], span: SourceSpan) -> Val {
        match (value, &*name.value) {
            (Val::Choice(choice), "isValid") => Val::Scalar(self.chosen_is_valid(choice, span)),
            (Val::Choice(choice), _) => {
                self.with_chosen(choice, span, |lower, one| {
                    lower.builtin_of(one, name, args, span);
                });
                Val::Nothing
            }
            (Val::Header(header), "isValid") => Val::Scalar(self.is_valid(header, span)),
            (Val::Union(members), "isValid") => {
                let mut any: Option<AstExpr> = None;
                for (_, member) in members.iter() {
                    let Val::Header(header) = member else { continue };
                    let valid = self.is_valid(header, span);
                    any = Some(match any {
                        Some(any) => binary(AstBin::LogicalOr, any, valid, span),
                        None => valid,
                    });
                }
                Val::Scalar(any.unwrap_or_else(|| number(0, 1, span)))
            }
            (Val::Moving(stack, false, Some(member)), "isValid") => {
                Val::Scalar(self.last_is_valid(stack, member, span))
            }
            (Val::Literal(fields), "isValid") => {
                Val::Scalar(number(u128::from(fields.is_some()), 1, span))
            }
            (Val::Header(header), "setValid") => {
                self.procedure("set_valid", header, span);
                Val::Nothing
            }
            (Val::Header(header), "setInvalid") => {
                self.procedure("set_invalid", header, span);
                Val::Nothing
            }
            (Val::Stack(stack), "push_front" | "pop_front") => {
                let by = args.first().map_or(1, |arg| self.known_number(&arg.value));
                let by = by.min(u128::from(stack.size));
                if by == 0 {
                    return Val::Nothing;
                }
                if !stack.elements.is_empty() {
                    let stack = stack.clone();
                    self.move_unions(&stack, &name.value, by as usize, span);
                    return Val::Nothing;
                }
                let procedure = if &*name.value == "push_front" { "push" } else { "pop" };
                let args = vec![super::build::named(&[&stack.name], span), number(by, 0, span)];
                self.push(Made::Call(Sp::new(procedure.to_owned(), span), args), span);
                Val::Nothing
            }
            _ => {
                self.unsupported(span, format!("`{}` is not supported here", name.value));
                Val::Nothing
            }
        }
    }

    /// An expression of the tree as a statement's right side with an effect, into new metadata.
    pub(super) fn effect(&mut self, value: AstExpr, bits: u32, span: SourceSpan) -> AstExpr {
        let name = self.names.fresh("value", "");
        let _ = bits;
        self.push(Made::Let(Sp::new(name.clone(), span), value), span);
        super::build::named(&[&name], span)
    }

    /// A statement `name(args)`.
    pub(super) fn run(&mut self, name: &str, args: Vec<ast::AstExpr>, span: SourceSpan) {
        self.push(Made::Call(Sp::new(name.to_owned(), span), args), span);
    }
}

/// Whether a place stays the same while a call runs: no part of its path is computed.
pub(super) fn is_fixed(value: &Val) -> bool {
    if matches!(value, Val::Choice(_)) {
        return false;
    }
    let Val::Scalar(place) = value else { return true };
    let Ast::Path(path) = &place.value else { return false };
    path.parts.iter().all(|part| match part {
        ast::PathPart::Name(_) => true,
        ast::PathPart::Index(at) => known(at).is_some(),
    })
}
