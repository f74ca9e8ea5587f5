//! The parser, actions and controls as text.

use super::Printer;
use super::expr::local_name;
use crate::ir::code::Local;
use crate::ir::*;

impl Printer<'_> {
    pub(super) fn parser(&mut self) {
        let parser = &self.program.parser;
        let on_error = if parser.drop_on_error { "drop" } else { "ingress" };
        self.line(0, &format!("parser, {} states at most, on error {on_error}", parser.max_states));
        if let Some(egress) = parser.egress {
            let text = format!("egress begins in {}", self.target(Target::State(egress)));
            self.line(1, &text);
        }
        for (id, state) in parser.states.entries() {
            self.line(1, &format!("{id} {}:", state.name));
            for op in &state.ops {
                let text = self.parser_op(op);
                self.line(2, &text);
            }
            match &state.next {
                Transition::To(to) => {
                    let text = format!("-> {}", self.target(*to));
                    self.line(2, &text);
                }
                Transition::Select { keys, cases, default } => {
                    let text = format!("select {}", self.list(keys, &parser.locals));
                    self.line(2, &text);
                    for case in cases {
                        let patterns: Vec<String> =
                            case.patterns.iter().map(|pattern| self.pattern(pattern)).collect();
                        let text = format!("{} -> {}", patterns.join(", "), self.target(case.to));
                        self.line(3, &text);
                    }
                    let text = format!("default -> {}", self.target(*default));
                    self.line(3, &text);
                }
            }
        }
    }

    fn parser_op(&self, op: &ParserOp) -> String {
        let locals = &self.program.parser.locals;
        match op {
            ParserOp::Extract(id) => format!("extract {}", self.instance(*id)),
            ParserOp::ExtractNext(id) => format!("extract next {}", self.stack(*id)),
            ParserOp::ExtractAt(id, at) => {
                format!("extract {} at {}", self.instance(*id), self.expr(*at, locals))
            }
            ParserOp::SetValid(id) => format!("set_valid {}", self.instance(*id)),
            ParserOp::SetInvalid(id) => format!("set_invalid {}", self.instance(*id)),
            ParserOp::Advance(bits) => format!("advance {}", self.expr(*bits, locals)),
            ParserOp::BodyEnd(at) => format!("body_end {}", self.expr(*at, locals)),
            ParserOp::Set(to, value) => {
                format!("{} = {}", self.lvalue(to, locals), self.expr(*value, locals))
            }
            ParserOp::Verify(cond, error) => {
                format!("verify {} else {}", self.expr(*cond, locals), self.error(*error))
            }
        }
    }

    fn error(&self, id: ErrorId) -> String {
        self.program.errors.get(id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn target(&self, target: Target) -> String {
        match target {
            Target::State(id) => {
                let name = self.program.parser.states.get(id).map(|state| state.name.as_str());
                format!("{id} {}", name.unwrap_or("?"))
            }
            Target::Accept => "accept".to_string(),
            Target::Reject(error) => format!("reject {}", self.error(error)),
        }
    }

    fn pattern(&self, pattern: &Pattern) -> String {
        match pattern {
            Pattern::Any => "_".to_string(),
            Pattern::Value(value) => format!("{value:#x}"),
            Pattern::Mask { value, mask } => format!("{value:#x} &&& {mask:#x}"),
            Pattern::Range { low, high } => format!("{low:#x}..{high:#x}"),
            Pattern::Set(id) => {
                let set = self.program.value_sets.get(*id).map(|set| set.name.as_str());
                format!("@{}", set.unwrap_or("?"))
            }
        }
    }

    pub(super) fn actions(&mut self) {
        for (id, action) in self.program.actions.entries() {
            let params: Vec<String> = action
                .params
                .iter()
                .map(|param| format!("{}: {}", param.name, param.bits))
                .collect();
            self.line(0, &format!("action {id} {}({})", action.name, params.join(", ")));
            self.body(&action.body, action.params.len());
        }
    }

    pub(super) fn control(&mut self, name: &str, body: &Body) {
        self.line(0, name);
        self.body(body, 0);
    }

    /// Locals that are not parameters, then the blocks.
    fn body(&mut self, body: &Body, params: usize) {
        let locals: Vec<String> = body
            .locals
            .ids()
            .zip(&body.locals)
            .skip(params)
            .map(|(id, local)| format!("{}: {}", local_name(&body.locals, id), local.bits))
            .collect();
        if !locals.is_empty() {
            self.line(1, &format!("locals {}", locals.join(", ")));
        }
        for (id, block) in body.blocks.entries() {
            self.line(1, &format!("{id}:"));
            for op in &block.ops {
                let text = self.op(&op.op, &body.locals);
                self.line(2, &text);
            }
            let text = self.term(&block.term, &body.locals);
            self.line(2, &text);
        }
    }

    fn lvalue(&self, to: &LValue, locals: &IdVec<LocalId, Local>) -> String {
        match to {
            LValue::Field(instance, field) => self.field(*instance, *field),
            LValue::FieldSlice { instance, field, high, low } => {
                format!("{}[{high}:{low}]", self.field(*instance, *field))
            }
            LValue::Element { instance, field, index } => {
                format!("{}[{}]", self.field(*instance, *field), self.expr(*index, locals))
            }
            LValue::Meta(id) => {
                let name = self.program.metadata.get(*id).map(|meta| meta.name.as_str());
                format!("meta.{}", name.unwrap_or("?"))
            }
            LValue::Std(field) => format!("std.{}", field.name()),
            LValue::Local(id) => local_name(locals, *id),
        }
    }

    fn op(&self, op: &Op, locals: &IdVec<LocalId, Local>) -> String {
        let of = |id: &ExprId| self.expr(*id, locals);
        let to = |place: &LValue| self.lvalue(place, locals);
        match op {
            Op::Set(place, value) => format!("{} = {}", to(place), of(value)),
            Op::SetValid(id) => format!("set_valid {}", self.instance(*id)),
            Op::SetInvalid(id) => format!("set_invalid {}", self.instance(*id)),
            Op::CopyHeader { to, from } => {
                format!("copy {} = {}", self.instance(*to), self.instance(*from))
            }
            Op::PushFront(stack, count) => format!("push {} {count}", self.stack(*stack)),
            Op::PopFront(stack, count) => format!("pop {} {count}", self.stack(*stack)),
            Op::Call(action, args) => {
                format!("call {}({})", self.action(*action), self.list(args, locals))
            }
            Op::Count(id, index) => format!("count {id}[{}]", of(index)),
            Op::Meter { to: place, meter, index, color } => {
                let color = color.map(|color| format!(", {}", of(&color))).unwrap_or_default();
                format!("{} = execute {meter}[{}]{color}", to(place), of(index))
            }
            Op::RegisterLoad { register, index, first, locked } => {
                let lock = if *locked { " locked" } else { "" };
                let first = local_name(locals, *first);
                format!("load{lock} {first}.. = {register}[{}]", of(index))
            }
            Op::RegisterStore { register, index, first, cells, locked } => {
                let lock = if *locked { " locked" } else { "" };
                let first = local_name(locals, *first);
                format!("store{lock} {register}[{}] = {first}.. cells {cells:?}", of(index))
            }
            Op::Random { to: place, low, high } => {
                format!("{} = random {}..{}", to(place), of(low), of(high))
            }
            Op::Digest(id, values) => format!("digest {id}({})", self.list(values, locals)),
            Op::Clone(session) => format!("clone {}", of(session)),
            Op::CopyBytes { to, from } => {
                format!("{} = {}", self.field(to.0, to.1), self.field(from.0, from.1))
            }
            Op::Resubmit { received: false } => "resubmit".to_string(),
            Op::Resubmit { received: true } => "resubmit received".to_string(),
            Op::Recirculate => "recirculate".to_string(),
            Op::MarkWritten => "mark written".to_string(),
            Op::Truncate(bytes) => format!("truncate {}", of(bytes)),
            Op::UpdateCrc(id) => format!("update {id}"),
            Op::Learn { table, key, action, args } => {
                let (key, args) = (self.list(key, locals), self.list(args, locals));
                format!("learn {table}[{key}] -> {}({args})", self.action(*action))
            }
            Op::Extern { external, args, to: place } => {
                let result = place.as_ref().map(|place| format!("{} = ", to(place)));
                let args = self.list(args, locals);
                format!("{}{external}({args})", result.unwrap_or_default())
            }
        }
    }

    fn term(&self, term: &Term, locals: &IdVec<LocalId, Local>) -> String {
        let reason = |id: &ReasonId| {
            self.program.reasons.get(*id).cloned().unwrap_or_else(|| id.to_string())
        };
        match term {
            Term::Jump(to) => format!("jump {to}"),
            Term::Branch { cond, then, otherwise } => {
                format!("if {} {then} else {otherwise}", self.expr(*cond, locals))
            }
            Term::Switch { value, cases, default } => {
                let cases: Vec<String> =
                    cases.iter().map(|(value, to)| format!("{value:#x} {to}")).collect();
                let value = self.expr(*value, locals);
                format!("switch {value} [{}] default {default}", cases.join(", "))
            }
            Term::Apply { table, by_action, hit, miss } => {
                let name = self.program.tables.get(*table).map(|table| table.name.as_str());
                let by: Vec<String> = by_action
                    .iter()
                    .map(|(action, to)| format!("{} {to}, ", self.action(*action)))
                    .collect();
                let name = name.unwrap_or("?");
                format!("apply {table} {name} [{}hit {hit}, miss {miss}]", by.concat())
            }
            Term::Return => "return".to_string(),
            Term::Exit => "exit".to_string(),
            Term::Drop(id) => format!("drop {}", reason(id)),
            Term::Punt(id) => format!("punt {}", reason(id)),
        }
    }
}
