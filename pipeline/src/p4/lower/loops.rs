//! Loops: iteration by iteration, where every iteration is known when the program is compiled (else see `runtime_loops`). `break` and
//! `continue` are bits that skip the rest of the loop or of the iteration.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Callee, Def, Type};
use super::build::{known, not, number};
use super::env::Val;
use super::stmt::returns;
use super::walk::{self, Met};
use super::{Lower, Place, Return};
use crate::ast::{self, AstExpr};
use crate::ir::SourceSpan;
use crate::ir::layout::ones;

/// Most iterations of a loop.
const ITERATIONS_MAX: u128 = 1024;

/// Bits of the loop that is being made.
#[derive(Clone, Debug)]
pub(super) struct Iteration {
    /// The rest of this iteration is not run; where something leaves it.
    pub(super) skip: Option<AstExpr>,
    /// No further iteration is.
    pub(super) broken: Option<AstExpr>,
    /// The same, because the function has returned.
    returned: Option<AstExpr>,
    /// Its iterations are counted when a packet runs.
    pub(super) is_counted_later: bool,
}

/// A `for` with three parts.
struct Three<'a> {
    init: &'a [Stmt],
    condition: &'a Expr,
    update: &'a [Stmt],
    body: &'a Stmt,
}

/// The variable of a loop.
struct Counted {
    id: u32,
    name: Rc<str>,
    place: Option<Val>,
    ty: Type,
    bits: u32,
    value: u128,
}

/// A number of this type, moved so that it is ordered as an unsigned one; and back.
fn ordered(value: u128, ty: &Type, bits: u32) -> u128 {
    match ty.base() {
        Type::Int(_) => value ^ 1 << (bits - 1),
        _ => value,
    }
}

