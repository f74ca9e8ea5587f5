//! Statements.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Def, Type};
use super::build::{binary, cast, known, not, number, slice};
use super::env::Val;
use super::v1model::plain_meta;
use super::walk::{self, Met};
use super::{Lower, Place, Return, wide};
use crate::ast::{self, ApplyStmt, AstExpr, Sp};
use crate::ir::SourceSpan;
use crate::ir::layout::ones;

/// Nothing behind it in its block runs.
fn ends_block(statement: &Stmt) -> bool {
    use StmtKind::{Break, Continue, Exit, Return};
    matches!(statement.kind, Return(_) | Exit | Break | Continue)
}

/// A `return` somewhere in these statements.
pub(super) fn returns(statements: &[Stmt]) -> bool {
    walk::any(statements, &mut |met| {
        matches!(met, Met::Statement(Stmt { kind: StmtKind::Return(_), .. }))
    })
}

impl Lower<'_> {
    /// Statements in a scope.
    pub(super) fn block(&mut self, statements: &[Stmt]) {
        let statements = match self.place {
            Place::Parser => Cow::Borrowed(statements),
            _ => super::sink::behind_reads(statements),
        };
        let statements = &*statements;
        for (at, statement) in statements.iter().enumerate() {
            self.span = statement.span;
            self.statement(statement);
            let rest = statements.get(at + 1..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
            if ends_block(statement) {
                self.note_dead(rest[0].span);
                return;
            }
            let mut flags = Vec::new();
            if let Some(Return::Flag(flag)) = self.returns.last()
                && returns(std::slice::from_ref(statement))
            {
                flags.push(flag.clone());
            }
            if let Some(iteration) = self.iterations.last()
                && super::loops::may_leave_iteration(statement)
            {
                flags.extend(iteration.skip.clone());
            }
            let flags = flags.into_iter().map(not);
            let Some(runs) = flags.reduce(|a, b| super::operate::both(a, b, statement.span)) else {
                continue;
            };
            if self.place == Place::Parser {
                let does = |lower: &mut Self, runs: bool| {
                    if runs {
                        lower.block(rest);
                    }
                };
                return self.branches(runs, does, statement.span);
            }
            let ((), rest) = self.apart(|lower| lower.block(rest));
            if !rest.is_empty() {
                self.push(ast::StmtKind::If(runs, rest, Vec::new()), statement.span);
            }
            return;
        }
    }

    pub(super) fn statement(&mut self, statement: &Stmt) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Block(block) => self.block(&block.statements),
            StmtKind::Assign(target, operator, value) => {
                self.assignment(target, *operator, value, span)
            }
            StmtKind::Call(call) => {
                let value = self.eval(call);
                // The packet may end in front of what it reads, which is an error of the parser.
                if is_lookahead(call) {
                    let ty = self.type_of(call);
                    self.keep_all(&value, &ty);
                }
            }
            StmtKind::If(condition, then, other) => {
                self.conditional(condition, then, other.as_deref(), span)
            }
            StmtKind::Switch(value, cases) => self.switch(value, cases, span),
            StmtKind::Return(value) => self.return_statement(value.as_ref(), span),
            StmtKind::Exit => self.exit(span),
            StmtKind::ForIn(decl, values, body) => self.for_in(decl, values, body, span),
            StmtKind::For { init, condition, update, body } => {
                self.for_three(init, condition, update, body, span);
            }
            StmtKind::Break => self.leave_iteration(true, span),
            StmtKind::Continue => self.leave_iteration(false, span),
            StmtKind::Declare(decl) => self.local(decl),
        }
    }

    /// A variable or constant of a block.
    pub(super) fn local(&mut self, decl: &Rc<Decl>) {
        match &decl.kind {
            DeclKind::Variable(_, value) => {
                let ty = self.declared(decl.id);
                let given = value.as_ref().map(|value| self.eval(value));
                if self.place == Place::Parser
                    && !self.written.contains(&decl.id)
                    && let Some(Val::Literal(Some(fields))) = &given
                {
                    // A header that only the parser has: the fields as they are now.
                    let kept = self.kept(&Val::Struct(fields.clone()), &ty, false);
                    let Val::Struct(fields) = kept else { return };
                    self.bind(decl.id, Val::Literal(Some(fields)));
                    return;
                }
                let place = self.variable(&ty, &decl.name.value, decl.name.span);
                self.bind(decl.id, place.clone());
                if let (Val::Scalar(place), Some(Val::Scalar(given))) = (&place, &given)
                    && let (Some(name), Some(value)) = (plain_meta(place), known(given))
                    && !self.written.contains(&decl.id)
                {
                    self.constants.insert(name, value);
                }
                match given {
                    Some(given) => self.assign(&place, &given, &ty, decl.name.span),
                    None if self.place != Place::Parser => self.invalidate(&place, decl.name.span),
                    None => {}
                }
            }
            DeclKind::Instance { args, .. } => {
                let value = self.instance(decl, args);
                self.bind(decl.id, value);
            }
            DeclKind::Action { .. } => {
                let value = Val::Action(self.env.clone());
                self.bind(decl.id, value);
            }
            DeclKind::Table(_) => {
                let value = Val::Table(decl.clone(), self.env.clone());
                self.bind(decl.id, value);
            }
            _ => {}
        }
    }

    fn assignment(
        &mut self,
        target: &Expr,
        operator: Option<Binary>,
        value: &Expr,
        span: SourceSpan,
    ) {
        let ty = self.type_of(target);
        if let ExprKind::PlusSlice(of, base, width) = &*target.kind
            && !self.checked.consts.contains_key(&base.id)
        {
            let width = self.known_number(width) as u32;
            self.assign_moving((of, base, width), operator, (value, &ty), span);
            return;
        }
        if let (Place::Parser, ExprKind::Slice(of, high, low)) = (self.place, &*target.kind) {
            let bounds = (self.known_number(high) as u32, self.known_number(low) as u32);
            // The left side first: what the value does must not move it.
            let mut part = operator.map(|operator| (operator, self.scalar(target)));
            let mut first = |lower: &mut Self| {
                if let Some((_, part)) = &mut part {
                    *part = lower.number_kept(part.clone(), &ty);
                }
            };
            let mut value = self.behind(value, |lower| lower.scalar(value), &mut first);
            if let Some((operator, part)) = part {
                value = self.operate(operator, part, value, &ty, span);
            }
            return self.assign_part(of, bounds, value, span);
        }
        let Some(operator) = operator else {
            // The left side first: what the value does must not move the place.
            let mut place = self.place_of(target);
            let mut first = |lower: &mut Self| place = lower.fixed(place.clone());
            let given = self.behind(value, |lower| lower.eval(value), &mut first);
            if let (Val::Scalar(_), Val::Scalar(inner)) = (&place, &given)
                && known(inner).is_none()
            {
                let from = self.type_of(value);
                if matches!(from, Type::Integer) {
                    let bits = self.bits(&ty, span);
                    self.assign(&place, &Val::Scalar(cast(bits, inner.clone())), &ty, span);
                    return;
                }
            }
            self.assign(&place, &given, &ty, span);
            return;
        };
        let mut place = self.place_of(target);
        let mut left = match &place {
            Val::Choice(choice) => self.read(choice, span),
            other => other.clone(),
        };
        let mut first = |lower: &mut Self| {
            place = lower.fixed(place.clone());
            left = lower.keep_all(&left, &ty);
        };
        let right = self.behind(value, |lower| lower.scalar(value), &mut first);
        let Val::Scalar(left) = left else { return };
        let mut value = self.operate(operator, left, right, &ty, span);
        if matches!(place, Val::Choice(_)) && self.place != Place::Parser {
            value = self.number_kept(value, &ty);
        }
        self.assign(&place, &Val::Scalar(value), &ty, span);
    }

    /// `x[high:low] = value` where only whole values are written: with the bits of `x` around it.
    fn assign_part(
        &mut self,
        of: &Expr,
        (high, low): (u32, u32),
        value: ast::AstExpr,
        span: SourceSpan,
    ) {
        if let ExprKind::Slice(inner, _, below) = &*of.kind {
            let below = self.known_number(below) as u32;
            return self.assign_part(inner, (high + below, low + below), value, span);
        }
        let ty = self.type_of(of);
        let bits = self.bits(&ty, span);
        let place = self.place_of(of);
        let (Val::Scalar(whole), true) = (&place, high < bits && low <= high) else {
            self.unsupported(span, "this part cannot be written in a parser");
            return;
        };
        if wide::is_wide(&ty) {
            return self.assign_wide(
                &slice(whole.clone(), high, low, span),
                &value,
                high - low + 1,
                span,
            );
        }
        let around = ones(bits) & !(ones(high - low + 1) << low);
        let kept = binary(ast::AstBin::And, whole.clone(), number(around, bits, span), span);
        let moved = binary(ast::AstBin::Shl, cast(bits, value), number(low.into(), 0, span), span);
        let value = binary(ast::AstBin::Or, kept, moved, span);
        self.assign(&place, &Val::Scalar(value), &ty, span);
    }

    /// `x[base+:width] = value` with a computed base, or `op=`. The left side first: what the value does must not move the place.
    fn assign_moving(
        &mut self,
        (of, base, width): (&Expr, &Expr, u32),
        operator: Option<Binary>,
        (value, part): (&Expr, &Type),
        span: SourceSpan,
    ) {
        let (ty, of_base) = (self.type_of(of), self.type_of(base));
        if wide::is_wide(&ty) {
            return self.no_wide(&ty, span);
        }
        let bits = self.bits(&ty, span);
        let mut place = self.place_of(of);
        let mut at = self.scalar(base);
        let mut old = self.read_of(&place, span);
        let mut first = |lower: &mut Self| {
            place = lower.fixed(place.clone());
            at = lower.number_kept(at.clone(), &of_base);
            if operator.is_some() {
                old = lower.number_kept(old.clone(), &ty);
            }
        };
        let given = self.behind(value, |lower| lower.eval(value), &mut first);
        let mut value = self.number_in(&given, span);
        if let Some(operator) = operator {
            let moved = binary(ast::AstBin::Shr, old, at.clone(), span);
            value = self.operate(operator, slice(moved, width - 1, 0, span), value, part, span);
        }
        let ones = number(ones(width), bits, span);
        let mask = binary(ast::AstBin::Shl, ones, at.clone(), span);
        let around = super::build::unary(ast::AstUn::Complement, mask, span);
        let kept = binary(ast::AstBin::And, self.read_of(&place, span), around, span);
        let moved = binary(ast::AstBin::Shl, cast(bits, value), at, span);
        let mut whole = binary(ast::AstBin::Or, kept, moved, span);
        if matches!(place, Val::Choice(_)) && self.place != Place::Parser {
            whole = self.keep(whole);
        }
        self.assign(&place, &Val::Scalar(whole), &ty, span);
    }

    /// The number in a place.
    fn read_of(&mut self, place: &Val, span: SourceSpan) -> ast::AstExpr {
        let value = match place {
            Val::Choice(choice) => self.read(choice, span),
            other => other.clone(),
        };
        self.number_in(&value, span)
    }

    fn conditional(
        &mut self,
        condition: &Expr,
        then: &Stmt,
        other: Option<&Stmt>,
        span: SourceSpan,
    ) {
        let no = || Stmt { kind: StmtKind::Block(Block { statements: Vec::new() }), span };
        let nothing = no();
        let other = other.unwrap_or(&nothing);
        if self.place == Place::Parser {
            self.parser_if(condition, then, other, span);
            return;
        }
        // `if (table.apply().hit)` is the language's own.
        if let Some((table, hits)) = self.applied_directly(condition) {
            let Some(name) = self.applied_table(&table) else { return };
            let (then, other) = if hits { (then, other) } else { (other, then) };
            let ((), hit) = self.apart(|lower| lower.scoped(then));
            let ((), miss) = self.apart(|lower| lower.scoped(other));
            let apply = ApplyStmt { table: Sp::new(name, span), hit, miss, actions: Vec::new() };
            self.push_apply(apply, span);
            return;
        }
        let condition = self.scalar(condition);
        if let Some(value) = known(&condition) {
            self.scoped(if value != 0 { then } else { other });
            return;
        }
        let ((), then) = self.apart(|lower| lower.scoped(then));
        let ((), other) = self.apart(|lower| lower.scoped(other));
        if !then.is_empty() || !other.is_empty() {
            self.push(ast::StmtKind::If(condition, then, other), span);
        }
    }

    pub(super) fn scoped(&mut self, statement: &Stmt) {
        self.block(std::slice::from_ref(statement));
    }

    /// `t.apply().hit`, `!t.apply().hit`, and so on: the table, and whether the condition is a hit.
    fn applied_directly(&mut self, condition: &Expr) -> Option<(Expr, bool)> {
        match &*condition.kind {
            ExprKind::Unary(Unary::Not, inner) => {
                self.applied_directly(inner).map(|(table, hits)| (table, !hits))
            }
            ExprKind::Member(of, name) if matches!(&*name.value, "hit" | "miss") => {
                let ExprKind::Call { callee, .. } = &*of.kind else { return None };
                let ExprKind::Member(table, _) = &*callee.kind else { return None };
                matches!(self.type_of(table), Type::Table(_))
                    .then(|| (table.clone(), &*name.value == "hit"))
            }
            _ => None,
        }
    }

    /// The name of the table that an expression is.
    fn applied_table(&mut self, table: &Expr) -> Option<String> {
        match self.eval(table) {
            Val::Table(decl, env) => self.table_name(&decl, &env),
            _ => None,
        }
    }

    fn switch(&mut self, value: &Expr, cases: &[SwitchCase], span: SourceSpan) {
        if let Type::ActionRun(_) = self.type_of(value) {
            self.switch_action(value, cases, span);
            return;
        }
        let ty = self.type_of(value);
        let scalar = self.scalar(value);
        if self.place == Place::Parser {
            let (groups, default) = grouped(cases);
            return self.switch_in_parser((&scalar, &ty), &groups, default, span);
        }
        let (mut made, mut labels, mut default) = (Vec::new(), Vec::new(), Vec::new());
        let mut to_default = false;
        for case in cases {
            match &case.label {
                Some(label) => labels.push(self.case_value(label, &ty)),
                None => to_default = true,
            }
            let Some(body) = &case.body else { continue };
            let ((), body) = self.apart(|lower| lower.block(&body.statements));
            if to_default {
                default = body;
                labels.clear();
            } else {
                made.push((std::mem::take(&mut labels), body));
            }
        }
        if matches!(ty, Type::Error) {
            self.switch_error(scalar, made, default, span);
            return;
        }
        self.push(ast::StmtKind::Switch(scalar, made, default), span);
    }

    /// The label of a case, as wide as what is compared with it.
    fn case_value(&mut self, label: &Expr, ty: &Type) -> AstExpr {
        let bits = self.bits(ty, label.span);
        let label = self.scalar(label);
        match known(&label) {
            Some(value) if bits > 0 => number(value, bits, label.span),
            _ => label,
        }
    }

    /// In a parser: states for the first case, and for the others.
    fn switch_in_parser(
        &mut self,
        (value, ty): (&AstExpr, &Type),
        groups: &[(Vec<&Expr>, &Block)],
        default: Option<&Block>,
        span: SourceSpan,
    ) {
        let Some(((labels, body), others)) = groups.split_first() else {
            return default.into_iter().for_each(|block| self.block(&block.statements));
        };
        let same = labels.iter().map(|label| {
            let label = self.case_value(label, ty);
            binary(ast::AstBin::Eq, value.clone(), label, span)
        });
        let either = |a, b| binary(ast::AstBin::LogicalOr, a, b, span);
        let Some(is_it) = same.reduce(either) else { return };
        let branch = |lower: &mut Self, is_so: bool| match is_so {
            true => lower.block(&body.statements),
            false => lower.switch_in_parser((value, ty), others, default, span),
        };
        self.branches(is_it, branch, span);
    }

    /// Errors have no numbers in the text, so they are compared one by one.
    fn switch_error(
        &mut self,
        value: AstExpr,
        cases: Vec<(Vec<AstExpr>, Vec<ast::Stmt>)>,
        default: Vec<ast::Stmt>,
        span: SourceSpan,
    ) {
        let mut other = default;
        for (labels, body) in cases.into_iter().rev() {
            let mut condition = number(0, 1, span);
            for label in labels {
                let same = binary(ast::AstBin::Eq, value.clone(), label, span);
                condition = match known(&condition) {
                    Some(_) => same,
                    None => binary(ast::AstBin::LogicalOr, condition, same, span),
                };
            }
            other = vec![ast::Stmt { kind: ast::StmtKind::If(condition, body, other), span }];
        }
        self.out.extend(other);
    }

    fn switch_action(&mut self, value: &Expr, cases: &[SwitchCase], span: SourceSpan) {
        let table = match &*value.kind {
            ExprKind::Member(of, _) => match &*of.kind {
                ExprKind::Call { callee, .. } => match &*callee.kind {
                    ExprKind::Member(table, _) => Some(table.clone()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let Some(table) = table else {
            self.unsupported(
                span,
                "`switch` on the action needs `table.apply().action_run` itself",
            );
            return;
        };
        let Val::Table(decl, env) = self.eval(&table) else { return };
        let Some(name) = self.table_name(&decl, &env) else { return };
        let (mut actions, mut labels, mut default) = (Vec::new(), Vec::new(), None);
        let mut to_default = false;
        for case in cases {
            match &case.label {
                Some(label) => {
                    if let Some(Def::Decl(action)) = self.checked.defs.get(&label.id).cloned()
                        && let Some(action) = self.listed_action(&decl, &env, &action)
                    {
                        labels.push(Sp::new(action, label.span));
                    }
                }
                None => to_default = true,
            }
            let Some(body) = &case.body else { continue };
            let ((), body) = self.apart(|lower| lower.block(&body.statements));
            if to_default {
                default = Some(body);
                labels.clear();
            } else if !labels.is_empty() {
                actions.push((std::mem::take(&mut labels), body));
            }
        }
        if let Some(body) = default {
            actions.push((vec![Sp::new("default".to_owned(), span)], body));
        }
        let apply =
            ApplyStmt { table: Sp::new(name, span), hit: Vec::new(), miss: Vec::new(), actions };
        self.push_apply(apply, span);
    }

    fn return_statement(&mut self, value: Option<&Expr>, span: SourceSpan) {
        match self.returns.last().cloned() {
            Some(Return::Flag(flag)) => {
                if let Some(value) = value {
                    let ty = self.type_of(value);
                    let given = self.eval(value);
                    if let Some(place) = self.env.find(super::call::RESULT) {
                        self.assign(&place, &given, &ty, span);
                    }
                }
                self.set(&flag, number(1, 1, span), span);
            }
            _ => self.push(ast::StmtKind::Return, span),
        }
    }
}

/// The bodies of a `switch` with their labels, and that of `default`, which is the last.
fn grouped(cases: &[SwitchCase]) -> (Vec<(Vec<&Expr>, &Block)>, Option<&Block>) {
    let (mut groups, mut labels) = (Vec::new(), Vec::new());
    for case in cases {
        labels.extend(&case.label);
        match (&case.body, &case.label) {
            (Some(body), None) => return (groups, Some(body)),
            (Some(body), Some(_)) => groups.push((std::mem::take(&mut labels), body)),
            (None, _) => {}
        }
    }
    (groups, None)
}

/// `packet.lookahead<T>()`.
fn is_lookahead(call: &Expr) -> bool {
    let ExprKind::Call { callee, .. } = &*call.kind else { return false };
    matches!(&*callee.kind, ExprKind::Member(_, name) if &*name.value == "lookahead")
}
