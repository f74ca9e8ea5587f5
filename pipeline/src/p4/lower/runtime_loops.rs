//! Loops whose iterations are counted when a packet runs.
//!
//! The project's language has no loops, so the body is repeated as often as it may run, each copy under the condition
//! that the loop continues. A packet for which a loop would continue after its last iteration is dropped for the reason
//! `loop_iterations`, so no packet leaves after an incomplete loop.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::build::{binary, known, not, number};
use super::env::Val;
use super::loops::Iteration;
use super::walk::{self, Met};
use super::{Lower, Place};
use crate::ast::{self, AstBin, AstExpr, Sp};
use crate::ir::SourceSpan;

/// Most iterations of a loop that is counted when a packet runs: those of a counter of 8 bits.
const ITERATIONS_MAX: usize = 256;
/// The same of such a loop in another one, and of the other one.
const NESTED_ITERATIONS_MAX: usize = 32;
/// The reason of dropping a packet for which a loop would continue.
const REASON: &str = "loop_iterations";

impl Lower<'_> {
    /// Most iterations of a loop with this body.
    pub(super) fn iterations_max(&self, body: &Stmt) -> usize {
        let is_inner = self.iterations.iter().any(|iteration| iteration.is_counted_later);
        if is_inner || has_loop(body) { NESTED_ITERATIONS_MAX } else { ITERATIONS_MAX }
    }

    /// Whether iterations can be counted here at all; an error where not.
    pub(super) fn may_count_later(&mut self, span: SourceSpan) -> bool {
        if self.place == Place::Parser {
            self.unsupported(
                span,
                "the iterations of a loop in a parser must be known when the program is compiled",
            );
            return false;
        }
        true
    }

    /// Drops the packet if the loop would still continue.
    pub(super) fn drop_if_more(&mut self, goes_on: AstExpr, span: SourceSpan) {
        let reason = Some(Sp::new(REASON.to_owned(), span));
        let drop = ast::Stmt { kind: ast::StmtKind::Drop(reason), span };
        match known(&goes_on) {
            Some(0) => {}
            Some(_) => self.out.push(drop),
            None => self.push(ast::StmtKind::If(goes_on, vec![drop], Vec::new()), span),
        }
    }

    /// Marks of a loop that is counted when a packet runs.
    fn begin_counting(&mut self, body: &Stmt, span: SourceSpan) -> Iteration {
        let mut marks = self.begin_loop(body, span);
        self.count_later(&mut marks, span);
        marks
    }

    /// From here on the loop is counted when a packet runs.
    pub(super) fn count_later(&mut self, marks: &mut Iteration, span: SourceSpan) {
        if marks.broken.is_none() {
            let broken = self.new_meta("broken", 1, span);
            self.set(&broken, number(0, 1, span), span);
            marks.broken = Some(broken);
        }
        marks.is_counted_later = true;
    }

    /// No further iteration, if the condition does not hold; where the loop goes on before.
    pub(super) fn break_unless(
        &mut self,
        marks: &Iteration,
        holds: AstExpr,
        span: SourceSpan,
        then: impl FnOnce(&mut Self),
    ) {
        let Some(broken) = &marks.broken else { return };
        let holds_now = known(&holds);
        if holds_now.is_some_and(|holds| holds != 0) {
            return;
        }
        let ((), mut ended) = self.apart(then);
        if ended.is_empty() && holds_now.is_none() {
            return self.set(broken, not(holds), span);
        }
        ended.extend(self.apart(|lower| lower.set(broken, number(1, 1, span), span)).1);
        match holds_now {
            Some(_) => self.out.extend(ended),
            None => self.push(ast::StmtKind::If(not(holds), ended, Vec::new()), span),
        }
    }

    /// No further iteration if this is so, or if the body has left the loop.
    fn break_if(&mut self, marks: &Iteration, is_so: AstExpr, span: SourceSpan) {
        let Some(broken) = &marks.broken else { return };
        match known(&is_so) {
            Some(0) => {}
            Some(_) => self.set(broken, number(1, 1, span), span),
            None => {
                let ends = binary(AstBin::LogicalOr, broken.clone(), is_so, span);
                self.set(broken, ends, span);
            }
        }
    }

    /// A loop of which nothing is known.
    pub(super) fn for_counted_later(
        &mut self,
        init: &[Stmt],
        condition: &Expr,
        update: &[Stmt],
        body: &Stmt,
        span: SourceSpan,
    ) {
        if !self.may_count_later(span) {
            return;
        }
        init.iter().for_each(|one| self.statement(one));
        let marks = self.begin_counting(body, span);
        let holds = self.scalar(condition);
        self.break_unless(&marks, holds, span, |_| {});
        let mut always = false;
        for _ in 0..self.iterations_max(body) {
            if !self.is_within_bounds(span) {
                return;
            }
            self.unless_broken(&marks, span, |lower| {
                lower.iteration(&marks, body, span);
                lower.unless_left(&marks, span, |lower| {
                    update.iter().for_each(|one| lower.statement(one));
                    let holds = lower.scalar(condition);
                    always = known(&holds).is_some_and(|holds| holds != 0);
                    lower.break_unless(&marks, holds, span, |_| {});
                });
            });
        }
        self.unless_broken(&marks, span, |lower| lower.drop_if_more(number(1, 1, span), span));
        if always && !may_leave(body) {
            self.unsupported(condition.span, "this loop never ends");
        }
    }

    /// A loop over a range whose limits are not known.
    pub(super) fn for_range_later(
        &mut self,
        decl: &Rc<Decl>,
        (low, high): (AstExpr, AstExpr),
        body: &Stmt,
        span: SourceSpan,
    ) {
        if !self.may_count_later(span) {
            return;
        }
        let ty = self.declared(decl.id);
        let bits = self.bits(&ty, span);
        let high = self.stored_as(&Val::Scalar(high), &ty, "last", span);
        let starts_known = known(&low);
        let mut at = match starts_known {
            Some(low) => number(low, bits, span),
            None => self.stored_as(&Val::Scalar(low), &ty, "at", span),
        };
        let writes = self.writes_to(body, &decl.name.value, true);
        let own = writes.then(|| self.storage(&ty, &decl.name.value, span));
        let marks = self.begin_counting(body, span);
        let within = self.operate(Binary::Op(AstBin::Le), at.clone(), high.clone(), &ty, span);
        self.break_unless(&marks, within, span, |_| {});
        for _ in 0..self.iterations_max(body) {
            if !self.is_within_bounds(span) {
                return;
            }
            let next =
                self.operate(Binary::Op(AstBin::Add), at.clone(), number(1, bits, span), &ty, span);
            self.unless_broken(&marks, span, |lower| {
                lower.bind_iteration(decl, &Val::Scalar(at.clone()), own.as_ref(), span);
                lower.iteration(&marks, body, span);
                let is_last =
                    lower.operate(Binary::Op(AstBin::Eq), at.clone(), high.clone(), &ty, span);
                lower.break_if(&marks, is_last, span);
                if starts_known.is_none() {
                    lower.set(&at, next.clone(), span);
                }
            });
            if starts_known.is_some() {
                at = next;
            }
        }
        self.unless_broken(&marks, span, |lower| lower.drop_if_more(number(1, 1, span), span));
    }

    /// A number in storage of its own.
    fn stored_as(&mut self, value: &Val, ty: &Type, name: &str, span: SourceSpan) -> AstExpr {
        match self.copied(value, ty, name, span) {
            Val::Scalar(place) => place,
            _ => number(0, 1, span),
        }
    }
}

/// A loop somewhere in this statement.
fn has_loop(statement: &Stmt) -> bool {
    walk::in_statement(statement, &mut |met| {
        matches!(met, Met::Statement(Stmt { kind: StmtKind::For { .. } | StmtKind::ForIn(..), .. }))
    })
}

/// Whether a statement may end the loop around it; a call may, since an action may have `exit`.
fn may_leave(statement: &Stmt) -> bool {
    walk::in_statement(statement, &mut |met| match met {
        Met::Statement(one) => {
            matches!(one.kind, StmtKind::Break | StmtKind::Return(_) | StmtKind::Exit)
        }
        Met::Expr(expr) => matches!(&*expr.kind, ExprKind::Call { .. }),
    })
}