impl Lower<'_> {
    /// A loop over known values, iteration by iteration.
    pub(super) fn for_in(&mut self, decl: &Rc<Decl>, values: &Expr, body: &Stmt, span: SourceSpan) {
        let ty = self.declared(decl.id);
        let writes = self.writes_to(body, &decl.name.value, true);
        let ExprKind::Range(low, high) = &*values.kind else {
            let elements = self.elements(decl, values, writes);
            self.iterate_over(decl, &elements, None, body, span);
            // The next loop may have what these were kept in.
            let lent = elements.into_iter().filter(|one| writes || is_header(one));
            return self.spare.entry(key_of(&ty)).or_default().extend(lent);
        };
        let bits = self.bits(&ty, span);
        let limits = self.each_in_order([low, high]);
        let [low, high] = limits.map(|limit| self.number_in(&limit, span));
        let (Some(low), Some(high)) = (known(&low), known(&high)) else {
            return self.for_range_later(decl, (low, high), body, span);
        };
        let (low, high) = (ordered(low, &ty, bits), ordered(high, &ty, bits));
        if high >= low && high - low >= ITERATIONS_MAX {
            self.unsupported(span, format!("a loop has at most {ITERATIONS_MAX} iterations"));
            return;
        }
        let numbers: Vec<Val> = (low..=high)
            .map(|value| Val::Scalar(number(ordered(value, &ty, bits), bits, span)))
            .collect();
        let own = writes.then(|| self.storage(&ty, &decl.name.value, span));
        self.iterate_over(decl, &numbers, own.as_ref(), body, span);
    }

    fn iterate_over(
        &mut self,
        decl: &Rc<Decl>,
        values: &[Val],
        own: Option<&Val>,
        body: &Stmt,
        span: SourceSpan,
    ) {
        let marks = self.begin_loop(body, span);
        for value in values {
            if !self.is_within_bounds(span) {
                return;
            }
            self.unless_broken(&marks, span, |lower| {
                lower.bind_iteration(decl, value, own, span);
                lower.iteration(&marks, body, span);
            });
        }
    }

    /// The variable of a loop has this value for an iteration: in storage of its own, where the body writes it.
    pub(super) fn bind_iteration(
        &mut self,
        decl: &Rc<Decl>,
        value: &Val,
        own: Option<&Val>,
        span: SourceSpan,
    ) {
        if let Some(own) = own {
            let ty = self.declared(decl.id);
            self.assign(own, value, &ty, span);
        }
        self.bind(decl.id, own.unwrap_or(value).clone());
    }

    /// The elements of a list, array or stack, as they are before the loop; headers, and what the body writes, in storage of their own.
    fn elements(&mut self, decl: &Rc<Decl>, values: &Expr, writes: bool) -> Vec<Val> {
        let (ty, span) = (self.declared(decl.id), values.span);
        let elements = match self.eval(values) {
            Val::Struct(fields) => fields.iter().map(|(_, value)| value.clone()).collect(),
            Val::Stack(stack) => self.elements_of(&stack, span),
            _ => Vec::new(),
        };
        let mut kept = Vec::new();
        for element in &elements {
            if !writes && !is_header(element) {
                kept.push(self.keep_all(element, &ty));
                continue;
            }
            let spare = self.spare.get_mut(&key_of(&ty)).and_then(Vec::pop);
            let place = spare.unwrap_or_else(|| self.storage(&ty, &decl.name.value, span));
            self.assign(&place, element, &ty, span);
            kept.push(place);
        }
        kept
    }

    /// A loop whose variables have known values in each iteration. What else its head and its update do is done as it stands there.
    pub(super) fn for_three(
        &mut self,
        init: &[Stmt],
        condition: &Expr,
        update: &[Stmt],
        body: &Stmt,
        span: SourceSpan,
    ) {
        let Some(mut counters) = self.counters(&Three { init, condition, update, body }) else {
            self.for_counted_later(init, condition, update, body, span);
            return;
        };
        self.begin_counters(init, &counters);
        let mut marks = self.begin_loop(body, span);
        let mut later = 0;
        for iterations in 0.. {
            if !self.is_within_bounds(span) {
                return;
            }
            for one in &counters {
                self.bind(one.id, Val::Scalar(number(one.value, one.bits, span)));
            }
            let (holds, does) = self.apart(|lower| lower.scalar(condition));
            let holds_now = known(&holds).filter(|_| does.is_empty());
            if iterations >= ITERATIONS_MAX && holds_now.is_some_and(|holds| holds != 0) {
                self.unsupported(span, format!("a loop has at most {ITERATIONS_MAX} iterations"));
                return;
            }
            if holds_now == Some(0) {
                self.unless_broken(&marks, span, |lower| lower.store(&counters, span));
                break;
            }
            if holds_now.is_none() {
                if !self.may_count_later(condition.span) {
                    return;
                }
                self.count_later(&mut marks, span);
                let is_last = later >= self.iterations_max(body);
                later += 1;
                self.unless_broken(&marks, span, |lower| {
                    lower.out.extend(does);
                    if is_last {
                        return lower.drop_if_more(holds, span);
                    }
                    lower.break_unless(&marks, holds, span, |lower| lower.store(&counters, span));
                });
                if is_last {
                    break;
                }
            }
            let mut is_known = false;
            self.unless_broken(&marks, span, |lower| {
                lower.store(&counters, span);
                lower.iteration(&marks, body, span);
                is_known = lower.count_on(&mut counters, update, &marks);
            });
            if !is_known {
                self.unsupported(
                    span,
                    "what the loop counts must be known when the program is compiled",
                );
                return;
            }
        }
        self.unbind(&counters);
    }

    /// Variables of the block around that a loop counts with, as they are now.
    fn store(&mut self, counters: &[Counted], span: SourceSpan) {
        for one in counters {
            if let Some(place) = &one.place {
                let at = Val::Scalar(number(one.value, one.bits, span));
                self.assign(place, &at, &one.ty, span);
            }
        }
    }

    /// The variables of a loop's head whose values are known in every iteration, in their order: they begin with a known value, and only
    /// the update changes them, by constants and such variables. None where none of them decides how long the loop goes on, unless head and update do
    /// nothing else.
    fn counters(&mut self, of: &Three) -> Option<Vec<Counted>> {
        let mut counters: Vec<Counted> = Vec::new();
        for (at, first) in of.init.iter().enumerate() {
            let Some(name) = begun(first) else { continue };
            let is_own = matches!(first.kind, StmtKind::Declare(_));
            let others = of.init.iter().enumerate().filter(|(other, _)| *other != at);
            let is_changed = others
                .map(|(_, other)| other)
                .chain([of.body])
                .any(|one| self.writes_to(one, &name, is_own))
                || self.asks_and_writes(of.condition, &name, is_own);
            let before: Vec<Rc<str>> = of.init[..at].iter().filter_map(begun).collect();
            let is_unknown = |name: &Rc<str>| {
                before.contains(name) && !counters.iter().any(|one| one.name == *name)
            };
            if is_changed || first_value(first).is_none_or(|value| names_one(value, is_unknown)) {
                continue;
            }
            if let Some(one) = self.counted(first, name) {
                self.bind(one.id, Val::Scalar(number(one.value, one.bits, first.span)));
                counters.push(one);
            }
        }
        self.unbind(&counters);
        loop {
            let names: Vec<Rc<str>> = counters.iter().map(|one| one.name.clone()).collect();
            counters.retain(|one| of.update.iter().all(|next| self.changes(next, one, &names)));
            if counters.len() < names.len() {
                continue;
            }
            let all = counters.len() == of.init.len()
                && of
                    .update
                    .iter()
                    .all(|one| begun_again(one).is_some_and(|name| names.contains(name)));
            let decides = || names_one(of.condition, |name| names.contains(name));
            return (!counters.is_empty() && (all || decides())).then_some(counters);
        }
    }

    /// Whether a variable has a known value behind this statement of the update, where these have known ones before.
    fn changes(&self, next: &Stmt, of: &Counted, names: &[Rc<str>]) -> bool {
        match (&next.kind, begun_again(next)) {
            (StmtKind::Assign(_, _, value), Some(name)) if *name == of.name => {
                self.counts(value, names)
            }
            _ => !self.writes_to(next, &of.name, of.place.is_none()),
        }
    }

    /// The head of a loop with these variables.
    fn begin_counters(&mut self, init: &[Stmt], counters: &[Counted]) {
        let mut begun_now = 0;
        for first in init {
            let name = begun(first);
            match counters.iter().find(|one| name.as_ref() == Some(&one.name)) {
                Some(one) => {
                    self.bind(one.id, Val::Scalar(number(one.value, one.bits, first.span)));
                    begun_now += 1;
                }
                None => {
                    self.store(&counters[..begun_now], first.span);
                    self.statement(first);
                }
            }
        }
    }

    /// Variables of the block around are in their places again.
    fn unbind(&self, counters: &[Counted]) {
        for one in counters {
            if let Some(place) = &one.place {
                self.bind(one.id, place.clone());
            }
        }
    }

    /// Whether a value is made of constants and these variables.
    fn counts(&self, value: &Expr, names: &[Rc<str>]) -> bool {
        if self.checked.consts.contains_key(&value.id) {
            return true;
        }
        match &*value.kind {
            ExprKind::Name(name, _) => names.contains(&name.value),
            ExprKind::Binary(_, left, right) => {
                self.counts(left, names) && self.counts(right, names)
            }
            ExprKind::Unary(_, operand) | ExprKind::Cast(_, operand) => self.counts(operand, names),
            _ => false,
        }
    }

    /// A variable of a loop: its declaration, where it is if it is one of the block around, and its first value.
    fn counted(&mut self, first: &Stmt, name: Rc<str>) -> Option<Counted> {
        let (decl, value, is_own) = match &first.kind {
            StmtKind::Declare(decl) => match &decl.kind {
                DeclKind::Variable(_, Some(value)) => (decl.clone(), value.clone(), true),
                _ => return None,
            },
            StmtKind::Assign(target, None, value) => match self.checked.defs.get(&target.id) {
                Some(Def::Decl(decl)) if matches!(decl.kind, DeclKind::Variable(..)) => {
                    (decl.clone(), value.clone(), false)
                }
                _ => return None,
            },
            _ => return None,
        };
        let ty = self.declared(decl.id);
        if !matches!(ty.base(), Type::Bit(_) | Type::Int(_)) {
            return None;
        }
        let (value, does) = self.apart(|lower| lower.eval_as(&value, &ty));
        let value = match value {
            Val::Scalar(value) => known(&value).filter(|_| does.is_empty())?,
            _ => return None,
        };
        let place = if is_own { None } else { Some(self.env.find(decl.id)?) };
        let bits = self.bits(&ty, decl.name.span);
        Some(Counted { id: decl.id, name, place, ty, bits, value })
    }

    /// The update: the values in the next iteration, and what else is there; whether the values are known.
    fn count_on(&mut self, counters: &mut [Counted], update: &[Stmt], marks: &Iteration) -> bool {
        for statement in update {
            let span = statement.span;
            let is_counter = begun_again(statement)
                .and_then(|name| counters.iter().position(|one| one.name == *name));
            let (StmtKind::Assign(_, operator, value), Some(at)) = (&statement.kind, is_counter)
            else {
                self.unless_left(marks, span, |lower| {
                    lower.store(counters, span);
                    lower.statement(statement);
                });
                continue;
            };
            let Some(next) = self.counted_on(&counters[at], *operator, value, span) else {
                return false;
            };
            let one = &mut counters[at];
            one.value = next;
            self.bind(one.id, Val::Scalar(number(next, one.bits, span)));
        }
        true
    }

    /// The value of one of them in the next iteration.
    fn counted_on(
        &mut self,
        counted: &Counted,
        operator: Option<Binary>,
        value: &Expr,
        span: SourceSpan,
    ) -> Option<u128> {
        let (value, does) = self.apart(|lower| lower.eval_as(value, &counted.ty));
        let Val::Scalar(mut value) = value else { return None };
        if let Some(operator) = operator {
            let now = number(counted.value, counted.bits, span);
            value = self.operate(operator, now, value, &counted.ty, span);
        }
        known(&value).filter(|_| does.is_empty()).map(|value| value & ones(counted.bits))
    }

    /// Marks for `break`, `continue` and `return`, where the body has one.
    pub(super) fn begin_loop(&mut self, body: &Stmt, span: SourceSpan) -> Iteration {
        let returned = match self.returns.last() {
            Some(Return::Flag(flag)) if returns(std::slice::from_ref(body)) => Some(flag.clone()),
            _ => None,
        };
        if !may_leave_iteration(body) {
            return Iteration { skip: None, broken: None, returned, is_counted_later: false };
        }
        let (skip, broken) = (self.new_meta("skips", 1, span), self.new_meta("broken", 1, span));
        self.set(&broken, number(0, 1, span), span);
        Iteration { skip: Some(skip), broken: Some(broken), returned, is_counted_later: false }
    }

    /// The body of an iteration.
    pub(super) fn iteration(&mut self, marks: &Iteration, body: &Stmt, span: SourceSpan) {
        if let Some(skip) = &marks.skip {
            self.set(skip, number(0, 1, span), span);
        }
        self.iterations.push(marks.clone());
        self.scoped(body);
        self.iterations.pop();
    }

    /// What follows the body in its iteration: not where the body has left the loop.
    pub(super) fn unless_left(
        &mut self,
        marks: &Iteration,
        span: SourceSpan,
        inner: impl FnOnce(&mut Self),
    ) {
        match marks.skip.is_some() || marks.returned.is_some() {
            true => self.unless_broken(marks, span, inner),
            false => inner(self),
        }
    }

    /// What is done if the loop goes on.
    pub(super) fn unless_broken(
        &mut self,
        marks: &Iteration,
        span: SourceSpan,
        inner: impl FnOnce(&mut Self),
    ) {
        let ended = [&marks.broken, &marks.returned].into_iter().flatten();
        let goes_on = ended.map(|mark| not(mark.clone()));
        let goes_on = goes_on.reduce(|a, b| super::operate::both(a, b, span));
        if self.place == Place::Parser
            && let Some(goes_on) = goes_on
        {
            let mut inner = Some(inner);
            let branch = |lower: &mut Self, is_so: bool| {
                if let Some(inner) = inner.take_if(|_| is_so) {
                    inner(lower);
                }
            };
            return self.branches(goes_on, branch, span);
        }
        let ((), made) = self.apart(inner);
        match goes_on {
            Some(_) if made.is_empty() => {}
            Some(goes_on) => self.push(ast::StmtKind::If(goes_on, made, Vec::new()), span),
            None => self.out.extend(made),
        }
    }

    /// Whether a statement may write the variable of this name. Of one that the loop itself declares (`is_own`) no action or table knows.
    pub(super) fn writes_to(&self, statement: &Stmt, name: &str, is_own: bool) -> bool {
        walk::in_statement(statement, &mut |met| match met {
            Met::Statement(Stmt { kind: StmtKind::Assign(target, ..), .. }) => is_of(target, name),
            Met::Expr(call) => self.call_writes(call, name, is_own),
            Met::Statement(_) => false,
        })
    }

    /// The same for a condition.
    fn asks_and_writes(&self, condition: &Expr, name: &str, is_own: bool) -> bool {
        walk::in_expr(
            condition,
            &mut |met| matches!(met, Met::Expr(call) if self.call_writes(call, name, is_own)),
        )
    }

    /// The same for a call, without what is in its arguments.
    fn call_writes(&self, call: &Expr, name: &str, is_own: bool) -> bool {
        let ExprKind::Call { callee, args, .. } = &*call.kind else { return false };
        let Some(info) = self.checked.calls.get(&call.id) else { return true };
        let is_given = |arg: &Arg| is_of(&arg.value, name);
        let is_written = |params: &[Param]| {
            params.iter().zip(&info.order).any(|(param, at)| {
                super::arguments::writes(param)
                    && at.and_then(|at| args.get(at)).is_some_and(is_given)
            })
        };
        match &info.callee {
            Callee::Constructor => false,
            Callee::Apply => !is_own || args.iter().any(is_given),
            Callee::Builtin => matches!(&*callee.kind, ExprKind::Member(of, _) if is_of(of, name)),
            Callee::Method(decl, at) => match &decl.kind {
                DeclKind::Extern(of) => {
                    of.methods.get(*at).is_none_or(|one| is_written(&one.params))
                }
                _ => true,
            },
            Callee::Decl(decl) => match &decl.kind {
                DeclKind::Function(function) => is_written(&function.params),
                DeclKind::Action { params, .. } => !is_own || is_written(params),
                _ => true,
            },
        }
    }

    /// `break` or `continue`.
    pub(super) fn leave_iteration(&mut self, ends: bool, span: SourceSpan) {
        let Some(iteration) = self.iterations.last().cloned() else { return };
        let broken = iteration.broken.filter(|_| ends);
        for mark in [iteration.skip, broken].into_iter().flatten() {
            self.set(&mark, number(1, 1, span), span);
        }
    }
}

