//! Calls: functions and actions are inlined, controls become blocks, methods what the language has for them.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Callee, Type, type_arguments};
use super::arguments::CopyOut;
use super::build::{binary, number};
use super::env::{BlockVal, Env, Val};
use super::stmt::returns;
use super::walk::{self, Met};
use super::{Lower, Place, Return};
use crate::ast::{self, AstBin, AstExpr, Sp, StmtKind as Made};
use crate::ir::SourceSpan;

/// The result of the function that is inlined, as a name in its scope.
pub(super) const RESULT: u32 = u32::MAX;

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
                    let params = &function.params;
                    let given = self.argument_values(params, &info, args, &types);
                    let body = function.body.as_ref();
                    let copies = self.bind_arguments(&scope, params, &given, body, None);
                    let value =
                        self.with_types(&types, |lower| lower.function(function, scope, expr.span));
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
    fn instance_types(&self, decl: &Decl, types: &[Type]) -> Vec<(u32, Type)> {
        let types: Vec<Type> = types.iter().map(|ty| self.concrete(ty)).collect();
        type_arguments(self.checked.declared.get(&decl.id), &types)
    }

    fn function(&mut self, function: &FunctionDecl, scope: Env, span: SourceSpan) -> Val {
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
                match lower.eval(&last) {
                    // What the function changes behind must not change what it gave.
                    Val::Scalar(scalar) if lower.place != Place::Parser => {
                        let ty = lower.type_of(&last);
                        Val::Scalar(lower.number_kept(scalar, &ty))
                    }
                    value => value,
                }
            })
        });
        self.env = outer;
        value.unwrap_or(Val::Nothing)
    }

    /// The type of what a body returns.
    fn result_type(&self, body: &Block) -> Type {
        let mut found = None;
        walk::any(&body.statements, &mut |met| {
            if let Met::Statement(Stmt { kind: StmtKind::Return(value), .. }) = met {
                found = value.as_ref();
            }
            found.is_some()
        });
        found.map_or(Type::Void, |value| self.type_of(value))
    }

    /// A function that returns in the middle: a bit says that the rest is not run.
    fn function_with_flag(
        &mut self,
        body: &Block,
        result: &Type,
        scope: Env,
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

    pub(super) fn with_flag(&mut self, body: &Block, scope: Env, span: SourceSpan) {
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
        let given = self.argument_values(params, info, args, &[]);
        let copies = self.bind_arguments(&scope, params, &given, Some(body), Some(&env));
        self.call_body(body, scope, copies, span);
    }

    /// What an action does, and what is copied back behind it.
    pub(super) fn call_body(
        &mut self,
        body: &Block,
        scope: Env,
        copies: Vec<CopyOut>,
        span: SourceSpan,
    ) {
        self.leaving.push(copies.clone());
        self.with_flag(body, scope, span);
        self.leaving.pop();
        self.copy_out(copies, span);
    }

    /// `T(args)`.
    fn construct(&mut self, expr: &Expr, info: &CallInfo, args: &[Arg]) -> Val {
        let ty = self.type_of(expr);
        self.instantiate(&ty, "", &[], info, args, expr.span)
    }

    /// An instance that is declared.
    pub(super) fn instance(&mut self, decl: &Rc<Decl>, args: &[Arg]) -> Val {
        let ty = self.declared(decl.id);
        if matches!(ty, Type::Stack(..)) {
            self.unsupported(decl.name.span, "an array of instances is not supported");
            return Val::Nothing;
        }
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
                    types: self.instance_types(decl, types),
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
                    Val::Block(self.direct_instance(decl, types, callee.id))
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
                        let params = &parser.params;
                        let given = self.argument_values(params, info, args, &block.types);
                        let copies = self.bind_arguments(&scope, params, &given, None, None);
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

    /// The instance of a type that is applied itself: one for each place where that is written, in each instance around.
    fn direct_instance(&mut self, decl: &Rc<Decl>, types: &[Type], call: u32) -> Rc<BlockVal> {
        if let Some(known) = self.direct.get(&(self.within, call)) {
            return known.clone();
        }
        let name = decl.name.value.clone();
        let env = self.root.clone();
        let block = Rc::new(BlockVal {
            decl: decl.clone(),
            full: self.env.full(&decl.annotations, &name),
            name,
            args: Vec::new(),
            types: self.instance_types(decl, types),
            number: env.next_number(),
            env,
        });
        self.direct.insert((self.within, call), block.clone());
        block
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
            (Val::Literal(None), "setValid" | "setInvalid") => Val::Nothing,
            (Val::Header(header), "setValid") => {
                self.touch(header);
                self.procedure("set_valid", header, span);
                Val::Nothing
            }
            (Val::Header(header), "setInvalid") => {
                self.touch(header);
                self.procedure("set_invalid", header, span);
                Val::Nothing
            }
            (Val::Stack(stack), "push_front" | "pop_front") => {
                let by = args.first().map_or(1, |arg| self.known_number(&arg.value));
                let by = by.min(u128::from(stack.size));
                if by == 0 {
                    return Val::Nothing;
                }
                if self.place == Place::Parser || !stack.elements.is_empty() {
                    self.move_elements(stack, &name.value, by as usize, span);
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
    pub(super) fn effect(&mut self, value: AstExpr, span: SourceSpan) -> AstExpr {
        let name = self.names.value();
        self.push(Made::Let(Sp::new(name.clone(), span), value), span);
        super::build::named(&[&name], span)
    }

    /// A statement `name(args)`.
    pub(super) fn run(&mut self, name: &str, args: Vec<ast::AstExpr>, span: SourceSpan) {
        self.push(Made::Call(Sp::new(name.to_owned(), span), args), span);
    }
}
