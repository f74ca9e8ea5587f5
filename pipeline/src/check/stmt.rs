//! Statements: from the syntax tree to blocks and operations.
//!
//! Called controls are inlined, so that one body contains all code that may run for a packet; an action stays an
//! action, because tables refer to it.

mod assign;
mod call;
mod control;
mod update;

use super::cx::{Binding, Cx, Env, Place};
use super::expr::Val;
use super::flow::{BLOCKS_MAX, Flow, OPS_MAX};
use super::names;
use super::scope::Symbol;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{Body, BuiltinReason, LValue, Op, SourceSpan, Term};
use std::collections::BTreeMap;

/// Deepest nesting of statements, called controls included.
const NESTING_MAX: usize = 64;

impl Cx<'_> {
    /// Lowers a control.
    pub(crate) fn control_body(&mut self, statements: &[Stmt]) -> Body {
        self.env = Env::at(Place::Control);
        self.body_here(statements)
    }

    /// Lowers a body in the current environment.
    fn body_here(&mut self, statements: &[Stmt]) -> Body {
        let mut flow = Flow::new();
        self.statements(&mut flow, statements);
        flow.end(Term::Return, None);
        self.finish_body(flow)
    }

    /// Lowers a list of statements, which is a scope for `let`.
    pub(super) fn statements(&mut self, flow: &mut Flow, statements: &[Stmt]) {
        if self.nesting >= NESTING_MAX {
            if let Some(first) = statements.first() {
                let text = format!("statements are nested deeper than {NESTING_MAX} levels");
                self.report.error(codes::TOO_DEEP, first.span, text);
            }
            return;
        }
        if flow.is_full() {
            if let Some(first) = statements.first().filter(|_| !flow.is_too_much) {
                self.report_too_much(first.span);
                flow.is_too_much = true;
            }
            return;
        }
        self.nesting += 1;
        self.env.open();
        let was_dead = flow.dead;
        for statement in statements {
            if flow.ended() {
                if !flow.dead {
                    self.unreached.push(statement.span);
                }
                flow.dead = true;
                let block = flow.block();
                flow.enter(block);
            }
            if !flow.dead {
                self.reached.insert(statement.span);
            }
            self.statement(flow, statement);
        }
        flow.dead = was_dead;
        self.env.close();
        self.nesting -= 1;
    }

    /// Warns of statements that are never reached, at none of the places where the code around them stands.
    pub(super) fn report_unreached(&mut self) {
        let ends = self.in_words_of(
            "`drop`, `punt`, `exit` and `return` end what stands before it",
            "`exit` and `return` end what stands before it",
        );
        for span in std::mem::take(&mut self.unreached) {
            if self.reached.insert(span) {
                self.report
                    .warning(codes::UNREACHABLE_CODE, span, "this is never reached")
                    .note(ends);
            }
        }
    }

    /// Reports a body that exceeds the limits, once.
    fn report_too_much(&mut self, span: SourceSpan) {
        let text =
            format!("here the code has more than {OPS_MAX} operations or {BLOCKS_MAX} blocks");
        let note = self.in_words_of(
            "each `if` makes up to three blocks, and called controls count at every call",
            "a loop is repeated as often as it may run, and each `if` in it makes up to three blocks",
        );
        self.report.error(codes::TOO_DEEP, span, text).note(note);
    }

    fn statement(&mut self, flow: &mut Flow, statement: &Stmt) {
        let span = statement.span;
        if self.env.in_update && !allowed_in_update(&statement.kind) {
            let text = "only assignments, `let`, `if` and `switch` may stand inside `update`";
            self.report
                .error(codes::WRONG_PLACE, span, text)
                .note("the entry is locked until the update is done");
            return;
        }
        match &statement.kind {
            StmtKind::Assign(path, slice, value) => {
                self.assign(flow, path, slice.as_ref(), value, span);
            }
            StmtKind::Let(name, value) => self.let_statement(flow, name, value, span),
            StmtKind::Call(name, args) => self.call_statement(flow, name, args, span),
            StmtKind::Drop(reason) => {
                if let Some(reason) = self.reason(reason.as_ref(), "dropped") {
                    flow.end(Term::Drop(reason), Some(span));
                }
            }
            StmtKind::Punt(reason) => {
                if let Some(reason) = self.reason(reason.as_ref(), "punted") {
                    flow.end(Term::Punt(reason), Some(span));
                }
            }
            StmtKind::Exit => flow.end(Term::Exit, Some(span)),
            StmtKind::Return => {
                let term = flow.returns.last().map_or(Term::Return, |to| Term::Jump(*to));
                flow.end(term, Some(span));
            }
            StmtKind::If(cond, then, otherwise) => self.if_statement(flow, cond, then, otherwise),
            StmtKind::Switch(value, cases, default) => {
                self.switch_statement(flow, value, cases, default);
            }
            StmtKind::Apply(apply) => self.apply_statement(flow, apply, span),
            StmtKind::CallControl(name, args) => self.call_control(flow, name, args, span),
            StmtKind::Update { register, index, alias, body } => {
                self.update(flow, register, index, alias, body, span);
            }
            StmtKind::Learn { table, key, action } => self.learn(flow, table, key, action, span),
        }
    }

    /// A reason by name; new names are added.
    fn reason(&mut self, name: Option<&Name>, otherwise: &str) -> Option<ReasonId> {
        let text = name.map_or(otherwise, |name| &name.value);
        if let Some(name) = name
            && name.value == BuiltinReason::None.name()
        {
            let text = "`none` is not a reason: it means that the packet is alive";
            return self.report.refuse(codes::RESERVED, name.span, text);
        }
        if let Some((id, _)) = self.ir.reasons.entries().find(|(_, known)| *known == text) {
            return Some(id);
        }
        if self.ir.reasons.len() >= 1024 {
            let text = "a program has at most 1024 reasons";
            if let Some(name) = name {
                self.report.error(codes::LIMITS, name.span, text);
            }
            return None;
        }
        Some(self.ir.reasons.push(text.to_string()))
    }

    /// An `if`, and those that are the whole `else` of the one before: a chain of them is one level deep, however long it is.
    fn if_statement(&mut self, flow: &mut Flow, cond: &AstExpr, then: &[Stmt], other: &[Stmt]) {
        let (mut cond, mut then, mut other) = (cond, then, other);
        let mut joins = Vec::new();
        loop {
            joins.push(self.then_branch(flow, cond, then));
            match other {
                [Stmt { kind: StmtKind::If(next, body, rest), .. }] if !flow.is_full() => {
                    cond = next;
                    then = body;
                    other = rest;
                }
                _ => break,
            }
        }
        self.statements(flow, other);
        for (join, reached) in joins.into_iter().rev() {
            let reached = reached || !flow.ended();
            flow.end(Term::Jump(join), None);
            if reached {
                flow.enter(join);
            }
        }
    }

    /// A condition and what is done where it holds; the flow goes on where it does not. The block behind both, and
    /// whether the first one gets there.
    fn then_branch(&mut self, flow: &mut Flow, cond: &AstExpr, then: &[Stmt]) -> (BlockId, bool) {
        let guards = self.guards.len();
        self.guard(cond);
        let condition = self.condition(cond);
        let (yes, no, join) = (flow.block(), flow.block(), flow.block());
        if let Some(cond_id) = condition {
            flow.end(Term::Branch { cond: cond_id, then: yes, otherwise: no }, Some(cond.span));
        } else {
            flow.end(Term::Jump(yes), None);
        }
        flow.enter(yes);
        self.statements(flow, then);
        let reached = !flow.ended();
        flow.end(Term::Jump(join), None);
        self.guards.truncate(guards);
        flow.enter(no);
        (join, reached)
    }

    /// Records the headers that a condition tests: code under it may refer to them.
    pub(crate) fn guard(&mut self, cond: &AstExpr) {
        let mut found = Vec::new();
        names::asked_in_expr(cond, &mut |name| found.push(name.to_string()));
        self.guards.extend(found);
    }

    fn switch_statement(
        &mut self,
        flow: &mut Flow,
        value: &AstExpr,
        cases: &[(Vec<AstExpr>, Vec<Stmt>)],
        default: &[Stmt],
    ) {
        let value_id = self.sized(value);
        let bits = value_id.map(|id| self.bits(id));
        let mut targets: Vec<(u128, BlockId)> = Vec::new();
        let mut seen: BTreeMap<u128, SourceSpan> = BTreeMap::new();
        let mut bodies = Vec::new();
        for (labels, body) in cases {
            let block = flow.block();
            bodies.push((block, body.as_slice()));
            for label in labels {
                if self.is_dashed_range(label) {
                    continue;
                }
                let Some(number) = self.const_value(label, bits) else { continue };
                match seen.insert(number, label.span) {
                    Some(first) => {
                        let text = format!("case {number} already exists");
                        self.report
                            .error(codes::DUPLICATE_CASE, label.span, text)
                            .label(first, "first here");
                    }
                    None => targets.push((number, block)),
                }
            }
        }
        let otherwise = flow.block();
        bodies.push((otherwise, default));
        if let Some(id) = value_id {
            let term = Term::Switch { value: id, cases: targets, default: otherwise };
            flow.end(term, Some(value.span));
        } else {
            flow.end(Term::Jump(otherwise), None);
        }
        self.branches(flow, bodies);
    }

    /// Lowers blocks that join behind.
    fn branches(&mut self, flow: &mut Flow, bodies: Vec<(BlockId, &[Stmt])>) {
        let join = flow.block();
        let mut reached = false;
        for (block, body) in bodies {
            flow.enter(block);
            self.statements(flow, body);
            reached |= !flow.ended();
            flow.end(Term::Jump(join), None);
        }
        if reached {
            flow.enter(join);
        }
    }

    fn apply_statement(&mut self, flow: &mut Flow, apply: &ApplyStmt, span: SourceSpan) {
        if self.env.place != Place::Control {
            let text = "a table is applied by ingress and egress, not by an action";
            self.report
                .error(codes::WRONG_PLACE, span, text)
                .help("apply it in the control, before or after this action");
            return;
        }
        let Some(table) = self.table_ref(&apply.table) else {
            // The branches are lowered all the same, for their own errors.
            let named = apply.actions.iter().map(|(_, body)| body);
            for body in [&apply.hit, &apply.miss].into_iter().chain(named) {
                self.statements(flow, body);
            }
            return;
        };
        let mut bodies: Vec<(BlockId, &[Stmt])> = Vec::new();
        let mut by_action: Vec<(ActionId, BlockId)> = Vec::new();
        let mut default: Option<&[Stmt]> = None;
        for (names, body) in &apply.actions {
            if names.iter().any(|name| name.value == "default") {
                self.default_alone(names);
                default = Some(body);
                continue;
            }
            let block = flow.block();
            bodies.push((block, body));
            for name in names {
                let Some(action) = self.action_ref(name) else { continue };
                if by_action.iter().any(|(known, _)| *known == action) {
                    let text = format!("action `{}` already exists", name.value);
                    self.report.error(codes::DUPLICATE_CASE, name.span, text);
                } else if self.listed(table, action, name) {
                    by_action.push((action, block));
                }
            }
        }
        let (hit, miss) = (flow.block(), flow.block());
        bodies.push((hit, default.unwrap_or(&apply.hit)));
        let miss_target = if default.is_some() {
            hit
        } else {
            bodies.push((miss, &apply.miss));
            miss
        };
        flow.end(Term::Apply { table, by_action, hit, miss: miss_target }, Some(span));
        self.branches(flow, bodies);
    }

    /// `default` is every other action, so it has no other label beside it.
    fn default_alone(&mut self, names: &[Name]) {
        if let Some(other) = names.iter().find(|name| name.value != "default") {
            let text = format!("`{}` is one of the actions that `default` stands for", other.value);
            self.report.error(codes::DUPLICATE_CASE, other.span, text).help("leave it out");
        }
    }

    /// Checks that a table lists an action.
    fn listed(&mut self, table: TableId, action: ActionId, name: &Name) -> bool {
        let Some(known) = self.ir.tables.get(table) else { return false };
        if known.actions.contains(&action) || known.default.action == action {
            return true;
        }
        let text = format!("table `{}` never runs `{}`", known.name, name.value);
        let listed: Vec<&str> = known
            .actions
            .iter()
            .filter_map(|id| self.ir.actions.get(*id))
            .map(|action| action.name.as_str())
            .collect();
        let help = format!("its actions: {}", listed.join(", "));
        self.report.error(codes::NOT_LISTED, name.span, text).help(help);
        false
    }

    /// `let`: a local with the width of its value.
    fn let_statement(&mut self, flow: &mut Flow, name: &Name, value: &AstExpr, span: SourceSpan) {
        let effect = self.effect(value);
        let binding = match effect {
            Err(()) => Binding::Poison,
            Ok(Some(effect)) => match effect.bits() {
                Some(bits) => {
                    let local = self.new_local(&name.value, bits);
                    self.run_effect(flow, effect, (LValue::Local(local), bits), span);
                    Binding::Value(local, bits)
                }
                None => self.needs_width(name, value),
            },
            Ok(None) => match self.value(value) {
                Val::Poison => Binding::Poison,
                Val::Typed(id) => {
                    let bits = self.bits(id);
                    let local = self.new_local(&name.value, bits);
                    flow.op(Op::Set(LValue::Local(local), id), span);
                    Binding::Value(local, bits)
                }
                Val::Int(_) | Val::Open(_) => self.needs_width(name, value),
            },
        };
        if let Some(Symbol::Instance(_)) = self.scope.symbol(&name.value) {
            let text = format!("`{}` is a header; a local of that name would hide it", name.value);
            self.report.error(codes::TWICE, name.span, text);
            return;
        }
        self.bind_local(name, binding);
    }

    fn needs_width(&mut self, name: &Name, value: &AstExpr) -> Binding {
        let text = format!("`{}` needs a width", name.value);
        // A cast cannot stand around an effect.
        let sized = self.sized_random(value);
        let sized = sized.unwrap_or_else(|| format!("bit<16>({})", self.text(value.span, "42")));
        let help = format!("as in `let {} = {sized}`", name.value);
        self.report.error(codes::NEEDS_WIDTH, value.span, text).help(help);
        Binding::Poison
    }
}

fn allowed_in_update(kind: &StmtKind) -> bool {
    use StmtKind::*;
    matches!(kind, Assign(..) | Let(..) | If(..) | Switch(..))
}