/// The variable that a statement of a loop's head gives a first value.
fn begun(statement: &Stmt) -> Option<Rc<str>> {
    match &statement.kind {
        StmtKind::Declare(decl) => Some(decl.name.value.clone()),
        StmtKind::Assign(target, None, _) => match &*target.kind {
            ExprKind::Name(name, _) => Some(name.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The first value of such a variable.
fn first_value(statement: &Stmt) -> Option<&Expr> {
    match &statement.kind {
        StmtKind::Declare(decl) => match &decl.kind {
            DeclKind::Variable(_, value) => value.as_ref(),
            _ => None,
        },
        StmtKind::Assign(_, None, value) => Some(value),
        _ => None,
    }
}

/// The variable that a statement of a loop's update assigns to.
fn begun_again(statement: &Stmt) -> Option<&Rc<str>> {
    match &statement.kind {
        StmtKind::Assign(target, ..) => match &*target.kind {
            ExprKind::Name(name, _) => Some(&name.value),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression names such a variable.
fn names_one(value: &Expr, is: impl Fn(&Rc<str>) -> bool) -> bool {
    walk::in_expr(
        value,
        &mut |met| matches!(met, Met::Expr(Expr { kind, .. }) if matches!(&**kind, ExprKind::Name(name, _) if is(&name.value))),
    )
}

/// A `break` or `continue` that belongs to the loop around this statement.
pub(super) fn may_leave_iteration(statement: &Stmt) -> bool {
    let all = |statements: &[Stmt]| statements.iter().any(may_leave_iteration);
    match &statement.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::Block(block) => all(&block.statements),
        StmtKind::If(_, then, other) => {
            may_leave_iteration(then)
                || other.as_ref().is_some_and(|other| may_leave_iteration(other))
        }
        StmtKind::Switch(_, cases) => {
            cases.iter().filter_map(|case| case.body.as_ref()).any(|body| all(&body.statements))
        }
        _ => false,
    }
}

fn is_header(value: &Val) -> bool {
    matches!(value, Val::Header(_) | Val::Union(_))
}

/// Types that have one key have one storage.
fn key_of(ty: &Type) -> String {
    match ty {
        Type::Struct(of) => format!("{} {ty}", of.decl.id),
        _ => ty.to_string(),
    }
}

/// The variable of this name, or a part of it.
fn is_of(target: &Expr, name: &str) -> bool {
    matches!(&*walk::root(target).kind, ExprKind::Name(known, _) if *known.value == *name)
}
